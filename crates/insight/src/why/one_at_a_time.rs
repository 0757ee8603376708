//! A client sends small requests, and the next one when the last one is answered: its own time and the network's are most of it.

use std::time::Duration;

use super::evidence::Evidence;
use super::time::{Time, one_at_a_time};
use super::{Found, Kind, percent, said};

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let slow = evidence.sessions.iter().filter_map(|session| Some((session, one_at_a_time(session)?)));
    let (session, one) = slow.max_by(|a, b| a.1.client.total_cmp(&b.1.client))?;
    let view = &session.view;
    let between = (1.0 / one.iops - one.each).max(0.0);
    let duration = |seconds: f64| said(Duration::from_secs_f64(seconds));
    Some(
        Found::new(Kind::OneAtATime, time.client)
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
            .shows("iops", one.iops)
            .shows("in_flight", one.in_flight)
            .shows("server_us", one.each * 1e6)
            .shows("between_us", between * 1e6)
            .shows("bytes_each", one.bytes)
            .mended_by("have the client keep more requests in flight: robocopy /MT, cp in parallel, larger blocks; `multilane cp` does so by itself"),
    )
}
