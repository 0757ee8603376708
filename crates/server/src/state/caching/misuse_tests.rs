//! Clients that break the rules of leases and of what waits for them, as the server answers them: a clear status each, and nobody else
//! waits longer than for one break.

use std::sync::Arc;
use std::time::Duration;

use store::RamStore;
use tokio::time::Instant;
use wire::command::create::{CreateResponse, OplockLevel};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::oplock_break::{OplockBreak, OplockBreakRequest};
use wire::context::create::{
    CreateContextsBuilder, DurableReconnectV2, DurableRequestV2, Lease, LeaseFlags, LeaseState, name,
};
use wire::context::durable::DurableFlags;
use wire::context::lease::LeaseV2;
use wire::ids::{Command, FileId, Guid};
use wire::status::Status;

use super::ACKNOWLEDGE_WITHIN;
use crate::state::configuration::Signing;
use crate::state::scavenger::scavenge;
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, OTHER_USER, Peer, Terms, by_hand, run, server, server_with};

const KEY: Guid = Guid([3; 16]);
const CREATE: Guid = Guid([7; 16]);
const READ_HANDLE: LeaseState = LeaseState::READ_CACHING.union(LeaseState::HANDLE_CACHING);
const ALL: LeaseState = READ_HANDLE.union(LeaseState::WRITE_CACHING);
const OTHER_CLIENT: Guid = Guid([8; 16]);

async fn other_client(server: &Arc<Shared>) -> Peer {
    Peer::sign_in_as(server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await
}

fn contexts(listed: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let mut builder = CreateContextsBuilder::new();
    for (name, data) in listed {
        builder.add(name, data);
    }
    builder.contexts().as_bytes().to_vec()
}

fn lease(lease_state: LeaseState) -> Vec<u8> {
    Lease { lease_key: KEY, lease_state, v2: Some(LeaseV2::default()), ..Lease::default() }.to_bytes()
}

async fn create(peer: &mut Peer, listed: &[(&[u8], Vec<u8>)]) -> Answer {
    peer.create_edited("file", &contexts(listed), |request| request.oplock_level = OplockLevel::LEASE).await
}

async fn leased(peer: &mut Peer) -> FileId {
    let answer = create(peer, &[(name::LEASE, lease(ALL))]).await;
    assert_eq!(granted(&answer).lease_state, ALL);
    answer.file_id()
}

fn granted(answer: &Answer) -> Lease {
    assert_eq!(answer.status(), Status::SUCCESS);
    let response = CreateResponse::decode(&answer.message).unwrap();
    Lease::decode(response.contexts.find(name::LEASE).unwrap()).unwrap()
}

#[test]
fn acknowledgements_of_what_was_never_granted_or_is_closed_are_refused() {
    run(async {
        let server = server(Signing::Enabled);
        let (mut peer, mut other) = (Peer::sign_in(&server).await, other_client(&server).await);
        assert_eq!(peer.acknowledge(KEY, READ_HANDLE).await, Status::OBJECT_NAME_NOT_FOUND);
        let file_id = leased(&mut peer).await;
        assert_eq!(peer.acknowledge(KEY, ALL).await, Status::UNSUCCESSFUL, "nothing breaks");
        assert_eq!(other.acknowledge(KEY, READ_HANDLE).await, Status::OBJECT_NAME_NOT_FOUND, "another client's");
        peer.close(file_id).await;
        assert_eq!(peer.acknowledge(KEY, READ_HANDLE).await, Status::OBJECT_NAME_NOT_FOUND, "closed");
        let oplock = OplockBreakRequest::Oplock(OplockBreak { oplock_level: OplockLevel::II, file_id });
        let answer = peer.ask(Command::OPLOCK_BREAK, |body| oplock.encode(body)).await;
        assert_eq!(answer.status(), Status::FILE_CLOSED);
        let file_id = peer.open("file").await;
        let oplock = OplockBreakRequest::Oplock(OplockBreak { oplock_level: OplockLevel::II, file_id });
        let answer = peer.ask(Command::OPLOCK_BREAK, |body| oplock.encode(body)).await;
        assert_eq!(answer.status(), Status::INVALID_OPLOCK_PROTOCOL, "an open without an oplock");
    });
}

#[test]
fn who_never_acknowledges_holds_others_up_for_one_break_and_no_longer() {
    run(async {
        let server = server(Signing::Enabled);
        let (mut silent, mut second) = (Peer::sign_in(&server).await, other_client(&server).await);
        leased(&mut silent).await;
        let began = Instant::now();
        let mut others = Vec::new();
        for number in 0..20 {
            let mut peer =
                Peer::sign_in_as(&server, Terms { client: Guid([number + 20; 16]), ..Terms::default() }).await;
            others.push(tokio::task::spawn_local(async move {
                // Each asks for all, and none of them acknowledges either.
                let answer = create(&mut peer, &[(name::LEASE, lease(ALL))]).await;
                assert_eq!(granted(&answer).lease_state, READ_HANDLE);
                peer
            }));
        }
        second.open("file").await;
        for other in others {
            other.await.unwrap();
        }
        let waited = began.elapsed();
        assert!(waited >= ACKNOWLEDGE_WITHIN && waited < ACKNOWLEDGE_WITHIN + Duration::from_secs(1), "{waited:?}");
        assert_eq!(silent.acknowledge(KEY, READ_HANDLE).await, Status::UNSUCCESSFUL, "too late");
    });
}

#[test]
fn locks_with_impossible_ranges_are_refused_and_leave_nothing() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let file_id = peer.open("file").await;
        let at_once = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
        for (offset, length) in [(u64::MAX, 2), (2, u64::MAX), (1 << 63, (1 << 63) + 1), (u64::MAX, u64::MAX)] {
            let locks =
                [(0, 10), (offset, length)].map(|(offset, length)| LockElement { offset, length, flags: at_once });
            let request = LockRequest { file_id, locks: LockElements::new(&locks), ..LockRequest::default() };
            let answer = peer.ask(Command::LOCK, |body| request.encode(body)).await;
            assert_eq!(answer.status(), Status::INVALID_LOCK_RANGE, "{offset:#x} {length:#x}");
        }
        let mut other = other_client(&server).await;
        let file_id = other.open("file").await;
        let locks = [LockElement { offset: 0, length: u64::MAX, flags: at_once }];
        let request = LockRequest { file_id, locks: LockElements::new(&locks), ..LockRequest::default() };
        assert_eq!(other.ask(Command::LOCK, |body| request.encode(body)).await.status(), Status::SUCCESS);
    });
}

fn durable() -> Vec<u8> {
    DurableRequestV2 { timeout_milliseconds: 10_000, flags: DurableFlags::NONE, create_guid: CREATE }.to_bytes()
}

fn back(file_id: FileId, create_guid: Guid) -> Vec<u8> {
    DurableReconnectV2 { file_id, create_guid, flags: DurableFlags::NONE }.to_bytes()
}

/// A server whose pool works when it is told to, and a durable open with a lease whose client is lost.
async fn lost_open() -> (Arc<Shared>, FileId) {
    let server = by_hand(server_with(Signing::Enabled, Arc::new(RamStore::new(1 << 20))));
    let mut peer = Peer::sign_in(&server).await;
    let answer = create(&mut peer, &[(name::LEASE, lease(ALL)), (name::DURABLE_HANDLE_REQUEST_V2, durable())]).await;
    assert_eq!(granted(&answer).lease_state, ALL);
    peer.disconnect();
    (server, answer.file_id())
}

#[test]
fn somebody_elses_keys_open_nothing() {
    run(async {
        let (server, id) = lost_open().await;
        let reconnect =
            |file_id, guid| vec![(name::LEASE, lease(ALL)), (name::DURABLE_HANDLE_RECONNECT_V2, back(file_id, guid))];
        let other_user = Terms { user: OTHER_USER, ..Terms::default() };
        let mut thieves = vec![other_client(&server).await, Peer::sign_in_as(&server, other_user).await];
        for thief in &mut thieves {
            let status = create(thief, &reconnect(id, CREATE)).await.status();
            assert!([Status::ACCESS_DENIED, Status::OBJECT_NAME_NOT_FOUND].contains(&status), "{status}");
        }
        let mut peer = Peer::sign_in(&server).await;
        let near = FileId { persistent: id.persistent + 1, volatile: id.volatile };
        for (file_id, guid) in [(id, Guid([1; 16])), (near, CREATE)] {
            let status = create(&mut peer, &reconnect(file_id, guid)).await.status();
            assert_eq!(status, Status::OBJECT_NAME_NOT_FOUND);
        }
        assert_eq!(
            create(&mut peer, &reconnect(id, CREATE)).await.status(),
            Status::SUCCESS,
            "its own client has it still"
        );
    });
}

#[test]
fn a_reconnect_during_scavenging_comes_too_late_and_gets_the_lease_anew() {
    run(async {
        let (server, id) = lost_open().await;
        tokio::task::spawn_local(scavenge(Arc::clone(&server)));
        tokio::time::sleep(Duration::from_millis(10_001)).await;
        let mut peer = Peer::sign_in(&server).await;
        let listed = [(name::LEASE, lease(ALL)), (name::DURABLE_HANDLE_RECONNECT_V2, back(id, CREATE))];
        assert_eq!(create(&mut peer, &listed).await.status(), Status::OBJECT_NAME_NOT_FOUND);
        // The open is not closed yet: its lease is not to be had before it is.
        let pool = server.pool.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_secs(2)).await;
            while pool.work_once() {}
        });
        let began = Instant::now();
        let answer = create(&mut peer, &[(name::LEASE, lease(ALL))]).await;
        let Lease { lease_state, flags, v2, .. } = granted(&answer);
        assert_eq!((lease_state, flags, v2.unwrap().epoch), (ALL, LeaseFlags::NONE, 1));
        assert!(began.elapsed() >= Duration::from_secs(2) && began.elapsed() < Duration::from_secs(3));
    });
}

/// A break that its client was told of and did not live to acknowledge is not inherited by the open that comes next.
#[test]
fn a_lease_that_broke_for_a_lost_client_is_not_joined() {
    run(async {
        let (server, _) = lost_open().await;
        let mut other = other_client(&server).await;
        let opened = tokio::task::spawn_local(async move { other.open("file").await });
        tokio::time::sleep(Duration::from_millis(10)).await;
        let mut peer = Peer::sign_in(&server).await;
        let pool = server.pool.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            while pool.work_once() {}
        });
        let granted = granted(&create(&mut peer, &[(name::LEASE, lease(ALL))]).await);
        assert_eq!((granted.lease_state, granted.flags), (READ_HANDLE, LeaseFlags::NONE), "the other one has it open");
        opened.await.unwrap();
    });
}
