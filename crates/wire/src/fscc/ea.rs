//! Extended attributes (MS-FSCC 2.4.16).

use crate::codec::{Malformed, Reader, range};
use crate::fscc::chain::{Chain, ChainWriter};

/// FILE_NEED_EA: who does not understand the attribute does not understand the file.
pub const NEED_EA: u8 = 0x80;
/// Entries are aligned on four bytes.
const ALIGNMENT: usize = 4;
/// Bytes before the name in FILE_FULL_EA_INFORMATION.
const FULL_HEADER_BYTES: usize = 8;
/// Bytes before the name in FILE_GET_EA_INFORMATION.
const GET_HEADER_BYTES: usize = 5;

/// One extended attribute (FILE_FULL_EA_INFORMATION).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullEa<'a> {
    /// Zero or [`NEED_EA`].
    pub flags: u8,
    /// The name, without its terminator. Not checked: see [`name_is_valid`].
    pub name: &'a [u8],
    /// The value; setting an empty one deletes the attribute.
    pub value: &'a [u8],
}

impl<'a> FullEa<'a> {
    fn decode(entry: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::at(entry, 4);
        let flags = reader.u8()?;
        let name_length = usize::from(reader.u8()?);
        let value_length = usize::from(reader.u16()?);
        let name = range(entry, FULL_HEADER_BYTES, name_length, "EaNameLength")?;
        let mut reader = Reader::at(entry, FULL_HEADER_BYTES + name_length);
        if reader.u8()? != 0 {
            return Err(Malformed("EaName is not terminated"));
        }
        Ok(FullEa { flags, name, value: reader.bytes(value_length)? })
    }

    /// The bytes it takes in a list, padding left out; `None` where name or value are too long for their length fields.
    fn encoded_length(&self) -> Option<usize> {
        let fits = self.name.len() <= usize::from(u8::MAX) && self.value.len() <= usize::from(u16::MAX);
        fits.then_some(FULL_HEADER_BYTES + self.name.len() + 1 + self.value.len())
    }
}

/// Walks a list of FILE_FULL_EA_INFORMATION: set-info's buffer, CREATE's EA context or a query's answer.
pub fn full_eas(bytes: &[u8]) -> impl Iterator<Item = Result<FullEa<'_>, Malformed>> {
    Chain::new(bytes, ALIGNMENT).map(|entry| FullEa::decode(entry?))
}

/// Walks a list of FILE_GET_EA_INFORMATION (MS-FSCC 2.4.16.1): the names that a query asks for.
pub fn names(bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], Malformed>> {
    Chain::new(bytes, ALIGNMENT).map(|entry| {
        let entry = entry?;
        let length = usize::from(Reader::at(entry, 4).u8()?);
        let name = range(entry, GET_HEADER_BYTES, length, "EaNameLength")?;
        if Reader::at(entry, GET_HEADER_BYTES + length).u8()? != 0 {
            return Err(Malformed("EaName is not terminated"));
        }
        Ok(name)
    })
}

/// True for a name that can be set (MS-FSCC 2.4.16): 1 to 254 bytes of ASCII, none a control character or one of
/// `\ / : * ? " < > | , + = [ ] ;`. Anything else is answered with STATUS_INVALID_EA_NAME.
pub fn name_is_valid(name: &[u8]) -> bool {
    let allowed = |byte: &u8| (0x20..0x80).contains(byte) && !br#"\/:*?"<>|,+=[];"#.contains(byte);
    (1..255).contains(&name.len()) && name.iter().all(allowed)
}

/// Writes a list of FILE_FULL_EA_INFORMATION.
#[derive(Debug)]
pub struct FullEaWriter<'a>(ChainWriter<'a>);

impl<'a> FullEaWriter<'a> {
    /// Appends to `out` at most `limit_bytes` bytes.
    pub fn new(out: &'a mut Vec<u8>, limit_bytes: usize) -> Self {
        FullEaWriter(ChainWriter::new(out, limit_bytes, ALIGNMENT))
    }

    /// Appends one attribute. False, and nothing is written, where it does not fit.
    pub fn push(&mut self, ea: &FullEa<'_>) -> bool {
        let Some(writer) = ea.encoded_length().and_then(|length| self.0.entry(length)) else { return false };
        writer.u32(0);
        writer.u8(ea.flags);
        writer.u8(ea.name.len() as u8);
        writer.u16(ea.value.len() as u16);
        writer.bytes(ea.name);
        writer.u8(0);
        writer.bytes(ea.value);
        true
    }

    /// True while nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Writes a list of FILE_GET_EA_INFORMATION.
#[derive(Debug)]
pub struct NameWriter<'a>(ChainWriter<'a>);

impl<'a> NameWriter<'a> {
    /// Appends to `out` at most `limit_bytes` bytes.
    pub fn new(out: &'a mut Vec<u8>, limit_bytes: usize) -> Self {
        NameWriter(ChainWriter::new(out, limit_bytes, ALIGNMENT))
    }

    /// Appends one name. False, and nothing is written, where it does not fit.
    pub fn push(&mut self, name: &[u8]) -> bool {
        let Ok(length) = u8::try_from(name.len()) else { return false };
        let Some(writer) = self.0.entry(GET_HEADER_BYTES + name.len() + 1) else { return false };
        writer.u32(0);
        writer.u8(length);
        writer.bytes(name);
        writer.u8(0);
        true
    }
}
