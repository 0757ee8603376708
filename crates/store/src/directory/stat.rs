//! What the kernel knows of files.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Stat, Statx, StatxFlags, major, minor};
use rustix::io::Errno;

use crate::directory::calls::statx;
use crate::{Identity, Time};

/// How coarse the coarsest times of change are: FAT counts in two seconds.
pub(super) const COARSE_TICK: Duration = Duration::from_millis(2500);

/// A directory's times of change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    modified: (i64, u32),
    changed: (i64, u32),
}

impl Stamp {
    pub(super) fn of(stat: &Statx) -> Self {
        Stamp {
            modified: (stat.stx_mtime.tv_sec, stat.stx_mtime.tv_nsec),
            changed: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
        }
    }

    /// True where the last change came after `at`, or that cannot be told.
    pub(super) fn is_behind(&self, at: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let since = u64::try_from(seconds).map(|seconds| Duration::new(seconds, nanoseconds));
        since.ok().and_then(|since| UNIX_EPOCH.checked_add(since)).is_none_or(|changed| changed > at)
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
    statx(directory, name, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID)
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

/// When a file was made, in nanoseconds since 1970; zero where the file system does not know.
pub(super) fn born(stat: &Statx) -> i128 {
    match birth(stat) {
        Some(_) => i128::from(stat.stx_btime.tv_sec) * 1_000_000_000 + i128::from(stat.stx_btime.tv_nsec),
        None => 0,
    }
}

/// When a file was made, where the file system knows.
pub(super) fn birth(stat: &Statx) -> Option<Time> {
    let known = stat.stx_mask & rustix::fs::StatxFlags::BTIME.bits() != 0;
    known.then(|| Time::from_unix(stat.stx_btime.tv_sec, stat.stx_btime.tv_nsec))
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
