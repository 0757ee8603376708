//! Between FILETIME and the seconds and nanoseconds of Unix.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Time;

/// Seconds from 1601-01-01 to 1970-01-01.
const EPOCH_SECONDS: i128 = 11_644_473_600;
/// 100-nanosecond intervals in a second.
const TICKS: i128 = 10_000_000;

impl Time {
    /// The time now.
    pub fn now() -> Time {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => Time::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos()),
            Err(before) => Time::from_unix(0, 0).minus(before.duration()),
        }
    }

    /// From seconds since 1970 (negative before) and nanoseconds added to them. What lies before 1601 or is that
    /// very moment becomes the first tick after it, since zero means "not known"; fractions of 100 ns are cut.
    pub fn from_unix(seconds: i64, nanoseconds: u32) -> Time {
        let ticks = (i128::from(seconds) + EPOCH_SECONDS) * TICKS + i128::from(nanoseconds / 100);
        Time(u64::try_from(ticks.clamp(1, i128::from(u64::MAX))).unwrap_or(u64::MAX))
    }

    /// Seconds since 1970 (negative before) and nanoseconds to add to them.
    pub fn to_unix(self) -> (i64, u32) {
        let ticks = i128::from(self.0);
        let seconds = ticks.div_euclid(TICKS) - EPOCH_SECONDS;
        let nanoseconds = ticks.rem_euclid(TICKS) * 100;
        (i64::try_from(seconds).unwrap_or(i64::MAX), u32::try_from(nanoseconds).unwrap_or(0))
    }

    fn minus(self, length: Duration) -> Time {
        let ticks = u64::try_from(length.as_nanos() / 100).unwrap_or(u64::MAX);
        Time(self.0.saturating_sub(ticks).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_era_comes_back() {
        for (seconds, nanoseconds) in
            [(0, 0), (-1, 999_999_900), (-11_644_473_600, 100), (1_700_000_000, 123_456_700), (2_147_483_648, 100)]
        {
            assert_eq!(Time::from_unix(seconds, nanoseconds).to_unix(), (seconds, nanoseconds));
        }
        for ticks in [1, 116_444_736_000_000_000, 133_000_000_012_345_678, u64::MAX] {
            let (seconds, nanoseconds) = Time(ticks).to_unix();
            assert_eq!(Time::from_unix(seconds, nanoseconds), Time(ticks));
        }
    }

    #[test]
    fn what_lies_before_1601_is_the_first_tick() {
        assert_eq!(Time::from_unix(-11_644_473_600, 0), Time(1));
        assert_eq!(Time::from_unix(i64::MIN, 0), Time(1));
        assert_eq!(Time::from_unix(i64::MAX, 0), Time(u64::MAX));
    }
}
