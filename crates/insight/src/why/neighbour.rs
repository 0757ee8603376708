//! Somebody else has the shards busy, and requests stand in line behind theirs.

use std::time::Duration;

use server::admin::{Counts, Sum};

use super::evidence::{About, Evidence, Neighbour, Shard};
use super::time::{Time, sum};
use super::{Found, Kind, percent, quoted, said};

/// A neighbour is noisy from this part of all work on,
const PART_MIN: f64 = 0.5;
/// where a shard has work so much of the time: that is how likely who comes finds it at work.
const BUSY_MIN: f64 = 0.7;
/// Requests stand in line from these seconds on, each: several times what one takes that finds its shard free.
const IN_LINE_MIN: f64 = 0.0001;
/// So many bytes are as much work as a request.
const REQUEST_BYTES: f64 = 65_536.0;

/// Who has the shards busy.
pub(super) struct Loudest<'a> {
    neighbour: &'a Neighbour,
    /// Which part of all work is that of it,
    part: f64,
    /// and for how many seconds others wait until what it has in flight is done.
    pub(super) turn: f64,
    busiest: f64,
}

/// `None` where nobody has.
pub(super) fn loudest(evidence: &Evidence) -> Option<Loudest<'_>> {
    let busiest = evidence.shards.iter().map(Shard::busy).fold(0.0, f64::max);
    if busiest < BUSY_MIN {
        return None;
    }
    let neighbour = evidence.neighbours.iter().max_by(|a, b| work(&a.counts).total_cmp(&work(&b.counts)))?;
    let all: f64 = work(&evidence.counts) + evidence.neighbours.iter().map(|one| work(&one.counts)).sum::<f64>();
    let part = work(&neighbour.counts) / all;
    let theirs = Time::in_server(&neighbour.counts);
    let turn = if theirs.requests > 0.0 { busiest * theirs.rest / theirs.requests } else { 0.0 };
    (part >= PART_MIN).then_some(Loudest { neighbour, part, turn, busiest })
}

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let loudest = loudest(evidence)?;
    let each = if time.requests > 0.0 { (time.rest + time.in_line) / time.requests } else { 0.0 };
    if each < IN_LINE_MIN {
        return None;
    }
    let who = &loudest.neighbour.who;
    let explained = loudest.part * (time.rest + time.in_line);
    Some(
        Found::new(Kind::Neighbour, explained)
            .says(format!(
                "The busiest shard has work {} of the time, and {} of all work is that of {}.",
                percent(loudest.busiest),
                percent(loudest.part),
                who.named()
            ))
            .says(format!(
                "A request of {} stands in line for about {}.",
                evidence.about.named(),
                said(Duration::from_secs_f64(each))
            ))
            .shows("part_of_work", loudest.part)
            .shows("busiest_shard", loudest.busiest)
            .shows("in_line_us", each * 1e6)
            .mended_by(command(who)),
    )
}

fn command(who: &About) -> String {
    match who {
        About::Share(name) => format!("multilane share update {} --iops-max N   # or --user-iops-max N", quoted(name)),
        About::Session { id, .. } => {
            format!("multilane share update SHARE --user-iops-max N   # or `multilane close session {id}`")
        }
    }
}

fn work(counts: &Counts) -> f64 {
    let bytes = sum(counts, Sum::ReceivedBytes) + sum(counts, Sum::SentBytes);
    counts.all_requests() as f64 + bytes / REQUEST_BYTES
}
