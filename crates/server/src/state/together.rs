//! How many requests a connection had at once, for who tells a client that sends one at a time from one that sends them in bursts.

use std::sync::atomic::{AtomicU64, Ordering};

/// The most requests that a connection had at once: in the time that runs now, and in the one before it. Its shard alone writes it.
#[derive(Default)]
pub(crate) struct Together(AtomicU64);

impl Together {
    /// How long one of the two times is.
    const SECONDS: u64 = 30;
    /// The bits of a number of requests. The rest is the number of the time.
    const BITS: u32 = 16;
    const MAX: u64 = (1 << Self::BITS) - 1;

    /// There were so many, so many seconds after the connection began.
    pub(crate) fn note(&self, requests: u64, seconds: u64) {
        let (number, before, most) = self.at(seconds);
        let most = most.max(requests.min(Self::MAX));
        self.0.store(number << (2 * Self::BITS) | before << Self::BITS | most, Ordering::Relaxed);
    }

    /// The most in the last half minute to minute.
    pub(crate) fn most(&self, seconds: u64) -> u64 {
        let (_, before, most) = self.at(seconds);
        before.max(most)
    }

    /// The number of the time then, and the most requests in the one before it and in it.
    fn at(&self, seconds: u64) -> (u64, u64, u64) {
        let (known, number) = (self.0.load(Ordering::Relaxed), seconds / Self::SECONDS);
        let (known_number, before, most) =
            (known >> (2 * Self::BITS), known >> Self::BITS & Self::MAX, known & Self::MAX);
        match number.saturating_sub(known_number) {
            0 => (number, before, most),
            1 => (number, most, 0),
            _ => (number, 0, 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_at_once_is_known_for_a_while() {
        let together = Together::default();
        together.note(1, 3);
        together.note(32, 10);
        together.note(2, 20);
        assert_eq!(together.most(29), 32);
        together.note(1, 31);
        assert_eq!(together.most(59), 32, "the time before counts, too");
        together.note(1, 61);
        assert_eq!(together.most(61), 1);
        assert_eq!(together.most(1_000), 0, "nothing came since");
        together.note(1 << 40, 1_000);
        assert_eq!(together.most(1_000), (1 << 16) - 1);
    }
}
