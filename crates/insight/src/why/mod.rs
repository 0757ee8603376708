//! Where the time went: the causes of slowness, judged by numbers alone.
//!
//! The time is that of all requests together, as clients wait for it. Most of it the server has counted, with what it was waited for. Two
//! parts of it are outside: the time between the requests of a client that sends one at a time, and the time in which a full channel carries
//! data. Each cause says how much of all that it explains; those that explain little, or little time, are none.

mod channel_lost;
mod evidence;
mod lease_holder;
mod limit;
mod listing;
mod neighbour;
mod no_core;
mod one_at_a_time;
mod one_channel;
mod protection;
mod shards;
mod slow_store;
#[cfg(test)]
mod tests;
mod time;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use evidence::{
    About, ChannelFacts, Cores, Evidence, Holder, Neighbour, Path, Plan, ProvisionedBy, SessionFacts, Shard,
    ShareFacts, TimeOfDay,
};
use time::Time;

/// A cause explains at least this part of the time.
const SHARE_MIN: f64 = 0.2;
/// What all requests together spent is little where it is less than this part of the time in which they came: nobody waited.
const TIME_MIN: f64 = 0.03;

/// What makes requests slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A limit of requests a second is used up.
    IopsLimit,
    /// A limit of bytes a second is.
    ThroughputLimit,
    /// The limit of requests that neither read nor write is.
    MetadataLimit,
    /// Credits for bursts have run out.
    BurstCredits,
    /// Memory that a user, or all, may have.
    Memory,
    /// A client does not give up what it caches, or has locked.
    LeaseHolder,
    /// The store takes long.
    SlowStore,
    /// The machine has no time for the server's threads.
    NoCore,
    /// A channel was lost, or its other end does not answer.
    ChannelLost,
    /// Everything goes over one channel where there could be several.
    OneChannel,
    /// A client sends small requests, and one at a time.
    OneAtATime,
    /// A client sends small requests in bursts, and pauses between them.
    InBursts,
    /// Signing or sealing takes the shards' time.
    Protection,
    /// Large folders are listed.
    Listing,
    /// Somebody else has the shards busy.
    Neighbour,
    /// The shards have no time left.
    Shards,
}

/// A cause of slowness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// What it is.
    pub kind: Kind,
    /// The part of the time that it explains, 0 to 1.
    pub share: f64,
    /// What was found, in sentences.
    pub sentences: Vec<String>,
    /// The numbers behind them, with their units in their names.
    pub evidence: BTreeMap<String, f64>,
    /// The command that mends it, or what to do where no command does.
    pub command: String,
}

/// What was found of one share or session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Whom it is about, as a sentence names it; `None` where nobody did anything.
    pub about: Option<String>,
    /// How many seconds it covers.
    pub seconds: f64,
    /// True where the server has run for less than a minute.
    pub is_short: bool,
    /// Requests that were done.
    pub requests: u64,
    /// The causes, the one that explains most of the time first. None where nothing is slow.
    pub causes: Vec<Cause>,
}

/// A cause before it is known how much of all it is.
struct Found {
    kind: Kind,
    /// Seconds of requests that it explains.
    time: f64,
    sentences: Vec<String>,
    evidence: Vec<(&'static str, f64)>,
    command: String,
}

impl Found {
    fn new(kind: Kind, time: f64) -> Self {
        Found { kind, time, sentences: Vec::new(), evidence: Vec::new(), command: String::new() }
    }

    fn says(mut self, sentence: impl Into<String>) -> Self {
        self.sentences.push(sentence.into());
        self
    }

    fn shows(mut self, name: &'static str, number: f64) -> Self {
        self.evidence.push((name, number));
        self
    }

    fn mended_by(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }
}

/// What makes it slow, the cause that explains most of the time first. Empty where nothing does.
pub fn causes(evidence: &Evidence) -> Vec<Cause> {
    let time = Time::of(evidence);
    let total = time.total();
    if total <= 0.0 || total < TIME_MIN * evidence.active.as_secs_f64() {
        return Vec::new();
    }
    let found = [
        limit::find,
        lease_holder::find,
        slow_store::find,
        no_core::find,
        channel_lost::find,
        one_channel::find,
        one_at_a_time::find,
        protection::find,
        listing::find,
        neighbour::find,
    ];
    let mut found: Vec<Found> = found.iter().filter_map(|find| find(evidence, &time)).collect();
    found.retain(|found| is_enough(found, total, evidence));
    // That the shards are busy says less than who has them busy.
    let is_of_shards = |found: &Found| matches!(found.kind, Kind::Protection | Kind::Neighbour | Kind::NoCore);
    if !found.iter().any(is_of_shards) {
        found.extend(shards::find(evidence, &time).filter(|found| is_enough(found, total, evidence)));
    }
    found.sort_by(|a, b| b.time.total_cmp(&a.time));
    found.into_iter().map(|found| cause(found, total)).collect()
}

fn is_enough(found: &Found, total: f64, evidence: &Evidence) -> bool {
    found.time >= SHARE_MIN * total && found.time >= TIME_MIN * evidence.active.as_secs_f64()
}

fn cause(found: Found, total: f64) -> Cause {
    let evidence = found.evidence.into_iter().map(|(name, number)| (name.to_owned(), number)).collect();
    Cause {
        kind: found.kind,
        share: (found.time / total).min(1.0),
        sentences: found.sentences,
        evidence,
        command: found.command,
    }
}

/// A time as people say it.
fn said(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds >= 100.0 => format!("{seconds:.0} s"),
        seconds if seconds >= 1.0 => format!("{seconds:.1} s"),
        seconds if seconds >= 0.01 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds >= 0.001 => format!("{:.1} ms", seconds * 1e3),
        seconds => format!("{:.0} us", seconds * 1e6),
    }
}

fn percent(part: f64) -> String {
    format!("{:.0} %", part * 100.0)
}

/// A name as a shell takes it.
fn quoted(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.$".contains(letter);
    if !name.is_empty() && name.chars().all(|letter| is_plain(letter) && letter != '$') {
        return name.to_owned();
    }
    format!("'{}'", name.replace('\'', r"'\''"))
}
