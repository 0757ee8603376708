//! SESSION_SETUP: a step of authentication, or the binding of a session to one more channel (MS-SMB2 2.2.5, 2.2.6).

use super::negotiate::{Capabilities, SecurityMode};
use super::{body, length_u16, part};
use crate::codec::{Malformed, Writer};
use crate::header::HEADER_LENGTH;
use crate::ids::SessionId;

const REQUEST_SIZE: u16 = 25;
const RESPONSE_SIZE: u16 = 9;

flags! {
    /// Flags of a request.
    SessionSetupFlags(u8) {
        /// Bind an existing session to this connection.
        BINDING = 0x01,
    }
}

flags! {
    /// SessionFlags of a response.
    SessionFlags(u16) {
        /// The user is a guest.
        IS_GUEST = 0x0001,
        /// The user is anonymous.
        IS_NULL = 0x0002,
        /// Messages of this session must be encrypted.
        ENCRYPT_DATA = 0x0004,
    }
}

/// SMB2 SESSION_SETUP Request (2.2.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SessionSetupRequest<'a> {
    /// Whether this binds a session.
    pub flags: SessionSetupFlags,
    /// What the client demands of signing; one byte on the wire.
    pub security_mode: SecurityMode,
    /// Of the capabilities only DFS has a meaning here.
    pub capabilities: Capabilities,
    /// A session of an earlier connection that this one replaces; 0 for none.
    pub previous_session_id: SessionId,
    /// The authentication token. At most 65,535 bytes.
    pub security_buffer: &'a [u8],
}

impl<'a> SessionSetupRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let flags = SessionSetupFlags(reader.u8()?);
        let security_mode = SecurityMode(u16::from(reader.u8()?));
        let capabilities = Capabilities(reader.u32()?);
        reader.skip(4)?;
        let offset = usize::from(reader.u16()?);
        let length = usize::from(reader.u16()?);
        let previous_session_id = SessionId(reader.u64()?);
        let security_buffer = part(message, offset, length, "SecurityBuffer of SESSION_SETUP")?;
        Ok(SessionSetupRequest { flags, security_mode, capabilities, previous_session_id, security_buffer })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u8(self.flags.0);
        writer.u8(self.security_mode.0 as u8);
        writer.u32(self.capabilities.0);
        writer.u32(0);
        writer.u16(HEADER_LENGTH as u16 + REQUEST_SIZE - 1);
        writer.u16(length_u16(self.security_buffer));
        writer.u64(self.previous_session_id.0);
        writer.bytes(self.security_buffer);
    }
}

/// SMB2 SESSION_SETUP Response (2.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SessionSetupResponse<'a> {
    /// Who the user turned out to be.
    pub session_flags: SessionFlags,
    /// The authentication token. At most 65,535 bytes.
    pub security_buffer: &'a [u8],
}

impl<'a> SessionSetupResponse<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, RESPONSE_SIZE)?;
        let session_flags = SessionFlags(reader.u16()?);
        let offset = usize::from(reader.u16()?);
        let length = usize::from(reader.u16()?);
        let security_buffer = part(message, offset, length, "SecurityBuffer of SESSION_SETUP")?;
        Ok(SessionSetupResponse { session_flags, security_buffer })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(RESPONSE_SIZE);
        writer.u16(self.session_flags.0);
        writer.u16(HEADER_LENGTH as u16 + RESPONSE_SIZE - 1);
        writer.u16(length_u16(self.security_buffer));
        writer.bytes(self.security_buffer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_round_trip() {
        let request = SessionSetupRequest {
            flags: SessionSetupFlags::BINDING,
            security_mode: SecurityMode::SIGNING_REQUIRED,
            capabilities: Capabilities::DFS,
            previous_session_id: SessionId(u64::MAX),
            security_buffer: b"token",
        };
        let message = check_message!(SessionSetupRequest, request);
        assert_eq!(message[76..80], [88, 0, 5, 0]);
        let response = SessionSetupResponse { session_flags: SessionFlags::IS_GUEST, security_buffer: b"token" };
        let message = check_message!(SessionSetupResponse, response);
        assert_eq!(message[68..72], [72, 0, 5, 0]);
    }

    #[test]
    fn the_offset_of_an_empty_token_does_not_matter() {
        let mut message = crate::testing::message(|out| SessionSetupRequest::default().encode(out));
        for offset in [0_u16, 5, 0xFFFF] {
            message[76..78].copy_from_slice(&offset.to_le_bytes());
            assert_eq!(SessionSetupRequest::decode(&message), Ok(SessionSetupRequest::default()));
        }
    }

    #[test]
    fn a_token_inside_the_header_is_malformed() {
        let request = SessionSetupRequest { security_buffer: b"token", ..Default::default() };
        let mut message = crate::testing::message(|out| request.encode(out));
        message[76] = 63;
        assert_eq!(SessionSetupRequest::decode(&message), Err(Malformed("SecurityBuffer of SESSION_SETUP")));
    }
}
