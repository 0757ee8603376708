//! A request that waits for a byte-range lock: granted by whoever releases what was in the way, on whatever shard that is.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::state::locks::{Place, RangeLock, Ticket};
use crate::state::open::Open;

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
    pub(crate) fn new(open: &Arc<Open>, wanted: RangeLock, (ticket, granted): Place) -> Self {
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
