//! Whether something has changed while it was asked for. What is asked is counted by where its hash falls: two that fall together disturb each
//! other now and then, and nothing worse.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A power of two.
const STRIPES: usize = 4096;

/// How often, and by how many just now, things are changed.
pub(super) struct Stripes(Box<[Stripe]>);

#[derive(Default)]
struct Stripe {
    changes: AtomicU64,
    /// Changes that are under way.
    changing: AtomicU32,
}

/// Where something falls.
#[derive(Clone, Copy)]
pub(super) struct Slot(usize);

/// What was asked for before any further change.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    slot: Slot,
    changes: u64,
}

impl Slot {
    /// By a hash of it.
    pub(super) fn of(hash: u64) -> Self {
        // Upper bits: the lower ones choose its place in the tables.
        Slot((hash >> 40) as usize % STRIPES)
    }
}

impl Default for Stripes {
    fn default() -> Self {
        Stripes((0..STRIPES).map(|_| Stripe::default()).collect())
    }
}

impl Stripes {
    fn at(&self, slot: Slot) -> &Stripe {
        &self.0[slot.0]
    }

    /// To be called before something is asked for. `None` where it is just being changed.
    pub(super) fn ask(&self, slot: Slot) -> Option<Asked> {
        let stripe = self.at(slot);
        let is_still = stripe.changing.load(Ordering::SeqCst) == 0;
        is_still.then(|| Asked { slot, changes: stripe.changes.load(Ordering::SeqCst) })
    }

    /// True where what was asked for since then is what it is now. To be called with that locked which every change locks after it was noted here.
    pub(super) fn holds(&self, asked: Asked) -> bool {
        let stripe = self.at(asked.slot);
        stripe.changing.load(Ordering::SeqCst) == 0 && stripe.changes.load(Ordering::SeqCst) == asked.changes
    }

    /// Somebody else has changed it.
    pub(super) fn changed(&self, slot: Slot) {
        self.at(slot).changes.fetch_add(1, Ordering::SeqCst);
    }

    /// It is being changed until [`Stripes::end`].
    pub(super) fn begin(&self, slot: Slot) {
        self.at(slot).changing.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn end(&self, slot: Slot) {
        let stripe = self.at(slot);
        stripe.changes.fetch_add(1, Ordering::SeqCst);
        stripe.changing.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_before_a_change_or_during_it_does_not_hold() {
        let stripes = Stripes::default();
        let (slot, other) = (Slot::of(1 << 40), Slot::of(2 << 40));
        let before = stripes.ask(slot).unwrap();
        assert!(stripes.holds(before));
        stripes.begin(slot);
        assert!(stripes.ask(slot).is_none() && !stripes.holds(before));
        assert!(stripes.ask(other).is_some_and(|asked| stripes.holds(asked)));
        stripes.end(slot);
        assert!(!stripes.holds(before));
        let after = stripes.ask(slot).unwrap();
        assert!(stripes.holds(after));
        stripes.changed(slot);
        assert!(!stripes.holds(after));
    }
}
