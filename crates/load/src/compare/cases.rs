//! From samples to cases: medians, and ratios pair by pair.

use super::plan::Plan;
use super::report::{Case, Latency};
use super::sample::{Run, Sample};
use super::servers::Server;
use super::statistics::{Spread, median, ratios};

/// The cases that samples tell of, in the plan's order.
pub(crate) fn cases(plan: &Plan, servers: &[Server], samples: &[Sample]) -> Vec<Case> {
    let mut cases = Vec::new();
    for experiment in 0..plan.experiments.len() {
        let of_experiment: Vec<&Sample> = samples.iter().filter(|sample| sample.run.experiment == experiment).collect();
        for (server, about) in servers.iter().enumerate() {
            for channels in &plan.channels {
                let run = Run { experiment, server, channels: *channels, is_again: false };
                cases.extend(case(plan, run, &about.name, &of_experiment));
            }
        }
    }
    cases
}

fn case(plan: &Plan, run: Run, server: &str, samples: &[&Sample]) -> Option<Case> {
    let experiment = plan.experiments.get(run.experiment)?;
    let load = plan.load(experiment);
    let mine: Vec<&Sample> = samples.iter().copied().filter(|sample| sample.run == run).collect();
    let of = |value: &dyn Fn(&Sample) -> f64| median(mine.iter().map(|sample| value(sample)));
    let percentile = |at: usize| of(&|sample| sample.latency_us.get(at).copied().unwrap_or_default());
    let requests: u64 = mine.iter().map(|sample| sample.requests).sum();
    let per_op = |seconds: f64| seconds * 1e6 / requests as f64;
    let server_cpu: Option<f64> = mine.iter().map(|sample| sample.server_cpu.map(|cpu| cpu.as_secs_f64())).sum();
    let ratio = ratio_to_one(run, samples);
    Some(Case {
        workload: experiment.workload,
        op: experiment.op,
        block_bytes: experiment.block_bytes,
        protection: experiment.protection,
        channels: run.channels,
        server: server.to_owned(),
        files: load.files,
        threads: load.threads,
        depth: load.depth,
        rounds: mine.len(),
        iops_median: of(&Sample::iops)?,
        mibps_median: of(&Sample::mibps)?,
        ratio_to_one_channel_median: ratio.map(|ratio| ratio.median),
        ratio_low: ratio.map(|ratio| ratio.low),
        ratio_high: ratio.map(|ratio| ratio.high),
        latency: Latency {
            p50_us: percentile(0)?,
            p95_us: percentile(1)?,
            p99_us: percentile(2)?,
            p999_us: percentile(3)?,
        },
        client_cpu_us_per_op: per_op(mine.iter().map(|sample| sample.client_cpu.as_secs_f64()).sum()),
        server_cpu_us_per_op: server_cpu.map(per_op),
        channel_shares: shares(&mine),
    })
}

/// Against the mean of both runs with one channel in the same round, one before and one after: what drifts evenly cancels out. One
/// channel is compared with itself: the second run with the first.
fn ratio_to_one(run: Run, samples: &[&Sample]) -> Option<Spread> {
    let iops = |round: u32, channels: usize, is_again: bool| {
        let wanted = Run { channels, is_again, ..run };
        samples.iter().find(|sample| sample.round == round && sample.run == wanted).map(|sample| sample.iops())
    };
    let rounds = samples.iter().filter(|sample| sample.run == run).map(|sample| sample.round);
    let pairs = rounds.filter_map(|round| {
        let (before, after) = (iops(round, 1, false)?, iops(round, 1, true)?);
        match run.channels {
            1 => Some((after, before)),
            channels => Some((iops(round, channels, false)?, f64::midpoint(before, after))),
        }
    });
    ratios(pairs)
}

/// The median share of the busiest channel, of the next, and so on, made to sum to 1.
fn shares(samples: &[&Sample]) -> Vec<f64> {
    let most = samples.iter().map(|sample| sample.channel_bytes.len()).max().unwrap_or(0);
    let share = |sample: &Sample, at: usize| {
        let all: u64 = sample.channel_bytes.iter().sum();
        sample.channel_bytes.get(at).map_or(0.0, |bytes| *bytes as f64 / all.max(1) as f64)
    };
    let shares: Vec<f64> = (0..most).filter_map(|at| median(samples.iter().map(|sample| share(sample, at)))).collect();
    let sum: f64 = shares.iter().sum();
    if sum > 0.0 { shares.iter().map(|share| share / sum).collect() } else { shares }
}

/// What one server does against another: pair by pair, the same experiment with as many channels in the same round.
pub(crate) fn against(first: Run, other: usize, samples: &[Sample]) -> Option<Spread> {
    let theirs = Run { server: other, ..first };
    let pairs = samples.iter().filter(|sample| sample.run == first).filter_map(|mine| {
        let other = samples.iter().find(|sample| sample.run == theirs && sample.round == mine.round)?;
        Some((mine.iops(), other.iops()))
    });
    ratios(pairs)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::compare::plan::{Choice, Protection};

    fn sample(round: u32, server: usize, channels: usize, is_again: bool, requests: u64) -> Sample {
        Sample {
            run: Run { experiment: 0, server, channels, is_again },
            round,
            requests,
            bytes: requests * 4096,
            seconds: 1.0,
            latency_us: [1.0, 2.0, 3.0, 4.0],
            client_cpu: Duration::from_micros(requests * 2),
            server_cpu: Some(Duration::from_micros(requests)),
            channel_bytes: vec![30, 10],
            protection: Protection::Plain,
        }
    }

    fn case_of(channels: usize, samples: &[Sample]) -> Case {
        let plan = Plan::of(&Choice::default()).unwrap();
        let run = Run { experiment: 0, server: 0, channels, is_again: false };
        case(&plan, run, "multilane", &samples.iter().collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn several_channels_are_compared_with_both_runs_of_one_in_their_round() {
        let samples = [
            sample(1, 0, 1, false, 100),
            sample(1, 0, 4, false, 300),
            sample(1, 0, 1, true, 200),
            // A slow round: its ratio is the same.
            sample(2, 0, 1, false, 10),
            sample(2, 0, 4, false, 20),
            sample(2, 0, 1, true, 10),
        ];
        let case = case_of(4, &samples);
        assert_eq!(
            (case.ratio_to_one_channel_median, case.ratio_low, case.ratio_high),
            (Some(2.0), Some(2.0), Some(2.0))
        );
        assert_eq!((case.iops_median, case.rounds), (160.0, 2));
        assert!((case.client_cpu_us_per_op - 2.0).abs() < 1e-9);
        assert!(case.server_cpu_us_per_op.is_some_and(|cpu| (cpu - 1.0).abs() < 1e-9));
        assert_eq!(case.channel_shares, [0.75, 0.25]);
    }

    #[test]
    fn one_channel_is_compared_with_itself() {
        let samples = [
            sample(1, 0, 1, false, 100),
            sample(1, 0, 1, true, 110),
            sample(2, 0, 1, false, 100),
            sample(2, 0, 1, true, 90),
        ];
        let case = case_of(1, &samples);
        assert_eq!((case.ratio_low, case.ratio_high), (Some(0.9), Some(1.1)));
        // The second run is there for the ratio alone.
        assert_eq!(case.rounds, 2);
    }

    #[test]
    fn a_case_that_was_not_measured_is_none() {
        let plan = Plan::of(&Choice::default()).unwrap();
        let run = Run { experiment: 0, server: 0, channels: 8, is_again: false };
        assert!(case(&plan, run, "multilane", &[&sample(1, 0, 1, false, 100)]).is_none());
    }

    #[test]
    fn servers_are_compared_round_by_round() {
        let samples = [
            sample(1, 0, 1, false, 100),
            sample(1, 1, 1, false, 50),
            sample(2, 0, 1, false, 90),
            sample(2, 1, 1, false, 30),
            // The other was not measured in this one.
            sample(3, 0, 1, false, 1),
        ];
        let run = Run { experiment: 0, server: 0, channels: 1, is_again: false };
        assert_eq!(against(run, 1, &samples), Some(Spread { median: 2.5, low: 2.0, high: 3.0 }));
    }
}
