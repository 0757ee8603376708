//! What one connection may make the server hold: bytes that came in and wait to be executed, answers that are being made, and answers
//! that wait for their client to take them. All of it is charged to who has signed in on the connection first, before that to all
//! strangers of its network.
//!
//! - Much at once (a buffer of more than [`SMALL_BYTES`], an answer of more than [`ANSWER_BYTES_SMALL`]) is charged before it is there,
//!   and what does not fit waits. A connection leaves to others of its user as much as it holds itself: one that takes no answers ends
//!   up with half of what there is, ten with a tenth each, and there is always something left for the next.
//! - A connection whose client is slow gets more only from a part for such as it: however many there are, they leave room to the quick. There is
//!   always room in it for the rest of a frame that has begun. Whose client becomes slow counts for that part with all that it holds.
//! - Who has waited for memory for [`INSISTS_AFTER`] goes on with memory that is for such as it alone: each of those that wait may hold what it
//!   has received, and all of it together be what they wait for. It leaves as much to others of its kind as it takes.
//! - Meanwhile who keeps memory has to use it: a connection that waits for its client ends where that moves too little of what is held for it
//!   ([`Allowance::is_to_yield`]). The more of a user's memory the slow have, the more that is.
//! - Small things are charged when they stay: what was answered and sent at once costs no charge. They may use the last part of a
//!   budget, which much at once leaves alone. A connection whose user has nothing left executes nothing until something was given back;
//!   one that holds more than that part has to leave others as much as it holds above.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use crate::resource::address::AddressPrefix;
use crate::resource::budget::{Budget, Charge, Waiter};
use crate::resource::budgets::UserBudgets;
use crate::resource::buffers::{FRAME_BYTES_MAX, SMALL_BYTES};
use crate::resource::pace::{Pace, Tempo, Waiting};
use crate::resource::payer::Payer;

/// An answer that may be as large as this is made without a charge.
pub(crate) const ANSWER_BYTES_SMALL: usize = 64 << 10;
/// What one batch may come to hold without a charge, at most: what came in, and what answers it.
const BATCH_BYTES: u64 = 3 * SMALL_BYTES as u64;
/// How long somebody waits for what others hold before it may have what is on top of that.
const INSISTS_AFTER: Duration = Duration::from_secs(1);
/// While nothing is left a connection receives so much at a time, which is enough for small requests.
pub(crate) const LITTLE_BYTES: usize = 8 << 10;
/// What a batch of so little may come to hold. Nobody waits for it.
const LITTLE_BATCH_BYTES: u64 = 96 << 10;

/// How long a client may take for all that is held for it while others wait for memory: as long as the slow keep to their part, and where they have
/// all there is.
const MOVES_ALL_IN: Duration = Duration::from_secs(60);
const MOVES_ALL_IN_MIN: Duration = Duration::from_secs(10);
/// It may be behind by so much of that: a network may stop for seconds.
const BEHIND_MAX: Duration = Duration::from_secs(8);
/// Who keeps less than that from others keeps nothing.
const YIELDED_BYTES_MIN: u64 = 16 << 10;

/// What is held for a client counts for its network where it is at least so much.
const NOTED_BYTES_MIN: u64 = 256 << 10;

/// A connection waits for memory.
#[derive(Clone, Copy)]
struct MemoryWait {
    since: Instant,
    /// Later than that by what its network has had: who has a place before that goes first.
    place: Instant,
}

/// What is held for a batch on top of what there is.
struct OnTop {
    charge: Charge,
    /// It is for little, of a connection that holds nothing much.
    is_little: bool,
}

/// A connection's part of a budget.
pub(crate) struct Allowance {
    payer: RefCell<Payer>,
    is_user: Cell<bool>,
    waiter: Arc<Waiter>,
    waits: Cell<Option<MemoryWait>>,
    /// What is held on top of what there is for a batch that there was nothing left for, and for what stayed of it.
    batch: RefCell<Option<OnTop>>,
    /// Its client has not taken all it has.
    has_untaken: Cell<bool>,
    tempo: RefCell<Tempo>,
    /// How much was held for its client when that became slow; 0 once that has moved.
    turned: Cell<u64>,
    /// Since when its requests that wait for other clients have held much.
    parked: Cell<Option<Instant>>,
    /// What was asked for last and is not there lacks to all users, not to its own alone.
    is_lack_of_all: Cell<bool>,
}

impl Allowance {
    /// That of a connection on which nobody has signed in: `strangers` pays, for its network or for all of them.
    pub(crate) fn new(strangers: &Arc<Budget>) -> Self {
        Allowance {
            payer: RefCell::new(Payer::of_strangers(strangers)),
            is_user: Cell::new(false),
            waiter: Arc::default(),
            waits: Cell::new(None),
            batch: RefCell::new(None),
            has_untaken: Cell::new(false),
            tempo: RefCell::default(),
            turned: Cell::new(0),
            parked: Cell::new(None),
            is_lack_of_all: Cell::new(false),
        }
    }

    /// Somebody has signed in, from `network`: the first one pays from now on.
    pub(crate) fn sign_in(&self, user: &Arc<UserBudgets>, network: AddressPrefix) {
        if self.is_user.replace(true) {
            return;
        }
        let mut payer = Payer::of_user(user, network);
        payer.small.set(self.payer.borrow().small.units());
        *self.payer.borrow_mut() = payer;
    }

    /// What pays: the budget of the connection's network, or that of who signed in first, also when that session has ended.
    pub(crate) fn budget(&self) -> Arc<Budget> {
        Arc::clone(&self.payer.borrow().whole)
    }

    /// Holds `bytes`, which are much at once, of an answer or of what was received; `None` where they do not fit.
    pub(crate) fn charge(&self, bytes: usize) -> Option<Charge> {
        self.charge_leaving(bytes, 0).or_else(|| self.insist(bytes))
    }

    /// The same for a part of a frame that has begun. It leaves room for the rest of others: of four quick ones, or a slow one.
    pub(crate) fn charge_to_begin(&self, bytes: usize) -> Option<Charge> {
        match self.pace() {
            Pace::Quick => self.charge_leaving(bytes, self.begun_leave()).or_else(|| self.insist(bytes)),
            Pace::Slow => self.charge_leaving(bytes, FRAME_BYTES_MAX as u64),
        }
    }

    /// What the beginnings of quick frames leave. With little memory that is less than four of the largest.
    fn begun_leave(&self) -> u64 {
        (4 * FRAME_BYTES_MAX as u64).min(self.payer.borrow().whole.limit() / 4)
    }

    /// How fast its client moves what it has begun.
    pub(crate) fn pace(&self) -> Pace {
        self.tempo.borrow().pace()
    }

    /// Leaves `more` than what a connection leaves of its user's bytes anyway.
    fn charge_leaving(&self, bytes: usize, more: u64) -> Option<Charge> {
        let mut payer = self.payer.borrow_mut();
        let leaving = if self.is_user.get() { payer.small_things() + payer.own.used() + more } else { 0 };
        let charge = payer.charge_leaving(self.pace(), bytes as u64, leaving);
        if charge.is_none() {
            self.is_lack_of_all.set(self.pace() == Pace::Quick && payer.whole.lacks_above(bytes as u64, leaving));
        }
        charge
    }

    /// Holds `bytes` for a user's connection that has waited long, on top of what there is, and leaves room there for the rest of a frame that has
    /// begun. Of the slow one at a time comes to its end with that.
    fn insist(&self, bytes: usize) -> Option<Charge> {
        self.insist_leaving(bytes, FRAME_BYTES_MAX.max(bytes) as u64)
    }

    fn insist_leaving(&self, bytes: usize, leaving: u64) -> Option<Charge> {
        if !self.has_waited() {
            return None;
        }
        let payer = self.payer.borrow();
        let budgets = &payer.user.as_ref()?.budgets;
        budgets.on_top(match self.pace() {
            Pace::Quick => budgets.beyond.charge_leaving(bytes as u64, leaving),
            Pace::Slow => budgets.finishing.charge(bytes as u64),
        })
    }

    /// True where it has waited long, and not for itself as one does that has not taken what it has. Then those who hold what it waits for know.
    fn has_waited(&self) -> bool {
        let has_waited = self.waits.get().is_some_and(|wait| wait.since.elapsed() >= INSISTS_AFTER);
        if self.has_untaken.get() || !has_waited {
            return false;
        }
        if let Some(user) = &self.payer.borrow().user {
            user.budgets.note_hunger(self.is_lack_of_all.get());
        }
        true
    }

    /// True where so much could not be held besides `held` if nothing else were but what lasts.
    pub(crate) fn is_too_much(&self, bytes: usize, held: usize) -> bool {
        let payer = self.payer.borrow();
        let lasting = payer.user.as_ref().map_or(0, |user| user.budgets.lasting.used());
        ((bytes + held) as u64).saturating_add(payer.small_things() + lasting) > payer.whole.limit()
    }

    /// Holds, as [`Allowance::charge_to_begin`], more of what has begun, or what is to be done with a large frame that is held: of those who all have
    /// a part of what they need, one at a time gets the rest, whatever the others hold, so that they do not wait for each other.
    pub(crate) fn charge_rest(&self, bytes: usize) -> Option<Charge> {
        let of_reserve = || {
            let mut payer = self.payer.borrow_mut();
            let leaving = payer.small_things() / 2;
            payer.charge_leaving(self.pace(), bytes as u64, leaving)
        };
        self.charge_leaving(bytes, 0).or_else(of_reserve).or_else(|| self.insist_leaving(bytes, 0))
    }

    /// Holds what answers a whole frame that has waited long, on top of what there is: of those who hold all of it, and wait for each other, one at a
    /// time is answered.
    pub(crate) fn charge_to_answer(&self, bytes: usize) -> Option<Charge> {
        if !self.has_waited() {
            return None;
        }
        let payer = self.payer.borrow();
        let budgets = &payer.user.as_ref()?.budgets;
        budgets.on_top(budgets.answers.charge(bytes as u64))
    }

    /// Holds `bytes` that are there already.
    pub(crate) fn overdraw(&self, bytes: usize) -> Charge {
        self.payer.borrow().own.overdraw(bytes as u64)
    }

    /// Holds `bytes` of a small request that is there already and waits. Where its batch is held on top of what there is they are a part of that:
    /// otherwise each batch that somebody has waited for would leave its requests behind, however many there are.
    pub(crate) fn keep(&self, bytes: usize) -> Charge {
        let mut batch = self.batch.borrow_mut();
        let of_batch =
            batch.as_mut().filter(|batch| !batch.is_little).and_then(|batch| batch.charge.split(bytes as u64));
        of_batch.unwrap_or_else(|| self.overdraw(bytes))
    }

    /// True where a small request may be executed that takes `bytes` where it waits.
    pub(crate) fn may_keep(&self, bytes: usize) -> bool {
        let is_little = self.batch.borrow().as_ref().map(|batch| batch.is_little);
        let bytes = bytes as u64;
        match is_little {
            None => true,
            _ if self.has_batch_left() => true,
            Some(true) => self.payer.borrow().own.used() + bytes <= LITTLE_BATCH_BYTES,
            Some(false) => self.holds_on_top(bytes, false, || self.insist(BATCH_BYTES as usize)),
        }
    }

    /// True where another batch may be executed.
    pub(crate) fn has_left(&self) -> bool {
        self.has_left_to_grow() || self.holds_on_top(LITTLE_BATCH_BYTES, true, || self.charge_for_little())
    }

    /// True where that may be one of more than [`LITTLE_BYTES`].
    pub(crate) fn has_left_to_grow(&self) -> bool {
        self.has_batch_left() || self.holds_on_top(BATCH_BYTES, false, || self.insist(BATCH_BYTES as usize))
    }

    fn has_batch_left(&self) -> bool {
        let payer = self.payer.borrow();
        let units = BATCH_BYTES + payer.own.used().saturating_sub(payer.small_things());
        let has_left = !self.is_user.get() || payer.whole.has_left(units);
        if !has_left {
            self.is_lack_of_all.set(payer.whole.lacks_above(units, 0));
        }
        has_left
    }

    /// True where so much is held on top for a batch, now that `charge` was asked for it.
    fn holds_on_top(&self, bytes: u64, is_little: bool, charge: impl FnOnce() -> Option<Charge>) -> bool {
        let mut batch = self.batch.borrow_mut();
        if batch.as_ref().is_some_and(|batch| batch.charge.units() >= bytes) {
            return true;
        }
        let more = charge().map(|charge| OnTop { charge, is_little });
        let holds = more.is_some();
        *batch = more.or(batch.take());
        holds
    }

    /// Holds a small batch on top of what there is for a connection that holds nothing much itself.
    fn charge_for_little(&self) -> Option<Charge> {
        let payer = self.payer.borrow();
        let user = payer.user.as_ref().filter(|_| payer.own.used() <= LITTLE_BYTES as u64)?;
        user.budgets.little.charge_leaving(LITTLE_BATCH_BYTES, LITTLE_BATCH_BYTES)
    }

    /// The connection has ended: what is still held for its requests is all there is.
    pub(crate) fn end(&self) {
        drop(self.batch.take());
        let mut payer = self.payer.borrow_mut();
        payer.small.set(0);
        payer.count_among_slow(Pace::Quick);
    }

    /// Its client has taken all it has, or not.
    pub(crate) fn note_taken(&self, is_all: bool) {
        self.has_untaken.set(!is_all);
    }

    /// The connection rests; `moved` bytes were received and sent in all.
    pub(crate) fn rest(&self, waiting: Waiting, moved: u64) {
        let mut tempo = self.tempo.borrow_mut();
        let before = tempo.pace();
        let (waited, held) = tempo.rest(waiting, moved, |held| self.moves_all_in(held));
        if held >= NOTED_BYTES_MIN
            && let Some(user) = &self.payer.borrow().user
        {
            user.budgets.usage.add(user.network, held, waited);
        }
        match (waiting, before, tempo.pace()) {
            (Waiting::Idle, ..) => self.turned.set(0),
            (Waiting::ForClient { held }, Pace::Quick, Pace::Slow) => self.turned.set(held),
            _ => {}
        }
        if tempo.pace() != before || before == Pace::Slow {
            self.payer.borrow_mut().count_among_slow(tempo.pace());
        }
    }

    /// True where others wait for memory that is held for its client, and that moves too little of it.
    pub(crate) fn is_to_yield(&self, waiting: Waiting) -> bool {
        let payer = self.payer.borrow();
        let Some(user) = &payer.user else { return false };
        let is_much = matches!(waiting, Waiting::ForClient { held } if held >= YIELDED_BYTES_MIN);
        is_much && user.budgets.is_hungry() && self.tempo.borrow().arrears() >= BEHIND_MAX
    }

    /// True where requests of its connection that wait for other clients have held memory (`parked` bytes) for a while, and others wait for memory.
    /// The connection then cancels those requests; where it lacks memory itself, `net/patience.rs` cancels all that wait.
    pub(crate) fn is_to_give_up_waits(&self, parked: u64) -> bool {
        if parked == 0 {
            self.parked.set(None);
            return false;
        }
        let since = self.parked.get().unwrap_or_else(Instant::now);
        self.parked.set(Some(since));
        let payer = self.payer.borrow();
        since.elapsed() >= BEHIND_MAX && payer.user.as_ref().is_some_and(|user| user.budgets.is_hungry())
    }

    /// How long its client may take for the `held` bytes that are held for it. Who was slow when it got them keeps to the part of the slow.
    fn moves_all_in(&self, held: u64) -> Duration {
        let payer = self.payer.borrow();
        let Some(user) = payer.user.as_ref().filter(|_| self.turned.get().saturating_mul(2) > held) else {
            return MOVES_ALL_IN;
        };
        let (slow, most) = (&user.budgets.slow, payer.whole.limit() - payer.small_things());
        let over = slow.used().saturating_sub(slow.limit()) as f64 / most.saturating_sub(slow.limit()).max(1) as f64;
        MOVES_ALL_IN - (MOVES_ALL_IN - MOVES_ALL_IN_MIN).mul_f64(over.min(1.0))
    }

    /// Wakes `waker` when somebody gave something back. It may have been given back just before: look again.
    pub(crate) fn wait(&self, waker: &Waker) {
        let wait = self.waits.get().unwrap_or_else(|| self.begin_to_wait());
        self.waits.set(Some(wait));
        self.has_waited();
        let payer = self.payer.borrow();
        let lacking = payer.user.as_ref().filter(|_| self.pace() == Pace::Slow).map(|user| &user.budgets.slow);
        lacking.unwrap_or(&payer.whole).wait(&self.waiter, wait.place, waker);
    }

    fn begin_to_wait(&self) -> MemoryWait {
        let (payer, since) = (self.payer.borrow(), Instant::now());
        let handicap = payer.user.as_ref().map_or(Duration::ZERO, |user| user.budgets.usage.handicap(user.network));
        MemoryWait { since, place: since + handicap }
    }

    /// What was waited for is there.
    pub(crate) fn went_on(&self) {
        self.waits.set(None);
    }

    /// Notes how much of small things stays. False where strangers hold more than they may.
    #[must_use]
    pub(crate) fn settle(&self, bytes: usize) -> bool {
        let stays = bytes as u64 - self.covered(bytes as u64);
        let small = &mut self.payer.borrow_mut().small;
        let before = small.units();
        if before == stays {
            return true;
        }
        if stays > before && !self.is_user.get() {
            return small.grow(stays - before);
        }
        small.set(stays);
        true
    }

    /// How much of `bytes` that stay is held on top of what there is, for as long as that has no room for them.
    fn covered(&self, bytes: u64) -> u64 {
        if self.batch.borrow().is_none() {
            return 0;
        }
        if bytes == 0 || self.has_batch_left() {
            drop(self.batch.take());
            return 0;
        }
        self.batch.borrow_mut().as_mut().map_or(0, |batch| {
            batch.charge.shrink_to(bytes);
            batch.charge.units()
        })
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
    use crate::resource::budgets::Budgets;

    const ANSWER: usize = 8 << 20;

    fn network() -> AddressPrefix {
        AddressPrefix::of("192.0.2.1:1")
    }

    fn hold_all(allowance: &Allowance) -> Vec<Charge> {
        std::iter::from_fn(|| allowance.charge(ANSWER)).collect()
    }

    #[test]
    fn one_connection_leaves_as_much_as_it_holds_to_the_others_of_its_user() {
        let budgets = Budgets::new(Default::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let [first, second, third] = [(); 3].map(|()| {
            let allowance = Allowance::new(budgets.strangers());
            allowance.sign_in(&user, network());
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

    /// Lets a client move 150 KiB a second for so long, with that much held for it, while others wait; true where it is ended.
    async fn moves_a_little(allowance: &Allowance, moved: &mut u64, held: u64, seconds: u64) -> bool {
        let waiting = Waiting::ForClient { held };
        for _ in 0..10 * seconds {
            allowance.rest(waiting, *moved);
            tokio::time::sleep(Duration::from_millis(100)).await;
            *moved += 15 << 10;
            allowance.payer.borrow().user.as_ref().unwrap().budgets.note_hunger(false);
            if allowance.is_to_yield(waiting) {
                return true;
            }
        }
        false
    }

    #[tokio::test(start_paused = true)]
    async fn who_was_slow_from_the_beginning_is_not_hurried_by_those_who_become_slow() {
        let budgets = Budgets::new(Default::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let [slow, turned] = [(); 2].map(|()| Allowance::new(budgets.strangers()));
        slow.sign_in(&user, network());
        turned.sign_in(&user, network());
        let (mut by_slow, mut by_turned) = (0, 0);
        assert!(!moves_a_little(&slow, &mut by_slow, SMALL_BYTES as u64, 2).await);
        let _others = user.slow.overdraw(160 << 20);
        assert!(!moves_a_little(&slow, &mut by_slow, 8 << 20, 50).await);
        turned.rest(Waiting::ForClient { held: 8 << 20 }, 7 << 20);
        by_turned += 7 << 20;
        assert!(moves_a_little(&turned, &mut by_turned, 8 << 20, 20).await);
    }

    #[test]
    fn small_things_stay_possible_when_much_at_once_is_not() {
        let budgets = Budgets::new(Default::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let many: Vec<_> = (0..1_000).map(|_| Allowance::new(budgets.strangers())).collect();
        many.iter().for_each(|allowance| allowance.sign_in(&user, network()));
        let held: Vec<_> = many.iter().flat_map(|allowance| allowance.charge(ANSWER)).collect();
        assert!(held.len() < 21, "{} answers", held.len());
        let mut settled = 0;
        for allowance in many.iter().filter(|allowance| allowance.has_left_to_grow()) {
            assert!(allowance.settle(2 * SMALL_BYTES));
            settled += 1;
        }
        assert!(settled > 70);
        assert!(user.bytes.used() <= 144 << 20);
        drop(held);
        drop(many);
        assert_eq!(user.bytes.used(), 0);
    }

    /// Executes small requests that wait, one batch after the other, for as long as somebody asks.
    async fn keep_all(allowance: &Allowance, kept: &mut Vec<Charge>, bytes: usize, seconds: u64) {
        for _ in 0..10 * seconds {
            while allowance.has_left() && allowance.may_keep(bytes) {
                allowance.went_on();
                kept.push(allowance.keep(bytes));
            }
            assert!(allowance.settle(0));
            allowance.wait(Waker::noop());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn small_requests_that_wait_have_an_end() {
        let budgets = Budgets::new(Default::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let mut kept = Vec::new();
        let many: Vec<_> = (0..20).map(|_| Allowance::new(budgets.strangers())).collect();
        for allowance in &many {
            allowance.sign_in(&user, network());
        }
        for _ in 0..10 {
            for allowance in &many {
                keep_all(allowance, &mut kept, 60 << 10, 3).await;
            }
        }
        let most = user.bytes.limit() + user.beyond.limit() + (20 * LITTLE_BATCH_BYTES);
        assert!(kept.len() as u64 * (60 << 10) <= most, "{} of {} KiB", kept.len(), most >> 10);
        drop(kept);
        drop(many);
        assert_eq!((user.bytes.used(), user.beyond.used()), (0, 0));
    }

    #[test]
    fn who_holds_many_small_things_leaves_as_much_to_others() {
        let budgets = Budgets::new(Default::default());
        let user = budgets.of_user(&Sid::SYSTEM);
        let [greedy, modest] = [(); 2].map(|()| {
            let allowance = Allowance::new(budgets.strangers());
            allowance.sign_in(&user, network());
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
        allowance.sign_in(&user, network());
        assert_eq!((budgets.strangers().used(), user.bytes.used()), (0, 1_000));
    }
}
