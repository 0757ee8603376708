//! Catalogs that lie in a folder which is to be shared: backups, and copies of a data folder. Whoever may read the share has the keys of every account in
//! them, and what is needed to guess every password.

use std::collections::VecDeque;
use std::fs::{self, DirEntry};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::{Mode, OFlags, open};

use crate::catalog::{ShareRecord, Source, is_of_catalog};
use crate::look::Look;
use crate::served_folder::HANGS_AFTER;

/// So many are named: the first says enough.
const FOUND_MAX: usize = 3;
/// Bytes of a file that tell what it is.
const HEADER_BYTES: usize = 100;

/// The first catalogs in the folder of a share, as far as they are found in two seconds: those that lie least deep come first.
pub fn catalogs_in(share: &ShareRecord) -> Vec<PathBuf> {
    let Source::Folder { path, .. } = &share.source else { return Vec::new() };
    let (path, until) = (path.clone(), Instant::now() + HANGS_AFTER);
    // Something in it may hang all the same.
    let look = Look::begin(move || found(&path, until));
    look.ok().and_then(|look| look.wait(until + HANGS_AFTER)).unwrap_or_default()
}

fn found(folder: &Path, until: Instant) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), VecDeque::from([folder.to_owned()]));
    while let Some(folder) = folders.pop_front() {
        let mut entries: Vec<DirEntry> = fs::read_dir(folder).into_iter().flatten().flatten().collect();
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            if found.len() == FOUND_MAX || Instant::now() >= until {
                return found;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push_back(entry.path()),
                Ok(kind) if kind.is_file() && is_catalog(&entry.path()) => found.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found
}

/// True of a catalog, in use or a copy. Nothing is followed and nothing is waited for: another program may have put something else there just now.
fn is_catalog(file: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let Ok(opened) = open(file, flags, Mode::empty()) else { return false };
    let mut header = [0; HEADER_BYTES];
    let read = fs::File::from(opened).read_exact_at(&mut header, 0);
    let name = file.file_name().unwrap_or_default();
    read.is_ok() && is_of_catalog(name, &header)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_no_file_or_too_late_is_not_looked_at() {
        let place = tempfile::tempdir().unwrap();
        let mut header = [0; HEADER_BYTES];
        header[..16].copy_from_slice(b"SQLite format 3\0");
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("deep/deeper")).unwrap();
        for name in ["deep/deeper/catalog.db", "deep/catalog.db.schema-3", "catalog.db", "z/catalog.db"] {
            fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            fs::write(at(name), header).unwrap();
        }
        fs::write(at("other.db"), header).unwrap();
        fs::write(at("short"), "SQLite format 3\0").unwrap();
        std::os::unix::fs::symlink(at("catalog.db"), at("a link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let all = found(place.path(), Instant::now() + Duration::from_secs(60));
        assert_eq!(all, [at("catalog.db"), at("deep/catalog.db.schema-3"), at("z/catalog.db")]);
        assert!(found(place.path(), Instant::now()).is_empty());
        assert!(!is_catalog(&at("fifo")) && !is_catalog(&at("a link")) && !is_catalog(&at("deep")));
    }
}
