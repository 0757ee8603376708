//! A folder is served by one process at a time: two would each grant what the other must not. The lock is on a file in the reserved
//! folder, is the kernel's, and ends with the process. All stores of one process over a folder hold it together. A folder that
//! is only read is not locked, nor is one whose file system has no locks.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, mkdirat, openat};
use rustix::io::Errno;

use crate::directory::data;
use crate::directory::errno::{error, opening};
use crate::directory::folder::{identity, stat};
use crate::directory::names::RESERVED;
use crate::{Error, Identity};

/// The file in the reserved folder; it holds the number of the process.
const LOCK: &str = "lock";
/// How deep a folder may lie in others that are looked at.
const DEPTH_MAX: usize = 2048;

/// A folder that this process serves.
pub(super) struct Exclusive {
    _held: Option<OwnedFd>,
}

/// The folders that this process serves, by their roots.
static SERVED: Mutex<BTreeMap<Identity, Weak<Exclusive>>> = Mutex::new(BTreeMap::new());

impl Exclusive {
    /// Takes the folder. [`Error::Served`] where another process has it, or a folder that it lies in.
    pub(super) fn take(root: BorrowedFd<'_>, identity: Identity) -> Result<Arc<Self>, Error> {
        let mut served = SERVED.lock();
        if let Some(held) = served.get(&identity).and_then(Weak::upgrade) {
            return Ok(held);
        }
        check_above(root)?;
        let taken = Arc::new(Exclusive { _held: lock(root)? });
        served.retain(|_, held| held.strong_count() > 0);
        served.insert(identity, Arc::downgrade(&taken));
        Ok(taken)
    }
}

/// Locks the folder; `None` where it cannot be.
fn lock(root: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Error> {
    match mkdirat(root, RESERVED, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        // What may not be written by us is not written by another server of ours either.
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOSPC | Errno::DQUOT) => return Ok(None),
        Err(errno) => return Err(opening(errno)),
    }
    let reserved = match open_reserved(root) {
        Ok(reserved) => reserved,
        // A link or a file in its place is of no use to us.
        Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::PERM) => return Ok(None),
        Err(errno) => return Err(opening(errno)),
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match openat(&reserved, LOCK, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => file,
        Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::NOSPC | Errno::DQUOT | Errno::LOOP) => return Ok(None),
        Err(errno) => return Err(opening(errno)),
    };
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Err(Error::Served(holder(&file))),
        Err(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BADF) => return Ok(None),
        Err(errno) => return Err(error(errno)),
    }
    let number = format!("{}\n", own_number());
    // Without the number the lock is as good; who meets it is told less.
    let _ = data::set_length(&file, 0).and_then(|()| data::write(&file, number.as_bytes(), 0));
    Ok(Some(file))
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
