//! What one connection may make the server hold: bytes that came in and wait to be executed, answers that are being made, and answers
//! that wait for their client to take them. All of it is charged to who has signed in on the connection first, before that to all
//! strangers of its network.
//!
//! - Much at once (a buffer of more than [`SMALL_BYTES`], an answer of more than [`ANSWER_BYTES_SMALL`]) is charged before it is there,
//!   and what does not fit waits. A connection leaves to others of its user as much as it holds itself: one that takes no answers ends
//!   up with half of what there is, ten with a tenth each, and there is always something left for the next.
//! - Large frames that arrive slowly have a part of their own, so that however many begin they leave room to the quick, and to answers.
//! - Who has waited for memory for [`INSISTS_AFTER`] goes on, whatever others hold: one of a user's connections at a time. Each of those
//!   that wait may hold what it has received, and all of it together be what they wait for.
//! - Small things are charged when they stay: what was answered and sent at once costs no charge. They may use the last part of a
//!   budget, which much at once leaves alone. A connection whose user has nothing left executes nothing until something was given back;
//!   one that holds more than that part has to leave others as much as it holds above.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use crate::budget::{Budget, Charge, Waiter};
use crate::budgets::UserBudgets;
use crate::buffers::SMALL_BYTES;

/// An answer that may be as large as this is made without a charge.
pub(crate) const ANSWER_BYTES_SMALL: usize = 64 << 10;
/// What one batch may come to hold without a charge, at most: what came in, and what answers it.
const BATCH_BYTES: u64 = 3 * SMALL_BYTES as u64;
/// Bytes of a user's budget for small things alone, at most.
const SMALL_THINGS_BYTES: u64 = 32 << 20;
/// One part in so many of a budget is for small things, where that is less.
const SMALL_THINGS_PART: u64 = 6;

/// How long somebody waits for what others hold before it may have more than there is.
const INSISTS_AFTER: Duration = Duration::from_secs(1);

/// A connection's part of a budget.
pub(crate) struct Allowance {
    payer: RefCell<Payer>,
    is_user: Cell<bool>,
    waiter: Arc<Waiter>,
    /// Since when it waits.
    waits_since: Cell<Option<Instant>>,
    /// What is held for a batch that there was nothing left for.
    batch: RefCell<Option<Charge>>,
}

/// How fast a large frame arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    Quick,
    Slow,
}

struct Payer {
    whole: Arc<Budget>,
    /// The user's, for what lasts, which is part of the whole.
    lasting: Option<Arc<Budget>>,
    own: Arc<Budget>,
    /// For what arrives slowly.
    slow: Arc<Budget>,
    /// Small things that stayed.
    small: Charge,
}

impl Payer {
    fn of_strangers(whole: &Arc<Budget>) -> Self {
        let own = whole.below(u64::MAX);
        Payer { whole: Arc::clone(whole), lasting: None, small: own.overdraw(0), slow: Arc::clone(&own), own }
    }

    fn of_user(user: &UserBudgets) -> Self {
        let own = user.bytes.below(u64::MAX);
        let slow = own.below_both(&user.slow, u64::MAX);
        Payer {
            whole: Arc::clone(&user.bytes),
            lasting: Some(Arc::clone(&user.lasting)),
            small: own.overdraw(0),
            slow,
            own,
        }
    }

    fn of(&self, pace: Pace) -> &Arc<Budget> {
        match pace {
            Pace::Quick => &self.own,
            Pace::Slow => &self.slow,
        }
    }

    /// What much at once leaves of a user's budget.
    fn small_things(&self) -> u64 {
        let part = SMALL_THINGS_BYTES.min(self.whole.limit() / SMALL_THINGS_PART);
        self.lasting.as_ref().map_or(0, |_| part)
    }
}

impl Allowance {
    /// That of a connection on which nobody has signed in: `strangers` pays, for its network or for all of them.
    pub(crate) fn new(strangers: &Arc<Budget>) -> Self {
        let payer = RefCell::new(Payer::of_strangers(strangers));
        let (waits_since, batch) = (Cell::new(None), RefCell::new(None));
        Allowance { payer, is_user: Cell::new(false), waiter: Arc::default(), waits_since, batch }
    }

    /// Somebody has signed in: the first one pays from now on.
    pub(crate) fn sign_in(&self, user: &UserBudgets) {
        if self.is_user.replace(true) {
            return;
        }
        let mut payer = Payer::of_user(user);
        payer.small.set(self.payer.borrow().small.units());
        *self.payer.borrow_mut() = payer;
    }

    /// What pays: the budget of the connection's network, or that of who signed in first, also when that session has ended.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.payer.borrow().whole)
    }

    /// Holds `bytes`, which are much at once; `None` where they do not fit.
    pub(crate) fn charge(&self, bytes: usize) -> Option<Charge> {
        self.charge_at(Pace::Quick, bytes).or_else(|| self.insist(bytes))
    }

    /// The same for what arrives, which who arrives slowly cannot insist on: it would keep others waiting for its client.
    pub(crate) fn charge_to_receive(&self, pace: Pace, bytes: usize) -> Option<Charge> {
        match pace {
            Pace::Quick => self.charge(bytes),
            Pace::Slow => self.charge_at(pace, bytes),
        }
    }

    fn charge_at(&self, pace: Pace, bytes: usize) -> Option<Charge> {
        let payer = self.payer.borrow();
        let leaving = if self.is_user.get() { payer.small_things() + payer.own.used() } else { 0 };
        payer.of(pace).charge_leaving(bytes as u64, leaving)
    }

    /// Holds `bytes`, whatever there is, for a user's connection that has waited long.
    fn insist(&self, bytes: usize) -> Option<Charge> {
        let has_waited = self.waits_since.get().is_some_and(|since| since.elapsed() >= INSISTS_AFTER);
        if !has_waited || !self.is_user.get() {
            return None;
        }
        // What it insisted on for a batch counts as a small thing from now on.
        drop(self.batch.take());
        let payer = self.payer.borrow();
        let beyond = payer.whole.beyond(bytes as u64)?;
        Some(payer.own.overdraw(bytes as u64).with(beyond))
    }

    /// True where so much could not be held if nothing else were but what lasts.
    pub(crate) fn is_too_much(&self, bytes: usize) -> bool {
        let payer = self.payer.borrow();
        let lasting = payer.lasting.as_ref().map_or(0, |lasting| lasting.used());
        (bytes as u64).saturating_add(payer.small_things() + lasting) > payer.whole.limit()
    }

    /// Holds, as [`Allowance::charge_to_receive`], more of what has begun: of those who all have a part of what they need, one at a time gets the
    /// rest, whatever the others hold, so that they do not wait for each other.
    pub(crate) fn charge_rest(&self, pace: Pace, bytes: usize) -> Option<Charge> {
        let of_reserve = || {
            let payer = self.payer.borrow();
            payer.of(pace).charge_leaving(bytes as u64, payer.small_things() / 2)
        };
        self.charge_at(pace, bytes).or_else(of_reserve).or_else(|| match pace {
            Pace::Quick => self.insist(bytes),
            Pace::Slow => None,
        })
    }

    /// Holds `bytes` that are there already.
    pub(crate) fn overdraw(&self, bytes: usize) -> Charge {
        self.payer.borrow().own.overdraw(bytes as u64)
    }

    /// True where another batch may be executed.
    pub(crate) fn has_left(&self) -> bool {
        self.has_batch_left() || self.batch.borrow().is_some() || {
            let insisted = self.insist(BATCH_BYTES as usize);
            self.batch.replace(insisted);
            self.batch.borrow().is_some()
        }
    }

    fn has_batch_left(&self) -> bool {
        let payer = self.payer.borrow();
        !self.is_user.get() || payer.whole.has_left(BATCH_BYTES + payer.own.used().saturating_sub(payer.small_things()))
    }

    /// Nothing of a batch is left to be done or sent.
    pub(crate) fn end_batch(&self) {
        drop(self.batch.take());
    }

    /// Wakes `waker` when somebody gave something back. It may have been given back just before: look again.
    pub(crate) fn wait(&self, waker: &Waker) {
        self.waits_since.set(self.waits_since.get().or_else(|| Some(Instant::now())));
        self.payer.borrow().whole.wait(&self.waiter, waker);
    }

    /// What was waited for is there.
    pub(crate) fn went_on(&self) {
        self.waits_since.set(None);
    }

    /// Notes how much of small things stays. False where strangers hold more than they may.
    #[must_use]
    pub(crate) fn settle(&self, bytes: usize) -> bool {
        let small = &mut self.payer.borrow_mut().small;
        let (before, now) = (small.units(), bytes as u64);
        if before == now {
            return true;
        }
        if now > before && !self.is_user.get() {
            return small.grow(now - before);
        }
        small.set(now);
        true
    }

    /// Bytes that the connection holds.
    #[cfg(test)]
    pub(crate) fn used(&self) -> u64 {
        self.payer.borrow().own.used()
    }
}

#[cfg(test)]
mod tests {
    use wire::security::Sid;

    use super::*;
    use crate::budgets::Budgets;

    const ANSWER: usize = 8 << 20;

    fn hold_all(allowance: &Allowance) -> Vec<Charge> {
        std::iter::from_fn(|| allowance.charge(ANSWER)).collect()
    }

    #[test]
    fn one_connection_leaves_as_much_as_it_holds_to_the_others_of_its_user() {
        let budgets = Budgets::new(Default::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let [first, second, third] = [(); 3].map(|()| {
            let allowance = Allowance::new(budgets.strangers());
            allowance.sign_in(&user);
            allowance
        });
        let held = hold_all(&first);
        assert!(held.len() >= 8, "{} answers", held.len());
        let others = hold_all(&second);
        assert!(others.len() >= 4, "{} answers", others.len());
        assert!(third.charge(ANSWER).is_some() && third.has_left());
        drop((held, others));
        assert_eq!(user.bytes.used(), 0);
    }

    #[test]
    fn small_things_stay_possible_when_much_at_once_is_not() {
        let budgets = Budgets::new(Default::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let many: Vec<_> = (0..1_000).map(|_| Allowance::new(budgets.strangers())).collect();
        many.iter().for_each(|allowance| allowance.sign_in(&user));
        let held: Vec<_> = many.iter().flat_map(|allowance| allowance.charge(ANSWER)).collect();
        assert!(held.len() < 21, "{} answers", held.len());
        let mut settled = 0;
        for allowance in many.iter().filter(|allowance| allowance.has_left()) {
            assert!(allowance.settle(2 * SMALL_BYTES));
            settled += 1;
        }
        assert!(settled > 100);
        assert!(user.bytes.used() <= 192 << 20);
        drop(held);
        drop(many);
        assert_eq!(user.bytes.used(), 0);
    }

    #[test]
    fn who_holds_many_small_things_leaves_as_much_to_others() {
        let budgets = Budgets::new(Default::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let [greedy, modest] = [(); 2].map(|()| {
            let allowance = Allowance::new(budgets.strangers());
            allowance.sign_in(&user);
            allowance
        });
        let mut held = Vec::new();
        while greedy.has_left() {
            held.push(greedy.overdraw(64 << 10));
        }
        assert!(modest.has_left());
        let left = user.bytes.limit() - user.bytes.used();
        assert!(left >= user.bytes.limit() / 4, "{left} bytes");
    }

    #[test]
    fn what_strangers_hold_is_theirs_until_they_sign_in() {
        let budgets = Budgets::new(Default::default());
        let allowance = Allowance::new(budgets.strangers());
        assert!(allowance.settle(1_000));
        assert_eq!(budgets.strangers().used(), 1_000);
        assert!(!allowance.settle(1 << 30), "no more than there is");
        let user = budgets.of_user(&Sid::SYSTEM);
        allowance.sign_in(&user);
        assert_eq!((budgets.strangers().used(), user.bytes.used()), (0, 1_000));
    }
}
