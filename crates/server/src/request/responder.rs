//! What answers the requests of one connection.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, Range};
use std::rc::Rc;

use tokio::time::Instant;

use crate::command::connection::Connection;
use crate::request::finding::Opened;
use crate::request::outbox::Outbox;
use crate::request::slow_path::{Long, Need};
use crate::request::tally::Tally;
use crate::request::write_batch::Writes;

/// Requests of one connection that may wait for something at a time; past it no more are read until some are answered.
const WAITING_MAX: usize = 1_024;

/// A connection with what waits to be sent on it, the writes that are made for it on the pool, and the frame that waits before the rest.
pub(crate) struct Responder {
    pub(crate) connection: Rc<Connection>,
    pub(crate) outbox: RefCell<Outbox>,
    /// WRITEs that are made on the pool.
    pub(crate) writes: Writes,
    /// What a byte that comes in or goes out counts for in a turn, as what came last was sealed.
    pub(crate) byte_cost: Cell<usize>,
    pub(crate) deferred: RefCell<Option<Deferred>>,
    pub(crate) tally: Tally,
    /// The time, as long as what one receive brought is looked at, where somebody asked for it.
    now: Cell<Option<Instant>>,
}

/// A whole frame that waits in the inbox.
pub(crate) enum Deferred {
    /// For memory to hold what answers it.
    Unheld(Unheld),
    /// For a thread that opens or verifies it, and has the inbox's buffer.
    Away,
    /// That has done it.
    Back(Opened),
}

pub(crate) struct Unheld {
    pub(crate) frame: Range<usize>,
    pub(crate) long: Long,
    pub(crate) need: Need,
}

impl Deref for Responder {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl Responder {
    /// Answers on `connection`.
    pub(crate) fn of(connection: Rc<Connection>) -> Rc<Self> {
        Rc::new(Responder {
            connection,
            outbox: RefCell::default(),
            writes: Writes::default(),
            byte_cost: Cell::new(1),
            deferred: RefCell::default(),
            tally: Tally::default(),
            now: Cell::default(),
        })
    }

    /// Other requests are looked at from now on.
    pub(crate) fn begin_batch(&self) {
        self.now.set(None);
    }

    /// The time at which these requests are looked at. The clock is read once for all of them.
    pub(crate) fn batch_time(&self) -> Instant {
        let now = self.now.get().unwrap_or_else(Instant::now);
        self.now.set(Some(now));
        now
    }

    /// True where more requests may be looked at.
    pub(crate) fn takes_requests(&self) -> bool {
        self.ending().is_none() && self.tasks() < WAITING_MAX && !self.is_moving() && self.writes.have_room()
    }

    /// A frame was opened or verified.
    pub(crate) fn is_back(&self, opened: Opened) {
        if matches!(*self.deferred.borrow(), Some(Deferred::Away)) {
            self.deferred.replace(Some(Deferred::Back(opened)));
        }
    }
}

impl Unheld {
    /// Where in the inbox its messages stand.
    pub(crate) fn messages(&self) -> Range<usize> {
        self.frame.start + self.long.messages.start..self.frame.start + self.long.messages.end
    }
}
