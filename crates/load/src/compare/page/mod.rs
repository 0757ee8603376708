//! The report as one HTML page that needs nothing else: charts as SVG, each with its numbers, for the screen and for paper.

mod chart;
mod curves;
mod figures;
mod metadata;
mod text;

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

pub use self::metadata::page as metadata_page;
pub(super) use self::text::number;
use self::text::{moment, perhaps};
use super::occasion::Occasion;
use super::plan::Protection;
use super::report::{Case, Report};
use super::servers::Description;
use super::summary::NeverWorse;
use crate::figures::bytes;

const STYLE: &str = include_str!("style.css");

/// The page.
pub fn page(report: &Report) -> String {
    let what = Conditions {
        occasion: &report.occasion,
        servers: &report.servers,
        method: &report.method.description,
        workloads: &figures::workloads(report),
    };
    let body = html! {
        (contents(report))
        (verdicts(report))
        (what)
        @for server in &report.servers {
            @for protection in Protection::ALL { (section(report, &server.name, *protection)) }
        }
        (raw_limit(report))
        (servers_compared(report))
        (curves::section(report.curves.as_ref()))
        (all_cases(report))
    };
    document("SMB Multichannel compared", &what.about(), &body)
}

/// A page with a title, a line about it, and all the rest.
fn document(title: &str, about: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                header {
                    h1 { (title) }
                    p.quiet { (about) }
                }
                (body)
            }
        }
    };
    page.into_string()
}

fn contents(report: &Report) -> Markup {
    let others = [
        (!report.raw_limit.is_empty(), "#limit", "against the limit"),
        (report.servers.len() > 1, "#servers", "servers compared"),
        (report.curves.is_some(), "#curves", "cost as it has more to keep"),
        (true, "#cases", "all cases"),
    ];
    html! {
        nav aria-label="Contents" {
            ul {
                @for server in &report.servers {
                    @for protection in Protection::ALL {
                        @if report.cases.iter().any(|case| is_of(case, &server.name, *protection)) {
                            li { a href={ "#" (anchor(&server.name, *protection)) } { (server.name) " " (protection) } }
                        }
                    }
                }
                @for (_, link, words) in others.iter().filter(|(is_there, ..)| *is_there) {
                    li { a href=(link) { (words) } }
                }
            }
        }
    }
}

fn verdicts(report: &Report) -> Markup {
    html! {
        h2 { "Several channels against one" }
        @if !report.occasion.is_complete {
            p.bad { "The comparison was ended early; what is here stands on the rounds that were done." }
        }
        @for verdict in &report.summary.never_worse { (never_worse(verdict)) }
        @for note in &report.notes { p { "Note: " (note) } }
    }
}

fn never_worse(verdict: &NeverWorse) -> Markup {
    let class = if verdict.holds && verdict.is_conclusive { "good" } else { "bad" };
    let figures = format!(
        "over {} cases the median ratio of several channels to one is {:.2}. One channel measured against itself lies within {:.1} %.",
        verdict.cases,
        verdict.ratio_median,
        verdict.one_channel_spread_median * 100.0,
    );
    html! {
        p { strong { (verdict.server) } ": " (figures) " Verdict: " span class=(class) { (verdict.words()) } "." }
        @if !verdict.worse.is_empty() {
            ul { @for worse in &verdict.worse { li { (worse) } } }
        }
    }
}

/// What was measured, and on what.
struct Conditions<'a> {
    occasion: &'a Occasion,
    servers: &'a [Description],
    method: &'a str,
    workloads: &'a str,
}

impl Conditions<'_> {
    /// Them in a line.
    fn about(&self) -> String {
        let servers: Vec<&str> = self.servers.iter().map(|server| server.name.as_str()).collect();
        let Occasion { version, began, seconds, network, .. } = self.occasion;
        format!(
            "{} on the network “{}”; Multilane {version}, {}, {seconds:.0} s",
            servers.join(" and "),
            network.name,
            moment(*began)
        )
    }
}

impl Render for Conditions<'_> {
    fn render(&self) -> Markup {
        let machine = &self.occasion.machine;
        html! {
            h2.beside { "What was measured, and on what" }
            dl {
                dt { "machine" }
                dd {
                    (machine.cores) " cores, " (machine.processor) ", "
                    (format_args!("{:.0} GiB", machine.memory_bytes as f64 / f64::from(1 << 30))) ", " (machine.kernel)
                    ", TCP with " (machine.congestion_control) "; load average before: "
                    (format_args!("{:.1}", machine.load_before))
                }
                dt { "network" }
                dd { (self.occasion.network.description) }
                @for server in self.servers {
                    dt { (server.name) }
                    dd { (server.about) " (" (server.address) ")" }
                }
                dt { "method" }
                dd { (self.method) }
                dt { "workloads" }
                dd { (self.workloads) }
            }
        }
    }
}

/// Everything of a server with one protection.
fn section(report: &Report, server: &str, protection: Protection) -> Markup {
    let cases: Vec<&Case> = report.cases.iter().filter(|case| is_of(case, server, protection)).collect();
    let words = match protection {
        Protection::Plain => "neither signed nor encrypted",
        Protection::Sign => "signed",
        Protection::Seal => "encrypted",
    };
    html! {
        @if !cases.is_empty() {
            h2 id=(anchor(server, protection)) { (server) ", " (words) }
            (figures::of_channels(&cases))
        }
    }
}

fn raw_limit(report: &Report) -> Markup {
    const NAMES: [&str; 10] =
        ["op", "I/O size", "connections", "in flight", "IOPS", "MiB/s", "server", "part of it", "low", "high"];
    if report.raw_limit.is_empty() {
        return html! {};
    }
    let rows = html! {
        @for limit in &report.raw_limit {
            @for part in &limit.reached {
                tr {
                    td.word { (limit.op) }
                    td { (bytes(limit.block_bytes)) }
                    td { (limit.connections) }
                    td { (limit.depth) }
                    @for value in [limit.iops_median, limit.mibps_median] { td { (number(value)) } }
                    td.word { (part.server) }
                    @for value in [part.part_median, part.part_low, part.part_high] { td { (number(value)) } }
                }
            }
        }
    };
    html! {
        h2 id="limit" { "Against the limit" }
        p {
            "Plain TCP that moves the same bytes between the same hosts with as much in flight, and batches as the server does, but does \
             nothing with them: no SMB server can be faster here. It is measured next to one thread on one file."
        }
        (figures::of_limit(report))
        (wide(&NAMES, &rows))
    }
}

fn servers_compared(report: &Report) -> Markup {
    const NAMES: [&str; 9] =
        ["other", "workload", "op", "I/O size", "protection", "channels", "median ratio", "low", "high"];
    let Some(first) = report.servers.first().filter(|_| report.servers.len() > 1) else { return html! {} };
    let rows = html! {
        @for row in &report.summary.against {
            tr {
                @for word in [&row.server, row.workload.name(), row.op.name()] { td.word { (word) } }
                td { (bytes(row.block_bytes)) }
                td.word { (row.protection) }
                td { (row.channels) }
                @for ratio in [row.ratio_median, row.ratio_low, row.ratio_high] { td { (number(ratio)) } }
            }
        }
    };
    html! {
        h2 id="servers" { (first.name) " and other servers" }
        (figures::of_servers(report))
        h3 { (first.name) " divided by the other, round by round" }
        (wide(&NAMES, &rows))
    }
}

fn all_cases(report: &Report) -> Markup {
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
    html! {
        h2 id="cases" { "All cases" }
        (wide(&NAMES, &html! { @for case in &report.cases { (row(case)) } }))
    }
}

fn row(case: &Case) -> Markup {
    let throughput = [case.iops_median, case.mibps_median].map(Some);
    let ratios = [case.ratio_to_one_channel_median, case.ratio_low, case.ratio_high];
    let latency = case.latency;
    let latencies = [latency.p50_us, latency.p95_us, latency.p99_us, latency.p999_us].map(Some);
    let cpu = [Some(case.client_cpu_us_per_op), case.server_cpu_us_per_op];
    html! {
        tr {
            @for word in [&case.server, case.workload.name(), case.op.name()] { td.word { (word) } }
            td { (bytes(case.block_bytes)) }
            td.word { (case.protection) }
            td { (case.channels) }
            td { (case.threads) }
            td { (case.depth) }
            @for value in throughput.into_iter().chain(ratios).chain(latencies).chain(cpu) { td { (perhaps(value)) } }
        }
    }
}

/// A table that may be wider than the page.
fn wide(names: &[&str], rows: &Markup) -> Markup {
    html! {
        div.wide {
            table {
                thead { tr { @for name in names { th scope="col" { (name) } } } }
                tbody { (rows) }
            }
        }
    }
}

fn is_of(case: &Case, server: &str, protection: Protection) -> bool {
    case.server == server && case.protection == protection
}

/// An id that a link can name.
fn anchor(server: &str, protection: Protection) -> String {
    let plain: String = server.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{plain}-{protection}")
}

#[cfg(test)]
mod tests {
    use super::super::report::examples::report;
    use super::*;

    #[test]
    fn names_are_text_wherever_they_stand() {
        let page = page(&report());
        assert!(
            page.contains("<dt>a|&lt;b&gt;</dt>") && page.contains("<td class=\"word\">a|&lt;b&gt;</td>"),
            "{page}"
        );
        assert!(page.contains("<a href=\"#a--b--plain\">a|&lt;b&gt; plain</a>"), "{page}");
        assert!(!page.contains("<b>"), "{page}");
    }

    #[test]
    fn links_lead_to_sections_that_are_there() {
        let page = page(&report());
        let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(links, ["multilane-plain", "a--b--plain", "limit", "servers", "curves", "cases"]);
        assert!(links.iter().all(|link| page.contains(&format!("id=\"{link}\""))), "{page}");
    }
}
