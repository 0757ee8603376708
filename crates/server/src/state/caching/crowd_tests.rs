//! Files with many oplocks and leases: they are found by an index, and all is as it is without one.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use wire::context::lease::Lease;

use super::*;

/// So many leases of another stream that there is an index. They hold nothing: what is done to the file breaks what any stream caches.
const CROWD: u64 = 9;
const CROWD_STREAM: &str = "CROWD";

#[derive(Clone, Debug)]
enum Step {
    Open { open: u64, stream: usize, wanted: usize, state: usize, alone: bool },
    Leave(u64),
    Contend { stream: usize, open: u64, lease: usize, operation: Operation },
    ContendEverywhere { open: u64, lease: usize },
    AcknowledgeOplock(u64, OplockLevel),
    AcknowledgeLease(usize, usize),
    ComeBack(u64),
    GiveUp(u64),
    Expire(u64),
    Rename,
}

const STREAMS: [&str; 2] = ["", "A"];
const STATES: [LeaseState; 5] = [NONE, READ, READ_WRITE, READ_HANDLE, ALL];
const OPENS: u64 = 8;

fn id(key: usize) -> LeaseId {
    LeaseId { client: Guid([1; 16]), user: crate::state::user::UserId(1), key: Guid([key as u8; 16]) }
}

fn holder(open: u64) -> Holder {
    Holder { open: OpenId(open), line: SessionLink::down() }
}

fn step() -> impl Strategy<Value = Step> {
    let operations = vec![
        Operation::Open,
        Operation::Overwrite,
        Operation::OpenAgainstShareMode,
        Operation::Change,
        Operation::ChangeOfName,
        Operation::ChangeOfEntry,
    ];
    let operation = prop::sample::select(operations);
    let level = prop::sample::select(vec![OplockLevel::NONE, OplockLevel::II, OplockLevel::EXCLUSIVE]);
    let open = (0..OPENS, 0usize..2, 0usize..6, 0usize..5, any::<bool>())
        .prop_map(|(open, stream, wanted, state, alone)| Step::Open { open, stream, wanted, state, alone });
    let contend = (0usize..2, 0..OPENS, 0usize..4, operation)
        .prop_map(|(stream, open, lease, operation)| Step::Contend { stream, open, lease, operation });
    prop_oneof![
        8 => open,
        3 => (0..OPENS).prop_map(Step::Leave),
        6 => contend,
        2 => (0..OPENS, 0usize..4).prop_map(|(open, lease)| Step::ContendEverywhere { open, lease }),
        2 => (0..OPENS, level).prop_map(|(open, level)| Step::AcknowledgeOplock(open, level)),
        4 => (1usize..4, 0usize..5).prop_map(|(lease, state)| Step::AcknowledgeLease(lease, state)),
        1 => (0..OPENS).prop_map(Step::ComeBack),
        1 => (0..OPENS).prop_map(Step::GiveUp),
        1 => (0u64..60).prop_map(Step::Expire),
        1 => Just(Step::Rename),
    ]
}

/// Takes the step, and says all that is to be seen of it.
fn apply(step: &Step, caches: &mut Caches, now: Instant) -> String {
    let mut notices = Vec::new();
    let lease_of = |lease: usize| (lease > 0).then(|| id(lease));
    let answer = match *step {
        Step::Open { open, stream, wanted, state, alone } => {
            if caches.held_by(OpenId(open)) != Held::default() || caches.granted_to(OpenId(open)) != Granted::Nothing {
                return String::new();
            }
            let wanted = match wanted {
                0 => Wanted::Oplock(OplockLevel::II),
                1 => Wanted::Oplock(OplockLevel::EXCLUSIVE),
                2 => Wanted::Oplock(OplockLevel::BATCH),
                key => {
                    let asked = Lease { lease_key: id(key).key, lease_state: STATES[state], ..Lease::default() };
                    Wanted::Lease(id(key), asked)
                }
            };
            let around = Surroundings { other_opens: !alone, has_locks: false };
            format!("{:?}", caches.request(STREAMS[stream], holder(open), &wanted, around))
        }
        Step::Leave(open) => format!("{}", caches.leave(OpenId(open))),
        Step::Contend { stream, open, lease, operation } => {
            let actor = Actor { open: OpenId(open), lease: lease_of(lease) };
            let batch = caches.has_batch_of_others(STREAMS[stream], actor, operation);
            format!("{batch} {:?}", caches.contend(STREAMS[stream], actor, operation, now, &mut notices))
        }
        Step::ContendEverywhere { open, lease } => {
            let actor = Actor { open: OpenId(open), lease: lease_of(lease) };
            format!("{:?}", caches.contend_everywhere(actor, Operation::OpenAgainstShareMode, now, &mut notices))
        }
        Step::AcknowledgeOplock(open, level) => format!("{:?}", caches.acknowledge_oplock(OpenId(open), level)),
        Step::AcknowledgeLease(lease, state) => {
            format!("{:?}", caches.acknowledge_lease(id(lease), STATES[state], now, &mut notices))
        }
        Step::ComeBack(open) => format!("{:?}", caches.come_back(OpenId(open), None, now)),
        Step::GiveUp(open) => {
            caches.give_up(OpenId(open));
            String::new()
        }
        Step::Expire(seconds) => format!("{}", caches.expire(now + Duration::from_secs(seconds))),
        Step::Rename => {
            caches.stream_renamed(STREAMS[1], STREAMS[0]);
            String::new()
        }
    };
    let told: Vec<_> =
        notices.iter().map(|notice| (notice.kind, notice.holder.as_ref().map(|holder| holder.open))).collect();
    let opens = (0..OPENS).map(OpenId).map(|open| (caches.held_by(open), caches.granted_to(open)));
    let leases = (1..4).map(|key| {
        let holders: Vec<_> = caches.holders_of(id(key), OpenId(0)).map(|holder| holder.open).collect();
        (caches.has_lease(id(key)), caches.is_breaking(id(key)), holders)
    });
    let oplocks = STREAMS.map(|stream| caches.has_oplock(stream));
    format!("{answer} {told:?} {:?} {:?} {oplocks:?}", opens.collect::<Vec<_>>(), leases.collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn an_index_changes_nothing(steps in prop::collection::vec(step(), 1..60)) {
        let (mut few, mut many) = (Caches::default(), Caches::default());
        for open in 0..CROWD {
            let id = id(100 + open as usize);
            let nothing = Wanted::Lease(id, Lease { lease_key: id.key, ..Lease::default() });
            let around = Surroundings { other_opens: true, has_locks: false };
            many.request(CROWD_STREAM, holder(1_000 + open), &nothing, around);
        }
        let now = Instant::now();
        for (number, step) in steps.iter().enumerate() {
            let at = now + Duration::from_secs(number as u64);
            prop_assert_eq!(apply(step, &mut few, at), apply(step, &mut many, at), "{:?}", step);
        }
        for open in (0..CROWD).map(|open| OpenId(1_000 + open)).chain((0..OPENS).map(OpenId)) {
            few.leave(open);
            many.leave(open);
        }
        prop_assert!(few.is_empty() && many.is_empty());
    }
}
