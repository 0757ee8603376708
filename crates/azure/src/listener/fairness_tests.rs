//! What one account asks for keeps no other account waiting.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::proof_tests::{Kit, PATIENCE, Talk, range};
use super::stays::{SILENT_AT_LEAST, STUCK_AT_LEAST};
use super::*;

/// How soon another account is answered, and what was left ends.
const SOON: Duration = Duration::from_secs(8);
/// Operations a second of a slow share: the fewest that there can be.
const FEW: u32 = 10;

/// A listing of an account's share, on a connection of its own.
fn list(kit: &Kit, account: &str) -> Talk {
    let query = Kit::signed_for(account, &kit.keys_of(account).key1);
    kit.ask("GET", &format!("/{account}/{}/?restype=directory&comp=list&{query}", Kit::share(account)), "")
}

fn wait_until(is_so: impl Fn() -> bool, within: Duration) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < within, "not within {within:?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_only_reads_ends_where_nobody_waits_for_its_answer() {
    let kit = Kit::with(&[("slow", Some(FEW))], Places::new(1024));
    assert_eq!(list(&kit, "slow").answer().0, 200);
    let those: Vec<_> = (0..60).map(|_| list(&kit, "slow")).collect();
    wait_until(|| Arc::strong_count(&kit.front.service) > 20, PATIENCE);
    drop(those);
    wait_until(|| Arc::strong_count(&kit.front.service) == 1, Duration::from_secs(2));
    // What was opened for it meanwhile is closed.
    wait_until(|| kit.front.places.nobody_runs(), PATIENCE);
    let own = |kit: &Kit| kit.front.service.operations.opens(|_| true).len();
    wait_until(|| own(&kit) == 0, PATIENCE);
}

#[test]
fn an_account_that_asks_for_more_than_its_share_does_keeps_no_other_waiting() {
    let kit = Kit::with(&[("slow", Some(FEW)), ("quick", None)], Places::new(64));
    assert_eq!(list(&kit, "quick").answer().0, 200);
    let mut those = Vec::new();
    for _ in 0..150 {
        those.push(list(&kit, "slow"));
    }
    for _ in 0..3 {
        let began = Instant::now();
        let (status, code, _) = list(&kit, "quick").answer();
        assert_eq!((status, &*code), (200, ""));
        assert!(began.elapsed() < SOON, "after {:?}", began.elapsed());
    }
}

#[test]
fn a_long_head_without_room_is_told_to_come_again() {
    let kit = Kit::with(&[("work", None)], Places::new(64));
    let query = Kit::signed_for("work", &kit.keys_of("work").key1);
    let ask = |bytes: usize| {
        let (head, target) = (
            format!("x-ms-meta-a: {}\r\n", "a".repeat(bytes)),
            format!("/work/docs/?restype=directory&comp=list&{query}"),
        );
        let (status, code, _) = kit.ask("GET", &target, &head).answer();
        (status, code)
    };
    assert_eq!(ask(20 << 10), (200, String::new()));
    let held = all_for_heads(&kit, "work");
    assert_eq!(ask(20 << 10), (503, "ServerBusy".to_owned()));
    assert_eq!(ask(2 << 10), (200, String::new()));
    drop(held);
    assert_eq!(ask(20 << 10), (200, String::new()));
}

#[test]
fn so_is_one_of_a_call_of_the_management_interface() {
    let kit = Kit::with(&[("work", None)], Places::new(64));
    let ask = |bytes: usize| {
        let head = format!("x-ms-a: {}\r\n", "a".repeat(bytes));
        kit.ask("GET", "/subscriptions?api-version=2022-12-01", &head).answer().0
    };
    assert_eq!(ask(20 << 10), 401);
    let held = all_for_heads(&kit, "");
    assert_eq!((ask(20 << 10), ask(2 << 10)), (503, 401));
    drop(held);
    assert_eq!(ask(20 << 10), 401);
}

/// All the room for long heads that an account, or nobody, has from this machine.
fn all_for_heads(kit: &Kit, account: &str) -> Vec<impl Sized> {
    let head = Request::get("/").header("a", "a".repeat(10 << 10)).body(()).unwrap();
    let taker = Taker::of(account, kit.rest.address().ip());
    std::iter::from_fn(|| kit.front.heads.hold(&taker, head.uri(), head.headers()).ok()).collect()
}

#[test]
fn a_call_of_the_management_interface_keeps_its_place_while_it_is_worked_at() {
    let kit = Kit::with(&[("work", None)], Places::new(2));
    let body = br#"{"properties":{"metadata":{}}}"#;
    let mut call = kit.manage("PATCH", "ops", body.len());
    let held = kit.hold_catalog();
    call.send(body);
    wait_until(|| kit.front.places.those() == [Doing::Waiting], PATIENCE);
    // Strangers come for longer than it would stay if it were still.
    let began = Instant::now();
    let mut strangers = Vec::new();
    while began.elapsed() < STUCK_AT_LEAST + 2 * SILENT_AT_LEAST {
        strangers.push(TcpStream::connect(kit.rest.address()).unwrap());
        thread::sleep(SILENT_AT_LEAST / 4);
    }
    drop(held);
    assert_eq!(call.answer().0, 200);
    wait_until(|| kit.front.places.nobody_runs(), PATIENCE);
}

#[test]
fn names_that_no_share_has_are_one_part_of_their_account() {
    let kit = Kit::with(&[("work", None)], Places::new(64));
    let mut puts = Vec::new();
    for share in ["docs", "none", "other", "third"] {
        let query = Kit::signed_for_share("work", share, &kit.keys_of("work").key1);
        let mut put = kit.ask("PUT", &format!("/work/{share}/file?comp=range&{query}"), &range(8));
        put.send(b"half");
        puts.push(put);
    }
    let (arriving, all) = (&kit.front.bodies.arriving, Bodies::default().arriving.free());
    wait_until(|| arriving.free() == all - 4 * 4, PATIENCE);
    assert_eq!(arriving.parts("work"), 2);
}
