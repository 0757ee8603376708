//! What changed in a directory (MS-FSCC 2.7.1).

use crate::codec::{Malformed, Reader, Utf16};
use crate::fscc::chain::{Chain, ChainWriter};

/// Entries are aligned on four bytes.
const ALIGNMENT: usize = 4;
/// Bytes before the name.
const HEADER_BYTES: usize = 12;

numbers! {
    /// What happened (MS-FSCC 2.7.1).
    Action(u32) {
        /// The name appeared.
        ADDED = 0x01,
        /// The name went.
        REMOVED = 0x02,
        /// Data or attributes changed.
        MODIFIED = 0x03,
        /// Renamed: the name it had.
        RENAMED_OLD_NAME = 0x04,
        /// Renamed: the name it has.
        RENAMED_NEW_NAME = 0x05,
        /// A stream appeared.
        ADDED_STREAM = 0x06,
        /// A stream went.
        REMOVED_STREAM = 0x07,
        /// A stream changed.
        MODIFIED_STREAM = 0x08,
        /// An object identifier went with its file.
        REMOVED_BY_DELETE = 0x09,
        /// An object identifier could not be tunnelled.
        ID_NOT_TUNNELLED = 0x0A,
        /// An object identifier was there already.
        TUNNELLED_ID_COLLISION = 0x0B,
    }
}

/// One change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    /// What happened.
    pub action: Action,
    /// To which name, from the watched directory.
    pub name: Utf16<'a>,
}

/// Walks a list of changes.
pub fn changes(bytes: &[u8]) -> impl Iterator<Item = Result<Change<'_>, Malformed>> {
    Chain::new(bytes, ALIGNMENT).map(|entry| {
        let mut reader = Reader::at(entry?, 4);
        let action = Action(reader.u32()?);
        let length = reader.u32()? as usize;
        Ok(Change { action, name: Utf16::new(reader.bytes(length)?)? })
    })
}

/// Writes a list of changes.
#[derive(Debug)]
pub struct ChangeWriter<'a>(ChainWriter<'a>);

impl<'a> ChangeWriter<'a> {
    /// Appends to `out` at most `limit_bytes` bytes.
    pub fn new(out: &'a mut Vec<u8>, limit_bytes: usize) -> Self {
        ChangeWriter(ChainWriter::new(out, limit_bytes, ALIGNMENT))
    }

    /// Appends one change. False, and nothing is written, where it does not fit: the whole answer is then
    /// STATUS_NOTIFY_ENUM_DIR.
    pub fn push(&mut self, action: Action, name: &str) -> bool {
        let length = 2 * name.encode_utf16().count();
        let Some(writer) = self.0.entry(HEADER_BYTES + length) else { return false };
        writer.u32(0);
        writer.u32(action.0);
        writer.u32(length as u32);
        writer.utf16(name);
        true
    }

    /// True while nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
