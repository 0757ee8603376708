//! A package for Fedora, openSUSE and their like, of the same files. They are listed in crates/multilane/Cargo.toml, its scripts in packaging/rpm.

use std::path::PathBuf;

use crate::package::build::Made;
use crate::package::{Broken, folder, tools};

pub(super) fn package(made: &Made) -> Result<PathBuf, Broken> {
    let package = folder().join(format!("multilane-{}-1.{}.rpm", made.version, std::env::consts::ARCH));
    let mut command = tools::RPM.command()?;
    command.args(["--package", "crates/multilane", "--set-metadata", &format!("version = \"{}\"", made.version)]);
    command.args(["--auto-req", "builtin", "--source-date", &made.time.to_string(), "--output"]).arg(&package);
    if made.is_given {
        command.args(["--payload-compress", "none"]);
    }
    made.run(&mut command)?;
    Ok(package)
}
