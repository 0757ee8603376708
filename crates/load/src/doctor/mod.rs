//! What is in the way of a fast session, on this machine and on the way to a server. Nothing is changed.
//!
//! [`look_at_machine`] and [`look_at_server`] gather [`Facts`] once; [`examine`] makes [`Finding`]s of them, by rules that see nothing else.

mod channels;
mod congestion;
mod disk;
mod ethtool;
mod facts;
mod links;
mod machine;
mod paths;
mod protection;
mod queueing;
mod queues;
mod reach;
mod segments;
pub(crate) mod server;
mod sockets;
#[cfg(test)]
mod tests;
mod tool;

use serde::Serialize;

pub use self::facts::{Card, Facts, Machine, Path, QueuesMax, Rates, Ring, Server, Told, Tried, Way, Written};
pub use self::machine::look_at_machine;
pub use self::server::{Questions, look_at_server};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// It costs throughput as things are.
    Problem,
    /// It may matter, or could not be told.
    Note,
    /// As it should be.
    Ok,
}

/// What a look came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at, in one word.
    pub check: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// What was found, as a sentence.
    pub what: String,
    /// The figures.
    pub evidence: String,
    /// The command that mends it, or what to do where there is none.
    pub remedy: Option<String>,
}

impl Finding {
    fn problem(check: &'static str, what: impl Into<String>, evidence: String, remedy: impl Into<String>) -> Self {
        Finding { check, severity: Severity::Problem, what: what.into(), evidence, remedy: Some(remedy.into()) }
    }

    fn note(check: &'static str, what: impl Into<String>, evidence: String, remedy: impl Into<String>) -> Self {
        Finding { check, severity: Severity::Note, what: what.into(), evidence, remedy: Some(remedy.into()) }
    }

    /// What could not be told, or is to be known, with nothing to be done about it.
    fn remark(check: &'static str, what: impl Into<String>, evidence: String) -> Self {
        Finding { check, severity: Severity::Note, what: what.into(), evidence, remedy: None }
    }

    fn fine(check: &'static str, what: impl Into<String>, evidence: String) -> Self {
        Finding { check, severity: Severity::Ok, what: what.into(), evidence, remedy: None }
    }
}

/// Every rule's findings, problems first.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for rule in [
        links::findings,
        queues::findings,
        sockets::findings,
        congestion::findings,
        channels::findings,
        reach::findings,
        protection::findings,
        disk::findings,
    ] {
        findings.extend(rule(facts));
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}
