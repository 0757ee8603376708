//! Chance from a seed (SplitMix64).

use std::time::Duration;

/// A sequence of numbers that its seed decides.
#[derive(Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Up to so many milliseconds, mostly few.
    pub(super) fn pause(&mut self, most: u64) -> Duration {
        let most = if self.percent(80) { most.div_ceil(20) } else { most };
        Duration::from_millis(self.below(most + 1))
    }
}
