//! `-rd`: which part of the requests goes to which part of the target.

use super::size::{NoNumber, digits, shown, shown_in, size_and_rest};
use super::wrong;
use crate::engine::Failure;
use crate::profile::{DistributionKind, DistributionRange};

const REMEDY: &str = "use -rdpct<IO%>/<target%>[:…] or -rdabs<IO%>/<size>[:…], such as -rdpct90/10:0/10:5/20";

/// Why ranges are no distribution.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoDistribution {
    #[error("a distribution is pct or abs")]
    NoKind,
    #[error(transparent)]
    NoNumber(#[from] NoNumber),
    #[error("{0:?} begins with more than 100 percent")]
    TooManyRequests(String),
    #[error("{0:?} has no / after the percentage")]
    NoLength(String),
    #[error("{0:?} ends with more than 100 percent")]
    LongerThanTarget(String),
    #[error("{0:?} is a range of no length")]
    Empty(String),
    #[error("{0:?} is not understood")]
    NotUnderstood(String),
    #[error("the ranges are longer than 64 bits hold")]
    TooLong,
}

/// Reads what follows `-rd`. Where the ranges leave requests over, they go to what the ranges leave of the target.
pub(super) fn read(text: &str, block_bytes: u32) -> Result<(DistributionKind, Vec<DistributionRange>), Failure> {
    let fail = |why: NoDistribution| wrong(format!("-rd{text}: {why}"), REMEDY);
    let kind = match text.get(..3) {
        Some("pct") => DistributionKind::Percent,
        Some("abs") => DistributionKind::Absolute,
        Some(_) | None => return Err(fail(NoDistribution::NoKind)),
    };
    let mut ranges = Vec::new();
    for part in text.get(3..).unwrap_or_default().split(':') {
        let (io_percent, length) = pair(part, kind, block_bytes).map_err(fail)?;
        ranges.push((io_percent, length));
    }
    placed(kind, &ranges).map(|ranges| (kind, ranges)).map_err(fail)
}

fn pair(part: &str, kind: DistributionKind, block_bytes: u32) -> Result<(u8, u64), NoDistribution> {
    let of = |why: fn(String) -> NoDistribution| why(part.to_owned());
    let (io_percent, rest) = digits(part)?;
    let io_percent = u8::try_from(io_percent).ok().filter(|percent| *percent <= 100);
    let io_percent = io_percent.ok_or_else(|| of(NoDistribution::TooManyRequests))?;
    let length = rest.strip_prefix('/').ok_or_else(|| of(NoDistribution::NoLength))?;
    let (length, rest) = match kind {
        DistributionKind::Percent => digits(length)?,
        DistributionKind::Absolute => size_and_rest(length, block_bytes)?,
    };
    match (length, rest, kind) {
        (_, "", DistributionKind::Percent) if length > 100 => Err(of(NoDistribution::LongerThanTarget)),
        (0, "", _) => Err(of(NoDistribution::Empty)),
        (_, "", _) => Ok((io_percent, length)),
        (_, rest, _) => Err(NoDistribution::NotUnderstood(rest.to_owned())),
    }
}

/// Lays ranges end to end and adds the last, which takes what is left over.
pub(super) fn placed(kind: DistributionKind, ranges: &[(u8, u64)]) -> Result<Vec<DistributionRange>, NoDistribution> {
    let (mut io_sum, mut start) = (0_u64, 0_u64);
    let mut placed = Vec::with_capacity(ranges.len() + 1);
    for (io_percent, length) in ranges {
        placed.push(DistributionRange { io_percent: *io_percent, start, length: *length });
        io_sum += u64::from(*io_percent);
        start = start.checked_add(*length).ok_or(NoDistribution::TooLong)?;
    }
    let io_percent = 100_u64.saturating_sub(io_sum) as u8;
    match kind {
        DistributionKind::Percent if io_percent > 0 && start < 100 => {
            placed.push(DistributionRange { io_percent, start, length: 100 - start });
        }
        DistributionKind::Absolute if io_percent > 0 && placed.last().is_some_and(|last| last.length > 0) => {
            placed.push(DistributionRange { io_percent, start, length: 0 });
        }
        DistributionKind::Percent | DistributionKind::Absolute => {}
    }
    Ok(placed)
}

/// The ranges as the report shows them, each on a line that begins with `indent`.
pub(super) fn lines(kind: DistributionKind, ranges: &[DistributionRange], indent: &str) -> String {
    let line = |range: &DistributionRange| {
        let (io_percent, start, end) = (range.io_percent, range.start, range.start.saturating_add(range.length));
        match kind {
            DistributionKind::Percent => {
                format!("{indent}   {io_percent:3}% of IO => [{start:2}% - {end:3}%) of target\n")
            }
            DistributionKind::Absolute => {
                let start = if start == 0 { "     0   ".to_owned() } else { shown_in(start, 6) };
                let end = if range.length == 0 { "      end".to_owned() } else { shown_in(end, 6) };
                format!("{indent}   {io_percent:3}% of IO => [{start} - {end})\n")
            }
        }
    };
    ranges.iter().map(line).collect()
}

/// What is wrong with the ranges of a target with blocks of so many bytes; empty where nothing is.
pub(super) fn complaints(kind: DistributionKind, ranges: &[DistributionRange], block_bytes: u32) -> Vec<Failure> {
    let mut complaints = Vec::new();
    if ranges.is_empty() {
        return complaints;
    }
    let io_sum: u64 = ranges.iter().map(|range| u64::from(range.io_percent)).sum();
    if io_sum > 100 {
        let what = format!("the distribution of -rd gives out {io_sum} percent of the requests");
        complaints.push(wrong(what, "make the percentages before the slashes come to 100 or less"));
    }
    match kind {
        DistributionKind::Percent => {
            let covered = ranges.iter().fold(0_u64, |sum, range| sum.saturating_add(range.length));
            if covered > 100 || (covered == 100 && io_sum < 100) {
                let what = format!(
                    "the distribution of -rd covers {covered} percent of the target with {io_sum} percent of the requests"
                );
                complaints.push(wrong(
                    what,
                    "leave some of the target for the rest of the requests, or make both come to 100",
                ));
            } else if covered < 100 {
                let what = format!("the distribution of -rd covers {covered} percent of the target");
                complaints.push(wrong(what, "make the percentages after the slashes come to 100"));
            }
        }
        DistributionKind::Absolute => {
            let inner = ranges.split_last().map_or(&[][..], |(_, inner)| inner);
            let last = ranges.last().filter(|last| last.length > 0);
            let is_short = |range: &&DistributionRange| range.length < u64::from(block_bytes);
            if let Some(range) = inner.iter().chain(last).find(is_short) {
                let what = format!("a range of -rdabs has {} bytes, less than a block", range.length);
                complaints.push(wrong(what, format!("make each range {} or longer", shown(u64::from(block_bytes)))));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(io_percent: u8, start: u64, length: u64) -> DistributionRange {
        DistributionRange { io_percent, start, length }
    }

    #[test]
    fn the_rest_of_the_requests_goes_to_the_rest_of_the_target() {
        let (kind, ranges) = read("pct90/10:0/10:5/20", 4096).unwrap();
        let expected = [range(90, 0, 10), range(0, 10, 10), range(5, 20, 20), range(5, 40, 60)];
        assert_eq!((kind, &ranges[..]), (DistributionKind::Percent, &expected[..]));
        assert_eq!(complaints(kind, &ranges, 4096), []);

        let (kind, ranges) = read("abs90/10G:10/1b", 4096).unwrap();
        assert_eq!(
            (kind, &ranges[..]),
            (DistributionKind::Absolute, &[range(90, 0, 10 << 30), range(10, 10 << 30, 4096)][..])
        );
        let (_, ranges) = read("abs90/10G", 4096).unwrap();
        assert_eq!(ranges, [range(90, 0, 10 << 30), range(10, 10 << 30, 0)]);
        assert_eq!(complaints(kind, &ranges, 4096), []);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        for text in [
            "",
            "pct",
            "abs",
            "pc90/10",
            "xyz90/10",
            "pct90",
            "pct90/",
            "pct/10",
            "pct101/10",
            "pct90/101",
            "pct90/0",
            "pct90/10:",
            "pct90/10x",
            "abs90/0",
            "abs90/10X",
            "pct90/10K",
            "abs50/18446744073709551615:50/1",
            "ü",
        ] {
            assert!(read(text, 4096).is_err(), "{text}");
        }
    }

    #[test]
    fn sums_must_fit() {
        for text in ["pct60/10:60/90", "pct50/100", "pct50/60:50/60", "pct100/50", "abs60/1M:60/1M", "abs50/4095:50/1M"]
        {
            let (kind, ranges) = read(text, 4096).unwrap();
            assert!(!complaints(kind, &ranges, 4096).is_empty(), "{text}");
        }
    }

    #[test]
    fn ranges_are_shown_as_intervals() {
        let (kind, ranges) = read("pct90/10:10/90", 4096).unwrap();
        assert_eq!(
            lines(kind, &ranges, "\t\t"),
            "\t\t    90% of IO => [ 0% -  10%) of target\n\t\t    10% of IO => [10% - 100%) of target\n"
        );
        let (kind, ranges) = read("abs90/10G", 4096).unwrap();
        assert_eq!(
            lines(kind, &ranges, ""),
            "    90% of IO => [     0    -     10GiB)\n    10% of IO => [    10GiB -       end)\n"
        );
    }
}
