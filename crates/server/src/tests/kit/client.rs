//! A client of tests, without a transport: it makes and protects messages, and learns from answers what the next ones need. A test that
//! wants to break a rule changes what the client knows, or what it has made.

use secure::Role;
use secure::kdf::{Derivation, SessionKeys, channel_signing_key};
use secure::ntlm::{Credentials, Fresh, NtHash};
use secure::preauth::PreauthHash;
use secure::seal::{Cipher, NonceSpace};
use secure::sign::{SigningAlgorithm, SigningKey};
use secure::spnego::Initiator;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::create::{CreateDisposition, CreateRequest, CreateResponse, ShareAccess};
use wire::command::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse};
use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use wire::command::tree_connect::TreeConnectRequest;
use wire::context::create::CreateContexts;
use wire::context::negotiate::{
    self as contexts, ContextType, EncryptionCapabilities, HashAlgorithm, NegotiateContextsBuilder,
    PreauthIntegrityCapabilities, SigningCapabilities,
};
use wire::header::{Flags, Header, Route};
use wire::ids::{Command, Dialect, FileId, FileTime, Guid, MessageId, SessionId, TreeId};
use wire::list::U16List;
use wire::security::access::FILE_ALL;
use wire::status::Status;
use wire::transform::TRANSFORM_HEADER_LENGTH;

use super::configuration::{PASSWORD, USER};

pub(crate) const CLIENT_GUID: Guid = Guid([9; 16]);

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
    /// The client's address and port, where no socket has them.
    pub(crate) peer: &'static str,
    /// It is a part of the server's process.
    pub(crate) is_inside: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Terms {
            dialect: Dialect::SMB_3_1_1,
            client: CLIENT_GUID,
            capabilities: Capabilities::MULTI_CHANNEL | Capabilities::LARGE_MTU,
            cipher: Some(Cipher::Aes128Gcm),
            signing: Some(SigningAlgorithm::AesCmac),
            user: USER,
            password: PASSWORD,
            previous_session: SessionId(0),
            peer: "192.0.2.1:50000",
            is_inside: false,
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

    /// The contexts of NEGOTIATE; older dialects have none.
    fn contexts(&self) -> NegotiateContextsBuilder {
        let mut builder = NegotiateContextsBuilder::new();
        if self.dialect != Dialect::SMB_3_1_1 {
            return builder;
        }
        builder.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| {
            let hashes = [HashAlgorithm::SHA_512];
            PreauthIntegrityCapabilities { hash_algorithms: U16List::new(&hashes), salt: &[1; 32] }.encode(writer);
        });
        if let Some(cipher) = self.cipher {
            builder.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| {
                let ciphers = [contexts::Cipher(cipher.to_wire())];
                EncryptionCapabilities { ciphers: U16List::new(&ciphers) }.encode(writer);
            });
        }
        if let Some(signing) = self.signing {
            builder.add(ContextType::SIGNING_CAPABILITIES, |writer| {
                let algorithms = [contexts::SigningAlgorithm(signing.to_wire())];
                SigningCapabilities { algorithms: U16List::new(&algorithms) }.encode(writer);
            });
        }
        builder
    }
}

/// A response: its header and its whole message.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) header: Header,
    pub(crate) message: Vec<u8>,
}

impl Answer {
    pub(crate) fn of(message: Vec<u8>) -> Answer {
        Answer { header: Header::decode(&message).unwrap(), message }
    }

    pub(crate) fn status(&self) -> Status {
        self.header.status
    }

    /// The open that a CREATE has made, or why there is none.
    pub(crate) fn opened(&self) -> Result<FileId, Status> {
        match self.status() {
            Status::SUCCESS => Ok(CreateResponse::decode(&self.message).unwrap().file_id),
            status => Err(status),
        }
    }

    pub(crate) fn file_id(&self) -> FileId {
        self.opened().unwrap()
    }
}

/// The client's side of one connection.
pub(crate) struct Client {
    pub(crate) terms: Terms,
    /// The session's keys, where this connection set it up.
    pub(crate) keys: Option<SessionKeys>,
    pub(crate) message_id: u64,
    pub(crate) session_id: SessionId,
    pub(crate) tree_id: TreeId,
    pub(crate) signing_key: Option<SigningKey>,
    /// Flags of the next requests, beside the usual ones.
    pub(crate) flags: Flags,
    /// ChannelSequence of requests.
    pub(crate) channel_sequence: u16,
    /// The pre-authentication integrity hash after NEGOTIATE, and during a sign-in.
    negotiated: PreauthHash,
    pub(crate) preauth: PreauthHash,
    nonces: NonceSpace,
}

impl Client {
    /// One that has said nothing yet.
    pub(crate) fn new(terms: Terms) -> Client {
        Client {
            terms,
            keys: None,
            message_id: 0,
            session_id: SessionId(0),
            tree_id: TreeId(0),
            signing_key: None,
            flags: Flags::NONE,
            channel_sequence: 0,
            negotiated: PreauthHash::new(),
            preauth: PreauthHash::new(),
            nonces: NonceSpace::new(),
        }
    }

    /// The NEGOTIATE of its terms.
    pub(crate) fn negotiate_message(&mut self) -> Vec<u8> {
        self.negotiate_with(&[self.terms.dialect], &self.terms.contexts())
    }

    pub(crate) fn negotiate_with(&mut self, dialects: &[Dialect], contexts: &NegotiateContextsBuilder) -> Vec<u8> {
        let request = NegotiateRequest {
            client_guid: self.terms.client,
            capabilities: self.terms.capabilities,
            dialects: U16List::new(dialects),
            contexts: contexts.contexts(),
            ..NegotiateRequest::default()
        };
        self.message(Command::NEGOTIATE, |body| request.encode(body))
    }

    /// Takes the answer to the NEGOTIATE of its terms.
    pub(crate) fn take_negotiated(&mut self, request: &[u8], answer: &Answer) {
        assert_eq!(answer.status(), Status::SUCCESS);
        assert_eq!(NegotiateResponse::decode(&answer.message).unwrap().dialect, self.terms.dialect);
        self.negotiated = PreauthHash::new();
        self.negotiated.update(request);
        self.negotiated.update(&answer.message);
    }

    /// Begins a sign-in: what makes its tokens, and its first message.
    pub(crate) fn begin(&mut self, flags: SessionSetupFlags) -> (Initiator, Vec<u8>) {
        let (initiator, token) = Initiator::begin();
        (initiator, self.first_setup(flags, &token))
    }

    /// The first SESSION_SETUP of a sign-in, with a token of the test's making.
    pub(crate) fn first_setup(&mut self, flags: SessionSetupFlags, token: &[u8]) -> Vec<u8> {
        self.preauth = self.negotiated.clone();
        self.setup(flags, token)
    }

    /// A SESSION_SETUP of the sign-in that is under way.
    pub(crate) fn setup(&mut self, flags: SessionSetupFlags, token: &[u8]) -> Vec<u8> {
        let request = SessionSetupRequest {
            flags,
            security_buffer: token,
            previous_session_id: self.terms.previous_session,
            ..SessionSetupRequest::default()
        };
        let message = self.message(Command::SESSION_SETUP, |body| request.encode(body));
        self.preauth.update(&message);
        message
    }

    /// Takes the answer to the first message of a sign-in, and gives the last one.
    pub(crate) fn finish(
        &mut self,
        initiator: &mut Initiator,
        flags: SessionSetupFlags,
        challenge: &Answer,
    ) -> Vec<u8> {
        self.take_challenge(challenge);
        let token = self.last_token(initiator, challenge);
        self.setup(flags, &token)
    }

    pub(crate) fn take_challenge(&mut self, challenge: &Answer) {
        assert_eq!(challenge.status(), Status::MORE_PROCESSING_REQUIRED);
        if let Some(key) = &self.signing_key {
            assert!(key.verify(&mut challenge.message.clone(), Role::Server), "interim responses are signed");
        }
        self.session_id = challenge.header.session_id;
        self.preauth.update(&challenge.message);
    }

    pub(crate) fn last_token(&self, initiator: &mut Initiator, challenge: &Answer) -> Vec<u8> {
        let challenge = SessionSetupResponse::decode(&challenge.message).unwrap().security_buffer;
        let credentials = Credentials {
            domain: String::new(),
            user: self.terms.user.into(),
            workstation: String::new(),
            nt_hash: NtHash::from_password(self.terms.password),
        };
        let fresh = Fresh { client_challenge: [5; 8], session_key: [6; 16].into() };
        initiator.answer(challenge, &credentials, FileTime(1), &fresh).unwrap()
    }

    /// Takes the keys of the session that it has set up. The last response is not part of the hash.
    pub(crate) fn take_session(&mut self, initiator: &Initiator, last: &Answer) {
        let derivation = Derivation::new(self.terms.dialect, &self.preauth);
        let session_key = initiator.session_key().unwrap();
        let keys = SessionKeys::derive(Role::Client, derivation, &session_key[..], self.terms.cipher);
        self.take_key(keys.signing_key(self.terms.signing()), last);
        self.keys = Some(keys);
    }

    /// Is about to bind the session of `first`, and signs as that.
    pub(crate) fn join(&mut self, first: &Client) {
        (self.session_id, self.tree_id) = (first.session_id, first.tree_id);
        self.signing_key = first.keys.as_ref().map(|keys| keys.signing_key(first.terms.signing()));
    }

    /// Takes the key of the channel that it has bound.
    pub(crate) fn take_channel(&mut self, initiator: &Initiator, last: &Answer) {
        let derivation = Derivation::new(self.terms.dialect, &self.preauth);
        let key = channel_signing_key(derivation, &initiator.session_key().unwrap()[..]);
        self.take_key(SigningKey::new(self.terms.signing(), key), last);
    }

    fn take_key(&mut self, key: SigningKey, last: &Answer) {
        assert!(key.verify(&mut last.message.clone(), Role::Server), "the last response is signed");
        self.signing_key = Some(key);
    }

    pub(crate) fn tree_connect(&mut self, share: &str) -> Vec<u8> {
        let path = utf16_bytes(&format!(r"\\test\{share}"));
        let request = TreeConnectRequest { path: Utf16::new(&path).unwrap(), ..TreeConnectRequest::default() };
        self.message(Command::TREE_CONNECT, |body| request.encode(body))
    }

    /// Goes on with the tree that an answer is about, where it is there.
    pub(crate) fn take_tree(&mut self, answer: &Answer) {
        if answer.status() == Status::SUCCESS {
            self.tree_id = answer.header.tree_id();
        }
    }

    /// A CREATE that makes or opens `name` for everything, with these create contexts and as `edit` has it.
    pub(crate) fn create_message(
        &mut self,
        name: &str,
        contexts: &[u8],
        edit: impl FnOnce(&mut CreateRequest<'_>),
    ) -> Vec<u8> {
        let name = utf16_bytes(name);
        let mut request = CreateRequest { contexts: CreateContexts::decode(contexts).unwrap(), ..create(&name) };
        edit(&mut request);
        self.message(Command::CREATE, |body| request.encode(body))
    }

    /// A message ready to be sent, signed where the session is.
    pub(crate) fn message(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let header = self.header(command);
        self.complete(header, body)
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
            status: Status(u32::from(self.channel_sequence)),
            flags: self.flags | if self.signing_key.is_some() { Flags::SIGNED } else { Flags::NONE },
            ..Header::default()
        }
    }

    /// The same with the credits that `payload` bytes cost.
    pub(crate) fn charged(&mut self, command: Command, payload: usize) -> Header {
        let credit_charge = payload.div_ceil(65_536).max(1) as u16;
        let header = Header { credit_charge, ..self.header(command) };
        self.message_id += u64::from(credit_charge) - 1;
        header
    }

    /// The message that has this header, signed where the session is.
    pub(crate) fn complete(&self, header: Header, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut message = unprotected(header, body);
        self.sign(&mut message);
        message
    }

    pub(crate) fn sign(&self, message: &mut [u8]) {
        if let Some(key) = &self.signing_key {
            key.sign(message, Role::Client);
        }
    }

    /// A sealed frame of these messages.
    pub(crate) fn sealed(&self, messages: &[u8]) -> Vec<u8> {
        seal_with(self.keys.as_ref().unwrap(), self.session_id, &self.nonces, messages)
    }
}

/// A message that is not signed yet.
pub(crate) fn unprotected(header: Header, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut message = header.to_bytes().to_vec();
    body(&mut message);
    message
}

/// A sealed frame of these messages.
pub(crate) fn seal_with(keys: &SessionKeys, session: SessionId, nonces: &NonceSpace, messages: &[u8]) -> Vec<u8> {
    let mut frame = [&[0; TRANSFORM_HEADER_LENGTH][..], messages].concat();
    let nonce = nonces.lease().unwrap().take().unwrap();
    keys.sealer().unwrap().seal(&mut frame, session, nonce).unwrap();
    frame
}

/// A CREATE that makes or opens a file for everything, and shares it with all.
pub(crate) fn create(name: &[u8]) -> CreateRequest<'_> {
    CreateRequest {
        desired_access: FILE_ALL.into(),
        share_access: ShareAccess(7),
        disposition: CreateDisposition::OPEN_IF,
        name: Utf16::new(name).unwrap(),
        ..CreateRequest::default()
    }
}
