//! No command waits for a device on its shard: here the thread is marked as one, and the store panics where a call may wait.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use store::waiting::{self, Forbidden};
use store::{DirectoryStore, Error, Kind, NewNode, RamStore, SharePath, Store, Waits};
use tokio::task::LocalSet;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::close::{CloseFlags, CloseRequest};
use wire::command::create::{CreateDisposition, CreateOptions};
use wire::command::flush::FlushRequest;
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use wire::command::query_directory::QueryDirectoryRequest;
use wire::command::query_info::{InfoType, QueryInfoRequest};
use wire::command::read::ReadRequest;
use wire::command::set_info::SetInfoRequest;
use wire::command::write::{WriteFlags, WriteRequest};
use wire::fscc::FileClass;
use wire::fscc::file::{Allocation, Basic, EndOfFile};
use wire::fscc::rename::{Disposition, Rename};
use wire::fscc::{FileAttributes, FileSystemClass};
use wire::ids::{Command, FileId, FileTime};
use wire::security::SecurityInformation;
use wire::status::Status;

use crate::state::configuration::{Configuration, Signing};
use crate::tests::interrupted::{Call, Interrupted};
use crate::tests::testing::{Peer, server_with};
use crate::{Config, Server};

/// A client of a share, on a thread that may not wait.
async fn peer(store: Arc<dyn Store>) -> Peer {
    let server = server_with(Signing::Enabled, store);
    waiting::forbid(Forbidden::Panics);
    let pool = server.pool.clone();
    waiting::discard_to(Box::new(move |volume, discarded| pool.discard(volume, discarded)));
    Peer::sign_in(&server).await
}

async fn expect(peer: &mut Peer, command: Command, body: impl FnOnce(&mut Vec<u8>)) {
    let status = peer.ask(command, body).await.status();
    assert_eq!(status, Status::SUCCESS, "{command:?}");
}

async fn write(peer: &mut Peer, file_id: FileId, flags: WriteFlags) {
    let data = [7; 10_000];
    let request = WriteRequest { file_id, data: &data, flags, ..WriteRequest::default() };
    expect(peer, Command::WRITE, |body| request.encode(body)).await;
}

async fn list(peer: &mut Peer, directory: FileId) {
    let pattern = utf16_bytes("*");
    let request = QueryDirectoryRequest {
        class: FileClass::ID_BOTH_DIRECTORY,
        file_id: directory,
        pattern: Utf16::new(&pattern).unwrap(),
        output_buffer_length: 65_536,
        ..QueryDirectoryRequest::default()
    };
    expect(peer, Command::QUERY_DIRECTORY, |body| request.encode(body)).await;
}

#[tokio::test]
async fn no_command_waits_for_a_device_on_its_shard() {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(folder.path(), Default::default()).unwrap();
    LocalSet::new().run_until(use_all(Arc::new(store), "")).await;
}

#[tokio::test]
async fn no_command_looks_on_its_shard_at_what_is_being_changed() {
    let (store, meanwhile) = Interrupted::around(RamStore::that_waits(64 << 20, Waits::ForData));
    let sent_away = Arc::new(Mutex::new(HashSet::new()));
    let noted = Arc::clone(&sent_away);
    meanwhile.set(move |call, _| {
        let looks = [Call::Look, Call::TryToLook, Call::LookAtSecurity, Call::LookAtExtended, Call::LookForStream];
        if waiting::is_allowed() || !looks.contains(&call) {
            return Ok(());
        }
        noted.lock().insert(call);
        Err(Error::WouldBlock)
    });
    LocalSet::new().run_until(use_all(store, "")).await;
    let sent_away = sent_away.lock();
    for call in [Call::Look, Call::TryToLook, Call::LookForStream] {
        assert!(sent_away.contains(&call), "{call:?} was tried on the shard");
    }
}

#[tokio::test]
async fn no_command_changes_on_its_shard_what_somebody_changes_for_long() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let (store, meanwhile) = Interrupted::around(DirectoryStore::open(folder.path(), Default::default()).unwrap());
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    meanwhile.set(move |call, _| match call {
        Call::Hold => {
            counted.fetch_add(1, Ordering::Relaxed);
            Err(Error::WouldBlock)
        }
        Call::Write | Call::Change | Call::ChangeSecurity | Call::ChangeExtended | Call::Renew => {
            assert!(waiting::is_allowed(), "{call:?} on the shard");
            Ok(())
        }
        _ => Ok(()),
    });
    LocalSet::new().run_until(use_all(store, "")).await;
    assert!(tries.load(Ordering::Relaxed) > 10);
}

#[tokio::test]
async fn streams_are_looked_for_among_many_off_the_shard() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let store = DirectoryStore::open(folder.path(), Default::default()).unwrap();
    let new = NewNode { kind: Kind::File, attributes: 0x20, security: None, owner: None };
    let file = store.create(&SharePath::parse("file").unwrap(), new).unwrap();
    let long = |number: usize| format!("{number:0250}");
    for number in 0..100 {
        file.extras().create_stream(&long(number)).unwrap();
    }
    let look = async {
        let mut peer = peer(Arc::new(store)).await;
        for number in [50, 100] {
            let stream = peer.open(&format!("file:{}", long(number))).await;
            assert_eq!(peer.query(stream, FileClass::STREAM, 65_536).await.status(), Status::SUCCESS);
            peer.close(stream).await;
        }
        let overwritten = peer.create("file", |request| request.disposition = CreateDisposition::OVERWRITE).await;
        assert_eq!(overwritten.status(), Status::SUCCESS);
    };
    LocalSet::new().run_until(look).await;
    waiting::forbid(Forbidden::Not);
    assert!(file.extras().streams().unwrap().is_empty(), "they went with the data");
}

#[tokio::test]
async fn no_command_reads_through_a_directory_in_memory_on_its_shard() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let store = DirectoryStore::open(folder.path(), Default::default()).unwrap();
    LocalSet::new().run_until(use_all(Arc::new(store), "")).await;
}

#[tokio::test]
async fn no_command_waits_for_another_machine_on_its_shard() {
    let store = RamStore::that_waits(64 << 20, Waits::Always);
    LocalSet::new().run_until(use_all(Arc::new(store), "")).await;
}

#[tokio::test]
async fn no_command_waits_for_what_is_mounted_below_memory_on_its_shard() {
    for waits in [Waits::ForData, Waits::Always] {
        let store = RamStore::new(64 << 20).with_mounted("mounted", waits).unwrap();
        LocalSet::new().run_until(use_all(Arc::new(store), "mounted\\")).await;
    }
}

#[tokio::test]
async fn times_that_are_held_fast_are_put_back_off_the_shard() {
    let hold_fast = async {
        let mut peer = peer(Arc::new(RamStore::that_waits(64 << 20, Waits::ForData))).await;
        let (file, source) = (peer.open("file").await, peer.open("source").await);
        write(&mut peer, file, WriteFlags::NONE).await;
        write(&mut peer, source, WriteFlags::NONE).await;
        let held = FileTime(u64::MAX);
        let mut basic = Vec::new();
        Basic { write: held, change: held, ..Basic::default() }.encode(&mut basic);
        assert_eq!(peer.set(file, FileClass::BASIC, &basic).await, Status::SUCCESS);
        control(&mut peer, file).await;
        let trimmed = [1u64 << 32, 0, 4096].iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>();
        ioctl(&mut peer, file, CtlCode::FILE_LEVEL_TRIM, &trimmed).await;
        ioctl(&mut peer, file, CtlCode::SET_SPARSE, &[1]).await;
        write(&mut peer, file, WriteFlags::NONE).await;
        peer.close(file).await;
    };
    LocalSet::new().run_until(hold_fast).await;
}

#[tokio::test]
async fn a_stream_that_came_with_a_copied_file_is_copied_off_the_shard() {
    const LENGTH: usize = 4 << 20;
    let memory = Path::new("/dev/shm");
    let places = [std::env::temp_dir(), memory.to_owned()];
    for place in places.into_iter().filter(|place| place.is_dir()) {
        let folder = tempfile::tempdir_in(place).unwrap();
        let store = DirectoryStore::open(folder.path(), Default::default()).unwrap();
        let new = NewNode { kind: Kind::File, attributes: 0x20, security: None, owner: None };
        let original = store.create(&SharePath::parse("original").unwrap(), new).unwrap();
        original.extras().create_stream("stream").unwrap().write_at(&[5; LENGTH], 0).unwrap();
        let copied =
            std::process::Command::new("cp").arg("-a").args(["original", "copy"]).current_dir(&folder).status();
        assert!(copied.unwrap().success());
        let write_to_copy = async {
            let mut peer = peer(Arc::new(store)).await;
            let file = peer.open("copy:stream").await;
            write(&mut peer, file, WriteFlags::NONE).await;
            peer.close(file).await;
        };
        LocalSet::new().run_until(write_to_copy).await;
        waiting::forbid(Forbidden::Not);
        let mut data = vec![0; LENGTH];
        original.extras().stream("stream").unwrap().unwrap().1.read_at(&mut data, 0).unwrap();
        assert!(data == [5; LENGTH], "the original is not written to");
    }
}

/// Asks a share for all there is, in the directory that the names begin with.
async fn use_all(store: Arc<dyn Store>, above: &str) {
    let mut peer = peer(store).await;
    let at = |name: &str| format!("{above}{name}");
    for name in ["file", "file:stream"] {
        let file = peer.open(&at(name)).await;
        write(&mut peer, file, WriteFlags::NONE).await;
        write(&mut peer, file, WriteFlags::WRITE_THROUGH).await;
        let read = ReadRequest { file_id: file, length: 10_000, ..ReadRequest::default() };
        expect(&mut peer, Command::READ, |body| read.encode(body)).await;
        let flush = FlushRequest { file_id: file, ..FlushRequest::default() };
        expect(&mut peer, Command::FLUSH, |body| flush.encode(body)).await;
        change(&mut peer, file).await;
        ask(&mut peer, file).await;
        control(&mut peer, file).await;
        let close = CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id: file };
        expect(&mut peer, Command::CLOSE, |body| close.encode(body)).await;
    }
    for disposition in [CreateDisposition::OVERWRITE_IF, CreateDisposition::SUPERSEDE, CreateDisposition::OPEN] {
        for name in ["file", "file:stream", "file:another"] {
            let answer = peer.create(&at(name), |request| request.disposition = disposition).await;
            if answer.status() == Status::SUCCESS {
                peer.close(answer.file_id()).await;
            }
        }
    }
    let directory = peer.open_directory(&at("dir")).await;
    let inside = peer.open(&at("dir\\inside")).await;
    list(&mut peer, directory).await;
    peer.close(directory).await;
    assert_eq!(peer.rename(inside, &at("dir\\renamed")).await, Status::SUCCESS);
    assert_eq!(
        peer.set(inside, FileClass::LINK, &{
            let mut linked = Vec::new();
            Rename::encode(&at("linked"), false, &mut linked);
            linked
        })
        .await,
        Status::SUCCESS
    );
    let mut deletes = Vec::new();
    Disposition { delete_pending: true }.encode(&mut deletes);
    assert_eq!(peer.set(inside, FileClass::DISPOSITION, &deletes).await, Status::SUCCESS);
    peer.close(inside).await;
    for name in ["dir", "linked"] {
        let answer = peer.create(&at(name), |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
        peer.close(answer.file_id()).await;
    }
    let directory = peer.open_directory("").await;
    list(&mut peer, directory).await;
    peer.close(directory).await;
    let file = peer.open(&at("left open")).await;
    write(&mut peer, file, WriteFlags::NONE).await;
    peer.disconnect();
}

async fn change(peer: &mut Peer, file: FileId) {
    let (mut basic, mut allocation, mut end_of_file) = (Vec::new(), Vec::new(), Vec::new());
    Basic { attributes: FileAttributes::NOT_CONTENT_INDEXED, ..Basic::default() }.encode(&mut basic);
    Allocation { allocation: 1 << 20 }.encode(&mut allocation);
    EndOfFile { end_of_file: 20_000 }.encode(&mut end_of_file);
    let sets = [(FileClass::BASIC, basic), (FileClass::ALLOCATION, allocation), (FileClass::END_OF_FILE, end_of_file)];
    for (class, buffer) in sets {
        assert_eq!(peer.set(file, class, &buffer).await, Status::SUCCESS, "{class:?}");
    }
}

async fn ask(peer: &mut Peer, file: FileId) {
    for class in [FileClass::ALL, FileClass::EA, FileClass::STREAM, FileClass::NETWORK_OPEN] {
        assert_eq!(peer.query(file, class, 65_536).await.status(), Status::SUCCESS, "{class:?}");
    }
    let security = QueryInfoRequest {
        info_type: InfoType::SECURITY,
        additional_information: SecurityInformation::DACL.0,
        output_buffer_length: 65_536,
        file_id: file,
        ..QueryInfoRequest::default()
    };
    let answer = peer.ask(Command::QUERY_INFO, |body| security.encode(body)).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    let descriptor = wire::command::query_info::QueryInfoResponse::decode(&answer.message).unwrap().output.to_vec();
    let set = SetInfoRequest {
        info_type: InfoType::SECURITY,
        additional_information: SecurityInformation::DACL.0,
        file_id: file,
        buffer: &descriptor,
        ..SetInfoRequest::default()
    };
    expect(peer, Command::SET_INFO, |body| set.encode(body)).await;
    for class in [FileSystemClass::FULL_SIZE, FileSystemClass::VOLUME] {
        let request = QueryInfoRequest {
            info_type: InfoType::FILESYSTEM,
            class: class.into(),
            output_buffer_length: 65_536,
            file_id: file,
            ..QueryInfoRequest::default()
        };
        expect(peer, Command::QUERY_INFO, |body| request.encode(body)).await;
    }
}

async fn control(peer: &mut Peer, file: FileId) {
    let zeros: Vec<u8> = [0u64, 4096].iter().flat_map(|number| number.to_le_bytes()).collect();
    for (ctl_code, input) in [(CtlCode::SET_ZERO_DATA, &zeros[..]), (CtlCode::QUERY_ALLOCATED_RANGES, &zeros[..])] {
        ioctl(peer, file, ctl_code, input).await;
    }
}

async fn ioctl(peer: &mut Peer, file: FileId, ctl_code: CtlCode, input: &[u8]) {
    let request = IoctlRequest {
        ctl_code,
        file_id: file,
        max_output_response: 65_536,
        flags: IoctlFlags::IS_FSCTL,
        input,
        ..IoctlRequest::default()
    };
    expect(peer, Command::IOCTL, |body| request.encode(body)).await;
}

#[test]
fn shards_that_run_answer_and_those_that_have_ended_do_not() {
    let peer_less = server_with(Signing::Enabled, Arc::new(RamStore::new(1 << 20)));
    let configuration = Configuration::clone(&peer_less.configuration.load_full());
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let config = Config { listen, shards: 2, opens: None, metadata_cache_bytes: None };
    let server = Server::start(&config, configuration).unwrap();
    let admin = server.admin();
    let silent = |patience| admin.silent_shards(patience);
    (0..3).for_each(|_| assert_eq!(silent(Duration::from_secs(60)), [0; 0]));
    server.stop(Duration::ZERO);
    assert_eq!(silent(Duration::from_millis(10)), [0, 1]);
}
