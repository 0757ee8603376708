//! What is to be copied: the files and directories below one, on this machine or on a server.

use std::fs;
use std::path::Path;
use std::time::SystemTime;

use ::client::{FileAttributes, FileTime, Tree};
use control::Error;

use super::failed;

/// Names in one copy: their number is bounded by memory, at about 200 bytes each.
const NAMES_MAX: usize = 50_000_000;

/// A tree's directories, each after those it is in, and its files. Paths are relative, with `/` between the parts.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) directories: Vec<String>,
    pub(crate) files: Vec<Item>,
    /// Links, devices and names that are no text, which are not copied.
    pub(crate) left_out: Vec<String>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) written: FileTime,
}

impl Listing {
    fn check(&self) -> Result<(), Error> {
        match self.files.len() + self.directories.len() < NAMES_MAX {
            true => Ok(()),
            false => {
                Err(Error::machine("the directory holds too many names for one copy", "copy its parts one by one"))
            }
        }
    }
}

/// What is below a directory on a server.
pub(crate) async fn remote(tree: &Tree, root: &str) -> Result<Listing, Error> {
    let mut listing = Listing { directories: vec![String::new()], ..Listing::default() };
    let mut next = 0;
    while let Some(directory) = listing.directories.get(next).cloned() {
        next += 1;
        for entry in tree.entries(&joined(root, &directory)).await.map_err(failed)? {
            let path = joined(&directory, &entry.name);
            if entry.facts.attributes.contains(FileAttributes::REPARSE_POINT) {
                listing.left_out.push(path);
            } else if entry.facts.is_directory() {
                listing.directories.push(path);
            } else {
                listing.files.push(Item { path, bytes: entry.facts.end_of_file, written: entry.facts.written });
            }
        }
        listing.check()?;
    }
    Ok(listing)
}

/// What is below a directory of this machine.
pub(crate) fn local(root: &Path) -> Result<Listing, Error> {
    let mut listing = Listing { directories: vec![String::new()], ..Listing::default() };
    let mut next = 0;
    while let Some(directory) = listing.directories.get(next).cloned() {
        next += 1;
        let folder = root.join(&directory);
        let entries = fs::read_dir(&folder).map_err(|cause| unreadable(&folder, &cause))?;
        for entry in entries {
            let entry = entry.map_err(|cause| unreadable(&folder, &cause))?;
            let Ok(name) = entry.file_name().into_string() else {
                listing.left_out.push(entry.path().display().to_string());
                continue;
            };
            let path = joined(&directory, &name);
            let facts = entry.metadata().map_err(|cause| unreadable(&entry.path(), &cause))?;
            if facts.is_dir() {
                listing.directories.push(path);
            } else if facts.is_file() {
                listing.files.push(item(path, &facts));
            } else {
                listing.left_out.push(path);
            }
        }
        listing.check()?;
    }
    Ok(listing)
}

/// A file of this machine.
pub(crate) fn item(path: String, facts: &fs::Metadata) -> Item {
    let written = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Item { path, bytes: facts.len(), written: written.into() }
}

/// A path below another; either may be empty.
pub(crate) fn joined(above: &str, below: &str) -> String {
    match (above.is_empty(), below.is_empty()) {
        (true, _) => below.to_owned(),
        (false, true) => above.to_owned(),
        (false, false) => format!("{above}/{below}"),
    }
}

pub(crate) fn unreadable(path: &Path, cause: &std::io::Error) -> Error {
    Error::machine(format!("cannot read {}: {cause}", path.display()), "check the path and its permissions")
}

pub(crate) fn unwritable(path: &Path, cause: &std::io::Error) -> Error {
    Error::machine(format!("cannot write {}: {cause}", path.display()), "check the path, its permissions and the disk")
}
