//! A sign-in on its way.

use std::sync::Arc;

use secure::preauth::PreauthHash;
use secure::spnego::Acceptor;

use crate::resource::budget::Charge;
use crate::state::session::Session;
use crate::state::sessions::Beginning;

/// A sign-in that waits for the client's next token.
pub(crate) struct SetupInProgress {
    pub(super) acceptor: Acceptor,
    pub(super) preauth: PreauthHash,
    pub(super) purpose: Purpose,
    pub(super) _held: Charge,
}

/// What becomes of a sign-in that succeeds.
pub(super) enum Purpose {
    /// A new session.
    Begin(Beginning),
    /// The session goes on, with what its user may do now. Where the first leg was proven to be the session's, the others are, too.
    Renew { is_proven: bool },
    /// One more channel of a session.
    Bind(Arc<Session>),
}

impl SetupInProgress {
    /// Takes a message into this session's pre-auth hash.
    pub(crate) fn hash(&mut self, message: &[u8]) {
        self.preauth.update(message);
    }
}
