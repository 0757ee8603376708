//! A client sends small requests, and the next one when the last one is answered, or many at once and then none: its own time and the network's are
//! most of it.

use std::time::Duration;

use super::evidence::Evidence;
use super::time::{Time, one_at_a_time};
use super::{Found, Kind, percent, said};

/// A client whose requests were so many at once sends them in bursts. One more than it has may be a wait for news of a folder.
const BURST_MIN: u64 = 4;

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let slow = evidence.sessions.iter().filter_map(|session| Some((session, one_at_a_time(session)?)));
    let (session, one) = slow.max_by(|a, b| a.1.client.total_cmp(&b.1.client))?;
    let view = &session.view;
    let between = (1.0 / one.iops - one.each).max(0.0);
    let duration = |seconds: f64| said(Duration::from_secs_f64(seconds));
    let found = match one.together >= BURST_MIN {
        true => Found::new(Kind::InBursts, time.client)
            .says(format!(
                "The client of session {} of {} sends requests in bursts, up to {} at once, and nothing in between: {:.0} a second on average, of {:.1} KiB.",
                view.id,
                view.user,
                one.together,
                one.iops,
                one.bytes / 1024.0
            ))
            .says(format!(
                "A request is in the server for {}; the pauses are the client's own time and the network's: {} of all.",
                duration(one.each),
                percent(time.client / time.total())
            ))
            .mended_by("look at what the client does between its bursts: the server waits for it"),
        false => Found::new(Kind::OneAtATime, time.client)
            .says(format!(
                "The client of session {} of {} sends one request at a time: {:.0} a second, of {:.1} KiB on average.",
                view.id,
                view.user,
                one.iops,
                one.bytes / 1024.0
            ))
            .says(format!(
                "The server answers in {}; {} pass until the next one comes, which is the client's own time and the network's: {} of all.",
                duration(one.each),
                duration(between),
                percent(time.client / time.total())
            ))
            .mended_by("have the client keep more requests in flight: robocopy /MT, cp in parallel, larger blocks; `multilane cp` does so by itself"),
    };
    Some(
        found
            .shows("iops", one.iops)
            .shows("in_flight", one.in_flight)
            .shows("together_most", one.together as f64)
            .shows("server_us", one.each * 1e6)
            .shows("between_us", between * 1e6)
            .shows("bytes_each", one.bytes),
    )
}
