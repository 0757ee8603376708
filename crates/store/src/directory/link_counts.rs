//! File systems that do not count the names of a file: some of FUSE say 0 of each, which elsewhere says that the last one has gone. On these each file
//! is taken to have one name. What is kept outside a file stays behind there when its name goes, unless the file can be linked meanwhile.

use rustix::fs::Statx;

use crate::directory::stat::identity;

/// File systems that are told apart at most; no server has so many mounted.
const VOLUMES_MAX: usize = 1024;

#[cfg(not(test))]
static UNCOUNTED: parking_lot::RwLock<Vec<u64>> = parking_lot::RwLock::new(Vec::new());

#[cfg(test)]
thread_local! {
    /// Each test's own: others use the same file system.
    static UNCOUNTED: parking_lot::RwLock<Vec<u64>> = const { parking_lot::RwLock::new(Vec::new()) };
}

#[cfg(not(test))]
fn with<T>(work: impl FnOnce(&parking_lot::RwLock<Vec<u64>>) -> T) -> T {
    work(&UNCOUNTED)
}

#[cfg(test)]
fn with<T>(work: impl FnOnce(&parking_lot::RwLock<Vec<u64>>) -> T) -> T {
    UNCOUNTED.with(work)
}

/// Notes that a file system does not count, where it says so of one of these files and directories of it, which have names.
pub(super) fn note<'a>(named: impl IntoIterator<Item = &'a Statx>) {
    let Some(uncounted) = named.into_iter().find(|stat| stat.stx_nlink == 0) else { return };
    let volume = identity(uncounted).volume;
    with(|uncounted| {
        let mut uncounted = uncounted.write();
        if uncounted.len() == VOLUMES_MAX {
            uncounted.remove(0);
        }
        uncounted.push(volume);
    });
    tracing::warn!(name: "link_counts_missing", "a file system that is served does not say how many names a file has: each is taken to have one");
}

/// What the kernel said of a file, with a name where that is not counted.
pub(super) fn amend(mut stat: Statx) -> Statx {
    if stat.stx_nlink == 0 && with(|uncounted| uncounted.read().contains(&identity(&stat).volume)) {
        stat.stx_nlink = 1;
    }
    stat
}
