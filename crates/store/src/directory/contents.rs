//! The data of open files.

use rustix::fd::BorrowedFd;
use rustix::io::Errno;

use crate::directory::calls::fsync;
use crate::directory::data;
use crate::directory::errno::error;
use crate::directory::file::OpenFile;
use crate::directory::quota::Growth;
use crate::{ChooseOffset, Error, Waits};

/// A byte in so many is looked for to tell whether a range is in memory: files are read ahead, and leave memory, in pieces about as
/// long.
const PROBE_BYTES: usize = 64 << 10;

/// Reads what is in memory, as well as the file system can tell.
pub(super) fn try_read(file: &OpenFile, fd: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
    match file.waits {
        Waits::Never => return data::read(fd, buffer, offset).map_err(error),
        // The time of last access goes to the journal, which may be waited for whatever is in memory.
        Waits::ForData if file.volume.reads_without_waiting() && !file.volume.marks(fd) => {}
        Waits::ForData | Waits::Always => return Err(Error::WouldBlock),
    }
    match data::read_without_waiting(fd, buffer, offset) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            file.volume.note_reads_wait(file.identity.volume);
            Err(Error::WouldBlock)
        }
        answer => answer.map_err(error),
    }
}

/// How much of a range is there, where it is in memory as well as the file system can tell.
pub(super) fn try_resident(file: &OpenFile, fd: BorrowedFd<'_>, offset: u64, length: usize) -> Result<usize, Error> {
    if !file.is_local() {
        return Err(Error::WouldBlock);
    }
    let held = data::length(fd).map_err(error)?.saturating_sub(offset);
    let length = usize::try_from(held).unwrap_or(usize::MAX).min(length);
    if file.waits == Waits::Never {
        return Ok(length);
    }
    let last = length.saturating_sub(1);
    let probes = (0..last).step_by(PROBE_BYTES).chain([last]);
    for probe in probes.filter(|_| length > 0) {
        if try_read(file, fd, &mut [0], offset + probe as u64)? == 0 {
            return Err(Error::WouldBlock);
        }
    }
    Ok(length)
}

/// Appends to a file whose end is held.
pub(super) fn append(file: &OpenFile, fd: BorrowedFd<'_>, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error> {
    let held = data::length(fd).map_err(error)?;
    let offset = place(held)?;
    let count = data.len() as u64;
    let end = offset.checked_add(count).ok_or(Error::TooLarge)?;
    if offset == held {
        file.volume.account(file.identity, fd, Growth::Append(count), || data::append(fd, data))?;
    } else {
        let growth = Growth::Write { offset, length: count };
        file.volume.account(file.identity, fd, growth, || data::write(fd, data, offset))?;
    }
    Ok(end)
}

/// Makes a file durable.
pub(super) fn sync(file: &OpenFile) -> Result<(), Error> {
    file.sync_with(|| sync_data(file))
}

/// The same where whoever asks remembers what fails.
pub(super) fn sync_data(file: &OpenFile) -> Result<(), Error> {
    match file.readable() {
        Some(fd) => fsync(fd).map_err(error),
        None => Ok(()),
    }
}
