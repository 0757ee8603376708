//! The ERROR response: the body of every response whose status is an error, and of interim responses (MS-SMB2 2.2.2).

use super::{body, length_u32};
use crate::codec::{Malformed, Writer};

const STRUCTURE_SIZE: u16 = 9;

/// SMB2 ERROR Response (2.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ErrorResponse<'a> {
    /// How many error contexts (2.2.2.1) `data` holds, dialect 3.1.1. Where 0, `data` is the bare error data.
    pub context_count: u8,
    /// ErrorData; mostly empty.
    pub data: &'a [u8],
}

impl<'a> ErrorResponse<'a> {
    /// The body of an error without data: the nine bytes end with the one of ErrorData that 2.2.2 demands.
    pub fn to_bytes() -> [u8; 9] {
        let mut bytes = [0; 9];
        bytes[..2].copy_from_slice(&STRUCTURE_SIZE.to_le_bytes());
        bytes
    }

    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, STRUCTURE_SIZE)?;
        let context_count = reader.u8()?;
        reader.skip(1)?;
        let byte_count = reader.u32()?;
        Ok(ErrorResponse { context_count, data: reader.bytes(byte_count as usize)? })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(STRUCTURE_SIZE);
        writer.u8(self.context_count);
        writer.u8(0);
        writer.u32(length_u32(self.data));
        writer.bytes(if self.data.is_empty() { &[0] } else { self.data });
    }
}
