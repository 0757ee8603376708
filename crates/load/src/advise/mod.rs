//! Whether multichannel should be on for a workload, and what else would make it faster.
//!
//! Everything follows from a model of a few bounds ([`model`]), asked what each change would give: with a server that does little for
//! each request and with one that does much, which makes the range. Where the workload was measured, the measurement comes before the model.

pub mod measure;
mod model;
pub mod share;
mod surroundings;
#[cfg(test)]
mod tests;
mod ways;

use std::time::Duration;

use serde::Serialize;

pub use self::model::LATENCY_ASSUMED;
use self::model::{CHEAP, Cost, DEAR, bound, calibrated};
use crate::figures;

/// Requests in flight from which nothing more is gained, and latency only grows, as Azure Files' documentation has it.
const IN_FLIGHT_ENOUGH: f64 = 64.0;
/// A gain below this is none: measurements of the same thing differ by as much.
const GAIN_MIN: f64 = 1.05;
/// What sharing the work between connections costs at most, of the gain.
const SHARING_LOSS: f64 = 0.2;
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
        if self.is_azure { self.channels.min(share::CHANNELS_MAX) } else { self.channels }
    }
}

/// What to do, what gives most first. Whether multichannel should be on is always said.
pub fn advise(workload: &Workload, around: &Surroundings) -> Vec<Advice> {
    let mut advice = vec![multichannel(workload, around)];
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
    let measured = around.measured.as_ref().and_then(|measured| {
        // What is known best is what one channel reaches.
        calibrated(workload, around, measured.one_channel_iops)
    });
    measured.map_or_else(|| vec![CHEAP, DEAR], |cost| vec![cost])
}

/// How many times as many requests the second case answers, at least and at most.
fn gain(workload: &Workload, around: &Surroundings, then: impl Fn(Cost) -> f64) -> (f64, f64) {
    let now = |cost| bound(workload, around, around.channels_now(), cost).iops;
    range(costs(workload, around).into_iter().map(|cost| then(cost) / now(cost)))
}

fn range(ratios: impl Iterator<Item = f64>) -> (f64, f64) {
    ratios.fold((f64::MAX, 0.0), |(low, high), ratio| (ratio.min(low), ratio.max(high)))
}

fn multichannel(workload: &Workload, around: &Surroundings) -> Advice {
    match &around.measured {
        Some(measured) if around.multichannel == Offer::On => by_measurement(measured),
        Some(_) | None => by_model(workload, around),
    }
}

fn by_measurement(measured: &Measured) -> Advice {
    let gain = match measured.channels {
        // What the rounds differ by is chance.
        0..=1 => Gain::none(),
        2.. => Gain { low: measured.ratio_low, high: measured.ratio_high, of: Quantity::Requests },
    };
    let (verdict, action, reason) = match measured.ratio {
        _ if measured.channels < 2 => (
            Verdict::Either,
            "Multichannel may stay as it is.",
            "There is only one channel with it, too: the interfaces of both sides suggest no more.",
        ),
        ratio if ratio >= GAIN_MIN && measured.ratio_low > 1.0 => {
            (Verdict::On, "Have multichannel on.", "It was faster in every round.")
        }
        ratio if ratio <= 1.0 / GAIN_MIN && measured.ratio_high < 1.0 => {
            (Verdict::Off, "Have multichannel off for this workload.", "It was slower in every round.")
        }
        _ => (
            Verdict::Either,
            "Multichannel may be on: it does no harm here, and a session with several channels outlives a broken one.",
            "The rounds do not agree on a difference, or it is smaller than what chance makes of it.",
        ),
    };
    let evidence = vec![
        format!(
            "measured in {} rounds of {:.1} s each way: {} requests a second with one channel, {} with {} where several may be",
            measured.rounds,
            measured.run.as_secs_f64(),
            figures::count(measured.one_channel_iops),
            figures::count(measured.several_channels_iops),
            figures::so_many(measured.channels, "channel")
        ),
        format!("ratio {:.2}, from {:.2} to {:.2}", measured.ratio, measured.ratio_low, measured.ratio_high),
    ];
    let (action, reason) = (action.to_owned(), reason.to_owned());
    Advice { subject: Subject::Multichannel(verdict), action, gain, reason, evidence, source: "measured here" }
}

fn by_model(workload: &Workload, around: &Surroundings) -> Advice {
    let channels = around.channels_usable();
    let one = |cost| bound(workload, around, 1, cost);
    let many = |cost| bound(workload, around, channels, cost);
    let costs = costs(workload, around);
    let (low, high) = range(costs.iter().map(|cost| many(*cost).iops / one(*cost).iops));
    let low = 1.0 + (low - 1.0) * (1.0 - SHARING_LOSS);
    let mut gain = Gain { low, high, of: Quantity::Requests };
    let mut evidence: Vec<String> = around.assumed.clone();
    evidence.push(format!(
        "{} over {} of interfaces, {} each; {} here",
        figures::so_many(channels, "channel"),
        figures::so_many(around.pairs, "pair"),
        figures::link(around.link_bits_per_second),
        figures::so_many(around.cores, "core")
    ));
    for cost in &costs {
        let (one, many) = (one(*cost).text(workload, around), many(*cost).text(workload, around));
        let server = if costs.len() == 1 { "" } else { cost.text() };
        evidence.push(format!("over one channel{server}: {one}"));
        if channels > 1 {
            evidence.push(format!("over {channels}{server}: {many}"));
        }
    }
    let is_lone = workload.in_flight() <= 1.0;
    let is_small_on_one = workload.files == 1 && workload.block_bytes < SMALL_BYTES;
    let (verdict, reason) = if channels < 2 {
        gain = Gain::none();
        (
            Verdict::Either,
            "The interfaces of both sides suggest one channel only: one link, without several receive queues.".into(),
        )
    } else if is_lone {
        gain = Gain { low: SMALL_LOSS, high: 1.0, of: Quantity::Requests };
        (Verdict::Either, "One request at a time uses one channel at a time. Windows' client loses up to a tenth by it; Multilane's keeps to one channel.".into())
    } else if gain.high < GAIN_MIN {
        gain.low = if is_small_on_one { SMALL_LOSS } else { 1.0 };
        let bound = one(costs.first().copied().unwrap_or(CHEAP));
        (Verdict::Either, format!("One channel is not what holds this back, but {}.", bound.text(workload, around)))
    } else {
        if is_small_on_one {
            gain.low = SMALL_LOSS;
        }
        (
            Verdict::On,
            "Each channel is served by a core and a receive queue of its own, or goes over a link of its own.".into(),
        )
    };
    let action = action(verdict, around);
    Advice { subject: Subject::Multichannel(verdict), action, gain, reason, evidence, source: ways::GUIDANCE }
}

/// What to do about multichannel, given how it stands.
fn action(verdict: Verdict, around: &Surroundings) -> String {
    match (verdict, around.multichannel) {
        (Verdict::On, Offer::OffAtServer) => {
            "Switch multichannel on at the server: `multilane account update ACCOUNT --multichannel on`, `server multi channel support = yes` \
             for Samba, or the SMB settings of the storage account."
                .into()
        }
        (Verdict::On, Offer::On | Offer::Unknown) => "Have multichannel on.".into(),
        (Verdict::Off, _) => "Have multichannel off for this workload.".into(),
        (Verdict::Either, _) => "Multichannel may stay as it is.".into(),
    }
}

fn seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}
