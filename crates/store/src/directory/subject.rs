//! A file that something is kept with, whatever that is.

use rustix::fd::BorrowedFd;
use rustix::fs::{StatVfs, statfs, statvfs};

use crate::directory::calls::{again, fstatfs, fstatvfs, takes_any_attributes};
use crate::directory::errno::error;
use crate::directory::file_system::FileSystem;
use crate::directory::side_name::{Owner, SideName};
use crate::directory::stat::{born, stat};
use crate::directory::volume::Volume;
use crate::{Error, Identity};

/// A file that something is kept with.
pub(super) struct Subject<'a> {
    pub(super) volume: &'a Volume,
    pub(super) place: Place<'a>,
    pub(super) identity: Identity,
    /// When it was made, in nanoseconds as the file system knows it; zero where it does not.
    pub(super) born: i128,
}

/// How to get at it.
pub(super) enum Place<'a> {
    /// An open file.
    Open(BorrowedFd<'a>),
    /// A path that leads to it, followed to its end: a link of `/proc`.
    Through(String),
    /// A path whose last name is not followed.
    Named(Vec<u8>),
    /// A symbolic link: nothing is kept with it.
    Link,
}

impl Subject<'_> {
    /// The file lies on a file system that is mounted in the share. One without extended attributes lists none and
    /// reports nothing.
    pub(super) fn is_mounted(&self) -> bool {
        self.identity.volume != self.volume.identity.volume
    }

    /// How often this process has set something kept with the file.
    pub(super) fn sets(&self) -> u64 {
        self.volume.locks_of(self.identity).attributes_set(self.identity)
    }

    /// As whose its side files are known.
    pub(super) fn owner(&self) -> Result<Owner, Error> {
        let volume = if self.is_mounted() { self.file_system()? } else { 0 };
        Ok(Owner { volume, file: self.identity.file, born: self.birth()? })
    }

    /// The same of side files that lie on the file system `lies_on`: see [`Subject::owns`].
    pub(super) fn owner_in(&self, lies_on: u64) -> Result<Owner, Error> {
        let volume = if lies_on == self.identity.volume { 0 } else { self.file_system()? };
        Ok(Owner { volume, ..self.owner()? })
    }

    /// The number of its file system, whose device number may be another the next time.
    fn file_system(&self) -> Result<u64, Error> {
        Ok(self.system()?.f_fsid.max(1))
    }

    pub(super) fn system(&self) -> Result<StatVfs, Error> {
        let system = match &self.place {
            Place::Open(fd) => fstatvfs(fd),
            Place::Through(path) => again(|| statvfs(path.as_str())),
            Place::Named(path) => again(|| statvfs(path.as_slice())),
            Place::Link => return Err(Error::Unsupported),
        };
        system.map_err(error)
    }

    /// True where its file system takes any number of attributes of one file.
    pub(super) fn takes_any_attributes(&self) -> Result<bool, Error> {
        let system = match &self.place {
            Place::Open(fd) => fstatfs(fd),
            Place::Through(path) => again(|| statfs(path.as_str())),
            Place::Named(path) => again(|| statfs(path.as_slice())),
            Place::Link => return Ok(false),
        };
        system.map(|system| takes_any_attributes(FileSystem::of(&system))).map_err(error)
    }

    fn birth(&self) -> Result<i128, Error> {
        match &self.place {
            // Where overlayfs has copied the file up meanwhile it has another birth from now on.
            Place::Open(fd) => stat(fd).map(|stat| born(&stat)).map_err(error),
            Place::Through(_) | Place::Named(_) | Place::Link => Ok(self.born),
        }
    }

    /// True where a side file that lies on the file system `lies_on` is this file's. Another's is read only: the attribute that names it was copied from that. A
    /// root's own file system is the file's where both are one: seen from the root of a share above, the file is on one that is mounted there.
    pub(super) fn owns(&self, side: &SideName, lies_on: u64) -> Result<bool, Error> {
        let Some(owner) = side.owner else { return Ok(true) };
        let is_here = match owner.volume {
            0 => lies_on == self.identity.volume,
            mounted => self.file_system()? == mounted,
        };
        Ok(is_here && self.may_own(side)?)
    }

    /// False where a side file is another file's wherever it lies.
    pub(super) fn may_own(&self, side: &SideName) -> Result<bool, Error> {
        let Some(owner) = side.owner else { return Ok(true) };
        let own = Owner { volume: owner.volume, file: self.identity.file, born: self.birth()? };
        Ok(own.may_be(&owner))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;
    use crate::directory::{DirectoryOptions, DirectoryStore};

    #[test]
    fn a_file_on_what_is_mounted_in_a_share_owns_what_was_made_for_it_there() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        let volume = &*store.volume();
        let own = volume.identity.volume;
        let subject = |volume_number, born| {
            let identity = Identity { volume: volume_number, file: 7 };
            let place = Place::Named(folder.path().as_os_str().as_bytes().to_vec());
            Subject { volume, place, identity, born }
        };
        let side = |volume, born| SideName { id: [1; 16], owner: Some(Owner { volume, file: 7, born }) };
        let (mounted, system) = (own + 1, subject(own, 5).file_system().unwrap());
        // Through the share of what is mounted, and through the one above.
        assert!(subject(mounted, 5).owns(&side(0, 5), mounted).unwrap());
        assert!(subject(own, 5).owns(&side(0, 5), own).unwrap());
        for lies_on in [own, mounted] {
            assert!(subject(mounted, 5).owns(&side(system, 5), lies_on).unwrap());
            assert!(subject(own, 5).owns(&side(system, 5), lies_on).unwrap());
            assert!(!subject(mounted, 5).owns(&side(system + 1, 5), lies_on).unwrap());
            assert!(!subject(mounted, 5).owns(&side(system, 6), lies_on).unwrap());
        }
        // A snapshot's files have the numbers and births of those that it was taken of.
        assert!(!subject(mounted, 5).owns(&side(0, 5), own).unwrap());
        assert!(!subject(own, 5).owns(&side(0, 5), mounted).unwrap());
    }
}
