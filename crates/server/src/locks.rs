//! Byte-range locks of one stream (MS-FSA 2.1.4.10, 2.1.5.7, 2.1.5.8).

use crate::open::OpenId;

/// The most locks on one stream: a client cannot make the server keep more.
const LOCKS_MAX: usize = 65_536;

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
    /// There are too many locks.
    TooMany,
    /// There is no such lock to release.
    NotLocked,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RangeLock {
    open: OpenId,
    offset: u64,
    length: u64,
    kind: LockKind,
}

/// The locks of one stream, in the order they were taken.
#[derive(Default)]
pub(crate) struct RangeLocks {
    held: Vec<RangeLock>,
}

impl RangeLocks {
    /// True where nothing is locked.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes a lock. Exclusive locks conflict with every overlapping lock, the same open's included; shared ones with
    /// exclusive ones.
    pub(crate) fn lock(&mut self, open: OpenId, offset: u64, length: u64, kind: LockKind) -> Result<(), LockRefusal> {
        if length != 0 && offset.checked_add(length - 1).is_none() {
            return Err(LockRefusal::InvalidRange);
        }
        let wanted = RangeLock { open, offset, length, kind };
        let in_the_way = |held: &RangeLock| {
            overlaps(held, offset, length) && (kind, held.kind) != (LockKind::Shared, LockKind::Shared)
        };
        if self.held.iter().any(in_the_way) {
            return Err(LockRefusal::Conflict);
        }
        if self.held.len() >= LOCKS_MAX {
            return Err(LockRefusal::TooMany);
        }
        self.held.push(wanted);
        Ok(())
    }

    /// Releases the oldest lock of just this range; of several, an exclusive one first.
    pub(crate) fn unlock(&mut self, open: OpenId, offset: u64, length: u64) -> Result<(), LockRefusal> {
        let same = |held: &RangeLock| (held.open, held.offset, held.length) == (open, offset, length);
        let exclusive = self.held.iter().position(|held| same(held) && held.kind == LockKind::Exclusive);
        let position = exclusive.or_else(|| self.held.iter().position(same)).ok_or(LockRefusal::NotLocked)?;
        self.held.remove(position);
        Ok(())
    }

    /// Takes back the newest lock of just this range: the undoing of [`RangeLocks::lock`].
    pub(crate) fn take_back(&mut self, open: OpenId, offset: u64, length: u64) {
        let same = |held: &RangeLock| (held.open, held.offset, held.length) == (open, offset, length);
        if let Some(position) = self.held.iter().rposition(same) {
            self.held.remove(position);
        }
    }

    /// Releases everything an open holds.
    pub(crate) fn release(&mut self, open: OpenId) {
        self.held.retain(|held| held.open != open);
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

    #[test]
    fn exclusive_locks_conflict_even_with_ones_own() {
        let mut locks = RangeLocks::default();
        assert_eq!(locks.lock(A, 10, 10, LockKind::Exclusive), Ok(()));
        assert_eq!(locks.lock(A, 19, 1, LockKind::Exclusive), Err(LockRefusal::Conflict));
        assert_eq!(locks.lock(B, 0, 11, LockKind::Shared), Err(LockRefusal::Conflict));
        assert_eq!(locks.lock(B, 0, 10, LockKind::Exclusive), Ok(()));
    }

    #[test]
    fn shared_locks_stack_and_release_one_by_one() {
        let mut locks = RangeLocks::default();
        for open in [A, A, B] {
            assert_eq!(locks.lock(open, 0, 4, LockKind::Shared), Ok(()));
        }
        assert_eq!(locks.unlock(A, 0, 4), Ok(()));
        assert_eq!(locks.unlock(A, 0, 4), Ok(()));
        assert_eq!(locks.unlock(A, 0, 4), Err(LockRefusal::NotLocked));
        assert!(!locks.may_write(A, 0, 4));
        locks.release(B);
        assert!(locks.is_empty());
    }

    #[test]
    fn reads_and_writes_meet_locks() {
        let mut locks = RangeLocks::default();
        locks.lock(A, 10, 10, LockKind::Exclusive).unwrap();
        assert!(locks.may_read(A, 0, 100) && locks.may_write(A, 0, 100));
        assert!(!locks.may_read(B, 19, 1) && !locks.may_write(B, 0, 11));
        assert!(locks.may_read(B, 20, 5) && locks.may_read(B, 15, 0));
        locks.lock(A, 30, 1, LockKind::Shared).unwrap();
        assert!(!locks.may_write(A, 30, 1) && locks.may_read(B, 30, 1));
    }

    #[test]
    fn a_range_of_no_bytes_conflicts_only_inside_another() {
        let mut locks = RangeLocks::default();
        locks.lock(A, 10, 10, LockKind::Exclusive).unwrap();
        assert_eq!(locks.lock(B, 10, 0, LockKind::Exclusive), Ok(()));
        assert_eq!(locks.lock(B, 20, 0, LockKind::Exclusive), Ok(()));
        assert_eq!(locks.lock(B, 15, 0, LockKind::Exclusive), Err(LockRefusal::Conflict));
    }

    #[test]
    fn a_range_past_the_end_of_all_offsets_is_invalid() {
        let mut locks = RangeLocks::default();
        assert_eq!(locks.lock(A, u64::MAX, 1, LockKind::Exclusive), Ok(()));
        assert_eq!(locks.lock(A, u64::MAX, 2, LockKind::Exclusive), Err(LockRefusal::InvalidRange));
        assert_eq!(locks.lock(A, u64::MAX - 1, u64::MAX, LockKind::Shared), Err(LockRefusal::InvalidRange));
    }
}
