//! Nonces that are never used twice with one key: one counter space per key and direction, leased out in blocks so
//! that the channels of a session do not contend for it message by message.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many nonces one lease holds. Large enough that the shared counter is touched rarely, small enough that a
/// channel which comes and goes wastes nothing that matters of 2^64.
pub const NONCES_PER_LEASE: u64 = 1 << 16;

/// All nonces of a key are used up; the session must authenticate anew from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("every nonce of the encryption key is used up")]
pub struct Exhausted;

/// A number used once. It can only be had from a [`NonceRange`] and is gone once a message is sealed with it.
#[derive(Debug)]
pub struct Nonce(u64);

impl Nonce {
    #[cfg(test)]
    pub(super) fn with_counter(counter: u64) -> Self {
        Nonce(counter)
    }

    pub(super) fn into_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }
}

/// The nonces of one key in one direction. It lives as long as the key: with the session, across its channels and
/// their reconnects.
#[derive(Debug, Default)]
pub struct NonceSpace {
    next: AtomicU64,
}

impl NonceSpace {
    /// All nonces, none used.
    pub fn new() -> Self {
        NonceSpace::default()
    }

    /// Takes a block out of the space, for one channel to count in.
    pub fn lease(&self) -> Result<NonceRange, Exhausted> {
        let advance = |next: u64| next.checked_add(NONCES_PER_LEASE);
        // No other memory hangs on the counter; that each update is atomic is enough to hand each block out once.
        match self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, advance) {
            Ok(start) => Ok(NonceRange { next: start, end: start + NONCES_PER_LEASE }),
            Err(_) => Err(Exhausted),
        }
    }
}

/// A block of nonces that one channel counts in.
#[derive(Debug)]
pub struct NonceRange {
    next: u64,
    end: u64,
}

impl NonceRange {
    /// A block without nonces, to start from: the first [`draw`](Self::draw) leases one.
    pub fn empty() -> Self {
        NonceRange { next: 0, end: 0 }
    }

    /// The next nonce, or `None` at the end of the block.
    pub fn take(&mut self) -> Option<Nonce> {
        if self.next == self.end {
            return None;
        }
        let nonce = Nonce(self.next);
        self.next += 1;
        Some(nonce)
    }

    /// The next nonce; at the end of the block another is leased from `space`, which must be the same every time.
    pub fn draw(&mut self, space: &NonceSpace) -> Result<Nonce, Exhausted> {
        if let Some(nonce) = self.take() {
            return Ok(nonce);
        }
        *self = space.lease()?;
        self.take().ok_or(Exhausted)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_range_counts_through_its_block_and_then_leases_another() {
        let space = NonceSpace::new();
        let mut range = NonceRange::empty();
        assert!(range.take().is_none());
        for expected in 0..NONCES_PER_LEASE + 2 {
            assert_eq!(range.draw(&space).map(|nonce| nonce.0), Ok(expected));
        }
    }

    #[test]
    fn channels_that_lease_at_the_same_time_never_share_a_nonce() {
        let space = NonceSpace::new();
        let starts: Vec<u64> = std::thread::scope(|scope| {
            let lease_many = || (0..500).map(|_| space.lease().unwrap().next).collect::<Vec<_>>();
            let channels: Vec<_> = (0..4).map(|_| scope.spawn(lease_many)).collect();
            channels.into_iter().flat_map(|channel| channel.join().unwrap()).collect()
        });
        let distinct: HashSet<u64> = starts.iter().copied().collect();
        assert_eq!(distinct.len(), 2000);
        assert!(starts.iter().all(|start| start % NONCES_PER_LEASE == 0));
    }

    #[test]
    fn a_reconnected_channel_goes_on_where_none_has_been() {
        let space = NonceSpace::new();
        let before = NonceRange::empty().draw(&space).unwrap();
        let after = NonceRange::empty().draw(&space).unwrap();
        assert_ne!(before.0, after.0);
    }

    #[test]
    fn an_exhausted_space_leases_nothing_ever_again() {
        let space = NonceSpace { next: AtomicU64::new(u64::MAX - NONCES_PER_LEASE - 1) };
        assert!(space.lease().is_ok());
        assert_eq!(space.lease().map(|range| range.next), Err(Exhausted));
        assert_eq!(NonceRange::empty().draw(&space).map(|nonce| nonce.0), Err(Exhausted));
    }
}
