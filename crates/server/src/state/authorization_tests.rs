//! Who may do what, as clients see it: each way into a file, stream or folder asks the same (`authorization.rs`).

mod bench;
mod model;
mod passed_on;
mod told;

use std::sync::Arc;

use store::{Kind, NewNode, Node, RamStore, Replace, Resolved, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, OplockLevel};
use wire::command::negotiate::Capabilities;
use wire::command::query_info::QueryInfoResponse;
use wire::command::set_info::{InfoType, SetInfoRequest};
use wire::context::create::{CreateContextsBuilder, DurableReconnectV2, DurableRequestV2, Lease, LeaseState, name};
use wire::context::durable::DurableFlags;
use wire::fscc::file::Access;
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Command, FileId, Guid, TreeId};
use wire::security::access::{
    ACCESS_SYSTEM_SECURITY, APPEND_DATA, DELETE, DELETE_CHILD, EXECUTE, FILE_ALL, FILE_GENERIC_READ, MAXIMUM_ALLOWED,
    READ_ATTRIBUTES, READ_CONTROL, READ_DATA, SYNCHRONIZE, WRITE_ATTRIBUTES, WRITE_DAC, WRITE_DATA, WRITE_OWNER,
};
use wire::security::{Ace, AceBody, AceFlags, AceKind, Acl, Control, SecurityDescriptor, SecurityInformation, Sid};
use wire::status::Status;

use crate::state::configuration::{Configuration, Principal, PrincipalKind, Share, Signing};
use crate::state::descriptors::{At, Descriptor, Reading};
use crate::state::restore::restore;
use crate::state::shared::Shared;
use crate::tests::interrupted::{Call, Interrupted};
use crate::tests::lines::Lines;
use crate::tests::testing::{OTHER_USER, Peer, Terms, USER, server_with};

/// The holder of the account's key; its password is that of the users.
const KEEPER: &str = "keeper";
/// The share that may only be read, and the one that lists by access, over the same files as the usual one.
const READ_ONLY: &str = "still";
const BY_ACCESS: &str = "listed";

/// The users' SIDs.
fn user() -> Sid {
    of_machine(1001)
}

fn other() -> Sid {
    of_machine(1002)
}

fn of_machine(relative: u32) -> Sid {
    Sid::new(5, &[21, 1, 2, 3, relative]).unwrap()
}

/// A server with one RAM disk under three shares, two users and the holder of the account's key.
fn realm() -> (Arc<Shared>, Arc<dyn Store>) {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
    (realm_over(&store), store)
}

/// The same over another store.
fn realm_over(store: &Arc<dyn Store>) -> Arc<Shared> {
    let server = server_with(Signing::Enabled, Arc::clone(store));
    let configuration = server.configuration.load();
    let user = &configuration.principals[0];
    let keeper = Principal { name: KEEPER.into(), kind: PrincipalKind::Account, relative_id: 500, ..user.clone() };
    let share = &configuration.shares[0];
    let still = Share { name: READ_ONLY.into(), read_only: true, ..share.clone() };
    let listed = Share { name: BY_ACCESS.into(), access_based: true, ..share.clone() };
    let principals = configuration.principals.iter().cloned().chain([keeper]).collect();
    let shares = configuration.shares.iter().cloned().chain([still, listed]).collect();
    server.configuration.store(Arc::new(Configuration { principals, shares, ..Configuration::clone(&configuration) }));
    server
}

async fn sign_in(server: &Arc<Shared>, user: &'static str) -> Peer {
    Peer::sign_in_as(server, Terms { user, ..Terms::default() }).await
}

/// Connects to one more share, and goes on with that.
async fn connect(peer: &mut Peer, share: &str) -> TreeId {
    assert_eq!(peer.connect(share).await, Status::SUCCESS);
    peer.tree_id
}

/// Makes a file or directory behind the server's back, with these bytes as its descriptor.
fn make(store: &dyn Store, path: &str, kind: Kind, descriptor: &[u8]) {
    let new = NewNode { kind, attributes: 0, security: Some(descriptor), owner: None };
    store.create(&SharePath::parse(path).unwrap(), new).unwrap();
}

fn exists(store: &dyn Store, path: &str) -> bool {
    let found = store.resolve(&SharePath::parse(path).unwrap(), Use::Metadata);
    matches!(found, Ok(Resolved::Found { .. }))
}

fn node(store: &dyn Store, path: &str) -> Arc<dyn Node> {
    match store.resolve(&SharePath::parse(path).unwrap(), Use::Metadata).unwrap() {
        Resolved::Found { node, .. } => node,
        Resolved::Missing { .. } => panic!("{path} is missing"),
    }
}

fn set_descriptor(store: &dyn Store, path: &str, descriptor: &[u8]) {
    node(store, path).extras().set_security(descriptor).unwrap();
}

fn stored(store: &dyn Store, path: &str) -> SecurityDescriptor {
    SecurityDescriptor::decode(&node(store, path).extras().security().unwrap().unwrap()).unwrap()
}

/// A descriptor that lets `who` do `mask`, and its owner nothing besides.
fn allowing(who: Sid, mask: u32) -> Vec<u8> {
    descriptor(Sid::SYSTEM, vec![Ace::allow(who, mask, AceFlags::NONE)]).encode().unwrap()
}

fn descriptor(owner: Sid, aces: Vec<Ace>) -> SecurityDescriptor {
    SecurityDescriptor {
        control: Control::DACL_PRESENT,
        owner: Some(owner),
        dacl: Some(Acl { aces }),
        ..SecurityDescriptor::default()
    }
}

async fn open(peer: &mut Peer, path: &str, desired: u32) -> Result<FileId, Status> {
    open_as(peer, path, desired, CreateDisposition::OPEN, CreateOptions::NONE).await
}

async fn open_as(
    peer: &mut Peer,
    path: &str,
    desired: u32,
    disposition: CreateDisposition,
    options: CreateOptions,
) -> Result<FileId, Status> {
    let edit = |request: &mut CreateRequest<'_>| {
        request.desired_access = desired.into();
        request.disposition = disposition;
        request.options = options;
    };
    peer.create_edited(path, &[], edit).await.opened()
}

/// FileAccessInformation: what was granted.
async fn granted(peer: &mut Peer, file: FileId) -> u32 {
    let answer = peer.query(file, FileClass::ACCESS, 100).await;
    assert_eq!(answer.status(), Status::SUCCESS);
    Access::decode(QueryInfoResponse::decode(&answer.message).unwrap().output).unwrap().access
}

async fn set_security(
    peer: &mut Peer,
    file_id: FileId,
    which: SecurityInformation,
    descriptor: &SecurityDescriptor,
) -> Status {
    let buffer = descriptor.encode().unwrap();
    let request = SetInfoRequest {
        info_type: InfoType::SECURITY,
        additional_information: which.0,
        file_id,
        buffer: &buffer,
        ..SetInfoRequest::default()
    };
    peer.ask(Command::SET_INFO, |body| request.encode(body)).await.status()
}

/// Makes a file with this descriptor.
async fn make_with(peer: &mut Peer, path: &str, descriptor: &SecurityDescriptor) -> Result<FileId, Status> {
    let mut contexts = CreateContextsBuilder::new();
    contexts.add(name::SD_BUFFER, &descriptor.encode().unwrap());
    let answer = peer
        .create_edited(path, contexts.contexts().as_bytes(), |request| request.desired_access = READ_DATA.into())
        .await;
    answer.opened()
}

#[tokio::test]
async fn a_new_stream_grants_what_its_file_grants() {
    let (server, store) = realm();
    make(&*store, "file", Kind::File, &allowing(user(), WRITE_DATA | READ_ATTRIBUTES));
    make(&*store, "shut", Kind::File, &allowing(user(), READ_DATA | DELETE));
    make(&*store, "folder", Kind::Directory, &allowing(user(), WRITE_DATA));
    set_descriptor(&*store, "", &allowing(user(), WRITE_DATA));
    let mut peer = sign_in(&server, USER).await;
    let (if_missing, none) = (CreateDisposition::OPEN_IF, CreateOptions::NONE);
    for beyond in [WRITE_DAC, WRITE_OWNER, DELETE, READ_DATA] {
        for path in ["file:s", "folder:s"] {
            let opened = open_as(&mut peer, path, WRITE_DATA | beyond, if_missing, none).await;
            assert_eq!(opened, Err(Status::ACCESS_DENIED), "{path} {beyond:x}");
        }
    }
    assert_eq!(open_as(&mut peer, "shut:s", READ_DATA, if_missing, none).await, Err(Status::ACCESS_DENIED));
    let made = open_as(&mut peer, "file:s", MAXIMUM_ALLOWED, if_missing, none).await.unwrap();
    assert_eq!(granted(&mut peer, made).await, WRITE_DATA | READ_ATTRIBUTES);
    let open_to_all = descriptor(user(), vec![Ace::allow(Sid::EVERYONE, FILE_ALL, AceFlags::NONE)]);
    let before = stored(&*store, "file");
    let set = set_security(&mut peer, made, SecurityInformation::DACL, &open_to_all).await;
    assert_eq!((set, stored(&*store, "file")), (Status::ACCESS_DENIED, before));
    // What is made together with its file grants what was asked for.
    let made = open_as(&mut peer, "new:s", FILE_ALL, CreateDisposition::CREATE, none).await.unwrap();
    assert_eq!(granted(&mut peer, made).await, FILE_ALL);
}

#[tokio::test]
async fn a_file_goes_with_its_open_only_where_delete_was_granted() {
    let (server, store) = realm();
    make(&*store, "file", Kind::File, &allowing(user(), FILE_ALL & !DELETE));
    make(&*store, "folder", Kind::Directory, &allowing(user(), FILE_ALL & !DELETE));
    make(&*store, "lends", Kind::Directory, &allowing(user(), DELETE_CHILD));
    make(&*store, "lends\\file", Kind::File, &allowing(user(), READ_DATA));
    make(&*store, "keeps", Kind::Directory, &allowing(user(), READ_DATA));
    make(&*store, "keeps\\file", Kind::File, &allowing(user(), READ_DATA));
    set_descriptor(&*store, "", &allowing(user(), READ_DATA));
    let mut peer = sign_in(&server, USER).await;
    let delete = CreateOptions::DELETE_ON_CLOSE;
    for path in ["file", "folder", "keeps\\file"] {
        for desired in [MAXIMUM_ALLOWED, MAXIMUM_ALLOWED | READ_DATA, DELETE] {
            let opened = open_as(&mut peer, path, desired, CreateDisposition::OPEN, delete).await;
            assert_eq!(opened, Err(Status::ACCESS_DENIED), "{path} {desired:x}");
        }
        let looked = open(&mut peer, path, READ_DATA).await.expect("nothing keeps others out");
        peer.close(looked).await;
        assert!(exists(&*store, path));
    }
    let opened = open_as(&mut peer, "lends\\file", MAXIMUM_ALLOWED, CreateDisposition::OPEN, delete).await.unwrap();
    peer.close(opened).await;
    assert!(!exists(&*store, "lends\\file"));
}

#[tokio::test]
async fn a_directory_lends_no_deletion_of_a_file_that_has_other_names() {
    let (server, store) = realm();
    make(&*store, "theirs", Kind::Directory, &allowing(other(), FILE_ALL));
    make(&*store, "theirs\\file", Kind::File, &allowing(other(), FILE_ALL));
    make(&*store, "mine", Kind::Directory, &allowing(user(), FILE_ALL));
    let file = node(&*store, "theirs\\file");
    file.extras().create_stream("s").unwrap();
    let path = |text: &str| SharePath::parse(text).unwrap();
    store.link(&path("theirs\\file"), &path("mine\\l"), file.identity(), Replace::No).unwrap();
    let mut peer = sign_in(&server, USER).await;
    for name in ["mine\\l", "mine\\l:s"] {
        for desired in [DELETE, DELETE | READ_ATTRIBUTES] {
            let opened = open(&mut peer, name, desired).await;
            assert_eq!(opened, Err(Status::ACCESS_DENIED), "{name} {desired:x}");
        }
    }
    assert!(exists(&*store, "theirs\\file") && file.extras().stream("s").unwrap().is_some());
    // Once it is the only name, its directory decides.
    store.remove(&path("theirs\\file"), file.identity()).unwrap();
    let opened = open_as(&mut peer, "mine\\l", DELETE, CreateDisposition::OPEN, CreateOptions::DELETE_ON_CLOSE).await;
    peer.close(opened.unwrap()).await;
    assert!(!exists(&*store, "mine\\l"));
}

/// MS-FSA 2.1.5.15.12 asks for FILE_DELETE_CHILD, however many names there are: only this one goes.
#[tokio::test]
async fn a_rename_over_one_of_several_names_asks_its_directory_and_leaves_the_others() {
    for (directory, expected) in [(FILE_ALL, Status::SUCCESS), (FILE_ALL & !DELETE_CHILD, Status::ACCESS_DENIED)] {
        let (server, store) = realm();
        make(&*store, "theirs", Kind::Directory, &allowing(other(), FILE_ALL));
        make(&*store, "theirs\\file", Kind::File, &allowing(other(), FILE_ALL));
        make(&*store, "mine", Kind::Directory, &allowing(user(), directory));
        make(&*store, "mine\\file", Kind::File, &allowing(user(), FILE_ALL));
        let file = node(&*store, "theirs\\file");
        file.extras().create_stream("s").unwrap();
        let path = |text: &str| SharePath::parse(text).unwrap();
        store.link(&path("theirs\\file"), &path("mine\\l"), file.identity(), Replace::No).unwrap();
        let mut peer = sign_in(&server, USER).await;
        let mine = open(&mut peer, "mine\\file", DELETE).await.unwrap();
        assert_eq!(peer.set_name(mine, FileClass::RENAME, "mine\\l", true).await, expected);
        assert!(exists(&*store, "theirs\\file") && file.extras().stream("s").unwrap().is_some());
        assert_eq!(node(&*store, "mine\\l").identity() == file.identity(), expected != Status::SUCCESS);
    }
}

/// A link has the file keep what counts for it, and its directory lend no deletion: who may only read the file has no such effect on others.
#[tokio::test]
async fn a_link_takes_the_right_to_write_the_attributes_of_its_file() {
    let reads = FILE_GENERIC_READ;
    for (rights, expected) in [(reads, Status::ACCESS_DENIED), (reads | WRITE_ATTRIBUTES, Status::SUCCESS)] {
        let (server, store) = realm();
        make(&*store, "theirs", Kind::Directory, &allowing(other(), FILE_ALL));
        make(&*store, "theirs\\file", Kind::File, &allowing(user(), rights));
        make(&*store, "mine", Kind::Directory, &allowing(user(), FILE_ALL));
        let mut peer = sign_in(&server, USER).await;
        // What the open was granted does not count: some clients open what they link to look at it alone.
        let file = open(&mut peer, "theirs\\file", READ_ATTRIBUTES).await.unwrap();
        assert_eq!(peer.set_name(file, FileClass::LINK, "mine\\l", false).await, expected);
        assert_eq!(exists(&*store, "mine\\l"), expected == Status::SUCCESS);
    }
}

#[tokio::test]
async fn setting_no_part_of_a_descriptor_changes_nothing() {
    let (server, store) = realm();
    make(&*store, "file", Kind::File, &allowing(other(), FILE_ALL));
    let before = stored(&*store, "file");
    let mut peer = sign_in(&server, USER).await;
    let file = open(&mut peer, "file", READ_ATTRIBUTES).await.unwrap();
    let mine = SecurityDescriptor::decode(&allowing(user(), FILE_ALL)).unwrap();
    assert_eq!(set_security(&mut peer, file, SecurityInformation::NONE, &mine).await, Status::SUCCESS);
    for inherits in [SecurityInformation::PROTECTED_DACL, SecurityInformation::UNPROTECTED_DACL] {
        assert_eq!(set_security(&mut peer, file, inherits, &mine).await, Status::ACCESS_DENIED);
    }
    assert_eq!(stored(&*store, "file"), before);
}

#[tokio::test]
async fn nothing_goes_with_its_open_on_a_share_that_may_only_be_read() {
    let (server, store) = realm();
    make(&*store, "file", Kind::File, &allowing(user(), FILE_ALL));
    let mut reader = sign_in(&server, USER).await;
    connect(&mut reader, READ_ONLY).await;
    let delete = CreateOptions::DELETE_ON_CLOSE;
    for desired in [MAXIMUM_ALLOWED, DELETE, FILE_GENERIC_READ | MAXIMUM_ALLOWED] {
        let opened = open_as(&mut reader, "file", desired, CreateDisposition::OPEN, delete).await;
        assert_eq!(opened, Err(Status::ACCESS_DENIED), "{desired:x}");
    }
    let held = open(&mut reader, "file", MAXIMUM_ALLOWED).await.unwrap();
    assert_eq!(granted(&mut reader, held).await & (WRITE_DATA | DELETE), 0);
    // It claims what it was granted: who shares nothing but reading comes in.
    let mut writer = sign_in(&server, USER).await;
    let shares_reading = |request: &mut CreateRequest<'_>| {
        request.desired_access = READ_DATA.into();
        request.share_access = wire::command::create::ShareAccess(1);
        request.disposition = CreateDisposition::OPEN;
    };
    assert_eq!(writer.create_edited("file", &[], shares_reading).await.status(), Status::SUCCESS);
    assert!(exists(&*store, "file"));
}

#[tokio::test]
async fn a_share_that_became_read_only_grants_nothing_else() {
    let (server, store) = realm();
    make(&*store, "file", Kind::File, &allowing(user(), FILE_ALL));
    let mut peer = sign_in(&server, USER).await;
    let share = server.configuration.load().shares[0].clone();
    let session = server.sessions.find(peer.session_id).unwrap();
    let tree = session.tree(peer.tree_id).unwrap();
    assert!(tree.follow(Some(&Share { read_only: true, ..share }), &session.user.load()));
    let opened = open_as(&mut peer, "file", MAXIMUM_ALLOWED, CreateDisposition::OPEN, CreateOptions::NONE).await;
    let granted = granted(&mut peer, opened.unwrap()).await;
    assert_eq!(granted & (WRITE_DATA | DELETE | WRITE_DAC), 0);
    assert_eq!(open(&mut peer, "file", WRITE_DATA).await, Err(Status::ACCESS_DENIED));
}

#[tokio::test]
async fn a_descriptor_that_is_damaged_grants_nothing_to_users() {
    let test = async {
        let (server, store) = realm();
        let whole = allowing(user(), FILE_ALL);
        let cut = whole[..whole.len() - 3].to_vec();
        let damaged: [Vec<u8>; 5] = [cut, vec![0; whole.len()], Vec::new(), vec![1], vec![0xFF; 64]];
        for (index, bytes) in damaged.iter().enumerate() {
            make(&*store, &format!("file{index}"), Kind::File, bytes);
            make(&*store, &format!("folder{index}"), Kind::Directory, bytes);
        }
        set_descriptor(&*store, "", &allowing(user(), WRITE_DATA));
        let mut peer = sign_in(&server, USER).await;
        let mut keeper = sign_in(&server, KEEPER).await;
        for index in 0..damaged.len() {
            for path in [format!("file{index}"), format!("folder{index}"), format!("file{index}:s")] {
                for desired in [READ_DATA, MAXIMUM_ALLOWED, READ_CONTROL, WRITE_DAC] {
                    let opened =
                        open_as(&mut peer, &path, desired, CreateDisposition::OPEN_IF, CreateOptions::NONE).await;
                    assert_eq!(opened, Err(Status::ACCESS_DENIED), "{path} {desired:x}");
                }
            }
            let inside = format!("folder{index}\\new");
            let made = open_as(&mut peer, &inside, READ_DATA, CreateDisposition::CREATE, CreateOptions::NONE).await;
            assert_eq!(made, Err(Status::ACCESS_DENIED));
            // The holder of the key makes it whole again.
            let file = open(&mut keeper, &format!("file{index}"), FILE_ALL).await.unwrap();
            let whole = SecurityDescriptor::decode(&whole).unwrap();
            assert_eq!(set_security(&mut keeper, file, SecurityInformation::DACL, &whole).await, Status::SUCCESS);
            let made = open_as(&mut keeper, &inside, READ_DATA, CreateDisposition::CREATE, CreateOptions::NONE).await;
            made.unwrap();
            let opened = open(&mut peer, &inside, READ_DATA).await;
            assert_eq!(opened, Err(Status::ACCESS_DENIED), "nothing open to all is passed on");
            open(&mut peer, &format!("file{index}"), READ_DATA).await.unwrap();
        }
    };
    LocalSet::new().run_until(test).await;
}

#[test]
fn a_descriptor_that_cannot_be_used_is_told_of_once_a_file() {
    let (server, store) = realm();
    let lines = Lines::default();
    tracing::subscriber::with_default(lines.clone(), || {
        for file in ["one", "two", "one", "two", "two"] {
            let path = SharePath::parse(file).unwrap();
            if !exists(&*store, file) {
                make(&*store, file, Kind::File, b"damaged");
            }
            let node = node(&*store, file);
            assert_eq!(
                server.descriptors.read(At { store: &*store, node: &*node, path: &path }, "ram", Reading::Whole),
                Ok(Descriptor::Unusable)
            );
        }
    });
    assert_eq!(lines.of("descriptor_unusable").len(), 2);
}

#[tokio::test]
async fn a_part_of_a_descriptor_is_not_set_while_the_rest_cannot_be_read() {
    let test = async {
        let (store, meanwhile) = Interrupted::around(RamStore::new(64 << 20));
        let server = realm_over(&store);
        make(&*store, "file", Kind::File, &allowing(user(), FILE_ALL));
        let before = stored(&*store, "file");
        for name in [USER, KEEPER] {
            let mut peer = sign_in(&server, name).await;
            let file = open(&mut peer, "file", WRITE_OWNER | WRITE_DAC).await.unwrap();
            meanwhile.set(|call, _| if call == Call::LookAtSecurity { Err(store::Error::Io(5)) } else { Ok(()) });
            let request = SetInfoRequest {
                info_type: InfoType::SECURITY,
                file_id: file,
                additional_information: SecurityInformation::OWNER.0,
                buffer: &descriptor(user(), vec![]).encode().unwrap(),
                ..SetInfoRequest::default()
            };
            let status = peer.ask(Command::SET_INFO, |body| request.encode(body)).await.status();
            meanwhile.set(|_, _| Ok(()));
            assert_eq!(status, Status::UNEXPECTED_IO_ERROR);
            assert_eq!(stored(&*store, "file"), before, "{name}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_is_audited_is_the_business_of_the_accounts_key() {
    let test = async {
        let (server, store) = realm();
        make(&*store, "file", Kind::File, &allowing(user(), FILE_ALL));
        let audit = Ace {
            kind: AceKind::SYSTEM_AUDIT,
            flags: AceFlags::SUCCESSFUL_ACCESS,
            body: AceBody::Plain { mask: FILE_ALL, sid: Sid::EVERYONE },
        };
        let audited = SecurityDescriptor { sacl: Some(Acl { aces: vec![audit] }), ..SecurityDescriptor::default() };
        let (create, none) = (CreateDisposition::CREATE, CreateOptions::NONE);
        let mut peer = sign_in(&server, USER).await;
        for desired in
            [ACCESS_SYSTEM_SECURITY, ACCESS_SYSTEM_SECURITY | READ_DATA, ACCESS_SYSTEM_SECURITY | MAXIMUM_ALLOWED]
        {
            assert_eq!(open(&mut peer, "file", desired).await, Err(Status::PRIVILEGE_NOT_HELD));
            assert_eq!(open_as(&mut peer, "new", desired, create, none).await, Err(Status::PRIVILEGE_NOT_HELD));
            assert_eq!(open_as(&mut peer, "file:s", desired, create, none).await, Err(Status::PRIVILEGE_NOT_HELD));
        }
        assert_eq!(make_with(&mut peer, "new", &audited).await, Err(Status::PRIVILEGE_NOT_HELD));
        assert!(!exists(&*store, "new"));
        let file = open(&mut peer, "file", MAXIMUM_ALLOWED).await.unwrap();
        let set = set_security(&mut peer, file, SecurityInformation::SACL, &audited).await;
        assert_eq!(set, Status::ACCESS_DENIED);
        let mut keeper = sign_in(&server, KEEPER).await;
        let file = open(&mut keeper, "file", ACCESS_SYSTEM_SECURITY).await.unwrap();
        assert_eq!(set_security(&mut keeper, file, SecurityInformation::SACL, &audited).await, Status::SUCCESS);
        make_with(&mut keeper, "audited", &audited).await.unwrap();
        assert_eq!(stored(&*store, "audited").sacl, audited.sacl);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn no_user_evades_what_a_directory_has_audited() {
    let (server, store) = realm();
    let body = AceBody::Plain { mask: FILE_ALL, sid: Sid::EVERYONE };
    let flags = AceFlags::OBJECT_INHERIT | AceFlags::SUCCESSFUL_ACCESS;
    let audit = Ace { kind: AceKind::SYSTEM_AUDIT, flags, body };
    let mut folder = descriptor(user(), vec![Ace::allow(user(), FILE_ALL, AceFlags::NONE)]);
    folder.sacl = Some(Acl { aces: vec![audit] });
    make(&*store, "folder", Kind::Directory, &folder.encode().unwrap());
    let mut peer = sign_in(&server, USER).await;
    let silent = SecurityDescriptor {
        control: Control::SACL_PRESENT | Control::SACL_PROTECTED,
        sacl: Some(Acl::default()),
        ..SecurityDescriptor::default()
    };
    make_with(&mut peer, "folder\\file", &silent).await.unwrap();
    let made = stored(&*store, "folder\\file");
    assert_eq!(made.sacl.map(|list| list.aces.len()), Some(1));
    assert!(!made.control.contains(Control::SACL_PROTECTED));
}

#[tokio::test]
async fn users_make_themselves_and_their_groups_owners_and_nobody_else() {
    let test = async {
        let (server, store) = realm();
        make(&*store, "file", Kind::File, &allowing(user(), FILE_ALL));
        let mut peer = sign_in(&server, USER).await;
        for owner in [Sid::SYSTEM, Sid::BUILTIN_ADMINISTRATORS, other(), Sid::CREATOR_OWNER] {
            let foreign = descriptor(owner, vec![Ace::allow(user(), FILE_ALL, AceFlags::NONE)]);
            assert_eq!(make_with(&mut peer, "new", &foreign).await, Err(Status::INVALID_OWNER), "{owner:?}");
            assert!(!exists(&*store, "new"));
            if owner == Sid::SYSTEM {
                continue; // It owns the file already.
            }
            let file = open(&mut peer, "file", WRITE_OWNER).await.unwrap();
            let set = set_security(&mut peer, file, SecurityInformation::OWNER, &foreign).await;
            assert_eq!(set, Status::INVALID_OWNER, "{owner:?}");
        }
        let own = descriptor(user(), vec![]);
        make_with(&mut peer, "own", &own).await.unwrap();
        let file = open(&mut peer, "file", WRITE_OWNER).await.unwrap();
        assert_eq!(set_security(&mut peer, file, SecurityInformation::OWNER, &own).await, Status::SUCCESS);
        assert_eq!(stored(&*store, "file").owner, Some(user()));
        let mut keeper = sign_in(&server, KEEPER).await;
        make_with(&mut keeper, "given", &descriptor(other(), vec![])).await.unwrap();
        assert_eq!(stored(&*store, "given").owner, Some(other()));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn emptying_a_file_needs_what_is_changed() {
    let (server, store) = realm();
    let needed = WRITE_DATA | wire::security::access::WRITE_EA | wire::security::access::WRITE_ATTRIBUTES;
    let mut peer = sign_in(&server, USER).await;
    let (overwrite, supersede) = (CreateDisposition::OVERWRITE, CreateDisposition::SUPERSEDE);
    make(&*store, "shut", Kind::Directory, &allowing(user(), READ_CONTROL));
    for (disposition, rights, expected) in [
        (overwrite, needed, Status::SUCCESS),
        (overwrite, needed & !WRITE_DATA, Status::ACCESS_DENIED),
        (supersede, needed, Status::ACCESS_DENIED),
        (supersede, needed | DELETE, Status::SUCCESS),
        (supersede, DELETE | WRITE_DATA, Status::ACCESS_DENIED),
    ] {
        let path = format!("shut\\{:x}{rights:x}", disposition.0);
        make(&*store, &path, Kind::File, &allowing(user(), rights | SYNCHRONIZE));
        let opened = open_as(&mut peer, &path, SYNCHRONIZE, disposition, CreateOptions::NONE).await;
        assert_eq!(opened.err().unwrap_or_default(), expected, "{path}");
    }
}

#[tokio::test]
async fn an_open_to_wait_alone_needs_the_right_to_wait() {
    let (server, store) = realm();
    make(&*store, "shut", Kind::Directory, &allowing(other(), FILE_ALL));
    make(&*store, "shut\\theirs", Kind::File, &allowing(other(), FILE_ALL));
    make(&*store, "shut\\mine", Kind::File, &allowing(user(), SYNCHRONIZE));
    let mut peer = sign_in(&server, USER).await;
    for desired in [SYNCHRONIZE, SYNCHRONIZE | READ_ATTRIBUTES, MAXIMUM_ALLOWED] {
        assert_eq!(open(&mut peer, "shut\\theirs", desired).await, Err(Status::ACCESS_DENIED), "{desired:x}");
    }
    let opened = open(&mut peer, "shut\\mine", SYNCHRONIZE).await.unwrap();
    assert_eq!(granted(&mut peer, opened).await, SYNCHRONIZE);
    // What the directory lends is the right to see attributes, and no other one.
    set_descriptor(&*store, "shut", &allowing(user(), READ_DATA));
    let lent = open(&mut peer, "shut\\theirs", READ_ATTRIBUTES).await.unwrap();
    assert_eq!(granted(&mut peer, lent).await, READ_ATTRIBUTES);
    let opened = open(&mut peer, "shut\\theirs", READ_ATTRIBUTES | SYNCHRONIZE).await;
    assert_eq!(opened, Err(Status::ACCESS_DENIED));
}

#[tokio::test]
async fn what_tells_attributes_needs_the_right_to_see_them() {
    let (server, store) = realm();
    set_descriptor(&*store, "", &allowing(user(), WRITE_DATA));
    make(&*store, "file", Kind::File, &allowing(user(), SYNCHRONIZE));
    let mut peer = sign_in(&server, USER).await;
    let file = open(&mut peer, "file", SYNCHRONIZE).await.unwrap();
    for class in
        [FileClass::BASIC, FileClass::ALL, FileClass::NETWORK_OPEN, FileClass::ATTRIBUTE_TAG, FileClass::FULL_EA]
    {
        assert_eq!(peer.query(file, class, 500).await.status(), Status::ACCESS_DENIED, "{class:?}");
    }
    // MS-FSA 2.1.5.12 wants no right for these.
    for class in [FileClass::STANDARD, FileClass::STREAM, FileClass::INTERNAL, FileClass::ACCESS] {
        assert_eq!(peer.query(file, class, 500).await.status(), Status::SUCCESS, "{class:?}");
    }
}

/// The oplock or lease that an open of `path` to see attributes gets.
async fn cached_by_a_look(peer: &mut Peer, path: &str, level: OplockLevel) -> OplockLevel {
    let lease_state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING | LeaseState::WRITE_CACHING;
    let lease = Lease { lease_key: Guid([4; 16]), lease_state, ..Lease::default() };
    let mut contexts = CreateContextsBuilder::new();
    contexts.add(name::LEASE, &lease.to_bytes());
    let edit = |request: &mut CreateRequest<'_>| {
        request.desired_access = READ_ATTRIBUTES.into();
        request.disposition = CreateDisposition::OPEN;
        request.oplock_level = level;
    };
    let answer = peer.create_edited(path, contexts.contexts().as_bytes(), edit).await;
    let file = answer.opened().unwrap();
    peer.close(file).await;
    CreateResponse::decode(&answer.message).unwrap().oplock_level
}

#[tokio::test]
async fn who_may_not_use_the_data_makes_nobody_wait() {
    let (server, store) = realm();
    let mut peer = sign_in(&server, USER).await;
    for level in [OplockLevel::BATCH, OplockLevel::EXCLUSIVE, OplockLevel::II, OplockLevel::LEASE] {
        make(&*store, "theirs", Kind::File, &allowing(other(), FILE_ALL));
        make(
            &*store,
            "seen",
            Kind::File,
            &allowing(user(), FILE_ALL & !(READ_DATA | WRITE_DATA | APPEND_DATA | EXECUTE)),
        );
        make(&*store, "mine", Kind::File, &allowing(user(), EXECUTE | READ_ATTRIBUTES));
        for path in ["theirs", "seen"] {
            assert_eq!(cached_by_a_look(&mut peer, path, level).await, OplockLevel::NONE, "{path} {level:?}");
        }
        assert_eq!(cached_by_a_look(&mut peer, "mine", level).await, level);
        for path in ["theirs", "seen", "mine"] {
            let identity = node(&*store, path).identity();
            store.remove(&SharePath::parse(path).unwrap(), identity).unwrap();
        }
    }
}

#[tokio::test]
async fn who_may_not_write_keeps_nobody_from_reading() {
    let (server, store) = realm();
    make(&*store, "theirs", Kind::File, &allowing(user(), FILE_GENERIC_READ));
    make(&*store, "mine", Kind::File, &allowing(user(), FILE_GENERIC_READ | WRITE_DATA));
    let (mut peer, mut second) = (sign_in(&server, USER).await, sign_in(&server, USER).await);
    for (path, expected) in [("theirs", Status::SUCCESS), ("mine", Status::SHARING_VIOLATION)] {
        let alone = |request: &mut CreateRequest<'_>| {
            request.desired_access = READ_DATA.into();
            request.disposition = CreateDisposition::OPEN;
            request.share_access = wire::command::create::ShareAccess::NONE;
        };
        assert_eq!(peer.create_edited(path, &[], alone).await.status(), Status::SUCCESS);
        assert_eq!(open(&mut second, path, READ_DATA).await.err().unwrap_or_default(), expected, "{path}");
    }
}

#[tokio::test]
async fn who_may_change_nothing_in_a_directory_keeps_nobody_from_making_names_in_it() {
    let (server, store) = realm();
    let everything = |mask| {
        let aces = vec![Ace::allow(user(), mask, AceFlags::NONE), Ace::allow(other(), FILE_ALL, AceFlags::NONE)];
        descriptor(Sid::SYSTEM, aces).encode().unwrap()
    };
    let rights = [
        ("listed", FILE_GENERIC_READ, Status::SUCCESS),
        ("mine", FILE_GENERIC_READ | WRITE_DATA, Status::SHARING_VIOLATION),
        ("removed", FILE_GENERIC_READ | DELETE, Status::SHARING_VIOLATION),
    ];
    let (mut peer, mut second) = (sign_in(&server, USER).await, sign_in(&server, OTHER_USER).await);
    for (path, mask, expected) in rights {
        make(&*store, path, Kind::Directory, &everything(mask));
        make(&*store, &format!("{path}\\file"), Kind::File, &allowing(other(), FILE_ALL));
        let alone = |request: &mut CreateRequest<'_>| {
            request.desired_access = READ_DATA.into();
            request.disposition = CreateDisposition::OPEN;
            request.share_access = wire::command::create::ShareAccess::NONE;
        };
        assert_eq!(peer.create_edited(path, &[], alone).await.status(), Status::SUCCESS);
        assert_eq!(open(&mut second, path, WRITE_DATA).await.err().unwrap_or_default(), expected, "{path}");
        let file = open(&mut second, &format!("{path}\\file"), FILE_ALL).await.unwrap();
        assert_eq!(second.rename(file, &format!("{path}\\renamed")).await, expected, "{path}");
    }
}

#[tokio::test]
async fn who_keeps_nobody_from_reading_is_in_nobodys_way_after_the_server_was_killed_either() {
    let body = async {
        let (_, store) = realm();
        make(&*store, "theirs", Kind::File, &allowing(user(), FILE_GENERIC_READ));
        let folder = tempfile::tempdir().unwrap();
        let start = || {
            let server = server_with(Signing::Enabled, Arc::clone(&store));
            server.durables.keep_records(folder.path()).unwrap();
            restore(&server).unwrap();
            server
        };
        let contexts = |name: &[u8], data: Vec<u8>| {
            let mut builder = CreateContextsBuilder::new();
            builder.add(name, &data);
            builder.contexts().as_bytes().to_vec()
        };
        let alone = |request: &mut CreateRequest<'_>| {
            request.desired_access = READ_DATA.into();
            request.disposition = CreateDisposition::OPEN;
            request.share_access = wire::command::create::ShareAccess::NONE;
        };
        let capabilities = Terms::default().capabilities | Capabilities::PERSISTENT_HANDLES;
        let terms = Terms { capabilities, ..Terms::default() };
        let mut peer = Peer::sign_in_as(&start(), terms).await;
        let mut ids = Vec::new();
        for number in [1, 2] {
            let create_guid = Guid([number; 16]);
            let flags = DurableFlags::PERSISTENT;
            let asked = DurableRequestV2 { timeout_milliseconds: 0, flags, create_guid };
            let bytes = contexts(name::DURABLE_HANDLE_REQUEST_V2, asked.to_bytes());
            let answer = peer.create_edited("theirs", &bytes, alone).await;
            assert_eq!(answer.status(), Status::SUCCESS);
            ids.push((answer.file_id(), create_guid));
        }
        let mut peer = Peer::sign_in_as(&start(), terms).await;
        for (file_id, create_guid) in ids {
            let back = DurableReconnectV2 { file_id, create_guid, flags: DurableFlags::PERSISTENT };
            let bytes = contexts(name::DURABLE_HANDLE_RECONNECT_V2, back.to_bytes());
            assert_eq!(peer.create_edited("theirs", &bytes, alone).await.status(), Status::SUCCESS);
        }
    };
    tokio::task::LocalSet::new().run_until(body).await;
}

#[tokio::test]
async fn redundant_separators_are_passed_over() {
    let (server, _store) = realm();
    let mut peer = sign_in(&server, USER).await;
    let folder = peer.open_directory("folder").await;
    peer.close(folder).await;
    let file = peer.open("folder\\\\file").await;
    peer.close(file).await;
    for path in ["folder\\file", "folder\\\\\\file", ".\\folder\\\\file"] {
        open(&mut peer, path, READ_DATA).await.unwrap();
    }
    for path in ["folder\\", "folder\\\\"] {
        open(&mut peer, path, READ_DATA).await.unwrap();
    }
}

#[tokio::test]
async fn files_have_no_separator_behind_them_and_a_dot_is_no_name() {
    let (server, store) = realm();
    let mut peer = sign_in(&server, USER).await;
    let file = peer.open("file.txt").await;
    peer.close(file).await;
    let if_missing = CreateDisposition::OPEN_IF;
    for path in ["file.txt\\", "file.txt\\\\", "new.txt\\", "file.txt\\:s", "."] {
        let opened = open_as(&mut peer, path, READ_DATA, if_missing, CreateOptions::NONE).await;
        assert_eq!(opened, Err(Status::OBJECT_NAME_INVALID), "{path}");
    }
    let opened = open_as(&mut peer, "folder\\", READ_DATA, if_missing, CreateOptions::NON_DIRECTORY_FILE).await;
    assert_eq!(opened, Err(Status::OBJECT_NAME_INVALID));
    open_as(&mut peer, "folder\\", READ_DATA, if_missing, CreateOptions::DIRECTORY_FILE).await.unwrap();
    assert!(!exists(&*store, "new.txt"));
}

#[tokio::test]
async fn attributes_that_are_not_kept_are_passed_over() {
    let (server, store) = realm();
    let mut peer = sign_in(&server, USER).await;
    for (index, attribute) in [0x8000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x40_0000].into_iter().enumerate() {
        let path = format!("file{index}");
        let hidden = FileAttributes::HIDDEN.0;
        let answer = peer.create(&path, |request| request.file_attributes = attribute | hidden).await;
        assert_eq!(answer.status(), Status::SUCCESS, "{attribute:x}");
        assert_eq!(node(&*store, &path).metadata().unwrap().attributes, hidden | FileAttributes::ARCHIVE.0);
    }
}

#[tokio::test]
async fn who_knows_the_file_as_it_is_gets_no_maximal_access() {
    let (server, store) = realm();
    make(&*store, "file", Kind::File, &allowing(user(), READ_DATA));
    let mut peer = sign_in(&server, USER).await;
    let change = node(&*store, "file").metadata().unwrap().change.0;
    let lent = DELETE | READ_ATTRIBUTES;
    for (timestamp, expected) in [
        (change.to_le_bytes().to_vec(), (Status::NONE_MAPPED, 0)),
        ((change - 1).to_le_bytes().to_vec(), (Status::SUCCESS, READ_DATA | lent)),
        (Vec::new(), (Status::SUCCESS, READ_DATA | lent)),
    ] {
        let mut contexts = CreateContextsBuilder::new();
        contexts.add(name::QUERY_MAXIMAL_ACCESS, &timestamp);
        let answer = peer
            .create_edited("file", contexts.contexts().as_bytes(), |request| {
                request.desired_access = READ_DATA.into();
                request.disposition = CreateDisposition::OPEN;
            })
            .await;
        let response = CreateResponse::decode(&answer.message).unwrap();
        let data = response.contexts.find(name::QUERY_MAXIMAL_ACCESS).unwrap();
        let told =
            (u32::from_le_bytes(data[..4].try_into().unwrap()), u32::from_le_bytes(data[4..].try_into().unwrap()));
        assert_eq!((Status(told.0), told.1), expected);
    }
}
