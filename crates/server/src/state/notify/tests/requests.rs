//! How requests wait, are answered, and end.

use wire::command::close::CloseRequest;

use super::*;
use crate::state::configuration::Share;
use crate::state::notify::name::SharedName;

#[tokio::test]
async fn requests_are_answered_in_their_order() {
    here(async {
        let (_server, (mut watcher, root), mut actor) = three().await;
        let first = wait(&mut watcher, root, NAMES).await;
        let second = wait(&mut watcher, root, NAMES).await;
        make(&mut actor, "one").await;
        make(&mut actor, "two").await;
        let mut answers = [watcher.receive().await, watcher.receive().await];
        answers.sort_by_key(|answer| answer.header.message_id);
        assert_eq!(answers[0].header.route, first.route);
        assert_eq!(told(&answers[0]), one(Action::ADDED, "one"));
        assert_eq!(answers[1].header.route, second.route);
        assert_eq!(told(&answers[1]), one(Action::ADDED, "two"));
    })
    .await;
}

#[tokio::test]
async fn the_first_request_says_what_is_watched() {
    here(async {
        let (_server, (mut watcher, root), mut actor) = three().await;
        wait(&mut watcher, root, NAMES).await;
        let later = Asked { filter: Filter::ATTRIBUTES, reach: Reach::Tree, room: ROOM };
        wait(&mut watcher, root, later).await;
        make(&mut actor, "one").await;
        make_directory(&mut actor, "two").await;
        let mut answers = [watcher.receive().await, watcher.receive().await].map(|answer| told(&answer)).concat();
        answers.sort();
        assert_eq!(answers, [(Action::ADDED, "one".to_owned()), (Action::ADDED, "two".to_owned())]);
    })
    .await;
}

#[tokio::test]
async fn what_does_not_fit_is_to_be_listed_anew() {
    here(async {
        let (_server, (mut watcher, root), mut actor) = three().await;
        let narrow = Asked { room: 16, ..NAMES };
        wait(&mut watcher, root, narrow).await;
        make(&mut actor, "a-long-name").await;
        assert_eq!(watcher.receive().await.status(), Status::NOTIFY_ENUM_DIR);
        make(&mut actor, "x").await;
        assert_eq!(told(&ask(&mut watcher, root, NAMES).await), one(Action::ADDED, "x"));
        make(&mut actor, "y").await;
        make(&mut actor, "z").await;
        let answer = ask(&mut watcher, root, NAMES).await;
        assert_eq!(answer.status(), Status::NOTIFY_ENUM_DIR, "no more is kept than the first request had room for");
        assert!(ChangeNotifyResponse::decode(&answer.message).unwrap().output.is_empty());
        wait(&mut watcher, root, NAMES).await;
        make(&mut actor, "a-name-that-fits-this-one").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "a-name-that-fits-this-one"));

        let blind = to_watch(&mut watcher, "").await;
        wait(&mut watcher, blind, Asked { room: 0, ..NAMES }).await;
        make(&mut actor, "again").await;
        assert_eq!(watcher.receive().await.status(), Status::NOTIFY_ENUM_DIR);
    })
    .await;
}

#[tokio::test]
async fn no_more_than_64_kib_are_kept() {
    here(async {
        let (server, (mut watcher, root), mut actor) = three().await;
        wait(&mut watcher, root, Asked { room: 1 << 16, ..NAMES }).await;
        make(&mut actor, "first").await;
        assert_eq!(told(&watcher.receive().await).len(), 1);
        let directory = server.watches.table.lock().by_directory.values().next().unwrap().0.clone();
        for number in 0..10_000 {
            let name = format!("{number:0>100}");
            let change =
                Change { action: Action::ADDED, filter: Filter::FILE_NAME, name: &name, stream: None, gone: 0 };
            directory.add(Where::Here, &[change], |_| SharedName::new(&name));
        }
        assert_eq!(ask(&mut watcher, root, NAMES).await.status(), Status::NOTIFY_ENUM_DIR);
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_request_takes_no_changes_with_it() {
    here(async {
        let (_server, (mut watcher, root), mut actor) = three().await;
        let interim = wait(&mut watcher, root, NAMES).await;
        watcher.cancel(&interim);
        assert_eq!(watcher.receive().await.status(), Status::CANCELLED);
        make(&mut actor, "one").await;
        make(&mut actor, "two").await;
        assert_eq!(told(&ask(&mut watcher, root, NAMES).await).len(), 2);
    })
    .await;
}

#[tokio::test]
async fn the_end_of_the_open_ends_the_wait() {
    here(async {
        let (server, (mut watcher, root), _actor) = three().await;
        wait(&mut watcher, root, NAMES).await;
        let close = CloseRequest { file_id: root, ..CloseRequest::default() };
        let mut message = watcher.message(Command::CLOSE, |body| close.encode(body));
        watcher.process(&mut message).unwrap();
        let mut statuses = [watcher.receive().await.status(), watcher.receive().await.status()];
        statuses.sort();
        assert_eq!(statuses, [Status::SUCCESS, Status::NOTIFY_CLEANUP]);
        assert_eq!(ask(&mut watcher, root, NAMES).await.status(), Status::FILE_CLOSED);

        for command in [Command::TREE_DISCONNECT, Command::LOGOFF] {
            let root = to_watch(&mut watcher, "").await;
            wait(&mut watcher, root, NAMES).await;
            let mut message = watcher.message(command, |body| body.extend_from_slice(&[4, 0, 0, 0]));
            watcher.process(&mut message).unwrap();
            let mut statuses = [watcher.receive().await.status(), watcher.receive().await.status()];
            statuses.sort();
            assert_eq!(statuses, [Status::SUCCESS, Status::NOTIFY_CLEANUP]);
            watcher = Peer::sign_in(&server).await;
        }
        assert!(server.watches.is_idle());
        assert!(server.watches.table.lock().by_directory.is_empty());
        assert!(server.watches.table.lock().by_open.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_lost_connection_ends_the_wait() {
    here(async {
        let (server, (mut watcher, root), _actor) = three().await;
        wait(&mut watcher, root, NAMES).await;
        watcher.connection.in_flight.cancel_all();
        assert_eq!(watcher.receive().await.status(), Status::CANCELLED);
        let session = server.sessions.find(watcher.session_id).unwrap();
        session.end().iter().flatten().for_each(|open| open.close(&server));
        assert!(server.watches.is_idle());
    })
    .await;
}

#[tokio::test]
async fn a_thousand_requests_are_answered() {
    here(async {
        let (_server, (mut watcher, root), mut actor) = three().await;
        let (mut waiting, mut refused) = (0, 0);
        for _ in 0..1_000 {
            match ask(&mut watcher, root, NAMES).await.status() {
                Status::PENDING => waiting += 1,
                Status::INSUFFICIENT_RESOURCES => refused += 1,
                other => panic!("{other}"),
            }
        }
        assert_eq!((waiting, refused), (512, 488));
        for number in 0..512 {
            make(&mut actor, &format!("file {number}")).await;
        }
        for _ in 0..512 {
            assert_eq!(told(&watcher.receive().await).len(), 1);
        }
        assert_eq!(ask(&mut watcher, root, NAMES).await.status(), Status::PENDING);
    })
    .await;
}

#[tokio::test]
async fn requests_that_cannot_be_are_refused() {
    here(async {
        let (_server, (mut watcher, root), _actor) = three().await;
        let file = watcher.open("file").await;
        assert_eq!(ask(&mut watcher, file, NAMES).await.status(), Status::INVALID_PARAMETER);
        let large = Asked { room: (8 << 20) + 1, ..NAMES };
        assert_eq!(ask(&mut watcher, root, large).await.status(), Status::INVALID_PARAMETER);
        let blind = watcher
            .create("", |request| {
                request.desired_access = wire::security::access::READ_ATTRIBUTES.into();
                request.options = CreateOptions::DIRECTORY_FILE;
            })
            .await;
        let blind = blind.file_id();
        assert_eq!(ask(&mut watcher, blind, NAMES).await.status(), Status::ACCESS_DENIED);
        let nothing = Asked { filter: Filter(0xFFFF_F000), ..NAMES };
        wait(&mut watcher, root, nothing).await;
        make(&mut watcher, "other").await;
        assert!(watcher.take_frame().is_none(), "no filter, no change");
    })
    .await;
}

#[tokio::test]
async fn nothing_is_told_in_plain_of_a_share_that_became_sealed_meanwhile() {
    here(async {
        let (server, (mut watcher, root), mut actor) = three().await;
        wait(&mut watcher, root, NAMES).await;
        let open = watcher.opened(&server, root);
        let share = server.configuration.load().shares[0].clone();
        open.tree.follow(Some(&Share { seal_required: true, ..share }), &open.user);
        make(&mut actor, "secret").await;
        assert_eq!(watcher.receive().await.status(), Status::ACCESS_DENIED);
    })
    .await;
}
