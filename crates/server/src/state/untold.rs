//! What was changed through an open and nobody was told of (MS-FSA File.PendingNotifications).

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use wire::command::change_notify::CompletionFilter;

/// Writes through one open are told of at most this often, and when it closes.
const WRITES_TOLD_EVERY: Duration = Duration::from_secs(1);

/// That of one open.
#[derive(Default)]
pub(crate) struct Untold {
    /// A [`CompletionFilter`].
    changed: AtomicU32,
    /// When writes were told of, in milliseconds since the watches began.
    writes_told_at: AtomicU64,
    /// The pool has been asked to tell of data, and has not begun.
    is_asked_for: AtomicBool,
}

impl Untold {
    /// This was changed.
    pub(crate) fn add(&self, changed: CompletionFilter) {
        self.changed.fetch_or(changed.0, Ordering::Relaxed);
    }

    /// True where something of this was changed.
    pub(crate) fn has(&self, changed: CompletionFilter) -> bool {
        CompletionFilter(self.changed.load(Ordering::Relaxed)).intersects(changed)
    }

    /// What of this was changed, which is told of now.
    pub(crate) fn take(&self, changed: CompletionFilter) -> CompletionFilter {
        CompletionFilter(self.changed.fetch_and(!changed.0, Ordering::Relaxed) & changed.0)
    }

    /// True where a write is to be told of that was made when watches have been there `since_start`.
    pub(crate) fn is_due(&self, since_start: Duration) -> bool {
        let now = since_start + WRITES_TOLD_EVERY;
        let told_at = Duration::from_millis(self.writes_told_at.load(Ordering::Relaxed));
        let is_due = now.saturating_sub(told_at) >= WRITES_TOLD_EVERY;
        if is_due {
            self.writes_told_at.store(now.as_millis() as u64, Ordering::Relaxed);
        }
        is_due
    }

    /// Asks the pool to tell of data; true for the first who does until it begins.
    pub(crate) fn ask(&self) -> bool {
        !self.is_asked_for.swap(true, Ordering::SeqCst)
    }

    /// The pool begins, before it takes what was changed: a change that comes after that asks anew.
    pub(crate) fn begin(&self) {
        self.is_asked_for.store(false, Ordering::SeqCst);
    }
}
