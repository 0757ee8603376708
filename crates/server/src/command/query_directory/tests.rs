//! QUERY_DIRECTORY as clients see it.

use std::sync::Arc;

use store::{Kind, NewNode, RamStore, Resolved, SharePath, Store, Use};
use tokio::task::LocalSet;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse};
use wire::command::set_info::{InfoType, SetInfoRequest};
use wire::fscc::directory::{entries, fixed_length};
use wire::fscc::{FileAttributes, FileClass};
use wire::ids::{Command, FileId};
use wire::security::access::READ_ATTRIBUTES;
use wire::security::{Acl, SecurityDescriptor, SecurityInformation};
use wire::status::Status;

use crate::resource::budgets::UserBudgets;
use crate::resource::pool::Pool;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, Peer, server, server_with};

const PLAIN: QueryDirectoryFlags = QueryDirectoryFlags::NONE;
const ROOM: u32 = 65_536;

async fn query(
    peer: &mut Peer,
    file_id: FileId,
    class: FileClass,
    flags: QueryDirectoryFlags,
    pattern: &str,
    room: u32,
) -> Answer {
    let pattern = utf16_bytes(pattern);
    let request = QueryDirectoryRequest {
        class,
        flags,
        file_id,
        pattern: Utf16::new(&pattern).unwrap(),
        output_buffer_length: room,
        ..QueryDirectoryRequest::default()
    };
    // What waits for the pool goes on as a task of the shard.
    LocalSet::new().run_until(peer.ask(Command::QUERY_DIRECTORY, |body| request.encode(body))).await
}

/// The names of one answer.
async fn names(peer: &mut Peer, file_id: FileId, flags: QueryDirectoryFlags, pattern: &str) -> Vec<String> {
    let answer = query(peer, file_id, FileClass::NAMES, flags, pattern, ROOM).await;
    assert_eq!(answer.status(), Status::SUCCESS, "{pattern}");
    let output = QueryDirectoryResponse::decode(&answer.message).unwrap().output;
    entries(FileClass::NAMES, output).map(|entry| entry.unwrap().name.decode().unwrap()).collect()
}

async fn status(peer: &mut Peer, file_id: FileId, flags: QueryDirectoryFlags, pattern: &str) -> Status {
    query(peer, file_id, FileClass::NAMES, flags, pattern, ROOM).await.status()
}

/// A client and a directory with files of these names.
async fn directory(files: &[&str]) -> (Peer, FileId) {
    let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let directory = peer.open_directory("dir").await;
    for name in files {
        let file = peer.open(&format!("dir\\{name}")).await;
        peer.close(file).await;
    }
    (peer, directory)
}

#[tokio::test]
async fn names_come_sorted_behind_the_two_dots() {
    let (mut peer, directory) = directory(&["b", "C", "a", "ä"]).await;
    assert_eq!(names(&mut peer, directory, PLAIN, "*").await, [".", "..", "a", "b", "C", "ä"]);
    assert_eq!(status(&mut peer, directory, PLAIN, "*").await, Status::NO_MORE_FILES);
    let root = peer.open_directory("").await;
    assert_eq!(names(&mut peer, root, PLAIN, "").await, [".", "..", "dir"]);
}

#[tokio::test]
async fn the_first_pattern_stays_until_the_scan_begins_anew() {
    let (mut peer, directory) = directory(&["one.txt", "two.txt", "three.doc"]).await;
    assert_eq!(names(&mut peer, directory, PLAIN, "*.txt").await, ["one.txt", "two.txt"]);
    assert_eq!(status(&mut peer, directory, PLAIN, "*.doc").await, Status::NO_MORE_FILES);
    let restart = QueryDirectoryFlags::RESTART_SCANS;
    assert_eq!(names(&mut peer, directory, restart, "").await, ["one.txt", "two.txt"]);
    assert_eq!(names(&mut peer, directory, restart, "*.DOC").await, ["three.doc"]);
    assert_eq!(names(&mut peer, directory, QueryDirectoryFlags::REOPEN, "t*").await, ["three.doc", "two.txt"]);
}

#[tokio::test]
async fn an_access_based_share_lists_what_may_be_read() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut configuration = (**server.configuration.load()).clone();
        configuration.shares[0].access_based = true;
        server.configuration.store(configuration.into());
        let mut peer = Peer::sign_in(&server).await;
        for (name, acl) in [("open", None), ("shut", Some(Acl::default()))] {
            let file = peer.open(name).await;
            let buffer = SecurityDescriptor { dacl: acl, ..SecurityDescriptor::default() }.encode().unwrap();
            let request = SetInfoRequest {
                info_type: InfoType::SECURITY,
                file_id: file,
                additional_information: SecurityInformation::DACL.0,
                buffer: &buffer,
                ..SetInfoRequest::default()
            };
            assert_eq!(peer.ask(Command::SET_INFO, |body| request.encode(body)).await.status(), Status::SUCCESS);
            peer.close(file).await;
        }
        let root = peer.open_directory("").await;
        assert_eq!(names(&mut peer, root, PLAIN, "*").await, [".", "..", "open"]);
        assert_eq!(status(&mut peer, root, QueryDirectoryFlags::REOPEN, "shut").await, Status::NO_SUCH_FILE);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn nothing_found_is_told_apart_from_nothing_more() {
    let (mut peer, directory) = directory(&["a"]).await;
    assert_eq!(status(&mut peer, directory, PLAIN, "b").await, Status::NO_SUCH_FILE);
    assert_eq!(status(&mut peer, directory, PLAIN, "b").await, Status::NO_MORE_FILES);
    assert_eq!(status(&mut peer, directory, QueryDirectoryFlags::RESTART_SCANS, "c").await, Status::NO_MORE_FILES);
    assert_eq!(status(&mut peer, directory, QueryDirectoryFlags::REOPEN, "c").await, Status::NO_SUCH_FILE);
    assert_eq!(status(&mut peer, directory, QueryDirectoryFlags::REOPEN, "a|b").await, Status::OBJECT_NAME_INVALID);
}

#[tokio::test]
async fn one_name_is_found_whatever_its_case() {
    let (mut peer, directory) = directory(&["ReadMe.txt"]).await;
    assert_eq!(names(&mut peer, directory, PLAIN, "README.TXT").await, ["ReadMe.txt"]);
    assert_eq!(names(&mut peer, directory, QueryDirectoryFlags::REOPEN, "..").await, [".."]);
}

#[tokio::test]
async fn single_entries_and_small_rooms_go_on_where_they_stopped() {
    let (mut peer, directory) = directory(&["a", "b"]).await;
    let single = QueryDirectoryFlags::RETURN_SINGLE_ENTRY;
    assert_eq!(names(&mut peer, directory, single, "*").await, ["."]);
    assert_eq!(names(&mut peer, directory, single, "*").await, [".."]);
    let room = fixed_length(FileClass::NAMES).unwrap() as u32 + 2;
    let answer = query(&mut peer, directory, FileClass::NAMES, PLAIN, "*", room).await;
    let output = QueryDirectoryResponse::decode(&answer.message).unwrap().output;
    assert_eq!((answer.status(), output.len()), (Status::SUCCESS, room as usize));
    assert_eq!(names(&mut peer, directory, PLAIN, "*").await, ["b"]);
}

#[tokio::test]
async fn a_name_without_room_is_cut_and_told_again() {
    let (mut peer, directory) = directory(&["long-name"]).await;
    let least = fixed_length(FileClass::NAMES).unwrap() as u32;
    let answer = query(&mut peer, directory, FileClass::NAMES, PLAIN, "l*", least + 4).await;
    assert_eq!(answer.status(), Status::BUFFER_OVERFLOW);
    let output = QueryDirectoryResponse::decode(&answer.message).unwrap().output;
    assert_eq!((output.len(), &output[least as usize..]), (least as usize + 4, &[b'l', 0, b'o', 0][..]));
    assert_eq!(names(&mut peer, directory, PLAIN, "l*").await, ["long-name"]);
    let answer = query(&mut peer, directory, FileClass::NAMES, PLAIN, "l*", least - 1).await;
    assert_eq!(answer.status(), Status::INFO_LENGTH_MISMATCH);
}

#[tokio::test]
async fn what_was_removed_meanwhile_is_passed_over() {
    let (mut peer, directory) = directory(&["a", "b", "c"]).await;
    let single = QueryDirectoryFlags::RETURN_SINGLE_ENTRY;
    assert_eq!(names(&mut peer, directory, single, "?").await, ["."]);
    let file = peer.open("dir\\b").await;
    assert_eq!(peer.set(file, FileClass::DISPOSITION, &[1]).await, Status::SUCCESS);
    let full = FileClass::ID_BOTH_DIRECTORY;
    peer.close(file).await;
    let answer = query(&mut peer, directory, full, PLAIN, "", ROOM).await;
    let output = QueryDirectoryResponse::decode(&answer.message).unwrap().output;
    let told: Vec<_> = entries(full, output).map(Result::unwrap).collect();
    assert_eq!(told.iter().map(|entry| entry.name.decode().unwrap()).collect::<Vec<_>>(), ["a", "c"]);
    assert!(told.iter().all(|entry| entry.attributes == FileAttributes::ARCHIVE && entry.file_id != 0));
}

#[tokio::test]
async fn only_directories_that_may_be_listed_are_listed() {
    let (mut peer, directory) = directory(&["a"]).await;
    let file = peer.open("dir\\a").await;
    assert_eq!(status(&mut peer, file, PLAIN, "*").await, Status::INVALID_PARAMETER);
    let blind = peer.create("dir", |request| request.desired_access = READ_ATTRIBUTES.into()).await;
    let blind = blind.file_id();
    assert_eq!(status(&mut peer, blind, PLAIN, "*").await, Status::ACCESS_DENIED);
    let answer = query(&mut peer, directory, FileClass::BASIC, PLAIN, "*", ROOM).await;
    assert_eq!(answer.status(), Status::INVALID_INFO_CLASS);
}

/// A server whose share has a directory `dir` with so many files, and a client that has it open.
async fn large_directory(count: usize) -> (Arc<Shared>, Peer, FileId) {
    let store = RamStore::new(256 << 20);
    let new = |kind| NewNode { kind, attributes: 0, security: None, owner: None };
    store.create(&SharePath::parse("dir").unwrap(), new(Kind::Directory)).unwrap();
    for number in 0..count {
        store.create(&SharePath::parse(&format!("dir\\name-{number:06}")).unwrap(), new(Kind::File)).unwrap();
    }
    let server = server_with(Signing::Enabled, Arc::new(store));
    let mut peer = Peer::sign_in(&server).await;
    let directory = peer.open_directory("dir").await;
    (server, peer, directory)
}

fn budgets(server: &Arc<Shared>, peer: &Peer) -> Arc<UserBudgets> {
    Arc::clone(&server.sessions.find(peer.session_id).unwrap().budgets)
}

/// All names that are left.
async fn rest(peer: &mut Peer, directory: FileId, pattern: &str) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let answer = query(peer, directory, FileClass::NAMES, PLAIN, pattern, ROOM).await;
        if answer.status() == Status::NO_MORE_FILES {
            return all;
        }
        assert_eq!(answer.status(), Status::SUCCESS);
        let output = QueryDirectoryResponse::decode(&answer.message).unwrap().output;
        all.extend(entries(FileClass::NAMES, output).map(|entry| entry.unwrap().name.decode().unwrap()));
    }
}

fn numbered(numbers: impl Iterator<Item = usize>) -> Vec<String> {
    numbers.map(|number| format!("name-{number:06}")).collect()
}

#[tokio::test]
async fn of_a_large_directory_nothing_is_held_but_the_place() {
    let (server, mut peer, directory) = large_directory(6_000).await;
    let budgets = budgets(&server, &peer);
    let before = budgets.bytes.used();
    let first = names(&mut peer, directory, PLAIN, "*").await;
    assert!(first.len() > 100 && first.len() < 4_000);
    assert_eq!(budgets.listings.used(), 0);
    assert!(budgets.bytes.used() - before < 1_000);
    let mut all = [first, rest(&mut peer, directory, "*").await].concat();
    all.sort();
    assert_eq!(all[2..], numbered(0..6_000));
    peer.close(directory).await;
    assert!(budgets.bytes.used() < before, "the open itself is given back, too");
}

#[tokio::test]
async fn names_that_are_held_are_charged_until_they_are_told() {
    let (server, mut peer, directory) = large_directory(3_000).await;
    let budgets = budgets(&server, &peer);
    let first = names(&mut peer, directory, PLAIN, "*").await;
    let held = (3_002 - first.len() as u64) * (48 + 11);
    assert_eq!(budgets.listings.used(), held);
    let all = [first, rest(&mut peer, directory, "*").await].concat();
    assert_eq!(all[2..], numbered(0..3_000));
    assert_eq!(budgets.listings.used(), 0);
}

#[tokio::test]
async fn names_for_which_the_budget_has_no_room_are_told_all_the_same() {
    let (server, mut peer, directory) = large_directory(3_000).await;
    let budgets = budgets(&server, &peer);
    let _taken = budgets.listings.charge(budgets.listings.limit()).unwrap();
    let mut all = rest(&mut peer, directory, "*").await;
    all.sort();
    assert_eq!(all[2..], numbered(0..3_000));
}

#[tokio::test]
async fn a_large_directory_is_listed_whole_while_names_come_and_go() {
    let (server, mut peer, directory) = large_directory(6_000).await;
    let store = Arc::clone(&server.configuration.load().shares[0].store);
    let path = |name: &str| SharePath::parse(&format!("dir\\{name}")).unwrap();
    let mut told = names(&mut peer, directory, PLAIN, "*").await;
    let last = told.last().unwrap().clone();
    for gone in ["name-000000", last.as_str(), "name-005000"] {
        let Ok(Resolved::Found { node, .. }) = store.resolve(&path(gone), Use::Metadata) else { unreachable!() };
        store.remove(&path(gone), node.identity()).unwrap();
    }
    let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
    for made in ["a-early", "name-000000b", "z-late"] {
        store.create(&path(made), new).unwrap();
    }
    told.extend(rest(&mut peer, directory, "*").await);
    let count = told.len();
    told.sort();
    told.dedup();
    assert_eq!(told.len(), count, "none is told twice");
    for stayed in numbered((1..6_000).filter(|number| *number != 5_000)) {
        assert!(told.binary_search(&stayed).is_ok(), "{stayed}");
    }
}

/// A large directory whose listing waits for a pool that works when it is told to.
async fn by_hand(pattern: &str) -> (Arc<Shared>, Peer, FileId) {
    let (mut server, peer, _) = large_directory(40_000).await;
    drop(peer);
    let shared = Arc::get_mut(&mut server).expect("nobody is connected");
    shared.work_by_hand();
    let mut peer = Peer::sign_in(&server).await;
    let file_id = peer.open_directory("dir").await;
    search(&mut peer, file_id, pattern);
    (server, peer, file_id)
}

/// Asks for names that fit.
fn search(peer: &mut Peer, file_id: FileId, pattern: &str) {
    let pattern = utf16_bytes(pattern);
    let request = QueryDirectoryRequest {
        class: FileClass::NAMES,
        file_id,
        pattern: Utf16::new(&pattern).unwrap(),
        output_buffer_length: ROOM,
        ..QueryDirectoryRequest::default()
    };
    let mut message = peer.message(Command::QUERY_DIRECTORY, |body| request.encode(body));
    peer.process(&mut message).unwrap();
}

#[tokio::test]
async fn a_pattern_that_little_fits_is_looked_for_in_slices() {
    let test = async {
        let (server, peer, _) = by_hand("*-039999").await;
        let mut slices = 0;
        let answer = loop {
            tokio::task::yield_now().await;
            slices += usize::from(server.pool.work_once());
            if let Some(frame) = peer.take_frame() {
                break frame;
            }
            assert!(slices < 100);
        };
        drop(answer);
        assert!(slices > 2, "{slices}");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_search_that_only_computes_or_costs_much_comes_behind_others() {
    let test = async {
        for pattern in ["*-039999", "-*0*3*9*9*9*9*-*-*-"] {
            let (mut server, peer, _) = large_directory(40_000).await;
            drop(peer);
            let shared = Arc::get_mut(&mut server).expect("nobody is connected");
            (shared.pool, shared.long_work) = (Pool::by_hand(), Pool::by_hand());
            let mut peer = Peer::sign_in(&server).await;
            let open = peer.open_directory("dir").await;
            search(&mut peer, open, pattern);
            let (mut first, mut rest) = (0, 0);
            while peer
                .take_frame()
                .is_none_or(|frame| crate::tests::testing::headers(&frame)[0].status == Status::PENDING)
            {
                tokio::task::yield_now().await;
                first += usize::from(server.pool.work_once());
                rest += usize::from(server.long_work.work_once());
                assert!(rest < 100);
            }
            assert_eq!(first, 0, "{pattern}");
            assert!(rest > 1, "{pattern}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_listing_that_nobody_waits_for_any_more_does_nothing() {
    let test = async {
        let (server, peer, _) = by_hand("*").await;
        let open = server.sessions.find(peer.session_id).unwrap().opens().pop().unwrap();
        peer.connection.in_flight.cancel_all();
        assert_eq!(peer.receive().await.status(), Status::CANCELLED);
        assert!(server.pool.work_once());
        let turn = open.file().unwrap().listing.try_turn().unwrap();
        assert!(turn.as_ref().is_some_and(|scan| !scan.is_under_way()), "nothing was read");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn requests_on_one_open_wait_for_each_other_and_hold_no_thread_meanwhile() {
    let test = async {
        let (server, mut peer, file_id) = by_hand("*").await;
        for _ in 0..3 {
            let request = QueryDirectoryRequest {
                class: FileClass::NAMES,
                file_id,
                output_buffer_length: ROOM,
                ..Default::default()
            };
            let mut message = peer.message(Command::QUERY_DIRECTORY, |body| request.encode(body));
            peer.process(&mut message).unwrap();
        }
        for _ in 0..4 {
            assert!(server.pool.work_once());
            assert!(!server.pool.work_once(), "the next one has not begun");
            assert_eq!(peer.receive().await.status(), Status::SUCCESS);
            tokio::task::yield_now().await;
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_large_directory_is_gone_on_with_behind_others() {
    let test = async {
        let (mut server, peer, _) = large_directory(40_000).await;
        drop(peer);
        let shared = Arc::get_mut(&mut server).expect("nobody is connected");
        (shared.pool, shared.long_work) = (Pool::by_hand(), Pool::by_hand());
        let mut peer = Peer::sign_in(&server).await;
        let open = peer.open_directory("dir").await;
        for (page, expected) in [(1, (1, 0)), (2, (0, 1)), (3, (0, 1))] {
            search(&mut peer, open, "*");
            let mut worked = (0, 0);
            while peer
                .take_frame()
                .is_none_or(|frame| crate::tests::testing::headers(&frame)[0].status == Status::PENDING)
            {
                tokio::task::yield_now().await;
                worked.0 += usize::from(server.pool.work_once());
                worked.1 += usize::from(server.long_work.work_once());
                assert!(worked.1 < 100);
            }
            assert_eq!(worked, expected, "page {page}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn of_many_listings_at_once_a_few_begin_beside_other_work() {
    let test = async {
        let (mut server, peer, _) = large_directory(1_000).await;
        drop(peer);
        let shared = Arc::get_mut(&mut server).expect("nobody is connected");
        (shared.pool, shared.long_work) = (Pool::by_hand(), Pool::by_hand());
        let mut peer = Peer::sign_in(&server).await;
        for _ in 0..2 {
            let begun = crate::state::shared::SHORT_LISTINGS + 3;
            for _ in 0..begun {
                let open = peer.open_directory("dir").await;
                search(&mut peer, open, "*");
            }
            tokio::task::yield_now().await;
            let (mut beside, mut behind) = (0, 0);
            while server.pool.work_once() {
                beside += 1;
            }
            while server.long_work.work_once() {
                behind += 1;
            }
            assert_eq!((beside, behind), (crate::state::shared::SHORT_LISTINGS, 3));
            let mut answered = 0;
            while answered < begun {
                answered += usize::from(peer.receive().await.status() == Status::SUCCESS);
            }
        }
    };
    LocalSet::new().run_until(test).await;
}
