use proptest::prelude::*;

use super::*;
use crate::hex::hex;

/// The CHALLENGE_MESSAGE of MS-NLMP 4.2.4.3.
const CHALLENGE: &str = "4e544c4d53535000 02000000 0c000c0038000000 33828ae2 0123456789abcdef 0000000000000000
    2400240044000000 060070170000000f 530065007200760065007200
    02000c0044006f006d00610069006e00 01000c00530065007200760065007200 00000000";
/// The AUTHENTICATE_MESSAGE of MS-NLMP 4.2.4.3, which has no MIC.
const AUTHENTICATE: &str = "4e544c4d53535000 03000000 180018006c000000 5400540084000000 0c000c0048000000
    0800080054000000 100010005c000000 10001000d8000000 358288e2 0501280a0000000f
    44006f006d00610069006e00 5500730065007200 43004f004d0050005500540045005200
    86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa
    68cd0ab851e51c96aabc927bebef6a1c 0101000000000000 0000000000000000 aaaaaaaaaaaaaaaa 00000000
    02000c0044006f006d00610069006e00 01000c00530065007200760065007200 0000000000000000
    c5dad2544fc9799094ce1ce90bc9d03e";
/// Where the Version stands in each, which is our own when we encode.
const CHALLENGE_VERSION: std::ops::Range<usize> = 48..56;
const AUTHENTICATE_VERSION: std::ops::Range<usize> = 64..72;

#[test]
fn the_specifications_challenge_goes_both_ways() {
    let bytes = hex(CHALLENGE);
    let challenge = Challenge::decode(&bytes).unwrap();
    assert_eq!(challenge.flags, Flags(0xe28a_8233));
    assert_eq!(challenge.target_name, codec::utf16_bytes("Server"));
    let mut encoded = Vec::new();
    challenge.encode(&mut encoded).unwrap();
    encoded[CHALLENGE_VERSION].copy_from_slice(&bytes[CHALLENGE_VERSION]);
    assert_eq!(encoded, bytes);
}

#[test]
fn the_specifications_authenticate_goes_both_ways() {
    let bytes = hex(AUTHENTICATE);
    let message = Authenticate::decode(&bytes).unwrap();
    assert_eq!(message.user.decode().as_deref(), Some("User"));
    assert_eq!(message.domain.decode().as_deref(), Some("Domain"));
    assert_eq!(message.workstation.decode().as_deref(), Some("COMPUTER"));
    assert_eq!((message.mic, message.nt_response.len()), (None, 84));
    let mut encoded = Vec::new();
    message.encode(&mut encoded).unwrap();
    encoded[AUTHENTICATE_VERSION].copy_from_slice(&bytes[AUTHENTICATE_VERSION]);
    assert_eq!(encoded, bytes);
}

#[test]
fn messages_cut_anywhere_are_malformed() {
    let authenticate = hex(AUTHENTICATE);
    for length in 0..authenticate.len() {
        assert!(Authenticate::decode(&authenticate[..length]).is_err(), "{length} bytes");
    }
    let challenge = hex(CHALLENGE);
    for length in 0..challenge.len() {
        assert!(Challenge::decode(&challenge[..length]).is_err(), "{length} bytes");
    }
    let mut negotiate = Vec::new();
    Negotiate { flags: Flags(1) }.encode(&mut negotiate);
    for length in 0..16 {
        assert!(Negotiate::decode(&negotiate[..length]).is_err(), "{length} bytes");
    }
    assert_eq!(Negotiate::decode(&negotiate[..16]), Ok(Negotiate { flags: Flags(1) }));
}

#[test]
fn fields_that_reach_outside_or_into_the_fixed_part_are_malformed() {
    for header in (12..60).step_by(8) {
        for (length, offset) in
            [(0xffffu16, 72u32), (4, u32::MAX), (4, u32::MAX - 3), (4, 0), (4, 60), (1, 232), (4, 229)]
        {
            let mut bytes = hex(AUTHENTICATE);
            bytes[header..header + 2].copy_from_slice(&length.to_le_bytes());
            bytes[header + 4..header + 8].copy_from_slice(&offset.to_le_bytes());
            assert!(Authenticate::decode(&bytes).is_err(), "field at {header}: {length} at {offset}");
        }
    }
}

#[test]
fn an_empty_fields_offset_means_nothing() {
    let mut bytes = hex(AUTHENTICATE);
    bytes[44..52].copy_from_slice(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    assert!(Authenticate::decode(&bytes).unwrap().workstation.is_empty());
}

#[test]
fn text_of_odd_length_is_malformed() {
    let mut bytes = hex(AUTHENTICATE);
    bytes[36] = 7;
    assert!(Authenticate::decode(&bytes).is_err());
}

#[test]
fn a_message_of_another_type_is_malformed() {
    assert_eq!(Challenge::decode(&hex(AUTHENTICATE)), Err(Malformed("NTLM MessageType")));
    assert_eq!(Authenticate::decode(&hex(CHALLENGE)), Err(Malformed("NTLM MessageType")));
    assert_eq!(Negotiate::decode(&[0; 40]), Err(Malformed("NTLM Signature")));
}

#[test]
fn a_field_of_64_kib_is_not_encoded() {
    let target_info = vec![0; 0x1_0000];
    let challenge =
        Challenge { flags: Flags(0), target_name: &[], server_challenge: [0; 8], target_info: &target_info };
    assert!(challenge.encode(&mut Vec::new()).is_err());
}

proptest! {
    #[test]
    fn authenticate_goes_to_bytes_and_back(
        texts in proptest::collection::vec(".{0,20}", 3),
        blobs in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 3),
        flags: u32,
        mic: Option<[u8; 16]>,
    ) {
        let texts: Vec<Vec<u8>> = texts.iter().map(|text| codec::utf16_bytes(text)).collect();
        let message = Authenticate {
            flags: Flags(flags) | Flags::UNICODE,
            lm_response: &blobs[0],
            nt_response: &blobs[1],
            domain: Utf16::new(&texts[0]).unwrap().into(),
            user: Utf16::new(&texts[1]).unwrap().into(),
            workstation: Utf16::new(&texts[2]).unwrap().into(),
            encrypted_session_key: &blobs[2],
            mic,
        };
        let mut bytes = Vec::new();
        message.encode(&mut bytes).unwrap();
        let decoded = Authenticate::decode(&bytes).unwrap();
        let payload = texts.iter().chain(&blobs).any(|field| !field.is_empty());
        if mic.is_some() || payload {
            prop_assert_eq!(decoded, message);
        }
    }

    #[test]
    fn noise_does_not_panic(noise in proptest::collection::vec(any::<u8>(), 0..200), kind in 1u8..4) {
        let bytes = [&SIGNATURE[..], &[kind, 0, 0, 0], &noise].concat();
        let _ = Negotiate::decode(&bytes);
        let _ = Challenge::decode(&bytes);
        let _ = Authenticate::decode(&bytes);
    }
}
