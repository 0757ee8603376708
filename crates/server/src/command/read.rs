//! READ (MS-SMB2 3.3.5.12, MS-FSA 2.1.5.3): what is asked of it on both paths, and the slow path, for data that is not in memory, ends of files,
//! refusals and pipes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Error, Kind, Node};
use wire::command::read::{Channel, ReadRequest, ReadResponse};
use wire::fscc::afp::AfpInfo;
use wire::security::access;
use wire::status::Status;

use crate::command::context::{Body, Context, Outcome, RESPONSE_ROOM, Reply};
use crate::resource::allowance::ANSWER_BYTES_SMALL;
use crate::resource::buffers::{Buffer, Buffers};
use crate::state::afp::AfpStream;
use crate::state::busy_files::Used;
use crate::state::open::{FileOpen, Open, Target};
use crate::state::pipe::Pipe;
use crate::state::refusal::Refusal;

/// What stands before the data in a response's body.
const FIXED_BYTES: usize = 16;

/// What a READ is of.
pub(crate) enum Source<'a> {
    File(&'a FileOpen),
    /// An AFP_AfpInfo, which is 60 bytes also where nothing was written to it.
    AfpInfo(&'a FileOpen),
    Pipe(&'a Pipe),
}

impl<'a> Source<'a> {
    /// Refuses what the request's fields, or what its open was granted, do not allow. Byte-range locks are looked at beside.
    pub(crate) fn of(request: &ReadRequest<'_>, open: &'a Open, payload_bytes_max: u32) -> Result<Self, Status> {
        if request.length > payload_bytes_max || request.channel != Channel::NONE {
            return Err(Status::INVALID_PARAMETER);
        }
        let file = match &open.target {
            Target::File(file) => file,
            Target::Pipe(pipe) => return Ok(Source::Pipe(pipe)),
        };
        if file.kind == Kind::Directory {
            return Err(Status::INVALID_DEVICE_REQUEST);
        }
        if !open.rights().has_any(access::READ_DATA | access::EXECUTE) {
            return Err(Status::ACCESS_DENIED);
        }
        if request.offset.checked_add(u64::from(request.length)).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Status::INVALID_PARAMETER);
        }
        match file.afp() {
            Some(AfpStream::Info) => Ok(Source::AfpInfo(file)),
            Some(AfpStream::Resource) | None => Ok(Source::File(file)),
        }
    }
}

pub(crate) async fn handle(context: &Context, request: ReadRequest<'_>) -> Outcome {
    let open = context.open()?;
    let payload_bytes_max = context.connection.negotiation.borrow().payload_bytes_max();
    let file = match Source::of(&request, open, payload_bytes_max)? {
        Source::File(file) | Source::AfpInfo(file) => file,
        Source::Pipe(pipe) => return read_pipe(context, pipe, request.length as usize).await,
    };
    let length = u64::from(request.length);
    if !file.file.locks_allow(&file.stream_name(), |locks| locks.may_read(open.id, request.offset, length)) {
        return Err(Status::FILE_LOCK_CONFLICT.into());
    }
    let (node, offset, is_info) = (Arc::clone(&file.node), request.offset, file.afp() == Some(AfpStream::Info));
    let wanted = request.length as usize;
    let buffers = &context.connection.buffers;
    let (start, data) = (RESPONSE_ROOM, RESPONSE_ROOM + FIXED_BYTES);
    let kept = match wanted < ANSWER_BYTES_SMALL {
        true => Some(Buffer::from(vec![0; data + wanted.max(1)])),
        false => buffers.lend_kept(data + wanted),
    };
    let (mut buffer, count) = context
        .read_of(length, move || {
            let mut buffer = kept.unwrap_or_else(|| {
                let mut buffer = Buffer::new(Buffers::size(data + wanted));
                buffer.touch(data + wanted);
                buffer
            });
            let into = &mut buffer[data..data + wanted];
            let count = if is_info { read_info(&*node, into, offset) } else { node.read_at(into, offset) };
            (buffer, count)
        })
        .await?;
    let count = match count {
        Ok(count) if (count > 0 || wanted == 0) && count >= request.minimum_count as usize => count,
        none => {
            buffers.give_back(buffer);
            return Err(none.map_or_else(Refusal::from, |_| Status::END_OF_FILE.into()));
        }
    };
    file.position.store(offset + count as u64, Ordering::Relaxed);
    file.audited.read(open.tree.audit(), count as u64);
    context.server().busy_files.note(context.connection.shard, open, Used::Read(count as u64));
    buffer[start..data].copy_from_slice(&ReadResponse::to_bytes(count as u32));
    // StructureSize counts one byte of the buffer.
    let end = data + count.max(1);
    Ok(Reply::new(Body::InPlace(buffer, start..end)))
}

/// Reads an AFP_AfpInfo: the blank one where nothing was written yet.
fn read_info(node: &dyn Node, into: &mut [u8], offset: u64) -> Result<usize, Error> {
    let count = node.read_at(into, offset)?;
    if count > 0 || node.metadata()?.length > 0 {
        return Ok(count);
    }
    let blank = AfpInfo::blank().to_bytes();
    let from = usize::try_from(offset).ok().and_then(|offset| blank.get(offset..)).unwrap_or_default();
    let count = from.len().min(into.len());
    into[..count].copy_from_slice(&from[..count]);
    Ok(count)
}

/// What does not fit stays for the next READ, which BUFFER_OVERFLOW says (3.3.5.12).
async fn read_pipe(context: &Context, pipe: &Pipe, bytes_max: usize) -> Outcome {
    let taken = pipe.read(&context.pipe_client()?, bytes_max).await?;
    let status = if taken.more { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
    Ok(Reply::with_status(status, body(&taken.bytes)))
}

fn body(data: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(FIXED_BYTES + data.len().max(1));
    body.extend_from_slice(&ReadResponse::to_bytes(data.len() as u32));
    body.extend_from_slice(data);
    if data.is_empty() {
        // StructureSize counts one byte of the buffer.
        body.push(0);
    }
    body
}
