//! FSCTL_SRV_COPYCHUNK and FSCTL_SRV_COPYCHUNK_WRITE (MS-SMB2 3.3.5.15.6): the server copies ranges from one file to another, or
//! within one.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::{Chunk, CopyChunks, CopyChunksResult};
use wire::security::access::{APPEND_DATA, EXECUTE, READ_DATA, WRITE_DATA};
use wire::status::Status;

use super::{Answer, Answered, check_read_locks, check_write_locks, resume_key, signed_range};
use crate::command::context::Context;
use crate::command::steps::COPY_STEP_BYTES;
use crate::command::write;
use crate::resource::turns::REQUEST_COST;
use crate::state::breaks;
use crate::state::open::Open;
use crate::state::refusal::{Refusal, status_of};
use crate::state::written;

/// ServerSideCopyMaxNumberofChunks, ServerSideCopyMaxChunkSize and ServerSideCopyMaxDataSize (3.3.3): Windows Server's.
const CHUNKS_MAX: usize = 256;
const CHUNK_BYTES_MAX: u32 = 1 << 20;
const TOTAL_BYTES_MAX: u64 = 16 << 20;
/// A TargetOffset that means the end of the file.
const END_OF_FILE: u64 = u64::MAX;

/// What the target must have been opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// FSCTL_SRV_COPYCHUNK: reading too.
    MustBeReadable,
    /// FSCTL_SRV_COPYCHUNK_WRITE: writing alone.
    WriteSuffices,
}

/// How many bytes a request of this control code would have the server read and write; 0 where it would not, or has too much copied.
pub(super) fn moved_bytes(request: &IoctlRequest<'_>) -> u64 {
    let chunks = CopyChunks::decode(request.input).ok();
    2 * chunks.and_then(|chunks| total_bytes(&chunks)).unwrap_or(0)
}

pub(super) async fn copy(context: &Context, request: &IoctlRequest<'_>, kind: Target) -> Answered {
    if (request.max_output_response as usize) < CopyChunksResult::LENGTH {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let Ok(chunks) = CopyChunks::decode(request.input) else { return Ok(limits()) };
    let (target, _) = context.file()?;
    let source = source(context, &chunks)?;
    let Some(total_bytes) = total_bytes(&chunks) else { return Ok(limits()) };
    check_access(&source, target, kind)?;
    if is_directory(&source)? || is_directory(target)? {
        return Err(Status::INVALID_DEVICE_REQUEST.into());
    }
    context.require_writable()?;
    let length_max = context.store()?.facts().file_length_max;
    let chunks: VecDeque<_> = chunks.chunks().collect();
    let count = chunks.len();
    context.in_flight.note_done_here((count * REQUEST_COST) as u64);
    let result = CopyChunksResult { chunks: 0, chunk_bytes: 0, total_bytes: 0 };
    // It may lie elsewhere than the target.
    let from = Arc::clone(&source.file()?.node);
    let mut copy = Copy { source, target: Arc::clone(target), chunks, length_max, result };
    let server = Arc::clone(context.server());
    let change = target.begin_change(0..u64::MAX)?;
    let step = move || {
        let _change = &change;
        let step = copy.advance();
        if let Ok(file) = copy.target.file() {
            breaks::data_changed(&server, file);
        }
        step
    };
    let done = context.work_in_calls_with(&*from, total_bytes, count, step).await;
    written::data_changed(context.server(), target, context.session_id);
    let (result, status) = done?;
    context.restore_frozen_times().await?;
    Ok(answer(status, &result))
}

/// How far a copy came, also where it failed (3.3.5.15.6.1).
fn answer(status: Status, result: &CopyChunksResult) -> Answer {
    let mut output = Vec::new();
    result.encode(&mut output);
    Answer { status, output }
}

/// "Sending an Invalid Parameter Server-Side Copy Response" (3.3.5.15.6.2).
fn limits() -> Answer {
    let limits = CopyChunksResult {
        chunks: CHUNKS_MAX as u32,
        chunk_bytes: CHUNK_BYTES_MAX,
        total_bytes: TOTAL_BYTES_MAX as u32,
    };
    answer(Status::INVALID_PARAMETER, &limits)
}

/// The source: only an open of the same session is one.
fn source(context: &Context, chunks: &CopyChunks<'_>) -> Result<Arc<Open>, Refusal> {
    let id = resume_key::open_of(&chunks.source).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    let open = context.open_besides(id)?.ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
    open.file()?;
    Ok(open)
}

/// How much is asked for; `None` where it is more than we do at once, or nonsense.
fn total_bytes(chunks: &CopyChunks<'_>) -> Option<u64> {
    if chunks.count() > CHUNKS_MAX {
        return None;
    }
    let sane = |chunk: &Chunk| {
        let positive = chunk.target_offset <= i64::MAX as u64 || chunk.target_offset == END_OF_FILE;
        positive && chunk.length > 0 && chunk.length <= CHUNK_BYTES_MAX
    };
    let total: u64 = chunks.chunks().map(|chunk| u64::from(chunk.length)).sum();
    (chunks.chunks().all(|chunk| sane(&chunk)) && total <= TOTAL_BYTES_MAX).then_some(total)
}

/// The source may be open to execute instead, as for READ; for the target Windows does not take that.
fn check_access(source: &Open, target: &Open, kind: Target) -> Result<(), Status> {
    let readable = match kind {
        Target::MustBeReadable => target.may(READ_DATA),
        Target::WriteSuffices => true,
    };
    let allowed =
        source.rights().has_any(READ_DATA | EXECUTE) && target.rights().has_any(WRITE_DATA | APPEND_DATA) && readable;
    if allowed { Ok(()) } else { Err(Status::ACCESS_DENIED) }
}

fn is_directory(open: &Open) -> Result<bool, Status> {
    Ok(open.file()?.kind == store::Kind::Directory)
}

/// A copy that may be made, and how far it has come.
struct Copy {
    source: Arc<Open>,
    target: Arc<Open>,
    /// Those that are left, the next one first.
    chunks: VecDeque<Chunk>,
    length_max: u64,
    result: CopyChunksResult,
}

impl Copy {
    /// A step: copies chunk by chunk until one fails or there are no more. Then tells what was done, and how it ended.
    fn advance(&mut self) -> ControlFlow<(CopyChunksResult, Status)> {
        let before = self.result.total_bytes;
        while let Some(chunk) = self.chunks.pop_front() {
            if let Err(status) = self.copy_chunk(&chunk) {
                return ControlFlow::Break((self.result, status));
            }
            self.note_audited(u64::from(chunk.length));
            self.result.chunks += 1;
            self.result.total_bytes += chunk.length;
            if u64::from(self.result.total_bytes - before) >= COPY_STEP_BYTES && !self.chunks.is_empty() {
                return ControlFlow::Continue(());
            }
        }
        ControlFlow::Break((self.result, Status::SUCCESS))
    }

    /// What is copied is read through one open and written through the other.
    fn note_audited(&self, bytes: u64) {
        if let (Ok(source), Ok(target)) = (self.source.file(), self.target.file()) {
            source.audited.read(self.source.tree.audit(), bytes);
            target.audited.wrote(self.target.tree.audit(), bytes);
        }
    }

    fn copy_chunk(&self, chunk: &Chunk) -> Result<(), Status> {
        let (source, target) = (self.source.file()?, self.target.file()?);
        let length = u64::from(chunk.length);
        let from = signed_range(chunk.source_offset, length).ok_or(Status::INVALID_VIEW_SIZE)?;
        let available = source.node.metadata().map_err(status_of)?.length;
        if from.end > available {
            return Err(Status::INVALID_VIEW_SIZE);
        }
        check_read_locks(&self.source, source, &from)?;
        if chunk.target_offset == END_OF_FILE || !self.target.may(WRITE_DATA) {
            return self.append_chunk(chunk);
        }
        let to = self.admit(chunk.target_offset, length)?;
        let copied = target.node.copy_from(&*source.node, from.start, to.start, length).map_err(status_of)?;
        // Somebody cut the source meanwhile.
        if copied < length { Err(Status::INVALID_VIEW_SIZE) } else { Ok(()) }
    }

    /// Where a chunk goes is known only when it is written: an open that may only append writes nowhere else.
    fn append_chunk(&self, chunk: &Chunk) -> Result<(), Status> {
        let mut data = vec![0; chunk.length as usize];
        let count = self.source.file()?.node.read_at(&mut data, chunk.source_offset).map_err(status_of)?;
        if count < data.len() {
            // Somebody cut the source meanwhile.
            return Err(Status::INVALID_VIEW_SIZE);
        }
        let append_only = !self.target.may(WRITE_DATA);
        write::append(self.target.file()?, &data, |length| {
            let offset = if chunk.target_offset == END_OF_FILE { length } else { chunk.target_offset };
            if append_only && offset < length {
                return Err(Status::ACCESS_DENIED);
            }
            self.admit(offset, u64::from(chunk.length)).map(|to| to.start)
        })
        .map(|_| ())
        .map_err(|refusal| refusal.status)
    }

    /// The range of the target, where it may be written.
    fn admit(&self, offset: u64, length: u64) -> Result<Range<u64>, Status> {
        let to = signed_range(offset, length).ok_or(Status::INVALID_PARAMETER)?;
        if to.end > self.length_max {
            return Err(Status::DISK_FULL);
        }
        check_write_locks(&self.target, self.target.file()?, &to)?;
        Ok(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(chunks: &[Chunk]) -> Option<u64> {
        let mut input = Vec::new();
        CopyChunks::encode(&[0; 24], chunks, &mut input);
        total_bytes(&CopyChunks::decode(&input).unwrap())
    }

    fn chunk(length: u32) -> Chunk {
        Chunk { source_offset: 0, target_offset: 0, length }
    }

    #[test]
    fn copies_are_bounded_in_chunks_and_bytes() {
        assert_eq!(total(&[]), Some(0));
        assert_eq!(total(&[chunk(1); CHUNKS_MAX]), Some(CHUNKS_MAX as u64));
        assert_eq!(total(&[chunk(1); CHUNKS_MAX + 1]), None);
        assert_eq!(total(&[chunk(CHUNK_BYTES_MAX); 16]), Some(TOTAL_BYTES_MAX));
        assert_eq!(total(&[chunk(CHUNK_BYTES_MAX); 17]), None);
        assert_eq!(total(&[chunk(CHUNK_BYTES_MAX + 1)]), None);
        assert_eq!(total(&[chunk(u32::MAX); CHUNKS_MAX]), None);
        assert_eq!(total(&[chunk(1), chunk(0)]), None);
    }

    #[test]
    fn a_target_before_the_file_is_refused_and_its_end_is_not() {
        assert_eq!(total(&[Chunk { target_offset: 1 << 63, ..chunk(1) }]), None);
        assert_eq!(total(&[Chunk { target_offset: u64::MAX - 1, ..chunk(1) }]), None);
        assert_eq!(total(&[Chunk { target_offset: END_OF_FILE, ..chunk(1) }]), Some(1));
    }
}
