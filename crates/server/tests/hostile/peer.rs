//! A client that keeps to the rules where a test does not want otherwise, over a socket.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use secure::spnego::Initiator;
use wire::command::echo::EchoRequest;
use wire::command::negotiate::Capabilities;
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::session_setup::SessionSetupFlags;
use wire::command::write::WriteRequest;
use wire::frame::{PREFIX_LENGTH, frame_length};
use wire::ids::{Command, Dialect, FileId};
use wire::status::Status;

pub(crate) use crate::kit::client::{Answer, CLIENT_GUID, create, unprotected};
use crate::kit::client::{Client, Terms};
pub(crate) use crate::kit::frames::{chained, framed, headers};

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// What the file id of a related request says.
pub(crate) const RELATED: FileId = FileId::ANY;

pub(crate) struct Peer {
    client: Client,
    stream: TcpStream,
}

impl Deref for Peer {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// How one exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered(Status),
    Disconnected,
}

impl Peer {
    /// A connection that has said nothing yet. It will offer no capabilities and no signing algorithm.
    pub(crate) fn connect(address: SocketAddr) -> Peer {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let terms = Terms { capabilities: Capabilities::NONE, signing: None, ..Terms::default() };
        Peer { client: Client::new(terms), stream }
    }

    /// From now on its socket keeps about so many bytes that it has not read.
    pub(crate) fn hold_little(&mut self, bytes: usize) {
        rustix::net::sockopt::set_socket_recv_buffer_size(&self.stream, bytes).unwrap();
    }

    /// True where the server resets the connection, after what came in before.
    pub(crate) fn ends_in_a_reset(mut self) -> bool {
        let rest = std::io::copy(&mut self.stream, &mut std::io::sink());
        rest.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
    }

    /// A connection that has negotiated 3.1.1.
    pub(crate) fn negotiated(address: SocketAddr) -> Peer {
        let mut peer = Peer::connect(address);
        peer.negotiate();
        peer
    }

    fn negotiate(&mut self) {
        let message = self.negotiate_message();
        let answer = self.exchange(&message);
        self.take_negotiated(&message, &answer);
    }

    /// A connection that has said nothing yet does all that [`Peer::signed_in`] does.
    pub(crate) fn negotiate_and_sign_in(mut self) -> Peer {
        self.negotiate();
        assert_eq!(self.sign_in(), Status::SUCCESS);
        let message = self.tree_connect("ram");
        let answer = self.exchange(&message);
        self.take_tree(&answer);
        self
    }

    /// A connection that has signed in and connected to the share.
    pub(crate) fn signed_in(address: SocketAddr) -> Peer {
        Peer::connect(address).negotiate_and_sign_in()
    }

    /// The same with an older dialect.
    pub(crate) fn signed_in_with(address: SocketAddr, dialect: Dialect) -> Peer {
        let mut peer = Peer::connect(address);
        peer.terms.dialect = dialect;
        peer.negotiate_and_sign_in()
    }

    pub(crate) fn sign_in(&mut self) -> Status {
        let (mut initiator, message) = self.begin(SessionSetupFlags::NONE);
        let challenge = self.exchange(&message);
        self.finish_sign_in(&mut initiator, &challenge)
    }

    /// Goes on with a sign-in that was begun.
    pub(crate) fn finish_sign_in(&mut self, initiator: &mut Initiator, challenge: &Answer) -> Status {
        let message = self.finish(initiator, SessionSetupFlags::NONE, challenge);
        let answer = self.exchange(&message);
        if answer.status() == Status::SUCCESS {
            self.take_session(initiator, &answer);
        }
        answer.status()
    }

    /// Binds the session of `first` to this connection, which has negotiated.
    pub(crate) fn bind(&mut self, first: &Peer) -> Status {
        let (mut initiator, challenge) = self.begin_bind(first);
        if challenge.status() != Status::MORE_PROCESSING_REQUIRED {
            return challenge.status();
        }
        let message = self.finish(&mut initiator, SessionSetupFlags::BINDING, &challenge);
        let answer = self.exchange(&message);
        if answer.status() == Status::SUCCESS {
            self.take_channel(&initiator, &answer);
        }
        answer.status()
    }

    /// The first message of a bind, and its answer.
    pub(crate) fn begin_bind(&mut self, first: &Peer) -> (Initiator, Answer) {
        self.join(first);
        let (initiator, message) = self.begin(SessionSetupFlags::BINDING);
        (initiator, self.exchange(&message))
    }

    /// Puts a frame's prefix before `frame` and sends it. A connection that the server has closed shows when it is read from.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        self.send_bytes(&framed(frame));
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next frame; `None` where the server has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Vec<u8>> {
        let mut prefix = [0; PREFIX_LENGTH];
        let mut frame = Vec::new();
        let read = self.stream.read_exact(&mut prefix).and_then(|()| {
            frame.resize(frame_length(prefix).unwrap(), 0);
            self.stream.read_exact(&mut frame)
        });
        match read {
            Ok(()) => Some(frame),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the server neither answers nor closes the connection")
            }
            Err(_) => None,
        }
    }

    /// Sends a frame; gives the status of its final answer, or that the connection ended.
    pub(crate) fn end_of(&mut self, frame: &[u8]) -> End {
        self.send(frame);
        self.end()
    }

    /// The same for what was sent already.
    pub(crate) fn end(&mut self) -> End {
        self.last().map_or(End::Disconnected, |answer| End::Answered(answer.status()))
    }

    /// Sends one request and gives its answer.
    pub(crate) fn ask(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> Answer {
        let message = self.message(command, body);
        self.exchange(&message)
    }

    /// Sends a frame and gives its final answer.
    pub(crate) fn exchange(&mut self, frame: &[u8]) -> Answer {
        self.send(frame);
        self.last().expect("the server answers")
    }

    /// The next answer that is not an interim one; `None` where the server has closed the connection.
    fn last(&mut self) -> Option<Answer> {
        loop {
            let answer = Answer::of(self.receive()?);
            if answer.status() != Status::PENDING {
                return Some(answer);
            }
        }
    }

    /// Sends one request whose message, unsigned yet, `spoil` changes.
    pub(crate) fn spoiled(
        &mut self,
        command: Command,
        body: impl FnOnce(&mut Vec<u8>),
        spoil: impl FnOnce(&mut Vec<u8>),
    ) -> End {
        let mut message = unprotected(self.header(command), body);
        spoil(&mut message);
        self.sign(&mut message);
        self.end_of(&message)
    }

    /// Makes `name`, or opens it.
    pub(crate) fn open(&mut self, name: &str) -> FileId {
        let message = self.create_message(name, &[], |_| ());
        self.exchange(&message).file_id()
    }

    /// True where the connection still answers.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.ask(Command::ECHO, |body| EchoRequest.encode(body)).status() == Status::SUCCESS
    }

    pub(crate) fn write_and_read_back(&mut self, name: &str) {
        let file_id = self.open(name);
        let request = WriteRequest { file_id, data: b"content", ..WriteRequest::default() };
        assert_eq!(self.ask(Command::WRITE, |body| request.encode(body)).status(), Status::SUCCESS);
        let request = ReadRequest { file_id, length: 100, ..ReadRequest::default() };
        let answer = self.ask(Command::READ, |body| request.encode(body));
        assert_eq!(ReadResponse::decode(&answer.message).unwrap().data, b"content");
    }
}

/// Overwrites two bytes of a message.
pub(crate) fn put_u16(message: &mut [u8], offset: usize, value: u16) {
    message[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
}

/// Overwrites four bytes of a message.
pub(crate) fn put_u32(message: &mut [u8], offset: usize, value: u32) {
    message[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
}

/// Overwrites eight bytes of a message.
pub(crate) fn put_u64(message: &mut [u8], offset: usize, value: u64) {
    message[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}
