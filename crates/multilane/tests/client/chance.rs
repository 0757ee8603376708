//! Chance from a seed.

use std::sync::{Mutex, PoisonError};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Numbers that follow from a seed.
pub(crate) struct Chance(Mutex<SplitMix64>);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Chance(Mutex::new(SplitMix64::seed_from_u64(seed)))
    }

    pub(crate) fn next(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
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
