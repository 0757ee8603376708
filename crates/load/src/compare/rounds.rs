//! Rounds: every server and channel count takes its turn in each, forth and back, so that no case has the quiet hours for itself.

use super::plan::Plan;
use super::sample::Run;

/// The runs of a round, in order. Within an experiment the servers alternate; one channel begins and, a second time, ends it. Every
/// other round goes backwards.
pub(crate) fn round(plan: &Plan, servers: usize, number: u32) -> Vec<Run> {
    let mut runs = Vec::new();
    for experiment in 0..plan.experiments.len() {
        let begin = runs.len();
        let again = plan.channels.iter().map(|channels| (*channels, false)).chain([(1, true)]);
        for (channels, is_again) in again {
            runs.extend((0..servers).map(|server| Run { experiment, server, channels, is_again }));
        }
        if number % 2 == 1 {
            runs.get_mut(begin..).into_iter().for_each(<[Run]>::reverse);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::plan::Choice;

    fn order(number: u32) -> Vec<(usize, usize, bool)> {
        let choice = Choice { channels: vec![4], blocks: vec![4096], ..Choice::default() };
        let plan = Plan::of(&choice).unwrap();
        let first = |run: &&Run| run.experiment == 0;
        round(&plan, 2, number).iter().filter(first).map(|run| (run.server, run.channels, run.is_again)).collect()
    }

    #[test]
    fn servers_alternate_between_two_runs_of_one_channel() {
        let forth = [(0, 1, false), (1, 1, false), (0, 4, false), (1, 4, false), (0, 1, true), (1, 1, true)];
        assert_eq!(order(0), forth);
    }

    #[test]
    fn every_other_round_goes_backwards() {
        let mut back = order(0);
        back.reverse();
        assert_eq!((order(1), order(2)), (back, order(0)));
    }
}
