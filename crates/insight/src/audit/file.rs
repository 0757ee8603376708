//! The audit log as a file: only its owner may read it, and it may be moved away at any time, as logrotate does. It moves itself away where it has a bound.

use std::fmt;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Error, ErrorKind, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::writer::{Failure, Line, Out};

/// O_NOFOLLOW and O_NONBLOCK of Linux: no symbolic link is followed, and nobody waits for the other end of a pipe.
const OPEN_FLAGS: i32 = (rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK)).bits() as i32;
/// Others than the owner and its group may write.
const STRANGERS_WRITE: u32 = 0o002;
/// Only who owns a file in such a folder may move it.
const STICKY: u32 = 0o1000;
/// Who is not the owner may do something with the file.
const OTHERS: u32 = 0o077;
/// Files that were full, and are kept: `audit.log.1` is the latest.
pub const FULL_FILES_KEPT: u32 = 3;
/// What is left free of a file system for others, where the log is to leave that: so much, or of a small one a hundredth.
const LEFT_FREE: u64 = 256 << 20;
const LEFT_FREE_PART: u64 = 100;

/// How much a log may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileBounds {
    /// Bytes of the file, and of each that was full; `None` where others move it away.
    pub bytes_max: Option<NonZeroU64>,
    /// Nothing is written where its file system is nearly full: others need that, such as the catalog.
    pub leaves_room: bool,
}

impl FileBounds {
    /// An error where others need what is left of the file system.
    fn leave_room(self, file: &File) -> io::Result<()> {
        if !self.leaves_room {
            return Ok(());
        }
        let found = rustix::fs::fstatvfs(file)?;
        let least = LEFT_FREE.min(found.f_blocks.saturating_mul(found.f_frsize) / LEFT_FREE_PART);
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        if free >= least {
            return Ok(());
        }
        let what = format!("its file system, which the data folder needs, has {} MiB left", free >> 20);
        Err(Error::new(ErrorKind::StorageFull, what))
    }
}

/// Why a file cannot be the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfitFile {
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

impl fmt::Display for UnfitFile {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.what, self.remedy)
    }
}

/// Looks whether nobody else can put a file in the place of one at `path`. Gives its path without symbolic links before the last name.
pub fn safe_place(path: &Path) -> Result<PathBuf, UnfitFile> {
    let unfit = |what: String, remedy| Err(UnfitFile { what, remedy });
    let (Some(name), parent) = (path.file_name(), path.parent().filter(|parent| !parent.as_os_str().is_empty())) else {
        return unfit(format!("{} names no file", path.display()), "name a file, such as /var/log/multilane/audit.log");
    };
    let folder = match fs::canonicalize(parent.unwrap_or(Path::new("."))) {
        Ok(folder) => folder,
        Err(cause) => {
            let what = format!("the folder of the audit log {} cannot be looked at: {cause}", path.display());
            return unfit(what, "make the folder first, for this server alone");
        }
    };
    for (steps, above) in folder.ancestors().enumerate() {
        if let Some(why) = strangers_in(above, steps == 0) {
            let what = format!("the audit log {} would not be safe: {why}", path.display());
            return unfit(what, "choose a folder that only root and this server's user can write to");
        }
    }
    Ok(folder.join(name))
}

/// Looks whether lines can go to the file at `path`, and makes it. Gives its path without symbolic links before the last name.
pub fn check(path: &Path) -> Result<PathBuf, UnfitFile> {
    let path = safe_place(path)?;
    let is_linked = fs::symlink_metadata(&path).is_ok_and(|found| found.is_file() && found.nlink() > 1);
    let opened = if is_linked { Err(Error::other("it has several names")) } else { open(&path).map(drop) };
    opened.map(|()| path.clone()).map_err(|cause| UnfitFile {
        what: format!("the audit log {} cannot be opened: {cause}", path.display()),
        remedy: "name another file, or take away what is there",
    })
}

/// Why somebody else could put another file in the place of one below `folder`, if that is so.
fn strangers_in(folder: &Path, is_own: bool) -> Option<String> {
    let found = match fs::metadata(folder) {
        Ok(found) => found,
        Err(cause) => return Some(format!("{} cannot be looked at: {cause}", folder.display())),
    };
    let (owner, mode, user) = (found.uid(), found.permissions().mode(), rustix::process::geteuid().as_raw());
    if owner != 0 && owner != user {
        return Some(format!("{} belongs to another user (uid {owner})", folder.display()));
    }
    let is_open = mode & STRANGERS_WRITE != 0 && (is_own || mode & STICKY == 0);
    is_open.then(|| format!("everybody may write to {} (mode {:o})", folder.display(), mode & 0o7777))
}

/// The file. It is opened when there is something to write.
pub(super) struct LogFile {
    path: PathBuf,
    bounds: FileBounds,
    open: Option<File>,
}

impl LogFile {
    pub(super) fn at(path: PathBuf, bounds: FileBounds) -> Self {
        LogFile { path, bounds, open: None }
    }

    /// The file that has the name now: the one that is open, or another. It has room for so many bytes.
    fn current(&mut self, bytes: u64) -> io::Result<&mut File> {
        if self.open.as_ref().is_some_and(|file| !is_at(file, &self.path)) {
            self.open = None;
        }
        let mut file = match self.open.take() {
            Some(file) => file,
            None => open(&self.path)?,
        };
        let length = file.metadata()?.len();
        if self.bounds.bytes_max.is_some_and(|most| length > 0 && length.saturating_add(bytes) > most.get()) {
            self.move_away()?;
            file = open(&self.path)?;
        }
        Ok(self.open.insert(file))
    }

    /// Gives the full file another name, and the older ones the next; the oldest goes.
    fn move_away(&self) -> io::Result<()> {
        for number in (0..FULL_FILES_KEPT).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if number > 0 && error.kind() == ErrorKind::NotFound => {}
                renamed => renamed?,
            }
        }
        let file = self.place();
        tracing::info!(name: "audit_file_full", file, "the file of the audit log was full: it has another name now, and the oldest is gone");
        Ok(())
    }

    /// The name of a file that was full; of the one that is written to for 0.
    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        name.into()
    }
}

impl Out for LogFile {
    /// All of them or none; where a part cannot be taken back those that are whole.
    fn write(&mut self, lines: &[Line]) -> (usize, Result<(), Failure>) {
        let text: Vec<u8> = lines.iter().flat_map(|line| line.text.iter().copied()).collect();
        let bounds = self.bounds;
        let file = self.current(text.len() as u64).and_then(|file| bounds.leave_room(file).map(|()| file));
        let (bytes, outcome) = match file {
            Ok(file) => append(file, &text),
            Err(error) => (0, Err(error)),
        };
        match outcome {
            Ok(()) => (lines.len(), Ok(())),
            Err(error) => {
                // It is looked at anew whether its last line is whole.
                self.open = None;
                (whole(lines, bytes), Err(Failure::ForNow(error)))
            }
        }
    }

    fn reopen(&mut self) {
        self.open = None;
    }

    fn place(&self) -> String {
        self.path.display().to_string()
    }
}

/// How many of the lines lie in their first so many bytes.
fn whole(lines: &[Line], bytes: u64) -> usize {
    let mut end = 0;
    let ends = lines.iter().map(|line| {
        end += line.text.len() as u64;
        end
    });
    ends.take_while(|end| *end <= bytes).count()
}

/// Appends all of `text` or nothing. Where what was appended cannot be taken away again, as from a file that may only grow (`chattr +a`), it stays: gives how many
/// bytes are there.
fn append(file: &mut File, text: &[u8]) -> (u64, io::Result<()>) {
    let before = match file.metadata() {
        Ok(found) => found.len(),
        Err(error) => return (0, Err(error)),
    };
    let Err(error) = file.write_all(text) else { return (text.len() as u64, Ok(())) };
    let after = file.metadata().map_or(before, |found| found.len());
    let is_taken_back = after <= before || file.set_len(before).is_ok();
    (if is_taken_back { 0 } else { after - before }, Err(error))
}

/// Opens the file to append to it, and ends a line that was cut off when the machine lost its power.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).mode(0o600).custom_flags(OPEN_FLAGS).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(Error::other("it is no regular file"));
    }
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != 0 && found.uid() != user {
        return Err(Error::other(format!("it belongs to another user (uid {})", found.uid())));
    }
    let mode = found.permissions().mode();
    if mode & OTHERS != 0 {
        let closed = file.set_permissions(Permissions::from_mode(0o600));
        closed.map_err(|cause| Error::other(format!("others may open it (mode {:o}): {cause}", mode & 0o7777)))?;
        let file = path.display();
        tracing::warn!(name: "audit_file_closed", %file, "others could open the file of the audit log: its mode is 0600 now");
    }
    if found.nlink() > 1 {
        let file = path.display();
        tracing::warn!(name: "audit_file_linked", %file, "the file of the audit log has another name, too: who has that reads the log, or changes it");
    }
    let mut last = [0];
    if found.len() > 0 && file.read_at(&mut last, found.len() - 1)? == 1 && last != *b"\n" {
        file.write_all(b"\n")?;
    }
    Ok(file)
}

/// True where the open file is the one at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::symlink_metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}
