//! How long requests take, and what they wait for.

use std::sync::Arc;
use std::time::Duration;

use store::{RamStore, Waits};
use tokio::task::LocalSet;
use tokio::time::{Instant, sleep};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::ReadRequest;
use wire::command::write::WriteRequest;
use wire::ids::Command;
use wire::status::Status;

use crate::admin::Api::{Cancel, Create, Lock, Read, TreeConnect, Write};
use crate::admin::ResponseType::{ClientOtherError, Success, SuccessWithShareIopsThrottling};
use crate::admin::{Api, Counts, LatencyKind, Rate, RequestRate, ShareRates, Signing, Sum, latency_bucket};
use crate::state::shared::Shared;
use crate::tests::counters_tests::{assert_counted, of_share, of_user, view};
use crate::tests::flight_tests::{Wired, working_here};
use crate::tests::testing::{OTHER_USER, Peer, Terms, by_hand, framed, server, server_with, working};

/// How long the store takes for a piece of work.
const STORE_TAKES: Duration = Duration::from_millis(40);

#[tokio::test(start_paused = true)]
async fn what_waits_for_another_client_is_counted_when_it_is_done_or_cancelled() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut holder = Peer::sign_in(&server).await;
        let held = holder.open("file").await;
        let mut peer = Peer::sign_in_as(&server, Terms { user: OTHER_USER, ..Terms::default() }).await;
        let file = peer.open("file").await;
        let lock = |file_id, flags| {
            let element = LockElement { offset: 0, length: 1, flags };
            let elements = [element];
            move |body: &mut Vec<u8>| {
                LockRequest { file_id, locks: LockElements::new(&elements), ..LockRequest::default() }.encode(body);
            }
        };
        let exclusive = LockFlags::EXCLUSIVE_LOCK;
        assert_eq!(holder.ask(Command::LOCK, lock(held, exclusive)).await.status(), Status::SUCCESS);
        // One is cancelled, the other waits until the lock is given up.
        for is_cancelled in [true, false] {
            let mut message = peer.message(Command::LOCK, lock(file, exclusive));
            peer.process(&mut message).unwrap();
            let interim = peer.receive().await;
            assert_eq!(interim.status(), Status::PENDING);
            sleep(Duration::from_secs(3)).await;
            if is_cancelled {
                peer.cancel(&interim.header);
                assert_eq!(peer.last().await.status(), Status::CANCELLED);
            } else {
                assert_eq!(holder.ask(Command::LOCK, lock(held, LockFlags::UNLOCK)).await.status(), Status::SUCCESS);
                assert_eq!(peer.last().await.status(), Status::SUCCESS);
            }
        }
        let counts = of_user(&view(&server), OTHER_USER);
        let expected = [
            (TreeConnect, Success, 1),
            (Create, Success, 1),
            (Lock, Success, 1),
            (Lock, ClientOtherError, 1),
            (Cancel, Success, 1),
        ];
        assert_counted(&counts, &expected);
        let seconds = |sum| Duration::from_nanos(counts.sum(Lock, sum)).as_secs();
        assert_eq!((seconds(Sum::TotalNanos), seconds(Sum::OtherClientNanos)), (6, 6));
        assert_eq!((seconds(Sum::BudgetNanos), seconds(Sum::StoreNanos)), (0, 0));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_limit_of_its_share_is_told_from_the_rest() {
    let test = async {
        let server = working_here(server(Signing::Enabled));
        let mut peer = Peer::sign_in(&server).await;
        let file = peer.open("file").await;
        assert_eq!(peer.write(file, 0, &[7; 4_096]).await, Status::SUCCESS);
        let requests = RequestRate::steady(10);
        let rate = Rate { requests: Some(requests), mib: None };
        server.configuration.load().shares[0].limit.change(&ShareRates { share: rate, ..ShareRates::default() });
        let began = Instant::now();
        for _ in 0..20 {
            assert_eq!(peer.read(file, 0, 4_096).await.status(), Status::SUCCESS);
        }
        let passed = began.elapsed();
        let counts = of_share(&view(&server), "ram");
        let throttled = counts.requests(Read, SuccessWithShareIopsThrottling);
        assert!(throttled > 10, "{throttled}");
        assert_eq!(throttled + counts.requests(Read, Success), 20);
        let waited = Duration::from_nanos(counts.sum(Read, Sum::BudgetNanos));
        assert!(waited <= passed && waited > passed * 9 / 10, "{waited:?} of {passed:?}");
        assert!(counts.sum(Read, Sum::TotalNanos) >= counts.sum(Read, Sum::BudgetNanos));
    };
    LocalSet::new().run_until(test).await;
}

/// Has the store take some time.
async fn works_later(server: &Shared) {
    sleep(STORE_TAKES).await;
    while server.pool.work_once() {}
}

fn assert_waited_for_the_store(counts: &Counts, api: Api, requests: u64) {
    let (total, store) = (counts.sum(api, Sum::TotalNanos), counts.sum(api, Sum::StoreNanos));
    let expected = STORE_TAKES.as_nanos() as u64 * requests;
    assert!(total >= expected && total <= expected * 11 / 10, "{total}");
    assert!(store >= expected && store <= total, "{store} of {total}");
}

#[tokio::test(start_paused = true)]
async fn the_store_takes_its_time_on_the_slow_path_too() {
    let test = async {
        let store = Arc::new(RamStore::that_waits(64 << 20, Waits::ForData));
        let server = by_hand(server_with(Signing::Enabled, store));
        let mut peer = working(&server, Peer::sign_in(&server)).await;
        let file = working(&server, peer.open("file")).await;
        // One that does not lie in an inbox takes the slow path.
        let write = WriteRequest { file_id: file, data: &[7; 100], ..WriteRequest::default() };
        let mut message = peer.message(Command::WRITE, |body| write.encode(body));
        peer.process(&mut message).unwrap();
        works_later(&server).await;
        assert_eq!(peer.last().await.status(), Status::SUCCESS);
        assert_waited_for_the_store(&of_share(&view(&server), "ram"), Write, 1);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn what_the_store_takes_is_told_from_the_rest() {
    const WRITES: u64 = 8;
    let test = async {
        let store = Arc::new(RamStore::that_waits(64 << 20, Waits::ForData));
        let server = by_hand(server_with(Signing::Enabled, store));
        let mut client = working(&server, Wired::new(&server, 1 << 20)).await;
        let before = of_share(&view(&server), "ram");
        let (file_id, data) = (client.file, [7; 4_096]);
        let mut frames = Vec::new();
        for number in 0..WRITES {
            let write = WriteRequest { file_id, offset: number * 4_096, data: &data, ..WriteRequest::default() };
            frames.extend(framed(&client.request(Command::WRITE, 4_096, |body| write.encode(body))));
        }
        client.send_bytes(&frames).await;
        works_later(&server).await;
        for _ in 0..WRITES {
            assert_eq!(client.last_answer().await.status, Status::SUCCESS);
        }
        let passed = of_share(&view(&server), "ram").since(&before);
        assert_counted(&passed, &[(Write, Success, WRITES)]);
        assert_eq!(passed.sum(Write, Sum::WrittenBytes), WRITES * 4_096);
        assert_waited_for_the_store(&passed, Write, WRITES);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_on_the_fast_path_is_counted_with_the_time_until_its_answers_are_sent() {
    const READS: u64 = 16;
    let test = async {
        let server = working_here(server(Signing::Enabled));
        let mut client = Wired::new(&server, 1 << 20).await;
        let before = of_share(&view(&server), "ram");
        let file_id = client.file;
        let mut frames = Vec::new();
        for _ in 0..READS {
            let read = ReadRequest { file_id, length: 4_096, ..ReadRequest::default() };
            frames.extend(framed(&client.request(Command::READ, 4_096, |body| read.encode(body))));
        }
        client.send_bytes(&frames).await;
        for _ in 0..READS {
            assert_eq!(client.last_answer().await.status, Status::SUCCESS);
        }
        let passed = of_share(&view(&server), "ram").since(&before);
        assert_counted(&passed, &[(Read, Success, READS)]);
        let (bucket, count) = passed.latencies(LatencyKind::Read).next().unwrap();
        // Virtual time stands still while a shard works.
        assert_eq!((latency_bucket(bucket).start, count), (Duration::ZERO, READS));
    };
    LocalSet::new().run_until(test).await;
}
