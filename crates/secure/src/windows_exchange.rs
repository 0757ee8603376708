//! Two logons between Windows machines, byte for byte: the 3.1.1 multichannel example of "SMB 2 and SMB 3 security in
//! Windows 10: the anatomy of signing and cryptographic keys" (Microsoft Open Specifications blog, 2017). What we
//! compute from the messages must be what Windows computed.

use wire::ids::FileTime;

use crate::hex::{hex, hex_array};
use crate::kdf::{Derivation, channel_signing_key};
use crate::ntlm::{self, Identity, NtHash, Target};
use crate::preauth::PreauthHash;
use crate::sign::{Sender, SigningAlgorithm, SigningKey};
use crate::spnego::{Acceptor, Env, NegTokenResp, Step, Token};
use crate::{LogonFailure, Role};

/// One channel's logon. The messages are whole SMB2 messages.
struct Channel {
    negotiated: &'static str,
    setup_1: &'static str,
    challenge: &'static str,
    setup_2: &'static str,
    accepted: &'static str,
    session_key: &'static str,
    signing_key: &'static str,
}

/// The first channel, from the hash after its NEGOTIATE on.
const FIRST: Channel = Channel {
    negotiated: "324BFA92A4F3A190E466EBEA08D9C110DC88BFED758D9846ECC6F541CC1D02AE3C94A79F36011E99
        7E13F841B91B50957AD07B19C8E2539C0B23FDAE09D2C513",
    setup_1: "FE534D4240000100000000000100800000000000000000000200000000000000FFFE000000000000
        00000000000000000000000000000000000000000000000019000001010000000000000058004A00
        0000000000000000604806062B0601050502A03E303CA00E300C060A2B06010401823702020AA22A
        04284E544C4D5353500001000000978208E200000000000000000000000000000000060380250000
        000F",
    challenge: "FE534D4240000100160000C00100010001000000000000000200000000000000FFFE000000000000
        190000000010000000000000000000000000000000000000090000004800B300A181B03081ADA003
        0A0101A10C060A2B06010401823702020AA281970481944E544C4D53535000020000000C000C0038
        00000015828AE20D1D8BA31179D008000000000000000050005000440000000A0092270000000F53
        005500540033003100310002000C0053005500540033003100310001000C00530055005400330031
        00310004000C0053005500540033003100310003000C0053005500540033003100310007000800A1
        A1F5ADCBAED00100000000",
    setup_2: "FE534D4240000100000000000100800000000000000000000300000000000000FFFE000000000000
        1900000000100000000000000000000000000000000000001900000101000000000000005800CF01
        0000000000000000A18201CB308201C7A0030A0101A28201AA048201A64E544C4D53535000030000
        001800180090000000EE00EE00A80000000C000C00580000001A001A0064000000120012007E0000
        001000100096010000158288E2060380250000000FECAC77A5F385A8BF9C38C706EEEDDCD3530055
        005400330031003100610064006D0069006E006900730074007200610074006F0072004400520049
        0056004500520033003100310000000000000000000000000000000000000000000000000063078E
        B639FE03E20A231C3AE3BF23080101000000000000A1A1F5ADCBAED001BC4AD05F223CC90F000000
        0002000C0053005500540033003100310001000C0053005500540033003100310004000C00530055
        00540033003100310003000C0053005500540033003100310007000800A1A1F5ADCBAED001060004
        00020000000800300030000000000000000000000000300000B61FEFCAA857EA57BF1EDCEBF8974B
        8E0EBA5A6DFD9D07A31D11B548F8C9D0CC0A00100000000000000000000000000000000000090016
        0063006900660073002F005300550054003300310031000000000000000000000000003B9BDFF38F
        5EE8F9663F11A0F4C03A78A31204100100000063775A9A5FD97F0600000000",
    accepted: "FE534D4240000100000000000100800009000000000000000300000000000000FFFE000000000000
        1900000000100000EBE146DA120BA25FC3376A49DFE31BC10900000048001D00A11B3019A0030A01
        00A3120410010000003B453CDC3524164200000000",
    session_key: "270E1BA896585EEB7AF3472D3B4C75A7",
    signing_key: "73FE7A9A77BEF0BDE49C650D8CCB5F76",
};

/// The second channel, bound to the first one's session. Its requests and its first answer are signed with the
/// session's key, whose signatures are in the hash.
const SECOND: Channel = Channel {
    negotiated: "E267AB1AA0403082AA2A9FEB0224AF3EA92E53CAA50A893A9635F0659F93591F81391737E68DB0C9
        AD878C56449C36A6895EBCF435A7D97072C7B596B8AF3817",
    setup_1: "FE534D4240000100000000000100800008000000000000000200000000000000FFFE000000000000
        190000000010000068BD0C58F613CE1334B1EB51C68D39EA19000101010000000000000058004A00
        0000000000000000604806062B0601050502A03E303CA00E300C060A2B06010401823702020AA22A
        04284E544C4D5353500001000000978208E200000000000000000000000000000000060380250000
        000F",
    challenge: "FE534D4240000100160000C00100010009000000000000000200000000000000FFFE000000000000
        1900000000100000014A71CAE724995E612430E2BE87578C090000004800B300A181B03081ADA003
        0A0101A10C060A2B06010401823702020AA281970481944E544C4D53535000020000000C000C0038
        00000015828AE23823DA68E32D2FE1000000000000000050005000440000000A0092270000000F53
        005500540033003100310002000C0053005500540033003100310001000C00530055005400330031
        00310004000C0053005500540033003100310003000C005300550054003300310031000700080041
        3B42AECBAED00100000000",
    setup_2: "FE534D4240000100000000000100800008000000000000000300000000000000FFFE000000000000
        19000000001000003CA64529ACAE57B26DCEC17B14E477D71900010101000000000000005800CF01
        0000000000000000A18201CB308201C7A0030A0101A28201AA048201A64E544C4D53535000030000
        001800180090000000EE00EE00A80000000C000C00580000001A001A0064000000120012007E0000
        001000100096010000158288E2060380250000000FED00E0F3D901F7B77E98071474F83009530055
        005400330031003100610064006D0069006E006900730074007200610074006F0072004400520049
        00560045005200330031003100000000000000000000000000000000000000000000000000A46794
        DA5D2033965D5339E1A675B79B0101000000000000413B42AECBAED0018E4D343661BA6A75000000
        0002000C0053005500540033003100310001000C0053005500540033003100310004000C00530055
        00540033003100310003000C0053005500540033003100310007000800413B42AECBAED001060004
        00020000000800300030000000000000000000000000300000B61FEFCAA857EA57BF1EDCEBF8974B
        8E0EBA5A6DFD9D07A31D11B548F8C9D0CC0A00100000000000000000000000000000000000090016
        0063006900660073002F00530055005400330031003100000000000000000000000000C8C61D67CE
        697693891336917655DDD3A3120410010000005122F070A7314A9B00000000",
    accepted: "FE534D4240000100000000000100800009000000000000000300000000000000FFFE000000000000
        19000000001000008D604217FFBACF40635BF9D8729921500900000048001D00A11B3019A0030A01
        00A312041001000000CFB046FC5D368E2200000000",
    session_key: "84B9DBB730116A8FA6E9889555C265F9",
    signing_key: "C962BCA1A9DD1697B030644199705431",
};

/// Where the security buffer of a SESSION_SETUP begins in these messages.
const REQUEST_TOKEN: usize = 0x58;
const RESPONSE_TOKEN: usize = 0x48;

/// The security buffer at `offset`, without padding behind it: its first element.
fn token(message: &str, offset: usize) -> Vec<u8> {
    use der::{Reader, SliceReader};
    let message = hex(message);
    SliceReader::new(&message[offset..]).unwrap().tlv_bytes().unwrap().to_vec()
}

fn ntlm_message(token: &[u8]) -> Vec<u8> {
    match Token::decode(token).unwrap() {
        Token::Init(init) => init.mech_token.unwrap().to_vec(),
        Token::Resp(response) => response.response_token.unwrap().to_vec(),
    }
}

fn acceptor(channel: &Channel) -> Acceptor {
    let first = token(channel.setup_1, REQUEST_TOKEN);
    let Token::Init(init) = Token::decode(&first).unwrap() else { panic!("the first token") };
    assert_eq!(init.mech_types.ntlmssp(), Some(0));
    let challenge = ntlm_message(&token(channel.challenge, RESPONSE_TOKEN));
    let ntlm = ntlm::Acceptor::recorded(init.mech_token.unwrap(), &challenge);
    Acceptor::recorded(ntlm, init.mech_types.as_bytes().to_vec())
}

fn accept(channel: &Channel, token: &[u8], password: &str) -> Result<Step, LogonFailure> {
    let env = Env { target: &Target::default(), now: FileTime(0), server_challenge: [0; 8] };
    let key = NtHash::from_password(password);
    acceptor(channel).step(token, &env, |identity| {
        let (domain, user) = ("SUT311".into(), "administrator".into());
        assert_eq!(*identity, Identity { domain, user, workstation: "DRIVER311".into() });
        vec![NtHash::from_bytes([1; 16]), key]
    })
}

#[test]
fn the_logon_is_accepted_with_the_session_key_and_token_of_windows() {
    for channel in [&FIRST, &SECOND] {
        let answer = accept(channel, &token(channel.setup_2, REQUEST_TOKEN), "Password01!").unwrap();
        let Step::Done { token: ours, authenticated } = answer else { panic!("the last step") };
        assert_eq!(authenticated.session_key, hex_array(channel.session_key));
        assert_eq!(authenticated.key_index, 1);
        assert_eq!(ours, token(channel.accepted, RESPONSE_TOKEN));
    }
}

#[test]
fn a_wrong_password_or_a_changed_byte_is_refused() {
    let last = token(FIRST.setup_2, REQUEST_TOKEN);
    assert_eq!(accept(&FIRST, &last, "Password01").err(), Some(LogonFailure::WrongPassword));
    let second = token(SECOND.setup_2, REQUEST_TOKEN);
    assert_eq!(accept(&FIRST, &second, "Password01!").err(), Some(LogonFailure::WrongPassword));
    let env = Env { target: &Target::default(), now: FileTime(0), server_challenge: [0; 8] };
    for index in 0..last.len() {
        let mut changed = last.clone();
        changed[index] ^= 0x01;
        let key = NtHash::from_password("Password01!");
        let outcome = acceptor(&FIRST).step(&changed, &env, |_| vec![key]);
        // RespType's neighbours and the like are under the proof, all else of NTLM under the MIC; what is left is
        // SPNEGO's negState, which says how far the client believes to be.
        let is_neg_state = changed[..index].ends_with(&[0xa0, 0x03, 0x0a, 0x01]);
        assert_eq!(outcome.is_err(), !is_neg_state, "byte {index}");
    }
}

#[test]
fn our_challenge_token_has_the_form_of_windows() {
    let recorded = token(FIRST.challenge, RESPONSE_TOKEN);
    let Token::Resp(response) = Token::decode(&recorded).unwrap() else { panic!("a response") };
    assert_eq!(response.encode(), recorded);
    let ntlm = response.response_token.unwrap();
    let challenge = ntlm::Challenge::decode(ntlm).unwrap();
    let mut ours = Vec::new();
    challenge.encode(&mut ours).unwrap();
    ours[48..56].copy_from_slice(&ntlm[48..56]);
    assert_eq!(ours, ntlm, "but for the version");
}

#[test]
fn hashes_and_keys_and_the_last_signature_are_those_of_windows() {
    for channel in [&FIRST, &SECOND] {
        let mut preauth = PreauthHash::from_bytes(hex_array(channel.negotiated));
        for message in [channel.setup_1, channel.challenge, channel.setup_2] {
            preauth.update(&hex(message));
        }
        let signing_key = channel_signing_key(Derivation::Smb311(&preauth), &hex(channel.session_key));
        assert_eq!(signing_key, hex_array(channel.signing_key));
        let key = SigningKey::new(SigningAlgorithm::AesCmac, signing_key);
        assert!(key.verify(&mut hex(channel.accepted), Sender::Server));
    }
}

#[test]
fn a_bound_channels_setup_is_signed_with_the_sessions_key() {
    let session = SigningKey::new(SigningAlgorithm::AesCmac, hex_array(FIRST.signing_key));
    assert!(session.verify(&mut hex(SECOND.setup_1), Role::Client));
    assert!(session.verify(&mut hex(SECOND.challenge), Role::Server));
    assert!(session.verify(&mut hex(SECOND.setup_2), Role::Client));
}

#[test]
fn the_code_over_the_mechanisms_is_due_here_and_must_be_right() {
    let last = token(FIRST.setup_2, REQUEST_TOKEN);
    let Token::Resp(response) = Token::decode(&last).unwrap() else { panic!("a response") };
    let without = NegTokenResp { mech_list_mic: None, ..response }.encode();
    assert_eq!(accept(&FIRST, &without, "Password01!").err(), Some(LogonFailure::BadMechListMic));
    let wrong = NegTokenResp { mech_list_mic: Some(&[0; 16]), ..response }.encode();
    assert_eq!(accept(&FIRST, &wrong, "Password01!").err(), Some(LogonFailure::BadMechListMic));
}
