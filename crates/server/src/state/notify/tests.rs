//! CHANGE_NOTIFY as clients see it.

mod deep;
mod many;
mod requests;
mod sight;

use std::sync::Arc;

use store::{DirectoryOptions, DirectoryStore, Resolved, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::command::change_notify::{
    ChangeNotifyFlags, ChangeNotifyRequest, ChangeNotifyResponse, CompletionFilter as Filter,
};
use wire::command::create::{CreateDisposition, CreateOptions};
use wire::command::flush::FlushRequest;
use wire::command::set_info::{InfoType, SetInfoRequest};
use wire::command::tree_connect::TreeConnectRequest;
use wire::fscc::ea::{FullEa, FullEaWriter};
use wire::fscc::file::Basic;
use wire::fscc::notify::changes;
use wire::fscc::{FileAttributes, FileClass};
use wire::header::Header;
use wire::ids::{Command, FileId, FileTime};
use wire::security::{SecurityDescriptor, SecurityInformation};
use wire::{Utf16, codec};

use super::*;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, Peer, by_hand, server, working};

const ALL: Filter = Filter(0xFFF);
const ROOM: u32 = 4096;

/// What is asked for.
#[derive(Clone, Copy)]
struct Asked {
    filter: Filter,
    reach: Reach,
    room: u32,
}

const NAMES: Asked =
    Asked { filter: Filter(Filter::FILE_NAME.0 | Filter::DIR_NAME.0), reach: Reach::Directory, room: ROOM };

fn send(peer: &mut Peer, file_id: FileId, asked: Asked) {
    let flags = match asked.reach {
        Reach::Tree => ChangeNotifyFlags::WATCH_TREE,
        Reach::Directory => ChangeNotifyFlags(0),
    };
    let request =
        ChangeNotifyRequest { flags, output_buffer_length: asked.room, file_id, completion_filter: asked.filter };
    let mut message = peer.message(Command::CHANGE_NOTIFY, |body| request.encode(body));
    peer.process(&mut message).unwrap();
}

/// Sends a request; gives its interim response's header, or its answer.
async fn ask(peer: &mut Peer, file_id: FileId, asked: Asked) -> Answer {
    send(peer, file_id, asked);
    peer.receive().await
}

async fn wait(peer: &mut Peer, file_id: FileId, asked: Asked) -> Header {
    let answer = ask(peer, file_id, asked).await;
    assert_eq!(answer.status(), Status::PENDING);
    answer.header
}

/// The changes in an answer.
fn told(answer: &Answer) -> Vec<(Action, String)> {
    assert_eq!(answer.status(), Status::SUCCESS);
    let response = ChangeNotifyResponse::decode(&answer.message).unwrap();
    changes(response.output).map(|change| change.unwrap()).map(|one| (one.action, one.name.decode().unwrap())).collect()
}

fn one(action: Action, name: &str) -> Vec<(Action, String)> {
    vec![(action, name.to_owned())]
}

/// A server, who watches its root, and who changes things.
async fn three() -> (Arc<Shared>, (Peer, FileId), Peer) {
    let server = server(Signing::Enabled);
    let mut watcher = Peer::sign_in(&server).await;
    let root = to_watch(&mut watcher, "").await;
    let actor = Peer::sign_in(&server).await;
    (server, (watcher, root), actor)
}

/// Opens a directory to watch it: an open that may delete it would be in the way of renames in it.
async fn to_watch(peer: &mut Peer, name: &str) -> FileId {
    let answer = peer
        .create(name, |request| {
            request.desired_access = wire::security::access::READ_DATA.into();
            request.options = CreateOptions::DIRECTORY_FILE;
        })
        .await;
    answer.file_id()
}

async fn make(peer: &mut Peer, name: &str) {
    let file = peer.open(name).await;
    peer.close(file).await;
}

async fn make_directory(peer: &mut Peer, name: &str) {
    let directory = peer.open_directory(name).await;
    peer.close(directory).await;
}

async fn remove(peer: &mut Peer, name: &str) {
    let answer = peer.create(name, |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
    peer.close(answer.file_id()).await;
}

async fn rename(peer: &mut Peer, from: &str, to: &str, replace: bool) -> Status {
    let answer = peer.create(from, |request| request.disposition = CreateDisposition::OPEN).await;
    let file = answer.file_id();
    let status = peer.set_name(file, FileClass::RENAME, to, replace).await;
    peer.close(file).await;
    status
}

async fn write(peer: &mut Peer, file_id: FileId, data: &[u8]) {
    assert_eq!(peer.write(file_id, 0, data).await, Status::SUCCESS);
}

async fn set_basic(peer: &mut Peer, file: FileId, basic: Basic) {
    let mut buffer = Vec::new();
    basic.encode(&mut buffer);
    assert_eq!(peer.set(file, FileClass::BASIC, &buffer).await, Status::SUCCESS);
}

async fn here<T>(test: impl Future<Output = T>) -> T {
    LocalSet::new().run_until(test).await
}

#[tokio::test]
async fn names_that_come_go_and_change_are_told() {
    here(async {
        let (_server, (mut watcher, root), mut actor) = three().await;
        wait(&mut watcher, root, NAMES).await;
        make(&mut actor, "file").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "file"));
        make_directory(&mut actor, "Directory").await;
        assert_eq!(rename(&mut actor, "file", "other", false).await, Status::SUCCESS);
        make(&mut actor, "Directory\\below").await;
        assert_eq!(rename(&mut actor, "other", "Directory\\moved", false).await, Status::SUCCESS);
        remove(&mut actor, "Directory\\moved").await;
        remove(&mut actor, "Directory\\below").await;
        remove(&mut actor, "Directory").await;
        let expected = [
            (Action::ADDED, "Directory"),
            (Action::RENAMED_OLD_NAME, "file"),
            (Action::RENAMED_NEW_NAME, "other"),
            (Action::REMOVED, "other"),
            (Action::REMOVED, "Directory"),
        ]
        .map(|(action, name)| (action, name.to_owned()));
        assert_eq!(told(&ask(&mut watcher, root, NAMES).await), expected);
    })
    .await;
}

#[tokio::test]
async fn a_tree_is_watched_to_its_leaves() {
    here(async {
        let (_server, (mut watcher, _), mut actor) = three().await;
        make_directory(&mut actor, "a").await;
        make_directory(&mut actor, "a\\b").await;
        let watched = to_watch(&mut watcher, "a").await;
        let asked = Asked { reach: Reach::Tree, ..NAMES };
        wait(&mut watcher, watched, asked).await;
        make(&mut actor, "beside").await;
        make(&mut actor, "a\\b\\C").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "b\\C"));
        assert_eq!(rename(&mut actor, "a\\b\\c", "a\\c", false).await, Status::SUCCESS);
        let expected = [(Action::REMOVED, "b\\C".to_owned()), (Action::ADDED, "c".to_owned())];
        assert_eq!(told(&ask(&mut watcher, watched, asked).await), expected);
    })
    .await;
}

#[tokio::test]
async fn each_filter_lets_its_own_changes_through() {
    here(async {
        let (_server, (_, _), mut actor) = three().await;
        let mut list = Vec::new();
        let mut writer = FullEaWriter::new(&mut list, 100);
        assert!(writer.push(&FullEa { flags: 0, name: b"ea", value: b"1" }));
        let security = SecurityDescriptor::default().encode().unwrap();
        for bit in 0..12 {
            let filter = Filter(1 << bit);
            let mut watcher = Peer::sign_in(&actor.connection.server).await;
            let root = to_watch(&mut watcher, "").await;
            let asked = Asked { filter, ..NAMES };
            wait(&mut watcher, root, asked).await;

            let file = actor.open("file").await;
            make_directory(&mut actor, "directory").await;
            write(&mut actor, file, b"data").await;
            let hidden = Basic { attributes: FileAttributes::HIDDEN, ..Basic::default() };
            set_basic(&mut actor, file, hidden).await;
            set_basic(&mut actor, file, Basic { access: FileTime(9 << 50), ..Basic::default() }).await;
            set_basic(&mut actor, file, Basic { creation: FileTime(9 << 50), ..Basic::default() }).await;
            assert_eq!(actor.set(file, FileClass::FULL_EA, &list).await, Status::SUCCESS);
            let stream = actor.open("file:stream").await;
            write(&mut actor, stream, b"data").await;
            actor.close(stream).await;
            let request = SetInfoRequest {
                info_type: InfoType::SECURITY,
                file_id: file,
                additional_information: SecurityInformation::DACL.0,
                buffer: &security,
                ..SetInfoRequest::default()
            };
            let answer = actor.ask(Command::SET_INFO, |body| request.encode(body)).await;
            assert_eq!(answer.status(), Status::SUCCESS);
            actor.close(file).await;
            remove(&mut actor, "file:stream").await;
            remove(&mut actor, "file").await;
            remove(&mut actor, "directory").await;

            let mut seen = told(&watcher.receive().await);
            if let Some(more) = more(&mut watcher, root, asked).await {
                seen.extend(more);
            }
            assert_eq!(seen, expected(filter), "{filter:?}");
        }
    })
    .await;
}

/// What was told besides, where there is anything.
async fn more(peer: &mut Peer, root: FileId, asked: Asked) -> Option<Vec<(Action, String)>> {
    let answer = ask(peer, root, asked).await;
    (answer.status() != Status::PENDING).then(|| told(&answer))
}

fn expected(filter: Filter) -> Vec<(Action, String)> {
    let list: &[(Action, &str)] = match filter {
        Filter::FILE_NAME => &[(Action::ADDED, "file"), (Action::REMOVED, "file")],
        Filter::DIR_NAME => &[(Action::ADDED, "directory"), (Action::REMOVED, "directory")],
        Filter::ATTRIBUTES => &[(Action::MODIFIED, "file"), (Action::MODIFIED, "file")],
        Filter::STREAM_NAME => &[(Action::ADDED_STREAM, "file:stream"), (Action::REMOVED_STREAM, "file:stream")],
        Filter::STREAM_SIZE | Filter::STREAM_WRITE => &[(Action::MODIFIED_STREAM, "file:stream")],
        _ => &[(Action::MODIFIED, "file")],
    };
    list.iter().map(|(action, name)| (*action, (*name).to_owned())).collect()
}

#[tokio::test]
async fn writes_are_told_at_once_and_the_rest_of_them_at_the_end() {
    here(async {
        let (_server, (mut watcher, root), mut actor) = three().await;
        let file = actor.open("file").await;
        let asked = Asked { filter: Filter::LAST_WRITE, ..NAMES };
        wait(&mut watcher, root, asked).await;
        write(&mut actor, file, b"one").await;
        assert_eq!(told(&watcher.receive().await), one(Action::MODIFIED, "file"));
        wait(&mut watcher, root, asked).await;
        write(&mut actor, file, b"two").await;
        assert!(watcher.take_frame().is_none());
        let flush = FlushRequest { file_id: file, ..FlushRequest::default() };
        assert_eq!(actor.ask(Command::FLUSH, |body| flush.encode(body)).await.status(), Status::SUCCESS);
        assert_eq!(told(&watcher.receive().await), one(Action::MODIFIED, "file"));
        wait(&mut watcher, root, asked).await;
        write(&mut actor, file, b"three").await;
        actor.close(file).await;
        assert_eq!(told(&watcher.receive().await), one(Action::MODIFIED, "file"));
        let file = actor.open("file").await;
        actor.close(file).await;
        assert_eq!(ask(&mut watcher, root, asked).await.status(), Status::PENDING, "nothing was written");
    })
    .await;
}

#[tokio::test]
async fn a_renamed_file_has_other_attributes_when_its_open_closes() {
    here(async {
        let (_server, (mut watcher, root), mut actor) = three().await;
        let file = actor.open("old").await;
        let asked = Asked { filter: Filter::ATTRIBUTES, ..NAMES };
        wait(&mut watcher, root, asked).await;
        assert_eq!(actor.rename(file, "new").await, Status::SUCCESS);
        assert!(watcher.take_frame().is_none());
        actor.close(file).await;
        assert_eq!(told(&watcher.receive().await), one(Action::MODIFIED, "new"));
    })
    .await;
}

#[tokio::test]
async fn a_replaced_file_is_another_one_of_the_same_name() {
    here(async {
        let (_server, (mut watcher, root), mut actor) = three().await;
        make(&mut actor, "one").await;
        make(&mut actor, "two").await;
        let asked = Asked { filter: ALL, ..NAMES };
        wait(&mut watcher, root, asked).await;
        assert_eq!(rename(&mut actor, "one", "two", true).await, Status::SUCCESS);
        assert_eq!(told(&watcher.receive().await), one(Action::REMOVED, "one"));
        assert_eq!(told(&ask(&mut watcher, root, asked).await), one(Action::MODIFIED, "two"));
        let overwrite = actor.create("two", |request| request.disposition = CreateDisposition::OVERWRITE).await;
        assert_eq!(overwrite.status(), Status::SUCCESS);
        assert_eq!(told(&ask(&mut watcher, root, asked).await), one(Action::MODIFIED, "two"));
    })
    .await;
}

#[tokio::test]
async fn a_directory_that_goes_ends_its_watches() {
    here(async {
        let (_server, (mut watcher, _), mut actor) = three().await;
        let watched = to_watch(&mut watcher, "goes").await;
        wait(&mut watcher, watched, NAMES).await;
        remove(&mut actor, "goes").await;
        assert_eq!(watcher.receive().await.status(), Status::DELETE_PENDING);
        assert_eq!(ask(&mut watcher, watched, NAMES).await.status(), Status::DELETE_PENDING);

        let watched = to_watch(&mut watcher, "is disposed of").await;
        wait(&mut watcher, watched, NAMES).await;
        let disposed = actor.open_directory("is disposed of").await;
        assert_eq!(actor.set(disposed, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
        assert_eq!(watcher.receive().await.status(), Status::DELETE_PENDING);
        assert_eq!(actor.set(disposed, FileClass::DISPOSITION, &[0]).await, Status::SUCCESS);
        assert_eq!(ask(&mut watcher, watched, NAMES).await.status(), Status::DELETE_PENDING);
    })
    .await;
}

#[tokio::test]
async fn a_renamed_directory_is_still_watched() {
    here(async {
        let (_server, (mut watcher, _), mut actor) = three().await;
        make_directory(&mut actor, "above").await;
        let watched = to_watch(&mut watcher, "old").await;
        let asked = Asked { reach: Reach::Tree, ..NAMES };
        wait(&mut watcher, watched, asked).await;
        assert_eq!(rename(&mut actor, "old", "above\\new", false).await, Status::SUCCESS);
        make(&mut actor, "above\\new\\file").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "file"));
    })
    .await;
}

#[tokio::test]
async fn two_shares_over_one_folder_tell_of_each_other() {
    here(async {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        let store = |path: &std::path::Path| -> Arc<dyn Store> {
            Arc::new(DirectoryStore::open(path, DirectoryOptions::default()).unwrap())
        };
        let server = crate::tests::testing::server_with(Signing::Enabled, store(folder.path()));
        let mut configuration = (**server.configuration.load()).clone();
        let mut second = configuration.shares[0].clone();
        second.name = "inner".into();
        second.store = store(&folder.path().join("inner"));
        configuration.shares.push(second);
        server.configuration.store(configuration.into());

        let mut watcher = Peer::sign_in(&server).await;
        let mut actor = Peer::sign_in(&server).await;
        let path = codec::utf16_bytes(r"\\test\inner");
        let request = TreeConnectRequest { path: Utf16::new(&path).unwrap(), ..TreeConnectRequest::default() };
        actor.tree_id = actor.ask(Command::TREE_CONNECT, |body| request.encode(body)).await.header.tree_id();

        let above = to_watch(&mut watcher, "").await;
        let same = to_watch(&mut watcher, "inner").await;
        let tree = Asked { reach: Reach::Tree, ..NAMES };
        wait(&mut watcher, same, tree).await;
        wait(&mut watcher, above, tree).await;
        make(&mut actor, "file").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "file"));
        assert!(watcher.take_frame().is_none(), "a share is not told what its folder is called outside");
    })
    .await;
}

/// A server of a folder, who watches its root, who changes things, and the folder.
async fn folder() -> (tempfile::TempDir, (Peer, FileId), Peer) {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap());
    let server = crate::tests::testing::server_with(Signing::Enabled, store);
    let mut watcher = Peer::sign_in(&server).await;
    let root = to_watch(&mut watcher, "").await;
    let actor = Peer::sign_in(&server).await;
    (folder, (watcher, root), actor)
}

/// All that is told until `last` is.
async fn told_until(peer: &mut Peer, file_id: FileId, asked: Asked, last: &(Action, &str)) -> Vec<(Action, String)> {
    let mut all = Vec::new();
    loop {
        let mut answer = peer.receive().await;
        if answer.status() == Status::PENDING {
            answer = peer.receive().await;
        }
        all.extend(told(&answer));
        if all.last().is_some_and(|(action, name)| (*action, name.as_str()) == *last) {
            return all;
        }
        send(peer, file_id, asked);
    }
}

#[tokio::test]
async fn what_other_programs_do_is_told_and_what_the_server_does_only_once() {
    here(async {
        let (folder, (mut watcher, root), mut actor) = folder().await;
        std::fs::create_dir(folder.path().join("tree")).unwrap();
        let asked = Asked { filter: ALL, reach: Reach::Tree, room: 1 << 16 };
        wait(&mut watcher, root, asked).await;
        let file = actor.open("own").await;
        write(&mut actor, file, b"data").await;
        // Of writes it is told on the pool, whenever that comes to it.
        let mut all = told_until(&mut watcher, root, asked, &(Action::MODIFIED, "own")).await;
        wait(&mut watcher, root, asked).await;
        actor.close(file).await;
        assert_eq!(rename(&mut actor, "own", "tree\\moved", false).await, Status::SUCCESS);
        make(&mut actor, "tree\\other").await;
        assert_eq!(rename(&mut actor, "tree\\moved", "tree\\other", true).await, Status::SUCCESS);
        make_directory(&mut actor, "directory").await;
        make(&mut actor, "directory\\file").await;
        remove(&mut actor, "directory\\file").await;
        std::fs::write(folder.path().join("foreign"), b"data").unwrap();
        all.extend(told_until(&mut watcher, root, asked, &(Action::MODIFIED, "foreign")).await);
        let all: Vec<_> = all.iter().map(|(action, name)| (*action, name.as_str())).collect();
        let expected = [
            (Action::ADDED, "own"),
            (Action::MODIFIED, "own"),
            (Action::REMOVED, "own"),
            (Action::ADDED, "tree\\moved"),
            (Action::MODIFIED, "tree\\moved"),
            (Action::ADDED, "tree\\other"),
            (Action::REMOVED, "tree\\moved"),
            (Action::MODIFIED, "tree\\other"),
            (Action::ADDED, "directory"),
            (Action::ADDED, "directory\\file"),
            (Action::REMOVED, "directory\\file"),
            (Action::ADDED, "foreign"),
            (Action::MODIFIED, "foreign"),
        ];
        assert_eq!(all, expected);
    })
    .await;
}

#[tokio::test]
async fn what_was_done_to_a_replaced_file_says_nothing_of_the_next_one_with_its_identity() {
    here(async {
        let (folder, (mut watcher, root), mut actor) = folder().await;
        wait(&mut watcher, root, NAMES).await;
        make(&mut actor, "old").await;
        make(&mut actor, "new").await;
        let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
        let old = store.resolve(&SharePath::parse("old").unwrap(), Use::Metadata).unwrap();
        let Resolved::Found { node, .. } = old else { panic!("it was just made") };
        let replaced = node.identity();
        let server = Arc::clone(&actor.connection.server);
        assert!(server.watches.own.has_touched(replaced));
        assert_eq!(rename(&mut actor, "new", "old", true).await, Status::SUCCESS);
        assert!(!server.watches.own.has_touched(replaced));
    })
    .await;
}
