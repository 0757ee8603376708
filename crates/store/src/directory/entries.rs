//! What a directory lists: files, directories, and symbolic links that lead to one of them inside the share.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::Arc;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::directory::calls::{openat, seek};
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::file::{OpenFile, kind};
use crate::directory::listing::{Listed, SCAN_BUFFER_BYTES};
use crate::directory::names::{is_reserved, to_disk, to_name};
use crate::directory::stat::{born, file_type, identity, stat, stat_at};
use crate::directory::subject::{Place, Subject};
use crate::directory::volume::Volume;
use crate::directory::{metadata, walk};
use crate::{Cursor, Entry, Error, Kind, Metadata, Name, Take, Use};

/// Names from the cursor on, as many as the kernel tells in one go. The position of the open's own descriptor goes with the cursor: file
/// systems that cannot find an offset again, where names came and went before it, know their place by that.
pub(super) fn list(file: &OpenFile, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
    let directory = directory(file)?;
    let _alone = file.listing.lock();
    piece(file, directory, cursor, take)
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
    while piece(file, fresh.as_fd(), &mut cursor, &mut found)? && is_empty.get() {}
    Ok(is_empty.get())
}

/// Lists `directory`, which is `file` opened for reading.
fn piece(file: &OpenFile, directory: BorrowedFd<'_>, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
    seek(directory, SeekFrom::Start(cursor.offset)).map_err(error)?;
    let mut buffer = Vec::with_capacity(SCAN_BUFFER_BYTES);
    let mut raw = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut path = None;
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
        if let Some(entry) = shown(file, directory, &listed, &mut path)
            && take(entry).is_break()
        {
            seek(directory, SeekFrom::Start(cursor.offset)).map_err(error)?;
            return Ok(true);
        }
        cursor.offset = entry.next_entry_cookie();
    }
    Ok(true)
}

/// A name as clients see it, where they do. `path` is the directory's, found once where a link has to be followed.
fn shown(
    file: &OpenFile,
    directory: BorrowedFd<'_>,
    listed: &Listed<'_>,
    path: &mut Option<Option<Vec<u8>>>,
) -> Option<Entry> {
    if matches!(listed.name, b"." | b"..") {
        return None;
    }
    let name = to_name(listed.name).filter(|name| !is_reserved(name.as_str()))?;
    let kind = match listed.kind {
        FileType::Unknown => stat_at(directory, listed.name).map_or(FileType::Unknown, |stat| file_type(&stat)),
        known => known,
    };
    match kind {
        FileType::RegularFile | FileType::Directory => Some(Entry { name, file: listed.file }),
        FileType::Symlink => {
            let path = path.get_or_insert_with(|| file.volume.path_of(directory)).as_deref()?;
            Some(Entry { name, file: target(&file.volume, path, listed.name)? })
        }
        _ => None,
    }
}

/// Metadata of one name.
pub(super) fn metadata(file: &OpenFile, name: &Name) -> Result<Metadata, Error> {
    let directory = directory(file)?;
    if is_reserved(name.as_str()) {
        return Err(Error::NotFound);
    }
    let disk = to_disk(name.as_str());
    let stat = stat_at(directory, &disk).map_err(error)?;
    if file_type(&stat) == FileType::Symlink {
        return of_link(&file.volume, directory, &disk);
    }
    if kind(&stat).is_none() {
        return Err(Error::NotFound);
    }
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

/// The number of the file or directory inside the share that a link leads to.
fn target(volume: &Volume, directory: &[u8], disk: &[u8]) -> Option<u64> {
    let fd = volume.open(&joined(directory, disk), OFlags::PATH, Wait::May).ok()?;
    let stat = stat(fd).ok()?;
    kind(&stat)?;
    Some(stat.stx_ino)
}

fn of_link(volume: &Arc<Volume>, directory: BorrowedFd<'_>, disk: &[u8]) -> Result<Metadata, Error> {
    let path = volume.path_of(directory).ok_or(Error::NotFound)?;
    let opened = walk::open(volume, &joined(&path, disk), Use::Metadata, Wait::May);
    let opened = opened.map_err(|_| Error::NotFound)?;
    metadata::of(&OpenFile::new(volume, opened.fd, opened.reach, disk.starts_with(b"."))?)
}

fn joined(directory: &[u8], disk: &[u8]) -> Vec<u8> {
    if directory.is_empty() { disk.to_vec() } else { [directory, disk].join(&b'/') }
}
