//! For tests: a server without sockets, and a client that speaks to one of its connections frame by frame.

use std::rc::Rc;
use std::sync::Arc;

use secure::kdf::{Derivation, SessionKeys, channel_signing_key};
use secure::ntlm::{Authenticate, Credentials, Flags as NtlmFlags, Fresh, Negotiate, NtHash};
use secure::preauth::PreauthHash;
use secure::seal::Cipher;
use secure::sign::{SigningAlgorithm, SigningKey};
use secure::spnego::Initiator;
use store::{RamStore, Store};
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::codec::utf16_bytes;
use wire::command::close::CloseRequest;
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use wire::command::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse};
use wire::command::query_info::{InfoType, QueryInfoRequest};
use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use wire::command::set_info::SetInfoRequest;
use wire::command::tree_connect::TreeConnectRequest;
use wire::context::create::CreateContexts;
use wire::context::negotiate::{
    self as contexts, ContextType, EncryptionCapabilities, HashAlgorithm, NegotiateContextsBuilder,
    PreauthIntegrityCapabilities, SigningCapabilities,
};
use wire::fscc::FileClass;
use wire::header::{Flags, Header, Route};
use wire::ids::{Command, Dialect, FileId, FileTime, Guid, MessageId, SessionId, TreeId};
use wire::list::U16List;
use wire::status::Status;
use wire::{Utf16, frame};

use crate::command::connection::Disconnect;
use crate::command::migrated::MigratedConnection;
use crate::command::migrated::Origin;
use crate::net::connection::Endpoint;
use crate::request::finding::Finding;
use crate::request::inbox::Kept;
use crate::request::opening::Look;
use crate::request::pipeline;
use crate::resource::address::AddressPrefix;
use crate::resource::buffers::{Buffer, Buffers};
use crate::resource::capacity::Capacity;
use crate::resource::slice::Slice;
use crate::resource::turns::Turns;
use crate::state::configuration::Signing;
use crate::state::open::Open;
use crate::state::open_id::OpenId;
use crate::state::shared::Shared;
use crate::state::strangers::Room;
use crate::tests::kit::configuration::configuration;
pub(crate) use crate::tests::kit::configuration::{OTHER_USER, PASSWORD, THIRD_USER, USER};

/// A server with one RAM disk, `ram`.
pub(crate) fn server(signing: Signing) -> Arc<Shared> {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
    server_with(signing, store)
}

/// A server with one share, `ram`, on `store`.
pub(crate) fn server_with(signing: Signing, store: Arc<dyn Store>) -> Arc<Shared> {
    server_of(signing, store, Capacity::default())
}

/// The same with room for so much.
pub(crate) fn server_of(signing: Signing, store: Arc<dyn Store>, capacity: Capacity) -> Arc<Shared> {
    let mut configuration = configuration(store);
    configuration.settings.signing = signing;
    configuration.shares[0].continuously_available = true;
    Arc::new(Shared::new(configuration, vec![([127, 0, 0, 1], 445).into()], 1, capacity))
}

/// What a client offers in NEGOTIATE, and who signs in.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) dialect: Dialect,
    pub(crate) client: Guid,
    pub(crate) capabilities: Capabilities,
    pub(crate) cipher: Option<Cipher>,
    pub(crate) signing: Option<SigningAlgorithm>,
    pub(crate) user: &'static str,
    pub(crate) password: &'static str,
    /// The session that the new one takes the place of.
    pub(crate) previous_session: SessionId,
    /// The client's address and port.
    pub(crate) peer: &'static str,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            dialect: Dialect::SMB_3_1_1,
            client: Guid([9; 16]),
            capabilities: Capabilities::MULTI_CHANNEL | Capabilities::LARGE_MTU,
            cipher: Some(Cipher::Aes128Gcm),
            signing: Some(SigningAlgorithm::AesCmac),
            user: USER,
            password: PASSWORD,
            previous_session: SessionId(0),
            peer: "192.0.2.1:50000",
        }
    }
}

impl Terms {
    /// How the client signs on such a connection.
    pub(crate) fn signing(&self) -> SigningAlgorithm {
        let by_dialect =
            if self.dialect >= Dialect::SMB_3_0 { SigningAlgorithm::AesCmac } else { SigningAlgorithm::HmacSha256 };
        self.signing.filter(|_| self.dialect == Dialect::SMB_3_1_1).unwrap_or(by_dialect)
    }
}

/// A client on one connection.
pub(crate) struct Peer {
    pub(crate) terms: Terms,
    /// The session's keys, where this connection set it up.
    pub(crate) keys: Option<SessionKeys>,
    pub(crate) connection: Rc<Endpoint>,
    pub(crate) message_id: u64,
    pub(crate) session_id: SessionId,
    pub(crate) tree_id: TreeId,
    pub(crate) signing_key: Option<SigningKey>,
    /// Flags of the next requests, beside the usual ones.
    pub(crate) flags: Flags,
    /// ChannelSequence of requests.
    pub(crate) channel_sequence: u16,
    /// Its frames are opened and verified first, as long ones are.
    pub(crate) opens_first: bool,
    /// After NEGOTIATE, and during a sign-in.
    negotiated: PreauthHash,
    preauth: PreauthHash,
}

/// A response: its header and its whole message.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) header: Header,
    pub(crate) message: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> Status {
        self.header.status
    }
}

impl Peer {
    /// A connection that has said nothing yet.
    pub(crate) fn connect_as(server: &Arc<Shared>, terms: Terms) -> Peer {
        Peer::connect_on(server, &Rc::default(), terms)
    }

    /// The same on a shard whose connections take `turns`.
    pub(crate) fn connect_on(server: &Arc<Shared>, turns: &Rc<Turns>, terms: Terms) -> Peer {
        let origin = Origin { id: server.new_open_id().0, peer: terms.peer.into(), local: "local".into(), shard: 0 };
        let mut migrated = MigratedConnection::of_new(origin);
        migrated.stranger = server.strangers.enter(AddressPrefix::of(terms.peer), &migrated.mailbox, Room::Left);
        let connection = Endpoint::new(migrated, Arc::clone(server), Rc::new(Buffers::default()), turns);
        Peer {
            terms,
            keys: None,
            connection,
            message_id: 0,
            session_id: SessionId(0),
            tree_id: TreeId(0),
            signing_key: None,
            channel_sequence: 0,
            opens_first: false,
            flags: Flags::NONE,
            negotiated: PreauthHash::new(),
            preauth: PreauthHash::new(),
        }
    }

    /// A connection that has negotiated 3.1.1, signed in and connected to the share.
    pub(crate) async fn sign_in(server: &Arc<Shared>) -> Peer {
        Peer::sign_in_as(server, Terms::default()).await
    }

    /// The same with terms of its own.
    pub(crate) async fn sign_in_as(server: &Arc<Shared>, terms: Terms) -> Peer {
        let mut peer = Peer::connect_as(server, terms);
        peer.negotiate().await;
        peer.set_up_session().await;
        assert_eq!(peer.connect("ram").await, Status::SUCCESS);
        peer
    }

    /// Connects to a share, and goes on with that where it may.
    pub(crate) async fn connect(&mut self, share: &str) -> Status {
        let path = utf16_bytes(&format!(r"\\test\{share}"));
        let request = TreeConnectRequest { path: Utf16::new(&path).unwrap(), ..TreeConnectRequest::default() };
        let answer = self.ask(Command::TREE_CONNECT, |body| request.encode(body)).await;
        if answer.status() == Status::SUCCESS {
            self.tree_id = answer.header.tree_id();
        }
        answer.status()
    }

    pub(crate) async fn negotiate(&mut self) {
        let mut builder = NegotiateContextsBuilder::new();
        builder.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| {
            let hashes = [HashAlgorithm::SHA_512];
            PreauthIntegrityCapabilities { hash_algorithms: U16List::new(&hashes), salt: &[1; 32] }.encode(writer);
        });
        if let Some(cipher) = self.terms.cipher {
            builder.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| {
                let ciphers = [contexts::Cipher(cipher.to_wire())];
                EncryptionCapabilities { ciphers: U16List::new(&ciphers) }.encode(writer);
            });
        }
        if let Some(signing) = self.terms.signing {
            builder.add(ContextType::SIGNING_CAPABILITIES, |writer| {
                let algorithms = [contexts::SigningAlgorithm(signing.to_wire())];
                SigningCapabilities { algorithms: U16List::new(&algorithms) }.encode(writer);
            });
        }
        if self.terms.dialect != Dialect::SMB_3_1_1 {
            builder = NegotiateContextsBuilder::new();
        }
        let Terms { dialect, client, capabilities, .. } = self.terms;
        let dialects = [dialect];
        let request = NegotiateRequest {
            client_guid: client,
            capabilities,
            dialects: U16List::new(&dialects),
            contexts: builder.contexts(),
            ..NegotiateRequest::default()
        };
        let sent = self.message(Command::NEGOTIATE, |body| request.encode(body));
        self.preauth.update(&sent);
        let answer = self.exchange(sent).await;
        assert_eq!(NegotiateResponse::decode(&answer.message).unwrap().dialect, dialect);
        self.preauth.update(&answer.message);
        self.negotiated = self.preauth.clone();
    }

    pub(crate) async fn set_up_session(&mut self) {
        let (answer, key) = self.authenticate(SessionSetupFlags::NONE).await;
        assert_eq!(answer.status(), Status::SUCCESS);
        let derivation = Derivation::new(self.terms.dialect, &self.preauth);
        let keys = SessionKeys::derive(secure::Role::Client, derivation, &key.unwrap(), self.terms.cipher);
        self.take_key(keys.signing_key(self.terms.signing()), answer);
        self.keys = Some(keys);
    }

    /// Binds the session of `first` to this connection, which has negotiated.
    pub(crate) async fn bind(&mut self, first: &Peer) -> Status {
        let keys = first.keys.as_ref().unwrap();
        self.signing_key = Some(keys.signing_key(first.terms.signing()));
        self.bind_with_key(first).await
    }

    /// The same, signed with whatever key this connection has.
    pub(crate) async fn bind_with_key(&mut self, first: &Peer) -> Status {
        (self.session_id, self.tree_id) = (first.session_id, first.tree_id);
        let (answer, key) = self.authenticate(SessionSetupFlags::BINDING).await;
        if answer.status() == Status::SUCCESS {
            let derivation = Derivation::new(self.terms.dialect, &self.preauth);
            let key = channel_signing_key(derivation, &key.unwrap());
            self.take_key(SigningKey::new(self.terms.signing(), key), answer.clone());
        }
        answer.status()
    }

    /// Signs in again to the session that this connection is a channel of.
    pub(crate) async fn sign_in_again(&mut self, flags: SessionSetupFlags) -> Status {
        self.authenticate(flags).await.0.status()
    }

    /// The last token of a sign-in whose first one, of `initiator`, was answered with `answer`.
    pub(crate) fn last_token(&self, initiator: &mut Initiator, answer: &Answer) -> Vec<u8> {
        let challenge = SessionSetupResponse::decode(&answer.message).unwrap().security_buffer.to_vec();
        let credentials = Credentials {
            domain: String::new(),
            user: self.terms.user.into(),
            workstation: String::new(),
            nt_hash: NtHash::from_password(self.terms.password),
        };
        let fresh = Fresh { client_challenge: [5; 8], session_key: [6; 16].into() };
        initiator.answer(&challenge, &credentials, FileTime(1), &fresh).unwrap()
    }

    /// Begins to sign in, and leaves it at that.
    pub(crate) async fn begin_sign_in(&mut self) -> Status {
        (self.session_id, self.preauth) = (SessionId(0), self.negotiated.clone());
        let (_, token) = Initiator::begin();
        self.send_token(SessionSetupFlags::NONE, &token).await.status()
    }

    /// Asks for the anonymous user: with a token without a name and without a response (MS-NLMP 3.2.5.1.2).
    pub(crate) async fn ask_for_anonymous(&mut self, flags: SessionSetupFlags) -> Answer {
        self.preauth = self.negotiated.clone();
        let (mut negotiate, mut authenticate) = (Vec::new(), Vec::new());
        let ntlm_flags = NtlmFlags::UNICODE | NtlmFlags::NTLM | NtlmFlags::EXTENDED_SESSION_SECURITY;
        Negotiate { flags: ntlm_flags }.encode(&mut negotiate);
        let nobody = Authenticate {
            flags: ntlm_flags | NtlmFlags::ANONYMOUS,
            lm_response: &[0],
            nt_response: &[],
            domain: Default::default(),
            user: Default::default(),
            workstation: Default::default(),
            encrypted_session_key: &[],
            mic: None,
        };
        nobody.encode(&mut authenticate).unwrap();
        let challenge = self.send_token(flags, &negotiate).await;
        if challenge.status() != Status::MORE_PROCESSING_REQUIRED {
            return challenge;
        }
        self.session_id = challenge.header.session_id;
        self.preauth.update(&challenge.message);
        self.send_token(flags, &authenticate).await
    }

    fn take_key(&mut self, key: SigningKey, answer: Answer) {
        assert!(key.verify(&mut answer.message.clone(), secure::Role::Server), "the last response is signed");
        self.signing_key = Some(key);
    }

    /// Sends tokens until the server has decided; gives its answer, and the key where it was asked for all it wanted.
    async fn authenticate(&mut self, flags: SessionSetupFlags) -> (Answer, Option<Vec<u8>>) {
        self.preauth = self.negotiated.clone();
        let (mut initiator, token) = Initiator::begin();
        let answer = self.send_token(flags, &token).await;
        if answer.status() != Status::MORE_PROCESSING_REQUIRED {
            return (answer, None);
        }
        if let Some(key) = &self.signing_key {
            assert!(key.verify(&mut answer.message.clone(), secure::Role::Server), "interim responses are signed");
        }
        self.session_id = answer.header.session_id;
        self.preauth.update(&answer.message);
        let token = self.last_token(&mut initiator, &answer);
        let answer = self.send_token(flags, &token).await;
        (answer, initiator.session_key().map(|key| key.to_vec()))
    }

    pub(crate) async fn send_token(&mut self, flags: SessionSetupFlags, token: &[u8]) -> Answer {
        let request = SessionSetupRequest {
            flags,
            security_buffer: token,
            previous_session_id: self.terms.previous_session,
            ..SessionSetupRequest::default()
        };
        let sent = self.message(Command::SESSION_SETUP, |body| request.encode(body));
        self.preauth.update(&sent);
        self.exchange(sent).await
    }

    /// The connection breaks.
    pub(crate) fn disconnect(self) {
        self.connection.ended();
    }

    /// What binding needs to know of the session that this connection set up, without a channel of it.
    pub(crate) fn known_session(&self) -> Peer {
        let mut peer = Peer::connect_as(&self.connection.server, self.terms);
        (peer.session_id, peer.tree_id, peer.keys) = (self.session_id, self.tree_id, self.keys.clone());
        peer
    }

    /// One more channel of the session of `first`, which goes on with its channel sequence.
    pub(crate) async fn bound(server: &Arc<Shared>, first: &Peer) -> Peer {
        let mut peer = Peer::connect_as(server, first.terms);
        peer.negotiate().await;
        assert_eq!(peer.bind(first).await, Status::SUCCESS);
        peer.channel_sequence = first.channel_sequence;
        peer
    }

    /// Makes `name`, or opens it, for everything.
    pub(crate) async fn open(&mut self, name: &str) -> FileId {
        let name = utf16_bytes(name);
        let request = CreateRequest {
            desired_access: wire::security::access::FILE_ALL.into(),
            share_access: ShareAccess(7),
            disposition: CreateDisposition::OPEN_IF,
            options: CreateOptions::NON_DIRECTORY_FILE,
            name: Utf16::new(&name).unwrap(),
            ..CreateRequest::default()
        };
        let answer = self.ask(Command::CREATE, |body| request.encode(body)).await;
        assert_eq!(answer.status(), Status::SUCCESS);
        CreateResponse::decode(&answer.message).unwrap().file_id
    }

    /// Makes or opens `name` as `edit` has it, for everything and shared with all where it says nothing else.
    pub(crate) async fn create(&mut self, name: &str, edit: impl for<'a> FnOnce(&mut CreateRequest<'a>)) -> Answer {
        self.create_edited(name, &[], edit).await
    }

    /// Makes or opens `name` for everything, with these create contexts and as `edit` has it.
    pub(crate) async fn create_edited(
        &mut self,
        name: &str,
        contexts: &[u8],
        edit: impl FnOnce(&mut CreateRequest<'_>),
    ) -> Answer {
        let name = utf16_bytes(name);
        let mut request = CreateRequest {
            desired_access: wire::security::access::FILE_ALL.into(),
            share_access: ShareAccess(7),
            disposition: CreateDisposition::OPEN_IF,
            name: Utf16::new(&name).unwrap(),
            contexts: CreateContexts::decode(contexts).unwrap(),
            ..CreateRequest::default()
        };
        edit(&mut request);
        self.ask(Command::CREATE, |body| request.encode(body)).await
    }

    /// Makes or opens the directory `name`; the share's root where that is empty.
    pub(crate) async fn open_directory(&mut self, name: &str) -> FileId {
        let answer = self.create(name, |request| request.options = CreateOptions::DIRECTORY_FILE).await;
        assert_eq!(answer.status(), Status::SUCCESS);
        CreateResponse::decode(&answer.message).unwrap().file_id
    }

    /// Closes an open.
    pub(crate) async fn close(&mut self, file_id: FileId) {
        let request = CloseRequest { file_id, ..CloseRequest::default() };
        assert_eq!(self.ask(Command::CLOSE, |body| request.encode(body)).await.status(), Status::SUCCESS);
    }

    /// Asks about a file.
    pub(crate) async fn query(&mut self, file_id: FileId, class: FileClass, room: u32) -> Answer {
        let request = QueryInfoRequest {
            info_type: InfoType::FILE,
            class: class.into(),
            output_buffer_length: room,
            file_id,
            ..QueryInfoRequest::default()
        };
        self.ask(Command::QUERY_INFO, |body| request.encode(body)).await
    }

    /// Changes a file.
    pub(crate) async fn set(&mut self, file_id: FileId, class: FileClass, buffer: &[u8]) -> Status {
        let info_type = InfoType::FILE;
        let request = SetInfoRequest { info_type, class: class.into(), file_id, buffer, ..SetInfoRequest::default() };
        self.ask(Command::SET_INFO, |body| request.encode(body)).await.status()
    }

    /// A message ready to be sent, signed where the session is.
    pub(crate) fn message(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let header = self.header(command);
        let mut message = header.to_bytes().to_vec();
        body(&mut message);
        self.sign(&mut message);
        message
    }

    /// A header with the next message id.
    pub(crate) fn header(&mut self, command: Command) -> Header {
        let message_id = MessageId(self.message_id);
        let charge = u16::from(self.message_id > 0);
        self.message_id += 1;
        Header {
            credit_charge: charge,
            command,
            credits: 64,
            message_id,
            route: Route::Sync { tree_id: self.tree_id },
            session_id: self.session_id,
            status: Status(u32::from(self.channel_sequence)),
            flags: self.flags | if self.signing_key.is_some() { Flags::SIGNED } else { Flags::NONE },
            ..Header::default()
        }
    }

    pub(crate) fn sign(&self, message: &mut [u8]) {
        if let Some(key) = &self.signing_key {
            key.sign(message, secure::Role::Client);
        }
    }

    /// Sends one request and gives its final response.
    pub(crate) async fn ask(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> Answer {
        let message = self.message(command, body);
        self.exchange(message).await
    }

    /// Sends a message and gives the response, passing over an interim one.
    pub(crate) async fn exchange(&mut self, mut message: Vec<u8>) -> Answer {
        self.process(&mut message).unwrap();
        self.last().await
    }

    /// Waits for the next response that is not an interim one.
    pub(crate) async fn last(&self) -> Answer {
        loop {
            let answer = self.receive().await;
            if answer.status() != Status::PENDING {
                return answer;
            }
        }
    }

    /// What its session has open under this id.
    pub(crate) fn opened(&self, server: &Shared, id: FileId) -> Arc<Open> {
        server.sessions.find(self.session_id).unwrap().open(OpenId(id.persistent)).unwrap()
    }

    /// Hands a frame to the pipeline.
    pub(crate) fn process(&self, frame: &mut [u8]) -> Result<(), Disconnect> {
        let finding = if self.opens_first { Look::now(&self.connection, frame) } else { Finding::None };
        let Some(long) = pipeline::process(&self.connection.responder, frame, finding)? else { return Ok(()) };
        let messages = long.messages.clone();
        let claim =
            pipeline::claim(&self.connection, crate::request::slow_path::need(&frame[messages.clone()], frame.len()))
                .unwrap();
        if let Some(admitted) = pipeline::admit(&self.connection, &mut frame[messages.clone()], long)? {
            let bytes = Arc::new(Buffer::from(frame.to_vec()));
            let kept = Kept { frame: Slice::new(&bytes, messages), charge: None };
            pipeline::run(&self.connection.responder, admitted, kept, claim);
        }
        if let Some(channel) = self.connection.channels.borrow().values().next() {
            self.connection.allowance.sign_in(&channel.session.budgets, self.connection.address);
        }
        Ok(())
    }

    /// Waits for the next frame of the outbox.
    pub(crate) async fn receive(&self) -> Answer {
        loop {
            if let Some(message) = self.take_frame() {
                return Answer { header: Header::decode(&message).unwrap(), message };
            }
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// The next frame of the outbox, where there is one.
    pub(crate) fn take_frame(&self) -> Option<Vec<u8>> {
        let mut outbox = self.connection.outbox.borrow_mut();
        let length = frame::frame_length(*outbox.peek(frame::PREFIX_LENGTH).first_chunk()?).unwrap();
        let mut message = outbox.peek(frame::PREFIX_LENGTH + length);
        outbox.skip(&self.connection.buffers, message.len());
        message.drain(..frame::PREFIX_LENGTH);
        Some(message)
    }

    /// Forgets everything that waits to be sent, without allocating.
    pub(crate) fn discard(&self) {
        self.connection.outbox.borrow_mut().clear(&self.connection.buffers);
    }
}

/// A message as it goes through a stream.
pub(crate) fn framed(message: &[u8]) -> Vec<u8> {
    [&frame::frame_prefix(message.len()).unwrap()[..], message].concat()
}

/// The next message that comes out of a stream.
pub(crate) async fn next_message(stream: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let length = stream.read_u32().await.unwrap() as usize;
    let mut message = vec![0; length];
    stream.read_exact(&mut message).await.unwrap();
    message
}

/// Joins messages of one frame; each is signed by `sign` when it stands where it belongs.
pub(crate) fn chained(mut messages: Vec<Vec<u8>>, sign: impl Fn(usize, &mut [u8])) -> Vec<u8> {
    let last = messages.len() - 1;
    for (position, message) in messages.iter_mut().enumerate() {
        if position < last {
            message.resize(message.len().next_multiple_of(8), 0);
            let length = message.len() as u32;
            message[20..24].copy_from_slice(&length.to_le_bytes());
        }
        sign(position, message);
    }
    messages.concat()
}

/// The headers of the responses in one frame.
pub(crate) fn headers(frame: &[u8]) -> Vec<Header> {
    let (mut headers, mut rest) = (Vec::new(), frame);
    loop {
        let header = Header::decode(rest).unwrap();
        headers.push(header);
        match header.next_command as usize {
            0 => return headers,
            next => rest = &rest[next..],
        }
    }
}
