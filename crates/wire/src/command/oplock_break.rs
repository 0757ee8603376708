//! OPLOCK_BREAK: the server takes back an oplock or a lease (MS-SMB2 2.2.23 to 2.2.25).
//!
//! The server's notification and the client's acknowledgment each come in two forms, told apart by StructureSize.

use super::create::OplockLevel;
use super::{body, length_mismatch};
use crate::codec::{Malformed, Reader, Writer};
use crate::context::lease::LeaseState;
use crate::header::HEADER_LENGTH;
use crate::ids::{FileId, Guid};

const OPLOCK_SIZE: u16 = 24;
const LEASE_NOTIFICATION_SIZE: u16 = 44;
const LEASE_ACKNOWLEDGMENT_SIZE: u16 = 36;

/// The form for oplocks, the same in all three messages (2.2.23.1, 2.2.24.1, 2.2.25.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct OplockBreak {
    /// Of a notification: the highest level still to be had. Of the others: the level that is left.
    pub oplock_level: OplockLevel,
    /// The open.
    pub file_id: FileId,
}

impl OplockBreak {
    fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, OPLOCK_SIZE)?;
        let oplock_level = OplockLevel(reader.u8()?);
        reader.skip(5)?;
        Ok(OplockBreak { oplock_level, file_id: FileId::decode(&mut reader)? })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(OPLOCK_SIZE);
        writer.u8(self.oplock_level.0);
        writer.zeros(5);
        self.file_id.encode(&mut writer);
    }
}

flags! {
    /// Flags of a lease break notification.
    LeaseBreakFlags(u32) {
        /// The client must acknowledge.
        ACK_REQUIRED = 0x0000_0001,
    }
}

/// Lease Break Notification (2.2.23.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeaseBreakNotification {
    /// The lease's new epoch, dialects 3.x; otherwise 0.
    pub new_epoch: u16,
    /// Whether to acknowledge.
    pub flags: LeaseBreakFlags,
    /// The lease.
    pub lease_key: Guid,
    /// What the client has.
    pub current_lease_state: LeaseState,
    /// What it may keep.
    pub new_lease_state: LeaseState,
}

impl LeaseBreakNotification {
    fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, LEASE_NOTIFICATION_SIZE)?;
        let notification = LeaseBreakNotification {
            new_epoch: reader.u16()?,
            flags: LeaseBreakFlags(reader.u32()?),
            lease_key: Guid::decode(&mut reader)?,
            current_lease_state: LeaseState(reader.u32()?),
            new_lease_state: LeaseState(reader.u32()?),
        };
        reader.skip(12)?;
        Ok(notification)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(LEASE_NOTIFICATION_SIZE);
        writer.u16(self.new_epoch);
        writer.u32(self.flags.0);
        writer.bytes(&self.lease_key.0);
        writer.u32(self.current_lease_state.0);
        writer.u32(self.new_lease_state.0);
        writer.zeros(12);
    }
}

/// Lease Break Acknowledgment and Lease Break Response, which have one form (2.2.24.2, 2.2.25.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeaseBreak {
    /// The lease.
    pub lease_key: Guid,
    /// What the client keeps.
    pub lease_state: LeaseState,
}

impl LeaseBreak {
    fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, LEASE_ACKNOWLEDGMENT_SIZE)?;
        reader.skip(6)?;
        let lease_key = Guid::decode(&mut reader)?;
        let lease_state = LeaseState(reader.u32()?);
        reader.skip(8)?;
        Ok(LeaseBreak { lease_key, lease_state })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(LEASE_ACKNOWLEDGMENT_SIZE);
        writer.zeros(6);
        writer.bytes(&self.lease_key.0);
        writer.u32(self.lease_state.0);
        writer.u64(0);
    }
}

/// SMB2 OPLOCK_BREAK Notification (2.2.23), from the server, unasked and with
/// [`crate::ids::MessageId::UNSOLICITED`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OplockBreakNotification {
    /// An oplock breaks.
    Oplock(OplockBreak),
    /// A lease breaks.
    Lease(LeaseBreakNotification),
}

impl OplockBreakNotification {
    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        match structure_size(message)? {
            OPLOCK_SIZE => OplockBreak::decode(message).map(OplockBreakNotification::Oplock),
            LEASE_NOTIFICATION_SIZE => LeaseBreakNotification::decode(message).map(OplockBreakNotification::Lease),
            _ => Err(length_mismatch()),
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            OplockBreakNotification::Oplock(oplock) => oplock.encode(out),
            OplockBreakNotification::Lease(lease) => lease.encode(out),
        }
    }
}

/// SMB2 OPLOCK_BREAK Acknowledgment (2.2.24), the client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OplockBreakRequest {
    /// Of an oplock.
    Oplock(OplockBreak),
    /// Of a lease.
    Lease(LeaseBreak),
}

impl OplockBreakRequest {
    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        match structure_size(message)? {
            OPLOCK_SIZE => OplockBreak::decode(message).map(OplockBreakRequest::Oplock),
            LEASE_ACKNOWLEDGMENT_SIZE => LeaseBreak::decode(message).map(OplockBreakRequest::Lease),
            _ => Err(length_mismatch()),
        }
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            OplockBreakRequest::Oplock(oplock) => oplock.encode(out),
            OplockBreakRequest::Lease(lease) => lease.encode(out),
        }
    }
}

/// SMB2 OPLOCK_BREAK Response (2.2.25): has the form of the acknowledgment that it answers.
pub type OplockBreakResponse = OplockBreakRequest;

fn structure_size(message: &[u8]) -> Result<u16, Malformed> {
    Reader::at(message, HEADER_LENGTH).u16()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPLOCK: OplockBreak =
        OplockBreak { oplock_level: OplockLevel::II, file_id: FileId { persistent: 1, volatile: 2 } };

    #[test]
    fn notifications_round_trip() {
        check_message!(OplockBreakNotification, OplockBreakNotification::Oplock(OPLOCK));
        let lease = LeaseBreakNotification {
            new_epoch: 3,
            flags: LeaseBreakFlags::ACK_REQUIRED,
            lease_key: Guid([4; 16]),
            current_lease_state: LeaseState::READ_CACHING | LeaseState::WRITE_CACHING,
            new_lease_state: LeaseState::READ_CACHING,
        };
        let message = check_message!(OplockBreakNotification, OplockBreakNotification::Lease(lease));
        assert_eq!(message.len(), 64 + 44);
    }

    #[test]
    fn acknowledgments_and_responses_round_trip() {
        let message = check_message!(OplockBreakRequest, OplockBreakRequest::Oplock(OPLOCK));
        assert_eq!(message.len(), 64 + 24);
        let lease = LeaseBreak { lease_key: Guid([4; 16]), lease_state: LeaseState::HANDLE_CACHING };
        let message = check_message!(OplockBreakResponse, OplockBreakResponse::Lease(lease));
        assert_eq!(message.len(), 64 + 36);
    }
}
