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
//! | `user.multilane.room` | nothing: it holds room for a moment ([`super::budget`]) |
//! | `user.NAME` | an extended attribute as SMB knows it |
//!
//! Where the share's file system, or one mounted in it, has no extended attributes, the folder
//! `.multilane/INODE-BIRTH/` holds a file for every key. What that loses: files copied or restored by other programs
//! lose what was kept, what belonged to files that other programs removed stays as an orphan, and on file systems
//! that know no time of birth a new file may inherit what an earlier one with its inode number left.
//!
//! Symbolic links have no such attributes on any file system: their descriptors, and nothing else, are kept so everywhere, but where the time of birth is
//! not known or several shares lead to the link.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, Statx, StatxFlags, XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr,
    getxattr, lgetxattr, listxattr, llistxattr, lremovexattr, lsetxattr, removexattr, setxattr,
};
use rustix::io::Errno;

use crate::directory::budget::is_reserved;
use crate::directory::calls::{
    again, fsync, mkdirat, openat, read_attribute, removed_attribute, renameat, set_attribute, statx, unlinkat,
};
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::{error, reading_attribute};
use crate::directory::keys::{KEY_BYTES_MAX, Keep, RECORD, SECURITY};
use crate::directory::listing::each_name;
use crate::directory::outcome::{self, At};
use crate::directory::quota::{BLOCK_BYTES, Growth, UNIT_BYTES};
use crate::directory::reserved;
use crate::directory::stat::stat;
use crate::directory::subject::{Place, Subject};
use crate::directory::{data, homes, room};
use crate::{Error, Waits, waiting};

/// The longest value, and the longest list of keys (XATTR_SIZE_MAX, XATTR_LIST_MAX).
const VALUE_BYTES_MAX: usize = 65536;
/// What a file system keeps of an attribute besides its key and value: ext4 has 16 bytes for it and rounds up.
pub(super) const ATTRIBUTE_COST: usize = 24;
/// With less than this left it is the file system that has no room for an attribute: XFS wants some blocks more than it needs.
const SCARCE_BYTES: u64 = 128 << 10;
/// What is tried on the stack before a list or value is asked for its length.
const SMALL_BYTES: usize = 1024;

impl Subject<'_> {
    /// Reads a value into `buffer`; gives its length, `None` where there is none, [`Error::TooLarge`] where it is
    /// longer. What may not be read is not known to be missing: [`Error::Denied`].
    pub(super) fn load(&self, key: &str, buffer: &mut [u8]) -> Result<Option<usize>, Error> {
        match self.read(key, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::NODATA) => Ok(None),
            Err(errno) => Err(reading_attribute(errno)),
        }
    }

    fn read(&self, key: &str, buffer: &mut [u8]) -> Result<usize, Errno> {
        if self.is_link() {
            return self.read_of_link(key, buffer);
        }
        let answer = self.look(|place| {
            read_attribute()?;
            match place {
                Place::Open(fd) => fgetxattr(fd, key, &mut *buffer),
                Place::Through(path) => getxattr(path.as_str(), key, &mut *buffer),
                Place::Named(path) => lgetxattr(path.as_slice(), key, &mut *buffer),
                Place::Link => Err(Errno::OPNOTSUPP),
            }
        });
        answer.unwrap_or_else(|| self.load_beside(key, buffer))
    }

    /// Reads a whole value.
    pub(super) fn load_all(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.load_within(key, VALUE_BYTES_MAX)
    }

    /// The same where it has `bytes_max` at the most: [`Error::TooLarge`] where it is longer.
    pub(super) fn load_within(&self, key: &str, bytes_max: usize) -> Result<Option<Vec<u8>>, Error> {
        let mut small = [0; SMALL_BYTES];
        match self.load(key, &mut small) {
            Ok(length) => Ok(length.and_then(|length| small.get(..length)).map(<[u8]>::to_vec)),
            Err(Error::TooLarge) => {
                let mut value = vec![0; bytes_max.min(VALUE_BYTES_MAX)];
                let length = self.load(key, &mut value)?;
                Ok(length.map(|length| {
                    value.truncate(length);
                    value
                }))
            }
            Err(error) => Err(error),
        }
    }

    /// Sets a value. [`Error::TooLarge`] where the file takes no more, [`Error::Full`] where the file system or the quota has no room.
    pub(super) fn save(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        let placeholder = self.make_room(key, value)?;
        let saved = self.put_back(key, value);
        drop(placeholder);
        match saved {
            Err(error @ (Error::TooLarge | Error::Full)) if is_reserved(key) => {
                room::save_instead(self, key, value, error)
            }
            saved => saved,
        }
    }

    /// The same of a value that was there before, or of one so short that there is room in any case, whatever is kept for clients.
    pub(super) fn put_back(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::NameInvalid);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        if self.is_link() && !self.keeps_of_link(key) {
            return Err(Error::Unsupported);
        }
        self.check_room(key, value)?;
        let saved = match self.set_attribute(key, value) {
            None => self.save_beside(key, value),
            Some(Ok(())) => Ok(()),
            Some(Err(errno)) => Err(self.refused(errno, || self.attribute_bytes(key, value))),
        };
        self.note_set();
        saved
    }

    /// Sets an attribute; `None` where the file system keeps none.
    pub(super) fn set_attribute(&self, key: &str, value: &[u8]) -> Option<Result<(), Errno>> {
        let none = XattrFlags::empty();
        self.set(|place| {
            set_attribute(|| self.attribute_bytes(key, value))?;
            match place {
                Place::Open(fd) => fsetxattr(fd, key, value, none),
                Place::Through(path) => setxattr(path.as_str(), key, value, none),
                Place::Named(path) => lsetxattr(path.as_slice(), key, value, none),
                Place::Link => Err(Errno::OPNOTSUPP),
            }
        })
    }

    /// What it means that an attribute cannot be set, with which all take `bytes`: ext4 and btrfs say of a full disk and of a file that takes no more that
    /// there is no room.
    pub(super) fn refused(&self, errno: Errno, bytes: impl FnOnce() -> Result<u64, Error>) -> Error {
        if errno != Errno::NOSPC {
            return reading_attribute(errno);
        }
        let left = self.system().map(|system| (system.f_bavail.saturating_mul(system.f_frsize), system.f_bsize));
        match (left, bytes()) {
            (Ok((free, block)), Ok(bytes)) if free >= SCARCE_BYTES && bytes > block => Error::TooLarge,
            _ => Error::Full,
        }
    }

    /// Bytes in a block of the file system.
    pub(super) fn block_bytes(&self) -> Result<usize, Error> {
        Ok(usize::try_from(self.system()?.f_bsize).unwrap_or(usize::MAX))
    }

    /// Bytes of all attributes with this one, as a file system keeps them.
    fn attribute_bytes(&self, key: &str, value: &[u8]) -> Result<u64, Error> {
        let mut bytes = key.len() + value.len() + ATTRIBUTE_COST;
        for other in self.keys()?.iter().filter(|other| *other != key) {
            bytes += other.len() + self.load_all(other)?.map_or(0, |value| value.len()) + ATTRIBUTE_COST;
        }
        Ok(bytes as u64)
    }

    /// Whether a value is there; `None` where that cannot be told.
    pub(super) fn has(&self, key: &str, value: &[u8]) -> Option<bool> {
        let mut there = vec![0; value.len()];
        match self.read(key, &mut there) {
            Ok(length) => Some(there.get(..length) == Some(value)),
            Err(Errno::NODATA | Errno::RANGE) => Some(false),
            Err(_) => None,
        }
    }

    /// Removes a value; false where there was none.
    pub(super) fn erase(&self, key: &str) -> Result<bool, Error> {
        let answer = self.set(|place| match place {
            Place::Open(fd) => fremovexattr(fd, key),
            Place::Through(path) => removexattr(path.as_str(), key),
            Place::Named(path) => lremovexattr(path.as_slice(), key),
            Place::Link => Err(Errno::OPNOTSUPP),
        });
        let erased = answer.unwrap_or_else(|| self.erase_beside(key));
        self.note_set();
        match erased {
            Ok(()) => {
                removed_attribute();
                Ok(true)
            }
            Err(Errno::NODATA | Errno::NOENT) => Ok(false),
            Err(errno) => Err(error(errno)),
        }
    }

    /// All keys that are UTF-8. [`Error::TooLarge`] where there are more than the kernel lists.
    pub(super) fn keys(&self) -> Result<Vec<String>, Error> {
        let Some(list) = self.list_of_attributes()? else { return self.keys_beside() };
        let mut keys: Vec<String> = in_list(&list).map(str::to_owned).collect();
        if self.is_beside() {
            keys.extend(self.keys_beside()?);
        }
        Ok(keys)
    }

    /// The keys of what is kept in attributes, each with a zero behind it; `None` where the file system keeps none. [`Error::TooLarge`] as [`Self::keys`].
    pub(super) fn list_of_attributes(&self) -> Result<Option<Vec<u8>>, Error> {
        let mut small = [0; SMALL_BYTES];
        let mut large = Vec::new();
        let mut answer = self.list(&mut small).map(|answer| (answer, small.as_slice()));
        if let Some((Err(Errno::RANGE), _)) = answer {
            large.resize(VALUE_BYTES_MAX, 0);
            answer = self.list(&mut large).map(|answer| (answer, large.as_slice()));
        }
        match answer {
            None => Ok(None),
            Some((Ok(length), bytes)) => Ok(Some(bytes.get(..length).unwrap_or_default().to_vec())),
            Some((Err(errno), _)) => Err(reading_attribute(errno)),
        }
    }

    /// True where what is kept with it may lie in a folder of its own.
    pub(super) fn is_beside(&self) -> bool {
        self.is_link() || self.volume.keep == Keep::Beside || self.is_mounted()
    }

    fn list(&self, buffer: &mut [u8]) -> Option<Result<usize, Errno>> {
        self.look(|place| match place {
            Place::Open(fd) => flistxattr(fd, &mut *buffer),
            Place::Through(path) => listxattr(path.as_str(), &mut *buffer),
            Place::Named(path) => llistxattr(path.as_slice(), &mut *buffer),
            Place::Link => Err(Errno::OPNOTSUPP),
        })
    }

    /// Looks at attributes; EAGAIN where this thread must not wait. They may not be in memory though the file is open, and whoever sets one
    /// keeps all who look waiting until the device says so.
    fn look<T>(&self, ask: impl FnMut(&Place<'_>) -> Result<T, Errno>) -> Option<Result<T, Errno>> {
        if self.is_memory() || waiting::is_allowed() { self.in_attributes(ask) } else { Some(Err(Errno::AGAIN)) }
    }

    /// Something was set: what nodes remember of the file is asked for anew, and what goes with its last name looked for.
    fn note_set(&self) {
        self.volume.locks_of(self.identity).note_attributes_set(self.identity);
    }

    /// Sets attributes.
    fn set<T>(&self, ask: impl FnMut(&Place<'_>) -> Result<T, Errno>) -> Option<Result<T, Errno>> {
        let answer = self.in_attributes(ask);
        if matches!(answer, Some(Ok(_))) {
            self.settle();
        }
        answer
    }

    /// [`Error::Full`] where a value may take more than is left of the quota. One that is no longer than the one that there is takes nothing, and
    /// what attributes and times take is so little that a full share does not keep them from being set.
    fn check_room(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        let Some(quota) = &self.volume.quota else { return Ok(()) };
        let most = (key.len() + value.len()).next_multiple_of(UNIT_BYTES as usize);
        if key == RECORD || most as u64 <= quota.left() {
            return Ok(());
        }
        let there = self.load_all(key)?.map_or(0, |there| there.len());
        if value.len() <= there { Ok(()) } else { Err(Error::Full) }
    }

    /// Counts for the quota what the file holds now that its attributes changed.
    fn settle(&self) {
        let Some(nameless) = self.volume.nameless() else { return };
        if let Ok(stat) = self.stat() {
            nameless.settle(self.identity, stat.stx_blocks * BLOCK_BYTES);
        }
    }

    /// What the kernel knows of the file.
    pub(super) fn stat(&self) -> Result<Statx, Error> {
        let stat = match &self.place {
            Place::Open(fd) => stat(fd),
            Place::Through(path) => statx(CWD, path.as_str(), AtFlags::empty(), StatxFlags::BASIC_STATS),
            Place::Named(path) => statx(CWD, path.as_slice(), AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS),
            Place::Link => return Err(Error::Unsupported),
        };
        stat.map_err(error)
    }

    fn is_memory(&self) -> bool {
        self.volume.waits == Waits::Never && !self.is_mounted()
    }

    /// Asks the file's own file system; `None` where it keeps no extended attributes, or is not to be asked.
    fn in_attributes<T>(&self, mut ask: impl FnMut(&Place<'_>) -> Result<T, Errno>) -> Option<Result<T, Errno>> {
        if self.is_link() {
            return None;
        }
        match self.volume.keep {
            Keep::Beside => None,
            Keep::InAttributes => match again(|| ask(&self.place)) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => None,
                answer => Some(answer),
            },
        }
    }

    pub(super) fn bury_folder(&self) -> Result<(), Error> {
        let Some(side) = reserved::folder(self.volume, false)? else { return Ok(()) };
        if let Some(folder) = self.folder(false).map_err(error)? {
            for key in self.keys_beside()? {
                self.unlink_beside(&folder, &key).map_err(error)?;
            }
        }
        unlinkat(side, self.folder_name(), AtFlags::REMOVEDIR).map_err(error)
    }

    /// EACCES where another share leads to the file, too: what each keeps beside it the other does not find. Folders without attributes are not served
    /// together ([`Error::Nested`]), but they may be moved, and something may be mounted in both.
    fn check_alone(&self) -> Result<(), Errno> {
        let is_alone = !self.volume.root.is_nested() || homes::has_one_root(self) == Ok(true);
        if is_alone { Ok(()) } else { Err(Errno::ACCESS) }
    }

    fn is_link(&self) -> bool {
        matches!(self.place, Place::Link)
    }

    /// True for what is kept with a link: its descriptor, and that where the file system knows when the link was made, so that no later one of its
    /// number has it, and no other share leads to it.
    fn keeps_of_link(&self, key: &str) -> bool {
        key == SECURITY && self.born != 0 && self.check_alone().is_ok()
    }

    fn read_of_link(&self, key: &str, buffer: &mut [u8]) -> Result<usize, Errno> {
        if !self.is_memory() && !waiting::is_allowed() {
            return Err(Errno::AGAIN);
        }
        if self.keeps_of_link(key) { self.load_beside(key, buffer) } else { Err(Errno::NODATA) }
    }

    fn load_beside(&self, key: &str, buffer: &mut [u8]) -> Result<usize, Errno> {
        self.check_alone()?;
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
        self.check_alone()?;
        let folder = self.folder(false)?.ok_or(Errno::NOENT)?;
        self.unlink_beside(&folder, key)
    }

    fn unlink_beside(&self, folder: &OwnedFd, key: &str) -> Result<(), Errno> {
        let _counted = self.volume.about_to_go(folder, key.as_bytes());
        outcome::unlink(At { folder: folder.as_fd(), name: key.as_bytes() }, AtFlags::empty())
    }

    /// Writes a new file and puts it in the place of the old when the disk has it, so that a crash leaves one of them whole.
    fn save_beside(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        if key.contains('/') {
            return Err(Error::NameInvalid);
        }
        self.check_alone().map_err(error)?;
        let folder = self.folder(true).map_err(error)?.ok_or(Error::NotFound)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let draft = openat(&folder, DRAFT, flags, Mode::RUSR | Mode::WUSR).map_err(error)?;
        let (volume, calls_wait) = (self.volume, (self.volume.waits, self.volume.identity.volume));
        let draft = Descriptor::new(draft, calls_wait).made(volume.nameless());
        // Whether there is room for it was looked at before.
        let write = || data::write(&draft, value, 0).and_then(|()| fsync(&draft));
        let written = volume.account(self.identity, &draft, Growth::None, write);
        let replaced = volume.about_to_go(&folder, key.as_bytes());
        let saved = written.and_then(|()| renameat(&folder, DRAFT, &folder, key).map_err(error));
        if saved.is_err() {
            let _ = unlinkat(&folder, DRAFT, AtFlags::empty());
        }
        drop(replaced);
        saved.and_then(|()| fsync(&folder).map_err(error))
    }

    fn keys_beside(&self) -> Result<Vec<String>, Error> {
        let mut keys = Vec::new();
        if let Some(folder) = self.folder(false).map_err(error)? {
            let note = |entry: crate::directory::listing::Listed<'_>| {
                keys.extend(std::str::from_utf8(entry.name).ok().filter(|key| *key != DRAFT).map(str::to_owned));
            };
            each_name(&folder, note).map_err(error)?;
        }
        Ok(keys)
    }

    /// The folder that keeps what belongs to this file.
    fn folder(&self, make: bool) -> Result<Option<OwnedFd>, Errno> {
        let side = match reserved::folder(self.volume, make) {
            Ok(Some(side)) => side,
            Ok(None) => return Ok(None),
            Err(error) => return Err(unreachable(error)),
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

/// The keys of such a list that are UTF-8.
pub(super) fn in_list(list: &[u8]) -> impl Iterator<Item = &str> {
    let keys = list.split(|byte| *byte == 0).filter_map(|key| std::str::from_utf8(key).ok());
    keys.filter(|key| !key.is_empty())
}

/// What keeps us out of the reserved folder.
fn unreachable(error: Error) -> Errno {
    match error {
        Error::Io(number) => Errno::from_raw_os_error(number),
        Error::TooManyOpen => Errno::MFILE,
        Error::NoMemory => Errno::NOMEM,
        Error::Full => Errno::NOSPC,
        Error::WouldBlock => Errno::AGAIN,
        Error::Gone => Errno::STALE,
        _ => Errno::ACCESS,
    }
}

/// The file that a new value is written to; no key begins so.
const DRAFT: &str = "draft";

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::directory::{DirectoryOptions, DirectoryStore};
    use crate::waiting::{Forbidden, forbid};
    use crate::{Kind, NewNode, Node, SharePath, Store, Use};

    /// What looks at what is kept with a file, and whether it had to wait.
    fn looks(node: &dyn Node) -> [(&'static str, Option<Error>); 5] {
        [
            ("metadata", node.try_metadata().err()),
            ("security", node.extras().security().err()),
            ("extended", node.extras().extended().err()),
            ("streams", node.extras().list_streams(&mut |_| ControlFlow::Continue(())).err()),
            ("stream", node.extras().stream("s").err()),
        ]
    }

    #[test]
    fn who_must_not_wait_asks_a_disk_for_nothing_that_is_kept_with_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        let new = NewNode { kind: Kind::File, attributes: 0, security: Some(b"descriptor"), owner: None };
        let path = SharePath::parse("file").unwrap();
        let node = store.create(&path, new).unwrap();
        node.extras().create_stream("s").unwrap();
        if node.waits() != Waits::ForData {
            return;
        }
        let (root, name) = store.directory_of(&path).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                forbid(Forbidden::Panics);
                for (look, error) in looks(&*node) {
                    assert_eq!(error, Some(Error::WouldBlock), "{look}");
                }
                assert_eq!(root.names().unwrap().try_child(&name, Use::Metadata).err(), Some(Error::WouldBlock));
                for usage in [Use::Metadata, Use::Read, Use::ReadWrite] {
                    assert_eq!(store.try_resolve(&path, usage).err(), Some(Error::WouldBlock), "{usage:?}");
                }
            });
        });
    }

    #[test]
    fn who_must_not_wait_opens_no_side_files() {
        let folder = tempfile::tempdir().unwrap();
        let options = DirectoryOptions { attributes_beside_files: true, ..DirectoryOptions::default() };
        let store = DirectoryStore::open(folder.path(), options).unwrap();
        let new = NewNode { kind: Kind::File, attributes: 0, security: Some(b"descriptor"), owner: None };
        let node = store.create(&SharePath::parse("file").unwrap(), new).unwrap();
        if node.waits() != Waits::ForData {
            return;
        }
        std::thread::scope(|scope| {
            scope.spawn(|| {
                forbid(Forbidden::Panics);
                assert_eq!(looks(&*node).map(|(_, error)| error), [Some(Error::WouldBlock); 5]);
            });
        });
        assert_eq!(node.extras().security().unwrap().as_deref(), Some(b"descriptor".as_slice()));
    }
}
