//! What is known of a file under its lock: who has it open and how, who caches, who waits.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use store::{SharePath, Store, fold};
use tokio::sync::oneshot;
use wire::security::access::{READ_ATTRIBUTES, READ_CONTROL, SYNCHRONIZE, WRITE_ATTRIBUTES};
use wire::status::Status;

use super::{Entering, Entry, FileEntry, Removal, now};
use crate::access;
use crate::breaks::Wait;
use crate::caching::{ACKNOWLEDGE_WITHIN, Actor, Caches, Holder, LeaseId, Notice, Operation, Surroundings, Wanted};
use crate::locks::RangeLocks;
use crate::open::OpenId;

/// Rights that break no oplock: to look at attributes and change them (MS-FSA 2.1.4.12, OPEN).
const QUIET_FOR_OPLOCKS: u32 = READ_ATTRIBUTES | WRITE_ATTRIBUTES | SYNCHRONIZE;
/// Rights that break no lease.
const QUIET_FOR_LEASES: u32 = QUIET_FOR_OPLOCKS | READ_CONTROL;

#[derive(Default)]
pub(super) struct FileState {
    pub(super) claims: Vec<Claim>,
    /// Streams that go with their last open; the empty name is the file itself.
    pub(super) pending_deletes: Vec<String>,
    /// The open whose close takes the file's name away, whoever else has the file open (FILE_DISPOSITION_POSIX_SEMANTICS).
    pub(super) unlinked_by: Option<OpenId>,
    pub(super) locks: HashMap<String, RangeLocks>,
    pub(super) caches: Caches,
    /// Who waits for acknowledgements of broken oplocks and leases.
    pub(super) waiting: Vec<oneshot::Sender<()>>,
    /// The entry has left the table: look again.
    pub(super) retired: bool,
}

/// What one open has of a file.
pub(super) struct Claim {
    pub(super) open: OpenId,
    pub(super) stream: String,
    pub(super) access: u32,
    pub(super) share: u32,
    pub(super) names: Arc<Mutex<SharePath>>,
    pub(super) store: Arc<dyn Store>,
    pub(super) lease: Option<LeaseId>,
    /// Nobody has the open any more: it closes soon.
    pub(super) is_going: bool,
}

impl FileState {
    pub(super) fn enter(
        &mut self,
        entry: &Entry<'_>,
        file: &Arc<FileEntry>,
        others_stand: bool,
        notices: &mut Vec<Notice>,
    ) -> Entering {
        let now = now();
        let stream = fold(entry.stream);
        if self.is_delete_pending(&stream) {
            return if self.is_going(&stream) {
                Entering::Waits(self.wait(file, now + ACKNOWLEDGE_WITHIN))
            } else {
                Entering::Refused(Status::DELETE_PENDING)
            };
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
        let around = Surroundings {
            other_opens: others_stand || entry.wanted != &Wanted::Nothing && self.has_other_opens(&stream, actor),
            has_locks: self.locks.contains_key(&stream),
        };
        let holder = Holder { open: entry.open, line: Arc::clone(entry.line) };
        let granted = self.caches.request(&stream, holder, entry.wanted, around);
        if self.claims.is_empty() {
            // Most files have one: a vector that grows by itself begins with room for four.
            self.claims.reserve_exact(1);
        }
        self.claims.push(Claim {
            open: entry.open,
            stream,
            access: entry.access,
            share: entry.share,
            names: Arc::clone(entry.names),
            store: Arc::clone(entry.store),
            lease: actor.lease,
            is_going: false,
        });
        Entering::Entered(granted)
    }

    /// True where another open of the stream is in the way of caching writes: who looks at attributes alone and caches nothing is not.
    fn has_other_opens(&self, stream: &str, actor: Actor) -> bool {
        let of_stream = self.claims.iter().filter(|claim| claim.stream == stream);
        let mut others = of_stream.filter(|claim| actor.lease.is_none() || claim.lease != actor.lease);
        others.any(|claim| breaks_leases(claim.access) || claim.lease.is_some()) || self.caches.has_oplock(stream)
    }

    /// True where an open of the lease waits for being closed. What broke of the lease since its client was lost the client was never
    /// told: it gets the lease anew when that is over.
    fn is_lease_going(&self, lease: Option<LeaseId>) -> bool {
        lease.is_some() && self.claims.iter().any(|claim| claim.is_going && claim.lease == lease)
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
        let operation = if entry.overwrites { Operation::Overwrite } else { Operation::Open };
        // A batch oplock breaks before share modes are looked at: its holder may have closed the file long since.
        if breaks_oplocks(entry.access) && self.caches.has_batch_of_others(stream, actor) {
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
        if self.shares_conflict(entry, stream) {
            let against = Operation::OpenAgainstShareMode;
            let mut streams: Vec<_> = self.claims.iter().map(|claim| claim.stream.clone()).collect();
            streams.dedup();
            let waits = streams.iter().filter_map(|stream| self.caches.contend(stream, actor, against, now, notices));
            return waits.max().map(Some).ok_or(Status::SHARING_VIOLATION);
        }
        if !breaks_leases(entry.access) {
            return Ok(None);
        }
        Ok(self.caches.contend(stream, actor, operation, now, notices))
    }

    pub(super) fn shares_conflict(&self, entry: &Entry<'_>, stream: &str) -> bool {
        let wanted = (entry.access, entry.share);
        self.claims.iter().any(|claim| {
            let held = (claim.access, claim.share);
            match (claim.stream.as_str(), stream) {
                (held_stream, wanted_stream) if held_stream == wanted_stream => access::shares_conflict(wanted, held),
                ("", _) => access::deletion_conflicts(claim.access, wanted),
                (_, "") => access::deletion_conflicts(entry.access, held),
                _ => false,
            }
        })
    }

    /// A place among those who wait for acknowledgements.
    pub(super) fn wait(&mut self, file: &Arc<FileEntry>, until: Instant) -> Wait {
        let (sender, changed) = oneshot::channel();
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(sender);
        Wait::new(Arc::clone(file), changed, until)
    }

    /// Has those who wait look again.
    pub(super) fn wake(&mut self) {
        for waiting in self.waiting.drain(..) {
            // Who is gone need not be told.
            let _ = waiting.send(());
        }
    }

    pub(super) fn expire(&mut self, now: Instant) {
        if self.caches.expire(now) {
            self.wake();
        }
    }

    pub(super) fn leave(&mut self, open: OpenId, delete: bool) -> Removal {
        let Some(position) = self.claims.iter().position(|claim| claim.open == open) else {
            return Removal::Nothing;
        };
        let claim = self.claims.swap_remove(position);
        if self.caches.leave(open) || self.claims.is_empty() || !self.waiting.is_empty() {
            self.wake();
        }
        if let Some(locks) = self.locks.get_mut(&claim.stream) {
            locks.release(open);
        }
        if delete && !self.pending_deletes.contains(&claim.stream) {
            self.pending_deletes.push(claim.stream.clone());
        }
        if self.unlinked_by == Some(open) {
            self.unlinked_by = None;
            return Removal::File;
        }
        self.due()
    }

    /// What the departure of an open removes. A file outlives none of its streams' opens.
    pub(super) fn due(&self) -> Removal {
        if self.pending_deletes.iter().any(String::is_empty) {
            return if self.claims.is_empty() { Removal::File } else { Removal::Nothing };
        }
        let is_closed = |stream: &&String| self.claims.iter().all(|claim| claim.stream != **stream);
        self.pending_deletes.iter().find(is_closed).map_or(Removal::Nothing, |stream| Removal::Stream(stream.clone()))
    }

    pub(super) fn is_delete_pending(&self, stream: &str) -> bool {
        self.pending_deletes.iter().any(|name| name.is_empty() || name == stream)
    }

    /// True where nobody has what is delete-pending open any more: its name goes just now, and can be had anew after that.
    pub(super) fn is_going(&self, stream: &str) -> bool {
        let whole = self.pending_deletes.iter().any(String::is_empty);
        self.claims.iter().all(|claim| !whole && claim.stream != stream)
    }
}

fn breaks_oplocks(access: u32) -> bool {
    access & !QUIET_FOR_OPLOCKS != 0
}

fn breaks_leases(access: u32) -> bool {
    access & !QUIET_FOR_LEASES != 0
}
