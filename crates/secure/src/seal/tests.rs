use proptest::prelude::*;

use super::*;
use crate::Role;
use crate::hex::{hex, hex_array};
use crate::kdf::{Derivation, SessionKeys};
use crate::preauth::PreauthHash;

const CIPHERS: [Cipher; 4] = [Cipher::Aes128Ccm, Cipher::Aes128Gcm, Cipher::Aes256Ccm, Cipher::Aes256Gcm];
const KEY: [u8; 32] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30,
    31,
];
const SESSION: SessionId = SessionId(0x0008_e400_1400_0011);

fn frame(message: &[u8]) -> Vec<u8> {
    [&[0xee; TRANSFORM_HEADER_LENGTH][..], message].concat()
}

fn seal(cipher: Cipher, message: &[u8], counter: u64) -> Vec<u8> {
    let mut frame = frame(message);
    Sealer::new(cipher, &KEY).seal(&mut frame, SESSION, Nonce::with_counter(counter)).unwrap();
    frame
}

fn counting(length: u32) -> Vec<u8> {
    (0..length).map(|i| (i * 11) as u8).collect()
}

#[test]
fn ids_go_to_the_wire_and_back() {
    for (index, cipher) in CIPHERS.into_iter().enumerate() {
        assert_eq!(cipher.to_wire(), index as u16 + 1);
        assert_eq!(Cipher::from_wire(index as u16 + 1), Some(cipher));
    }
    assert_eq!(Cipher::from_wire(0), None);
    assert_eq!(Cipher::from_wire(5), None);
}

/// The expected values were computed with another library (OpenSSL through Python).
#[test]
fn frames_equal_those_of_another_library() {
    let expected = [
        "5eaf677ff04d11e50890093aef0975f1 6ae748953445ede0eb6c556b86b2d255",
        "fa0bf14c4375ad3c97a9f7651da5e42c 4a1403a28919bd49b6c5c988c953a84e",
        "2423bd519faecab04eb147c0dee62a6f 23611c41c982c73d61f95390df96556c",
        "1251bf8a5fd8b1a1836005af63d5aee6 8d9b6ed7f175d7ab6b583129fd09beb4",
    ];
    for (cipher, expected) in CIPHERS.into_iter().zip(expected) {
        let sealed = seal(cipher, &counting(100), 65536);
        let expected = hex(expected);
        assert_eq!(sealed[..4], hex("fd534d42"));
        assert_eq!(sealed[4..20], expected[..16], "{cipher:?}");
        let authenticated = "00000100000000000000000000000000 64000000 0000 0100 1100001400e40800";
        assert_eq!(sealed[20..52], hex(authenticated));
        assert_eq!(sealed[52..68], expected[16..], "{cipher:?}");
    }
}

/// "Encryption in SMB 3.0: A protocol perspective", Microsoft Open Specifications blog, 2012: a WRITE and its answer
/// between Windows 8 and Windows Server 2012, as the client sent it and as the server did.
#[test]
fn opens_microsofts_3_0_example() {
    let session_key = hex("B4546771B515F766A86735532DD6C4F0");
    let keys = |role| SessionKeys::derive(role, Derivation::Smb30, &session_key, Some(Cipher::Aes128Ccm));
    let mut request = hex("FD534D4281A286535415445DAE393921E44FA42E66E69A111892584FB5ED524A
        744DA3EE87000000000001001100001400E4080025C8FEE16605A437832D1CD5
        2DA9F4645333482A175FE5384563F45FCDAFAEF38BC62BA4D5C62897996625A4
        4C29BE5658DE2E6117585779E7B59FFD971278D08580D7FA899E410E910EABF5
        AA1DB43050B33B49182637759AC15D84BFCDF5B6B238993C0F4CF4D6012023F6
        C627297075D84B7803912D0A9639634453595EF3E33FFE4E7AC2AB");
    let opened = keys(Role::Server).opener().unwrap().open(&mut request).unwrap().to_vec();
    assert_eq!(opened[..4], hex("FE534D42"));
    assert!(opened.ends_with(b"Smb3 encryption testing"));
    let mut response = hex("FD534D42A6015530A18F6D9AFFE22AFAE8E66484860000000000000011000014
        00E4080050000000000001001100001400E40800DBF46435C5F14169293CE079
        E344479BF670227E49873F458672C3098DAC467DD5809F369D67409166515787
        1483E01F7BECD02064EAC3E235F913668BBC2F097980D4B378F1993EFF6E60D1
        77309E5B");
    let opened = keys(Role::Client).opener().unwrap().open(&mut response).unwrap();
    assert_eq!(opened[64..], hex("11000000170000000000000000000000"));
}

/// "SMB 3.1.1 Encryption in Windows 10", Microsoft Open Specifications blog, 2015.
#[test]
fn opens_microsofts_3_1_1_example() {
    let session_key = hex("419FDDF34C1E001909D362AE7FB6AF79");
    let preauth = PreauthHash::from_bytes(hex_array(
        "B23F3CBFD69487D9832B79B1594A367CDD950909B774C3A4C412B4FCEA9EDDDB
         A7DB256BA2EA30E977F11F9B113247578E0E915C6D2A513B8F2FCA5707DC8770",
    ));
    let derivation = Derivation::Smb311(&preauth);
    let keys = |role| SessionKeys::derive(role, derivation, &session_key, Some(Cipher::Aes128Gcm));
    let mut request = hex("FD534D42BD73D97D2BC9001BCAFAC0FDFF5FEEBCC7D6822D269CAF48904C664C0000000087000000
        0000010025000000001000006ECDD2A7AFC7B47763057A041B8FD4DAFFE990B70C9E09D36C084E02
        D14EF247F8BDE38ACF6256F8B1D3B56F77FBDEB312FEA5E92CBCC1ED8FB2EBBFAA75E49A4A394BB4
        4576545567C24D4C014D47C9FBDFDAFD2C4F9B72F8D256452620A299F48E29E53D6B61D1C13A19E9
        1AF013F00D17E3ABC2FC3D36C8C1B6B93973253852DBD442E46EE8");
    let opened = keys(Role::Server).opener().unwrap().open(&mut request).unwrap().to_vec();
    assert!(opened.ends_with(b"Smb3 encryption testing"));
    let mut response = hex("FD534D42ACBE1CB7ED343ADF1725EF144D90D4B0E06831DD2E8EB7B4000000000000000050000000
        00000100250000000010000026BBBF949983A6C1C796559D0F2C510CB651D1F7B6AC8DED32A2A0B8
        F2D793A815C6F6B848D69767A215841A42D400AE6DDB5F0B44173A014973321FDD7950DA6179159B
        82E03C9E18A050FF0EA1C967");
    assert!(keys(Role::Client).opener().unwrap().open(&mut response).is_ok());
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    for cipher in CIPHERS {
        let sealed = seal(cipher, &counting(40), 7);
        let opener = Opener::new(cipher, &KEY);
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(opener.open(&mut changed).is_err(), "{cipher:?} bit {bit}");
        }
    }
}

#[test]
fn a_truncated_or_extended_frame_is_refused() {
    for cipher in CIPHERS {
        let sealed = seal(cipher, &counting(40), 7);
        let opener = Opener::new(cipher, &KEY);
        for length in 0..sealed.len() {
            assert!(matches!(opener.open(&mut sealed.clone()[..length]), Err(Refused::Malformed(_))));
        }
        let extended = [&sealed[..], &[0]].concat();
        assert!(matches!(opener.open(&mut extended.clone()), Err(Refused::Malformed(_))));
    }
}

#[test]
fn another_key_or_another_direction_is_refused() {
    for cipher in CIPHERS {
        let mut sealed = seal(cipher, &counting(40), 7);
        assert_eq!(Opener::new(cipher, &[9; 32]).open(&mut sealed), Err(Refused::Tampered));
    }
    let keys = SessionKeys::derive(Role::Server, Derivation::Smb30, &[5; 16], Some(Cipher::Aes128Ccm));
    let mut reflected = frame(&counting(40));
    keys.sealer().unwrap().seal(&mut reflected, SESSION, Nonce::with_counter(1)).unwrap();
    assert_eq!(keys.opener().unwrap().open(&mut reflected), Err(Refused::Tampered));
}

#[test]
fn an_empty_message_is_malformed() {
    for cipher in CIPHERS {
        let mut sealed = seal(cipher, &[], 7);
        assert_eq!(Opener::new(cipher, &KEY).open(&mut sealed), Err(Refused::Malformed("OriginalMessageSize")));
    }
}

#[test]
fn a_frame_without_room_for_the_header_is_not_sealed() {
    let sealer = Sealer::new(Cipher::Aes128Gcm, &KEY);
    assert!(sealer.seal(&mut [0; TRANSFORM_HEADER_LENGTH - 1], SESSION, Nonce::with_counter(1)).is_err());
}

#[test]
fn keys_are_not_printed() {
    assert_eq!(format!("{:?}", Sealer::new(Cipher::Aes128Ccm, &[0xab; 32])), "Sealer { cipher: Aes128Ccm, .. }");
    assert_eq!(format!("{:?}", Opener::new(Cipher::Aes256Gcm, &[0xab; 32])), "Opener { cipher: Aes256Gcm, .. }");
}

proptest! {
    #[test]
    fn what_is_sealed_opens(message in proptest::collection::vec(any::<u8>(), 1..400), counter: u64, id: u64) {
        for cipher in CIPHERS {
            let mut sealed = frame(&message);
            let nonce = Nonce::with_counter(counter);
            Sealer::new(cipher, &KEY).seal(&mut sealed, SessionId(id), nonce).unwrap();
            prop_assert_eq!(&sealed[44..52], &id.to_le_bytes());
            if message.len() >= 16 {
                prop_assert_ne!(&sealed[TRANSFORM_HEADER_LENGTH..], &message[..]);
            }
            let opened = Opener::new(cipher, &KEY).open(&mut sealed);
            prop_assert_eq!(opened.map(|opened| opened.to_vec()), Ok(message.clone()));
        }
    }

    #[test]
    fn noise_is_refused(mut noise in proptest::collection::vec(any::<u8>(), 0..200)) {
        for cipher in CIPHERS {
            prop_assert!(Opener::new(cipher, &KEY).open(&mut noise).is_err());
        }
    }
}
