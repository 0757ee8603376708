//! Sharing extents between files: what btrfs does, and XFS unless it was made without.
//!
//! The kernel shares what is copied within a file system that can, block by block (`copy_file_range` tries that first). Whether a folder's file system
//! can is tried with two files without names.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, ioctl_ficlone};
use rustix::io::Errno;

use crate::copy::Span;
use crate::directory::calls::openat;
use crate::directory::data;

/// The most bytes that are shared in one call, so that it takes no long time.
const STEP_BYTES: u64 = 64 << 20;

/// True where files in this directory can share extents. Leaves nothing there.
pub(super) fn are_possible(directory: BorrowedFd<'_>) -> bool {
    let made = || -> Result<(), Errno> {
        let (from, to) = (nameless(directory)?, nameless(directory)?);
        data::write(&from, b"shared", 0)?;
        ioctl_ficlone(&to, &from)
    };
    made().is_ok()
}

fn nameless(directory: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    openat(directory, c".", OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)
}

/// Shares the first part of a range that the source has; gives its bytes.
pub(super) fn share<From: AsFd, To: AsFd>(source: From, target: To, span: Span) -> Result<u64, Errno> {
    let length = span.length.min(STEP_BYTES);
    match data::copy(source, target, Span { length, ..span })? {
        // It was cut in the meantime.
        0 => Err(Errno::INVAL),
        done => Ok(done),
    }
}
