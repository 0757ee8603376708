//! What a client was answered to be deleted goes, whoever has it open last.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use store::{
    DirectoryOptions, DirectoryStore, Error, Kind, Name, NewNode, RamStore, Replace, Resolved, SharePath, Store, Use,
};
use tokio::task::LocalSet;
use wire::codec::{Utf16, utf16_bytes};
use wire::command::close::{CloseFlags, CloseRequest};
use wire::command::create::{CreateDisposition, CreateRequest, ShareAccess};
use wire::context::create::{CreateContexts, CreateContextsBuilder, name};
use wire::fscc::FileClass;
use wire::ids::Command;
use wire::security::access::{READ_DATA, WRITE_DATA};
use wire::status::Status;

use crate::state::configuration::{Configuration, Share, Signing};
use crate::state::open::Open;
use crate::tests::interrupted::{Call, Interrupted, is_to_happen_here, once_here};
use crate::tests::testing::{Peer, by_hand, server_with};

const DISK: u64 = 64 << 20;
/// More than a shard makes itself.
const ALLOCATION: u64 = 32 << 20;

/// True where the file, and its stream where `stream` says one, is there.
fn exists(store: &Arc<dyn Store>, name: &str) -> bool {
    let (path, stream) = name.split_once(':').unwrap_or((name, ""));
    match store.resolve(&SharePath::parse(path).unwrap(), Use::Metadata).unwrap() {
        Resolved::Found { node, .. } => stream.is_empty() || node.extras().stream(stream).unwrap().is_some(),
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
    for (name, bytes, fails) in [
        ("file", 2 * DISK, None),
        ("file", ALLOCATION, Some(Call::Renew)),
        ("file:stream", ALLOCATION, Some(Call::Write)),
    ] {
        let test = async {
            let (store, meanwhile) = Interrupted::around(RamStore::new(DISK));
            let server = by_hand(server_with(Signing::Enabled, Arc::clone(&store)));
            let (mut one, mut other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
            let deleted = one.open(name).await;

            let mut creating = emptying(&mut other, name, bytes);
            other.process(&mut creating).unwrap();
            // It is in the table of files, and waits for the pool.
            assert_eq!(server.files.claims(), 2, "{name}");
            assert_eq!(one.set(deleted, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
            one.close(deleted).await;
            assert!(exists(&store, name));
            meanwhile.set(move |call, _| if Some(call) == fails { Err(Error::Io(5)) } else { Ok(()) });
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

fn marks(open: &Open) {
    let file = open.file().unwrap();
    file.file.set_delete_pending(open.id, &file.stream_name(), true);
}

#[tokio::test]
async fn a_close_that_only_now_is_the_last_leaves_what_it_removes_to_the_pool() {
    let test = async {
        for name in ["file", "file:stream"] {
            let folder = tempfile::tempdir().unwrap();
            let (store, _) =
                Interrupted::around(DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap());
            let server = server_with(Signing::Enabled, Arc::clone(&store));
            let mut peer = Peer::sign_in(&server).await;
            let (other, last) = (peer.open(name).await, peer.open(name).await);
            let (other, here) = (peer.opened(&server, other), Arc::clone(&server));
            let removes = if name == "file" { Call::FindDirectory } else { Call::RemoveStream };
            // Its attributes are asked for when it was seen to remove nothing.
            once_here(Call::TryToLook, move || {
                marks(&other);
                other.close(&here);
                once_here(removes, || ());
            });
            let request = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id: last };
            let closed = peer.ask(Command::CLOSE, |body| request.encode(body)).await;
            assert_eq!(closed.status(), Status::SUCCESS, "{name}");
            assert!(!exists(&store, name), "{name}");
            assert!(is_to_happen_here(), "{name}: not on the thread that serves others");
        }
    };
    LocalSet::new().run_until(test).await;
}

/// Has this happen in the call after so many that look for the directory of a name.
fn at_directory(after: usize, happens: impl FnOnce() + 'static) {
    once_here(Call::FindDirectory, move || if after == 0 { happens() } else { at_directory(after - 1, happens) });
}

#[tokio::test]
async fn of_two_names_the_one_that_was_deleted_goes_whatever_its_path_means_by_then() {
    let path = |path: &str| SharePath::parse(path).unwrap();
    let test = async {
        for after in 0..4 {
            let ram: Arc<dyn Store> = Arc::new(RamStore::new(DISK));
            let new = |kind| NewNode { kind, attributes: 0, security: None, owner: None };
            let [one, two] = ["one", "two"].map(|name| ram.create(&path(name), new(Kind::Directory)).unwrap());
            let file = ram.create(&path("one\\file"), new(Kind::File)).unwrap();
            ram.link(&path("one\\file"), &path("two\\file"), file.identity(), Replace::No).unwrap();
            let (store, _) = Interrupted::around_any(Arc::clone(&ram));
            let server = server_with(Signing::Enabled, store);
            let mut peer = Peer::sign_in(&server).await;
            let deleted = peer.open("one\\file").await;
            assert_eq!(peer.set(deleted, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
            let has_happened = Rc::new(Cell::new(false));
            let (first, second, happens) = (one.identity(), two.identity(), Rc::clone(&has_happened));
            at_directory(after, move || {
                ram.rename(&path("one"), &path("away"), first, Replace::No).unwrap();
                ram.rename(&path("two"), &path("one"), second, Replace::No).unwrap();
                happens.set(true);
            });
            peer.close(deleted).await;
            assert!(two.names().unwrap().has(&Name::new("file").unwrap(), file.identity()).unwrap(), "{after}");
            if !has_happened.get() {
                return;
            }
        }
        panic!("it is looked for again and again");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_is_open_last_through_a_share_that_may_only_be_read_goes_too() {
    let test = async {
        for name in ["file", "file:stream"] {
            let folder = tempfile::tempdir().unwrap();
            let open = |read_only| -> Arc<dyn Store> {
                let options = DirectoryOptions { read_only, ..DirectoryOptions::default() };
                Arc::new(DirectoryStore::open(folder.path(), options).unwrap())
            };
            let store = open(false);
            let server = server_with(Signing::Enabled, Arc::clone(&store));
            let mut configuration = Configuration::clone(&server.configuration.load());
            let look =
                Share { name: "look".into(), read_only: true, store: open(true), ..configuration.shares[0].clone() };
            configuration.shares.push(look);
            server.configuration.store(Arc::new(configuration));
            let (mut one, mut other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
            assert_eq!(other.connect("look").await, Status::SUCCESS);

            let deleted = one.open(name).await;
            let reads = |request: &mut CreateRequest<'_>| request.desired_access = READ_DATA.into();
            let last = other.create(name, reads).await;
            let last = last.file_id();
            assert_eq!(one.set(deleted, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
            one.close(deleted).await;
            assert!(exists(&store, name));
            other.close(last).await;
            assert!(!exists(&store, name), "{name}");
            assert_eq!(exists(&store, "file"), name != "file");
        }
    };
    LocalSet::new().run_until(test).await;
}
