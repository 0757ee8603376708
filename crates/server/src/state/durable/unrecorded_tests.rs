//! What clients are answered while persistent opens cannot be recorded, and what is there after a kill.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use store::{Resolved, SharePath, Use};
use wire::command::create::{CreateDisposition, CreateOptions};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::context::durable::DurableFlags;
use wire::fscc::FileClass;
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::restored_caching_tests::{OTHER_GUID, leased, nothing, other_peer};
use super::tests::{GUID, KEY, back_v2, create, run};
use crate::resource::pool::QueueKey;
use crate::state::locks::{LockKind, RangeLock};
use crate::state::scavenger::scavenge;
use crate::state::shared::Shared;
use crate::tests::testing::Peer;
use wire::context::create::LeaseState;

async fn open(peer: &mut Peer) -> FileId {
    create(peer, "file", &nothing(persistent(GUID))).await.file_id()
}

/// A server and a client that has `file` open persistently.
async fn served() -> (Machine, Arc<Shared>, Peer, FileId) {
    let machine = Machine::new();
    let server = machine.start();
    let mut peer = persistent_peer(&server).await;
    let id = open(&mut peer).await;
    (machine, server, peer, id)
}

/// No record of an open can be written as long as this lives: where it would be begun there is a folder.
struct Unrecorded(PathBuf);

impl Unrecorded {
    fn of(machine: &Machine, id: FileId) -> Self {
        let place = machine.folder.path().join(format!("{:016x}.new", id.persistent));
        std::fs::create_dir(&place).unwrap();
        Unrecorded(place)
    }
}

impl Drop for Unrecorded {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.0).unwrap();
    }
}

async fn delete(peer: &mut Peer, id: FileId, deletes: bool) -> Status {
    peer.set(id, FileClass::DISPOSITION, &[deletes.into()]).await
}

async fn lock(peer: &mut Peer, file_id: FileId, flags: LockFlags, number: u8) -> Status {
    let elements = [LockElement { offset: 0, length: 10, flags }];
    let locks = LockElements::new(&elements);
    let request = LockRequest { file_id, locks, lock_sequence_index: 1, lock_sequence_number: number };
    peer.ask(Command::LOCK, |body| request.encode(body)).await.status()
}

const EXCLUSIVE: LockFlags = LockFlags::EXCLUSIVE_LOCK.union(LockFlags::FAIL_IMMEDIATELY);

/// The server is killed, and the client comes back.
async fn back(machine: &Machine, id: FileId, name: &str) -> Peer {
    let mut peer = persistent_peer(&machine.start()).await;
    let answer = create(&mut peer, name, &nothing(back_v2(id, GUID, DurableFlags::PERSISTENT))).await;
    assert_eq!(answer.file_id(), id);
    peer
}

fn is_there(machine: &Machine, name: &str) -> bool {
    let found = machine.store.resolve(&SharePath::parse(name).unwrap(), Use::Metadata).unwrap();
    matches!(found, Resolved::Found { .. })
}

#[test]
fn what_is_to_stay_and_cannot_be_recorded_so_is_refused() {
    run(async {
        let (machine, _server, mut peer, id) = served().await;
        assert_eq!(delete(&mut peer, id, true).await, Status::SUCCESS);
        let unrecorded = Unrecorded::of(&machine, id);
        assert_eq!(delete(&mut peer, id, false).await, Status::UNEXPECTED_IO_ERROR);
        drop(unrecorded);
        assert_eq!(delete(&mut peer, id, false).await, Status::SUCCESS);
        let mut peer = back(&machine, id, "file").await;
        peer.close(id).await;
        assert!(is_there(&machine, "file"));
    });
}

#[test]
fn what_is_to_go_and_cannot_be_recorded_so_is_refused_and_stays() {
    run(async {
        for killed in [false, true] {
            let (machine, server, mut peer, id) = served().await;
            let mut other = other_peer(&server).await;
            let theirs = create(&mut other, "file", &persistent(OTHER_GUID)).await.file_id();
            let unrecorded = Unrecorded::of(&machine, theirs);
            assert_eq!(delete(&mut peer, id, true).await, Status::UNEXPECTED_IO_ERROR);
            drop(unrecorded);
            if killed {
                peer = back(&machine, id, "file").await;
            } else {
                other.close(theirs).await;
            }
            peer.close(id).await;
            assert!(is_there(&machine, "file"), "{killed}");
        }
    });
}

#[test]
fn a_close_that_deletes_and_cannot_be_recorded_fails() {
    run(async {
        let (machine, server, mut peer, id) = served().await;
        let mut other = other_peer(&server).await;
        let deletes = other.create("file", |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
        let deletes = deletes.file_id();
        let _unrecorded = Unrecorded::of(&machine, id);
        let request = wire::command::close::CloseRequest { file_id: deletes, ..Default::default() };
        let closed = other.ask(Command::CLOSE, |body| request.encode(body)).await;
        assert_eq!(closed.status(), Status::UNEXPECTED_IO_ERROR);
        peer.close(id).await;
        assert!(!is_there(&machine, "file"), "the server was not killed");
    });
}

#[test]
fn a_lock_that_cannot_be_recorded_is_not_taken() {
    run(async {
        let (machine, server, mut peer, id) = served().await;
        let mut other = other_peer(&server).await;
        let theirs = other.open("file").await;
        let unrecorded = Unrecorded::of(&machine, id);
        for _ in 0..2 {
            assert_eq!(lock(&mut peer, id, EXCLUSIVE, 1).await, Status::UNEXPECTED_IO_ERROR, "sent again, too");
        }
        assert_eq!(lock(&mut other, theirs, EXCLUSIVE, 1).await, Status::SUCCESS);
        assert_eq!(lock(&mut other, theirs, LockFlags::UNLOCK, 2).await, Status::SUCCESS);
        drop(unrecorded);
        assert_eq!(lock(&mut peer, id, EXCLUSIVE, 1).await, Status::SUCCESS);
        let mut peer = back(&machine, id, "file").await;
        assert_eq!(lock(&mut peer, id, LockFlags::UNLOCK, 2).await, Status::SUCCESS);
    });
}

#[test]
fn an_unlock_that_cannot_be_recorded_releases_nothing() {
    run(async {
        let (machine, server, mut peer, id) = served().await;
        let mut other = other_peer(&server).await;
        let theirs = other.open("file").await;
        assert_eq!(lock(&mut peer, id, EXCLUSIVE, 1).await, Status::SUCCESS);
        let unrecorded = Unrecorded::of(&machine, id);
        for _ in 0..2 {
            assert_eq!(lock(&mut peer, id, LockFlags::UNLOCK, 2).await, Status::UNEXPECTED_IO_ERROR, "sent again, too");
        }
        assert_eq!(lock(&mut other, theirs, EXCLUSIVE, 1).await, Status::LOCK_NOT_GRANTED);
        drop(unrecorded);
        assert_eq!(lock(&mut peer, id, LockFlags::UNLOCK, 2).await, Status::SUCCESS);
        let mut peer = back(&machine, id, "file").await;
        assert_eq!(lock(&mut peer, id, LockFlags::UNLOCK, 2).await, Status::SUCCESS, "it was done");
        assert_eq!(lock(&mut peer, id, LockFlags::UNLOCK, 3).await, Status::RANGE_NOT_LOCKED);
    });
}

#[test]
fn what_an_unlock_did_before_it_failed_is_recorded_and_nothing_else() {
    run(async {
        let (machine, _server, mut peer, id) = served().await;
        let element = |offset, flags| LockElement { offset, length: 10, flags };
        let ask = async |peer: &mut Peer, elements: &[LockElement]| {
            let request = LockRequest { file_id: id, locks: LockElements::new(elements), ..LockRequest::default() };
            peer.ask(Command::LOCK, |body| request.encode(body)).await.status()
        };
        let locked = ask(&mut peer, &[element(0, EXCLUSIVE), element(20, EXCLUSIVE)]).await;
        assert_eq!(locked, Status::SUCCESS);
        let unlocks = [0, 10, 20].map(|offset| element(offset, LockFlags::UNLOCK));
        assert_eq!(ask(&mut peer, &unlocks).await, Status::RANGE_NOT_LOCKED);
        let mut peer = back(&machine, id, "file").await;
        assert_eq!(ask(&mut peer, &unlocks[..1]).await, Status::RANGE_NOT_LOCKED);
        assert_eq!(ask(&mut peer, &unlocks[2..]).await, Status::SUCCESS);
    });
}

#[test]
fn a_new_name_that_cannot_be_recorded_is_refused() {
    run(async {
        let (machine, _server, mut peer, id) = served().await;
        let unrecorded = Unrecorded::of(&machine, id);
        assert_eq!(peer.rename(id, "moved").await, Status::UNEXPECTED_IO_ERROR);
        assert!(is_there(&machine, "file"));
        drop(unrecorded);
        drop(back(&machine, id, "file").await);
    });
}

#[test]
fn what_was_cached_for_writing_and_cannot_be_recorded_as_gone_does_not_come_back() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (mut peer, mut other) = (persistent_peer(&server).await, other_peer(&server).await);
        let leased = leased(persistent(GUID), KEY, LeaseState::READ_CACHING | LeaseState::WRITE_CACHING);
        let id = create(&mut peer, "file", &leased).await.file_id();
        let _unrecorded = Unrecorded::of(&machine, id);
        let mut opening = other.create_message("file", &[], |request| request.disposition = CreateDisposition::OPEN);
        other.process(&mut opening).unwrap();
        assert_eq!(other.receive().await.status(), Status::PENDING);
        assert_eq!(peer.acknowledge(KEY, LeaseState::READ_CACHING).await, Status::SUCCESS);
        assert_eq!(other.receive().await.status(), Status::SUCCESS);
        let records = machine.records().into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "open"));
        assert_eq!(records.count(), 0, "a record that said it would give write caching back");
    });
}

#[test]
fn a_lock_that_no_record_has_room_for_is_refused() {
    run(async {
        let machine = Machine::new();
        let mut peer = persistent_peer(&machine.start()).await;
        let file_id = open(&mut peer).await;
        let take = |offset, length, count| {
            let elements: Vec<_> = (0..count)
                .map(|each| LockElement { offset: offset + each * length, length, flags: EXCLUSIVE })
                .collect();
            move |body: &mut Vec<u8>| {
                let locks = LockElements::new(&elements);
                LockRequest { file_id, locks, ..LockRequest::default() }.encode(body);
            }
        };
        assert_eq!(peer.ask(Command::LOCK, take(0, 10, 4_096)).await.status(), Status::SUCCESS);
        assert_eq!(peer.ask(Command::LOCK, take(1 << 20, 10, 2)).await.status(), Status::INSUFFICIENT_RESOURCES);
        let mut peer = back(&machine, file_id, "file").await;
        assert_eq!(lock(&mut peer, file_id, LockFlags::UNLOCK, 9).await, Status::SUCCESS, "those before are there");
        assert_eq!(
            peer.ask(Command::LOCK, take(1 << 20, 10, 1)).await.status(),
            Status::SUCCESS,
            "and none of those behind"
        );
    });
}

#[test]
fn a_lock_too_many_that_is_just_being_refused_is_in_no_record() {
    run(async {
        let (machine, server, mut peer, id) = served().await;
        let elements: Vec<_> =
            (0..4_096).map(|number| LockElement { offset: number * 10, length: 10, flags: EXCLUSIVE }).collect();
        let request = LockRequest { file_id: id, locks: LockElements::new(&elements), ..LockRequest::default() };
        assert_eq!(peer.ask(Command::LOCK, |body| request.encode(body)).await.status(), Status::SUCCESS);
        let session = server.sessions.find(peer.session_id).unwrap();
        let held = session.opens().pop().unwrap();
        let file = held.file().unwrap();
        let too_many = RangeLock { open: held.id, offset: 1 << 20, length: 1, kind: LockKind::Exclusive };
        file.file.lock("", too_many, &session.budgets.lasting).unwrap();
        assert_eq!(delete(&mut peer, id, true).await, Status::SUCCESS, "the record is written anew");
        let mut peer = back(&machine, id, "file").await;
        assert_eq!(delete(&mut peer, id, false).await, Status::SUCCESS);
        assert_eq!(lock(&mut peer, id, LockFlags::UNLOCK, 9).await, Status::SUCCESS, "those before are there");
    });
}

/// The same LOCK or unlock twice, the second before the first is recorded: what each is answered.
async fn twice(peer: &mut Peer, id: FileId, flags: LockFlags, number: u8) -> [Status; 2] {
    let element = [LockElement { offset: 0, length: 10, flags }];
    let locks = LockElements::new(&element);
    let request = LockRequest { file_id: id, locks, lock_sequence_index: 1, lock_sequence_number: number };
    for _ in 0..2 {
        let mut message = peer.message(Command::LOCK, |body| request.encode(body));
        peer.process(&mut message).unwrap();
    }
    [peer.last().await.status(), peer.last().await.status()]
}

#[test]
fn a_lock_that_is_sent_again_before_it_is_recorded_is_done_once() {
    run(async {
        let (machine, _server, mut peer, id) = served().await;
        assert_eq!(twice(&mut peer, id, EXCLUSIVE, 1).await, [Status::SUCCESS; 2]);
        assert_eq!(twice(&mut peer, id, LockFlags::UNLOCK, 2).await, [Status::SUCCESS; 2]);
        assert_eq!(lock(&mut peer, id, LockFlags::UNLOCK, 3).await, Status::RANGE_NOT_LOCKED);
        let unrecorded = Unrecorded::of(&machine, id);
        assert_eq!(twice(&mut peer, id, EXCLUSIVE, 4).await, [Status::UNEXPECTED_IO_ERROR; 2]);
        drop(unrecorded);
        assert_eq!(lock(&mut peer, id, EXCLUSIVE, 4).await, Status::SUCCESS, "it was not done");
    });
}

#[test]
fn a_lock_whose_recording_nobody_takes_on_is_not_taken() {
    run(async {
        let (_machine, server, mut peer, id) = served().await;
        let mut other = other_peer(&server).await;
        let theirs = other.open("file").await;
        server.pool.close();
        assert_eq!(lock(&mut peer, id, EXCLUSIVE, 1).await, Status::INSUFFICIENT_RESOURCES);
        assert_eq!(lock(&mut other, theirs, EXCLUSIVE, 1).await, Status::SUCCESS);
    });
}

#[test]
fn a_record_that_cannot_be_removed_is_removed_when_it_can() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        tokio::task::spawn_local(scavenge(Arc::clone(&server)));
        let mut peer = persistent_peer(&server).await;
        let id = open(&mut peer).await;
        // A folder is not removed as a file is.
        let record = machine.folder.path().join(format!("{:016x}.open", id.persistent));
        let aside = record.with_extension("aside");
        std::fs::rename(&record, &aside).unwrap();
        std::fs::create_dir(&record).unwrap();
        peer.close(id).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        std::fs::remove_dir(&record).unwrap();
        std::fs::rename(&aside, &record).unwrap();
        let mut looks = 0;
        while !machine.records().is_empty() {
            looks += 1;
            assert!(looks < 1_000, "it is still there");
            tokio::time::sleep(Duration::from_millis(100)).await;
            server.pool.run(QueueKey::OWN, std::thread::yield_now).await.unwrap();
        }
        let mut other = persistent_peer(&machine.start()).await;
        create(&mut other, "file", &vec![]).await.file_id();
    });
}
