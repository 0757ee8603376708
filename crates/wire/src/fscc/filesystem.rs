//! The file system information classes (MS-FSCC 2.5).

use crate::codec::{Malformed, Reader, Utf16, Writer};
use crate::ids::{FileTime, Guid};

layout! {
    /// FileFsSizeInformation (MS-FSCC 2.5.8).
    pub struct Size {
        /// All units, as the caller's quota allows.
        pub total_units: u64;
        /// Free units, as the caller's quota allows.
        pub available_units: u64;
        /// Sectors in a unit.
        pub sectors_per_unit: u32;
        /// Bytes in a sector.
        pub bytes_per_sector: u32;
    }

    /// FileFsFullSizeInformation (MS-FSCC 2.5.4).
    pub struct FullSize {
        /// All units, as the caller's quota allows.
        pub total_units: u64;
        /// Free units, as the caller's quota allows.
        pub caller_available_units: u64;
        /// Free units.
        pub actual_available_units: u64;
        /// Sectors in a unit.
        pub sectors_per_unit: u32;
        /// Bytes in a sector.
        pub bytes_per_sector: u32;
    }

    /// FileFsDeviceInformation (MS-FSCC 2.5.10).
    pub struct Device {
        /// What it is.
        pub kind: DeviceKind;
        /// How it behaves.
        pub characteristics: DeviceCharacteristics;
    }

    /// FileFsControlInformation (MS-FSCC 2.5.2).
    pub struct Control {
        /// Ignored.
        pub free_space_start_filtering: u64;
        /// Ignored.
        pub free_space_threshold: u64;
        /// Ignored.
        pub free_space_stop_filtering: u64;
        /// Bytes from which a user is warned; all ones for none.
        pub default_quota_threshold: u64;
        /// Bytes that a user may use; all ones for no limit.
        pub default_quota_limit: u64;
        /// FILE_VC_ bits.
        pub flags: u32, reserved 4;
    }

    /// FileFsObjectIdInformation (MS-FSCC 2.5.6).
    pub struct ObjectId {
        /// The volume's identifier.
        pub object_id: Guid;
        /// Zeros where nothing is known.
        pub extended: Extended;
    }

    /// FileFsSectorSizeInformation (MS-FSCC 2.5.7).
    pub struct SectorSize {
        /// Bytes in a logical sector.
        pub logical_bytes: u32;
        /// Bytes in a physical sector, for atomicity.
        pub physical_bytes_for_atomicity: u32;
        /// Bytes in a physical sector, for performance.
        pub physical_bytes_for_performance: u32;
        /// Bytes in a physical sector as the file system sees it.
        pub effective_physical_bytes_for_atomicity: u32;
        /// What is known.
        pub flags: SectorSizeFlags;
        /// Offset of the first logical sector within its physical one; all ones where unknown.
        pub sector_alignment_offset: u32;
        /// Offset of the partition; all ones where unknown.
        pub partition_alignment_offset: u32;
    }
}

/// The 48 bytes beside a volume's identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extended(pub [u8; 48]);

impl Default for Extended {
    fn default() -> Self {
        Extended([0; 48])
    }
}

numbers! {
    /// What a volume lies on (MS-FSCC 2.5.10).
    DeviceKind(u32) {
        /// A CD-ROM.
        CD_ROM = 0x02,
        /// A disk.
        DISK = 0x07,
        /// A named pipe.
        NAMED_PIPE = 0x11,
    }
}

flags! {
    /// How a device behaves (MS-FSCC 2.5.10).
    DeviceCharacteristics(u32) {
        /// Its media can be taken out.
        REMOVABLE_MEDIA = 0x0000_0001,
        /// It cannot be written.
        READ_ONLY_DEVICE = 0x0000_0002,
        /// A floppy disk.
        FLOPPY_DISKETTE = 0x0000_0004,
        /// Written once.
        WRITE_ONCE_MEDIA = 0x0000_0008,
        /// Reached over a network.
        REMOTE_DEVICE = 0x0000_0010,
        /// A file system is mounted on it.
        DEVICE_IS_MOUNTED = 0x0000_0020,
        /// Lies on another volume or in memory.
        VIRTUAL_VOLUME = 0x0000_0040,
        /// The volume's own access list counts too.
        DEVICE_SECURE_OPEN = 0x0000_0100,
    }
}

flags! {
    /// What a file system can do (MS-FSCC 2.5.1).
    FileSystemAttributes(u32) {
        /// Names can be looked up by case.
        CASE_SENSITIVE_SEARCH = 0x0000_0001,
        /// Names keep their case.
        CASE_PRESERVED_NAMES = 0x0000_0002,
        /// Names are Unicode.
        UNICODE_ON_DISK = 0x0000_0004,
        /// Access lists are kept and enforced.
        PERSISTENT_ACLS = 0x0000_0008,
        /// Files can be compressed.
        FILE_COMPRESSION = 0x0000_0010,
        /// Quotas for each user.
        VOLUME_QUOTAS = 0x0000_0020,
        /// Sparse files.
        SUPPORTS_SPARSE_FILES = 0x0000_0040,
        /// Reparse points.
        SUPPORTS_REPARSE_POINTS = 0x0000_0080,
        /// Remote storage.
        SUPPORTS_REMOTE_STORAGE = 0x0000_0100,
        /// Cleanup tells what it did.
        RETURNS_CLEANUP_RESULT_INFO = 0x0000_0200,
        /// Deletes and renames as POSIX does.
        SUPPORTS_POSIX_UNLINK_RENAME = 0x0000_0400,
        /// The volume is compressed.
        VOLUME_IS_COMPRESSED = 0x0000_8000,
        /// Object identifiers.
        SUPPORTS_OBJECT_IDS = 0x0001_0000,
        /// Encryption.
        SUPPORTS_ENCRYPTION = 0x0002_0000,
        /// Named streams.
        NAMED_STREAMS = 0x0004_0000,
        /// Mounted read-only.
        READ_ONLY_VOLUME = 0x0008_0000,
        /// Written once.
        SEQUENTIAL_WRITE_ONCE = 0x0010_0000,
        /// Transactions.
        SUPPORTS_TRANSACTIONS = 0x0020_0000,
        /// Several names for one file.
        SUPPORTS_HARD_LINKS = 0x0040_0000,
        /// Extended attributes.
        SUPPORTS_EXTENDED_ATTRIBUTES = 0x0080_0000,
        /// Files can be opened by identifier.
        SUPPORTS_OPEN_BY_FILE_ID = 0x0100_0000,
        /// A change journal.
        SUPPORTS_USN_JOURNAL = 0x0200_0000,
        /// Integrity streams.
        SUPPORT_INTEGRITY_STREAMS = 0x0400_0000,
        /// Extents shared between files: FSCTL_DUPLICATE_EXTENTS_TO_FILE works.
        SUPPORTS_BLOCK_REFCOUNTING = 0x0800_0000,
        /// Valid data is known for each cluster.
        SUPPORTS_SPARSE_VDL = 0x1000_0000,
    }
}

flags! {
    /// What is known of sectors (MS-FSCC 2.5.7).
    SectorSizeFlags(u32) {
        /// The device is aligned.
        ALIGNED_DEVICE = 0x01,
        /// The partition is aligned.
        PARTITION_ALIGNED_ON_DEVICE = 0x02,
        /// Seeks cost nothing.
        NO_SEEK_PENALTY = 0x04,
        /// TRIM works.
        TRIM_ENABLED = 0x08,
    }
}

newtype_field!(
    DeviceKind => u32,
    DeviceCharacteristics => u32,
    SectorSizeFlags => u32,
    Extended => [u8; 48],
);

/// FileFsVolumeInformation (MS-FSCC 2.5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume<Text> {
    /// When the volume was made.
    pub creation: FileTime,
    /// Its serial number.
    pub serial_number: u32,
    /// It has object identifiers.
    pub supports_objects: bool,
    /// Its label.
    pub label: Text,
}

impl Volume<&str> {
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        crate::fscc::layout::Field::write(&self.creation, &mut writer);
        writer.u32(self.serial_number);
        writer.u32(2 * self.label.encode_utf16().count() as u32);
        writer.u8(u8::from(self.supports_objects));
        writer.u8(0);
        writer.utf16(self.label);
    }
}

impl<'a> Volume<Utf16<'a>> {
    /// Reads it from the start of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let creation = crate::fscc::layout::Field::read(&mut reader)?;
        let serial_number = reader.u32()?;
        let length = reader.u32()? as usize;
        let supports_objects = reader.u8()? != 0;
        reader.skip(1)?;
        Ok(Volume { creation, serial_number, supports_objects, label: Utf16::new(reader.bytes(length)?)? })
    }
}

/// FileFsAttributeInformation (MS-FSCC 2.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<Text> {
    /// What the file system can do.
    pub attributes: FileSystemAttributes,
    /// The most characters in a name, 255 at most.
    pub name_length_max: u32,
    /// The file system's name, to be shown only.
    pub name: Text,
}

impl Attribute<&str> {
    /// Appends it to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u32(self.attributes.0);
        writer.u32(self.name_length_max);
        writer.u32(2 * self.name.encode_utf16().count() as u32);
        writer.utf16(self.name);
    }
}

impl<'a> Attribute<Utf16<'a>> {
    /// Reads it from the start of `bytes`.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let attributes = FileSystemAttributes(reader.u32()?);
        let name_length_max = reader.u32()?;
        let length = reader.u32()? as usize;
        Ok(Attribute { attributes, name_length_max, name: Utf16::new(reader.bytes(length)?)? })
    }
}

/// Appends FileFsLabelInformation (MS-FSCC 2.5.5) to `out`.
pub fn encode_label(label: &str, out: &mut Vec<u8>) {
    super::file::encode_name(label, out);
}

/// Reads FileFsLabelInformation (MS-FSCC 2.5.5), a terminator or padding spaces included as they came.
pub fn decode_label(bytes: &[u8]) -> Result<Utf16<'_>, Malformed> {
    super::file::Name::decode(bytes).map(|name| name.0)
}
