//! The folders that this process serves. One may lie inside another, so that a file is reached through both, and each has a reserved folder of
//! its own.

use std::ffi::{CStr, OsString};
use std::ops::Deref;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::directory::calls::{openat, readlinkat};
use crate::directory::fence::Fence;
use crate::directory::keys::Keep;
use crate::directory::stat::{identity, stat};
use crate::{Error, Identity};

/// A path has at most 4095 bytes, so nothing lies deeper.
const DEPTH_MAX: usize = 2048;

static SERVED: Mutex<Vec<Arc<Root>>> = Mutex::new(Vec::new());

/// A folder that is served, as the others know it: to know it keeps nobody from serving it elsewhere.
pub(super) struct Root {
    pub(super) fence: Arc<Fence>,
    pub(super) identity: Identity,
    pub(super) keep: Keep,
    /// The folder and the directories that it lies in, outwards, as they were when that was last looked at.
    above: ArcSwap<Vec<Identity>>,
}

impl Root {
    fn new(fence: &Arc<Fence>, identity: Identity, keep: Keep) -> Arc<Self> {
        let above = ArcSwap::from_pointee(identities_outwards(fence.root()));
        Arc::new(Root { fence: Arc::clone(fence), identity, keep, above })
    }

    pub(super) fn above(&self) -> Vec<Identity> {
        self.above.load().to_vec()
    }

    pub(super) fn look_above(&self) {
        self.above.store(Arc::new(identities_outwards(self.fence.root())));
    }

    /// [`Error::Nested`] where it lies in one that is served, or one in it, and either keeps beside the files what belongs to them: the other
    /// does not find it there.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.check_with(served().iter())
    }

    fn check_with<'a>(&self, mut others: impl Iterator<Item = &'a Arc<Root>>) -> Result<(), Error> {
        if others.any(|other| self.is_at_odds_with(other)) { Err(Error::Nested) } else { Ok(()) }
    }

    fn is_at_odds_with(&self, other: &Root) -> bool {
        (self.keep == Keep::Beside || other.keep == Keep::Beside) && self.is_nested_with(other)
    }

    fn is_nested_with(&self, other: &Root) -> bool {
        self.identity != other.identity && (self.lies_in(other) || other.lies_in(self))
    }

    fn lies_in(&self, other: &Root) -> bool {
        self.above.load().contains(&other.identity)
    }

    /// True where it lies in another that is served, or another in it.
    pub(super) fn is_nested(&self) -> bool {
        served().iter().any(|other| self.is_nested_with(other))
    }
}

/// A folder for as long as it is served: from [`Serving::serve`] until this ends, whoever still looks at it as one of the others.
pub(super) struct Serving(Arc<Root>);

impl Serving {
    pub(super) fn new(fence: &Arc<Fence>, identity: Identity, keep: Keep) -> Self {
        Serving(Root::new(fence, identity, keep))
    }

    /// Lets the others know it. [`Error::Nested`] as [`Root::check`]; `instead` is what it takes the place of.
    pub(super) fn serve(&self, instead: Option<&Serving>) -> Result<(), Error> {
        let mut served = SERVED.lock();
        let is_other = |root: &&Arc<Root>| instead.is_none_or(|instead| !Arc::ptr_eq(root, &instead.0));
        self.check_with(served.iter().filter(is_other))?;
        served.push(Arc::clone(&self.0));
        Ok(())
    }
}

impl Deref for Serving {
    type Target = Root;

    fn deref(&self) -> &Root {
        &self.0
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        SERVED.lock().retain(|root| !Arc::ptr_eq(root, &self.0));
    }
}

/// The place of one that is served and lies in `folder`, or that in it.
pub(super) fn nested_with(folder: &Path) -> Option<PathBuf> {
    let fence = Arc::new(Fence::new(folder).ok()?);
    let own = identity(&stat(fence.root()).ok()?);
    let root = Root::new(&fence, own, Keep::Beside);
    let other = served().into_iter().find(|other| root.is_nested_with(other))?;
    let link = format!("/proc/self/fd/{}", other.fence.root().as_raw_fd());
    let place = readlinkat(CWD, link, Vec::new()).ok()?;
    Some(PathBuf::from(OsString::from_vec(place.into_bytes())))
}

/// All of them.
pub(super) fn served() -> Vec<Arc<Root>> {
    SERVED.lock().clone()
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

#[cfg(test)]
mod tests {
    use std::fs;

    use super::served;
    use crate::{DirectoryOptions, DirectoryStore, Error};

    #[test]
    fn what_is_served_no_longer_is_in_nobodys_way_though_another_looks_at_it() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let beside = DirectoryOptions { attributes_beside_files: true, ..Default::default() };
        let outer = DirectoryStore::open(place.path(), beside.clone()).unwrap();
        let looked_at = served();
        assert_eq!(DirectoryStore::open(&inner, beside.clone()).err(), Some(Error::Nested));
        drop(outer);
        DirectoryStore::open(&inner, beside).unwrap();
        drop(looked_at);
    }
}
