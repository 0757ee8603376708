//! The comparison of metadata as a page: for each workload latency, available IOPS and network throughput by the number of clients, with
//! and without caching.

use maud::{Markup, html};

use super::chart::{Axis, Line, Lines};
use super::text::{number, perhaps};
use super::{Conditions, document, wide};
use crate::compare::metadata::{Caching, Case, Ratio, Report, Workload};

/// A chart of each workload.
struct Chart {
    title: &'static str,
    /// What its values are, with their unit.
    up: &'static str,
    value: fn(&Case) -> f64,
}

const CHARTS: [Chart; 3] = [
    Chart { title: "Latency, mean", up: "ms for each operation", value: |case| case.latency.mean_us / 1e3 },
    Chart { title: "Available IOPS", up: "operations a second", value: |case| case.operations_per_second_median },
    Chart { title: "Network throughput", up: "MiB/s, both ways", value: |case| case.network_mibps_median },
];

/// The page.
pub fn page(report: &Report) -> String {
    let sentence = |workload: &Workload| format!("{workload}: {}.", workload.words());
    let what = Conditions {
        occasion: &report.occasion,
        servers: &report.servers,
        method: &report.method.description,
        workloads: &Workload::ALL.iter().map(sentence).collect::<Vec<_>>().join(" "),
    };
    let body = html! {
        (contents(report))
        (notes(report))
        @for workload in Workload::ALL { (section(report, *workload)) }
        (what)
        (effects(report))
        (against(report))
        (all_cases(report))
    };
    document("SMB metadata caching compared", &what.about(), &body)
}

fn contents(report: &Report) -> Markup {
    let others = [
        (!report.effects.is_empty(), "#effects", "with caching divided by without"),
        (!report.against.is_empty(), "#servers", "servers compared"),
        (true, "#cases", "all cases"),
    ];
    html! {
        nav aria-label="Contents" {
            ul {
                @for workload in Workload::ALL { li { a href={ "#" (workload) } { (workload) } } }
                @for (_, link, words) in others.iter().filter(|(is_there, ..)| *is_there) {
                    li { a href=(link) { (words) } }
                }
            }
        }
    }
}

fn notes(report: &Report) -> Markup {
    html! {
        @if !report.occasion.is_complete {
            p.bad { "The comparison was ended early; what is here stands on the rounds that were done." }
        }
        @for note in &report.notes { p { "Note: " (note) } }
    }
}

/// The three charts of a workload.
fn section(report: &Report, workload: Workload) -> Markup {
    let cases: Vec<&Case> = report.cases.iter().filter(|case| case.workload == workload).collect();
    let mut clients: Vec<usize> = cases.iter().map(|case| case.clients).collect();
    clients.sort_unstable();
    clients.dedup();
    let chart = |chart: &Chart| {
        let lines = Lines {
            title: format!("{}: {workload}", chart.title),
            across: "clients",
            up: chart.up,
            axis: Axis::Linear,
            places: clients.iter().map(usize::to_string).collect(),
            lines: lines(report, &cases, &clients, chart.value),
        };
        lines.figure()
    };
    html! {
        h2 id=(workload) { (workload) ": " (workload.words()) }
        div.figures { @for of in &CHARTS { (chart(of)) } }
    }
}

/// A line for each server, two where its caching was switched.
fn lines(report: &Report, cases: &[&Case], clients: &[usize], value: fn(&Case) -> f64) -> Vec<Line> {
    let is_alone = report.servers.len() == 1;
    let mut lines = Vec::new();
    for server in &report.servers {
        for caching in [Some(Caching::Off), Some(Caching::On), None] {
            let of = |case: &&&Case| case.server == server.name && case.caching == caching;
            if cases.iter().any(|case| of(&case)) {
                let at =
                    |count: &usize| cases.iter().filter(of).find(|case| case.clients == *count).map(|case| value(case));
                lines.push(Line {
                    name: line_name(&server.name, caching, is_alone),
                    style: lines.len(),
                    is_dashed: caching == Some(Caching::Off),
                    values: clients.iter().map(at).collect(),
                });
            }
        }
    }
    lines
}

fn line_name(server: &str, caching: Option<Caching>, is_alone: bool) -> String {
    match (caching, is_alone) {
        (Some(caching), true) => format!("caching {caching}"),
        (Some(caching), false) => format!("{server}, caching {caching}"),
        (None, _) => server.to_owned(),
    }
}

fn effects(report: &Report) -> Markup {
    const NAMES: [&str; 8] = [
        "server",
        "workload",
        "clients",
        "latency, mean",
        "latency, p99",
        "IOPS",
        "network throughput",
        "chance, IOPS",
    ];
    if report.effects.is_empty() {
        return html! {};
    }
    let rows = html! {
        @for row in &report.effects {
            tr {
                @for word in [&row.server, row.workload.name()] { td.word { (word) } }
                td { (row.clients) }
                @let ratios = [row.latency_mean, row.latency_p99, row.operations_per_second, row.network_mibps, row.chance];
                @for ratio in ratios.map(Ratio::words) { td { (ratio) } }
            }
        }
    };
    html! {
        h2 id="effects" { "With caching divided by without, round by round" }
        p {
            "The median, with the lowest and the highest round. Caching helps where latency is below 1 and IOPS are above it, by more than \
             chance does: that is how far a second turn without caching lies from the first."
        }
        (wide(&NAMES, &rows))
    }
}

fn against(report: &Report) -> Markup {
    const NAMES: [&str; 5] = ["other", "workload", "clients", "caching", "IOPS"];
    let Some(first) = report.servers.first().filter(|_| !report.against.is_empty()) else { return html! {} };
    let rows = html! {
        @for row in &report.against {
            tr {
                @for word in [&row.server, row.workload.name()] { td.word { (word) } }
                td { (row.clients) }
                td.word { (row.caching.map_or("", Caching::name)) }
                td { (row.operations_per_second.words()) }
            }
        }
    };
    html! {
        h2 id="servers" { (first.name) " divided by the other, round by round" }
        (wide(&NAMES, &rows))
    }
}

fn all_cases(report: &Report) -> Markup {
    const NAMES: [&str; 11] = [
        "server", "workload", "clients", "caching", "depth", "IOPS", "MiB/s", "bytes/op", "mean µs", "p50 µs", "p99 µs",
    ];
    let rows = html! {
        @for case in &report.cases {
            tr {
                @for word in [&case.server, case.workload.name()] { td.word { (word) } }
                td { (case.clients) }
                td.word { (case.caching.map_or("", Caching::name)) }
                td { (case.depth) }
                td { (number(case.operations_per_second_median)) }
                td { (number(case.network_mibps_median)) }
                td { (number(case.network_bytes_per_operation)) }
                @for value in [case.latency.mean_us, case.latency.p50_us, case.latency.p99_us] {
                    td { (perhaps(Some(value))) }
                }
            }
        }
    };
    html! {
        h2 id="cases" { "All cases" }
        (wide(&NAMES, &rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::metadata::examples::report;

    #[test]
    fn each_workload_has_three_charts_with_caching_off_and_on() {
        let page = page(&report());
        let of_workload = page.split("<h2 id=\"small-files\">").nth(1).unwrap().split("<h2").next().unwrap();
        assert_eq!(of_workload.matches("<svg").count(), 3);
        for part in
            ["caching off", "caching on", "a|&lt;b&gt;", "<th scope=\"row\">8</th>", "Available IOPS: small-files"]
        {
            assert!(of_workload.contains(part), "{part} is not in {of_workload}");
        }
        assert!(page.contains("is simulated") && page.contains("0.50 (0.40 to 0.60)"), "{page}");
        assert!(!page.contains("<b>") && !page.contains("NaN"), "{page}");
        let links: Vec<&str> = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()).collect();
        assert_eq!(links.len(), 5 + 3);
        assert!(links.iter().all(|link| page.contains(&format!("id=\"{link}\""))), "{links:?}");
    }
}
