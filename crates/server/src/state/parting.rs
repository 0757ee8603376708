//! The end of a session, whoever ends it (MS-SMB2 3.3.7.1).

use std::sync::Arc;

use crate::state::audit::SessionEnd;
use crate::state::auditing::of_session;
use crate::state::durable::Parting;
use crate::state::open::Open;
use crate::state::session::Session;
use crate::state::shared::Shared;

impl Shared {
    /// Forgets a session, and keeps what of it outlives it; gives the rest, for closing.
    #[must_use]
    pub(crate) fn part(&self, session: &Session, parting: Parting, end: impl Into<SessionEnd>) -> Vec<Arc<Open>> {
        self.sessions.remove(session.id);
        let ended = session.end();
        for channel in session.channels() {
            self.clients.leave(session.id, &channel.mailbox);
        }
        let Some(opens) = ended else { return Vec::new() };
        let rest = match parting {
            Parting::Lost => self.durables.keep(opens),
            Parting::Expelled => opens,
        };
        let end = end.into();
        rest.iter().for_each(|open| open.end.say(end.by));
        of_session::ended(self, session, end);
        rest
    }
}
