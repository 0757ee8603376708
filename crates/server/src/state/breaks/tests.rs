use std::rc::Rc;

use tokio::io::AsyncWriteExt;
use tokio::task::LocalSet;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateRequest, OplockLevel};
use wire::command::echo::EchoRequest;
use wire::context::create::{CreateContextsBuilder, name};
use wire::context::lease::{Lease, LeaseState};
use wire::fscc::FileClass;
use wire::header::Header;
use wire::ids::{Command, Guid};
use wire::status::Status;

use crate::net::connection::NOTIFICATIONS_AT_ONCE;
use crate::resource::turns::REQUEST_COST;
use crate::state::configuration::Signing;
use crate::state::mailbox::Notification;
use crate::tests::testing::{Peer, create, framed, next_message, server};

fn open(oplock_level: OplockLevel) -> impl FnOnce(&mut Vec<u8>) {
    move |body| {
        let name = utf16_bytes("file");
        CreateRequest { oplock_level, ..create(&name) }.encode(body);
    }
}

#[tokio::test]
async fn a_client_hears_of_a_break_before_the_answer_to_what_it_asked_after_the_cause() {
    let body = async {
        let mut peer = Peer::sign_in(&server(Signing::Enabled)).await;
        assert_eq!(peer.ask(Command::CREATE, open(OplockLevel::BATCH)).await.status(), Status::SUCCESS);
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let serving = tokio::task::spawn_local(Rc::clone(&peer.connection).serve(ours, Vec::new()));
        // Both arrive at once.
        let cause = framed(&peer.message(Command::CREATE, open(OplockLevel::NONE)));
        let after = framed(&peer.message(Command::ECHO, |body| EchoRequest.encode(body)));
        theirs.write_all(&[cause, after].concat()).await.unwrap();
        let mut heard = Vec::new();
        for _ in 0..3 {
            let header = Header::decode(&next_message(&mut theirs).await).unwrap();
            heard.push((header.command, header.status));
        }
        let expected = [
            (Command::CREATE, Status::PENDING),
            (Command::OPLOCK_BREAK, Status::SUCCESS),
            (Command::ECHO, Status::SUCCESS),
        ];
        assert_eq!(heard, expected);
        drop(theirs);
        serving.await.unwrap();
    };
    LocalSet::new().run_until(body).await;
}

/// Leaves so many notifications for a peer.
fn post(peer: &Peer, notifications: usize) {
    for _ in 0..notifications {
        let notification = Notification::plain(peer.session_id, vec![0; 100]);
        assert!(peer.connection.mailbox.post(notification).is_ok());
    }
}

#[tokio::test]
async fn thousands_of_letters_are_queued_a_part_at_a_time_and_count_for_the_turn() {
    const NOTIFICATIONS: usize = 5_000;
    let peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let connection = &peer.connection;
    post(&peer, NOTIFICATIONS);
    let queued = || {
        let before = connection.turn.left();
        connection.flush_notifications();
        let mut count = 0;
        while peer.take_frame().is_some() {
            count += 1;
        }
        assert_eq!(connection.turn.left(), before - (count * REQUEST_COST) as isize);
        count
    };
    for left in (0..NOTIFICATIONS).rev().step_by(NOTIFICATIONS_AT_ONCE) {
        assert_eq!(queued(), NOTIFICATIONS_AT_ONCE.min(left + 1));
    }
    assert_eq!(queued(), 0);
}

#[tokio::test]
async fn letters_that_a_client_does_not_take_are_not_queued_besides() {
    const NOTIFICATIONS: usize = 5_000;
    let peer = Peer::sign_in(&server(Signing::Enabled)).await;
    let connection = &peer.connection;
    post(&peer, NOTIFICATIONS);
    (0..NOTIFICATIONS).for_each(|_| connection.flush_notifications());
    assert!(connection.outbox.borrow().bytes() <= 128 << 10, "{} bytes", connection.outbox.borrow().bytes());
}

#[tokio::test]
async fn a_client_hears_of_hundreds_of_breaks_that_one_change_makes() {
    const LEASES: usize = 300;
    let body = async {
        let server = server(Signing::Enabled);
        let mut holder = Peer::sign_in(&server).await;
        for number in 0..LEASES {
            let lease = Lease {
                lease_key: Guid((number as u128 + 1).to_le_bytes()),
                lease_state: LeaseState::READ_CACHING,
                ..Lease::default()
            };
            let mut contexts = CreateContextsBuilder::new();
            contexts.add(name::LEASE, &lease.to_bytes());
            let asked = |request: &mut CreateRequest<'_>| request.oplock_level = OplockLevel::LEASE;
            let answer = holder.create_edited("file", contexts.contexts().as_bytes(), asked).await;
            assert_eq!(answer.status(), Status::SUCCESS);
        }
        let mut writer = Peer::sign_in(&server).await;
        let file = writer.open("file").await;
        assert_eq!(writer.set(file, FileClass::END_OF_FILE, &10u64.to_le_bytes()).await, Status::SUCCESS);
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        let serving = tokio::task::spawn_local(Rc::clone(&holder.connection).serve(ours, Vec::new()));
        for _ in 0..LEASES {
            let heard = Header::decode(&next_message(&mut theirs).await).unwrap();
            assert_eq!(heard.command, Command::OPLOCK_BREAK);
        }
        drop(theirs);
        serving.await.unwrap();
    };
    LocalSet::new().run_until(body).await;
}
