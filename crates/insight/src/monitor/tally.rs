//! What an interface beside SMB was asked for: by whom, of which share, and how that ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use server::admin::ResponseType;

use crate::monitor::Record;
use crate::monitor::record::Requests;

/// A request that was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedOnce {
    /// The share it was about, which there is; empty where it was about none.
    pub share: String,
    /// What was asked for, by Azure Monitor's name (the dimension ApiName).
    pub api: &'static str,
    /// How whoever asked had proved who that is (the dimension Authentication).
    pub authentication: &'static str,
    /// How it ended.
    pub response: ResponseType,
    /// Bytes that came with it,
    pub received: u64,
    /// and those that were sent.
    pub sent: u64,
    /// How long it was in the server,
    pub took: Duration,
    /// and how long of that its client took to send it, and to take the answer.
    pub by_client: Duration,
}

/// How often each share was asked for what, and how that ended.
pub type Totals = BTreeMap<(String, &'static str, ResponseType), u64>;

/// Shares that are told apart in [`Totals`]: some are deleted, and others made, as long as the server runs.
const SHARES_MAX: usize = 1_024;
/// What stands for the others.
pub const OTHER_SHARES: &str = "*";

/// All that was asked. Of what was not taken it holds as much as there are shares, times names of what is asked for.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    /// What was not yet taken.
    records: BTreeMap<String, Record>,
    totals: Totals,
    /// The shares that are in these.
    shares: BTreeSet<String>,
}

impl Told {
    /// Under which name a share is counted in the totals.
    fn name(&mut self, share: String) -> String {
        if !self.shares.contains(&share) {
            if self.shares.len() >= SHARES_MAX {
                return OTHER_SHARES.to_owned();
            }
            self.shares.insert(share.clone());
        }
        share
    }
}

impl Tally {
    /// Counts a request.
    pub fn add(&self, asked: AskedOnce) {
        let AskedOnce { share, api, authentication, response, received, sent, took, by_client } = asked;
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let requests = Requests {
            responses: BTreeMap::from([(response.name().to_owned(), 1)]),
            received,
            sent,
            nanos: nanos(took),
            // It is none of the server's.
            limited_nanos: nanos(by_client),
        };
        let mut told = self.0.lock();
        told.records.entry(share.clone()).or_default().add_api(authentication, api, &requests);
        let share = told.name(share);
        *told.totals.entry((share, api, response)).or_default() += 1;
    }

    /// What was asked of each share since this was called last.
    pub fn take(&self) -> BTreeMap<String, Record> {
        std::mem::take(&mut self.0.lock().records)
    }

    /// What was asked since the beginning.
    pub fn totals(&self) -> Totals {
        self.0.lock().totals.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(share: &str) -> AskedOnce {
        AskedOnce {
            share: share.to_owned(),
            api: "GetFile",
            authentication: "SAS",
            response: ResponseType::Success,
            received: 1,
            sent: 10,
            took: Duration::from_micros(3),
            by_client: Duration::from_micros(1),
        }
    }

    #[test]
    fn shares_that_come_and_go_do_not_fill_it() {
        let tally = Tally::default();
        for number in 0..SHARES_MAX + 10 {
            tally.add(asked(&format!("share{number}")));
        }
        let totals = tally.totals();
        assert_eq!(totals.len(), SHARES_MAX + 1);
        assert_eq!(totals[&(OTHER_SHARES.to_owned(), "GetFile", ResponseType::Success)], 10);
    }

    #[test]
    fn what_is_taken_is_told_once_and_totals_go_on() {
        let tally = Tally::default();
        let asked = asked("docs");
        tally.add(asked.clone());
        tally.add(AskedOnce { response: ResponseType::ClientOtherError, ..asked.clone() });
        let taken = &tally.take()["docs"].requests["SAS"]["GetFile"];
        assert_eq!((taken.all(), taken.received, taken.sent), (2, 2, 20));
        assert_eq!((taken.nanos, taken.limited_nanos), (6_000, 2_000));
        tally.add(asked);
        assert_eq!(tally.take()["docs"].requests["SAS"]["GetFile"].all(), 1);
        assert!(tally.take().is_empty());
        let totals: Vec<u64> = tally.totals().into_values().collect();
        assert_eq!(totals, [2, 1]);
    }
}
