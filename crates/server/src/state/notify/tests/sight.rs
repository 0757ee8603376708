//! Whose changes a watch on a tree tells to whom.

use wire::security::access::{FILE_ALL, READ_DATA};
use wire::security::{Ace, AceFlags, Acl, Control, Sid};

use super::*;
use crate::tests::testing::{OTHER_USER, Terms};

const TREE: Asked = Asked { reach: Reach::Tree, ..NAMES };

/// A server, another user who watches all of its share, and the tester, who makes what there is.
async fn two(access_based: bool) -> ((Peer, FileId), Peer) {
    let server = server(Signing::Enabled);
    let mut configuration = (**server.configuration.load()).clone();
    configuration.shares[0].access_based = access_based;
    server.configuration.store(configuration.into());
    let mut watcher = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
    let root = to_watch(&mut watcher, "").await;
    ((watcher, root), Peer::sign_in(&server).await)
}

/// The tester's own SID.
fn tester() -> Sid {
    Sid::new(5, &[21, 1, 2, 3, 1001]).unwrap()
}

/// Grants `access` to everybody, and all to the tester alone.
async fn grant(peer: &mut Peer, name: &str, access: u32) {
    let inherited = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let mut aces = vec![Ace::allow(tester(), FILE_ALL, inherited)];
    if access != 0 {
        aces.push(Ace::allow(Sid::EVERYONE, access, inherited));
    }
    let descriptor = SecurityDescriptor {
        control: Control::DACL_PRESENT | Control::DACL_PROTECTED,
        dacl: Some(Acl { aces }),
        ..SecurityDescriptor::default()
    };
    let answer = peer.create(name, |request| request.disposition = CreateDisposition::OPEN).await;
    let file = answer.file_id();
    let request = SetInfoRequest {
        info_type: InfoType::SECURITY,
        file_id: file,
        additional_information: SecurityInformation::DACL.0,
        buffer: &descriptor.encode().unwrap(),
        ..SetInfoRequest::default()
    };
    assert_eq!(peer.ask(Command::SET_INFO, |body| request.encode(body)).await.status(), Status::SUCCESS);
    peer.close(file).await;
}

/// Makes a directory that nobody but the tester may list.
async fn make_private(peer: &mut Peer, name: &str) {
    make_directory(peer, name).await;
    grant(peer, name, 0).await;
}

/// What the watcher is told of names after what it has not heard of yet, until `last` is made.
async fn names_until(watcher: &mut Peer, root: FileId, last: &str) -> Option<Vec<(Action, String)>> {
    let mut names = Vec::new();
    loop {
        let mut answer = ask(watcher, root, TREE).await;
        if answer.status() == Status::PENDING {
            answer = watcher.receive().await;
        }
        if answer.status() == Status::NOTIFY_ENUM_DIR {
            return None;
        }
        names.extend(told(&answer));
        if let Some(end) = names.iter().position(|change| *change == (Action::ADDED, last.to_owned())) {
            names.truncate(end);
            return Some(names);
        }
    }
}

#[tokio::test]
async fn what_changes_in_a_directory_is_told_to_who_may_list_it() {
    here(async {
        for access_based in [false, true] {
            let ((mut watcher, root), mut actor) = two(access_based).await;
            make_private(&mut actor, "priv").await;
            make_directory(&mut actor, "open").await;
            wait(&mut watcher, root, TREE).await;
            for name in ["priv\\secret", "priv\\below", "priv\\below\\secret", "open\\file"] {
                if name.ends_with("below") {
                    make_directory(&mut actor, name).await
                } else {
                    make(&mut actor, name).await
                }
            }
            rename(&mut actor, "priv\\secret", "priv\\merger", false).await;
            remove(&mut actor, "priv\\merger").await;
            assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "open\\file"), "{access_based}");
            // A stream's name is one of its file's.
            make(&mut actor, "priv\\x:stream").await;
            make(&mut actor, "last").await;
            assert_eq!(names_until(&mut watcher, root, "last").await, Some(vec![]), "{access_based}");
        }
    })
    .await;
}

#[tokio::test]
async fn who_may_list_a_directory_below_one_that_may_not_be_listed_is_told_nothing_of_it() {
    here(async {
        let ((mut watcher, root), mut actor) = two(false).await;
        make_private(&mut actor, "priv").await;
        make_directory(&mut actor, "priv\\open").await;
        grant(&mut actor, "priv\\open", READ_DATA).await;
        wait(&mut watcher, root, TREE).await;
        make(&mut actor, "priv\\open\\file").await;
        make(&mut actor, "last").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "last"));
    })
    .await;
}

#[tokio::test]
async fn what_changes_in_a_directory_without_a_descriptor_is_told_to_whom_the_one_above_lets_list_it() {
    here(async {
        let store: Arc<dyn Store> = Arc::new(store::RamStore::new(64 << 20));
        let server = crate::tests::testing::server_with(Signing::Enabled, Arc::clone(&store));
        let mut watcher = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
        let root = to_watch(&mut watcher, "").await;
        let mut actor = Peer::sign_in(&server).await;
        make_private(&mut actor, "priv").await;
        // Another program makes them.
        for name in ["priv\\below", "open"] {
            let new = store::NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None };
            store.create(&SharePath::parse(name).unwrap(), new).unwrap();
        }
        wait(&mut watcher, root, TREE).await;
        make(&mut actor, "priv\\below\\secret").await;
        remove(&mut actor, "priv\\below\\secret").await;
        remove(&mut actor, "priv\\below").await;
        make(&mut actor, "open\\file").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "open\\file"));
    })
    .await;
}

#[tokio::test]
async fn directories_that_have_gone_are_judged_by_what_they_were() {
    here(async {
        let ((mut watcher, root), mut actor) = two(false).await;
        make_private(&mut actor, "priv").await;
        make_directory(&mut actor, "open").await;
        make_directory(&mut actor, "open\\below").await;
        wait(&mut watcher, root, TREE).await;
        make(&mut actor, "first").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "first"));
        for name in ["priv\\secret", "open\\below\\file"] {
            make(&mut actor, name).await;
            remove(&mut actor, name).await;
        }
        remove(&mut actor, "open\\below").await;
        remove(&mut actor, "open").await;
        remove(&mut actor, "priv").await;
        make(&mut actor, "last").await;
        let names = names_until(&mut watcher, root, "last").await;
        let expected = [
            (Action::ADDED, "open\\below\\file"),
            (Action::REMOVED, "open\\below\\file"),
            (Action::REMOVED, "open\\below"),
            (Action::REMOVED, "open"),
            (Action::REMOVED, "priv"),
        ];
        assert_eq!(names, Some(expected.map(|(action, name)| (action, name.to_owned())).to_vec()));
        // Another one by the name of a private one that has gone says nothing of what was in that.
        make_private(&mut actor, "priv").await;
        make(&mut actor, "priv\\secret").await;
        remove(&mut actor, "priv\\secret").await;
        remove(&mut actor, "priv").await;
        make_directory(&mut actor, "priv").await;
        make(&mut actor, "last2").await;
        assert_eq!(names_until(&mut watcher, root, "last2").await, None, "it is to be listed anew");
        // One that moves is judged by what it is, too.
        make_private(&mut actor, "moves").await;
        make(&mut actor, "moves\\secret").await;
        assert_eq!(rename(&mut actor, "moves", "moved", false).await, Status::SUCCESS);
        make(&mut actor, "last3").await;
        let moved =
            [(Action::ADDED, "moves"), (Action::RENAMED_OLD_NAME, "moves"), (Action::RENAMED_NEW_NAME, "moved")];
        let names = names_until(&mut watcher, root, "last3").await;
        assert_eq!(names, Some(moved.map(|(action, name)| (action, name.to_owned())).to_vec()));
    })
    .await;
}

#[tokio::test]
async fn what_changed_below_a_directory_that_was_renamed_is_not_judged_by_one_that_took_its_name() {
    here(async {
        let ((mut watcher, root), mut actor) = two(false).await;
        make_directory(&mut actor, "d").await;
        make_private(&mut actor, "d\\secret").await;
        wait(&mut watcher, root, TREE).await;
        make(&mut actor, "first").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "first"));
        make(&mut actor, "d\\secret\\merger").await;
        assert_eq!(rename(&mut actor, "d", "old", false).await, Status::SUCCESS);
        make_directory(&mut actor, "d").await;
        make_directory(&mut actor, "d\\secret").await;
        make(&mut actor, "last").await;
        assert_eq!(names_until(&mut watcher, root, "last").await, None, "it is to be listed anew");
    })
    .await;
}

#[tokio::test]
async fn on_a_share_that_lists_by_access_what_may_not_be_read_is_not_told() {
    here(async {
        let ((mut watcher, root), mut actor) = two(true).await;
        make(&mut actor, "shut").await;
        grant(&mut actor, "shut", 0).await;
        make(&mut actor, "open").await;
        wait(&mut watcher, root, NAMES).await;
        make(&mut actor, "first").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "first"));
        assert_eq!(rename(&mut actor, "shut", "shut2", false).await, Status::SUCCESS);
        assert_eq!(rename(&mut actor, "open", "open2", false).await, Status::SUCCESS);
        remove(&mut actor, "shut2").await;
        remove(&mut actor, "open2").await;
        make(&mut actor, "last").await;
        let names =
            [(Action::RENAMED_OLD_NAME, "open"), (Action::RENAMED_NEW_NAME, "open2"), (Action::REMOVED, "open2")];
        let told = names_until(&mut watcher, root, "last").await;
        assert_eq!(told, Some(names.map(|(action, name)| (action, name.to_owned())).to_vec()));
    })
    .await;
}

#[tokio::test]
async fn requests_are_answered_in_their_order_while_what_they_are_told_is_judged() {
    here(async {
        let ((mut watcher, root), mut actor) = two(true).await;
        make(&mut actor, "shut").await;
        grant(&mut actor, "shut", 0).await;
        for round in 0..50 {
            for _ in 0..2 {
                wait(&mut watcher, root, NAMES).await;
            }
            let (first, second) = (format!("first{round}"), format!("second{round}"));
            // The watcher may see nothing of it.
            let (from, to) = if round % 2 == 0 { ("shut", "closed") } else { ("closed", "shut") };
            assert_eq!(rename(&mut actor, from, to, false).await, Status::SUCCESS);
            make(&mut actor, &first).await;
            make(&mut actor, &second).await;
            let mut names = Vec::new();
            while names.len() < 2 {
                names.extend(told(&watcher.receive().await).into_iter().map(|(_, name)| name));
            }
            assert_eq!(names, [first, second], "round {round}");
        }
    })
    .await;
}
