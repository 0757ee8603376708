//! What is not Rust of the workspace, and is looked at all the same: spelling, Python, licenses of what is built in, the Rust beside the
//! workspace, subjects of commits. Tools come from the Python package index, in the versions of `style-tools.txt`, or are built.

use std::path::PathBuf;
use std::process::Command;

use crate::run::{self, Tally, root};

const TOOLS: &str = "xtask/style-tools.txt";
/// Rust that is no member of the workspace: it needs other toolchain flags, or stands for foreign clients.
const BESIDE: [&str; 3] = ["fuzz", "conformance/bench-client", "conformance/rust-smb"];
/// Which cargo-deny: none that the package index has reads today's Cargo.lock.
const DENY: [&str; 3] = ["cargo-deny", "--version", "0.20.2"];
/// Commits whose subjects are looked at.
const COMMITS: &str = "-50";
const SUBJECT_LETTERS_MAX: usize = 72;

/// All checks. Each is one.
pub(crate) fn check() -> Tally {
    let mut tally = Tally::of(subjects_are_short());
    for folder in BESIDE {
        let manifest = format!("{folder}/Cargo.toml");
        tally += run::one(program("cargo", &["fmt", "--check", "--manifest-path", &manifest]));
    }
    tally += licenses();
    let Some(tools) = installed() else { return tally + Tally::failure() };
    let tool = |name: &str, words: &[&str]| run::one(program(tools.join(name), words));
    tally
        + tool("ruff", &["check", "--quiet", "conformance"])
        + tool("mypy", &["-p", "conformance"])
        + tool("typos", &[])
}

/// Licenses and sources of what is built in, by `deny.toml`. Built without optimisation: that takes longer than to run it.
fn licenses() -> Tally {
    let (root_folder, program_file) = ("target/style-deny", root().join("target/style-deny/bin/cargo-deny"));
    if !program_file.exists() {
        let mut install = program("cargo", &["install", "--locked", "--debug", "--quiet", "--root", root_folder]);
        install
            .args(DENY)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", root().join("target/style-build"));
        if !run::succeeds(install) {
            return Tally::failure();
        }
    }
    run::one(program(program_file, &["--all-features", "check", "bans", "licenses", "sources"]))
}

/// The folder of the tools' programs, once they are there.
fn installed() -> Option<PathBuf> {
    let folder = root().join("target/style-tools");
    let (python, wanted, kept) = (folder.join("bin/python"), root().join(TOOLS), folder.join("tools.txt"));
    let is_there =
        || std::fs::read(&wanted).ok().is_some_and(|wanted| std::fs::read(&kept).is_ok_and(|kept| kept == wanted));
    if !is_there() {
        let made = run::succeeds(program("python3", &["-m", "venv", &folder.to_string_lossy()]));
        let words = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", TOOLS];
        if !made || !run::succeeds(program(python, &words)) || std::fs::copy(&wanted, &kept).is_err() {
            eprintln!("the tools of {TOOLS} could not be installed");
            return None;
        }
    }
    Some(folder.join("bin"))
}

/// Prints the subjects of commits that are too long. Without a history there is nothing to look at.
fn subjects_are_short() -> bool {
    let log = run::output(program("git", &["log", COMMITS, "--format=%h %s"])).unwrap_or_default();
    let long: Vec<&str> = log.lines().filter(|line| is_long(line)).collect();
    long.iter().for_each(|line| println!("the subject has more than {SUBJECT_LETTERS_MAX} letters: {line}"));
    long.is_empty()
}

/// Of a line with a commit's hash and its subject.
fn is_long(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(_, subject)| subject.chars().count() > SUBJECT_LETTERS_MAX)
}

fn program(name: impl AsRef<std::ffi::OsStr>, words: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(words).current_dir(root());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_of_72_letters_is_short_enough() {
        assert!(!is_long(&format!("0123abc {}", "ü".repeat(72))));
        assert!(is_long(&format!("0123abc {}", "u".repeat(73))));
    }
}
