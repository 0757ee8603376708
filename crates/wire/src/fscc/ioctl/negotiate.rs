//! The check that nobody changed NEGOTIATE on its way (MS-SMB2 2.2.31.4, 2.2.32.6).

use crate::codec::{Malformed, Reader, Writer, range};
use crate::command::negotiate::{Capabilities, SecurityMode};
use crate::ids::{Dialect, Guid};

/// VALIDATE_NEGOTIATE_INFO's request (MS-SMB2 2.2.31.4): what the client sent in NEGOTIATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidateNegotiate<'a> {
    /// The client's capabilities.
    pub capabilities: Capabilities,
    /// ClientGuid.
    pub client: Guid,
    /// The client's security mode.
    pub security_mode: SecurityMode,
    dialects: &'a [u8],
}

impl<'a> ValidateNegotiate<'a> {
    /// Reads it; every announced dialect must be there.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let capabilities = Capabilities(reader.u32()?);
        let client = Guid(reader.array()?);
        let security_mode = SecurityMode(reader.u16()?);
        let count = usize::from(reader.u16()?);
        let dialects = range(bytes, reader.position(), 2 * count, "DialectCount")?;
        Ok(ValidateNegotiate { capabilities, client, security_mode, dialects })
    }

    /// The dialects that the client offered.
    pub fn dialects(&self) -> impl Iterator<Item = Dialect> + 'a {
        self.dialects.chunks_exact(2).map(|bytes| Dialect(u16::from_le_bytes([bytes[0], bytes[1]])))
    }

    /// Appends a request to `out`.
    pub fn encode(
        capabilities: Capabilities,
        client: Guid,
        security_mode: SecurityMode,
        dialects: &[Dialect],
        out: &mut Vec<u8>,
    ) {
        let mut writer = Writer::new(out);
        writer.u32(capabilities.0);
        writer.bytes(&client.0);
        writer.u16(security_mode.0);
        writer.u16(dialects.len() as u16);
        dialects.iter().for_each(|dialect| writer.u16(dialect.0));
    }
}

newtype_field!(Capabilities => u32, SecurityMode => u16);

layout! {
    /// VALIDATE_NEGOTIATE_INFO's answer (MS-SMB2 2.2.32.6): what the server sent in NEGOTIATE.
    pub struct ValidateNegotiateResult {
        /// The server's capabilities.
        pub capabilities: Capabilities;
        /// ServerGuid.
        pub server: Guid;
        /// The server's security mode.
        pub security_mode: SecurityMode;
        /// The connection's dialect.
        pub dialect: Dialect;
    }
}
