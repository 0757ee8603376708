//! What waits for other clients while the open, the tree connect or the session that asked for it ends: it is not done any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::LocalSet;
use wire::command::change_notify::{ChangeNotifyRequest, CompletionFilter};
use wire::command::close::CloseRequest;
use wire::command::create::{CreateDisposition, CreateRequest, CreateResponse, OplockLevel};
use wire::command::logoff::LogoffRequest;
use wire::command::query_info::InfoType;
use wire::command::set_info::SetInfoRequest;
use wire::command::tree_disconnect::TreeDisconnectRequest;
use wire::context::create::{CreateContextsBuilder, name};
use wire::context::lease::{Lease, LeaseState};
use wire::fscc::FileClass;
use wire::ids::{Command, FileId, Guid};
use wire::status::Status;

use crate::admin::Admin;
use crate::command::connection::Ending;
use crate::state::configuration::Signing;
use crate::tests::testing::{Peer, Terms, server};
use crate::{Parting, Shared};

const LEASE_KEY: Guid = Guid([7; 16]);
const READ_HANDLE: LeaseState = LeaseState::READ_CACHING.union(LeaseState::HANDLE_CACHING);
const ALL: LeaseState = READ_HANDLE.union(LeaseState::WRITE_CACHING);

/// A client that caches `file` under a lease, and has written four bytes to it.
struct Keeper {
    peer: Peer,
    file: FileId,
}

impl Keeper {
    async fn new(server: &Arc<Shared>, lease_state: LeaseState) -> Keeper {
        let mut peer = Peer::sign_in_as(server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
        let lease = Lease { lease_key: LEASE_KEY, lease_state, ..Lease::default() }.to_bytes();
        let mut contexts = CreateContextsBuilder::new();
        contexts.add(name::LEASE, &lease);
        let contexts = contexts.contexts().as_bytes().to_vec();
        let opened = peer.create_edited("file", &contexts, |request| request.oplock_level = OplockLevel::LEASE).await;
        let file = opened.file_id();
        assert_eq!(peer.write(file, 0, b"data").await, Status::SUCCESS);
        Keeper { peer, file }
    }

    /// Gives back what others wait for.
    async fn makes_way(&mut self) {
        self.peer.discard();
        assert_eq!(self.peer.acknowledge(LEASE_KEY, LeaseState::NONE).await, Status::SUCCESS);
    }

    /// True where the file is there, with what was written, once nobody has it open.
    async fn finds_all(mut self) -> bool {
        self.peer.close(self.file).await;
        let opened = self.peer.create("file", |request| request.disposition = CreateDisposition::OPEN).await;
        opened.status() == Status::SUCCESS && CreateResponse::decode(&opened.message).unwrap().end_of_file == 4
    }
}

#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    TreeDisconnect,
    LogOff,
    Expelled,
}

/// Ends what `peer` asks through. `keeper` makes way after that; gives what became of the request that waits, whose command is `waiting`.
async fn end(
    server: &Arc<Shared>,
    (peer, file_id): (&mut Peer, FileId),
    how: End,
    keeper: &mut Keeper,
    waiting: Command,
) -> Status {
    let close = CloseRequest { file_id, ..CloseRequest::default() };
    let message = match how {
        End::Close => Some(peer.message(Command::CLOSE, |body| close.encode(body))),
        End::TreeDisconnect => Some(peer.message(Command::TREE_DISCONNECT, |body| TreeDisconnectRequest.encode(body))),
        End::LogOff => Some(peer.message(Command::LOGOFF, |body| LogoffRequest.encode(body))),
        End::Expelled => None,
    };
    match message {
        Some(mut message) => peer.process(&mut message).unwrap(),
        None => server.end_session(
            &server.sessions.find(peer.session_id).unwrap(),
            Parting::Expelled,
            crate::state::audit::AuditEnd::Server,
        ),
    }
    keeper.makes_way().await;
    let mut refusal = None;
    for _ in 0..if matches!(how, End::Expelled) { 1 } else { 2 } {
        let answer = peer.receive().await;
        if answer.header.command == waiting {
            refusal = Some(answer.status());
        } else {
            assert_eq!(answer.status(), Status::SUCCESS, "{how:?}");
        }
    }
    refusal.unwrap()
}

/// Begins to change `file`, which has to wait.
async fn begin_to_set(peer: &mut Peer, file_id: FileId, class: FileClass, buffer: &[u8]) {
    let request =
        SetInfoRequest { info_type: InfoType::FILE, class: class.into(), file_id, buffer, ..Default::default() };
    let mut message = peer.message(Command::SET_INFO, |body| request.encode(body));
    peer.process(&mut message).unwrap();
    assert_eq!(peer.receive().await.status(), Status::PENDING);
}

#[tokio::test]
async fn a_deletion_that_waits_is_not_made_once_its_open_has_ended() {
    let test = async {
        let ends = [
            (End::Close, Status::FILE_CLOSED),
            (End::TreeDisconnect, Status::NETWORK_NAME_DELETED),
            (End::LogOff, Status::USER_SESSION_DELETED),
            (End::Expelled, Status::USER_SESSION_DELETED),
        ];
        for (how, refusal) in ends {
            let server = server(Signing::Required);
            let mut keeper = Keeper::new(&server, READ_HANDLE).await;
            let mut peer = Peer::sign_in(&server).await;
            let file = peer.open("file").await;
            begin_to_set(&mut peer, file, FileClass::DISPOSITION, &[1]).await;
            let answer = end(&server, (&mut peer, file), how, &mut keeper, Command::SET_INFO).await;
            assert_eq!(answer, refusal, "{how:?}");
            assert!(keeper.finds_all().await, "{how:?}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_create_that_waits_empties_nothing_once_its_session_has_ended() {
    let test = async {
        let ends = [
            (End::TreeDisconnect, Status::NETWORK_NAME_DELETED),
            (End::LogOff, Status::USER_SESSION_DELETED),
            (End::Expelled, Status::USER_SESSION_DELETED),
        ];
        for (how, refusal) in ends {
            let server = server(Signing::Required);
            let mut keeper = Keeper::new(&server, ALL).await;
            let mut peer = Peer::sign_in(&server).await;
            let overwrite = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::OVERWRITE_IF;
            let mut message = peer.create_message("file", &[], overwrite);
            peer.process(&mut message).unwrap();
            assert_eq!(peer.receive().await.status(), Status::PENDING);
            let answer = end(&server, (&mut peer, FileId::default()), how, &mut keeper, Command::CREATE).await;
            assert_eq!(answer, refusal, "{how:?}");
            assert!(keeper.finds_all().await, "{how:?}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn nothing_that_waits_for_other_clients_keeps_the_server_from_stopping() {
    let test = async {
        let server = server(Signing::Required);
        let mut keeper = Keeper::new(&server, READ_HANDLE).await;
        let mut peer = Peer::sign_in(&server).await;
        let (file, root) = (peer.open("file").await, peer.open_directory("").await);
        let watch = ChangeNotifyRequest {
            file_id: root,
            output_buffer_length: 4_096,
            completion_filter: CompletionFilter::FILE_NAME,
            ..ChangeNotifyRequest::default()
        };
        let mut message = peer.message(Command::CHANGE_NOTIFY, |body| watch.encode(body));
        peer.process(&mut message).unwrap();
        assert_eq!(peer.receive().await.status(), Status::PENDING);
        begin_to_set(&mut peer, file, FileClass::DISPOSITION, &[1]).await;
        peer.connection.end(Ending::Orderly);
        for _ in 0..2 {
            assert_eq!(peer.receive().await.status(), Status::CANCELLED);
        }
        keeper.makes_way().await;
        assert!(keeper.finds_all().await, "what was cancelled is not done");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_connection_whose_sessions_are_ended_elsewhere_ends() {
    let server = server(Signing::Enabled);
    let peer = Peer::sign_in(&server).await;
    let is_over = || peer.connection.serves_nobody(Duration::MAX);
    assert!(!is_over() && !is_over());
    server.end_session(
        &server.sessions.find(peer.session_id).unwrap(),
        Parting::Expelled,
        crate::state::audit::AuditEnd::Server,
    );
    assert!(!is_over(), "its client may sign in again");
    assert!(is_over());
}

#[tokio::test]
async fn a_connection_whose_client_signs_in_again_in_time_stays() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    server.end_session(
        &server.sessions.find(peer.session_id).unwrap(),
        Parting::Expelled,
        crate::state::audit::AuditEnd::Server,
    );
    assert!(!peer.connection.serves_nobody(Duration::MAX));
    peer.begin_sign_in().await;
    assert!(!peer.connection.serves_nobody(Duration::MAX), "it is about to");
    assert!(peer.connection.serves_nobody(Duration::ZERO), "but not for ever");
}

#[tokio::test]
async fn an_old_connection_has_as_long_to_sign_in_anew_as_a_young_one() {
    const PATIENCE: Duration = Duration::from_millis(200);
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    std::thread::sleep(2 * PATIENCE);
    assert!(!peer.connection.serves_nobody(PATIENCE));
    server.end_session(
        &server.sessions.find(peer.session_id).unwrap(),
        Parting::Expelled,
        crate::state::audit::AuditEnd::Server,
    );
    peer.begin_sign_in().await;
    assert!(!peer.connection.serves_nobody(PATIENCE), "it is about to");
    std::thread::sleep(2 * PATIENCE);
    assert!(peer.connection.serves_nobody(PATIENCE), "but not for ever");
}

#[tokio::test]
async fn who_is_removed_and_added_again_is_another_user() {
    let server = server(Signing::Enabled);
    let peer = Peer::sign_in(&server).await;
    let mut configuration = (**server.configuration.load()).clone();
    server.replace(configuration.clone());
    assert!(server.sessions.find(peer.session_id).is_some());
    configuration.principals[0].relative_id += 1_000;
    server.replace(configuration);
    assert!(server.sessions.find(peer.session_id).is_none());
}
