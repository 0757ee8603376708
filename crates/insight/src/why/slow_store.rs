//! The store takes long: a disk, or the network that a folder lies behind.

use std::time::Duration;

use server::admin::{Api, LatencyKind, Sum};

use super::evidence::{About, Evidence};
use super::time::{COUNTED, Time, requests, seconds};
use super::{Found, Kind, percent, said};
use crate::Latencies;

/// A request that waits for the store this many seconds on average has a slow one.
const MEAN_MIN: f64 = 0.004;

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    hangs(evidence, time).or_else(|| is_slow(evidence, time))
}

/// What waits has not ended, and may never.
fn hangs(evidence: &Evidence, time: &Time) -> Option<Found> {
    let waits = evidence.shares.iter().filter_map(|share| Some((&share.view.name, share.view.waits?)));
    let (share, waits) = waits.max_by_key(|(_, waits)| waits.longest).filter(|(_, waits)| waits.hangs())?;
    Some(
        Found::new(Kind::SlowStore, time.store)
            .says(format!(
                "The store of the share {share} does not answer: {} for it, the first for {} now.",
                requests_wait(waits.count),
                said(waits.longest)
            ))
            .shows("waiting_requests", waits.count as f64)
            .shows("longest_wait_seconds", waits.longest.as_secs_f64())
            .mended_by(
                "dmesg | tail   # what the kernel says of the disk, or of the network that the folder lies behind",
            ),
    )
}

fn requests_wait(count: usize) -> String {
    if count == 1 { "one request waits".to_owned() } else { format!("{count} requests wait") }
}

fn is_slow(evidence: &Evidence, time: &Time) -> Option<Found> {
    let counts = &evidence.counts;
    let waited = |api: &Api| seconds(counts, &[*api], Sum::StoreNanos);
    let waiting: Vec<Api> =
        COUNTED.into_iter().filter(|api| *api != Api::QueryDirectory && waited(api) > 0.0).collect();
    let count: f64 = waiting.iter().map(|api| requests(counts, *api)).sum();
    let mean = if count > 0.0 { time.store / count } else { 0.0 };
    if mean < MEAN_MIN {
        return None;
    }
    // Those that wait longest tell how long one wait is: their latency is little else.
    let slowest = waiting.iter().max_by(|a, b| waited(a).total_cmp(&waited(b)))?;
    let latencies = Latencies::of(counts, &[slowest.latency_kind()]);
    let (p50, p99) = (latencies.percentile(50.0)?, latencies.percentile(99.0)?);
    let what = match slowest.latency_kind() {
        LatencyKind::Read => "reads",
        LatencyKind::Write => "writes",
        LatencyKind::Metadata | LatencyKind::Other => "requests that neither read nor write",
    };
    let whose = match (&evidence.about, evidence.shares.as_slice()) {
        (About::Share(name), _) => format!("The store of the share {name}"),
        (About::Session { .. }, [only]) => format!("The store of the share {}", only.view.name),
        (About::Session { .. }, _) => "The store of its shares".to_owned(),
    };
    Some(
        Found::new(Kind::SlowStore, time.store)
            .says(format!("{whose} is slow: waiting for it is {} of the time that all requests took.", percent(time.store / time.total())))
            .says(format!(
                "Half of the {what} take {} or more, one in a hundred {} or more; a request waits {} for the store on average.",
                said(p50),
                said(p99),
                said(Duration::from_secs_f64(mean))
            ))
            .shows("waited_seconds", time.store)
            .shows("mean_wait_ms", mean * 1e3)
            .shows("p50_ms", p50.as_secs_f64() * 1e3)
            .shows("p99_ms", p99.as_secs_f64() * 1e3)
            .mended_by("iostat -x 5   # which disk is busy, and with what; a faster disk, or fewer programs on it, mends it"),
    )
}
