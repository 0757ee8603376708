//! A request that waits for a byte-range lock: granted by whoever releases what was in the way, on whatever shard that is.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::files::FileEntry;
use crate::locks::{RangeLock, Ticket};

/// The wait. Dropped before it has ended, it gives up its place, and the lock too where that came unheard.
pub(crate) struct LockWait {
    file: Arc<FileEntry>,
    stream: String,
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
    pub(crate) fn new(
        file: Arc<FileEntry>,
        stream: &str,
        wanted: RangeLock,
        ticket: Ticket,
        granted: oneshot::Receiver<()>,
    ) -> Self {
        LockWait { file, stream: stream.to_owned(), wanted, ticket, granted, ended: false }
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
        if !self.ended {
            self.file.stop_waiting(&self.stream, &self.wanted, self.ticket);
        }
    }
}
