//! From names to nodes.

use std::sync::Arc;

use rustix::io::Errno;

use crate::directory::errno::{error, opening};
use crate::directory::fence::Wait;
use crate::directory::file::OpenFile;
use crate::directory::names::{Wanted, is_reserved, to_shown};
use crate::directory::node::FileNode;
use crate::directory::security;
use crate::directory::stat::{identity, stat, stat_at};
use crate::directory::unfinished::is_marked;
use crate::directory::volume::Volume;
use crate::directory::walk::{
    Opened, canonical, check_reserved, disk_path, first_of, folder, open, open_folder_with, open_in, passing,
};
use crate::{Error, Identity, Kind, Name, NamedNode, Node, Resolved, SharePath, Use, Waits, effort};

/// How many names a path may have that a thread follows which must not wait: each takes the kernel some hundred nanoseconds.
const LEVELS_AT_ONCE_MAX: usize = 256;

/// Follows a whole path.
pub(super) fn resolve(volume: &Arc<Volume>, path: &SharePath, usage: Use, wait: Wait) -> Result<Resolved, Error> {
    check_reserved(path)?;
    if wait != Wait::May && path.names().nth(LEVELS_AT_ONCE_MAX).is_some() {
        return Err(Error::WouldBlock);
    }
    match open(volume, &disk_path(path), usage, wait) {
        Ok(opened) => found(volume, opened, canonical(path), wait),
        Err(Errno::NOENT) => by_names(volume, path, usage, wait),
        Err(errno) => Err(passing(errno)),
    }
}

fn by_names(volume: &Arc<Volume>, path: &SharePath, usage: Use, wait: Wait) -> Result<Resolved, Error> {
    let (Some(above), Some(name)) = (path.parent(), path.name()) else {
        return Err(Error::Gone);
    };
    let wanted = Wanted::new(name);
    let folder = folder(volume, &above, wait)?;
    if !folder.exists().map_err(error)? {
        return Err(if above.is_root() { Error::Gone } else { Error::PathNotFound });
    }
    let stored = volume.cache.hold_for(folder.identity, wait)?.find(&folder, &wanted, wait)?;
    if let Some(disk) = stored {
        match open(volume, &folder.disk_path(&disk), usage, wait) {
            Ok(opened) => return found(volume, opened, folder.shown_path(&to_shown(&disk)), wait),
            Err(Errno::NOENT) if wait != Wait::May => return Err(Error::WouldBlock),
            Err(Errno::NOENT) => volume.cache.hold(folder.identity).forget(folder.identity),
            Err(errno) => return Err(passing(errno)),
        }
    }
    let path = folder.shown_path(&wanted.shown);
    let dotted = above.name().is_some_and(|name| name.starts_with('.'));
    let parent = OpenFile::of_folder(volume, folder.folder, dotted).map_err(error)?;
    Ok(Resolved::Missing { parent: FileNode::open(parent), path })
}

fn found(volume: &Arc<Volume>, opened: Opened, path: SharePath, wait: Wait) -> Result<Resolved, Error> {
    let dotted = path.name().is_some_and(|name| name.starts_with('.'));
    let file = whole(file(volume, opened, dotted)?, wait)?;
    Ok(Resolved::Found { node: FileNode::open(file), path })
}

/// Takes what was opened.
fn file(volume: &Arc<Volume>, opened: Opened, dotted: bool) -> Result<OpenFile, Error> {
    OpenFile::new(volume, opened.fd, opened.reach, dotted)
}

/// What was found, once it is whole. A file without a descriptor may be one that is just being made, and whoever had that would be judged
/// by the default one.
fn whole(file: OpenFile, wait: Wait) -> Result<OpenFile, Error> {
    let locks = file.volume.locks_of(file.identity);
    if locks.nothing_is_made() || !may_be_made(&file) || security::is_there(&file)? {
        return Ok(file);
    }
    match wait {
        Wait::May => locks.wait_for_makers(),
        Wait::OnRoot => return Err(Error::WouldBlock),
    }
    Ok(file)
}

/// False for what has been opened and is no file that is being made: file systems of this machine keep the mark of those.
fn may_be_made(file: &OpenFile) -> bool {
    file.waits == Waits::Always || file.opened.lock().as_deref().is_none_or(is_marked)
}

/// What has a name in an open directory, whatever the case.
pub(super) fn child(directory: &OpenFile, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
    let (folder, wanted) = directory.wanted(name)?;
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

/// True where a name in an open directory, whatever the case, is `file`.
pub(super) fn has(directory: &OpenFile, name: &Name, file: Identity) -> Result<bool, Error> {
    let (folder, wanted) = directory.wanted(name)?;
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
    let open =
        |disk: &[u8]| first_of(usage, volume, |flags| volume.fence.open_in(directory.fd(), disk, flags, Wait::OnRoot));
    let (disk, opened) = match open(&wanted.disk) {
        Err(Errno::NOENT) => match try_find(directory, &wanted)? {
            Some(disk) => {
                let opened = open(&disk);
                (disk, opened)
            }
            None => return Ok(None),
        },
        answer => (wanted.disk, answer),
    };
    match opened {
        // It has gone.
        Err(Errno::NOENT | Errno::AGAIN) => Err(Error::WouldBlock),
        Err(errno) => Err(opening(errno)),
        Ok(opened) => {
            let file = whole(file(volume, opened, disk.starts_with(b"."))?, Wait::OnRoot)?;
            Ok(Some((to_shown(&disk), FileNode::open(file))))
        }
    }
}

/// The stored name of what is not there in the case that is asked for, in a directory that is memory.
fn try_find(directory: &OpenFile, wanted: &Wanted) -> Result<Option<Vec<u8>>, Error> {
    let folder = directory.folder()?;
    if !folder.exists().map_err(error)? {
        return Err(Error::WouldBlock);
    }
    directory.volume.cache.hold_for(folder.identity, Wait::OnRoot)?.find(&folder, wanted, Wait::OnRoot)
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
    let open = |flags| volume.fence.open_above(directory.fd(), flags, wait);
    let above = file(volume, open_folder_with(open).map_err(opening)?, false)?;
    // Of all directories the machine's root alone lies in itself; and one that was removed lies nowhere.
    if above.identity == directory.identity || stat(directory.fd()).map_err(error)?.stx_nlink == 0 {
        return Err(Error::Gone);
    }
    Ok(Some(FileNode::open(whole(above, wait)?)))
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;

    use super::*;
    use crate::NewNode;
    use crate::directory::calls::{mkdirat, openat};
    use crate::directory::create;
    use crate::directory::walk::{FOLDER, open_folder};

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
            let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
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
