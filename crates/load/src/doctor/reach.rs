//! Addresses that the server tells of: each that cannot be reached costs every client the time to find out.

use super::Finding;
use super::facts::{Facts, Told, Tried};
use crate::figures;

const CHECK: &str = "addresses";

pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let Some(server) = &facts.server else { return Vec::new() };
    let Told::Interfaces(interfaces) = &server.told else { return Vec::new() };
    let mut findings = Vec::new();
    let (mut reached, mut passed_over) = (Vec::new(), Vec::new());
    for (interface, tried) in interfaces {
        let address =
            interface.address.map_or_else(|| "an address of an unknown kind".to_owned(), |address| address.to_string());
        match tried {
            Tried::Reached(after) => reached.push(format!("{address} in {}", figures::milliseconds(*after))),
            Tried::PassedOver(why) => passed_over.push(format!("{address}: {why}")),
            Tried::Failed(cause) => findings.push(Finding::problem(
                CHECK,
                format!("The server tells clients of {address}, which cannot be reached from here."),
                format!("a connection to port {}: {cause}", server.port),
                format!(
                    "see how it would go with `ip route get {address}`, and open the way; or have the server tell only the others: \
                     multilane serve --advertise ADDRESS --advertise-only"
                ),
            )),
        }
    }
    if findings.is_empty() {
        let evidence = if reached.is_empty() { "none that a client here would use".into() } else { reached.join(", ") };
        findings.push(Finding::fine(
            CHECK,
            "Every address that the server tells of and that a client here would use is reached.",
            evidence,
        ));
    }
    if !passed_over.is_empty() {
        findings.push(Finding::remark(
            CHECK,
            "Some of the server's addresses are passed over by clients here.",
            passed_over.join(", "),
        ));
    }
    findings
}
