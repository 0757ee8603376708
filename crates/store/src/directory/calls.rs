//! System calls about names and what is known of files, asked again where a signal has interrupted them. A local file system lets none
//! do that; NFS and FUSE do. Whatever asks may be asked again; a change of names may have been made.
#![allow(clippy::disallowed_methods)]

use std::path::Path;

use rustix::fd::{AsFd, OwnedFd};
use rustix::ffi::CString;
use rustix::fs::{
    self, AtFlags, FlockOperation, Gid, Mode, OFlags, RenameFlags, SeekFrom, Stat, StatFs, StatVfs, Statx, StatxFlags,
    Timestamps, Uid,
};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::directory::file_system::FileSystem;
use crate::directory::link_counts;
use crate::{Error, Waits};

/// File systems that take any number of attributes of one file.
const ANY_ATTRIBUTES: [FileSystem; 3] = [FileSystem::TMPFS, FileSystem::XFS, FileSystem::BTRFS];

/// How often a call is made that is interrupted each time.
const TRIES_MAX: usize = 1_000;

/// Makes a call until it was not interrupted.
pub(super) fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    once(|| {
        for _ in 1..TRIES_MAX {
            match call() {
                Err(Errno::INTR) => {}
                answer => return answer,
            }
        }
        call()
    })
}

/// To be called before an attribute is read.
pub(super) fn read_attribute() -> Result<(), Errno> {
    #[cfg(test)]
    if failing::lacks_leave() {
        return Err(Errno::ACCESS);
    }
    Ok(())
}

/// To be called before an attribute is set, with which all that the file has take `_bytes`.
pub(super) fn set_attribute(_bytes: impl FnOnce() -> Result<u64, Error>) -> Result<(), Errno> {
    #[cfg(test)]
    if failing::lacks_room() || failing::has_one_block() && !_bytes().is_ok_and(|bytes| bytes <= failing::BLOCK_BYTES) {
        return Err(Errno::NOSPC);
    }
    Ok(())
}

/// True of a file system that takes any number of attributes of one file.
pub(super) fn takes_any_attributes(system: FileSystem) -> bool {
    #[cfg(test)]
    if failing::has_one_block() {
        return false;
    }
    ANY_ATTRIBUTES.contains(&system)
}

/// To be called when an attribute was removed.
pub(super) fn removed_attribute() {
    #[cfg(test)]
    failing::fill_room();
}

/// Makes a call.
fn once<T>(call: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    #[cfg(test)]
    if let Some(failure) = failing::next() {
        if failure.is_done {
            let _ = call();
        }
        return Err(failure.errno);
    }
    call()
}

/// The same of a call that changes names. One that was interrupted may have been made: what says then that a name is taken, or is not there, may be that
/// one's doing. So the answer is that it was interrupted, and who asked looks what became of it ([`super::outcome`]).
fn change_again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut interrupted = false;
    let answer = again(|| {
        let answer = call();
        interrupted |= matches!(answer, Err(Errno::INTR));
        answer
    });
    match answer {
        Err(Errno::EXIST | Errno::NOENT) if interrupted => Err(Errno::INTR),
        answer => answer,
    }
}

pub(super) fn open<P: Arg + Clone>(path: P, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    #[cfg(test)]
    failing::open();
    again(|| fs::open(path.clone(), flags, mode))
}

pub(super) fn openat<P: Arg + Clone>(folder: impl AsFd, path: P, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    #[cfg(test)]
    {
        failing::open();
        if flags.contains(OFlags::CREATE) {
            failing::change(failing::Change::Other)?;
        }
    }
    let open = || fs::openat(folder.as_fd(), path.clone(), flags, mode);
    if flags.contains(OFlags::CREATE) { change_again(open) } else { again(open) }
}

pub(super) fn mkdirat<P: Arg + Clone>(folder: impl AsFd, path: P, mode: Mode) -> Result<(), Errno> {
    #[cfg(test)]
    failing::change(failing::Change::Other)?;
    change_again(|| fs::mkdirat(folder.as_fd(), path.clone(), mode))
}

pub(super) fn unlinkat<P: Arg + Clone>(folder: impl AsFd, path: P, flags: AtFlags) -> Result<(), Errno> {
    #[cfg(test)]
    failing::change(failing::Change::Other)?;
    #[cfg(test)]
    if failing::puts_aside(&path) {
        return fs::renameat(folder.as_fd(), path, folder.as_fd(), failing::ASIDE);
    }
    change_again(|| fs::unlinkat(folder.as_fd(), path.clone(), flags))
}

/// True where the file system may give an open file another name as its last one goes: those do it that ask elsewhere.
pub(super) fn puts_aside(waits: Waits) -> bool {
    #[cfg(test)]
    if failing::puts_open_aside() {
        return true;
    }
    waits == Waits::Always
}

pub(super) fn linkat<P: Arg + Clone, Q: Arg + Clone>(
    folder: impl AsFd,
    path: P,
    new_folder: impl AsFd,
    new_path: Q,
    flags: AtFlags,
) -> Result<(), Errno> {
    #[cfg(test)]
    failing::change(failing::Change::Link)?;
    change_again(|| fs::linkat(folder.as_fd(), path.clone(), new_folder.as_fd(), new_path.clone(), flags))
}

/// Gives what has a name to a user and a group, a symbolic link itself.
/// Gives away what is open by a descriptor that reads and writes nothing, as one of a symbolic link.
pub(super) fn chown_opened(file: impl AsFd, uid: Uid, gid: Gid) -> Result<(), Errno> {
    again(|| fs::chownat(file.as_fd(), c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH))
}

pub(super) fn symlinkat<P: Arg + Clone, Q: Arg + Clone>(to: P, folder: impl AsFd, path: Q) -> Result<(), Errno> {
    #[cfg(test)]
    failing::change(failing::Change::Other)?;
    change_again(|| fs::symlinkat(to.clone(), folder.as_fd(), path.clone()))
}

pub(super) fn renameat<P: Arg + Clone, Q: Arg + Clone>(
    folder: impl AsFd,
    path: P,
    new_folder: impl AsFd,
    new_path: Q,
) -> Result<(), Errno> {
    #[cfg(test)]
    failing::change(failing::Change::Other)?;
    change_again(|| fs::renameat(folder.as_fd(), path.clone(), new_folder.as_fd(), new_path.clone()))
}

pub(super) fn renameat_with<P: Arg + Clone, Q: Arg + Clone>(
    folder: impl AsFd,
    path: P,
    new_folder: impl AsFd,
    new_path: Q,
    flags: RenameFlags,
) -> Result<(), Errno> {
    #[cfg(test)]
    failing::change(failing::Change::Rename(flags))?;
    #[cfg(test)]
    if failing::puts_aside(&new_path) {
        fs::renameat(new_folder.as_fd(), new_path.clone(), new_folder.as_fd(), failing::ASIDE)?;
    }
    let rename = || fs::renameat_with(folder.as_fd(), path.clone(), new_folder.as_fd(), new_path.clone(), flags);
    // Made twice it would be undone.
    if flags.contains(RenameFlags::EXCHANGE) { once(rename) } else { change_again(rename) }
}

pub(super) fn readlinkat<P: Arg + Clone>(folder: impl AsFd, path: P, reuse: Vec<u8>) -> Result<CString, Errno> {
    again(|| fs::readlinkat(folder.as_fd(), path.clone(), reuse.clone()))
}

pub(super) fn statx<P: Arg + Clone>(
    folder: impl AsFd,
    path: P,
    flags: AtFlags,
    wanted: StatxFlags,
) -> Result<Statx, Errno> {
    #[cfg(test)]
    if failing::lacks_counts() {
        let mut stat = again(|| fs::statx(folder.as_fd(), path.clone(), flags, wanted))?;
        stat.stx_nlink = 0;
        return Ok(link_counts::amend(stat));
    }
    again(|| fs::statx(folder.as_fd(), path.clone(), flags, wanted)).map(link_counts::amend)
}

pub(super) fn fstat(file: impl AsFd) -> Result<Stat, Errno> {
    again(|| fs::fstat(file.as_fd()))
}

pub(super) fn statfs(path: &Path) -> Result<StatFs, Errno> {
    again(|| fs::statfs(path))
}

pub(super) fn fstatfs(file: impl AsFd) -> Result<StatFs, Errno> {
    again(|| fs::fstatfs(file.as_fd()))
}

pub(super) fn fstatvfs(file: impl AsFd) -> Result<StatVfs, Errno> {
    again(|| fs::fstatvfs(file.as_fd()))
}

pub(super) fn fsync(file: impl AsFd) -> Result<(), Errno> {
    again(|| fs::fsync(file.as_fd()))
}

pub(super) fn seek(file: impl AsFd, position: SeekFrom) -> Result<u64, Errno> {
    again(|| fs::seek(file.as_fd(), position))
}

pub(super) fn flock(file: impl AsFd, operation: FlockOperation) -> Result<(), Errno> {
    again(|| fs::flock(file.as_fd(), operation))
}

pub(super) fn fchmod(file: impl AsFd, mode: Mode) -> Result<(), Errno> {
    again(|| fs::fchmod(file.as_fd(), mode))
}

pub(super) fn fchown(file: impl AsFd, owner: Uid, group: Gid) -> Result<(), Errno> {
    again(|| fs::fchown(file.as_fd(), Some(owner), Some(group)))
}

pub(super) fn futimens(file: impl AsFd, times: &Timestamps) -> Result<(), Errno> {
    again(|| fs::futimens(file.as_fd(), times))
}

pub(super) fn utimensat<P: Arg + Clone>(
    folder: impl AsFd,
    path: P,
    times: &Timestamps,
    flags: AtFlags,
) -> Result<(), Errno> {
    again(|| fs::utimensat(folder.as_fd(), path.clone(), times, flags))
}

/// Calls that fail because a test wants them to.
#[cfg(test)]
pub(super) mod failing {
    use std::cell::{Cell, RefCell};

    use rustix::fs::RenameFlags;
    use rustix::io::Errno;
    use rustix::path::Arg;

    /// What happens before the call after so many.
    type Happens = (usize, Box<dyn FnOnce()>);

    /// Which calls of this thread fail.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Fail {
        /// The one after so many, and nothing is done.
        One(usize),
        /// The one after so many that change names says so, and is done.
        Done(usize),
        /// The same, and another one so many calls later fails.
        DoneAndLater(usize, usize),
        /// The one after so many, and another one so many calls later, and nothing is done.
        Two(usize, usize),
        /// All after so many: what is done then is what a server that was killed there had done.
        AllAfter(usize),
        /// The same once so many were made that change names. Others need not be as many each time: what is remembered of a file is now and then asked
        /// anew for another file's sake.
        AllAfterChanges(usize),
        /// All after so many that open a file, as where there are no descriptors left.
        OpensAfter(usize),
    }

    /// What a file system cannot do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Lacks {
        Nothing,
        /// To rename only where nothing is replaced, and to exchange names.
        RenameFlags,
        /// The same, and links.
        Links,
        /// To say how many names a file has.
        LinkCounts,
        /// To remove what is open: `file` gets another name.
        UnlinkOfOpen,
        /// Room for an attribute.
        Room,
        /// The same once one was removed: somebody else has what became free.
        RoomThatWasFree,
        /// Leave to read attributes of files: they may be listed and set.
        Leave,
        /// Room for more attributes of a file than one block takes.
        SecondBlock,
    }

    /// A call that changes names.
    #[derive(Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Change {
        Link,
        Rename(RenameFlags),
        Other,
    }

    /// How a call fails.
    pub(super) struct Failure {
        pub(super) errno: Errno,
        pub(super) is_done: bool,
    }

    thread_local! {
        static LACKS: Cell<Lacks> = const { Cell::new(Lacks::Nothing) };
        static PLAN: Cell<Option<(Fail, Errno)>> = const { Cell::new(None) };
        static HAPPENS: RefCell<Option<Happens>> = const { RefCell::new(None) };
        static MADE: Cell<usize> = const { Cell::new(0) };
        static CHANGES: Cell<usize> = const { Cell::new(0) };
        static OPENS: Cell<usize> = const { Cell::new(0) };
        /// The next call is one.
        static IS_CHANGE: Cell<bool> = const { Cell::new(false) };
        static IS_OPEN: Cell<bool> = const { Cell::new(false) };
        static HAS_FAILED: Cell<bool> = const { Cell::new(false) };
        /// Which one was done that said it failed.
        static DONE: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Runs `work` with calls that fail; gives its answer, and whether one did.
    pub(crate) fn during<T>(fail: Fail, errno: Errno, work: impl FnOnce() -> T) -> (T, bool) {
        MADE.set(0);
        CHANGES.set(0);
        OPENS.set(0);
        DONE.set(None);
        HAS_FAILED.set(false);
        PLAN.set(Some((fail, errno)));
        let answer = work();
        PLAN.set(None);
        (answer, HAS_FAILED.get())
    }

    /// Runs `work`; gives its answer and how many calls it made.
    pub(crate) fn count<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = MADE.get();
        let answer = work();
        (answer, MADE.get() - before)
    }

    /// Counts calls that another thread has made for this one.
    pub(crate) fn add(calls: usize) {
        MADE.set(MADE.get() + calls);
    }

    /// Runs `work` as on a file system that lacks something.
    pub(crate) fn lacking<T>(lacks: Lacks, work: impl FnOnce() -> T) -> T {
        LACKS.set(lacks);
        let answer = work();
        LACKS.set(Lacks::Nothing);
        answer
    }

    /// True where the file system says of each file that it has no name.
    pub(super) fn lacks_counts() -> bool {
        LACKS.get() == Lacks::LinkCounts
    }

    /// True where what is open is put aside.
    pub(super) fn puts_open_aside() -> bool {
        LACKS.get() == Lacks::UnlinkOfOpen
    }

    pub(super) const ASIDE: &str = ".nfs0000000000abcdef00000001";

    /// True where what has this name is open, and is put aside.
    pub(super) fn puts_aside(path: &impl Arg) -> bool {
        puts_open_aside() && path.as_str() == Ok("file")
    }

    /// True where no attribute can be set.
    pub(super) fn lacks_room() -> bool {
        LACKS.get() == Lacks::Room
    }

    /// Bytes of all attributes of a file that such a file system takes.
    pub(super) const BLOCK_BYTES: u64 = 4096;

    /// True where a file has one block for its attributes.
    pub(super) fn has_one_block() -> bool {
        LACKS.get() == Lacks::SecondBlock
    }

    /// What became free is used.
    pub(super) fn fill_room() {
        if LACKS.get() == Lacks::RoomThatWasFree {
            LACKS.set(Lacks::Room);
        }
    }

    /// True where no attribute may be read.
    pub(super) fn lacks_leave() -> bool {
        LACKS.get() == Lacks::Leave
    }

    /// To be called before a call that opens a file.
    pub(super) fn open() {
        IS_OPEN.set(true);
    }

    /// To be called before each.
    pub(super) fn change(change: Change) -> Result<(), Errno> {
        match (LACKS.get(), change) {
            (Lacks::RenameFlags | Lacks::Links, Change::Rename(flags)) if !flags.is_empty() => Err(Errno::INVAL),
            (Lacks::Links, Change::Link) => Err(Errno::PERM),
            _ => {
                IS_CHANGE.set(true);
                Ok(())
            }
        }
    }

    /// Runs `work`, and in the middle of it, before the call after so many, `happens`, which is another program's doing; gives the answer, and
    /// whether there was such a call.
    pub(crate) fn meanwhile<T>(at: usize, happens: impl FnOnce() + 'static, work: impl FnOnce() -> T) -> (T, bool) {
        MADE.set(0);
        HAPPENS.set(Some((at, Box::new(happens))));
        let answer = work();
        (answer, HAPPENS.take().is_none())
    }

    pub(super) fn next() -> Option<Failure> {
        let made = MADE.get();
        MADE.set(made + 1);
        let is_change = IS_CHANGE.take();
        let changes = CHANGES.replace(CHANGES.get() + usize::from(is_change));
        let is_open = IS_OPEN.take();
        let opens = OPENS.replace(OPENS.get() + usize::from(is_open));
        let happens = HAPPENS.with_borrow_mut(|happens| happens.take_if(|(at, _)| *at == made));
        if let Some((_, happens)) = happens {
            happens();
        }
        let (fail, errno) = PLAN.get()?;
        let is_done = match fail {
            Fail::One(at) if made == at => false,
            Fail::Two(at, later) if made == at || made == at + later => false,
            Fail::Done(at) | Fail::DoneAndLater(at, _) if is_change && changes == at => {
                DONE.set(Some(made));
                true
            }
            Fail::DoneAndLater(_, later) if DONE.get().is_some_and(|done| made == done + later) => false,
            Fail::AllAfter(at) if made >= at => false,
            Fail::AllAfterChanges(at) if changes >= at => false,
            Fail::OpensAfter(at) if is_open && opens >= at => false,
            _ => return None,
        };
        HAS_FAILED.set(true);
        Some(Failure { errno, is_done })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_interrupted_is_asked_again() {
        let mut asked = 0;
        let answer = again(|| {
            asked += 1;
            if asked < 5 { Err(Errno::INTR) } else { Ok(asked) }
        });
        assert_eq!(answer, Ok(5));
    }

    #[test]
    fn what_was_interrupted_may_be_why_a_name_is_taken_or_gone() {
        for errno in [Errno::EXIST, Errno::NOENT] {
            let mut asked = 0;
            let mut answer = |interrupted_first: bool| {
                asked = 0;
                change_again(|| {
                    asked += 1;
                    Err::<(), _>(if asked == 1 && interrupted_first { Errno::INTR } else { errno })
                })
            };
            assert_eq!(answer(true), Err(Errno::INTR));
            assert_eq!(answer(false), Err(errno));
        }
    }

    #[test]
    fn another_error_is_an_answer_and_so_is_one_interruption_too_many() {
        let mut asked = 0;
        let mut fail = |errno| {
            again(|| {
                asked += 1;
                Err::<(), _>(errno)
            })
        };
        assert_eq!(fail(Errno::NOENT), Err(Errno::NOENT));
        assert_eq!(fail(Errno::INTR), Err(Errno::INTR));
        assert_eq!(asked, 1 + TRIES_MAX);
    }
}
