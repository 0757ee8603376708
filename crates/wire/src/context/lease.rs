//! The lease that a CREATE asks for and is granted: RqLs, versions 1 and 2 (MS-SMB2 2.2.13.2.8, 2.2.13.2.10,
//! 2.2.14.2.10, 2.2.14.2.11).
//!
//! ```text
//! offset size  field
//!      0   16  LeaseKey
//!     16    4  LeaseState
//!     20    4  Flags
//!     24    8  LeaseDuration   reserved
//!     32   16  ParentLeaseKey  from here on version 2
//!     48    2  Epoch
//!     50    2  Reserved
//! ```

use crate::codec::{Malformed, Reader, Writer};
use crate::ids::Guid;

flags! {
    /// What a lease lets its client cache.
    LeaseState(u32) {
        /// Reads.
        READ_CACHING = 0x0000_0001,
        /// Opens: closes may be delayed.
        HANDLE_CACHING = 0x0000_0002,
        /// Writes.
        WRITE_CACHING = 0x0000_0004,
    }
}

flags! {
    /// Flags of a lease.
    LeaseFlags(u32) {
        /// Responses: the lease is being broken.
        BREAK_IN_PROGRESS = 0x0000_0002,
        /// Version 2: the parent's key is there.
        PARENT_LEASE_KEY_SET = 0x0000_0004,
    }
}

/// What version 2 adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeaseV2 {
    /// The lease of the parent directory, where [`LeaseFlags::PARENT_LEASE_KEY_SET`].
    pub parent_lease_key: Guid,
    /// Counts changes of the lease's state.
    pub epoch: u16,
}

/// A lease asked for or granted. Requests and responses have one form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Lease {
    /// Names the lease; chosen by the client.
    pub lease_key: Guid,
    /// What is asked for or granted.
    pub lease_state: LeaseState,
    /// Flags.
    pub flags: LeaseFlags,
    /// There in version 2.
    pub v2: Option<LeaseV2>,
}

impl Lease {
    const V1_LENGTH: usize = 32;
    const V2_LENGTH: usize = 52;

    /// Decodes a context's data, whose length tells the version.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        let lease_key = Guid::decode(&mut reader)?;
        let lease_state = LeaseState(reader.u32()?);
        let flags = LeaseFlags(reader.u32()?);
        reader.skip(8)?;
        let v2 = match data.len() {
            Lease::V1_LENGTH => None,
            Lease::V2_LENGTH => Some(LeaseV2 { parent_lease_key: Guid::decode(&mut reader)?, epoch: reader.u16()? }),
            _ => return Err(Malformed("length of a lease context")),
        };
        Ok(Lease { lease_key, lease_state, flags, v2 })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(Lease::V2_LENGTH);
        let mut writer = Writer::new(&mut data);
        writer.bytes(&self.lease_key.0);
        writer.u32(self.lease_state.0);
        writer.u32(self.flags.0);
        writer.u64(0);
        if let Some(v2) = &self.v2 {
            writer.bytes(&v2.parent_lease_key.0);
            writer.u16(v2.epoch);
            writer.u16(0);
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_round_trip() {
        let lease = Lease {
            lease_key: Guid([1; 16]),
            lease_state: LeaseState::READ_CACHING | LeaseState::HANDLE_CACHING,
            flags: LeaseFlags::PARENT_LEASE_KEY_SET,
            v2: Some(LeaseV2 { parent_lease_key: Guid([2; 16]), epoch: 0x0304 }),
        };
        let v1 = Lease { v2: None, ..lease };
        assert_eq!(Lease::decode(&v1.to_bytes()), Ok(v1));
        assert_eq!(Lease::decode(&lease.to_bytes()), Ok(lease));
        assert_eq!((v1.to_bytes().len(), lease.to_bytes().len()), (32, 52));
    }

    #[test]
    fn other_lengths_are_malformed() {
        for length in (0..80).filter(|length| ![32, 52].contains(length)) {
            assert!(Lease::decode(&[0; 80][..length]).is_err(), "{length}");
        }
    }
}
