//! How parameters stand in a stub: NDR (C706 14) and NDR64 (MS-RPCE 2.2.5). Integers are little-endian; the stub's
//! start is aligned to anything.

use crate::codec::{Malformed, Reader, Utf16, Writer};
use crate::rpc::SyntaxId;
use crate::security::Sid;

/// The first referent; the others follow at steps of four, as Windows numbers them.
const REFERENT_FIRST: u32 = 0x0002_0000;

/// A transfer syntax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Pointers and counts have four bytes.
    Ndr32,
    /// Pointers and counts have eight bytes.
    Ndr64,
}

impl Syntax {
    /// The syntax that `id` names, if we speak it.
    pub fn of(id: &SyntaxId) -> Option<Syntax> {
        match *id {
            SyntaxId::NDR32 => Some(Syntax::Ndr32),
            SyntaxId::NDR64 => Some(Syntax::Ndr64),
            _ => None,
        }
    }

    /// Its name on the wire.
    pub fn id(self) -> SyntaxId {
        match self {
            Syntax::Ndr32 => SyntaxId::NDR32,
            Syntax::Ndr64 => SyntaxId::NDR64,
        }
    }

    /// Bytes in a pointer or count, and their alignment.
    fn word(self) -> usize {
        match self {
            Syntax::Ndr32 => 4,
            Syntax::Ndr64 => 8,
        }
    }
}

/// The fixed part of a counted string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedString {
    /// In bytes, as `max`.
    length: u16,
    max: u16,
    present: bool,
}

/// Reads parameters off a stub.
#[derive(Debug)]
pub(crate) struct NdrReader<'a> {
    reader: Reader<'a>,
    syntax: Syntax,
}

impl<'a> NdrReader<'a> {
    pub(crate) fn new(stub: &'a [u8], syntax: Syntax) -> Self {
        NdrReader { reader: Reader::new(stub), syntax }
    }

    fn align(&mut self, alignment: usize) -> Result<(), Malformed> {
        let position = self.reader.position();
        self.reader.skip(position.next_multiple_of(alignment) - position)
    }

    /// Before and after a union's discriminant whose arms are pointers (MS-RPCE 2.2.5.3.4.4).
    pub(crate) fn align_word(&mut self) -> Result<(), Malformed> {
        self.align(self.syntax.word())
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.reader.u8()
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.align(2)?;
        self.reader.u16()
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.align(4)?;
        self.reader.u32()
    }

    /// An enumeration: two bytes in NDR (C706 14.2.5), four in NDR64 (MS-RPCE 2.2.5.3.1).
    pub(crate) fn enumeration(&mut self) -> Result<u32, Malformed> {
        match self.syntax {
            Syntax::Ndr32 => self.u16().map(u32::from),
            Syntax::Ndr64 => self.u32(),
        }
    }

    /// The next `N` bytes, aligned to four.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.align(4)?;
        self.reader.array()
    }

    /// The count of a conformant array that was announced as `announced`, `max` at most.
    pub(crate) fn elements(&mut self, announced: u32, max: u32) -> Result<u32, Malformed> {
        if announced > max || self.count()? != u64::from(announced) {
            return Err(Malformed("count of elements"));
        }
        Ok(announced)
    }

    /// The count of a conformant varying array that was announced as `announced`, `max` at most.
    pub(crate) fn varying_elements(&mut self, announced: u32, max: u32) -> Result<u32, Malformed> {
        let (room, offset, count) = (self.word()?, self.word()?, self.word()?);
        if announced > max || (offset, count) != (0, u64::from(announced)) || count > room {
            return Err(Malformed("count of elements"));
        }
        Ok(announced)
    }

    /// RPC_SID (MS-DTYP 2.4.2.3): the count of its sub-authorities, then the SID.
    pub(crate) fn sid(&mut self) -> Result<Sid, Malformed> {
        let count = self.count()?;
        self.align(4)?;
        let sid = Sid::read(&mut self.reader)?;
        if sid.sub_authorities().len() as u64 != count {
            return Err(Malformed("count of sub-authorities"));
        }
        Ok(sid)
    }

    /// The fixed part of an RPC_UNICODE_STRING (MS-DTYP 2.3.10). What it points to is deferred.
    pub(crate) fn counted_string(&mut self) -> Result<CountedString, Malformed> {
        self.align_word()?;
        let (length, max) = (self.u16()?, self.u16()?);
        let present = self.pointer()?;
        if length > max || !length.is_multiple_of(2) || !max.is_multiple_of(2) || (length != 0 && !present) {
            return Err(Malformed("string bounds"));
        }
        Ok(CountedString { length, max, present })
    }

    /// The text that a string's fixed part points to; empty where it points to none.
    pub(crate) fn text_of(&mut self, string: CountedString) -> Result<Utf16<'a>, Malformed> {
        if !string.present {
            return Ok(Utf16::default());
        }
        let (max, offset, count) = (self.word()?, self.word()?, self.word()?);
        if (max, offset, count) != (u64::from(string.max / 2), 0, u64::from(string.length / 2)) {
            return Err(Malformed("string bounds"));
        }
        Utf16::new(self.reader.bytes(usize::from(string.length))?)
    }

    /// A pointer or a count.
    fn word(&mut self) -> Result<u64, Malformed> {
        self.align_word()?;
        match self.syntax {
            Syntax::Ndr32 => self.reader.u32().map(u64::from),
            Syntax::Ndr64 => self.reader.u64(),
        }
    }

    /// A count of elements, not yet of any meaning: nothing is allocated for it.
    pub(crate) fn count(&mut self) -> Result<u64, Malformed> {
        self.word()
    }

    /// A unique pointer: true where it points to something, which then follows or is deferred.
    pub(crate) fn pointer(&mut self) -> Result<bool, Malformed> {
        Ok(self.word()? != 0)
    }

    /// A conformant varying string, its terminator cut off (C706 14.3.3.4).
    pub(crate) fn string(&mut self) -> Result<Utf16<'a>, Malformed> {
        let (max, offset, count) = (self.word()?, self.word()?, self.word()?);
        if offset != 0 || count > max {
            return Err(Malformed("string bounds"));
        }
        let length = usize::try_from(count).ok().and_then(|count| count.checked_mul(2)).ok_or(Malformed("string"))?;
        let bytes = self.reader.bytes(length)?;
        Utf16::new(bytes.strip_suffix(&[0, 0]).unwrap_or(bytes))
    }

    /// A unique pointer to a string that follows at once.
    pub(crate) fn unique_string(&mut self) -> Result<Option<Utf16<'a>>, Malformed> {
        if self.pointer()? { self.string().map(Some) } else { Ok(None) }
    }
}

/// UTF-16 units of `text`, as many as a counted string can have.
fn units(text: &str) -> usize {
    text.encode_utf16().count().min(usize::from(u16::MAX / 2))
}

/// Appends parameters to a stub.
#[derive(Debug)]
pub(crate) struct NdrWriter<'a> {
    writer: Writer<'a>,
    syntax: Syntax,
    referents: u32,
}

impl<'a> NdrWriter<'a> {
    /// The stub begins at the present end of `out`.
    pub(crate) fn new(out: &'a mut Vec<u8>, syntax: Syntax) -> Self {
        NdrWriter { writer: Writer::new(out), syntax, referents: 0 }
    }

    pub(crate) fn align_word(&mut self) {
        self.writer.align(self.syntax.word());
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.writer.u8(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.writer.align(2);
        self.writer.u16(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.writer.align(4);
        self.writer.u32(value);
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.writer.align(8);
        self.writer.u64(value);
    }

    /// An enumeration, as [`NdrReader::enumeration`] has it.
    pub(crate) fn enumeration(&mut self, value: u32) {
        match self.syntax {
            Syntax::Ndr32 => self.u16(value as u16),
            Syntax::Ndr64 => self.u32(value),
        }
    }

    /// The discriminant of a union that is an enumeration, and what stands before the arm: NDR aligns that by itself, NDR64 as its
    /// longest arm (MS-RPCE 2.2.5.3.4.4).
    pub(crate) fn enumeration_tag(&mut self, tag: u32) {
        if self.syntax == Syntax::Ndr64 {
            self.align_word();
        }
        self.enumeration(tag);
        if self.syntax == Syntax::Ndr64 {
            self.align_word();
        }
    }

    /// Bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.writer.bytes(bytes);
    }

    /// Begins at a multiple of four.
    pub(crate) fn align_long(&mut self) {
        self.writer.align(4);
    }

    /// RPC_SID.
    pub(crate) fn sid(&mut self, sid: &Sid) {
        self.count(sid.sub_authorities().len());
        self.writer.align(4);
        sid.write(&mut self.writer);
    }

    /// The fixed part of an RPC_UNICODE_STRING; [`NdrWriter::text_of`] writes what it points to. At most 32,767 units are told.
    pub(crate) fn counted_string(&mut self, text: &str) {
        let length = (2 * units(text)) as u16;
        self.align_word();
        self.u16(length);
        self.u16(length);
        self.pointer(true);
    }

    /// The fixed part of a string that is not there: it points to nothing.
    pub(crate) fn no_string(&mut self) {
        self.align_word();
        self.u16(0);
        self.u16(0);
        self.pointer(false);
    }

    /// What the fixed part points to.
    pub(crate) fn text_of(&mut self, text: &str) {
        let units = units(text);
        self.count(units);
        self.count(0);
        self.count(units);
        text.encode_utf16().take(units).for_each(|unit| self.writer.u16(unit));
    }

    fn word(&mut self, value: u64) {
        self.align_word();
        match self.syntax {
            Syntax::Ndr32 => self.writer.u32(value as u32),
            Syntax::Ndr64 => self.writer.u64(value),
        }
    }

    /// A count of elements.
    pub(crate) fn count(&mut self, count: usize) {
        self.word(count as u64);
    }

    /// A unique pointer, to something where `present`.
    pub(crate) fn pointer(&mut self, present: bool) {
        if !present {
            return self.word(0);
        }
        self.word(u64::from(REFERENT_FIRST + 4 * self.referents));
        self.referents += 1;
    }

    /// A conformant varying string with its terminator.
    pub(crate) fn string(&mut self, text: &str) {
        let count = text.encode_utf16().count() + 1;
        self.count(count);
        self.count(0);
        self.count(count);
        self.writer.utf16(text);
        self.writer.u16(0);
    }

    /// A unique pointer to a string that follows at once.
    pub(crate) fn unique_string(&mut self, text: Option<&str>) {
        self.pointer(text.is_some());
        if let Some(text) = text {
            self.string(text);
        }
    }
}
