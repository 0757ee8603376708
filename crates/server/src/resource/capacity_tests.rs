//! What one user may have, and what it leaves to others.

use std::sync::Arc;
use std::time::Duration;

use store::{RamStore, Store};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::{LocalSet, spawn_local};
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateRequest};
use wire::command::ioctl::CtlCode;
use wire::command::session_setup::SessionSetupFlags;
use wire::command::tree_connect::TreeConnectRequest;
use wire::fscc::FileClass;
use wire::fscc::ioctl::{SYMLINK_FLAG_RELATIVE, encode_symlink};
use wire::ids::{Command, SessionId};
use wire::status::Status;

use crate::admin::Admin;
use crate::resource::capacity::Capacity;
use crate::state::configuration::{Signing, nt_hash};
use crate::state::shared::Shared;
use crate::state::strangers::FRAME_BYTES_MAX_UNKNOWN;
use crate::tests::testing::{OTHER_USER, Peer, Terms, server_of};

const FEW: Capacity = Capacity { opens: 12, opens_of_user: 6, sessions_of_user: 4, ..FEW_DESCRIPTORS };
const FEW_DESCRIPTORS: Capacity = Capacity {
    descriptors: 100,
    connections: 10,
    connections_of_user: 10,
    opens: 0,
    opens_of_user: 0,
    sessions_of_user: 0,
    bytes: 2 << 30,
    names: 128 << 20,
    known_bytes: 8 << 20,
    known_descriptors: 8,
    kept_small_buffers: 1 << 30,
    kept_buffers: 1 << 30,
    threads: 512,
    ram_disks: u64::MAX,
};

fn server() -> Arc<Shared> {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(1 << 20));
    server_of(Signing::Required, store, FEW)
}

fn other() -> Terms {
    Terms { user: OTHER_USER, ..Terms::default() }
}

/// Opens files until one is refused; gives how many there are.
async fn open_all(peer: &mut Peer, prefix: &str) -> u64 {
    for number in 0.. {
        let answer = peer.create(&format!("{prefix}{number}"), |_| ()).await;
        if answer.status() != Status::SUCCESS {
            assert_eq!(answer.status(), Status::TOO_MANY_OPENED_FILES);
            return number;
        }
    }
    0
}

#[tokio::test]
async fn one_users_opens_leave_some_to_others_whatever_sessions_it_has() {
    let server = server();
    LocalSet::new()
        .run_until(async {
            let (mut first, mut second) = (Peer::sign_in(&server).await, Peer::sign_in(&server).await);
            assert_eq!(open_all(&mut first, "a").await + open_all(&mut second, "b").await, 6);
            let mut other = Peer::sign_in_as(&server, other()).await;
            assert_eq!(open_all(&mut other, "c").await, 3, "of six it leaves as many as it has");
            // What is refused is not made.
            assert_eq!(second.create("a6", |_| ()).await.status(), Status::TOO_MANY_OPENED_FILES);
            let open = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::OPEN;
            first.disconnect();
            // The pool closes them.
            while second.create("a6", open).await.status() == Status::TOO_MANY_OPENED_FILES {
                tokio::task::yield_now().await;
            }
            assert_eq!(second.create("a6", open).await.status(), Status::OBJECT_NAME_NOT_FOUND);
        })
        .await;
}

#[tokio::test]
async fn a_closed_open_makes_room_and_a_stream_counts_twice() {
    let server = server();
    LocalSet::new()
        .run_until(async {
            let mut peer = Peer::sign_in(&server).await;
            let mut files = Vec::new();
            for name in ["a", "b:stream", "c", "d"] {
                let answer = peer.create(name, |_| ()).await;
                assert_eq!(answer.status(), Status::SUCCESS, "{name}");
                files.push(answer.file_id());
            }
            assert_eq!(peer.create("e:stream", |_| ()).await.status(), Status::TOO_MANY_OPENED_FILES);
            peer.close(files[1]).await;
            assert_eq!(peer.create("e:stream", |_| ()).await.status(), Status::SUCCESS);
        })
        .await;
}

#[tokio::test]
async fn who_may_open_no_more_makes_no_link_either() {
    let server = server();
    LocalSet::new()
        .run_until(async {
            let mut peer = Peer::sign_in(&server).await;
            let file = peer.open("file").await;
            assert_eq!(open_all(&mut peer, "a").await, 5);
            let mut point = Vec::new();
            assert!(encode_symlink("to", "to", SYMLINK_FLAG_RELATIVE, &mut point));
            let set = peer.ioctl(CtlCode::SET_REPARSE_POINT, file, &point, 0).await.status();
            assert_eq!(set, Status::TOO_MANY_OPENED_FILES);
            peer.close(file).await;
            assert_eq!(peer.try_open("file").await, Status::SUCCESS, "it is the file that it was");
        })
        .await;
}

#[tokio::test]
async fn sessions_of_a_user_are_bounded_and_end_with_their_connections() {
    let server = server();
    LocalSet::new()
        .run_until(async {
            let mut peer = Peer::connect_as(&server, Terms::default());
            peer.negotiate().await;
            let mut begin = async || {
                (peer.session_id, peer.signing_key) = (SessionId(0), None);
                peer.sign_in_again(SessionSetupFlags::NONE).await
            };
            for _ in 0..4 {
                assert_eq!(begin().await, Status::SUCCESS);
            }
            assert_eq!(begin().await, Status::INSUFFICIENT_RESOURCES);
            Peer::sign_in_as(&server, other()).await.disconnect();
            peer.disconnect();
            Peer::sign_in(&server).await;
        })
        .await;
}

#[tokio::test]
async fn tree_connects_are_charged_to_their_user() {
    let server = server();
    LocalSet::new()
        .run_until(async {
            let mut peer = Peer::sign_in(&server).await;
            let bytes = Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets.bytes);
            let before = bytes.used();
            let path = utf16_bytes(r"\\test\ram");
            let request = TreeConnectRequest { path: Utf16::new(&path).unwrap(), ..TreeConnectRequest::default() };
            for _ in 0..100 {
                let answer = peer.ask(Command::TREE_CONNECT, |body| request.encode(body)).await;
                assert_eq!(answer.status(), Status::SUCCESS);
            }
            assert!(bytes.used() >= before + 100 * 500);
            peer.disconnect();
            assert!(bytes.used() < before);
        })
        .await;
}

#[tokio::test]
async fn begun_sign_ins_of_one_network_are_bounded_and_leave_room_for_others() {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(1 << 20));
    let server = server_of(Signing::Required, store, Capacity::default());
    LocalSet::new()
        .run_until(async {
            let mut peers = Vec::new();
            let mut begun = 0;
            'all: loop {
                let mut peer = Peer::connect_as(&server, Terms::default());
                peer.negotiate().await;
                for _ in 0..64 {
                    if peer.begin_sign_in().await != Status::MORE_PROCESSING_REQUIRED {
                        break 'all;
                    }
                    begun += 1;
                }
                peers.push(peer);
            }
            let limit = server.budgets.strangers().limit();
            assert!(server.budgets.strangers().used() <= limit / 4, "{begun} begun");
            Peer::sign_in_as(&server, Terms { peer: "198.51.100.1:1", ..Terms::default() }).await;
            peers.drain(..).for_each(Peer::disconnect);
            assert_eq!(server.budgets.strangers().used(), 0);
        })
        .await;
}

#[tokio::test]
async fn frames_that_many_networks_begin_leave_room_for_who_signs_in() {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(1 << 20));
    let server = server_of(Signing::Required, store, Capacity::default());
    LocalSet::new()
        .run_until(async {
            let (mut streams, mut ended) = (Vec::new(), 0);
            let begun = [&65_000_u32.to_be_bytes()[..], b"\xfeSMB", &[0; 40 << 10]].concat();
            for network in 0..25 {
                for host in 0..100 {
                    let from: &'static str = format!("203.0.{network}.{host}:1").leak();
                    let peer = Peer::connect_as(&server, Terms { peer: from, ..Terms::default() });
                    let (mut stream, far) = tokio::io::duplex(64 << 10);
                    stream.write_all(&begun).await.unwrap();
                    spawn_local(peer.connection.serve(far, Vec::new()));
                    tokio::task::yield_now().await;
                    streams.push(stream);
                    let used = server.budgets.strangers().used();
                    assert!(used <= server.budgets.strangers().limit(), "{used} bytes");
                }
                let from: &'static str = format!("198.51.{network}.1:1").leak();
                Peer::sign_in_as(&server, Terms { peer: from, ..Terms::default() }).await;
            }
            let held = server.budgets.strangers().used();
            for mut stream in streams {
                ended += usize::from(stream.write_all(&[0]).await.is_err());
            }
            let most = server.budgets.strangers().limit();
            assert!(held > most / 6 * 5 && ended > 1_000, "{held} bytes are held, {ended} have ended");
        })
        .await;
}

#[tokio::test]
async fn before_anybody_has_signed_in_no_frame_is_longer_than_a_token_may_make_it() {
    let server = server();
    LocalSet::new()
        .run_until(async {
            for (length, is_taken) in [(64 + 24 + 65_535, true), (FRAME_BYTES_MAX_UNKNOWN + 1, false)] {
                let peer = Peer::connect_as(&server, Terms::default());
                let (mut stream, far) = tokio::io::duplex(1 << 10);
                stream.write_all(&(length as u32).to_be_bytes()).await.unwrap();
                spawn_local(peer.connection.serve(far, Vec::new()));
                let mut rest = Vec::new();
                let ended = tokio::time::timeout(Duration::from_millis(10), stream.read_to_end(&mut rest)).await;
                assert_eq!(ended.is_err(), is_taken, "{length}");
            }
        })
        .await;
}

#[tokio::test]
async fn a_stranger_that_has_signed_in_is_not_ended_for_the_sake_of_others() {
    let server = server();
    LocalSet::new()
        .run_until(async {
            // There may be five strangers, two of one network.
            let mut peer = Peer::sign_in(&server).await;
            let mut silent = Peer::connect_as(&server, Terms::default());
            silent.negotiate().await;
            let _others = [(); 3].map(|()| Peer::connect_as(&server, Terms::default()));
            assert!(silent.connection.mailbox.take().ends);
            assert!(!peer.connection.mailbox.take().ends && !peer.connection.is_stranger());
            peer.open("file").await;
        })
        .await;
}

#[tokio::test]
async fn a_new_key_ends_the_sessions_that_the_old_one_began() {
    let server = server();
    LocalSet::new()
        .run_until(async {
            let mut peer = Peer::sign_in(&server).await;
            let mut other = Peer::sign_in_as(&server, other()).await;
            let file = peer.open("file").await;
            let mut configuration = (**server.configuration.load()).clone();
            // An account has two keys: that the other one stays helps nobody who has this one.
            configuration.principals[0].secrets = vec![nt_hash("another"), nt_hash("third")];
            server.replace(configuration.clone());
            assert_eq!(peer.query(file, FileClass::BASIC, 100).await.status(), Status::USER_SESSION_DELETED);
            other.open("file").await;
            configuration.principals[1].secrets.insert(0, nt_hash("new"));
            server.replace(configuration);
            other.open("file").await;
        })
        .await;
}
