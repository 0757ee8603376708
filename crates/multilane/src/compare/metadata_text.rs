//! The result of `--metadata` for a terminal.

use std::fmt::Write;

use load::compare::metadata::{Caching, Report};

use crate::table::Table;

/// A table of all cases, what caching does, and how the servers stand to each other.
pub(super) fn of(report: &Report) -> String {
    let mut text = cases(report);
    if !report.effects.is_empty() {
        let _ =
            write!(text, "\nWith caching divided by without, median (lowest to highest round):\n{}", effects(report));
    }
    if let Some(first) = report.servers.first().filter(|_| !report.against.is_empty()) {
        let _ = write!(text, "\n{} divided by:\n{}", first.name, against(report));
    }
    for note in &report.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

fn cases(report: &Report) -> String {
    let mut table = Table::new([
        "SERVER", "WORKLOAD", "CLIENTS", "DEPTH", "CACHING", "MEAN US", "P50 US", "P99 US", "IOPS", "MIB/S",
    ]);
    for case in &report.cases {
        table.row([
            case.server.clone(),
            case.workload.to_string(),
            case.clients.to_string(),
            case.depth.to_string(),
            name(case.caching),
            format!("{:.0}", case.latency.mean_us),
            format!("{:.0}", case.latency.p50_us),
            format!("{:.0}", case.latency.p99_us),
            format!("{:.0}", case.operations_per_second_median),
            format!("{:.1}", case.network_mibps_median),
        ]);
    }
    table.text()
}

fn effects(report: &Report) -> String {
    let mut table = Table::new(["SERVER", "WORKLOAD", "CLIENTS", "LATENCY", "IOPS", "NETWORK", "CHANCE"]);
    for row in &report.effects {
        table.row([
            row.server.clone(),
            row.workload.to_string(),
            row.clients.to_string(),
            row.latency_mean.words(),
            row.operations_per_second.words(),
            row.network_mibps.words(),
            row.chance.words(),
        ]);
    }
    table.text()
}

fn against(report: &Report) -> String {
    let mut table = Table::new(["AGAINST", "WORKLOAD", "CLIENTS", "CACHING", "IOPS"]);
    for row in &report.against {
        table.row([
            row.server.clone(),
            row.workload.to_string(),
            row.clients.to_string(),
            name(row.caching),
            row.operations_per_second.words(),
        ]);
    }
    table.text()
}

fn name(caching: Option<Caching>) -> String {
    caching.map_or_else(String::new, |caching| caching.to_string())
}
