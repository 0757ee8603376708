//! Sums over threads and targets, which both reports are made of.

use std::time::Duration;

use crate::profile::{Profile, TimeSpan};
use crate::results::{Counts, EffectiveRange, Latency, Results, TargetResults, TimeSpanResults};

/// Which requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Total,
    Read,
    Write,
}

impl Kind {
    /// The requests of this kind that a thread did with a target.
    pub(super) fn of(self, results: &TargetResults) -> impl Iterator<Item = &Counts> {
        let read = (self != Kind::Write).then_some(&results.read);
        let write = (self != Kind::Read).then_some(&results.write);
        read.into_iter().chain(write)
    }
}

/// What a line of a report tells. Unlike [`Counts`] it has no histogram, which takes much memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) bytes: u64,
    pub(super) requests: u64,
    /// Requests whose latency is known.
    samples: u64,
    sum_ns: f64,
    square_sum: f64,
    per_interval: Vec<u64>,
}

impl Sums {
    /// The sums of requests of some kind over some results.
    pub(super) fn of<'a>(kind: Kind, results: impl IntoIterator<Item = &'a TargetResults>) -> Self {
        let mut sums = Sums::default();
        for counts in results.into_iter().flat_map(|results| kind.of(results)) {
            sums.add(counts);
        }
        sums
    }

    fn add(&mut self, counts: &Counts) {
        self.bytes += counts.bytes;
        self.requests += counts.requests;
        if let Some(latency) = &counts.latency {
            self.samples += latency.nanoseconds.len();
            self.sum_ns += latency.sum;
            self.square_sum += latency.square_sum;
        }
        // DiskSpd counts no interval of a kind that had no request.
        if counts.requests > 0 {
            if self.per_interval.len() < counts.per_interval.len() {
                self.per_interval.resize(counts.per_interval.len(), 0);
            }
            for (mine, theirs) in self.per_interval.iter_mut().zip(&counts.per_interval) {
                *mine += theirs;
            }
        }
    }

    /// The mean latency in milliseconds.
    pub(super) fn mean_ms(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum_ns / self.samples as f64 / 1e6)
    }

    /// The standard deviation of the latency in milliseconds.
    pub(super) fn deviation_ms(&self) -> Option<f64> {
        let mean = self.mean_ms()? * 1e6;
        let variance = self.square_sum / self.samples as f64 - mean * mean;
        Some(variance.max(0.0).sqrt() / 1e6)
    }

    /// Requests in each interval; empty where none were counted.
    pub(super) fn per_interval(&self) -> &[u64] {
        &self.per_interval
    }

    /// The standard deviation of requests a second over the intervals.
    pub(super) fn iops_deviation(&self, interval: Duration) -> Option<f64> {
        let count = self.per_interval.len() as f64;
        if self.per_interval.is_empty() {
            return None;
        }
        let mean = self.per_interval.iter().map(|requests| *requests as f64).sum::<f64>() / count;
        let squares: f64 = self.per_interval.iter().map(|requests| (*requests as f64 - mean).powi(2)).sum();
        Some((squares / count).sqrt() / interval.as_secs_f64())
    }
}

/// The targets of all threads, in their order.
pub(super) fn targets(results: &TimeSpanResults) -> impl Iterator<Item = &TargetResults> + Clone {
    results.threads.iter().flat_map(|thread| &thread.targets)
}

/// The paths whose distribution lies over the file in a way of its own, each with its ranges. All threads of a target have the same.
pub(super) fn distributed(results: &TimeSpanResults) -> Vec<(&str, &[EffectiveRange])> {
    let mut distributed = Vec::new();
    for target in targets(results).filter(|target| !target.effective.is_empty()) {
        let of_target = (target.path.as_str(), target.effective.as_slice());
        if !distributed.contains(&of_target) {
            distributed.push(of_target);
        }
    }
    distributed
}

/// All latencies of some results, merged.
pub(super) fn latency<'a>(kind: Kind, results: impl IntoIterator<Item = &'a TargetResults>) -> Latency {
    let mut merged = Latency::default();
    for latency in results.into_iter().flat_map(|results| kind.of(results)).filter_map(|counts| counts.latency.as_ref())
    {
        merged.merge(latency);
    }
    merged
}

/// Milliseconds below which this share of the latencies is; 0 is the least and 1 the greatest. `None` where there are none.
pub(super) fn quantile_ms(latency: &Latency, share: f64) -> Option<f64> {
    let nanoseconds = &latency.nanoseconds;
    if nanoseconds.is_empty() {
        return None;
    }
    let value = if share <= 0.0 { nanoseconds.min() } else { nanoseconds.value_at_quantile(share) };
    Some(value as f64 / 1e6)
}

/// What stands for the results of a time span that had none.
pub(super) const NOT_MEASURED: &str = "The run ended before measuring began: there are no results.";

/// The time spans that were begun, with the results of those that were measured. A run that is ended early begins no others.
pub(super) fn begun<'a>(
    profile: &'a Profile,
    results: &'a Results,
) -> impl Iterator<Item = (&'a TimeSpan, Option<&'a TimeSpanResults>)> {
    let results = &results.time_spans;
    let begun = profile.time_spans.iter().take(results.len().max(1));
    begun.enumerate().map(|(index, span)| (span, results.get(index).filter(|results| was_measured(results))))
}

/// True where measuring had begun.
pub(super) fn was_measured(results: &TimeSpanResults) -> bool {
    results.test_time >= Duration::from_nanos(100)
}
