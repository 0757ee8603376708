//! Whether the disk has what was written to a file, for all that have it open to write.
//!
//! Where writing a page to the disk fails, Linux forgets the page and tells each descriptor of it once, with its next `fsync`: the one after that
//! succeeds, though what was written is lost, and so does the first of a descriptor that was opened later. So what failed is remembered here
//! until the last who has the file open to write closes it: who opens it then has been answered for nothing yet. Of two syncs of one descriptor at
//! a time one is told: the other waits for it.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use crate::directory::neighbours::Locks;
use crate::waiting::{self, Discarded};
use crate::{Error, Identity};

/// What is known of a file. It is there while somebody has the file open to write, or has had a directory synced.
pub(super) struct Synced {
    file: Identity,
    locks: &'static Locks,
    failed: Mutex<Option<Error>>,
    /// Side files that go with it, for the file has no name.
    nameless: Mutex<Vec<(String, Discarded)>>,
}

/// The syncs through one descriptor and its duplicates: each holds it for reading until it has noted how it failed.
#[derive(Default)]
pub(super) struct UnderWay(RwLock<()>);

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

    /// Has something of the file, which has no name, go when the last closes it. It is known by `name`.
    pub(super) fn keep_while_open(&self, name: String, kept: Discarded) {
        self.nameless.lock().push((name, kept));
    }

    /// True where what is known by that name goes then.
    pub(super) fn keeps(&self, name: &str) -> bool {
        self.nameless.lock().iter().any(|(known, _)| known == name)
    }

    /// Remembers how a sync failed. True where it is the first that did.
    fn note(&self, answer: Result<(), Error>) -> bool {
        let mut failed = self.failed.lock();
        let is_first = failed.is_none() && answer.is_err();
        *failed = failed.or(answer.err());
        is_first
    }

    /// Has the disk keep what was written. Once that has failed it fails.
    pub(super) fn sync(&self, under_way: &UnderWay, sync: impl FnOnce() -> Result<(), Error>) -> Result<(), Failed> {
        let held = under_way.0.read();
        // Also where it failed before: what was written since is kept as well as it can be.
        let answer = sync();
        let is_first = self.note(answer);
        drop(held);
        if answer.is_ok() {
            // Those that are under way may have been told in the place of this one.
            drop(under_way.0.write());
        }
        let failed = *self.failed.lock();
        failed.map_or(Ok(()), |error| Err(Failed { error, is_first }))
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

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::directory::neighbours::locks;

    const FAILED: Error = Error::Io(5);

    fn of_file(file: u64) -> Arc<Synced> {
        let volume = u64::MAX;
        Synced::of(locks(volume), Identity { volume, file })
    }

    fn answer(synced: &Synced, under_way: &UnderWay, sync: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        synced.sync(under_way, sync).map_err(|failed| failed.error)
    }

    #[test]
    fn a_sync_during_one_of_the_same_descriptor_that_is_told_of_a_failure_fails_as_well() {
        let (synced, under_way) = (&*of_file(1), &UnderWay::default());
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            let told = answer(synced, under_way, || {
                // The kernel has told this one, which goes on after the other has asked and has had time to answer.
                let (ask, asked) = mpsc::channel();
                scope.spawn(move || {
                    let other = answer(synced, under_way, || ask.send(()).map_err(|_| FAILED));
                    sender.send(other).unwrap();
                });
                asked.recv().unwrap();
                assert_eq!(receiver.recv_timeout(Duration::from_millis(200)), Err(mpsc::RecvTimeoutError::Timeout));
                Err(FAILED)
            });
            assert_eq!(told, Err(FAILED));
            assert_eq!(receiver.recv(), Ok(Err(FAILED)));
        });
    }

    #[test]
    fn syncs_of_one_descriptor_are_made_at_once() {
        let (synced, under_way, all) = (&*of_file(2), &UnderWay::default(), &Barrier::new(4));
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    let wait = || {
                        all.wait();
                        Ok(())
                    };
                    assert_eq!(answer(synced, under_way, wait), Ok(()));
                });
            }
        });
    }

    #[test]
    fn a_sync_waits_for_none_of_another_descriptor() {
        let synced = of_file(3);
        let hangs = answer(&synced, &UnderWay::default(), || answer(&synced, &UnderWay::default(), || Ok(())));
        assert_eq!(hangs, Ok(()));
    }
}
