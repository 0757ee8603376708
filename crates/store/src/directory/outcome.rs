//! What became of a change of names that was answered with an error. NFS and FUSE may have made a change that they say has failed: its answer was
//! lost, or what comes after it failed. Who undoes what went before may then take away the last name that a file has. So it is looked first which
//! name leads where; and where that cannot be told, all names stay.

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, RenameFlags, Statx, StatxFlags};
use rustix::io::Errno;

use crate::Identity;
use crate::directory::calls::{linkat, renameat_with, statx, unlinkat};
use crate::directory::stat::identity;

/// A name in an open directory.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a [u8],
}

impl At<'_> {
    /// What has the name, as the file system says now; `None` where nothing has.
    pub(super) fn look(self) -> Result<Option<Statx>, Errno> {
        let At { folder, name } = self;
        // What the kernel remembers of the name may be older than the change. NFS forgets it where the directory has changed. FUSE asks anew where
        // the name is to be made: a directory is never linked, but first the name is looked up.
        let _ = statx(folder, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC, StatxFlags::BASIC_STATS);
        let _ = linkat(folder, c".", folder, name, AtFlags::empty());
        match self.stat() {
            Err(Errno::NOENT) => Ok(None),
            answer => answer.map(Some),
        }
    }

    fn stat(self) -> Result<Statx, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_FORCE_SYNC;
        statx(self.folder, self.name, flags, StatxFlags::BASIC_STATS)
    }

    /// Whether the name leads to `file`; `None` where that cannot be told.
    pub(super) fn leads_to(self, file: Identity) -> Option<bool> {
        self.look().ok().map(|found| found.is_some_and(|found| identity(&found) == file))
    }

    pub(super) fn is(self, file: Identity) -> bool {
        self.leads_to(file) == Some(true)
    }

    /// True where the name leads to a file that has more names now than it had `before`.
    fn is_with_one_more(self, before: &Statx) -> bool {
        let is_it = |now: Statx| identity(&now) == identity(before) && now.stx_nlink > before.stx_nlink;
        self.look().is_ok_and(|found| found.is_some_and(is_it))
    }
}

/// The answer of a change, or what is seen where that is an error. What cannot be, or has a name already, is not done first.
pub(super) fn seen(answer: Result<(), Errno>, is_made: impl FnOnce() -> bool) -> Result<(), Errno> {
    match answer {
        Err(Errno::EXIST | Errno::INVAL) => answer,
        Err(_) if is_made() => Ok(()),
        Ok(()) | Err(_) => answer,
    }
}

/// Removes a name.
pub(super) fn unlink(at: At<'_>, flags: AtFlags) -> Result<(), Errno> {
    seen(unlinkat(at.folder, at.name, flags), || at.look().is_ok_and(|found| found.is_none()))
}

/// Gives `file` another name in the place of its own.
pub(super) fn rename(file: Identity, from: At<'_>, to: At<'_>, flags: RenameFlags) -> Result<(), Errno> {
    let answer = renameat_with(from.folder, from.name, to.folder, to.name, flags);
    seen(answer, || to.is(file) && from.leads_to(file) == Some(false))
}

/// The same where nothing has the other name.
pub(super) fn rename_to_free_name(file: Identity, from: At<'_>, to: At<'_>) -> Result<(), Errno> {
    match rename(file, from, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL) => {}
        answer => return answer,
    }
    // The file system cannot look and rename in one step, but it can do so for a link. A directory replaces nothing that holds
    // something, and neither does what cannot be linked where there are no links.
    let before = from.stat()?;
    let linked = linkat(from.folder, from.name, to.folder, to.name, AtFlags::empty());
    match seen(linked, || to.is_with_one_more(&before)) {
        Ok(()) => unlink(from, AtFlags::empty()).inspect_err(|_| {
            // Two names may be one that is found in any case, or be remembered.
            if from.is_with_one_more(&before) && to.is_with_one_more(&before) {
                let _ = unlinkat(to.folder, to.name, AtFlags::empty());
            }
        }),
        Err(Errno::EXIST) => Err(Errno::EXIST),
        Err(errno) => match to.look() {
            Ok(None) => rename(file, from, to, RenameFlags::empty()),
            Ok(Some(_)) => Err(Errno::EXIST),
            Err(_) => Err(errno),
        },
    }
}
