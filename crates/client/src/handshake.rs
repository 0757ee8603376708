//! From a connection to a channel: NEGOTIATE of 3.1.1 (3.2.4.2.2), then SESSION_SETUP with NTLMv2 in SPNEGO for a new session or
//! for one that is bound to one more connection (3.2.4.2.3).

use std::sync::Arc;
use std::time::SystemTime;

use secure::kdf::{Derivation, SessionKeys, channel_signing_key};
use secure::ntlm::{Credentials, Fresh};
use secure::preauth::PreauthHash;
use secure::seal::Cipher;
use secure::sign::{SigningAlgorithm, SigningKey};
use secure::spnego::Initiator;
use secure::{Role, Secret, random};
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse, SecurityMode};
use wire::command::session_setup::{SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use wire::context::negotiate::{
    self as contexts, ContextType, EncryptionCapabilities, HashAlgorithm, NegotiateContexts, NegotiateContextsBuilder,
    Netname, PreauthIntegrityCapabilities, SigningCapabilities,
};
use wire::header::Flags;
use wire::ids::{Command, Dialect, FileTime, Guid, SessionId, TreeId};
use wire::list::U16List;
use wire::status::Status;

use crate::connection::Connection;
use crate::error::Error;
use crate::guard::{Guard, Seals};
use crate::loss::Loss;
use crate::message::{Answer, Request};
use crate::settings::Signing;

const SALT_BYTES: usize = 32;
/// The most bytes of data asked for or sent with one request, whatever the server takes.
const DATA_BYTES_MAX: u32 = 8 << 20;
/// What every server takes (3.3.5.4).
const DATA_BYTES_MIN: u32 = 64 << 10;
/// In the order of our liking, which is Windows'.
const CIPHERS: [Cipher; 4] = [Cipher::Aes128Gcm, Cipher::Aes128Ccm, Cipher::Aes256Gcm, Cipher::Aes256Ccm];
const SIGNING_ALGORITHMS: [SigningAlgorithm; 2] = [SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac];

/// What a connection agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) signing: SigningAlgorithm,
    pub(crate) cipher: Option<Cipher>,
    /// Connection.SupportsMultiChannel.
    pub(crate) has_multichannel: bool,
    /// One of the two wants everything signed that is not sealed.
    pub(crate) is_signing_required: bool,
    pub(crate) transact_bytes_max: u32,
    pub(crate) read_bytes_max: u32,
    pub(crate) write_bytes_max: u32,
    pub(crate) server_guid: Guid,
}

/// What to offer.
#[derive(Clone, Copy)]
pub(crate) struct Offer<'a> {
    pub(crate) client_guid: Guid,
    /// What the user called the server.
    pub(crate) name: &'a str,
    pub(crate) signing: Signing,
    /// Of a session that is there: all its connections must agree on the same.
    pub(crate) terms: Option<&'a Terms>,
}

/// What a session is known by on every channel.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) session_id: SessionId,
    pub(crate) signing: Arc<SigningKey>,
    pub(crate) seals: Option<Arc<Seals>>,
    /// The server wants all of the session encrypted.
    pub(crate) is_sealed: bool,
    pub(crate) terms: Terms,
}

/// Agrees on 3.1.1 and its algorithms; the hash of both messages.
pub(crate) async fn negotiate(connection: &Connection, offer: &Offer<'_>) -> Result<(Terms, PreauthHash), Error> {
    let mut preauth = PreauthHash::new();
    let offered = offered(offer)?;
    let request = NegotiateRequest {
        security_mode: security_mode(offer.signing == Signing::Required),
        capabilities: Capabilities::LEASING
            | Capabilities::LARGE_MTU
            | Capabilities::MULTI_CHANNEL
            | Capabilities::PERSISTENT_HANDLES
            | Capabilities::ENCRYPTION,
        client_guid: offer.client_guid,
        dialects: U16List::new(&[Dialect::SMB_3_1_1]),
        contexts: offered.contexts(),
    };
    let body = |out: &mut Vec<u8>| request.encode(out);
    let step = Step { command: Command::NEGOTIATE, charge: 0, session_id: SessionId(0), guard: &Guard::Bare };
    let answer = step.ask(connection, &body, &mut preauth).await?;
    let answer = answer.expect(&[Status::SUCCESS], || "agree on SMB 3.1.1 with the server".into())?;
    preauth.update(answer.message());
    Ok((terms(&NegotiateResponse::decode(answer.message())?, offer)?, preauth))
}

fn security_mode(is_signing_required: bool) -> SecurityMode {
    match is_signing_required {
        true => SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
        false => SecurityMode::SIGNING_ENABLED,
    }
}

fn offered(offer: &Offer<'_>) -> Result<NegotiateContextsBuilder, Error> {
    let salt = random_bytes::<SALT_BYTES>()?;
    let hash = PreauthIntegrityCapabilities { hash_algorithms: U16List::new(&[HashAlgorithm::SHA_512]), salt: &salt };
    let ciphers = match offer.terms {
        Some(terms) => terms.cipher.into_iter().collect(),
        None => CIPHERS.to_vec(),
    };
    let signing = match offer.terms {
        Some(terms) => vec![terms.signing],
        None => SIGNING_ALGORITHMS.to_vec(),
    };
    let ciphers: Vec<_> = ciphers.iter().map(|cipher| contexts::Cipher(cipher.to_wire())).collect();
    let signing: Vec<_> = signing.iter().map(|algorithm| contexts::SigningAlgorithm(algorithm.to_wire())).collect();
    let name = utf16_bytes(offer.name);
    let netname = Netname { name: Utf16::new(&name)? };
    let mut builder = NegotiateContextsBuilder::new();
    builder.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| hash.encode(writer));
    if !ciphers.is_empty() {
        let ciphers = EncryptionCapabilities { ciphers: U16List::new(&ciphers) };
        builder.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| ciphers.encode(writer));
    }
    let signing = SigningCapabilities { algorithms: U16List::new(&signing) };
    builder.add(ContextType::SIGNING_CAPABILITIES, |writer| signing.encode(writer));
    builder.add(ContextType::NETNAME_NEGOTIATE_CONTEXT_ID, |writer| netname.encode(writer));
    Ok(builder)
}

/// What the server chose (3.2.5.2), which must be what the session has where there is one.
fn terms(response: &NegotiateResponse<'_>, offer: &Offer<'_>) -> Result<Terms, Error> {
    if response.dialect != Dialect::SMB_3_1_1 {
        return Err(Error::Lacking("SMB 3.1.1"));
    }
    let hash = response.contexts.find(ContextType::PREAUTH_INTEGRITY_CAPABILITIES);
    let hash = PreauthIntegrityCapabilities::decode(hash.ok_or(Error::Lacking("pre-authentication integrity"))?)?;
    if !hash.hash_algorithms.contains(HashAlgorithm::SHA_512) {
        return Err(Error::Lacking("SHA-512"));
    }
    let bytes_max = |bytes: u32| bytes.clamp(DATA_BYTES_MIN, DATA_BYTES_MAX);
    let terms = Terms {
        signing: signing(&response.contexts)?,
        cipher: cipher(&response.contexts)?,
        has_multichannel: response.capabilities.contains(Capabilities::MULTI_CHANNEL),
        is_signing_required: offer.signing == Signing::Required
            || response.security_mode.contains(SecurityMode::SIGNING_REQUIRED),
        transact_bytes_max: bytes_max(response.max_transact_size),
        read_bytes_max: bytes_max(response.max_read_size),
        write_bytes_max: bytes_max(response.max_write_size),
        server_guid: response.server_guid,
    };
    let is_same = |expected: &Terms| {
        (expected.server_guid, expected.signing, expected.cipher) == (terms.server_guid, terms.signing, terms.cipher)
    };
    if offer.terms.is_some_and(|expected| !is_same(expected)) {
        return Err(Error::Malformed("a connection of the session that agrees on something else"));
    }
    Ok(terms)
}

fn signing(contexts: &NegotiateContexts<'_>) -> Result<SigningAlgorithm, Error> {
    let Some(data) = contexts.find(ContextType::SIGNING_CAPABILITIES) else { return Ok(SigningAlgorithm::AesCmac) };
    let chosen = SigningCapabilities::decode(data)?.algorithms.iter().next();
    let known = chosen.and_then(|chosen| SigningAlgorithm::from_wire(chosen.0));
    known
        .filter(|known| SIGNING_ALGORITHMS.contains(known))
        .ok_or(Error::Lacking("a signing algorithm that was offered"))
}

/// `None` where there is none in common: such a server answers with 0.
fn cipher(contexts: &NegotiateContexts<'_>) -> Result<Option<Cipher>, Error> {
    let Some(data) = contexts.find(ContextType::ENCRYPTION_CAPABILITIES) else { return Ok(None) };
    let chosen = EncryptionCapabilities::decode(data)?.ciphers.iter().next();
    Ok(chosen.and_then(|chosen| Cipher::from_wire(chosen.0)))
}

/// Signs in to a new session on a connection that has agreed on `terms`. `previous` is ended by the server.
pub(crate) async fn sign_in(
    connection: &Connection,
    terms: Terms,
    preauth: PreauthHash,
    credentials: &Credentials,
    previous: SessionId,
) -> Result<Identity, Error> {
    let mut logon = Logon {
        connection,
        preauth,
        flags: SessionSetupFlags::NONE,
        previous,
        session_id: SessionId(0),
        is_signing_required: terms.is_signing_required,
    };
    let mut done = logon.run(credentials, &Guard::Bare).await?;
    let keys = SessionKeys::derive(Role::Client, Derivation::Smb311(&logon.preauth), &done.key[..], terms.cipher);
    let flags = SessionSetupResponse::decode(done.answer.message())?.session_flags;
    if flags.contains(SessionFlags::IS_GUEST) || flags.contains(SessionFlags::IS_NULL) {
        return Err(Error::Guest);
    }
    let signing = Arc::new(keys.signing_key(terms.signing));
    verify(&mut done.answer, &signing)?;
    let session_id = logon.session_id;
    let seals = Seals::of(session_id, &keys).map(Arc::new);
    Ok(Identity { session_id, signing, seals, is_sealed: flags.contains(SessionFlags::ENCRYPT_DATA), terms })
}

/// Binds a session to one more connection; the channel's signing key.
pub(crate) async fn bind(
    connection: &Connection,
    preauth: PreauthHash,
    credentials: &Credentials,
    session: &Identity,
) -> Result<Arc<SigningKey>, Error> {
    let mut logon = Logon {
        connection,
        preauth,
        flags: SessionSetupFlags::BINDING,
        previous: SessionId(0),
        session_id: session.session_id,
        is_signing_required: session.terms.is_signing_required,
    };
    let mut done = logon.run(credentials, &Guard::Signed(Arc::clone(&session.signing))).await?;
    let key = channel_signing_key(Derivation::Smb311(&logon.preauth), &done.key[..]);
    let key = Arc::new(SigningKey::new(session.terms.signing, key));
    verify(&mut done.answer, &key)?;
    Ok(key)
}

/// The last answer of a logon is signed with the key that the logon made: nobody has changed what was agreed on.
fn verify(answer: &mut Answer, key: &Arc<SigningKey>) -> Result<(), Error> {
    match answer.is_genuine(&Guard::Signed(Arc::clone(key))) {
        true => Ok(()),
        false => Err(Error::Malformed("the logon's last answer has no right signature")),
    }
}

/// A logon on its way.
struct Logon<'a> {
    connection: &'a Connection,
    preauth: PreauthHash,
    flags: SessionSetupFlags,
    previous: SessionId,
    session_id: SessionId,
    is_signing_required: bool,
}

/// How it ended.
struct Done {
    answer: Answer,
    key: Secret,
}

impl Logon<'_> {
    async fn run(&mut self, credentials: &Credentials, guard: &Guard) -> Result<Done, Error> {
        let fresh = Fresh { client_challenge: random_bytes()?, session_key: random_bytes::<16>()?.into() };
        let (mut initiator, token) = Initiator::begin();
        let answer = self.step(&token, guard).await?;
        let mut answer = answer.expect(&[Status::MORE_PROCESSING_REQUIRED], || self.doing(credentials))?;
        if !answer.is_genuine(guard) {
            return Err(Error::Malformed("a bind's answer has no right signature"));
        }
        self.session_id = answer.header.session_id;
        self.preauth.update(answer.message());
        let challenge = SessionSetupResponse::decode(answer.message())?.security_buffer;
        let token = initiator.answer(challenge, credentials, FileTime::from(SystemTime::now()), &fresh)?;
        let answer = self.step(&token, guard).await?;
        let answer = answer.expect(&[Status::SUCCESS], || self.doing(credentials))?;
        let key = initiator.finish(SessionSetupResponse::decode(answer.message())?.security_buffer)?;
        Ok(Done { answer, key })
    }

    async fn step(&mut self, token: &[u8], guard: &Guard) -> Result<Answer, Error> {
        let request = SessionSetupRequest {
            flags: self.flags,
            security_mode: security_mode(self.is_signing_required),
            capabilities: Capabilities::NONE,
            previous_session_id: self.previous,
            security_buffer: token,
        };
        let body = |out: &mut Vec<u8>| request.encode(out);
        let step = Step { command: Command::SESSION_SETUP, charge: 1, session_id: self.session_id, guard };
        step.ask(self.connection, &body, &mut self.preauth).await
    }

    fn doing(&self, credentials: &Credentials) -> String {
        match self.flags.contains(SessionSetupFlags::BINDING) {
            true => "add a connection to the session".into(),
            false => format!("sign in as {}", credentials.user),
        }
    }
}

/// A request before there is a session.
struct Step<'a> {
    command: Command,
    charge: u16,
    session_id: SessionId,
    guard: &'a Guard,
}

impl Step<'_> {
    async fn ask(
        &self,
        connection: &Connection,
        body: &(dyn Fn(&mut Vec<u8>) + Sync),
        preauth: &mut PreauthHash,
    ) -> Result<Answer, Error> {
        let request = Request {
            command: self.command,
            charge: self.charge,
            flags: Flags::NONE,
            channel_sequence: 0,
            session_id: self.session_id,
            tree_id: TreeId(0),
            guard: self.guard,
            body,
            data: None,
            related: None,
        };
        connection.ask_unverified(&request, preauth).await.map_err(|Loss(cause)| Error::Lost(cause))
    }
}

/// Bytes that nobody can predict.
pub(crate) fn random_bytes<const LENGTH: usize>() -> Result<[u8; LENGTH], Error> {
    let mut bytes = [0; LENGTH];
    random(&mut bytes)?;
    Ok(bytes)
}
