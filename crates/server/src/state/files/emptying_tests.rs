//! Files that are emptied while their streams are open, as clients see it.

use std::sync::Arc;

use store::{RamStore, Resolved, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::command::create::{AccessMask, CreateAction, CreateDisposition, CreateResponse, ShareAccess};
use wire::ids::FileId;
use wire::security::access::{READ_ATTRIBUTES, READ_DATA, WRITE_DATA};
use wire::status::Status;

use super::{Emptying, Entering, Entry};
use crate::state::configuration::Signing;
use crate::state::open_path::OpenPath;
use crate::state::session_link::SessionLink;
use crate::state::shared::Shared;
use crate::tests::entries::entry;
use crate::tests::testing::{Peer, server_with};

/// What they may be shared for: all but their deletion.
const KEPT: ShareAccess = ShareAccess(3);
const SHARED: ShareAccess = ShareAccess(7);
const EMPTIES: [CreateDisposition; 3] =
    [CreateDisposition::OVERWRITE, CreateDisposition::OVERWRITE_IF, CreateDisposition::SUPERSEDE];

async fn served() -> (Arc<Shared>, Arc<dyn Store>, Peer) {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
    let server = server_with(Signing::Enabled, Arc::clone(&store));
    let peer = Peer::sign_in(&server).await;
    (server, store, peer)
}

async fn open(peer: &mut Peer, name: &str, access: u32, share: ShareAccess) -> FileId {
    let answer = peer
        .create(name, |request| {
            request.desired_access = AccessMask(access);
            request.share_access = share;
        })
        .await;
    answer.file_id()
}

/// Empties what has the name, and closes it.
async fn empty(peer: &mut Peer, name: &str, disposition: CreateDisposition) -> Status {
    let answer = peer
        .create(name, |request| {
            request.desired_access = AccessMask(READ_DATA | WRITE_DATA);
            request.disposition = disposition;
        })
        .await;
    if answer.status() == Status::SUCCESS {
        let created = CreateResponse::decode(&answer.message).unwrap();
        assert_ne!(created.create_action, CreateAction::OPENED);
        peer.close(created.file_id).await;
    }
    answer.status()
}

fn streams(store: &Arc<dyn Store>) -> Vec<String> {
    let path = SharePath::parse("file").unwrap();
    let Ok(Resolved::Found { node, .. }) = store.resolve(&path, Use::Metadata) else { panic!("it is there") };
    let named = node.extras().streams().unwrap().into_iter().map(|stream| stream.name);
    named.filter(|name| !name.is_empty()).collect()
}

#[tokio::test]
async fn emptying_a_file_removes_no_stream_that_somebody_keeps() {
    for disposition in EMPTIES {
        let (_server, store, mut peer) = served().await;
        let kept = open(&mut peer, "file:kept", READ_DATA, KEPT).await;
        assert_eq!(empty(&mut peer, "file", disposition).await, Status::SHARING_VIOLATION);
        assert_eq!(streams(&store), ["kept"]);
        peer.close(kept).await;
        assert_eq!(empty(&mut peer, "file", disposition).await, Status::SUCCESS);
        assert!(streams(&store).is_empty());
    }
}

#[tokio::test]
async fn streams_that_nobody_keeps_are_in_nobodys_way() {
    for disposition in EMPTIES {
        let (_server, store, mut peer) = served().await;
        let made = open(&mut peer, "file:looked at", WRITE_DATA, SHARED).await;
        peer.close(made).await;
        let shared = open(&mut peer, "file:shared", READ_DATA, SHARED).await;
        let looked_at = open(&mut peer, "file:looked at", READ_ATTRIBUTES, ShareAccess(0)).await;
        assert_eq!(empty(&mut peer, "file", disposition).await, Status::SUCCESS);
        assert!(streams(&store).is_empty());
        peer.close(shared).await;
        peer.close(looked_at).await;
    }
}

#[tokio::test]
async fn a_stream_is_emptied_beside_others_that_somebody_keeps() {
    let test = async {
        for disposition in EMPTIES {
            let (_server, store, mut peer) = served().await;
            let kept = open(&mut peer, "file:kept", READ_DATA, KEPT).await;
            let other = open(&mut peer, "file:other", WRITE_DATA, SHARED).await;
            assert_eq!(empty(&mut peer, "file:other", disposition).await, Status::SUCCESS);
            assert_eq!(streams(&store).len(), 2);
            peer.close(kept).await;
            peer.close(other).await;
        }
    };
    // Nobody knows how long that takes, so that it is the pool's work.
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn superseding_takes_that_others_share_deletion_and_overwriting_does_not() {
    let (_server, _store, mut peer) = served().await;
    let kept = open(&mut peer, "file", READ_DATA, KEPT).await;
    assert_eq!(empty(&mut peer, "file", CreateDisposition::OVERWRITE).await, Status::SUCCESS);
    assert_eq!(empty(&mut peer, "file", CreateDisposition::SUPERSEDE).await, Status::SHARING_VIOLATION);
    peer.close(kept).await;
    assert_eq!(empty(&mut peer, "file", CreateDisposition::SUPERSEDE).await, Status::SUCCESS);
}

#[tokio::test]
async fn nobody_opens_a_stream_while_its_file_is_emptied() {
    let (server, store, mut peer) = served().await;
    let kept = open(&mut peer, "file:stream", READ_DATA, KEPT).await;
    let path = SharePath::parse("file").unwrap();
    let Ok(Resolved::Found { node, .. }) = store.resolve(&path, Use::Metadata) else { panic!("it is there") };
    let file = server.files.find(node.identity()).unwrap();
    assert_eq!(Emptying::begin(&server.files, &file).err(), Some(Status::SHARING_VIOLATION));
    peer.close(kept).await;
    let base = peer.open("file").await;
    let file = server.files.find(node.identity()).unwrap();
    let emptying = Emptying::begin(&server.files, &file).unwrap();
    let (names, line) = (OpenPath::new(path), SessionLink::down());
    let entry = Entry { stream: "stream", ..entry(&names, &store, &line) };
    let (_, entering, _) = server.files.enter(node.identity(), &entry);
    assert!(matches!(entering, Entering::Waits(_)), "it looks the stream up anew after that");
    drop((entering, emptying));
    peer.close(base).await;
    assert!(server.files.is_empty());
}
