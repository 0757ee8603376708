//! CANCEL (MS-SMB2 3.3.5.16): no answer of its own, no credits.

use std::rc::Rc;

use wire::header::{Flags, Header, Route};

use crate::connection::Connection;
use crate::session::Channel;

/// Cancels what the request names, where it is there and the request is protected as it must be.
pub(crate) fn handle(connection: &Connection, header: &Header, message: &mut [u8], sealed: Option<&Rc<Channel>>) {
    if let Some(channel) = connection.channel(header.session_id)
        && sealed.is_none()
    {
        let signed = header.flags.contains(Flags::SIGNED);
        let required = channel.session.signing_required;
        if (signed && !channel.verify(message)) || (required && !signed) || channel.session.seal_required {
            return;
        }
    }
    let async_id = match header.route {
        Route::Async(id) => Some(id),
        Route::Sync { .. } => None,
    };
    connection.in_flight.cancel(async_id, header.message_id);
}
