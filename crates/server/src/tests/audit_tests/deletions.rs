//! Who said that something is to go, and when it went.

use wire::command::create::{CreateDisposition, CreateOptions};
use wire::fscc::FileClass;
use wire::status::Status;

use super::{audited, short};
use crate::tests::testing::{OTHER_USER, Peer, Terms, USER};

#[tokio::test]
async fn delete_on_close_tells_who_armed_it_and_whose_close_it_went_with() {
    let (server, kept) = audited("delete");
    let mut armer = Peer::sign_in_as(&server, Terms { peer: "192.0.2.1:1", ..Terms::default() }).await;
    let mut last = Peer::sign_in_as(&server, Terms { user: OTHER_USER, peer: "192.0.2.2:2", ..Terms::default() }).await;
    let armed = armer.create("file", |request| {
        request.options = CreateOptions::NON_DIRECTORY_FILE | CreateOptions::DELETE_ON_CLOSE;
    });
    let armed = armed.await.file_id();
    let held = last.create("file", |request| request.disposition = CreateDisposition::OPEN).await.file_id();
    let told = kept.events();
    assert_eq!(short(&told[0]), "delete Create FileCreate file SUCCESS");
    assert!(told[0].detail.contains("delete on close"), "{}", told[0].detail);
    armer.close(armed).await;
    assert_eq!(kept.told(), Vec::<String>::new(), "somebody has it open");
    last.close(held).await;
    let told = kept.events();
    assert_eq!(short(&told[0]), "delete Close FileCloseAndDelete file SUCCESS");
    assert_eq!(told[0].actor.user.as_deref(), Some(OTHER_USER));
    assert_eq!(told[0].armed_by.len(), 1);
    let by = &told[0].armed_by[0];
    assert_eq!((&*by.user, by.caller.as_deref(), by.open), (USER, Some("192.0.2.1:1"), armed.persistent));
}

#[tokio::test]
async fn a_deletion_that_is_taken_back_is_nobodys() {
    let (server, kept) = audited("delete");
    let mut peer = Peer::sign_in(&server).await;
    let file = peer.open("file").await;
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[0]).await, Status::SUCCESS);
    let details: Vec<String> = kept.events().into_iter().map(|event| event.detail).collect();
    assert_eq!(details, ["to be deleted", "not to be deleted"]);
    peer.close(file).await;
    assert_eq!(kept.told(), Vec::<String>::new());
}

#[tokio::test]
async fn directories_and_streams_are_told_as_such() {
    let (server, kept) = audited("delete");
    let mut peer = Peer::sign_in(&server).await;
    let directory = peer.open_directory("directory").await;
    let stream = peer.open("file:stream").await;
    for id in [directory, stream] {
        assert_eq!(peer.set(id, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    }
    kept.events();
    peer.close(directory).await;
    peer.close(stream).await;
    let told = kept.events();
    assert_eq!(short(&told[0]), "delete Close DirectoryCloseAndDelete directory SUCCESS");
    assert_eq!(told[1].minor, "StreamCloseAndDelete");
    assert_eq!(told[1].place.path.as_ref().unwrap().to_lowercase(), "file:stream");
    assert!(told.iter().all(|event| event.armed_by.len() == 1));
}
