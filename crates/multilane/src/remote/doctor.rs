//! `doctor`: what is in the way of speed, on this machine and on the way to a server.

use std::fmt::Write;
use std::process::ExitCode;

use control::Error;
use load::doctor::{Facts, Finding, Questions, Severity, examine, look_at_machine, look_at_server};
use serde::Serialize;

use super::arguments::Doctor;
use super::{failed, password, runtime, settings, target};
use crate::output::Output;
use crate::table::{printable, printable_lines};

/// Problems were found.
const FOUND: u8 = 1;
/// It could not look.
const FAILED: u8 = 2;

/// What is printed.
#[derive(Serialize)]
struct Shown {
    problems: usize,
    findings: Vec<Finding>,
}

/// Looks, prints, and gives the exit code.
pub(crate) fn run(command: &Doctor, output: Output) -> ExitCode {
    match look(command, output) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(FOUND),
        Err(error) => {
            eprintln!("{}", printable_lines(&format!("error: {}\nhelp: {}", error.what(), error.remedy())));
            ExitCode::from(FAILED)
        }
    }
}

/// The number of problems.
fn look(command: &Doctor, output: Output) -> Result<usize, Error> {
    if command.write_test && command.server.as_ref().is_some_and(|server| server.share.is_none()) {
        return Err(Error::argument("--write-test needs a share for its file", "use smb://HOST/SHARE"));
    }
    let facts = runtime()?.block_on(async {
        let server = match &command.server {
            Some(server) => {
                let who = &command.login.who;
                let target = target(server.user.as_deref(), (&server.host, server.port), who, password(who)?)?;
                let questions = Questions {
                    share: server.share.clone(),
                    may_write: command.write_test,
                    ram_share: command.ram_share.clone(),
                };
                Some(look_at_server(&target, settings(&command.login)?, &questions).await.map_err(failed)?)
            }
            None => None,
        };
        Ok::<_, Error>(Facts { machine: look_at_machine().await, server })
    })?;
    let findings = examine(&facts);
    let problems = findings.iter().filter(|finding| finding.severity == Severity::Problem).count();
    output.print(&Shown { problems, findings }, text)?;
    Ok(problems)
}

fn text(shown: &Shown) -> String {
    let mut text = String::new();
    for Finding { check, severity, what, evidence, remedy } in &shown.findings {
        let severity = match severity {
            Severity::Problem => "PROBLEM",
            Severity::Note => "note",
            Severity::Ok => "ok",
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{severity:7}  {check}: {}", printable(what));
        let _ = writeln!(text, "         seen: {}", printable(evidence));
        if let Some(remedy) = remedy {
            let _ = writeln!(text, "         mend: {}", printable(remedy));
        }
    }
    let count = |severity| shown.findings.iter().filter(|finding| finding.severity == severity).count();
    let (notes, fine) = (count(Severity::Note), count(Severity::Ok));
    let _ = writeln!(text, "\nproblems: {}, notes: {notes}, in order: {fine}", shown.problems);
    text
}
