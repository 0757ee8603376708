//! CLOSE (MS-SMB2 3.3.5.10).

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use store::{Error, Metadata};
use tokio::sync::oneshot;
use wire::command::close::{CloseFlags, CloseRequest, CloseResponse};
use wire::ids::FileTime;
use wire::status::Status;

use crate::command::context::{Context, Outcome, Reply};
use crate::state::attributes;
use crate::state::closing::Closing;
use crate::state::open::{Open, Target};
use crate::state::shared::Shared;

pub(crate) async fn handle(context: &Context, request: CloseRequest) -> Outcome {
    let open = context.session()?.remove_open(context.open()?.id).ok_or(Status::FILE_CLOSED)?;
    open.end.closed_from(&context.connection.caller);
    if let Target::File(file) = &open.target
        && file.delete_on_close.load(Ordering::Relaxed)
    {
        // All that have the file open may have to learn by which of its names.
        context.in_flight.note_done_here(file.file.cost_of_all());
    }
    let wants_attributes = request.flags.contains(CloseFlags::POSTQUERY_ATTRIB);
    // Whoever wanted its file deleted hears that it is not.
    let response = match close(context, open, wants_attributes) {
        Closes::Closed(closed) => closed?,
        Closes::Later(answer) => answer.await.map_err(|_| Status::INSUFFICIENT_RESOURCES)??,
    };
    let mut body = Vec::new();
    response.encode(&mut body);
    Ok(Reply::new(body))
}

type Answer = Result<CloseResponse, Error>;

/// How far an open is closed.
enum Closes {
    Closed(Answer),
    Later(oneshot::Receiver<Answer>),
}

/// Closes it at once where nothing has to be waited for, which is so for most; else once what was begun through it is made: that comes first. It is closed
/// also where nobody waits for the answer any more.
fn close(context: &Context, open: Arc<Open>, wants_attributes: bool) -> Closes {
    let (server, turn) = (Arc::clone(context.server()), context.queue_key());
    if open.ends_at_once()
        && !leaves_in_turn(&server, &open)
        && let Some(response) = known_now(&open, wants_attributes)
    {
        return match Closing::new(open).at_once(&server) {
            Ok(outcome) => Closes::Closed(outcome.map(|()| response)),
            Err(rest) => {
                let (closed, answer) = oneshot::channel();
                server.close_in_turns(turn, vec![telling(rest, response, closed)]);
                Closes::Later(answer)
            }
        };
    }
    let (closed, answer) = oneshot::channel();
    let (held, closing) = (Arc::clone(&open), Closing::new(Arc::clone(&open)));
    let close = move || {
        let waits = leaves_in_turn(&server, &held);
        let known = if waits && wants_attributes { None } else { known_now(&held, wants_attributes) };
        let closing = match known {
            Some(response) => telling(closing, response, closed),
            None => asking(closing, held, closed),
        };
        let closing = if waits { closing.in_turn() } else { closing };
        server.close_in_turns(turn, vec![closing]);
    };
    open.end_with(Box::new(close));
    Closes::Later(answer)
}

/// Tells `closed` what the response says, which is known.
fn telling(closing: Closing, response: CloseResponse, closed: oneshot::Sender<Answer>) -> Closing {
    closing.telling(Box::new(move |outcome| _ = closed.send(outcome.map(|()| response))))
}

/// The same where the device is asked for that first.
fn asking(closing: Closing, open: Arc<Open>, closed: oneshot::Sender<Answer>) -> Closing {
    let known = Arc::new(OnceLock::new());
    let told = Arc::clone(&known);
    let tell = move |outcome: Result<(), Error>| {
        _ = closed.send(outcome.map(|()| told.get().cloned().unwrap_or_default()));
    };
    let ask = move || _ = known.get_or_init(|| with_attributes(&open));
    closing.telling(Box::new(tell)).behind(Box::new(ask))
}

/// True where it leaves its file in the turn of the device.
fn leaves_in_turn(server: &Shared, open: &Arc<Open>) -> bool {
    open.leaving_may_wait(server) || server.watches.closing_tells(open)
}

/// What the response says; `None` where the attributes it asks for are not in memory, or cannot be had.
fn known_now(open: &Open, wants_attributes: bool) -> Option<CloseResponse> {
    match &open.target {
        Target::File(file) if wants_attributes => attributes::try_of(file).ok().map(|known| response(&known)),
        Target::File(_) | Target::Pipe(_) => Some(CloseResponse::default()),
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
