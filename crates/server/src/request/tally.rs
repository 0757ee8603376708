//! Counts what a connection has answered ([`crate::state::counters`]).
//!
//! What the fast path answers is noted and counted together, when the clock is read next: as many requests as one receive brought cost a few additions
//! each, one place in a histogram and no look at the clock. Each of them is said to have taken as long as all of them together, from the time that was
//! read before they were received until the one that is read when their answers were given to the socket. That is how long the last of them
//! was in the server, and what a client waits for who has that many in flight.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::state::counters::{Answered, Api, COUNTS};
use crate::state::session::Channel;
use crate::state::tree::Tree;

/// What one connection has answered on the fast path and not counted yet, and when that came.
#[derive(Default)]
pub(crate) struct Tally {
    turn: Cell<Option<Instant>>,
    received: Cell<Option<Instant>>,
    noted: RefCell<Vec<Noted>>,
}

struct Noted {
    channel: Rc<Channel>,
    tree: Arc<Tree>,
    answered: Answered,
}

/// Bytes of a READ or WRITE that was done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) api: Api,
    pub(crate) data: u64,
    /// Of its message, and of the response.
    pub(crate) received: u64,
    pub(crate) sent: u64,
}

impl Moved {
    /// Adds it to what was answered alike.
    fn add_to(&self, answered: &mut Answered) {
        match self.api {
            Api::Write => answered.written_bytes += self.data,
            _ => answered.read_bytes += self.data,
        }
        answered.received_bytes += self.received;
        answered.sent_bytes += self.sent;
    }
}

impl Tally {
    /// A turn of the connection begins.
    pub(crate) fn begin_turn(&self, now: Instant) {
        self.turn.set(Some(now));
    }

    /// When its turn has begun.
    pub(crate) fn turn_began(&self) -> Instant {
        self.turn.get().unwrap_or_else(Instant::now)
    }

    /// What is looked at from now on was received at `now`, as far as it can be told without another look at the clock.
    pub(crate) fn begin(&self, now: Instant) {
        self.received.set(Some(now));
    }

    /// When what is looked at was received.
    pub(crate) fn received(&self) -> Instant {
        self.received.get().unwrap_or_else(Instant::now)
    }

    /// Notes a request that was done on the fast path.
    pub(crate) fn note(&self, channel: &Rc<Channel>, tree: &Arc<Tree>, moved: &Moved) {
        if !COUNTS {
            return;
        }
        let mut noted = self.noted.borrow_mut();
        let alike = noted.iter_mut().find(|noted| {
            noted.answered.api == moved.api && Arc::ptr_eq(&noted.tree, tree) && Rc::ptr_eq(&noted.channel, channel)
        });
        match alike {
            Some(noted) => {
                noted.answered.requests += 1;
                moved.add_to(&mut noted.answered);
            }
            None => {
                let mut answered = Answered::one(moved.api);
                moved.add_to(&mut answered);
                noted.push(Noted { channel: Rc::clone(channel), tree: Arc::clone(tree), answered });
            }
        }
    }

    /// True where something is noted.
    pub(crate) fn has_noted(&self) -> bool {
        !self.noted.borrow().is_empty()
    }

    /// Counts what was noted: its answers have been given to the socket, and it is `now`.
    pub(crate) fn count(&self, now: Instant) {
        let time = self.received.get().map_or(Duration::ZERO, |received| now.saturating_duration_since(received));
        for Noted { channel, tree, answered } in self.noted.borrow_mut().drain(..) {
            channel.count(Some(&tree), &Answered { time, ..answered });
        }
    }
}
