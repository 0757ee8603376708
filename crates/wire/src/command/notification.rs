//! SERVER_TO_CLIENT_NOTIFICATION: the server tells something unasked, dialect 3.1.1 (MS-SMB2 2.2.44).

use crate::codec::{Malformed, Reader, Writer};
use crate::header::HEADER_LENGTH;

/// "The size of the SMB2_SERVER_TO_CLIENT_NOTIFICATION structure": the fixed part and the four bytes of a SessionClosed
/// notification. The example of section 4.11 says 0x12, so receivers do not check it.
const STRUCTURE_SIZE: u16 = 12;

numbers! {
    /// What is told.
    NotificationType(u32) {
        /// SmbNotifySessionClosed: the session of the header was closed by the server.
        SESSION_CLOSED = 0x0000_0000,
    }
}

/// SMB2_SERVER_TO_CLIENT_NOTIFICATION (2.2.44.1) with the one notification there is, SMB2_NOTIFY_SESSION_CLOSED
/// (2.2.44.2), whose four bytes are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ServerToClientNotification {
    /// What is told.
    pub notification_type: NotificationType,
}

impl ServerToClientNotification {
    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::at(message, HEADER_LENGTH);
        reader.skip(4)?;
        Ok(ServerToClientNotification { notification_type: NotificationType(reader.u32()?) })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(STRUCTURE_SIZE);
        writer.u16(0);
        writer.u32(self.notification_type.0);
        writer.u32(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_round_trip_and_truncated_ones_are_malformed() {
        let notification = ServerToClientNotification { notification_type: NotificationType(9) };
        let message = crate::testing::message(|out| notification.encode(out));
        assert_eq!(ServerToClientNotification::decode(&message), Ok(notification));
        for length in 0..HEADER_LENGTH + 8 {
            assert!(ServerToClientNotification::decode(&message[..length]).is_err());
        }
    }
}
