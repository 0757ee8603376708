//! Who is told which names, and what is in use, over the pipes of `IPC$`.

use std::sync::Arc;

use tokio::task::LocalSet;
use wire::codec;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::ReadResponse;
use wire::ids::{Command, FileId};
use wire::rpc::client::{Answer as RpcAnswer, Failure, bind, request};
use wire::rpc::lsarpc::Operation;
use wire::rpc::pdu::{BindAck, FRAGMENT_BYTES_MAX, FaultStatus, HEADER_BYTES};
use wire::rpc::{SyntaxId, srvsvc};
use wire::security::Sid;
use wire::status::Status;

use crate::admin::Admin;
use crate::state::configuration::{PrincipalKind, Signing};
use crate::state::shared::Shared;
use crate::tests::testing::{OTHER_USER, Peer, THIRD_USER, Terms, USER, server};

/// A server with two storage accounts: the first two users are of one, of which the second holds the key, and the third is of the other.
fn two_accounts() -> Arc<Shared> {
    let server = server(Signing::Enabled);
    let mut configuration = (**server.configuration.load()).clone();
    configuration.principals[1].kind = PrincipalKind::Account;
    configuration.principals[2].account = "elsewhere".into();
    server.replace(configuration);
    server
}

async fn sign_in(server: &Arc<Shared>, user: &'static str) -> Peer {
    let mut peer = Peer::connect_as(server, Terms { user, peer: "192.0.2.7:50000", ..Terms::default() });
    peer.negotiate().await;
    peer.set_up_session().await;
    assert_eq!(peer.connect("IPC$").await, Status::SUCCESS);
    peer
}

/// A pipe that is bound to `interface` in an association group, zero for a new one; and the group that it is in.
async fn open_pipe(peer: &mut Peer, interface: &SyntaxId, group: u32) -> (FileId, u32) {
    let pipe = peer.open("lsarpc").await;
    let mut message = bind(interface);
    message[20..24].copy_from_slice(&group.to_le_bytes());
    assert_eq!(peer.write(pipe, 0, &message).await, Status::SUCCESS);
    let answer = read(peer, pipe).await;
    (pipe, BindAck::decode(&answer[HEADER_BYTES..]).unwrap().0.group)
}

async fn read(peer: &mut Peer, pipe: FileId) -> Vec<u8> {
    let answer = peer.read(pipe, 0, 8192).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    ReadResponse::decode(&answer.message).unwrap().data.to_vec()
}

async fn call(peer: &mut Peer, pipe: FileId, operation: u16, stub: &[u8]) -> Result<Vec<u8>, Failure> {
    for fragment in request(1, operation, stub, FRAGMENT_BYTES_MAX) {
        assert_eq!(peer.write(pipe, 0, &fragment).await, Status::SUCCESS);
    }
    let mut answer = RpcAnswer::new(1);
    loop {
        if let Some(stub) = answer.fragment(&read(peer, pipe).await)? {
            return Ok(stub);
        }
    }
}

fn longs(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The 32-bit number that ends so many bytes before the end.
fn from_end(answer: &[u8], bytes: usize) -> u32 {
    u32::from_le_bytes(answer[answer.len() - bytes..][..4].try_into().unwrap())
}

/// LsarOpenPolicy2 for all that may be had.
async fn open_policy(peer: &mut Peer, pipe: FileId) -> Vec<u8> {
    let stub = longs(&[0, 0, 0, 0, 0, 0, 0, 0x0200_0000]);
    let answer = call(peer, pipe, Operation::OPEN_POLICY2.0, &stub).await.unwrap();
    assert_eq!(from_end(&answer, 4), Status::SUCCESS.0);
    answer[..20].to_vec()
}

/// LsarLookupSids of the machine's principals.
fn lookup(policy: &[u8], relative_ids: &[u32]) -> Vec<u8> {
    let count = relative_ids.len() as u32;
    let mut stub = [policy, &longs(&[count, 1, count])].concat();
    relative_ids.iter().for_each(|_| stub.extend(longs(&[1])));
    for id in relative_ids {
        let sid = Sid::new(5, &[21, 1, 2, 3, *id]).unwrap();
        stub.extend(longs(&[5]));
        sid.encode(&mut stub);
    }
    stub.extend(longs(&[0, 0, 1, 0]));
    stub
}

fn tells(answer: &[u8], text: &str) -> bool {
    let encoded = codec::utf16_bytes(text);
    answer.windows(encoded.len()).any(|window| window == encoded)
}

#[tokio::test]
async fn principals_of_an_account_know_each_other_and_nobody_else() {
    let server = two_accounts();
    for (user, known, unknown) in [
        (USER, &[USER, OTHER_USER][..], &[THIRD_USER][..]),
        (OTHER_USER, &[USER, OTHER_USER], &[THIRD_USER]),
        (THIRD_USER, &[THIRD_USER], &[USER, OTHER_USER]),
    ] {
        let mut peer = sign_in(&server, user).await;
        let (pipe, _) = open_pipe(&mut peer, &SyntaxId::LSARPC, 0).await;
        let policy = open_policy(&mut peer, pipe).await;
        let stub = lookup(&policy, &[1001, 1002, 1003]);
        let answer = call(&mut peer, pipe, Operation::LOOKUP_SIDS.0, &stub).await.unwrap();
        assert_eq!((from_end(&answer, 8), from_end(&answer, 4)), (known.len() as u32, Status::SOME_NOT_MAPPED.0));
        assert!(known.iter().all(|name| tells(&answer, name)), "{user}");
        assert!(!unknown.iter().any(|name| tells(&answer, name)), "{user}");
        let answer = call(&mut peer, pipe, Operation::GET_USER_NAME.0, &longs(&[0, 0, 0])).await.unwrap();
        assert!(tells(&answer, user));
    }
}

#[tokio::test]
async fn names_are_those_of_the_configuration_that_is_served() {
    let server = two_accounts();
    let mut peer = sign_in(&server, USER).await;
    let (pipe, _) = open_pipe(&mut peer, &SyntaxId::LSARPC, 0).await;
    let policy = open_policy(&mut peer, pipe).await;
    let mut configuration = (**server.configuration.load()).clone();
    configuration.principals[1].name = "renamed".into();
    server.replace(configuration);
    let answer = call(&mut peer, pipe, Operation::LOOKUP_SIDS.0, &lookup(&policy, &[1002])).await.unwrap();
    assert!(tells(&answer, "renamed"));
}

#[tokio::test]
async fn pipes_of_an_association_share_handles_and_others_do_not() {
    let server = two_accounts();
    let mut peer = sign_in(&server, USER).await;
    let before = server.budgets.of_all().used();
    let (first, group) = open_pipe(&mut peer, &SyntaxId::LSARPC, 0).await;
    let policy = open_policy(&mut peer, first).await;
    let (second, same) = open_pipe(&mut peer, &SyntaxId::LSARPC, group).await;
    let (third, other) = open_pipe(&mut peer, &SyntaxId::LSARPC, 0).await;
    assert!(same == group && other != group);
    let stub = lookup(&policy, &[1001]);
    let none = Err(Failure::Fault(FaultStatus::CONTEXT_MISMATCH));
    assert!(call(&mut peer, second, Operation::LOOKUP_SIDS.0, &stub).await.is_ok());
    assert_eq!(call(&mut peer, third, Operation::LOOKUP_SIDS.0, &stub).await, none);
    peer.close(first).await;
    assert!(call(&mut peer, second, Operation::LOOKUP_SIDS.0, &stub).await.is_ok());
    // Another client of the same group has an association of its own.
    let mut stranger = sign_in(&server, USER).await;
    let (pipe, _) = open_pipe(&mut stranger, &SyntaxId::LSARPC, group).await;
    assert_eq!(call(&mut stranger, pipe, Operation::LOOKUP_SIDS.0, &stub).await, none);
    stranger.close(pipe).await;
    for pipe in [second, third] {
        peer.close(pipe).await;
    }
    let (again, _) = open_pipe(&mut peer, &SyntaxId::LSARPC, group).await;
    assert_eq!(call(&mut peer, again, Operation::LOOKUP_SIDS.0, &stub).await, none);
    peer.close(again).await;
    stranger.disconnect();
    assert!(server.budgets.of_all().used() <= before + 64 * 1024, "pipes that are closed hold nothing");
}

#[tokio::test]
async fn handles_are_charged_to_their_association_and_not_to_the_pipes() {
    let server = two_accounts();
    let mut peer = sign_in(&server, USER).await;
    let bytes = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets.lasting);
    let (opener, group) = open_pipe(&mut peer, &SyntaxId::LSARPC, 0).await;
    let (other, _) = open_pipe(&mut peer, &SyntaxId::LSARPC, group).await;
    let idle = bytes.used();
    let mut policies = Vec::new();
    for _ in 0..200 {
        policies.push(open_policy(&mut peer, opener).await);
    }
    let held = bytes.used() - idle;
    assert!(held >= 200 * 24, "{held}");
    // The other pipe sees them, and pays nothing for that.
    let stub = lookup(&policies[0], &[1001]);
    assert!(call(&mut peer, other, Operation::LOOKUP_SIDS.0, &stub).await.is_ok());
    assert_eq!(bytes.used() - idle, held);
    for policy in &policies {
        call(&mut peer, opener, Operation::CLOSE.0, policy).await.unwrap();
    }
    assert_eq!(bytes.used(), idle);
    let policy = open_policy(&mut peer, opener).await;
    let one = bytes.used() - idle;
    peer.close(opener).await;
    assert!(call(&mut peer, other, Operation::LOOKUP_SIDS.0, &lookup(&policy, &[1001])).await.is_ok());
    peer.close(other).await;
    assert!(one > 0 && bytes.used() < idle);
}

/// NetrSessionEnum or NetrFileEnum of everything, with a resume handle.
fn everything(level: u32) -> Vec<u8> {
    longs(&[0, 0, 0, level, level, 1, 0, 0, u32::MAX, 1, 0])
}

#[tokio::test]
async fn who_holds_a_key_sees_what_its_account_has_in_use_and_nothing_of_others() {
    let server = two_accounts();
    let mut user = Peer::sign_in(&server).await;
    let file = user.open("report").await;
    let elements =
        [LockElement { offset: 0, length: 9, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY }];
    let lock = LockRequest { file_id: file, locks: LockElements::new(&elements), ..LockRequest::default() };
    assert_eq!(user.ask(Command::LOCK, |body| lock.encode(body)).await.status(), Status::SUCCESS);
    let _elsewhere = sign_in(&server, THIRD_USER).await;

    let mut keeper = sign_in(&server, OTHER_USER).await;
    let (pipe, _) = open_pipe(&mut keeper, &SyntaxId::SRVSVC, 0).await;
    let answer = call(&mut keeper, pipe, srvsvc::Operation::SESSION_ENUM.0, &everything(502)).await.unwrap();
    assert_eq!((from_end(&answer, 16), from_end(&answer, 4)), (2, 0));
    assert!(tells(&answer, USER) && tells(&answer, OTHER_USER) && !tells(&answer, THIRD_USER));
    assert!(tells(&answer, "192.0.2.7") && !tells(&answer, "50000"));
    let answer = call(&mut keeper, pipe, srvsvc::Operation::FILE_ENUM.0, &everything(3)).await.unwrap();
    assert_eq!((from_end(&answer, 16), from_end(&answer, 4)), (2, 0));
    assert!(tells(&answer, r"ram\report") && tells(&answer, r"\PIPE\lsarpc"));
    let of_file = longs(&[7, 1]);
    assert!(answer.windows(8).any(|window| window == of_file), "what may be done, and one lock");

    for peer in [USER, THIRD_USER] {
        let mut peer = sign_in(&server, peer).await;
        let (pipe, _) = open_pipe(&mut peer, &SyntaxId::SRVSVC, 0).await;
        for (operation, level) in [(srvsvc::Operation::SESSION_ENUM, 10), (srvsvc::Operation::FILE_ENUM, 3)] {
            let answer = call(&mut peer, pipe, operation.0, &everything(level)).await.unwrap();
            assert_eq!((from_end(&answer, 16), from_end(&answer, 4)), (0, srvsvc::NetStatus::ACCESS_DENIED.0));
        }
    }
}

#[tokio::test]
async fn what_is_open_is_told_from_any_place() {
    // Who has done much stands in line.
    LocalSet::new().run_until(all_is_told_from_any_place()).await;
}

async fn all_is_told_from_any_place() {
    let server = two_accounts();
    let mut user = Peer::sign_in(&server).await;
    for number in 0..600 {
        user.open(&format!("file{number}")).await;
    }
    let mut keeper = sign_in(&server, OTHER_USER).await;
    let (pipe, _) = open_pipe(&mut keeper, &SyntaxId::SRVSVC, 0).await;
    let (mut resume, mut told) = (0, Vec::new());
    loop {
        let stub = longs(&[0, 0, 0, 2, 2, 1, 0, 0, 0x4000, 1, resume]);
        let answer = call(&mut keeper, pipe, srvsvc::Operation::FILE_ENUM.0, &stub).await.unwrap();
        let count = u32::from_le_bytes(answer[12..16].try_into().unwrap()) as usize;
        told.extend(answer[24..24 + 4 * count].chunks_exact(4).map(<[u8]>::to_vec));
        resume = from_end(&answer, 8);
        if from_end(&answer, 4) != srvsvc::NetStatus::MORE_DATA.0 {
            break;
        }
    }
    told.sort();
    told.dedup();
    assert_eq!(told.len(), 601);
    // All at once takes several steps, and goes from session to session.
    let mut another = sign_in(&server, USER).await;
    another.open("samr").await;
    for (from, left) in [(0, 602), (1, 601), (449, 153), (601, 1), (602, 0)] {
        let stub = longs(&[0, 0, 0, 3, 3, 1, 0, 0, u32::MAX, 1, from]);
        let answer = call(&mut keeper, pipe, srvsvc::Operation::FILE_ENUM.0, &stub).await.unwrap();
        let count = u32::from_le_bytes(answer[12..16].try_into().unwrap());
        assert_eq!((count, from_end(&answer, 16), from_end(&answer, 4)), (left, left, 0), "{from}");
    }
}
