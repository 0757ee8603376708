//! Nonces that are never used twice with one key: one counter space per key and direction, leased out in blocks so
//! that the channels of a session do not contend for it message by message.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many nonces one lease holds. Large enough that the shared counter is touched rarely, small enough that a
/// channel which comes and goes wastes nothing that matters of 2^64.
pub const NONCES_PER_LEASE: u64 = 1 << 16;

/// All nonces of a key are used up; the session must authenticate anew from the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted;

impl fmt::Display for Exhausted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("every nonce of the encryption key is used up")
    }
}

impl std::error::Error for Exhausted {}

/// A number used once. It can only be had from a [`NonceRange`] and is gone once a message is sealed with it.
#[derive(Debug)]
pub struct Nonce(u64);

impl Nonce {
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
