//! What clients are told of breaks that began, or went on, while they were away.

use std::sync::Arc;
use std::time::Duration;

use wire::command::create::{CreateResponse, OplockLevel};
use wire::command::oplock_break::{
    LeaseBreakFlags, LeaseBreakNotification, OplockBreak, OplockBreakNotification, OplockBreakRequest,
};
use wire::context::create::{Lease, LeaseState, name};
use wire::context::durable::DurableFlags;
use wire::context::lease::{LeaseFlags, LeaseV2};
use wire::header::Flags;
use wire::ids::{Command, FileId, Guid};
use wire::status::Status;

use super::persistent_tests::{Machine, persistent, persistent_peer};
use super::restored_caching_tests::{
    ALL, OTHER_GUID, READ, READ_HANDLE, epoch, lease_of, leased, other_peer, without_writes, write,
};
use super::tests::{Contexts, GUID, KEY, back_v2, create, run, v2};
use crate::state::shared::Shared;
use crate::tests::testing::{Answer, Peer};

/// The notices that wait at a client's connection.
fn notices(peer: &Peer) -> Vec<OplockBreakNotification> {
    peer.connection.flush_notifications();
    let frames = std::iter::from_fn(|| peer.take_frame());
    frames.map(|frame| OplockBreakNotification::decode(&frame).unwrap()).collect()
}

/// The only notice, which is of a lease.
fn notice(peer: &Peer) -> LeaseBreakNotification {
    match notices(peer).as_slice() {
        [OplockBreakNotification::Lease(lease)] => *lease,
        others => panic!("{others:?}"),
    }
}

fn states(notice: &LeaseBreakNotification) -> (LeaseState, LeaseState) {
    (notice.current_lease_state, notice.new_lease_state)
}

/// How far the second epoch is ahead.
fn ahead(of: u16, epoch: u16) -> u16 {
    epoch.wrapping_sub(of)
}

async fn acknowledge(peer: &mut Peer, lease_state: LeaseState) -> Status {
    peer.acknowledge(KEY, lease_state).await
}

async fn opened(server: &Arc<Shared>, lease_state: LeaseState) -> (Peer, FileId, Lease) {
    let mut peer = persistent_peer(server).await;
    let answer = create(&mut peer, "file", &leased(persistent(GUID), KEY, lease_state)).await;
    assert_eq!(lease_of(&answer).lease_state, lease_state);
    (peer, answer.file_id(), lease_of(&answer))
}

/// The client comes back and knows of its lease what `known` says.
async fn back(server: &Arc<Shared>, id: FileId, known: Lease) -> (Peer, Lease) {
    let mut peer = persistent_peer(server).await;
    let answer = ask_back(&mut peer, id, GUID, known).await;
    assert_eq!(answer.file_id(), id);
    (peer, lease_of(&answer))
}

async fn ask_back(peer: &mut Peer, id: FileId, guid: Guid, known: Lease) -> Answer {
    let mut contexts = back_v2(id, guid, DurableFlags::PERSISTENT);
    contexts.push((name::LEASE, known.to_bytes()));
    create(peer, "file", &contexts).await
}

/// Another client's CREATE of the file, as far as it can be answered at once.
async fn opening(server: &Arc<Shared>) -> Peer {
    let mut other = other_peer(server).await;
    let mut message = other.create_message("file", &[], |_| ());
    other.process(&mut message).unwrap();
    assert_eq!(other.receive().await.status(), Status::PENDING);
    other
}

async fn let_in(other: &Peer) {
    assert_eq!(other.receive().await.status(), Status::SUCCESS);
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[test]
fn a_break_that_began_while_a_persistent_open_was_away_is_told_behind_the_answer_that_gives_it_back() {
    run(async {
        for seconds in [0, 40] {
            let machine = Machine::new();
            let server = machine.start();
            let mut other = other_peer(&server).await;
            let theirs = other.open("file").await;
            let (peer, id, known) = opened(&server, READ_HANDLE).await;
            peer.disconnect();
            assert_eq!(write(&mut other, theirs).await, Status::SUCCESS);
            pass(seconds).await;

            let (mut peer, lease) = back(&server, id, known).await;
            assert_eq!(lease.lease_state, READ_HANDLE);
            assert!(lease.flags.contains(LeaseFlags::BREAK_IN_PROGRESS));
            let forgets = ahead(epoch(&known), epoch(&lease));
            assert!((2..=0x7FFF).contains(&forgets), "what it has read is to be forgotten: {forgets}");
            let notice = notice(&peer);
            assert_eq!(states(&notice), (READ_HANDLE, LeaseState::NONE));
            assert_eq!(notice.flags, LeaseBreakFlags::ACK_REQUIRED);
            assert_eq!(ahead(epoch(&lease), notice.new_epoch), 1, "or the client passes over it");
            assert_eq!(acknowledge(&mut peer, LeaseState::NONE).await, Status::SUCCESS);
            assert_eq!(write(&mut other, theirs).await, Status::SUCCESS);
            assert_eq!(notices(&peer), []);
        }
    });
}

#[test]
fn what_a_persistent_open_lost_while_it_was_away_its_answer_says() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut other = other_peer(&server).await;
        let theirs = other.open("file").await;
        let (peer, id, known) = opened(&server, READ_HANDLE).await;
        peer.disconnect();
        assert_eq!(write(&mut other, theirs).await, Status::SUCCESS);
        pass(36).await;
        assert_eq!(write(&mut other, theirs).await, Status::SUCCESS, "whose look at the file ends the break");
        let (peer, lease) = back(&server, id, known).await;
        assert_eq!((lease.lease_state, lease.flags), (LeaseState::NONE, LeaseFlags::NONE));
        let forgets = ahead(epoch(&known), epoch(&lease));
        assert!((2..=0x7FFF).contains(&forgets), "it may have heard of the break's epoch: {forgets}");
        assert_eq!(notices(&peer), []);
    });
}

#[test]
fn whoever_waits_for_write_caching_waits_for_the_client_that_comes_back() {
    run(async {
        for has_heard in [false, true] {
            let machine = Machine::new();
            let server = machine.start();
            let (peer, id, mut known) = opened(&server, ALL).await;
            let other = opening(&server).await;
            if has_heard {
                let told = notice(&peer);
                assert_eq!(states(&told), (ALL, READ_HANDLE));
                known.lease_state = told.new_lease_state;
                known.v2 = Some(LeaseV2 { epoch: told.new_epoch, ..known.v2.unwrap() });
            }
            peer.disconnect();
            pass(20).await;
            let (mut peer, lease) = back(&server, id, known).await;
            assert_eq!(lease.lease_state, known.lease_state);
            assert_eq!(epoch(&lease), epoch(&known), "to have write caching with another epoch is invalid (3.2.5.7.5)");
            let told = notice(&peer);
            assert_eq!(states(&told), (ALL, READ_HANDLE));
            assert!((1..=2).contains(&ahead(epoch(&lease), told.new_epoch)));
            pass(30).await;
            assert!(other.take_frame().is_none(), "its time began anew");
            assert_eq!(acknowledge(&mut peer, READ_HANDLE).await, Status::SUCCESS);
            let_in(&other).await;
            assert_eq!(notices(&peer), []);
        }
    });
}

#[test]
fn a_break_that_was_not_sent_yet_when_the_connection_ended_waits_for_the_client() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (peer, id, known) = opened(&server, ALL).await;
        let other = opening(&server).await;
        assert!(!peer.connection.mailbox.is_closed(), "the notice lies there");
        peer.disconnect();
        assert!(other.take_frame().is_none());
        let (mut peer, lease) = back(&server, id, known).await;
        assert_eq!(lease.lease_state, ALL);
        assert_eq!(states(&notice(&peer)), (ALL, READ_HANDLE));
        assert_eq!(acknowledge(&mut peer, READ_HANDLE).await, Status::SUCCESS);
        let_in(&other).await;
    });
}

#[test]
fn nobody_waits_longer_for_a_client_that_is_lost_again_and_again() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (mut peer, id, mut known) = opened(&server, ALL).await;
        let other = opening(&server).await;
        for _ in 0..3 {
            pass(20).await;
            peer.disconnect();
            (peer, known) = back(&server, id, known).await;
            assert_eq!(known.lease_state, ALL);
        }
        let began = tokio::time::Instant::now();
        let_in(&other).await;
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        assert_eq!(acknowledge(&mut peer, READ_HANDLE).await, Status::UNSUCCESSFUL);
    });
}

#[test]
fn a_batch_oplock_that_breaks_comes_back_with_its_notice() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let id = create(&mut peer, "file", &persistent(GUID)).await.file_id();
        let other = opening(&server).await;
        assert_eq!(notices(&peer).len(), 1);
        peer.disconnect();
        let mut peer = persistent_peer(&server).await;
        let answer = create(&mut peer, "file", &back_v2(id, GUID, DurableFlags::PERSISTENT)).await;
        assert_eq!(CreateResponse::decode(&answer.message).unwrap().oplock_level, OplockLevel::BATCH);
        let left = OplockBreak { oplock_level: OplockLevel::II, file_id: id };
        assert_eq!(notices(&peer), [OplockBreakNotification::Oplock(left)]);
        let request = OplockBreakRequest::Oplock(left);
        assert_eq!(peer.ask(Command::OPLOCK_BREAK, |body| request.encode(body)).await.status(), Status::SUCCESS);
        let_in(&other).await;
    });
}

#[test]
fn each_open_of_a_lease_that_comes_back_hears_what_is_true_then() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut other = other_peer(&server).await;
        let theirs = other.open("file").await;
        let (mut peer, id, known) = opened(&server, READ_HANDLE).await;
        let second = create(&mut peer, "file", &leased(persistent(OTHER_GUID), KEY, READ_HANDLE)).await.file_id();
        peer.disconnect();
        assert_eq!(write(&mut other, theirs).await, Status::SUCCESS);
        let (mut peer, _) = back(&server, id, known).await;
        let first = notice(&peer);
        let answer = ask_back(&mut peer, second, OTHER_GUID, known).await;
        assert_eq!(lease_of(&answer).lease_state, READ_HANDLE);
        let again = notice(&peer);
        assert_eq!(states(&again), states(&first));
        assert!(ahead(first.new_epoch, again.new_epoch) <= 0x7FFF);
        assert_eq!(acknowledge(&mut peer, LeaseState::NONE).await, Status::SUCCESS);
        peer.disconnect();
        for (id, guid) in [(id, GUID), (second, OTHER_GUID)] {
            let mut peer = persistent_peer(&server).await;
            let answer = ask_back(&mut peer, id, guid, known).await;
            assert_eq!(lease_of(&answer).lease_state, LeaseState::NONE);
            assert_eq!(notices(&peer), []);
        }
    });
}

#[test]
fn a_create_that_is_replayed_is_followed_by_the_notice_of_what_breaks() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let contexts: Contexts = leased(v2(0, GUID), KEY, ALL);
        let id = create(&mut peer, "file", &contexts).await.file_id();
        let mut second = Peer::bound(&server, &peer).await;
        let other = opening(&server).await;
        assert_eq!(states(&notice(&peer)), (ALL, READ_HANDLE), "before it knows of the lease");
        second.flags = Flags::REPLAY_OPERATION;
        second.channel_sequence = 1;
        let answer = create(&mut second, "file", &contexts).await;
        second.flags = Flags::NONE;
        assert_eq!(answer.file_id(), id);
        let told = notice(&second);
        assert_eq!(states(&told), (ALL, READ_HANDLE));
        assert_eq!(ahead(epoch(&lease_of(&answer)), told.new_epoch), 1);
        assert_eq!(acknowledge(&mut second, READ_HANDLE).await, Status::SUCCESS);
        let_in(&other).await;
    });
}

#[test]
fn a_create_that_is_replayed_is_not_told_the_oplock_that_it_lost() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut peer = persistent_peer(&server).await;
        let id = create(&mut peer, "file", &v2(0, GUID)).await.file_id();
        let mut second = Peer::bound(&server, &peer).await;
        let_in(&opening(&server).await).await;
        second.flags = Flags::REPLAY_OPERATION;
        second.channel_sequence = 1;
        let answer = create(&mut second, "file", &v2(0, GUID)).await;
        assert_eq!(answer.file_id(), id);
        assert_eq!(CreateResponse::decode(&answer.message).unwrap().oplock_level, OplockLevel::NONE);
    });
}

#[test]
fn a_durable_open_comes_back_while_another_open_of_its_lease_has_a_break_to_answer() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let (mut first, mut second) = (persistent_peer(&server).await, persistent_peer(&server).await);
        let durable = leased(v2(0, GUID), KEY, ALL);
        let answer = create(&mut first, "file", &durable).await;
        let (id, known) = (answer.file_id(), lease_of(&answer));
        create(&mut second, "file", &leased(vec![], KEY, ALL)).await.file_id();
        first.disconnect();
        let other = opening(&server).await;
        assert_eq!(states(&notice(&second)), (ALL, READ_HANDLE));
        let mut first = persistent_peer(&server).await;
        let mut contexts = back_v2(id, GUID, DurableFlags::NONE);
        contexts.push((name::LEASE, known.to_bytes()));
        let answer = create(&mut first, "file", &contexts).await;
        assert_eq!(answer.file_id(), id);
        assert_eq!(states(&notice(&first)), (ALL, READ_HANDLE));
        let request = without_writes();
        assert_eq!(first.ask(Command::OPLOCK_BREAK, |body| request.encode(body)).await.status(), Status::SUCCESS);
        let_in(&other).await;
    });
}

#[test]
fn a_lease_without_an_epoch_comes_back_without_what_others_changed() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut other = other_peer(&server).await;
        let theirs = other.open("file").await;
        let mut peer = persistent_peer(&server).await;
        let first = Lease { lease_key: KEY, lease_state: READ_HANDLE, ..Lease::default() };
        let mut contexts = persistent(GUID);
        contexts.push((name::LEASE, first.to_bytes()));
        let answer = create(&mut peer, "file", &contexts).await;
        assert_eq!(lease_of(&answer).lease_state, READ_HANDLE);
        let id = answer.file_id();
        peer.disconnect();
        assert_eq!(write(&mut other, theirs).await, Status::SUCCESS);
        let (peer, lease) = back(&server, id, first).await;
        assert_eq!((lease.lease_state, lease.flags), (LeaseState::NONE, LeaseFlags::NONE));
        assert_eq!(notices(&peer), []);
    });
}

#[test]
fn reads_that_were_lost_while_away_are_not_in_the_answer() {
    run(async {
        let machine = Machine::new();
        let server = machine.start();
        let mut other = other_peer(&server).await;
        let theirs = other.open("file").await;
        let (peer, id, known) = opened(&server, READ).await;
        peer.disconnect();
        assert_eq!(write(&mut other, theirs).await, Status::SUCCESS);
        let (peer, lease) = back(&server, id, known).await;
        assert_eq!((lease.lease_state, lease.flags), (LeaseState::NONE, LeaseFlags::NONE));
        assert!(ahead(epoch(&known), epoch(&lease)) >= 2);
        assert_eq!(notices(&peer), []);
    });
}
