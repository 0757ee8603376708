//! HMAC-SHA256 (RFC 2104), as requests by HTTP are signed.

use aws_lc_rs::hmac;

/// Signs `text`.
pub fn hmac_sha256(key: &[u8], text: &[u8]) -> [u8; 32] {
    let mut mac = [0; 32];
    mac.copy_from_slice(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref());
    mac
}

/// True where `mac` is the signature of `text`; takes as long whatever differs.
pub fn is_hmac_sha256(key: &[u8], text: &[u8], mac: &[u8]) -> bool {
    hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, key), text, mac).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231, test case 2.
    #[test]
    fn a_text_is_signed_as_the_rfc_has_it() {
        let mac = hmac_sha256(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(mac[..8], [0x5b, 0xdc, 0xc1, 0x46, 0xbf, 0x60, 0x75, 0x4e]);
        assert!(is_hmac_sha256(b"Jefe", b"what do ya want for nothing?", &mac));
        assert!(!is_hmac_sha256(b"Jefe", b"what do ya want for nothing", &mac));
        assert!(!is_hmac_sha256(b"Jefe", b"what do ya want for nothing?", &mac[..31]));
    }
}
