//! Files with several names, as clients delete, rename and replace them.

use std::sync::Arc;

use store::{Destination, Name, RamStore, Replace, Resolved, SharePath, Store, Use};
use wire::command::create::{CreateOptions, CreateRequest};
use wire::fscc::FileClass;
use wire::fscc::rename::DispositionFlags;
use wire::ids::FileId;
use wire::status::Status;

use super::{Entering, Entry, Link, Replacing};
use crate::state::configuration::Signing;
use crate::state::open_path::OpenPath;
use crate::state::session_link::SessionLink;
use crate::state::shared::Shared;
use crate::tests::entries::{entry, names};
use crate::tests::testing::{Peer, server_with};

/// A file with the names "a" and "b".
async fn linked() -> (Arc<Shared>, Arc<dyn Store>, Peer) {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
    let server = server_with(Signing::Enabled, Arc::clone(&store));
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("a").await;
    assert_eq!(peer.set_name(file, FileClass::LINK, "b", false).await, Status::SUCCESS);
    peer.close(file).await;
    (server, store, peer)
}

async fn delete(peer: &mut Peer, file: FileId) {
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
}

async fn delete_at_once(peer: &mut Peer, file: FileId) {
    let flags = DispositionFlags::DELETE | DispositionFlags::POSIX_SEMANTICS;
    assert_eq!(peer.set(file, FileClass::DISPOSITION_EX, &flags.0.to_le_bytes()).await, Status::SUCCESS);
}

#[tokio::test]
async fn the_name_that_was_opened_is_deleted_whoever_closes_last() {
    let (_server, store, mut peer) = linked().await;
    let (first, second, other) = (peer.open("a").await, peer.open("a").await, peer.open("b").await);
    delete(&mut peer, first).await;
    assert_eq!(peer.try_open("a").await, Status::DELETE_PENDING);
    assert_eq!(peer.try_open("b").await, Status::SUCCESS, "it is not the one that goes");
    peer.close(first).await;
    assert_eq!(names(&store), "ab");
    peer.close(second).await;
    assert_eq!(names(&store), "b", "who has it open by another name keeps nothing of this one");
    assert_eq!(peer.try_open("a").await, Status::OBJECT_NAME_NOT_FOUND);
    peer.close(other).await;
    assert_eq!(names(&store), "b");
}

#[tokio::test]
async fn opens_from_before_there_was_another_name_keep_theirs() {
    let (_server, store, mut peer) = linked().await;
    let only = peer.open("c").await;
    assert_eq!(peer.set_name(only, FileClass::LINK, "a", true).await, Status::SUCCESS);
    let other = peer.open("a").await;
    delete(&mut peer, other).await;
    peer.close(other).await;
    assert_eq!(names(&store), "bc");
    peer.close(only).await;
    assert_eq!(names(&store), "bc");
}

#[tokio::test]
async fn each_name_goes_with_the_open_that_took_it_away() {
    let (_server, store, mut peer) = linked().await;
    let (one, other, stays) = (peer.open("a").await, peer.open("b").await, peer.open("b").await);
    delete_at_once(&mut peer, one).await;
    delete_at_once(&mut peer, other).await;
    peer.close(one).await;
    assert_eq!(names(&store), "b");
    peer.close(other).await;
    assert_eq!(names(&store), "");
    peer.close(stays).await;
}

#[tokio::test]
async fn a_deletion_by_a_name_that_has_gone_leaves_the_others() {
    for on_close in [false, true] {
        let (server, store, mut peer) = linked().await;
        let deletes = |request: &mut CreateRequest<'_>| {
            request.options = if on_close { CreateOptions::DELETE_ON_CLOSE } else { CreateOptions::default() };
        };
        let first = peer.create("a", deletes).await;
        let first = first.file_id();
        let taken = peer.open("a").await;
        delete_at_once(&mut peer, taken).await;
        peer.close(taken).await;
        assert_eq!(names(&store), "b");
        let stays = peer.open("b").await;
        if !on_close {
            delete(&mut peer, first).await;
            assert_eq!(peer.try_open("b").await, Status::SUCCESS, "it is another name that goes");
        }
        peer.close(first).await;
        assert_eq!(peer.try_open("b").await, Status::SUCCESS);
        peer.close(stays).await;
        assert_eq!(names(&store), "b");
        assert_eq!(peer.try_open("b").await, Status::SUCCESS);
        assert!(server.files.is_empty());
    }
}

#[tokio::test]
async fn an_open_of_the_only_name_there_was_deletes_that_and_no_later_one() {
    let (server, store, mut peer) = linked().await;
    let old = peer.open("c").await;
    let directory = store.resolve(&SharePath::root(), Use::ReadWrite).unwrap();
    let Resolved::Found { node: directory, .. } = directory else { panic!("it is there") };
    let Ok(Resolved::Found { node, .. }) = store.resolve(&SharePath::parse("c").unwrap(), Use::ReadWrite) else {
        panic!("it is there")
    };
    // As another program does it: of that nobody here learns.
    let [new, gone] = ["d", "c"].map(|name| Name::new(name).unwrap());
    node.link(Destination { directory: &*directory, name: &new }, Replace::No).unwrap();
    let named = peer.open("d").await;
    directory.names().unwrap().remove(&gone, node.identity()).unwrap();
    delete(&mut peer, old).await;
    peer.close(old).await;
    assert_eq!(peer.try_open("d").await, Status::SUCCESS);
    peer.close(named).await;
    assert_eq!(peer.try_open("d").await, Status::SUCCESS);
    assert!(server.files.is_empty());
}

#[tokio::test]
async fn a_stream_goes_with_its_last_open_whether_its_file_is_to_go_or_not() {
    let (_server, _store, mut peer) = linked().await;
    let file = peer.open("a").await;
    let deletes = |request: &mut CreateRequest<'_>| request.options = CreateOptions::DELETE_ON_CLOSE;
    let stream = peer.create("a:stream", deletes).await;
    delete(&mut peer, file).await;
    peer.close(stream.file_id()).await;
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[0]).await, Status::SUCCESS);
    assert_eq!(peer.try_open("a:stream").await, Status::OBJECT_NAME_NOT_FOUND);
    peer.close(file).await;
    assert_eq!(peer.try_open("a").await, Status::SUCCESS);
}

#[tokio::test]
async fn what_is_deleted_on_close_is_the_name_of_that_open() {
    let (_server, store, mut peer) = linked().await;
    let stays = peer.open("a").await;
    let answer = peer.create("b", |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
    peer.close(answer.file_id()).await;
    assert_eq!(names(&store), "a");
    peer.close(stays).await;
    assert_eq!(names(&store), "a");
}

#[tokio::test]
async fn a_name_that_changed_is_the_one_that_goes() {
    let (_server, store, mut peer) = linked().await;
    let (one, other) = (peer.open("a").await, peer.open("b").await);
    assert_eq!(peer.set_name(one, FileClass::RENAME, "c", false).await, Status::SUCCESS);
    delete(&mut peer, one).await;
    assert_eq!(peer.try_open("c").await, Status::DELETE_PENDING);
    peer.close(other).await;
    assert_eq!(names(&store), "bc");
    peer.close(one).await;
    assert_eq!(names(&store), "b");
}

#[tokio::test]
async fn nobody_opens_a_file_while_it_is_replaced() {
    let (server, store, mut peer) = linked().await;
    let path = SharePath::parse("a").unwrap();
    let Ok(Resolved::Found { node, .. }) = store.resolve(&path, Use::Metadata) else { panic!("it is there") };
    let link = Link::at(&*store, &path).unwrap();
    let open = peer.open("b").await;
    let refused = Replacing::begin(&server.files, node.identity(), &link, false).err();
    assert_eq!(refused, Some(Status::ACCESS_DENIED));
    peer.close(open).await;
    let replacing = Replacing::begin(&server.files, node.identity(), &link, false).unwrap();
    let (names, line) = (OpenPath::new(path), SessionLink::down());
    let entry = Entry { link: Some(link), ..entry(&names, &store, &line) };
    let (_, entering, _) = server.files.enter(node.identity(), &entry);
    assert!(matches!(entering, Entering::Waits(_)), "it looks the name up anew after that");
    drop((entering, replacing));
    assert!(server.files.is_empty());
}
