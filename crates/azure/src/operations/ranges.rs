//! List Ranges: which parts of a file have been written, or have changed since a snapshot.

use std::ops::Range as Bytes;

use client::{Access, File};
use control::SnapshotTime;
use serde::Serialize;

use super::opening::{closing, of_file};
use super::{Ask, Service, lease};
use crate::answer::{Answer, set, set_facts, xml};
use crate::failure::{Code, Failure};

/// Ranges of one answer, at most. Where there are more, the answer says from where on to ask again.
const RANGES_MAX: usize = 10_000;
/// Bytes of a file that are compared with those of a snapshot. Of a file of which more is written all of that is told.
const COMPARED_MAX: u64 = 256 << 20;
/// Bytes that are compared at a time, and of a block that is told whole.
const PIECE_BYTES: usize = 1 << 20;
const BLOCK_BYTES: usize = 512;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    #[serde(rename = "Range")]
    ranges: Vec<Range>,
    #[serde(rename = "ClearRange")]
    cleared: Vec<Range>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_marker: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Range {
    start: u64,
    /// The last byte.
    end: u64,
}

impl From<Bytes<u64>> for Range {
    fn from(range: Bytes<u64>) -> Self {
        Range { start: range.start, end: range.end - 1 }
    }
}

/// What is told of a file's ranges: what is written or has changed, what was cleared, and from where on there is more.
struct Told {
    ranges: Vec<Bytes<u64>>,
    cleared: Vec<Bytes<u64>>,
    next: Option<u64>,
}

/// List Ranges. Since a snapshot what is written and differs from then has changed, and what was written then and is no longer was cleared: whoever takes both over
/// has what is there now.
pub(super) async fn list(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    let since = ask.query.snapshot("prevsharesnapshot")?;
    let most = ask.results_max(RANGES_MAX)?;
    let wrong = |_| Failure::new(Code::InvalidContinuationToken, "The marker is none that this service has told.");
    let marker = ask.query.get("marker").filter(|marker| !marker.is_empty());
    let marker = marker.map(|text| text.parse::<u64>().map_err(wrong)).transpose()?;
    let place = service.place(ask).await?;
    lease::check_read(service, ask, &place).await?;
    let work = async |file: &File| {
        let length = file.facts().end_of_file;
        let mut wanted = ask.range_of(length)?.unwrap_or(0..length);
        wanted.start = wanted.start.max(marker.unwrap_or_default()).min(wanted.end);
        match since {
            None => written(file, wanted, most).await,
            Some(since) => changed(service, ask, since, (file, wanted), most).await,
        }
    };
    let (told, facts) = closing(place.open(of_file(Access::Read)).await?, work).await?;
    let of = |ranges: Vec<Bytes<u64>>| ranges.into_iter().map(Range::from).collect();
    let next_marker = told.next.map(|next| next.to_string());
    let mut answer = xml("Ranges", &Listed { ranges: of(told.ranges), cleared: of(told.cleared), next_marker })?;
    set_facts(&mut answer, &facts);
    set(&mut answer, "x-ms-content-length", &facts.end_of_file.to_string());
    Ok(answer)
}

/// What is written of a file in this range.
async fn written(file: &File, wanted: Bytes<u64>, most: usize) -> Result<Told, Failure> {
    let mut ranges = file.allocated(wanted, most + 1).await?;
    let next = ranges.get(most).map(|range| range.start);
    ranges.truncate(most);
    Ok(Told { ranges, cleared: Vec::new(), next })
}

/// What has changed of a file in this range. One that had another name then is told whole, to who says that it can take that.
async fn changed(
    service: &Service,
    ask: &Ask,
    since: SnapshotTime,
    (now, wanted): (&File, Bytes<u64>),
    most: usize,
) -> Result<Told, Failure> {
    let share = service.record(ask)?;
    let there = service.place_in((ask, &ask.origin), (&share, Some(since)), &ask.target).await;
    let there = there.map_err(|failure| match failure.code {
        Code::ShareSnapshotNotFound => Failure { code: Code::PreviousSnapshotNotFound, ..failure },
        _ => failure,
    })?;
    // Two pieces are held of each file that is compared.
    let turn = service.files.turn_to_list().await?;
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
        let up_to = |ranges: Vec<Bytes<u64>>| -> Vec<Bytes<u64>> {
            let cut = |range: Bytes<u64>| range.start..range.end.min(next.unwrap_or(u64::MAX));
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
    written: Vec<Bytes<u64>>,
    zeros: Vec<Bytes<u64>>,
    /// From where on it was not looked, as there were enough.
    stopped: Option<u64>,
}

/// The parts of these ranges that a file does not have as another has them. What one does not have is zeros.
async fn differing(now: &File, was: &File, ranges: Vec<Bytes<u64>>, most: usize) -> Result<Differing, Failure> {
    let mut differing = Differing::default();
    for range in ranges {
        for start in range.clone().step_by(PIECE_BYTES) {
            // A piece more than enough.
            if differing.written.len() + differing.zeros.len() >= most {
                return Ok(Differing { stopped: Some(start), ..differing });
            }
            let end = range.end.min(start + PIECE_BYTES as u64);
            let (ours, theirs) = (piece(now, start..end).await?, piece(was, start..end).await?);
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
fn joined(ranges: Vec<Bytes<u64>>) -> Vec<Bytes<u64>> {
    let mut joined: Vec<Bytes<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => joined.push(range),
        }
    }
    joined
}

/// A piece of a file, with zeros behind its end.
async fn piece(file: &File, range: Bytes<u64>) -> Result<Vec<u8>, Failure> {
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
fn without(ranges: Vec<Bytes<u64>>, others: &[Bytes<u64>]) -> Vec<Bytes<u64>> {
    let mut left = Vec::new();
    let mut others = others.iter().peekable();
    for Bytes { mut start, end } in ranges {
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
