//! QUERY_DIRECTORY: lists a directory (MS-SMB2 2.2.33, 2.2.34).

use super::{OutputBuffer, body, length_u16, part};
use crate::codec::{Malformed, Utf16, Writer};
use crate::fscc::FileClass;
use crate::header::HEADER_LENGTH;
use crate::ids::FileId;

const REQUEST_SIZE: u16 = 33;

flags! {
    /// How to list.
    QueryDirectoryFlags(u8) {
        /// From the beginning.
        RESTART_SCANS = 0x01,
        /// One entry only.
        RETURN_SINGLE_ENTRY = 0x02,
        /// From `file_index` on.
        INDEX_SPECIFIED = 0x04,
        /// From the beginning, with this request's pattern.
        REOPEN = 0x10,
    }
}

/// SMB2 QUERY_DIRECTORY Request (2.2.33).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct QueryDirectoryRequest<'a> {
    /// The form of the entries.
    pub class: FileClass,
    /// How to list.
    pub flags: QueryDirectoryFlags,
    /// Where to resume, where INDEX_SPECIFIED is set.
    pub file_index: u32,
    /// The directory.
    pub file_id: FileId,
    /// The search pattern, perhaps empty. At most 65,534 bytes.
    pub pattern: Utf16<'a>,
    /// The most bytes of entries that the client takes.
    pub output_buffer_length: u32,
}

impl<'a> QueryDirectoryRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let class = FileClass(reader.u8()?);
        let flags = QueryDirectoryFlags(reader.u8()?);
        let file_index = reader.u32()?;
        let file_id = FileId::decode(&mut reader)?;
        let offset = usize::from(reader.u16()?);
        let length = usize::from(reader.u16()?);
        let output_buffer_length = reader.u32()?;
        let pattern = Utf16::new(part(message, offset, length, "FileName of QUERY_DIRECTORY")?)?;
        Ok(QueryDirectoryRequest { class, flags, file_index, file_id, pattern, output_buffer_length })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u8(self.class.0);
        writer.u8(self.flags.0);
        writer.u32(self.file_index);
        self.file_id.encode(&mut writer);
        // "This field MUST be 0 if no search pattern is provided."
        writer.u16(if self.pattern.is_empty() { 0 } else { HEADER_LENGTH as u16 + REQUEST_SIZE - 1 });
        writer.u16(length_u16(self.pattern.as_bytes()));
        writer.u32(self.output_buffer_length);
        writer.bytes(if self.pattern.is_empty() { &[0] } else { self.pattern.as_bytes() });
    }
}

/// SMB2 QUERY_DIRECTORY Response (2.2.34): a chain of entries of the class that was asked for.
pub type QueryDirectoryResponse<'a> = OutputBuffer<'a>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::utf16_bytes;

    #[test]
    fn both_directions_round_trip() {
        let pattern = utf16_bytes("*.txt");
        let request = QueryDirectoryRequest {
            class: FileClass(0x25),
            flags: QueryDirectoryFlags::RESTART_SCANS,
            file_index: 7,
            file_id: FileId { persistent: 1, volatile: 2 },
            pattern: Utf16::new(&pattern).unwrap(),
            output_buffer_length: 65_536,
        };
        let message = check_message!(QueryDirectoryRequest, request);
        assert_eq!(message[88..92], [96, 0, 10, 0]);
        check_message!(QueryDirectoryRequest, QueryDirectoryRequest { pattern: Utf16::default(), ..request }, spare 1);
        let message = check_message!(QueryDirectoryResponse, QueryDirectoryResponse { output: b"entries" });
        assert_eq!(message[64..72], QueryDirectoryResponse::to_bytes(7));
        check_message!(QueryDirectoryResponse, QueryDirectoryResponse { output: &[] });
    }
}
