//! Deletions that others asked for, and LOCK requests that were done, when the server was killed.

use wire::command::create::{CreateDisposition, CreateOptions};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::context::durable::DurableFlags;
use wire::fscc::FileClass;
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::restored_caching_tests::{nothing, other_peer};
use super::tests::{GUID, back_v2, create, run};
use crate::tests::testing::Peer;

async fn open(peer: &mut Peer, name: &str) -> FileId {
    create(peer, name, &nothing(persistent(GUID))).await.file_id()
}

/// The server is killed, the client comes back and closes what it has: whether the file is there then.
async fn is_there_after_a_kill(machine: &Machine, id: FileId, name: &str) -> bool {
    let server = machine.start();
    let mut peer = persistent_peer(&server).await;
    let answer = create(&mut peer, name, &nothing(back_v2(id, GUID, DurableFlags::PERSISTENT))).await;
    assert_eq!(answer.file_id(), id);
    peer.close(id).await;
    let answer = peer.create("file", |request| request.disposition = CreateDisposition::OPEN).await;
    match answer.status() {
        Status::SUCCESS => true,
        Status::OBJECT_NAME_NOT_FOUND => false,
        other => panic!("{other}"),
    }
}

#[test]
fn what_another_open_deletes_goes_though_the_server_is_killed_before_the_last_one_closes() {
    run(async {
        for name in ["file", "file:stream"] {
            let machine = Machine::new();
            let server = machine.start();
            let (mut peer, mut other) = (persistent_peer(&server).await, other_peer(&server).await);
            let id = open(&mut peer, name).await;
            let theirs = other.open("file").await;
            assert_eq!(other.set(theirs, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
            other.close(theirs).await;
            assert!(!is_there_after_a_kill(&machine, id, name).await, "{name}");
        }
    });
}

#[test]
fn what_another_open_deletes_no_longer_stays_though_the_server_is_killed() {
    run(async {
        for name in ["file", "file:stream"] {
            let machine = Machine::new();
            let server = machine.start();
            let (mut peer, mut other) = (persistent_peer(&server).await, other_peer(&server).await);
            let id = open(&mut peer, name).await;
            let theirs = other.open("file").await;
            for deletes in [1, 0] {
                assert_eq!(other.set(theirs, FileClass::DISPOSITION, &[deletes]).await, Status::SUCCESS);
            }
            assert!(is_there_after_a_kill(&machine, id, name).await, "{name}");
        }
    });
}

#[test]
fn what_goes_with_the_close_of_another_open_goes_though_the_server_is_killed() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (mut peer, mut other) = (persistent_peer(&server).await, other_peer(&server).await);
        let id = open(&mut peer, "file").await;
        let deletes = other.create("file", |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
        other.close(deletes.file_id()).await;
        assert!(!is_there_after_a_kill(&machine, id, "file").await);
    });
}

async fn lock(peer: &mut Peer, file_id: FileId, flags: LockFlags, sequence: (u32, u8)) -> Status {
    let elements = [LockElement { offset: 0, length: 10, flags }];
    let (lock_sequence_index, lock_sequence_number) = sequence;
    let locks = LockElements::new(&elements);
    let request = LockRequest { file_id, locks, lock_sequence_index, lock_sequence_number };
    peer.ask(Command::LOCK, |body| request.encode(body)).await.status()
}

#[test]
fn a_lock_that_is_sent_again_after_the_server_was_killed_is_done_once() {
    run(async {
        let exclusive = LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY;
        let machine = Machine::new();
        let mut peer = persistent_peer(&machine.start()).await;
        let id = open(&mut peer, "file").await;
        for (flags, number) in [(exclusive, 5), (LockFlags::UNLOCK, 6)] {
            assert_eq!(lock(&mut peer, id, flags, (64, number)).await, Status::SUCCESS);
            let server = machine.start();
            peer = persistent_peer(&server).await;
            let back = nothing(back_v2(id, GUID, DurableFlags::PERSISTENT));
            assert_eq!(create(&mut peer, "file", &back).await.file_id(), id);
            assert_eq!(lock(&mut peer, id, flags, (64, number)).await, Status::SUCCESS);
        }
        assert_eq!(lock(&mut peer, id, LockFlags::UNLOCK, (64, 7)).await, Status::RANGE_NOT_LOCKED);
    });
}
