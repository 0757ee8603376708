//! Acceptor against initiator, and against clients that leave things out, put things in and lie.

use wire::codec::{Utf16, Writer, utf16_bytes};
use wire::ids::FileTime;

use super::acceptor::AV_FLAG_MIC;
use super::av_pair::write_pair;
use super::hash::{hmac_md5, rc4k};
use super::message::MIC;
use super::response::{client_challenge, ntowf_v2, proof, session_base_key};
use super::*;
use crate::LogonFailure;

const NOW: FileTime = FileTime(0x01d0_aecb_adf5_a1a1);
const SERVER_CHALLENGE: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];
const SESSION_KEY: [u8; 16] = [0x55; 16];

fn target() -> Target {
    Target {
        netbios_computer: "FILES".into(),
        netbios_domain: "WORKGROUP".into(),
        dns_computer: "files.example".into(),
        dns_domain: String::new(),
    }
}

fn accept_negotiate(negotiate: &[u8]) -> Acceptor {
    Acceptor::new(negotiate, &target(), NOW, SERVER_CHALLENGE).unwrap()
}

fn credentials(password: &str) -> Credentials {
    Credentials {
        domain: "WORKGROUP".into(),
        user: "Ada".into(),
        workstation: "LAPTOP".into(),
        nt_hash: NtHash::from_password(password),
    }
}

fn keys(passwords: &[&str]) -> Vec<NtHash> {
    passwords.iter().map(|password| NtHash::from_password(password)).collect()
}

/// A client that can be made to misbehave in every field.
struct Forger {
    requested: Flags,
    flags: Flags,
    user: &'static str,
    domain: &'static str,
    domain_in_proof: &'static str,
    password: &'static str,
    promises_mic: bool,
    sends_mic: bool,
    lm_response: Vec<u8>,
    nt_response: Option<Vec<u8>>,
    encrypted_session_key: Option<Vec<u8>>,
}

impl Forger {
    const HONEST: Flags = Flags(0xe208_8235);

    fn honest() -> Self {
        Forger {
            requested: Self::HONEST,
            flags: Self::HONEST,
            user: "Ada",
            domain: "WORKGROUP",
            domain_in_proof: "WORKGROUP",
            password: "correct",
            promises_mic: true,
            sends_mic: true,
            lm_response: vec![0; 24],
            nt_response: None,
            encrypted_session_key: None,
        }
    }

    /// The acceptor that answered our NEGOTIATE_MESSAGE, and our AUTHENTICATE_MESSAGE.
    fn messages(&self) -> (Acceptor, Vec<u8>) {
        let mut negotiate = Vec::new();
        Negotiate { flags: self.requested }.encode(&mut negotiate);
        let acceptor = accept_negotiate(&negotiate);
        let (response, key_exchange_key) = self.response();
        let session_key = if self.flags.contains(Flags::KEY_EXCHANGE) { SESSION_KEY } else { key_exchange_key };
        let encrypted = match &self.encrypted_session_key {
            Some(encrypted) => encrypted.clone(),
            None => rc4k(&key_exchange_key, SESSION_KEY).to_vec(),
        };
        let mut message = Vec::new();
        let authenticate = Authenticate {
            flags: self.flags,
            lm_response: &self.lm_response,
            nt_response: self.nt_response.as_deref().unwrap_or(&response),
            domain: Utf16::new(&utf16_bytes(self.domain)).unwrap().into(),
            user: Utf16::new(&utf16_bytes(self.user)).unwrap().into(),
            workstation: Utf16::new(&utf16_bytes("LAPTOP")).unwrap().into(),
            encrypted_session_key: &encrypted,
            mic: self.sends_mic.then_some([0; 16]),
        }
        .encode(&mut message);
        authenticate.unwrap();
        if self.sends_mic {
            let mic = hmac_md5(&session_key, &[&negotiate, acceptor.challenge(), &message]);
            message[MIC].copy_from_slice(&mic);
        }
        (acceptor, message)
    }

    fn response(&self) -> (Vec<u8>, [u8; 16]) {
        let mut pairs = Vec::new();
        if self.promises_mic {
            write_pair(&mut Writer::new(&mut pairs), AvId::FLAGS, &AV_FLAG_MIC.to_le_bytes());
        }
        write_pair(&mut Writer::new(&mut pairs), AvId::TARGET_NAME, &utf16_bytes("cifs/files"));
        let temp = client_challenge(NOW, [0xaa; 8], &pairs);
        let hash = NtHash::from_password(self.password);
        let response_key = ntowf_v2(&hash, &utf16_bytes(self.user), &utf16_bytes(self.domain_in_proof));
        let proof = proof(&response_key, &SERVER_CHALLENGE, &temp);
        ([&proof[..], &temp].concat(), *session_base_key(&response_key, &proof))
    }

    fn try_against(&self, passwords: &[&str]) -> Result<Authenticated, LogonFailure> {
        let (acceptor, message) = self.messages();
        acceptor.authenticate(&message, |_| keys(passwords)).map(|(authenticated, _)| authenticated)
    }

    fn failure(&self) -> Option<LogonFailure> {
        self.try_against(&["correct"]).err()
    }
}

#[test]
fn both_ends_agree_on_the_session_key_and_on_signatures() {
    let initiator = Initiator::new();
    let acceptor = accept_negotiate(initiator.negotiate());
    let challenge = acceptor.challenge().to_vec();
    let fresh = Fresh { client_challenge: [9; 8], session_key: SESSION_KEY.into() };
    let mut client = initiator.authenticate(&challenge, &credentials("correct"), NOW, &fresh).unwrap();
    let (authenticated, mut server) = acceptor
        .authenticate(&client.message, |identity| {
            let (domain, user, workstation) = ("WORKGROUP".into(), "Ada".into(), "LAPTOP".into());
            assert_eq!(*identity, Identity { domain, user, workstation });
            keys(&["correct"])
        })
        .unwrap();
    assert_eq!(authenticated.session_key, client.session_key);
    for text in ["first", "second", "third"] {
        let mic = client.security.mic(text.as_bytes());
        assert!(server.verify_mic(text.as_bytes(), &mic));
        let mic = server.mic(text.as_bytes());
        assert!(client.security.verify_mic(text.as_bytes(), &mic));
    }
    let replayed = client.security.mic(b"fourth");
    assert!(server.verify_mic(b"fourth", &replayed));
    assert!(!server.verify_mic(b"fourth", &replayed));
}

/// A client of OEM alone: the names of its AUTHENTICATE_MESSAGE are in ASCII, the key of its proof is made of Unicode all the same.
fn oem_exchange(user: &[u8]) -> (Acceptor, Vec<u8>) {
    oem_exchange_in(b"FILES", user)
}

fn oem_exchange_in(domain: &[u8], user: &[u8]) -> (Acceptor, Vec<u8>) {
    let flags = Flags::OEM | Flags::EXTENDED_SESSION_SECURITY;
    let mut negotiate = Vec::new();
    Negotiate { flags }.encode(&mut negotiate);
    let acceptor = accept_negotiate(&negotiate);
    let temp = client_challenge(NOW, [0xaa; 8], &[0; 4]);
    let name: String = user.iter().map(|byte| *byte as char).collect();
    let response_key = ntowf_v2(&NtHash::from_password("correct"), &utf16_bytes(&name), &utf16_bytes("FILES"));
    let response = [&proof(&response_key, &SERVER_CHALLENGE, &temp)[..], &temp].concat();
    let mut message = Vec::new();
    let authenticate = Authenticate {
        flags: Challenge::decode(acceptor.challenge()).unwrap().flags,
        lm_response: &[],
        nt_response: &response,
        domain: Text::Oem(domain),
        user: Text::Oem(user),
        workstation: Text::Oem(b"N\x99DE"),
        encrypted_session_key: &[],
        mic: None,
    };
    authenticate.encode(&mut message).unwrap();
    assert_eq!(Authenticate::decode(&message), Ok(authenticate));
    (acceptor, message)
}

#[test]
fn a_client_without_unicode_signs_in() {
    let (acceptor, message) = oem_exchange(b"ada");
    let challenge = Challenge::decode(acceptor.challenge()).unwrap();
    assert!(challenge.flags.contains(Flags::OEM) && !challenge.flags.contains(Flags::UNICODE));
    assert_eq!(challenge.target_name, b"FILES");
    assert_eq!(Acceptor::claimed_user(&message).as_deref(), Some("ada"));
    let (authenticated, _) = acceptor.authenticate(&message, |_| keys(&["correct"])).unwrap();
    assert_eq!((authenticated.identity.user.as_str(), authenticated.identity.domain.as_str()), ("ada", "FILES"));
    assert_eq!(authenticated.identity.workstation, "N?DE", "nothing depends on it");
    let (acceptor, message) = oem_exchange(b"ada");
    let failure = acceptor.authenticate(&message, |_| keys(&["wrong"])).err();
    assert_eq!(failure, Some(LogonFailure::WrongPassword));
}

#[test]
fn oem_names_that_are_not_ascii_are_nobodys_and_a_cut_message_is_none() {
    for (domain, user) in [(&b"FILES"[..], &b"\x84da"[..]), (b"F\x8bLES", b"ada")] {
        let (acceptor, message) = oem_exchange_in(domain, user);
        let failure = acceptor.authenticate(&message, |_| panic!("nobody is looked up")).err();
        assert_eq!(failure, Some(LogonFailure::ForeignName));
    }
    let (_, message) = oem_exchange(b"ada");
    for length in 0..message.len() {
        let (acceptor, _) = oem_exchange(b"ada");
        assert!(acceptor.authenticate(&message[..length], |_| keys(&["correct"])).is_err(), "{length}");
    }
}

#[test]
fn the_challenge_says_what_the_client_may_use_and_who_we_are() {
    let acceptor = accept_negotiate(Initiator::new().negotiate());
    let challenge = Challenge::decode(acceptor.challenge()).unwrap();
    assert_eq!(challenge.server_challenge, SERVER_CHALLENGE);
    assert_eq!(challenge.target_name, utf16_bytes("FILES"));
    assert_eq!(challenge.flags, Flags(0xe28a_8235));
    let pairs: Vec<(AvId, Vec<u8>)> =
        AvPairs::parse(challenge.target_info).unwrap().iter().map(|(id, value)| (id, value.to_vec())).collect();
    let expected = [
        (AvId::NB_DOMAIN_NAME, utf16_bytes("WORKGROUP")),
        (AvId::NB_COMPUTER_NAME, utf16_bytes("FILES")),
        (AvId::DNS_COMPUTER_NAME, utf16_bytes("files.example")),
        (AvId::TIMESTAMP, NOW.0.to_le_bytes().to_vec()),
    ];
    assert_eq!(pairs, expected);
}

#[test]
fn nothing_is_granted_that_the_client_did_not_ask_for() {
    let mut negotiate = Vec::new();
    Negotiate { flags: Flags::UNICODE | Flags::EXTENDED_SESSION_SECURITY }.encode(&mut negotiate);
    let acceptor = accept_negotiate(&negotiate);
    let granted = Challenge::decode(acceptor.challenge()).unwrap().flags;
    assert!(!granted.intersects(Flags::KEY_EXCHANGE | Flags::SEAL | Flags::STRONG_128));
}

#[test]
fn a_client_without_unicode_or_extended_session_security_is_refused_at_once() {
    for flags in [Flags(0), Flags::UNICODE, Flags::OEM, Flags::EXTENDED_SESSION_SECURITY] {
        let mut negotiate = Vec::new();
        Negotiate { flags }.encode(&mut negotiate);
        let refused = Acceptor::new(&negotiate, &target(), NOW, SERVER_CHALLENGE);
        assert_eq!(refused.err(), Some(LogonFailure::Downgraded));
    }
}

#[test]
fn an_honest_client_is_accepted_with_any_of_its_accounts_keys() {
    assert_eq!(Forger::honest().try_against(&["correct"]).unwrap().key_index, 0);
    assert_eq!(Forger::honest().try_against(&["old", "correct"]).unwrap().key_index, 1);
    assert_eq!(Forger::honest().try_against(&["older", "old", "correct"]).unwrap().session_key, SESSION_KEY);
}

#[test]
fn user_names_have_no_case_in_the_proof() {
    let (acceptor, message) = Forger { user: "ädA", ..Forger::honest() }.messages();
    let upper = ntowf_v2(&NtHash::from_password("x"), &utf16_bytes("ÄDA"), &[]);
    assert_eq!(ntowf_v2(&NtHash::from_password("x"), &utf16_bytes("ädA"), &[]), upper);
    assert!(acceptor.authenticate(&message, |_| keys(&["correct"])).is_ok());
}

#[test]
fn a_client_that_leaves_the_domain_out_of_its_proof_is_accepted() {
    assert!(Forger { domain_in_proof: "", ..Forger::honest() }.try_against(&["correct"]).is_ok());
    let failure = Forger { domain_in_proof: "ELSEWHERE", ..Forger::honest() }.failure();
    assert_eq!(failure, Some(LogonFailure::WrongPassword));
}

#[test]
fn a_wrong_password_is_refused_whatever_becomes_of_the_mic() {
    for (promises_mic, sends_mic) in [(true, true), (true, false), (false, true), (false, false)] {
        let forger = Forger { password: "wrong", promises_mic, sends_mic, ..Forger::honest() };
        assert_eq!(forger.failure(), Some(LogonFailure::WrongPassword), "{promises_mic} {sends_mic}");
    }
}

#[test]
fn an_unknown_user_is_told_from_a_wrong_password_only_to_us() {
    assert_eq!(Forger::honest().try_against(&[]).err(), Some(LogonFailure::UnknownUser));
    // The key that stands in for a stranger's is no key to anything.
    let (acceptor, mut message) = Forger::honest().messages();
    let hash = NtHash::from_bytes([0; 16]);
    let decoded = Authenticate::decode(&message).unwrap();
    let response_key = ntowf_v2(&hash, decoded.user.as_bytes(), decoded.domain.as_bytes());
    let forged = proof(&response_key, &SERVER_CHALLENGE, &decoded.nt_response[16..]);
    let proof_at = message.windows(16).position(|window| window == &decoded.nt_response[..16]).unwrap();
    message[proof_at..proof_at + 16].copy_from_slice(&forged);
    assert_eq!(acceptor.authenticate(&message, |_| Vec::new()).err(), Some(LogonFailure::UnknownUser));
}

#[test]
fn a_promised_mic_must_be_there_and_right() {
    assert_eq!(Forger { sends_mic: false, ..Forger::honest() }.failure(), Some(LogonFailure::BadMic));
    let (acceptor, mut message) = Forger::honest().messages();
    message[MIC.start] ^= 1;
    let outcome = acceptor.authenticate(&message, |_| keys(&["correct"]));
    assert_eq!(outcome.err(), Some(LogonFailure::BadMic));
}

#[test]
fn an_old_client_that_promises_no_mic_is_accepted_without() {
    let old = Forger { promises_mic: false, sends_mic: false, ..Forger::honest() };
    assert_eq!(old.try_against(&["correct"]).unwrap().session_key, SESSION_KEY);
}

#[test]
fn the_promise_of_a_mic_cannot_be_taken_out_of_the_response() {
    let (acceptor, message) = Forger::honest().messages();
    let flags_pair = [6, 0, 4, 0, 2, 0, 0, 0];
    let at = message.windows(8).position(|window| window == flags_pair).unwrap();
    for replacement in [[6, 0, 4, 0, 0, 0, 0, 0], [99, 0, 4, 0, 2, 0, 0, 0]] {
        let mut changed = message.clone();
        changed[at..at + 8].copy_from_slice(&replacement);
        let acceptor = Acceptor::recorded(&negotiate_of(&Forger::honest()), acceptor.challenge());
        let outcome = acceptor.authenticate(&changed, |_| keys(&["correct"]));
        assert_eq!(outcome.err(), Some(LogonFailure::WrongPassword));
    }
}

fn negotiate_of(forger: &Forger) -> Vec<u8> {
    let mut negotiate = Vec::new();
    Negotiate { flags: forger.requested }.encode(&mut negotiate);
    negotiate
}

#[test]
fn ntlm1_lm_and_anonymous_are_refused_before_anyone_is_looked_up() {
    let cases = [
        (Forger { nt_response: Some(vec![7; 24]), ..Forger::honest() }, LogonFailure::Ntlm1),
        (Forger { nt_response: Some(vec![]), ..Forger::honest() }, LogonFailure::Ntlm1),
        (Forger { nt_response: Some(vec![]), lm_response: vec![], ..Forger::honest() }, LogonFailure::MissingProof),
        (
            Forger { user: "", nt_response: Some(vec![]), lm_response: vec![0], ..Forger::honest() },
            LogonFailure::Anonymous,
        ),
        (Forger { user: "", ..Forger::honest() }, LogonFailure::Anonymous),
        (Forger { flags: Forger::HONEST | Flags::ANONYMOUS, ..Forger::honest() }, LogonFailure::Anonymous),
    ];
    for (forger, failure) in cases {
        let (acceptor, message) = forger.messages();
        let outcome = acceptor.authenticate(&message, |_| panic!("nobody is looked up"));
        assert_eq!(outcome.err(), Some(failure));
    }
}

#[test]
fn a_response_too_short_for_ntlm2_is_malformed() {
    for length in (1..24).chain(25..48) {
        let mut response = vec![0; length];
        if let Some(version) = response.get_mut(16..18) {
            version.copy_from_slice(&[1, 1]);
        }
        let forger = Forger { nt_response: Some(response), ..Forger::honest() };
        assert!(matches!(forger.failure(), Some(LogonFailure::Malformed(_))), "{length} bytes");
    }
}

#[test]
fn what_was_negotiated_must_not_be_missing_later() {
    for lost in [Flags::UNICODE, Flags::EXTENDED_SESSION_SECURITY, Flags::KEY_EXCHANGE] {
        for promises_mic in [true, false] {
            let flags = Flags(Forger::HONEST.0 & !lost.0);
            let forger = Forger { flags, promises_mic, ..Forger::honest() };
            assert_eq!(forger.failure(), Some(LogonFailure::Downgraded), "{lost:?}");
        }
    }
}

#[test]
fn a_client_that_never_asked_for_a_key_exchange_uses_the_base_key() {
    let flags = Flags(Forger::HONEST.0 & !Flags::KEY_EXCHANGE.0);
    let forger = Forger { requested: flags, flags, ..Forger::honest() };
    let (_, base_key) = forger.response();
    assert_eq!(forger.try_against(&["correct"]).unwrap().session_key, base_key);
}

#[test]
fn an_exchanged_key_of_another_length_is_malformed() {
    for length in [0, 1, 15, 17, 32] {
        let forger = Forger {
            encrypted_session_key: Some(vec![0; length]),
            promises_mic: false,
            sends_mic: false,
            ..Forger::honest()
        };
        assert_eq!(forger.failure(), Some(LogonFailure::Malformed("EncryptedRandomSessionKey")), "{length} bytes");
    }
}

#[test]
fn a_changed_exchanged_key_breaks_the_mic() {
    let (acceptor, mut message) = Forger::honest().messages();
    let last = message.len() - 1;
    message[last] ^= 1;
    let outcome = acceptor.authenticate(&message, |_| keys(&["correct"]));
    assert_eq!(outcome.err(), Some(LogonFailure::BadMic));
}

#[test]
fn a_replayed_message_does_not_answer_another_challenge() {
    let (_, message) = Forger::honest().messages();
    let negotiate = negotiate_of(&Forger::honest());
    let later = Acceptor::new(&negotiate, &target(), NOW, [9; 8]).unwrap();
    assert_eq!(later.authenticate(&message, |_| keys(&["correct"])).err(), Some(LogonFailure::WrongPassword));
}

#[test]
fn a_changed_negotiate_message_breaks_the_mic() {
    let (acceptor, message) = Forger::honest().messages();
    let mut negotiate = negotiate_of(&Forger::honest());
    negotiate[12] ^= 0x20;
    let other = Acceptor::recorded(&negotiate, acceptor.challenge());
    assert_eq!(other.authenticate(&message, |_| keys(&["correct"])).err(), Some(LogonFailure::BadMic));
}

#[test]
fn any_changed_bit_of_the_message_is_refused() {
    let (acceptor, message) = Forger::honest().messages();
    let negotiate = negotiate_of(&Forger::honest());
    for bit in 0..message.len() * 8 {
        let mut changed = message.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let acceptor = Acceptor::recorded(&negotiate, acceptor.challenge());
        assert!(acceptor.authenticate(&changed, |_| keys(&["correct"])).is_err(), "bit {bit}");
    }
}

#[test]
fn a_message_cut_anywhere_is_refused() {
    let (acceptor, message) = Forger::honest().messages();
    let negotiate = negotiate_of(&Forger::honest());
    for length in 0..message.len() {
        let acceptor = Acceptor::recorded(&negotiate, acceptor.challenge());
        assert!(acceptor.authenticate(&message[..length], |_| keys(&["correct"])).is_err(), "{length} bytes");
    }
}

#[test]
fn an_initiator_refuses_a_challenge_that_leaves_out_what_makes_it_safe() {
    let credentials = credentials("correct");
    let fresh = Fresh { client_challenge: [9; 8], session_key: SESSION_KEY.into() };
    let challenge = accept_negotiate(Initiator::new().negotiate()).challenge().to_vec();
    for bit in [Flags::UNICODE, Flags::EXTENDED_SESSION_SECURITY, Flags::KEY_EXCHANGE, Flags::STRONG_128] {
        let mut stripped = challenge.clone();
        let flags = u32::from_le_bytes(stripped[20..24].try_into().unwrap()) & !bit.0;
        stripped[20..24].copy_from_slice(&flags.to_le_bytes());
        let outcome = Initiator::new().authenticate(&stripped, &credentials, NOW, &fresh);
        assert_eq!(outcome.err(), Some(LogonFailure::Downgraded), "{bit:?}");
    }
    for length in 0..challenge.len() {
        assert!(Initiator::new().authenticate(&challenge[..length], &credentials, NOW, &fresh).is_err());
    }
}

#[test]
fn no_secret_is_printed() {
    let authenticated = Forger::honest().try_against(&["correct"]).unwrap();
    let printed = format!("{authenticated:?} {:?}", credentials("correct"));
    assert!(!printed.contains("85"), "{printed}");
    assert!(printed.contains("Ada"));
}
