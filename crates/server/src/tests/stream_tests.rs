//! Streams that are made with their file, or alone.

use wire::context::create::{CreateContextsBuilder, name};
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::tests::testing::{Peer, server};

#[tokio::test]
async fn a_stream_may_be_made_where_its_file_is_and_never_with_it() {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let mut builder = CreateContextsBuilder::new();
    builder.add(name::STREAM_ALONE, &[]);
    let contexts = builder.contexts().as_bytes().to_vec();
    assert_eq!(peer.create_edited("file:stream", &contexts, |_| {}).await.status(), Status::OBJECT_NAME_NOT_FOUND);
    assert_eq!(peer.try_open("file").await, Status::OBJECT_NAME_NOT_FOUND, "what is refused is not made");
    let file = peer.open("file").await;
    peer.close(file).await;
    for _ in 0..2 {
        let stream = peer.create_edited("file:stream", &contexts, |_| {}).await.file_id();
        peer.close(stream).await;
    }
    assert_eq!(peer.create_edited("other", &contexts, |_| {}).await.status(), Status::SUCCESS, "a file is made");
}
