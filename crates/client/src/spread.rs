//! Whether what queues spreads over a session's channels. Where links or the server's cores are what limits, it moves sooner so; where the
//! cores that client and server have are busy anyway, several channels only give them more to do. Nothing tells the one from the other but
//! trying: for some milliseconds requests spread, for as many they stay on the first channel, as often as it takes to tell the one from the other,
//! and the way that moves more is kept for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::shared::Shared;

/// How long both ends take to get used to a way, and how long it is measured then. A kernel takes tens of milliseconds to move threads to cores
/// where they are not in each other's way.
const SETTLING: Duration = Duration::from_millis(30);
const MEASURED: Duration = Duration::from_millis(20);
/// A channel has drained that has less to do than this: some requests may wait for another client.
const DRAINED_BYTES: u64 = 64 << 10;
/// What has not drained from the other channels by then waits for links: no processor has such queues.
const DRAINED_MAX: Duration = Duration::from_millis(50);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long to wait before the next trial: longer each time.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(4);
/// A trial measures both ways at most so often: on busy cores one of two measurements may be half of the other.
const PAIRS_MAX: usize = 3;
/// One way moves so many times as much as the other: once that is not chance.
const CLEAR: f64 = 3.0;
/// So many times as much is none if it is seen twice.
const PLAIN: f64 = 1.2;
/// Spreading has to gain so much: what is equal but for chance stays on one channel.
const GAIN_MIN: f64 = 1.05;

/// Which way a session's requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// To the channel with least to do.
    Spread,
    /// To the first channel alone, as long as it has credits.
    First,
}

impl Way {
    fn other(self) -> Self {
        match self {
            Way::Spread => Way::First,
            Way::First => Way::Spread,
        }
    }
}

/// The way that requests go, and what trials have shown.
#[derive(Default)]
pub(crate) struct Spread {
    stays_on_first: AtomicBool,
    trials: Mutex<Trials>,
}

#[derive(Default)]
struct Trials {
    is_under_way: bool,
    next: Option<Instant>,
    pause: Duration,
    /// How many times as much is moved where requests spread; of several trials the later ones count for more.
    gain: Option<f64>,
}

impl Spread {
    /// True where requests stay on the first channel.
    pub(crate) fn stays_on_first(&self) -> bool {
        self.stays_on_first.load(Ordering::Relaxed)
    }

    /// A channel may be dead: requests go to those that take them.
    pub(crate) fn leave_first(&self) {
        self.go(Way::Spread);
    }

    fn go(&self, way: Way) {
        self.stays_on_first.store(way == Way::First, Ordering::Relaxed);
    }
}

impl Trials {
    /// True where it is time to try; the trial then has begun.
    fn begin(&mut self) -> bool {
        let begins = !self.is_under_way && self.next.is_none_or(|next| Instant::now() >= next);
        self.is_under_way |= begins;
        begins
    }

    /// Ends a trial that showed such a gain, or none because it could not be measured; the way to keep until the next one.
    fn end(&mut self, gain: Option<f64>) -> Way {
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.next = Some(Instant::now() + self.pause);
        self.is_under_way = false;
        self.gain = gain.map(|gain| (self.gain.unwrap_or(gain) * gain).sqrt());
        match self.gain {
            Some(gain) if gain < GAIN_MIN => Way::First,
            Some(_) | None => Way::Spread,
        }
    }
}

impl Shared {
    /// Tries both ways, where there is enough to do and it is time to.
    pub(crate) fn try_ways(self: &Arc<Self>) {
        let has_several = self.ways.load().as_ref().is_some_and(|ways| ways.channels.len() > 1);
        if !has_several || !self.has_much_to_do() || !self.spread.trials.lock().begin() {
            return;
        }
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let gain = shared.gain().await;
            let way = shared.spread.trials.lock().end(gain);
            shared.spread.go(way);
            tracing::debug!(?gain, ?way, "tried several channels and one");
        });
    }

    /// How many times as much is moved where requests spread; `None` where that cannot be told.
    async fn gain(&self) -> Option<f64> {
        let mut gains = Vec::with_capacity(PAIRS_MAX);
        // What goes on already comes first: it was settled.
        let mut way = if self.spread.stays_on_first() { Way::First } else { Way::Spread };
        sleep(SETTLING).await;
        while !is_enough(&gains) {
            let moved = self.measure().await?;
            way = way.other();
            self.take(way).await?;
            let moved_otherwise = self.measure().await?;
            gains.push(if way == Way::Spread { moved_otherwise / moved } else { moved / moved_otherwise });
        }
        gains.sort_by(f64::total_cmp);
        // The middle one of three; where there are two, both say the same.
        Some(gains[gains.len() / 2])
    }

    /// Has requests go such a way, and waits until both ends are used to it; `None` where that takes long.
    async fn take(&self, way: Way) -> Option<()> {
        self.spread.go(way);
        if way == Way::First {
            self.drain_others().await?;
        }
        sleep(SETTLING).await;
        Some(())
    }

    /// Bytes that are moved in a second; `None` where there are none.
    async fn measure(&self) -> Option<f64> {
        let (begun, before) = (Instant::now(), self.moved_bytes()?);
        sleep(MEASURED).await;
        // There is less than before where a channel was lost.
        let bytes = self.moved_bytes()?.checked_sub(before).filter(|bytes| *bytes > 0)?;
        Some(bytes as f64 / begun.elapsed().as_secs_f64())
    }

    /// Bytes that all channels have moved.
    fn moved_bytes(&self) -> Option<u64> {
        self.ways.load().as_ref().map(|ways| ways.channels.iter().map(|channel| channel.moved_bytes()).sum())
    }

    /// Waits until all channels but the first have next to nothing to do; `None` where that takes long.
    async fn drain_others(&self) -> Option<()> {
        let until = Instant::now() + DRAINED_MAX;
        while self.ways.load().as_ref()?.channels.iter().skip(1).any(|channel| channel.work() >= DRAINED_BYTES) {
            if Instant::now() >= until {
                return None;
            }
            sleep(LOOK_EVERY).await;
        }
        Some(())
    }
}

/// True where such gains tell which way moves more, or measuring once more would not.
fn is_enough(gains: &[f64]) -> bool {
    let all_beyond =
        |bound: f64| gains.iter().all(|gain| *gain > bound) || gains.iter().all(|gain| *gain < 1.0 / bound);
    match gains.len() {
        0 => false,
        1 => all_beyond(CLEAR),
        2 => all_beyond(PLAIN),
        count => count >= PAIRS_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ways that are kept after trials that showed such gains.
    fn kept(gains: &[Option<f64>]) -> Vec<Way> {
        let mut trials = Trials::default();
        gains.iter().map(|gain| trials.end(*gain)).collect()
    }

    #[test]
    fn the_way_that_moves_more_is_kept_and_the_first_channel_where_both_move_as_much() {
        use Way::{First, Spread};
        assert_eq!(kept(&[Some(3.9), Some(1.2)]), [Spread, Spread]);
        assert_eq!(kept(&[Some(1.02), Some(0.9)]), [First, First]);
        assert_eq!(kept(&[None]), [Spread]);
    }

    #[test]
    fn one_trial_that_chance_spoiled_does_not_give_up_links_and_two_that_agree_do() {
        use Way::{First, Spread};
        assert_eq!(kept(&[Some(3.9), Some(0.3), Some(3.9)]), [Spread, Spread, Spread]);
        assert_eq!(kept(&[Some(3.9), Some(0.6), Some(0.6)]), [Spread, Spread, First]);
        assert_eq!(kept(&[Some(0.6), Some(3.9)]), [First, Spread]);
    }

    #[tokio::test(start_paused = true)]
    async fn trials_are_one_at_a_time_and_less_and_less_often() {
        let mut trials = Trials::default();
        for pause in [1, 2, 4, 4, 4].map(Duration::from_secs) {
            assert!(trials.begin() && !trials.begin());
            trials.end(Some(0.9));
            tokio::time::advance(pause - Duration::from_millis(1)).await;
            assert!(!trials.begin(), "{pause:?}");
            tokio::time::advance(Duration::from_millis(1)).await;
        }
    }

    #[test]
    fn what_is_clear_is_measured_once_what_agrees_twice_and_all_else_three_times() {
        for (gains, count) in [
            ([3.9, 3.9, 3.9], 1),
            ([0.2, 0.2, 0.2], 1),
            ([1.5, 1.3, 1.0], 2),
            ([0.6, 0.7, 1.0], 2),
            ([1.5, 1.1, 1.0], 3),
            ([2.0, 0.6, 0.7], 3),
        ] {
            assert_eq!((0..).find(|number| is_enough(&gains[..*number])), Some(count), "{gains:?}");
        }
    }
}
