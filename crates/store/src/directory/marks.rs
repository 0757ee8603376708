//! Marks in the reserved folder that lead to a file: where the server is killed in the middle of a change, only the file can tell how far that came. A mark
//! is a symbolic link, made in one step, which nobody follows: it says where the file is, as a path from the share's root.
//!
//! | name in `.multilane` | what is under way | what becomes of it |
//! |---|---|---|
//! | `naming-SIDE` | the side file SIDE is made for the file at the path | it goes, unless the file names it |
//!
//! Where another program has moved the file meanwhile nothing is done, and the mark stays. There is none where the file system has no such links or no
//! room for one: what that costs is told in `docs/SEMANTICS.md`.

use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use crate::Error;
use crate::directory::calls::{readlinkat, symlinkat, unlinkat};
use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::file::born;
use crate::directory::folder::{identity, stat, stat_at};
use crate::directory::keep::{Place, Subject};
use crate::directory::leftovers::UsedName;
use crate::directory::names::RESERVED;
use crate::directory::side::{self, SideName};
use crate::directory::volume::Volume;
use crate::directory::{homes, streams};

/// Begins the name of the mark of a side file that no file names yet; that of the side file follows.
const NAMING: &str = "naming-";

/// A change is under way, until this is dropped.
pub(super) struct Mark {
    folder: OwnedFd,
    name: UsedName,
    stays: bool,
}

impl Mark {
    /// Of a side file that is about to be made for `subject`.
    pub(super) fn naming(subject: &Subject<'_>, side: &SideName) -> Result<Option<Self>, Error> {
        let volume = subject.volume;
        let path = homes::path(subject).and_then(|place| volume.below_root(&place));
        Mark::make(volume, format!("{NAMING}{}", side.on_disk()), path)
    }

    /// `None` where there can be none.
    fn make(volume: &Volume, name: String, path: Option<Vec<u8>>) -> Result<Option<Self>, Error> {
        let Some(path) = path.filter(|path| !path.is_empty()) else { return Ok(None) };
        let folder = match side::folder(volume, true) {
            Ok(Some(folder)) => folder,
            Ok(None) | Err(Error::Denied | Error::Full | Error::ReadOnly) => return Ok(None),
            Err(error) => return Err(error),
        };
        // Where this fails it may have been made: then it goes again.
        let mark = Mark { folder, name: UsedName::new(name), stays: false };
        match mark.link(&path) {
            Ok(()) => Ok(Some(mark)),
            Err(errno) if is_impossible(errno) => Ok(None),
            Err(errno) => Err(error(errno)),
        }
    }

    fn link(&self, path: &[u8]) -> Result<(), Errno> {
        let make = || symlinkat(path, &self.folder, self.name.as_str());
        match make() {
            // What has the name was left when the server was killed, and may lead elsewhere.
            Err(Errno::EXIST | Errno::INTR) => {
                unlinkat(&self.folder, self.name.as_str(), AtFlags::empty())?;
                make()
            }
            answer => answer,
        }
    }

    /// How far the change came cannot be told: that is seen when the folder is served again.
    pub(super) fn leave(mut self) {
        self.stays = true;
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.stays {
            let _ = unlinkat(&self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// True for what a file system without symbolic links says, and one that has no room for one.
fn is_impossible(errno: Errno) -> bool {
    let has_none = matches!(errno, Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOSYS | Errno::ROFS);
    has_none || matches!(errno, Errno::NOSPC | Errno::DQUOT | Errno::NAMETOOLONG)
}

pub(super) fn is_mark(name: &str) -> bool {
    name.starts_with(NAMING)
}

/// Finishes what was under way when the server was killed. Where that cannot be done the mark stays.
pub(super) fn finish(volume: &Volume, folder: BorrowedFd<'_>, mark: &str) {
    let Some(side) = mark.strip_prefix(NAMING) else { return };
    if let Err(error) = finish_naming(volume, folder, (mark, side)) {
        tracing::warn!(%error, "{RESERVED}/{side} may belong to nothing and keep its room: its file is not where it was, or cannot be looked at");
    }
}

fn remove(folder: BorrowedFd<'_>, mark: &str) -> Result<(), Error> {
    unlinkat(folder, mark, AtFlags::empty()).map_err(error)
}

/// Removes a side file that its file does not name. [`Error::Gone`] where the file is somewhere else.
fn finish_naming(volume: &Volume, folder: BorrowedFd<'_>, (mark, side): (&str, &str)) -> Result<(), Error> {
    if matches!(stat_at(folder, side.as_bytes()), Err(Errno::NOENT)) {
        return remove(folder, mark);
    }
    let path = readlinkat(folder, mark, Vec::new()).map_err(error)?;
    let file = volume.fence.open(path.as_bytes(), OFlags::PATH, Wait::May).map_err(error)?;
    let stat = stat(&file).map_err(error)?;
    let place = Place::Through(format!("/proc/self/fd/{}", file.as_raw_fd()));
    let subject = Subject { volume, place, identity: identity(&stat), born: born(&stat) };
    // Who makes the side file anew has the file locked.
    let _held = volume.lock_file(subject.identity);
    if UsedName::is_used(mark) {
        return Ok(());
    }
    if !streams::names(&subject, side)? {
        if !subject.owner()?.is_in(side) {
            return Err(Error::Gone);
        }
        side::unlink_named(volume, folder, side).map_err(error)?;
    }
    remove(folder, mark)
}
