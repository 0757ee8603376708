//! The time by which leases of shares end. A machine's clock may be set back, which makes no lease longer: while the machine runs, the time since its
//! start counts (`CLOCK_BOOTTIME`, which goes on while it sleeps). What was noted before that start is older than the machine has run.

use std::sync::OnceLock;

use jiff::Timestamp;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A moment: by the machine's clock, and by the time since the machine was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaseTime {
    /// In milliseconds since 1970.
    clock: i64,
    /// In milliseconds since the machine was started.
    running: i64,
    /// Which start that was: a part of its number; 0 where it is not known.
    boot: u64,
}

impl LeaseTime {
    /// This moment.
    pub fn now() -> Self {
        static BOOT: OnceLock<u64> = OnceLock::new();
        let boot = *BOOT.get_or_init(|| std::fs::read_to_string(BOOT_ID).map_or(0, |id| boot_of(&id)));
        let running = clock_gettime(ClockId::Boottime);
        let running = running.tv_sec.saturating_mul(1000).saturating_add(running.tv_nsec / 1_000_000);
        LeaseTime { clock: Timestamp::now().as_millisecond(), running, boot }
    }

    /// By the machine's clock, in milliseconds since 1970.
    pub(crate) fn clock(self) -> i64 {
        self.clock
    }

    /// How many milliseconds after `then` this is. Where the machine has been started since, at least as many as it runs.
    pub(crate) fn since(self, then: LeaseTime) -> i64 {
        let is_same_start = self.boot == then.boot && self.boot != 0 && self.running >= then.running;
        if is_same_start {
            self.running.saturating_sub(then.running)
        } else {
            self.clock.saturating_sub(then.clock).max(self.running)
        }
    }
}

/// The first 64 bits of a start's number, which is a random GUID.
fn boot_of(id: &str) -> u64 {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or_default()
}

#[cfg(test)]
impl LeaseTime {
    /// A moment by the clock, in seconds since 1970, of a machine that was started then and so many seconds before.
    pub(crate) fn at(second: i64, (boot, running): (u64, i64)) -> Self {
        LeaseTime { clock: second * 1000, running: running * 1000, boot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn while_the_machine_runs_its_clock_does_not_matter() {
        let then = LeaseTime::at(1000, (1, 50));
        for clock in [0, 1000, 5000] {
            assert_eq!(LeaseTime::at(clock, (1, 80)).since(then), 30_000, "{clock}");
        }
    }

    #[test]
    fn what_was_before_the_machine_was_started_is_older_than_that() {
        let then = LeaseTime::at(1000, (1, 50));
        assert_eq!(LeaseTime::at(1100, (2, 40)).since(then), 100_000);
        assert_eq!(LeaseTime::at(500, (2, 40)).since(then), 40_000, "its clock was set back");
        assert_eq!(LeaseTime::at(500, (1, 40)).since(then), 40_000, "its time since the start went back");
        assert_eq!(LeaseTime::at(500, (0, 60)).since(LeaseTime::at(1000, (0, 50))), 60_000, "no start is known");
    }

    #[test]
    fn this_machine_says_when_it_was_started() {
        let then = LeaseTime::now();
        assert_ne!((then.boot, then.running), (0, 0));
        assert!((0..10_000).contains(&LeaseTime::now().since(then)));
        assert_eq!(boot_of("0123abcd-4567-89ef-0000-000000000000\n"), 0x0123_abcd_4567_89ef);
        assert_eq!(boot_of("?"), 0);
    }
}
