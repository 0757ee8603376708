//! FSCTL_DUPLICATE_EXTENTS_TO_FILE and its extended form (MS-SMB2 3.3.5.15.17, 3.3.5.15.18, MS-FSA 2.1.5.10.4, 2.1.5.10.5): two
//! files share what was one file's. Byte-range locks do not stand against it, as on ReFS.

use std::sync::Arc;

use store::Kind;
use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::{DuplicateExtents, DuplicateExtentsEx};
use wire::security::access::{READ_DATA, WRITE_DATA};
use wire::status::Status;

use super::{Answer, Answered, data_of, signed_range, sparse};
use crate::breaks;
use crate::context::Context;
use crate::notify;
use crate::open::{Open, OpenId};
use crate::refusal::Refusal;

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
    let node = Arc::clone(&file.node);
    let base = Arc::clone(file.base());
    let (server, held) = (Arc::clone(context.server()), Arc::clone(target));
    let done = context
        .on_pool(move || {
            let _change = &change;
            let source = source.file()?;
            let known = source.node.metadata()?;
            if known.length < from.end || (sparse::is_sparse(&**source.base())? && !sparse::is_sparse(&*base)?) {
                return Err(Status::NOT_SUPPORTED.into());
            }
            // The target does not grow (MS-FSA changes its extents, not its size).
            let end = to.end.min(node.metadata()?.length);
            if to.start < end {
                let shared = (*node).clone_from(&*source.node, from.start, to.start, end - to.start);
                // What failed may have been done in part.
                breaks::data_changed(&server, held.file()?);
                shared?;
            }
            Ok::<_, Refusal>(())
        })
        .await;
    notify::data_changed(context.server(), target, context.session_id);
    done??;
    context.restore_frozen_times().await?;
    Ok(Answer::empty())
}

/// The open to share from: of the same session and volume, and readable.
fn source(context: &Context, asked: &DuplicateExtents) -> Result<Arc<Open>, Refusal> {
    let id = OpenId::from_file_id(asked.source);
    let open = id.and_then(|id| context.session().ok()?.open(id)).ok_or(Status::INVALID_HANDLE)?;
    let same_volume =
        open.tree.store().is_some_and(|theirs| context.store().is_ok_and(|ours| Arc::ptr_eq(theirs, ours)));
    let readable = open.may(READ_DATA) && open.file()?.kind != Kind::Directory;
    if same_volume && readable { Ok(open) } else { Err(Status::INVALID_PARAMETER.into()) }
}
