//! Shares by the names that metrics have for them, of which there are so many and no more.

use std::collections::{BTreeMap, BTreeSet};

use server::admin::{Authentication, Counts, ResponseType, Scope};

use crate::exposition::observed::{Observed, ObservedShare};
use crate::monitor::OTHER_SHARES;

/// Shares with a name of their own. The next ones count together.
pub(super) const SHARES_MAX: usize = 1_024;
/// What stands for those.
pub(super) const OTHERS: &str = OTHER_SHARES;
/// What stands for no share.
pub(super) const NONE: &str = "";

/// The names that are used. One that was used once is used as long as the server runs, so that no number goes to another name.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(BTreeSet<String>);

/// A share, with all that is told of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// What was done with it.
    pub(super) counts: Counts,
    /// What of that was done for the REST interface.
    pub(super) inside: Counts,
    /// What that was asked for, and how it ended.
    pub(super) rest: BTreeMap<(&'static str, ResponseType), u64>,
    /// What it is, where the configuration has it.
    pub(super) share: Option<ObservedShare>,
}

impl Names {
    /// The shares by name. What the counters have several rows of is added up.
    pub(super) fn rows(&mut self, observed: &Observed) -> BTreeMap<String, Row> {
        let mut rows = BTreeMap::from([(NONE.to_owned(), Row::default())]);
        for share in &observed.shares {
            if let Some(name) = self.own(&share.name) {
                rows.entry(name).or_default().share = Some(share.clone());
            }
        }
        for row in &observed.counters.rows {
            let name = match &row.scope {
                Scope::Share { name: None, .. } => NONE.to_owned(),
                Scope::Share { name: Some(share), .. } => self.own(share).unwrap_or_else(|| OTHERS.to_owned()),
                Scope::OtherShares { .. } => OTHERS.to_owned(),
                Scope::Server
                | Scope::User { .. }
                | Scope::OtherUsers
                | Scope::Client(_)
                | Scope::OtherClients
                | Scope::Session { .. }
                | Scope::Channel { .. } => continue,
            };
            let known = rows.entry(name).or_default();
            known.counts.add(&row.counts);
            if is_inside(&row.scope) {
                known.inside.add(&row.counts);
            }
        }
        for ((share, api, response), count) in &observed.rest {
            let name = match share.as_str() {
                NONE | OTHERS => share.clone(),
                share => self.own(share).unwrap_or_else(|| OTHERS.to_owned()),
            };
            *rows.entry(name).or_default().rest.entry((*api, *response)).or_default() += count;
        }
        rows
    }

    /// The name of a share, where it has one of its own.
    fn own(&mut self, share: &str) -> Option<String> {
        if !self.0.contains(share) {
            if self.0.len() >= SHARES_MAX {
                return None;
            }
            self.0.insert(share.to_owned());
        }
        Some(share.to_owned())
    }
}

/// True of what is done for the REST interface by requests of the server's own.
pub(super) fn is_inside(scope: &Scope) -> bool {
    let (Scope::Share { authentication, .. } | Scope::OtherShares { authentication }) = scope else { return false };
    *authentication == Authentication::Inside
}
