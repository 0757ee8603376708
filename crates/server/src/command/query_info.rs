//! Under construction.

use wire::command::query_info::QueryInfoRequest;
use wire::status::Status;

use crate::context::{Context, Outcome};

pub(crate) async fn handle(_context: &Context, _request: QueryInfoRequest<'_>) -> Outcome {
    Err(Status::NOT_IMPLEMENTED.into())
}
