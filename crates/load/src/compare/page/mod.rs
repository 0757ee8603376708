//! The report as one HTML page that needs nothing else: charts as SVG, each with its numbers, for the screen and for paper.

mod chart;
mod curves;
mod figures;
mod text;

use std::fmt::Write;

pub(super) use self::text::number;
use self::text::{escape, moment};
use super::plan::Protection;
use super::report::{Case, Report};
use super::summary::NeverWorse;
use crate::figures::bytes;

const STYLE: &str = include_str!("style.css");

/// The page.
pub fn page(report: &Report) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>SMB Multichannel compared</title><style>\n{STYLE}</style></head><body>\n"
    );
    page.push_str(&heading(report));
    page.push_str(&verdicts(report));
    page.push_str(&conditions(report));
    for server in &report.servers {
        for protection in Protection::ALL {
            page.push_str(&section(report, &server.name, *protection));
        }
    }
    page.push_str(&raw_limit(report));
    page.push_str(&servers_compared(report));
    page.push_str(&curves::section(report.curves.as_ref()));
    page.push_str(&all_cases(report));
    page + "</body></html>\n"
}

fn heading(report: &Report) -> String {
    let servers: Vec<&str> = report.servers.iter().map(|server| server.name.as_str()).collect();
    let mut heading = format!(
        "<header><h1>SMB Multichannel compared</h1><p class=\"quiet\">{} on the network “{}”; Multilane {}, {}, {:.0} s</p></header>\n",
        escape(&servers.join(" and ")),
        escape(&report.network.name),
        report.version,
        moment(report.began),
        report.seconds,
    );
    heading.push_str("<nav aria-label=\"Contents\"><ul>");
    for server in &report.servers {
        for protection in Protection::ALL {
            let anchor = anchor(&server.name, *protection);
            if report.cases.iter().any(|case| is_of(case, &server.name, *protection)) {
                let _ = write!(heading, "<li><a href=\"#{anchor}\">{} {protection}</a></li>", escape(&server.name));
            }
        }
    }
    let others = [
        (!report.raw_limit.is_empty(), "limit", "against the limit"),
        (report.servers.len() > 1, "servers", "servers compared"),
        (report.curves.is_some(), "curves", "cost as it has more to keep"),
    ];
    for (_, anchor, words) in others.into_iter().filter(|(is_there, ..)| *is_there) {
        let _ = write!(heading, "<li><a href=\"#{anchor}\">{words}</a></li>");
    }
    heading + "<li><a href=\"#cases\">all cases</a></li></ul></nav>\n"
}

fn verdicts(report: &Report) -> String {
    let mut text = "<h2>Several channels against one</h2>\n".to_owned();
    if !report.is_complete {
        text.push_str(
            "<p class=\"bad\">The comparison was ended early; what is here stands on the rounds that were done.</p>\n",
        );
    }
    for verdict in &report.summary.never_worse {
        text.push_str(&never_worse(verdict));
    }
    for note in &report.notes {
        let _ = writeln!(text, "<p>Note: {}</p>", escape(note));
    }
    text
}

fn never_worse(verdict: &NeverWorse) -> String {
    let class = if verdict.holds && verdict.is_conclusive { "good" } else { "bad" };
    let word = verdict.words();
    let mut text = format!(
        "<p><strong>{}</strong>: over {} cases the median ratio of several channels to one is {:.2}. One channel measured against \
         itself lies within {:.1} %. Verdict: <span class=\"{class}\">{word}</span>.</p>\n",
        escape(&verdict.server),
        verdict.cases,
        verdict.ratio_median,
        verdict.one_channel_spread_median * 100.0,
    );
    if !verdict.worse.is_empty() {
        text.push_str("<ul>");
        for worse in &verdict.worse {
            let _ = write!(text, "<li>{worse}</li>");
        }
        text.push_str("</ul>\n");
    }
    text
}

fn conditions(report: &Report) -> String {
    let machine = &report.machine;
    let mut text = "<h2 class=\"beside\">What was measured, and on what</h2>\n<dl>".to_owned();
    let mut say = |name: &str, value: String| {
        let _ = write!(text, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    };
    say(
        "machine",
        format!(
            "{} cores, {}, {:.0} GiB, {}, TCP with {}; load average before: {:.1}",
            machine.cores,
            machine.processor,
            machine.memory_bytes as f64 / f64::from(1 << 30),
            machine.kernel,
            machine.congestion_control,
            machine.load_before,
        ),
    );
    say("network", report.network.description.clone());
    for server in &report.servers {
        say(&escape(&server.name), format!("{} ({})", server.about, server.address));
    }
    say("method", report.method.description.clone());
    say("workloads", figures::workloads(report));
    text + "</dl>\n"
}

/// Everything of a server with one protection.
fn section(report: &Report, server: &str, protection: Protection) -> String {
    let cases: Vec<&Case> = report.cases.iter().filter(|case| is_of(case, server, protection)).collect();
    if cases.is_empty() {
        return String::new();
    }
    let words = match protection {
        Protection::Plain => "neither signed nor encrypted",
        Protection::Sign => "signed",
        Protection::Seal => "encrypted",
    };
    format!(
        "<h2 id=\"{}\">{}, {words}</h2>\n{}",
        anchor(server, protection),
        escape(server),
        figures::of_channels(&cases)
    )
}

fn raw_limit(report: &Report) -> String {
    if report.raw_limit.is_empty() {
        return String::new();
    }
    let mut text = "<h2 id=\"limit\">Against the limit</h2>\n<p>Plain TCP that moves the same bytes between the same hosts with as much \
                    in flight, and batches as the server does, but does nothing with them: no SMB server can be faster here. It is \
                    measured next to one thread on one file.</p>\n"
        .to_owned();
    text.push_str(&figures::of_limit(report));
    text.push_str("<div class=\"wide\"><table><thead><tr>");
    for name in ["op", "I/O size", "connections", "in flight", "IOPS", "MiB/s", "server", "part of it", "low", "high"] {
        let _ = write!(text, "<th scope=\"col\">{name}</th>");
    }
    text.push_str("</tr></thead><tbody>");
    for limit in &report.raw_limit {
        for part in &limit.reached {
            text.push_str("<tr>");
            cell(&mut text, "word", limit.op.name());
            let counts = [bytes(limit.block_bytes), limit.connections.to_string(), limit.depth.to_string()];
            counts.iter().for_each(|count| cell(&mut text, "", count));
            [limit.iops_median, limit.mibps_median].iter().for_each(|value| cell(&mut text, "", &number(*value)));
            cell(&mut text, "word", &escape(&part.server));
            let parts = [part.part_median, part.part_low, part.part_high];
            parts.iter().for_each(|part| cell(&mut text, "", &number(*part)));
            text.push_str("</tr>");
        }
    }
    text + "</tbody></table></div>\n"
}

fn servers_compared(report: &Report) -> String {
    let Some(first) = report.servers.first().filter(|_| report.servers.len() > 1) else { return String::new() };
    let mut text = format!("<h2 id=\"servers\">{} and other servers</h2>\n", escape(&first.name));
    text.push_str(&figures::of_servers(report));
    let _ = write!(
        text,
        "<h3>{} divided by the other, round by round</h3><div class=\"wide\"><table><thead><tr>",
        escape(&first.name)
    );
    for name in ["other", "workload", "op", "I/O size", "protection", "channels", "median ratio", "low", "high"] {
        let _ = write!(text, "<th scope=\"col\">{name}</th>");
    }
    text.push_str("</tr></thead><tbody>");
    for row in &report.summary.against {
        text.push_str("<tr>");
        let words = [escape(&row.server), row.workload.to_string(), row.op.to_string()];
        words.iter().for_each(|word| cell(&mut text, "word", word));
        cell(&mut text, "", &bytes(row.block_bytes));
        cell(&mut text, "word", row.protection.name());
        cell(&mut text, "", &row.channels.to_string());
        [row.ratio_median, row.ratio_low, row.ratio_high].iter().for_each(|ratio| cell(&mut text, "", &number(*ratio)));
        text.push_str("</tr>");
    }
    text + "</tbody></table></div>\n"
}

fn all_cases(report: &Report) -> String {
    const NAMES: [&str; 19] = [
        "server",
        "workload",
        "op",
        "I/O size",
        "protection",
        "channels",
        "threads",
        "depth",
        "IOPS",
        "MiB/s",
        "ratio to one channel",
        "low",
        "high",
        "p50 µs",
        "p95 µs",
        "p99 µs",
        "p99.9 µs",
        "client µs/op",
        "server µs/op",
    ];
    let mut text = "<h2 id=\"cases\">All cases</h2>\n<div class=\"wide\"><table><thead><tr>".to_owned();
    NAMES.iter().for_each(|name| {
        let _ = write!(text, "<th scope=\"col\">{name}</th>");
    });
    text.push_str("</tr></thead><tbody>");
    let perhaps = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    for case in &report.cases {
        text.push_str("<tr>");
        let words = [escape(&case.server), case.workload.to_string(), case.op.to_string()];
        words.iter().for_each(|word| cell(&mut text, "word", word));
        cell(&mut text, "", &bytes(case.block_bytes));
        cell(&mut text, "word", case.protection.name());
        let counts = [case.channels.to_string(), case.threads.to_string(), case.depth.to_string()];
        counts.iter().for_each(|count| cell(&mut text, "", count));
        let ratios = [case.ratio_to_one_channel_median, case.ratio_low, case.ratio_high];
        let latency = case.latency;
        let values = [Some(case.iops_median), Some(case.mibps_median)].into_iter().chain(ratios);
        let latencies = [latency.p50_us, latency.p95_us, latency.p99_us, latency.p999_us].map(Some);
        let cpu = [Some(case.client_cpu_us_per_op), case.server_cpu_us_per_op];
        values.chain(latencies).chain(cpu).for_each(|value| cell(&mut text, "", &perhaps(value)));
        text.push_str("</tr>\n");
    }
    text + "</tbody></table></div>\n"
}

fn cell(text: &mut String, class: &str, value: &str) {
    let _ = if class.is_empty() {
        write!(text, "<td>{value}</td>")
    } else {
        write!(text, "<td class=\"{class}\">{value}</td>")
    };
}

fn is_of(case: &Case, server: &str, protection: Protection) -> bool {
    case.server == server && case.protection == protection
}

/// An id that a link can name.
fn anchor(server: &str, protection: Protection) -> String {
    let plain: String = server.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{plain}-{protection}")
}
