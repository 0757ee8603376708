//! Chance from a seed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers that follow from a seed (SplitMix64).
pub(crate) struct Chance(AtomicU64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Chance(AtomicU64::new(seed))
    }

    pub(crate) fn next(&self) -> u64 {
        let state = self.0.load(Ordering::Relaxed).wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.store(state, Ordering::Relaxed);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    pub(crate) fn percent(&self, share: u64) -> bool {
        self.below(100) < share
    }

    /// Another sequence, which goes its own way from here.
    pub(crate) fn branch(&self) -> Chance {
        Chance::new(self.next())
    }
}
