//! What another interface of the server does by a session of its own, on behalf of who asked it.

use std::sync::Arc;

use wire::command::create::{CreateDisposition, CreateOptions};
use wire::context::create::CreateContextsBuilder;
use wire::fscc::FileClass;
use wire::ids::FileId;
use wire::status::Status;

use super::{audited, short};
use crate::admin::{AuditEvent, AuditOrigin, AuditProof, NotedOrigin};
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, USER};

fn noted(server: &Arc<Shared>, requester: &str) -> NotedOrigin {
    let origin = AuditOrigin {
        protocol: "HTTPS",
        caller: format!("192.0.2.7:{}", requester.len()).into(),
        proof: AuditProof::SharedAccess,
        requester: requester.into(),
        token: "key1,SasSignature(00)".into(),
        request: "17".into(),
        source: None,
    };
    server.origins.note(origin).unwrap()
}

async fn open(peer: &mut Peer, name: &str, noted: &NotedOrigin) -> Result<FileId, Status> {
    let mut contexts = CreateContextsBuilder::new();
    let (context, key) = noted.context();
    contexts.add(context, &key);
    let contexts = contexts.contexts().as_bytes().to_vec();
    let answer = peer.create_edited(name, &contexts, |request| {
        request.disposition = CreateDisposition::OPEN_IF;
        request.options = CreateOptions::NON_DIRECTORY_FILE;
    });
    let answer = answer.await;
    if answer.status() == Status::SUCCESS { Ok(answer.file_id()) } else { Err(answer.status()) }
}

/// Who asked, from where, and by what.
fn asker(event: &AuditEvent) -> (Option<&str>, Option<&str>, AuditProof, Option<&str>) {
    let actor = &event.actor;
    let request = actor.origin.as_ref().map(|origin| origin.request.as_str());
    (actor.user.as_deref(), actor.caller.as_deref(), actor.proof, request)
}

#[tokio::test]
async fn what_is_done_on_behalf_of_others_is_told_of_them() {
    let (server, kept) = audited("read,write,delete,security");
    let mut peer = Peer::sign_in(&server).await;
    let asks = noted(&server, "studio");
    let file = open(&mut peer, "file", &asks).await.unwrap();
    drop(asks);
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    peer.close(file).await;
    let told = kept.events();
    let from = Some("192.0.2.7:6");
    for event in &told {
        assert_eq!(asker(event), (Some("studio"), from, AuditProof::SharedAccess, Some("17")), "{}", short(event));
    }
    let gone = told.iter().find(|event| event.minor == "FileCloseAndDelete").unwrap();
    let by = &gone.armed_by[0];
    assert_eq!((&*by.user, by.caller.as_deref(), by.origin.is_some()), ("studio", from, true));
    assert_eq!(told.len(), 4, "{:?}", told.iter().map(short).collect::<Vec<_>>());
}

#[tokio::test]
async fn who_is_refused_on_behalf_of_others_is_told_of_them() {
    let (server, kept) = audited("read,write");
    let mut peer = Peer::sign_in(&server).await;
    let directory = peer.open_directory("directory").await;
    peer.close(directory).await;
    kept.events();
    let refused = open(&mut peer, "directory", &noted(&server, "studio")).await;
    assert_eq!(refused.unwrap_err(), Status::FILE_IS_A_DIRECTORY);
    let told = kept.events();
    assert_eq!(asker(&told[0]).0, Some("studio"));
}

/// An open may be kept, and another one ask for what is done with it.
#[tokio::test]
async fn an_open_that_speaks_for_another_is_told_of_that_one() {
    let (server, kept) = audited("delete");
    let mut peer = Peer::sign_in(&server).await;
    let (first, second) = (noted(&server, "first"), noted(&server, "another"));
    let file = open(&mut peer, "file", &first).await.unwrap();
    first.speaker().speaks_for(&second.speaker());
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    peer.close(file).await;
    let told = kept.events();
    assert_eq!(told.iter().map(|event| asker(event).0).collect::<Vec<_>>(), [Some("another"); 2]);
    assert_eq!(told[1].armed_by[0].user, "another");
}

#[tokio::test]
async fn who_names_a_key_that_nobody_was_given_speaks_for_itself() {
    let (server, kept) = audited("write");
    let mut peer = Peer::sign_in(&server).await;
    let elsewhere = audited("write").0;
    let file = open(&mut peer, "file", &noted(&elsewhere, "studio")).await.unwrap();
    peer.close(file).await;
    assert!(kept.events().iter().all(|event| asker(event).0 == Some(USER) && event.actor.origin.is_none()));
}
