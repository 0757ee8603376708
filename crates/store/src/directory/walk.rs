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
use crate::directory::fence::ReachedBy;
use crate::directory::fence::Wait;
use crate::directory::file::{OpenFile, attempts, is_worth_another};
use crate::directory::folder::Reach;
use crate::directory::folder::{Folder, Reached};
use crate::directory::names::{Wanted, append_disk, has_stand_ins, is_reserved, to_shown};
use crate::directory::node::FileNode;
use crate::directory::security;
use crate::directory::stat::{born, file_type, identity, stat, stat_at};
use crate::directory::volume::Volume;
use crate::{Error, Identity, Kind, Name, NamedNode, Node, Resolved, SharePath, Use, effort};

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);
/// A directory that is only passed through.
const PASSED: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// How many names a path may have that a thread follows which must not wait: each takes the kernel some hundred nanoseconds.
const LEVELS_AT_ONCE_MAX: usize = 256;
/// The same where the names are looked for one by one, with some system calls each.
const NAMES_AT_ONCE_MAX: usize = 16;

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

impl Reached {
    /// Goes on to a directory that was opened below this one.
    pub(super) fn take(&mut self, opened: Opened) -> Result<(), Error> {
        if opened.way == ReachedBy::ThroughLinks {
            self.way = ReachedBy::ThroughLinks;
        }
        self.folder = opened.into_folder()?;
        Ok(())
    }
}

/// Follows a whole path.
pub(super) fn resolve(volume: &Arc<Volume>, path: &SharePath, usage: Use, wait: Wait) -> Result<Resolved, Error> {
    check_reserved(path)?;
    if wait != Wait::May && path.names().nth(LEVELS_AT_ONCE_MAX).is_some() {
        return Err(Error::WouldBlock);
    }
    match open(volume, &disk_path(path), usage, wait) {
        Ok(opened) => found(volume, opened, canonical(path), wait),
        Err(Errno::NOENT) => by_names(volume, path, usage, wait),
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
    volume.open(disk, PASSED, Wait::May)
}

/// A directory that names are changed in, and a name that clients may use.
pub(super) fn wanted<'a>(directory: &'a OpenFile, name: &Name) -> Result<(Folder<'a>, Wanted), Error> {
    if is_reserved(name.as_str()) {
        return Err(Error::Denied);
    }
    Ok((directory.folder()?, Wanted::new(name.as_str())))
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
        Ok((disk, opened)) => {
            let file = whole(file(volume, opened, disk.starts_with(b"."))?, Wait::May)?;
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

/// What has a name in an open directory that is memory.
pub(super) fn try_child(directory: &OpenFile, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
    if is_reserved(name.as_str()) {
        return Err(Error::Denied);
    }
    let volume = &directory.volume;
    let wanted = Wanted::new(name.as_str());
    let opened =
        first_in(usage, volume, |flags| volume.fence.open_in(directory.fd(), &wanted.disk, flags, Wait::OnRoot));
    match opened {
        // Under another case, perhaps, or behind a symbolic link.
        Err(Errno::NOENT | Errno::AGAIN | Errno::LOOP) => Err(Error::WouldBlock),
        Err(errno) => Err(opening(errno)),
        Ok(opened) => {
            let file = whole(file(volume, opened, wanted.disk.starts_with(b"."))?, Wait::OnRoot)?;
            Ok(Some((wanted.shown, FileNode::open(file))))
        }
    }
}

/// Opens a stored name in an open directory. A symbolic link is followed as far as the share goes.
fn open_in(volume: &Volume, folder: &Folder<'_>, disk: &[u8], usage: Use) -> Result<Opened, Errno> {
    if file_type(&stat_at(&folder.fd, disk)?) == FileType::Symlink {
        let path = path_in(volume, folder, disk).ok_or(Errno::LOOP)?;
        // One that leads nowhere has its name all the same.
        return open(volume, &path, usage, Wait::May)
            .map_err(|errno| if errno == Errno::NOENT { Errno::LOOP } else { errno });
    }
    first_in(usage, volume, |flags| volume.fence.open_in(folder.fd.as_fd(), disk, flags, Wait::May))
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
pub(super) fn named(volume: &Volume, folder: &Folder<'_>, disk: &[u8]) -> Result<Named, Error> {
    let own = stat_at(&folder.fd, disk).map_err(error)?;
    let kind = file_type(&own);
    let mut target = identity(&own);
    if kind == FileType::Symlink {
        let path = path_in(volume, folder, disk).ok_or(Error::Denied)?;
        let fd = volume.open(&path, OFlags::PATH, Wait::May).map_err(|_| Error::Denied)?;
        target = identity(&stat(fd).map_err(error)?);
    }
    Ok(Named { kind, own: identity(&own), identity: target, links: own.stx_nlink, born: born(&own) })
}

fn by_names(volume: &Arc<Volume>, path: &SharePath, usage: Use, wait: Wait) -> Result<Resolved, Error> {
    let (Some(above), Some(name)) = (path.parent(), path.name()) else {
        return Err(Error::Gone);
    };
    let wanted = Wanted::new(name);
    let folder = folder(volume, &above, wait)?;
    if !folder.exists {
        return Err(if above.is_root() { Error::Gone } else { Error::PathNotFound });
    }
    let stored = volume.cache.hold_for(folder.identity, wait)?.find(&folder, &wanted, wait)?;
    if let Some(disk) = stored {
        match open(volume, &folder.disk_path(&disk), usage, wait) {
            Ok(opened) => return found(volume, opened, folder.shown_path(&to_shown(&disk)), wait),
            Err(Errno::NOENT) if wait != Wait::May => return Err(Error::WouldBlock),
            Err(Errno::NOENT) if is_link(&folder, &disk) => return Err(Error::Denied),
            Err(Errno::NOENT) => volume.cache.hold(folder.identity).forget(folder.identity),
            Err(errno) => return Err(opening(errno)),
        }
    }
    let path = folder.shown_path(&wanted.shown);
    let dotted = above.name().is_some_and(|name| name.starts_with('.'));
    let behind_link = folder.way == ReachedBy::ThroughLinks;
    let mut parent = OpenFile::of_folder(volume, folder.folder, dotted).map_err(error)?;
    parent.behind_link = behind_link;
    Ok(Resolved::Missing { parent: FileNode::open(parent), path })
}

/// A symbolic link, then, that leads nowhere.
fn is_link(folder: &Folder<'_>, disk: &[u8]) -> bool {
    stat_at(&folder.fd, disk).is_ok_and(|stat| file_type(&stat) == FileType::Symlink)
}

fn found(volume: &Arc<Volume>, opened: Opened, path: SharePath, wait: Wait) -> Result<Resolved, Error> {
    let dotted = path.name().is_some_and(|name| name.starts_with('.'));
    let file = whole(file(volume, opened, dotted)?, wait)?;
    Ok(Resolved::Found { node: FileNode::open(file), path })
}

/// Takes what was opened.
fn file(volume: &Arc<Volume>, opened: Opened, dotted: bool) -> Result<OpenFile, Error> {
    let mut file = OpenFile::new(volume, opened.fd, opened.reach, dotted)?;
    file.behind_link = opened.way == ReachedBy::ThroughLinks;
    Ok(file)
}

/// The directory that an open directory lies in, wherever that is by now; `None` for the root.
pub(super) fn above(directory: &OpenFile, wait: Wait) -> Result<Option<Arc<dyn Node>>, Error> {
    let volume = &directory.volume;
    if directory.kind != Kind::Directory {
        return Err(Error::NotDirectory);
    }
    if directory.identity == volume.identity {
        return Ok(None);
    }
    effort::note(1);
    let open = |flags| Ok((volume.fence.open_above(directory.fd(), flags, wait)?, ReachedBy::Straight));
    let above = file(volume, open_folder_with(open).map_err(opening)?, false)?;
    // Of all directories the machine's root alone lies in itself; and one that was removed lies nowhere.
    if above.identity == directory.identity || stat(directory.fd()).map_err(error)?.stx_nlink == 0 {
        return Err(Error::Gone);
    }
    Ok(Some(FileNode::open(whole(above, wait)?)))
}

/// What was found, once it is whole. A file without a descriptor may be one that is just being made, and whoever had that would be judged
/// by the default one.
fn whole(file: OpenFile, wait: Wait) -> Result<OpenFile, Error> {
    let locks = file.volume.locks_of(file.identity);
    if locks.nothing_is_made() || security::is_there(&file)? {
        return Ok(file);
    }
    match wait {
        Wait::May => locks.wait_for_makers(),
        Wait::OnRoot => return Err(Error::WouldBlock),
    }
    Ok(file)
}

/// What was opened, for what, and how its path led there.
pub(super) struct Opened {
    pub(super) fd: OwnedFd,
    pub(super) reach: Reach,
    pub(super) way: ReachedBy,
}

impl Opened {
    /// The directory that was opened.
    pub(super) fn into_folder(self) -> Result<Folder<'static>, Error> {
        Folder::new((self.fd, self.reach)).map_err(error)
    }
}

pub(super) fn open(volume: &Volume, disk: &[u8], usage: Use, wait: Wait) -> Result<Opened, Errno> {
    first_of(usage, volume, |flags| volume.open_by(disk, flags, wait))
}

/// The same by a name that is no symbolic link.
fn first_in(usage: Use, volume: &Volume, open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<Opened, Errno> {
    first_of(usage, volume, |flags| open(flags).map(|fd| (fd, ReachedBy::Straight)))
}

/// Opens for a use, or for as much of it as there is.
fn first_of(
    usage: Use,
    volume: &Volume,
    open: impl Fn(OFlags) -> Result<(OwnedFd, ReachedBy), Errno>,
) -> Result<Opened, Errno> {
    let mut last = Errno::ACCESS;
    for (flags, reach) in attempts(usage, volume.read_only) {
        match volume.open_unmarked(*flags, &open) {
            Ok((fd, way)) => return Ok(Opened { fd, reach: *reach, way }),
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
        Ok(opened) => {
            let way = opened.way;
            Ok(Reached { folder: opened.into_folder()?, disk, path: canonical(path), way })
        }
        Err(Errno::NOENT) => folder_by_names(volume, path, wait),
        Err(errno) => Err(opening(errno)),
    }
}

/// Follows a path whose names are not all there as they are asked for. Each run of names that are is one open from the directory before it:
/// from the root each name would cost as many lookups as lie above it.
fn folder_by_names(volume: &Volume, path: &SharePath, wait: Wait) -> Result<Reached, Error> {
    if wait != Wait::May && path.names().nth(NAMES_AT_ONCE_MAX).is_some() {
        return Err(Error::WouldBlock);
    }
    let root = open_folder(volume, b"", wait).map_err(opening)?.into_folder()?;
    if !root.exists {
        return Err(Error::Gone);
    }
    let names: Vec<&str> = path.names().collect();
    let mut reached = Reached { folder: root, disk: Vec::new(), path: SharePath::root(), way: ReachedBy::Straight };
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
            Err(errno) => return Err(opening(errno)),
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
        other => opening(other),
    })?;
    reached.enter(&disk, &to_shown(&disk));
    reached.take(opened)?;
    Ok(())
}

/// Opens what lies below a directory: from there, which cannot leave, or, where a single name is a symbolic link, from the root. ELOOP for a
/// link among several names.
fn step(volume: &Volume, from: &Reached, disk: &[u8], wait: Wait) -> Result<Opened, Errno> {
    let open = |flags| Ok((volume.fence.open_in(from.fd.as_fd(), disk, flags, wait)?, ReachedBy::Straight));
    match open_folder_with(open) {
        Err(Errno::LOOP) if !disk.contains(&b'/') => open_folder(volume, &from.disk_path(disk), wait),
        answer => answer,
    }
}

/// Opens a directory by its path from the root.
fn open_folder(volume: &Volume, disk: &[u8], wait: Wait) -> Result<Opened, Errno> {
    open_folder_with(|flags| volume.open_by(disk, flags, wait))
}

/// Opens a directory to read it, or, where we may not, to pass through it.
fn open_folder_with(open: impl Fn(OFlags) -> Result<(OwnedFd, ReachedBy), Errno>) -> Result<Opened, Errno> {
    let opened = |((fd, way), reach)| Opened { fd, reach, way };
    match open(FOLDER) {
        Err(Errno::ACCESS) => open(FOLDER | OFlags::PATH).map(|found| opened((found, Reach::Path))),
        answer => answer.map(|found| opened((found, Reach::Read))),
    }
}

fn check_reserved(path: &SharePath) -> Result<(), Error> {
    if path.names().any(is_reserved) { Err(Error::Denied) } else { Ok(()) }
}

fn disk_path(path: &SharePath) -> Vec<u8> {
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
fn canonical(path: &SharePath) -> SharePath {
    if !has_stand_ins(path.as_str()) {
        return path.clone();
    }
    let mut shown = SharePath::root();
    path.names().for_each(|name| shown.push(&Wanted::new(name).shown));
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewNode;
    use crate::directory::calls::mkdirat;
    use crate::directory::create;

    /// A volume with directories in each other: `a` in `a` in `a`.
    fn chain(levels: usize) -> (tempfile::TempDir, Arc<Volume>) {
        let place = tempfile::tempdir().unwrap();
        let volume = Volume::new(place.path(), &Default::default(), None).unwrap();
        let mut at = openat(volume.fence.root(), c".", FOLDER, Mode::empty()).unwrap();
        for _ in 0..levels {
            mkdirat(&at, c"a", Mode::RWXU).unwrap();
            at = openat(&at, c"a", FOLDER, Mode::empty()).unwrap();
        }
        (place, Arc::new(volume))
    }

    /// What comes of a path, and how many names the kernel was asked for.
    fn look(volume: &Arc<Volume>, names: &[&str], wait: Wait) -> (Result<SharePath, Error>, usize) {
        let path = SharePath::parse(&names.join("\\")).unwrap();
        let (found, steps) = effort::of(|| resolve(volume, &path, Use::Metadata, wait));
        let shown = found.map(|found| match found {
            Resolved::Found { path, .. } | Resolved::Missing { path, .. } => path,
        });
        (shown, steps)
    }

    /// `count` times `a`, but for the one at `at`.
    fn names(count: usize, at: usize, other: &'static str) -> Vec<&'static str> {
        (0..count).map(|index| if index == at { other } else { "a" }).collect()
    }

    #[test]
    fn a_path_costs_as_many_lookups_as_it_has_names() {
        const LEVELS: usize = 1_000;
        let (_place, volume) = chain(LEVELS);
        let shown = SharePath::parse(&["a"; LEVELS].join("\\")).unwrap();
        for at in [0, 1, LEVELS / 3, LEVELS - 2, LEVELS - 1] {
            for (other, found) in [("NO", Err(Error::PathNotFound)), ("A", Ok(&shown))] {
                let (answer, looked) = look(&volume, &names(LEVELS, at, other), Wait::May);
                if at + 1 < LEVELS || other == "A" {
                    assert_eq!(answer.as_ref(), found.as_ref().copied(), "{other} at {at}");
                }
                assert!(looked <= 10 * LEVELS, "{looked} for {other} at {at}");
            }
        }
        let (answer, looked) = look(&volume, &["A"; LEVELS], Wait::May);
        assert_eq!(answer, Ok(shown));
        assert!(looked <= 10 * LEVELS, "{looked}");
    }

    #[test]
    fn who_must_not_wait_looks_for_few_names_whatever_is_asked_for() {
        let (_place, volume) = chain(2 * LEVELS_AT_ONCE_MAX);
        for count in (1..2 * LEVELS_AT_ONCE_MAX).step_by(29) {
            for (at, other) in [(count / 2, "NO"), (count / 2, "A"), (count - 1, "no"), (count, "")] {
                let names = names(count, at, other);
                let whole = look(&volume, &names, Wait::May).0;
                let (answer, looked) = look(&volume, &names, Wait::OnRoot);
                assert!(looked <= 4 * LEVELS_AT_ONCE_MAX, "{looked} of {count}");
                assert!(answer == whole || answer == Err(Error::WouldBlock), "{answer:?} {whole:?}");
                if count <= LEVELS_AT_ONCE_MAX && at == count {
                    assert_eq!((answer, looked), (whole, count), "one that is there is opened at once");
                }
            }
        }
    }

    #[test]
    fn who_must_not_wait_waits_for_nobody_who_holds_a_directory() {
        let (_place, volume) = chain(1);
        let folder = || open_folder(&volume, b"a", Wait::May).unwrap().into_folder().unwrap();
        let directory = OpenFile::of_folder(&volume, folder(), false).unwrap();
        let make = || {
            let new = NewNode { kind: Kind::File, attributes: 0, security: None };
            create::create(&directory, &Name::new("new").unwrap(), new, Wait::OnRoot).map(drop)
        };
        // Its names are known.
        let _ = volume.cache.hold(directory.identity).find(&folder(), &Wanted::new("x"), Wait::May);
        let held = volume.cache.hold(directory.identity);
        assert_eq!(look(&volume, &["a", "x"], Wait::OnRoot).0, Err(Error::WouldBlock));
        assert_eq!(make(), Err(Error::WouldBlock));
        drop(held);
    }
}
