//! What the stores of this process share that are over one file system: several shares may be over one folder, or over
//! folders that lie in each other, and a file is the same file in all of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

use crate::{Identity, waiting};

/// How many locks of each sort the files of one file system share.
const LOCKS: usize = 64;

/// Locks of files by their inode number. Each file system has its own, so that one that hangs holds up no other.
pub(super) struct Locks {
    beside: [Mutex<()>; LOCKS],
    ends: [Mutex<()>; LOCKS],
    adoptions: [Mutex<()>; LOCKS],
    /// Held for reading by whoever makes a file, from before its name is there until its descriptor is.
    making: RwLock<()>,
    makers: AtomicUsize,
}

/// Files or directories are being made.
pub(super) struct Making {
    locks: &'static Locks,
    _held: RwLockReadGuard<'static, ()>,
}

/// By device number. There are as many as file systems were ever served, so they are never given back.
static OF_VOLUMES: Mutex<BTreeMap<u64, &'static Locks>> = Mutex::new(BTreeMap::new());

/// The locks of the files of one file system.
pub(super) fn locks(volume: u64) -> &'static Locks {
    OF_VOLUMES.lock().entry(volume).or_insert_with(|| {
        let free = || [const { Mutex::new(()) }; LOCKS];
        let (making, makers) = (RwLock::new(()), AtomicUsize::new(0));
        Box::leak(Box::new(Locks { beside: free(), ends: free(), adoptions: free(), making, makers }))
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

    /// Keeps others from copying data that came with a file's attributes, which may take long. Taken after [`Locks::end`] and before
    /// [`Locks::beside`]. `None` where another does so and this thread must not wait.
    pub(super) fn adopt(&self, file: Identity) -> Option<MutexGuard<'_, ()>> {
        let lock = &self.adoptions[slot(file)];
        if waiting::is_allowed() { Some(lock.lock()) } else { lock.try_lock() }
    }

    /// To be held while a file is made. Nobody who holds it may look for one.
    pub(super) fn make(&'static self) -> Making {
        let held = self.making.read();
        // Seen by whoever finds a name that is made after this.
        self.makers.fetch_add(1, Ordering::SeqCst);
        Making { locks: self, _held: held }
    }

    /// True where no file is being made: each that was found before has its descriptor.
    pub(super) fn nothing_is_made(&self) -> bool {
        self.makers.load(Ordering::SeqCst) == 0
    }

    /// Waits until each file that was found has its descriptor.
    pub(super) fn wait_for_makers(&self) {
        drop(self.making.write());
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.locks.makers.fetch_sub(1, Ordering::SeqCst);
    }
}

fn slot(file: Identity) -> usize {
    (file.file % LOCKS as u64) as usize
}
