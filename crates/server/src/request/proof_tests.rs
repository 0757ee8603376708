//! A message is carried out in the session that it proves, on the channel that granted its message id, and in no other.

mod adversary;

use std::sync::Arc;

use secure::seal::Cipher;
use secure::sign::SigningAlgorithm;
use tokio::task::LocalSet;
use wire::command::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use wire::command::close::CloseRequest;
use wire::command::create::OplockLevel;
use wire::command::echo::EchoRequest;
use wire::command::logoff::LogoffRequest;
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest};
use wire::command::tree_connect::TreeConnectRequest;
use wire::command::write::WriteRequest;
use wire::context::create::{CreateContextsBuilder, name};
use wire::context::lease::{Lease, LeaseState};
use wire::fscc::FileClass;
use wire::header::{Flags, Header, Route};
use wire::ids::{Command, FileId, Guid, MessageId, SessionId, TreeId};
use wire::status::Status;
use wire::{Utf16, codec::utf16_bytes};

use crate::admin::Admin;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{OTHER_USER, Peer, Terms, chained, create, headers, server};

/// Of two users' sessions that share a connection, what the one who speaks is not.
struct Member {
    session_id: SessionId,
    tree_id: TreeId,
    signing_key: Option<secure::sign::SigningKey>,
    keys: Option<secure::kdf::SessionKeys>,
    file: FileId,
}

/// Has another user sign in on the connection of `peer` and gives what was there before.
async fn join(peer: &mut Peer, file: FileId, user: &'static str) -> Member {
    let before = Member {
        session_id: std::mem::replace(&mut peer.session_id, SessionId(0)),
        tree_id: std::mem::replace(&mut peer.tree_id, TreeId(0)),
        signing_key: peer.signing_key.take(),
        keys: peer.keys.take(),
        file,
    };
    peer.terms.user = user;
    peer.set_up_session().await;
    assert_eq!(peer.connect("ram").await, Status::SUCCESS);
    before
}

/// The one who speaks becomes the other one.
fn swap(peer: &mut Peer, other: &mut Member) {
    std::mem::swap(&mut peer.session_id, &mut other.session_id);
    std::mem::swap(&mut peer.tree_id, &mut other.tree_id);
    std::mem::swap(&mut peer.signing_key, &mut other.signing_key);
    std::mem::swap(&mut peer.keys, &mut other.keys);
}

/// A victim with a file that says "mine", and somebody else who has signed in on its connection.
async fn intruded(terms: Terms) -> (Arc<Shared>, Peer, Member) {
    let server = server(Signing::Required);
    let mut peer = Peer::sign_in_as(&server, terms).await;
    let file = peer.open("file").await;
    assert_eq!(peer.write(file, 0, b"mine").await, Status::SUCCESS);
    let victim = join(&mut peer, file, OTHER_USER).await;
    (server, peer, victim)
}

/// The victim's session lives, and its file is what it was, as its user sees it elsewhere.
async fn assert_untouched(server: &Arc<Shared>, victim: &Member) {
    assert!(server.sessions.find(victim.session_id).is_some_and(|session| !session.has_ended()));
    let mut elsewhere = Peer::sign_in(server).await;
    let file_id = elsewhere.open("file").await;
    let answer = elsewhere.read(file_id, 0, 10).await;
    assert_eq!(ReadResponse::decode(&answer.message).unwrap().data, b"mine");
    assert_eq!(elsewhere.try_open("planted").await, Status::OBJECT_NAME_NOT_FOUND);
}

/// What an intruder asks for in the session of another.
const WANTED: [Command; 7] = [
    Command::READ,
    Command::WRITE,
    Command::ECHO,
    Command::LOGOFF,
    Command::CREATE,
    Command::SESSION_SETUP,
    Command::CANCEL,
];

/// The body of one of them.
fn wanted(command: Command, file_id: FileId, body: &mut Vec<u8>) {
    match command {
        Command::READ => ReadRequest { file_id, length: 10, ..ReadRequest::default() }.encode(body),
        Command::WRITE => WriteRequest { file_id, data: b"stolen", ..WriteRequest::default() }.encode(body),
        Command::LOGOFF => LogoffRequest.encode(body),
        Command::CREATE => create(&utf16_bytes("planted")).encode(body),
        Command::SESSION_SETUP => SessionSetupRequest { security_buffer: b"token", ..Default::default() }.encode(body),
        _ => EchoRequest.encode(body),
    }
}

/// A message of the one who speaks that names the session of another.
fn disguised(peer: &mut Peer, victim: &Member, command: Command) -> Vec<u8> {
    let header = peer.header(command);
    let route = Route::Sync { tree_id: victim.tree_id };
    let mut message = Header { session_id: victim.session_id, route, ..header }.to_bytes().to_vec();
    wanted(command, victim.file, &mut message);
    message
}

#[tokio::test]
async fn a_sealed_message_that_names_another_session_ends_the_connection() {
    for command in WANTED {
        for behind_an_echo in [false, true] {
            let (server, mut peer, victim) = intruded(Terms::default()).await;
            let mut parts = Vec::new();
            if behind_an_echo {
                parts.push(peer.message(Command::ECHO, |body| EchoRequest.encode(body)));
            }
            parts.push(disguised(&mut peer, &victim, command));
            let mut frame = peer.sealed(&chained(parts, |_, _| {}));
            assert!(peer.process(&mut frame).is_err(), "{command:?}, behind an echo: {behind_an_echo}");
            assert!(peer.take_frame().is_none(), "{command:?} is not answered");
            assert_untouched(&server, &victim).await;
        }
    }
}

#[tokio::test]
async fn a_sealed_frame_does_not_begin_with_a_related_request() {
    let (server, mut peer, victim) = intruded(Terms::default()).await;
    peer.flags = Flags::RELATED_OPERATIONS;
    let echo = peer.message(Command::ECHO, |body| EchoRequest.encode(body));
    let mut frame = peer.sealed(&echo);
    assert!(peer.process(&mut frame).is_err());
    assert_untouched(&server, &victim).await;
}

#[tokio::test]
async fn bytes_sealed_with_a_slow_cipher_count_for_more_in_a_turn() {
    for (cipher, cost) in [(Cipher::Aes128Gcm, 1), (Cipher::Aes256Ccm, 5), (Cipher::Aes128Ccm, 5)] {
        let server = server(Signing::Enabled);
        let terms = Terms { cipher: Some(cipher), ..Terms::default() };
        let mut peer = Peer::sign_in_as(&server, terms).await;
        let echo = peer.message(Command::ECHO, |body| EchoRequest.encode(body));
        let mut frame = peer.sealed(&echo);
        assert_eq!(peer.connection.byte_cost.get(), 1);
        peer.process(&mut frame).unwrap();
        assert_eq!(peer.connection.byte_cost.get(), cost, "{cipher:?}");
    }
}

#[tokio::test]
async fn operators_are_told_of_a_cipher_once_it_has_sealed_something() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let told = || server.sessions().next().unwrap().cipher;
    assert_eq!(told(), None, "it was agreed on, and is not in use");
    let echo = peer.message(Command::ECHO, |body| EchoRequest.encode(body));
    let mut frame = peer.sealed(&echo);
    peer.process(&mut frame).unwrap();
    assert_eq!(told().as_deref(), Some("AES-128-GCM"));
}

#[tokio::test]
async fn what_is_related_to_a_sealed_request_is_of_its_session_whatever_it_names() {
    let (server, mut peer, victim) = intruded(Terms::default()).await;
    let echo = peer.message(Command::ECHO, |body| EchoRequest.encode(body));
    peer.flags = Flags::RELATED_OPERATIONS;
    let read = disguised(&mut peer, &victim, Command::READ);
    let mut frame = peer.sealed(&chained(vec![echo, read], |_, _| {}));
    peer.process(&mut frame).unwrap();
    let mut answer = peer.take_frame().unwrap();
    let opener = peer.keys.as_ref().unwrap().opener().unwrap();
    let headers = headers(opener.open(&mut answer).unwrap());
    assert!(headers.iter().all(|header| header.session_id == peer.session_id));
    assert_ne!(headers[1].status, Status::SUCCESS, "no tree connect is related");
    assert_untouched(&server, &victim).await;
}

#[tokio::test]
async fn a_signature_of_one_session_does_nothing_in_another() {
    for signing in [SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac] {
        for command in WANTED {
            let (server, mut peer, victim) = intruded(Terms { signing: Some(signing), ..Terms::default() }).await;
            let mut message = disguised(&mut peer, &victim, command);
            peer.sign(&mut message);
            peer.process(&mut message).unwrap();
            match command {
                Command::CANCEL => assert!(peer.take_frame().is_none()),
                _ => assert_eq!(peer.receive().await.status(), Status::ACCESS_DENIED, "{command:?}"),
            }
            assert_untouched(&server, &victim).await;
        }
    }
}

#[tokio::test]
async fn a_request_of_another_connection_is_neither_verified_nor_signed() {
    for signing in [SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac] {
        let server = server(Signing::Required);
        let terms = Terms { signing: Some(signing), ..Terms::default() };
        let mut victim = Peer::sign_in_as(&server, terms).await;
        let file = victim.open("file").await;
        for command in WANTED {
            let mut thief = Peer::connect_as(&server, terms);
            thief.negotiate().await;
            // Its message ids begin anew: what was captured is good for it from the first on.
            victim.message_id = 1;
            let mut captured = victim.message(command, |body| wanted(command, file, body));
            thief.process(&mut captured).unwrap();
            if command == Command::CANCEL {
                assert!(thief.take_frame().is_none());
                continue;
            }
            let answer = thief.receive().await;
            assert_eq!(answer.status(), Status::USER_SESSION_DELETED, "{command:?}");
            assert!(!answer.header.flags.contains(Flags::SIGNED), "{command:?}");
            assert_eq!(answer.message[48..64], [0; 16], "{command:?}");
        }
    }
}

#[tokio::test]
async fn the_leg_of_a_bind_under_gmac_is_answered_under_a_message_id_that_was_never_signed_with_and_once() {
    let server = server(Signing::Required);
    let terms = Terms { signing: Some(SigningAlgorithm::AesGmac), ..Terms::default() };
    let mut victim = Peer::sign_in_as(&server, terms).await;
    let request = SessionSetupRequest { flags: SessionSetupFlags::BINDING, ..SessionSetupRequest::default() };
    let mut is_signed = Vec::new();
    for message_id in [1, 1, 2] {
        let mut thief = Peer::connect_as(&server, terms);
        thief.negotiate().await;
        victim.message_id = message_id;
        let captured = victim.message(Command::SESSION_SETUP, |body| request.encode(body));
        while thief.message_id < message_id {
            thief.ask(Command::ECHO, |body| EchoRequest.encode(body)).await;
        }
        let answer = thief.exchange(captured).await;
        assert_eq!(answer.status(), Status::REQUEST_NOT_ACCEPTED);
        is_signed.push(answer.header.flags.contains(Flags::SIGNED));
    }
    assert_eq!(is_signed, [true, false, false], "the sign-in's last response has message id 2");
}

#[tokio::test]
async fn a_message_id_that_sign_in_left_out_is_signed_once_at_most_under_gmac() {
    let server = server(Signing::Required);
    let terms = Terms { signing: Some(SigningAlgorithm::AesGmac), ..Terms::default() };
    let mut victim = Peer::connect_as(&server, terms);
    victim.negotiate().await;
    victim.message_id = 3;
    victim.set_up_session().await;
    let request = SessionSetupRequest { flags: SessionSetupFlags::BINDING, ..SessionSetupRequest::default() };
    for message_id in [1, 2] {
        let mut thief = Peer::connect_as(&server, terms);
        thief.negotiate().await;
        victim.message_id = message_id;
        let captured = victim.message(Command::SESSION_SETUP, |body| request.encode(body));
        while thief.message_id < message_id {
            thief.ask(Command::ECHO, |body| EchoRequest.encode(body)).await;
        }
        let of_bind = thief.exchange(captured).await;
        // Who can change the traffic sends on the victim's connection what the victim has not sent.
        victim.message_id = message_id;
        let key = victim.signing_key.take();
        let of_channel = victim.ask(Command::ECHO, |body| EchoRequest.encode(body)).await;
        victim.signing_key = key;
        let signed = [of_bind, of_channel].map(|answer| answer.header.flags.contains(Flags::SIGNED));
        assert_eq!(signed, [false, true], "message id {message_id}");
    }
}

#[tokio::test]
async fn an_echo_is_as_protected_as_its_session_wants_it() {
    let (_server, mut peer, victim) = intruded(Terms::default()).await;
    let own = peer.session_id;
    let key = peer.signing_key.take();
    assert_eq!(peer.ask(Command::ECHO, |body| EchoRequest.encode(body)).await.status(), Status::ACCESS_DENIED);
    peer.session_id = victim.session_id;
    assert_eq!(peer.ask(Command::ECHO, |body| EchoRequest.encode(body)).await.status(), Status::ACCESS_DENIED);
    peer.session_id = SessionId(12345);
    assert_eq!(peer.ask(Command::ECHO, |body| EchoRequest.encode(body)).await.status(), Status::USER_SESSION_DELETED);
    peer.session_id = SessionId(0);
    assert_eq!(peer.ask(Command::ECHO, |body| EchoRequest.encode(body)).await.status(), Status::SUCCESS);
    (peer.session_id, peer.signing_key) = (own, key);
    assert_eq!(peer.ask(Command::ECHO, |body| EchoRequest.encode(body)).await.status(), Status::SUCCESS);
}

#[tokio::test]
async fn a_session_cancels_its_own_requests_only() {
    LocalSet::new().run_until(cancel_what_waits()).await;
}

async fn cancel_what_waits() {
    let server = server(Signing::Required);
    let mut peer = Peer::sign_in(&server).await;
    let directory = peer.open_directory("").await;
    let watch = ChangeNotifyRequest {
        flags: ChangeNotifyFlags(0),
        output_buffer_length: 1_000,
        file_id: directory,
        completion_filter: CompletionFilter::FILE_NAME,
    };
    let target = peer.message_id;
    let mut message = peer.message(Command::CHANGE_NOTIFY, |body| watch.encode(body));
    peer.process(&mut message).unwrap();
    let interim = peer.receive().await;
    assert_eq!(interim.status(), Status::PENDING);
    let mut victim = join(&mut peer, directory, OTHER_USER).await;
    let next = peer.message_id;
    for route in [interim.header.route, Route::default()] {
        let mut header = peer.header(Command::CANCEL);
        (header.message_id, header.route) = (MessageId(target), route);
        if matches!(route, Route::Async(_)) {
            header.flags |= Flags::ASYNC_COMMAND;
        }
        let mut cancel = header.to_bytes().to_vec();
        EchoRequest.encode(&mut cancel);
        let mut in_a_frame = peer.sealed(&cancel);
        peer.sign(&mut cancel);
        peer.process(&mut cancel).unwrap();
        peer.process(&mut in_a_frame).unwrap();
        tokio::task::yield_now().await;
        assert!(peer.take_frame().is_none(), "it is another session's");
    }
    swap(&mut peer, &mut victim);
    peer.message_id = target;
    let mut cancel = peer.message(Command::CANCEL, |body| EchoRequest.encode(body));
    peer.process(&mut cancel).unwrap();
    assert_eq!(peer.receive().await.status(), Status::CANCELLED);
    peer.message_id = next;
    peer.open("file").await;
}

#[tokio::test]
async fn what_is_related_uses_the_open_of_what_came_before_whatever_it_names() {
    let server = server(Signing::Required);
    let mut peer = Peer::sign_in(&server).await;
    let other = peer.open("other").await;
    let create = peer.create_message("file", &[], |_| ());
    peer.flags = Flags::RELATED_OPERATIONS;
    let close = peer.message(Command::CLOSE, |body| CloseRequest { file_id: other, ..Default::default() }.encode(body));
    peer.flags = Flags::NONE;
    let mut frame = chained(vec![create, close], |_, message| peer.sign(message));
    peer.process(&mut frame).unwrap();
    let answers = headers(&peer.take_frame().unwrap());
    assert_eq!([answers[0].status, answers[1].status], [Status::SUCCESS, Status::SUCCESS]);
    assert_eq!(peer.query(other, FileClass::BASIC, 100).await.status(), Status::SUCCESS, "it was not closed");
    let session = server.sessions.find(peer.session_id).unwrap();
    assert_eq!(session.opens().len(), 1, "what the chain opened was closed");
}

#[tokio::test]
async fn what_is_related_to_no_open_has_none_whatever_it_names() {
    let mut peer = Peer::sign_in(&server(Signing::Required)).await;
    let file = peer.open("file").await;
    let path = utf16_bytes(r"\\test\ram");
    let connect = TreeConnectRequest { path: Utf16::new(&path).unwrap(), ..TreeConnectRequest::default() };
    let connect = peer.message(Command::TREE_CONNECT, |body| connect.encode(body));
    peer.flags = Flags::RELATED_OPERATIONS;
    let close = peer.message(Command::CLOSE, |body| CloseRequest { file_id: file, ..Default::default() }.encode(body));
    peer.flags = Flags::NONE;
    let mut frame = chained(vec![connect, close], |_, message| peer.sign(message));
    peer.process(&mut frame).unwrap();
    let answers = headers(&peer.take_frame().unwrap());
    assert_eq!([answers[0].status, answers[1].status], [Status::SUCCESS, Status::FILE_CLOSED]);
    assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
}

/// The create contexts that ask for a lease on everything.
fn leased(lease_key: Guid) -> Vec<u8> {
    let lease_state = LeaseState::READ_CACHING | LeaseState::WRITE_CACHING | LeaseState::HANDLE_CACHING;
    let lease = Lease { lease_key, lease_state, ..Lease::default() }.to_bytes();
    let mut builder = CreateContextsBuilder::new();
    builder.add(name::LEASE, &lease);
    builder.contexts().as_bytes().to_vec()
}

#[tokio::test]
async fn who_has_a_lease_for_an_open_that_only_looks_gives_it_up() {
    let test = async {
        let server = server(Signing::Required);
        let mut holder = Peer::sign_in(&server).await;
        let lease_key = Guid([7; 16]);
        let contexts = leased(lease_key);
        let opened = holder.create_edited("file", &contexts, |request| {
            request.oplock_level = OplockLevel::LEASE;
            request.desired_access = wire::security::access::READ_ATTRIBUTES.into();
        });
        assert_eq!(opened.await.status(), Status::SUCCESS);
        let mut other = Peer::sign_in_as(&server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
        let mut cause = other.message(Command::CREATE, |body| wanted_file("file", body));
        other.process(&mut cause).unwrap();
        assert_eq!(other.receive().await.status(), Status::PENDING);
        assert_eq!(holder.acknowledge(lease_key, LeaseState::NONE).await, Status::SUCCESS);
        assert_eq!(other.receive().await.status(), Status::SUCCESS);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_lease_break_is_acknowledged_by_who_has_an_open_under_the_lease() {
    LocalSet::new().run_until(acknowledge_for_others()).await;
}

async fn acknowledge_for_others() {
    let server = server(Signing::Required);
    let mut victim = Peer::sign_in(&server).await;
    let lease_key = Guid([7; 16]);
    let contexts = leased(lease_key);
    let opened = victim.create_edited("file", &contexts, |request| request.oplock_level = OplockLevel::LEASE).await;
    assert_eq!(opened.status(), Status::SUCCESS);
    let mut other = Peer::sign_in_as(&server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
    let mut cause = other.message(Command::CREATE, |body| wanted_file("file", body));
    other.process(&mut cause).unwrap();
    assert_eq!(other.receive().await.status(), Status::PENDING);
    // Another user of the same machine, which has one ClientGuid.
    let mut thief = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
    assert_eq!(thief.acknowledge(lease_key, LeaseState::NONE).await, Status::OBJECT_NAME_NOT_FOUND);
    assert!(other.take_frame().is_none(), "it waits for who holds the lease");
    // Nor by way of an open that waits for nothing and names the lease: it has one of its own.
    let look = thief.create_edited("file", &contexts, |request| {
        request.oplock_level = OplockLevel::LEASE;
        request.desired_access = wire::security::access::READ_ATTRIBUTES.into();
    });
    assert_eq!(look.await.status(), Status::SUCCESS);
    let refused = thief.acknowledge(lease_key, LeaseState::NONE).await;
    assert!([Status::OBJECT_NAME_NOT_FOUND, Status::UNSUCCESSFUL].contains(&refused), "{refused}");
    assert!(other.take_frame().is_none(), "it waits for who holds the lease");
    // Another session of the same user and client speaks for it.
    let mut again = Peer::sign_in(&server).await;
    assert_eq!(again.acknowledge(lease_key, LeaseState::NONE).await, Status::SUCCESS);
    assert_eq!(other.receive().await.status(), Status::SUCCESS);
}

fn wanted_file(name: &str, body: &mut Vec<u8>) {
    create(&utf16_bytes(name)).encode(body);
}

/// An ECHO in this session that nobody has signed, as a peer sends it.
async fn unsigned_echo(peer: &mut Peer, session_id: SessionId) -> Status {
    let header = Header { session_id, flags: Flags::NONE, ..peer.header(Command::ECHO) };
    let mut message = header.to_bytes().to_vec();
    EchoRequest.encode(&mut message);
    peer.exchange(message).await.status()
}

#[tokio::test]
async fn what_has_to_be_signed_need_not_be_inside_the_process_and_nobody_else_goes_there() {
    let body = async {
        let server = server(Signing::Required);
        let mut inside = Peer::sign_in_as(&server, Terms { is_inside: true, ..Terms::default() }).await;
        let mut outside = Peer::sign_in(&server).await;
        let (within, own) = (inside.session_id, outside.session_id);
        assert_eq!(unsigned_echo(&mut inside, within).await, Status::SUCCESS);
        assert_eq!(unsigned_echo(&mut outside, own).await, Status::ACCESS_DENIED);
        assert_eq!(unsigned_echo(&mut outside, within).await, Status::USER_SESSION_DELETED);
    };
    LocalSet::new().run_until(body).await;
}
