//! The 64-byte header of every SMB2 message (MS-SMB2 2.2.1).
//!
//! ```text
//! offset size  field
//!      0    4  ProtocolId         FE 'S' 'M' 'B'
//!      4    2  StructureSize      64
//!      6    2  CreditCharge
//!      8    4  Status             in requests of 3.x: ChannelSequence (2), Reserved (2)
//!     12    2  Command
//!     14    2  CreditRequest / CreditResponse
//!     16    4  Flags
//!     20    4  NextCommand        offset of the next message of a compound, 0 in the last
//!     24    8  MessageId
//!     32    8  AsyncId, or Reserved (4) and TreeId (4)
//!     40    8  SessionId
//!     48   16  Signature
//! ```

use crate::codec::{Malformed, Reader};
use crate::ids::{AsyncId, Command, MessageId, SessionId, TreeId};
use crate::status::Status;

/// The header's length in bytes, and its StructureSize.
pub const HEADER_LENGTH: usize = 64;

/// The first four bytes of an SMB2 message.
pub const PROTOCOL_ID: [u8; 4] = [0xFE, b'S', b'M', b'B'];

/// Where the Status field stands.
pub const STATUS_OFFSET: usize = 8;

/// Where the Flags field stands.
pub const FLAGS_OFFSET: usize = 16;

/// Where the NextCommand field stands.
pub const NEXT_COMMAND_OFFSET: usize = 20;

/// Where the 16 bytes of the signature stand.
pub const SIGNATURE_OFFSET: usize = 48;

flags! {
    /// The header's Flags (2.2.1.1).
    Flags(u32) {
        /// The message is a response.
        SERVER_TO_REDIR = 0x0000_0001,
        /// The header carries an AsyncId in place of a TreeId.
        ASYNC_COMMAND = 0x0000_0002,
        /// The request belongs to the one before it in the compound.
        RELATED_OPERATIONS = 0x0000_0004,
        /// The message is signed.
        SIGNED = 0x0000_0008,
        /// The three bits of the I/O priority, dialect 3.1.1.
        PRIORITY_MASK = 0x0000_0070,
        /// The operation is a DFS operation.
        DFS_OPERATIONS = 0x1000_0000,
        /// The request is a replay of one that was sent before, dialects 3.x.
        REPLAY_OPERATION = 0x2000_0000,
    }
}

/// What the eight bytes at offset 32 say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// SMB2 Packet Header - SYNC (2.2.1.2).
    Sync {
        /// The tree connect that the message is for; 0 where there is none.
        tree_id: TreeId,
    },
    /// SMB2 Packet Header - ASYNC (2.2.1.1).
    Async(AsyncId),
}

impl Default for Route {
    fn default() -> Self {
        Route::Sync { tree_id: TreeId(0) }
    }
}

/// A decoded header. Reserved fields are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Header {
    /// Credits that the request costs. 0 counts as 1.
    pub credit_charge: u16,
    /// Of a response: its outcome. Of a request: see [`Header::channel_sequence`].
    pub status: Status,
    /// What is asked or answered.
    pub command: Command,
    /// CreditRequest of a request, CreditResponse of a response.
    pub credits: u16,
    /// The flags. [`Flags::ASYNC_COMMAND`] always agrees with `route`.
    pub flags: Flags,
    /// Bytes from this header to the next one of the compound; 0 in the last message.
    pub next_command: u32,
    /// The request's number; a response repeats it.
    pub message_id: MessageId,
    /// The tree connect, or the id of an asynchronous exchange.
    pub route: Route,
    /// The session; 0 where there is none yet.
    pub session_id: SessionId,
    /// The signature; zero in an unsigned message.
    pub signature: [u8; 16],
}

impl Header {
    /// Decodes the header that `message` begins with; the message may go on behind it.
    ///
    /// Malformed where fewer than 64 bytes are there, or ProtocolId or StructureSize is wrong.
    pub fn decode(message: &[u8]) -> Result<Header, Malformed> {
        let mut reader = Reader::new(message.get(..HEADER_LENGTH).ok_or(Malformed("shorter than an SMB2 header"))?);
        if reader.array()? != PROTOCOL_ID {
            return Err(Malformed("ProtocolId of the header"));
        }
        if usize::from(reader.u16()?) != HEADER_LENGTH {
            return Err(Malformed("StructureSize of the header"));
        }
        let credit_charge = reader.u16()?;
        let status = Status(reader.u32()?);
        let command = Command(reader.u16()?);
        let credits = reader.u16()?;
        let flags = Flags(reader.u32()?);
        let next_command = reader.u32()?;
        let message_id = MessageId(reader.u64()?);
        let route = if flags.contains(Flags::ASYNC_COMMAND) {
            Route::Async(AsyncId(reader.u64()?))
        } else {
            reader.skip(4)?;
            Route::Sync { tree_id: TreeId(reader.u32()?) }
        };
        let session_id = SessionId(reader.u64()?);
        let signature = reader.array()?;
        Ok(Header {
            credit_charge,
            status,
            command,
            credits,
            flags,
            next_command,
            message_id,
            route,
            session_id,
            signature,
        })
    }

    /// The header's bytes. [`Flags::ASYNC_COMMAND`] is set or cleared to agree with `route`.
    pub fn to_bytes(&self) -> [u8; HEADER_LENGTH] {
        let (flags, route) = match self.route {
            Route::Sync { tree_id } => (self.flags.without(Flags::ASYNC_COMMAND), u64::from(tree_id.0) << 32),
            Route::Async(async_id) => (self.flags | Flags::ASYNC_COMMAND, async_id.0),
        };
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..4].copy_from_slice(&PROTOCOL_ID);
        bytes[4..6].copy_from_slice(&(HEADER_LENGTH as u16).to_le_bytes());
        bytes[6..8].copy_from_slice(&self.credit_charge.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.status.0.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.command.0.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.credits.to_le_bytes());
        bytes[16..20].copy_from_slice(&flags.0.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.next_command.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.message_id.0.to_le_bytes());
        bytes[32..40].copy_from_slice(&route.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.session_id.0.to_le_bytes());
        bytes[48..].copy_from_slice(&self.signature);
        bytes
    }

    /// The tree connect; 0 in an asynchronous message.
    pub fn tree_id(&self) -> TreeId {
        match self.route {
            Route::Sync { tree_id } => tree_id,
            Route::Async(_) => TreeId(0),
        }
    }

    /// Of a request of dialect 3.x: the number of the channel change it follows (2.2.1.2), kept where a response has
    /// the low half of its status.
    pub fn channel_sequence(&self) -> u16 {
        self.status.0 as u16
    }

    /// Sets the channel sequence of a request.
    pub fn set_channel_sequence(&mut self, channel_sequence: u16) {
        self.status = Status(u32::from(channel_sequence));
    }

    /// True for a response.
    pub fn is_response(&self) -> bool {
        self.flags.contains(Flags::SERVER_TO_REDIR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The final SESSION_SETUP response of a session, as a server sends it.
    #[rustfmt::skip]
    const RESPONSE: [u8; 64] = [
        0xFE, b'S', b'M', b'B', 64, 0, 1, 0, 0x22, 0, 0, 0xC0, 1, 0, 31, 0,
        0x09, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
        0xFF, 0xFE, 0, 0, 5, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
    ];

    #[test]
    fn fields_stand_where_the_specification_has_them() {
        let header = Header::decode(&RESPONSE).unwrap();
        assert_eq!(header.credit_charge, 1);
        assert_eq!(header.status, Status::ACCESS_DENIED);
        assert_eq!(header.command, Command::SESSION_SETUP);
        assert_eq!(header.credits, 31);
        assert_eq!(header.flags, Flags::SERVER_TO_REDIR | Flags::SIGNED);
        assert!(header.is_response());
        assert_eq!(header.message_id, MessageId(2));
        assert_eq!(header.tree_id(), TreeId(5));
        assert_eq!(header.session_id, SessionId(0x8877_6655_4433_2211));
        assert_eq!(header.signature[15], 16);
        let mut expected = RESPONSE;
        expected[32..36].fill(0);
        assert_eq!(header.to_bytes(), expected, "only the reserved field differs");
    }

    #[test]
    fn an_asynchronous_header_has_no_tree() {
        let header = Header { route: Route::Async(AsyncId(0x1122_3344_5566_7788)), ..Header::default() };
        let bytes = header.to_bytes();
        assert_eq!(bytes[FLAGS_OFFSET], 2);
        let decoded = Header::decode(&bytes).unwrap();
        assert_eq!(decoded.route, header.route);
        assert_eq!(decoded.tree_id(), TreeId(0));
    }

    #[test]
    fn the_channel_sequence_is_where_responses_have_the_status() {
        let mut header = Header::default();
        header.set_channel_sequence(0xABCD);
        assert_eq!(header.to_bytes()[STATUS_OFFSET..STATUS_OFFSET + 4], [0xCD, 0xAB, 0, 0]);
        assert_eq!(header.channel_sequence(), 0xABCD);
    }

    #[test]
    fn truncated_headers_and_other_protocols_are_malformed() {
        for length in 0..HEADER_LENGTH {
            assert_eq!(Header::decode(&RESPONSE[..length]), Err(Malformed("shorter than an SMB2 header")));
        }
        for first in [0xFD, 0xFC, 0xFF, 0] {
            let mut bytes = RESPONSE;
            bytes[0] = first;
            assert_eq!(Header::decode(&bytes), Err(Malformed("ProtocolId of the header")));
        }
        let mut bytes = RESPONSE;
        bytes[5] = 1;
        assert_eq!(Header::decode(&bytes), Err(Malformed("StructureSize of the header")));
    }

    prop_compose! {
        fn any_header()(
            (credit_charge, status, command, credits) in any::<(u16, u32, u16, u16)>(),
            (flags, next_command, message_id) in any::<(u32, u32, u64)>(),
            route in prop_oneof![
                any::<u64>().prop_map(|id| Route::Async(AsyncId(id))),
                any::<u32>().prop_map(|id| Route::Sync { tree_id: TreeId(id) }),
            ],
            session_id in any::<u64>(),
            signature in any::<[u8; 16]>(),
        ) -> Header {
            let flags = match route {
                Route::Async(_) => Flags(flags) | Flags::ASYNC_COMMAND,
                Route::Sync { .. } => Flags(flags).without(Flags::ASYNC_COMMAND),
            };
            Header {
                credit_charge,
                status: Status(status),
                command: Command(command),
                credits,
                flags,
                next_command,
                message_id: MessageId(message_id),
                route,
                session_id: SessionId(session_id),
                signature,
            }
        }
    }

    proptest! {
        #[test]
        fn headers_round_trip(header in any_header()) {
            prop_assert_eq!(Header::decode(&header.to_bytes()), Ok(header));
        }
    }
}
