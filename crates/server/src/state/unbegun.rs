//! Requests of an open that wait for a limit of their share. What changes more than data, or ends the open, comes behind them, as it would where
//! nothing is limited: a WRITE is not refused for a CLOSE that was sent after it.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// READs and WRITEs of one open that have waited: how many, and how many of them have begun. They begin in the order in which they came.
#[derive(Default)]
pub(crate) struct Unbegun {
    came: AtomicU64,
    begun: AtomicU64,
    begins: Notify,
}

/// One of them, until it begins or is given up.
pub(crate) struct Begins<'a>(&'a Unbegun);

impl Unbegun {
    pub(crate) fn enter(&self) -> Begins<'_> {
        self.came.fetch_add(1, Ordering::AcqRel);
        Begins(self)
    }

    /// Waits until all that have come until now have begun.
    pub(crate) async fn have_begun(&self) {
        let came = self.came.load(Ordering::Acquire);
        loop {
            let mut begins = pin!(self.begins.notified());
            begins.as_mut().enable();
            if self.begun.load(Ordering::Acquire) >= came {
                return;
            }
            begins.await;
        }
    }
}

impl Drop for Begins<'_> {
    fn drop(&mut self) {
        self.0.begun.fetch_add(1, Ordering::AcqRel);
        self.0.begins.notify_waiters();
    }
}
