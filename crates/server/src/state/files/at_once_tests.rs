//! Who comes behind WRITEs that a shard makes at once: what others ask for is asked while the store is at one.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Waker};

use store::{Identity, RamStore};
use tokio::task::LocalSet;
use wire::command::close::CloseRequest;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::ReadResponse;
use wire::command::write::WriteRequest;
use wire::ids::{Command, FileId};
use wire::security::Sid;
use wire::status::Status;

use super::FileEntry;
use crate::state::configuration::Signing;
use crate::state::open_id::OpenId;
use crate::tests::interrupted::{Call, Interrupted, is_to_happen_here, once_here};
use crate::tests::testing::{Peer, server_with};

/// How often threads meet, and how many of them write.
const ROUNDS: usize = 2_000;
const WRITERS: usize = 3;

fn is_over<F: Future<Output = ()>>(future: &mut Pin<Box<F>>) -> bool {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn write(peer: &mut Peer, file_id: FileId) -> Vec<u8> {
    let request = WriteRequest { file_id, data: b"written", ..WriteRequest::default() };
    peer.message(Command::WRITE, |body| request.encode(body))
}

/// Makes the write; in the middle of it `asked` comes in on another connection. It is not answered before the write is made.
async fn asked_during_a_write(peer: &mut Peer, file: FileId, other: Peer, mut asked: Vec<u8>) -> Peer {
    let other = Rc::new(other);
    let during = Rc::clone(&other);
    once_here(Call::Write, move || {
        during.process(&mut asked).unwrap();
        assert!(during.take_frame().is_none(), "it is answered before the write is made");
    });
    let mut write = write(peer, file);
    peer.process(&mut write).unwrap();
    assert!(!is_to_happen_here(), "the shard makes it at once");
    assert_eq!(peer.receive().await.status(), Status::SUCCESS);
    Rc::into_inner(other).unwrap()
}

async fn two_channels() -> (Arc<crate::state::shared::Shared>, Peer, FileId, Peer) {
    let server = server_with(Signing::Enabled, Interrupted::around(RamStore::new(64 << 20)).0);
    let mut one = Peer::sign_in(&server).await;
    // What exists is found as it is to be interrupted.
    let made = one.open("file").await;
    one.close(made).await;
    let file = one.open("file").await;
    let other = Peer::bound(&server, &one).await;
    (server, one, file, other)
}

#[tokio::test]
async fn a_lock_is_told_of_behind_a_write_that_another_shard_makes_at_once() {
    let test = async {
        let (_server, mut one, file, mut other) = two_channels().await;
        let locked = other.open("file").await;
        let elements =
            [LockElement { offset: 0, length: 100, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY }];
        let request = LockRequest { file_id: locked, locks: LockElements::new(&elements), ..LockRequest::default() };
        let lock = other.message(Command::LOCK, |body| request.encode(body));
        let mut other = asked_during_a_write(&mut one, file, other, lock).await;
        assert_eq!(other.receive().await.status(), Status::SUCCESS);
        // What it finds now stays.
        let late = write(&mut one, file);
        assert_eq!(one.exchange(late).await.status(), Status::FILE_LOCK_CONFLICT);
        let read = other.read(locked, 0, 100).await;
        assert_eq!(ReadResponse::decode(&read.message).unwrap().data, b"written");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_close_comes_behind_a_write_that_another_shard_makes_at_once() {
    let test = async {
        let (server, mut one, file, mut other) = two_channels().await;
        let request = CloseRequest { file_id: file, ..CloseRequest::default() };
        let close = other.message(Command::CLOSE, |body| request.encode(body));
        let other = asked_during_a_write(&mut one, file, other, close).await;
        assert_eq!(other.receive().await.status(), Status::SUCCESS);
        assert_eq!(server.files.claims(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[test]
fn nothing_begins_at_once_while_somebody_waits_for_what_did() {
    let file = Arc::new(FileEntry::new(Identity { volume: 1, file: 1 }));
    let closed = Arc::new(AtomicBool::new(false));
    let close = || {
        let closed = Arc::clone(&closed);
        Box::new(move || closed.store(true, Ordering::Relaxed))
    };
    let changes = [file.begin_change_at_once().unwrap(), file.begin_change_at_once().unwrap()];
    file.after_changes_of(OpenId(1), &Sid::SYSTEM, close());
    let mut locked = Box::pin(file.come_behind(OpenId(1), 0..1).unwrap().until_made());
    assert!(!is_over(&mut locked));
    let [first, second] = changes;
    drop(first);
    assert!(file.begin_change_at_once().is_none());
    assert!(!closed.load(Ordering::Relaxed) && !is_over(&mut locked));
    drop(second);
    assert!(closed.load(Ordering::Relaxed) && is_over(&mut locked));
    assert!(file.begin_change_at_once().is_some());
    assert!(file.come_behind(OpenId(1), 0..1).is_none());
}

#[test]
fn a_lock_that_was_told_of_finds_no_write_whenever_threads_meet() {
    let file = Arc::new(FileEntry::new(Identity { volume: 1, file: 1 }));
    let meets = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (writing, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if let Some(_change) = file.begin_change_at_once()
                        && !file.has_locks()
                    {
                        writing.fetch_add(1, Ordering::Relaxed);
                        std::hint::spin_loop();
                        writing.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..ROUNDS {
            file.locked.store(true, Ordering::Release);
            if let Some(follower) = file.come_behind(OpenId(1), 0..1) {
                meets.block_on(follower.until_made());
            }
            let found = writing.load(Ordering::Relaxed);
            file.locked.store(false, Ordering::Release);
            if found > 0 {
                is_over.store(true, Ordering::Relaxed);
            }
            assert_eq!(found, 0);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
