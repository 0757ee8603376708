//! For tests: a small disk for a data folder, which can be filled.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A file system in memory.
pub(crate) struct SmallDisk(TempDir);

impl SmallDisk {
    /// With room for `kib` and for so many files. `None` where we may not mount.
    pub(crate) fn new(kib: usize, files: usize) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("mode=700,size={kib}k,nr_inodes={files}"), "tmpfs"]);
        mount.arg(place.path()).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| SmallDisk(place))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn filling(&self, number: usize) -> PathBuf {
        self.path().join(format!("filling {number}"))
    }

    /// Takes all the room that is left, to the last byte.
    pub(crate) fn fill(&self) {
        let mut filling = File::create(self.filling(0)).unwrap();
        while filling.write_all(&[1; 512]).is_ok() {}
    }

    /// Makes files as long as it takes any.
    pub(crate) fn fill_with_files(&self) {
        (0..).take_while(|number| File::create(self.filling(*number)).is_ok()).for_each(drop);
    }

    /// Gives back what [`SmallDisk::fill`] took, or one of the files.
    pub(crate) fn give_room(&self) {
        fs::remove_file(self.filling(0)).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
