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

use crate::directory::calls::{openat, renameat, unlinkat};
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::error;
use crate::directory::homes::{self, Home};
use crate::directory::listing::each_name;
use crate::directory::marks::Mark;
use crate::directory::names::RESERVED;
use crate::directory::passing::{self, UsedName, make_mark, nameless};
use crate::directory::reserved;
use crate::directory::side_name::SideName;
use crate::directory::stat::stat_at;
use crate::directory::subject::Subject;
use crate::directory::volume::Volume;
use crate::{Error, Use};

/// Makes an empty side file. Only its owner, whose attributes do not hold the name, may make it: what has it is what was left when
/// the server was killed. Where this fails it may have been made, and is to be taken back.
pub(super) fn create(volume: &Volume, side: &SideName) -> Result<Descriptor, Error> {
    let folder = reserved::folder(volume, true)?.ok_or(Error::NotFound)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let name = side.on_disk();
    unmark(volume, folder.as_fd(), &name)?;
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
    /// On the disk.
    pub(super) fn name(&self) -> &str {
        &self.name
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
    if subject.owns(side, home.volume) == Ok(true) { Whose::Own } else { Whose::Anothers }
}

/// Finds a side file that is to be removed, before nothing leads to it any more; `None` where it is another's or lost, or lies where nobody may look:
/// it stays then, which is told in the log. Other errors are for who wants to remove it: nothing is changed yet. [`Error::WouldBlock`] as [`open`].
pub(super) fn removable<'a>(subject: &Subject<'a>, side: &SideName) -> Result<Option<Removable<'a>>, Error> {
    if !subject.may_own(side)? {
        return Ok(None);
    }
    let name = side.on_disk();
    let is_own = |home: &Home| stat_at(&home.folder, name.as_bytes()).map(|_| subject.owns(side, home.volume));
    match homes::find(subject, is_own) {
        Ok(Some((home, is_own))) => {
            Ok(is_own?.then(|| Removable { volume: subject.volume, home: Arc::new(home), name }))
        }
        Ok(None) => Ok(None),
        Err(error @ Error::Denied) => {
            tracing::warn!(name: "leftover_kept", %error, "{RESERVED}/{name} may belong to nothing soon and keep its room: nobody may look at it");
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

/// All side files whose names say that they are the file's, wherever they may lie, for who cannot tell which it names. [`Error::WouldBlock`] as [`open`].
pub(super) fn owned<'a>(subject: &Subject<'a>) -> Result<Vec<Removable<'a>>, Error> {
    let mut found = Vec::new();
    homes::ask(subject, |home| {
        let owner = subject.owner_in(home.volume).map_err(|_| Errno::IO)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = match openat(&home.folder, ".", flags, Mode::empty()) {
            Err(Errno::ACCESS) => return Err(Errno::NOENT),
            answer => answer?,
        };
        let mut names = Vec::new();
        each_name(&folder, |entry| {
            names.extend(std::str::from_utf8(entry.name).ok().filter(|name| owner.is_in(name)).map(str::to_owned));
        })?;
        let home = Arc::new(Home { folder, volume: home.volume });
        let removable = |name| Removable { volume: subject.volume, home: Arc::clone(&home), name };
        found.extend(names.into_iter().map(removable));
        // There may be more in the next.
        Err::<(), _>(Errno::NOENT)
    })?;
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

/// Gives a side file another name, which nothing that is used has. Where this fails it may have it, and is to be taken back.
pub(super) fn rename(volume: &Volume, from: &SideName, to: &SideName) -> Result<(), Error> {
    let folder = reserved::folder(volume, false)?.ok_or(Error::Gone)?;
    let _ = unlink_named(volume, folder.as_fd(), &to.on_disk());
    unmark(volume, folder.as_fd(), &to.on_disk())?;
    renameat(&folder, from.on_disk(), &folder, to.on_disk()).map_err(error)
}

/// A side file of this name is about to be made: it does not go when the folder is served again, as one of that name that could not be removed does.
fn unmark(volume: &Volume, folder: BorrowedFd<'_>, name: &str) -> Result<(), Error> {
    let mark = nameless(name);
    if UsedName::is_used(&mark) {
        // It is to go.
        return Ok(());
    }
    match unlinkat(folder, mark, AtFlags::empty()) {
        Ok(()) => reserved::sync(volume),
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(error(errno)),
    }
}

/// Removes a side file that was made here, or may have been, and that nothing names. Where it stays so does its mark: when the folder is served again
/// the file is asked whether it names it by then.
pub(super) fn take_back(volume: &Volume, side: &SideName, mark: Option<Mark>) {
    let Some(mark) = mark else {
        remove(volume, side);
        return;
    };
    let name = side.on_disk();
    let removed = match reserved::folder(volume, false) {
        Ok(Some(folder)) => unlink_named(volume, folder.as_fd(), &name).map_err(error),
        Ok(None) => Ok(()),
        Err(error) => Err(error),
    };
    if let Err(cause) = removed {
        tell_it_stays(&name, &cause);
        mark.leave();
    }
}

/// Removes a side file that was made here, if it is there. Where it stays that is told in the log, and it is marked to go when the folder is served
/// again; false where it cannot be marked either.
pub(super) fn remove(volume: &Volume, side: &SideName) -> bool {
    let name = side.on_disk();
    match reserved::folder(volume, false) {
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
            passing::leave(folder, name)
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
    tracing::warn!(name: "leftover_kept", error = %cause, "{RESERVED}/{name} belongs to nothing any more and keeps its room: it cannot be removed");
}

/// The side file of a file without a name: it goes when this is dropped, or when the folder is served again.
pub(super) struct Nameless {
    volume: Arc<Volume>,
    side: SideName,
    mark: Option<UsedName>,
}

impl Nameless {
    /// Marks a side file, which need not be there yet.
    pub(super) fn mark(volume: &Arc<Volume>, side: SideName) -> Result<Self, Error> {
        let folder = reserved::folder(volume, true)?.ok_or(Error::NotFound)?;
        let mark = UsedName::new(nameless(&side.on_disk()));
        make_mark(folder.as_fd(), mark.as_str()).map_err(error)?;
        Ok(Nameless { volume: Arc::clone(volume), side, mark: Some(mark) })
    }

    /// The same of one that is not looked for when the folder is served again.
    pub(super) fn unmarked(volume: &Arc<Volume>, side: SideName) -> Self {
        Nameless { volume: Arc::clone(volume), side, mark: None }
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        let Some(mark) = &self.mark else {
            remove(&self.volume, &self.side);
            return;
        };
        let name = self.side.on_disk();
        match reserved::folder(&self.volume, false) {
            Ok(Some(folder)) => remove_marked(&self.volume, folder.as_fd(), &name, mark.as_str()),
            Ok(None) => {}
            Err(error) => tell_it_stays(&name, &error),
        }
    }
}

/// Removes a side file, and its mark once that is done.
pub(super) fn remove_marked(volume: &Volume, folder: BorrowedFd<'_>, side: &str, mark: &str) {
    match unlink_named(volume, folder, side) {
        Ok(()) => drop(unlinkat(folder, mark, AtFlags::empty())),
        Err(cause) => tell_it_stays(side, &cause),
    }
}

/// Sets a value that is to name a side file, which was made and marked for it. Where that fails the side file goes, unless the value is there all
/// the same, which the disk has not said then. Where that cannot be told its mark stays.
pub(super) fn save_naming(
    subject: &Subject<'_>,
    (side, mark): (&SideName, Option<Mark>),
    key: &str,
    value: &[u8],
) -> Result<(), Error> {
    subject.save(key, value).inspect_err(|_| match subject.has(key, value) {
        Some(true) => {}
        Some(false) => take_back(subject.volume, side, mark),
        None => drop(mark.map(Mark::leave)),
    })
}
