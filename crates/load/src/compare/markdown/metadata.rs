//! The comparison of metadata as a section of a document.

use std::fmt::Write;

use super::table::{Align, table};
use super::{place, section};
use crate::compare::metadata::{Caching, Report};
use crate::compare::page::number;
use crate::figures::count;

/// A section of the second level: how it was measured, `command` being what repeats it, and every table.
pub fn markdown(report: &Report, command: &str) -> String {
    let servers: Vec<&str> = report.servers.iter().map(|server| server.name.as_str()).collect();
    let mut text = format!("## Metadata: {}\n\n```\n{command}\n```\n\n", servers.join(" beside "));
    text.push_str(&place(&report.occasion, &report.servers));
    let _ = writeln!(text, "- {}", report.method.description);
    if !report.occasion.is_complete {
        text.push_str("- It was ended early: what is here stands on the rounds that were done.\n");
    }
    report.notes.iter().for_each(|note| {
        let _ = writeln!(text, "- {note}");
    });
    text + "\n" + &cases(report) + &effects(report) + &against(report)
}

fn cases(report: &Report) -> String {
    let rows = report.cases.iter().map(|case| {
        vec![
            case.server.clone(),
            case.workload.to_string(),
            case.clients.to_string(),
            name(case.caching),
            number(case.latency.mean_us),
            number(case.latency.p50_us),
            number(case.latency.p99_us),
            count(case.operations_per_second_median),
            number(case.network_mibps_median),
        ]
    });
    let columns = [
        ("server", Align::Left),
        ("workload", Align::Left),
        ("clients", Align::Right),
        ("caching", Align::Left),
        ("mean, us", Align::Right),
        ("p50, us", Align::Right),
        ("p99, us", Align::Right),
        ("IOPS", Align::Right),
        ("network, MiB/s", Align::Right),
    ];
    section("Latency, available IOPS and network throughput", "", &table(&columns, rows))
}

fn effects(report: &Report) -> String {
    let rows = report.effects.iter().map(|row| {
        vec![
            row.server.clone(),
            row.workload.to_string(),
            row.clients.to_string(),
            row.latency_mean.words(),
            row.operations_per_second.words(),
            row.network_mibps.words(),
            row.chance.words(),
        ]
    });
    let columns = [
        ("server", Align::Left),
        ("workload", Align::Left),
        ("clients", Align::Right),
        ("latency", Align::Left),
        ("IOPS", Align::Left),
        ("network", Align::Left),
        ("chance", Align::Left),
    ];
    section("With caching divided by without", "", &table(&columns, rows))
}

fn against(report: &Report) -> String {
    let Some(first) = report.servers.first() else { return String::new() };
    let rows = report.against.iter().map(|row| {
        vec![
            row.server.clone(),
            row.workload.to_string(),
            row.clients.to_string(),
            name(row.caching),
            row.operations_per_second.words(),
        ]
    });
    let columns = [
        ("other", Align::Left),
        ("workload", Align::Left),
        ("clients", Align::Right),
        ("caching", Align::Left),
        ("IOPS", Align::Left),
    ];
    section(&format!("{} divided by the other", first.name), "", &table(&columns, rows))
}

fn name(caching: Option<Caching>) -> String {
    caching.map_or_else(String::new, |caching| caching.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::metadata::examples::report;

    #[test]
    fn a_section_has_the_command_the_machine_and_every_table() {
        let text = markdown(&report(), "multilane compare --metadata");
        for part in [
            "## Metadata: multilane beside a|<b>\n\n```\nmultilane compare --metadata\n```\n",
            "2 cores (A fast one)",
            "is simulated",
            "| multilane | small-files | 8 | on | 500 | 400 | 900 | 2,000 | 4 |\n",
            "| multilane | small-files | 8 | 0.50 (0.40 to 0.60) | 2.00 (1.80 to 2.10) |",
            "| a\\|<b> | small-files | 8 | on | 3.00 (2.50 to 3.50) |\n",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
