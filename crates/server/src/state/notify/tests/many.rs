//! Many who watch one directory.

use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Waker};

use wire::command::close::CloseRequest;
use wire::security::Sid;

use super::*;
use crate::resource::budgets::{Budgets, UserBudgets, WATCHES_OF_USER_MAX};
use crate::resource::capacity::Capacity;
use crate::resource::pool::QueueKey;
use crate::state::notify::directory::{Asking, Ear, Listen, SLICE_MAX, TOLD_AT_ONCE_MAX};
use crate::state::notify::log::KEPT_BYTES_MAX;
use crate::state::notify::name::SharedName;
use crate::state::notify::{News, Told, WatchWait};

const DIRECTORY: Identity = Identity { volume: 1, file: 1 };
const OPENS: usize = 200;

/// A server whose pool works by hand, somebody who waits on so many opens of its root, and who changes things.
async fn many() -> (Arc<Shared>, (Peer, Vec<FileId>), Peer) {
    let server = by_hand(server(Signing::Enabled));
    let mut watcher = Peer::sign_in(&server).await;
    let mut opens = Vec::new();
    for _ in 0..OPENS {
        let root = to_watch(&mut watcher, "").await;
        wait(&mut watcher, root, NAMES).await;
        opens.push(root);
    }
    let actor = Peer::sign_in(&server).await;
    (server, (watcher, opens), actor)
}

/// The answers that there are.
pub(super) async fn answers(peer: &mut Peer) -> Vec<Answer> {
    // Each request is a task, which runs when others have their turn.
    for _ in 0..2 * OPENS {
        tokio::task::yield_now().await;
    }
    let mut answers = Vec::new();
    while let Some(message) = peer.take_frame() {
        answers.push(Answer { header: Header::decode(&message).unwrap(), message });
    }
    answers
}

#[tokio::test]
async fn a_change_tells_a_few_who_wait_at_once_and_the_others_in_slices() {
    here(async {
        let (server, (mut watcher, _), mut actor) = many().await;
        make(&mut actor, "file").await;
        assert_eq!(answers(&mut watcher).await.len(), TOLD_AT_ONCE_MAX);
        let others = Arc::new(AtomicBool::new(false));
        let other = Arc::clone(&others);
        let volume = server.configuration.load().shares[0].store.lineage(&SharePath::root())[0].volume;
        let queue_key = QueueKey { session: 7, ..QueueKey::of_server(volume) };
        server.pool.submit(queue_key, Box::new(move || other.store(true, Ordering::Relaxed)));

        let mut told_in_all = TOLD_AT_ONCE_MAX;
        while server.pool.work_once() {
            let answers = answers(&mut watcher).await;
            assert!(answers.len() <= SLICE_MAX);
            answers.iter().for_each(|answer| assert_eq!(told(answer), one(Action::ADDED, "file")));
            told_in_all += answers.len();
            assert!(others.load(Ordering::Relaxed) || told_in_all <= TOLD_AT_ONCE_MAX + SLICE_MAX, "others wait");
        }
        assert_eq!(told_in_all, OPENS);
    })
    .await;
}

#[tokio::test]
async fn what_changes_while_many_are_told_is_told_in_order_and_not_lost() {
    here(async {
        let (server, (mut watcher, opens), mut actor) = many().await;
        make(&mut actor, "one").await;
        let first = answers(&mut watcher).await;
        assert_eq!(first.len(), TOLD_AT_ONCE_MAX);
        first.iter().for_each(|answer| assert_eq!(told(answer), one(Action::ADDED, "one")));
        make(&mut actor, "two").await;
        remove(&mut actor, "two").await;
        while server.pool.work_once() {}
        let later = [(Action::ADDED, "two".to_owned()), (Action::REMOVED, "two".to_owned())];
        let all = [one(Action::ADDED, "one"), later.to_vec()].concat();
        let answers = answers(&mut watcher).await;
        assert_eq!(answers.len(), OPENS - TOLD_AT_ONCE_MAX);
        answers.iter().for_each(|answer| assert_eq!(told(answer), all));
        let mut heard = 0;
        for open in opens {
            let answer = ask(&mut watcher, open, NAMES).await;
            if answer.status() != Status::PENDING {
                assert_eq!(told(&answer), later);
                heard += 1;
            }
        }
        assert_eq!(heard, TOLD_AT_ONCE_MAX);
    })
    .await;
}

#[tokio::test]
async fn a_directory_that_goes_ends_many_watches_in_slices() {
    here(async {
        let (server, (mut watcher, opens), _actor) = many().await;
        wait(&mut watcher, opens[0], NAMES).await;
        let identity = server.watches.table.lock().by_directory.keys().next().copied().unwrap();
        server.watches.directory_goes(identity);
        assert_eq!(answers(&mut watcher).await.len(), TOLD_AT_ONCE_MAX);
        while server.pool.work_once() {}
        let answers = answers(&mut watcher).await;
        assert_eq!(answers.len(), OPENS + 1 - TOLD_AT_ONCE_MAX);
        assert!(answers.iter().all(|answer| answer.status() == Status::DELETE_PENDING));
        assert_eq!(ask(&mut watcher, opens[0], NAMES).await.status(), Status::DELETE_PENDING);
        let later = to_watch(&mut watcher, "").await;
        wait(&mut watcher, later, NAMES).await;
    })
    .await;
}

pub(super) fn user(sid: &Sid) -> Arc<UserBudgets> {
    Budgets::new(Capacity::default()).of_user(sid)
}

pub(super) fn wish(open: u64, filter: Filter) -> Wish {
    Wish { open: OpenId(open), directory: DIRECTORY, filter, reach: Reach::Directory, room: 65_536, is_judged: false }
}

fn add(watch: &Watch, filter: Filter, action: Action, name: &str) {
    let change = Change { action, filter, name, stream: None, gone: 0 };
    watch.directory.add(Where::Here, &[change], |_| SharedName::new(name));
}

fn heard(told: Result<News, WatchWait>) -> Vec<(Action, String)> {
    let Ok((told @ Told::Changes(_), _answering)) = told else { panic!("nothing was told, or too much") };
    let (_, bytes) = told.encode(KEPT_BYTES_MAX);
    changes(&bytes).map(|change| change.unwrap()).map(|one| (one.action, one.name.decode().unwrap())).collect()
}

/// What a request that waits is told by now.
fn now(wait: &mut Result<News, WatchWait>) -> Option<News> {
    let mut end = pin!(wait.as_mut().err()?.end());
    match end.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(news) => Some(news),
        Poll::Pending => None,
    }
}

#[test]
fn a_user_watches_a_bounded_number_of_directories_whatever_its_sessions() {
    let (watches, alice, bob) =
        (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM), user(&Sid::NETWORK));
    let wish = |number| Wish { directory: Identity { volume: 1, file: number / 3 }, ..wish(number, ALL) };
    for number in 0..WATCHES_OF_USER_MAX {
        assert!(watches.watch(wish(number), &alice).is_ok());
    }
    let next = WATCHES_OF_USER_MAX;
    assert_eq!(watches.watch(wish(next), &alice).err(), Some(Status::INSUFFICIENT_RESOURCES));
    assert!(watches.watch(wish(next), &bob).is_ok());
    assert!(watches.watch(wish(0), &alice).is_ok(), "it is there already");
    watches.close(OpenId(0));
    assert!(watches.watch(wish(next + 1), &alice).is_ok());
    (0..=next + 1).for_each(|number| watches.close(OpenId(number)));
    assert!(watches.is_idle() && watches.table.lock().by_directory.is_empty());
    assert_eq!(alice.bytes.used(), 0);
}

#[test]
fn a_change_is_kept_once_however_many_watch() {
    let cost = |count: u64| {
        let (watches, alice) = (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM));
        let all: Vec<_> = (0..count).map(|open| watches.watch(wish(open, ALL), &alice).unwrap()).collect();
        let before = alice.bytes.used();
        add(&all[0], Filter::FILE_NAME, Action::ADDED, "file");
        assert_eq!(all[0].directory.due(), 0, "who asks for nothing is no work");
        let cost = alice.bytes.used() - before;
        all.iter().for_each(|watch| assert_eq!(heard(watch.take(65_536)), one(Action::ADDED, "file")));
        assert_eq!(alice.bytes.used(), before, "what everybody has heard of is let go");
        cost
    };
    assert!(cost(1) > 0);
    assert_eq!(cost(1), cost(1_000));
}

#[test]
fn who_waits_for_other_changes_is_no_work() {
    let (watches, alice) = (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM));
    let all: Vec<_> = (0..100).map(|open| watches.watch(wish(open, Filter::SECURITY), &alice).unwrap()).collect();
    let watch = watches.watch(wish(100, Filter::FILE_NAME), &alice).unwrap();
    let waits: Vec<_> = all.iter().map(|watch| watch.take(100)).collect();
    assert!(waits.iter().all(Result::is_err));
    add(&watch, Filter::FILE_NAME, Action::ADDED, "file");
    assert_eq!(watch.directory.due(), 0);
    assert!(!watches.pool.work_once());
    assert_eq!(heard(watch.take(100)), one(Action::ADDED, "file"));
}

#[test]
fn while_what_a_request_is_told_is_judged_the_later_ones_are_told_nothing() {
    let (watches, alice) = (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM));
    let watch = watches.watch(Wish { is_judged: true, ..wish(1, ALL) }, &alice).unwrap();
    let change = |name| add(&watch, Filter::FILE_NAME, Action::ADDED, name);
    change("one");
    let Ok((Told::Changes(_), first)) = watch.take(100) else { panic!("nothing was told") };
    let mut second = watch.take(100);
    change("two");
    assert!(now(&mut second).is_none(), "the first has yet to be answered");
    // It may hear nothing of what it was told: what comes next is told it, not the second.
    assert_eq!(heard(watch.take_more(first, 100)), one(Action::ADDED, "two"));
    change("three");
    let (told, first) = now(&mut second).expect("the first has been answered");
    let mut third = watch.take(100);
    assert!(matches!(told, Told::Changes(changes) if changes.len() == 1));
    let mut second = watch.take_more(first, 100);
    change("four");
    assert!(now(&mut third).is_none());
    assert_eq!(heard(Ok(now(&mut second).expect("it waited before the third"))), one(Action::ADDED, "four"));
    change("five");
    assert_eq!(heard(Ok(now(&mut third).unwrap())), one(Action::ADDED, "five"));
    // Who gives up lets the next one go on.
    change("six");
    let first = watch.take(100);
    let mut second = watch.take(100);
    change("seven");
    drop(first);
    assert_eq!(heard(Ok(now(&mut second).unwrap())), one(Action::ADDED, "seven"));
}

#[test]
fn a_request_that_comes_while_another_one_is_answered_does_not_overtake_it() {
    let (watches, alice) = (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM));
    let watch = watches.watch(wish(1, ALL), &alice).unwrap();
    let (mut first, mut second) = (watch.take(100), watch.take(100));
    for name in ["one", "two", "three"] {
        add(&watch, Filter::FILE_NAME, Action::ADDED, name);
    }
    let mut third = watch.take(100);
    assert_eq!(heard(Ok(now(&mut first).unwrap())), one(Action::ADDED, "one"), "each waiting one is told what comes");
    assert!(now(&mut third).is_none(), "the second has yet to be answered");
    assert_eq!(heard(Ok(now(&mut second).unwrap())), one(Action::ADDED, "two"));
    assert_eq!(heard(Ok(now(&mut third).unwrap())), one(Action::ADDED, "three"));
}

#[test]
fn changes_of_one_sort_do_not_crowd_out_those_of_another() {
    let (watches, alice) = (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM));
    let names = watches.watch(wish(1, Filter::FILE_NAME), &alice).unwrap();
    let all = watches.watch(wish(2, ALL), &alice).unwrap();
    let before = alice.bytes.used();
    add(&names, Filter::FILE_NAME, Action::ADDED, "file");
    for number in 0..20_000 {
        let filter = if number % 2 == 0 { Filter::SIZE } else { Filter::EA };
        add(&names, filter, Action::MODIFIED, &number.to_string());
    }
    add(&names, Filter::FILE_NAME, Action::REMOVED, "file");
    assert!(alice.bytes.used() - before < 2 << 20);
    assert!(matches!(all.take(65_536), Ok((Told::TooMany, _))));
    let expected = [(Action::ADDED, "file".to_owned()), (Action::REMOVED, "file".to_owned())];
    assert_eq!(heard(names.take(65_536)), expected);
    add(&names, Filter::SIZE, Action::MODIFIED, "file");
    assert_eq!(heard(all.take(65_536)), one(Action::MODIFIED, "file"), "it goes on behind what it missed");
}

#[test]
fn what_is_kept_is_charged_and_what_cannot_be_is_told_to_be_read_anew() {
    let (watches, alice) = (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM));
    let watch = watches.watch(wish(1, ALL), &alice).unwrap();
    let rest = alice.bytes.limit() - alice.bytes.used();
    let all = alice.bytes.charge(rest).unwrap();
    add(&watch, Filter::FILE_NAME, Action::ADDED, "one");
    assert!(matches!(watch.take(65_536), Ok((Told::TooMany, _))));
    assert!(watch.take(65_536).is_err(), "it is told once");
    drop(all);
    add(&watch, Filter::FILE_NAME, Action::ADDED, "two");
    assert_eq!(heard(watch.take(65_536)), one(Action::ADDED, "two"));
}

#[test]
fn who_has_nothing_left_costs_others_no_change() {
    let watches = Watches::new(Pool::by_hand(), Arc::default());
    let (alice, bob) = (user(&Sid::SYSTEM), user(&Sid::NETWORK));
    let first = watches.watch(wish(1, ALL), &alice).unwrap();
    let second = watches.watch(wish(2, ALL), &bob).unwrap();
    let rest = alice.bytes.limit() - alice.bytes.used();
    let _all = alice.bytes.charge(rest).unwrap();
    let names: Vec<_> = (0..100).map(|number| number.to_string()).collect();
    names.iter().for_each(|name| add(&first, Filter::FILE_NAME, Action::ADDED, name));
    let expected: Vec<_> = names.into_iter().map(|name| (Action::ADDED, name)).collect();
    assert_eq!(heard(second.take(65_536)), expected);
}

#[test]
fn data_that_changes_again_and_again_is_told_once_to_who_has_not_heard_of_it() {
    let (watches, alice) = (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM));
    let slow = watches.watch(wish(1, ALL), &alice).unwrap();
    let quick = watches.watch(wish(2, ALL), &alice).unwrap();
    for _ in 0..10_000 {
        add(&slow, Filter::SIZE, Action::MODIFIED, "file");
        assert_eq!(heard(quick.take(100)), one(Action::MODIFIED, "file"));
    }
    add(&slow, Filter::EA, Action::MODIFIED, "file");
    assert_eq!(heard(slow.take(100)), one(Action::MODIFIED, "file"));
}

#[test]
fn who_watches_while_the_store_is_being_asked_waits_for_nobody_and_is_told_to_read_anew() {
    let (watches, alice) = (Watches::new(Pool::by_hand(), Arc::default()), user(&Sid::SYSTEM));
    let first = watches.watch(wish(1, ALL), &alice).unwrap();
    let second = watches.watch(wish(2, ALL), &alice).unwrap();
    let asking = asks(&first, Where::Here, true).unwrap();
    assert!(asks(&second, Where::Here, true).is_none());
    drop(asking);
    assert!(matches!(second.take(100), Ok((Told::TooMany, _))), "it was not even tried");
    let asking = asks(&second, Where::Here, false).unwrap();
    assert!(asks(&first, Where::Here, false).is_none());
    asking.answer(Ear::Listens(None));
    assert!(matches!(first.take(100), Ok((Told::TooMany, _))));
    assert!(matches!(second.take(100), Ok((Told::TooMany, _))));
    assert!(asks(&first, Where::Here, true).is_none());
    assert!(first.take(100).is_err());

    let asking = asks(&first, Where::Below, true).unwrap();
    asking.answer(Ear::Deaf);
    assert!(asks(&first, Where::Below, false).is_none(), "a watch tries once");
    assert!(asks(&second, Where::Below, true).is_some());
    assert!(first.take(100).is_err(), "nobody else waited for it");
}

fn asks(watch: &Watch, place: Where, is_first: bool) -> Option<Asking> {
    match watch.directory.ask_store(watch.open, place, is_first) {
        Listen::Ask(asking) => Some(asking),
        Listen::Nothing => None,
        Listen::Wait(_) => panic!("a watch waits for itself"),
    }
}

#[tokio::test]
async fn a_watch_that_asks_ahead_is_told_what_changes_in_order() {
    here(async {
        for reach in [Reach::Directory, Reach::Tree] {
            let (folder, (mut watcher, root), mut actor) = folder().await;
            for _ in 0..3 {
                send(&mut watcher, root, Asked { reach, ..NAMES });
            }
            let mut waits = Vec::new();
            for _ in 0..3 {
                let interim = watcher.receive().await;
                assert_eq!(interim.status(), Status::PENDING, "nothing changed yet: {reach:?}");
                waits.push(interim.header.message_id);
            }
            waits.sort();
            make(&mut actor, "by us").await;
            let answer = watcher.receive().await;
            assert_eq!((answer.header.message_id, told(&answer)), (waits[0], one(Action::ADDED, "by us")));
            std::fs::create_dir(folder.path().join("by others")).unwrap();
            let answer = watcher.receive().await;
            assert_eq!((answer.header.message_id, told(&answer)), (waits[1], one(Action::ADDED, "by others")));
        }
    })
    .await;
}

#[tokio::test]
async fn a_store_tells_of_a_directory_once_however_many_watch() {
    here(async {
        let (folder, (mut watcher, root), _actor) = folder().await;
        let own = Arc::clone(&watcher.connection.server.watches.own);
        let tree = Asked { reach: Reach::Tree, ..NAMES };
        wait(&mut watcher, root, NAMES).await;
        assert_eq!(own.listeners(), 1);
        let mut trees = Vec::new();
        for _ in 0..5 {
            let open = to_watch(&mut watcher, "").await;
            wait(&mut watcher, open, tree).await;
            trees.push(open);
        }
        assert_eq!(own.listeners(), 2, "one of them for what is below");
        std::fs::create_dir(folder.path().join("foreign")).unwrap();
        for _ in 0..6 {
            assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "foreign"));
        }
        for open in trees {
            watcher.close(open).await;
        }
        assert_eq!(own.listeners(), 1);
        watcher.close(root).await;
        assert_eq!(own.listeners(), 0);
    })
    .await;
}

/// An answer that is not an interim one.
async fn answered(peer: &mut Peer) -> Answer {
    loop {
        let answer = peer.receive().await;
        if answer.status() != Status::PENDING {
            return answer;
        }
    }
}

#[tokio::test]
async fn what_a_watched_tree_takes_is_paid_for_and_who_cannot_pay_lists_anew() {
    here(async {
        const DIRECTORIES: u64 = 20;
        let (folder, (mut watcher, root), mut actor) = folder().await;
        (0..DIRECTORIES).for_each(|name| std::fs::create_dir(folder.path().join(name.to_string())).unwrap());
        let server = Arc::clone(&watcher.connection.server);
        let lasting = Arc::clone(&server.sessions.find(watcher.session_id).unwrap().budgets.lasting);
        let tree = Asked { reach: Reach::Tree, ..NAMES };
        let before = lasting.used();
        wait(&mut watcher, root, tree).await;
        assert!(lasting.used() > before + DIRECTORIES * 1_000);
        make(&mut actor, "own").await;
        assert_eq!(told(&watcher.receive().await), one(Action::ADDED, "own"));
        watcher.close(root).await;
        assert!(lasting.used() < before);

        // For the watch, for some of the directories, and not even for the watched one.
        for (left, asked) in [(2_048 + 6_000, tree), (2_048 + 100, NAMES)] {
            let root = to_watch(&mut watcher, "").await;
            let held = lasting.charge(lasting.limit() - lasting.used() - left).unwrap();
            send(&mut watcher, root, asked);
            assert_eq!(answered(&mut watcher).await.status(), Status::NOTIFY_ENUM_DIR, "{left}");
            drop(held);
            send(&mut watcher, root, asked);
            make(&mut actor, &format!("own {left}")).await;
            assert_eq!(told(&answered(&mut watcher).await), one(Action::ADDED, &format!("own {left}")));
            watcher.close(root).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_tree_is_gone_through_in_turns_and_no_further_than_somebody_watches_it() {
    const FILES: usize = 8_000;
    here(async {
        let folder = tempfile::tempdir().unwrap();
        (0..FILES).for_each(|name| drop(std::fs::File::create(folder.path().join(name.to_string())).unwrap()));
        for is_closed in [false, true] {
            let store = Arc::new(DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap());
            let mut server = crate::tests::testing::server_with(Signing::Enabled, store);
            let shared = Arc::get_mut(&mut server).unwrap();
            (shared.pool, shared.long_work) = (Pool::by_hand(), Pool::by_hand());
            let mut watcher = working(&server, Peer::sign_in(&server)).await;
            let root = working(&server, to_watch(&mut watcher, "")).await;
            send(&mut watcher, root, Asked { reach: Reach::Tree, ..NAMES });
            let mut slices = 0;
            loop {
                for _ in 0..OPENS {
                    tokio::task::yield_now().await;
                    while server.pool.work_once() {}
                }
                if !server.long_work.work_once() {
                    break;
                }
                slices += 1;
                if is_closed && slices == 1 {
                    let close = CloseRequest { file_id: root, ..CloseRequest::default() };
                    let mut message = watcher.message(Command::CLOSE, |body| close.encode(body));
                    watcher.process(&mut message).unwrap();
                }
            }
            assert!(if is_closed { slices <= 2 } else { slices > 4 }, "{slices} with {is_closed}");
        }
    })
    .await;
}
