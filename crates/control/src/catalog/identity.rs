//! Which files a catalog is, whatever their names.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Which file it is: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity(u64, u64);

impl FileIdentity {
    /// Of what `path` leads to. The file is not opened: closing it again would take away the locks of this process's connections.
    pub(super) fn at(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(FileIdentity(found.dev(), found.ino()))
    }
}

/// The catalog's own file, its log and the log's index. Where one of them is another, or gone, whoever has the old ones open neither hears of what others
/// change nor can tell them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CatalogFiles([Option<FileIdentity>; 3]);

impl CatalogFiles {
    /// Those that have the names of the catalog at `path` now.
    pub(super) fn at(path: &Path) -> Self {
        CatalogFiles(["", "-wal", "-shm"].map(|end| FileIdentity::at(&beside(path, end)).ok()))
    }
}

/// The file that SQLite keeps beside `path` under this ending.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}
