//! A client that keeps to the rules where a test does not want otherwise.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use secure::Role;
use secure::kdf::{Derivation, SessionKeys, channel_signing_key};
use secure::ntlm::{Credentials, Fresh, NtHash};
use secure::preauth::PreauthHash;
use secure::seal::{Cipher, NonceRange, NonceSpace};
use secure::sign::{SigningAlgorithm, SigningKey};
use secure::spnego::Initiator;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateRequest, CreateResponse, ShareAccess};
use wire::command::echo::EchoRequest;
use wire::command::negotiate::{Capabilities, NegotiateRequest};
use wire::command::read::{ReadRequest, ReadResponse};
use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use wire::command::tree_connect::TreeConnectRequest;
use wire::command::write::WriteRequest;
use wire::context::negotiate::{
    self as contexts, ContextType, EncryptionCapabilities, HashAlgorithm, NegotiateContextsBuilder,
    PreauthIntegrityCapabilities,
};
use wire::frame::{PREFIX_LENGTH, frame_length, frame_prefix};
use wire::header::{Flags, Header, Route};
use wire::ids::{Command, Dialect, FileId, FileTime, Guid, MessageId, SessionId, TreeId};
use wire::list::U16List;
use wire::status::Status;
use wire::transform::TRANSFORM_HEADER_LENGTH;

pub(crate) use crate::kit::configuration::{PASSWORD, USER};

pub(crate) const CLIENT_GUID: Guid = Guid([9; 16]);

/// Longer than any answer takes.
const PATIENCE: Duration = Duration::from_secs(20);
/// What the file id of a related request says.
pub(crate) const RELATED: FileId = FileId::ANY;

pub(crate) struct Peer {
    stream: TcpStream,
    pub(crate) message_id: u64,
    pub(crate) session_id: SessionId,
    pub(crate) tree_id: TreeId,
    pub(crate) signing_key: Option<SigningKey>,
    pub(crate) keys: Option<SessionKeys>,
    /// Capabilities of NEGOTIATE.
    pub(crate) capabilities: Capabilities,
    preauth: PreauthHash,
    dialect: Dialect,
    nonces: (NonceSpace, NonceRange),
}

/// How one exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered(Status),
    Disconnected,
}

impl Peer {
    /// A connection that has said nothing yet.
    pub(crate) fn connect(address: SocketAddr) -> Peer {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Peer {
            stream,
            message_id: 0,
            session_id: SessionId(0),
            tree_id: TreeId(0),
            signing_key: None,
            keys: None,
            capabilities: Capabilities::NONE,
            preauth: PreauthHash::new(),
            dialect: Dialect::SMB_3_1_1,
            nonces: (NonceSpace::new(), NonceRange::empty()),
        }
    }

    /// From now on its socket keeps about so many bytes that it has not read.
    pub(crate) fn hold_little(&mut self, bytes: usize) {
        rustix::net::sockopt::set_socket_recv_buffer_size(&self.stream, bytes).unwrap();
    }

    /// True where the server resets the connection, after what came in before.
    pub(crate) fn ends_in_a_reset(mut self) -> bool {
        let rest = std::io::copy(&mut self.stream, &mut std::io::sink());
        rest.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    }

    /// A connection that has negotiated 3.1.1.
    pub(crate) fn negotiated(address: SocketAddr) -> Peer {
        Peer::connect(address).negotiate()
    }

    fn negotiate(mut self) -> Peer {
        let message = self.negotiate_message();
        self.preauth.update(&message);
        self.send(&message);
        let response = self.receive().unwrap();
        assert_eq!(Header::decode(&response).unwrap().status, Status::SUCCESS);
        self.preauth.update(&response);
        self
    }

    /// A connection that has said nothing yet does all that [`Peer::signed_in`] does.
    pub(crate) fn negotiate_and_sign_in(self) -> Peer {
        let mut peer = self.negotiate();
        peer.connect_to_share();
        peer
    }

    /// A connection that has signed in and connected to the share.
    pub(crate) fn signed_in(address: SocketAddr) -> Peer {
        let mut peer = Peer::negotiated(address);
        peer.connect_to_share();
        peer
    }

    /// The same with an older dialect.
    pub(crate) fn signed_in_with(address: SocketAddr, dialect: Dialect) -> Peer {
        let mut peer = Peer::connect(address);
        let message = peer.negotiate_with(&[dialect], &NegotiateContextsBuilder::new());
        assert_eq!(peer.end_of(&message), End::Answered(Status::SUCCESS));
        peer.dialect = dialect;
        peer.connect_to_share();
        peer
    }

    fn connect_to_share(&mut self) {
        assert_eq!(self.sign_in(PASSWORD), Status::SUCCESS);
        let path = utf16_bytes(r"\\test\ram");
        let request = TreeConnectRequest { path: Utf16::new(&path).unwrap(), ..TreeConnectRequest::default() };
        let (header, _) = self.ask(Command::TREE_CONNECT, |body| request.encode(body));
        self.tree_id = header.tree_id();
    }

    /// A NEGOTIATE as clients send it.
    pub(crate) fn negotiate_message(&mut self) -> Vec<u8> {
        let mut builder = NegotiateContextsBuilder::new();
        builder.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| {
            let hashes = [HashAlgorithm::SHA_512];
            PreauthIntegrityCapabilities { hash_algorithms: U16List::new(&hashes), salt: &[1; 32] }.encode(writer);
        });
        builder.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| {
            EncryptionCapabilities { ciphers: U16List::new(&[contexts::Cipher::AES_128_GCM]) }.encode(writer);
        });
        self.negotiate_with(&[Dialect::SMB_3_1_1], &builder)
    }

    pub(crate) fn negotiate_with(&mut self, dialects: &[Dialect], builder: &NegotiateContextsBuilder) -> Vec<u8> {
        let request = NegotiateRequest {
            client_guid: CLIENT_GUID,
            dialects: U16List::new(dialects),
            capabilities: self.capabilities,
            contexts: builder.contexts(),
            ..NegotiateRequest::default()
        };
        self.message(Command::NEGOTIATE, |body| request.encode(body))
    }

    /// Signs in as the one user there is.
    pub(crate) fn sign_in(&mut self, password: &str) -> Status {
        let (mut initiator, token) = Initiator::begin();
        let (header, response) = self.send_token(&token);
        assert_eq!(header.status, Status::MORE_PROCESSING_REQUIRED);
        self.session_id = header.session_id;
        self.finish_sign_in(&mut initiator, &response, password)
    }

    /// The first message of a sign-in: gives the session's id, the hash it has now, and the challenge.
    pub(crate) fn begin_sign_in(&mut self, token: &[u8]) -> (SessionId, PreauthHash, Vec<u8>) {
        let before = self.preauth.clone();
        self.session_id = SessionId(0);
        let (header, response) = self.send_token(token);
        let hash = std::mem::replace(&mut self.preauth, before);
        (header.session_id, hash, response)
    }

    /// Goes on with a sign-in that was begun.
    pub(crate) fn resume_sign_in(&mut self, session_id: SessionId, hash: PreauthHash) {
        (self.session_id, self.preauth) = (session_id, hash);
    }

    pub(crate) fn finish_sign_in(&mut self, initiator: &mut Initiator, response: &[u8], password: &str) -> Status {
        let challenge = SessionSetupResponse::decode(response).unwrap().security_buffer.to_vec();
        let credentials = Credentials {
            domain: String::new(),
            user: USER.into(),
            workstation: String::new(),
            nt_hash: NtHash::from_password(password),
        };
        let fresh = Fresh { client_challenge: [5; 8], session_key: [6; 16].into() };
        let token = initiator.answer(&challenge, &credentials, FileTime(1), &fresh).unwrap();
        let (header, _) = self.send_token(&token);
        if header.status == Status::SUCCESS {
            let key = initiator.session_key().unwrap();
            // The last response is not part of the hash.
            let derivation = Derivation::new(self.dialect, &self.preauth);
            let cipher = (self.dialect == Dialect::SMB_3_1_1).then_some(Cipher::Aes128Gcm);
            let keys = SessionKeys::derive(Role::Client, derivation, &key[..], cipher);
            let older = self.dialect < Dialect::SMB_3_0;
            let algorithm = if older { SigningAlgorithm::HmacSha256 } else { SigningAlgorithm::AesCmac };
            self.signing_key = Some(keys.signing_key(algorithm));
            self.keys = Some(keys);
        }
        header.status
    }

    /// Binds the session of `first` to this connection, which has negotiated.
    pub(crate) fn bind(&mut self, first: &Peer) -> Status {
        let (mut initiator, response) = self.begin_bind(first);
        let header = Header::decode(&response).unwrap();
        if header.status != Status::MORE_PROCESSING_REQUIRED {
            return header.status;
        }
        let message = self.bind_message(&mut initiator, &response);
        self.send(&message);
        let response = self.receive().unwrap();
        let status = Header::decode(&response).unwrap().status;
        if status == Status::SUCCESS {
            let derivation = Derivation::new(self.dialect, &self.preauth);
            let key = channel_signing_key(derivation, &initiator.session_key().unwrap()[..]);
            let key = SigningKey::new(SigningAlgorithm::AesCmac, key);
            assert!(key.verify(&mut response.clone(), Role::Server), "the last response is signed");
            self.signing_key = Some(key);
        }
        status
    }

    /// The first message of a bind, and its answer.
    pub(crate) fn begin_bind(&mut self, first: &Peer) -> (Initiator, Vec<u8>) {
        (self.session_id, self.tree_id) = (first.session_id, first.tree_id);
        self.signing_key = first.keys.as_ref().map(|keys| keys.signing_key(SigningAlgorithm::AesCmac));
        let (initiator, token) = Initiator::begin();
        let message = self.bind_token(&token);
        self.send(&message);
        let response = self.receive().unwrap();
        self.preauth.update(&response);
        (initiator, response)
    }

    /// The last message of a bind.
    pub(crate) fn bind_message(&mut self, initiator: &mut Initiator, response: &[u8]) -> Vec<u8> {
        let challenge = SessionSetupResponse::decode(response).unwrap().security_buffer.to_vec();
        let nt_hash = NtHash::from_password(PASSWORD);
        let credentials = Credentials { domain: String::new(), user: USER.into(), workstation: String::new(), nt_hash };
        let fresh = Fresh { client_challenge: [5; 8], session_key: [6; 16].into() };
        let token = initiator.answer(&challenge, &credentials, FileTime(1), &fresh).unwrap();
        self.bind_token(&token)
    }

    fn bind_token(&mut self, token: &[u8]) -> Vec<u8> {
        let flags = SessionSetupFlags::BINDING;
        let request = SessionSetupRequest { flags, security_buffer: token, ..SessionSetupRequest::default() };
        let message = self.message(Command::SESSION_SETUP, |body| request.encode(body));
        self.preauth.update(&message);
        message
    }

    fn send_token(&mut self, token: &[u8]) -> (Header, Vec<u8>) {
        let request = SessionSetupRequest { security_buffer: token, ..SessionSetupRequest::default() };
        let message = self.message(Command::SESSION_SETUP, |body| request.encode(body));
        self.preauth.update(&message);
        self.send(&message);
        let response = self.receive().unwrap();
        let header = Header::decode(&response).unwrap();
        if header.status == Status::MORE_PROCESSING_REQUIRED {
            self.preauth.update(&response);
        }
        (header, response)
    }

    /// A header with the next message id.
    pub(crate) fn header(&mut self, command: Command) -> Header {
        let message_id = MessageId(self.message_id);
        self.message_id += 1;
        Header {
            credit_charge: u16::from(message_id.0 > 0),
            command,
            credits: 64,
            message_id,
            route: Route::Sync { tree_id: self.tree_id },
            session_id: self.session_id,
            flags: if self.signing_key.is_some() { Flags::SIGNED } else { Flags::NONE },
            ..Header::default()
        }
    }

    /// A message, signed where the session is.
    pub(crate) fn message(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let header = self.header(command);
        self.finish(header, body)
    }

    /// A message with a header of the test's making.
    pub(crate) fn finish(&self, header: Header, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut message = header.to_bytes().to_vec();
        body(&mut message);
        self.sign(&mut message);
        message
    }

    pub(crate) fn sign(&self, message: &mut [u8]) {
        if let Some(key) = &self.signing_key {
            key.sign(message, Role::Client);
        }
    }

    /// Puts a frame's prefix before `frame` and sends it. A connection that the server has closed shows when it is read from.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        let bytes = [&frame_prefix(frame.len()).unwrap(), frame].concat();
        self.send_bytes(&bytes);
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
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
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
        loop {
            let Some(response) = self.receive() else { return End::Disconnected };
            let status = Header::decode(&response).unwrap().status;
            if status != Status::PENDING {
                return End::Answered(status);
            }
        }
    }

    /// Sends one request and gives its answer.
    pub(crate) fn ask(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> (Header, Vec<u8>) {
        let message = self.message(command, body);
        self.send(&message);
        loop {
            let response = self.receive().expect("the server answers");
            let header = Header::decode(&response).unwrap();
            if header.status != Status::PENDING {
                return (header, response);
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
        let header = self.header(command);
        let mut message = header.to_bytes().to_vec();
        body(&mut message);
        spoil(&mut message);
        self.sign(&mut message);
        self.end_of(&message)
    }

    /// Sends messages sealed.
    pub(crate) fn sealed(&mut self, messages: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; TRANSFORM_HEADER_LENGTH];
        frame.extend_from_slice(messages);
        let nonce = self.nonces.1.draw(&self.nonces.0).unwrap();
        let sealer = self.keys.as_ref().and_then(SessionKeys::sealer).unwrap();
        sealer.seal(&mut frame, self.session_id, nonce).unwrap();
        frame
    }

    /// Makes `name`, or opens it.
    pub(crate) fn open(&mut self, name: &str) -> FileId {
        let name = utf16_bytes(name);
        let (header, response) = self.ask(Command::CREATE, |body| create(&name).encode(body));
        assert_eq!(header.status, Status::SUCCESS);
        CreateResponse::decode(&response).unwrap().file_id
    }

    /// True where the connection still answers.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.ask(Command::ECHO, |body| EchoRequest.encode(body)).0.status == Status::SUCCESS
    }

    pub(crate) fn write_and_read_back(&mut self, name: &str) {
        let file_id = self.open(name);
        let request = WriteRequest { file_id, data: b"content", ..WriteRequest::default() };
        assert_eq!(self.ask(Command::WRITE, |body| request.encode(body)).0.status, Status::SUCCESS);
        let request = ReadRequest { file_id, length: 100, ..ReadRequest::default() };
        let (_, response) = self.ask(Command::READ, |body| request.encode(body));
        assert_eq!(ReadResponse::decode(&response).unwrap().data, b"content");
    }
}

/// A CREATE that makes or opens a file for everything.
pub(crate) fn create(name: &[u8]) -> CreateRequest<'_> {
    CreateRequest {
        desired_access: wire::security::access::FILE_ALL.into(),
        share_access: ShareAccess(7),
        disposition: CreateDisposition::OPEN_IF,
        name: Utf16::new(name).unwrap(),
        ..CreateRequest::default()
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
