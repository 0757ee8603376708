//! What is kept of looks, and what is made of them.

use std::collections::HashMap;
use std::time::Duration;

use server::admin::{
    Authentication, BreakView, CacheKind, CountersRow, CountersView, Counts, Delayed, Events, LimitOf, Multichannel,
    Protection, Rate, Scope, SessionView, ShareRates, ShareView, UsedUp,
};

use crate::why::{About, Cores, Shard};
use crate::{History, Look, Minute, Now, ShardTime, Throttled};

fn look(seconds: u64, rows: &[(Scope, u64)]) -> Look {
    let row = |(scope, number): &(Scope, u64)| CountersRow {
        scope: scope.clone(),
        counts: Counts::from_parts(vec![(0, *number)], Vec::new()).unwrap(),
    };
    Look {
        counters: CountersView {
            start: 1,
            at: Duration::from_secs(seconds),
            events: Events::default(),
            rows: rows.iter().map(row).collect(),
        },
        shards: vec![ShardTime { ran: Duration::from_secs(seconds / 2), waited: Duration::ZERO }],
        pool: HashMap::new(),
        throttled: Throttled::default(),
        delayed: HashMap::new(),
        busy: HashMap::new(),
        breaks: Vec::new(),
    }
}

fn share(name: &str) -> Scope {
    Scope::Share { name: Some(name.to_owned()), authentication: Authentication::Ntlm }
}

fn throttled(mut look: Look, requests: u64) -> Look {
    let delayed = Delayed { by: LimitOf::Share, used_up: UsedUp::Requests, requests };
    look.delayed.insert("media".to_owned(), vec![delayed]);
    look
}

fn channel(session: u64, port: u16) -> Scope {
    Scope::Channel {
        session,
        connection: port.into(),
        peer: format!("192.0.2.1:{port}"),
        local: "192.0.2.9:445".to_owned(),
    }
}

fn session(id: u64) -> SessionView {
    SessionView {
        id,
        user: "alice".to_owned(),
        account: "local".to_owned(),
        dialect: 0x0311,
        cipher: None,
        signing: "none".to_owned(),
        peer: String::new(),
        connected_seconds: 0,
        idle_seconds: 0,
        opens: 0,
        shares: vec!["media".to_owned()],
        protection: Protection::Optional,
        multichannel: Multichannel::On,
        channels: Vec::new(),
    }
}

#[test]
fn a_minute_is_kept_and_who_is_idle_takes_nothing() {
    let mut history = History::default();
    for number in 0..100 {
        history.add(look(number * 10, &[(share("busy"), number * 5), (share("idle"), 7)]));
    }
    let slices = history.up_to(&look(993, &[(share("busy"), 496), (share("idle"), 7)]));
    let covers: Duration = slices.iter().map(|slice| slice.passed).sum();
    assert_eq!(covers, Duration::from_secs(63));
    assert!(slices.iter().all(|slice| slice.rows.len() == 1), "{slices:?}");
    let minute = Minute::of(slices, Now::default());
    assert_eq!(minute.evidence(&About::Share("busy".to_owned())).counts.all_requests(), 31);
}

#[test]
fn a_share_is_one_however_its_users_have_signed_in() {
    let by_key = Scope::Share { name: Some("busy".to_owned()), authentication: Authentication::AccountKey };
    let mut history = History::default();
    history.add(look(0, &[(share("busy"), 0), (by_key.clone(), 0)]));
    let slices = history.up_to(&look(10, &[(share("busy"), 5), (by_key, 2)]));
    let evidence = Minute::of(slices, Now::default()).evidence(&About::Share("busy".to_owned()));
    assert_eq!((evidence.counts.all_requests(), evidence.neighbours.len()), (7, 0));
}

#[test]
fn looks_that_come_often_do_not_make_it_grow() {
    let mut history = History::default();
    for number in 0..10_000 {
        let mut one = look(number, &[(share("busy"), number)]);
        one.counters.at = Duration::from_millis(number);
        history.add(one);
    }
    assert!(history.up_to(&look(10, &[])).len() <= 13);
}

#[test]
fn a_look_that_another_one_overtook_adds_nothing() {
    let mut history = History::default();
    history.add(look(0, &[(share("busy"), 0)]));
    history.add(look(10, &[(share("busy"), 5)]));
    let minute = Minute::of(history.up_to(&look(9, &[(share("busy"), 4)])), Now::default());
    assert_eq!(minute.evidence(&About::Share("busy".to_owned())).counts.all_requests(), 5);
}

#[test]
fn of_many_sessions_those_are_kept_that_did_most() {
    let rows = |times: u64| -> Vec<(Scope, u64)> {
        let scope = |id| Scope::Session { id, user: "alice".to_owned(), account: "local".to_owned() };
        (0..2_000).map(|id| (scope(id), id * times)).chain([(share("media"), times)]).collect()
    };
    let mut history = History::default();
    history.add(look(0, &rows(0)));
    history.add(look(10, &rows(1)));
    let slices = history.up_to(&look(20, &rows(2)));
    for slice in &slices {
        let least = slice.rows.values().map(Counts::all_requests).filter(|requests| *requests > 1).min();
        assert_eq!((slice.rows.len(), least), (1_025, Some(976)));
        assert!(slice.rows.contains_key(&About::Share("media".to_owned())));
    }
    assert_eq!(slices.len(), 2);
}

#[test]
fn a_share_is_throttled_since_the_last_slice_without_waiting() {
    let mut history = History::default();
    for (seconds, requests) in [(0, 5), (10, 5), (20, 6), (30, 8)] {
        history.add(throttled(look(seconds, &[]), requests));
    }
    let now = throttled(look(35, &[]), 9);
    assert_eq!(history.throttled_for("media", &now), Some(Duration::from_secs(25)));
    history.add(throttled(look(40, &[]), 8));
    let quiet = throttled(look(45, &[]), 8);
    assert_eq!(history.throttled_for("media", &quiet), None);
    let again = throttled(look(45, &[]), 9);
    assert_eq!(history.throttled_for("media", &again), Some(Duration::from_secs(5)));
}

#[test]
fn threads_that_came_and_went_are_counted_with_what_they_did_between_two_looks() {
    let time = |ran, waited| ShardTime { ran: Duration::from_secs(ran), waited: Duration::from_secs(waited) };
    let of = |seconds, pool: &[(u64, ShardTime)], times| Look {
        pool: pool.iter().copied().collect(),
        throttled: Throttled { times, time: Duration::from_secs(times) },
        ..look(seconds, &[(share("media"), seconds)])
    };
    let mut history = History::default();
    history.add(of(0, &[(1, time(5, 5)), (2, time(9, 9)), (3, time(1, 0))], 7));
    let slices = history.up_to(&of(10, &[(1, time(6, 8)), (3, time(1, 0)), (4, time(2, 1))], 9));
    let cores = Minute::of(slices, Now::default()).evidence(&About::Share("media".to_owned())).cores;
    let known =
        Cores { passed: 10.0, pool_ran: 3.0, pool_waited: 4.0, pool_threads: 2, throttled_times: 2, throttled: 2.0 };
    assert_eq!(cores, known);
}

#[test]
fn who_held_a_lease_until_a_while_ago_does_no_more_and_a_limit_of_then_is_not_waited_for_now() {
    let holder = |open| BreakView {
        open,
        session: 1,
        user: "bob".to_owned(),
        peer: String::new(),
        share: "media".to_owned(),
        path: "file".to_owned(),
        kind: CacheKind::Lease,
        waiting: 1,
        told_ago: Duration::from_secs(open),
    };
    let of = |seconds, breaks: &[u64], requests| {
        let breaks = breaks.iter().map(|open| holder(*open)).collect();
        throttled(Look { breaks, ..look(seconds, &[(share("media"), seconds)]) }, requests)
    };
    let mut history = History::default();
    for one in [of(0, &[], 0), of(10, &[20, 30], 5), of(20, &[30], 5), of(30, &[], 5)] {
        history.add(one);
    }
    let view = ShareView {
        name: "media".to_owned(),
        account: "local".to_owned(),
        seal_required: false,
        rates: ShareRates::default(),
        account_rate: Rate::default(),
        credits: 0,
        waits: None,
        delayed: Vec::new(),
    };
    let minute = |last: &Look| {
        Minute::of(history.up_to(last), Now { shares: vec![view.clone()], ..Now::default() })
            .evidence(&About::Share("media".to_owned()))
    };
    let evidence = minute(&of(35, &[40], 5));
    let seen: Vec<_> =
        evidence.breaks.iter().map(|one| (one.view.open, one.seen_ago.map(|ago| ago.as_secs()))).collect();
    assert_eq!(seen, [(40, None), (30, Some(15)), (20, Some(25))]);
    assert_eq!((evidence.shares[0].delayed.len(), evidence.shares[0].delayed_lately.len()), (1, 0));
    assert_eq!(minute(&of(35, &[], 9)).shares[0].delayed_lately[0].requests, 4);
}

#[test]
fn shares_come_before_sessions_and_sessions_by_their_numbers() {
    let now = Now { sessions: vec![session(255)], ..Now::default() };
    let minute = Minute::of(Vec::new(), now);
    let alice = About::Session { id: 255, user: "alice".to_owned() };
    assert_eq!(minute.find("255"), Some(alice.clone()));
    assert_eq!(minute.find("0xff"), Some(alice));
    assert_eq!((minute.find("254"), minute.find("media"), minute.find("")), (None, None, None));
}

#[test]
fn a_session_had_as_many_channels_as_it_ever_had_in_that_time() {
    let mut history = History::default();
    let of_session =
        |requests| (Scope::Session { id: 1, user: "alice".to_owned(), account: "local".to_owned() }, requests);
    history.add(look(0, &[of_session(0)]));
    history.add(look(10, &[of_session(5), (channel(1, 1), 3), (channel(1, 2), 2)]));
    let slices = history.up_to(&look(15, &[of_session(9), (channel(1, 1), 7)]));
    let minute = Minute::of(slices, Now { sessions: vec![session(1)], ..Now::default() });
    let evidence = minute.evidence(&About::Session { id: 1, user: "alice".to_owned() });
    assert_eq!((evidence.sessions[0].channels_most, evidence.counts.all_requests()), (2, 9));
    assert_eq!(evidence.shards, [Shard { ran: 7.0 / 15.0, waited: 0.0 }]);
}

#[test]
fn only_channels_that_move_much_are_asked_for() {
    let mut history = History::default();
    history.add(look(0, &[]));
    let moves = Counts::from_parts(vec![(read_bytes(), 100)], Vec::new()).unwrap();
    let mut counters = look(10, &[(channel(1, 1), 3)]).counters;
    counters.rows.push(CountersRow { scope: channel(1, 2), counts: moves });
    assert_eq!(history.movers(&counters, 100), [channel(1, 2)]);
    assert_eq!(history.movers(&counters, 101), []);
}

fn read_bytes() -> u16 {
    use server::admin::{Api, ResponseType, Sum};
    let slot = Api::ALL.len() * ResponseType::ALL.len() + Api::Read as usize * Sum::ALL.len() + Sum::ReadBytes as usize;
    slot as u16
}
