//! What was done through the server lately. Stores tell of everything that changes, of that too: by this it is known from what other
//! programs did.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use store::{Identity, fold};
use wire::fscc::notify::Action;

/// How long after it was done a change may still be told of by a store.
const REMEMBERED: Duration = Duration::from_secs(2);
/// The most changes that are remembered. Past it some are told twice.
const REMEMBERED_MAX: usize = 1 << 16;

/// The server's own changes.
#[derive(Default)]
pub(super) struct Own {
    /// How many watches hear of changes from a store.
    listening: AtomicUsize,
    names: Mutex<HashMap<(Identity, String, Deed), Instant>>,
    files: Mutex<HashMap<Identity, Instant>>,
}

/// What was done to a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Deed {
    Made,
    Removed,
    Changed,
}

impl Own {
    /// True where some store tells of changes.
    pub(super) fn is_listening(&self) -> bool {
        self.listening.load(Ordering::Relaxed) > 0
    }

    /// One more watch hears of a store.
    pub(super) fn begin(&self) {
        self.listening.fetch_add(1, Ordering::Relaxed);
    }

    /// One watch less.
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
            remember(&mut self.names.lock(), (directory, fold(name), deed));
        }
    }

    /// A file was changed, or a descriptor that could change it closed.
    pub(super) fn touched(&self, file: Identity) {
        if self.is_listening() {
            remember(&mut self.files.lock(), file);
        }
    }

    /// A file went: another one may have its identity soon.
    pub(super) fn forget(&self, file: Identity) {
        if self.is_listening() {
            self.files.lock().remove(&file);
        }
    }

    /// True where the server did one of `deeds` lately.
    pub(super) fn has_done(&self, directory: Identity, name: &str, deeds: &[Deed]) -> bool {
        let names = self.names.lock();
        let name = fold(name);
        deeds.iter().any(|deed| is_fresh(names.get(&(directory, name.clone(), *deed))))
    }

    /// True where the server changed a file lately.
    pub(super) fn has_touched(&self, file: Identity) -> bool {
        is_fresh(self.files.lock().get(&file))
    }
}

fn is_fresh(when: Option<&Instant>) -> bool {
    when.is_some_and(|when| when.elapsed() < REMEMBERED)
}

fn remember<K: Eq + Hash>(deeds: &mut HashMap<K, Instant>, deed: K) {
    if deeds.len() >= REMEMBERED_MAX {
        deeds.retain(|_, when| is_fresh(Some(when)));
    }
    if deeds.len() < REMEMBERED_MAX {
        deeds.insert(deed, Instant::now());
    }
}
