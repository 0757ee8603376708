//! The srvsvc pipe: bytes that clients send, conversations from end to end, peers that break the protocol.

use proptest::prelude::*;
use wire::ids::FileTime;
use wire::rpc::client::{self, Answer, Failure};
use wire::rpc::fake::Fake;
use wire::rpc::pdu::{
    Bind, BindNakReason, ContextResult, FRAGMENT_BYTES_MAX, FaultStatus, Header, PduFlags, PduKind, Request,
    decode_fault,
};
use wire::rpc::server::{Closed, Conversation, Refused, Taken};
use wire::rpc::srvsvc::{
    Call, ListedShare, NetStatus, Operation, Server, Share, ShareKind, Srvsvc, Unreadable, decode_listing,
    encode_list_shares, encode_share, encode_shares, encode_time_of_day,
};
use wire::rpc::{Syntax, SyntaxId};

/// NetrShareEnum, level 1, of \\SERVER, as impacket sends it in NDR.
const ENUM_32: &str = "\
    2c4000000900000000000000090000005c005c005300450052005600450052000000abab01000000010000007be500000000\
    000042c2000000000000ffffffffc60b000000000000";
/// The same in NDR64.
const ENUM_64: &str = "\
    a3500000000000000900000000000000000000000000000009000000000000005c005c005300450052005600450052000000\
    abababababab01000000bcbcbcbc01000000bdbdbdbd480800000000000000000000aaaaaaaaffa600000000000000000000\
    00000000ffffffffaaaaaaaacdec00000000000000000000";
/// NetrShareGetInfo, level 502, of the share Data.
const INFO_32: &str = "\
    7f6f00000900000000000000090000005c005c005300450052005600450052000000abab0500000000000000050000004400\
    6100740061000000bfbff6010000";
const INFO_64: &str = "\
    ea5c0000000000000900000000000000000000000000000009000000000000005c005c005300450052005600450052000000\
    abababababab05000000000000000000000000000000050000000000000044006100740061000000bfbff6010000";
/// NetrServerGetInfo, level 101, without a server name.
const SERVER_32: &str = "0000000065000000";
const SERVER_64: &str = "000000000000000065000000";
/// NetrWkstaGetInfo, level 100, with an empty server name.
const WORKSTATION_32: &str = "9fac00000100000000000000010000000000bfbf64000000";
/// A bind to srvsvc with the three contexts that Windows offers: NDR, NDR64 and feature negotiation.
const BIND_3: &str = "\
    05000b0310000000a000000001000000b810b810000000000300000000000100c84f324b7016d30112785a47bf6ee1880300\
    0000045d888aeb1cc9119fe808002b1048600200000001000100c84f324b7016d30112785a47bf6ee1880300000033057171\
    babe37498319b5dbef9ccc360100000002000100c84f324b7016d30112785a47bf6ee188030000002c1cb76c129840450300\
    00000000000001000000";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// What a pipe may hold in these tests: the longest answer and some calls.
const HELD_BYTES_MAX: usize = 1 << 20;

/// A server without accounts.
fn with_shares(shares: Vec<Share>) -> Fake {
    let server = Server { name: "SERVER".into(), comment: "a comment".into(), version_major: 10, ..Server::default() };
    let now = FileTime::from_unix(1_790_000_000, 0);
    Fake { shares, server, now, held_bytes_max: HELD_BYTES_MAX, ..Fake::default() }
}

fn share(name: &str, kind: ShareKind) -> Share {
    let comment = format!("about {name}");
    Share { name: name.into(), kind, comment, path: "C:\\x".into(), max_uses: u32::MAX, ..Share::default() }
}

fn few() -> Fake {
    with_shares(vec![share("Data", ShareKind::DISK_TREE), share("IPC$", ShareKind::IPC_SPECIAL)])
}

fn many() -> Fake {
    with_shares((0..9000).map(|number| share(&format!("share{number}"), ShareKind::DISK_TREE)).collect())
}

fn listed(share: &Share) -> ListedShare {
    ListedShare { name: share.name.clone(), kind: share.kind, comment: share.comment.clone() }
}

fn read(pipe: &mut Conversation) -> Vec<u8> {
    let Taken { bytes, more } = pipe.take(usize::MAX).expect("something to read");
    assert!(!more);
    bytes
}

fn bound_pipe() -> Conversation {
    let mut pipe = Conversation::new("srvsvc");
    pipe.feed(&client::bind(&SyntaxId::SRVSVC), &few()).unwrap();
    assert_eq!(client::bound(&read(&mut pipe)), Ok(FRAGMENT_BYTES_MAX));
    pipe
}

/// Calls and gives the stub of the answer.
fn call(pipe: &mut Conversation, operation: u16, stub: &[u8], service: &Fake) -> Result<Vec<u8>, Failure> {
    for fragment in client::request(7, operation, stub, FRAGMENT_BYTES_MAX) {
        pipe.feed(&fragment, service).unwrap();
    }
    let mut answer = Answer::new(7);
    loop {
        let fragment = read(pipe);
        assert!(fragment.len() <= FRAGMENT_BYTES_MAX);
        if let Some(stub) = answer.fragment(&fragment)? {
            return Ok(stub);
        }
    }
}

fn list(pipe: &mut Conversation, resume: u32, service: &Fake) -> wire::rpc::srvsvc::Listing {
    let mut stub = Vec::new();
    encode_list_shares("\\\\server", resume, Syntax::Ndr32, &mut stub);
    decode_listing(&call(pipe, Operation::SHARE_ENUM.0, &stub, service).unwrap(), Syntax::Ndr32).unwrap()
}

#[test]
fn a_client_lists_shares() {
    let service = few();
    let listing = list(&mut bound_pipe(), 0, &service);
    assert_eq!(listing.shares, service.shares.iter().map(listed).collect::<Vec<_>>());
    assert_eq!((listing.status, listing.resume), (NetStatus::SUCCESS, 0));
}

#[test]
fn a_long_list_comes_in_fragments_and_parts() {
    let service = many();
    let mut pipe = bound_pipe();
    let mut found = Vec::new();
    let mut resume = 0;
    loop {
        let listing = list(&mut pipe, resume, &service);
        found.extend(listing.shares);
        resume = listing.resume;
        if listing.status == NetStatus::SUCCESS {
            break;
        }
        assert_eq!((listing.status, resume as usize), (NetStatus::MORE_DATA, found.len()));
    }
    assert_eq!(found, service.shares.iter().map(listed).collect::<Vec<_>>());
}

#[test]
fn requests_of_other_clients_are_understood() {
    for (enumerate, info, server, syntax) in
        [(ENUM_32, INFO_32, SERVER_32, Syntax::Ndr32), (ENUM_64, INFO_64, SERVER_64, Syntax::Ndr64)]
    {
        let stub = bytes(enumerate);
        let expected = Call::ShareEnum { level: 1, preferred_bytes: u32::MAX, resume: Some(0) };
        assert_eq!(Call::decode(Operation::SHARE_ENUM, &stub, syntax), Ok(expected));
        refuses_truncation(Operation::SHARE_ENUM, &stub, syntax);
        let stub = bytes(info);
        let Ok(Call::ShareInfo { name, level: 502 }) = Call::decode(Operation::SHARE_INFO, &stub, syntax) else {
            panic!("{info}");
        };
        assert_eq!(name.decode().as_deref(), Some("Data"));
        refuses_truncation(Operation::SHARE_INFO, &stub, syntax);
        let stub = bytes(server);
        let expected = Ok(Call::ServerInfo { level: 101 });
        assert_eq!(Call::decode(Operation::SERVER_INFO, &stub, syntax), expected);
        refuses_truncation(Operation::SERVER_INFO, &stub, syntax);
    }
}

#[test]
fn our_own_requests_are_understood_whatever_the_names_length() {
    for syntax in [Syntax::Ndr32, Syntax::Ndr64] {
        for server in ["", "\\\\a", "\\\\ab", "\\\\abc", "\\\\abcd"] {
            let mut stub = Vec::new();
            encode_list_shares(server, 5, syntax, &mut stub);
            let expected = Call::ShareEnum { level: 1, preferred_bytes: u32::MAX, resume: Some(5) };
            assert_eq!(Call::decode(Operation::SHARE_ENUM, &stub, syntax), Ok(expected), "{server} {syntax:?}");
        }
    }
}

fn refuses_truncation(operation: Operation, stub: &[u8], syntax: Syntax) {
    for length in 0..stub.len() {
        let refused = Call::decode(operation, &stub[..length], syntax);
        assert!(matches!(refused, Err(Unreadable::Stub(_))), "{length}: {refused:?}");
    }
}

#[test]
fn stubs_that_lie_are_refused() {
    let good = bytes(ENUM_32);
    for (at, value, expected) in [
        (4, 8, FaultStatus::BAD_STUB_DATA),
        (8, 1, FaultStatus::BAD_STUB_DATA),
        (12, u32::MAX, FaultStatus::BAD_STUB_DATA),
        (36, 2, FaultStatus::INVALID_TAG),
        (40, 4, FaultStatus::INVALID_TAG),
        (48, 1, FaultStatus::BAD_STUB_DATA),
        (56, 1, FaultStatus::BAD_STUB_DATA),
    ] {
        let mut stub = good.clone();
        stub[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        let failure = call(&mut bound_pipe(), Operation::SHARE_ENUM.0, &stub, &few());
        assert_eq!(failure, Err(Failure::Fault(expected)), "{at}");
    }
    let mut both = good.clone();
    both[36..40].copy_from_slice(&1004u32.to_le_bytes());
    both[40..44].copy_from_slice(&1004u32.to_le_bytes());
    let failure = call(&mut bound_pipe(), Operation::SHARE_ENUM.0, &both, &few());
    assert_eq!(failure, Err(Failure::Fault(FaultStatus::INVALID_TAG)));
}

/// The answer to [`ENUM_32`] for two shares, byte for byte.
#[test]
fn a_share_list_has_its_known_bytes() {
    let shares = with_shares(vec![
        Share { comment: String::new(), ..share("a", ShareKind::DISK_TREE) },
        Share { comment: "c".into(), ..share("IPC$", ShareKind::IPC_SPECIAL) },
    ]);
    let mut stub = Vec::new();
    encode_shares(&shares, 1, u32::MAX, Some(0), Syntax::Ndr32, &mut stub);
    let expected = "01000000 01000000 00000200 02000000 04000200 02000000 \
        08000200 00000000 0c000200 10000200 03000080 14000200 \
        02000000 00000000 02000000 61000000 01000000 00000000 01000000 00000000 \
        05000000 00000000 05000000 49005000 43002400 00000000 02000000 00000000 02000000 63000000 \
        02000000 18000200 00000000 00000000";
    assert_eq!(stub, bytes(expected));
}

#[test]
fn every_level_is_answered_and_others_are_not() {
    for syntax in [Syntax::Ndr32, Syntax::Ndr64] {
        for (level, status) in [0, 1, 2, 501, 502].map(|level| (level, 0)).into_iter().chain([(503, 124)]) {
            let mut stub = Vec::new();
            encode_shares(&few(), level, u32::MAX, None, syntax, &mut stub);
            assert_eq!(stub[stub.len() - 4..], u32::to_le_bytes(status), "{level}");
        }
        for (level, status) in [0, 1, 2, 501, 502, 1005].map(|level| (level, 0)).into_iter().chain([(7, 124)]) {
            let mut stub = Vec::new();
            encode_share(few().share("DATA").as_ref(), level, syntax, &mut stub);
            assert_eq!(stub[stub.len() - 4..], u32::to_le_bytes(status), "{level}");
        }
        let mut stub = Vec::new();
        encode_share(few().share("missing").as_ref(), 1, syntax, &mut stub);
        assert_eq!(stub[stub.len() - 4..], 2310u32.to_le_bytes());
    }
}

#[test]
fn a_small_preferred_length_gives_one_share_at_a_time() {
    let mut stub = Vec::new();
    encode_shares(&few(), 1, 1, Some(0), Syntax::Ndr32, &mut stub);
    let listing = decode_listing(&stub, Syntax::Ndr32).unwrap();
    assert_eq!((listing.shares.len(), listing.resume, listing.status), (1, 1, NetStatus::MORE_DATA));
    let mut stub = Vec::new();
    encode_shares(&few(), 1, u32::MAX, Some(u32::MAX), Syntax::Ndr32, &mut stub);
    assert_eq!(decode_listing(&stub, Syntax::Ndr32).unwrap().shares, []);
}

#[test]
fn listings_that_lie_are_refused() {
    for syntax in [Syntax::Ndr32, Syntax::Ndr64] {
        let mut stub = Vec::new();
        encode_shares(&few(), 1, u32::MAX, Some(0), syntax, &mut stub);
        for length in 0..stub.len() {
            assert!(decode_listing(&stub[..length], syntax).is_err(), "{length}");
        }
    }
    let mut stub = Vec::new();
    encode_shares(&few(), 1, u32::MAX, Some(0), Syntax::Ndr32, &mut stub);
    stub[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
    stub[20..24].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(decode_listing(&stub, Syntax::Ndr32).is_err());
}

#[test]
fn windows_binds_and_speaks_ndr() {
    let mut pipe = Conversation::new("srvsvc");
    pipe.feed(&bytes(BIND_3), &few()).unwrap();
    let answer = read(&mut pipe);
    assert_eq!(Header::decode(&answer).unwrap().kind, PduKind::BIND_ACK);
    assert_eq!(answer[24..40], *b"\x0d\0\\PIPE\\srvsvc\0\0");
    let results = &answer[40..];
    assert_eq!(results[0], 3);
    let result = |index: usize| u16::from_le_bytes([results[4 + 24 * index], results[5 + 24 * index]]);
    assert_eq!(ContextResult(result(0)), ContextResult::ACCEPTANCE);
    assert_eq!(ContextResult(result(1)), ContextResult::PROVIDER_REJECTION);
    assert_eq!(ContextResult(result(2)), ContextResult::NEGOTIATE_ACK);
    assert_eq!(results[8..24], SyntaxId::NDR32.uuid.0);
    assert_eq!(answer.len(), 40 + 4 + 3 * 24);
}

#[test]
fn a_client_without_ndr_speaks_ndr64() {
    let mut bind = bytes(BIND_3);
    // Leave context 1 only.
    bind.drain(72 + 44..);
    bind.drain(28..72);
    bind[8] = bind.len() as u8;
    bind[24] = 1;
    let mut pipe = Conversation::new("srvsvc");
    pipe.feed(&bind, &few()).unwrap();
    assert_eq!(read(&mut pipe)[48..64], SyntaxId::NDR64.uuid.0);
    let stub = bytes(ENUM_64);
    let mut out = Vec::new();
    let flags = PduFlags::FIRST | PduFlags::LAST;
    Request { context: 1, operation: 15, stub: &stub }.encode(2, flags, stub.len(), &mut out);
    pipe.feed(&out, &few()).unwrap();
    let answer = Answer::new(2).fragment(&read(&mut pipe)).unwrap().unwrap();
    assert_eq!(decode_listing(&answer, Syntax::Ndr64).unwrap().shares.len(), 2);
}

#[test]
fn the_workstation_service_tells_the_servers_name() {
    let mut pipe = Conversation::new("wkssvc");
    pipe.feed(&client::bind(&SyntaxId::WKSSVC), &few()).unwrap();
    client::bound(&read(&mut pipe)).unwrap();
    let stub = call(&mut pipe, 0, &bytes(WORKSTATION_32), &few()).unwrap();
    assert_eq!(stub[..12], [100, 0, 0, 0, 0, 0, 2, 0, 0xF4, 1, 0, 0]);
    assert_eq!(call(&mut pipe, 1, &[], &few()), Err(Failure::Fault(FaultStatus::OP_RANGE_ERROR)));
}

#[test]
fn bytes_may_come_one_by_one_or_all_at_once() {
    let mut stream = client::bind(&SyntaxId::SRVSVC);
    for fragment in client::request(3, 15, &bytes(ENUM_32), FRAGMENT_BYTES_MAX) {
        stream.extend(fragment);
    }
    let mut whole = Conversation::new("srvsvc");
    whole.feed(&stream, &few()).unwrap();
    let mut single = Conversation::new("srvsvc");
    stream.iter().for_each(|byte| single.feed(&[*byte], &few()).unwrap());
    for _ in 0..2 {
        assert_eq!(read(&mut whole), read(&mut single));
        whole.proceed(&few()).unwrap();
        single.proceed(&few()).unwrap();
    }
    assert_eq!((whole.take(9), single.readable_bytes()), (None, 0));
}

#[test]
fn a_message_can_be_read_in_parts() {
    let mut pipe = Conversation::new("srvsvc");
    pipe.feed(&client::bind(&SyntaxId::SRVSVC), &few()).unwrap();
    let length = pipe.readable_bytes();
    let first = pipe.take(16).unwrap();
    assert_eq!((first.bytes.len(), first.more), (16, true));
    let rest = pipe.take(4096).unwrap();
    assert_eq!((rest.bytes.len(), rest.more), (length - 16, false));
    assert_eq!(pipe.take(4096), None);
}

#[test]
fn a_request_may_come_in_fragments() {
    let mut pipe = bound_pipe();
    let stub = bytes(ENUM_32);
    let (one, two) = stub.split_at(24);
    for (part, flags) in [(one, PduFlags::FIRST), (two, PduFlags::LAST)] {
        let mut out = Vec::new();
        Request { context: 0, operation: 15, stub: part }.encode(9, flags, part.len(), &mut out);
        pipe.feed(&out, &few()).unwrap();
    }
    assert!(Answer::new(9).fragment(&read(&mut pipe)).unwrap().is_some());
}

fn request(context: u16, call: u32, flags: PduFlags, stub: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    Request { context, operation: 15, stub }.encode(call, flags, stub.len(), &mut out);
    out
}

#[test]
fn unknown_operations_and_contexts_are_faults() {
    let mut pipe = bound_pipe();
    assert_eq!(call(&mut pipe, 8, &[], &few()), Err(Failure::Fault(FaultStatus::OP_RANGE_ERROR)));
    pipe.feed(&request(5, 1, PduFlags::FIRST | PduFlags::LAST, &[]), &few()).unwrap();
    let fault = read(&mut pipe);
    assert_eq!(decode_fault(&fault[16..]), Ok(FaultStatus::UNKNOWN_INTERFACE));
    assert_eq!(FaultStatus::OP_RANGE_ERROR.0, 0x1C01_0002);
}

#[test]
fn binds_that_cannot_be_are_refused() {
    let good = client::bind(&SyntaxId::SRVSVC);
    for (at, value, reason) in [
        (10, 4, BindNakReason::AUTHENTICATION_TYPE_NOT_RECOGNIZED),
        (19, 0, BindNakReason::NOT_SPECIFIED),
        (24, 2, BindNakReason::NOT_SPECIFIED),
        (30, 2, BindNakReason::NOT_SPECIFIED),
    ] {
        let mut bind = good.clone();
        bind[at] = value;
        let mut pipe = Conversation::new("srvsvc");
        pipe.feed(&bind, &few()).unwrap();
        let answer = read(&mut pipe);
        assert_eq!(Header::decode(&answer).unwrap().kind, PduKind::BIND_NAK, "{at}");
        assert_eq!(answer[16..18], reason.0.to_le_bytes(), "{at}");
    }
    let mut other = good;
    other[32] ^= 1;
    let mut pipe = Conversation::new("srvsvc");
    pipe.feed(&other, &few()).unwrap();
    assert_eq!(client::bound(&read(&mut pipe)), Err(Failure::Rejected));
}

#[test]
fn peers_that_break_the_protocol_lose_the_pipe() {
    let first = PduFlags::FIRST;
    let mut pipe = Conversation::new("srvsvc");
    assert!(pipe.feed(&request(0, 1, first, &[]), &few()).is_err());
    assert!(bound_pipe().feed(&client::bind(&SyntaxId::SRVSVC), &few()).is_err());
    assert!(bound_pipe().feed(&request(0, 1, PduFlags::NONE, &[]), &few()).is_err());
    let mut pipe = bound_pipe();
    pipe.feed(&request(0, 1, first, &[]), &few()).unwrap();
    assert!(pipe.feed(&request(0, 2, PduFlags::LAST, &[]), &few()).is_err());
    for (at, value) in [(0, 4), (1, 2), (2, 2), (4, 0), (8, 15), (9, 0x40)] {
        let mut hostile = request(0, 1, first | PduFlags::LAST, &bytes(ENUM_32));
        hostile[at] = value;
        let lost = bound_pipe().feed(&hostile, &few());
        // A fragment length of 15 is shorter than the header.
        assert!(lost.is_err(), "byte {at} = {value}: {lost:?}");
    }
}

#[test]
fn a_request_that_never_ends_is_cut_off() {
    let mut pipe = bound_pipe();
    pipe.feed(&request(0, 1, PduFlags::FIRST, &[0; 4096]), &few()).unwrap();
    let middle = request(0, 1, PduFlags::NONE, &[0; 4096]);
    assert_eq!(
        (0..99).find_map(|_| pipe.feed(&middle, &few()).err()),
        Some(Refused::Closed(Closed("request is too long")))
    );
}

/// A call that is answered with a fault, and one that lists many shares.
fn wrong_and_enumerate() -> [Vec<u8>; 2] {
    let whole = PduFlags::FIRST | PduFlags::LAST;
    [request(9, 1, whole, &[]), request(0, 2, whole, &bytes(ENUM_32))]
}

#[test]
fn a_call_waits_until_the_answer_before_it_was_read() {
    let [wrong, enumerate] = wrong_and_enumerate();
    let mut pipe = bound_pipe();
    pipe.feed(&[&*wrong, &*wrong, &*enumerate].concat(), &few()).unwrap();
    for _ in 0..2 {
        assert_eq!(pipe.readable_messages(), 1);
        assert_eq!(Header::decode(&read(&mut pipe)).unwrap().kind, PduKind::FAULT);
        pipe.proceed(&few()).unwrap();
        pipe.proceed(&few()).unwrap();
    }
    assert!(Answer::new(2).fragment(&read(&mut pipe)).unwrap().is_some());
    pipe.proceed(&few()).unwrap();
    assert_eq!((pipe.readable_messages(), pipe.held_bytes()), (0, 0));
}

#[test]
fn what_is_not_read_holds_one_answer_and_some_calls() {
    let service = many();
    for call in wrong_and_enumerate() {
        let mut pipe = bound_pipe();
        let full = (0..1_000_000).find_map(|_| pipe.feed(&call, &service).err());
        assert_eq!(full, Some(Refused::Full));
        assert!(pipe.held_bytes() < HELD_BYTES_MAX, "{}", pipe.held_bytes());
        while pipe.take(usize::MAX).is_some() {
            pipe.proceed(&few()).unwrap();
        }
        assert_eq!(pipe.held_bytes(), 0);
    }
}

#[test]
fn what_there_is_no_room_for_is_refused_and_changes_nothing() {
    let poor = |held_bytes_max, server: Fake| Fake { held_bytes_max, ..server };
    let [_, enumerate] = wrong_and_enumerate();
    let mut pipe = bound_pipe();
    assert_eq!(pipe.feed(&enumerate, &poor(100, many())), Err(Refused::NoRoom));
    assert_eq!((pipe.held_bytes(), pipe.readable_messages()), (0, 0));
    pipe.feed(&enumerate, &poor(1000, many())).unwrap();
    assert_eq!(decode_fault(&read(&mut pipe)[16..]), Ok(FaultStatus::REMOTE_NO_MEMORY));
    pipe.feed(&enumerate, &poor(1000, few())).unwrap();
    assert!(Answer::new(2).fragment(&read(&mut pipe)).unwrap().is_some());
}

#[test]
fn shares_that_are_not_told_are_not_made() {
    for (preferred, resume, made) in [(1, 0, 2), (u32::MAX, 999, 1), (u32::MAX, u32::MAX, 0)] {
        let counted = with_shares(vec![share("a", ShareKind::DISK_TREE); 1000]);
        encode_shares(&counted, 1, preferred, Some(resume), Syntax::Ndr32, &mut Vec::new());
        assert_eq!(counted.shares_told.get(), made, "{preferred} {resume}");
    }
}

#[test]
fn the_time_of_day_is_a_date_in_utc() {
    let told = |now: FileTime| {
        let mut stub = Vec::new();
        encode_time_of_day(now, Syntax::Ndr32, &mut stub);
        let (numbers, _) = stub.as_chunks();
        numbers[1..13].iter().map(|bytes| u32::from_le_bytes(*bytes)).collect::<Vec<_>>()
    };
    let milliseconds = 1_795_219_199_230_u64 as u32;
    assert_eq!(
        told(FileTime::from_unix(1_795_219_199, 230_000_000)),
        [1_795_219_199, milliseconds, 23, 59, 59, 23, 0, 310, 20, 11, 2026, 5]
    );
    assert_eq!(told(FileTime::from_unix(951_782_400, 0))[8..], [29, 2, 2000, 2], "a leap day");
    assert_eq!(told(FileTime(0))[8..], [1, 1, 1601, 1]);
    assert_eq!(told(FileTime(u64::MAX))[8..], [1, 1, 1970, 4]);
}

#[test]
fn an_orphaned_request_is_forgotten() {
    let mut pipe = bound_pipe();
    pipe.feed(&request(0, 1, PduFlags::FIRST, &[0; 8]), &few()).unwrap();
    let mut orphaned = request(0, 1, PduFlags::FIRST | PduFlags::LAST, &[]);
    orphaned[2] = PduKind::ORPHANED.0;
    pipe.feed(&orphaned, &few()).unwrap();
    pipe.feed(&request(0, 2, PduFlags::FIRST | PduFlags::LAST, &bytes(ENUM_32)), &few()).unwrap();
    assert!(Answer::new(2).fragment(&read(&mut pipe)).unwrap().is_some());
}

#[test]
fn binds_refuse_truncation() {
    let bind = bytes(BIND_3);
    let body = &bind[16..];
    assert_eq!(Bind::decode(body).unwrap().contexts().count(), 3);
    (0..body.len()).for_each(|length| assert!(Bind::decode(&body[..length]).is_err(), "{length}"));
}

proptest! {
    #[test]
    fn any_bytes_after_a_bind_are_borne(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = bound_pipe().feed(&bytes, &few());
    }

    #[test]
    fn any_stub_is_answered(operation in 0u16..60, stub in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = call(&mut bound_pipe(), operation, &stub, &few());
    }
}
