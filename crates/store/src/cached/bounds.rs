//! How much may be known, and what each part of it is charged.

use super::entry::{Entry, KEPT_BYTES_MAX};

/// What an entry takes, with its place in the table and all that may be kept of it.
pub(super) const ENTRY_BYTES: u64 = (size_of::<Entry>() + 64 + KEPT_BYTES_MAX) as u64;
/// What the kernel holds for an inode that is watched.
pub(super) const WATCH_BYTES: u64 = 1088;
/// What a name takes besides its letters.
pub(super) const NAME_BYTES: u64 = 224;
/// Of the inodes that a user may have watched this part.
const WATCHES_PART: u64 = 4;

/// How much may be known.
#[derive(Clone, Copy, Debug)]
pub struct CacheBounds {
    /// Bytes for what is known of files and names, as well as can be told.
    pub bytes: u64,
    /// Descriptors that are kept open.
    pub descriptors: usize,
    /// Where a file gets a higher number so many are in use that none is kept open.
    pub highest_descriptor: i32,
    /// Keep what is looked for the first time already, though that may take a watch: for tests.
    pub learns_at_once: bool,
}

impl Default for CacheBounds {
    /// For a process of which nothing is known.
    fn default() -> Self {
        CacheBounds { bytes: 64 << 20, descriptors: 256, highest_descriptor: 512, learns_at_once: false }
    }
}

impl CacheBounds {
    /// Bytes for what is known of files, of names, and of which names a directory has.
    pub(super) fn parts(&self) -> (u64, u64, u64) {
        (self.bytes / 2, self.bytes / 8 * 3, self.bytes / 8)
    }

    /// What is charged for a file that the kernel tells of: so much that no more are known than it lets be watched.
    pub(super) fn watched_charge(&self) -> u64 {
        let watches = (watches_max() / WATCHES_PART).max(1);
        (ENTRY_BYTES + WATCH_BYTES).max(self.parts().0.div_ceil(watches))
    }
}

/// How many inodes a user may have watched.
fn watches_max() -> u64 {
    let told = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches");
    told.ok().and_then(|told| told.trim().parse().ok()).unwrap_or(8192)
}
