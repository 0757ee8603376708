//! CLOSE: ends an open (MS-SMB2 2.2.15, 2.2.16).

use super::body;
use crate::codec::{Malformed, Writer};
use crate::ids::{FileId, FileTime};

const REQUEST_SIZE: u16 = 24;
const RESPONSE_SIZE: u16 = 60;

flags! {
    /// Flags of a request and of its response.
    CloseFlags(u16) {
        /// The response tells the file's attributes.
        POSTQUERY_ATTRIB = 0x0001,
    }
}

/// SMB2 CLOSE Request (2.2.15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CloseRequest {
    /// Whether the attributes are asked for.
    pub flags: CloseFlags,
    /// The open.
    pub file_id: FileId,
}

impl CloseRequest {
    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let flags = CloseFlags(reader.u16()?);
        reader.skip(4)?;
        Ok(CloseRequest { flags, file_id: FileId::decode(&mut reader)? })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u16(self.flags.0);
        writer.u32(0);
        self.file_id.encode(&mut writer);
    }
}

/// SMB2 CLOSE Response (2.2.16). All zero but for `flags` where the attributes were not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CloseResponse {
    /// Whether the attributes are there.
    pub flags: CloseFlags,
    /// When the file was created.
    pub creation_time: FileTime,
    /// When it was last accessed.
    pub last_access_time: FileTime,
    /// When its data was last written.
    pub last_write_time: FileTime,
    /// When it was last changed in any way.
    pub change_time: FileTime,
    /// Space allocated to it in bytes.
    pub allocation_size: u64,
    /// Its length in bytes.
    pub end_of_file: u64,
    /// Its attributes (MS-FSCC 2.6).
    pub file_attributes: u32,
}

impl CloseResponse {
    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, RESPONSE_SIZE)?;
        let flags = CloseFlags(reader.u16()?);
        reader.skip(4)?;
        Ok(CloseResponse {
            flags,
            creation_time: FileTime(reader.u64()?),
            last_access_time: FileTime(reader.u64()?),
            last_write_time: FileTime(reader.u64()?),
            change_time: FileTime(reader.u64()?),
            allocation_size: reader.u64()?,
            end_of_file: reader.u64()?,
            file_attributes: reader.u32()?,
        })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(RESPONSE_SIZE);
        writer.u16(self.flags.0);
        writer.u32(0);
        writer.u64(self.creation_time.0);
        writer.u64(self.last_access_time.0);
        writer.u64(self.last_write_time.0);
        writer.u64(self.change_time.0);
        writer.u64(self.allocation_size);
        writer.u64(self.end_of_file);
        writer.u32(self.file_attributes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_round_trip() {
        let file_id = FileId { persistent: 1, volatile: 2 };
        check_message!(CloseRequest, CloseRequest { flags: CloseFlags::POSTQUERY_ATTRIB, file_id });
        check_message!(CloseRequest, CloseRequest { flags: CloseFlags::NONE, file_id: FileId::ANY });
        let response = CloseResponse {
            flags: CloseFlags::POSTQUERY_ATTRIB,
            creation_time: FileTime(1),
            last_access_time: FileTime(2),
            last_write_time: FileTime(3),
            change_time: FileTime(4),
            allocation_size: 5,
            end_of_file: 6,
            file_attributes: 7,
        };
        let message = check_message!(CloseResponse, response);
        assert_eq!(message.len(), 124);
    }
}
