//! The programs that make packages, each in one version, so that the same one makes the same bytes everywhere.

use std::process::Command;

use crate::package::{Broken, folder};
use crate::run;

/// A program of a published crate.
pub(super) struct Tool {
    name: &'static str,
    version: &'static str,
}

pub(super) const DEB: Tool = Tool { name: "cargo-deb", version: "3.8.0" };
pub(super) const RPM: Tool = Tool { name: "cargo-generate-rpm", version: "0.21.1" };
pub(super) const CYCLONEDX: Tool = Tool { name: "cargo-cyclonedx", version: "0.5.9" };

impl Tool {
    /// The program, installed where it is not yet.
    pub(super) fn command(&self) -> Result<Command, Broken> {
        let place = folder().join(format!("tools/{}-{}", self.name, self.version));
        let program = place.join("bin").join(self.name);
        if !program.exists() {
            let mut install = Command::new("cargo");
            install.args(["install", "--quiet", "--locked", "--debug", self.name, "--version", self.version, "--root"]);
            // Quickly built, and quick enough.
            install.arg(&place).env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
            if !run::succeeds(install) {
                return Err(Broken::Step(format!("{} {} could not be installed", self.name, self.version)));
            }
        }
        let mut command = Command::new(program);
        command.current_dir(run::root());
        Ok(command)
    }
}
