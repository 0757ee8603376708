//! What is shared by all opens of one file, whoever made them: share modes, oplocks and leases, delete-on-close and byte-range locks
//! (MS-FSA 2.1.1.4 and following). Decided and changed in one place, in one step, under a short lock that is never held across
//! a call to the store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, MutexGuard};
use store::{Identity, SharePath, fold};
use tokio::sync::oneshot;
use wire::command::create::OplockLevel;
use wire::context::lease::LeaseState;
use wire::security::access::{READ_ATTRIBUTES, READ_CONTROL, SYNCHRONIZE, WRITE_ATTRIBUTES};
use wire::status::Status;

use crate::access;
use crate::breaks::Wait;
use crate::caching::{
    ACKNOWLEDGE_WITHIN, Actor, Caches, Granted, Held, Holder, LeaseId, Notice, NoticeKind, Operation, Surroundings,
    Wanted,
};
use crate::line::Line;
use crate::locks::{LockRefusal, Place, RangeLock, RangeLocks, Ticket};
use crate::notify::Watches;
use crate::open::OpenId;

/// The table is split so that shards seldom meet.
const PARTS: usize = 64;

/// All files that are open.
pub(crate) struct FileTable {
    parts: Vec<Mutex<HashMap<Identity, Arc<FileEntry>>>>,
    /// Which file each lease is of (GlobalLeaseTableList, MS-SMB2 3.3.1.11). Locked after a file's state, never before it.
    leases: Vec<Mutex<HashMap<LeaseId, Arc<FileEntry>>>>,
    /// Leases on directories were granted.
    directory_leases: AtomicBool,
    /// Who waits to hear of changes.
    pub(crate) watches: Watches,
}

/// One file and its streams.
pub(crate) struct FileEntry {
    identity: Identity,
    state: Mutex<FileState>,
    /// Some stream has byte-range locks. Set under the lock of `state`, read without it.
    locked: AtomicBool,
    /// Some stream has oplocks or leases. Set under the lock of `state`, read without it.
    cached: AtomicBool,
}

#[derive(Default)]
struct FileState {
    claims: Vec<Claim>,
    /// Streams that go with their last open; the empty name is the file itself.
    pending_deletes: Vec<String>,
    /// The open whose close takes the file's name away, whoever else has the file open (FILE_DISPOSITION_POSIX_SEMANTICS).
    unlinked_by: Option<OpenId>,
    locks: HashMap<String, RangeLocks>,
    caches: Caches,
    /// Who waits for acknowledgements of broken oplocks and leases.
    waiting: Vec<oneshot::Sender<()>>,
    /// The entry has left the table: look again.
    retired: bool,
}

/// What one open has of a file.
struct Claim {
    open: OpenId,
    stream: String,
    access: u32,
    share: u32,
    names: Arc<Mutex<SharePath>>,
    share_name: Arc<str>,
    lease: Option<LeaseId>,
}

/// What an open asks for when it enters the table.
pub(crate) struct Entry<'a> {
    pub(crate) open: OpenId,
    /// The stream's name, empty for the file itself.
    pub(crate) stream: &'a str,
    pub(crate) access: u32,
    pub(crate) share: u32,
    /// Where the open's path stands; rename changes it for all opens of a name.
    pub(crate) names: &'a Arc<Mutex<SharePath>>,
    pub(crate) share_name: &'a Arc<str>,
    /// Whose it is.
    pub(crate) line: &'a Arc<Line>,
    pub(crate) is_directory: bool,
    /// It empties the file.
    pub(crate) overwrites: bool,
    /// FILE_DELETE_ON_CLOSE.
    pub(crate) deletes: bool,
    /// What it asks to cache.
    pub(crate) wanted: &'a Wanted,
}

/// What becomes of an open that wants to enter the table.
pub(crate) enum Entering {
    /// It is in, with what it may cache.
    Entered(Granted),
    /// Others have to give up caching first: to be tried again after that.
    Waits(Wait),
    /// Another open is in the way.
    Refused(Status),
}

/// What is to be removed because the last open of it has gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Nothing.
    Nothing,
    /// The file or directory.
    File,
    /// One of its streams.
    Stream(String),
}

impl FileTable {
    pub(crate) fn new() -> Self {
        FileTable {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            leases: (0..PARTS).map(|_| Mutex::default()).collect(),
            directory_leases: AtomicBool::new(false),
            watches: Watches::new(),
        }
    }

    /// Enters an open: refused with `SHARING_VIOLATION` or `DELETE_PENDING` where another open is in the way, with
    /// `INVALID_PARAMETER` where its lease is of another file. The notices must be sent whatever comes of it.
    pub(crate) fn enter(&self, identity: Identity, entry: &Entry<'_>) -> (Arc<FileEntry>, Entering, Vec<Notice>) {
        loop {
            let file = {
                let mut part = self.part(identity).lock();
                Arc::clone(part.entry(identity).or_insert_with(|| Arc::new(FileEntry::new(identity))))
            };
            let mut state = file.state.lock();
            if state.retired {
                continue;
            }
            let mut notices = Vec::new();
            let entering = match self.admits_lease(&file, entry) {
                Err(status) => Entering::Refused(status),
                Ok(()) => state.enter(entry, &file, now(), &mut notices),
            };
            if let (Entering::Entered(..), Some(lease)) = (&entering, entry.wanted.lease()) {
                self.leases_of(lease).lock().insert(lease, Arc::clone(&file));
                if entry.is_directory {
                    self.directory_leases.store(true, Ordering::Release);
                }
            }
            file.note_caches(&state);
            self.retire_if_unused(&file, state);
            return (file, entering, notices);
        }
    }

    /// A lease is of one file (MS-SMB2 3.3.5.9.8).
    fn admits_lease(&self, file: &Arc<FileEntry>, entry: &Entry<'_>) -> Result<(), Status> {
        let Some(lease) = entry.wanted.lease() else { return Ok(()) };
        let taken = self.leases_of(lease).lock().get(&lease).is_some_and(|known| !Arc::ptr_eq(known, file));
        if taken { Err(Status::INVALID_PARAMETER) } else { Ok(()) }
    }

    /// True where a lease on a directory was ever granted: nobody has to look for any before.
    pub(crate) fn has_directory_leases(&self) -> bool {
        self.directory_leases.load(Ordering::Acquire)
    }

    /// The file that a lease is of.
    pub(crate) fn of_lease(&self, lease: LeaseId) -> Option<Arc<FileEntry>> {
        self.leases_of(lease).lock().get(&lease).cloned()
    }

    fn leases_of(&self, lease: LeaseId) -> &Mutex<HashMap<LeaseId, Arc<FileEntry>>> {
        &self.leases[usize::from(lease.key.0[0] ^ lease.key.0[15]) % PARTS]
    }

    /// What is shared by the opens of a file, where it has any.
    pub(crate) fn find(&self, identity: Identity) -> Option<Arc<FileEntry>> {
        self.part(identity).lock().get(&identity).cloned()
    }

    /// Takes an open out. `delete` says whether its close asks for deletion (FILE_DELETE_ON_CLOSE). While a removal is given, the
    /// file stays delete-pending until [`FileTable::removed`].
    pub(crate) fn leave(&self, file: &Arc<FileEntry>, open: OpenId, delete: bool) -> Removal {
        let mut state = file.state.lock();
        let lease = state.caches.held_by(open).lease;
        let removal = state.leave(open, delete);
        if let Some(lease) = lease.filter(|lease| !state.caches.has_lease(*lease)) {
            self.leases_of(lease).lock().remove(&lease);
        }
        file.note_locks(&mut state);
        file.note_caches(&state);
        if removal == Removal::Nothing {
            self.retire_if_unused(file, state);
        }
        removal
    }

    /// Says that the removal that [`FileTable::leave`] gave was tried.
    pub(crate) fn removed(&self, file: &Arc<FileEntry>, removal: &Removal) {
        let mut state = file.state.lock();
        match removal {
            Removal::Nothing => return,
            // Its streams went with it. Its identity may be another file's soon.
            Removal::File => state.pending_deletes.clear(),
            Removal::Stream(name) => {
                let stream = fold(name);
                state.pending_deletes.retain(|pending| *pending != stream);
            }
        }
        state.wake();
        self.retire_if_unused(file, state);
    }

    /// The files that an open of `share_name` below `directory` is of.
    pub(crate) fn opens_below(&self, share_name: &str, directory: &SharePath) -> Vec<Arc<FileEntry>> {
        let of_part = |part: &Mutex<HashMap<Identity, Arc<FileEntry>>>| {
            let files: Vec<_> = part.lock().values().cloned().collect();
            files.into_iter().filter(|file| file.state.lock().has_open_below(share_name, directory))
        };
        self.parts.iter().flat_map(of_part).collect()
    }

    /// True where an open of `share_name` lies below `directory`.
    pub(crate) fn has_opens_below(&self, share_name: &str, directory: &SharePath) -> bool {
        !self.opens_below(share_name, directory).is_empty()
    }

    fn part(&self, identity: Identity) -> &Mutex<HashMap<Identity, Arc<FileEntry>>> {
        &self.parts[(identity.file ^ identity.volume) as usize % PARTS]
    }

    fn retire_if_unused(&self, file: &Arc<FileEntry>, mut state: MutexGuard<'_, FileState>) {
        if state.claims.is_empty() && state.pending_deletes.is_empty() {
            state.retired = true;
            drop(state);
            let mut part = self.part(file.identity).lock();
            if part.get(&file.identity).is_some_and(|entry| Arc::ptr_eq(entry, file)) {
                part.remove(&file.identity);
            }
        }
    }
}

impl FileEntry {
    fn new(identity: Identity) -> Self {
        FileEntry { identity, state: Mutex::default(), locked: AtomicBool::new(false), cached: AtomicBool::new(false) }
    }

    /// True where it is the file of this identity.
    pub(crate) fn is_of(&self, identity: Identity) -> bool {
        self.identity == identity
    }

    /// Sets or clears delete-pending (MS-FSA 2.1.5.15.3) for the stream of an open.
    pub(crate) fn set_delete_pending(&self, stream: &str, pending: bool) {
        let mut state = self.state.lock();
        let stream = fold(stream);
        state.pending_deletes.retain(|name| *name != stream);
        if stream.is_empty() {
            state.unlinked_by = None;
        }
        if pending {
            state.pending_deletes.push(stream);
        }
    }

    /// Makes the file delete-pending so that its name goes when `open` closes; who else has it open keeps using it
    /// (MS-FSA 2.1.5.15.4, Link.DeleteUsingPosixSemantics).
    pub(crate) fn unlink_with(&self, open: OpenId) {
        self.set_delete_pending("", true);
        self.state.lock().unlinked_by = Some(open);
    }

    /// True where the stream, or the whole file, goes with its last open.
    pub(crate) fn is_delete_pending(&self, stream: &str) -> bool {
        self.state.lock().is_delete_pending(&fold(stream))
    }

    /// Gives every open of the name `from` the name `to`.
    pub(crate) fn renamed(&self, from: &SharePath, to: &SharePath) {
        for claim in &self.state.lock().claims {
            let mut name = claim.names.lock();
            if *name == *from {
                *name = to.clone();
            }
        }
    }

    /// True where another open of the file, or of a stream of it, does not share `DELETE`, or is not of the file's unnamed stream:
    /// what stands in the way of replacing the file by a rename.
    pub(crate) fn is_open_by_others(&self, open: Option<OpenId>) -> bool {
        self.state.lock().claims.iter().any(|claim| Some(claim.open) != open)
    }

    /// True where an open of the stream with this (access, share access) would be refused.
    pub(crate) fn conflicts_with(&self, stream: &str, wanted: (u32, u32)) -> bool {
        let stream = fold(stream);
        let state = self.state.lock();
        state
            .claims
            .iter()
            .filter(|claim| claim.stream == stream)
            .any(|claim| access::shares_conflict(wanted, (claim.access, claim.share)))
    }

    /// True where the stream has opens.
    pub(crate) fn has_opens_of(&self, stream: &str) -> bool {
        let stream = fold(stream);
        self.state.lock().claims.iter().any(|claim| claim.stream == stream)
    }

    /// Gives what the opens of a stream share its new name.
    pub(crate) fn stream_renamed(&self, from: &str, to: &str) {
        let mut state = self.state.lock();
        let (from, to) = (fold(from), fold(to));
        let pending = state.pending_deletes.iter_mut().filter(|name| **name == from);
        pending.for_each(|name| name.clone_from(&to));
        state.caches.stream_renamed(&from, &to);
        if let Some(locks) = state.locks.remove(&from) {
            state.locks.insert(to.clone(), locks);
        }
        for claim in state.claims.iter_mut().filter(|claim| claim.stream == from) {
            claim.stream.clone_from(&to);
        }
    }

    /// True where opens of named streams exist.
    pub(crate) fn has_open_streams(&self) -> bool {
        self.state.lock().claims.iter().any(|claim| !claim.stream.is_empty())
    }

    /// Takes a byte-range lock. Refused where the open has left the file: nobody would release it.
    pub(crate) fn lock(&self, stream: &str, wanted: RangeLock) -> Result<(), LockRefusal> {
        self.change_locks(stream, wanted.open, |locks| locks.lock(wanted))
    }

    /// The same, or takes a place among those who wait for it.
    pub(crate) fn lock_or_wait(&self, stream: &str, wanted: RangeLock) -> Result<Option<Place>, LockRefusal> {
        self.change_locks(stream, wanted.open, |locks| match locks.lock(wanted) {
            Err(LockRefusal::Conflict) => locks.wait(wanted).map(Some),
            taken => taken.map(|()| None),
        })
    }

    /// Waits no longer. What was granted unheard is taken back.
    pub(crate) fn stop_waiting(&self, stream: &str, wanted: &RangeLock, ticket: Ticket) {
        // An open that has left has neither locks nor waiters.
        let _ = self.change_locks(stream, wanted.open, |locks| {
            if !locks.stop_waiting(ticket) {
                locks.take_back(wanted);
            }
            Ok(())
        });
    }

    /// Releases a byte-range lock.
    pub(crate) fn unlock(&self, stream: &str, open: OpenId, offset: u64, length: u64) -> Result<(), LockRefusal> {
        self.change_locks(stream, open, |locks| locks.unlock(open, offset, length))
    }

    /// Undoes [`FileEntry::lock`].
    pub(crate) fn take_back(&self, stream: &str, lock: &RangeLock) {
        // An open that has left has no locks.
        let _ = self.change_locks(stream, lock.open, |locks| {
            locks.take_back(lock);
            Ok(())
        });
    }

    fn change_locks<T>(
        &self,
        stream: &str,
        open: OpenId,
        apply: impl FnOnce(&mut RangeLocks) -> Result<T, LockRefusal>,
    ) -> Result<T, LockRefusal> {
        let mut state = self.state.lock();
        if state.claims.iter().all(|claim| claim.open != open) {
            return Err(LockRefusal::Closed);
        }
        let answer = apply(state.locks.entry(fold(stream)).or_default());
        self.note_locks(&mut state);
        answer
    }

    /// The byte-range locks of an open.
    pub(crate) fn locks_of(&self, stream: &str, open: OpenId) -> Vec<RangeLock> {
        self.state.lock().locks.get(&fold(stream)).map_or(Vec::new(), |locks| locks.of(open))
    }

    /// True where some stream has byte-range locks.
    pub(crate) fn has_locks(&self) -> bool {
        self.locked.load(Ordering::Acquire)
    }

    /// What `check` says of a stream's byte-range locks; true where there are none.
    pub(crate) fn locks_allow(&self, stream: &str, check: impl FnOnce(&RangeLocks) -> bool) -> bool {
        !self.has_locks() || self.state.lock().locks.get(&fold(stream)).is_none_or(check)
    }

    /// True where someone caches something of the file.
    pub(crate) fn is_cached(&self) -> bool {
        self.cached.load(Ordering::Acquire)
    }

    /// Breaks the oplocks and leases that `operation` is in conflict with. The notices must be sent; where there is a wait, the
    /// operation is to be tried again after it.
    pub(crate) fn contend(
        self: &Arc<Self>,
        stream: &str,
        actor: Actor,
        operation: Operation,
    ) -> (Option<Wait>, Vec<Notice>) {
        if !self.is_cached() {
            return (None, Vec::new());
        }
        let mut notices = Vec::new();
        let mut state = self.state.lock();
        state.expire(now());
        let until = state.caches.contend(&fold(stream), actor, operation, now(), &mut notices);
        let wait = until.map(|until| state.wait(self, until));
        self.note_caches(&state);
        (wait, notices)
    }

    /// Acknowledges the break of an open's oplock.
    pub(crate) fn acknowledge_oplock(&self, open: OpenId, level: OplockLevel) -> Result<OplockLevel, Status> {
        let mut state = self.state.lock();
        state.expire(now());
        let answer = state.caches.acknowledge_oplock(open, level);
        state.wake();
        self.note_caches(&state);
        answer
    }

    /// Acknowledges the break of a lease.
    pub(crate) fn acknowledge_lease(&self, id: LeaseId, left: LeaseState) -> (Result<LeaseState, Status>, Vec<Notice>) {
        let mut notices = Vec::new();
        let mut state = self.state.lock();
        state.expire(now());
        let answer = state.caches.acknowledge_lease(id, left, now(), &mut notices);
        if answer.is_ok() && !state.caches.is_breaking(id) {
            state.wake();
        }
        self.note_caches(&state);
        (answer, notices)
    }

    /// True where the client has not answered a notice.
    pub(crate) fn awaits_answer(&self, notice: &NoticeKind) -> bool {
        self.state.lock().caches.awaits_answer(notice)
    }

    /// Ends the breaks that nobody acknowledged in time.
    pub(crate) fn expire_breaks(&self) {
        let mut state = self.state.lock();
        state.expire(now());
        self.note_caches(&state);
    }

    /// Takes a break as acknowledged: the open's client is away, and what it is left with is what it finds when it comes back.
    pub(crate) fn settle(&self, open: OpenId) {
        let mut state = self.state.lock();
        state.caches.settle(open);
        state.wake();
        self.note_caches(&state);
    }

    /// Takes all caching from an open whose client cannot be told.
    pub(crate) fn give_up_caching(&self, open: OpenId) {
        let mut state = self.state.lock();
        state.caches.give_up(open);
        state.wake();
        self.note_caches(&state);
    }

    /// What an open may cache now.
    pub(crate) fn caching_of(&self, open: OpenId) -> Held {
        self.state.lock().caches.held_by(open)
    }

    /// The same as a response says it.
    pub(crate) fn granted_to(&self, open: OpenId) -> Granted {
        self.state.lock().caches.granted_to(open)
    }

    fn note_caches(&self, state: &FileState) {
        self.cached.store(!state.caches.is_empty(), Ordering::Release);
    }

    fn note_locks(&self, state: &mut FileState) {
        state.locks.retain(|_, locks| !locks.is_empty());
        self.locked.store(!state.locks.is_empty(), Ordering::Release);
    }
}

impl FileState {
    fn enter(&mut self, entry: &Entry<'_>, file: &Arc<FileEntry>, now: Instant, notices: &mut Vec<Notice>) -> Entering {
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
        match self.make_room(entry, &stream, actor, now, notices) {
            Err(status) => return Entering::Refused(status),
            Ok(Some(until)) => return Entering::Waits(self.wait(file, until)),
            Ok(None) => {}
        }
        let around = Surroundings {
            // Who looks at attributes alone and caches nothing is not in the way of those who cache.
            other_opens: self
                .claims
                .iter()
                .filter(|claim| claim.stream == stream)
                .filter(|claim| breaks_leases(claim.access) || self.caches.has_grant(claim.open))
                .any(|claim| actor.lease.is_none() || claim.lease != actor.lease),
            has_locks: self.locks.contains_key(&stream),
            delete_pending: false,
        };
        let holder = Holder { open: entry.open, line: Arc::clone(entry.line) };
        let granted = self.caches.request(&stream, holder, entry.wanted, around);
        self.claims.push(Claim {
            open: entry.open,
            stream,
            access: entry.access,
            share: entry.share,
            names: Arc::clone(entry.names),
            share_name: Arc::clone(entry.share_name),
            lease: actor.lease,
        });
        Entering::Entered(granted)
    }

    /// Checks share modes and breaks the oplocks and leases in the way (MS-FSA 2.1.5.1.2). Gives until when to wait for that.
    fn make_room(
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

    fn shares_conflict(&self, entry: &Entry<'_>, stream: &str) -> bool {
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
    fn wait(&mut self, file: &Arc<FileEntry>, until: Instant) -> Wait {
        let (sender, changed) = oneshot::channel();
        self.waiting.retain(|waiting| !waiting.is_closed());
        self.waiting.push(sender);
        Wait::new(Arc::clone(file), changed, until)
    }

    /// Has those who wait look again.
    fn wake(&mut self) {
        for waiting in self.waiting.drain(..) {
            // Who is gone need not be told.
            let _ = waiting.send(());
        }
    }

    fn expire(&mut self, now: Instant) {
        if self.caches.expire(now) {
            self.wake();
        }
    }

    fn leave(&mut self, open: OpenId, delete: bool) -> Removal {
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
    fn due(&self) -> Removal {
        if self.pending_deletes.iter().any(String::is_empty) {
            return if self.claims.is_empty() { Removal::File } else { Removal::Nothing };
        }
        let is_closed = |stream: &&String| self.claims.iter().all(|claim| claim.stream != **stream);
        self.pending_deletes.iter().find(is_closed).map_or(Removal::Nothing, |stream| Removal::Stream(stream.clone()))
    }

    fn is_delete_pending(&self, stream: &str) -> bool {
        self.pending_deletes.iter().any(|name| name.is_empty() || name == stream)
    }

    /// True where nobody has what is delete-pending open any more: its name goes just now, and can be had anew after that.
    fn is_going(&self, stream: &str) -> bool {
        let whole = self.pending_deletes.iter().any(String::is_empty);
        self.claims.iter().all(|claim| !whole && claim.stream != stream)
    }

    fn has_open_below(&self, share_name: &str, directory: &SharePath) -> bool {
        self.claims.iter().any(|claim| {
            let name = claim.names.lock();
            *claim.share_name == *share_name && *name != *directory && name.is_within(directory)
        })
    }
}

/// The time, which tests may set.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Rights that break no oplock: to look at attributes and change them (MS-FSA 2.1.4.12, OPEN).
const QUIET_FOR_OPLOCKS: u32 = READ_ATTRIBUTES | WRITE_ATTRIBUTES | SYNCHRONIZE;
/// Rights that break no lease.
const QUIET_FOR_LEASES: u32 = QUIET_FOR_OPLOCKS | READ_CONTROL;

fn breaks_oplocks(access: u32) -> bool {
    access & !QUIET_FOR_OPLOCKS != 0
}

fn breaks_leases(access: u32) -> bool {
    access & !QUIET_FOR_LEASES != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u32 = 1;
    const WRITE: u32 = 2;
    const ALL: u32 = 7;
    const FILE: Identity = Identity { volume: 1, file: 2 };

    fn enter(table: &FileTable, open: u64, stream: &str, access: u32, share: u32) -> Result<Arc<FileEntry>, Status> {
        let names = Arc::new(Mutex::new(SharePath::parse("a").unwrap()));
        let share_name = "s".into();
        let entry = Entry {
            open: OpenId(open),
            stream,
            access,
            share,
            names: &names,
            share_name: &share_name,
            line: &Line::down(),
            is_directory: false,
            overwrites: false,
            deletes: false,
            wanted: &Wanted::Nothing,
        };
        match table.enter(FILE, &entry) {
            (file, Entering::Entered(_), _) => Ok(file),
            (_, Entering::Refused(status), _) => Err(status),
            (_, Entering::Waits(_), _) => Err(Status::PENDING),
        }
    }

    #[test]
    fn share_modes_hold_both_ways_and_per_stream() {
        let table = FileTable::new();
        enter(&table, 1, "", READ, READ).ok().unwrap();
        assert_eq!(enter(&table, 2, "", WRITE, ALL).err(), Some(Status::SHARING_VIOLATION));
        assert_eq!(enter(&table, 2, "", READ, WRITE).err(), Some(Status::SHARING_VIOLATION));
        assert!(enter(&table, 2, "", READ, READ).is_ok());
        assert!(enter(&table, 3, "stream", WRITE, 0).is_ok());
        assert!(enter(&table, 4, "", 0x80, 0).is_ok(), "attributes alone conflict with nothing");
    }

    #[test]
    fn who_deletes_a_file_deletes_its_streams() {
        const DELETE: u32 = 0x1_0000;
        let table = FileTable::new();
        enter(&table, 1, "stream", READ, READ | WRITE).ok().unwrap();
        assert_eq!(enter(&table, 2, "", DELETE, ALL).err(), Some(Status::SHARING_VIOLATION));
        assert!(enter(&table, 3, "other", DELETE, ALL).is_ok());
        let table = FileTable::new();
        enter(&table, 1, "", DELETE, ALL).ok().unwrap();
        assert_eq!(enter(&table, 2, "stream", READ, READ | WRITE).err(), Some(Status::SHARING_VIOLATION));
        assert!(enter(&table, 3, "stream", READ, ALL).is_ok());
        assert!(enter(&table, 4, "stream", 0x80, 0).is_ok(), "attributes alone conflict with nothing");
    }

    #[test]
    fn the_last_open_removes_what_is_pending() {
        let table = FileTable::new();
        let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
        enter(&table, 2, "", READ, ALL).ok().unwrap();
        file.set_delete_pending("", true);
        assert_eq!(enter(&table, 3, "", READ, ALL).err(), Some(Status::DELETE_PENDING));
        assert_eq!(table.leave(&file, OpenId(1), false), Removal::Nothing);
        let removal = table.leave(&file, OpenId(2), false);
        assert_eq!(removal, Removal::File);
        assert_eq!(enter(&table, 3, "", READ, ALL).err(), Some(Status::PENDING), "its name goes just now");
        table.removed(&file, &removal);
        assert!(enter(&table, 3, "", READ, ALL).is_ok());
    }

    #[test]
    fn a_name_can_go_before_the_last_open() {
        let table = FileTable::new();
        let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
        enter(&table, 2, "", READ, ALL).ok().unwrap();
        file.unlink_with(OpenId(1));
        assert!(file.is_delete_pending(""));
        let removal = table.leave(&file, OpenId(1), false);
        assert_eq!(removal, Removal::File);
        table.removed(&file, &removal);
        assert!(!file.is_delete_pending(""));
        assert_eq!(table.leave(&file, OpenId(2), false), Removal::Nothing);
        assert!(table.parts.iter().all(|part| part.lock().is_empty()));
    }

    #[test]
    fn a_stream_goes_alone() {
        let table = FileTable::new();
        let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
        enter(&table, 2, "Extra", READ, ALL).ok().unwrap();
        assert_eq!(table.leave(&file, OpenId(2), true), Removal::Stream("EXTRA".into()));
        table.removed(&file, &Removal::Stream("EXTRA".into()));
        assert_eq!(table.leave(&file, OpenId(1), false), Removal::Nothing);
        assert!(table.parts.iter().all(|part| part.lock().is_empty()));
    }

    #[test]
    fn a_file_that_went_leaves_nothing_to_the_next_of_its_number() {
        let table = FileTable::new();
        let file = enter(&table, 1, "", READ, ALL).ok().unwrap();
        enter(&table, 2, "extra", READ, ALL).ok().unwrap();
        file.set_delete_pending("extra", true);
        file.set_delete_pending("", true);
        assert_eq!(table.leave(&file, OpenId(2), false), Removal::Nothing);
        let removal = table.leave(&file, OpenId(1), false);
        assert_eq!(removal, Removal::File);
        table.removed(&file, &removal);
        assert!(enter(&table, 3, "extra", READ, ALL).is_ok());
    }

    #[test]
    fn opens_below_a_directory_are_seen() {
        let table = FileTable::new();
        enter(&table, 1, "", READ, ALL).ok().unwrap();
        assert!(table.has_opens_below("s", &SharePath::root()));
        assert!(!table.has_opens_below("s", &SharePath::parse("a").unwrap()));
        assert!(!table.has_opens_below("t", &SharePath::root()));
    }
}
