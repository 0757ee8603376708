//! Streams that are renamed over others while these are opened and written, as clients see it.

use std::rc::Rc;
use std::sync::Arc;

use store::RamStore;
use tokio::task::LocalSet;
use wire::command::close::CloseRequest;
use wire::command::create::CreateDisposition;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::ReadResponse;
use wire::fscc::FileClass;
use wire::ids::{Command, FileId};
use wire::security::{Acl, Control, SecurityDescriptor};
use wire::status::Status;

use super::Emptying;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::interrupted::{Call, Interrupted, is_to_happen_here, once_here};
use crate::tests::testing::{Peer, server_with};

/// Two clients; the first has the stream `file:a` open, with "a" in it, and there is an empty `file:b`.
async fn two_clients() -> (Arc<Shared>, Peer, FileId, Peer) {
    let server = server_with(Signing::Enabled, Interrupted::around(RamStore::new(64 << 20)).0);
    let (mut one, other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
    // What exists is found as it is to be interrupted.
    for name in ["file", "file:b"] {
        let made = one.open(name).await;
        one.close(made).await;
    }
    let stream = one.open("file:a").await;
    assert_eq!(one.write(stream, 0, b"a").await, Status::SUCCESS);
    (server, one, stream, other)
}

async fn read(peer: &mut Peer, name: &str) -> Vec<u8> {
    let file_id = peer.open(name).await;
    let answer = peer.read(file_id, 0, 100).await;
    peer.close(file_id).await;
    match answer.status() {
        Status::SUCCESS => ReadResponse::decode(&answer.message).unwrap().data.to_vec(),
        _ => Vec::new(),
    }
}

async fn rename(peer: &mut Peer, stream: FileId, to: &str) -> Status {
    peer.set_name(stream, FileClass::RENAME, to, true).await
}

fn create(peer: &mut Peer, name: &str) -> Vec<u8> {
    create_with(peer, name, CreateDisposition::OPEN)
}

fn create_with(peer: &mut Peer, name: &str, disposition: CreateDisposition) -> Vec<u8> {
    peer.create_message(name, &[], |request| request.disposition = disposition)
}

#[tokio::test]
async fn what_is_written_to_a_stream_that_is_opened_while_it_is_replaced_stays() {
    for name in ["file:a", "file:b"] {
        let test = async {
            let (server, mut one, stream, mut other) = two_clients().await;
            let mut asked = create(&mut other, name);
            let other = Rc::new(other);
            let during = Rc::clone(&other);
            once_here(Call::RenameStream, move || during.process(&mut asked).unwrap());
            let renamed = rename(&mut one, stream, ":b").await;
            assert_eq!(renamed, Status::SUCCESS);
            assert!(!is_to_happen_here(), "it came in the middle");
            let mut other = Rc::into_inner(other).unwrap();
            let mut answer = other.receive().await;
            while answer.status() == Status::PENDING {
                answer = other.receive().await;
            }
            if name == "file:a" {
                assert_eq!(answer.status(), Status::OBJECT_NAME_NOT_FOUND);
            } else {
                let opened = answer.file_id();
                assert_eq!(other.write(opened, 0, b"b").await, Status::SUCCESS);
                other.close(opened).await;
                assert_eq!(read(&mut other, "file:b").await, b"b");
            }
            one.close(stream).await;
            assert!(server.files.is_empty());
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn a_stream_that_was_found_before_it_was_replaced_is_looked_up_again() {
    let test = async {
        let (_server, mut one, stream, mut other) = two_clients().await;
        let mut asked = one.name_message(stream, FileClass::RENAME, ":b", true);
        let one = Rc::new(one);
        let during = Rc::clone(&one);
        once_here(Call::LookForStream, move || during.process(&mut asked).unwrap());
        let opened = other.open("file:b").await;
        assert!(!is_to_happen_here(), "it came in the middle");
        let mut one = Rc::into_inner(one).unwrap();
        assert_eq!(one.receive().await.status(), Status::SUCCESS);
        assert_eq!(other.write(opened, 0, b"b").await, Status::SUCCESS);
        assert_eq!(read(&mut one, "file:b").await, b"b");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_stream_that_was_found_before_it_was_deleted_is_looked_up_again() {
    let test = async {
        let (_server, mut one, stream, mut other) = two_clients().await;
        assert_eq!(one.set(stream, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
        let request = CloseRequest { file_id: stream, ..CloseRequest::default() };
        let mut asked = one.message(Command::CLOSE, |body| request.encode(body));
        let one = Rc::new(one);
        let during = Rc::clone(&one);
        once_here(Call::LookForStream, move || during.process(&mut asked).unwrap());
        let opened = other.open("file:a").await;
        assert_eq!(other.write(opened, 0, b"new").await, Status::SUCCESS);
        other.close(opened).await;
        assert_eq!(read(&mut other, "file:a").await, b"new");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn who_waits_to_make_a_stream_is_judged_by_the_descriptor_that_the_file_has_then() {
    let test = async {
        let (server, mut one, _stream, mut other) = two_clients().await;
        let file = one.open("file").await;
        let entry = Arc::clone(&one.opened(&server, file).file().unwrap().file);
        let emptying = Emptying::begin(&server.files, &entry).unwrap();
        let mut late = create_with(&mut other, "file:new", CreateDisposition::OPEN_IF);
        other.process(&mut late).unwrap();
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let nobody = SecurityDescriptor {
            control: Control::DACL_PRESENT,
            dacl: Some(Acl { aces: Vec::new() }),
            ..SecurityDescriptor::default()
        };
        let security = nobody.encode().unwrap();
        one.opened(&server, file).file().unwrap().node.extras().set_security(&security).unwrap();
        drop(emptying);
        assert_eq!(other.last().await.status(), Status::ACCESS_DENIED);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn all_who_have_a_stream_open_know_its_new_name() {
    let test = async {
        let (server, mut one, stream, mut other) = two_clients().await;
        let second = other.open("file:a").await;
        assert_eq!(rename(&mut one, stream, ":b").await, Status::SUCCESS);
        let elements =
            [LockElement { offset: 0, length: 100, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY }];
        let request = LockRequest { file_id: second, locks: LockElements::new(&elements), ..LockRequest::default() };
        let locked = other.ask(Command::LOCK, |body| request.encode(body)).await;
        assert_eq!(locked.status(), Status::SUCCESS);
        assert_eq!(one.write(stream, 0, b"x").await, Status::FILE_LOCK_CONFLICT);
        assert_eq!(other.set(second, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
        other.close(second).await;
        let late = create(&mut other, "file:b");
        assert_eq!(other.exchange(late).await.status(), Status::DELETE_PENDING);
        one.close(stream).await;
        let gone = create(&mut other, "file:b");
        assert_eq!(other.exchange(gone).await.status(), Status::OBJECT_NAME_NOT_FOUND);
        assert!(server.files.is_empty());
    };
    LocalSet::new().run_until(test).await;
}
