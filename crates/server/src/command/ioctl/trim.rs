//! FSCTL_FILE_LEVEL_TRIM (MS-SMB2 3.3.5.15.14, MS-FSA 2.1.5.10.6): the client no longer needs what is in some ranges.

use std::ops::Range;
use std::sync::Arc;

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::{LevelTrim, LevelTrimResult};
use wire::security::access::WRITE_DATA;
use wire::status::Status;

use super::{Answer, Answered, check_write_locks, data_of};
use crate::breaks;
use crate::context::Context;
use crate::notify;

/// SystemPageSize: only whole pages are trimmed.
const PAGE_BYTES: u64 = 4096;
/// The most ranges in one request: each is a call of the store.
const RANGES_MAX: usize = 4096;

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
    let length = context.length().await?;
    let mut pages = Vec::new();
    for range in asked.ranges() {
        let range = whole_pages(range.offset, range.length, length).ok_or(Status::INTEGER_OVERFLOW)?;
        check_write_locks(open, file, &range)?;
        pages.push(range);
    }
    let node = Arc::clone(&file.node);
    context
        .work(move || {
            let full = pages.iter().filter(|range| !range.is_empty());
            full.into_iter().try_for_each(|range| node.zero(range.start, range.end - range.start, true))
        })
        .await??;
    breaks::data_changed(context.server(), file);
    file.restore_frozen_times();
    notify::data_changed(context.server(), open);
    let mut output = Vec::new();
    if room != 0 {
        LevelTrimResult { ranges_processed: count as u32 }.encode(&mut output);
    }
    Ok(Answer::with(output))
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
