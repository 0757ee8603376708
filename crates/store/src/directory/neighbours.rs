//! What the stores of this process share that are over one file system: several shares may be over one folder, or over
//! folders that lie in each other, and a file is the same file in all of them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Once, Weak};

use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::directory::synced::Synced;
use crate::{Identity, waiting};

/// How many locks of each sort the files of one file system share.
pub(super) const LOCKS: usize = 256;

/// How many counters of sets the files of one file system share: what is remembered of a file is rarely given up for another file's sake.
const ATTRIBUTE_COUNTERS: usize = 1024;

/// Locks of files by their inode number. Each file system has its own, so that one that hangs holds up no other.
pub(super) struct Locks {
    changes: [RwLock<()>; LOCKS],
    beside: [Mutex<()>; LOCKS],
    ends: [Mutex<()>; LOCKS],
    adoptions: [Mutex<()>; LOCKS],
    /// How often this process has set what is kept with a file.
    attributes: [AtomicU64; ATTRIBUTE_COUNTERS],
    /// Held for reading by whoever makes a file, from before its name is there until its descriptor is.
    making: RwLock<()>,
    makers: AtomicUsize,
    /// They are files in memory, and also those of a share on a device, below whose folder they are mounted.
    below_device: AtomicBool,
    below_device_known: Once,
    /// By inode number, what is known of files that somebody has open to write.
    synced: [Mutex<BTreeMap<u64, Weak<Synced>>>; LOCKS],
}

/// A change of a file in memory is under way. It is taken before the other locks of the file, and once by a thread.
pub(super) enum Turn {
    /// Nobody makes one that takes long.
    Shared { _held: RwLockReadGuard<'static, ()> },
    /// It takes long.
    Alone { held: RwLockWriteGuard<'static, ()> },
}

impl Turn {
    /// Lets those go first who wait for it.
    pub(super) fn end(self) {
        match self {
            Turn::Shared { .. } => {}
            Turn::Alone { held } => RwLockWriteGuard::unlock_fair(held),
        }
    }
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
        let attributes = [const { AtomicU64::new(0) }; ATTRIBUTE_COUNTERS];
        let (making, makers) = (RwLock::new(()), AtomicUsize::new(0));
        let synced = [const { Mutex::new(BTreeMap::new()) }; LOCKS];
        Box::leak(Box::new(Locks {
            changes: [const { RwLock::new(()) }; LOCKS],
            beside: free(),
            ends: free(),
            adoptions: free(),
            attributes,
            making,
            makers,
            below_device: AtomicBool::new(false),
            below_device_known: Once::new(),
            synced,
        }))
    })
}

impl Locks {
    /// To be held during a change of a file in memory, or a step of it, that takes long: until it ends the kernel keeps everybody waiting
    /// who changes the file as well, and so do the other locks that they hold.
    pub(super) fn change_alone(&'static self, file: Identity) -> Turn {
        Turn::Alone { held: self.changes[slot(file)].write() }
    }

    /// To be held while a file in memory is changed by who must not wait. `None` where a change takes long or is about to, or may wait for a device.
    pub(super) fn try_change(&'static self, file: Identity) -> Option<RwLockReadGuard<'static, ()>> {
        // In this order: who notes a device waits for those who hold one.
        self.changes[slot(file)].try_read().filter(|_| !self.below_device.load(Ordering::SeqCst))
    }

    /// Notes that a share on a device has these files in memory, too. What it keeps beside them may lie on the device, so it may hold any of these
    /// locks while that hangs: once this is over, nobody who must not wait changes one of the files.
    pub(super) fn note_device(&self) {
        self.below_device_known.call_once(|| {
            self.below_device.store(true, Ordering::SeqCst);
            self.changes.iter().for_each(|changes| drop(changes.write()));
        });
    }

    /// To be held while names of files in memory come or go: the kernel waits for the files and holds their directories meanwhile.
    pub(super) fn change_names(&'static self, one: Identity, other: Option<Identity>) -> (Turn, Option<Turn>) {
        let (one, other) = (slot(one), other.map_or(slot(one), slot));
        let (low, high) = (one.min(other), one.max(other));
        let turn = |slot: usize| Turn::Shared { _held: self.changes[slot].read() };
        let first = turn(low);
        (first, (low != high).then(|| turn(high)))
    }

    /// Keeps others from changing what is kept beside a file.
    pub(super) fn beside(&self, file: Identity) -> MutexGuard<'_, ()> {
        self.beside[slot(file)].lock()
    }

    /// The same for who must not wait. `None` where another does so, for long perhaps.
    pub(super) fn try_beside(&self, file: Identity) -> Option<MutexGuard<'_, ()>> {
        self.beside[slot(file)].try_lock()
    }

    /// The same of two files.
    pub(super) fn beside_both(
        &self,
        one: Identity,
        other: Identity,
    ) -> (MutexGuard<'_, ()>, Option<MutexGuard<'_, ()>>) {
        let (low, high) = (slot(one).min(slot(other)), slot(one).max(slot(other)));
        let first = self.beside[low].lock();
        (first, (low != high).then(|| self.beside[high].lock()))
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

    /// What is known of files whose numbers are like this one's, whether the disk has what was written.
    pub(super) fn synced(&self, file: Identity) -> MutexGuard<'_, BTreeMap<u64, Weak<Synced>>> {
        self.synced[slot(file)].lock()
    }

    /// How often this process has set something kept with a file, or with others that share its counter.
    pub(super) fn attributes_set(&self, file: Identity) -> u64 {
        self.attributes[attribute_slot(file)].load(Ordering::SeqCst)
    }

    /// Notes that something was set: to be called before anybody is told of it.
    pub(super) fn note_attributes_set(&self, file: Identity) {
        self.attributes[attribute_slot(file)].fetch_add(1, Ordering::SeqCst);
    }

    /// To be held while a file is made. Nobody who holds it may look for one. `None` where somebody waits for those who make files, and
    /// this thread must not wait.
    pub(super) fn make(&'static self) -> Option<Making> {
        let held = if waiting::is_allowed() { self.making.read() } else { self.making.try_read()? };
        // Seen by whoever finds a name that is made after this.
        self.makers.fetch_add(1, Ordering::SeqCst);
        Some(Making { locks: self, _held: held })
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

fn attribute_slot(file: Identity) -> usize {
    (file.file % ATTRIBUTE_COUNTERS as u64) as usize
}

/// Files that share one of the locks share one of each sort.
pub(super) fn slot(file: Identity) -> usize {
    (file.file % LOCKS as u64) as usize
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use std::{array, thread};

    use super::*;

    #[test]
    fn files_in_memory_that_a_share_on_a_device_has_too_are_changed_by_nobody_who_must_not_wait() {
        let (memory, neighbour) = (u64::MAX, u64::MAX - 1);
        let files: [Identity; 2] = array::from_fn(|file| Identity { volume: memory, file: file as u64 });
        let locks_there = locks(memory);
        let held = locks_there.try_change(files[0]).unwrap();
        thread::scope(|scope| {
            let noting = scope.spawn(|| locks_there.note_device());
            while locks_there.try_change(files[1]).is_some() {
                thread::sleep(Duration::from_millis(1));
            }
            assert!(!noting.is_finished(), "it waits for who began before");
            drop(held);
        });
        assert!(files.iter().all(|file| locks_there.try_change(*file).is_none()));
        assert!(locks(neighbour).try_change(Identity { volume: neighbour, file: 0 }).is_some());
    }
}
