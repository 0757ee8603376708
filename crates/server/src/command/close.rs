//! CLOSE (MS-SMB2 3.3.5.10).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use store::{Error, Metadata};
use tokio::sync::oneshot;
use wire::command::close::{CloseFlags, CloseRequest, CloseResponse};
use wire::ids::FileTime;
use wire::status::Status;

use crate::attributes;
use crate::closing::Closing;
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
    let turn = context.turn();
    let (closed, answer) = oneshot::channel();
    let held = Arc::clone(&open);
    let close = move || {
        let waits = held.leaving_may_wait(&server) || server.files.watches.closing_tells(&held);
        let known = match (wants_attributes, waits) {
            (false, _) => Some(CloseResponse::default()),
            (true, true) => None,
            (true, false) => try_attributes(&held),
        };
        let closing = match known {
            Some(response) => {
                let tell = move |outcome: Result<(), Error>| {
                    let _ = closed.send(outcome.map(|()| response));
                };
                Closing::new(held, Box::new(tell))
            }
            None => {
                let (known, asked) = (Arc::new(OnceLock::new()), Arc::clone(&held));
                let told = Arc::clone(&known);
                let tell = move |outcome: Result<(), Error>| {
                    let _ = closed.send(outcome.map(|()| told.get().cloned().unwrap_or_default()));
                };
                let ask = move || {
                    known.get_or_init(|| with_attributes(&asked));
                };
                Closing::new(held, Box::new(tell)).behind(Box::new(ask))
            }
        };
        let closing = if waits { closing.in_turn() } else { closing };
        server.close_in_turns(turn, vec![closing]);
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
