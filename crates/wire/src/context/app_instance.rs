//! Which application instance opens a file, so that its successor can end the opens it left (MS-SMB2 2.2.13.2.13,
//! 2.2.13.2.15). Requests only.

use crate::codec::{Malformed, Reader, Writer};
use crate::ids::Guid;

const ID_SIZE: u16 = 20;
const VERSION_SIZE: u16 = 24;

/// SMB2_CREATE_APP_INSTANCE_ID (2.2.13.2.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct AppInstanceId {
    /// Names the application instance.
    pub id: Guid,
}

impl AppInstanceId {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        if reader.u16()? != ID_SIZE {
            return Err(Malformed("StructureSize of APP_INSTANCE_ID"));
        }
        reader.skip(2)?;
        Ok(AppInstanceId { id: Guid::decode(&mut reader)? })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(usize::from(ID_SIZE));
        let mut writer = Writer::new(&mut data);
        writer.u16(ID_SIZE);
        writer.u16(0);
        writer.bytes(&self.id.0);
        data
    }
}

/// SMB2_CREATE_APP_INSTANCE_VERSION (2.2.13.2.15). Compares as the 128-bit number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct AppInstanceVersion {
    /// The high half.
    pub high: u64,
    /// The low half.
    pub low: u64,
}

impl AppInstanceVersion {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        if reader.u16()? != VERSION_SIZE {
            return Err(Malformed("StructureSize of APP_INSTANCE_VERSION"));
        }
        reader.skip(6)?;
        Ok(AppInstanceVersion { high: reader.u64()?, low: reader.u64()? })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(usize::from(VERSION_SIZE));
        let mut writer = Writer::new(&mut data);
        writer.u16(VERSION_SIZE);
        writer.zeros(6);
        writer.u64(self.high);
        writer.u64(self.low);
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_round_trip() {
        let bytes = check_structure!(AppInstanceId, AppInstanceId { id: Guid([3; 16]) });
        assert_eq!(bytes.len(), 20);
        let bytes = check_structure!(AppInstanceVersion, AppInstanceVersion { high: 1, low: 2 });
        assert_eq!(bytes.len(), 24);
    }

    #[test]
    fn another_structure_size_is_malformed() {
        let mut bytes = AppInstanceId { id: Guid([3; 16]) }.to_bytes();
        bytes[0] = 21;
        assert_eq!(AppInstanceId::decode(&bytes), Err(Malformed("StructureSize of APP_INSTANCE_ID")));
    }

    #[test]
    fn versions_compare_by_their_high_half_first() {
        assert!(AppInstanceVersion { high: 2, low: 0 } > AppInstanceVersion { high: 1, low: u64::MAX });
    }
}
