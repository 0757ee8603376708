//! Who caches what of one file and its streams: grants as opens ask for them, what operations break of them, how clients acknowledge
//! that (MS-SMB2 3.3.5.22), and what is left when opens go or time is over.

use std::time::Instant;

use wire::command::create::OplockLevel;
use wire::context::lease::{Lease, LeaseState};
use wire::status::Status;

use crate::open::OpenId;

use super::grant::{Form, Grant};
use super::{
    ALL, Actor, Granted, HANDLE, Held, Holder, LeaseId, NONE, Notice, NoticeKind, Operation, READ, READ_HANDLE,
    READ_WRITE, Surroundings, WRITE, Wanted,
};

/// All oplocks and leases of one file and its streams.
#[derive(Default)]
pub(crate) struct Caches {
    grants: Vec<Grant>,
}

impl Caches {
    /// True where nobody caches anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// Breaks what `operation` by `actor` is in conflict with. Gives until when it has to wait for acknowledgements, at most.
    pub(crate) fn contend(
        &mut self,
        stream: &str,
        actor: Actor,
        operation: Operation,
        now: Instant,
        notices: &mut Vec<Notice>,
    ) -> Option<Instant> {
        let mut wait = None;
        for grant in self.grants.iter_mut().filter(|grant| grant.stream == stream) {
            if grant.contend(actor, operation, now, notices) {
                wait = wait.max(grant.breaking.map(|breaking| breaking.until));
            }
        }
        self.forget_spent();
        wait
    }

    /// True where a batch oplock of another open is held or being broken.
    pub(crate) fn has_batch_of_others(&self, stream: &str, actor: Actor) -> bool {
        self.grants.iter().any(|grant| {
            grant.stream == stream && grant.form == Form::Oplock(OplockLevel::BATCH) && !grant.belongs_to(actor)
        })
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
        if !exclusive && !self.may_share(stream, around, None, |grant| grant.held.intersects(HANDLE)) {
            return Granted::Nothing;
        }
        let form = Form::Oplock(level);
        self.add(Grant { stream: stream.to_owned(), form, held, breaking: None, holders: vec![holder] });
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
        let known = self.grants.iter().position(|grant| grant.lease_id() == Some(id));
        let held = known.map_or(NONE, |position| self.grants[position].held);
        let breaking = known.is_some_and(|position| self.grants[position].breaking.is_some());
        let reduced = [asked.lease_state, asked.lease_state.without(WRITE), asked.lease_state & READ];
        // What is to grow grows as far as it was asked to, or not at all.
        let tried = if held.is_empty() { &reduced[..] } else { &reduced[..1] };
        let grantable = |state: &LeaseState| {
            !breaking && state.contains(held) && *state != held && self.may_lease(stream, *state, id, around)
        };
        let granted = tried.iter().copied().find(grantable);
        let position = known.unwrap_or_else(|| {
            self.add(Grant::of_lease(stream, id, asked));
            self.grants.len() - 1
        });
        let grant = &mut self.grants[position];
        grant.holders.push(holder);
        if let Some(state) = granted {
            grant.held = state;
            grant.advance_epoch();
        }
        Granted::Lease(grant.answer(id))
    }

    fn add(&mut self, grant: Grant) {
        if self.grants.is_empty() {
            // Most files have one: a vector that grows by itself begins with room for four.
            self.grants.reserve_exact(1);
        }
        self.grants.push(grant);
    }

    fn may_lease(&self, stream: &str, state: LeaseState, id: LeaseId, around: Surroundings) -> bool {
        match state {
            ALL | READ_WRITE => !around.other_opens,
            READ_HANDLE => self.may_share(stream, around, Some(id), Grant::is_level_two),
            READ => self.may_share(stream, around, Some(id), |_| false),
            // The other combinations have no meaning.
            _ => false,
        }
    }

    /// True where read caching can be shared: no locks, nobody who caches writes, and no other grant that `excludes` it.
    fn may_share(
        &self,
        stream: &str,
        around: Surroundings,
        id: Option<LeaseId>,
        excludes: impl Fn(&Grant) -> bool,
    ) -> bool {
        let mut others =
            self.grants.iter().filter(|grant| grant.stream == stream && (id.is_none() || grant.lease_id() != id));
        !around.has_locks && !others.any(|grant| grant.held.intersects(WRITE) || excludes(grant))
    }

    /// An open acknowledges the break of its oplock (MS-SMB2 3.3.5.22.1): gives the level that is left.
    pub(crate) fn acknowledge_oplock(&mut self, open: OpenId, level: OplockLevel) -> Result<OplockLevel, Status> {
        let own = |grant: &&mut Grant| grant.lease_id().is_none() && grant.is_held_by(open);
        // Level II is broken without being asked: who acknowledges that has none left.
        let grant = self.grants.iter_mut().find(own).ok_or(Status::INVALID_OPLOCK_PROTOCOL)?;
        let breaking = grant.breaking.take().ok_or(Status::INVALID_DEVICE_STATE)?;
        let was_batch = grant.form == Form::Oplock(OplockLevel::BATCH);
        (grant.form, grant.held) = match level {
            OplockLevel::II if breaking.told == READ => (Form::Oplock(OplockLevel::II), READ),
            _ => (Form::Oplock(OplockLevel::NONE), NONE),
        };
        let left = if grant.held == READ { OplockLevel::II } else { OplockLevel::NONE };
        self.forget_spent();
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
        let own = |grant: &&mut Grant| grant.lease_id() == Some(id);
        let grant = self.grants.iter_mut().find(own).ok_or(Status::OBJECT_NAME_NOT_FOUND)?;
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
    }

    /// The opens under a lease.
    pub(crate) fn holders_of(&self, id: LeaseId) -> Vec<Holder> {
        let of_lease = self.grants.iter().filter(|grant| grant.lease_id() == Some(id));
        of_lease.flat_map(|grant| grant.holders.iter().cloned()).collect()
    }

    /// True where the break of a lease is not over.
    pub(crate) fn is_breaking(&self, id: LeaseId) -> bool {
        self.grants.iter().any(|grant| grant.lease_id() == Some(id) && grant.breaking.is_some())
    }

    /// True where the client has not answered a notice.
    pub(crate) fn awaits_answer(&self, notice: &NoticeKind) -> bool {
        self.grants.iter().filter_map(|grant| Some((grant, grant.breaking?))).any(|(grant, breaking)| match *notice {
            NoticeKind::Oplock { open, .. } => grant.lease_id().is_none() && grant.is_held_by(open),
            NoticeKind::Lease { id, left, .. } => grant.lease_id() == Some(id) && breaking.told == left,
        })
    }

    /// Takes an open out. True where that may let others go on.
    pub(crate) fn leave(&mut self, open: OpenId) -> bool {
        let Some(position) = self.grants.iter().position(|grant| grant.is_held_by(open)) else { return false };
        let grant = &mut self.grants[position];
        grant.holders.retain(|holder| holder.open != open);
        if grant.holders.is_empty() {
            self.grants.swap_remove(position);
        }
        true
    }

    /// Ends the breaks that were not acknowledged in time (MS-SMB2 3.3.6.1, 3.3.6.5): nothing may be cached any more. True where there
    /// were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let mut expired = false;
        for grant in &mut self.grants {
            if grant.breaking.is_some_and(|breaking| breaking.until <= now) {
                grant.give_up();
                expired = true;
            }
        }
        self.forget_spent();
        expired
    }

    /// Takes the break of what an open has as acknowledged.
    pub(crate) fn settle(&mut self, open: OpenId) {
        for grant in self.grants.iter_mut().filter(|grant| grant.is_held_by(open)) {
            if let Some(breaking) = grant.breaking.take() {
                grant.held = breaking.left;
            }
        }
        self.forget_spent();
    }

    /// Takes all caching away from an open whose client cannot be told (MS-SMB2 3.3.4.6, 3.3.4.7).
    pub(crate) fn give_up(&mut self, open: OpenId) {
        self.grants.iter_mut().filter(|grant| grant.is_held_by(open)).for_each(Grant::give_up);
        self.forget_spent();
    }

    /// True where an open of the stream has an oplock.
    pub(crate) fn has_oplock(&self, stream: &str) -> bool {
        self.grants.iter().any(|grant| grant.stream == stream && grant.lease_id().is_none())
    }

    /// What an open holds.
    pub(crate) fn held_by(&self, open: OpenId) -> Held {
        match self.grants.iter().find(|grant| grant.is_held_by(open)) {
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
        match self.grants.iter().find(|grant| grant.is_held_by(open)) {
            Some(grant) => match grant.form {
                Form::Oplock(level) => Granted::Oplock(level),
                Form::Lease { id, .. } => Granted::Lease(grant.answer(id)),
            },
            None => Granted::Nothing,
        }
    }

    /// True where the lease has opens here.
    pub(crate) fn has_lease(&self, id: LeaseId) -> bool {
        self.grants.iter().any(|grant| grant.lease_id() == Some(id))
    }

    /// Gives what is cached of a stream its new name.
    pub(crate) fn stream_renamed(&mut self, from: &str, to: &str) {
        for grant in self.grants.iter_mut().filter(|grant| grant.stream == from) {
            to.clone_into(&mut grant.stream);
        }
    }

    /// Oplocks that hold nothing are gone; leases stay while they have opens.
    fn forget_spent(&mut self) {
        self.grants.retain(|grant| grant.lease_id().is_some() || !grant.held.is_empty());
    }
}
