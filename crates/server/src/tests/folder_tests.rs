//! Shares over folders: several over one folder or over folders that lie in each other, and what other programs do to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use store::{DirectoryStore, Kind, NewNode, Resolved, SharePath, Store, Use};
use tempfile::TempDir;
use wire::command::create::{CreateAction, CreateDisposition, CreateOptions, CreateResponse};
use wire::ids::FileId;
use wire::status::Status;

use crate::state::configuration::{Share, Signing};
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, server_with};

fn store(folder: &Path) -> Arc<dyn Store> {
    Arc::new(DirectoryStore::open(folder, Default::default()).unwrap())
}

/// A server with the share `ram` on a folder, `again` on the same, and `inner` on the folder `d` in it.
fn server() -> (TempDir, Arc<Shared>) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    let server = server_with(Signing::Enabled, store(folder.path()));
    let mut configuration = (**server.configuration.load()).clone();
    for (name, below) in [("again", ""), ("inner", "d")] {
        let share =
            Share { name: name.into(), store: store(&folder.path().join(below)), ..configuration.shares[0].clone() };
        configuration.shares.push(share);
    }
    server.configuration.store(Arc::new(configuration));
    (folder, server)
}

async fn client(server: &Arc<Shared>, share: &str) -> Peer {
    let mut peer = Peer::sign_in(server).await;
    assert_eq!(peer.connect(share).await, Status::SUCCESS);
    peer
}

async fn open_to_delete(peer: &mut Peer, name: &str) -> FileId {
    let answer = peer.create(name, |request| request.options = CreateOptions::DELETE_ON_CLOSE).await;
    answer.file_id()
}

async fn here(test: impl Future<Output = ()>) {
    tokio::task::LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_directory_with_opens_below_through_any_share_stays_where_it_is() {
    here(async {
        let (_folder, server) = server();
        let mut mover = client(&server, "ram").await;
        let directory = mover.open_directory("d").await;
        for (share, name) in
            [("again", "d\\file"), ("inner", "file"), ("again", "d\\sub\\file"), ("inner", "sub\\file")]
        {
            let mut other = client(&server, share).await;
            if name.contains("sub") {
                let sub = other.open_directory(name.strip_suffix("\\file").unwrap()).await;
                other.close(sub).await;
            }
            let file = other.open(name).await;
            assert_eq!(mover.rename(directory, "e").await, Status::ACCESS_DENIED, "{share} {name}");
            other.close(file).await;
        }
        assert_eq!(mover.rename(directory, "e").await, Status::SUCCESS);
    })
    .await;
}

#[tokio::test]
async fn a_file_goes_with_its_close_wherever_another_share_has_moved_it() {
    here(async {
        let (folder, server) = server();
        let mut mover = client(&server, "ram").await;
        let moves = [
            ("again", "d\\one", "d\\one", "moved"),
            ("inner", "two", "d\\two", "d\\moved"),
            ("inner", "three", "d\\three", "out"),
        ];
        for (share, name, from, to) in moves {
            let mut other = client(&server, share).await;
            let doomed = open_to_delete(&mut other, name).await;
            let file = mover.open(from).await;
            assert_eq!(mover.rename(file, to).await, Status::SUCCESS);
            mover.close(file).await;
            other.close(doomed).await;
            assert!(!folder.path().join(to.replace('\\', "/")).exists(), "{share}: {name}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_open_renames_its_file_wherever_another_share_has_moved_it() {
    here(async {
        let (folder, server) = server();
        let mut mover = client(&server, "ram").await;
        for (share, name, from, moved, to) in [
            ("again", "one", "one", "d\\one", "first"),
            ("inner", "two", "d\\two", "d\\moved", "second"),
            ("inner", "three", "d\\three", "out", "third"),
        ] {
            let mut other = client(&server, share).await;
            let held = other.open(name).await;
            let file = mover.open(from).await;
            assert_eq!(mover.rename(file, moved).await, Status::SUCCESS);
            mover.close(file).await;
            assert_eq!(other.rename(held, to).await, Status::SUCCESS, "{share}: {name}");
            other.close(held).await;
            let at = if share == "inner" { folder.path().join("d").join(to) } else { folder.path().join(to) };
            assert!(at.exists(), "{share}: {name}");
        }
    })
    .await;
}

#[tokio::test]
async fn what_another_program_has_moved_is_found_and_deleted() {
    here(async {
        let (folder, server) = server();
        let mut peer = client(&server, "ram").await;
        let file = open_to_delete(&mut peer, "d\\file").await;
        fs::rename(folder.path().join("d"), folder.path().join("e")).unwrap();
        peer.close(file).await;
        assert!(!folder.path().join("e/file").exists());
    })
    .await;
}

#[tokio::test]
async fn a_close_that_cannot_delete_says_so_and_the_file_can_be_had_again() {
    here(async {
        let (folder, server) = server();
        let mut peer = client(&server, "ram").await;
        let file = open_to_delete(&mut peer, "d\\file").await;
        let sealed = || std::process::Command::new("chattr").arg("+a").arg(folder.path().join("d")).output();
        if !sealed().is_ok_and(|output| output.status.success()) {
            return;
        }
        let closed = peer.try_close(file).await;
        std::process::Command::new("chattr").arg("-a").arg(folder.path().join("d")).output().unwrap();
        assert_eq!(closed, Status::ACCESS_DENIED);
        let again = open_to_delete(&mut peer, "d\\file").await;
        peer.close(again).await;
        assert!(!folder.path().join("d/file").exists());
    })
    .await;
}

const OVERWRITES: [CreateDisposition; 3] =
    [CreateDisposition::OVERWRITE, CreateDisposition::OVERWRITE_IF, CreateDisposition::SUPERSEDE];

/// Makes a file with a stream that is a file in the reserved folder, and says which.
fn file_with_long_stream(folder: &Path) -> PathBuf {
    let node = store(folder).create(&SharePath::parse("file").unwrap(), new_file()).unwrap();
    node.extras().create_stream("long").unwrap().write_at(&[1; 70_000], 0).unwrap();
    let found = fs::read_dir(folder.join(".multilane")).unwrap().map(|entry| entry.unwrap().path());
    found.into_iter().find(|path| path.is_file() && !path.ends_with("lock")).unwrap()
}

fn new_file() -> NewNode<'static> {
    NewNode { kind: Kind::File, attributes: 0, security: None, owner: None }
}

fn streams(folder: &Path) -> Vec<String> {
    let path = SharePath::parse("file").unwrap();
    let Ok(Resolved::Found { node, .. }) = store(folder).resolve(&path, Use::Metadata) else { panic!("it is there") };
    node.extras().streams().unwrap().into_iter().map(|stream| stream.name).collect()
}

async fn create(peer: &mut Peer, name: &str, disposition: CreateDisposition) -> Result<CreateAction, Status> {
    let answer = peer.create(name, |request| request.disposition = disposition).await;
    if answer.status() != Status::SUCCESS {
        return Err(answer.status());
    }
    let created = CreateResponse::decode(&answer.message).unwrap();
    peer.close(created.file_id).await;
    Ok(created.create_action)
}

#[tokio::test]
async fn a_file_that_is_emptied_loses_streams_that_cannot_be_opened_or_are_lost() {
    here(async {
        for disposition in OVERWRITES {
            for is_there in [true, false] {
                let (folder, server) = server();
                let mut peer = client(&server, "ram").await;
                let (side, aside) = (file_with_long_stream(folder.path()), folder.path().join("aside"));
                fs::rename(&side, &aside).unwrap();
                if is_there {
                    // That may not be followed.
                    std::os::unix::fs::symlink(&aside, &side).unwrap();
                }
                create(&mut peer, "file", disposition).await.unwrap();
                fs::rename(&aside, &side).unwrap();
                assert!(streams(folder.path()).is_empty(), "{disposition:?} {is_there}");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_name_of_a_stream_that_is_lost_can_be_had_again() {
    let makes = [CreateDisposition::CREATE, CreateDisposition::OPEN_IF, CreateDisposition::OVERWRITE_IF];
    here(async {
        for disposition in makes.into_iter().chain([CreateDisposition::SUPERSEDE]) {
            let (folder, server) = server();
            let mut peer = client(&server, "ram").await;
            fs::remove_file(file_with_long_stream(folder.path())).unwrap();
            let opened = create(&mut peer, "file:long", CreateDisposition::OPEN).await;
            assert_eq!(opened, Err(Status::OBJECT_NAME_NOT_FOUND));
            assert_eq!(create(&mut peer, "file:long", disposition).await, Ok(CreateAction::CREATED), "{disposition:?}");
            assert_eq!(streams(folder.path()), ["long"]);
        }
    })
    .await;
}
