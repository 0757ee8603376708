//! A local file that a copy is written to until it has its name. The folder may be one that others may write: neither a link that somebody left there
//! is followed, nor does one copy write what another one gives the name.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use control::Error;
use rustix::fs::OFlags;
use rustix::io::Errno;
use secure::hmac_sha256;

use super::tree::{shown, unwritable};

/// The longest name that a file has here, and on a server that keeps its files in a folder.
const NAME_BYTES_MAX: usize = 255;
const SUFFIX: &str = ".multilane-part";
/// Bytes of a hash that are told.
const HASH_BYTES: usize = 16;

/// How often it is opened anew because another copy gave it its name just then.
const RACES_MAX: usize = 16;

/// The file, empty and locked.
pub(super) struct Part {
    pub(super) file: File,
    pub(super) path: PathBuf,
}

impl Part {
    /// Makes it for the file at `path`, or takes one that a copy has left which was broken off.
    pub(super) fn of(path: &Path) -> Result<Self, Error> {
        let part = part_of(path);
        for _ in 0..RACES_MAX {
            let file = open(&part)?;
            let own = file.metadata().map_err(|cause| unwritable(&part, &cause))?;
            let there = fs::symlink_metadata(&part);
            if there.is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino())) {
                file.set_len(0).map_err(|cause| unwritable(&part, &cause))?;
                return Ok(Part { file, path: part });
            }
        }
        Err(busy(&part))
    }

    /// Gives it its name.
    pub(super) fn rename(self, path: &Path) -> Result<(), Error> {
        fs::rename(&self.path, path).map_err(|cause| unwritable(path, &cause))
    }
}

fn open(part: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let file = options.open(part).map_err(|cause| match Errno::from_io_error(&cause) {
        Some(Errno::LOOP) => foreign(part),
        Some(_) | None => unwritable(part, &cause),
    })?;
    let known = file.metadata().map_err(|cause| unwritable(part, &cause))?;
    if !known.is_file() || known.nlink() != 1 {
        return Err(foreign(part));
    }
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(busy(part)),
        // Some file systems have no locks.
        Err(TryLockError::Error(cause)) if cause.kind() == io::ErrorKind::Unsupported || is_without_locks(&cause) => {
            Ok(file)
        }
        Err(TryLockError::Error(cause)) => Err(unwritable(part, &cause)),
    }
}

fn is_without_locks(cause: &io::Error) -> bool {
    matches!(Errno::from_io_error(cause), Some(Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL))
}

fn foreign(part: &Path) -> Error {
    let what = format!("{} is a link, or no file: nothing is written through it", shown(part));
    Error::conflict(what, "remove it, and see who may write this folder")
}

fn busy(part: &Path) -> Error {
    Error::conflict(format!("another copy is writing {}", shown(part)), "wait until it is done")
}

fn part_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    path.with_file_name(part_name(name.as_bytes()))
}

/// What a file is called until it is whole. A name that is too long to have something added, or is no text, is told by its hash: no other file's part
/// is called so.
pub(super) fn part_name(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if text.len() < NAME_BYTES_MAX - SUFFIX.len() => format!(".{text}{SUFFIX}"),
        Ok(_) | Err(_) => {
            let hash = hmac_sha256(b"part", name);
            let digits: String = hash.iter().take(HASH_BYTES).map(|byte| format!("{byte:02x}")).collect();
            format!("{SUFFIX}-{digits}")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_file_has_a_part_of_its_own_that_can_be_made() {
        let folder = tempfile::tempdir().unwrap();
        let long = [b'n'; 255];
        let names: [&[u8]; 7] = [b"a", b".a", b"a\xf1", b"a\xf2", &long, &long[1..], &long[20..]];
        let parts: Vec<Part> =
            names.iter().map(|name| Part::of(&folder.path().join(OsStr::from_bytes(name))).unwrap()).collect();
        let paths: std::collections::BTreeSet<_> = parts.iter().map(|part| &part.path).collect();
        assert_eq!(paths.len(), names.len());
    }

    #[test]
    fn no_link_is_written_through_and_what_was_broken_off_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let (victim, target) = (folder.path().join("victim"), folder.path().join("file"));
        let part = part_of(&target);
        fs::write(&victim, "kept").unwrap();
        symlink(&victim, &part).unwrap();
        assert!(Part::of(&target).is_err());
        fs::remove_file(&part).unwrap();
        fs::hard_link(&victim, &part).unwrap();
        assert!(Part::of(&target).is_err());
        fs::remove_file(&part).unwrap();
        assert_eq!(fs::read(&victim).unwrap(), b"kept");

        fs::write(&part, "broken off").unwrap();
        let begun = Part::of(&target).unwrap();
        assert_eq!(begun.file.metadata().unwrap().len(), 0);
        assert!(Part::of(&target).is_err(), "it is being written");
        begun.rename(&target).unwrap();
        assert!(target.exists() && !part.exists());
        assert!(Part::of(&target).is_ok());
    }
}
