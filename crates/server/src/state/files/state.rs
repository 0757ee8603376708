//! What is known of a file under its lock: who has it open and how, who caches, who waits.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use store::{Identity, fold};
use wire::status::Status;

use super::claims::{Claim, Claims, breaks_leases, breaks_oplocks};
use super::links::Link;
use super::name_change::NameChangesWaiting;
use super::pending::Pending;
use super::restored::Recorded;
use super::wait::BreakWait;
use super::waiters::Waiters;
use super::{Empties, Entering, Entry, FileEntry, Removal, now};
use crate::state::caching::{
    ACKNOWLEDGE_WITHIN, Actor, Caches, Holder, LeaseId, Notice, Operation, Surroundings, Wanted,
};
use crate::state::files::share_modes::Modes;
use crate::state::locks::RangeLocks;
use crate::state::open_id::OpenId;

#[derive(Default)]
pub(super) struct FileState {
    pub(super) claims: Claims,
    /// What of it goes with its last open.
    pub(super) pending: Option<Box<Pending>>,
    /// How many put another file in the place of this one just now: nobody enters meanwhile.
    pub(super) replacing: usize,
    /// How many empty it just now: nobody enters a named stream meanwhile.
    pub(super) emptying: usize,
    /// Somebody changes its names, or what is to become of them; others come behind.
    pub(super) name_changes: Option<Box<NameChangesWaiting>>,
    /// The old and the new name of a stream that is being renamed: nobody enters either meanwhile.
    pub(super) renaming_stream: Option<Box<[String; 2]>>,
    /// How many removals are under way that [`FileState::leave`] gave.
    removing: usize,
    pub(super) locks: HashMap<String, RangeLocks>,
    pub(super) caches: Caches,
    /// Which opens there are records of.
    pub(super) recorded: Recorded,
    /// Who waits for acknowledgements of broken oplocks and leases.
    pub(super) waiting: Waiters,
    /// The entry has left the table: look again.
    pub(super) retired: bool,
}

impl FileState {
    pub(super) fn enter(
        &mut self,
        entry: &Entry<'_>,
        file: &Arc<FileEntry>,
        others_stand: bool,
        notices: &mut Vec<Notice>,
    ) -> Entering {
        // Their names may have gone by other ways, so that it has one again: that is not theirs.
        if entry.link.is_none() && !entry.is_directory && self.tells_names() {
            return Entering::Unnamed;
        }
        if self.claims.len() >= entry.opens_max {
            return Entering::Refused(Status::QUOTA_EXCEEDED);
        }
        let now = now();
        let stream = fold(entry.stream);
        let is_renamed = self.renaming_stream.as_ref().is_some_and(|names| names.contains(&stream));
        if self.replacing > 0 || is_renamed || self.emptying > 0 && !stream.is_empty() {
            return Entering::Waits(self.wait(file, now + ACKNOWLEDGE_WITHIN));
        }
        let link = entry.link.as_ref();
        if self.is_delete_pending(link, &stream) {
            if !self.is_going(link, &stream) {
                return Entering::Refused(Status::DELETE_PENDING);
            }
            if self.removing > 0 {
                return Entering::Waits(self.wait(file, now + ACKNOWLEDGE_WITHIN));
            }
            self.drop_mark(link, &stream, file.identity);
        }
        self.expire(now);
        let actor = Actor { open: entry.open, lease: entry.wanted.lease() };
        if self.is_lease_going(actor.lease) {
            return Entering::Waits(self.wait(file, now + ACKNOWLEDGE_WITHIN));
        }
        match self.make_room(entry, &stream, actor, now, notices) {
            Err(status) => return Entering::Refused(status),
            Ok(Some(until)) => return Entering::Waits(self.wait(file, until)),
            Ok(None) => {}
        }
        let outdated = self.outdated(entry.access, &stream, actor);
        if !outdated.is_empty() {
            return Entering::Waits(self.wait(file, now + ACKNOWLEDGE_WITHIN).for_records(outdated));
        }
        let around = Surroundings {
            other_opens: others_stand || entry.wanted != &Wanted::Nothing && self.has_other_opens(&stream, actor),
            has_locks: self.locks.contains_key(&stream),
        };
        let holder = Holder { open: entry.open, line: Arc::clone(entry.line) };
        let granted = self.caches.request(&stream, holder, entry.wanted, around);
        self.claim(entry, stream);
        Entering::Entered(granted)
    }

    pub(super) fn claim(&mut self, entry: &Entry<'_>, stream: String) {
        self.claims.insert(Claim {
            open: entry.open,
            stream,
            access: entry.access,
            share: entry.share,
            names: Arc::clone(entry.names),
            store: Arc::clone(entry.store),
            lease: entry.wanted.lease(),
            link: entry.link.clone(),
            recorded: Weak::new(),
            is_restored: false,
            is_going: false,
        });
    }

    /// True until the open has left.
    pub(super) fn has(&self, open: OpenId) -> bool {
        self.claims.get(open).is_some()
    }

    /// True where another open of the stream is in the way of caching writes: who looks at attributes alone and caches nothing is not.
    pub(super) fn has_other_opens(&self, stream: &str, actor: Actor) -> bool {
        self.claims.has_loud_others(stream, actor.lease) || self.caches.has_oplock(stream)
    }

    /// True where an open of the lease waits for being closed. What broke of the lease since its client was lost the client was never
    /// told: it gets the lease anew when that is over.
    fn is_lease_going(&self, lease: Option<LeaseId>) -> bool {
        lease.is_some_and(|lease| self.claims.is_lease_going(lease))
    }

    /// Checks share modes and breaks the oplocks and leases in the way (MS-FSA 2.1.5.1.2). Gives until when to wait for that.
    pub(super) fn make_room(
        &mut self,
        entry: &Entry<'_>,
        stream: &str,
        actor: Actor,
        now: Instant,
        notices: &mut Vec<Notice>,
    ) -> Result<Option<Instant>, Status> {
        let operation = match entry.empties {
            Empties::Nothing => Operation::Open,
            Empties::Overwrites | Empties::Supersedes => Operation::Overwrite,
        };
        // A batch oplock breaks before share modes are looked at: its holder may have closed the file long since.
        if breaks_oplocks(entry.access) && self.caches.has_batch_of_others(stream, actor, operation) {
            let wait = self.caches.contend(stream, actor, operation, now, notices);
            if wait.is_some() {
                return Ok(wait);
            }
        }
        if entry.deletes {
            let wait = self.caches.contend(stream, actor, Operation::ChangeOfName, now, notices);
            if wait.is_some() {
                return Ok(wait);
            }
        }
        let modes = Modes::of(entry.access | entry.empties.needs_shared(), entry.share);
        let removes_kept = entry.empties.removes_streams(stream) && self.claims.keep_streams();
        if removes_kept || self.claims.conflict_with(stream, modes) {
            // Of whatever stream: who deletes a file deletes them all.
            let wait = self.caches.contend_everywhere(actor, Operation::OpenAgainstShareMode, now, notices);
            return wait.map(Some).ok_or(Status::SHARING_VIOLATION);
        }
        if !breaks_leases(entry.access) {
            return Ok(None);
        }
        Ok(self.caches.contend(stream, actor, operation, now, notices))
    }

    /// A place among those who wait for acknowledgements.
    pub(super) fn wait(&mut self, file: &Arc<FileEntry>, until: Instant) -> BreakWait {
        BreakWait::new(Arc::clone(file), self.waiting.add(file), until)
    }

    /// Has those who wait look again.
    pub(super) fn wake(&mut self) {
        self.waiting.wake();
    }

    pub(super) fn expire(&mut self, now: Instant) {
        if self.caches.expire(now) {
            self.wake();
        }
    }

    pub(super) fn leave(&mut self, open: OpenId, delete: bool) -> Removal {
        let Some(claim) = self.claims.remove(open) else { return Removal::Nothing };
        self.recorded.forget(&claim);
        if self.caches.leave(open) || self.may_let_in(&claim) {
            self.wake();
        }
        if let Some(locks) = self.locks.get_mut(&claim.stream) {
            locks.release(open);
            self.forget_locks(&claim.stream);
        }
        if delete {
            let pending = self.pending.get_or_insert_default();
            match claim.stream.is_empty() {
                true => drop(pending.links.mark(claim.link.clone())),
                false => pending.streams.insert(&claim.stream),
            }
        }
        let removal = self.due(&claim);
        self.begin_removal(removal)
    }

    fn begin_removal(&mut self, removal: Removal) -> Removal {
        self.removing += usize::from(removal != Removal::Nothing);
        removal
    }

    /// True where somebody may wait for an open that has left, whatever it cached: for its lease, or for what it did not share.
    fn may_let_in(&self, left: &Claim) -> bool {
        let was_going = left.lease.is_some_and(|lease| left.is_going && !self.claims.is_lease_going(lease));
        // Where another one is as much in the way nobody gets in for this one's departure.
        let was_in_the_way = left.modes().takes_part() && !self.claims.has_modes(&left.stream, left.modes());
        self.claims.is_empty() || was_going || was_in_the_way
    }

    /// Where nothing is locked of the stream, nothing is known of its locks.
    pub(super) fn forget_locks(&mut self, stream: &str) {
        if self.locks.get(stream).is_some_and(RangeLocks::is_empty) {
            self.locks.remove(stream);
        }
    }

    /// What the departure of an open removes. Where it is a name and a stream, the stream comes behind it, as there may be other names.
    fn due(&mut self, left: &Claim) -> Removal {
        let Some(pending) = &mut self.pending else { return Removal::Nothing };
        let link = left.link.as_ref();
        if !self.claims.has_stream(&left.stream) {
            pending.streams.closed(&left.stream);
        }
        match pending.links.begin_removal(link, left.open, self.claims.is_open_by(link)) {
            Removal::Nothing => pending.streams.begin_removal(),
            of_name => of_name,
        }
    }

    /// True where the stream, or the name `link`, goes with its last open. An empty stream is the file itself.
    pub(super) fn is_delete_pending(&self, link: Option<&Link>, stream: &str) -> bool {
        self.is_link_pending(link) || self.pending.as_ref().is_some_and(|pending| pending.streams.contains(stream))
    }

    /// True where nobody has what is delete-pending open any more: its name goes just now, and can be had anew after that.
    pub(super) fn is_going(&self, link: Option<&Link>, stream: &str) -> bool {
        if self.is_link_pending(link) {
            return !self.claims.is_open_by(link);
        }
        !self.claims.has_stream(stream)
    }

    /// The same where somebody is at it.
    pub(super) fn is_being_removed(&self, link: Option<&Link>, stream: &str) -> bool {
        self.removing > 0 && self.is_delete_pending(link, stream) && self.is_going(link, stream)
    }

    /// Nobody is left to remove what is marked to go, and nobody removes it: it stays. That must not happen, and must not keep the file
    /// from being opened.
    fn drop_mark(&mut self, link: Option<&Link>, stream: &str, file: Identity) {
        tracing::warn!(name: "deletion_undone", ?file, ?link, stream, "what was to be deleted is still there: nobody had it open any more");
        if let Some(pending) = &mut self.pending {
            if pending.links.contains(link) {
                pending.links.unmark(link);
            }
            pending.streams.remove(stream);
        }
        self.forget_pending();
    }

    /// The same of all that is marked, where nobody has the file open.
    pub(super) fn drop_marks(&mut self, file: Identity) {
        if self.claims.is_empty() && self.removing == 0 && self.pending.take().is_some() {
            tracing::warn!(name: "deletion_undone", ?file, "what was to be deleted is still there: nobody had it open any more");
            self.wake();
        }
    }

    /// What [`FileState::leave`] gave was tried. Gives what is to be removed next.
    pub(super) fn removed(&mut self, removal: &Removal) -> Removal {
        if removal == &Removal::Nothing {
            return Removal::Nothing;
        }
        self.removing -= 1;
        let next = self.pending.as_mut().map_or(Removal::Nothing, |pending| {
            match removal {
                Removal::Nothing => {}
                Removal::File(link) => pending.links.removed(link.as_ref()),
                Removal::Stream(name) => pending.streams.remove(&fold(name)),
            }
            pending.streams.begin_removal()
        });
        let next = self.begin_removal(next);
        self.forget_pending();
        self.wake();
        next
    }

    /// Where nothing is to go, there is nothing to know of that.
    pub(super) fn forget_pending(&mut self) {
        self.pending.take_if(|pending| pending.is_empty());
    }

    /// How many opens, oplocks and leases were looked at one by one since this was asked last.
    pub(super) fn take_looks(&self) -> usize {
        self.claims.take_looks() + self.caches.take_looks()
    }

    /// True where nothing has to be known of the file.
    pub(super) fn is_unused(&self) -> bool {
        self.claims.is_empty()
            && self.pending.is_none()
            && self.replacing == 0
            && self.emptying == 0
            && self.renaming_stream.is_none()
    }
}
