//! Under construction.

use wire::command::set_info::SetInfoRequest;
use wire::status::Status;

use crate::context::{Context, Outcome};

pub(crate) async fn handle(_context: &Context, _request: SetInfoRequest<'_>) -> Outcome {
    Err(Status::NOT_IMPLEMENTED.into())
}
