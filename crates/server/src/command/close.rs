//! CLOSE (MS-SMB2 3.3.5.10).

use std::sync::Arc;

use wire::command::close::{CloseFlags, CloseRequest, CloseResponse};
use wire::ids::FileTime;
use wire::status::Status;

use crate::attributes;
use crate::context::{Context, Outcome, Reply};
use crate::open::{Open, Target};

pub(crate) async fn handle(context: &Context, request: CloseRequest) -> Outcome {
    let open = context.session()?.remove_open(context.open()?.id).ok_or(Status::FILE_CLOSED)?;
    let server = Arc::clone(context.server());
    let wants_attributes = request.flags.contains(CloseFlags::POSTQUERY_ATTRIB);
    let tells = server.files.watches.closing_tells(&open);
    // The record of a persistent open may have to be waited for, whatever the share lies on.
    let waits = open.close_may_wait(&server) || tells || (wants_attributes && !is_known(&open));
    let close = move || {
        let response = if wants_attributes { with_attributes(&open) } else { CloseResponse::default() };
        open.close_for_client(&server).map(|()| response)
    };
    // The open is closed in any case; whoever wanted its file deleted hears that it is not.
    let response = if waits { context.on_pool(close).await? } else { close() }?;
    let mut body = Vec::new();
    response.encode(&mut body);
    Ok(Reply::new(body))
}

/// True where the attributes are in memory.
fn is_known(open: &Open) -> bool {
    match &open.target {
        Target::File(file) => file.node.try_metadata().is_ok(),
        Target::Pipe(_) => true,
    }
}

fn with_attributes(open: &Open) -> CloseResponse {
    let Target::File(file) = &open.target else { return CloseResponse::default() };
    let Ok(known) = attributes::of(file) else { return CloseResponse::default() };
    CloseResponse {
        flags: CloseFlags::POSTQUERY_ATTRIB,
        creation_time: FileTime(known.creation.0),
        last_access_time: FileTime(known.access.0),
        last_write_time: FileTime(known.write.0),
        change_time: FileTime(known.change.0),
        allocation_size: known.allocated,
        end_of_file: known.length,
        file_attributes: attributes::on_the_wire(&known),
    }
}
