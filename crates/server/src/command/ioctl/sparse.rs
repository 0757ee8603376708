//! FSCTL_SET_SPARSE and FSCTL_QUERY_ALLOCATED_RANGES (MS-FSA 2.1.5.10.38, 2.1.5.10.22).

use std::ops::ControlFlow;
use std::sync::Arc;

use store::{AttributeChange, Error, Node};
use wire::command::change_notify::CompletionFilter;
use wire::command::ioctl::IoctlRequest;
use wire::fscc::FileAttributes;
use wire::fscc::ioctl::{Range, decode_set_sparse, encode_ranges};
use wire::security::access::{APPEND_DATA, READ_DATA, WRITE_ATTRIBUTES, WRITE_DATA};
use wire::status::Status;

use super::{Answer, Answered, data_of, signed_range};
use crate::command::context::{Context, hold_here};
use crate::state::attributes;
use crate::state::breaks;
use crate::state::refusal::Refusal;

/// Makes a file sparse, or whole again.
pub(super) async fn set(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, file) = data_of(context)?;
    let sparse = decode_set_sparse(request.input)?;
    context.require_writable()?;
    // Windows takes APPEND_DATA for it too.
    if !open.rights().has_any(WRITE_DATA | APPEND_DATA | WRITE_ATTRIBUTES) {
        return Err(Status::ACCESS_DENIED.into());
    }
    let (node, base) = (Arc::clone(&file.node), Arc::clone(file.base()));
    let (server, held) = (Arc::clone(context.server()), Arc::clone(open));
    let change = open.begin_change(0..0)?;
    let work = move || {
        let _change = &change;
        if sparse { mark(&*base) } else { fill(&*node, &*base) }?;
        server.watches.changed(&held, CompletionFilter::ATTRIBUTES);
        breaks::looks_different(&server, &held);
        Ok::<_, Error>(())
    };
    // A file that is no longer sparse gets all its space at once.
    context.work_on(if sparse { 0 } else { context.held_bytes()? }, work).await??;
    context.restore_frozen_times().await?;
    Ok(Answer::empty())
}

fn mark(base: &dyn Node) -> Result<(), Error> {
    attributes::change(base, AttributeChange::setting(FileAttributes::SPARSE_FILE.0))
}

/// A file that is not sparse has all its space.
fn fill(node: &dyn Node, base: &dyn Node) -> Result<(), Error> {
    node.reserve(node.metadata()?.length)?;
    attributes::change(base, AttributeChange::clearing(FileAttributes::SPARSE_FILE.0))
}

/// True where holes of a file are shown, and made by writing zeros.
pub(super) fn is_sparse(base: &dyn Node) -> Result<bool, Error> {
    Ok(base.metadata()?.attributes & FileAttributes::SPARSE_FILE.0 != 0)
}

/// What a shard counts for a look of its own: it looks at some thousand things.
const LOOK_COST: u64 = 32 << 10;
/// Looks in one step on the pool.
const STEP_LOOKS: usize = 16;

/// Lists the ranges of a file that have storage. Between two looks the file may change, as it may behind the answer.
pub(super) async fn allocated_ranges(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, _) = data_of(context)?;
    open.require(READ_DATA)?;
    let asked = Range::decode(request.input)?;
    let asked = signed_range(asked.offset, asked.length).ok_or(Status::INVALID_PARAMETER)?;
    if asked.is_empty() {
        return Ok(Answer::empty());
    }
    let room = request.max_output_response as usize / Range::LENGTH;
    let found = ranges(context, asked, room + 1).await?;
    if room == 0 && !found.is_empty() {
        return Err(Status::BUFFER_TOO_SMALL.into());
    }
    let status = if found.len() > room { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
    let mut output = Vec::with_capacity(found.len().min(room) * Range::LENGTH);
    encode_ranges(found.get(..room).unwrap_or(&found), &mut output);
    Ok(Answer { status, output })
}

/// The first ranges of the open file that have storage within `asked`, at most `count_max`.
pub(super) async fn ranges(
    context: &Context,
    asked: std::ops::Range<u64>,
    count_max: usize,
) -> Result<Vec<Range>, Refusal> {
    let (_, file) = data_of(context)?;
    let (node, base) = (Arc::clone(&file.node), Arc::clone(file.base()));
    let mut search = Search { left: asked, count_max, found: Vec::new() };
    let held = hold_here(&*node);
    if held.is_some() {
        context.in_flight.note_done_here(LOOK_COST);
    }
    let is_found = held.is_some() && search.look(&*node, &*base)?;
    drop(held);
    if is_found {
        return Ok(search.found);
    }
    let step = move || match search.advance(&*node, &*base) {
        Ok(true) => ControlFlow::Break(Ok(std::mem::take(&mut search.found))),
        Ok(false) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(Err(error)),
    };
    Ok(context.work_in_steps(u64::MAX, step).await??)
}

/// A search for ranges, and how far it has come.
struct Search {
    left: std::ops::Range<u64>,
    count_max: usize,
    found: Vec<Range>,
}

impl Search {
    /// A step. True where it was the last one.
    fn advance(&mut self, node: &dyn Node, base: &dyn Node) -> Result<bool, Error> {
        for _ in 0..STEP_LOOKS {
            if self.look(node, base)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds some more ranges; of a file that is not sparse, one. True where these are all, or as many as may be told.
    fn look(&mut self, node: &dyn Node, base: &dyn Node) -> Result<bool, Error> {
        if !is_sparse(base)? {
            let end = self.left.end.min(node.metadata()?.length);
            if self.left.start < end {
                self.add(self.left.start, end - self.left.start);
            }
            return Ok(true);
        }
        // One more, which may be the rest of the last one.
        let count_max = self.count_max + 1 - self.found.len();
        let looked = node.extents(self.left.start, self.left.end - self.left.start, count_max)?;
        for extent in looked.ranges {
            self.add(extent.offset, extent.length);
        }
        self.left.start = looked.next.unwrap_or(self.left.end);
        Ok(self.left.is_empty() || self.found.len() >= self.count_max)
    }

    fn add(&mut self, offset: u64, length: u64) {
        let is_full = self.found.len() >= self.count_max;
        match self.found.last_mut() {
            Some(last) if last.offset + last.length == offset => last.length += length,
            Some(_) | None if is_full => {}
            Some(_) | None => self.found.push(Range { offset, length }),
        }
    }
}
