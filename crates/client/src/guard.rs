//! How messages go out and must come in.

use std::fmt;
use std::sync::Arc;

use secure::kdf::SessionKeys;
use secure::seal::{Nonce, NonceRange, NonceSpace, Opener, Sealer};
use secure::sign::SigningKey;
use wire::ids::SessionId;

use crate::loss::Loss;

/// What protects a request and its answer.
#[derive(Clone, Debug)]
pub(crate) enum Guard {
    /// Nothing: before there are keys, and where neither side wants signatures.
    Bare,
    /// A signature in both.
    Signed(Arc<SigningKey>),
    /// Encryption of both.
    Sealed(Arc<Seals>),
}

impl Guard {
    /// The nonce that a message needs, where it is sealed.
    pub(crate) fn nonce(&self, nonces: &mut NonceRange) -> Result<Option<Nonce>, Loss> {
        match self {
            Guard::Sealed(seals) => nonces.draw(&seals.space).map(Some).map_err(|_| Loss("every nonce is used up")),
            Guard::Bare | Guard::Signed(_) => Ok(None),
        }
    }
}

/// A session's encryption, for all of its channels: they draw their nonces from one space.
pub(crate) struct Seals {
    pub(crate) session_id: SessionId,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
    pub(crate) space: NonceSpace,
}

impl Seals {
    /// `None` where the session has no cipher.
    pub(crate) fn of(session_id: SessionId, keys: &SessionKeys) -> Option<Self> {
        Some(Seals { session_id, sealer: keys.sealer()?, opener: keys.opener()?, space: NonceSpace::new() })
    }
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seals").field("session_id", &self.session_id).finish_non_exhaustive()
    }
}
