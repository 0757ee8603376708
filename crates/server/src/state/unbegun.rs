//! Requests of an open that wait for a limit of their share. What changes more than data, or ends the open, comes behind them, as it would where
//! nothing is limited: a WRITE is not refused for a CLOSE that was sent after it.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// READs and WRITEs of one open that have not begun.
#[derive(Default)]
pub(crate) struct Unbegun {
    count: AtomicUsize,
    is_none: Notify,
}

/// One of them.
pub(crate) struct Begins<'a>(&'a Unbegun);

impl Unbegun {
    pub(crate) fn enter(&self) -> Begins<'_> {
        self.count.fetch_add(1, Ordering::AcqRel);
        Begins(self)
    }

    /// Waits until all have begun.
    pub(crate) async fn have_begun(&self) {
        loop {
            let mut is_none = pin!(self.is_none.notified());
            is_none.as_mut().enable();
            if self.count.load(Ordering::Acquire) == 0 {
                return;
            }
            is_none.await;
        }
    }
}

impl Drop for Begins<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.is_none.notify_waiters();
        }
    }
}
