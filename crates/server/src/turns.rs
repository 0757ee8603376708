//! Turns of connections on their shard. One that has much to do does a part of it in a turn and stands in line for the next. Between two
//! such turns the shard looks at what has come in, so that whoever has little to do waits for one of them and not for all.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use store::effort;
use tokio::sync::Notify;
use tokio::task::{spawn_local, yield_now};

/// Bytes that a turn receives and sends: some hundred microseconds, beside which a look at what has come in costs next to nothing.
pub(crate) const TURN_BYTES: isize = 512 << 10;
/// What a request costs beside its bytes: four 512 KiB of them take as long.
pub(crate) const REQUEST_COST: usize = 2 << 10;
/// What one costs that the fast path does not answer.
pub(crate) const LONG_REQUEST_COST: usize = 8 << 10;
/// What following one name of a path costs, or as much other work ([`effort`]).
pub(crate) const STEP_COST: usize = 256;

/// The turns of a shard.
#[derive(Default)]
pub(crate) struct Turns {
    line: RefCell<VecDeque<Rc<Place>>>,
    /// Somebody who has much to do had a turn, or stands in line, since the shard looked at what has come in.
    is_busy: Cell<bool>,
    is_served: Cell<bool>,
    called: Notify,
}

/// A connection's place in the turns of its shard.
pub(crate) struct Turn {
    turns: Rc<Turns>,
    place: Rc<Place>,
    left: Cell<isize>,
}

#[derive(Default)]
struct Place {
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
    /// True where nobody else who has much to do had a turn since the shard looked at what has come in.
    fn is_free(self: &Rc<Self>) -> bool {
        let is_free = !self.is_busy.replace(true);
        if is_free {
            self.call();
        }
        is_free
    }

    fn stand_in_line(self: &Rc<Self>, place: &Rc<Place>) {
        place.standing.set(Standing::InLine);
        self.line.borrow_mut().push_back(Rc::clone(place));
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
                let Some(next) = self.line.borrow_mut().pop_front() else { break };
                next.call();
            }
            self.is_busy.set(false);
        }
    }
}

impl Place {
    fn call(&self) {
        self.standing.set(Standing::Called);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Turn {
    pub(crate) fn new(turns: &Rc<Turns>) -> Self {
        Turn { turns: Rc::clone(turns), place: Rc::default(), left: Cell::new(0) }
    }

    /// True where the turn begins. Where not, `waker` is called when it may.
    pub(crate) fn begin(&self, waker: &Waker) -> bool {
        let begins = match self.place.standing.get() {
            Standing::Modest => true,
            Standing::Greedy => self.turns.is_free(),
            // Who did more in a turn than it may lets as many pass.
            Standing::Called if self.left.get() + TURN_BYTES <= 0 => {
                self.left.set(self.left.get() + TURN_BYTES);
                false
            }
            Standing::Called => {
                self.left.set(self.left.get().min(0) + TURN_BYTES);
                return true;
            }
            Standing::InLine => {
                self.place.waker.set(Some(waker.clone()));
                return false;
            }
        };
        if begins {
            self.left.set(TURN_BYTES);
        } else {
            self.stand_in_line(waker);
        }
        begins
    }

    /// So much was done of it.
    pub(crate) fn spend(&self, bytes: usize) {
        self.left.set(self.left.get() - bytes as isize);
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

    /// True where others have theirs before this connection goes on.
    pub(crate) fn is_over(&self) -> bool {
        self.left.get() <= 0
    }

    /// It ends, and another is wanted.
    pub(crate) fn stand_in_line(&self, waker: &Waker) {
        self.place.waker.set(Some(waker.clone()));
        self.turns.stand_in_line(&self.place);
    }

    /// Ends when what goes on beside the connection, and has done as much as a turn allows, may go on: it stands in line like others.
    pub(crate) async fn another(&self) {
        let place = Rc::new(Place::default());
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
