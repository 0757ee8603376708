//! Side files: data that belongs to a file and does not fit in its extended attributes.
//!
//! They live in the folder `.multilane` at the share's root, which only the server's user may enter and no client
//! reaches, each named by a random 128-bit id and by the file that it was made for. An attribute of that file holds
//! both. They go when the stream or the file's last name goes through this server. Where another program removes the
//! file, the side file stays behind: one whose id no file's attributes hold may be deleted. Where a share's folder lies
//! inside another share's, each has its own `.multilane`, and what is not in the one is looked for in others ([`super::homes`]):
//! it is used where it is.
//!
//! Other programs copy attributes with files. What such a copy's attribute names is another file's: it is read, and
//! never written or removed, until its data are copied ([`super::adopt`]). Nobody but the server names side files, so
//! that no program which writes attributes makes another file's its own.

use std::sync::Arc;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::directory::calls::{fsync, mkdirat, openat, renameat, unlinkat};
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::{error, opening};
use crate::directory::homes::{self, Home};
use crate::directory::leftovers;
use crate::directory::marks::Mark;
use crate::directory::names::RESERVED;
use crate::directory::stat::stat_at;
use crate::directory::volume::Volume;
use crate::directory::xattr::Subject;
use crate::{Error, Use};

/// What a stream is known by, and a side file besides its owner.
pub(super) type Id = [u8; ID_BYTES];
/// Bytes of an id; in a name each is two digits.
pub(super) const ID_BYTES: usize = 16;

/// The file that a side file was made for.
///
/// | offset | bytes | |
/// |---|---|---|
/// | 0 | 8 | the file system, where it is mounted below the share's root; 0 on that root's own |
/// | 8 | 8 | the inode number |
/// | 16 | 16 | when it was made, in nanoseconds since 1970; 0 where the file system does not know |
///
/// Little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) volume: u64,
    pub(super) file: u64,
    pub(super) born: i128,
}

/// Bytes of an owner as it is kept.
pub(super) const OWNER_BYTES: usize = 32;

impl Owner {
    pub(super) fn encode(&self) -> [u8; OWNER_BYTES] {
        let mut bytes = [0; OWNER_BYTES];
        bytes[..8].copy_from_slice(&self.volume.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.file.to_le_bytes());
        bytes[16..].copy_from_slice(&self.born.to_le_bytes());
        bytes
    }

    /// `None` where the bytes are no owner.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (volume, rest) = bytes.split_first_chunk()?;
        let (file, rest) = rest.split_first_chunk()?;
        let born = rest.try_into().ok()?;
        Some(Owner {
            volume: u64::from_le_bytes(*volume),
            file: u64::from_le_bytes(*file),
            born: i128::from_le_bytes(born),
        })
    }

    /// How a side file's name on disk ends.
    pub(super) fn on_disk(&self) -> String {
        let Owner { volume, file, born } = self;
        format!("-{volume:x}-{file:x}-{born:x}")
    }

    /// True where a side file's name on disk has this owner.
    pub(super) fn is_in(&self, side: &str) -> bool {
        side.get(2 * ID_BYTES..) == Some(&*self.on_disk())
    }

    /// True where both are one file if they are on one file system. A later kernel may know times of birth that an earlier one did not.
    pub(super) fn may_be(&self, other: &Owner) -> bool {
        self.file == other.file && (self.born == other.born || self.born == 0 || other.born == 0)
    }
}

/// Names a side file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SideName {
    pub(super) id: Id,
    /// Earlier versions wrote none.
    pub(super) owner: Option<Owner>,
}

/// The most bytes of a name as it is kept.
pub(super) const NAME_BYTES_MAX: usize = 16 + OWNER_BYTES;

impl SideName {
    /// A new one.
    pub(super) fn new(owner: Owner) -> Result<Self, Error> {
        Ok(SideName { id: new_id()?, owner: Some(owner) })
    }

    /// The id, then the owner.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = self.id.to_vec();
        bytes.extend(self.owner.iter().flat_map(Owner::encode));
        bytes
    }

    /// `None` where the bytes are no name.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (id, owner) = bytes.split_first_chunk()?;
        let owner = if owner.is_empty() { None } else { Some(Owner::decode(owner)?) };
        Some(SideName { id: *id, owner })
    }

    pub(super) fn on_disk(&self) -> String {
        let owner = self.owner.map(|owner| owner.on_disk()).unwrap_or_default();
        format!("{}{owner}", name(self.id))
    }
}

/// A new random id.
pub(super) fn new_id() -> Result<Id, Error> {
    let mut id = [0; 16];
    getrandom(&mut id, GetRandomFlags::empty()).map_err(error)?;
    Ok(id)
}

/// The folder itself; `None` where it does not exist and `make` is not set.
pub(super) fn folder(volume: &Volume, make: bool) -> Result<Option<OwnedFd>, Error> {
    let root = volume.fence.root();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(root, RESERVED, flags, Mode::empty()) {
        Ok(folder) => Ok(Some(folder)),
        Err(Errno::NOENT) if make => {
            match mkdirat(root, RESERVED, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(Errno::NOENT) => return Err(Error::Gone),
                Err(errno) => return Err(opening(errno)),
            }
            openat(root, RESERVED, flags, Mode::empty()).map(Some).map_err(opening)
        }
        Err(Errno::NOENT) => Ok(None),
        Err(Errno::NOTDIR) => Err(Error::Denied),
        Err(errno) => Err(opening(errno)),
    }
}

/// Makes an empty side file. Only its owner, whose attributes do not hold the name, may make it: what has it is what was left when
/// the server was killed. Where this fails it may have been made, and is to be taken back.
pub(super) fn create(volume: &Volume, side: &SideName) -> Result<Descriptor, Error> {
    let folder = folder(volume, true)?.ok_or(Error::NotFound)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = side.on_disk();
    let make = || openat(&folder, name.as_str(), flags, Mode::RUSR | Mode::WUSR);
    let made = match make() {
        Err(Errno::EXIST) => {
            remove(volume, side);
            make()
        }
        answer => answer,
    };
    let made = made.map_err(error)?;
    volume.unmark(made.as_fd());
    Ok(Descriptor::new(made, (volume.waits, volume.identity.volume)).made(volume.nameless()))
}

/// Whose a side file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Own,
    /// The attribute that names it was copied from another file.
    Anothers,
}

/// A side file that was opened.
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    pub(super) whose: Whose,
    /// It lies on this file system, and not on the root's own.
    pub(super) elsewhere: Option<u64>,
}

/// A side file that may be removed: it is the file's own.
pub(super) struct Removable<'a> {
    volume: &'a Volume,
    /// Several that lie there share it: there may be more of them than descriptors.
    home: Arc<Home>,
    name: String,
}

impl Removable<'_> {
    pub(super) fn is(&self, side: &SideName) -> bool {
        self.name == side.on_disk()
    }

    /// As [`remove`].
    fn remove(&self) -> bool {
        remove_named(self.volume, self.home.folder.as_fd(), &self.name)
    }
}

/// Removes several; false where one of them stays for which there is no mark.
pub(super) fn remove_all(sides: &[Removable<'_>]) -> bool {
    sides.iter().filter(|side| !side.remove()).count() == 0
}

/// Whose a side file is; `None` where it is known that there is no such. [`Error::WouldBlock`] as [`open`].
pub(super) fn look(subject: &Subject<'_>, side: &SideName) -> Result<Option<Whose>, Error> {
    let name = side.on_disk();
    homes::ask(subject, |home| stat_at(&home.folder, name.as_bytes()).map(|_| whose(subject, side, home)))
}

fn whose(subject: &Subject<'_>, side: &SideName, home: &Home) -> Whose {
    if subject.owns(side, home) == Ok(true) { Whose::Own } else { Whose::Anothers }
}

/// Finds a side file that is to be removed, before nothing leads to it any more; `None` where it is another's or lost, or lies where nobody may look:
/// it stays then, which is told in the log. Other errors are for who wants to remove it: nothing is changed yet. [`Error::WouldBlock`] as [`open`].
pub(super) fn removable<'a>(subject: &Subject<'a>, side: &SideName) -> Result<Option<Removable<'a>>, Error> {
    if !subject.may_own(side)? {
        return Ok(None);
    }
    let name = side.on_disk();
    let is_own = |home: &Home| stat_at(&home.folder, name.as_bytes()).map(|_| subject.owns(side, home));
    match homes::find(subject, is_own) {
        Ok(Some((home, is_own))) => {
            Ok(is_own?.then(|| Removable { volume: subject.volume, home: Arc::new(home), name }))
        }
        Ok(None) => Ok(None),
        Err(error @ Error::Denied) => {
            tracing::warn!(%error, "{RESERVED}/{name} may belong to nothing soon and keep its room: nobody may look at it");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The same of many side files.
pub(super) fn all_removable<'a>(
    subject: &Subject<'a>,
    sides: impl IntoIterator<Item = SideName>,
) -> Result<Vec<Removable<'a>>, Error> {
    let mut found: Vec<Removable<'a>> = Vec::new();
    for side in sides {
        let Some(mut removable) = removable(subject, &side)? else { continue };
        if let Some(before) = found.last()
            && before.home.is(&removable.home)
        {
            removable.home = Arc::clone(&before.home);
        }
        found.push(removable);
    }
    Ok(found)
}

/// Opens a side file, another's to read. [`Error::Gone`] where it is not there, [`Error::WouldBlock`] where that has to be waited for.
pub(super) fn open(subject: &Subject<'_>, side: &SideName, usage: Use) -> Result<Opened, Error> {
    let (volume, name) = (subject.volume, side.on_disk());
    let common = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = homes::ask(subject, |home| {
        let whose = whose(subject, side, home);
        let writes = usage == Use::ReadWrite && whose == Whose::Own && !volume.read_only;
        let open = |usage| {
            volume.open_unmarked(common | usage, |flags| openat(&home.folder, name.as_str(), flags, Mode::empty()))
        };
        let fd = match open(if writes { OFlags::RDWR } else { OFlags::RDONLY }) {
            Err(Errno::ACCESS | Errno::ROFS) => open(OFlags::RDONLY),
            answer => answer,
        };
        let elsewhere = Some(home.volume).filter(|lies_on| *lies_on != volume.identity.volume);
        Ok(Opened { fd: fd?, whose, elsewhere })
    });
    opened?.ok_or(Error::Gone)
}

/// Persists which side files there are.
pub(super) fn sync(volume: &Volume) -> Result<(), Error> {
    match folder(volume, false)? {
        Some(folder) => fsync(folder).map_err(error),
        None => Ok(()),
    }
}

/// Gives a side file another name, which nothing that is used has. Where this fails it may have it, and is to be taken back.
pub(super) fn rename(volume: &Volume, from: &SideName, to: &SideName) -> Result<(), Error> {
    remove(volume, to);
    let folder = folder(volume, false)?.ok_or(Error::Gone)?;
    renameat(&folder, from.on_disk(), &folder, to.on_disk()).map_err(error)
}

/// Removes a side file that was made here, or may have been, and that nothing names. Where it stays so does its mark, and it goes when the folder is
/// served again.
pub(super) fn take_back(volume: &Volume, side: &SideName, mark: Option<Mark>) {
    if !remove(volume, side)
        && let Some(mark) = mark
    {
        mark.leave();
    }
}

/// Removes a side file that was made here, if it is there. Where it stays that is told in the log, and it is marked to go when the folder is served
/// again; false where it cannot be marked either.
pub(super) fn remove(volume: &Volume, side: &SideName) -> bool {
    let name = side.on_disk();
    match folder(volume, false) {
        Ok(Some(folder)) => remove_named(volume, folder.as_fd(), &name),
        Ok(None) => true,
        Err(error) => {
            tell_it_stays(&name, &error);
            false
        }
    }
}

/// The same of any that nothing leads to any more.
fn remove_named(volume: &Volume, folder: BorrowedFd<'_>, name: &str) -> bool {
    match unlink_named(volume, folder, name) {
        Ok(()) => true,
        Err(cause) => {
            tell_it_stays(name, &cause);
            leftovers::leave(folder, name)
        }
    }
}

/// The same for who tries again.
pub(super) fn unlink_named(volume: &Volume, folder: BorrowedFd<'_>, name: &str) -> Result<(), Errno> {
    let _counted = volume.about_to_go(folder, name.as_bytes());
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        // It may have been done.
        Err(_) if matches!(stat_at(folder, name.as_bytes()), Err(Errno::NOENT)) => Ok(()),
        Err(cause) => Err(cause),
    }
}

pub(super) fn tell_it_stays(name: &str, cause: &dyn std::fmt::Display) {
    tracing::warn!(%cause, "{RESERVED}/{name} belongs to nothing any more and keeps its room: it cannot be removed");
}

/// An id as a name.
pub(super) fn name(id: Id) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_comes_back(id: [u8; 16], owner: Option<(u64, u64, i128)>) {
            let owner = owner.map(|(volume, file, born)| Owner { volume, file, born });
            let side = SideName { id, owner };
            let bytes = side.encode();
            prop_assert!(bytes.len() <= NAME_BYTES_MAX);
            prop_assert_eq!(SideName::decode(&bytes), Some(side));
            for cut in (0..bytes.len()).filter(|cut| *cut != 16) {
                prop_assert_eq!(SideName::decode(&bytes[..cut]), None);
            }
        }

        #[test]
        fn any_bytes_are_decoded(bytes: Vec<u8>) {
            let _ = SideName::decode(&bytes);
        }
    }
}
