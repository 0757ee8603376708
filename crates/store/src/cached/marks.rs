//! Marks of what was looked for once, as far as they are remembered: four bytes each, and a new one takes an old one's place.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many there are.
const MARKS: usize = 1 << 16;

pub(super) struct Marks(Box<[AtomicU32]>);

impl Default for Marks {
    fn default() -> Self {
        Marks((0..MARKS).map(|_| AtomicU32::new(0)).collect())
    }
}

impl Marks {
    fn at(&self, hash: u64) -> (&AtomicU32, u32) {
        (&self.0[hash as usize % MARKS], (hash >> 32) as u32 | 1)
    }

    /// Marks it. True where it had its mark.
    pub(super) fn set(&self, hash: u64) -> bool {
        let (place, mark) = self.at(hash);
        place.swap(mark, Ordering::Relaxed) == mark
    }

    /// True where it has its mark.
    pub(super) fn has(&self, hash: u64) -> bool {
        let (place, mark) = self.at(hash);
        place.load(Ordering::Relaxed) == mark
    }

    /// Takes its mark away.
    pub(super) fn clear(&self, hash: u64) {
        let (place, mark) = self.at(hash);
        let _ = place.compare_exchange(mark, 0, Ordering::Relaxed, Ordering::Relaxed);
    }
}
