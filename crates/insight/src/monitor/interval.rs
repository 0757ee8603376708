//! The times that numbers are kept and shown by.

use std::ops::Range;
use std::time::Duration;

/// How long each number is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval(&'static str, u64);

impl Interval {
    /// A minute, which is the shortest, and is kept for a day.
    pub const MINUTE: Interval = Interval("PT1M", 60);
    /// An hour, which is kept for thirty days.
    pub const HOUR: Interval = Interval("PT1H", 3_600);

    /// All of them.
    pub const ALL: [Interval; 8] = [
        Interval::MINUTE,
        Interval("PT5M", 300),
        Interval("PT15M", 900),
        Interval("PT30M", 1_800),
        Interval::HOUR,
        Interval("PT6H", 21_600),
        Interval("PT12H", 43_200),
        Interval("P1D", 86_400),
    ];

    /// The one that is written so, as ISO 8601 has durations.
    pub fn of(text: &str) -> Option<Self> {
        Interval::ALL.into_iter().find(|one| one.0.eq_ignore_ascii_case(text))
    }

    /// As ISO 8601 has it.
    pub fn name(self) -> &'static str {
        self.0
    }

    /// How long it is.
    pub fn duration(self) -> Duration {
        Duration::from_secs(self.1)
    }

    /// In seconds.
    pub(crate) fn seconds(self) -> i64 {
        self.1 as i64
    }

    /// When the one begins that a time is in; both are seconds since 1970.
    pub fn begin(self, time: i64) -> i64 {
        time - time.rem_euclid(self.seconds())
    }

    /// A time that begins with the interval that it begins in: nothing is known of a part of one. Both are in seconds since 1970.
    pub fn whole(self, time: Range<i64>) -> Range<i64> {
        self.begin(time.start)..time.end
    }

    /// The one of the two that are kept which numbers of this one are added up from.
    pub(crate) fn kept(self) -> Self {
        if self.1 < Interval::HOUR.1 { Interval::MINUTE } else { Interval::HOUR }
    }
}
