//! The buckets in which times are counted: four for each power of two from a microsecond on, so that a bucket is at most a quarter as wide as
//! the times in it, and histograms of any two servers add up bucket by bucket.

use std::ops::Range;
use std::time::Duration;

/// Buckets for each power of two, as a power of two itself.
const PARTS_LOG2: u32 = 2;
const PARTS: u64 = 1 << PARTS_LOG2;
/// The unit in which the first microsecond is divided.
const UNIT_NANOS: u64 = 1_000 / PARTS;
/// Powers of two that have buckets: the last one begins at 134 seconds.
const POWERS: usize = 28;
/// How many buckets there are: one for all times below a microsecond, then those of each power of two.
pub const LATENCY_BUCKETS: usize = 1 + POWERS * PARTS as usize;

/// The bucket of a time. What is longer than the last bucket is counted there.
pub(crate) fn bucket_of(time: Duration) -> usize {
    let units = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX) / UNIT_NANOS;
    if units < PARTS {
        return 0;
    }
    let power = units.ilog2() - PARTS_LOG2;
    let part = (units >> power) - PARTS;
    (1 + power as usize * PARTS as usize + part as usize).min(LATENCY_BUCKETS - 1)
}

/// The times that are counted in a bucket. The last one has longer ones, too.
pub fn latency_bucket(bucket: usize) -> Range<Duration> {
    begin_of(bucket)..begin_of(bucket + 1)
}

fn begin_of(bucket: usize) -> Duration {
    let Some(behind_first) = bucket.checked_sub(1) else { return Duration::ZERO };
    let (power, part) = (behind_first as u64 / PARTS, behind_first as u64 % PARTS);
    Duration::from_nanos(((PARTS + part) << power) * UNIT_NANOS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_holds_its_bounds_and_follows_the_one_before() {
        assert_eq!(latency_bucket(0), Duration::ZERO..Duration::from_micros(1));
        for bucket in 0..LATENCY_BUCKETS {
            let Range { start, end } = latency_bucket(bucket);
            assert_eq!(bucket_of(start), bucket);
            assert_eq!(bucket_of(end - Duration::from_nanos(1)), bucket);
            assert!(bucket == 0 || (end - start) * PARTS as u32 <= start, "{start:?} to {end:?}");
        }
    }

    #[test]
    fn the_longest_times_are_counted_in_the_last_bucket() {
        assert!(latency_bucket(LATENCY_BUCKETS - 1).end > Duration::from_secs(240));
        assert_eq!(bucket_of(Duration::MAX), LATENCY_BUCKETS - 1);
    }
}
