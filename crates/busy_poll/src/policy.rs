//! How long a thread polls in idle times, as far as that is a matter of taste.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a thread polls before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polling {
    /// Not at all.
    Off,
    /// As long as that spares processor time, 50 us at most.
    Thrifty,
    /// Also where only the other side gains, 100 us at most: the other then finds that its own idle times are short.
    Eager,
    /// So long after each piece of work, whatever that costs, unless others want the core.
    For(Duration),
}

/// What one has chosen, which may change while threads follow it.
#[derive(Debug)]
pub struct Policy(AtomicU64);

const OFF: u64 = 0;
const THRIFTY: u64 = u64::MAX;
const EAGER: u64 = u64::MAX - 1;

impl Policy {
    /// One that says this.
    pub fn new(polling: Polling) -> Self {
        Policy(AtomicU64::new(number(polling)))
    }

    /// Has all who follow it poll so from their next idle time on.
    pub fn set(&self, polling: Polling) {
        self.0.store(number(polling), Ordering::Relaxed);
    }

    /// What it says now.
    pub fn get(&self) -> Polling {
        match self.0.load(Ordering::Relaxed) {
            OFF => Polling::Off,
            THRIFTY => Polling::Thrifty,
            EAGER => Polling::Eager,
            nanoseconds => Polling::For(Duration::from_nanos(nanoseconds)),
        }
    }
}

fn number(polling: Polling) -> u64 {
    match polling {
        Polling::Off => OFF,
        Polling::Thrifty => THRIFTY,
        Polling::Eager => EAGER,
        Polling::For(time) => {
            u64::try_from(time.as_nanos()).map_or(EAGER - 1, |nanoseconds| nanoseconds.min(EAGER - 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_is_what_is_said() {
        let policy = Policy::new(Polling::Off);
        for polling in [Polling::Off, Polling::Thrifty, Polling::Eager, Polling::For(Duration::from_micros(200))] {
            policy.set(polling);
            assert_eq!(policy.get(), polling);
        }
        policy.set(Polling::For(Duration::MAX));
        assert!(matches!(policy.get(), Polling::For(time) if time > Duration::from_secs(1 << 30)));
    }
}
