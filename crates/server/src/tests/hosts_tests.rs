//! Shares that may be used from some hosts alone: each channel is judged by where it comes from, and at once.

use std::sync::Arc;

use wire::fscc::FileClass;
use wire::status::Status;

use crate::admin::Admin;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, Terms, server};

const INSIDE: &str = "192.0.2.1:50000";
const OUTSIDE: &str = "198.51.100.1:50000";

fn allow(server: &Arc<Shared>, hosts: &str) {
    let mut configuration = (**server.configuration.load()).clone();
    configuration.shares[0].rights.hosts = hosts.parse().unwrap();
    server.replace(configuration);
}

fn from(peer: &'static str) -> Terms {
    Terms { peer, ..Terms::default() }
}

async fn signed_in(server: &Arc<Shared>, terms: Terms) -> Peer {
    let mut peer = Peer::connect_as(server, terms);
    peer.negotiate().await;
    peer.set_up_session().await;
    peer
}

/// One more channel, from there, of the session of `first`.
async fn bound_from(server: &Arc<Shared>, first: &Peer, peer: &'static str) -> Peer {
    let mut second = Peer::connect_as(server, from(peer));
    second.negotiate().await;
    assert_eq!(second.bind(first).await, Status::SUCCESS);
    second
}

#[tokio::test]
async fn a_share_is_connected_to_from_its_hosts_alone() {
    let server = server(Signing::Required);
    allow(&server, "192.0.2.0/24,2001:db8::/32");
    for (host, status) in [
        (INSIDE, Status::SUCCESS),
        ("[2001:db8::1]:50000", Status::SUCCESS),
        ("[::ffff:192.0.2.9]:50000", Status::SUCCESS),
        (OUTSIDE, Status::ACCESS_DENIED),
        ("nowhere", Status::ACCESS_DENIED),
    ] {
        let mut peer = signed_in(&server, from(host)).await;
        assert_eq!(peer.connect("ram").await, status, "{host}");
        assert_eq!(peer.connect("IPC$").await, Status::SUCCESS, "{host}");
    }
    allow(&server, "any");
    assert_eq!(signed_in(&server, from("nowhere")).await.connect("ram").await, Status::SUCCESS);
}

#[tokio::test]
async fn a_channel_from_elsewhere_may_not_use_what_another_opened() {
    let server = server(Signing::Required);
    allow(&server, "192.0.2.0/24");
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    assert_eq!(first.write(file, 0, b"data").await, Status::SUCCESS);
    let mut second = bound_from(&server, &first, OUTSIDE).await;
    assert_eq!(second.read(file, 0, 4).await.status(), Status::ACCESS_DENIED);
    assert_eq!(second.write(file, 0, b"else").await, Status::ACCESS_DENIED);
    assert_eq!(second.query(file, FileClass::BASIC, 100).await.status(), Status::ACCESS_DENIED);
    assert_eq!(second.try_open("other").await, Status::ACCESS_DENIED);
    assert_eq!(second.try_close(file).await, Status::ACCESS_DENIED);
    assert_eq!(first.read(file, 0, 4).await.status(), Status::SUCCESS);
    let mut third = bound_from(&server, &first, "192.0.2.7:50000").await;
    assert_eq!(third.read(file, 0, 4).await.status(), Status::SUCCESS);
}

#[tokio::test]
async fn other_hosts_count_at_once_for_what_is_open() {
    let server = server(Signing::Required);
    let mut first = Peer::sign_in(&server).await;
    let file = first.open("file").await;
    let mut second = bound_from(&server, &first, OUTSIDE).await;
    assert_eq!(second.write(file, 0, b"data").await, Status::SUCCESS);
    allow(&server, "192.0.2.0/24");
    assert_eq!(second.read(file, 0, 4).await.status(), Status::ACCESS_DENIED);
    assert_eq!(first.read(file, 0, 4).await.status(), Status::SUCCESS);
    allow(&server, "192.0.2.0/24,198.51.100.1");
    assert_eq!(second.read(file, 0, 4).await.status(), Status::SUCCESS);
    // None of its channels comes from there: it is disconnected, with what it had open.
    allow(&server, "203.0.113.0/24");
    assert_eq!(first.read(file, 0, 4).await.status(), Status::NETWORK_NAME_DELETED);
    assert_eq!(server.open_count(), 0);
    assert_eq!(first.connect("ram").await, Status::ACCESS_DENIED);
}
