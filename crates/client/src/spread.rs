//! Whether what queues spreads over a session's channels. Where links or the server's cores are what limits, it moves sooner so; where the
//! cores that client and server have are busy anyway, several channels only give them more to do. What a client sees of either does not say which
//! it is, so it is tried: for some hundredths of a second requests spread, for as many they stay on the first channel, up to three times, and what moves
//! more is kept for some seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::shared::Shared;
use crate::ways::LITTLE_WORK_BYTES;

/// How long both ends take to get used to a course, and how long it is measured then. A kernel takes tens of milliseconds to move threads to cores
/// where they are not in each other's way.
const SETTLING: Duration = Duration::from_millis(30);
const SETTLING_MAX: Duration = Duration::from_millis(200);
const MEASURED: Duration = Duration::from_millis(20);
/// A channel has drained that has less to do than this: some requests may wait for another client.
const DRAINED_BYTES: u64 = 64 << 10;
/// How long that may take.
const DRAINED_MAX: Duration = Duration::from_millis(150);
/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long to wait before the next trial: longer each time, and longer still where one channel moves so much less that each trial costs more.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(4);
const PAUSE_TIMES_MAX: f64 = 4.0;
/// A trial measures both courses at most so often: on busy cores one of two measurements may be half of the other.
const PAIRS_MAX: usize = 3;
/// Where requests that spread move so many times as much they go on so at once.
const CLEAR: f64 = 3.0;
/// So many times as much is not chance where two measurements agree.
const PLAIN: f64 = 1.2;
/// Spreading has to gain so much: what is equal but for chance stays on one channel.
const GAIN_MIN: f64 = 1.05;

/// Which way a session's requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// To the first channel that has time for them, and where none has to that with least to do.
    Spread,
    /// To the first channel alone, as long as it has credits.
    First,
}

impl Course {
    fn other(self) -> Self {
        match self {
            Course::Spread => Course::First,
            Course::First => Course::Spread,
        }
    }
}

/// The course that requests take, and what trials have shown.
#[derive(Default)]
pub(crate) struct Spread {
    stays_on_first: AtomicBool,
    trials: Mutex<Trials>,
}

#[derive(Default)]
struct Trials {
    is_under_way: bool,
    /// What it shows is of channels that were others, or of one that may be dead.
    is_void: bool,
    next: Option<Instant>,
    pause: Duration,
    /// How many times as much is moved where requests spread, as the last trial has shown that could be measured.
    gain: Option<f64>,
}

impl Spread {
    /// True where requests stay on the first channel.
    pub(crate) fn stays_on_first(&self) -> bool {
        self.stays_on_first.load(Ordering::Relaxed)
    }

    /// A channel may be dead: requests go to those that take them.
    pub(crate) fn leave_first(&self) {
        let mut trials = self.trials.lock();
        trials.is_void = trials.is_under_way;
        self.take(Course::Spread);
    }

    /// The channels are others now.
    pub(crate) fn forget(&self) {
        let mut trials = self.trials.lock();
        let is_under_way = trials.is_under_way;
        *trials = Trials { is_under_way, is_void: is_under_way, ..Trials::default() };
        self.take(Course::Spread);
    }

    fn course(&self) -> Course {
        if self.stays_on_first() { Course::First } else { Course::Spread }
    }

    fn take(&self, course: Course) {
        self.stays_on_first.store(course == Course::First, Ordering::Relaxed);
    }

    /// Goes on with a trial; `None` where it is void.
    fn try_course(&self, course: Course) -> Option<()> {
        let trials = self.trials.lock();
        (!trials.is_void).then(|| self.take(course))
    }

    /// Ends a trial that showed such a gain, or none because it could not be measured; the course that is kept until the next one.
    fn end_trial(&self, gain: Option<f64>) -> Course {
        let mut trials = self.trials.lock();
        let course = trials.end(gain);
        self.take(course);
        course
    }
}

impl Trials {
    /// True where it is time to try; the trial then has begun.
    fn begin(&mut self) -> bool {
        let begins = !self.is_under_way && self.next.is_none_or(|next| Instant::now() >= next);
        self.is_under_way |= begins;
        begins
    }

    fn end(&mut self, gain: Option<f64>) -> Course {
        let gain = gain.filter(|_| !std::mem::take(&mut self.is_void));
        let pause_max = PAUSE_MAX.mul_f64(gain.unwrap_or(1.0).clamp(1.0, PAUSE_TIMES_MAX));
        self.pause = (self.pause * 2).clamp(PAUSE_MIN, pause_max);
        self.next = Some(Instant::now() + self.pause);
        self.is_under_way = false;
        let Some(gain) = gain else { return Course::Spread };
        // What gained before is given up once two trials agree.
        match self.gain.replace(gain).map_or(gain, |before| before.max(gain)) {
            gain if gain < GAIN_MIN => Course::First,
            _ => Course::Spread,
        }
    }
}

impl Shared {
    /// Tries both courses, where there is enough to do and it is time to.
    pub(crate) fn try_spreading(self: &Arc<Self>) {
        let may_gain = self.ways.load().as_ref().is_some_and(|ways| ways.channels.len() > 1 && ways.has_much_to_do());
        if !may_gain || !self.spread.trials.lock().begin() {
            return;
        }
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let gain = shared.gain().await;
            let course = shared.spread.end_trial(gain);
            tracing::debug!(?gain, ?course, "tried several channels and one");
        });
    }

    /// How many times as much is moved where requests spread; `None` where that cannot be told.
    async fn gain(&self) -> Option<f64> {
        let mut gains = Vec::with_capacity(PAIRS_MAX);
        // What there is to do may just have begun.
        let mut course = self.spread.course();
        self.settle().await;
        while !is_enough(&gains) {
            let moved = self.measure().await?;
            course = course.other();
            self.go_on(course).await?;
            let moved_otherwise = self.measure().await?;
            let (spread, first) = match course {
                Course::Spread => (moved_otherwise, moved),
                Course::First => (moved, moved_otherwise),
            };
            gains.push(spread / first);
        }
        gains.sort_by(f64::total_cmp);
        // The middle one of three; where there are two, both say the same.
        Some(gains[gains.len() / 2])
    }

    /// Has requests take such a course, and waits until both ends are used to it; `None` where that takes long.
    async fn go_on(&self, course: Course) -> Option<()> {
        self.spread.try_course(course)?;
        if course == Course::First {
            self.drain_others().await?;
        }
        self.settle().await;
        Some(())
    }

    /// Waits as long as answers take that were asked for before, at least.
    async fn settle(&self) {
        let latency = self.ways.load().as_ref().and_then(|ways| ways.channels.first()?.connection.latency());
        sleep(SETTLING.max(latency.unwrap_or_default()).min(SETTLING_MAX)).await;
    }

    /// Bytes that are moved in a second, one at least; `None` where there is too little to do to tell.
    async fn measure(&self) -> Option<f64> {
        let (begun, before) = (Instant::now(), self.moved_bytes()?);
        sleep(MEASURED).await;
        // There are fewer than before where the channels are others.
        let bytes = self.moved_bytes()?.checked_sub(before)?.max(1);
        let work: u64 = self.ways.load().as_ref()?.channels.iter().map(|channel| channel.work()).sum();
        (work >= LITTLE_WORK_BYTES).then(|| bytes as f64 / begun.elapsed().as_secs_f64())
    }

    /// Bytes that all channels have received and sent.
    fn moved_bytes(&self) -> Option<u64> {
        let of = |(received, sent): (u64, u64)| received + sent;
        self.ways.load().as_ref().map(|ways| ways.channels.iter().map(|channel| of(channel.connection.bytes())).sum())
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

/// True where such gains tell which course moves more, or measuring once more would not.
fn is_enough(gains: &[f64]) -> bool {
    match gains {
        [] => false,
        // One alone may be what chance has spoiled: nothing is given up for it.
        [gain] => *gain > CLEAR,
        [one, other] => one.min(*other) > PLAIN || one.max(*other) < 1.0 / PLAIN,
        _ => gains.len() >= PAIRS_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The courses that are kept after trials that showed such gains.
    fn kept(gains: &[Option<f64>]) -> Vec<Course> {
        let mut trials = Trials::default();
        gains.iter().map(|gain| trials.end(*gain)).collect()
    }

    #[test]
    fn what_moves_more_is_kept_and_the_first_channel_where_both_move_as_much() {
        use Course::{First, Spread};
        assert_eq!(kept(&[Some(3.9), Some(1.2)]), [Spread, Spread]);
        assert_eq!(kept(&[Some(1.02), Some(0.9)]), [First, First]);
        assert_eq!(kept(&[None]), [Spread]);
    }

    #[test]
    fn one_trial_that_chance_spoiled_does_not_give_up_links_and_two_that_agree_do() {
        use Course::{First, Spread};
        for gain in [1.1, 2.0, 3.9] {
            assert_eq!(kept(&[Some(gain), Some(0.05), Some(gain)]), [Spread, Spread, Spread]);
            assert_eq!(kept(&[Some(gain), Some(0.6), Some(0.6)]), [Spread, Spread, First]);
            assert_eq!(kept(&[Some(gain), None, Some(0.6)]), [Spread, Spread, Spread]);
        }
        assert_eq!(kept(&[Some(0.6), Some(3.9)]), [First, Spread]);
    }

    #[tokio::test(start_paused = true)]
    async fn trials_are_one_at_a_time_and_less_and_less_often() {
        for (gain, pauses) in [(0.9, [1, 2, 4, 4, 4, 4]), (2.0, [1, 2, 4, 8, 8, 8]), (50.0, [1, 2, 4, 8, 16, 16])] {
            let mut trials = Trials::default();
            for pause in pauses.map(Duration::from_secs) {
                assert!(trials.begin() && !trials.begin());
                trials.end(Some(gain));
                tokio::time::advance(pause - Duration::from_millis(1)).await;
                assert!(!trials.begin(), "{gain}, {pause:?}");
                tokio::time::advance(Duration::from_millis(1)).await;
            }
        }
    }

    #[test]
    fn what_is_clear_is_measured_once_what_agrees_twice_and_all_else_three_times() {
        for (gains, count) in [
            ([3.9, 3.9, 3.9], 1),
            ([0.2, 0.2, 0.2], 2),
            ([1.5, 1.3, 1.0], 2),
            ([0.6, 0.7, 1.0], 2),
            ([1.5, 1.1, 1.0], 3),
            ([2.0, 0.6, 0.7], 3),
        ] {
            assert_eq!((0..).find(|number| is_enough(&gains[..*number])), Some(count), "{gains:?}");
        }
    }

    #[test]
    fn a_trial_shows_nothing_where_a_channel_may_be_dead_or_the_channels_are_others() {
        for (what, happens) in [("suspect", Spread::leave_first as fn(&Spread)), ("others", Spread::forget)] {
            let spread = Spread::default();
            assert!(spread.trials.lock().begin());
            assert_eq!(spread.try_course(Course::First), Some(()));
            happens(&spread);
            assert_eq!(spread.course(), Course::Spread, "{what}");
            assert_eq!(spread.try_course(Course::First), None, "{what}");
            assert_eq!(spread.end_trial(Some(0.5)), Course::Spread, "{what}");
            // The next one counts.
            assert_eq!(spread.end_trial(Some(0.5)), Course::First, "{what}");
            happens(&spread);
            assert_eq!(spread.course(), Course::Spread, "{what}");
        }
    }
}
