//! Each cause from evidence that is invented, and none where there is none.

use std::collections::BTreeMap;
use std::time::Duration;

use server::admin::{
    Api, BreakView, CacheKind, ChannelView, Counts, Delayed, InterfaceView, LATENCY_BUCKETS, LimitOf, Multichannel,
    Protection, Rate, RequestRate, ResponseType, SessionView, ShareRates, ShareView, StoreWait, Sum, UsedUp,
    latency_bucket,
};

use super::*;

const MIB: u64 = 1 << 20;

/// Requests of one API, as they are counted.
#[derive(Clone, Copy)]
struct Work {
    api: Api,
    requests: u64,
    /// Of all together: seconds in the server, and of them what they waited for.
    seconds: f64,
    budget: f64,
    store: f64,
    other_client: f64,
    /// Bytes read or written, and with that received and sent.
    bytes: u64,
}

fn work(api: Api, requests: u64, seconds: f64) -> Work {
    Work { api, requests, seconds, budget: 0.0, store: 0.0, other_client: 0.0, bytes: requests * 4096 }
}

fn counts(all: &[Work]) -> Counts {
    let sums_begin = Api::ALL.len() * ResponseType::ALL.len();
    let latencies_begin = sums_begin + Api::ALL.len() * Sum::ALL.len();
    let mut slots: BTreeMap<usize, u64> = BTreeMap::new();
    for one in all {
        let sum = |of: Sum| sums_begin + one.api as usize * Sum::ALL.len() + of as usize;
        let nanos = |seconds: f64| (seconds * 1e9) as u64;
        let each = Duration::from_secs_f64(one.seconds / one.requests as f64);
        let bucket = (0..LATENCY_BUCKETS).find(|bucket| latency_bucket(*bucket).contains(&each)).unwrap();
        let of_data = match one.api {
            Api::Write => (Sum::WrittenBytes, Sum::ReceivedBytes),
            Api::Read => (Sum::ReadBytes, Sum::SentBytes),
            _ => (Sum::SentBytes, Sum::SentBytes),
        };
        let numbers = [
            (one.api as usize * ResponseType::ALL.len(), one.requests),
            (sum(of_data.0), one.bytes),
            (sum(of_data.1), one.bytes),
            (sum(Sum::TotalNanos), nanos(one.seconds)),
            (sum(Sum::BudgetNanos), nanos(one.budget)),
            (sum(Sum::StoreNanos), nanos(one.store)),
            (sum(Sum::OtherClientNanos), nanos(one.other_client)),
            (latencies_begin + one.api.latency_kind() as usize * LATENCY_BUCKETS + bucket, one.requests),
        ];
        for (slot, number) in numbers {
            slots.insert(slot, number);
        }
    }
    let slots = slots.into_iter().filter(|(_, number)| *number > 0).map(|(slot, number)| (slot as u16, number));
    Counts::from_parts(slots.collect(), Vec::new()).unwrap()
}

fn ran(parts: &[f64]) -> Vec<Shard> {
    parts.iter().map(|ran| Shard { ran: *ran, waited: 0.0 }).collect()
}

fn session(counts: &Counts) -> SessionFacts {
    let channel = ChannelView {
        peer: "192.0.2.1:50000".to_owned(),
        local: "192.0.2.9:445".to_owned(),
        shard: 0,
        bytes_received: 0,
        bytes_sent: 0,
        requests: 0,
        signing: "AES-GMAC".to_owned(),
        outstanding: 0,
        together_most: 1,
        connected_seconds: 100,
    };
    let view = SessionView {
        id: 42,
        user: "alice".to_owned(),
        account: "local".to_owned(),
        dialect: 0x0311,
        cipher: None,
        signing: "AES-GMAC".to_owned(),
        peer: channel.peer.clone(),
        connected_seconds: 100,
        idle_seconds: 0,
        opens: 1,
        shares: vec!["media".to_owned()],
        protection: Protection::Signed,
        multichannel: Multichannel::On,
        channels: vec![channel.clone()],
    };
    let path =
        Path { round_trip_min: Duration::from_micros(100), round_trip: Duration::from_micros(150), ..Path::default() };
    let channels = vec![ChannelFacts { view: channel, path: Some(path) }];
    SessionFacts { view, counts: counts.clone(), active: Duration::from_secs(60), channels, channels_most: 1 }
}

fn evidence(all: &[Work]) -> Evidence {
    let counts = counts(all);
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
    Evidence {
        about: About::Share("media".to_owned()),
        covers: Duration::from_secs(60),
        active: Duration::from_secs(60),
        ends: TimeOfDay(36_120),
        sessions: vec![session(&counts)],
        counts,
        neighbours: Vec::new(),
        shares: vec![ShareFacts {
            view,
            delayed: Vec::new(),
            delayed_lately: Vec::new(),
            throttled_for: None,
            plan: Plan::default(),
        }],
        breaks: Vec::new(),
        interfaces: Vec::new(),
        shards: ran(&[0.3, 0.2]),
        cores: Cores { passed: 60.0, pool_threads: 8, ..Cores::default() },
        protection: BTreeMap::from([("AES-GMAC".to_owned(), 0.2), ("AES-CMAC".to_owned(), 1.5)]),
    }
}

/// A load with sixteen requests in flight that nothing keeps waiting.
fn fast() -> Work {
    work(Api::Read, 2_400_000, 960.0 * 0.9)
}

/// The first cause, with all that it says as one text.
fn first(evidence: &Evidence) -> (Kind, String) {
    let causes = causes(evidence);
    let first = causes.first().unwrap_or_else(|| panic!("no cause: {:?}", Time::of(evidence)));
    assert!(first.share >= SHARE_MIN && first.share <= 1.0 && !first.command.is_empty(), "{first:?}");
    assert!(first.evidence.values().all(|number| number.is_finite()), "{first:?}");
    (first.kind, format!("{} {}", first.sentences.join(" "), first.command))
}

#[track_caller]
fn says(evidence: &Evidence, kind: Kind, parts: &[&str]) {
    let (found, text) = first(evidence);
    assert_eq!(found, kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

fn limited(by: LimitOf, used_up: UsedUp, rates: ShareRates) -> Evidence {
    let mut evidence = evidence(&[Work { budget: 900.0, ..work(Api::Read, 60_000, 950.0) }]);
    let share = &mut evidence.shares[0];
    share.view.rates = rates;
    share.delayed = vec![Delayed { by, used_up, requests: 50_000 }];
    share.delayed_lately = share.delayed.clone();
    share.throttled_for = Some(Duration::from_secs(600));
    evidence
}

#[test]
fn a_server_with_nothing_to_do_is_not_slow() {
    assert_eq!(causes(&evidence(&[])), []);
    // Somebody who opens a file every few seconds, from a disk that takes its time.
    let seldom = Work { store: 0.3, ..work(Api::Create, 20, 0.31) };
    assert_eq!(causes(&evidence(&[seldom])), []);
}

#[test]
fn a_fast_server_under_load_is_not_slow() {
    assert_eq!(causes(&evidence(&[fast()])), []);
    // Nor where shards poll, which looks like work.
    let polling = Evidence { shards: ran(&[1.0, 1.0]), ..evidence(&[work(Api::Read, 2_400_000, 400.0)]) };
    assert_eq!(causes(&polling), []);
    // Nor where the disk is as fast as disks are.
    let of_disk = Work { store: 300.0, ..work(Api::Write, 600_000, 320.0) };
    assert_eq!(causes(&evidence(&[of_disk])), []);
}

#[test]
fn a_limit_of_requests_is_named_with_whose_it_is_and_since_when() {
    let share = Rate { requests: Some(RequestRate::steady(1000)), mib: None };
    let evidence = limited(LimitOf::Share, UsedUp::Requests, ShareRates { share, ..ShareRates::default() });
    let parts = [
        "The share media has been at its limit of 1000 requests a second since 09:52 UTC.",
        "share update media --iops-max",
    ];
    says(&evidence, Kind::IopsLimit, &parts);
    let evidence = limited(LimitOf::User, UsedUp::Requests, ShareRates { user: share, ..ShareRates::default() });
    says(&evidence, Kind::IopsLimit, &["The user alice of the share media", "--user-iops-max"]);
    let evidence = limited(LimitOf::File, UsedUp::Requests, ShareRates { file: share, ..ShareRates::default() });
    says(&evidence, Kind::IopsLimit, &["A file of the share media"]);
    let evidence = limited(LimitOf::Account, UsedUp::Requests, ShareRates::default());
    says(&evidence, Kind::IopsLimit, &["The account local"]);
}

#[test]
fn a_limit_of_bytes_and_one_of_metadata_are_told_apart() {
    let bytes = Rate { requests: None, mib: Some(50) };
    let evidence = limited(LimitOf::Share, UsedUp::Writes, ShareRates { share: bytes, ..ShareRates::default() });
    says(
        &evidence,
        Kind::ThroughputLimit,
        &["has been at its limit of 50 MiB a second, by writing, since 09:52 UTC.", "--mibps-max"],
    );
    let metadata = Rate { requests: Some(RequestRate::steady(12_000)), mib: None };
    let evidence = limited(LimitOf::Metadata, UsedUp::Requests, ShareRates { metadata, ..ShareRates::default() });
    says(&evidence, Kind::MetadataLimit, &["neither reads nor writes", "--metadata-caching on"]);
}

#[test]
fn what_mends_a_limit_is_what_the_share_can_be_told() {
    let rates = || ShareRates::default();
    let of = |by, used_up, provisioned, caches_metadata| {
        let mut evidence = limited(by, used_up, rates());
        evidence.shares[0].plan = Plan { provisioned, caches_metadata };
        causes(&evidence).remove(0).command
    };
    let share = |used_up, provisioned| of(LimitOf::Share, used_up, provisioned, true);
    let by_size = share(UsedUp::Requests, Some(ProvisionedBy::Size));
    assert!(by_size.contains("--provisioned GIB") && !by_size.contains("--iops"), "{by_size}");
    assert_eq!(share(UsedUp::Reads, Some(ProvisionedBy::Parts)), "multilane share update media --mibps N");
    assert!(share(UsedUp::Requests, None).contains("--iops-max N"));
    let metadata = |is_on| of(LimitOf::Metadata, UsedUp::Requests, Some(ProvisionedBy::Size), is_on);
    assert!(metadata(false).contains("--metadata-caching on"));
    assert!(metadata(true).starts_with("spread the files over several shares"), "{}", metadata(true));
}

#[test]
fn credits_that_ran_out_are_named_before_the_limit() {
    let requests = RequestRate { baseline: 3_000, burst: 10_000, credits_max: 20_000_000 };
    let rate = Rate { requests: Some(requests), mib: Some(100) };
    let rates = ShareRates { share: rate, file: rate, ..ShareRates::default() };
    let mut evidence = limited(LimitOf::Share, UsedUp::Requests, rates);
    evidence.shares[0].plan.provisioned = Some(ProvisionedBy::Parts);
    let parts = ["limit of 3000 requests a second", "credits for bursts have run out: 0 are left", "--iops N"];
    says(&evidence, Kind::BurstCredits, &parts);
    evidence.shares[0].view.credits = 5_000_000;
    let parts = [
        "at its limit of 10000 requests a second in bursts since",
        "Once its 5000000 credits for bursts are used up, its limit is 3000 requests a second.",
    ];
    says(&evidence, Kind::IopsLimit, &parts);
}

#[test]
fn waiting_for_no_limit_of_a_share_is_for_memory() {
    let evidence = evidence(&[Work { budget: 900.0, ..work(Api::Write, 60_000, 950.0) }]);
    says(&evidence, Kind::Memory, &["memory"]);
}

#[test]
fn a_store_that_does_not_answer_is_named_though_no_request_has_ended() {
    let mut evidence = evidence(&[]);
    evidence.shares[0].view.waits = Some(StoreWait { count: 8, longest: Duration::from_secs(75) });
    let parts = ["The store of the share media does not answer: 8 requests wait for it, the first for 75.0 s now."];
    says(&evidence, Kind::SlowStore, &parts);
    evidence.shares[0].view.waits = Some(StoreWait { count: 1, longest: Duration::from_secs(75) });
    says(&evidence, Kind::SlowStore, &["does not answer: one request waits for it"]);
    evidence.shares[0].view.waits = Some(StoreWait { count: 1, longest: Duration::from_secs(2) });
    assert_eq!(causes(&evidence), [], "it may be slow once");
}

#[test]
fn who_holds_a_lease_is_named_with_the_file_and_since_when() {
    let mut evidence = evidence(&[work(Api::Create, 20, 0.1)]);
    let view = BreakView {
        open: 7,
        session: 9,
        user: "bob".to_owned(),
        peer: "192.0.2.7:50001".to_owned(),
        share: "media".to_owned(),
        path: r"films\one.mkv".to_owned(),
        kind: CacheKind::Lease,
        waiting: 2,
        told_ago: Duration::from_secs(30),
    };
    evidence.breaks = vec![Holder { view: view.clone(), seen_ago: None }];
    let parts =
        ["bob at 192.0.2.7:50001 holds a lease on \\films\\one.mkv", "at 10:01 UTC, 30.0 s ago", "close open 7"];
    says(&evidence, Kind::LeaseHolder, &parts);
    let mut over = super::tests::evidence(&[Work { other_client: 35.0, ..work(Api::Create, 20, 35.1) }]);
    says(&over, Kind::LeaseHolder, &["other clients"]);
    // What is over is told as that, and counted once.
    over.breaks = vec![Holder { view: view.clone(), seen_ago: Some(Duration::from_secs(20)) }];
    says(
        &over,
        Kind::LeaseHolder,
        &[
            "bob at 192.0.2.7:50001 held a lease on",
            "told at 10:01 UTC to give it up, and had not 30.0 s later. That is over.",
        ],
    );
    assert_eq!(Time::of(&over).other_client, 35.0);
    // Who still holds one comes first.
    over.breaks.push(Holder { view: BreakView { open: 8, waiting: 1, ..view }, seen_ago: None });
    says(&over, Kind::LeaseHolder, &["has not", "close open 8"]);
}

#[test]
fn who_waits_for_a_change_of_a_folder_is_not_slow() {
    let watching = Work { other_client: 3_000.0, ..work(Api::ChangeNotify, 30, 3_000.0) };
    assert_eq!(causes(&evidence(&[watching])), []);
}

#[test]
fn a_slow_disk_is_named_with_its_percentiles() {
    let evidence = evidence(&[Work { store: 240.0, ..work(Api::Read, 6_000, 243.0) }]);
    says(&evidence, Kind::SlowStore, &["The store of the share media is slow", "Half of the reads take 3", "99 %"]);
}

fn moving(bytes: u64, seconds: f64) -> Evidence {
    let mut evidence = evidence(&[Work { bytes, ..work(Api::Read, bytes / MIB, seconds) }]);
    evidence.sessions[0].channels[0].path = Some(Path { busy: 0.98, ..Path::default() });
    evidence.interfaces = ["192.0.2.9", "198.51.100.9"]
        .map(|address| InterfaceView {
            index: 2,
            address: address.parse().unwrap(),
            bits_per_second: 1_000_000_000,
            rss: false,
        })
        .to_vec();
    evidence
}

#[test]
fn one_channel_where_several_are_possible_is_named_with_what_is_in_the_way() {
    let mut evidence = moving(6_000 * MIB, 100.0);
    says(&evidence, Kind::OneChannel, &["session 42 of alice goes over one channel", "2 addresses", "RSS"]);
    evidence.sessions[0].view.multichannel = Multichannel::Off;
    says(&evidence, Kind::OneChannel, &["multichannel off", "account update local --multichannel on"]);
    evidence.sessions[0].view.dialect = 0x0302;
    says(&evidence, Kind::OneChannel, &["3.1.1"]);
    evidence.sessions[0].view.multichannel = Multichannel::On;
    evidence.interfaces.truncate(1);
    assert_eq!(causes(&evidence), [], "no other channel is possible");
    evidence.interfaces[0].rss = true;
    says(&evidence, Kind::OneChannel, &["one address, with receive-side scaling"]);
}

#[test]
fn a_channel_that_has_room_is_not_in_the_way() {
    let mut evidence = moving(6_000 * MIB, 100.0);
    evidence.sessions[0].channels[0].path = Some(Path { busy: 0.2, ..Path::default() });
    assert_eq!(causes(&evidence), []);
}

#[test]
fn channels_that_were_lost_or_are_silent_are_counted() {
    let mut evidence = moving(20_000 * MIB, 100.0);
    let session = &mut evidence.sessions[0];
    session.channels_most = 4;
    session.channels = vec![session.channels[0].clone(); 3];
    says(&evidence, Kind::ChannelLost, &["has lost 1 of its 4 channels"]);
    let session = &mut evidence.sessions[0];
    session.channels.push(session.channels[0].clone());
    session.channels[3].path = Some(Path { unanswered: 3, ..Path::default() });
    says(&evidence, Kind::ChannelLost, &["lost 1 of its 4", "does not answer on 192.0.2.1:50000"]);
    evidence.sessions[0].channels[3].path = None;
    assert!(causes(&evidence).is_empty());
}

#[test]
fn small_requests_one_at_a_time_are_told_by_littles_law() {
    // 3,000 a second, each 30 us in the server: the client and the network take the other 300 us.
    let one = work(Api::Read, 180_000, 5.4);
    let mut evidence = evidence(&[one]);
    says(
        &evidence,
        Kind::OneAtATime,
        &["one request at a time: 3000 a second, of 4.0 KiB", "answers in 30 us; 303 us pass"],
    );
    // On a long way few are as much one at a time: 45 a second where the way takes 20 ms.
    evidence = super::tests::evidence(&[work(Api::Read, 2_700, 0.1)]);
    evidence.sessions[0].channels[0].path = Some(Path {
        round_trip_min: Duration::from_millis(20),
        round_trip: Duration::from_millis(21),
        ..Path::default()
    });
    says(&evidence, Kind::OneAtATime, &["45 a second"]);
    // As many with nothing on the way are somebody who has little to do, whatever acknowledgements say that were put off.
    evidence.sessions[0].channels[0].path = Some(Path { round_trip: Duration::from_millis(30), ..Path::default() });
    assert_eq!(causes(&evidence), []);
}

#[test]
fn signing_is_named_with_what_it_takes_of_the_shards() {
    // 60 GiB in a minute, with CMAC.
    let bytes = 60 << 30;
    let mut evidence = evidence(&[Work { bytes, ..work(Api::Read, bytes / MIB, 500.0) }]);
    evidence.shards = ran(&[0.95, 0.97]);
    evidence.sessions[0].view.signing = "AES-CMAC".to_owned();
    says(&evidence, Kind::Protection, &["Signing with AES-CMAC is about 84 % of what the shards compute", "AES-GMAC"]);
    evidence.sessions[0].view.signing = "AES-GMAC".to_owned();
    assert!(causes(&evidence).iter().all(|cause| cause.kind != Kind::Protection), "{:?}", causes(&evidence));
    evidence.protection.insert("AES-128-GCM".to_owned(), 0.8);
    evidence.sessions[0].view.cipher = Some("AES-128-GCM".to_owned());
    evidence.shares[0].view.seal_required = true;
    says(&evidence, Kind::Protection, &["Sealing with AES-128-GCM", "--seal off"]);
}

#[test]
fn listings_of_large_folders_are_told_with_how_many_names() {
    let listing = Work { store: 40.0, bytes: 128 * MIB, ..work(Api::QueryDirectory, 2_048, 55.0) };
    let evidence = evidence(&[listing, work(Api::Read, 1_000, 0.1)]);
    says(&evidence, Kind::Listing, &["about 1048576 names in 2048 requests"]);
}

#[test]
fn a_neighbour_who_has_the_shards_busy_is_named() {
    let mut evidence = evidence(&[work(Api::Read, 10_000, 50.0)]);
    evidence.shards = ran(&[0.99]);
    evidence.neighbours = vec![Neighbour { who: About::Share("loud".to_owned()), counts: counts(&[fast()]) }];
    says(&evidence, Kind::Neighbour, &["work is that of the share loud", "share update loud --iops-max"]);
    let session = About::Session { id: 5, user: "eve".to_owned() };
    evidence.neighbours[0].who = session;
    evidence.neighbours[0].counts = counts(&[work(Api::Read, 2_400_000, 6_000.0)]);
    // What waits in a socket is not counted: it is known by how long the other one's turns take.
    let short = super::tests::evidence(&[work(Api::Read, 30_000, 3.0)]);
    (evidence.counts, evidence.sessions) = (short.counts, short.sessions);
    says(&evidence, Kind::Neighbour, &["session 5 of eve", "close session 5"]);
}

#[test]
fn shards_without_time_are_named_where_nobody_in_particular_takes_it() {
    let mut evidence = evidence(&[work(Api::Read, 600_000, 1_800.0)]);
    evidence.shards = ran(&[0.99, 0.98]);
    says(&evidence, Kind::Shards, &["2 shards have work 98 % of the time"]);
    evidence.shards = ran(&[0.99, 0.02]);
    says(&evidence, Kind::Shards, &["--multichannel on"]);
    evidence.shards = vec![Shard { ran: 0.4, waited: 0.55 }];
    says(&evidence, Kind::NoCore, &["they waited 58 % for a core", "Other programs have the cores."]);
}

#[test]
fn a_store_is_not_blamed_for_what_its_threads_wait_for_a_core() {
    // Eight threads on a fast disk, with other programs on the cores: most of what is counted as the store's is theirs.
    let mut evidence = evidence(&[Work { store: 240.0, ..work(Api::Read, 6_000, 243.0) }]);
    evidence.cores = Cores { passed: 60.0, pool_ran: 20.0, pool_waited: 220.0, pool_threads: 8, ..Cores::default() };
    says(
        &evidence,
        Kind::NoCore,
        &["no time for the server", "waited 81 %", "91 % of the time", "Other programs have the cores.", "top "],
    );
    assert!(causes(&evidence).iter().all(|cause| cause.kind != Kind::SlowStore), "{:?}", causes(&evidence));
    evidence.cores = Cores { throttled_times: 512, throttled: 41.0, ..evidence.cores };
    says(
        &evidence,
        Kind::NoCore,
        &["limit of processor time has stopped it 512 times, for 41.0 s in all", "CPUQuota="],
    );
    // A slow disk on a machine that has something to do, too, stays one.
    evidence.cores = Cores { passed: 60.0, pool_ran: 2.0, pool_waited: 10.0, pool_threads: 8, ..Cores::default() };
    says(&evidence, Kind::SlowStore, &["is slow"]);
    // What other shares have the threads do is not this one's.
    evidence.cores.pool_waited = 220.0;
    let other = Work { store: 2_400.0, ..work(Api::Read, 60_000, 2_430.0) };
    evidence.neighbours = vec![Neighbour { who: About::Share("other".to_owned()), counts: counts(&[other]) }];
    evidence.cores.pool_threads = 64;
    says(&evidence, Kind::SlowStore, &["is slow"]);
}

#[test]
fn a_limit_that_is_waited_for_now_comes_before_one_that_was() {
    let share = Rate { requests: Some(RequestRate::steady(1000)), mib: Some(50) };
    let mut evidence = limited(LimitOf::Share, UsedUp::Requests, ShareRates { share, ..ShareRates::default() });
    let now = Delayed { by: LimitOf::Share, used_up: UsedUp::Writes, requests: 300 };
    evidence.shares[0].delayed.push(now);
    evidence.shares[0].delayed_lately = vec![now];
    says(&evidence, Kind::ThroughputLimit, &["has been at its limit of 50 MiB a second", "300 requests"]);
    evidence.shares[0].delayed_lately.clear();
    says(
        &evidence,
        Kind::IopsLimit,
        &["was at its limit of 1000 requests a second in this minute, and is not just now."],
    );
}

#[test]
fn requests_that_come_many_at_once_are_no_client_with_one_at_a_time() {
    let mut evidence = evidence(&[work(Api::Read, 180_000, 5.4)]);
    evidence.sessions[0].channels[0].view.together_most = 3;
    says(&evidence, Kind::OneAtATime, &["one request at a time"]);
    evidence.sessions[0].channels[0].view.together_most = 32;
    says(&evidence, Kind::InBursts, &["in bursts, up to 32 at once", "3000 a second on average"]);
}

#[test]
fn the_cause_that_explains_most_comes_first_and_small_ones_not_at_all() {
    let both = Work { store: 300.0, budget: 600.0, ..work(Api::Read, 10_000, 910.0) };
    let mut evidence = evidence(&[both]);
    evidence.shares[0].delayed = vec![Delayed { by: LimitOf::Share, used_up: UsedUp::Requests, requests: 9_000 }];
    let kinds: Vec<Kind> = causes(&evidence).iter().map(|cause| cause.kind).collect();
    assert_eq!(kinds, [Kind::IopsLimit, Kind::SlowStore]);
    let little = Work { store: 100.0, ..both };
    evidence.counts = counts(&[little]);
    let kinds: Vec<Kind> = causes(&evidence).iter().map(|cause| cause.kind).collect();
    assert_eq!(kinds, [Kind::IopsLimit]);
}

#[test]
fn names_are_quoted_for_a_shell() {
    assert_eq!(
        (quoted("media"), quoted("my share"), quoted("it's$")),
        ("media".into(), "'my share'".into(), r"'it'\''s$'".into())
    );
}
