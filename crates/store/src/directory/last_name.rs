//! What is kept outside a file goes with the file's last name. Another program may give a file one more name, or move it away, at any moment: what is
//! seen before a name goes says only what may have to go with it, and the file itself is asked afterwards.

use std::sync::Arc;

use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::FileType;
use rustix::io::Errno;

use crate::Error;
use crate::directory::calls::puts_aside;
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::error;
use crate::directory::folder::Folder;
use crate::directory::names::RESERVED;
use crate::directory::outcome::At;
use crate::directory::passing::{self, HeldFile, Idle};
use crate::directory::side::Removable;
use crate::directory::stat::{identity, stat, stat_at};
use crate::directory::subject::{Place, Subject};
use crate::directory::volume::Volume;
use crate::directory::walk::Named;
use crate::directory::{homes, side, streams};

/// How the names begin that files get which are removed while they are open, and how many hexadecimal digits follow: Linux's NFS client, libfuse.
const ASIDE: [(&str, usize); 2] = [(".nfs", 24), (".fuse_hidden", 16)];

/// A file or directory, or link, that is about to lose a name.
pub(super) struct Losing<'a> {
    subject: Subject<'a>,
    kind: FileType,
    /// The side files that it owns, where the name may be its last.
    sides: Option<Vec<Removable<'a>>>,
    /// How often something kept with it had been set when they were looked for.
    sets: u64,
    /// Has its side files found until they are gone.
    held: Option<HeldFile>,
    /// Says which names are left and what was made for it meanwhile, and has its bytes count until it is gone.
    file: Option<Descriptor>,
}

impl<'a> Losing<'a> {
    /// Looks at it while it can be found, by what is `opened` where its name was; an error where what has to go with it would be lost sight of.
    /// [`Error::WouldBlock`] where that has to be waited for.
    pub(super) fn look(
        volume: &'a Arc<Volume>,
        folder: &Folder<'_>,
        disk: &[u8],
        (named, opened): (&Named, Option<Descriptor>),
    ) -> Result<Self, Error> {
        let subject = subject(volume, folder, disk, named);
        let sets = subject.sets();
        let sides = if is_last(named) { Some(sides(&subject)?) } else { None };
        let mut losing = Losing { subject, kind: named.kind, sides, sets, held: None, file: None };
        losing.file = match opened.map_or_else(|| open(volume, folder, disk, named), |file| Ok(Some(file))) {
            Ok(file) => file,
            Err(error) if named.kind == FileType::RegularFile || losing.has_something_outside() => return Err(error),
            Err(_) => None,
        };
        if losing.has_sides() {
            let _locked = volume.lock_file(named.own);
            losing.hold();
        }
        Ok(losing)
    }

    /// What is kept with the file is locked now, until the name has gone: from now on no client gives the name to another. [`Error::NotFound`] where that was
    /// done through another share. What others have made for it since it was looked at goes with it, too, and so does everything where they have taken
    /// its other names.
    pub(super) fn look_again(&mut self, name: At<'_>) -> Result<(), Error> {
        if identity(&stat_at(name.folder, name.name).map_err(error)?) != self.subject.identity {
            return Err(Error::NotFound);
        }
        if self.kind != FileType::RegularFile || self.held.is_some() {
            return Ok(());
        }
        let may_have_changed = match &self.sides {
            Some(_) => self.subject.sets() != self.sets,
            None => self
                .file
                .as_ref()
                .is_some_and(|file| stat(file).is_ok_and(|stat| stat.stx_nlink <= 1 + self.idle_names())),
        };
        if may_have_changed {
            self.sides = Some(sides(&self.subject)?);
            self.hold();
        }
        Ok(())
    }

    /// Has its side files found until they are gone, if it has any. What is kept with the file is locked.
    fn hold(&mut self) {
        if self.has_sides() && self.kind == FileType::RegularFile {
            let Subject { volume, identity, .. } = self.subject;
            self.held = self.file.as_ref().and_then(|file| passing::hold(volume, identity, file.as_fd()));
        }
    }

    fn has_something_outside(&self) -> bool {
        self.has_sides() || self.sides.is_some() && self.subject.is_beside()
    }

    fn has_sides(&self) -> bool {
        self.sides.as_ref().is_some_and(|sides| !sides.is_empty())
    }

    /// The name has gone, and so does what is kept outside the file where no other is left. Where that cannot be told it stays until the folder is
    /// served again: what nothing leads to costs less than what is missing. What is kept with the file was `locked` before.
    pub(super) fn gone<L>(mut self, locked: L) {
        let has_no_name = self.has_no_name();
        if has_no_name == Some(true) {
            return self.bury(locked);
        }
        drop(locked);
        if has_no_name.is_none() && self.has_something_outside() {
            self.leave("it cannot be told whether the file has another name");
        }
    }

    /// Its `name` was to go, and that has failed, though it may have gone all the same: then it is as if it had not.
    pub(super) fn failed<L>(self, locked: L, name: At<'_>) {
        // A directory that has something in it is the common case, and says nothing about its name.
        if self.kind == FileType::RegularFile && name.leads_to(self.subject.identity) != Some(true) {
            self.gone(locked);
        }
    }

    fn leave(&mut self, cause: &str) {
        if let Some(held) = self.held.take() {
            return held.leave();
        }
        let file = homes::path(&self.subject).unwrap_or_default();
        let file = String::from_utf8_lossy(&file);
        tracing::warn!(name: "leftover_kept", file = &*file, error = cause, "what was kept in {RESERVED} for a file stays there");
    }

    /// Who has it open may have made more since it was looked at. Who does so from now on sees that it has no name. Where it cannot be told what
    /// they made all stays, and leads to the file as before: it has the name that counts for nothing, and may get others.
    fn bury<L>(&mut self, locked: L) {
        let sides = self.sides.take().unwrap_or_default();
        let Subject { volume, identity, born, .. } = self.subject;
        let more = match &self.file {
            Some(file) if matches!(self.kind, FileType::RegularFile | FileType::Directory) => {
                sides_made(&Subject { volume, place: through(file.as_fd()), identity, born }, &sides)
            }
            Some(_) | None => Ok(Vec::new()),
        };
        let Ok(more) = more else {
            // It counts again before anybody else asks whether the file has a name.
            self.held.iter_mut().for_each(HeldFile::count);
            drop(locked);
            return self.leave("the file cannot be looked at any more");
        };
        drop(locked);
        if self.kind == FileType::Symlink {
            let _ = self.subject.bury_folder();
        } else {
            bury(&self.subject, &sides);
        }
        side::remove_all(&more);
    }

    /// How many of its names count for nothing, whoever gave them to it. What is kept with the file is locked.
    fn idle_names(&self) -> u32 {
        Idle::names_of(self.subject.identity)
    }

    /// True where its last name has gone and NFS, or FUSE, has given the open file another until it is closed. What clients name so they may.
    fn is_put_aside(&self, file: BorrowedFd<'_>) -> bool {
        let Subject { volume, place: Place::Named(path), .. } = &self.subject else { return false };
        let [lost, now] = [path, &volume.place_of(file).unwrap_or_default()].map(|path| last_of(path).to_vec());
        puts_aside(volume.waits) && lost != now && is_aside(&now)
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
            Ok(stat) => {
                let left = stat.stx_nlink.saturating_sub(self.idle_names());
                Some(left == 0 || left == 1 && self.is_put_aside(file.as_fd()))
            }
            // So NFS and FUSE say that there is no such file any more.
            Err(Errno::NOENT | Errno::STALE) => Some(true),
            Err(_) => None,
        }
    }
}

fn last_of(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
}

fn is_aside(name: &[u8]) -> bool {
    ASIDE.iter().any(|(begins, digits)| {
        let rest = name.strip_prefix(begins.as_bytes()).unwrap_or_default();
        rest.len() == *digits && rest.iter().all(u8::is_ascii_hexdigit)
    })
}

/// The side files of a file that has no name any more, but for those that are known.
pub(super) fn sides_made<'a>(subject: &Subject<'a>, known: &[Removable<'_>]) -> Result<Vec<Removable<'a>>, Error> {
    match streams::sides_but(subject, known) {
        // So NFS and FUSE say that there is no such file any more.
        Err(Error::NotFound | Error::Gone) => Ok(Vec::new()),
        more => more,
    }
}

/// The way to an open file that has no name.
pub(super) fn through(file: BorrowedFd<'_>) -> Place<'static> {
    Place::Through(format!("/proc/self/fd/{}", file.as_raw_fd()))
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
    let found = volume.open_name(&folder.fd, disk).and_then(|file| stat(&file).map(|stat| (identity(&stat), file)));
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

/// Removes what is kept outside the file, after its last name went: `sides` are the side files that it owns.
pub(super) fn bury(subject: &Subject<'_>, sides: &[Removable<'_>]) {
    side::remove_all(sides);
    if subject.is_beside() {
        let _ = subject.bury_folder();
    }
}
