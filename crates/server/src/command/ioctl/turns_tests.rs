//! Controls and changes that take long, as others see them who use the same server: the store never waits, and the pool works when it is
//! told to.

use std::sync::Arc;

use store::{RamStore, Store, Waits};
use tokio::task::LocalSet;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateRequest};
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use wire::command::query_info::{InfoType, QueryInfoResponse};
use wire::command::read::ReadResponse;
use wire::command::set_info::SetInfoRequest;
use wire::context::create::{CreateContextsBuilder, name};
use wire::fscc::FileClass;
use wire::fscc::ea::{FullEa, FullEaWriter};
use wire::fscc::file::Standard;
use wire::fscc::ioctl::{
    Chunk, CopyChunks, CopyChunksResult, DuplicateExtents, LevelTrim, Range, ResumeKey, ZeroData, encode_ranges, ranges,
};
use wire::header::Header;
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::resource::pool::Device;
use crate::state::configuration::{Share, Signing};
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, OTHER_USER, Peer, Terms, by_hand, server, server_with, working};

const MIB: u64 = 1 << 20;
const LONG_BYTES: u64 = 200 * MIB;

fn server_by_hand() -> Arc<Shared> {
    by_hand(server(Signing::Enabled))
}

/// A client with a file of `length` bytes whose first and last byte are ones, and the rest a hole.
async fn with_file(server: &Arc<Shared>, name: &str, length: u64) -> (Peer, FileId) {
    let mut peer = Peer::sign_in(server).await;
    let file_id = made(&mut peer, name, length).await;
    (peer, file_id)
}

async fn made(peer: &mut Peer, name: &str, length: u64) -> FileId {
    let file_id = peer.open(name).await;
    for offset in [0, length - 1] {
        assert_eq!(peer.write(file_id, offset, &[1]).await, Status::SUCCESS);
    }
    file_id
}

/// Asks without waiting for the answer.
fn begin(peer: &mut Peer, ctl_code: CtlCode, file_id: FileId, input: &[u8], room: u32) {
    let flags = IoctlFlags::IS_FSCTL;
    let request =
        IoctlRequest { ctl_code, file_id, max_output_response: room, flags, input, ..IoctlRequest::default() };
    let mut message = peer.message(Command::IOCTL, |body| request.encode(body));
    peer.process(&mut message).unwrap();
}

fn begin_to_set(peer: &mut Peer, file_id: FileId, class: FileClass, value: u64) {
    let (info_type, buffer) = (InfoType::FILE, &value.to_le_bytes()[..]);
    let request = SetInfoRequest { info_type, class: class.into(), file_id, buffer, ..SetInfoRequest::default() };
    let mut message = peer.message(Command::SET_INFO, |body| request.encode(body));
    peer.process(&mut message).unwrap();
}

/// Copies the whole of a file of so many MiB into another.
async fn begin_copy(peer: &mut Peer, source: FileId, target: FileId, mib: u64) {
    let key = resume_key(peer, source).await;
    begin_copy_of(peer, key, target, mib);
}

async fn resume_key(peer: &mut Peer, source: FileId) -> [u8; 24] {
    begin(peer, CtlCode::SRV_REQUEST_RESUME_KEY, source, &[], 32);
    let answer = peer.receive().await;
    ResumeKey::decode(IoctlResponse::decode(&answer.message).unwrap().output).unwrap().key
}

fn begin_copy_of(peer: &mut Peer, key: [u8; 24], target: FileId, mib: u64) {
    let chunk = |number| Chunk { source_offset: number * MIB, target_offset: number * MIB, length: MIB as u32 };
    let mut input = Vec::new();
    CopyChunks::encode(&key, &(0..mib).map(chunk).collect::<Vec<_>>(), &mut input);
    begin(peer, CtlCode::SRV_COPYCHUNK, target, &input, 12);
}

fn begin_zero(peer: &mut Peer, file_id: FileId, length: u64) {
    let mut input = Vec::new();
    ZeroData { offset: 0, beyond_final_zero: length }.encode(&mut input);
    begin(peer, CtlCode::SET_ZERO_DATA, file_id, &input, 0);
}

/// The answer, where there is one now.
async fn answer(peer: &Peer) -> Option<Answer> {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    loop {
        let message = peer.take_frame()?;
        let header = Header::decode(&message).unwrap();
        if header.status != Status::PENDING {
            return Some(Answer { header, message });
        }
    }
}

/// Works until there is the answer; how many pieces of work that took.
async fn worked(server: &Shared, peer: &Peer) -> (usize, Answer) {
    let mut pieces = 0;
    loop {
        if let Some(answer) = answer(peer).await {
            return (pieces, answer);
        }
        assert!(server.pool.work_once(), "it is neither answered nor under way");
        pieces += 1;
    }
}

async fn read(peer: &mut Peer, file_id: FileId, offset: u64) -> Vec<u8> {
    let answer = peer.read(file_id, offset, 1).await;
    ReadResponse::decode(&answer.message).unwrap().data.to_vec()
}

/// Bytes that hold data.
async fn allocated(peer: &mut Peer, file_id: FileId) -> u64 {
    let answer = peer.query(file_id, FileClass::STANDARD, Standard::LENGTH as u32).await;
    Standard::decode(QueryInfoResponse::decode(&answer.message).unwrap().output).unwrap().allocation
}

#[tokio::test]
async fn a_long_copy_lets_other_sessions_have_their_turn() {
    let test = async {
        let server = server_by_hand();
        let (mut long, source) = with_file(&server, "long", 16 * MIB).await;
        let target = long.open("long copy").await;
        let (mut other, small) = with_file(&server, "small", 2 * MIB).await;
        let small_target = other.open("small copy").await;
        begin_copy(&mut long, source, target, 16).await;
        begin_copy(&mut other, small, small_target, 2).await;
        assert!(server.pool.work_once() && server.pool.work_once());
        let done = answer(&other).await.expect("the second piece of work was the other session's");
        assert_eq!(done.status(), Status::SUCCESS);
        assert!(answer(&long).await.is_none(), "the long one is under way");
        let (pieces, done) = worked(&server, &long).await;
        assert_eq!((pieces, done.status()), (3, Status::SUCCESS));
        let done = CopyChunksResult::decode(IoctlResponse::decode(&done.message).unwrap().output).unwrap();
        assert_eq!(done, CopyChunksResult { chunks: 16, chunk_bytes: 0, total_bytes: 16 << 20 });
        assert_eq!(read(&mut long, target, 16 * MIB - 1).await, [1]);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_user_waits_for_one_piece_of_anothers_work_however_many_sessions_that_has() {
    let test = async {
        let server = server_by_hand();
        let mut crowd = Vec::new();
        for number in 0..3 {
            let (mut peer, source) = with_file(&server, &format!("source {number}"), 8 * MIB).await;
            let target = peer.open(&format!("target {number}")).await;
            crowd.push((peer, source, target));
        }
        let mut other = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
        let file = made(&mut other, "file", 2 * MIB).await;
        for (peer, source, target) in &mut crowd {
            begin_copy(peer, *source, *target, 8).await;
        }
        begin_zero(&mut other, file, 2 * MIB);
        assert!(server.pool.work_once() && server.pool.work_once());
        let done = answer(&other).await.expect("the second piece of work was the other user's");
        assert_eq!(done.status(), Status::SUCCESS);
        for (peer, ..) in &crowd {
            assert_eq!(worked(&server, peer).await.1.status(), Status::SUCCESS);
        }
    };
    LocalSet::new().run_until(test).await;
}

/// A server with two shares, each on a device of its own, whose pool works when it is told to.
fn of_two_devices(waits: [Waits; 2]) -> (Arc<Shared>, [u64; 2]) {
    let stores = waits.map(|waits| -> Arc<dyn Store> { Arc::new(RamStore::that_waits(64 << 20, waits)) });
    let volumes = [stores[0].facts().volume, stores[1].facts().volume];
    let [first, second] = stores;
    let server = by_hand(server_with(Signing::Enabled, first));
    let mut configuration = (**server.configuration.load()).clone();
    configuration.shares.push(Share { name: "second".into(), store: second, ..configuration.shares[0].clone() });
    server.configuration.store(Arc::new(configuration));
    (server, volumes)
}

/// Begins to copy a file of the first share to the second. Tells where work waits then: at the first share's device, at the second's, at both
/// together.
async fn copy_waits_at(waits: [Waits; 2]) -> [usize; 3] {
    let (server, volumes) = of_two_devices(waits);
    let (mut peer, source) = working(&server, with_file(&server, "source", 2 * MIB)).await;
    let key = working(&server, resume_key(&mut peer, source)).await;
    assert_eq!(working(&server, peer.connect("second")).await, Status::SUCCESS);
    let target = working(&server, made(&mut peer, "target", 2 * MIB)).await;
    begin_copy_of(&mut peer, key, target, 1);
    assert!(answer(&peer).await.is_none(), "it waits for a device");
    let session = Arc::clone(&peer.connection.channel(peer.session_id).unwrap().session);
    let [first, second] = volumes;
    let devices = [Device::Volume(first), Device::Volume(second), Device::of_both(first, second)];
    devices.map(|device| server.pool.waiting(session.queue_key(device)))
}

#[tokio::test]
async fn a_copy_between_two_shares_waits_for_the_devices_of_both() {
    let test = async {
        assert_eq!(copy_waits_at([Waits::ForData; 2]).await, [0, 0, 1]);
        assert_eq!(copy_waits_at([Waits::Always, Waits::Never]).await, [1, 0, 0], "the target is memory");
        assert_eq!(copy_waits_at([Waits::Never, Waits::Always]).await, [0, 1, 0], "the source is memory");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_long_copy_ends_where_one_chunk_fails() {
    let test = async {
        let server = server_by_hand();
        let (mut peer, source) = with_file(&server, "source", 9 * MIB).await;
        let target = peer.open("target").await;
        begin_copy(&mut peer, source, target, 16).await;
        let (_, done) = worked(&server, &peer).await;
        assert_eq!(done.status(), Status::INVALID_VIEW_SIZE);
        let done = CopyChunksResult::decode(IoctlResponse::decode(&done.message).unwrap().output).unwrap();
        assert_eq!((done.chunks, done.total_bytes), (9, 9 << 20));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_long_zeroing_goes_in_turns_and_zeroes_all() {
    let test = async {
        let server = server_by_hand();
        let (mut peer, file) = with_file(&server, "long", LONG_BYTES).await;
        begin_zero(&mut peer, file, i64::MAX as u64);
        let (pieces, done) = worked(&server, &peer).await;
        assert_eq!((pieces, done.status()), (4, Status::SUCCESS));
        assert_eq!(read(&mut peer, file, 0).await, [0]);
        assert_eq!(read(&mut peer, file, LONG_BYTES - 1).await, [0]);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_long_trim_goes_in_turns_and_frees_all() {
    let test = async {
        let server = server_by_hand();
        let (mut peer, file) = with_file(&server, "long", LONG_BYTES).await;
        let mut input = Vec::new();
        LevelTrim::encode(0, &[Range { offset: 0, length: LONG_BYTES }], &mut input);
        begin(&mut peer, CtlCode::FILE_LEVEL_TRIM, file, &input, 0);
        let (pieces, done) = worked(&server, &peer).await;
        assert_eq!((pieces, done.status()), (4, Status::SUCCESS));
        assert_eq!(read(&mut peer, file, LONG_BYTES - 1).await, [0]);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn sharing_the_extents_of_a_long_file_goes_in_turns_and_leaves_holes_holes() {
    let test = async {
        let server = server_by_hand();
        let (mut peer, source) = with_file(&server, "source", LONG_BYTES).await;
        for piece in 0..256 {
            let (offset, data) = (MIB + piece * (64 << 10), &[1; 64 << 10]);
            assert_eq!(peer.write(source, offset, data).await, Status::SUCCESS);
        }
        let target = peer.open("target").await;
        begin_to_set(&mut peer, target, FileClass::END_OF_FILE, LONG_BYTES);
        assert_eq!(answer(&peer).await.unwrap().status(), Status::SUCCESS);
        let mut input = Vec::new();
        DuplicateExtents { source, source_offset: 0, target_offset: 0, length: LONG_BYTES }.encode(&mut input);
        begin(&mut peer, CtlCode::DUPLICATE_EXTENTS_TO_FILE, target, &input, 0);
        let (pieces, done) = worked(&server, &peer).await;
        assert_eq!((pieces, done.status()), (6, Status::SUCCESS));
        for (offset, expected) in [(0, 1), (1, 0), (MIB, 1), (17 * MIB - 1, 1), (17 * MIB, 0), (LONG_BYTES - 1, 1)] {
            assert_eq!(read(&mut peer, target, offset).await, [expected], "at {offset}");
        }
        assert_eq!(allocated(&mut peer, target).await, allocated(&mut peer, source).await);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_is_short_is_done_at_once_where_the_store_never_waits() {
    let test = async {
        let server = server_by_hand();
        let (mut peer, file) = with_file(&server, "short", MIB).await;
        begin_zero(&mut peer, file, i64::MAX as u64);
        assert_eq!(answer(&peer).await.unwrap().status(), Status::SUCCESS);
        for value in [LONG_BYTES, LONG_BYTES - MIB] {
            begin_to_set(&mut peer, file, FileClass::END_OF_FILE, value);
            assert_eq!(answer(&peer).await.unwrap().status(), Status::SUCCESS);
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_file_that_is_cut_or_gets_space_by_much_is_left_to_the_pool() {
    let test = async {
        let server = server_by_hand();
        let (mut peer, file) = with_file(&server, "file", LONG_BYTES).await;
        for (class, value) in [(FileClass::END_OF_FILE, 0), (FileClass::ALLOCATION, 32 * MIB)] {
            begin_to_set(&mut peer, file, class, value);
            let (pieces, done) = worked(&server, &peer).await;
            assert_eq!((pieces, done.status()), (1, Status::SUCCESS));
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_long_look_for_ranges_goes_in_turns_and_is_told_whole() {
    let test = async {
        let server = server_by_hand();
        let (mut peer, file_id) = with_file(&server, "holes", 1).await;
        begin(&mut peer, CtlCode::SET_SPARSE, file_id, &[], 0);
        assert_eq!(answer(&peer).await.unwrap().status(), Status::SUCCESS);
        // Of every table of a file in memory the last page alone is there: 512 slots have to be looked at for each.
        let offsets: Vec<_> = (0..200).map(|table| (table * 512 + 511) * (64 << 10)).collect();
        for offset in &offsets {
            assert_eq!(peer.write(file_id, *offset, &[1]).await, Status::SUCCESS);
        }
        let mut input = Vec::new();
        encode_ranges(&[Range { offset: 1 << 20, length: 1 << 40 }], &mut input);
        for (room, pieces, status) in [(4096, 2, Status::SUCCESS), (16, 0, Status::BUFFER_OVERFLOW)] {
            begin(&mut peer, CtlCode::QUERY_ALLOCATED_RANGES, file_id, &input, room);
            let (worked, done) = worked(&server, &peer).await;
            assert_eq!((worked, done.status()), (pieces, status));
            let told = ranges(IoctlResponse::decode(&done.message).unwrap().output).unwrap();
            let told: Vec<_> = told.map(|range| range.offset).collect();
            assert_eq!(told, offsets[..(room as usize / 16).min(200)]);
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_long_zeroing_ends_with_its_connection() {
    let test = async {
        let server = server_by_hand();
        let (mut gone, file) = with_file(&server, "long", LONG_BYTES).await;
        begin_zero(&mut gone, file, LONG_BYTES);
        assert!(answer(&gone).await.is_none() && server.pool.work_once());
        gone.disconnect();
        let mut other = Peer::sign_in(&server).await;
        while server.pool.work_once() {
            assert!(answer(&other).await.is_none());
        }
        // Who opens it comes behind what is begun.
        let file = working(&server, other.open("long")).await;
        assert_eq!(read(&mut other, file, 0).await, [0], "what was begun is done");
        assert_eq!(read(&mut other, file, LONG_BYTES - 1).await, [1], "the rest is not gone on with");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_file_that_is_made_with_many_attributes_is_made_on_the_pool() {
    let test = async {
        let server = server_by_hand();
        for (count, is_many) in [(100, false), (200, true)] {
            let mut list = Vec::new();
            let mut writer = FullEaWriter::new(&mut list, 64 << 10);
            let names: Vec<String> = (0..count).map(|number| format!("ea{number}")).collect();
            assert!(names.iter().all(|name| writer.push(&FullEa { flags: 0, name: name.as_bytes(), value: b"1" })));
            let mut builder = CreateContextsBuilder::new();
            builder.add(name::EA_BUFFER, &list);
            let mut peer = Peer::sign_in(&server).await;
            let file = utf16_bytes(&format!("file{count}"));
            let request = CreateRequest {
                desired_access: wire::security::access::FILE_ALL.into(),
                disposition: CreateDisposition::CREATE,
                name: Utf16::new(&file).unwrap(),
                contexts: builder.contexts(),
                ..CreateRequest::default()
            };
            let mut message = peer.message(Command::CREATE, |body| request.encode(body));
            peer.process(&mut message).unwrap();
            let at_once = answer(&peer).await;
            assert_eq!(at_once.is_none(), is_many);
            let made = match at_once {
                Some(made) => made,
                None => worked(&server, &peer).await.1,
            };
            assert_eq!(made.status(), Status::SUCCESS);
        }
    };
    LocalSet::new().run_until(test).await;
}
