//! What has changed of a file since a snapshot: what differs from then, whatever times say, which anybody sets. Whoever takes over what was written and clears what was
//! cleared has what is there now.

use std::ops::Range;
use std::time::Duration;

use client::{Access, File};
use control::SnapshotTime;

use super::opening::{closing, of_file};
use super::ranges::{Told, written};
use super::{Ask, Service, running};
use crate::failure::{Code, Failure};

/// Files that are compared at a time, each of which takes a core while it lasts: one of a share, two of an account. How long others wait for their turn.
pub(super) const AT_ONCE: usize = 4;
const TURN_WITHIN: Duration = Duration::from_secs(5);
/// Bytes of a file that are compared with those of a snapshot. Of a file of which more is written all of that is told.
const COMPARED_MAX: u64 = 256 << 20;
/// Bytes that are compared at a time, and of a block that is told whole.
const PIECE_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 512;

/// What has changed of a file in this range. One that had another name then is told whole, to who says that it can take that.
pub(super) async fn changed(
    service: &Service,
    ask: &Ask,
    since: SnapshotTime,
    (now, wanted): (&File, Range<u64>),
    most: usize,
) -> Result<Told, Failure> {
    let share = service.record(ask)?;
    let there = service.place_in((ask, &ask.origin), (&share, Some(since)), &ask.target).await;
    let there = there.map_err(|failure| match failure.code {
        Code::ShareSnapshotNotFound => Failure { code: Code::PreviousSnapshotNotFound, ..failure },
        _ => failure,
    })?;
    let turn = service.files.comparisons.some_within(&running::share(), 1, TURN_WITHIN).await;
    let busy = "The server compares as many files of the share as it may; try again.";
    let turn = turn.ok_or_else(|| Failure::new(Code::ServerBusy, busy))?;
    let was = match there.open(of_file(Access::Read)).await {
        Err(failure) if matches!(failure.code, Code::ResourceNotFound | Code::ParentNotFound) => {
            if ask.is_true("x-ms-file-support-rename") {
                return written(now, wanted, most).await;
            }
            let message = "The snapshot has no file of that name; it may have been renamed since.";
            return Err(Failure::new(Code::PreviousSnapshotNotFound, message));
        }
        was => was?,
    };
    let work = async |was: &File| {
        let told = written(now, wanted.clone(), most).await?;
        let end = wanted.end.min(was.facts().end_of_file);
        let before = written(was, wanted.start.min(end)..end, most).await?;
        // Both are told up to the same place.
        let next = told.next.into_iter().chain(before.next).min();
        let up_to = |ranges: Vec<Range<u64>>| -> Vec<Range<u64>> {
            let cut = |range: Range<u64>| range.start..range.end.min(next.unwrap_or(u64::MAX));
            ranges.into_iter().map(cut).filter(|range| !range.is_empty()).collect()
        };
        let (ranges, before) = (up_to(told.ranges), up_to(before.ranges));
        let mut cleared = without(before, &ranges);
        let length = ranges.iter().map(|range| range.end - range.start).sum::<u64>();
        if length > COMPARED_MAX {
            return Ok(Told { ranges, cleared, next });
        }
        let Differing { written, zeros, stopped } = differing(now, was, ranges, most).await?;
        let next = stopped.or(next);
        cleared.extend(zeros);
        cleared.sort_unstable_by_key(|range| range.start);
        let behind = next.unwrap_or(u64::MAX);
        cleared.retain_mut(|range| {
            range.end = range.end.min(behind);
            range.start < range.end
        });
        Ok(Told { ranges: written, cleared: joined(cleared), next })
    };
    let told = closing(was, work).await.map(|(told, _)| told);
    drop(turn);
    told
}

/// The parts of a file that are not what they were: those that have something now, and those that are zeros.
#[derive(Default)]
struct Differing {
    written: Vec<Range<u64>>,
    zeros: Vec<Range<u64>>,
    /// From where on it was not looked, as there were enough.
    stopped: Option<u64>,
}

/// The parts of these ranges that a file does not have as another has them. What one does not have is zeros.
async fn differing(now: &File, was: &File, ranges: Vec<Range<u64>>, most: usize) -> Result<Differing, Failure> {
    let mut differing = Differing::default();
    for range in ranges {
        for start in range.clone().step_by(PIECE_BYTES) {
            // A piece more than enough.
            if differing.written.len() + differing.zeros.len() >= most {
                return Ok(Differing { stopped: Some(start), ..differing });
            }
            let end = range.end.min(start + PIECE_BYTES as u64);
            let (ours, theirs) = (piece(now, start..end).await?, piece(was, start..end).await?);
            running::gets_on();
            for (at, (ours, theirs)) in ours.chunks(BLOCK_BYTES).zip(theirs.chunks(BLOCK_BYTES)).enumerate() {
                if ours == theirs {
                    continue;
                }
                let from = start + (at * BLOCK_BYTES) as u64;
                let is_zeros = ours.iter().all(|byte| *byte == 0);
                let of = if is_zeros { &mut differing.zeros } else { &mut differing.written };
                let to = from + ours.len() as u64;
                match of.last_mut().filter(|last| last.end == from) {
                    Some(last) => last.end = to,
                    None => of.push(from..to),
                }
            }
        }
    }
    Ok(differing)
}

/// Ascending ranges, of which those that touch are one.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => joined.push(range),
        }
    }
    joined
}

/// A piece of a file, with zeros behind its end.
async fn piece(file: &File, range: Range<u64>) -> Result<Vec<u8>, Failure> {
    let length = (range.end - range.start) as usize;
    let mut data = Vec::with_capacity(length);
    while data.len() < length && range.start + (data.len() as u64) < file.facts().end_of_file {
        let read = file.read(range.start + data.len() as u64, length - data.len()).await?;
        if read.is_empty() {
            break;
        }
        data.extend_from_slice(&read);
    }
    data.resize(length, 0);
    Ok(data)
}

/// Ascending ranges without what is in others, which are ascending, too.
fn without(ranges: Vec<Range<u64>>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    let mut others = others.iter().peekable();
    for Range { mut start, end } in ranges {
        while others.next_if(|other| other.end <= start).is_some() {}
        while let Some(other) = others.peek().filter(|other| other.start < end) {
            if start < other.start {
                left.push(start..other.start);
            }
            start = start.max(other.end);
            if other.end > end {
                break;
            }
            others.next();
        }
        if start < end {
            left.push(start..end);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(joined(vec![0..4, 4..6, 8..9, 9..12]), [0..6, 8..12]);
    }

    #[test]
    fn ranges_are_left_without_others() {
        type Pairs = &'static [(u64, u64)];
        let cases: [(Pairs, Pairs, Pairs); 6] = [
            (&[(0, 10)], &[], &[(0, 10)]),
            (&[(0, 10)], &[(2, 4), (6, 8)], &[(0, 2), (4, 6), (8, 10)]),
            (&[(0, 10), (20, 30)], &[(5, 25)], &[(0, 5), (25, 30)]),
            (&[(5, 10)], &[(0, 5), (10, 20)], &[(5, 10)]),
            (&[(5, 10), (12, 14)], &[(0, 20)], &[]),
            (&[(0, 4), (6, 10)], &[(3, 7), (9, 12)], &[(0, 3), (7, 9)]),
        ];
        for (ranges, others, left) in cases {
            let of = |pairs: Pairs| pairs.iter().map(|(start, end)| *start..*end).collect::<Vec<_>>();
            assert_eq!(without(of(ranges), &of(others)), of(left), "{ranges:?} without {others:?}");
        }
    }
}
