//! How long who fails to sign in has to wait until somebody tries again: for one name, and for all together.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use control::folded_name;

/// Places that names share by chance, whether there is such an operator or not: nobody can have it grow.
const PLACES: usize = 4_096;
/// Failures of one name that cost nothing, and the longest wait.
const OF_NAME: Terms = Terms { free: 3, wait_max: Duration::from_secs(60) };
/// Those of all names together.
const OF_ALL: Terms = Terms { free: 20, wait_max: Duration::from_secs(8) };
/// When failures are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);

/// The first wait is a second, and each failure doubles it.
struct Terms {
    free: u32,
    wait_max: Duration,
}

/// What has failed lately.
pub(crate) struct Throttle {
    names: Vec<Failures>,
    all: Failures,
    places: RandomState,
}

#[derive(Clone, Copy, Default)]
struct Failures {
    count: u32,
    last: Option<Instant>,
    /// Those who were not looked at since it was told how many,
    untold: u32,
    /// and behind which failure that was: each begins another wait.
    told: Option<Instant>,
}

impl Default for Throttle {
    fn default() -> Self {
        Throttle { names: vec![Failures::default(); PLACES], all: Failures::default(), places: RandomState::new() }
    }
}

impl Throttle {
    /// How long it takes until this name is looked at.
    pub(crate) fn wait(&self, name: &str, now: Instant) -> Duration {
        self.names[self.place(name)].wait(&OF_NAME, now).max(self.all.wait(&OF_ALL, now))
    }

    /// Somebody was not looked at. Once in a wait, how many were since that was said last.
    pub(crate) fn turned_away(&mut self, name: &str, now: Instant) -> Option<u32> {
        let place = self.place(name);
        let of_name = self.names[place].wait(&OF_NAME, now) >= self.all.wait(&OF_ALL, now);
        let failures = if of_name { &mut self.names[place] } else { &mut self.all };
        failures.untold = failures.untold.saturating_add(1);
        if failures.told == failures.last {
            return None;
        }
        failures.told = failures.last;
        Some(std::mem::take(&mut failures.untold))
    }

    /// The name, or its password, was wrong.
    pub(crate) fn failed(&mut self, name: &str, now: Instant) {
        let place = self.place(name);
        self.names[place].add(now);
        self.all.add(now);
    }

    /// They were right.
    pub(crate) fn succeeded(&mut self, name: &str) {
        let place = self.place(name);
        self.names[place].count = 0;
    }

    fn place(&self, name: &str) -> usize {
        self.places.hash_one(folded_name(name)) as usize % PLACES
    }
}

impl Failures {
    fn add(&mut self, now: Instant) {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) >= FORGOTTEN_AFTER) {
            self.count = 0;
        }
        (self.count, self.last) = (self.count.saturating_add(1), Some(now));
    }

    fn wait(&self, terms: &Terms, now: Instant) -> Duration {
        let Some(last) = self.last.filter(|_| self.count >= terms.free) else { return Duration::ZERO };
        let doublings = (self.count - terms.free).min(16);
        let wait = Duration::from_secs(1 << doublings).min(terms.wait_max);
        wait.saturating_sub(now.saturating_duration_since(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_fails_waits_longer_each_time_and_not_for_ever() {
        let (mut throttle, mut now) = (Throttle::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = throttle.wait("ann", now);
            waits.push(wait.as_secs());
            now += wait;
            throttle.failed("Ann", now);
        }
        assert_eq!(waits, [0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(throttle.wait("ann", now + FORGOTTEN_AFTER), Duration::ZERO);
        throttle.succeeded("ann");
        assert_eq!(throttle.wait("ann", now), Duration::ZERO);
    }

    #[test]
    fn all_spellings_of_a_name_wait_together() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        for spelling in ["\u{17f}am", "sam", "SAM"] {
            throttle.failed(spelling, now);
        }
        assert!(["sam", "Sam", "\u{17f}AM"].iter().all(|spelling| !throttle.wait(spelling, now).is_zero()));
    }

    #[test]
    fn who_is_not_looked_at_is_told_of_once_in_a_wait() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        (0..OF_NAME.free).for_each(|_| throttle.failed("ann", now));
        assert_eq!(throttle.turned_away("ann", now), Some(1));
        assert!((0..1_000).all(|_| throttle.turned_away("ANN", now).is_none()));
        let next = now + throttle.wait("ann", now);
        throttle.failed("ann", next);
        assert_eq!(throttle.turned_away("ann", next), Some(1_001));
        (0..OF_ALL.free).for_each(|number| throttle.failed(&format!("name-{number}"), next));
        let told = |throttle: &mut Throttle, name| throttle.turned_away(name, next + Duration::from_secs(2));
        assert_eq!(
            (told(&mut throttle, "x"), told(&mut throttle, "y")),
            (Some(1), None),
            "all wait, and it is told once"
        );
    }

    #[test]
    fn who_tries_many_names_waits_too() {
        let (mut throttle, now) = (Throttle::default(), Instant::now());
        (0..OF_ALL.free + 10).for_each(|number| throttle.failed(&format!("name-{number}"), now));
        assert_eq!(throttle.wait("somebody else", now), OF_ALL.wait_max);
        assert_eq!(throttle.wait("somebody else", now + OF_ALL.wait_max), Duration::ZERO);
    }
}
