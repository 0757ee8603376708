//! CLOSE (MS-SMB2 3.3.5.10).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use store::Metadata;
use tokio::sync::oneshot;
use wire::command::close::{CloseFlags, CloseRequest, CloseResponse};
use wire::ids::FileTime;
use wire::status::Status;

use crate::attributes;
use crate::context::{Context, Outcome, Reply};
use crate::open::{Open, Target};

pub(crate) async fn handle(context: &Context, request: CloseRequest) -> Outcome {
    let open = context.session()?.remove_open(context.open()?.id).ok_or(Status::FILE_CLOSED)?;
    let server = Arc::clone(context.server());
    if let Target::File(file) = &open.target
        && file.delete_on_close.load(Ordering::Relaxed)
    {
        // All that have the file open may have to learn by which of its names.
        context.in_flight.note_done_here(file.file.cost_of_all());
    }
    let wants_attributes = request.flags.contains(CloseFlags::POSTQUERY_ATTRIB);
    let (turn, pool) = (context.turn(), server.pool.clone());
    let then = pool.clone();
    let (closed, answer) = oneshot::channel();
    let held = Arc::clone(&open);
    let close = move || {
        let tells = server.files.watches.closing_tells(&held);
        // The record of a persistent open may have to be waited for, whatever the share lies on.
        let waits = held.close_may_wait(&server) || tells;
        let known = match (wants_attributes, waits) {
            (false, _) => Some(CloseResponse::default()),
            (true, true) => None,
            (true, false) => try_attributes(&held),
        };
        let waits = waits || known.is_none();
        let close = move || {
            let response = known.unwrap_or_else(|| with_attributes(&held));
            let left = held.leave(&server);
            // It may be the last one only now, of what somebody else has marked to go.
            let is_to_wait = !waits && left.removes() && held.removal_may_wait();
            let remove = move || {
                let _ = closed.send(held.remove(&server, left).map(|()| response));
            };
            if is_to_wait { then.submit(turn, Box::new(remove)) } else { remove() }
        };
        if waits { pool.submit(turn, Box::new(close)) } else { close() }
    };
    // What was begun through it comes first. It is closed also where nobody waits for the answer any more.
    open.end_with(Box::new(close));
    // Whoever wanted its file deleted hears that it is not.
    let response = answer.await.map_err(|_| Status::INSUFFICIENT_RESOURCES)??;
    let mut body = Vec::new();
    response.encode(&mut body);
    Ok(Reply::new(body))
}

/// `None` where the attributes are not in memory, or cannot be had.
fn try_attributes(open: &Open) -> Option<CloseResponse> {
    match &open.target {
        Target::File(file) => attributes::try_of(file).ok().map(|known| response(&known)),
        Target::Pipe(_) => Some(CloseResponse::default()),
    }
}

fn with_attributes(open: &Open) -> CloseResponse {
    let Target::File(file) = &open.target else { return CloseResponse::default() };
    attributes::of(file).map_or_else(|_| CloseResponse::default(), |known| response(&known))
}

fn response(known: &Metadata) -> CloseResponse {
    CloseResponse {
        flags: CloseFlags::POSTQUERY_ATTRIB,
        creation_time: FileTime(known.creation.0),
        last_access_time: FileTime(known.access.0),
        last_write_time: FileTime(known.write.0),
        change_time: FileTime(known.change.0),
        allocation_size: known.allocated,
        end_of_file: known.length,
        file_attributes: attributes::on_the_wire(known),
    }
}
