//! What leases are of, and whose.

use std::time::Duration;

use tokio::task::LocalSet;
use tokio::time::sleep;
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, OplockLevel};
use wire::command::oplock_break::OplockBreakNotification;
use wire::context::create::{CreateContextsBuilder, Lease, LeaseState, name};
use wire::context::lease::{LeaseFlags, LeaseV2};
use wire::header::Header;
use wire::ids::{Command, FileId, Guid};
use wire::security::access::READ_DATA;
use wire::status::Status;

use crate::Parting;
use crate::admin::{Admin, CacheKind};
use crate::state::configuration::Signing;
use crate::tests::lines::Lines;
use crate::tests::testing::{Answer, OTHER_USER, Peer, Terms, server};

#[tokio::test]
async fn a_lease_is_of_one_stream_of_a_file() {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let lease_state = LeaseState::READ_CACHING | LeaseState::WRITE_CACHING;
    let lease = Lease { lease_key: Guid([1; 16]), lease_state, v2: Some(LeaseV2::default()), ..Lease::default() };
    let mut builder = CreateContextsBuilder::new();
    builder.add(name::LEASE, &lease.to_bytes());
    let contexts = builder.contexts().as_bytes().to_vec();
    for (name, expected) in [
        ("file:stream", Status::SUCCESS),
        ("file:STREAM", Status::SUCCESS),
        ("file", Status::INVALID_PARAMETER),
        ("file:other", Status::INVALID_PARAMETER),
        ("other", Status::INVALID_PARAMETER),
    ] {
        let leased = |request: &mut CreateRequest<'_>| request.oplock_level = OplockLevel::LEASE;
        assert_eq!(peer.create_edited(name, &contexts, leased).await.status(), expected, "{name}");
    }
    let answer = peer.create("file:other", |request| request.disposition = CreateDisposition::OPEN).await;
    assert_eq!(answer.status(), Status::OBJECT_NAME_NOT_FOUND, "what is refused is not made");
}

const KEY: Guid = Guid([7; 16]);
const OTHER_KEY: Guid = Guid([8; 16]);
const READ: LeaseState = LeaseState::READ_CACHING;
const READ_HANDLE: LeaseState = READ.union(LeaseState::HANDLE_CACHING);
const ALL: LeaseState = READ_HANDLE.union(LeaseState::WRITE_CACHING);

/// Another user with the ClientGuid of the first: of the same machine, or one who says so.
fn of_another_user() -> Terms {
    Terms { user: OTHER_USER, ..Terms::default() }
}

/// The context of a lease, with that of its directory.
fn lease(lease_key: Guid, lease_state: LeaseState, parent: Option<Guid>) -> Vec<u8> {
    let flags = if parent.is_some() { LeaseFlags::PARENT_LEASE_KEY_SET } else { LeaseFlags::NONE };
    let v2 = Some(LeaseV2 { parent_lease_key: parent.unwrap_or_default(), ..LeaseV2::default() });
    let mut builder = CreateContextsBuilder::new();
    builder.add(name::LEASE, &Lease { lease_key, lease_state, flags, v2 }.to_bytes());
    builder.contexts().as_bytes().to_vec()
}

async fn leased(peer: &mut Peer, name: &str, contexts: &[u8]) -> Answer {
    peer.create_edited(name, contexts, |request| request.oplock_level = OplockLevel::LEASE).await
}

/// The file and what its lease holds.
fn held(answer: &Answer) -> (FileId, LeaseState) {
    assert_eq!(answer.status(), Status::SUCCESS);
    let response = CreateResponse::decode(&answer.message).unwrap();
    let lease = Lease::decode(response.contexts.find(name::LEASE).unwrap()).unwrap();
    (response.file_id, lease.lease_state)
}

async fn write(peer: &mut Peer, file_id: FileId) -> Status {
    peer.write(file_id, 0, b"new").await
}

async fn acknowledge(peer: &mut Peer, lease_state: LeaseState) -> Status {
    peer.acknowledge(KEY, lease_state).await
}

/// What a client has been told of its leases: which, and what is left of it.
fn heard(peer: &Peer) -> Vec<(Guid, LeaseState)> {
    peer.connection.flush_notifications();
    let frames = std::iter::from_fn(|| peer.take_frame());
    let breaks = frames.filter(|frame| Header::decode(frame).unwrap().command == Command::OPLOCK_BREAK);
    breaks
        .map(|frame| match OplockBreakNotification::decode(&frame).unwrap() {
            OplockBreakNotification::Lease(broken) => (broken.lease_key, broken.new_lease_state),
            OplockBreakNotification::Oplock(broken) => panic!("{broken:?}"),
        })
        .collect()
}

#[tokio::test]
async fn who_holds_a_lease_hears_its_break_whatever_other_user_names_its_key() {
    let server = server(Signing::Enabled);
    let (mut holder, mut other) = (Peer::sign_in(&server).await, Peer::sign_in_as(&server, of_another_user()).await);
    let contexts = lease(KEY, READ_HANDLE, None);
    let (first, state) = held(&leased(&mut holder, "file", &contexts).await);
    assert_eq!(state, READ_HANDLE);
    assert_eq!(held(&leased(&mut other, "file", &contexts).await).1, READ_HANDLE);
    let again = leased(&mut holder, "file", &contexts).await;
    assert_eq!(held(&again).1, READ_HANDLE);
    holder.close(first).await;
    let mut writer = Peer::sign_in_as(&server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
    let file = writer.open("file").await;
    assert_eq!(write(&mut writer, file).await, Status::SUCCESS);
    assert_eq!(heard(&holder), [(KEY, LeaseState::NONE)]);
    assert_eq!(heard(&other), [(KEY, LeaseState::NONE)], "and so does the other one of its own");
}

#[tokio::test]
async fn who_was_thrown_out_hears_no_break_of_the_users_other_connections() {
    let server = server(Signing::Enabled);
    let thief = Peer::sign_in(&server).await;
    let stays = Peer::sign_in(&server).await;
    let mut holder = Peer::sign_in(&server).await;
    server.end_session(
        &server.sessions.find(thief.session_id).unwrap(),
        Parting::Expelled,
        crate::state::audit::AuditEnd::Server,
    );
    assert_eq!(held(&leased(&mut holder, "file", &lease(KEY, READ_HANDLE, None)).await).1, READ_HANDLE);
    let mut writer = Peer::sign_in_as(&server, Terms { client: Guid([3; 16]), ..Terms::default() }).await;
    let file = writer.open("file").await;
    assert_eq!(write(&mut writer, file).await, Status::SUCCESS);
    assert_eq!(heard(&thief), []);
    assert_eq!([heard(&stays), heard(&holder)].concat(), [(KEY, LeaseState::NONE)], "its client hears on the oldest");
}

#[tokio::test]
async fn what_a_user_changes_is_told_to_another_one_whose_key_it_names() {
    let server = server(Signing::Enabled);
    let (mut holder, mut other) = (Peer::sign_in(&server).await, Peer::sign_in_as(&server, of_another_user()).await);
    let contexts = lease(KEY, READ, None);
    assert_eq!(held(&leased(&mut holder, "file", &contexts).await).1, READ);
    let (file, _) = held(&leased(&mut other, "file", &contexts).await);
    assert_eq!(heard(&holder), []);
    assert_eq!(write(&mut other, file).await, Status::SUCCESS);
    assert_eq!(heard(&holder), [(KEY, LeaseState::NONE)]);
}

#[tokio::test]
async fn what_a_user_makes_in_a_directory_is_told_to_another_one_whose_key_it_names() {
    let server = server(Signing::Enabled);
    let (mut holder, mut other) = (Peer::sign_in(&server).await, Peer::sign_in_as(&server, of_another_user()).await);
    let directory = holder
        .create_edited("directory", &lease(KEY, READ_HANDLE, None), |request| {
            request.oplock_level = OplockLevel::LEASE;
            request.options = CreateOptions::DIRECTORY_FILE;
        })
        .await;
    assert_eq!(held(&directory).1, READ_HANDLE);
    let made = leased(&mut holder, r"directory\own", &lease(OTHER_KEY, READ, Some(KEY))).await;
    assert_eq!(made.status(), Status::SUCCESS);
    assert_eq!(heard(&holder), [], "it knows what it makes");
    let made = leased(&mut other, r"directory\other", &lease(OTHER_KEY, READ, Some(KEY))).await;
    assert_eq!(made.status(), Status::SUCCESS);
    assert_eq!(heard(&holder).iter().map(|(key, _)| *key).collect::<Vec<_>>(), [KEY]);
}

#[tokio::test]
async fn who_names_another_users_key_waits_for_what_that_one_caches_and_cannot_give_it_up() {
    let waits = async {
        let server = server(Signing::Enabled);
        let (mut holder, mut other) =
            (Peer::sign_in(&server).await, Peer::sign_in_as(&server, of_another_user()).await);
        let contexts = lease(KEY, ALL, None);
        assert_eq!(held(&leased(&mut holder, "file", &contexts).await).1, ALL);
        let mut same_user = Peer::sign_in(&server).await;
        assert_eq!(held(&leased(&mut same_user, "file", &contexts).await).1, ALL, "it is one lease for one user");
        let mut opening = other.create_message("file", &contexts, |request| {
            request.oplock_level = OplockLevel::LEASE;
            request.desired_access = READ_DATA.into();
            request.disposition = CreateDisposition::OPEN;
        });
        other.process(&mut opening).unwrap();
        assert_eq!(other.receive().await.status(), Status::PENDING);
        assert_eq!(heard(&holder), [(KEY, READ_HANDLE)]);
        assert_eq!(heard(&other), []);
        assert_eq!(acknowledge(&mut other, READ_HANDLE).await, Status::OBJECT_NAME_NOT_FOUND);
        assert_eq!(acknowledge(&mut same_user, READ_HANDLE).await, Status::SUCCESS);
        assert_eq!(held(&other.receive().await).1, READ_HANDLE);
        assert_eq!(acknowledge(&mut other, READ).await, Status::UNSUCCESSFUL, "nothing of its own breaks");
    };
    LocalSet::new().run_until(waits).await;
}

#[tokio::test(start_paused = true)]
async fn operators_see_who_keeps_others_waiting_and_since_when() {
    let body = async {
        let server = server(Signing::Enabled);
        let (mut holder, mut other) =
            (Peer::sign_in(&server).await, Peer::sign_in_as(&server, of_another_user()).await);
        assert_eq!(held(&leased(&mut holder, "file", &lease(KEY, ALL, None)).await).1, ALL);
        assert_eq!(server.awaited_breaks(), []);
        let mut opening = other.create_message("file", &[], |request| {
            request.desired_access = READ_DATA.into();
            request.disposition = CreateDisposition::OPEN;
        });
        other.process(&mut opening).unwrap();
        assert_eq!(other.receive().await.status(), Status::PENDING);
        sleep(Duration::from_secs(7)).await;
        let [awaited] = &server.awaited_breaks()[..] else { panic!("{:?}", server.awaited_breaks()) };
        assert_eq!((awaited.kind, awaited.waiting, awaited.path.as_str()), (CacheKind::Lease, 1, "file"));
        assert_eq!((awaited.session, awaited.told_ago.as_secs()), (holder.session_id.0, 7));
        // What it says the open is can be closed.
        assert!(server.close_open(awaited.open));
        assert_eq!(other.receive().await.status(), Status::SUCCESS);
        assert_eq!(server.awaited_breaks(), []);
    };
    LocalSet::new().run_until(body).await;
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_nothing_until_the_limit_leaves_a_line() {
    let body = async {
        let server = server(Signing::Enabled);
        let (mut holder, mut other) =
            (Peer::sign_in(&server).await, Peer::sign_in_as(&server, of_another_user()).await);
        assert_eq!(held(&leased(&mut holder, "file", &lease(KEY, ALL, None)).await).1, ALL);
        let lines = Lines::default();
        let _logged = tracing::subscriber::set_default(lines.clone());
        let mut opening = other.create_message("file", &[], |request| {
            request.desired_access = READ_DATA.into();
            request.disposition = CreateDisposition::OPEN;
        });
        other.process(&mut opening).unwrap();
        assert_eq!(other.receive().await.status(), Status::PENDING);
        assert!(lines.of("break_unanswered").is_empty());
        assert_eq!(other.receive().await.status(), Status::SUCCESS);
        let [line] = &lines.of("break_unanswered")[..] else { panic!("{:?}", lines.of("break_unanswered")) };
        for part in ["path=\"file\"", "what=\"lease\"", "seconds=35", &format!("session={}", holder.session_id.0)] {
            assert!(line.contains(part), "{part} in {line}");
        }
    };
    LocalSet::new().run_until(body).await;
}

#[tokio::test]
async fn a_key_of_another_user_may_be_of_another_file() {
    let server = server(Signing::Enabled);
    let (mut holder, mut other) = (Peer::sign_in(&server).await, Peer::sign_in_as(&server, of_another_user()).await);
    let contexts = lease(KEY, READ, None);
    assert_eq!(held(&leased(&mut other, "theirs", &contexts).await).1, READ);
    assert_eq!(held(&leased(&mut holder, "file", &contexts).await).1, READ);
}

#[tokio::test(start_paused = true)]
async fn a_renamed_directory_waits_for_all_leases_below_it_at_once() {
    const FILES: u8 = 5;
    let body = async {
        let server = server(Signing::Enabled);
        let (mut holder, mut renamer) =
            (Peer::sign_in(&server).await, Peer::sign_in_as(&server, of_another_user()).await);
        let directory = renamer.open_directory("directory").await;
        for number in 0..FILES {
            let contexts = lease(Guid([number + 1; 16]), READ_HANDLE, None);
            held(&leased(&mut holder, &format!(r"directory\{number}"), &contexts).await);
        }
        let began = tokio::time::Instant::now();
        assert_eq!(renamer.rename(directory, "moved").await, Status::ACCESS_DENIED);
        assert!(began.elapsed() < Duration::from_secs(40), "{:?} for {FILES} files", began.elapsed());
        assert_eq!(heard(&holder).len(), usize::from(FILES));
    };
    LocalSet::new().run_until(body).await;
}
