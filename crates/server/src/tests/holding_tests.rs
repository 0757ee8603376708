//! Clients that have memory held for them and move little of it: they keep it from nobody for long, and who is merely slow is not ended.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::{Instant, sleep, timeout};
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::command::read::ReadRequest;
use wire::ids::Command;
use wire::status::Status;

use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::flight_tests::{Wired, working_here};
use crate::tests::testing::{OTHER_USER, Peer, THIRD_USER, Terms, chained, framed, headers, server};
use crate::tests::waiting_tests::{small_server, write_through};

const MIB: usize = 1 << 20;
const SECOND: Duration = Duration::from_secs(1);

async fn client_of(server: &Arc<Shared>, user: &'static str) -> Wired {
    client_behind(server, user, 32 << 20).await
}

/// A client between whom and the server so many bytes are on their way at most.
async fn client_behind(server: &Arc<Shared>, user: &'static str, on_the_way: usize) -> Wired {
    let peer = Peer::sign_in_as(server, Terms { user, ..Terms::default() }).await;
    Wired::of(peer, on_the_way).await
}

/// Sends `begun` bytes of a WRITE of `length`, so many a second, or all at once, and then a byte every 15 seconds.
async fn stand_still(mut client: Wired, length: usize, begun: usize, rate: Option<usize>) {
    let frame = framed(&write_through(&mut client, length));
    let (beginning, rest) = frame.split_at(begun);
    for part in beginning.chunks(rate.map_or(begun, |rate| rate / 10)) {
        client.offer(part).await;
        sleep(if rate.is_some() { SECOND / 10 } else { Duration::ZERO }).await;
    }
    for byte in rest {
        sleep(15 * SECOND).await;
        if !client.offer(&[*byte]).await {
            return;
        }
    }
}

async fn hold_by_frames(server: &Arc<Shared>, count: usize, user: &'static str) -> Vec<JoinHandle<()>> {
    let mut holding = Vec::new();
    for _ in 0..count {
        let client = client_of(server, user).await;
        holding.push(spawn_local(stand_still(client, 8 * MIB, 7 * MIB, None)));
    }
    sleep(3 * SECOND).await;
    holding
}

/// So many connections send the largest frame but for a byte, which comes just before its client is too far behind, and begin anew.
fn pause_again_and_again(server: &Arc<Shared>, count: usize) {
    for _ in 0..count {
        let server = Arc::clone(server);
        spawn_local(async move {
            loop {
                let mut client = client_of(&server, OTHER_USER).await;
                let frame = framed(&write_through(&mut client, 8 * MIB));
                client.offer(&frame[..frame.len() - 1]).await;
                sleep(7 * SECOND + SECOND / 3).await;
                client.offer(&frame[frame.len() - 1..]).await;
                client.take(80).await;
            }
        });
    }
}

/// Has a client write and read so many bytes in turn, each of which is to be answered in time.
async fn work(client: &mut Wired, length: usize, rounds: usize, patience: Duration) {
    for round in 0..rounds {
        let write = write_through(client, length);
        client.send(&write).await;
        let answered = timeout(patience, client.answer()).await;
        assert_eq!(answered.unwrap_or_else(|_| panic!("WRITE {round} waits")).status, Status::SUCCESS);
        client.ask_for(length as u32).await;
        let answered = timeout(patience, client.answer()).await;
        assert_eq!(answered.unwrap_or_else(|_| panic!("READ {round} waits")).status, Status::SUCCESS);
    }
}

/// Sends a WRITE at so many bytes a second and gives how long that was from its first byte to its answer.
async fn write_slowly(client: &mut Wired, length: usize, rate: usize) -> Duration {
    let frame = framed(&write_through(client, length));
    let began = Instant::now();
    for part in frame.chunks(rate / 10) {
        client.send_bytes(part).await;
        sleep(SECOND / 10).await;
    }
    assert_eq!(client.answer().await.status, Status::SUCCESS);
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn who_stands_still_in_the_middle_of_a_large_frame_keeps_nobody_from_memory_for_long() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut modest = client_of(&server, OTHER_USER).await;
        hold_by_frames(&server, 80, OTHER_USER).await;
        for length in [MIB, 4 * MIB, 8 * MIB] {
            work(&mut modest, length, 5, 40 * SECOND).await;
        }
        // Those that are left are in nobody's way until somebody waits.
        work(&mut modest, 8 * MIB, 50, 3 * SECOND).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn nor_does_who_takes_next_to_nothing_of_what_it_asked_for() {
    let test = async {
        let server = server(Signing::Enabled);
        for _ in 0..40 {
            let mut client = client_behind(&server, OTHER_USER, 64 << 10).await;
            spawn_local(async move {
                for _ in 0..3 {
                    client.ask_for(8 << 20).await;
                }
                while client.take(64 << 10).await {
                    sleep(15 * SECOND).await;
                }
            });
        }
        sleep(3 * SECOND).await;
        let mut modest = client_of(&server, OTHER_USER).await;
        work(&mut modest, 4 * MIB, 5, 30 * SECOND).await;
        work(&mut modest, 4 * MIB, 50, 3 * SECOND).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn who_had_to_wait_for_memory_is_not_slow_for_that() {
    let test = async {
        let server = server(Signing::Enabled);
        // There are always so many who stand still.
        for _ in 0..24 {
            let server = Arc::clone(&server);
            spawn_local(async move {
                loop {
                    stand_still(client_of(&server, OTHER_USER).await, 8 * MIB, 7 * MIB, None).await;
                }
            });
        }
        sleep(4 * SECOND).await;
        let mut quick = Vec::new();
        for _ in 0..3 {
            let mut client = client_of(&server, OTHER_USER).await;
            quick.push(spawn_local(async move { work(&mut client, MIB / 2, 10, 20 * SECOND).await }));
        }
        for client in quick {
            client.await.unwrap();
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn slow_clients_that_stop_altogether_do_not_keep_the_others_of_their_user_waiting() {
    let test = async {
        let server = server(Signing::Enabled);
        for _ in 0..14 {
            let client = client_of(&server, OTHER_USER).await;
            spawn_local(stand_still(client, 8 * MIB, 1_600 << 10, Some(250 << 10)));
        }
        sleep(10 * SECOND).await;
        let mut slow = client_behind(&server, OTHER_USER, 256 << 10).await;
        for _ in 0..5 {
            let took = timeout(30 * SECOND, write_slowly(&mut slow, MIB, 300 << 10)).await;
            took.expect("the slow one waits");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn beginnings_of_frames_keep_nobody_from_signing_in_and_small_requests() {
    let test = async {
        let server = server(Signing::Enabled);
        hold_by_frames(&server, 26, OTHER_USER).await;
        for _ in 0..300 {
            let client = client_of(&server, OTHER_USER).await;
            spawn_local(stand_still(client, 120 << 10, 119 << 10, None));
        }
        sleep(SECOND).await;
        for _ in 0..9 {
            let mut client = client_of(&server, OTHER_USER).await;
            client.echo().await;
            let answered = timeout(SECOND / 10, client.answer()).await;
            assert_eq!(answered.expect("the ECHO waits").status, Status::SUCCESS);
            sleep(SECOND).await;
        }
    };
    LocalSet::new().run_until(test).await;
}

/// A LOCK of a byte, with so many bytes behind it that mean nothing.
fn lock(client: &mut Wired, padding: usize) -> Vec<u8> {
    let element = LockElement { offset: 1 << 40, length: 1, flags: LockFlags::EXCLUSIVE_LOCK };
    let (file_id, elements) = (client.file, [element]);
    let request = LockRequest { file_id, locks: LockElements::new(&elements), ..LockRequest::default() };
    let mut message = client.request(Command::LOCK, padding, |body| request.encode(body));
    message.resize(message.len() + padding, 0);
    message
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_other_clients_do_not_hold_for_long_what_others_wait_for() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut holder = client_of(&server, OTHER_USER).await;
        let message = lock(&mut holder, 0);
        holder.send(&message).await;
        assert_eq!(holder.answer().await.status, Status::SUCCESS);
        let mut waiting = Vec::new();
        for _ in 0..40 {
            let mut client = client_of(&server, OTHER_USER).await;
            let message = lock(&mut client, 8 * MIB);
            client.send(&message).await;
            if waiting.is_empty() {
                // The others stand behind it, whichever thread of the pool is done with its frame first.
                assert_eq!(client.answer().await.status, Status::PENDING);
            }
            waiting.push(client);
        }
        sleep(3 * SECOND).await;
        let mut modest = client_of(&server, OTHER_USER).await;
        work(&mut modest, 8 * MIB, 3, 40 * SECOND).await;
        assert_eq!(waiting[0].answer().await.status, Status::CANCELLED);
        // Its connection goes on.
        waiting[0].echo().await;
        assert_eq!(waiting[0].answer().await.status, Status::SUCCESS);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn chains_that_ask_for_much_are_answered_though_their_frames_hold_all_there_is() {
    for reads in [1, 2] {
        let test = async {
            let server = working_here(server(Signing::Enabled));
            let mut clients = Vec::new();
            for _ in 0..28 {
                let mut client = client_of(&server, OTHER_USER).await;
                let read = ReadRequest { file_id: client.file, length: 8 << 20, ..ReadRequest::default() };
                let mut messages = vec![write_through(&mut client, 7 * MIB)];
                messages.extend((0..reads).map(|_| client.request(Command::READ, 8 * MIB, |body| read.encode(body))));
                let frame = framed(&chained(messages, |_, _| ()));
                client.send_bytes(&frame[..frame.len() - 1]).await;
                clients.push((client, frame));
            }
            sleep(SECOND / 10).await;
            for (client, frame) in &mut clients {
                client.send_bytes(&frame[frame.len() - 1..]).await;
            }
            let answered = clients.into_iter().map(|(mut client, _)| spawn_local(async move { client.frame().await }));
            for answer in answered.collect::<Vec<_>>() {
                let headers = headers(&timeout(120 * SECOND, answer).await.expect("one waits for ever").unwrap());
                // As far as a frame goes.
                assert!(
                    headers.len() == reads + 1 && headers[..2].iter().all(|header| header.status == Status::SUCCESS)
                );
            }
        };
        LocalSet::new().run_until(test).await;
    }
}

#[tokio::test(start_paused = true)]
async fn slow_clients_are_not_ended_for_quick_ones_that_pause() {
    let test = async {
        let server = server(Signing::Enabled);
        pause_again_and_again(&server, 60);
        let mut honest = Vec::new();
        for _ in 0..3 {
            let mut client = client_behind(&server, OTHER_USER, 256 << 10).await;
            honest.push(spawn_local(async move { write_slowly(&mut client, 8 * MIB, 150 << 10).await }));
        }
        for client in honest {
            let took = timeout(300 * SECOND, client).await.expect("it waits").expect("it was ended");
            assert!(took < 200 * SECOND, "{took:?}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn who_has_had_little_does_not_stand_behind_hundreds_that_have_much_again_and_again() {
    let test = async {
        let server = server(Signing::Enabled);
        pause_again_and_again(&server, 240);
        sleep(12 * SECOND).await;
        let terms = Terms { user: OTHER_USER, peer: "192.0.2.99:50000", ..Terms::default() };
        let mut modest = Wired::of(Peer::sign_in_as(&server, terms).await, 32 << 20).await;
        work(&mut modest, 8 * MIB, 2, 25 * SECOND).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn with_little_memory_two_users_leave_some_to_a_third() {
    let test = async {
        let server = small_server(256 << 20);
        hold_by_frames(&server, 60, OTHER_USER).await;
        hold_by_frames(&server, 60, THIRD_USER).await;
        let mut modest = Wired::new(&server, 32 << 20).await;
        work(&mut modest, 4 * MIB, 20, 2 * SECOND).await;
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn slow_clients_of_one_user_that_move_what_they_can_are_all_served_and_none_is_ended() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut writing = Vec::new();
        for _ in 0..30 {
            let mut client = client_behind(&server, OTHER_USER, 256 << 10).await;
            writing.push(spawn_local(async move {
                let mut took = Vec::new();
                for _ in 0..4 {
                    took.push(write_slowly(&mut client, 4 * MIB, 250 << 10).await);
                }
                took
            }));
        }
        let mut took = Vec::new();
        for client in writing {
            took.extend(client.await.unwrap());
        }
        took.sort();
        let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
        assert!(median < 30 * SECOND && worst < 60 * SECOND, "{median:?} and {worst:?} for what takes 17 s");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn many_slow_ones_with_the_largest_frames_are_served_in_the_end() {
    let test = async {
        let server = server(Signing::Enabled);
        let mut writing = Vec::new();
        for _ in 0..150 {
            let mut client = client_behind(&server, OTHER_USER, 256 << 10).await;
            writing.push(spawn_local(async move { write_slowly(&mut client, 8 * MIB, 200 << 10).await }));
        }
        for client in writing {
            client.await.unwrap();
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_network_that_stops_for_seconds_ends_nobody_though_others_wait_for_memory() {
    let test = async {
        let server = server(Signing::Enabled);
        let stops = Instant::now() + 10 * SECOND;
        let mut writing = Vec::new();
        for _ in 0..40 {
            let mut client = client_behind(&server, OTHER_USER, 256 << 10).await;
            writing.push(spawn_local(async move {
                for _ in 0..10 {
                    let frame = framed(&write_through(&mut client, 8 * MIB));
                    for part in frame.chunks(256 << 10) {
                        client.send_bytes(part).await;
                        sleep(SECOND / 10).await;
                        let now = Instant::now();
                        if (stops..stops + 6 * SECOND).contains(&now) {
                            sleep(stops + 6 * SECOND - now).await;
                        }
                    }
                    assert_eq!(client.answer().await.status, Status::SUCCESS);
                }
            }));
        }
        for client in writing {
            client.await.unwrap();
        }
    };
    LocalSet::new().run_until(test).await;
}
