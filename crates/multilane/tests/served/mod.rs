//! The built server on a free loopback port, with a data folder of its own.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A server with the account `local` and its share `share`.
pub(crate) struct Served {
    pub(crate) folder: TempDir,
    pub(crate) child: Child,
    pub(crate) port: u16,
    pub(crate) password: String,
}

impl Served {
    /// Starts it, with several channels allowed.
    pub(crate) fn new() -> Self {
        Served::with(&[])
    }

    /// Starts it with more arguments, with several channels allowed.
    pub(crate) fn with(arguments: &[&str]) -> Self {
        Served::logging(arguments, Stdio::null())
    }

    /// The same, with its log at level debug going to `log`.
    pub(crate) fn logging(arguments: &[&str], log: impl Into<Stdio>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let command = program(&folder, &[&["serve", "--json", "--listen", "127.0.0.1:0"], arguments].concat());
        Served::started(folder, command, log)
    }

    /// Starts it under a limit, as `ulimit` of the shell has it.
    #[allow(dead_code)]
    pub(crate) fn with_limit(option: &str, count: u32) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let limited = format!("ulimit {option} {count} && exec \"$0\" serve --json --listen 127.0.0.1:0");
        let mut command = Command::new("sh");
        command.args(["-c", &limited, env!("CARGO_BIN_EXE_multilane")]);
        command.env("MULTILANE_DATA", folder.path().join("data")).stdin(Stdio::null());
        Served::started(folder, command, Stdio::null())
    }

    fn started(folder: TempDir, mut command: Command, log: impl Into<Stdio>) -> Self {
        command.env("MULTILANE_LOG", "debug");
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let address = ready["listen"][0].as_str().unwrap();
        let port = address.rsplit_once(':').unwrap().1.parse().unwrap();
        let on = ["account", "update", "local", "--multichannel", "on"];
        assert!(program(&folder, &on).stdout(Stdio::null()).status().unwrap().success());
        let keys = program(&folder, &["account", "keys", "local", "--json"]).output().unwrap().stdout;
        let keys: Value = serde_json::from_slice(&keys).unwrap();
        Served { child, port, password: keys["key1"].as_str().unwrap().to_owned(), folder }
    }

    /// Ends it, and starts it on the same data folder and port.
    #[allow(dead_code)]
    pub(crate) fn restart(&mut self) {
        self.stop();
        let listen = format!("127.0.0.1:{}", self.port);
        let mut command = program(&self.folder, &["serve", "--json", "--listen", &listen]);
        self.child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(self.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    }

    /// Tells it to end, and waits until it has.
    #[allow(dead_code)]
    pub(crate) fn stop(&mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }

    /// The program, which works on this server's data folder.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        program(&self.folder, arguments)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(folder: &TempDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multilane"));
    command.args(arguments).env("MULTILANE_DATA", folder.path().join("data")).stdin(Stdio::null());
    command
}
