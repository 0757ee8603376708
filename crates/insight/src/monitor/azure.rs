//! Metrics as Azure Monitor's REST interface tells them, which `az monitor metrics` prints as they are.

use std::ops::Range;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::monitor::interval::Interval;
use crate::monitor::metric::{Aggregation, Metric};
use crate::monitor::query::Series;

/// The namespace that Azure Monitor has them in.
pub const NAMESPACE: &str = "Microsoft.Storage/storageAccounts/fileServices";

/// What was asked for, by metric.
pub fn answer(interval: Interval, range: &Range<i64>, metrics: Vec<Value>) -> Value {
    json!({
        "cost": 0,
        "interval": interval.name(),
        "namespace": NAMESPACE,
        "timespan": format!("{}/{}", time(range.start), time(range.end)),
        "value": metrics,
    })
}

/// One metric, by each aggregation that was asked for. All have the same series with the same times.
pub fn metric(metric: Metric, by_aggregation: &[(Aggregation, Vec<Series>)]) -> Value {
    let definition = metric.definition();
    let first = by_aggregation.first().map(|(_, series)| series.as_slice()).unwrap_or_default();
    let timeseries = first.iter().map(|series| {
        let same: Vec<(String, &Series)> = by_aggregation
            .iter()
            .filter_map(|(aggregation, all)| {
                Some((aggregation.name().to_lowercase(), all.iter().find(|one| one.of == series.of)?))
            })
            .collect();
        let point = |(place, (begin, _)): (usize, &(i64, Option<f64>))| {
            let mut point = Map::new();
            point.insert("timeStamp".to_owned(), time(*begin).into());
            for (key, of) in &same {
                if let Some((_, Some(number))) = of.points.get(place) {
                    point.insert(key.clone(), (*number).into());
                }
            }
            Value::Object(point)
        };
        let values = series
            .of
            .iter()
            .map(|(dimension, value)| json!({ "name": named(&dimension.name().to_lowercase()), "value": value }));
        json!({
            "data": series.points.iter().enumerate().map(point).collect::<Vec<_>>(),
            "metadatavalues": values.collect::<Vec<_>>(),
        })
    });
    json!({
        "displayDescription": definition.description,
        "errorCode": "Success",
        "name": named(definition.name),
        "timeseries": timeseries.collect::<Vec<_>>(),
        "type": "Microsoft.Insights/metrics",
        "unit": definition.unit,
    })
}

fn named(name: &str) -> Value {
    json!({ "localizedValue": name, "value": name })
}

fn time(seconds: i64) -> String {
    Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::metric::Dimension;

    #[test]
    fn aggregations_stand_side_by_side() {
        let series = |number| Series {
            of: vec![(Dimension::ApiName, "Read".to_owned())],
            points: vec![(0, Some(number)), (60, None)],
        };
        let by = [(Aggregation::Average, vec![series(1.5)]), (Aggregation::Maximum, vec![series(2.0)])];
        let told = metric(Metric::SuccessE2eLatency, &by);
        let of = &told["timeseries"][0];
        assert_eq!(of["data"][0], json!({ "timeStamp": "1970-01-01T00:00:00Z", "average": 1.5, "maximum": 2.0 }));
        assert_eq!(of["data"][1], json!({ "timeStamp": "1970-01-01T00:01:00Z" }));
        assert_eq!(of["metadatavalues"][0]["name"]["value"], "apiname");
        assert_eq!(
            answer(Interval::MINUTE, &(0..120), vec![told])["timespan"],
            "1970-01-01T00:00:00Z/1970-01-01T00:02:00Z"
        );
    }
}
