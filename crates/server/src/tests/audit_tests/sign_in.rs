//! Who signs in, binds and connects, or tries to.

use wire::command::session_setup::SessionSetupFlags;
use wire::status::Status;

use super::{Kept, audited};
use crate::admin::{AuditEvent, AuditProof};
use crate::tests::testing::{Peer, Terms, USER};

fn short(event: &AuditEvent) -> String {
    let user = event.actor.user.as_deref().unwrap_or("-");
    let share = event.place.share.as_deref().unwrap_or("-");
    let status = event.status_name.trim_start_matches("STATUS_");
    format!("{} {} {user} {share} {status}", event.operation, event.minor)
}

fn told(kept: &Kept) -> Vec<String> {
    kept.events().iter().map(short).collect()
}

#[tokio::test]
async fn signing_in_connecting_and_binding_are_told() {
    let (server, kept) = audited("sign-in");
    let mut first = Peer::sign_in(&server).await;
    assert_eq!(told(&kept), ["SessionSetup SessionBegin tester - SUCCESS", "TreeConnect  tester ram SUCCESS"]);
    let _second = Peer::bound(&server, &first).await;
    assert_eq!(told(&kept), ["SessionSetup ChannelBind tester - SUCCESS"]);
    assert_eq!(first.sign_in_again(SessionSetupFlags::NONE).await, Status::SUCCESS);
    assert_eq!(told(&kept), ["SessionSetup SessionRenew tester - SUCCESS"]);
    let file = first.open("file").await;
    first.close(file).await;
    assert_eq!(told(&kept), Vec::<String>::new());
}

#[tokio::test]
async fn refused_sign_ins_tell_who_was_claimed_and_from_where() {
    let (server, kept) = audited("sign-in");
    let terms = Terms { password: "wrong", peer: "192.0.2.9:7", ..Terms::default() };
    let mut peer = Peer::connect_as(&server, terms);
    peer.negotiate().await;
    assert_eq!(peer.sign_in_again(SessionSetupFlags::NONE).await, Status::LOGON_FAILURE);
    let events = kept.events();
    assert_eq!(events.len(), 1);
    assert_eq!(short(&events[0]), "SessionSetup SessionBegin tester - LOGON_FAILURE");
    let actor = &events[0].actor;
    assert_eq!((actor.caller.as_deref(), actor.proof), (Some("192.0.2.9:7"), AuditProof::Claimed));
    assert_eq!((actor.sid.as_ref(), actor.account.as_ref()), (None, None), "nothing is proved");
    assert!(events[0].is_of_stranger());
}

#[tokio::test]
async fn refused_tree_connects_are_told() {
    let (server, kept) = audited("sign-in");
    let mut peer = Peer::sign_in(&server).await;
    kept.events();
    assert_eq!(peer.connect("nowhere").await, Status::BAD_NETWORK_NAME);
    assert_eq!(peer.connect("IPC$").await, Status::SUCCESS);
    assert_eq!(told(&kept), [format!("TreeConnect  {USER} nowhere BAD_NETWORK_NAME")]);
}

#[tokio::test]
async fn who_audits_no_sign_ins_is_told_of_none() {
    let (server, kept) = audited("read,write,delete,security");
    let mut peer = Peer::sign_in(&server).await;
    assert_eq!(peer.connect("nowhere").await, Status::BAD_NETWORK_NAME);
    peer.disconnect();
    assert_eq!(told(&kept), Vec::<String>::new());
}
