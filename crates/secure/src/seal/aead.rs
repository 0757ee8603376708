//! The four ciphers behind one face: detached tag, in place, no allocation.

use aes::{Aes128, Aes256};
use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ccm::aead::inout::InOutBuf;
use ccm::consts::{U11, U16};
use ccm::{AeadInOut, Ccm, KeyInit};

use super::{Cipher, Refused, TRANSFORM_HEADER_LENGTH};

/// "The SMB2 TRANSFORM_HEADER, excluding the ProtocolId and Signature fields" (3.1.4.3).
const AUTHENTICATED: std::ops::RangeFrom<usize> = 20..;
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
    Ccm128(Box<Ccm<Aes128, U16, U11>>),
    Ccm256(Box<Ccm<Aes256, U16, U11>>),
}

impl Aead {
    pub(super) fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        let ready = match cipher {
            Cipher::Aes128Ccm => Ready::Ccm128(Box::new(Ccm::new_from_slice(&key[..16]).expect(KEY_FITS))),
            Cipher::Aes256Ccm => Ready::Ccm256(Box::new(Ccm::new_from_slice(key).expect(KEY_FITS))),
            Cipher::Aes128Gcm => {
                Ready::Gcm(Box::new(LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key[..16]).expect(KEY_FITS))))
            }
            Cipher::Aes256Gcm => {
                Ready::Gcm(Box::new(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, key).expect(KEY_FITS))))
            }
        };
        Aead { cipher, ready }
    }

    pub(super) fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Encrypts `message` and writes the tag into the header's Signature field. The nonce is read from the header.
    pub(super) fn seal(&self, header: &mut Header, message: &mut [u8]) -> Result<(), Refused> {
        let mut tag = [0; 16];
        let aad = &header[AUTHENTICATED];
        match &self.ready {
            Ready::Gcm(key) => {
                let sealed = key.seal_in_place_separate_tag(gcm_nonce(header), Aad::from(aad), message);
                tag.copy_from_slice(sealed.map_err(|_| TOO_LONG)?.as_ref());
            }
            Ready::Ccm128(key) => {
                let sealed = key.encrypt_inout_detached(&ccm_nonce(header), aad, InOutBuf::from(message));
                tag = sealed.map_err(|_| TOO_LONG)?.into();
            }
            Ready::Ccm256(key) => {
                let sealed = key.encrypt_inout_detached(&ccm_nonce(header), aad, InOutBuf::from(message));
                tag = sealed.map_err(|_| TOO_LONG)?.into();
            }
        }
        header[4..20].copy_from_slice(&tag);
        Ok(())
    }

    /// Decrypts `message` when the header's Signature field fits it.
    pub(super) fn open(&self, header: &Header, message: &mut [u8]) -> Result<(), Refused> {
        let mut tag = [0; 16];
        tag.copy_from_slice(&header[4..20]);
        let aad = &header[AUTHENTICATED];
        let opened = match &self.ready {
            Ready::Gcm(key) => key.open_in_place_separate_tag(gcm_nonce(header), Aad::from(aad), &tag, message).is_ok(),
            Ready::Ccm128(key) => {
                key.decrypt_inout_detached(&ccm_nonce(header), aad, InOutBuf::from(message), &tag.into()).is_ok()
            }
            Ready::Ccm256(key) => {
                key.decrypt_inout_detached(&ccm_nonce(header), aad, InOutBuf::from(message), &tag.into()).is_ok()
            }
        };
        if opened { Ok(()) } else { Err(Refused::Tampered) }
    }
}

fn gcm_nonce(header: &Header) -> Nonce {
    let mut nonce = [0; 12];
    nonce.copy_from_slice(&header[20..32]);
    Nonce::assume_unique_for_key(nonce)
}

fn ccm_nonce(header: &Header) -> ccm::Nonce<U11> {
    let mut nonce = [0; 11];
    nonce.copy_from_slice(&header[20..31]);
    nonce.into()
}
