//! NEGOTIATE: the dialect and what both sides can do (MS-SMB2 2.2.3, 2.2.4).

use super::{body, length_u16, part};
use crate::codec::{Malformed, Writer};
use crate::context::negotiate::NegotiateContexts;
use crate::header::HEADER_LENGTH;
use crate::ids::{Dialect, FileTime, Guid};
use crate::list::U16List;

const REQUEST_SIZE: u16 = 36;
const RESPONSE_SIZE: u16 = 65;

flags! {
    /// SecurityMode. SESSION_SETUP has the same bits in one byte.
    SecurityMode(u16) {
        /// Signing is enabled.
        SIGNING_ENABLED = 0x0001,
        /// Signing is required.
        SIGNING_REQUIRED = 0x0002,
    }
}

flags! {
    /// Capabilities, of either side.
    Capabilities(u32) {
        /// Distributed File System.
        DFS = 0x0000_0001,
        /// Leases.
        LEASING = 0x0000_0002,
        /// Operations of several credits.
        LARGE_MTU = 0x0000_0004,
        /// Several channels a session.
        MULTI_CHANNEL = 0x0000_0008,
        /// Persistent handles.
        PERSISTENT_HANDLES = 0x0000_0010,
        /// Directory leases.
        DIRECTORY_LEASING = 0x0000_0020,
        /// Encryption, dialects 3.0 and 3.0.2 (3.1.1 negotiates it by context).
        ENCRYPTION = 0x0000_0040,
        /// Server-to-client notifications, dialect 3.1.1.
        NOTIFICATIONS = 0x0000_0080,
    }
}

/// SMB2 NEGOTIATE Request (2.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NegotiateRequest<'a> {
    /// What the client demands of signing.
    pub security_mode: SecurityMode,
    /// What the client can do; 0 below dialect 3.
    pub capabilities: Capabilities,
    /// Names the client across connections.
    pub client_guid: Guid,
    /// The dialects offered, perhaps none.
    pub dialects: U16List<'a, Dialect>,
    /// The contexts; only where dialect 3.1.1 is offered.
    pub contexts: NegotiateContexts<'a>,
}

impl<'a> NegotiateRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let dialect_count = reader.u16()?;
        let security_mode = SecurityMode(reader.u16()?);
        reader.skip(2)?;
        let capabilities = Capabilities(reader.u32()?);
        let client_guid = Guid::decode(&mut reader)?;
        let context_offset = reader.u32()?;
        let context_count = reader.u16()?;
        reader.skip(2)?;
        let dialects = U16List::decode(&mut reader, dialect_count)?;
        // Without 3.1.1 these eight bytes are ClientStartTime, which servers ignore.
        let contexts = match dialects.contains(Dialect::SMB_3_1_1) {
            true => NegotiateContexts::decode(message, context_offset, context_count)?,
            false => NegotiateContexts::default(),
        };
        Ok(NegotiateRequest { security_mode, capabilities, client_guid, dialects, contexts })
    }

    /// Appends the body. Contexts are written only where the dialects include 3.1.1.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u16(self.dialects.len() as u16);
        writer.u16(self.security_mode.0);
        writer.u16(0);
        writer.u32(self.capabilities.0);
        writer.bytes(&self.client_guid.0);
        let context_field = writer.position();
        writer.u64(0);
        self.dialects.encode(&mut writer);
        if self.dialects.contains(Dialect::SMB_3_1_1) {
            writer.align(8);
            writer.patch_u32(context_field, (HEADER_LENGTH + writer.position()) as u32);
            writer.patch_u16(context_field + 4, self.contexts.count());
            writer.bytes(self.contexts.as_bytes());
        }
    }
}

/// SMB2 NEGOTIATE Response (2.2.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct NegotiateResponse<'a> {
    /// What the server demands of signing.
    pub security_mode: SecurityMode,
    /// The dialect chosen.
    pub dialect: Dialect,
    /// Names the server.
    pub server_guid: Guid,
    /// What the server can do.
    pub capabilities: Capabilities,
    /// The longest buffer of QUERY_INFO, QUERY_DIRECTORY, SET_INFO and CHANGE_NOTIFY, in bytes.
    pub max_transact_size: u32,
    /// The longest READ in bytes.
    pub max_read_size: u32,
    /// The longest WRITE in bytes.
    pub max_write_size: u32,
    /// The server's time.
    pub system_time: FileTime,
    /// When the server started; 0 is usual.
    pub server_start_time: FileTime,
    /// The first SPNEGO token, perhaps empty. At most 65,535 bytes.
    pub security_buffer: &'a [u8],
    /// The contexts; only where `dialect` is 3.1.1.
    pub contexts: NegotiateContexts<'a>,
}

impl<'a> NegotiateResponse<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, RESPONSE_SIZE)?;
        let security_mode = SecurityMode(reader.u16()?);
        let dialect = Dialect(reader.u16()?);
        let context_count = reader.u16()?;
        let server_guid = Guid::decode(&mut reader)?;
        let capabilities = Capabilities(reader.u32()?);
        let max_transact_size = reader.u32()?;
        let max_read_size = reader.u32()?;
        let max_write_size = reader.u32()?;
        let system_time = FileTime(reader.u64()?);
        let server_start_time = FileTime(reader.u64()?);
        let security_offset = usize::from(reader.u16()?);
        let security_length = usize::from(reader.u16()?);
        let context_offset = reader.u32()?;
        let security_buffer = part(message, security_offset, security_length, "SecurityBuffer of NEGOTIATE")?;
        let contexts = match dialect {
            Dialect::SMB_3_1_1 => NegotiateContexts::decode(message, context_offset, context_count)?,
            _ => NegotiateContexts::default(),
        };
        Ok(NegotiateResponse {
            security_mode,
            dialect,
            server_guid,
            capabilities,
            max_transact_size,
            max_read_size,
            max_write_size,
            system_time,
            server_start_time,
            security_buffer,
            contexts,
        })
    }

    /// Appends the body. Contexts are written only where `dialect` is 3.1.1.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(RESPONSE_SIZE);
        writer.u16(self.security_mode.0);
        writer.u16(self.dialect.0);
        let count_field = writer.position();
        writer.u16(0);
        writer.bytes(&self.server_guid.0);
        writer.u32(self.capabilities.0);
        writer.u32(self.max_transact_size);
        writer.u32(self.max_read_size);
        writer.u32(self.max_write_size);
        writer.u64(self.system_time.0);
        writer.u64(self.server_start_time.0);
        writer.u16((HEADER_LENGTH + writer.position() + 8) as u16);
        writer.u16(length_u16(self.security_buffer));
        let context_field = writer.position();
        writer.u32(0);
        writer.bytes(self.security_buffer);
        if self.dialect == Dialect::SMB_3_1_1 {
            writer.align(8);
            writer.patch_u16(count_field, self.contexts.count());
            writer.patch_u32(context_field, (HEADER_LENGTH + writer.position()) as u32);
            writer.bytes(self.contexts.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::negotiate::{ContextType, NegotiateContextsBuilder, SigningAlgorithm, SigningCapabilities};

    const DIALECTS: [Dialect; 5] =
        [Dialect::SMB_2_0_2, Dialect::SMB_2_1, Dialect::SMB_3_0, Dialect::SMB_3_0_2, Dialect::SMB_3_1_1];

    fn contexts() -> NegotiateContextsBuilder {
        let signing = SigningCapabilities { algorithms: U16List::new(&[SigningAlgorithm::AES_GMAC]) };
        let mut builder = NegotiateContextsBuilder::new();
        builder.add(ContextType(0x77), |writer| writer.bytes(b"unknown"));
        builder.add(ContextType::SIGNING_CAPABILITIES, |writer| signing.encode(writer));
        builder
    }

    fn request<'a>(dialects: &'a [Dialect], contexts: &'a NegotiateContextsBuilder) -> NegotiateRequest<'a> {
        NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::LARGE_MTU | Capabilities::MULTI_CHANNEL,
            client_guid: Guid([3; 16]),
            dialects: U16List::new(dialects),
            contexts: contexts.contexts(),
        }
    }

    fn response<'a>(dialect: Dialect, contexts: &'a NegotiateContextsBuilder) -> NegotiateResponse<'a> {
        NegotiateResponse {
            security_mode: SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
            dialect,
            server_guid: Guid([4; 16]),
            capabilities: Capabilities::DFS,
            max_transact_size: 1,
            max_read_size: 2,
            max_write_size: 3,
            system_time: FileTime(4),
            server_start_time: FileTime(5),
            security_buffer: b"token",
            contexts: contexts.contexts(),
        }
    }

    #[test]
    fn requests_round_trip() {
        let (contexts, none) = (contexts(), NegotiateContextsBuilder::new());
        let message = check_message!(NegotiateRequest, request(&DIALECTS, &contexts));
        assert_eq!(message[92..96], 112_u32.to_le_bytes(), "contexts begin at a multiple of 8");
        check_message!(NegotiateRequest, request(&DIALECTS[..4], &none));
        check_message!(NegotiateRequest, NegotiateRequest::default());
    }

    #[test]
    fn responses_round_trip() {
        let (contexts, none) = (contexts(), NegotiateContextsBuilder::new());
        let message = check_message!(NegotiateResponse, response(Dialect::SMB_3_1_1, &contexts));
        assert_eq!(message[124..128], 136_u32.to_le_bytes(), "contexts begin at a multiple of 8");
        check_message!(NegotiateResponse, response(Dialect::SMB_2_1, &none));
    }

    #[test]
    fn the_client_start_time_of_older_dialects_is_ignored() {
        let contexts = NegotiateContextsBuilder::new();
        let mut message = crate::testing::message(|out| request(&DIALECTS[..4], &contexts).encode(out));
        message[92..100].fill(0xFF);
        assert_eq!(NegotiateRequest::decode(&message), Ok(request(&DIALECTS[..4], &contexts)));
    }

    #[test]
    fn a_dialect_count_beyond_the_message_is_malformed() {
        let mut message = crate::testing::message(|out| NegotiateRequest::default().encode(out));
        message[66] = 1;
        assert_eq!(NegotiateRequest::decode(&message), Err(Malformed("ends too early")));
    }

    /// The request of section 4.3.
    #[test]
    fn the_published_example_decodes() {
        let mut message = vec![0; HEADER_LENGTH];
        message.extend_from_slice(&[0x24, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        message.extend_from_slice(&[0; 24]);
        message.extend_from_slice(&[0x02, 0x02]);
        let expected = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            dialects: U16List::new(&DIALECTS[..1]),
            ..NegotiateRequest::default()
        };
        assert_eq!(NegotiateRequest::decode(&message), Ok(expected));
    }
}
