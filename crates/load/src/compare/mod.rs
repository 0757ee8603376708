//! The comparison: one channel against several, on our server and on others, over workloads and block sizes.
//!
//! [`Plan`] says what is measured; [`run`] starts the servers, measures round by round and gives a [`Report`].

mod cases;
mod cleanup;
mod limit;
mod machine;
mod markdown;
pub mod metadata;
mod occasion;
mod page;
mod plan;
mod report;
mod rounds;
mod sample;
pub mod servers;
pub(crate) mod statistics;
mod summary;

use std::path::Path;

use self::limit::Limit;
pub use self::limit::{PartReached, RawLimit};
pub use self::machine::Machine;
pub use self::markdown::markdown;
use self::occasion::Beginning;
pub use self::occasion::{Network, Occasion};
pub use self::page::page;
pub use self::plan::{Choice, Experiment, Load, Op, Plan, Protection, Workload};
pub use self::report::{Case, Latency, Method, Report};
use self::sample::{Files, Run, Sample};
use self::servers::{Server, Wanted};
pub use self::summary::{Against, NeverWorse, Summary, Worse};
use crate::engine::{Failure, Stop};
use crate::figures::bytes;
use crate::growth::{self, Curves};
use crate::network::Sides;

/// What a comparison tells while it goes on.
pub trait Watch: Sync {
    /// So many runs are to be done.
    fn begins(&self, runs: usize);
    /// The next run is this one.
    fn next(&self, what: &str);
    /// A sentence for whoever waits.
    fn note(&self, sentence: &str);
}

/// Measures everything of a plan on all `choices` of servers, of which there must be one. When `stop` is asked for, what was measured by
/// then is the report. Servers that were started and files that were made are gone when this returns.
///
/// On the client of a simulated network this is called by a process that runs there; servers are started on the network's other host.
pub fn run(
    plan: &Plan,
    choices: &[servers::Choice],
    sides: Sides,
    watch: &dyn Watch,
    stop: &Stop,
) -> Result<Report, Failure> {
    let begun = Beginning::now();
    let files = Files::new(plan.files());
    let wanted = Wanted {
        bytes: plan.file_bytes * plan.files() as u64,
        channels: plan.channels.last().copied().unwrap_or(1),
        sides,
        store_latency: None,
    };
    let servers = start_all(choices, wanted, watch, stop)?;
    let own = choices.iter().find_map(|choice| match choice {
        servers::Choice::Own { program } => Some(program),
        servers::Choice::Samba | servers::Choice::Running { .. } => None,
    });
    let limit = own.map(|program| Limit::start(program, sides)).transpose()?;
    let mut comparison = Comparison { plan, servers, files, limit, samples: Vec::new(), notes: Vec::new() };
    let measured = comparison.measure(watch, stop);
    comparison.clean_up();
    let is_complete = measured? == Ending::AllDone;
    let cases = cases::cases(plan, &comparison.servers, &comparison.samples);
    if cases.is_empty() {
        return Err(ended_early());
    }
    let curves = own.and_then(|program| comparison.curves(program, watch, stop));
    let summary = Summary::of(plan, &comparison.servers, &cases, &comparison.samples);
    Ok(Report {
        occasion: begun.end(sides, is_complete),
        method: method(plan),
        servers: comparison.servers.iter().map(Server::description).collect(),
        cases,
        raw_limit: comparison
            .limit
            .as_ref()
            .map_or_else(Vec::new, |limit| limit.result(plan, &comparison.servers, &comparison.samples)),
        summary,
        curves,
        notes: comparison.notes,
    })
}

/// Starts a server for each of `choices`.
fn start_all(
    choices: &[servers::Choice],
    wanted: Wanted,
    watch: &dyn Watch,
    stop: &Stop,
) -> Result<Vec<Server>, Failure> {
    let start = |choice: &servers::Choice| {
        watch.note(&format!("starting {}", choice.name()));
        Server::start(choice, wanted, stop)
    };
    choices.iter().map(start).collect()
}

/// There is nothing to report.
fn ended_early() -> Failure {
    let what = "the comparison was ended before a round was done".to_owned();
    Failure { what, remedy: "give it more time, or use --quick".to_owned() }
}

/// How measuring ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    AllDone,
    Stopped,
}

/// A comparison that goes on.
struct Comparison<'a> {
    plan: &'a Plan,
    servers: Vec<Server>,
    files: Files,
    /// Where our own server is among the servers, and so on this machine.
    limit: Option<Limit>,
    samples: Vec<Sample>,
    notes: Vec<String>,
}

impl Comparison<'_> {
    fn measure(&mut self, watch: &dyn Watch, stop: &Stop) -> Result<Ending, Failure> {
        for server in &self.servers {
            watch.note(&format!("making {} files on {}", self.plan.files(), server.name));
            sample::prepare(self.plan, server, &self.files, stop)?;
        }
        let rounds: Vec<Vec<Run>> =
            (0..=self.plan.rounds).map(|number| rounds::round(self.plan, self.servers.len(), number)).collect();
        watch.begins(rounds.iter().map(Vec::len).sum());
        // Server and channels that were asked for and not had.
        let mut not_had: Vec<(usize, usize)> = Vec::new();
        for (number, runs) in (0..).zip(rounds) {
            for run in runs {
                watch.next(&self.label(run, number));
                if not_had.contains(&(run.server, run.channels)) {
                    continue;
                }
                let Some(server) = self.servers.get(run.server) else { continue };
                let Some(sample) = sample::take(self.plan, run, number, server, &self.files, stop)? else {
                    if stop.is_asked() {
                        return Ok(Ending::Stopped);
                    }
                    continue;
                };
                if number > 0 {
                    self.samples.push(sample);
                } else if self.lacks_channels(&sample) {
                    not_had.push((run.server, run.channels));
                }
                if let Some(limit) = &mut self.limit {
                    limit.beside(self.plan, run, number)?;
                }
            }
        }
        Ok(Ending::AllDone)
    }

    /// Whether there were fewer channels than asked for. That is noted, and a protection that was not asked for.
    fn lacks_channels(&mut self, sample: &Sample) -> bool {
        let Run { experiment, server, channels, .. } = sample.run;
        let name = self.servers.get(server).map_or("", |server| &server.name);
        let asked = self.plan.experiments.get(experiment).map(|experiment| experiment.protection);
        let stronger = asked.and_then(|asked| protected_otherwise(name, asked, sample.protection));
        let had = sample.channel_bytes.len();
        let is_short = had < channels;
        let fewer = is_short.then(|| format!("{name} gives {had} of {channels} channels, so these are not measured."));
        for note in stronger.into_iter().chain(fewer) {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        is_short
    }

    fn curves(&mut self, program: &Path, watch: &dyn Watch, stop: &Stop) -> Option<Curves> {
        if !self.plan.curves || stop.is_asked() {
            return None;
        }
        let measured = growth::measure(program, &growth::Steps::default(), watch, stop);
        measured.map_err(|failure| self.notes.push(format!("{}.", failure.what))).ok()
    }

    /// The run in words.
    fn label(&self, run: Run, round: u32) -> String {
        let server = self.servers.get(run.server).map_or("", |server| &server.name);
        let channels = if run.channels == 1 { "1 channel".to_owned() } else { format!("{} channels", run.channels) };
        let of = self.plan.experiments.get(run.experiment).map_or_else(String::new, |experiment| {
            let Experiment { workload, op, block_bytes, protection } = experiment;
            format!("{workload} {op} {} {protection}", bytes(*block_bytes))
        });
        match round {
            0 => format!("warm-up: {server} {of} {channels}"),
            round => format!("round {round}/{}: {server} {of} {channels}", self.plan.rounds),
        }
    }

    /// Removes the files from servers that stay.
    fn clean_up(&mut self) {
        for server in self.servers.iter().filter(|server| server.stays()) {
            if let Err(failure) = cleanup::remove(server, &self.files) {
                self.notes.push(format!("Files may be left on {}: {}.", server.name, failure.what));
            }
        }
    }
}

/// What to know of figures whose messages were protected otherwise than asked for.
fn protected_otherwise(server: &str, asked: Protection, had: Protection) -> Option<String> {
    if had == asked {
        return None;
    }
    let wants = match had {
        Protection::Plain => "neither signs nor encrypts",
        Protection::Sign => "insists on signing",
        Protection::Seal => "insists on encryption",
    };
    Some(format!("{server} {wants}: its figures under \"{asked}\" are those of \"{had}\"."))
}

fn method(plan: &Plan) -> Method {
    let description = format!(
        "Offsets are random multiples of the block size in files of {} MiB. Every run is a new session, warmed up for {:.2} s and measured \
         for {:.2} s. The first of {} rounds is thrown away. In each round and for each case one channel is measured first, then the other \
         channel counts, then one channel again, on all servers in turn; every other round goes backwards. A ratio to one channel is taken \
         against the mean of the two runs with one channel in the same round; that of one channel is its second run against its first, \
         which is what chance does. What is printed are medians over the rounds. Latency counts from when a request was due. CPU time is \
         user and system time of the whole process while it was measured, divided by the requests.",
        plan.file_bytes >> 20,
        plan.warmup.as_secs_f64(),
        plan.duration.as_secs_f64(),
        plan.rounds + 1,
    );
    Method {
        rounds: plan.rounds,
        run_seconds: plan.duration.as_secs_f64(),
        warmup_seconds: plan.warmup.as_secs_f64(),
        file_bytes: plan.file_bytes,
        description,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protection_that_was_not_asked_for_is_told() {
        assert_eq!(protected_otherwise("nas", Protection::Sign, Protection::Sign), None);
        let note = protected_otherwise("nas", Protection::Plain, Protection::Sign);
        assert_eq!(note.as_deref(), Some("nas insists on signing: its figures under \"plain\" are those of \"sign\"."));
    }
}
