//! IOCTL: everything else (MS-SMB2 2.2.31, 2.2.32). What goes in and
//! comes out is in [`crate::fscc::ioctl`].

use super::{body, length_u32, part};
use crate::codec::{Malformed, Writer};
use crate::header::HEADER_LENGTH;
use crate::ids::FileId;

const REQUEST_SIZE: u16 = 57;
const RESPONSE_SIZE: u16 = 49;

/// Where the buffer of a request begins.
const REQUEST_BUFFER_OFFSET: u32 = 120;

/// The length of a response's fixed part in bytes.
pub const IOCTL_RESPONSE_FIXED_LENGTH: usize = 48;

numbers! {
    /// A control code (2.2.31, MS-FSCC 2.3). Names leave out `FSCTL_`.
    CtlCode(u32) {
        /// DFS referrals.
        DFS_GET_REFERRALS = 0x0006_0194,
        /// DFS referrals, extended.
        DFS_GET_REFERRALS_EX = 0x0006_01B0,
        /// Local oplock request.
        REQUEST_OPLOCK_LEVEL_1 = 0x0009_0000,
        /// Local oplock request.
        REQUEST_OPLOCK_LEVEL_2 = 0x0009_0004,
        /// Local oplock request.
        REQUEST_BATCH_OPLOCK = 0x0009_0008,
        /// Local oplock request.
        REQUEST_FILTER_OPLOCK = 0x0009_005C,
        /// Local oplock request.
        REQUEST_OPLOCK = 0x0009_0240,
        /// Locks a volume.
        LOCK_VOLUME = 0x0009_0018,
        /// Unlocks a volume.
        UNLOCK_VOLUME = 0x0009_001C,
        /// Dismounts a volume.
        DISMOUNT_VOLUME = 0x0009_0020,
        /// Whether a volume is mounted.
        IS_VOLUME_MOUNTED = 0x0009_0028,
        /// Whether a path could exist.
        IS_PATHNAME_VALID = 0x0009_002C,
        /// How a file is compressed.
        GET_COMPRESSION = 0x0009_003C,
        /// Compresses a file or not.
        SET_COMPRESSION = 0x0009_C040,
        /// The boot sector of a FAT volume.
        QUERY_FAT_BPB = 0x0009_0058,
        /// Counters of a file system.
        FILESYSTEM_GET_STATISTICS = 0x0009_0060,
        /// The shape of an NTFS volume.
        GET_NTFS_VOLUME_DATA = 0x0009_0064,
        /// Where a file lies on its volume.
        GET_RETRIEVAL_POINTERS = 0x0009_0073,
        /// How many extents a file has.
        GET_RETRIEVAL_POINTER_COUNT = 0x0009_042B,
        /// Where a file lies, and how often it is shared.
        GET_RETRIEVAL_POINTERS_AND_REFCOUNT = 0x0009_03D3,
        /// Whether a volume needs a check.
        IS_VOLUME_DIRTY = 0x0009_0078,
        /// Raw access past a volume's end.
        ALLOW_EXTENDED_DASD_IO = 0x0009_0083,
        /// Files of an owner.
        FIND_FILES_BY_SID = 0x0009_008F,
        /// Gives a file an object id.
        SET_OBJECT_ID = 0x0009_0098,
        /// The object id of a file.
        GET_OBJECT_ID = 0x0009_009C,
        /// Removes an object id.
        DELETE_OBJECT_ID = 0x0009_00A0,
        /// Makes a reparse point.
        SET_REPARSE_POINT = 0x0009_00A4,
        /// The data of a reparse point.
        GET_REPARSE_POINT = 0x0009_00A8,
        /// Removes a reparse point.
        DELETE_REPARSE_POINT = 0x0009_00AC,
        /// Changes the rest of an object id.
        SET_OBJECT_ID_EXTENDED = 0x0009_00BC,
        /// The object id of a file, made where there is none.
        CREATE_OR_GET_OBJECT_ID = 0x0009_00C0,
        /// Makes a file sparse or not.
        SET_SPARSE = 0x0009_00C4,
        /// Makes a range zero.
        SET_ZERO_DATA = 0x0009_80C8,
        /// Which ranges of a sparse file have storage.
        QUERY_ALLOCATED_RANGES = 0x0009_40CF,
        /// Encrypts a file or not.
        SET_ENCRYPTION = 0x0009_00D7,
        /// The change journal's record of a file.
        READ_FILE_USN_DATA = 0x0009_00EB,
        /// Writes a close record into the change journal.
        WRITE_USN_CLOSE_RECORD = 0x0009_00EF,
        /// Makes a volume larger.
        EXTEND_VOLUME = 0x0009_00F0,
        /// The state of the change journal.
        QUERY_USN_JOURNAL = 0x0009_00F4,
        /// Starts the change journal.
        CREATE_USN_JOURNAL = 0x0009_00E7,
        /// Reads the change journal.
        READ_USN_JOURNAL = 0x0009_00BB,
        /// Marks an open.
        MARK_HANDLE = 0x0009_00FC,
        /// Copies by single-instance storage.
        SIS_COPYFILE = 0x0009_0100,
        /// Fetches a file from slow storage.
        RECALL_FILE = 0x0009_0117,
        /// Reads files ahead.
        FILE_PREFETCH = 0x0009_0120,
        /// Defect management of an optical disc.
        SET_DEFECT_MANAGEMENT = 0x0009_8134,
        /// Defects of an optical disc.
        QUERY_SPARING_INFO = 0x0009_0138,
        /// Facts of an optical disc.
        QUERY_ON_DISK_VOLUME_INFO = 0x0009_013C,
        /// Zeroes freed clusters.
        SET_ZERO_ON_DEALLOCATION = 0x0009_0194,
        /// Makes a volume smaller.
        SHRINK_VOLUME = 0x0009_01B0,
        /// Changes security descriptors of a volume.
        SD_GLOBAL_CHANGE = 0x0009_01F4,
        /// Which file has a cluster.
        LOOKUP_STREAM_FROM_CLUSTER = 0x0009_01FC,
        /// Tells that ranges are no longer needed.
        FILE_LEVEL_TRIM = 0x0009_8208,
        /// Where the boot sectors are.
        GET_BOOT_AREA_INFO = 0x0009_0230,
        /// Where a volume's clusters begin.
        GET_RETRIEVAL_POINTER_BASE = 0x0009_0234,
        /// Settings of a volume.
        SET_PERSISTENT_VOLUME_STATE = 0x0009_0238,
        /// Settings of a volume.
        QUERY_PERSISTENT_VOLUME_STATE = 0x0009_023C,
        /// A token for a range, for a copy without data transfer.
        OFFLOAD_READ = 0x0009_4264,
        /// Writes what a token stands for.
        OFFLOAD_WRITE = 0x0009_8268,
        /// Checksums of a file.
        GET_INTEGRITY_INFORMATION = 0x0009_027C,
        /// Checksums of a file.
        SET_INTEGRITY_INFORMATION = 0x0009_C280,
        /// Checksums of a file.
        SET_INTEGRITY_INFORMATION_EX = 0x0009_0380,
        /// Ranges of a file by use.
        QUERY_FILE_REGIONS = 0x0009_0284,
        /// The shape of a ReFS volume.
        GET_REFS_VOLUME_DATA = 0x0009_02D8,
        /// Shares storage of a range with another file.
        DUPLICATE_EXTENTS_TO_FILE = 0x0009_8344,
        /// Shares storage of a range with another file.
        DUPLICATE_EXTENTS_TO_FILE_EX = 0x0009_83E8,
        /// Snapshots of a stream.
        REFS_STREAM_SNAPSHOT_MANAGEMENT = 0x0009_0440,
        /// Shared virtual disks (MS-RSVD).
        QUERY_SHARED_VIRTUAL_DISK_SUPPORT = 0x0009_0300,
        /// Shared virtual disks (MS-RSVD).
        SVHDX_SYNC_TUNNEL_REQUEST = 0x0009_0304,
        /// Shared virtual disks (MS-RSVD).
        SVHDX_ASYNC_TUNNEL_REQUEST = 0x0009_0364,
        /// Storage quality of service (MS-SQOS).
        STORAGE_QOS_CONTROL = 0x0009_0350,
        /// Waits for a pipe.
        PIPE_WAIT = 0x0011_0018,
        /// Looks into a pipe.
        PIPE_PEEK = 0x0011_400C,
        /// Writes to a pipe and reads the answer.
        PIPE_TRANSCEIVE = 0x0011_C017,
        /// A key for a server-side copy.
        SRV_REQUEST_RESUME_KEY = 0x0014_0078,
        /// Link tracking.
        LMR_SET_LINK_TRACKING_INFORMATION = 0x0014_00EC,
        /// The snapshots of a share.
        SRV_ENUMERATE_SNAPSHOTS = 0x0014_4064,
        /// Server-side copy; the target is open to read, too.
        SRV_COPYCHUNK = 0x0014_40F2,
        /// Server-side copy.
        SRV_COPYCHUNK_WRITE = 0x0014_80F2,
        /// Keeps an open over a short disconnection.
        LMR_REQUEST_RESILIENCY = 0x0014_01D4,
        /// BranchCache hashes.
        SRV_READ_HASH = 0x0014_41BB,
        /// The server's addresses, for more channels.
        QUERY_NETWORK_INTERFACE_INFO = 0x0014_01FC,
        /// Whether the negotiation was tampered with.
        VALIDATE_NEGOTIATE_INFO = 0x0014_0204,
    }
}

flags! {
    /// Flags of a request.
    IoctlFlags(u32) {
        /// The code is a file system control; servers refuse others.
        IS_FSCTL = 0x0000_0001,
    }
}

/// SMB2 IOCTL Request (2.2.31). OutputOffset and OutputCount are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IoctlRequest<'a> {
    /// What to do.
    pub ctl_code: CtlCode,
    /// The open; [`FileId::ANY`] for codes that need none.
    pub file_id: FileId,
    /// The most bytes of input that the client takes back.
    pub max_input_response: u32,
    /// The most bytes of output that the client takes.
    pub max_output_response: u32,
    /// Flags.
    pub flags: IoctlFlags,
    /// The code's input.
    pub input: &'a [u8],
}

impl<'a> IoctlRequest<'a> {
    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, REQUEST_SIZE)?;
        reader.skip(2)?;
        let ctl_code = CtlCode(reader.u32()?);
        let file_id = FileId::decode(&mut reader)?;
        let input_offset = reader.u32()? as usize;
        let input_count = reader.u32()? as usize;
        let max_input_response = reader.u32()?;
        reader.skip(8)?;
        let max_output_response = reader.u32()?;
        let flags = IoctlFlags(reader.u32()?);
        reader.skip(4)?;
        let input = part(message, input_offset, input_count, "Input of IOCTL")?;
        Ok(IoctlRequest { ctl_code, file_id, max_input_response, max_output_response, flags, input })
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u16(REQUEST_SIZE);
        writer.u16(0);
        writer.u32(self.ctl_code.0);
        self.file_id.encode(&mut writer);
        writer.u32(if self.input.is_empty() { 0 } else { REQUEST_BUFFER_OFFSET });
        writer.u32(length_u32(self.input));
        writer.u32(self.max_input_response);
        writer.u64(0);
        writer.u32(self.max_output_response);
        writer.u32(self.flags.0);
        writer.u32(0);
        // StructureSize counts one byte of the buffer, and clients send it.
        writer.bytes(if self.input.is_empty() { &[0] } else { self.input });
    }
}

const _: () = assert!(REQUEST_BUFFER_OFFSET as usize == HEADER_LENGTH + REQUEST_SIZE as usize - 1);

/// SMB2 IOCTL Response (2.2.32).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct IoctlResponse<'a> {
    /// What was done.
    pub ctl_code: CtlCode,
    /// The open.
    pub file_id: FileId,
    /// The input, returned by pass-through operations; mostly empty.
    pub input: &'a [u8],
    /// The output.
    pub output: &'a [u8],
}

impl<'a> IoctlResponse<'a> {
    /// Where the output of a response without input begins.
    pub const OUTPUT_OFFSET: u32 = 112;

    /// Decodes the body of `message`.
    pub fn decode(message: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = body(message, RESPONSE_SIZE)?;
        reader.skip(2)?;
        let ctl_code = CtlCode(reader.u32()?);
        let file_id = FileId::decode(&mut reader)?;
        let input_offset = reader.u32()? as usize;
        let input_count = reader.u32()? as usize;
        let output_offset = reader.u32()? as usize;
        let output_count = reader.u32()? as usize;
        reader.skip(8)?;
        let input = part(message, input_offset, input_count, "Input of IOCTL")?;
        let output = part(message, output_offset, output_count, "Output of IOCTL")?;
        Ok(IoctlResponse { ctl_code, file_id, input, output })
    }

    /// The fixed part of a response without input, whose `output_count` bytes of output follow it at once.
    pub fn to_bytes(ctl_code: CtlCode, file_id: FileId, output_count: u32) -> [u8; IOCTL_RESPONSE_FIXED_LENGTH] {
        let mut bytes = [0; IOCTL_RESPONSE_FIXED_LENGTH];
        bytes[..2].copy_from_slice(&RESPONSE_SIZE.to_le_bytes());
        bytes[4..8].copy_from_slice(&ctl_code.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&file_id.persistent.to_le_bytes());
        bytes[16..24].copy_from_slice(&file_id.volatile.to_le_bytes());
        bytes[24..28].copy_from_slice(&Self::OUTPUT_OFFSET.to_le_bytes());
        // "If no output data is returned …, then this value SHOULD be set to 0."
        let output_offset = if output_count == 0 { 0 } else { Self::OUTPUT_OFFSET };
        bytes[32..36].copy_from_slice(&output_offset.to_le_bytes());
        bytes[36..40].copy_from_slice(&output_count.to_le_bytes());
        bytes
    }

    /// Appends the body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.bytes(&Self::to_bytes(self.ctl_code, self.file_id, length_u32(self.output)));
        if !self.input.is_empty() {
            writer.patch_u32(28, length_u32(self.input));
            writer.bytes(self.input);
            writer.align(8);
            if !self.output.is_empty() {
                writer.patch_u32(32, (HEADER_LENGTH + writer.position()) as u32);
            }
        }
        writer.bytes(self.output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> IoctlRequest<'static> {
        IoctlRequest {
            ctl_code: CtlCode::PIPE_TRANSCEIVE,
            file_id: FileId { persistent: 1, volatile: 2 },
            max_input_response: 3,
            max_output_response: 4,
            flags: IoctlFlags::IS_FSCTL,
            input: b"input",
        }
    }

    fn response() -> IoctlResponse<'static> {
        IoctlResponse { ctl_code: CtlCode::PIPE_TRANSCEIVE, file_id: FileId::ANY, input: &[], output: b"output" }
    }

    #[test]
    fn requests_round_trip() {
        check_message!(IoctlRequest, request());
        check_message!(IoctlRequest, IoctlRequest { input: &[], ..request() }, spare 1);
    }

    #[test]
    fn responses_round_trip() {
        let message = check_message!(IoctlResponse, response());
        assert_eq!(message[64..112], IoctlResponse::to_bytes(CtlCode::PIPE_TRANSCEIVE, FileId::ANY, 6));
        check_message!(IoctlResponse, IoctlResponse { output: &[], ..response() });
        let message = check_message!(IoctlResponse, IoctlResponse { input: b"input", ..response() });
        assert_eq!(message[96..100], 120_u32.to_le_bytes(), "output begins at a multiple of 8");
    }

    #[test]
    fn offsets_of_empty_parts_do_not_matter() {
        let mut message = crate::testing::message(|out| IoctlRequest { input: &[], ..request() }.encode(out));
        message[88..92].fill(0xFF);
        message[100..108].fill(0xFF);
        assert_eq!(IoctlRequest::decode(&message), Ok(IoctlRequest { input: &[], ..request() }));
    }

    #[test]
    fn input_beyond_the_message_is_malformed() {
        let mut message = crate::testing::message(|out| request().encode(out));
        message[92..96].fill(0xFF);
        assert_eq!(IoctlRequest::decode(&message), Err(Malformed("Input of IOCTL")));
    }
}
