//! Small controls of fixed length.

use crate::codec::{Malformed, Reader};
use crate::ids::Guid;

layout! {
    /// FSCTL_GET_COMPRESSION's answer and FSCTL_SET_COMPRESSION's request (MS-FSCC 2.3.18, 2.3.67).
    pub struct Compression {
        /// 0 for none, 1 for the default, 2 for LZNT1.
        pub format: u16;
    }

    /// FSCTL_SET_INTEGRITY_INFORMATION's request (MS-FSCC 2.3.73).
    pub struct Integrity {
        /// 0 for none, 1 for CRC32, 2 for CRC64, 0xFFFF for no change.
        pub algorithm: u16, reserved 2;
        /// Bit 0: a wrong checksum does not fail the read.
        pub flags: u32;
    }

    /// FSCTL_GET_INTEGRITY_INFORMATION's answer (MS-FSCC 2.3.20).
    pub struct IntegrityState {
        /// 0 for none, 1 for CRC32, 2 for CRC64.
        pub algorithm: u16, reserved 2;
        /// Bit 0: a wrong checksum does not fail the read.
        pub flags: u32;
        /// Bytes under one checksum.
        pub chunk_bytes: u32;
        /// Bytes in a cluster.
        pub cluster_bytes: u32;
    }

    /// FSCTL_LMR_REQUEST_RESILIENCY's request (MS-SMB2 2.2.31.3).
    pub struct Resiliency {
        /// How long to keep the open after a disconnect, in milliseconds.
        pub timeout_milliseconds: u32, reserved 4;
    }

    /// FILE_OBJECTID_BUFFER (MS-FSCC 2.1.3.1): FSCTL_CREATE_OR_GET_OBJECT_ID and FSCTL_GET_OBJECT_ID answer with it.
    pub struct ObjectId {
        /// Names the file on its volume.
        pub object: Guid;
        /// The volume it was made on.
        pub birth_volume: Guid;
        /// The identifier it was made with.
        pub birth_object: Guid;
        /// Zero.
        pub domain: Guid;
    }
}

/// Reads FSCTL_SET_SPARSE's request (MS-FSCC 2.3.83). An empty one makes the file sparse.
pub fn decode_set_sparse(bytes: &[u8]) -> Result<bool, Malformed> {
    Ok(bytes.is_empty() || Reader::new(bytes).u8()? != 0)
}

/// Appends FSCTL_SET_SPARSE's request (MS-FSCC 2.3.83) to `out`.
pub fn encode_set_sparse(sparse: bool, out: &mut Vec<u8>) {
    out.push(u8::from(sparse));
}
