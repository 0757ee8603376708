//! The columns of a list, and in which order its lines are.

use std::cmp::Ordering;

use insight::Figures;
use load::figures::bytes;
use server::admin::Sum;

use crate::top::lists::{Line, Source};

/// What is shown of each line, beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Name,
    Iops,
    Written,
    Read,
    P50,
    P99,
    Throttled,
    Errors,
    Requests,
    WrittenBytes,
    ReadBytes,
}

impl Column {
    /// Those of what was done in a time.
    pub(super) const ALL: [Column; 8] = [
        Column::Name,
        Column::Iops,
        Column::Written,
        Column::Read,
        Column::P50,
        Column::P99,
        Column::Throttled,
        Column::Errors,
    ];

    /// Those of all that was done.
    pub(super) const TOTAL: [Column; 11] = [
        Column::Name,
        Column::Requests,
        Column::WrittenBytes,
        Column::ReadBytes,
        Column::Iops,
        Column::Written,
        Column::Read,
        Column::P50,
        Column::P99,
        Column::Throttled,
        Column::Errors,
    ];

    /// What stands above it; `name` above the names.
    pub(super) fn heading(self, name: &'static str) -> &'static str {
        match self {
            Column::Name => name,
            Column::Iops => "IOPS",
            Column::Written => "IN MiB/s",
            Column::Read => "OUT MiB/s",
            Column::P50 => "P50",
            Column::P99 => "P99",
            Column::Throttled => "THROTTLED",
            Column::Errors => "ERRORS",
            Column::Requests => "REQUESTS",
            Column::WrittenBytes => "IN",
            Column::ReadBytes => "OUT",
        }
    }

    /// What a line has in it; `-` where that is not known.
    pub(super) fn cell(self, line: &Line) -> String {
        let figures = &line.figures;
        let unknown = || "-".to_owned();
        match self {
            Column::Throttled | Column::Errors if line.source == Source::Sampled => unknown(),
            Column::Name => line.name.clone(),
            Column::Iops => format!("{:.0}", figures.iops),
            Column::Written => format!("{:.1}", figures.written_mib_s),
            Column::Read => format!("{:.1}", figures.read_mib_s),
            Column::P50 => figures.p50.map_or_else(unknown, latency),
            Column::P99 => figures.p99.map_or_else(unknown, latency),
            Column::Throttled => format!("{:.0}%", 100.0 * throttled(figures)),
            Column::Errors => figures.errors.to_string(),
            Column::Requests => figures.requests.to_string(),
            Column::WrittenBytes => bytes(line.counts.total(Sum::WrittenBytes)),
            Column::ReadBytes => bytes(line.counts.total(Sum::ReadBytes)),
        }
    }

    /// The order of two lines: names as they are read, and otherwise who has most first.
    pub(super) fn order(self, a: &Line, b: &Line) -> Ordering {
        let (x, y) = (&a.figures, &b.figures);
        let by_column = match self {
            Column::Name => Ordering::Equal,
            Column::Iops => y.iops.total_cmp(&x.iops),
            Column::Written => y.written_mib_s.total_cmp(&x.written_mib_s),
            Column::Read => y.read_mib_s.total_cmp(&x.read_mib_s),
            Column::P50 => y.p50.cmp(&x.p50),
            Column::P99 => y.p99.cmp(&x.p99),
            Column::Throttled => throttled(y).total_cmp(&throttled(x)),
            Column::Errors => y.errors.cmp(&x.errors),
            Column::Requests => y.requests.cmp(&x.requests),
            Column::WrittenBytes => y.written_mib_s.total_cmp(&x.written_mib_s),
            Column::ReadBytes => y.read_mib_s.total_cmp(&x.read_mib_s),
        };
        by_column.then_with(|| a.name.cmp(&b.name))
    }
}

/// The part of the requests' time in which they waited for a limit.
pub(super) fn throttled(figures: &Figures) -> f64 {
    let all = figures.time.as_secs_f64();
    if all > 0.0 { figures.waited.budget.as_secs_f64() / all } else { 0.0 }
}

/// A latency as people say it.
pub(super) fn latency(time: std::time::Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    match micros {
        ..1e3 => format!("{micros:.0}us"),
        ..1e6 => format!("{:.1}ms", micros / 1e3),
        _ => format!("{:.1}s", micros / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use server::admin::Counts;

    use super::*;

    #[test]
    fn what_samples_do_not_tell_is_not_zero() {
        let counts = Counts::default();
        let figures = Figures::of(&counts, Duration::from_secs(1));
        let mut line = Line {
            name: "file".to_owned(),
            session: None,
            passed: Duration::from_secs(1),
            counts,
            figures,
            source: Source::Sampled,
        };
        let unknown = [Column::P50, Column::P99, Column::Throttled, Column::Errors];
        assert_eq!(unknown.map(|column| column.cell(&line)), ["-"; 4]);
        line.source = Source::Counted;
        assert_eq!(unknown.map(|column| column.cell(&line)), ["-", "-", "0%", "0"]);
    }

    #[test]
    fn latencies_are_short() {
        let texts = [(0.4, "0us"), (999.0, "999us"), (1_250.0, "1.2ms"), (2_500_000.0, "2.5s")];
        for (micros, text) in texts {
            assert_eq!(latency(Duration::from_secs_f64(micros / 1e6)), text);
        }
    }
}
