//! What those did that are no more: the numbers of cells that have ended, as parts of the totals that they counted for. A name whose place is not
//! there any more counts with the others, so that whoever connects from ever new addresses does not make the tables grow.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::state::counters::counts::Counts;

/// Totals by name, of so many at most. A copy shares them until they change.
#[derive(Clone)]
pub(super) struct Totals<K> {
    named: HashMap<K, Arc<Counts>>,
    most: usize,
    others: Arc<Counts>,
}

impl<K: Hash + Eq + Clone> Totals<K> {
    pub(super) fn of_at_most(most: usize) -> Self {
        Totals { named: HashMap::new(), most, others: Arc::default() }
    }

    /// Adds what was counted for `name`.
    pub(super) fn add(&mut self, name: &K, counts: &Counts) {
        let has_place = self.named.len() < self.most || self.named.contains_key(name);
        let total = if has_place { self.named.entry(name.clone()).or_default() } else { &mut self.others };
        Arc::make_mut(total).add(counts);
    }

    /// Those with a place of their own.
    pub(super) fn named(&self) -> impl Iterator<Item = (&K, &Arc<Counts>)> {
        self.named.iter()
    }

    /// The sum of all others.
    pub(super) fn others(&self) -> &Arc<Counts> {
        &self.others
    }
}
