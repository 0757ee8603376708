//! READ: bytes of a file or pipe (MS-SMB2 2.2.19, 2.2.20).

use std::ops::Range;

use super::{body, length_u16, length_u32, part};
use crate::codec::{Malformed, Writer};
use crate::header::HEADER_LENGTH;
use crate::ids::FileId;

const REQUEST_SIZE: u16 = 49;
const RESPONSE_SIZE: u16 = 17;

flags! {
    /// Flags of a request, dialects 3.0.2 and 3.1.1.
    ReadFlags(u8) {
        /// Read past the server's cache.
        READ_UNBUFFERED = 0x01,
        /// Compress the response.
        REQUEST_COMPRESSED = 0x02,
    }
}

numbers! {
    /// Where the data travels: with the message, or by RDMA.
    Channel(u32) {
        /// With the message.
        NONE = 0x0000_0000,
        /// By RDMA.
        RDMA_V1 = 0x0000_0001,
        /// By RDMA, and the server invalidates the buffer's registration.
        RDMA_V1_INVALIDATE = 0x0000_0002,
        /// By RDMA, transformed; WRITE only.
        RDMA_TRANSFORM = 0x0000_0003,
    }
}

/// SMB2 READ Request (2.2.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadRequest<'a> {
    /// Where the client would like the data in the response, counted from its header; not binding.
    pub padding: u8,
    /// Flags.
    pub flags: ReadFlags,
    /// How many bytes to read.
    pub length: u32,
    /// Where in the file. Any value; the sum with `length` may overflow.
    pub offset: u64,
    /// The open.
    pub file_id: FileId,
    /// Fewer bytes than this are a failure.
    pub minimum_count: u32,
    /// Where the data is to travel.
    pub channel: Channel,
    /// Of an RDMA read: the bytes to read.
    pub remaining_bytes: u32,
    /// Of an RDMA read: buffer descriptors (MS-SMBD 2.2.3.1). Empty where `channel` is NONE.
    pub channel_info: &'a [u8],
}

impl<'a> ReadRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let padding = reader.u8()?;
        let flags = ReadFlags(reader.u8()?);
        let length = reader.u32()?;
        let offset = reader.u64()?;
        let file_id = FileId::decode(&mut reader)?;
        let minimum_count = reader.u32()?;
        let channel = Channel(reader.u32()?);
        let remaining_bytes = reader.u32()?;
        let info_offset = usize::from(reader.u16()?);
        let info_length = usize::from(reader.u16()?);
        let channel_info = match channel {
            Channel::NONE => &[],
            _ => part(message, info_offset, info_length, "ReadChannelInfo of READ")?,
        };
        Ok(ReadRequest {
            padding,
            flags,
            length,
            offset,
            file_id,
            minimum_count,
            channel,
            remaining_bytes,
            channel_info,
        })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u8(self.padding);
        writer.u8(self.flags.0);
        writer.u32(self.length);
        writer.u64(self.offset);
        self.file_id.encode(&mut writer);
        writer.u32(self.minimum_count);
        writer.u32(self.channel.0);
        writer.u32(self.remaining_bytes);
        let info_offset = if self.channel_info.is_empty() { 0 } else { HEADER_LENGTH as u16 + REQUEST_SIZE - 1 };
        writer.u16(info_offset);
        writer.u16(length_u16(self.channel_info));
        // StructureSize counts one byte of the buffer, and servers insist on it.
        writer.bytes(if self.channel_info.is_empty() { &[0] } else { self.channel_info });
    }
}

/// SMB2 READ Response (2.2.20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ReadResponse<'a> {
    /// Where `data` begins in the message. [`ReadResponse::encode`] writes [`ReadResponse::DATA_OFFSET`].
    pub data_offset: u8,
    /// Of an RDMA read: bytes sent through the channel.
    pub data_remaining: u32,
    /// Reserved2/Flags: 1 where the data is an RDMA transform (2.2.43), dialect 3.1.1.
    pub flags: u32,
    /// The bytes read.
    pub data: &'a [u8],
}

impl<'a> ReadResponse<'a> {
    /// Where the data of a response begins that has nothing between its fixed part and its data.
    pub const DATA_OFFSET: u8 = 80;

    /// The fixed part of a response whose `data_length` bytes of data follow it at once.
    pub fn to_bytes(data_length: u32) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..2].copy_from_slice(&RESPONSE_SIZE.to_le_bytes());
        bytes[2] = Self::DATA_OFFSET;
        bytes[4..8].copy_from_slice(&data_length.to_le_bytes());
        bytes
    }

    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, RESPONSE_SIZE)?;
        let data_offset = reader.u8()?;
        reader.skip(1)?;
        let data_length = reader.u32()? as usize;
        let data_remaining = reader.u32()?;
        let flags = reader.u32()?;
        let data = part(message, usize::from(data_offset), data_length, "Data of READ")?;
        Ok(ReadResponse { data_offset, data_remaining, flags, data })
    }

    /// Where in its message the data stands, or will: of that no more need be there than stands before the data.
    pub fn place(message: &[u8]) -> Result<Range<usize>, Malformed> {
        let mut reader = body(message, RESPONSE_SIZE)?;
        let start = usize::from(reader.u8()?);
        reader.skip(1)?;
        let length = reader.u32()? as usize;
        Ok(start..start + length)
    }

    /// The place of the data in the message it was decoded from.
    pub fn data_range(&self) -> Range<usize> {
        let start = usize::from(self.data_offset);
        start..start + self.data.len()
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(RESPONSE_SIZE);
        writer.u8(Self::DATA_OFFSET);
        writer.u8(0);
        writer.u32(length_u32(self.data));
        writer.u32(self.data_remaining);
        writer.u32(self.flags);
        writer.bytes(self.data);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> ReadRequest<'static> {
        ReadRequest {
            padding: 0x50,
            flags: ReadFlags::READ_UNBUFFERED,
            length: u32::MAX,
            offset: u64::MAX,
            file_id: FileId::ANY,
            minimum_count: 1,
            channel: Channel::NONE,
            remaining_bytes: 2,
            channel_info: &[],
        }
    }

    #[test]
    fn requests_round_trip() {
        let message = check_message!(ReadRequest, request(), spare 1);
        assert_eq!(message.len(), 113);
        check_message!(
            ReadRequest,
            ReadRequest { channel: Channel::RDMA_V1, channel_info: b"descriptor", ..request() }
        );
    }

    #[test]
    fn channel_information_is_ignored_without_a_channel() {
        let mut message = crate::testing::message(|out| request().encode(out));
        message[108..112].fill(0xFF);
        assert_eq!(ReadRequest::decode(&message), Ok(request()));
        message[100] = 1;
        assert_eq!(ReadRequest::decode(&message), Err(Malformed("ReadChannelInfo of READ")));
    }

    #[test]
    fn responses_round_trip() {
        let response =
            ReadResponse { data_offset: ReadResponse::DATA_OFFSET, data_remaining: 0, flags: 0, data: b"data" };
        let message = check_message!(ReadResponse, response);
        assert_eq!(message[64..80], ReadResponse::to_bytes(4));
        assert_eq!(&message[response.data_range()], b"data");
        check_message!(ReadResponse, ReadResponse { data: &[], ..response });
    }

    #[test]
    fn data_need_not_follow_at_once() {
        let mut message = crate::testing::message(|out| out.extend_from_slice(&ReadResponse::to_bytes(2)));
        message[66] = 88;
        message.extend_from_slice(b"12345678data");
        let response = ReadResponse::decode(&message).unwrap();
        assert_eq!((response.data, response.data_range()), (&b"da"[..], 88..90));
        assert_eq!(ReadResponse::place(&message[..80]).unwrap(), 88..90);
    }
}
