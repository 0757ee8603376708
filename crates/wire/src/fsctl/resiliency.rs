//! LMR_REQUEST_RESILIENCY: keep an open over a short disconnection (MS-SMB2 2.2.31.3). No output.

use crate::codec::{Malformed, Reader};

/// NETWORK_RESILIENCY_REQUEST (2.2.31.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ResiliencyRequest {
    /// How long to keep it, in milliseconds.
    pub timeout_milliseconds: u32,
}

impl ResiliencyRequest {
    /// Decodes the input.
    pub fn decode(input: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(input);
        let timeout_milliseconds = reader.u32()?;
        reader.skip(4)?;
        Ok(ResiliencyRequest { timeout_milliseconds })
    }

    /// The input.
    pub fn to_bytes(&self) -> [u8; 8] {
        u64::from(self.timeout_milliseconds).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_round_trip_and_truncated_ones_are_malformed() {
        let request = ResiliencyRequest { timeout_milliseconds: 300_000 };
        assert_eq!(ResiliencyRequest::decode(&request.to_bytes()), Ok(request));
        for length in 0..8 {
            assert!(ResiliencyRequest::decode(&request.to_bytes()[..length]).is_err());
        }
    }
}
