//! Byte-range locks, by themselves and beside a model that looks at all of them.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

const A: OpenId = OpenId(1);
const B: OpenId = OpenId(2);

fn shared(open: OpenId, offset: u64, length: u64) -> RangeLock {
    RangeLock { open, offset, length, kind: LockKind::Shared }
}

fn exclusive(open: OpenId, offset: u64, length: u64) -> RangeLock {
    RangeLock { open, offset, length, kind: LockKind::Exclusive }
}

fn lock(locks: &mut RangeLocks, wanted: RangeLock) -> Result<(), LockRefusal> {
    locks.lock(wanted, &Budget::new(u64::MAX))
}

/// Waits for what cannot be had now.
fn wait(locks: &mut RangeLocks, wanted: RangeLock) -> Result<QueuedLock, LockRefusal> {
    locks.lock_or_wait(wanted, &Budget::new(u64::MAX)).map(|place| place.expect("something is in the way"))
}

#[test]
fn exclusive_locks_conflict_even_with_ones_own() {
    let mut locks = RangeLocks::default();
    assert_eq!(lock(&mut locks, exclusive(A, 10, 10)), Ok(()));
    assert_eq!(lock(&mut locks, exclusive(A, 19, 1)), Err(LockRefusal::Conflict));
    assert_eq!(lock(&mut locks, shared(B, 0, 11)), Err(LockRefusal::Conflict));
    assert_eq!(lock(&mut locks, exclusive(B, 0, 10)), Ok(()));
}

#[test]
fn an_open_locks_shared_what_it_has_locked_exclusively_and_not_the_other_way_round() {
    let mut locks = RangeLocks::default();
    lock(&mut locks, exclusive(A, 0, 4)).unwrap();
    assert_eq!(lock(&mut locks, shared(A, 2, 4)), Ok(()));
    assert_eq!(lock(&mut locks, exclusive(A, 4, 1)), Err(LockRefusal::Conflict));
}

#[test]
fn shared_locks_stack_and_release_one_by_one() {
    let mut locks = RangeLocks::default();
    for open in [A, A, B] {
        assert_eq!(lock(&mut locks, shared(open, 0, 4)), Ok(()));
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
    lock(&mut locks, exclusive(A, 0, 4)).unwrap();
    lock(&mut locks, shared(A, 0, 4)).unwrap();
    locks.unlock(A, 0, 4).unwrap();
    assert!(locks.may_read(B, 0, 4) && !locks.may_write(B, 0, 4));
}

#[test]
fn reads_and_writes_meet_locks() {
    let mut locks = RangeLocks::default();
    lock(&mut locks, exclusive(A, 10, 10)).unwrap();
    assert!(locks.may_read(A, 0, 100) && locks.may_write(A, 0, 100));
    assert!(!locks.may_read(B, 19, 1) && !locks.may_write(B, 0, 11));
    assert!(locks.may_read(B, 20, 5) && locks.may_read(B, 15, 0));
    lock(&mut locks, shared(A, 30, 1)).unwrap();
    assert!(!locks.may_write(A, 30, 1) && locks.may_read(B, 30, 1));
}

#[test]
fn a_range_of_no_bytes_conflicts_only_inside_another() {
    let mut locks = RangeLocks::default();
    lock(&mut locks, exclusive(A, 10, 10)).unwrap();
    assert_eq!(lock(&mut locks, exclusive(B, 10, 0)), Ok(()));
    assert_eq!(lock(&mut locks, exclusive(B, 20, 0)), Ok(()));
    assert_eq!(lock(&mut locks, exclusive(B, 15, 0)), Err(LockRefusal::Conflict));
}

#[test]
fn a_range_past_the_end_of_all_offsets_is_invalid() {
    let mut locks = RangeLocks::default();
    assert_eq!(lock(&mut locks, exclusive(A, u64::MAX, 1)), Ok(()));
    assert_eq!(lock(&mut locks, exclusive(A, u64::MAX, 2)), Err(LockRefusal::InvalidRange));
    assert_eq!(lock(&mut locks, shared(A, u64::MAX - 1, u64::MAX)), Err(LockRefusal::InvalidRange));
    assert_eq!(locks.unlock(A, u64::MAX, 2), Err(LockRefusal::InvalidRange));
}

#[test]
fn who_waits_is_served_in_the_order_of_coming() {
    let mut locks = RangeLocks::default();
    lock(&mut locks, exclusive(A, 0, 10)).unwrap();
    let (_, mut first) = wait(&mut locks, exclusive(B, 0, 5)).unwrap();
    let (_, mut second) = wait(&mut locks, exclusive(A, 0, 5)).unwrap();
    let (_, mut elsewhere) = wait(&mut locks, shared(B, 5, 5)).unwrap();
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
    lock(&mut locks, exclusive(A, 0, 10)).unwrap();
    let (ticket, _receiver) = wait(&mut locks, exclusive(B, 0, 5)).unwrap();
    let (_, dropped) = wait(&mut locks, exclusive(B, 0, 5)).unwrap();
    drop(dropped);
    assert!(locks.stop_waiting(ticket) && !locks.stop_waiting(ticket));
    locks.release(A);
    assert!(locks.is_empty());
}

#[test]
fn the_waiters_of_a_closed_open_hear_of_it() {
    let mut locks = RangeLocks::default();
    lock(&mut locks, exclusive(A, 0, 10)).unwrap();
    let (_, mut waiting) = wait(&mut locks, exclusive(B, 0, 5)).unwrap();
    locks.release(B);
    assert_eq!(waiting.try_recv(), Err(oneshot::error::TryRecvError::Closed));
}

#[test]
fn locks_and_waiters_are_bounded() {
    let mut locks = RangeLocks::default();
    let budget = Budget::new(u64::MAX);
    for offset in 0..LOCKS_MAX as u64 {
        locks.lock(exclusive(A, offset, 1), &budget).unwrap();
    }
    assert_eq!(lock(&mut locks, exclusive(A, u64::MAX, 1)), Err(LockRefusal::TooMany));
    for offset in 0..WAITERS_MAX as u64 {
        locks.unlock(A, offset, 1).unwrap();
    }
    let mut waiting = Vec::new();
    for open in [B, OpenId(3)] {
        waiting.extend((0..WAITERS_OF_OPEN_MAX).map(|_| wait(&mut locks, exclusive(open, 60_000, 1)).unwrap()));
        let refused = wait(&mut locks, exclusive(open, 60_000, 1)).err();
        assert_eq!(refused, Some(LockRefusal::TooMany), "an open has so many places");
    }
    assert_eq!(wait(&mut locks, exclusive(OpenId(4), 60_000, 1)).err(), Some(LockRefusal::TooMany));
    assert_eq!(lock(&mut locks, exclusive(A, 0, 1)), Err(LockRefusal::TooMany), "who waits has a place kept");
    locks.release(A);
    assert_eq!(waiting[0].1.try_recv(), Ok(()));
    assert_eq!(locks.held, 1);
}

#[test]
fn locks_and_waiters_are_charged_and_given_back() {
    let mut locks = RangeLocks::default();
    let budget = Budget::new(2 * HOLDER_BYTES + 3 * LOCK_BYTES);
    locks.lock(exclusive(A, 0, 1), &budget).unwrap();
    locks.lock(exclusive(A, 1, 1), &budget).unwrap();
    let (ticket, _granted) = locks.lock_or_wait(exclusive(B, 0, 1), &budget).unwrap().unwrap();
    assert_eq!(locks.lock(exclusive(A, 2, 1), &budget), Err(LockRefusal::TooMany));
    assert_eq!(locks.lock_or_wait(exclusive(B, 1, 1), &budget).err(), Some(LockRefusal::TooMany));
    locks.unlock(A, 1, 1).unwrap();
    assert_eq!(budget.used(), 2 * (HOLDER_BYTES + LOCK_BYTES));
    locks.release(A);
    assert_eq!(budget.used(), HOLDER_BYTES + LOCK_BYTES, "what was granted is still charged");
    assert!(!locks.stop_waiting(ticket));
    locks.take_back(&exclusive(B, 0, 1));
    assert!(locks.is_empty() && locks.holders.is_empty());
    assert_eq!(budget.used(), 0);
}

/// Locks looked at one by one: what the trees have to agree with.
#[derive(Default)]
struct Model {
    held: Vec<RangeLock>,
    waiting: VecDeque<(usize, RangeLock)>,
    granted: Vec<usize>,
}

impl Model {
    fn lock(&mut self, wanted: RangeLock) -> Result<(), LockRefusal> {
        check_range(wanted.offset, wanted.length)?;
        if self.held.iter().any(|held| stands_in_the_way(held, &wanted)) {
            return Err(LockRefusal::Conflict);
        }
        self.held.push(wanted);
        Ok(())
    }

    fn unlock(&mut self, open: OpenId, offset: u64, length: u64) -> Result<(), LockRefusal> {
        check_range(offset, length)?;
        let same = |held: &RangeLock| (held.open, held.offset, held.length) == (open, offset, length);
        let exclusive = self.held.iter().position(|held| same(held) && held.kind == LockKind::Exclusive);
        let position = exclusive.or_else(|| self.held.iter().position(same)).ok_or(LockRefusal::NotLocked)?;
        self.held.remove(position);
        self.grant_waiting();
        Ok(())
    }

    fn take_back(&mut self, lock: &RangeLock) {
        if let Some(position) = self.held.iter().rposition(|held| held == lock) {
            self.held.remove(position);
            self.grant_waiting();
        }
    }

    fn release(&mut self, open: OpenId) {
        self.held.retain(|held| held.open != open);
        self.waiting.retain(|(_, wanted)| wanted.open != open);
        self.grant_waiting();
    }

    fn grant_waiting(&mut self) {
        for (name, wanted) in std::mem::take(&mut self.waiting) {
            match self.lock(wanted) {
                Ok(()) => self.granted.push(name),
                Err(_) => self.waiting.push_back((name, wanted)),
            }
        }
    }

    fn may(&self, open: OpenId, offset: u64, length: u64, is_write: bool) -> bool {
        let stands = |held: &RangeLock| match (held.kind, is_write) {
            (LockKind::Exclusive, _) => held.open != open,
            (LockKind::Shared, is_write) => is_write,
        };
        let touches = |held: &&RangeLock| length != 0 && held.length != 0 && overlaps(held, offset, length);
        !self.held.iter().filter(touches).any(stands)
    }
}

fn stands_in_the_way(held: &RangeLock, wanted: &RangeLock) -> bool {
    let compatible = match (held.kind, wanted.kind) {
        (LockKind::Shared, LockKind::Shared) => true,
        (LockKind::Exclusive, LockKind::Shared) => held.open == wanted.open,
        (LockKind::Shared | LockKind::Exclusive, LockKind::Exclusive) => false,
    };
    !compatible && overlaps(held, wanted.offset, wanted.length)
}

/// As MS-FSA 2.1.4.10 has it, in numbers that cannot overflow.
fn overlaps(held: &RangeLock, offset: u64, length: u64) -> bool {
    let last = |offset: u64, length: u64| i128::from(offset) + i128::from(length) - 1;
    let is_nowhere = |offset: u64, length: u64| (offset, length) == (0, 0);
    !is_nowhere(offset, length)
        && !is_nowhere(held.offset, held.length)
        && i128::from(offset) <= last(held.offset, held.length)
        && last(offset, length) >= i128::from(held.offset)
}

#[derive(Clone, Debug)]
enum Step {
    Lock(RangeLock),
    LockOrWait(RangeLock),
    StopWaiting(prop::sample::Index),
    Unlock(RangeLock),
    UnlockHeld(prop::sample::Index),
    TakeBack(prop::sample::Index),
    Release(OpenId),
    Access(OpenId, u64, u64),
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        6 => (0u64..40, 0u64..6),
        1 => (0u64..40, 0u64..40),
        1 => (u64::MAX - 8..=u64::MAX, 0u64..9),
        1 => (0u64..4, u64::MAX - 4..=u64::MAX),
    ]
}

fn a_lock() -> impl Strategy<Value = RangeLock> {
    let kind = prop_oneof![Just(LockKind::Shared), Just(LockKind::Exclusive)];
    ((1u64..6).prop_map(OpenId), range(), kind).prop_map(|(open, (offset, length), kind)| RangeLock {
        open,
        offset,
        length,
        kind,
    })
}

fn step() -> impl Strategy<Value = Step> {
    let any_index = any::<prop::sample::Index>;
    prop_oneof![
        6 => a_lock().prop_map(Step::Lock),
        4 => a_lock().prop_map(Step::LockOrWait),
        1 => any_index().prop_map(Step::StopWaiting),
        1 => a_lock().prop_map(Step::Unlock),
        5 => any_index().prop_map(Step::UnlockHeld),
        1 => any_index().prop_map(Step::TakeBack),
        1 => (1u64..6).prop_map(|open| Step::Release(OpenId(open))),
        4 => (1u64..6, range()).prop_map(|(open, (offset, length))| Step::Access(OpenId(open), offset, length)),
    ]
}

/// One step on both; their answers have to be the same.
fn apply(step: &Step, locks: &mut RangeLocks, model: &mut Model, places: &mut Vec<QueuedLock>, budget: &Arc<Budget>) {
    match step {
        Step::Lock(wanted) => assert_eq!(locks.lock(*wanted, budget), model.lock(*wanted)),
        Step::LockOrWait(wanted) => match (locks.lock_or_wait(*wanted, budget), model.lock(*wanted)) {
            (Ok(Some(place)), Err(LockRefusal::Conflict)) => {
                model.waiting.push_back((places.len(), *wanted));
                places.push(place);
            }
            (answer, expected) => assert_eq!(answer.map(|place| assert!(place.is_none())), expected),
        },
        Step::StopWaiting(index) if !model.waiting.is_empty() => {
            let (name, _) = model.waiting.remove(index.index(model.waiting.len())).unwrap();
            assert!(locks.stop_waiting(places[name].0));
        }
        Step::Unlock(lock) => {
            assert_eq!(
                locks.unlock(lock.open, lock.offset, lock.length),
                model.unlock(lock.open, lock.offset, lock.length)
            );
        }
        Step::UnlockHeld(index) if !model.held.is_empty() => {
            let lock = model.held[index.index(model.held.len())];
            assert_eq!(locks.unlock(lock.open, lock.offset, lock.length), Ok(()));
            assert_eq!(model.unlock(lock.open, lock.offset, lock.length), Ok(()));
        }
        Step::TakeBack(index) if !model.held.is_empty() => {
            let lock = model.held[index.index(model.held.len())];
            locks.take_back(&lock);
            model.take_back(&lock);
        }
        Step::Release(open) => {
            locks.release(*open);
            model.release(*open);
        }
        Step::Access(open, offset, length) if offset.checked_add(*length).is_some() => {
            assert_eq!(locks.may_read(*open, *offset, *length), model.may(*open, *offset, *length, false));
            assert_eq!(locks.may_write(*open, *offset, *length), model.may(*open, *offset, *length, true));
        }
        Step::StopWaiting(_) | Step::UnlockHeld(_) | Step::TakeBack(_) | Step::Access(..) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn the_trees_answer_as_a_list_does(steps in prop::collection::vec(step(), 1..250)) {
        let (mut locks, mut model, mut places) = (RangeLocks::default(), Model::default(), Vec::<QueuedLock>::new());
        let budget = Budget::new(u64::MAX);
        let mut heard = Vec::new();
        for step in &steps {
            apply(step, &mut locks, &mut model, &mut places, &budget);
            let unheard = |name: &usize| !heard.contains(name);
            let granted: Vec<usize> = (0..places.len()).filter(unheard).filter(|name| places[*name].1.try_recv().is_ok()).collect();
            let mut expected = std::mem::take(&mut model.granted);
            expected.sort_unstable();
            prop_assert_eq!(&granted, &expected, "those who waited are granted in the order of coming");
            heard.extend(granted);
            for open in (1..6).map(OpenId) {
                let held: Vec<RangeLock> = locks.of(open).collect();
                let expected: Vec<RangeLock> = model.held.iter().filter(|held| held.open == open).copied().collect();
                prop_assert_eq!(held, expected);
            }
            prop_assert_eq!((locks.held, locks.waiting.len()), (model.held.len(), model.waiting.len()));
            prop_assert_eq!(locks.hanging.len(), locks.waiting.len());
        }
        for open in (1..6).map(OpenId) {
            locks.release(open);
        }
        prop_assert!(locks.is_empty() && locks.holders.is_empty() && locks.hanging.is_empty());
        prop_assert_eq!(budget.used(), 0);
    }
}

#[test]
fn who_is_looked_at_when_a_lock_goes_counts_for_the_turn() {
    let mut locks = RangeLocks::default();
    lock(&mut locks, exclusive(A, 0, 1)).unwrap();
    lock(&mut locks, exclusive(A, 1, 1)).unwrap();
    let _waiting: Vec<_> = (0..500).map(|_| wait(&mut locks, exclusive(B, 0, 2)).unwrap()).collect();
    let steps = [0, 1].map(|offset| effort::of(|| locks.unlock(A, offset, 1).unwrap()).1);
    assert_eq!(steps.iter().sum::<usize>(), 2 * 500);
}

#[test]
fn a_release_costs_as_much_as_those_who_hung_on_it() {
    let mut locks = RangeLocks::default();
    let budget = Budget::new(u64::MAX);
    for offset in 0..20_000 {
        locks.lock(exclusive(A, offset, 1), &budget).unwrap();
    }
    let waiting: Vec<_> = (0..500).map(|_| wait(&mut locks, exclusive(B, 0, 20_000)).unwrap()).collect();
    let behind = locks.waiting.values().next().unwrap().behind;
    for offset in 0..20_000 {
        let id = LockId(offset + 1);
        if id != behind {
            assert!(locks.hanging.range((id, Ticket(0))..=(id, Ticket(u64::MAX))).next().is_none(), "nobody looks");
        }
    }
    drop(waiting);
}
