//! A directory of the share that names are looked up in.

use std::ops::Deref;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, Statx, StatxFlags, major, minor};
use rustix::io::Errno;

use crate::directory::calls::{openat, seek, statx};
use crate::directory::errno::error;
use crate::directory::file::{OpenFile, Reach, born};
use crate::directory::outcome::At;
use crate::directory::volume::ReachedBy;
use crate::directory::walk::Opened;
use crate::{Error, Identity, Kind, SharePath, waiting};

/// What one `getdents` fills.
pub(super) const SCAN_BUFFER_BYTES: usize = 32 * 1024;

/// How coarse the coarsest times of change are: FAT counts in two seconds.
pub(super) const COARSE_TICK: Duration = Duration::from_millis(2500);

/// An open directory.
pub(super) struct Folder<'a> {
    pub(super) fd: Handle<'a>,
    pub(super) reach: Reach,
    pub(super) identity: Identity,
    pub(super) mount: Mount,
    pub(super) born: i128,
    pub(super) stamp: Stamp,
    /// It still has a name.
    pub(super) exists: bool,
}

/// The descriptor of an open directory, to look names up and to change them.
pub(super) enum Handle<'a> {
    Own(OwnedFd),
    /// A node's, whose position is not to be moved.
    Of(BorrowedFd<'a>),
}

/// An open directory that a path led to.
pub(super) struct Reached {
    pub(super) folder: Folder<'static>,
    /// The path in stored bytes, separated with `/`.
    pub(super) disk: Vec<u8>,
    /// The path as clients see it.
    pub(super) path: SharePath,
    /// How the path led there.
    pub(super) way: ReachedBy,
}

/// A directory's times of change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: (i64, u32),
    changed: (i64, u32),
}

/// A name in a directory, as `getdents` tells it.
pub(super) struct Listed<'a> {
    pub(super) name: &'a [u8],
    pub(super) file: u64,
    pub(super) kind: FileType,
    /// Where the directory has it: what is read from there on begins with it.
    pub(super) at: u64,
}

impl Folder<'static> {
    /// Asks for the identity of an open directory.
    pub(super) fn new((fd, reach): (OwnedFd, Reach)) -> Result<Self, Errno> {
        Folder::with(Handle::Own(fd), reach)
    }
}

impl<'a> Folder<'a> {
    /// The directory of a node.
    pub(super) fn of(directory: &'a OpenFile) -> Result<Self, Error> {
        if directory.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        Folder::with(Handle::Of(directory.fd()), directory.reach()).map_err(error)
    }

    fn with(fd: Handle<'a>, reach: Reach) -> Result<Self, Errno> {
        let stat = stat(&fd)?;
        Ok(Folder {
            identity: identity(&stat),
            mount: mount(&stat),
            born: born(&stat),
            stamp: Stamp::of(&stat),
            exists: stat.stx_nlink > 0,
            fd,
            reach,
        })
    }

    /// A descriptor to read its names with, whose position is this caller's.
    pub(super) fn to_read(&self) -> Result<Handle<'_>, Errno> {
        match &self.fd {
            Handle::Own(fd) => Ok(Handle::Of(fd.as_fd())),
            Handle::Of(fd) => Ok(Handle::Own(open_again(*fd)?)),
        }
    }

    /// A name in it.
    pub(super) fn at<'n>(&'n self, name: &'n [u8]) -> At<'n> {
        At { folder: self.fd.as_fd(), name }
    }

    /// The directory's times now.
    pub(super) fn stamp_now(&self) -> Result<Stamp, Errno> {
        Ok(Stamp::of(&stat(&self.fd)?))
    }
}

impl Reached {
    /// Goes on to a directory that was opened below this one.
    pub(super) fn take(&mut self, opened: Opened) -> Result<(), Error> {
        if opened.way == ReachedBy::ThroughLinks {
            self.way = ReachedBy::ThroughLinks;
        }
        self.folder = opened.into_folder()?;
        Ok(())
    }

    /// Its path goes on with a name.
    pub(super) fn enter(&mut self, disk: &[u8], shown: &str) {
        if !self.disk.is_empty() {
            self.disk.push(b'/');
        }
        self.disk.extend_from_slice(disk);
        self.path.push(shown);
    }

    /// The path of a name in it, in stored bytes.
    pub(super) fn disk_path(&self, name: &[u8]) -> Vec<u8> {
        let mut path = Vec::with_capacity(self.disk.len() + 1 + name.len());
        path.extend_from_slice(&self.disk);
        if !path.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        path
    }

    /// The path of a name in it, as clients see it.
    pub(super) fn shown_path(&self, shown: &str) -> SharePath {
        let mut path = self.path.clone();
        path.push(shown);
        path
    }
}

impl Handle<'_> {
    /// A descriptor of its own.
    pub(super) fn into_own(self) -> Result<OwnedFd, Errno> {
        match self {
            Handle::Own(fd) => Ok(fd),
            Handle::Of(fd) => open_again(fd),
        }
    }
}

impl AsFd for Handle<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Handle::Own(fd) => fd.as_fd(),
            Handle::Of(fd) => fd.as_fd(),
        }
    }
}

/// The same directory with a position of its own.
fn open_again(fd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    openat(fd, c".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

impl Deref for Reached {
    type Target = Folder<'static>;

    fn deref(&self) -> &Folder<'static> {
        &self.folder
    }
}

impl Stamp {
    pub(super) fn of(stat: &Statx) -> Self {
        Stamp {
            modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }

    /// True where whatever changes at `now` or later gets another stamp: the last change lies at least `tick` before, or, where this
    /// machine's clock stamps (a tick finer than [`COARSE_TICK`]), so far ahead, as that clock was set back since. Whole seconds tell of a
    /// file system that counts no finer.
    pub(super) fn is_far_from(&self, tick: Duration, now: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let is_ours = tick < COARSE_TICK;
        let tick = if nanoseconds == 0 { tick.max(COARSE_TICK) } else { tick };
        let Ok(seconds) = u64::try_from(seconds) else { return true };
        let Some(changed) = UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds)) else { return false };
        match now.duration_since(changed) {
            Ok(age) => age >= tick,
            Err(ahead) => is_ours && ahead.duration() >= tick,
        }
    }
}

/// What the kernel knows of an open file.
pub(super) fn stat<Fd: AsFd>(fd: Fd) -> Result<Statx, Errno> {
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    statx(fd, c"", AtFlags::EMPTY_PATH | AtFlags::STATX_SYNC_AS_STAT, wanted)
}

/// What the kernel knows of a name in a directory, which is not followed.
pub(super) fn stat_at<Fd: AsFd>(directory: Fd, name: &[u8]) -> Result<Statx, Errno> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)
}

/// Which file this is.
pub(super) fn identity(stat: &Statx) -> Identity {
    let volume = u64::from(stat.stx_dev_major) << 32 | u64::from(stat.stx_dev_minor);
    Identity { volume, file: stat.stx_ino }
}

/// The same of what `fstat` tells.
pub(super) fn file_of(stat: &Stat) -> Identity {
    Identity { volume: u64::from(major(stat.st_dev)) << 32 | u64::from(minor(stat.st_dev)), file: stat.st_ino }
}

/// Where a file system is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mount {
    Number(u64),
    /// Linux before 5.8 does not tell: the file system.
    Volume(u64),
}

/// The mount that a file was opened through. Of one mount files may have several device numbers (btrfs, overlayfs).
pub(super) fn mount(stat: &Statx) -> Mount {
    match stat.stx_mask & StatxFlags::MNT_ID.bits() {
        0 => Mount::Volume(identity(stat).volume),
        _ => Mount::Number(stat.stx_mnt_id),
    }
}

/// What kind of file this is.
pub(super) fn file_type(stat: &Statx) -> FileType {
    FileType::from_raw_mode(stat.stx_mode.into())
}

/// Calls `each` with every name of a directory but `.` and `..`, from the beginning.
pub(super) fn each_name<Fd: AsFd>(directory: Fd, mut each: impl FnMut(Listed<'_>)) -> Result<(), Errno> {
    let mut at = 0;
    while let Some(next) = names_from(directory.as_fd(), at, &mut each)? {
        at = next;
    }
    Ok(())
}

/// Calls `each` with the names that the kernel tells in one go from a place on; gives the place behind them, `None` at the end.
pub(super) fn names_from(
    directory: BorrowedFd<'_>,
    at: u64,
    each: impl FnMut(Listed<'_>),
) -> Result<Option<u64>, Errno> {
    names_within(directory, at, SCAN_BUFFER_BYTES, each)
}

/// The same of as many names as so many bytes hold.
pub(super) fn names_within(
    directory: BorrowedFd<'_>,
    mut at: u64,
    buffer_bytes: usize,
    mut each: impl FnMut(Listed<'_>),
) -> Result<Option<u64>, Errno> {
    waiting::may_wait("to read names");
    seek(directory, SeekFrom::Start(at))?;
    let mut buffer = Vec::with_capacity(buffer_bytes);
    let mut entries = RawDir::new(directory, buffer.spare_capacity_mut());
    let mut is_first = true;
    while is_first || !entries.is_buffer_empty() {
        let entry = match entries.next() {
            None | Some(Err(Errno::NOENT)) => return Ok(None),
            Some(Err(Errno::INTR)) => continue,
            Some(Err(errno)) => return Err(errno),
            Some(Ok(entry)) => entry,
        };
        is_first = false;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            each(Listed { name, file: entry.ino(), kind: entry.file_type(), at });
        }
        at = entry.next_entry_cookie();
    }
    Ok(Some(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_past_when_its_tick_is_over_and_when_the_clock_was_set_back_behind_it() {
        let stamp = Stamp { modified: (0, 0), changed: (1_000, 5) };
        let at = |milliseconds| UNIX_EPOCH + Duration::from_millis(milliseconds);
        let local = Duration::from_millis(20);
        for (now, expected) in [(1_000_010, false), (1_000_030, true), (999_990, false), (900_000, true)] {
            assert_eq!(stamp.is_far_from(local, at(now)), expected, "{now}");
        }
        // Another machine's clock may be ahead of ours.
        assert!(!stamp.is_far_from(COARSE_TICK, at(900_000)) && stamp.is_far_from(COARSE_TICK, at(1_010_000)));
        let whole_seconds = Stamp { changed: (1_000, 0), ..stamp };
        assert!(!whole_seconds.is_far_from(local, at(1_000_030)));
    }
}
