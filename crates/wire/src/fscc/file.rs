//! The fixed file information classes and those that carry one name (MS-FSCC 2.4).
//!
//! Decoders accept buffers longer than the structure. Sizes and offsets are bytes; the specification's signed 64-bit
//! fields are given as they stand on the wire, so that a negative number shows as one above `i64::MAX`.

use crate::codec::{Malformed, Reader, Utf16, Writer, range};
use crate::fscc::FileAttributes;
use crate::fscc::layout::Field;
use crate::ids::FileTime;

layout! {
    /// FileBasicInformation (MS-FSCC 2.4.7). Setting a time to 0 leaves it; -1 stops, -2 resumes its automatic change
    /// through this open. Setting no attribute leaves them.
    pub struct Basic {
        /// When the file was made.
        pub creation: FileTime;
        /// Last access.
        pub access: FileTime;
        /// Last write of data.
        pub write: FileTime;
        /// Last change of anything.
        pub change: FileTime;
        /// Attributes.
        pub attributes: FileAttributes, reserved 4;
    }

    /// FileStandardInformation (MS-FSCC 2.4.47).
    pub struct Standard {
        /// Bytes held on disk.
        pub allocation: u64;
        /// Length of the data.
        pub end_of_file: u64;
        /// Names the file has, those pending deletion left out.
        pub links: u32;
        /// It goes when the last open closes.
        pub delete_pending: bool;
        /// It is a directory.
        pub directory: bool, reserved 2;
    }

    /// FileInternalInformation (MS-FSCC 2.4.27).
    pub struct Internal {
        /// The 64-bit file identifier.
        pub file_id: u64;
    }

    /// FileEaInformation (MS-FSCC 2.4.13).
    pub struct Ea {
        /// Combined length of the extended attributes; the reparse tag in directory entries is not meant here.
        pub ea_size: u32;
    }

    /// FileAccessInformation (MS-FSCC 2.4.1).
    pub struct Access {
        /// The access mask this open was granted.
        pub access: u32;
    }

    /// FilePositionInformation (MS-FSCC 2.4.40).
    pub struct Position {
        /// The current byte offset.
        pub offset: u64;
    }

    /// FileModeInformation (MS-FSCC 2.4.31).
    pub struct Mode {
        /// How the file is accessed.
        pub mode: ModeFlags;
    }

    /// FileAlignmentInformation (MS-FSCC 2.4.3).
    pub struct Alignment {
        /// The alignment in bytes less one; zero for none.
        pub requirement: u32;
    }

    /// FileCompressionInformation (MS-FSCC 2.4.9).
    pub struct Compression {
        /// Bytes of the compressed data.
        pub compressed_size: u64;
        /// 0 for none, 2 for LZNT1.
        pub format: u16;
        /// Logarithm of the compression unit.
        pub unit_shift: u8;
        /// Logarithm of the chunk.
        pub chunk_shift: u8;
        /// Logarithm of the cluster.
        pub cluster_shift: u8, reserved 3;
    }

    /// FileNetworkOpenInformation (MS-FSCC 2.4.34).
    pub struct NetworkOpen {
        /// When the file was made.
        pub creation: FileTime;
        /// Last access.
        pub access: FileTime;
        /// Last write of data.
        pub write: FileTime;
        /// Last change of anything.
        pub change: FileTime;
        /// Bytes held on disk.
        pub allocation: u64;
        /// Length of the data.
        pub end_of_file: u64;
        /// Attributes.
        pub attributes: FileAttributes, reserved 4;
    }

    /// FileAttributeTagInformation (MS-FSCC 2.4.6).
    pub struct AttributeTag {
        /// Attributes.
        pub attributes: FileAttributes;
        /// The reparse tag, zero without [`FileAttributes::REPARSE_POINT`].
        pub reparse_tag: u32;
    }

    /// FileIdInformation (MS-FSCC 2.4.26).
    pub struct Id {
        /// The volume's serial number.
        pub volume: u64;
        /// The 128-bit file identifier (MS-FSCC 2.1.10).
        pub file_id: [u8; 16];
    }

    /// FileAllocationInformation (MS-FSCC 2.4.4).
    pub struct Allocation {
        /// Bytes to reserve.
        pub allocation: u64;
    }

    /// FileEndOfFileInformation (MS-FSCC 2.4.14).
    pub struct EndOfFile {
        /// New length of the data.
        pub end_of_file: u64;
    }

    /// FileValidDataLengthInformation (MS-FSCC 2.4.50).
    pub struct ValidDataLength {
        /// Bytes from the start that have been written.
        pub length: u64;
    }

    /// FileCaseSensitiveInformation (Windows headers; not in MS-FSCC).
    pub struct CaseSensitive {
        /// Bit 0: names in this directory are case-sensitive.
        pub flags: u32;
    }

    /// FileStatInformation (Windows headers; not in MS-FSCC).
    pub struct Stat {
        /// The 64-bit file identifier.
        pub file_id: u64;
        /// When the file was made.
        pub creation: FileTime;
        /// Last access.
        pub access: FileTime;
        /// Last write of data.
        pub write: FileTime;
        /// Last change of anything.
        pub change: FileTime;
        /// Bytes held on disk.
        pub allocation: u64;
        /// Length of the data.
        pub end_of_file: u64;
        /// Attributes.
        pub attributes: FileAttributes;
        /// The reparse tag.
        pub reparse_tag: u32;
        /// Names the file has.
        pub links: u32;
        /// The access the caller could get.
        pub effective_access: u32;
    }

    /// The fixed part of FileAllInformation (MS-FSCC 2.4.2); the name follows it, see [`All`].
    pub struct AllFixed {
        /// Times and attributes.
        pub basic: Basic;
        /// Sizes, links, pending deletion.
        pub standard: Standard;
        /// File identifier.
        pub internal: Internal;
        /// Size of the extended attributes.
        pub ea: Ea;
        /// Granted access.
        pub access: Access;
        /// Current offset.
        pub position: Position;
        /// Mode of the open.
        pub mode: Mode;
        /// Alignment of the device.
        pub alignment: Alignment;
    }
}

flags! {
    /// How a file is accessed (MS-FSCC 2.4.31): a part of CREATE's options.
    ModeFlags(u32) {
        /// Writes reach the disk before they complete.
        WRITE_THROUGH = 0x0000_0002,
        /// Access is sequential.
        SEQUENTIAL_ONLY = 0x0000_0004,
        /// No cache in between.
        NO_INTERMEDIATE_BUFFERING = 0x0000_0008,
        /// Synchronous, alertable.
        SYNCHRONOUS_IO_ALERT = 0x0000_0010,
        /// Synchronous.
        SYNCHRONOUS_IO_NONALERT = 0x0000_0020,
        /// Deleted on close; never reported.
        DELETE_ON_CLOSE = 0x0000_1000,
    }
}

newtype_field!(ModeFlags => u32);

/// FileAllInformation (MS-FSCC 2.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct All<'a> {
    /// All but the name.
    pub fixed: AllFixed,
    /// The name from the share's root.
    pub name: Utf16<'a>,
}

impl<'a> All<'a> {
    /// Reads it from the start of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let fixed = AllFixed::read(&mut reader)?;
        Ok(All { fixed, name: Name::decode(reader.rest())?.0 })
    }
}

impl AllFixed {
    /// Appends FileAllInformation with `name` to `out`.
    pub fn encode_with_name(&self, name: &str, out: &mut Vec<u8>) {
        self.encode(out);
        encode_name(name, out);
    }
}

/// FILE_NAME_INFORMATION (MS-FSCC 2.1.7): FileAlternateNameInformation, FileNormalizedNameInformation and
/// FileShortNameInformation are this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name<'a>(pub Utf16<'a>);

impl<'a> Name<'a> {
    /// Reads it from the start of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let length = Reader::new(bytes).u32()? as usize;
        Ok(Name(Utf16::new(range(bytes, size_of::<u32>(), length, "FileNameLength")?)?))
    }
}

/// Appends FILE_NAME_INFORMATION (MS-FSCC 2.1.7) to `out`.
pub fn encode_name(name: &str, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.u32(0);
    writer.utf16(name);
    let length = writer.position() - size_of::<u32>();
    writer.patch_u32(0, length as u32);
}
