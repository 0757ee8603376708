//! Symbolic links as clients make, see, follow and remove them, on a RAM disk and in a folder.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use store::{DirectoryStore, Kind, NewNode, RamStore, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::command::create::{AccessMask, CreateDisposition, CreateOptions, CreateRequest, CreateResponse};
use wire::command::error::{ErrorResponse, SymbolicLinkError};
use wire::command::ioctl::{CtlCode, IoctlResponse};
use wire::command::query_directory::{QueryDirectoryRequest, QueryDirectoryResponse};
use wire::command::query_info::QueryInfoResponse;
use wire::fscc::directory::entries;
use wire::fscc::file::AttributeTag;
use wire::fscc::ioctl::{Reparse, ReparseTag, SYMLINK_FLAG_RELATIVE, encode_symlink};
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Command, FileId};
use wire::security::access::{
    DELETE_CHILD, FILE_GENERIC_READ, FILE_GENERIC_WRITE, READ_ATTRIBUTES, READ_DATA, WRITE_ATTRIBUTES, WRITE_DATA,
};
use wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use wire::status::Status;
use wire::{Utf16, codec};

use crate::state::configuration::Signing;
use crate::state::files::{Entering, Entry, Link};
use crate::state::open_path::OpenPath;
use crate::state::session_link::SessionLink;
use crate::state::shared::Shared;
use crate::tests::entries::entry;
use crate::tests::interrupted::{Call, Interrupted};
use crate::tests::kit::configuration::behind_cache;
use crate::tests::testing::{Answer, Peer, server_with};

/// Does the same on a RAM disk, in a folder, and behind the cache.
async fn on_each(does: impl AsyncFn(Arc<Shared>, Arc<dyn Store>)) {
    let folder = tempfile::tempdir().unwrap();
    let again = tempfile::tempdir().unwrap();
    let in_folder = |place: &std::path::Path| DirectoryStore::open(place, Default::default()).unwrap();
    let stores: [Arc<dyn Store>; 3] = [
        Arc::new(RamStore::new(64 << 20)),
        Arc::new(in_folder(folder.path())),
        behind_cache(Arc::new(in_folder(again.path()))),
    ];
    for store in stores {
        LocalSet::new().run_until(does(server_with(Signing::Enabled, Arc::clone(&store)), store)).await;
    }
}

fn symlink(target: &str, flags: u32) -> Vec<u8> {
    let mut point = Vec::new();
    assert!(encode_symlink(target, target, flags, &mut point));
    point
}

async fn set(peer: &mut Peer, file: FileId, target: &str) -> Status {
    let point = symlink(target, SYMLINK_FLAG_RELATIVE);
    peer.ioctl(CtlCode::SET_REPARSE_POINT, file, &point, 0).await.status()
}

/// Opens a name itself, a link too.
async fn open_itself(peer: &mut Peer, name: &str) -> Answer {
    let edit = |request: &mut CreateRequest<'_>| {
        request.disposition = CreateDisposition::OPEN;
        request.options = CreateOptions::OPEN_REPARSE_POINT;
    };
    peer.create(name, edit).await
}

/// Makes a link as clients do.
async fn make(peer: &mut Peer, name: &str, target: &str) {
    let edit = |request: &mut CreateRequest<'_>| {
        request.disposition = CreateDisposition::CREATE;
        request.options = CreateOptions::OPEN_REPARSE_POINT | CreateOptions::NON_DIRECTORY_FILE;
    };
    let file = peer.create(name, edit).await.file_id();
    assert_eq!(set(peer, file, target).await, Status::SUCCESS);
    peer.close(file).await;
}

/// Where a link leads.
async fn read(peer: &mut Peer, file: FileId) -> Result<(String, u32), Status> {
    let answer = peer.ioctl(CtlCode::GET_REPARSE_POINT, file, &[], 16_384).await;
    if answer.status() != Status::SUCCESS {
        return Err(answer.status());
    }
    let point = IoctlResponse::decode(&answer.message).unwrap().output;
    let link = Reparse::decode(point).unwrap().symlink().unwrap().unwrap();
    Ok((link.substitute.decode().unwrap(), link.flags))
}

/// What a CREATE is told that has come to a link: bytes that are left, target and flags.
fn stopped(answer: &Answer) -> (u16, String, u32) {
    assert_eq!(answer.status(), Status::STOPPED_ON_SYMLINK);
    let response = ErrorResponse::decode(&answer.message).unwrap();
    let data = response.contexts().next().map_or(response.data, |context| context.data);
    let link = SymbolicLinkError::decode(data).unwrap();
    (link.unparsed_path_length, link.substitute_name.decode().unwrap(), link.flags)
}

fn find(store: &dyn Store, name: &str) -> Option<Option<String>> {
    match store.resolve(&SharePath::parse(name).unwrap(), Use::Metadata).unwrap() {
        store::Resolved::Found { node, .. } => Some(node.target().unwrap()),
        store::Resolved::Missing { .. } => None,
    }
}

#[tokio::test]
async fn a_link_is_made_read_followed_by_its_client_and_removed_as_itself() {
    on_each(async |server, store| {
        let mut peer = Peer::sign_in(&server).await;
        let directory = peer.open_directory("d").await;
        let file = peer.open("d\\file").await;
        assert_eq!(peer.write(file, 0, b"data").await, Status::SUCCESS);
        peer.close(file).await;
        peer.close(directory).await;
        make(&mut peer, "link", "d\\file").await;
        assert_eq!(find(&*store, "link"), Some(Some("d/file".into())));

        let opened = open_itself(&mut peer, "LINK").await;
        let response = CreateResponse::decode(&opened.message).unwrap();
        assert_eq!(response.file_attributes & FileAttributes::REPARSE_POINT.0, FileAttributes::REPARSE_POINT.0);
        assert_eq!(response.end_of_file, 0);
        let link = opened.file_id();
        assert_eq!(read(&mut peer, link).await, Ok(("d\\file".into(), SYMLINK_FLAG_RELATIVE)));
        let edit = |request: &mut CreateRequest<'_>| {
            request.disposition = CreateDisposition::OPEN;
            request.options = CreateOptions::OPEN_REPARSE_POINT;
            request.desired_access = AccessMask(READ_DATA);
        };
        let blind = peer.create("link", edit).await.file_id();
        assert_eq!(read(&mut peer, blind).await, Err(Status::ACCESS_DENIED), "who may not look at it");
        peer.close(blind).await;
        let told = peer.query(link, FileClass::ATTRIBUTE_TAG, 64).await;
        let tag = AttributeTag::decode(QueryInfoResponse::decode(&told.message).unwrap().output).unwrap();
        assert_eq!(tag.reparse_tag, ReparseTag::SYMLINK.0);
        assert!(tag.attributes.contains(FileAttributes::REPARSE_POINT));
        assert_eq!(peer.read(link, 0, 8).await.status(), Status::END_OF_FILE);
        assert_ne!(peer.write(link, 0, b"x").await, Status::SUCCESS);
        peer.close(link).await;

        // Who means what it leads to is told where that is.
        let plain = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::OPEN;
        assert_eq!(stopped(&peer.create("link", plain).await), (0, "d\\file".into(), SYMLINK_FLAG_RELATIVE));
        make(&mut peer, "way", "d").await;
        let told = stopped(&peer.create("way\\sub\\file", plain).await);
        assert_eq!(told, (2 * "\\sub\\file".len() as u16, "d".into(), SYMLINK_FLAG_RELATIVE));
        let told = stopped(&peer.create("WAY\\file:stream", |_| {}).await);
        assert_eq!(told.0, 2 * "\\file:stream".len() as u16);
        let as_directory = |request: &mut CreateRequest<'_>| request.options = CreateOptions::DIRECTORY_FILE;
        assert_eq!(stopped(&peer.create("way", as_directory).await).0, 0);
        // What is left is told as it was said.
        for (name, left) in [("way\\\\sub\\\\\\file", 12), (".\\way\\x", 2), ("way\\x\\..\\y", 7), ("way:stream", 7)] {
            assert_eq!(stopped(&peer.create(name, plain).await).0, 2 * left, "{name}");
        }
        // Also who means the last name itself, where another stands on the way.
        assert_eq!(stopped(&open_itself(&mut peer, "way\\file").await).0, 2 * "\\file".len() as u16);

        // It is renamed and removed as itself.
        let link = open_itself(&mut peer, "link").await.file_id();
        assert_eq!(peer.rename(link, "d\\moved").await, Status::SUCCESS);
        peer.close(link).await;
        assert_eq!((find(&*store, "link"), find(&*store, "d\\moved")), (None, Some(Some("d/file".into()))));
        for name in ["d\\moved", "way"] {
            let link = open_itself(&mut peer, name).await.file_id();
            assert_eq!(peer.set(link, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
            peer.close(link).await;
            assert_eq!(find(&*store, name), None);
        }
        assert_eq!(find(&*store, "d\\file"), Some(None));
    })
    .await;
}

#[tokio::test]
async fn listings_tell_links_by_attribute_and_tag() {
    on_each(async |server, _| {
        let mut peer = Peer::sign_in(&server).await;
        let file = peer.open("file").await;
        peer.close(file).await;
        make(&mut peer, "link", "nowhere").await;
        let root = peer.open_directory("").await;
        for class in [FileClass::ID_BOTH_DIRECTORY, FileClass::FULL_DIRECTORY, FileClass::ID_EXTD_DIRECTORY] {
            let pattern = codec::utf16_bytes("*");
            let request = QueryDirectoryRequest {
                class,
                file_id: root,
                flags: wire::command::query_directory::QueryDirectoryFlags::RESTART_SCANS,
                pattern: Utf16::new(&pattern).unwrap(),
                output_buffer_length: 65_536,
                ..QueryDirectoryRequest::default()
            };
            let answer = peer.ask(Command::QUERY_DIRECTORY, |body| request.encode(body)).await;
            let output = QueryDirectoryResponse::decode(&answer.message).unwrap().output;
            let mut tags: Vec<(String, u32)> = entries(class, output)
                .map(|entry| {
                    let entry = entry.unwrap();
                    let is_link = entry.attributes.contains(FileAttributes::REPARSE_POINT);
                    assert_eq!(is_link, entry.reparse_tag != 0);
                    (entry.name.decode().unwrap(), entry.reparse_tag)
                })
                .filter(|(name, _)| !name.starts_with('.'))
                .collect();
            tags.sort();
            assert_eq!(tags, [("file".to_owned(), 0), ("link".to_owned(), ReparseTag::SYMLINK.0)]);
        }
    })
    .await;
}

#[tokio::test]
async fn the_open_that_made_a_link_goes_on_as_one_of_the_link() {
    on_each(async |server, store| {
        let mut peer = Peer::sign_in(&server).await;
        let edit = |request: &mut CreateRequest<'_>| {
            request.options = CreateOptions::OPEN_REPARSE_POINT | CreateOptions::DELETE_ON_CLOSE;
        };
        let link = peer.create("link", edit).await.file_id();
        assert_eq!(set(&mut peer, link, "one").await, Status::SUCCESS);
        assert_eq!(read(&mut peer, link).await.unwrap().0, "one");
        assert_eq!(set(&mut peer, link, "two").await, Status::SUCCESS);
        assert_eq!(read(&mut peer, link).await.unwrap().0, "two");
        assert_eq!(find(&*store, "link"), Some(Some("two".into())));
        // Others see the same file open, and it goes with this open.
        let mut other = Peer::sign_in(&server).await;
        let beside = open_itself(&mut other, "link").await.file_id();
        assert_eq!(set(&mut other, beside, "three").await, Status::SHARING_VIOLATION);
        other.close(beside).await;
        peer.close(link).await;
        assert_eq!(find(&*store, "link"), None);

        // Directories become links, too, and links files.
        let directory = peer.open_directory("d").await;
        assert_eq!(set(&mut peer, directory, "..\\x").await, Status::SUCCESS);
        assert_eq!(find(&*store, "d"), Some(Some("../x".into())));
        let mut none = symlink("", 0);
        none.truncate(8);
        none[4] = 0;
        assert_eq!(peer.ioctl(CtlCode::DELETE_REPARSE_POINT, directory, &none, 0).await.status(), Status::SUCCESS);
        assert_eq!(read(&mut peer, directory).await, Err(Status::NOT_A_REPARSE_POINT));
        let again = peer.ioctl(CtlCode::DELETE_REPARSE_POINT, directory, &none, 0).await;
        assert_eq!(again.status(), Status::NOT_A_REPARSE_POINT);
        peer.close(directory).await;
        assert_eq!(find(&*store, "d"), Some(None));
        let file = peer.open("d").await;
        assert_eq!(peer.write(file, 0, b"data").await, Status::SUCCESS);
    })
    .await;
}

#[tokio::test]
async fn nobody_opens_a_file_while_a_link_takes_its_place() {
    let test = async {
        let (store, meanwhile) = Interrupted::around(RamStore::new(64 << 20));
        let server = server_with(Signing::Enabled, Arc::clone(&store));
        let mut peer = Peer::sign_in(&server).await;
        let file = peer.open("file").await;
        let tries = Arc::new(AtomicUsize::new(0));
        let (tried, table, path) = (Arc::clone(&tries), Arc::clone(&server), SharePath::parse("file").unwrap());
        meanwhile.set(move |call, node| {
            if call == Call::LookAtExtended {
                let (names, line) = (OpenPath::new(path.clone()), SessionLink::down());
                let link = Link::at(&*store, &path).ok();
                let entry = Entry { link, access: WRITE_DATA, ..entry(&names, &store, &line) };
                let (_, entering, _) = table.files.enter(node.identity(), &entry);
                assert!(matches!(entering, Entering::Waits(_)));
                tried.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        assert_eq!(set(&mut peer, file, "elsewhere").await, Status::SUCCESS);
        assert_eq!(tries.load(Ordering::Relaxed), 1);
        peer.close(file).await;
        assert_eq!(peer.try_open("file").await, Status::STOPPED_ON_SYMLINK);
    };
    LocalSet::new().run_until(test).await;
}

/// A directory in which others make files, as `right` allows, and a file with a descriptor of its own, of which the user may change attributes alone.
fn drop_box(right: u32) -> Arc<dyn Store> {
    let store = RamStore::new(64 << 20);
    let user = Sid::new(5, &[21, 1, 2, 3, 1001]).unwrap();
    let make = |path: &str, kind, access| {
        let descriptor = SecurityDescriptor {
            control: Control::DACL_PRESENT | Control::DACL_PROTECTED,
            owner: Some(Sid::SYSTEM),
            dacl: Some(Acl { aces: vec![Ace::allow(user, access, AceFlags::NONE)] }),
            ..SecurityDescriptor::default()
        };
        let descriptor = descriptor.encode().unwrap();
        let new = NewNode { kind, attributes: 0, security: Some(&descriptor), owner: None };
        store.create(&SharePath::parse(path).unwrap(), new).unwrap();
    };
    make("d", Kind::Directory, right);
    make("d\\file", Kind::File, WRITE_ATTRIBUTES | READ_ATTRIBUTES);
    make("d\\below", Kind::Directory, WRITE_DATA);
    Arc::new(store)
}

#[tokio::test]
async fn who_may_not_remove_a_file_makes_no_link_of_it() {
    let test = async {
        for (right, wanted) in [
            (FILE_GENERIC_READ | FILE_GENERIC_WRITE, Status::ACCESS_DENIED),
            (FILE_GENERIC_READ | DELETE_CHILD, Status::ACCESS_DENIED),
            (FILE_GENERIC_READ | FILE_GENERIC_WRITE | DELETE_CHILD, Status::SUCCESS),
        ] {
            let store = drop_box(right);
            let server = server_with(Signing::Enabled, Arc::clone(&store));
            let mut peer = Peer::sign_in(&server).await;
            for (name, access) in [("d\\file", WRITE_ATTRIBUTES), ("d\\below", WRITE_DATA)] {
                let edit = |request: &mut CreateRequest<'_>| {
                    request.disposition = CreateDisposition::OPEN;
                    request.desired_access = AccessMask(access);
                };
                let file = peer.create(name, edit).await.file_id();
                assert_eq!(set(&mut peer, file, "elsewhere").await, wanted, "{name}");
                peer.close(file).await;
                let is_link = find(&*store, name) == Some(Some("elsewhere".into()));
                assert_eq!(is_link, wanted == Status::SUCCESS, "{name}");
            }
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_makes_no_link_is_refused_and_changes_nothing() {
    on_each(async |server, store| {
        let mut peer = Peer::sign_in(&server).await;
        let file = peer.open("file").await;
        let set =
            async |peer: &mut Peer, input: &[u8]| peer.ioctl(CtlCode::SET_REPARSE_POINT, file, input, 0).await.status();
        let good = symlink("x", SYMLINK_FLAG_RELATIVE);
        for length in 0..good.len() {
            assert_eq!(set(&mut peer, &good[..length]).await, Status::IO_REPARSE_DATA_INVALID, "{length}");
        }
        let long = [&good[..], &[0]].concat();
        assert_eq!(set(&mut peer, &long).await, Status::IO_REPARSE_DATA_INVALID);
        assert_eq!(set(&mut peer, &vec![0; 16_385]).await, Status::IO_REPARSE_DATA_INVALID);
        for (target, flags) in [("", 1), ("a\0", 1), ("x", 2), (&*"x".repeat(4_096), 1)] {
            assert_eq!(set(&mut peer, &symlink(target, flags)).await, Status::IO_REPARSE_DATA_INVALID, "{flags}");
        }
        for (tag, status) in [
            (0_u32, Status::IO_REPARSE_TAG_INVALID),
            (1, Status::IO_REPARSE_TAG_INVALID),
            (ReparseTag::MOUNT_POINT.0, Status::NOT_SUPPORTED),
            (ReparseTag::LX_FIFO.0, Status::NOT_SUPPORTED),
        ] {
            let header = if tag & 0x8000_0000 == 0 { 24 } else { 8 };
            let input = [&tag.to_le_bytes()[..], &vec![0; header - 4]].concat();
            assert_eq!(set(&mut peer, &input).await, status, "{tag:x}");
        }
        assert_eq!(find(&*store, "file"), Some(None));
        // A file with data, a full directory, what has another name, streams or attributes of its own.
        assert_eq!(peer.write(file, 0, b"data").await, Status::SUCCESS);
        assert_eq!(set(&mut peer, &good).await, Status::IO_REPARSE_DATA_INVALID);
        peer.close(file).await;
        let (directory, below) = (peer.open_directory("full").await, peer.open("full\\file").await);
        peer.close(below).await;
        let answer = peer.ioctl(CtlCode::SET_REPARSE_POINT, directory, &good, 0).await;
        assert_eq!(answer.status(), Status::DIRECTORY_NOT_EMPTY);
        let linked = peer.open("linked").await;
        assert_eq!(peer.set_name(linked, FileClass::LINK, "other", false).await, Status::SUCCESS);
        assert_eq!(peer.ioctl(CtlCode::SET_REPARSE_POINT, linked, &good, 0).await.status(), Status::NOT_SUPPORTED);
        let stream = peer.open("with:stream").await;
        assert_eq!(peer.ioctl(CtlCode::SET_REPARSE_POINT, stream, &good, 0).await.status(), Status::INVALID_PARAMETER);
        peer.close(stream).await;
        let with = peer.open("with").await;
        assert_eq!(peer.ioctl(CtlCode::SET_REPARSE_POINT, with, &good, 0).await.status(), Status::NOT_SUPPORTED);
        let root = peer.open_directory("").await;
        assert_eq!(peer.ioctl(CtlCode::SET_REPARSE_POINT, root, &good, 0).await.status(), Status::ACCESS_DENIED);
        // Who may not write it.
        let edit = |request: &mut CreateRequest<'_>| request.desired_access = (READ_DATA | READ_ATTRIBUTES).into();
        let reader = peer.create("reader", edit).await.file_id();
        assert_eq!(peer.ioctl(CtlCode::SET_REPARSE_POINT, reader, &good, 0).await.status(), Status::ACCESS_DENIED);
        let answer = peer.ioctl(CtlCode::DELETE_REPARSE_POINT, reader, &good[..8], 0).await;
        assert_eq!(answer.status(), Status::ACCESS_DENIED);
        peer.close(reader).await;
        let both = WRITE_ATTRIBUTES | READ_ATTRIBUTES;
        let edit = |request: &mut CreateRequest<'_>| request.desired_access = both.into();
        let writer = peer.create("reader", edit).await.file_id();
        let mut nfs = ReparseTag::NFS.0.to_le_bytes().to_vec();
        nfs.extend_from_slice(&[12, 0, 0, 0]);
        nfs.extend_from_slice(b"LNK\x01\0\0\0\0.\0.\0");
        assert_eq!(peer.ioctl(CtlCode::SET_REPARSE_POINT, writer, &nfs, 0).await.status(), Status::SUCCESS);
        assert_eq!(read(&mut peer, writer).await, Ok(("..".into(), SYMLINK_FLAG_RELATIVE)));
        let answer = peer.ioctl(CtlCode::SET_REPARSE_POINT, writer, &nfs, 0).await;
        assert_eq!(answer.status(), Status::IO_REPARSE_TAG_MISMATCH);
        for names in ["file", "full", "linked", "with"] {
            assert_eq!(find(&*store, names), Some(None), "{names}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_program_links_out_of_the_share_is_told_and_never_followed() {
    let folder = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    let link = |to: &std::path::Path, name: &str| std::os::unix::fs::symlink(to, folder.path().join(name)).unwrap();
    link(outside.path(), "out");
    link(&outside.path().join("secret"), "file");
    link("circle".as_ref(), "circle");
    link("../..".as_ref(), "up");
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(folder.path(), Default::default()).unwrap());
    let test = async {
        let mut peer = Peer::sign_in(&server_with(Signing::Enabled, store)).await;
        let wire = outside.path().to_str().unwrap().replace('/', "\\");
        for (name, left, target, flags) in [
            ("out", 0, wire.clone(), 0),
            ("out\\secret", 14, wire.clone(), 0),
            ("file", 0, format!("{wire}\\secret"), 0),
            ("circle", 0, "circle".into(), 1),
            ("circle\\x", 4, "circle".into(), 1),
            ("up\\x\\y", 8, "..\\..".into(), 1),
        ] {
            for disposition in [CreateDisposition::OPEN, CreateDisposition::OPEN_IF, CreateDisposition::OVERWRITE_IF] {
                let answer = peer.create(name, |request| request.disposition = disposition).await;
                assert_eq!(stopped(&answer), (left, target.clone(), flags), "{name}");
            }
        }
        // To make a name in the place of a link is to find it taken.
        let made = peer.create("file", |request| request.disposition = CreateDisposition::CREATE).await;
        assert_eq!(made.status(), Status::OBJECT_NAME_COLLISION);
        let edit = |request: &mut CreateRequest<'_>| {
            request.disposition = CreateDisposition::OVERWRITE;
            request.options = CreateOptions::OPEN_REPARSE_POINT;
        };
        assert_eq!(peer.create("file", edit).await.status(), Status::ACCESS_DENIED);
        let own = peer.open("own").await;
        assert_eq!(peer.rename(own, "out\\own").await, Status::OBJECT_PATH_NOT_FOUND);
        assert_eq!(peer.set_name(own, FileClass::LINK, "up\\own", false).await, Status::OBJECT_PATH_NOT_FOUND);
    };
    LocalSet::new().run_until(test).await;
    assert_eq!(std::fs::read(outside.path().join("secret")).unwrap(), b"secret");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
}
