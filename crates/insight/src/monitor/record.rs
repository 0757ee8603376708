//! What one share's requests came to in a minute or an hour, in the form that is kept. Names and not numbers stand for APIs and responses, so that what an older version
//! has written can be read.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use server::admin::{Api, Counts, ResponseType, Sum};

use crate::monitor::metric::Metric;

/// The numbers of a share, or of the requests to none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// By how their users had proved who they are, then by API.
    #[serde(default)]
    pub(crate) requests: BTreeMap<String, BTreeMap<String, Requests>>,
    /// What was measured now and then, by the metric's name.
    #[serde(default)]
    pub(crate) levels: BTreeMap<String, Level>,
}

/// What requests of one API came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Requests {
    /// How many ended in which way.
    pub(crate) responses: BTreeMap<String, u64>,
    pub(crate) received: u64,
    pub(crate) sent: u64,
    /// How long they were in the server,
    pub(crate) nanos: u64,
    /// and how long of that they have waited for limits, or for their clients.
    pub(crate) limited_nanos: u64,
}

/// Something that was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Level {
    pub(crate) sum: f64,
    pub(crate) count: u64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Level {
    pub(crate) fn of(value: f64) -> Self {
        Level { sum: value, count: 1, min: value, max: value }
    }

    pub(crate) fn add(&mut self, other: &Level) {
        self.sum += other.sum;
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

impl Requests {
    pub(crate) fn all(&self) -> u64 {
        self.responses.values().sum()
    }

    fn of(counts: &Counts, api: Api) -> Self {
        let responses = ResponseType::ALL.iter().map(|of| (of.name().to_owned(), counts.requests(api, *of)));
        Requests {
            responses: responses.filter(|(_, requests)| *requests > 0).collect(),
            received: counts.sum(api, Sum::ReceivedBytes),
            sent: counts.sum(api, Sum::SentBytes),
            nanos: counts.sum(api, Sum::TotalNanos),
            limited_nanos: counts.sum(api, Sum::BudgetNanos),
        }
    }

    pub(crate) fn add(&mut self, other: &Requests) {
        for (response, requests) in &other.responses {
            let sum = self.responses.entry(response.clone()).or_default();
            *sum = sum.saturating_add(*requests);
        }
        let Requests { received, sent, nanos, limited_nanos, .. } = self;
        for (sum, more) in
            [(received, other.received), (sent, other.sent), (nanos, other.nanos), (limited_nanos, other.limited_nanos)]
        {
            *sum = sum.saturating_add(more);
        }
    }
}

impl Record {
    /// Adds what requests came to whose users had proved in this way who they are.
    pub fn add_requests(&mut self, authentication: &str, counts: &Counts) {
        for api in Api::ALL {
            let requests = Requests::of(counts, *api);
            if requests != Requests::default() {
                self.add_api(authentication, api.name(), &requests);
            }
        }
    }

    /// Adds what was asked for by this name.
    pub(crate) fn add_api(&mut self, authentication: &str, api: &str, requests: &Requests) {
        let of_proof = self.requests.entry(authentication.to_owned()).or_default();
        of_proof.entry(api.to_owned()).or_default().add(requests);
    }

    /// Notes what was measured.
    pub fn add_level(&mut self, metric: Metric, value: f64) {
        self.add_level_of(metric.definition().name, &Level::of(value));
    }

    /// Notes how much the share was used in a time that has `passed`, which is known when all its requests were added.
    pub fn add_use(&mut self, counts: &Counts, passed: Duration) {
        let seconds = passed.as_secs_f64().max(1.0);
        let bytes = counts.total(Sum::ReadBytes).saturating_add(counts.total(Sum::WrittenBytes));
        self.add_level(Metric::FileShareMaxUsedIops, counts.all_requests() as f64 / seconds);
        self.add_level(Metric::FileShareMaxUsedBandwidth, bytes as f64 / f64::from(1 << 20) / seconds);
    }

    fn add_level_of(&mut self, name: &str, level: &Level) {
        match self.levels.get_mut(name) {
            Some(known) => known.add(level),
            None => _ = self.levels.insert(name.to_owned(), *level),
        }
    }

    /// Adds what another time had.
    pub fn add(&mut self, other: &Record) {
        for (authentication, apis) in &other.requests {
            let of_proof = self.requests.entry(authentication.clone()).or_default();
            for (api, requests) in apis {
                of_proof.entry(api.clone()).or_default().add(requests);
            }
        }
        other.levels.iter().for_each(|(name, level)| self.add_level_of(name, level));
    }

    /// True where nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty() && self.levels.is_empty()
    }
}
