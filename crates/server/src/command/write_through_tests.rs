//! What a continuously available share answers for is on the disk, and what is on its way there is nobody's shard to wait for.

use std::sync::Arc;

use parking_lot::Mutex;
use store::waiting::{self, Forbidden};
use store::{Error, Identity, RamStore, Resolved, SharePath, Store, Use, Waits};
use tokio::task::LocalSet;
use wire::command::close::CloseRequest;
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest};
use wire::command::ioctl::{CtlCode, IoctlResponse};
use wire::command::negotiate::Capabilities;
use wire::command::query_info::{InfoType, QueryInfoRequest, QueryInfoResponse};
use wire::command::set_info::SetInfoRequest;
use wire::fscc::ea::{FullEa, FullEaWriter};
use wire::fscc::file::{Allocation, Basic, EndOfFile};
use wire::fscc::ioctl::{Chunk, CopyChunks, DuplicateExtents, LevelTrim, Range, ResumeKey, ZeroData};
use wire::fscc::rename::Rename;
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Command, FileId};
use wire::security::SecurityInformation;
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::tests::testing::{Peer, Terms, server_with};

/// A share whose store tells what is to be durable.
struct Disk {
    store: Arc<dyn Store>,
    synced: Arc<Mutex<Vec<Identity>>>,
    /// What cannot be made durable.
    bad: Arc<Mutex<Option<Identity>>>,
    records: tempfile::TempDir,
}

impl Disk {
    fn new() -> Self {
        let (synced, bad) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(None)));
        let (told, fails) = (Arc::clone(&synced), Arc::clone(&bad));
        let store = RamStore::that_waits(64 << 20, Waits::ForData).with_syncs(move |file| {
            told.lock().push(file);
            if *fails.lock() == Some(file) { Err(Error::Io(5)) } else { Ok(()) }
        });
        Disk { store: Arc::new(store), synced, bad, records: tempfile::tempdir().unwrap() }
    }

    /// A client of it whose opens may be persistent, on a thread that may not wait.
    async fn peer(&self, is_continuous: bool) -> Peer {
        let server = server_with(Signing::Enabled, Arc::clone(&self.store));
        server.durables.keep_records(self.records.path()).unwrap();
        let mut configuration = (**server.configuration.load()).clone();
        configuration.shares[0].continuously_available = is_continuous;
        server.configuration.store(Arc::new(configuration));
        waiting::forbid(Forbidden::Panics);
        let capabilities = Terms::default().capabilities | Capabilities::PERSISTENT_HANDLES;
        let mut peer = Peer::sign_in_as(&server, Terms { capabilities, ..Terms::default() }).await;
        for directory in ["from", "to"] {
            let id = peer.open_directory(directory).await;
            peer.close(id).await;
        }
        for name in ["from\\a", "from\\other"] {
            let id = peer.open(name).await;
            assert_eq!(peer.write(id, 0, &[7; 8_192]).await, Status::SUCCESS);
            peer.close(id).await;
        }
        self.synced.lock().clear();
        peer
    }

    fn identity(&self, path: &str) -> Identity {
        let path = SharePath::parse(path).unwrap();
        match waiting::allow(|| self.store.resolve(&path, Use::Metadata)).unwrap() {
            Resolved::Found { node, .. } => node.identity(),
            Resolved::Missing { .. } => panic!("{path} is missing"),
        }
    }

    /// Everything that the share was asked to keep since the last look has what is at these paths.
    fn expect(&self, what: &str, paths: &[&str]) {
        let synced = std::mem::take(&mut *self.synced.lock());
        for path in paths {
            assert!(synced.contains(&self.identity(path)), "{what}: {path} is not on the disk");
        }
    }
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

async fn create(peer: &mut Peer, name: &str, edit: impl for<'a> FnOnce(&mut CreateRequest<'a>)) -> FileId {
    let answer = peer.create(name, edit).await;
    assert_eq!(answer.status(), Status::SUCCESS, "{name}");
    answer.file_id()
}

async fn security(peer: &mut Peer, file_id: FileId) -> Status {
    let which = SecurityInformation::DACL.0;
    let query = QueryInfoRequest {
        info_type: InfoType::SECURITY,
        additional_information: which,
        output_buffer_length: 65_536,
        file_id,
        ..QueryInfoRequest::default()
    };
    let answer = peer.ask(Command::QUERY_INFO, |body| query.encode(body)).await;
    let buffer = QueryInfoResponse::decode(&answer.message).unwrap().output;
    let info_type = InfoType::SECURITY;
    let set = SetInfoRequest { info_type, additional_information: which, file_id, buffer, ..SetInfoRequest::default() };
    peer.ask(Command::SET_INFO, |body| set.encode(body)).await.status()
}

fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut buffer = Vec::new();
    encode(&mut buffer);
    buffer
}

/// What SET_INFO may change of a file, but for its name.
fn changes() -> Vec<(FileClass, Vec<u8>)> {
    let hidden = Basic { attributes: FileAttributes::HIDDEN, ..Basic::default() };
    let attribute = FullEa { flags: 0, name: b"NAME", value: b"value" };
    vec![
        (FileClass::BASIC, encoded(|buffer| hidden.encode(buffer))),
        (FileClass::ALLOCATION, encoded(|buffer| Allocation { allocation: 1 << 20 }.encode(buffer))),
        (FileClass::END_OF_FILE, encoded(|buffer| EndOfFile { end_of_file: 20_000 }.encode(buffer))),
        (
            FileClass::FULL_EA,
            encoded(|buffer| {
                FullEaWriter::new(buffer, 1_000).push(&attribute);
            }),
        ),
    ]
}

/// Control codes that change the data of `target`, with what they take.
async fn controls(peer: &mut Peer, source: FileId) -> Vec<(CtlCode, Vec<u8>)> {
    let answer = peer.ioctl(CtlCode::SRV_REQUEST_RESUME_KEY, source, &[], 4_096).await;
    let key = ResumeKey::decode(IoctlResponse::decode(&answer.message).unwrap().output).unwrap().key;
    let chunk = Chunk { source_offset: 0, target_offset: 0, length: 4_096 };
    let copy = encoded(|input| CopyChunks::encode(&key, &[chunk], input));
    let shared = DuplicateExtents { source, source_offset: 0, target_offset: 0, length: 4_096 };
    vec![
        (CtlCode::SRV_COPYCHUNK, copy.clone()),
        (CtlCode::SRV_COPYCHUNK_WRITE, copy),
        (CtlCode::DUPLICATE_EXTENTS_TO_FILE, encoded(|input| shared.encode(input))),
        (CtlCode::SET_SPARSE, vec![1]),
        (CtlCode::SET_ZERO_DATA, encoded(|input| ZeroData { offset: 0, beyond_final_zero: 4_096 }.encode(input))),
        (CtlCode::FILE_LEVEL_TRIM, encoded(|input| LevelTrim::encode(0, &[Range { offset: 0, length: 4_096 }], input))),
    ]
}

#[test]
fn what_is_changed_on_a_continuously_available_share_is_on_the_disk() {
    run(async {
        let disk = Disk::new();
        let mut peer = disk.peer(true).await;
        let (file, source) = (peer.open("from\\a").await, peer.open("from\\other").await);
        disk.expect("to open is to change nothing", &[]);
        for (class, buffer) in changes() {
            assert_eq!(peer.set(file, class, &buffer).await, Status::SUCCESS, "{class:?}");
            disk.expect(&format!("{class:?}"), &["from\\a"]);
        }
        assert_eq!(security(&mut peer, file).await, Status::SUCCESS);
        disk.expect("its descriptor", &["from\\a"]);
        for (code, input) in controls(&mut peer, source).await {
            assert_eq!(peer.ioctl(code, file, &input, 4_096).await.status(), Status::SUCCESS, "{code:?}");
            disk.expect(&format!("{code:?}"), &["from\\a"]);
        }
    });
}

#[test]
fn what_is_made_named_and_removed_on_a_continuously_available_share_is_on_the_disk() {
    run(async {
        let disk = Disk::new();
        let mut peer = disk.peer(true).await;
        let made = create(&mut peer, "from\\made", |_| {}).await;
        disk.expect("a new file", &["from\\made", "from"]);
        let directory = peer.open_directory("from\\dir").await;
        disk.expect("a new directory", &["from\\dir", "from"]);
        let stream = create(&mut peer, "from\\a:stream", |_| {}).await;
        disk.expect("a new stream", &["from\\a"]);
        for disposition in [CreateDisposition::OVERWRITE, CreateDisposition::SUPERSEDE] {
            let emptied = create(&mut peer, "from\\other", |request| request.disposition = disposition).await;
            disk.expect("an emptied file", &["from\\other"]);
            peer.close(emptied).await;
        }
        let named = |to: &str, replace| encoded(|buffer| Rename::encode(to, replace, buffer));
        assert_eq!(peer.set(stream, FileClass::RENAME, &named(":new", false)).await, Status::SUCCESS);
        disk.expect("a renamed stream", &["from\\a"]);
        peer.close(stream).await;
        assert_eq!(peer.set(made, FileClass::RENAME, &named("to\\moved", false)).await, Status::SUCCESS);
        disk.expect("a rename", &["to\\moved", "from", "to"]);
        assert_eq!(peer.set(made, FileClass::RENAME, &named("from\\other", true)).await, Status::SUCCESS);
        disk.expect("a rename over another file", &["from\\other", "from", "to"]);
        assert_eq!(peer.set(made, FileClass::LINK, &named("to\\link", false)).await, Status::SUCCESS);
        disk.expect("a link", &["to\\link", "to"]);
        assert_eq!(peer.set(directory, FileClass::RENAME, &named("to\\dir", false)).await, Status::SUCCESS);
        disk.expect("a renamed directory", &["from", "to"]);
        peer.close(directory).await;
        peer.close(made).await;
        for (name, above) in [("to\\link", "to"), ("to\\dir", "to"), ("from\\a:new", "from\\a"), ("from\\a", "from")] {
            let id = create(&mut peer, name, |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
            disk.expect("to open is to change nothing", &[]);
            peer.close(id).await;
            disk.expect("a deletion", &[above]);
        }
    });
}

#[test]
fn what_cannot_be_kept_on_a_continuously_available_share_is_not_answered_for() {
    run(async {
        let disk = Disk::new();
        let mut peer = disk.peer(true).await;
        let (file, source) = (peer.open("from\\a").await, peer.open("from\\other").await);
        let controls = controls(&mut peer, source).await;
        *disk.bad.lock() = Some(disk.identity("from\\a"));
        for (class, buffer) in changes() {
            assert_eq!(peer.set(file, class, &buffer).await, Status::UNEXPECTED_IO_ERROR, "{class:?}");
        }
        for (code, input) in controls {
            assert_eq!(peer.ioctl(code, file, &input, 4_096).await.status(), Status::UNEXPECTED_IO_ERROR, "{code:?}");
        }
        *disk.bad.lock() = Some(disk.identity("to"));
        let moved = encoded(|buffer| Rename::encode("to\\moved", false, buffer));
        assert_eq!(peer.set(file, FileClass::RENAME, &moved).await, Status::UNEXPECTED_IO_ERROR);
        assert_eq!(peer.create("to\\new", |_| {}).await.status(), Status::UNEXPECTED_IO_ERROR);
        let path = SharePath::parse("to\\new").unwrap();
        let found = waiting::allow(|| disk.store.resolve(&path, Use::Metadata));
        assert!(matches!(found, Ok(Resolved::Missing { .. })), "what was not answered for is not left behind");
        assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
        let close = CloseRequest { file_id: file, ..CloseRequest::default() };
        let answer = peer.ask(Command::CLOSE, |body| close.encode(body)).await;
        assert_eq!(answer.status(), Status::UNEXPECTED_IO_ERROR, "its name may come back");
    });
}

#[test]
fn what_is_changed_through_an_open_that_writes_through_is_on_the_disk() {
    run(async {
        let disk = Disk::new();
        let mut peer = disk.peer(false).await;
        let source = peer.open("from\\other").await;
        let file = create(&mut peer, "from\\a", |request| request.options = CreateOptions::WRITE_THROUGH).await;
        for (class, buffer) in changes() {
            assert_eq!(peer.set(file, class, &buffer).await, Status::SUCCESS, "{class:?}");
            disk.expect(&format!("{class:?}"), &["from\\a"]);
        }
        for (code, input) in controls(&mut peer, source).await {
            assert_eq!(peer.ioctl(code, file, &input, 4_096).await.status(), Status::SUCCESS, "{code:?}");
            disk.expect(&format!("{code:?}"), &["from\\a"]);
        }
        *disk.bad.lock() = Some(disk.identity("from\\a"));
        for (code, input) in controls(&mut peer, source).await {
            assert_eq!(peer.ioctl(code, file, &input, 4_096).await.status(), Status::UNEXPECTED_IO_ERROR, "{code:?}");
        }
    });
}

#[test]
fn other_shares_wait_for_the_disk_where_they_are_asked_to() {
    run(async {
        let disk = Disk::new();
        let mut peer = disk.peer(false).await;
        let (file, source) = (peer.open("from\\a").await, peer.open("from\\other").await);
        for (class, buffer) in changes() {
            assert_eq!(peer.set(file, class, &buffer).await, Status::SUCCESS, "{class:?}");
        }
        for (code, input) in controls(&mut peer, source).await {
            assert_eq!(peer.ioctl(code, file, &input, 4_096).await.status(), Status::SUCCESS, "{code:?}");
        }
        let made = create(&mut peer, "from\\made", |_| {}).await;
        let moved = encoded(|buffer| Rename::encode("to\\moved", false, buffer));
        assert_eq!(peer.set(made, FileClass::RENAME, &moved).await, Status::SUCCESS);
        assert_eq!(peer.set(made, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
        peer.close(made).await;
        assert_eq!(disk.synced.lock().len(), 0);
    });
}
