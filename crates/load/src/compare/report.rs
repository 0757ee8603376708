//! What a comparison came to, as its JSON has it. Names say their units.

use serde::Serialize;

use super::limit::RawLimit;
use super::occasion::Occasion;
use super::plan::{Experiment, Op, Protection, Workload};
use super::servers;
use super::summary::Summary;
use crate::growth::Curves;

/// The whole result.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// When it was made, and on what.
    #[serde(flatten)]
    pub occasion: Occasion,
    /// How it was measured.
    pub method: Method,
    /// What was compared; the first is what the others are compared with.
    pub servers: Vec<servers::Description>,
    /// One for each workload, operation, block size, protection, channel count and server.
    pub cases: Vec<Case>,
    /// What plain TCP moves between the same hosts; empty where no server is our own, or no case is one thread on one file in the open.
    pub raw_limit: Vec<RawLimit>,
    /// What the cases say together.
    pub summary: Summary,
    /// What our server costs as it has more to keep, where that was asked for.
    pub curves: Option<Curves>,
    /// What the reader should know beside that, in sentences.
    pub notes: Vec<String>,
}

/// How it was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Method {
    /// Rounds that count.
    pub rounds: u32,
    /// How long each run was measured.
    pub run_seconds: f64,
    /// What went before that in each run.
    pub warmup_seconds: f64,
    /// The length of each file.
    pub file_bytes: u64,
    /// The same in sentences.
    pub description: String,
}

/// One case. Medians are over the rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// Who asks.
    pub workload: Workload,
    /// What.
    pub op: Op,
    /// How much at once.
    pub block_bytes: u32,
    /// How it is protected.
    pub protection: Protection,
    /// Channels of the session.
    pub channels: usize,
    /// As in `servers`.
    pub server: String,
    /// Files that are used.
    pub files: usize,
    /// Threads in all.
    pub threads: u32,
    /// Requests in flight of each thread.
    pub depth: u32,
    /// Rounds that it stands on.
    pub rounds: usize,
    /// Requests a second.
    pub iops_median: f64,
    /// MiB a second.
    pub mibps_median: f64,
    /// Throughput against that of one channel in the same round. With one channel: of the second run of each round against the first,
    /// which is what chance does.
    pub ratio_to_one_channel_median: Option<f64>,
    /// The lowest of the rounds.
    pub ratio_low: Option<f64>,
    /// The highest.
    pub ratio_high: Option<f64>,
    /// How long requests took.
    pub latency: Latency,
    /// The client's CPU time (user and system) for each request, in microseconds.
    pub client_cpu_us_per_op: f64,
    /// The server's; `None` where the server is not ours.
    pub server_cpu_us_per_op: Option<f64>,
    /// What part of the bytes each channel carried, the busiest first; 1 in all.
    pub channel_shares: Vec<f64>,
}

/// From when a request was due to when it was answered, in microseconds: medians of each round's percentiles.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Half of the requests took longer.
    pub p50_us: f64,
    /// One of 20.
    pub p95_us: f64,
    /// One of 100.
    pub p99_us: f64,
    /// One of 1,000.
    pub p999_us: f64,
}

impl Case {
    /// What it measures, without server and channels.
    pub(crate) fn experiment(&self) -> Experiment {
        Experiment { workload: self.workload, op: self.op, block_bytes: self.block_bytes, protection: self.protection }
    }
}

/// What tests say verdicts and tables of.
#[cfg(test)]
pub(super) mod examples {
    use super::*;
    use crate::compare::limit::PartReached;
    use crate::compare::machine::Machine;
    use crate::compare::occasion::Network;
    use crate::compare::servers::Description;
    use crate::compare::summary::Against;
    use crate::growth::{Curve, Point};

    /// One thread's reads on one file of our server, with the lowest, the median and the highest ratio to one channel.
    pub(crate) fn case(block_bytes: u32, channels: usize, ratio: [f64; 3]) -> Case {
        let [low, median, high] = ratio;
        Case {
            workload: Workload::StSingle,
            op: Op::Read,
            block_bytes,
            protection: Protection::Plain,
            channels,
            server: "multilane".to_owned(),
            files: 1,
            threads: 1,
            depth: 16,
            rounds: 3,
            iops_median: 1.0,
            mibps_median: 1.0,
            ratio_to_one_channel_median: Some(median),
            ratio_low: Some(low),
            ratio_high: Some(high),
            latency: Latency { p50_us: 1.0, p95_us: 1.0, p99_us: 1.0, p999_us: 1.0 },
            client_cpu_us_per_op: 1.0,
            server_cpu_us_per_op: None,
            channel_shares: vec![1.0],
        }
    }

    /// Of our server and one whose name has markup in it, with one of everything.
    pub(crate) fn report() -> Report {
        let server = |name: &str| Description {
            name: name.to_owned(),
            about: "files in memory".to_owned(),
            address: "127.0.0.1:4450".to_owned(),
            is_ours: true,
        };
        let mut four = case(4096, 4, [3.9, 4.0, 4.125]);
        (four.iops_median, four.mibps_median, four.server_cpu_us_per_op) = (102_400.0, 400.0, Some(1.25));
        let other = Case { server: "a|<b>".to_owned(), iops_median: 20_480.0, ..four.clone() };
        let point = |count| Point {
            count,
            memory_bytes: 3 << 19,
            cpu_us_each: 2.5,
            cpu_us_per_read: 1.75,
            reads_per_second: 5_000.0,
        };
        let curve = |ended: Option<&str>| Curve {
            description: "How it grows.".to_owned(),
            points: vec![point(1), point(1_000)],
            memory_bytes_each: Some(1_234.0),
            ended: ended.map(str::to_owned),
        };
        Report {
            occasion: Occasion {
                version: "1",
                began: 0,
                seconds: 12.0,
                is_complete: true,
                machine: Machine {
                    cores: 2,
                    processor: "A fast one".to_owned(),
                    memory_bytes: 4 << 30,
                    kernel: "Linux 6".to_owned(),
                    congestion_control: "cubic".to_owned(),
                    load_before: 0.25,
                },
                network: Network { name: "quad".to_owned(), description: "Simulated: four links.".to_owned() },
            },
            method: Method {
                rounds: 3,
                run_seconds: 0.4,
                warmup_seconds: 0.1,
                file_bytes: 64 << 20,
                description: String::new(),
            },
            servers: vec![server("multilane"), server("a|<b>")],
            raw_limit: vec![RawLimit {
                op: Op::Read,
                block_bytes: 4096,
                connections: 4,
                depth: 16,
                iops_median: 204_800.0,
                mibps_median: 800.0,
                reached: vec![PartReached {
                    server: "multilane".to_owned(),
                    part_median: 0.5,
                    part_low: 0.45,
                    part_high: 0.6,
                }],
            }],
            summary: Summary {
                never_worse: vec![],
                against: vec![Against {
                    server: "a|<b>".to_owned(),
                    workload: Workload::StSingle,
                    op: Op::Read,
                    block_bytes: 4096,
                    protection: Protection::Plain,
                    channels: 4,
                    ratio_median: 5.0,
                    ratio_low: 4.5,
                    ratio_high: 5.5,
                }],
            },
            cases: vec![case(4096, 1, [0.99, 1.0, 1.01]), four, other],
            curves: Some(Curves { connections: curve(None), open_files: curve(Some("there is no room")) }),
            notes: vec!["Something was left out.".to_owned()],
        }
    }
}
