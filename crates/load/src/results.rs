//! What a run came to.

use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;

/// The results of a profile.
#[derive(Clone, Debug)]
pub struct Results {
    /// Of each time span, in order.
    pub time_spans: Vec<TimeSpanResults>,
}

/// What one time span came to. Only what was done within the measured time counts.
#[derive(Clone, Debug)]
pub struct TimeSpanResults {
    /// When its warm-up began.
    pub started: SystemTime,
    /// How long was measured, by the clock.
    pub test_time: Duration,
    /// This machine's cores while it was measured, in their order.
    pub cpus: Vec<CpuUsage>,
    /// CPU time (user and system) of this process while it was measured.
    pub own_cpu: Duration,
    /// Each thread, from 0.
    pub threads: Vec<ThreadResults>,
    /// Each channel of the session as it was at the end of the measured time.
    pub channels: Vec<ChannelResults>,
    /// How messages were protected, which may be more than was asked for.
    pub protected: Protected,
}

/// How messages of any of a run's sessions are protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protected {
    /// What is not encrypted is signed.
    pub is_signed: bool,
    /// Everything is encrypted, because of the session or of the share.
    pub is_sealed: bool,
}

/// A core's time in percent of the measured time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuUsage {
    /// In programs.
    pub user: f64,
    /// In the kernel.
    pub kernel: f64,
    /// In nothing.
    pub idle: f64,
}

/// What one thread did.
#[derive(Clone, Debug)]
pub struct ThreadResults {
    /// From 0.
    pub id: u32,
    /// Its targets, in the profile's order.
    pub targets: Vec<TargetResults>,
}

/// What one thread did with one target.
#[derive(Clone, Debug)]
pub struct TargetResults {
    /// As the user wrote it.
    pub path: String,
    /// The target's length in bytes.
    pub file_bytes: u64,
    /// Its distribution as it lies over the file; empty where it has none.
    pub effective: Vec<EffectiveRange>,
    /// Reads.
    pub read: Counts,
    /// Writes.
    pub write: Counts,
}

/// A part of a target, and the part of the requests that goes there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EffectiveRange {
    /// Percent of the requests.
    pub io_percent: f64,
    /// The first byte in the file.
    pub begin: u64,
    /// The byte behind the last.
    pub end: u64,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Bytes that they moved.
    pub bytes: u64,
    /// Their number.
    pub requests: u64,
    /// From when each was due to when it was answered; `None` where latency is not measured.
    pub latency: Option<Latency>,
    /// Their number in each interval of the measured time; empty where no interval is set.
    pub per_interval: Vec<u64>,
}

/// Latencies of requests, which merge.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Nanoseconds, to three digits.
    pub nanoseconds: Histogram<u64>,
    /// The sum of their squares in ns^2, for the exact deviation.
    pub square_sum: f64,
    /// Their sum in ns.
    pub sum: f64,
}

/// What one channel carried in the measured time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelResults {
    /// This end's address.
    pub local: String,
    /// The server's.
    pub remote: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
}

/// Nanoseconds that a histogram holds at most: an hour. What takes longer counts as an hour.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

impl Default for Latency {
    fn default() -> Self {
        // The bounds are constants that the constructor takes.
        let nanoseconds = Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).unwrap_or_else(|_| unreachable!());
        Latency { nanoseconds, square_sum: 0.0, sum: 0.0 }
    }
}

impl Latency {
    /// Counts one.
    pub fn record(&mut self, latency: Duration) {
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.nanoseconds.saturating_record(nanoseconds);
        let nanoseconds = nanoseconds as f64;
        self.sum += nanoseconds;
        self.square_sum += nanoseconds * nanoseconds;
    }

    /// Adds those of another.
    pub fn merge(&mut self, other: &Latency) {
        // Both have the same bounds.
        let _ = self.nanoseconds.add(&other.nanoseconds);
        self.sum += other.sum;
        self.square_sum += other.square_sum;
    }
}

impl Counts {
    /// Adds those of another.
    pub fn merge(&mut self, other: &Counts) {
        self.bytes += other.bytes;
        self.requests += other.requests;
        if let Some(latency) = &other.latency {
            self.latency.get_or_insert_default().merge(latency);
        }
        if self.per_interval.len() < other.per_interval.len() {
            self.per_interval.resize(other.per_interval.len(), 0);
        }
        for (mine, theirs) in self.per_interval.iter_mut().zip(&other.per_interval) {
            *mine += theirs;
        }
    }
}
