//! What would be left in the reserved folder for ever where the server is killed: links of files that are on their way to another name, or lose their last
//! one, and side files of files without a name. Their names tell what they are, and they are removed when the folder is served again. The same becomes of
//! what cannot be removed when it should be.
//!
//! | name in `.multilane` | what it is | what becomes of it |
//! |---|---|---|
//! | `.multilane.ID` | a link of a file ([`Draft`]) | it goes; where it was the last name, so do the file's side files |
//! | `nameless-SIDE`, empty | the side file SIDE is one of a file without a name ([`Nameless`]), or of none ([`leave`]) | both go |
//!
//! Other marks lead to files ([`marks`]).
//!
//! Nobody has what another process has left: files without a name end with the process, and a folder has one. What this process uses it knows.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::Error;
use crate::directory::calls::{openat, unlinkat};
use crate::directory::errno::error;
use crate::directory::file::born;
use crate::directory::folder::{each_name, file_type, identity, stat_at};
use crate::directory::keep::{Place, Subject};
use crate::directory::names::{DRAFT, is_draft};
use crate::directory::side::{self, SideName};
use crate::directory::volume::Volume;
use crate::directory::{marks, streams};

/// Begins the name of what marks a side file; that of the side file follows.
const NAMELESS: &str = "nameless-";
/// So many leftovers are removed before others may have the store to themselves.
const SLICE: usize = 64;

/// Names that this process uses. They are random.
static USED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// A name that this process uses, until it is dropped.
pub(super) struct UsedName(String);

impl UsedName {
    pub(super) fn new(name: String) -> Self {
        USED.lock().insert(name.clone());
        UsedName(name)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_used(name: &str) -> bool {
        USED.lock().contains(name)
    }
}

impl Drop for UsedName {
    fn drop(&mut self) {
        USED.lock().remove(&self.0);
    }
}

/// A name for a file that is on its way to another. Who gives it to a file takes it away again.
pub(super) struct Draft {
    name: UsedName,
}

impl Draft {
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Draft { name: UsedName::new(format!("{DRAFT}{}", side::name(side::new_id()?))) })
    }

    pub(super) fn name(&self) -> &str {
        &self.name.0
    }
}

/// A name in the reserved folder that goes when this is dropped, whether or not it is there yet.
pub(super) struct Passing {
    pub(super) folder: OwnedFd,
    pub(super) name: UsedName,
    stays: bool,
}

impl Passing {
    pub(super) fn new(folder: OwnedFd, name: UsedName) -> Self {
        Passing { folder, name, stays: false }
    }

    /// The name stays until the folder is served again: then it is seen what becomes of it.
    pub(super) fn leave(mut self) {
        self.stays = true;
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if !self.stays {
            let _ = unlinkat(&self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Gives a file that is about to lose its last name one more: where the server is killed before the file's side files are gone they are found by
/// it. `None` where the file system has no links, or the file lies on another.
pub(super) fn hold(volume: &Volume, file: BorrowedFd<'_>) -> Option<Passing> {
    let folder = side::folder(volume, false).ok()??;
    // Where this fails it may have been made: then it goes again.
    let held = Passing::new(folder, Draft::new().ok()?.name);
    volume.link(file, held.folder.as_fd(), held.name.as_str().as_bytes()).ok()?;
    Some(held)
}

/// Has a side file that nothing leads to, and that could not be removed, go when the folder is served again.
pub(super) fn leave(folder: BorrowedFd<'_>, side: &str) {
    let _ = make_mark(folder, &nameless(side));
}

/// The mark of a side file of nothing that has a name.
pub(super) fn nameless(side: &str) -> String {
    format!("{NAMELESS}{side}")
}

/// Makes that mark.
fn make_mark(folder: BorrowedFd<'_>, mark: &str) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, mark, flags, Mode::RUSR | Mode::WUSR).map(drop)
}

/// The side file of a file without a name: it goes when this is dropped, or when the folder is served again.
pub(super) struct Nameless {
    volume: Arc<Volume>,
    pub(super) side: SideName,
    mark: Option<UsedName>,
}

impl Nameless {
    /// Marks a side file, which need not be there yet.
    pub(super) fn mark(volume: &Arc<Volume>, side: SideName) -> Result<Self, Error> {
        let folder = side::folder(volume, true)?.ok_or(Error::NotFound)?;
        let mark = UsedName::new(nameless(&side.on_disk()));
        make_mark(folder.as_fd(), &mark.0).map_err(error)?;
        Ok(Nameless { volume: Arc::clone(volume), side, mark: Some(mark) })
    }

    /// The same of one that is not looked for when the folder is served again.
    pub(super) fn unmarked(volume: &Arc<Volume>, side: SideName) -> Self {
        Nameless { volume: Arc::clone(volume), side, mark: None }
    }
}

impl Drop for Nameless {
    fn drop(&mut self) {
        let Some(mark) = &self.mark else { return side::remove(&self.volume, &self.side) };
        let name = self.side.on_disk();
        match side::folder(&self.volume, false) {
            Ok(Some(folder)) => remove_marked(&self.volume, folder.as_fd(), &name, &mark.0),
            Ok(None) => {}
            Err(error) => side::tell_it_stays(&name, &error),
        }
    }
}

/// Removes what was left in a folder that this process alone serves, on a thread of its own: there may be many names to look through.
pub(super) fn sweep_soon(volume: &Arc<Volume>) {
    if volume.is_locked() {
        let volume = Arc::downgrade(volume);
        // Where there is no thread it stays until the next time.
        let _ = std::thread::Builder::new().name("multilane-sweep".to_owned()).spawn(move || sweep(&volume));
    }
}

/// The same here.
pub(super) fn sweep(volume: &Weak<Volume>) {
    let Some(found) = volume.upgrade().and_then(|volume| leftovers(&volume).ok()) else { return };
    for slice in found.chunks(SLICE) {
        // The share may have gone meanwhile, and its folder may be served by another process then.
        let Some(volume) = volume.upgrade() else { return };
        let Ok(Some(folder)) = side::folder(&volume, false) else { return };
        for name in slice.iter().filter(|name| !UsedName::is_used(name)) {
            remove(&volume, &folder, name);
        }
    }
}

fn leftovers(volume: &Volume) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    if let Some(folder) = side::folder(volume, false)? {
        let note = |entry: crate::directory::folder::Listed<'_>| {
            let name = std::str::from_utf8(entry.name).ok();
            found.extend(name.filter(|name| is_leftover(name)).map(str::to_owned));
        };
        each_name(&folder, note).map_err(error)?;
    }
    // What a file had without a name goes before it is looked for by a mark.
    found.sort_by_key(|name| marks::is_mark(name));
    Ok(found)
}

fn is_leftover(name: &str) -> bool {
    name.starts_with(NAMELESS) || is_draft(name) || marks::is_mark(name)
}

fn remove(volume: &Arc<Volume>, folder: &OwnedFd, name: &str) {
    match name.strip_prefix(NAMELESS) {
        Some(side) => remove_marked(volume, folder.as_fd(), side, name),
        None if marks::is_mark(name) => marks::finish(volume, folder.as_fd(), name),
        None => {
            let _ = remove_link(volume, folder.as_fd(), name);
        }
    }
}

/// Removes a side file, and its mark once that is done.
fn remove_marked(volume: &Volume, folder: BorrowedFd<'_>, side: &str, mark: &str) {
    match side::unlink_named(volume, folder, side) {
        Ok(()) => drop(unlinkat(folder, mark, AtFlags::empty())),
        Err(cause) => side::tell_it_stays(side, &cause),
    }
}

fn remove_link(volume: &Arc<Volume>, folder: BorrowedFd<'_>, name: &str) -> Result<(), Error> {
    let stat = stat_at(folder, name.as_bytes()).map_err(error)?;
    if file_type(&stat) != FileType::RegularFile {
        return Ok(());
    }
    let place = Place::Named(side::path_in(folder, name));
    let subject = Subject { volume, place, identity: identity(&stat), born: born(&stat) };
    if stat.stx_nlink == 1 {
        subject.bury(&streams::sides(&subject)?);
    }
    side::unlink_named(volume, folder, name).map_err(error)
}
