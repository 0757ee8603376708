//! Running other programs, showing what they print and counting what they say of their checks.

use std::fs;
use std::io::{BufRead, BufReader};
use std::ops::{Add, AddAssign};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// How many checks passed and failed, and which printed lines are worth reading again at the end: what failed, and what took how long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) repeated: Vec<String>,
}

impl Tally {
    pub(crate) fn new(passed: u64, failed: u64) -> Self {
        Self { passed, failed, repeated: Vec::new() }
    }

    /// A line that is repeated and counts nothing.
    fn noted(line: &str) -> Self {
        Self { repeated: vec![line.to_owned()], ..Self::default() }
    }

    /// One check that failed.
    pub(crate) fn failure() -> Self {
        Self::new(0, 1)
    }

    /// One check.
    pub(crate) fn of(passed: bool) -> Self {
        Self::new(u64::from(passed), u64::from(!passed))
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.repeated.extend(other.repeated);
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

/// The repository's folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// A program that is one check: its exit decides.
pub(crate) fn one(command: Command) -> Tally {
    Tally::of(succeeds(command))
}

/// Whether the program ran and exited with 0.
pub(crate) fn succeeds(mut command: Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("{}: {error}", command.get_program().to_string_lossy());
            false
        }
    }
}

/// As `succeeds`, showing nothing.
pub(crate) fn quietly(mut command: Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// What a program prints; none when it fails.
pub(crate) fn output(mut command: Command) -> Option<String> {
    let output = command.stderr(Stdio::inherit()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program of many checks: `count` finds the numbers in its lines. One that fails without saying of what is a failure.
pub(crate) fn counted(mut command: Command, count: fn(&str) -> Option<Tally>) -> Tally {
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("{}: {error}", command.get_program().to_string_lossy());
            return Tally::failure();
        }
    };
    let mut total = Tally::default();
    if let Some(printed) = child.stdout.take() {
        let mut was_panic = false;
        for line in BufReader::new(printed).lines().map_while(Result::ok) {
            println!("{line}");
            if let Some(tally) = count(&line) {
                total += tally;
            } else if was_panic {
                total += Tally::noted(&line);
            }
            was_panic = is_panic(&line);
        }
    }
    let succeeded = child.wait().is_ok_and(|status| status.success());
    if !succeeded && total.failed == 0 {
        total += Tally::failure();
    }
    total
}

/// `test result: ok. 12 passed; 0 failed; …`, as each of Cargo's test programs ends; before it the tests that failed, and where they panicked.
pub(crate) fn test_result(line: &str) -> Option<Tally> {
    if line.starts_with("test ") && line.ends_with(" ... FAILED") || is_panic(line) {
        return Some(Tally::noted(line));
    }
    let counts = line.strip_prefix("test result: ")?;
    Some(Tally::new(before(counts, " passed")?, before(counts, " failed")?))
}

/// A line that says where a test panicked; why is in the one after it.
fn is_panic(line: &str) -> bool {
    line.starts_with("thread '") && line.contains(" panicked at ")
}

/// `12 passed, 0 failed, 0 skipped`, as the conformance run ends, which has told by then what failed; before it how long its lanes took.
pub(crate) fn summary(line: &str) -> Option<Tally> {
    if line.starts_with("lanes: ") {
        return Some(Tally::noted(line));
    }
    let tally = Tally::new(before(line, " passed, ")?, before(line, " failed, ")?);
    line.ends_with(" skipped").then_some(tally)
}

/// The number in front of a word.
fn before(line: &str, word: &str) -> Option<u64> {
    line.split_once(word)?.0.rsplit([' ', ',', ';']).next()?.parse().ok()
}

/// The sources below a folder whose names end so, each with its text. What is built is left out.
pub(crate) fn sources(folder: &Path, endings: &[&str]) -> Vec<(PathBuf, String)> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut sources = Vec::new();
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_source = path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted));
        if path.is_dir() && !path.ends_with("target") {
            sources.extend(self::sources(&path, endings));
        } else if is_source && let Ok(text) = fs::read_to_string(&path) {
            sources.push((path, text));
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_programs_last_line_is_counted() {
        let line = "test result: FAILED. 12 passed; 3 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.1s";
        assert_eq!(test_result(line), Some(Tally::new(12, 3)));
    }

    #[test]
    fn what_failed_is_kept_with_its_reason() {
        let printed = "test a_door ... FAILED\nthread 'a_door' (7) panicked at door.rs:1:2:\nit is open\ntest result: FAILED. 1 passed; 1 failed;";
        let mut program = Command::new("printf");
        program.args(["%s\n", printed]);
        let failures = ["test a_door ... FAILED", "thread 'a_door' (7) panicked at door.rs:1:2:", "it is open"];
        let wanted = Tally { repeated: failures.map(str::to_owned).to_vec(), ..Tally::new(1, 1) };
        assert_eq!(counted(program, test_result), wanted);
    }

    #[test]
    fn other_lines_are_not_counted() {
        assert_eq!(test_result("test reading_works ... ok"), None);
        assert_eq!(summary("pass  smbclient: 3 passed, 1 failed"), None);
    }

    #[test]
    fn the_conformance_runs_last_line_is_counted() {
        assert_eq!(summary("120 passed, 1 failed, 0 skipped"), Some(Tally::new(120, 1)));
    }

    #[test]
    fn the_seconds_of_its_lanes_are_repeated() {
        let line = "lanes: torture 377 s, alone 490 s";
        assert_eq!(summary(line), Some(Tally { repeated: vec![line.to_owned()], ..Tally::default() }));
    }

    #[test]
    fn a_program_that_fails_silently_is_a_failure() {
        assert_eq!(counted(Command::new("false"), summary), Tally::failure());
    }
}
