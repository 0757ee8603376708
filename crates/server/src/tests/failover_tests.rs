//! What a client may still do through its opens after it lost a channel (MS-SMB2 3.3.5.2.10), and what is not done twice (3.3.5.14).

use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use wire::command::create::{CreateOptions, CreateRequest, CreateResponse, OplockLevel};
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::oplock_break::{OplockBreak, OplockBreakRequest};
use wire::command::read::ReadRequest;
use wire::fscc::FileClass;
use wire::header::Flags;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::net::delivery::Deliveries;
use crate::state::configuration::Signing;
use crate::state::mailbox::Notification;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, server};

async fn replay(peer: &mut Peer, file_id: FileId, data: &[u8]) -> Status {
    peer.flags = Flags::REPLAY_OPERATION;
    let status = peer.write(file_id, 0, data).await;
    peer.flags = Flags::NONE;
    status
}

async fn read(peer: &mut Peer, file_id: FileId) -> Status {
    peer.read(file_id, 0, 1).await.status()
}

/// Locks or unlocks bytes 100 to 110.
fn lock(file_id: FileId, flags: LockFlags, sequence: (u32, u8)) -> impl FnOnce(&mut Vec<u8>) {
    move |body| {
        let elements = [LockElement { offset: 100, length: 10, flags }];
        let (lock_sequence_index, lock_sequence_number) = sequence;
        let locks = LockElements::new(&elements);
        let request = LockRequest { file_id, locks, lock_sequence_index, lock_sequence_number };
        request.encode(body);
    }
}

const EXCLUSIVE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);

#[tokio::test]
async fn a_change_from_before_the_loss_comes_too_late() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::bound(&server, &first).await;
    assert_eq!(first.write(file, 0, b"old").await, Status::SUCCESS);
    second.channel_sequence = 1;
    assert_eq!(second.write(file, 0, b"new").await, Status::SUCCESS);
    for flags in [Flags::NONE, Flags::REPLAY_OPERATION] {
        first.flags = flags;
        assert_eq!(first.write(file, 0, b"old").await, Status::FILE_NOT_AVAILABLE);
        assert_eq!(read(&mut first, file).await, Status::SUCCESS);
    }
    assert_eq!(replay(&mut second, file, b"new").await, Status::SUCCESS);
}

#[tokio::test]
async fn a_replay_waits_until_what_was_in_flight_is_over() {
    tokio::task::LocalSet::new().run_until(replay_beside_a_wait()).await;
}

async fn replay_beside_a_wait() {
    let server = server(Signing::Required);
    let mut other = Peer::sign_in(&server).await;
    let theirs = other.open("file").await;
    assert_eq!(other.ask(Command::LOCK, lock(theirs, EXCLUSIVE, (0, 0))).await.status(), Status::SUCCESS);

    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::bound(&server, &first).await;
    let mut waiting = first.message(Command::LOCK, lock(file, LockFlags::EXCLUSIVE_LOCK, (0, 0)));
    first.process(&mut waiting).unwrap();
    assert_eq!(first.receive().await.status(), Status::PENDING);

    second.channel_sequence = 1;
    assert_eq!(replay(&mut second, file, b"x").await, Status::FILE_NOT_AVAILABLE);
    assert_eq!(second.write(file, 0, b"x").await, Status::SUCCESS, "what is new is no replay");
    first.disconnect();
    while replay(&mut second, file, b"x").await == Status::FILE_NOT_AVAILABLE {
        tokio::task::yield_now().await;
    }
    assert_eq!(read(&mut second, file).await, Status::SUCCESS);
}

#[tokio::test]
async fn an_open_begins_with_the_sequence_of_its_create() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    first.channel_sequence = 0xFFF0;
    let file = first.open("file").await;
    assert_eq!(first.write(file, 0, b"x").await, Status::SUCCESS);
    first.channel_sequence = 0xFFEF;
    assert_eq!(first.write(file, 0, b"x").await, Status::FILE_NOT_AVAILABLE);
    first.channel_sequence = 5;
    assert_eq!(first.write(file, 0, b"x").await, Status::SUCCESS);
}

#[tokio::test]
async fn whatever_changes_something_is_held_to_the_sequence_and_what_reads_is_not() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::bound(&server, &first).await;
    first.channel_sequence = 1;
    assert_eq!(first.write(file, 0, b"x").await, Status::SUCCESS);
    // Behind, and ahead by more than 0x7FFF, which is behind too.
    for stale in [0, 0xFFFF, 0x8001] {
        second.channel_sequence = stale;
        assert_eq!(second.write(file, 0, b"y").await, Status::FILE_NOT_AVAILABLE);
        assert_eq!(set_length(&mut second, file).await, Status::FILE_NOT_AVAILABLE);
        assert_eq!(make_sparse(&mut second, file).await, Status::FILE_NOT_AVAILABLE);
        assert_eq!(read(&mut second, file).await, Status::SUCCESS);
    }
    // As far ahead as may be: from then on it is the first channel that is behind.
    second.channel_sequence = 0x8000;
    assert_eq!(make_sparse(&mut second, file).await, Status::SUCCESS);
    assert_eq!(set_length(&mut second, file).await, Status::SUCCESS);
    assert_eq!(first.write(file, 0, b"x").await, Status::FILE_NOT_AVAILABLE);
    assert_eq!(read(&mut first, file).await, Status::SUCCESS);
}

async fn set_length(peer: &mut Peer, file: FileId) -> Status {
    peer.set(file, FileClass::END_OF_FILE, &1u64.to_le_bytes()).await
}

async fn make_sparse(peer: &mut Peer, file_id: FileId) -> Status {
    let (ctl_code, flags) = (CtlCode::SET_SPARSE, IoctlFlags::IS_FSCTL);
    let request = IoctlRequest { ctl_code, flags, file_id, ..IoctlRequest::default() };
    peer.ask(Command::IOCTL, |body| request.encode(body)).await.status()
}

#[tokio::test]
async fn a_lock_that_is_sent_again_is_done_once() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::bound(&server, &first).await;
    for (flags, number) in [(EXCLUSIVE, 1), (LockFlags::UNLOCK, 2)] {
        for peer in [&mut first, &mut second] {
            let answer = peer.ask(Command::LOCK, lock(file, flags, (1, number))).await;
            assert_eq!(answer.status(), Status::SUCCESS);
        }
    }
    let twice = second.ask(Command::LOCK, lock(file, LockFlags::UNLOCK, (0, 0))).await;
    assert_eq!(twice.status(), Status::RANGE_NOT_LOCKED);
    for _ in 0..2 {
        let beyond = second.ask(Command::LOCK, lock(file, LockFlags::UNLOCK, (65, 1))).await;
        assert_eq!(beyond.status(), Status::RANGE_NOT_LOCKED);
    }
}

#[tokio::test]
async fn an_unlock_from_before_the_loss_does_not_undo_what_came_after_it_was_sent_again() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::bound(&server, &first).await;
    assert_eq!(first.ask(Command::LOCK, lock(file, EXCLUSIVE, (1, 1))).await.status(), Status::SUCCESS);
    second.channel_sequence = 1;
    for (flags, number) in [(LockFlags::UNLOCK, 2), (EXCLUSIVE, 3)] {
        assert_eq!(second.ask(Command::LOCK, lock(file, flags, (1, number))).await.status(), Status::SUCCESS);
    }
    let late = first.ask(Command::LOCK, lock(file, LockFlags::UNLOCK, (1, 2))).await;
    assert_eq!(late.status(), Status::FILE_NOT_AVAILABLE);
    let mut other = Peer::sign_in(&server).await;
    let theirs = other.open("file").await;
    let refused = other.ask(Command::LOCK, lock(theirs, EXCLUSIVE, (0, 0))).await;
    assert_eq!(refused.status(), Status::LOCK_NOT_GRANTED);
}

fn create(oplock_level: OplockLevel) -> impl FnOnce(&mut Vec<u8>) {
    move |body| {
        let name = wire::codec::utf16_bytes("file");
        let options = CreateOptions::NON_DIRECTORY_FILE;
        CreateRequest { oplock_level, options, ..crate::tests::testing::create(&name) }.encode(body);
    }
}

/// A session with two channels whose batch oplock another session has just broken.
struct Broken {
    /// The channel that is told first.
    first: Peer,
    second: Peer,
    /// It waits for the answer.
    other: Peer,
    file_id: FileId,
}

impl Broken {
    async fn new() -> Self {
        let server = server(Signing::Required);
        let mut first = Peer::sign_in(&server).await;
        let second = Peer::bound(&server, &first).await;
        let (other, file_id) = break_oplock(&server, &mut first).await;
        Broken { first, second, other, file_id }
    }
}

/// Gives `holder` a batch oplock and breaks it: who waits for the answer, and what is open.
async fn break_oplock(server: &Arc<Shared>, holder: &mut Peer) -> (Peer, FileId) {
    let made = holder.ask(Command::CREATE, create(OplockLevel::BATCH)).await;
    let made = CreateResponse::decode(&made.message).unwrap();
    assert_eq!(made.oplock_level, OplockLevel::BATCH);
    let mut other = Peer::sign_in(server).await;
    let mut open = other.message(Command::CREATE, create(OplockLevel::NONE));
    other.process(&mut open).unwrap();
    (other, made.file_id)
}

async fn acknowledge(peer: &mut Peer, file_id: FileId) {
    assert_eq!(try_to_acknowledge(peer, file_id).await, Status::SUCCESS);
}

/// The break reaches this channel, and its answer lets the other client go on.
async fn hears_and_answers(peer: &mut Peer, other: Peer, file_id: FileId) {
    assert!(notified(peer));
    acknowledge(peer, file_id).await;
    assert_eq!(other.receive().await.status(), Status::SUCCESS);
}

async fn try_to_acknowledge(peer: &mut Peer, file_id: FileId) -> Status {
    let answer = OplockBreakRequest::Oplock(OplockBreak { oplock_level: OplockLevel::II, file_id });
    peer.ask(Command::OPLOCK_BREAK, |body| answer.encode(body)).await.status()
}

/// The break notification that waits at a peer's connection.
fn notified(peer: &Peer) -> bool {
    peer.connection.flush_notifications();
    let frame = peer.take_frame();
    frame.is_some_and(|frame| wire::header::Header::decode(&frame).unwrap().command == Command::OPLOCK_BREAK)
}

#[tokio::test]
async fn a_break_goes_on_the_next_channel_when_one_is_lost() {
    tokio::task::LocalSet::new().run_until(break_over_three_channels()).await;
}

async fn break_over_three_channels() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let (second, mut third) = (Peer::bound(&server, &first).await, Peer::bound(&server, &first).await);
    let (other, file_id) = break_oplock(&server, &mut first).await;
    assert_eq!(other.receive().await.status(), Status::PENDING);
    assert!(notified(&first), "sent, and perhaps not delivered");
    first.disconnect();
    second.disconnect();
    hears_and_answers(&mut third, other, file_id).await;
}

#[tokio::test]
async fn a_break_goes_on_a_channel_that_is_bound_after_it_was_sent() {
    tokio::task::LocalSet::new().run_until(break_before_the_second_channel()).await;
}

async fn break_before_the_second_channel() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let (other, file_id) = break_oplock(&server, &mut first).await;
    assert_eq!(other.receive().await.status(), Status::PENDING);
    assert!(notified(&first), "sent, and perhaps not delivered");
    let mut second = Peer::bound(&server, &first).await;
    first.disconnect();
    hears_and_answers(&mut second, other, file_id).await;
}

#[tokio::test]
async fn a_break_is_not_taken_for_delivered_before_it_is_answered() {
    tokio::task::LocalSet::new().run_until(break_over_a_deaf_channel()).await;
}

async fn break_over_a_deaf_channel() {
    let Broken { first, mut second, other: _other, file_id } = Broken::new().await;

    let mut deliveries = Deliveries::default();
    let (mut stream, _far_end) = tokio::io::duplex(1);
    let mut task = Context::from_waker(Waker::noop());
    deliveries.note(first.connection.take_messages().notifications.pop_front().unwrap(), true);
    deliveries.advance(&mut task, &mut stream, 0, true, |_| true).unwrap();
    tokio::time::pause();
    for _ in 0..20 {
        tokio::time::advance(Duration::from_secs(1)).await;
        deliveries.advance(&mut task, &mut stream, 0, true, |_| true).unwrap();
        assert!(!deliveries.is_idle(), "the connection stands, but nothing says that it delivers");
    }
    acknowledge(&mut second, file_id).await;
    tokio::time::advance(Duration::from_secs(2)).await;
    deliveries.advance(&mut task, &mut stream, 0, true, |_| true).unwrap();
    assert!(deliveries.is_idle());
}

#[tokio::test]
async fn a_break_behind_what_its_client_does_not_take_is_under_way_and_what_comes_behind_it_waits() {
    tokio::task::LocalSet::new().run_until(break_over_a_full_channel()).await;
}

async fn break_over_a_full_channel() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let large = first.open("large").await;
    first.set(large, FileClass::END_OF_FILE, &(1u64 << 20).to_le_bytes()).await;
    let (_other, _) = break_oplock(&server, &mut first).await;
    let read = ReadRequest { file_id: large, length: 64 << 10, ..ReadRequest::default() };
    for _ in 0..3 {
        let mut message = first.message(Command::READ, |body| read.encode(body));
        first.process(&mut message).unwrap();
    }
    let notice = first.connection.take_messages().notifications.pop_front().expect("it goes with what is queued");
    let session = notice.session;
    first.connection.deliver(notice);
    let posted = first.connection.mailbox.post(Notification::plain(session, Vec::new()));
    assert!(posted.is_ok());
    assert!(first.connection.take_messages().notifications.is_empty(), "nothing is queued for one who takes nothing");
    assert!(first.connection.has_messages());
}

#[tokio::test]
async fn a_break_that_was_answered_is_not_sent_again() {
    tokio::task::LocalSet::new().run_until(answer_on_another_channel()).await;
}

async fn answer_on_another_channel() {
    let Broken { first, mut second, other: _other, file_id } = Broken::new().await;
    assert!(notified(&first));
    acknowledge(&mut second, file_id).await;
    first.disconnect();
    assert!(!notified(&second));
}

#[tokio::test]
async fn a_break_is_answered_by_its_own_session_alone_and_once() {
    tokio::task::LocalSet::new().run_until(answer_on_a_strange_channel()).await;
}

async fn answer_on_a_strange_channel() {
    let Broken { first, mut second, other, file_id } = Broken::new().await;
    let mut stranger = Peer::sign_in(&first.connection.server).await;
    assert_eq!(other.receive().await.status(), Status::PENDING);
    assert_eq!(try_to_acknowledge(&mut stranger, file_id).await, Status::FILE_CLOSED);
    assert!(other.take_frame().is_none(), "nobody is let in by a stranger");
    assert!(notified(&first));
    acknowledge(&mut second, file_id).await;
    assert_eq!(other.receive().await.status(), Status::SUCCESS);
    assert_eq!(try_to_acknowledge(&mut second, file_id).await, Status::INVALID_DEVICE_STATE);
}
