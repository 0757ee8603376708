//! Durable and persistent opens: DHnQ, DHnC and their second versions DH2Q, DH2C (MS-SMB2 2.2.13.2.3, .4, .11, .12 and
//! 2.2.14.2.3, .12).
//!
//! DHnQ has no content: 16 reserved bytes in a request ([`DURABLE_REQUEST`]), 8 in a response ([`DURABLE_RESPONSE`]).

use crate::codec::{Malformed, Reader, Writer};
use crate::ids::{FileId, Guid};

/// The data of a DHnQ request.
pub const DURABLE_REQUEST: [u8; 16] = [0; 16];

/// The data of a DHnQ response.
pub const DURABLE_RESPONSE: [u8; 8] = [0; 8];

/// SMB2_CREATE_DURABLE_HANDLE_RECONNECT, DHnC (2.2.13.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DurableReconnect {
    /// The open to take up again.
    pub file_id: FileId,
}

impl DurableReconnect {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        Ok(DurableReconnect { file_id: FileId::decode(&mut Reader::new(data))? })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(FileId::LENGTH);
        self.file_id.encode(&mut Writer::new(&mut data));
        data
    }
}

flags! {
    /// Flags of the second versions.
    DurableFlags(u32) {
        /// The open is persistent.
        PERSISTENT = 0x0000_0002,
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_REQUEST_V2, DH2Q (2.2.13.2.11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DurableRequestV2 {
    /// How long to keep the open after a disconnection, in milliseconds; 0 leaves it to the server.
    pub timeout_milliseconds: u32,
    /// Flags.
    pub flags: DurableFlags,
    /// Names this create, so that a replay of it is recognised.
    pub create_guid: Guid,
}

impl DurableRequestV2 {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let timeout_milliseconds = reader.u32()?;
        let flags = DurableFlags(reader.u32()?);
        reader.skip(8)?;
        Ok(DurableRequestV2 { timeout_milliseconds, flags, create_guid: Guid::decode(&mut reader)? })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(32);
        let mut writer = Writer::new(&mut data);
        writer.u32(self.timeout_milliseconds);
        writer.u32(self.flags.0);
        writer.u64(0);
        writer.bytes(&self.create_guid.0);
        data
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_RESPONSE_V2, DH2Q (2.2.14.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DurableResponseV2 {
    /// How long the server keeps the open after a disconnection, in milliseconds.
    pub timeout_milliseconds: u32,
    /// Flags.
    pub flags: DurableFlags,
}

impl DurableResponseV2 {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        Ok(DurableResponseV2 { timeout_milliseconds: reader.u32()?, flags: DurableFlags(reader.u32()?) })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(8);
        let mut writer = Writer::new(&mut data);
        writer.u32(self.timeout_milliseconds);
        writer.u32(self.flags.0);
        data
    }
}

/// SMB2_CREATE_DURABLE_HANDLE_RECONNECT_V2, DH2C (2.2.13.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DurableReconnectV2 {
    /// The open to take up again.
    pub file_id: FileId,
    /// The create that made it.
    pub create_guid: Guid,
    /// Flags.
    pub flags: DurableFlags,
}

impl DurableReconnectV2 {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        Ok(DurableReconnectV2 {
            file_id: FileId::decode(&mut reader)?,
            create_guid: Guid::decode(&mut reader)?,
            flags: DurableFlags(reader.u32()?),
        })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(36);
        let mut writer = Writer::new(&mut data);
        self.file_id.encode(&mut writer);
        writer.bytes(&self.create_guid.0);
        writer.u32(self.flags.0);
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_round_trip() {
        let (file_id, create_guid) = (FileId { persistent: 1, volatile: 2 }, Guid([3; 16]));
        let flags = DurableFlags::PERSISTENT;
        assert_eq!(check_structure!(DurableReconnect, DurableReconnect { file_id }).len(), 16);
        let request = DurableRequestV2 { timeout_milliseconds: 60_000, flags, create_guid };
        assert_eq!(check_structure!(DurableRequestV2, request).len(), 32);
        let response = DurableResponseV2 { timeout_milliseconds: 60_000, flags };
        assert_eq!(check_structure!(DurableResponseV2, response).len(), 8);
        let reconnect = DurableReconnectV2 { file_id, create_guid, flags };
        assert_eq!(check_structure!(DurableReconnectV2, reconnect).len(), 36);
    }
}
