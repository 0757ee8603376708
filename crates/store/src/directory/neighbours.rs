//! What the stores of this process share that are over one file system: several shares may be over one folder, or over
//! folders that lie in each other, and a file is the same file in all of them.

use std::collections::BTreeMap;

use parking_lot::{Mutex, MutexGuard};

use crate::Identity;

/// How many locks of each sort the files of one file system share.
const LOCKS: usize = 64;

/// Locks of files by their inode number. Each file system has its own, so that one that hangs holds up no other.
pub(super) struct Locks {
    beside: [Mutex<()>; LOCKS],
    ends: [Mutex<()>; LOCKS],
}

/// By device number. There are as many as file systems were ever served, so they are never given back.
static OF_VOLUMES: Mutex<BTreeMap<u64, &'static Locks>> = Mutex::new(BTreeMap::new());

/// The locks of the files of one file system.
pub(super) fn locks(volume: u64) -> &'static Locks {
    OF_VOLUMES.lock().entry(volume).or_insert_with(|| {
        let free = || [const { Mutex::new(()) }; LOCKS];
        Box::leak(Box::new(Locks { beside: free(), ends: free() }))
    })
}

impl Locks {
    /// Keeps others from changing what is kept beside a file.
    pub(super) fn beside(&self, file: Identity) -> MutexGuard<'_, ()> {
        self.beside[slot(file)].lock()
    }

    /// Keeps others from appending to a file or a stream of it. Taken before [`Locks::beside`].
    pub(super) fn end(&self, file: Identity) -> MutexGuard<'_, ()> {
        self.ends[slot(file)].lock()
    }
}

fn slot(file: Identity) -> usize {
    (file.file % LOCKS as u64) as usize
}
