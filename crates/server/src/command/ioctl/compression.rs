//! FSCTL_GET_COMPRESSION and FSCTL_SET_COMPRESSION (MS-FSA 2.1.5.10.9, 2.1.5.10.30): no store compresses.

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::Compression;
use wire::security::access::WRITE_DATA;
use wire::status::Status;

use super::{Answer, Answered};
use crate::command::context::Context;

/// COMPRESSION_FORMAT_NONE (MS-FSCC 2.3.18).
const NONE: u16 = 0;

pub(super) fn current(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    context.file()?;
    if (request.max_output_response as usize) < Compression::LENGTH {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let mut output = Vec::new();
    Compression { format: NONE }.encode(&mut output);
    Ok(Answer::with(output))
}

pub(super) fn set(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, _) = context.file()?;
    let compression = Compression::decode(request.input)?;
    open.require(WRITE_DATA)?;
    if compression.format == NONE { Ok(Answer::empty()) } else { Err(Status::NOT_SUPPORTED.into()) }
}
