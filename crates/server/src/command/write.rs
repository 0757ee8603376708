//! WRITE (MS-SMB2 3.3.5.13), the long way: write-through, refusals, pipes, and stores that keep writers waiting.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::Kind;
use wire::command::read::Channel;
use wire::command::write::{WriteRequest, WriteResponse};
use wire::security::access;
use wire::status::Status;

use crate::breaks;
use crate::context::{Context, Outcome, Reply};
use crate::notify;
use crate::open::Target;

/// An offset that means the end of the file, for opens that may only append (MS-FSA 2.1.5.3).
const END_OF_FILE: u64 = u64::MAX;

pub(crate) async fn handle(context: &Context, request: WriteRequest<'_>) -> Outcome {
    let open = context.open()?;
    if request.data.len() > context.connection.negotiation.borrow().payload_bytes_max() as usize {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if request.channel != Channel::NONE {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let count = request.data.len() as u32;
    let file = match &open.target {
        Target::File(file) => file,
        Target::Pipe(pipe) => {
            pipe.write(context, request.data)?;
            return Ok(Reply::new(WriteResponse::to_bytes(count).to_vec()));
        }
    };
    if file.kind == Kind::Directory {
        return Err(Status::INVALID_DEVICE_REQUEST.into());
    }
    let append_only = open.granted & access::WRITE_DATA == 0;
    if append_only && !open.may(access::APPEND_DATA) {
        return Err(Status::ACCESS_DENIED.into());
    }
    context.require_writable()?;
    let length = file.node.try_metadata().or_else(|_| file.node.metadata())?.length;
    let offset = if append_only && request.offset == END_OF_FILE { length } else { request.offset };
    let end = offset.checked_add(u64::from(count)).ok_or(Status::INVALID_PARAMETER)?;
    if end > i64::MAX as u64 {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if append_only && offset < length {
        return Err(Status::ACCESS_DENIED.into());
    }
    if count == 0 {
        return Ok(Reply::new(WriteResponse::to_bytes(0).to_vec()));
    }
    if end > context.store()?.facts().file_length_max {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if !file.file.locks_allow(&file.stream_name(), |locks| locks.may_write(open.id, offset, u64::from(count))) {
        return Err(Status::FILE_LOCK_CONFLICT.into());
    }
    let through = file.writes_through(request.flags);
    let (node, data, held) = (Arc::clone(&file.node), context.message.part(request.data_range()), Arc::clone(open));
    context
        .work(move || {
            node.write_at(&data, offset)?;
            if let Target::File(file) = &held.target {
                file.restore_frozen_times();
            }
            if through { node.sync() } else { Ok(()) }
        })
        .await??;
    breaks::data_changed(context.server(), file);
    file.position.store(end, Ordering::Relaxed);
    notify::wrote(context.server(), open);
    Ok(Reply::new(WriteResponse::to_bytes(count).to_vec()))
}
