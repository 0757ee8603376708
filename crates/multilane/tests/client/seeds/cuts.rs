//! What happens to the links.

use std::time::Duration;

use tokio::time::sleep;

use super::{LINKS, Mode};
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

/// Sets the weather on every link.
pub(super) fn begin(links: &Links, chance: &Chance) {
    (0..LINKS).for_each(|link| links.set(link, weather(chance)));
}

/// All is well again.
pub(super) fn end(links: &Links) {
    (0..LINKS).for_each(|link| links.set(link, Link::Up(Weather::FAIR)));
}

/// Cuts links until dropped: one, several or all at once, by a reset, by silence, or by silence for what was there alone.
pub(super) async fn cut(links: &Links, chance: &Chance, mode: Mode) {
    // Always the same one stays up: a channel on another might not be back yet.
    let keeps = chance.below(LINKS as u64) as usize;
    loop {
        sleep(Duration::from_millis(50 + chance.below(1200))).await;
        let cut: Vec<usize> = match mode == Mode::AllMayGo && chance.percent(33) {
            true => (0..LINKS).collect(),
            false => (0..LINKS).filter(|_| chance.percent(45)).collect(),
        };
        let how = chance.below(5);
        for link in cut.into_iter().filter(|link| mode == Mode::AllMayGo || *link != keeps) {
            match how {
                0 | 1 => links.set(link, Link::Held),
                2 | 3 => links.set(link, Link::Broken),
                _ => links.forget(link),
            }
        }
        sleep(Duration::from_millis(chance.below(2500))).await;
        begin(links, chance);
    }
}
