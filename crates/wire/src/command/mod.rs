//! One file a command: its request, its response, both directions (MS-SMB2 2.2.2 to 2.2.44).
//!
//! `decode` takes a whole message, from its header to its own end (of a compound's element: to where the next one
//! begins), because offsets count from the SMB2 header. It does not look at the header. `encode` appends the body
//! alone and writes offsets as if exactly one 64-byte header preceded it.
//!
//! StructureSize is checked. Where it is odd, it counts one byte of the variable part, which may be absent. Offsets
//! and lengths must stay inside the message; an offset whose length is 0 may be anything. Reserved fields are
//! ignored.

pub mod close;
pub mod create;
pub mod error;
pub mod negotiate;
pub mod read;
pub mod session_setup;
pub mod tree_connect;
pub mod write;

use crate::codec::{Malformed, Reader, range};
use crate::header::HEADER_LENGTH;

/// A reader behind the StructureSize of the message's body, which must be `structure_size`.
fn body(message: &[u8], structure_size: u16) -> Result<Reader<'_>, Malformed> {
    let mut reader = Reader::at(message, HEADER_LENGTH);
    match reader.u16()? == structure_size {
        true => Ok(reader),
        false => Err(Malformed("StructureSize of the body")),
    }
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
