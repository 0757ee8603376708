//! Renaming and linking (MS-FSA 2.1.5.15.12 and 2.1.5.15.7).
//!
//! A rename onto another name of the same file takes that name in whatever case was asked for, and needs no leave to
//! replace it. A name that is replaced by a directory, or by a link, is gone for a moment before the new one is
//! there.

use std::sync::Arc;

use rustix::fd::AsRawFd;
use rustix::fs::{AtFlags, CWD, FileType, OFlags, RenameFlags, linkat, renameat, renameat_with};
use rustix::io::Errno;

use crate::directory::cache::{Did, Held};
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::folder::Folder;
use crate::directory::names::Wanted;
use crate::directory::volume::Volume;
use crate::directory::walk::{self, Named};
use crate::directory::{remove, streams};
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
    let mut held = volume.cache.hold_both(from_folder.identity, to_folder.identity);
    let (disk, named) = remove::stored(volume, &mut held, &from_folder, &from_wanted)?;
    if named.identity != expected {
        return Err(Error::NotFound);
    }
    if named.kind == FileType::Directory {
        return Err(Error::IsDirectory);
    }
    let taken = held.find(&to_folder, &wanted, Wait::May)?;
    let target = taken.as_ref().map(|taken| replaceable(volume, &to_folder, taken, replace)).transpose()?;
    if let (Some(taken), Some(target)) = (&taken, &target) {
        if target.own == named.own {
            let itself =
                Moving { volume, from: &to_folder, disk: taken, named: target, to: &to_folder, wanted: &wanted };
            itself.to_free_name()?;
            note_made(&mut held, &to_folder, Some(taken), &wanted);
            return Ok(());
        }
        remove::unlink(volume, &to_folder, taken, target)?;
    }
    let linked = if named.kind == FileType::Symlink {
        link_target(volume, &from_folder, &disk, &to_folder, &wanted.disk)
    } else {
        linkat(&from_folder.fd, &disk, &to_folder.fd, &wanted.disk, AtFlags::empty())
    };
    match linked {
        Ok(()) => note_made(&mut held, &to_folder, taken.as_deref(), &wanted),
        Err(_) => held.forget(to_folder.identity),
    }
    linked.map_err(error)
}

/// Links what a symbolic link leads to.
fn link_target(volume: &Volume, folder: &Folder, disk: &[u8], to: &Folder, to_disk: &[u8]) -> Result<(), Errno> {
    let target = volume.fence.open(&folder.disk_path(disk), OFlags::PATH, Wait::May)?;
    let path = format!("/proc/self/fd/{}", target.as_raw_fd());
    linkat(CWD, path, &to.fd, to_disk, AtFlags::SYMLINK_FOLLOW)
}

fn note_made(held: &mut Held<'_>, folder: &Folder, replaced: Option<&[u8]>, wanted: &Wanted) {
    if let Some(replaced) = replaced {
        held.note(folder, &Did::Removed(replaced));
    }
    held.note(folder, &Did::Made(wanted));
}

/// What a taken name leads to, where it may be replaced.
fn replaceable(volume: &Volume, folder: &Folder, taken: &[u8], replace: Replace) -> Result<Named, Error> {
    match replace {
        Replace::No => Err(Error::Exists),
        Replace::Yes => {
            let target = walk::named(volume, folder, taken)?;
            check_replaceable(&target, replace)?;
            Ok(target)
        }
    }
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
        let flags = RenameFlags::NOREPLACE;
        match renameat_with(&self.from.fd, self.disk, &self.to.fd, &self.wanted.disk, flags) {
            Err(Errno::INVAL) => self.replacing(&self.wanted.disk),
            answer => answer.map_err(moving),
        }
    }

    /// Over a name that is taken, in whatever case.
    fn over(&self, taken: &[u8], replace: Replace) -> Result<(), Error> {
        let target = walk::named(self.volume, self.to, taken)?;
        let is_own = target.own == self.named.own;
        check_replaceable(&target, if is_own { Replace::Yes } else { replace })?;
        if self.named.kind == FileType::Directory || is_own {
            remove::unlink(self.volume, self.to, taken, &target)?;
            return self.to_free_name();
        }
        let subject = remove::subject(self.volume, self.to, taken, &target);
        let last = remove::is_last(&target);
        let sides = if last { streams::sides(&subject).unwrap_or_default() } else { Vec::new() };
        self.replacing(taken)?;
        if last {
            remove::bury(self.volume, &subject, &sides, &target);
        }
        if taken != self.wanted.disk {
            let flags = RenameFlags::NOREPLACE;
            renameat_with(&self.to.fd, taken, &self.to.fd, &self.wanted.disk, flags).map_err(moving)?;
        }
        Ok(())
    }

    fn is_into_itself(&self) -> bool {
        let own = self.from.disk_path(self.disk);
        self.to.disk.strip_prefix(own.as_slice()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    }

    fn replacing(&self, name: &[u8]) -> Result<(), Error> {
        renameat(&self.from.fd, self.disk, &self.to.fd, name).map_err(moving)
    }
}

/// A directory that would move below itself is EINVAL.
fn moving(errno: Errno) -> Error {
    match errno {
        Errno::INVAL => Error::Denied,
        other => error(other),
    }
}
