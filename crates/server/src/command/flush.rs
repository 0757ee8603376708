//! FLUSH (MS-SMB2 3.3.5.11, MS-FSA 2.1.5.7): what was written is durable when the answer leaves.

use std::sync::Arc;

use wire::command::flush::FlushResponse;
use wire::security::access;
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::state::open::Target;
use crate::state::written;

pub(crate) async fn handle(context: &Context) -> Outcome {
    let open = context.open()?;
    if let Target::File(file) = &open.target {
        if !open.rights().has_any(access::WRITE_DATA | access::APPEND_DATA) {
            return Err(Status::ACCESS_DENIED.into());
        }
        let node = Arc::clone(&file.node);
        context.work(move || node.sync()).await??;
        written::flushed(context.server(), open, context.session_id);
    }
    let mut body = Vec::new();
    FlushResponse.encode(&mut body);
    Ok(Reply::new(body))
}
