//! Whose files are on this machine: a user's own owner where there is one, else the share's.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;

use rustix::process::{getegid, geteuid};
use store::{DirectoryOptions, DirectoryStore, UnixOwner};
use tempfile::TempDir;
use tokio::task::LocalSet;
use wire::command::create::{CreateDisposition, CreateOptions};
use wire::command::ioctl::CtlCode;
use wire::fscc::ioctl::encode_symlink;
use wire::status::Status;

use crate::admin::Admin;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{OTHER_USER, Peer, Terms, server_with};

/// Numbers that nobody has.
const OF_USER: UnixOwner = UnixOwner { uid: 54_321, gid: 54_322 };
const OF_SHARE: UnixOwner = UnixOwner { uid: 12_345, gid: 12_346 };

/// A server whose share gives all that is made to `owner`.
fn server(owner: Option<UnixOwner>) -> (TempDir, Arc<Shared>) {
    let folder = tempfile::tempdir().unwrap();
    let store = DirectoryStore::open(folder.path(), DirectoryOptions { owner, ..Default::default() }).unwrap();
    let server = server_with(Signing::Enabled, Arc::new(store));
    (folder, server)
}

/// What the first user makes is this one's.
fn map(server: &Arc<Shared>, owner: Option<UnixOwner>) {
    let mut configuration = (**server.configuration.load()).clone();
    configuration.principals[0].unix_owner = owner;
    server.replace(configuration);
}

async fn make(peer: &mut Peer, name: &str, options: CreateOptions) -> Status {
    let made = peer.create(name, |request| {
        request.disposition = CreateDisposition::CREATE;
        request.options = options;
    });
    made.await.status()
}

#[tokio::test]
async fn what_a_user_makes_is_its_owners_at_once_and_what_others_make_the_shares() {
    let all = async {
        // Who is not root gives files to itself alone.
        let itself = UnixOwner { uid: geteuid().as_raw(), gid: getegid().as_raw() };
        let (of_user, of_share) = if geteuid().is_root() { (OF_USER, Some(OF_SHARE)) } else { (itself, None) };
        let (folder, server) = server(of_share);
        let owner = |name: &str| {
            let found = fs::metadata(folder.path().join(name)).unwrap();
            (UnixOwner { uid: found.uid(), gid: found.gid() }, found.permissions().mode() & 0o7777)
        };
        let mut peer = Peer::sign_in(&server).await;
        let mut other = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
        map(&server, Some(of_user));
        assert_eq!(make(&mut peer, "file", CreateOptions::NON_DIRECTORY_FILE).await, Status::SUCCESS);
        assert_eq!(make(&mut peer, "folder", CreateOptions::DIRECTORY_FILE).await, Status::SUCCESS);
        assert_eq!(make(&mut other, "others", CreateOptions::NON_DIRECTORY_FILE).await, Status::SUCCESS);
        assert_eq!((owner("file"), owner("folder")), ((of_user, 0o600), (of_user, 0o700)));
        assert_eq!(owner("others"), (of_share.unwrap_or(itself), 0o600));
        // So are links, and files that are made of links.
        let link = peer.open("link").await;
        let mut point = Vec::new();
        assert!(encode_symlink("x", "x", 1, &mut point));
        let none = [&point[..4], &[0; 4]].concat();
        for (code, input, is_link) in [
            (CtlCode::SET_REPARSE_POINT, &point, true),
            (CtlCode::SET_REPARSE_POINT, &point, true),
            (CtlCode::DELETE_REPARSE_POINT, &none, false),
        ] {
            assert_eq!(peer.ioctl(code, link, input, 0).await.status(), Status::SUCCESS);
            let found = fs::symlink_metadata(folder.path().join("link")).unwrap();
            assert_eq!((UnixOwner { uid: found.uid(), gid: found.gid() }, found.is_symlink()), (of_user, is_link));
        }
        map(&server, None);
        assert_eq!(make(&mut peer, "later", CreateOptions::NON_DIRECTORY_FILE).await, Status::SUCCESS);
        assert_eq!(owner("later").0, of_share.unwrap_or(itself));
    };
    LocalSet::new().run_until(all).await;
}

#[tokio::test]
async fn where_nothing_may_be_given_away_nothing_is_made() {
    let all = async {
        let (folder, server) = server(None);
        let mut peer = Peer::sign_in(&server).await;
        map(&server, Some(OF_USER));
        // Whoever may write there could put something else in the place of what the server keeps.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        for options in [CreateOptions::NON_DIRECTORY_FILE, CreateOptions::DIRECTORY_FILE] {
            assert_eq!(make(&mut peer, "one", options).await, Status::ACCESS_DENIED);
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let status = if geteuid().is_root() { Status::SUCCESS } else { Status::ACCESS_DENIED };
        assert_eq!(make(&mut peer, "one", CreateOptions::NON_DIRECTORY_FILE).await, status);
        assert_eq!(folder.path().join("one").exists(), geteuid().is_root());
    };
    LocalSet::new().run_until(all).await;
}
