//! Which requests get an interim answer, and when (MS-SMB2 3.3.4.2).

use std::sync::Arc;
use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::change_notify::{ChangeNotifyRequest, CompletionFilter};
use wire::command::close::CloseRequest;
use wire::command::create::{CreateDisposition, CreateRequest, OplockLevel};
use wire::command::echo::EchoRequest;
use wire::command::flush::FlushRequest;
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use wire::command::oplock_break::{OplockBreak, OplockBreakRequest};
use wire::command::query_directory::QueryDirectoryRequest;
use wire::command::write::WriteRequest;
use wire::fscc::FileClass;
use wire::fscc::ioctl::ZeroData;
use wire::header::{Flags, Route};
use wire::ids::{Command, FileId, Guid};
use wire::status::Status;

use crate::request::slow_path::CANCELS_MAX;
use crate::resource::pool::INLINE_BYTES_MAX;
use crate::resource::turns::{LONG_REQUEST_COST, TURN_BYTES};
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, Terms, by_hand, chained, create, headers, server};

/// A client whose listing waits for a pool that works when it is told to.
async fn waiting_listing() -> (Arc<Shared>, Peer) {
    let server = by_hand(server(Signing::Enabled));
    let mut peer = Peer::sign_in(&server).await;
    let file_id = peer.open_directory("").await;
    let pattern = utf16_bytes("*");
    let request = QueryDirectoryRequest {
        class: FileClass::NAMES,
        file_id,
        pattern: Utf16::new(&pattern).unwrap(),
        output_buffer_length: 1_000,
        ..QueryDirectoryRequest::default()
    };
    let mut listing = peer.message(Command::QUERY_DIRECTORY, |body| request.encode(body));
    peer.process(&mut listing).unwrap();
    (server, peer)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_store_keeps_waiting_a_moment_is_answered_once() {
    let test = async {
        let (server, peer) = waiting_listing().await;
        sleep(Duration::from_secs(3)).await;
        assert!(peer.take_frame().is_none(), "some clients take an interim answer to a listing for a fault");
        assert!(server.pool.work_once());
        let answer = peer.receive().await;
        assert_eq!(answer.status(), Status::SUCCESS);
        assert!(matches!(answer.header.route, Route::Sync { .. }));
        assert!(answer.header.credits > 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_hears_of_a_store_that_does_not_answer_before_it_gives_up() {
    let test = async {
        let (server, peer) = waiting_listing().await;
        sleep(Duration::from_secs(10)).await;
        let interim = peer.receive().await;
        assert_eq!(interim.status(), Status::PENDING);
        assert!(interim.header.credits > 0);
        assert!(server.pool.work_once());
        let answer = peer.receive().await;
        assert_eq!((answer.status(), answer.header.credits), (Status::SUCCESS, 0));
        assert!(matches!(answer.header.route, Route::Async(_)));
    };
    LocalSet::new().run_until(test).await;
}

/// A client that keeps what it wrote to "file" to itself, and another that has not opened it.
async fn holder_and_other() -> (Arc<Shared>, (Peer, FileId), Peer) {
    let server = server(Signing::Required);
    let mut holder = Peer::sign_in(&server).await;
    let held = holder.create("file", |request| request.oplock_level = OplockLevel::BATCH).await;
    let held = held.file_id();
    let other = Peer::sign_in_as(&server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
    (server, (holder, held), other)
}

/// Asks to open "file".
fn open_file(body: &mut Vec<u8>) {
    let name = utf16_bytes("file");
    CreateRequest { disposition: CreateDisposition::OPEN, ..create(&name) }.encode(body);
}

/// Lets who waits for "file" have it.
async fn makes_way(holder: &mut Peer, file_id: FileId) {
    holder.connection.flush_notifications();
    assert_eq!(holder.receive().await.header.command, Command::OPLOCK_BREAK);
    let answer = OplockBreakRequest::Oplock(OplockBreak { oplock_level: OplockLevel::II, file_id });
    assert_eq!(holder.ask(Command::OPLOCK_BREAK, |body| answer.encode(body)).await.status(), Status::SUCCESS);
}

/// The two, of which the other opens, looks at and closes the file in one chain.
async fn chain_behind_a_break() -> (Peer, FileId, Peer) {
    let (_, (holder, held), mut other) = holder_and_other().await;
    let mut parts = vec![other.message(Command::ECHO, |body| EchoRequest.encode(body))];
    parts.push(other.message(Command::CREATE, open_file));
    other.flags = Flags::RELATED_OPERATIONS;
    let flush = FlushRequest { file_id: FileId::ANY, ..FlushRequest::default() };
    parts.push(other.message(Command::FLUSH, |body| flush.encode(body)));
    let close = CloseRequest { file_id: FileId::ANY, ..CloseRequest::default() };
    parts.push(other.message(Command::CLOSE, |body| close.encode(body)));
    other.flags = Flags::NONE;
    let mut frame = chained(parts, |_, message| other.sign(message));
    other.process(&mut frame).unwrap();
    tokio::task::yield_now().await;
    (holder, held, other)
}

#[tokio::test(start_paused = true)]
async fn a_create_that_waits_in_the_middle_of_a_chain_gets_an_interim_answer() {
    let test = async {
        let (mut holder, held, other) = chain_behind_a_break().await;
        let interim = headers(&other.take_frame().expect("the client is told that it has to wait"));
        assert_eq!([interim[0].status, interim[1].status], [Status::SUCCESS, Status::PENDING]);
        assert!(matches!(interim[1].route, Route::Async(_)) && interim[1].credits > 0);
        makes_way(&mut holder, held).await;
        let last = headers(&other.receive().await.message);
        assert_eq!(
            last.iter().map(|header| header.command).collect::<Vec<_>>(),
            [Command::CREATE, Command::FLUSH, Command::CLOSE]
        );
        assert!(last.iter().all(|header| header.status == Status::SUCCESS));
        assert!(matches!(last[0].route, Route::Async(_)) && last[0].credits == 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_create_that_waits_in_the_middle_of_a_chain_can_be_cancelled() {
    let test = async {
        let (_holder, _, mut other) = chain_behind_a_break().await;
        let interim = headers(&other.take_frame().unwrap());
        let next = std::mem::replace(&mut other.message_id, interim[1].message_id.0);
        let mut cancel = other.message(Command::CANCEL, |body| EchoRequest.encode(body));
        other.message_id = next;
        other.process(&mut cancel).unwrap();
        let last = headers(&other.receive().await.message);
        assert!(last.len() == 3 && last.iter().all(|header| header.status == Status::CANCELLED));
    };
    LocalSet::new().run_until(test).await;
}

fn change_notify(file_id: FileId) -> impl FnOnce(&mut Vec<u8>) {
    let request = ChangeNotifyRequest {
        file_id,
        output_buffer_length: 4096,
        completion_filter: CompletionFilter::FILE_NAME,
        ..ChangeNotifyRequest::default()
    };
    move |body| request.encode(body)
}

#[tokio::test(start_paused = true)]
async fn what_follows_in_a_chain_is_not_begun_once_its_channel_is_lost() {
    let test = async {
        let (server, (mut holder, held), mut lost) = holder_and_other().await;
        let mut living = Peer::bound(&server, &lost).await;
        living.tree_id = lost.tree_id;
        let root = lost.open_directory("").await;
        let parts =
            vec![lost.message(Command::CREATE, open_file), lost.message(Command::CHANGE_NOTIFY, change_notify(root))];
        let mut frame = chained(parts, |_, message| lost.sign(message));
        lost.process(&mut frame).unwrap();
        assert_eq!(lost.receive().await.status(), Status::PENDING);
        lost.disconnect();
        makes_way(&mut holder, held).await;
        sleep(Duration::from_secs(1)).await;

        let mut watch = living.message(Command::CHANGE_NOTIFY, change_notify(root));
        living.process(&mut watch).unwrap();
        assert_eq!(living.receive().await.status(), Status::PENDING);
        holder.open("new").await;
        let told = timeout(Duration::from_secs(10), living.receive()).await;
        assert_eq!(told.expect("who is gone was told instead").status(), Status::SUCCESS);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_long_chain_lets_others_of_its_shard_have_their_turn() {
    let test = async {
        let server = server(Signing::Required);
        let mut peer = Peer::sign_in(&server).await;
        let file_id = peer.open("file").await;
        let data = vec![7; 60_000];
        let parts = (0..10).map(|part| {
            let offset = part * data.len() as u64;
            let request = WriteRequest { file_id, offset, data: &data, ..WriteRequest::default() };
            peer.message(Command::WRITE, |body| request.encode(body))
        });
        let parts = parts.collect();
        let mut frame = chained(parts, |_, message| peer.sign(message));
        peer.process(&mut frame).unwrap();
        assert!(peer.take_frame().is_none(), "it is not done at once");
        let answers = headers(&peer.receive().await.message);
        assert!(answers.len() == 10 && answers.iter().all(|header| header.status == Status::SUCCESS));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_frame_that_cancels_more_than_can_wait_ends_its_connection() {
    let test = async {
        let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
        let mut cancels = |count| {
            let messages = (0..count).map(|_| peer.message(Command::CANCEL, |body| EchoRequest.encode(body))).collect();
            let mut frame = chained(messages, |_, _| {});
            peer.process(&mut frame)
        };
        assert_eq!(cancels(CANCELS_MAX), Ok(()));
        assert!(cancels(CANCELS_MAX + 1).is_err());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_a_chain_of_small_requests_has_done_counts_for_its_turn() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let file_id = peer.open("file").await;
        peer.set(file_id, FileClass::END_OF_FILE, &INLINE_BYTES_MAX.to_le_bytes()).await;
        let mut range = Vec::new();
        ZeroData { offset: 0, beyond_final_zero: INLINE_BYTES_MAX }.encode(&mut range);
        let zero = IoctlRequest {
            ctl_code: CtlCode::SET_ZERO_DATA,
            file_id,
            flags: IoctlFlags::IS_FSCTL,
            input: &range,
            ..IoctlRequest::default()
        };
        let zeroed = (0..2).map(|_| peer.message(Command::IOCTL, |body| zero.encode(body))).collect();
        let ranges =
            IoctlRequest { ctl_code: CtlCode::QUERY_ALLOCATED_RANGES, input: &range, max_output_response: 64, ..zero };
        let looked = (0..16).map(|_| peer.message(Command::IOCTL, |body| ranges.encode(body))).collect();
        let many = TURN_BYTES as usize / LONG_REQUEST_COST + 2;
        let echoed = (0..many).map(|_| peer.message(Command::ECHO, |body| EchoRequest.encode(body))).collect();
        for (parts, count) in [(zeroed, 2), (looked, 16), (echoed, many)] {
            let mut frame = chained(parts, |_, message| peer.sign(message));
            peer.process(&mut frame).unwrap();
            assert!(peer.take_frame().is_none(), "{count} requests are not done at once");
            let answers = headers(&peer.receive().await.message);
            assert!(answers.len() == count && answers.iter().all(|header| header.status == Status::SUCCESS));
        }
    };
    LocalSet::new().run_until(test).await;
}
