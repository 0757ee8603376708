//! For tests: the built program with a data folder of its own.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A data folder of its own for one test, and the program with it.
pub(crate) struct Place {
    pub(crate) place: TempDir,
    pub(crate) data: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        Place { place, data }
    }

    pub(crate) fn with_account() -> Self {
        let place = Place::new();
        place.done(&["account", "create", "abc"]);
        place
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_multilane"));
        command.args(arguments).env("MULTILANE_DATA", &self.data).env_remove("MULTILANE_LOG").stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What the command prints, which must do what it is told without a word of complaint.
    pub(crate) fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        // That this machine's disk is smaller than what a share is provisioned with is said, and no complaint.
        let is_quiet = complaint.lines().all(|line| line.contains("is provisioned with"));
        assert!(output.status.success() && is_quiet, "{arguments:?}: {complaint}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.done(&[arguments, &["--json"]].concat())).unwrap()
    }

    /// What the command complains of, which must fail with `code`, say what to do, and print nothing else.
    pub(crate) fn refused(&self, arguments: &[&str], code: i32) -> String {
        let output = self.run(arguments);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {complaint}");
        assert!(output.stdout.is_empty() && complaint.starts_with("error: "), "{arguments:?}: {complaint}");
        complaint
    }
}
