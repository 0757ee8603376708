//! Users are locked after so many wrong passwords, where an operator wants that: until a time, or until somebody unlocks them. It stands beside the throttle
//! ([`crate::state::login_throttle`]), which locks nobody out.
//!
//! - Who is locked is refused unjudged: whoever guesses on learns nothing, not even when the guess is right.
//! - Names that nobody has are locked as well, so that a lock does not tell which ones there are.
//! - Accounts are never locked. Their keys are chance, and whoever has them can always come in. Who has not is answered as for a name that is locked.
//!
//! All of it is in memory: a server that starts anew has nobody locked.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::state::configuration::{Configuration, LockRule, Principal, PrincipalKind};
use crate::state::login_throttle::{Entry, FORGET_AFTER, NAME_CHARS_MAX, Table};

/// Sets of names that nobody has: 4,096 of them in 192 KiB.
const NAME_SETS: usize = 1_024;

/// Wrong passwords by user, and who is locked. There is an entry for each user of the configuration at most, and a fixed number for names that nobody has.
pub(crate) struct Lockout {
    began: Instant,
    hasher: RandomState,
    users: Mutex<HashMap<u32, Count>>,
    /// None as long as there are none.
    names: Mutex<Option<Table>>,
}

/// Who somebody wants to sign in as, by whom is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Who {
    /// A user, by the last number of its SID.
    User(u32),
    /// A name that nobody has.
    Nobody(u64),
    /// An account, which is counted like such a name.
    Account(u64),
}

/// A sign-in as somebody who may be locked.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    rule: LockRule,
    who: Who,
}

impl Candidate {
    /// The user that it is.
    pub(crate) fn principal<'a>(&self, configuration: &'a Configuration) -> Option<&'a Principal> {
        match self.who {
            Who::User(id) => configuration.principals.iter().find(|principal| principal.relative_id == id),
            Who::Nobody(_) | Who::Account(_) => None,
        }
    }

    /// True for an account, whose key is taken though it is locked.
    pub(crate) fn is_account(&self) -> bool {
        matches!(self.who, Who::Account(_))
    }

    /// How long a lock lasts.
    pub(crate) fn lasting(&self) -> Duration {
        self.rule.lasting
    }
}

/// Wrong passwords. Times count from when the server began.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    failed: u32,
    last: Duration,
    /// It is locked until then.
    until: Option<Duration>,
}

/// What a wrong password came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    Counted,
    /// A user is locked from now on.
    LockedUser,
}

/// A user that is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LockedUser {
    pub(crate) relative_id: u32,
    /// For so long.
    pub(crate) left: Duration,
}

impl Lockout {
    pub(crate) fn new(now: Instant) -> Self {
        Lockout { began: now, hasher: RandomState::new(), users: Mutex::default(), names: Mutex::default() }
    }

    /// Who wants to sign in as `name`; `None` where nobody is locked.
    pub(crate) fn candidate(&self, configuration: &Configuration, name: &str) -> Option<Candidate> {
        let rule = configuration.settings.lock?;
        let folded = store::fold(name);
        let principal = configuration.principals.iter().find(|principal| store::fold(&principal.name) == folded);
        let who = match principal.map(|principal| (principal.kind, principal.relative_id)) {
            Some((PrincipalKind::Account, _)) => Who::Account(self.key(&folded)),
            Some((PrincipalKind::User, relative_id)) => Who::User(relative_id),
            None => Who::Nobody(self.key(&folded)),
        };
        Some(Candidate { rule, who })
    }

    fn key(&self, folded: &str) -> u64 {
        let looked_at: String = folded.chars().take(NAME_CHARS_MAX).collect();
        self.hasher.hash_one(looked_at)
    }

    /// True where it is locked: it is not to be judged, unless it is an account.
    pub(crate) fn is_locked(&self, candidate: &Candidate, now: Instant) -> bool {
        let now = self.since_began(now);
        match candidate.who {
            Who::User(id) => self.users.lock().get(&id).is_some_and(|count| count.is_locked(now)),
            Who::Nobody(key) | Who::Account(key) => {
                let entry = self.names.lock().as_mut().and_then(|names| names.find(key));
                entry.is_some_and(|entry| Count::from(entry).is_locked(now))
            }
        }
    }

    /// The password was wrong.
    pub(crate) fn failed(&self, candidate: &Candidate, now: Instant) -> Failed {
        let now = self.since_began(now);
        match candidate.who {
            Who::User(id) => {
                let mut users = self.users.lock();
                let count = users.entry(id).or_default();
                let was_locked = count.is_locked(now);
                *count = count.and_one(now, candidate.rule);
                if count.is_locked(now) && !was_locked { Failed::LockedUser } else { Failed::Counted }
            }
            Who::Nobody(key) | Who::Account(key) => {
                let mut names = self.names.lock();
                let names = names.get_or_insert_with(|| Table::new(NAME_SETS));
                let count = names.find(key).map(Count::from).unwrap_or_default().and_one(now, candidate.rule);
                names.put(Entry { key, failed: count.failed, last: count.last, next: count.until.unwrap_or_default() });
                Failed::Counted
            }
        }
    }

    /// The password was right: what was wrong before counts no more.
    pub(crate) fn succeeded(&self, candidate: &Candidate) {
        if let Who::User(id) = candidate.who {
            self.users.lock().remove(&id);
        }
    }

    /// The users that are locked.
    pub(crate) fn locked(&self, now: Instant) -> Vec<LockedUser> {
        let now = self.since_began(now);
        let users = self.users.lock();
        let left = |count: &Count| count.until.filter(|until| *until > now).map(|until| until - now);
        users.iter().filter_map(|(id, count)| Some(LockedUser { relative_id: *id, left: left(count)? })).collect()
    }

    /// Unlocks a user, and forgets its wrong passwords; false where it was not locked.
    pub(crate) fn unlock(&self, relative_id: u32, now: Instant) -> bool {
        let now = self.since_began(now);
        self.users.lock().remove(&relative_id).is_some_and(|count| count.is_locked(now))
    }

    /// Forgets users that there are no more, and all where nobody is to be locked.
    pub(crate) fn follow(&self, configuration: &Configuration) {
        let mut users = self.users.lock();
        if configuration.settings.lock.is_none() {
            users.clear();
            *self.names.lock() = None;
        } else if !users.is_empty() {
            let mut there: Vec<u32> = configuration.principals.iter().map(|one| one.relative_id).collect();
            there.sort_unstable();
            users.retain(|id, _| there.binary_search(id).is_ok());
        }
    }

    fn since_began(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

impl Count {
    fn is_locked(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until > now)
    }

    /// One wrong password more. Those before a lock that is over count no more, nor does a time without any.
    fn and_one(self, now: Duration, rule: LockRule) -> Self {
        if self.is_locked(now) {
            // It was judged as it was locked: by another thread at the same moment.
            return self;
        }
        let is_old = self.until.is_some() || now.saturating_sub(self.last) > FORGET_AFTER;
        let failed = if is_old { 1 } else { self.failed.saturating_add(1) };
        let until = (failed >= rule.after.get()).then(|| now.saturating_add(rule.lasting));
        Count { failed, last: now, until }
    }
}

impl From<Entry> for Count {
    fn from(entry: Entry) -> Self {
        let until = Some(entry.next).filter(|until| !until.is_zero());
        Count { failed: entry.failed, last: entry.last, until }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::sync::Arc;

    use store::RamStore;

    use super::*;
    use crate::tests::kit::configuration::{OTHER_USER, USER, configuration};

    const LASTING: Duration = Duration::from_secs(1_800);

    struct Door {
        lockout: Lockout,
        configuration: Configuration,
        now: Instant,
    }

    impl Door {
        /// Locks after three.
        fn new() -> Self {
            let mut configuration = configuration(Arc::new(RamStore::new(1 << 20)));
            let after = NonZeroU32::new(3).unwrap();
            configuration.settings.lock = Some(LockRule { after, lasting: LASTING });
            let now = Instant::now();
            Door { lockout: Lockout::new(now), configuration, now }
        }

        fn candidate(&self, name: &str) -> Candidate {
            self.lockout.candidate(&self.configuration, name).unwrap()
        }

        /// A wrong password; true where it locks a user.
        fn fail(&self, name: &str) -> bool {
            self.lockout.failed(&self.candidate(name), self.now) == Failed::LockedUser
        }

        fn is_locked(&self, name: &str) -> bool {
            self.lockout.is_locked(&self.candidate(name), self.now)
        }

        fn wait(&mut self, time: Duration) {
            self.now += time;
        }
    }

    #[test]
    fn a_user_is_locked_by_the_last_of_so_many_whatever_the_case_and_until_the_time_is_over() {
        let mut door = Door::new();
        assert_eq!([USER, "TESTER", USER].map(|name| door.fail(name)), [false, false, true]);
        assert!(door.is_locked("Tester") && !door.is_locked(OTHER_USER));
        assert_eq!(door.lockout.locked(door.now), [LockedUser { relative_id: 1001, left: LASTING }]);
        // One that another thread judged at the same moment makes it no longer.
        door.wait(Duration::from_secs(60));
        assert!(!door.fail(USER));
        door.wait(LASTING - Duration::from_secs(60));
        assert!(!door.is_locked(USER) && door.lockout.locked(door.now).is_empty());
        assert_eq!([USER; 3].map(|name| door.fail(name)), [false, false, true], "it begins anew");
    }

    #[test]
    fn a_right_password_and_a_quarter_of_an_hour_without_a_wrong_one_begin_anew() {
        let mut door = Door::new();
        (0..2).for_each(|_| assert!(!door.fail(USER)));
        door.lockout.succeeded(&door.candidate(USER));
        (0..2).for_each(|_| assert!(!door.fail(USER)));
        door.wait(FORGET_AFTER + Duration::from_secs(1));
        (0..2).for_each(|_| assert!(!door.fail(USER)));
        door.wait(FORGET_AFTER);
        assert!(door.fail(USER), "the window is from one to the next");
    }

    #[test]
    fn who_is_unlocked_has_all_attempts_again() {
        let door = Door::new();
        assert!(!door.lockout.unlock(1001, door.now));
        (0..3).for_each(|_| _ = door.fail(USER));
        assert!(door.lockout.unlock(1001, door.now) && !door.is_locked(USER));
        assert_eq!([USER; 3].map(|name| door.fail(name)), [false, false, true]);
    }

    #[test]
    fn a_name_that_nobody_has_is_locked_like_one_that_somebody_has() {
        let mut door = Door::new();
        for name in ["mallory", "Mallory", "MALLORY"] {
            assert!(!door.is_locked(name));
            assert!(!door.fail(name), "it is no user");
        }
        assert!(door.is_locked("mallory") && door.lockout.locked(door.now).is_empty());
        door.wait(LASTING);
        assert!(!door.is_locked("mallory"));
    }

    #[test]
    fn an_account_is_no_user_that_is_locked_and_nobody_is_where_that_is_off() {
        let mut door = Door::new();
        door.configuration.principals[0].kind = PrincipalKind::Account;
        (0..3).for_each(|_| assert!(!door.fail(USER), "it is no user"));
        assert!(door.candidate(USER).is_account() && door.is_locked(USER) && door.lockout.locked(door.now).is_empty());
        (0..3).for_each(|_| _ = door.fail(OTHER_USER));
        let rule = door.configuration.settings.lock.take();
        assert!(door.lockout.candidate(&door.configuration, OTHER_USER).is_none());
        door.lockout.follow(&door.configuration);
        door.configuration.settings.lock = rule;
        assert!(!door.is_locked(OTHER_USER), "what was locked before is not");
    }

    #[test]
    fn names_of_strangers_are_bounded_and_push_out_no_user() {
        let door = Door::new();
        (0..3).for_each(|_| _ = door.fail(USER));
        for number in 0..20_000 {
            door.fail(&format!("{number}{}", "x".repeat(300)));
        }
        assert!(door.is_locked(USER));
        assert_eq!(door.lockout.users.lock().len(), 1);
        assert_eq!(size_of::<[Entry; 4]>() * NAME_SETS, 192 << 10);
    }

    #[test]
    fn users_that_are_gone_are_forgotten() {
        let mut door = Door::new();
        (0..3).for_each(|_| _ = (door.fail(USER), door.fail(OTHER_USER)));
        door.configuration.principals.remove(0);
        door.lockout.follow(&door.configuration);
        let locked: Vec<u32> = door.lockout.locked(door.now).iter().map(|user| user.relative_id).collect();
        assert_eq!(locked, [1002]);
    }
}
