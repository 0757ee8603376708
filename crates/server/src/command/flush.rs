//! FLUSH (MS-SMB2 3.3.5.11, MS-FSA 2.1.5.7): what was written is durable when the answer leaves, on the device and not in its cache alone. So what macOS
//! asks for with F_FULLFSYNC is what everybody gets.

use std::sync::Arc;

use wire::command::flush::{FlushRequest, FlushResponse};
use wire::security::access;
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::state::open::Target;
use crate::state::written;

/// Reserved1 of a Mac's F_FULLFSYNC.
const FULL_SYNC: u16 = 0xFFFF;

pub(crate) async fn handle(context: &Context, request: FlushRequest) -> Outcome {
    let open = context.open()?;
    if let Target::File(file) = &open.target {
        // A Mac sends it by whichever open of the file it has at hand, one for reading alone among them.
        let is_full = request.reserved1 == FULL_SYNC && context.session()?.apple.is_mac();
        let may_read = if is_full { access::READ_DATA } else { 0 };
        if !open.rights().has_any(access::WRITE_DATA | access::APPEND_DATA | may_read) {
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
