//! An operation's wait for others to give up what they cache of a file.

use std::sync::Arc;
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::task::yield_now;

use super::{FileEntry, Look};
use crate::state::caching::Unacknowledged;
use crate::state::open::Open;
use crate::state::pending_open::PendingOpen;

/// The wait.
pub(crate) struct BreakWait {
    file: Arc<FileEntry>,
    changed: oneshot::Receiver<Look>,
    until: Instant,
    /// The place among those who want in.
    pub(crate) pending_open: Option<PendingOpen>,
    /// What has to be recorded of these first.
    pub(crate) records: Vec<Arc<Open>>,
    /// Who has not answered until the limit.
    pub(crate) silent: Vec<Unacknowledged>,
}

impl BreakWait {
    /// Waits for `changed`, until `until` at most.
    pub(crate) fn new(file: Arc<FileEntry>, changed: oneshot::Receiver<Look>, until: Instant) -> Self {
        BreakWait { file, changed, until, pending_open: None, records: Vec::new(), silent: Vec::new() }
    }

    /// The same of an open, which has a place among those who want in.
    pub(crate) fn pending_open(self, pending_open: PendingOpen) -> Self {
        BreakWait { pending_open: Some(pending_open), ..self }
    }

    /// Waits until what these opens cache is recorded, and for nothing else.
    pub(crate) fn for_records(self, records: Vec<Arc<Open>>) -> Self {
        // A disk may be slow: those who wait for a change are not to wait for this one's look.
        let (_, nothing) = oneshot::channel();
        BreakWait { records, changed: nothing, ..self }
    }

    /// Ends when something has changed. At the limit ([`ACKNOWLEDGE_WITHIN`](crate::state::caching::ACKNOWLEDGE_WITHIN)) the file takes from those who
    /// have not answered what they cache ([`FileEntry::wait_is_over`]), which is such a change.
    pub(crate) async fn end(&mut self) {
        let told = match tokio::time::timeout_at(self.until.into(), &mut self.changed).await {
            Ok(told) => told,
            Err(_) => {
                self.silent = self.file.wait_is_over();
                (&mut self.changed).await
            }
        };
        // The runtime asks the kernel what has come in for others, before this one looks and the next one is told.
        yield_now().await;
        drop(told);
    }

    /// True where it is told to look again.
    #[cfg(test)]
    pub(crate) fn has_ended(&mut self) -> bool {
        self.changed.try_recv().is_ok()
    }
}
