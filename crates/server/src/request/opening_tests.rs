//! Long frames, which the pool opens and verifies, whatever else comes on their connection and on others.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use secure::Role;
use secure::sign::SigningKey;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::{sleep, timeout};
use wire::command::echo::EchoRequest;
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::write::WriteRequest;
use wire::header::{FLAGS_OFFSET, Flags, Header};
use wire::ids::{Command, FileId, SessionId};
use wire::status::Status;

use crate::request::admission::session_meant;
use crate::request::finding::Finding;
use crate::request::opening::Look;
use crate::state::configuration::Signing;
use crate::state::shared::Shared;
use crate::tests::testing::{Peer, by_hand, chained, framed, headers, next_message, server, unprotected, work};

const MIB: usize = 1 << 20;
/// More than a shard opens or verifies itself.
const LONG: usize = 5 * MIB;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shield {
    Signed,
    Sealed,
}

/// A client whose connection runs over a stream.
struct Client {
    peer: Peer,
    key: SigningKey,
    stream: DuplexStream,
    file_id: FileId,
    shield: Shield,
}

impl Client {
    async fn new(server: &Arc<Shared>, shield: Shield) -> Client {
        let mut peer = Peer::sign_in(server).await;
        peer.ask_for_credits().await;
        let file_id = peer.open("file").await;
        let (stream, far) = tokio::io::duplex(16 * MIB);
        spawn_local(Rc::clone(&peer.connection).serve(far, Vec::new()));
        let key = peer.keys.as_ref().unwrap().signing_key(peer.terms.signing());
        if shield == Shield::Sealed {
            peer.signing_key = None;
        }
        Client { peer, key, stream, file_id, shield }
    }

    /// A message that is not protected yet, with the credits that `payload` bytes cost.
    fn message(&mut self, command: Command, payload: usize, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        unprotected(self.peer.charged(command, payload), body)
    }

    fn write(&mut self, data: &[u8]) -> Vec<u8> {
        let write = WriteRequest { file_id: self.file_id, data, ..WriteRequest::default() };
        self.message(Command::WRITE, data.len(), |body| write.encode(body))
    }

    /// An ECHO with so much behind it.
    fn echo(&mut self, more: usize) -> Vec<u8> {
        self.message(Command::ECHO, 0, |body| {
            EchoRequest.encode(body);
            body.resize(body.len() + more, 0);
        })
    }

    /// A frame of these messages, protected.
    fn frame(&self, messages: Vec<Vec<u8>>) -> Vec<u8> {
        match self.shield {
            Shield::Signed => chained(messages, |_, message| self.key.sign(message, Role::Client)),
            Shield::Sealed => self.peer.sealed(&chained(messages, |_, _| ())),
        }
    }

    async fn send(&mut self, frame: &[u8]) {
        self.stream.write_all(&framed(frame)).await.unwrap();
    }

    /// The next frame, opened, where what it says is protected as it should be.
    async fn answer(&mut self) -> Vec<u8> {
        let mut frame = next_message(&mut self.stream).await;
        match self.shield {
            Shield::Signed => frame,
            Shield::Sealed => {
                let opener = self.peer.keys.as_ref().unwrap().opener().unwrap();
                opener.open(&mut frame).unwrap().to_vec()
            }
        }
    }

    async fn status(&mut self) -> Status {
        Header::decode(&self.answer().await).unwrap().status
    }

    async fn content(&mut self) -> Vec<u8> {
        let read = ReadRequest { file_id: self.file_id, length: 8 << 20, ..ReadRequest::default() };
        let message = self.message(Command::READ, 8 << 20, |body| read.encode(body));
        let frame = self.frame(vec![message]);
        self.send(&frame).await;
        ReadResponse::decode(&self.answer().await).unwrap().data.to_vec()
    }

    /// Bytes that were sent to it.
    fn sent(&self) -> u64 {
        self.peer.connection.outbox.borrow().passed_on()
    }
}

fn server_by_hand() -> Arc<Shared> {
    by_hand(server(Signing::Enabled))
}

#[tokio::test]
async fn no_shard_opens_or_verifies_a_long_frame() {
    let test = async {
        for shield in [Shield::Signed, Shield::Sealed] {
            let server = server_by_hand();
            let mut client = Client::new(&server, shield).await;
            let mut other = Client::new(&server, shield).await;
            let before = client.sent();
            for more in [LONG, 0] {
                let echo = client.echo(more);
                let frame = client.frame(vec![echo]);
                client.send(&frame).await;
            }
            for _ in 0..10 {
                let echo = other.echo(0);
                let frame = other.frame(vec![echo]);
                other.send(&frame).await;
                assert_eq!(other.status().await, Status::SUCCESS);
            }
            assert_eq!(client.sent(), before, "{shield:?}");
            let used = client.peer.connection.allowance.used();
            assert!(used >= LONG as u64, "{used} bytes are charged");
            assert!(server.pool.work_once());
            for _ in 0..2 {
                assert_eq!(client.status().await, Status::SUCCESS);
            }
            assert!(!server.pool.work_once(), "what is short is verified at once");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_megabyte_is_opened_or_verified_at_once_whatever_headers_it_has() {
    let test = async {
        for shield in [Shield::Signed, Shield::Sealed] {
            let server = server_by_hand();
            let mut client = Client::new(&server, shield).await;
            let write = client.write(&vec![1; MIB]);
            let frame = client.frame(vec![write]);
            assert!(Look::at_long(&client.peer.connection, &frame).is_none(), "{shield:?}");
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn what_long_frames_say_is_done_where_they_are_what_was_sent() {
    let test = async {
        for shield in [Shield::Signed, Shield::Sealed] {
            let server = server_by_hand();
            work(&server);
            let mut client = Client::new(&server, shield).await;
            let data: Vec<u8> = (0..LONG).map(|index| (index / 7) as u8).collect();
            let write = client.write(&data);
            let frame = client.frame(vec![write]);
            client.send(&frame).await;
            assert_eq!(client.status().await, Status::SUCCESS);
            assert!(client.content().await == data);
            // In a chain each message is judged by itself.
            let writes = [1u8, 2, 3].map(|byte| client.write(&vec![byte; MIB]));
            let mut frame = client.frame(writes.to_vec());
            let end = frame.len() - 1;
            frame[end] ^= 1;
            client.send(&frame).await;
            if shield == Shield::Sealed {
                let mut rest = Vec::new();
                let gone = timeout(Duration::from_secs(10), client.stream.read_to_end(&mut rest)).await;
                assert!(matches!(gone, Ok(Ok(0))), "a frame that does not open ends its connection");
                continue;
            }
            let statuses: Vec<_> = headers(&client.answer().await).iter().map(|header| header.status).collect();
            assert_eq!(statuses, [Status::SUCCESS, Status::SUCCESS, Status::ACCESS_DENIED]);
            assert!(client.content().await == [vec![2; MIB], data[MIB..].to_vec()].concat());
            let write = client.write(&vec![4; LONG]);
            let mut frame = client.frame(vec![write]);
            frame[LONG] ^= 1;
            client.send(&frame).await;
            assert_eq!(client.status().await, Status::ACCESS_DENIED);
            assert!(client.content().await == [vec![2; MIB], data[MIB..].to_vec()].concat());
        }
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn a_connection_that_ends_meanwhile_leaves_nothing() {
    let test = async {
        let server = server_by_hand();
        let mut client = Client::new(&server, Shield::Signed).await;
        let budgets = Arc::clone(&server.sessions.find(client.peer.session_id).unwrap().budgets);
        let (write, before) = (client.write(&[5; LONG]), client.sent());
        let frame = client.frame(vec![write]);
        client.send(&frame).await;
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(client.sent(), before);
        assert!(budgets.bytes.used() >= LONG as u64);
        let Client { peer, stream, .. } = client;
        let connection = Rc::downgrade(&peer.connection.connection);
        drop((peer, stream));
        sleep(Duration::from_millis(20)).await;
        assert!(budgets.bytes.used() >= LONG as u64, "a thread still has it");
        while server.pool.work_once() {}
        let ended = async {
            while budgets.bytes.used() > 0 || connection.strong_count() > 0 {
                while server.pool.work_once() {}
                sleep(Duration::from_millis(1)).await;
            }
        };
        assert!(timeout(Duration::from_secs(10), ended).await.is_ok(), "{} bytes", budgets.bytes.used());
    };
    LocalSet::new().run_until(test).await;
}

#[test]
fn no_flag_of_a_long_frame_has_its_signatures_verified_on_the_shard() {
    let [own, other] = [SessionId(1), SessionId(2)];
    let header = |session_id, command, flags| Header { session_id, command, flags, ..Header::default() };
    let (signed, related) = (Flags::SIGNED, Flags::RELATED_OPERATIONS);
    let both = Flags(signed.0 | related.0);
    // What is related to nothing means the session that it names, as where it is admitted.
    assert_eq!(session_meant(&header(own, Command::WRITE, both), None), own);
    assert_eq!(session_meant(&header(own, Command::WRITE, both), Some(other)), other);
    assert_eq!(session_meant(&header(own, Command::WRITE, signed), Some(other)), own);
}

#[tokio::test]
async fn a_long_frame_that_is_related_to_nothing_is_verified_elsewhere_like_any_other() {
    let test = async {
        let server = server(Signing::Required);
        let mut client = Client::new(&server, Shield::Signed).await;
        let mut write = client.write(&vec![1; LONG]);
        write[FLAGS_OFFSET] |= Flags::RELATED_OPERATIONS.0 as u8;
        let mut frame = client.frame(vec![write]);
        let channel = client.peer.connection.channels.borrow().values().next().cloned().unwrap();
        let Finding::Verified(signatures) = Look::now(&client.peer.connection, &mut frame) else {
            panic!("it is not looked at");
        };
        assert_eq!(signatures.are_right(0, &channel), Some(true));
        client.send(&frame).await;
        assert_eq!(Header::decode(&client.answer().await).unwrap().status, Status::INVALID_PARAMETER);
    };
    LocalSet::new().run_until(test).await;
}
