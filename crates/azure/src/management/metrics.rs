//! The numbers of a file service (Microsoft.Insights), which are those of `multilane metrics`.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use insight::monitor::{Aggregation, Archive, ArchiveError, Filter, Interval, Metric, Query, Series, azure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::answer::json as answered;
use super::{Ask, Failure, Management};
use crate::answer::Answer;
use crate::query::decoded;

/// Numbers of one series at most: a day of minutes.
const POINTS_MAX: i64 = 1_440;
/// Metrics of one call, as the service has it.
const METRICS_MAX: usize = 20;
/// How long a call waits for its numbers, those before it among that.
const READ_WITHIN: Duration = Duration::from_secs(30);
/// Series of one metric, where nothing is said and at most.
const SERIES: usize = 10;
const SERIES_MAX: usize = 1_000;

/// Whose numbers are told.
struct Shares {
    names: Vec<String>,
    /// True where there is no other account: what was done for no share was done for this one.
    is_all: bool,
}

/// The one namespace there is.
pub(super) fn namespaces(management: &Management, account: &str) -> Result<Answer, Failure> {
    let id = management.id(&format!("storageAccounts/{}/fileServices/default", management.account(account)?.name));
    let namespace = json!({
        "id": format!("{id}/providers/microsoft.insights/metricNamespaces/{}", azure::NAMESPACE),
        "name": azure::NAMESPACE,
        "type": "Microsoft.Insights/metricNamespaces",
        "classification": "Platform",
        "properties": { "metricNamespaceName": azure::NAMESPACE },
    });
    Ok(answered(StatusCode::OK, &json!({ "value": [namespace] })))
}

/// The metrics there are.
pub(super) fn definitions(management: &Management, account: &str) -> Result<Answer, Failure> {
    let id = management.id(&format!("storageAccounts/{}/fileServices/default", management.account(account)?.name));
    let all: Vec<Value> = Metric::ALL.iter().map(|metric| definition(&id, *metric)).collect();
    Ok(answered(StatusCode::OK, &json!({ "value": all })))
}

fn definition(id: &str, metric: Metric) -> Value {
    let of = metric.definition();
    let named = |name: &str| json!({ "value": name, "localizedValue": name });
    let grains = Interval::ALL.map(|interval| json!({ "timeGrain": interval.name(), "retention": "P30D" }));
    json!({
        "id": format!("{id}/providers/microsoft.insights/metricDefinitions/{}", of.name),
        "resourceId": id,
        "namespace": azure::NAMESPACE,
        "name": named(of.name),
        "displayDescription": of.description,
        "unit": of.unit,
        "primaryAggregationType": of.aggregations[0].name(),
        "supportedAggregationTypes": of.aggregations.iter().map(|one| one.name()).collect::<Vec<_>>(),
        "metricAvailabilities": grains,
        "dimensions": of.dimensions.iter().map(|one| named(one.name())).collect::<Vec<_>>(),
        "isDimensionRequired": false,
    })
}

/// The numbers of some metrics.
pub(super) async fn list(management: &Management, ask: &Ask, account: &str) -> Result<Answer, Failure> {
    let account = management.account(account)?.name;
    let mine = management.catalog.shares().into_iter().filter(|share| share.account == account);
    let shares =
        Shares { names: mine.map(|share| share.name).collect(), is_all: management.catalog.accounts().len() == 1 };
    let (queries, top) = (queries(ask, Timestamp::now())?, top(ask)?);
    let archive = management.archive.clone();
    let read = one_at_a_time(&management.metrics_turn, move || told(&archive, &queries, &shares, top));
    let unread =
        |error: ArchiveError| Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", error.to_string());
    let told = timeout(READ_WITHIN, read).await.map_err(|_| {
        let message = "The numbers were not read in time; try again, or ask for fewer.";
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    })?;
    let told = told.ok_or_else(|| {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError", "The request failed in the server.")
    })?;
    Ok(answered(StatusCode::OK, &told.map_err(unread)?))
}

/// Reads on a thread that may wait for the archive's disk. One read goes on at a time, for each may take some memory: also where nobody waits for it any more.
/// `None` where it failed.
async fn one_at_a_time<T: Send + 'static>(
    turn: &Arc<Mutex<()>>,
    read: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let turn = Arc::clone(turn).lock_owned().await;
    let reading = spawn_blocking(move || {
        let read = read();
        drop(turn);
        read
    });
    reading.await.ok()
}

fn top(ask: &Ask) -> Result<usize, Failure> {
    let Some(text) = ask.query.get("top") else { return Ok(SERIES) };
    let top = text.parse::<usize>().ok().filter(|top| *top > 0);
    top.map(|top| top.min(SERIES_MAX)).ok_or_else(|| bad(format!("top is {text:?}; allowed: 1 to {SERIES_MAX}.")))
}

fn bad(message: impl Into<String>) -> Failure {
    Failure::bad("BadRequest", message)
}

/// What is asked for: for each metric a query by each aggregation.
fn queries(ask: &Ask, now: Timestamp) -> Result<Vec<Query>, Failure> {
    let given = |name: &str| ask.query.get(name).filter(|text| !text.is_empty());
    let names = |text: &str| text.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    let interval = given("interval").map_or(Ok(Interval::MINUTE), |text| {
        let all = || Interval::ALL.map(Interval::name).join(", ");
        Interval::of(text).ok_or_else(|| bad(format!("The interval {text:?} is not kept; there are {}.", all())))
    })?;
    let range = range(given("timespan"), interval, now)?;
    let filter = given("$filter").map(Filter::parse).transpose().map_err(|error| bad(format!("{error}.")))?;
    let metrics = given("metricnames").map_or_else(|| vec![Metric::ALL[0].definition().name.to_owned()], names);
    if metrics.len() > METRICS_MAX {
        return Err(bad(format!("{} metrics are asked for; {METRICS_MAX} at most.", metrics.len())));
    }
    let metrics = each_once(metrics.iter().map(|name| {
        let all = || Metric::ALL.map(|metric| metric.definition().name).join(",");
        let unknown = || format!("Failed to find metric configuration for metric {name:?}. Valid metrics: {}", all());
        Metric::of(name).ok_or_else(|| bad(unknown()))
    }))?;
    let aggregations = given("aggregation").map(names).unwrap_or_default();
    let aggregations = each_once(aggregations.iter().map(|name| {
        let all = || Aggregation::ALL.map(Aggregation::name).join(", ");
        Aggregation::of(name).ok_or_else(|| bad(format!("There is no aggregation {name:?}; there are {}.", all())))
    }))?;
    let mut queries = Vec::new();
    for metric in metrics {
        let primary = metric.definition().aggregations[0];
        let mut wanted = aggregations.clone();
        // Of those that are asked for each metric is told by what it has, where it has any.
        if wanted.iter().any(|one| metric.definition().aggregations.contains(one)) {
            wanted.retain(|one| metric.definition().aggregations.contains(one));
        }
        if wanted.is_empty() {
            wanted.push(primary);
        }
        for aggregation in wanted {
            let (filter, range) = (filter.clone().unwrap_or_default(), range.clone());
            let query = Query { metric, aggregation, filter, interval, range };
            query.check().map_err(|what| bad(format!("{what}.")))?;
            queries.push(query);
        }
    }
    Ok(queries)
}

/// Those of a list, without what stood in it before.
fn each_once<T: PartialEq>(all: impl Iterator<Item = Result<T, Failure>>) -> Result<Vec<T>, Failure> {
    let mut once = Vec::new();
    for one in all {
        let one = one?;
        if !once.contains(&one) {
            once.push(one);
        }
    }
    Ok(once)
}

/// `START/END`, or the last hour.
fn range(given: Option<&str>, interval: Interval, now: Timestamp) -> Result<Range<i64>, Failure> {
    let wrong = || bad("The timespan is not START/END, each as 2026-11-29T13:00:00Z, in this order.");
    // One that names no zone is in UTC, as az has it.
    let time = |text: &str| text.parse::<Timestamp>().or_else(|_| format!("{text}Z").parse()).map_err(|_| wrong());
    // az escapes it twice.
    let given = given.map(decoded).transpose().map_err(|_| wrong())?;
    let (start, end) = match given.as_deref() {
        Some(text) => {
            let (start, end) = text.split_once('/').ok_or_else(wrong)?;
            (time(start)?, time(end)?)
        }
        None => (now - SignedDuration::from_hours(1), now),
    };
    let range = interval.whole(start.as_second()..end.as_second());
    if range.is_empty() {
        return Err(wrong());
    }
    let points = (range.end - range.start) / interval.duration().as_secs() as i64;
    if points > POINTS_MAX {
        return Err(bad(format!(
            "Each series would have {points} numbers, and has {POINTS_MAX} at most: ask for a longer interval, or for less time."
        )));
    }
    Ok(range)
}

/// The answer to these queries, of which those of one metric stand together. Where nothing was kept yet there are no numbers.
fn told(archive: &Path, queries: &[Query], shares: &Shares, top: usize) -> Result<Value, ArchiveError> {
    let archive = match Archive::open_to_read(archive) {
        Ok(archive) => Some(archive),
        Err(ArchiveError::Nothing) => None,
        Err(error) => return Err(error),
    };
    let mut metrics = Vec::new();
    for of_metric in queries.chunk_by(|one, other| one.metric == other.metric) {
        let by_aggregation: Result<Vec<_>, ArchiveError> = of_metric
            .iter()
            .map(|query| Ok((query.aggregation, series(archive.as_ref(), query, shares, top)?)))
            .collect();
        metrics.push(azure::metric(of_metric[0].metric, &by_aggregation?));
    }
    let asked = queries.first().expect("one metric at least is asked for");
    Ok(azure::answer(asked.interval, &asked.range, metrics))
}

fn series(archive: Option<&Archive>, query: &Query, shares: &Shares, top: usize) -> Result<Vec<Series>, ArchiveError> {
    let mut answer = query.begin();
    if let Some(archive) = archive {
        archive.read(query.kept(), &query.range, |begin, share, record| {
            if shares.is_all || shares.names.iter().any(|name| name == share) {
                answer.add(begin, share, record);
            }
        })?;
    }
    let mut series = answer.series();
    series.truncate(top);
    Ok(series)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use bytes::Bytes;
    use futures_util::FutureExt;

    use super::*;

    fn asked(query: &str) -> Result<Vec<Query>, String> {
        let query = crate::query::Query::parse(query).unwrap();
        let ask =
            Ask { query, snapshot: None, body: Bytes::new(), origin: String::new(), by: None, is_contributor: true };
        queries(&ask, "2026-11-30T09:00:30Z".parse().unwrap()).map_err(|failure| failure.message)
    }

    #[tokio::test]
    async fn a_read_that_nobody_waits_for_any_more_keeps_its_turn_to_its_end() {
        let (turn, (goes_on, waits)) = (Arc::<Mutex<()>>::default(), channel::<()>());
        {
            let left = one_at_a_time(&turn, move || waits.recv());
            assert!(left.now_or_never().is_none());
        }
        let mut next = std::pin::pin!(one_at_a_time(&turn, || 7));
        assert!(next.as_mut().now_or_never().is_none() && turn.try_lock().is_err());
        drop(goes_on);
        assert_eq!(next.await, Some(7));
    }

    #[test]
    fn a_query_names_metrics_aggregations_and_a_time() {
        let all = asked("metricnames=Egress,FileShareProvisionedIOPS&aggregation=Total,average,Maximum&interval=PT5M");
        let all = all.unwrap();
        let told: Vec<_> = all.iter().map(|query| (query.metric, query.aggregation)).collect();
        let iops = Metric::FileShareProvisionedIops;
        let wanted = [(Metric::Egress, Aggregation::Total), (iops, Aggregation::Average), (iops, Aggregation::Maximum)];
        assert_eq!((told, all[0].interval.name()), (wanted.to_vec(), "PT5M"));
        let one =
            &asked("metricnames=Egress&timespan=2026-11-30T08:00:00.000Z/2026-11-30T10:30:00%2B01:00").unwrap()[0];
        assert_eq!(one.range.end - one.range.start, 5_400);
        let twice = "timespan=2026-11-30T08%253A00%253A00.5%252F2026-11-30T09%253A00%253A00";
        let one = &asked(twice).unwrap()[0];
        assert_eq!(one.range.end - one.range.start, 3_600);
        let last = &asked("").unwrap()[0];
        assert_eq!((last.metric, last.range.end - last.range.start), (Metric::Transactions, 3_630));
    }

    #[test]
    fn what_is_named_twice_is_told_once() {
        let all =
            asked("metricnames=FileShareProvisionedIOPS,Egress,egress&aggregation=Maximum,Total,maximum,Average,total")
                .unwrap();
        let told: Vec<_> = all.iter().map(|query| (query.metric, query.aggregation)).collect();
        let iops = Metric::FileShareProvisionedIops;
        let wanted = [(iops, Aggregation::Maximum), (iops, Aggregation::Average), (Metric::Egress, Aggregation::Total)];
        assert_eq!(told, wanted);
    }

    #[test]
    fn what_is_not_kept_is_refused() {
        for (query, part) in [
            ("metricnames=UsedCapacity", "Valid metrics: Transactions"),
            ("interval=PT2M", "PT5M"),
            ("aggregation=Median", "Average"),
            ("metricnames=Transactions&aggregation=Average", "Transactions is not given as Average"),
            ("timespan=now", "START/END"),
            ("timespan=2026-11-30T09:00:00Z/2026-11-30T08:00:00Z", "START/END"),
            ("timespan=2026-10-30T09:00:00Z/2026-11-30T08:00:00Z", "1440 at most"),
            ("$filter=Colour%20eq%20'red'", "Colour"),
            ("metricnames=FileShareCount&$filter=ApiName%20eq%20'*'", "no dimension"),
        ] {
            let message = asked(query).unwrap_err();
            assert!(message.contains(part), "{query}: {message}");
        }
        assert!(asked(&format!("metricnames={}", "Egress,".repeat(21))).is_err());
    }
}
