//! The server's end of NTLM (MS-NLMP 3.2.5.1): a challenge, then judgement over the client's proof.

use std::fmt;

use aws_lc_rs::constant_time;
use wire::codec::{Writer, utf16_bytes};
use wire::ids::FileTime;

use super::av_pair::{AvId, write_pair};
use super::hash::{NtHash, hmac_md5, rc4k};
use super::message::{Authenticate, Challenge, Flags, MIC, Negotiate, Text};
use super::response::{Response, ntowf_v2, proof, session_base_key};
use super::session_security::SessionSecurity;
use crate::{LogonFailure, Role, Secret};

/// Bit of MsvAvFlags: "the client is providing message integrity in the MIC field" (2.2.2.1).
pub(super) const AV_FLAG_MIC: u32 = 0x2;
/// Length of an NTLMv1 response (2.2.2.6).
const NTLM1_LENGTH: usize = 24;
/// The longest NEGOTIATE_MESSAGE that is taken, as it is kept: real ones have some 40 bytes, with names a few hundred.
const NEGOTIATE_LENGTH_MAX: usize = 1 << 10;
/// The longest AUTHENTICATE_MESSAGE. Real ones have less than 2 KiB: the names in them have at most 256 characters each.
const AUTHENTICATE_LENGTH_MAX: usize = 8 << 10;
/// How many keys are tried at least, so that an unknown user costs what a known one does. An account has two.
const KEYS_TRIED_MIN: usize = 2;

/// What the server says of itself in its challenge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// NetBIOS name of this machine, which is the TargetName too.
    pub netbios_computer: String,
    /// NetBIOS name of its domain or workgroup.
    pub netbios_domain: String,
    /// DNS name of this machine.
    pub dns_computer: String,
    /// DNS name of its domain; empty without one.
    pub dns_domain: String,
}

/// Who the client says it is, as it wrote it. User names compare without regard to case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The domain of the account; often empty or the server's own name.
    pub domain: String,
    /// The account's name.
    pub user: String,
    /// The name of the client's machine.
    pub workstation: String,
}

/// A client that proved who it is. The session key is never printed.
pub struct Authenticated {
    /// Who.
    pub identity: Identity,
    /// Which of the keys that the lookup gave fitted.
    pub key_index: usize,
    /// ExportedSessionKey, from which the SMB keys are derived.
    pub session_key: Secret,
}

impl fmt::Debug for Authenticated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authenticated")
            .field("identity", &self.identity)
            .field("key_index", &self.key_index)
            .finish_non_exhaustive()
    }
}

/// The server's end, having sent its challenge.
#[derive(Debug)]
pub struct Acceptor {
    requested: Flags,
    server_challenge: [u8; 8],
    negotiate_message: Vec<u8>,
    challenge_message: Vec<u8>,
}

impl Acceptor {
    /// What we are ready to grant when the client asks for it.
    const SUPPORTED: Flags = Flags(
        Flags::UNICODE.0
            | Flags::SIGN.0
            | Flags::SEAL.0
            | Flags::EXTENDED_SESSION_SECURITY.0
            | Flags::VERSION.0
            | Flags::STRONG_128.0
            | Flags::KEY_EXCHANGE.0
            | Flags::WEAK_56.0,
    );
    /// What every challenge says (3.2.5.1.1).
    const ALWAYS: Flags = Flags(
        Flags::REQUEST_TARGET.0
            | Flags::NTLM.0
            | Flags::ALWAYS_SIGN.0
            | Flags::TARGET_TYPE_SERVER.0
            | Flags::TARGET_INFO.0,
    );
    /// Without this a client is refused.
    const REQUIRED: Flags = Flags::EXTENDED_SESSION_SECURITY;

    /// Step 1: takes the client's NEGOTIATE_MESSAGE. The answer is [`challenge`](Self::challenge).
    /// `server_challenge` must be random and used for this exchange only.
    pub fn new(
        negotiate: &[u8],
        target: &Target,
        now: FileTime,
        server_challenge: [u8; 8],
    ) -> Result<Self, LogonFailure> {
        check_length(negotiate, NEGOTIATE_LENGTH_MAX)?;
        let requested = Negotiate::decode(negotiate)?.flags;
        if !requested.contains(Self::REQUIRED) || !requested.intersects(Flags::UNICODE | Flags::OEM) {
            return Err(LogonFailure::Downgraded);
        }
        let text = text_of(requested);
        let target_name = match text {
            Flags::OEM => target.netbios_computer.chars().map(|c| if c.is_ascii() { c as u8 } else { b'?' }).collect(),
            _ => utf16_bytes(&target.netbios_computer),
        };
        let mut challenge_message = Vec::new();
        let challenge = Challenge {
            flags: (requested & Self::SUPPORTED) | text | Self::ALWAYS,
            target_name: &target_name,
            server_challenge,
            target_info: &target_info(target, now),
        };
        challenge.encode(&mut challenge_message)?;
        Ok(Acceptor { requested, server_challenge, negotiate_message: negotiate.to_vec(), challenge_message })
    }

    /// An end that has sent a challenge recorded elsewhere.
    #[cfg(test)]
    pub(crate) fn recorded(negotiate: &[u8], challenge: &[u8]) -> Self {
        let requested = Negotiate::decode(negotiate).expect("a recorded message").flags;
        let server_challenge = Challenge::decode(challenge).expect("a recorded message").server_challenge;
        let (negotiate_message, challenge_message) = (negotiate.to_vec(), challenge.to_vec());
        Acceptor { requested, server_challenge, negotiate_message, challenge_message }
    }

    /// The CHALLENGE_MESSAGE to send.
    pub fn challenge(&self) -> &[u8] {
        &self.challenge_message
    }

    /// Step 2: judges the client's AUTHENTICATE_MESSAGE. `lookup` gives the keys of the account, any of which may fit;
    /// none for an unknown user. All keys are tried whichever fits, and an unknown user costs as much as a wrong
    /// password.
    ///
    /// The NTLMv2 proof decides first, whatever else the message holds or leaves out. A MIC is due when the client's
    /// MsvAvFlags say so, which the proof covers, so that nobody else can take the flag out; old clients that promise
    /// none are accepted without. The channel bindings and the target name are not judged, and neither is the client's
    /// time: our challenge already makes the response fresh.
    pub fn authenticate(
        self,
        authenticate: &[u8],
        lookup: impl FnOnce(&Identity) -> Vec<NtHash>,
    ) -> Result<(Authenticated, SessionSecurity), LogonFailure> {
        check_length(authenticate, AUTHENTICATE_LENGTH_MAX)?;
        let message = Authenticate::decode(authenticate)?;
        let response = self.admit(&message)?;
        let identity = identity(&message)?;
        let keys = lookup(&identity);
        let Some((key_index, session_base_key)) = self.fitting_key(&identity, &response, &keys) else {
            return Err(if keys.is_empty() { LogonFailure::UnknownUser } else { LogonFailure::WrongPassword });
        };
        let session_key = exported_session_key(&message, session_base_key)?;
        if promises_mic(&response)? {
            self.check_mic(authenticate, message.mic, &session_key)?;
        }
        let security = SessionSecurity::new(Role::Server, message.flags, &session_key);
        Ok((Authenticated { identity, key_index, session_key }, security))
    }

    /// The user that an AUTHENTICATE_MESSAGE names, which proves nothing yet.
    pub(crate) fn claimed_user(authenticate: &[u8]) -> Option<String> {
        Authenticate::decode(authenticate).ok()?.user.decode()
    }

    /// The session security of a client that asks for the anonymous user: neither a name nor a response (3.2.5.1.2). `None` for who says a name. It proves
    /// nothing: its keys follow from "a SessionBaseKey with all zeroes", which everybody knows. So nothing is asked of its flags either, and
    /// clients leave out here what they always have otherwise.
    pub(crate) fn anonymous(&self, authenticate: &[u8]) -> Result<Option<SessionSecurity>, LogonFailure> {
        let message = Authenticate::decode(authenticate)?;
        // The LM response of who has none is empty, or one zero byte.
        let has_no_response = message.nt_response.is_empty() && matches!(message.lm_response, [] | [0]);
        if !message.user.is_empty() || !has_no_response {
            return Ok(None);
        }
        let session_key = exported_session_key(&message, Secret::default())?;
        Ok(Some(SessionSecurity::new(Role::Server, message.flags, &session_key)))
    }

    /// Turns away what we never accept, before any account is looked up.
    fn admit<'a>(&self, message: &Authenticate<'a>) -> Result<Response<'a>, LogonFailure> {
        if message.user.is_empty() || message.flags.contains(Flags::ANONYMOUS) {
            return Err(LogonFailure::Anonymous);
        }
        match message.nt_response.len() {
            0 if message.lm_response.is_empty() => return Err(LogonFailure::MissingProof),
            0 | NTLM1_LENGTH => return Err(LogonFailure::Ntlm1),
            _ => {}
        }
        let kept = Self::REQUIRED | text_of(self.requested) | (self.requested & Flags::KEY_EXCHANGE);
        if !message.flags.contains(kept) {
            return Err(LogonFailure::Downgraded);
        }
        Ok(Response::decode(message.nt_response)?)
    }

    /// The index of the key whose proof the client sent, and the session base key. Each key is tried with the domain
    /// the client sent and, for "NTLM clients which incorrectly use NIL for the UserDom" (3.2.5.1.2), without.
    fn fitting_key(&self, identity: &Identity, response: &Response<'_>, keys: &[NtHash]) -> Option<(usize, Secret)> {
        // The key of the proof is made of Unicode, however the names were sent (3.3.2).
        let (user, domain) = (utf16_bytes(&identity.user), utf16_bytes(&identity.domain));
        let stranger = NtHash::from_bytes([0; 16]);
        let mut fitting = None;
        for index in 0..keys.len().max(KEYS_TRIED_MIN) {
            let hash = keys.get(index).unwrap_or(&stranger);
            for domain in [&domain[..], &[]] {
                let response_key = ntowf_v2(hash, &user, domain);
                let expected = proof(&response_key, &self.server_challenge, response.temp);
                let fits = constant_time::verify_slices_are_equal(&expected, &response.proof).is_ok();
                if fits && index < keys.len() && fitting.is_none() {
                    fitting = Some((index, session_base_key(&response_key, &expected)));
                }
            }
        }
        fitting
    }

    /// The MIC covers all three messages, itself taken as zeros.
    fn check_mic(
        &self,
        authenticate: &[u8],
        received: Option<[u8; 16]>,
        session_key: &[u8; 16],
    ) -> Result<(), LogonFailure> {
        let (Some(received), Some(before), Some(after)) =
            (received, authenticate.get(..MIC.start), authenticate.get(MIC.end..))
        else {
            return Err(LogonFailure::BadMic);
        };
        let parts = [&self.negotiate_message[..], &self.challenge_message, before, &[0; 16], after];
        constant_time::verify_slices_are_equal(&hmac_md5(session_key, &parts), &received)
            .map_err(|_| LogonFailure::BadMic)
    }
}

fn check_length(message: &[u8], length_max: usize) -> Result<(), LogonFailure> {
    if message.len() > length_max { Err(LogonFailure::Malformed("message too long")) } else { Ok(()) }
}

/// The character set that is spoken: Unicode where the client offers it (2.2.2.5, A and B).
fn text_of(requested: Flags) -> Flags {
    if requested.contains(Flags::UNICODE) { Flags::UNICODE } else { Flags::OEM }
}

fn target_info(target: &Target, now: FileTime) -> Vec<u8> {
    let mut pairs = Vec::new();
    let mut writer = Writer::new(&mut pairs);
    let names = [
        (AvId::NB_DOMAIN_NAME, &target.netbios_domain),
        (AvId::NB_COMPUTER_NAME, &target.netbios_computer),
        (AvId::DNS_DOMAIN_NAME, &target.dns_domain),
        (AvId::DNS_COMPUTER_NAME, &target.dns_computer),
    ];
    for (id, name) in names {
        if !name.is_empty() {
            write_pair(&mut writer, id, &utf16_bytes(name));
        }
    }
    write_pair(&mut writer, AvId::TIMESTAMP, &now.0.to_le_bytes());
    write_pair(&mut writer, AvId::EOL, &[]);
    pairs
}

fn identity(message: &Authenticate<'_>) -> Result<Identity, LogonFailure> {
    let decoded = |text: Text<'_>, field| match (text, text.decode()) {
        (_, Some(decoded)) => Ok(decoded),
        (Text::Unicode(_), None) => Err(LogonFailure::Malformed(field)),
        // It is well formed, and may be the name of whoever has it: but the proof is over it in Unicode (3.3.2), which cannot be made of it.
        (Text::Oem(_), None) => Err(LogonFailure::ForeignName),
    };
    let workstation = match message.workstation {
        // Nothing depends on it.
        Text::Oem(name) => name.iter().map(|byte| if byte.is_ascii() { char::from(*byte) } else { '?' }).collect(),
        name @ Text::Unicode(_) => decoded(name, "Workstation")?,
    };
    let (domain, user) = (decoded(message.domain, "DomainName")?, decoded(message.user, "UserName")?);
    Ok(Identity { domain, user, workstation })
}

/// ExportedSessionKey (3.2.5.1.2). "If NTLMSSP_NEGOTIATE_KEY_EXCH is set, the server MUST check if client supplied a
/// valid EncryptedRandomSessionKey": without SIGN and SEAL the client may have none.
fn exported_session_key(message: &Authenticate<'_>, key_exchange_key: Secret) -> Result<Secret, LogonFailure> {
    if !message.flags.contains(Flags::KEY_EXCHANGE) {
        return Ok(key_exchange_key);
    }
    if message.encrypted_session_key.is_empty() && !message.flags.intersects(Flags::SIGN | Flags::SEAL) {
        return Ok(key_exchange_key);
    }
    let encrypted = message.encrypted_session_key.try_into();
    let encrypted = encrypted.map_err(|_| LogonFailure::Malformed("EncryptedRandomSessionKey"))?;
    Ok(rc4k(&key_exchange_key, encrypted))
}

fn promises_mic(response: &Response<'_>) -> Result<bool, LogonFailure> {
    let Some(flags) = response.pairs.find(AvId::FLAGS) else { return Ok(false) };
    let flags = flags.try_into().map_err(|_| LogonFailure::Malformed("MsvAvFlags"))?;
    Ok(u32::from_le_bytes(flags) & AV_FLAG_MIC != 0)
}
