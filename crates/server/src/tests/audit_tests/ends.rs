//! What ended an open.

use std::time::Duration;

use tokio::task::{LocalSet, spawn_local};
use wire::command::create::OplockLevel;
use wire::command::logoff::LogoffRequest;
use wire::command::tree_disconnect::TreeDisconnectRequest;
use wire::context::create::{CreateContextsBuilder, DurableRequestV2, name};
use wire::context::durable::DurableFlags;
use wire::ids::{Command, Guid};
use wire::status::Status;

use super::{Kept, audited};
use crate::admin::Admin;
use crate::state::scavenger::scavenge;
use crate::tests::testing::{Peer, work};

/// The ends of opens and sessions that were told, in order.
fn ends(kept: &Kept) -> Vec<(&'static str, &'static str)> {
    let events = kept.events();
    events.iter().filter_map(|event| Some((event.operation, event.end?.name()))).collect()
}

#[tokio::test(start_paused = true)]
async fn whatever_ends_an_open_is_told() {
    let local = LocalSet::new();
    local
        .run_until(async {
            let (server, kept) = audited("read,sign-in");
            let settle = || tokio::time::sleep(Duration::from_secs(1));

            let mut peer = Peer::sign_in(&server).await;
            let file = peer.open("closed").await;
            peer.close(file).await;
            assert_eq!(ends(&kept), [("Close", "Close")]);

            peer.open("disconnected").await;
            let answer = peer.ask(Command::TREE_DISCONNECT, |body| TreeDisconnectRequest.encode(body)).await;
            assert_eq!(answer.status(), Status::SUCCESS);
            assert_eq!(ends(&kept), [("Close", "TreeDisconnect")]);

            assert_eq!(peer.connect("ram").await, Status::SUCCESS);
            peer.open("signed out").await;
            let answer = peer.ask(Command::LOGOFF, |body| LogoffRequest.encode(body)).await;
            assert_eq!(answer.status(), Status::SUCCESS);
            assert_eq!(ends(&kept), [("Logoff", "Logoff"), ("Close", "Logoff")]);

            let mut peer = Peer::sign_in(&server).await;
            peer.open("lost").await;
            peer.disconnect();
            settle().await;
            assert_eq!(ends(&kept), [("Logoff", "ConnectionLost"), ("Close", "ConnectionLost")]);

            let mut peer = Peer::sign_in(&server).await;
            let file = peer.open("closed by hand").await;
            assert!(server.close_open(file.persistent));
            settle().await;
            peer.open("ended by hand").await;
            assert!(server.close_session(peer.session_id.0));
            settle().await;
            assert_eq!(ends(&kept), [("Close", "Operator"), ("Logoff", "Operator"), ("Close", "Operator")]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_durable_open_that_nobody_comes_back_for_is_told() {
    let local = LocalSet::new();
    local
        .run_until(async {
            let (server, kept) = audited("read,write");
            work(&server);
            spawn_local(scavenge(server.clone()));
            let mut peer = Peer::sign_in(&server).await;
            let request =
                DurableRequestV2 { timeout_milliseconds: 0, flags: DurableFlags::NONE, create_guid: Guid([7; 16]) };
            let mut contexts = CreateContextsBuilder::new();
            contexts.add(name::DURABLE_HANDLE_REQUEST_V2, &request.to_bytes());
            let contexts = contexts.contexts().as_bytes().to_vec();
            let batch = |request: &mut wire::command::create::CreateRequest<'_>| {
                request.oplock_level = OplockLevel::BATCH;
            };
            let file = peer.create_edited("file", &contexts, batch).await.file_id();
            assert_eq!(peer.write(file, 0, b"data").await, Status::SUCCESS);
            peer.disconnect();
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(ends(&kept), [], "it waits for its client");
            tokio::time::sleep(Duration::from_secs(3600)).await;
            let told = kept.events();
            assert_eq!(told.len(), 1);
            assert_eq!(told[0].end.unwrap().name(), "NotReclaimed");
            assert_eq!(told[0].moved.unwrap().written_bytes, 4);
        })
        .await;
}
