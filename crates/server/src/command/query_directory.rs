//! Under construction.

use wire::command::query_directory::QueryDirectoryRequest;
use wire::status::Status;

use crate::context::{Context, Outcome};

pub(crate) async fn handle(_context: &Context, _request: QueryDirectoryRequest<'_>) -> Outcome {
    Err(Status::NOT_IMPLEMENTED.into())
}
