//! The large buffers that nobody uses and the process keeps, for all shards: to make one anew costs as much as to fill it.
//!
//! They are charged to nobody, so there are few of them; and they go where users hold what is on top of what there is for each, so that all of
//! it together stays within what one user may make the process hold.

use std::mem;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::resource::budget::Budget;
use crate::resource::buffers::{Buffer, SIZES};

/// Bytes that are kept at most.
pub(crate) const KEPT_BYTES: u64 = 64 << 20;
/// Bytes that are kept whatever somebody holds: for those who have nothing to do with that.
const KEPT_BYTES_ANYWAY: u64 = 16 << 20;

/// Buffers of one size that nobody uses.
#[derive(Default)]
pub(crate) struct Free {
    buffers: Vec<Buffer>,
    /// The fewest there were since [`Free::take_unused`].
    fewest: usize,
}

/// See the module. Locked for as long as a buffer takes to be put or taken.
pub(crate) struct KeptBuffers {
    bytes_max: u64,
    on_top: Vec<Arc<Budget>>,
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    /// By size, as in [`SIZES`].
    free: [Free; SIZES.len()],
    bytes: u64,
}

impl KeptBuffers {
    /// Keeps `bytes_max` and no more than [`KEPT_BYTES`], and less by what is held of `on_top`.
    pub(crate) fn new(bytes_max: u64, on_top: Vec<Arc<Budget>>) -> Arc<Self> {
        Arc::new(KeptBuffers { bytes_max: bytes_max.min(KEPT_BYTES), on_top, inside: Mutex::default() })
    }

    /// One of a size.
    pub(crate) fn take(&self, size: usize) -> Option<Buffer> {
        let mut inside = self.inside.lock();
        let taken = inside.free[size].take()?;
        inside.bytes -= taken.len() as u64;
        Some(taken)
    }

    /// Keeps a buffer of a size, or gives it to the system.
    pub(crate) fn put(&self, size: usize, buffer: Buffer) {
        let mut inside = self.inside.lock();
        let bytes = inside.bytes + buffer.len() as u64;
        if bytes > self.room() {
            drop(inside);
            // Without the lock: the system takes its time.
            drop(buffer);
            return;
        }
        inside.bytes = bytes;
        inside.free[size].put(buffer);
    }

    /// Somebody holds more on top: gives to the system what that takes the place of, the largest first.
    pub(crate) fn make_room(&self) {
        let room = self.room();
        let mut gone = Vec::new();
        let mut inside = self.inside.lock();
        for size in (0..SIZES.len()).rev() {
            while inside.bytes > room
                && let Some(buffer) = inside.free[size].take()
            {
                inside.bytes -= buffer.len() as u64;
                gone.push(buffer);
            }
        }
        drop(inside);
    }

    /// Gives to the system what was free ever since it was called last.
    pub(crate) fn trim(&self) {
        let mut inside = self.inside.lock();
        let unused: Vec<Buffer> = inside.free.iter_mut().flat_map(Free::take_unused).collect();
        inside.bytes -= unused.iter().map(|buffer| buffer.len() as u64).sum::<u64>();
        drop(inside);
    }

    fn room(&self) -> u64 {
        let on_top: u64 = self.on_top.iter().map(|budget| budget.used()).sum();
        self.bytes_max.saturating_sub(on_top).max(KEPT_BYTES_ANYWAY.min(self.bytes_max))
    }
}

impl Free {
    pub(crate) fn len(&self) -> usize {
        self.buffers.len()
    }

    pub(crate) fn take(&mut self) -> Option<Buffer> {
        let taken = self.buffers.pop();
        self.fewest = self.fewest.min(self.buffers.len());
        taken
    }

    pub(crate) fn put(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }

    /// Those that were not used since this was called last.
    pub(crate) fn take_unused(&mut self) -> Vec<Buffer> {
        let count = mem::take(&mut self.fewest).min(self.buffers.len());
        // Those at the front were not lent for the longest time.
        let unused = self.buffers.drain(..count).collect();
        self.fewest = self.buffers.len();
        unused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: usize = 1;
    const HUGE: usize = SIZES.len() - 1;

    fn kept(buffers: &KeptBuffers) -> u64 {
        buffers.inside.lock().bytes
    }

    fn put(buffers: &KeptBuffers, size: usize, count: usize) {
        (0..count).for_each(|_| buffers.put(size, Buffer::new(SIZES[size])));
    }

    #[test]
    fn no_more_are_kept_than_some_bytes() {
        let buffers = KeptBuffers::new(u64::MAX, Vec::new());
        put(&buffers, HUGE, 20);
        assert_eq!(kept(&buffers), 7 * SIZES[HUGE] as u64);
        put(&buffers, LARGE, 20);
        assert!(kept(&buffers) <= KEPT_BYTES && kept(&buffers) > KEPT_BYTES - SIZES[LARGE] as u64);
    }

    #[test]
    fn what_is_held_on_top_takes_their_place_but_for_some() {
        let on_top = Budget::new(u64::MAX);
        let buffers = KeptBuffers::new(u64::MAX, vec![Arc::clone(&on_top)]);
        put(&buffers, HUGE, 5);
        put(&buffers, LARGE, 10);
        let before = kept(&buffers);
        let held = on_top.overdraw(24 << 20);
        buffers.make_room();
        assert!(kept(&buffers) <= KEPT_BYTES - (24 << 20) && kept(&buffers) < before);
        let more = on_top.overdraw(100 << 20);
        buffers.make_room();
        put(&buffers, LARGE, 40);
        assert!(kept(&buffers) <= KEPT_BYTES_ANYWAY && kept(&buffers) > KEPT_BYTES_ANYWAY - SIZES[LARGE] as u64);
        drop((held, more));
        put(&buffers, LARGE, 40);
        assert!(kept(&buffers) > KEPT_BYTES_ANYWAY * 2);
    }

    #[test]
    fn what_is_taken_and_what_is_not_used_counts_no_more() {
        let buffers = KeptBuffers::new(u64::MAX, Vec::new());
        put(&buffers, LARGE, 3);
        buffers.trim();
        assert_eq!(kept(&buffers), 3 * SIZES[LARGE] as u64, "they were used just now");
        let taken = buffers.take(LARGE).unwrap();
        assert!(buffers.take(HUGE).is_none());
        buffers.put(LARGE, taken);
        buffers.trim();
        assert_eq!(kept(&buffers), SIZES[LARGE] as u64);
        buffers.trim();
        assert_eq!(kept(&buffers), 0);
    }
}
