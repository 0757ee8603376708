//! What is known of a file under its lock: who has it open and how, who caches, who waits.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use store::{SharePath, Store, fold};
use tokio::sync::oneshot;
use wire::security::access::{READ_ATTRIBUTES, READ_CONTROL, SYNCHRONIZE, WRITE_ATTRIBUTES};
use wire::status::Status;

use super::links::{Link, PendingLink, may_be_one};
use super::{Entering, Entry, FileEntry, Removal, now};
use crate::access;
use crate::breaks::Wait;
use crate::caching::{ACKNOWLEDGE_WITHIN, Actor, Caches, Holder, LeaseId, Notice, Operation, Surroundings, Wanted};
use crate::locks::RangeLocks;
use crate::open::{Open, OpenId};

/// Rights that break no oplock: to look at attributes and change them (MS-FSA 2.1.4.12, OPEN).
const QUIET_FOR_OPLOCKS: u32 = READ_ATTRIBUTES | WRITE_ATTRIBUTES | SYNCHRONIZE;
/// Rights that break no lease.
const QUIET_FOR_LEASES: u32 = QUIET_FOR_OPLOCKS | READ_CONTROL;

#[derive(Default)]
pub(super) struct FileState {
    pub(super) claims: Vec<Claim>,
    /// Named streams that go with their last open (MS-FSA Stream.IsDeleted).
    pub(super) pending_streams: Vec<String>,
    /// Names of the file that go with their last open.
    pub(super) pending_links: Vec<PendingLink>,
    /// How many put another file in the place of this one just now: nobody enters meanwhile.
    pub(super) replacing: usize,
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
    /// The name that it was made by, where the file has several.
    pub(super) link: Option<Link>,
    /// The open, where a record of it is kept.
    pub(super) recorded: Weak<Open>,
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
        if self.replacing > 0 {
            return Entering::Waits(self.wait(file, now + ACKNOWLEDGE_WITHIN));
        }
        let link = entry.link.as_ref();
        if self.is_delete_pending(link, &stream) {
            return if self.is_going(link, &stream) {
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
            link: entry.link.clone(),
            recorded: Weak::new(),
            is_going: false,
        });
        Entering::Entered(granted)
    }

    /// True until the open has left.
    pub(super) fn has(&self, open: OpenId) -> bool {
        self.claims.iter().any(|claim| claim.open == open)
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
        if delete && claim.stream.is_empty() {
            self.mark(claim.link.clone());
        } else if delete && !self.pending_streams.contains(&claim.stream) {
            self.pending_streams.push(claim.stream.clone());
        }
        self.due(open, claim.link.as_ref())
    }

    /// What the departure of an open, made by the name `link`, removes. A file outlives none of its streams' opens.
    fn due(&mut self, open: OpenId, link: Option<&Link>) -> Removal {
        let is_open = self.is_open_by(link);
        let mut of_link = self.pending_links.iter_mut().filter(|pending| may_be_one(pending.link.as_ref(), link));
        if let Some(pending) = of_link.find(|pending| !pending.is_going && (!is_open || pending.by.contains(&open))) {
            pending.is_going = true;
            return Removal::File;
        }
        if self.is_link_pending(link) {
            return Removal::Nothing;
        }
        let is_closed = |stream: &&String| self.claims.iter().all(|claim| claim.stream != **stream);
        self.pending_streams.iter().find(is_closed).map_or(Removal::Nothing, |stream| Removal::Stream(stream.clone()))
    }

    /// True where the stream, or the name `link`, goes with its last open. An empty stream is the file itself.
    pub(super) fn is_delete_pending(&self, link: Option<&Link>, stream: &str) -> bool {
        self.is_link_pending(link) || self.pending_streams.iter().any(|name| name == stream)
    }

    /// True where nobody has what is delete-pending open any more: its name goes just now, and can be had anew after that.
    pub(super) fn is_going(&self, link: Option<&Link>, stream: &str) -> bool {
        if self.is_link_pending(link) {
            return !self.is_open_by(link);
        }
        self.claims.iter().all(|claim| claim.stream != stream)
    }

    /// What [`FileState::leave`] gave was tried.
    pub(super) fn removed(&mut self, removal: &Removal) {
        match removal {
            Removal::Nothing => return,
            Removal::File => {
                self.pending_links.retain(|pending| !pending.is_going);
                if self.claims.is_empty() {
                    // Its streams went with it. Its identity may be another file's soon.
                    self.pending_streams.clear();
                }
            }
            Removal::Stream(name) => {
                let stream = fold(name);
                self.pending_streams.retain(|pending| *pending != stream);
            }
        }
        self.wake();
    }

    /// True where nothing has to be known of the file.
    pub(super) fn is_unused(&self) -> bool {
        let is_pending = !self.pending_links.is_empty() || !self.pending_streams.is_empty();
        self.claims.is_empty() && !is_pending && self.replacing == 0
    }
}

fn breaks_oplocks(access: u32) -> bool {
    access & !QUIET_FOR_OPLOCKS != 0
}

fn breaks_leases(access: u32) -> bool {
    access & !QUIET_FOR_LEASES != 0
}
