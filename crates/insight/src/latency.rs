//! Percentiles of the latencies that the counters have.

use std::time::Duration;

use server::admin::{Counts, LATENCY_BUCKETS, LatencyKind, latency_bucket};

/// The kinds of latencies that say how fast the server is. The others say how long clients were ready to wait.
pub const USEFUL_WORK: [LatencyKind; 3] = [LatencyKind::Read, LatencyKind::Write, LatencyKind::Metadata];

/// A histogram of latencies, of which those of several servers and times add up.
#[derive(Clone, Debug)]
pub struct Latencies {
    buckets: [u64; LATENCY_BUCKETS],
}

impl Latencies {
    /// Those of some kinds.
    pub fn of(counts: &Counts, kinds: &[LatencyKind]) -> Self {
        let mut buckets = [0; LATENCY_BUCKETS];
        for (bucket, count) in kinds.iter().flat_map(|kind| counts.latencies(*kind)) {
            buckets[bucket] += count;
        }
        Latencies { buckets }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The latency that so many percent of them do not exceed; `None` where there are none. It is off by less than a bucket is wide: by a quarter of
    /// itself at most, and by a microsecond where it is as short as that.
    pub fn percentile(&self, percent: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * percent / 100.0).ceil() as u64).clamp(1, count.max(1));
        let mut before = 0;
        for (bucket, in_bucket) in self.buckets.iter().enumerate() {
            if before + in_bucket >= rank {
                // As if they were spread evenly in it.
                let range = latency_bucket(bucket);
                let part = (rank - before) as f64 / *in_bucket as f64;
                return Some(range.start + (range.end - range.start).mul_f64(part));
            }
            before += in_bucket;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    use super::*;

    fn bucket_of(time: Duration) -> usize {
        (0..LATENCY_BUCKETS).find(|bucket| latency_bucket(*bucket).contains(&time)).unwrap()
    }

    #[test]
    fn percentiles_are_those_of_a_reference_within_the_width_of_a_bucket() {
        let mut chance = Xoshiro256PlusPlus::seed_from_u64(14);
        // From a microsecond to a minute, evenly by magnitude, and a few that are much longer than the others.
        for (powers, count) in [(26, 100_000), (10, 10_000), (16, 100), (20, 3)] {
            let (mut ours, mut reference) =
                (Latencies { buckets: [0; LATENCY_BUCKETS] }, Histogram::<u64>::new(3).unwrap());
            for _ in 0..count {
                let power = chance.next_u64() % powers;
                let micros = (1 << power) + chance.next_u64() % (1 << power);
                ours.buckets[bucket_of(Duration::from_micros(micros))] += 1;
                reference.record(micros).unwrap();
            }
            for percent in [0.0, 1.0, 25.0, 50.0, 90.0, 99.0, 99.9, 100.0] {
                let found = ours.percentile(percent).unwrap().as_secs_f64() * 1e6;
                let expected = reference.value_at_percentile(percent) as f64;
                assert!((found - expected).abs() <= expected * 0.26 + 1.0, "p{percent}: {found} for {expected}");
            }
        }
    }

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(Latencies::of(&Counts::default(), &USEFUL_WORK).percentile(99.0), None);
    }
}
