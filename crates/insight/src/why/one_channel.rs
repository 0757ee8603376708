//! Everything of a session goes over one channel that is full, where several are possible.

use server::admin::{Multichannel, Sum};

use super::evidence::{Evidence, SessionFacts, Shard};
use super::time::{MUCH_BYTES, Time, on_the_way, sum};
use super::{Found, Kind, percent, quoted};

/// A channel is full where data is on its way so much of the time, or its shard is at work.
const FULL: f64 = 0.7;
const SHARD_BUSY: f64 = 0.9;

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    let possible = Possible::of(evidence);
    if possible.addresses < 2 && !possible.has_rss {
        return None;
    }
    let full = evidence.sessions.iter().filter_map(|session| Some((session, full(session, &evidence.shards)?)));
    let (session, part) = full.max_by(|a, b| moved(a.0).total_cmp(&moved(b.0)))?;
    let active = session.active.as_secs_f64();
    let (network, of_rest) = on_the_way(session, &evidence.shards);
    // A shard that is at work for one channel has others beside it.
    let explained = (network + of_rest).max(part * time.rest);
    let view = &session.view;
    let found = Found::new(Kind::OneChannel, explained.min(time.total()))
        .says(format!(
            "Everything of session {} of {} goes over one channel, which is in use {} of the time: {:.0} MiB a second.",
            view.id,
            view.user,
            percent(part),
            moved(session) / active / f64::from(1 << 20)
        ))
        .shows("channels", 1.0)
        .shows("addresses", possible.addresses as f64)
        .shows("rss", f64::from(u8::from(possible.has_rss)))
        .shows("busy", part)
        .shows("mib_s", moved(session) / active / f64::from(1 << 20));
    Some(match view.multichannel {
        Multichannel::Off if view.dialect == 0x0311 => found
            .says(format!("The account {} has multichannel off. {}", view.account, possible.said()))
            .mended_by(format!("multilane account update {} --multichannel on", quoted(&view.account))),
        Multichannel::Off => found
            .says("Its client does not speak SMB 3.1.1, and has one channel for that.")
            .mended_by("use a client that speaks SMB 3.1.1, or let this one: its settings say which dialects it may use"),
        Multichannel::On => found
            .says(format!(
                "{} Its client has not opened more: it has one address, and no adapter with receive-side scaling (RSS), or has multichannel off.",
                possible.said()
            ))
            .mended_by("Get-SmbClientNetworkInterface   # on the client, Windows; Linux: mount with multichannel,max_channels=4"),
    })
}

/// What several channels could go over.
struct Possible {
    addresses: usize,
    has_rss: bool,
}

impl Possible {
    /// Clients on other machines have no use for loopback.
    fn of(evidence: &Evidence) -> Self {
        let routed = || evidence.interfaces.iter().filter(|interface| !interface.address.is_loopback());
        Possible { addresses: routed().count(), has_rss: routed().any(|interface| interface.rss) }
    }

    fn said(&self) -> String {
        let rss = if self.has_rss { ", with receive-side scaling" } else { "" };
        match self.addresses {
            1 => format!("The server tells of one address{rss}."),
            addresses => format!("The server tells of {addresses} addresses{rss}."),
        }
    }
}

/// How full the only channel of a session is.
fn full(session: &SessionFacts, shards: &[Shard]) -> Option<f64> {
    let [only] = session.channels.as_slice() else { return None };
    let active = session.active.as_secs_f64();
    if active <= 0.0 || moved(session) / active < MUCH_BYTES || session.channels_most > 1 {
        return None;
    }
    let busy = only.path.map_or(0.0, |path| path.busy).min(1.0);
    let computing = shards.get(only.view.shard).map_or(0.0, Shard::busy);
    (busy >= FULL || computing >= SHARD_BUSY).then_some(busy.max(computing))
}

fn moved(session: &SessionFacts) -> f64 {
    sum(&session.counts, Sum::ReadBytes) + sum(&session.counts, Sum::WrittenBytes)
}
