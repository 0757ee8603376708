//! TREE_CONNECT: from a session to a share (MS-SMB2 2.2.9, 2.2.10).

use super::{body, length_u16, part};
use crate::codec::{Malformed, Utf16, Writer};
use crate::header::HEADER_LENGTH;
use crate::security::access::AccessMask;

const REQUEST_SIZE: u16 = 9;
const RESPONSE_SIZE: u16 = 16;

flags! {
    /// Flags of a request, dialect 3.1.1; reserved in the others.
    TreeConnectFlags(u16) {
        /// The client was connected to this clustered share before.
        CLUSTER_RECONNECT = 0x0001,
        /// The client can follow a share redirect.
        REDIRECT_TO_OWNER = 0x0002,
        /// The buffer begins with a request extension (2.2.9.1).
        EXTENSION_PRESENT = 0x0004,
    }
}

numbers! {
    /// What kind of share it is.
    ShareType(u8) {
        /// Files.
        DISK = 0x01,
        /// Named pipes.
        PIPE = 0x02,
        /// A printer.
        PRINT = 0x03,
    }
}

flags! {
    /// Properties of a share.
    ShareFlags(u32) {
        /// Bits of the offline caching property. All clear: manual caching.
        CACHING_MASK = 0x0000_0030,
        /// Offline caching of files the user chose.
        MANUAL_CACHING = 0x0000_0000,
        /// Offline caching of files the user opens.
        AUTO_CACHING = 0x0000_0010,
        /// The same, and used offline even while the share is there.
        VDO_CACHING = 0x0000_0020,
        /// No offline caching.
        NO_CACHING = 0x0000_0030,
        /// In a DFS tree.
        DFS = 0x0000_0001,
        /// In a DFS root.
        DFS_ROOT = 0x0000_0002,
        /// No opens that deny reading.
        RESTRICT_EXCLUSIVE_OPENS = 0x0000_0100,
        /// No opens that deny deletion.
        FORCE_SHARED_DELETE = 0x0000_0200,
        /// Ignored by clients.
        ALLOW_NAMESPACE_CACHING = 0x0000_0400,
        /// Directory entries the user may not see are left out.
        ACCESS_BASED_DIRECTORY_ENUM = 0x0000_0800,
        /// No exclusive caching rights.
        FORCE_LEVELII_OPLOCK = 0x0000_1000,
        /// BranchCache hashes, version 1.
        ENABLE_HASH_V1 = 0x0000_2000,
        /// BranchCache hashes, version 2.
        ENABLE_HASH_V2 = 0x0000_4000,
        /// Messages for this share must be encrypted.
        ENCRYPT_DATA = 0x0000_8000,
        /// Identity remoting.
        IDENTITY_REMOTING = 0x0004_0000,
        /// Reads and writes may be compressed.
        COMPRESS_DATA = 0x0010_0000,
        /// Better on connections of its own.
        ISOLATED_TRANSPORT = 0x0020_0000,
    }
}

flags! {
    /// What a share can do.
    ShareCapabilities(u32) {
        /// In a DFS tree.
        DFS = 0x0000_0008,
        /// Continuously available.
        CONTINUOUS_AVAILABILITY = 0x0000_0010,
        /// On a scale-out cluster.
        SCALEOUT = 0x0000_0020,
        /// Watched by a witness.
        CLUSTER = 0x0000_0040,
        /// The owner may change.
        ASYMMETRIC = 0x0000_0080,
        /// The server may redirect.
        REDIRECT_TO_OWNER = 0x0000_0100,
    }
}

/// SMB2 TREE_CONNECT Request (2.2.9). The request extension (2.2.9.1) is passed over: its path is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TreeConnectRequest<'a> {
    /// How to connect.
    pub flags: TreeConnectFlags,
    /// `\\server\share`. At most 65,534 bytes.
    pub path: Utf16<'a>,
}

impl<'a> TreeConnectRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        let flags = TreeConnectFlags(reader.u16()?);
        let offset = usize::from(reader.u16()?);
        let length = usize::from(reader.u16()?);
        let path = Utf16::new(part(message, offset, length, "Path of TREE_CONNECT")?)?;
        Ok(TreeConnectRequest { flags, path })
    }

    /// Appends the body, without a request extension.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u16(self.flags.without(TreeConnectFlags::EXTENSION_PRESENT).0);
        writer.u16(HEADER_LENGTH as u16 + REQUEST_SIZE - 1);
        writer.u16(length_u16(self.path.as_bytes()));
        writer.bytes(self.path.as_bytes());
    }
}

/// SMB2 TREE_CONNECT Response (2.2.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TreeConnectResponse {
    /// What kind of share it is.
    pub share_type: ShareType,
    /// Its properties.
    pub share_flags: ShareFlags,
    /// What it can do.
    pub capabilities: ShareCapabilities,
    /// The most that the user may do in the share.
    pub maximal_access: AccessMask,
}

impl TreeConnectResponse {
    /// Decodes the body of `message`.
    pub fn decode(message: &[u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, RESPONSE_SIZE)?;
        let share_type = ShareType(reader.u8()?);
        reader.skip(1)?;
        Ok(TreeConnectResponse {
            share_type,
            share_flags: ShareFlags(reader.u32()?),
            capabilities: ShareCapabilities(reader.u32()?),
            maximal_access: AccessMask(reader.u32()?),
        })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(RESPONSE_SIZE);
        writer.u8(self.share_type.0);
        writer.u8(0);
        writer.u32(self.share_flags.0);
        writer.u32(self.capabilities.0);
        writer.u32(self.maximal_access.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::utf16_bytes;

    #[test]
    fn both_directions_round_trip() {
        let path = utf16_bytes(r"\server\share");
        let request =
            TreeConnectRequest { flags: TreeConnectFlags::CLUSTER_RECONNECT, path: Utf16::new(&path).unwrap() };
        let message = check_message!(TreeConnectRequest, request);
        assert_eq!(message[68..72], [72, 0, path.len() as u8, 0]);
        let response = TreeConnectResponse {
            share_type: ShareType::DISK,
            share_flags: ShareFlags::ENCRYPT_DATA | ShareFlags::NO_CACHING,
            capabilities: ShareCapabilities::CONTINUOUS_AVAILABILITY,
            maximal_access: crate::security::access::FILE_ALL.into(),
        };
        check_message!(TreeConnectResponse, response);
    }

    #[test]
    fn a_path_behind_a_request_extension_decodes() {
        let path = utf16_bytes(r"\s\x");
        let mut message = vec![0; HEADER_LENGTH];
        message.extend_from_slice(&[9, 0, 4, 0, 88, 0, path.len() as u8, 0]);
        message.extend_from_slice(&[0; 16]);
        message.extend_from_slice(&path);
        let request = TreeConnectRequest::decode(&message).unwrap();
        assert_eq!(request.flags, TreeConnectFlags::EXTENSION_PRESENT);
        assert_eq!(request.path.decode().as_deref(), Some(r"\s\x"));
    }

    #[test]
    fn a_path_of_odd_length_is_malformed() {
        let mut message = crate::testing::message(|out| TreeConnectRequest::default().encode(out));
        message[70] = 1;
        message.push(b'x');
        assert_eq!(TreeConnectRequest::decode(&message), Err(Malformed("text has an odd length")));
    }
}
