//! CLOSE (MS-SMB2 3.3.5.10).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use store::{Error, Metadata};
use tokio::sync::oneshot;
use wire::command::close::{CloseFlags, CloseRequest, CloseResponse};
use wire::ids::FileTime;
use wire::status::Status;

use crate::Shared;
use crate::attributes;
use crate::closing::Closing;
use crate::context::{Context, Outcome, Reply};
use crate::open::{Open, Target};

pub(crate) async fn handle(context: &Context, request: CloseRequest) -> Outcome {
    let open = context.session()?.remove_open(context.open()?.id).ok_or(Status::FILE_CLOSED)?;
    if let Target::File(file) = &open.target
        && file.delete_on_close.load(Ordering::Relaxed)
    {
        // All that have the file open may have to learn by which of its names.
        context.in_flight.note_done_here(file.file.cost_of_all());
    }
    let wants_attributes = request.flags.contains(CloseFlags::POSTQUERY_ATTRIB);
    let begun = if open.ends_at_once() { close_at_once(context, &open, wants_attributes) } else { Begun::Not };
    // Whoever wanted its file deleted hears that it is not.
    let response = match begun {
        Begun::Closed(closed) => closed?,
        Begun::Closes(answer) => answer.await.map_err(|_| Status::INSUFFICIENT_RESOURCES)??,
        Begun::Not => {
            let answer = close_in_turns(context, &open, wants_attributes);
            answer.await.map_err(|_| Status::INSUFFICIENT_RESOURCES)??
        }
    };
    let mut body = Vec::new();
    response.encode(&mut body);
    Ok(Reply::new(body))
}

type Answer = oneshot::Receiver<Result<CloseResponse, Error>>;

/// How far an open was closed that nothing is under way through.
enum Begun {
    Not,
    Closed(Result<CloseResponse, Error>),
    Closes(Answer),
}

/// Closes it without a wait, which most are; but what is known to wait is not begun.
fn close_at_once(context: &Context, open: &Arc<Open>, wants_attributes: bool) -> Begun {
    let server = context.server();
    if leaves_in_turn(server, open) {
        return Begun::Not;
    }
    let known = if wants_attributes { try_attributes(open) } else { Some(CloseResponse::default()) };
    let Some(response) = known else { return Begun::Not };
    match Closing::new(Arc::clone(open)).at_once(server) {
        Ok(outcome) => Begun::Closed(outcome.map(|()| response)),
        Err(rest) => {
            let (closed, answer) = oneshot::channel();
            let tell = move |outcome: Result<(), Error>| _ = closed.send(outcome.map(|()| response));
            server.close_in_turns(context.turn(), vec![rest.telling(Box::new(tell))]);
            Begun::Closes(answer)
        }
    }
}

/// True where it leaves its file in the turn of the device.
fn leaves_in_turn(server: &Shared, open: &Arc<Open>) -> bool {
    open.leaving_may_wait(server) || server.files.watches.closing_tells(open)
}

/// Closes it once what was begun through it is made: that comes first. It is closed also where nobody waits for the answer any more.
fn close_in_turns(context: &Context, open: &Arc<Open>, wants_attributes: bool) -> Answer {
    let (server, turn, held) = (Arc::clone(context.server()), context.turn(), Arc::clone(open));
    let (closed, answer) = oneshot::channel();
    let close = move || {
        let waits = leaves_in_turn(&server, &held);
        let known = match (wants_attributes, waits) {
            (false, _) => Some(CloseResponse::default()),
            (true, true) => None,
            (true, false) => try_attributes(&held),
        };
        let closing = match known {
            Some(response) => {
                let tell = move |outcome: Result<(), Error>| _ = closed.send(outcome.map(|()| response));
                Closing::new(held).telling(Box::new(tell))
            }
            None => {
                let (known, asked) = (Arc::new(OnceLock::new()), Arc::clone(&held));
                let told = Arc::clone(&known);
                let tell = move |outcome: Result<(), Error>| {
                    _ = closed.send(outcome.map(|()| told.get().cloned().unwrap_or_default()));
                };
                let ask = move || {
                    known.get_or_init(|| with_attributes(&asked));
                };
                Closing::new(held).telling(Box::new(tell)).behind(Box::new(ask))
            }
        };
        let closing = if waits { closing.in_turn() } else { closing };
        server.close_in_turns(turn, vec![closing]);
    };
    open.end_with(Box::new(close));
    answer
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
