//! Which files are read and written most just now, by samples: of the requests on a shard about one in [`EVERY`] is remembered with its open. That costs
//! a READ or WRITE a step of a counter, and no file has counters that several cores would have to agree on.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::state::open::Open;

/// Of so many requests one is remembered, on average: by chance, as files may be used in turn.
const EVERY: u32 = 32;
/// So many are remembered of a shard.
const SAMPLES_MAX: usize = 2_048;

/// A file that is read or written, and about how much.
#[derive(Clone, Debug, PartialEq)]
pub struct FileView {
    /// The share.
    pub share: String,
    /// The path in the share.
    pub path: String,
    /// READs and WRITEs a second,
    pub iops: f64,
    /// bytes a second that READs were answered with,
    pub read_bytes: f64,
    /// and bytes a second that WRITEs brought.
    pub written_bytes: f64,
}

/// The samples of all shards.
pub(crate) struct BusyFiles {
    shards: Vec<Shard>,
}

/// Those of one, which it takes alone.
struct Shard {
    /// Requests until the next one is remembered.
    left: AtomicU32,
    /// The state of a xorshift, which is never zero.
    chance: AtomicU32,
    samples: Mutex<VecDeque<Sample>>,
}

struct Sample {
    at: Instant,
    open: Weak<Open>,
    moved: Used,
}

/// What a request did with a file, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Used {
    Read(u64),
    Wrote(u64),
}

impl BusyFiles {
    pub(crate) fn new(shards: usize) -> Self {
        let shard = |number| Shard {
            left: AtomicU32::new(EVERY),
            chance: AtomicU32::new(0x9E37_79B9 ^ number),
            samples: Mutex::new(VecDeque::with_capacity(SAMPLES_MAX)),
        };
        BusyFiles { shards: (0..shards.max(1) as u32).map(shard).collect() }
    }

    /// A request on a shard has used the file of an open.
    pub(crate) fn note(&self, shard: usize, open: &Arc<Open>, moved: Used) {
        let shard = &self.shards[shard % self.shards.len()];
        match shard.left.load(Ordering::Relaxed) {
            0 => shard.remember(open, moved),
            left => shard.left.store(left - 1, Ordering::Relaxed),
        }
    }

    /// The files that were used in the last time `within`, those first that were most, and so many at most. Files that are closed by now are not known any more.
    pub(crate) fn most_used(&self, within: Duration, most: usize) -> Vec<FileView> {
        let now = Instant::now();
        let mut used: HashMap<(String, String), FileView> = HashMap::new();
        for (open, moved, each) in self.shards.iter().flat_map(|shard| shard.within(now, within)) {
            let Some(open) = open.upgrade() else { continue };
            let Ok(file) = open.file() else { continue };
            let (share, path) = (open.tree.place.to_string(), file.name());
            let view = used.entry((share.clone(), path.clone())).or_insert_with(|| FileView {
                share,
                path,
                iops: 0.0,
                read_bytes: 0.0,
                written_bytes: 0.0,
            });
            view.iops += each;
            match moved {
                Used::Read(bytes) => view.read_bytes += each * bytes as f64,
                Used::Wrote(bytes) => view.written_bytes += each * bytes as f64,
            }
        }
        let mut used: Vec<FileView> = used.into_values().collect();
        used.sort_by(|a, b| b.iops.total_cmp(&a.iops).then_with(|| (&a.share, &a.path).cmp(&(&b.share, &b.path))));
        used.truncate(most);
        used
    }
}

impl Shard {
    fn remember(&self, open: &Arc<Open>, moved: Used) {
        let mut chance = self.chance.load(Ordering::Relaxed);
        chance ^= chance << 13;
        chance ^= chance >> 17;
        chance ^= chance << 5;
        self.chance.store(chance, Ordering::Relaxed);
        // One of the numbers below twice the mean, less this request itself.
        self.left.store(chance % (2 * EVERY - 1), Ordering::Relaxed);
        let sample = Sample { at: Instant::now(), open: Arc::downgrade(open), moved };
        let mut samples = self.samples.lock();
        let oldest = if samples.len() >= SAMPLES_MAX { samples.pop_front() } else { None };
        samples.push_back(sample);
        drop(samples);
        drop(oldest);
    }

    /// The samples of that time, each with how many requests a second it stands for.
    fn within(&self, now: Instant, within: Duration) -> Vec<(Weak<Open>, Used, f64)> {
        let samples = self.samples.lock();
        let age = |sample: &Sample| now.saturating_duration_since(sample.at);
        // Where many came, what is remembered does not go back so far.
        let known = match samples.front() {
            Some(first) if samples.len() >= SAMPLES_MAX => age(first).min(within),
            _ => within,
        };
        let each = f64::from(EVERY) / known.as_secs_f64().max(1e-3);
        let meant = samples.iter().filter(|sample| age(sample) <= known);
        meant.map(|sample| (Weak::clone(&sample.open), sample.moved, each)).collect()
    }
}
