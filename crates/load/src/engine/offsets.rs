//! Where the requests of one thread to one target go.

use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

use crate::profile::{DistributionKind, DistributionRange, Pattern, Target};
use crate::results::EffectiveRange;

/// The part of a file that a target uses. At least one block fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    /// Where it begins in the file, in bytes.
    pub(super) begin: u64,
    /// Its length in bytes.
    pub(super) length: u64,
}

/// A part of a region, for random offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    /// Bytes from the region's beginning to its first offset.
    first: u64,
    /// How many offsets it has.
    offsets: u64,
    /// Its requests, and those of the ranges before it, in percent.
    up_to: u64,
}

/// Why no request fits into a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unfit {
    #[error("{length} bytes can be used{}, which is less than a block of {block}", from(*base))]
    BlockTooLarge { length: u64, base: u64, block: u32 },
    #[error("thread {thread} of the target would begin {first} bytes into it, behind its end")]
    ThreadBehindEnd { thread: u32, first: u64 },
    #[error("no range of the distribution lies within the target")]
    RangesBehindEnd,
}

fn from(base: u64) -> String {
    if base == 0 { String::new() } else { format!(" from byte {base} on") }
}

/// The offsets of one thread in one target.
#[derive(Clone, Debug)]
pub(super) struct Offsets {
    order: Order,
    region: Region,
    block: u64,
    /// Bytes from one offset to the next one.
    step: u64,
    /// The first offset in the region.
    first: u64,
    /// The next sequential offset in the region.
    next: u64,
    ranges: Vec<Range>,
    /// The ranges are those of a distribution.
    is_distributed: bool,
}

/// In which order they come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Sequential,
    Interlocked,
    /// Each slot goes through the region by itself.
    EachSlot,
    Random,
    /// Random with this many percent, sequential from there else.
    Mixed(u8),
}

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Next {
    /// In the file.
    pub(super) offset: u64,
    /// False where it goes on where the one before it ended, in a pattern that mixes both.
    pub(super) is_new_run: bool,
}

impl Region {
    /// The region of a file of `file_bytes`, where a block fits into it.
    pub(super) fn of(target: &Target, file_bytes: u64) -> Result<Region, Unfit> {
        let end = target.max_file_bytes.map_or(file_bytes, |most| most.min(file_bytes));
        let length = end.saturating_sub(target.base_offset);
        if length >= u64::from(target.block_bytes) && target.block_bytes > 0 {
            return Ok(Region { begin: target.base_offset, length });
        }
        Err(Unfit::BlockTooLarge { length, base: target.base_offset, block: target.block_bytes })
    }
}

impl Offsets {
    /// The offsets of the target's thread with this number.
    pub(super) fn new(target: &Target, region: Region, thread: u32, chance: &mut Rng) -> Result<Self, Unfit> {
        let (order, step) = match target.pattern {
            Pattern::Sequential { stride_bytes } if target.parallel_async => (Order::EachSlot, stride_bytes),
            Pattern::Sequential { stride_bytes } => (Order::Sequential, stride_bytes),
            Pattern::Interlocked { stride_bytes } => (Order::Interlocked, stride_bytes),
            Pattern::Random { align_bytes, random_percent: 100 } => (Order::Random, align_bytes),
            Pattern::Random { align_bytes, random_percent } => (Order::Mixed(random_percent), align_bytes),
        };
        let (block, step) = (u64::from(target.block_bytes), step.max(1));
        let first = u64::from(thread).saturating_mul(target.thread_stride_bytes.unwrap_or(0));
        if first.saturating_add(block) > region.length {
            return Err(Unfit::ThreadBehindEnd { thread, first });
        }
        let is_distributed = !target.distribution.is_empty();
        let mut offsets =
            Offsets { order, region, block, step, first, next: first, ranges: Vec::new(), is_distributed };
        if matches!(order, Order::Random | Order::Mixed(_)) {
            offsets.ranges = offsets.spread(&target.distribution, target.distribution_kind);
            if offsets.ranges.is_empty() {
                return Err(Unfit::RangesBehindEnd);
            }
        }
        if let Order::Mixed(_) = order {
            offsets.next = offsets.random(chance);
        }
        Ok(offsets)
    }

    /// Where a distribution sends how much of the requests, in this file; empty where there is none.
    pub(super) fn effective(&self) -> Vec<EffectiveRange> {
        let mut before = 0;
        let all = self.ranges.last().map_or(1, |last| last.up_to.max(1));
        let effective = |range: &Range| {
            let begin = self.region.begin + range.first;
            let io_percent = (range.up_to - before) as f64 * 100.0 / all as f64;
            before = range.up_to;
            EffectiveRange { io_percent, begin, end: begin + (range.offsets - 1) * self.step + self.block }
        };
        if self.is_distributed { self.ranges.iter().map(effective).collect() } else { Vec::new() }
    }

    /// The next one. `slot` is where the slot that asks has been, `shared` where all threads of the target have.
    pub(super) fn next(&mut self, slot: &mut Option<u64>, shared: &AtomicU64, chance: &mut Rng) -> Next {
        let (offset, is_new_run) = match self.order {
            Order::Sequential => (self.go_on(), true),
            Order::Interlocked => {
                (shared.fetch_add(self.step, Ordering::Relaxed) % (self.fitting(self.region.length) * self.step), true)
            }
            Order::EachSlot => {
                let here = slot.map_or(self.first, |last| self.wrapped(last.saturating_add(self.step)));
                *slot = Some(here);
                (here, true)
            }
            Order::Random => (self.random(chance), true),
            Order::Mixed(percent) if chance.u8(0..100) < percent => {
                let here = self.random(chance);
                self.next = here.saturating_add(self.step);
                (here, true)
            }
            Order::Mixed(_) => (self.go_on(), false),
        };
        Next { offset: self.region.begin + offset, is_new_run }
    }

    fn go_on(&mut self) -> u64 {
        let here = self.wrapped(self.next);
        self.next = here.saturating_add(self.step);
        here
    }

    /// Back to the beginning where no block fits any more.
    fn wrapped(&self, offset: u64) -> u64 {
        let is_over = offset.saturating_add(self.block) > self.region.length;
        if is_over { self.first % self.step } else { offset }
    }

    fn random(&self, chance: &mut Rng) -> u64 {
        let range = match self.ranges.as_slice() {
            [one] => one,
            several => {
                let percent = chance.u64(0..several.last().map_or(1, |last| last.up_to));
                let found = several.iter().find(|range| percent < range.up_to);
                found.unwrap_or_else(|| unreachable!("the last range goes up to the end"))
            }
        };
        range.first + chance.u64(0..range.offsets) * self.step
    }

    /// How many offsets there are in so many bytes that a block fits at.
    fn fitting(&self, bytes: u64) -> u64 {
        bytes.checked_sub(self.block).map_or(0, |rest| rest / self.step + 1)
    }

    /// The distribution over this region. A range that is too short for an offset has the nearest one; one that lies behind the region's
    /// end is left out, and the others share its requests.
    fn spread(&self, distribution: &[DistributionRange], kind: DistributionKind) -> Vec<Range> {
        let all = self.fitting(self.region.length);
        if distribution.is_empty() {
            return vec![Range { first: 0, offsets: all, up_to: 100 }];
        }
        let mut up_to = 0;
        let mut ranges = Vec::with_capacity(distribution.len());
        for range in distribution.iter().filter(|range| range.io_percent > 0) {
            let (first, offsets) = match kind {
                DistributionKind::Percent => {
                    let at = |percent: u64| (u128::from(percent.min(100)) * u128::from(all) / 100) as u64;
                    let first = at(range.start).min(all - 1);
                    let end = at(range.start.saturating_add(range.length));
                    (first * self.step, end.saturating_sub(first).max(1))
                }
                DistributionKind::Absolute => {
                    let rest = self.region.length.saturating_sub(range.start);
                    let length = if range.length == 0 { rest } else { range.length.min(rest) };
                    (range.start, self.fitting(length))
                }
            };
            if offsets > 0 {
                up_to += u64::from(range.io_percent);
                ranges.push(Range { first, offsets, up_to });
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(pattern: Pattern) -> Target {
        Target { pattern, block_bytes: 4, ..Target::new("x") }
    }

    fn offsets(target: &Target, file_bytes: u64, thread: u32) -> impl Iterator<Item = u64> {
        let mut chance = Rng::with_seed(7);
        let region = Region::of(target, file_bytes).unwrap();
        let mut offsets = Offsets::new(target, region, thread, &mut chance).unwrap();
        let shared = AtomicU64::new(0);
        let mut slot = None;
        std::iter::repeat_with(move || offsets.next(&mut slot, &shared, &mut chance).offset)
    }

    fn first(count: usize, target: &Target, file_bytes: u64, thread: u32) -> Vec<u64> {
        offsets(target, file_bytes, thread).take(count).collect()
    }

    #[test]
    fn sequential_offsets_go_round_where_no_block_fits_any_more() {
        let target = target(Pattern::Sequential { stride_bytes: 4 });
        assert_eq!(first(5, &target, 15, 0), [0, 4, 8, 0, 4]);
    }

    #[test]
    fn a_target_begins_at_its_base_and_ends_at_its_maximum() {
        let pattern = Pattern::Sequential { stride_bytes: 8 };
        let target = Target { base_offset: 100, max_file_bytes: Some(120), ..target(pattern) };
        assert_eq!(first(4, &target, 1000, 0), [100, 108, 116, 100]);
    }

    #[test]
    fn threads_begin_a_stride_apart() {
        let target = Target { thread_stride_bytes: Some(10), ..target(Pattern::Sequential { stride_bytes: 4 }) };
        assert_eq!(first(4, &target, 20, 1), [10, 14, 2, 6]);
        let region = Region::of(&target, 20).unwrap();
        assert!(Offsets::new(&target, region, 2, &mut Rng::with_seed(0)).is_err());
    }

    #[test]
    fn interlocked_offsets_are_shared_by_all_threads() {
        let target = target(Pattern::Interlocked { stride_bytes: 4 });
        let region = Region::of(&target, 14).unwrap();
        let mut chance = Rng::with_seed(0);
        let shared = AtomicU64::new(0);
        let mut threads: Vec<_> = (0..2).map(|id| Offsets::new(&target, region, id, &mut chance).unwrap()).collect();
        let mut next = |thread: usize| threads[thread].next(&mut None, &shared, &mut chance).offset;
        assert_eq!([next(0), next(1), next(1), next(0)], [0, 4, 8, 0]);
    }

    #[test]
    fn with_parallel_requests_each_slot_goes_through_the_target() {
        let target = Target { parallel_async: true, ..target(Pattern::Sequential { stride_bytes: 4 }) };
        let mut chance = Rng::with_seed(0);
        let mut offsets = Offsets::new(&target, Region { begin: 0, length: 12 }, 0, &mut chance).unwrap();
        let (mut one, mut other) = (None, None);
        let mut next = |slot: &mut Option<u64>| offsets.next(slot, &AtomicU64::new(0), &mut chance).offset;
        assert_eq!([next(&mut one), next(&mut other), next(&mut one), next(&mut one), next(&mut one)], [0, 0, 4, 8, 0]);
        assert_eq!(next(&mut other), 4);
    }

    #[test]
    fn random_offsets_are_aligned_from_the_base_and_reach_every_place() {
        let target = Target { base_offset: 3, ..target(Pattern::Random { align_bytes: 2, random_percent: 100 }) };
        let mut seen: Vec<u64> = offsets(&target, 13, 0).take(500).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, [3, 5, 7, 9]);
    }

    #[test]
    fn random_offsets_repeat_with_their_seed() {
        let target = target(Pattern::Random { align_bytes: 4, random_percent: 100 });
        assert_eq!(first(20, &target, 1 << 20, 0), first(20, &target, 1 << 20, 0));
    }

    #[test]
    fn half_random_goes_on_where_it_was_half_of_the_time() {
        let target = target(Pattern::Random { align_bytes: 4, random_percent: 50 });
        let all = first(10_001, &target, 4 << 20, 0);
        let on = all.windows(2).filter(|pair| pair[1] == pair[0] + 4).count();
        assert!((4_500..5_500).contains(&on), "{on} of 10000 go on");
    }

    #[test]
    fn a_distribution_is_told_as_it_lies_over_the_file() {
        let range = |io_percent, start, length| DistributionRange { io_percent, start, length };
        // The last one lies behind the end, and the others share its requests.
        let distribution = vec![range(30, 0, 16), range(10, 16, 16), range(60, 4096, 0)];
        let target = Target {
            distribution,
            distribution_kind: DistributionKind::Absolute,
            base_offset: 100,
            ..target(Pattern::Random { align_bytes: 8, random_percent: 100 })
        };
        let of = |target: &Target| {
            let region = Region::of(target, 200).unwrap();
            Offsets::new(target, region, 0, &mut Rng::with_seed(0)).unwrap().effective()
        };
        let effective = |io_percent, begin, end| EffectiveRange { io_percent, begin, end };
        assert_eq!(of(&target), [effective(75.0, 100, 112), effective(25.0, 116, 128)]);
        assert_eq!(of(&Target { distribution: Vec::new(), ..target }), []);
    }

    #[test]
    fn a_distribution_in_percent_sends_requests_to_its_ranges() {
        let range = |io_percent, start, length| DistributionRange { io_percent, start, length };
        let distribution = vec![range(90, 0, 10), range(0, 10, 40), range(10, 50, 50)];
        let pattern = Pattern::Random { align_bytes: 4, random_percent: 100 };
        let target = Target { distribution, ..target(pattern) };
        let all = first(10_000, &target, 400, 0);
        let hot = all.iter().filter(|offset| **offset < 40).count();
        assert!((8_800..9_200).contains(&hot), "{hot} of 10000 go to the first tenth");
        assert!(all.iter().all(|offset| *offset < 40 || *offset >= 200), "the hole stays empty");
    }

    #[test]
    fn absolute_ranges_behind_the_end_are_left_out() {
        let range = |io_percent, start, length| DistributionRange { io_percent, start, length };
        let distribution = vec![range(10, 0, 8), range(10, 8, 8), range(80, 64, 0)];
        let distribution_kind = DistributionKind::Absolute;
        let pattern = Pattern::Random { align_bytes: 4, random_percent: 100 };
        let target = Target { distribution, distribution_kind, ..target(pattern) };
        let all = first(1_000, &target, 32, 0);
        assert!(all.iter().all(|offset| *offset < 16));
        assert!(all.iter().filter(|offset| **offset < 8).count() > 400);
        let all = first(1_000, &target, 128, 0);
        assert!(all.iter().filter(|offset| **offset >= 64).count() > 700);
    }

    #[test]
    fn short_ranges_have_an_offset_all_the_same() {
        let range = |io_percent, start, length| DistributionRange { io_percent, start, length };
        let distribution = vec![range(50, 0, 1), range(50, 99, 1)];
        let pattern = Pattern::Random { align_bytes: 4, random_percent: 100 };
        let target = Target { distribution, ..target(pattern) };
        assert!(offsets(&target, 8, 0).take(100).all(|offset| offset == 0 || offset == 4));
    }

    #[test]
    fn a_region_without_room_for_a_block_is_refused() {
        let pattern = Pattern::Sequential { stride_bytes: 4 };
        assert!(Region::of(&target(pattern), 3).is_err());
        let behind = Target { base_offset: 10, ..target(pattern) };
        assert!(Region::of(&behind, 13).unwrap_err().to_string().contains("from byte 10"));
        assert!(Region::of(&behind, 14).is_ok());
    }
}
