//! Whether multichannel should be on for a workload, and what else would make it faster.
//!
//! Everything follows from a model of a few bounds (`advise/model.rs`), asked what each change would give: with a server that does little for
//! each request and with one that does much, which makes the range. Where the workload was measured, the measurement comes before the model.

pub mod measure;
mod model;
mod multichannel;
pub mod share;
mod surroundings;
#[cfg(test)]
mod tests;
mod ways;

use std::time::Duration;

use serde::Serialize;

pub use self::model::LATENCY_ASSUMED;
use self::model::{CHEAP, Cost, DEAR, bound, calibrated};

/// Requests in flight from which nothing more is gained, and latency only grows, as Azure Files' documentation has it.
const IN_FLIGHT_ENOUGH: f64 = 64.0;
/// A gain below this is none: measurements of the same thing differ by as much.
const GAIN_MIN: f64 = 1.05;
/// Blocks below this are small: for them several channels to one file cost some clients more than they give.
const SMALL_BYTES: u32 = 16 << 10;
/// What such clients lose.
const SMALL_LOSS: f64 = 0.9;

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// Threads in all.
    pub threads: u32,
    /// Files they work on.
    pub files: u32,
    /// Bytes of one request.
    pub block_bytes: u32,
    /// Percent of writes.
    pub write_percent: u8,
    /// Requests of each thread in flight.
    pub outstanding: u32,
}

/// Where it does so.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Surroundings {
    /// Of this machine.
    pub cores: usize,
    /// Machines that do this at once.
    pub clients: u32,
    /// Whether there may be several channels.
    pub multichannel: Offer,
    /// Channels there would be with multichannel.
    pub channels: usize,
    /// Pairs of interfaces that they go over.
    pub pairs: usize,
    /// Of one pair.
    pub link_bits_per_second: u64,
    /// From a request to its answer where neither moves data.
    #[serde(rename = "latency_seconds", serialize_with = "seconds")]
    pub latency: Duration,
    /// The share is one of Azure Files, with its limits.
    pub is_azure: bool,
    /// What is provisioned for the share.
    pub provisioned_gib: Option<u32>,
    /// What was tried out.
    pub measured: Option<Measured>,
    /// What of the above nobody has looked at, each as a sentence.
    pub assumed: Vec<String>,
}

/// Whether a session may have several channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Offer {
    /// Both sides can.
    On,
    /// The server does not offer it, or not to this account.
    OffAtServer,
    /// Nobody asked a server.
    Unknown,
}

/// One channel beside several, in turns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Requests per second over one channel: the median of the rounds.
    pub one_channel_iops: f64,
    /// Over as many as there are.
    pub several_channels_iops: f64,
    /// Channels that there were.
    pub channels: usize,
    /// Several to one, round by round: the median.
    pub ratio: f64,
    /// The least of the rounds.
    pub ratio_low: f64,
    /// The greatest of the rounds.
    pub ratio_high: f64,
    /// Rounds that count, each of one run with one channel and one with several.
    pub rounds: usize,
    /// How long each run was measured.
    #[serde(rename = "run_seconds", serialize_with = "seconds")]
    pub run: Duration,
}

/// One thing to do, or not to do.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What it is about.
    pub subject: Subject,
    /// What to do, as a sentence.
    pub action: String,
    /// What it would give.
    pub gain: Gain,
    /// Why, as a sentence.
    pub reason: String,
    /// The figures it follows from.
    pub evidence: Vec<String>,
    /// Where the rule comes from.
    pub source: &'static str,
}

/// What advice is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "name", content = "verdict")]
pub enum Subject {
    /// Several channels.
    Multichannel(Verdict),
    /// More files.
    Files,
    /// More threads, or more requests of each.
    InFlight,
    /// Larger requests.
    BlockSize,
    /// More machines.
    Clients,
    /// A larger provisioned share.
    ShareSize,
    /// A shorter way to the server.
    Distance,
}

/// Whether multichannel should be on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It makes this faster.
    On,
    /// It makes this slower.
    Off,
    /// It makes no difference that could be told.
    Either,
}

/// From how much to how much faster, as a factor: 1 is as fast as before.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// At least.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// What grows.
    pub of: Quantity,
}

/// What a gain is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// Requests per second, and bytes with them.
    Requests,
    /// Bytes per second, in fewer requests.
    Bytes,
}

impl Workload {
    /// Requests in flight at once, of one machine.
    pub fn in_flight(&self) -> f64 {
        f64::from(self.threads) * f64::from(self.outstanding)
    }

    /// The part of the bytes that go the busier way: all of them where there are only reads or only writes. A link carries as much each way.
    fn one_way(&self) -> f64 {
        let writes = f64::from(self.write_percent.min(100)) / 100.0;
        writes.max(1.0 - writes)
    }
}

impl Surroundings {
    fn link_bytes_per_second(&self) -> f64 {
        self.link_bits_per_second.max(1) as f64 / 8.0
    }

    /// Channels that there are as things stand.
    fn channels_now(&self) -> usize {
        match self.multichannel {
            Offer::On | Offer::Unknown => self.channels_usable(),
            Offer::OffAtServer => 1,
        }
    }

    /// Channels that there may be.
    fn channels_usable(&self) -> usize {
        if self.is_azure { self.channels.min(share::AZURE_CHANNELS_MAX) } else { self.channels }
    }
}

/// What to do, what gives most first. Whether multichannel should be on is always said.
pub fn advise(workload: &Workload, around: &Surroundings) -> Vec<Advice> {
    let mut advice = vec![multichannel::advice(workload, around)];
    advice.extend(ways::ways(workload, around));
    advice.sort_by(|a, b| b.gain.middle().total_cmp(&a.gain.middle()));
    advice
}

impl Gain {
    fn middle(self) -> f64 {
        (self.low * self.high).sqrt()
    }

    /// None at all.
    fn none() -> Self {
        Gain { low: 1.0, high: 1.0, of: Quantity::Requests }
    }

    /// In words: `1.8 to 3.5 times the requests`.
    pub fn text(self) -> String {
        let of = match self.of {
            Quantity::Requests => "the requests",
            Quantity::Bytes => "the bytes",
        };
        let (low, high) = (format!("{:.1}", self.low), format!("{:.1}", self.high));
        if low == high { format!("{low} times {of}") } else { format!("{low} to {high} times {of}") }
    }
}

/// The costs of a server to reckon with: those measured, or a cheap one's and a dear one's.
fn costs(workload: &Workload, around: &Surroundings) -> Vec<Cost> {
    // What is known best is what one channel reaches.
    let measured = around.measured.as_ref().map(|measured| calibrated(workload, around, measured.one_channel_iops));
    measured.filter(|costs| !costs.is_empty()).unwrap_or_else(|| vec![CHEAP, DEAR])
}

/// How many times as many requests the second case answers, at least and at most.
fn gain(workload: &Workload, around: &Surroundings, then: impl Fn(Cost) -> f64) -> (f64, f64) {
    let now = |cost| bound(workload, around, around.channels_now(), cost).iops;
    range(costs(workload, around).into_iter().map(|cost| then(cost) / now(cost)))
}

fn range(ratios: impl Iterator<Item = f64>) -> (f64, f64) {
    ratios.fold((f64::MAX, 0.0), |(low, high), ratio| (ratio.min(low), ratio.max(high)))
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}
