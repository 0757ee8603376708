//! One signed-in connection of dialect 3.1.1: signs or seals what it sends, batches sends, cuts what it receives.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::SystemTime;

use secure::Role;
use secure::kdf::{Derivation, SessionKeys};
use secure::ntlm::{Credentials, Fresh, NtHash};
use secure::preauth::PreauthHash;
use secure::seal::{Cipher, NonceRange, NonceSpace, Opener, Sealer, TRANSFORM_HEADER_LENGTH};
use secure::sign::{SigningAlgorithm, SigningKey};
use secure::spnego::Initiator;
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse, SecurityMode};
use wire::command::session_setup::{SessionSetupRequest, SessionSetupResponse};
use wire::command::tree_connect::TreeConnectRequest;
use wire::context::negotiate::{
    self as contexts, ContextType, EncryptionCapabilities, HashAlgorithm, NegotiateContextsBuilder,
    PreauthIntegrityCapabilities, SigningCapabilities,
};
use wire::frame::{PREFIX_LENGTH, frame_length, frame_prefix};
use wire::header::{Flags, Header, Route};
use wire::ids::{Command, Dialect, FileTime, Guid, MessageId, SessionId, TreeId};
use wire::list::U16List;
use wire::status::Status;

/// How messages are protected.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    Plain,
    Sign,
    Seal,
}

/// Where to sign in.
pub struct Target {
    pub address: String,
    pub share: String,
    pub user: String,
    pub password: String,
    pub protection: Protection,
}

/// Bytes received before requests are answered together.
const RECEIVE_BYTES: usize = 4 << 20;
/// Credits asked for with every request until there are enough.
const CREDITS_ASKED: u16 = 256;

pub struct Connection {
    stream: TcpStream,
    protection: Protection,
    message_id: u64,
    pub credits: u32,
    session_id: SessionId,
    tree_id: TreeId,
    signing: Option<SigningKey>,
    sealing: Option<(Sealer, Opener, NonceSpace, NonceRange)>,
    preauth: PreauthHash,
    out: Vec<u8>,
    input: Vec<u8>,
    filled: usize,
    start: usize,
}

impl Connection {
    /// Connects, negotiates, signs in and connects to the share.
    pub fn open(target: &Target) -> Result<Self, String> {
        let stream = TcpStream::connect(&target.address).map_err(|error| format!("{}: {error}", target.address))?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let mut connection = Connection {
            stream,
            protection: Protection::Plain,
            message_id: 0,
            credits: 1,
            session_id: SessionId(0),
            tree_id: TreeId(0),
            signing: None,
            sealing: None,
            preauth: PreauthHash::new(),
            out: Vec::new(),
            input: vec![0; RECEIVE_BYTES],
            filled: 0,
            start: 0,
        };
        let cipher = connection.negotiate()?;
        connection.sign_in(target, cipher)?;
        connection.protection = target.protection;
        let host = target.address.split(':').next().unwrap_or("server");
        let path = utf16_bytes(&format!(r"\\{host}\{}", target.share));
        let path = Utf16::new(&path).map_err(|error| error.to_string())?;
        let answer = connection.ask(Command::TREE_CONNECT, |body| {
            TreeConnectRequest { path, ..TreeConnectRequest::default() }.encode(body);
        })?;
        connection.tree_id = answer.0.tree_id();
        Ok(connection)
    }

    fn negotiate(&mut self) -> Result<Option<Cipher>, String> {
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
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION,
            client_guid: Guid([9; 16]),
            dialects: U16List::new(&[Dialect::SMB_3_1_1]),
            contexts: builder.contexts(),
        };
        self.request(Command::NEGOTIATE, 1, |body| request.encode(body));
        self.hash_sent();
        self.send()?;
        let (header, message) = self.wait()?;
        self.preauth.update(&message);
        let response = NegotiateResponse::decode(&message).map_err(|error| error.to_string())?;
        if header.status != Status::SUCCESS || response.dialect != Dialect::SMB_3_1_1 {
            return Err(format!("NEGOTIATE: {}", header.status));
        }
        let encryption = response.contexts.find(ContextType::ENCRYPTION_CAPABILITIES);
        let ciphers = encryption.and_then(|data| EncryptionCapabilities::decode(data).ok());
        Ok(ciphers.and_then(|ciphers| ciphers.ciphers.iter().next()).and_then(|cipher| Cipher::from_wire(cipher.0)))
    }

    fn sign_in(&mut self, target: &Target, cipher: Option<Cipher>) -> Result<(), String> {
        let (mut initiator, token) = Initiator::begin();
        let (header, message) = self.send_token(&token)?;
        self.session_id = header.session_id;
        self.preauth.update(&message);
        let challenge = SessionSetupResponse::decode(&message).map_err(|error| error.to_string())?;
        let credentials = Credentials {
            domain: String::new(),
            user: target.user.clone(),
            workstation: String::new(),
            nt_hash: NtHash::from_password(&target.password),
        };
        let mut fresh = Fresh { client_challenge: [0; 8], session_key: [0; 16] };
        secure::random(&mut fresh.client_challenge).map_err(|_| "no chance")?;
        secure::random(&mut fresh.session_key).map_err(|_| "no chance")?;
        let now = FileTime::from(SystemTime::now());
        let token = initiator
            .answer(challenge.security_buffer, &credentials, now, &fresh)
            .map_err(|failure| failure.to_string())?;
        let (header, _) = self.send_token(&token)?;
        if header.status != Status::SUCCESS {
            return Err(format!("SESSION_SETUP: {}", header.status));
        }
        let key = initiator.session_key().ok_or("no session key")?;
        let keys = SessionKeys::derive(Role::Client, Derivation::Smb311(&self.preauth), &key, cipher);
        self.signing = Some(keys.signing_key(SigningAlgorithm::AesGmac));
        if let (Some(sealer), Some(opener)) = (keys.sealer(), keys.opener()) {
            self.sealing = Some((sealer, opener, NonceSpace::new(), NonceRange::empty()));
        }
        // TREE_CONNECT of 3.1.1 is signed whatever the rest is.
        self.protection = Protection::Sign;
        Ok(())
    }

    fn send_token(&mut self, token: &[u8]) -> Result<(Header, Vec<u8>), String> {
        let request = SessionSetupRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            security_buffer: token,
            ..SessionSetupRequest::default()
        };
        self.request(Command::SESSION_SETUP, 1, |body| request.encode(body));
        self.hash_sent();
        self.send()?;
        self.wait()
    }

    fn hash_sent(&mut self) {
        self.preauth.update(&self.out[PREFIX_LENGTH..]);
    }

    /// Asks one thing and waits for its answer.
    pub fn ask(&mut self, command: Command, body: impl FnOnce(&mut Vec<u8>)) -> Result<(Header, Vec<u8>), String> {
        self.request(command, 1, body);
        self.send()?;
        let (header, message) = self.wait()?;
        if header.status != Status::SUCCESS {
            return Err(format!("{command:?}: {}", header.status));
        }
        Ok((header, message))
    }

    /// Queues a request and gives its message id. The caller has seen that `credits` cover `charge`.
    pub fn request(&mut self, command: Command, charge: u16, body: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let id = self.message_id;
        self.message_id += u64::from(charge);
        self.credits = self.credits.saturating_sub(u32::from(charge));
        let signs = self.protection == Protection::Sign && self.signing.is_some();
        let header = Header {
            credit_charge: charge,
            command,
            credits: if self.credits < 2048 { CREDITS_ASKED.max(charge) } else { charge },
            flags: if signs { Flags::SIGNED } else { Flags::NONE },
            message_id: MessageId(id),
            route: Route::Sync { tree_id: self.tree_id },
            session_id: self.session_id,
            ..Header::default()
        };
        let start = self.out.len();
        let room = if self.protection == Protection::Seal { TRANSFORM_HEADER_LENGTH } else { 0 };
        self.out.resize(start + PREFIX_LENGTH + room, 0);
        let message = self.out.len();
        self.out.extend_from_slice(&header.to_bytes());
        // Bodies are encoded behind their header, and only there.
        let mut encoded = Vec::with_capacity(64);
        body(&mut encoded);
        self.out.extend_from_slice(&encoded);
        match (&self.signing, &mut self.sealing, self.protection) {
            (Some(key), _, Protection::Sign) => key.sign(&mut self.out[message..], Role::Client),
            (_, Some((sealer, _, space, nonces)), Protection::Seal) => {
                let nonce = nonces.draw(space).expect("nonces last longer than a benchmark");
                let frame = &mut self.out[start + PREFIX_LENGTH..];
                sealer.seal(frame, self.session_id, nonce).expect("a frame with room for its header seals");
            }
            _ => {}
        }
        let length = self.out.len() - start - PREFIX_LENGTH;
        let prefix = frame_prefix(length).expect("requests are shorter than a frame may be");
        self.out[start..start + PREFIX_LENGTH].copy_from_slice(&prefix);
        id
    }

    /// Sends all that was queued, together.
    pub fn send(&mut self) -> Result<(), String> {
        self.stream.write_all(&self.out).map_err(|error| format!("send: {error}"))?;
        self.out.clear();
        Ok(())
    }

    /// Receives at least one response and hands each whole one to `take`, verified.
    pub fn receive(&mut self, mut take: impl FnMut(&Header, &[u8])) -> Result<(), String> {
        let mut taken = 0;
        while taken == 0 {
            while let Some(frame) = self.next_frame()? {
                taken += 1;
                let message = open(&mut self.input[frame], self.protection, &self.signing, &self.sealing)?;
                let header = Header::decode(message).map_err(|error| error.to_string())?;
                self.credits += u32::from(header.credits);
                take(&header, message);
            }
            if taken == 0 {
                self.fill()?;
            }
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<(Header, Vec<u8>), String> {
        let mut answer = None;
        while answer.is_none() {
            self.receive(|header, message| {
                if header.status != Status::PENDING {
                    answer = Some((*header, message.to_vec()));
                }
            })?;
        }
        answer.ok_or_else(|| "no answer".to_owned())
    }

    fn next_frame(&mut self) -> Result<Option<std::ops::Range<usize>>, String> {
        let Some(prefix) = self.input[self.start..self.filled].first_chunk::<PREFIX_LENGTH>() else { return Ok(None) };
        let length = frame_length(*prefix).map_err(|error| error.to_string())?;
        let frame = self.start + PREFIX_LENGTH..self.start + PREFIX_LENGTH + length;
        if frame.end > self.filled {
            return Ok(None);
        }
        self.start = frame.end;
        Ok(Some(frame))
    }

    fn fill(&mut self) -> Result<(), String> {
        self.input.copy_within(self.start..self.filled, 0);
        self.filled -= self.start;
        self.start = 0;
        if self.filled == self.input.len() {
            self.input.resize(self.input.len() * 2, 0);
        }
        match self.stream.read(&mut self.input[self.filled..]) {
            Ok(0) => Err("the server closed the connection".into()),
            Ok(count) => {
                self.filled += count;
                Ok(())
            }
            Err(error) => Err(format!("receive: {error}")),
        }
    }
}

type Sealing = Option<(Sealer, Opener, NonceSpace, NonceRange)>;

fn open<'a>(
    frame: &'a mut [u8],
    protection: Protection,
    signing: &Option<SigningKey>,
    sealing: &Sealing,
) -> Result<&'a mut [u8], String> {
    match (protection, signing, sealing) {
        (Protection::Seal, _, Some((_, opener, _, _))) => opener.open(frame).map_err(|refused| refused.to_string()),
        (Protection::Sign, Some(key), _) => {
            let header = Header::decode(frame).map_err(|error| error.to_string())?;
            let interim = header.status == Status::PENDING;
            if !interim && !key.verify(frame, Role::Server) {
                return Err(format!("a {:?} response ({}) is wrongly signed", header.command, header.status));
            }
            Ok(frame)
        }
        _ => Ok(frame),
    }
}
