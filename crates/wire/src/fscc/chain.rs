//! Lists whose entries begin with NextEntryOffset: the distance to the next entry, zero in the last.

use crate::codec::{Malformed, Reader, Writer, range};

/// Walks the entries of a list. Every step moves forward by at least the four bytes of the offset, so it ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain<'a> {
    rest: Option<&'a [u8]>,
    alignment: usize,
}

impl<'a> Chain<'a> {
    /// The entries of `bytes`, each `alignment` bytes aligned; none where `bytes` is empty.
    pub(crate) fn new(bytes: &'a [u8], alignment: usize) -> Self {
        Chain { rest: (!bytes.is_empty()).then_some(bytes), alignment }
    }

    fn step(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Malformed> {
        let next = Reader::new(bytes).u32()? as usize;
        if next == 0 {
            return Ok(bytes);
        }
        if next < size_of::<u32>() || !next.is_multiple_of(self.alignment) {
            return Err(Malformed("NextEntryOffset"));
        }
        let entry = range(bytes, 0, next, "NextEntryOffset")?;
        self.rest = Some(&bytes[next..]);
        Ok(entry)
    }
}

/// Gives each entry, its NextEntryOffset included, up to where the next begins. Ends after the first error.
impl<'a> Iterator for Chain<'a> {
    type Item = Result<&'a [u8], Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.rest.take()?;
        Some(self.step(bytes))
    }
}

/// Writes entries that begin with NextEntryOffset, up to a number of bytes.
#[derive(Debug)]
pub(crate) struct ChainWriter<'a> {
    writer: Writer<'a>,
    limit_bytes: usize,
    alignment: usize,
    last: Option<usize>,
}

impl<'a> ChainWriter<'a> {
    /// Appends to `out` at most `limit_bytes` bytes.
    pub(crate) fn new(out: &'a mut Vec<u8>, limit_bytes: usize, alignment: usize) -> Self {
        ChainWriter { writer: Writer::new(out), limit_bytes, alignment, last: None }
    }

    /// True while nothing has been written.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.is_none()
    }

    /// Where an entry of `length` bytes goes, once the list is aligned for it and the entry before points at it;
    /// `None`, and nothing written, where it does not fit. The caller then writes exactly `length` bytes, four zeros
    /// first.
    pub(crate) fn entry(&mut self, length: usize) -> Option<&mut Writer<'a>> {
        let start = self.writer.position().next_multiple_of(self.alignment);
        if start.checked_add(length)? > self.limit_bytes {
            return None;
        }
        self.writer.align(self.alignment);
        if let Some(last) = self.last {
            self.writer.patch_u32(last, (start - last) as u32);
        }
        self.last = Some(start);
        Some(&mut self.writer)
    }
}
