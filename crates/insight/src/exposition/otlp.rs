//! The same samples for a collector of OpenTelemetry: a request of OTLP/HTTP in its JSON form (OTLP 1.x, ExportMetricsServiceRequest), from the text of OpenMetrics.
//!
//! Names have no unit and no `_total`: units stand beside them, and what reads them for Prometheus adds both.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use crate::exposition::families::{FAMILIES, Family, Kind, PREFIX, Unit};

/// AGGREGATION_TEMPORALITY_CUMULATIVE.
const CUMULATIVE: u8 = 2;
const SERVICE: &str = "multilane";

/// Which server the numbers are of, among others that send to the same collector.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// The server's GUID, which is the same across restarts.
    pub instance: String,
    /// The machine's name.
    pub host: String,
}

/// The request.
pub(super) fn request(
    open_metrics: &str,
    (sender, version): (&Sender, &str),
    (since, now): (Duration, Duration),
) -> String {
    let times = Times { since: nanos(since), now: nanos(now) };
    let mut families: Vec<Found<'_>> =
        FAMILIES.iter().map(|family| Found { family, base: family.base(), samples: Vec::new() }).collect();
    for sample in open_metrics.lines().filter_map(Sample::of) {
        let of = families.iter_mut().find(|found| found.suffix_of(&sample).is_some());
        of.into_iter().for_each(|found| found.samples.push(sample.clone()));
    }
    let metrics: Vec<Metric> =
        families.iter().filter(|found| !found.samples.is_empty()).map(|found| found.metric(&times)).collect();
    let attributes = [
        ("service.name", SERVICE),
        ("service.version", version),
        ("service.instance.id", &sender.instance),
        ("host.name", &sender.host),
    ];
    let attributes = attributes.map(|(key, value)| attribute(key, value));
    json!({"resourceMetrics": [{
        "resource": {"attributes": attributes},
        "scopeMetrics": [{"scope": {"name": SERVICE, "version": version}, "metrics": metrics}],
    }]})
    .to_string()
}

struct Times {
    since: String,
    now: String,
}

/// As OTLP's JSON has 64-bit numbers.
fn nanos(time: Duration) -> String {
    time.as_nanos().to_string()
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// A line of the text.
#[derive(Clone)]
struct Sample<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: &'a str,
}

impl<'a> Sample<'a> {
    fn of(line: &'a str) -> Option<Self> {
        if line.starts_with('#') {
            return None;
        }
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end);
        let (labels, value) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Vec::new(), rest),
        };
        Some(Sample { name, labels, value: value.trim() })
    }

    fn number(&self) -> f64 {
        self.value.parse().unwrap_or(f64::NAN)
    }

    /// A count, which has no fraction.
    fn count(&self) -> u64 {
        self.value.parse().unwrap_or_else(|_| self.number() as u64)
    }
}

/// The labels of what follows a brace, and what is behind them.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(behind) = rest.strip_prefix('}') {
            return Some((labels, behind));
        }
        let (key, quoted) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        let end = loop {
            match letters.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match letters.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, letter) => value.push(letter),
            }
        };
        labels.push((key, value));
        rest = &quoted[end + 1..];
    }
}

/// A metric.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Metric {
    name: String,
    description: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    unit: &'static str,
    #[serde(flatten)]
    data: BTreeMap<&'static str, Value>,
}

struct Found<'a> {
    family: &'static Family,
    base: String,
    samples: Vec<Sample<'a>>,
}

impl Found<'_> {
    /// What stands behind the family's name in that of a sample, where it is one of its samples.
    fn suffix_of<'s>(&self, sample: &Sample<'s>) -> Option<&'s str> {
        let rest = sample.name.strip_prefix(self.base.as_str())?;
        let suffixes: &[&str] = match self.family.kind {
            Kind::Counter => &["_total"],
            Kind::Info => &["_info"],
            Kind::Gauge => &[""],
            Kind::Histogram => &["_bucket", "_count", "_sum"],
        };
        suffixes.contains(&rest).then_some(rest)
    }

    fn metric(&self, times: &Times) -> Metric {
        let unit = match self.family.unit {
            Some(Unit::Seconds) => "s",
            Some(Unit::Bytes) => "By",
            None => "",
        };
        let data = match self.family.kind {
            Kind::Counter => (
                "sum",
                json!({
                    "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": self.numbers(times, true),
                }),
            ),
            Kind::Gauge | Kind::Info => ("gauge", json!({"dataPoints": self.numbers(times, false)})),
            Kind::Histogram => {
                ("histogram", json!({"aggregationTemporality": CUMULATIVE, "dataPoints": self.histograms(times)}))
            }
        };
        let name = format!("{PREFIX}_{}", self.family.stem);
        Metric { name, description: self.family.help, unit, data: BTreeMap::from([data]) }
    }

    fn numbers(&self, times: &Times, has_start: bool) -> Vec<Value> {
        let point = |sample: &Sample<'_>| {
            let attributes: Vec<Value> = sample.labels.iter().map(|(key, value)| attribute(key, value)).collect();
            let mut point = json!({"timeUnixNano": times.now, "asDouble": sample.number(), "attributes": attributes});
            if has_start {
                point["startTimeUnixNano"] = times.since.as_str().into();
            }
            point
        };
        self.samples.iter().map(point).collect()
    }

    fn histograms(&self, times: &Times) -> Vec<Value> {
        let mut of: BTreeMap<Vec<(&str, String)>, Histogram> = BTreeMap::new();
        for sample in &self.samples {
            let mut labels = sample.labels.clone();
            labels.retain(|(key, _)| *key != "le");
            let histogram = of.entry(labels).or_default();
            match self.suffix_of(sample) {
                Some("_count") => histogram.count = sample.count(),
                Some("_sum") => histogram.sum = sample.number(),
                _ => {
                    let bound = sample.labels.iter().find(|(key, _)| *key == "le");
                    let bound = bound.and_then(|(_, bound)| bound.parse().ok()).unwrap_or(f64::INFINITY);
                    histogram.buckets.push((bound, sample.count()));
                }
            }
        }
        of.into_iter().map(|(labels, histogram)| histogram.point(&labels, times)).collect()
    }
}

#[derive(Default)]
struct Histogram {
    /// Bounds, and how many were no larger.
    buckets: Vec<(f64, u64)>,
    count: u64,
    sum: f64,
}

impl Histogram {
    fn point(mut self, labels: &[(&str, String)], times: &Times) -> Value {
        self.buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut before = 0;
        // How many are in each, and not in those before it. The last one has no bound.
        let counts: Vec<String> = self
            .buckets
            .iter()
            .map(|(_, up_to)| {
                let count = up_to - before;
                before = *up_to;
                count.to_string()
            })
            .collect();
        let bounds: Vec<f64> = self.buckets.iter().map(|(bound, _)| *bound).filter(|bound| bound.is_finite()).collect();
        let attributes: Vec<Value> = labels.iter().map(|(key, value)| attribute(key, value)).collect();
        json!({
            "startTimeUnixNano": times.since, "timeUnixNano": times.now, "attributes": attributes,
            "count": self.count.to_string(), "sum": self.sum, "bucketCounts": counts, "explicitBounds": bounds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP multilane_requests Requests.
# TYPE multilane_requests counter
multilane_requests_total{share=\"a\\\\b\\\"c\",api=\"Read\",response=\"Success\"} 7
multilane_sessions 3
multilane_request_duration_seconds_sum{share=\"m\",kind=\"read\"} 1.5
multilane_request_duration_seconds_count{share=\"m\",kind=\"read\"} 5
multilane_request_duration_seconds_bucket{le=\"0.001\",share=\"m\",kind=\"read\"} 2
multilane_request_duration_seconds_bucket{le=\"+Inf\",share=\"m\",kind=\"read\"} 5
# EOF
";

    #[test]
    fn every_kind_of_sample_is_there_as_it_was() {
        let sender = Sender { instance: "0123".to_owned(), host: "nas".to_owned() };
        let text = request(TEXT, (&sender, "1.2.3"), (Duration::from_secs(1), Duration::from_secs(2)));
        let said: Value = serde_json::from_str(&text).unwrap();
        let resource = &said["resourceMetrics"][0];
        for (place, value) in ["multilane", "1.2.3", "0123", "nas"].into_iter().enumerate() {
            assert_eq!(resource["resource"]["attributes"][place]["value"]["stringValue"], value);
        }
        let metrics = resource["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let of = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
        assert_eq!(metrics.len(), 3);
        let requests = &of("multilane_requests")["sum"];
        assert_eq!((&requests["isMonotonic"], &requests["aggregationTemporality"]), (&json!(true), &json!(2)));
        let point = &requests["dataPoints"][0];
        assert_eq!(point["attributes"][0], json!({"key": "share", "value": {"stringValue": "a\\b\"c"}}));
        assert_eq!((&point["asDouble"], &point["startTimeUnixNano"]), (&json!(7.0), &json!("1000000000")));
        assert_eq!(of("multilane_sessions")["gauge"]["dataPoints"][0]["asDouble"], 3.0);
        let durations = of("multilane_request_duration");
        assert_eq!(durations["unit"], "s");
        let point = &durations["histogram"]["dataPoints"][0];
        assert_eq!((&point["count"], &point["sum"]), (&json!("5"), &json!(1.5)));
        assert_eq!((&point["bucketCounts"], &point["explicitBounds"]), (&json!(["2", "3"]), &json!([0.001])));
        assert_eq!(point["attributes"].as_array().unwrap().len(), 2);
    }
}
