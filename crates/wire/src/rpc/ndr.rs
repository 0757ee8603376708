//! How parameters stand in a stub: NDR (C706 14) and NDR64 (MS-RPCE 2.2.5). Integers are little-endian; the stub's
//! start is aligned to anything.

use crate::codec::{Malformed, Reader, Utf16, Writer};
use crate::rpc::SyntaxId;

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

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.align(4)?;
        self.reader.u32()
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

    pub(crate) fn u32(&mut self, value: u32) {
        self.writer.align(4);
        self.writer.u32(value);
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
