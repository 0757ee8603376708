//! Data that another program copied with a file's attributes become that file's own.
//!
//! The attribute of the copy names the side file of the original. Its data go to a new side file, which gets its name and
//! the attribute when the disk has them: a crash leaves the attribute as it was, and a file that nothing names is marked.

use rustix::fd::{AsFd, OwnedFd};

use crate::copy::Span;
use crate::directory::calls::{fstatvfs, fsync};
use crate::directory::descriptor::Descriptor;
use crate::directory::errno::error;
use crate::directory::file::OpenFile;
use crate::directory::marks::Mark;
use crate::directory::quota::{BLOCK_BYTES, Growth};
use crate::directory::side::Nameless;
use crate::directory::side_name::SideName;
use crate::directory::stat::stat;
use crate::directory::stream_value::StreamValue;
use crate::directory::subject::Subject;
use crate::directory::volume::Volume;
use crate::directory::{data, reserved, side, streams};
use crate::{Error, Extent, Space, Use, waiting};

/// The most that is copied on a thread that must not wait.
const INLINE_BYTES_MAX: u64 = 1 << 20;
/// Bytes copied in one step, in which others' changes wait for the quota.
const STEP_BYTES: u64 = 16 << 20;
/// Bytes copied in one step through memory.
const CHUNK_BYTES: usize = 256 * 1024;
/// Ranges with data that are asked for at a time.
const EXTENTS_MAX: usize = 64;

/// A copy that nothing names yet. It goes when it is dropped.
pub(super) struct Copy<'a> {
    volume: &'a Volume,
    name: SideName,
    fd: Option<Descriptor>,
    /// Has it found where the server is killed.
    _mark: Nameless,
}

/// Copies a side file for another file. [`Error::Full`] where there is no room for it, [`Error::WouldBlock`] where this thread must
/// not take so long.
pub(super) fn copy<'a>(file: &'a OpenFile, from: &SideName) -> Result<Copy<'a>, Error> {
    let volume = &*file.volume;
    let source = side::open(&file.subject(), from, Use::Read)?.fd;
    let known = stat(&source).map_err(error)?;
    let held_bytes = known.stx_blocks * BLOCK_BYTES;
    // A copy that fails halfway takes others' room meanwhile.
    if held_bytes > free_bytes(volume, &source)? {
        return Err(Error::Full);
    }
    if held_bytes > INLINE_BYTES_MAX && !waiting::is_allowed() {
        return Err(Error::WouldBlock);
    }
    let name = SideName::new(file.subject().owner()?)?;
    let mark = Nameless::mark(&file.volume, name)?;
    let target = side::create(volume, &name)?;
    let copy = Copy { volume, name, fd: Some(target), _mark: mark };
    let target = copy.fd.as_ref().ok_or(Error::Gone)?;
    fill(file, &source, target, known.stx_size)?;
    fsync(target).map_err(error)?;
    Ok(copy)
}

impl Copy<'_> {
    /// Makes it the data of the stream that has `value` at `key`; gives its descriptor. What is kept with the file is locked.
    pub(super) fn keep(
        mut self,
        subject: &Subject<'_>,
        key: &str,
        value: &StreamValue<'_>,
    ) -> Result<Descriptor, Error> {
        let own = SideName { id: value.id, owner: self.name.owner };
        let mark = Mark::naming(subject, &own)?;
        if let Err(error) = side::rename(self.volume, &self.name, &own).and_then(|()| reserved::sync(self.volume)) {
            side::take_back(self.volume, &own, mark);
            return Err(error);
        }
        let fd = self.fd.take().ok_or(Error::Gone)?;
        streams::save_naming(subject, (&own, mark), key, value)?;
        Ok(fd)
    }
}

impl Drop for Copy<'_> {
    fn drop(&mut self) {
        if self.fd.is_some() {
            side::remove(self.volume, &self.name);
        }
    }
}

fn free_bytes<Fd: AsFd>(volume: &Volume, fd: Fd) -> Result<u64, Error> {
    let system = fstatvfs(fd).map_err(error)?;
    let bytes = |blocks: u64| blocks.saturating_mul(system.f_frsize);
    let space = Space { total_bytes: bytes(system.f_blocks), free_bytes: bytes(system.f_bavail) };
    Ok(volume.quota.as_ref().map_or(space, |quota| quota.within(space)).free_bytes)
}

/// Copies the ranges that hold data, within the quota.
fn fill(file: &OpenFile, source: &OwnedFd, target: &Descriptor, length: u64) -> Result<(), Error> {
    data::set_length(target, length).map_err(error)?;
    let mut next = Some(0);
    while let Some(at) = next {
        let extents = data::extents(source, at, length.saturating_sub(at), EXTENTS_MAX).map_err(error)?;
        next = extents.next;
        for Extent { offset, length } in extents.ranges {
            let end = offset + length;
            for offset in (offset..end).step_by(STEP_BYTES as usize) {
                let length = STEP_BYTES.min(end - offset);
                copy_range(file, source, target, Span { source_offset: offset, offset, length })?;
            }
        }
    }
    Ok(())
}

fn copy_range(file: &OpenFile, source: &OwnedFd, target: &Descriptor, span: Span) -> Result<(), Error> {
    let growth = |span: Span| Growth::Write { offset: span.offset, length: span.length };
    let (volume, identity) = (&file.volume, file.identity);
    match volume.account(identity, target, growth(span), || data::copy(source, target, span)) {
        Err(Error::Unsupported) => {}
        copied => return copied.map(|_| ()),
    }
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut done = 0;
    while done < span.length {
        let step = usize::try_from(span.length - done).unwrap_or(usize::MAX).min(buffer.len());
        let offset = span.offset + done;
        let count = data::read(source, &mut buffer[..step], offset).map_err(error)?;
        if count == 0 {
            break;
        }
        let chunk = Growth::Write { offset, length: count as u64 };
        volume.account(identity, target, chunk, || data::write(target, &buffer[..count], offset))?;
        done += count as u64;
    }
    Ok(())
}
