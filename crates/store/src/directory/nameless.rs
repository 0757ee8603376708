//! What counts of each file of a share with a quota, so that as much is given back as was counted.
//!
//! What a file holds changes by more than its data: attributes and lists of extents take blocks, and a file system that keeps space ahead of what
//! is written takes it back later. So what was counted of a file is known while it is open here, and becomes what it holds whenever the server has
//! changed it, and when the last who has it open closes it. It is known for some time after that, as it may hold less or more then. What is not known
//! any more counts as what the file holds when it is opened, until all is counted anew (`recount.rs`).
//!
//! A file's bytes count while it has a name, and after that while somebody has it open here. Whoever closes it last gives them back where it
//! has no name; who takes a name away has the file open meanwhile. Nothing is looked for: each descriptor is one entry more.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, MutexGuard};
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, Statx};

use crate::Identity;
use crate::directory::calls::openat;
use crate::directory::fence::Fence;
use crate::directory::quota::{BLOCK_BYTES, UNIT_BYTES, Used, part_bytes};
use crate::directory::recount::Recount;
use crate::directory::stat::{file_type, identity, stat};

/// Files are known in so many groups, each behind a lock that is never held across a call that may wait.
pub(super) const GROUPS: usize = 64;
/// So many files of a group are known at least that nobody has open any more, and twice as many at most: 65,536 of a share, 3 MiB.
const CLOSED_MAX: usize = 512;

/// What counts of the files of a store.
pub(super) struct Nameless {
    used: Arc<Used>,
    groups: [Mutex<Group>; GROUPS],
    pub(super) recount: Recount,
    /// Counts of all that was there, so far.
    round: AtomicU64,
    fence: OnceLock<Weak<Fence>>,
}

#[derive(Default)]
struct Group {
    open: HashMap<Identity, Open>,
    /// What was counted of files that nobody has open, as far as it is known: of those closed last, and of those before them.
    closed: HashMap<Identity, Left>,
    closed_before: HashMap<Identity, Left>,
}

/// What is known of one file that nobody has open.
struct Left {
    counted: u64,
    /// The round in which it was closed.
    round: u64,
}

/// What is known of one open file.
#[derive(Default)]
struct Open {
    descriptors: u32,
    /// Descriptors that there ever were.
    opened: u64,
    /// Bytes that were counted of it; `None` until it was looked at.
    counted: Option<u64>,
    /// The length up to which space was reserved through the server.
    reserved_to: u64,
}

impl Nameless {
    pub(super) fn new(used: Arc<Used>, recount: Recount) -> Arc<Self> {
        let groups = std::array::from_fn(|_| Mutex::default());
        Arc::new(Nameless { used, groups, recount, round: AtomicU64::new(0), fence: OnceLock::new() })
    }

    /// Has all that is there counted anew now and then, as long as the share has its root.
    pub(super) fn have_recounted(&self, fence: Weak<Fence>) {
        let _ = self.fence.set(fence);
    }

    pub(super) fn recount_if_due(self: &Arc<Self>) {
        if let Some(fence) = self.fence.get() {
            self.recount.begin_if_due(fence, self);
        }
    }

    pub(super) fn begin_round(&self) {
        self.round.fetch_add(1, Ordering::Relaxed);
    }

    /// Comes by a name of a file while all are counted.
    pub(super) fn come_by(&self, file: Identity, stat: &Statx) {
        let mut group = self.group(file);
        let is_open = group.open.contains_key(&file);
        let bytes = match group.counted(file) {
            Some(counted) if is_open => *counted / u64::from(stat.stx_nlink.max(1)),
            Some(counted) => {
                self.change(file, mem::replace(counted, held_bytes(stat)), held_bytes(stat));
                part_bytes(stat)
            }
            None => part_bytes(stat),
        };
        self.recount.add(file, bytes);
    }

    /// Adds what is known and was not come by: it has no name, or was made meanwhile. What was closed before is not there any more.
    pub(super) fn end_round(&self) {
        let round = self.round.load(Ordering::Relaxed);
        for (index, group) in self.groups.iter().enumerate() {
            let mut group = group.lock();
            let Group { open, closed, closed_before } = &mut *group;
            let open = open.iter().filter_map(|(file, open)| Some((*file, open.counted?)));
            for (file, counted) in open.filter(|(file, _)| !self.recount.has(*file)) {
                self.recount.add(file, counted);
            }
            for closed in [closed, closed_before] {
                closed.retain(|file, left| {
                    let was_seen = self.recount.has(*file);
                    if !was_seen && left.round == round {
                        self.recount.add(*file, left.counted);
                    }
                    was_seen || left.round == round
                });
            }
            self.recount.end_group(index);
        }
    }

    pub(super) fn set_used(&self, bytes: u64) {
        self.used.set(bytes);
    }

    /// So many bytes count at least.
    pub(super) fn raise_used(&self, bytes: u64) {
        self.used.raise(bytes);
    }

    /// Keeps what was counted of a file that nobody has open any more. Its group is locked.
    fn note_closed(&self, group: &mut Group, file: Identity, counted: u64) {
        let round = self.round.load(Ordering::Relaxed);
        let forgotten = group.note_closed(file, Left { counted, round });
        // What is come by later may have been moved to where all has been come by.
        let is_missing = |(file, left): (&Identity, &Left)| left.round == round && !self.recount.has(*file);
        if !forgotten.is_empty() {
            self.recount.forget(|| forgotten.iter().any(is_missing));
        }
    }

    /// What counts of a file becomes more or less. Its group is locked.
    fn change(&self, file: Identity, before: u64, after: u64) {
        self.recount.follow(file, before, after, || self.used.change(before, after));
    }

    fn group(&self, file: Identity) -> MutexGuard<'_, Group> {
        self.groups[(file.file % GROUPS as u64) as usize].lock()
    }

    /// A file that is known holds so many bytes now.
    pub(super) fn settle(&self, file: Identity, held_bytes: u64) {
        if let Some(counted) = self.group(file).counted(file) {
            self.change(file, mem::replace(counted, held_bytes), held_bytes);
        }
    }

    /// The length up to which space was reserved for an open file.
    pub(super) fn reserved_to(&self, file: Identity) -> u64 {
        self.group(file).open.get(&file).map_or(0, |open| open.reserved_to)
    }

    pub(super) fn change_reserved(&self, file: Identity, change: impl FnOnce(u64) -> u64) {
        if let Some(open) = self.group(file).open.get_mut(&file) {
            open.reserved_to = change(open.reserved_to);
        }
    }

    /// The file was just made, and nothing of it was counted.
    pub(super) fn note_made(&self, fd: BorrowedFd<'_>) {
        let Ok(stat) = stat(fd) else { return };
        let (file, mut group) = (identity(&stat), self.group(identity(&stat)));
        // Who has it open already has looked at it. What was counted of one that had its number before, and that another program has
        // removed, is still counted.
        if counts(&stat) && !group.open.contains_key(&file) && group.counted(file).is_none() {
            self.note_closed(&mut group, file, 0);
        }
    }
}

impl Group {
    /// What was counted of a file, if that is known.
    fn counted(&mut self, file: Identity) -> Option<&mut u64> {
        match self.open.get_mut(&file) {
            Some(open) => open.counted.as_mut(),
            None => {
                let left = self.closed.get_mut(&file).or(self.closed_before.get_mut(&file));
                left.map(|left| &mut left.counted)
            }
        }
    }

    /// Gives what is not known any more.
    fn note_closed(&mut self, file: Identity, left: Left) -> HashMap<Identity, Left> {
        self.closed.insert(file, left);
        if self.closed.len() < CLOSED_MAX {
            return HashMap::new();
        }
        mem::replace(&mut self.closed_before, mem::take(&mut self.closed))
    }
}

/// A descriptor of a file is open.
pub(super) struct Hold {
    nameless: Arc<Nameless>,
    file: Identity,
}

/// A file that was closed and held more than its length needs. When this is dropped it is looked at again: what was kept ahead may be gone.
pub(super) struct Closed {
    hold: Hold,
    fd: OwnedFd,
}

impl Hold {
    /// Counts a descriptor, where it is one of a file.
    pub(super) fn of(nameless: &Arc<Nameless>, fd: BorrowedFd<'_>) -> Option<Self> {
        let file = identity(&stat(fd).ok().filter(counts)?);
        let mut group = nameless.group(file);
        let known = group.closed.remove(&file).or(group.closed_before.remove(&file));
        let open = group.open.entry(file).or_default();
        open.descriptors += 1;
        open.opened += 1;
        open.counted = open.counted.or(known.map(|left| left.counted));
        drop(group);
        if let Ok(stat) = stat(fd) {
            let mut group = nameless.group(file);
            if let Some(open) = group.open.get_mut(&file) {
                // Its last name may have gone between being looked up and this, and its bytes with that. Who takes a name away has the
                // file open before, and has seen it with a name then.
                let unknown = if stat.stx_nlink == 0 { 0 } else { held_bytes(&stat) };
                let before = open.counted.replace(held_bytes(&stat)).unwrap_or(unknown);
                nameless.change(file, before, held_bytes(&stat));
            }
        }
        Some(Hold { nameless: Arc::clone(nameless), file })
    }

    /// The descriptor is about to be closed. With the last one go the bytes of a file without a name. What this gives is to be dropped
    /// when it is closed.
    pub(super) fn end(self, fd: BorrowedFd<'_>) -> Option<Closed> {
        loop {
            let opened = {
                let mut group = self.nameless.group(self.file);
                let open = group.open.get_mut(&self.file)?;
                if open.descriptors > 1 {
                    open.descriptors -= 1;
                    return None;
                }
                open.opened
            };
            // It stays known while the kernel is asked. Whoever has come and gone meanwhile may have taken its name.
            let stat = stat(fd);
            let mut group = self.nameless.group(self.file);
            let open = group.open.remove(&self.file)?;
            if open.opened != opened {
                group.open.insert(self.file, open);
                continue;
            }
            let (counted, stat) = (open.counted, stat.ok());
            let after = stat.as_ref().map(|stat| if stat.stx_nlink == 0 { 0 } else { held_bytes(stat) });
            if let Some(before) = counted {
                let counted = after.unwrap_or(before);
                self.nameless.change(self.file, before, counted);
                if stat.as_ref().is_none_or(|stat| stat.stx_nlink > 0) {
                    self.nameless.note_closed(&mut group, self.file, counted);
                }
            }
            drop(group);
            self.nameless.recount_if_due();
            return self.closed(fd, &stat?);
        }
    }

    fn closed(self, fd: BorrowedFd<'_>, stat: &Statx) -> Option<Closed> {
        let needed = stat.stx_size.saturating_add(2 * UNIT_BYTES);
        if stat.stx_nlink == 0 || held_bytes(stat) < needed {
            return None;
        }
        let link = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let fd = openat(CWD, link, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        Some(Closed { hold: self, fd })
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        if let Ok(stat) = stat(&self.fd) {
            self.hold.nameless.settle(self.hold.file, held_bytes(&stat));
        }
    }
}

/// Files count, and symbolic links: a long target takes a block.
fn counts(stat: &Statx) -> bool {
    matches!(file_type(stat), FileType::RegularFile | FileType::Symlink)
}

fn held_bytes(stat: &Statx) -> u64 {
    stat.stx_blocks * BLOCK_BYTES
}
