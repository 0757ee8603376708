//! The shards have no time left, and it is nobody's in particular.

use std::time::Duration;

use super::evidence::{Evidence, Shard};
use super::time::Time;
use super::{Found, Kind, percent, said};

/// A shard is busy that has work so much of the time,
const BUSY_MIN: f64 = 0.85;
/// and where a request takes so many seconds there, without what it waits for, it stood in line: one that only polls answers at once.
const REST_MIN: f64 = 0.001;
/// All shards together are busy from this on.
const ALL_BUSY: f64 = 0.8;

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let count = evidence.shards.len() as f64;
    let mean =
        |of: fn(&Shard) -> f64| if count > 0.0 { evidence.shards.iter().map(of).sum::<f64>() / count } else { 0.0 };
    let (busy, waited) = (mean(Shard::busy), mean(|shard| shard.waited));
    let busiest = evidence.shards.iter().map(Shard::busy).fold(0.0, f64::max);
    let each = if time.requests > 0.0 { time.rest / time.requests } else { 0.0 };
    if busiest < BUSY_MIN || each < REST_MIN {
        return None;
    }
    let found = Found::new(Kind::Shards, time.rest * busiest)
        .says(format!(
            "{count} shards have work {} of the time, the busiest of them {}.",
            percent(busy),
            percent(busiest)
        ))
        .says(format!("A request stands in line for {} on average.", said(Duration::from_secs_f64(each))))
        .shows("shards", count)
        .shows("busy", busy)
        .shows("waited_for_a_core", waited)
        .shows("busiest_shard", busiest)
        .shows("in_line_us", each * 1e6);
    Some(match busy >= ALL_BUSY {
        true => found.mended_by(
            "multilane top --once   # who does most; more cores, or `multilane share update SHARE --user-iops-max N`, mend it",
        ),
        false => found.mended_by(
            "multilane account update ACCOUNT --multichannel on   # one client gets the other shards, too",
        ),
    })
}
