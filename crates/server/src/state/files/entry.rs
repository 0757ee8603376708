//! One file as its opens share it: each method decides and changes in one step, under the file's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use store::{Identity, SharePath, Store, fold};
use wire::command::create::OplockLevel;
use wire::context::lease::LeaseState;
use wire::status::Status;

use super::armed::Armed;
use super::state::FileState;
use super::under_way::UnderWay;
use super::wait::BreakWait;
use super::{Link, now};
use crate::resource::budget::Budget;
use crate::resource::budgets::UserBudgets;
use crate::resource::rate_limit::MadeOnUse;
use crate::state::audit::Armings;
use crate::state::caching::{
    Actor, Granted, Held, Holder, LOOK_COST, LeaseId, NoticeKind, Notices, Operation, Unacknowledged,
};
use crate::state::files::share_modes::Modes;
use crate::state::locks::{LockRefusal, QueuedLock, RangeLock, RangeLocks, Ticket};
use crate::state::open::Open;
use crate::state::open_id::OpenId;
use crate::state::open_path::HeldPath;

/// Opens of a lease that are looked up together: most leases have no more.
const HOLDERS_AT_ONCE: usize = 16;

/// One file and its streams.
pub(crate) struct FileEntry {
    pub(super) identity: Identity,
    pub(super) state: Mutex<FileState>,
    /// Some stream has byte-range locks. Set under the lock of `state`, read without it.
    pub(super) locked: AtomicBool,
    /// Some stream has oplocks or leases. Set under the lock of `state`, read without it.
    pub(super) cached: AtomicBool,
    pub(super) under_way: UnderWay,
    /// What was taken of the limit that each file of its share has.
    pub(crate) taken: MadeOnUse,
    /// Who has said that it goes, where that is audited.
    pub(super) armings: Armings<Armed>,
}

/// Another share's store, and a file's old and new name there.
type Elsewhere = (Arc<dyn Store>, Option<(SharePath, Arc<HeldPath>)>);

impl FileEntry {
    pub(super) fn new(identity: Identity) -> Self {
        FileEntry {
            identity,
            state: Mutex::default(),
            locked: AtomicBool::new(false),
            cached: AtomicBool::new(false),
            under_way: UnderWay::default(),
            taken: MadeOnUse::default(),
            armings: Armings::default(),
        }
    }

    /// True where it is the file of this identity.
    pub(crate) fn is_of(&self, identity: Identity) -> bool {
        self.identity == identity
    }

    /// Sets or clears delete-pending (MS-FSA 2.1.5.15.3) for the stream of an open, or, where that is empty, for the name that
    /// the open was made by.
    /// Nothing where the open has left the file: its name may be in others' hands.
    pub(crate) fn set_delete_pending(&self, open: OpenId, stream: &str, pending: bool) {
        let mut state = self.state.lock();
        if !state.has(open) {
            return;
        }
        let (link, stream) = (state.link_of(open), fold(stream));
        let goes = state.pending.get_or_insert_default();
        match (stream.is_empty(), pending) {
            (true, true) => goes.links.mark(link).by.clear(),
            (true, false) => goes.links.unmark(link.as_ref()),
            (false, true) => goes.streams.insert(&stream),
            (false, false) => goes.streams.remove(&stream),
        }
        state.forget_pending();
    }

    /// Makes the name of an open delete-pending so that it goes when the open closes; who else has the file open keeps using it
    /// (MS-FSA 2.1.5.15.4, Link.DeleteUsingPosixSemantics).
    pub(crate) fn unlink_with(&self, open: OpenId) {
        let mut state = self.state.lock();
        if !state.has(open) {
            return;
        }
        let link = state.link_of(open);
        state.pending.get_or_insert_default().links.mark(link).by.insert(open);
    }

    /// True where the stream of an open, or the name that it was made by, goes with its last open.
    pub(crate) fn is_delete_pending(&self, open: OpenId, stream: &str) -> bool {
        let state = self.state.lock();
        state.is_delete_pending(state.link_of(open).as_ref(), &fold(stream))
    }

    /// The same of its stream alone, and of the name alone.
    pub(crate) fn deletions_of(&self, open: OpenId, stream: &str) -> (bool, bool) {
        let (state, stream) = (self.state.lock(), fold(stream));
        let of_stream = state.pending.as_ref().is_some_and(|pending| pending.streams.contains(&stream));
        (of_stream, state.is_link_pending(state.link_of(open).as_ref()))
    }

    /// Gives every open of the name `from` in `store` the name `to`, through whatever share it was opened: `links` are the same
    /// names. The `renamer` pays for them. May wait for stores.
    pub(crate) fn renamed(
        &self,
        store: &Arc<dyn Store>,
        from: &SharePath,
        to: &Arc<HeldPath>,
        links: (&Link, &Link),
        renamer: &UserBudgets,
    ) {
        self.paths_renamed(store, from, to, renamer);
        // Who learns its name until here learns the old one, or has the new path.
        self.link_renamed(links.0, links.1);
    }

    fn paths_renamed(&self, store: &Arc<dyn Store>, from: &SharePath, to: &Arc<HeldPath>, renamer: &UserBudgets) {
        let mut elsewhere = Vec::new();
        for claim in self.state.lock().claims.iter() {
            if Arc::ptr_eq(&claim.store, store) {
                claim.names.rename(from, to);
            } else {
                elsewhere.push((Arc::clone(&claim.store), Arc::clone(&claim.names)));
            }
        }
        if elsewhere.is_empty() {
            return;
        }
        let (Some(old), Some(new)) = (store.place_of(from), store.place_of(to)) else { return };
        // What leaves the other share's folder has no name there any more, and is found by what it is (`open.rs`).
        let seen_in = |other: &Arc<dyn Store>| {
            let new = other.path_at(&new)?;
            Some((other.path_at(&old)?, HeldPath::charged_anyway(new, renamer)))
        };
        // Once for each share: its opens have the name together.
        let mut known: Vec<Elsewhere> = Vec::new();
        for (other, names) in elsewhere {
            let index = known.iter().position(|(store, _)| Arc::ptr_eq(store, &other)).unwrap_or_else(|| {
                let seen = seen_in(&other);
                known.push((other, seen));
                known.len() - 1
            });
            if let (_, Some((old, new))) = &known[index] {
                names.rename(old, new);
            }
        }
    }

    /// What it costs to go through all its opens, in bytes.
    pub(crate) fn cost_of_all(&self) -> u64 {
        (self.state.lock().claims.len() * LOOK_COST) as u64
    }

    /// A record of the open is kept, which changes with the file's name.
    pub(crate) fn note_recorded(&self, open: &Arc<Open>) {
        let mut state = self.state.lock();
        if state.has(open.id) {
            state.recorded.insert(open.id);
        }
        state.claims.change(open.id, |claim| claim.recorded = Arc::downgrade(open));
    }

    /// True where records are kept of opens of the file.
    pub(crate) fn is_recorded(&self) -> bool {
        self.state.lock().recorded_opens().next().is_some()
    }

    /// The opens of the file of which records are kept.
    pub(crate) fn recorded(&self) -> Vec<Arc<Open>> {
        self.state.lock().recorded_opens().collect()
    }

    /// True where an open of the stream with this (access, share access) would be refused.
    pub(crate) fn conflicts_with(&self, stream: &str, wanted: (u32, u32)) -> bool {
        self.state.lock().claims.conflict_within(&fold(stream), Modes::of(wanted.0, wanted.1))
    }

    /// Gives what the opens of a stream share its new name.
    pub(crate) fn stream_renamed(&self, from: &str, to: &str) {
        let mut state = self.state.lock();
        let (from, new_name, to) = (fold(from), to, fold(to));
        state.claims.iter().filter(|claim| claim.stream == from).for_each(|claim| claim.names.rename_stream(new_name));
        if let Some(pending) = &mut state.pending {
            pending.streams.renamed(&from, &to);
        }
        state.caches.stream_renamed(&from, &to);
        if let Some(locks) = state.locks.remove(&from) {
            state.locks.insert(to.clone(), locks);
        }
        self.armed_stream_renamed(&from, &to);
        state.claims.stream_renamed(&from, &to);
        state.recorded.stream_renamed(&from, &to);
    }

    /// True where opens of named streams exist.
    pub(crate) fn has_open_streams(&self) -> bool {
        self.state.lock().claims.has_named_streams()
    }

    /// Takes a byte-range lock. Refused where the open has left the file: nobody would release it.
    pub(crate) fn lock(&self, stream: &str, wanted: RangeLock, budget: &Arc<Budget>) -> Result<(), LockRefusal> {
        self.change_locks(stream, wanted.open, |locks| locks.lock(wanted, budget))
    }

    /// The same, or takes a place among those who wait for it.
    pub(crate) fn lock_or_wait(
        &self,
        stream: &str,
        wanted: RangeLock,
        budget: &Arc<Budget>,
    ) -> Result<Option<QueuedLock>, LockRefusal> {
        self.change_locks(stream, wanted.open, |locks| locks.lock_or_wait(wanted, budget))
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

    pub(super) fn change_locks<T>(
        &self,
        stream: &str,
        open: OpenId,
        apply: impl FnOnce(&mut RangeLocks) -> Result<T, LockRefusal>,
    ) -> Result<T, LockRefusal> {
        let mut state = self.state.lock();
        if !state.has(open) {
            return Err(LockRefusal::Closed);
        }
        let stream = fold(stream);
        let answer = apply(state.locks.entry(stream.clone()).or_default());
        state.forget_locks(&stream);
        self.note_locks(&state);
        answer
    }

    /// The byte-range locks of an open, the oldest first, at most `count_max`.
    pub(crate) fn locks_of(&self, stream: &str, open: OpenId, count_max: usize) -> Vec<RangeLock> {
        let state = self.state.lock();
        state.locks.get(&fold(stream)).map_or(Vec::new(), |locks| locks.of(open).take(count_max).collect())
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
    ) -> (Option<BreakWait>, Notices) {
        let mut notices = Notices::default();
        if !self.is_cached() {
            return (None, notices);
        }
        let mut state = self.state.lock();
        state.take_looks();
        state.expire(now());
        let until = state.caches.contend(&fold(stream), actor, operation, now(), &mut notices.told);
        let wait = until.map(|until| state.wait(self, until));
        self.note_caches(&state);
        notices.looks = state.take_looks();
        (wait, notices)
    }

    /// Acknowledges the break of an open's oplock.
    pub(crate) fn acknowledge_oplock(&self, open: OpenId, level: OplockLevel) -> Result<OplockLevel, Status> {
        let mut state = self.state.lock();
        state.expire(now());
        let was_breaking = state.caches.held_by(open).is_breaking;
        let answer = state.caches.acknowledge_oplock(open, level);
        // An acknowledgement of nothing lets nobody go on.
        if was_breaking {
            state.wake();
        }
        self.note_caches(&state);
        answer
    }

    /// The opens under a lease. The file is not locked between two of them.
    pub(crate) fn holders_of(&self, id: LeaseId) -> impl Iterator<Item = Holder> {
        let (mut ahead, mut last) = (Vec::new().into_iter(), OpenId(0));
        std::iter::from_fn(move || {
            if ahead.len() == 0 {
                let state = self.state.lock();
                let next: Vec<_> = state.caches.holders_of(id, last).take(HOLDERS_AT_ONCE).collect();
                ahead = next.into_iter();
            }
            let holder = ahead.next()?;
            last = holder.open;
            Some(holder)
        })
    }

    /// Acknowledges the break of a lease.
    pub(crate) fn acknowledge_lease(&self, id: LeaseId, left: LeaseState) -> (Result<LeaseState, Status>, Notices) {
        let mut notices = Notices::default();
        let mut state = self.state.lock();
        state.expire(now());
        let answer = state.caches.acknowledge_lease(id, left, now(), &mut notices.told);
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

    /// Somebody has waited as long as it has to: ends the breaks that nobody acknowledged in time, and has all who wait look again, one
    /// after the other, this one too. Thousands may come to that at the same moment. Gives who has not acknowledged, to the first of them.
    pub(crate) fn wait_is_over(&self) -> Vec<Unacknowledged> {
        let mut state = self.state.lock();
        let now = now();
        let silent = state.caches.overdue(now);
        state.expire(now);
        state.wake();
        self.note_caches(&state);
        silent
    }

    /// An open that nobody has any more waits for being closed.
    pub(crate) fn goes(&self, open: OpenId) {
        self.state.lock().claims.change(open, |claim| claim.is_going = true);
    }

    /// True where a lease is of another stream of the file than this.
    pub(crate) fn has_lease_elsewhere(&self, lease: LeaseId, stream: &str) -> bool {
        self.state.lock().caches.has_lease_elsewhere(lease, &fold(stream))
    }

    /// True where an open is persistent: its client comes back, or it ends when its time is over.
    pub(crate) fn is_persistent(&self, open: OpenId) -> bool {
        let open = self.state.lock().claims.get(open).and_then(|claim| claim.recorded.upgrade());
        open.is_some_and(|open| open.file().is_ok_and(|file| file.durability.keeping().is_persistent()))
    }

    /// What breaks of an open's caching, for a client that was just `answered` what it has.
    pub(crate) fn remind(&self, open: OpenId, answered: &Granted) -> Notices {
        let mut notices = Notices::default();
        let mut state = self.state.lock();
        state.caches.remind(open, answered, now(), &mut notices.told);
        self.note_caches(&state);
        notices
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

    pub(super) fn note_caches(&self, state: &FileState) {
        self.cached.store(!state.caches.is_empty(), Ordering::Release);
    }

    pub(super) fn note_locks(&self, state: &FileState) {
        self.locked.store(!state.locks.is_empty(), Ordering::Release);
    }
}
