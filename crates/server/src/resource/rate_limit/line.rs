//! Who waits for a limit, in an order that shares it evenly among those who want more than it allows.
//!
//! Each member has a share time: what it has had of the limit. The one with the least goes next, so that who asks for one thing at a time has as
//! much as who asks for a hundred. Who has not asked for a while begins little before those who wait: nothing is saved up.

use std::collections::{BTreeMap, HashMap};

use tokio::sync::oneshot::Sender;

use super::rates::Price;

/// How far behind the others a member may begin, in nanoseconds of its share.
const BEHIND_MAX: u64 = 20_000_000;

/// Where a request stands: its share time, and a number that orders those with the same.
pub(super) type Place = (u64, u64);

/// Those who wait.
#[derive(Default)]
pub(super) struct Line {
    waiting: BTreeMap<Place, Waiting>,
    /// The share times of members that have waited since the line was empty.
    members: HashMap<u64, u64>,
    /// The share time of who left last.
    reached: u64,
    number: u64,
    /// Somebody lets those go whose time has come.
    pub(super) is_led: bool,
}

/// One request that waits.
pub(super) struct Waiting {
    pub(super) member: u64,
    /// What it counts for its member.
    pub(super) weight: u64,
    pub(super) bytes: u64,
    /// Hears what it has paid once it may go.
    pub(super) go: Sender<Price>,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Where a request of `member` would stand.
    pub(super) fn place(&mut self, member: u64) -> Place {
        let had = self.members.get(&member).copied().unwrap_or(0);
        self.number += 1;
        (had.max(self.reached.saturating_sub(BEHIND_MAX)), self.number)
    }

    /// True where nobody would go before it.
    pub(super) fn is_first(&self, place: Place) -> bool {
        self.first().is_none_or(|(first, _)| place < first)
    }

    /// Counts a request of `member` that stands, or stood, at `place`.
    pub(super) fn count(&mut self, member: u64, place: Place, price: &Price) {
        self.members.insert(member, place.0 + price.weight());
    }

    /// A request of `member` has counted so much too much.
    pub(super) fn lighten(&mut self, member: u64, weight: u64) {
        if let Some(had) = self.members.get_mut(&member) {
            *had = had.saturating_sub(weight);
        }
    }

    pub(super) fn enter(&mut self, place: Place, waiting: Waiting) {
        self.waiting.insert(place, waiting);
    }

    pub(super) fn first(&self) -> Option<(Place, &Waiting)> {
        self.waiting.first_key_value().map(|(place, waiting)| (*place, waiting))
    }

    /// Whoever stands at `place` leaves.
    pub(super) fn leave(&mut self, place: Place) -> Option<Waiting> {
        let left = self.waiting.remove(&place)?;
        if self.waiting.is_empty() {
            // Who asks next begins where all others do.
            self.members = HashMap::new();
        }
        Some(left)
    }

    /// Who stands at `place` goes.
    pub(super) fn reached(&mut self, place: Place) {
        self.reached = self.reached.max(place.0);
    }
}
