//! The data of one file: pages in memory, allocated when they are written to; what is absent reads as zeros.

use crate::ram::ledger::{Charge, Ledger};
use crate::{Error, Extent};
use std::sync::Arc;

/// The unit in which holes are told from data.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// The longest file. The tables of a file this long are 12 MiB.
pub(super) const LENGTH_MAX: u64 = 16 << 40;
/// Bytes in a page, the unit of the tables: 16 blocks, one bit each in [`Page::written`].
const PAGE_BYTES: u64 = 64 * 1024;
/// Pages in one inner table.
const TABLE_PAGES: u64 = 512;

/// The data of a file.
pub(super) struct Pages {
    tables: Vec<Table>,
    length: u64,
    reserved: u64,
    blocks: u64,
    charge: Charge,
}

type Table = Vec<Option<Page>>;

/// A page is only as long as the blocks in use need, so that small files stay small.
struct Page {
    bytes: Vec<u8>,
    written: u16,
}

/// A part of one page: its index, and where it begins and ends in it.
struct Part {
    page: u64,
    start: usize,
    end: usize,
}

impl Pages {
    pub(super) fn new(ledger: &Arc<Ledger>) -> Self {
        Pages { tables: Vec::new(), length: 0, reserved: 0, blocks: 0, charge: Charge::none(ledger) }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Bytes that hold data, or are reserved.
    pub(super) fn allocated(&self) -> u64 {
        (self.blocks * BLOCK_BYTES).max(self.reserved)
    }

    /// Reads at `offset`; gives the bytes read.
    pub(super) fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let left = self.length.saturating_sub(offset);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let mut rest = &mut buffer[..count];
        for part in parts(offset, count as u64) {
            let (out, tail) = rest.split_at_mut(part.end - part.start);
            rest = tail;
            let held = self.page(part.page).and_then(|page| page.bytes.get(part.start..)).unwrap_or(&[]);
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
            return Err(error);
        }
        let mut rest = data;
        for part in parts(offset, data.len() as u64) {
            let (chunk, tail) = rest.split_at(part.end - part.start);
            rest = tail;
            let Some(page) = page_mut(&mut self.tables, part.page) else { continue };
            if let Some(bytes) = page.bytes.get_mut(part.start..part.end) {
                bytes.copy_from_slice(chunk);
            }
            let before = page.written;
            page.written |= mask(part.start, part.end.next_multiple_of(BLOCK_BYTES as usize));
            self.blocks += u64::from((page.written ^ before).count_ones());
        }
        if !data.is_empty() {
            self.length = self.length.max(end);
        }
        Ok(())
    }

    /// Cuts or grows the data.
    pub(super) fn set_length(&mut self, length: u64) -> Result<(), Error> {
        if length > LENGTH_MAX {
            return Err(Error::TooLarge);
        }
        if length < self.length {
            self.clear(length, self.length - length, true);
            self.cut_tables(length);
            self.reserved = 0;
        }
        self.length = length;
        Ok(())
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

    /// Makes a range read as zeros; with `punch`, whole blocks in it hold no data any more.
    pub(super) fn zero(&mut self, offset: u64, length: u64, punch: bool) {
        let length = length.min(self.length.saturating_sub(offset));
        self.clear(offset, length, punch);
    }

    /// The ranges that hold data.
    pub(super) fn extents(&self, offset: u64, length: u64, count_max: usize) -> Vec<Extent> {
        let end = offset.saturating_add(length).min(self.length);
        let mut found: Vec<Extent> = Vec::new();
        for (start, stop) in self.blocks_from(offset / PAGE_BYTES) {
            if start >= end {
                break;
            }
            let (start, stop) = (start.max(offset), stop.min(end));
            if start >= stop {
                continue;
            }
            let full = found.len() >= count_max;
            match found.last_mut() {
                Some(last) if last.offset + last.length == start => last.length += stop - start,
                Some(_) | None if full => break,
                Some(_) | None => found.push(Extent { offset: start, length: stop - start }),
            }
        }
        found
    }

    /// Start and end of every written block from page `first` on.
    fn blocks_from(&self, first: u64) -> impl Iterator<Item = (u64, u64)> {
        let skipped = first / TABLE_PAGES;
        let tables = self.tables.iter().zip(0u64..).skip(usize::try_from(skipped).unwrap_or(usize::MAX));
        let pages = tables.flat_map(|(table, outer)| table.iter().zip(outer * TABLE_PAGES..));
        let present = pages.filter(move |(_, page)| *page >= first);
        present.filter_map(|(page, index)| Some((page.as_ref()?.written, index))).flat_map(|(written, index)| {
            let blocks = (0..16u64).filter(move |block| written & (1 << block) != 0);
            blocks.map(move |block| {
                let start = index * PAGE_BYTES + block * BLOCK_BYTES;
                (start, start + BLOCK_BYTES)
            })
        })
    }

    fn clear(&mut self, offset: u64, length: u64, punch: bool) {
        let end = offset + length;
        let covered = (self.tables.len() as u64) * TABLE_PAGES * PAGE_BYTES;
        let (mut at, end) = (offset, end.min(covered));
        while at < end {
            let page_end = (at / PAGE_BYTES + 1) * PAGE_BYTES;
            let (index, start, stop) = (at / PAGE_BYTES, at % PAGE_BYTES, page_end.min(end) - at + at % PAGE_BYTES);
            let to_the_end = stop + (at - at % PAGE_BYTES) == self.length;
            self.clear_part(&Part { page: index, start: start as usize, end: stop as usize }, punch, to_the_end);
            at = page_end;
            if self.tables.get(outer(index)).is_none_or(|table| table.is_empty()) {
                at = at.max((index / TABLE_PAGES + 1) * TABLE_PAGES * PAGE_BYTES);
            }
        }
    }

    fn clear_part(&mut self, part: &Part, punch: bool, to_the_end: bool) {
        let Some(slot) = self.tables.get_mut(outer(part.page)).and_then(|table| table.get_mut(inner(part.page))) else {
            return;
        };
        let Some(page) = slot else { return };
        let stop = part.end.min(page.bytes.len());
        if let Some(bytes) = page.bytes.get_mut(part.start..stop) {
            bytes.fill(0);
        }
        if !punch {
            return;
        }
        let block = BLOCK_BYTES as usize;
        let last = if to_the_end { part.end.next_multiple_of(block) } else { part.end / block * block };
        let before = page.written;
        page.written &= !mask(part.start.next_multiple_of(block), last);
        self.blocks -= u64::from((page.written ^ before).count_ones());
        if page.written == 0 {
            self.charge.shrink(page.bytes.len() as u64);
            *slot = None;
        }
    }

    fn discard_unwritten(&mut self, part: &Part) {
        let slot = self.tables.get_mut(outer(part.page)).and_then(|table| table.get_mut(inner(part.page)));
        if let Some(slot) = slot
            && let Some(page) = slot.take_if(|page| page.written == 0)
        {
            self.charge.shrink(page.bytes.len() as u64);
        }
    }

    /// Lets go of tables past `length`.
    fn cut_tables(&mut self, length: u64) {
        let entry = size_of::<Option<Page>>() as u64;
        let tables = usize::try_from(length.div_ceil(TABLE_PAGES * PAGE_BYTES)).unwrap_or(usize::MAX);
        while self.tables.len() > tables {
            let gone = self.tables.pop().map_or(0, |table| table.len() as u64);
            self.charge.shrink(gone * entry + size_of::<Table>() as u64);
        }
        self.tables.shrink_to_fit();
    }

    fn page(&self, index: u64) -> Option<&Page> {
        self.tables.get(outer(index))?.get(inner(index))?.as_ref()
    }

    /// Makes sure of a page that is long enough for `part`.
    fn provide(&mut self, part: &Part) -> Result<(), Error> {
        if self.page(part.page).is_some_and(|page| page.bytes.len() >= part.end) {
            return Ok(());
        }
        let (outer, inner) = (outer(part.page), inner(part.page));
        if outer >= self.tables.len() {
            self.charge.grow(((outer + 1 - self.tables.len()) * size_of::<Table>()) as u64)?;
            self.tables.resize_with(outer + 1, Vec::new);
        }
        let Some(table) = self.tables.get_mut(outer) else { return Err(Error::Full) };
        if inner >= table.len() {
            self.charge.grow(((inner + 1 - table.len()) * size_of::<Option<Page>>()) as u64)?;
            table.resize_with(inner + 1, || None);
        }
        let Some(slot) = table.get_mut(inner) else { return Err(Error::Full) };
        let held = slot.as_ref().map_or(0, |page| page.bytes.len());
        let needed = part.end.next_power_of_two().max(BLOCK_BYTES as usize);
        self.charge.grow((needed - held) as u64)?;
        match slot {
            Some(page) => page.bytes.resize(needed, 0),
            None => *slot = Some(Page { bytes: vec![0; needed], written: 0 }),
        }
        Ok(())
    }
}

fn page_mut(tables: &mut [Table], index: u64) -> Option<&mut Page> {
    tables.get_mut(outer(index))?.get_mut(inner(index))?.as_mut()
}

fn outer(page: u64) -> usize {
    usize::try_from(page / TABLE_PAGES).unwrap_or(usize::MAX)
}

fn inner(page: u64) -> usize {
    (page % TABLE_PAGES) as usize
}

/// The bits of the blocks that begin in `start..end`, both in a page; `start` is rounded down to a block.
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

    #[test]
    fn holes_read_as_zeros_and_cost_nothing() {
        let mut data = pages(1 << 20);
        data.write(b"end", 10 << 20).unwrap();
        assert_eq!(data.length(), (10 << 20) + 3);
        assert_eq!(data.allocated(), 4096);
        let mut out = [1; 8];
        assert_eq!(data.read(&mut out, 5 << 20), 8);
        assert_eq!(out, [0; 8]);
        assert_eq!(data.extents(0, u64::MAX, 9), [Extent { offset: 10 << 20, length: 3 }]);
    }

    #[test]
    fn cut_data_does_not_come_back() {
        let mut data = pages(1 << 20);
        data.write(&[7; 100_000], 0).unwrap();
        data.set_length(10).unwrap();
        assert_eq!(data.allocated(), 4096);
        data.set_length(100_000).unwrap();
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
        data.zero(0, 131_072, true);
        assert_eq!(data.allocated(), 0);
        data.set_length(0).unwrap();
        assert_eq!(ledger.free_bytes(), 200_000);
        data.write(&[1; 130_000], 0).unwrap();
        drop(data);
        assert_eq!(ledger.free_bytes(), 200_000);
    }

    #[test]
    fn punching_frees_whole_blocks_only() {
        let mut data = pages(1 << 20);
        data.write(&[1; 16384], 0).unwrap();
        data.zero(1, 8191, true);
        assert_eq!(
            data.extents(0, 16384, 9),
            [Extent { offset: 0, length: 4096 }, Extent { offset: 8192, length: 8192 }]
        );
        let mut out = [9; 3];
        data.read(&mut out, 0);
        assert_eq!(out, [1, 0, 0]);
        assert_eq!(data.extents(0, 16384, 1).len(), 1);
        assert_eq!(data.extents(5000, 5000, 9), [Extent { offset: 8192, length: 1808 }]);
    }

    #[test]
    fn too_far_is_too_large() {
        let mut data = pages(1 << 20);
        assert_eq!(data.write(b"x", u64::MAX), Err(Error::TooLarge));
        assert_eq!(data.write(b"x", LENGTH_MAX), Err(Error::TooLarge));
        assert_eq!(data.set_length(LENGTH_MAX + 1), Err(Error::TooLarge));
        assert_eq!(data.write(b"x", LENGTH_MAX - 1), Err(Error::Full));
    }
}
