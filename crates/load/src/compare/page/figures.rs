//! Which charts the page has: what channels do, and how servers stand to each other.

use maud::{Markup, html};

use super::chart::{Axis, Line, Lines, Shares};
use crate::compare::limit::RawLimit;
use crate::compare::plan::{Op, Protection, Workload};
use crate::compare::report::{Case, Report};
use crate::figures::bytes;

const ACROSS: &str = "I/O size";

/// Who asks in each workload that was measured, in a sentence.
pub(super) fn workloads(report: &Report) -> String {
    let mut sentences = Vec::new();
    for workload in Workload::ALL {
        let of = || report.cases.iter().filter(|case| case.workload == *workload);
        let Some(first) = of().next() else { continue };
        let depths = of().map(|case| case.depth);
        let (least, most) = (depths.clone().min().unwrap_or(0), depths.max().unwrap_or(0));
        let depth = if least == most { most.to_string() } else { format!("{most}, down to {least} with large I/O") };
        let threads = if first.threads == 1 { "1 thread".to_owned() } else { format!("{} threads", first.threads) };
        let files = if first.files == 1 { "1 file".to_owned() } else { format!("{} files", first.files) };
        sentences.push(format!("{workload}: {threads} on {files}, requests in flight of each: {depth}."));
    }
    sentences.join(" ")
}

/// What channels do to a server's throughput and latency, by workload, and how they share the bytes: reads and writes side by side.
pub(super) fn of_channels(cases: &[&Case]) -> Markup {
    const FIGURES: [fn(&[&Case], Op) -> Markup; 5] = [iops, throughput, latency, cpu, shares];
    let of = |workload: Workload, op: Op| {
        cases.iter().copied().filter(|case| (case.workload, case.op) == (workload, op)).collect::<Vec<_>>()
    };
    html! {
        @for workload in Workload::ALL.iter().filter(|workload| cases.iter().any(|case| case.workload == **workload)) {
            h3 { (workload) ": " (words(*workload)) }
            div.figures {
                @for figure in FIGURES {
                    @for (op, cases) in Op::ALL.iter().map(|op| (*op, of(*workload, *op))) {
                        @if !cases.is_empty() { (figure(&cases, op)) }
                    }
                }
            }
        }
    }
}

fn iops(cases: &[&Case], op: Op) -> Markup {
    let lines = by_channels(cases, |case| Some(case.iops_median));
    chart(cases, format!("IOPS, {op}s"), "IOPS", Axis::Linear, lines)
}

fn throughput(cases: &[&Case], op: Op) -> Markup {
    let lines = by_channels(cases, |case| Some(case.mibps_median));
    chart(cases, format!("Throughput, {op}s"), "MiB/s", Axis::Linear, lines)
}

fn latency(cases: &[&Case], op: Op) -> Markup {
    let lines = by_channels(cases, |case| Some(case.latency.p99_us));
    chart(cases, format!("Latency of {op}s, 99th percentile"), "µs, logarithmic", Axis::Logarithmic, lines)
}

/// How several channels share the bytes; nothing where there is one.
fn shares(cases: &[&Case], op: Op) -> Markup {
    let several = cases.iter().filter(|case| case.channels > 1);
    let bars: Vec<_> = several.map(|case| (bar_name(case), case.channel_shares.clone())).collect();
    if bars.is_empty() {
        return html! {};
    }
    Shares { title: format!("Each channel's share of the bytes, {op}s"), bars }.figure()
}

/// A line for each number of channels.
fn by_channels(cases: &[&Case], value: fn(&Case) -> Option<f64>) -> Vec<Line> {
    let line = |channels: usize| Line {
        name: channels_in_words(channels),
        style: style(channels),
        is_dashed: false,
        values: along(cases, |case| case.channels == channels, value),
    };
    distinct(cases.iter().map(|case| case.channels)).into_iter().map(line).collect()
}

/// Lines over the block sizes of these cases.
fn chart(cases: &[&Case], title: String, up: &'static str, axis: Axis, lines: Vec<Line>) -> Markup {
    Lines { title, across: ACROSS, up, axis, places: places(cases), lines }.figure()
}

/// The client's and the server's CPU time for one request, with one channel.
fn cpu(cases: &[&Case], op: Op) -> Markup {
    let line = |name: &str, style, value: fn(&Case) -> Option<f64>| Line {
        name: name.to_owned(),
        style,
        is_dashed: false,
        values: along(cases, |case| case.channels == 1, value),
    };
    let mut lines = vec![line("this client", 4, |case| Some(case.client_cpu_us_per_op))];
    if cases.iter().any(|case| case.server_cpu_us_per_op.is_some()) {
        lines.push(line("the server", 5, |case| case.server_cpu_us_per_op));
    }
    let title = format!("CPU time of {op}s, one channel");
    chart(cases, title, "µs for each request, logarithmic", Axis::Logarithmic, lines)
}

/// The limit and what one thread on one file reaches, with one channel and with the most.
pub(super) fn of_limit(report: &Report) -> Markup {
    let most = report.raw_limit.iter().map(|limit| limit.connections).max().unwrap_or(1);
    let of = |case: &&Case| case.workload == Workload::StSingle && case.protection == Protection::Plain;
    let mut charts = Vec::new();
    for op in Op::ALL {
        let cases: Vec<&Case> = report.cases.iter().filter(of).filter(|case| case.op == *op).collect();
        let blocks = blocks(&cases);
        if blocks.is_empty() {
            continue;
        }
        let mut lines = Vec::new();
        for count in if most == 1 { vec![1] } else { vec![1, most] } {
            let limit = |block: &u32| {
                let is_it =
                    |limit: &&RawLimit| (limit.op, limit.connections, limit.block_bytes) == (*op, count, *block);
                report.raw_limit.iter().find(is_it).map(|limit| limit.iops_median)
            };
            let is_dashed = count == 1;
            let values = blocks.iter().map(limit).collect();
            lines.push(Line { name: format!("TCP, {count}"), style: 5, is_dashed, values });
            lines.extend(report.servers.iter().enumerate().map(|(style, server)| Line {
                name: format!("{}, {count}", server.name),
                style,
                is_dashed,
                values: along(
                    &cases,
                    |case| case.server == server.name && case.channels == count,
                    |case| Some(case.iops_median),
                ),
            }));
        }
        let title = format!("IOPS of {op}s by connections, one thread on one file");
        charts.push(chart(&cases, title, "IOPS", Axis::Linear, lines));
    }
    side_by_side(&charts)
}

/// Every server with one channel and with the most, by workload.
pub(super) fn of_servers(report: &Report) -> Markup {
    let most = report.cases.iter().map(|case| case.channels).max().unwrap_or(1);
    let mut charts = Vec::new();
    let mut experiments: Vec<_> = report.cases.iter().map(|case| (case.protection, case.workload, case.op)).collect();
    experiments.dedup();
    for (protection, workload, op) in experiments {
        let of = |case: &&Case| (case.protection, case.workload, case.op) == (protection, workload, op);
        let cases: Vec<&Case> = report.cases.iter().filter(of).collect();
        let series = |value: fn(&Case) -> Option<f64>| {
            let line = |style: usize, server: &str, channels: usize| Line {
                name: format!("{server}, {}", channels_in_words(channels)),
                style,
                is_dashed: channels == 1,
                values: along(&cases, |case| case.server == server && case.channels == channels, value),
            };
            let counts: &[usize] = if most == 1 { &[1] } else { &[1, most] };
            let servers = report.servers.iter().enumerate();
            servers
                .flat_map(|(style, server)| counts.iter().map(move |count| line(style, &server.name, *count)))
                .collect()
        };
        let title = |what: &str| format!("{what}, {workload} {op}s, {protection}");
        let chart = |title, up, lines| chart(&cases, title, up, Axis::Linear, lines);
        charts.push(chart(title("IOPS"), "IOPS", series(|case| Some(case.iops_median))));
        charts.push(chart(title("Throughput"), "MiB/s", series(|case| Some(case.mibps_median))));
    }
    side_by_side(&charts)
}

fn side_by_side(charts: &[Markup]) -> Markup {
    html! { div.figures { @for chart in charts { (chart) } } }
}

/// Block sizes that these cases have, rising.
fn blocks(cases: &[&Case]) -> Vec<u32> {
    distinct(cases.iter().map(|case| case.block_bytes))
}

fn places(cases: &[&Case]) -> Vec<String> {
    blocks(cases).into_iter().map(bytes).collect()
}

/// A value of the cases that are chosen, for each block size.
fn along(cases: &[&Case], choose: impl Fn(&Case) -> bool, value: fn(&Case) -> Option<f64>) -> Vec<Option<f64>> {
    let at = |block| cases.iter().find(|case| case.block_bytes == block && choose(case)).and_then(|case| value(case));
    blocks(cases).into_iter().map(at).collect()
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort();
    values.dedup();
    values
}

fn channels_in_words(channels: usize) -> String {
    if channels == 1 { "1 channel".to_owned() } else { format!("{channels} channels") }
}

/// One for each count that is usual.
fn style(channels: usize) -> usize {
    match channels {
        1 => 0,
        2 => 1,
        4 => 2,
        8 => 3,
        _ => 4,
    }
}

fn bar_name(case: &Case) -> String {
    format!("{}, {}", bytes(case.block_bytes), channels_in_words(case.channels))
}

fn words(workload: Workload) -> &'static str {
    match workload {
        Workload::MtMulti => "many threads on ten files",
        Workload::MtSingle => "many threads on one file",
        Workload::StSingle => "one thread on one file",
        Workload::StMulti => "one thread on ten files",
    }
}
