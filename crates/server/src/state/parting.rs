//! The end of a session, whoever ends it (MS-SMB2 3.3.7.1).

use std::sync::Arc;

use crate::state::audit::SessionEnd;
use crate::state::auditing::of_session;
use crate::state::durable::Parting;
use crate::state::open::Open;
use crate::state::open_id::OpenId;
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
            Parting::Lost => self.keep_waiting(opens),
            Parting::Expelled => opens,
        };
        let end = end.into();
        rest.iter().for_each(|open| open.end.say(end.by));
        of_session::ended(self, session, end);
        rest
    }

    /// Keeps what of a session's opens outlives it, and gives the rest, for closing. Nothing is kept for who may not sign in any more: an operator who has
    /// just seen to that has not seen what a request, or the end of its session, had in its hands.
    #[must_use]
    pub(crate) fn keep_waiting(&self, opens: Vec<Arc<Open>>) -> Vec<Arc<Open>> {
        let ids: Vec<OpenId> = opens.iter().map(|open| open.id).collect();
        let mut rest = self.durables.keep(opens);
        // Whoever is served other users from now on looks at all that waits after that.
        let configuration = self.configuration.load();
        rest.extend(ids.into_iter().filter_map(|id| self.durables.take_of_nobody(id, &configuration)));
        rest
    }
}
