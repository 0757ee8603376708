//! What holds a workload back: the least of a few bounds, each of which can be said in a sentence.
//!
//! Requests that wait for answers go no faster than Little's law lets them; a connection is one core's work on each side; links, files
//! and shares have limits of their own. The bounds are those of a closed queueing network with one kind of request: the truth lies
//! under the least of them, and near it unless two are alike.

use std::time::Duration;

use super::share::{FILE_BYTES_PER_SECOND, FILE_IOPS, ShareLimits};
use super::{Surroundings, Workload};
use crate::figures;

/// What one request costs the core that its connection is served by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    /// Seconds for each request.
    pub(crate) request: f64,
    /// Bytes that a core moves in a second beside that.
    pub(crate) bytes_per_second: f64,
}

/// A server that sends and receives many requests at once.
pub(crate) const CHEAP: Cost = Cost { request: 2.5e-6, bytes_per_second: 3.5e9 };
/// One that handles each by itself, such as Samba.
pub(crate) const DEAR: Cost = Cost { request: 20e-6, bytes_per_second: 1.5e9 };

impl Cost {
    /// Whose it is, after "over one channel".
    pub(crate) fn text(self) -> &'static str {
        match self {
            CHEAP => " to a server that does little for a request",
            DEAR => " to one that does much",
            Cost { request: 0.0, .. } => ", if its time goes into bytes",
            Cost { .. } => ", if its time goes into requests",
        }
    }
}

/// What holds a workload back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    InFlight,
    Connections,
    Cores,
    Links,
    Files,
    Share,
}

/// The least bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound {
    /// Requests per second.
    pub(crate) iops: f64,
    pub(crate) limit: Limit,
}

/// The most that a workload reaches over so many connections.
pub(crate) fn bound(workload: &Workload, around: &Surroundings, channels: usize, cost: Cost) -> Bound {
    let block = f64::from(workload.block_bytes);
    let clients = f64::from(around.clients);
    let in_flight = clients * workload.in_flight();
    let service = cost.request + block / cost.bytes_per_second;
    let link = around.link_bytes_per_second() / block;
    let pairs = if channels > 1 { around.pairs.max(1) } else { 1 };
    let busy = (channels.max(1) as f64).min(workload.in_flight());
    let mut bounds = vec![
        (Limit::InFlight, in_flight / (around.latency.as_secs_f64() + service + 1.0 / link)),
        (Limit::Connections, clients * busy / service),
        (Limit::Links, clients * link / workload.one_way() * pairs as f64),
    ];
    if around.measured.is_none() {
        // What was measured over one channel may be the link's doing, which is no work for a core.
        bounds.push((Limit::Cores, clients * around.cores.max(1) as f64 / service));
    }
    if around.is_azure {
        let of_one = FILE_IOPS.min(FILE_BYTES_PER_SECOND / block);
        bounds.push((Limit::Files, of_one * f64::from(workload.files)));
    }
    if let Some(gib) = around.provisioned_gib {
        let limits = ShareLimits::of(gib);
        bounds.push((Limit::Share, limits.iops.min(limits.bytes_per_second / block)));
    }
    let least = bounds.into_iter().min_by(|a, b| a.1.total_cmp(&b.1));
    least.map_or(Bound { iops: 0.0, limit: Limit::InFlight }, |(limit, iops)| Bound { iops, limit })
}

impl Bound {
    /// The bound in words, after "is held back by".
    pub(crate) fn text(self, workload: &Workload, around: &Surroundings) -> String {
        let iops = figures::count(self.iops);
        match self.limit {
            Limit::InFlight => format!(
                "{} in flight over {}: {iops} a second at most",
                figures::so_many(workload.in_flight() as usize, "request"),
                figures::milliseconds(around.latency)
            ),
            Limit::Connections => format!("what its channels get done: about {iops} a second"),
            Limit::Cores => {
                format!("{} of this machine: about {iops} a second", figures::so_many(around.cores, "core"))
            }
            Limit::Links => {
                let each_way = if workload.one_way() < 1.0 { " each way" } else { "" };
                let link = figures::link(around.link_bits_per_second);
                format!("the network, {link} a link{each_way}: {iops} a second")
            }
            Limit::Files => format!(
                "the service's limit for {}: {iops} a second",
                figures::so_many(workload.files as usize, "file")
            ),
            Limit::Share => format!("the limit of the provisioned share: {iops} a second"),
        }
    }
}

/// What explains a rate that was measured over one channel: that its bytes take all the time, or that they take no more than a cheap
/// server's do. Empty where a channel is not what held it back.
pub(crate) fn calibrated(workload: &Workload, around: &Surroundings, iops: f64) -> Vec<Cost> {
    let block = f64::from(workload.block_bytes);
    let service = 1.0 / iops.max(1.0);
    let moving = (block / CHEAP.bytes_per_second).min(service);
    let by_bytes = Cost { request: 0.0, bytes_per_second: block / service };
    let by_requests = Cost { request: service - moving, bytes_per_second: block / moving };
    let is_reached = |cost: &Cost| bound(workload, around, 1, *cost).limit == Limit::Connections;
    [by_bytes, by_requests].into_iter().filter(is_reached).collect()
}

/// How long an answer takes where nobody has asked: within one data centre.
pub const LATENCY_ASSUMED: Duration = Duration::from_micros(500);
