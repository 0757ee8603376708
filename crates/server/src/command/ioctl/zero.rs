//! FSCTL_SET_ZERO_DATA (MS-FSA 2.1.5.10.39): makes a range read as zeros; of a sparse file, frees its space.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use store::{Error, Node};
use wire::command::create::CreateOptions;
use wire::command::ioctl::IoctlRequest;
use wire::command::write::WriteFlags;
use wire::fscc::ioctl::ZeroData;
use wire::security::access::WRITE_DATA;
use wire::status::Status;

use super::{Answer, Answered, check_write_locks, data_of, sparse};
use crate::command::context::Context;
use crate::command::steps::ZERO_STEP_BYTES;
use crate::state::breaks;
use crate::state::refusal::Refusal;
use crate::state::written;

pub(super) async fn zero(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, file) = data_of(context)?;
    let asked = ZeroData::decode(request.input)?;
    let (start, end) = (asked.offset, asked.beyond_final_zero);
    if start > end || end > i64::MAX as u64 {
        return Err(Status::INVALID_PARAMETER.into());
    }
    open.require(WRITE_DATA)?;
    context.require_writable()?;
    let change = open.begin_change(start..end)?;
    check_write_locks(open, file, &(start..end))?;
    let through =
        file.writes_through(WriteFlags::NONE) || file.options & CreateOptions::NO_INTERMEDIATE_BUFFERING.0 != 0;
    let (held, server) = (Arc::clone(open), Arc::clone(context.server()));
    let mut left = start..end;
    let step = move || {
        let _change = &change;
        let step = held.file().map_err(Refusal::from).and_then(|file| {
            let step = advance(&*file.node, &**file.base(), &mut left);
            // What failed may have been done in part.
            breaks::data_changed(&server, file);
            let step = step?;
            if through && step.is_break() {
                file.node.sync()?;
            }
            Ok(step)
        });
        match step {
            Ok(ControlFlow::Continue(())) => ControlFlow::Continue(()),
            Ok(ControlFlow::Break(())) => ControlFlow::Break(Ok(())),
            Err(refusal) => ControlFlow::Break(Err(refusal)),
        }
    };
    let done = context.work_in_steps((end - start).min(context.held_bytes()?), step).await;
    written::data_changed(context.server(), open, context.session_id);
    done??;
    context.restore_frozen_times().await?;
    Ok(Answer::empty())
}

/// Zeroes the next part of what is left of a range. Parts meet where the store's units do, so that whole ones are freed. Where there is no data, which costs
/// nothing, the part goes on to where there is: a file may have a hole of exabytes.
fn advance(node: &dyn Node, base: &dyn Node, left: &mut Range<u64>) -> Result<ControlFlow<()>, Error> {
    let (start, step_end) = (left.start, (left.start / ZERO_STEP_BYTES + 1) * ZERO_STEP_BYTES);
    let is_sparse = sparse::is_sparse(base)?;
    let data_from = if is_sparse { next_data(node, left)? } else { start };
    let end = left.end.min(step_end.max(data_from));
    node.zero(start, end - start, is_sparse)?;
    left.start = end;
    // Behind the end of the data there is nothing to do.
    let is_done = end >= left.end || end >= node.metadata()?.length;
    Ok(if is_done { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
}

/// Where in a range there may be data.
fn next_data(node: &dyn Node, range: &Range<u64>) -> Result<u64, Error> {
    let found = node.extents(range.start, range.end - range.start, 1)?;
    Ok(found.ranges.first().map(|data| data.offset).or(found.next).unwrap_or(range.end))
}
