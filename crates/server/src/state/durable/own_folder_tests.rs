//! Whose turn it is while opens close: records wait for the server's own folder and files for their share's device. The pool works when it is told to.

use std::sync::Arc;
use std::time::Duration;

use store::{DirectoryStore, Resolved, SharePath, Store, Use};
use tokio::task::yield_now;
use wire::command::close::{CloseFlags, CloseRequest};
use wire::fscc::FileClass;
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::tests::{GUID, create, run};
use crate::resource::pool::{Device, QueueKey};
use crate::state::configuration::Signing;
use crate::state::open::Open;
use crate::state::pipe::Pipe;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, by_hand, server_with, working};

struct Scene {
    machine: Machine,
    _folder: tempfile::TempDir,
    server: Arc<Shared>,
    peer: Peer,
}

impl Scene {
    /// A share of files that have births, and a client of it.
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(folder.path(), Default::default()).unwrap());
        let machine = Machine { store, folder: tempfile::tempdir().unwrap() };
        let server = by_hand(server_with(Signing::Enabled, Arc::clone(&machine.store)));
        server.durables.keep_records(machine.folder.path()).unwrap();
        let peer = working(&server, persistent_peer(&server)).await;
        Scene { machine, _folder: folder, server, peer }
    }

    /// Opens a file persistently, and another one for as long as the session lasts.
    async fn open(&mut self) -> (FileId, FileId) {
        let persistent = persistent(GUID);
        let persistent = working(&self.server, create(&mut self.peer, "file", &persistent)).await.file_id();
        let mortal = working(&self.server, self.peer.open("mortal")).await;
        assert_eq!(self.machine.records().len(), 1);
        (persistent, mortal)
    }

    async fn mark_deleted(&mut self, id: FileId) {
        let set = self.peer.set(id, FileClass::DISPOSITION, &[1]);
        assert_eq!(working(&self.server, set).await, Status::SUCCESS);
    }

    async fn begin_close(&mut self, file_id: FileId, flags: CloseFlags) {
        let request = CloseRequest { file_id, flags };
        let mut message = self.peer.message(Command::CLOSE, |body| request.encode(body));
        self.peer.process(&mut message).unwrap();
        settle().await;
    }

    /// How much waits for the server's own folder, and for the share's device.
    fn waiting(&self) -> [usize; 2] {
        let session = &self.peer.connection.channel(self.peer.session_id).unwrap().session;
        let volume = Device::Volume(self.machine.store.facts().volume);
        [Device::Own, volume].map(|device| {
            let queue_key = session.queue_key(device);
            let turns = [
                queue_key,
                queue_key.first(),
                QueueKey { session: 0, ..queue_key },
                QueueKey { user: 0, session: 0, ..queue_key },
            ];
            turns.map(|queue_key| self.server.pool.waiting(queue_key)).iter().sum()
        })
    }

    /// Has the pool do the one piece of work that waits.
    async fn work(&self) {
        assert!(self.server.pool.work_once());
        settle().await;
    }

    /// What the client is told once the pool has nothing left to do.
    async fn answer(&self) -> Status {
        let last = tokio::time::timeout(Duration::from_secs(60), self.peer.last());
        let answer = working(&self.server, last).await.expect("no answer");
        answer.status()
    }

    fn exists(&self, name: &str) -> bool {
        let found = self.machine.store.resolve(&SharePath::parse(name).unwrap(), Use::Metadata).unwrap();
        matches!(found, Resolved::Found { .. })
    }
}

async fn settle() {
    for _ in 0..20 {
        yield_now().await;
    }
}

#[test]
fn a_close_that_only_forgets_a_record_waits_for_the_own_folder_alone() {
    run(async {
        let mut scene = Scene::new().await;
        let (id, _) = scene.open().await;
        scene.begin_close(id, CloseFlags::NONE).await;
        assert_eq!(scene.waiting(), [1, 0]);
        assert_eq!((scene.machine.records().len(), scene.server.files.claims()), (1, 2), "the record goes first");
        scene.work().await;
        assert_eq!((scene.waiting(), scene.machine.records().len(), scene.server.files.claims()), ([0, 0], 0, 1));
        assert_eq!(scene.answer().await, Status::SUCCESS);
    });
}

#[test]
fn a_close_that_tells_attributes_waits_for_the_device_once_the_record_is_gone() {
    run(async {
        let mut scene = Scene::new().await;
        let (id, mortal) = scene.open().await;
        scene.begin_close(id, CloseFlags::POSTQUERY_ATTRIB).await;
        assert_eq!(scene.waiting(), [1, 0]);
        while scene.server.pool.work_once() {
            settle().await;
        }
        assert_eq!((scene.machine.records().len(), scene.server.files.claims()), (0, 1));
        assert_eq!(scene.answer().await, Status::SUCCESS);
        scene.begin_close(mortal, CloseFlags::NONE).await;
        assert_eq!((scene.waiting()[0], scene.server.files.claims()), (0, 0));
    });
}

#[test]
fn a_close_that_deletes_waits_for_the_device_and_then_for_the_own_folder() {
    run(async {
        let mut scene = Scene::new().await;
        let (id, _) = scene.open().await;
        scene.mark_deleted(id).await;
        scene.begin_close(id, CloseFlags::NONE).await;
        assert_eq!(scene.waiting(), [0, 1]);
        scene.work().await;
        assert_eq!((scene.waiting(), scene.exists("file"), scene.machine.records().len()), ([1, 0], false, 1));
        scene.work().await;
        assert_eq!((scene.waiting(), scene.machine.records().len()), ([0, 0], 0));
        assert_eq!(scene.answer().await, Status::SUCCESS);
    });
}

#[test]
fn opens_that_close_with_a_recorded_one_do_not_wait_for_the_own_folder() {
    run(async {
        let mut scene = Scene::new().await;
        let (id, mortal) = scene.open().await;
        let [id, mortal]: [Arc<Open>; 2] = [id, mortal].map(|id| scene.peer.opened(&scene.server, id));
        let pipe = Pipe::open("srvsvc", &crate::resource::budget::Budget::new(0)).unwrap();
        let pipe = Open::new(
            scene.server.new_open_id(),
            Arc::clone(&id.line),
            Arc::clone(&id.user),
            Arc::clone(&id.tree),
            crate::state::open::Target::Pipe(Box::new(pipe)),
            crate::state::authorization::GrantedAccess::recorded(0),
        );
        scene.server.close_on_pool(vec![id, mortal, Arc::new(pipe)]);
        assert_eq!(scene.waiting(), [1, 1]);
        while scene.server.pool.work_once() {}
        assert_eq!((scene.waiting(), scene.machine.records().len(), scene.server.files.claims()), ([0, 0], 0, 0));
    });
}
