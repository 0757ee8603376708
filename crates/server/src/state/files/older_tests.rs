//! Who opens a file to write comes behind what others have begun who may not know what became of it.

use std::sync::Arc;
use std::time::Duration;

use store::{RamStore, Waits};
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::sleep;
use wire::command::create::{
    CreateAction, CreateDisposition, CreateOptions, CreateRequest, CreateResponse, OplockLevel,
};
use wire::command::read::ReadResponse;
use wire::command::write::WriteRequest;
use wire::context::create::{CreateContextsBuilder, Lease, LeaseState, name};
use wire::context::durable::{DurableFlags, DurableRequestV2};
use wire::fscc::file::Basic;
use wire::fscc::rename::Rename;
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Command, FileId, Guid};
use wire::security::access::{FILE_ALL, WRITE_ATTRIBUTES, WRITE_DAC};
use wire::status::Status;

use super::FileEntry;
use crate::state::configuration::Signing;
use crate::state::durable::Parting;
use crate::state::shared::Shared;
use crate::tests::testing::{OTHER_USER, Peer, Terms, by_hand, run, server_with};

/// What a client has begun when its connection is lost.
#[derive(Clone, Copy, Debug)]
enum Begun {
    /// A CREATE that empties the file.
    Empties(CreateDisposition),
    /// A WRITE through an open that ends, or that waits for its client.
    Writes { is_durable: bool },
    /// A SET_INFO through an open that ends.
    SetsAttributes,
}

fn frozen_server() -> Arc<Shared> {
    by_hand(server_with(Signing::Enabled, Arc::new(RamStore::that_waits(64 << 20, Waits::ForData))))
}

/// What comes of `task` while the pool works.
async fn thawed<T: 'static>(server: &Shared, task: JoinHandle<T>) -> T {
    while !task.is_finished() {
        while server.pool.work_once() {}
        sleep(Duration::from_millis(1)).await;
    }
    task.await.unwrap()
}

fn durable() -> Vec<u8> {
    let lease_state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
    let mut builder = CreateContextsBuilder::new();
    builder.add(name::LEASE, &Lease { lease_key: Guid([7; 16]), lease_state, ..Lease::default() }.to_bytes());
    let wish =
        DurableRequestV2 { timeout_milliseconds: 300_000, flags: DurableFlags::NONE, create_guid: Guid([8; 16]) };
    builder.add(name::DURABLE_HANDLE_REQUEST_V2, &wish.to_bytes());
    builder.contexts().as_bytes().to_vec()
}

fn write(peer: &mut Peer, file_id: FileId, data: &[u8]) -> Vec<u8> {
    let request = WriteRequest { file_id, data, ..WriteRequest::default() };
    peer.message(Command::WRITE, |body| request.encode(body))
}

/// Opens the file while the disk does not hang.
async fn opened(server: &Arc<Shared>, mut peer: Peer, contexts: Vec<u8>, level: OplockLevel) -> (Peer, FileId) {
    let opening = spawn_local(async move {
        let edit = |request: &mut CreateRequest<'_>| request.oplock_level = level;
        let answer = peer.create_edited("file", &contexts, edit).await;
        (peer, answer.file_id())
    });
    thawed(server, opening).await
}

/// What sets the attribute HIDDEN.
fn hidden() -> Vec<u8> {
    let basic = Basic { attributes: FileAttributes::HIDDEN, ..Basic::default() };
    let mut bytes = Vec::new();
    basic.encode(&mut bytes);
    bytes
}

/// Begins it, up to where it waits for the disk, and loses the client's connection.
async fn begin_and_be_lost(server: &Arc<Shared>, begun: Begun, file: &FileEntry) {
    let mut lost = Peer::sign_in_as(server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
    let session = server.sessions.find(lost.session_id).unwrap();
    match begun {
        Begun::Empties(disposition) => {
            spawn_local(async move { lost.create("file", |request| request.disposition = disposition).await });
            while !file.has_changes() {
                sleep(Duration::from_millis(1)).await;
                assert!(file.has_changes() || server.pool.work_once(), "it empties the file");
            }
        }
        Begun::Writes { is_durable } => {
            let (contexts, level) =
                if is_durable { (durable(), OplockLevel::LEASE) } else { (Vec::new(), OplockLevel::NONE) };
            let (mut lost, file_id) = opened(server, lost, contexts, level).await;
            let mut message = write(&mut lost, file_id, b"old");
            lost.process(&mut message).unwrap();
        }
        Begun::SetsAttributes => {
            let (mut lost, file_id) = opened(server, lost, Vec::new(), OplockLevel::NONE).await;
            spawn_local(async move { lost.set(file_id, FileClass::BASIC, &hidden()).await });
            sleep(Duration::from_secs(1)).await;
        }
    }
    server.end_session(&session, Parting::Lost, crate::state::audit::AuditEnd::Server);
}

/// The same for a file that somebody else has open to read: that one, and what waits for the disk.
async fn lost_at_the_disk(server: &Arc<Shared>, begun: Begun) -> (Peer, impl FnOnce()) {
    let mut reader = Peer::sign_in(server).await;
    let opening = spawn_local(async move { (reader.open("file").await, reader) });
    let (read_from, reader) = thawed(server, opening).await;
    let open = reader.opened(server, read_from);
    begin_and_be_lost(server, begun, &open.file().unwrap().file).await;
    (reader, server.pool.take_once().unwrap())
}

/// Has all done that does not wait for what the test holds back.
async fn do_all_else(server: &Shared) {
    for _ in 0..100 {
        while server.pool.work_once() {}
        sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn what_goes_with_a_lost_session_is_gone_before_its_client_opens_it_anew() {
    run(async {
        let server = frozen_server();
        let mut lost = Peer::sign_in_as(&server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
        let session = server.sessions.find(lost.session_id).unwrap();
        let opening = spawn_local(async move {
            lost.create("file", |request| request.options |= CreateOptions::DELETE_ON_CLOSE).await
        });
        assert_eq!(thawed(&server, opening).await.status(), Status::SUCCESS);
        server.end_session(&session, Parting::Lost, crate::state::audit::AuditEnd::Server);
        // Others of its session's work are before it.
        let closes = server.pool.take_once().unwrap();
        let mut anew = Peer::sign_in(&server).await;
        let opening = spawn_local(async move {
            let answer = anew.create("file", |request| request.disposition = CreateDisposition::OPEN_IF).await;
            let CreateResponse { file_id, create_action, .. } = CreateResponse::decode(&answer.message).unwrap();
            (file_id, create_action, anew)
        });
        do_all_else(&server).await;
        assert!(!opening.is_finished(), "it is not gone yet");
        closes();
        let (file_id, create_action, mut anew) = thawed(&server, opening).await;
        assert_eq!(create_action, CreateAction::CREATED);
        let written = spawn_local(async move {
            let message = write(&mut anew, file_id, b"new");
            assert_eq!(anew.exchange(message).await.status(), Status::SUCCESS);
            anew.close(file_id).await;
            anew.create("file", |request| request.disposition = CreateDisposition::OPEN).await
        });
        assert_eq!(thawed(&server, written).await.status(), Status::SUCCESS);
    });
}

#[test]
fn of_what_another_user_has_begun_data_alone_is_older() {
    for (begun, is_older) in [(Begun::Writes { is_durable: false }, true), (Begun::SetsAttributes, false)] {
        run(async move {
            let server = frozen_server();
            let (_reader, waits_for_disk) = lost_at_the_disk(&server, begun).await;
            let mut other = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
            let opening = spawn_local(async move { other.create("file", |_| {}).await.status() });
            do_all_else(&server).await;
            assert_eq!(opening.is_finished(), !is_older, "{begun:?}");
            waits_for_disk();
            assert_eq!(thawed(&server, opening).await, Status::SUCCESS);
        });
    }
}

#[test]
fn what_only_looks_whether_a_name_may_be_keeps_nobody_waiting() {
    run(async {
        let server = frozen_server();
        let holder = Peer::sign_in_as(&server, Terms { client: Guid([4; 16]), ..Terms::default() }).await;
        let _holder = opened(&server, holder, durable(), OplockLevel::LEASE).await;
        let looks = Peer::sign_in_as(&server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
        let session = server.sessions.find(looks.session_id).unwrap();
        let (mut looks, file_id) = opened(&server, looks, Vec::new(), OplockLevel::NONE).await;
        let mut link = Vec::new();
        Rename::encode("other", false, &mut link);
        spawn_local(async move { looks.set(file_id, FileClass::LINK, &link).await });
        sleep(Duration::from_secs(1)).await;
        server.end_session(&session, Parting::Lost, crate::state::audit::AuditEnd::Server);
        let _looking = server.pool.take_once().expect("it looks");
        let mut anew = Peer::sign_in(&server).await;
        let opening = spawn_local(async move { anew.create("file", |_| {}).await.status() });
        do_all_else(&server).await;
        assert!(opening.is_finished(), "it waits for one that has changed nothing");
        assert_eq!(opening.await.unwrap(), Status::SUCCESS);
    });
}

#[test]
fn what_a_lost_session_has_begun_is_older_than_what_its_client_writes_anew() {
    let begun = [
        (Begun::Empties(CreateDisposition::OVERWRITE), FILE_ALL),
        (Begun::Empties(CreateDisposition::OVERWRITE_IF), FILE_ALL),
        (Begun::Empties(CreateDisposition::SUPERSEDE), FILE_ALL),
        (Begun::Writes { is_durable: false }, FILE_ALL),
        (Begun::Writes { is_durable: true }, FILE_ALL),
        (Begun::SetsAttributes, WRITE_ATTRIBUTES),
        (Begun::SetsAttributes, WRITE_DAC),
    ];
    for (begun, access) in begun {
        run(async move {
            let server = frozen_server();
            let (_reader, waits_for_disk) = lost_at_the_disk(&server, begun).await;
            let mut anew = Peer::sign_in(&server).await;
            let opening = spawn_local(async move {
                let answer = anew.create("file", |request| request.desired_access = access.into()).await;
                (answer.file_id(), anew)
            });
            do_all_else(&server).await;
            assert!(!opening.is_finished(), "{begun:?} is not made yet");
            waits_for_disk();
            let (file_id, mut anew) = thawed(&server, opening).await;
            if access != FILE_ALL {
                return;
            }
            let written = spawn_local(async move {
                let message = write(&mut anew, file_id, b"new");
                assert_eq!(anew.exchange(message).await.status(), Status::SUCCESS);
                anew.read(file_id, 0, 10).await
            });
            let read = thawed(&server, written).await;
            assert_eq!(ReadResponse::decode(&read.message).unwrap().data, b"new", "{begun:?}");
        });
    }
}
