//! Shares whose requests and bytes a second are limited, seen by their clients.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};
use wire::command::close::CloseRequest;
use wire::command::write::WriteRequest;
use wire::ids::Command;
use wire::status::Status;

use crate::admin::{Admin, Delayed, LimitOf, OpenLimits, Rate, RequestRate, ShareRates, Signing, UsedUp};
use crate::state::shared::Shared;
use crate::tests::flight_tests::{Wired, working_here};
use crate::tests::testing::{Peer, server};

const BUFFER: usize = 8 << 20;

fn limit(server: &Shared, rates: ShareRates) {
    server.configuration.load().shares[0].limit.change(&rates);
}

fn requests(each_second: u32) -> Rate {
    Rate { requests: Some(RequestRate::steady(each_second)), mib: None }
}

fn assert_near(found: u64, expected: u64) {
    assert!((expected * 98 / 100..=expected * 102 / 100).contains(&found), "{found} where {expected} is meant");
}

/// Keeps `depth` READs of `length` bytes on their way; counts those that are answered.
async fn reads(server: &Arc<Shared>, depth: usize, length: u32) -> Rc<Cell<u64>> {
    let mut client = Wired::new(server, BUFFER).await;
    let answered = Rc::new(Cell::new(0));
    let count = Rc::clone(&answered);
    spawn_local(async move {
        for _ in 0..depth {
            client.ask_for(length).await;
        }
        loop {
            assert_eq!(client.last_answer().await.status, Status::SUCCESS);
            count.set(count.get() + 1);
            client.ask_for(length).await;
        }
    });
    answered
}

async fn within(answered: &Cell<u64>, time: Duration) -> u64 {
    let before = answered.get();
    sleep(time).await;
    answered.get() - before
}

#[tokio::test(start_paused = true)]
async fn a_share_answers_as_many_requests_as_it_may_and_a_neighbour_notices_nothing() {
    let test = async {
        let server = working_here(server(Signing::Enabled));
        limit(&server, ShareRates { share: requests(300), ..ShareRates::default() });
        let answered = reads(&server, 64, 4_096).await;
        sleep(Duration::from_secs(1)).await;
        assert_near(within(&answered, Duration::from_secs(10)).await, 3_000);
        // What is on no share waits for nothing, nor does another share.
        let began = Instant::now();
        let mut other = Peer::connect_as(&server, Default::default());
        other.negotiate().await;
        other.set_up_session().await;
        assert_eq!(other.connect("IPC$").await, Status::SUCCESS);
        assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
        limit(&server, ShareRates { share: requests(3_000), ..ShareRates::default() });
        assert_near(within(&answered, Duration::from_secs(10)).await, 30_000);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn bytes_of_a_share_of_a_file_and_of_a_user_are_limited() {
    let test = async {
        let mib = |mib| Rate { requests: None, mib: Some(mib) };
        for rates in [
            ShareRates { share: mib(20), ..ShareRates::default() },
            ShareRates { file: mib(20), ..ShareRates::default() },
            ShareRates { user: mib(20), ..ShareRates::default() },
        ] {
            let server = working_here(server(Signing::Enabled));
            limit(&server, rates);
            let answered = reads(&server, 8, 1 << 20).await;
            sleep(Duration::from_secs(1)).await;
            assert_near(within(&answered, Duration::from_secs(10)).await, 200);
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_with_one_request_at_a_time_has_as_much_as_one_with_sixty_four() {
    let test = async {
        let server = working_here(server(Signing::Enabled));
        limit(&server, ShareRates { share: requests(400), ..ShareRates::default() });
        let one = reads(&server, 1, 4_096).await;
        let many = reads(&server, 64, 4_096).await;
        sleep(Duration::from_secs(1)).await;
        let before = many.get();
        let one = within(&one, Duration::from_secs(10)).await;
        let many = many.get() - before;
        assert_near(one + many, 4_000);
        assert!(one.abs_diff(many) * 20 <= one, "{one} and {many}");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_comes_behind_the_writes_that_wait() {
    let test = async {
        let server = working_here(server(Signing::Enabled));
        let mut client = Wired::new(&server, BUFFER).await;
        limit(&server, ShareRates { share: requests(10), ..ShareRates::default() });
        for at in 0..20 {
            let (file_id, data) = (client.file, [1; 512]);
            let write = WriteRequest { file_id, offset: at * 512, data: &data, ..WriteRequest::default() };
            let message = client.request(Command::WRITE, data.len(), |body| write.encode(body));
            client.send(&message).await;
        }
        let close = CloseRequest { file_id: client.file, ..CloseRequest::default() };
        let message = client.request(Command::CLOSE, 0, |body| close.encode(body));
        client.send(&message).await;
        let mut commands = Vec::new();
        for _ in 0..21 {
            let answer = client.last_answer().await;
            assert_eq!(answer.status, Status::SUCCESS, "{:?}", answer.command);
            commands.push(answer.command);
        }
        assert_eq!(commands.pop(), Some(Command::CLOSE));
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_file_and_the_root_have_as_many_opens_as_they_may_and_no_more() {
    let server = server(Signing::Enabled);
    let mut peer = Peer::sign_in(&server).await;
    let other = peer.open("other").await;
    limit(&server, ShareRates { opens: OpenLimits { each: 3, root: 4 }, ..ShareRates::default() });
    let mut files = Vec::new();
    for _ in 0..3 {
        files.push(peer.open("file").await);
    }
    let mut second = Peer::sign_in(&server).await;
    assert_eq!(second.try_open("file").await, Status::QUOTA_EXCEEDED, "whoever asks");
    assert_eq!(second.try_open("other").await, Status::SUCCESS);
    for _ in 0..4 {
        peer.open_directory("").await;
    }
    assert_eq!(second.try_open("").await, Status::QUOTA_EXCEEDED);
    peer.close(files[0]).await;
    assert_eq!(second.try_open("file").await, Status::SUCCESS);
    peer.close(other).await;
}

#[tokio::test(start_paused = true)]
async fn what_waited_when_its_client_went_is_not_made_and_nothing_of_it_is_held() {
    let test = async {
        let server = working_here(server(Signing::Enabled));
        let mut client = Wired::new(&server, BUFFER).await;
        let mut witness = Wired::new(&server, BUFFER).await;
        limit(&server, ShareRates { share: requests(1), ..ShareRates::default() });
        for _ in 0..10 {
            client.ask_for(1 << 20).await;
        }
        sleep(Duration::from_millis(100)).await;
        assert!(witness.used_by_user() > 0);
        // Those who look at the share now see that they wait: at one a second most of them will for long.
        let waiting = server.configuration.load().shares[0].limit.usage().delayed_by_requests;
        assert!(waiting >= 8, "{waiting}");
        let [share] = &server.shares()[..] else { panic!("one is served") };
        let delayed = Delayed { by: LimitOf::Share, used_up: UsedUp::Requests, requests: waiting };
        assert_eq!((&share.delayed[..], share.rates.share), (&[delayed][..], requests(1)));
        drop(client);
        sleep(Duration::from_millis(100)).await;
        assert_eq!(witness.used_by_user(), 0);
        // Nobody pays for what was not made, either.
        limit(&server, ShareRates { share: requests(10), ..ShareRates::default() });
        let began = Instant::now();
        for _ in 0..10 {
            witness.ask_for(4_096).await;
            assert_eq!(witness.last_answer().await.status, Status::SUCCESS);
        }
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    };
    LocalSet::new().run_until(test).await;
}
