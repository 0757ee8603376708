//! Kinds of file systems.

use std::io;
use std::path::Path;

use rustix::fs::StatFs;

use crate::directory::calls::statfs;

/// A kind of file system, by the number that `statfs` has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem(u64);

impl FileSystem {
    /// bcachefs.
    pub const BCACHEFS: Self = FileSystem(0xCA45_1A4E);
    /// btrfs.
    pub const BTRFS: Self = FileSystem(0x9123_683E);
    /// ext2, ext3 and ext4.
    pub const EXT4: Self = FileSystem(0xEF53);
    /// F2FS.
    pub const F2FS: Self = FileSystem(0xF2F5_2010);
    /// overlayfs.
    pub const OVERLAYFS: Self = FileSystem(0x794C_7630);
    /// ramfs.
    pub const RAMFS: Self = FileSystem(0x8584_58F6);
    /// tmpfs.
    pub const TMPFS: Self = FileSystem(0x0102_1994);
    /// XFS.
    pub const XFS: Self = FileSystem(0x5846_5342);
    /// ZFS.
    pub const ZFS: Self = FileSystem(0x2FC1_2FC1);

    /// The one that this path lies on.
    pub fn at(path: &Path) -> io::Result<Self> {
        Ok(FileSystem::of(&statfs(path)?))
    }

    /// The one that `statfs` tells of. Its number has 32 bits, which some machines extend by their sign.
    pub(super) fn of(told: &StatFs) -> Self {
        FileSystem(told.f_type as u64 & 0xFFFF_FFFF)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_what_it_lies_on() {
        assert_eq!(FileSystem::at(Path::new("/dev/shm")).unwrap(), FileSystem::TMPFS);
        assert!(FileSystem::at(Path::new("/proc/nothing")).is_err());
    }
}
