//! What happens to opens that outlive their connection while something else happens to them.

use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use store::{RamStore, SharePath};
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateRequest, ShareAccess};
use wire::command::tree_connect::TreeConnectRequest;
use wire::context::create::CreateContexts;
use wire::ids::{Command, Guid};
use wire::security::access::READ_DATA;
use wire::status::Status;

use super::Claimed;
use super::persistent::record;
use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::tests::{GUID, OTHER_CLIENT, bytes, create, instance, lose, run, v2};
use crate::admin::Admin;
use crate::state::configuration::{Share, Signing, Standing};
use crate::state::files::Link;
use crate::state::open::Open;
use crate::state::open_id::OpenId;
use crate::state::open_path::HeldPath;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, Terms, server};

/// How often two threads try to meet.
const MEETINGS: usize = 50_000;
/// How often each of them writes a record, for each of which a disk is waited for twice.
const RECORDINGS: usize = 50;
const APPLICATION: Guid = Guid([5; 16]);
/// How long they may take where neither waits for anything but the other.
const PATIENCE: Duration = Duration::from_secs(20);

/// What becomes of the guid of a CREATE of `client`.
fn claim(server: &Arc<Shared>, client: Guid) -> Claimed {
    server.durables.claim((client, GUID), |id, link| server.open_of(id, link))
}

/// A persistent open, in its session.
async fn persistent_open(server: &Arc<Shared>, name: &str) -> (Peer, Arc<Open>) {
    let mut peer = persistent_peer(server).await;
    let id = create(&mut peer, name, &persistent(GUID)).await.file_id();
    let session = server.sessions.find(peer.session_id).unwrap();
    let open = session.open(OpenId(id.persistent)).unwrap();
    (peer, open)
}

/// Runs both on threads of their own; panics where they do not come to an end.
fn beside_each_other(one: impl FnOnce() + Send + 'static, other: impl FnOnce() + Send + 'static) {
    let (ended, ends) = mpsc::channel();
    let works: [Box<dyn FnOnce() + Send>; 2] = [Box::new(one), Box::new(other)];
    for work in works {
        let ended = ended.clone();
        thread::spawn(move || {
            work();
            ended.send(()).unwrap();
        });
    }
    // Where one panics nothing is waited for.
    drop(ended);
    for _ in 0..2 {
        ends.recv_timeout(PATIENCE).expect("both come to an end");
    }
}

#[test]
fn an_open_is_recorded_while_its_file_is_renamed() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (_peer, open) = persistent_open(&server, "file").await;
        let budgets = server.budgets.of_user(open.user.sid());
        let (recorded, renamed) = (Arc::clone(&open), open);
        beside_each_other(
            move || (0..MEETINGS).for_each(|_| drop(record(&recorded, recorded.file().unwrap(), 1))),
            move || {
                let (name, store) = (SharePath::parse("file").unwrap(), renamed.tree.store().unwrap());
                let link = Link::at(&**store, &name).unwrap();
                let (file, to) = (renamed.file().unwrap(), HeldPath::charged(name.clone(), &budgets).unwrap());
                (0..MEETINGS).for_each(|_| file.file.renamed(store, &name, &to, (&link, &link), &budgets));
            },
        );
    });
}

#[test]
fn an_open_whose_session_is_lost_just_as_its_user_is_disabled_does_not_wait() {
    for (standing, waiting) in [(Standing::Good, 1), (Standing::Disabled, 0)] {
        run(async {
            let server = server(Signing::Enabled);
            let mut peer = Peer::sign_in(&server).await;
            assert_eq!(create(&mut peer, "file", &v2(0, GUID)).await.status(), Status::SUCCESS);
            // Whoever disables the user has looked at all that waits, and this comes after that.
            let mut configuration = (**server.configuration.load()).clone();
            configuration.principals[0].standing = standing;
            server.configuration.store(Arc::new(configuration));
            lose(&peer);
            assert_eq!(server.open_count(), waiting);
        });
    }
}

/// A second share, of other files.
fn add_share(server: &Shared) {
    let mut configuration = (**server.configuration.load()).clone();
    let share =
        Share { name: "second".into(), store: Arc::new(RamStore::new(1 << 20)), ..configuration.shares[0].clone() };
    configuration.shares.push(share);
    server.configuration.store(Arc::new(configuration));
}

#[test]
fn a_persistent_open_comes_back_through_its_own_share_alone() {
    run(async {
        let machine = Machine::new();
        drop(persistent_open(&machine.start(), "file").await);
        let server = machine.start();
        add_share(&server);
        let mut peer = persistent_peer(&server).await;
        let own_tree = peer.tree_id;
        let path = utf16_bytes(r"\\test\second");
        let request = TreeConnectRequest { path: Utf16::new(&path).unwrap(), ..TreeConnectRequest::default() };
        peer.tree_id = peer.ask(Command::TREE_CONNECT, |body| request.encode(body)).await.header.tree_id();
        let elsewhere = create(&mut peer, "file", &persistent(GUID)).await;
        assert_eq!(elsewhere.status(), Status::SUCCESS);
        peer.tree_id = own_tree;
        let again = create(&mut peer, "file", &vec![]).await;
        assert_eq!(again.status(), Status::FILE_NOT_AVAILABLE, "it still waits");
    });
}

#[test]
fn an_open_that_has_closed_leaves_no_record() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (mut peer, open) = persistent_open(&server, "file").await;
        peer.close(open.id.file_id()).await;
        server.durables.write_record(&open).unwrap();
        assert_eq!(machine.records(), Vec::<std::path::PathBuf>::new(), "a change that was under way wrote it late");
    });
}

#[test]
fn two_changes_of_an_open_are_both_recorded() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (_peer, open) = persistent_open(&server, "file").await;
        let writer = || {
            let (server, open) = (Arc::clone(&server), Arc::clone(&open));
            move || (0..RECORDINGS).for_each(|_| server.durables.write_record(&open).unwrap())
        };
        // However long the disk takes, which others may keep busy.
        let writers = [thread::spawn(writer()), thread::spawn(writer())];
        writers.into_iter().for_each(|writer| writer.join().expect("every record is written"));
        assert_eq!(machine.records().len(), 1);
    });
}

#[test]
fn a_create_that_ends_after_its_open_is_not_remembered() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let id = create(&mut peer, "file", &instance(v2(0, GUID), APPLICATION, None)).await.file_id();
        let open = peer.opened(&server, id);
        peer.close(id).await;
        let Claimed::Ours(reservation) = claim(&server, peer.terms.client) else { panic!("it is free") };
        reservation.done(&open);
        server.durables.note_instance(&open);
        assert_eq!(server.durables.remembered(), 0);
    });
}

#[test]
fn the_guid_of_an_open_between_two_sessions_is_taken() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let id = create(&mut peer, "file", &v2(0, GUID)).await.file_id();
        let session = server.sessions.find(peer.session_id).unwrap();
        let under_way = session.end().unwrap();
        assert!(matches!(claim(&server, peer.terms.client), Claimed::UnderWay));
        assert_eq!(server.durables.keep(under_way).len(), 0);
        let Claimed::Done(open) = claim(&server, peer.terms.client) else { panic!("it waits") };
        assert_eq!(open.id, OpenId(id.persistent));
    });
}

#[test]
fn a_create_does_not_outlive_its_session() {
    run(async {
        let server = server(Signing::Enabled);
        let mut holder = Peer::sign_in_as(&server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await;
        create(&mut holder, "file", &vec![]).await.file_id();
        let mut peer = Peer::sign_in(&server).await;
        let name = utf16_bytes("file");
        let contexts = bytes(&v2(0, GUID));
        let request = CreateRequest {
            desired_access: READ_DATA.into(),
            share_access: ShareAccess(7),
            disposition: CreateDisposition::OPEN,
            name: Utf16::new(&name).unwrap(),
            contexts: CreateContexts::decode(&contexts).unwrap(),
            ..CreateRequest::default()
        };
        let mut message = peer.message(Command::CREATE, |body| request.encode(body));
        peer.process(&mut message).unwrap();
        assert_eq!(peer.receive().await.status(), Status::PENDING);
        let connection = Rc::downgrade(&peer.connection.connection);
        peer.disconnect();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(connection.strong_count(), 0, "nobody could have what it opens");
    });
}
