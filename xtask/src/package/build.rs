//! The program and what is generated from its command line. Nothing in them says where or when they were built.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::package::{Broken, emptied, folder};
use crate::run::{self, root};

/// The shells that have completions, and how their files are called.
const COMPLETIONS: [(&str, &str); 3] = [("bash", "multilane.bash"), ("zsh", "_multilane"), ("fish", "multilane.fish")];

/// What packages are made of.
pub(super) struct Made {
    /// The program, in a folder `release` of its own, as the tools look for it.
    pub(super) program: PathBuf,
    /// It was built before: packages are for trying, and rather soon there than small.
    pub(super) is_given: bool,
    pub(super) version: String,
    /// The time of all files in packages, in seconds since 1970.
    pub(super) time: u64,
}

impl Made {
    /// The folder that the tools take for Cargo's target.
    pub(super) fn target(&self) -> PathBuf {
        folder().join("built")
    }

    /// Runs a tool that makes something of this.
    pub(super) fn run(&self, command: &mut Command) -> Result<(), Broken> {
        command.env("SOURCE_DATE_EPOCH", self.time.to_string()).env("CARGO_TARGET_DIR", self.target());
        let output = command.stdin(Stdio::null()).output().map_err(Broken::at(Path::new(command.get_program())))?;
        if !output.status.success() {
            // It warns of much that is meant so.
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
        }
        judged(command, output.status)
    }
}

/// Builds the program, unless one is given, and has it write its manual and completions.
pub(super) fn made(given: Option<&Path>, version: Option<&str>) -> Result<Made, Broken> {
    let built = match given {
        Some(program) => program.to_owned(),
        None => release()?,
    };
    let program = emptied(&folder().join("built/release"))?.join("multilane");
    fs::copy(&built, &program).map_err(Broken::at(&built))?;
    assets(&program)?;
    let version = version.unwrap_or(env!("CARGO_PKG_VERSION")).to_owned();
    Ok(Made { program, is_given: given.is_some(), version, time: time()? })
}

/// The release build.
fn release() -> Result<PathBuf, Broken> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    // Of its own: with other flags everything is built anew, and would be again for who builds without them.
    let target = target.join("package-build");
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"))).unwrap_or_default();
    let places = [(target.clone(), "target"), (root(), "multilane"), (home, "cargo")];
    let (rust, c): (Vec<String>, Vec<String>) = places
        .iter()
        // The last one that fits counts for rustc, the last one given for gcc.
        .rev()
        .map(|(place, name)| (place.display(), name))
        .map(|(place, name)| {
            (format!("--remap-path-prefix={place}=/build/{name}"), format!("-ffile-prefix-map={place}=/build/{name}"))
        })
        .unzip();
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--package", "multilane"]).current_dir(root());
    cargo.env("CARGO_TARGET_DIR", &target).env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}"));
    cargo.env("CFLAGS", c.join(" ")).env("CARGO_INCREMENTAL", "0").env("SOURCE_DATE_EPOCH", time()?.to_string());
    // Who looks into a crash builds the commit again.
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "0").env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    done(&mut cargo)?;
    Ok(target.join("release/multilane"))
}

/// The manual's pages and the completions.
fn assets(program: &Path) -> Result<(), Broken> {
    let assets = folder().join("assets");
    let manual = assets.join("man");
    let ask = |words: &[&str]| {
        let mut command = Command::new(program);
        // What is set here would be told as a default.
        command.args(words).env_remove("MULTILANE_DATA");
        command
    };
    done(ask(&["manual"]).arg(emptied(&manual)?))?;
    let completions = assets.join("completions");
    emptied(&completions)?;
    for (shell, name) in COMPLETIONS {
        let Some(script) = run::output(ask(&["completions", shell])) else {
            return Err(Broken::Step(format!("there are no completions for {shell}")));
        };
        let path = completions.join(name);
        fs::write(&path, script).map_err(Broken::at(&path))?;
    }
    Ok(())
}

/// The time of the last commit, unless another is wanted (`SOURCE_DATE_EPOCH`).
fn time() -> Result<u64, Broken> {
    let named = env::var("SOURCE_DATE_EPOCH").ok();
    let of_commit = || {
        let mut git = Command::new("git");
        git.args(["log", "-1", "--format=%ct"]).current_dir(root());
        run::output(git)
    };
    let text = named.or_else(of_commit).unwrap_or_default();
    text.trim().parse().map_err(|_| {
        Broken::Step("it is not known of when this is: set SOURCE_DATE_EPOCH, in seconds since 1970".to_owned())
    })
}

fn done(command: &mut Command) -> Result<(), Broken> {
    let status = command.status().map_err(Broken::at(Path::new(command.get_program())))?;
    judged(command, status)
}

fn judged(command: &Command, status: ExitStatus) -> Result<(), Broken> {
    if status.success() {
        return Ok(());
    }
    Err(Broken::Step(format!("{}: {status}", command.get_program().to_string_lossy())))
}
