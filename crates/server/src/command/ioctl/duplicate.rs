//! FSCTL_DUPLICATE_EXTENTS_TO_FILE and its extended form (MS-SMB2 3.3.5.15.17, 3.3.5.15.18, MS-FSA 2.1.5.10.4, 2.1.5.10.5): two
//! files share what was one file's. Byte-range locks of either stand against it, as they do against reading the one and writing the other.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use store::{Kind, Node};
use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::{DuplicateExtents, DuplicateExtentsEx};
use wire::security::access::{READ_DATA, WRITE_DATA};
use wire::status::Status;

use super::{Answer, Answered, check_read_locks, check_write_locks, data_of, signed_range, sparse};
use crate::command::context::Context;
use crate::command::steps::COPY_STEP_BYTES;
use crate::state::breaks;
use crate::state::open::Open;
use crate::state::open_id::OpenId;
use crate::state::refusal::Refusal;
use crate::state::written;

/// No request is counted as more: Windows asks for no more than 4 GiB at once.
const MOVED_BYTES_MAX: u64 = 4 << 30;

/// What sharing a part counts for at least, however short it is.
const PART_COST_BYTES: u64 = 4096;

/// How many bytes one has the server read and write: as many as a copy, which it stands for. What is more than any file has is refused.
pub(super) fn moved_bytes(request: &IoctlRequest<'_>) -> u64 {
    DuplicateExtents::decode(request.input).map_or(0, |asked| moved(asked.length))
}

/// The same of its extended form.
pub(super) fn moved_bytes_extended(request: &IoctlRequest<'_>) -> u64 {
    DuplicateExtentsEx::decode(request.input).map_or(0, |asked| moved(asked.length))
}

fn moved(length: u64) -> u64 {
    2 * length.min(MOVED_BYTES_MAX)
}

pub(super) async fn duplicate(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    run(context, DuplicateExtents::decode(request.input)?).await
}

pub(super) async fn duplicate_extended(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let asked = DuplicateExtentsEx::decode(request.input)?;
    if asked.structure_size != DuplicateExtentsEx::STRUCTURE_SIZE {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let DuplicateExtentsEx { source, source_offset, target_offset, length, .. } = asked;
    run(context, DuplicateExtents { source, source_offset, target_offset, length }).await
}

async fn run(context: &Context, asked: DuplicateExtents) -> Answered {
    let (target, file) = data_of(context)?;
    let facts = context.store()?.facts();
    if !facts.shares_extents {
        return Err(Status::INVALID_DEVICE_REQUEST.into());
    }
    context.require_writable()?;
    target.require(WRITE_DATA)?;
    let source = source(context, &asked)?;
    let numbers = [asked.source_offset, asked.target_offset, asked.length];
    if numbers.into_iter().any(|number| !number.is_multiple_of(u64::from(facts.unit_bytes))) {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let from = signed_range(asked.source_offset, asked.length).ok_or(Status::INVALID_PARAMETER)?;
    let to = signed_range(asked.target_offset, asked.length).ok_or(Status::INVALID_PARAMETER)?;
    if from.is_empty() {
        return Ok(Answer::empty());
    }
    if Arc::ptr_eq(&source.file()?.file, &file.file) && from.start < to.end && to.start < from.end {
        return Err(Status::NOT_SUPPORTED.into());
    }
    let change = target.begin_change(to.clone())?;
    check_write_locks(target, file, &to)?;
    let bytes = context.held_bytes()?.min(asked.length);
    let mut sharing = Sharing { source, target: Arc::clone(target), from: from.start, to };
    let server = Arc::clone(context.server());
    let mut is_checked = false;
    let step = move || {
        let _change = &change;
        if !std::mem::replace(&mut is_checked, true)
            && let Err(refusal) = sharing.check()
        {
            return ControlFlow::Break(Err(refusal));
        }
        let step = sharing.advance();
        // What failed may have been done in part.
        if let Ok(file) = sharing.target.file() {
            breaks::data_changed(&server, file);
        }
        match step {
            Ok(()) if sharing.to.is_empty() => ControlFlow::Break(Ok(())),
            Ok(()) => ControlFlow::Continue(()),
            Err(refusal) => ControlFlow::Break(Err(refusal)),
        }
    };
    let done = context.work_in_steps(bytes, step).await;
    written::data_changed(context.server(), target, context.session_id);
    done??;
    context.restore_frozen_times().await?;
    Ok(Answer::empty())
}

/// What is to be shared, and how far that has come.
struct Sharing {
    source: Arc<Open>,
    target: Arc<Open>,
    /// Where what is left begins in the source.
    from: u64,
    /// What is left in the target.
    to: Range<u64>,
}

impl Sharing {
    /// The source has all that is asked for, and both are sparse or neither is. The target does not grow (MS-FSA changes its extents, not its
    /// size).
    fn check(&mut self) -> Result<(), Refusal> {
        let (source, target) = (self.source.file()?, self.target.file()?);
        let length = source.node.metadata()?.length;
        let is_short = length.saturating_sub(self.from) < self.to.end - self.to.start;
        if is_short || (sparse::is_sparse(&**source.base())? && !sparse::is_sparse(&**target.base())?) {
            return Err(Status::NOT_SUPPORTED.into());
        }
        self.to.end = self.to.end.min(target.node.metadata()?.length);
        Ok(())
    }

    /// Shares the next parts, as much as a copy's step copies.
    fn advance(&mut self) -> Result<(), Refusal> {
        let (source, target) = (self.source.file()?, self.target.file()?);
        // Each step, as each READ, looks at the locks that there are then; in the target none comes to be while it changes.
        check_read_locks(&self.source, source, &(self.from..self.from + (self.to.end - self.to.start)))?;
        let mut room = COPY_STEP_BYTES;
        while !self.to.is_empty() && room > 0 {
            let left = self.to.end - self.to.start;
            let done = Node::clone_from(&*target.node, &*source.node, self.from, self.to.start, left)?;
            source.audited.read(self.source.tree.audit(), done);
            target.audited.wrote(self.target.tree.audit(), done);
            self.from += done;
            self.to.start += done;
            room = room.saturating_sub(done.max(PART_COST_BYTES));
        }
        Ok(())
    }
}

/// The open to share from: of the same session and volume, and readable.
fn source(context: &Context, asked: &DuplicateExtents) -> Result<Arc<Open>, Refusal> {
    let id = OpenId::from_file_id(asked.source).ok_or(Status::INVALID_HANDLE)?;
    let open = context.open_besides(id)?.ok_or(Status::INVALID_HANDLE)?;
    let same_volume =
        open.tree.store().is_some_and(|theirs| context.store().is_ok_and(|ours| Arc::ptr_eq(theirs, ours)));
    let readable = open.may(READ_DATA) && open.file()?.kind != Kind::Directory;
    if same_volume && readable { Ok(open) } else { Err(Status::INVALID_PARAMETER.into()) }
}
