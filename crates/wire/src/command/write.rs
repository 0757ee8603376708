//! WRITE: bytes for a file or pipe (MS-SMB2 2.2.21, 2.2.22).

use std::ops::Range;

pub use super::read::Channel;
use super::{body, length_u16, length_u32, part};
use crate::codec::{Malformed, Writer};
use crate::header::HEADER_LENGTH;
use crate::ids::FileId;

const REQUEST_SIZE: u16 = 49;
const RESPONSE_SIZE: u16 = 17;

/// The length of a request's fixed part in bytes.
pub const WRITE_REQUEST_FIXED_LENGTH: usize = 48;

flags! {
    /// Flags of a request.
    WriteFlags(u32) {
        /// The data reaches the storage before the answer; not in 2.0.2.
        WRITE_THROUGH = 0x0000_0001,
        /// Write past the server's cache; from 3.0.2 on.
        WRITE_UNBUFFERED = 0x0000_0002,
    }
}

/// SMB2 WRITE Request (2.2.21).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteRequest<'a> {
    /// Where `data` begins in the message. [`WriteRequest::encode`] writes [`WriteRequest::DATA_OFFSET`].
    pub data_offset: u16,
    /// Where in the file. Any value; the sum with the length may overflow.
    pub offset: u64,
    /// The open.
    pub file_id: FileId,
    /// Where the data travels.
    pub channel: Channel,
    /// Of an RDMA write: the bytes to write. Otherwise anything.
    pub remaining_bytes: u32,
    /// Flags.
    pub flags: WriteFlags,
    /// Of an RDMA write: buffer descriptors (MS-SMBD 2.2.3.1). Empty where `channel` is NONE.
    pub channel_info: &'a [u8],
    /// The bytes to write, perhaps none.
    pub data: &'a [u8],
}

impl<'a> WriteRequest<'a> {
    /// Where the data of a request begins that has nothing between its fixed part and its data.
    pub const DATA_OFFSET: u16 = 112;

    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let data_offset = reader.u16()?;
        let length = reader.u32()? as usize;
        let offset = reader.u64()?;
        let file_id = FileId::decode(&mut reader)?;
        let channel = Channel(reader.u32()?);
        let remaining_bytes = reader.u32()?;
        let info_offset = usize::from(reader.u16()?);
        let info_length = usize::from(reader.u16()?);
        let flags = WriteFlags(reader.u32()?);
        let data = part(message, usize::from(data_offset), length, "Data of WRITE")?;
        let channel_info = match channel {
            Channel::NONE => &[],
            _ => part(message, info_offset, info_length, "WriteChannelInfo of WRITE")?,
        };
        Ok(WriteRequest { data_offset, offset, file_id, channel, remaining_bytes, flags, channel_info, data })
    }

    /// The place of the data in the message it was decoded from; empty where there is none.
    pub fn data_range(&self) -> Range<usize> {
        let start = usize::from(self.data_offset);
        start..start + self.data.len()
    }

    /// Appends the body: the fixed part, the data, the channel information.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let info_offset = usize::from(Self::DATA_OFFSET) + self.data.len();
        let mut writer = Writer::new(out);
        writer.bytes(&self.fixed_part(length_u32(self.data)));
        writer.bytes(self.data);
        if !self.channel_info.is_empty() {
            writer.patch_u16(40, u16::try_from(info_offset).unwrap_or(0));
            writer.patch_u16(42, length_u16(self.channel_info));
            writer.bytes(self.channel_info);
        } else if self.data.is_empty() {
            // StructureSize counts one byte of the buffer, and some servers insist on it.
            writer.u8(0);
        }
    }

    /// The fixed part of a request whose `data_length` bytes of data follow it at once, for a vectored send. `data`
    /// and `channel_info` are not looked at.
    pub fn fixed_part(&self, data_length: u32) -> [u8; WRITE_REQUEST_FIXED_LENGTH] {
        let mut bytes = [0; WRITE_REQUEST_FIXED_LENGTH];
        bytes[..2].copy_from_slice(&REQUEST_SIZE.to_le_bytes());
        bytes[2..4].copy_from_slice(&Self::DATA_OFFSET.to_le_bytes());
        bytes[4..8].copy_from_slice(&data_length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.file_id.persistent.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.file_id.volatile.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.channel.0.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.remaining_bytes.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.flags.0.to_le_bytes());
        bytes
    }
}

const _: () = assert!(WriteRequest::DATA_OFFSET as usize == HEADER_LENGTH + WRITE_REQUEST_FIXED_LENGTH);

/// SMB2 WRITE Response (2.2.22).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteResponse {
    /// How many bytes were written.
    pub count: u32,
}

impl WriteResponse {
    /// The body: 16 bytes, although StructureSize says 17.
    pub fn to_bytes(count: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&RESPONSE_SIZE.to_le_bytes());
        bytes[4..8].copy_from_slice(&count.to_le_bytes());
        bytes
    }

    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, RESPONSE_SIZE)?;
        reader.skip(2)?;
        Ok(WriteResponse { count: reader.u32()? })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&WriteResponse::to_bytes(self.count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> WriteRequest<'static> {
        WriteRequest {
            data_offset: WriteRequest::DATA_OFFSET,
            offset: u64::MAX,
            file_id: FileId { persistent: 1, volatile: 2 },
            channel: Channel::NONE,
            remaining_bytes: 77,
            flags: WriteFlags::WRITE_THROUGH,
            channel_info: &[],
            data: b"data",
        }
    }

    #[test]
    fn requests_round_trip() {
        let message = check_message!(WriteRequest, request());
        assert_eq!(&message[request().data_range()], b"data");
        check_message!(WriteRequest, WriteRequest { data: &[], ..request() }, spare 1);
        let rdma = WriteRequest { channel: Channel::RDMA_V1_INVALIDATE, channel_info: b"descriptor", ..request() };
        check_message!(WriteRequest, rdma);
    }

    #[test]
    fn the_offset_of_no_data_does_not_matter() {
        let mut message = crate::testing::message(|out| WriteRequest { data: &[], ..request() }.encode(out));
        message[66..68].fill(0xFF);
        let request = WriteRequest::decode(&message).unwrap();
        assert!(request.data.is_empty());
        assert!(request.data_range().is_empty());
    }

    #[test]
    fn data_beyond_the_message_is_malformed() {
        let message = crate::testing::message(|out| request().encode(out));
        for (position, value) in [(66, 113), (66, 63), (68, 5), (71, 0xFF), (67, 0xFF)] {
            let mut message = message.clone();
            message[position] = value;
            assert_eq!(WriteRequest::decode(&message), Err(Malformed("Data of WRITE")), "{position} {value}");
        }
    }

    #[test]
    fn channel_information_is_ignored_without_a_channel() {
        let mut message = crate::testing::message(|out| request().encode(out));
        message[104..108].fill(0xFF);
        assert_eq!(WriteRequest::decode(&message), Ok(request()));
    }

    #[test]
    fn responses_are_sixteen_bytes() {
        let message = crate::testing::message(|out| WriteResponse { count: 9 }.encode(out));
        assert_eq!(message[64..], [17, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        check_message!(WriteResponse, WriteResponse { count: u32::MAX }, spare 8);
    }
}
