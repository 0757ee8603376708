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

/// Alice has a file by two names and arms the one; that the other stays changes nothing, and who closes last has done nothing.
#[tokio::test]
async fn who_armed_one_name_is_known_though_another_name_stays() {
    let (server, kept) = audited("delete");
    let mut alice = Peer::sign_in_as(&server, Terms { peer: "192.0.2.1:1", ..Terms::default() }).await;
    let mut bob = Peer::sign_in_as(&server, Terms { user: OTHER_USER, peer: "192.0.2.2:2", ..Terms::default() }).await;
    let first = alice.open("first").await;
    assert_eq!(alice.set_name(first, FileClass::LINK, "second", false).await, Status::SUCCESS);
    alice.close(first).await;
    let held = bob.create("first", |request| request.disposition = CreateDisposition::OPEN).await.file_id();
    let (first, second) = (alice.open("first").await, alice.open("second").await);
    assert_eq!(alice.set(first, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    assert_eq!(alice.set(second, FileClass::DISPOSITION, &[0]).await, Status::SUCCESS);
    alice.close(first).await;
    alice.close(second).await;
    kept.events();
    bob.close(held).await;
    let told = kept.events();
    assert_eq!(short(&told[0]), "delete Close FileCloseAndDelete first SUCCESS");
    let by: Vec<_> = told[0].armed_by.iter().map(|by| (&*by.user, by.open)).collect();
    assert_eq!(by, [(USER, first.persistent)]);
}

#[tokio::test]
async fn each_name_that_goes_has_who_armed_it_and_no_other() {
    let (server, kept) = audited("delete");
    let mut alice = Peer::sign_in(&server).await;
    let mut bob = Peer::sign_in_as(&server, Terms { user: OTHER_USER, peer: "192.0.2.2:2", ..Terms::default() }).await;
    let file = alice.open("first").await;
    assert_eq!(alice.set_name(file, FileClass::LINK, "second", false).await, Status::SUCCESS);
    alice.close(file).await;
    let first = alice.open("first").await;
    let second = bob.create("second", |request| request.disposition = CreateDisposition::OPEN).await.file_id();
    assert_eq!(alice.set(first, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    assert_eq!(bob.set(second, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    kept.events();
    alice.close(first).await;
    bob.close(second).await;
    let told = kept.events();
    let by = |number: usize| told[number].armed_by.iter().map(|by| &*by.user).collect::<Vec<_>>();
    assert_eq!(
        told.iter().map(short).collect::<Vec<_>>(),
        ["delete Close FileCloseAndDelete first SUCCESS", "delete Close FileCloseAndDelete second SUCCESS",]
    );
    assert_eq!((by(0), by(1)), (vec![USER], vec![OTHER_USER]));
}

/// What is done over another channel comes from there.
#[tokio::test]
async fn a_deletion_over_another_channel_has_its_address() {
    let (server, kept) = audited("delete");
    let mut first = Peer::sign_in_as(&server, Terms { peer: "192.0.2.1:1", ..Terms::default() }).await;
    let file = first.open("file").await;
    let mut second = Peer::connect_as(&server, Terms { peer: "192.0.2.2:2", ..Terms::default() });
    second.negotiate().await;
    assert_eq!(second.bind(&first).await, Status::SUCCESS);
    assert_eq!(second.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    second.close(file).await;
    let told = kept.events();
    let from: Vec<_> = told.iter().map(|event| (event.operation, event.actor.caller.as_deref())).collect();
    assert_eq!(from, [("SetInfo", Some("192.0.2.2:2")), ("Close", Some("192.0.2.2:2")),]);
    assert_eq!(told[1].armed_by[0].caller.as_deref(), Some("192.0.2.2:2"));
}
