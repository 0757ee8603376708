//! A client that asks on one channel of its session and reads no answers there: its socket is full, and stays so.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use server::Server;
use wire::command::create::{CreateResponse, OplockLevel};
use wire::command::oplock_break::{OplockBreak, OplockBreakRequest};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::write::WriteRequest;
use wire::header::{Flags, Header};
use wire::ids::{Command, FileId, SessionId};
use wire::status::Status;

use crate::peer::{End, Peer};
use crate::{configuration, start};

/// What one READ asks for.
const READ_BYTES: usize = 64 << 10;
/// READs that nobody waits for: more than sockets hold.
const READS: usize = 300;
/// What the client's socket holds of the answers, about.
const SOCKET_BYTES: usize = 64 << 10;

/// A session whose first channel is deaf, and two more channels of it.
struct Scene {
    server: Server,
    session: SessionId,
    /// Until it is closed.
    deaf: Option<Peer>,
    channels: [Peer; 2],
    /// A file of [`READ_BYTES`] that the deaf channel opened.
    file: FileId,
    /// One whose batch oplock it has.
    cached: FileId,
    requests: u64,
}

impl Scene {
    fn new() -> Scene {
        let server = start(2, configuration());
        let address = server.addresses()[0];
        let mut deaf = Peer::connect(address);
        deaf.hold_little(SOCKET_BYTES);
        let mut deaf = deaf.negotiate_and_sign_in();
        let file = deaf.open("large");
        assert_eq!(write(&mut deaf, file, &[7; READ_BYTES], 0), Status::SUCCESS);
        let cached = open_cached(&mut deaf);
        let channels = [(); 2].map(|()| {
            let mut peer = Peer::negotiated(address);
            assert_eq!(peer.bind(&deaf), Status::SUCCESS);
            peer
        });
        // Each answer brings credits.
        while deaf.message_id * 60 < READS as u64 + 100 {
            assert!(deaf.is_alive());
        }
        let mut scene = Scene { server, session: deaf.session_id, deaf: None, channels, file, cached, requests: 0 };
        scene.fall_deaf(deaf);
        scene
    }

    /// Asks for much and, last of all, for a change, and reads nothing.
    fn fall_deaf(&mut self, mut deaf: Peer) {
        let read = ReadRequest { file_id: self.file, length: READ_BYTES as u32, ..ReadRequest::default() };
        for _ in 0..READS {
            let message = deaf.message(Command::READ, |body| read.encode(body));
            deaf.send(&message);
        }
        let write = WriteRequest { file_id: self.file, offset: 0, data: b"late", ..WriteRequest::default() };
        let message = deaf.message(Command::WRITE, |body| write.encode(body));
        deaf.send(&message);
        self.requests = deaf.message_id;
        self.deaf = Some(deaf);
    }

    /// The same, where the others have worked and one channel is stuck.
    fn stuck() -> Self {
        let mut scene = Scene::new();
        scene.others_work();
        scene.assert_is_stuck();
        scene
    }

    /// The others do a lot, one request after the other. That gives the server every occasion to go on with the deaf channel as well.
    fn others_work(&mut self) {
        for _ in 0..50 {
            self.channels.iter_mut().for_each(|channel| channel.write_and_read_back("shared"));
        }
    }

    /// How many requests each channel has been answered.
    fn answered(&self) -> Vec<u64> {
        let session = self.server.admin().sessions().find(|session| session.id == self.session.0).unwrap();
        session.channels.iter().map(|channel| channel.requests).collect()
    }

    fn assert_is_stuck(&self) {
        let answered = self.answered();
        assert!(answered[0] < self.requests - 20, "{} of {} requests are answered", answered[0], self.requests);
        assert_eq!(answered.len(), 3);
    }

    fn wait_until_it_is_gone(&self) {
        let since = Instant::now();
        while self.answered().len() != 2 {
            assert!(since.elapsed() < Duration::from_secs(20), "the deaf channel stays");
            std::thread::yield_now();
        }
    }

    /// What was open is open, what was not done can be done again elsewhere.
    fn assert_nothing_is_lost(&mut self) {
        let [first, second] = &mut self.channels;
        assert_eq!(read(first, self.file), [7; READ_BYTES]);
        assert_eq!(replay(second, self.file, b"late"), Status::SUCCESS);
        assert_eq!(&read(first, self.file)[..4], b"late");
    }
}

fn write(peer: &mut Peer, file_id: FileId, data: &[u8], offset: u64) -> Status {
    let request = WriteRequest { file_id, offset, data, ..WriteRequest::default() };
    peer.ask(Command::WRITE, |body| request.encode(body)).status()
}

/// A WRITE once more, by a client that has lost a channel (MS-SMB2 3.2.7.1).
fn replay(peer: &mut Peer, file_id: FileId, data: &[u8]) -> Status {
    let request = WriteRequest { file_id, data, ..WriteRequest::default() };
    let mut header = peer.header(Command::WRITE);
    header.flags |= Flags::REPLAY_OPERATION;
    // The channel sequence.
    header.status = Status(1);
    let message = peer.complete(header, |body| request.encode(body));
    peer.send(&message);
    match peer.end() {
        End::Answered(status) => status,
        End::Disconnected => panic!("a replay ended the connection"),
    }
}

fn read(peer: &mut Peer, file_id: FileId) -> Vec<u8> {
    let request = ReadRequest { file_id, length: READ_BYTES as u32, ..ReadRequest::default() };
    let answer = peer.ask(Command::READ, |body| request.encode(body));
    ReadResponse::decode(&answer.message).unwrap().data.to_vec()
}

fn open_cached(peer: &mut Peer) -> FileId {
    let message = peer.create_message("cached", &[], |request| request.oplock_level = OplockLevel::BATCH);
    let answer = peer.exchange(&message);
    let made = CreateResponse::decode(&answer.message).unwrap();
    assert_eq!(made.oplock_level, OplockLevel::BATCH);
    made.file_id
}

#[test]
fn the_other_channels_go_on_and_what_it_asks_for_is_not_kept_in_memory() {
    let mut scene = Scene::stuck();
    scene.others_work();
    scene.assert_is_stuck();
    scene.server.stop(Duration::ZERO);
}

#[test]
fn a_break_reaches_the_client_on_another_channel_and_the_deaf_one_is_reset() {
    let mut scene = Scene::stuck();
    let mut other = Peer::signed_in(scene.server.addresses()[0]);
    let message = other.create_message("cached", &[], |_| ());
    other.send(&message);
    let told = scene.channels[0].receive().unwrap();
    assert_eq!(Header::decode(&told).unwrap().command, Command::OPLOCK_BREAK);
    let left = OplockBreak { oplock_level: OplockLevel::II, file_id: scene.cached };
    let acknowledged =
        scene.channels[1].ask(Command::OPLOCK_BREAK, |body| OplockBreakRequest::Oplock(left).encode(body));
    assert_eq!(acknowledged.status(), Status::SUCCESS);
    assert_eq!(other.end(), End::Answered(Status::SUCCESS));
    scene.wait_until_it_is_gone();
    assert!(scene.deaf.take().is_some_and(Peer::ends_in_a_reset), "the client is told");
    scene.assert_nothing_is_lost();
    scene.server.stop(Duration::ZERO);
}

#[test]
fn when_its_client_closes_it_nothing_is_lost() {
    let mut scene = Scene::stuck();
    drop(scene.deaf.take());
    scene.wait_until_it_is_gone();
    scene.assert_nothing_is_lost();
    scene.others_work();
    scene.server.stop(Duration::ZERO);
}

#[test]
fn it_does_not_keep_the_server_from_stopping() {
    let scene = Scene::stuck();
    let (done, stopped) = mpsc::channel();
    let server = scene.server;
    std::thread::spawn(move || {
        server.stop(Duration::ZERO);
        let _ = done.send(());
    });
    stopped.recv_timeout(Duration::from_secs(20)).expect("the server stops");
}
