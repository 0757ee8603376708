//! Persistent opens of a file that was just getting a new name when the server was killed.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{Error, Facts, Name, Node, Resolved, SharePath, Space, Store, Use};
use wire::command::create::ShareAccess;
use wire::context::durable::DurableFlags;
use wire::fscc::FileClass;
use wire::fscc::rename::Rename;
use wire::ids::{FileId, Guid};
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::tests::{GUID, KEY, back_v2, bytes, create, file_id, lose, run, with_lease, works};
use crate::admin::Signing;
use crate::testing::{Peer, server_with};

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
    let mut buffer = Vec::new();
    Rename::encode(to, false, &mut buffer);
    assert_eq!(peer.set(id, FileClass::RENAME, &buffer).await, Status::SUCCESS);
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
            ids.push(file_id(&peer.create_edited("before", &bytes, share).await));
        }
        renamed(&mut peer, ids[0], "after").await;

        let server = killed.start();
        let (mut peer, mut other) = (persistent_peer(&server).await, persistent_peer(&server).await);
        assert_eq!(create(&mut other, "after", &vec![]).await.status(), Status::FILE_NOT_AVAILABLE);
        for (id, guid) in ids.into_iter().zip([GUID, OTHER_GUID]) {
            let back = bytes(&back_v2(id, guid, DurableFlags::PERSISTENT));
            assert_eq!(file_id(&peer.create_edited("after", &back, |_| {}).await), id);
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
        let id = file_id(&create(&mut peer, "before", &with_lease(persistent(GUID), KEY)).await);
        renamed(&mut peer, id, "after").await;

        let mut peer = persistent_peer(&killed.start()).await;
        let back = with_lease(back_v2(id, GUID, DurableFlags::PERSISTENT), KEY);
        assert_eq!(create(&mut peer, "elsewhere", &back).await.status(), Status::INVALID_PARAMETER);
        assert_eq!(file_id(&create(&mut peer, "before", &back).await), id);
    });
}

#[test]
fn what_is_renamed_through_an_open_that_came_back_is_recorded() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let id = file_id(&create(&mut peer, "before", &persistent(GUID)).await);
        lose(&peer);
        let mut peer = persistent_peer(&server).await;
        let back = back_v2(id, GUID, DurableFlags::PERSISTENT);
        assert_eq!(file_id(&create(&mut peer, "before", &back).await), id);
        renamed(&mut peer, id, "after").await;

        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        assert_eq!(file_id(&create(&mut peer, "after", &back).await), id);
    });
}

#[test]
fn a_rename_that_was_refused_changes_nothing_that_is_recorded() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let id = file_id(&create(&mut peer, "before", &persistent(GUID)).await);
        let taken = peer.open("after").await;
        let mut buffer = Vec::new();
        Rename::encode("after", false, &mut buffer);
        assert_eq!(peer.set(id, FileClass::RENAME, &buffer).await, Status::OBJECT_NAME_COLLISION);
        peer.close(taken).await;
        let mut peer = persistent_peer(&machine.start()).await;
        let back = back_v2(id, GUID, DurableFlags::PERSISTENT);
        assert_eq!(file_id(&create(&mut peer, "before", &back).await), id);
    });
}
