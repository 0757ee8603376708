//! One rate's account: a number that says when all that was taken is paid for.

use std::sync::atomic::{AtomicU64, Ordering};

/// What was not used is kept for so long, so that who wakes late makes up for it.
const KEPT: u64 = 25_000_000;

/// Counts in nanoseconds since the limit began.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    paid_at: AtomicU64,
}

impl Bucket {
    /// Takes `cost` where all that was taken before is paid for by `by`. What costs nothing is not limited.
    pub(super) fn take(&self, now: u64, by: u64, cost: u64) -> bool {
        if cost == 0 {
            return true;
        }
        let next = |at: u64| (at <= by).then(|| at.max(now.saturating_sub(KEPT)) + cost);
        self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }

    pub(super) fn give_back(&self, cost: u64) {
        let next = |at: u64| Some(at.saturating_sub(cost));
        let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// What costs `after` now cost `before` when it was taken. No more than `owed_max` nanoseconds are owed from now on.
    pub(super) fn recount(&self, now: u64, before: u64, after: u64, owed_max: u64) {
        let next = |at: u64| {
            let owed = u128::from(at.checked_sub(now)?);
            let counted = (owed * u128::from(after)).checked_div(u128::from(before)).unwrap_or(0);
            Some(now.saturating_add(u64::try_from(counted).unwrap_or(u64::MAX).min(owed_max)))
        };
        let _ = self.paid_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    /// When all that was taken is paid for.
    pub(super) fn paid_at(&self) -> u64 {
        self.paid_at.load(Ordering::Relaxed)
    }

    /// What is to be paid for, in nanoseconds.
    pub(super) fn debt(&self, now: u64) -> u64 {
        self.paid_at().saturating_sub(now)
    }
}
