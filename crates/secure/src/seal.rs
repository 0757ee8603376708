//! Message encryption (MS-SMB2 2.2.41, 3.1.4.3): the transform header and the AEAD behind it.
//!
//! ```text
//!  0  ProtocolId FD 'S' 'M' 'B'      36  OriginalMessageSize (4)
//!  4  Signature (16)                 40  Reserved (2)
//! 20  Nonce (16)                     42  Flags = 1 (2)
//!                                    44  SessionId (8)
//! 52  the encrypted message          20..52 is authenticated
//! ```

mod aead;
mod ccm;
mod nonce;
#[cfg(test)]
mod tests;

use std::fmt;

use wire::ids::SessionId;

use self::aead::Aead;
pub use self::nonce::{Exhausted, NONCES_PER_LEASE, Nonce, NonceRange, NonceSpace};

/// Length of the transform header.
pub const TRANSFORM_HEADER_LENGTH: usize = 52;

const PROTOCOL_ID: [u8; 4] = [0xfd, b'S', b'M', b'B'];
/// Flags in 3.1.1, EncryptionAlgorithm before: 1 in both.
const ENCRYPTED: [u8; 2] = [1, 0];

/// The ciphers of SMB2_ENCRYPTION_CAPABILITIES (2.2.3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cipher {
    /// AES-128-CCM, the only one of 3.0 and 3.0.2.
    Aes128Ccm,
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-CCM.
    Aes256Ccm,
    /// AES-256-GCM.
    Aes256Gcm,
}

impl Cipher {
    /// The cipher with that id on the wire, if it is one of ours.
    pub fn from_wire(id: u16) -> Option<Self> {
        match id {
            1 => Some(Cipher::Aes128Ccm),
            2 => Some(Cipher::Aes128Gcm),
            3 => Some(Cipher::Aes256Ccm),
            4 => Some(Cipher::Aes256Gcm),
            _ => None,
        }
    }

    /// Its id on the wire.
    pub fn to_wire(self) -> u16 {
        match self {
            Cipher::Aes128Ccm => 1,
            Cipher::Aes128Gcm => 2,
            Cipher::Aes256Ccm => 3,
            Cipher::Aes256Gcm => 4,
        }
    }

    /// Length of its key in bytes.
    pub fn key_length(self) -> usize {
        match self {
            Cipher::Aes128Ccm | Cipher::Aes128Gcm => 16,
            Cipher::Aes256Ccm | Cipher::Aes256Gcm => 32,
        }
    }
}

/// Why a frame was not opened or sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is not a transform header with a message behind it. The text names the field.
    #[error("malformed transform header: {0}")]
    Malformed(&'static str),
    /// The signature does not fit the message: another key, or tampered with.
    #[error("an encrypted message does not fit its signature")]
    Tampered,
}

/// A key made ready to open frames. Opening allocates nothing and may go on from many threads at once.
pub struct Opener {
    aead: Aead,
}

impl Opener {
    /// Prepares the first `cipher.key_length()` bytes of `key`.
    pub fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        Opener { aead: Aead::new(cipher, key) }
    }

    /// Decrypts, in place, a frame that begins with the transform header, and gives back the message inside. After a
    /// refusal the bytes behind the header are of no use.
    ///
    /// The caller has found the session by the header's SessionId; it is authenticated here.
    pub fn open<'a>(&self, frame: &'a mut [u8]) -> Result<&'a mut [u8], Refused> {
        let (header, message) =
            frame.split_first_chunk_mut::<TRANSFORM_HEADER_LENGTH>().ok_or(Refused::Malformed("length"))?;
        if header[..4] != PROTOCOL_ID {
            return Err(Refused::Malformed("ProtocolId"));
        }
        if header[42..44] != ENCRYPTED {
            return Err(Refused::Malformed("Flags"));
        }
        let size = u32::from_le_bytes([header[36], header[37], header[38], header[39]]);
        if message.is_empty() || u32::try_from(message.len()) != Ok(size) {
            return Err(Refused::Malformed("OriginalMessageSize"));
        }
        self.aead.open(header, message)?;
        Ok(message)
    }
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("cipher", &self.aead.cipher()).finish_non_exhaustive()
    }
}

/// A key made ready to seal frames. Sealing allocates nothing and may go on from many threads at once.
pub struct Sealer {
    aead: Aead,
}

impl Sealer {
    /// Prepares the first `cipher.key_length()` bytes of `key`.
    pub fn new(cipher: Cipher, key: &[u8; 32]) -> Self {
        Sealer { aead: Aead::new(cipher, key) }
    }

    /// Encrypts, in place, the message behind 52 bytes of room at the start of `frame`, and fills the room with the
    /// transform header. A nonce is used up even when sealing fails; a frame that was not sealed must not be sent.
    pub fn seal(&self, frame: &mut [u8], session_id: SessionId, nonce: Nonce) -> Result<(), Refused> {
        let (header, message) =
            frame.split_first_chunk_mut::<TRANSFORM_HEADER_LENGTH>().ok_or(Refused::Malformed("length"))?;
        let size = u32::try_from(message.len()).map_err(|_| Refused::Malformed("OriginalMessageSize"))?;
        *header = [0; TRANSFORM_HEADER_LENGTH];
        header[..4].copy_from_slice(&PROTOCOL_ID);
        header[20..28].copy_from_slice(&nonce.into_bytes());
        header[36..40].copy_from_slice(&size.to_le_bytes());
        header[42..44].copy_from_slice(&ENCRYPTED);
        header[44..52].copy_from_slice(&session_id.0.to_le_bytes());
        self.aead.seal(header, message)
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealer").field("cipher", &self.aead.cipher()).finish_non_exhaustive()
    }
}
