//! Names that are changed and marked to go at the same moment.

use std::rc::Rc;
use std::sync::Arc;

use store::{DirectoryStore, RamStore, Resolved, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::command::close::CloseRequest;
use wire::command::create::CreateOptions;
use wire::command::flush::FlushRequest;
use wire::fscc::FileClass;
use wire::fscc::rename::DispositionFlags;
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::{Link, NameChange, Removal, Replacing};
use crate::state::configuration::Signing;
use crate::state::open_id::OpenId;
use crate::state::shared::Shared;
use crate::tests::entries::names;
use crate::tests::interrupted::{Call, Interrupted, is_to_happen_here, once_here};
use crate::tests::testing::{Peer, by_hand, headers, server_with, working};

/// Two clients, and a file with the names "a" and "b".
async fn two_clients() -> (Arc<Shared>, Arc<dyn Store>, Peer, Peer) {
    let (store, _) = Interrupted::around(RamStore::new(64 << 20));
    let server = server_with(Signing::Enabled, Arc::clone(&store));
    let (mut one, other) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
    let file = one.open("a").await;
    assert_eq!(one.set_name(file, FileClass::LINK, "b", false).await, Status::SUCCESS);
    one.close(file).await;
    (server, store, one, other)
}

/// Renames; when that was judged `asked` comes in from the other client, whose answer may be there at once.
async fn rename_while(one: &mut Peer, file: FileId, to: &str, other: Peer, mut asked: Vec<u8>) -> (Status, Peer) {
    let other = Rc::new(other);
    let during = Rc::clone(&other);
    once_here(Call::FindDirectory, move || during.process(&mut asked).unwrap());
    let renamed = one.set_name(file, FileClass::RENAME, to, false).await;
    assert!(!is_to_happen_here(), "it came in the middle");
    (renamed, Rc::into_inner(other).unwrap())
}

#[tokio::test]
async fn a_name_that_is_deleted_in_the_middle_of_its_rename_goes_and_the_others_can_be_opened() {
    let at_once = DispositionFlags::DELETE | DispositionFlags::POSIX_SEMANTICS;
    let at_once = at_once.0.to_le_bytes();
    for (class, buffer) in [(FileClass::DISPOSITION, &[1][..]), (FileClass::DISPOSITION_EX, &at_once[..])] {
        let test = async {
            let (server, store, mut one, mut other) = two_clients().await;
            let (renamed, deleted) = (one.open("b").await, other.open("b").await);
            let deletion = other.set_message(deleted, class, buffer);
            let (answer, mut other) = rename_while(&mut one, renamed, "c", other, deletion).await;
            assert_eq!(answer, Status::SUCCESS);
            assert_eq!(other.receive().await.status(), Status::SUCCESS);
            assert_eq!(one.try_open("c").await, Status::DELETE_PENDING);
            other.close(deleted).await;
            one.close(renamed).await;
            assert_eq!(names(&store), "a");
            assert_eq!(one.try_open("c").await, Status::OBJECT_NAME_NOT_FOUND);
            assert_eq!(one.try_open("a").await, Status::SUCCESS);
            assert!(server.files.is_empty());
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test]
async fn a_name_that_is_to_go_with_an_open_that_closes_in_the_middle_of_its_rename_goes() {
    let test = async {
        let (server, store, mut one, mut other) = two_clients().await;
        let renamed = one.open("b").await;
        let answer = other.create("b", |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
        let file_id = answer.file_id();
        let request = CloseRequest { file_id, ..CloseRequest::default() };
        let close = other.message(Command::CLOSE, |body| request.encode(body));
        let (answer, mut other) = rename_while(&mut one, renamed, "c", other, close).await;
        assert_eq!(answer, Status::SUCCESS);
        assert_eq!(other.receive().await.status(), Status::SUCCESS);
        assert_eq!(other.try_open("c").await, Status::DELETE_PENDING);
        one.close(renamed).await;
        assert_eq!(names(&store), "a");
        assert_eq!(one.try_open("a").await, Status::SUCCESS);
        assert!(server.files.is_empty());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn no_file_gets_its_own_name_that_goes() {
    for class in [FileClass::RENAME, FileClass::LINK] {
        let (_server, store, mut one, mut other) = two_clients().await;
        let (stays, goes) = (one.open("a").await, other.open("b").await);
        assert_eq!(other.set(goes, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
        assert_eq!(one.set_name(stays, class, "b", true).await, Status::DELETE_PENDING);
        other.close(goes).await;
        one.close(stays).await;
        assert_eq!(names(&store), "a");
    }
}

#[tokio::test]
async fn who_opened_a_file_while_it_had_one_name_knows_it_when_there_is_another() {
    let (server, store, mut one, _other) = two_clients().await;
    let file = one.open("c").await;
    assert_eq!(one.set_name(file, FileClass::LINK, "b", true).await, Status::SUCCESS);
    let Ok(Resolved::Found { node, .. }) = store.resolve(&SharePath::parse("b").unwrap(), Use::Metadata) else {
        panic!("it is there")
    };
    let entry = server.files.find(node.identity()).unwrap();
    assert_eq!(entry.state.lock().claims.without_link().count(), 0);
}

#[tokio::test]
async fn who_changes_a_name_keeps_nobody_waiting_for_what_else_it_has_asked_for() {
    const BACKLOG: usize = 200;
    let folder = tempfile::tempdir().unwrap();
    let test = async {
        let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(folder.path(), Default::default()).unwrap());
        let server = by_hand(server_with(Signing::Enabled, store));
        let mut busy = working(&server, Peer::sign_in(&server)).await;
        let mut other = working(&server, Peer::sign_in(&server)).await;
        let file = working(&server, busy.open("a")).await;
        let of_other = working(&server, other.open("a")).await;
        for _ in 0..BACKLOG {
            let flush = FlushRequest { file_id: file, ..FlushRequest::default() };
            let mut message = busy.message(Command::FLUSH, |body| flush.encode(body));
            busy.process(&mut message).unwrap();
        }
        for number in 0..20 {
            let mut message = busy.name_message(file, FileClass::LINK, &format!("b{number}"), false);
            busy.process(&mut message).unwrap();
        }
        let mut message = other.name_message(of_other, FileClass::RENAME, "c", false);
        other.process(&mut message).unwrap();
        let mut done = 0;
        let answer = loop {
            match other.take_frame() {
                Some(frame) if headers(&frame)[0].status != Status::PENDING => break headers(&frame)[0].status,
                Some(_) | None => tokio::task::yield_now().await,
            }
            done += usize::from(server.pool.work_once());
        };
        assert_eq!(answer, Status::SUCCESS);
        assert!(done < BACKLOG / 2, "after {done} pieces of work");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn no_open_waits_without_end_for_what_nobody_gives_back() {
    let test = async {
        let (server, store, mut one, _other) = two_clients().await;
        let path = SharePath::parse("a").unwrap();
        let Ok(Resolved::Found { node, .. }) = store.resolve(&path, Use::Metadata) else { panic!("it is there") };
        let link = Link::at(&*store, &path).unwrap();
        let replacing = Replacing::begin(&server.files, node.identity(), &link, false).unwrap();
        assert_eq!(one.try_open("a").await, Status::SHARING_VIOLATION);
        drop(replacing);
        assert_eq!(one.try_open("a").await, Status::SUCCESS);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn turns_to_change_names_are_taken_one_after_the_other_and_passed_on_by_who_waits_no_longer() {
    let file = Arc::new(super::FileEntry::new(store::Identity { volume: 1, file: 1 }));
    let first = NameChange::begin(&file, 1).ok().unwrap();
    let mut gone = NameChange::begin(&file, 1).err().unwrap();
    let mut second = NameChange::begin(&file, 1).err().unwrap();
    let third = NameChange::begin(&file, 1).err().unwrap();
    gone.close();
    assert!(second.try_recv().is_err());
    drop(first);
    let second = second.await.unwrap();
    drop(second);
    // It was its turn, and it did not look.
    drop(third);
    assert!(gone.try_recv().is_err());
    assert!(NameChange::begin(&file, 1).is_ok());
}

#[test]
fn users_take_turns_to_change_names_whatever_each_has_asked_for() {
    let file = Arc::new(super::FileEntry::new(store::Identity { volume: 1, file: 1 }));
    let mut held = Some(NameChange::begin(&file, 1).ok().unwrap());
    let mut line: Vec<_> =
        [1, 1, 1, 2, 1, 2, 3].into_iter().map(|user| (user, NameChange::begin(&file, user).err().unwrap())).collect();
    let mut order = Vec::new();
    while !line.is_empty() {
        drop(held.take());
        let called =
            line.iter_mut().position(|(_, turn)| turn.try_recv().map(|turn| held = Some(turn)).is_ok()).unwrap();
        order.push(line.remove(called).0);
    }
    assert_eq!(order, [1, 2, 3, 1, 2, 1, 1]);
}

#[test]
fn who_waits_no_longer_to_change_names_is_not_kept() {
    let file = Arc::new(super::FileEntry::new(store::Identity { volume: 1, file: 1 }));
    let _held = NameChange::begin(&file, 1).ok().unwrap();
    let mut waits = NameChange::begin(&file, 2).err().unwrap();
    for _ in 0..10_000 {
        drop(NameChange::begin(&file, 3));
    }
    assert!(file.name_changes_awaited() <= 100);
    drop(_held);
    assert!(waits.try_recv().is_ok());
}

#[test]
fn a_mark_goes_with_its_name() {
    let mut pending = super::pending::PendingLinks::default();
    let link = |name| Link::new(store::Identity { volume: 1, file: 1 }, name);
    pending.mark(Some(link("a"))).by.insert(OpenId(1));
    pending.renamed(&link("a"), &link("b"));
    assert!(!pending.contains(Some(&link("a"))));
    let removal = pending.begin_removal(Some(&link("b")), OpenId(1), true);
    assert_eq!(removal, Removal::File(Some(link("b"))), "it goes with the same open");
    pending.renamed(&link("b"), &link("c"));
    assert!(pending.contains(Some(&link("b"))), "what goes already has its last name");
}
