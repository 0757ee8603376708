//! LOGOFF and TREE_DISCONNECT where a disk hangs: here the pool does nothing until it is told to.

use std::sync::Arc;
use std::time::Duration;

use store::{RamStore, SharePath, Store, Use, Waits};
use tokio::task::LocalSet;
use tokio::time::timeout;
use wire::command::create::CreateOptions;
use wire::command::logoff::LogoffRequest;
use wire::command::tree_disconnect::TreeDisconnectRequest;
use wire::ids::Command;
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, by_hand, server_with, working};

/// A server whose disk hangs, and a client that has a file open there that goes when it is closed.
async fn hanging() -> (Arc<Shared>, Arc<dyn Store>, Peer) {
    let store: Arc<dyn Store> = Arc::new(RamStore::that_waits(1 << 20, Waits::ForData));
    let server = by_hand(server_with(Signing::Required, Arc::clone(&store)));
    let mut peer = Peer::sign_in(&server).await;
    let open = peer.create("file", |request| request.options = CreateOptions::DELETE_ON_CLOSE);
    assert_eq!(working(&server, open).await.status(), Status::SUCCESS);
    (server, store, peer)
}

async fn answered_while_the_disk_hangs(command: Command, body: fn(&mut Vec<u8>)) {
    let (server, store, mut peer) = hanging().await;
    let user = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets);
    let is_there = || {
        let path = SharePath::parse("file").unwrap();
        let resolved = store::waiting::allow(|| store.resolve(&path, Use::Metadata)).unwrap();
        matches!(resolved, store::Resolved::Found { .. })
    };
    let answer = timeout(Duration::from_secs(3), peer.ask(command, body)).await;
    assert_eq!(answer.expect("it waits for no disk").status(), Status::SUCCESS);
    assert!(is_there(), "the disk hangs");
    assert_eq!(user.opens(), 1, "what hangs is still its user's");
    while server.pool.work_once() {}
    assert!(!is_there(), "it goes when the disk is back");
    assert_eq!(user.opens(), 0);
    assert!(server.files.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_logoff_waits_for_no_disk_that_hangs_and_loses_nothing() {
    let logoff = answered_while_the_disk_hangs(Command::LOGOFF, |body| LogoffRequest.encode(body));
    LocalSet::new().run_until(logoff).await;
}

#[tokio::test(start_paused = true)]
async fn a_tree_disconnect_waits_for_no_disk_that_hangs_and_loses_nothing() {
    let leave = answered_while_the_disk_hangs(Command::TREE_DISCONNECT, |body| TreeDisconnectRequest.encode(body));
    LocalSet::new().run_until(leave).await;
}
