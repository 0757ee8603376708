//! What is measured: the cases, in which order, and for how long.

use std::time::Duration;

use serde::Serialize;

use crate::engine::Failure;

/// Files of the workloads that have several.
pub(crate) const FILES: usize = 10;
/// Threads for each file of the workloads with many, where nothing else is said: as in DiskSpd's usual `-t8`.
const THREADS: u32 = 8;
/// Requests in flight of each of many threads, where nothing else is said: `-o8`.
const DEPTH_OF_MANY: u32 = 8;
/// Requests in flight of a single thread, where nothing else is said: `-o16`.
pub(crate) const DEPTH_OF_ONE: u32 = 16;
/// Bytes in flight at most, unless a single request of each thread has more: what is queued longer than a round is not measured by it.
const IN_FLIGHT_BYTES_MAX: u64 = 64 << 20;
/// The most channels that a session of Windows or Samba may have.
const CHANNELS_MAX: usize = 32;
/// Rounds that count, at most.
pub(super) const ROUNDS_MAX: u32 = 1000;
/// Block sizes in bytes.
const BLOCKS: [u32; 6] = [4 << 10, 8 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
const BLOCKS_QUICK: [u32; 3] = [4 << 10, 64 << 10, 1 << 20];
/// The greatest block that SMB moves in one request of ours.
const BLOCK_MAX: u32 = 8 << 20;

macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$of:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub enum $type { $($(#[$of])* #[serde(rename = $name)] $variant,)* }

        impl $type {
            /// All of them, in the order of reports.
            pub const ALL: &[$type] = &[$($type::$variant,)*];

            /// As reports and the command line have it.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::network::UnknownName;

            fn from_str(text: &str) -> Result<Self, $crate::network::UnknownName> {
                let found = $type::ALL.iter().find(|known| known.name() == text);
                found.copied().ok_or_else(|| $crate::network::UnknownName([$($name,)*].join(", ")))
            }
        }
    };
}
pub(super) use names;

names! {
    /// Who asks, and of how many files.
    Workload {
        /// Many threads on each of ten files.
        MtMulti = "mt-multi",
        /// Many threads on one file.
        MtSingle = "mt-single",
        /// One thread on one file.
        StSingle = "st-single",
        /// One thread on ten files.
        StMulti = "st-multi",
    }
}

names! {
    /// What is asked.
    Op {
        /// Random reads.
        Read = "read",
        /// Random writes.
        Write = "write",
    }
}

names! {
    /// How messages are protected on their way.
    Protection {
        /// Neither signed nor encrypted.
        Plain = "plain",
        /// Signed.
        Sign = "sign",
        /// Encrypted.
        Seal = "seal",
    }
}

/// What is measured with every channel count and on every server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// Who asks.
    pub workload: Workload,
    /// What.
    pub op: Op,
    /// How much at once.
    pub block_bytes: u32,
    /// How it is protected.
    pub protection: Protection,
}

/// What the user chose; what is empty or `None` was left open.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// A subset that ends within three minutes.
    pub is_quick: bool,
    /// Only these.
    pub workloads: Vec<Workload>,
    /// Only these.
    pub ops: Vec<Op>,
    /// Only these, in bytes.
    pub blocks: Vec<u32>,
    /// Only these.
    pub protections: Vec<Protection>,
    /// Only these counts; one channel is measured in any case.
    pub channels: Vec<usize>,
    /// Rounds that count.
    pub rounds: Option<u32>,
    /// How long each run is measured.
    pub duration: Option<Duration>,
    /// Threads for each file, of the workloads with many.
    pub threads: Option<u32>,
    /// Requests in flight of each thread.
    pub depth: Option<u32>,
    /// The length of each file in bytes.
    pub file_bytes: Option<u64>,
    /// Whether the cost against connections and open files is measured.
    pub curves: Option<bool>,
}

/// The whole comparison.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is measured, in the order of each round.
    pub experiments: Vec<Experiment>,
    /// Channel counts, rising; the first is 1.
    pub channels: Vec<usize>,
    /// Rounds that count; one more goes before them.
    pub rounds: u32,
    /// How long each run is measured.
    pub duration: Duration,
    /// What goes before that in each run.
    pub warmup: Duration,
    /// Threads for each file, of the workloads with many.
    pub threads: u32,
    /// Requests in flight of each thread, where the user chose.
    pub depth: Option<u32>,
    /// The length of each file in bytes.
    pub file_bytes: u64,
    /// The cost against connections and open files is measured, too.
    pub curves: bool,
}

/// How many threads ask, and how much at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Load {
    /// Files that are used.
    pub files: usize,
    /// Threads in all.
    pub threads: u32,
    /// Requests in flight of each thread.
    pub depth: u32,
}

impl Plan {
    /// What a choice comes to, or a sentence that says what to change.
    pub fn of(choice: &Choice) -> Result<Self, Failure> {
        let quick = choice.is_quick;
        let plan = Plan {
            experiments: experiments(choice),
            channels: channels(choice),
            rounds: choice.rounds.unwrap_or(if quick { 3 } else { 4 }),
            duration: choice.duration.unwrap_or(Duration::from_millis(if quick { 200 } else { 500 })),
            warmup: Duration::from_millis(if quick { 200 } else { 400 }),
            threads: choice.threads.unwrap_or(THREADS),
            depth: choice.depth,
            file_bytes: choice.file_bytes.unwrap_or(if quick { 16 << 20 } else { 64 << 20 }),
            curves: choice.curves.unwrap_or(!quick && is_whole(choice)),
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), Failure> {
        let fail = |what: String, remedy: &str| Err(Failure { what, remedy: remedy.to_owned() });
        if self.experiments.is_empty() {
            return fail("no case is left to measure".to_owned(), "choose less narrowly");
        }
        if self.rounds == 0 || self.rounds > ROUNDS_MAX {
            return fail(format!("{} rounds cannot be measured", self.rounds), "use --rounds 1 to 1000");
        }
        if self.duration < Duration::from_millis(10) || self.duration > Duration::from_secs(3600) {
            return fail("a run cannot take so long".to_owned(), "use --seconds 0.01 to 3600");
        }
        if let Some(count) = self.channels.iter().find(|count| **count == 0 || **count > CHANNELS_MAX) {
            return fail(format!("{count} channels cannot be had"), "use --channels 1 to 32");
        }
        for experiment in &self.experiments {
            let block = experiment.block_bytes;
            if !(512..=BLOCK_MAX).contains(&block) || !block.is_multiple_of(512) {
                return fail(format!("{block} bytes are no block"), "use multiples of 512 bytes, up to 8M");
            }
            if u64::from(block) > self.file_bytes || !self.file_bytes.is_multiple_of(u64::from(block)) {
                let what = format!("blocks of {block} bytes do not divide files of {} bytes", self.file_bytes);
                return fail(what, "choose another --file-size, a multiple of every --block");
            }
        }
        let in_flight = u64::from(self.threads) * u64::from(self.depth.unwrap_or(1)) * FILES as u64;
        if self.threads == 0 || self.depth == Some(0) || in_flight > 1 << 16 {
            return fail(
                "so many requests cannot be in flight".to_owned(),
                "use fewer --threads or less --outstanding",
            );
        }
        Ok(())
    }

    /// Who asks how much at once in an experiment.
    pub fn load(&self, experiment: &Experiment) -> Load {
        let (files, threads, depth) = match experiment.workload {
            Workload::MtMulti => (FILES, self.threads * FILES as u32, DEPTH_OF_MANY),
            Workload::MtSingle => (1, self.threads, DEPTH_OF_MANY),
            Workload::StSingle => (1, 1, DEPTH_OF_ONE),
            Workload::StMulti => (FILES, 1, DEPTH_OF_ONE),
        };
        let bounded = IN_FLIGHT_BYTES_MAX / (u64::from(threads) * u64::from(experiment.block_bytes));
        let depth = self.depth.unwrap_or(depth.min(u32::try_from(bounded).unwrap_or(depth)).max(1));
        Load { files, threads, depth }
    }

    /// Files that all experiments together use.
    pub(crate) fn files(&self) -> usize {
        self.experiments.iter().map(|experiment| self.load(experiment).files).max().unwrap_or(0)
    }
}

/// Nothing was left out.
fn is_whole(choice: &Choice) -> bool {
    let Choice { workloads, ops, blocks, protections, channels, .. } = choice;
    workloads.is_empty() && ops.is_empty() && blocks.is_empty() && protections.is_empty() && channels.is_empty()
}

fn experiments(choice: &Choice) -> Vec<Experiment> {
    let workloads = or_all(&choice.workloads, Workload::ALL);
    let ops = or_all(&choice.ops, Op::ALL);
    let protections = or_all(&choice.protections, Protection::ALL);
    let blocks = or_all(&choice.blocks, if choice.is_quick { &BLOCKS_QUICK } else { &BLOCKS });
    let mut experiments = Vec::new();
    for protection in protections {
        for workload in &workloads {
            for op in &ops {
                for block_bytes in &blocks {
                    let (workload, op, block_bytes) = (*workload, *op, *block_bytes);
                    experiments.push(Experiment { workload, op, block_bytes, protection });
                }
            }
        }
    }
    if choice.is_quick && choice.protections.is_empty() {
        experiments.retain(is_quick);
    }
    experiments
}

/// Protected messages are measured where they cost most.
fn is_quick(experiment: &Experiment) -> bool {
    let is_one_of_two = matches!(experiment.workload, Workload::MtMulti | Workload::StSingle);
    let is_large_read = experiment.op == Op::Read && experiment.block_bytes >= 1 << 20;
    experiment.protection == Protection::Plain || (is_one_of_two && is_large_read)
}

fn channels(choice: &Choice) -> Vec<usize> {
    let default: &[usize] = if choice.is_quick { &[1, 4] } else { &[1, 2, 4, 8] };
    let mut channels = or_all(&choice.channels, default);
    channels.push(1);
    channels.sort_unstable();
    channels.dedup();
    channels
}

fn or_all<T: Copy>(chosen: &[T], all: &[T]) -> Vec<T> {
    if chosen.is_empty() { all.to_vec() } else { chosen.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_plan_has_every_combination() {
        let plan = Plan::of(&Choice::default()).unwrap();
        assert_eq!(plan.experiments.len(), 4 * 2 * 6 * 3);
        assert_eq!(plan.channels, [1, 2, 4, 8]);
    }

    #[test]
    fn the_quick_plan_is_a_small_part_of_it() {
        let plan = Plan::of(&Choice { is_quick: true, ..Choice::default() }).unwrap();
        let plain = plan.experiments.iter().filter(|one| one.protection == Protection::Plain).count();
        assert_eq!((plain, plan.experiments.len()), (4 * 2 * 3, 4 * 2 * 3 + 4));
        let each = plan.duration + plan.warmup;
        let runs = plan.experiments.len() as u32 * 3 * (plan.rounds + 1);
        assert!(each * runs < Duration::from_secs(150), "{:?} of measuring alone", each * runs);
    }

    #[test]
    fn curves_belong_to_a_full_run_unless_they_are_chosen() {
        let has_curves = |choice: Choice| Plan::of(&choice).unwrap().curves;
        assert!(has_curves(Choice::default()));
        assert!(!has_curves(Choice { is_quick: true, ..Choice::default() }));
        assert!(!has_curves(Choice { channels: vec![4], ..Choice::default() }));
        assert!(has_curves(Choice { is_quick: true, curves: Some(true), ..Choice::default() }));
        assert!(!has_curves(Choice { curves: Some(false), ..Choice::default() }));
    }

    #[test]
    fn one_channel_is_measured_whatever_else_is_chosen() {
        let choice = Choice { channels: vec![4, 2, 4], ..Choice::default() };
        assert_eq!(Plan::of(&choice).unwrap().channels, [1, 2, 4]);
    }

    #[test]
    fn large_blocks_of_many_threads_have_less_in_flight() {
        let plan = Plan::of(&Choice::default()).unwrap();
        let load = |workload, block_bytes| {
            let load = plan.load(&Experiment { workload, op: Op::Read, block_bytes, protection: Protection::Plain });
            (load.files, load.threads, load.depth)
        };
        assert_eq!(load(Workload::MtMulti, 4 << 10), (10, 80, 8));
        assert_eq!(load(Workload::MtMulti, 256 << 10), (10, 80, 3));
        assert_eq!(load(Workload::MtMulti, 1 << 20), (10, 80, 1));
        assert_eq!(load(Workload::MtSingle, 1 << 20), (1, 8, 8));
        assert_eq!(load(Workload::StMulti, 4 << 10), (10, 1, 16));
    }

    #[test]
    fn choices_that_cannot_be_measured_say_what_to_change() {
        let refused = |choice: Choice| Plan::of(&choice).unwrap_err();
        assert!(refused(Choice { blocks: vec![1000], ..Choice::default() }).remedy.contains("512"));
        let odd = Choice { blocks: vec![3 << 20], ..Choice::default() };
        assert!(refused(odd).remedy.contains("--file-size"));
        assert!(refused(Choice { file_bytes: Some(4 << 10), ..Choice::default() }).what.contains("divide"));
        assert!(refused(Choice { rounds: Some(0), ..Choice::default() }).remedy.contains("--rounds"));
        assert!(refused(Choice { channels: vec![33], ..Choice::default() }).remedy.contains("--channels"));
        assert!(refused(Choice { threads: Some(0), ..Choice::default() }).remedy.contains("--threads"));
        assert!(refused(Choice { duration: Some(Duration::ZERO), ..Choice::default() }).remedy.contains("--seconds"));
    }
}
