//! The machine has no time for the server: its threads have work, and other programs, or a limit, have the cores.

use std::time::Duration;

use super::evidence::{Evidence, Shard};
use super::time::Time;
use super::{Found, Kind, percent, said};

/// What stands in line at shards is there for want of a core where they wait for one so much of the time.
const SHARDS_WAIT_MIN: f64 = 0.2;
/// A limit stops the server where it does for so much of the time.
const THROTTLED_MIN: f64 = 0.02;

/// What requests wait for that is a core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct OfCores {
    /// Of what is counted as waiting for the store.
    pub(super) store: f64,
    /// Of what stands in line at shards.
    pub(super) rest: f64,
}

/// `store` and `rest` are the seconds in which requests waited for the store, and stood in line.
pub(super) fn of_cores(evidence: &Evidence, store: f64, rest: f64) -> OfCores {
    let cores = &evidence.cores;
    let others: f64 = evidence.neighbours.iter().map(|one| Time::in_server(&one.counts).store).sum();
    let own = if store > 0.0 { store / (store + others) } else { 0.0 };
    // Where more requests wait than there are threads, they wait for the one before, too.
    let threads = cores.pool_threads as f64 * cores.passed;
    let line = if threads > 0.0 { ((store + others) / threads).max(1.0) } else { 1.0 };
    let (ran, waited) = of_shards(evidence);
    // A shard that has no core takes nothing up that the store has done.
    let from_store = (cores.pool_waited * own * line + store * waited).min(store);
    let from_rest = if waited >= SHARDS_WAIT_MIN { rest * waited / (ran + waited) } else { 0.0 };
    OfCores { store: from_store, rest: from_rest }
}

/// How much of the time a shard runs, and waits for a core, on average.
fn of_shards(evidence: &Evidence) -> (f64, f64) {
    let count = evidence.shards.len().max(1) as f64;
    let mean = |of: fn(&Shard) -> f64| evidence.shards.iter().map(of).sum::<f64>() / count;
    (mean(|shard| shard.ran), mean(|shard| shard.waited))
}

pub(super) fn find(evidence: &Evidence, time: &Time) -> Option<Found> {
    if time.no_core <= 0.0 {
        return None;
    }
    let cores = &evidence.cores;
    let all = |of: fn(&Shard) -> f64| evidence.shards.iter().map(of).sum::<f64>() * cores.passed;
    let ran = cores.pool_ran + all(|shard| shard.ran);
    let waited = cores.pool_waited + all(|shard| shard.waited);
    let part = if ran + waited > 0.0 { waited / (ran + waited) } else { 0.0 };
    let found = Found::new(Kind::NoCore, time.no_core)
        .says(format!(
            "The machine has no time for the server: of the time in which its threads had work they waited {} for a core.",
            percent(part)
        ))
        .says(format!(
            "That is {} of the time that all requests took, and neither the disk nor a client is to blame for it.",
            percent(time.no_core / time.total())
        ))
        .shows("waited_for_a_core", part)
        .shows("pool_waited_seconds", cores.pool_waited)
        .shows("pool_ran_seconds", cores.pool_ran)
        .shows("shards_waited_for_a_core", of_shards(evidence).1)
        .shows("throttled_times", cores.throttled_times as f64)
        .shows("throttled_seconds", cores.throttled);
    Some(match cores.throttled >= THROTTLED_MIN * cores.passed && cores.throttled_times > 0 {
        true => found
            .says(format!(
                "A limit of processor time has stopped it {} times, for {} in all.",
                cores.throttled_times,
                said(Duration::from_secs_f64(cores.throttled))
            ))
            .mended_by(
                "systemctl set-property multilane.service CPUQuota=   # or a container's --cpus: more, or no limit",
            ),
        false => found
            .says("Other programs have the cores.")
            .mended_by("top   # which other programs compute here; fewer of them, or more cores, mend it"),
    })
}
