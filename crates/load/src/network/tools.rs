//! iproute2's programs, run with lines on their standard input.

use std::io::{self, ErrorKind, Write};
use std::process::{Command, Output, Stdio};

use crate::engine::Failure;

const REMEDY: &str = "simulated networks need root, iproute2 and a kernel with network namespaces, veth, tbf, htb and u32; measure \
                      without --network, or where there are these";

/// Runs a program to its end, telling it `lines`; gives what it prints.
pub(super) fn run(program: &str, words: &[&str], lines: &[String]) -> Result<String, Failure> {
    let failed = |why: String| Failure {
        what: format!("the network could not be made: {program} {}: {why}", words.join(" ")),
        remedy: REMEDY.to_owned(),
    };
    let output = told(program, words, lines).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => {
            let what = format!("the network could not be made: this machine has no `{program}`");
            Failure { what, remedy: "install iproute2 (`apt-get install iproute2`)".to_owned() }
        }
        _ => failed(cause.to_string()),
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

/// The lines fit into a pipe or are read as they come: the programs print nothing until they fail, and then little.
fn told(program: &str, words: &[&str], lines: &[String]) -> io::Result<Output> {
    let mut command = Command::new(program);
    command.args(words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let mut text = lines.join("\n");
    text.push('\n');
    if let Some(mut input) = child.stdin.take() {
        // Who fails before the end does not read on; how it failed is in its output.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait_with_output()
}

/// Root, who alone may make networks.
pub(super) fn need_root() -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    Err(Failure { what: "only root may make simulated networks".to_owned(), remedy: REMEDY.to_owned() })
}
