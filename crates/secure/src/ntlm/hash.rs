//! The hashes and the stream cipher of MS-NLMP 6, and the key an account is known by.

use std::fmt;

use md4::Md4;
use md5::{Digest, Md5};
use rc4::{KeyInit, Rc4, StreamCipher};
use zeroize::Zeroizing;

use crate::Secret;

/// NTOWFv1: MD4 of the password in UTF-16LE (MS-NLMP 3.3.1). As good as the password itself; never printed.
#[derive(Clone)]
pub struct NtHash(Secret);

impl NtHash {
    /// The hash of `password`.
    pub fn from_password(password: &str) -> Self {
        let mut md4 = Md4::new();
        for unit in password.encode_utf16() {
            md4.update(unit.to_le_bytes());
        }
        NtHash(Secret::from(<[u8; 16]>::from(md4.finalize())))
    }

    /// A hash that was kept.
    pub fn from_bytes(bytes: impl Into<Secret>) -> Self {
        NtHash(bytes.into())
    }

    /// The hash, to be kept as safe as a password.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl From<NtHash> for Secret {
    fn from(hash: NtHash) -> Self {
        hash.0
    }
}

impl fmt::Debug for NtHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NtHash(..)")
    }
}

/// MD5 over the parts joined together.
pub(super) fn md5(parts: &[&[u8]]) -> [u8; 16] {
    let mut md5 = Md5::new();
    for part in parts {
        md5.update(part);
    }
    md5.finalize().into()
}

/// HMAC-MD5 (RFC 2104) over the parts joined together. NTLM's keys all have 16 bytes.
pub(super) fn hmac_md5(key: &[u8; 16], parts: &[&[u8]]) -> [u8; 16] {
    let mut inner_pad = Zeroizing::new([0x36; 64]);
    let mut outer_pad = Zeroizing::new([0x5c; 64]);
    for (i, byte) in key.iter().enumerate() {
        inner_pad[i] ^= byte;
        outer_pad[i] ^= byte;
    }
    let mut inner = Md5::new();
    inner.update(&inner_pad[..]);
    for part in parts {
        inner.update(part);
    }
    md5(&[&outer_pad[..], inner.finalize().as_slice()])
}

/// RC4 with a key of 16 bytes, which is every length it may have, so that starting it cannot fail.
pub(super) fn rc4(key: &[u8; 16]) -> Rc4 {
    Rc4::new_from_slice(key).expect("16 bytes are a right key length")
}

/// RC4K: `data` under a fresh key stream; the same both ways.
pub(super) fn rc4k(key: &[u8; 16], data: [u8; 16]) -> Secret {
    let mut data = Secret::from(data);
    rc4(key).apply_keystream(&mut data[..]);
    data
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nt_hash_of_the_specifications_password() {
        // MS-NLMP 4.2.2.1.2.
        let expected = [0xa4, 0xf4, 0x9c, 0x40, 0x65, 0x10, 0xbd, 0xca, 0xb6, 0x82, 0x4e, 0xe7, 0xc3, 0x0f, 0xd8, 0x52];
        assert_eq!(NtHash::from_password("Password").as_bytes(), &expected);
    }

    #[test]
    fn hmac_md5_of_rfc_2202() {
        let expected = [0x92, 0x94, 0x72, 0x7a, 0x36, 0x38, 0xbb, 0x1c, 0x13, 0xf4, 0x8e, 0xf8, 0x15, 0x8b, 0xfc, 0x9d];
        assert_eq!(hmac_md5(&[0x0b; 16], &[b"Hi ", b"There"]), expected);
    }

    #[test]
    fn rc4_is_its_own_inverse() {
        assert_eq!(rc4k(&[7; 16], *rc4k(&[7; 16], [9; 16])), [9; 16]);
    }

    #[test]
    fn a_hash_is_not_printed() {
        assert_eq!(format!("{:?}", NtHash::from_bytes([1; 16])), "NtHash(..)");
    }
}
