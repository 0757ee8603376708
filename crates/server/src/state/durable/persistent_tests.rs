//! Opens that outlive the server, as clients see them.

use std::sync::Arc;
use std::time::Duration;

use store::{Kind, NewNode, RamStore, Resolved, SharePath, Store, Use};
use wire::command::create::{CreateRequest, CreateResponse, ShareAccess};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::negotiate::Capabilities;
use wire::context::create::{DurableRequestV2, DurableResponseV2, Lease, LeaseState, name};
use wire::context::durable::DurableFlags;
use wire::context::lease::LeaseV2;
use wire::ids::{Command, Guid};
use wire::security::access::{APPEND_DATA, DELETE, READ_ATTRIBUTES, READ_DATA, WRITE_ATTRIBUTES, WRITE_DATA};
use wire::status::Status;

use super::Farewell;
use super::tests::{Contexts, GUID, KEY, back_v2, bytes, create, lose, run, works};
use crate::state::configuration::Signing;
use crate::state::open_id::OpenId;
use crate::state::restore::restore;
use crate::state::scavenger::scavenge;
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, OTHER_USER, Peer, Terms, server_with};

/// A server that keeps records, and one after it that finds them: the first is killed, as far as its clients and files can tell.
pub(super) struct Machine {
    pub(super) store: Arc<dyn Store>,
    pub(super) folder: tempfile::TempDir,
}

impl Machine {
    pub(super) fn new() -> Self {
        Machine { store: Arc::new(RamStore::new(64 << 20)), folder: tempfile::tempdir().unwrap() }
    }

    pub(super) fn start(&self) -> Arc<Shared> {
        let server = server_with(Signing::Enabled, Arc::clone(&self.store));
        server.durables.keep_records(self.folder.path()).unwrap();
        restore(&server).unwrap();
        server
    }

    pub(super) fn records(&self) -> Vec<std::path::PathBuf> {
        std::fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }
}

pub(super) async fn persistent_peer(server: &Arc<Shared>) -> Peer {
    let capabilities = Terms::default().capabilities | Capabilities::PERSISTENT_HANDLES;
    Peer::sign_in_as(server, Terms { capabilities, ..Terms::default() }).await
}

pub(super) fn persistent(create_guid: Guid) -> Contexts {
    let request = DurableRequestV2 { timeout_milliseconds: 0, flags: DurableFlags::PERSISTENT, create_guid };
    vec![(name::DURABLE_HANDLE_REQUEST_V2, request.to_bytes())]
}

fn granted(answer: &Answer) -> DurableFlags {
    let response = CreateResponse::decode(&answer.message).unwrap();
    let data = response.contexts.find(name::DURABLE_HANDLE_REQUEST_V2);
    data.map_or(DurableFlags::NONE, |data| DurableResponseV2::decode(data).unwrap().flags)
}

#[test]
fn a_persistent_open_survives_the_server_with_its_locks() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let bytes = bytes(&persistent(GUID));
        let answer = peer.create_edited("file", &bytes, |request| request.share_access = ShareAccess::READ).await;
        let id = answer.file_id();
        assert_eq!(granted(&answer), DurableFlags::PERSISTENT);
        let lock =
            [LockElement { offset: 1, length: 2, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY }];
        let request = LockRequest { file_id: id, locks: LockElements::new(&lock), ..LockRequest::default() };
        assert_eq!(peer.ask(Command::LOCK, |body| request.encode(body)).await.status(), Status::SUCCESS);

        let server = machine.start();
        let mut other = persistent_peer(&server).await;
        assert_eq!(create(&mut other, "FILE", &vec![]).await.status(), Status::FILE_NOT_AVAILABLE);
        let stolen = back_v2(id, Guid([1; 16]), DurableFlags::PERSISTENT);
        assert_eq!(create(&mut other, "file", &stolen).await.status(), Status::OBJECT_NAME_NOT_FOUND);
        let mut peer = persistent_peer(&server).await;
        let back = back_v2(id, GUID, DurableFlags::PERSISTENT);
        assert_eq!(create(&mut peer, "file", &back).await.file_id(), id);
        assert!(works(&mut peer, id).await);
        assert_eq!(create(&mut other, "file", &vec![]).await.status(), Status::SHARING_VIOLATION);
        let unlock = [LockElement { flags: LockFlags::UNLOCK, ..lock[0] }];
        let request = LockRequest { file_id: id, locks: LockElements::new(&unlock), ..LockRequest::default() };
        assert_eq!(peer.ask(Command::LOCK, |body| request.encode(body)).await.status(), Status::SUCCESS);
        peer.close(id).await;
        assert_eq!(machine.records(), Vec::<std::path::PathBuf>::new());
        create(&mut other, "file", &vec![]).await.file_id();
        assert!(server.new_open_id().0 > id.persistent);
    });
}

#[test]
fn a_persistent_open_survives_the_server_where_another_one_renamed_its_file() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (mut peer, mut other) = (persistent_peer(&server).await, persistent_peer(&server).await);
        let id = create(&mut peer, "file", &persistent(GUID)).await.file_id();
        let renaming = other.open("file").await;
        assert_eq!(other.rename(renaming, "moved").await, Status::SUCCESS);
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let back = back_v2(id, GUID, DurableFlags::PERSISTENT);
        assert_eq!(create(&mut peer, "moved", &back).await.file_id(), id);
        assert!(works(&mut peer, id).await);
    });
}

#[test]
fn a_persistent_open_that_nobody_reclaims_is_gone_with_its_record() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        tokio::task::spawn_local(scavenge(Arc::clone(&server)));
        let mut peer = persistent_peer(&server).await;
        let id = create(&mut peer, "file", &persistent(GUID)).await.file_id();
        lose(&peer);
        assert_eq!(server.close_disconnected(OpenId(id.persistent)), Farewell::Stays);
        let mut other = persistent_peer(&server).await;
        assert_eq!(create(&mut other, "file", &vec![]).await.status(), Status::FILE_NOT_AVAILABLE);
        tokio::time::sleep(Duration::from_millis(60_100)).await;
        // It is closed on one of the pool's threads, in real time.
        let mut again = create(&mut other, "file", &vec![]).await;
        let mut looks = 0;
        while again.status() == Status::FILE_NOT_AVAILABLE || !machine.records().is_empty() {
            looks += 1;
            assert!(looks < 10_000, "it is still there: {:?}, {:?}", again.status(), machine.records());
            server.pool.run(crate::resource::pool::QueueKey::OWN, std::thread::yield_now).await.unwrap();
            again = create(&mut other, "file", &vec![]).await;
        }
        again.file_id();
    });
}

#[test]
fn the_create_that_made_a_persistent_open_gets_it_again() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let id = create(&mut peer, "file", &persistent(GUID)).await.file_id();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let bytes = bytes(&persistent(GUID));
        let other = peer.create_edited("file", &bytes, |request| request.share_access = ShareAccess::NONE).await;
        assert_eq!(other.status(), Status::CONTEXT_MISMATCH);
        let mut thief = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..peer.terms }).await;
        assert_eq!(create(&mut thief, "file", &persistent(GUID)).await.status(), Status::ACCESS_DENIED);
        assert_eq!(create(&mut peer, "file", &persistent(GUID)).await.file_id(), id);
        assert_eq!(create(&mut peer, "file", &persistent(GUID)).await.status(), Status::FILE_NOT_AVAILABLE);
    });
}

#[test]
fn records_that_no_longer_fit_are_refused() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let mut ids = Vec::new();
        for (number, name) in ["gone", "moved", "replaced", "damaged"].into_iter().enumerate() {
            ids.push(create(&mut peer, name, &persistent(Guid([number as u8 + 1; 16]))).await.file_id());
        }
        assert_eq!(peer.rename(ids[1], "new name").await, Status::SUCCESS);
        for name in ["gone", "replaced"] {
            let path = SharePath::parse(name).unwrap();
            let Resolved::Found { node, .. } = machine.store.resolve(&path, Use::Metadata).unwrap() else { panic!() };
            machine.store.remove(&path, node.identity()).unwrap();
        }
        let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
        machine.store.create(&SharePath::parse("replaced").unwrap(), new).unwrap();
        let damaged = machine
            .records()
            .into_iter()
            .find(|path| path.file_stem().unwrap().to_str().unwrap() == format!("{:016x}", ids[3].persistent));
        std::fs::write(damaged.unwrap(), b"MLPO damaged").unwrap();

        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        for (number, id) in ids.into_iter().enumerate() {
            let back = back_v2(id, Guid([number as u8 + 1; 16]), DurableFlags::PERSISTENT);
            let expected = if number == 1 { Status::SUCCESS } else { Status::OBJECT_NAME_NOT_FOUND };
            assert_eq!(create(&mut peer, "whatever", &back).await.status(), expected, "{number}");
        }
    });
}

#[test]
fn without_the_capability_or_the_share_nothing_is_persistent() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = Peer::sign_in(&server).await;
        assert_eq!(granted(&create(&mut peer, "file", &persistent(GUID)).await), DurableFlags::NONE);
        let server = server_with(Signing::Enabled, Arc::clone(&machine.store));
        let mut peer = persistent_peer(&server).await;
        assert_eq!(granted(&create(&mut peer, "file", &persistent(GUID)).await), DurableFlags::NONE);
    });
}

/// A CREATE of "file" that asks for `access` and shares what `share` says.
async fn opening(peer: &mut Peer, access: u32, share: ShareAccess, contexts: &Contexts) -> Answer {
    let asked = |request: &mut CreateRequest<'_>| {
        (request.desired_access, request.share_access) = (access.into(), share);
    };
    peer.create_edited("file", &bytes(contexts), asked).await
}

#[test]
fn a_persistent_open_that_may_not_write_keeps_nobody_out_while_its_client_is_away() {
    run(async {
        let all = ShareAccess(7);
        for (access, share, writing) in [
            (READ_ATTRIBUTES, ShareAccess::NONE, Status::SUCCESS),
            (WRITE_ATTRIBUTES | DELETE, all, Status::SUCCESS),
            (READ_DATA, all, Status::SUCCESS),
            (READ_DATA, ShareAccess::READ, Status::SHARING_VIOLATION),
            (APPEND_DATA, all, Status::FILE_NOT_AVAILABLE),
        ] {
            let machine = Machine::new();
            let mut server = machine.start();
            let mut peer = persistent_peer(&server).await;
            let made = peer.open("file").await;
            peer.close(made).await;
            let answer = opening(&mut peer, access, share, &persistent(GUID)).await;
            let id = answer.file_id();
            assert_eq!(granted(&answer), DurableFlags::PERSISTENT);
            lose(&peer);
            for killed in [false, true] {
                if killed {
                    server = machine.start();
                }
                let mut other = persistent_peer(&server).await;
                let answer = opening(&mut other, READ_DATA | WRITE_DATA, all, &vec![]).await;
                assert_eq!(answer.status(), writing, "{access:x}, {killed}");
                if writing == Status::SUCCESS {
                    other.close(answer.file_id()).await;
                }
            }
            let mut peer = persistent_peer(&server).await;
            let back = back_v2(id, GUID, DurableFlags::PERSISTENT);
            assert_eq!(opening(&mut peer, access, share, &back).await.file_id(), id);
            assert!(works(&mut peer, id).await);
        }
    });
}

#[test]
fn a_persistent_open_comes_back_with_its_lease() {
    run(async {
        let leased = |mut contexts: Contexts| {
            let lease_state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
            let lease = Lease { lease_key: KEY, lease_state, v2: Some(LeaseV2::default()), ..Lease::default() };
            contexts.push((name::LEASE, lease.to_bytes()));
            contexts
        };
        let machine = Machine::new();
        let mut peer = persistent_peer(&machine.start()).await;
        let id = create(&mut peer, "file", &leased(persistent(GUID))).await.file_id();
        let mut peer = persistent_peer(&machine.start()).await;
        let back = leased(back_v2(id, GUID, DurableFlags::PERSISTENT));
        let answer = create(&mut peer, "file", &back).await;
        assert_eq!(answer.file_id(), id);
        let response = CreateResponse::decode(&answer.message).unwrap();
        let lease = Lease::decode(response.contexts.find(name::LEASE).unwrap()).unwrap();
        assert_eq!((lease.lease_key, lease.lease_state), (KEY, LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING));
    });
}
