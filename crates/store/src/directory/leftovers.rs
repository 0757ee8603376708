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
use std::thread::Builder;

use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::directory::calls::{openat, unlinkat};
use crate::directory::errno::error;
use crate::directory::last_name::{sides_made, through};
use crate::directory::listing::each_name;
use crate::directory::marks::SidesOf;
use crate::directory::names::{DRAFT, RESERVED, is_draft};
use crate::directory::neighbours::Locks;
use crate::directory::side::{self, SideName};
use crate::directory::stat::{self, born, file_type, identity};
use crate::directory::volume::Volume;
use crate::directory::xattr::Subject;
use crate::directory::{marks, streams};
use crate::{Error, Identity, threads};

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

/// Files that have one more name for a moment, which counts for nothing. It comes and goes with what is kept with the file locked.
static HELD: Mutex<BTreeSet<Identity>> = Mutex::new(BTreeSet::new());

/// A file that is about to lose its last name has one more, until this is dropped.
pub(super) struct HeldFile {
    passing: Option<Passing>,
    file: Identity,
    locks: &'static Locks,
}

impl HeldFile {
    /// How many names of a file count for nothing.
    pub(super) fn names_of(file: Identity) -> u32 {
        u32::from(HELD.lock().contains(&file))
    }

    /// The name stays until the folder is served again: then it is seen what becomes of it.
    pub(super) fn leave(mut self) {
        if let Some(passing) = self.passing.take() {
            passing.leave();
        }
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        let _locked = self.locks.beside(self.file);
        drop(self.passing.take());
        HELD.lock().remove(&self.file);
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
/// it. `None` where the file system has no links, or the file lies on another. What is kept with the file is locked.
pub(super) fn hold(volume: &Volume, file: Identity, fd: BorrowedFd<'_>) -> Option<HeldFile> {
    let folder = side::folder(volume, false).ok()??;
    let locks = volume.locks_of(file);
    // Where this fails it may have been made: then it goes again.
    let passing = Passing::new(folder, Draft::new().ok()?.name);
    volume.link(fd, passing.folder.as_fd(), passing.name.as_str().as_bytes()).ok()?;
    HELD.lock().insert(file).then(|| HeldFile { passing: Some(passing), file, locks })
}

/// Has a side file that nothing leads to, and that could not be removed, go when the folder is served again; false where that cannot be.
pub(super) fn leave(folder: BorrowedFd<'_>, side: &str) -> bool {
    make_mark(folder, &nameless(side)).is_ok()
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
        let Some(mark) = &self.mark else {
            side::remove(&self.volume, &self.side);
            return;
        };
        let name = self.side.on_disk();
        match side::folder(&self.volume, false) {
            Ok(Some(folder)) => remove_marked(&self.volume, folder.as_fd(), &name, &mark.0),
            Ok(None) => {}
            Err(error) => side::tell_it_stays(&name, &error),
        }
    }
}

/// Removes what was left in a folder that this process alone serves. What leads to files is finished before any client can move or remove them; side
/// files of files without a name, of which there may be many, go on a thread of their own.
pub(super) fn sweep_first(volume: &Arc<Volume>) {
    if !volume.is_locked() {
        return;
    }
    let weak = Arc::downgrade(volume);
    sweep_all(&weak, |name| !is_nameless(name));
    // Where there is no thread it stays until the next time.
    let sweep_rest = move || sweep_all(&weak, is_nameless);
    let _ = threads::start(Builder::new().name("multilane-sweep".to_owned()), sweep_rest);
}

/// The same all at once.
#[cfg(test)]
pub(super) fn sweep(volume: &Weak<Volume>) {
    sweep_all(volume, |name| !is_nameless(name));
    sweep_all(volume, is_nameless);
}

fn sweep_all(volume: &Weak<Volume>, is_meant: impl Fn(&str) -> bool) {
    let Some((found, sides)) = volume.upgrade().and_then(|volume| leftovers(&volume, is_meant).ok()) else { return };
    for slice in found.chunks(SLICE) {
        // The share may have gone meanwhile, and its folder may be served by another process then.
        let Some(volume) = volume.upgrade() else { return };
        let Ok(Some(folder)) = side::folder(&volume, false) else { return };
        for name in slice.iter().filter(|name| !UsedName::is_used(name)) {
            remove(&volume, &folder, (name, &sides));
        }
    }
}

fn leftovers(volume: &Volume, is_meant: impl Fn(&str) -> bool) -> Result<(Vec<String>, SidesOf), Error> {
    let (mut found, mut sides) = (Vec::new(), SidesOf::default());
    if let Some(folder) = side::folder(volume, false)? {
        let note = |entry: crate::directory::listing::Listed<'_>| {
            let name = std::str::from_utf8(entry.name).ok();
            found.extend(name.filter(|name| is_leftover(name) && is_meant(name)).map(str::to_owned));
        };
        each_name(&folder, note).map_err(error)?;
        // There may be many marks and many side files: these are looked through once for all of them.
        sides = SidesOf::those_that_leave(&found);
        if !sides.is_empty() {
            each_name(&folder, |entry| sides.note(entry.name)).map_err(error)?;
        }
    }
    // What goes with a file's last name goes before it is looked for by a mark.
    found.sort_by_key(|name| marks::is_mark(name));
    Ok((found, sides))
}

fn is_nameless(name: &str) -> bool {
    name.starts_with(NAMELESS)
}

fn is_leftover(name: &str) -> bool {
    is_nameless(name) || is_draft(name) || marks::is_mark(name)
}

fn remove(volume: &Arc<Volume>, folder: &OwnedFd, (name, sides): (&str, &SidesOf)) {
    match name.strip_prefix(NAMELESS) {
        Some(side) => remove_marked(volume, folder.as_fd(), side, name),
        None if marks::is_mark(name) => marks::finish(volume, folder.as_fd(), (name, sides)),
        None => {
            if let Err(error) = remove_link(volume, folder.as_fd(), name) {
                tracing::warn!(%error, "{RESERVED}/{name} may be a file's last name, and keep its room: it cannot be looked at or removed yet");
            }
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
    let file = volume.open_name(folder, name.as_bytes()).map_err(error)?;
    let stat = stat::stat(&file).map_err(error)?;
    if file_type(&stat) != FileType::RegularFile {
        return Ok(());
    }
    let subject = Subject { volume, place: through(file.as_fd()), identity: identity(&stat), born: born(&stat) };
    let sides = if stat.stx_nlink == 1 { streams::sides(&subject)? } else { Vec::new() };
    if stat.stx_nlink == 1 {
        subject.bury(&sides);
    }
    let locked = volume.lock_file(subject.identity);
    side::unlink_named(volume, folder, name).map_err(error)?;
    // Its last name but this one may have gone just now.
    let is_nameless = stat::stat(&file).is_ok_and(|stat| stat.stx_nlink == 0);
    let more = if is_nameless { sides_made(&subject, &sides)? } else { Vec::new() };
    drop(locked);
    side::remove_all(&more);
    Ok(())
}
