//! IOCTL as clients see it, above all those who ask for what they may not have.

use std::sync::Arc;

use tokio::task::LocalSet;
use tokio::time::Instant;
use wire::command::close::CloseRequest;
use wire::command::create::CreateRequest;
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest, IoctlResponse};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::tree_connect::TreeConnectRequest;
use wire::fscc::FileClass;
use wire::fscc::ioctl::{
    Chunk, CopyChunks, CopyChunksResult, DuplicateExtents, LevelTrim, ObjectId, PipePeek, PipeWait, Range, ResumeKey,
    ZeroData, encode_ranges, interfaces, ranges,
};
use wire::ids::{Command, FileId};
use wire::rpc::client::{Answer as RpcAnswer, bind, bound, request as rpc_request};
use wire::rpc::pdu::{Header, PduFlags, Request};
use wire::rpc::srvsvc::{Operation, decode_listing, encode_list_shares};
use wire::rpc::{Syntax, SyntaxId};
use wire::status::Status;
use wire::{Utf16, codec};

use super::signed_range;
use crate::admin::Admin;
use crate::state::configuration::{Multichannel, Rate, ShareRates, Signing};
use crate::tests::testing::{Answer, Peer, server};

const LIMITS: CopyChunksResult = CopyChunksResult { chunks: 256, chunk_bytes: 1 << 20, total_bytes: 16 << 20 };

fn output(answer: &Answer) -> &[u8] {
    IoctlResponse::decode(&answer.message).unwrap().output
}

async fn write(peer: &mut Peer, file_id: FileId, offset: u64, data: &[u8]) {
    assert_eq!(peer.write(file_id, offset, data).await, Status::SUCCESS);
}

async fn read(peer: &mut Peer, file_id: FileId, offset: u64, length: u32) -> Vec<u8> {
    let answer = peer.read(file_id, offset, length).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    ReadResponse::decode(&answer.message).unwrap().data.to_vec()
}

async fn lock(peer: &mut Peer, file_id: FileId, offset: u64, length: u64) {
    let elements = [LockElement { offset, length, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY }];
    let request = LockRequest { file_id, locks: LockElements::new(&elements), ..LockRequest::default() };
    assert_eq!(peer.ask(Command::LOCK, |body| request.encode(body)).await.status(), Status::SUCCESS);
}

async fn key(peer: &mut Peer, file_id: FileId) -> [u8; 24] {
    let answer = peer.ioctl(CtlCode::SRV_REQUEST_RESUME_KEY, file_id, &[], 32).await;
    ResumeKey::decode(output(&answer)).unwrap().key
}

async fn copy(peer: &mut Peer, target: FileId, key: &[u8; 24], chunks: &[Chunk]) -> (Status, CopyChunksResult) {
    let mut input = Vec::new();
    CopyChunks::encode(key, chunks, &mut input);
    let answer = peer.ioctl(CtlCode::SRV_COPYCHUNK, target, &input, 12).await;
    (answer.status(), CopyChunksResult::decode(output(&answer)).unwrap())
}

fn chunk(source_offset: u64, target_offset: u64, length: u32) -> Chunk {
    Chunk { source_offset, target_offset, length }
}

async fn two_files() -> (Peer, FileId, FileId) {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let (source, target) = (peer.open("source").await, peer.open("target").await);
    write(&mut peer, source, 0, b"0123456789").await;
    (peer, source, target)
}

#[tokio::test]
async fn interfaces_are_told_where_the_account_has_multichannel() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let code = CtlCode::QUERY_NETWORK_INTERFACE_INFO;
    // They are read on the pool, and the request goes on as a task of the shard.
    let answer = LocalSet::new().run_until(peer.ioctl(code, FileId::ANY, b"", 65_536)).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    let told: Vec<_> = interfaces(output(&answer)).map(Result::unwrap).collect();
    assert_eq!(told.len(), 1, "the server listens on loopback alone");
    assert!(told[0].address.unwrap().is_loopback() && told[0].index != 0);
    assert_eq!(peer.ioctl(code, FileId::ANY, b"", 100).await.status(), Status::BUFFER_TOO_SMALL);
    let mut configuration = (**server.configuration.load()).clone();
    configuration.accounts[0].multichannel = Multichannel::Off;
    server.replace(configuration);
    assert_eq!(peer.ioctl(code, FileId::ANY, b"", 65_536).await.status(), Status::NOT_SUPPORTED);
}

#[tokio::test]
async fn chunks_are_copied_until_one_fails() {
    let (mut peer, source, target) = two_files().await;
    let key = key(&mut peer, source).await;
    let chunks = [chunk(0, 0, 4), chunk(6, 4, 4), chunk(8, 8, 4), chunk(0, 20, 1)];
    let done = CopyChunksResult { chunks: 2, chunk_bytes: 0, total_bytes: 8 };
    assert_eq!(copy(&mut peer, target, &key, &chunks).await, (Status::INVALID_VIEW_SIZE, done));
    assert_eq!(read(&mut peer, target, 0, 100).await, b"01236789");
    let done = CopyChunksResult { chunks: 1, chunk_bytes: 0, total_bytes: 2 };
    assert_eq!(copy(&mut peer, target, &key, &[chunk(0, u64::MAX, 2)]).await, (Status::SUCCESS, done));
    assert_eq!(read(&mut peer, target, 0, 100).await, b"0123678901", "all ones mean the end of the file");
}

#[tokio::test(start_paused = true)]
async fn copies_count_as_bytes_of_a_limited_share() {
    let test = async {
        let (mut peer, source, target) = two_files().await;
        write(&mut peer, source, 0, &vec![7; 1 << 16]).await;
        let key = key(&mut peer, source).await;
        let mib = [chunk(0, 0, 1 << 16); 16];
        let share = Rate { requests: None, mib: Some(1) };
        let configuration = peer.connection.server.configuration.load_full();
        configuration.shares[0].limit.change(&ShareRates { share, ..ShareRates::default() });
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(copy(&mut peer, target, &key, &mib).await.0, Status::SUCCESS);
        }
        // Two are paid for before the third begins, each read and written.
        let millis = began.elapsed().as_millis();
        assert!((3_900..4_200).contains(&millis), "{millis} ms");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn copies_beyond_the_limits_tell_the_limits() {
    let (mut peer, source, target) = two_files().await;
    let key = key(&mut peer, source).await;
    let one = chunk(0, 0, 1);
    let bad: [&[Chunk]; 5] = [
        &[one; 257],
        &[chunk(0, 0, (1 << 20) + 1)],
        &[chunk(0, 0, 1 << 20); 17],
        &[one, chunk(0, 0, 0)],
        &[one, chunk(0, 1 << 63, 1)],
    ];
    for chunks in bad {
        assert_eq!(copy(&mut peer, target, &key, chunks).await, (Status::INVALID_PARAMETER, LIMITS));
    }
}

#[tokio::test]
async fn a_chunk_count_that_lies_is_refused() {
    let (mut peer, source, target) = two_files().await;
    let key = key(&mut peer, source).await;
    let mut input = Vec::new();
    CopyChunks::encode(&key, &[chunk(0, 0, 1)], &mut input);
    for count in [2_u32, 256, 0x0AAA_AAAB, u32::MAX] {
        input[24..28].copy_from_slice(&count.to_le_bytes());
        let answer = peer.ioctl(CtlCode::SRV_COPYCHUNK_WRITE, target, &input, 12).await;
        assert_eq!(answer.status(), Status::INVALID_PARAMETER, "{count}");
        assert_eq!(CopyChunksResult::decode(output(&answer)), Ok(LIMITS));
    }
    for length in 0..input.len() {
        let answer = peer.ioctl(CtlCode::SRV_COPYCHUNK_WRITE, target, &input[..length], 12).await;
        assert_eq!(answer.status(), Status::INVALID_PARAMETER, "{length}");
    }
}

#[tokio::test]
async fn the_key_of_another_session_is_no_key() {
    let server = server(Signing::Enabled);
    let (mut one, mut other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
    let (source, target) = (one.open("source").await, other.open("target").await);
    write(&mut one, source, 0, b"secret").await;
    let key = key(&mut one, source).await;
    for key in [key, [0; 24], [0xFF; 24]] {
        let mut input = Vec::new();
        CopyChunks::encode(&key, &[chunk(0, 0, 1)], &mut input);
        let answer = other.ioctl(CtlCode::SRV_COPYCHUNK, target, &input, 12).await;
        assert_eq!(answer.status(), Status::OBJECT_NAME_NOT_FOUND);
    }
}

#[tokio::test]
async fn what_is_to_be_sealed_is_copied_by_no_plain_request() {
    let server = server(Signing::Enabled);
    let sealed = crate::state::configuration::Share {
        name: "sealed".into(),
        seal_required: true,
        ..server.configuration.load().shares[0].clone()
    };
    let mut configuration = (**server.configuration.load()).clone();
    configuration.shares.push(sealed);
    server.configuration.store(Arc::new(configuration));
    let mut peer = Peer::sign_in(&server).await;
    let target = peer.open("target").await;
    let plain_tree = peer.tree_id;
    assert_eq!(peer.connect("sealed").await, Status::SUCCESS);
    let session = server.sessions.find(peer.session_id).unwrap();
    let tree = session.tree(peer.tree_id).unwrap();
    tree.follow(Some(&server.configuration.load().shares[0]), &session.user.load());
    let source = peer.open("source").await;
    write(&mut peer, source, 0, b"secret").await;
    let key = key(&mut peer, source).await;
    tree.follow(Some(&server.configuration.load().shares[1]), &session.user.load());
    peer.tree_id = plain_tree;
    let mut input = Vec::new();
    CopyChunks::encode(&key, &[chunk(0, 0, 6)], &mut input);
    let copied = peer.ioctl(CtlCode::SRV_COPYCHUNK, target, &input, 12).await;
    let mut input = Vec::new();
    DuplicateExtents { source, source_offset: 0, target_offset: 0, length: 6 }.encode(&mut input);
    let duplicated = peer.ioctl(CtlCode::DUPLICATE_EXTENTS_TO_FILE, target, &input, 0).await;
    assert_eq!([copied.status(), duplicated.status()], [Status::ACCESS_DENIED; 2]);
}

#[tokio::test]
async fn copies_respect_locks_on_both_sides() {
    let server = server(Signing::Enabled);
    let (mut one, mut other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
    let (source, target) = (one.open("source").await, one.open("target").await);
    write(&mut one, source, 0, b"0123456789").await;
    let key = key(&mut one, source).await;
    let (theirs_source, theirs_target) = (other.open("source").await, other.open("target").await);
    lock(&mut other, theirs_source, 5, 5).await;
    lock(&mut other, theirs_target, 100, 5).await;
    let nothing = CopyChunksResult { chunks: 0, chunk_bytes: 0, total_bytes: 0 };
    for bad in [chunk(0, 0, 6), chunk(0, 98, 3)] {
        assert_eq!(copy(&mut one, target, &key, &[bad]).await, (Status::FILE_LOCK_CONFLICT, nothing));
    }
    assert_eq!(copy(&mut one, target, &key, &[chunk(0, 0, 5)]).await.0, Status::SUCCESS);
}

#[tokio::test]
async fn extents_are_not_shared_past_locks_on_either_side() {
    const UNIT: u64 = 4096;
    let server = server(Signing::Enabled);
    let (mut one, mut other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
    let (source, target) = (one.open("source").await, one.open("target").await);
    write(&mut one, source, 0, &[b'a'; 3 * UNIT as usize]).await;
    write(&mut one, target, 0, &[b'b'; 3 * UNIT as usize]).await;
    let (theirs_source, theirs_target) = (other.open("source").await, other.open("target").await);
    lock(&mut other, theirs_source, UNIT, 1).await;
    lock(&mut other, theirs_target, 2 * UNIT, 1).await;
    let share = async |one: &mut Peer, source_offset, target_offset| {
        let mut input = Vec::new();
        DuplicateExtents { source, source_offset, target_offset, length: UNIT }.encode(&mut input);
        one.ioctl(CtlCode::DUPLICATE_EXTENTS_TO_FILE, target, &input, 0).await.status()
    };
    assert_eq!(share(&mut one, UNIT, 0).await, Status::FILE_LOCK_CONFLICT, "read past a lock");
    assert_eq!(share(&mut one, 0, 2 * UNIT).await, Status::FILE_LOCK_CONFLICT, "written past a lock");
    assert_eq!(read(&mut other, theirs_target, 0, 3 * UNIT as u32).await, [b'b'; 3 * UNIT as usize]);
    assert_eq!(share(&mut one, 0, UNIT).await, Status::SUCCESS);
}

#[tokio::test]
async fn a_large_hole_is_zeroed_up_to_what_is_behind_it() {
    const LENGTH: u64 = 8 << 40;
    let test = async {
        let (mut peer, file, _) = two_files().await;
        assert_eq!(peer.ioctl(CtlCode::SET_SPARSE, file, &[], 0).await.status(), Status::SUCCESS);
        assert_eq!(peer.set(file, FileClass::END_OF_FILE, &LENGTH.to_le_bytes()).await, Status::SUCCESS);
        write(&mut peer, file, LENGTH / 2, b"between").await;
        write(&mut peer, file, LENGTH - 5, b"after").await;
        let mut input = Vec::new();
        ZeroData { offset: 0, beyond_final_zero: LENGTH - 3 }.encode(&mut input);
        assert_eq!(peer.ioctl(CtlCode::SET_ZERO_DATA, file, &input, 0).await.status(), Status::SUCCESS);
        assert_eq!(read(&mut peer, file, LENGTH - 6, 6).await, b"\0\0\0ter");
        for zeroed in [0, LENGTH / 2] {
            assert_eq!(read(&mut peer, file, zeroed, 10).await, [0; 10]);
        }
    };
    tokio::task::LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_file_is_copied_over_itself_whole() {
    let (mut peer, source, _) = two_files().await;
    let key = key(&mut peer, source).await;
    assert_eq!(copy(&mut peer, source, &key, &[chunk(0, 3, 7)]).await.0, Status::SUCCESS);
    assert_eq!(read(&mut peer, source, 0, 100).await, b"0120123456");
}

#[tokio::test]
async fn ranges_before_zero_and_backwards_are_refused() {
    let (mut peer, file, _) = two_files().await;
    for (offset, beyond_final_zero) in [(1 << 63, u64::MAX), (0, 1 << 63), (5, 4), (u64::MAX, 0)] {
        let mut input = Vec::new();
        ZeroData { offset, beyond_final_zero }.encode(&mut input);
        let answer = peer.ioctl(CtlCode::SET_ZERO_DATA, file, &input, 0).await;
        assert_eq!(answer.status(), Status::INVALID_PARAMETER);
    }
    for (offset, length) in [(1 << 63, 1), (0, 1 << 63), (1, i64::MAX as u64), (u64::MAX, u64::MAX)] {
        let mut input = Vec::new();
        encode_ranges(&[Range { offset, length }], &mut input);
        let answer = peer.ioctl(CtlCode::QUERY_ALLOCATED_RANGES, file, &input, 4096).await;
        assert_eq!(answer.status(), Status::INVALID_PARAMETER);
        let mut input = Vec::new();
        DuplicateExtents { source: file, source_offset: offset, target_offset: 0, length }.encode(&mut input);
        let answer = peer.ioctl(CtlCode::DUPLICATE_EXTENTS_TO_FILE, file, &input, 0).await;
        assert_eq!(answer.status(), Status::INVALID_PARAMETER);
    }
    for range in [Range { offset: u64::MAX, length: 1 }, Range { offset: u64::MAX, length: u64::MAX }] {
        let mut input = Vec::new();
        LevelTrim::encode(0, &[range], &mut input);
        let answer = peer.ioctl(CtlCode::FILE_LEVEL_TRIM, file, &input, 0).await;
        assert_eq!(answer.status(), Status::INTEGER_OVERFLOW);
    }
}

#[tokio::test]
async fn every_control_survives_empty_short_and_random_input() {
    let (mut peer, file, _) = two_files().await;
    let codes = [
        CtlCode::SRV_COPYCHUNK,
        CtlCode::SET_SPARSE,
        CtlCode::SET_ZERO_DATA,
        CtlCode::QUERY_ALLOCATED_RANGES,
        CtlCode::FILE_LEVEL_TRIM,
        CtlCode::DUPLICATE_EXTENTS_TO_FILE,
        CtlCode::DUPLICATE_EXTENTS_TO_FILE_EX,
        CtlCode::SET_COMPRESSION,
        CtlCode::GET_REPARSE_POINT,
        CtlCode::PIPE_TRANSCEIVE,
        CtlCode::PIPE_PEEK,
        CtlCode::SRV_READ_HASH,
        CtlCode::LMR_REQUEST_RESILIENCY,
        CtlCode(0),
        CtlCode(u32::MAX),
    ];
    for code in codes {
        for fill in [0, 0x7F, 0xFF] {
            for length in (0..64).chain([1000]) {
                for room in [0, 1, 12, 4096] {
                    let _ = peer.ioctl(code, file, &vec![fill; length], room).await;
                }
            }
        }
    }
    read(&mut peer, file, 0, 1).await;
}

#[tokio::test]
async fn allocated_ranges_follow_what_is_zeroed_in_a_sparse_file() {
    let (mut peer, file, _) = two_files().await;
    write(&mut peer, file, 0, &vec![1; 65536]).await;
    let mut asked = Vec::new();
    encode_ranges(&[Range { offset: 0, length: 65536 }], &mut asked);
    assert_eq!(peer.ioctl(CtlCode::SET_SPARSE, file, &[], 0).await.status(), Status::SUCCESS);
    let mut zeroed = Vec::new();
    ZeroData { offset: 16384, beyond_final_zero: 32768 }.encode(&mut zeroed);
    assert_eq!(peer.ioctl(CtlCode::SET_ZERO_DATA, file, &zeroed, 0).await.status(), Status::SUCCESS);
    let answer = peer.ioctl(CtlCode::QUERY_ALLOCATED_RANGES, file, &asked, 4096).await;
    let all: Vec<_> = ranges(output(&answer)).unwrap().collect();
    assert_eq!(all, [Range { offset: 0, length: 16384 }, Range { offset: 32768, length: 32768 }]);
    let answer = peer.ioctl(CtlCode::QUERY_ALLOCATED_RANGES, file, &asked, 16).await;
    assert_eq!((answer.status(), output(&answer).len()), (Status::BUFFER_OVERFLOW, 16));
    let answer = peer.ioctl(CtlCode::QUERY_ALLOCATED_RANGES, file, &asked, 15).await;
    assert_eq!(answer.status(), Status::BUFFER_TOO_SMALL);
}

#[tokio::test]
async fn what_is_not_a_file_system_control_is_not_supported() {
    let (mut peer, file, _) = two_files().await;
    for flags in [IoctlFlags(0), IoctlFlags(2), IoctlFlags(3), IoctlFlags(u32::MAX)] {
        let request = IoctlRequest { ctl_code: CtlCode::SET_SPARSE, file_id: file, flags, ..IoctlRequest::default() };
        let answer = peer.ask(Command::IOCTL, |body| request.encode(body)).await;
        assert_eq!(answer.status(), Status::NOT_SUPPORTED);
    }
}

#[tokio::test]
async fn lengths_above_the_largest_transaction_are_refused() {
    let (mut peer, file, _) = two_files().await;
    let most = (8 << 20) + 1;
    for (max_input_response, max_output_response) in [(most, 0), (u32::MAX, 0)] {
        let request = IoctlRequest {
            ctl_code: CtlCode::GET_COMPRESSION,
            file_id: file,
            max_input_response,
            max_output_response,
            flags: IoctlFlags::IS_FSCTL,
            input: &[],
        };
        let answer = peer.ask(Command::IOCTL, |body| request.encode(body)).await;
        assert_eq!(answer.status(), Status::INVALID_PARAMETER);
    }
}

#[tokio::test]
async fn the_server_s_own_controls_take_no_open_and_the_others_need_one() {
    let (mut peer, file, _) = two_files().await;
    for code in [CtlCode::DFS_GET_REFERRALS, CtlCode::QUERY_NETWORK_INTERFACE_INFO, CtlCode::PIPE_WAIT] {
        let answer = peer.ioctl(code, file, &[0; 64], 4096).await;
        assert_eq!(answer.status(), Status::INVALID_PARAMETER);
    }
    let answer = peer.ioctl(CtlCode::DFS_GET_REFERRALS, FileId::ANY, &[0; 64], 4096).await;
    assert_eq!(answer.status(), Status::FS_DRIVER_REQUIRED);
    let answer = peer.ioctl(CtlCode::SET_SPARSE, FileId::ANY, &[], 0).await;
    assert_eq!(answer.status(), Status::FILE_CLOSED);
}

#[tokio::test]
async fn validating_the_negotiation_of_3_1_1_ends_the_connection() {
    let (mut peer, ..) = two_files().await;
    let request = IoctlRequest {
        ctl_code: CtlCode::VALIDATE_NEGOTIATE_INFO,
        file_id: FileId::ANY,
        max_output_response: 24,
        flags: IoctlFlags::IS_FSCTL,
        input: &[0; 26],
        ..IoctlRequest::default()
    };
    let mut message = peer.message(Command::IOCTL, |body| request.encode(body));
    peer.process(&mut message).unwrap();
    assert!(peer.connection.is_silent() && peer.take_frame().is_none());
}

#[tokio::test]
async fn object_ids_are_the_files_own() {
    let (mut peer, source, target) = two_files().await;
    let mut ids = Vec::new();
    for file in [source, source, target] {
        let answer = peer.ioctl(CtlCode::CREATE_OR_GET_OBJECT_ID, file, &[], 64).await;
        ids.push(ObjectId::decode(output(&answer)).unwrap().object);
    }
    assert!(ids[0] == ids[1] && ids[1] != ids[2]);
}

/// Connects to `IPC$` and opens a pipe.
async fn open_pipe(peer: &mut Peer, name: &str) -> Result<FileId, Status> {
    let path = codec::utf16_bytes(r"\\test\IPC$");
    let request = TreeConnectRequest { path: Utf16::new(&path).unwrap(), ..TreeConnectRequest::default() };
    let answer = peer.ask(Command::TREE_CONNECT, |body| request.encode(body)).await;
    peer.tree_id = answer.header.tree_id();
    let name = codec::utf16_bytes(name);
    let request = CreateRequest {
        desired_access: wire::security::access::FILE_ALL.into(),
        name: Utf16::new(&name).unwrap(),
        ..CreateRequest::default()
    };
    let answer = peer.ask(Command::CREATE, |body| request.encode(body)).await;
    if answer.status() != Status::SUCCESS {
        return Err(answer.status());
    }
    Ok(answer.file_id())
}

#[tokio::test]
async fn shares_are_listed_over_a_pipe_message_by_message() {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let pipe = open_pipe(&mut peer, "srvsvc").await.unwrap();
    let answer = peer.ioctl(CtlCode::PIPE_TRANSCEIVE, pipe, &bind(&SyntaxId::SRVSVC), 4096).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    let fragment_bytes_max = bound(output(&answer)).unwrap();
    let mut stub = Vec::new();
    encode_list_shares("", 0, Syntax::Ndr32, &mut stub);
    for fragment in rpc_request(1, Operation::SHARE_ENUM.0, &stub, fragment_bytes_max) {
        write(&mut peer, pipe, 0, &fragment).await;
    }
    let answer = peer.ioctl(CtlCode::PIPE_PEEK, pipe, &[], 4096).await;
    let peeked = output(&answer)[16..].to_vec();
    let answer = peer.ioctl(CtlCode::PIPE_TRANSCEIVE, pipe, &[], 4096).await;
    assert_eq!(answer.status(), Status::PIPE_BUSY);
    let answer = peer.read(pipe, 0, 10).await;
    assert_eq!(answer.status(), Status::BUFFER_OVERFLOW);
    let mut message = ReadResponse::decode(&answer.message).unwrap().data.to_vec();
    message.extend(read(&mut peer, pipe, 0, 4096).await);
    assert_eq!(message, peeked);
    let stub = RpcAnswer::new(1).fragment(&message).unwrap().unwrap();
    let names: Vec<_> =
        decode_listing(&stub, Syntax::Ndr32).unwrap().shares.into_iter().map(|share| share.name).collect();
    assert_eq!(names, ["ram", "IPC$"]);
}

#[tokio::test]
async fn a_read_of_an_empty_pipe_waits_until_something_is_written_or_the_pipe_closed() {
    let shard = tokio::task::LocalSet::new();
    shard
        .run_until(async {
            let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
            let pipe = open_pipe(&mut peer, r"\PIPE\SrvSvc").await.unwrap();
            let read = ReadRequest { file_id: pipe, length: 4096, ..ReadRequest::default() };
            let mut message = peer.message(Command::READ, |body| read.encode(body));
            peer.process(&mut message).unwrap();
            assert_eq!(peer.receive().await.status(), Status::PENDING);
            write(&mut peer, pipe, 0, &bind(&SyntaxId::SRVSVC)).await;
            let answer = peer.receive().await;
            assert!(bound(ReadResponse::decode(&answer.message).unwrap().data).is_ok());

            let mut message = peer.message(Command::READ, |body| read.encode(body));
            peer.process(&mut message).unwrap();
            assert_eq!(peer.receive().await.status(), Status::PENDING);
            let close = CloseRequest { file_id: pipe, ..CloseRequest::default() };
            let mut message = peer.message(Command::CLOSE, |body| close.encode(body));
            peer.process(&mut message).unwrap();
            let mut statuses = [peer.receive().await.status(), peer.receive().await.status()];
            statuses.sort();
            assert_eq!(statuses, [Status::SUCCESS, Status::PIPE_BROKEN]);
        })
        .await;
}

#[tokio::test]
async fn a_pipe_on_which_nonsense_is_written_breaks() {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let pipe = open_pipe(&mut peer, "wkssvc").await.unwrap();
    let answer = peer.ioctl(CtlCode::PIPE_TRANSCEIVE, pipe, &[0xFF; 64], 4096).await;
    assert_eq!(answer.status(), Status::PIPE_BROKEN);
    let answer = peer.ioctl(CtlCode::PIPE_PEEK, pipe, &[], 4096).await;
    assert_eq!(answer.status(), Status::PIPE_BROKEN);
}

/// A call of a context that was not bound: it is answered with a fault.
fn wrong_call(call: u32) -> Vec<u8> {
    let mut fragment = Vec::new();
    let whole = PduFlags::FIRST | PduFlags::LAST;
    Request { context: 9, operation: 15, stub: &[] }.encode(call, whole, 0, &mut fragment);
    fragment
}

/// Opens `srvsvc` and binds to it.
async fn bound_pipe(peer: &mut Peer) -> FileId {
    let pipe = open_pipe(peer, "srvsvc").await.unwrap();
    let answer = peer.ioctl(CtlCode::PIPE_TRANSCEIVE, pipe, &bind(&SyntaxId::SRVSVC), 4096).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    pipe
}

async fn try_write(peer: &mut Peer, file_id: FileId, data: &[u8]) -> Status {
    peer.write(file_id, 0, data).await
}

#[tokio::test]
async fn calls_of_one_write_are_answered_one_after_the_other() {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let pipe = bound_pipe(&mut peer).await;
    let calls: Vec<u8> = (1..=3).flat_map(wrong_call).collect();
    write(&mut peer, pipe, 0, &calls).await;
    for call in 1..=3 {
        let answer = peer.ioctl(CtlCode::PIPE_PEEK, pipe, &[], 16).await;
        assert_eq!(PipePeek::decode(output(&answer)).unwrap().messages, 1);
        let message = read(&mut peer, pipe, 0, 4096).await;
        assert_eq!(Header::decode(&message).unwrap().call, call);
    }
    let answer = peer.ioctl(CtlCode::PIPE_PEEK, pipe, &[], 16).await;
    assert_eq!(PipePeek::decode(output(&answer)).unwrap().messages, 0);
}

#[tokio::test]
async fn what_waits_in_a_pipe_is_bounded_charged_to_its_user_and_given_back() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let pipe = bound_pipe(&mut peer).await;
    let bytes = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets.bytes);
    let idle = bytes.used();
    let calls: Vec<u8> = (0..1000).flat_map(wrong_call).collect();
    let mut written = 0;
    while try_write(&mut peer, pipe, &calls).await == Status::SUCCESS {
        written += calls.len() as u64;
        assert!(bytes.used() >= idle + written - 24, "{written} bytes written");
        assert!(written < 1 << 20);
    }
    assert_eq!(try_write(&mut peer, pipe, &calls).await, Status::PIPE_BUSY);
    // What is read makes room.
    for _ in 0..1001 {
        read(&mut peer, pipe, 0, 4096).await;
    }
    assert_eq!(try_write(&mut peer, pipe, &calls).await, Status::SUCCESS);
    peer.close(pipe).await;
    assert!(bytes.used() <= idle);
}

#[tokio::test]
async fn a_pipe_of_a_user_who_holds_what_it_may_takes_nothing_and_goes_on_later() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let pipe = bound_pipe(&mut peer).await;
    let bytes = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets.bytes);
    let others = bytes.charge(bytes.limit() - bytes.used() - 16 * 1024).unwrap();
    let calls: Vec<u8> = (0..1000).flat_map(wrong_call).collect();
    assert_eq!(try_write(&mut peer, pipe, &calls).await, Status::INSUFFICIENT_RESOURCES);
    drop(others);
    assert_eq!(try_write(&mut peer, pipe, &wrong_call(1)).await, Status::SUCCESS);
    let message = read(&mut peer, pipe, 0, 4096).await;
    assert_eq!(Header::decode(&message).unwrap().call, 1);
}

#[tokio::test]
async fn pipes_that_nobody_reads_leave_their_user_room_to_sign_in_and_open_files() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let calls: Vec<u8> = (0..10_000).flat_map(wrong_call).collect();
    let mut refused = 0;
    for _ in 0..300 {
        let pipe = open_pipe(&mut peer, "srvsvc").await.unwrap();
        let bound = try_write(&mut peer, pipe, &bind(&SyntaxId::SRVSVC)).await == Status::SUCCESS;
        let is_taken = bound && try_write(&mut peer, pipe, &calls).await == Status::SUCCESS;
        refused += u32::from(!is_taken);
    }
    assert!(refused > 100, "{refused}");
    let budgets = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets);
    assert!(budgets.lasting.used() < budgets.lasting.limit() / 4);
    let mut another = Peer::sign_in(&server).await;
    another.open("file").await;
    // Its own pipes work, too.
    let pipe = bound_pipe(&mut another).await;
    assert_eq!(try_write(&mut another, pipe, &wrong_call(1)).await, Status::SUCCESS);
    assert_eq!(read(&mut another, pipe, 0, 4096).await.len(), 32);
}

#[tokio::test]
async fn only_pipes_that_exist_are_opened_and_waited_for() {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    assert_eq!(open_pipe(&mut peer, "netlogon").await, Err(Status::OBJECT_NAME_NOT_FOUND));
    for (name, status) in [("srvsvc", Status::SUCCESS), ("netlogon", Status::OBJECT_NAME_NOT_FOUND)] {
        let mut input = Vec::new();
        PipeWait::encode(None, name, &mut input);
        assert_eq!(peer.ioctl(CtlCode::PIPE_WAIT, FileId::ANY, &input, 0).await.status(), status);
    }
}

#[test]
fn ranges_are_signed() {
    const MAX: u64 = i64::MAX as u64;
    assert_eq!(signed_range(0, 0), Some(0..0));
    assert_eq!(signed_range(1, MAX - 1), Some(1..MAX));
    for (offset, length) in [(MAX + 1, 0), (0, MAX + 1), (1, MAX), (u64::MAX, 1), (u64::MAX, u64::MAX)] {
        assert_eq!(signed_range(offset, length), None);
    }
}
