//! A package for Debian and its like. Its files and what it needs are listed in crates/multilane/Cargo.toml, its scripts in packaging/debian.

use std::path::PathBuf;

use crate::package::build::Made;
use crate::package::{Broken, architecture, folder, tools};

/// Counts packages of one version of the program.
const REVISION: &str = "1";

pub(super) fn package(made: &Made) -> Result<PathBuf, Broken> {
    let version = format!("{}-{REVISION}", made.version);
    let package = folder().join(format!("multilane_{version}_{}.deb", architecture()));
    let mut command = tools::DEB.command()?;
    command.args(["--package", "multilane", "--no-build", "--no-strip", "--deb-version", &version, "--output"]);
    command.arg(&package).args(made.is_given.then_some("--fast"));
    made.run(&mut command)?;
    Ok(package)
}
