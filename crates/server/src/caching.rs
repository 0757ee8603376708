//! What clients may cache of a file's streams: oplocks and leases, as they are granted, broken and acknowledged (MS-FSA 2.1.4.12,
//! 2.1.5.18, 2.1.5.19; MS-SMB2 3.3.1.12). States and rules alone: who owns a [`Caches`] guards it, sends the notices that its methods
//! give, and lets operations wait.
//!
//! An oplock is a lease that belongs to one open: level II caches reads, exclusive reads and writes, batch handles too.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wire::command::create::OplockLevel;
use wire::context::lease::{Lease, LeaseFlags, LeaseState, LeaseV2};
use wire::ids::Guid;
use wire::status::Status;

use crate::line::Line;
use crate::open::OpenId;

/// How long a client may take to acknowledge a break: what Windows gives it (MS-SMB2 notes 246 and 247).
pub(crate) const ACKNOWLEDGE_WITHIN: Duration = Duration::from_secs(35);

const NONE: LeaseState = LeaseState::NONE;
const READ: LeaseState = LeaseState::READ_CACHING;
const HANDLE: LeaseState = LeaseState::HANDLE_CACHING;
const WRITE: LeaseState = LeaseState::WRITE_CACHING;
const READ_WRITE: LeaseState = READ.union(WRITE);
const READ_HANDLE: LeaseState = READ.union(HANDLE);
const ALL: LeaseState = READ_WRITE.union(HANDLE);

/// Names a lease: keys are the client's own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LeaseId {
    pub(crate) client: Guid,
    pub(crate) key: Guid,
}

/// Who does something to a file: opens of one lease do not break each other's caching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Actor {
    pub(crate) open: OpenId,
    pub(crate) lease: Option<LeaseId>,
}

/// What is done to a file, as far as caching goes (the operations of MS-FSA 2.1.4.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// An open.
    Open,
    /// An open that empties the file.
    Overwrite,
    /// An open that another one's share mode is in the way of.
    OpenAgainstShareMode,
    /// A write, a lock, a new length: what others have read is no longer true.
    Change,
    /// A rename, deletion or new security descriptor: what others keep open for later is no longer true.
    ChangeOfName,
    /// Of a directory: something in it came, went or changed.
    ChangeOfEntry,
}

impl Operation {
    fn takes(self) -> LeaseState {
        match self {
            Operation::Open => WRITE,
            Operation::Overwrite | Operation::Change | Operation::ChangeOfEntry => READ_WRITE,
            Operation::OpenAgainstShareMode | Operation::ChangeOfName => HANDLE,
        }
    }

    /// What an exclusive or batch oplock breaks to; `None` where it stays.
    fn oplock_left(self) -> Option<LeaseState> {
        match self {
            Operation::Open => Some(READ),
            Operation::Overwrite | Operation::Change => Some(NONE),
            Operation::OpenAgainstShareMode | Operation::ChangeOfName | Operation::ChangeOfEntry => None,
        }
    }
}

/// What an open asks to cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wanted {
    #[default]
    Nothing,
    /// One of the three levels.
    Oplock(OplockLevel),
    Lease(LeaseId, Lease),
}

impl Wanted {
    /// What is left of it where the file is a directory (MS-SMB2 3.3.5.9.11): a lease of version 2 that caches no writes.
    pub(crate) fn of_directory(self) -> Wanted {
        match self {
            Wanted::Lease(id, lease) if lease.v2.is_some() => {
                Wanted::Lease(id, Lease { lease_state: lease.lease_state.without(WRITE), ..lease })
            }
            Wanted::Nothing | Wanted::Oplock(_) | Wanted::Lease(..) => Wanted::Nothing,
        }
    }

    /// The lease, where one is asked for.
    pub(crate) fn lease(&self) -> Option<LeaseId> {
        match self {
            Wanted::Nothing | Wanted::Oplock(_) => None,
            Wanted::Lease(id, _) => Some(*id),
        }
    }
}

/// What an open was given, as its response says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Granted {
    #[default]
    Nothing,
    Oplock(OplockLevel),
    Lease(Lease),
}

/// What else there is of the stream that an open asks to cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings {
    /// Opens that do not belong to the same lease.
    pub(crate) other_opens: bool,
    pub(crate) has_locks: bool,
}

/// What an open's oplock or lease holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) state: LeaseState,
    pub(crate) is_batch: bool,
    pub(crate) lease: Option<LeaseId>,
    /// It is to be given up, at least in part.
    pub(crate) is_breaking: bool,
}

impl Held {
    /// True where an open may be durable, and is kept when its client is lost (MS-SMB2 3.3.7.1).
    pub(crate) fn keeps(&self) -> bool {
        !self.is_breaking
            && match self.lease {
                Some(_) => self.state.contains(HANDLE),
                None => self.is_batch,
            }
    }
}

/// A message to a client, to be sent when the file is no longer locked.
#[derive(Clone)]
pub(crate) struct Notice {
    pub(crate) kind: NoticeKind,
    /// Whose caching breaks.
    pub(crate) holders: Vec<Holder>,
}

/// What a notice says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeKind {
    Oplock { open: OpenId, left: OplockLevel, must_acknowledge: bool },
    Lease { id: LeaseId, epoch: u16, held: LeaseState, left: LeaseState, must_acknowledge: bool },
}

impl NoticeKind {
    /// True where the client has a say.
    pub(crate) fn must_acknowledge(&self) -> bool {
        match self {
            NoticeKind::Oplock { must_acknowledge, .. } | NoticeKind::Lease { must_acknowledge, .. } => {
                *must_acknowledge
            }
        }
    }

    /// True where the client may go on keeping handles.
    pub(crate) fn keeps_handles(&self) -> bool {
        match self {
            NoticeKind::Oplock { .. } => false,
            NoticeKind::Lease { left, .. } => left.contains(HANDLE),
        }
    }
}

/// An open that has caching.
#[derive(Clone)]
pub(crate) struct Holder {
    pub(crate) open: OpenId,
    pub(crate) line: Arc<Line>,
}

/// All oplocks and leases of one file and its streams.
#[derive(Default)]
pub(crate) struct Caches {
    grants: Vec<Grant>,
}

/// One oplock or lease.
struct Grant {
    stream: String,
    form: Form,
    held: LeaseState,
    breaking: Option<Breaking>,
    holders: Vec<Holder>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Oplock(OplockLevel),
    Lease { id: LeaseId, v2: Option<LeaseV2> },
}

/// A break that was not acknowledged yet.
#[derive(Clone, Copy, Debug)]
struct Breaking {
    /// What was held when it began: who waits for that waits to the end.
    from: LeaseState,
    /// What the client was told that it may keep.
    told: LeaseState,
    /// What operations that did not wait have left of that meanwhile.
    left: LeaseState,
    until: Instant,
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

impl Grant {
    fn of_lease(stream: &str, id: LeaseId, asked: &Lease) -> Self {
        let form = Form::Lease { id, v2: asked.v2.map(|v2| parent_only(v2, asked.flags)) };
        Grant { stream: stream.to_owned(), form, held: NONE, breaking: None, holders: Vec::with_capacity(1) }
    }

    fn lease_id(&self) -> Option<LeaseId> {
        match self.form {
            Form::Oplock(_) => None,
            Form::Lease { id, .. } => Some(id),
        }
    }

    fn is_held_by(&self, open: OpenId) -> bool {
        self.holders.iter().any(|holder| holder.open == open)
    }

    fn belongs_to(&self, actor: Actor) -> bool {
        match self.form {
            Form::Oplock(_) => self.is_held_by(actor.open),
            Form::Lease { id, .. } => actor.lease == Some(id),
        }
    }

    fn is_level_two(&self) -> bool {
        self.form == Form::Oplock(OplockLevel::II)
    }

    /// True where the operation has to wait.
    fn contend(&mut self, actor: Actor, operation: Operation, now: Instant, notices: &mut Vec<Notice>) -> bool {
        let taken = operation.takes();
        if self.is_level_two() {
            // Whoever changes the file breaks them all, its own too; who empties it has its own from then on.
            let spared = operation == Operation::Overwrite && self.belongs_to(actor);
            if taken.contains(READ) && !spared {
                self.begin_break(NONE, now, notices);
            }
            return false;
        }
        if self.belongs_to(actor) {
            return false;
        }
        match (self.form, self.contended().contains(WRITE)) {
            (Form::Oplock(_), _) => self.contend_oplock(operation, now, notices),
            (Form::Lease { .. }, true) => self.contend_exclusive(taken, now, notices),
            (Form::Lease { .. }, false) => self.contend_shared(taken, now, notices),
        }
    }

    /// What operations find in their way.
    fn contended(&self) -> LeaseState {
        self.breaking.map_or(self.held, |breaking| breaking.from)
    }

    fn contend_oplock(&mut self, operation: Operation, now: Instant, notices: &mut Vec<Notice>) -> bool {
        let Some(left) = operation.oplock_left() else { return false };
        if self.breaking.is_none() {
            self.begin_break(left, now, notices);
        }
        true
    }

    fn contend_exclusive(&mut self, taken: LeaseState, now: Instant, notices: &mut Vec<Notice>) -> bool {
        if !self.contended().intersects(taken) {
            return false;
        }
        let left = if taken.contains(READ) { NONE } else { self.held.without(taken) };
        match &mut self.breaking {
            Some(breaking) => breaking.left = breaking.left & left,
            None => self.begin_break(left, now, notices),
        }
        true
    }

    /// Who caches reads and handles is not waited for where only the reads go.
    fn contend_shared(&mut self, taken: LeaseState, now: Instant, notices: &mut Vec<Notice>) -> bool {
        if !self.held.intersects(taken) {
            return false;
        }
        let left = if taken.contains(READ) { NONE } else { self.held.without(taken) };
        match &mut self.breaking {
            Some(breaking) => breaking.left = breaking.left & left,
            None => self.begin_break(left, now, notices),
        }
        taken.contains(HANDLE) && self.breaking.is_some()
    }

    /// Tells the client. Who caches nothing but reads loses them at once, others when they have acknowledged.
    fn begin_break(&mut self, left: LeaseState, now: Instant, notices: &mut Vec<Notice>) {
        self.advance_epoch();
        self.tell(left, now, notices);
    }

    fn tell(&mut self, left: LeaseState, now: Instant, notices: &mut Vec<Notice>) {
        let must_acknowledge = self.held != READ;
        let kind = match self.form {
            Form::Oplock(_) => NoticeKind::Oplock {
                open: self.holders.first().map_or(OpenId(0), |holder| holder.open),
                left: if left == READ { OplockLevel::II } else { OplockLevel::NONE },
                must_acknowledge,
            },
            Form::Lease { id, v2 } => {
                let epoch = v2.map_or(0, |v2| v2.epoch);
                NoticeKind::Lease { id, epoch, held: self.held, left, must_acknowledge }
            }
        };
        notices.push(Notice { kind, holders: self.holders.clone() });
        if must_acknowledge {
            self.breaking = Some(Breaking { from: self.held, told: left, left, until: now + ACKNOWLEDGE_WITHIN });
        } else {
            self.held = left;
        }
    }

    /// More was taken while the break went on. Nobody is made to give up all at once: reads go last, and need no answer.
    fn go_on_breaking(&mut self, before: Breaking, now: Instant, notices: &mut Vec<Notice>) {
        let next = self.held & before.left;
        let by_way_of_reads = next.is_empty() && self.held != READ && self.held.contains(READ);
        // Like Windows: the steps of one break share its epoch.
        self.tell(if by_way_of_reads { READ } else { next }, now, notices);
        if let Some(breaking) = &mut self.breaking {
            // The steps share the time of the first: nobody waits longer than the limit.
            (breaking.from, breaking.left, breaking.until) = (before.from, before.left, before.until);
        }
    }

    fn give_up(&mut self) {
        self.breaking = None;
        self.held = NONE;
    }

    fn advance_epoch(&mut self) {
        if let Form::Lease { v2: Some(v2), .. } = &mut self.form {
            v2.epoch = v2.epoch.wrapping_add(1);
        }
    }

    fn answer(&self, id: LeaseId) -> Lease {
        let v2 = match self.form {
            Form::Lease { v2, .. } => v2,
            Form::Oplock(_) => None,
        };
        let parent = v2.is_some_and(|v2| v2.parent_lease_key != Guid::default());
        let set = |set, flag| if set { flag } else { LeaseFlags::NONE };
        let flags =
            set(self.breaking.is_some(), LeaseFlags::BREAK_IN_PROGRESS) | set(parent, LeaseFlags::PARENT_LEASE_KEY_SET);
        Lease { lease_key: id.key, lease_state: self.held, flags, v2 }
    }
}

/// A parent's key that is not said to be set is none.
fn parent_only(v2: LeaseV2, flags: LeaseFlags) -> LeaseV2 {
    let set = flags.contains(LeaseFlags::PARENT_LEASE_KEY_SET);
    LeaseV2 { parent_lease_key: if set { v2.parent_lease_key } else { Guid::default() }, ..v2 }
}

#[cfg(test)]
mod misuse_tests;
#[cfg(test)]
mod tests;
