//! Removing names.

use std::sync::Arc;

use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;

use crate::directory::cache::Did;
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::file::OpenFile;
use crate::directory::folder::Folder;
use crate::directory::last_name::Losing;
use crate::directory::volume::Volume;
use crate::directory::walk::{self, Named};
use crate::directory::{cache, names::Wanted, outcome};
use crate::{Error, Identity, Name};

/// Removes a name.
pub(super) fn remove(directory: &OpenFile, name: &Name, expected: Identity) -> Result<(), Error> {
    let volume = &directory.volume;
    volume.check_removable()?;
    let (folder, wanted) = directory.wanted(name)?;
    let mut held = volume.cache.hold(folder.identity);
    let look = |disk: &[u8]| walk::named_and_opened(volume, &folder, disk);
    let (disk, (named, opened)) = stored(volume, &mut held, &folder, &wanted, look)?;
    if named.own != expected {
        return Err(Error::NotFound);
    }
    let valid = held.is_valid(&folder)?;
    unlink(volume, &folder, &disk, (&named, opened))?;
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

/// The name as it is stored, and what it leads to, which `look` says. [`Error::NotFound`] where there is none.
pub(super) fn stored<T>(
    volume: &Volume,
    held: &mut cache::Held<'_>,
    folder: &Folder<'_>,
    wanted: &Wanted,
    look: impl Fn(&[u8]) -> Result<T, Error>,
) -> Result<(Vec<u8>, T), Error> {
    match look(&wanted.disk) {
        Ok(found) => Ok((wanted.disk.clone(), found)),
        Err(Error::NotFound) => {
            if folder.identity == volume.identity && !folder.exists().map_err(error)? {
                return Err(Error::Gone);
            }
            let disk = held.find(folder, wanted, Wait::May)?.ok_or(Error::NotFound)?;
            let found = look(&disk)?;
            Ok((disk, found))
        }
        Err(error) => Err(error),
    }
}

/// Removes a stored name and, with the last, what is kept outside the file.
fn unlink(
    volume: &Arc<Volume>,
    folder: &Folder<'_>,
    disk: &[u8],
    (named, opened): (&Named, Option<Descriptor>),
) -> Result<(), Error> {
    let mut losing = Losing::look(volume, folder, disk, (named, opened))?;
    let locked = volume.lock_file(named.own);
    losing.look_again(folder.at(disk))?;
    let flags = if named.kind == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match outcome::unlink(folder.at(disk), flags) {
        Ok(()) => losing.gone(locked),
        Err(errno) => {
            losing.failed(locked, folder.at(disk));
            return Err(if errno == Errno::EXIST { Error::NotEmpty } else { error(errno) });
        }
    }
    Ok(())
}
