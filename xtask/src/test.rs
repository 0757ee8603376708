//! The whole test: its parts, their order, and the last line that sums them up.

use std::process::{Command, ExitCode};
use std::thread;
use std::time::Instant;

use crate::run::{self, Tally, root};
use crate::{edges, spec, style};

/// Seconds that each fuzz target runs.
const FUZZ_SECONDS: u32 = 10;

/// One part of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Backups,
    Edges,
    Fmt,
    Clippy,
    Style,
    Unit,
    Build,
    Fuzz,
    Conformance,
    Bounds,
    KernelHour,
    MetadataCache,
    Packages,
    Seeds,
    Soak,
}

/// What the whole test is, in the order it runs: what is quick and says most comes first.
pub(crate) const PARTS: [Part; 8] =
    [Part::Edges, Part::Fmt, Part::Clippy, Part::Style, Part::Unit, Part::Build, Part::Fuzz, Part::Conformance];

/// What takes so long that it runs only where it is named.
pub(crate) const LONG_PARTS: [Part; 7] =
    [Part::Seeds, Part::Backups, Part::Bounds, Part::KernelHour, Part::MetadataCache, Part::Packages, Part::Soak];

/// Runs of each simulation in the part that has many.
const MANY_SEEDS: &str = "10000";

/// Names that are kept in memory in the part that looks at what metadata caching costs.
const MANY_NAMES: &str = "1000000";

/// How much later than tests the release build and the fuzz targets get a core, as nice(1) has it.
const NICENESS: &str = "10";

/// Minutes that a long part works.
const LONG_MINUTES: &str = "60";

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Backups => "backups",
            Self::Edges => "edges",
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::Style => "style",
            Self::Unit => "unit",
            Self::Build => "build",
            Self::Fuzz => "fuzz",
            Self::Conformance => "conformance",
            Self::Bounds => "bounds",
            Self::KernelHour => "kernel-hour",
            Self::MetadataCache => "metadata-cache",
            Self::Packages => "packages",
            Self::Seeds => "seeds",
            Self::Soak => "soak",
        }
    }

    /// The parts that run at the same time, where they come next: tests wait for timers, the release is linked on one core for minutes, and so are
    /// fuzz targets. What is built has what of the cores nobody else wants.
    fn beside(self) -> &'static [Self] {
        match self {
            Self::Unit => &[Self::Build, Self::Fuzz],
            Self::Build => &[Self::Fuzz],
            _ => &[],
        }
    }

    fn tally(self) -> Tally {
        match self {
            Self::Backups => long("conformance.backups"),
            Self::Edges => edges::check() + spec::check(),
            Self::Fmt => run::one(cargo(&["fmt", "--all", "--check"])),
            Self::Clippy => clippy(),
            Self::Style => style::check(),
            Self::Unit => run::counted(cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]), run::test_result),
            Self::Build => run::one(release()),
            Self::Fuzz => fuzz(),
            Self::Conformance => run::counted(python(&["-m", "conformance.run"]), run::summary),
            Self::Bounds => run::one(python(&["-m", "conformance.bench.bounds"])),
            Self::KernelHour => long("conformance.kernel_fsx"),
            Self::MetadataCache => {
                many_names() + run::counted(python(&["-m", "conformance.metadata_cache", "--whole"]), run::summary)
            }
            Self::Packages => packages(),
            Self::Seeds => seeds(),
            Self::Soak => long("conformance.soak"),
        }
    }
}

/// A name that no part has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no part called {0:?}")]
pub(crate) struct UnknownPart(String);

/// The parts named in a list with commas, in the order they run.
pub(crate) fn chosen(names: &str) -> Result<Vec<Part>, UnknownPart> {
    let all = || PARTS.into_iter().chain(LONG_PARTS);
    if let Some(unknown) = names.split(',').find(|name| all().all(|part| part.name() != *name)) {
        return Err(UnknownPart(unknown.to_owned()));
    }
    Ok(all().filter(|part| names.split(',').any(|name| name == part.name())).collect())
}

/// Runs these parts, all of them even after a failure, and prints the sum.
pub(crate) fn run(parts: &[Part]) -> ExitCode {
    let began = Instant::now();
    let mut total = Tally::default();
    let mut broken = Vec::new();
    let mut seconds = Vec::new();
    let mut parts = parts.iter().copied().peekable();
    while let Some(part) = parts.next() {
        let beside: Vec<Part> = part.beside().iter().filter_map(|beside| parts.next_if_eq(beside)).collect();
        let tallies = thread::scope(|scope| {
            let lanes: Vec<_> = beside.iter().map(|part| (*part, scope.spawn(|| timed(*part)))).collect();
            let mut tallies = vec![timed(part)];
            tallies.extend(lanes.into_iter().map(|(part, lane)| lane.join().unwrap_or((part, Tally::failure(), 0))));
            tallies
        });
        for (part, tally, taken) in tallies {
            seconds.push(format!("{} {taken} s", part.name()));
            if tally.failed > 0 {
                broken.push(part.name());
            }
            total += tally;
        }
    }
    // Other parts have printed much since then.
    for line in &total.repeated {
        println!("{line}");
    }
    println!("parts: {}; all {} s", seconds.join(", "), began.elapsed().as_secs());
    if !broken.is_empty() {
        println!("failed: {}", broken.join(", "));
    }
    println!("{} passed, {} failed", total.passed, total.failed);
    ExitCode::from(u8::from(total.failed > 0))
}

/// Runs a part; what it found, and the seconds it took.
fn timed(part: Part) -> (Part, Tally, u64) {
    println!("== {}", part.name());
    let began = Instant::now();
    let tally = part.tally();
    let seconds = began.elapsed().as_secs();
    println!("   {}: {} passed, {} failed, in {seconds} s", part.name(), tally.passed, tally.failed);
    (part, tally, seconds)
}

/// The workspace, and the Rust beside it that has hardly a dependency of its own, so that it shares what was built.
fn clippy() -> Tally {
    let strictly = |words: &[&str]| {
        let mut command = cargo(&["clippy", "--all-targets", "--locked"]);
        command.args(words).args(["--", "-D", "warnings"]).env("CARGO_TARGET_DIR", root().join("target"));
        run::one(command)
    };
    let mut total = strictly(&["--workspace"]);
    for manifest in ["fuzz/Cargo.toml", "conformance/bench-client/Cargo.toml"] {
        total += strictly(&["--manifest-path", manifest]);
    }
    total
}

/// Every fuzz target for a short while, beginning with its corpus.
fn fuzz() -> Tally {
    let installed = run::quietly(cargo(&["fuzz", "--version"]))
        || run::succeeds(cargo(&["install", "cargo-fuzz", "--locked", "--debug"]));
    if !installed {
        eprintln!("cargo-fuzz could not be installed");
        return Tally::failure();
    }
    let Some(targets) = run::output(cargo_fuzz(&["list"])) else { return Tally::failure() };
    // All at once, while others build too; one after the other they would be linked on one core.
    if !run::succeeds(behind(&cargo_fuzz(&["build"]))) {
        return Tally::failure();
    }
    let targets: Vec<&str> = targets.split_whitespace().collect();
    let (some, others) = targets.split_at(targets.len() / 2);
    let each = |targets: &[&str]| targets.iter().map(|target| fuzz_one(target)).fold(Tally::default(), |a, b| a + b);
    // A target runs on one core: two of them take half the time.
    thread::scope(|scope| {
        let beside = scope.spawn(|| each(others));
        each(some) + beside.join().unwrap_or_else(|_| Tally::failure())
    })
}

/// Runs one fuzz target for a while.
fn fuzz_one(target: &str) -> Tally {
    println!("-- fuzz {target}");
    // What a run finds new goes to a folder of its own; the kept corpus is only read.
    let (found, kept) = (format!("target/fuzz-corpus/{target}"), format!("fuzz/corpus/{target}"));
    if let Err(error) = std::fs::create_dir_all(root().join(&found)) {
        eprintln!("{found}: {error}");
        return Tally::failure();
    }
    let limit = format!("-max_total_time={FUZZ_SECONDS}");
    run::one(behind(&cargo_fuzz(&["run", target, &found, &kept, "--", &limit, "-verbosity=0", "-print_final_stats=0"])))
}

/// The simulations, with many more runs than the unit tests have.
fn seeds() -> Tally {
    let many = |words: &[&str]| {
        let mut command = cargo(&["test", "--profile", "seeds", "--locked", "--package"]);
        command.args(words).env("MULTILANE_SEEDS", MANY_SEEDS);
        run::counted(command, run::test_result)
    };
    many(&["multilane", "--test", "client", "seeds::"]) + many(&["multilane-server", "--lib", "coherence_tests::"])
}

/// The program's release build. Of the whole workspace it is no other: what there is beside is linked as a whole for these tasks, which are not released.
fn release() -> Command {
    behind(&cargo(&["build", "--release", "--locked", "--package", "multilane"]))
}

/// The packages, made of the release build and used in systems of their own; then that whoever builds them gets the same.
fn packages() -> Tally {
    run::one(release())
        + run::counted(python(&["-m", "conformance.run", "--only", "package"]), run::summary)
        + run::counted(python(&["-m", "conformance.reproducible"]), run::summary)
}

/// What it takes to keep a million names in memory.
fn many_names() -> Tally {
    let mut command =
        cargo(&["test", "--profile", "seeds", "--locked", "--package", "multilane-store", "--test", "names"]);
    command.args(["--", "--nocapture"]).env("MULTILANE_NAMES", MANY_NAMES);
    run::counted(command, run::test_result)
}

/// A suite that works as long as it is told to.
fn long(module: &str) -> Tally {
    run::counted(python(&["-m", module, "--minutes", LONG_MINUTES]), run::summary)
}

/// The same command behind others in the queue for a core: tests that run beside it have times to keep.
fn behind(command: &Command) -> Command {
    let mut behind = Command::new("nice");
    behind.args(["-n", NICENESS]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        behind.current_dir(folder);
    }
    behind.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    behind
}

fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).current_dir(root());
    command
}

/// cargo-fuzz asks rustc for unstable flags; this lets a stable toolchain take them.
fn cargo_fuzz(words: &[&str]) -> Command {
    let mut command = cargo(&["fuzz"]);
    command.args(words).env("RUSTC_BOOTSTRAP", "1");
    command
}

fn python(words: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.args(words).current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_parts_keep_their_order() {
        assert_eq!(chosen("conformance,unit"), Ok(vec![Part::Unit, Part::Conformance]));
    }

    #[test]
    fn long_parts_run_only_where_they_are_named() {
        assert!(LONG_PARTS.iter().all(|part| !PARTS.contains(part)));
        assert_eq!(chosen("soak,build"), Ok(vec![Part::Build, Part::Soak]));
    }

    #[test]
    fn an_unknown_part_is_named() {
        assert_eq!(chosen("unit,speed"), Err(UnknownPart("speed".to_owned())));
    }

    #[test]
    fn what_runs_beside_a_part_comes_next_and_is_not_what_needs_it() {
        for (position, part) in PARTS.iter().enumerate() {
            assert!(PARTS[position + 1..].starts_with(part.beside()), "{part:?}");
            assert!(!part.beside().contains(&Part::Conformance), "{part:?}");
        }
        assert_eq!(Part::Unit.beside(), [Part::Build, Part::Fuzz]);
    }
}
