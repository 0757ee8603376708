//! Taking the place of a session whose opens are not closed yet, since their disk hangs; and going on after a LOGOFF.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use wire::command::logoff::LogoffRequest;
use wire::ids::{Command, SessionId};
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, Terms, by_hand, server};

/// A server whose pool does nothing, and a session on it that has a file open and lost its connection's other end.
async fn with_opens_that_cannot_close() -> (Arc<Shared>, SessionId) {
    let server = by_hand(server(Signing::Required));
    let mut former = Peer::sign_in(&server).await;
    former.open("file").await;
    let id = former.session_id;
    (server, id)
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_hangs_keeps_nobody_from_signing_in_again() {
    let (server, previous_session) = with_opens_that_cannot_close().await;
    let terms = Terms { previous_session, ..Terms::default() };
    let local = LocalSet::new();
    let signed_in = local.run_until(timeout(Duration::from_secs(4), Peer::sign_in_as(&server, terms))).await;
    assert!(signed_in.is_ok());
    assert!(server.sessions.find(previous_session).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_sign_in_whose_connection_is_lost_meanwhile_begins_no_session() {
    let (server, previous_session) = with_opens_that_cannot_close().await;
    let mut peer = Peer::connect_as(&server, Terms { previous_session, ..Terms::default() });
    peer.negotiate().await;
    let connection = Rc::clone(&peer.connection);
    let local = LocalSet::new();
    local
        .run_until(async {
            let signing_in = spawn_local(async move { peer.set_up_session().await });
            sleep(Duration::from_secs(1)).await;
            assert!(server.sessions.find(previous_session).is_none(), "it waits for the closing");
            connection.ended();
            sleep(Duration::from_secs(60)).await;
            signing_in.abort();
        })
        .await;
    assert!(server.sessions.all().is_empty());
}

#[tokio::test]
async fn who_has_logged_off_goes_on_paying_for_its_connection() {
    let server = server(Signing::Required);
    let mut peer = Peer::sign_in(&server).await;
    let user = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets);
    let answer = peer.ask(Command::LOGOFF, |body| LogoffRequest.encode(body)).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    peer.signing_key = None;
    let (before, strangers) = (user.bytes.used(), server.budgets.strangers().used());
    assert_eq!(peer.begin_sign_in().await, Status::MORE_PROCESSING_REQUIRED);
    assert!(user.bytes.used() > before);
    assert_eq!(server.budgets.strangers().used(), strangers);
}
