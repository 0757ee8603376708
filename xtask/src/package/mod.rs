//! `cargo xtask package`: what people install, in `target/package`. Each is built from the same program, manual and completions, and has the same
//! bytes wherever it is built from the same commit by the same tools: docs/SERVICE.md says how to look.

mod build;
mod deb;
mod oci;
mod rpm;
mod sbom;
mod tools;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::run::root;

/// One kind of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Deb,
    Rpm,
    Oci,
    Sbom,
}

/// What is made where nothing is named.
const ALL: [Kind; 4] = [Kind::Deb, Kind::Rpm, Kind::Oci, Kind::Sbom];

/// What kept a package from being made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("{0}")]
    Step(String),
    #[error("{path}: {cause}")]
    File { path: PathBuf, cause: io::Error },
    #[error("there is no package called {0:?}")]
    Unknown(String),
}

impl Broken {
    /// For `map_err`: what failed with this file or folder.
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Broken + use<> {
        let path = path.to_owned();
        |cause| Broken::File { path, cause }
    }
}

/// What a package is made of.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The kinds.
    kinds: Vec<Kind>,
    /// A program that was built before; it is built anew where none is named.
    program: Option<PathBuf>,
    /// The version, where it is not the workspace's.
    version: Option<String>,
}

impl Plan {
    /// Reads the words behind `package`.
    pub(crate) fn read(words: &[&str]) -> Result<Plan, Broken> {
        let mut plan = Plan { kinds: Vec::new(), program: None, version: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "all" => plan.kinds.extend(ALL),
                "deb" => plan.kinds.push(Kind::Deb),
                "rpm" => plan.kinds.push(Kind::Rpm),
                "oci" => plan.kinds.push(Kind::Oci),
                "sbom" => plan.kinds.push(Kind::Sbom),
                "--program" => plan.program = Some(value(word, words.next())?.into()),
                "--version" => plan.version = Some(value(word, words.next())?.to_owned()),
                unknown => return Err(Broken::Unknown(unknown.to_owned())),
            }
        }
        if plan.kinds.is_empty() {
            plan.kinds.extend(ALL);
        }
        Ok(plan)
    }

    /// Makes the packages and prints their paths.
    pub(crate) fn carry_out(&self) -> ExitCode {
        match self.packages() {
            Ok(made) => {
                made.iter().for_each(|path| println!("{}", path.display()));
                ExitCode::SUCCESS
            }
            Err(broken) => {
                eprintln!("{broken}");
                ExitCode::FAILURE
            }
        }
    }

    fn packages(&self) -> Result<Vec<PathBuf>, Broken> {
        let made = build::made(self.program.as_deref(), self.version.as_deref())?;
        let package = |kind: &Kind| match kind {
            Kind::Deb => deb::package(&made),
            Kind::Rpm => rpm::package(&made),
            Kind::Oci => oci::package(&made),
            Kind::Sbom => sbom::write(&made),
        };
        self.kinds.iter().map(package).collect()
    }
}

fn value<'a>(option: &str, value: Option<&&'a str>) -> Result<&'a str, Broken> {
    value.copied().ok_or_else(|| Broken::Step(format!("{option} needs a value")))
}

/// Where packages and what they are made of lie. It is in the checkout wherever Cargo builds: the packages' lists of files name it.
fn folder() -> PathBuf {
    root().join("target/package")
}

/// The machine, as Debian and OCI call it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// A folder that is there, and empty.
fn emptied(path: &Path) -> Result<&Path, Broken> {
    match fs::remove_dir_all(path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(Broken::at(path)(cause)),
        _ => fs::create_dir_all(path).map_err(Broken::at(path)).map(|()| path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_packages_and_how_they_are_made() {
        let plan = Plan::read(&["deb", "--version", "0.0.9", "oci"]).unwrap();
        assert_eq!(plan.kinds, [Kind::Deb, Kind::Oci]);
        assert_eq!(plan.version.as_deref(), Some("0.0.9"));
        assert_eq!(Plan::read(&[]).unwrap().kinds, ALL);
        assert_eq!(Plan::read(&["snap"]).unwrap_err().to_string(), "there is no package called \"snap\"");
        assert_eq!(Plan::read(&["deb", "--program"]).unwrap_err().to_string(), "--program needs a value");
    }
}
