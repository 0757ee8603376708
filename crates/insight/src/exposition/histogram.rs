//! Latencies in the buckets that metrics have: bounds are powers of two of a microsecond, which are bounds of the counters' buckets, too.

use std::ops::RangeInclusive;

use server::admin::{Api, Counts, LatencyKind, Sum, latency_bucket};

/// Powers of two of a microsecond that are bounds: from 64 us to 4.2 s.
const POWERS: RangeInclusive<u32> = 6..=22;
/// Bounds, and one bucket for what is longer.
const BUCKETS: usize = (*POWERS.end() - *POWERS.start()) as usize + 2;

/// Latencies of one kind.
pub(super) struct Histogram {
    /// All of them added up, in seconds.
    pub(super) seconds: f64,
    /// How many there are.
    pub(super) count: u64,
    /// Bounds in seconds, and how many are below each and not below the one before. The last bound is [`f64::INFINITY`].
    pub(super) buckets: [(f64, u64); BUCKETS],
}

impl Histogram {
    /// Those of one kind; `None` where there are none.
    pub(super) fn of(counts: &Counts, kind: LatencyKind) -> Option<Self> {
        let mut buckets = bounds();
        let mut count = 0;
        for (bucket, in_bucket) in counts.latencies(kind) {
            let end = latency_bucket(bucket).end.as_secs_f64();
            let place = buckets.iter().position(|(bound, _)| end <= *bound).unwrap_or(BUCKETS - 1);
            buckets[place].1 += in_bucket;
            count += in_bucket;
        }
        let of_kind = Api::ALL.iter().filter(|api| api.latency_kind() == kind);
        let nanos: u64 = of_kind.map(|api| counts.sum(*api, Sum::TotalNanos)).sum();
        (count > 0).then_some(Histogram { seconds: seconds(nanos), count, buckets })
    }
}

/// Nanoseconds as seconds.
pub(super) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

fn bounds() -> [(f64, u64); BUCKETS] {
    let mut bounds = [(f64::INFINITY, 0); BUCKETS];
    for (bound, power) in bounds.iter_mut().zip(POWERS) {
        bound.0 = (1_u64 << power) as f64 / 1e6;
    }
    bounds
}

#[cfg(test)]
mod tests {
    use server::admin::LATENCY_BUCKETS;

    use super::*;

    #[test]
    fn every_bound_is_one_of_the_counters_too() {
        let ends: Vec<f64> = (0..LATENCY_BUCKETS).map(|bucket| latency_bucket(bucket).end.as_secs_f64()).collect();
        let bounds = bounds();
        assert_eq!((bounds[0].0, bounds[BUCKETS - 2].0, bounds[BUCKETS - 1].0), (64e-6, 4.194_304, f64::INFINITY));
        for (bound, _) in &bounds[..BUCKETS - 1] {
            assert!(ends.contains(bound), "{bound}");
        }
    }
}
