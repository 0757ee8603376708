//! Opens that survived the server enter the table again, and what is recorded of persistent opens follows what they cache.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use store::{Identity, fold};
use wire::command::create::OplockLevel;
use wire::context::lease::{Lease, LeaseState};
use wire::status::Status;

use super::claims::{Claim, breaks_oplocks};
use super::state::FileState;
use super::{Entering, Entry, FileEntry, FileTable, now};
use crate::state::caching::{
    ACKNOWLEDGE_WITHIN, Actor, Granted, Holder, LeaseId, Notice, Notices, Operation, Surroundings, Wanted,
};
use crate::state::files::share_modes::Modes;
use crate::state::open::Open;
use crate::state::open_id::OpenId;

impl FileTable {
    /// Enters an open that survived the server, beside others that did: what they cached is in nobody's way, whichever comes first. Of those
    /// whose clients are here it waits for what others would wait for. The notices must be sent whatever comes of it.
    pub(crate) fn restore(&self, identity: Identity, entry: &Entry<'_>) -> (Arc<FileEntry>, Entering, Notices) {
        loop {
            let file = self.find_or_insert(identity);
            let mut state = file.state.lock();
            if state.retired {
                continue;
            }
            let mut notices = Notices::default();
            let entering = match self.admits_lease(&file, &state, entry) {
                Err(status) => Entering::Refused(status),
                Ok(()) => state.restore(entry, &file, &mut notices.told),
            };
            if let Entering::Entered(..) = &entering {
                self.note_entered(&file, entry);
            }
            file.note_caches(&state);
            self.retire_if_unused(&file, state);
            return (file, entering, notices);
        }
    }
}

impl FileState {
    /// A file that is to be deleted takes it, too: it was open before.
    fn restore(&mut self, entry: &Entry<'_>, file: &Arc<FileEntry>, notices: &mut Vec<Notice>) -> Entering {
        let now = now();
        let stream = fold(entry.stream);
        let link = entry.link.as_ref();
        if self.replacing > 0 || self.is_being_removed(link, &stream) {
            return Entering::Waits(self.wait(file, now + ACKNOWLEDGE_WITHIN));
        }
        self.expire(now);
        let actor = Actor { open: entry.open, lease: entry.wanted.lease() };
        // They cannot both be true: what was recorded later is here first.
        if self.claims.conflict_with_restored(&stream, Modes::of(entry.access, entry.share)) {
            return Entering::Refused(Status::SHARING_VIOLATION);
        }
        if breaks_oplocks(entry.access) {
            self.caches.take_from_restored(&stream, actor, Operation::Open);
        }
        match self.make_room(entry, &stream, actor, now, notices) {
            Err(status) => return Entering::Refused(status),
            Ok(Some(until)) => return Entering::Waits(self.wait(file, until)),
            Ok(None) => {}
        }
        let around = Surroundings {
            other_opens: self.has_other_opens(&stream, actor),
            has_locks: self.locks.contains_key(&stream),
        };
        let holder = Holder { open: entry.open, line: Arc::clone(entry.line) };
        self.caches.restore(&stream, holder, entry.wanted, around);
        let as_writer = match entry.wanted {
            Wanted::Nothing => false,
            Wanted::Oplock(level) => level_caches_writes(*level),
            Wanted::Lease(_, lease) => lease.lease_state.intersects(LeaseState::WRITE_CACHING),
        };
        self.claim(entry, stream);
        self.claims.change(entry.open, |claim| claim.is_restored = true);
        self.note_writer(entry.open, as_writer);
        Entering::Entered(self.caches.granted_to(entry.open))
    }

    /// Opens whose records say that they cache writes of the stream, which they do no longer: whoever enters waits until the records say so,
    /// or they would have that again after a kill, and what they have read, though somebody else has changed the file.
    pub(super) fn outdated(&self, access: u32, stream: &str, actor: Actor) -> Vec<Arc<Open>> {
        if !breaks_oplocks(access) {
            return Vec::new();
        }
        let by_lease = self.recorded.writers.get(stream).into_iter().flatten();
        let others =
            by_lease.filter(|(lease, _)| lease.is_none() || **lease != actor.lease).flat_map(|(_, opens)| opens);
        // The opens of a lease cache alike, and nobody else caches writes meanwhile.
        let gone = others.take_while(|open| !self.caches_writes(**open));
        gone.filter_map(|open| self.claims.get(*open)?.recorded.upgrade()).collect()
    }

    /// The opens of which records are kept.
    pub(super) fn recorded_opens(&self) -> impl Iterator<Item = Arc<Open>> {
        self.recorded.opens.iter().filter_map(|open| self.claims.get(*open)?.recorded.upgrade())
    }

    fn caches_writes(&self, open: OpenId) -> bool {
        self.caches.held_by(open).state.intersects(LeaseState::WRITE_CACHING)
    }

    fn note_writer(&mut self, open: OpenId, is_writer: bool) {
        if let Some(claim) = self.claims.get(open) {
            self.recorded.note_writer(claim, is_writer);
        }
    }
}

/// Which opens of a file there are records of.
#[derive(Default)]
pub(super) struct Recorded {
    opens: BTreeSet<OpenId>,
    /// Those whose records may say that they cache writes, by stream and lease.
    writers: BTreeMap<String, BTreeMap<Option<LeaseId>, BTreeSet<OpenId>>>,
}

impl Recorded {
    pub(super) fn insert(&mut self, open: OpenId) {
        self.opens.insert(open);
    }

    /// The open has left.
    pub(super) fn forget(&mut self, claim: &Claim) {
        self.opens.remove(&claim.open);
        self.note_writer(claim, false);
    }

    fn note_writer(&mut self, claim: &Claim, is_writer: bool) {
        if is_writer {
            let of_stream = self.writers.entry(claim.stream.clone()).or_default();
            of_stream.entry(claim.lease).or_default().insert(claim.open);
        } else if let Some(of_stream) = self.writers.get_mut(&claim.stream) {
            if let Some(opens) = of_stream.get_mut(&claim.lease) {
                opens.remove(&claim.open);
            }
            of_stream.retain(|_, opens| !opens.is_empty());
            if of_stream.is_empty() {
                self.writers.remove(&claim.stream);
            }
        }
    }

    fn is_writer(&self, claim: &Claim) -> bool {
        let opens = self.writers.get(&claim.stream).and_then(|of_stream| of_stream.get(&claim.lease));
        opens.is_some_and(|opens| opens.contains(&claim.open))
    }

    pub(super) fn stream_renamed(&mut self, from: &str, to: &str) {
        if let Some(of_stream) = self.writers.remove(from) {
            self.writers.insert(to.to_owned(), of_stream);
        }
    }
}

impl FileEntry {
    /// What an open caches, for its record. From now on the record may say so.
    pub(crate) fn caching_to_record(&self, open: OpenId) -> Granted {
        let mut state = self.state.lock();
        let granted = state.caches.granted_to(open);
        if caches_writes(&granted) {
            state.note_writer(open, true);
        }
        granted
    }

    /// What an open shares with others.
    pub(crate) fn shared_by(&self, open: OpenId) -> Option<u32> {
        self.state.lock().claims.get(open).map(|claim| claim.share)
    }

    /// Opens of the actor's lease, which caches writes, whose records do not say so.
    pub(crate) fn recorded_before_growth(&self, actor: Actor) -> Vec<Arc<Open>> {
        let state = self.state.lock();
        if actor.lease.is_none() || !state.caches_writes(actor.open) {
            return Vec::new();
        }
        let Some(own) = state.claims.get(actor.open) else { return Vec::new() };
        let is_known = state.recorded.writers.get(&own.stream).is_some_and(|leases| leases.contains_key(&actor.lease));
        if is_known {
            // It comes back with what any of them has.
            return Vec::new();
        }
        let of_lease = |open: &Arc<Open>| state.claims.get(open.id).is_some_and(|claim| claim.lease == actor.lease);
        state.recorded_opens().filter(of_lease).collect()
    }

    /// The record of an open says that it caches no writes, or never will.
    pub(crate) fn recorded_as_no_writer(&self, open: OpenId) {
        self.state.lock().note_writer(open, false);
    }

    /// True where the record of an open says of its caching what is no longer so.
    pub(crate) fn is_outdated(&self, open: OpenId) -> bool {
        let state = self.state.lock();
        !state.caches_writes(open) && state.claims.get(open).is_some_and(|claim| state.recorded.is_writer(claim))
    }

    /// The client of an open is back, after the server was away or only the client, and `believes` to have a lease: gives what it is
    /// answered. True where that has to be recorded before the client learns it.
    pub(crate) fn come_back(&self, open: OpenId, believes: Option<&Lease>) -> (Granted, bool) {
        let mut state = self.state.lock();
        state.claims.change(open, |claim| claim.is_restored = false);
        let was_breaking = state.caches.held_by(open).is_breaking;
        let answer = state.caches.come_back(open, believes, now());
        if was_breaking && !state.caches.held_by(open).is_breaking {
            state.wake();
        }
        self.note_caches(&state);
        answer
    }

    /// Has who survived the server and cached what is locked now know of it when they come.
    pub(crate) fn locked_again(&self, stream: &str, actor: Actor) {
        let mut state = self.state.lock();
        state.caches.take_from_restored(&fold(stream), actor, Operation::Change);
        self.note_caches(&state);
    }
}

fn level_caches_writes(level: OplockLevel) -> bool {
    matches!(level, OplockLevel::EXCLUSIVE | OplockLevel::BATCH)
}

fn caches_writes(granted: &Granted) -> bool {
    match granted {
        Granted::Nothing => false,
        Granted::Oplock(level) => level_caches_writes(*level),
        Granted::Lease(lease) => lease.lease_state.intersects(LeaseState::WRITE_CACHING),
    }
}
