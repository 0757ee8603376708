//! What is on the disk while persistent opens close whose files go.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use store::{DirectoryStore, Node, Resolved, SharePath, Use};
use wire::command::create::{CreateOptions, CreateRequest};
use wire::context::durable::DurableFlags;
use wire::context::lease::LeaseState;
use wire::fscc::FileClass;
use wire::ids::FileId;
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::record::Record;
use super::restored_caching_tests::{OTHER_GUID, OTHER_KEY, leased, nothing, other_peer};
use super::tests::{GUID, back_v2, bytes, create, run};
use crate::tests::interrupted::{Call, Interrupted, is_to_happen_here, once_here};

/// A machine whose share is a folder of files that have births.
fn machine(share: &Path) -> Machine {
    fs::create_dir(share).unwrap();
    let (store, _) = Interrupted::around(DirectoryStore::open(share, Default::default()).unwrap());
    Machine { store, folder: tempfile::tempdir().unwrap() }
}

fn found(machine: &Machine) -> Option<Arc<dyn Node>> {
    match machine.store.resolve(&SharePath::parse("file").unwrap(), Use::Metadata).unwrap() {
        Resolved::Found { node, .. } => Some(node),
        Resolved::Missing { .. } => None,
    }
}

fn exists(machine: &Machine, name: &str) -> bool {
    found(machine).is_some_and(|file| name == "file" || file.extras().stream("stream").unwrap().is_some())
}

fn record_of(machine: &Machine, id: FileId) -> PathBuf {
    machine.folder.path().join(format!("{:016x}.open", id.persistent))
}

/// What is on the disk where the server was killed just before it removed `name`, which is deleted and closed: the records, and the file
/// as `kept`.
async fn closing(machine: &Machine, name: &str, (file, kept): (&Path, &Path)) -> (FileId, tempfile::TempDir) {
    let server = machine.start();
    let mut peer = persistent_peer(&server).await;
    let id = create(&mut peer, name, &nothing(persistent(GUID))).await.file_id();
    assert_eq!(peer.set(id, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    let (open, records) = (peer.opened(&server, id), tempfile::tempdir().unwrap());
    let (record, copy) = (record_of(machine, id), records.path().to_owned());
    let (file, kept) = (file.to_owned(), kept.to_owned());
    let call = if name == "file" { Call::FindDirectory } else { Call::RemoveStream };
    let close = move || {
        once_here(call, move || {
            // Where there is none the client was told too much.
            let _ = fs::copy(&record, copy.join(record.file_name().unwrap()));
            fs::hard_link(file, kept).unwrap();
        });
        open.close(&server);
        assert!(!is_to_happen_here());
    };
    thread::spawn(close).join().unwrap();
    assert!(!exists(machine, name));
    assert_eq!(machine.records(), Vec::<PathBuf>::new());
    (id, records)
}

#[test]
fn what_was_deleted_goes_though_the_server_is_killed_while_its_open_closes() {
    run(async {
        for name in ["file", "file:stream"] {
            let folder = tempfile::tempdir().unwrap();
            let (file, kept) = (folder.path().join("share/file"), folder.path().join("kept"));
            let machine = machine(&folder.path().join("share"));
            let (id, records) = closing(&machine, name, (&file, &kept)).await;
            if name == "file" {
                fs::rename(kept, file).unwrap();
            } else {
                found(&machine).unwrap().extras().create_stream("stream").unwrap();
            }
            assert!(exists(&machine, name));

            let machine = Machine { folder: records, ..machine };
            let mut peer = persistent_peer(&machine.start()).await;
            let back = nothing(back_v2(id, GUID, DurableFlags::PERSISTENT));
            assert_eq!(create(&mut peer, name, &back).await.file_id(), id, "{name}");
            peer.close(id).await;
            assert!(!exists(&machine, name), "{name}");
            assert_eq!(machine.records(), Vec::<PathBuf>::new());
        }
    });
}

#[test]
fn what_is_made_after_a_deletion_stays_where_the_server_was_killed_before_it_forgot_the_open() {
    run(async {
        for name in ["file", "file:stream"] {
            let folder = tempfile::tempdir().unwrap();
            let (file, kept) = (folder.path().join("share/file"), folder.path().join("kept"));
            let machine = machine(&folder.path().join("share"));
            let (id, records) = closing(&machine, name, (&file, &kept)).await;
            let machine = Machine { folder: records, ..machine };
            assert_eq!(machine.records().len(), 1);

            let mut peer = persistent_peer(&machine.start()).await;
            let back = nothing(back_v2(id, GUID, DurableFlags::PERSISTENT));
            assert_eq!(create(&mut peer, name, &back).await.status(), Status::OBJECT_NAME_NOT_FOUND, "{name}");
            let made = peer.open(name).await;
            peer.close(made).await;
            assert!(exists(&machine, name), "{name}");
            // A file is told from another one of its name. A stream is not, so nobody looks for it again.
            assert_eq!(machine.records().is_empty(), name != "file");
        }
    });
}

#[test]
fn an_open_that_deletes_as_it_closes_is_forgotten_when_others_are_recorded_as_deleted() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let machine = machine(&folder.path().join("share"));
        let server = machine.start();
        let (mut peer, mut other) = (persistent_peer(&server).await, other_peer(&server).await);
        let theirs = leased(persistent(OTHER_GUID), OTHER_KEY, LeaseState::NONE);
        let theirs = create(&mut other, "file", &theirs).await.file_id();
        let deletes = |request: &mut CreateRequest<'_>| {
            request.oplock_level = wire::command::create::OplockLevel::LEASE;
            request.options = CreateOptions::DELETE_ON_CLOSE;
        };
        let id = peer.create_edited("file", &bytes(&nothing(persistent(GUID))), deletes).await.file_id();
        assert!(record_of(&machine, id).exists());

        let stays = other.opened(&server, theirs);
        let (closed, close) = (peer.opened(&server, id), Arc::clone(&server));
        let closing = {
            // The record of the one that stays cannot be written yet.
            let _recording = stays.file().unwrap().durability.recording.lock();
            let closing = thread::spawn(move || closed.close_for_client(&close));
            while server.files.claims() > 1 {
                thread::yield_now();
            }
            assert!(record_of(&machine, id).exists(), "a kill now has the client close it again");
            closing
        };
        assert_eq!(closing.join().unwrap(), Ok(()));
        assert!(!record_of(&machine, id).exists());
        let record = Record::decode(&fs::read(record_of(&machine, theirs)).unwrap()).unwrap();
        assert!(record.delete_pending);
    });
}
