//! Data of an open file of the file system: each function is a few system calls and allocates nothing but its answer.

use std::io::{IoSlice, IoSliceMut};

use rustix::fd::AsFd;
use rustix::fs::{FallocateFlags, SeekFrom, copy_file_range, fallocate, ftruncate};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2, pwrite, pwritev2};

use crate::copy::Span;
use crate::directory::calls::{again, fstat, fstatvfs, seek};
use crate::{Extent, Extents};

/// The kernel's offsets are signed.
const OFFSET_MAX: u64 = i64::MAX as u64;
/// Zeros to write where the file system cannot make them.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];
/// With less than this left a file system may not have room for what is appended.
const SCARCE_BYTES: u64 = 512 << 20;
/// The most bytes copied in one call of the kernel, so that a call ends.
const COPY_STEP_BYTES: u64 = 256 << 20;

/// The most ranges that are looked for in one go: each is two calls of the kernel.
const EXTENTS_MAX: usize = 256;

/// Length in bytes.
pub(super) fn length<Fd: AsFd>(fd: Fd) -> Result<u64, Errno> {
    Ok(u64::try_from(fstat(fd)?.st_size).unwrap_or(0))
}

/// Length, and how much space it has, in bytes.
pub(super) fn space<Fd: AsFd>(fd: Fd) -> Result<(u64, u64), Errno> {
    let stat = fstat(fd)?;
    Ok((u64::try_from(stat.st_size).unwrap_or(0), u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)))
}

/// Reads until `buffer` is full or the file ends.
pub(super) fn read<Fd: AsFd>(fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let buffer = within_offsets(buffer, offset);
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match pread(&fd, rest, offset + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Reads what is in memory. EAGAIN where that is less than `buffer` and the file does not end there, EOPNOTSUPP where
/// the file system cannot tell.
pub(super) fn read_without_waiting<Fd: AsFd>(fd: Fd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let buffer = within_offsets(buffer, offset);
    let wanted = buffer.len();
    if wanted == 0 {
        return Ok(0);
    }
    let count = loop {
        match preadv2(&fd, &mut [IoSliceMut::new(&mut *buffer)], offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            answer => break answer?,
        }
    };
    if count == 0 || count == wanted || offset + count as u64 >= length(&fd)? {
        return Ok(count);
    }
    Err(Errno::AGAIN)
}

/// The part of a buffer that the kernel's offsets reach.
fn within_offsets(buffer: &mut [u8], offset: u64) -> &mut [u8] {
    let reach = usize::try_from(OFFSET_MAX.saturating_sub(offset)).unwrap_or(usize::MAX);
    let length = buffer.len().min(reach);
    &mut buffer[..length]
}

/// Writes all of `data`.
pub(super) fn write<Fd: AsFd>(fd: Fd, data: &[u8], offset: u64) -> Result<(), Errno> {
    if offset.checked_add(data.len() as u64).is_none_or(|end| end > OFFSET_MAX) {
        return Err(Errno::FBIG);
    }
    let mut done = 0;
    while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
        match pwrite(&fd, rest, offset + done as u64) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Writes all of `data` at the end, wherever that is when the kernel writes it. Where there may not be room for all of it, room
/// is made first, so that an append that fails for want of it has not happened.
pub(super) fn append<Fd: AsFd>(fd: Fd, data: &[u8]) -> Result<(), Errno> {
    let count = data.len() as u64;
    let held = length(&fd)?;
    if held.checked_add(count).is_none_or(|end| end > OFFSET_MAX) {
        return Err(Errno::FBIG);
    }
    let system = fstatvfs(&fd)?;
    if system.f_bavail.saturating_mul(system.f_frsize) < count.saturating_add(SCARCE_BYTES) {
        match allocate(&fd, FallocateFlags::KEEP_SIZE, held, count) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno),
        }
    }
    let mut done = 0;
    while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
        match pwritev2(&fd, &[IoSlice::new(rest)], held, ReadWriteFlags::APPEND) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Cuts or grows.
pub(super) fn set_length<Fd: AsFd>(fd: Fd, length: u64) -> Result<(), Errno> {
    if length > OFFSET_MAX {
        return Err(Errno::FBIG);
    }
    match again(|| ftruncate(&fd, length)) {
        Err(Errno::INVAL) => Err(Errno::FBIG),
        answer => answer,
    }
}

/// Reserves space past the end of the data, up to `up_to`; nothing where the file system cannot.
pub(super) fn reserve<Fd: AsFd>(fd: Fd, up_to: u64) -> Result<(), Errno> {
    let held = length(&fd)?;
    if up_to <= held {
        return Ok(());
    }
    if up_to > OFFSET_MAX {
        return Err(Errno::FBIG);
    }
    reserve_range(fd, held, up_to)
}

/// Reserves the space of a range; nothing where the file system cannot.
pub(super) fn reserve_range<Fd: AsFd>(fd: Fd, start: u64, end: u64) -> Result<(), Errno> {
    match allocate(&fd, FallocateFlags::KEEP_SIZE, start, end.saturating_sub(start)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        answer => answer,
    }
}

/// False where space up to `up_to` cannot be reserved behind the data, for certain. EFBIG where no file is so long.
pub(super) fn may_have_room<Fd: AsFd>(fd: Fd, up_to: u64) -> Result<bool, Errno> {
    if up_to > OFFSET_MAX {
        return Err(Errno::FBIG);
    }
    let system = fstatvfs(&fd)?;
    let (size, held) = space(&fd)?;
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    // A file system without a limit has no size, and what a file with holes holds may lie behind its data.
    let is_enough = up_to.saturating_sub(size.max(held)) <= free;
    Ok(is_enough || system.f_blocks == 0 || seek(&fd, SeekFrom::Hole(0)).is_ok_and(|hole| hole < size))
}

/// Frees the space of a range, which lies behind the data or is to be cut; nothing where the file system cannot.
pub(super) fn punch<Fd: AsFd>(fd: Fd, offset: u64, count: u64) -> Result<(), Errno> {
    let count = count.min(OFFSET_MAX.saturating_sub(offset));
    if count == 0 {
        return Ok(());
    }
    match allocate(&fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, count) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        answer => answer,
    }
}

/// Makes a range read as zeros, without changing the length.
pub(super) fn zero<Fd: AsFd>(fd: Fd, offset: u64, count: u64, punch: bool) -> Result<(), Errno> {
    let held = length(&fd)?;
    let count = count.min(held.saturating_sub(offset));
    if count == 0 {
        return Ok(());
    }
    let punched = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let zeroed = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    let ways = if punch { [punched, zeroed] } else { [zeroed, punched] };
    for way in ways {
        match allocate(&fd, way, offset, count) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            answer => return answer,
        }
    }
    write_zeros(fd, offset, offset + count)
}

/// Overwrites what is not zeros: a hole would take space, whether the file system tells it or not.
fn write_zeros<Fd: AsFd>(fd: Fd, offset: u64, end: u64) -> Result<(), Errno> {
    let mut next = Some(offset);
    let mut found = vec![0; ZEROS.len()];
    while let Some(from) = next {
        let part = extents(&fd, from, end - from, usize::MAX)?;
        for Extent { offset: mut at, length } in part.ranges {
            let stop = at + length;
            while at < stop {
                let wanted = (stop - at).min(ZEROS.len() as u64) as usize;
                let held = read(&fd, &mut found[..wanted], at)?;
                if held < wanted || found[..wanted] != ZEROS[..wanted] {
                    write(&fd, &ZEROS[..wanted], at)?;
                }
                at += wanted as u64;
            }
        }
        next = part.next;
    }
    Ok(())
}

fn allocate<Fd: AsFd>(fd: Fd, flags: FallocateFlags, offset: u64, count: u64) -> Result<(), Errno> {
    again(|| fallocate(&fd, flags, offset, count))
}

/// The first ranges that hold data; all of the file where the file system cannot tell.
pub(super) fn extents<Fd: AsFd>(fd: Fd, offset: u64, count: u64, count_max: usize) -> Result<Extents, Errno> {
    let end = length(&fd)?.min(offset.saturating_add(count));
    let mut found = Vec::new();
    let mut at = offset;
    while at < end {
        if found.len() >= count_max.min(EXTENTS_MAX) {
            return Ok(Extents { ranges: found, next: Some(at) });
        }
        let start = match seek(&fd, SeekFrom::Data(at)) {
            Ok(start) => start.max(at),
            Err(Errno::NXIO) => break,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(errno) => return Err(errno),
        };
        if start >= end {
            break;
        }
        let stop = match seek(&fd, SeekFrom::Hole(start)) {
            Ok(stop) => stop.min(end),
            Err(Errno::NXIO | Errno::INVAL | Errno::OPNOTSUPP) => end,
            Err(errno) => return Err(errno),
        };
        if stop > start {
            found.push(Extent { offset: start, length: stop - start });
        }
        at = stop.max(start + 1);
    }
    Ok(Extents { ranges: found, next: None })
}

/// Copies within the kernel a range that the source has now. EOPNOTSUPP where nothing was
/// copied and it must be done otherwise.
pub(super) fn copy<From: AsFd, To: AsFd>(source: From, target: To, span: Span) -> Result<u64, Errno> {
    let (mut from, mut to) = (span.source_offset, span.offset);
    if to.checked_add(span.length).is_none_or(|end| end > OFFSET_MAX) {
        return Err(Errno::FBIG);
    }
    let mut done = 0;
    while done < span.length {
        let step = usize::try_from((span.length - done).min(COPY_STEP_BYTES)).unwrap_or(usize::MAX);
        match copy_file_range(&source, Some(&mut from), &target, Some(&mut to), step) {
            Ok(0) => break,
            Ok(count) => done += count as u64,
            Err(Errno::INTR) => {}
            Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::BADF | Errno::TXTBSY) if done == 0 => {
                return Err(Errno::OPNOTSUPP);
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    #[test]
    fn writing_zeros_leaves_holes_holes() {
        const LENGTH: u64 = 64 << 20;
        let file = tempfile::tempfile().unwrap();
        file.set_len(LENGTH).unwrap();
        for at in [1_000_000, 20_000_000, LENGTH - 3] {
            file.write_all_at(b"old", at).unwrap();
        }
        let held = file.metadata().unwrap().blocks();
        write_zeros(&file, 1_000_001, LENGTH).unwrap();
        assert!(file.metadata().unwrap().blocks() <= held);
        let mut found = [1; 8];
        file.read_exact_at(&mut found, 999_998).unwrap();
        assert_eq!(found, *b"\0\0o\0\0\0\0\0");
        for at in [20_000_000, LENGTH - 8] {
            file.read_exact_at(&mut found, at).unwrap();
            assert_eq!(found, [0; 8]);
        }
        assert_eq!(file.metadata().unwrap().len(), LENGTH);
    }
}
