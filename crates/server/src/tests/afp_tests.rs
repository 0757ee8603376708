//! The streams AFP_AfpInfo and AFP_Resource, in which Macs keep what they know of files.

use std::sync::Arc;

use store::{DirectoryStore, RamStore, Store};
use tempfile::TempDir;
use wire::command::create::{AccessMask, CreateAction, CreateDisposition, CreateResponse};
use wire::command::query_info::QueryInfoResponse;
use wire::command::read::ReadResponse;
use wire::command::set_info::{InfoType, SetInfoRequest};
use wire::fscc::FileClass;
use wire::fscc::afp::AfpInfo;
use wire::fscc::stream::streams;
use wire::ids::{Command, FileId};
use wire::security::access::{FILE_GENERIC_READ, READ_DATA};
use wire::security::{Ace, AceFlags, Acl, SecurityDescriptor, SecurityInformation};
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{OTHER_USER, Peer, Terms, server, server_with};

pub(super) async fn here(test: impl Future<Output = ()>) {
    tokio::task::LocalSet::new().run_until(test).await;
}

/// A server with a folder on disk, and one with memory.
pub(super) fn servers() -> (TempDir, [Arc<Shared>; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Store> = Arc::new(DirectoryStore::open(folder.path(), Default::default()).unwrap());
    let memory: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
    (folder, [disk, memory].map(|store| server_with(Signing::Enabled, store)))
}

async fn listed_streams(peer: &mut Peer, file: FileId) -> Vec<(String, u64)> {
    let answer = peer.query(file, FileClass::STREAM, 65_536).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    let output = QueryInfoResponse::decode(&answer.message).unwrap().output.to_vec();
    streams(&output).map(|stream| stream.unwrap()).map(|stream| (stream.name.decode().unwrap(), stream.size)).collect()
}

async fn read(peer: &mut Peer, file: FileId, offset: u64, length: u32) -> Vec<u8> {
    let answer = peer.read(file, offset, length).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    ReadResponse::decode(&answer.message).unwrap().data.to_vec()
}

async fn set_length(peer: &mut Peer, file: FileId, length: u64) -> Status {
    peer.set(file, FileClass::END_OF_FILE, &length.to_le_bytes()).await
}

/// What came of opening `name` so, and how long it is said to be; it is closed again.
async fn opened(peer: &mut Peer, name: &str, disposition: CreateDisposition) -> Result<(CreateAction, u64), Status> {
    let answer = peer.create(name, |request| request.disposition = disposition).await;
    if answer.status() != Status::SUCCESS {
        return Err(answer.status());
    }
    peer.close(answer.file_id()).await;
    let response = CreateResponse::decode(&answer.message).unwrap();
    Ok((response.create_action, response.end_of_file))
}

pub(super) fn typed() -> [u8; AfpInfo::LENGTH] {
    let mut bytes = AfpInfo::blank().to_bytes();
    bytes[16..24].copy_from_slice(b"TEXTttxt");
    bytes
}

#[tokio::test]
async fn finder_information_is_sixty_bytes_whatever_is_done() {
    here(async {
        let (_folder, servers) = servers();
        for server in servers {
            let mut peer = Peer::sign_in(&server).await;
            let made = peer.create("file:AFP_AfpInfo", |request| request.disposition = CreateDisposition::CREATE).await;
            assert_eq!(CreateResponse::decode(&made.message).unwrap().end_of_file, 60);
            let info = made.file_id();
            assert_eq!(read(&mut peer, info, 0, 100).await, AfpInfo::blank().to_bytes(), "nothing was written yet");
            assert_eq!(read(&mut peer, info, 12, 4).await, [0x80, 0, 0, 0]);
            assert_eq!(peer.read(info, 60, 1).await.status(), Status::END_OF_FILE);
            for (offset, data) in [(0, &b"XFP\0"[..]), (0, b"AF"), (0, &[0; 60]), (16, b"AFP\0TEXT"), (60, b"AFP\0")] {
                assert_eq!(peer.write(info, offset, data).await, Status::INVALID_PARAMETER, "{offset} {data:?}");
            }
            assert_eq!(peer.write(info, 0, b"").await, Status::SUCCESS);
            assert_eq!(peer.write(info, 0, &[&typed()[..], b"more"].concat()).await, Status::SUCCESS);
            assert_eq!(read(&mut peer, info, 0, 100).await, typed());
            for (offset, count) in [(0, 3), (0, 20), (7, 60)] {
                assert_eq!(peer.write(info, offset, &typed()[..count]).await, Status::SUCCESS, "{offset} {count}");
            }
            assert_eq!(read(&mut peer, info, 16, 8).await, *b"TEXTttxt", "the rest stays");
            for length in [0, 1, 60] {
                assert_eq!(set_length(&mut peer, info, length).await, Status::SUCCESS, "{length}");
            }
            assert_eq!(set_length(&mut peer, info, 61).await, Status::ALLOTTED_SPACE_EXCEEDED);
            assert_eq!(peer.set(info, FileClass::ALLOCATION, &0_u64.to_le_bytes()).await, Status::SUCCESS);
            assert_eq!(read(&mut peer, info, 0, 100).await, typed());
            let listed = listed_streams(&mut peer, info).await;
            assert_eq!(listed, [("::$DATA".to_owned(), 0), (":AFP_AfpInfo:$DATA".to_owned(), 60)]);
        }
    })
    .await;
}

#[tokio::test]
async fn finder_information_that_says_nothing_is_not_there() {
    here(async {
        let (_folder, servers) = servers();
        for server in servers {
            let mut peer = Peer::sign_in(&server).await;
            let file = peer.open("file").await;
            let none = [("::$DATA".to_owned(), 0)];
            let name = "file:afp_afpINFO:$DATA";
            let info = peer.open(name).await;
            assert_eq!(listed_streams(&mut peer, file).await, none, "made and not written to");
            assert_eq!(opened(&mut peer, name, CreateDisposition::OPEN).await, Err(Status::OBJECT_NAME_NOT_FOUND));
            assert_eq!(peer.write(info, 0, &typed()).await, Status::SUCCESS);
            assert_eq!(opened(&mut peer, name, CreateDisposition::OPEN).await, Ok((CreateAction::OPENED, 60)));
            let taken = opened(&mut peer, name, CreateDisposition::CREATE).await;
            assert_eq!(taken, Err(Status::OBJECT_NAME_COLLISION));
            assert_eq!(peer.write(info, 0, &AfpInfo::blank().to_bytes()).await, Status::SUCCESS);
            assert_eq!(listed_streams(&mut peer, file).await, none, "nothing of the Finder's is set");
            for needs_one in [CreateDisposition::OPEN, CreateDisposition::OVERWRITE] {
                assert_eq!(opened(&mut peer, name, needs_one).await, Err(Status::OBJECT_NAME_NOT_FOUND));
            }
            assert_eq!(opened(&mut peer, name, CreateDisposition::CREATE).await, Ok((CreateAction::CREATED, 60)));
            assert_eq!(opened(&mut peer, name, CreateDisposition::OPEN_IF).await, Ok((CreateAction::CREATED, 60)));
        }
    })
    .await;
}

#[tokio::test]
async fn a_resource_fork_without_a_byte_is_not_there() {
    here(async {
        let (_folder, servers) = servers();
        for server in servers {
            let mut peer = Peer::sign_in(&server).await;
            let (file, name) = (peer.open("file").await, "file:AFP_Resource");
            let fork = peer.open(name).await;
            assert_eq!(listed_streams(&mut peer, file).await.len(), 1);
            assert_eq!(opened(&mut peer, name, CreateDisposition::OPEN).await, Err(Status::OBJECT_NAME_NOT_FOUND));
            assert_eq!(peer.write(fork, 0, b"fork").await, Status::SUCCESS);
            let listed = listed_streams(&mut peer, file).await;
            assert_eq!(listed[1..], [(":AFP_Resource:$DATA".to_owned(), 4)]);
            assert_eq!(opened(&mut peer, name, CreateDisposition::OPEN).await, Ok((CreateAction::OPENED, 4)));
            assert_eq!(set_length(&mut peer, fork, 0).await, Status::SUCCESS);
            assert_eq!(listed_streams(&mut peer, file).await.len(), 1);
            assert_eq!(opened(&mut peer, name, CreateDisposition::OPEN).await, Err(Status::OBJECT_NAME_NOT_FOUND));
            assert_eq!(peer.write(fork, 2, b"x").await, Status::SUCCESS, "who has it open goes on");
            assert_eq!(read(&mut peer, fork, 0, 9).await, *b"\0\0x");
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_is_renamed_to_one_that_is_not_there() {
    here(async {
        let (_folder, servers) = servers();
        for server in servers {
            let mut peer = Peer::sign_in(&server).await;
            for (name, said) in [("AFP_Resource", &b""[..]), ("AFP_AfpInfo", &AfpInfo::blank().to_bytes())] {
                let blank = peer.open(&format!("file:{name}")).await;
                assert_eq!(peer.write(blank, 0, said).await, Status::SUCCESS);
                peer.close(blank).await;
                let stream = peer.open("file:other").await;
                assert_eq!(peer.write(stream, 0, &typed()).await, Status::SUCCESS);
                assert_eq!(peer.rename(stream, &format!(":{name}")).await, Status::SUCCESS, "{name}");
                peer.close(stream).await;
                let third = peer.open("file:third").await;
                assert_eq!(peer.rename(third, &format!(":{name}")).await, Status::OBJECT_NAME_COLLISION, "{name}");
                peer.close(third).await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn who_may_not_write_makes_no_fork_of_one_that_says_nothing() {
    here(async {
        let server = server(Signing::Enabled);
        let mut owner = Peer::sign_in(&server).await;
        let fork = owner.open("file:AFP_Resource").await;
        owner.close(fork).await;
        let mut reader = other_who_may(&server, &mut owner, "file", FILE_GENERIC_READ).await;
        for disposition in [CreateDisposition::OPEN_IF, CreateDisposition::CREATE] {
            let answer = reader
                .create("file:AFP_Resource", |request| {
                    (request.desired_access, request.disposition) = (AccessMask(READ_DATA), disposition);
                })
                .await;
            assert_eq!(answer.status(), Status::ACCESS_DENIED, "{disposition:?}");
        }
    })
    .await;
}

/// Another user, whom the descriptor of `name` grants this and nothing else.
pub(super) async fn other_who_may(server: &Arc<Shared>, owner: &mut Peer, name: &str, granted: u32) -> Peer {
    let peer = Peer::sign_in_as(server, Terms { user: OTHER_USER, ..Terms::default() }).await;
    let sid = *server.sessions.find(peer.session_id).unwrap().user.load().sid();
    let dacl = Acl { aces: vec![Ace::allow(sid, granted, AceFlags::NONE)] };
    let buffer = SecurityDescriptor { dacl: Some(dacl), ..SecurityDescriptor::default() }.encode().unwrap();
    let file_id = owner.open(name).await;
    let request = SetInfoRequest {
        info_type: InfoType::SECURITY,
        file_id,
        additional_information: SecurityInformation::DACL.0,
        buffer: &buffer,
        ..SetInfoRequest::default()
    };
    assert_eq!(owner.ask(Command::SET_INFO, |body| request.encode(body)).await.status(), Status::SUCCESS);
    owner.close(file_id).await;
    peer
}
