//! Names in the reserved folder that stand there for a moment. Where the server is killed meanwhile they are found when the folder is served again ([`super::leftovers`]).

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::directory::calls::{openat, unlinkat};
use crate::directory::names::DRAFT;
use crate::directory::neighbours::Locks;
use crate::directory::stat::stat;
use crate::directory::volume::Volume;
use crate::directory::{reserved, side_name};
use crate::{Error, Identity};

/// Begins the name of what marks a side file; that of the side file follows.
pub(super) const NAMELESS: &str = "nameless-";

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
        Ok(Draft { name: UsedName::new(format!("{DRAFT}{}", side_name::name(side_name::new_id()?))) })
    }

    pub(super) fn name(&self) -> &str {
        &self.name.0
    }

    /// What tells its name from those of others.
    pub(super) fn id(&self) -> &str {
        self.name.0.strip_prefix(DRAFT).unwrap_or_default()
    }
}

/// Files of which a name counts for nothing. Each is there only while that name is, and comes and goes with what is kept with the file locked.
static IDLE: Mutex<BTreeMap<Identity, IdleName>> = Mutex::new(BTreeMap::new());

struct IdleName {
    name: String,
    /// Has nothing else be known by the file's number, where the name is the only one that is left and could not be taken away.
    _file: Option<OwnedFd>,
}

/// A file has a name that counts for nothing, until this is dropped.
pub(super) struct Idle(Identity);

impl Idle {
    /// `None` where another does.
    pub(super) fn of(file: Identity, name: &str) -> Option<Self> {
        let mut all = IDLE.lock();
        let known = all.entry(file).or_insert_with(|| IdleName { name: name.to_owned(), _file: None });
        (known.name == name).then(|| Idle(file))
    }

    /// It does so until somebody has the name again.
    fn stay(self, file: OwnedFd) {
        if let Some(known) = IDLE.lock().get_mut(&self.0) {
            known._file = Some(file);
        }
        std::mem::forget(self);
    }

    /// How many names of a file count for nothing.
    pub(super) fn names_of(file: Identity) -> u32 {
        u32::from(IDLE.lock().contains_key(&file))
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        // The file may be closed with it, which may wait for its device: not with the table locked.
        let known = IDLE.lock().remove(&self.0);
        drop(known);
    }
}

/// A file that is about to lose its last name has one more, until this is dropped.
pub(super) struct HeldFile {
    passing: Option<Passing>,
    idle: Option<Idle>,
    file: Identity,
    locks: &'static Locks,
}

impl HeldFile {
    /// The name counts as others do. What is kept with the file is locked.
    pub(super) fn count(&mut self) {
        self.idle = None;
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
        let left = self.passing.take().and_then(Passing::end);
        if let (Some(idle), Some(file)) = (self.idle.take(), left) {
            idle.stay(file);
        }
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

    /// Takes the name away. Gives the file where that fails, and it has no other.
    fn end(mut self) -> Option<OwnedFd> {
        self.stays = true;
        let name = self.name.as_str();
        unlinkat(&self.folder, name, AtFlags::empty()).err()?;
        let file = openat(&self.folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
        stat(&file).is_ok_and(|stat| stat.stx_nlink == 1).then_some(file)
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
/// it. `None` where the file system has no links or does not count them, where the file lies on another, or another removal holds it. What is kept with
/// the file is locked.
pub(super) fn hold(volume: &Volume, file: Identity, fd: BorrowedFd<'_>) -> Option<HeldFile> {
    let folder = reserved::folder(volume, false).ok()??;
    let locks = volume.locks_of(file);
    // Where this fails it may have been made: then it goes again.
    let passing = Passing::new(folder, Draft::new().ok()?.name);
    volume.link(fd, passing.folder.as_fd(), passing.name.as_str().as_bytes()).ok()?;
    let counts = stat(fd).is_ok_and(|stat| stat.stx_nlink > 1);
    let idle = if counts { Idle::of(file, passing.name.as_str())? } else { return None };
    Some(HeldFile { passing: Some(passing), idle: Some(idle), file, locks })
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
pub(super) fn make_mark(folder: BorrowedFd<'_>, mark: &str) -> Result<(), Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, mark, flags, Mode::RUSR | Mode::WUSR).map(drop)
}
