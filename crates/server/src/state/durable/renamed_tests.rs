//! Persistent opens of a file that was just getting a new name when the server was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use store::{Error, Facts, Name, Node, RamStore, Resolved, SharePath, Space, Store, Use};
use wire::command::create::{CreateDisposition, CreateRequest, ShareAccess};
use wire::context::durable::DurableFlags;
use wire::ids::{FileId, Guid};
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::tests::{GUID, KEY, back_v2, bytes, create, lose, run, with_lease, works};
use crate::state::configuration::Signing;
use crate::state::open_id::OpenId;
use crate::tests::interrupted::{Call, Interrupted, is_to_happen_here, once_here};
use crate::tests::testing::{Peer, server_with};

const OTHER_GUID: Guid = Guid([9; 16]);

/// A store that keeps what is recorded when a name is looked for in its directory: last just before it changes.
struct Watched {
    disk: Arc<dyn Store>,
    records: PathBuf,
    kept: PathBuf,
}

impl Store for Watched {
    fn facts(&self) -> Facts {
        self.disk.facts()
    }

    fn space(&self) -> Result<Space, Error> {
        self.disk.space()
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.disk.resolve(path, usage)
    }

    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.disk.try_resolve(path, usage)
    }

    fn directory_of(&self, path: &SharePath) -> Result<(Arc<dyn Node>, Name), Error> {
        copy(&self.records, &self.kept);
        self.disk.directory_of(path)
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(to).unwrap() {
        fs::remove_file(entry.unwrap().path()).unwrap();
    }
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// A machine, and what it is when it was killed between the change of a name and the record of it.
fn machines() -> (Machine, Machine) {
    let (before, after) = (Machine::new(), Machine::new());
    let after = Machine { store: Arc::clone(&before.store), ..after };
    (before, after)
}

async fn renamed(peer: &mut Peer, id: FileId, to: &str) {
    assert_eq!(peer.rename(id, to).await, Status::SUCCESS);
}

#[test]
fn persistent_opens_come_back_where_the_server_was_killed_between_a_rename_and_their_records() {
    run(async {
        let (machine, killed) = machines();
        let (records, kept) = (machine.folder.path().to_owned(), killed.folder.path().to_owned());
        let store = Watched { disk: Arc::clone(&machine.store), records, kept };
        let server = server_with(Signing::Enabled, Arc::new(store));
        server.durables.keep_records(machine.folder.path()).unwrap();
        let mut peer = persistent_peer(&server).await;
        let mut ids = Vec::new();
        for guid in [GUID, OTHER_GUID] {
            let bytes = bytes(&persistent(guid));
            let share = |request: &mut wire::command::create::CreateRequest<'_>| {
                request.share_access = ShareAccess::READ | ShareAccess::WRITE | ShareAccess::DELETE;
            };
            ids.push(peer.create_edited("before", &bytes, share).await.file_id());
        }
        renamed(&mut peer, ids[0], "after").await;

        let server = killed.start();
        let (mut peer, mut other) = (persistent_peer(&server).await, persistent_peer(&server).await);
        assert_eq!(create(&mut other, "after", &vec![]).await.status(), Status::FILE_NOT_AVAILABLE);
        for (id, guid) in ids.into_iter().zip([GUID, OTHER_GUID]) {
            let back = bytes(&back_v2(id, guid, DurableFlags::PERSISTENT));
            assert_eq!(peer.create_edited("after", &back, |_| {}).await.file_id(), id);
            assert!(works(&mut peer, id).await);
        }
        // It is found once more by what is recorded now.
        renamed(&mut peer, ids_first(&killed), "third").await;
        let server = killed.start();
        let mut peer = persistent_peer(&server).await;
        assert_eq!(create(&mut peer, "third", &vec![]).await.status(), Status::FILE_NOT_AVAILABLE);
    });
}

/// An open of which there is a record.
fn ids_first(machine: &Machine) -> FileId {
    let path = machine.records().into_iter().next().unwrap();
    let id = u64::from_str_radix(path.file_stem().unwrap().to_str().unwrap(), 16).unwrap();
    FileId { persistent: id, volatile: id }
}

#[test]
fn a_rename_whose_answer_was_lost_with_the_server_leaves_its_client_the_old_name_to_come_back_by() {
    run(async {
        let (machine, killed) = machines();
        let (records, kept) = (machine.folder.path().to_owned(), killed.folder.path().to_owned());
        let store = Watched { disk: Arc::clone(&machine.store), records, kept };
        let server = server_with(Signing::Enabled, Arc::new(store));
        server.durables.keep_records(machine.folder.path()).unwrap();
        let mut peer = persistent_peer(&server).await;
        let id = create(&mut peer, "before", &with_lease(persistent(GUID), KEY)).await.file_id();
        renamed(&mut peer, id, "after").await;

        let mut peer = persistent_peer(&killed.start()).await;
        let back = with_lease(back_v2(id, GUID, DurableFlags::PERSISTENT), KEY);
        assert_eq!(create(&mut peer, "elsewhere", &back).await.status(), Status::INVALID_PARAMETER);
        assert_eq!(create(&mut peer, "before", &back).await.file_id(), id);
    });
}

#[test]
fn what_is_renamed_through_an_open_that_came_back_is_recorded() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let id = create(&mut peer, "before", &persistent(GUID)).await.file_id();
        lose(&peer);
        let mut peer = persistent_peer(&server).await;
        let back = back_v2(id, GUID, DurableFlags::PERSISTENT);
        assert_eq!(create(&mut peer, "before", &back).await.file_id(), id);
        renamed(&mut peer, id, "after").await;

        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        assert_eq!(create(&mut peer, "after", &back).await.file_id(), id);
    });
}

#[test]
fn a_rename_that_was_refused_changes_nothing_that_is_recorded() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let id = create(&mut peer, "before", &persistent(GUID)).await.file_id();
        let taken = peer.open("after").await;
        assert_eq!(peer.rename(id, "after").await, Status::OBJECT_NAME_COLLISION);
        peer.close(taken).await;
        let mut peer = persistent_peer(&machine.start()).await;
        let back = back_v2(id, GUID, DurableFlags::PERSISTENT);
        assert_eq!(create(&mut peer, "before", &back).await.file_id(), id);
    });
}

/// Asks for a persistent open, without waiting for the answer.
fn asking(peer: &mut Peer, name: &str) -> Vec<u8> {
    let open = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::OPEN;
    peer.create_message(name, &bytes(&persistent(GUID)), open)
}

#[test]
fn what_is_opened_persistently_in_the_middle_of_its_rename_is_recorded_by_the_new_name() {
    for (before, to, after, during) in [
        ("before", "after", "after", Call::FindDirectory),
        ("file:before", ":after", "file:after", Call::LookForStream),
    ] {
        run(async {
            let (store, _) = Interrupted::around(RamStore::new(64 << 20));
            let machine = Machine { store, ..Machine::new() };
            let server = machine.start();
            let (mut renamer, mut other) = (Peer::sign_in(&server).await, persistent_peer(&server).await);
            let id = renamer.open(before).await;
            let open = server.sessions.find(renamer.session_id).unwrap().open(OpenId(id.persistent)).unwrap();
            let (mut opening, records) = (asking(&mut other, before), machine.folder.path().to_owned());
            let other = Rc::new(other);
            let opener = Rc::clone(&other);
            once_here(during, move || {
                opener.process(&mut opening).unwrap();
                let (file, began) = (&open.file().unwrap().file, Instant::now());
                while !file.is_name_change_awaited() && fs::read_dir(&records).unwrap().next().is_none() {
                    assert!(began.elapsed() < Duration::from_secs(60));
                    thread::sleep(Duration::from_millis(1));
                }
            });
            renamed(&mut renamer, id, to).await;
            assert!(!is_to_happen_here(), "it came in the middle");
            let opened = loop {
                let answer = other.receive().await;
                if answer.status() != Status::PENDING {
                    break answer.file_id();
                }
            };

            let mut peer = persistent_peer(&machine.start()).await;
            let back = back_v2(opened, GUID, DurableFlags::PERSISTENT);
            assert_eq!(create(&mut peer, after, &back).await.status(), Status::SUCCESS, "{before}");
            assert!(works(&mut peer, opened).await);
        });
    }
}
