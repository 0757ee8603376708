//! What is cached of a file's named streams breaks where the file itself is emptied, renamed, replaced or deleted.

use std::sync::Arc;

use tokio::task::LocalSet;
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, OplockLevel};
use wire::context::create::{CreateContextsBuilder, Lease, LeaseState, name};
use wire::context::durable::{DurableFlags, DurableRequestV2};
use wire::fscc::FileClass;
use wire::fscc::rename::Rename;
use wire::ids::{Command, FileId, Guid};
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, Terms, server};

const ALL: LeaseState = LeaseState::READ_CACHING.union(LeaseState::WRITE_CACHING).union(LeaseState::HANDLE_CACHING);

/// What is done to the file whose stream is cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Overwrite,
    Supersede,
    DeleteOnClose,
    Delete,
    Rename,
    RenameOver,
    RenameAbove,
}

const DEEDS: [Deed; 7] = [
    Deed::Overwrite,
    Deed::Supersede,
    Deed::DeleteOnClose,
    Deed::Delete,
    Deed::Rename,
    Deed::RenameOver,
    Deed::RenameAbove,
];

/// A client that caches the stream `dir\file:stream`.
async fn keeper(server: &Arc<Shared>, level: OplockLevel, is_durable: bool) -> (Peer, FileId) {
    let mut keeper = Peer::sign_in_as(server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
    let directory = keeper.open_directory("dir").await;
    keeper.close(directory).await;
    let file = keeper.open("dir\\file").await;
    keeper.close(file).await;
    let mut builder = CreateContextsBuilder::new();
    if level == OplockLevel::LEASE {
        builder.add(name::LEASE, &Lease { lease_key: Guid([7; 16]), lease_state: ALL, ..Lease::default() }.to_bytes());
    }
    if is_durable {
        let wish =
            DurableRequestV2 { timeout_milliseconds: 300_000, flags: DurableFlags::NONE, create_guid: Guid([8; 16]) };
        builder.add(name::DURABLE_HANDLE_REQUEST_V2, &wish.to_bytes());
    }
    let contexts = builder.contexts().as_bytes().to_vec();
    let leased = |request: &mut CreateRequest<'_>| request.oplock_level = level;
    let answer = keeper.create_edited("dir\\file:stream", &contexts, leased).await;
    let stream = CreateResponse::decode(&answer.message).unwrap();
    assert_eq!(stream.oplock_level, level);
    (keeper, stream.file_id)
}

/// Another client's request, ready to be sent.
async fn deed(peer: &mut Peer, deed: Deed) -> Vec<u8> {
    let (disposition, options) = match deed {
        Deed::Overwrite => (CreateDisposition::OVERWRITE, CreateOptions::NONE),
        Deed::Supersede => (CreateDisposition::SUPERSEDE, CreateOptions::NONE),
        Deed::DeleteOnClose => (CreateDisposition::OPEN, CreateOptions::DELETE_ON_CLOSE),
        Deed::Delete => return set(peer, "dir\\file", FileClass::DISPOSITION, &[1]).await,
        Deed::Rename => return set(peer, "dir\\file", FileClass::RENAME, &rename_to("dir\\other")).await,
        Deed::RenameOver => return set(peer, "new", FileClass::RENAME, &rename_to("dir\\file")).await,
        Deed::RenameAbove => return set(peer, "dir", FileClass::RENAME, &rename_to("moved")).await,
    };
    let edit = |request: &mut CreateRequest<'_>| (request.disposition, request.options) = (disposition, options);
    peer.create_message("dir\\file", &[], edit)
}

fn rename_to(name: &str) -> Vec<u8> {
    let mut buffer = Vec::new();
    Rename::encode(name, true, &mut buffer);
    buffer
}

async fn set(peer: &mut Peer, name: &str, class: FileClass, buffer: &[u8]) -> Vec<u8> {
    let file = peer.create(name, |_| ()).await.file_id();
    peer.set_message(file, class, buffer)
}

async fn write(peer: &mut Peer, file_id: FileId) -> Status {
    peer.write(file_id, 0, b"cached").await
}

#[tokio::test(start_paused = true)]
async fn who_caches_a_stream_is_told_before_its_file_is_emptied_renamed_replaced_or_deleted() {
    let test = async {
        for (level, what) in DEEDS.iter().flat_map(|deed| [(OplockLevel::LEASE, *deed), (OplockLevel::BATCH, *deed)]) {
            let server = server(Signing::Enabled);
            let (mut keeper, stream) = keeper(&server, level, false).await;
            let mut other = Peer::sign_in(&server).await;
            let mut asked = deed(&mut other, what).await;
            other.process(&mut asked).unwrap();
            assert_eq!(other.receive().await.status(), Status::PENDING, "{what:?} waits for {level:?}");
            keeper.connection.flush_notifications();
            assert_eq!(keeper.receive().await.header.command, Command::OPLOCK_BREAK, "{what:?}, {level:?}");
            assert_eq!(write(&mut keeper, stream).await, Status::SUCCESS, "{what:?}: what was cached arrives");
            keeper.close(stream).await;
            assert_eq!(other.last().await.status(), Status::SUCCESS, "{what:?}, {level:?}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_clients_stream_keeps_nobody_from_its_file() {
    let test = async {
        for (level, what) in DEEDS.iter().flat_map(|deed| [(OplockLevel::LEASE, *deed), (OplockLevel::BATCH, *deed)]) {
            let server = server(Signing::Enabled);
            let (keeper, _) = keeper(&server, level, true).await;
            keeper.disconnect();
            let mut other = Peer::sign_in(&server).await;
            let mut asked = deed(&mut other, what).await;
            other.process(&mut asked).unwrap();
            assert_eq!(other.last().await.status(), Status::SUCCESS, "{what:?}, {level:?}");
            assert_eq!(server.files.claims(), 1, "{what:?}, {level:?}: it does not come back");
        }
    };
    LocalSet::new().run_until(test).await;
}
