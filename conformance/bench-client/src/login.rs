//! From a TCP connection to a tree of the share: NEGOTIATE of 3.1.1, SESSION_SETUP with NTLMv2 in SPNEGO, TREE_CONNECT.

use std::time::SystemTime;

use secure::kdf::{Derivation, SessionKeys, channel_signing_key};
use secure::ntlm::{Credentials, Fresh, NtHash};
use secure::preauth::PreauthHash;
use secure::seal::{Cipher, NonceRange, NonceSpace};
use secure::sign::{SigningAlgorithm, SigningKey};
use secure::spnego::Initiator;
use secure::{Role, Secret, random};
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse, SecurityMode};
use wire::command::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use wire::command::tree_connect::TreeConnectRequest;
use wire::context::negotiate::{
    self, ContextType, EncryptionCapabilities, HashAlgorithm, NegotiateContextsBuilder, PreauthIntegrityCapabilities,
    SigningCapabilities,
};
use wire::ids::{Command, Dialect, FileTime, Guid, SessionId};
use wire::list::U16List;
use wire::status::Status;

use crate::arguments::{Protection, Target};
use crate::connection::{Connection, Fault, Part, Shield};

const SALT_BYTES: usize = 32;

/// A connection with a session and a tree, which protects from here on as it was asked to.
pub fn connected(target: &Target, protection: Protection) -> Result<Connection, Fault> {
    let (mut connection, Known { keys, .. }) = Known::sign_in(target)?;
    let signed = || Shield::Signed(keys.signing_key(SigningAlgorithm::AesGmac));
    let sealed = || match (keys.sealer(), keys.opener()) {
        (Some(sealer), Some(opener)) => {
            Ok(Shield::Sealed { sealer, opener, space: NonceSpace::new(), nonces: NonceRange::empty() })
        }
        _ => Err(Fault("the session has no cipher".into())),
    };
    // On 3.1.1 the TREE_CONNECT is protected even where nothing else is (MS-SMB2 3.3.5.7).
    connection.shield = if protection == Protection::Seal { sealed()? } else { signed() };
    tree_connect(&mut connection, target)?;
    if protection == Protection::None {
        connection.shield = Shield::Bare;
    }
    Ok(connection)
}

/// A session, as more connections of its client need it.
pub struct Known {
    client: Guid,
    id: SessionId,
    keys: SessionKeys,
}

impl Known {
    /// A connection with a new session, which protects nothing yet.
    pub fn sign_in(target: &Target) -> Result<(Connection, Known), Fault> {
        let client = Guid(random_bytes()?);
        let mut connection = Connection::open(target)?;
        let mut preauth = PreauthHash::new();
        negotiate(&mut connection, &mut preauth, client)?;
        let (session_key, _) = authenticate(&mut connection, &mut preauth, target, None)?;
        let derivation = Derivation::Smb311(&preauth);
        let keys = SessionKeys::derive(Role::Client, derivation, &session_key[..], Some(Cipher::Aes128Gcm));
        let id = connection.session_id;
        Ok((connection, Known { client, id, keys }))
    }

    /// Makes a new connection one of the session's channels, checks that the server has its key, and closes it.
    pub fn bind(&self, target: &Target) -> Result<(), Fault> {
        let mut connection = Connection::open(target)?;
        let mut preauth = PreauthHash::new();
        negotiate(&mut connection, &mut preauth, self.client)?;
        connection.session_id = self.id;
        let (session_key, mut last) = authenticate(&mut connection, &mut preauth, target, Some(self))?;
        let key = channel_signing_key(Derivation::Smb311(&preauth), &session_key[..]);
        let is_signed = SigningKey::new(SigningAlgorithm::AesGmac, key).verify(&mut last, Role::Server);
        if is_signed { Ok(()) } else { Err(Fault("the last answer of a bind is not signed by the channel".into())) }
    }

    fn signed(&self) -> Shield {
        Shield::Signed(self.keys.signing_key(SigningAlgorithm::AesGmac))
    }
}

fn negotiate(connection: &mut Connection, preauth: &mut PreauthHash, client_guid: Guid) -> Result<(), Fault> {
    let salt = random_bytes::<SALT_BYTES>()?;
    let hash = PreauthIntegrityCapabilities { hash_algorithms: U16List::new(&[HashAlgorithm::SHA_512]), salt: &salt };
    let gcm = [negotiate::Cipher(Cipher::Aes128Gcm.to_wire())];
    let ciphers = EncryptionCapabilities { ciphers: U16List::new(&gcm) };
    let gmac = [negotiate::SigningAlgorithm(SigningAlgorithm::AesGmac.to_wire())];
    let signing = SigningCapabilities { algorithms: U16List::new(&gmac) };
    let mut contexts = NegotiateContextsBuilder::new();
    contexts.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| hash.encode(writer));
    contexts.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| ciphers.encode(writer));
    contexts.add(ContextType::SIGNING_CAPABILITIES, |writer| signing.encode(writer));
    let request = NegotiateRequest {
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION | Capabilities::MULTI_CHANNEL,
        client_guid,
        dialects: U16List::new(&[Dialect::SMB_3_1_1]),
        contexts: contexts.contexts(),
    };
    let message = hashed(connection, preauth, Command::NEGOTIATE, Shield::Bare, &|out| request.encode(out))?;
    let response = NegotiateResponse::decode(&message.1)?;
    preauth.update(&message.1);
    let signing = response.contexts.find(ContextType::SIGNING_CAPABILITIES).map(SigningCapabilities::decode);
    match signing {
        Some(Ok(chosen)) if chosen.algorithms.contains(gmac[0]) => Ok(()),
        _ => Err(Fault("the server does not sign with AES-GMAC".into())),
    }
}

/// Both legs of NTLMv2, for a new session or as one that binds `session`; the session key and the last answer.
fn authenticate(
    connection: &mut Connection,
    preauth: &mut PreauthHash,
    target: &Target,
    session: Option<&Known>,
) -> Result<(Secret, Vec<u8>), Fault> {
    let credentials = Credentials {
        domain: String::new(),
        user: target.user.clone(),
        workstation: String::new(),
        nt_hash: NtHash::from_password(&target.password),
    };
    let fresh = Fresh { client_challenge: random_bytes()?, session_key: random_bytes::<16>()?.into() };
    let (mut initiator, token) = Initiator::begin();
    let (status, challenge) = setup(connection, preauth, &token, session)?;
    if status != Status::MORE_PROCESSING_REQUIRED {
        return Err(Fault(format!("login was answered with {status}")));
    }
    preauth.update(&challenge);
    let challenge = SessionSetupResponse::decode(&challenge)?;
    let token = initiator
        .answer(challenge.security_buffer, &credentials, FileTime::from(SystemTime::now()), &fresh)
        .map_err(|failure| Fault(format!("login: {failure}")))?;
    let (status, last) = setup(connection, preauth, &token, session)?;
    if status != Status::SUCCESS {
        return Err(Fault(format!("login was answered with {status}")));
    }
    let key = initiator.session_key().ok_or_else(|| Fault("login gave no key".into()))?;
    Ok((key, last))
}

/// One SESSION_SETUP, signed by the session where one is bound; the answer's status and message.
fn setup(
    connection: &mut Connection,
    preauth: &mut PreauthHash,
    token: &[u8],
    session: Option<&Known>,
) -> Result<(Status, Vec<u8>), Fault> {
    let request = SessionSetupRequest {
        flags: if session.is_some() { SessionSetupFlags::BINDING } else { SessionSetupFlags::NONE },
        security_mode: SecurityMode::SIGNING_ENABLED,
        security_buffer: token,
        ..SessionSetupRequest::default()
    };
    let shield = session.map_or(Shield::Bare, Known::signed);
    hashed(connection, preauth, Command::SESSION_SETUP, shield, &|out| request.encode(out))
}

/// Sends a request, protected by `shield`, that counts in the pre-authentication hash; the answer's status and message, whose signature is not
/// looked at: of a bind's answers the last has another key than those before.
fn hashed(
    connection: &mut Connection,
    preauth: &mut PreauthHash,
    command: Command,
    shield: Shield,
    body: &dyn Fn(&mut Vec<u8>),
) -> Result<(Status, Vec<u8>), Fault> {
    connection.shield = shield;
    connection.queue(&[Part { command, charge: 1, body }])?;
    connection.shield = Shield::Bare;
    preauth.update(connection.queued());
    connection.send()?;
    let (header, message) = connection.answer()?;
    connection.session_id = header.session_id;
    Ok((header.status, message))
}

fn tree_connect(connection: &mut Connection, target: &Target) -> Result<(), Fault> {
    let path = utf16_bytes(&format!(r"\\{}\{}", target.host, target.share));
    let request = TreeConnectRequest { path: Utf16::new(&path)?, ..TreeConnectRequest::default() };
    let body = |out: &mut Vec<u8>| request.encode(out);
    let (header, _) = connection.ask(&Part { command: Command::TREE_CONNECT, charge: 1, body: &body })?;
    if header.status != Status::SUCCESS {
        return Err(Fault(format!("TREE_CONNECT was answered with {}", header.status)));
    }
    connection.tree_id = header.tree_id();
    Ok(())
}

fn random_bytes<const LENGTH: usize>() -> Result<[u8; LENGTH], Fault> {
    let mut bytes = [0; LENGTH];
    random(&mut bytes).map_err(|fault| Fault(fault.to_string()))?;
    Ok(bytes)
}
