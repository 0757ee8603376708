//! The channels that a request may go: where there is little to do it is one, and what queues spreads (MS-SMB2 3.2.4.1.7).

use std::sync::Arc;
use std::time::Duration;

use crate::channel::Channel;
use crate::handshake::Identity;

/// Outstanding work up to which everything goes to one channel: small requests that share a send are cheaper than channels that share the
/// requests.
pub(crate) const LITTLE_WORK_BYTES: u64 = 512 << 10;
/// A channel whose answers come sooner than this is not what limits: it may have more, up to `SWIFT_WORK_BYTES`.
const SWIFT_LATENCY_MAX: Duration = Duration::from_millis(2);
const SWIFT_WORK_BYTES: u64 = 8 << 20;
/// A channel with what it takes to ask on it.
pub(crate) struct Way {
    pub(crate) channel: Arc<Channel>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) sequence: u16,
}

/// The channels that there are, with what it takes to ask on them. It is replaced whole, so that nobody who asks waits for a lock.
pub(crate) struct Ways {
    pub(crate) identity: Arc<Identity>,
    /// Session.ChannelSequence.
    pub(crate) sequence: u16,
    pub(crate) channels: Vec<Arc<Channel>>,
    /// The server is on this machine.
    pub(crate) is_beside_server: bool,
}

impl Ways {
    /// The first channel with little to do, else the one with least: what is small or soon done stays on one channel, what queues
    /// spreads. And whether there is so much to do that more channels would help. Where it `stays_on_first`, they would not: see
    /// [`Spread`](crate::spread::Spread) and [`SendLoad::is_limit`](crate::send_load::SendLoad::is_limit).
    pub(crate) fn pick(&self, charge: u16, stays_on_first: bool) -> Option<(&Arc<Channel>, bool)> {
        let mut least = None;
        let live = self.channels.iter().filter(|channel| !channel.connection.has_ended());
        for (number, channel) in live.enumerate() {
            let (own, affords) = (channel.work(), channel.connection.affords(charge));
            if affords && (stays_on_first || has_time(channel, own)) {
                return Some((channel, number > 0));
            }
            let rank = (!affords, own);
            if least.is_none_or(|(before, _)| rank < before) {
                least = Some((rank, channel));
            }
        }
        // One that has ended is lost as soon as its keeper looks, or somebody asks on it.
        let channel = least.map(|(_, channel)| channel).or(self.channels.first())?;
        Some((channel, true))
    }

    /// True where one channel is not enough for what there is to do.
    pub(crate) fn has_much_to_do(&self) -> bool {
        self.channels.first().is_some_and(|channel| !has_time(channel, channel.work()))
    }
}

/// True where a channel that has so much work should be given more before another one is.
fn has_time(channel: &Channel, work: u64) -> bool {
    let is_swift = || channel.connection.latency().is_some_and(|latency| latency < SWIFT_LATENCY_MAX);
    work < LITTLE_WORK_BYTES || (work < SWIFT_WORK_BYTES && is_swift())
}
