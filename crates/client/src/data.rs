//! Bytes that were read.

use std::ops::{Deref, Range};

use bytes::{Buf, Bytes, BytesMut};

/// Bytes that were read, in the buffer that they arrived in. That is used again once this is dropped.
#[derive(Debug, Default)]
pub struct Data(Bytes);

impl Data {
    /// That part of a message.
    pub(crate) fn new(mut message: BytesMut, range: Range<usize>) -> Self {
        message.truncate(range.end);
        message.advance(range.start.min(message.len()));
        Data(message.freeze())
    }

    /// All of what arrived apart from its message.
    pub(crate) fn of_piece(piece: Bytes) -> Self {
        Data(piece)
    }
}

impl From<Data> for Bytes {
    fn from(data: Data) -> Bytes {
        data.0
    }
}

impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
