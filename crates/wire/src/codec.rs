//! The cursor that reads a message and the cursor that writes one. All integers are little-endian (MS-SMB2 2.2).

use std::fmt;

/// Why bytes are not the message they claim to be. The text names the field, for the log; it never quotes the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed message: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

/// Reads little-endian fields off a borrowed buffer. Never panics and never reads past the end.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, position: 0 }
    }

    /// A reader over the whole of `bytes` that starts at `position`, which may lie past the end.
    pub fn at(bytes: &'a [u8], position: usize) -> Self {
        Reader { bytes, position }
    }

    /// How many bytes have been read.
    pub fn position(&self) -> usize {
        self.position
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.position)
    }

    /// True when nothing is left.
    pub fn is_empty(&self) -> bool {
        self.remaining() == 0
    }

    /// The next `count` bytes, borrowed.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let end = self.position.checked_add(count).ok_or(Malformed("length overflows"))?;
        let taken = self.bytes.get(self.position..end).ok_or(Malformed("ends too early"))?;
        self.position = end;
        Ok(taken)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.bytes(N)?.try_into().map_err(|_| Malformed("ends too early"))
    }

    /// Passes over `count` bytes.
    pub fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        self.bytes(count).map(|_| ())
    }

    /// Everything that is left; the reader is empty afterwards.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = self.bytes.get(self.position..).unwrap_or(&[]);
        self.position = self.bytes.len();
        rest
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little-endian.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little-endian.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little-endian.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }
}

/// The slice `bytes[offset..offset + length]`, where both come off the wire.
pub fn range<'a>(bytes: &'a [u8], offset: usize, length: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
    let end = offset.checked_add(length).ok_or(Malformed(field))?;
    bytes.get(offset..end).ok_or(Malformed(field))
}

/// Room that an empty buffer gets for what is first written to it: most bodies fit.
const BODY_BYTES: usize = 256;

/// Appends little-endian fields to a buffer. Positions and alignment count from where the writer began.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> Writer<'a> {
    /// A writer whose position 0 is the present end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        if out.capacity() == 0 {
            // Field by field it would grow several times.
            out.reserve(BODY_BYTES);
        }
        let start = out.len();
        Writer { out, start }
    }

    /// How many bytes this writer has appended.
    pub fn position(&self) -> usize {
        self.out.len() - self.start
    }

    /// Appends bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends `count` zero bytes.
    pub fn zeros(&mut self, count: usize) {
        self.out.resize(self.out.len() + count, 0);
    }

    /// Appends zero bytes until the position is a multiple of `alignment`.
    pub fn align(&mut self, alignment: usize) {
        self.zeros(self.position().next_multiple_of(alignment) - self.position());
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// Appends text as UTF-16LE without a terminator.
    pub fn utf16(&mut self, text: &str) {
        for unit in text.encode_utf16() {
            self.u16(unit);
        }
    }

    /// Overwrites the 16-bit field that stands at `position`. Out of range does nothing.
    pub fn patch_u16(&mut self, position: usize, value: u16) {
        self.patch(position, &value.to_le_bytes());
    }

    /// Overwrites the 32-bit field that stands at `position`. Out of range does nothing.
    pub fn patch_u32(&mut self, position: usize, value: u32) {
        self.patch(position, &value.to_le_bytes());
    }

    fn patch(&mut self, position: usize, value: &[u8]) {
        let at = self.start + position;
        if let Some(field) = self.out.get_mut(at..at + value.len()) {
            field.copy_from_slice(value);
        }
    }
}

/// Text as it stands on the wire: UTF-16LE, an even number of bytes, perhaps with lone surrogates.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Utf16<'a>(&'a [u8]);

impl<'a> Utf16<'a> {
    /// Wraps `bytes`; an odd length is malformed.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if !bytes.len().is_multiple_of(2) {
            return Err(Malformed("text has an odd length"));
        }
        Ok(Utf16(bytes))
    }

    /// The bytes as received.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// True when there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The code units.
    pub fn units(&self) -> impl Iterator<Item = u16> + 'a {
        self.0.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]))
    }

    /// The text, or `None` where a surrogate stands alone.
    pub fn decode(&self) -> Option<String> {
        if self.0.chunks_exact(2).all(|unit| unit[0] < 0x80 && unit[1] == 0) {
            // Most text is ASCII, and then this is far less work.
            return String::from_utf8(self.0.iter().step_by(2).copied().collect()).ok();
        }
        char::decode_utf16(self.units()).collect::<Result<String, _>>().ok()
    }
}

impl fmt::Debug for Utf16<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text: String = char::decode_utf16(self.units()).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        write!(f, "{text:?}")
    }
}

/// Encodes text as UTF-16LE without a terminator.
pub fn utf16_bytes(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_never_passes_the_end() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!(reader.u16(), Ok(0x0201));
        assert_eq!(reader.u16(), Err(Malformed("ends too early")));
        assert_eq!(reader.u8(), Ok(3));
        assert!(reader.is_empty());
        assert_eq!(Reader::at(&[1], 9).u8(), Err(Malformed("ends too early")));
    }

    #[test]
    fn ranges_that_overflow_are_malformed() {
        assert!(range(&[0; 4], usize::MAX, 2, "x").is_err());
        assert!(range(&[0; 4], 2, 3, "x").is_err());
        assert_eq!(range(&[0, 1, 2, 3], 1, 2, "x"), Ok(&[1u8, 2][..]));
    }

    #[test]
    fn lone_surrogates_do_not_decode() {
        assert_eq!(Utf16::new(&[0x00, 0xd8]).unwrap().decode(), None);
        assert_eq!(Utf16::new(&utf16_bytes("a\u{1f600}")).unwrap().decode().as_deref(), Some("a\u{1f600}"));
        assert!(Utf16::new(&[0]).is_err());
    }

    #[test]
    fn writer_aligns_from_its_own_start() {
        let mut out = vec![9; 3];
        let mut writer = Writer::new(&mut out);
        writer.u8(1);
        writer.align(4);
        writer.u32(7);
        writer.patch_u16(0, 0x0202);
        assert_eq!(out, [9, 9, 9, 2, 2, 0, 0, 7, 0, 0, 0]);
    }
}
