//! The data path's memory: buffers of four sizes, lent to connections that are busy. Free ones of the smallest size are kept by each shard, larger
//! ones by the process (kept_buffers.rs).
//!
//! A connection holds a buffer only while bytes are in it, so an idle connection costs none. Buffers are filled with
//! zeros once, when they are made, and reused ever after. Each is a mapping of its own: what is not kept goes back to the
//! system at once, which a heap shared by many threads does not promise.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use memmap2::MmapMut;

use crate::resource::kept_buffers::{Free, KeptBuffers};

/// Holds many small requests, or many small replies.
pub(crate) const SMALL_BYTES: usize = 128 << 10;
/// Holds a 1-MiB payload with its headers.
const LARGE_BYTES: usize = (1 << 20) + (16 << 10);
/// Holds a 4-MiB payload with its headers: what clients of Linux send at most.
const LARGER_BYTES: usize = (4 << 20) + (64 << 10);
/// Holds the largest frame there is (see `FRAME_BYTES_MAX`).
pub(crate) const HUGE_BYTES: usize = FRAME_BYTES_MAX + 4;
/// The largest frame a client may send: 8 MiB of payload and 64 KiB for everything around it.
pub(crate) const FRAME_BYTES_MAX: usize = PAYLOAD_BYTES_MAX + (64 << 10);
/// The most that a READ, a WRITE or a query carries.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 8 << 20;

pub(crate) const SIZES: [usize; 4] = [SMALL_BYTES, LARGE_BYTES, LARGER_BYTES, HUGE_BYTES];
/// The place of the smallest among them.
const SMALL: usize = 0;
/// How many free buffers of the smallest size a shard keeps where there is memory enough: 8 MiB.
const KEPT_SMALL: usize = 64;
/// How many it keeps of those that were made to fit, which are smaller than all of these: 2 MiB at most. To make and give back one each time
/// has both wait for the lock of the process's mappings, which all shards share.
const KEPT_FITTED: usize = 16;

/// What the system gives memory by.
const PAGE_BYTES: usize = 4 << 10;

/// A lent buffer: one of four sizes, unless nothing else would do.
pub(crate) struct Buffer(Memory);

/// Fewer bytes lie in the heap where they need no buffer that is lent.
const HEAP_BYTES_MAX: usize = 64 << 10;

enum Memory {
    Mapped(MmapMut),
    Heap(Box<[u8]>),
}

/// The free buffers of one shard.
pub(crate) struct Buffers {
    small: RefCell<Free>,
    small_kept: usize,
    larger: Arc<KeptBuffers>,
    fitted: RefCell<VecDeque<Buffer>>,
}

impl Default for Buffers {
    /// Those of a server with one shard and memory enough.
    fn default() -> Self {
        Buffers::keeping(u64::MAX, KeptBuffers::new(u64::MAX, Vec::new()))
    }
}

impl Buffers {
    /// Buffers of which small ones of no more than some `bytes` are kept here while nobody needs them, and the others with `larger`.
    pub(crate) fn keeping(bytes: u64, larger: Arc<KeptBuffers>) -> Self {
        let small_kept = (bytes / SMALL_BYTES as u64).min(KEPT_SMALL as u64) as usize;
        Buffers { small: RefCell::default(), small_kept, larger, fitted: RefCell::default() }
    }

    /// The size of what [`Buffers::lend`] gives for `bytes`.
    pub(crate) fn size(bytes: usize) -> usize {
        SIZES.into_iter().find(|size| *size >= bytes).unwrap_or(bytes)
    }

    /// A buffer of at least `bytes`, which is at most [`HUGE_BYTES`] (more gives one of just that size, never kept).
    pub(crate) fn lend(&self, bytes: usize) -> Buffer {
        self.lend_kept(bytes).unwrap_or_else(|| {
            let mut buffer = Buffer::new(Buffers::size(bytes));
            buffer.touch(1);
            buffer
        })
    }

    /// The same where there is one. Who works on the pool makes it there, else: that waits for the lock of the process's mappings, which a
    /// thread may hold that stands in line for a core.
    pub(crate) fn lend_kept(&self, bytes: usize) -> Option<Buffer> {
        match SIZES.iter().position(|size| *size >= bytes)? {
            SMALL => self.small.borrow_mut().take(),
            size => self.larger.take(size),
        }
    }

    /// A buffer of `bytes` and no more, which are fewer than the smallest has: one that was given back where there is one.
    pub(crate) fn lend_fitted(&self, bytes: usize) -> Buffer {
        let mut fitted = self.fitted.borrow_mut();
        let found = fitted.iter().position(|buffer| buffer.len() == bytes);
        found.and_then(|at| fitted.remove(at)).unwrap_or_else(|| Buffer::new(bytes))
    }

    /// Takes a buffer back.
    pub(crate) fn give_back(&self, buffer: Buffer) {
        if buffer.len() < SMALL_BYTES {
            if buffer.is_mapped() {
                let mut fitted = self.fitted.borrow_mut();
                // The oldest goes: of its length there may be no need any more.
                if fitted.len() == KEPT_FITTED {
                    fitted.pop_front();
                }
                fitted.push_back(buffer);
            }
            return;
        }
        match SIZES.iter().position(|size| *size == buffer.len()) {
            Some(SMALL) if self.small.borrow().len() < self.small_kept => self.small.borrow_mut().put(buffer),
            Some(SMALL) | None => {}
            Some(size) => self.larger.put(size, buffer),
        }
    }

    /// Gives to the system what was free here ever since it was called last.
    pub(crate) fn trim(&self) {
        self.small.borrow_mut().take_unused();
        self.fitted.borrow_mut().clear();
    }
}

impl Buffer {
    /// Zeros of any length.
    pub(crate) fn new(bytes: usize) -> Self {
        match MmapMut::map_anon(bytes) {
            Ok(mapped) => Buffer(Memory::Mapped(mapped)),
            // The system limits how many mappings there are.
            Err(_) => vec![0; bytes].into(),
        }
    }

    /// Zeros of any length, in the heap where they are few: many large ones that end at different times would leave that full of holes, and the
    /// first of them has the C library take the next from there, too.
    pub(crate) fn of_size(bytes: usize) -> Self {
        if bytes < HEAP_BYTES_MAX { vec![0; bytes].into() } else { Buffer::new(bytes) }
    }

    /// The same with these bytes.
    pub(crate) fn copy_of(bytes: &[u8]) -> Self {
        if bytes.len() < HEAP_BYTES_MAX {
            return bytes.to_vec().into();
        }
        let mut copy = Buffer::new(bytes.len());
        copy.copy_from_slice(bytes);
        copy
    }

    /// Has the system give the memory of the first `bytes` now. It gives the rest when that is written, which waits for other threads where
    /// the system itself writes it: a read(2) holds a lock of all mappings for each page that it finds missing, our own writes do not.
    pub(crate) fn touch(&mut self, bytes: usize) {
        self[..bytes].iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 0);
    }
}

impl Buffer {
    fn is_mapped(&self) -> bool {
        matches!(self.0, Memory::Mapped(_))
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Buffer(Memory::Heap(bytes.into_boxed_slice()))
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Mapped(mapped) => mapped,
            Memory::Heap(bytes) => bytes,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Memory::Mapped(mapped) => mapped,
            Memory::Heap(bytes) => bytes,
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a buffer of {} bytes", self.len())
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
    fn one_that_is_not_kept_is_not_made() {
        let buffers = Buffers::default();
        assert!(buffers.lend_kept(1).is_none() && buffers.lend_kept(HUGE_BYTES + 1).is_none());
        buffers.give_back(Buffer::new(HUGE_BYTES));
        assert_eq!(buffers.lend_kept(HUGE_BYTES).unwrap().len(), HUGE_BYTES);
    }

    /// Pages that the system had to give to this thread so far.
    fn faults() -> u64 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        stat.rsplit(')').next().unwrap().split_whitespace().nth(7).unwrap().parse().unwrap()
    }

    #[test]
    fn what_is_touched_is_there_already() {
        let faults_of_filling = |mut buffer: Buffer| {
            let before = faults();
            buffer.fill(1);
            faults() - before
        };
        let mut touched = Buffer::new(256 * PAGE_BYTES);
        touched.touch(256 * PAGE_BYTES);
        assert!(faults_of_filling(touched) < 16);
        assert!(faults_of_filling(Buffer::new(256 * PAGE_BYTES)) >= 16, "or this test shows nothing");
    }

    #[test]
    fn a_fitted_buffer_is_lent_again_for_the_same_length() {
        let buffers = Buffers::default();
        let first = buffers.lend_fitted(32 << 10);
        let address = first.as_ptr();
        buffers.give_back(first);
        buffers.give_back(vec![0; 1 << 10].into());
        assert_ne!(buffers.lend_fitted(16 << 10).as_ptr(), address);
        assert_eq!(buffers.lend_fitted(32 << 10).as_ptr(), address);
        (0..100).for_each(|_| buffers.give_back(Buffer::new(8 << 10)));
        assert_eq!(buffers.fitted.borrow().len(), KEPT_FITTED);
        buffers.trim();
        assert!(buffers.fitted.borrow().is_empty());
    }

    #[test]
    fn sizes_fit_what_is_asked() {
        let buffers = Buffers::default();
        assert_eq!(buffers.lend(SMALL_BYTES + 1).len(), LARGE_BYTES);
        assert_eq!(buffers.lend(HUGE_BYTES).len(), HUGE_BYTES);
        assert_eq!(buffers.lend(HUGE_BYTES + 1).len(), HUGE_BYTES + 1);
        assert_eq!(Buffers::size(1), SMALL_BYTES);
        assert_eq!(Buffers::size(HUGE_BYTES + 1), HUGE_BYTES + 1);
    }

    #[test]
    fn what_is_not_used_for_a_while_goes_back_to_the_system() {
        let buffers = Buffers::default();
        let lent: Vec<_> = (0..3).map(|_| buffers.lend(1)).collect();
        lent.into_iter().for_each(|buffer| buffers.give_back(buffer));
        let free = || buffers.small.borrow().len();
        buffers.trim();
        assert_eq!(free(), 3, "they were used just now");
        buffers.give_back(buffers.lend(1));
        buffers.trim();
        assert_eq!(free(), 1, "one was used meanwhile");
        buffers.trim();
        assert_eq!(free(), 0);
    }
}
