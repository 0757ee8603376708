//! Opens that outlive their connection, as clients see them.

use std::sync::Arc;
use std::time::Duration;

use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{
    CreateAction, CreateDisposition, CreateOptions, CreateRequest, CreateResponse, OplockLevel, ShareAccess,
};
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use wire::command::logoff::LogoffRequest;
use wire::command::tree_disconnect::TreeDisconnectRequest;
use wire::context::create::{
    AppInstanceId, AppInstanceVersion, CreateContexts, CreateContextsBuilder, DurableReconnect, DurableReconnectV2,
    DurableRequestV2, DurableResponseV2, Lease, LeaseState, name,
};
use wire::context::durable::{DURABLE_REQUEST, DurableFlags};
use wire::fscc::FileClass;
use wire::fscc::ioctl::Resiliency;
use wire::header::Flags;
use wire::ids::{Command, FileId, Guid};
use wire::security::access::FILE_ALL;
use wire::status::Status;

use super::Farewell;
use crate::admin::Admin;
use crate::command::connection::Ending;
use crate::state::configuration::Signing;
use crate::state::open_id::OpenId;
use crate::state::scavenger::scavenge;
use crate::state::shared::Shared;
pub(super) use crate::tests::testing::run;
use crate::tests::testing::{Answer, OTHER_USER, Peer, Terms, server};

pub(super) const KEY: Guid = Guid([3; 16]);
pub(super) const GUID: Guid = Guid([7; 16]);
pub(super) const OTHER_CLIENT: Guid = Guid([8; 16]);

pub(super) type Contexts = Vec<(&'static [u8], Vec<u8>)>;

pub(super) fn bytes(contexts: &Contexts) -> Vec<u8> {
    let mut builder = CreateContextsBuilder::new();
    for (name, data) in contexts {
        builder.add(name, data);
    }
    builder.contexts().as_bytes().to_vec()
}

pub(super) async fn create(peer: &mut Peer, name: &str, contexts: &Contexts) -> Answer {
    create_as(peer, name, contexts, |_| {}).await
}

/// With a lease where there is a context for one, else with a batch oplock.
async fn create_as(
    peer: &mut Peer,
    name: &str,
    contexts: &Contexts,
    edit: impl FnOnce(&mut CreateRequest<'_>),
) -> Answer {
    let leased = contexts.iter().any(|(name, _)| *name == name::LEASE);
    let bytes = bytes(contexts);
    let asked = |request: &mut CreateRequest<'_>| {
        request.oplock_level = if leased { OplockLevel::LEASE } else { OplockLevel::BATCH };
        edit(request);
    };
    peer.create_edited(name, &bytes, asked).await
}

fn v1() -> Contexts {
    vec![(name::DURABLE_HANDLE_REQUEST, DURABLE_REQUEST.to_vec())]
}

pub(super) fn v2(timeout_milliseconds: u32, create_guid: Guid) -> Contexts {
    let request = DurableRequestV2 { timeout_milliseconds, flags: DurableFlags::NONE, create_guid };
    vec![(name::DURABLE_HANDLE_REQUEST_V2, request.to_bytes())]
}

fn back_v1(file_id: FileId) -> Contexts {
    vec![(name::DURABLE_HANDLE_RECONNECT, DurableReconnect { file_id }.to_bytes())]
}

pub(super) fn back_v2(file_id: FileId, create_guid: Guid, flags: DurableFlags) -> Contexts {
    let reconnect = DurableReconnectV2 { file_id, create_guid, flags };
    vec![(name::DURABLE_HANDLE_RECONNECT_V2, reconnect.to_bytes())]
}

pub(super) fn with_lease(mut contexts: Contexts, lease_key: Guid) -> Contexts {
    let lease_state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
    contexts.push((name::LEASE, Lease { lease_key, lease_state, ..Lease::default() }.to_bytes()));
    contexts
}

pub(super) fn instance(mut contexts: Contexts, id: Guid, version: Option<u64>) -> Contexts {
    contexts.push((name::APP_INSTANCE_ID, AppInstanceId { id }.to_bytes()));
    if let Some(low) = version {
        contexts.push((name::APP_INSTANCE_VERSION, AppInstanceVersion { high: 0, low }.to_bytes()));
    }
    contexts
}

fn has(answer: &Answer, name: &[u8]) -> bool {
    CreateResponse::decode(&answer.message).unwrap().contexts.find(name).is_some()
}

pub(super) async fn works(peer: &mut Peer, file_id: FileId) -> bool {
    peer.query(file_id, FileClass::POSITION, 100).await.status() == Status::SUCCESS
}

pub(super) fn lose(peer: &Peer) {
    peer.connection.lose_channels();
}

async fn durable(server: &Arc<Shared>, contexts: &Contexts) -> FileId {
    durable_on(server, "file", contexts).await
}

async fn durable_on(server: &Arc<Shared>, name: &str, contexts: &Contexts) -> FileId {
    let mut peer = Peer::sign_in(server).await;
    let id = create(&mut peer, name, contexts).await.file_id();
    lose(&peer);
    id
}

#[test]
fn a_durable_open_comes_back_to_its_client_and_stays_durable() {
    run(async {
        let server = server(Signing::Enabled);
        let mut first = Peer::sign_in(&server).await;
        let answer = create(&mut first, "file", &v1()).await;
        assert!(has(&answer, name::DURABLE_HANDLE_REQUEST));
        let id = answer.file_id();
        lose(&first);
        assert_eq!(server.opens().next().map(|open| open.session), Some(0));
        for _ in 0..2 {
            let mut second = Peer::sign_in(&server).await;
            let answer = create(&mut second, "whatever", &back_v1(id)).await;
            assert_eq!(answer.file_id(), id);
            let response = CreateResponse::decode(&answer.message).unwrap();
            assert_eq!((response.create_action, response.oplock_level), (CreateAction::OPENED, OplockLevel::BATCH));
            assert!(works(&mut second, id).await);
            let mut thief = Peer::sign_in(&server).await;
            assert_eq!(create(&mut thief, "file", &back_v1(id)).await.status(), Status::OBJECT_NAME_NOT_FOUND);
            lose(&second);
        }
    });
}

#[test]
fn what_holds_no_handle_cache_is_not_granted_and_not_kept() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let exclusive = |request: &mut CreateRequest<'_>| request.oplock_level = OplockLevel::EXCLUSIVE;
        assert!(!has(&create_as(&mut peer, "file", &v1(), exclusive).await, name::DURABLE_HANDLE_REQUEST));
        let second = create_as(&mut peer, "other", &v2(0, GUID), exclusive).await;
        assert!(!has(&second, name::DURABLE_HANDLE_REQUEST_V2));
        lose(&peer);
        assert_eq!(server.open_count(), 0);
    });
}

#[test]
fn directories_are_not_durable() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let bytes = bytes(&v1());
        let answer =
            peer.create_edited("folder", &bytes, |request| request.options = CreateOptions::DIRECTORY_FILE).await;
        assert_eq!(answer.status(), Status::SUCCESS);
        assert!(!has(&answer, name::DURABLE_HANDLE_REQUEST));
    });
}

#[test]
fn only_the_same_user_gets_it_back() {
    run(async {
        let server = server(Signing::Enabled);
        let id = durable(&server, &v2(0, GUID)).await;
        let mut thief = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
        let back = back_v2(id, GUID, DurableFlags::NONE);
        assert_eq!(create(&mut thief, "file", &back).await.status(), Status::ACCESS_DENIED);
        let mut owner = Peer::sign_in_as(&server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await;
        assert_eq!(create(&mut owner, "file", &back).await.file_id(), id);
    });
}

#[test]
fn only_the_right_create_guid_gets_it_back() {
    run(async {
        let server = server(Signing::Enabled);
        let id = durable(&server, &v2(0, GUID)).await;
        let mut peer = Peer::sign_in(&server).await;
        for (id, guid) in [(id, Guid([1; 16])), (FileId { persistent: id.persistent + 1, ..id }, GUID)] {
            let refused = create(&mut peer, "file", &back_v2(id, guid, DurableFlags::NONE)).await;
            assert_eq!(refused.status(), Status::OBJECT_NAME_NOT_FOUND);
        }
        let persistent = create(&mut peer, "file", &back_v2(id, GUID, DurableFlags::PERSISTENT)).await;
        assert_eq!(persistent.status(), Status::INVALID_PARAMETER, "it is not persistent");
        assert_eq!(create(&mut peer, "file", &back_v2(id, GUID, DurableFlags::NONE)).await.file_id(), id);
    });
}

#[test]
fn a_leased_open_needs_its_key_its_client_and_its_name() {
    run(async {
        let server = server(Signing::Enabled);
        let id = durable(&server, &with_lease(v1(), KEY)).await;
        let mut peer = Peer::sign_in(&server).await;
        let mut stranger = Peer::sign_in_as(&server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await;
        let back = with_lease(back_v1(id), KEY);
        let not_found = Status::OBJECT_NAME_NOT_FOUND;
        assert_eq!(create(&mut stranger, "file", &back).await.status(), not_found);
        assert_eq!(create(&mut peer, "file", &back_v1(id)).await.status(), not_found);
        assert_eq!(create(&mut peer, "file", &with_lease(back_v1(id), GUID)).await.status(), not_found);
        assert_eq!(create(&mut peer, "elsewhere", &back).await.status(), Status::INVALID_PARAMETER);
        let answer = create(&mut peer, "FILE", &back).await;
        assert_eq!(answer.file_id(), id);
        let response = CreateResponse::decode(&answer.message).unwrap();
        let lease = Lease::decode(response.contexts.find(name::LEASE).unwrap()).unwrap();
        assert_eq!((response.oplock_level, lease.lease_key), (OplockLevel::LEASE, KEY));
    });
}

#[test]
fn contexts_that_contradict_each_other_are_refused() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let id = FileId { persistent: 1, volatile: 1 };
        let (v1, v2, back_v1, back_v2) = (v1(), v2(0, GUID), back_v1(id), back_v2(id, GUID, DurableFlags::NONE));
        for pair in [(&v1, &v2), (&v1, &back_v2), (&v2, &back_v1), (&v2, &back_v2), (&back_v1, &back_v2)] {
            let both = [pair.0.clone(), pair.1.clone()].concat();
            assert_eq!(create(&mut peer, "file", &both).await.status(), Status::INVALID_PARAMETER);
        }
        let both = [v1, back_v1].concat();
        assert_eq!(create(&mut peer, "file", &both).await.status(), Status::OBJECT_NAME_NOT_FOUND);
        for name in [name::DURABLE_HANDLE_REQUEST, name::DURABLE_HANDLE_REQUEST_V2] {
            let short = vec![(name, vec![0; 8])];
            assert_eq!(create(&mut peer, "file", &short).await.status(), Status::INVALID_PARAMETER);
        }
    });
}

#[test]
fn opens_close_when_their_time_is_over_and_not_before() {
    run(async {
        let server = server(Signing::Enabled);
        tokio::task::spawn_local(scavenge(Arc::clone(&server)));
        let id = durable(&server, &v2(5_000, GUID)).await;
        let long = durable_on(&server, "other", &v2(u32::MAX, Guid([1; 16]))).await;
        tokio::time::sleep(Duration::from_millis(4_900)).await;
        assert_eq!(server.open_count(), 2);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(server.open_count(), 1);
        let mut peer = Peer::sign_in(&server).await;
        let gone = create(&mut peer, "file", &back_v2(id, GUID, DurableFlags::NONE)).await;
        assert_eq!(gone.status(), Status::OBJECT_NAME_NOT_FOUND);
        tokio::time::sleep(Duration::from_secs(290)).await;
        assert_eq!(server.open_count(), 1, "300 seconds are the most");
        tokio::time::sleep(Duration::from_secs(10)).await;
        let gone = create(&mut peer, "file", &back_v2(long, Guid([1; 16]), DurableFlags::NONE)).await;
        assert_eq!(gone.status(), Status::OBJECT_NAME_NOT_FOUND);
    });
}

#[test]
fn the_answer_tells_the_timeout() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        for (asked, given) in [(0, 60_000), (1, 1), (u32::MAX, 300_000)] {
            let answer = create(&mut peer, &format!("file{asked}"), &v2(asked, Guid([asked as u8; 16]))).await;
            let response = CreateResponse::decode(&answer.message).unwrap();
            let data = response.contexts.find(name::DURABLE_HANDLE_REQUEST_V2).unwrap();
            assert_eq!(DurableResponseV2::decode(data).unwrap().timeout_milliseconds, given);
        }
    });
}

#[test]
fn logoff_and_a_session_that_takes_the_place_keep_and_tree_disconnect_closes() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let id = create(&mut peer, "file", &v1()).await.file_id();
        assert_eq!(peer.ask(Command::LOGOFF, |body| LogoffRequest.encode(body)).await.status(), Status::SUCCESS);
        let mut peer = Peer::sign_in(&server).await;
        assert_eq!(create(&mut peer, "file", &back_v1(id)).await.file_id(), id);
        let previous = peer.session_id;
        let mut peer = Peer::sign_in_as(&server, Terms { previous_session: previous, ..Terms::default() }).await;
        assert_eq!(create(&mut peer, "file", &back_v1(id)).await.file_id(), id);
        peer.ask(Command::TREE_DISCONNECT, |body| TreeDisconnectRequest.encode(body)).await;
        let mut peer = Peer::sign_in(&server).await;
        assert_eq!(create(&mut peer, "file", &back_v1(id)).await.status(), Status::OBJECT_NAME_NOT_FOUND);
    });
}

#[test]
fn somebody_in_whose_way_it_stands_ends_a_durable_open() {
    run(async {
        let server = server(Signing::Enabled);
        let id = OpenId(durable(&server, &v1()).await.persistent);
        assert_eq!(server.close_disconnected(id), Farewell::Closing);
        assert_eq!(server.close_disconnected(id), Farewell::NotHere);
        let id = OpenId(durable_on(&server, "other", &v2(0, GUID)).await.persistent);
        assert!(server.close_open(id.0));
        assert!(!server.close_open(id.0));
    });
}

async fn make_resilient(peer: &mut Peer, file_id: FileId, timeout_milliseconds: u32) -> Status {
    let mut input = Vec::new();
    Resiliency { timeout_milliseconds }.encode(&mut input);
    let request = IoctlRequest {
        ctl_code: CtlCode::LMR_REQUEST_RESILIENCY,
        file_id,
        input: &input,
        flags: IoctlFlags::IS_FSCTL,
        ..IoctlRequest::default()
    };
    peer.ask(Command::IOCTL, |body| request.encode(body)).await.status()
}

#[test]
fn a_resilient_open_stays_whatever_it_caches() {
    run(async {
        let server = server(Signing::Enabled);
        tokio::task::spawn_local(scavenge(Arc::clone(&server)));
        let mut peer = Peer::sign_in(&server).await;
        let id = peer.open("file").await;
        assert_eq!(make_resilient(&mut peer, id, 300_001).await, Status::INVALID_PARAMETER);
        assert_eq!(make_resilient(&mut peer, id, 0).await, Status::SUCCESS);
        lose(&peer);
        assert_eq!(server.close_disconnected(OpenId(id.persistent)), Farewell::CachesNothing);
        tokio::time::sleep(Duration::from_secs(119)).await;
        let mut peer = Peer::sign_in(&server).await;
        assert_eq!(create(&mut peer, "file", &back_v1(id)).await.file_id(), id);
        assert_eq!(make_resilient(&mut peer, id, 1_000).await, Status::SUCCESS);
        lose(&peer);
        tokio::time::sleep(Duration::from_millis(1_001)).await;
        assert_eq!(server.open_count(), 0);
    });
}

#[test]
fn a_create_is_replayed_until_its_open_is_used() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let first = create(&mut peer, "file", &v2(0, GUID)).await;
        assert_eq!(create(&mut peer, "file", &v2(0, GUID)).await.status(), Status::DUPLICATE_OBJECTID);
        peer.flags = Flags::REPLAY_OPERATION;
        let again = create(&mut peer, "file", &v2(0, GUID)).await;
        assert_eq!(again.file_id(), first.file_id());
        let response = CreateResponse::decode(&again.message).unwrap();
        assert_eq!(response.create_action, CreateAction::CREATED);
        assert!(has(&again, name::DURABLE_HANDLE_REQUEST_V2));
        let mut other = Peer::sign_in(&server).await;
        other.flags = Flags::REPLAY_OPERATION;
        assert_eq!(create(&mut other, "file", &v2(0, GUID)).await.status(), Status::DUPLICATE_OBJECTID);
        let mut thief = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
        thief.flags = Flags::REPLAY_OPERATION;
        assert_eq!(create(&mut thief, "file", &v2(0, GUID)).await.status(), Status::ACCESS_DENIED);
        let mut stranger = Peer::sign_in_as(&server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await;
        stranger.flags = Flags::REPLAY_OPERATION;
        assert_ne!(create(&mut stranger, "file", &v2(0, GUID)).await.file_id(), first.file_id());
        peer.flags = Flags::NONE;
        peer.read(first.file_id(), 0, 1).await;
        peer.flags = Flags::REPLAY_OPERATION;
        assert_ne!(create(&mut peer, "file", &v2(0, GUID)).await.file_id(), first.file_id());
    });
}

#[test]
fn a_create_that_comes_after_its_replay_does_nothing() {
    run(async {
        let server = server(Signing::Enabled);
        let mut lost = Peer::sign_in(&server).await;
        let mut peer = Peer::bound(&server, &lost).await;
        let empties = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::OVERWRITE_IF;
        peer.channel_sequence = 1;
        peer.flags = Flags::REPLAY_OPERATION;
        let id = create_as(&mut peer, "file", &v2(0, GUID), empties).await.file_id();
        peer.flags = Flags::NONE;
        assert_eq!(peer.write(id, 0, b"whole").await, Status::SUCCESS);
        let late = create_as(&mut lost, "file", &v2(0, GUID), empties).await;
        assert_eq!(late.status(), Status::DUPLICATE_OBJECTID, "while what the replay made is open");
        peer.close(id).await;
        for (flags, status) in
            [(Flags::NONE, Status::DUPLICATE_OBJECTID), (Flags::REPLAY_OPERATION, Status::FILE_NOT_AVAILABLE)]
        {
            lost.flags = flags;
            let late = create_as(&mut lost, "file", &v2(0, GUID), empties).await;
            assert_eq!(late.status(), status, "when it is closed");
        }
        lost.flags = Flags::NONE;
        let anew = create_as(&mut lost, "file", &v2(0, Guid([2; 16])), |_| ()).await;
        let length = CreateResponse::decode(&anew.message).unwrap().end_of_file;
        assert_eq!((anew.status(), length), (Status::SUCCESS, 5), "another CREATE of before is done");
        assert_eq!(server.open_count(), 1);
    });
}

#[test]
fn a_create_that_comes_after_its_replay_failed_does_nothing() {
    run(async {
        let server = server(Signing::Enabled);
        let mut lost = Peer::sign_in(&server).await;
        let mut peer = Peer::bound(&server, &lost).await;
        let goes = |request: &mut CreateRequest<'_>| {
            request.options = CreateOptions::DELETE_ON_CLOSE;
            request.desired_access = FILE_ALL.into();
        };
        let id = create_as(&mut peer, "file", &Contexts::new(), goes).await.file_id();
        let makes = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::CREATE;
        peer.channel_sequence = 1;
        peer.flags = Flags::REPLAY_OPERATION;
        let replay = create_as(&mut peer, "file", &v2(0, GUID), makes).await;
        assert_eq!(replay.status(), Status::OBJECT_NAME_COLLISION);
        peer.flags = Flags::NONE;
        peer.close(id).await;
        let late = create_as(&mut lost, "file", &v2(0, GUID), makes).await;
        assert_eq!((late.status(), server.open_count()), (Status::DUPLICATE_OBJECTID, 0));
    });
}

#[test]
fn a_create_that_failed_leaves_its_guid_free() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        let gone = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::OPEN;
        let answer = create_as(&mut peer, "gone", &v2(0, GUID), gone).await;
        assert_eq!(answer.status(), Status::OBJECT_NAME_NOT_FOUND);
        let id = create(&mut peer, "file", &v2(0, GUID)).await.file_id();
        peer.close(id).await;
        create(&mut peer, "file", &v2(0, GUID)).await.file_id();
    });
}

#[test]
fn an_application_that_fails_over_ends_what_it_had_open() {
    run(async {
        let server = server(Signing::Enabled);
        let app = Guid([5; 16]);
        let mut one = Peer::sign_in(&server).await;
        let mut other = Peer::sign_in_as(&server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await;
        let contexts = bytes(&instance(v2(0, GUID), app, Some(5)));
        let answer = one.create_edited("file", &contexts, |request| request.share_access = ShareAccess::NONE).await;
        let id = answer.file_id();
        for older in [Some(4), Some(5), None] {
            let answer = create(&mut other, "file", &instance(v2(0, GUID), app, older)).await;
            assert_eq!(answer.status(), Status::FILE_FORCED_CLOSED);
        }
        let answer = create(&mut other, "file", &instance(v2(0, GUID), Guid([6; 16]), Some(6))).await;
        assert_eq!(answer.status(), Status::SHARING_VIOLATION, "another application");
        let answer = create(&mut one, "file", &instance(v2(0, Guid([2; 16])), app, Some(6))).await;
        assert_eq!(answer.status(), Status::SHARING_VIOLATION, "the same client");
        create(&mut other, "file", &instance(v2(0, GUID), app, Some(6))).await.file_id();
        assert!(!works(&mut one, id).await);
    });
}

#[test]
fn an_application_ends_nothing_of_another_users_and_nothing_where_it_may_not_open_the_file() {
    run(async {
        let server = server(Signing::Enabled);
        let app = Guid([5; 16]);
        let mut one = Peer::sign_in(&server).await;
        let contexts = bytes(&instance(v2(0, GUID), app, Some(5)));
        let answer = one.create_edited("file", &contexts, |request| request.share_access = ShareAccess::NONE).await;
        let id = answer.file_id();
        let terms = Terms { client: OTHER_CLIENT, ..Terms::default() };
        let mut another_user = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..terms }).await;
        for version in [Some(6), None] {
            let answer = create(&mut another_user, "file", &instance(v2(0, GUID), app, version)).await;
            assert_eq!(answer.status(), Status::SHARING_VIOLATION, "{version:?}");
        }
        let mut same_user = Peer::sign_in_as(&server, terms).await;
        let contexts = instance(v2(0, GUID), app, Some(6));
        let makes = |request: &mut CreateRequest<'_>| request.disposition = CreateDisposition::CREATE;
        let answer = create_as(&mut same_user, "file", &contexts, makes).await;
        assert_eq!(answer.status(), Status::OBJECT_NAME_COLLISION);
        let beyond = |request: &mut CreateRequest<'_>| {
            request.desired_access = wire::security::access::ACCESS_SYSTEM_SECURITY.into();
        };
        let answer = create_as(&mut same_user, "file", &contexts, beyond).await;
        assert_eq!(answer.status(), Status::PRIVILEGE_NOT_HELD);
        assert!(works(&mut one, id).await);
        create(&mut same_user, "file", &contexts).await.file_id();
        assert!(!works(&mut one, id).await);
    });
}

#[test]
fn opens_of_an_application_instance_are_found_by_their_name_whatever_else_is_open() {
    run(async {
        let (server, app) = (server(Signing::Enabled), Guid([5; 16]));
        let mut one = Peer::sign_in(&server).await;
        let mut other = Peer::sign_in_as(&server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await;
        let contexts = bytes(&instance(vec![], app, None));
        for number in 0..50 {
            one.create_edited(&format!("one{number}"), &contexts, |_| {}).await.file_id();
            other.create_edited("own", &contexts, |_| {}).await.file_id();
        }
        let client = one.terms.client;
        let found = |client, name: &str| {
            server.durables.of_instance((app, client), ("ram", name), |id, link| server.open_of(id, link)).count()
        };
        assert_eq!((found(OTHER_CLIENT, "ONE7"), found(OTHER_CLIENT, "one")), (1, 0));
        assert_eq!((found(OTHER_CLIENT, "own"), found(client, "Own")), (0, 50));
        let renamed = one.open("one7").await;
        assert_eq!(one.rename(renamed, "new").await, Status::SUCCESS);
        assert_eq!((found(OTHER_CLIENT, "one7"), found(OTHER_CLIENT, "new")), (0, 1));
        other.create_edited("new", &contexts, |_| {}).await.file_id();
        assert_eq!((found(OTHER_CLIENT, "new"), found(client, "new")), (0, 1), "it took its place");
        lose(&one);
        lose(&other);
        while server.durables.remembered() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn an_application_that_fails_over_ends_what_waits_for_it() {
    run(async {
        let server = server(Signing::Enabled);
        let app = Guid([5; 16]);
        let id = durable(&server, &instance(v2(0, GUID), app, None)).await;
        let mut other = Peer::sign_in_as(&server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await;
        create(&mut other, "file", &instance(v2(0, GUID), app, None)).await.file_id();
        let gone = create(&mut other, "file", &back_v2(id, GUID, DurableFlags::NONE)).await;
        assert_eq!(gone.status(), Status::OBJECT_NAME_NOT_FOUND);
    });
}

#[test]
fn somebody_who_opens_the_file_ends_what_waits_there() {
    run(async {
        let server = server(Signing::Enabled);
        let id = durable(&server, &v1()).await;
        let mut other = Peer::sign_in(&server).await;
        other.create("file", |request| request.share_access = ShareAccess::NONE).await.file_id();
        let mut peer = Peer::sign_in(&server).await;
        assert_eq!(create(&mut peer, "file", &back_v1(id)).await.status(), Status::OBJECT_NAME_NOT_FOUND);
    });
}

#[test]
fn a_create_under_way_is_not_done_twice_and_outlives_its_channel() {
    run(async {
        let server = server(Signing::Enabled);
        let mut holder = Peer::sign_in_as(&server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await;
        let held = create(&mut holder, "file", &vec![]).await.file_id();
        let mut first = Peer::sign_in(&server).await;
        let mut second = Peer::connect_as(&server, Terms::default());
        second.negotiate().await;
        assert_eq!(second.bind(&first).await, Status::SUCCESS);

        let mut message = first.create_message("file", &bytes(&v2(0, GUID)), |_| ());
        first.process(&mut message).unwrap();
        assert_eq!(first.receive().await.status(), Status::PENDING);
        assert_eq!(create(&mut second, "file", &v2(0, GUID)).await.status(), Status::DUPLICATE_OBJECTID);
        second.flags = Flags::REPLAY_OPERATION;
        assert_eq!(create(&mut second, "file", &v2(0, GUID)).await.status(), Status::FILE_NOT_AVAILABLE);
        first.disconnect();
        assert_eq!(create(&mut second, "file", &v2(0, GUID)).await.status(), Status::FILE_NOT_AVAILABLE);
        holder.close(held).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let answer = create(&mut second, "file", &v2(0, GUID)).await;
        let response = CreateResponse::decode(&answer.message).unwrap();
        assert_eq!((answer.status(), response.create_action), (Status::SUCCESS, CreateAction::OPENED));
        assert_eq!(server.open_count(), 1);
    });
}

#[test]
fn a_replay_that_asks_for_other_caching_is_refused() {
    run(async {
        let server = server(Signing::Enabled);
        let mut peer = Peer::sign_in(&server).await;
        create(&mut peer, "oplock", &v2(0, GUID)).await;
        create(&mut peer, "lease", &with_lease(v2(0, KEY), KEY)).await;
        peer.flags = Flags::REPLAY_OPERATION;
        let denied = Status::ACCESS_DENIED;
        assert_eq!(create(&mut peer, "oplock", &with_lease(v2(0, GUID), KEY)).await.status(), denied);
        assert_eq!(create(&mut peer, "lease", &v2(0, KEY)).await.status(), denied);
        assert_eq!(create(&mut peer, "lease", &with_lease(v2(0, KEY), GUID)).await.status(), denied);
        let again = create(&mut peer, "lease", &with_lease(v2(0, KEY), KEY)).await;
        assert!(has(&again, name::LEASE) && has(&again, name::DURABLE_HANDLE_REQUEST_V2));
        let without = |request: &mut CreateRequest<'_>| request.oplock_level = OplockLevel::NONE;
        let again = create_as(&mut peer, "oplock", &v2(0, GUID), without).await;
        assert_eq!(again.status(), Status::SUCCESS);
        assert!(!has(&again, name::DURABLE_HANDLE_REQUEST_V2), "it is told of no oplock that would bear it");
    });
}

#[test]
fn what_the_scavenger_has_taken_cannot_be_reclaimed_and_the_other_way_round() {
    run(async {
        let server = server(Signing::Enabled);
        let id = OpenId(durable(&server, &v2(1_000, GUID)).await.persistent);
        let kept = OpenId(durable_on(&server, "other", &v2(1_000, KEY)).await.persistent);
        let peer = Peer::sign_in(&server).await;
        let session = server.sessions.find(peer.session_id).unwrap();
        let (lost, reclaimed) = (server.durables.find(id).unwrap(), server.durables.find(kept).unwrap());
        tokio::time::sleep(Duration::from_millis(1_001)).await;
        assert_eq!(server.durables.reclaim(&reclaimed, session.state()), Ok(()));
        let expired = server.durables.take_expired(tokio::time::Instant::now());
        assert_eq!(expired.iter().map(|open| open.id).collect::<Vec<_>>(), [id]);
        assert_eq!(server.durables.reclaim(&lost, session.state()), Err(Status::OBJECT_NAME_NOT_FOUND));
        assert!(reclaimed.line.session().is_some() && lost.line.session().is_none());
    });
}

#[test]
fn a_server_that_stops_waits_for_no_create_that_would_outlive_its_connection() {
    run(async {
        let server = server(Signing::Enabled);
        let mut holder = Peer::sign_in_as(&server, Terms { client: OTHER_CLIENT, ..Terms::default() }).await;
        create(&mut holder, "file", &vec![]).await;
        let mut peer = Peer::sign_in(&server).await;
        let bytes = bytes(&v2(0, GUID));
        let name = utf16_bytes("file");
        let request = CreateRequest {
            desired_access: wire::security::access::FILE_ALL.into(),
            disposition: CreateDisposition::OPEN,
            name: Utf16::new(&name).unwrap(),
            contexts: CreateContexts::decode(&bytes).unwrap(),
            ..CreateRequest::default()
        };
        let mut message = peer.message(Command::CREATE, |body| request.encode(body));
        peer.process(&mut message).unwrap();
        assert_eq!(peer.receive().await.status(), Status::PENDING);
        peer.connection.in_flight.cancel_all();
        tokio::task::yield_now().await;
        assert!(peer.take_frame().is_none(), "it goes on");
        peer.connection.end(Ending::Now);
        assert_eq!(peer.receive().await.status(), Status::CANCELLED);
    });
}
