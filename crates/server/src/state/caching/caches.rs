//! Who caches what of one file and its streams: grants as opens ask for them, what operations break of them, how clients acknowledge
//! that (MS-SMB2 3.3.5.22), and what is left when opens go or time is over.

use std::time::Instant;

use wire::command::create::OplockLevel;
use wire::context::lease::{Lease, LeaseState};
use wire::status::Status;

use crate::state::open_id::OpenId;

use super::grant::{Form, Grant};
use super::grants::Grants;
use super::{
    ALL, Actor, Granted, HANDLE, Held, Holder, LeaseId, NONE, Notice, NoticeKind, Operation, READ, READ_HANDLE,
    READ_WRITE, Surroundings, Unacknowledged, WRITE, Wanted,
};

/// All oplocks and leases of one file and its streams.
#[derive(Default)]
pub(crate) struct Caches {
    pub(super) grants: Grants,
}

impl Caches {
    /// True where nobody caches anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// Breaks what `operation` by `actor` is in conflict with: of the stream, or of all streams where it is done to the file. Gives until
    /// when it has to wait for acknowledgements, at most.
    pub(crate) fn contend(
        &mut self,
        stream: &str,
        actor: Actor,
        operation: Operation,
        now: Instant,
        notices: &mut Vec<Notice>,
    ) -> Option<Instant> {
        self.contend_where(operation.reaches(stream), actor, operation, now, notices)
    }

    /// The same on all streams.
    pub(crate) fn contend_everywhere(
        &mut self,
        actor: Actor,
        operation: Operation,
        now: Instant,
        notices: &mut Vec<Notice>,
    ) -> Option<Instant> {
        self.contend_where(None, actor, operation, now, notices)
    }

    fn contend_where(
        &mut self,
        stream: Option<&str>,
        actor: Actor,
        operation: Operation,
        now: Instant,
        notices: &mut Vec<Notice>,
    ) -> Option<Instant> {
        let mut wait = None;
        for slot in self.grants.exposing(stream, operation.takes()) {
            let until = self.grants.change(slot, |grant| {
                let waits = grant.contend(actor, operation, now, notices);
                grant.breaking.filter(|_| waits).map(|breaking| breaking.until)
            });
            wait = wait.max(until.flatten());
        }
        wait
    }

    /// True where a batch oplock of another open, of a stream that `operation` is done to, is held or being broken.
    pub(crate) fn has_batch_of_others(&self, stream: &str, actor: Actor, operation: Operation) -> bool {
        let is_batch = |grant: &Grant| grant.form == Form::Oplock(OplockLevel::BATCH);
        self.grants.has_exposing(operation.reaches(stream), WRITE, |grant| is_batch(grant) && !grant.belongs_to(actor))
    }

    /// Grants what can be granted of `wanted` to an open that has just been made.
    pub(crate) fn request(&mut self, stream: &str, holder: Holder, wanted: &Wanted, around: Surroundings) -> Granted {
        match wanted {
            Wanted::Nothing => Granted::Nothing,
            Wanted::Oplock(level) => self.request_oplock(stream, holder, *level, around),
            Wanted::Lease(id, lease) => self.request_lease(stream, holder, *id, lease, around),
        }
    }

    fn request_oplock(&mut self, stream: &str, holder: Holder, level: OplockLevel, around: Surroundings) -> Granted {
        let exclusive = match level {
            OplockLevel::EXCLUSIVE | OplockLevel::BATCH => !around.other_opens,
            OplockLevel::II => false,
            _ => return Granted::Nothing,
        };
        let (level, held) = match level {
            OplockLevel::BATCH if exclusive => (level, ALL),
            OplockLevel::EXCLUSIVE if exclusive => (level, READ_WRITE),
            _ => (OplockLevel::II, READ),
        };
        let keeps_handles = || self.grants.has_exposing(Some(stream), HANDLE, |grant| grant.held.intersects(HANDLE));
        if !exclusive && (!self.may_share(stream, around, None) || keeps_handles()) {
            return Granted::Nothing;
        }
        self.grants.add(Grant::of_oplock(stream, level, held, holder));
        Granted::Oplock(level)
    }

    /// Handling the lease context (MS-SMB2 3.3.5.9.8, 3.3.5.9.11): what cannot be had whole is asked for without write, then without
    /// handle caching.
    fn request_lease(
        &mut self,
        stream: &str,
        holder: Holder,
        id: LeaseId,
        asked: &Lease,
        around: Surroundings,
    ) -> Granted {
        let slot = self.grants.of_lease(id);
        let known = slot.and_then(|slot| self.grants.get(slot));
        let held = known.map_or(NONE, |grant| grant.held);
        let breaking = known.is_some_and(|grant| grant.breaking.is_some());
        let reduced = [asked.lease_state, asked.lease_state.without(WRITE), asked.lease_state & READ];
        // What is to grow grows as far as it was asked to, or not at all.
        let tried = if held.is_empty() { &reduced[..] } else { &reduced[..1] };
        let grantable = |state: &LeaseState| {
            !breaking && state.contains(held) && *state != held && self.may_lease(stream, *state, id, around)
        };
        let granted = tried.iter().copied().find(grantable);
        let Some(slot) = slot else {
            let mut grant = Grant::of_lease(stream, id, asked, holder);
            let answer = grant.granted(id, granted);
            self.grants.add(grant);
            return Granted::Lease(answer);
        };
        self.grants.join(slot, holder);
        let answer = self.grants.change(slot, |grant| grant.granted(id, granted));
        answer.map_or(Granted::Nothing, Granted::Lease)
    }

    pub(super) fn may_lease(&self, stream: &str, state: LeaseState, id: LeaseId, around: Surroundings) -> bool {
        match state {
            ALL | READ_WRITE => !around.other_opens,
            READ_HANDLE => self.may_share(stream, around, Some(id)) && !self.grants.has_level_two(stream),
            READ => self.may_share(stream, around, Some(id)),
            // The other combinations have no meaning.
            _ => false,
        }
    }

    /// True where read caching can be shared: no locks, and nobody else who caches writes.
    fn may_share(&self, stream: &str, around: Surroundings, id: Option<LeaseId>) -> bool {
        let is_other = |grant: &Grant| id.is_none() || grant.lease_id() != id;
        let caches_writes = |grant: &Grant| is_other(grant) && grant.held.intersects(WRITE);
        !around.has_locks && !self.grants.has_exposing(Some(stream), WRITE, caches_writes)
    }

    /// An open acknowledges the break of its oplock (MS-SMB2 3.3.5.22.1): gives the level that is left.
    pub(crate) fn acknowledge_oplock(&mut self, open: OpenId, level: OplockLevel) -> Result<OplockLevel, Status> {
        let own = self.grants.of_open(open).and_then(|slot| Some((slot, self.grants.get(slot)?)));
        // Level II is broken without being asked: who acknowledges that has none left.
        let own = own.filter(|(_, grant)| grant.lease_id().is_none());
        let (slot, grant) = own.ok_or(Status::INVALID_OPLOCK_PROTOCOL)?;
        let breaking = grant.breaking.ok_or(Status::INVALID_DEVICE_STATE)?;
        let was_batch = grant.form == Form::Oplock(OplockLevel::BATCH);
        let (left, held) = match level {
            OplockLevel::II if breaking.told == READ => (OplockLevel::II, READ),
            _ => (OplockLevel::NONE, NONE),
        };
        self.grants.change(slot, |grant| {
            (grant.form, grant.held, grant.breaking) = (Form::Oplock(left), held, None);
        });
        match level {
            OplockLevel::LEASE => Err(Status::INVALID_PARAMETER),
            OplockLevel::II | OplockLevel::NONE => Ok(left),
            OplockLevel::EXCLUSIVE if was_batch => Ok(left),
            _ => Err(Status::INVALID_OPLOCK_PROTOCOL),
        }
    }

    /// A client acknowledges the break of its lease (MS-SMB2 3.3.5.22.2).
    pub(crate) fn acknowledge_lease(
        &mut self,
        id: LeaseId,
        state: LeaseState,
        now: Instant,
        notices: &mut Vec<Notice>,
    ) -> Result<LeaseState, Status> {
        let slot = self.grants.of_lease(id).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
        let acknowledged = self.grants.change(slot, |grant| {
            let breaking = grant.breaking.ok_or(Status::UNSUCCESSFUL)?;
            if !breaking.told.contains(state) {
                return Err(Status::REQUEST_NOT_ACCEPTED);
            }
            grant.breaking = None;
            grant.held = state;
            if !breaking.left.contains(state) {
                grant.go_on_breaking(breaking, now, notices);
            }
            Ok(state)
        });
        acknowledged.unwrap_or(Err(Status::OBJECT_NAME_NOT_FOUND))
    }

    /// The opens under a lease whose ids are above `after`, the lowest first.
    pub(crate) fn holders_of(&self, id: LeaseId, after: OpenId) -> impl Iterator<Item = Holder> {
        self.lease(id).into_iter().flat_map(move |grant| grant.holders.after(after))
    }

    /// True where the break of a lease is not over.
    pub(crate) fn is_breaking(&self, id: LeaseId) -> bool {
        self.lease(id).is_some_and(|grant| grant.breaking.is_some())
    }

    /// True where the client has not answered a notice.
    pub(crate) fn awaits_answer(&self, notice: &NoticeKind) -> bool {
        match *notice {
            NoticeKind::Oplock { open, .. } => {
                self.of_open(open).is_some_and(|grant| grant.lease_id().is_none() && grant.breaking.is_some())
            }
            NoticeKind::Lease { id, left, .. } => {
                self.lease(id).and_then(|grant| grant.breaking).is_some_and(|breaking| breaking.told == left)
            }
        }
    }

    /// Takes an open out. True where a break ends with that, which others may wait for.
    pub(crate) fn leave(&mut self, open: OpenId) -> bool {
        let Some(slot) = self.grants.of_open(open) else { return false };
        let breaks = |grants: &Grants| grants.get(slot).is_some_and(|grant| grant.breaking.is_some());
        let was_breaking = breaks(&self.grants);
        self.grants.leave(open);
        was_breaking && !breaks(&self.grants)
    }

    /// Who has not acknowledged a break in time, one for each.
    pub(crate) fn overdue(&self, now: Instant) -> Vec<Unacknowledged> {
        let grants = self.grants.overdue(now).into_iter().filter_map(|slot| self.grants.get(slot));
        grants.filter_map(Caches::unacknowledged_of).collect()
    }

    /// Ends the breaks that were not acknowledged in time (MS-SMB2 3.3.6.1, 3.3.6.5): nothing may be cached any more. True where there
    /// were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let overdue = self.grants.overdue(now);
        for slot in &overdue {
            self.grants.change(*slot, Grant::give_up);
        }
        !overdue.is_empty()
    }

    /// Takes all caching away from an open whose client cannot be told (MS-SMB2 3.3.4.6, 3.3.4.7).
    pub(crate) fn give_up(&mut self, open: OpenId) {
        self.change_of(open, Grant::give_up);
    }

    /// Who has not acknowledged a break, one for each, at most so many.
    pub(crate) fn unacknowledged(&self, count_max: usize) -> Vec<Unacknowledged> {
        self.grants.breaking(count_max).into_iter().filter_map(Caches::unacknowledged_of).collect()
    }

    fn unacknowledged_of(grant: &Grant) -> Option<Unacknowledged> {
        let until = grant.breaking?.until;
        Some(Unacknowledged { holder: grant.holders.first()?.clone(), kind: grant.kind(), until })
    }

    /// True where an open of the stream has an oplock.
    pub(crate) fn has_oplock(&self, stream: &str) -> bool {
        self.grants.has_oplock(stream)
    }

    /// What an open holds.
    pub(crate) fn held_by(&self, open: OpenId) -> Held {
        match self.of_open(open) {
            Some(grant) => Held {
                state: grant.held,
                is_batch: grant.form == Form::Oplock(OplockLevel::BATCH),
                lease: grant.lease_id(),
                is_breaking: grant.breaking.is_some(),
            },
            None => Held::default(),
        }
    }

    /// What the response to an open that comes back says of its caching.
    pub(crate) fn granted_to(&self, open: OpenId) -> Granted {
        match self.of_open(open) {
            Some(grant) => match grant.form {
                Form::Oplock(level) => Granted::Oplock(level),
                Form::Lease { id, .. } => Granted::Lease(grant.answer(id)),
            },
            None => Granted::Nothing,
        }
    }

    /// True where the lease has opens here.
    pub(crate) fn has_lease(&self, id: LeaseId) -> bool {
        self.lease(id).is_some()
    }

    /// True where the lease has opens here, of another stream than this.
    pub(crate) fn has_lease_elsewhere(&self, id: LeaseId, stream: &str) -> bool {
        self.lease(id).is_some_and(|grant| grant.stream != stream)
    }

    /// Gives what is cached of a stream its new name.
    pub(crate) fn stream_renamed(&mut self, from: &str, to: &str) {
        self.grants.stream_renamed(from, to);
    }

    /// How many grants were looked at one by one since this was asked last.
    pub(crate) fn take_looks(&self) -> usize {
        self.grants.take_looks()
    }

    fn of_open(&self, open: OpenId) -> Option<&Grant> {
        self.grants.of_open(open).and_then(|slot| self.grants.get(slot))
    }

    fn lease(&self, id: LeaseId) -> Option<&Grant> {
        self.grants.of_lease(id).and_then(|slot| self.grants.get(slot))
    }

    pub(super) fn change_of(&mut self, open: OpenId, change: impl FnOnce(&mut Grant)) {
        if let Some(slot) = self.grants.of_open(open) {
            self.grants.change(slot, change);
        }
    }
}
