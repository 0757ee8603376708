//! What happens to the links.

use std::time::Duration;

use tokio::time::sleep;

use super::LINKS;
use crate::chance::Chance;
use crate::line::{Link, Weather};
use crate::network::Links;

/// From good to bad: what is sent first on one channel arrives long after what is sent later on another.
const WEATHERS: [Weather; 4] = [
    Weather::FAIR,
    Weather { delay_max: 3, stall_percent: 5, stall_max: 30 },
    Weather { delay_max: 10, stall_percent: 10, stall_max: 250 },
    Weather { delay_max: 2, stall_percent: 4, stall_max: 900 },
];

fn weather(chance: &Chance) -> Link {
    Link::Up(WEATHERS[chance.below(WEATHERS.len() as u64) as usize])
}

/// The worst of a link that no client may give up: what goes there and back stands still for less than the 1.2 s that are taken for death.
const FORGIVABLE: Weather = WEATHERS[2];

/// Sets the weather on every link; on the one that is kept it is never so bad that a client takes it for dead.
pub(super) fn begin(links: &Links, chance: &Chance, kept: Option<usize>) {
    for link in 0..LINKS {
        match weather(chance) {
            Link::Up(weather) if kept == Some(link) && weather.stall_max > FORGIVABLE.stall_max => {
                links.set(link, Link::Up(FORGIVABLE));
            }
            weather => links.set(link, weather),
        }
    }
}

/// All is well again.
pub(super) fn end(links: &Links) {
    (0..LINKS).for_each(|link| links.set(link, Link::Up(Weather::FAIR)));
}

/// Cuts links until dropped, but for the one that is kept: one, several or all at once, by a reset, by silence, or by silence for what was
/// there alone.
pub(super) async fn cut(links: &Links, chance: &Chance, kept: Option<usize>) {
    loop {
        sleep(Duration::from_millis(50 + chance.below(1200))).await;
        let cut: Vec<usize> = match kept.is_none() && chance.percent(33) {
            true => (0..LINKS).collect(),
            false => (0..LINKS).filter(|_| chance.percent(45)).collect(),
        };
        let how = chance.below(5);
        for link in cut.into_iter().filter(|link| kept != Some(*link)) {
            match how {
                0 | 1 => links.set(link, Link::Held),
                2 | 3 => links.set(link, Link::Broken),
                _ => links.forget(link),
            }
        }
        sleep(Duration::from_millis(chance.below(2500))).await;
        begin(links, chance, kept);
    }
}
