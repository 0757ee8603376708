//! Where the time of requests went, in seconds of all requests together.

use std::time::Duration;

use server::admin::{Api, Counts, Sum};

use super::evidence::{ChannelFacts, Evidence, Path, SessionFacts, Shard};
use super::{neighbour, no_core};

/// The APIs whose time is a client's wait for something to be done. Those of the others wait for something to happen, or come once a session.
pub(super) const COUNTED: [Api; 12] = [
    Api::TreeConnect,
    Api::TreeDisconnect,
    Api::Create,
    Api::Close,
    Api::Flush,
    Api::Read,
    Api::Write,
    Api::Lock,
    Api::Ioctl,
    Api::QueryDirectory,
    Api::QueryInfo,
    Api::SetInfo,
];

/// A client has about one request in flight where so much of the time one is, by what is known to pass between two of them,
const ONE_AT_LEAST: f64 = 0.25;
/// or where so much is by the connection's own figures, which may be an acknowledgement that was put off: so often that none was,
const ONE_BY_ROUND_TRIP: f64 = 0.5;
const OFTEN: f64 = 500.0;
/// and no more than that ever are.
const ONE_AT_MOST: f64 = 1.3;
/// Requests with more bytes are large.
const SMALL_BYTES: f64 = 65_536.0;
/// A channel that moves less in a second is no bottleneck.
pub(super) const MUCH_BYTES: f64 = 5.0 * 1_048_576.0;

/// The time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Time {
    /// Waiting for a limit or memory.
    pub(super) budget: f64,
    /// Waiting for the store, but for listings.
    pub(super) store: f64,
    /// Waiting for another client.
    pub(super) other_client: f64,
    /// Listing folders, on shards and in the store.
    pub(super) listing: f64,
    /// The rest of the time in the server.
    pub(super) rest: f64,
    /// Between the requests of clients that send one at a time.
    pub(super) client: f64,
    /// Between them, where the shards were busy with what a neighbour has in flight.
    pub(super) in_line: f64,
    /// On the way to clients, over channels that are full.
    pub(super) network: f64,
    /// Waiting for a core.
    pub(super) no_core: f64,
    /// Requests.
    pub(super) requests: f64,
}

impl Time {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let mut time = Time::in_server(&evidence.counts);
        let covers = evidence.covers;
        // What is over is counted.
        let awaited = evidence.breaks.iter().filter(|one| one.seen_ago.is_none()).map(|one| &one.view);
        time.other_client +=
            awaited.map(|one| one.waiting as f64 * one.told_ago.min(covers).as_secs_f64()).sum::<f64>();
        let waits = evidence.shares.iter().filter_map(|share| share.view.waits);
        time.store += waits.map(|waits| waits.count as f64 * waits.longest.min(covers).as_secs_f64()).sum::<f64>();
        let of_cores = no_core::of_cores(evidence, time.store, time.rest);
        time.store -= of_cores.store;
        time.rest -= of_cores.rest;
        time.no_core = of_cores.store + of_cores.rest;
        let turn = neighbour::loudest(evidence).map_or(0.0, |loudest| loudest.turn);
        for session in &evidence.sessions {
            let in_line = in_line(session, turn);
            time.in_line += in_line;
            time.client += one_at_a_time(session).map_or(0.0, |one| (one.client - in_line).max(0.0));
        }
        let moved = evidence.sessions.iter().map(|session| on_the_way(session, &evidence.shards));
        for (network, of_rest) in moved {
            // What waits in the server until a channel has room is on its way.
            let of_rest = of_rest.min(time.rest);
            time.rest -= of_rest;
            time.network += network + of_rest;
        }
        time
    }

    /// What was in the server.
    pub(super) fn in_server(counts: &Counts) -> Self {
        let of = |apis: &[Api], sum| seconds(counts, apis, sum);
        let all = |sum| of(&COUNTED, sum);
        let listing = |sum| of(&[Api::QueryDirectory], sum);
        let budget = all(Sum::BudgetNanos);
        let other_client = all(Sum::OtherClientNanos);
        let in_listings = listing(Sum::TotalNanos) - listing(Sum::BudgetNanos) - listing(Sum::OtherClientNanos);
        let store = all(Sum::StoreNanos) - listing(Sum::StoreNanos);
        let rest = all(Sum::TotalNanos) - budget - other_client - store - in_listings;
        let requests = COUNTED.iter().map(|api| requests(counts, *api)).sum();
        Time {
            budget,
            store,
            other_client,
            listing: in_listings.max(0.0),
            rest: rest.max(0.0),
            client: 0.0,
            in_line: 0.0,
            network: 0.0,
            no_core: 0.0,
            requests,
        }
    }

    /// All of it.
    pub(super) fn total(&self) -> f64 {
        self.server() + self.client + self.in_line + self.network + self.no_core
    }

    fn server(&self) -> f64 {
        self.budget + self.store + self.other_client + self.listing + self.rest
    }
}

/// What one that has one request in flight does.
#[derive(Clone, Copy, Debug)]
pub(super) struct OneAtATime {
    /// Seconds in which it had none in the server.
    pub(super) client: f64,
    /// Requests a second.
    pub(super) iops: f64,
    /// Seconds that one is in the server.
    pub(super) each: f64,
    /// Bytes of one.
    pub(super) bytes: f64,
    /// How many are in flight on average, as far as it is known,
    pub(super) in_flight: f64,
    /// and the most that there were at once.
    pub(super) together: u64,
}

/// Whether the client of a session sends small requests one at a time, by Little's law: as many are in flight as come in a second, times
/// the seconds that each takes.
pub(super) fn one_at_a_time(session: &SessionFacts) -> Option<OneAtATime> {
    let active = session.active.as_secs_f64();
    let in_server = Time::in_server(&session.counts);
    let count = in_server.requests - requests(&session.counts, Api::QueryDirectory);
    if count <= 0.0 || active <= 0.0 {
        return None;
    }
    let iops = count / active;
    let each = (in_server.server() - in_server.listing) / count;
    let bytes = (sum(&session.counts, Sum::ReadBytes) + sum(&session.counts, Sum::WrittenBytes)) / count;
    let paths = || session.channels.iter().filter_map(|channel| channel.path);
    let longest = |of: fn(Path) -> Duration| paths().map(of).max().unwrap_or_default().as_secs_f64();
    let at_least = iops * (each + longest(|path| path.round_trip_min));
    let by_round_trip = iops * (each + longest(|path| path.round_trip));
    let is_one =
        at_least >= ONE_AT_LEAST || iops >= OFTEN && (ONE_BY_ROUND_TRIP..=ONE_AT_MOST).contains(&by_round_trip);
    let client = active - in_server.server();
    let is_meant = is_one && at_least <= ONE_AT_MOST && bytes <= SMALL_BYTES && client > 0.0;
    let in_flight = at_least.max(by_round_trip.min(1.0));
    let together = session.channels.iter().map(|channel| channel.view.together_most).max().unwrap_or(0);
    is_meant.then_some(OneAtATime { client, iops, each, bytes, in_flight, together })
}

/// Seconds in which requests of a session stood in line outside of what is counted, in their sockets: as long as a neighbour's turn takes, each, and
/// no longer than none of them was in the server.
fn in_line(session: &SessionFacts, turn: f64) -> f64 {
    let in_server = Time::in_server(&session.counts);
    let between = (session.active.as_secs_f64() - in_server.server()).max(0.0);
    (in_server.requests * turn).min(between)
}

/// Seconds in which data was on its way over a session's channels, beside what is counted as time in the server and, second, of that.
pub(super) fn on_the_way(session: &SessionFacts, shards: &[Shard]) -> (f64, f64) {
    let active = session.active.as_secs_f64();
    let bytes = sum(&session.counts, Sum::ReadBytes) + sum(&session.counts, Sum::WrittenBytes);
    if active <= 0.0 || bytes / active < MUCH_BYTES {
        return (0.0, 0.0);
    }
    let in_server = Time::in_server(&session.counts);
    let busy =
        session.channels.iter().filter_map(|channel| channel.path).map(|path| path.busy).fold(0.0, f64::max).min(1.0);
    let of = |channel: &ChannelFacts| shards.get(channel.view.shard).map_or(0.0, Shard::busy);
    let computing = session.channels.iter().map(of).fold(0.0, f64::max);
    let waiting = busy * (1.0 - computing);
    ((waiting * active - in_server.server()).max(0.0), waiting * in_server.rest)
}

/// A sum of some APIs, which is in nanoseconds, in seconds.
pub(super) fn seconds(counts: &Counts, apis: &[Api], of: Sum) -> f64 {
    apis.iter().map(|api| counts.sum(*api, of)).sum::<u64>() as f64 / 1e9
}

/// A sum of all APIs.
pub(super) fn sum(counts: &Counts, of: Sum) -> f64 {
    counts.total(of) as f64
}

/// How many requests of an API there were.
pub(super) fn requests(counts: &Counts, api: Api) -> f64 {
    counts.requests_of(api) as f64
}
