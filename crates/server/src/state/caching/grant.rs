//! One oplock or lease of a stream, and what operations take of it: when it breaks, to what, and who waits for that (MS-FSA 2.1.4.12).

use std::time::Instant;

use wire::command::create::OplockLevel;
use wire::context::lease::{Lease, LeaseFlags, LeaseState, LeaseV2};
use wire::ids::Guid;

use crate::state::open_id::OpenId;

use super::holders::Holders;
use super::{
    ACKNOWLEDGE_WITHIN, Actor, CacheKind, HANDLE, Holder, LeaseId, NONE, Notice, NoticeKind, READ, READ_WRITE, WRITE,
};

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
    /// Of what others hold: who holds nothing of that is not in conflict.
    pub(super) fn takes(self) -> LeaseState {
        match self {
            Operation::Open => WRITE,
            Operation::Overwrite | Operation::Change | Operation::ChangeOfEntry => READ_WRITE,
            Operation::OpenAgainstShareMode | Operation::ChangeOfName => HANDLE,
        }
    }

    /// Whose caching it is in conflict with: that of the `stream`, or of all where that is the unnamed one and the file itself is emptied,
    /// renamed, replaced or deleted (MS-FSA 2.1.5.15.12, "For each Stream on TargetLink.File"). Its streams go with it.
    pub(super) fn reaches(self, stream: &str) -> Option<&str> {
        let is_of_file = match self {
            Operation::Overwrite | Operation::ChangeOfName => stream.is_empty(),
            Operation::Open | Operation::OpenAgainstShareMode | Operation::Change | Operation::ChangeOfEntry => false,
        };
        (!is_of_file).then_some(stream)
    }

    /// What an exclusive or batch oplock of `level` breaks to; `None` where it stays.
    fn oplock_left(self, level: OplockLevel) -> Option<LeaseState> {
        match self {
            Operation::Open => Some(READ),
            Operation::Overwrite | Operation::Change => Some(NONE),
            // FileRenameInformation and FileLinkInformation break it. Who opens a file to delete it has broken that of the unnamed stream.
            Operation::ChangeOfName => (level == OplockLevel::BATCH).then_some(NONE),
            Operation::OpenAgainstShareMode | Operation::ChangeOfEntry => None,
        }
    }
}

/// An epoch is newer than another one where it is ahead of it by so much at most (MS-SMB2 3.2.5.7.5).
const EPOCH_AHEAD_MAX: u16 = 0x7FFF;

/// One oplock or lease.
pub(super) struct Grant {
    pub(super) stream: String,
    pub(super) form: Form,
    pub(super) held: LeaseState,
    pub(super) breaking: Option<Breaking>,
    /// It survived the server, and its client is not back.
    pub(super) is_restored: bool,
    pub(super) holders: Holders,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Oplock(OplockLevel),
    Lease { id: LeaseId, v2: Option<LeaseV2> },
}

/// A break that was not acknowledged yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Breaking {
    /// What was held when it began: who waits for that waits to the end.
    from: LeaseState,
    /// What the client was told that it may keep.
    pub(super) told: LeaseState,
    /// What operations that did not wait have left of that meanwhile.
    pub(super) left: LeaseState,
    pub(super) until: Instant,
    /// However often the client is lost meanwhile, nobody waits longer than until then.
    latest: Instant,
}

impl Grant {
    pub(super) fn of_oplock(stream: &str, level: OplockLevel, held: LeaseState, holder: Holder) -> Self {
        let form = Form::Oplock(level);
        Grant {
            stream: stream.to_owned(),
            form,
            held,
            breaking: None,
            is_restored: false,
            holders: Holders::of(holder),
        }
    }

    /// A lease that holds nothing yet.
    pub(super) fn of_lease(stream: &str, id: LeaseId, asked: &Lease, holder: Holder) -> Self {
        let form = Form::Lease { id, v2: asked.v2.map(|v2| parent_only(v2, asked.flags)) };
        Grant {
            stream: stream.to_owned(),
            form,
            held: NONE,
            breaking: None,
            is_restored: false,
            holders: Holders::of(holder),
        }
    }

    /// An open got the lease: with it holds `state`, where that is more. Gives what the client is answered.
    pub(super) fn granted(&mut self, id: LeaseId, state: Option<LeaseState>) -> Lease {
        if let Some(state) = state {
            self.held = state;
            self.advance_epoch();
        }
        self.answer(id)
    }

    /// An oplock that holds nothing is gone. A lease stays while it has opens.
    pub(super) fn is_spent(&self) -> bool {
        self.holders.is_empty() || self.lease_id().is_none() && self.held.is_empty()
    }

    /// What operations may change about it, or have to wait for: one that takes nothing of this need not look at it.
    pub(super) fn exposed(&self) -> LeaseState {
        match (self.form, self.breaking) {
            (Form::Lease { .. }, Some(breaking)) if breaking.from.contains(WRITE) => breaking.from | self.held,
            // Nobody waits for reads, and what is to go already cannot be taken.
            (Form::Lease { .. }, Some(breaking)) if breaking.left.is_empty() => self.held & HANDLE,
            (Form::Lease { .. } | Form::Oplock(_), _) => self.held,
        }
    }

    pub(super) fn lease_id(&self) -> Option<LeaseId> {
        match self.form {
            Form::Oplock(_) => None,
            Form::Lease { id, .. } => Some(id),
        }
    }

    pub(super) fn is_held_by(&self, open: OpenId) -> bool {
        self.holders.contains(open)
    }

    pub(super) fn belongs_to(&self, actor: Actor) -> bool {
        match self.form {
            Form::Oplock(_) => self.is_held_by(actor.open),
            Form::Lease { id, .. } => actor.lease == Some(id),
        }
    }

    pub(super) fn is_level_two(&self) -> bool {
        self.form == Form::Oplock(OplockLevel::II)
    }

    /// True where the operation has to wait.
    pub(super) fn contend(
        &mut self,
        actor: Actor,
        operation: Operation,
        now: Instant,
        notices: &mut Vec<Notice>,
    ) -> bool {
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
            (Form::Oplock(level), _) => self.contend_oplock(operation.oplock_left(level), now, notices),
            (Form::Lease { .. }, true) => self.contend_exclusive(taken, now, notices),
            (Form::Lease { .. }, false) => self.contend_shared(taken, now, notices),
        }
    }

    pub(super) fn kind(&self) -> CacheKind {
        match self.form {
            Form::Oplock(_) => CacheKind::Oplock,
            Form::Lease { .. } => CacheKind::Lease,
        }
    }

    /// What operations find in their way.
    pub(super) fn contended(&self) -> LeaseState {
        self.breaking.map_or(self.held, |breaking| breaking.from)
    }

    fn contend_oplock(&mut self, left: Option<LeaseState>, now: Instant, notices: &mut Vec<Notice>) -> bool {
        let Some(left) = left else { return false };
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
        notices.push(self.notice(self.held, left, must_acknowledge));
        if must_acknowledge {
            let (until, latest) = (now + ACKNOWLEDGE_WITHIN, now + ACKNOWLEDGE_WITHIN * 2);
            self.breaking = Some(Breaking { from: self.held, told: left, left, until, latest });
        } else {
            self.held = left;
        }
    }

    fn notice(&self, held: LeaseState, left: LeaseState, must_acknowledge: bool) -> Notice {
        let kind = match self.form {
            Form::Oplock(_) => NoticeKind::Oplock {
                open: self.holders.first().map_or(OpenId(0), |holder| holder.open),
                left: if left == READ { OplockLevel::II } else { OplockLevel::NONE },
                must_acknowledge,
            },
            Form::Lease { id, v2 } => {
                let epoch = v2.map_or(0, |v2| v2.epoch);
                NoticeKind::Lease { id, epoch, held, left, must_acknowledge }
            }
        };
        let holder = match self.form {
            Form::Oplock(_) => self.holders.first().cloned(),
            Form::Lease { .. } => None,
        };
        Notice { kind, holder }
    }

    /// The client of a break that is not over is there again: it has as long for its answer as if the break began now, but for the limit.
    pub(super) fn renew_break(&mut self, now: Instant) {
        if let Some(breaking) = &mut self.breaking {
            breaking.until = (now + ACKNOWLEDGE_WITHIN).min(breaking.latest);
        }
    }

    /// Tells the client again of a break that is not over, and of what it has lost since it was told that it has `answered`: with an epoch that is
    /// ahead of whatever it knows (MS-SMB2 3.2.5.19.2).
    pub(super) fn remind(&mut self, answered: LeaseState, now: Instant, notices: &mut Vec<Notice>) {
        if let Some(breaking) = self.breaking {
            self.advance_epoch();
            self.renew_break(now);
            notices.push(self.notice(self.held, breaking.told, true));
        } else if !self.held.contains(answered) {
            self.advance_epoch();
            notices.push(self.notice(answered, self.held, false));
        }
    }

    /// More was taken while the break went on. Nobody is made to give up all at once: reads go last, and need no answer.
    pub(super) fn go_on_breaking(&mut self, before: Breaking, now: Instant, notices: &mut Vec<Notice>) {
        let next = self.held & before.left;
        let by_way_of_reads = next.is_empty() && self.held != READ && self.held.contains(READ);
        // Like Windows: the steps of one break share its epoch.
        self.tell(if by_way_of_reads { READ } else { next }, now, notices);
        if let Some(breaking) = &mut self.breaking {
            // The steps share the time of the first: nobody waits longer than the limit.
            (breaking.from, breaking.left) = (before.from, before.left);
            (breaking.until, breaking.latest) = (before.until, before.latest);
        }
    }

    pub(super) fn give_up(&mut self) {
        self.breaking = None;
        self.held = NONE;
    }

    /// Loses what an operation is in conflict with, and all that its client could not be told of: that it has to read again.
    pub(super) fn lose(&mut self, operation: Operation) {
        let taken = operation.takes();
        if self.held.intersects(taken) {
            let can_be_told = matches!(self.form, Form::Lease { v2: Some(_), .. });
            self.held = if taken.contains(READ) || !can_be_told { NONE } else { self.held.without(taken) };
        }
    }

    pub(super) fn advance_epoch(&mut self) {
        self.advance_epoch_by(1);
    }

    pub(super) fn advance_epoch_by(&mut self, steps: u16) {
        if let Form::Lease { v2: Some(v2), .. } = &mut self.form {
            v2.epoch = v2.epoch.wrapping_add(steps);
        }
    }

    /// Goes on to an epoch, unless it is behind (MS-SMB2 3.2.5.7.5, Δepoch).
    pub(super) fn reach_epoch(&mut self, epoch: u16) {
        if let Form::Lease { v2: Some(v2), .. } = &mut self.form
            && epoch.wrapping_sub(v2.epoch) <= EPOCH_AHEAD_MAX
        {
            v2.epoch = epoch;
        }
    }

    pub(super) fn answer(&self, id: LeaseId) -> Lease {
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
mod tests {
    use super::super::{ALL, READ_HANDLE};
    use super::*;
    use crate::state::session_link::SessionLink;

    const OPERATIONS: [Operation; 6] = [
        Operation::Open,
        Operation::Overwrite,
        Operation::OpenAgainstShareMode,
        Operation::Change,
        Operation::ChangeOfName,
        Operation::ChangeOfEntry,
    ];
    const STATES: [LeaseState; 5] = [NONE, READ, READ_WRITE, READ_HANDLE, ALL];

    fn grant(form: Form, held: LeaseState, breaking: Option<Breaking>) -> Grant {
        let holder = Holder { open: OpenId(1), line: SessionLink::down() };
        Grant { stream: String::new(), form, held, breaking, is_restored: false, holders: Holders::of(holder) }
    }

    /// Every grant there can be: what breaks was held, and what is left of it is no more than was told.
    fn all() -> Vec<Grant> {
        let now = Instant::now();
        let lease = Form::Lease {
            id: LeaseId { client: Guid([1; 16]), user: crate::state::user::UserId(1), key: Guid([1; 16]) },
            v2: None,
        };
        let oplocks = [(OplockLevel::II, READ), (OplockLevel::EXCLUSIVE, READ_WRITE), (OplockLevel::BATCH, ALL)];
        let breaking = |from, told, left| Some(Breaking { from, told, left, until: now, latest: now });
        let mut grants: Vec<_> =
            oplocks.into_iter().map(|(level, held)| grant(Form::Oplock(level), held, None)).collect();
        for (level, held) in &oplocks[1..] {
            grants.extend([NONE, READ].map(|left| grant(Form::Oplock(*level), *held, breaking(*held, left, left))));
        }
        grants.extend(STATES.map(|held| grant(lease, held, None)));
        for from in STATES {
            for held in STATES.into_iter().filter(|held| from.contains(*held) && *held != NONE) {
                for told in STATES.into_iter().filter(|told| held.contains(*told) && *told != held) {
                    for left in STATES.into_iter().filter(|left| told.contains(*left)) {
                        grants.push(grant(lease, held, breaking(from, told, left)));
                    }
                }
            }
        }
        grants
    }

    #[test]
    fn what_takes_nothing_that_is_exposed_changes_nothing() {
        let seen = |grant: &Grant| format!("{:?} {:?} {:?}", grant.form, grant.held, grant.breaking);
        for operation in OPERATIONS {
            let actor = Actor { open: OpenId(2), lease: None };
            for mut grant in all().into_iter().filter(|grant| !grant.exposed().intersects(operation.takes())) {
                let (before, mut notices) = (seen(&grant), Vec::new());
                assert!(!grant.contend(actor, operation, Instant::now(), &mut notices), "{operation:?} {before}");
                assert!(notices.is_empty(), "{operation:?} {before}");
                assert_eq!(seen(&grant), before, "{operation:?}");
            }
        }
    }
}
