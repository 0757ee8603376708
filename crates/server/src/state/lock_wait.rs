//! LOCK requests that are under way, and those among them that wait: a byte-range lock is granted by whoever releases what was in the way, on
//! whatever shard that is.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::state::lock_sequences::LockSequence;
use crate::state::locks::{QueuedLock, RangeLock, Ticket};
use crate::state::open::{Open, Target};

/// The wait. Dropped before it has ended, it gives up its place, and the lock too where that came unheard.
pub(crate) struct LockWait {
    open: Arc<Open>,
    wanted: RangeLock,
    ticket: Ticket,
    granted: oneshot::Receiver<()>,
    ended: bool,
}

/// How a wait ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The lock is taken.
    Granted,
    /// The open was closed.
    Closed,
}

impl LockWait {
    /// The wait of `open` at its place.
    pub(crate) fn new(open: &Arc<Open>, wanted: RangeLock, (ticket, granted): QueuedLock) -> Self {
        LockWait { open: Arc::clone(open), wanted, ticket, granted, ended: false }
    }

    /// Ends when the lock is taken or the open closed. Safe to drop and call again.
    pub(crate) async fn end(&mut self) -> WaitEnd {
        let answer = (&mut self.granted).await;
        self.ended = true;
        if answer.is_ok() { WaitEnd::Granted } else { WaitEnd::Closed }
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        if let (false, Ok(file)) = (self.ended, self.open.file()) {
            file.file.stop_waiting(&file.stream_name(), &self.wanted, self.ticket);
        }
    }
}

/// A LOCK request that goes. Whoever does its work has this until that has ended, be it on the pool, and be the request given up meanwhile.
pub(crate) struct UnderWay {
    open: Arc<Open>,
    pub(crate) sequence: LockSequence,
}

impl UnderWay {
    /// The request of `sequence` on an open, which [`LockSequences::begin`](crate::state::lock_sequences::LockSequences::begin) has let go.
    pub(crate) fn new(open: &Arc<Open>, sequence: LockSequence) -> Self {
        UnderWay { open: Arc::clone(open), sequence }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Target::File(file) = &self.open.target {
            file.lock_sequences.ended(self.sequence);
        }
    }
}
