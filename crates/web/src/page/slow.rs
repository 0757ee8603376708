//! What takes longer to find out: why something is slow, and the numbers of the last thirty days.

use std::path::Path;
use std::sync::Arc;

use axum::http::StatusCode;
use insight::monitor::{Archive, Dimension, Filter, Interval, Metric, Query, Series};
use serde_json::{Value, json};

use crate::flight::Work;
use crate::page::answer::{Answer, Refusal, told};
use crate::page::recent::now;
use crate::page::source::PageSource;

/// Series that are told: those that come to most.
const SERIES_MAX: usize = 12;
/// Seconds until a minute that is over is kept.
const KEPT_WITHIN: i64 = 5;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Question {
    /// Why a share or session is slow, or the share that suffers most.
    Why { about: Option<String> },
    /// A metric's numbers.
    Metric { name: String, by: Option<String>, share: Option<String>, span: Span },
    /// Which metrics there are.
    Metrics,
}

/// How far back, with numbers of which length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Span {
    Hour,
    Day,
    Month,
}

/// Who finds out.
pub(crate) struct Slow(pub(crate) Arc<PageSource>);

impl Work for Slow {
    type Reading = ();
    type Question = Question;
    type Answer = Answer;

    fn read(&mut self) {}

    fn answer(&mut self, (): &(), question: Question) -> Answer {
        match question {
            Question::Why { about } => {
                let about = about.map(|about| self.0.share_named(&about));
                told(&self.0.explain.why(about.as_deref())?)
            }
            Question::Metrics => told(&definitions()),
            Question::Metric { name, by, share, span } => {
                let share = share.map(|share| self.0.share_named(&share));
                let query = query(&name, by.as_deref(), share.as_deref(), span)?;
                told(&numbers(&query, series(&self.0.archive, &query)?))
            }
        }
    }
}

impl Span {
    /// That of its name.
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "hour" => Some(Span::Hour),
            "day" => Some(Span::Day),
            "month" => Some(Span::Month),
            _ => None,
        }
    }

    /// Seconds, and what each number is about.
    fn terms(self) -> (i64, &'static str) {
        match self {
            Span::Hour => (3_600, "PT1M"),
            Span::Day => (24 * 3_600, "PT15M"),
            Span::Month => (30 * 24 * 3_600, "PT6H"),
        }
    }
}

fn definitions() -> Vec<Value> {
    let told = |metric: Metric| {
        let definition = metric.definition();
        json!({
            "name": definition.name,
            "description": definition.description,
            "unit": definition.unit,
            "dimensions": definition.dimensions.iter().map(|one| one.name()).collect::<Vec<_>>(),
        })
    };
    Metric::ALL.into_iter().map(told).collect()
}

fn query(name: &str, by: Option<&str>, share: Option<&str>, span: Span) -> Result<Query, Refusal> {
    let metric = Metric::of(name).ok_or_else(|| wrong(format!("There is no metric {name}.")))?;
    let by = by.map(|by| Dimension::of(by).ok_or_else(|| wrong(format!("There is no dimension {by}.")))).transpose()?;
    let conditions = by.map(|by| format!("{} eq '*'", by.name()));
    // A quotation mark in a value is written twice.
    let of_share = share.map(|share| format!("FileShare eq '{}'", share.replace('\'', "''")));
    let conditions: Vec<String> = conditions.into_iter().chain(of_share).collect();
    let filter = match conditions.as_slice() {
        [] => Filter::default(),
        some => Filter::parse(&some.join(" and ")).map_err(|cause| wrong(cause.to_string()))?,
    };
    let (seconds, interval) = span.terms();
    // What is counted of a minute is kept when it is over.
    let end = Interval::MINUTE.begin((now() / 1_000) as i64 - KEPT_WITHIN);
    let interval = Interval::of(interval).unwrap_or(Interval::MINUTE);
    let query = Query {
        metric,
        aggregation: metric.definition().aggregations[0],
        filter,
        interval,
        range: interval.whole(end - seconds..end),
    };
    query.check().map_err(wrong)?;
    Ok(query)
}

fn series(archive: &Path, query: &Query) -> Result<Vec<Series>, Refusal> {
    let mut answer = query.begin();
    // There is none in the first minute.
    if archive.exists() {
        Archive::open_to_read(archive)
            .and_then(|archive| {
                archive.read(query.kept(), &query.range, |begin, share, record| answer.add(begin, share, record))
            })
            .map_err(|cause| {
                Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, cause.to_string(), "See whether the disk is well.")
            })?;
    }
    Ok(answer.series())
}

fn numbers(query: &Query, mut series: Vec<Series>) -> Value {
    let definition = query.metric.definition();
    let sum = |series: &Series| series.points.iter().filter_map(|(_, number)| *number).sum::<f64>();
    series.sort_by(|a, b| sum(b).total_cmp(&sum(a)));
    let total = series.len();
    series.truncate(SERIES_MAX);
    let begins: Vec<i64> =
        series.first().map(|one| one.points.iter().map(|(begin, _)| *begin).collect()).unwrap_or_default();
    let told = |series: &Series| {
        let of: Vec<&str> = series.of.iter().map(|(_, value)| value.as_str()).collect();
        json!({ "of": of.join(", "), "numbers": series.points.iter().map(|(_, number)| *number).collect::<Vec<_>>() })
    };
    json!({
        "name": definition.name,
        "description": definition.description,
        "unit": definition.unit,
        "aggregation": query.aggregation.name(),
        "begins": begins,
        "series": series.iter().map(told).collect::<Vec<_>>(),
        "total": total,
    })
}

fn wrong(what: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, what, "Choose another one.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_begin_with_a_whole_interval() {
        for (span, seconds) in [(Span::Hour, 60), (Span::Day, 900), (Span::Month, 21_600)] {
            assert_eq!(query("Transactions", None, None, span).unwrap().range.start % seconds, 0);
        }
    }

    #[test]
    fn a_share_with_quotation_marks_is_one_value() {
        let query = query("Transactions", Some("ApiName"), Some("it's' or FileShare eq 'x"), Span::Hour).unwrap();
        assert_eq!(query.filter.dimensions().count(), 2);
        assert_eq!(numbers(&query, query.begin().series())["total"], 0);
        for (metric, by) in [("Nothing", None), ("Transactions", Some("Nothing")), ("Ingress", Some("ResponseType"))] {
            assert_eq!(super::query(metric, by, None, Span::Day).unwrap_err().status, StatusCode::BAD_REQUEST);
        }
    }
}
