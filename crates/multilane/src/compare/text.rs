//! The result for a terminal.

use std::fmt::Write;

use load::compare::{Case, NeverWorse, Report};
use load::figures::bytes;
use load::growth::Curve;

use crate::table::Table;

/// A table of all cases, and the verdicts.
pub(super) fn of(report: &Report) -> String {
    let mut text = cases(report);
    text.push('\n');
    for verdict in &report.summary.never_worse {
        text.push_str(&never_worse(verdict));
    }
    let against = against(report);
    if !against.is_empty() {
        let _ = write!(text, "\n{against}");
    }
    let limit = limit(report);
    if !limit.is_empty() {
        let _ = write!(text, "\n{limit}");
    }
    for (what, curve) in
        report.curves.iter().flat_map(|both| [("CONNECTIONS", &both.connections), ("OPEN FILES", &both.open_files)])
    {
        let _ = write!(text, "\n{}", growth(what, curve));
    }
    for note in &report.notes {
        let _ = writeln!(text, "\nnote: {note}");
    }
    text
}

fn cases(report: &Report) -> String {
    let mut table = Table::new([
        "SERVER",
        "WORKLOAD",
        "OP",
        "BLOCK",
        "PROTECTION",
        "CHANNELS",
        "IOPS",
        "MIB/S",
        "RATIO",
        "LOW",
        "HIGH",
        "P50 US",
        "P99 US",
        "CLIENT US/OP",
        "SERVER US/OP",
    ]);
    for case in &report.cases {
        table.row(row(case));
    }
    table.text()
}

fn row(case: &Case) -> [String; 15] {
    let ratio = |ratio: Option<f64>| ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
    [
        case.server.clone(),
        case.workload.to_string(),
        case.op.to_string(),
        bytes(case.block_bytes),
        case.protection.to_string(),
        case.channels.to_string(),
        format!("{:.0}", case.iops_median),
        format!("{:.1}", case.mibps_median),
        ratio(case.ratio_to_one_channel_median),
        ratio(case.ratio_low),
        ratio(case.ratio_high),
        format!("{:.0}", case.latency.p50_us),
        format!("{:.0}", case.latency.p99_us),
        format!("{:.1}", case.client_cpu_us_per_op),
        case.server_cpu_us_per_op.map_or_else(String::new, |cpu| format!("{cpu:.1}")),
    ]
}

fn never_worse(verdict: &NeverWorse) -> String {
    let mut text = format!(
        "{}: several channels against one, over {} cases: median ratio {:.2}; one channel against itself lies within {:.1} %; {}.\n",
        verdict.server,
        verdict.cases,
        verdict.ratio_median,
        verdict.one_channel_spread_median * 100.0,
        verdict.words(),
    );
    for worse in &verdict.worse {
        let _ = writeln!(text, "  {worse}");
    }
    text
}

fn limit(report: &Report) -> String {
    if report.raw_limit.is_empty() {
        return String::new();
    }
    let mut table =
        Table::new(["PLAIN TCP", "BLOCK", "CONNECTIONS", "IOPS", "MIB/S", "SERVER", "PART OF IT", "LOW", "HIGH"]);
    for limit in &report.raw_limit {
        for part in &limit.reached {
            table.row([
                limit.op.to_string(),
                bytes(limit.block_bytes),
                limit.connections.to_string(),
                format!("{:.0}", limit.iops_median),
                format!("{:.1}", limit.mibps_median),
                part.server.clone(),
                format!("{:.2}", part.part_median),
                format!("{:.2}", part.part_low),
                format!("{:.2}", part.part_high),
            ]);
        }
    }
    table.text()
}

/// What our server costs as it has more to keep.
fn growth(what: &str, curve: &Curve) -> String {
    let mut table = Table::new([what, "MEMORY MIB", "US TO ADD ONE", "US/READ BESIDE", "READS/S"]);
    for point in &curve.points {
        table.row([
            point.count.to_string(),
            format!("{:.1}", point.memory_bytes as f64 / f64::from(1 << 20)),
            format!("{:.1}", point.cpu_us_each),
            format!("{:.2}", point.cpu_us_per_read),
            format!("{:.0}", point.reads_per_second),
        ]);
    }
    let ended = curve.ended.as_ref().map_or_else(String::new, |why| format!("It ends early: {why}.\n"));
    table.text() + &ended
}

fn against(report: &Report) -> String {
    let Some(first) = report.servers.first().filter(|_| !report.summary.against.is_empty()) else {
        return String::new();
    };
    let mut table =
        Table::new(["AGAINST", "WORKLOAD", "OP", "BLOCK", "PROTECTION", "CHANNELS", "RATIO", "LOW", "HIGH"]);
    for against in &report.summary.against {
        table.row([
            against.server.clone(),
            against.workload.to_string(),
            against.op.to_string(),
            bytes(against.block_bytes),
            against.protection.to_string(),
            against.channels.to_string(),
            format!("{:.2}", against.ratio_median),
            format!("{:.2}", against.ratio_low),
            format!("{:.2}", against.ratio_high),
        ]);
    }
    format!("{} divided by:\n{}", first.name, table.text())
}
