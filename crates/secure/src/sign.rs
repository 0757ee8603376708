//! Message signing (MS-SMB2 3.1.4.1): a 16-byte code over the whole message in bytes 48..64 of its SMB2 header.

mod cmac;
#[cfg(test)]
mod tests;

use std::fmt;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{constant_time, hmac};

use self::cmac::Cmac;
pub use crate::Role as Sender;
use crate::Secret;

/// Length of the SMB2 header, which every signed message begins with (2.2.1).
const HEADER_LENGTH: usize = 64;
/// Where the Signature field stands in the SMB2 header.
const SIGNATURE: std::ops::Range<usize> = 48..64;
/// Command value of SMB2 CANCEL, which the GMAC nonce singles out.
const CANCEL: [u8; 2] = [0x0c, 0x00];

/// The algorithms of SMB2_SIGNING_CAPABILITIES (2.2.3.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SigningAlgorithm {
    /// HMAC-SHA256 cut to 16 bytes; what 2.0.2 and 2.1 use, with the session key itself.
    HmacSha256,
    /// AES-128-CMAC (RFC 4493); what 3.0 and 3.0.2 use, and 3.1.1 unless negotiated otherwise.
    AesCmac,
    /// AES-128-GMAC (RFC 4543).
    AesGmac,
}

impl SigningAlgorithm {
    /// The algorithm with that id on the wire, if it is one of ours.
    pub fn from_wire(id: u16) -> Option<Self> {
        match id {
            0 => Some(SigningAlgorithm::HmacSha256),
            1 => Some(SigningAlgorithm::AesCmac),
            2 => Some(SigningAlgorithm::AesGmac),
            _ => None,
        }
    }

    /// Its id on the wire.
    pub fn to_wire(self) -> u16 {
        match self {
            SigningAlgorithm::HmacSha256 => 0,
            SigningAlgorithm::AesCmac => 1,
            SigningAlgorithm::AesGmac => 2,
        }
    }
}

/// A signing key made ready for use. Signing and verifying allocate nothing and may go on from many threads at once.
pub struct SigningKey {
    ready: Ready,
}

enum Ready {
    Hmac(Box<hmac::Key>),
    Cmac(Box<Cmac>),
    Gmac(Box<LessSafeKey>),
}

impl SigningKey {
    /// Prepares `key` for `algorithm`.
    pub fn new(algorithm: SigningAlgorithm, key: impl Into<Secret>) -> Self {
        let key: Secret = key.into();
        let ready = match algorithm {
            SigningAlgorithm::HmacSha256 => Ready::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, &key[..]))),
            SigningAlgorithm::AesCmac => Ready::Cmac(Box::new(Cmac::new(&key))),
            SigningAlgorithm::AesGmac => {
                let key = UnboundKey::new(&AES_128_GCM, &key[..]).expect("a key of 16 bytes is the right length");
                Ready::Gmac(Box::new(LessSafeKey::new(key)))
            }
        };
        SigningKey { ready }
    }

    /// The algorithm this key signs with.
    pub fn algorithm(&self) -> SigningAlgorithm {
        match &self.ready {
            Ready::Hmac(_) => SigningAlgorithm::HmacSha256,
            Ready::Cmac(_) => SigningAlgorithm::AesCmac,
            Ready::Gmac(_) => SigningAlgorithm::AesGmac,
        }
    }

    /// True when [`sign_split`](Self::sign_split) can sign a message that lies in two places.
    pub fn signs_split(&self) -> bool {
        match &self.ready {
            Ready::Hmac(_) | Ready::Cmac(_) => true,
            Ready::Gmac(_) => false,
        }
    }

    /// Signs one SMB2 message, chained padding included, that `sender` is about to send. The SIGNED flag must be set
    /// already. A message shorter than an SMB2 header is left alone.
    pub fn sign(&self, message: &mut [u8], sender: Sender) {
        debug_assert!(message.len() >= HEADER_LENGTH, "only whole SMB2 messages are signed");
        if let Some(field) = message.get_mut(SIGNATURE) {
            field.fill(0);
            let signature = self.code(message, &[], sender);
            message[SIGNATURE].copy_from_slice(&signature);
        }
    }

    /// True when `message`, sent by `sender`, carries the right signature. The comparison takes the same time wherever
    /// a difference lies. The message is as it was afterwards.
    #[must_use]
    pub fn verify(&self, message: &mut [u8], sender: Sender) -> bool {
        let Some(received) = take_signature(message) else { return false };
        let computed = self.code(message, &[], sender);
        message[SIGNATURE].copy_from_slice(&received);
        constant_time::verify_slices_are_equal(&computed, &received).is_ok()
    }

    /// Signs a message whose payload lies elsewhere; the signature goes into `head`. False, with nothing done, for
    /// AES-GMAC, which takes its input in one piece only.
    #[must_use]
    pub fn sign_split(&self, head: &mut [u8], payload: &[u8], sender: Sender) -> bool {
        if !self.signs_split() || take_signature(head).is_none() {
            return false;
        }
        let signature = self.code(head, payload, sender);
        head[SIGNATURE].copy_from_slice(&signature);
        true
    }

    /// Like [`verify`](Self::verify) for a message whose payload lies elsewhere. False for AES-GMAC.
    #[must_use]
    pub fn verify_split(&self, head: &mut [u8], payload: &[u8], sender: Sender) -> bool {
        if !self.signs_split() {
            return false;
        }
        let Some(received) = take_signature(head) else { return false };
        let computed = self.code(head, payload, sender);
        head[SIGNATURE].copy_from_slice(&received);
        constant_time::verify_slices_are_equal(&computed, &received).is_ok()
    }

    /// The code over `head || payload`, whose Signature field is zero. AES-GMAC reads `head` only.
    fn code(&self, head: &[u8], payload: &[u8], sender: Sender) -> [u8; 16] {
        match &self.ready {
            Ready::Hmac(key) => {
                let mut context = hmac::Context::with_key(key);
                context.update(head);
                context.update(payload);
                first_half(context.sign().as_ref())
            }
            Ready::Cmac(key) => key.tag(&[head, payload]),
            Ready::Gmac(key) => gmac(key, head, sender),
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("algorithm", &self.algorithm()).finish_non_exhaustive()
    }
}

/// Takes the signature out of `message` and leaves zeros; `None` when there is no whole SMB2 header.
fn take_signature(message: &mut [u8]) -> Option<[u8; 16]> {
    let field: &mut [u8; 16] = message.get_mut(SIGNATURE)?.try_into().ok()?;
    Some(std::mem::take(field))
}

fn first_half(digest: &[u8]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}

fn gmac(key: &LessSafeKey, message: &[u8], sender: Sender) -> [u8; 16] {
    let nonce = Nonce::assume_unique_for_key(gmac_nonce(message, sender));
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(message), &mut []);
    first_half(tag.expect("authenticating without a plaintext cannot fail").as_ref())
}

/// MessageId, then 32 bits of which the lowest says that the server sends and the next that the message is a CANCEL.
fn gmac_nonce(message: &[u8], sender: Sender) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..8].copy_from_slice(&message[24..32]);
    let server = match sender {
        Sender::Client => 0,
        Sender::Server => 1,
    };
    let cancel = if message[12..14] == CANCEL { 2 } else { 0 };
    nonce[8] = server | cancel;
    nonce
}
