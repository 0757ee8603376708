//! The audit log as a file: only its owner may read it, and it may be moved away at any time, as logrotate does.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Error, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::writer::{Failure, Line, Out};

/// O_NOFOLLOW and O_NONBLOCK of Linux: no symbolic link is followed, and nobody waits for the other end of a pipe.
const OPEN_FLAGS: i32 = (rustix::fs::OFlags::NOFOLLOW.union(rustix::fs::OFlags::NONBLOCK)).bits() as i32;
/// Others than the owner and its group may write.
const STRANGERS_WRITE: u32 = 0o002;
/// Only who owns a file in such a folder may move it.
const STICKY: u32 = 0o1000;

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

/// Looks whether lines can go to the file at `path`, and makes it. Gives its path without symbolic links before the last name.
pub fn check(path: &Path) -> Result<PathBuf, UnfitFile> {
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
    let path = folder.join(name);
    match open(&path) {
        Ok(_) => Ok(path),
        Err(cause) => {
            let what = format!("the audit log {} cannot be opened: {cause}", path.display());
            unfit(what, "name another file, or take away what is there")
        }
    }
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
    open: Option<File>,
}

impl LogFile {
    pub(super) fn at(path: PathBuf) -> Self {
        LogFile { path, open: None }
    }

    /// The file that has the name now: the one that is open, or another.
    fn current(&mut self) -> io::Result<&mut File> {
        if self.open.as_ref().is_some_and(|file| !is_at(file, &self.path)) {
            self.open = None;
        }
        match &mut self.open {
            Some(file) => Ok(file),
            none => Ok(none.insert(open(&self.path)?)),
        }
    }
}

impl Out for LogFile {
    /// All of them or none.
    fn write(&mut self, lines: &[Line]) -> (usize, Result<(), Failure>) {
        let outcome = self.current().and_then(|file| {
            let text: Vec<u8> = lines.iter().flat_map(|line| line.text.iter().copied()).collect();
            append(file, &text)
        });
        match outcome {
            Ok(()) => (lines.len(), Ok(())),
            Err(error) => {
                // It is looked at anew whether its last line is whole.
                self.open = None;
                (0, Err(Failure::ForNow(error)))
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

/// Appends all of `text` or nothing.
fn append(file: &mut File, text: &[u8]) -> io::Result<()> {
    let before = file.metadata()?.len();
    let written = file.write_all(text);
    if written.is_err() && file.metadata()?.len() > before {
        file.set_len(before)?;
    }
    written
}

/// Opens the file to append to it, and ends a line that was cut off when the machine lost its power.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).mode(0o600).custom_flags(OPEN_FLAGS).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() || found.nlink() > 1 {
        return Err(Error::other("it is no regular file with one name"));
    }
    let user = rustix::process::geteuid().as_raw();
    if found.uid() != 0 && found.uid() != user {
        return Err(Error::other(format!("it belongs to another user (uid {})", found.uid())));
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
