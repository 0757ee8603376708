//! What is kept with a file besides its data, by key: extended attributes of the file system, or, where there are
//! none, small files in the reserved folder.
//!
//! | key | value |
//! |---|---|
//! | `user.multilane` | attributes and times ([`super::record`]) |
//! | `user.multilane.sd` | the security descriptor |
//! | `user.multilane.sd.side` | the name of a side file with the security descriptor, where it does not fit |
//! | `user.multilane.stream.NAME` | a named stream ([`super::stream_value`]) |
//! | `user.multilane.long.ID` | a named stream whose name does not fit the key |
//! | `user.NAME` | an extended attribute as SMB knows it |
//!
//! Where the share's file system, or one mounted in it, has no extended attributes, the folder
//! `.multilane/INODE-BIRTH/` holds a file for every key. What that loses: files copied or restored by other programs
//! lose what was kept, what belonged to files that other programs removed stays as an orphan, and on file systems
//! that know no time of birth a new file may inherit what an earlier one with its inode number left.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, Mode, OFlags, XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, lgetxattr, listxattr,
    llistxattr, lremovexattr, lsetxattr, removexattr, setxattr, statvfs,
};
use rustix::io::Errno;

use crate::directory::calls::{again, fstatvfs, fsync, mkdirat, openat, renameat, unlinkat};
use crate::directory::errno::{attribute, error};
use crate::directory::file::born;
use crate::directory::folder::{each_name, stat};
use crate::directory::side::{Owner, SideName};
use crate::directory::volume::Volume;
use crate::directory::{data, side};
use crate::{Error, Identity};

pub(super) const RECORD: &str = "user.multilane";
pub(super) const SECURITY: &str = "user.multilane.sd";
pub(super) const SECURITY_SIDE: &str = "user.multilane.sd.side";
pub(super) const STREAM: &str = "user.multilane.stream.";
pub(super) const LONG_STREAM: &str = "user.multilane.long.";
/// What keys of ours begin with, to be followed by nothing or a dot.
pub(super) const OWN: &str = "user.multilane";
pub(super) const USER: &str = "user.";

/// The longest key (XATTR_NAME_MAX).
pub(super) const KEY_BYTES_MAX: usize = 255;
/// The longest value, and the longest list of keys (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const VALUE_BYTES_MAX: usize = 65536;
/// What is tried on the stack before a list or value is asked for its length.
const SMALL_BYTES: usize = 1024;

/// Where a volume keeps it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// In extended attributes of the file system.
    InAttributes,
    /// In files of the reserved folder.
    Beside,
}

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
}

impl Subject<'_> {
    /// Reads a value into `buffer`; gives its length, `None` where there is none, [`Error::TooLarge`] where it is
    /// longer.
    pub(super) fn load(&self, key: &str, buffer: &mut [u8]) -> Result<Option<usize>, Error> {
        let answer = self.in_attributes(|place| match place {
            Place::Open(fd) => fgetxattr(fd, key, &mut *buffer),
            Place::Through(path) => getxattr(path.as_str(), key, &mut *buffer),
            Place::Named(path) => lgetxattr(path.as_slice(), key, &mut *buffer),
        });
        match answer.unwrap_or_else(|| self.load_beside(key, buffer)) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::NODATA) => Ok(None),
            // Not to know who may do what is no leave to do it.
            Err(Errno::ACCESS | Errno::PERM) if !matches!(key, SECURITY | SECURITY_SIDE) => Ok(None),
            Err(errno) => Err(attribute(errno)),
        }
    }

    /// Reads a whole value.
    pub(super) fn load_all(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let mut small = [0; SMALL_BYTES];
        match self.load(key, &mut small) {
            Ok(length) => Ok(length.and_then(|length| small.get(..length)).map(<[u8]>::to_vec)),
            Err(Error::TooLarge) => {
                let mut value = vec![0; VALUE_BYTES_MAX];
                let length = self.load(key, &mut value)?;
                Ok(length.map(|length| {
                    value.truncate(length);
                    value
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// Sets a value. [`Error::TooLarge`] where the file system has no room for it with this file.
    pub(super) fn save(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::NameInvalid);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        let none = XattrFlags::empty();
        let answer = self.in_attributes(|place| match place {
            Place::Open(fd) => fsetxattr(fd, key, value, none),
            Place::Through(path) => setxattr(path.as_str(), key, value, none),
            Place::Named(path) => lsetxattr(path.as_slice(), key, value, none),
        });
        match answer {
            Some(answer) => answer.map_err(attribute),
            None => self.save_beside(key, value),
        }
    }

    /// Removes a value; false where there was none.
    pub(super) fn erase(&self, key: &str) -> Result<bool, Error> {
        let answer = self.in_attributes(|place| match place {
            Place::Open(fd) => fremovexattr(fd, key),
            Place::Through(path) => removexattr(path.as_str(), key),
            Place::Named(path) => lremovexattr(path.as_slice(), key),
        });
        match answer.unwrap_or_else(|| self.erase_beside(key)) {
            Ok(()) => Ok(true),
            Err(Errno::NODATA | Errno::NOENT) => Ok(false),
            Err(errno) => Err(attribute(errno)),
        }
    }

    /// All keys that are UTF-8.
    pub(super) fn keys(&self) -> Result<Vec<String>, Error> {
        let mut small = [0; SMALL_BYTES];
        let mut large = Vec::new();
        let mut answer = self.list(&mut small).map(|answer| (answer, small.as_slice()));
        if let Some((Err(Errno::RANGE), _)) = answer {
            large.resize(VALUE_BYTES_MAX, 0);
            answer = self.list(&mut large).map(|answer| (answer, large.as_slice()));
        }
        let list = match answer {
            None => return self.keys_beside(),
            Some((Ok(length), bytes)) => bytes.get(..length).unwrap_or_default(),
            Some((Err(Errno::ACCESS | Errno::PERM), _)) => &[],
            Some((Err(errno), _)) => return Err(attribute(errno)),
        };
        let keys = list.split(|byte| *byte == 0).filter_map(|key| std::str::from_utf8(key).ok());
        let mut keys: Vec<String> = keys.filter(|key| !key.is_empty()).map(str::to_owned).collect();
        if self.is_mounted() {
            keys.extend(self.keys_beside()?);
        }
        Ok(keys)
    }

    /// The file lies on a file system that is mounted in the share. One without extended attributes lists none and
    /// reports nothing.
    fn is_mounted(&self) -> bool {
        self.identity.volume != self.volume.identity.volume
    }

    fn list(&self, buffer: &mut [u8]) -> Option<Result<usize, Errno>> {
        self.in_attributes(|place| match place {
            Place::Open(fd) => flistxattr(fd, &mut *buffer),
            Place::Through(path) => listxattr(path.as_str(), &mut *buffer),
            Place::Named(path) => llistxattr(path.as_slice(), &mut *buffer),
        })
    }

    /// Asks the file's own file system; `None` where it keeps no extended attributes, or is not to be asked.
    fn in_attributes<T>(&self, mut ask: impl FnMut(&Place<'_>) -> Result<T, Errno>) -> Option<Result<T, Errno>> {
        match self.volume.keep {
            Keep::Beside => None,
            Keep::InAttributes => match again(|| ask(&self.place)) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => None,
                answer => Some(answer),
            },
        }
    }

    /// As whose its side files are known.
    pub(super) fn owner(&self) -> Result<Owner, Error> {
        let volume = if self.is_mounted() {
            let system = match &self.place {
                Place::Open(fd) => fstatvfs(fd),
                Place::Through(path) => again(|| statvfs(path.as_str())),
                Place::Named(path) => again(|| statvfs(path.as_slice())),
            };
            // Its device number may be another the next time.
            system.map_err(error)?.f_fsid.max(1)
        } else {
            0
        };
        let born = match &self.place {
            // Where overlayfs has copied the file up meanwhile it has another birth from now on.
            Place::Open(fd) => born(&stat(fd).map_err(error)?),
            Place::Through(_) | Place::Named(_) => self.born,
        };
        Ok(Owner { volume, file: self.identity.file, born })
    }

    /// True where a side file is this file's. Another's is read only: the attribute that names it was copied from that.
    pub(super) fn owns(&self, side: &SideName) -> bool {
        side.owner.is_none_or(|owner| self.owner().is_ok_and(|own| own.is_same(&owner)))
    }

    /// Removes what is kept outside the file, after its last name went: `sides` are the side files that it owns.
    pub(super) fn bury(&self, sides: &[SideName]) {
        for side in sides {
            side::remove(self.volume, side);
        }
        if self.volume.keep == Keep::Beside || self.is_mounted() {
            let _ = self.bury_folder();
        }
    }

    fn bury_folder(&self) -> Result<(), Error> {
        let Some(side) = side::folder(self.volume, false)? else { return Ok(()) };
        if let Some(folder) = self.folder(false).map_err(error)? {
            for key in self.keys_beside()? {
                unlinkat(&folder, key, AtFlags::empty()).map_err(error)?;
            }
        }
        unlinkat(side, self.folder_name(), AtFlags::REMOVEDIR).map_err(error)
    }

    fn load_beside(&self, key: &str, buffer: &mut [u8]) -> Result<usize, Errno> {
        let folder = self.folder(false)?.ok_or(Errno::NODATA)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(folder, key, flags, Mode::empty()) {
            Err(Errno::NOENT) => return Err(Errno::NODATA),
            answer => answer?,
        };
        let length = data::length(&file)?;
        if length > buffer.len() as u64 {
            return Err(Errno::RANGE);
        }
        data::read(&file, buffer, 0)
    }

    fn erase_beside(&self, key: &str) -> Result<(), Errno> {
        let folder = self.folder(false)?.ok_or(Errno::NOENT)?;
        unlinkat(folder, key, AtFlags::empty())
    }

    /// Writes a new file and puts it in the place of the old when the disk has it, so that a crash leaves one of them whole.
    fn save_beside(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        if key.contains('/') {
            return Err(Error::NameInvalid);
        }
        let folder = self.folder(true).map_err(error)?.ok_or(Error::NotFound)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let draft = openat(&folder, DRAFT, flags, Mode::RUSR | Mode::WUSR).map_err(error)?;
        let written = data::write(&draft, value, 0).and_then(|()| fsync(&draft));
        let saved = written.and_then(|()| renameat(&folder, DRAFT, &folder, key));
        if saved.is_err() {
            let _ = unlinkat(&folder, DRAFT, AtFlags::empty());
        }
        saved.and_then(|()| fsync(&folder)).map_err(error)
    }

    fn keys_beside(&self) -> Result<Vec<String>, Error> {
        let mut keys = Vec::new();
        if let Some(folder) = self.folder(false).map_err(error)? {
            let note = |entry: crate::directory::folder::Listed<'_>| {
                keys.extend(std::str::from_utf8(entry.name).ok().filter(|key| *key != DRAFT).map(str::to_owned));
            };
            each_name(&folder, note).map_err(error)?;
        }
        Ok(keys)
    }

    /// The folder that keeps what belongs to this file.
    fn folder(&self, make: bool) -> Result<Option<OwnedFd>, Errno> {
        let side = match side::folder(self.volume, make) {
            Ok(Some(side)) => side,
            Ok(None) => return Ok(None),
            Err(_) => return Err(Errno::ACCESS),
        };
        let name = self.folder_name();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&side, name.as_str(), flags, Mode::empty()) {
            Err(Errno::NOENT) if make => {
                match mkdirat(&side, name.as_str(), Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
                openat(&side, name.as_str(), flags, Mode::empty()).map(Some)
            }
            Err(Errno::NOENT) => Ok(None),
            answer => answer.map(Some),
        }
    }

    fn folder_name(&self) -> String {
        if self.is_mounted() {
            format!("{:x}-{:x}-{:x}", self.identity.file, self.born, self.identity.volume)
        } else {
            format!("{:x}-{:x}", self.identity.file, self.born)
        }
    }
}

/// The file that a new value is written to; no key begins so.
const DRAFT: &str = "draft";
