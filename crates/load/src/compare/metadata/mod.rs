//! The comparison of metadata: what clients get who create, open, look at, read and delete many small files, with the account's metadata
//! caching off and on, by the number of clients.
//!
//! [`Plan`] says what is measured; [`run`] starts the servers, measures turn by turn and gives a [`Report`].

mod cases;
mod clients;
mod files;
mod plan;
mod report;
mod turn;

use std::time::Duration;

use self::files::FILE_BYTES;
pub use self::plan::{Caching, Choice, Plan, Workload};
use self::plan::{Turn, round};
#[cfg(test)]
pub(super) use self::report::examples;
pub use self::report::{Against, Case, Effect, Latency, Method, Ratio, Report};
use self::turn::{CREATED_MAX, Sample};
pub use super::markdown::metadata_markdown as markdown;
use super::occasion::Beginning;
pub use super::page::metadata_page as page;
use super::servers::{self, Server, Wanted};
use super::{Ending, Watch, ended_early, start_all};
use crate::engine::{Failure, Stop};
use crate::figures::so_many;
use crate::network::Sides;

/// What a file takes of a RAM disk, beside its data.
const NODE_BYTES: u64 = 2 << 10;

/// Measures everything of a plan on all `choices` of servers, of which there must be one. Stopping, ending and networks are as with
/// [`compare::run`](super::run).
pub fn run(
    plan: &Plan,
    choices: &[servers::Choice],
    sides: Sides,
    watch: &dyn Watch,
    stop: &Stop,
) -> Result<Report, Failure> {
    let begun = Beginning::now();
    let bytes = plan.files as u64 * (FILE_BYTES as u64 + NODE_BYTES) + CREATED_MAX as u64 * NODE_BYTES;
    let wanted = Wanted { bytes, channels: 1, sides, store_latency: plan.store_latency };
    let servers = start_all(choices, wanted, watch, stop)?;
    let mut comparison = Comparison { plan, servers, samples: Vec::new(), notes: notes(plan, choices) };
    let measured = comparison.measure(watch, stop);
    comparison.clean_up();
    let is_complete = measured? == Ending::AllDone;
    let Comparison { servers, samples, notes, .. } = comparison;
    let cases = cases::cases(plan, &servers, &samples);
    if cases.is_empty() {
        return Err(ended_early());
    }
    Ok(Report {
        occasion: begun.end(sides, is_complete),
        method: method(plan),
        effects: cases::effects(plan, &servers, &samples),
        against: cases::against(plan, &servers, &samples),
        servers: servers.iter().map(Server::description).collect(),
        cases,
        notes,
    })
}

/// A comparison that goes on.
struct Comparison<'a> {
    plan: &'a Plan,
    servers: Vec<Server>,
    samples: Vec<Sample>,
    notes: Vec<String>,
}

impl Comparison<'_> {
    fn measure(&mut self, watch: &dyn Watch, stop: &Stop) -> Result<Ending, Failure> {
        for server in &self.servers {
            watch.note(&format!("making {} files on {}", self.plan.files, server.name));
            turn::prepare(self.plan, server, stop)?;
        }
        let can_switch: Vec<bool> = self.servers.iter().map(Server::has_operator).collect();
        let rounds: Vec<Vec<Turn>> =
            (0..=self.plan.rounds).map(|number| round(self.plan, &can_switch, number)).collect();
        watch.begins(rounds.iter().map(Vec::len).sum());
        for (number, turns) in (0..).zip(rounds) {
            for turn in turns {
                let Some(server) = self.servers.get(turn.server) else { continue };
                watch.next(&self.label(turn, &server.name, number));
                match turn::take(self.plan, turn, number, server, stop)? {
                    None => return Ok(Ending::Stopped),
                    Some(samples) if number > 0 => self.samples.extend(samples),
                    // The first round is thrown away.
                    Some(_) => {}
                }
            }
        }
        Ok(Ending::AllDone)
    }

    /// A turn in words.
    fn label(&self, turn: Turn, server: &str, round: u32) -> String {
        let clients = so_many(turn.clients, "client");
        let caching = turn.condition.caching().map_or_else(String::new, |caching| format!(", caching {caching}"));
        match round {
            0 => format!("warm-up: {server}, {clients}{caching}"),
            round => format!("round {round}/{}: {server}, {clients}{caching}", self.plan.rounds),
        }
    }

    /// Removes the files from servers that stay.
    fn clean_up(&mut self) {
        for server in self.servers.iter().filter(|server| server.stays()) {
            if let Err(failure) = turn::clean_up(self.plan, server) {
                self.notes.push(format!("Files may be left on {}: {}.", server.name, failure.what));
            }
        }
    }
}

/// What to know of the figures beforehand.
fn notes(plan: &Plan, choices: &[servers::Choice]) -> Vec<String> {
    let Some(latency) = plan.store_latency else { return Vec::new() };
    let ours = |choice: &servers::Choice| matches!(choice, servers::Choice::Own { .. });
    let mut notes = vec![format!(
        "The store of our own server is simulated: a RAM disk, each call of which that a remote store would be asked takes {} longer.",
        milliseconds(latency),
    )];
    if !choices.iter().all(ours) {
        notes.push("Other servers have their files where they have them, without that latency.".to_owned());
    }
    notes
}

fn milliseconds(time: Duration) -> String {
    format!("{} ms", time.as_secs_f64() * 1e3)
}

fn method(plan: &Plan) -> Method {
    let store = plan.store_latency.map_or_else(String::new, |latency| {
        format!(
            " Our own server's store is simulated: a RAM disk, each call of which that a remote store would be asked takes {} longer.",
            milliseconds(latency)
        )
    });
    let description = format!(
        "{} files of 4 KiB in {}. Clients are sessions of one connection each, with {} at once. In a turn so many clients sign in, make files \
         for {:.2} s, delete these, open each file once, which counts for nothing, and then open, look at and read files for {:.2} s each. \
         In each round and for each number of clients a turn is without caching, one with it, and one without it again; servers whose \
         caching is not ours to switch have one turn in the middle; every other round goes backwards. The first of {} rounds is thrown \
         away. A ratio is taken against the mean of both turns without caching in the same round; that of the second of them to the first \
         is what chance does. Figures are medians over the rounds. Latency is that of a whole operation. Network throughput is what the \
         clients sent and received, headers of SMB included.{store}",
        plan.files,
        so_many(plan.folders(), "folder"),
        so_many(plan.depth as usize, "operation"),
        plan.duration.as_secs_f64(),
        plan.duration.as_secs_f64(),
        plan.rounds + 1,
    );
    Method {
        rounds: plan.rounds,
        run_seconds: plan.duration.as_secs_f64(),
        files: plan.files,
        folders: plan.folders(),
        file_bytes: FILE_BYTES,
        depth: plan.depth,
        store_latency_ms: plan.store_latency.map(|latency| latency.as_secs_f64() * 1e3),
        description,
    }
}
