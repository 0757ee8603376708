//! What peers make the server hold is charged to a budget before it is held, and given back when it is let go. A budget stands below
//! others (a connection's below its user's, that below the server's): a charge is taken from all of them or from none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number of units that may be held at a time: bytes, or things.
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
    above: Option<Arc<Budget>>,
}

/// Units that are held. They go back when it is dropped.
#[must_use]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    units: u64,
}

impl Budget {
    /// A budget of `limit` units below no other.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Budget { limit, used: AtomicU64::new(0), above: None })
    }

    /// A budget of `limit` units, each of which is charged to this one, too.
    pub(crate) fn below(self: &Arc<Self>, limit: u64) -> Arc<Self> {
        Arc::new(Budget { limit, used: AtomicU64::new(0), above: Some(Arc::clone(self)) })
    }

    /// Holds `units`; `None` where this budget or one above it has not so many left.
    pub(crate) fn charge(self: &Arc<Self>, units: u64) -> Option<Charge> {
        self.take(units).then(|| Charge { budget: Arc::clone(self), units })
    }

    /// Units held now.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, units: u64) -> bool {
        let fits = |used: u64| used.checked_add(units).filter(|sum| *sum <= self.limit);
        // Only the sum counts, and nothing else is read or written by it: no order is needed.
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            return false;
        }
        let taken = self.above.as_ref().is_none_or(|above| above.take(units));
        if !taken {
            self.used.fetch_sub(units, Ordering::Relaxed);
        }
        taken
    }

    fn give_back(&self, units: u64) {
        self.used.fetch_sub(units, Ordering::Relaxed);
        if let Some(above) = &self.above {
            above.give_back(units);
        }
    }
}

impl Charge {
    /// Units held.
    pub(crate) fn units(&self) -> u64 {
        self.units
    }

    /// Holds `units` more; false, and nothing is changed, where there are not so many left.
    #[must_use]
    pub(crate) fn grow(&mut self, units: u64) -> bool {
        let taken = self.budget.take(units);
        self.units += if taken { units } else { 0 };
        taken
    }

    /// Gives back all but `units`, where more are held.
    pub(crate) fn shrink_to(&mut self, units: u64) {
        let surplus = self.units.saturating_sub(units);
        self.budget.give_back(surplus);
        self.units -= surplus;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give_back(self.units);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_taken_from_all_above_or_from_none() {
        let server = Budget::new(10);
        let (one, other) = (server.below(8), server.below(8));
        let first = one.charge(8).unwrap();
        assert!(one.charge(1).is_none());
        assert!(other.charge(3).is_none());
        assert_eq!((server.used(), one.used(), other.used()), (8, 8, 0));
        let second = other.charge(2).unwrap();
        drop(first);
        assert_eq!((server.used(), one.used(), other.used()), (2, 0, 2));
        drop(second);
        assert_eq!(server.used(), 0);
    }

    #[test]
    fn a_charge_grows_within_the_budget_and_shrinks() {
        let budget = Budget::new(10);
        let mut charge = budget.charge(4).unwrap();
        assert!(charge.grow(6) && !charge.grow(1));
        charge.shrink_to(3);
        assert_eq!((charge.units(), budget.used()), (3, 3));
        charge.shrink_to(7);
        assert_eq!(charge.units(), 3);
        assert!(budget.charge(u64::MAX).is_none());
    }
}
