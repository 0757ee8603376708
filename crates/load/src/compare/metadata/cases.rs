//! From samples to figures: medians over the rounds, and ratios round by round.

use super::super::servers::Server;
use super::super::statistics::{Spread, median, ratios};
use super::plan::{Condition, Plan, Turn, Workload};
use super::report::{Against, Case, Effect, Latency, Ratio};
use super::turn::Sample;

/// What is compared of two samples.
type Value = fn(&Sample) -> f64;

/// All samples of a workload.
pub(super) struct Samples<'a> {
    workload: Workload,
    samples: Vec<&'a Sample>,
}

/// The cases that samples tell of: by workload, server, number of clients, without and with caching.
pub(super) fn cases(plan: &Plan, servers: &[Server], samples: &[Sample]) -> Vec<Case> {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    each(plan, samples, |samples, clients| {
        let conditions = [Condition::AsItIs, Condition::Off, Condition::On];
        let of = |(server, name): (usize, &&str)| {
            conditions.map(|condition| samples.case(Turn { server, clients, condition }, name, plan.depth))
        };
        names.iter().enumerate().flat_map(of).flatten().collect()
    })
}

/// What caching does, where it can be switched.
pub(super) fn effects(plan: &Plan, servers: &[Server], samples: &[Sample]) -> Vec<Effect> {
    each(plan, samples, |samples, clients| {
        let of = |(server, about): (usize, &Server)| samples.effect(server, &about.name, clients);
        servers.iter().enumerate().filter_map(of).collect()
    })
}

/// The first server against the others.
pub(super) fn against(plan: &Plan, servers: &[Server], samples: &[Sample]) -> Vec<Against> {
    each(plan, samples, |samples, clients| {
        let conditions = [Condition::AsItIs, Condition::Off, Condition::On];
        let of = |(other, about): (usize, &Server)| {
            conditions.map(|condition| samples.against(condition, other, &about.name, clients))
        };
        servers.iter().enumerate().skip(1).flat_map(of).flatten().collect()
    })
}

/// For each workload and number of clients.
fn each<T>(plan: &Plan, samples: &[Sample], of: impl Fn(&Samples<'_>, usize) -> Vec<T>) -> Vec<T> {
    let mut all = Vec::new();
    for workload in Workload::ALL {
        let samples = Samples::of(*workload, samples);
        all.extend(plan.clients.iter().flat_map(|clients| of(&samples, *clients)));
    }
    all
}

impl<'a> Samples<'a> {
    fn of(workload: Workload, samples: &'a [Sample]) -> Self {
        Samples { workload, samples: samples.iter().filter(|sample| sample.workload == workload).collect() }
    }

    fn case(&self, turn: Turn, server: &str, depth: u32) -> Option<Case> {
        let mine = || self.samples.iter().filter(|sample| sample.turn == turn);
        let of = |value: Value| median(mine().map(|sample| value(sample)));
        Some(Case {
            workload: self.workload,
            server: server.to_owned(),
            clients: turn.clients,
            caching: turn.condition.caching(),
            depth,
            rounds: mine().count(),
            operations: mine().map(|sample| sample.operations).sum(),
            latency: Latency { mean_us: of(mean)?, p50_us: of(|sample| sample.latency_us[1])?, p99_us: of(p99)? },
            operations_per_second_median: of(Sample::operations_per_second)?,
            network_mibps_median: of(Sample::mibps)?,
            network_bytes_per_operation: of(|sample| {
                (sample.moved.sent_bytes + sample.moved.received_bytes) as f64 / sample.operations.max(1) as f64
            })?,
        })
    }

    /// With caching against the mean of both turns without it in the same round, one before and one after: what drifts evenly cancels out.
    /// What chance does is the second turn without it against the first.
    fn effect(&self, server: usize, name: &str, clients: usize) -> Option<Effect> {
        let turn = |condition| Turn { server, clients, condition };
        let (off, on, again) = (turn(Condition::Off), turn(Condition::On), turn(Condition::OffAgain));
        let compared = |value: Value| {
            let pairs = self.rounds_of(on).filter_map(|round| {
                let before = self.at(off, round).map(value)?;
                let after = self.at(again, round).map(value)?;
                Some((self.at(on, round).map(value)?, f64::midpoint(before, after)))
            });
            ratios(pairs).map(Ratio::from)
        };
        let operations = Sample::operations_per_second;
        let chance = self
            .rounds_of(off)
            .filter_map(|round| Some((operations(self.at(again, round)?), operations(self.at(off, round)?))));
        Some(Effect {
            workload: self.workload,
            server: name.to_owned(),
            clients,
            latency_mean: compared(mean)?,
            latency_p99: compared(p99)?,
            operations_per_second: compared(operations)?,
            network_mibps: compared(Sample::mibps)?,
            chance: ratios(chance).map(Ratio::from)?,
        })
    }

    fn against(&self, condition: Condition, other: usize, name: &str, clients: usize) -> Option<Against> {
        let first = Turn { server: 0, clients, condition };
        let theirs = Turn { server: other, condition: Condition::AsItIs, ..first };
        let operations = Sample::operations_per_second;
        let pairs = self
            .rounds_of(first)
            .filter_map(|round| Some((operations(self.at(first, round)?), operations(self.at(theirs, round)?))));
        Some(Against {
            workload: self.workload,
            server: name.to_owned(),
            clients,
            caching: condition.caching(),
            operations_per_second: ratios(pairs).map(Ratio::from)?,
        })
    }

    fn rounds_of(&self, turn: Turn) -> impl Iterator<Item = u32> {
        self.samples.iter().filter(move |sample| sample.turn == turn).map(|sample| sample.round)
    }

    fn at(&self, turn: Turn, round: u32) -> Option<&Sample> {
        self.samples.iter().find(|sample| sample.turn == turn && sample.round == round).copied()
    }
}

fn mean(sample: &Sample) -> f64 {
    sample.latency_us[0]
}

fn p99(sample: &Sample) -> f64 {
    sample.latency_us[2]
}

impl From<Spread> for Ratio {
    fn from(spread: Spread) -> Self {
        Ratio { median: spread.median, low: spread.low, high: spread.high }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clients::Moved;
    use super::*;

    /// One of eight clients who read small files on our server.
    fn sample(round: u32, condition: Condition, operations: u64) -> Sample {
        Sample {
            turn: Turn { server: 0, clients: 8, condition },
            round,
            workload: Workload::SmallFiles,
            operations,
            seconds: 2.0,
            moved: Moved { sent_bytes: operations << 10, received_bytes: operations << 12 },
            latency_us: [16e6 / operations as f64, 1.0, 20e6 / operations as f64],
        }
    }

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn caching_is_compared_with_both_turns_without_it_in_their_round() {
        let samples = [
            sample(1, Condition::Off, 100),
            sample(1, Condition::On, 300),
            sample(1, Condition::OffAgain, 200),
            // A slow round, in which it is four times.
            sample(2, Condition::OffAgain, 10),
            sample(2, Condition::On, 40),
            sample(2, Condition::Off, 10),
            // Caching was not measured in this one.
            sample(3, Condition::Off, 1_000),
        ];
        let effect = Samples::of(Workload::SmallFiles, &samples).effect(0, "multilane", 8).unwrap();
        let Ratio { median, low, high } = effect.operations_per_second;
        assert!(near(low, 2.0) && near(median, 3.0) && near(high, 4.0), "{effect:?}");
        assert_eq!(effect.network_mibps, effect.operations_per_second);
        assert!(near(effect.latency_mean.low, 0.25) && near(effect.latency_mean.high, 2.0 / 4.5), "{effect:?}");
        assert!(near(effect.chance.low, 1.0) && near(effect.chance.high, 2.0), "{effect:?}");
        assert!(Samples::of(Workload::Open, &samples).effect(0, "multilane", 8).is_none());
    }

    #[test]
    fn a_case_has_the_medians_of_its_rounds() {
        let samples = [1_000, 3_000, 2_000].map(|operations| sample(operations as u32, Condition::On, operations));
        let turn = Turn { server: 0, clients: 8, condition: Condition::On };
        let samples = Samples::of(Workload::SmallFiles, &samples);
        let case = samples.case(turn, "multilane", 4).unwrap();
        assert_eq!((case.rounds, case.operations, case.depth), (3, 6_000, 4));
        assert!(near(case.operations_per_second_median, 1_000.0) && near(case.latency.mean_us, 8_000.0), "{case:?}");
        assert!(near(case.network_mibps_median, 5_000.0 / 1_024.0), "{case:?}");
        assert!(near(case.network_bytes_per_operation, 5_120.0), "{case:?}");
        assert!(samples.case(Turn { clients: 1, ..turn }, "multilane", 4).is_none());
    }

    #[test]
    fn other_servers_are_compared_round_by_round_whatever_caching_is() {
        let other = |round, operations| Sample {
            turn: Turn { server: 1, clients: 8, condition: Condition::AsItIs },
            ..sample(round, Condition::AsItIs, operations)
        };
        let samples = [sample(1, Condition::On, 30), other(1, 10), sample(2, Condition::On, 10), other(2, 10)];
        let samples = Samples::of(Workload::SmallFiles, &samples);
        let against = samples.against(Condition::On, 1, "samba", 8).unwrap();
        assert_eq!(against.operations_per_second, Ratio { median: 2.0, low: 1.0, high: 3.0 });
        assert!(samples.against(Condition::Off, 1, "samba", 8).is_none());
    }
}
