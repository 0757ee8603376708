//! When the requests of one thread to one target are due: at once, at a rate, or in bursts with pauses between them.

use crate::engine::window::Moment;
use crate::profile::{Target, Throughput};

/// Says when the next request is due.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    /// Nanoseconds between two requests, with a limit.
    interval: Option<f64>,
    /// Requests so far.
    requests: u64,
    burst: Option<Burst>,
}

#[derive(Clone, Debug)]
struct Burst {
    requests: u64,
    think_time: Moment,
    /// When the burst under way may begin.
    opens: Moment,
}

impl Pace {
    /// The pace that a target asks for.
    pub(super) fn of(target: &Target) -> Self {
        let interval = target.throughput.map(|limit| match limit {
            Throughput::Iops(rate) => 1e9 / f64::from(rate.max(1)),
            Throughput::BytesPerMillisecond(rate) => 1e6 * f64::from(target.block_bytes) / f64::from(rate.max(1)),
        });
        let burst = target.burst.map(|burst| Burst {
            requests: u64::from(burst.requests.max(1)),
            think_time: u64::try_from(burst.think_time.as_nanos()).unwrap_or(u64::MAX),
            opens: 0,
        });
        Pace { interval, requests: 0, burst }
    }

    /// Takes the next request of whoever is free since `free`. With a limit it is due by the schedule, which does not wait for answers: what
    /// is late is due in the past, so that its latency holds what it waited for.
    pub(super) fn next(&mut self, free: Moment) -> Moment {
        let turn = self.requests;
        self.requests += 1;
        let opens = self.burst.as_mut().map_or(0, |burst| {
            if turn > 0 && turn.is_multiple_of(burst.requests) {
                burst.opens = free.saturating_add(burst.think_time);
            }
            burst.opens
        });
        let scheduled = self.interval.map_or(free, |interval| (turn as f64 * interval) as Moment);
        scheduled.max(opens)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::profile;

    fn dues(target: &Target, free: &[Moment]) -> Vec<Moment> {
        let mut pace = Pace::of(target);
        free.iter().map(|free| pace.next(*free)).collect()
    }

    #[test]
    fn without_a_limit_a_request_is_due_when_its_slot_is_free() {
        assert_eq!(dues(&Target::new("x"), &[0, 0, 17, 35]), [0, 0, 17, 35]);
    }

    #[test]
    fn a_rate_is_a_schedule_that_does_not_wait_for_answers() {
        let target = Target { throughput: Some(Throughput::Iops(1000)), ..Target::new("x") };
        assert_eq!(dues(&target, &[0, 10, 9_000_000, 9_000_001]), [0, 1_000_000, 2_000_000, 3_000_000]);
    }

    #[test]
    fn a_rate_of_bytes_counts_blocks() {
        let throughput = Some(Throughput::BytesPerMillisecond(32));
        let target = Target { throughput, block_bytes: 64, ..Target::new("x") };
        assert_eq!(dues(&target, &[0, 0, 0]), [0, 2_000_000, 4_000_000]);
    }

    #[test]
    fn after_a_burst_comes_a_pause() {
        let burst = Some(profile::Burst { requests: 2, think_time: Duration::from_nanos(100) });
        let target = Target { burst, ..Target::new("x") };
        assert_eq!(dues(&target, &[0, 1, 5, 6, 205, 206]), [0, 1, 105, 105, 305, 305]);
    }
}
