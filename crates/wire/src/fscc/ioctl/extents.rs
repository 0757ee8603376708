//! Ranges of a file: allocated, zeroed, trimmed, valid, shared (MS-FSCC 2.3.7, 2.3.9, 2.3.13, 2.3.51, 2.3.55, 2.3.85).
//!
//! Offsets and lengths are bytes. The specification's signed fields are given as they stand on the wire: a negative
//! one shows as one above `i64::MAX`, which whoever executes the control answers with STATUS_INVALID_PARAMETER.

use crate::codec::{Malformed, Reader, Writer, range};
use crate::fscc::layout::Field;
use crate::ids::FileId;

layout! {
    /// FILE_ALLOCATED_RANGE_BUFFER (MS-FSCC 2.3.51, 2.3.52), and FILE_LEVEL_TRIM_RANGE (2.3.13.1).
    pub struct Range {
        /// First byte.
        pub offset: u64;
        /// Bytes.
        pub length: u64;
    }

    /// FILE_ZERO_DATA_INFORMATION (MS-FSCC 2.3.85).
    pub struct ZeroData {
        /// First byte to be zeroed.
        pub offset: u64;
        /// First byte after those.
        pub beyond_final_zero: u64;
    }

    /// FILE_REGION_INPUT (MS-FSCC 2.3.55).
    pub struct RegionQuery {
        /// First byte.
        pub offset: u64;
        /// Bytes.
        pub length: u64;
        /// 1 for data valid in the cache, 2 for data valid on disk.
        pub usage: u32, reserved 4;
    }

    /// FILE_REGION_INFO (MS-FSCC 2.3.56.1).
    pub struct Region {
        /// First byte.
        pub offset: u64;
        /// Bytes.
        pub length: u64;
        /// 1 for data valid in the cache, 2 for data valid on disk, 0 for neither.
        pub usage: u32, reserved 4;
    }

    /// SMB2_DUPLICATE_EXTENTS_DATA (MS-FSCC 2.3.7.2).
    pub struct DuplicateExtents {
        /// The open to copy from.
        pub source: FileId;
        /// First byte there.
        pub source_offset: u64;
        /// First byte here.
        pub target_offset: u64;
        /// Bytes.
        pub length: u64;
    }

    /// SMB2_DUPLICATE_EXTENTS_DATA_EX (MS-FSCC 2.3.9.2).
    pub struct DuplicateExtentsEx {
        /// 0x30, whatever the structure's length; see [`DuplicateExtentsEx::STRUCTURE_SIZE`].
        pub structure_size: u64;
        /// The open to copy from.
        pub source: FileId;
        /// First byte there.
        pub source_offset: u64;
        /// First byte here.
        pub target_offset: u64;
        /// Bytes.
        pub length: u64;
        /// Bit 0: atomic as the source sees it.
        pub flags: u32, reserved 4;
    }

    /// FILE_LEVEL_TRIM_OUTPUT (MS-FSCC 2.3.14).
    pub struct LevelTrimResult {
        /// Ranges that were trimmed.
        pub ranges_processed: u32;
    }
}

impl DuplicateExtentsEx {
    /// The one StructureSize there is.
    pub const STRUCTURE_SIZE: u64 = 0x30;
}

/// FILE_LEVEL_TRIM (MS-FSCC 2.3.13): a request to forget the data of ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelTrim<'a> {
    /// Whose byte-range locks are meant.
    pub key: u32,
    ranges: &'a [u8],
}

impl<'a> LevelTrim<'a> {
    /// Reads it; every announced range must be there.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let key = reader.u32()?;
        let count = reader.u32()? as usize;
        let length = count.checked_mul(Range::LENGTH).ok_or(Malformed("NumRanges"))?;
        Ok(LevelTrim { key, ranges: range(bytes, reader.position(), length, "NumRanges")? })
    }

    /// The ranges.
    pub fn ranges(&self) -> impl Iterator<Item = Range> + 'a {
        whole(self.ranges)
    }

    /// Appends a request to `out`.
    pub fn encode(key: u32, ranges: &[Range], out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.u32(key);
        writer.u32(ranges.len() as u32);
        encode_ranges(ranges, out);
    }
}

/// Reads an answer to FSCTL_QUERY_ALLOCATED_RANGES (MS-FSCC 2.3.52).
pub fn ranges(bytes: &[u8]) -> Result<impl Iterator<Item = Range> + '_, Malformed> {
    if !bytes.len().is_multiple_of(Range::LENGTH) {
        return Err(Malformed("allocated ranges"));
    }
    Ok(whole(bytes))
}

/// Appends an answer to FSCTL_QUERY_ALLOCATED_RANGES (MS-FSCC 2.3.52) to `out`.
pub fn encode_ranges(ranges: &[Range], out: &mut Vec<u8>) {
    ranges.iter().for_each(|range| range.encode(out));
}

/// Reads FILE_REGION_OUTPUT (MS-FSCC 2.3.56); every announced region must be there.
pub fn regions(bytes: &[u8]) -> Result<impl Iterator<Item = Region> + '_, Malformed> {
    let mut reader = Reader::at(bytes, 8);
    let count = reader.u32()? as usize;
    reader.skip(4)?;
    let length = count.checked_mul(Region::LENGTH).ok_or(Malformed("RegionEntryCount"))?;
    Ok(whole(range(bytes, reader.position(), length, "RegionEntryCount")?))
}

/// Appends FILE_REGION_OUTPUT (MS-FSCC 2.3.56) to `out`: `regions` of `total` that there are.
pub fn encode_regions(regions: &[Region], total: u32, out: &mut Vec<u8>) {
    let mut writer = Writer::new(out);
    writer.u32(0);
    writer.u32(total);
    writer.u32(regions.len() as u32);
    writer.u32(0);
    regions.iter().for_each(|region| region.encode(out));
}

/// The structures that lie one after another in `bytes`.
fn whole<'a, T: Field + 'a>(bytes: &'a [u8]) -> impl Iterator<Item = T> + 'a {
    bytes.chunks_exact(T::LENGTH).filter_map(|bytes| T::read(&mut Reader::new(bytes)).ok())
}
