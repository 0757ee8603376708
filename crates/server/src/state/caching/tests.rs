use std::time::Instant;

use wire::context::lease::{LeaseFlags, LeaseV2};
use wire::status::Status;

use super::*;

const CLIENT: Guid = Guid([1; 16]);

fn id(key: u8) -> LeaseId {
    LeaseId { client: CLIENT, user: crate::state::user::UserId(1), key: Guid([key; 16]) }
}

fn holder(open: u64) -> Holder {
    Holder { open: OpenId(open), line: SessionLink::down() }
}

fn lease(key: u8, state: LeaseState) -> Wanted {
    Wanted::Lease(id(key), Lease { lease_key: id(key).key, lease_state: state, ..Lease::default() })
}

fn alone() -> Surroundings {
    Surroundings { other_opens: false, has_locks: false }
}

fn with_others() -> Surroundings {
    Surroundings { other_opens: true, ..alone() }
}

fn by_lease(open: u64, key: u8) -> Actor {
    Actor { open: OpenId(open), lease: Some(id(key)) }
}

fn by_open(open: u64) -> Actor {
    Actor { open: OpenId(open), lease: None }
}

/// One stream's caches and what they say.
#[derive(Default)]
struct Scene {
    caches: Caches,
    notices: Vec<Notice>,
}

impl Scene {
    fn open(&mut self, open: u64, wanted: &Wanted, around: Surroundings) -> Granted {
        self.caches.request("", holder(open), wanted, around)
    }

    fn contend(&mut self, actor: Actor, operation: Operation) -> bool {
        self.caches.contend("", actor, operation, Instant::now(), &mut self.notices).is_some()
    }

    /// What was said since the last call: what is left, and whether it must be acknowledged.
    fn said(&mut self) -> Vec<(LeaseState, bool)> {
        let said = |notice: Notice| match notice.kind {
            NoticeKind::Oplock { left, must_acknowledge, .. } => {
                (if left == OplockLevel::II { READ } else { NONE }, must_acknowledge)
            }
            NoticeKind::Lease { left, must_acknowledge, .. } => (left, must_acknowledge),
        };
        self.notices.drain(..).map(said).collect()
    }

    fn acknowledge(&mut self, key: u8, state: LeaseState) -> Result<LeaseState, Status> {
        self.caches.acknowledge_lease(id(key), state, Instant::now(), &mut self.notices)
    }
}

fn state_of(granted: Granted) -> LeaseState {
    match granted {
        Granted::Lease(lease) => lease.lease_state,
        Granted::Nothing | Granted::Oplock(_) => NONE,
    }
}

const STATES: [LeaseState; 8] = [NONE, READ, HANDLE, WRITE, READ_WRITE, READ_HANDLE, WRITE.union(HANDLE), ALL];

/// MS-SMB2 3.3.5.9: alone on a file a client gets what has a meaning.
#[test]
fn a_lease_alone_is_granted_in_the_states_there_are() {
    let expected = [NONE, READ, NONE, NONE, READ_WRITE, READ_HANDLE, NONE, ALL];
    for (asked, expected) in STATES.into_iter().zip(expected) {
        assert_eq!(state_of(Scene::default().open(1, &lease(1, asked), alone())), expected, "{asked:?}");
    }
}

#[test]
fn beside_others_nobody_caches_writes() {
    for (asked, expected) in [(ALL, READ_HANDLE), (READ_WRITE, READ), (READ_HANDLE, READ_HANDLE), (READ, READ)] {
        assert_eq!(state_of(Scene::default().open(1, &lease(1, asked), with_others())), expected, "{asked:?}");
    }
    assert_eq!(
        Scene::default().open(1, &Wanted::Oplock(OplockLevel::BATCH), with_others()),
        Granted::Oplock(OplockLevel::II)
    );
}

/// The table of MS-FSA 2.1.4.12 for a lease that is not breaking: what an operation of another client leaves of it, whether
/// that must be acknowledged, and whether the operation waits.
#[test]
fn every_operation_breaks_what_it_is_in_conflict_with() {
    use Operation::{Change, ChangeOfName, Open, OpenAgainstShareMode, Overwrite};
    let table = [
        (READ, Open, None),
        (READ, Overwrite, Some((NONE, false, false))),
        (READ, Change, Some((NONE, false, false))),
        (READ, OpenAgainstShareMode, None),
        (READ, ChangeOfName, None),
        (READ_HANDLE, Open, None),
        (READ_HANDLE, Overwrite, Some((NONE, true, false))),
        (READ_HANDLE, Change, Some((NONE, true, false))),
        (READ_HANDLE, OpenAgainstShareMode, Some((READ, true, true))),
        (READ_HANDLE, ChangeOfName, Some((READ, true, true))),
        (READ_WRITE, Open, Some((READ, true, true))),
        (READ_WRITE, Overwrite, Some((NONE, true, true))),
        (READ_WRITE, Change, Some((NONE, true, true))),
        (READ_WRITE, OpenAgainstShareMode, None),
        (READ_WRITE, ChangeOfName, None),
        (ALL, Open, Some((READ_HANDLE, true, true))),
        (ALL, Overwrite, Some((NONE, true, true))),
        (ALL, Change, Some((NONE, true, true))),
        (ALL, OpenAgainstShareMode, Some((READ_WRITE, true, true))),
        (ALL, ChangeOfName, Some((READ_WRITE, true, true))),
    ];
    for (held, operation, expected) in table {
        let mut scene = Scene::default();
        scene.open(1, &lease(1, held), alone());
        let waits = scene.contend(by_lease(2, 2), operation);
        let said = scene.said();
        let seen = said.first().map(|(left, must_acknowledge)| (*left, *must_acknowledge, waits));
        assert_eq!(seen, expected, "{held:?} {operation:?}");
        assert!(expected.is_some() || !waits, "{held:?} {operation:?}");
        let mut own = Scene::default();
        own.open(1, &lease(1, held), alone());
        assert!(!own.contend(by_lease(3, 1), operation), "one's own lease stays");
        assert!(own.said().is_empty());
    }
}

#[test]
fn a_batch_oplock_breaks_for_opens_and_not_for_share_modes() {
    for (operation, expected) in
        [(Operation::Open, Some(READ)), (Operation::Overwrite, Some(NONE)), (Operation::OpenAgainstShareMode, None)]
    {
        let mut scene = Scene::default();
        assert_eq!(scene.open(1, &Wanted::Oplock(OplockLevel::BATCH), alone()), Granted::Oplock(OplockLevel::BATCH));
        assert_eq!(scene.contend(by_open(2), operation), expected.is_some());
        assert_eq!(scene.said().first().map(|(left, _)| *left), expected);
    }
}

#[test]
fn a_change_breaks_level_two_of_all_even_ones_own() {
    let mut scene = Scene::default();
    scene.open(1, &Wanted::Oplock(OplockLevel::II), alone());
    scene.open(2, &Wanted::Oplock(OplockLevel::II), with_others());
    assert!(!scene.contend(by_open(1), Operation::Change));
    assert_eq!(scene.said(), [(NONE, false), (NONE, false)]);
    assert!(scene.caches.is_empty());
}

#[test]
fn an_acknowledgement_keeps_what_was_offered_or_less() {
    let mut scene = Scene::default();
    scene.open(1, &lease(1, ALL), alone());
    assert_eq!(scene.acknowledge(1, READ), Err(Status::UNSUCCESSFUL), "nothing breaks");
    assert_eq!(scene.acknowledge(2, READ), Err(Status::OBJECT_NAME_NOT_FOUND), "no such lease");
    assert!(scene.contend(by_lease(2, 2), Operation::Open));
    assert_eq!(scene.acknowledge(1, ALL), Err(Status::REQUEST_NOT_ACCEPTED));
    assert!(scene.contend(by_lease(2, 2), Operation::Open), "still breaking");
    assert_eq!(scene.said().len(), 1, "and said once");
    assert_eq!(scene.acknowledge(1, READ_HANDLE), Ok(READ_HANDLE));
    assert!(!scene.contend(by_lease(2, 2), Operation::Open));
    assert_eq!(scene.acknowledge(1, READ_HANDLE), Err(Status::UNSUCCESSFUL));
}

/// Who has to wait for more than was told is answered for in steps: reads go last, and nobody is let through in between.
#[test]
fn a_break_that_deepens_goes_on_after_the_first_answer() {
    let mut scene = Scene::default();
    scene.open(1, &lease(1, ALL), alone());
    assert!(scene.contend(by_open(2), Operation::Open));
    assert!(scene.contend(by_open(3), Operation::Overwrite));
    assert_eq!(scene.said(), [(READ_HANDLE, true)]);
    assert_eq!(scene.acknowledge(1, READ_HANDLE), Ok(READ_HANDLE));
    assert_eq!(scene.said(), [(READ, true)]);
    assert!(scene.contend(by_open(2), Operation::Open), "not over");
    assert_eq!(scene.acknowledge(1, READ), Ok(READ));
    assert_eq!(scene.said(), [(NONE, false)]);
    assert!(!scene.contend(by_open(3), Operation::Overwrite));
}

#[test]
fn the_steps_of_a_break_share_its_time() {
    let began = Instant::now();
    let late = began + ACKNOWLEDGE_WITHIN / 2;
    let mut scene = Scene::default();
    scene.open(1, &lease(1, ALL), alone());
    scene.caches.contend("", by_open(2), Operation::Open, began, &mut scene.notices);
    scene.caches.contend("", by_open(3), Operation::Overwrite, late, &mut scene.notices);
    scene.caches.acknowledge_lease(id(1), READ_HANDLE, late, &mut scene.notices).unwrap();
    let until = scene.caches.contend("", by_open(3), Operation::Overwrite, late, &mut scene.notices);
    assert_eq!(until, Some(began + ACKNOWLEDGE_WITHIN));
}

/// A write does not wait for who caches handles; what it took meanwhile is taken when the client acknowledges.
#[test]
fn what_was_taken_during_a_break_is_taken_after_it() {
    let mut scene = Scene::default();
    scene.open(1, &lease(1, READ_HANDLE), alone());
    assert!(scene.contend(by_lease(2, 2), Operation::ChangeOfName));
    assert!(!scene.contend(by_lease(2, 2), Operation::Change));
    assert_eq!(scene.said(), [(READ, true)]);
    assert_eq!(scene.acknowledge(1, READ), Ok(READ));
    assert_eq!(scene.said(), [(NONE, false)]);
}

#[test]
fn a_lease_is_promoted_only_upwards_and_not_while_it_breaks() {
    let mut scene = Scene::default();
    assert_eq!(state_of(scene.open(1, &lease(1, READ_HANDLE), alone())), READ_HANDLE);
    assert_eq!(state_of(scene.open(2, &lease(1, READ), alone())), READ_HANDLE);
    assert_eq!(state_of(scene.open(3, &lease(1, READ_WRITE), alone())), READ_HANDLE, "no superset");
    assert_eq!(state_of(scene.open(4, &lease(1, ALL), with_others())), READ_HANDLE, "not to be had");
    assert_eq!(state_of(scene.open(5, &lease(1, ALL), alone())), ALL);
    assert!(scene.contend(by_open(9), Operation::Open));
    let Granted::Lease(answer) = scene.open(6, &lease(1, ALL), alone()) else { panic!("a lease") };
    assert_eq!(answer.lease_state, ALL);
    assert!(answer.flags.contains(LeaseFlags::BREAK_IN_PROGRESS));
}

#[test]
fn the_epoch_counts_grants_and_breaks() {
    let mut scene = Scene::default();
    let asked = |state| {
        let v2 = Some(LeaseV2 { epoch: 7, ..LeaseV2::default() });
        Wanted::Lease(id(1), Lease { lease_key: id(1).key, lease_state: state, v2, ..Lease::default() })
    };
    let epoch = |granted| match granted {
        Granted::Lease(Lease { v2: Some(v2), .. }) => v2.epoch,
        _ => 0,
    };
    assert_eq!(epoch(scene.open(1, &asked(READ), alone())), 8);
    assert_eq!(epoch(scene.open(2, &asked(READ), alone())), 8);
    assert_eq!(epoch(scene.open(3, &asked(ALL), alone())), 9);
    scene.contend(by_open(9), Operation::Open);
    assert!(matches!(scene.notices[0].kind, NoticeKind::Lease { epoch: 10, .. }));
}

#[test]
fn who_never_acknowledges_caches_nothing_after_the_limit() {
    let mut scene = Scene::default();
    scene.open(1, &lease(1, ALL), alone());
    let now = Instant::now();
    let until = scene.caches.contend("", by_open(2), Operation::Open, now, &mut scene.notices).unwrap();
    assert_eq!(until, now + ACKNOWLEDGE_WITHIN);
    assert!(!scene.caches.expire(now));
    assert!(scene.caches.expire(until));
    assert!(!scene.contend(by_open(2), Operation::Open));
    assert_eq!(scene.acknowledge(1, READ_HANDLE), Err(Status::UNSUCCESSFUL));
}

#[test]
fn an_oplock_acknowledged_wrongly_is_gone() {
    for (level, expected) in [
        (OplockLevel::II, Ok(OplockLevel::II)),
        (OplockLevel::NONE, Ok(OplockLevel::NONE)),
        (OplockLevel::EXCLUSIVE, Ok(OplockLevel::NONE)),
        (OplockLevel::BATCH, Err(Status::INVALID_OPLOCK_PROTOCOL)),
        (OplockLevel::LEASE, Err(Status::INVALID_PARAMETER)),
    ] {
        let mut scene = Scene::default();
        scene.open(1, &Wanted::Oplock(OplockLevel::BATCH), alone());
        assert_eq!(scene.caches.acknowledge_oplock(OpenId(1), level), Err(Status::INVALID_DEVICE_STATE));
        scene.contend(by_open(2), Operation::Open);
        assert_eq!(scene.caches.acknowledge_oplock(OpenId(1), level), expected, "{level:?}");
        assert_eq!(scene.caches.is_empty(), expected != Ok(OplockLevel::II));
    }
}
