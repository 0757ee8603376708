//! Files and directories that get other names just when somebody opens them, or something below them.

use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{Destination, DirectoryStore, Name, RamStore, Replace, Resolved, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::command::negotiate::Capabilities;
use wire::fscc::FileClass;
use wire::ids::FileId;
use wire::status::Status;

use super::Renaming;
use crate::state::configuration::{Share, Signing};
use crate::state::open_id::OpenId;
use crate::state::shared::Shared;
use crate::tests::interrupted::{Call, Interrupted, is_to_happen_here, once_here};
use crate::tests::testing::{Answer, Peer, Terms, server_with};

/// What is opened below the directory "dir", or made there.
const NAMES: [&str; 4] = ["dir\\file", "dir\\new", "dir\\file:stream", "dir\\file:new"];

/// Two clients; the first has the directory open, in which there is a file with a stream.
async fn two_clients() -> (Arc<Shared>, Arc<dyn Store>, Peer, FileId, Peer) {
    let (store, _) = Interrupted::around(RamStore::new(64 << 20));
    let server = server_with(Signing::Enabled, Arc::clone(&store));
    let (mut one, other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
    let directory = one.open_directory("dir").await;
    for name in ["dir\\file", "dir\\file:stream"] {
        let made = one.open(name).await;
        one.close(made).await;
    }
    (server, store, one, directory, other)
}

fn create(peer: &mut Peer, name: &str) -> Vec<u8> {
    peer.create_message(name, &[], |_| ())
}

fn rename(peer: &mut Peer, file: FileId, to: &str) -> Vec<u8> {
    peer.name_message(file, FileClass::RENAME, to, false)
}

/// Asks, and has `asked` come in from the other client in the middle of that. Gives both answers.
async fn ask_while(peer: &mut Peer, message: Vec<u8>, call: Call, other: Peer, mut asked: Vec<u8>) -> [Answer; 2] {
    let other = Rc::new(other);
    let during = Rc::clone(&other);
    once_here(call, move || during.process(&mut asked).unwrap());
    let answer = peer.exchange(message).await;
    assert!(!is_to_happen_here(), "it came in the middle");
    [answer, other.last().await]
}

fn exists(store: &Arc<dyn Store>, path: &str) -> bool {
    let path = SharePath::parse(path).unwrap();
    matches!(store.resolve(&path, Use::Metadata), Ok(Resolved::Found { .. }))
}

/// True where the open stands by the path that the server has for it.
fn stands_there(server: &Arc<Shared>, store: &Arc<dyn Store>, peer: &Peer, answer: &Answer) -> bool {
    let opened = answer.file_id();
    let path = peer.opened(server, opened).file().unwrap().path.now();
    exists(store, path.as_str())
}

/// The directory has its new name, and nothing was made or opened by the old one.
fn assert_moved(server: &Shared, store: &Arc<dyn Store>, [renamed, opened]: [&Answer; 2], name: &str) {
    assert_eq!(renamed.status(), Status::SUCCESS, "{name}");
    assert_eq!(opened.status(), Status::OBJECT_PATH_NOT_FOUND, "{name}");
    assert!(exists(store, "moved\\file") && !exists(store, "moved\\new"));
    assert_eq!(server.files.claims(), 1, "the directory itself");
}

#[tokio::test]
async fn who_opens_something_below_a_directory_that_is_being_renamed_waits_for_that() {
    for name in NAMES {
        let test = async {
            let (server, store, mut one, directory, mut other) = two_clients().await;
            let renaming = rename(&mut one, directory, "moved");
            let opening = create(&mut other, name);
            let [renamed, opened] = ask_while(&mut one, renaming, Call::FindDirectory, other, opening).await;
            assert_moved(&server, &store, [&renamed, &opened], name);
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn who_has_looked_up_a_path_that_leads_elsewhere_by_now_looks_again() {
    for name in NAMES {
        let test = async {
            let (server, store, mut one, directory, mut other) = two_clients().await;
            let opening = create(&mut other, name);
            let renaming = rename(&mut one, directory, "moved");
            let [opened, renamed] = ask_while(&mut other, opening, Call::Resolve, one, renaming).await;
            assert_moved(&server, &store, [&renamed, &opened], name);
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn who_opens_a_file_just_before_it_is_renamed_opens_what_has_the_name_then() {
    for name in ["file", "FILE", "file:new"] {
        for to in ["renamed", "FiLe"] {
            let test = async {
                let (server, store, mut one, _, mut other) = two_clients().await;
                let file = one.open("file").await;
                let identity = |path: &str| match store.resolve(&SharePath::parse(path).unwrap(), Use::Metadata) {
                    Ok(Resolved::Found { node, .. }) => Some(node.identity()),
                    _ => None,
                };
                let old = identity("file");
                let opening = create(&mut other, name);
                let renaming = rename(&mut one, file, to);
                let [opened, renamed] = ask_while(&mut other, opening, Call::Resolve, one, renaming).await;
                assert_eq!(renamed.status(), Status::SUCCESS);
                assert_eq!(opened.status(), Status::SUCCESS, "{name}: it is made anew where there is none");
                assert!(stands_there(&server, &store, &other, &opened), "{name}");
                let is_new = to == "renamed";
                assert_eq!(identity("file") != old, is_new, "{name}");
                let opened = opened.file_id();
                let session = server.sessions.find(other.session_id).unwrap();
                let open = session.open(OpenId(opened.persistent)).unwrap();
                let path = open.file().unwrap().path.now();
                let expected = if is_new { name.split(':').next().unwrap() } else { to };
                assert_eq!(path.as_str(), expected, "{name}");
            };
            LocalSet::new().run_until(test).await;
        }
    }
}

#[tokio::test]
async fn a_directory_keeps_its_name_while_something_is_made_in_it() {
    for name in ["dir\\new", "dir\\new:stream"] {
        let test = async {
            let (server, store, mut one, directory, mut other) = two_clients().await;
            let making = create(&mut other, name);
            let renaming = rename(&mut one, directory, "moved");
            let [made, renamed] = ask_while(&mut other, making, Call::Made, one, renaming).await;
            assert_eq!(made.status(), Status::SUCCESS, "{name}");
            assert_eq!(renamed.status(), Status::ACCESS_DENIED, "{name}: as where it is open");
            assert!(stands_there(&server, &store, &other, &made), "{name}");
        };
        LocalSet::new().run_until(test).await;
    }
}

/// A directory of the store that gets another name, and does not come to an end before this is dropped.
fn renaming(server: &Arc<Shared>, store: &Arc<dyn Store>, directory: &str) -> Renaming {
    let path = SharePath::parse(directory).unwrap();
    let Ok(Resolved::Found { node, .. }) = store.resolve(&path, Use::Metadata) else {
        panic!("{directory} is missing")
    };
    Renaming::of_directory(&server.files, store, &path, node.identity())
}

/// Waits until somebody waits for directories that get other names, or has an answer. True for the one that waits.
async fn waits(server: &Arc<Shared>, peer: &Peer) -> bool {
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(60));
        if server.files.renames.awaited() > 0 {
            return true;
        }
        if !peer.connection.outbox.borrow_mut().peek(1).is_empty() {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn who_opens_something_waits_for_any_number_of_renames_above_it() {
    for name in NAMES {
        let test = async {
            let (server, store, _one, _, mut other) = two_clients().await;
            let mut under_way = renaming(&server, &store, "dir");
            let mut opening = create(&mut other, name);
            other.process(&mut opening).unwrap();
            for _ in 0..50 {
                assert!(waits(&server, &other).await, "{name}");
                let next = renaming(&server, &store, "dir");
                drop(std::mem::replace(&mut under_way, next));
            }
            drop(under_way);
            assert_eq!(other.last().await.status(), Status::SUCCESS, "{name}");
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn who_opens_a_name_looks_again_however_often_it_comes_to_mean_another_file() {
    let test = async {
        let (server, store, mut one, _, mut other) = two_clients().await;
        let file = one.open("file").await;
        one.close(file).await;
        let file = one.open("other").await;
        one.close(file).await;
        let left = Rc::new(Cell::new(100));
        exchanged_at_each_look(server, store, Rc::clone(&left));
        let opening = create(&mut other, "file");
        assert_eq!(other.exchange(opening).await.status(), Status::SUCCESS);
        assert_eq!(left.get(), 0);
    };
    LocalSet::new().run_until(test).await;
}

/// Has "file" and "other" change places whenever a path was looked up, so many times.
fn exchanged_at_each_look(server: Arc<Shared>, store: Arc<dyn Store>, left: Rc<Cell<usize>>) {
    once_here(Call::Resolve, move || {
        let _renaming = Renaming::of_file(&server.files);
        for (from, to) in [("file", "third"), ("other", "file"), ("third", "other")] {
            let (directory, name) = store.directory_of(&SharePath::parse(from).unwrap()).unwrap();
            let (_, node) = directory.names().unwrap().child(&name, Use::Metadata).unwrap().unwrap();
            let to = Name::new(to).unwrap();
            let to = Destination { directory: &*directory, name: &to };
            directory.names().unwrap().rename(&name, node.identity(), to, Replace::No).unwrap();
        }
        left.set(left.get() - 1);
        if left.get() > 0 {
            exchanged_at_each_look(Arc::clone(&server), Arc::clone(&store), left);
        }
    });
}

#[tokio::test]
async fn who_opens_something_waits_for_no_rename_of_what_is_not_above_it_in_its_share() {
    let test = async {
        let (folder, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for directory in ["d/sub", "d/other", "e"] {
            fs::create_dir_all(folder.path().join(directory)).unwrap();
        }
        let store =
            |folder: &Path| Arc::new(DirectoryStore::open(folder, Default::default()).unwrap()) as Arc<dyn Store>;
        let whole = store(folder.path());
        let server = server_with(Signing::Enabled, Arc::clone(&whole));
        let mut configuration = (**server.configuration.load()).clone();
        for (name, folder) in [("again", folder.path()), ("inner", &folder.path().join("d")), ("beside", beside.path())]
        {
            configuration.shares.push(Share {
                name: name.into(),
                store: store(folder),
                ..configuration.shares[0].clone()
            });
        }
        server.configuration.store(Arc::new(configuration));
        for (directory, share, name, is_above) in [
            ("d", "ram", "d\\file", true),
            ("d", "ram", "e\\file", false),
            ("d", "again", "d\\file", true),
            ("d", "again", "d\\sub\\file:stream", true),
            ("d", "again", "e\\file", false),
            ("d", "again", "file", false),
            ("d", "inner", "file", false),
            ("d", "inner", "sub\\file", false),
            ("d\\sub", "inner", "sub\\file", true),
            ("d\\sub", "inner", "other\\file", false),
            ("d\\sub", "again", "d\\file", false),
            ("d", "beside", "file", false),
        ] {
            // The first makes it, the second opens what there is.
            for _ in 0..2 {
                let mut peer = Peer::sign_in(&server).await;
                assert_eq!(peer.connect(share).await, Status::SUCCESS);
                let under_way = renaming(&server, &whole, directory);
                let mut opening = create(&mut peer, name);
                peer.process(&mut opening).unwrap();
                assert_eq!(waits(&server, &peer).await, is_above, "{share}: {name} below {directory}");
                drop(under_way);
                assert_eq!(peer.last().await.status(), Status::SUCCESS, "{share}: {name}");
            }
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn nobody_waits_for_the_disk_to_keep_a_rename() {
    let test = async {
        let (store, _) = Interrupted::around(RamStore::new(64 << 20));
        let (server, records) = (server_with(Signing::Enabled, store), tempfile::tempdir().unwrap());
        server.durables.keep_records(records.path()).unwrap();
        let capabilities = Terms::default().capabilities | Capabilities::PERSISTENT_HANDLES;
        let mut one = Peer::sign_in_as(&server, Terms { capabilities, ..Terms::default() }).await;
        let directory = one.open_directory("dir").await;
        let (shared, under_way) = (Arc::clone(&server), Rc::new(Cell::new(None)));
        let seen = Rc::clone(&under_way);
        once_here(Call::Sync, move || seen.set(Some(shared.files.renames.are_under_way())));
        let renaming = rename(&mut one, directory, "moved");
        assert_eq!(one.exchange(renaming).await.status(), Status::SUCCESS);
        assert_eq!(under_way.get(), Some(false));
    };
    LocalSet::new().run_until(test).await;
}
