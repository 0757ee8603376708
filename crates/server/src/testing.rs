//! For tests: a server without sockets, and a client that speaks to one of its connections frame by frame.

use std::rc::Rc;
use std::sync::Arc;

use secure::kdf::{Derivation, SessionKeys};
use secure::ntlm::{Credentials, Fresh, NtHash};
use secure::preauth::PreauthHash;
use secure::sign::{SigningAlgorithm, SigningKey};
use secure::spnego::Initiator;
use store::{RamStore, Store};
use wire::codec::utf16_bytes;
use wire::command::close::CloseRequest;
use wire::command::create::{CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ShareAccess};
use wire::command::negotiate::{NegotiateRequest, NegotiateResponse};
use wire::command::query_info::{InfoType, QueryInfoRequest};
use wire::command::session_setup::{SessionSetupRequest, SessionSetupResponse};
use wire::command::set_info::SetInfoRequest;
use wire::command::tree_connect::TreeConnectRequest;
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

use crate::Shared;
use crate::admin::{Estate, Principal, PrincipalKind, Sealing, Settings, Share, Signing};
use crate::buffers::Buffers;
use crate::connection::{Connection, Disconnect, Origin};
use crate::pipeline;

/// The user and password that the test server knows.
pub(crate) const USER: &str = "tester";
pub(crate) const PASSWORD: &str = "secret";

/// A server with one RAM disk, `ram`, and one user.
pub(crate) fn server(signing: Signing) -> Arc<Shared> {
    let store: Arc<dyn Store> = Arc::new(RamStore::new(64 << 20));
    server_with(signing, store)
}

/// A server with one share, `ram`, on `store`.
pub(crate) fn server_with(signing: Signing, store: Arc<dyn Store>) -> Arc<Shared> {
    let principal = Principal {
        name: USER.into(),
        account: "local".into(),
        kind: PrincipalKind::User,
        relative_id: 1001,
        secrets: vec![*NtHash::from_password(PASSWORD).as_bytes()],
    };
    let share = Share {
        name: "ram".into(),
        account: "local".into(),
        comment: String::new(),
        store,
        read_only: false,
        seal_required: false,
    };
    let settings = Settings {
        server_name: "test".into(),
        machine_sid: [1, 2, 3],
        server_guid: [7; 16],
        dialect_min: Dialect::SMB_2_0_2.0,
        signing,
        sealing: Sealing::Enabled,
    };
    Arc::new(Shared::new(Estate { principals: vec![principal], shares: vec![share], settings }))
}

/// A client on one connection.
pub(crate) struct Peer {
    pub(crate) connection: Rc<Connection>,
    pub(crate) message_id: u64,
    pub(crate) session_id: SessionId,
    pub(crate) tree_id: TreeId,
    pub(crate) signing_key: Option<SigningKey>,
    preauth: PreauthHash,
}

/// A response: its header and its whole message.
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
    pub(crate) fn connect(server: &Arc<Shared>) -> Peer {
        let origin = Origin { id: 1, peer: "peer".into(), local: "local".into(), shard: 0 };
        let connection = Connection::new(origin, Arc::clone(server), Rc::new(Buffers::default()));
        Peer {
            connection,
            message_id: 0,
            session_id: SessionId(0),
            tree_id: TreeId(0),
            signing_key: None,
            preauth: PreauthHash::new(),
        }
    }

    /// A connection that has negotiated 3.1.1, signed in and connected to the share.
    pub(crate) async fn sign_in(server: &Arc<Shared>) -> Peer {
        let mut peer = Peer::connect(server);
        peer.negotiate().await;
        peer.set_up_session().await;
        let path = utf16_bytes(r"\\test\ram");
        let request = TreeConnectRequest { path: Utf16::new(&path).unwrap(), ..TreeConnectRequest::default() };
        let answer = peer.ask(Command::TREE_CONNECT, |body| request.encode(body)).await;
        assert_eq!(answer.status(), Status::SUCCESS);
        peer.tree_id = answer.header.tree_id();
        peer
    }

    pub(crate) async fn negotiate(&mut self) {
        let mut builder = NegotiateContextsBuilder::new();
        builder.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| {
            let hashes = [HashAlgorithm::SHA_512];
            PreauthIntegrityCapabilities { hash_algorithms: U16List::new(&hashes), salt: &[1; 32] }.encode(writer);
        });
        builder.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| {
            EncryptionCapabilities { ciphers: U16List::new(&[contexts::Cipher::AES_128_GCM]) }.encode(writer);
        });
        builder.add(ContextType::SIGNING_CAPABILITIES, |writer| {
            let algorithms = [contexts::SigningAlgorithm(SigningAlgorithm::AesGmac.to_wire())];
            SigningCapabilities { algorithms: U16List::new(&algorithms) }.encode(writer);
        });
        let request = NegotiateRequest {
            client_guid: Guid([9; 16]),
            dialects: U16List::new(&[Dialect::SMB_3_1_1]),
            contexts: builder.contexts(),
            ..NegotiateRequest::default()
        };
        let sent = self.message(Command::NEGOTIATE, |body| request.encode(body));
        self.preauth.update(&sent);
        let answer = self.exchange(sent).await;
        assert_eq!(NegotiateResponse::decode(&answer.message).unwrap().dialect, Dialect::SMB_3_1_1);
        self.preauth.update(&answer.message);
    }

    pub(crate) async fn set_up_session(&mut self) {
        let (mut initiator, token) = Initiator::begin();
        let answer = self.send_token(&token).await;
        assert_eq!(answer.status(), Status::MORE_PROCESSING_REQUIRED);
        self.session_id = answer.header.session_id;
        self.preauth.update(&answer.message);
        let challenge = SessionSetupResponse::decode(&answer.message).unwrap().security_buffer.to_vec();
        let credentials = Credentials {
            domain: String::new(),
            user: USER.into(),
            workstation: String::new(),
            nt_hash: NtHash::from_password(PASSWORD),
        };
        let fresh = Fresh { client_challenge: [5; 8], session_key: [6; 16] };
        let token = initiator.answer(&challenge, &credentials, FileTime(1), &fresh).unwrap();
        let answer = self.send_token(&token).await;
        assert_eq!(answer.status(), Status::SUCCESS);
        let key = initiator.session_key().unwrap();
        let keys = SessionKeys::derive(secure::Role::Client, Derivation::Smb311(&self.preauth), &key, None);
        let signing_key = keys.signing_key(SigningAlgorithm::AesGmac);
        assert!(signing_key.verify(&mut answer.message.clone(), secure::Role::Server), "the last response is signed");
        self.signing_key = Some(signing_key);
    }

    async fn send_token(&mut self, token: &[u8]) -> Answer {
        let request = SessionSetupRequest { security_buffer: token, ..SessionSetupRequest::default() };
        let sent = self.message(Command::SESSION_SETUP, |body| request.encode(body));
        self.preauth.update(&sent);
        self.exchange(sent).await
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
        let name = utf16_bytes(name);
        let mut request = CreateRequest {
            desired_access: wire::security::access::FILE_ALL.into(),
            share_access: ShareAccess(7),
            disposition: CreateDisposition::OPEN_IF,
            name: Utf16::new(&name).unwrap(),
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
            flags: if self.signing_key.is_some() { Flags::SIGNED } else { Flags::NONE },
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
        loop {
            let answer = self.receive().await;
            if answer.status() != Status::PENDING {
                return answer;
            }
        }
    }

    /// Hands a frame to the pipeline.
    pub(crate) fn process(&self, frame: &mut [u8]) -> Result<(), Disconnect> {
        pipeline::process(&self.connection, frame)
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
        let pending = outbox.pending();
        let length = frame::frame_length(*pending.first_chunk()?).unwrap();
        let message = pending[frame::PREFIX_LENGTH..frame::PREFIX_LENGTH + length].to_vec();
        outbox.sent(&self.connection.buffers, frame::PREFIX_LENGTH + length);
        Some(message)
    }

    /// Forgets everything that waits to be sent, without allocating.
    pub(crate) fn discard(&self) {
        self.connection.outbox.borrow_mut().clear(&self.connection.buffers);
    }
}
