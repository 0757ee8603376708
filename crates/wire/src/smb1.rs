//! The one message of SMB1 that a server knows: SMB_COM_NEGOTIATE, from a client that does not yet know whether the
//! server speaks SMB2 (MS-SMB2 3.3.5.3.1, MS-CIFS 2.2.4.52.1). It is answered with an SMB2 NEGOTIATE response.
//!
//! ```text
//! offset size  field
//!      0    4  Protocol       FF 'S' 'M' 'B'
//!      4    1  Command        72
//!      5   27  the rest of the SMB1 header
//!     32    1  WordCount      0
//!     33    2  ByteCount
//!     35    -  Dialects       each 02, then an OEM string that a zero byte ends
//! ```

use std::fmt;

use crate::codec::{Malformed, Reader};

/// The first four bytes of an SMB1 message.
pub const SMB1_PROTOCOL_ID: [u8; 4] = [0xFF, b'S', b'M', b'B'];

/// The dialect string that asks for SMB 2.0.2.
pub const DIALECT_SMB_2_002: &[u8] = b"SMB 2.002";

/// The dialect string that asks for SMB 2.1 or later: answered with [`crate::ids::Dialect::WILDCARD`].
pub const DIALECT_SMB_2_WILDCARD: &[u8] = b"SMB 2.???";

/// The most dialect strings accepted. There are some ten in the world.
pub const SMB1_DIALECTS_MAX: usize = 64;

const COM_NEGOTIATE: u8 = 0x72;
const HEADER_LENGTH: usize = 32;
const BUFFER_FORMAT_DIALECT: u8 = 0x02;

/// The dialect strings of an SMB1 NEGOTIATE.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Smb1Negotiate<'a>(&'a [u8]);

impl<'a> Smb1Negotiate<'a> {
    /// Decodes a whole message. Malformed where it is another command than NEGOTIATE.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(message);
        if reader.array()? != SMB1_PROTOCOL_ID {
            return Err(Malformed("Protocol of the SMB1 header"));
        }
        if reader.u8()? != COM_NEGOTIATE {
            return Err(Malformed("Command of the SMB1 header"));
        }
        reader.skip(HEADER_LENGTH - reader.position())?;
        let word_count = usize::from(reader.u8()?);
        reader.skip(word_count * 2)?;
        let byte_count = usize::from(reader.u16()?);
        let dialects = reader.bytes(byte_count)?;
        let (mut rest, mut count) = (dialects, 0);
        while !rest.is_empty() {
            (_, rest) = split(rest)?;
            count += 1;
            if count > SMB1_DIALECTS_MAX {
                return Err(Malformed("too many SMB1 dialects"));
            }
        }
        Ok(Smb1Negotiate(dialects))
    }

    /// The dialect strings in order, without their terminators.
    pub fn dialects(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (dialect, after) = split(rest).ok()?;
            rest = after;
            Some(dialect)
        })
    }

    /// True when `dialect` is offered.
    pub fn offers(&self, dialect: &[u8]) -> bool {
        self.dialects().any(|offered| offered == dialect)
    }

    /// The message that offers `dialects`, at most 65,535 bytes of them. None of them may hold a zero byte.
    pub fn encode(dialects: &[&[u8]], out: &mut Vec<u8>) {
        let mut strings = Vec::new();
        for dialect in dialects {
            strings.push(BUFFER_FORMAT_DIALECT);
            strings.extend_from_slice(dialect);
            strings.push(0);
        }
        let mut header = [0; HEADER_LENGTH];
        header[..4].copy_from_slice(&SMB1_PROTOCOL_ID);
        header[4] = COM_NEGOTIATE;
        out.extend_from_slice(&header);
        out.push(0);
        out.extend_from_slice(&(strings.len() as u16).to_le_bytes());
        out.extend_from_slice(&strings);
    }
}

impl fmt::Debug for Smb1Negotiate<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.dialects().map(String::from_utf8_lossy)).finish()
    }
}

/// The first dialect string of a list that is not empty, and the list behind it.
fn split(list: &[u8]) -> Result<(&[u8], &[u8]), Malformed> {
    let strings = list.strip_prefix(&[BUFFER_FORMAT_DIALECT]).ok_or(Malformed("BufferFormat of an SMB1 dialect"))?;
    let end = strings.iter().position(|&byte| byte == 0).ok_or(Malformed("SMB1 dialect without an end"))?;
    let (dialect, terminated) = strings.split_at(end);
    Ok((dialect, terminated.get(1..).unwrap_or(&[])))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of section 4.1, its header as the fields there say.
    fn example() -> Vec<u8> {
        let mut message = vec![0xFF, b'S', b'M', b'B', 0x72, 0, 0, 0, 0, 0x18, 0x53, 0xC8];
        message.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFE, 0, 0, 0, 0, 0, 109, 0]);
        message.extend_from_slice(b"\x02PC NETWORK PROGRAM 1.0\0\x02LANMAN1.0\0\x02Windows for Workgroups 3.1a\0");
        message.extend_from_slice(b"\x02LM1.2X002\0\x02LANMAN2.1\0\x02NT LM 0.12\0\x02SMB 2.002\0");
        message
    }

    #[test]
    fn the_published_example_decodes() {
        let message = example();
        let negotiate = Smb1Negotiate::decode(&message).unwrap();
        assert_eq!(negotiate.dialects().count(), 7);
        assert!(negotiate.offers(DIALECT_SMB_2_002));
        assert!(!negotiate.offers(DIALECT_SMB_2_WILDCARD));
    }

    #[test]
    fn negotiates_round_trip_and_truncated_ones_are_malformed() {
        let mut message = Vec::new();
        Smb1Negotiate::encode(&[b"NT LM 0.12", DIALECT_SMB_2_WILDCARD, b""], &mut message);
        let negotiate = Smb1Negotiate::decode(&message).unwrap();
        assert!(negotiate.dialects().eq([&b"NT LM 0.12"[..], DIALECT_SMB_2_WILDCARD, b""]));
        for length in 0..message.len() {
            assert!(Smb1Negotiate::decode(&message[..length]).is_err(), "{length}");
        }
        crate::testing::hostile(&message, |hostile| {
            let _ = Smb1Negotiate::decode(hostile);
        });
    }

    #[test]
    fn other_commands_and_unended_dialects_are_malformed() {
        let mut message = example();
        message[4] = 0x73;
        assert_eq!(Smb1Negotiate::decode(&message), Err(Malformed("Command of the SMB1 header")));
        let mut message = example();
        *message.last_mut().unwrap() = b'x';
        assert_eq!(Smb1Negotiate::decode(&message), Err(Malformed("SMB1 dialect without an end")));
        let mut message = example();
        message[35] = 3;
        assert_eq!(Smb1Negotiate::decode(&message), Err(Malformed("BufferFormat of an SMB1 dialect")));
    }

    #[test]
    fn too_many_dialects_are_malformed() {
        let mut message = Vec::new();
        Smb1Negotiate::encode(&[&b"X"[..]; SMB1_DIALECTS_MAX + 1], &mut message);
        assert_eq!(Smb1Negotiate::decode(&message), Err(Malformed("too many SMB1 dialects")));
    }
}
