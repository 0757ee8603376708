//! Counts what one thread does with one target.

use std::time::Duration;

use crate::engine::window::{Moment, Window};
use crate::profile::TimeSpan;
use crate::results::{Counts, Latency};

/// Intervals that are counted apart; what comes later is counted with the last one.
const INTERVALS_MAX: usize = 1 << 20;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
}

/// Reads and writes so far.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) read: Counts,
    pub(super) write: Counts,
    measure_latency: bool,
    interval: Option<Moment>,
}

impl Tally {
    /// Nothing yet.
    pub(super) fn new(span: &TimeSpan) -> Self {
        let interval = span.iops_interval.map(|interval| (interval.as_nanos() as Moment).max(1));
        Tally { read: Counts::default(), write: Counts::default(), measure_latency: span.measure_latency, interval }
    }

    /// Counts a request that was due and is answered, where that is within the window.
    pub(super) fn count(&mut self, window: &Window, kind: Kind, bytes: u64, due: Moment, answered: Moment) {
        if !window.counts(answered) {
            return;
        }
        let counts = match kind {
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
        };
        counts.requests += 1;
        counts.bytes += bytes;
        if self.measure_latency {
            let latency = counts.latency.get_or_insert_with(Latency::default);
            latency.record(Duration::from_nanos(answered.saturating_sub(due)));
        }
        if let Some(interval) = self.interval {
            count_in(&mut counts.per_interval, (answered - window.from) / interval);
        }
    }

    /// Ends the count: both kinds have all intervals of the window, and latencies where they are measured.
    pub(super) fn finish(mut self, window: &Window) -> (Counts, Counts) {
        let measured = window.measured().as_nanos() as Moment;
        let intervals = self.interval.map_or(0, |interval| measured.div_ceil(interval));
        let intervals = usize::try_from(intervals).unwrap_or(INTERVALS_MAX).min(INTERVALS_MAX);
        for counts in [&mut self.read, &mut self.write] {
            counts.per_interval.resize(intervals.max(counts.per_interval.len()), 0);
        }
        (self.read, self.write)
    }
}

fn count_in(intervals: &mut Vec<u64>, index: u64) {
    let index = usize::try_from(index).unwrap_or(INTERVALS_MAX).min(INTERVALS_MAX - 1);
    if intervals.len() <= index {
        intervals.resize(index + 1, 0);
    }
    intervals[index] += 1;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Moment = 1_000_000;

    fn span() -> TimeSpan {
        TimeSpan {
            warmup: Duration::from_millis(10),
            duration: Duration::from_millis(30),
            cooldown: Duration::from_millis(5),
            measure_latency: true,
            iops_interval: Some(Duration::from_millis(10)),
            ..TimeSpan::default()
        }
    }

    #[test]
    fn what_is_answered_within_the_window_counts() {
        let window = Window::begin(&span());
        let mut tally = Tally::new(&span());
        for answered in [9 * MS, 10 * MS, 25 * MS, 40 * MS - 1, 40 * MS] {
            tally.count(&window, Kind::Read, 4096, answered - 2 * MS, answered);
        }
        tally.count(&window, Kind::Write, 8192, 0, 20 * MS);
        let (read, write) = tally.finish(&window);
        assert_eq!((read.requests, read.bytes, read.per_interval), (3, 3 * 4096, vec![1, 1, 1]));
        assert_eq!((write.requests, write.bytes, write.per_interval), (1, 8192, vec![0, 1, 0]));
        let read = read.latency.unwrap();
        assert_eq!((read.nanoseconds.len(), read.sum), (3, 6e6));
        assert_eq!(write.latency.unwrap().sum, 20e6);
    }

    #[test]
    fn nothing_more_counts_once_it_is_cut_short() {
        let window = Window::begin(&TimeSpan { warmup: Duration::ZERO, ..span() });
        window.cut_short();
        let mut tally = Tally::new(&span());
        tally.count(&window, Kind::Read, 1, 0, window.to());
        assert_eq!(tally.finish(&window).0.requests, 0);
    }
}
