//! FSCTL_SRV_ENUMERATE_SNAPSHOTS (MS-SMB2 3.3.5.15.1): shares have no previous versions.

use wire::command::ioctl::IoctlRequest;
use wire::snapshots::SnapshotArray;
use wire::status::Status;

use super::{Answer, Answered};
use crate::command::context::Context;

/// "If the MaxOutputResponse of the request is less than 16 bytes, the server MUST fail the request".
const OUTPUT_BYTES_MIN: u32 = 16;

pub(super) fn enumerate(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    context.file()?;
    if request.max_output_response < OUTPUT_BYTES_MIN {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let mut output = Vec::new();
    SnapshotArray::encode(&[], request.max_output_response as usize, &mut output);
    Ok(Answer::with(output))
}
