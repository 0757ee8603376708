//! List Ranges: which parts of a file have been written.

use client::Access;
use serde::Serialize;

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
    ranges: Vec<Range>,
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

/// List Ranges.
pub(super) async fn list(service: &Service, ask: &Ask) -> Result<Answer, Failure> {
    if ask.query.get("prevsharesnapshot").is_some() {
        return Err(Failure::new(Code::PreviousSnapshotNotFound, "The share has no snapshot of that time."));
    }
    let most = ask.results_max(RANGES_MAX)?;
    let wrong = |_| Failure::new(Code::InvalidContinuationToken, "The marker is none that this service has told.");
    let marker = ask.query.get("marker").filter(|marker| !marker.is_empty());
    let marker = marker.map(|text| text.parse::<u64>().map_err(wrong)).transpose()?;
    let place = service.place(ask).await?;
    lease::check_read(service, ask, &place).await?;
    let work = async |file: &client::File| {
        let length = file.facts().end_of_file;
        let mut wanted = ask.range_of(length)?.unwrap_or(0..length);
        wanted.start = wanted.start.max(marker.unwrap_or_default()).min(wanted.end);
        Ok(file.allocated(wanted, most + 1).await?)
    };
    let (mut found, facts) = closing(place.open(of_file(Access::Read)).await?, work).await?;
    let next_marker = found.get(most).map(|range| range.start.to_string());
    found.truncate(most);
    let ranges = found.into_iter().map(|range| Range { start: range.start, end: range.end - 1 }).collect();
    let mut answer = xml("Ranges", &Listed { ranges, next_marker })?;
    set_facts(&mut answer, &facts);
    set(&mut answer, "x-ms-content-length", &facts.end_of_file.to_string());
    Ok(answer)
}
