//! What is judged is what is changed, whoever moves directories between the two.

use std::sync::Arc;

use parking_lot::Mutex;
use store::{Error, Facts, Kind, NewNode, Node, RamStore, Replace, Resolved, SharePath, Space, Store, Use};
use wire::command::create::{CreateDisposition, CreateOptions};
use wire::fscc::FileClass;
use wire::security::access::{DELETE, FILE_ALL, MAXIMUM_ALLOWED};
use wire::security::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, server_with};

/// A RAM disk where a path that was looked up stands elsewhere as soon as it was: what stands at "evil" and "good" changes places.
struct Swapping {
    disk: RamStore,
    /// The lookup after which they do, once.
    after: Mutex<Option<SharePath>>,
}

fn path(text: &str) -> SharePath {
    SharePath::parse(text).unwrap()
}

impl Swapping {
    fn node(&self, text: &str) -> Arc<dyn Node> {
        match self.disk.resolve(&path(text), Use::Metadata).unwrap() {
            Resolved::Found { node, .. } => node,
            Resolved::Missing { .. } => panic!("{text} is missing"),
        }
    }

    fn has(&self, text: &str) -> bool {
        matches!(self.disk.resolve(&path(text), Use::Metadata), Ok(Resolved::Found { .. }))
    }

    fn make(&self, text: &str, kind: Kind, who: Sid, mask: u32) {
        let descriptor = SecurityDescriptor {
            control: Control::DACL_PRESENT,
            owner: Some(Sid::SYSTEM),
            dacl: Some(Acl { aces: vec![Ace::allow(who, mask, AceFlags::NONE)] }),
            ..SecurityDescriptor::default()
        };
        let security = descriptor.encode();
        self.disk
            .create(&path(text), NewNode { kind, attributes: 0, security: security.as_deref(), owner: None })
            .unwrap();
    }

    fn swap_after(&self, text: &str) {
        *self.after.lock() = Some(path(text));
    }

    fn swap(&self) {
        for (from, to) in [("evil", "aside"), ("good", "evil"), ("aside", "good")] {
            self.disk.rename(&path(from), &path(to), self.node(from).identity(), Replace::No).unwrap();
        }
    }
}

impl Store for Swapping {
    fn facts(&self) -> Facts {
        self.disk.facts()
    }

    fn space(&self) -> Result<Space, Error> {
        self.disk.space()
    }

    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        let found = self.disk.resolve(path, usage);
        if self.after.lock().take_if(|after| after == path).is_some() {
            self.swap();
        }
        found
    }

    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.resolve(path, usage)
    }
}

fn user() -> Sid {
    Sid::new(5, &[21, 1, 2, 3, 1001]).unwrap()
}

/// The user may do everything in "evil", and nothing in "good".
async fn served() -> (Arc<Shared>, Arc<Swapping>, Peer) {
    let store = Arc::new(Swapping { disk: RamStore::new(64 << 20), after: Mutex::new(None) });
    store.make("evil", Kind::Directory, user(), FILE_ALL);
    let other = Sid::new(5, &[21, 1, 2, 3, 1002]).unwrap();
    store.make("good", Kind::Directory, other, FILE_ALL);
    store.make("good\\precious", Kind::File, other, FILE_ALL);
    store.make("file", Kind::File, user(), FILE_ALL);
    let server = server_with(Signing::Enabled, Arc::clone(&store) as Arc<dyn Store>);
    let peer = Peer::sign_in(&server).await;
    (server, store, peer)
}

/// Gives a file the name `to`, in the place of its own or besides it.
async fn name(peer: &mut Peer, class: FileClass, to: &str, replace: bool) -> Status {
    let file = peer.open("file").await;
    let status = peer.set_name(file, class, to, replace).await;
    peer.close(file).await;
    status
}

#[tokio::test]
async fn a_file_is_made_in_the_directory_that_was_judged() {
    let (_server, store, mut peer) = served().await;
    store.swap_after("evil\\new");
    let file = peer.open("evil\\new").await;
    // "good" and "evil" have changed places.
    assert!(store.has("good\\new") && !store.has("evil\\new"));
    peer.close(file).await;
}

#[tokio::test]
async fn a_file_is_renamed_into_the_directory_that_was_judged() {
    let (_server, store, mut peer) = served().await;
    store.swap_after("evil");
    assert_eq!(name(&mut peer, FileClass::RENAME, "evil\\moved", false).await, Status::SUCCESS);
    assert!(store.has("good\\moved") && !store.has("evil\\moved"));
}

#[tokio::test]
async fn a_file_is_linked_into_the_directory_that_was_judged() {
    let (_server, store, mut peer) = served().await;
    store.swap_after("evil");
    assert_eq!(name(&mut peer, FileClass::LINK, "evil\\link", false).await, Status::SUCCESS);
    assert!(store.has("good\\link") && !store.has("evil\\link"));
}

#[tokio::test]
async fn a_file_is_replaced_in_the_directory_that_was_judged() {
    for class in [FileClass::RENAME, FileClass::LINK] {
        let (_server, store, mut peer) = served().await;
        store.make("evil\\precious", Kind::File, user(), FILE_ALL);
        let precious = store.node("good\\precious").identity();
        store.swap_after("evil");
        assert_eq!(name(&mut peer, class, "evil\\precious", true).await, Status::SUCCESS);
        assert_eq!(store.node("evil\\precious").identity(), precious, "it is where it was, in what is called evil now");
    }
}

#[tokio::test]
async fn the_directory_that_has_a_file_lends_rights_and_no_other() {
    let (_server, store, mut peer) = served().await;
    for desired in [DELETE, MAXIMUM_ALLOWED | DELETE] {
        // It is found in what is called "good", whose place the user's own directory takes then.
        store.swap_after("good\\precious");
        let opened = peer
            .create_edited("good\\precious", &[], |request| {
                request.desired_access = desired.into();
                request.disposition = CreateDisposition::OPEN;
                request.options = CreateOptions::DELETE_ON_CLOSE;
            })
            .await;
        assert_eq!(opened.status(), Status::OBJECT_NAME_NOT_FOUND);
        store.swap();
    }
    assert!(store.has("good\\precious"));
}
