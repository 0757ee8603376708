//! The four ciphers behind one face: detached tag, in place, no allocation.

use aes::cipher::KeyInit;
use aes::{Aes128, Aes256};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, UnboundKey};

use super::ccm::Ccm;
use super::{Cipher, Refused, TRANSFORM_HEADER_LENGTH};

const KEY_FITS: &str = "the key has the cipher's length";
/// The only way sealing fails: more plaintext than the cipher takes with one nonce.
const TOO_LONG: Refused = Refused::Malformed("OriginalMessageSize");

type Header = [u8; TRANSFORM_HEADER_LENGTH];

pub(super) struct Aead {
    cipher: Cipher,
    ready: Ready,
}

enum Ready {
    Gcm(Box<LessSafeKey>),
    Ccm128(Box<Ccm<Aes128>>),
    Ccm256(Box<Ccm<Aes256>>),
}

impl Aead {
    pub(super) fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        let key = &key[..cipher.key_length()];
        let ready = match cipher {
            Cipher::Aes128Ccm => Ready::Ccm128(Box::new(Ccm::new(Aes128::new_from_slice(key).expect(KEY_FITS)))),
            Cipher::Aes256Ccm => Ready::Ccm256(Box::new(Ccm::new(Aes256::new_from_slice(key).expect(KEY_FITS)))),
            Cipher::Aes128Gcm => Ready::Gcm(gcm(&AES_128_GCM, key)),
            Cipher::Aes256Gcm => Ready::Gcm(gcm(&AES_256_GCM, key)),
        };
        Aead { cipher, ready }
    }

    pub(super) fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Encrypts `message` and writes the tag into the header's Signature field. The nonce is read from the header.
    pub(super) fn seal(&self, header: &mut Header, message: &mut [u8]) -> Result<(), Refused> {
        let (_, aad) = split(header);
        let tag = match &self.ready {
            Ready::Gcm(key) => {
                let tag = key.seal_in_place_separate_tag(gcm_nonce(aad), Aad::from(aad), message);
                tag.ok().and_then(|tag| tag.as_ref().try_into().ok())
            }
            Ready::Ccm128(key) => key.seal(ccm_nonce(aad), aad, message),
            Ready::Ccm256(key) => key.seal(ccm_nonce(aad), aad, message),
        };
        header[4..20].copy_from_slice(&tag.ok_or(TOO_LONG)?);
        Ok(())
    }

    /// Decrypts `message` when the header's Signature field fits it.
    pub(super) fn open(&self, header: &Header, message: &mut [u8]) -> Result<(), Refused> {
        let (tag, aad) = split(header);
        let opened = match &self.ready {
            Ready::Gcm(key) => key.open_in_place_separate_tag(gcm_nonce(aad), Aad::from(aad), tag, message).is_ok(),
            Ready::Ccm128(key) => key.open(ccm_nonce(aad), aad, message, tag),
            Ready::Ccm256(key) => key.open(ccm_nonce(aad), aad, message, tag),
        };
        if opened { Ok(()) } else { Err(Refused::Tampered) }
    }
}

fn gcm(algorithm: &'static Algorithm, key: &[u8]) -> Box<LessSafeKey> {
    Box::new(LessSafeKey::new(UnboundKey::new(algorithm, key).expect(KEY_FITS)))
}

/// The signature and "the SMB2 TRANSFORM_HEADER, excluding the ProtocolId and Signature fields" (3.1.4.3), which
/// begins with the nonce.
fn split(header: &Header) -> (&[u8; 16], &[u8; 32]) {
    let (signature, authenticated) = header[4..].split_at(16);
    let lengths = "the header is 4 + 16 + 32 bytes long";
    (signature.try_into().expect(lengths), authenticated.try_into().expect(lengths))
}

fn gcm_nonce(authenticated: &[u8; 32]) -> Nonce {
    let (nonce, _) = authenticated.split_first_chunk::<12>().expect("32 bytes begin with 12");
    Nonce::assume_unique_for_key(*nonce)
}

fn ccm_nonce(authenticated: &[u8; 32]) -> &[u8; 11] {
    authenticated.split_first_chunk().expect("32 bytes begin with 11").0
}
