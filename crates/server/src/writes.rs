//! Whether a write is made on the shard or on the pool. Buffered writes cannot be tried without waiting, so this is decided by
//! measurement: on the shard while the page cache takes them, on the pool for a while after one was held up.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use store::{Error, Facts};

/// A write that takes longer than this waited for a device.
const HELD_UP: Duration = Duration::from_millis(4);
/// How long writes then go to the pool.
const ELSEWHERE: Duration = Duration::from_millis(200);

/// What the shards have learned.
pub(crate) struct WritePlace {
    started: Instant,
    /// Milliseconds after `started` until which writes go to the pool.
    elsewhere_until: AtomicU64,
    /// [`HELD_UP`] in milliseconds, unless a test is more patient.
    held_up_ms: AtomicU64,
}

impl WritePlace {
    pub(crate) fn new() -> Self {
        WritePlace {
            started: Instant::now(),
            elsewhere_until: AtomicU64::new(0),
            held_up_ms: AtomicU64::new(HELD_UP.as_millis() as u64),
        }
    }

    /// Keeps writes on the shard however long they take: how busy the machine is must not decide a test.
    #[cfg(test)]
    pub(crate) fn be_patient(&self) {
        self.held_up_ms.store(u64::MAX, Ordering::Relaxed);
    }

    /// Runs `write` here, or gives `None` where it belongs on the pool.
    pub(crate) fn write_here(
        &self,
        facts: &Facts,
        write: impl FnOnce() -> Result<(), Error>,
    ) -> Option<Result<(), Error>> {
        if facts.never_blocks {
            return Some(write());
        }
        let before = self.started.elapsed();
        if (before.as_millis() as u64) < self.elsewhere_until.load(Ordering::Relaxed) {
            return None;
        }
        let written = write();
        let after = self.started.elapsed();
        if (after - before).as_millis() as u64 > self.held_up_ms.load(Ordering::Relaxed) {
            self.elsewhere_until.store((after + ELSEWHERE).as_millis() as u64, Ordering::Relaxed);
        }
        Some(written)
    }
}
