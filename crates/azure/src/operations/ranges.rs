//! List Ranges: which parts of a file have been written, or have changed since a snapshot.

use std::ops::Range;

use client::{Access, File};
use serde::Serialize;

use super::changed_ranges::changed;
use super::opening::{closing, of_file};
use super::{Ask, Service, lease};
use crate::answer::{Answer, set, set_facts, xml};
use crate::failure::{Code, Failure};

/// Ranges of one answer, at most. Where there are more, the answer says from where on to ask again.
const RANGES_MAX: usize = 10_000;

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    #[serde(rename = "Range")]
    ranges: Vec<ListedRange>,
    #[serde(rename = "ClearRange")]
    cleared: Vec<ListedRange>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_marker: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct ListedRange {
    start: u64,
    /// The last byte.
    end: u64,
}

impl From<Range<u64>> for ListedRange {
    fn from(range: Range<u64>) -> Self {
        ListedRange { start: range.start, end: range.end - 1 }
    }
}

/// What is told of a file's ranges: what is written or has changed, what was cleared, and from where on there is more.
pub(super) struct Told {
    pub(super) ranges: Vec<Range<u64>>,
    pub(super) cleared: Vec<Range<u64>>,
    pub(super) next: Option<u64>,
}

/// List Ranges: of what is there, or of what has changed since a snapshot.
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
    let of = |ranges: Vec<Range<u64>>| ranges.into_iter().map(ListedRange::from).collect();
    let next_marker = told.next.map(|next| next.to_string());
    let mut answer = xml("Ranges", &Listed { ranges: of(told.ranges), cleared: of(told.cleared), next_marker })?;
    set_facts(&mut answer, &facts);
    set(&mut answer, "x-ms-content-length", &facts.end_of_file.to_string());
    Ok(answer)
}

/// What is written of a file in this range.
pub(super) async fn written(file: &File, wanted: Range<u64>, most: usize) -> Result<Told, Failure> {
    let mut ranges = file.allocated(wanted, most + 1).await?;
    let next = ranges.get(most).map(|range| range.start);
    ranges.truncate(most);
    Ok(Told { ranges, cleared: Vec::new(), next })
}
