//! Security descriptors: kept as they are, in an attribute, or, where that has no room for one, in a side file.

use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode};
use rustix::io::Errno;

use crate::Error;
use crate::directory::calls::fsync;
use crate::directory::create::{UNFINISHED_DIRECTORY, UNFINISHED_FILE};
use crate::directory::errno::error;
use crate::directory::file::OpenFile;
use crate::directory::folder::{file_type, stat};
use crate::directory::keep::{SECURITY, SECURITY_SIDE, Subject};
use crate::directory::{data, side};

/// The longest security descriptor. An ACL has at most 64 KiB (MS-DTYP 2.4.5), and a descriptor two of them.
const DESCRIPTOR_BYTES_MAX: u64 = 256 * 1024;

/// How often a descriptor is looked for while others replace it.
const LOOKS_MAX: usize = 8;

/// The stored descriptor; `None` where there never was one. One that there is and that cannot be had is an error, and so is one that the
/// file did not come to have: the server was killed while it made it.
pub(super) fn load(file: &OpenFile) -> Result<Option<Vec<u8>>, Error> {
    let found = find(file)?;
    if found.is_none() && is_unfinished(file)? {
        return Err(Error::Io(Errno::IO.raw_os_error()));
    }
    Ok(found)
}

fn is_unfinished(file: &OpenFile) -> Result<bool, Error> {
    let found = stat(file.fd()).map_err(error)?;
    let mode = Mode::from_raw_mode(found.stx_mode.into())
        & (Mode::SVTX | Mode::SUID | Mode::SGID | Mode::from_raw_mode(0o777));
    Ok(match file_type(&found) {
        FileType::RegularFile => mode == UNFINISHED_FILE,
        FileType::Directory => mode == UNFINISHED_DIRECTORY,
        _ => false,
    })
}

fn find(file: &OpenFile) -> Result<Option<Vec<u8>>, Error> {
    let subject = file.subject();
    for _ in 0..LOOKS_MAX {
        if let Some(descriptor) = subject.load_all(SECURITY)? {
            return Ok(Some(descriptor));
        }
        let mut id = [0; 16];
        match subject.load(SECURITY_SIDE, &mut id) {
            // Between the two looks it may have moved from a side file into the attribute.
            Ok(None) => return subject.load_all(SECURITY),
            Ok(Some(length)) if length == id.len() => {}
            Ok(Some(_)) | Err(Error::TooLarge) => break,
            Err(error) => return Err(error),
        }
        match side::open(&file.volume, id) {
            // It may have been replaced just now.
            Err(Error::Gone) => {}
            opened => return load_side(&opened?).map(Some),
        }
    }
    Err(Error::Io(Errno::IO.raw_os_error()))
}

/// True where there is a descriptor for certain.
pub(super) fn is_there(file: &OpenFile) -> bool {
    let mut nothing = [0; 0];
    let subject = file.subject();
    [SECURITY, SECURITY_SIDE].iter().any(|key| !matches!(subject.load(key, &mut nothing), Ok(None)))
}

fn load_side(fd: &OwnedFd) -> Result<Vec<u8>, Error> {
    let length = data::length(fd).map_err(error)?.min(DESCRIPTOR_BYTES_MAX);
    let mut descriptor = vec![0; usize::try_from(length).unwrap_or(0)];
    let count = data::read(fd, &mut descriptor, 0).map_err(error)?;
    descriptor.truncate(count);
    Ok(descriptor)
}

/// Stores the descriptor of a new file.
pub(super) fn save(file: &OpenFile, descriptor: &[u8]) -> Result<(), Error> {
    match file.subject().save(SECURITY, descriptor) {
        Err(Error::TooLarge) => save_in_side_file(file, descriptor),
        answer => answer,
    }
}

/// Stores a descriptor in the place of another.
pub(super) fn replace(file: &OpenFile, descriptor: &[u8]) -> Result<(), Error> {
    file.volume.check_writable()?;
    let _held = file.volume.lock_file(file.identity);
    let subject = file.subject();
    let old = side_id(&subject)?;
    save(file, descriptor)?;
    if let Some(old) = old {
        if side_id(&subject)? == Some(old) {
            subject.erase(SECURITY_SIDE)?;
        }
        side::remove(&file.volume, old);
    }
    Ok(())
}

fn save_in_side_file(file: &OpenFile, descriptor: &[u8]) -> Result<(), Error> {
    if descriptor.len() as u64 > DESCRIPTOR_BYTES_MAX {
        return Err(Error::TooLarge);
    }
    let id = side::new_id()?;
    let fd = side::create(&file.volume, id)?;
    let subject = file.subject();
    // The disk has the descriptor before anything leads to it.
    let written = data::write(&fd, descriptor, 0).and_then(|()| fsync(&fd)).map_err(error);
    let written = written.and_then(|()| side::sync(&file.volume)).and_then(|()| subject.save(SECURITY_SIDE, &id));
    match written {
        Ok(()) => subject.erase(SECURITY).map(|_| ()),
        Err(error) => {
            side::remove(&file.volume, id);
            Err(error)
        }
    }
}

/// The side file that holds the descriptor.
pub(super) fn side_id(subject: &Subject<'_>) -> Result<Option<side::Id>, Error> {
    let mut id = [0; 16];
    match subject.load(SECURITY_SIDE, &mut id) {
        Ok(length) => Ok(length.filter(|length| *length == id.len()).map(|_| id)),
        Err(Error::TooLarge) => Ok(None),
        Err(error) => Err(error),
    }
}
