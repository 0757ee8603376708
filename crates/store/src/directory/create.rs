//! Making files and directories.

use std::sync::Arc;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Statx, Uid};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::directory::cache::Did;
use crate::directory::calls::{fchmod, fchown, mkdirat, openat, unlinkat};
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::file::OpenFile;
use crate::directory::folder::{Folder, Reach};
use crate::directory::last_name::bury;
use crate::directory::node::FileNode;
use crate::directory::stat::{file_type, identity, stat, stat_at};
use crate::directory::unfinished::{DIRECTORY_MODE, FILE_MODE, UNFINISHED_DIRECTORY, UNFINISHED_FILE, is_unfinished};
use crate::directory::volume::Volume;
use crate::directory::{UnixOwner, metadata, security, streams};
use crate::{Error, Kind, Name, NewNode, Node};

/// Makes a file or directory whose name is free in any case.
pub(super) fn create(directory: &OpenFile, name: &Name, new: NewNode<'_>, wait: Wait) -> Result<Arc<dyn Node>, Error> {
    let volume = &directory.volume;
    volume.check_writable()?;
    let (folder, wanted) = directory.wanted(name)?;
    let mut held = volume.cache.hold_for(folder.identity, wait)?;
    if held.find(&folder, &wanted, wait)?.is_some() {
        return Err(Error::Exists);
    }
    // Who finds it waits until this is dropped (`resolve::whole`): it has its descriptor then.
    let making = volume.make_in(folder.identity)?;
    let given = made_for(volume, new.owner)?;
    let made = make(volume, &folder, &wanted.disk, (new.kind, given));
    match &made {
        Ok(_) => held.note(&folder, &Did::Made(&wanted)),
        Err(_) => held.forget(folder.identity),
    }
    // What it is to have takes long on a disk far away: others make their names meanwhile.
    drop(held);
    let mut file = made.map_err(|error| match error {
        Error::NotFound if folder.identity == volume.identity => Error::Gone,
        Error::NotFound => Error::PathNotFound,
        other => other,
    })?;
    let filled = fill(&mut file, NewNode { owner: given, ..new });
    drop(making);
    filled.inspect_err(|_| take_away(&folder, &wanted.disk, &file, wait))?;
    Ok(FileNode::open(file))
}

/// To whom what is made is given, where it is to anybody: to whom it is made for, else to the owner of all in the share. What is made for somebody by
/// itself is refused where the share's own folder is not the process's alone: whoever has that could put something else in the place of what is
/// kept there.
pub(super) fn made_for(volume: &Volume, owner: Option<UnixOwner>) -> Result<Option<UnixOwner>, Error> {
    if owner.is_some() {
        let root = stat(volume.fence.root()).map_err(error)?;
        let others_write = root.stx_mode & 0o022 != 0;
        if root.stx_uid != geteuid().as_raw() || others_write {
            return Err(Error::Denied);
        }
    }
    Ok(owner.or(volume.owner))
}

/// Makes a name, and what has it, which is unfinished; `given` says to whom it will be given.
fn make(
    volume: &Arc<Volume>,
    folder: &Folder<'_>,
    disk: &[u8],
    (kind, given): (Kind, Option<UnixOwner>),
) -> Result<OpenFile, Error> {
    let common = OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let failed = |errno| {
        take_back(folder, disk, errno);
        making(errno)
    };
    let (fd, reach) = match kind {
        Kind::Stream => return Err(Error::Invalid),
        Kind::File => {
            let flags = common | OFlags::RDWR | OFlags::CREATE | OFlags::EXCL;
            (openat(&folder.fd, disk, flags, UNFINISHED_FILE), Reach::ReadWrite)
        }
        Kind::Directory => {
            mkdirat(&folder.fd, disk, UNFINISHED_DIRECTORY).map_err(failed)?;
            let flags = common | OFlags::RDONLY | OFlags::DIRECTORY;
            (openat(&folder.fd, disk, flags, Mode::empty()), Reach::Read)
        }
    };
    let fd = fd.map_err(|errno| {
        if kind == Kind::Directory {
            let _ = unlinkat(&folder.fd, disk, removal(kind == Kind::Directory));
        }
        failed(errno)
    })?;
    if kind == Kind::File {
        volume.unmark(fd.as_fd());
        if let Some(nameless) = volume.nameless() {
            nameless.note_made(fd.as_fd());
        }
    }
    let made =
        OpenFile::new(volume, fd, reach, disk.starts_with(b".")).inspect_err(|_| unlink(volume, folder, disk, kind))?;
    if kind == Kind::Directory && given.is_some() {
        check_made_here(&made)?;
    }
    Ok(made)
}

/// Makes a file by a name that no client uses, to be renamed: nobody looks for it, and nobody waits until it is whole.
pub(super) fn make_aside(
    volume: &Arc<Volume>,
    folder: &Folder<'_>,
    disk: &[u8],
    new: NewNode<'_>,
) -> Result<OpenFile, Error> {
    let given = made_for(volume, new.owner)?;
    let mut file = make(volume, folder, disk, (new.kind, given))?;
    fill(&mut file, NewNode { owner: given, ..new }).inspect_err(|_| {
        let sides = streams::sides(&file.subject()).unwrap_or_default();
        unlink(volume, folder, disk, new.kind);
        bury(&file.subject(), &sides);
    })?;
    Ok(file)
}

/// Refuses a directory that is not the one which was just made: it was opened by its name, and who owns the directory above may have put another in
/// its place, which is not to be given away. Nobody else can make one that is the server's own and half made.
fn check_made_here(made: &OpenFile) -> Result<(), Error> {
    let found = made.opened.lock().as_deref().copied().map_or_else(|| made.stat(), Ok)?;
    if found.stx_uid == geteuid().as_raw() && is_unfinished(&found) { Ok(()) } else { Err(Error::Denied) }
}

fn removal(is_directory: bool) -> AtFlags {
    if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() }
}

fn unlink(volume: &Volume, folder: &Folder<'_>, disk: &[u8], kind: Kind) {
    let _counted = volume.about_to_go(&folder.fd, disk);
    let _ = unlinkat(&folder.fd, disk, removal(kind == Kind::Directory));
}

/// Takes away what was made and could not be filled.
fn take_away(folder: &Folder<'_>, disk: &[u8], file: &OpenFile, wait: Wait) {
    let volume = &file.volume;
    let sides = streams::sides(&file.subject()).unwrap_or_default();
    let held = match wait {
        Wait::May => Some(volume.cache.hold(folder.identity)),
        // Where another has it, who asks for the name may be told for some time that it is taken.
        Wait::OnRoot => volume.cache.try_hold(folder.identity),
    };
    // Something else may have been put in its place meanwhile, or data into it, by another program.
    let is_as_made =
        |found: Statx| identity(&found) == file.identity && (file.kind == Kind::Directory || found.stx_size == 0);
    if stat_at(&folder.fd, disk).is_ok_and(is_as_made) {
        unlink(volume, folder, disk, file.kind);
    }
    if let Some(mut held) = held {
        held.forget(folder.identity);
    }
    // Another program may have given it one more.
    if file.is_nameless() {
        bury(&file.subject(), &sides);
    }
}

/// Removes what was made by a call that says it failed.
fn take_back(folder: &Folder<'_>, disk: &[u8], errno: Errno) {
    if errno == Errno::EXIST {
        return;
    }
    let Ok(Some(found)) = folder.at(disk).look() else { return };
    let is_directory = file_type(&found) == FileType::Directory;
    if is_unfinished(&found) && (is_directory || (found.stx_size, found.stx_nlink) == (0, 1)) {
        let _ = unlinkat(&folder.fd, disk, removal(is_directory));
    }
}

/// Gives what was made all that it is to have from the beginning. The node knows that without asking.
fn fill(file: &mut OpenFile, new: NewNode<'_>) -> Result<(), Error> {
    let record = metadata::begin(file, new.attributes)?;
    // From when it has its descriptor others find it, and set what they like.
    let sets = file.subject().sets() + u64::from(new.security.is_some());
    if let Some(descriptor) = new.security {
        security::save_first(file, descriptor)?;
    }
    finish(file, new.owner)?;
    file.was_unfinished = false;
    // It has changed since it was opened.
    (*file.opened.get_mut(), *file.times_at_open.get_mut()) = (None, None);
    file.record.made(record, sets);
    // One that is missing is looked for: another program may have given it one.
    new.security.into_iter().for_each(|descriptor| security::made(file, descriptor, sets));
    Ok(())
}

/// Gives what was made its owner and its mode. A file system that keeps no modes of ours (FAT, exFAT, some of FUSE) refuses that: there nothing tells
/// what is half made, and what was made has the mode that everything has there.
fn finish(file: &OpenFile, owner: Option<UnixOwner>) -> Result<(), Error> {
    let mode = match file.kind {
        Kind::Directory => file.volume.directory_mode.unwrap_or(DIRECTORY_MODE),
        Kind::File | Kind::Stream => file.volume.file_mode.unwrap_or(FILE_MODE),
    };
    let inherited = match file.kind {
        // It has the set-group-id bit from the one that it lies in.
        Kind::Directory => {
            let opened = file.opened.lock().as_deref().copied();
            let made = opened.map_or_else(|| file.stat(), Ok)?;
            Mode::from_raw_mode(made.stx_mode.into()) & Mode::SGID
        }
        Kind::File | Kind::Stream => Mode::empty(),
    };
    if let Some(UnixOwner { uid, gid }) = owner {
        // Before the mode: whoever owns it may have it when it is whole.
        fchown(file.fd(), Uid::from_raw(uid), Gid::from_raw(gid)).map_err(error)?;
    }
    match fchmod(file.fd(), mode | inherited) {
        Err(errno) if keeps_no_modes(errno) && !security::is_unfinished(file)? => Ok(()),
        answer => answer.map_err(error),
    }
}

/// True for what a file system answers that cannot change a mode.
fn keeps_no_modes(errno: Errno) -> bool {
    matches!(errno, Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL)
}

/// Another program may have made the name in the meantime, as a link for example.
fn making(errno: Errno) -> Error {
    match errno {
        Errno::LOOP => Error::Exists,
        other => error(other),
    }
}
