//! Buffers for what is read of files: filled with zeros once, when they are made, and used again whenever nobody looks at them any more.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::net::inside::pieces::PIECE_BYTES_MAX;

/// Buffers that are kept while nobody needs them, the one used last on top, which the processor has at hand.
const KEPT_MAX: usize = 32;

/// The buffers of all connections inside the process.
#[derive(Clone, Default)]
pub(crate) struct Spare(Arc<Mutex<Vec<Box<[u8]>>>>);

/// A buffer that goes back when it is dropped.
pub(super) struct Lent {
    buffer: Box<[u8]>,
    length: usize,
    home: Spare,
}

impl Spare {
    /// A buffer of [`PIECE_BYTES_MAX`].
    pub(super) fn lend(&self) -> Lent {
        let kept = self.0.lock().pop();
        let buffer = kept.unwrap_or_else(|| vec![0; PIECE_BYTES_MAX].into());
        Lent { buffer, length: 0, home: self.clone() }
    }
}

impl Lent {
    /// All of it, to be written to.
    pub(super) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    /// Bytes that it has room for.
    pub(super) fn room_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Its first bytes as a piece.
    pub(super) fn filled(mut self, length: usize) -> Bytes {
        self.length = length;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut kept = self.home.0.lock();
        if kept.len() < KEPT_MAX {
            kept.push(std::mem::take(&mut self.buffer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_once_nobody_looks_at_it() {
        let spare = Spare::default();
        let mut lent = spare.lend();
        lent.room()[..3].copy_from_slice(b"abc");
        let (place, piece) = (lent.room().as_ptr(), lent.filled(3));
        let part = piece.slice(1..);
        drop(piece);
        assert_ne!(spare.lend().room().as_ptr(), place, "a part of it is in use");
        assert_eq!(part, &b"bc"[..]);
        drop(part);
        assert_eq!(spare.lend().room().as_ptr(), place);
        let many: Vec<_> = (0..KEPT_MAX + 5).map(|_| spare.lend()).collect();
        drop(many);
        assert_eq!(spare.0.lock().len(), KEPT_MAX);
    }
}
