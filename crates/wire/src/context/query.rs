//! The small create contexts: what a file's name, size and time shall be or are (MS-SMB2 2.2.13.2.5 to .7, .9 and
//! 2.2.14.2.5, .9).

use crate::codec::{Malformed, Reader, Writer};
use crate::ids::FileTime;
use crate::security::access::AccessMask;
use crate::status::Status;

/// SMB2_CREATE_QUERY_MAXIMAL_ACCESS_REQUEST, MxAc (2.2.13.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MaximalAccessRequest {
    /// The server may answer STATUS_NONE_MAPPED where the file did not change since; absent in an empty context.
    pub timestamp: Option<FileTime>,
}

impl MaximalAccessRequest {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        match data.len() {
            0 => Ok(MaximalAccessRequest { timestamp: None }),
            8 => Ok(MaximalAccessRequest { timestamp: Some(FileTime(Reader::new(data).u64()?)) }),
            _ => Err(Malformed("length of a MxAc context")),
        }
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.timestamp.map_or_else(Vec::new, |timestamp| timestamp.0.to_le_bytes().to_vec())
    }
}

/// SMB2_CREATE_QUERY_MAXIMAL_ACCESS_RESPONSE, MxAc (2.2.14.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MaximalAccessResponse {
    /// Whether the access is known.
    pub query_status: Status,
    /// The most that the user may do; valid where `query_status` is SUCCESS.
    pub maximal_access: AccessMask,
}

impl MaximalAccessResponse {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        Ok(MaximalAccessResponse { query_status: Status(reader.u32()?), maximal_access: AccessMask(reader.u32()?) })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> [u8; 8] {
        (u64::from(self.maximal_access.0) << 32 | u64::from(self.query_status.0)).to_le_bytes()
    }
}

/// SMB2_CREATE_QUERY_ON_DISK_ID, QFid (2.2.14.2.9). The request has no data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OnDiskId {
    /// The file within its volume.
    pub disk_file_id: u64,
    /// The volume.
    pub volume_id: u64,
}

impl OnDiskId {
    /// Decodes a response context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let id = OnDiskId { disk_file_id: reader.u64()?, volume_id: reader.u64()? };
        reader.skip(16)?;
        Ok(id)
    }

    /// A response context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(32);
        let mut writer = Writer::new(&mut data);
        writer.u64(self.disk_file_id);
        writer.u64(self.volume_id);
        writer.zeros(16);
        data
    }
}

/// SMB2_CREATE_ALLOCATION_SIZE, AlSi (2.2.13.2.6). Requests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AllocationSize {
    /// The space to reserve in bytes.
    pub allocation_size: u64,
}

impl AllocationSize {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        Ok(AllocationSize { allocation_size: Reader::new(data).u64()? })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> [u8; 8] {
        self.allocation_size.to_le_bytes()
    }
}

/// SMB2_CREATE_TIMEWARP_TOKEN, TWrp (2.2.13.2.7). Requests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TimewarpToken {
    /// The snapshot's time.
    pub timestamp: FileTime,
}

impl TimewarpToken {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        Ok(TimewarpToken { timestamp: FileTime(Reader::new(data).u64()?) })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> [u8; 8] {
        self.timestamp.0.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_round_trip() {
        let query_status = Status::NONE_MAPPED;
        let access = MaximalAccessResponse { query_status, maximal_access: crate::security::access::FILE_ALL.into() };
        check_structure!(MaximalAccessResponse, access);
        let bytes = check_structure!(OnDiskId, OnDiskId { disk_file_id: 1, volume_id: 2 });
        assert_eq!(bytes.len(), 32);
        check_structure!(AllocationSize, AllocationSize { allocation_size: u64::MAX });
        check_structure!(TimewarpToken, TimewarpToken { timestamp: FileTime(7) });
    }

    #[test]
    fn a_maximal_access_request_is_empty_or_a_time() {
        assert_eq!(MaximalAccessRequest::decode(&[]), Ok(MaximalAccessRequest { timestamp: None }));
        let request = MaximalAccessRequest { timestamp: Some(FileTime(0x0101_0101_0101_0101)) };
        assert_eq!(MaximalAccessRequest::decode(&[1; 8]), Ok(request));
        assert_eq!(request.to_bytes(), [1; 8]);
        assert!(MaximalAccessRequest { timestamp: None }.to_bytes().is_empty());
        for length in [1, 4, 7, 9, 16] {
            assert!(MaximalAccessRequest::decode(&[1; 16][..length]).is_err());
        }
    }
}
