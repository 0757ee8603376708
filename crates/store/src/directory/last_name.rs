//! What is kept outside a file goes with the file's last name. Another program may give a file one more name, or move it away, at any moment: what is
//! seen before a name goes says only what may have to go with it, and the file itself is asked afterwards.

use std::sync::Arc;

use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::Error;
use crate::directory::descriptor::Descriptor;
use crate::directory::folder::{Folder, identity, stat};
use crate::directory::keep::{Place, Subject};
use crate::directory::leftovers::Held;
use crate::directory::nameless::{about_to_go, open_name};
use crate::directory::side::Removable;
use crate::directory::streams;
use crate::directory::volume::Volume;
use crate::directory::walk::Named;

/// A file or directory, or link, that is about to lose a name.
pub(super) struct Losing<'a> {
    subject: Subject<'a>,
    kind: FileType,
    /// The side files that it owns, where the name may be its last.
    sides: Option<Vec<Removable<'a>>>,
    /// Has its side files found until they are gone.
    held: Option<Held>,
    /// Says which names are left, and has its bytes count until it is gone.
    file: Option<Descriptor>,
}

impl<'a> Losing<'a> {
    /// Looks at it while it can be found. [`Error::WouldBlock`] where that has to be waited for.
    pub(super) fn look(
        volume: &'a Arc<Volume>,
        folder: &Folder<'_>,
        disk: &[u8],
        named: &Named,
    ) -> Result<Self, Error> {
        let subject = subject(volume, folder, disk, named);
        let sides = match is_last(named).then(|| streams::sides(&subject)) {
            // They would be left behind.
            Some(Err(Error::WouldBlock)) => return Err(Error::WouldBlock),
            sides => sides.map(Result::unwrap_or_default),
        };
        let mut losing = Losing { subject, kind: named.kind, sides, held: None, file: None };
        if named.kind == FileType::RegularFile && losing.has_something_outside() {
            let is_it = |file: &Descriptor| stat(file).is_ok_and(|stat| identity(&stat) == named.own);
            losing.file = open_name(volume, &folder.fd, disk).filter(is_it);
            let has_sides = losing.sides.as_ref().is_some_and(|sides| !sides.is_empty());
            let held = losing.file.as_ref().filter(|_| has_sides).and_then(|file| Held::hold(volume, file.as_fd()));
            losing.held = held;
        } else {
            losing.file = about_to_go(volume, &folder.fd, disk);
        }
        Ok(losing)
    }

    fn has_something_outside(&self) -> bool {
        self.sides.as_ref().is_some_and(|sides| !sides.is_empty() || self.subject.is_beside())
    }

    /// The name has gone, and so does what is kept outside the file where no other is left.
    pub(super) fn gone(self) {
        if let Some(sides) = self.sides.as_ref().filter(|_| self.has_no_name()) {
            self.subject.bury(sides);
        }
    }

    /// False where that is not known: what nothing leads to costs less than what is missing.
    fn has_no_name(&self) -> bool {
        // A directory has one name, and some file systems count it when it is gone.
        if self.kind == FileType::Directory {
            return true;
        }
        let Some(file) = &self.file else { return false };
        match stat(file) {
            Ok(stat) => stat.stx_nlink <= u32::from(self.held.is_some()),
            // So NFS and FUSE say that there is no such file any more.
            Err(errno) => matches!(errno, Errno::NOENT | Errno::STALE),
        }
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
