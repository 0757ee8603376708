//! The data of one file: pages in memory, allocated when they are written to; what is absent reads as zeros.

use std::ops::Range;
use std::sync::Arc;

use crate::ram::ledger::{Charge, Ledger};
use crate::ram::table::{BLOCK_BYTES, PAGE_BYTES, Page, Root, Tier, Walk};
use crate::{Error, Extent, Extents};

/// The longest file.
pub(super) const LENGTH_MAX: u64 = 16 << 40;
/// What a look for data looks at in one go: slots of tables and pages.
const LOOKS_MAX: usize = 4096;
/// What is filled with zeros in one go.
const FILL_BYTES: u64 = 1 << 20;
/// What is freed in one go: as much as one table holds.
const FREE_BYTES: u64 = 32 << 20;

/// The data of a file.
pub(super) struct Pages {
    root: Root,
    length: u64,
    reserved: u64,
    charge: Charge,
}

/// Pages that a file has no more. To free them takes as long as they are many: that is for who holds no lock.
#[must_use]
pub(super) struct Gone {
    _pages: Root,
    _charge: Charge,
}

/// A part of one page: its index, and where it begins and ends in it.
struct Part {
    page: u64,
    start: usize,
    end: usize,
}

impl Pages {
    pub(super) fn new(ledger: &Arc<Ledger>) -> Self {
        Pages { root: Root::default(), length: 0, reserved: 0, charge: Charge::none(ledger) }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that hold data, or are reserved.
    pub(super) fn allocated(&self) -> u64 {
        (self.root.blocks() * BLOCK_BYTES).max(self.reserved)
    }

    /// Reads at `offset`; gives the bytes read.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let left = self.length.saturating_sub(offset);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let mut rest = &mut buffer[..count];
        for part in parts(offset, count as u64) {
            let (out, tail) = rest.split_at_mut(part.end - part.start);
            rest = tail;
            let held = self.root.page(part.page).and_then(|page| page.bytes.get(part.start..)).unwrap_or(&[]);
            let known = held.len().min(out.len());
            out[..known].copy_from_slice(&held[..known]);
            out[known..].fill(0);
        }
        count
    }

    /// Writes all of `data` at `offset`. Nothing is changed where it does not fit.
    pub(super) fn write(&mut self, data: &[u8], offset: u64) -> Result<(), Error> {
        let end = offset.checked_add(data.len() as u64).filter(|end| *end <= LENGTH_MAX).ok_or(Error::TooLarge)?;
        if let Err(error) = parts(offset, data.len() as u64).try_for_each(|part| self.provide(&part)) {
            parts(offset, data.len() as u64).for_each(|part| self.discard_unwritten(&part));
            self.settle();
            return Err(error);
        }
        let mut rest = data;
        for part in parts(offset, data.len() as u64) {
            let (chunk, tail) = rest.split_at(part.end - part.start);
            rest = tail;
            let blocks = mask(part.start, part.end.next_multiple_of(BLOCK_BYTES as usize));
            if let Some(page) = self.root.page_in_place(part.page)
                && page.written & blocks == blocks
                && let Some(bytes) = page.bytes.get_mut(part.start..part.end)
            {
                bytes.copy_from_slice(chunk);
                continue;
            }
            self.root.edit(part.page, |page| {
                if let Some(bytes) = page.bytes.get_mut(part.start..part.end) {
                    bytes.copy_from_slice(chunk);
                }
                page.written |= blocks;
            });
        }
        if !data.is_empty() {
            self.length = self.length.max(end);
        }
        Ok(())
    }

    /// Cuts or grows the data; gives what is cut off.
    pub(super) fn set_length(&mut self, length: u64) -> Result<Option<Gone>, Error> {
        if length > LENGTH_MAX {
            return Err(Error::TooLarge);
        }
        let cut = length < self.length;
        self.length = length;
        if !cut {
            return Ok(None);
        }
        self.reserved = 0;
        if !length.is_multiple_of(PAGE_BYTES) {
            let part =
                Part { page: length / PAGE_BYTES, start: (length % PAGE_BYTES) as usize, end: PAGE_BYTES as usize };
            self.clear(&part, true);
        }
        Ok(Some(self.take(length.div_ceil(PAGE_BYTES)..LENGTH_MAX / PAGE_BYTES)))
    }

    /// The same, where less than before are no longer noted.
    pub(super) fn set_allocation(&mut self, bytes: u64) -> Result<(), Error> {
        self.reserved = self.reserved.min(bytes.next_multiple_of(BLOCK_BYTES));
        self.reserve(bytes)
    }

    /// Cuts all off, and notes that so many bytes are to be had, as far as there are; gives what is cut off.
    pub(super) fn empty(&mut self, reserved: u64) -> Gone {
        self.length = 0;
        let gone = self.take(0..LENGTH_MAX / PAGE_BYTES);
        self.set_reserved(reserved);
        gone
    }

    pub(super) fn reserved(&self) -> u64 {
        self.reserved
    }

    pub(super) fn set_reserved(&mut self, bytes: u64) {
        self.reserved = bytes.next_multiple_of(BLOCK_BYTES);
    }

    /// Notes that `length` bytes are to be had, without holding them.
    pub(super) fn reserve(&mut self, length: u64) -> Result<(), Error> {
        let more = length.saturating_sub(self.allocated());
        if more > self.charge.ledger().free_bytes() {
            return Err(Error::Full);
        }
        self.reserved = self.reserved.max(length.next_multiple_of(BLOCK_BYTES));
        Ok(())
    }

    /// Makes the next part of a range read as zeros, and moves its start behind that; with `punch`, whole blocks in it hold no data any
    /// more. Gives what is freed. A range that is empty afterwards is done.
    pub(super) fn zero(&mut self, left: &mut Range<u64>, punch: bool) -> Option<Gone> {
        left.end = left.end.min(self.length);
        // Behind a hole, however long that is.
        let next = self.root.next(left.start / PAGE_BYTES).map_or(u64::MAX, |page| page * PAGE_BYTES);
        left.start = left.start.max(next).min(left.end.max(left.start));
        if left.is_empty() {
            return None;
        }
        let step_bytes = if punch { FREE_BYTES } else { FILL_BYTES };
        let (start, end) = (left.start, left.end.min((left.start / step_bytes + 1) * step_bytes));
        left.start = end;
        if !punch {
            parts(start, end - start).for_each(|part| self.clear(&part, false));
            return None;
        }
        // The last block of a file is a whole one.
        let end = if end == self.length { end.next_multiple_of(PAGE_BYTES) } else { end };
        let whole = start.next_multiple_of(PAGE_BYTES)..end / PAGE_BYTES * PAGE_BYTES;
        if whole.start >= whole.end {
            parts(start, end - start).for_each(|part| self.clear(&part, true));
            self.settle();
            return None;
        }
        let edges = parts(start, whole.start - start).chain(parts(whole.end, end - whole.end));
        edges.for_each(|part| self.clear(&part, true));
        Some(self.take(whole.start / PAGE_BYTES..whole.end / PAGE_BYTES))
    }

    /// The ranges that hold data, as [`crate::Node::extents`] has it.
    pub(super) fn extents(&self, offset: u64, length: u64, count_max: usize) -> Extents {
        let end = offset.saturating_add(length).min(self.length);
        let mut walk = Walk {
            at: offset / BLOCK_BYTES,
            end: end.div_ceil(BLOCK_BYTES),
            found: Vec::new(),
            count_max,
            looks_left: LOOKS_MAX,
        };
        let is_done = offset >= end || self.root.walk(0, &mut walk).is_some() || walk.at >= walk.end;
        let ranges = walk.found.into_iter().map(|blocks| {
            let (start, stop) = ((blocks.start * BLOCK_BYTES).max(offset), (blocks.end * BLOCK_BYTES).min(end));
            Extent { offset: start, length: stop - start }
        });
        Extents { ranges: ranges.collect(), next: (!is_done).then_some(walk.at * BLOCK_BYTES) }
    }

    fn take(&mut self, pages: Range<u64>) -> Gone {
        let gone = self.root.take(pages);
        let excess = self.charge.bytes().saturating_sub(self.root.held_bytes());
        Gone { _pages: gone, _charge: self.charge.split(excess) }
    }

    /// Fills a part with zeros; with `punch`, whole blocks in it hold no data any more.
    fn clear(&mut self, part: &Part, punch: bool) {
        if self.root.page(part.page).is_none() {
            return;
        }
        self.root.edit(part.page, |page| {
            let stop = part.end.min(page.bytes.len());
            if let Some(bytes) = page.bytes.get_mut(part.start..stop) {
                bytes.fill(0);
            }
            if !punch {
                return;
            }
            let block = BLOCK_BYTES as usize;
            page.written &= !mask(part.start.next_multiple_of(block), part.end);
            if page.written == 0 {
                page.bytes = Vec::new();
            }
        });
    }

    fn discard_unwritten(&mut self, part: &Part) {
        if self.root.page(part.page).is_some_and(|page| page.written == 0) {
            self.root.edit(part.page, std::mem::take::<Page>);
        }
    }

    /// Gives back what is charged for what is held no more.
    fn settle(&mut self) {
        self.charge.shrink(self.charge.bytes().saturating_sub(self.root.held_bytes()));
    }

    /// Makes sure of a page that is long enough for `part`.
    fn provide(&mut self, part: &Part) -> Result<(), Error> {
        if self.root.page(part.page).is_some_and(|page| page.bytes.len() >= part.end) {
            return Ok(());
        }
        let needed = part.end.next_power_of_two().max(BLOCK_BYTES as usize);
        self.charge.grow(self.root.growth(part.page, needed as u64))?;
        let mut has_memory = true;
        self.root.edit(part.page, |page| {
            has_memory = page.bytes.try_reserve_exact(needed - page.bytes.len()).is_ok();
            if has_memory {
                page.bytes.resize(needed, 0);
            }
        });
        if has_memory { Ok(()) } else { Err(Error::Full) }
    }
}

/// The bits of the blocks that begin in `start..end`, both in a page, and end there; `start` is rounded down to a block.
fn mask(start: usize, end: usize) -> u16 {
    let (first, last) = (start / BLOCK_BYTES as usize, end / BLOCK_BYTES as usize);
    (first..last).fold(0, |bits, block| bits | (1u16.checked_shl(block as u32).unwrap_or(0)))
}

/// The parts of pages that make up `length` bytes at `offset`.
fn parts(offset: u64, length: u64) -> impl Iterator<Item = Part> {
    let end = offset.saturating_add(length);
    let mut at = offset;
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let base = at - at % PAGE_BYTES;
        let stop = (base + PAGE_BYTES).min(end);
        let part = Part { page: at / PAGE_BYTES, start: (at - base) as usize, end: (stop - base) as usize };
        at = stop;
        Some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(capacity: u64) -> Pages {
        Pages::new(&Ledger::new(capacity))
    }

    fn zero(data: &mut Pages, mut left: Range<u64>, punch: bool) -> usize {
        let mut steps = 0;
        while !left.is_empty() {
            drop(data.zero(&mut left, punch));
            steps += 1;
        }
        steps
    }

    /// All ranges that hold data, and the calls that it took to find them.
    fn all_extents(data: &Pages) -> (Vec<Extent>, usize) {
        let (mut at, mut all, mut calls) = (0, Vec::<Extent>::new(), 0);
        loop {
            let found = data.extents(at, u64::MAX - at, 1000);
            calls += 1;
            for extent in found.ranges {
                match all.last_mut() {
                    Some(last) if last.offset + last.length == extent.offset => last.length += extent.length,
                    _ => all.push(extent),
                }
            }
            match found.next {
                Some(next) => at = next,
                None => return (all, calls),
            }
        }
    }

    #[test]
    fn a_look_for_data_passes_over_what_is_empty_or_full() {
        let mut data = pages(1 << 30);
        data.write(&[1; 1], LENGTH_MAX - 1).unwrap();
        assert_eq!(all_extents(&data), (vec![Extent { offset: LENGTH_MAX - 4096, length: 4096 }], 1));
        data.write(&vec![1; 256 << 20], 0).unwrap();
        let full = Extent { offset: 0, length: 256 << 20 };
        assert_eq!(all_extents(&data), (vec![full, Extent { offset: LENGTH_MAX - 4096, length: 4096 }], 1));
        assert_eq!(data.extents(4096 * 5 + 7, 3, 9).ranges, [Extent { offset: 4096 * 5 + 7, length: 3 }]);
    }

    #[test]
    fn a_look_for_data_ends_after_some_thousand_slots() {
        let mut data = pages(1 << 30);
        for table in 0..200 {
            data.write(&[1; 1], (table * 512 + 511) * PAGE_BYTES).unwrap();
        }
        let (found, calls) = all_extents(&data);
        assert_eq!((found.len(), calls), (200, 200 * 512 / (LOOKS_MAX - 2) + 1));
    }

    #[test]
    fn tables_without_data_are_given_back() {
        let ledger = Ledger::new(1 << 30);
        let mut data = Pages::new(&ledger);
        for table in 0..2000 {
            data.write(&[1; 1], table * (32 << 20) + (511 << 16)).unwrap();
        }
        zero(&mut data, 0..u64::MAX, true);
        assert_eq!((data.allocated(), ledger.free_bytes()), (0, 1 << 30));
        assert_eq!(all_extents(&data), (vec![], 1));
    }

    #[test]
    fn what_is_cut_is_freed_by_who_has_let_go_of_the_lock() {
        let ledger = Ledger::new(1 << 30);
        let mut data = Pages::new(&ledger);
        data.write(&vec![1; 100 << 20], 0).unwrap();
        let held = ledger.free_bytes();
        let gone = data.set_length(100).unwrap();
        assert_eq!((data.length(), data.allocated(), ledger.free_bytes()), (100, 4096, held));
        drop(gone);
        assert!(ledger.free_bytes() > (1 << 30) - 70_000);
    }

    #[test]
    fn zeros_are_made_in_parts_and_no_part_is_long() {
        let mut data = pages(1 << 30);
        data.write(&vec![1; 100 << 20], 0).unwrap();
        assert_eq!(zero(&mut data, 100..100 << 20, false), 100);
        let mut out = vec![1; 1 << 20];
        for at in (0..100u64 << 20).step_by(1 << 20) {
            data.read(&mut out, at);
            let first = if at == 0 { 100 } else { 0 };
            assert!(out[..first].iter().all(|byte| *byte == 1) && out[first..].iter().all(|byte| *byte == 0));
        }
        assert_eq!(data.allocated(), 100 << 20);
        assert_eq!(zero(&mut data, 100..100 << 20, true), 4);
        assert_eq!(data.allocated(), 4096);
    }

    #[test]
    fn what_is_charged_is_what_is_held() {
        let ledger = Ledger::new(1 << 24);
        let mut data = Pages::new(&ledger);
        let mut random = 1u64;
        for _ in 0..3000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let offset = (random >> 20) % (1 << (20 + random % 24));
            match random >> 60 {
                0..10 => drop(data.write(&vec![1; (random >> 32) as usize % 200_000], offset)),
                10..13 => drop(zero(&mut data, offset..offset + (random >> 30) % (1 << 30), random & 64 == 0)),
                _ => drop(data.set_length(offset)),
            }
            assert_eq!(data.charge.bytes(), data.root.held_bytes());
            assert_eq!((1 << 24) - ledger.free_bytes(), data.root.held_bytes());
        }
    }

    #[test]
    fn holes_read_as_zeros_and_cost_nothing() {
        let mut data = pages(1 << 20);
        data.write(b"end", 10 << 20).unwrap();
        assert_eq!(data.length(), (10 << 20) + 3);
        assert_eq!(data.allocated(), 4096);
        let mut out = [1; 8];
        assert_eq!(data.read(&mut out, 5 << 20), 8);
        assert_eq!(out, [0; 8]);
        assert_eq!(data.extents(0, u64::MAX, 9).ranges, [Extent { offset: 10 << 20, length: 3 }]);
    }

    #[test]
    fn cut_data_does_not_come_back() {
        let mut data = pages(1 << 20);
        data.write(&[7; 100_000], 0).unwrap();
        drop(data.set_length(10).unwrap());
        assert_eq!(data.allocated(), 4096);
        drop(data.set_length(100_000).unwrap());
        let mut out = vec![1; 100_000];
        assert_eq!(data.read(&mut out, 0), 100_000);
        assert!(out[..10].iter().all(|byte| *byte == 7) && out[10..].iter().all(|byte| *byte == 0));
    }

    #[test]
    fn what_is_freed_can_be_used_again() {
        let ledger = Ledger::new(200_000);
        let mut data = Pages::new(&ledger);
        data.write(&[1; 130_000], 0).unwrap();
        let before = ledger.free_bytes();
        assert_eq!(data.write(&[1; 130_000], 1 << 24), Err(Error::Full));
        assert!(before - ledger.free_bytes() < 20_000);
        zero(&mut data, 0..131_072, true);
        assert_eq!(data.allocated(), 0);
        drop(data.set_length(0).unwrap());
        assert_eq!(ledger.free_bytes(), 200_000);
        data.write(&[1; 130_000], 0).unwrap();
        drop(data);
        assert_eq!(ledger.free_bytes(), 200_000);
    }

    #[test]
    fn punching_frees_whole_blocks_only() {
        let mut data = pages(1 << 20);
        data.write(&[1; 16384], 0).unwrap();
        zero(&mut data, 1..8192, true);
        assert_eq!(
            data.extents(0, 16384, 9).ranges,
            [Extent { offset: 0, length: 4096 }, Extent { offset: 8192, length: 8192 }]
        );
        let mut out = [9; 3];
        data.read(&mut out, 0);
        assert_eq!(out, [1, 0, 0]);
        assert_eq!(data.extents(0, 16384, 1).ranges.len(), 1);
        assert_eq!(data.extents(5000, 5000, 9).ranges, [Extent { offset: 8192, length: 1808 }]);
    }

    #[test]
    fn too_far_is_too_large() {
        let mut data = pages(1 << 20);
        assert_eq!(data.write(b"x", u64::MAX), Err(Error::TooLarge));
        assert_eq!(data.write(b"x", LENGTH_MAX), Err(Error::TooLarge));
        assert_eq!(data.set_length(LENGTH_MAX + 1).err(), Some(Error::TooLarge));
        assert_eq!(data.write(b"x", LENGTH_MAX - 1), Ok(()));
    }
}
