//! OPLOCK_BREAK acknowledgements (MS-SMB2 3.3.5.22): no oplock or lease is ever granted, so none is ever broken.

use wire::status::Status;

use crate::context::{Context, Outcome};

pub(crate) fn handle(context: &Context) -> Outcome {
    context.session()?;
    Err(Status::INVALID_OPLOCK_PROTOCOL.into())
}
