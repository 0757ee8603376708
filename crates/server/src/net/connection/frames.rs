//! From what was received to frames that are processed.

use std::ops::Range;
use std::rc::Rc;
use std::task::Context as TaskContext;

use crate::command::connection::Disconnect;
use crate::net::connection::{Batch, Endpoint, FLUSH_BYTES};
use crate::request::finding::{Finding, Opened};
use crate::request::inbox::{Inbox, Keeping};
use crate::request::opening::Look;
use crate::request::pipeline;
use crate::request::responder::{Deferred, Unheld};
use crate::request::slow_path::{self, Long, Need};
use crate::request::write_batch::{Along, Writes};
use crate::resource::turns::{LONG_REQUEST_COST, REQUEST_COST};

impl Endpoint {
    /// Processes frames until none is whole, enough is queued, or what is asked for may not be held yet.
    pub(super) fn process_batch(
        self: &Rc<Self>,
        task: &TaskContext<'_>,
        inbox: &mut Inbox,
    ) -> Result<Batch, Disconnect> {
        self.writes.begin(inbox.buffer());
        let batch = self.process_frames(task, inbox);
        // A frame that was deferred stays where it is.
        let along = if self.deferred.borrow().is_none() { Along::MayGo } else { Along::Stays };
        Writes::hand_over(&self.responder, inbox, along);
        batch
    }

    pub(super) fn process_frames(
        self: &Rc<Self>,
        task: &TaskContext<'_>,
        inbox: &mut Inbox,
    ) -> Result<Batch, Disconnect> {
        if self.outbox.borrow().bytes() >= FLUSH_BYTES {
            return Ok(Batch::Full);
        }
        self.begin_batch();
        match self.deferred.take() {
            None => {}
            Some(Deferred::Unheld(mut unheld)) => {
                let long = &mut unheld.long;
                long.held_back = self.tally.turn_began().saturating_duration_since(long.received);
                if !self.process_long(task, inbox, unheld)? {
                    return Ok(Batch::Stalled);
                }
                if let Some(batch) = self.after_frame(inbox) {
                    return Ok(batch);
                }
            }
            Some(Deferred::Away) => {
                self.deferred.replace(Some(Deferred::Away));
                return Ok(Batch::Away);
            }
            Some(Deferred::Back(Opened { frame, finding, buffer, charge })) => {
                inbox.take_back(buffer, charge);
                self.writes.begin(inbox.buffer());
                if let Some(batch) = self.process_frame(task, inbox, frame, finding)? {
                    return Ok(batch);
                }
            }
        }
        while self.takes_requests() {
            if self.writes.are_many() {
                Writes::hand_over(&self.responder, inbox, Along::Stays);
                self.writes.begin(inbox.buffer());
                continue;
            }
            if self.may(task, || self.allowance.has_left().then_some(())).is_none() {
                return Ok(Batch::Stalled);
            }
            let Some(frame) = inbox.next_frame().map_err(|_| Disconnect("a frame has an impossible length"))? else {
                return Ok(Batch::Done);
            };
            self.allowance.went_on();
            self.turn.spend(REQUEST_COST);
            if let Some(look) = Look::at_long(&self.responder, inbox.frame(frame.clone())) {
                Writes::hand_over(&self.responder, inbox, Along::Stays);
                look.begin(&self.responder, inbox, frame);
                self.deferred.replace(Some(Deferred::Away));
                return Ok(Batch::Away);
            }
            if let Some(batch) = self.process_frame(task, inbox, frame, Finding::None)? {
                return Ok(batch);
            }
        }
        Ok(Batch::Done)
    }

    /// Processes one frame. Where the batch ends with it, says how.
    pub(super) fn process_frame(
        self: &Rc<Self>,
        task: &TaskContext<'_>,
        inbox: &mut Inbox,
        frame: Range<usize>,
        finding: Finding,
    ) -> Result<Option<Batch>, Disconnect> {
        self.arrived.set(self.arrived.get() + 1);
        let waiting = self.tasks() as u64 + 1;
        self.together.set(self.together.get().max(self.arrived.get()).max(waiting));
        if let Some(long) = pipeline::process(&self.responder, inbox.frame(frame.clone()), finding)? {
            let unheld = self.unheld(inbox, frame, long);
            if !self.process_long(task, inbox, unheld)? {
                return Ok(Some(Batch::Stalled));
            }
        }
        Ok(self.after_frame(inbox))
    }

    /// Says how the batch ends where it ends with the frame that was processed.
    pub(super) fn after_frame(&self, inbox: &mut Inbox) -> Option<Batch> {
        // What the request broke is told before what came after it is answered.
        self.flush_notifications();
        self.note_sign_in(inbox);
        let is_full = self.outbox.borrow().bytes() >= FLUSH_BYTES || self.turn.is_over() || self.has_unopened();
        is_full.then_some(Batch::Full)
    }

    /// A frame that goes the slow path, before anything is held for it.
    pub(super) fn unheld(&self, inbox: &mut Inbox, frame: Range<usize>, long: Long) -> Unheld {
        let mut unheld = Unheld { frame, long, need: Need::default() };
        let messages = unheld.messages();
        let kept = inbox.cost_of_keeping(&messages);
        unheld.need = slow_path::need(inbox.frame(messages), kept);
        unheld
    }

    /// Has a frame go the slow path; false where it stays in the inbox until its answers may be held.
    pub(super) fn process_long(
        self: &Rc<Self>,
        task: &TaskContext<'_>,
        inbox: &mut Inbox,
        mut unheld: Unheld,
    ) -> Result<bool, Disconnect> {
        let (need, messages) = (unheld.need, unheld.messages());
        let is_paid = inbox.is_paid(&messages);
        // What is there already does not wait for what a copy of it would take.
        let claim = || match pipeline::claim(&self.responder, need) {
            None if is_paid => pipeline::claim_for_paid(&self.responder, need).map(|claim| (claim, Keeping::Paid)),
            claim => claim.map(|claim| (claim, Keeping::Fitting)),
        };
        let is_too_much = self.allowance.is_too_much(need.bytes, inbox.paid_bytes());
        let claimed = match is_too_much {
            true => Some((pipeline::refuse(&self.responder, need, &mut unheld.long), Keeping::Fitting)),
            false => self.may(task, claim),
        };
        let Some((claim, keeping)) = claimed else {
            if inbox.may_set_aside(&unheld.frame) {
                // Nobody waits with a larger buffer than has to wait.
                Writes::hand_over(&self.responder, inbox, Along::Stays);
                let frame = inbox.set_aside(&self.buffers, unheld.frame);
                unheld = self.unheld(inbox, frame, unheld.long);
                self.writes.begin(inbox.buffer());
            }
            self.deferred.replace(Some(Deferred::Unheld(unheld)));
            return Ok(false);
        };
        let Unheld { long, .. } = unheld;
        self.allowance.went_on();
        self.turn.spend(LONG_REQUEST_COST);
        // It may take the buffer along in which the writes before it lie.
        Writes::hand_over(&self.responder, inbox, Along::Stays);
        if let Some(admitted) = pipeline::admit(&self.responder, inbox.frame(messages.clone()), long)? {
            pipeline::run(&self.responder, admitted, inbox.keep(&self.buffers, messages, keeping), claim);
        }
        self.writes.begin(inbox.buffer());
        Ok(true)
    }

    /// What `hold` gives where the user's budget allows it. Where not, the connection is called when something was given back.
    pub(super) fn may<T>(&self, task: &TaskContext<'_>, mut hold: impl FnMut() -> Option<T>) -> Option<T> {
        hold().or_else(|| {
            self.allowance.wait(task.waker());
            hold().inspect(|_| self.allowance.went_on())
        })
    }
}
