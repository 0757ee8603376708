//! Both ends against each other, and the acceptor against clients of other makes and against forgers.

use der::Tag;
use proptest::prelude::*;
use wire::ids::FileTime;

use super::token::{NTLMSSP, context, framed, init, mech_type_list, tlv};
use super::*;
use crate::LogonFailure;
use crate::hex::hex;
use crate::ntlm::{self, Authenticated, Credentials, Fresh, NtHash, Target};

/// 1.2.840.48018.1.2.2, Kerberos as Windows writes it, with tag and length.
const MS_KERBEROS: [u8; 11] = [0x06, 0x09, 0x2a, 0x86, 0x48, 0x82, 0xf7, 0x12, 0x01, 0x02, 0x02];
const NOW: FileTime = FileTime(0x01d0_aecb_adf5_a1a1);
fn fresh() -> Fresh {
    Fresh { client_challenge: [9; 8], session_key: [0x55; 16].into() }
}

fn credentials() -> Credentials {
    Credentials {
        domain: String::new(),
        user: "Ada".into(),
        workstation: "LAPTOP".into(),
        nt_hash: NtHash::from_password("correct"),
    }
}

/// One step against an account with one key.
fn step(acceptor: &mut Acceptor, token: &[u8]) -> Result<Step, LogonFailure> {
    let target = Target { netbios_computer: "FILES".into(), ..Target::default() };
    let env = Env { target: &target, now: NOW, server_challenge: [3; 8] };
    acceptor.step(token, &env, |_| vec![NtHash::from_password("correct")])
}

fn next(acceptor: &mut Acceptor, token: &[u8]) -> Vec<u8> {
    match step(acceptor, token).unwrap() {
        Step::Continue(answer) => answer,
        Step::Done { .. } | Step::Anonymous { .. } => panic!("done too early"),
    }
}

fn done(acceptor: &mut Acceptor, token: &[u8]) -> (Vec<u8>, Authenticated) {
    match step(acceptor, token).unwrap() {
        Step::Continue(_) => panic!("not done"),
        Step::Anonymous { .. } => panic!("it is not anonymous"),
        Step::Done { token, authenticated } => (token, authenticated),
    }
}

fn response(token: &[u8]) -> NegTokenResp<'_> {
    match Token::decode(token).unwrap() {
        Token::Init(_) => panic!("a first token"),
        Token::Resp(response) => response,
    }
}

/// A first token that offers `mechs`, each with tag and length.
fn offer(mechs: &[&[u8]], mech_token: Option<&[u8]>) -> Vec<u8> {
    let mut fields = context(0, &tlv(Tag::Sequence, &mechs.concat()));
    if let Some(token) = mech_token {
        fields.extend(context(2, &tlv(Tag::OctetString, token)));
    }
    framed(&fields)
}

fn carry(ntlm: &[u8], mech_list_mic: Option<&[u8]>) -> Vec<u8> {
    NegTokenResp { response_token: Some(ntlm), mech_list_mic, ..NegTokenResp::default() }.encode()
}

#[test]
fn both_ends_finish_with_one_session_key() {
    let mut acceptor = Acceptor::new();
    let (mut initiator, first) = Initiator::begin();
    assert_eq!(initiator.session_key(), None);
    let challenge = next(&mut acceptor, &first);
    assert_eq!(response(&challenge).neg_state, Some(NegState::AcceptIncomplete));
    assert_eq!(response(&challenge).supports_ntlmssp, Some(true));
    let answer = initiator.answer(&challenge, &credentials(), NOW, &fresh()).unwrap();
    assert_eq!(initiator.session_key(), Some(fresh().session_key));
    let (last, authenticated) = done(&mut acceptor, &answer);
    assert_eq!(response(&last).neg_state, Some(NegState::AcceptCompleted));
    assert!(response(&last).mech_list_mic.is_some());
    assert_eq!(authenticated.identity.user, "Ada");
    assert_eq!(initiator.finish(&last), Ok(authenticated.session_key));
}

#[test]
fn ntlm_without_spnego_is_answered_without() {
    let mut acceptor = Acceptor::new();
    let ntlm = ntlm::Initiator::new();
    let challenge = next(&mut acceptor, ntlm.negotiate());
    let established = ntlm.authenticate(&challenge, &credentials(), NOW, &fresh()).unwrap();
    let (last, authenticated) = done(&mut acceptor, &established.message);
    assert!(last.is_empty());
    assert_eq!(authenticated.session_key, fresh().session_key);
}

/// What comes of an AUTHENTICATE_MESSAGE without a name and without a response, but for what is given.
fn anonymous(
    acceptor: &mut Acceptor,
    lm_response: &[u8],
    nt_response: &[u8],
    user: &str,
) -> Result<Step, LogonFailure> {
    let negotiate = ntlm::Initiator::new().negotiate().to_vec();
    next(acceptor, &offer(&[&NTLMSSP], Some(&negotiate)));
    let user = wire::codec::utf16_bytes(user);
    let mut message = Vec::new();
    let authenticate = ntlm::Authenticate {
        flags: ntlm::Negotiate::decode(&negotiate).unwrap().flags,
        lm_response,
        nt_response,
        domain: Default::default(),
        user: wire::Utf16::new(&user).unwrap().into(),
        workstation: Default::default(),
        encrypted_session_key: &[7; 16],
        mic: None,
    };
    authenticate.encode(&mut message).unwrap();
    step(acceptor, &carry(&message, None))
}

#[test]
fn the_anonymous_user_is_accepted_where_that_was_said_and_nowhere_else() {
    for lm_response in [&[][..], &[0]] {
        let refused = anonymous(&mut Acceptor::new(), lm_response, &[], "");
        assert_eq!(refused.err(), Some(LogonFailure::Anonymous));
        let Ok(Step::Anonymous { token }) = anonymous(&mut Acceptor::accepting_anonymous(), lm_response, &[], "")
        else {
            panic!("the anonymous user was refused")
        };
        assert_eq!(response(&token).neg_state, Some(NegState::AcceptCompleted));
    }
}

#[test]
fn who_says_a_name_or_sends_a_response_is_somebody_and_has_to_prove_it() {
    let outcome = |lm: &[u8], nt: &[u8], user| anonymous(&mut Acceptor::accepting_anonymous(), lm, nt, user).err();
    assert_eq!(outcome(&[], &[], "Ada"), Some(LogonFailure::MissingProof));
    assert_eq!(outcome(&[0], &[], "Ada"), Some(LogonFailure::Ntlm1));
    assert_eq!(outcome(&[], &[7; 24], ""), Some(LogonFailure::Anonymous));
    assert_eq!(outcome(&[7; 24], &[], ""), Some(LogonFailure::Anonymous));
    let mut acceptor = Acceptor::accepting_anonymous();
    let (mut initiator, first) = Initiator::begin();
    let challenge = next(&mut acceptor, &first);
    let answer = initiator.answer(&challenge, &credentials(), NOW, &fresh()).unwrap();
    assert_eq!(done(&mut acceptor, &answer).1.identity.user, "Ada");
}

#[test]
fn a_client_may_offer_ntlm_without_a_token_first() {
    let mut acceptor = Acceptor::new();
    let agreed = next(&mut acceptor, &offer(&[&NTLMSSP], None));
    assert_eq!(response(&agreed).neg_state, Some(NegState::AcceptIncomplete));
    assert_eq!(response(&agreed).supports_ntlmssp, Some(true));
    assert_eq!(response(&agreed).response_token, None);
    let ntlm = ntlm::Initiator::new();
    let challenge = next(&mut acceptor, &carry(ntlm.negotiate(), None));
    assert_eq!(response(&challenge).supports_ntlmssp, None, "named in the first answer only");
    let message = response(&challenge).response_token.unwrap();
    let established = ntlm.authenticate(message, &credentials(), NOW, &fresh()).unwrap();
    let (last, _) = done(&mut acceptor, &carry(&established.message, None));
    assert_eq!(response(&last).mech_list_mic, None, "no code is sent to one who sends none");
}

#[test]
fn flags_before_and_a_code_behind_the_first_token_are_passed_over() {
    let negotiate = ntlm::Initiator::new().negotiate().to_vec();
    let fields = [
        context(0, &mech_type_list()),
        context(1, &tlv(Tag::BitString, &[1, 0x7e])),
        context(2, &tlv(Tag::OctetString, &negotiate)),
        context(3, &tlv(Tag::OctetString, &[9; 16])),
    ];
    let challenge = next(&mut Acceptor::new(), &framed(&fields.concat()));
    assert!(response(&challenge).response_token.is_some());
}

/// Plays a client whose first choice is Kerberos, up to its AUTHENTICATE_MESSAGE. `seen` is the list the server gets.
fn kerberos_first(acceptor: &mut Acceptor, seen: &[&[u8]]) -> ntlm::Established {
    let agreed = next(acceptor, &offer(seen, Some(b"a Kerberos token")));
    assert_eq!(response(&agreed).supports_ntlmssp, Some(true));
    let ntlm = ntlm::Initiator::new();
    let challenge = next(acceptor, &carry(ntlm.negotiate(), None));
    let message = response(&challenge).response_token.unwrap();
    ntlm.authenticate(message, &credentials(), NOW, &fresh()).unwrap()
}

#[test]
fn a_client_that_prefers_kerberos_goes_on_with_ntlm_and_proves_its_list() {
    let mechs: [&[u8]; 2] = [&MS_KERBEROS, &NTLMSSP];
    let mut acceptor = Acceptor::new();
    let agreed = next(&mut Acceptor::new(), &offer(&mechs, Some(b"a Kerberos token")));
    assert_eq!(response(&agreed).neg_state, Some(NegState::RequestMic));
    assert_eq!(response(&agreed).response_token, None);
    let mut client = kerberos_first(&mut acceptor, &mechs);
    let list = tlv(Tag::Sequence, &mechs.concat());
    let mic = client.security.mic(&list);
    let (last, _) = done(&mut acceptor, &carry(&client.message, Some(&mic)));
    assert!(client.security.verify_mic(&list, response(&last).mech_list_mic.unwrap()));
}

#[test]
fn a_list_that_must_be_proven_is_not_taken_on_trust() {
    let mechs: [&[u8]; 2] = [&MS_KERBEROS, &NTLMSSP];
    for mic in [None, Some(&[1u8; 16][..]), Some(&[])] {
        let mut acceptor = Acceptor::new();
        let client = kerberos_first(&mut acceptor, &mechs);
        let outcome = step(&mut acceptor, &carry(&client.message, mic));
        assert_eq!(outcome.err(), Some(LogonFailure::BadMechListMic));
    }
}

#[test]
fn a_mechanism_taken_out_on_the_way_is_noticed() {
    let mut acceptor = Acceptor::new();
    let challenge = next(&mut acceptor, &offer(&[&NTLMSSP], Some(ntlm::Initiator::new().negotiate())));
    let message = response(&challenge).response_token.unwrap();
    let mut client = ntlm::Initiator::new().authenticate(message, &credentials(), NOW, &fresh()).unwrap();
    let sent = tlv(Tag::Sequence, &[&MS_KERBEROS[..], &NTLMSSP].concat());
    let mic = client.security.mic(&sent);
    let outcome = step(&mut acceptor, &carry(&client.message, Some(&mic)));
    assert_eq!(outcome.err(), Some(LogonFailure::BadMechListMic));
}

#[test]
fn a_client_without_ntlm_is_refused() {
    let outcome = step(&mut Acceptor::new(), &offer(&[&MS_KERBEROS], Some(b"a Kerberos token")));
    assert_eq!(outcome.err(), Some(LogonFailure::NoCommonMechanism));
    assert_eq!(step(&mut Acceptor::new(), &offer(&[], None)).err(), Some(LogonFailure::NoCommonMechanism));
}

#[test]
fn a_refusal_ends_the_exchange() {
    let mut acceptor = Acceptor::new();
    assert!(step(&mut acceptor, b"nonsense").is_err());
    let (_, first) = Initiator::begin();
    assert_eq!(step(&mut acceptor, &first).err(), Some(LogonFailure::OutOfOrder));
}

#[test]
fn tokens_out_of_order_are_refused() {
    let (_, first) = Initiator::begin();
    let later = carry(b"NTLMSSP\0", None);
    assert_eq!(step(&mut Acceptor::new(), &later).err(), Some(LogonFailure::OutOfOrder));
    let mut acceptor = Acceptor::new();
    next(&mut acceptor, &first);
    assert_eq!(step(&mut acceptor, &first).err(), Some(LogonFailure::OutOfOrder));
    let mut acceptor = Acceptor::new();
    next(&mut acceptor, &first);
    let reject = NegTokenResp { neg_state: Some(NegState::Reject), ..NegTokenResp::default() };
    assert_eq!(step(&mut acceptor, &reject.encode()).err(), Some(LogonFailure::RefusedByPeer));
    let mut acceptor = Acceptor::new();
    next(&mut acceptor, &first);
    let empty = NegTokenResp::default().encode();
    assert_eq!(step(&mut acceptor, &empty).err(), Some(LogonFailure::Malformed("responseToken")));
}

#[test]
fn a_finished_exchange_takes_no_more() {
    let mut acceptor = Acceptor::new();
    let (mut initiator, first) = Initiator::begin();
    let challenge = next(&mut acceptor, &first);
    let answer = initiator.answer(&challenge, &credentials(), NOW, &fresh()).unwrap();
    done(&mut acceptor, &answer);
    assert_eq!(step(&mut acceptor, &answer).err(), Some(LogonFailure::OutOfOrder));
}

#[test]
fn an_initiator_checks_what_the_server_says_last() {
    let mut acceptor = Acceptor::new();
    let (mut initiator, first) = Initiator::begin();
    let challenge = next(&mut acceptor, &first);
    let answer = initiator.answer(&challenge, &credentials(), NOW, &fresh()).unwrap();
    let (last, _) = done(&mut acceptor, &answer);
    let again = || {
        let (mut initiator, _) = Initiator::begin();
        initiator.answer(&challenge, &credentials(), NOW, &fresh()).unwrap();
        initiator
    };
    assert!(again().finish(&last).is_ok());
    let mut wrong = last.clone();
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(again().finish(&wrong), Err(LogonFailure::BadMechListMic));
    let incomplete = NegTokenResp { neg_state: Some(NegState::AcceptIncomplete), ..NegTokenResp::default() };
    assert_eq!(again().finish(&incomplete.encode()), Err(LogonFailure::OutOfOrder));
    let reject = NegTokenResp { neg_state: Some(NegState::Reject), ..NegTokenResp::default() };
    assert_eq!(again().finish(&reject.encode()), Err(LogonFailure::RefusedByPeer));
    assert_eq!(Initiator::begin().0.finish(&last), Err(LogonFailure::OutOfOrder));
}

#[test]
fn an_initiator_refuses_another_mechanism() {
    let kerberos = context(1, &tlv(Tag::Sequence, &context(1, &MS_KERBEROS)));
    let outcome = Initiator::begin().0.answer(&kerberos, &credentials(), NOW, &fresh());
    assert_eq!(outcome.err(), Some(LogonFailure::NoCommonMechanism));
}

#[test]
fn the_hint_is_what_windows_and_samba_send_for_ntlm_alone() {
    let expected = "604806062b0601050502a03e303ca00e300c060a2b06010401823702020a
        a32a3028a0261b246e6f745f646566696e65645f696e5f5246433431373840706c656173655f69676e6f7265";
    assert_eq!(hint(), hex(expected));
    let hint = hint();
    let Token::Init(init) = Token::decode(&hint).unwrap() else { panic!("a first token") };
    assert_eq!((init.mech_types.ntlmssp(), init.mech_token), (Some(0), None));
    assert_eq!(init.mech_types.as_bytes(), mech_type_list());
}

#[test]
fn tokens_cut_anywhere_or_with_more_behind_are_malformed() {
    let resp = NegTokenResp {
        neg_state: Some(NegState::AcceptIncomplete),
        supports_ntlmssp: Some(true),
        response_token: Some(&[7; 300]),
        mech_list_mic: Some(&[8; 16]),
    };
    for token in [init(b"NTLMSSP\0 and so on"), resp.encode(), hint()] {
        assert!(Token::decode(&token).is_ok());
        for length in 0..token.len() {
            assert!(Token::decode(&token[..length]).is_err(), "{length} bytes");
        }
        assert!(Token::decode(&[&token[..], &[0]].concat()).is_err());
    }
}

#[test]
fn hostile_der_is_malformed() {
    let deep = std::iter::successors(Some(Vec::new()), |inner| Some(tlv(Tag::Sequence, inner)));
    let deep = deep.take_while(|token| token.len() < 8192).step_by(100).last().unwrap();
    let many = vec![&NTLMSSP[..]; 33];
    let hostile = [
        deep,
        offer(&many, None),
        vec![0x60, 0x80, 0, 0],
        vec![0x60, 0x84, 0xff, 0xff, 0xff, 0xff],
        vec![0xa1, 0x03, 0x30, 0x81, 0x00],
        vec![0xa2, 0x02, 0x30, 0x00],
        vec![0x30, 0x00],
        framed(&context(2, &tlv(Tag::OctetString, b"no list"))),
        framed(&context(0, &NTLMSSP)),
        context(1, &tlv(Tag::Sequence, &context(0, &tlv(Tag::Enumerated, &[9])))),
        context(1, &tlv(Tag::Sequence, &context(2, &tlv(Tag::BitString, b"\0not octets")))),
        vec![0; TOKEN_LENGTH_MAX + 1],
    ];
    for token in &hostile {
        assert!(
            matches!(Token::decode(token), Err(LogonFailure::Malformed(_))),
            "{:02x?}",
            &token[..token.len().min(16)]
        );
        assert!(step(&mut Acceptor::new(), token).is_err());
    }
}

#[test]
fn reasons_have_words_and_no_secrets() {
    for failure in [LogonFailure::WrongPassword, LogonFailure::UnknownUser, LogonFailure::Malformed("UserName")] {
        assert!(!failure.to_string().is_empty());
    }
    assert_eq!(LogonFailure::Malformed("UserName").to_string(), "malformed authentication token: UserName");
}

proptest! {
    #[test]
    fn responses_go_to_bytes_and_back(
        state in 0usize..5,
        supported: bool,
        token in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300)),
        mic in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)),
    ) {
        let states = [NegState::AcceptCompleted, NegState::AcceptIncomplete, NegState::Reject, NegState::RequestMic];
        let response = NegTokenResp {
            neg_state: states.get(state).copied(),
            supports_ntlmssp: supported.then_some(true),
            response_token: token.as_deref(),
            mech_list_mic: mic.as_deref(),
        };
        let encoded = response.encode();
        prop_assert_eq!(Token::decode(&encoded), Ok(Token::Resp(response)));
    }

    #[test]
    fn noise_never_logs_on(noise in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(step(&mut Acceptor::new(), &noise).is_err());
        let mut acceptor = Acceptor::new();
        next(&mut acceptor, &Initiator::begin().1);
        prop_assert!(step(&mut acceptor, &noise).is_err());
    }

    #[test]
    fn a_changed_first_token_never_panics(index in 0usize..200, value: u8) {
        let (_, mut first) = Initiator::begin();
        let index = index % first.len();
        first[index] = value;
        let _ = step(&mut Acceptor::new(), &first);
    }
}
