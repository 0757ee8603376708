//! What leases are of.

use wire::command::create::{CreateDisposition, CreateRequest, OplockLevel};
use wire::context::create::{CreateContextsBuilder, Lease, LeaseState, name};
use wire::context::lease::LeaseV2;
use wire::ids::Guid;
use wire::status::Status;

use crate::admin::Signing;
use crate::testing::{Peer, server};

#[tokio::test]
async fn a_lease_is_of_one_stream_of_a_file() {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let lease_state = LeaseState::READ_CACHING | LeaseState::WRITE_CACHING;
    let lease = Lease { lease_key: Guid([1; 16]), lease_state, v2: Some(LeaseV2::default()), ..Lease::default() };
    let mut builder = CreateContextsBuilder::new();
    builder.add(name::LEASE, &lease.to_bytes());
    let contexts = builder.contexts().as_bytes().to_vec();
    for (name, expected) in [
        ("file:stream", Status::SUCCESS),
        ("file:STREAM", Status::SUCCESS),
        ("file", Status::INVALID_PARAMETER),
        ("file:other", Status::INVALID_PARAMETER),
        ("other", Status::INVALID_PARAMETER),
    ] {
        let leased = |request: &mut CreateRequest<'_>| request.oplock_level = OplockLevel::LEASE;
        assert_eq!(peer.create_edited(name, &contexts, leased).await.status(), expected, "{name}");
    }
    let answer = peer.create("file:other", |request| request.disposition = CreateDisposition::OPEN).await;
    assert_eq!(answer.status(), Status::OBJECT_NAME_NOT_FOUND, "what is refused is not made");
}
