//! NEGOTIATE (MS-SMB2 3.3.5.3, 3.3.5.4): dialect, ciphers, signing algorithm.

use std::time::SystemTime;

use secure::seal::Cipher;
use secure::sign::SigningAlgorithm;
use wire::command::negotiate::{Capabilities, NegotiateRequest, NegotiateResponse, SecurityMode};
use wire::context::negotiate::{
    self as contexts, ContextType, EncryptionCapabilities, HashAlgorithm, NegotiateContexts, NegotiateContextsBuilder,
    PreauthIntegrityCapabilities, SigningCapabilities,
};
use wire::header::{Flags, Header, Route};
use wire::ids::{Command, Dialect, FileTime, Guid, MessageId};
use wire::list::U16List;
use wire::smb1;
use wire::status::Status;

use crate::command::connection::{Connection, Disconnect};
use crate::command::context::{Context, Outcome, Reply};
use crate::command::negotiation::{DIALECTS_KEPT_MAX, LARGE_PAYLOAD_BYTES, Negotiation, SMALL_PAYLOAD_BYTES};
use crate::state::configuration::{Settings, Signing};
use crate::state::multichannel;
use crate::state::refusal::Refusal;

/// Ciphers in the order we like them.
const CIPHERS: [Cipher; 4] = [Cipher::Aes128Gcm, Cipher::Aes256Gcm, Cipher::Aes128Ccm, Cipher::Aes256Ccm];
/// Signing algorithms in the order we like them, for connections that have their sessions to themselves.
const SIGNING: [SigningAlgorithm; 3] =
    [SigningAlgorithm::AesGmac, SigningAlgorithm::AesCmac, SigningAlgorithm::HmacSha256];
/// The same where sessions may have several channels. GMAC's nonce is the message id, and the session's key signs the legs of each bind, too,
/// whose message ids are those of the legs before (docs/decisions/0001).
const SIGNING_ON_CHANNELS: [SigningAlgorithm; 3] =
    [SigningAlgorithm::AesCmac, SigningAlgorithm::HmacSha256, SigningAlgorithm::AesGmac];
/// Dialects, newest first.
const DIALECTS: [Dialect; 5] =
    [Dialect::SMB_3_1_1, Dialect::SMB_3_0_2, Dialect::SMB_3_0, Dialect::SMB_2_1, Dialect::SMB_2_0_2];
/// Bytes of the server's pre-auth salt.
const SALT_BYTES: usize = 32;

pub(crate) fn handle(context: &Context, message: &[u8]) -> Outcome {
    let connection = &context.connection;
    if connection.negotiation.borrow().dialect.is_some() {
        connection.drop_silently();
        return Err(Status::INVALID_PARAMETER.into());
    }
    if Header::decode(message)?.flags.contains(Flags::SIGNED) {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let request = NegotiateRequest::decode(message)?;
    if request.dialects.is_empty() {
        return Err(Status::INVALID_PARAMETER.into());
    }
    let configuration = context.server().configuration.load();
    let Some(dialect) = choose_dialect(&request, &configuration.settings) else {
        log_dialects(connection, request.dialects.iter().max());
        return Err(Status::NOT_SUPPORTED.into());
    };
    let channels = multichannel::is_offered(&configuration, dialect, request.capabilities);
    let offered = match dialect {
        Dialect::SMB_3_1_1 => {
            Some(Offered::read(&request.contexts, if channels { SIGNING_ON_CHANNELS } else { SIGNING })?)
        }
        _ => None,
    };
    let signing = offered.as_ref().and_then(|offered| offered.signing);
    let mut negotiation = Negotiation {
        dialect: Some(dialect),
        client_guid: request.client_guid,
        client_capabilities: request.capabilities,
        client_security_mode: request.security_mode,
        client_dialects: kept(&request),
        server_capabilities: capabilities(dialect, request.capabilities)
            | several_channels(channels, signing)
            | persistence(context.server().durables.keeps_records(), dialect, request.capabilities),
        server_security_mode: security_mode(connection.signing(&configuration.settings)),
        cipher: offered.as_ref().map_or_else(|| older_cipher(dialect, request.capabilities), |offered| offered.cipher),
        signing,
        ..Negotiation::default()
    };
    negotiation.hash(message);
    let body = response(&negotiation, dialect, &configuration.settings, offered.as_ref())?;
    *connection.negotiation.borrow_mut() = negotiation;
    connection.note_step();
    Ok(Reply::new(body))
}

/// Answers an SMB1 NEGOTIATE that offers SMB2 (3.3.5.3.1, 3.3.5.3.2); gives the whole reply.
pub(crate) fn multi_protocol(connection: &Connection, frame: &[u8]) -> Result<Vec<u8>, Disconnect> {
    let mut negotiation = connection.negotiation.borrow_mut();
    if negotiation.dialect.is_some() || negotiation.wildcard {
        return Err(Disconnect("SMB1 after NEGOTIATE"));
    }
    let request = smb1::Smb1Negotiate::decode(frame).map_err(|_| Disconnect("an SMB1 NEGOTIATE is malformed"))?;
    let configuration = connection.server.configuration.load();
    let dialect = if request.offers(smb1::DIALECT_SMB_2_WILDCARD) {
        negotiation.wildcard = true;
        Dialect::WILDCARD
    } else if request.offers(smb1::DIALECT_SMB_2_002) && configuration.settings.dialect_min <= Dialect::SMB_2_0_2.0 {
        negotiation.dialect = Some(Dialect::SMB_2_0_2);
        Dialect::SMB_2_0_2
    } else {
        let newest = request.offers(smb1::DIALECT_SMB_2_002).then_some(Dialect::SMB_2_0_2);
        log_dialects(connection, newest);
        return Err(Disconnect("SMB1 without SMB2"));
    };
    negotiation.server_security_mode = security_mode(connection.signing(&configuration.settings));
    let mut window = connection.window.borrow_mut();
    window.take(MessageId(0), 1).map_err(|_| Disconnect("SMB1 after SMB2"))?;
    let header = Header {
        command: Command::NEGOTIATE,
        credits: window.grant(1),
        flags: Flags::SERVER_TO_REDIR,
        route: Route::default(),
        ..Header::default()
    };
    let body = response(&negotiation, dialect, &configuration.settings, None)
        .map_err(|_| Disconnect("no chance to be had"))?;
    Ok([&header.to_bytes()[..], &body].concat())
}

/// Tells whoever runs the server why a client of old gets nowhere, and what would let it in.
fn log_dialects(connection: &Connection, newest: Option<Dialect>) {
    let newest = newest.map_or_else(|| "SMB1".to_owned(), |dialect| format!("{:#06x}", dialect.0));
    tracing::info!(name: "dialect_refused", peer = %connection.peer, newest, "a client was refused for its dialect; `multilane server set dialect-min 2.0.2` lets 2.1 and 2.0.2 in");
}

fn kept(request: &NegotiateRequest<'_>) -> Vec<Dialect> {
    let few = request.dialects.len() <= DIALECTS_KEPT_MAX;
    if few { request.dialects.iter().collect() } else { Vec::new() }
}

fn choose_dialect(request: &NegotiateRequest<'_>, settings: &Settings) -> Option<Dialect> {
    DIALECTS.into_iter().find(|dialect| dialect.0 >= settings.dialect_min && request.dialects.contains(*dialect))
}

/// What the dialect has, and of that only what the client asked for where 3.3.5.4 says so.
fn capabilities(dialect: Dialect, client: Capabilities) -> Capabilities {
    let mut capabilities = Capabilities::NONE;
    if dialect >= Dialect::SMB_2_1 {
        capabilities |= Capabilities::LARGE_MTU | Capabilities::LEASING;
    }
    if dialect >= Dialect::SMB_3_0 && client.contains(Capabilities::DIRECTORY_LEASING) {
        capabilities |= Capabilities::DIRECTORY_LEASING;
    }
    if older_cipher(dialect, client).is_some() {
        capabilities |= Capabilities::ENCRYPTION;
    }
    capabilities
}

/// MULTI_CHANNEL, but not to a client that can sign with GMAC alone: its sessions have one channel.
fn several_channels(offered: bool, signing: Option<SigningAlgorithm>) -> Capabilities {
    let granted = offered && signing != Some(SigningAlgorithm::AesGmac);
    if granted { Capabilities::MULTI_CHANNEL } else { Capabilities::NONE }
}

/// PERSISTENT_HANDLES where both sides have them (3.3.5.4).
fn persistence(keeps_records: bool, dialect: Dialect, client: Capabilities) -> Capabilities {
    let granted = keeps_records && dialect >= Dialect::SMB_3_0 && client.contains(Capabilities::PERSISTENT_HANDLES);
    if granted { Capabilities::PERSISTENT_HANDLES } else { Capabilities::NONE }
}

/// 3.0 and 3.0.2 know one cipher, asked for by a capability bit.
fn older_cipher(dialect: Dialect, client: Capabilities) -> Option<Cipher> {
    let older = matches!(dialect, Dialect::SMB_3_0 | Dialect::SMB_3_0_2);
    (older && client.contains(Capabilities::ENCRYPTION)).then_some(Cipher::Aes128Ccm)
}

fn security_mode(signing: Signing) -> SecurityMode {
    match signing {
        Signing::Required => SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
        Signing::Enabled => SecurityMode::SIGNING_ENABLED,
    }
}

/// What a 3.1.1 client offers, and what of it we take.
struct Offered {
    /// The client sent ENCRYPTION_CAPABILITIES: it is answered even without a common cipher.
    encryption: bool,
    cipher: Option<Cipher>,
    signing: Option<SigningAlgorithm>,
}

impl Offered {
    /// Judges the contexts (3.3.5.4): one PREAUTH context with SHA-512; none of the others twice; unknown ones ignored.
    fn read(list: &NegotiateContexts<'_>, signing: [SigningAlgorithm; 3]) -> Result<Self, Refusal> {
        let single = [
            ContextType::PREAUTH_INTEGRITY_CAPABILITIES,
            ContextType::ENCRYPTION_CAPABILITIES,
            ContextType::COMPRESSION_CAPABILITIES,
            ContextType::RDMA_TRANSFORM_CAPABILITIES,
            ContextType::SIGNING_CAPABILITIES,
        ];
        let count = |wanted| list.iter().filter(|context| context.context_type == wanted).count();
        if single.into_iter().any(|wanted| count(wanted) > 1) {
            return Err(Status::INVALID_PARAMETER.into());
        }
        let preauth = list.find(ContextType::PREAUTH_INTEGRITY_CAPABILITIES).ok_or(Status::INVALID_PARAMETER)?;
        let preauth = PreauthIntegrityCapabilities::decode(preauth)?;
        if preauth.hash_algorithms.is_empty() {
            return Err(Status::INVALID_PARAMETER.into());
        }
        if !preauth.hash_algorithms.contains(HashAlgorithm::SHA_512) {
            return Err(Status::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP.into());
        }
        let mut offered = Offered { encryption: false, cipher: None, signing: None };
        if let Some(data) = list.find(ContextType::ENCRYPTION_CAPABILITIES) {
            // A client that has sealing switched off may send an empty list, and does not expect an answer to it.
            let ciphers = EncryptionCapabilities::decode(data)?.ciphers;
            offered.encryption = !ciphers.is_empty();
            offered.cipher = CIPHERS.into_iter().find(|cipher| ciphers.contains(contexts::Cipher(cipher.to_wire())));
        }
        if let Some(data) = list.find(ContextType::SIGNING_CAPABILITIES) {
            let algorithms = SigningCapabilities::decode(data)?.algorithms;
            if algorithms.is_empty() {
                return Err(Status::INVALID_PARAMETER.into());
            }
            offered.signing =
                signing.into_iter().find(|ours| algorithms.contains(contexts::SigningAlgorithm(ours.to_wire())));
        }
        if let Some(data) = list.find(ContextType::COMPRESSION_CAPABILITIES) {
            let compression = contexts::CompressionCapabilities::decode(data)?;
            if compression.algorithms.is_empty() {
                return Err(Status::INVALID_PARAMETER.into());
            }
        }
        Ok(offered)
    }

    fn answer(&self, salt: &[u8]) -> NegotiateContextsBuilder {
        let mut builder = NegotiateContextsBuilder::new();
        let hashes = [HashAlgorithm::SHA_512];
        builder.add(ContextType::PREAUTH_INTEGRITY_CAPABILITIES, |writer| {
            PreauthIntegrityCapabilities { hash_algorithms: U16List::new(&hashes), salt }.encode(writer);
        });
        if self.encryption {
            let ciphers = [contexts::Cipher(self.cipher.map_or(0, Cipher::to_wire))];
            builder.add(ContextType::ENCRYPTION_CAPABILITIES, |writer| {
                EncryptionCapabilities { ciphers: U16List::new(&ciphers) }.encode(writer);
            });
        }
        if let Some(signing) = self.signing {
            let algorithms = [contexts::SigningAlgorithm(signing.to_wire())];
            builder.add(ContextType::SIGNING_CAPABILITIES, |writer| {
                SigningCapabilities { algorithms: U16List::new(&algorithms) }.encode(writer);
            });
        }
        builder
    }
}

fn response(
    negotiation: &Negotiation,
    dialect: Dialect,
    settings: &Settings,
    offered: Option<&Offered>,
) -> Result<Vec<u8>, Refusal> {
    let mut salt = [0; SALT_BYTES];
    secure::random(&mut salt)?;
    let builder = offered.map(|offered| offered.answer(&salt)).unwrap_or_default();
    let large = dialect >= Dialect::SMB_2_1 && dialect != Dialect::WILDCARD;
    let payload = if large { LARGE_PAYLOAD_BYTES } else { SMALL_PAYLOAD_BYTES };
    let hint = secure::spnego::hint();
    let response = NegotiateResponse {
        security_mode: negotiation.server_security_mode,
        dialect,
        server_guid: Guid(settings.server_guid),
        capabilities: negotiation.server_capabilities,
        max_transact_size: payload,
        max_read_size: payload,
        max_write_size: payload,
        system_time: FileTime::from(SystemTime::now()),
        server_start_time: FileTime(0),
        security_buffer: &hint,
        contexts: builder.contexts(),
    };
    let mut body = Vec::new();
    response.encode(&mut body);
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_must_be_asked_for_is_offered_to_who_asks() {
        let asked = Capabilities::DIRECTORY_LEASING | Capabilities::ENCRYPTION;
        for dialect in [Dialect::SMB_3_0, Dialect::SMB_3_0_2, Dialect::SMB_3_1_1] {
            let (quiet, told) = (capabilities(dialect, Capabilities::NONE), capabilities(dialect, asked));
            assert_eq!(quiet, Capabilities::LARGE_MTU | Capabilities::LEASING);
            assert!(told.contains(Capabilities::DIRECTORY_LEASING));
            assert_eq!(told.contains(Capabilities::ENCRYPTION), dialect != Dialect::SMB_3_1_1);
        }
        assert_eq!(capabilities(Dialect::SMB_2_1, asked), Capabilities::LARGE_MTU | Capabilities::LEASING);
    }

    #[test]
    fn who_signs_with_gmac_alone_has_one_channel() {
        let signs = |algorithm| several_channels(true, Some(algorithm));
        assert_eq!(signs(SigningAlgorithm::AesGmac), Capabilities::NONE);
        assert_eq!(signs(SigningAlgorithm::AesCmac), Capabilities::MULTI_CHANNEL);
        assert_eq!(several_channels(true, None), Capabilities::MULTI_CHANNEL);
        assert_eq!(several_channels(false, None), Capabilities::NONE);
    }
}
