//! FSCTL_SET_ZERO_DATA (MS-FSA 2.1.5.10.39): makes a range read as zeros; of a sparse file, frees its space.

use std::sync::Arc;

use wire::command::create::CreateOptions;
use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::ZeroData;
use wire::security::access::WRITE_DATA;
use wire::status::Status;

use super::{Answer, Answered, check_write_locks, data_of, sparse};
use crate::breaks;
use crate::context::Context;
use crate::notify;

pub(super) async fn zero(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, file) = data_of(context)?;
    let asked = ZeroData::decode(request.input)?;
    let (start, end) = (asked.offset, asked.beyond_final_zero);
    if start > end || end > i64::MAX as u64 {
        return Err(Status::INVALID_PARAMETER.into());
    }
    open.require(WRITE_DATA)?;
    context.require_writable()?;
    check_write_locks(open, file, &(start..end))?;
    let through = file.options & (CreateOptions::WRITE_THROUGH.0 | CreateOptions::NO_INTERMEDIATE_BUFFERING.0) != 0;
    let (node, base) = (Arc::clone(&file.node), Arc::clone(file.base()));
    context
        .work(move || {
            node.zero(start, end - start, sparse::is_sparse(&*base)?)?;
            if through { node.sync() } else { Ok(()) }
        })
        .await??;
    breaks::data_changed(context.server(), file);
    file.restore_frozen_times();
    notify::data_changed(context.server(), open);
    Ok(Answer::empty())
}
