//! FSCTL_QUERY_FILE_REGIONS (MS-FSA 2.1.5.10.24, MS-FSCC 2.3.55, 2.3.56): which parts of a file hold data, and which read as zeros.

use wire::command::ioctl::IoctlRequest;
use wire::fscc::ioctl::{Range, Region, RegionQuery, encode_regions};
use wire::security::access::READ_DATA;
use wire::status::Status;

use super::{Answer, Answered, data_of, signed_range, sparse};
use crate::command::context::Context;
use crate::state::refusal::Refusal;

/// FILE_REGION_OUTPUT without regions.
const HEADER_BYTES: usize = 16;
/// FILE_REGION_USAGE_VALID_CACHED_DATA and FILE_REGION_USAGE_VALID_NONCACHED_DATA.
const USAGES: std::ops::RangeInclusive<u32> = 1..=3;

pub(super) async fn query(context: &Context, request: &IoctlRequest<'_>) -> Answered {
    let (open, _) = data_of(context)?;
    open.require(READ_DATA)?;
    let (asked, usage) = asked(request.input)?;
    let room = request.max_output_response as usize;
    if room < HEADER_BYTES + Region::LENGTH {
        return Err(Status::BUFFER_TOO_SMALL.into());
    }
    let room = (room - HEADER_BYTES) / Region::LENGTH;
    let end = context.length().await?;
    if asked.start > end || (asked.start == end && end > 0) {
        return Ok(Answer::empty());
    }
    let within = asked.start..asked.end.min(end);
    let found = sparse::ranges(context, within.clone(), room + 1).await?;
    let regions = regions(&within, &found, usage);
    let status = if regions.len() > room { Status::BUFFER_OVERFLOW } else { Status::SUCCESS };
    let mut output = Vec::with_capacity(HEADER_BYTES + regions.len().min(room) * Region::LENGTH);
    encode_regions(regions.get(..room).unwrap_or(&regions), regions.len() as u32, &mut output);
    Ok(Answer { status, output })
}

/// The range that is asked for, which is all where none is named, and for what.
fn asked(input: &[u8]) -> Result<(std::ops::Range<u64>, u32), Refusal> {
    if input.is_empty() {
        return Ok((0..i64::MAX as u64, *USAGES.start()));
    }
    if input.len() < RegionQuery::LENGTH {
        return Err(Status::BUFFER_TOO_SMALL.into());
    }
    let query = RegionQuery::decode(input)?;
    let range = signed_range(query.offset, query.length).filter(|range| !range.is_empty());
    match range {
        Some(range) if USAGES.contains(&query.usage) => Ok((range, query.usage)),
        _ => Err(Status::INVALID_PARAMETER.into()),
    }
}

/// Every part of a range: those that were `found` to hold data, and those between them.
fn regions(within: &std::ops::Range<u64>, found: &[Range], usage: u32) -> Vec<Region> {
    let mut regions = Vec::with_capacity(2 * found.len() + 1);
    let mut at = within.start;
    for data in found {
        if data.offset > at {
            regions.push(Region { offset: at, length: data.offset - at, usage: 0 });
        }
        regions.push(Region { offset: data.offset, length: data.length, usage });
        at = data.offset + data.length;
    }
    // Of an empty file that it is so.
    if at < within.end || regions.is_empty() {
        regions.push(Region { offset: at, length: within.end - at, usage: 0 });
    }
    regions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(within: std::ops::Range<u64>, found: &[(u64, u64)]) -> Vec<(u64, u64, u32)> {
        let found: Vec<Range> =
            found.iter().map(|(offset, length)| Range { offset: *offset, length: *length }).collect();
        regions(&within, &found, 2).iter().map(|region| (region.offset, region.length, region.usage)).collect()
    }

    #[test]
    fn regions_cover_the_range_without_a_gap() {
        assert_eq!(told(0..0, &[]), [(0, 0, 0)]);
        assert_eq!(told(5..9, &[]), [(5, 4, 0)]);
        assert_eq!(told(0..10, &[(0, 10)]), [(0, 10, 2)]);
        assert_eq!(told(0..100, &[(10, 20), (50, 50)]), [(0, 10, 0), (10, 20, 2), (30, 20, 0), (50, 50, 2)]);
        assert_eq!(told(0..60, &[(10, 20)]), [(0, 10, 0), (10, 20, 2), (30, 30, 0)]);
    }

    #[test]
    fn what_asks_for_nothing_is_refused() {
        let query = |offset: u64, length: u64, usage: u32| {
            let mut input = Vec::new();
            RegionQuery { offset, length, usage }.encode(&mut input);
            asked(&input).map_err(|refusal| refusal.status)
        };
        assert_eq!(query(1, 2, 1), Ok((1..3, 1)));
        let (all, usage) = asked(&[]).unwrap();
        assert_eq!((all, usage), (0..i64::MAX as u64, 1));
        for (offset, length, usage) in
            [(0, 0, 1), (0, 1, 0), (0, 1, 4), (u64::MAX, 1, 1), (i64::MAX as u64, 1, 1), (0, u64::MAX, 1)]
        {
            assert_eq!(query(offset, length, usage), Err(Status::INVALID_PARAMETER), "{offset} {length} {usage}");
        }
        assert_eq!(asked(&[0; 23]).unwrap_err().status, Status::BUFFER_TOO_SMALL);
    }
}
