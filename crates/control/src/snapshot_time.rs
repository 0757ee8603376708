//! When a snapshot was made, which is what it is called.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

/// Ticks of a snapshot's time in a second: it is told in units of 100 nanoseconds.
const TICKS_PER_SECOND: i64 = 10_000_000;
/// None is later than the year 9000.
const TICKS_MAX: i64 = 221_845_392_000 * TICKS_PER_SECOND;
/// The length of the text of a time.
const TIME_CHARS: usize = "2026-11-30T20:14:15.1234567Z".len();
/// When a snapshot was made, which is its name: `2026-11-30T20:14:15.1234567Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotTime {
    /// Units of 100 nanoseconds since 1970.
    ticks: i64,
}

/// A text that is no snapshot's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("one is written as 2026-11-30T20:14:15.1234567Z")]
pub struct NoSnapshotTime;

impl SnapshotTime {
    /// This moment.
    pub(crate) fn now() -> Self {
        let ticks = Timestamp::now().as_nanosecond() / i128::from(1_000_000_000 / TICKS_PER_SECOND);
        SnapshotTime { ticks: i64::try_from(ticks).unwrap_or_default() }
    }
}

impl SnapshotTime {
    /// The one that comes next.
    pub(crate) fn next(self) -> Self {
        SnapshotTime { ticks: self.ticks.saturating_add(1) }
    }

    /// One for tests.
    #[cfg(test)]
    pub(crate) fn of_ticks(ticks: i64) -> Self {
        SnapshotTime { ticks }
    }
}

impl fmt::Display for SnapshotTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (second, ticks) = (self.ticks.div_euclid(TICKS_PER_SECOND), self.ticks.rem_euclid(TICKS_PER_SECOND));
        let second = Timestamp::from_second(second).unwrap_or(Timestamp::MIN);
        write!(f, "{}.{ticks:07}Z", second.strftime("%Y-%m-%dT%H:%M:%S"))
    }
}

impl FromStr for SnapshotTime {
    type Err = NoSnapshotTime;

    fn from_str(text: &str) -> Result<Self, NoSnapshotTime> {
        let parsed: Timestamp = text.parse().map_err(|_| NoSnapshotTime)?;
        let ticks = parsed.as_nanosecond() / i128::from(1_000_000_000 / TICKS_PER_SECOND);
        let time = SnapshotTime { ticks: i64::try_from(ticks).map_err(|_| NoSnapshotTime)? };
        // It is the name of a folder: of all ways to write a time one is taken. Behind the last there is always a next one.
        let is_one = text.len() == TIME_CHARS && time.to_string() == text && time.ticks < TICKS_MAX;
        is_one.then_some(time).ok_or(NoSnapshotTime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_in_one_way() {
        let text = "2026-11-30T20:14:15.0034567Z";
        assert_eq!(text.parse::<SnapshotTime>().unwrap().to_string(), text);
        let now = SnapshotTime::now();
        assert_eq!(now.to_string().parse(), Ok(now));
        assert_eq!("9999-12-30T22:00:00.9999999Z".parse::<SnapshotTime>(), Err(NoSnapshotTime));
        for wrong in [
            "",
            "2026-11-30T20:14:15Z",
            "2026-11-30t20:14:15.0034567z",
            "2026-11-30T20:14:60.0034567Z",
            "../../catalog.db",
        ] {
            assert_eq!(wrong.parse::<SnapshotTime>(), Err(NoSnapshotTime), "{wrong}");
        }
    }

    #[test]
    fn the_next_one_is_later() {
        let now = SnapshotTime::now();
        assert!(now.next() > now);
    }
}
