//! How the cost of our server grows with what it has to keep: its memory and its CPU time against connections and against open files.
//!
//! Each curve has a server of its own, started for it. Beside what is kept there is one session that reads 4-KiB blocks for a while, so
//! that a cost per request which grows with what lies idle is seen.

mod connections;
mod open_files;
mod reads;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use ::client::{Channels, Session, Settings, Tcp};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use self::reads::{Reader, SPARE_BYTES};
use crate::compare::Watch;
use crate::compare::servers::{Choice, Server, Wanted};
use crate::engine::{Failure, Stop};
use crate::network::Sides;

/// The steps of a full run.
pub const CONNECTIONS: [usize; 4] = [1, 10, 100, 1_000];
/// The steps of a full run.
pub const OPEN_FILES: [usize; 6] = [1, 10, 100, 1_000, 10_000, 100_000];

/// What an empty file may take of a RAM disk.
const FILE_BYTES: u64 = 2 << 10;

/// What is measured.
#[derive(Clone, Debug)]
pub struct Steps {
    /// Connections, rising: signed-in sessions of one connection each that do nothing.
    pub connections: Vec<usize>,
    /// Open files, rising.
    pub open_files: Vec<usize>,
    /// How long is read at each step.
    pub duration: Duration,
}

impl Default for Steps {
    fn default() -> Self {
        Steps { connections: CONNECTIONS.to_vec(), open_files: OPEN_FILES.to_vec(), duration: Duration::from_secs(1) }
    }
}

/// Both curves.
#[derive(Clone, Debug, Serialize)]
pub struct Curves {
    /// Against connections.
    pub connections: Curve,
    /// Against open files.
    pub open_files: Curve,
}

/// Cost against the number of one thing.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    /// What grows and how it is measured, in sentences.
    pub description: String,
    /// One for each step, rising. Those that could not be had are left out.
    pub points: Vec<Point>,
    /// Memory that each one more takes, in bytes, from the first step to the last.
    pub memory_bytes_each: Option<f64>,
    /// Why the steps end early, where they do.
    pub ended: Option<String>,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// How many there are.
    pub count: usize,
    /// The server's memory: its proportional set size (PSS).
    pub memory_bytes: u64,
    /// The server's CPU time, in microseconds, for each that was added since the step before.
    pub cpu_us_each: f64,
    /// The server's CPU time, in microseconds, for each 4-KiB read of somebody else beside them.
    pub cpu_us_per_read: f64,
    /// Such reads a second.
    pub reads_per_second: f64,
}

/// Measures both curves with servers that `program` starts. When `stop` is asked for, the curves end there.
pub fn measure(program: &Path, steps: &Steps, watch: &dyn Watch, stop: &Stop) -> Result<Curves, Failure> {
    allow_many_files();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(|cause| failed(&cause))?;
    let connections = runtime.block_on(connections::curve(program, steps, watch, stop))?;
    let open_files = runtime.block_on(open_files::curve(program, steps, watch, stop))?;
    // The servers are gone: nobody waits for what their sessions still want of them.
    runtime.shutdown_background();
    Ok(Curves { connections, open_files })
}

/// A server of its own, and who reads from it.
struct Bench<'a> {
    server: Server,
    reader: Reader,
    duration: Duration,
    watch: &'a dyn Watch,
    stop: &'a Stop,
}

impl<'a> Bench<'a> {
    /// Starts a server with room for so many files.
    async fn start(
        program: &Path,
        files: usize,
        steps: &Steps,
        watch: &'a dyn Watch,
        stop: &'a Stop,
    ) -> Result<Self, Failure> {
        let wanted = Wanted {
            bytes: SPARE_BYTES + files as u64 * FILE_BYTES,
            channels: 1,
            sides: Sides::plain(),
            store_latency: None,
        };
        let server = Server::start(&Choice::Own { program: program.to_owned() }, wanted, stop)?;
        let reader = Reader::start(&server).await.map_err(|error| failed(&error))?;
        Ok(Bench { server, reader, duration: steps.duration, watch, stop })
    }

    /// Adds up to `count` of something, and measures. `None` where the run is to end.
    async fn step(
        &self,
        what: &str,
        before: usize,
        count: usize,
        add: impl Future<Output = Result<(), ::client::Error>>,
    ) -> Result<Option<Point>, ::client::Error> {
        if self.stop.is_asked() {
            return Ok(None);
        }
        self.watch.note(&format!("cost of {count} {what}"));
        let at_first = self.cpu();
        add.await?;
        let added = self.cpu().saturating_sub(at_first);
        let (reads, used) = {
            let at_first = self.cpu();
            let reads = self.reader.read_for(self.duration).await?;
            (reads, self.cpu().saturating_sub(at_first))
        };
        Ok(Some(Point {
            count,
            memory_bytes: self.server.memory_bytes().unwrap_or_default(),
            cpu_us_each: micros_each(added, count.saturating_sub(before) as u64),
            cpu_us_per_read: micros_each(used, reads),
            reads_per_second: reads as f64 / self.duration.as_secs_f64().max(f64::MIN_POSITIVE),
        }))
    }

    fn cpu(&self) -> Duration {
        self.server.cpu().unwrap_or_default()
    }
}

impl Curve {
    fn new(description: &str) -> Self {
        Curve { description: description.to_owned(), points: Vec::new(), memory_bytes_each: None, ended: None }
    }

    /// Takes a step's outcome; false where it was the last.
    fn take(&mut self, step: Result<Option<Point>, ::client::Error>) -> bool {
        match step {
            Ok(Some(point)) => self.points.push(point),
            Ok(None) => self.ended = Some("the run was ended".to_owned()),
            Err(error) => self.ended = Some(error.to_string()),
        }
        self.memory_bytes_each = self.slope();
        self.ended.is_none()
    }

    fn slope(&self) -> Option<f64> {
        let (first, last) = (self.points.first()?, self.points.last()?);
        let more = last.count.checked_sub(first.count).filter(|more| *more > 0)?;
        Some((last.memory_bytes as f64 - first.memory_bytes as f64) / more as f64)
    }
}

async fn session(server: &Server) -> Result<Session, ::client::Error> {
    let settings = Settings { channels: Channels::Exactly(1), ..server.mount.settings };
    Session::connect(&server.mount.server, settings, std::sync::Arc::new(Tcp)).await
}

fn micros_each(time: Duration, count: u64) -> f64 {
    if count == 0 { 0.0 } else { time.as_secs_f64() * 1e6 / count as f64 }
}

/// Lets this process, and the servers it starts, have as many connections as the system allows. Where it may not, the curve ends early
/// and says why.
fn allow_many_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(cause) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::debug!(%cause, "the limit of open files stays");
    }
}

fn failed(cause: &dyn std::fmt::Display) -> Failure {
    Failure {
        what: format!("the cost against connections and open files could not be measured: {cause}"),
        remedy: "compare without --curves".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(count: usize, memory_bytes: u64) -> Point {
        Point { count, memory_bytes, cpu_us_each: 0.0, cpu_us_per_read: 0.0, reads_per_second: 0.0 }
    }

    #[test]
    fn each_one_more_takes_what_lies_between_the_ends() {
        let mut curve = Curve::new("");
        assert!(curve.take(Ok(Some(point(1, 5_000)))));
        assert_eq!(curve.memory_bytes_each, None);
        assert!(curve.take(Ok(Some(point(11, 6_000)))) && curve.take(Ok(Some(point(101, 25_000)))));
        assert_eq!(curve.memory_bytes_each, Some(200.0));
    }

    #[test]
    fn a_curve_that_ends_early_keeps_its_points_and_says_why() {
        let mut curve = Curve::new("");
        curve.take(Ok(Some(point(1, 1))));
        assert!(!curve.take(Ok(None)));
        assert_eq!((curve.points.len(), curve.ended.as_deref()), (1, Some("the run was ended")));
    }
}
