//! From paths to open directories and files.
//!
//! A path in stored case is one `openat2` from the root. Where that finds nothing, the names are taken one by one: as
//! they are first, then in whatever case the directory has them.

use std::sync::Arc;

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::directory::calls::openat;
use crate::directory::errno::{error, opening};
use crate::directory::fence::Wait;
use crate::directory::file::{OpenFile, Reach, attempts, is_worth_another};
use crate::directory::folder::{Folder, Reached, file_type, identity, stat, stat_at};
use crate::directory::names::{Wanted, append_disk, has_stand_ins, is_reserved, to_shown};
use crate::directory::node::FileNode;
use crate::directory::security;
use crate::directory::volume::Volume;
use crate::{Error, Identity, Name, NamedNode, Resolved, SharePath, Use, Waits, effort};

/// Who does not wait takes no more names of a path one by one: each is followed from the root.
const NAMES_AT_ONCE_MAX: usize = 64;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
/// A directory that is only passed through.
const PASSED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// A name in a directory that exists.
pub(super) struct Named {
    pub(super) kind: FileType,
    /// What the name itself leads to: for a symbolic link, the link.
    pub(super) own: Identity,
    /// What clients take it for: for a symbolic link, what it leads to.
    pub(super) identity: Identity,
    pub(super) links: u32,
    pub(super) born: i128,
}

/// Follows a whole path.
pub(super) fn resolve(volume: &Arc<Volume>, path: &SharePath, usage: Use, wait: Wait) -> Result<Resolved, Error> {
    effort::note(path.names().count());
    check_reserved(path)?;
    match open(volume, &disk_path(path), usage, wait) {
        Ok((fd, reach)) => found(volume, (fd, reach), canonical(path), wait),
        Err(Errno::NOENT) => by_names(volume, path, usage, wait),
        Err(Errno::AGAIN) if wait == Wait::Never => by_names(volume, path, usage, wait),
        Err(errno) => Err(opening(errno)),
    }
}

/// Which directories lie on the way to a directory: the root first, the directory itself last. Each is opened in the one above, so that
/// what that takes grows with the way and not with its square. Ends where one is missing.
pub(super) fn lineage(volume: &Volume, path: &SharePath) -> Vec<Identity> {
    let Ok(mut folder) = volume.open(b"", PASSED, Wait::May) else { return Vec::new() };
    let mut disk = Vec::with_capacity(path.as_str().len());
    let mut found: Vec<_> = stat(&folder).iter().map(identity).collect();
    for name in path.names().take_while(|name| !is_reserved(name)) {
        let Ok(next) = enter(volume, &folder, &mut disk, name) else { break };
        let Ok(stat) = stat(&next) else { break };
        found.push(identity(&stat));
        folder = next;
    }
    found
}

/// Opens a directory in the one that is open, which the stored path `disk` leads to, and adds its name to that.
fn enter(volume: &Volume, above: &OwnedFd, disk: &mut Vec<u8>, name: &str) -> Result<OwnedFd, Error> {
    let above_bytes = disk.len();
    if above_bytes > 0 {
        disk.push(b'/');
    }
    let start = disk.len();
    append_disk(disk, name);
    match pass(volume, above, disk, start) {
        Err(Errno::NOENT) => {}
        answer => return answer.map_err(opening),
    }
    let opened = openat(above, c".", FOLDER | OFlags::CLOEXEC, Mode::empty()).map_err(opening)?;
    let folder = Folder::new((opened, Reach::Read)).map_err(error)?;
    let stored = volume.cache.hold(folder.identity).find(&folder, &Wanted::new(name), Wait::May)?;
    disk.truncate(start);
    disk.extend_from_slice(&stored.ok_or(Error::PathNotFound)?);
    pass(volume, above, disk, start).map_err(opening)
}

/// Opens the directory that a stored path leads to by its last name, which begins at `start` and cannot leave; or, where that is a symbolic
/// link, from the root. Of those the kernel follows forty in a path at most.
fn pass(volume: &Volume, above: &OwnedFd, disk: &[u8], start: usize) -> Result<OwnedFd, Errno> {
    effort::note(1);
    match openat(above, &disk[start..], PASSED | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {}
        answer => return answer,
    }
    effort::note(disk.split(|byte| *byte == b'/').count());
    volume.open(disk, PASSED, Wait::May)
}

/// A directory that names are changed in, and a name that clients may use.
pub(super) fn wanted(directory: &OpenFile, name: &Name) -> Result<(Folder, Wanted), Error> {
    if is_reserved(name.as_str()) {
        return Err(Error::Denied);
    }
    Ok((Folder::of(directory)?, Wanted::new(name.as_str())))
}

/// What has a name in an open directory, whatever the case.
pub(super) fn child(directory: &OpenFile, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
    let (folder, wanted) = wanted(directory, name)?;
    let volume = &directory.volume;
    let found = match open_in(volume, &folder, &wanted.disk, usage) {
        Err(Errno::NOENT) => match volume.cache.hold(folder.identity).find(&folder, &wanted, Wait::May)? {
            Some(disk) => open_in(volume, &folder, &disk, usage).map(|opened| (disk, opened)),
            None => return Ok(None),
        },
        answer => answer.map(|opened| (wanted.disk, opened)),
    };
    match found {
        Ok((disk, (fd, reach))) => {
            let file = whole(OpenFile::new(volume, fd, reach, disk.starts_with(b"."))?, Wait::May)?;
            Ok(Some((to_shown(&disk), FileNode::open(file))))
        }
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(opening(errno)),
    }
}

/// True where a name in an open directory, whatever the case, is `file`: for a symbolic link what counts is the link.
pub(super) fn has(directory: &OpenFile, name: &Name, file: Identity) -> Result<bool, Error> {
    let (folder, wanted) = wanted(directory, name)?;
    let found = match stat_at(&folder.fd, &wanted.disk) {
        Err(Errno::NOENT) => match directory.volume.cache.hold(folder.identity).find(&folder, &wanted, Wait::May)? {
            Some(disk) => stat_at(&folder.fd, &disk),
            None => return Ok(false),
        },
        answer => answer,
    };
    match found {
        Ok(found) => Ok(identity(&found) == file),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(error(errno)),
    }
}

/// What has a name in an open directory, where that is in memory.
pub(super) fn try_child(directory: &OpenFile, name: &Name, usage: Use, wait: Wait) -> Result<Option<NamedNode>, Error> {
    if is_reserved(name.as_str()) {
        return Err(Error::Denied);
    }
    let volume = &directory.volume;
    let wanted = Wanted::new(name.as_str());
    let opened =
        first_of(usage, volume.read_only, |flags| volume.fence.open_in(directory.fd(), &wanted.disk, flags, wait));
    match opened {
        // Under another case, perhaps, or behind a symbolic link.
        Err(Errno::NOENT | Errno::AGAIN | Errno::LOOP) => Err(Error::WouldBlock),
        Err(errno) => Err(opening(errno)),
        Ok((fd, reach)) => {
            let file = whole(OpenFile::new(volume, fd, reach, wanted.disk.starts_with(b"."))?, wait)?;
            Ok(Some((wanted.shown, FileNode::open(file))))
        }
    }
}

/// Opens a stored name in an open directory. A symbolic link is followed as far as the share goes.
fn open_in(volume: &Volume, folder: &Folder, disk: &[u8], usage: Use) -> Result<(OwnedFd, Reach), Errno> {
    if file_type(&stat_at(&folder.fd, disk)?) == FileType::Symlink {
        let path = path_in(volume, folder, disk).ok_or(Errno::LOOP)?;
        // One that leads nowhere has its name all the same.
        return open(volume, &path, usage, Wait::May)
            .map_err(|errno| if errno == Errno::NOENT { Errno::LOOP } else { errno });
    }
    first_of(usage, volume.read_only, |flags| volume.fence.open_in(folder.fd.as_fd(), disk, flags, Wait::May))
}

/// Where a name in an open directory is now, as a path from the root.
fn path_in(volume: &Volume, folder: &Folder, disk: &[u8]) -> Option<Vec<u8>> {
    let mut path = volume.path_of(folder.fd.as_fd())?;
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(disk);
    Some(path)
}

/// What a stored name in a directory leads to.
pub(super) fn named(volume: &Volume, folder: &Folder, disk: &[u8]) -> Result<Named, Error> {
    let own = stat_at(&folder.fd, disk).map_err(error)?;
    let kind = file_type(&own);
    let mut target = identity(&own);
    if kind == FileType::Symlink {
        let path = path_in(volume, folder, disk).ok_or(Error::Denied)?;
        let fd = volume.open(&path, OFlags::PATH, Wait::May).map_err(|_| Error::Denied)?;
        target = identity(&stat(fd).map_err(error)?);
    }
    Ok(Named { kind, own: identity(&own), identity: target, links: own.stx_nlink, born: super::file::born(&own) })
}

fn by_names(volume: &Arc<Volume>, path: &SharePath, usage: Use, wait: Wait) -> Result<Resolved, Error> {
    let (Some(above), Some(name)) = (path.parent(), path.name()) else {
        return Err(if wait == Wait::Never { Error::WouldBlock } else { Error::Gone });
    };
    let wanted = Wanted::new(name);
    let folder = folder(volume, &above, wait)?;
    if !folder.exists {
        return Err(if above.is_root() { Error::Gone } else { Error::PathNotFound });
    }
    let stored = {
        let held = match wait {
            Wait::May => Some(volume.cache.hold(folder.identity)),
            Wait::OnRoot | Wait::Never => volume.cache.try_hold(folder.identity),
        };
        held.ok_or(Error::WouldBlock)?.find(&folder, &wanted, wait)?
    };
    if let Some(disk) = stored {
        match open(volume, &folder.disk_path(&disk), usage, wait) {
            Ok((fd, reach)) => {
                return found(volume, (fd, reach), folder.shown_path(&to_shown(&disk)), wait);
            }
            Err(Errno::NOENT) if wait == Wait::Never => return Err(Error::WouldBlock),
            Err(Errno::NOENT) if is_link(&folder, &disk) => return Err(Error::Denied),
            Err(Errno::NOENT) => volume.cache.hold(folder.identity).forget(folder.identity),
            Err(errno) => return Err(opening(errno)),
        }
    }
    let path = folder.shown_path(&wanted.shown);
    let dotted = above.name().is_some_and(|name| name.starts_with('.'));
    Ok(Resolved::Missing { parent: FileNode::open(OpenFile::of_folder(volume, folder.folder, dotted)), path })
}

/// A symbolic link, then, that leads nowhere.
fn is_link(folder: &Folder, disk: &[u8]) -> bool {
    stat_at(&folder.fd, disk).is_ok_and(|stat| file_type(&stat) == FileType::Symlink)
}

fn found(volume: &Arc<Volume>, opened: (OwnedFd, Reach), path: SharePath, wait: Wait) -> Result<Resolved, Error> {
    let dotted = path.name().is_some_and(|name| name.starts_with('.'));
    let file = whole(OpenFile::new(volume, opened.0, opened.1, dotted)?, wait)?;
    Ok(Resolved::Found { node: FileNode::open(file), path })
}

/// What was found, once it is whole. A file without a descriptor may be one that is just being made, and whoever had that would be judged
/// by the default one.
fn whole(file: OpenFile, wait: Wait) -> Result<OpenFile, Error> {
    let locks = file.volume.locks_of(file.identity);
    if locks.nothing_is_made() || security::is_there(&file) {
        return Ok(file);
    }
    match wait {
        Wait::May => locks.wait_for_makers(),
        // In memory nobody takes long.
        Wait::OnRoot | Wait::Never if file.waits == Waits::Never => locks.wait_for_makers(),
        Wait::OnRoot | Wait::Never => return Err(Error::WouldBlock),
    }
    Ok(file)
}

pub(super) fn open(volume: &Volume, disk: &[u8], usage: Use, wait: Wait) -> Result<(OwnedFd, Reach), Errno> {
    first_of(usage, volume.read_only, |flags| volume.open(disk, flags, wait))
}

/// Opens for a use, or for as much of it as there is.
fn first_of(
    usage: Use,
    read_only: bool,
    open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
) -> Result<(OwnedFd, Reach), Errno> {
    let mut last = Errno::ACCESS;
    for (flags, reach) in attempts(usage, read_only) {
        match open(*flags) {
            Ok(fd) => return Ok((fd, *reach)),
            Err(errno) if is_worth_another(errno) => last = errno,
            Err(errno) => return Err(errno),
        }
    }
    Err(last)
}

/// Opens a directory by its path.
pub(super) fn folder(volume: &Volume, path: &SharePath, wait: Wait) -> Result<Reached, Error> {
    let disk = disk_path(path);
    match open_folder(volume, &disk, wait) {
        Ok(opened) => Ok(Reached { folder: Folder::new(opened).map_err(error)?, disk, path: canonical(path) }),
        Err(Errno::NOENT) => folder_by_names(volume, path, wait),
        Err(errno) => Err(opening(errno)),
    }
}

fn folder_by_names(volume: &Volume, path: &SharePath, wait: Wait) -> Result<Reached, Error> {
    if wait != Wait::May && path.names().count() > NAMES_AT_ONCE_MAX {
        return Err(Error::WouldBlock);
    }
    let root = Folder::new(open_folder(volume, b"", wait).map_err(opening)?).map_err(error)?;
    let mut folder = Reached { folder: root, disk: Vec::new(), path: SharePath::root() };
    if !folder.exists {
        return Err(Error::Gone);
    }
    for name in path.names() {
        let wanted = Wanted::new(name);
        folder = match step(volume, &folder, &wanted.disk, wait) {
            Ok(opened) => below(&folder, opened, &wanted.disk, &wanted.shown)?,
            Err(Errno::NOENT) => {
                let held = match wait {
                    Wait::May => Some(volume.cache.hold(folder.identity)),
                    Wait::OnRoot | Wait::Never => volume.cache.try_hold(folder.identity),
                };
                let stored = held.ok_or(Error::WouldBlock)?.find(&folder, &wanted, wait)?;
                let disk = stored.ok_or(Error::PathNotFound)?;
                let opened = step(volume, &folder, &disk, wait).map_err(|errno| match errno {
                    Errno::NOENT => Error::PathNotFound,
                    other => opening(other),
                })?;
                below(&folder, opened, &disk, &to_shown(&disk))?
            }
            Err(errno) => return Err(opening(errno)),
        };
    }
    Ok(folder)
}

/// Opens a directory in a directory: by its name alone, which cannot leave, or, where that is a symbolic link, from
/// the root.
fn step(volume: &Volume, folder: &Reached, disk: &[u8], wait: Wait) -> Result<(OwnedFd, Reach), Errno> {
    if wait == Wait::May {
        match openat(&folder.fd, disk, FOLDER | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {}
            answer => return answer.map(|fd| (fd, Reach::Read)),
        }
    }
    open_folder(volume, &folder.disk_path(disk), wait)
}

/// Opens a directory to read it, or, where we may not, to pass through it.
fn open_folder(volume: &Volume, disk: &[u8], wait: Wait) -> Result<(OwnedFd, Reach), Errno> {
    match volume.open(disk, FOLDER, wait) {
        Err(Errno::ACCESS) => volume.open(disk, FOLDER | OFlags::PATH, wait).map(|fd| (fd, Reach::Path)),
        answer => answer.map(|fd| (fd, Reach::Read)),
    }
}

fn below(folder: &Reached, opened: (OwnedFd, Reach), disk: &[u8], shown: &str) -> Result<Reached, Error> {
    let (disk, path) = (folder.disk_path(disk), folder.shown_path(shown));
    Ok(Reached { folder: Folder::new(opened).map_err(error)?, disk, path })
}

fn check_reserved(path: &SharePath) -> Result<(), Error> {
    if path.names().any(is_reserved) { Err(Error::Denied) } else { Ok(()) }
}

fn disk_path(path: &SharePath) -> Vec<u8> {
    let mut disk = Vec::with_capacity(path.as_str().len());
    for name in path.names() {
        if !disk.is_empty() {
            disk.push(b'/');
        }
        append_disk(&mut disk, name);
    }
    disk
}

/// The path as its names are shown once stored.
fn canonical(path: &SharePath) -> SharePath {
    if !has_stand_ins(path.as_str()) {
        return path.clone();
    }
    let mut shown = SharePath::root();
    path.names().for_each(|name| shown.push(&Wanted::new(name).shown));
    shown
}
