//! Sums of texts. MD5 (RFC 1321) says whether a text came as it was sent, and nothing of who sent it; SHA-256 (FIPS 180-4) tells a secret apart from others
//! without telling it.

use aws_lc_rs::digest;
use md5::{Digest, Md5};

/// The MD5 of `text`.
pub fn md5(text: &[u8]) -> [u8; 16] {
    Md5::digest(text).into()
}

/// The SHA-256 of `text`.
pub fn sha256(text: &[u8]) -> [u8; 32] {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest::digest(&digest::SHA256, text).as_ref());
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1321, A.5.
    #[test]
    fn a_text_has_the_sums_that_the_standards_have() {
        assert_eq!(md5(b"abc")[..6], [0x90, 0x01, 0x50, 0x98, 0x3c, 0xd2]);
        // FIPS 180-2, B.1.
        assert_eq!(sha256(b"abc")[..6], [0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01]);
    }
}
