//! A session has lost channels, or the other end of one does not answer.

use super::evidence::{Evidence, SessionFacts};
use super::time::{MUCH_BYTES, Time, sum};
use super::{Found, Kind};
use server::admin::Sum;

/// What a session has lost.
struct Loss<'a> {
    session: &'a SessionFacts,
    most: usize,
    /// Channels that are there, and whose other end does not answer.
    dead: Vec<String>,
    lost: usize,
    /// Seconds.
    time: f64,
}

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let losses = evidence.sessions.iter().filter_map(|session| loss(session, time));
    let worst = losses.max_by(|a, b| a.time.total_cmp(&b.time))?;
    let view = &worst.session.view;
    let which = match worst.dead.as_slice() {
        [] => String::new(),
        dead => format!(" The client does not answer on {}.", dead.join(" and ")),
    };
    Some(
        Found::new(Kind::ChannelLost, worst.time)
            .says(format!(
                "Session {} of {} has lost {} of its {} channels.{which}",
                view.id, view.user, worst.lost, worst.most
            ))
            .says("What they carried goes over those that are left.")
            .shows("channels", (worst.most - worst.lost) as f64)
            .shows("channels_before", worst.most as f64)
            .shows("channels_silent", worst.dead.len() as f64)
            .mended_by("multilane sessions   # the channels that are left: look for the link that is not among them, with `ip -s link` here and there"),
    )
}

fn loss<'a>(session: &'a SessionFacts, time: &Time) -> Option<Loss<'a>> {
    let dead = session.channels.iter().filter(|channel| channel.path.is_some_and(super::Path::is_dead));
    let dead: Vec<String> = dead.map(|channel| channel.view.peer.clone()).collect();
    let most = session.channels_most.max(session.channels.len());
    let lost = most - (session.channels.len() - dead.len());
    let bytes = sum(&session.counts, Sum::ReadBytes) + sum(&session.counts, Sum::WrittenBytes);
    let active = session.active.as_secs_f64();
    if lost == 0 || active <= 0.0 || bytes / active < MUCH_BYTES {
        return None;
    }
    // Of what nothing else is waited for: more channels carry, and answer, more.
    let carried = (time.network + time.rest).max(active);
    Some(Loss { session, most, dead, lost, time: carried * lost as f64 / most as f64 })
}
