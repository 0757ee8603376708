//! A change that is refused has changed nothing: an overwrite leaves a file's data, streams and attributes, a list of extended attributes
//! those that were there.

use std::sync::Arc;

use store::{
    DirectoryOptions, DirectoryStore, Error, ExtendedAttribute, Name, Node, RamStore, Resolved, SharePath, Store, Use,
    Waits,
};
use wire::command::change_notify::{ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter};
use wire::command::create::{CreateAction, CreateDisposition, CreateOptions, CreateResponse};
use wire::context::create::{CreateContextsBuilder, name};
use wire::fscc::ea::{FullEa, FullEaWriter};
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Command, FileId};
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::interrupted::{Call, Interrupted, Meanwhile};
use crate::tests::testing::{Peer, on_shard, server_with};

const EMPTIES: [CreateDisposition; 3] =
    [CreateDisposition::OVERWRITE, CreateDisposition::OVERWRITE_IF, CreateDisposition::SUPERSEDE];
static DATA: [u8; 60_000] = [7; 60_000];
const DISK: u64 = 4 << 20;

/// What stays of a file, or does not.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    length: u64,
    data: Vec<u8>,
    attributes: u32,
    extended: Vec<ExtendedAttribute>,
    streams: Vec<(String, u64)>,
}

fn found(store: &dyn Store) -> Arc<dyn Node> {
    match store.resolve(&SharePath::parse("file").unwrap(), Use::ReadWrite).unwrap() {
        Resolved::Found { node, .. } => node,
        Resolved::Missing { .. } => panic!("the file has gone"),
    }
}

fn kept(store: &dyn Store) -> Kept {
    let node = found(store);
    let mut data = vec![0; DATA.len() + 1];
    let length = node.read_at(&mut data, 0).unwrap();
    data.truncate(length);
    let mut extended = node.extras().extended().unwrap();
    extended.sort();
    let streams = node.extras().streams().unwrap().into_iter().map(|stream| (stream.name, stream.length)).collect();
    let known = node.metadata().unwrap();
    Kept { length: known.length, data, attributes: known.attributes, extended, streams }
}

fn named(name: &str, value: &[u8]) -> ExtendedAttribute {
    (name.to_owned(), value.to_vec())
}

/// A list of extended attributes, as a client sends it.
fn list(all: &[ExtendedAttribute]) -> Vec<u8> {
    let mut list = Vec::new();
    let mut writer = FullEaWriter::new(&mut list, 60_000);
    for (name, value) in all {
        assert!(writer.push(&FullEa { flags: 0, name: name.as_bytes(), value }));
    }
    list
}

struct Scene {
    store: Arc<dyn Store>,
    server: Arc<Shared>,
    peer: Peer,
    meanwhile: Meanwhile,
}

impl Scene {
    /// A file with everything that an overwrite takes away.
    async fn on(store: impl Store) -> Self {
        let (store, meanwhile) = Interrupted::around(store);
        let server = server_with(Signing::Enabled, Arc::clone(&store));
        let mut peer = Peer::sign_in(&server).await;
        let file = peer.open("file").await;
        let node = found(&*store);
        node.write_at(&DATA, 0).unwrap();
        for (name, value) in [("one", &b"first"[..]), ("Two", b"second")] {
            node.extras().set_extended(name, value).unwrap();
        }
        node.extras().create_stream("stream").unwrap().write_at(b"stream", 0).unwrap();
        peer.close(file).await;
        Scene { store, server, peer, meanwhile }
    }

    async fn in_memory() -> Self {
        Scene::on(RamStore::new(DISK)).await
    }

    /// Empties the file, and asks for these extended attributes and so much space.
    async fn empty(&mut self, how: CreateDisposition, extended: &[ExtendedAttribute], space: Option<u64>) -> Status {
        let mut contexts = CreateContextsBuilder::new();
        if !extended.is_empty() {
            contexts.add(name::EA_BUFFER, &list(extended));
        }
        if let Some(bytes) = space {
            contexts.add(name::ALLOCATION_SIZE, &bytes.to_le_bytes());
        }
        let contexts = contexts.contexts().as_bytes().to_vec();
        let edit = |request: &mut wire::command::create::CreateRequest<'_>| {
            request.disposition = how;
            request.file_attributes = FileAttributes::TEMPORARY.0;
        };
        let answer = self.peer.create_edited("file", &contexts, edit).await;
        if answer.status() == Status::SUCCESS {
            self.peer.close(answer.file_id()).await;
        }
        answer.status()
    }

    async fn set(&mut self, file: FileId, asked: &[ExtendedAttribute]) -> Status {
        self.peer.set(file, FileClass::FULL_EA, &list(asked)).await
    }

    /// Leaves the disk so many bytes.
    fn fill_to(&self, left_bytes: u64) {
        let (root, _) = self.store.directory_of(&SharePath::parse("file").unwrap()).unwrap();
        let new = store::NewNode { kind: store::Kind::File, attributes: 0, security: None, owner: None };
        let filler = root.names().unwrap().create(&Name::new("filler").unwrap(), new).unwrap();
        let mut number = 0;
        while self.store.space().unwrap().free_bytes > left_bytes {
            let value = vec![1; (self.store.space().unwrap().free_bytes / 2).min(60_000) as usize];
            filler.extras().set_extended(&format!("name{number}"), &value).unwrap();
            number += 1;
        }
    }

    /// Such calls fail from now on.
    fn fail(&self, wanted: Call, error: Error) {
        self.meanwhile.set(move |call, _| if call == wanted { Err(error) } else { Ok(()) });
    }

    /// Begins to hear what changes in the share.
    async fn watch(&self, filter: CompletionFilter) -> Peer {
        let mut watcher = Peer::sign_in(&self.server).await;
        let root = watcher.create("", |request| request.options = CreateOptions::DIRECTORY_FILE).await;
        let request = ChangeNotifyRequest {
            flags: ChangeNotifyFlags::NONE,
            output_buffer_length: 4096,
            file_id: root.file_id(),
            completion_filter: filter,
        };
        let mut watch = watcher.message(Command::CHANGE_NOTIFY, |body| request.encode(body));
        watcher.process(&mut watch).unwrap();
        assert_eq!(watcher.receive().await.status(), Status::PENDING);
        watcher
    }
}

fn three() -> Vec<ExtendedAttribute> {
    vec![named("ONE", b"new"), named("three", b"3"), named("four", b"4")]
}

#[tokio::test]
async fn an_overwrite_that_is_refused_for_want_of_space_leaves_the_file_as_it_was() {
    on_shard(async {
        for how in EMPTIES {
            let mut scene = Scene::in_memory().await;
            let before = kept(&*scene.store);
            let watcher = scene.watch(CompletionFilter::SIZE | CompletionFilter::ATTRIBUTES).await;
            for extended in [vec![], three()] {
                for bytes in [2 * DISK, 100 << 40] {
                    assert_eq!(scene.empty(how, &extended, Some(bytes)).await, Status::DISK_FULL);
                    assert_eq!(kept(&*scene.store), before, "{how:?}");
                }
            }
            assert!(watcher.take_frame().is_none(), "nothing has changed");
        }
    })
    .await;
}

#[tokio::test]
async fn an_overwrite_whose_extended_attributes_do_not_fit_leaves_the_file_as_it_was() {
    on_shard(async {
        for how in EMPTIES {
            let mut scene = Scene::in_memory().await;
            scene.fill_to(8_000);
            let before = kept(&*scene.store);
            let many: Vec<ExtendedAttribute> =
                (0..20).map(|number| named(&format!("name{number}"), &[1; 1_000])).collect();
            assert_eq!(scene.empty(how, &many, None).await, Status::DISK_FULL);
            assert_eq!(kept(&*scene.store), before, "{how:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_overwrite_that_has_room_leaves_what_was_asked_for_and_nothing_else() {
    on_shard(async {
        let mut scene = Scene::in_memory().await;
        for how in EMPTIES {
            assert_eq!(scene.empty(how, &three(), Some(DISK / 2)).await, Status::SUCCESS);
            let mut expected = three();
            expected.sort();
            let attributes = (FileAttributes::TEMPORARY | FileAttributes::ARCHIVE).0;
            let whole = Kept { length: 0, data: vec![], attributes, extended: expected, streams: vec![] };
            assert_eq!(kept(&*scene.store), whole);
            assert!(found(&*scene.store).metadata().unwrap().allocated >= DISK / 2);
            assert_eq!(scene.empty(how, &[], None).await, Status::SUCCESS);
            assert_eq!(kept(&*scene.store).extended, []);
        }
    })
    .await;
}

#[tokio::test]
async fn an_overwrite_that_cannot_be_undone_is_told() {
    on_shard(async {
        let mut scene = Scene::on(RamStore::that_waits(DISK, Waits::ForData)).await;
        let watcher = scene.watch(CompletionFilter::SIZE).await;
        scene.fail(Call::Renew, Error::Io(5));
        let status = scene.empty(CreateDisposition::OVERWRITE, &three(), None).await;
        assert_eq!(status, Status::UNEXPECTED_IO_ERROR);
        scene.meanwhile.clear();
        assert_eq!(kept(&*scene.store).length, DATA.len() as u64);
        assert_eq!(watcher.receive().await.header.command, Command::CHANGE_NOTIFY);
    })
    .await;
}

/// Has what looks at a file's metadata fail once it was emptied.
fn fail_to_look_once_emptied(scene: &Scene, by: Call) {
    let mut is_emptied = false;
    scene.meanwhile.set(move |call, _| {
        is_emptied |= call == by;
        if is_emptied && matches!(call, Call::Look | Call::TryToLook) { Err(Error::Io(5)) } else { Ok(()) }
    });
}

#[tokio::test]
async fn an_overwrite_that_was_made_is_answered_as_done_where_the_file_cannot_be_looked_at_after_it() {
    on_shard(async {
        for waits in [Waits::Never, Waits::ForData, Waits::Always] {
            for (how, path, by) in
                EMPTIES.into_iter().flat_map(|how| [(how, "file", Call::Renew), (how, "file:stream", Call::Write)])
            {
                let mut scene = Scene::on(RamStore::that_waits(DISK, waits)).await;
                let before = found(&*scene.store).metadata().unwrap();
                fail_to_look_once_emptied(&scene, by);
                let edit = |request: &mut wire::command::create::CreateRequest<'_>| {
                    request.disposition = how;
                    request.file_attributes = FileAttributes::TEMPORARY.0;
                };
                let answer = scene.peer.create_edited(path, &[], edit).await;
                assert_eq!(answer.status(), Status::SUCCESS, "{how:?} {path} {waits:?}");
                let answer = CreateResponse::decode(&answer.message).unwrap();
                scene.meanwhile.clear();
                let replaces = how == CreateDisposition::SUPERSEDE;
                let action = if replaces { CreateAction::SUPERSEDED } else { CreateAction::OVERWRITTEN };
                assert_eq!(answer.create_action, action);
                assert_eq!((answer.end_of_file, answer.allocation_size), (0, 0));
                assert_eq!(answer.creation_time.0, before.creation.0);
                let known = found(&*scene.store).metadata().unwrap();
                assert_eq!(answer.file_attributes, known.attributes, "{how:?} {path}");
                assert!(answer.last_write_time.0 >= before.write.0);
                scene.peer.close(answer.file_id).await;
                let whole = kept(&*scene.store);
                match path {
                    "file" => assert_eq!((whole.length, whole.streams), (0, vec![])),
                    _ => assert_eq!((whole.length, whole.streams), (60_000, vec![("stream".to_owned(), 0)])),
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_overwrite_in_a_folder_that_is_refused_leaves_the_file_as_it_was() {
    for parent in ["/dev/shm", "/var/tmp"] {
        let Ok(folder) = tempfile::tempdir_in(parent) else { continue };
        let options = DirectoryOptions { quota_bytes: Some(1 << 30), ..DirectoryOptions::default() };
        on_shard(async {
            let mut scene = Scene::on(DirectoryStore::open(folder.path(), options).unwrap()).await;
            let before = kept(&*scene.store);
            let held = found(&*scene.store).metadata().unwrap().allocated;
            for how in EMPTIES {
                for bytes in [2 << 30, 100 << 40] {
                    assert_eq!(scene.empty(how, &three(), Some(bytes)).await, Status::DISK_FULL, "{parent}");
                    assert_eq!(kept(&*scene.store), before, "{parent}");
                    assert_eq!(found(&*scene.store).metadata().unwrap().allocated, held, "nothing is reserved");
                }
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_list_of_extended_attributes_that_is_refused_has_set_none_of_them() {
    on_shard(async {
        let mut scene = Scene::in_memory().await;
        let file = scene.peer.open("file").await;
        scene.fill_to(8_000);
        let before = kept(&*scene.store);
        let watcher = scene.watch(CompletionFilter::EA).await;
        let asked = [named("ONE", b"new"), named("three", &[3; 20_000]), named("two", b"")];
        assert_eq!(scene.set(file, &asked).await, Status::DISK_FULL);
        assert_eq!(kept(&*scene.store), before);
        assert!(watcher.take_frame().is_none(), "nothing has changed");
    })
    .await;
}

#[tokio::test]
async fn a_value_that_takes_a_larger_ones_place_needs_no_room_for_both() {
    on_shard(async {
        let mut scene = Scene::in_memory().await;
        let file = scene.peer.open("file").await;
        found(&*scene.store).extras().set_extended("large", &[1; 20_000]).unwrap();
        scene.fill_to(8_000);
        assert_eq!(scene.set(file, &[named("large", &[2; 19_000])]).await, Status::SUCCESS);
        assert!(kept(&*scene.store).extended.contains(&named("large", &[2; 19_000])));
        let before = kept(&*scene.store);
        assert_eq!(scene.set(file, &[named("large", &[3; 40_000])]).await, Status::DISK_FULL);
        assert_eq!(kept(&*scene.store), before);
    })
    .await;
}

#[tokio::test]
async fn a_full_disk_is_told_from_a_file_that_takes_no_more_attributes() {
    on_shard(async {
        for (error, expected) in [(Error::TooLarge, Status::EA_TOO_LARGE), (Error::Full, Status::DISK_FULL)] {
            let mut scene = Scene::in_memory().await;
            let file = scene.peer.open("file").await;
            scene.fail(Call::ChangeExtended, error);
            assert_eq!(scene.set(file, &[named("three", b"3")]).await, expected);
        }
    })
    .await;
}

#[tokio::test]
async fn extended_attributes_that_could_not_be_put_back_are_told_as_changed() {
    on_shard(async {
        let mut scene = Scene::in_memory().await;
        let file = scene.peer.open("file").await;
        let watcher = scene.watch(CompletionFilter::EA).await;
        scene.fail(Call::ChangeExtended, Error::Io(5));
        let asked = [named("ONE", b"new"), named("three", b"3")];
        assert_eq!(scene.set(file, &asked).await, Status::UNEXPECTED_IO_ERROR);
        assert_eq!(watcher.receive().await.header.command, Command::CHANGE_NOTIFY);
    })
    .await;
}
