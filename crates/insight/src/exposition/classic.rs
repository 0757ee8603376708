//! The older text of Prometheus (0.0.4) from the one of OpenMetrics: the same samples, with types by the names that samples have.

use crate::exposition::families::{FAMILIES, Family, Kind};

/// What OpenMetrics ends with.
const END: &str = "# EOF";
/// What begins what is told of a metric.
const HELP: &str = "# HELP ";

/// The older text.
pub(super) fn classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut family = None;
    for line in open_metrics.lines().filter(|line| *line != END) {
        if let Some(rest) = line.strip_prefix(HELP) {
            family = FAMILIES.iter().find(|family| rest.split(' ').next() == Some(&family.base()));
        }
        match family {
            Some(family) if line.starts_with('#') => text.push_str(&comment(line, family)),
            Some(_) | None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// A line about a metric rather than of one. There is no line for units.
fn comment(line: &str, family: &Family) -> String {
    if line.starts_with(HELP) {
        return format!("# HELP {} {}\n", family.name(), family.help);
    }
    if line.starts_with("# TYPE ") {
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge | Kind::Info => "gauge",
            Kind::Histogram => "histogram",
        };
        return format!("# TYPE {} {kind}\n", family.name());
    }
    String::new()
}
