//! What is measured of metadata: which operations, with how many clients, and in which order.

use std::time::Duration;

use serde::Serialize;

use super::super::plan::{ROUNDS_MAX, names};
use crate::engine::Failure;

/// Files of one folder.
const FILES_OF_FOLDER: usize = 100;
/// Files, where nothing else is said.
const FILES: usize = 10_000;
const FILES_QUICK: usize = 1_000;
/// The most files that a comparison makes.
const FILES_MAX: usize = 1_000_000;
/// Clients, where nothing else is said.
const CLIENTS: [usize; 4] = [1, 2, 4, 8];
const CLIENTS_QUICK: [usize; 2] = [1, 4];
const CLIENTS_MAX: usize = 64;
/// Operations of each client at once, where nothing else is said. Those of eight clients are as many as the threads with which the server
/// lets one user wait for a device.
const DEPTH: u32 = 4;
const DEPTH_MAX: u32 = 64;

names! {
    /// What clients do, again and again.
    Workload {
        /// Makes a file and closes it.
        Create = "create",
        /// Opens a file and closes it.
        Open = "open",
        /// Opens a file, asks for its attributes and closes it.
        Stat = "stat",
        /// Opens a file, has it deleted and closes it.
        Delete = "delete",
        /// Opens a file, reads 4 KiB and closes it.
        SmallFiles = "small-files",
    }
}

names! {
    /// Whether the account has metadata caching.
    Caching {
        /// It has none.
        Off = "off",
        /// It has.
        On = "on",
    }
}

impl Workload {
    /// What one operation is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Workload::Create => "make a file and close it",
            Workload::Open => "open a file and close it",
            Workload::Stat => "open a file, ask for its attributes, close it",
            Workload::Delete => "open a file, have it deleted, close it",
            Workload::SmallFiles => "open a file, read 4 KiB, close it",
        }
    }
}

/// What the user chose; what is empty or `None` was left open.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Fewer files, clients and rounds.
    pub is_quick: bool,
    /// Only these numbers of clients.
    pub clients: Vec<usize>,
    /// Rounds that count.
    pub rounds: Option<u32>,
    /// How long each workload is measured in a run.
    pub duration: Option<Duration>,
    /// Operations of each client at once.
    pub depth: Option<u32>,
    /// Files.
    pub files: Option<usize>,
    /// How far away the store of our own server is made to be.
    pub store_latency: Option<Duration>,
}

/// The whole comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Numbers of clients, rising.
    pub clients: Vec<usize>,
    /// Rounds that count; one more goes before them.
    pub rounds: u32,
    /// How long each workload is measured in a run.
    pub duration: Duration,
    /// Operations of each client at once.
    pub depth: u32,
    /// Files.
    pub files: usize,
    /// How far away the store of our own server is made to be.
    pub store_latency: Option<Duration>,
}

impl Plan {
    /// What a choice comes to, or a sentence that says what to change.
    pub fn of(choice: &Choice) -> Result<Self, Failure> {
        let quick = choice.is_quick;
        let default: &[usize] = if quick { &CLIENTS_QUICK } else { &CLIENTS };
        let mut clients = if choice.clients.is_empty() { default.to_vec() } else { choice.clients.clone() };
        clients.sort_unstable();
        clients.dedup();
        let plan = Plan {
            clients,
            rounds: choice.rounds.unwrap_or(if quick { 3 } else { 4 }),
            duration: choice.duration.unwrap_or(Duration::from_millis(if quick { 200 } else { 500 })),
            depth: choice.depth.unwrap_or(DEPTH),
            files: choice.files.unwrap_or(if quick { FILES_QUICK } else { FILES }),
            store_latency: choice.store_latency,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), Failure> {
        let fail = |what: String, remedy: &str| Err(Failure { what, remedy: remedy.to_owned() });
        if let Some(count) = self.clients.iter().find(|count| !(1..=CLIENTS_MAX).contains(*count)) {
            return fail(format!("{count} clients cannot be measured"), "use --clients 1 to 64");
        }
        if !(1..=ROUNDS_MAX).contains(&self.rounds) {
            return fail(format!("{} rounds cannot be measured", self.rounds), "use --rounds 1 to 1000");
        }
        if self.duration < Duration::from_millis(10) || self.duration > Duration::from_secs(3600) {
            return fail("a run cannot take so long".to_owned(), "use --seconds 0.01 to 3600");
        }
        if !(1..=DEPTH_MAX).contains(&self.depth) {
            return fail(
                format!("{} operations of a client at once cannot be had", self.depth),
                "use --outstanding 1 to 64",
            );
        }
        if !(1..=FILES_MAX).contains(&self.files) {
            return fail(format!("{} files cannot be made", self.files), "use --files 1 to 1000000");
        }
        Ok(())
    }

    /// Folders that the files lie in.
    pub fn folders(&self) -> usize {
        self.files.div_ceil(FILES_OF_FOLDER)
    }
}

/// Under which conditions a turn is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Caching as the server has it, which is not ours to change.
    AsItIs,
    /// Without caching, before it is measured with it.
    Off,
    /// With caching.
    On,
    /// Without caching once more, to see what chance does.
    OffAgain,
}

impl Condition {
    /// What caching is switched to.
    pub(super) fn caching(self) -> Option<Caching> {
        match self {
            Condition::AsItIs => None,
            Condition::Off | Condition::OffAgain => Some(Caching::Off),
            Condition::On => Some(Caching::On),
        }
    }
}

/// A number of clients on a server, who do all workloads one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    /// Its place among the servers.
    pub(super) server: usize,
    pub(super) clients: usize,
    pub(super) condition: Condition,
}

/// The turns of a round, in order. Where a server's caching can be switched it is off, on and off again, and servers of which it cannot come
/// in the middle. Every other round goes backwards.
pub(super) fn round(plan: &Plan, can_switch: &[bool], number: u32) -> Vec<Turn> {
    let mut turns = Vec::new();
    for clients in plan.clients.iter().copied() {
        let begin = turns.len();
        for condition in [Condition::Off, Condition::On, Condition::OffAgain] {
            turns.extend(can_switch.iter().enumerate().filter_map(|(server, can_switch)| {
                match (can_switch, condition) {
                    (true, _) => Some(Turn { server, clients, condition }),
                    (false, Condition::On) => Some(Turn { server, clients, condition: Condition::AsItIs }),
                    (false, _) => None,
                }
            }));
        }
        if number % 2 == 1 {
            turns.get_mut(begin..).into_iter().for_each(<[Turn]>::reverse);
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_plan_has_ten_thousand_files_in_a_hundred_folders() {
        let plan = Plan::of(&Choice::default()).unwrap();
        assert_eq!((plan.files, plan.folders(), plan.clients), (10_000, 100, vec![1, 2, 4, 8]));
        let quick = Plan::of(&Choice { is_quick: true, ..Choice::default() }).unwrap();
        assert_eq!((quick.files, quick.folders(), quick.clients), (1_000, 10, vec![1, 4]));
        let few = Plan::of(&Choice { files: Some(7), clients: vec![3, 1, 3], ..Choice::default() }).unwrap();
        assert_eq!((few.folders(), few.clients), (1, vec![1, 3]));
    }

    #[test]
    fn choices_that_cannot_be_measured_say_what_to_change() {
        let refused = |choice: Choice| Plan::of(&choice).unwrap_err().remedy;
        assert!(refused(Choice { clients: vec![0], ..Choice::default() }).contains("--clients"));
        assert!(refused(Choice { files: Some(0), ..Choice::default() }).contains("--files"));
        assert!(refused(Choice { depth: Some(65), ..Choice::default() }).contains("--outstanding"));
        assert!(refused(Choice { rounds: Some(0), ..Choice::default() }).contains("--rounds"));
        assert!(refused(Choice { duration: Some(Duration::ZERO), ..Choice::default() }).contains("--seconds"));
    }

    #[test]
    fn caching_alternates_and_others_come_in_the_middle() {
        let plan = Plan::of(&Choice { clients: vec![2], ..Choice::default() }).unwrap();
        let order = |number| -> Vec<(usize, Condition)> {
            round(&plan, &[true, false], number).iter().map(|turn| (turn.server, turn.condition)).collect()
        };
        let forth = vec![(0, Condition::Off), (0, Condition::On), (1, Condition::AsItIs), (0, Condition::OffAgain)];
        assert_eq!(order(0), forth);
        assert_eq!(order(1), forth.into_iter().rev().collect::<Vec<_>>());
    }
}
