//! Failed sign-ins slow the name and the address they come from. A guess is judged when its turn comes and not before, so that guesses
//! at the same time get no further than guesses one after the other. Who has not failed has no turn to wait for: nobody is locked out by
//! what strangers do to its name.
//!
//! | what is counted | free failures | then one in |
//! |---|---:|---:|
//! | a name from one address | 2 | 2 s |
//! | an address, whatever names | 16 | 0.5 s |
//! | a site (a /48 of IPv6) | 64 | 0.25 s |
//! | a name, from all addresses that have used up theirs | 16 | 1 s |
//!
//! A name that has signed in from an address before has its first row only, when it does so again.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::resource::address::AddressPrefix;

/// Failures are forgotten after this long without one.
pub(super) const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// The longest that an attempt waits for its turn; one that would have to wait longer is refused unjudged. Clients give up after
/// ten seconds or more, and after five they would be told that it takes time.
const WAIT_MAX: Duration = Duration::from_secs(4);
/// Characters of a name that are looked at: Windows has no longer ones (UNLEN).
pub(super) const NAME_CHARS_MAX: usize = 256;
/// Entries of one set of a table; a key has its place in one set.
const WAYS: usize = 4;
/// Sets of failures: 8,192 entries in 384 KiB.
const FAILURE_SETS: usize = 2_048;
/// Sets of those who have signed in: 4,096 entries in 192 KiB.
const KNOWN_SETS: usize = 1_024;

const PAIR: Rule = Rule { free: 2, every: Duration::from_secs(2) };
const ADDRESS: Rule = Rule { free: 16, every: Duration::from_millis(500) };
const SITE: Rule = Rule { free: 64, every: Duration::from_millis(250) };
const NAME: Rule = Rule { free: 16, every: Duration::from_secs(1) };

/// How failures of one kind are slowed.
#[derive(Clone, Copy)]
struct Rule {
    free: u32,
    every: Duration,
}

/// Failures by name and address.
pub(crate) struct LoginThrottle {
    began: Instant,
    /// Its keys are chance, so that nobody chooses which entries meet in one set.
    hasher: RandomState,
    failures: Mutex<Table>,
    known: Mutex<Table>,
}

/// An attempt that is counted as a failure until it succeeds.
#[must_use]
pub(crate) struct Attempt {
    /// How long it has to wait before it is judged.
    pub(crate) wait: Duration,
    pair: u64,
    counted: [Option<(u64, Duration)>; 4],
}

/// So many attempts wait that one more would wait too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooMany;

impl LoginThrottle {
    pub(crate) fn new(now: Instant) -> Self {
        LoginThrottle {
            began: now,
            hasher: RandomState::new(),
            failures: Mutex::new(Table::new(FAILURE_SETS)),
            known: Mutex::new(Table::new(KNOWN_SETS)),
        }
    }

    /// Counts an attempt to sign in as `name` and gives it its turn.
    pub(crate) fn begin(&self, name: &str, address: AddressPrefix, now: Instant) -> Result<Attempt, TooMany> {
        let now = now.saturating_duration_since(self.began);
        let name = store::fold(&name.chars().take(NAME_CHARS_MAX).collect::<String>());
        let pair = self.hasher.hash_one((0, &name, address));
        let is_known = self.known.lock().find(pair).is_some();
        let mut failures = self.failures.lock();
        let has_failed = failures.recent(pair, now).failed >= PAIR.free;
        let counted = [
            Some((pair, PAIR)),
            (!is_known).then(|| (self.hasher.hash_one((1, address)), ADDRESS)),
            address.site().filter(|_| !is_known).map(|site| (self.hasher.hash_one((2, site)), SITE)),
            (has_failed && !is_known).then(|| (self.hasher.hash_one((3, &name)), NAME)),
        ];
        let turns = counted.iter().flatten().map(|(key, rule)| {
            let entry = failures.recent(*key, now);
            if entry.failed >= rule.free { entry.next } else { now }
        });
        let turn = turns.fold(now, Duration::max);
        let wait = turn - now;
        if wait > WAIT_MAX {
            return Err(TooMany);
        }
        for (key, rule) in counted.iter().flatten() {
            let entry = failures.recent(*key, now);
            let (failed, next) = (entry.failed.saturating_add(1), entry.next.max(turn) + rule.every);
            failures.put(Entry { key: *key, failed, last: now, next: next.min(turn + rule.every) });
        }
        Ok(Attempt { wait, pair, counted: counted.map(|rule| rule.map(|(key, rule)| (key, rule.every))) })
    }

    /// An attempt succeeded: it was no failure, and the next one from there needs no patience.
    pub(crate) fn succeeded(&self, attempt: Attempt, now: Instant) {
        let now = now.saturating_duration_since(self.began);
        let mut failures = self.failures.lock();
        for (key, every) in attempt.counted.into_iter().flatten() {
            let entry = failures.recent(key, now);
            let failed = if key == attempt.pair { 0 } else { entry.failed.saturating_sub(1) };
            failures.put(Entry { failed, next: entry.next.saturating_sub(every), ..entry });
        }
        drop(failures);
        self.known.lock().put(Entry { key: attempt.pair, failed: 0, last: now, next: now });
    }
}

/// What is known of one key. Times count from when the server began.
#[derive(Clone, Copy, Default)]
pub(super) struct Entry {
    pub(super) key: u64,
    pub(super) failed: u32,
    pub(super) last: Duration,
    /// When the next attempt is judged that is not free.
    pub(super) next: Duration,
}

/// A table of fixed size. A new entry takes the place of that in its set which matters least: it had to wait least, longest ago.
pub(super) struct Table {
    entries: Vec<[Entry; WAYS]>,
}

impl Table {
    pub(super) fn new(sets: usize) -> Self {
        Table { entries: vec![[Entry::default(); WAYS]; sets] }
    }

    fn set(&mut self, key: u64) -> &mut [Entry; WAYS] {
        let sets = self.entries.len() as u64;
        &mut self.entries[(key % sets) as usize]
    }

    pub(super) fn find(&mut self, key: u64) -> Option<Entry> {
        self.set(key).iter().find(|entry| entry.key == key).copied()
    }

    /// The entry of a key, one without failures where there is none or they are forgotten.
    fn recent(&mut self, key: u64, now: Duration) -> Entry {
        let known = self.find(key).filter(|entry| now.saturating_sub(entry.last) <= FORGET_AFTER);
        known.unwrap_or(Entry { key, failed: 0, last: now, next: now })
    }

    pub(super) fn put(&mut self, entry: Entry) {
        let set = self.set(entry.key);
        let place = set.iter().position(|known| known.key == entry.key);
        let place = place.or_else(|| (0..WAYS).min_by_key(|at| (set[*at].next, set[*at].last)));
        set[place.unwrap_or(0)] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = "192.0.2.1:1";

    struct Door {
        throttle: LoginThrottle,
        now: Instant,
    }

    impl Door {
        fn new() -> Self {
            let now = Instant::now();
            Door { throttle: LoginThrottle::new(now), now }
        }

        fn begin(&self, name: &str, peer: &str) -> Result<Attempt, TooMany> {
            self.throttle.begin(name, AddressPrefix::of(peer), self.now)
        }

        /// Milliseconds that a wrong password waits; `None` where it is refused.
        fn fail(&self, name: &str, peer: &str) -> Option<u128> {
            self.begin(name, peer).ok().map(|attempt| attempt.wait.as_millis())
        }
    }

    #[test]
    fn the_third_failure_waits_and_parallel_ones_queue_until_they_are_too_many() {
        let door = Door::new();
        let waits: Vec<_> = ["eve", "Eve", "EVE", "eve", "eve"].map(|name| door.fail(name, HERE)).into();
        assert_eq!(waits, [Some(0), Some(0), Some(2_000), Some(4_000), None]);
        assert_eq!(door.fail("bob", HERE), Some(0));
    }

    #[test]
    fn parallel_guesses_get_no_further_than_those_one_after_the_other() {
        let mut door = Door::new();
        let mut judged = 0;
        for _ in 0..60 {
            judged += (0..600).filter_map(|_| door.fail("eve", HERE)).count();
            door.now += Duration::from_secs(1);
        }
        assert!(judged <= 2 + 60 / 2 + 2, "{judged}");
    }

    #[test]
    fn who_has_not_failed_signs_in_at_once_while_others_guess_its_name() {
        let door = Door::new();
        for host in 0..250 {
            (0..9).for_each(|_| _ = door.fail("eve", &format!("198.51.100.{host}:1")));
        }
        let attempt = door.begin("eve", HERE).unwrap();
        assert_eq!(attempt.wait, Duration::ZERO);
    }

    #[test]
    fn guesses_of_one_name_from_many_addresses_share_a_turn() {
        let mut door = Door::new();
        let guess = |door: &Door| (0..250).filter_map(|host| door.fail("eve", &format!("198.51.100.{host}:1"))).count();
        guess(&door);
        guess(&door);
        let mut judged = 0;
        for _ in 0..60 {
            judged += guess(&door);
            door.now += Duration::from_secs(1);
        }
        assert!(judged <= 60 + 16 + 5, "{judged}");
    }

    #[test]
    fn guesses_of_many_names_from_one_address_share_a_turn() {
        let mut door = Door::new();
        let mut judged = 0;
        for second in 0..60 {
            judged += (0..100).filter_map(|name| door.fail(&format!("{second} {name}"), HERE)).count();
            door.now += Duration::from_secs(1);
        }
        assert!(judged <= 60 * 2 + 16 + 9, "{judged}");
    }

    #[test]
    fn a_network_of_ipv6_is_one_address_and_a_site_has_its_own_bound() {
        let door = Door::new();
        let judged = (0..100).filter_map(|host| door.fail("eve", &format!("[2001:db8::{host:x}]:1"))).count();
        assert!(judged <= 4, "{judged}");
        let judged = (0..1_000).filter_map(|net| door.fail("eve", &format!("[2001:db8:1:{net:x}::1]:1"))).count();
        assert!(judged <= 64 + 17, "{judged}");
    }

    #[test]
    fn a_name_that_has_signed_in_from_an_address_is_let_in_beside_who_guesses_others_there() {
        let door = Door::new();
        let attempt = door.begin("alice", HERE).unwrap();
        door.throttle.succeeded(attempt, door.now);
        (0..100).for_each(|name| _ = door.fail(&format!("{name}"), HERE));
        assert_eq!(door.fail("bob", HERE), None);
        assert_eq!(door.fail("alice", HERE), Some(0));
    }

    #[test]
    fn a_success_takes_back_the_failures_of_its_name_there() {
        let mut door = Door::new();
        (0..2).for_each(|_| _ = door.fail("eve", HERE));
        let attempt = door.begin("eve", HERE).unwrap();
        assert_eq!(attempt.wait, PAIR.every);
        door.now += PAIR.every;
        door.throttle.succeeded(attempt, door.now);
        assert_eq!((door.fail("eve", HERE), door.fail("eve", HERE)), (Some(0), Some(0)));
    }

    #[test]
    fn successes_cost_their_address_nothing() {
        let door = Door::new();
        for name in 0..1_000 {
            let attempt = door.begin(&format!("user {name}"), HERE).unwrap();
            assert_eq!(attempt.wait, Duration::ZERO);
            door.throttle.succeeded(attempt, door.now);
        }
    }

    #[test]
    fn failures_are_forgotten_in_time_and_bounded_in_memory() {
        let mut door = Door::new();
        (0..3).for_each(|_| _ = door.fail("eve", HERE));
        door.now += FORGET_AFTER + Duration::from_secs(5);
        assert_eq!(door.fail("eve", HERE), Some(0));
        for host in 0..100_000 {
            let _ = door.fail(&"x".repeat(300), &format!("10.{}.{}.{}:1", host >> 16, host >> 8 & 255, host & 255));
        }
        assert_eq!(door.throttle.failures.lock().entries.len(), FAILURE_SETS);
        assert_eq!(size_of::<[Entry; WAYS]>() * FAILURE_SETS, 384 << 10);
    }

    #[test]
    fn an_address_that_guesses_is_not_forgotten_for_the_sake_of_others() {
        let mut door = Door::new();
        (0..20).for_each(|_| _ = door.fail("eve", HERE));
        for host in 0..50_000 {
            let _ = door.fail("other", &format!("10.{}.{}.{}:1", host >> 16, host >> 8 & 255, host & 255));
        }
        door.now += Duration::from_millis(10);
        assert_eq!(door.fail("eve", HERE), None);
    }
}
