//! How much memory the names of directories take that are held, in all stores of the process.
//!
//! A name is paid for before it is held. Where there is no room, a store that has more than its share drops its own, and one that has less
//! has others drop theirs that have more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

/// Bytes for all, unless the process is to have less.
const BYTES_MAX: usize = 128 << 20;

static OF_PROCESS: LazyLock<Arc<Room>> = LazyLock::new(|| Arc::new(Room::new(BYTES_MAX)));

/// Lets the names of directories that are held take no more than so many bytes, in all stores of this process. 128 MiB at most.
pub fn limit_names(bytes: u64) {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(BYTES_MAX);
    OF_PROCESS.limit.store(bytes, Ordering::Relaxed);
}

/// What all that share it may hold.
pub(super) struct Room {
    limit: AtomicUsize,
    used: AtomicUsize,
    parts: Mutex<Vec<Weak<dyn Part>>>,
}

/// One store's part of it.
pub(super) trait Part: Send + Sync {
    /// Bytes that it holds.
    fn used(&self) -> &Arc<AtomicUsize>;

    /// Drops what nobody uses just now, until `is_enough`.
    fn drop_some(&self, is_enough: &dyn Fn() -> bool);
}

/// Memory that is held for names. It is given back when this is dropped.
pub(super) struct HeldNames {
    room: Arc<Room>,
    /// The store, which may have this place itself.
    part: Weak<dyn Part>,
    used_by_part: Arc<AtomicUsize>,
    bytes: usize,
}

impl Room {
    pub(super) fn of_process() -> Arc<Room> {
        Arc::clone(&OF_PROCESS)
    }

    pub(super) fn new(limit: usize) -> Self {
        Room { limit: AtomicUsize::new(limit), used: AtomicUsize::new(0), parts: Mutex::default() }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    /// A store shares the room from now on.
    pub(super) fn join(&self, part: &Arc<impl Part + 'static>) {
        let mut parts = self.parts.lock();
        parts.retain(|part| part.strong_count() > 0);
        parts.push(Arc::downgrade(part) as Weak<dyn Part>);
    }

    /// Bytes that are held of it.
    #[cfg(test)]
    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn has(&self, bytes: usize) -> bool {
        self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.limit()
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit());
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }

    /// Has who holds more than its share drop something, so that `part` may have `bytes` more.
    fn make_room(&self, part: &dyn Part, bytes: usize) {
        let is_enough = || self.has(bytes);
        let parts: Vec<_> = self.parts.lock().iter().filter_map(Weak::upgrade).collect();
        let busy = parts.iter().filter(|part| part.used().load(Ordering::Relaxed) > 0).count();
        let share = self.limit() / busy.max(1);
        let is_over = |part: &dyn Part, more: usize| part.used().load(Ordering::Relaxed) + more > share;
        if is_over(part, bytes) {
            return part.drop_some(&is_enough);
        }
        for other in parts.iter().filter(|other| is_over(&***other, 0)) {
            other.drop_some(&|| is_enough() || !is_over(&**other, 0));
        }
    }
}

impl HeldNames {
    pub(super) fn new(room: &Arc<Room>, part: &Arc<impl Part + 'static>) -> Self {
        let (used_by_part, part) = (Arc::clone(part.used()), Arc::downgrade(part) as Weak<dyn Part>);
        HeldNames { room: Arc::clone(room), part, used_by_part, bytes: 0 }
    }

    /// Bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds `bytes` in all, where there is room, or others that drop something make it.
    #[must_use]
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return true;
        }
        if !self.room.take(more) {
            if let Some(part) = self.part.upgrade() {
                self.room.make_room(&*part, more);
            }
            if !self.room.take(more) {
                return false;
            }
        }
        self.used_by_part.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
        true
    }

    /// Gives back all but `bytes`.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.room.used.fetch_sub(less, Ordering::Relaxed);
        self.used_by_part.fetch_sub(less, Ordering::Relaxed);
        self.bytes -= less;
    }
}

impl Drop for HeldNames {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}
