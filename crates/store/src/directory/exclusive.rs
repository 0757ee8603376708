//! A folder is served by one process at a time: two would each grant what the other must not. The lock is on a file in the reserved
//! folder, is the kernel's, and ends with the process. All stores of one process over a folder hold it together. A folder that
//! is only read is not locked, nor is one whose file system has no locks. One with no room for the file is not locked yet: until there
//! is room nothing is changed there, but names may go.
//!
//! Another program may remove or replace the file, or all of the reserved folder (`rsync --delete` does), and the lock with it. So it is looked
//! now and then whether it is still in its place, and it is taken anew where it is not. Where another process was faster nothing is changed
//! until that has ended.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::thread::Builder;

use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags, Statx};
use rustix::io::Errno;

use crate::directory::calls::{flock, mkdirat, openat};
use crate::directory::data;
use crate::directory::errno::{error, opening};
use crate::directory::names::RESERVED;
use crate::directory::stat::{identity, stat, stat_at};
use crate::{Error, Identity, Look, Waits, threads, waiting};

/// The file in the reserved folder; it holds the number of the process.
const LOCK: &str = "lock";
/// How deep a folder may lie in others that are looked at.
const DEPTH_MAX: usize = 2048;

/// A folder that this process serves.
pub(super) struct Exclusive {
    lock: Mutex<Lock>,
    is_taken: AtomicBool,
    /// The process that has taken it over. Nobody waits for a device with this locked.
    taken_over_by: Mutex<Option<u32>>,
    waits: Waits,
}

/// How far a folder is locked.
enum Lock {
    Held {
        file: OwnedFd,
    },
    /// It cannot be, and need not: no other server of ours could write there, or lock it.
    Never,
    /// There was no room for the file.
    NoRoom,
    /// The file that was locked is no longer in its place, and another process has locked the one that is.
    TakenOver,
}

/// The folders that this process serves, by their roots. Taking one may wait for its device, with its own place locked and no other.
static SERVED: Mutex<BTreeMap<Identity, Arc<ServedSlot>>> = Mutex::new(BTreeMap::new());

type ServedSlot = Mutex<Weak<Exclusive>>;

impl Exclusive {
    /// Takes the folder. [`Error::Served`] where another process has it, or a folder that it lies in.
    pub(super) fn take(root: BorrowedFd<'_>, identity: Identity, waits: Waits) -> Result<Arc<Self>, Error> {
        let place = place(identity);
        let mut served = place.lock();
        if let Some(held) = served.upgrade() {
            return Ok(held);
        }
        check_above(root)?;
        let lock = lock(root)?;
        let is_taken = AtomicBool::new(!matches!(lock, Lock::NoRoom));
        let taken = Arc::new(Exclusive { lock: Mutex::new(lock), is_taken, taken_over_by: Mutex::default(), waits });
        *served = Arc::downgrade(&taken);
        Ok(taken)
    }

    /// True where the folder is locked as far as it can be.
    pub(super) fn is_taken(&self) -> bool {
        self.is_taken.load(Ordering::Acquire)
    }

    /// What the kernel knows of the file that is locked, if one is.
    pub(super) fn stat(&self) -> Option<Statx> {
        match &*self.lock.lock() {
            Lock::Held { file } => stat(file).ok(),
            Lock::Never | Lock::NoRoom | Lock::TakenOver => None,
        }
    }

    /// True where the kernel keeps all others out.
    pub(super) fn is_held(&self) -> bool {
        matches!(*self.lock.lock(), Lock::Held { .. })
    }

    /// [`Error::Served`] where another process has taken the folder over.
    pub(super) fn check_own(&self) -> Result<(), Error> {
        if self.is_taken() {
            return Ok(());
        }
        self.taken_over_by.lock().map_or(Ok(()), |process| Err(Error::Served(process)))
    }

    /// Looks whether the file that is locked is still in its place, and locks the one that is where it is not. [`Error::Served`] where another
    /// process has, [`Error::Full`] where there is no room for one; otherwise an error leaves all as it was.
    pub(super) fn look(&self, root: BorrowedFd<'_>) -> Result<Look, Error> {
        let mut held = self.lock.lock();
        match &*held {
            Lock::Held { file } if is_in_place(root, file) => return Ok(Look::Same),
            Lock::Never | Lock::NoRoom => return Ok(Look::Same),
            Lock::Held { .. } | Lock::TakenOver => {}
        }
        match lock(root) {
            // No other server could lock it either.
            Ok(Lock::Never) => self.check_own().map(|()| Look::Same),
            Ok(lock) => {
                let is_full = matches!(lock, Lock::NoRoom);
                *held = lock;
                *self.taken_over_by.lock() = None;
                self.is_taken.store(!is_full, Ordering::Release);
                if is_full { Err(Error::Full) } else { Ok(Look::LockedAnew) }
            }
            Err(Error::Served(process)) => {
                *held = Lock::TakenOver;
                *self.taken_over_by.lock() = Some(process);
                self.is_taken.store(false, Ordering::Release);
                Err(Error::Served(process))
            }
            Err(error) => Err(error),
        }
    }

    /// Locks a folder that had no room for it. [`Error::Full`] where it still has none, [`Error::Served`] where another process was first.
    pub(super) fn take_again(&self, root: BorrowedFd<'_>) -> Result<(), Error> {
        self.check_own()?;
        let mut held = self.lock.lock();
        if matches!(*held, Lock::NoRoom) {
            *held = lock(root)?;
        }
        if matches!(*held, Lock::NoRoom) {
            return Err(Error::Full);
        }
        self.is_taken.store(true, Ordering::Release);
        Ok(())
    }
}

/// The folder's own place; those of others that are served no more go.
fn place(identity: Identity) -> Arc<ServedSlot> {
    let mut served = SERVED.lock();
    served.retain(|_, place| Arc::strong_count(place) > 1 || place.lock().strong_count() > 0);
    Arc::clone(served.entry(identity).or_default())
}

impl Drop for Exclusive {
    /// A file of NFS or FUSE asks its server when it is closed, which may hang; one of a local disk may have to be written out.
    fn drop(&mut self) {
        let may_hang = match self.waits {
            Waits::Never => false,
            Waits::ForData => !waiting::is_allowed(),
            Waits::Always => true,
        };
        if let (true, Lock::Held { file }) = (may_hang, std::mem::replace(self.lock.get_mut(), Lock::Never)) {
            // Where there is no thread it is closed here.
            let _ = threads::start(Builder::new().name("multilane-close".to_owned()), move || drop(file));
        }
    }
}

/// Locks the folder, where it can be.
fn lock(root: BorrowedFd<'_>) -> Result<Lock, Error> {
    match mkdirat(root, RESERVED, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(Errno::NOSPC | Errno::DQUOT) => return Ok(Lock::NoRoom),
        // What may not be written by us is not written by another server of ours either.
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(Lock::Never),
        Err(errno) => return Err(opening(errno)),
    }
    let reserved = match open_reserved(root) {
        Ok(reserved) => reserved,
        // A link or a file in its place is of no use to us.
        Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM) => return Ok(Lock::Never),
        Err(errno) => return Err(opening(errno)),
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match openat(&reserved, LOCK, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        Err(Errno::NOSPC | Errno::DQUOT) => return Ok(Lock::NoRoom),
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::LOOP) => return Ok(Lock::Never),
        Err(errno) => return Err(opening(errno)),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Err(Error::Served(holder(&file))),
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BADF) => return Ok(Lock::Never),
        Err(errno) => return Err(error(errno)),
    }
    let number = format!("{}\n", own_number());
    // Without the number the lock is as good; who meets it is told less.
    let _ = data::set_length(&file, 0).and_then(|()| data::write(&file, number.as_bytes(), 0));
    Ok(Lock::Held { file })
}

/// True where a file is the one that is to be locked, or the file system does not say just now which that is.
fn is_in_place(root: BorrowedFd<'_>, file: &OwnedFd) -> bool {
    let in_place = open_reserved(root).and_then(|reserved| stat_at(reserved, LOCK.as_bytes()));
    match (in_place, stat(file)) {
        (Ok(in_place), Ok(held)) => identity(&in_place) == identity(&held),
        (Err(errno), _) => !matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP),
        (Ok(_), Err(_)) => true,
    }
}

/// Looks whether another process serves a folder that this one lies in.
fn check_above(root: BorrowedFd<'_>) -> Result<(), Error> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut above = openat(root, "..", flags, Mode::empty());
    for _ in 0..DEPTH_MAX {
        let Ok(folder) = above else { return Ok(()) };
        let own = stat(&folder).map(|stat| identity(&stat)).ok();
        let next = openat(&folder, "..", flags, Mode::empty());
        let outer = next.as_ref().ok().and_then(|next| stat(next).ok()).map(|stat| identity(&stat));
        let served = open_reserved(folder.as_fd()).and_then(|reserved| {
            openat(
                reserved,
                LOCK,
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK,
                Mode::empty(),
            )
        });
        if let Ok(file) = served
            && flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::AGAIN)
        {
            let holder = holder(&file);
            if holder != own_number() {
                return Err(Error::Served(holder));
            }
        }
        if own == outer {
            // The root of everything lies in itself.
            return Ok(());
        }
        above = next;
    }
    Ok(())
}

fn open_reserved(folder: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, RESERVED, flags, Mode::empty())
}

/// The process that holds a lock, as it has written it down; 0 where it has not.
fn holder(file: &OwnedFd) -> u32 {
    let mut text = [0; 16];
    let count = data::read(file, &mut text, 0).unwrap_or(0);
    let text = std::str::from_utf8(&text[..count]).unwrap_or("");
    text.trim().parse().unwrap_or(0)
}

fn own_number() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()
}
