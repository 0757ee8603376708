//! A limit on the bytes that files of a share hold.
//!
//! What is there is counted once; then every change of a file's data through the store is measured by the blocks it
//! holds before and after. A write is refused where the blocks that it could need at most are more than what is left,
//! so a write into a hole may be refused a little early; one within data that is there never is. A removed file counts
//! until nobody has it open here any more (`nameless.rs`).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fd::AsFd;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use crate::directory::calls::fstat;
use crate::directory::errno::error;
use crate::directory::fence::{Fence, Wait};
use crate::directory::folder::{each_name, file_type, stat_at};
use crate::directory::nameless::Nameless;
use crate::directory::volume::Volume;
use crate::{Error, Identity, Space};

/// Changes under a quota happen one at a time for each of so many groups of files: one half of them are of the share's own file system, the
/// other half of what is mounted below.
const LOCKS: usize = 64;
/// Names counted at most when a store is opened; what is beyond counts as nothing.
const COUNTED_MAX: usize = 1 << 24;
/// Bytes in a block as `st_blocks` counts.
pub(super) const BLOCK_BYTES: u64 = 512;
/// What a write may need besides its data: the unit it begins and the one it ends in.
const UNIT_BYTES: u64 = 4096;

/// The limit and what is used of it.
pub(super) struct Quota {
    limit_bytes: u64,
    used: Arc<Used>,
    pub(super) nameless: Arc<Nameless>,
    locks: [Mutex<()>; LOCKS],
}

/// Bytes that count.
pub(super) struct Used(AtomicU64);

impl Used {
    pub(super) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// So many bytes are free again.
    pub(super) fn give_back(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Quota {
    /// Counts what is there.
    pub(super) fn measure(fence: &Fence, limit_bytes: u64) -> Result<Self, Error> {
        let used = Arc::new(Used(AtomicU64::new(count(fence)?)));
        let nameless = Nameless::new(Arc::clone(&used));
        Ok(Quota { limit_bytes, used, nameless, locks: [const { Mutex::new(()) }; LOCKS] })
    }

    /// The file system's space, but no more than the limit.
    pub(super) fn within(&self, space: Space) -> Space {
        Space { total_bytes: space.total_bytes.min(self.limit_bytes), free_bytes: space.free_bytes.min(self.left()) }
    }

    fn left(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used.0.load(Ordering::Relaxed))
    }
}

/// What a change may do to a file's blocks.
#[derive(Clone, Copy)]
pub(super) enum Growth {
    /// Data is written to this range, which may need blocks.
    Write { offset: u64, length: u64 },
    /// So many bytes are written behind the data.
    Append(u64),
    /// What of this range lies in the file is made zeros, which may need blocks.
    Zero { offset: u64, length: u64 },
    /// Blocks up to this length are asked for.
    UpTo(u64),
    /// Nothing is added.
    None,
}

/// Changes a file's data within the quota, if there is one.
pub(super) fn account<Fd: AsFd, T>(
    volume: &Volume,
    file: Identity,
    fd: Fd,
    growth: Growth,
    change: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Error> {
    let Some(quota) = &volume.quota else { return change().map_err(error) };
    let half = LOCKS / 2;
    let own = (file.file % half as u64) as usize;
    let _held = quota.locks[if file.volume == volume.identity.volume { own } else { half + own }].lock();
    let before = fstat(&fd).map_err(error)?;
    if growth.most(&before) > quota.left() {
        return Err(Error::Full);
    }
    let answer = change().map_err(error);
    if let Ok(after) = fstat(&fd) {
        let (before, after) = (held_bytes(&before), held_bytes(&after));
        quota.used.add(after.saturating_sub(before));
        quota.used.give_back(before.saturating_sub(after));
    }
    answer
}

impl Growth {
    /// The most bytes that a file may grow by.
    fn most(self, file: &Stat) -> u64 {
        let (size, held) = (u64::try_from(file.st_size).unwrap_or(0), held_bytes(file));
        let (offset, count) = match self {
            Growth::None => return 0,
            Growth::UpTo(end) => return end.saturating_sub(held),
            Growth::Write { offset, length } => (offset, length),
            Growth::Append(length) => (size, length),
            Growth::Zero { offset, length } => (offset, length.min(size.saturating_sub(offset))),
        };
        let is_dense = held >= size;
        let end = offset.saturating_add(count);
        let new = if is_dense { end.saturating_sub(size.max(offset)) } else { count };
        if new == 0 || (is_dense && end <= held) {
            return 0;
        }
        new.checked_next_multiple_of(UNIT_BYTES).unwrap_or(u64::MAX)
    }
}

fn held_bytes(file: &Stat) -> u64 {
    u64::try_from(file.st_blocks).unwrap_or(0) * BLOCK_BYTES
}

/// The bytes held by all files below the root; a file with several names counts in parts.
fn count(fence: &Fence) -> Result<u64, Error> {
    let mut total = 0u64;
    let mut seen = 0;
    let mut waiting = vec![Vec::new()];
    while let Some(path) = waiting.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let Ok(folder) = fence.open(&path, flags, Wait::May) else { continue };
        let visit = |entry: crate::directory::folder::Listed<'_>| {
            seen += 1;
            let Ok(stat) = stat_at(&folder, entry.name) else { return };
            match file_type(&stat) {
                FileType::RegularFile => total += stat.stx_blocks * BLOCK_BYTES / u64::from(stat.stx_nlink.max(1)),
                // A path that begins with a slash leads out of the root.
                FileType::Directory if path.is_empty() => waiting.push(entry.name.to_vec()),
                FileType::Directory => waiting.push([path.as_slice(), entry.name].join(&b'/')),
                _ => {}
            }
        };
        each_name(&folder, visit).map_err(error)?;
        if seen > COUNTED_MAX {
            break;
        }
    }
    Ok(total)
}
