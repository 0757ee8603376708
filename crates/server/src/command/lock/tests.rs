//! LOCK as clients see it: order, waiting, giving up, and requests that ask for too much.

use std::sync::Arc;

use wire::command::close::CloseRequest;
use wire::command::lock::{LockElement, LockElements, LockFlags, LockRequest};
use wire::header::Header;
use wire::ids::{Command, FileId};
use wire::status::Status;

use super::STEPS_IN_A_ROW;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, on_shard, server};

const AT_ONCE: LockFlags = LockFlags(LockFlags::EXCLUSIVE_LOCK.0 | LockFlags::FAIL_IMMEDIATELY.0);

fn element(offset: u64, length: u64, flags: LockFlags) -> LockElement {
    LockElement { offset, length, flags }
}

fn request(peer: &mut Peer, file_id: FileId, elements: &[LockElement]) -> Vec<u8> {
    let request = LockRequest { file_id, locks: LockElements::new(elements), ..LockRequest::default() };
    peer.message(Command::LOCK, |body| request.encode(body))
}

async fn lock(peer: &mut Peer, file_id: FileId, elements: &[LockElement]) -> Status {
    let message = request(peer, file_id, elements);
    peer.exchange(message).await.status()
}

/// Sends a request that has to wait; gives its interim response's header.
async fn wait(peer: &mut Peer, file_id: FileId, flags: LockFlags) -> Header {
    let mut message = request(peer, file_id, &[element(0, 10, flags)]);
    peer.process(&mut message).unwrap();
    let interim = peer.receive().await;
    assert_eq!(interim.status(), Status::PENDING);
    interim.header
}

async fn two_peers() -> (Arc<Shared>, (Peer, FileId), (Peer, FileId)) {
    let server = server(Signing::Enabled);
    let mut one = Peer::sign_in(&server).await;
    let mut other = Peer::sign_in(&server).await;
    let (first, second) = (one.open("file").await, other.open("file").await);
    (server, (one, first), (other, second))
}

#[tokio::test]
async fn a_lock_waits_for_the_unlock_of_another_client() {
    on_shard(async {
        let (_server, (mut one, first), (mut other, second)) = two_peers().await;
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS);
        let interim = wait(&mut other, second, LockFlags::EXCLUSIVE_LOCK).await;
        assert_eq!(lock(&mut one, first, &[element(0, 10, LockFlags::UNLOCK)]).await, Status::SUCCESS);
        let granted = other.receive().await;
        assert_eq!((granted.status(), granted.header.route), (Status::SUCCESS, interim.route));
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::LOCK_NOT_GRANTED);
    })
    .await;
}

#[tokio::test]
async fn the_close_of_the_holder_grants_and_that_of_the_waiter_refuses() {
    on_shard(async {
        let (_server, (mut one, first), (mut other, second)) = two_peers().await;
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS);
        wait(&mut other, second, LockFlags::SHARED_LOCK).await;
        one.close(first).await;
        assert_eq!(other.receive().await.status(), Status::SUCCESS);

        let third = one.open("file").await;
        wait(&mut one, third, LockFlags::EXCLUSIVE_LOCK).await;
        let mut message =
            one.message(Command::CLOSE, |body| CloseRequest { file_id: third, ..Default::default() }.encode(body));
        one.process(&mut message).unwrap();
        let mut statuses = [(one.receive().await), (one.receive().await)].map(|answer| answer.status());
        statuses.sort();
        assert_eq!(statuses, [Status::SUCCESS, Status::RANGE_NOT_LOCKED]);
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_lock_is_not_taken_later() {
    on_shard(async {
        let (_server, (mut one, first), (mut other, second)) = two_peers().await;
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS);
        let interim = wait(&mut other, second, LockFlags::EXCLUSIVE_LOCK).await;
        other.cancel(&interim);
        assert_eq!(other.receive().await.status(), Status::CANCELLED);
        assert_eq!(lock(&mut one, first, &[element(0, 10, LockFlags::UNLOCK)]).await, Status::SUCCESS);
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS);
    })
    .await;
}

#[tokio::test]
async fn a_lost_connection_waits_no_longer() {
    on_shard(async {
        let (_server, (mut one, first), (mut other, second)) = two_peers().await;
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS);
        wait(&mut other, second, LockFlags::EXCLUSIVE_LOCK).await;
        other.connection.in_flight.cancel_all();
        assert_eq!(other.receive().await.status(), Status::CANCELLED);
        assert_eq!(lock(&mut one, first, &[element(0, 10, LockFlags::UNLOCK)]).await, Status::SUCCESS);
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS);
    })
    .await;
}

#[tokio::test]
async fn a_lock_that_would_wait_inside_a_chain_is_refused() {
    let (_server, (mut one, first), (mut other, second)) = two_peers().await;
    assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS);
    let key = other.signing_key.take();
    let mut chain = request(&mut other, second, &[element(0, 10, LockFlags::EXCLUSIVE_LOCK)]);
    chain.resize(chain.len().next_multiple_of(8), 0);
    let next = chain.len() as u32;
    chain[20..24].copy_from_slice(&next.to_le_bytes());
    chain.extend(other.message(Command::ECHO, |body| body.extend_from_slice(&[4, 0, 0, 0])));
    other.signing_key = key;
    let answer = other.exchange(chain).await;
    assert_eq!(answer.status(), Status::INTERNAL_ERROR);
    assert_eq!(lock(&mut one, first, &[element(0, 10, LockFlags::UNLOCK)]).await, Status::SUCCESS);
    assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS, "nobody waits");
}

#[tokio::test]
async fn of_several_locks_all_are_taken_or_none() {
    let (_server, (mut one, first), (mut other, second)) = two_peers().await;
    assert_eq!(lock(&mut one, first, &[element(20, 1, AT_ONCE)]).await, Status::SUCCESS);
    let elements = [element(0, 1, AT_ONCE), element(10, 1, AT_ONCE), element(20, 1, AT_ONCE)];
    assert_eq!(lock(&mut other, second, &elements).await, Status::LOCK_NOT_GRANTED);
    let elements = [element(0, 1, AT_ONCE), element(10, 1, AT_ONCE), element(u64::MAX, 2, AT_ONCE)];
    assert_eq!(lock(&mut other, second, &elements).await, Status::INVALID_LOCK_RANGE);
    assert_eq!(lock(&mut one, first, &[element(0, 20, AT_ONCE)]).await, Status::SUCCESS);
}

#[tokio::test]
async fn only_one_lock_may_be_waited_for_and_flags_do_not_mix() {
    let (_server, (mut one, first), _other) = two_peers().await;
    let waits = element(0, 1, LockFlags::EXCLUSIVE_LOCK);
    let bad: [&[LockElement]; 6] = [
        &[],
        &[waits, waits],
        &[element(0, 1, AT_ONCE), waits],
        &[element(0, 1, AT_ONCE), element(0, 1, LockFlags::UNLOCK)],
        &[element(0, 1, LockFlags(3))],
        &[element(0, 1, LockFlags(u32::MAX))],
    ];
    for elements in bad {
        assert_eq!(lock(&mut one, first, elements).await, Status::INVALID_PARAMETER, "{elements:?}");
    }
    let unlocks = [element(0, 1, LockFlags::UNLOCK), waits];
    assert_eq!(lock(&mut one, first, &[element(0, 1, AT_ONCE)]).await, Status::SUCCESS);
    assert_eq!(lock(&mut one, first, &unlocks).await, Status::INVALID_PARAMETER);
    assert_eq!(lock(&mut one, first, &unlocks[..1]).await, Status::RANGE_NOT_LOCKED, "the first of them was released");
}

#[tokio::test]
async fn ten_thousand_locks_are_taken_and_released_and_others_get_their_turn() {
    on_shard(async {
        let (_server, (mut one, first), (mut other, second)) = two_peers().await;
        let elements: Vec<_> = (0..10_000).map(|offset| element(offset, 1, AT_ONCE)).collect();
        let mut message = request(&mut one, first, &elements);
        one.process(&mut message).unwrap();
        assert!(one.take_frame().is_none(), "it is not done in one go");
        assert_eq!(lock(&mut other, second, &[element(u64::MAX, 1, AT_ONCE)]).await, Status::SUCCESS);
        assert_eq!(one.last().await.status(), Status::SUCCESS);
        assert_eq!(lock(&mut other, second, &[element(9_999, 1, AT_ONCE)]).await, Status::LOCK_NOT_GRANTED);
        let elements: Vec<_> = (0..10_000).map(|offset| element(offset, 1, LockFlags::UNLOCK)).collect();
        assert_eq!(lock(&mut one, first, &elements).await, Status::SUCCESS);
        assert_eq!(lock(&mut other, second, &[element(0, 10_000, AT_ONCE)]).await, Status::SUCCESS);
    })
    .await;
}

#[tokio::test]
async fn a_lock_of_many_ranges_is_taken_and_given_back_in_turns() {
    const COUNT: usize = 2_000;
    on_shard(async {
        let (server, (mut one, first), (mut other, second)) = two_peers().await;
        let held = |peer: &Peer| {
            let open = server.sessions.find(peer.session_id).unwrap().opens().pop().unwrap();
            open.file().unwrap().file.locks_of("", open.id, usize::MAX).len()
        };
        assert_eq!(lock(&mut other, second, &[element(COUNT as u64 - 1, 1, AT_ONCE)]).await, Status::SUCCESS);
        let elements: Vec<_> = (0..COUNT as u64).map(|offset| element(offset, 1, AT_ONCE)).collect();
        let mut message = request(&mut one, first, &elements);
        one.process(&mut message).unwrap();
        let (mut most, mut last) = (0, held(&one));
        while most == 0 || last > 0 {
            tokio::task::yield_now().await;
            let now = held(&one);
            assert!(now.abs_diff(last) <= 2 * STEPS_IN_A_ROW, "{last} locks, and {now} after a turn");
            (most, last) = (most.max(now), now);
        }
        assert!(most >= COUNT - 3 * STEPS_IN_A_ROW, "{most}");
        assert_eq!(one.last().await.status(), Status::LOCK_NOT_GRANTED);
    })
    .await;
}

#[tokio::test]
async fn a_count_that_lies_is_refused() {
    let (_server, (mut one, first), _other) = two_peers().await;
    one.signing_key = None;
    for count in [0_u16, 2, 10_000, u16::MAX] {
        let mut message = request(&mut one, first, &[element(0, 1, AT_ONCE)]);
        message[66..68].copy_from_slice(&count.to_le_bytes());
        assert_eq!(one.exchange(message).await.status(), Status::INVALID_PARAMETER, "{count}");
    }
    assert_eq!(lock(&mut one, first, &[element(0, 1, AT_ONCE)]).await, Status::SUCCESS);
}

#[tokio::test]
async fn a_closed_file_is_not_locked() {
    let (server, (mut one, first), (mut other, second)) = two_peers().await;
    let open = server.sessions.find(one.session_id).unwrap().opens().pop().unwrap();
    one.close(first).await;
    assert_eq!(lock(&mut one, first, &[element(0, 1, AT_ONCE)]).await, Status::FILE_CLOSED);
    // A request that found the open before it was closed.
    let wanted = crate::state::locks::RangeLock {
        open: open.id,
        offset: 0,
        length: 1,
        kind: crate::state::locks::LockKind::Exclusive,
    };
    let refused = open.file().unwrap().file.lock("", wanted, &server.budgets.strangers().clone());
    assert_eq!(refused, Err(crate::state::locks::LockRefusal::Closed));
    assert_eq!(lock(&mut other, second, &[element(0, 1, AT_ONCE)]).await, Status::SUCCESS);
}

/// Sends a request of one sequence number that has to wait; gives its interim response's header.
async fn wait_in_sequence(peer: &mut Peer, file_id: FileId) -> Header {
    let elements = [element(0, 10, LockFlags::EXCLUSIVE_LOCK)];
    let locks = LockElements::new(&elements);
    let request = LockRequest { file_id, locks, lock_sequence_index: 3, lock_sequence_number: 1 };
    let mut message = peer.message(Command::LOCK, |body| request.encode(body));
    peer.process(&mut message).unwrap();
    let interim = peer.receive().await;
    assert_eq!(interim.status(), Status::PENDING);
    interim.header
}

#[tokio::test]
async fn a_lock_that_waits_and_is_sent_again_is_taken_once_and_both_hear_of_it() {
    on_shard(async {
        let (_server, (mut one, first), (mut other, second)) = two_peers().await;
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS);
        for _ in 0..2 {
            wait_in_sequence(&mut other, second).await;
        }
        assert_eq!(lock(&mut one, first, &[element(0, 10, LockFlags::UNLOCK)]).await, Status::SUCCESS);
        for _ in 0..2 {
            assert_eq!(other.last().await.status(), Status::SUCCESS);
        }
        let unlock = [element(0, 10, LockFlags::UNLOCK)];
        assert_eq!(lock(&mut other, second, &unlock).await, Status::SUCCESS);
        assert_eq!(lock(&mut other, second, &unlock).await, Status::RANGE_NOT_LOCKED);
    })
    .await;
}

#[tokio::test]
async fn who_sent_a_lock_again_goes_on_waiting_when_the_first_is_cancelled() {
    on_shard(async {
        let (_server, (mut one, first), (mut other, second)) = two_peers().await;
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::SUCCESS);
        let waiting = wait_in_sequence(&mut other, second).await;
        let again = wait_in_sequence(&mut other, second).await;
        other.cancel(&waiting);
        assert_eq!(other.last().await.status(), Status::CANCELLED);
        assert_eq!(lock(&mut one, first, &[element(0, 10, LockFlags::UNLOCK)]).await, Status::SUCCESS);
        let granted = other.receive().await;
        assert_eq!((granted.status(), granted.header.route), (Status::SUCCESS, again.route));
        assert_eq!(lock(&mut one, first, &[element(0, 10, AT_ONCE)]).await, Status::LOCK_NOT_GRANTED);
    })
    .await;
}
