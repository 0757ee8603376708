//! What the cases say together: whether several channels are ever worse than one, and how the servers stand to each other.

use std::fmt;

use serde::Serialize;

use super::cases::against;
use super::plan::{Experiment, Op, Plan, Protection, Workload};
use super::report::Case;
use super::sample::{Run, Sample};
use super::servers::Server;
use super::statistics::{Spread, median};
use crate::figures::bytes;

/// Several channels are worse than one in a case where they reach less than this part of its throughput, whatever chance adds.
const WORSE: f64 = 0.97;

/// Where one channel is further than this from itself, as a part of its throughput, chance hides what the verdict is about.
const TOO_NOISY: f64 = 0.1;

/// From fewer rounds nobody knows what chance does.
const ROUNDS_MIN: usize = 2;

/// The verdicts.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// One for each server.
    pub never_worse: Vec<NeverWorse>,
    /// The first server against each other one, for each experiment and channel count.
    pub against: Vec<Against>,
}

/// Several channels against one, over all cases of a server.
#[derive(Clone, Debug, Serialize)]
pub struct NeverWorse {
    /// As in the cases.
    pub server: String,
    /// The median ratio is at least 1, and no case is worse. It means little unless it is also conclusive.
    pub holds: bool,
    /// One channel was measured often enough, and stays close enough to itself, for the verdict to tell.
    pub is_conclusive: bool,
    /// Of all cases with more than one channel.
    pub ratio_median: f64,
    /// Their number.
    pub cases: usize,
    /// How far one channel is from itself: the median over all experiments of half the distance between the highest and the lowest
    /// ratio of one run to another.
    pub one_channel_spread_median: f64,
    /// Cases whose ratio stays below 0.97 though the spread of one channel in the same experiment is added to it, worst first.
    pub worse: Vec<Worse>,
}

/// A case in which several channels are worse than one.
#[derive(Clone, Debug, Serialize)]
pub struct Worse {
    /// Who asks.
    pub workload: Workload,
    /// What.
    pub op: Op,
    /// How much at once.
    pub block_bytes: u32,
    /// How it is protected.
    pub protection: Protection,
    /// Channels.
    pub channels: usize,
    /// The median ratio to one channel.
    pub ratio: f64,
    /// How far one channel is from itself here.
    pub one_channel_spread: f64,
}

impl fmt::Display for Worse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Worse { workload, op, block_bytes, protection, channels, ratio, one_channel_spread } = self;
        let block = bytes(*block_bytes);
        write!(
            f,
            "{workload} {op} {block} {protection} with {channels} channels: {ratio:.2}, where chance explains {one_channel_spread:.2}"
        )
    }
}

/// The first server against another.
#[derive(Clone, Debug, Serialize)]
pub struct Against {
    /// The other.
    pub server: String,
    /// Who asks.
    pub workload: Workload,
    /// What.
    pub op: Op,
    /// How much at once.
    pub block_bytes: u32,
    /// How it is protected.
    pub protection: Protection,
    /// Channels on both.
    pub channels: usize,
    /// Throughput of the first divided by the other's in the same round.
    pub ratio_median: f64,
    /// The lowest of the rounds.
    pub ratio_low: f64,
    /// The highest.
    pub ratio_high: f64,
}

impl NeverWorse {
    /// The verdict in words.
    pub fn words(&self) -> &'static str {
        match (self.is_conclusive, self.holds) {
            (false, _) => "too much chance to tell",
            (true, true) => "never worse",
            (true, false) => "worse in places",
        }
    }
}

impl Summary {
    pub(crate) fn of(plan: &Plan, servers: &[Server], cases: &[Case], samples: &[Sample]) -> Self {
        let never_worse = servers.iter().filter_map(|server| never_worse(&server.name, cases)).collect();
        let mut against = Vec::new();
        for (at, experiment) in plan.experiments.iter().enumerate() {
            for (other, about) in servers.iter().enumerate().skip(1) {
                let of = |channels: &usize| pair(at, experiment, *channels, other, &about.name, samples);
                against.extend(plan.channels.iter().filter_map(of));
            }
        }
        Summary { never_worse, against }
    }
}

fn never_worse(server: &str, cases: &[Case]) -> Option<NeverWorse> {
    let of_server = || cases.iter().filter(|case| case.server == server);
    let spread_of = |case: &Case| {
        Some(Spread { median: case.ratio_to_one_channel_median?, low: case.ratio_low?, high: case.ratio_high? })
    };
    // One channel against itself, in the same experiment.
    let chance = |experiment: Experiment| {
        let one = of_server().find(|case| case.channels == 1 && case.experiment() == experiment);
        one.and_then(spread_of).map_or(0.0, |spread| spread.half_width())
    };
    let several: Vec<(&Case, f64)> = of_server()
        .filter(|case| case.channels > 1)
        .filter_map(|case| Some((case, case.ratio_to_one_channel_median?)))
        .collect();
    let ratio_median = median(several.iter().map(|(_, ratio)| *ratio))?;
    let mut worse: Vec<Worse> = several
        .iter()
        .map(|(case, ratio)| Worse {
            workload: case.workload,
            op: case.op,
            block_bytes: case.block_bytes,
            protection: case.protection,
            channels: case.channels,
            ratio: *ratio,
            one_channel_spread: chance(case.experiment()),
        })
        .filter(|worse| worse.ratio + worse.one_channel_spread < WORSE)
        .collect();
    worse.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let spreads = of_server().filter(|case| case.channels == 1).filter_map(spread_of);
    let one_channel_spread_median = median(spreads.map(|spread| spread.half_width())).unwrap_or_default();
    Some(NeverWorse {
        server: server.to_owned(),
        is_conclusive: one_channel_spread_median <= TOO_NOISY && of_server().all(|case| case.rounds >= ROUNDS_MIN),
        holds: ratio_median >= 1.0 && worse.is_empty(),
        ratio_median,
        cases: several.len(),
        one_channel_spread_median,
        worse,
    })
}

fn pair(
    at: usize,
    experiment: &Experiment,
    channels: usize,
    other: usize,
    name: &str,
    samples: &[Sample],
) -> Option<Against> {
    let first = Run { experiment: at, server: 0, channels, is_again: false };
    let ratio = against(first, other, samples)?;
    Some(Against {
        server: name.to_owned(),
        workload: experiment.workload,
        op: experiment.op,
        block_bytes: experiment.block_bytes,
        protection: experiment.protection,
        channels,
        ratio_median: ratio.median,
        ratio_low: ratio.low,
        ratio_high: ratio.high,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::report::examples::case;

    #[test]
    fn what_chance_explains_is_not_worse() {
        // One channel is 5 % from itself with small blocks and 1 % with large ones.
        let cases = [
            case(4096, 1, [0.95, 1.0, 1.05]),
            case(4096, 4, [0.9, 0.93, 1.0]),
            case(65536, 1, [0.99, 1.0, 1.01]),
            case(65536, 4, [1.1, 1.2, 1.3]),
        ];
        let verdict = never_worse("multilane", &cases).unwrap();
        assert!(verdict.holds, "{verdict:?}");
        assert_eq!((verdict.cases, verdict.worse.len()), (2, 0));
        assert!((verdict.one_channel_spread_median - 0.03).abs() < 1e-9);
        assert!(verdict.is_conclusive);
    }

    #[test]
    fn where_one_channel_is_far_from_itself_the_verdict_tells_nothing() {
        let cases = [case(4096, 1, [0.6, 1.0, 1.4]), case(4096, 4, [0.9, 1.1, 1.3])];
        let verdict = never_worse("multilane", &cases).unwrap();
        assert!(verdict.holds && !verdict.is_conclusive);
    }

    #[test]
    fn a_single_round_tells_nothing() {
        let once = |channels, ratio| Case { rounds: 1, ..case(4096, channels, [ratio; 3]) };
        let verdict = never_worse("multilane", &[once(1, 1.0), once(4, 0.2)]).unwrap();
        assert!(!verdict.is_conclusive, "{verdict:?}");
    }

    #[test]
    fn a_case_below_what_chance_explains_is_worse() {
        let cases = [
            case(4096, 1, [0.99, 1.0, 1.01]),
            case(4096, 4, [0.9, 0.93, 1.0]),
            case(65536, 1, [0.99, 1.0, 1.01]),
            case(65536, 4, [1.1, 1.2, 1.3]),
        ];
        let verdict = never_worse("multilane", &cases).unwrap();
        assert!(!verdict.holds && verdict.ratio_median > 1.0);
        assert_eq!(verdict.worse.first().map(|worse| worse.block_bytes), Some(4096));
    }

    #[test]
    fn a_median_below_one_does_not_hold() {
        let cases = [case(4096, 1, [0.99, 1.0, 1.01]), case(4096, 4, [0.98, 0.99, 1.0])];
        let verdict = never_worse("multilane", &cases).unwrap();
        assert!(!verdict.holds && verdict.worse.is_empty());
        assert!(never_worse("samba", &cases).is_none());
    }
}
