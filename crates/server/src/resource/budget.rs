//! What peers make the server hold is charged to a budget before it is held, and given back when it is let go. A budget stands below
//! others (a connection's below its user's, that below the server's): a charge is taken from all of them or from none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::Waker;

use parking_lot::Mutex;
use tokio::time::Instant;

/// How many of those who wait are woken when something was given back. Each that gets what it waits for wakes others when it gives that
/// back; all at once would be a crowd of which most find nothing.
const WOKEN_AT_ONCE: usize = 8;

/// A number of units that may be held at a time: bytes, or things.
pub(crate) struct Budget {
    limit: u64,
    used: AtomicU64,
    /// Units that are held above as long as this budget is there, whether or not they are used.
    prepaid: u64,
    sharing: Sharing,
    above: Option<Arc<Budget>>,
    /// One that has no part in `above` and is charged as well.
    beside: Option<Arc<Budget>>,
    waiting: AtomicUsize,
    /// Since when they wait, and by what they differ who wait since then.
    waiters: Mutex<BTreeMap<(Instant, usize), Weak<Waiter>>>,
}

/// When who takes much here leaves above as much as is used here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Never,
    /// Where it is asked to leave something.
    WhereAsked,
    Always,
}

/// Somebody who may wait for a budget. It stands in one queue at a time.
#[derive(Default)]
pub(crate) struct Waiter {
    waker: Mutex<Option<Waker>>,
    queued: AtomicBool,
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
        Arc::new(Budget::made(limit, 0, None, None))
    }

    /// A budget of `limit` units, each of which is charged to this one, too.
    pub(crate) fn below(self: &Arc<Self>, limit: u64) -> Arc<Self> {
        Arc::new(Budget::made(limit, 0, Some(Arc::clone(self)), None))
    }

    /// The same for one of several who are to share this one: where something is to be left to others, that is above at least as much as is used
    /// here. `prepaid` units are held above from the start, whatever the limit there: they never lack.
    pub(crate) fn share(self: &Arc<Self>, limit: u64, prepaid: u64) -> Arc<Self> {
        self.take_anyway(prepaid);
        let mut made = Budget::made(limit, prepaid, Some(Arc::clone(self)), None);
        made.sharing = Sharing::WhereAsked;
        Arc::new(made)
    }

    /// The same where that much is always left to others, and nothing is prepaid.
    pub(crate) fn even_share(self: &Arc<Self>, limit: u64) -> Arc<Self> {
        let mut made = Budget::made(limit, 0, Some(Arc::clone(self)), None);
        made.sharing = Sharing::Always;
        Arc::new(made)
    }

    /// A budget of `limit` units, each of which is charged to this one and to `beside`.
    pub(crate) fn below_both(self: &Arc<Self>, beside: &Arc<Self>, limit: u64) -> Arc<Self> {
        Arc::new(Budget::made(limit, 0, Some(Arc::clone(self)), Some(Arc::clone(beside))))
    }

    fn made(limit: u64, prepaid: u64, above: Option<Arc<Budget>>, beside: Option<Arc<Budget>>) -> Self {
        let (waiting, waiters) = (AtomicUsize::new(0), Mutex::default());
        Budget { limit, used: AtomicU64::new(0), prepaid, sharing: Sharing::Never, above, beside, waiting, waiters }
    }

    /// Holds `units`; `None` where this budget or one above it has not so many left.
    pub(crate) fn charge(self: &Arc<Self>, units: u64) -> Option<Charge> {
        self.charge_leaving(units, 0)
    }

    /// Holds `units` where at least `leaving` are left for others then, here and above.
    pub(crate) fn charge_leaving(self: &Arc<Self>, units: u64, leaving: u64) -> Option<Charge> {
        self.take(units, leaving).then(|| Charge { budget: Arc::clone(self), units })
    }

    /// Holds `units`, whatever the limit: for what is held already.
    pub(crate) fn overdraw(self: &Arc<Self>, units: u64) -> Charge {
        self.take_anyway(units);
        Charge { budget: Arc::clone(self), units }
    }

    /// True where so many are left, here and above.
    pub(crate) fn has_left(&self, units: u64) -> bool {
        let used = self.used();
        let here = used.checked_add(units).is_some_and(|sum| sum <= self.limit);
        let more = self.not_prepaid(used, units);
        here && (more == 0 || self.above.as_ref().is_none_or(|above| above.has_left(more)))
    }

    /// True where it is above this one that not so many are left besides `leaving`.
    pub(crate) fn lacks_above(&self, units: u64, leaving: u64) -> bool {
        let used = self.used();
        let here = used.saturating_add(units).saturating_add(leaving) <= self.limit;
        let more = units.saturating_add(self.leaving_above(used, leaving));
        here && self.above.as_ref().is_some_and(|above| !above.has_left(more))
    }

    /// What is to be left above where that much is to be left here.
    fn leaving_above(&self, used: u64, leaving: u64) -> u64 {
        match self.sharing {
            Sharing::Never => leaving,
            Sharing::WhereAsked if leaving == 0 => 0,
            Sharing::WhereAsked | Sharing::Always => leaving.max(used),
        }
    }

    /// Wakes `waker`, which waits `since` then, when something was given back here. What is waited for may have been given back just before: look
    /// again. Who has waited for longest is woken first, and does not lose its place where it finds too little.
    pub(crate) fn wait(&self, waiter: &Arc<Waiter>, since: Instant, waker: &Waker) {
        let mut known = waiter.waker.lock();
        if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
            *known = Some(waker.clone());
        }
        drop(known);
        if !waiter.queued.swap(true, Ordering::SeqCst) {
            let mut waiters = self.waiters.lock();
            waiters.insert((since, Arc::as_ptr(waiter) as usize), Arc::downgrade(waiter));
            self.waiting.store(waiters.len(), Ordering::SeqCst);
        }
    }

    /// The most that may be held.
    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    /// Units held now.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, units: u64, leaving: u64) -> bool {
        let most = self.limit.saturating_sub(leaving);
        let fits = |used: u64| used.checked_add(units).filter(|sum| *sum <= most);
        // Only the sum counts, and nothing else is read or written by it: no order is needed.
        let Ok(before) = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) else { return false };
        if self.beside.as_ref().is_some_and(|beside| !beside.take(units, leaving)) {
            self.undo(units, self.not_prepaid(before, units));
            return false;
        }
        let Some(above) = &self.above else { return true };
        let more = self.not_prepaid(before, units);
        if more == 0 || above.take(more, self.leaving_above(before, leaving)) {
            return true;
        }
        self.undo(units, more);
        if let Some(beside) = &self.beside {
            beside.give_back(units);
        }
        false
    }

    /// Uses `units` less, of which `more` should have been held above and are not.
    fn undo(&self, units: u64, more: u64) {
        // What others took and gave back meanwhile may have moved what is prepaid: the sum above is to fit again.
        let less = self.take_off(units, Ordering::Relaxed);
        if let Some(above) = self.above.as_ref().filter(|_| self.prepaid > 0) {
            above.take_anyway(more.saturating_sub(less));
            above.give_back(less.saturating_sub(more));
        }
    }

    fn take_anyway(&self, units: u64) {
        let before = self.used.fetch_add(units, Ordering::Relaxed);
        if let Some(above) = &self.above {
            above.take_anyway(self.not_prepaid(before, units));
        }
        if let Some(beside) = &self.beside {
            beside.take_anyway(units);
        }
    }

    fn give_back(&self, units: u64) {
        // Ordered with the look at who waits: who came before it is woken, who comes after it sees what was given back.
        let less = self.take_off(units, Ordering::SeqCst);
        if units > 0 && self.waiting.load(Ordering::SeqCst) > 0 {
            self.wake_some();
        }
        if let Some(above) = &self.above {
            above.give_back(less);
        }
        if let Some(beside) = &self.beside {
            beside.give_back(units);
        }
    }

    /// Uses `units` less; gives how many less that are above.
    fn take_off(&self, units: u64, order: Ordering) -> u64 {
        let before = self.used.fetch_sub(units, order);
        self.not_prepaid(before - units, units)
    }

    /// How many of `units` are held above that come on top of `used`.
    fn not_prepaid(&self, used: u64, units: u64) -> u64 {
        (used + units).saturating_sub(self.prepaid) - used.saturating_sub(self.prepaid)
    }

    fn wake_some(&self) {
        let mut waiters = self.waiters.lock();
        let mut woken = 0;
        while woken < WOKEN_AT_ONCE
            && let Some((_, waiter)) = waiters.pop_first()
        {
            let Some(waiter) = waiter.upgrade() else { continue };
            waiter.queued.store(false, Ordering::SeqCst);
            if let Some(waker) = waiter.waker.lock().take() {
                waker.wake();
            }
            woken += 1;
        }
        self.waiting.store(waiters.len(), Ordering::SeqCst);
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        if let Some(above) = &self.above {
            above.give_back(self.prepaid);
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
        let taken = self.budget.take(units, 0);
        self.units += if taken { units } else { 0 };
        taken
    }

    /// Holds just `units`, whatever the limit: for what is held already.
    pub(crate) fn set(&mut self, units: u64) {
        self.shrink_to(units);
        self.budget.take_anyway(units - self.units);
        self.units = units;
    }

    /// A part of it that is given back by itself; none where fewer are held.
    pub(crate) fn split(&mut self, units: u64) -> Option<Charge> {
        self.units = self.units.checked_sub(units)?;
        Some(Charge { budget: Arc::clone(&self.budget), units })
    }

    /// Gives back all but `units`, where more are held.
    pub(crate) fn shrink_to(&mut self, units: u64) {
        let surplus = self.units.saturating_sub(units);
        if surplus > 0 {
            self.budget.give_back(surplus);
        }
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
    fn a_part_of_a_charge_is_given_back_by_itself() {
        let budget = Budget::new(10);
        let mut whole = budget.charge(8).unwrap();
        let part = whole.split(5).unwrap();
        assert_eq!((whole.units(), part.units(), budget.used()), (3, 5, 8));
        assert!(whole.split(4).is_none());
        drop(whole);
        assert_eq!(budget.used(), 5);
        drop(part);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_prepaid_never_lacks_and_is_held_as_long_as_the_budget_is_there() {
        let server = Budget::new(10);
        let (one, other) = (server.share(u64::MAX, 4), server.share(u64::MAX, 4));
        assert_eq!(server.used(), 8);
        let all = server.charge(2).unwrap();
        let mut first = one.charge(3).unwrap();
        assert!(!first.grow(2) && first.grow(1));
        drop(all);
        assert!(first.grow(2));
        assert_eq!((server.used(), one.used()), (10, 6));
        let second = other.charge(4).unwrap();
        assert!(other.charge(1).is_none());
        assert_eq!((server.used(), other.used()), (10, 4));
        drop(first);
        assert_eq!(server.used(), 8);
        drop((one, other));
        assert_eq!(server.used(), 4, "a charge keeps its budget");
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
        charge.set(12);
        assert_eq!((budget.used(), budget.has_left(0)), (12, false), "what is held is counted, whatever the limit");
        charge.set(1);
        assert_eq!(budget.used(), 1);
    }

    #[test]
    fn who_takes_much_leaves_something_to_others() {
        let user = Budget::new(10);
        let one = user.below(u64::MAX);
        let held = one.charge_leaving(6, 4).unwrap();
        assert!(one.charge_leaving(1, 4).is_none());
        assert!(user.has_left(4) && !user.has_left(5));
        drop(held);
        assert_eq!(user.used(), 0);
    }

    #[test]
    fn who_shares_leaves_to_others_what_it_has_itself() {
        let server = Budget::new(100);
        let users = [(); 3].map(|()| server.share(80, 1));
        let held: Vec<Vec<_>> =
            users.iter().map(|user| std::iter::from_fn(|| user.charge_leaving(5, 5)).collect()).collect();
        let used: Vec<u64> = users.iter().map(|user| user.used()).collect();
        assert!(used[0] <= 55 && used[1] >= 20 && used[2] >= 10, "{used:?}");
        let small = users[0].charge(5);
        assert!(small.is_some(), "what is not much leaves nothing");
        drop((held, small));
        assert_eq!(server.used(), 3);
    }

    #[test]
    fn what_may_last_leaves_something_to_the_rest_here_and_above() {
        let server = Budget::new(20);
        let (one, other) = (server.share(16, 2), server.share(16, 2));
        let of_all = Budget::new(12);
        let (lasting, of_other) = (one.below_both(&of_all, 10), other.below_both(&of_all, 10));
        let mut held = lasting.charge(10).unwrap();
        assert!(!held.grow(1) && one.has_left(6) && !one.has_left(7));
        assert!(of_other.charge(3).is_none());
        drop(of_other.charge(2).unwrap());
        assert_eq!((of_all.used(), other.used(), server.used()), (10, 0, 12));
        let rest = other.charge(10).unwrap();
        assert_eq!(server.used(), 20);
        assert!(!one.has_left(1) && !other.has_left(1) && of_other.charge(1).is_none());
        assert_eq!(of_all.used(), 10);
        let newcomer = server.share(16, 2);
        assert!(newcomer.has_left(2) && !newcomer.has_left(3), "what is prepaid is there, whatever others hold");
        drop((rest, held));
        assert_eq!((server.used(), of_all.used()), (6, 0));
    }

    struct Told(AtomicUsize);

    impl std::task::Wake for Told {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn who_has_waited_for_longest_is_woken_first() {
        let budget = Budget::new(10);
        let began = Instant::now();
        let mut charge = budget.charge(10).unwrap();
        let told: Vec<_> =
            (0..WOKEN_AT_ONCE as u64 * 2).map(|age| (age, Arc::new(Told(AtomicUsize::new(0))))).collect();
        let waiters: Vec<_> = told.iter().map(|_| Arc::new(Waiter::default())).collect();
        for ((age, told), waiter) in told.iter().zip(&waiters) {
            budget.wait(waiter, began - std::time::Duration::from_secs(*age), &Waker::from(Arc::clone(told)));
        }
        charge.shrink_to(9);
        let woken = |(age, told): &(u64, Arc<Told>)| (told.0.load(Ordering::SeqCst) > 0).then_some(*age);
        let woken: Vec<u64> = told.iter().filter_map(woken).collect();
        assert_eq!(woken, (WOKEN_AT_ONCE as u64..WOKEN_AT_ONCE as u64 * 2).collect::<Vec<_>>());
    }

    #[test]
    fn who_waits_is_woken_a_few_at_a_time_and_who_is_gone_is_passed_over() {
        let budget = Budget::new(10);
        let told = Arc::new(Told(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&told));
        let mut charge = budget.charge(10).unwrap();
        let waiters: Vec<_> = (0..WOKEN_AT_ONCE + 2).map(|_| Arc::new(Waiter::default())).collect();
        let gone: Vec<_> = (0..5).map(|_| Arc::new(Waiter::default())).collect();
        for waiter in gone.iter().chain(&waiters).chain(&waiters) {
            budget.wait(waiter, Instant::now(), &waker);
        }
        drop(gone);
        charge.shrink_to(9);
        assert_eq!(told.0.load(Ordering::SeqCst), WOKEN_AT_ONCE);
        charge.shrink_to(8);
        charge.shrink_to(7);
        assert_eq!(told.0.load(Ordering::SeqCst), waiters.len());
    }
}
