//! WRITE (MS-SMB2 3.3.5.13, MS-FSA 2.1.5.4): what is asked of it on both paths, and the slow path, for write-through, refusals, pipes, and stores that
//! keep writers waiting.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::{Error, Kind};
use wire::command::read::Channel;
use wire::command::write::{WriteRequest, WriteResponse};
use wire::fscc::afp::AfpInfo;
use wire::security::access;
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::state::afp::{self, AfpStream};
use crate::state::breaks;
use crate::state::busy_files::Used;
use crate::state::open::{FileOpen, Open, Target};
use crate::state::pipe::Pipe;
use crate::state::refusal::Refusal;
use crate::state::written;

/// An offset that means the end of the file (MS-FSA 2.1.5.4).
const END_OF_FILE: u64 = u64::MAX;

pub(crate) async fn handle(context: &Context, request: WriteRequest<'_>) -> Outcome {
    let open = context.open()?;
    let payload_bytes_max = context.connection.negotiation.borrow().payload_bytes_max();
    let count = request.data.len() as u32;
    let (file, write) = match Sink::of(&request, open, payload_bytes_max)? {
        Sink::File(file, write) => (file, write),
        Sink::AfpInfo(file) => return write_info(context, file, &request).await,
        Sink::Pipe(pipe) => {
            pipe.write(&context.pipe_client()?, request.data).await?;
            return Ok(Reply::new(WriteResponse::to_bytes(count).to_vec()));
        }
    };
    if count == 0 {
        let length = context.length().await?;
        write.offset_at(length)?;
        return Ok(Reply::new(WriteResponse::to_bytes(0).to_vec()));
    }
    let change = open.begin_change(write.range())?;
    if !write.appends() {
        write.admit(open, file, write.offset)?;
    }
    let through = file.writes_through(request.flags);
    let (data, held, server) = (context.message.part(request.data_range()), Arc::clone(open), context.server());
    let (server, writer) = (Arc::clone(server), context.session_id);
    let (end, cost) = context
        .work(move || -> Result<_, Refusal> {
            let _change = change;
            let file = held.file()?;
            let (begun, end) = write.make(&held, file, &data, through);
            if end.is_ok() {
                file.audited.wrote(held.tree.audit(), data.len() as u64);
            }
            // What failed may have been made in part, and so may what its client waits for no longer.
            let cost = if begun { breaks::data_changed(&server, file) } else { 0 };
            if begun && end.is_err() {
                written::data_changed(&server, &held, writer);
            }
            Ok((end, cost))
        })
        .await??;
    context.in_flight.note_done_here(cost);
    file.position.store(end?, Ordering::Relaxed);
    context.server().busy_files.note(context.connection.shard, open, Used::Wrote(count.into()));
    written::wrote(context.server(), open, context.session_id);
    Ok(Reply::new(WriteResponse::to_bytes(count).to_vec()))
}

/// What a WRITE is to.
pub(crate) enum Sink<'a> {
    File(&'a FileOpen, Write),
    /// An AFP_AfpInfo, which keeps its form.
    AfpInfo(&'a FileOpen),
    Pipe(&'a Pipe),
}

impl<'a> Sink<'a> {
    /// Refuses what the request's fields, what its open was granted, or its share do not allow. Where it goes is looked at beside.
    pub(crate) fn of(request: &WriteRequest<'_>, open: &'a Open, payload_bytes_max: u32) -> Result<Self, Status> {
        if request.data.len() > payload_bytes_max as usize || request.channel != Channel::NONE {
            return Err(Status::INVALID_PARAMETER);
        }
        let file = match &open.target {
            Target::File(file) => file,
            Target::Pipe(pipe) => return Ok(Sink::Pipe(pipe)),
        };
        if file.kind == Kind::Directory {
            return Err(Status::INVALID_DEVICE_REQUEST);
        }
        let append_only = !open.may(access::WRITE_DATA);
        if append_only && !open.may(access::APPEND_DATA) {
            return Err(Status::ACCESS_DENIED);
        }
        open.tree.require_writable()?;
        if file.afp() == Some(AfpStream::Info) {
            return if append_only { Err(Status::ACCESS_DENIED) } else { Ok(Sink::AfpInfo(file)) };
        }
        let store = open.tree.store().ok_or(Status::INVALID_DEVICE_REQUEST)?;
        let (offset, count) = (request.offset, request.data.len() as u64);
        Ok(Sink::File(file, Write { offset, count, append_only, length_max: store.facts().file_length_max }))
    }
}

/// Writes an AFP_AfpInfo, or its beginning: the rest stays as it is, and what is longer is cut. What does not begin as one is none.
async fn write_info(context: &Context, file: &FileOpen, request: &WriteRequest<'_>) -> Outcome {
    let (open, count) = (context.open()?, request.data.len() as u32);
    let length = AfpInfo::LENGTH as u64;
    if count > 0 {
        // A whole one goes to its place, wherever it says.
        if request.offset != 0 && u64::from(count) < length {
            return Err(Status::INVALID_PARAMETER.into());
        }
        AfpInfo::blank().overwritten(request.data)?;
        let change = open.begin_change(0..length)?;
        if !file.file.locks_allow(&file.stream_name(), |locks| locks.may_write(open.id, 0, length)) {
            return Err(Status::FILE_LOCK_CONFLICT.into());
        }
        let through = file.writes_through(request.flags);
        let (data, held) = (context.message.part(request.data_range()), Arc::clone(open));
        let (server, writer) = (Arc::clone(context.server()), context.session_id);
        context
            .work(move || -> Result<_, Refusal> {
                let _change = change;
                let file = held.file()?;
                let before = afp::info(&*file.node)?.unwrap_or_else(AfpInfo::blank);
                let written = file.node.write_at(&before.overwritten(&data)?.to_bytes(), 0);
                file.restore_frozen_times();
                breaks::data_changed(&server, file);
                written?;
                file.audited.wrote(held.tree.audit(), data.len() as u64);
                if file.node.metadata()?.length > length {
                    file.node.set_length(length)?;
                }
                if through {
                    file.node.sync()?;
                }
                Ok(())
            })
            .await??;
        context.server().busy_files.note(context.connection.shard, open, Used::Wrote(count.into()));
        written::wrote(context.server(), open, writer);
    }
    file.position.store(count.into(), Ordering::Relaxed);
    Ok(Reply::new(WriteResponse::to_bytes(count).to_vec()))
}

/// Where a write goes, and what is asked of that before it is made.
#[derive(Clone, Copy)]
pub(crate) struct Write {
    offset: u64,
    count: u64,
    /// The open may add data and change none.
    append_only: bool,
    length_max: u64,
}

impl Write {
    /// True where only the store can say where the write goes, or whether it may go there.
    pub(crate) fn appends(&self) -> bool {
        self.append_only || self.offset == END_OF_FILE
    }

    /// What it may change.
    pub(crate) fn range(&self) -> Range<u64> {
        if self.appends() { 0..u64::MAX } else { self.offset..self.offset.saturating_add(self.count) }
    }

    /// Where the write goes in data of this length. What may only be added to is not changed (MS-SMB2 3.3.5.13).
    fn offset_at(&self, length: u64) -> Result<u64, Status> {
        let offset = if self.offset == END_OF_FILE { length } else { self.offset };
        if offset.checked_add(self.count).is_none_or(|end| end > i64::MAX as u64) {
            return Err(Status::INVALID_PARAMETER);
        }
        if self.append_only && offset < length { Err(Status::ACCESS_DENIED) } else { Ok(offset) }
    }

    /// Writes, where it waits if need be. Tells whether it was begun, and the offset behind what was written.
    fn make(&self, open: &Open, file: &FileOpen, data: &[u8], through: bool) -> (bool, Result<u64, Refusal>) {
        let mut begun = !self.appends();
        let written = if self.appends() {
            append(file, data, |length| {
                let offset = self.offset_at(length)?;
                self.admit(open, file, offset)?;
                begun = true;
                Ok(offset)
            })
        } else {
            file.node.write_at(data, self.offset).map(|()| self.offset + self.count).map_err(Refusal::from)
        };
        file.restore_frozen_times();
        let kept = if through && written.is_ok() { file.node.sync() } else { Ok(()) };
        (begun, written.and_then(|end| Ok(kept.map(|()| end)?)))
    }

    /// Where it ends from `offset` on, which a file must be able to have.
    pub(crate) fn end(&self, offset: u64) -> Result<u64, Status> {
        let end = offset.checked_add(self.count).ok_or(Status::INVALID_PARAMETER)?;
        if end > self.length_max.min(i64::MAX as u64) { Err(Status::INVALID_PARAMETER) } else { Ok(end) }
    }

    /// The range is one that a file can have, and nobody else has locked it.
    fn admit(&self, open: &Open, file: &FileOpen, offset: u64) -> Result<(), Status> {
        self.end(offset)?;
        if !file.file.locks_allow(&file.stream_name(), |locks| locks.may_write(open.id, offset, self.count)) {
            return Err(Status::FILE_LOCK_CONFLICT);
        }
        Ok(())
    }
}

/// Appends in one step: `offset_at` is told the length that the data have then and says where to write, or why not. Gives the offset
/// behind what was written.
pub(crate) fn append(
    file: &FileOpen,
    data: &[u8],
    mut offset_at: impl FnMut(u64) -> Result<u64, Status>,
) -> Result<u64, Refusal> {
    let mut refused = None;
    let appended = file.node.append(data, &mut |length| {
        offset_at(length).map_err(|status| {
            refused = Some(status);
            Error::Denied
        })
    });
    appended.map_err(|error| refused.map_or_else(|| error.into(), Refusal::from))
}
