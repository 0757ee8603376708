//! Several connections of one session: where they are served, and clients that bind what is not theirs (MS-SMB2 3.3.5.5).

use std::collections::HashSet;
use std::time::{Duration, Instant};

use secure::Role;
use secure::kdf::{Derivation, SessionKeys};
use secure::preauth::PreauthHash;
use server::admin::CHANNELS_DEFAULT;
use wire::command::echo::EchoRequest;
use wire::command::session_setup::SessionSetupFlags;
use wire::ids::{Command, Dialect, SessionId};
use wire::status::Status;

use crate::peer::{End, Peer, framed};
use crate::{configuration, served, start};

const SHARDS: usize = 4;

#[test]
fn no_two_channels_share_a_shard_while_another_is_free() {
    let server = start(SHARDS, configuration());
    let address = server.addresses()[0];
    // Others keep the shards unevenly busy.
    let _others: Vec<Peer> = (0..3).map(|_| Peer::signed_in(address)).collect();
    let mut first = Peer::signed_in(address);
    let mut channels: Vec<Peer> = Vec::new();
    for _ in 1..SHARDS {
        let mut peer = Peer::negotiated(address);
        assert_eq!(peer.bind(&first), Status::SUCCESS);
        channels.push(peer);
    }
    let session = server.admin().sessions().find(|session| session.id == first.session_id.0).unwrap();
    let shards: HashSet<usize> = session.channels.iter().map(|channel| channel.shard).collect();
    assert_eq!(shards.len(), SHARDS);
    first.write_and_read_back("shared");
    for channel in &mut channels {
        channel.write_and_read_back("shared");
    }
    assert_eq!(server.admin().connections().iter().sum::<usize>(), 3 + SHARDS);
    drop((first, channels));
    server.stop(Duration::ZERO);
}

#[test]
fn what_follows_a_bind_at_once_is_answered_on_the_new_shard() {
    served(|address| {
        for _ in 0..20 {
            let first = Peer::signed_in(address);
            let mut second = Peer::negotiated(address);
            let (mut initiator, challenge) = second.begin_bind(&first);
            let last = second.finish(&mut initiator, SessionSetupFlags::BINDING, &challenge);
            second.session_id = SessionId(0);
            second.signing_key = None;
            let echo = second.message(Command::ECHO, |body| EchoRequest.encode(body));
            let both = [framed(&last), framed(&echo)].concat();
            let (start, rest) = both.split_at(both.len() - 10);
            second.send_bytes(start);
            second.send_bytes(rest);
            assert_eq!(second.end(), End::Answered(Status::SUCCESS));
            assert_eq!(second.end(), End::Answered(Status::SUCCESS));
        }
    });
}

#[test]
fn a_thousand_binds_harm_nobody_and_leave_nothing_behind() {
    let server = start(2, configuration());
    let address = server.addresses()[0];
    let mut first = Peer::signed_in(address);
    for round in 0..1_000 {
        let mut peer = Peer::negotiated(address);
        match round % 4 {
            // Begun, and never finished.
            0 => drop(peer.begin_bind(&first)),
            1 => assert_eq!(peer.bind(&first), Status::SUCCESS),
            2 => {
                first.session_id.0 ^= 1;
                assert_eq!(peer.bind(&first), Status::USER_SESSION_DELETED);
                first.session_id.0 ^= 1;
            }
            _ => {
                let stranger = first.keys.replace(SessionKeys::derive(
                    Role::Client,
                    Derivation::new(Dialect::SMB_3_1_1, &PreauthHash::new()),
                    &[1; 16],
                    None,
                ));
                assert_eq!(peer.bind(&first), Status::ACCESS_DENIED);
                first.keys = stranger;
            }
        }
    }
    wait_for_connections(&server, 1);
    let session = server.admin().sessions().find(|session| session.id == first.session_id.0).unwrap();
    assert_eq!((server.admin().session_count(), session.channels.len()), (1, 1));
    first.write_and_read_back("first");
    server.stop(Duration::ZERO);
}

#[test]
fn a_channel_too_many_is_refused_as_often_as_it_is_asked_for() {
    let server = start(2, configuration());
    let address = server.addresses()[0];
    let mut channels = vec![Peer::signed_in(address)];
    for _ in 1..CHANNELS_DEFAULT {
        let mut peer = Peer::negotiated(address);
        assert_eq!(peer.bind(&channels[0]), Status::SUCCESS);
        channels.push(peer);
    }
    for _ in 0..200 {
        assert_eq!(Peer::negotiated(address).bind(&channels[0]), Status::INSUFFICIENT_RESOURCES);
    }
    channels.iter_mut().for_each(|channel| channel.write_and_read_back("shared"));
    wait_for_connections(&server, CHANNELS_DEFAULT);
    server.stop(Duration::ZERO);
}

/// Waits until the server has heard that all connections but so many are closed.
fn wait_for_connections(server: &server::Server, count: usize) {
    let since = Instant::now();
    while server.admin().connections().iter().sum::<usize>() != count {
        assert!(since.elapsed() < Duration::from_secs(20), "connections stay: {:?}", server.admin().connections());
        std::thread::yield_now();
    }
}
