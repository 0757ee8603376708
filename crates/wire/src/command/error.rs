//! The ERROR response: the body of every response whose status is an error, and of interim responses (MS-SMB2 2.2.2).

use super::{body, length_u16, length_u32};
use crate::codec::{Malformed, Reader, Utf16, Writer, range};

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

    /// The error contexts (2.2.2.1), as far as they are well formed; none where `context_count` is 0.
    pub fn contexts(&self) -> impl Iterator<Item = ErrorContext<'a>> + use<'a> {
        let mut reader = Reader::new(self.data);
        (0..self.context_count).map_while(move |_| ErrorContext::decode(&mut reader).ok())
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

numbers! {
    /// What an error context is about.
    ErrorId(u32) {
        /// What the status says.
        DEFAULT = 0x0000_0000,
        /// The share is elsewhere (2.2.2.2.2).
        SHARE_REDIRECT = 0x7264_5253,
    }
}

/// SMB2 ERROR Context (2.2.2.1), dialect 3.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ErrorContext<'a> {
    /// What it is about.
    pub error_id: ErrorId,
    /// The error data; its form depends on the status.
    pub data: &'a [u8],
}

impl<'a> ErrorContext<'a> {
    /// The data of an error response with this one context; `context_count` is then 1.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(8 + self.data.len());
        let mut writer = Writer::new(&mut bytes);
        writer.u32(length_u32(self.data));
        writer.u32(self.error_id.0);
        writer.bytes(self.data);
        bytes
    }

    fn decode(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        reader.skip(reader.position().next_multiple_of(8) - reader.position())?;
        let length = reader.u32()? as usize;
        let error_id = ErrorId(reader.u32()?);
        Ok(ErrorContext { error_id, data: reader.bytes(length)? })
    }
}

/// Symbolic Link Error Response (2.2.2.2.1): the error data beside STATUS_STOPPED_ON_SYMLINK.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SymbolicLinkError<'a> {
    /// How many bytes of the path are behind the link.
    pub unparsed_path_length: u16,
    /// The link's target.
    pub substitute_name: Utf16<'a>,
    /// The target as it is shown to users.
    pub print_name: Utf16<'a>,
    /// See [`SymbolicLinkError::FLAG_RELATIVE`].
    pub flags: u32,
}

impl<'a> SymbolicLinkError<'a> {
    /// The target counts from the link's directory.
    pub const FLAG_RELATIVE: u32 = 0x0000_0001;

    const ERROR_TAG: u32 = 0x4C4D_5953;
    const REPARSE_TAG: u32 = 0xA000_000C;
    /// Where PathBuffer begins.
    const FIXED_LENGTH: usize = 28;

    /// Decodes error data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        reader.skip(4)?;
        if reader.u32()? != Self::ERROR_TAG || reader.u32()? != Self::REPARSE_TAG {
            return Err(Malformed("tags of a symbolic link error"));
        }
        reader.skip(2)?;
        let unparsed_path_length = reader.u16()?;
        let mut name = || -> Result<(usize, usize), Malformed> { Ok((reader.u16()?.into(), reader.u16()?.into())) };
        let (substitute, print) = (name()?, name()?);
        let flags = reader.u32()?;
        let text = |(offset, length): (usize, usize)| {
            Utf16::new(range(data, Self::FIXED_LENGTH + offset, length, "name of a symbolic link error")?)
        };
        Ok(SymbolicLinkError {
            unparsed_path_length,
            substitute_name: text(substitute)?,
            print_name: text(print)?,
            flags,
        })
    }

    /// The error data. Both names together are at most 65,523 bytes long.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (substitute, print) = (self.substitute_name.as_bytes(), self.print_name.as_bytes());
        let path_length = substitute.len() + print.len();
        let mut data = Vec::with_capacity(Self::FIXED_LENGTH + path_length);
        let mut writer = Writer::new(&mut data);
        writer.u32((Self::FIXED_LENGTH - 4 + path_length) as u32);
        writer.u32(Self::ERROR_TAG);
        writer.u32(Self::REPARSE_TAG);
        writer.u16((path_length + 12) as u16);
        writer.u16(self.unparsed_path_length);
        writer.u16(0);
        writer.u16(length_u16(substitute));
        writer.u16(length_u16(substitute));
        writer.u16(length_u16(print));
        writer.u32(self.flags);
        writer.bytes(substitute);
        writer.bytes(print);
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::utf16_bytes;

    #[test]
    fn errors_round_trip() {
        let message = check_message!(ErrorResponse, ErrorResponse::default(), spare 1);
        assert_eq!(message[64..], ErrorResponse::to_bytes());
        check_message!(ErrorResponse, ErrorResponse { context_count: 0, data: &[0x10, 0, 0, 0] });
    }

    #[test]
    fn contexts_are_eight_byte_aligned() {
        let mut data = ErrorContext { error_id: ErrorId::DEFAULT, data: b"abc" }.to_bytes();
        data.resize(16, 0);
        data.extend_from_slice(&ErrorContext { error_id: ErrorId::SHARE_REDIRECT, data: b"d" }.to_bytes());
        let response = ErrorResponse { context_count: 2, data: &data };
        let contexts: Vec<_> = response.contexts().collect();
        assert_eq!(contexts[0], ErrorContext { error_id: ErrorId::DEFAULT, data: b"abc" });
        assert_eq!(contexts[1], ErrorContext { error_id: ErrorId::SHARE_REDIRECT, data: b"d" });
        assert_eq!(ErrorResponse { context_count: 255, data: &data }.contexts().count(), 2);
    }

    /// The example of 2.2.2.2.1.1.
    #[test]
    fn symbolic_links_round_trip() {
        let (substitute, print) =
            (utf16_bytes(r"\??\D:\DonHall\MiscDocuments\PDocs"), utf16_bytes(r"D:\DonHall\MiscDocuments\PDocs"));
        let link = SymbolicLinkError {
            unparsed_path_length: 0x2E,
            substitute_name: Utf16::new(&substitute).unwrap(),
            print_name: Utf16::new(&print).unwrap(),
            flags: 0,
        };
        let data = check_structure!(SymbolicLinkError, link);
        assert_eq!(data[..4], (data.len() as u32 - 4).to_le_bytes());
        assert_eq!(data[12..14], (substitute.len() as u16 + print.len() as u16 + 12).to_le_bytes());
        assert_eq!(data[18..20], 0x44_u16.to_le_bytes());
    }
}
