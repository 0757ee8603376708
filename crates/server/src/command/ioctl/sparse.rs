//! FSCTL_SET_SPARSE and FSCTL_QUERY_ALLOCATED_RANGES (MS-FSA 2.1.5.10.38, 2.1.5.10.22).

use std::sync::Arc;

use store::{Changes, Error, Extent, Node};
use wire::command::change_notify::CompletionFilter;
use wire::command::ioctl::IoctlRequest;
use wire::fscc::FileAttributes;
use wire::fscc::ioctl::{Range, decode_set_sparse, encode_ranges};
use wire::security::access::{APPEND_DATA, READ_DATA, WRITE_ATTRIBUTES, WRITE_DATA};
use wire::status::Status;

use super::{Answer, Answered, data_of, signed_range};
use crate::context::Context;

/// Makes a file sparse, or whole again.
pub(super) async fn set(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, file) = data_of(context)?;
    let sparse = decode_set_sparse(request.input)?;
    context.require_writable()?;
    // Windows takes APPEND_DATA for it too.
    if !open.granted.has_any(WRITE_DATA | APPEND_DATA | WRITE_ATTRIBUTES) {
        return Err(Status::ACCESS_DENIED.into());
    }
    let (node, base) = (Arc::clone(&file.node), Arc::clone(file.base()));
    let (server, held) = (Arc::clone(context.server()), Arc::clone(open));
    let change = open.begin_change(0..0)?;
    let work = move || {
        let _change = &change;
        if sparse { mark(&*base) } else { fill(&*node, &*base) }?;
        server.files.watches.changed(&held, CompletionFilter::ATTRIBUTES);
        Ok::<_, Error>(())
    };
    // A file that is no longer sparse gets all its space at once.
    context.work_on(if sparse { 0 } else { context.held_bytes()? }, work).await??;
    context.restore_frozen_times().await?;
    Ok(Answer::empty())
}

fn mark(base: &dyn Node) -> Result<(), Error> {
    set_attribute(base, |attributes| attributes | FileAttributes::SPARSE_FILE.0)
}

/// A file that is not sparse has all its space.
fn fill(node: &dyn Node, base: &dyn Node) -> Result<(), Error> {
    node.reserve(node.metadata()?.length)?;
    set_attribute(base, |attributes| attributes & !FileAttributes::SPARSE_FILE.0)
}

fn set_attribute(base: &dyn Node, change: impl FnOnce(u32) -> u32) -> Result<(), Error> {
    let before = base.metadata()?.attributes;
    let after = change(before);
    if after == before {
        return Ok(());
    }
    base.change(&Changes { attributes: Some(after), ..Changes::default() })
}

/// True where holes of a file are shown, and made by writing zeros.
pub(super) fn is_sparse(base: &dyn Node) -> Result<bool, Error> {
    Ok(base.metadata()?.attributes & FileAttributes::SPARSE_FILE.0 != 0)
}

/// Lists the ranges of a file that have storage.
pub(super) async fn allocated_ranges(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, file) = data_of(context)?;
    open.require(READ_DATA)?;
    let asked = Range::decode(request.input)?;
    let asked = signed_range(asked.offset, asked.length).ok_or(Status::INVALID_PARAMETER)?;
    if asked.is_empty() {
        return Ok(Answer::empty());
    }
    let room = request.max_output_response as usize / Range::LENGTH;
    let (node, base) = (Arc::clone(&file.node), Arc::clone(file.base()));
    let found = context.work(move || extents(&*node, &*base, asked, room + 1)).await??;
    if room == 0 && !found.is_empty() {
        return Err(Status::BUFFER_TOO_SMALL.into());
    }
    let ranges: Vec<_> =
        found.iter().take(room).map(|extent| Range { offset: extent.offset, length: extent.length }).collect();
    let mut output = Vec::new();
    encode_ranges(&ranges, &mut output);
    let status = if found.len() > room { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
    Ok(Answer { status, output })
}

/// Up to `count_max` ranges; of a file that is not sparse, one.
fn extents(
    node: &dyn Node,
    base: &dyn Node,
    asked: std::ops::Range<u64>,
    count_max: usize,
) -> Result<Vec<Extent>, Error> {
    if is_sparse(base)? {
        return node.extents(asked.start, asked.end - asked.start, count_max);
    }
    let end = asked.end.min(node.metadata()?.length);
    let extent = (asked.start < end).then(|| Extent { offset: asked.start, length: end - asked.start });
    Ok(extent.into_iter().collect())
}
