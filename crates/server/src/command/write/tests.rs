//! WRITE at the end of the file, through several opens and connections at once.

use std::sync::Arc;

use store::{DirectoryStore, Store};
use tempfile::TempDir;
use tokio::task::LocalSet;
use wire::command::create::AccessMask;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::write::WriteRequest;
use wire::ids::{Command, FileId};
use wire::security::access::{APPEND_DATA, READ_ATTRIBUTES};
use wire::status::Status;

use super::END_OF_FILE;
use crate::state::configuration::Signing;
use crate::tests::testing::{Peer, server, server_with};

/// Writes that each connection has in flight.
const IN_FLIGHT: usize = 40;

async fn open_to_append(peer: &mut Peer, name: &str) -> FileId {
    let answer = peer.create(name, |request| request.desired_access = AccessMask(APPEND_DATA | READ_ATTRIBUTES)).await;
    answer.file_id()
}

/// Sends appends that are one byte longer each, signed, without waiting for any answer.
fn send_appends(peer: &mut Peer, file_id: FileId, byte: u8) {
    for length in 1..=IN_FLIGHT {
        let data = vec![byte; length];
        let request = WriteRequest { file_id, offset: END_OF_FILE, data: &data, ..WriteRequest::default() };
        let mut message = peer.message(Command::WRITE, |body| request.encode(body));
        peer.sign(&mut message);
        peer.process(&mut message).unwrap();
    }
}

fn folder() -> (TempDir, Arc<dyn Store>) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(DirectoryStore::open(folder.path(), Default::default()).unwrap());
    (folder, store)
}

#[tokio::test]
async fn appends_of_several_connections_are_all_there() {
    let test = async {
        let (folder, store) = folder();
        let server = server_with(Signing::Enabled, store);
        let mut peers = [Peer::sign_in(&server).await, Peer::sign_in(&server).await];
        for (byte, peer) in b"ab".iter().zip(&mut peers) {
            let file = open_to_append(peer, "log").await;
            send_appends(peer, file, *byte);
        }
        for peer in &peers {
            for _ in 0..IN_FLIGHT {
                assert_eq!(peer.receive().await.status(), Status::SUCCESS);
            }
        }
        let data = std::fs::read(folder.path().join("log")).unwrap();
        let of_each = IN_FLIGHT * (IN_FLIGHT + 1) / 2;
        assert_eq!(data.len(), 2 * of_each);
        assert_eq!(data.iter().filter(|byte| **byte == b'a').count(), of_each);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn an_open_that_may_write_appends_where_it_says_so() {
    let test = async {
        let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
        let file = peer.open("file").await;
        assert_eq!(peer.write(file, 0, b"one").await, Status::SUCCESS);
        assert_eq!(peer.write(file, END_OF_FILE, b"two").await, Status::SUCCESS);
        assert_eq!(peer.write(file, END_OF_FILE, b"").await, Status::SUCCESS);
        assert_eq!(peer.write(file, END_OF_FILE - 1, b"x").await, Status::INVALID_PARAMETER);
        let known = peer.query(file, wire::fscc::FileClass::STANDARD, 24).await;
        let known = wire::command::query_info::QueryInfoResponse::decode(&known.message).unwrap().output.to_vec();
        assert_eq!(wire::fscc::file::Standard::decode(&known).unwrap().end_of_file, 6);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn an_open_that_may_only_append_changes_nothing_that_is_there() {
    let test = async {
        let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
        let file = open_to_append(&mut peer, "file").await;
        assert_eq!(peer.write(file, END_OF_FILE, b"one").await, Status::SUCCESS);
        assert_eq!(peer.write(file, 2, b"x").await, Status::ACCESS_DENIED);
        assert_eq!(peer.write(file, 3, b"two").await, Status::SUCCESS);
        assert_eq!(peer.write(file, 3, b"x").await, Status::ACCESS_DENIED);
        assert_eq!(peer.write(file, 10, b"far").await, Status::SUCCESS);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn an_append_respects_a_lock_where_it_goes_and_no_other() {
    let test = async {
        let server = server(Signing::Enabled);
        let (mut holder, mut writer) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
        let held = holder.open("file").await;
        let file = open_to_append(&mut writer, "file").await;
        let elements =
            [LockElement { offset: 3, length: 2, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY }];
        let request = LockRequest { file_id: held, locks: LockElements::new(&elements), ..LockRequest::default() };
        assert_eq!(holder.ask(Command::LOCK, |body| request.encode(body)).await.status(), Status::SUCCESS);
        assert_eq!(writer.write(file, END_OF_FILE, b"one").await, Status::SUCCESS);
        assert_eq!(writer.write(file, END_OF_FILE, b"two").await, Status::FILE_LOCK_CONFLICT);
        assert_eq!(writer.write(file, 5, b"two").await, Status::SUCCESS);
        assert_eq!(writer.write(file, END_OF_FILE, b"three").await, Status::SUCCESS);
    };
    LocalSet::new().run_until(test).await;
}
