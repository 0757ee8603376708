//! What a session's client, where it is a Mac, and the server agreed to do.

use std::sync::atomic::{AtomicU64, Ordering};

use wire::context::apple::AppleCapabilities;

/// Beside the capabilities that both have: the client has asked for the server's.
const IS_MAC: u64 = 1 << 63;

/// The capabilities that both have. None until the client asks for the server's, with a CREATE on any of the session's tree connects.
#[derive(Default)]
pub(crate) struct AppleTerms(AtomicU64);

impl AppleTerms {
    /// These count from now on.
    pub(crate) fn agree(&self, capabilities: AppleCapabilities) {
        self.0.store(capabilities.0 | IS_MAC, Ordering::Relaxed);
    }

    /// True where both have all of these.
    pub(crate) fn have(&self, capabilities: AppleCapabilities) -> bool {
        AppleCapabilities(self.0.load(Ordering::Relaxed)).contains(capabilities)
    }

    /// True for a client that has asked.
    pub(crate) fn is_mac(&self) -> bool {
        self.0.load(Ordering::Relaxed) & IS_MAC != 0
    }
}
