//! From paths to open descriptors.
//!
//! A path in stored case is one `openat2` from the root. Where that finds nothing, the names are taken one by one: as
//! they are first, then in whatever case the directory has them. A symbolic link is opened as itself where it is the last
//! name, and leads nowhere where it is not.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Statx};
use rustix::io::Errno;

use crate::directory::calls::openat;
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::{error, opening};
use crate::directory::fence::Wait;
use crate::directory::folder::{Folder, Reach, Reached};
use crate::directory::names::{Wanted, append_disk, has_stand_ins, is_reserved, to_shown};
use crate::directory::stat::{born, file_type, identity, stat, stat_at};
use crate::directory::volume::Volume;
use crate::{Error, Identity, SharePath, Use, effort};

pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
/// A directory that is only passed through.
const PASSED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// A symbolic link itself.
const LINK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW);

/// How many names a path may have that a thread follows which must not wait, where they are looked for one by one, with some system calls each.
const NAMES_AT_ONCE_MAX: usize = 16;

/// A name in a directory that exists.
pub(super) struct Named {
    pub(super) kind: FileType,
    /// What the name leads to: for a symbolic link, the link.
    pub(super) own: Identity,
    pub(super) links: u32,
    pub(super) born: i128,
}

impl Reached {
    /// Goes on to a directory that was opened below this one.
    pub(super) fn take(&mut self, opened: Opened) -> Result<(), Error> {
        self.folder = opened.into_folder()?;
        Ok(())
    }
}

/// Which directories lie on the way to a directory: the root first, the directory itself last. Each is opened in the one above, so that
/// what that takes grows with the way and not with its square. Ends where one is missing.
pub(super) fn lineage(volume: &Volume, path: &SharePath) -> Vec<Identity> {
    let Ok(mut folder) = volume.fence.open(b"", PASSED, Wait::May) else { return Vec::new() };
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
    match pass(above, disk, start) {
        Err(Errno::NOENT) => {}
        answer => return answer.map_err(opening),
    }
    let opened = openat(above, c".", FOLDER | OFlags::CLOEXEC, Mode::empty()).map_err(opening)?;
    let folder = Folder::new((opened, Reach::Read)).map_err(error)?;
    let stored = volume.cache.hold(folder.identity).find(&folder, &Wanted::new(name), Wait::May)?;
    disk.truncate(start);
    disk.extend_from_slice(&stored.ok_or(Error::PathNotFound)?);
    pass(above, disk, start).map_err(opening)
}

/// Opens the directory that a stored path leads to by its last name, which begins at `start` and cannot leave.
fn pass(above: &OwnedFd, disk: &[u8], start: usize) -> Result<OwnedFd, Errno> {
    effort::note(1);
    openat(above, &disk[start..], PASSED | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Opens a stored name in an open directory, a symbolic link as itself.
pub(super) fn open_in(volume: &Volume, folder: &Folder<'_>, disk: &[u8], usage: Use) -> Result<Opened, Errno> {
    first_of(usage, volume, |flags| volume.fence.open_in(folder.fd.as_fd(), disk, flags, Wait::May))
}

/// Where a name in an open directory is now, as a path from the root.
pub(super) fn path_in(volume: &Volume, folder: &Folder<'_>, disk: &[u8]) -> Option<Vec<u8>> {
    let mut path = volume.path_of(folder.fd.as_fd())?;
    if !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(disk);
    Some(path)
}

/// What a stored name in a directory leads to.
pub(super) fn named(folder: &Folder<'_>, disk: &[u8]) -> Result<Named, Error> {
    stat_at(&folder.fd, disk).map(|own| named_by(&own)).map_err(error)
}

/// The same, and what the name itself leads to, opened to be asked and no more; `None` where it cannot be.
pub(super) fn named_and_opened(
    volume: &Volume,
    folder: &Folder<'_>,
    disk: &[u8],
) -> Result<(Named, Option<Descriptor>), Error> {
    match volume.open_name(&folder.fd, disk) {
        Ok(file) => {
            let own = stat(&file).map_err(error)?;
            Ok((named_by(&own), Some(file)))
        }
        Err(Errno::NOENT) => Err(Error::NotFound),
        Err(_) => Ok((named(folder, disk)?, None)),
    }
}

/// The same of a name that leads to `own`.
fn named_by(own: &Statx) -> Named {
    Named { kind: file_type(own), own: identity(own), links: own.stx_nlink, born: born(own) }
}

/// What was opened, and for what.
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    pub(super) reach: Reach,
}

impl Opened {
    /// The directory that was opened.
    pub(super) fn into_folder(self) -> Result<Folder<'static>, Error> {
        Folder::new((self.fd, self.reach)).map_err(error)
    }
}

/// Opens what a path from the root leads to, a symbolic link as itself; ELOOP where one is on the way.
pub(super) fn open(volume: &Volume, disk: &[u8], usage: Use, wait: Wait) -> Result<Opened, Errno> {
    first_of(usage, volume, |flags| volume.fence.open(disk, flags, wait))
}

/// Opens for a use, or for as much of it as there is.
pub(super) fn first_of(
    usage: Use,
    volume: &Volume,
    open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
) -> Result<Opened, Errno> {
    let mut last = Errno::ACCESS;
    for (flags, reach) in attempts(usage, volume.read_only) {
        match volume.open_unmarked(*flags, &open) {
            Ok(fd) => return Ok(Opened { fd, reach: *reach }),
            Err(Errno::LOOP) => return open(LINK).map(|fd| Opened { fd, reach: Reach::Path }),
            Err(errno) if is_worth_another(errno) => last = errno,
            Err(errno) => return Err(errno),
        }
    }
    Err(last)
}

/// The flags to try, in order, for a use, and what each leads to.
fn attempts(usage: Use, read_only: bool) -> &'static [(OFlags, Reach)] {
    const READ_WRITE: (OFlags, Reach) = (OFlags::RDWR, Reach::ReadWrite);
    const READ: (OFlags, Reach) = (OFlags::RDONLY, Reach::Read);
    const PATH: (OFlags, Reach) = (OFlags::PATH, Reach::Path);
    match usage {
        Use::Metadata => &[READ, PATH],
        Use::ReadWrite if !read_only => &[READ_WRITE, READ],
        Use::Read | Use::ReadWrite => &[READ],
    }
}

/// True where the next attempt may go better.
fn is_worth_another(errno: Errno) -> bool {
    matches!(errno, Errno::ISDIR | Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY)
}

/// Opens a directory by its path.
pub(super) fn folder(volume: &Volume, path: &SharePath, wait: Wait) -> Result<Reached, Error> {
    let disk = disk_path(path);
    match open_folder(volume, &disk, wait) {
        Ok(opened) => Ok(Reached { folder: opened.into_folder()?, disk, path: canonical(path) }),
        Err(Errno::NOENT) => folder_by_names(volume, path, wait),
        Err(errno) => Err(passing(errno)),
    }
}

/// Follows a path whose names are not all there as they are asked for. Each run of names that are is one open from the directory before it:
/// from the root each name would cost as many lookups as lie above it.
fn folder_by_names(volume: &Volume, path: &SharePath, wait: Wait) -> Result<Reached, Error> {
    if wait != Wait::May && path.names().nth(NAMES_AT_ONCE_MAX).is_some() {
        return Err(Error::WouldBlock);
    }
    let root = open_folder(volume, b"", wait).map_err(opening)?.into_folder()?;
    if !root.exists().map_err(error)? {
        return Err(Error::Gone);
    }
    let names: Vec<&str> = path.names().collect();
    let mut reached = Reached { folder: root, disk: Vec::new(), path: SharePath::root() };
    let (mut done, mut run_max) = (0, 1);
    while let Some(left) = names.get(done..).filter(|left| !left.is_empty()) {
        let run = left.get(..run_max).unwrap_or(left);
        match step(volume, &reached, &joined(run), wait) {
            Ok(opened) => {
                let wanted = run.iter().map(|name| Wanted::new(name));
                wanted.for_each(|wanted| reached.enter(&wanted.disk, &wanted.shown));
                reached.take(opened)?;
                (done, run_max) = (done + run.len(), run.len() * 2);
            }
            // One of them is not there, or is a symbolic link.
            Err(Errno::NOENT | Errno::LOOP) if run.len() > 1 => run_max = run.len() / 2,
            Err(Errno::NOENT) => {
                enter_by_name(volume, &mut reached, &Wanted::new(left[0]), wait)?;
                (done, run_max) = (done + 1, 1);
            }
            Err(errno) => return Err(passing(errno)),
        }
    }
    Ok(reached)
}

/// Goes on to a directory that is not there in the case that is asked for.
fn enter_by_name(volume: &Volume, reached: &mut Reached, wanted: &Wanted, wait: Wait) -> Result<(), Error> {
    let stored = volume.cache.hold_for(reached.identity, wait)?.find(reached, wanted, wait)?;
    let disk = stored.ok_or(Error::PathNotFound)?;
    let opened = step(volume, reached, &disk, wait).map_err(|errno| match errno {
        Errno::NOENT => Error::PathNotFound,
        other => passing(other),
    })?;
    reached.enter(&disk, &to_shown(&disk));
    reached.take(opened)?;
    Ok(())
}

/// Opens what lies below a directory. ELOOP where a symbolic link is among the names.
fn step(volume: &Volume, from: &Reached, disk: &[u8], wait: Wait) -> Result<Opened, Errno> {
    open_folder_with(|flags| volume.fence.open_in(from.fd.as_fd(), disk, flags, wait))
}

/// What it means that a directory on the way was not opened.
pub(super) fn passing(errno: Errno) -> Error {
    if errno == Errno::LOOP { Error::Link } else { opening(errno) }
}

/// Opens a directory by its path from the root.
pub(super) fn open_folder(volume: &Volume, disk: &[u8], wait: Wait) -> Result<Opened, Errno> {
    open_folder_with(|flags| volume.fence.open(disk, flags, wait))
}

/// Opens a directory to read it, or, where we may not, to pass through it.
pub(super) fn open_folder_with(open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<Opened, Errno> {
    let opened = |(fd, reach)| Opened { fd, reach };
    match open(FOLDER) {
        Err(Errno::ACCESS) => open(FOLDER | OFlags::PATH).map(|found| opened((found, Reach::Path))),
        answer => answer.map(|found| opened((found, Reach::Read))),
    }
}

pub(super) fn check_reserved(path: &SharePath) -> Result<(), Error> {
    if path.names().any(is_reserved) { Err(Error::Denied) } else { Ok(()) }
}

pub(super) fn disk_path(path: &SharePath) -> Vec<u8> {
    let mut disk = Vec::with_capacity(path.as_str().len());
    path.names().for_each(|name| append_name(&mut disk, name));
    disk
}

fn joined(names: &[&str]) -> Vec<u8> {
    let mut disk = Vec::new();
    names.iter().for_each(|name| append_name(&mut disk, name));
    disk
}

fn append_name(disk: &mut Vec<u8>, name: &str) {
    if !disk.is_empty() {
        disk.push(b'/');
    }
    append_disk(disk, name);
}

/// The path as its names are shown once stored.
pub(super) fn canonical(path: &SharePath) -> SharePath {
    if !has_stand_ins(path.as_str()) {
        return path.clone();
    }
    let mut shown = SharePath::root();
    path.names().for_each(|name| shown.push(&Wanted::new(name).shown));
    shown
}
