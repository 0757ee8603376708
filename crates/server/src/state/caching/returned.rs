//! What a client is told of what it caches when it comes back to an open (MS-SMB2 3.3.5.9.7, 3.3.5.9.12): what the open has, and, in a
//! notice behind that answer, which break of it is not over.
//!
//! Whether the client has heard of the break before it was lost nobody knows. So the epoch of the answer is one that it knows where
//! it caches writes, which is in nobody's way until it has given them back, and else one that has it forget what it has read; and
//! that of the notice is ahead of both, or the client would pass over it (3.2.5.19.2).

use std::time::Instant;

use wire::context::lease::{Lease, LeaseState};

use super::caches::Caches;
use super::grant::{Form, Grant};
use super::restored::EPOCHS_TO_FORGET;
use super::{Granted, Notice, READ, WRITE};
use crate::state::open_id::OpenId;

impl Caches {
    /// The client of an open is back, after the server was away or only the client: gives what it is answered. Of a lease it
    /// `believes` to have something: where the server was away it gets no more than that, as it has given back what is missing there.
    /// True where the lease's epoch went on, which has to be recorded before the client learns it.
    pub(crate) fn come_back(&mut self, open: OpenId, believes: Option<&Lease>, now: Instant) -> (Granted, bool) {
        let mut back = (None, false);
        self.change_of(open, |grant| {
            grant.renew_break(now);
            back = grant.come_back(believes);
        });
        // What had all its time.
        self.expire(now);
        match back {
            (Some(lease), is_ahead) if self.held_by(open).is_breaking => (Granted::Lease(lease), is_ahead),
            (_, is_ahead) => (self.granted_to(open), is_ahead),
        }
    }

    /// Gives the notice for a client that was just `answered` what an open has, where that is not the whole truth.
    pub(crate) fn remind(&mut self, open: OpenId, answered: &Granted, now: Instant, notices: &mut Vec<Notice>) {
        let answered = match answered {
            Granted::Lease(lease) => lease.lease_state,
            Granted::Nothing | Granted::Oplock(_) => LeaseState::NONE,
        };
        self.change_of(open, |grant| grant.remind(answered, now, notices));
    }
}

impl Grant {
    /// Gives the answer of a lease that is being broken, and whether its epoch went on.
    fn come_back(&mut self, believes: Option<&Lease>) -> (Option<Lease>, bool) {
        let Some(id) = self.lease_id() else {
            self.is_restored = false;
            return (None, false);
        };
        let mut is_ahead = false;
        if std::mem::take(&mut self.is_restored) {
            is_ahead = self.resume(believes);
            self.breaking.take_if(|breaking| breaking.left.contains(self.held));
        }
        let believed = believes.map_or(LeaseState::NONE, |lease| lease.lease_state);
        let Some(breaking) = self.breaking else {
            if !self.held.contains(believed) {
                self.advance_epoch_by(EPOCHS_TO_FORGET);
                is_ahead = true;
            }
            return (None, is_ahead);
        };
        let is_writer = self.held.intersects(WRITE);
        if !is_writer && answer_is_all_it_hears(self.form) && !breaking.told.contains(READ) {
            // It would read what it has until the notice comes.
            (self.held, self.breaking) = (breaking.left, None);
            return (None, is_ahead);
        }
        if !is_writer {
            self.advance_epoch_by(EPOCHS_TO_FORGET);
            return (Some(self.answer(id)), true);
        }
        let mut answer = self.answer(id);
        // A client that has heard of the break believes to have no more than is left.
        answer.lease_state = (self.held & believed) | breaking.told;
        if let Some(v2) = &mut answer.v2 {
            let has_heard = believes.and_then(|lease| lease.v2).is_some_and(|known| known.epoch == v2.epoch);
            if !has_heard {
                v2.epoch = v2.epoch.wrapping_sub(1);
            }
        }
        (Some(answer), is_ahead)
    }
}

/// True for a lease without an epoch: nothing but its state can have a client forget what it has read.
fn answer_is_all_it_hears(form: Form) -> bool {
    matches!(form, Form::Lease { v2: None, .. })
}
