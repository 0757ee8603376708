//! What the server has done in the last minute, in slices of some ten seconds: only what has changed is kept, so that who is idle takes
//! nothing.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use server::admin::{BreakView, CountersRow, CountersView, Counts, Delayed, Scope};

use crate::Change;
use crate::why::About;

/// How often it is looked.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);
/// What is kept.
pub const KEPT: Duration = Duration::from_secs(60);
/// Slices that are kept at most, should somebody look more often,
const SLICES_MAX: usize = 12;
/// and sessions in each of them: those that did most.
const SESSIONS_MAX: usize = 1024;

/// Names a channel: the number of its session, and the client's address and port.
pub type ChannelName = (u64, String);

/// The time of a shard's thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShardTime {
    /// In which it ran.
    pub ran: Duration,
    /// In which it would have, and waited for a core.
    pub waited: Duration,
}

impl ShardTime {
    fn since(self, earlier: ShardTime) -> Self {
        ShardTime { ran: self.ran.saturating_sub(earlier.ran), waited: self.waited.saturating_sub(earlier.waited) }
    }
}

/// What a limit of processor time has done to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttled {
    /// How often it has stopped it,
    pub times: u64,
    /// and for how long, of all cores together.
    pub time: Duration,
}

/// What was seen at one moment.
#[derive(Clone, Debug)]
pub struct Look {
    /// The counters.
    pub counters: CountersView,
    /// The time of each shard since it began; empty where that is not known.
    pub shards: Vec<ShardTime>,
    /// The same of the threads that wait for stores, by their numbers in the system.
    pub pool: HashMap<u64, ShardTime>,
    /// What a limit of processor time has done, since it is there.
    pub throttled: Throttled,
    /// Requests of each share that have had to wait for a limit since it is served.
    pub delayed: HashMap<String, Vec<Delayed>>,
    /// How long each channel has had something on its way, since its connection began, of those that move much.
    pub busy: HashMap<ChannelName, Duration>,
    /// Who keeps others waiting.
    pub breaks: Vec<BreakView>,
}

/// What was seen between two looks.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    /// The time between them.
    pub passed: Duration,
    /// What was counted of shares and sessions, of those that did something.
    pub rows: HashMap<About, Counts>,
    /// The time of each shard.
    pub shards: Vec<ShardTime>,
    /// The time of all threads that wait for stores, and how many of them did something.
    pub pool: ShardTime,
    /// As above.
    pub pool_threads: usize,
    /// What a limit of processor time did.
    pub throttled: Throttled,
    /// Requests that had to wait.
    pub delayed: HashMap<String, Vec<Delayed>>,
    /// How long channels had something on its way.
    pub busy: HashMap<ChannelName, Duration>,
    /// Who kept others waiting, at its end.
    pub breaks: Vec<BreakView>,
    /// How many channels sessions had at its end, of those that had several.
    pub channels: HashMap<u64, usize>,
}

/// The last minute.
#[derive(Debug, Default)]
pub struct History {
    last: Option<Look>,
    slices: VecDeque<Slice>,
    /// Shares of which requests have had to wait in each slice since then.
    throttled: HashMap<String, Duration>,
}

impl History {
    /// It was looked once more. Looks of one server follow each other.
    pub fn add(&mut self, mut look: Look) {
        look.counters.rows.retain(|row| about(&row.scope).is_some() || is_channel(&row));
        look.counters.rows.shrink_to_fit();
        if let Some(last) = self.last.take() {
            let slice = Slice::between(&last, &look);
            self.throttled.retain(|share, _| slice.delayed.contains_key(share));
            for share in slice.delayed.keys() {
                self.throttled.entry(share.clone()).or_insert(last.counters.at);
            }
            self.slices.push_back(slice);
        }
        while self.slices.len() > SLICES_MAX || self.covers() > KEPT + LOOK_EVERY / 2 {
            self.slices.pop_front();
        }
        self.last = Some(look);
    }

    /// What has been seen of the last minute, up to a look that is not kept.
    pub fn up_to(&self, look: &Look) -> Vec<Slice> {
        // Another look may have been kept since this one was made.
        let before = self.last.as_ref().filter(|last| last.counters.at <= look.counters.at);
        let newest = before.map(|last| Slice::between(last, look));
        let mut slices: Vec<Slice> = self.slices.iter().cloned().chain(newest).collect();
        let covers: fn(&[Slice]) -> Duration = |slices| slices.iter().map(|slice| slice.passed).sum();
        while slices.len() > 1 && covers(&slices) > KEPT + LOOK_EVERY / 2 {
            slices.remove(0);
        }
        slices
    }

    /// For how long requests of a share have had to wait for a limit without a pause, by a look that is not kept; `None` where none
    /// had to just now.
    pub fn throttled_for(&self, share: &str, look: &Look) -> Option<Duration> {
        let last = self.last.as_ref()?;
        let began = self.throttled.get(share).copied().or_else(|| {
            let now = slice_delayed(last, look);
            now.contains_key(share).then_some(last.counters.at)
        })?;
        Some(look.counters.at.saturating_sub(began))
    }

    /// Channels that moved at least so many bytes since the last look that was kept.
    pub fn movers(&self, counters: &CountersView, bytes_min: u64) -> Vec<Scope> {
        let before: HashMap<&Scope, u64> = match &self.last {
            Some(last) => {
                last.counters.rows.iter().filter(is_channel).map(|row| (&row.scope, moved(&row.counts))).collect()
            }
            None => HashMap::new(),
        };
        let moves = |row: &&CountersRow| {
            moved(&row.counts).saturating_sub(before.get(&row.scope).copied().unwrap_or(0)) >= bytes_min
        };
        counters.rows.iter().filter(is_channel).filter(moves).map(|row| row.scope.clone()).collect()
    }

    fn covers(&self) -> Duration {
        self.slices.iter().map(|slice| slice.passed).sum()
    }
}

fn is_channel(row: &&CountersRow) -> bool {
    matches!(row.scope, Scope::Channel { .. })
}

/// Whom a row is about that slices have.
fn about(scope: &Scope) -> Option<About> {
    match scope {
        Scope::Share { name, .. } => name.clone().map(About::Share),
        Scope::Session { id, user, .. } => Some(About::Session { id: *id, user: user.clone() }),
        _ => None,
    }
}

/// What was done, of shares and of the sessions that did most.
fn busiest(rows: &[CountersRow]) -> HashMap<About, Counts> {
    let idle = Counts::default();
    let is_session = |row: &&CountersRow| matches!(row.scope, Scope::Session { .. });
    let (mut sessions, others): (Vec<_>, Vec<_>) = rows.iter().filter(|row| row.counts != idle).partition(is_session);
    if sessions.len() > SESSIONS_MAX {
        sessions.sort_by_cached_key(|row| std::cmp::Reverse(row.counts.all_requests()));
        sessions.truncate(SESSIONS_MAX);
    }
    let mut busiest: HashMap<About, Counts> = HashMap::new();
    for row in others.into_iter().chain(sessions) {
        if let Some(about) = about(&row.scope) {
            // A share has a row for each way to sign in.
            busiest.entry(about).or_default().add(&row.counts);
        }
    }
    busiest
}

fn moved(counts: &Counts) -> u64 {
    use server::admin::{Api, Sum};
    [Api::Read, Api::Write]
        .iter()
        .map(|api| counts.sum(*api, Sum::ReadBytes) + counts.sum(*api, Sum::WrittenBytes))
        .sum()
}

impl Slice {
    fn between(earlier: &Look, later: &Look) -> Self {
        let change = Change::between(&earlier.counters, &later.counters);
        let mut channels: HashMap<u64, usize> = HashMap::new();
        for row in &later.counters.rows {
            if let Scope::Channel { session, .. } = row.scope {
                *channels.entry(session).or_default() += 1;
            }
        }
        channels.retain(|_, count| *count > 1);
        let busy = later.busy.iter().filter_map(|(channel, busy)| {
            let before = earlier.busy.get(channel).copied()?;
            Some((channel.clone(), busy.saturating_sub(before)))
        });
        let of_pool =
            later.pool.iter().map(|(thread, time)| time.since(earlier.pool.get(thread).copied().unwrap_or_default()));
        let of_pool: Vec<ShardTime> = of_pool.filter(|time| *time != ShardTime::default()).collect();
        let (now, before) = (later.throttled, earlier.throttled);
        Slice {
            pool: ShardTime {
                ran: of_pool.iter().map(|time| time.ran).sum(),
                waited: of_pool.iter().map(|time| time.waited).sum(),
            },
            pool_threads: of_pool.len(),
            throttled: Throttled {
                times: now.times.saturating_sub(before.times),
                time: now.time.saturating_sub(before.time),
            },
            passed: change.passed,
            rows: busiest(&change.rows),
            shards: later.shards.iter().zip(&earlier.shards).map(|(now, before)| now.since(*before)).collect(),
            delayed: slice_delayed(earlier, later),
            busy: busy.collect(),
            breaks: later.breaks.clone(),
            channels,
        }
    }
}

/// The shares of which requests had to wait between two looks, and for which limits.
fn slice_delayed(earlier: &Look, later: &Look) -> HashMap<String, Vec<Delayed>> {
    let before = |share: &String, of: &Delayed| {
        let known = earlier.delayed.get(share).into_iter().flatten();
        known.filter(|known| known.by == of.by && known.used_up == of.used_up).map(|known| known.requests).sum::<u64>()
    };
    let mut delayed = HashMap::new();
    for (share, now) in &later.delayed {
        let more = now.iter().map(|one| Delayed { requests: one.requests.saturating_sub(before(share, one)), ..*one });
        let more: Vec<Delayed> = more.filter(|one| one.requests > 0).collect();
        if !more.is_empty() {
            delayed.insert(share.clone(), more);
        }
    }
    delayed
}
