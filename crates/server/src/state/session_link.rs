//! The way from what is open to the client that has it: the session, until that ends, and the one that takes it over.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::state::session::Session;

/// The line of one open. A disconnected durable open has one that leads nowhere.
pub(crate) struct SessionLink(Mutex<Weak<Session>>);

impl SessionLink {
    /// The line to a session.
    pub(crate) fn to(session: &Arc<Session>) -> Arc<Self> {
        Arc::new(SessionLink(Mutex::new(Arc::downgrade(session))))
    }

    /// A line that leads nowhere.
    pub(crate) fn down() -> Arc<Self> {
        Arc::new(SessionLink(Mutex::default()))
    }

    /// The session, where the line is up (Open.Session).
    pub(crate) fn session(&self) -> Option<Arc<Session>> {
        self.0.lock().upgrade().filter(|session| !session.has_ended())
    }

    /// Leads to another session from now on.
    pub(crate) fn connect(&self, session: &Arc<Session>) {
        *self.0.lock() = Arc::downgrade(session);
    }

    /// Leads nowhere from now on.
    pub(crate) fn cut(&self) {
        *self.0.lock() = Weak::new();
    }
}
