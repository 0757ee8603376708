//! A directory of the share that names are looked up in.

use std::ops::Deref;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, Statx};
use rustix::io::Errno;

use crate::directory::calls::openat;
use crate::directory::outcome::At;
use crate::directory::stat::{Mount, Stamp, born, identity, mount, stat};
use crate::{Identity, SharePath};

/// What a descriptor may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reach {
    /// To name the file only: we may not read it.
    Path,
    /// To read.
    Read,
    /// To read and write.
    ReadWrite,
}

/// An open directory.
pub(super) struct Folder<'a> {
    pub(super) fd: Handle<'a>,
    pub(super) reach: Reach,
    pub(super) identity: Identity,
    pub(super) mount: Mount,
    pub(super) born: i128,
    /// What the kernel knew of it when it was opened or looked at, where it was.
    pub(super) found: Option<Statx>,
}

/// The descriptor of an open directory, to look names up and to change them.
pub(super) enum Handle<'a> {
    Own(OwnedFd),
    /// A node's, whose position is not to be moved.
    Of(BorrowedFd<'a>),
}

/// An open directory that a path led to.
pub(super) struct Reached {
    pub(super) folder: Folder<'static>,
    /// The path in stored bytes, separated with `/`.
    pub(super) disk: Vec<u8>,
    /// The path as clients see it.
    pub(super) path: SharePath,
}

impl Folder<'static> {
    /// Asks for the identity of an open directory.
    pub(super) fn new((fd, reach): (OwnedFd, Reach)) -> Result<Self, Errno> {
        Folder::with(Handle::Own(fd), reach)
    }
}

impl<'a> Folder<'a> {
    /// The same, be the descriptor whose it may.
    pub(super) fn with(fd: Handle<'a>, reach: Reach) -> Result<Self, Errno> {
        let stat = stat(&fd)?;
        Ok(Folder { identity: identity(&stat), mount: mount(&stat), born: born(&stat), found: Some(stat), fd, reach })
    }

    /// A descriptor to read its names with, whose position is this caller's.
    pub(super) fn to_read(&self) -> Result<Handle<'_>, Errno> {
        match &self.fd {
            Handle::Own(fd) => Ok(Handle::Of(fd.as_fd())),
            Handle::Of(fd) => Ok(Handle::Own(open_again(*fd)?)),
        }
    }

    /// A name in it.
    pub(super) fn at<'n>(&'n self, name: &'n [u8]) -> At<'n> {
        At { folder: self.fd.as_fd(), name }
    }

    /// True where it had a name when it was found.
    pub(super) fn exists(&self) -> Result<bool, Errno> {
        let links = match &self.found {
            Some(found) => found.stx_nlink,
            None => stat(&self.fd)?.stx_nlink,
        };
        Ok(links > 0)
    }

    /// True where it had these times when it was found, or has them now.
    pub(super) fn has_stamp(&self, stamp: Stamp) -> Result<bool, Errno> {
        Ok(self.found.as_ref().is_some_and(|found| Stamp::of(found) == stamp) || self.stamp_now()? == stamp)
    }

    /// The directory's times now.
    pub(super) fn stamp_now(&self) -> Result<Stamp, Errno> {
        Ok(Stamp::of(&stat(&self.fd)?))
    }
}

impl Reached {
    /// Its path goes on with a name.
    pub(super) fn enter(&mut self, disk: &[u8], shown: &str) {
        if !self.disk.is_empty() {
            self.disk.push(b'/');
        }
        self.disk.extend_from_slice(disk);
        self.path.push(shown);
    }

    /// The path of a name in it, in stored bytes.
    pub(super) fn disk_path(&self, name: &[u8]) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.disk.len() + 1 + name.len());
        path.extend_from_slice(&self.disk);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    /// The path of a name in it, as clients see it.
    pub(super) fn shown_path(&self, shown: &str) -> SharePath {
        let mut path = self.path.clone();
        path.push(shown);
        path
    }
}

impl Handle<'_> {
    /// A descriptor of its own.
    pub(super) fn into_own(self) -> Result<OwnedFd, Errno> {
        match self {
            Handle::Own(fd) => Ok(fd),
            Handle::Of(fd) => open_again(fd),
        }
    }
}

impl AsFd for Handle<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Handle::Own(fd) => fd.as_fd(),
            Handle::Of(fd) => fd.as_fd(),
        }
    }
}

/// The same directory with a position of its own.
pub(super) fn open_again(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    openat(fd, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

impl Deref for Reached {
    type Target = Folder<'static>;

    fn deref(&self) -> &Folder<'static> {
        &self.folder
    }
}
