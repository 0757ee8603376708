//! Renaming and linking (MS-FSA 2.1.5.15.12 and 2.1.5.15.7).
//!
//! A rename onto another name of the same file takes that name in whatever case was asked for, and needs no leave to
//! replace it. What has a name that is to be replaced keeps it until the new one is there in its place, and keeps it
//! where that fails: across a mount, with no room or no links left, or without links at all.

use std::sync::Arc;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, CWD, FileType, OFlags, RenameFlags, linkat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::directory::cache::{Did, Held};
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::folder::{Folder, stat_at};
use crate::directory::keep::Subject;
use crate::directory::names::{DRAFT, Wanted};
use crate::directory::volume::Volume;
use crate::directory::walk::{self, Named};
use crate::directory::{remove, side, streams};
use crate::{Error, Identity, Replace, SharePath};

/// Gives `from` the name `to`.
pub(super) fn rename(
    volume: &Arc<Volume>,
    from: &SharePath,
    to: &SharePath,
    expected: Identity,
    replace: Replace,
) -> Result<(), Error> {
    volume.check_writable()?;
    let (from_folder, from_wanted) = walk::parent(volume, from)?;
    let (to_folder, wanted) = walk::parent(volume, to)?;
    check_same_volume(&from_folder, &to_folder)?;
    let mut held = volume.cache.hold_both(from_folder.identity, to_folder.identity);
    let (disk, named) = remove::stored(volume, &mut held, &from_folder, &from_wanted)?;
    if named.identity != expected {
        return Err(Error::NotFound);
    }
    let same_folder = from_folder.identity == to_folder.identity;
    let taken = held.find(&to_folder, &wanted, Wait::May)?.filter(|taken| !(same_folder && *taken == disk));
    let valid = held.is_valid(&from_folder)?;
    let moving = Moving { volume, from: &from_folder, disk: &disk, named: &named, to: &to_folder, wanted: &wanted };
    let moved = match &taken {
        Some(_) | None if moving.is_into_itself() => return Err(Error::Denied),
        None => moving.to_free_name(),
        Some(taken) => moving.over(taken, replace),
    };
    if moved.is_err() || !valid {
        held.forget(from_folder.identity);
        held.forget(to_folder.identity);
        return moved;
    }
    held.note(&from_folder, &Did::Removed(&disk));
    note_made(&mut held, &to_folder, taken.as_deref(), &wanted);
    Ok(())
}

/// Gives the file `from` a second name `to`.
pub(super) fn link(
    volume: &Arc<Volume>,
    from: &SharePath,
    to: &SharePath,
    expected: Identity,
    replace: Replace,
) -> Result<(), Error> {
    volume.check_writable()?;
    let (from_folder, from_wanted) = walk::parent(volume, from)?;
    let (to_folder, wanted) = walk::parent(volume, to)?;
    check_same_volume(&from_folder, &to_folder)?;
    let mut held = volume.cache.hold_both(from_folder.identity, to_folder.identity);
    let (disk, named) = remove::stored(volume, &mut held, &from_folder, &from_wanted)?;
    if named.identity != expected {
        return Err(Error::NotFound);
    }
    if named.kind == FileType::Directory {
        return Err(Error::IsDirectory);
    }
    let taken = held.find(&to_folder, &wanted, Wait::May)?;
    let linking = Moving { volume, from: &from_folder, disk: &disk, named: &named, to: &to_folder, wanted: &wanted };
    let linked = match &taken {
        None => linking.link_to(to_folder.fd.as_fd(), &wanted.disk).map_err(error),
        Some(taken) => linking.link_over(taken, replace),
    };
    match linked {
        Ok(()) => note_made(&mut held, &to_folder, taken.as_deref(), &wanted),
        Err(_) => held.forget(to_folder.identity),
    }
    linked
}

/// Names do not move between file systems. Said before both directories are held: one that hangs keeps nobody out of the other.
fn check_same_volume(from: &Folder, to: &Folder) -> Result<(), Error> {
    if from.identity.volume == to.identity.volume { Ok(()) } else { Err(Error::CrossVolume) }
}

/// Links what a symbolic link leads to.
fn link_target(volume: &Volume, path: &[u8], to: BorrowedFd<'_>, to_disk: &[u8]) -> Result<(), Errno> {
    let target = volume.fence.open(path, OFlags::PATH, Wait::May)?;
    let path = format!("/proc/self/fd/{}", target.as_raw_fd());
    linkat(CWD, path, to, to_disk, AtFlags::SYMLINK_FOLLOW)
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
        (Replace::Yes, FileType::RegularFile | FileType::Symlink) => Ok(()),
        (Replace::Yes, _) => Err(Error::Denied),
    }
}

/// A rename under way.
struct Moving<'a> {
    volume: &'a Arc<Volume>,
    from: &'a Folder,
    disk: &'a [u8],
    named: &'a Named,
    to: &'a Folder,
    wanted: &'a Wanted,
}

impl Moving<'_> {
    /// To a name that nothing has, but perhaps another program by now.
    fn to_free_name(&self) -> Result<(), Error> {
        let same_folder = self.from.identity == self.to.identity;
        if same_folder && self.disk == self.wanted.disk {
            return Ok(());
        }
        rename_to_free_name(&self.from.fd, self.disk, &self.to.fd, &self.wanted.disk).map_err(moving)
    }

    /// Over a name that is taken, in whatever case. Whatever fails, what has the name is not lost.
    fn over(&self, taken: &[u8], replace: Replace) -> Result<(), Error> {
        let target = walk::named(self.volume, self.to, taken)?;
        let is_own = target.own == self.named.own;
        check_replaceable(&target, if is_own { Replace::Yes } else { replace })?;
        if is_own && self.named.links > 1 {
            // Both are names of one file: the one that is left has to be spelled as asked.
            self.spell(taken)?;
            return unlinkat(&self.from.fd, self.disk, AtFlags::empty()).map_err(error);
        }
        let subject = remove::subject(self.volume, self.to, taken, &target);
        let last = remove::is_last(&target);
        let sides = if last { streams::sides(&subject).unwrap_or_default() } else { Vec::new() };
        if self.named.kind == FileType::Directory {
            self.directory_over_file(taken)?;
        } else {
            renameat(&self.from.fd, self.disk, &self.to.fd, taken).map_err(moving)?;
        }
        self.replaced(taken, last.then_some((&subject, sides.as_slice(), &target)));
        Ok(())
    }

    /// A directory takes no file's place in one step: they change places, and then the file goes.
    fn directory_over_file(&self, taken: &[u8]) -> Result<(), Error> {
        let exchange = || renameat_with(&self.from.fd, self.disk, &self.to.fd, taken, RenameFlags::EXCHANGE);
        match exchange() {
            Err(Errno::INVAL) if !self.is_into_itself() => return self.directory_over_file_aside(taken),
            answer => answer.map_err(moving)?,
        }
        unlinkat(&self.from.fd, self.disk, AtFlags::empty()).map_err(|errno| {
            let _ = exchange();
            error(errno)
        })
    }

    /// The same where the file system cannot exchange names: the file stands aside meanwhile.
    fn directory_over_file_aside(&self, taken: &[u8]) -> Result<(), Error> {
        let draft = draft_name()?;
        renameat(&self.to.fd, taken, &self.to.fd, &draft).map_err(error)?;
        let moved = rename_to_free_name(&self.from.fd, self.disk, &self.to.fd, taken);
        if moved.is_err() {
            rename_to_free_name(&self.to.fd, draft.as_bytes(), &self.to.fd, taken).map_err(error)?;
        }
        moved.map_err(moving)?;
        unlinkat(&self.to.fd, &draft, AtFlags::empty()).map_err(error)
    }

    /// Gives the file a further name over one that is taken. Whatever fails, what has the name is not lost.
    fn link_over(&self, taken: &[u8], replace: Replace) -> Result<(), Error> {
        let target = walk::named(self.volume, self.to, taken)?;
        check_replaceable(&target, replace)?;
        if target.own == self.named.own {
            return self.spell(taken);
        }
        let subject = remove::subject(self.volume, self.to, taken, &target);
        let last = remove::is_last(&target);
        let sides = if last { streams::sides(&subject).unwrap_or_default() } else { Vec::new() };
        let side = if self.to.identity.volume == self.volume.identity.volume {
            side::folder(self.volume, true).ok().flatten()
        } else {
            None
        };
        // Beside the share's files a link that a crash leaves behind is in nobody's way.
        let aside = side.as_ref().map(|side| self.link_through(side.as_fd(), taken));
        match aside {
            Some(Err(Error::CrossVolume)) | None => self.link_through(self.to.fd.as_fd(), taken)?,
            Some(answer) => answer?,
        }
        self.replaced(taken, last.then_some((&subject, sides.as_slice(), &target)));
        Ok(())
    }

    /// Links to a name in `folder` and renames that.
    fn link_through(&self, folder: BorrowedFd<'_>, taken: &[u8]) -> Result<(), Error> {
        let draft = draft_name()?;
        self.link_to(folder, draft.as_bytes()).map_err(error)?;
        renameat(folder, &draft, &self.to.fd, taken).map_err(|errno| {
            let _ = unlinkat(folder, &draft, AtFlags::empty());
            error(errno)
        })
    }

    fn link_to(&self, folder: BorrowedFd<'_>, name: &[u8]) -> Result<(), Errno> {
        if self.named.kind == FileType::Symlink {
            link_target(self.volume, &self.from.disk_path(self.disk), folder, name)
        } else {
            linkat(&self.from.fd, self.disk, folder, name, AtFlags::empty())
        }
    }

    /// Another file had the name `taken`, and perhaps `lost` its last one. It is spelled as it was asked for, where that can be: in
    /// its old spelling it is found as well.
    fn replaced(&self, taken: &[u8], lost: Option<(&Subject<'_>, &[side::Id], &Named)>) {
        if let Some((subject, sides, target)) = lost {
            remove::bury(self.volume, subject, sides, target);
        }
        let _ = self.spell(taken);
    }

    /// Spells a name in the new directory as it was asked for.
    fn spell(&self, taken: &[u8]) -> Result<(), Error> {
        if taken == self.wanted.disk {
            return Ok(());
        }
        rename_to_free_name(&self.to.fd, taken, &self.to.fd, &self.wanted.disk).map_err(moving)
    }

    fn is_into_itself(&self) -> bool {
        let own = self.from.disk_path(self.disk);
        self.to.disk.strip_prefix(own.as_slice()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    }
}

/// A name for a file that is on its way to another.
fn draft_name() -> Result<String, Error> {
    Ok(format!("{DRAFT}{}", side::name(side::new_id()?)))
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
