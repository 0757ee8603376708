//! Frames that wait for memory: nobody waits for ever for what others hold who wait themselves, and slow ones leave room to the quick.

use std::rc::Rc;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use store::{RamStore, Store};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use wire::command::change_notify::{ChangeNotifyRequest, CompletionFilter};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::query_info::InfoType;
use wire::command::read::ReadRequest;
use wire::command::set_info::SetInfoRequest;
use wire::command::write::{WriteFlags, WriteRequest};
use wire::fscc::FileClass;
use wire::header::{Header, NEXT_COMMAND_OFFSET};
use wire::ids::Command;
use wire::status::Status;

use crate::request::slow_path;
use crate::resource::budgets::ANSWERS_BYTES;
use crate::resource::buffers::FRAME_BYTES_MAX;
use crate::resource::capacity::Capacity;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::flight_tests::{Wired, working_here};
use crate::tests::testing::{Peer, chained, framed, headers, server, server_of};

/// All of a client's large requests wait no longer.
const SOON: Duration = Duration::from_secs(60);

pub(crate) fn write_through(client: &mut Wired, length: usize) -> Vec<u8> {
    let (file_id, data) = (client.file, vec![7; length]);
    let write = WriteRequest { file_id, data: &data, flags: WriteFlags::WRITE_THROUGH, ..WriteRequest::default() };
    client.request(Command::WRITE, length, |body| write.encode(body))
}

/// Sets one attribute again and again, in a list of so many bytes.
fn set_attributes(client: &mut Wired, length: usize) -> Vec<u8> {
    let entry = *b"\x10\0\0\0\0\x04\x01\0name\0\x01\0\0";
    let mut list = entry.repeat(length.div_ceil(entry.len()));
    let last = list.len() - entry.len();
    list[last] = 0;
    let (file_id, class, info_type) = (client.file, FileClass::FULL_EA.into(), InfoType::FILE);
    let set = SetInfoRequest { info_type, class, file_id, buffer: &list, ..SetInfoRequest::default() };
    client.request(Command::SET_INFO, list.len(), |body| set.encode(body))
}

async fn clients(server: &Arc<Shared>, count: usize) -> Vec<Wired> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(Wired::new(server, 32 << 20).await);
    }
    clients
}

#[tokio::test(start_paused = true)]
async fn frames_that_hold_all_there_is_when_they_are_whole_are_answered() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut clients = clients(&server, 30).await;
        let before = clients[0].used_by_user();
        let frames: Vec<_> = clients.iter_mut().map(|client| framed(&set_attributes(client, 1_572_840))).collect();
        for (client, frame) in clients.iter_mut().zip(&frames) {
            client.send_bytes(&frame[..frame.len() - 1]).await;
        }
        sleep(Duration::from_millis(50)).await;
        for (client, frame) in clients.iter_mut().zip(&frames) {
            client.send_bytes(&frame[frame.len() - 1..]).await;
        }
        for client in &mut clients {
            assert_eq!(timeout(SOON, client.answer()).await.unwrap().status, Status::EA_TOO_LARGE);
        }
        assert_eq!(clients[0].used_by_user(), before);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_compound_that_needs_what_its_own_frame_holds_is_answered() {
    let test = async {
        let server = working_here(small_server(96 << 20));
        let mut client = Wired::new(&server, 32 << 20).await;
        client.ask_for(4 << 20).await;
        assert_eq!(client.answer().await.status, Status::SUCCESS);
        let read = ReadRequest { file_id: client.file, length: 8 << 20, ..ReadRequest::default() };
        let messages =
            vec![write_through(&mut client, 7 << 20), client.request(Command::READ, 8 << 20, |body| read.encode(body))];
        client.send(&chained(messages, |_, _| ())).await;
        let answers = headers(&timeout(SOON, client.frame()).await.unwrap());
        let statuses: Vec<_> = answers.iter().map(|header| header.status).collect();
        assert_eq!(statuses, [Status::SUCCESS; 2]);
        assert_eq!(client.used_by_user(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn large_frames_that_arrive_slowly_leave_room_for_the_same_users_others() {
    let test = async {
        let server = server(Signing::Enabled);
        for mut client in clients(&server, 60).await {
            let frame = framed(&write_through(&mut client, 8 << 20));
            spawn_local(async move {
                for part in frame.chunks(64 << 10) {
                    client.send_bytes(part).await;
                    sleep(Duration::from_millis(200)).await;
                }
                client.answer().await
            });
        }
        let mut modest = Wired::new(&server, 32 << 20).await;
        for _ in 0..20 {
            sleep(Duration::from_secs(2)).await;
            let write = write_through(&mut modest, 1 << 20);
            modest.send(&write).await;
            let answered = timeout(Duration::from_millis(500), modest.answer()).await;
            assert_eq!(answered.expect("the WRITE waits").status, Status::SUCCESS);
            modest.ask_for(1 << 20).await;
            let answered = timeout(Duration::from_millis(500), modest.answer()).await;
            assert_eq!(answered.expect("the READ waits").status, Status::SUCCESS);
        }
    };
    LocalSet::new().run_until(test).await;
}

/// A server that may hold so many bytes.
pub(crate) fn small_server(bytes: u64) -> Arc<Shared> {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(1 << 30));
    server_of(Signing::Enabled, store, Capacity { bytes, ..Capacity::default() })
}

#[tokio::test(start_paused = true)]
async fn with_little_memory_all_who_write_at_once_are_answered() {
    let test = async {
        let server = small_server(128 << 20);
        let mut writing = Vec::new();
        for mut client in clients(&server, 60).await {
            let frame = framed(&write_through(&mut client, 2_000_000));
            writing.push(spawn_local(async move {
                // It arrives quickly, as far as there is room for it.
                for part in frame.chunks(64 << 10) {
                    client.send_bytes(part).await;
                    sleep(Duration::from_millis(5)).await;
                }
                client.answer().await.status
            }));
        }
        for status in writing {
            assert_eq!(timeout(SOON, status).await.expect("one waits for ever").unwrap(), Status::SUCCESS);
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_gives_back_what_it_was_given_for_waiting() {
    let test = async {
        let server = server(Signing::Enabled);
        let peer = Peer::sign_in(&server).await;
        let budgets = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets);
        let _others = budgets.bytes.charge_leaving(budgets.bytes.limit() - budgets.bytes.used(), 0).unwrap();
        let allowance = &peer.connection.allowance;
        assert!(!allowance.has_left_to_grow());
        allowance.wait(Waker::noop());
        sleep(Duration::from_secs(2)).await;
        assert!(allowance.has_left_to_grow() && budgets.beyond.used() > 0);
        // Requests that wait keep it in memory.
        let _kept = Rc::clone(&peer.connection);
        peer.disconnect();
        assert_eq!(budgets.beyond.used(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_taken_slowly_leave_room_for_the_same_users_others() {
    let test = async {
        let server = server(Signing::Enabled);
        for _ in 0..40 {
            let mut client = Wired::new(&server, 64 << 10).await;
            spawn_local(async move {
                loop {
                    for _ in 0..3 {
                        client.ask_for(8 << 20).await;
                    }
                    for _ in 0..3 {
                        client.take_slowly(100 << 10).await;
                    }
                }
            });
        }
        let mut modest = Wired::new(&server, 32 << 20).await;
        for _ in 0..20 {
            sleep(Duration::from_secs(10)).await;
            modest.ask_for(1 << 20).await;
            let answered = timeout(Duration::from_secs(3), modest.answer()).await;
            assert_eq!(answered.expect("the READ waits").status, Status::SUCCESS);
            let write = write_through(&mut modest, 1 << 20);
            modest.send(&write).await;
            let answered = timeout(Duration::from_secs(3), modest.answer()).await;
            assert_eq!(answered.expect("the WRITE waits").status, Status::SUCCESS);
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_compound_whose_last_request_waits_holds_nothing_for_those_before_it() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut waiting = clients(&server, 12).await;
        for client in &mut waiting {
            let before = client.used_by_user();
            let directory = client.open_root().await;
            let read =
                ReadRequest { file_id: client.file, length: 8 << 20, offset: (8 << 20) - 1, ..Default::default() };
            let notify = ChangeNotifyRequest {
                file_id: directory,
                output_buffer_length: 4096,
                completion_filter: CompletionFilter::ATTRIBUTES,
                ..ChangeNotifyRequest::default()
            };
            let messages = vec![
                client.request(Command::READ, 8 << 20, |body| read.encode(body)),
                client.request(Command::CHANGE_NOTIFY, 4096, |body| notify.encode(body)),
            ];
            client.send(&chained(messages, |_, _| ())).await;
            let answers = headers(&timeout(SOON, client.frame()).await.unwrap());
            let statuses: Vec<_> = answers.iter().map(|header| header.status).collect();
            assert_eq!(statuses, [Status::SUCCESS, Status::PENDING]);
            assert!(client.used_by_user() < before + (64 << 10), "{} bytes", client.used_by_user() - before);
        }
    };
    LocalSet::new().run_until(test).await;
}

fn one(command: Command, more: bool, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = Header { command, ..Header::default() }.to_bytes().to_vec();
    body(&mut message);
    message.resize(message.len().next_multiple_of(8), 0);
    if more {
        let next = message.len() as u32;
        message[NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&next.to_le_bytes());
    }
    message
}

#[test]
fn what_is_told_in_the_middle_of_a_compound_is_held_for_and_what_locks_are_read_into() {
    let notify = ChangeNotifyRequest { output_buffer_length: 1 << 20, ..ChangeNotifyRequest::default() };
    let watch = |more| one(Command::CHANGE_NOTIFY, more, |body| notify.encode(body));
    let alone = slow_path::need(&watch(false), 0).bytes;
    assert!(alone < 4 << 10, "it may wait: {alone}");
    let many: Vec<u8> = [true, true, true, false].into_iter().flat_map(watch).collect();
    assert!(slow_path::need(&many, 0).bytes >= 3 << 20);
    let element = LockElement { offset: 0, length: 1, flags: LockFlags::EXCLUSIVE_LOCK };
    let elements = vec![element; 10_000];
    let lock = LockRequest { locks: LockElements::new(&elements), ..LockRequest::default() };
    let locks = one(Command::LOCK, false, |body| lock.encode(body));
    assert!(slow_path::need(&locks, 0).bytes >= 5 * 24 * 10_000);
}

#[test]
fn what_a_frame_needs_is_never_more_than_is_there_for_one_that_has_waited() {
    let elements = vec![LockElement { offset: 0, length: 1, flags: LockFlags::EXCLUSIVE_LOCK }; 65_000];
    let lock = LockRequest { locks: LockElements::new(&elements), ..LockRequest::default() };
    let locks = |more| one(Command::LOCK, more, |body| lock.encode(body));
    let data = vec![0; 900];
    let write = WriteRequest { data: &data, ..WriteRequest::default() };
    let writes = |more| one(Command::WRITE, more, |body| write.encode(body));
    let read = ReadRequest { length: 8 << 20, ..ReadRequest::default() };
    let reads = |more| one(Command::READ, more, |body| read.encode(body));
    let several = |count: usize, part: &dyn Fn(bool) -> Vec<u8>| -> Vec<u8> { part(true).repeat(count) };
    let frames = [
        [several(4, &locks), locks(false)].concat(),
        [several(4, &locks), several(3, &reads), reads(false)].concat(),
        [several(8_000, &writes), reads(false)].concat(),
        [several(9_000, &reads), reads(false)].concat(),
    ];
    for frame in frames {
        let need = slow_path::need(&frame, FRAME_BYTES_MAX).bytes;
        assert!(need as u64 <= ANSWERS_BYTES, "{} KiB", need >> 10);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_of_attributes_that_is_longer_than_any_file_has_is_not_read() {
    let test = async {
        let mut client = Wired::new(&server(Signing::Enabled), 1 << 20).await;
        let message = set_attributes(&mut client, 100 << 10);
        client.send(&message).await;
        assert_eq!(client.answer().await.status, Status::EA_TOO_LARGE);
    };
    LocalSet::new().run_until(test).await;
}
