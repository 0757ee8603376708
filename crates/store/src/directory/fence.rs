//! The fence around a share: every open starts at its root and cannot leave.
//!
//! `openat2` with `RESOLVE_BENEATH` refuses `..` above the root, whatever other programs rename meanwhile;
//! `RESOLVE_NO_SYMLINKS` follows no symbolic link, wherever it leads, nor the links of `/proc`.

use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::directory::calls::{again, open};
use crate::effort;

/// Whether a call may wait for a device.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    /// It may.
    May,
    /// It may not, and what lies on the root's own file system is memory: what is mounted below that is EAGAIN.
    OnRoot,
}

/// How often an open is tried again when other programs rename directories under it.
const TRIES_MAX: usize = 64;

/// The root of a share.
pub(super) struct Fence {
    root: OwnedFd,
}

impl Fence {
    /// Opens the folder, and asks the kernel what it can do. ENOSYS before Linux 5.6.
    pub(super) fn new(folder: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(folder, flags, Mode::empty())?;
        again(|| openat2(&root, ".", OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::BENEATH))?;
        Ok(Fence { root })
    }

    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Opens a path of stored names, separated with `/`; empty for the root. ELOOP where it has a symbolic link, but for its last name with
    /// `O_PATH` and `O_NOFOLLOW`.
    pub(super) fn open(&self, path: &[u8], flags: OFlags, wait: Wait) -> Result<OwnedFd, Errno> {
        let path = if path.is_empty() { b".".as_slice() } else { path };
        self.open_from(self.root.as_fd(), path, flags, wait)
    }

    /// Opens a stored name in an open directory. ELOOP for a symbolic link, as with [`Fence::open`].
    pub(super) fn open_in(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        flags: OFlags,
        wait: Wait,
    ) -> Result<OwnedFd, Errno> {
        self.open_from(directory, name, flags, wait)
    }

    /// Opens the directory that a directory lies in: the one way that leads up, for who stops at the root.
    pub(super) fn open_above(&self, directory: BorrowedFd<'_>, flags: OFlags, wait: Wait) -> Result<OwnedFd, Errno> {
        let mut resolve = ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        if wait != Wait::May {
            resolve |= ResolveFlags::NO_XDEV;
        }
        match again(|| openat2(directory, "..", flags | OFlags::CLOEXEC, Mode::empty(), resolve)) {
            Err(Errno::XDEV) if wait != Wait::May => Err(Errno::AGAIN),
            answer => answer,
        }
    }

    fn open_from(&self, from: BorrowedFd<'_>, path: &[u8], flags: OFlags, wait: Wait) -> Result<OwnedFd, Errno> {
        let mut flags = flags | OFlags::CLOEXEC;
        if !flags.contains(OFlags::PATH) {
            flags |= OFlags::NOCTTY | OFlags::NONBLOCK;
        }
        let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        match wait {
            Wait::May => {}
            Wait::OnRoot => resolve |= ResolveFlags::NO_XDEV,
        }
        effort::note(path.split(|byte| *byte == b'/').filter(|name| *name != b".").count());
        for _ in 0..TRIES_MAX {
            match openat2(from, path, flags, Mode::empty(), resolve) {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {}
                // Whoever may wait finds out whether it leads out of the share or to what is mounted there.
                Err(Errno::XDEV) if wait != Wait::May => return Err(Errno::AGAIN),
                answer => return answer,
            }
        }
        Err(if wait == Wait::May { Errno::XDEV } else { Errno::AGAIN })
    }
}
