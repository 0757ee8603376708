//! The folders that this process serves. One may lie inside another, so that a file is reached through both, and each has a reserved folder of
//! its own.

use std::ffi::CStr;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::Identity;
use crate::directory::calls::openat;
use crate::directory::fence::Fence;
use crate::directory::folder::{identity, stat};

/// A path has at most 4095 bytes, so nothing lies deeper.
const DEPTH_MAX: usize = 2048;

static SERVED: Mutex<Vec<Weak<Root>>> = Mutex::new(Vec::new());

/// A folder that is served, as the others know it: to know it keeps nobody from serving it elsewhere.
pub(super) struct Root {
    pub(super) fence: Arc<Fence>,
    pub(super) identity: Identity,
    /// The folder and the directories that it lies in, outwards, as they were when that was last looked at.
    above: ArcSwap<Vec<Identity>>,
}

impl Root {
    pub(super) fn new(fence: &Arc<Fence>, identity: Identity) -> Arc<Self> {
        let above = ArcSwap::from_pointee(identities_outwards(fence.root()));
        Arc::new(Root { fence: Arc::clone(fence), identity, above })
    }

    pub(super) fn above(&self) -> Vec<Identity> {
        self.above.load().to_vec()
    }

    pub(super) fn look_above(&self) {
        self.above.store(Arc::new(identities_outwards(self.fence.root())));
    }

    /// Lets the others know it.
    pub(super) fn serve(self: &Arc<Self>) {
        let mut served = SERVED.lock();
        served.retain(|root| root.strong_count() > 0);
        served.push(Arc::downgrade(self));
    }
}

/// All of them.
pub(super) fn served() -> Vec<Arc<Root>> {
    SERVED.lock().iter().filter_map(Weak::upgrade).collect()
}

/// An open directory and those that it lies in, outwards, as far as they can be looked at.
pub(super) fn identities_outwards(directory: BorrowedFd<'_>) -> Vec<Identity> {
    outwards(directory).map_while(Result::ok).map(|(identity, _)| identity).collect()
}

/// The same with the directories. Behind one that cannot be looked at comes nothing.
pub(super) fn outwards(directory: BorrowedFd<'_>) -> impl Iterator<Item = Result<(Identity, OwnedFd), Errno>> {
    let mut next = Some(directory_in(directory, c"."));
    let step = move || {
        let found = next.take()?;
        if let Ok((own, directory)) = &found {
            // The root of everything lies in itself.
            let is_outer = |outer: &Result<(Identity, _), _>| !matches!(outer, Ok((outer, _)) if outer == own);
            next = Some(directory_in(directory.as_fd(), c"..")).filter(is_outer);
        }
        Some(found)
    };
    std::iter::from_fn(step).take(DEPTH_MAX)
}

fn directory_in(directory: BorrowedFd<'_>, name: &CStr) -> Result<(Identity, OwnedFd), Errno> {
    let found = openat(directory, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((identity(&stat(&found)?), found))
}
