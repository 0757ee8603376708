//! CANCEL (MS-SMB2 3.3.5.16, MS-FSA 2.1.5.20): no answer of its own, no credits.

use wire::header::{Header, Route};
use wire::ids::SessionId;

use crate::command::connection::Connection;
use crate::command::proof::Proof;

/// Cancels what the request names, where that is there, of the same session, and the request is protected as it must be.
pub(crate) fn handle(connection: &Connection, header: &Header, session_id: SessionId, proof: &Proof) {
    if let Some(channel) = connection.channel_even_ended(session_id) {
        let session = &channel.session;
        if proof.check_session(session).is_err() {
            return;
        }
    }
    let async_id = match header.route {
        Route::Async(id) => Some(id),
        Route::Sync { .. } => None,
    };
    connection.in_flight.cancel(session_id, async_id, header.message_id);
}
