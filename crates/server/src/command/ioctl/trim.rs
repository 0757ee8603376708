//! FSCTL_FILE_LEVEL_TRIM (MS-SMB2 3.3.5.15.14, MS-FSA 2.1.5.10.6): the client no longer needs what is in some ranges.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use store::{Error, Node};
use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::{LevelTrim, LevelTrimResult};
use wire::security::access::WRITE_DATA;
use wire::status::Status;

use super::{Answer, Answered, check_write_locks, data_of};
use crate::command::context::Context;
use crate::command::steps::ZERO_STEP_BYTES;
use crate::resource::turns::STEP_COST;
use crate::state::breaks;
use crate::state::refusal::Refusal;
use crate::state::written;

/// SystemPageSize: only whole pages are trimmed.
const PAGE_BYTES: u64 = 4096;
/// The most ranges in one request: each is a call of the store.
const RANGES_MAX: usize = 4096;
/// What such a call costs at least, in bytes.
const CALL_BYTES: u64 = 64 << 10;

pub(super) async fn trim(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, file) = data_of(context)?;
    let asked = LevelTrim::decode(request.input)?;
    let room = request.max_output_response as usize;
    let count = asked.ranges().count();
    if asked.key != 0 || count == 0 || (room != 0 && room < LevelTrimResult::LENGTH) {
        return Err(Status::INVALID_PARAMETER.into());
    }
    if count > RANGES_MAX {
        return Err(Status::INSUFFICIENT_RESOURCES.into());
    }
    open.require(WRITE_DATA)?;
    context.require_writable()?;
    // Each is looked up among the locks here.
    context.in_flight.note_done_here((count * STEP_COST) as u64);
    let change = open.begin_change(0..u64::MAX)?;
    let length = context.length().await?;
    let (mut pages, mut bytes) = (VecDeque::new(), 0);
    for range in asked.ranges() {
        let range = whole_pages(range.offset, range.length, length).ok_or(Status::INTEGER_OVERFLOW)?;
        check_write_locks(open, file, &range)?;
        if !range.is_empty() {
            bytes += cost(&range);
            pages.push_back(range);
        }
    }
    let (held, server) = (Arc::clone(open), Arc::clone(context.server()));
    let step = move || {
        let _change = &change;
        let step = held.file().map_err(Refusal::from).and_then(|file| {
            let advanced = advance(&*file.node, &mut pages);
            breaks::data_changed(&server, file);
            Ok(advanced?)
        });
        match step {
            Ok(()) if !pages.is_empty() => ControlFlow::Continue(()),
            ended => ControlFlow::Break(ended),
        }
    };
    let done = context.work_in_calls(bytes, count, step).await;
    written::data_changed(context.server(), open, context.session_id);
    done??;
    context.restore_frozen_times().await?;
    let mut output = Vec::new();
    if room != 0 {
        LevelTrimResult { ranges_processed: count as u32 }.encode(&mut output);
    }
    Ok(Answer::with(output))
}

fn cost(range: &Range<u64>) -> u64 {
    (range.end - range.start).max(CALL_BYTES)
}

/// Frees the next ranges, up to a step's worth. Parts of a large one meet between two pages.
fn advance(node: &dyn Node, left: &mut VecDeque<Range<u64>>) -> Result<(), Error> {
    let mut room = ZERO_STEP_BYTES;
    while room > 0
        && let Some(mut range) = left.pop_front()
    {
        let end = range.end.min((range.start / ZERO_STEP_BYTES + 1) * ZERO_STEP_BYTES);
        node.zero(range.start, end - range.start, true)?;
        room = room.saturating_sub(cost(&(range.start..end)));
        range.start = end;
        if !range.is_empty() {
            left.push_front(range);
        }
    }
    Ok(())
}

/// The pages that lie wholly in a range and in a file of `length` bytes; `None` where the range has no end.
fn whole_pages(offset: u64, bytes: u64, length: u64) -> Option<Range<u64>> {
    let end = offset.checked_add(bytes)?.min(length) / PAGE_BYTES * PAGE_BYTES;
    let start = offset.checked_next_multiple_of(PAGE_BYTES)?;
    Some(start..end.max(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_pages_inside_the_file_are_trimmed() {
        assert_eq!(whole_pages(0, 8192, 10_000), Some(0..8192));
        assert_eq!(whole_pages(1, 8191, 10_000), Some(4096..8192));
        assert_eq!(whole_pages(1, 4095, 10_000), Some(4096..4096));
        assert_eq!(whole_pages(0, 20_000, 10_000), Some(0..8192));
        assert_eq!(whole_pages(1 << 40, 4096, 10_000), Some(1 << 40..1 << 40));
        assert_eq!(whole_pages(u64::MAX, 1, 0), None);
        assert_eq!(whole_pages(u64::MAX, 0, 0), None);
    }
}
