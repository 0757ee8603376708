//! Series of numbers, from what is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use server::admin::Api;

use crate::monitor::filter::Filter;
use crate::monitor::interval::Interval;
use crate::monitor::metric::{Aggregation, Dimension, Metric};
use crate::monitor::record::{Level, Record, Requests};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Query {
    /// The metric.
    pub metric: Metric,
    /// What its numbers are made one by.
    pub aggregation: Aggregation,
    /// Which of them count.
    pub filter: Filter,
    /// How long each number is about.
    pub interval: Interval,
    /// From when until when, in seconds since 1970, as [`Interval::whole`] gives it.
    pub range: Range<i64>,
}

/// The numbers of one combination of values.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// The dimensions that have series of their own, and the values of this one.
    pub of: Vec<(Dimension, String)>,
    /// When each interval begins, and its number; `None` where nothing is known.
    pub points: Vec<(i64, Option<f64>)>,
}

/// What one interval of one series came to until now.
#[derive(Clone, Debug, Default)]
struct Sum {
    requests: Requests,
    /// How many requests the server, or its store, failed.
    failed: u64,
    level: Option<Level>,
}

/// What the records came to that were added until now.
#[derive(Debug)]
pub struct Answer<'a> {
    query: &'a Query,
    split_by: Vec<Dimension>,
    /// When the intervals begin of which there is any record.
    known: BTreeSet<i64>,
    /// Whether there is any record of the shares that the filter lets through.
    is_share_known: bool,
    found: BTreeMap<Vec<(Dimension, String)>, BTreeMap<i64, Sum>>,
}

impl Answer<'_> {
    /// Adds the record of a share, of the time that begins then.
    pub fn add(&mut self, begin: i64, share: &str, record: &Record) {
        let Answer { query, split_by, known, is_share_known, found } = self;
        if !query.range.contains(&begin) {
            return;
        }
        let slot = query.interval.begin(begin);
        known.insert(slot);
        *is_share_known |= query.filter.takes(Dimension::FileShare, share);
        query.parts(share, record, |values, part| {
            if values.iter().all(|(dimension, value)| query.filter.takes(*dimension, value)) {
                let of = values.iter().filter(|(dimension, _)| split_by.contains(dimension));
                let of = of.map(|(dimension, value)| (*dimension, (*value).to_owned())).collect();
                found.entry(of).or_default().entry(slot).or_default().add(part);
            }
        });
    }

    /// When the first interval begins of which anything is known.
    pub fn first(&self) -> Option<i64> {
        self.known.first().copied()
    }

    /// The series.
    pub fn series(mut self) -> Vec<Series> {
        if self.found.is_empty() && self.split_by.is_empty() {
            self.found.insert(Vec::new(), BTreeMap::new());
        }
        let Query { range, interval, .. } = self.query;
        let first = interval.begin(range.start);
        let begins = (0..).map(|number| first + number * interval.seconds());
        // One that is not over is told where something of it is known.
        let is_told = |begin: &i64| *begin + interval.seconds() <= range.end || self.known.contains(begin);
        let begins = begins.take_while(|begin| *begin < range.end).filter(is_told);
        let begins: Vec<i64> = begins.collect();
        // Each minute in which the server runs has a record, of how many shares there are.
        let nothing = Sum::default();
        let known = |begin: &i64| (self.is_share_known && self.known.contains(begin)).then_some(&nothing);
        let series = self.found.into_iter().map(|(of, sums)| {
            let number = |begin: &i64| self.query.number(sums.get(begin).or_else(|| known(begin))?);
            let points = begins.iter().map(|begin| (*begin, number(begin))).collect();
            Series { of, points }
        });
        series.collect()
    }
}

/// What counts against availability.
const FAILURES: [&str; 3] = ["ServerBusyError", "ServerTimeoutError", "ServerOtherError"];

impl Query {
    /// Whether its metric can be told apart, and made one, as it asks; a sentence where not.
    pub fn check(&self) -> Result<(), String> {
        let definition = self.metric.definition();
        let names = |all: Vec<&str>| if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        if let Some(other) = self.filter.dimensions().find(|one| !definition.dimensions.contains(one)) {
            let known = names(definition.dimensions.iter().map(|one| one.name()).collect());
            return Err(format!("{} has no dimension {}; it has {known}", definition.name, other.name()));
        }
        if !definition.aggregations.contains(&self.aggregation) {
            let known = names(definition.aggregations.iter().map(|one| one.name()).collect());
            return Err(format!("{} is not given as {}, but as {known}", definition.name, self.aggregation.name()));
        }
        Ok(())
    }

    /// The one of the two intervals that are kept which its numbers are added up from.
    pub fn kept(&self) -> Interval {
        self.interval.kept()
    }

    /// Begins to add records up.
    pub fn begin(&self) -> Answer<'_> {
        Answer {
            query: self,
            split_by: self.filter.split_by(),
            known: BTreeSet::new(),
            is_share_known: false,
            found: BTreeMap::new(),
        }
    }

    /// Gives the parts of a record that the metric is about, with the values of all their dimensions.
    fn parts(&self, share: &str, record: &Record, mut give: impl FnMut(&[(Dimension, &str)], Sum)) {
        if let Some(level) = record.levels.get(self.metric.definition().name) {
            let sum = Sum { level: Some(*level), ..Sum::default() };
            return give(&[(Dimension::FileShare, share)], sum);
        }
        let is_by_response = self.metric.definition().dimensions.contains(&Dimension::ResponseType);
        for (authentication, apis) in &record.requests {
            for (api, requests) in apis {
                if self.leaves_out(api) {
                    continue;
                }
                let values = [
                    (Dimension::ApiName, api.as_str()),
                    (Dimension::Authentication, authentication.as_str()),
                    (Dimension::FileShare, share),
                ];
                if !is_by_response {
                    let failed = FAILURES.iter().filter_map(|name| requests.responses.get(*name)).sum();
                    give(&values, Sum { requests: requests.clone(), failed, level: None });
                    continue;
                }
                for (response, count) in &requests.responses {
                    let one = Requests { responses: [(response.clone(), *count)].into(), ..Requests::default() };
                    let values: Vec<_> =
                        values.into_iter().chain([(Dimension::ResponseType, response.as_str())]).collect();
                    give(&values, Sum { requests: one, ..Sum::default() });
                }
            }
        }
    }

    /// How long a client was ready to wait for a change says nothing of how fast the server is: it counts only where APIs are told apart.
    fn leaves_out(&self, api: &str) -> bool {
        let is_latency = matches!(self.metric, Metric::SuccessE2eLatency | Metric::SuccessServerLatency);
        is_latency
            && api == Api::ChangeNotify.name()
            && !self.filter.dimensions().any(|dimension| dimension == Dimension::ApiName)
    }

    fn number(&self, Sum { requests, failed, level }: &Sum) -> Option<f64> {
        let all = requests.all();
        let millis = |nanos: u64| (all > 0).then(|| nanos as f64 / 1e6 / all as f64);
        match self.metric {
            Metric::Transactions => Some(all as f64),
            Metric::Ingress => Some(requests.received as f64),
            Metric::Egress => Some(requests.sent as f64),
            Metric::SuccessE2eLatency => millis(requests.nanos),
            Metric::SuccessServerLatency => millis(requests.nanos.saturating_sub(requests.limited_nanos)),
            Metric::Availability => (all > 0).then(|| 100.0 * (all - failed.min(&all)) as f64 / all as f64),
            _ => level.map(|level| match self.aggregation {
                Aggregation::Total => level.sum,
                Aggregation::Average => level.sum / level.count as f64,
                Aggregation::Minimum => level.min,
                Aggregation::Maximum => level.max,
                Aggregation::Count => level.count as f64,
            }),
        }
    }
}

impl Sum {
    fn add(&mut self, other: Sum) {
        self.requests.add(&other.requests);
        self.failed += other.failed;
        match (&mut self.level, other.level) {
            (Some(level), Some(other)) => level.add(&other),
            (None, other) => self.level = other,
            (Some(_), None) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(apis: &[(&str, &str, u64)]) -> Record {
        let mut record = Record::default();
        for (api, response, count) in apis {
            let requests = Requests {
                responses: [((*response).to_owned(), *count)].into(),
                received: 100 * count,
                nanos: 2_000_000 * count,
                limited_nanos: 500_000 * count,
                ..Requests::default()
            };
            record.requests.entry("Ntlm".to_owned()).or_default().entry((*api).to_owned()).or_default().add(&requests);
        }
        record
    }

    fn query(metric: Metric, filter: &str, interval: &str) -> Query {
        Query {
            metric,
            aggregation: metric.definition().aggregations[0],
            filter: if filter.is_empty() { Filter::default() } else { Filter::parse(filter).unwrap() },
            interval: Interval::of(interval).unwrap(),
            range: 0..600,
        }
    }

    fn answers(query: &Query, records: &[(i64, &str, Record)]) -> Vec<(Vec<String>, Vec<Option<f64>>)> {
        query.check().unwrap();
        let mut answer = query.begin();
        records.iter().for_each(|(begin, share, record)| answer.add(*begin, share, record));
        let of = |series: Series| {
            let values = series.of.into_iter().map(|(_, value)| value).collect();
            (values, series.points.into_iter().map(|(_, number)| number).collect())
        };
        answer.series().into_iter().map(of).collect()
    }

    #[test]
    fn transactions_are_told_apart_and_added_up() {
        let records = [
            (0, "a", record(&[("Read", "Success", 5), ("Write", "ServerBusyError", 1)])),
            (60, "b", record(&[("Read", "Success", 7)])),
            (300, "a", record(&[("Read", "Success", 1)])),
        ];
        let all = answers(&query(Metric::Transactions, "", "PT5M"), &records);
        assert_eq!(all, [(vec![], vec![Some(13.0), Some(1.0)])]);
        let by_api = answers(&query(Metric::Transactions, "ApiName eq '*'", "PT5M"), &records);
        let [read, write] = ["Read", "Write"].map(|api| vec![api.to_owned()]);
        assert_eq!(by_api, [(read, vec![Some(12.0), Some(1.0)]), (write, vec![Some(1.0), Some(0.0)])]);
        let of_share =
            answers(&query(Metric::Transactions, "FileShare eq 'b' and ResponseType eq 'Success'", "PT5M"), &records);
        assert_eq!(of_share, [(vec![], vec![Some(7.0), Some(0.0)])]);
    }

    #[test]
    fn latencies_are_means_and_nothing_where_nothing_was_done() {
        let records = [(0, "a", record(&[("Read", "Success", 3), ("Write", "ServerBusyError", 1)]))];
        let of = |metric| answers(&query(metric, "", "PT5M"), &records).remove(0).1;
        assert_eq!(of(Metric::SuccessE2eLatency), [Some(2.0), None]);
        assert_eq!(of(Metric::SuccessServerLatency), [Some(1.5), None]);
        assert_eq!(of(Metric::Availability), [Some(75.0), None]);
        assert_eq!(of(Metric::Ingress), [Some(400.0), None]);
        let waiting = [(0, "a", record(&[("ChangeNotify", "Success", 3)]))];
        let of_all = answers(&query(Metric::SuccessE2eLatency, "", "PT5M"), &waiting);
        assert_eq!(of_all[0].1, [None, None]);
        let of_one = answers(&query(Metric::SuccessE2eLatency, "ApiName eq 'ChangeNotify'", "PT5M"), &waiting);
        assert_eq!(of_one[0].1, [Some(2.0), None]);
    }

    #[test]
    fn nothing_is_told_of_a_time_or_a_share_without_records() {
        let mut of_server = Record::default();
        of_server.add_level(Metric::FileShareCount, 1.0);
        let records = [(300, "", of_server), (300, "a", record(&[("Read", "Success", 1)]))];
        for metric in [Metric::Transactions, Metric::Ingress, Metric::Egress] {
            let of = |filter| answers(&query(metric, filter, "PT5M"), &records).remove(0).1;
            assert_eq!(of("FileShare eq 'a'")[0], None);
            assert!(of("FileShare eq 'a'")[1].is_some());
            assert_eq!(of("ApiName eq 'Write'"), [None, Some(0.0)]);
            assert_eq!(of("FileShare eq 'nowhere'"), [None, None]);
        }
        let query = query(Metric::Transactions, "", "PT5M");
        let mut answer = query.begin();
        assert_eq!(answer.first(), None);
        records.iter().for_each(|(begin, share, record)| answer.add(*begin, share, record));
        assert_eq!(answer.first(), Some(300));
    }

    #[test]
    fn a_time_has_the_interval_that_it_begins_in_and_no_end_of_which_nothing_is_known() {
        let interval = Interval::of("PT5M").unwrap();
        assert_eq!(interval.whole(150..700), 0..700);
        let query =
            Query { range: interval.whole(150..700), ..query(Metric::Transactions, "ApiName eq 'Read'", "PT5M") };
        let reads = |begin| (begin, "a", record(&[("Read", "Success", 2)]));
        assert_eq!(answers(&query, &[reads(60), reads(300)]), [(vec![], vec![Some(2.0), Some(2.0)])]);
        assert_eq!(answers(&query, &[reads(600)]), [(vec![], vec![None, None, Some(2.0)])]);
    }

    #[test]
    fn levels_are_of_shares() {
        let level = |value| {
            let mut record = Record::default();
            record.add_level(Metric::FileShareMaxUsedIops, value);
            record
        };
        let records = [(0, "a", level(10.0)), (60, "a", level(30.0)), (60, "b", level(1.0))];
        let split = answers(&query(Metric::FileShareMaxUsedIops, "FileShare eq '*'", "PT5M"), &records);
        assert_eq!(split[0], (vec!["a".to_owned()], vec![Some(30.0), None]));
        assert_eq!(split.len(), 2);
    }

    #[test]
    fn what_a_metric_has_not_is_refused() {
        let refused = |query: Query| query.check().unwrap_err();
        let text = refused(query(Metric::Ingress, "ResponseType eq '*'", "PT1M"));
        assert_eq!(text, "Ingress has no dimension ResponseType; it has ApiName, Authentication, FileShare");
        let other = Query { aggregation: Aggregation::Maximum, ..query(Metric::Transactions, "", "PT1M") };
        assert_eq!(refused(other), "Transactions is not given as Maximum, but as Total");
    }
}
