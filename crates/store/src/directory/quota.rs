//! A limit on the bytes that files of a share hold.
//!
//! What is there is counted once (`quota_walk.rs`); then what counts of a file becomes the blocks that it holds with every change through the store, of its
//! data or of what is kept with it, and when it is closed (`nameless.rs`). A write is refused where the blocks that it could need at most are
//! more than what is left, so a write into a hole may be refused a little early; one within data that is there, or within space that was reserved
//! since the file was opened, never is. A removed file counts until nobody has it open here any more. Directories do not count.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use rustix::fd::AsFd;
use rustix::fs::{Stat, Statx};
use rustix::io::Errno;

use crate::directory::calls::fstat;
use crate::directory::errno::error;
use crate::directory::fence::Fence;
use crate::directory::nameless::Nameless;
use crate::directory::neighbours;
use crate::directory::quota_walk::{Missed, open, walk};
use crate::directory::recount::Recount;
use crate::directory::stat::file_of;
use crate::{Error, Identity, Space};

/// Changes under a quota happen one at a time for each of so many groups of files: one half of them are of the share's own file system, the
/// other half of what is mounted below.
const LOCKS: usize = 2 * neighbours::LOCKS;
/// Bytes in a block as `st_blocks` counts.
pub(super) const BLOCK_BYTES: u64 = 512;
/// What a write may need besides its data: the unit it begins and the one it ends in.
pub(super) const UNIT_BYTES: u64 = 4096;

/// The bytes that may be used, which may become others at any time.
pub(super) type Limit = Arc<AtomicU64>;

/// The limit and what is used of it.
pub(super) struct Quota {
    /// The root's own file system.
    volume: u64,
    limit: Limit,
    used: Arc<Used>,
    pub(super) nameless: Arc<Nameless>,
    locks: [Mutex<()>; LOCKS],
}

/// Bytes that count.
pub(super) struct Used(AtomicU64);

impl Used {
    pub(super) fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn raise(&self, bytes: u64) {
        self.0.fetch_max(bytes, Ordering::Relaxed);
    }

    /// What was counted with so many bytes counts with so many now.
    pub(super) fn change(&self, before: u64, after: u64) {
        if after >= before {
            self.0.fetch_add(after - before, Ordering::Relaxed);
        } else {
            let less = |used: u64| Some(used.saturating_sub(before - after));
            let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
    }
}

impl Quota {
    /// Counts what is there. What cannot be looked at counts as nothing, and is told in the log.
    pub(super) fn measure(fence: &Fence, volume: u64, folder: &Path, limit: Limit) -> Self {
        let (began, mut total) = (Instant::now(), 0);
        let missed = walk(|step| Some(open(fence, step)), |_, stat| total += part_bytes(stat));
        if let Some(Missed { denied, lost, error: Some(error) }) = missed {
            let folder = folder.display();
            tracing::warn!(name: "quota_incomplete", %folder, denied, lost, %error, "what could not be looked at does not count for the share's quota");
        }
        let used = Arc::new(Used(AtomicU64::new(total)));
        let nameless = Nameless::new(Arc::clone(&used), Recount::new(began.elapsed()));
        Quota { volume, limit, used, nameless, locks: [const { Mutex::new(()) }; LOCKS] }
    }

    /// Keeps others from changing a file.
    fn lock(&self, file: Identity) -> MutexGuard<'_, ()> {
        let own = neighbours::slot(file);
        self.locks[if file.volume == self.volume { own } else { neighbours::LOCKS + own }].lock()
    }

    /// The file system's space, but no more than the limit.
    pub(super) fn within(&self, space: Space) -> Space {
        let limit_bytes = self.limit.load(Ordering::Relaxed);
        Space { total_bytes: space.total_bytes.min(limit_bytes), free_bytes: space.free_bytes.min(self.left()) }
    }

    /// Bytes that are counted.
    pub(super) fn used(&self) -> u64 {
        self.used.0.load(Ordering::Relaxed)
    }

    /// [`Error::Full`] where there is no room for a file of one unit.
    pub(super) fn check_room_for_unit(&self) -> Result<(), Error> {
        if self.left() >= UNIT_BYTES {
            return Ok(());
        }
        self.nameless.recount_if_due();
        Err(Error::Full)
    }

    pub(super) fn left(&self) -> u64 {
        self.limit.load(Ordering::Relaxed).saturating_sub(self.used())
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
    quota: Option<&Quota>,
    file: Identity,
    fd: Fd,
    growth: Growth,
    change: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Error> {
    let Some(quota) = quota else { return change().map_err(error) };
    let _held = quota.lock(file);
    let before = fstat(&fd).map_err(error)?;
    let may_need = |reserved_to| growth.most(&before, reserved_to) > quota.left();
    if may_need(0) && may_need(quota.nameless.reserved_to(file_of(&before))) {
        quota.nameless.recount_if_due();
        return Err(Error::Full);
    }
    let answer = change().map_err(error);
    if let Ok(after) = fstat(&fd) {
        quota.nameless.settle(file_of(&after), held_bytes(&after));
        growth.note_reserved(&quota.nameless, &after);
    }
    answer
}

/// Notes that space up to a length was reserved in steps.
pub(super) fn note_reserved<Fd: AsFd>(quota: Option<&Quota>, file: Identity, fd: Fd, up_to: u64) {
    let Some(quota) = quota else { return };
    let _held = quota.lock(file);
    if let Ok(after) = fstat(&fd) {
        Growth::UpTo(up_to).note_reserved(&quota.nameless, &after);
    }
}

impl Growth {
    /// The most bytes that a file may grow by, for which space was reserved up to a length. What a file holds beyond its data is no such space:
    /// attributes and lists of extents stay beyond them whatever is written.
    fn most(self, file: &Stat, reserved_to: u64) -> u64 {
        let size = u64::try_from(file.st_size).unwrap_or(0);
        let is_dense = held_bytes(file) >= size;
        let (offset, count) = match self {
            Growth::None => return 0,
            Growth::UpTo(end) => return whole_units(end.saturating_sub(size.max(reserved_to))),
            Growth::Write { offset, length } => (offset, length),
            Growth::Append(length) => (size, length),
            Growth::Zero { offset, length } => (offset, length.min(size.saturating_sub(offset))),
        };
        let end = offset.saturating_add(count);
        if end <= reserved_to && (is_dense || offset >= size) {
            return 0;
        }
        whole_units(if is_dense { end.saturating_sub(whole_units(size).max(offset)) } else { count })
    }

    /// Notes up to which length space is reserved now, and that it is not any more where a file may have lost some.
    fn note_reserved(self, nameless: &Nameless, after: &Stat) {
        match self {
            Growth::UpTo(end) if held_bytes(after) >= end => {
                nameless.change_reserved(file_of(after), |before| before.max(end));
            }
            Growth::None => nameless.change_reserved(file_of(after), |_| 0),
            Growth::UpTo(_) | Growth::Write { .. } | Growth::Append(_) | Growth::Zero { .. } => {}
        }
    }
}

fn whole_units(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(UNIT_BYTES).unwrap_or(u64::MAX)
}

fn held_bytes(file: &Stat) -> u64 {
    u64::try_from(file.st_blocks).unwrap_or(0) * BLOCK_BYTES
}

/// A file with several names counts in parts.
pub(super) fn part_bytes(file: &Statx) -> u64 {
    file.stx_blocks * BLOCK_BYTES / u64::from(file.stx_nlink.max(1))
}
