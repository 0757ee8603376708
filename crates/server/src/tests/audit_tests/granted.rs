//! What a CREATE is told as follows from what it was granted and what it made, whatever it asked for.

use std::time::Duration;

use tokio::task::{LocalSet, spawn_local};
use wire::command::create::{AccessMask, CreateDisposition, OplockLevel};
use wire::context::create::{CreateContextsBuilder, DurableReconnectV2, DurableRequestV2, name};
use wire::context::durable::DurableFlags;
use wire::ids::{FileId, Guid};
use wire::security::SecurityDescriptor;
use wire::security::access::{FILE_GENERIC_WRITE, MAXIMUM_ALLOWED, READ_ATTRIBUTES};
use wire::status::Status;

use super::{audited, short};
use crate::state::scavenger::scavenge;
use crate::tests::testing::{OTHER_USER, Peer, Terms, work};

fn contexts(of: &[(&[u8], Vec<u8>)]) -> Vec<u8> {
    let mut contexts = CreateContextsBuilder::new();
    for (name, data) in of {
        contexts.add(name, data);
    }
    contexts.contexts().as_bytes().to_vec()
}

#[tokio::test]
async fn whoever_asks_for_all_rights_is_told_by_those_that_were_granted() {
    let (server, kept) = audited("write");
    let mut owner = Peer::sign_in(&server).await;
    let file = owner.open("file").await;
    owner.close(file).await;
    kept.events();
    let all = |request: &mut wire::command::create::CreateRequest<'_>| {
        request.desired_access = AccessMask(MAXIMUM_ALLOWED);
        request.disposition = CreateDisposition::OPEN;
    };
    assert_eq!(owner.create("file", all).await.status(), Status::SUCCESS);
    assert_eq!(kept.told(), ["write Create FileOpen file SUCCESS"]);
    // Who gets nothing may have tried to write.
    assert_eq!(owner.create("missing", all).await.status(), Status::OBJECT_NAME_NOT_FOUND);
    assert_eq!(kept.told(), ["write Create Open missing OBJECT_NAME_NOT_FOUND"]);
    // What only looks is of no class that is audited here.
    let looks = owner.create("file", |request| {
        request.desired_access = AccessMask(READ_ATTRIBUTES);
        request.disposition = CreateDisposition::OPEN;
    });
    assert_eq!(looks.await.status(), Status::SUCCESS);
    assert_eq!(kept.told(), Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_is_made_with_a_descriptor_is_of_the_class_security() {
    let (server, kept) = audited("security");
    let mut peer = Peer::sign_in(&server).await;
    let descriptor = SecurityDescriptor::default().encode().unwrap();
    let contexts = contexts(&[(name::SD_BUFFER, descriptor)]);
    let with = |request: &mut wire::command::create::CreateRequest<'_>| {
        request.desired_access = AccessMask(FILE_GENERIC_WRITE);
        request.disposition = CreateDisposition::CREATE;
    };
    assert_eq!(peer.create_edited("made", &contexts, with).await.status(), Status::SUCCESS);
    assert_eq!(kept.told(), ["security Create FileCreate made SUCCESS"]);
    assert_eq!(peer.create_edited("made", &contexts, with).await.status(), Status::OBJECT_NAME_COLLISION);
    assert_eq!(kept.told(), ["security Create Create made OBJECT_NAME_COLLISION"]);
    assert_eq!(peer.create("other", with).await.status(), Status::SUCCESS);
    assert_eq!(kept.told(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_open_that_is_taken_up_again_is_told_by_what_it_may() {
    let local = LocalSet::new();
    let test = async {
        let (server, kept) = audited("write");
        work(&server);
        spawn_local(scavenge(server.clone()));
        let mut peer = Peer::sign_in(&server).await;
        let guid = Guid([7; 16]);
        let first = DurableRequestV2 { timeout_milliseconds: 0, flags: DurableFlags::NONE, create_guid: guid };
        let first = contexts(&[(name::DURABLE_HANDLE_REQUEST_V2, first.to_bytes())]);
        let batch = |request: &mut wire::command::create::CreateRequest<'_>| {
            request.oplock_level = OplockLevel::BATCH;
        };
        let file_id = peer.create_edited("file", &first, batch).await.file_id();
        let terms = Terms { peer: "192.0.2.9:9", ..peer.terms };
        peer.disconnect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        kept.events();
        let mut back = Peer::sign_in_as(&server, terms).await;
        let again = |file_id: FileId| {
            let again = DurableReconnectV2 { file_id, create_guid: guid, flags: DurableFlags::NONE };
            contexts(&[(name::DURABLE_HANDLE_RECONNECT_V2, again.to_bytes())])
        };
        let nothing = |request: &mut wire::command::create::CreateRequest<'_>| {
            request.oplock_level = OplockLevel::BATCH;
            request.desired_access = AccessMask(0);
            request.disposition = CreateDisposition::OPEN;
        };
        let mut other = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..terms }).await;
        assert!(other.create_edited("file", &again(file_id), nothing).await.status().is_error());
        assert_eq!(kept.told().len(), 1, "somebody else tried");
        assert_eq!(back.create_edited("file", &again(file_id), nothing).await.status(), Status::SUCCESS);
        let told = kept.events();
        assert_eq!(told.iter().map(short).collect::<Vec<_>>(), ["write Create FileOpen file SUCCESS"]);
        assert_eq!(told[0].actor.caller.as_deref(), Some("192.0.2.9:9"));
    };
    local.run_until(test).await;
}
