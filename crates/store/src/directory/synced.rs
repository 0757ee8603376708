//! Whether the disk has what was written to a file, for all that have it open to write.
//!
//! Where writing a page to the disk fails, Linux forgets the page and tells each descriptor of it once, with its next `fsync`: the one after that
//! succeeds, though what was written is lost, and so does the first of a descriptor that was opened later. So what failed is remembered here
//! until the last who has the file open to write closes it: who opens it then has been answered for nothing yet.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::directory::leftovers::Nameless;
use crate::directory::neighbours::Locks;
use crate::directory::side::SideName;
use crate::directory::volume::Volume;
use crate::{Error, Identity, waiting};

/// What is known of a file. It is there while somebody has the file open to write, or has had a directory synced.
pub(super) struct Synced {
    file: Identity,
    locks: &'static Locks,
    failed: Mutex<Option<Error>>,
    /// Side files that go with it, for the file has no name.
    nameless: Mutex<Vec<Nameless>>,
}

/// How a sync failed.
pub(super) struct Failed {
    pub(super) error: Error,
    /// Nobody was told before.
    pub(super) is_first: bool,
}

impl Synced {
    /// What all who have `file` open know.
    pub(super) fn of(locks: &'static Locks, file: Identity) -> Arc<Self> {
        let mut known = locks.synced(file);
        if let Some(synced) = known.get(&file.file).and_then(std::sync::Weak::upgrade) {
            return synced;
        }
        let synced = Arc::new(Synced { file, locks, failed: Mutex::new(None), nameless: Mutex::default() });
        known.insert(file.file, Arc::downgrade(&synced));
        synced
    }

    /// Has a side file of the file, which has no name, go when the last closes it.
    pub(super) fn keep_while_open(&self, nameless: Nameless) {
        self.nameless.lock().push(nameless);
    }

    /// The same where another may have removed it.
    pub(super) fn forget_when_closed(&self, volume: &Arc<Volume>, side: SideName) {
        self.keep_while_open(Nameless::unmarked(volume, side));
    }

    /// True where it goes then.
    pub(super) fn keeps(&self, side: &SideName) -> bool {
        self.nameless.lock().iter().any(|nameless| nameless.side == *side)
    }

    /// Has the disk keep what was written. Once that has failed it fails.
    pub(super) fn sync(&self, sync: impl FnOnce() -> Result<(), Error>) -> Result<(), Failed> {
        // Also where it failed before: what was written since is kept as well as it can be.
        let answer = sync();
        let mut failed = self.failed.lock();
        // Another thread with the same descriptor may have been told in the place of this one.
        match (*failed, answer) {
            (Some(error), _) => Err(Failed { error, is_first: false }),
            (None, Ok(())) => Ok(()),
            (None, Err(error)) => {
                *failed = Some(error);
                Err(Failed { error, is_first: true })
            }
        }
    }
}

impl Drop for Synced {
    fn drop(&mut self) {
        let nameless = std::mem::take(self.nameless.get_mut());
        if !nameless.is_empty() && !waiting::is_allowed() {
            waiting::drop_elsewhere(self.file.volume, Box::new(nameless));
        }
        let mut known = self.locks.synced(self.file);
        // Somebody may have opened it again.
        if known.get(&self.file.file).is_some_and(|synced| synced.strong_count() == 0) {
            known.remove(&self.file.file);
        }
    }
}
