//! The data path's memory: buffers of three sizes, kept by each shard and lent to connections that are busy.
//!
//! A connection holds a buffer only while bytes are in it, so an idle connection costs none. Buffers are filled with
//! zeros once, when they are made, and reused ever after.

use std::cell::RefCell;

/// Holds many small requests, or many small replies.
const SMALL_BYTES: usize = 128 << 10;
/// Holds a 1-MiB payload with its headers.
const LARGE_BYTES: usize = (1 << 20) + (16 << 10);
/// Holds the largest frame there is (see `FRAME_BYTES_MAX`).
const HUGE_BYTES: usize = FRAME_BYTES_MAX + 4;
/// The largest frame a client may send: 8 MiB of payload and 64 KiB for everything around it.
pub(crate) const FRAME_BYTES_MAX: usize = (8 << 20) + (64 << 10);

const SIZES: [usize; 3] = [SMALL_BYTES, LARGE_BYTES, HUGE_BYTES];
/// How many free buffers of each size a shard keeps: 8, 16 and 32 MiB at most.
const KEPT: [usize; 3] = [64, 16, 4];

/// A lent buffer: always one of three sizes.
pub(crate) type Buffer = Box<[u8]>;

/// The free buffers of one shard.
#[derive(Default)]
pub(crate) struct Buffers {
    free: [RefCell<Vec<Buffer>>; 3],
}

impl Buffers {
    /// A buffer of at least `bytes`, which is at most [`HUGE_BYTES`] (more gives one of just that size, never kept).
    pub(crate) fn lend(&self, bytes: usize) -> Buffer {
        match SIZES.iter().zip(&self.free).find(|(size, _)| **size >= bytes) {
            Some((size, free)) => free.borrow_mut().pop().unwrap_or_else(|| vec![0; *size].into_boxed_slice()),
            None => vec![0; bytes].into_boxed_slice(),
        }
    }

    /// Takes a buffer back.
    pub(crate) fn give_back(&self, buffer: Buffer) {
        for ((size, free), kept) in SIZES.iter().zip(&self.free).zip(KEPT) {
            let mut free = free.borrow_mut();
            if *size == buffer.len() && free.len() < kept {
                free.push(buffer);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_buffer_is_lent_again() {
        let buffers = Buffers::default();
        let first = buffers.lend(10);
        assert_eq!(first.len(), SMALL_BYTES);
        let address = first.as_ptr();
        buffers.give_back(first);
        let second = buffers.lend(SMALL_BYTES);
        assert_eq!(second.as_ptr(), address);
    }

    #[test]
    fn sizes_fit_what_is_asked() {
        let buffers = Buffers::default();
        assert_eq!(buffers.lend(SMALL_BYTES + 1).len(), LARGE_BYTES);
        assert_eq!(buffers.lend(HUGE_BYTES).len(), HUGE_BYTES);
        assert_eq!(buffers.lend(HUGE_BYTES + 1).len(), HUGE_BYTES + 1);
    }
}
