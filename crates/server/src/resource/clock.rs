//! The time, as far as a shard knows it without looking at the clock.

use std::cell::{Cell, OnceCell};

use tokio::time::Instant;

/// A shard's last look at the clock.
#[derive(Default)]
pub(crate) struct Clock {
    looked: Cell<Option<Instant>>,
    woken: OnceCell<Box<dyn Fn() -> Instant>>,
}

impl Clock {
    /// From now on `woken` says when the shard last had something to do after it had nothing.
    pub(crate) fn tell_woken(&self, woken: impl Fn() -> Instant + 'static) {
        let _ = self.woken.set(Box::new(woken));
    }

    /// Looks at the clock.
    pub(crate) fn look(&self) -> Instant {
        let now = Instant::now();
        self.looked.set(Some(now));
        now
    }

    /// The time as it was last read on the shard since it had something to do. It is read anew where nobody says when that was.
    pub(crate) fn last(&self) -> Instant {
        match self.woken.get() {
            Some(woken) => self.looked.get().max(Some(woken())).unwrap_or_else(Instant::now),
            None => self.look(),
        }
    }
}
