//! What others are asked, and told, where a file is changed or deleted: nobody makes way for what is refused.

use std::sync::Arc;

use store::{AttributeChange, Changes, Node, RamStore, Resolved, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::command::create::{CreateDisposition, CreateOptions, CreateResponse, OplockLevel};
use wire::command::ioctl::{CtlCode, IoctlFlags, IoctlRequest};
use wire::command::negotiate::Capabilities;
use wire::context::create::{CreateContextsBuilder, name};
use wire::context::lease::{Lease, LeaseState, LeaseV2};
use wire::fscc::rename::{Rename, RenameFlags};
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Command, FileId, Guid};
use wire::security::access::{
    DELETE, DELETE_CHILD, FILE_ALL, FILE_GENERIC_READ, READ_ATTRIBUTES, READ_DATA, WRITE_ATTRIBUTES,
};
use wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, OTHER_USER, Peer, Terms, server_with};

/// A server, its store, and a client that caches.
struct Scene {
    store: Arc<dyn Store>,
    server: Arc<Shared>,
    keeper: Peer,
}

fn opened(answer: &Answer) -> FileId {
    answer.file_id()
}

fn ex(to: &str, flags: RenameFlags) -> Vec<u8> {
    let mut buffer = Vec::new();
    Rename::encode_ex(to, flags, &mut buffer);
    buffer
}

impl Scene {
    async fn new() -> Self {
        let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
        let server = server_with(Signing::Enabled, Arc::clone(&store));
        let capabilities = Terms::default().capabilities | Capabilities::LEASING | Capabilities::DIRECTORY_LEASING;
        let terms = Terms { client: Guid([3; 16]), capabilities, ..Terms::default() };
        let keeper = Peer::sign_in_as(&server, terms).await;
        Scene { store, server, keeper }
    }

    async fn other(&self) -> Peer {
        Peer::sign_in_as(&self.server, Terms { user: OTHER_USER, ..Terms::default() }).await
    }

    fn node(&self, path: &str) -> Arc<dyn Node> {
        match self.store.resolve(&SharePath::parse(path).unwrap(), Use::ReadWrite).unwrap() {
            Resolved::Found { node, .. } => node,
            Resolved::Missing { path, .. } => panic!("{path} is missing"),
        }
    }

    /// From now on everybody has this access.
    fn grant_all(&self, path: &str, access: u32) {
        let descriptor = SecurityDescriptor {
            control: Control::DACL_PRESENT,
            owner: Some(Sid::BUILTIN_ADMINISTRATORS),
            group: Some(Sid::BUILTIN_USERS),
            sacl: None,
            dacl: Some(Acl { aces: vec![Ace::allow(Sid::EVERYONE, access, AceFlags::NONE)] }),
        };
        self.node(path).extras().set_security(&descriptor.encode().unwrap()).unwrap();
    }

    /// The keeper opens it to read, and keeps what it read and the handle.
    async fn keep(&mut self, path: &str) {
        let lease_state = LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING;
        let lease = Lease { lease_key: Guid([5; 16]), lease_state, v2: Some(LeaseV2::default()), ..Lease::default() };
        let lease = lease.to_bytes();
        let mut builder = CreateContextsBuilder::new();
        builder.add(name::LEASE, &lease);
        let contexts = builder.contexts().as_bytes().to_vec();
        let answer = self
            .keeper
            .create_edited(path, &contexts, |request| {
                request.oplock_level = OplockLevel::LEASE;
                request.desired_access = READ_DATA.into();
            })
            .await;
        opened(&answer);
        assert_eq!(CreateResponse::decode(&answer.message).unwrap().oplock_level, OplockLevel::LEASE);
        assert!(!self.was_told());
    }

    /// True where the keeper was told of a break.
    fn was_told(&self) -> bool {
        !self.keeper.connection.mailbox.take().notifications.is_empty()
    }
}

#[tokio::test]
async fn nobody_makes_way_for_a_rename_that_is_refused() {
    let test = async {
        let mut scene = Scene::new().await;
        let mut peer = scene.other().await;
        let file = peer.open("file").await;
        opened(&scene.keeper.create("taken", |_| {}).await);
        scene.grant_all("", FILE_ALL & !DELETE_CHILD);
        scene.grant_all("taken", FILE_GENERIC_READ);
        scene.keep("taken").await;
        let replace = ex("taken", RenameFlags::REPLACE_IF_EXISTS);
        assert_eq!(peer.set(file, FileClass::RENAME_EX, &replace).await, Status::ACCESS_DENIED);
        assert_eq!(peer.set_name(file, FileClass::LINK, "taken", true).await, Status::ACCESS_DENIED);
        assert!(!scene.was_told());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn nobody_makes_way_for_a_link_that_is_refused() {
    let test = async {
        let mut scene = Scene::new().await;
        scene.keeper.open("kept").await;
        scene.keep("kept").await;
        let mut peer = scene.other().await;
        let looked = peer.create("kept", |request| request.desired_access = READ_ATTRIBUTES.into()).await;
        let status = peer.set_name(opened(&looked), FileClass::LINK, "nowhere\\link", false).await;
        assert_eq!(status, Status::OBJECT_PATH_NOT_FOUND);
        assert!(!scene.was_told());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_read_only_file_is_replaced_by_who_may_change_its_attributes() {
    let test = async {
        let mut scene = Scene::new().await;
        scene.keeper.open("taken").await;
        let mut peer = scene.other().await;
        let file = peer.open("file").await;
        let attributes = AttributeChange::setting(FileAttributes::READONLY.0);
        scene.node("taken").change(&Changes { attributes, ..Changes::default() }).unwrap();
        let flags =
            RenameFlags::REPLACE_IF_EXISTS | RenameFlags::IGNORE_READONLY_ATTRIBUTE | RenameFlags::POSIX_SEMANTICS;
        for (access, expected) in [(DELETE, Status::ACCESS_DENIED), (DELETE | WRITE_ATTRIBUTES, Status::SUCCESS)] {
            scene.grant_all("taken", access);
            assert_eq!(peer.set(file, FileClass::RENAME_EX, &ex("taken", flags)).await, expected);
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_shares_root_is_neither_deleted_nor_renamed_and_nobody_makes_way_for_that() {
    let test = async {
        let mut scene = Scene::new().await;
        scene.keeper.open("kept").await;
        scene.keep("kept").await;
        let mut peer = scene.other().await;
        let directory = CreateOptions::DIRECTORY_FILE;
        let answer = peer.create("", |request| request.options = directory | CreateOptions::DELETE_ON_CLOSE).await;
        assert_eq!(answer.status(), Status::CANNOT_DELETE);
        let root = peer.open_directory("").await;
        assert_eq!(peer.set(root, FileClass::DISPOSITION, &[1]).await, Status::CANNOT_DELETE);
        let renamed = peer.set(root, FileClass::RENAME_EX, &ex("new", RenameFlags::NONE)).await;
        assert_eq!(renamed, Status::ACCESS_DENIED);
        peer.close(root).await;
        opened(&peer.create("", |request| request.options = directory).await);
        assert!(!scene.was_told());
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn who_caches_a_listing_is_told_of_every_change_of_what_it_shows() {
    let test = async {
        for change in ["overwrite", "supersede", "close of what was overwritten", "attribute", "sparse"] {
            let mut scene = Scene::new().await;
            let mut peer = scene.other().await;
            let file = peer.open("file").await;
            let overwrite = |disposition| {
                move |request: &mut wire::command::create::CreateRequest<'_>| {
                    request.disposition = disposition;
                }
            };
            if change != "close of what was overwritten" {
                scene.keep("").await;
            }
            match change {
                "overwrite" => {
                    opened(&peer.create("file", overwrite(CreateDisposition::OVERWRITE)).await);
                }
                "supersede" => {
                    opened(&peer.create("file", overwrite(CreateDisposition::SUPERSEDE)).await);
                }
                "attribute" => {
                    let buffer = [&[0, 0, 0, 0, 0, 1, 1, 0][..], b"a\0v"].concat();
                    assert_eq!(peer.set(file, FileClass::FULL_EA, &buffer).await, Status::SUCCESS);
                }
                "sparse" => {
                    let request = IoctlRequest {
                        ctl_code: CtlCode::SET_SPARSE,
                        file_id: file,
                        flags: IoctlFlags::IS_FSCTL,
                        ..Default::default()
                    };
                    let answer = peer.ask(Command::IOCTL, |body| request.encode(body)).await;
                    assert_eq!(answer.status(), Status::SUCCESS);
                }
                _ => {
                    let file = opened(&peer.create("file", overwrite(CreateDisposition::OVERWRITE)).await);
                    scene.keep("").await;
                    peer.close(file).await;
                }
            }
            assert!(scene.was_told(), "{change}");
        }
    };
    LocalSet::new().run_until(test).await;
}
