//! The names in a directory, as the kernel lists them.

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{FileType, RawDir, SeekFrom};
use rustix::io::Errno;

use crate::directory::calls::seek;
use crate::waiting;

/// What one `getdents` fills.
pub(super) const SCAN_BUFFER_BYTES: usize = 32 * 1024;

/// A name in a directory, as `getdents` tells it.
pub(super) struct Listed<'a> {
    pub(super) name: &'a [u8],
    pub(super) file: u64,
    pub(super) kind: FileType,
    /// Where the directory has it: what is read from there on begins with it.
    pub(super) at: u64,
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
