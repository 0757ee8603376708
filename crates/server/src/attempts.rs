//! Failed sign-ins of a name are counted and slowed, whoever tries: guessing a password gets no faster with more connections.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The first failures of a name are answered at once: people mistype.
const FREE_FAILURES: u32 = 2;
/// What each further failure costs: Windows Server's rate limit.
const DELAY: Duration = Duration::from_secs(2);
/// Failures are forgotten after this long without one.
const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// Names that are remembered; past it the longest quiet one is forgotten.
const NAMES_MAX: usize = 10_000;

/// Failures by name.
pub(crate) struct Attempts {
    names: Mutex<HashMap<String, Failures>>,
}

struct Failures {
    count: u32,
    last: Instant,
    /// When the next failure of this name may be answered.
    next_answer: Instant,
}

impl Attempts {
    pub(crate) fn new() -> Self {
        Attempts { names: Mutex::default() }
    }

    /// A sign-in of `name` failed at `now`; gives how long its answer waits. Attempts at the same time wait one after the other.
    pub(crate) fn failed(&self, name: &str, now: Instant) -> Duration {
        let name = store::fold(name);
        let mut names = self.names.lock();
        if names.len() >= NAMES_MAX && !names.contains_key(&name) {
            let quietest = names.iter().min_by_key(|(_, failures)| failures.last).map(|(name, _)| name.clone());
            names.remove(&quietest.unwrap_or_default());
        }
        let failures = names.entry(name).or_insert(Failures { count: 0, last: now, next_answer: now });
        if now.saturating_duration_since(failures.last) > FORGET_AFTER {
            failures.count = 0;
        }
        failures.count += 1;
        failures.last = now;
        if failures.count <= FREE_FAILURES {
            return Duration::ZERO;
        }
        failures.next_answer = failures.next_answer.max(now) + DELAY;
        failures.next_answer - now
    }

    /// A sign-in of `name` succeeded.
    pub(crate) fn succeeded(&self, name: &str) {
        self.names.lock().remove(&store::fold(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_failure_waits_and_parallel_ones_queue() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        assert_eq!(attempts.failed("eve", now), Duration::ZERO);
        assert_eq!(attempts.failed("Eve", now), Duration::ZERO);
        assert_eq!(attempts.failed("EVE", now), DELAY);
        assert_eq!(attempts.failed("eve", now), 2 * DELAY);
        assert_eq!(attempts.failed("bob", now), Duration::ZERO);
        attempts.succeeded("eve");
        assert_eq!(attempts.failed("eve", now), Duration::ZERO);
    }

    #[test]
    fn failures_are_forgotten_in_time_and_bounded_in_number() {
        let (attempts, now) = (Attempts::new(), Instant::now());
        for _ in 0..3 {
            attempts.failed("eve", now);
        }
        assert_eq!(attempts.failed("eve", now + FORGET_AFTER + DELAY), Duration::ZERO);
        for number in 0..NAMES_MAX + 10 {
            attempts.failed(&number.to_string(), now);
        }
        assert!(attempts.names.lock().len() <= NAMES_MAX);
    }
}
