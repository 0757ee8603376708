//! What a session had begun through an open when it was lost, and its client that comes back for the open.

use std::sync::Arc;
use std::time::Duration;

use store::{RamStore, Waits};
use tokio::time::sleep;
use wire::command::cancel::CancelRequest;
use wire::command::create::{CreateRequest, OplockLevel};
use wire::command::read::ReadResponse;
use wire::command::set_info::{InfoType, SetInfoRequest};
use wire::command::write::WriteRequest;
use wire::context::durable::DurableFlags;
use wire::fscc::FileClass;
use wire::fscc::file::EndOfFile;
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::tests::{Contexts, GUID, back_v2, bytes, create, lose, run, v2};
use crate::state::configuration::Signing;
use crate::state::open_id::OpenId;
use crate::state::restore::restore;
use crate::state::scavenger::scavenge;
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, Peer, by_hand, server_with, working};

/// A server whose share may wait, and whose pool works when it is told to. It keeps records in the folder.
fn served(folder: &tempfile::TempDir) -> Arc<Shared> {
    let server = by_hand(server_with(Signing::Enabled, Arc::new(RamStore::that_waits(64 << 20, Waits::ForData))));
    server.durables.keep_records(folder.path()).unwrap();
    restore(&server).unwrap();
    server
}

/// A client with an open that is kept, through which data was written once.
async fn opened(server: &Arc<Shared>, contexts: &Contexts) -> (Peer, FileId) {
    working(server, async {
        let mut peer = super::persistent_tests::persistent_peer(server).await;
        let id = create(&mut peer, "file", contexts).await.file_id();
        let request = write(id, b"first");
        assert_eq!(peer.ask(Command::WRITE, |body| request.encode(body)).await.status(), Status::SUCCESS);
        (peer, id)
    })
    .await
}

fn write(file_id: FileId, data: &[u8]) -> WriteRequest<'_> {
    WriteRequest { file_id, data, ..WriteRequest::default() }
}

/// Asks for something that nobody answers yet.
fn begin(peer: &mut Peer, command: Command, body: impl FnOnce(&mut Vec<u8>)) {
    let mut message = peer.message(command, body);
    peer.process(&mut message).unwrap();
}

/// The client asks for its open again.
fn begin_coming_back(peer: &mut Peer, contexts: &Contexts) {
    let batch = |request: &mut CreateRequest<'_>| request.oplock_level = OplockLevel::BATCH;
    let mut message = peer.create_message("file", &bytes(contexts), batch);
    peer.process(&mut message).unwrap();
}

fn waits(server: &Arc<Shared>, id: FileId) -> bool {
    server.durables.find(OpenId(id.persistent)).is_some()
}

async fn read(peer: &mut Peer, file_id: FileId) -> Vec<u8> {
    let answer = peer.read(file_id, 0, 100).await;
    ReadResponse::decode(&answer.message).unwrap().data.to_vec()
}

#[test]
fn what_a_lost_session_began_is_made_before_its_client_has_the_open_back() {
    run(async {
        for flags in [DurableFlags::NONE, DurableFlags::PERSISTENT] {
            for cuts in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let server = served(&folder);
                let mut contexts = v2(0, GUID);
                if flags == DurableFlags::PERSISTENT {
                    contexts = super::persistent_tests::persistent(GUID);
                }
                let (mut peer, id) = opened(&server, &contexts).await;
                if cuts {
                    let mut buffer = Vec::new();
                    EndOfFile { end_of_file: 2 }.encode(&mut buffer);
                    let (info_type, class) = (InfoType::FILE, FileClass::END_OF_FILE.into());
                    let request =
                        SetInfoRequest { info_type, class, file_id: id, buffer: &buffer, ..Default::default() };
                    begin(&mut peer, Command::SET_INFO, |body| request.encode(body));
                } else {
                    begin(&mut peer, Command::WRITE, |body| write(id, b"older").encode(body));
                }
                tokio::task::yield_now().await;
                lose(&peer);
                let mut peer = super::persistent_tests::persistent_peer(&server).await;
                begin_coming_back(&mut peer, &back_v2(id, GUID, flags));
                assert_eq!(peer.receive().await.status(), Status::PENDING);
                assert!(waits(&server, id));
                let newer = write(id, b"newer");
                let data = working(&server, async {
                    assert_eq!(peer.receive().await.file_id(), id);
                    let written = peer.ask(Command::WRITE, |body| newer.encode(body)).await;
                    assert_eq!(written.status(), Status::SUCCESS);
                    sleep(Duration::from_millis(100)).await;
                    read(&mut peer, id).await
                })
                .await;
                assert_eq!(data, b"newer", "{flags:?}, {cuts}");
            }
        }
    });
}

#[test]
fn a_lost_session_begins_nothing_more() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let server = served(&folder);
        let (peer, id) = opened(&server, &v2(0, GUID)).await;
        let of = |peer: &Peer| peer.opened(&server, id);
        let old = of(&peer);
        lose(&peer);
        assert_eq!(old.begin_change(0..1).err(), Some(Status::FILE_CLOSED));
        assert!(old.begin_change_at_once().is_none());
        let peer = working(&server, async {
            let mut peer = super::persistent_tests::persistent_peer(&server).await;
            create(&mut peer, "file", &back_v2(id, GUID, DurableFlags::NONE)).await.file_id();
            peer
        })
        .await;
        assert_eq!(old.begin_change(0..1).err(), Some(Status::FILE_CLOSED));
        assert!(of(&peer).begin_change(0..1).is_ok());
    });
}

#[test]
fn an_open_whose_client_is_back_in_time_is_kept_while_its_device_hangs() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let server = served(&folder);
        tokio::task::spawn_local(scavenge(Arc::clone(&server)));
        let (mut peer, id) = opened(&server, &v2(60_000, GUID)).await;
        begin(&mut peer, Command::WRITE, |body| write(id, b"older").encode(body));
        tokio::task::yield_now().await;
        lose(&peer);
        sleep(Duration::from_secs(50)).await;
        let mut peer = super::persistent_tests::persistent_peer(&server).await;
        begin_coming_back(&mut peer, &back_v2(id, GUID, DurableFlags::NONE));
        assert_eq!(peer.receive().await.status(), Status::PENDING);
        sleep(Duration::from_secs(600)).await;
        assert!(waits(&server, id));
        let answer: Answer = working(&server, peer.receive()).await;
        assert_eq!(answer.file_id(), id);
    });
}

#[test]
fn a_client_that_waits_no_longer_for_its_open_leaves_it_waiting() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let server = served(&folder);
        let (mut peer, id) = opened(&server, &v2(0, GUID)).await;
        begin(&mut peer, Command::WRITE, |body| write(id, b"older").encode(body));
        tokio::task::yield_now().await;
        lose(&peer);
        let mut peer = super::persistent_tests::persistent_peer(&server).await;
        let message_id = peer.message_id;
        begin_coming_back(&mut peer, &back_v2(id, GUID, DurableFlags::NONE));
        assert_eq!(peer.receive().await.status(), Status::PENDING);
        let next = std::mem::replace(&mut peer.message_id, message_id);
        begin(&mut peer, Command::CANCEL, |body| CancelRequest.encode(body));
        peer.message_id = next;
        assert_eq!(peer.receive().await.status(), Status::CANCELLED);
        assert!(waits(&server, id));
        let back = back_v2(id, GUID, DurableFlags::NONE);
        let answer = working(&server, create(&mut peer, "file", &back)).await;
        // It is asked for behind an interim answer, or is there already.
        let answer = if answer.status() == Status::PENDING { working(&server, peer.receive()).await } else { answer };
        assert_eq!(answer.file_id(), id);
    });
}
