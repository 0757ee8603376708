//! Renaming and linking (MS-FSA 2.1.5.15.12 and 2.1.5.15.7).
//!
//! A rename onto another name of the same file takes that name in whatever case was asked for, and needs no leave to
//! replace it. What has a name that is to be replaced keeps it until the new one is there in its place, and keeps it
//! where that fails: across a mount, with no room or no links left, or without links at all.

use std::sync::Arc;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, FileType, RenameFlags};
use rustix::io::Errno;

use crate::directory::cache::{Did, Held};
use crate::directory::calls::{linkat, renameat, renameat_with, unlinkat};
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::file::OpenFile;
use crate::directory::folder::{Folder, stat_at};
use crate::directory::last_name::Losing;
use crate::directory::leftovers::Draft;
use crate::directory::names::Wanted;
use crate::directory::volume::{self, Volume};
use crate::directory::walk::{self, Named};
use crate::directory::{remove, side};
use crate::{Error, Identity, Kind, Name, Replace};

/// Gives what has `name` in `directory` the name `new` in `target`.
pub(super) fn rename(
    (directory, name): (&OpenFile, &Name),
    (target, new): (&OpenFile, &Name),
    expected: Identity,
    replace: Replace,
) -> Result<(), Error> {
    let volume = volume_of(directory, target)?;
    let (from, from_wanted) = walk::wanted(directory, name)?;
    let (to, wanted) = walk::wanted(target, new)?;
    check_same_volume(from.identity, to.identity)?;
    let mut held = volume.cache.hold_both(from.identity, to.identity);
    let (disk, named) = remove::stored(volume, &mut held, &from, &from_wanted)?;
    if named.identity != expected {
        return Err(Error::NotFound);
    }
    let same_folder = from.identity == to.identity;
    let taken = held.find(&to, &wanted, Wait::May)?.filter(|taken| !(same_folder && *taken == disk));
    let valid = held.is_valid(&from)?;
    let counted = volume.nameless().filter(|_| named.kind == FileType::Directory);
    let _move = counted.map(|nameless| nameless.recount.move_directory());
    let moving = Moving { from: &from, disk: &disk, place: Place { volume, to: &to, wanted: &wanted }, named: &named };
    let moved = match &taken {
        None => moving.to_free_name().map(|()| Spelled::AsAsked),
        Some(_) if named.kind == FileType::Directory && moving.is_into_itself() => Err(Error::Denied),
        Some(taken) => moving.over(taken, replace),
    };
    if moved != Ok(Spelled::AsAsked) || !valid {
        held.forget(from.identity);
        held.forget(to.identity);
        return moved.map(drop);
    }
    held.note(&from, &Did::Removed(&disk));
    note_made(&mut held, &to, taken.as_deref(), &wanted);
    Ok(())
}

/// Gives an open file the name `new` in `target`, too.
pub(super) fn link(file: &OpenFile, (target, new): (&OpenFile, &Name), replace: Replace) -> Result<(), Error> {
    let volume = volume_of(file, target)?;
    if file.kind == Kind::Directory {
        return Err(Error::IsDirectory);
    }
    let (to, wanted) = walk::wanted(target, new)?;
    check_same_volume(file.identity, to.identity)?;
    let mut held = volume.cache.hold(to.identity);
    let taken = held.find(&to, &wanted, Wait::May)?;
    let linking = Linking { file, place: Place { volume, to: &to, wanted: &wanted } };
    let linked = match &taken {
        None => linking.link_to(to.fd.as_fd(), &wanted.disk).map_err(error).map(|()| Spelled::AsAsked),
        Some(taken) => linking.over(taken, replace),
    };
    match linked {
        Ok(Spelled::AsAsked) => note_made(&mut held, &to, taken.as_deref(), &wanted),
        Ok(Spelled::AsBefore) | Err(_) => held.forget(to.identity),
    }
    linked.map(drop)
}

/// Names do not move between file systems. Said before both directories are held: one that hangs keeps nobody out of the other.
fn check_same_volume(from: Identity, to: Identity) -> Result<(), Error> {
    if from.volume == to.volume { Ok(()) } else { Err(Error::CrossVolume) }
}

/// The volume of both.
fn volume_of<'a>(one: &'a OpenFile, other: &OpenFile) -> Result<&'a Arc<Volume>, Error> {
    one.volume.check_writable()?;
    if Arc::ptr_eq(&one.volume, &other.volume) { Ok(&one.volume) } else { Err(Error::CrossVolume) }
}

fn note_made(held: &mut Held<'_>, folder: &Folder, replaced: Option<&[u8]>, wanted: &Wanted) {
    if let Some(replaced) = replaced {
        held.note(folder, &Did::Removed(replaced));
    }
    held.note(folder, &Did::Made(wanted));
}

fn check_replaceable(target: &Named, replace: Replace) -> Result<(), Error> {
    match (replace, target.kind) {
        (Replace::No, _) => Err(Error::Exists),
        (Replace::Only(file), _) if file != target.identity => Err(Error::Exists),
        (Replace::Only(_) | Replace::Yes, FileType::RegularFile | FileType::Symlink) => Ok(()),
        (Replace::Only(_) | Replace::Yes, _) => Err(Error::Denied),
    }
}

/// How a name is spelled after it was given to another file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelled {
    AsAsked,
    /// In another case.
    AsBefore,
}

/// Where a name is to be.
struct Place<'a> {
    volume: &'a Arc<Volume>,
    to: &'a Folder,
    wanted: &'a Wanted,
}

/// A rename under way.
struct Moving<'a> {
    from: &'a Folder,
    disk: &'a [u8],
    named: &'a Named,
    place: Place<'a>,
}

/// One more name on its way to a file.
struct Linking<'a> {
    file: &'a OpenFile,
    place: Place<'a>,
}

impl Moving<'_> {
    /// To a name that nothing has, but perhaps another program by now.
    fn to_free_name(&self) -> Result<(), Error> {
        let Place { to, wanted, .. } = self.place;
        if self.from.identity == to.identity && self.disk == wanted.disk {
            return Ok(());
        }
        rename_to_free_name(&self.from.fd, self.disk, &to.fd, &wanted.disk).map_err(moving)
    }

    /// Over a name that is taken, in whatever case. Whatever fails, what has the name is not lost.
    fn over(&self, taken: &[u8], replace: Replace) -> Result<Spelled, Error> {
        let to = self.place.to;
        let target = walk::named(self.place.volume, to, taken)?;
        let is_own = target.own == self.named.own;
        check_replaceable(&target, if is_own { Replace::Yes } else { replace })?;
        if is_own && self.named.links > 1 {
            // Both are names of one file: the one that is left has to be spelled as asked.
            self.place.spell(taken)?;
            unlinkat(&self.from.fd, self.disk, AtFlags::empty()).map_err(error)?;
            return Ok(Spelled::AsAsked);
        }
        let losing = Losing::look(self.place.volume, to, taken, &target)?;
        if self.named.kind == FileType::Directory {
            self.directory_over_file(taken)?;
        } else {
            renameat(&self.from.fd, self.disk, &to.fd, taken).map_err(moving)?;
        }
        Ok(self.place.replaced(taken, losing))
    }

    /// A directory takes no file's place in one step: they change places, and then the file goes. [`Error::Unsupported`] where the file system
    /// cannot exchange names.
    fn directory_over_file(&self, taken: &[u8]) -> Result<(), Error> {
        let exchange = || renameat_with(&self.from.fd, self.disk, &self.place.to.fd, taken, RenameFlags::EXCHANGE);
        match exchange() {
            // The file would have to stand aside, and stay there where the server is killed.
            Err(Errno::INVAL) if !self.is_into_itself() => return Err(Error::Unsupported),
            answer => answer.map_err(moving)?,
        }
        unlinkat(&self.from.fd, self.disk, AtFlags::empty()).map_err(|errno| {
            let _ = exchange();
            error(errno)
        })
    }

    /// The kernel says the same of that and of what the file system cannot do.
    fn is_into_itself(&self) -> bool {
        volume::outwards(self.place.to.fd.as_fd()).contains(&self.named.own)
    }
}

impl Linking<'_> {
    /// Over a name that is taken. Whatever fails, what has the name is not lost.
    fn over(&self, taken: &[u8], replace: Replace) -> Result<Spelled, Error> {
        let Place { volume, to, .. } = self.place;
        let target = walk::named(volume, to, taken)?;
        check_replaceable(&target, replace)?;
        if target.own == self.file.identity {
            return self.place.spell(taken).map(|()| Spelled::AsAsked);
        }
        let losing = Losing::look(volume, to, taken, &target)?;
        let is_beside = to.identity.volume == volume.identity.volume;
        let side = if is_beside { side::folder(volume, true).ok().flatten() } else { None };
        // Beside the share's files a link that a crash leaves behind is in nobody's way.
        let aside = side.as_ref().map(|side| self.link_through(side.as_fd(), taken));
        match aside {
            Some(Err(Error::CrossVolume)) | None => self.link_through(to.fd.as_fd(), taken)?,
            Some(answer) => answer?,
        }
        Ok(self.place.replaced(taken, losing))
    }

    /// Links to a name in `folder` and renames that.
    fn link_through(&self, folder: BorrowedFd<'_>, taken: &[u8]) -> Result<(), Error> {
        let draft = Draft::new()?;
        self.link_to(folder, draft.name().as_bytes()).map_err(error)?;
        renameat(folder, draft.name(), &self.place.to.fd, taken).map_err(|errno| {
            let _ = unlinkat(folder, draft.name(), AtFlags::empty());
            error(errno)
        })
    }

    fn link_to(&self, folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        self.place.volume.link(self.file.fd(), folder, name)
    }
}

impl<'a> Place<'a> {
    /// Another file had the name `taken`. It is spelled as it was asked for, where that can be: in
    /// its old spelling it is found as well.
    fn replaced(&self, taken: &[u8], losing: Losing<'_>) -> Spelled {
        losing.gone();
        match self.spell(taken) {
            Ok(()) => Spelled::AsAsked,
            Err(_) => Spelled::AsBefore,
        }
    }

    /// Spells a name in the directory as it was asked for.
    fn spell(&self, taken: &[u8]) -> Result<(), Error> {
        if taken == self.wanted.disk {
            return Ok(());
        }
        rename_to_free_name(&self.to.fd, taken, &self.to.fd, &self.wanted.disk).map_err(moving)
    }
}

/// Renames to a name that nothing has.
fn rename_to_free_name<From: AsFd, To: AsFd>(from: From, disk: &[u8], to: To, wanted: &[u8]) -> Result<(), Errno> {
    match renameat_with(&from, disk, &to, wanted, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL) => {}
        answer => return answer,
    }
    // The file system cannot look and rename in one step, but it can do so for a link. A directory replaces nothing that holds
    // something, and neither does what cannot be linked where there are no links.
    match linkat(&from, disk, &to, wanted, AtFlags::empty()) {
        Ok(()) => unlinkat(&from, disk, AtFlags::empty()).inspect_err(|_| {
            let _ = unlinkat(&to, wanted, AtFlags::empty());
        }),
        Err(Errno::EXIST) => Err(Errno::EXIST),
        Err(_) if stat_at(to.as_fd(), wanted).is_ok() => Err(Errno::EXIST),
        Err(_) => renameat(&from, disk, &to, wanted),
    }
}

/// A directory that would move below itself is EINVAL.
fn moving(errno: Errno) -> Error {
    match errno {
        Errno::INVAL => Error::Denied,
        other => error(other),
    }
}
