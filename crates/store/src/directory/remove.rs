//! Removing names, and what is kept of a file outside it when its last name goes.

use std::sync::Arc;

use rustix::fd::AsRawFd;
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::directory::cache::Did;
use crate::directory::calls::unlinkat;
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::file::OpenFile;
use crate::directory::folder::Folder;
use crate::directory::keep::{Place, Subject};
use crate::directory::leftovers::Held;
use crate::directory::nameless::about_to_go;
use crate::directory::volume::Volume;
use crate::directory::walk::{self, Named};
use crate::directory::{cache, names::Wanted, streams};
use crate::{Error, Identity, Name};

/// Removes a name.
pub(super) fn remove(directory: &OpenFile, name: &Name, expected: Identity) -> Result<(), Error> {
    let volume = &directory.volume;
    volume.check_removable()?;
    let (folder, wanted) = walk::wanted(directory, name)?;
    let mut held = volume.cache.hold(folder.identity);
    let (disk, named) = stored(volume, &mut held, &folder, &wanted)?;
    if named.identity != expected {
        return Err(Error::NotFound);
    }
    let valid = held.is_valid(&folder)?;
    unlink(volume, &folder, &disk, &named)?;
    if valid {
        held.note(&folder, &Did::Removed(&disk));
    } else {
        held.forget(folder.identity);
    }
    drop(held);
    if named.kind == FileType::Directory
        && let Some(mut own) = volume.cache.try_hold(named.own)
    {
        own.forget(named.own);
    }
    Ok(())
}

/// The name as it is stored, and what it leads to. [`Error::NotFound`] where there is none.
pub(super) fn stored(
    volume: &Volume,
    held: &mut cache::Held<'_>,
    folder: &Folder,
    wanted: &Wanted,
) -> Result<(Vec<u8>, Named), Error> {
    match walk::named(volume, folder, &wanted.disk) {
        Ok(named) => Ok((wanted.disk.clone(), named)),
        Err(Error::NotFound) => {
            if !folder.exists && folder.identity == volume.identity {
                return Err(Error::Gone);
            }
            let disk = held.find(folder, wanted, Wait::May)?.ok_or(Error::NotFound)?;
            let named = walk::named(volume, folder, &disk)?;
            Ok((disk, named))
        }
        Err(error) => Err(error),
    }
}

/// Removes a stored name and, with the last, what is kept outside the file.
pub(super) fn unlink(volume: &Arc<Volume>, folder: &Folder, disk: &[u8], named: &Named) -> Result<(), Error> {
    let subject = subject(volume, folder, disk, named);
    let last = is_last(named);
    let sides = match last.then(|| streams::sides(&subject)) {
        // They would be left behind.
        Some(Err(Error::WouldBlock)) => return Err(Error::WouldBlock),
        sides => sides.and_then(Result::ok).unwrap_or_default(),
    };
    let counted = about_to_go(volume, &folder.fd, disk);
    let is_file = named.kind == FileType::RegularFile;
    let held = (is_file && !sides.is_empty()).then(|| Held::hold(volume, &folder.fd, disk));
    let flags = if named.kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    unlinkat(&folder.fd, disk, flags).map_err(|errno| match errno {
        Errno::EXIST => Error::NotEmpty,
        other => error(other),
    })?;
    if last {
        subject.bury(&sides);
    }
    drop(held);
    drop(counted);
    Ok(())
}

/// True where the name is the last of a file or directory that may have something outside it.
pub(super) fn is_last(named: &Named) -> bool {
    match named.kind {
        FileType::Directory => true,
        FileType::RegularFile => named.links <= 1,
        _ => false,
    }
}

/// A file by its name.
pub(super) fn subject<'a>(volume: &'a Volume, folder: &Folder, disk: &[u8], named: &Named) -> Subject<'a> {
    let mut path = format!("/proc/self/fd/{}/", folder.fd.as_raw_fd()).into_bytes();
    path.extend_from_slice(disk);
    Subject { volume, place: Place::Named(path), identity: named.own, born: named.born }
}
