//! Turns of connections on their shard. One that has much to do does a part of it in a turn and stands in line for the next. Between two
//! such turns the shard looks at what has come in, so that whoever has little to do waits for one of them and not for all. Nor for hundreds that
//! have a little each: once such connections of one user have done together what a turn allows, the others of that user stand in line, too.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};

use store::effort;
use tokio::sync::Notify;
use tokio::task::{spawn_local, yield_now};
use wire::security::Sid;

use crate::resource::clock::Clock;
use crate::resource::pool::INLINE_BYTES_MAX;

/// Bytes that a turn receives and sends: some hundred microseconds, beside which a look at what has come in costs next to nothing.
pub(crate) const TURN_BYTES: isize = 512 << 10;
/// What a request costs beside its bytes: four 512 KiB of them take as long.
pub(crate) const REQUEST_COST: usize = 2 << 10;
/// What one costs that the fast path does not answer.
pub(crate) const LONG_REQUEST_COST: usize = 8 << 10;
/// What following one name of a path costs, or as much other work ([`effort`]).
pub(crate) const STEP_COST: usize = 256;

/// What one READ or WRITE may copy at once where nobody stands in line: a millisecond or two, also where it is signed or sealed by what is fast.
const ALONE_BYTES_MAX: u64 = 4 << 20;

/// What of a turn counts for the user whose connection had it without waiting. One that has much to do is no reason for another to wait: eight are.
const MODEST_TURN_BYTES: isize = TURN_BYTES / 8;
/// How many who have little to do are called at once: a turn each would take milliseconds.
const MODEST_AT_ONCE: usize = 16;
/// With fewer users than so many it is not looked which of them are gone.
const USERS_MIN: usize = 64;

/// The turns of a shard.
#[derive(Default)]
pub(crate) struct Turns {
    line: RefCell<VecDeque<Rc<Waiter>>>,
    /// Those who have little to do, and come first.
    modest: RefCell<VecDeque<Rc<Waiter>>>,
    /// How often it was noted that the shard looked at what has come in.
    looks: Cell<u64>,
    /// The next look is to be noted.
    awaits_look: Cell<bool>,
    users: RefCell<Users>,
    /// Somebody who has much to do had a turn, or stands in line, since the shard looked at what has come in.
    is_busy: Cell<bool>,
    is_served: Cell<bool>,
    called: Notify,
    clock: Clock,
}

#[derive(Default)]
struct Users {
    known: HashMap<Sid, Weak<OfUser>>,
    /// With so many it is looked which of them are gone.
    many: usize,
}

/// What those connections of one user that had little to do have done since the shard looked at what has come in.
#[derive(Default)]
struct OfUser {
    look: Cell<u64>,
    done: Cell<isize>,
}

/// A connection's place in the turns of its shard.
pub(crate) struct Turn {
    turns: Rc<Turns>,
    place: Rc<Waiter>,
    left: Cell<isize>,
    /// Once somebody has signed in.
    user: OnceCell<Rc<OfUser>>,
    /// How much more of it counts for its user: nothing where it had to wait for it.
    counts: Cell<isize>,
}

#[derive(Default)]
struct Waiter {
    standing: Cell<Standing>,
    waker: Cell<Option<Waker>>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Standing {
    /// Its last turn was not used up: it goes on whenever it can.
    #[default]
    Modest,
    /// Its last turn was used up.
    Greedy,
    InLine,
    /// It is its turn.
    Called,
}

impl Turns {
    /// The shard's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// True where nobody else who has much to do had a turn since the shard looked at what has come in.
    fn is_free(self: &Rc<Self>) -> bool {
        let is_free = !self.is_busy.replace(true);
        if is_free {
            self.call();
        }
        is_free
    }

    /// True where somebody's turn has yet to come.
    pub(crate) fn have_somebody_in_line(&self) -> bool {
        !self.line.borrow().is_empty() || !self.modest.borrow().is_empty()
    }

    fn stand_in_line(self: &Rc<Self>, place: &Rc<Waiter>) {
        let line = if place.standing.get() == Standing::Modest { &self.modest } else { &self.line };
        line.borrow_mut().push_back(Rc::clone(place));
        place.standing.set(Standing::InLine);
        if !self.is_busy.replace(true) {
            self.call();
        }
    }

    fn call(self: &Rc<Self>) {
        self.called.notify_one();
        if !self.is_served.replace(true) {
            let turns = Rc::clone(self);
            spawn_local(async move { turns.give().await });
        }
    }

    /// Calls those in line, one after the other. Never ends.
    async fn give(&self) {
        loop {
            self.called.notified().await;
            loop {
                // The runtime asks the kernel what has come in before it goes on here, and whom that is for goes first.
                yield_now().await;
                self.looks.set(self.looks.get() + 1);
                self.awaits_look.set(false);
                if self.call_next() == 0 {
                    break;
                }
            }
            self.is_busy.set(false);
        }
    }

    /// Calls who is next: some who have little to do, and one who has much. Gives how many that were.
    fn call_next(&self) -> usize {
        let mut modest = self.modest.borrow_mut();
        let few = modest.len().min(MODEST_AT_ONCE);
        let next: Vec<_> = modest.drain(..few).chain(self.line.borrow_mut().pop_front()).collect();
        drop(modest);
        next.iter().for_each(|next| next.call());
        next.len()
    }

    /// What the connections of a user do.
    fn of_user(&self, user: Sid) -> Rc<OfUser> {
        let Users { known, many } = &mut *self.users.borrow_mut();
        if let Some(of_user) = known.get(&user).and_then(Weak::upgrade) {
            return of_user;
        }
        if known.len() >= (*many).max(USERS_MIN) {
            known.retain(|_, of_user| of_user.strong_count() > 0);
            *many = 2 * known.len();
        }
        let of_user = Rc::default();
        known.insert(user, Rc::downgrade(&of_user));
        of_user
    }

    /// A connection of a user has done so much.
    fn count(self: &Rc<Self>, user: &OfUser, bytes: isize) {
        user.done.set(self.done_by(user) + bytes);
        user.look.set(self.looks.get());
        if user.done.get() >= TURN_BYTES / 2 && !self.awaits_look.replace(true) {
            self.call();
        }
    }

    /// What the connections of a user have done since the shard looked at what has come in.
    fn done_by(&self, user: &OfUser) -> isize {
        if user.look.get() == self.looks.get() { user.done.get() } else { 0 }
    }
}

impl Waiter {
    fn call(&self) {
        self.standing.set(Standing::Called);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Turn {
    /// The shard's clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.turns.clock
    }

    pub(crate) fn new(turns: &Rc<Turns>) -> Self {
        Turn {
            turns: Rc::clone(turns),
            place: Rc::default(),
            left: Cell::new(0),
            user: OnceCell::new(),
            counts: Cell::new(0),
        }
    }

    /// True where one request may copy so many bytes at once, before others have their turn. What is more is done on the pool, which takes a third more:
    /// the data is in this core's cache. `protects_fast`: they are signed or sealed as fast as they are copied, or not at all.
    pub(crate) fn may_copy_at_once(&self, bytes: u64, protects_fast: impl FnOnce() -> bool) -> bool {
        let is_alone = || !self.turns.have_somebody_in_line();
        bytes <= INLINE_BYTES_MAX || bytes <= ALONE_BYTES_MAX && is_alone() && protects_fast()
    }

    /// From now on what is done counts for this user, whoever else signs in.
    pub(crate) fn sign_in(&self, user: impl FnOnce() -> Sid) {
        self.user.get_or_init(|| self.turns.of_user(user()));
    }

    /// True where connections of its user have done what a turn allows.
    fn is_over_for_user(&self) -> bool {
        self.user.get().is_some_and(|user| self.turns.done_by(user) >= TURN_BYTES)
    }

    /// True where the turn begins. Where not, `waker` is called when it may.
    pub(crate) fn begin(&self, waker: &Waker) -> bool {
        let standing = self.place.standing.get();
        self.counts.set(if standing == Standing::Modest { MODEST_TURN_BYTES } else { 0 });
        let begins = match standing {
            Standing::Modest => !self.is_over_for_user(),
            Standing::Greedy => self.turns.is_free(),
            Standing::Called => {
                // Who did more in a turn than it may lets as many pass, where there is anybody.
                let owed = if self.turns.have_somebody_in_line() { self.left.get().min(0) } else { 0 };
                self.left.set(owed + TURN_BYTES);
                if !self.is_over() {
                    return true;
                }
                false
            }
            Standing::InLine => {
                self.place.waker.set(Some(waker.clone()));
                return false;
            }
        };
        if begins {
            self.left.set(TURN_BYTES);
        } else {
            self.place.waker.set(Some(waker.clone()));
            self.turns.stand_in_line(&self.place);
        }
        begins
    }

    /// So much was done of it.
    pub(crate) fn spend(&self, bytes: usize) {
        self.left.set(self.left.get() - bytes as isize);
        let counts = self.counts.get().min(bytes as isize);
        if let Some(user) = self.user.get().filter(|_| counts > 0) {
            self.counts.set(self.counts.get() - counts);
            self.turns.count(user, counts);
        }
    }

    /// Does something whose steps count.
    pub(crate) fn spend_on<T>(&self, work: impl FnOnce() -> T) -> T {
        let (done, steps) = effort::of(work);
        self.spend(steps * STEP_COST);
        done
    }

    /// How much is left of it.
    #[cfg(test)]
    pub(crate) fn left(&self) -> isize {
        self.left.get()
    }

    /// True where it was called.
    #[cfg(test)]
    pub(crate) fn is_called(&self) -> bool {
        self.place.standing.get() == Standing::Called
    }

    /// True where others have theirs before this connection goes on.
    pub(crate) fn is_over(&self) -> bool {
        self.left.get() <= 0
    }

    /// It ends, and another is wanted.
    pub(crate) fn stand_in_line(&self, waker: &Waker) {
        self.place.waker.set(Some(waker.clone()));
        // It had its turn.
        self.place.standing.set(Standing::Greedy);
        self.turns.stand_in_line(&self.place);
    }

    /// Ends when what goes on beside the connection, and has done as much as a turn allows, may go on: it stands in line like others.
    pub(crate) async fn another(&self) {
        let place = Rc::new(Waiter::default());
        place.standing.set(Standing::Greedy);
        self.turns.stand_in_line(&place);
        poll_fn(|task| {
            if place.standing.get() == Standing::Called {
                return Poll::Ready(());
            }
            place.waker.set(Some(task.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// It ends, since there is nothing to do.
    pub(crate) fn end(&self) {
        self.place.standing.set(if self.is_over() { Standing::Greedy } else { Standing::Modest });
    }
}
