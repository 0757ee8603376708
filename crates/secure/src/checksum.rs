//! MD5 (RFC 1321) as a checksum: it says whether a text came as it was sent, and nothing of who sent it.

use md5::{Digest, Md5};

/// The MD5 of `text`.
pub fn md5(text: &[u8]) -> [u8; 16] {
    Md5::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1321, A.5.
    #[test]
    fn a_text_has_the_sum_that_the_rfc_has() {
        assert_eq!(md5(b"abc")[..6], [0x90, 0x01, 0x50, 0x98, 0x3c, 0xd2]);
    }
}
