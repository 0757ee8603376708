//! What one connection may make the server hold: bytes that came in and wait to be executed, answers that are being made, and answers
//! that wait for their client to take them. All of it is charged to who has signed in on the connection first, before that to all
//! strangers of its network.
//!
//! - Much at once (a buffer of more than [`SMALL_BYTES`], an answer of more than [`ANSWER_BYTES_SMALL`]) is charged before it is there,
//!   and what does not fit waits. A connection leaves to others of its user as much as it holds itself: one that takes no answers ends
//!   up with half of what there is, ten with a tenth each, and there is always something left for the next.
//! - Large frames that arrive slowly, and answers to who takes them slowly, have a part of their own: however many there are, they leave room to
//!   the quick. There is always room in it for the rest of one that has begun.
//! - Who has waited for memory for [`INSISTS_AFTER`] goes on with memory that is for such as it alone: each of those that wait may hold what it
//!   has received, and all of it together be what they wait for. It leaves as much to others of its kind as it takes.
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
use crate::buffers::{FRAME_BYTES_MAX, SMALL_BYTES};
use crate::pace::{self, Pace};

/// An answer that may be as large as this is made without a charge.
pub(crate) const ANSWER_BYTES_SMALL: usize = 64 << 10;
/// What one batch may come to hold without a charge, at most: what came in, and what answers it.
const BATCH_BYTES: u64 = 3 * SMALL_BYTES as u64;
/// Bytes of a user's budget for small things alone, at most.
const SMALL_THINGS_BYTES: u64 = 32 << 20;
/// One part in so many of a budget is for small things, where that is less.
const SMALL_THINGS_PART: u64 = 6;

/// How long somebody waits for what others hold before it may have what is on top of that.
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
    /// Since when its client has not taken all it has, and what it had taken then.
    untaken: Cell<Option<(Instant, u64)>>,
    takes_slowly: Cell<bool>,
}

struct Payer {
    whole: Arc<Budget>,
    /// The user's, for what lasts, which is part of the whole.
    lasting: Option<Arc<Budget>>,
    own: Arc<Budget>,
    /// For what arrives, or is taken, slowly.
    slow: Arc<Budget>,
    /// For who has waited long, if it is a user.
    beyond: Option<Arc<Budget>>,
    /// Small things that stayed.
    small: Charge,
}

impl Payer {
    fn of_strangers(whole: &Arc<Budget>) -> Self {
        let own = whole.below(u64::MAX);
        let (small, slow) = (own.overdraw(0), Arc::clone(&own));
        Payer { whole: Arc::clone(whole), lasting: None, beyond: None, small, slow, own }
    }

    fn of_user(user: &UserBudgets) -> Self {
        let own = user.bytes.below(u64::MAX);
        Payer {
            whole: Arc::clone(&user.bytes),
            lasting: Some(Arc::clone(&user.lasting)),
            beyond: Some(Arc::clone(&user.beyond)),
            small: own.overdraw(0),
            slow: own.below_both(&user.slow, u64::MAX),
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
        Allowance {
            payer: RefCell::new(Payer::of_strangers(strangers)),
            is_user: Cell::new(false),
            waiter: Arc::default(),
            waits_since: Cell::new(None),
            batch: RefCell::new(None),
            untaken: Cell::new(None),
            takes_slowly: Cell::new(false),
        }
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

    /// Holds `bytes`, which are much at once, of an answer or of what was received; `None` where they do not fit.
    pub(crate) fn charge(&self, bytes: usize) -> Option<Charge> {
        let pace = self.pace_of_taking();
        self.charge_leaving(pace, bytes, 0).or_else(|| self.insist(pace, bytes))
    }

    /// The same for what arrives. What is slow leaves room for the rest of another that has begun.
    pub(crate) fn charge_to_receive(&self, pace: Pace, bytes: usize) -> Option<Charge> {
        let more = if pace == Pace::Slow { FRAME_BYTES_MAX as u64 } else { 0 };
        self.charge_leaving(pace, bytes, more).or_else(|| self.insist(pace, bytes))
    }

    /// How fast its client takes answers.
    fn pace_of_taking(&self) -> Pace {
        if self.takes_slowly.get() { Pace::Slow } else { Pace::Quick }
    }

    /// Leaves `more` than what a connection leaves of its user's bytes anyway.
    fn charge_leaving(&self, pace: Pace, bytes: usize, more: u64) -> Option<Charge> {
        let payer = self.payer.borrow();
        let leaving = if self.is_user.get() { payer.small_things() + payer.own.used() + more } else { 0 };
        payer.of(pace).charge_leaving(bytes as u64, leaving)
    }

    /// Holds `bytes` for a user's connection that has waited long, on top of what there is. Who is slow would keep others from it, and who has not
    /// taken what it has waits for itself.
    fn insist(&self, pace: Pace, bytes: usize) -> Option<Charge> {
        let has_waited = self.waits_since.get().is_some_and(|since| since.elapsed() >= INSISTS_AFTER);
        if pace == Pace::Slow || self.untaken.get().is_some() || !has_waited {
            return None;
        }
        let payer = self.payer.borrow();
        payer.beyond.as_ref()?.charge_leaving(bytes as u64, bytes as u64)
    }

    /// True where so much could not be held besides `held` if nothing else were but what lasts.
    pub(crate) fn is_too_much(&self, bytes: usize, held: usize) -> bool {
        let payer = self.payer.borrow();
        let lasting = payer.lasting.as_ref().map_or(0, |lasting| lasting.used());
        ((bytes + held) as u64).saturating_add(payer.small_things() + lasting) > payer.whole.limit()
    }

    /// Holds, as [`Allowance::charge`], what is to be done with a large frame that is held.
    pub(crate) fn charge_for_frame(&self, bytes: usize) -> Option<Charge> {
        self.charge_rest(self.pace_of_taking(), bytes)
    }

    /// Holds, as [`Allowance::charge_to_receive`], more of what has begun: of those who all have a part of what they need, one at a time gets the
    /// rest, whatever the others hold, so that they do not wait for each other.
    pub(crate) fn charge_rest(&self, pace: Pace, bytes: usize) -> Option<Charge> {
        let of_reserve = || {
            let payer = self.payer.borrow();
            payer.of(pace).charge_leaving(bytes as u64, payer.small_things() / 2)
        };
        self.charge_leaving(pace, bytes, 0).or_else(of_reserve).or_else(|| self.insist(pace, bytes))
    }

    /// Holds `bytes` that are there already.
    pub(crate) fn overdraw(&self, bytes: usize) -> Charge {
        self.payer.borrow().own.overdraw(bytes as u64)
    }

    /// True where another batch may be executed.
    pub(crate) fn has_left(&self) -> bool {
        self.has_batch_left() || self.batch.borrow().is_some() || {
            let insisted = self.insist(Pace::Quick, BATCH_BYTES as usize);
            self.batch.replace(insisted);
            self.batch.borrow().is_some()
        }
    }

    fn has_batch_left(&self) -> bool {
        let payer = self.payer.borrow();
        !self.is_user.get() || payer.whole.has_left(BATCH_BYTES + payer.own.used().saturating_sub(payer.small_things()))
    }

    /// What a batch gave was sent, or is forgotten.
    pub(crate) fn end_batch(&self) {
        drop(self.batch.take());
    }

    /// Of `sent` bytes in all the last was sent now, or else more of what there is waits for its client to take it.
    pub(crate) fn note_sent(&self, sent: u64, is_all: bool) {
        match (self.untaken.get(), is_all) {
            (None, true) | (Some(_), false) => {}
            (None, false) => self.untaken.set(Some((Instant::now(), sent))),
            (Some((since, before)), true) => {
                self.untaken.set(None);
                let is_slow = pace::is_slow(sent - before, since).unwrap_or(self.takes_slowly.get());
                self.takes_slowly.set(is_slow);
            }
        }
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
