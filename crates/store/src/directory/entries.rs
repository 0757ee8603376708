//! What a directory lists: files, directories, and symbolic links that lead to one of them inside the share.

use std::sync::Arc;

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::{FileType, Mode, OFlags, openat};

use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::file::{OpenFile, born, kind};
use crate::directory::folder::{Listed, each_name, file_type, identity, stat, stat_at};
use crate::directory::keep::{Place, Subject};
use crate::directory::names::{is_reserved, to_disk, to_name};
use crate::directory::volume::Volume;
use crate::directory::{metadata, walk};
use crate::{Entry, Error, Kind, Metadata, Name, Use};

/// All names.
pub(super) fn all(file: &OpenFile) -> Result<Vec<Entry>, Error> {
    let directory = directory(file)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fresh = openat(directory, c".", flags, Mode::empty()).map_err(error)?;
    let mut entries = Vec::new();
    let mut links = Vec::new();
    let take = |listed: Listed<'_>| {
        let Some(name) = to_name(listed.name).filter(|name| !is_reserved(name.as_str())) else { return };
        let kind = match listed.kind {
            FileType::Unknown => stat_at(directory, listed.name).map_or(FileType::Unknown, |stat| file_type(&stat)),
            known => known,
        };
        match kind {
            FileType::RegularFile | FileType::Directory => entries.push(Entry { name, file: listed.file }),
            FileType::Symlink => links.push((listed.name.to_vec(), name)),
            _ => {}
        }
    };
    each_name(&fresh, take).map_err(error)?;
    if !links.is_empty() {
        let path = file.volume.path_of(directory);
        let shown = links.into_iter().filter_map(|(disk, name)| {
            let file = target(&file.volume, path.as_deref()?, &disk)?;
            Some(Entry { name, file })
        });
        entries.extend(shown);
    }
    Ok(entries)
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
    let record = match metadata::record(&subject) {
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
    let fd = volume.fence.open(&joined(directory, disk), OFlags::PATH, Wait::May).ok()?;
    let stat = stat(fd).ok()?;
    kind(&stat)?;
    Some(stat.stx_ino)
}

fn of_link(volume: &Arc<Volume>, directory: BorrowedFd<'_>, disk: &[u8]) -> Result<Metadata, Error> {
    let path = volume.path_of(directory).ok_or(Error::NotFound)?;
    let opened = walk::open(volume, &joined(&path, disk), Use::Metadata, Wait::May);
    let (fd, reach) = opened.map_err(|_| Error::NotFound)?;
    metadata::of(&OpenFile::new(volume, fd, reach, disk.starts_with(b"."))?)
}

fn joined(directory: &[u8], disk: &[u8]) -> Vec<u8> {
    if directory.is_empty() { disk.to_vec() } else { [directory, disk].join(&b'/') }
}
