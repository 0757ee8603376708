//! The list of a file's streams (MS-FSCC 2.4.49).

use crate::codec::{Malformed, Reader, Utf16};
use crate::fscc::chain::{Chain, ChainWriter};

/// Entries are aligned on eight bytes.
const ALIGNMENT: usize = 8;
/// Bytes before the name.
const HEADER_BYTES: usize = 24;

/// One stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream<'a> {
    /// `::$DATA` or `:name:$DATA`.
    pub name: Utf16<'a>,
    /// Bytes of data.
    pub size: u64,
    /// Bytes held on disk.
    pub allocation: u64,
}

/// Walks FileStreamInformation.
pub fn streams(bytes: &[u8]) -> impl Iterator<Item = Result<Stream<'_>, Malformed>> {
    Chain::new(bytes, ALIGNMENT).map(|entry| {
        let mut reader = Reader::at(entry?, 4);
        let length = reader.u32()? as usize;
        let (size, allocation) = (reader.u64()?, reader.u64()?);
        Ok(Stream { name: Utf16::new(reader.bytes(length)?)?, size, allocation })
    })
}

/// Writes FileStreamInformation.
#[derive(Debug)]
pub struct StreamWriter<'a>(ChainWriter<'a>);

impl<'a> StreamWriter<'a> {
    /// Appends to `out` at most `limit_bytes` bytes.
    pub fn new(out: &'a mut Vec<u8>, limit_bytes: usize) -> Self {
        StreamWriter(ChainWriter::new(out, limit_bytes, ALIGNMENT))
    }

    /// Appends the stream `name` (without `:` and `:$DATA`, empty for the unnamed one) of `size` bytes that hold
    /// `allocation` bytes on disk. False, and nothing is written, where it does not fit.
    pub fn push(&mut self, name: &str, size: u64, allocation: u64) -> bool {
        let length = 2 * (name.encode_utf16().count() + ":".len() + ":$DATA".len());
        let Some(writer) = self.0.entry(HEADER_BYTES + length) else { return false };
        writer.u32(0);
        writer.u32(length as u32);
        writer.u64(size);
        writer.u64(allocation);
        writer.utf16(":");
        writer.utf16(name);
        writer.utf16(":$DATA");
        true
    }

    /// True while nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
