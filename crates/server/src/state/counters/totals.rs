//! What those did that are no more: the numbers of cells that have ended, as parts of the totals that they counted for.
//!
//! Whether a name has a total of its own is settled before the first request counts for it, and for good: it counts there, or with the others from the
//! first to the last. So the tables do not grow by who connects from ever new addresses, and no number goes from one total to another.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::state::counters::counts::Counts;

/// Where the requests of a name count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place<K, O = ()> {
    Named(K),
    /// With all that have no total of their own, as far as these are told apart.
    Others(O),
}

/// Totals by name, of so many names at most. A copy shares them until they change.
#[derive(Clone)]
pub(super) struct Totals<K, O = ()> {
    counts: HashMap<Place<K, O>, Arc<Counts>>,
    names: usize,
    most: usize,
}

impl<K: Hash + Eq + Clone, O: Hash + Eq + Clone> Totals<K, O> {
    pub(super) fn of_at_most(most: usize) -> Self {
        Totals { counts: HashMap::new(), names: 0, most }
    }

    /// Where requests of `name` count, which are among these others where there is no room for it.
    pub(super) fn place(&mut self, name: K, others: O) -> Place<K, O> {
        let named = Place::Named(name);
        if self.counts.contains_key(&named) {
            return named;
        }
        if self.names >= self.most {
            return Place::Others(others);
        }
        self.names += 1;
        self.counts.insert(named.clone(), Arc::default());
        named
    }

    /// Adds what was counted.
    pub(super) fn add(&mut self, place: &Place<K, O>, counts: &Counts) {
        if let Some(total) = self.counts.get_mut(place) {
            Arc::make_mut(total).add(counts);
        } else {
            self.counts.insert(place.clone(), Arc::new(counts.clone()));
        }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = (&Place<K, O>, &Arc<Counts>)> {
        self.counts.iter()
    }
}
