//! The client's end of NTLM (MS-NLMP 3.1.5.1): it proves that it knows the password, with a key exchange and a MIC.

use std::fmt;

use wire::codec::{Reader, Utf16, Writer, utf16_bytes};
use wire::ids::FileTime;

use super::acceptor::AV_FLAG_MIC;
use super::av_pair::{AvId, AvPairs, write_pair};
use super::hash::{NtHash, hmac_md5, rc4k};
use super::message::{Authenticate, Challenge, Flags, MIC, Negotiate};
use super::response::{client_challenge, ntowf_v2, proof, session_base_key};
use super::session_security::SessionSecurity;
use crate::{LogonFailure, Role, Secret};

/// Who a client logs on as.
#[derive(Clone, Debug)]
pub struct Credentials {
    /// The account's domain; may be empty.
    pub domain: String,
    /// The account's name.
    pub user: String,
    /// The name of this machine; may be empty.
    pub workstation: String,
    /// The password's hash.
    pub nt_hash: NtHash,
}

/// The randomness of one logon. Must be fresh each time.
#[derive(Clone)]
pub struct Fresh {
    /// ChallengeFromClient.
    pub client_challenge: [u8; 8],
    /// RandomSessionKey: becomes the session key.
    pub session_key: Secret,
}

/// What the client has once it sent its AUTHENTICATE_MESSAGE. The session key is never printed.
pub struct Established {
    /// The AUTHENTICATE_MESSAGE to send.
    pub message: Vec<u8>,
    /// ExportedSessionKey.
    pub session_key: Secret,
    /// Signatures for the mechListMIC.
    pub security: SessionSecurity,
}

impl fmt::Debug for Established {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Established").finish_non_exhaustive()
    }
}

/// The client's end, having sent its NEGOTIATE_MESSAGE.
#[derive(Debug)]
pub struct Initiator {
    negotiate_message: Vec<u8>,
}

impl Initiator {
    const WANTED: Flags = Flags(
        Flags::UNICODE.0
            | Flags::REQUEST_TARGET.0
            | Flags::SIGN.0
            | Flags::SEAL.0
            | Flags::NTLM.0
            | Flags::ALWAYS_SIGN.0
            | Flags::EXTENDED_SESSION_SECURITY.0
            | Flags::VERSION.0
            | Flags::STRONG_128.0
            | Flags::KEY_EXCHANGE.0
            | Flags::WEAK_56.0,
    );
    const REQUIRED: Flags =
        Flags(Flags::UNICODE.0 | Flags::EXTENDED_SESSION_SECURITY.0 | Flags::KEY_EXCHANGE.0 | Flags::STRONG_128.0);

    /// Begins; the message to send is [`negotiate`](Self::negotiate).
    pub fn new() -> Self {
        let mut negotiate_message = Vec::new();
        Negotiate { flags: Self::WANTED }.encode(&mut negotiate_message);
        Initiator { negotiate_message }
    }

    /// The NEGOTIATE_MESSAGE to send.
    pub fn negotiate(&self) -> &[u8] {
        &self.negotiate_message
    }

    /// Answers the server's CHALLENGE_MESSAGE. `now` is used when the server tells no time.
    pub fn authenticate(
        self,
        challenge_message: &[u8],
        credentials: &Credentials,
        now: FileTime,
        fresh: &Fresh,
    ) -> Result<Established, LogonFailure> {
        let challenge = Challenge::decode(challenge_message)?;
        let flags = challenge.flags & Self::WANTED;
        if !flags.contains(Self::REQUIRED) {
            return Err(LogonFailure::Downgraded);
        }
        let user = utf16_bytes(&credentials.user);
        let domain = utf16_bytes(&credentials.domain);
        let workstation = utf16_bytes(&credentials.workstation);
        let (time, pairs) = answered_pairs(challenge.target_info, now)?;
        let temp = client_challenge(time, fresh.client_challenge, &pairs);
        let response_key = ntowf_v2(&credentials.nt_hash, &user, &domain);
        let proof = proof(&response_key, &challenge.server_challenge, &temp);
        let key_exchange_key = session_base_key(&response_key, &proof);
        let answer = Authenticate {
            flags,
            // "If TargetInfo contains MsvAvTimestamp, the client SHOULD NOT send the LmChallengeResponse and SHOULD
            // set it to Z(24)" (3.1.5.1.2). We never send it: it is the weaker of the two proofs.
            lm_response: &[0; 24],
            nt_response: &[&proof[..], &temp].concat(),
            domain: Utf16::new(&domain)?.into(),
            user: Utf16::new(&user)?.into(),
            workstation: Utf16::new(&workstation)?.into(),
            encrypted_session_key: &rc4k(&key_exchange_key, *fresh.session_key)[..],
            mic: Some([0; 16]),
        };
        let mut message = Vec::new();
        answer.encode(&mut message)?;
        let mic = hmac_md5(&fresh.session_key, &[&self.negotiate_message, challenge_message, &message]);
        message[MIC].copy_from_slice(&mic);
        let security = SessionSecurity::new(Role::Client, flags, &fresh.session_key);
        Ok(Established { message, session_key: fresh.session_key.clone(), security })
    }
}

impl Default for Initiator {
    fn default() -> Self {
        Initiator::new()
    }
}

/// The server's time, or `now` without one, and its pairs with ours: that there is a MIC.
fn answered_pairs(target_info: &[u8], now: FileTime) -> Result<(FileTime, Vec<u8>), LogonFailure> {
    let received = AvPairs::parse(target_info)?;
    let time = match received.find(AvId::TIMESTAMP) {
        Some(time) => FileTime(Reader::new(time).u64()?),
        None => now,
    };
    let flags = match received.find(AvId::FLAGS) {
        Some(flags) => Reader::new(flags).u32()?,
        None => 0,
    };
    let mut pairs = Vec::new();
    let mut writer = Writer::new(&mut pairs);
    for (id, value) in received.iter().filter(|(id, _)| *id != AvId::FLAGS) {
        write_pair(&mut writer, id, value);
    }
    write_pair(&mut writer, AvId::FLAGS, &(flags | AV_FLAG_MIC).to_le_bytes());
    Ok((time, pairs))
}
