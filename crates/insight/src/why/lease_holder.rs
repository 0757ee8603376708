//! A client caches, or has locked, what others need, and they wait until it gives that up.

use server::admin::{BreakView, CacheKind};

use super::evidence::Evidence;
use super::time::Time;
use super::{Found, Kind, percent, said};

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let part = percent(time.other_client / time.total());
    let found = Found::new(Kind::LeaseHolder, time.other_client).shows("waited_seconds", time.other_client);
    let found = match evidence.breaks.iter().max_by_key(|one| (one.waiting, one.told_ago)) {
        Some(holder) => of_holder(found, holder, evidence, &part),
        None => found
            .says(format!(
                "Requests wait until other clients give up a lease, an oplock or a lock, which is {part} of the time that all requests took."
            ))
            .mended_by("multilane open-files   # who has what open; `multilane close open ID` takes it away"),
    };
    (time.other_client > 0.0).then_some(found)
}

fn of_holder(found: Found, holder: &BreakView, evidence: &Evidence, part: &str) -> Found {
    let BreakView { user, peer, share, path, waiting, told_ago, .. } = holder;
    let what = match holder.kind {
        CacheKind::Oplock => "an oplock",
        CacheKind::Lease => "a lease",
    };
    let place = if peer.is_empty() { "whose client is gone".to_owned() } else { format!("at {peer}") };
    let since = evidence.ends.before(*told_ago);
    let waits = if *waiting == 1 { "One request waits".to_owned() } else { format!("{waiting} requests wait") };
    let count = evidence.breaks.len();
    let others = if count > 1 { format!(" So do {} others.", count - 1) } else { String::new() };
    found
        .says(format!(
            "{user} {place} holds {what} on \\{path} of the share {share}, was told at {since}, {} ago, to give it up, and has not.{others}",
            said(*told_ago)
        ))
        .says(format!("{waits} at that file; waiting for other clients is {part} of the time that all requests took."))
        .shows("requests_waiting", *waiting as f64)
        .shows("told_seconds_ago", told_ago.as_secs_f64())
        .shows("holders", count as f64)
        .mended_by(format!("multilane close open {}", holder.open))
}
