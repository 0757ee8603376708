//! The report as Markdown: one section whose tables a document of figures is put together from.

mod metadata;
mod table;

use std::fmt::Write;

pub use self::metadata::markdown as metadata_markdown;
use self::table::{Align, table};
use super::occasion::Occasion;
use super::page::number;
use super::plan::Protection;
use super::report::{Case, Report};
use super::servers::Description;
use super::summary::NeverWorse;
use crate::figures::{bytes, count, so_many};
use crate::growth::Curve;

/// A section of the second level: how it was measured, `command` being what repeats it, and every table.
pub fn markdown(report: &Report, command: &str) -> String {
    let mut text = format!("## {}\n\n```\n{command}\n```\n\n", title(report));
    text.push_str(&conditions(report));
    for server in &report.servers {
        for protection in Protection::ALL {
            text.push_str(&channels(report, &server.name, *protection));
        }
    }
    text.push_str(&against(report));
    text.push_str(&raw_limit(report));
    if let Some(curves) = &report.curves {
        text.push_str(&curve("Connections", &curves.connections));
        text.push_str(&curve("Open files", &curves.open_files));
    }
    text
}

fn title(report: &Report) -> String {
    let servers: Vec<&str> = report.servers.iter().map(|server| server.name.as_str()).collect();
    format!("Network {}: {}", report.occasion.network.name, servers.join(" beside "))
}

fn conditions(report: &Report) -> String {
    let method = &report.method;
    let mut text = place(&report.occasion, &report.servers);
    let _ = writeln!(
        text,
        "- {} of {:.2} s for each run, after {:.2} s of warm-up; files of {} MiB; {:.0} s in all",
        so_many(method.rounds as usize, "round"),
        method.run_seconds,
        method.warmup_seconds,
        method.file_bytes >> 20,
        report.occasion.seconds,
    );
    if !report.occasion.is_complete {
        text.push_str("- It was ended early: what is here stands on the rounds that were done.\n");
    }
    report.summary.never_worse.iter().for_each(|verdict| text.push_str(&never_worse(verdict)));
    report.notes.iter().for_each(|note| {
        let _ = writeln!(text, "- {note}");
    });
    text + "\n"
}

/// The machine, the network and the servers.
fn place(Occasion { machine, network, .. }: &Occasion, servers: &[Description]) -> String {
    let mut text = format!(
        "Machine: {} ({}), {:.0} GiB, {}, TCP with {}; load average before: {:.1}. {}\n\n",
        so_many(machine.cores, "core"),
        machine.processor,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.kernel,
        machine.congestion_control,
        machine.load_before,
        network.description,
    );
    for server in servers {
        let _ = writeln!(text, "- {}: {}", server.name, server.about);
    }
    text
}

fn never_worse(verdict: &NeverWorse) -> String {
    let mut text = format!(
        "- {}, several channels against one: {}. Median ratio over {} {:.2}; one channel lies, in the middle of all, {:.1} % from itself\n",
        verdict.server,
        verdict.words(),
        so_many(verdict.cases, "case"),
        verdict.ratio_median,
        verdict.one_channel_spread_median * 100.0,
    );
    verdict.worse.iter().for_each(|worse| {
        let _ = writeln!(text, "  - {worse}");
    });
    text
}

/// What several channels give on a server with one protection: a row for each case that has several, or for all where none has.
fn channels(report: &Report, server: &str, protection: Protection) -> String {
    let cases: Vec<&Case> =
        report.cases.iter().filter(|case| case.server == server && case.protection == protection).collect();
    let has_several = cases.iter().any(|case| case.channels > 1);
    let rows = cases.iter().filter(|case| !has_several || case.channels > 1).map(|case| {
        let is_one = |other: &&&Case| other.channels == 1 && other.experiment() == case.experiment();
        let one = cases.iter().find(is_one).copied();
        let perhaps = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
        vec![
            case.workload.to_string(),
            case.op.to_string(),
            bytes(case.block_bytes),
            case.channels.to_string(),
            one.map_or_else(String::new, |one| count(one.mibps_median)),
            count(case.mibps_median),
            count(case.iops_median),
            perhaps(case.ratio_to_one_channel_median),
            span(case.ratio_low.zip(case.ratio_high)),
            span(one.and_then(|one| one.ratio_low.zip(one.ratio_high))),
            number(case.latency.p99_us),
            both(one.map(|one| one.client_cpu_us_per_op), Some(case.client_cpu_us_per_op)),
            both(one.and_then(|one| one.server_cpu_us_per_op), case.server_cpu_us_per_op),
        ]
    });
    let columns = [
        ("workload", Align::Left),
        ("op", Align::Left),
        ("block", Align::Left),
        ("channels", Align::Right),
        ("one channel, MiB/s", Align::Right),
        ("MiB/s", Align::Right),
        ("IOPS", Align::Right),
        ("ratio", Align::Right),
        ("low to high", Align::Left),
        ("chance", Align::Left),
        ("p99, us", Align::Right),
        ("load tool, us", Align::Left),
        ("server, us", Align::Left),
    ];
    section(&format!("{server}, {protection}"), "", &table(&columns, rows))
}

fn against(report: &Report) -> String {
    let Some(first) = report.servers.first() else { return String::new() };
    let case = |server: &str, row: &super::Against| {
        let is_it = |case: &&Case| {
            (case.server.as_str(), case.workload, case.op) == (server, row.workload, row.op)
                && (case.block_bytes, case.protection, case.channels) == (row.block_bytes, row.protection, row.channels)
        };
        report.cases.iter().find(is_it).map_or_else(String::new, |case| count(case.iops_median))
    };
    let rows = report.summary.against.iter().map(|row| {
        vec![
            row.server.clone(),
            row.protection.to_string(),
            row.workload.to_string(),
            row.op.to_string(),
            bytes(row.block_bytes),
            row.channels.to_string(),
            format!("{:.2}", row.ratio_median),
            span(Some((row.ratio_low, row.ratio_high))),
            case(&first.name, row),
            case(&row.server, row),
        ]
    });
    let columns = [
        ("other", Align::Left),
        ("protection", Align::Left),
        ("workload", Align::Left),
        ("op", Align::Left),
        ("block", Align::Left),
        ("channels", Align::Right),
        ("ratio", Align::Right),
        ("low to high", Align::Left),
        ("IOPS", Align::Right),
        ("the other's", Align::Right),
    ];
    section(&format!("{} divided by the other", first.name), "", &table(&columns, rows))
}

fn raw_limit(report: &Report) -> String {
    let rows = report.raw_limit.iter().flat_map(|limit| {
        limit.reached.iter().map(move |part| {
            vec![
                limit.op.to_string(),
                bytes(limit.block_bytes),
                limit.connections.to_string(),
                count(limit.iops_median),
                count(limit.mibps_median),
                part.server.clone(),
                format!("{:.2}", part.part_median),
                span(Some((part.part_low, part.part_high))),
            ]
        })
    });
    let columns = [
        ("op", Align::Left),
        ("block", Align::Left),
        ("connections", Align::Right),
        ("TCP, IOPS", Align::Right),
        ("TCP, MiB/s", Align::Right),
        ("server", Align::Left),
        ("part of it", Align::Right),
        ("low to high", Align::Left),
    ];
    let about = "The same bytes over plain TCP, in the same rounds, with the server's batching and as much in flight: the part of it that \
                 `st-single` reached.\n\n";
    section("Against plain TCP", about, &table(&columns, rows))
}

/// What our server costs as it has more of something to keep.
fn curve(what: &str, curve: &Curve) -> String {
    let mut about = format!("{}\n\n", curve.description);
    if let Some(each) = curve.memory_bytes_each {
        let _ = write!(about, "Each one more takes {} bytes of memory.\n\n", count(each));
    }
    if let Some(why) = &curve.ended {
        let _ = write!(about, "It ends early: {why}.\n\n");
    }
    let rows = curve.points.iter().map(|point| {
        vec![
            count(point.count as f64),
            format!("{:.1}", point.memory_bytes as f64 / f64::from(1 << 20)),
            number(point.cpu_us_each),
            number(point.cpu_us_per_read),
            count(point.reads_per_second),
        ]
    });
    let columns = [
        (what, Align::Right),
        ("memory, MiB", Align::Right),
        ("adding one, us", Align::Right),
        ("a read beside them, us", Align::Right),
        ("reads a second", Align::Right),
    ];
    section(&format!("{what}: what they cost the server"), &about, &table(&columns, rows))
}

/// Nothing where the table has no rows.
fn section(title: &str, about: &str, table: &str) -> String {
    if table.is_empty() { String::new() } else { format!("### {title}\n\n{about}{table}\n") }
}

fn span(ends: Option<(f64, f64)>) -> String {
    ends.map_or_else(String::new, |(low, high)| format!("{low:.2} to {high:.2}"))
}

/// With one channel and with several.
fn both(one: Option<f64>, several: Option<f64>) -> String {
    let shown = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), number);
    if one.is_none() && several.is_none() { String::new() } else { format!("{}; {}", shown(one), shown(several)) }
}

#[cfg(test)]
mod tests {
    use super::super::report::examples::report;
    use super::*;

    #[test]
    fn a_section_has_the_command_the_machine_and_every_table() {
        let text = markdown(&report(), "multilane compare --network quad");
        for part in [
            "## Network quad: multilane beside a|<b>\n\n```\nmultilane compare --network quad\n```\n",
            "2 cores (A fast one), 4 GiB, Linux 6, TCP with cubic; load average before: 0.2. Simulated: four links.\n",
            "- 3 rounds of 0.40 s for each run, after 0.10 s of warm-up; files of 64 MiB; 12 s in all\n",
            "- Something was left out.\n",
            "### multilane, plain\n\n| workload |",
            "| st-single | read | 4 KiB | 4 | 1 | 400 | 102,400 | 4.00 | 3.90 to 4.12 | 0.99 to 1.01 | 1 | 1; 1 | ?; 1.25 |\n",
            "### multilane divided by the other\n",
            "| a\\|<b> | plain | st-single | read | 4 KiB | 4 | 5.00 | 4.50 to 5.50 | 102,400 | 20,480 |\n",
            "| read | 4 KiB | 4 | 204,800 | 800 | multilane | 0.50 | 0.45 to 0.60 |\n",
            "### Connections: what they cost the server\n\nHow it grows.\n\nEach one more takes 1,234 bytes of memory.\n\n|",
            "It ends early: there is no room.\n\n| Open files |",
            "| 1,000 | 1.5 | 2.5 | 1.75 | 5,000 |\n",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(!text.contains("### multilane, sign"), "what was not measured has no table");
    }

    #[test]
    fn where_one_channel_is_all_it_has_its_row() {
        let mut report = report();
        report.cases.truncate(1);
        let text = markdown(&report, "");
        assert!(text.contains("| st-single | read | 4 KiB | 1 | 1 | 1 | 1 | 1.00 |"), "{text}");
    }

    #[test]
    fn one_that_was_ended_early_says_so() {
        let text = markdown(&Report { occasion: Occasion { is_complete: false, ..report().occasion }, ..report() }, "");
        assert!(text.contains("ended early: what is here"), "{text}");
    }
}
