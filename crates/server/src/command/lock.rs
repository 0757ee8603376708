//! Under construction.

use wire::command::lock::LockRequest;
use wire::status::Status;

use crate::context::{Context, Outcome};

pub(crate) async fn handle(_context: &Context, _request: LockRequest<'_>) -> Outcome {
    Err(Status::NOT_IMPLEMENTED.into())
}
