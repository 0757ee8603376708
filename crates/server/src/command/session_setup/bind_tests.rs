//! Several connections of one session: every row of the table in MS-SMB2 3.3.5.5, and what comes after it.

use std::collections::HashSet;
use std::sync::Arc;

use secure::seal::Cipher;
use secure::sign::{SigningAlgorithm, SigningKey};
use wire::command::echo::EchoRequest;
use wire::command::logoff::LogoffRequest;
use wire::command::negotiate::Capabilities;
use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest};
use wire::fscc::FileClass;
use wire::ids::{Command, Dialect, FileId, Guid, SessionId};
use wire::status::Status;

use crate::admin::Admin;
use crate::state::configuration::{CHANNELS_DEFAULT, Multichannel, Signing};
use crate::state::shared::Shared;
use crate::tests::testing::{OTHER_USER, Peer, Terms, USER, server};

/// A connection that has negotiated `terms`.
async fn negotiated(server: &Arc<Shared>, terms: Terms) -> Peer {
    let mut peer = Peer::connect_as(server, terms);
    peer.negotiate().await;
    peer
}

/// What binding a connection of `second` to a session of `first` gives; the session goes on as it was.
async fn bind_terms(first: Terms, second: Terms) -> Status {
    let server = server(Signing::Enabled);
    let mut first = Peer::sign_in_as(&server, first).await;
    let file = first.open("file").await;
    let mut second = negotiated(&server, second).await;
    let status = second.bind(&first).await;
    if status != Status::SUCCESS {
        assert_unharmed(&server, &mut first, file).await;
    }
    status
}

async fn assert_unharmed(server: &Arc<Shared>, first: &mut Peer, file: FileId) {
    assert_eq!(first.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
    assert_eq!(server.sessions.find(first.session_id).unwrap().channels().len(), 1);
}

fn set_multichannel(server: &Arc<Shared>, multichannel: Multichannel) {
    let mut configuration = (**server.configuration.load()).clone();
    configuration.accounts[0].multichannel = multichannel;
    server.replace(configuration);
}

#[tokio::test]
async fn a_bound_channel_uses_what_another_opened() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::bound(&server, &first).await;
    assert_eq!(second.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
    second.close(file).await;
    assert_eq!(first.query(file, FileClass::BASIC, 100).await.status(), Status::FILE_CLOSED);
    assert_eq!(server.sessions.find(first.session_id).unwrap().channels().len(), 2);
}

#[tokio::test]
async fn each_channel_signs_with_its_own_key() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let mut second = Peer::bound(&server, &first).await;
    std::mem::swap(&mut first.signing_key, &mut second.signing_key);
    for peer in [&mut first, &mut second] {
        let answer = peer.ask(Command::ECHO, |body| EchoRequest.encode(body)).await;
        assert_eq!(answer.status(), Status::ACCESS_DENIED);
    }
}

#[tokio::test]
async fn the_dialect_and_the_cipher_must_be_the_sessions() {
    // Without GMAC, which is refused in its own way.
    let default = Terms { signing: Some(SigningAlgorithm::AesCmac), ..Terms::default() };
    let of = |dialect| Terms { dialect, ..default };
    let (old, v30, v302) = (of(Dialect::SMB_2_1), of(Dialect::SMB_3_0), of(Dialect::SMB_3_0_2));
    assert_eq!(bind_terms(default, v302).await, Status::INVALID_PARAMETER);
    assert_eq!(bind_terms(v30, default).await, Status::INVALID_PARAMETER);
    assert_eq!(bind_terms(old, default).await, Status::INVALID_PARAMETER);
    assert_eq!(bind_terms(default, old).await, Status::REQUEST_NOT_ACCEPTED);
    assert_eq!(bind_terms(old, old).await, Status::REQUEST_NOT_ACCEPTED);
    assert_eq!(bind_terms(v302, v302).await, Status::REQUEST_NOT_ACCEPTED, "only 3.1.1 has several channels");
    let other_cipher = Terms { cipher: Some(Cipher::Aes128Ccm), ..default };
    assert_eq!(bind_terms(default, other_cipher).await, Status::INVALID_PARAMETER);
    assert_eq!(bind_terms(default, Terms { cipher: None, ..default }).await, Status::INVALID_PARAMETER);
}

#[tokio::test]
async fn a_session_that_signs_with_gmac_has_one_channel() {
    let with = |algorithm| Terms { signing: Some(algorithm), ..Terms::default() };
    let algorithms = [SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac, SigningAlgorithm::HmacSha256];
    for first in algorithms {
        for second in algorithms {
            let is_gmac = |algorithm| algorithm == SigningAlgorithm::AesGmac;
            let expected = match (is_gmac(first), is_gmac(second)) {
                (true, false) => Status::REQUEST_OUT_OF_SEQUENCE,
                (false, true) => Status::NOT_SUPPORTED,
                (true, true) => Status::REQUEST_NOT_ACCEPTED,
                (false, false) => Status::SUCCESS,
            };
            assert_eq!(bind_terms(with(first), with(second)).await, expected, "{first:?} {second:?}");
        }
    }
}

#[tokio::test]
async fn another_client_finds_no_session() {
    let other = Terms { client: Guid([8; 16]), ..Terms::default() };
    assert_eq!(bind_terms(Terms::default(), other).await, Status::USER_SESSION_DELETED);
}

#[tokio::test]
async fn another_user_is_not_supported_and_a_wrong_password_is_a_failed_logon() {
    let other = Terms { user: OTHER_USER, ..Terms::default() };
    assert_eq!(bind_terms(Terms::default(), other).await, Status::NOT_SUPPORTED);
    let wrong = Terms { password: "wrong", ..Terms::default() };
    assert_eq!(bind_terms(Terms::default(), wrong).await, Status::LOGON_FAILURE);
}

#[tokio::test]
async fn a_bind_is_signed_by_the_session() {
    let server = server(Signing::Enabled);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut unsigned = negotiated(&server, Terms::default()).await;
    assert_eq!(unsigned.bind_with_key(&first).await, Status::INVALID_PARAMETER);
    let mut wrong = negotiated(&server, Terms::default()).await;
    wrong.signing_key = Some(SigningKey::new(SigningAlgorithm::AesCmac, [1; 16]));
    assert_eq!(wrong.bind_with_key(&first).await, Status::ACCESS_DENIED);
    assert_unharmed(&server, &mut first, file).await;
    assert_eq!(wrong.bind(&first).await, Status::SUCCESS, "what was refused may be tried again");
}

#[tokio::test]
async fn no_session_and_one_that_has_ended_are_not_found() {
    tokio::task::LocalSet::new().run_until(bind_what_is_not_there()).await;
}

async fn bind_what_is_not_there() {
    let server = server(Signing::Enabled);
    let mut first = Peer::sign_in(&server).await;
    let mut second = negotiated(&server, Terms::default()).await;
    let id = std::mem::replace(&mut first.session_id, SessionId(12345));
    assert_eq!(second.bind(&first).await, Status::USER_SESSION_DELETED);
    first.session_id = id;
    assert_eq!(first.ask(Command::LOGOFF, |body| LogoffRequest.encode(body)).await.status(), Status::SUCCESS);
    assert_eq!(second.bind(&first).await, Status::USER_SESSION_DELETED);
}

#[tokio::test]
async fn a_session_that_ends_while_it_is_bound_gets_no_channel() {
    tokio::task::LocalSet::new().run_until(end_in_the_middle_of_a_bind()).await;
}

async fn end_in_the_middle_of_a_bind() {
    for logs_off in [true, false] {
        let server = server(Signing::Enabled);
        let mut first = Peer::sign_in(&server).await;
        let mut second = negotiated(&server, Terms::default()).await;
        let id = first.session_id;
        second.session_id = id;
        second.signing_key = first.keys.as_ref().map(|keys| keys.signing_key(first.terms.signing()));
        let (_, token) = secure::spnego::Initiator::begin();
        let flags = SessionSetupFlags::BINDING;
        let request = SessionSetupRequest { flags, security_buffer: &token, ..SessionSetupRequest::default() };
        let begun = second.ask(Command::SESSION_SETUP, |body| request.encode(body)).await;
        assert_eq!(begun.status(), Status::MORE_PROCESSING_REQUIRED);
        if logs_off {
            let answer = first.ask(Command::LOGOFF, |body| LogoffRequest.encode(body)).await;
            assert_eq!(answer.status(), Status::SUCCESS);
        } else {
            first.disconnect();
        }
        let finished = second.ask(Command::SESSION_SETUP, |body| request.encode(body)).await;
        assert_eq!(finished.status(), Status::USER_SESSION_DELETED);
        assert!(server.sessions.find(id).is_none() && second.connection.channels.borrow().is_empty());
        (second.session_id, second.signing_key) = (SessionId(0), None);
        second.set_up_session().await;
        assert_eq!(second.connection.channels.borrow().len(), 1, "the connection is as good as any other");
    }
}

#[tokio::test]
async fn a_session_in_progress_is_not_accepted() {
    let server = server(Signing::Enabled);
    let mut first = Peer::sign_in(&server).await;
    let mut beginner = negotiated(&server, Terms::default()).await;
    let (_, token) = secure::spnego::Initiator::begin();
    let request = SessionSetupRequest { security_buffer: &token, ..SessionSetupRequest::default() };
    let answer = beginner.ask(Command::SESSION_SETUP, |body| request.encode(body)).await;
    assert_eq!(answer.status(), Status::MORE_PROCESSING_REQUIRED);
    let mut second = negotiated(&server, Terms::default()).await;
    first.session_id = answer.header.session_id;
    assert_eq!(second.bind(&first).await, Status::REQUEST_NOT_ACCEPTED);
    beginner.disconnect();
    assert!(!server.sessions.is_beginning(first.session_id));
    assert_eq!(second.bind(&first).await, Status::USER_SESSION_DELETED);
}

#[tokio::test]
async fn a_session_is_bound_once_to_a_connection() {
    let server = server(Signing::Enabled);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let request = SessionSetupRequest { flags: SessionSetupFlags::BINDING, ..SessionSetupRequest::default() };
    let answer = first.ask(Command::SESSION_SETUP, |body| request.encode(body)).await;
    assert_eq!(answer.status(), Status::REQUEST_NOT_ACCEPTED);
    assert_unharmed(&server, &mut first, file).await;
}

#[tokio::test]
async fn one_channel_too_many_is_refused_and_the_session_goes_on() {
    let server = server(Signing::Enabled);
    let mut first = Peer::sign_in(&server).await;
    let mut others = Vec::new();
    for _ in 1..CHANNELS_DEFAULT {
        others.push(Peer::bound(&server, &first).await);
    }
    let mut last = negotiated(&server, Terms::default()).await;
    assert_eq!(last.bind(&first).await, Status::INSUFFICIENT_RESOURCES);
    first.open("file").await;
    others.pop().unwrap().disconnect();
    assert_eq!(last.bind(&first).await, Status::SUCCESS);
}

#[tokio::test]
async fn an_account_that_has_it_off_has_one_channel() {
    let server = server(Signing::Enabled);
    set_multichannel(&server, Multichannel::Off);
    let first = Peer::sign_in(&server).await;
    assert!(!first.connection.negotiation.borrow().has_multichannel());
    let mut second = negotiated(&server, Terms::default()).await;
    assert_eq!(second.bind(&first).await, Status::REQUEST_NOT_ACCEPTED);
    set_multichannel(&server, Multichannel::On);
    assert_eq!(second.bind(&first).await, Status::SUCCESS);
    let third = negotiated(&server, Terms::default()).await;
    assert!(third.connection.negotiation.borrow().has_multichannel());
    let without = negotiated(&server, Terms { capabilities: Capabilities::NONE, ..Terms::default() }).await;
    assert!(!without.connection.negotiation.borrow().has_multichannel());
    let older = negotiated(&server, Terms { dialect: Dialect::SMB_3_0_2, ..Terms::default() }).await;
    assert!(!older.connection.negotiation.borrow().has_multichannel());
}

#[tokio::test]
async fn switched_off_it_ends_all_channels_but_the_first() {
    let server = server(Signing::Enabled);
    let mut first = Peer::sign_in(&server).await;
    let (second, mut third) = (Peer::bound(&server, &first).await, Peer::bound(&server, &first).await);
    // Another session's only channel is on the third connection.
    let id = std::mem::replace(&mut third.session_id, SessionId(0));
    third.signing_key = None;
    third.set_up_session().await;
    set_multichannel(&server, Multichannel::Off);
    for peer in [&first, &second, &third] {
        peer.connection.flush_notifications();
    }
    assert!(first.connection.takes_requests() && third.connection.takes_requests());
    assert!(!second.connection.takes_requests(), "it ends in order");
    second.disconnect();
    assert!(third.connection.channel(id).is_none());
    assert_eq!(server.sessions.find(id).unwrap().channel_count(), 1);
    first.open("file").await;
    assert_eq!(third.ask(Command::ECHO, |body| EchoRequest.encode(body)).await.status(), Status::SUCCESS);
}

#[tokio::test]
async fn a_session_lives_while_it_has_a_channel_and_no_longer() {
    for order in 0..6usize {
        let server = server(Signing::Required);
        let first = Peer::sign_in(&server).await;
        let mut peers = vec![first];
        peers.push(Peer::bound(&server, &peers[0]).await);
        peers.push(Peer::bound(&server, &peers[0]).await);
        let id = peers[0].session_id;
        let file = peers[0].open("file").await;
        peers.remove(order % 3).disconnect();
        assert_eq!(peers[0].query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
        peers.remove(order / 3).disconnect();
        assert_eq!(peers[0].query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
        peers.remove(0).disconnect();
        assert!(server.sessions.find(id).is_none());
    }
}

#[tokio::test]
async fn a_logoff_on_one_channel_ends_the_session_on_all() {
    tokio::task::LocalSet::new().run_until(log_off_on_one_of_three()).await;
}

async fn log_off_on_one_of_three() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::bound(&server, &first).await;
    let mut third = Peer::bound(&server, &first).await;
    assert_eq!(second.ask(Command::LOGOFF, |body| LogoffRequest.encode(body)).await.status(), Status::SUCCESS);
    for peer in [&mut first, &mut third] {
        assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::USER_SESSION_DELETED);
    }
    // The connection is as good as any other.
    third.signing_key = None;
    third.session_id = SessionId(0);
    third.set_up_session().await;
    assert_eq!(third.connection.channels.borrow().len(), 1);
}

#[tokio::test]
async fn signing_in_again_on_one_channel_leaves_the_keys_of_all() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::bound(&server, &first).await;
    for flags in [SessionSetupFlags::NONE, SessionSetupFlags::NONE] {
        assert_eq!(second.sign_in_again(flags).await, Status::SUCCESS);
    }
    for peer in [&mut first, &mut second] {
        assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
    }
}

#[tokio::test]
async fn signing_in_again_is_signed_and_a_failure_ends_the_session() {
    tokio::task::LocalSet::new().run_until(fail_to_sign_in_again()).await;
}

async fn fail_to_sign_in_again() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = Peer::bound(&server, &first).await;
    let key = second.signing_key.take();
    assert_eq!(second.sign_in_again(SessionSetupFlags::NONE).await, Status::ACCESS_DENIED);
    second.signing_key = key;
    assert_eq!(first.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
    second.terms.password = "wrong";
    assert_eq!(second.sign_in_again(SessionSetupFlags::NONE).await, Status::LOGON_FAILURE);
    assert_eq!(first.query(file, FileClass::BASIC, 100).await.status(), Status::USER_SESSION_DELETED);
}

#[tokio::test]
async fn channels_of_a_session_share_no_nonce() {
    let server = server(Signing::Required);
    let first = Peer::sign_in(&server).await;
    let mut peers = vec![first];
    for _ in 1..CHANNELS_DEFAULT {
        peers.push(Peer::bound(&server, &peers[0]).await);
    }
    let mut seen = HashSet::new();
    for _ in 0..100 {
        for peer in &peers {
            let channel = peer.connection.channel(peer.session_id).unwrap();
            let mut frame = vec![0; 52 + 64];
            assert!(channel.seal(&mut frame));
            assert!(seen.insert(frame[20..36].to_vec()), "a nonce came twice");
        }
    }
}

#[tokio::test]
async fn a_storm_of_bad_binds_leaves_nothing_behind() {
    let server = server(Signing::Enabled);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut attacker = negotiated(&server, Terms { client: Guid([1; 16]), ..Terms::default() }).await;
    for id in 0..2_000 {
        attacker.session_id = SessionId(id + 1);
        let request = SessionSetupRequest { flags: SessionSetupFlags::BINDING, ..SessionSetupRequest::default() };
        let answer = attacker.ask(Command::SESSION_SETUP, |body| request.encode(body)).await;
        assert_ne!(answer.status(), Status::MORE_PROCESSING_REQUIRED);
    }
    assert!(attacker.connection.setups.borrow().is_empty());
    assert_unharmed(&server, &mut first, file).await;
}

#[tokio::test]
async fn every_leg_of_signing_in_again_is_proven() {
    for signing in [Signing::Required, Signing::Enabled] {
        let server = server(signing);
        let mut peer = Peer::sign_in(&server).await;
        let file = peer.open("file").await;
        let (mut initiator, token) = secure::spnego::Initiator::begin();
        let begun = peer.send_token(SessionSetupFlags::NONE, &token).await;
        assert_eq!(begun.status(), Status::MORE_PROCESSING_REQUIRED);
        let token = peer.last_token(&mut initiator, &begun);
        let key = peer.signing_key.take();
        for sent in [&token[..], b"nonsense"] {
            let answer = peer.send_token(SessionSetupFlags::NONE, sent).await;
            assert_eq!(answer.status(), Status::ACCESS_DENIED);
        }
        peer.signing_key = key;
        assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
        assert_eq!(
            peer.send_token(SessionSetupFlags::NONE, &token).await.status(),
            Status::SUCCESS,
            "nothing was lost"
        );
    }
}

#[tokio::test]
async fn another_user_does_not_get_a_session_by_signing_in_again() {
    let server = server(Signing::Required);
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    peer.terms.user = OTHER_USER;
    assert_eq!(peer.sign_in_again(SessionSetupFlags::NONE).await, Status::NOT_SUPPORTED);
    assert_eq!(server.sessions.find(peer.session_id).unwrap().user.load().name, USER);
    assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
}

#[tokio::test]
async fn who_fails_to_sign_in_again_unproven_ends_no_session() {
    tokio::task::LocalSet::new().run_until(fail_unproven()).await;
}

async fn fail_unproven() {
    let server = server(Signing::Required);
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    let key = peer.signing_key.take();
    peer.terms.password = "wrong";
    assert_eq!(peer.sign_in_again(SessionSetupFlags::NONE).await, Status::ACCESS_DENIED);
    peer.signing_key = key;
    assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
}

#[tokio::test]
async fn who_fails_to_sign_in_again_ends_a_session_that_asks_for_no_proof() {
    tokio::task::LocalSet::new().run_until(fail_without_need_of_proof()).await;
}

async fn fail_without_need_of_proof() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    peer.signing_key = None;
    peer.terms.password = "wrong";
    assert_eq!(peer.sign_in_again(SessionSetupFlags::NONE).await, Status::LOGON_FAILURE);
    assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::USER_SESSION_DELETED);
}
