//! The headers in front of encrypted and of compressed messages (MS-SMB2 2.2.41, 2.2.42).
//!
//! ```text
//! offset size  field of an encrypted message's header
//!      0    4  ProtocolId            FD 'S' 'M' 'B'
//!      4   16  Signature
//!     20   16  Nonce                 11 bytes used by CCM, 12 by GCM
//!     36    4  OriginalMessageSize
//!     40    2  Reserved
//!     42    2  Flags / EncryptionAlgorithm
//!     44    8  SessionId
//! ```

use crate::codec::{Malformed, Reader};
use crate::context::negotiate::CompressionAlgorithm;
use crate::ids::SessionId;

/// The length of an encrypted message's header in bytes.
pub const TRANSFORM_HEADER_LENGTH: usize = 52;

/// The first four bytes of an encrypted message.
pub const TRANSFORM_PROTOCOL_ID: [u8; 4] = [0xFD, b'S', b'M', b'B'];

/// The first four bytes of a compressed message.
pub const COMPRESSION_PROTOCOL_ID: [u8; 4] = [0xFC, b'S', b'M', b'B'];

/// Where the part of the header begins that is authenticated but not encrypted: it ends with the header.
pub const TRANSFORM_AAD_OFFSET: usize = 20;

/// SMB2 TRANSFORM_HEADER (2.2.41).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TransformHeader {
    /// The authentication tag.
    pub signature: [u8; 16],
    /// The nonce, with zeros behind it.
    pub nonce: [u8; 16],
    /// The length in bytes of the message that is encrypted.
    pub original_message_size: u32,
    /// Dialect 3.1.1: 1, encrypted. Dialects 3.0 and 3.0.2: 1, AES-128-CCM.
    pub flags: u16,
    /// The session whose keys are used.
    pub session_id: SessionId,
}

impl TransformHeader {
    /// The one value of `flags`, in every dialect.
    pub const ENCRYPTED: u16 = 0x0001;

    /// Decodes the header that `message` begins with.
    ///
    /// Malformed where fewer than 52 bytes are there or ProtocolId is wrong.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(message);
        if reader.array()? != TRANSFORM_PROTOCOL_ID {
            return Err(Malformed("ProtocolId of the transform header"));
        }
        let signature = reader.array()?;
        let nonce = reader.array()?;
        let original_message_size = reader.u32()?;
        reader.skip(2)?;
        let flags = reader.u16()?;
        let session_id = SessionId(reader.u64()?);
        Ok(TransformHeader { signature, nonce, original_message_size, flags, session_id })
    }

    /// The header's bytes.
    pub fn to_bytes(&self) -> [u8; TRANSFORM_HEADER_LENGTH] {
        let mut bytes = [0; TRANSFORM_HEADER_LENGTH];
        bytes[..4].copy_from_slice(&TRANSFORM_PROTOCOL_ID);
        bytes[4..20].copy_from_slice(&self.signature);
        bytes[20..36].copy_from_slice(&self.nonce);
        bytes[36..40].copy_from_slice(&self.original_message_size.to_le_bytes());
        bytes[42..44].copy_from_slice(&self.flags.to_le_bytes());
        bytes[44..].copy_from_slice(&self.session_id.0.to_le_bytes());
        bytes
    }
}

/// SMB2 COMPRESSION_TRANSFORM_HEADER (2.2.42), as far as it takes to refuse it clearly or to find its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionHeader {
    /// SMB2_COMPRESSION_TRANSFORM_HEADER_UNCHAINED (2.2.42.1), 16 bytes.
    Unchained {
        /// The length of the uncompressed segment in bytes.
        original_size: u32,
        /// How it is compressed.
        algorithm: CompressionAlgorithm,
        /// Uncompressed bytes between the header and the compressed segment.
        offset: u32,
    },
    /// SMB2_COMPRESSION_TRANSFORM_HEADER_CHAINED (2.2.42.2) and its first payload header (2.2.42.2.1), 16 bytes; the
    /// payload headers follow each other from byte 8 on.
    Chained {
        /// The length of the uncompressed message in bytes.
        original_size: u32,
        /// How the first payload is compressed.
        algorithm: CompressionAlgorithm,
        /// The length of the first payload in bytes.
        length: u32,
    },
}

impl CompressionHeader {
    /// SMB2_COMPRESSION_FLAG_CHAINED.
    const FLAG_CHAINED: u16 = 0x0001;

    /// Decodes the header that `message` begins with.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(message);
        if reader.array()? != COMPRESSION_PROTOCOL_ID {
            return Err(Malformed("ProtocolId of the compression transform header"));
        }
        let original_size = reader.u32()?;
        let algorithm = CompressionAlgorithm(reader.u16()?);
        let flags = reader.u16()?;
        let last = reader.u32()?;
        match flags {
            0 => Ok(CompressionHeader::Unchained { original_size, algorithm, offset: last }),
            Self::FLAG_CHAINED => Ok(CompressionHeader::Chained { original_size, algorithm, length: last }),
            _ => Err(Malformed("Flags of the compression transform header")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transform_headers_round_trip() {
        let header = TransformHeader {
            signature: [1; 16],
            nonce: [2; 16],
            original_message_size: 0x0304_0506,
            flags: TransformHeader::ENCRYPTED,
            session_id: SessionId(7),
        };
        let bytes = check_structure!(TransformHeader, header);
        assert_eq!(bytes[36..40], [6, 5, 4, 3]);
        assert_eq!(bytes[42..44], [1, 0]);
        assert_eq!(TransformHeader::decode(&[0xFE; 60]), Err(Malformed("ProtocolId of the transform header")));
    }

    #[test]
    fn compression_headers_are_told_apart_by_their_flags() {
        let mut bytes = [0xFC, b'S', b'M', b'B', 0, 16, 0, 0, 3, 0, 0, 0, 9, 0, 0, 0];
        let algorithm = CompressionAlgorithm::LZ77_HUFFMAN;
        let unchained = CompressionHeader::Unchained { original_size: 4096, algorithm, offset: 9 };
        assert_eq!(CompressionHeader::decode(&bytes), Ok(unchained));
        bytes[10] = 1;
        let chained = CompressionHeader::Chained { original_size: 4096, algorithm, length: 9 };
        assert_eq!(CompressionHeader::decode(&bytes), Ok(chained));
        for length in 0..bytes.len() {
            assert!(CompressionHeader::decode(&bytes[..length]).is_err());
        }
        bytes[10] = 2;
        assert!(CompressionHeader::decode(&bytes).is_err());
    }
}
