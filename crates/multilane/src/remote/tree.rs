//! What is to be copied: the files and directories below one, on this machine or on a server.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, DirEntry};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ::client::{FileAttributes, FileTime, Tree};
use control::Error;
use store::{fold, shown_name, stored_name};

use super::failed;
use crate::table::printable;

/// Names in one copy: their number is bounded by memory, at about 200 bytes each.
const NAMES_MAX: usize = 50_000_000;

/// What servers of ours keep for themselves in a share, by which no client's file can be called.
const OF_THE_SERVER: &str = ".multilane";

/// A tree's directories, each after those it is in, and its files. Paths are relative, with `/` between the parts, which are names as SMB says them:
/// what Windows has not in names is said by private characters.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) directories: Vec<String>,
    pub(crate) files: Vec<Item>,
    /// What is not to be copied, and why, in words that follow its name.
    pub(crate) left_out: Vec<(String, &'static str)>,
    /// What cannot be copied, and why.
    pub(crate) failed: Vec<(String, Error)>,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) written: FileTime,
}

impl Listing {
    fn of_root() -> Self {
        Listing { directories: vec![String::new()], ..Listing::default() }
    }

    fn check(&self) -> Result<(), Error> {
        match self.files.len() + self.directories.len() < NAMES_MAX {
            true => Ok(()),
            false => {
                Err(Error::machine("the directory holds too many names for one copy", "copy its parts one by one"))
            }
        }
    }

    /// A directory that cannot be looked into: the others are copied all the same, but nothing is without the first.
    fn cannot_list(&mut self, directory: String, why: Error) -> Result<(), Error> {
        if directory.is_empty() {
            return Err(why);
        }
        self.failed.push((directory, why));
        Ok(())
    }
}

/// What is below a directory on a server.
pub(crate) async fn remote(tree: &Tree, root: &str) -> Result<Listing, Error> {
    let mut listing = Listing::of_root();
    let mut next = 0;
    while let Some(directory) = listing.directories.get(next).cloned() {
        next += 1;
        let entries = match tree.entries(&joined(root, &directory)).await.map_err(failed) {
            Ok(entries) => entries,
            Err(why) => {
                listing.cannot_list(directory, why)?;
                continue;
            }
        };
        for entry in entries {
            if !leads_into_its_directory(&entry.name) {
                let why =
                    Error::machine("the server gives a name that would lead elsewhere", "do not trust that server");
                listing.failed.push((joined(&directory, &entry.name), why));
                continue;
            }
            let path = joined(&directory, &entry.name);
            if entry.facts.attributes.contains(FileAttributes::REPARSE_POINT) {
                listing.left_out.push((path, NEITHER));
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

/// True for a name that is one here, whatever a server says.
fn leads_into_its_directory(name: &str) -> bool {
    let stored = stored_name(name);
    !matches!(&stored[..], b"" | b"." | b"..")
        && !stored.contains(&b'/')
        && !stored.contains(&0)
        && !name.contains('\\')
}

const NEITHER: &str = "is no file and no directory";

/// What is below a directory of this machine. Of names that differ in case alone the first is copied: a server takes the others for the same.
pub(crate) fn local(root: &Path) -> Result<Listing, Error> {
    let mut listing = Listing::of_root();
    let mut next = 0;
    while let Some(directory) = listing.directories.get(next).cloned() {
        next += 1;
        let folder = on_disk(root, &directory);
        let entries = fs::read_dir(&folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
        let mut entries = match entries.map_err(|cause| unreadable(&folder, &cause)) {
            Ok(entries) => entries,
            Err(why) => {
                listing.cannot_list(directory, why)?;
                continue;
            }
        };
        entries.sort_by_key(DirEntry::file_name);
        let mut known: HashMap<String, String> = HashMap::new();
        for entry in entries {
            let name = shown_name(entry.file_name().as_bytes());
            let path = joined(&directory, &name);
            if directory.is_empty() && fold(&name) == fold(OF_THE_SERVER) {
                listing.left_out.push((path, "is what a server keeps for itself"));
                continue;
            }
            if let Some(first) = known.get(&fold(&name)) {
                listing.failed.push((path, same_name(first)));
                continue;
            }
            match entry.metadata() {
                Err(cause) => listing.failed.push((path, unreadable(&entry.path(), &cause))),
                Ok(facts) if facts.is_dir() => listing.directories.push(path),
                Ok(facts) if facts.is_file() => listing.files.push(item(path, &facts)),
                Ok(_) => listing.left_out.push((path, NEITHER)),
            }
            known.insert(fold(&name), name);
        }
        listing.check()?;
    }
    Ok(listing)
}

fn same_name(first: &str) -> Error {
    Error::conflict(
        format!("a server takes it for {}, which differs in upper and lower case alone", printable(first)),
        "give one of them another name, and give the command again",
    )
}

/// Where something of a listing is on this machine, below `root`.
pub(crate) fn on_disk(root: &Path, path: &str) -> PathBuf {
    // Joining nothing would add a separator, which makes a directory of the name.
    let names = path.split('/').filter(|name| !name.is_empty());
    names.fold(root.to_owned(), |above, name| above.join(OsString::from_vec(stored_name(name))))
}

/// The same as people read it.
pub(crate) fn for_people(path: &str) -> String {
    on_disk(Path::new(""), path).to_string_lossy().into_owned()
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

/// A path of this machine for people: a server may have chosen the names in it.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.display().to_string())
}

pub(crate) fn unreadable(path: &Path, cause: &std::io::Error) -> Error {
    Error::machine(format!("cannot read {}: {cause}", shown(path)), "check the path and its permissions")
}

pub(crate) fn unwritable(path: &Path, cause: &std::io::Error) -> Error {
    Error::machine(format!("cannot write {}: {cause}", shown(path)), "check the path, its permissions and the disk")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(files: &[&[u8]]) -> (tempfile::TempDir, Listing) {
        let place = tempfile::tempdir().unwrap();
        for path in files {
            let path = place.path().join(OsString::from_vec(path.to_vec()));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        let listing = local(place.path()).unwrap();
        (place, listing)
    }

    fn paths(listing: &Listing) -> Vec<&str> {
        let mut paths: Vec<&str> = listing.files.iter().map(|file| &*file.path).collect();
        paths.sort_unstable();
        paths
    }

    #[test]
    fn of_names_that_differ_in_case_alone_one_is_copied_and_the_others_are_told() {
        let (_place, listing) =
            made(&[b"README", b"readme", b"Dir/a", b"dir/A", b"dir/b", "ä".as_bytes(), "Ä".as_bytes()]);
        assert_eq!(paths(&listing), ["Dir/a", "README", "Ä"]);
        let failed: Vec<&str> = listing.failed.iter().map(|(path, _)| &**path).collect();
        assert_eq!(failed, ["dir", "readme", "ä"]);
        assert!(listing.failed[1].1.what().contains("README"), "{:?}", listing.failed);
    }

    #[test]
    fn names_that_windows_has_not_are_said_as_the_server_says_them_and_found_again() {
        let (place, listing) = made(&[b"12:30 notes", b"q?q", b"a\\b", b"no \xff text"]);
        let wanted = ["12\u{f03a}30 notes", "a\u{f05c}b", "no \u{f0ff} text", "q\u{f03f}q"];
        assert_eq!(paths(&listing), wanted);
        for path in wanted {
            assert_eq!(fs::read(on_disk(place.path(), path)).unwrap(), b"x", "{path}");
        }
        assert_eq!(for_people(wanted[0]), "12:30 notes");
    }

    #[test]
    fn no_name_of_a_server_leads_elsewhere() {
        for name in ["..", ".", "", "a/b", "../x", "a\\b", "\0", "/etc"] {
            assert!(!leads_into_its_directory(name), "{name:?}");
        }
        for name in ["a", "...", "\u{f05c}", "\u{f02e}\u{f02e}", "\u{f02f}"] {
            assert!(leads_into_its_directory(name), "{name:?}");
            assert_eq!(on_disk(Path::new("/top"), name).parent(), Some(Path::new("/top")), "{name:?}");
        }
    }

    #[test]
    fn no_name_of_a_server_tells_a_terminal_what_to_do() {
        let path = Path::new("to/a\u{1b}]0;b\u{7}\nc\u{202e}");
        let cause = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        for told in [unreadable(path, &cause), unwritable(path, &cause)] {
            assert!(told.what().contains(r"to/a\u{1b}]0;b\u{7}\u{a}c\u{202e}: "), "{}", told.what());
        }
    }

    #[test]
    fn what_a_server_keeps_for_itself_is_left_where_it_is() {
        let (_place, listing) = made(&[b".multilane/x", b"a/.multilane/y", b"b"]);
        assert_eq!(paths(&listing), ["a/.multilane/y", "b"]);
        assert_eq!(listing.left_out.len(), 1);
    }
}
