//! The figures that people look at first.

use std::time::Duration;

use server::admin::{Counts, ResponseType, Sum};

use crate::latency::{Latencies, USEFUL_WORK};

/// How fast something was, and what it waited for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Requests in all.
    pub requests: u64,
    /// Requests a second.
    pub iops: f64,
    /// MiB a second that WRITEs brought.
    pub written_mib_s: f64,
    /// MiB a second that READs were answered with.
    pub read_mib_s: f64,
    /// The latency that half of the requests do not exceed that read, write or do something else with files; `None` where there were none,
    pub p50: Option<Duration>,
    /// and the one that 99 % do not exceed.
    pub p99: Option<Duration>,
    /// Requests that were refused or failed.
    pub errors: u64,
    /// Requests that were done after they had waited for a limit of their share.
    pub throttled: u64,
    /// How long all requests together were in the server.
    pub time: Duration,
    /// Of that, what they waited for.
    pub waited: WaitedFor,
}

/// How long all requests together have waited, by what for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitedFor {
    /// A limit of their share, or memory.
    pub budget: Duration,
    /// The store.
    pub store: Duration,
    /// Another client.
    pub other_client: Duration,
}

impl Figures {
    /// Those of what was counted in the time that has `passed`.
    pub fn of(counts: &Counts, passed: Duration) -> Figures {
        let sum = |of| counts.total(of);
        let with = |is_meant: fn(ResponseType) -> bool| -> u64 {
            let meant = ResponseType::ALL.iter().copied().filter(|response| is_meant(*response));
            meant.map(|response| counts.requests_with(response)).sum()
        };
        let a_second = |number: f64| if passed.is_zero() { 0.0 } else { number / passed.as_secs_f64() };
        let mib_a_second = |bytes: u64| a_second(bytes as f64 / f64::from(1 << 20));
        let latencies = Latencies::of(counts, &USEFUL_WORK);
        let requests = counts.all_requests();
        Figures {
            requests,
            iops: a_second(requests as f64),
            written_mib_s: mib_a_second(sum(Sum::WrittenBytes)),
            read_mib_s: mib_a_second(sum(Sum::ReadBytes)),
            p50: latencies.percentile(50.0),
            p99: latencies.percentile(99.0),
            errors: with(|response| !response.is_success()),
            throttled: with(ResponseType::is_throttled),
            time: Duration::from_nanos(sum(Sum::TotalNanos)),
            waited: WaitedFor {
                budget: Duration::from_nanos(sum(Sum::BudgetNanos)),
                store: Duration::from_nanos(sum(Sum::StoreNanos)),
                other_client: Duration::from_nanos(sum(Sum::OtherClientNanos)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_no_time_is_no_speed() {
        let figures = Figures::of(&Counts::default(), Duration::ZERO);
        assert_eq!((figures.iops, figures.p99, figures.errors), (0.0, None, 0));
    }
}
