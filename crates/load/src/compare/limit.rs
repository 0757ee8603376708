//! The raw limit beside the cases: plain TCP that moves the same bytes between the same hosts (see [`crate::raw`]).

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::plan::{DEPTH_OF_ONE, Experiment, Op, Plan, Protection, Workload};
use super::sample::{Run, Sample};
use super::servers::Server;
use super::servers::process::{Process, folder};
use super::statistics::{Spread, median, ratios};
use crate::engine::Failure;
use crate::network::Sides;
use crate::raw::{Direction, Reached, Shape, measure};

/// What cannot be ended early takes no longer than this.
const DURATION_MAX: Duration = Duration::from_secs(1);

/// What plain TCP reached, for one operation and block size.
#[derive(Clone, Debug, Serialize)]
pub struct RawLimit {
    /// Which way the blocks go.
    pub op: Op,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// TCP connections.
    pub connections: usize,
    /// Requests in flight over all of them.
    pub depth: u32,
    /// Blocks a second.
    pub iops_median: f64,
    /// MiB a second.
    pub mibps_median: f64,
    /// What part of it each server reached with one thread on one file, as many channels as connections and as much in flight.
    pub reached: Vec<PartReached>,
}

/// A server against the limit, round by round.
#[derive(Clone, Debug, Serialize)]
pub struct PartReached {
    /// As in the cases.
    pub server: String,
    /// The median over the rounds.
    pub part_median: f64,
    /// The lowest.
    pub part_low: f64,
    /// The highest.
    pub part_high: f64,
}

/// The far end, which runs, and what was measured with it.
pub(super) struct Limit {
    /// Goes with this.
    _far: Process,
    /// One for each link to the servers' host.
    addresses: Vec<SocketAddr>,
    samples: Vec<(u32, Experiment, usize, Reached)>,
}

/// The line that the far end prints.
#[derive(Deserialize)]
struct Ready {
    listen: SocketAddr,
}

impl Limit {
    /// Starts the far end on the servers' host.
    pub(super) fn start(program: &Path, sides: Sides) -> Result<Self, Failure> {
        let mut command = sides.on_server(program);
        command.arg("raw-end").arg(format!("--listen={}", SocketAddr::new(sides.listen(), 0)));
        command.stdout(Stdio::piped());
        let mut far = Process::start("the raw loop", command, folder("multilane-compare-raw-")?)?;
        let ready: Ready = serde_json::from_str(&far.first_line()?).map_err(|cause| failed(&cause))?;
        let port = ready.listen.port();
        let addresses = sides.server_addresses().into_iter().map(|host| SocketAddr::new(host, port)).collect();
        Ok(Limit { _far: far, addresses, samples: Vec::new() })
    }

    /// Measures the same bytes as a run, where it is one thread's on one file, in the open: the other workloads differ in who asks only.
    pub(super) fn beside(&mut self, plan: &Plan, run: Run, round: u32) -> Result<(), Failure> {
        let Some(experiment) = plan.experiments.get(run.experiment).filter(|experiment| has_limit(experiment)) else {
            return Ok(());
        };
        if run.server != 0 || run.is_again {
            return Ok(());
        }
        let shape = Shape {
            direction: match experiment.op {
                Op::Read => Direction::Read,
                Op::Write => Direction::Write,
            },
            block_bytes: experiment.block_bytes,
            in_flight: depth(plan),
            connections: run.channels,
        };
        let reached =
            measure(&self.addresses[..], shape, plan.warmup.min(DURATION_MAX), plan.duration.min(DURATION_MAX));
        let reached = reached.map_err(|cause| failed(&cause))?;
        if round > 0 {
            self.samples.push((round, *experiment, run.channels, reached));
        }
        Ok(())
    }

    /// What was measured, next to what the servers reached.
    pub(super) fn result(&self, plan: &Plan, servers: &[Server], samples: &[Sample]) -> Vec<RawLimit> {
        let mut limits = Vec::new();
        for (at, experiment) in plan.experiments.iter().enumerate().filter(|(_, experiment)| has_limit(experiment)) {
            for connections in &plan.channels {
                let mine = self.samples.iter().filter(|(_, of, count, _)| of == experiment && count == connections);
                let mine: Vec<(u32, Reached)> = mine.map(|(round, _, _, reached)| (*round, *reached)).collect();
                let Some(iops_median) = median(mine.iter().map(|(_, reached)| reached.iops)) else { continue };
                let part = |(server, about): (usize, &Server)| {
                    let run = Run { experiment: at, server, channels: *connections, is_again: false };
                    part(&about.name, &mine, samples.iter().filter(|sample| sample.run == run))
                };
                limits.push(RawLimit {
                    op: experiment.op,
                    block_bytes: experiment.block_bytes,
                    connections: *connections,
                    depth: depth(plan),
                    iops_median,
                    mibps_median: iops_median * f64::from(experiment.block_bytes) / f64::from(1 << 20),
                    reached: servers.iter().enumerate().filter_map(part).collect(),
                });
            }
        }
        limits
    }
}

fn part<'a>(server: &str, limit: &[(u32, Reached)], samples: impl Iterator<Item = &'a Sample>) -> Option<PartReached> {
    let Spread { median, low, high } = ratios(samples.filter_map(|sample| {
        let (_, reached) = limit.iter().find(|(round, _)| *round == sample.round)?;
        Some((sample.iops(), reached.iops))
    }))?;
    Some(PartReached { server: server.to_owned(), part_median: median, part_low: low, part_high: high })
}

fn has_limit(experiment: &Experiment) -> bool {
    experiment.workload == Workload::StSingle && experiment.protection == Protection::Plain
}

fn depth(plan: &Plan) -> u32 {
    plan.depth.unwrap_or(DEPTH_OF_ONE)
}

fn failed(cause: &dyn std::fmt::Display) -> Failure {
    Failure { what: format!("the raw loop failed: {cause}"), remedy: "run the comparison again".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_held_against_the_limit_of_their_round() {
        let sample = |round, requests| Sample {
            run: Run { experiment: 0, server: 0, channels: 1, is_again: false },
            round,
            requests,
            bytes: 0,
            seconds: 1.0,
            latency_us: [0.0; 4],
            client_cpu: Duration::ZERO,
            server_cpu: None,
            channel_bytes: vec![],
            protection: Protection::Plain,
        };
        let reached = |iops| Reached { iops, mibps: 0.0 };
        let limit = [(1, reached(100.0)), (2, reached(10.0))];
        let samples = [sample(1, 50), sample(2, 8), sample(3, 1000)];
        let part = part("multilane", &limit, samples.iter()).unwrap();
        assert_eq!((part.part_low, part.part_high), (0.5, 0.8));
    }
}
