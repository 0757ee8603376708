//! How far a call for what is in use has come.

use wire::ids::{SessionId, TreeId};

use crate::state::open_id::OpenId;

/// Where an open stands among those of its session.
pub(crate) type OpenPlace = (TreeId, OpenId);

/// Where a walk through what is in use has come to: its next part goes on there.
#[derive(Debug)]
pub(crate) struct Walk {
    /// The account's sessions, in order.
    pub(crate) sessions: Vec<SessionId>,
    /// How many opens they had.
    pub(crate) opens: usize,
    /// The number of the open that is next, and where it is.
    pub(crate) next: usize,
    pub(crate) at: At,
}

/// The place of an open: its session, and what it comes behind there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct At {
    pub(crate) session: usize,
    pub(crate) after: Option<OpenPlace>,
}

impl Walk {
    /// What is held for it, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.sessions.capacity() * size_of::<SessionId>() + size_of::<Walk>()
    }
}
