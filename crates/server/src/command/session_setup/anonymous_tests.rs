//! Clients that ask for the anonymous user: refused, or left with what they have open (MS-SMB2 3.3.5.5.3, MS-NLMP 3.2.5.1.2).

use std::sync::Arc;

use wire::command::create::CreateDisposition;
use wire::command::session_setup::{SessionFlags, SessionSetupFlags, SessionSetupResponse};
use wire::fscc::FileClass;
use wire::ids::{FileId, SessionId};
use wire::status::Status;

use crate::admin::Admin;
use crate::state::configuration::{Anonymous, Signing};
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, Terms, server};

/// A server that lets a session be signed in again as the anonymous user, and a client of it with a file.
async fn lenient() -> (Arc<Shared>, Peer, FileId) {
    let server = server(Signing::Required);
    let mut configuration = (**server.configuration.load()).clone();
    configuration.settings.anonymous = Anonymous::Reauthentication;
    server.replace(configuration);
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    (server, peer, file)
}

async fn become_anonymous(peer: &mut Peer) -> SessionFlags {
    let answer = peer.ask_for_anonymous(SessionSetupFlags::NONE).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    SessionSetupResponse::decode(&answer.message).unwrap().session_flags
}

async fn create(peer: &mut Peer, name: &str, disposition: CreateDisposition) -> Status {
    peer.create(name, |request| request.disposition = disposition).await.status()
}

#[tokio::test]
async fn the_anonymous_user_is_refused_where_nobody_said_otherwise() {
    tokio::task::LocalSet::new().run_until(refuse_anonymous()).await;
}

async fn refuse_anonymous() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    assert_eq!(peer.ask_for_anonymous(SessionSetupFlags::NONE).await.status(), Status::LOGON_FAILURE);
    assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::USER_SESSION_DELETED);
}

#[tokio::test]
async fn no_session_begins_anonymous() {
    let (server, _, _) = lenient().await;
    let mut peer = Peer::connect_as(&server, Terms::default());
    peer.negotiate().await;
    assert_eq!(peer.ask_for_anonymous(SessionSetupFlags::NONE).await.status(), Status::LOGON_FAILURE);
    assert!(server.sessions.find(peer.session_id).is_none());
}

#[tokio::test]
async fn the_anonymous_user_keeps_what_is_open_and_comes_at_nothing_else() {
    let (_server, mut peer, file) = lenient().await;
    assert_eq!(become_anonymous(&mut peer).await, SessionFlags::IS_NULL);
    assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
    assert_eq!(peer.write(file, 0, b"x").await, Status::SUCCESS);
    for disposition in [CreateDisposition::OPEN, CreateDisposition::OPEN_IF, CreateDisposition::OVERWRITE_IF] {
        assert_eq!(create(&mut peer, "file", disposition).await, Status::ACCESS_DENIED);
    }
    assert_eq!(create(&mut peer, "new", CreateDisposition::CREATE).await, Status::ACCESS_DENIED);
    assert_eq!(peer.rename(file, "new").await, Status::ACCESS_DENIED);
    assert_eq!(peer.connect("ram").await, Status::ACCESS_DENIED);
    assert_eq!(peer.connect("IPC$").await, Status::SUCCESS);
    assert_eq!(create(&mut peer, "srvsvc", CreateDisposition::OPEN).await, Status::ACCESS_DENIED);
}

#[tokio::test]
async fn the_keys_stay_and_the_user_comes_back() {
    let (_server, mut peer, file) = lenient().await;
    become_anonymous(&mut peer).await;
    let key = peer.signing_key.take();
    assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::ACCESS_DENIED, "unsigned");
    assert_eq!(peer.ask_for_anonymous(SessionSetupFlags::NONE).await.status(), Status::ACCESS_DENIED, "unsigned");
    peer.signing_key = key;
    assert_eq!(peer.sign_in_again(SessionSetupFlags::NONE).await, Status::SUCCESS);
    assert_eq!(peer.rename(file, "new").await, Status::SUCCESS);
    assert_eq!(create(&mut peer, "new", CreateDisposition::OPEN).await, Status::SUCCESS);
    assert_eq!(peer.connect("ram").await, Status::SUCCESS);
}

#[tokio::test]
async fn no_channel_is_bound_to_nobody_nor_by_nobody() {
    let (server, mut first, file) = lenient().await;
    let mut second = first.known_session();
    second.negotiate().await;
    second.signing_key = first.keys.as_ref().map(|keys| keys.signing_key(first.terms.signing()));
    assert_eq!(second.ask_for_anonymous(SessionSetupFlags::BINDING).await.status(), Status::NOT_SUPPORTED);
    become_anonymous(&mut first).await;
    assert_eq!(second.bind(&first).await, Status::NOT_SUPPORTED);
    assert_eq!(first.query(file, FileClass::BASIC, 100).await.status(), Status::SUCCESS);
    assert_eq!(server.sessions.find(first.session_id).unwrap().channel_count(), 1);
    assert_eq!(first.sign_in_again(SessionSetupFlags::NONE).await, Status::SUCCESS);
    assert_eq!(second.bind(&first).await, Status::SUCCESS);
}

#[tokio::test]
async fn a_users_session_ends_with_the_user_though_nobody_has_it() {
    tokio::task::LocalSet::new().run_until(remove_the_user_of_nobodys_session()).await;
}

async fn remove_the_user_of_nobodys_session() {
    let (server, mut peer, _) = lenient().await;
    become_anonymous(&mut peer).await;
    let mut configuration = (**server.configuration.load()).clone();
    server.replace(configuration.clone());
    assert_ne!(peer.session_id, SessionId(0));
    assert!(server.sessions.find(peer.session_id).is_some());
    configuration.principals.clear();
    server.replace(configuration);
    assert!(server.sessions.find(peer.session_id).is_none());
}
