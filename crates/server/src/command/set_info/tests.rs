//! SET_INFO as clients see it.

use tokio::task::LocalSet;
use wire::command::create::{AccessMask, CreateOptions, OplockLevel, ShareAccess};
use wire::command::query_info::{InfoType, QueryInfoResponse};
use wire::command::set_info::SetInfoRequest;
use wire::command::write::WriteFlags;
use wire::context::create::{CreateContextsBuilder, name};
use wire::context::lease::{Lease, LeaseState};
use wire::fscc::FileAttributes;
use wire::fscc::file::{Basic, Standard};
use wire::fscc::rename::{DispositionFlags, Rename, RenameFlags};
use wire::ids::{Command, FileId, FileTime, Guid};
use wire::security::access::{FILE_ALL, READ_DATA, WRITE_DAC};
use wire::security::{Acl, SecurityDescriptor, SecurityInformation};

use super::*;
use crate::state::configuration::Signing;
use crate::state::open_id::OpenId;
use crate::tests::interrupted::{Call, Interrupted};
use crate::tests::testing::{Peer, Terms, server};

async fn peer() -> Peer {
    Peer::sign_in(&server(Signing::Enabled)).await
}

async fn rename(peer: &mut Peer, file: FileId, to: &str, replace: bool) -> Status {
    peer.set_name(file, FileClass::RENAME, to, replace).await
}

async fn exists(peer: &mut Peer, name: &str) -> bool {
    let answer =
        peer.create(name, |request| request.disposition = wire::command::create::CreateDisposition::OPEN).await;
    let found = answer.status() == Status::SUCCESS;
    if found {
        peer.close(answer.file_id()).await;
    }
    found
}

async fn basic(peer: &mut Peer, file: FileId) -> Basic {
    let answer = peer.query(file, FileClass::BASIC, 100).await;
    Basic::decode(QueryInfoResponse::decode(&answer.message).unwrap().output).unwrap()
}

async fn set_basic(peer: &mut Peer, file: FileId, basic: Basic) -> Status {
    let mut buffer = Vec::new();
    basic.encode(&mut buffer);
    peer.set(file, FileClass::BASIC, &buffer).await
}

#[test]
fn modes_change_within_their_kind() {
    let plain = ModeFlags::NONE;
    assert_eq!(new_mode(plain, ModeFlags::SEQUENTIAL_ONLY), Ok(ModeFlags::SEQUENTIAL_ONLY));
    assert_eq!(new_mode(ModeFlags::SEQUENTIAL_ONLY, plain), Ok(plain));
    assert_eq!(new_mode(plain, ModeFlags::SYNCHRONOUS_IO_ALERT), Err(Status::INVALID_PARAMETER));
    assert_eq!(new_mode(plain, ModeFlags::DELETE_ON_CLOSE), Err(Status::INVALID_PARAMETER));
    // What goes past all caches is written through or not as it was opened.
    let unbuffered = ModeFlags::NO_INTERMEDIATE_BUFFERING;
    assert_eq!(new_mode(unbuffered, ModeFlags::WRITE_THROUGH), Ok(unbuffered));
    let both = unbuffered | ModeFlags::WRITE_THROUGH;
    assert_eq!(new_mode(both, plain), Ok(both));
    let alert = ModeFlags::SYNCHRONOUS_IO_ALERT;
    assert_eq!(new_mode(alert, plain), Err(Status::INVALID_PARAMETER));
    assert_eq!(new_mode(alert, ModeFlags::SYNCHRONOUS_IO_NONALERT), Ok(ModeFlags::SYNCHRONOUS_IO_NONALERT));
}

/// True where a WRITE that says nothing of it is answered once it has reached the disk.
fn writes_through(peer: &Peer, file: FileId) -> bool {
    let channels = peer.connection.channels.borrow();
    let session = &channels.values().next().unwrap().session;
    let open = session.open(OpenId::from_file_id(file).unwrap()).unwrap();
    open.file().unwrap().writes_through(WriteFlags::NONE)
}

#[tokio::test]
async fn write_through_that_is_set_later_holds_for_writes_until_it_is_taken_back() {
    let mut peer = peer().await;
    let plain = peer.open("plain").await;
    let answer = peer.create("through", |request| request.options = CreateOptions::WRITE_THROUGH).await;
    let through = answer.file_id();
    assert_eq!((writes_through(&peer, plain), writes_through(&peer, through)), (false, true));
    for (mode, expected) in [(ModeFlags::WRITE_THROUGH, true), (ModeFlags::NONE, false)] {
        for file in [plain, through] {
            assert_eq!(peer.set(file, FileClass::MODE, &mode.0.to_le_bytes()).await, Status::SUCCESS);
            assert_eq!(writes_through(&peer, file), expected);
        }
    }
}

#[test]
fn classes_that_cannot_be_set_are_told_apart() {
    assert_eq!(unknown(FileClass::STANDARD), Status::INVALID_INFO_CLASS);
    assert_eq!(unknown(FileClass::OBJECT_ID), Status::NOT_SUPPORTED);
    assert_eq!(file_system(FileSystemClass::OBJECT_ID), Status::ACCESS_DENIED);
    assert_eq!(file_system(FileSystemClass::SIZE), Status::INVALID_INFO_CLASS);
}

#[tokio::test]
async fn files_take_a_new_name_and_keep_their_opens() {
    let mut peer = peer().await;
    let directory = peer.open_directory("dir").await;
    peer.close(directory).await;
    let (file, other) = (peer.open("file").await, peer.open("file").await);
    assert_eq!(rename(&mut peer, file, "dir\\moved", false).await, Status::SUCCESS);
    assert!(!exists(&mut peer, "file").await && exists(&mut peer, "dir\\moved").await);
    assert_eq!(rename(&mut peer, other, "DIR\\Moved", false).await, Status::SUCCESS, "the case alone");
    assert_eq!(rename(&mut peer, file, "nowhere\\moved", false).await, Status::OBJECT_PATH_NOT_FOUND);
    assert_eq!(rename(&mut peer, file, "\\moved", false).await, Status::INVALID_PARAMETER);
    assert_eq!(rename(&mut peer, file, "a*b", false).await, Status::OBJECT_NAME_INVALID);
    assert_eq!(peer.set(file, FileClass::RENAME, &[0; 23]).await, Status::INFO_LENGTH_MISMATCH);
}

#[tokio::test]
async fn a_taken_name_is_replaced_where_that_is_asked_for_and_nobody_has_it_open() {
    let mut peer = peer().await;
    let (file, taken) = (peer.open("file").await, peer.open("taken").await);
    assert_eq!(rename(&mut peer, file, "TAKEN", false).await, Status::OBJECT_NAME_COLLISION);
    assert_eq!(rename(&mut peer, file, "TAKEN", true).await, Status::ACCESS_DENIED);
    let mut posix = Vec::new();
    let flags = RenameFlags::REPLACE_IF_EXISTS | RenameFlags::POSIX_SEMANTICS;
    Rename::encode_ex("TAKEN", flags, &mut posix);
    assert_eq!(peer.set(file, FileClass::RENAME_EX, &posix).await, Status::SUCCESS);
    peer.close(taken).await;
    assert!(exists(&mut peer, "taken").await && !exists(&mut peer, "file").await);
    peer.open_directory("dir").await;
    assert_eq!(rename(&mut peer, file, "dir", true).await, Status::ACCESS_DENIED);
}

/// Opens to read, sharing as said.
async fn read_shared(peer: &mut Peer, name: &str, share: ShareAccess) -> FileId {
    let answer = peer
        .create(name, |request| {
            request.desired_access = AccessMask(READ_DATA);
            request.share_access = share;
        })
        .await;
    answer.file_id()
}

#[tokio::test]
async fn a_file_is_replaced_in_the_manner_of_posix_where_all_who_have_it_open_share_its_deletion() {
    let mut posix = Vec::new();
    let flags = RenameFlags::REPLACE_IF_EXISTS | RenameFlags::POSIX_SEMANTICS;
    Rename::encode_ex("taken", flags, &mut posix);
    // What keeps a named stream from deletion keeps the file, too (MS-FSA 2.1.5.1.2.1).
    for name in ["taken", "taken:stream"] {
        let mut peer = peer().await;
        let file = peer.open("file").await;
        let kept = read_shared(&mut peer, name, ShareAccess(3)).await;
        let shared = read_shared(&mut peer, "taken", ShareAccess(7)).await;
        assert_eq!(peer.set(file, FileClass::RENAME_EX, &posix).await, Status::ACCESS_DENIED);
        assert!(exists(&mut peer, "file").await);
        peer.close(kept).await;
        assert_eq!(peer.set(file, FileClass::RENAME_EX, &posix).await, Status::SUCCESS);
        assert!(!exists(&mut peer, "file").await);
        peer.close(shared).await;
    }
}

#[tokio::test]
async fn who_keeps_the_replaced_file_open_for_later_is_asked_to_close_it_and_is_believed() {
    LocalSet::new().run_until(replace_what_is_kept()).await;
}

async fn replace_what_is_kept() {
    let server = server(Signing::Enabled);
    for closes in [true, false] {
        let mut keeper = Peer::sign_in_as(&server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
        let mut peer = Peer::sign_in(&server).await;
        let file = peer.open("file").await;
        let lease_key = Guid([u8::from(closes) + 1; 16]);
        let lease_state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
        let lease = Lease { lease_key, lease_state, ..Lease::default() }.to_bytes();
        let mut builder = CreateContextsBuilder::new();
        builder.add(name::LEASE, &lease);
        let contexts = builder.contexts().as_bytes().to_vec();
        let kept = keeper.create_edited("taken", &contexts, |request| request.oplock_level = OplockLevel::LEASE).await;
        let mut message = peer.name_message(file, FileClass::RENAME, "taken", true);
        peer.process(&mut message).unwrap();
        tokio::task::yield_now().await;
        if closes {
            keeper.close(kept.file_id()).await;
        } else {
            assert_eq!(keeper.acknowledge(lease_key, LeaseState::READ_CACHING).await, Status::SUCCESS);
        }
        let status = loop {
            let answer = peer.receive().await;
            if answer.status() != Status::PENDING {
                break answer.status();
            }
        };
        if closes {
            assert_eq!(status, Status::SUCCESS);
            peer.close(file).await;
            continue;
        }
        assert_eq!(status, Status::ACCESS_DENIED);
        assert!(exists(&mut peer, "file").await && exists(&mut peer, "taken").await);
        // What Linux does then: it removes the file, whose name is free when the other has closed it.
        let taken = peer.open("taken").await;
        assert_eq!(peer.set(taken, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
        peer.close(taken).await;
        assert_eq!(rename(&mut peer, file, "taken", true).await, Status::DELETE_PENDING);
        keeper.close(kept.file_id()).await;
        assert_eq!(rename(&mut peer, file, "taken", true).await, Status::SUCCESS);
    }
}

#[tokio::test]
async fn directories_with_opens_below_stay_where_they_are() {
    let mut peer = peer().await;
    let directory = peer.open_directory("dir").await;
    let file = peer.open("dir\\file").await;
    assert_eq!(rename(&mut peer, directory, "moved", false).await, Status::ACCESS_DENIED);
    peer.close(file).await;
    assert_eq!(rename(&mut peer, directory, "dir\\below", false).await, Status::SHARING_VIOLATION);
    assert_eq!(rename(&mut peer, directory, "moved", false).await, Status::SUCCESS);
    assert!(exists(&mut peer, "moved\\file").await);
}

#[tokio::test]
async fn a_directory_does_not_take_the_place_of_another_and_says_why() {
    let mut peer = peer().await;
    let directory = peer.open_directory("dir").await;
    let taken = peer.open_directory("taken").await;
    assert_eq!(rename(&mut peer, directory, "taken", true).await, Status::ACCESS_DENIED);
    let file = peer.open("taken\\file").await;
    peer.close(file).await;
    peer.close(taken).await;
    assert_eq!(rename(&mut peer, directory, "taken", false).await, Status::OBJECT_NAME_COLLISION);
    assert_eq!(rename(&mut peer, directory, "taken", true).await, Status::DIRECTORY_NOT_EMPTY);
}

#[tokio::test]
async fn whoever_may_delete_the_directory_is_in_the_way_of_new_names() {
    let mut peer = peer().await;
    let directory = peer.open_directory("dir").await;
    let file = peer.open("file").await;
    assert_eq!(rename(&mut peer, file, "dir\\file", false).await, Status::SHARING_VIOLATION);
    peer.close(directory).await;
    assert_eq!(rename(&mut peer, file, "dir\\file", false).await, Status::SUCCESS);
}

#[tokio::test]
async fn streams_are_renamed_within_their_file() {
    let mut peer = peer().await;
    let stream = peer.open("file:one").await;
    peer.open("file:two").await;
    assert_eq!(rename(&mut peer, stream, ":two", false).await, Status::OBJECT_NAME_COLLISION);
    assert_eq!(rename(&mut peer, stream, ":two", true).await, Status::INVALID_PARAMETER, "it is open");
    assert_eq!(rename(&mut peer, stream, ":three:$DATA", false).await, Status::SUCCESS);
    assert!(exists(&mut peer, "file:three").await && !exists(&mut peer, "file:one").await);
    assert_eq!(rename(&mut peer, stream, ":x:$INDEX", false).await, Status::OBJECT_TYPE_MISMATCH);
}

#[tokio::test]
async fn what_was_done_is_answered_so_though_the_file_cannot_be_marked_to_be_archived() {
    let test = async {
        let (store, meanwhile) = Interrupted::around(store::RamStore::that_waits(64 << 20, store::Waits::Always));
        let server = crate::tests::testing::server_with(Signing::Enabled, store);
        let mut peer = Peer::sign_in(&server).await;
        let file = peer.open("file").await;
        let unmarked = Basic { attributes: FileAttributes::NORMAL, ..basic(&mut peer, file).await };
        assert_eq!(set_basic(&mut peer, file, unmarked).await, Status::SUCCESS);
        meanwhile.set(|call, _| if call == Call::Change { Err(store::Error::Full) } else { Ok(()) });
        assert_eq!(peer.set_name(file, FileClass::LINK, "second", false).await, Status::SUCCESS);
        assert_eq!(rename(&mut peer, file, "renamed", false).await, Status::SUCCESS);
        assert!(exists(&mut peer, "second").await && exists(&mut peer, "renamed").await);
    };
    tokio::task::LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn links_are_second_names() {
    let mut peer = peer().await;
    let (file, mut buffer) = (peer.open("file").await, Vec::new());
    Rename::encode("second", false, &mut buffer);
    assert_eq!(peer.set(file, FileClass::LINK, &buffer).await, Status::SUCCESS);
    assert_eq!(peer.set(file, FileClass::LINK, &buffer).await, Status::OBJECT_NAME_COLLISION);
    let answer = peer.query(file, FileClass::STANDARD, 100).await;
    let standard = Standard::decode(QueryInfoResponse::decode(&answer.message).unwrap().output).unwrap();
    assert_eq!(standard.links, 2);
    let directory = peer.open_directory("dir").await;
    assert_eq!(peer.set(directory, FileClass::LINK, &buffer).await, Status::FILE_IS_A_DIRECTORY);
}

#[tokio::test]
async fn what_is_marked_goes_with_its_last_open() {
    let mut peer = peer().await;
    let (file, other) = (peer.open("file").await, peer.open("file").await);
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    peer.close(file).await;
    assert_eq!(peer.create("file", |_| {}).await.status(), Status::DELETE_PENDING);
    peer.close(other).await;
    assert!(!exists(&mut peer, "file").await);
}

#[tokio::test]
async fn a_name_goes_at_once_in_the_manner_of_posix() {
    let mut peer = peer().await;
    let (file, other) = (peer.open("file").await, peer.open("file").await);
    let flags = (DispositionFlags::DELETE | DispositionFlags::POSIX_SEMANTICS).0.to_le_bytes();
    assert_eq!(peer.set(file, FileClass::DISPOSITION_EX, &flags).await, Status::SUCCESS);
    peer.close(file).await;
    assert!(!exists(&mut peer, "file").await);
    let again = peer.open("file").await;
    assert_eq!(peer.set(other, FileClass::END_OF_FILE, &9_u64.to_le_bytes()).await, Status::SUCCESS);
    peer.close(other).await;
    peer.close(again).await;
    assert!(exists(&mut peer, "file").await);
}

#[tokio::test]
async fn not_everything_can_be_deleted() {
    let mut peer = peer().await;
    let directory = peer.open_directory("dir").await;
    let file = peer.open("dir\\file").await;
    assert_eq!(peer.set(directory, FileClass::DISPOSITION, &[1]).await, Status::DIRECTORY_NOT_EMPTY);
    let read_only = Basic { attributes: FileAttributes::READONLY, ..Basic::default() };
    assert_eq!(set_basic(&mut peer, file, read_only).await, Status::SUCCESS);
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::CANNOT_DELETE);
    let flags = (DispositionFlags::DELETE | DispositionFlags::IGNORE_READONLY_ATTRIBUTE).0.to_le_bytes();
    assert_eq!(peer.set(file, FileClass::DISPOSITION_EX, &flags).await, Status::SUCCESS);
    let on_close = (DispositionFlags::DELETE | DispositionFlags::ON_CLOSE).0.to_le_bytes();
    assert_eq!(peer.set(directory, FileClass::DISPOSITION_EX, &on_close).await, Status::NOT_SUPPORTED);
    assert_eq!(peer.set(directory, FileClass::DISPOSITION_EX, &[0x20, 0, 0, 0]).await, Status::NOT_SUPPORTED);
    let root = peer.open_directory("").await;
    assert_eq!(peer.set(root, FileClass::DISPOSITION, &[1]).await, Status::CANNOT_DELETE);
}

#[tokio::test]
async fn a_close_that_deletes_can_be_called_off() {
    let mut peer = peer().await;
    let answer = peer.create("file", |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
    let file = answer.file_id();
    let off = DispositionFlags::ON_CLOSE.0.to_le_bytes();
    assert_eq!(peer.set(file, FileClass::DISPOSITION_EX, &off).await, Status::SUCCESS);
    peer.close(file).await;
    assert!(exists(&mut peer, "file").await);
}

#[tokio::test]
async fn times_are_held_while_the_open_that_set_them_writes() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    let asked = Basic { write: FileTime(1 << 56), creation: FileTime(3 << 55), ..Basic::default() };
    assert_eq!(set_basic(&mut peer, file, asked).await, Status::SUCCESS);
    assert_eq!(peer.set(file, FileClass::END_OF_FILE, &9_u64.to_le_bytes()).await, Status::SUCCESS);
    let known = basic(&mut peer, file).await;
    assert_eq!((known.write, known.creation), (asked.write, asked.creation));
    let thaw = Basic { write: FileTime(-2_i64 as u64), ..Basic::default() };
    assert_eq!(set_basic(&mut peer, file, thaw).await, Status::SUCCESS);
    assert_eq!(peer.set(file, FileClass::END_OF_FILE, &7_u64.to_le_bytes()).await, Status::SUCCESS);
    assert_ne!(basic(&mut peer, file).await.write, asked.write);
}

#[tokio::test]
async fn lengths_are_for_those_who_may_write_and_for_files() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    assert_eq!(peer.set(file, FileClass::ALLOCATION, &10_000_u64.to_le_bytes()).await, Status::SUCCESS);
    assert_eq!(peer.set(file, FileClass::END_OF_FILE, &u64::MAX.to_le_bytes()).await, Status::INVALID_PARAMETER);
    assert_eq!(peer.set(file, FileClass::END_OF_FILE, &[0; 7]).await, Status::INFO_LENGTH_MISMATCH);
    assert_eq!(peer.set(file, FileClass::VALID_DATA_LENGTH, &[0; 8]).await, Status::PRIVILEGE_NOT_HELD);
    let directory = peer.open_directory("dir").await;
    assert_eq!(peer.set(directory, FileClass::END_OF_FILE, &[0; 8]).await, Status::INVALID_PARAMETER);
    let reader = peer.create("file", |request| request.desired_access = READ_DATA.into()).await;
    let reader = reader.file_id();
    for class in [FileClass::END_OF_FILE, FileClass::ALLOCATION, FileClass::DISPOSITION, FileClass::RENAME] {
        assert_eq!(peer.set(reader, class, &[0; 24]).await, Status::ACCESS_DENIED, "{class:?}");
    }
}

#[tokio::test]
async fn an_empty_list_shuts_out_everybody_but_the_owner() {
    let test = async {
        let mut peer = peer().await;
        let file = peer.open("file").await;
        let descriptor = SecurityDescriptor { dacl: Some(Acl::default()), ..SecurityDescriptor::default() };
        let buffer = descriptor.encode().unwrap();
        let request = SetInfoRequest {
            info_type: InfoType::SECURITY,
            additional_information: SecurityInformation::DACL.0,
            file_id: file,
            buffer: &buffer,
            ..SetInfoRequest::default()
        };
        assert_eq!(peer.ask(Command::SET_INFO, |body| request.encode(body)).await.status(), Status::SUCCESS);
        let opened = |access: u32| {
            move |request: &mut wire::command::create::CreateRequest<'_>| {
                request.desired_access = access.into();
            }
        };
        assert_eq!(peer.create("file", opened(READ_DATA)).await.status(), Status::ACCESS_DENIED);
        assert_eq!(peer.create("file", opened(FILE_ALL)).await.status(), Status::ACCESS_DENIED);
        let owner = peer.create("file", opened(WRITE_DAC)).await;
        assert_eq!(owner.status(), Status::SUCCESS);
        let broken = SetInfoRequest { file_id: owner.file_id(), buffer: &buffer[..19], ..request };
        let answer = peer.ask(Command::SET_INFO, |body| broken.encode(body)).await;
        assert_eq!(answer.status(), Status::INVALID_SECURITY_DESCR);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn positions_are_kept_and_nothing_else_is_set() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    assert_eq!(peer.set(file, FileClass::POSITION, &100_u64.to_le_bytes()).await, Status::SUCCESS);
    let answer = peer.query(file, FileClass::POSITION, 8).await;
    assert_eq!(QueryInfoResponse::decode(&answer.message).unwrap().output, 100_u64.to_le_bytes());
    assert_eq!(peer.set(file, FileClass::POSITION, &u64::MAX.to_le_bytes()).await, Status::INVALID_PARAMETER);
    assert_eq!(peer.set(file, FileClass::SHORT_NAME, &[0; 24]).await, NO_SHORT_NAMES);
    assert_eq!(peer.set(file, FileClass::STANDARD, &[0; 24]).await, Status::INVALID_INFO_CLASS);
}

#[tokio::test]
async fn what_is_longer_than_any_path_is_no_name() {
    let mut peer = peer().await;
    let file = peer.open("file").await;
    let long = "n".repeat(6_000);
    assert_eq!(rename(&mut peer, file, &long, false).await, Status::OBJECT_NAME_INVALID);
    assert!(exists(&mut peer, "file").await);
}
