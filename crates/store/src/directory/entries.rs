//! What a directory lists: files, directories and symbolic links, which are not followed.

use std::cell::Cell;
use std::ops::ControlFlow;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom, Statx};
use rustix::io::Errno;

use crate::directory::calls::{openat, seek};
use crate::directory::errno::error;
use crate::directory::file::{OpenFile, kind};
use crate::directory::listing::{Listed, SCAN_BUFFER_BYTES};
use crate::directory::metadata;
use crate::directory::names::{is_reserved, to_disk, to_name};
use crate::directory::record::Record;
use crate::directory::stat::{birth, born, file_type, identity, mount, stat, stat_at};
use crate::directory::subject::{Place, Subject};
use crate::directory::volume::Keeps;
use crate::{Cursor, Entry, Error, Keeping, Kind, Metadata, Name, Seen, Take};

/// Names from the cursor on, as many as the kernel tells in one go. The position of the open's own descriptor goes with the cursor: file
/// systems that cannot find an offset again, where names came and went before it, know their place by that.
pub(super) fn list(file: &OpenFile, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
    let directory = directory(file)?;
    let _alone = file.listing.lock();
    piece(directory, cursor, take)
}

/// True where there is nothing to show.
pub(super) fn is_empty(file: &OpenFile) -> Result<bool, Error> {
    let directory = directory(file)?;
    // Not the descriptor that a listing stands in.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fresh = openat(directory, c".", flags, Mode::empty()).map_err(error)?;
    let is_empty = Cell::new(true);
    let mut found = |_| {
        is_empty.set(false);
        ControlFlow::Break(())
    };
    let mut cursor = Cursor::default();
    while piece(fresh.as_fd(), &mut cursor, &mut found)? && is_empty.get() {}
    Ok(is_empty.get())
}

/// Lists `directory`, which is `file` opened for reading.
fn piece(directory: BorrowedFd<'_>, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
    seek(directory, SeekFrom::Start(cursor.offset)).map_err(error)?;
    let mut buffer = Vec::with_capacity(SCAN_BUFFER_BYTES);
    let mut raw = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut is_first = true;
    while is_first || !raw.is_buffer_empty() {
        let entry = match raw.next() {
            None | Some(Err(Errno::NOENT)) => return Ok(false),
            Some(Err(Errno::INTR)) => continue,
            Some(Err(errno)) => return Err(error(errno)),
            Some(Ok(entry)) => entry,
        };
        is_first = false;
        let (file_number, kind, at) = (entry.ino(), entry.file_type(), cursor.offset);
        let listed = Listed { name: entry.file_name().to_bytes(), file: file_number, kind, at };
        if let Some(entry) = shown(directory, &listed)
            && take(entry).is_break()
        {
            seek(directory, SeekFrom::Start(cursor.offset)).map_err(error)?;
            return Ok(true);
        }
        cursor.offset = entry.next_entry_cookie();
    }
    Ok(true)
}

/// A name as clients see it, where they do.
fn shown(directory: BorrowedFd<'_>, listed: &Listed<'_>) -> Option<Entry> {
    if matches!(listed.name, b"." | b"..") {
        return None;
    }
    let name = to_name(listed.name).filter(|name| !is_reserved(name.as_str()))?;
    let kind = match listed.kind {
        FileType::Unknown => stat_at(directory, listed.name).map_or(FileType::Unknown, |stat| file_type(&stat)),
        known => known,
    };
    let is_shown = matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Symlink);
    is_shown.then_some(Entry { name, file: listed.file })
}

/// Metadata of one name.
pub(super) fn metadata(file: &OpenFile, name: &Name) -> Result<Metadata, Error> {
    metadata_by(file, name, |_| Ok(None))
}

/// The same, after `before` was told what has the name: what the kernel is asked to tell of is opened by its path alone, which opens no data,
/// mounts nothing, and breaks no lease.
pub(super) fn metadata_after(
    file: &OpenFile,
    name: &Name,
    before: &mut dyn FnMut(Seen<'_>),
) -> Result<Metadata, Error> {
    metadata_by(file, name, |found| {
        let (id, born) = (identity(&found.stat), born(&found.stat));
        let seen = |keeping| Seen { identity: id, kind: found.kind, birth: birth(&found.stat), keeping };
        match file.volume.keeps(file.waits, mount(&found.stat), born) {
            Keeps::Nothing => Ok(None),
            Keeps::Untold => {
                before(seen(Keeping::Untold));
                Ok(None)
            }
            Keeps::Watched => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                // What cannot be opened is told all the same, and nothing is kept of it.
                let Ok(fd) = openat(found.directory, found.disk, flags, Mode::empty()) else { return Ok(None) };
                let opened = stat(&fd).map_err(error)?;
                if (identity(&opened), self::born(&opened), mount(&opened)) != (id, born, mount(&found.stat)) {
                    // Another has the name by now: nothing is kept of either.
                    return Ok(None);
                }
                before(seen(Keeping::Watched(fd.as_fd())));
                stat(&fd).map(Some).map_err(error)
            }
        }
    })
}

/// What has a name, which is neither a link nor of a kind that is not shown.
struct Found<'a> {
    directory: BorrowedFd<'a>,
    disk: &'a [u8],
    stat: Statx,
    kind: Kind,
}

/// Metadata of one name; `again` may look at what was found once more.
fn metadata_by(
    file: &OpenFile,
    name: &Name,
    again: impl FnOnce(&Found<'_>) -> Result<Option<Statx>, Error>,
) -> Result<Metadata, Error> {
    let directory = directory(file)?;
    if is_reserved(name.as_str()) {
        return Err(Error::NotFound);
    }
    let disk = to_disk(name.as_str());
    let stat = stat_at(directory, &disk).map_err(error)?;
    if file_type(&stat) == FileType::Symlink {
        return metadata::assemble(&stat, disk.starts_with(b"."), &Record::default());
    }
    let kind = kind(&stat).ok_or(Error::NotFound)?;
    let found = Found { directory, disk: &disk, stat, kind };
    let stat = again(&found)?.unwrap_or(found.stat);
    let mut path = format!("/proc/self/fd/{}/", directory.as_raw_fd()).into_bytes();
    path.extend_from_slice(&disk);
    let subject =
        Subject { volume: &file.volume, place: Place::Named(path), identity: identity(&stat), born: born(&stat) };
    let record = match metadata::record_to_show(&subject) {
        Err(Error::NotFound) => return Err(Error::NotFound),
        answer => answer?,
    };
    metadata::assemble(&stat, disk.starts_with(b"."), &record)
}

fn directory(file: &OpenFile) -> Result<BorrowedFd<'_>, Error> {
    match file.kind {
        Kind::Directory => file.readable().ok_or(Error::Denied),
        Kind::File | Kind::Stream => Err(Error::NotDirectory),
    }
}
