//! CHANGE_NOTIFY (MS-SMB2 3.3.5.19): a server that does not watch directories answers NOT_SUPPORTED.

use wire::status::Status;

use crate::context::{Context, Outcome};

pub(crate) fn handle(context: &Context) -> Outcome {
    context.file()?;
    Err(Status::NOT_SUPPORTED.into())
}
