//! Guessing passwords, seen from the connections it is done on.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use secure::ntlm::NtHash;
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::Instant;
use wire::command::session_setup::SessionSetupFlags;
use wire::status::Status;

use crate::admin::Admin;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, Terms, server};

/// A stranger's guess from an address of its own.
fn guess(peer: &'static str) -> Terms {
    Terms { password: "wrong", peer, ..Terms::default() }
}

async fn negotiated(server: &Arc<Shared>, terms: Terms) -> Peer {
    let mut peer = Peer::connect_as(server, terms);
    peer.negotiate().await;
    peer
}

/// Signs in with `terms`; gives what came of it and how long it took.
async fn try_in(server: &Arc<Shared>, terms: Terms) -> (Status, Duration) {
    let mut peer = negotiated(server, terms).await;
    let began = Instant::now();
    let status = peer.sign_in_again(SessionSetupFlags::NONE).await;
    (status, began.elapsed())
}

const HERE: &str = "192.0.2.9:1";
const MOMENT: Duration = Duration::from_millis(50);

#[tokio::test(start_paused = true)]
async fn guesses_in_parallel_are_judged_one_after_the_other() {
    let server = server(Signing::Required);
    let local = LocalSet::new();
    let guesses = |terms: Terms| {
        let server = Arc::clone(&server);
        async move { try_in(&server, terms).await }
    };
    let tries: Vec<_> = (0..200).map(|_| local.spawn_local(guesses(guess(HERE)))).collect();
    // The right one among them is not found out sooner.
    let right = local.spawn_local(guesses(Terms { peer: HERE, ..Terms::default() }));
    local
        .run_until(async {
            let mut judged = 0;
            for attempt in tries {
                let (status, _) = attempt.await.unwrap();
                judged += usize::from(status == Status::LOGON_FAILURE);
            }
            assert!(judged <= 4, "{judged}");
            assert_eq!(right.await.unwrap().0, Status::INSUFFICIENT_RESOURCES);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn the_right_password_is_answered_at_once_from_elsewhere_while_others_guess() {
    let server = server(Signing::Required);
    let local = LocalSet::new();
    for _ in 0..100 {
        let server = Arc::clone(&server);
        local.spawn_local(async move { try_in(&server, guess(HERE)).await });
    }
    local
        .run_until(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let (status, took) = try_in(&server, Terms::default()).await;
            assert!(status == Status::SUCCESS && took < MOMENT, "{status:?} after {took:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn who_guesses_keeps_nothing_inside_the_process_from_signing_in() {
    let server = server(Signing::Required);
    let local = LocalSet::new();
    for _ in 0..200 {
        let server = Arc::clone(&server);
        local.spawn_local(async move { try_in(&server, guess(HERE)).await });
    }
    local
        .run_until(async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let here = Terms { peer: HERE, ..Terms::default() };
            let (outside, _) = try_in(&server, Terms { peer: HERE, ..here }).await;
            assert_eq!(outside, Status::INSUFFICIENT_RESOURCES);
            let (status, took) = try_in(&server, Terms { is_inside: true, ..here }).await;
            assert!(status == Status::SUCCESS && took < MOMENT, "{status:?} after {took:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_its_connection_and_leaves_nothing() {
    let server = server(Signing::Required);
    let local = LocalSet::new();
    local
        .run_until(async {
            for _ in 0..2 {
                assert_eq!(try_in(&server, guess(HERE)).await.0, Status::LOGON_FAILURE);
            }
            let mut peer = negotiated(&server, guess(HERE)).await;
            let connection = Rc::downgrade(&peer.connection.connection);
            let endpoint = Rc::downgrade(&peer.connection);
            let waiting = spawn_local(async move { peer.sign_in_again(SessionSetupFlags::NONE).await });
            tokio::time::sleep(MOMENT).await;
            assert!(connection.strong_count() > 2, "it waits");
            endpoint.upgrade().unwrap().ended();
            let before = Instant::now();
            waiting.abort();
            for _ in 0..3 {
                yield_now().await;
            }
            assert_eq!(connection.strong_count(), 0);
            assert_eq!(before.elapsed(), Duration::ZERO);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_third_attempt_is_judged_two_seconds_later_and_may_be_right() {
    let server = server(Signing::Required);
    LocalSet::new()
        .run_until(async {
            for _ in 0..2 {
                let (status, took) = try_in(&server, guess(HERE)).await;
                assert!(status == Status::LOGON_FAILURE && took < MOMENT);
            }
            let (status, took) = try_in(&server, Terms { peer: HERE, ..Terms::default() }).await;
            assert!(status == Status::SUCCESS && took > Duration::from_millis(1_900), "{took:?}");
            let (status, took) = try_in(&server, guess(HERE)).await;
            assert!(status == Status::LOGON_FAILURE && took < MOMENT, "a success begins anew: {took:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn who_signs_in_again_with_a_secret_that_is_replaced_meanwhile_is_out() {
    let server = server(Signing::Required);
    LocalSet::new()
        .run_until(async {
            let mut configuration = (**server.configuration.load()).clone();
            configuration.principals[0].secrets.push(NtHash::from_password("second").into());
            server.replace(configuration.clone());
            let mut peer = Peer::sign_in_as(&server, Terms { peer: HERE, ..Terms::default() }).await;
            peer.terms.password = "second";
            for _ in 0..2 {
                assert_eq!(try_in(&server, guess(HERE)).await.0, Status::LOGON_FAILURE);
            }
            let waiting = spawn_local(async move { (peer.sign_in_again(SessionSetupFlags::NONE).await, peer) });
            tokio::time::sleep(MOMENT).await;
            configuration.principals[0].secrets.pop();
            server.replace(configuration);
            let (status, peer) = waiting.await.unwrap();
            assert_eq!(status, Status::LOGON_FAILURE);
            assert!(server.sessions.find(peer.session_id).is_none());
        })
        .await;
}
