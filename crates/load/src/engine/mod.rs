//! Runs a profile: prepares its files, keeps each thread's requests in flight for the time it says, and counts. It does so over one session for each
//! share, as Windows does, whose channels are all open before anything counts.
//!
//! - `prepare.rs` makes the files; `plan.rs` says which thread has which targets; `thread.rs` is one thread in DiskSpd's sense: a task that polls a
//!   future for each request in flight. `workers.rs` are the machine's threads.
//! - Time is read once a request. With a rate (`pace.rs`) requests are due by a schedule that does not wait for answers (`timer.rs`).
//! - `window.rs` says what counts: what is answered between two moments that were fixed before the first request. The thread that called keeps the
//!   time and ends the run with the first failure, or after 10 s without the last answers.

mod content;
mod files;
mod liveness;
mod meter;
mod mounts;
mod offsets;
mod pace;
mod plan;
mod prepare;
mod span;
mod tally;
mod thread;
mod timer;
mod window;
mod workers;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use client::{Settings, Target};

use crate::engine::files::Cut;
use crate::engine::mounts::Mounts;
use crate::engine::prepare::prepare_first;
use crate::engine::workers::Workers;
use crate::profile::Profile;
use crate::results::{Results, TimeSpanResults};

/// A share of a server, and how to sign in. Targets of the same mount use the same session.
#[derive(Clone)]
pub struct Mount {
    /// The server, and who signs in.
    pub server: Target,
    /// How the client behaves: channels, sealing.
    pub settings: Settings,
    /// The share's name.
    pub share: String,
}

/// Where a target's path leads.
#[derive(Clone)]
pub struct Place {
    /// The share. The same `Arc` is the same session.
    pub mount: Arc<Mount>,
    /// The file's name from the share's root, with `\` between its parts.
    pub name: String,
}

/// Finds the place that a path stands for.
pub trait Places: Sync {
    /// The place, or what is wrong with the path.
    fn place(&self, path: &str) -> Result<Place, Failure>;
}

/// Where a run is, for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Files are made and filled.
    Preparing,
    /// Nothing counts yet.
    WarmingUp,
    /// Everything counts.
    Measuring,
    /// Nothing counts any more.
    CoolingDown,
}

/// What a run tells while it goes on, and hears.
pub trait Watch: Sync {
    /// The time span with this number, from 0, has come to this phase.
    fn phase(&self, time_span: usize, phase: Phase);
    /// One line of what goes on, for `-v`.
    fn note(&self, line: &str);
}

/// Ends a run early, in order: what was measured by then is the result.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks for the end.
    pub fn now(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once the end was asked for.
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Why a run gave no results.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {remedy}")]
pub struct Failure {
    /// What happened, to which target.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl Failure {
    /// What the client said about a target.
    fn of(path: &str, error: &client::Error) -> Self {
        Failure { what: format!("{path}: {error}"), remedy: error.remedy().to_owned() }
    }
}

/// Runs all time spans of a profile, one after the other. It makes its own threads and may be called from any but an asynchronous one.
/// Where the end is asked for, the results are those of what was measured by then, perhaps of no time span.
pub fn run(profile: &Profile, places: &dyn Places, watch: &dyn Watch, stop: &Stop) -> Result<Results, Failure> {
    let workers = Workers::start(profile).map_err(|cause| Failure {
        what: format!("cannot start threads: {cause}"),
        remedy: "see what this machine lacks".to_owned(),
    })?;
    let mut run = Run { places, watch, stop, mounts: Mounts::default(), made: HashSet::new() };
    let ended = run.all(profile, &workers);
    workers.wait_for(run.mounts.close());
    workers.end();
    Ok(Results { time_spans: ended? })
}

/// What the time spans of a run share.
struct Run<'a> {
    places: &'a dyn Places,
    watch: &'a dyn Watch,
    stop: &'a Stop,
    mounts: Mounts,
    /// Paths whose files were made before the first time span.
    made: HashSet<String>,
}

impl Run<'_> {
    /// Until the end is asked for.
    fn all(&mut self, profile: &Profile, workers: &Workers) -> Result<Vec<TimeSpanResults>, Failure> {
        let mut results = Vec::with_capacity(profile.time_spans.len());
        match workers.wait_for(self.mounts.lost().or(prepare_first(self, profile))) {
            Ok(()) => {}
            Err(Cut::Stopped) => return Ok(results),
            Err(Cut::Failed(failure)) => return Err(failure),
        }
        for (number, span) in profile.time_spans.iter().enumerate() {
            match span::run(self, workers, number, span) {
                Ok(of_span) => results.push(of_span),
                Err(Cut::Stopped) => break,
                Err(Cut::Failed(failure)) => return Err(failure),
            }
        }
        Ok(results)
    }
}
