//! The numbers of one channel's requests to one share, while they are counted.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use wire::status::Status;

use crate::resource::latency::bucket_of;
use crate::state::counters::COUNTS;
use crate::state::counters::api::{Api, ResponseType, Wait};
use crate::state::counters::counts::{Counts, SLOTS, Sum, latency_slot, requests_slot, sum_slot};

/// Statuses of errors that one cell tells apart.
const ERRORS_MAX: usize = 16;
/// Stands for all others.
const OTHER_ERRORS: u32 = u32::MAX;

/// How long a request has waited, and for what.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Waits([Duration; Wait::ALL.len()]);

impl Waits {
    /// It has waited for so long.
    pub(crate) fn add(&mut self, wait: Wait, time: Duration) {
        self.0[wait as usize] += time;
    }
}

/// Requests of one API that were answered alike, as they are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    pub(crate) api: Api,
    pub(crate) response: ResponseType,
    /// The status, where it is an error.
    pub(crate) error: Option<Status>,
    /// How many they are.
    pub(crate) requests: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) received_bytes: u64,
    pub(crate) sent_bytes: u64,
    /// How long each of them was in the server.
    pub(crate) time: Duration,
    /// Of that, how long all of them together have waited.
    pub(crate) waits: Waits,
}

impl Answered {
    /// One request that was done, before anything else is known of it.
    pub(crate) fn one(api: Api) -> Self {
        Answered {
            api,
            response: ResponseType::Success,
            error: None,
            requests: 1,
            read_bytes: 0,
            written_bytes: 0,
            received_bytes: 0,
            sent_bytes: 0,
            time: Duration::ZERO,
            waits: Waits::default(),
        }
    }
}

/// The numbers. One thread at a time counts; others read at any time, and may then find a request counted in one number and not yet in another.
pub(crate) struct Cell {
    slots: [AtomicU64; SLOTS],
    errors: [ErrorCount; ERRORS_MAX],
}

#[derive(Default)]
struct ErrorCount {
    status: AtomicU32,
    count: AtomicU64,
}

impl Cell {
    /// One in which nothing is counted yet, on the heap: it is large.
    pub(crate) fn new() -> Box<Self> {
        Box::new(Cell { slots: [const { AtomicU64::new(0) }; SLOTS], errors: Default::default() })
    }

    /// Counts requests.
    pub(crate) fn count(&self, answered: &Answered) {
        if !COUNTS {
            return;
        }
        let Answered { api, requests, time, .. } = *answered;
        add(&self.slots[requests_slot(api, answered.response)], requests);
        let nanos = nanos(time).saturating_mul(requests);
        let waited = Wait::ALL.iter().map(|wait| (Sum::from(*wait), nanos_of(&answered.waits, *wait)));
        let sums = [
            (Sum::ReadBytes, answered.read_bytes),
            (Sum::WrittenBytes, answered.written_bytes),
            (Sum::ReceivedBytes, answered.received_bytes),
            (Sum::SentBytes, answered.sent_bytes),
            (Sum::TotalNanos, nanos),
        ];
        for (sum, more) in sums.into_iter().chain(waited).filter(|(_, more)| *more > 0) {
            add(&self.slots[sum_slot(api, sum)], more);
        }
        add(&self.slots[latency_slot(api.latency_kind(), bucket_of(time))], requests);
        if let Some(status) = answered.error {
            self.count_error(status.0, requests);
        }
    }

    fn count_error(&self, status: u32, requests: u64) {
        let (others, named) = self.errors.split_last().expect("there are some");
        let place = named.iter().find(|error| [status, 0].contains(&error.status.load(Ordering::Relaxed)));
        let (place, status) = place.map_or((others, OTHER_ERRORS), |place| (place, status));
        add(&place.count, requests);
        // Who reads looks at the count first.
        place.status.store(status, Ordering::Relaxed);
    }

    /// What has been counted.
    pub(crate) fn read(&self) -> Counts {
        let errors =
            self.errors.iter().map(|error| (error.status.load(Ordering::Relaxed), error.count.load(Ordering::Relaxed)));
        let errors = errors.filter(|(status, count)| *status != 0 && *count > 0).collect();
        Counts::of(self.slots.iter().map(|slot| slot.load(Ordering::Relaxed)), errors)
    }
}

/// Adds to a number that no other thread changes.
fn add(number: &AtomicU64, more: u64) {
    number.store(number.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn nanos_of(waits: &Waits, wait: Wait) -> u64 {
    nanos(waits.0[wait as usize])
}

#[cfg(test)]
mod tests {
    use wire::ids::Command;

    use super::*;

    #[test]
    fn a_request_is_counted_in_each_number_that_it_belongs_to() {
        let cell = Cell::new();
        let mut waits = Waits::default();
        waits.add(Wait::Store, Duration::from_micros(30));
        let answered = Answered {
            requests: 3,
            read_bytes: 12_288,
            time: Duration::from_micros(50),
            waits,
            ..Answered::one(Api::of(Command::READ))
        };
        cell.count(&answered);
        let counts = cell.read();
        assert_eq!(counts.requests(Api::Read, ResponseType::Success), 3);
        assert_eq!(counts.sum(Api::Read, Sum::ReadBytes), 12_288);
        assert_eq!(counts.sum(Api::Read, Sum::TotalNanos), 150_000);
        assert_eq!(counts.sum(Api::Read, Sum::StoreNanos), 30_000);
        let bucket = bucket_of(Duration::from_micros(50));
        assert_eq!(counts.latencies(crate::state::counters::LatencyKind::Read).collect::<Vec<_>>(), [(bucket, 3)]);
    }

    #[test]
    fn errors_beyond_the_bound_are_counted_together() {
        let cell = Cell::new();
        for status in 1..=100 {
            let error = Some(Status(0xC000_0000 + status));
            cell.count(&Answered { error, ..Answered::one(Api::Create) });
        }
        let counts = cell.read();
        assert_eq!(counts.errors().len(), ERRORS_MAX);
        assert_eq!(counts.errors().iter().map(|(_, count)| count).sum::<u64>(), 100);
        assert_eq!(counts.errors().last(), Some(&(OTHER_ERRORS, 101 - ERRORS_MAX as u64)));
    }
}
