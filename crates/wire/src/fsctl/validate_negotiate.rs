//! VALIDATE_NEGOTIATE_INFO: the client repeats its NEGOTIATE, signed, so that both sides see whether someone changed it
//! on the way; dialects 3.0 and 3.0.2 (MS-SMB2 2.2.31.4, 2.2.32.6).

use crate::codec::{Malformed, Reader, Writer};
use crate::command::negotiate::{Capabilities, SecurityMode};
use crate::ids::{Dialect, Guid};
use crate::list::U16List;

/// VALIDATE_NEGOTIATE_INFO Request (2.2.31.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ValidateNegotiateRequest<'a> {
    /// As in NEGOTIATE.
    pub capabilities: Capabilities,
    /// As in NEGOTIATE.
    pub client_guid: Guid,
    /// As in NEGOTIATE.
    pub security_mode: SecurityMode,
    /// As in NEGOTIATE.
    pub dialects: U16List<'a, Dialect>,
}

impl<'a> ValidateNegotiateRequest<'a> {
    /// Decodes the input.
    pub fn decode(input: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(input);
        let capabilities = Capabilities(reader.u32()?);
        let client_guid = Guid::decode(&mut reader)?;
        let security_mode = SecurityMode(reader.u16()?);
        let count = reader.u16()?;
        let dialects = U16List::decode(&mut reader, count)?;
        Ok(ValidateNegotiateRequest { capabilities, client_guid, security_mode, dialects })
    }

    /// Appends the input.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u32(self.capabilities.0);
        writer.bytes(&self.client_guid.0);
        writer.u16(self.security_mode.0);
        writer.u16(self.dialects.len() as u16);
        self.dialects.encode(&mut writer);
    }
}

/// VALIDATE_NEGOTIATE_INFO Response (2.2.32.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ValidateNegotiateResponse {
    /// As in NEGOTIATE.
    pub capabilities: Capabilities,
    /// As in NEGOTIATE.
    pub server_guid: Guid,
    /// As in NEGOTIATE.
    pub security_mode: SecurityMode,
    /// The dialect in use.
    pub dialect: Dialect,
}

impl ValidateNegotiateResponse {
    /// Decodes the output.
    pub fn decode(output: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(output);
        Ok(ValidateNegotiateResponse {
            capabilities: Capabilities(reader.u32()?),
            server_guid: Guid::decode(&mut reader)?,
            security_mode: SecurityMode(reader.u16()?),
            dialect: Dialect(reader.u16()?),
        })
    }

    /// Appends the output.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u32(self.capabilities.0);
        writer.bytes(&self.server_guid.0);
        writer.u16(self.security_mode.0);
        writer.u16(self.dialect.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_round_trip_and_truncated_ones_are_malformed() {
        let dialects = [Dialect::SMB_2_1, Dialect::SMB_3_0_2];
        let request = ValidateNegotiateRequest {
            capabilities: Capabilities::DFS | Capabilities::LEASING,
            client_guid: Guid([1; 16]),
            security_mode: SecurityMode::SIGNING_ENABLED,
            dialects: U16List::new(&dialects),
        };
        let mut input = Vec::new();
        request.encode(&mut input);
        assert_eq!(ValidateNegotiateRequest::decode(&input), Ok(request));
        for length in 0..input.len() {
            assert!(ValidateNegotiateRequest::decode(&input[..length]).is_err());
        }

        let response = ValidateNegotiateResponse { dialect: Dialect::SMB_3_0_2, ..Default::default() };
        let mut output = Vec::new();
        response.encode(&mut output);
        assert_eq!(ValidateNegotiateResponse::decode(&output), Ok(response));
        for length in 0..output.len() {
            assert!(ValidateNegotiateResponse::decode(&output[..length]).is_err());
        }
    }
}
