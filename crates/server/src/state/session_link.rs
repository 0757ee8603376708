//! The way from what is open to the client that has it: the session, until that ends, and the one that takes it over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use wire::ids::SessionId;

/// Which session it is, and whether it goes on: what is known of it by what is open.
pub(crate) struct SessionState {
    pub(crate) id: SessionId,
    ended: AtomicBool,
}

impl SessionState {
    /// That of a session which begins.
    pub(crate) fn of(id: SessionId) -> Arc<Self> {
        Arc::new(SessionState { id, ended: AtomicBool::new(false) })
    }

    /// True once it ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends it; true for the first who does.
    pub(crate) fn end(&self) -> bool {
        !self.ended.swap(true, Ordering::AcqRel)
    }
}

/// The link of one open. That of a disconnected durable open leads nowhere.
pub(crate) struct SessionLink(Mutex<Option<Arc<SessionState>>>);

impl SessionLink {
    /// A link to a session.
    pub(crate) fn to(session: &Arc<SessionState>) -> Arc<Self> {
        Arc::new(SessionLink(Mutex::new(Some(Arc::clone(session)))))
    }

    /// A link that leads nowhere.
    pub(crate) fn down() -> Arc<Self> {
        Arc::new(SessionLink(Mutex::new(None)))
    }

    /// The id of the session, unless it has ended (Open.Session); [`Sessions::of`](crate::state::sessions::Sessions::of) finds it.
    pub(crate) fn session(&self) -> Option<SessionId> {
        self.0.lock().as_ref().filter(|session| !session.has_ended()).map(|session| session.id)
    }

    /// Leads to another session from now on.
    pub(crate) fn connect(&self, session: &Arc<SessionState>) {
        *self.0.lock() = Some(Arc::clone(session));
    }

    /// Leads nowhere from now on.
    pub(crate) fn cut(&self) {
        *self.0.lock() = None;
    }
}
