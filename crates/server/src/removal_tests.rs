//! What a client was answered to be deleted goes, whoever has it open last.

use std::sync::Arc;

use store::{Error, RamStore, Resolved, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::codec::{Utf16, utf16_bytes};
use wire::command::create::{CreateDisposition, CreateRequest, ShareAccess};
use wire::context::create::{CreateContexts, CreateContextsBuilder, name};
use wire::fscc::FileClass;
use wire::ids::Command;
use wire::security::access::WRITE_DATA;
use wire::status::Status;

use crate::admin::Signing;
use crate::interrupted::{Call, Interrupted};
use crate::testing::{Peer, server_with};

const DISK: u64 = 64 << 20;
/// More than a shard makes itself.
const ALLOCATION: u64 = 32 << 20;

/// True where the file, and its stream where `stream` says one, is there.
fn exists(store: &Arc<dyn Store>, name: &str) -> bool {
    let (path, stream) = name.split_once(':').unwrap_or((name, ""));
    match store.resolve(&SharePath::parse(path).unwrap(), Use::Metadata).unwrap() {
        Resolved::Found { node, .. } => stream.is_empty() || node.stream(stream).unwrap().is_some(),
        Resolved::Missing { .. } => false,
    }
}

/// A CREATE that empties `name` and reserves so many bytes.
fn emptying(peer: &mut Peer, name: &str, bytes: u64) -> Vec<u8> {
    let mut contexts = CreateContextsBuilder::new();
    contexts.add(name::ALLOCATION_SIZE, &bytes.to_le_bytes());
    let contexts = contexts.contexts().as_bytes().to_vec();
    let name = utf16_bytes(name);
    let request = CreateRequest {
        desired_access: WRITE_DATA.into(),
        share_access: ShareAccess(7),
        disposition: CreateDisposition::OVERWRITE,
        name: Utf16::new(&name).unwrap(),
        contexts: CreateContexts::decode(&contexts).unwrap(),
        ..CreateRequest::default()
    };
    peer.message(Command::CREATE, |body| request.encode(body))
}

#[tokio::test]
async fn what_was_deleted_goes_where_the_last_to_have_it_open_is_a_create_that_fails() {
    for (name, bytes, look_fails) in
        [("file", 2 * DISK, false), ("file", ALLOCATION, true), ("file:stream", ALLOCATION, true)]
    {
        let test = async {
            let (store, meanwhile) = Interrupted::around(RamStore::new(DISK));
            let mut server = server_with(Signing::Enabled, Arc::clone(&store));
            Arc::get_mut(&mut server).unwrap().work_by_hand();
            let (mut one, mut other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
            let deleted = one.open(name).await;

            let mut creating = emptying(&mut other, name, bytes);
            other.process(&mut creating).unwrap();
            // It is in the table of files, and waits for the pool.
            assert_eq!(server.files.claims(), 2, "{name}");
            assert_eq!(one.set(deleted, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
            one.close(deleted).await;
            assert!(exists(&store, name));
            if look_fails {
                let fails = |call, _: &dyn store::Node| if call == Call::Look { Err(Error::Io(5)) } else { Ok(()) };
                meanwhile.set(fails);
            }
            assert!(server.pool.work_once());
            assert_ne!(other.receive().await.status(), Status::SUCCESS, "{name}");
            meanwhile.clear();

            assert!(exists(&store, name), "no shard removes it");
            assert_eq!(server.files.claims(), 0);
            let mut opening = {
                let name = utf16_bytes(name);
                let request = CreateRequest {
                    desired_access: WRITE_DATA.into(),
                    disposition: CreateDisposition::OPEN,
                    name: Utf16::new(&name).unwrap(),
                    ..CreateRequest::default()
                };
                one.message(Command::CREATE, |body| request.encode(body))
            };
            one.process(&mut opening).unwrap();
            assert_eq!(one.receive().await.status(), Status::PENDING, "{name}: it is going");
            while server.pool.work_once() {}
            assert_eq!(one.receive().await.status(), Status::OBJECT_NAME_NOT_FOUND, "{name}");
            assert!(!exists(&store, name));
            assert_eq!(exists(&store, "file"), name != "file");
            assert!(server.files.is_empty());
        };
        LocalSet::new().run_until(test).await;
    }
}
