//! FLUSH: brings what was written to the storage (MS-SMB2 2.2.17, 2.2.18).

use super::{body, empty_body};
use crate::codec::{Malformed, Writer};
use crate::ids::FileId;

const REQUEST_SIZE: u16 = 24;

/// SMB2 FLUSH Request (2.2.17).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FlushRequest {
    /// Reserved1. Clients of Apple's protocol set it to 0xFFFF for a flush down to the medium.
    pub reserved1: u16,
    /// The open.
    pub file_id: FileId,
}

impl FlushRequest {
    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let reserved1 = reader.u16()?;
        reader.skip(4)?;
        Ok(FlushRequest { reserved1, file_id: FileId::decode(&mut reader)? })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u16(self.reserved1);
        writer.u32(0);
        self.file_id.encode(&mut writer);
    }
}

empty_body! {
    /// SMB2 FLUSH Response (2.2.18).
    FlushResponse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_round_trip() {
        check_message!(
            FlushRequest,
            FlushRequest { reserved1: 0xFFFF, file_id: FileId { persistent: 1, volatile: 2 } }
        );
        check_message!(FlushResponse, FlushResponse);
    }
}
