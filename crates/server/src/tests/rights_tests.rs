//! Groups, share rights and users who may sign in no longer: what is changed counts at once, also for who is there.

use std::sync::Arc;

use store::{Kind, NewNode, RamStore, SharePath, Store};
use tokio::task::LocalSet;
use wire::command::create::{CreateDisposition, CreateOptions, OplockLevel};
use wire::command::session_setup::SessionSetupFlags;
use wire::fscc::FileClass;
use wire::ids::FileId;
use wire::security::access::{FILE_ALL, FILE_GENERIC_READ, FILE_GENERIC_WRITE, READ_DATA, WRITE_DAC};
use wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use wire::status::Status;

use crate::admin::Admin;
use crate::state::configuration::{
    Configuration, Group, Principal, PrincipalKind, ShareRight, ShareRights, Signing, Standing,
};
use crate::state::shared::Shared;
use crate::tests::kit::configuration::{OTHER_USER, USER};
use crate::tests::testing::{Peer, Terms, server_with};

/// The relative ids of the user, and of a group.
const USER_ID: u32 = 1001;
const GROUP_ID: u32 = 2001;

/// A server on a store that has a file which the group may read and nobody else anything.
fn realm() -> Arc<Shared> {
    let store = RamStore::new(64 << 20);
    let group = Sid::new(5, &[21, 1, 2, 3, GROUP_ID]).unwrap();
    let descriptor = SecurityDescriptor {
        control: Control::DACL_PRESENT,
        owner: Some(Sid::SYSTEM),
        dacl: Some(Acl { aces: vec![Ace::allow(group, FILE_GENERIC_READ, AceFlags::NONE)] }),
        ..SecurityDescriptor::default()
    }
    .encode()
    .unwrap();
    let new = NewNode { kind: Kind::File, attributes: 0, security: Some(&descriptor), owner: None };
    store.create(&SharePath::parse("of-group").unwrap(), new).unwrap();
    let server = server_with(Signing::Enabled, Arc::new(store));
    change(&server, |configuration| {
        let account = configuration.principals[0].account.clone();
        configuration.groups.push(Group { name: "readers".into(), account, relative_id: GROUP_ID });
    });
    server
}

fn change(server: &Arc<Shared>, edit: impl FnOnce(&mut Configuration)) {
    let mut configuration = (**server.configuration.load()).clone();
    edit(&mut configuration);
    server.replace(configuration);
}

fn set_groups(server: &Arc<Shared>, groups: &[u32]) {
    change(server, |configuration| configuration.principals[0].groups = groups.to_vec());
}

/// Nobody is granted anything but who is in `granted`.
fn grant(server: &Arc<Shared>, granted: &[(u32, ShareRight)]) {
    let rights = ShareRights { granted: granted.to_vec(), ..ShareRights::default() };
    change(server, |configuration| configuration.shares[0].rights = rights);
}

async fn open(peer: &mut Peer, name: &str, access: u32) -> Result<FileId, Status> {
    let opened = peer.create(name, |request| {
        request.desired_access = access.into();
        request.disposition = CreateDisposition::OPEN_IF;
        request.options = CreateOptions::NON_DIRECTORY_FILE;
    });
    opened.await.opened()
}

#[tokio::test]
async fn a_group_counts_from_when_a_user_is_in_it_until_it_is_not() {
    let server = realm();
    let mut peer = Peer::sign_in(&server).await;
    assert_eq!(open(&mut peer, "of-group", READ_DATA).await, Err(Status::ACCESS_DENIED));
    set_groups(&server, &[GROUP_ID]);
    let file = open(&mut peer, "of-group", READ_DATA).await.unwrap();
    set_groups(&server, &[]);
    assert_eq!(peer.read(file, 0, 1).await.status(), Status::END_OF_FILE, "what is open stays so");
    assert_eq!(open(&mut peer, "of-group", READ_DATA).await, Err(Status::ACCESS_DENIED));
    let mut other = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
    assert_eq!(open(&mut other, "of-group", READ_DATA).await, Err(Status::ACCESS_DENIED));
}

#[tokio::test]
async fn who_signs_in_again_has_the_groups_of_now() {
    let server = realm();
    let mut peer = Peer::sign_in(&server).await;
    set_groups(&server, &[GROUP_ID]);
    assert_eq!(peer.sign_in_again(SessionSetupFlags::NONE).await, Status::SUCCESS);
    open(&mut peer, "of-group", READ_DATA).await.unwrap();
    set_groups(&server, &[]);
    assert_eq!(peer.sign_in_again(SessionSetupFlags::NONE).await, Status::SUCCESS);
    assert_eq!(open(&mut peer, "of-group", READ_DATA).await, Err(Status::ACCESS_DENIED));
}

#[tokio::test]
async fn only_those_whom_its_rights_name_connect_to_a_share() {
    let server = realm();
    grant(&server, &[(GROUP_ID, ShareRight::Full)]);
    let mut peer = Peer::connect_as(&server, Terms::default());
    peer.negotiate().await;
    peer.set_up_session().await;
    assert_eq!(peer.connect("ram").await, Status::ACCESS_DENIED);
    set_groups(&server, &[GROUP_ID]);
    assert_eq!(peer.connect("ram").await, Status::SUCCESS);
    grant(&server, &[(USER_ID, ShareRight::Read)]);
    assert_eq!(peer.connect("ram").await, Status::SUCCESS);
    set_groups(&server, &[]);
    assert_eq!(peer.connect("ram").await, Status::SUCCESS);
    grant(&server, &[]);
    assert_eq!(peer.connect("ram").await, Status::ACCESS_DENIED);
}

#[tokio::test]
async fn the_holder_of_the_key_needs_no_right() {
    let server = realm();
    change(&server, |configuration| {
        let keeper = Principal {
            name: "keeper".into(),
            kind: PrincipalKind::Account,
            relative_id: 500,
            ..configuration.principals[0].clone()
        };
        configuration.principals.push(keeper);
    });
    grant(&server, &[]);
    let mut peer = Peer::sign_in_as(&server, Terms { user: "keeper", ..Terms::default() }).await;
    open(&mut peer, "new", FILE_ALL).await.unwrap();
}

#[tokio::test]
async fn nothing_beyond_the_right_on_the_share_is_granted() {
    let server = realm();
    let mut peer = Peer::sign_in(&server).await;
    open(&mut peer, "new", FILE_ALL).await.unwrap();
    for (right, most) in
        [(ShareRight::Read, FILE_GENERIC_READ), (ShareRight::Change, FILE_GENERIC_READ | FILE_GENERIC_WRITE)]
    {
        grant(&server, &[(USER_ID, right)]);
        open(&mut peer, "new", most).await.unwrap();
        assert_eq!(open(&mut peer, "new", most | WRITE_DAC).await, Err(Status::ACCESS_DENIED), "{}", right.name());
    }
    grant(&server, &[(USER_ID, ShareRight::Read)]);
    assert_eq!(open(&mut peer, "another", READ_DATA).await, Err(Status::ACCESS_DENIED), "nothing is made");
    assert_eq!(open(&mut peer, "new", FILE_GENERIC_WRITE).await, Err(Status::ACCESS_DENIED));
}

#[tokio::test]
async fn what_is_open_loses_what_the_share_no_longer_grants() {
    let server = realm();
    let mut peer = Peer::sign_in(&server).await;
    let file = open(&mut peer, "new", FILE_ALL).await.unwrap();
    assert_eq!(peer.write(file, 0, b"before").await, Status::SUCCESS);
    grant(&server, &[(USER_ID, ShareRight::Read)]);
    assert_eq!(peer.write(file, 0, b"after!").await, Status::ACCESS_DENIED);
    assert_eq!(peer.rename(file, "other").await, Status::ACCESS_DENIED);
    assert_eq!(peer.read(file, 0, 6).await.status(), Status::SUCCESS);
    grant(&server, &[(USER_ID, ShareRight::Change)]);
    assert_eq!(peer.write(file, 0, b"again!").await, Status::SUCCESS);
    grant(&server, &[]);
    assert_eq!(peer.read(file, 0, 6).await.status(), Status::NETWORK_NAME_DELETED);
    assert_eq!(server.open_count(), 0);
}

#[tokio::test]
async fn what_was_to_be_deleted_on_close_stays_where_the_right_to_has_gone() {
    for left in [&[(USER_ID, ShareRight::Read)][..], &[]] {
        let server = realm();
        let mut peer = Peer::sign_in(&server).await;
        let doomed = peer.create("doomed", |request| {
            request.desired_access = FILE_ALL.into();
            request.disposition = CreateDisposition::OPEN_IF;
            request.options = CreateOptions::NON_DIRECTORY_FILE | CreateOptions::DELETE_ON_CLOSE;
        });
        let doomed = doomed.await.opened().unwrap();
        grant(&server, left);
        if !left.is_empty() {
            peer.close(doomed).await;
        }
        grant(&server, &[(USER_ID, ShareRight::Full)]);
        assert_eq!(peer.connect("ram").await, Status::SUCCESS);
        let found = peer.create("doomed", |request| request.disposition = CreateDisposition::OPEN);
        assert_eq!(found.await.status(), Status::SUCCESS, "{left:?}");
    }
}

#[tokio::test]
async fn who_judges_for_an_open_asks_its_user_as_it_is_now() {
    let server = realm();
    set_groups(&server, &[GROUP_ID]);
    let mut peer = Peer::sign_in(&server).await;
    let file = open(&mut peer, "of-group", READ_DATA).await.unwrap();
    let open = peer.opened(&server, file);
    let group = Sid::new(5, &[21, 1, 2, 3, GROUP_ID]).unwrap();
    assert!(open.tree.user_now(&open.user).sids.contains(&group));
    set_groups(&server, &[]);
    assert!(!open.tree.user_now(&open.user).sids.contains(&group) && open.user.sids.contains(&group));
}

#[tokio::test]
async fn who_waits_for_a_lease_while_the_right_goes_does_nothing() {
    for (right, status) in [(ShareRight::Full, Status::SUCCESS), (ShareRight::Read, Status::ACCESS_DENIED)] {
        let all = async {
            let server = realm();
            let mut peer = Peer::sign_in(&server).await;
            let mut holder = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
            let source = open(&mut peer, "source", FILE_ALL).await.unwrap();
            let held = holder.create("target", |request| {
                request.disposition = CreateDisposition::OPEN_IF;
                request.oplock_level = OplockLevel::BATCH;
            });
            let held = held.await.opened().unwrap();
            let mut message = peer.name_message(source, FileClass::RENAME, "target", true);
            peer.sign(&mut message);
            peer.process(&mut message).unwrap();
            tokio::task::yield_now().await;
            let rights =
                ShareRights { granted: vec![(USER_ID, right), (1002, ShareRight::Full)], ..ShareRights::default() };
            change(&server, |configuration| configuration.shares[0].rights = rights);
            holder.close(held).await;
            let mut answer = peer.receive().await;
            while answer.status() == Status::PENDING {
                answer = peer.receive().await;
            }
            assert_eq!(answer.status(), status);
        };
        LocalSet::new().run_until(all).await;
    }
}

#[tokio::test]
async fn a_user_who_is_disabled_or_has_expired_is_gone_and_told_so_for_the_password_alone() {
    for (standing, status) in
        [(Standing::Disabled, Status::ACCOUNT_DISABLED), (Standing::Expired, Status::ACCOUNT_EXPIRED)]
    {
        let server = realm();
        let peer = Peer::sign_in(&server).await;
        change(&server, |configuration| configuration.principals[0].standing = standing);
        assert!(server.sessions.find(peer.session_id).is_none());
        assert_eq!(attempt(&server, USER).await, status);
        let secrets = vec![crate::admin::nt_hash("another")];
        change(&server, |configuration| configuration.principals[0].secrets = secrets);
        assert_eq!(attempt(&server, USER).await, Status::LOGON_FAILURE);
        assert_eq!(attempt(&server, OTHER_USER).await, Status::SUCCESS);
    }
}

#[tokio::test]
async fn what_a_former_password_signed_in_goes_on_and_it_signs_in_nothing_more() {
    let all = async {
        let server = realm();
        let mut peer = Peer::sign_in(&server).await;
        let former = server.configuration.load().principals[0].secrets.clone();
        change(&server, |configuration| {
            let user = &mut configuration.principals[0];
            user.former = std::mem::replace(&mut user.secrets, vec![crate::admin::nt_hash("another")]);
        });
        assert_eq!(peer.connect("ram").await, Status::SUCCESS);
        assert_eq!(attempt(&server, USER).await, Status::LOGON_FAILURE);
        let mut second = Peer::connect_as(&server, Terms::default());
        second.negotiate().await;
        assert_eq!(second.bind(&peer).await, Status::LOGON_FAILURE, "a bind is a sign-in, too");
        // Both are good for an account's key, until the time of the old one is over.
        change(&server, |configuration| {
            let user = &mut configuration.principals[0];
            user.former.clear();
            user.secrets.extend(former);
        });
        assert_eq!(attempt(&server, USER).await, Status::SUCCESS);
        let kept = server.sessions.count();
        change(&server, |configuration| configuration.principals[0].secrets.truncate(1));
        assert_eq!((server.sessions.count(), kept), (0, 2));
    };
    LocalSet::new().run_until(all).await;
}

/// Signs in on a connection of its own.
async fn attempt(server: &Arc<Shared>, user: &'static str) -> Status {
    let mut peer = Peer::connect_as(server, Terms { user, ..Terms::default() });
    peer.negotiate().await;
    peer.authenticate(SessionSetupFlags::NONE).await.0.status()
}
