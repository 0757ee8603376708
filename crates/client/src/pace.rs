//! How fast a connection drains, as its answers tell: on a slow link what was sent takes long, and silence until then is no sign of loss.

use std::time::Duration;

/// A smaller request says nothing of the link: the server's own time counts for more, and what is ahead of it may be through already.
const SAMPLE_BYTES_MIN: u64 = 64 << 10;
/// Bytes a second of a link of which nothing is known yet.
const UNKNOWN: u64 = 256 << 10;
/// How long anybody waits for bytes to drain: a server that was slow to answer makes its link look slow.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// What the answers have told so far.
#[derive(Default)]
pub(crate) struct Pace {
    /// Bytes of requests that wait for their answers.
    waiting_bytes: u64,
    bytes_per_second: Option<u64>,
}

/// A request's part in it.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    bytes: u64,
    /// What has to drain until its answer can come, its own bytes among it.
    ahead_bytes: u64,
}

impl Pace {
    /// A request of so many bytes, about, waits for its answer.
    pub(crate) fn add(&mut self, bytes: usize) -> Load {
        self.waiting_bytes += bytes as u64;
        Load { bytes: bytes as u64, ahead_bytes: self.waiting_bytes }
    }

    /// Its answer came after `took`; one that the server had announced to take long says nothing of the link.
    pub(crate) fn remove(&mut self, load: Load, took: Duration, was_pending: bool) {
        self.waiting_bytes = self.waiting_bytes.saturating_sub(load.bytes);
        if load.bytes < SAMPLE_BYTES_MIN || was_pending {
            return;
        }
        let milliseconds = u64::try_from(took.as_millis()).unwrap_or(u64::MAX).max(1);
        let sample = load.ahead_bytes.saturating_mul(1000) / milliseconds;
        self.bytes_per_second = Some(self.bytes_per_second.map_or(sample, |before| (before + sample) / 2));
    }

    /// How long what is on its way may take to drain, twice over; `queued_bytes` of what waits have not been sent yet.
    pub(crate) fn drain(&self, queued_bytes: u64) -> Duration {
        let sent_bytes = self.waiting_bytes.saturating_sub(queued_bytes);
        let bytes_per_second = self.bytes_per_second.unwrap_or(UNKNOWN).max(1);
        Duration::from_millis(sent_bytes.saturating_mul(2000) / bytes_per_second).min(DRAIN_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_link_that_drains_slowly_is_given_time_and_a_fast_one_is_not() {
        for (took, patience) in [(8000, 10_000), (1000, 2000), (10, 20)] {
            let mut pace = Pace::default();
            let load = pace.add(MIB);
            pace.remove(load, Duration::from_millis(took), false);
            pace.add(MIB);
            assert_eq!(pace.drain(0).as_millis(), patience);
        }
    }

    #[test]
    fn only_what_is_on_its_way_counts() {
        let mut pace = Pace::default();
        assert_eq!(pace.drain(0), Duration::ZERO);
        pace.add(3 * MIB);
        assert_eq!(pace.drain(2 * MIB as u64), Duration::from_secs(8));
        assert_eq!(pace.drain(4 * MIB as u64), Duration::ZERO);
    }

    #[test]
    fn small_requests_and_those_that_wait_for_others_say_nothing() {
        let mut pace = Pace::default();
        for (bytes, was_pending) in [(200, false), (MIB, true)] {
            let load = pace.add(bytes);
            pace.remove(load, Duration::from_secs(30), was_pending);
        }
        let large = pace.add(MIB);
        let small = pace.add(200);
        pace.remove(small, Duration::from_millis(1), false);
        pace.remove(large, Duration::from_secs(4), false);
        pace.add(MIB / 2);
        assert_eq!(pace.drain(0), Duration::from_secs(4));
    }
}
