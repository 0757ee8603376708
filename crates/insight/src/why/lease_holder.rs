//! A client caches, or has locked, what others need, and they wait until it gives that up.

use server::admin::{BreakView, CacheKind};

use super::evidence::{Evidence, Holder};
use super::time::Time;
use super::{Found, Kind, percent, said};

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let part = percent(time.other_client / time.total());
    let found = Found::new(Kind::LeaseHolder, time.other_client).shows("waited_seconds", time.other_client);
    let key = |one: &&Holder| (one.seen_ago.is_none(), one.view.waiting, one.view.told_ago);
    let found = match evidence.breaks.iter().max_by_key(key) {
        Some(holder) => of_holder(found, holder, evidence, &part),
        None => found
            .says(format!(
                "Requests waited until other clients gave up a lease, an oplock or a lock, which is {part} of the time that all requests took."
            ))
            .mended_by("multilane open-files   # who has what open; `multilane close open ID` takes it away"),
    };
    (time.other_client > 0.0).then_some(found)
}

fn of_holder(found: Found, holder: &Holder, evidence: &Evidence, part: &str) -> Found {
    let BreakView { user, peer, share, path, waiting, told_ago, .. } = &holder.view;
    let what = match holder.view.kind {
        CacheKind::Oplock => "an oplock",
        CacheKind::Lease => "a lease",
    };
    let place = if peer.is_empty() { "whose client is gone".to_owned() } else { format!("at {peer}") };
    let since = evidence.ends.before(*told_ago + holder.seen_ago.unwrap_or_default());
    let count = evidence.breaks.iter().filter(|one| one.seen_ago.is_none() == holder.seen_ago.is_none()).count();
    let others = |did: &str| if count > 1 { format!(" So {did} {} others.", count - 1) } else { String::new() };
    let of_all = format!("waiting for other clients is {part} of the time that all requests took.");
    let found = match holder.seen_ago {
        None => found
            .says(format!(
                "{user} {place} holds {what} on \\{path} of the share {share}, was told at {since}, {} ago, to give it up, and has not.{}",
                said(*told_ago),
                others("do")
            ))
            .says(match waiting {
                1 => format!("One request waits at that file; {of_all}"),
                _ => format!("{waiting} requests wait at that file; {of_all}"),
            })
            .mended_by(format!("multilane close open {}", holder.view.open)),
        Some(_) => found
            .says(format!(
                "{user} {place} held {what} on \\{path} of the share {share}, was told at {since} to give it up, and had not {} later. That is over.{}",
                said(*told_ago),
                others("did")
            ))
            .says(match waiting {
                1 => format!("One request waited at that file; {of_all}"),
                _ => format!("{waiting} requests waited at that file; {of_all}"),
            })
            .mended_by("look at that client, or its network: the log has `break_unanswered` where it never answered"),
    };
    found
        .shows("requests_waiting", if holder.seen_ago.is_none() { *waiting as f64 } else { 0.0 })
        .shows("told_seconds_ago", (*told_ago + holder.seen_ago.unwrap_or_default()).as_secs_f64())
        .shows("is_over", if holder.seen_ago.is_some() { 1.0 } else { 0.0 })
        .shows("holders", count as f64)
}
