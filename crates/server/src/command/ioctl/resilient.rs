//! FSCTL_LMR_REQUEST_RESILIENCY (MS-SMB2 3.3.5.15.9): the open is kept when its client is lost, whatever it caches.

use std::time::Duration;

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::Resiliency;
use wire::ids::Dialect;
use wire::status::Status;

use super::{Answer, Answered};
use crate::command::context::Context;
use crate::state::durable::{Keeping, TIMEOUT_RESILIENT, TIMEOUT_RESILIENT_MAX};

pub(super) fn request(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    if context.session()?.dialect == Dialect::SMB_2_0_2 {
        return Err(Status::INVALID_DEVICE_REQUEST.into());
    }
    let (_, file) = context.file()?;
    let asked = Resiliency::decode(request.input)?.timeout_milliseconds;
    let asked = Duration::from_millis(asked.into());
    if asked > TIMEOUT_RESILIENT_MAX {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let timeout = if asked.is_zero() { TIMEOUT_RESILIENT } else { asked };
    // A persistent open is kept better already.
    if !file.durability.keeping().is_persistent() {
        file.durability.keep(Keeping::Resilient(timeout));
    }
    Ok(Answer::empty())
}
