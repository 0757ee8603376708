//! The pages of a file by their number, in three tiers of tables. There is a table only where there is a page, and each knows how many
//! blocks below it hold data: who looks for data passes over what is empty or full, however much that is.

use std::ops::Range;

use crate::ram::heap_bytes;

/// The unit in which holes are told from data.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// Blocks in a page, one bit each in [`Page::written`].
pub(super) const PAGE_BLOCKS: u64 = 16;
/// Bytes in a page.
pub(super) const PAGE_BYTES: u64 = PAGE_BLOCKS * BLOCK_BYTES;
/// The most slots of a table that stands in another one. The root has as many as its file's length takes: 1,024 for 16 TiB.
const SLOTS: u64 = 512;

/// All pages of a file.
pub(super) type Root = Table<Box<Table<Box<Table<Page>>>>>;

/// A page is only as long as the blocks in use need, so that small files stay small. Without bytes it is none.
#[derive(Default)]
pub(super) struct Page {
    pub(super) bytes: Vec<u8>,
    pub(super) written: u16,
}

/// Pages, or tables of them. A slot with nothing in it is `None`, and the last one is in use.
pub(super) struct Table<T> {
    slots: Vec<Option<T>>,
    /// Blocks below that hold data.
    blocks: u64,
    /// Bytes that what is in the slots takes.
    below_bytes: u64,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table { slots: Vec::new(), blocks: 0, below_bytes: 0 }
    }
}

/// What stands in a slot.
pub(super) trait Tier: Default {
    /// Pages that it has numbers for.
    const PAGES: u64;

    /// Blocks that hold data.
    fn blocks(&self) -> u64;

    /// Bytes of memory that it takes, the slot aside.
    fn held_bytes(&self) -> u64;

    /// True where there is no page in it.
    fn is_void(&self) -> bool;

    fn page(&self, index: u64) -> Option<&Page>;

    /// A page to change what lies in it and nothing that the tables count: neither its length nor which blocks hold data.
    fn page_in_place(&mut self, index: u64) -> Option<&mut Page>;

    /// Bytes that it takes in addition where the page `index` has `page_bytes`.
    fn growth(&self, index: u64, page_bytes: u64) -> u64;

    /// Changes a page, which may be none before and after.
    fn edit<R>(&mut self, index: u64, change: impl FnOnce(&mut Page) -> R) -> R;

    /// Takes out all pages of a range. That looks at the slots of no more than two tables of a tier.
    fn take(&mut self, range: Range<u64>) -> Self;

    /// The first page at or behind `index`.
    fn next(&self, index: u64) -> Option<u64>;

    /// Shows where it holds data; `first` is its first block.
    fn walk(&self, first: u64, walk: &mut Walk) -> Walked;
}

impl Tier for Page {
    const PAGES: u64 = 1;

    fn blocks(&self) -> u64 {
        u64::from(self.written.count_ones())
    }

    fn held_bytes(&self) -> u64 {
        heap_bytes(self.bytes.len())
    }

    fn is_void(&self) -> bool {
        self.bytes.is_empty()
    }

    fn page(&self, _index: u64) -> Option<&Page> {
        Some(self)
    }

    fn page_in_place(&mut self, _index: u64) -> Option<&mut Page> {
        Some(self)
    }

    fn growth(&self, _index: u64, page_bytes: u64) -> u64 {
        heap_bytes(page_bytes as usize).saturating_sub(self.held_bytes())
    }

    fn edit<R>(&mut self, _index: u64, change: impl FnOnce(&mut Page) -> R) -> R {
        change(self)
    }

    fn take(&mut self, _range: Range<u64>) -> Self {
        std::mem::take(self)
    }

    fn next(&self, _index: u64) -> Option<u64> {
        Some(0)
    }

    fn walk(&self, first: u64, walk: &mut Walk) -> Walked {
        if self.written == u16::MAX {
            return walk.see(first..first + PAGE_BLOCKS);
        }
        for block in (0..PAGE_BLOCKS).filter(|block| self.written & (1 << block) != 0) {
            walk.see(first + block..first + block + 1)?;
        }
        Some(())
    }
}

impl<T: Tier> Tier for Table<T> {
    const PAGES: u64 = T::PAGES * SLOTS;

    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn held_bytes(&self) -> u64 {
        self.below_bytes + heap_bytes(self.slots.capacity() * size_of::<Option<T>>())
    }

    fn is_void(&self) -> bool {
        self.slots.is_empty()
    }

    fn page(&self, index: u64) -> Option<&Page> {
        self.slots.get(slot_of::<T>(index))?.as_ref()?.page(index % T::PAGES)
    }

    fn page_in_place(&mut self, index: u64) -> Option<&mut Page> {
        self.slots.get_mut(slot_of::<T>(index))?.as_mut()?.page_in_place(index % T::PAGES)
    }

    fn growth(&self, index: u64, page_bytes: u64) -> u64 {
        let slot = slot_of::<T>(index);
        let wider = heap_bytes(capacity_for(slot).max(self.slots.capacity()) * size_of::<Option<T>>())
            - heap_bytes(self.slots.capacity() * size_of::<Option<T>>());
        let below = match self.slots.get(slot) {
            Some(Some(held)) => held.growth(index % T::PAGES, page_bytes),
            Some(None) | None => {
                let new = T::default();
                new.held_bytes() + new.growth(index % T::PAGES, page_bytes)
            }
        };
        wider + below
    }

    fn edit<R>(&mut self, index: u64, change: impl FnOnce(&mut Page) -> R) -> R {
        let slot = slot_of::<T>(index);
        if slot >= self.slots.len() {
            let wanted = capacity_for(slot).max(self.slots.capacity());
            self.slots.reserve_exact(wanted - self.slots.len());
            self.slots.resize_with(slot + 1, || None);
        }
        let (mut blocks, mut bytes) = (0, 0);
        let mut held = self.slots.get_mut(slot).and_then(Option::take).unwrap_or_else(|| {
            let new = T::default();
            self.below_bytes += new.held_bytes();
            new
        });
        self.blocks -= held.blocks();
        self.below_bytes -= held.held_bytes();
        let answer = held.edit(index % T::PAGES, change);
        if !held.is_void() {
            (blocks, bytes) = (held.blocks(), held.held_bytes());
            if let Some(place) = self.slots.get_mut(slot) {
                *place = Some(held);
            }
        }
        self.blocks += blocks;
        self.below_bytes += bytes;
        self.trim();
        answer
    }

    fn take(&mut self, range: Range<u64>) -> Self {
        let mut gone = Table::default();
        let slots = slot_of::<T>(range.start)..slot_of::<T>(range.end.saturating_sub(1)) + 1;
        for (place, slot) in self.slots.iter_mut().zip(0u64..).take(slots.end).skip(slots.start) {
            let Some(held) = place else { continue };
            let first = slot * T::PAGES;
            let within = range.start.max(first) - first..range.end.min(first + T::PAGES) - first;
            let (blocks, bytes) = (held.blocks(), held.held_bytes());
            if within == (0..T::PAGES) {
                gone.slots.push(place.take());
                (self.blocks, self.below_bytes) = (self.blocks - blocks, self.below_bytes - bytes);
                continue;
            }
            gone.slots.push(Some(held.take(within)));
            self.blocks -= blocks - held.blocks();
            self.below_bytes -= bytes;
            if held.is_void() { *place = None } else { self.below_bytes += held.held_bytes() }
        }
        self.trim();
        gone
    }

    fn next(&self, index: u64) -> Option<u64> {
        let first = slot_of::<T>(index);
        self.slots.iter().zip(0u64..).skip(first).find_map(|(held, slot)| {
            let from = if slot == first as u64 { index % T::PAGES } else { 0 };
            Some(slot * T::PAGES + held.as_ref()?.next(from)?)
        })
    }

    fn walk(&self, first: u64, walk: &mut Walk) -> Walked {
        let span = T::PAGES * PAGE_BLOCKS;
        if self.blocks == span * self.slots.len() as u64 {
            return walk.see(first..first + self.blocks);
        }
        let skipped = walk.at.saturating_sub(first) / span;
        for (held, slot) in self.slots.iter().zip(0u64..).skip(usize::try_from(skipped).unwrap_or(usize::MAX)) {
            let start = first + slot * span;
            walk.look(start)?;
            if let Some(held) = held {
                held.walk(start, walk)?;
            }
        }
        Some(())
    }
}

impl<T> Table<T> {
    /// Gives up slots behind the last one in use.
    fn trim(&mut self) {
        let used = self.slots.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        if used < self.slots.len() {
            self.slots.truncate(used);
            self.slots.shrink_to(if used == 0 { 0 } else { capacity_for(used - 1) });
        }
    }
}

impl<T: Tier> Tier for Box<Table<T>> {
    const PAGES: u64 = Table::<T>::PAGES;

    fn blocks(&self) -> u64 {
        (**self).blocks()
    }

    fn held_bytes(&self) -> u64 {
        heap_bytes(size_of::<Table<T>>()) + (**self).held_bytes()
    }

    fn is_void(&self) -> bool {
        (**self).is_void()
    }

    fn page(&self, index: u64) -> Option<&Page> {
        (**self).page(index)
    }

    fn page_in_place(&mut self, index: u64) -> Option<&mut Page> {
        (**self).page_in_place(index)
    }

    fn growth(&self, index: u64, page_bytes: u64) -> u64 {
        (**self).growth(index, page_bytes)
    }

    fn edit<R>(&mut self, index: u64, change: impl FnOnce(&mut Page) -> R) -> R {
        (**self).edit(index, change)
    }

    fn take(&mut self, range: Range<u64>) -> Self {
        Box::new((**self).take(range))
    }

    fn next(&self, index: u64) -> Option<u64> {
        (**self).next(index)
    }

    fn walk(&self, first: u64, walk: &mut Walk) -> Walked {
        (**self).walk(first, walk)
    }
}

fn slot_of<T: Tier>(index: u64) -> usize {
    usize::try_from(index / T::PAGES).unwrap_or(usize::MAX)
}

/// Slots that a table has for which `slot` is the last in use.
fn capacity_for(slot: usize) -> usize {
    (slot + 1).next_power_of_two()
}

/// `None` where a walk is to end.
pub(super) type Walked = Option<()>;

/// A walk over the blocks that hold data.
pub(super) struct Walk {
    /// The first block that was not looked at.
    pub(super) at: u64,
    /// The block to end before.
    pub(super) end: u64,
    /// What was found, ascending, none next to another.
    pub(super) found: Vec<Range<u64>>,
    pub(super) count_max: usize,
    /// Slots that may still be looked at.
    pub(super) looks_left: usize,
}

impl Walk {
    /// Looks at one more slot, which begins at a block.
    fn look(&mut self, start: u64) -> Walked {
        self.at = self.at.max(start);
        if self.at >= self.end {
            return None;
        }
        self.looks_left = self.looks_left.checked_sub(1)?;
        Some(())
    }

    fn see(&mut self, blocks: Range<u64>) -> Walked {
        let blocks = blocks.start.max(self.at)..blocks.end.min(self.end);
        if blocks.is_empty() {
            return Some(());
        }
        let is_full = self.found.len() >= self.count_max;
        self.at = match self.found.last_mut() {
            Some(last) if last.end == blocks.start => {
                last.end = blocks.end;
                blocks.end
            }
            Some(_) | None if is_full => return None,
            Some(_) | None => {
                let end = blocks.end;
                self.found.push(blocks);
                end
            }
        };
        Some(())
    }
}
