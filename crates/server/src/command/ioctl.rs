//! Under construction.

use wire::command::ioctl::IoctlRequest;
use wire::status::Status;

use crate::context::{Context, Outcome};

pub(crate) async fn handle(_context: &Context, _request: IoctlRequest<'_>) -> Outcome {
    Err(Status::NOT_IMPLEMENTED.into())
}
