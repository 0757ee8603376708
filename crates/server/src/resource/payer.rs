//! Who pays for what one connection holds: the strangers of its network, or the user who has signed in on it first.

use std::sync::Arc;

use crate::resource::address::AddressPrefix;
use crate::resource::budget::{Budget, Charge};
use crate::resource::budgets::UserBudgets;
use crate::resource::pace::Pace;

/// Bytes of a user's budget for small things alone, at most.
const SMALL_THINGS_BYTES: u64 = 32 << 20;
/// One part in so many of a budget is for small things, where that is less.
const SMALL_THINGS_PART: u64 = 6;

/// Who pays for what a connection holds.
pub(crate) struct Payer {
    /// What all its connections may hold.
    pub(crate) whole: Arc<Budget>,
    /// What this one holds of that.
    pub(crate) own: Arc<Budget>,
    /// Small things that stayed.
    pub(crate) small: Charge,
    pub(crate) user: Option<OfUser>,
}

/// What there is for a connection on which somebody has signed in.
pub(crate) struct OfUser {
    pub(crate) budgets: Arc<UserBudgets>,
    /// Where its client is.
    pub(crate) network: AddressPrefix,
    /// What it counts for among the slow.
    slow: Charge,
}

impl Payer {
    pub(crate) fn of_strangers(whole: &Arc<Budget>) -> Self {
        let own = whole.below(u64::MAX);
        Payer { whole: Arc::clone(whole), small: own.overdraw(0), user: None, own }
    }

    pub(crate) fn of_user(budgets: &Arc<UserBudgets>, network: AddressPrefix) -> Self {
        let own = budgets.bytes.below(u64::MAX);
        let user = OfUser { budgets: Arc::clone(budgets), network, slow: budgets.slow.overdraw(0) };
        Payer { whole: Arc::clone(&budgets.bytes), small: own.overdraw(0), user: Some(user), own }
    }

    /// What much at once leaves of a user's budget.
    pub(crate) fn small_things(&self) -> u64 {
        let part = SMALL_THINGS_BYTES.min(self.whole.limit() / SMALL_THINGS_PART);
        self.user.as_ref().map_or(0, |_| part)
    }

    /// Holds `bytes` where so many are left to others then, also among the slow where it is one of them.
    pub(crate) fn charge_leaving(&mut self, pace: Pace, bytes: u64, leaving: u64) -> Option<Charge> {
        let Some(user) = self.user.as_mut().filter(|_| pace == Pace::Slow) else {
            return self.own.charge_leaving(bytes, leaving);
        };
        // Two may find the same place. To charge it and give it back would wake who waits for it, who would do the same.
        if !user.budgets.slow.has_left(bytes.saturating_add(leaving)) {
            return None;
        }
        let charge = self.own.charge_leaving(bytes, leaving)?;
        user.slow.set(self.own.used());
        Some(charge)
    }

    /// Counts it for the slow with what it holds, or no longer.
    pub(crate) fn count_among_slow(&mut self, pace: Pace) {
        let Some(user) = &mut self.user else { return };
        let bytes = if pace == Pace::Slow { self.own.used() } else { 0 };
        if user.slow.units() != bytes {
            user.slow.set(bytes);
        }
    }
}
