//! What happens seldom, and to the server as a whole.

use std::sync::atomic::{AtomicU64, Ordering};

/// How often something has happened since the server started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Sessions were set up.
    pub sign_ins: u64,
    /// Somebody tried to sign in and was refused.
    pub sign_ins_refused: u64,
    /// Breaks of oplocks and leases were sent.
    pub breaks: u64,
    /// A session got one more channel.
    pub channels_bound: u64,
    /// A channel was lost with its connection.
    pub channels_lost: u64,
}

/// The same while it is counted, by any thread.
#[derive(Default)]
pub(crate) struct EventCounters {
    pub(crate) sign_ins: AtomicU64,
    pub(crate) sign_ins_refused: AtomicU64,
    pub(crate) breaks: AtomicU64,
    pub(crate) channels_bound: AtomicU64,
    pub(crate) channels_lost: AtomicU64,
}

impl EventCounters {
    /// What has happened so far.
    pub(super) fn read(&self) -> Events {
        let read = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Events {
            sign_ins: read(&self.sign_ins),
            sign_ins_refused: read(&self.sign_ins_refused),
            breaks: read(&self.breaks),
            channels_bound: read(&self.channels_bound),
            channels_lost: read(&self.channels_lost),
        }
    }
}

/// Something has happened once more.
pub(crate) fn happened(event: &AtomicU64) {
    event.fetch_add(1, Ordering::Relaxed);
}
