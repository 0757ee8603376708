//! Numbers as they are read, kept and added up.

use std::collections::BTreeMap;

use crate::resource::latency::LATENCY_BUCKETS;
use crate::state::counters::api::{Api, LatencyKind, ResponseType, Wait};

named! {
    /// What is added up of the requests of each API.
    Sum {
        /// Bytes of files that READs were answered with.
        ReadBytes,
        /// Bytes that WRITEs have written.
        WrittenBytes,
        /// Bytes of requests, from their SMB2 headers on.
        ReceivedBytes,
        /// Bytes of responses, from their SMB2 headers on.
        SentBytes,
        /// Nanoseconds in the server.
        TotalNanos,
        /// Of them those in which it waited for [`Wait::Budget`],
        BudgetNanos,
        /// [`Wait::Store`]
        StoreNanos,
        /// and [`Wait::OtherClient`]. The rest is work of the server's own, and standing in line for a core.
        OtherClientNanos,
    }
}

impl From<Wait> for Sum {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Budget => Sum::BudgetNanos,
            Wait::Store => Sum::StoreNanos,
            Wait::OtherClient => Sum::OtherClientNanos,
        }
    }
}

const SUMS_BEGIN: usize = Api::ALL.len() * ResponseType::ALL.len();
const LATENCIES_BEGIN: usize = SUMS_BEGIN + Api::ALL.len() * Sum::ALL.len();
/// How many numbers there are, beside those of errors.
pub(super) const SLOTS: usize = LATENCIES_BEGIN + LatencyKind::ALL.len() * LATENCY_BUCKETS;
const _: () = assert!(SLOTS <= u16::MAX as usize);

/// Where the requests of an API with this response are counted.
pub(super) fn requests_slot(api: Api, response: ResponseType) -> usize {
    api as usize * ResponseType::ALL.len() + response as usize
}

/// Where a sum of an API is.
pub(super) fn sum_slot(api: Api, sum: Sum) -> usize {
    SUMS_BEGIN + api as usize * Sum::ALL.len() + sum as usize
}

/// Where latencies of one bucket are counted.
pub(super) fn latency_slot(kind: LatencyKind, bucket: usize) -> usize {
    LATENCIES_BEGIN + kind as usize * LATENCY_BUCKETS + bucket
}

/// What a channel, a session, a user, a client, a share or the server has done. Numbers that are zero take no memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Slots and what they have, in ascending order and without zeros.
    slots: Vec<(u16, u64)>,
    /// NT statuses of errors, and how often each was the response; in the same way.
    errors: Vec<(u32, u64)>,
}

/// Slots or statuses, and what was counted for each.
pub type Numbers<K> = Vec<(K, u64)>;

/// Numbers that are no [`Counts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Counts {
    pub(super) fn of(slots: impl Iterator<Item = u64>, errors: Vec<(u32, u64)>) -> Self {
        let slots = slots.enumerate().filter(|(_, number)| *number > 0);
        let mut counts = Counts { slots: slots.map(|(slot, number)| (slot as u16, number)).collect(), errors };
        counts.errors.sort_unstable();
        counts
    }

    /// The numbers as they cross to another process.
    pub fn to_parts(self) -> (Numbers<u16>, Numbers<u32>) {
        (self.slots, self.errors)
    }

    /// The numbers that [`Counts::to_parts`] gave in a process of the same version.
    pub fn from_parts(slots: Numbers<u16>, errors: Numbers<u32>) -> Result<Self, Malformed> {
        let is_ascending = slots.is_sorted_by(|a, b| a.0 < b.0) && errors.is_sorted_by(|a, b| a.0 < b.0);
        let is_known = slots.last().is_none_or(|(last, _)| usize::from(*last) < SLOTS);
        if is_ascending && is_known { Ok(Counts { slots, errors }) } else { Err(Malformed) }
    }

    fn at(&self, slot: usize) -> u64 {
        let found = self.slots.binary_search_by_key(&slot, |(slot, _)| usize::from(*slot));
        found.map_or(0, |position| self.slots[position].1)
    }

    /// How many requests of an API had this response.
    pub fn requests(&self, api: Api, response: ResponseType) -> u64 {
        self.at(requests_slot(api, response))
    }

    /// How many requests there were, of all APIs and with all responses.
    pub fn all_requests(&self) -> u64 {
        self.slots.iter().take_while(|(slot, _)| usize::from(*slot) < SUMS_BEGIN).map(|(_, number)| number).sum()
    }

    /// How many requests of an API there were, with all responses.
    pub fn requests_of(&self, api: Api) -> u64 {
        ResponseType::ALL.iter().map(|response| self.requests(api, *response)).sum()
    }

    /// How many requests had this response, of all APIs.
    pub fn requests_with(&self, response: ResponseType) -> u64 {
        Api::ALL.iter().map(|api| self.requests(*api, response)).sum()
    }

    /// What is added up of the requests of all APIs.
    pub fn total(&self, sum: Sum) -> u64 {
        Api::ALL.iter().map(|api| self.sum(*api, sum)).sum()
    }

    /// What is added up of the requests of an API.
    pub fn sum(&self, api: Api, sum: Sum) -> u64 {
        self.at(sum_slot(api, sum))
    }

    /// How many latencies of a kind are in each bucket that has some.
    pub fn latencies(&self, kind: LatencyKind) -> impl Iterator<Item = (usize, u64)> {
        let (begin, end) = (latency_slot(kind, 0), latency_slot(kind, LATENCY_BUCKETS));
        let first = self.slots.partition_point(|(slot, _)| usize::from(*slot) < begin);
        let of_kind = self.slots[first..].iter().take_while(move |(slot, _)| usize::from(*slot) < end);
        of_kind.map(move |(slot, number)| (usize::from(*slot) - begin, *number))
    }

    /// The NT statuses of errors and how often each was the response; 0xFFFF_FFFF stands for those that found no place any more.
    pub fn errors(&self) -> &[(u32, u64)] {
        &self.errors
    }

    /// Adds other numbers to these.
    pub fn add(&mut self, other: &Counts) {
        add(&mut self.slots, &other.slots);
        add(&mut self.errors, &other.errors);
    }

    /// What was counted since `earlier`. A number that has become smaller, because what was counted goes on under another name, counts as
    /// nothing.
    pub fn since(&self, earlier: &Counts) -> Counts {
        Counts { slots: since(&self.slots, &earlier.slots), errors: since(&self.errors, &earlier.errors) }
    }
}

/// A sum of many [`Counts`], with a place for each number.
pub(super) struct Sums {
    slots: Vec<u64>,
    errors: BTreeMap<u32, u64>,
}

impl Default for Sums {
    fn default() -> Self {
        Sums { slots: vec![0; SLOTS], errors: BTreeMap::new() }
    }
}

impl Sums {
    /// Adds numbers.
    pub(super) fn add(&mut self, counts: &Counts) {
        for (slot, number) in &counts.slots {
            self.slots[usize::from(*slot)] += number;
        }
        for (status, number) in &counts.errors {
            *self.errors.entry(*status).or_default() += number;
        }
    }
}

impl From<&Counts> for Sums {
    fn from(counts: &Counts) -> Self {
        let mut sums = Sums::default();
        sums.add(counts);
        sums
    }
}

impl From<Sums> for Counts {
    fn from(sums: Sums) -> Self {
        Counts::of(sums.slots.into_iter(), sums.errors.into_iter().collect())
    }
}

fn add<K: Ord + Copy>(to: &mut Vec<(K, u64)>, more: &[(K, u64)]) {
    let is_known = |key: &K, known: &[(K, u64)]| known.binary_search_by_key(key, |(key, _)| *key).is_ok();
    // Most of it is known after a while, and then nothing moves.
    for (key, number) in more {
        if let Ok(position) = to.binary_search_by_key(key, |(key, _)| *key) {
            to[position].1 += number;
        }
    }
    let before = to.len();
    let new: Vec<_> = more.iter().filter(|(key, _)| !is_known(key, &to[..before])).copied().collect();
    if !new.is_empty() {
        to.extend(new);
        to.sort_unstable_by_key(|(key, _)| *key);
    }
}

fn since<K: Ord + Copy>(now: &[(K, u64)], earlier: &[(K, u64)]) -> Vec<(K, u64)> {
    let before = |key: &K| earlier.binary_search_by_key(key, |(key, _)| *key).map_or(0, |found| earlier[found].1);
    let passed = now.iter().map(|(key, number)| (*key, number.saturating_sub(before(key))));
    passed.filter(|(_, number)| *number > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(slots: &[(u16, u64)], errors: &[(u32, u64)]) -> Counts {
        Counts::from_parts(slots.to_vec(), errors.to_vec()).unwrap()
    }

    #[test]
    fn sums_and_differences_are_of_each_number() {
        let (earlier, more) = (counts(&[(1, 5), (7, 2)], &[(9, 1)]), counts(&[(0, 1), (7, 3)], &[(4, 2), (9, 1)]));
        let mut sum = earlier.clone();
        sum.add(&more);
        assert_eq!(sum, counts(&[(0, 1), (1, 5), (7, 5)], &[(4, 2), (9, 2)]));
        assert_eq!(sum.since(&earlier), more);
        assert_eq!(earlier.since(&sum), Counts::default());
    }

    #[test]
    fn numbers_in_no_order_or_of_no_slot_are_malformed() {
        for slots in [vec![(2, 1), (1, 1)], vec![(1, 1), (1, 1)], vec![(SLOTS as u16, 1)]] {
            assert_eq!(Counts::from_parts(slots, Vec::new()), Err(Malformed));
        }
        assert_eq!(Counts::from_parts(Vec::new(), vec![(2, 1), (1, 1)]), Err(Malformed));
    }

    #[test]
    fn no_two_numbers_have_the_same_slot() {
        let requests = Api::ALL.iter().flat_map(|api| ResponseType::ALL.iter().map(|of| requests_slot(*api, *of)));
        let sums = Api::ALL.iter().flat_map(|api| Sum::ALL.iter().map(|sum| sum_slot(*api, *sum)));
        let latencies =
            LatencyKind::ALL.iter().flat_map(|kind| (0..LATENCY_BUCKETS).map(|bucket| latency_slot(*kind, bucket)));
        let all: Vec<usize> = requests.chain(sums).chain(latencies).collect();
        assert_eq!(all, (0..SLOTS).collect::<Vec<_>>());
    }
}
