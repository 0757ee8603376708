//! What is open of the files of a share with a quota, so that a file without a name counts until it is closed.
//!
//! A file's bytes count while it has a name, and after that while somebody has it open here. Whoever closes it last gives them back where it
//! has no name; who takes a name away has the file open meanwhile. Nothing is looked for: each descriptor is one entry more.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, Mode, OFlags};

use crate::Identity;
use crate::directory::calls::openat;
use crate::directory::descriptor::Descriptor;
use crate::directory::folder::{file_type, identity, stat};
use crate::directory::quota::{BLOCK_BYTES, Used};
use crate::directory::volume::Volume;

/// Files are known in so many groups, each behind a lock that is never held across a call that may wait.
const GROUPS: usize = 64;

/// The open files of a store.
pub(super) struct Nameless {
    used: Arc<Used>,
    groups: [Mutex<HashMap<Identity, Known>>; GROUPS],
}

/// What is known of one open file.
#[derive(Default)]
struct Known {
    descriptors: u32,
    /// Descriptors that there ever were.
    opened: u64,
    /// Its bytes count: it was seen with a name, or they were counted anew.
    counts: bool,
}

impl Nameless {
    pub(super) fn new(used: Arc<Used>) -> Arc<Self> {
        Arc::new(Nameless { used, groups: std::array::from_fn(|_| Mutex::default()) })
    }

    /// Looks at a file or changes what is known of it; of what is not open nothing is.
    fn with<T>(&self, file: Identity, look: impl FnOnce(&mut Known) -> T) -> T {
        let mut group = self.groups[(file.file % GROUPS as u64) as usize].lock();
        let known = group.entry(file).or_default();
        let answer = look(known);
        if known.descriptors == 0 {
            group.remove(&file);
        }
        answer
    }
}

/// A descriptor of a file is open.
pub(super) struct Hold {
    nameless: Arc<Nameless>,
    file: Identity,
}

impl Hold {
    /// Counts a descriptor, where it is one of a file.
    pub(super) fn of(nameless: &Arc<Nameless>, fd: BorrowedFd<'_>) -> Option<Self> {
        let file = identity(&stat(fd).ok().filter(|stat| file_type(stat) == FileType::RegularFile)?);
        nameless.with(file, |known| {
            known.descriptors += 1;
            known.opened += 1;
        });
        let hold = Hold { nameless: Arc::clone(nameless), file };
        let Ok(stat) = stat(fd) else { return Some(hold) };
        // Its last name may have gone between being looked up and this, and its bytes with that. Who takes a name away has the file open
        // before, and has seen it with a name then.
        let counted = nameless.with(file, |known| std::mem::replace(&mut known.counts, true));
        if stat.stx_nlink == 0 && !counted {
            nameless.used.add(stat.stx_blocks * BLOCK_BYTES);
        }
        Some(hold)
    }

    /// The descriptor is about to be closed. With the last one go the bytes of a file without a name.
    pub(super) fn end(self, fd: BorrowedFd<'_>) {
        let Hold { nameless, file } = self;
        loop {
            let (is_last, opened) = nameless.with(file, |known| {
                let is_last = known.descriptors == 1;
                known.descriptors -= u32::from(!is_last);
                (is_last, known.opened)
            });
            if !is_last {
                return;
            }
            // It stays known while the kernel is asked. Whoever has come and gone meanwhile may have taken its name.
            let stat = stat(fd);
            let is_over = nameless.with(file, |known| {
                let is_over = known.opened == opened;
                known.descriptors -= u32::from(is_over);
                is_over
            });
            if is_over {
                if let Ok(stat) = stat
                    && stat.stx_nlink == 0
                {
                    nameless.used.give_back(stat.stx_blocks * BLOCK_BYTES);
                }
                return;
            }
        }
    }
}

/// Opens a file whose name is about to be taken away, where there is a quota. It is to be closed when that is done.
pub(super) fn about_to_go(volume: &Volume, folder: impl AsFd, name: &[u8]) -> Option<Descriptor> {
    let nameless = volume.nameless()?;
    let fd = openat(folder, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    Some(Descriptor::new(fd, (volume.waits, volume.identity.volume), false).counted(Some(nameless)))
}
