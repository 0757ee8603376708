//! One file a command: its request, its response, both directions (MS-SMB2 2.2.2 to 2.2.44).
//!
//! `decode` takes a whole message, from its header to its own end (of a compound's element: to where the next one
//! begins), because offsets count from the SMB2 header. It does not look at the header. `encode` appends the body
//! alone and writes offsets as if exactly one 64-byte header preceded it.
//!
//! StructureSize is checked. Where it is odd, it counts one byte of the variable part, which may be absent. Offsets
//! and lengths must stay inside the message; an offset whose length is 0 may be anything. Reserved fields are
//! ignored.

pub mod cancel;
pub mod change_notify;
pub mod close;
pub mod create;
pub mod echo;
pub mod error;
pub mod flush;
pub mod ioctl;
pub mod lock;
pub mod logoff;
pub mod negotiate;
pub mod notification;
pub mod oplock_break;
pub mod query_directory;
pub mod query_info;
pub mod read;
pub mod session_setup;
pub mod set_info;
pub mod tree_connect;
pub mod tree_disconnect;
pub mod write;

use crate::codec::{Malformed, Reader, Writer, range};
use crate::header::HEADER_LENGTH;

/// A reader behind the StructureSize of the message's body, which must be `structure_size`.
fn body(message: &[u8], structure_size: u16) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::at(message, HEADER_LENGTH);
    match reader.u16()? == structure_size {
        true => Ok(reader),
        false => Err(length_mismatch()),
    }
}

fn length_mismatch() -> Malformed {
    Malformed("StructureSize of the body")
}

/// The variable part at `offset` from the header. Its offset does not matter where it is empty.
fn part<'a>(message: &'a [u8], offset: usize, length: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
    match length {
        0 => Ok(&[]),
        _ if offset < HEADER_LENGTH => Err(Malformed(field)),
        _ => range(message, offset, length, field),
    }
}

/// What a 16-bit length field says of `bytes`. Longer ones cannot be said: the field saturates and the receiver sees
/// a part; callers bound what they encode.
fn length_u16(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX)
}

/// What a 32-bit length field says of `bytes`, saturating.
fn length_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

/// The one response of QUERY_DIRECTORY, CHANGE_NOTIFY and QUERY_INFO (2.2.34, 2.2.36, 2.2.38): bytes in the form that
/// the request asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OutputBuffer<'a> {
    /// The bytes.
    pub output: &'a [u8],
}

impl<'a> OutputBuffer<'a> {
    /// Where the bytes begin in a message that [`OutputBuffer::encode`] or [`OutputBuffer::to_bytes`] wrote.
    pub const OUTPUT_OFFSET: u16 = 72;

    const STRUCTURE_SIZE: u16 = 9;

    /// The fixed part of a response whose `output_length` bytes follow it at once.
    pub fn to_bytes(output_length: u32) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..2].copy_from_slice(&Self::STRUCTURE_SIZE.to_le_bytes());
        bytes[2..4].copy_from_slice(&Self::OUTPUT_OFFSET.to_le_bytes());
        bytes[4..].copy_from_slice(&output_length.to_le_bytes());
        bytes
    }

    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, Self::STRUCTURE_SIZE)?;
        let offset = usize::from(reader.u16()?);
        let length = reader.u32()? as usize;
        Ok(OutputBuffer { output: part(message, offset, length, "OutputBuffer")? })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.bytes(&Self::to_bytes(length_u32(self.output)));
        writer.bytes(self.output);
    }
}

/// Declares a message whose body is StructureSize 4 and two reserved bytes.
macro_rules! empty_body {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub struct $name;

        impl $name {
            /// The body.
            pub fn to_bytes() -> [u8; 4] {
                [4, 0, 0, 0]
            }

            /// Decodes the body of `message`.
            pub fn decode(message: &[u8]) -> Result<Self, crate::codec::Malformed> {
                super::body(message, 4)?.skip(2)?;
                Ok($name)
            }

            /// Appends the body.
            pub fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&Self::to_bytes());
            }
        }
    };
}
use empty_body;
