//! Byte-range locks of one stream and the requests that wait for them (MS-FSA 2.1.4.10, 2.1.5.8, 2.1.5.9).

use std::collections::VecDeque;

use tokio::sync::oneshot;

use crate::open::OpenId;

/// The most locks on one stream: a client cannot make the server keep more. Every check looks at them all, 40 bytes each.
const LOCKS_MAX: usize = 65_536;
/// The most requests that wait for locks of one stream. Every release looks at them all.
const WAITERS_MAX: usize = 1_024;

/// How a range is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    /// Others may read and lock shared.
    Shared,
    /// Others may neither read nor write.
    Exclusive,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket(u64);

/// A place among those who wait: its name, and where the grant is heard.
pub(crate) type Place = (Ticket, oneshot::Receiver<()>);

/// The locks of one stream, in the order they were taken, and who waits, in the order they came.
#[derive(Default)]
pub(crate) struct RangeLocks {
    held: Vec<RangeLock>,
    waiting: VecDeque<Waiter>,
    tickets: u64,
}

/// A request that waits. Dropped unanswered, it tells that the open was closed.
struct Waiter {
    ticket: Ticket,
    wanted: RangeLock,
    granted: oneshot::Sender<()>,
}

impl RangeLocks {
    /// What an open holds.
    pub(crate) fn of(&self, open: OpenId) -> Vec<RangeLock> {
        self.held.iter().filter(|held| held.open == open).copied().collect()
    }

    /// True where nothing is locked and nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.waiting.is_empty()
    }

    /// Takes a lock, or says why not. Who waits does not stand in the way: an open that holds a shared lock and asks for another must not
    /// wait for those that wait for the first.
    pub(crate) fn lock(&mut self, wanted: RangeLock) -> Result<(), LockRefusal> {
        check_range(wanted.offset, wanted.length)?;
        if self.held.iter().any(|held| stands_in_the_way(held, &wanted)) {
            return Err(LockRefusal::Conflict);
        }
        if self.held.len() >= LOCKS_MAX {
            return Err(LockRefusal::TooMany);
        }
        self.held.push(wanted);
        Ok(())
    }

    /// Waits for a lock that conflicts: the receiver hears of it, or of nothing when the open is closed.
    pub(crate) fn wait(&mut self, wanted: RangeLock) -> Result<Place, LockRefusal> {
        if self.waiting.len() >= WAITERS_MAX {
            return Err(LockRefusal::TooMany);
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        let (granted, receiver) = oneshot::channel();
        self.waiting.push_back(Waiter { ticket, wanted, granted });
        Ok((ticket, receiver))
    }

    /// Waits no longer; false where it is not waiting any more.
    pub(crate) fn stop_waiting(&mut self, ticket: Ticket) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiter| waiter.ticket != ticket);
        self.waiting.len() < before
    }

    /// Releases the oldest lock of just this range; of several, an exclusive one first.
    pub(crate) fn unlock(&mut self, open: OpenId, offset: u64, length: u64) -> Result<(), LockRefusal> {
        check_range(offset, length)?;
        let same = |held: &RangeLock| (held.open, held.offset, held.length) == (open, offset, length);
        let exclusive = self.held.iter().position(|held| same(held) && held.kind == LockKind::Exclusive);
        let position = exclusive.or_else(|| self.held.iter().position(same)).ok_or(LockRefusal::NotLocked)?;
        self.held.remove(position);
        self.grant_waiting();
        Ok(())
    }

    /// Takes back the newest lock that is just this one: the undoing of [`RangeLocks::lock`].
    pub(crate) fn take_back(&mut self, lock: &RangeLock) {
        if let Some(position) = self.held.iter().rposition(|held| held == lock) {
            self.held.remove(position);
            self.grant_waiting();
        }
    }

    /// Releases everything an open holds and lets its own requests wait no longer.
    pub(crate) fn release(&mut self, open: OpenId) {
        self.held.retain(|held| held.open != open);
        self.waiting.retain(|waiter| waiter.wanted.open != open);
        self.grant_waiting();
    }

    /// True where `open` may read the range: no other open's exclusive lock touches it.
    pub(crate) fn may_read(&self, open: OpenId, offset: u64, length: u64) -> bool {
        !self
            .held
            .iter()
            .any(|held| touches(held, offset, length) && held.open != open && held.kind == LockKind::Exclusive)
    }

    /// True where `open` may write the range: no lock touches it but its own exclusive ones.
    pub(crate) fn may_write(&self, open: OpenId, offset: u64, length: u64) -> bool {
        !self
            .held
            .iter()
            .any(|held| touches(held, offset, length) && (held.open != open || held.kind == LockKind::Shared))
    }

    /// Gives those who wait what nothing stands in the way of any more, the longest waiting first.
    fn grant_waiting(&mut self) {
        for waiter in std::mem::take(&mut self.waiting) {
            match self.lock(waiter.wanted) {
                Err(_) => self.waiting.push_back(waiter),
                Ok(()) if waiter.granted.send(()).is_ok() => {}
                Ok(()) => drop(self.held.pop()),
            }
        }
    }
}

/// The last byte of a range must have an offset (MS-FSA 2.1.5.8).
fn check_range(offset: u64, length: u64) -> Result<(), LockRefusal> {
    let ends = length == 0 || offset.checked_add(length - 1).is_some();
    if ends { Ok(()) } else { Err(LockRefusal::InvalidRange) }
}

/// An exclusive lock lets no other open lock, and its own open lock shared only; a shared one lets all lock shared (MS-FSA 2.1.4.10).
fn stands_in_the_way(held: &RangeLock, wanted: &RangeLock) -> bool {
    let compatible = match (held.kind, wanted.kind) {
        (LockKind::Shared, LockKind::Shared) => true,
        (LockKind::Exclusive, LockKind::Shared) => held.open == wanted.open,
        (LockKind::Shared | LockKind::Exclusive, LockKind::Exclusive) => false,
    };
    !compatible && overlaps(held, wanted.offset, wanted.length)
}

/// Two locked ranges overlap. A range of no bytes lies between two bytes: it overlaps a range that has bytes on both sides of it,
/// and no other range of no bytes.
fn overlaps(held: &RangeLock, offset: u64, length: u64) -> bool {
    if held.length == 0 && length == 0 {
        return false;
    }
    let (held_end, end) = (end(held.offset, held.length), end(offset, length));
    if length == 0 {
        return held.offset < offset && u128::from(offset) < held_end;
    }
    if held.length == 0 {
        return offset < held.offset && u128::from(held.offset) < end;
    }
    u128::from(held.offset) < end && u128::from(offset) < held_end
}

/// A read or write touches a locked range.
fn touches(held: &RangeLock, offset: u64, length: u64) -> bool {
    length != 0 && held.length != 0 && overlaps(held, offset, length)
}

fn end(offset: u64, length: u64) -> u128 {
    u128::from(offset) + u128::from(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: OpenId = OpenId(1);
    const B: OpenId = OpenId(2);

    fn shared(open: OpenId, offset: u64, length: u64) -> RangeLock {
        RangeLock { open, offset, length, kind: LockKind::Shared }
    }

    fn exclusive(open: OpenId, offset: u64, length: u64) -> RangeLock {
        RangeLock { open, offset, length, kind: LockKind::Exclusive }
    }

    #[test]
    fn exclusive_locks_conflict_even_with_ones_own() {
        let mut locks = RangeLocks::default();
        assert_eq!(locks.lock(exclusive(A, 10, 10)), Ok(()));
        assert_eq!(locks.lock(exclusive(A, 19, 1)), Err(LockRefusal::Conflict));
        assert_eq!(locks.lock(shared(B, 0, 11)), Err(LockRefusal::Conflict));
        assert_eq!(locks.lock(exclusive(B, 0, 10)), Ok(()));
    }

    #[test]
    fn an_open_locks_shared_what_it_has_locked_exclusively_and_not_the_other_way_round() {
        let mut locks = RangeLocks::default();
        locks.lock(exclusive(A, 0, 4)).unwrap();
        assert_eq!(locks.lock(shared(A, 2, 4)), Ok(()));
        assert_eq!(locks.lock(exclusive(A, 4, 1)), Err(LockRefusal::Conflict));
    }

    #[test]
    fn shared_locks_stack_and_release_one_by_one() {
        let mut locks = RangeLocks::default();
        for open in [A, A, B] {
            assert_eq!(locks.lock(shared(open, 0, 4)), Ok(()));
        }
        assert_eq!(locks.unlock(A, 0, 4), Ok(()));
        assert_eq!(locks.unlock(A, 0, 4), Ok(()));
        assert_eq!(locks.unlock(A, 0, 4), Err(LockRefusal::NotLocked));
        assert!(!locks.may_write(A, 0, 4));
        locks.release(B);
        assert!(locks.is_empty());
    }

    #[test]
    fn of_two_locks_of_a_range_the_exclusive_one_is_released_first() {
        let mut locks = RangeLocks::default();
        locks.lock(exclusive(A, 0, 4)).unwrap();
        locks.lock(shared(A, 0, 4)).unwrap();
        locks.unlock(A, 0, 4).unwrap();
        assert!(locks.may_read(B, 0, 4) && !locks.may_write(B, 0, 4));
    }

    #[test]
    fn reads_and_writes_meet_locks() {
        let mut locks = RangeLocks::default();
        locks.lock(exclusive(A, 10, 10)).unwrap();
        assert!(locks.may_read(A, 0, 100) && locks.may_write(A, 0, 100));
        assert!(!locks.may_read(B, 19, 1) && !locks.may_write(B, 0, 11));
        assert!(locks.may_read(B, 20, 5) && locks.may_read(B, 15, 0));
        locks.lock(shared(A, 30, 1)).unwrap();
        assert!(!locks.may_write(A, 30, 1) && locks.may_read(B, 30, 1));
    }

    #[test]
    fn a_range_of_no_bytes_conflicts_only_inside_another() {
        let mut locks = RangeLocks::default();
        locks.lock(exclusive(A, 10, 10)).unwrap();
        assert_eq!(locks.lock(exclusive(B, 10, 0)), Ok(()));
        assert_eq!(locks.lock(exclusive(B, 20, 0)), Ok(()));
        assert_eq!(locks.lock(exclusive(B, 15, 0)), Err(LockRefusal::Conflict));
    }

    #[test]
    fn a_range_past_the_end_of_all_offsets_is_invalid() {
        let mut locks = RangeLocks::default();
        assert_eq!(locks.lock(exclusive(A, u64::MAX, 1)), Ok(()));
        assert_eq!(locks.lock(exclusive(A, u64::MAX, 2)), Err(LockRefusal::InvalidRange));
        assert_eq!(locks.lock(shared(A, u64::MAX - 1, u64::MAX)), Err(LockRefusal::InvalidRange));
        assert_eq!(locks.unlock(A, u64::MAX, 2), Err(LockRefusal::InvalidRange));
    }

    #[test]
    fn who_waits_is_served_in_the_order_of_coming() {
        let mut locks = RangeLocks::default();
        locks.lock(exclusive(A, 0, 10)).unwrap();
        let (_, mut first) = locks.wait(exclusive(B, 0, 5)).unwrap();
        let (_, mut second) = locks.wait(exclusive(A, 0, 5)).unwrap();
        let (_, mut elsewhere) = locks.wait(shared(B, 5, 5)).unwrap();
        assert!(first.try_recv().is_err());
        locks.unlock(A, 0, 10).unwrap();
        assert_eq!((first.try_recv(), elsewhere.try_recv()), (Ok(()), Ok(())));
        assert!(second.try_recv().is_err());
        locks.release(B);
        assert_eq!(second.try_recv(), Ok(()));
    }

    #[test]
    fn who_stops_waiting_gets_no_lock() {
        let mut locks = RangeLocks::default();
        locks.lock(exclusive(A, 0, 10)).unwrap();
        let (ticket, _receiver) = locks.wait(exclusive(B, 0, 5)).unwrap();
        let (_, dropped) = locks.wait(exclusive(B, 0, 5)).unwrap();
        drop(dropped);
        assert!(locks.stop_waiting(ticket) && !locks.stop_waiting(ticket));
        locks.release(A);
        assert!(locks.is_empty());
    }

    #[test]
    fn the_waiters_of_a_closed_open_hear_of_it() {
        let mut locks = RangeLocks::default();
        locks.lock(exclusive(A, 0, 10)).unwrap();
        let (_, mut waiting) = locks.wait(exclusive(B, 0, 5)).unwrap();
        locks.release(B);
        assert_eq!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed));
    }

    #[test]
    fn locks_and_waiters_are_bounded() {
        let mut locks = RangeLocks { held: vec![exclusive(A, 0, 1); LOCKS_MAX], ..RangeLocks::default() };
        assert_eq!(locks.lock(exclusive(B, 5, 1)), Err(LockRefusal::TooMany));
        let receivers: Vec<_> = (0..WAITERS_MAX).map(|_| locks.wait(exclusive(B, 0, 1)).unwrap()).collect();
        assert_eq!(locks.wait(exclusive(B, 0, 1)).err(), Some(LockRefusal::TooMany));
        drop(receivers);
    }
}
