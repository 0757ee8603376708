//! What is kept outside a file goes with the file's last name. Another program may give a file one more name, or move it away, at any moment: what is
//! seen before a name goes says only what may have to go with it, and the file itself is asked afterwards.

use std::sync::Arc;

use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::Error;
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::error;
use crate::directory::folder::{Folder, identity, stat};
use crate::directory::keep::{Place, Subject};
use crate::directory::leftovers::{self, Passing};
use crate::directory::nameless::{about_to_go, open_name};
use crate::directory::names::RESERVED;
use crate::directory::side::Removable;
use crate::directory::volume::Volume;
use crate::directory::walk::Named;
use crate::directory::{homes, streams};

/// A file or directory, or link, that is about to lose a name.
pub(super) struct Losing<'a> {
    subject: Subject<'a>,
    kind: FileType,
    /// The side files that it owns, where the name may be its last.
    sides: Option<Vec<Removable<'a>>>,
    /// Has its side files found until they are gone.
    held: Option<Passing>,
    /// Says which names are left, and has its bytes count until it is gone.
    file: Option<Descriptor>,
}

impl<'a> Losing<'a> {
    /// Looks at it while it can be found; an error where what has to go with it would be lost sight of. [`Error::WouldBlock`] where that has to be
    /// waited for.
    pub(super) fn look(
        volume: &'a Arc<Volume>,
        folder: &Folder<'_>,
        disk: &[u8],
        named: &Named,
    ) -> Result<Self, Error> {
        let subject = subject(volume, folder, disk, named);
        let sides = if is_last(named) { Some(sides(&subject)?) } else { None };
        let mut losing = Losing { subject, kind: named.kind, sides, held: None, file: None };
        if named.kind == FileType::RegularFile && losing.has_something_outside() {
            losing.file = open(volume, folder, disk, named)?;
            let has_sides = losing.sides.as_ref().is_some_and(|sides| !sides.is_empty());
            let held =
                losing.file.as_ref().filter(|_| has_sides).and_then(|file| leftovers::hold(volume, file.as_fd()));
            losing.held = held;
        } else {
            losing.file = about_to_go(volume, &folder.fd, disk);
        }
        Ok(losing)
    }

    fn has_something_outside(&self) -> bool {
        self.sides.as_ref().is_some_and(|sides| !sides.is_empty() || self.subject.is_beside())
    }

    /// The name has gone, and so does what is kept outside the file where no other is left. Where that cannot be told it stays until the folder is
    /// served again: what nothing leads to costs less than what is missing.
    pub(super) fn gone(mut self) {
        let Some(sides) = self.sides.as_ref().filter(|_| self.has_something_outside()) else { return };
        match (self.has_no_name(), self.held.take()) {
            (Some(true), _held) => self.subject.bury(sides),
            (Some(false), _) => {}
            (None, Some(held)) => held.leave(),
            (None, None) => {
                let file = homes::path(&self.subject).unwrap_or_default();
                let file = String::from_utf8_lossy(&file);
                tracing::warn!(%file, "what was kept in {RESERVED} for a file stays there: it cannot be told whether the file has another name");
            }
        }
    }

    /// `None` where that cannot be told.
    fn has_no_name(&self) -> Option<bool> {
        // A directory has one name, and some file systems count it when it is gone.
        if self.kind == FileType::Directory {
            return Some(true);
        }
        // Another program has taken it away, or put another file there, before it was opened.
        let Some(file) = &self.file else { return Some(false) };
        match stat(file) {
            Ok(stat) => Some(stat.stx_nlink <= u32::from(self.held.is_some())),
            // So NFS and FUSE say that there is no such file any more.
            Err(Errno::NOENT | Errno::STALE) => Some(true),
            Err(_) => None,
        }
    }
}

/// The side files of a file that is to lose its last name. Were they not known they would be left behind, so that the name stays.
fn sides<'a>(subject: &Subject<'a>) -> Result<Vec<Removable<'a>>, Error> {
    match streams::sides(subject) {
        // Another program has removed it.
        Err(Error::NotFound) => Ok(Vec::new()),
        sides => sides,
    }
}

/// Opens the file by its name; `None` where that leads to it no more.
fn open(volume: &Volume, folder: &Folder<'_>, disk: &[u8], named: &Named) -> Result<Option<Descriptor>, Error> {
    let found = open_name(volume, &folder.fd, disk).and_then(|file| stat(&file).map(|stat| (identity(&stat), file)));
    match found {
        Ok((found, file)) => Ok(Some(file).filter(|_| found == named.own)),
        Err(Errno::NOENT | Errno::STALE) => Ok(None),
        Err(errno) => Err(error(errno)),
    }
}

/// True where the name is the last of a file or directory that may have something outside it.
fn is_last(named: &Named) -> bool {
    match named.kind {
        FileType::Directory => true,
        FileType::RegularFile => named.links <= 1,
        _ => false,
    }
}

/// A file by its name.
fn subject<'a>(volume: &'a Volume, folder: &Folder<'_>, disk: &[u8], named: &Named) -> Subject<'a> {
    let mut path = format!("/proc/self/fd/{}/", folder.fd.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(disk);
    Subject { volume, place: Place::Named(path), identity: named.own, born: named.born }
}
