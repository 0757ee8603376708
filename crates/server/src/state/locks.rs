//! Byte-range locks of one stream and the requests that wait for them (MS-FSA 2.1.4.10, 2.1.5.8, 2.1.5.9).

mod intervals;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use store::effort;
use tokio::sync::oneshot;

use crate::resource::budget::{Budget, Charge};
use crate::state::open_id::OpenId;
use intervals::{Interval, Intervals, Reach};

/// The most locks on one stream, those that are waited for among them: a client cannot make the server keep more.
const LOCKS_MAX: usize = 65_536;
/// The most requests that wait for locks of one stream: a release may have to look at them all.
const WAITERS_MAX: usize = 1_024;
/// The most of them that are of one open, so that it leaves places to others.
const WAITERS_OF_OPEN_MAX: usize = 512;
/// What a lock costs, or a request that waits for one: its places in the trees that find it.
const LOCK_BYTES: u64 = 256;
/// What an open's first lock on a stream costs besides.
const HOLDER_BYTES: u64 = 1_024;

/// How a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockKind {
    /// Others may neither read nor write.
    Exclusive,
    /// Others may read and lock shared.
    Shared,
}

/// Why a lock is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockRefusal {
    /// Another lock is in the way.
    Conflict,
    /// The range passes the end of what can be addressed.
    InvalidRange,
    /// There are too many locks, or too many that wait for one.
    TooMany,
    /// There is no such lock to release.
    NotLocked,
    /// The open has been closed meanwhile.
    Closed,
}

/// A locked range, or one to be locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RangeLock {
    pub(crate) open: OpenId,
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) kind: LockKind,
}

/// Names a waiting request among those of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// A place among those who wait: its name, and where the grant is heard.
pub(crate) type QueuedLock = (Ticket, oneshot::Receiver<()>);

/// Names a lock among those of its stream. Later ones have higher numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LockId(u64);

/// The locks of one stream, and who waits.
///
/// Whoever waits hangs on one lock that stands in the way. Only when that one goes there is anything to look at again: as long as it
/// is there the answer is the same.
#[derive(Default)]
pub(crate) struct RangeLocks {
    shared: Ranges,
    exclusive: Ranges,
    holders: HashMap<OpenId, Holder>,
    held: usize,
    waiting: BTreeMap<Ticket, Waiter>,
    /// Who waits, by the lock in the way.
    hanging: BTreeSet<(LockId, Ticket)>,
    last_id: u64,
}

/// The locks of one kind. Exclusive ones that have bytes do not overlap each other.
#[derive(Default)]
struct Ranges {
    /// Those that have bytes.
    long: Intervals,
    /// Those of no bytes.
    empty: Intervals,
}

/// What one open has of a stream's locks.
struct Holder {
    /// By their range, an exclusive one before a shared one, then the oldest first.
    by_range: BTreeSet<(u64, u64, LockKind, LockId)>,
    /// In the order they were taken.
    by_age: BTreeMap<LockId, RangeLock>,
    waiting: usize,
    charge: Charge,
}

/// A request that waits. Dropped unanswered, it tells that the open was closed.
struct Waiter {
    wanted: RangeLock,
    /// The lock that it hangs on.
    behind: LockId,
    granted: oneshot::Sender<()>,
}

impl RangeLocks {
    /// What an open holds, the oldest first.
    pub(crate) fn of(&self, open: OpenId) -> impl Iterator<Item = RangeLock> {
        self.holders.get(&open).into_iter().flat_map(|holder| holder.by_age.values().copied())
    }

    /// True where nothing is locked and nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0 && self.waiting.is_empty()
    }

    /// Takes a lock, charged to `budget`, or says why not. Who waits does not stand in the way: an open that holds a shared lock and asks
    /// for another must not wait for those that wait for the first.
    pub(crate) fn lock(&mut self, wanted: RangeLock, budget: &Arc<Budget>) -> Result<(), LockRefusal> {
        check_range(wanted.offset, wanted.length)?;
        if self.in_the_way(&wanted).is_some() {
            return Err(LockRefusal::Conflict);
        }
        self.charge(wanted.open, budget)?;
        self.take(wanted);
        Ok(())
    }

    /// The same, or takes a place among those who wait: its receiver hears of the lock, or of nothing when the open is closed.
    pub(crate) fn lock_or_wait(
        &mut self,
        wanted: RangeLock,
        budget: &Arc<Budget>,
    ) -> Result<Option<QueuedLock>, LockRefusal> {
        check_range(wanted.offset, wanted.length)?;
        let Some(behind) = self.in_the_way(&wanted) else {
            self.charge(wanted.open, budget)?;
            self.take(wanted);
            return Ok(None);
        };
        let of_open = self.holders.get(&wanted.open).map_or(0, |holder| holder.waiting);
        if self.waiting.len() >= WAITERS_MAX || of_open >= WAITERS_OF_OPEN_MAX {
            return Err(LockRefusal::TooMany);
        }
        self.charge(wanted.open, budget)?;
        let ticket = Ticket(self.new_id().0);
        let (granted, receiver) = oneshot::channel();
        self.waiting.insert(ticket, Waiter { wanted, behind, granted });
        self.hanging.insert((behind, ticket));
        if let Some(holder) = self.holders.get_mut(&wanted.open) {
            holder.waiting += 1;
        }
        Ok(Some((ticket, receiver)))
    }

    /// Waits no longer; false where it is not waiting any more.
    pub(crate) fn stop_waiting(&mut self, ticket: Ticket) -> bool {
        let Some(waiter) = self.waiting.remove(&ticket) else { return false };
        self.hanging.remove(&(waiter.behind, ticket));
        self.waits_less(waiter.wanted.open);
        self.give_back(waiter.wanted.open);
        true
    }

    /// Releases the oldest lock of just this range; of several, an exclusive one first.
    pub(crate) fn unlock(&mut self, open: OpenId, offset: u64, length: u64) -> Result<(), LockRefusal> {
        check_range(offset, length)?;
        let holder = self.holders.get(&open).ok_or(LockRefusal::NotLocked)?;
        let first = (offset, length, LockKind::Exclusive, LockId(0));
        let &(at, long, kind, id) = holder.by_range.range(first..).next().ok_or(LockRefusal::NotLocked)?;
        if (at, long) != (offset, length) {
            return Err(LockRefusal::NotLocked);
        }
        self.drop_lock(RangeLock { open, offset, length, kind }, id);
        Ok(())
    }

    /// Takes back the newest lock that is just this one: the undoing of [`RangeLocks::lock`].
    pub(crate) fn take_back(&mut self, lock: &RangeLock) {
        let Some(holder) = self.holders.get(&lock.open) else { return };
        let of_range = |id| (lock.offset, lock.length, lock.kind, id);
        let same = holder.by_range.range(of_range(LockId(0))..=of_range(LockId(u64::MAX)));
        if let Some(&(.., id)) = same.last() {
            self.drop_lock(*lock, id);
        }
    }

    /// Releases everything an open holds and lets its own requests wait no longer.
    pub(crate) fn release(&mut self, open: OpenId) {
        let Some(holder) = self.holders.remove(&open) else { return };
        if holder.waiting > 0 {
            let hanging = &mut self.hanging;
            self.waiting.retain(|ticket, waiter| {
                let stays = waiter.wanted.open != open;
                if !stays {
                    hanging.remove(&(waiter.behind, *ticket));
                }
                stays
            });
        }
        for kind in [LockKind::Shared, LockKind::Exclusive] {
            for is_empty in [false, true] {
                let of_tree = |(_, lock): &(&LockId, &RangeLock)| lock.kind == kind && (lock.length == 0) == is_empty;
                let gone = || holder.by_age.iter().filter(of_tree).map(|(id, lock)| interval(lock, *id));
                let count = gone().count();
                if count > 0 {
                    self.ranges(kind).tree(is_empty).remove_all(open, gone(), count);
                }
            }
        }
        self.held -= holder.by_age.len();
        let freed: BTreeSet<Ticket> = match self.hanging.is_empty() {
            true => BTreeSet::new(),
            false => holder.by_age.keys().flat_map(|id| self.unhang(*id)).collect(),
        };
        self.grant(freed);
    }

    /// True where `open` may read the range: no other open's exclusive lock touches it.
    pub(crate) fn may_read(&self, open: OpenId, offset: u64, length: u64) -> bool {
        touching(offset, length).is_none_or(|reach| self.exclusive.long.find(reach, Some(open)).is_none())
    }

    /// True where `open` may write the range: no lock touches it but its own exclusive ones.
    pub(crate) fn may_write(&self, open: OpenId, offset: u64, length: u64) -> bool {
        self.may_read(open, offset, length)
            && touching(offset, length).is_none_or(|reach| self.shared.long.find(reach, None).is_none())
    }

    /// A lock that keeps `wanted` from being taken. An exclusive lock lets no other open lock, and its own open lock shared only; a shared
    /// one lets all lock shared (MS-FSA 2.1.4.10).
    fn in_the_way(&self, wanted: &RangeLock) -> Option<LockId> {
        match wanted.kind {
            LockKind::Shared => self.exclusive.find(wanted, Some(wanted.open)),
            LockKind::Exclusive => self.exclusive.find(wanted, None).or_else(|| self.shared.find(wanted, None)),
        }
    }

    /// Charges one more lock, or one that is waited for, to the open.
    fn charge(&mut self, open: OpenId, budget: &Arc<Budget>) -> Result<(), LockRefusal> {
        if self.held + self.waiting.len() >= LOCKS_MAX {
            return Err(LockRefusal::TooMany);
        }
        match self.holders.get_mut(&open) {
            Some(holder) => match holder.charge.grow(LOCK_BYTES) {
                true => Ok(()),
                false => Err(LockRefusal::TooMany),
            },
            None => {
                let charge = budget.charge(HOLDER_BYTES + LOCK_BYTES).ok_or(LockRefusal::TooMany)?;
                self.holders.insert(open, Holder::new(charge));
                Ok(())
            }
        }
    }

    /// Gives back what one lock cost.
    fn give_back(&mut self, open: OpenId) {
        let Some(holder) = self.holders.get_mut(&open) else { return };
        if holder.by_age.is_empty() && holder.waiting == 0 {
            self.holders.remove(&open);
        } else {
            holder.charge.shrink_to(holder.charge.units().saturating_sub(LOCK_BYTES));
        }
    }

    fn waits_less(&mut self, open: OpenId) {
        if let Some(holder) = self.holders.get_mut(&open) {
            holder.waiting -= 1;
        }
    }

    /// Takes a lock that is charged and that nothing stands in the way of.
    fn take(&mut self, lock: RangeLock) {
        let id = self.new_id();
        self.ranges(lock.kind).tree(lock.length == 0).insert(interval(&lock, id));
        self.held += 1;
        if let Some(holder) = self.holders.get_mut(&lock.open) {
            holder.by_range.insert((lock.offset, lock.length, lock.kind, id));
            holder.by_age.insert(id, lock);
        }
    }

    /// Lets a lock go, and those have theirs who waited for it alone.
    fn drop_lock(&mut self, lock: RangeLock, id: LockId) {
        self.ranges(lock.kind).tree(lock.length == 0).remove(&interval(&lock, id));
        if let Some(holder) = self.holders.get_mut(&lock.open) {
            holder.by_range.remove(&(lock.offset, lock.length, lock.kind, id));
            holder.by_age.remove(&id);
        }
        self.held -= 1;
        self.give_back(lock.open);
        let freed = self.unhang(id);
        self.grant(freed);
    }

    /// Takes those who hang on a lock off it.
    fn unhang(&mut self, id: LockId) -> BTreeSet<Ticket> {
        let of_lock = (id, Ticket(0))..=(id, Ticket(u64::MAX));
        let freed: BTreeSet<Ticket> = self.hanging.range(of_lock).map(|(_, ticket)| *ticket).collect();
        for ticket in &freed {
            self.hanging.remove(&(id, *ticket));
        }
        freed
    }

    /// Gives those who hang on nothing what they want, the longest waiting first, or finds what else is in their way.
    fn grant(&mut self, freed: BTreeSet<Ticket>) {
        effort::note(freed.len());
        for ticket in freed {
            let Some(waiter) = self.waiting.get_mut(&ticket) else { continue };
            let wanted = waiter.wanted;
            if let Some(behind) = self.in_the_way(&wanted) {
                self.hanging.insert((behind, ticket));
                if let Some(waiter) = self.waiting.get_mut(&ticket) {
                    waiter.behind = behind;
                }
                continue;
            }
            let Some(waiter) = self.waiting.remove(&ticket) else { continue };
            self.waits_less(wanted.open);
            // Who is gone has stopped waiting: it takes nothing, and nobody can hang on that yet.
            match waiter.granted.send(()) {
                Ok(()) => self.take(wanted),
                Err(()) => self.give_back(wanted.open),
            }
        }
    }

    fn ranges(&mut self, kind: LockKind) -> &mut Ranges {
        match kind {
            LockKind::Shared => &mut self.shared,
            LockKind::Exclusive => &mut self.exclusive,
        }
    }

    fn new_id(&mut self) -> LockId {
        self.last_id += 1;
        LockId(self.last_id)
    }
}

impl Holder {
    fn new(charge: Charge) -> Self {
        Holder { by_range: BTreeSet::new(), by_age: BTreeMap::new(), waiting: 0, charge }
    }
}

impl Ranges {
    fn tree(&mut self, is_empty: bool) -> &mut Intervals {
        if is_empty { &mut self.empty } else { &mut self.long }
    }

    /// One that overlaps the range of `wanted`, not of the open `not_of`. A range of no bytes lies between two bytes: it overlaps a range
    /// that has bytes on both sides of it, and no other range of no bytes.
    fn find(&self, wanted: &RangeLock, not_of: Option<OpenId>) -> Option<LockId> {
        if wanted.length == 0 {
            let before = wanted.offset.checked_sub(1)?;
            return self.long.find(Reach { begins_by: before, reaches: wanted.offset }, not_of);
        }
        let last = wanted.offset + (wanted.length - 1);
        let long = self.long.find(Reach { begins_by: last, reaches: wanted.offset }, not_of);
        long.or_else(|| self.empty.find(Reach { begins_by: last, reaches: wanted.offset.checked_add(1)? }, not_of))
    }
}

/// A lock as the trees have it; one of no bytes stands at the byte behind it.
fn interval(lock: &RangeLock, id: LockId) -> Interval {
    let last = lock.offset.saturating_add(lock.length.saturating_sub(1));
    Interval { first: lock.offset, last, id, open: lock.open }
}

/// What a read or write of the range has to look for: nothing where it has no bytes.
fn touching(offset: u64, length: u64) -> Option<Reach> {
    (length != 0).then(|| Reach { begins_by: offset.saturating_add(length - 1), reaches: offset })
}

/// The last byte of a range must have an offset (MS-FSA 2.1.5.8).
fn check_range(offset: u64, length: u64) -> Result<(), LockRefusal> {
    let ends = length == 0 || offset.checked_add(length - 1).is_some();
    if ends { Ok(()) } else { Err(LockRefusal::InvalidRange) }
}
