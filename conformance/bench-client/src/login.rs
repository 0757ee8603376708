//! From a TCP connection to a tree of the share: NEGOTIATE of 3.1.1, SESSION_SETUP with NTLMv2 in SPNEGO, TREE_CONNECT.

use std::time::SystemTime;

use secure::kdf::{Derivation, SessionKeys};
use secure::ntlm::{Credentials, Fresh, NtHash};
use secure::preauth::PreauthHash;
use secure::seal::{Cipher, NonceRange, NonceSpace};
use secure::sign::SigningAlgorithm;
use secure::spnego::Initiator;
use secure::{Role, random};
use wire::Utf16;
use wire::codec::utf16_bytes;
use wire::command::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse, SecurityMode};
use wire::command::session_setup::{SessionSetupRequest, SessionSetupResponse};
use wire::command::tree_connect::TreeConnectRequest;
use wire::context::negotiate::{
    self, ContextType, EncryptionCapabilities, HashAlgorithm, NegotiateContextsBuilder, PreauthIntegrityCapabilities,
    SigningCapabilities,
};
use wire::ids::{Command, Dialect, FileTime, Guid};
use wire::list::U16List;
use wire::status::Status;

use crate::arguments::{Protection, Target};
use crate::connection::{Connection, Fault, Part, Shield};

const SALT_BYTES: usize = 32;

/// A connection with a session and a tree, which protects from here on as it was asked to.
pub fn connected(target: &Target, protection: Protection) -> Result<Connection, Fault> {
    let mut connection = Connection::open(target)?;
    let mut preauth = PreauthHash::new();
    negotiate(&mut connection, &mut preauth)?;
    let session_key = authenticate(&mut connection, &mut preauth, target)?;
    let keys = SessionKeys::derive(Role::Client, Derivation::Smb311(&preauth), &session_key, Some(Cipher::Aes128Gcm));
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

fn negotiate(connection: &mut Connection, preauth: &mut PreauthHash) -> Result<(), Fault> {
    let (salt, guid) = (random_bytes::<SALT_BYTES>()?, random_bytes()?);
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
        capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION,
        client_guid: Guid(guid),
        dialects: U16List::new(&[Dialect::SMB_3_1_1]),
        contexts: contexts.contexts(),
    };
    let message = hashed(connection, preauth, Command::NEGOTIATE, &|out| request.encode(out))?;
    let response = NegotiateResponse::decode(&message.1)?;
    preauth.update(&message.1);
    let signing = response.contexts.find(ContextType::SIGNING_CAPABILITIES).map(SigningCapabilities::decode);
    match signing {
        Some(Ok(chosen)) if chosen.algorithms.contains(gmac[0]) => Ok(()),
        _ => Err(Fault("the server does not sign with AES-GMAC".into())),
    }
}

/// Both legs of NTLMv2; the session key.
fn authenticate(connection: &mut Connection, preauth: &mut PreauthHash, target: &Target) -> Result<[u8; 16], Fault> {
    let credentials = Credentials {
        domain: String::new(),
        user: target.user.clone(),
        workstation: String::new(),
        nt_hash: NtHash::from_password(&target.password),
    };
    let fresh = Fresh { client_challenge: random_bytes()?, session_key: random_bytes()? };
    let (mut initiator, token) = Initiator::begin();
    let (status, challenge) = setup(connection, preauth, &token)?;
    if status != Status::MORE_PROCESSING_REQUIRED {
        return Err(Fault(format!("login was answered with {status}")));
    }
    preauth.update(&challenge);
    let challenge = SessionSetupResponse::decode(&challenge)?;
    let token = initiator
        .answer(challenge.security_buffer, &credentials, FileTime::from(SystemTime::now()), &fresh)
        .map_err(|failure| Fault(format!("login: {failure}")))?;
    let (status, _) = setup(connection, preauth, &token)?;
    if status != Status::SUCCESS {
        return Err(Fault(format!("login was answered with {status}")));
    }
    initiator.session_key().ok_or_else(|| Fault("login gave no key".into()))
}

/// One SESSION_SETUP; the answer's status and message.
fn setup(connection: &mut Connection, preauth: &mut PreauthHash, token: &[u8]) -> Result<(Status, Vec<u8>), Fault> {
    let request = SessionSetupRequest {
        security_mode: SecurityMode::SIGNING_ENABLED,
        security_buffer: token,
        ..SessionSetupRequest::default()
    };
    let (status, message) = hashed(connection, preauth, Command::SESSION_SETUP, &|out| request.encode(out))?;
    Ok((status, message))
}

/// Sends a request that counts in the pre-authentication hash; the answer's status and message.
fn hashed(
    connection: &mut Connection,
    preauth: &mut PreauthHash,
    command: Command,
    body: &dyn Fn(&mut Vec<u8>),
) -> Result<(Status, Vec<u8>), Fault> {
    connection.queue(&[Part { command, charge: 1, body }])?;
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
