use proptest::prelude::*;

use super::*;
use crate::hex::hex_array;

const KEY: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
const ALGORITHMS: [SigningAlgorithm; 3] =
    [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac, SigningAlgorithm::AesGmac];

/// 200 bytes that count up by seven, with MessageId 0x1122334455667788.
fn message(command: u16) -> Vec<u8> {
    let mut message: Vec<u8> = (0..200u32).map(|i| (i * 7) as u8).collect();
    message[..4].copy_from_slice(&[0xfe, b'S', b'M', b'B']);
    message[12..14].copy_from_slice(&command.to_le_bytes());
    message[24..32].copy_from_slice(&0x1122_3344_5566_7788u64.to_le_bytes());
    message
}

fn signature(algorithm: SigningAlgorithm, command: u16, sender: Sender) -> [u8; 16] {
    let mut message = message(command);
    SigningKey::new(algorithm, KEY).sign(&mut message, sender);
    message[SIGNATURE].try_into().unwrap()
}

#[test]
fn ids_go_to_the_wire_and_back() {
    for (id, algorithm) in ALGORITHMS.into_iter().enumerate() {
        assert_eq!(algorithm.to_wire(), id as u16);
        assert_eq!(SigningAlgorithm::from_wire(id as u16), Some(algorithm));
    }
    assert_eq!(SigningAlgorithm::from_wire(3), None);
}

/// The expected values were computed with another library (OpenSSL through Python).
#[test]
fn signatures_equal_those_of_another_library() {
    let hmac = signature(SigningAlgorithm::HmacSha256, 9, Sender::Client);
    assert_eq!(hmac, hex_array("35349477955b780de8f67a21c517cd99"));
    let cmac = signature(SigningAlgorithm::AesCmac, 9, Sender::Client);
    assert_eq!(cmac, hex_array("0f6636339c40be3236eb9924aa22f2f7"));
    let gmac = signature(SigningAlgorithm::AesGmac, 9, Sender::Client);
    assert_eq!(gmac, hex_array("f4435548bb8b70bc88ac2682691154af"));
}

#[test]
fn gmac_nonce_tells_the_server_and_cancel_apart() {
    let server = signature(SigningAlgorithm::AesGmac, 9, Sender::Server);
    assert_eq!(server, hex_array("5c5934918a857da01dd619cb3726d885"));
    let cancel = signature(SigningAlgorithm::AesGmac, 12, Sender::Client);
    assert_eq!(cancel, hex_array("85c1d823406477705827c9a1811cb141"));
    let mut reflected = message(9);
    let key = SigningKey::new(SigningAlgorithm::AesGmac, KEY);
    key.sign(&mut reflected, Sender::Client);
    assert!(!key.verify(&mut reflected, Sender::Server));
}

#[test]
fn verifying_accepts_what_was_signed_and_restores_the_message() {
    for algorithm in ALGORITHMS {
        let key = SigningKey::new(algorithm, KEY);
        let mut signed = message(9);
        key.sign(&mut signed, Sender::Server);
        let before = signed.clone();
        assert!(key.verify(&mut signed, Sender::Server), "{algorithm:?}");
        assert_eq!(signed, before);
    }
}

#[test]
fn a_flipped_bit_anywhere_is_refused_and_left_alone() {
    for algorithm in ALGORITHMS {
        let key = SigningKey::new(algorithm, KEY);
        let mut signed = message(9);
        key.sign(&mut signed, Sender::Client);
        for index in 0..signed.len() * 8 {
            signed[index / 8] ^= 1 << (index % 8);
            let before = signed.clone();
            assert!(!key.verify(&mut signed, Sender::Client), "{algorithm:?} bit {index}");
            assert_eq!(signed, before);
            signed[index / 8] ^= 1 << (index % 8);
        }
    }
}

#[test]
fn a_truncated_message_is_refused_at_every_length() {
    for algorithm in ALGORITHMS {
        let key = SigningKey::new(algorithm, KEY);
        let mut signed = message(9);
        key.sign(&mut signed, Sender::Client);
        for length in 0..signed.len() {
            assert!(!key.verify(&mut signed.clone()[..length], Sender::Client), "{algorithm:?} at {length}");
        }
    }
}

#[test]
fn another_key_is_refused() {
    for algorithm in ALGORITHMS {
        let mut signed = message(9);
        SigningKey::new(algorithm, KEY).sign(&mut signed, Sender::Client);
        assert!(!SigningKey::new(algorithm, [9; 16]).verify(&mut signed, Sender::Client));
    }
}

#[test]
fn gmac_does_not_sign_in_two_pieces() {
    let key = SigningKey::new(SigningAlgorithm::AesGmac, KEY);
    let mut head = message(9);
    let before = head.clone();
    assert!(!key.signs_split());
    assert!(!key.sign_split(&mut head, b"payload", Sender::Server));
    assert!(!key.verify_split(&mut head, b"payload", Sender::Server));
    assert_eq!(head, before);
}

#[test]
fn a_key_is_not_printed() {
    let printed = format!("{:?}", SigningKey::new(SigningAlgorithm::AesGmac, [0xab; 16]));
    assert_eq!(printed, "SigningKey { algorithm: AesGmac, .. }");
}

proptest! {
    #[test]
    fn two_pieces_sign_like_one(rest in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
        let whole = [message(8), rest].concat();
        let cut = HEADER_LENGTH + cut.min(whole.len() - HEADER_LENGTH);
        for algorithm in [SigningAlgorithm::HmacSha256, SigningAlgorithm::AesCmac] {
            let key = SigningKey::new(algorithm, KEY);
            let mut in_one = whole.clone();
            key.sign(&mut in_one, Sender::Server);
            let (head, payload) = whole.split_at(cut);
            let mut head = head.to_vec();
            prop_assert!(key.sign_split(&mut head, payload, Sender::Server));
            prop_assert_eq!(&head[..], &in_one[..cut]);
            prop_assert!(key.verify_split(&mut head, payload, Sender::Server));
            head[0] ^= 1;
            prop_assert!(!key.verify_split(&mut head, payload, Sender::Server));
        }
    }
}
