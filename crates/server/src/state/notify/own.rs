//! What was done through the server lately. Stores tell of everything that changes, of that too: by this it is known from what other
//! programs did.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use store::{Identity, fold};
use wire::fscc::notify::Action;

/// How long after it was done a change may still be told of by a store. It is remembered for up to twice as long.
const REMEMBERED: Duration = Duration::from_secs(1);
/// The most changes that are remembered in that time. Past it some are told twice.
const REMEMBERED_MAX: usize = 1 << 16;

/// The server's own changes.
#[derive(Default)]
pub(super) struct Own {
    /// How many listeners hear of changes from a store.
    listening: AtomicUsize,
    names: Mutex<Memory<(Identity, String, Deed)>>,
    files: Mutex<Memory<Identity>>,
}

/// What was done to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Deed {
    Made,
    Removed,
    Changed,
}

/// What was done lately, and a little before.
struct Memory<K> {
    lately: HashSet<K>,
    before: HashSet<K>,
    since: Instant,
}

impl Own {
    /// True where some store tells of changes.
    pub(super) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed) > 0
    }

    /// How many listeners a store tells of changes.
    #[cfg(test)]
    pub(super) fn listeners(&self) -> usize {
        self.listening.load(Ordering::Relaxed)
    }

    /// One more listener hears of a store.
    pub(super) fn begin(&self) {
        self.listening.fetch_add(1, Ordering::Relaxed);
    }

    /// One listener less.
    pub(super) fn end(&self) {
        self.listening.fetch_sub(1, Ordering::Relaxed);
    }

    /// A name in a directory was made, removed or changed.
    pub(super) fn did(&self, directory: Identity, name: &str, action: Action) {
        if self.is_listening() {
            let deed = match action {
                Action::ADDED | Action::RENAMED_NEW_NAME => Deed::Made,
                Action::REMOVED | Action::RENAMED_OLD_NAME => Deed::Removed,
                _ => Deed::Changed,
            };
            self.names.lock().keep((directory, fold(name), deed), Instant::now());
        }
    }

    /// A file was changed, or a descriptor that could change it closed.
    pub(super) fn touched(&self, file: Identity) {
        if self.is_listening() {
            self.files.lock().keep(file, Instant::now());
        }
    }

    /// A file went: another one may have its identity soon.
    pub(super) fn forget(&self, file: Identity) {
        if self.is_listening() {
            self.files.lock().forget(&file);
        }
    }

    /// True where the server did one of `deeds` lately.
    pub(super) fn has_done(&self, directory: Identity, name: &str, deeds: &[Deed]) -> bool {
        let (mut names, now) = (self.names.lock(), Instant::now());
        let name = fold(name);
        deeds.iter().any(|deed| names.has(&(directory, name.clone(), *deed), now))
    }

    /// True where the server changed a file lately.
    pub(super) fn has_touched(&self, file: Identity) -> bool {
        self.files.lock().has(&file, Instant::now())
    }
}

impl<K: Eq + Hash> Memory<K> {
    fn keep(&mut self, deed: K, now: Instant) {
        self.age(now);
        if self.lately.len() < REMEMBERED_MAX {
            self.lately.insert(deed);
        }
    }

    fn has(&mut self, deed: &K, now: Instant) -> bool {
        self.age(now);
        self.lately.contains(deed) || self.before.contains(deed)
    }

    fn forget(&mut self, deed: &K) {
        self.lately.remove(deed);
        self.before.remove(deed);
    }

    fn age(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        if age >= REMEMBERED {
            self.before = std::mem::take(&mut self.lately);
            self.since = now;
        }
        if age >= 2 * REMEMBERED {
            self.before = HashSet::new();
        }
    }
}

impl<K> Default for Memory<K> {
    fn default() -> Self {
        Memory { lately: HashSet::new(), before: HashSet::new(), since: Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_are_remembered_for_a_while() {
        let mut memory = Memory::default();
        let start = Instant::now();
        memory.keep(1, start);
        assert!(memory.has(&1, start) && !memory.has(&2, start));
        assert!(memory.has(&1, start + REMEMBERED));
        assert!(!memory.has(&1, start + 3 * REMEMBERED));
        memory.keep(2, start + 3 * REMEMBERED);
        memory.forget(&2);
        assert!(!memory.has(&2, start + 3 * REMEMBERED));
        assert!(memory.lately.is_empty() && memory.before.is_empty());
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut memory = Memory::default();
        let start = Instant::now();
        (0..2 * REMEMBERED_MAX).for_each(|deed| memory.keep(deed, start));
        assert_eq!(memory.lately.len(), REMEMBERED_MAX);
    }
}
