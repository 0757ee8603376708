//! Who comes behind WRITEs that a shard makes at once: what others ask for is asked while the store is at one.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use store::{
    ChangeSecurity, Changes, ChooseOffset, Cursor, Error, Extents, Facts, Identity, Kind, Metadata, Name, NamedNode,
    Node, RamStore, Replace, Resolved, SharePath, Space, Store, Take, TakeStream, Use, Waits,
};
use tokio::task::LocalSet;
use wire::command::close::CloseRequest;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::write::WriteRequest;
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::FileEntry;
use crate::admin::Signing;
use crate::open::OpenId;
use crate::testing::{Peer, server_with};

/// How often threads meet, and how many of them write.
const ROUNDS: usize = 2_000;
const WRITERS: usize = 3;

thread_local! {
    /// Done in the middle of the next write of this thread.
    static DURING_WRITE: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default();
    /// Done before this thread renames a stream, once that was judged.
    pub(super) static BEFORE_STREAM_RENAME: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default();
    /// Done when this thread has just found a stream.
    pub(super) static DURING_LOOK: RefCell<Option<Box<dyn FnOnce()>>> = RefCell::default();
}

/// A RAM disk where something else happens in the middle of what is done with a file.
pub(super) struct Interrupted(pub(super) RamStore);

impl Store for Interrupted {
    fn facts(&self) -> Facts {
        self.0.facts()
    }

    fn space(&self) -> Result<Space, Error> {
        self.0.space()
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        Ok(match self.0.resolve(path, usage)? {
            Resolved::Found { node, path } if node.kind() == Kind::File => {
                Resolved::Found { node: Arc::new(File(node)), path }
            }
            other => other,
        })
    }

    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.resolve(path, usage)
    }
}

struct File(Arc<dyn Node>);

impl Node for File {
    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        if let Some(during) = DURING_WRITE.take() {
            during();
        }
        self.0.write_at(data, offset)
    }

    fn kind(&self) -> Kind {
        self.0.kind()
    }

    fn identity(&self) -> Identity {
        self.0.identity()
    }

    fn waits(&self) -> Waits {
        self.0.waits()
    }

    fn metadata(&self) -> Result<Metadata, Error> {
        self.0.metadata()
    }

    fn try_metadata(&self) -> Result<Metadata, Error> {
        self.0.try_metadata()
    }

    fn change(&self, changes: &Changes) -> Result<(), Error> {
        self.0.change(changes)
    }

    fn prepare(&self, usage: Use) -> Result<(), Error> {
        self.0.prepare(usage)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.0.read_at(buffer, offset)
    }

    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.0.try_read_at(buffer, offset)
    }

    fn append(&self, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error> {
        self.0.append(data, place)
    }

    fn sync(&self) -> Result<(), Error> {
        self.0.sync()
    }

    fn set_length(&self, length: u64) -> Result<(), Error> {
        self.0.set_length(length)
    }

    fn reserve(&self, length: u64) -> Result<(), Error> {
        self.0.reserve(length)
    }

    fn zero(&self, offset: u64, length: u64, punch: bool) -> Result<(), Error> {
        self.0.zero(offset, length, punch)
    }

    fn extents(&self, offset: u64, length: u64, count_max: usize) -> Result<Extents, Error> {
        self.0.extents(offset, length, count_max)
    }

    fn copy_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.0.copy_from(source, source_offset, offset, length)
    }

    fn clone_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<(), Error> {
        Node::clone_from(&*self.0, source, source_offset, offset, length)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self.0.as_any()
    }

    fn security(&self) -> Result<Option<Vec<u8>>, Error> {
        self.0.security()
    }

    fn change_security(&self, change: ChangeSecurity<'_>) -> Result<(), Error> {
        self.0.change_security(change)
    }

    fn extended(&self) -> Result<Vec<(String, Vec<u8>)>, Error> {
        self.0.extended()
    }

    fn set_extended(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        self.0.set_extended(name, value)
    }

    fn list_streams(&self, take: TakeStream<'_>) -> Result<(), Error> {
        self.0.list_streams(take)
    }

    fn stream(&self, name: &str) -> Result<Option<NamedNode>, Error> {
        let found = self.0.stream(name);
        if let Some(during) = DURING_LOOK.take() {
            during();
        }
        found
    }

    fn create_stream(&self, name: &str) -> Result<Arc<dyn Node>, Error> {
        self.0.create_stream(name)
    }

    fn rename_stream(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        if let Some(before) = BEFORE_STREAM_RENAME.take() {
            before();
        }
        self.0.rename_stream(from, to, replace)
    }

    fn remove_stream(&self, name: &str) -> Result<(), Error> {
        self.0.remove_stream(name)
    }

    fn list(&self, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
        self.0.list(cursor, take)
    }

    fn is_empty(&self) -> Result<bool, Error> {
        self.0.is_empty()
    }

    fn entry_metadata(&self, name: &Name) -> Result<Metadata, Error> {
        self.0.entry_metadata(name)
    }
}

fn write(peer: &mut Peer, file_id: FileId) -> Vec<u8> {
    let request = WriteRequest { file_id, data: b"written", ..WriteRequest::default() };
    peer.message(Command::WRITE, |body| request.encode(body))
}

/// Makes the write; in the middle of it `asked` comes in on another connection. It is not answered before the write is made.
async fn asked_during_a_write(peer: &mut Peer, file: FileId, other: Peer, mut asked: Vec<u8>) -> Peer {
    let other = Rc::new(other);
    let during = Rc::clone(&other);
    DURING_WRITE.set(Some(Box::new(move || {
        during.process(&mut asked).unwrap();
        assert!(during.take_frame().is_none(), "it is answered before the write is made");
    })));
    let mut write = write(peer, file);
    peer.process(&mut write).unwrap();
    assert!(DURING_WRITE.with_borrow(Option::is_none), "the shard makes it at once");
    assert_eq!(peer.receive().await.status(), Status::SUCCESS);
    Rc::into_inner(other).unwrap()
}

async fn two_channels() -> (Arc<crate::Shared>, Peer, FileId, Peer) {
    let server = server_with(Signing::Enabled, Arc::new(Interrupted(RamStore::new(64 << 20))));
    let mut one = Peer::sign_in(&server).await;
    // What exists is found as it is to be interrupted.
    let made = one.open("file").await;
    one.close(made).await;
    let file = one.open("file").await;
    let other = Peer::bound(&server, &one).await;
    (server, one, file, other)
}

#[tokio::test]
async fn a_lock_is_told_of_behind_a_write_that_another_shard_makes_at_once() {
    let test = async {
        let (_server, mut one, file, mut other) = two_channels().await;
        let locked = other.open("file").await;
        let elements =
            [LockElement { offset: 0, length: 100, flags: LockFlags::EXCLUSIVE_LOCK | LockFlags::FAIL_IMMEDIATELY }];
        let request = LockRequest { file_id: locked, locks: LockElements::new(&elements), ..LockRequest::default() };
        let lock = other.message(Command::LOCK, |body| request.encode(body));
        let mut other = asked_during_a_write(&mut one, file, other, lock).await;
        assert_eq!(other.receive().await.status(), Status::SUCCESS);
        // What it finds now stays.
        let late = write(&mut one, file);
        assert_eq!(one.exchange(late).await.status(), Status::FILE_LOCK_CONFLICT);
        let request = ReadRequest { file_id: locked, length: 100, ..ReadRequest::default() };
        let read = other.ask(Command::READ, |body| request.encode(body)).await;
        assert_eq!(ReadResponse::decode(&read.message).unwrap().data, b"written");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_close_comes_behind_a_write_that_another_shard_makes_at_once() {
    let test = async {
        let (server, mut one, file, mut other) = two_channels().await;
        let request = CloseRequest { file_id: file, ..CloseRequest::default() };
        let close = other.message(Command::CLOSE, |body| request.encode(body));
        let other = asked_during_a_write(&mut one, file, other, close).await;
        assert_eq!(other.receive().await.status(), Status::SUCCESS);
        assert_eq!(server.files.claims(), 0);
    };
    LocalSet::new().run_until(test).await;
}

#[test]
fn nothing_begins_at_once_while_somebody_waits_for_what_did() {
    let file = FileEntry::new(Identity { volume: 1, file: 1 });
    let goes_on = Arc::new(AtomicUsize::new(0));
    let noted = || {
        let goes_on = Arc::clone(&goes_on);
        Box::new(move || {
            goes_on.fetch_add(1, Ordering::Relaxed);
        })
    };
    let changes = [file.begin_change_at_once().unwrap(), file.begin_change_at_once().unwrap()];
    file.after_changes_of(OpenId(1), noted());
    assert!(file.after_changes_by_others(OpenId(1), &(0..1), noted()));
    let [first, second] = changes;
    drop(first);
    assert!(file.begin_change_at_once().is_none());
    assert_eq!(goes_on.load(Ordering::Relaxed), 0);
    drop(second);
    assert_eq!(goes_on.load(Ordering::Relaxed), 2);
    assert!(file.begin_change_at_once().is_some());
    assert!(!file.after_changes_by_others(OpenId(1), &(0..1), noted()));
}

#[test]
fn a_lock_that_was_told_of_finds_no_write_whenever_threads_meet() {
    let file = Arc::new(FileEntry::new(Identity { volume: 1, file: 1 }));
    let (writing, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    if let Some(_change) = file.begin_change_at_once()
                        && !file.has_locks()
                    {
                        writing.fetch_add(1, Ordering::Relaxed);
                        std::hint::spin_loop();
                        writing.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for _ in 0..ROUNDS {
            file.locked.store(true, Ordering::Release);
            let (made, is_made) = std::sync::mpsc::channel::<()>();
            if file.after_changes_by_others(OpenId(1), &(0..1), Box::new(move || drop(made))) {
                // It ends when the sender is dropped.
                let _ = is_made.recv();
            }
            let found = writing.load(Ordering::Relaxed);
            file.locked.store(false, Ordering::Release);
            if found > 0 {
                is_over.store(true, Ordering::Relaxed);
            }
            assert_eq!(found, 0);
        }
        is_over.store(true, Ordering::Relaxed);
    });
}
