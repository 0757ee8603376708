//! What persistent opens cache after the server was killed, and that none of them is in another one's way for it.

use std::sync::Arc;
use std::time::Duration;

use wire::command::close::CloseRequest;
use wire::command::create::{CreateResponse, OplockLevel};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::negotiate::Capabilities;
use wire::command::oplock_break::{LeaseBreak, OplockBreak, OplockBreakRequest};
use wire::context::create::{Lease, LeaseState, name};
use wire::context::durable::DurableFlags;
use wire::context::lease::LeaseV2;
use wire::fscc::FileClass;
use wire::ids::{Command, FileId, Guid, MessageId};
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::tests::{Contexts, GUID, KEY, OTHER_CLIENT, back_v2, bytes, create, run, works};
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, OTHER_USER, Peer, Terms};

pub(super) const OTHER_GUID: Guid = Guid([9; 16]);
pub(super) const OTHER_KEY: Guid = Guid([4; 16]);
pub(super) const READ: LeaseState = LeaseState::READ_CACHING;
pub(super) const READ_HANDLE: LeaseState = READ.union(LeaseState::HANDLE_CACHING);
pub(super) const ALL: LeaseState = READ_HANDLE.union(LeaseState::WRITE_CACHING);
/// What the first client counts with.
pub(super) const EPOCH: u16 = 17;

/// A client beside the first, of another user.
pub(super) async fn other_peer(server: &Arc<Shared>) -> Peer {
    let capabilities = Terms::default().capabilities | Capabilities::PERSISTENT_HANDLES;
    let terms = Terms { capabilities, client: OTHER_CLIENT, user: OTHER_USER, ..Terms::default() };
    Peer::sign_in_as(server, terms).await
}

pub(super) fn leased(mut contexts: Contexts, lease_key: Guid, lease_state: LeaseState) -> Contexts {
    let v2 = Some(LeaseV2 { epoch: EPOCH, ..LeaseV2::default() });
    contexts.push((name::LEASE, Lease { lease_key, lease_state, v2, ..Lease::default() }.to_bytes()));
    contexts
}

/// A lease that caches nothing, so that nothing has to be given up.
pub(super) fn nothing(contexts: Contexts) -> Contexts {
    leased(contexts, KEY, LeaseState::NONE)
}

pub(super) fn lease_of(answer: &Answer) -> Lease {
    assert_eq!(answer.status(), Status::SUCCESS);
    let response = CreateResponse::decode(&answer.message).unwrap();
    Lease::decode(response.contexts.find(name::LEASE).unwrap()).unwrap()
}

pub(super) fn epoch(lease: &Lease) -> u16 {
    lease.v2.unwrap().epoch
}

/// The first client's open with a lease on everything.
async fn opened(server: &Arc<Shared>) -> (Peer, FileId, Lease) {
    let mut peer = persistent_peer(server).await;
    let answer = create(&mut peer, "file", &leased(persistent(GUID), KEY, ALL)).await;
    assert_eq!(lease_of(&answer).lease_state, ALL);
    (peer, answer.file_id(), lease_of(&answer))
}

/// The same open after the server was killed. What its client believes to have is `believed`.
async fn back(server: &Arc<Shared>, id: FileId, believed: LeaseState) -> (Peer, Lease) {
    let mut peer = persistent_peer(server).await;
    let contexts = leased(back_v2(id, GUID, DurableFlags::PERSISTENT), KEY, believed);
    let answer = create(&mut peer, "file", &contexts).await;
    assert_eq!(answer.file_id(), id);
    assert!(works(&mut peer, id).await);
    (peer, lease_of(&answer))
}

/// Gives back what breaks, as soon as it does.
async fn acknowledge(peer: &mut Peer, request: OplockBreakRequest) {
    loop {
        let mut answer = peer.ask(Command::OPLOCK_BREAK, |body| request.encode(body)).await;
        while answer.header.message_id == MessageId::UNSOLICITED {
            answer = peer.receive().await;
        }
        if answer.status() == Status::SUCCESS {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Another client opens the file, and the first gives back for that what `request` says.
async fn let_in(peer: &mut Peer, mut other: Peer, contexts: Contexts, request: OplockBreakRequest) -> (Peer, FileId) {
    let opening = tokio::task::spawn_local(async move {
        let answer = create(&mut other, "file", &contexts).await;
        (other, answer.file_id())
    });
    acknowledge(peer, request).await;
    opening.await.unwrap()
}

/// What is left is to read, and to keep the file open.
pub(super) fn without_writes() -> OplockBreakRequest {
    OplockBreakRequest::Lease(LeaseBreak { lease_key: KEY, lease_state: READ_HANDLE })
}

pub(super) async fn write(peer: &mut Peer, file_id: FileId) -> Status {
    peer.write(file_id, 0, b"new").await
}

pub(super) async fn lock(peer: &mut Peer, file_id: FileId, flags: LockFlags) -> Status {
    let elements = [LockElement { offset: 0, length: 100, flags }];
    let request = LockRequest { file_id, locks: LockElements::new(&elements), ..LockRequest::default() };
    peer.ask(Command::LOCK, |body| request.encode(body)).await.status()
}

pub(super) fn exclusive() -> LockFlags {
    LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY
}

#[test]
fn a_lease_that_was_broken_is_in_no_other_opens_way_after_the_server_was_killed() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (mut peer, id, _) = opened(&server).await;
        let contexts = leased(persistent(OTHER_GUID), OTHER_KEY, READ_HANDLE);
        let (mut other, other_id) = let_in(&mut peer, other_peer(&server).await, contexts, without_writes()).await;
        assert_eq!(lock(&mut other, other_id, exclusive()).await, Status::SUCCESS);

        let server = machine.start();
        let (mut peer, lease) = back(&server, id, READ_HANDLE).await;
        assert_eq!(lease.lease_state, LeaseState::NONE, "ranges are locked: nobody reads them from memory");
        let mut other = other_peer(&server).await;
        let contexts = back_v2(other_id, OTHER_GUID, DurableFlags::PERSISTENT);
        let answer = create(&mut other, "file", &leased(contexts, OTHER_KEY, READ_HANDLE)).await;
        assert_eq!(answer.file_id(), other_id);
        assert_eq!(write(&mut peer, id).await, Status::FILE_LOCK_CONFLICT, "the lock is there");
        assert_eq!(write(&mut other, other_id).await, Status::SUCCESS);
    });
}

#[test]
fn write_caching_that_was_given_back_is_gone_after_the_server_was_killed() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (mut peer, id, lease) = opened(&server).await;
        let (mut other, other_id) = let_in(&mut peer, other_peer(&server).await, vec![], without_writes()).await;
        assert_eq!(write(&mut other, other_id).await, Status::SUCCESS);
        let request = CloseRequest { file_id: other_id, ..CloseRequest::default() };
        assert_eq!(other.ask(Command::CLOSE, |body| request.encode(body)).await.status(), Status::SUCCESS);

        // Whatever its client asks for: some always ask for all.
        let (_peer, again) = back(&machine.start(), id, ALL).await;
        assert_eq!(again.lease_state, READ_HANDLE);
        let ahead = epoch(&again).wrapping_sub(epoch(&lease));
        assert!((2..=0x7FFF).contains(&ahead), "what it has read is to be forgotten: {ahead}");
    });
}

#[test]
fn a_batch_oplock_that_was_given_back_is_gone_after_the_server_was_killed() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let id = create(&mut peer, "file", &persistent(GUID)).await.file_id();
        let request = OplockBreakRequest::Oplock(OplockBreak { oplock_level: OplockLevel::II, file_id: id });
        let_in(&mut peer, other_peer(&server).await, vec![], request).await;

        let mut peer = persistent_peer(&machine.start()).await;
        let answer = create(&mut peer, "file", &back_v2(id, GUID, DurableFlags::PERSISTENT)).await;
        assert_eq!(answer.file_id(), id);
        let level = CreateResponse::decode(&answer.message).unwrap().oplock_level;
        assert_eq!(level, OplockLevel::NONE, "nothing could tell it that what it has read is old");
    });
}

#[test]
fn a_lease_that_was_not_given_back_in_time_is_gone_after_the_server_was_killed() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (_peer, id, _) = opened(&server).await;
        let mut other = other_peer(&server).await;
        let answer = create(&mut other, "file", &vec![]).await;
        answer.file_id();

        let (_peer, again) = back(&machine.start(), id, ALL).await;
        assert_eq!(again.lease_state, LeaseState::NONE);
    });
}

#[test]
fn a_lease_that_nobody_broke_comes_back_as_it_was() {
    run(async {
        let machine = Machine::new();
        let (_peer, id, lease) = opened(&machine.start()).await;
        let server = machine.start();
        let contexts = leased(back_v2(id, GUID, DurableFlags::PERSISTENT), KEY, ALL);
        let mut peer = persistent_peer(&server).await;
        let answer = create(&mut peer, "file", &contexts).await;
        assert_eq!(lease_of(&answer), lease, "nobody can have changed what its client has read");
        assert_eq!(lease_of(&answer).lease_state, ALL);

        // It is broken as ever.
        let (_other, _) = let_in(&mut peer, other_peer(&server).await, vec![], without_writes()).await;
        let (_peer, again) = back(&machine.start(), id, ALL).await;
        assert_eq!(again.lease_state, READ_HANDLE);
    });
}

#[test]
fn a_client_gets_no_more_caching_back_than_it_believes_to_have() {
    run(async {
        let machine = Machine::new();
        let (_peer, id, _) = opened(&machine.start()).await;
        let (_peer, again) = back(&machine.start(), id, READ).await;
        assert_eq!(again.lease_state, READ);
    });
}

#[test]
fn a_client_that_cannot_be_told_to_read_again_caches_no_reads_after_the_server_was_killed() {
    run(async {
        let machine = Machine::new();
        let first = |mut contexts: Contexts| {
            let lease = Lease { lease_key: KEY, lease_state: READ_HANDLE, ..Lease::default() };
            contexts.push((name::LEASE, lease.to_bytes()));
            contexts
        };
        let mut peer = persistent_peer(&machine.start()).await;
        let answer = create(&mut peer, "file", &first(persistent(GUID))).await;
        assert_eq!(lease_of(&answer).lease_state, READ_HANDLE);
        let id = answer.file_id();
        let mut peer = persistent_peer(&machine.start()).await;
        let answer = create(&mut peer, "file", &first(back_v2(id, GUID, DurableFlags::PERSISTENT))).await;
        assert_eq!((answer.file_id(), lease_of(&answer).lease_state), (id, LeaseState::NONE));
    });
}

#[test]
fn all_persistent_opens_of_a_file_that_is_to_be_deleted_come_back() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let none = |mut contexts: Contexts| {
            let lease = Lease { lease_key: KEY, v2: Some(LeaseV2::default()), ..Lease::default() };
            contexts.push((name::LEASE, lease.to_bytes()));
            contexts
        };
        let ids = [
            create(&mut peer, "file", &none(persistent(GUID))).await.file_id(),
            create(&mut peer, "file", &none(persistent(OTHER_GUID))).await.file_id(),
        ];
        for id in ids {
            assert_eq!(peer.set(id, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
        }
        let mut peer = persistent_peer(&machine.start()).await;
        for (id, guid) in ids.into_iter().zip([GUID, OTHER_GUID]) {
            let answer = create(&mut peer, "file", &none(back_v2(id, guid, DurableFlags::PERSISTENT))).await;
            assert_eq!(answer.file_id(), id);
        }
    });
}

#[test]
fn a_lock_is_who_was_told_of_it_last_whatever_else_is_recorded() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (mut peer, mut other) = (persistent_peer(&server).await, other_peer(&server).await);
        let plain = |guid| bytes(&persistent(guid));
        // The other one is opened first, and comes first wherever opens are sorted.
        let other_id = other.create_edited("file", &plain(OTHER_GUID), |_| {}).await.file_id();
        let id = peer.create_edited("file", &plain(GUID), |_| {}).await.file_id();
        assert_eq!(lock(&mut peer, id, exclusive()).await, Status::SUCCESS);
        let path = machine.folder.path().join(format!("{:016x}.open", id.persistent));
        let before = std::fs::read(&path).unwrap();
        assert_eq!(lock(&mut peer, id, LockFlags::UNLOCK).await, Status::SUCCESS);
        assert_eq!(lock(&mut other, other_id, exclusive()).await, Status::SUCCESS);
        // The server is killed before it has written that the range is free.
        std::fs::write(&path, before).unwrap();

        let server = machine.start();
        let (mut peer, mut other) = (persistent_peer(&server).await, other_peer(&server).await);
        let back = |id, guid| bytes(&back_v2(id, guid, DurableFlags::PERSISTENT));
        assert_eq!(peer.create_edited("file", &back(id, GUID), |_| {}).await.file_id(), id);
        assert_eq!(other.create_edited("file", &back(other_id, OTHER_GUID), |_| {}).await.file_id(), other_id);
        assert_eq!(write(&mut other, other_id).await, Status::SUCCESS);
        assert_eq!(write(&mut peer, id).await, Status::FILE_LOCK_CONFLICT);
    });
}

#[test]
fn a_client_that_tells_no_epoch_forgets_what_it_has_read_each_time_the_server_was_killed() {
    run(async {
        let machine = Machine::new();
        let zero = |mut contexts: Contexts, lease_state| {
            let lease = Lease { lease_key: KEY, lease_state, v2: Some(LeaseV2::default()), ..Lease::default() };
            contexts.push((name::LEASE, lease.to_bytes()));
            contexts
        };
        let mut peer = persistent_peer(&machine.start()).await;
        let answer = create(&mut peer, "file", &zero(persistent(GUID), READ_HANDLE)).await;
        let (id, mut known) = (answer.file_id(), epoch(&lease_of(&answer)));
        for _ in 0..3 {
            let mut peer = persistent_peer(&machine.start()).await;
            let contexts = zero(back_v2(id, GUID, DurableFlags::PERSISTENT), ALL);
            let lease = lease_of(&create(&mut peer, "file", &contexts).await);
            assert_eq!(lease.lease_state, READ_HANDLE);
            let ahead = epoch(&lease).wrapping_sub(known);
            assert!((2..=0x7FFF).contains(&ahead), "{ahead}");
            known = epoch(&lease);
        }
    });
}

#[test]
fn a_lease_that_grew_through_another_open_comes_back_grown() {
    run(async {
        let machine = Machine::new();
        let mut peer = persistent_peer(&machine.start()).await;
        let answer = create(&mut peer, "file", &leased(persistent(GUID), KEY, READ_HANDLE)).await;
        let id = answer.file_id();
        let answer = create(&mut peer, "file", &leased(vec![], KEY, ALL)).await;
        assert_eq!(lease_of(&answer).lease_state, ALL);
        let (_peer, again) = back(&machine.start(), id, ALL).await;
        assert_eq!(again.lease_state, ALL);
    });
}

#[test]
fn a_lease_is_not_taken_up_by_a_create_of_another_client() {
    run(async {
        let machine = Machine::new();
        let (_peer, id, _) = opened(&machine.start()).await;
        let server = machine.start();
        let capabilities = Terms::default().capabilities | Capabilities::PERSISTENT_HANDLES;
        let terms = Terms { capabilities, client: OTHER_CLIENT, ..Terms::default() };
        let mut other = Peer::sign_in_as(&server, terms).await;
        let contexts = leased(persistent(GUID), KEY, ALL);
        let refused = create(&mut other, "file", &contexts).await;
        assert_eq!(refused.status(), Status::FILE_NOT_AVAILABLE, "breaks would be told to the first");
        let mut peer = persistent_peer(&server).await;
        assert_eq!(create(&mut peer, "file", &contexts).await.file_id(), id);
    });
}
