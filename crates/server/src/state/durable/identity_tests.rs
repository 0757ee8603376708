//! Persistent opens that wait for their client are in the way of whoever gets at their file, whatever name leads there.

use std::sync::Arc;

use store::{DirectoryStore, Store};
use wire::command::create::{CreateDisposition, CreateRequest, ShareAccess};
use wire::context::create::{Lease, LeaseState, name};
use wire::context::durable::DurableFlags;
use wire::context::lease::LeaseV2;
use wire::fscc::FileClass;
use wire::ids::FileId;
use wire::security::access::{READ_DATA, WRITE_DATA};
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::record::Record;
use super::restoring_tests::wait_until;
use super::tests::{Contexts, GUID, KEY, back_v2, bytes, create, lose, run};
use crate::admin::Admin;
use crate::state::configuration::{Configuration, Signing};
use crate::state::restore::restore;
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, Peer, server_with};

fn leased(mut contexts: Contexts) -> Contexts {
    let lease_state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING | LeaseState::WRITE_CACHING;
    let lease = Lease { lease_key: KEY, lease_state, v2: Some(LeaseV2::default()), ..Lease::default() };
    contexts.push((name::LEASE, lease.to_bytes()));
    contexts
}

/// Opens as others do who share everything.
async fn open(peer: &mut Peer, name: &str, contexts: &Contexts) -> Answer {
    let all = |request: &mut CreateRequest<'_>| {
        request.share_access = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
        if !contexts.is_empty() {
            request.oplock_level = wire::command::create::OplockLevel::LEASE;
        }
    };
    peer.create_edited(name, &bytes(contexts), all).await
}

/// A persistent open of "file", which shares all and caches writes, and whose file is "link", too.
async fn opened(peer: &mut Peer) -> FileId {
    let id = peer.open("file").await;
    assert_eq!(peer.set_name(id, FileClass::LINK, "link", false).await, Status::SUCCESS);
    peer.close(id).await;
    open(peer, "file", &leased(persistent(GUID))).await.file_id()
}

async fn back(server: &Arc<Shared>, id: FileId) -> Peer {
    let mut peer = persistent_peer(server).await;
    assert_eq!(create(&mut peer, "file", &leased(back_v2(id, GUID, DurableFlags::PERSISTENT))).await.file_id(), id);
    peer
}

/// A server after another one, on which `edit` says what is served at first. The share "other" is over the folder of the first share.
fn start(machine: &Machine, edit: impl Fn(&mut Configuration)) -> (Arc<Shared>, Configuration) {
    let server = server_with(Signing::Enabled, Arc::clone(&machine.store));
    let mut whole = Configuration::clone(&server.configuration.load());
    let other = crate::state::configuration::Share { name: "other".into(), ..whole.shares[0].clone() };
    whole.shares.push(other);
    let mut first = whole.clone();
    edit(&mut first);
    server.configuration.store(Arc::new(first));
    server.durables.keep_records(machine.folder.path()).unwrap();
    restore(&server).unwrap();
    (server, whole)
}

async fn peer_on(server: &Arc<Shared>, share: &str) -> Peer {
    let terms = crate::tests::testing::Terms::default();
    let capabilities = terms.capabilities | wire::command::negotiate::Capabilities::PERSISTENT_HANDLES;
    let mut peer = Peer::connect_as(server, crate::tests::testing::Terms { capabilities, ..terms });
    peer.negotiate().await;
    peer.set_up_session().await;
    assert_eq!(peer.connect(share).await, Status::SUCCESS);
    peer
}

#[test]
fn a_persistent_open_that_waits_is_in_the_way_of_every_name_of_its_file() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let id = opened(&mut peer).await;
        lose(&peer);
        let mut other = persistent_peer(&server).await;
        assert_eq!(open(&mut other, "link", &vec![]).await.status(), Status::FILE_NOT_AVAILABLE);
        drop(peer);

        let server = machine.start();
        let mut other = persistent_peer(&server).await;
        assert_eq!(open(&mut other, "LINK", &vec![]).await.status(), Status::FILE_NOT_AVAILABLE);
        open(&mut other, "link:stream", &vec![]).await.file_id();
        let mut peer = back(&server, id).await;
        peer.close(id).await;
        open(&mut other, "link", &vec![]).await.file_id();
    });
}

#[test]
fn a_persistent_open_that_waits_is_in_the_way_of_other_shares_over_its_folder() {
    run(async {
        let machine = Machine::new();
        let id = opened(&mut persistent_peer(&machine.start()).await).await;
        let (server, _) = start(&machine, |_| {});
        let mut other = peer_on(&server, "other").await;
        for name in ["file", "link"] {
            assert_eq!(open(&mut other, name, &vec![]).await.status(), Status::FILE_NOT_AVAILABLE, "{name}");
        }
        let mut peer = back(&server, id).await;
        peer.close(id).await;
        open(&mut other, "file", &vec![]).await.file_id();
    });
}

#[test]
fn a_persistent_open_of_a_share_that_comes_late_is_in_the_way_of_other_shares_over_its_folder() {
    run(async {
        let machine = Machine::new();
        let id = opened(&mut persistent_peer(&machine.start()).await).await;
        let (server, whole) = start(&machine, |configuration| {
            configuration.awaited = vec![configuration.shares.remove(0).name];
        });
        let mut other = peer_on(&server, "other").await;
        for name in ["file", "link"] {
            assert_eq!(open(&mut other, name, &vec![]).await.status(), Status::FILE_NOT_AVAILABLE, "{name}");
        }
        let mine = open(&mut other, "mine", &vec![]).await.file_id();
        assert_eq!(
            other.set_name(mine, FileClass::RENAME, "file", true).await,
            Status::ACCESS_DENIED,
            "it stays what it is"
        );
        server.replace(whole);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
        while server.configuration.load().shares.len() < 2 {
            assert!(std::time::Instant::now() < until, "the share is not served");
            std::thread::yield_now();
        }
        assert_eq!(open(&mut other, "link", &vec![]).await.status(), Status::FILE_NOT_AVAILABLE);
        let mut peer = back(&server, id).await;
        peer.close(id).await;
        open(&mut other, "link", &vec![]).await.file_id();
    });
}

#[test]
fn a_persistent_open_of_a_stream_that_is_not_back_keeps_its_file_from_being_emptied_or_deleted() {
    run(async {
        let machine = Machine::new();
        let mut peer = persistent_peer(&machine.start()).await;
        open(&mut peer, "file:stream", &leased(persistent(GUID))).await.file_id();
        let (server, _) = start(&machine, |configuration| {
            configuration.awaited = vec![configuration.shares.remove(0).name];
        });
        let mut other = peer_on(&server, "other").await;
        let deletes = open(&mut other, "file", &vec![]).await;
        assert_eq!(deletes.status(), Status::FILE_NOT_AVAILABLE);
        let empties = |request: &mut CreateRequest<'_>| {
            request.desired_access = (READ_DATA | WRITE_DATA).into();
            request.disposition = CreateDisposition::OVERWRITE;
        };
        assert_eq!(other.create("file", empties).await.status(), Status::FILE_NOT_AVAILABLE);
        let writes = |request: &mut CreateRequest<'_>| request.desired_access = (READ_DATA | WRITE_DATA).into();
        other.create("file", writes).await.file_id();
    });
}

#[test]
fn a_persistent_open_of_a_share_that_is_deleted_before_it_comes_is_in_nobodys_way() {
    run(async {
        let machine = Machine::new();
        opened(&mut persistent_peer(&machine.start()).await).await;
        let (server, mut whole) = start(&machine, |configuration| {
            configuration.awaited = vec![configuration.shares.remove(0).name];
        });
        whole.shares.remove(0);
        server.replace(whole);
        let mut other = peer_on(&server, "other").await;
        for name in ["file", "link"] {
            open(&mut other, name, &vec![]).await.file_id();
        }
        wait_until("it is still recorded", || machine.records().is_empty());
    });
}

#[test]
fn a_persistent_open_that_waits_is_in_the_way_of_shares_over_folders_above_and_below() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("middle/inner")).unwrap();
        let store = |path: &str| -> Arc<dyn Store> {
            Arc::new(DirectoryStore::open(&folder.path().join(path), Default::default()).unwrap())
        };
        let machine = Machine { store: store("middle"), ..Machine::new() };
        let mut peer = persistent_peer(&machine.start()).await;
        let directory = peer.open_directory("inner").await;
        peer.close(directory).await;
        let answer = open(&mut peer, "inner\\file", &leased(persistent(GUID))).await;
        let id = answer.file_id();
        std::fs::hard_link(folder.path().join("middle/inner/file"), folder.path().join("link")).unwrap();

        for is_late in [false, true] {
            let (server, _) = start(&machine, |configuration| {
                configuration.shares[1].store = store("");
                let below =
                    crate::state::configuration::Share { name: "below".into(), ..configuration.shares[1].clone() };
                configuration.shares.push(crate::state::configuration::Share { store: store("middle/inner"), ..below });
                if is_late {
                    configuration.awaited = vec![configuration.shares.remove(0).name];
                }
            });
            for (share, name) in [("other", "middle\\inner\\file"), ("other", "LINK"), ("below", "file")] {
                let mut other = peer_on(&server, share).await;
                let status = open(&mut other, name, &vec![]).await.status();
                assert_eq!(status, Status::FILE_NOT_AVAILABLE, "{share}, {name}, {is_late}");
            }
            if !is_late {
                let mut peer = persistent_peer(&server).await;
                let back = leased(back_v2(id, GUID, DurableFlags::PERSISTENT));
                assert_eq!(create(&mut peer, "inner\\file", &back).await.file_id(), id);
            }
        }
    });
}

#[test]
fn a_file_that_was_made_later_and_has_the_number_of_another_is_not_that_one() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(folder.path(), Default::default()).unwrap());
        let machine = Machine { store, ..Machine::new() };
        let id = opened(&mut persistent_peer(&machine.start()).await).await;
        let path = machine.records().remove(0);
        let record = Record::decode(&std::fs::read(&path).unwrap()).unwrap();
        let born = record.born.expect("the file system of temporary folders tells when a file was made");
        // As if the file had been made anew since.
        std::fs::write(&path, Record { born: Some(born - 1), ..record }.to_bytes()).unwrap();

        let server = machine.start();
        let mut other = persistent_peer(&server).await;
        open(&mut other, "link", &vec![]).await.file_id();
        let back = leased(back_v2(id, GUID, DurableFlags::PERSISTENT));
        let mut peer = persistent_peer(&server).await;
        assert_eq!(create(&mut peer, "file", &back).await.status(), Status::OBJECT_NAME_NOT_FOUND);
    });
}
