//! One run: an experiment on a server with so many channels, and what it came to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::client::{Channels, Signing};

use super::plan::{Experiment, Load, Op, Plan, Protection};
use super::servers::Server;
use crate::engine::{self, Failure, Mount, Phase, Place, Places, Stop, Watch};
use crate::profile::{Pattern, Profile, Target, TimeSpan};
use crate::results::{Counts, Protected, TimeSpanResults};

/// Requests go on for so long after the measured time, so that the server's CPU time is read while it still works.
const COOLDOWN: Duration = Duration::from_millis(10);

/// How long a request may stay without an answer, and a lost server be looked for.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Its place in the plan.
    pub(crate) experiment: usize,
    /// Its place among the servers.
    pub(crate) server: usize,
    /// Channels asked for.
    pub(crate) channels: usize,
    /// One channel a second time, to see what chance does.
    pub(crate) is_again: bool,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) run: Run,
    /// The round, from 1.
    pub(crate) round: u32,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    /// Microseconds at 50, 95, 99 and 99.9 percent.
    pub(crate) latency_us: [f64; 4],
    pub(crate) client_cpu: Duration,
    pub(crate) server_cpu: Option<Duration>,
    /// Bytes of each channel, most first.
    pub(crate) channel_bytes: Vec<u64>,
    /// How messages were protected, which the server decides, too.
    pub(crate) protection: Protection,
}

impl Sample {
    pub(crate) fn iops(&self) -> f64 {
        self.requests as f64 / self.seconds
    }

    pub(crate) fn mibps(&self) -> f64 {
        self.bytes as f64 / self.seconds / f64::from(1 << 20)
    }
}

/// Names of the files of one comparison.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    names: Vec<String>,
}

impl Files {
    /// So many, with names that no other comparison has at the same time.
    pub(crate) fn new(count: usize) -> Self {
        let process = std::process::id();
        Files { names: (0..count).map(|number| format!("multilane-compare-{process}-{number}.dat")).collect() }
    }

    /// Their paths in a server's share.
    pub(crate) fn on(&self, server: &Server) -> impl Iterator<Item = String> {
        let folder = server.folder.clone();
        self.names.iter().map(move |name| if folder.is_empty() { name.clone() } else { format!("{folder}\\{name}") })
    }
}

/// All paths lead to one share.
struct OneShare(Arc<Mount>);

impl Places for OneShare {
    fn place(&self, path: &str) -> Result<Place, Failure> {
        Ok(Place { mount: Arc::clone(&self.0), name: path.to_owned() })
    }
}

/// Reads the server's CPU time at both ends of the measured time.
struct Meter<'a> {
    server: &'a Server,
    /// Up to the beginning, and up to the end.
    cpu: Mutex<(Option<Duration>, Option<Duration>)>,
}

impl Watch for Meter<'_> {
    fn phase(&self, _time_span: usize, phase: Phase) {
        let mut cpu = self.cpu.lock().unwrap_or_else(PoisonError::into_inner);
        match phase {
            Phase::Preparing | Phase::WarmingUp => {}
            Phase::Measuring => cpu.0 = self.server.cpu(),
            Phase::CoolingDown => cpu.1 = self.server.cpu(),
        }
    }

    fn note(&self, _line: &str) {}
}

impl Meter<'_> {
    fn used(&self) -> Option<Duration> {
        let (before, after) = *self.cpu.lock().unwrap_or_else(PoisonError::into_inner);
        Some(after.or_else(|| self.server.cpu())?.saturating_sub(before?))
    }
}

/// Makes the files of a server, full of data.
pub(crate) fn prepare(plan: &Plan, server: &Server, files: &Files, stop: &Stop) -> Result<(), Failure> {
    let targets = files.on(server).map(|path| Target { file_bytes: Some(plan.file_bytes), ..Target::new(path) });
    let span = TimeSpan {
        duration: Duration::from_millis(1),
        warmup: Duration::ZERO,
        targets: targets.collect(),
        ..TimeSpan::default()
    };
    run_profile(span, server, 1, Protection::Plain, stop).map(|_| ())
}

/// Does one run. `None` where it was stopped: half a run counts for nothing.
pub(crate) fn take(
    plan: &Plan,
    run: Run,
    round: u32,
    server: &Server,
    files: &Files,
    stop: &Stop,
) -> Result<Option<Sample>, Failure> {
    let Some(experiment) = plan.experiments.get(run.experiment) else { return Ok(None) };
    let span = time_span(plan, experiment, files.on(server), round);
    let (results, server_cpu) = run_profile(span, server, run.channels, experiment.protection, stop)?;
    let seconds = results.test_time.as_secs_f64();
    let counts = total(&results);
    if stop.is_asked() || seconds <= 0.0 {
        return Ok(None);
    }
    let mut channel_bytes: Vec<u64> =
        results.channels.iter().map(|channel| channel.received_bytes + channel.sent_bytes).collect();
    channel_bytes.sort_unstable_by(|a, b| b.cmp(a));
    let percentile = |percent| {
        counts.latency.as_ref().map_or(0.0, |latency| latency.nanoseconds.value_at_percentile(percent) as f64 / 1e3)
    };
    Ok(Some(Sample {
        run,
        round,
        requests: counts.requests,
        bytes: counts.bytes,
        seconds,
        latency_us: [50.0, 95.0, 99.0, 99.9].map(percentile),
        client_cpu: results.own_cpu,
        server_cpu,
        channel_bytes,
        protection: had(results.protected),
    }))
}

fn run_profile(
    span: TimeSpan,
    server: &Server,
    channels: usize,
    protection: Protection,
    stop: &Stop,
) -> Result<(TimeSpanResults, Option<Duration>), Failure> {
    let mut mount = server.mount.clone();
    mount.settings.channels = Channels::Exactly(channels);
    mount.settings.session_timeout = SILENCE_MAX;
    mount.settings.seal = protection == Protection::Seal;
    mount.settings.signing = match protection {
        Protection::Sign => Signing::Required,
        Protection::Plain | Protection::Seal => Signing::AsServerWants,
    };
    let profile = Profile { time_spans: vec![span], ..Profile::default() };
    let meter = Meter { server, cpu: Mutex::default() };
    let mut results = engine::run(&profile, &OneShare(Arc::new(mount)), &meter, stop)?;
    let used = meter.used();
    let results = results.time_spans.pop().ok_or_else(|| Failure {
        what: format!("a run on {} gave no results", server.name),
        remedy: "report this".to_owned(),
    })?;
    Ok((results, used))
}

fn time_span(plan: &Plan, experiment: &Experiment, paths: impl Iterator<Item = String>, round: u32) -> TimeSpan {
    let Load { files, threads, depth } = plan.load(experiment);
    let is_one_of_several = threads < files as u32;
    let block_bytes = experiment.block_bytes;
    let targets = paths.take(files).map(|path| Target {
        block_bytes,
        pattern: Pattern::Random { align_bytes: u64::from(block_bytes), random_percent: 100 },
        threads_per_file: threads.div_ceil(files as u32),
        outstanding: depth,
        write_percent: if experiment.op == Op::Write { 100 } else { 0 },
        ..Target::new(path)
    });
    TimeSpan {
        duration: if round == 0 { plan.warmup.max(plan.duration / 4) } else { plan.duration },
        warmup: plan.warmup,
        cooldown: COOLDOWN,
        // A single thread has all its requests in flight over all files together.
        thread_count: is_one_of_several.then_some(threads),
        request_count: is_one_of_several.then_some(depth),
        random_seed: u64::from(round),
        measure_latency: true,
        targets: targets.collect(),
        ..TimeSpan::default()
    }
}

fn had(protected: Protected) -> Protection {
    match protected {
        Protected { is_sealed: true, .. } => Protection::Seal,
        Protected { is_signed: true, .. } => Protection::Sign,
        Protected { .. } => Protection::Plain,
    }
}

/// All threads' requests of all targets together.
fn total(results: &TimeSpanResults) -> Counts {
    let mut total = Counts::default();
    for target in results.threads.iter().flat_map(|thread| &thread.targets) {
        total.merge(&target.read);
        total.merge(&target.write);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::plan::{Choice, Workload};

    fn span(workload: Workload, op: Op) -> TimeSpan {
        let plan = Plan::of(&Choice::default()).unwrap();
        let experiment = Experiment { workload, op, block_bytes: 4 << 10, protection: Protection::Plain };
        time_span(&plan, &experiment, (0..10).map(|number| number.to_string()), 1)
    }

    #[test]
    fn many_threads_have_files_of_their_own() {
        let span = span(Workload::MtMulti, Op::Write);
        assert_eq!((span.targets.len(), span.thread_count), (10, None));
        let first = span.targets.first().unwrap();
        assert_eq!((first.threads_per_file, first.outstanding, first.write_percent), (8, 8, 100));
    }

    #[test]
    fn a_single_thread_shares_its_requests_between_all_files() {
        let several = span(Workload::StMulti, Op::Read);
        assert_eq!((several.targets.len(), several.thread_count, several.request_count), (10, Some(1), Some(16)));
        let one = span(Workload::StSingle, Op::Read);
        assert_eq!((one.targets.len(), one.thread_count), (1, None));
        assert_eq!(one.targets.first().map(|target| (target.threads_per_file, target.outstanding)), Some((1, 16)));
    }
}
