//! The reserved folder at a share's root.

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::Error;
use crate::directory::calls::{fsync, mkdirat, openat};
use crate::directory::errno::{error, opening};
use crate::directory::names::RESERVED;
use crate::directory::volume::Volume;

/// The folder itself; `None` where it does not exist and `make` is not set.
pub(super) fn folder(volume: &Volume, make: bool) -> Result<Option<OwnedFd>, Error> {
    let root = volume.fence.root();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(root, RESERVED, flags, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT) if make => {
            match mkdirat(root, RESERVED, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => return Err(Error::Gone),
                Err(errno) => return Err(opening(errno)),
            }
            openat(root, RESERVED, flags, Mode::empty()).map(Some).map_err(opening)
        }
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR) => Err(Error::Denied),
        Err(errno) => Err(opening(errno)),
    }
}

/// Persists which side files there are.
pub(super) fn sync(volume: &Volume) -> Result<(), Error> {
    match folder(volume, false)? {
        Some(folder) => fsync(folder).map_err(error),
        None => Ok(()),
    }
}
