//! The create context of the SMB3 POSIX Extensions. MS-SMB2 2.2.13.2 reserves its name.

use crate::codec::{Malformed, Reader, Writer};

/// A request's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PosixRequest {
    /// The mode of a new file.
    pub mode: u32,
}

impl PosixRequest {
    /// Decodes a context's data.
    pub fn decode(data: &[u8]) -> Result<Self, Malformed> {
        Ok(PosixRequest { mode: Reader::new(data).u32()? })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> [u8; 4] {
        self.mode.to_le_bytes()
    }
}

/// A response's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PosixResponse<'a> {
    /// Hard links of the file.
    pub links: u32,
    /// Its reparse tag, or 0.
    pub reparse_tag: u32,
    /// Its mode.
    pub mode: u32,
    /// The SID of its owner and that of its group, one behind the other (MS-DTYP 2.4.2.2).
    pub sids: &'a [u8],
}

impl<'a> PosixResponse<'a> {
    /// Decodes a context's data.
    pub fn decode(data: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(data);
        Ok(PosixResponse { links: reader.u32()?, reparse_tag: reader.u32()?, mode: reader.u32()?, sids: reader.rest() })
    }

    /// The context's data.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut data = Vec::with_capacity(12 + self.sids.len());
        let mut writer = Writer::new(&mut data);
        writer.u32(self.links);
        writer.u32(self.reparse_tag);
        writer.u32(self.mode);
        writer.bytes(self.sids);
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_round_trip() {
        check_structure!(PosixRequest, PosixRequest { mode: 0o644 });
        let response = PosixResponse { links: 1, reparse_tag: 0, mode: 0o755, sids: b"sids" };
        assert_eq!(PosixResponse::decode(&response.to_bytes()), Ok(response));
        for length in 0..12 {
            assert!(PosixResponse::decode(&response.to_bytes()[..length]).is_err());
        }
    }
}
