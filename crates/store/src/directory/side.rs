//! Side files: data that belongs to a file and does not fit in its extended attributes.
//!
//! They live in the folder `.multilane` at the share's root, which only the server's user may enter and no client
//! reaches, each named by a random 128-bit id that an attribute of its file holds. They go when the stream or the
//! file's last name goes through this server. Where another program removes the file, the side file stays behind: one
//! that no file's attributes name may be deleted. Where a share is served whose folder lies inside another share's,
//! each has its own `.multilane`.

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::Error;
use crate::directory::calls::{fsync, mkdirat, openat, unlinkat};
use crate::directory::errno::{error, opening};
use crate::directory::nameless::about_to_go;
use crate::directory::names::RESERVED;
use crate::directory::volume::Volume;

/// Names a side file.
pub(super) type Id = [u8; 16];

/// A new random id.
pub(super) fn new_id() -> Result<Id, Error> {
    let mut id = [0; 16];
    getrandom(&mut id, GetRandomFlags::empty()).map_err(error)?;
    Ok(id)
}

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

/// Makes an empty side file.
pub(super) fn create(volume: &Volume, id: Id) -> Result<OwnedFd, Error> {
    let folder = folder(volume, true)?.ok_or(Error::NotFound)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name(id).as_str(), flags, Mode::RUSR | Mode::WUSR).map_err(error)
}

/// Opens a side file. [`Error::Gone`] where it is not there.
pub(super) fn open(volume: &Volume, id: Id) -> Result<OwnedFd, Error> {
    let folder = folder(volume, false)?.ok_or(Error::Gone)?;
    let common = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let usage = if volume.read_only { OFlags::RDONLY } else { OFlags::RDWR };
    let opened = match openat(&folder, name(id).as_str(), common | usage, Mode::empty()) {
        Err(Errno::ACCESS | Errno::ROFS) => openat(&folder, name(id).as_str(), common, Mode::empty()),
        answer => answer,
    };
    opened.map_err(|errno| if errno == Errno::NOENT { Error::Gone } else { opening(errno) })
}

/// Has the disk know which side files there are.
pub(super) fn sync(volume: &Volume) -> Result<(), Error> {
    match folder(volume, false)? {
        Some(folder) => fsync(folder).map_err(error),
        None => Ok(()),
    }
}

/// Removes a side file, if it is there.
pub(super) fn remove(volume: &Volume, id: Id) {
    let Ok(Some(folder)) = folder(volume, false) else { return };
    let name = name(id);
    let _counted = about_to_go(volume, &folder, name.as_bytes());
    let _ = unlinkat(folder, name.as_str(), AtFlags::empty());
}

/// An id as a name.
pub(super) fn name(id: Id) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
