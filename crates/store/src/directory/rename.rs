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
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::file::OpenFile;
use crate::directory::folder::Folder;
use crate::directory::last_name::Losing;
use crate::directory::listing::{Listed, each_name};
use crate::directory::marks::Mark;
use crate::directory::names::Wanted;
use crate::directory::outcome::{self, At, seen};
use crate::directory::passing::Draft;
use crate::directory::reserved;
use crate::directory::volume::Volume;
use crate::directory::walk::{self, Named};
use crate::directory::{remove, roots};
use crate::path::fold;
use crate::{Error, Identity, Kind, Name, Replace};

/// Gives what has `name` in `directory` the name `new` in `target`.
pub(super) fn rename(
    (directory, name): (&OpenFile, &Name),
    (target, new): (&OpenFile, &Name),
    expected: Identity,
    replace: Replace,
) -> Result<(), Error> {
    let volume = volume_of(directory, target)?;
    let (from, from_wanted) = directory.wanted(name)?;
    let (to, wanted) = target.wanted(new)?;
    check_same_volume(from.identity, to.identity)?;
    let mut held = volume.cache.hold_both(from.identity, to.identity);
    let (disk, named) = remove::stored(volume, &mut held, &from, &from_wanted, |disk| walk::named(&from, disk))?;
    if named.own != expected {
        return Err(Error::NotFound);
    }
    let same_folder = from.identity == to.identity;
    let taken = held.find(&to, &wanted, Wait::May)?.filter(|taken| !(same_folder && *taken == disk));
    let valid = held.is_valid(&from)?;
    let counted = volume.nameless().filter(|_| named.kind == FileType::Directory);
    let _move = counted.map(|nameless| nameless.recount.move_directory());
    let moving =
        Moving { from: &from, disk: &disk, place: NewName { volume, to: &to, wanted: &wanted }, named: &named };
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
    let (to, wanted) = target.wanted(new)?;
    check_same_volume(file.identity, to.identity)?;
    let mut held = volume.cache.hold(to.identity);
    let taken = held.find(&to, &wanted, Wait::May)?;
    let linking = Linking { file, place: NewName { volume, to: &to, wanted: &wanted } };
    let linked = match &taken {
        None => linking.beside(to.at(&wanted.disk)).map(|()| Spelled::AsAsked),
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

fn note_made(held: &mut Held<'_>, folder: &Folder<'_>, replaced: Option<&[u8]>, wanted: &Wanted) {
    if let Some(replaced) = replaced {
        held.note(folder, &Did::Removed(replaced));
    }
    held.note(folder, &Did::Made(wanted));
}

fn check_replaceable(target: &Named, replace: Replace) -> Result<(), Error> {
    match (replace, target.kind) {
        (Replace::No, _) => Err(Error::Exists),
        (Replace::Only(file), _) if file != target.own => Err(Error::Exists),
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
struct NewName<'a> {
    volume: &'a Arc<Volume>,
    to: &'a Folder<'a>,
    wanted: &'a Wanted,
}

/// A rename under way.
struct Moving<'a> {
    from: &'a Folder<'a>,
    disk: &'a [u8],
    named: &'a Named,
    place: NewName<'a>,
}

/// One more name on its way to a file.
struct Linking<'a> {
    file: &'a OpenFile,
    place: NewName<'a>,
}

impl Moving<'_> {
    /// To a name that nothing has, but perhaps another program by now.
    fn to_free_name(&self) -> Result<(), Error> {
        let NewName { to, wanted, .. } = self.place;
        if self.from.identity == to.identity && self.disk == wanted.disk {
            return Ok(());
        }
        let _locked = self.place.volume.lock_file(self.named.own);
        outcome::rename_to_free_name(self.named.own, self.at(), to.at(&wanted.disk)).map_err(moving)
    }

    /// Over a name that is taken, in whatever case. Whatever fails, what has the name is not lost.
    fn over(&self, taken: &[u8], replace: Replace) -> Result<Spelled, Error> {
        let to = self.place.to;
        let target = walk::named(to, taken)?;
        let is_own = target.own == self.named.own;
        check_replaceable(&target, if is_own { Replace::Yes } else { replace })?;
        if is_own && self.named.links > 1 {
            let _locked = self.place.volume.lock_file(self.named.own);
            // Both are names of one file: the one that is left has to be spelled as asked.
            let is_one = self.is_one_entry(taken)?;
            self.place.spell(self.named.own, taken)?;
            if !is_one {
                outcome::unlink(self.at(), AtFlags::empty()).map_err(error)?;
            }
            return Ok(Spelled::AsAsked);
        }
        let mut losing = Losing::look(self.place.volume, to, taken, (&target, None))?;
        let locked = self.place.volume.lock_files(self.named.own, target.own);
        losing.look_again(to.at(taken)).map_err(given_away)?;
        let answer = if self.named.kind == FileType::Directory {
            self.directory_over_file(taken, &target)
        } else {
            outcome::rename(self.named.own, self.at(), to.at(taken), RenameFlags::empty()).map_err(moving)
        };
        self.place.replaced(answer, self.named.own, taken, (losing, locked))
    }

    /// True where what is moved and what has the new name are one entry of the directory, which some file systems find in any case.
    fn is_one_entry(&self, taken: &[u8]) -> Result<bool, Error> {
        let folded = |name: &[u8]| std::str::from_utf8(name).map(fold).ok();
        if self.from.identity != self.place.to.identity || folded(self.disk) != folded(taken) {
            return Ok(false);
        }
        let mut is_stored = false;
        let look = |entry: Listed<'_>| is_stored |= entry.name == self.disk;
        if self.disk != taken {
            self.from.to_read().and_then(|fd| each_name(fd, look)).map_err(error)?;
        }
        Ok(!is_stored)
    }

    /// A directory takes no file's place in one step: they change places, and then the file goes. Where that fails, or the server is killed in between,
    /// they change back, if need be when the folder is served again. [`Error::Unsupported`] where the file system cannot exchange names.
    fn directory_over_file(&self, taken: &[u8], file: &Named) -> Result<(), Error> {
        let NewName { volume, to, .. } = self.place;
        let at = |folder, name| walk::path_in(volume, folder, name);
        let mark = Mark::replaced(volume, at(self.from, self.disk), at(to, taken), file)?;
        let to = to.at(taken);
        let exchanged = match outcome::rename(self.named.own, self.at(), to, RenameFlags::EXCHANGE) {
            // The file would have to stand aside, and stay there where the server is killed.
            Err(Errno::INVAL) if !self.is_into_itself() => return Err(Error::Unsupported),
            answer => answer.map_err(moving),
        };
        let done = exchanged.and_then(|()| {
            outcome::unlink(self.at(), AtFlags::empty()).map_err(|errno| {
                let _ = outcome::rename(self.named.own, to, self.at(), RenameFlags::EXCHANGE);
                error(errno)
            })
        });
        if done.is_err() && !self.at().is(self.named.own) {
            mark.into_iter().for_each(Mark::leave);
        }
        done
    }

    /// The name that it has.
    fn at(&self) -> At<'_> {
        self.from.at(self.disk)
    }

    /// The kernel says the same of that and of what the file system cannot do.
    fn is_into_itself(&self) -> bool {
        roots::identities_outwards(self.place.to.fd.as_fd()).contains(&self.named.own)
    }
}

impl Linking<'_> {
    /// To a name that is free. What is kept with the file is locked: while its last name goes, and that with it, it gets no other.
    fn beside(&self, at: At<'_>) -> Result<(), Error> {
        let _locked = self.place.volume.lock_file(self.file.identity);
        self.check_named()?;
        self.link_to(at).map_err(error)
    }

    /// What is kept with the file is locked. [`Error::NotFound`] where its last name has gone.
    fn check_named(&self) -> Result<(), Error> {
        if self.file.is_nameless() { Err(Error::NotFound) } else { Ok(()) }
    }

    /// Over a name that is taken. Whatever fails, what has the name is not lost.
    fn over(&self, taken: &[u8], replace: Replace) -> Result<Spelled, Error> {
        let NewName { volume, to, .. } = self.place;
        let target = walk::named(to, taken)?;
        check_replaceable(&target, replace)?;
        if target.own == self.file.identity {
            return self.place.spell(self.file.identity, taken).map(|()| Spelled::AsAsked);
        }
        let mut losing = Losing::look(volume, to, taken, (&target, None))?;
        let locked = volume.lock_files(target.own, self.file.identity);
        self.check_named()?;
        losing.look_again(to.at(taken)).map_err(given_away)?;
        let is_beside = to.identity.volume == volume.identity.volume;
        let side = if is_beside { reserved::folder(volume, true).ok().flatten() } else { None };
        // Beside the share's files a link that a crash leaves behind is in nobody's way.
        let aside =
            side.as_ref().map(|side| Draft::new().and_then(|draft| self.link_through(side.as_fd(), &draft, taken).0));
        let answer = match aside {
            Some(Err(Error::CrossVolume)) | None => self.link_beside(taken),
            Some(answer) => answer,
        };
        self.place.replaced(answer, self.file.identity, taken, (losing, locked))
    }

    /// Links to a name beside the one that is taken, and renames that. A mark leads to it until then.
    fn link_beside(&self, taken: &[u8]) -> Result<(), Error> {
        let NewName { volume, to, .. } = self.place;
        let draft = Draft::new()?;
        let mark = Mark::placing(volume, walk::path_in(volume, to, taken), &draft)?;
        let (linked, gone) = self.link_through(to.fd.as_fd(), &draft, taken);
        if gone.is_err() {
            mark.into_iter().for_each(Mark::leave);
        }
        linked
    }

    /// Links to the name of the draft in `folder` and renames that. Whether it has taken the place, and whether the draft has gone.
    fn link_through(
        &self,
        folder: BorrowedFd<'_>,
        draft: &Draft,
        taken: &[u8],
    ) -> (Result<(), Error>, Result<(), Errno>) {
        let from = At { folder, name: draft.name().as_bytes() };
        let linked = self
            .link_to(from)
            .and_then(|()| outcome::rename(self.file.identity, from, self.place.to.at(taken), RenameFlags::empty()));
        // It is nobody else's, whatever became of it: a rename does nothing where what has the name has become a name of the same file.
        let gone = outcome::unlink(from, AtFlags::empty());
        (linked.map_err(error), gone)
    }

    fn link_to(&self, at: At<'_>) -> Result<(), Errno> {
        seen(self.place.volume.link(self.file.fd(), at.folder, at.name), || at.is(self.file.identity))
    }
}

impl NewName<'_> {
    /// Another than `file` had the name `taken`, and has it still where the answer is an error. It is spelled as it was asked for, where that can be: in
    /// its old spelling it is found as well.
    fn replaced<L>(
        &self,
        answer: Result<(), Error>,
        file: Identity,
        taken: &[u8],
        (losing, locked): (Losing<'_>, L),
    ) -> Result<Spelled, Error> {
        if let Err(error) = answer {
            losing.failed(locked, self.to.at(taken));
            return Err(error);
        }
        losing.gone(locked);
        match self.spell(file, taken) {
            Ok(()) => Ok(Spelled::AsAsked),
            Err(_) if self.to.at(taken).is(file) => Ok(Spelled::AsBefore),
            Err(error) => Err(error),
        }
    }

    /// Spells a name of `file` in the directory as it was asked for.
    fn spell(&self, file: Identity, taken: &[u8]) -> Result<(), Error> {
        if taken == self.wanted.disk {
            return Ok(());
        }
        outcome::rename_to_free_name(file, self.to.at(taken), self.to.at(&self.wanted.disk)).map_err(moving)
    }
}

/// What is to be replaced is another file by now than the one that was judged, or none.
fn given_away(error: Error) -> Error {
    if error == Error::NotFound { Error::Exists } else { error }
}

/// A directory that would move below itself is EINVAL.
fn moving(errno: Errno) -> Error {
    match errno {
        Errno::INVAL => Error::Denied,
        other => error(other),
    }
}
