//! What one connection receives, cut into frames without a copy: small ones are parts of the buffer that they arrived in together, large
//! ones are received where they stay. A buffer is used again once nobody looks at any part of it.

use std::io;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::frame::{PREFIX_LENGTH, frame_length};

use crate::connection::Loss;

/// Small answers that arrive together are received together.
const RECEIVE_BYTES: usize = 256 << 10;
/// Longer frames have a buffer of their own.
const SMALL_BYTES_MAX: usize = 32 << 10;
/// Received at once behind a frame that is longer than the buffer: enough to see whether another one follows, and little to copy there.
const HEAD_BYTES: usize = 128;
/// Buffers that are kept to be used again: their number, and their bytes in all.
const KEPT_MAX: usize = 32;
const KEPT_BYTES_MAX: usize = 16 << 20;

/// What has arrived and was not cut yet.
pub(crate) struct Inbox {
    buffer: BytesMut,
    large: Option<Large>,
    /// The length of the last frame tells what comes next.
    last_length: usize,
    kept: Kept,
}

/// A large frame that is on its way.
struct Large {
    frame: BytesMut,
    length: usize,
}

impl Inbox {
    pub(crate) fn new() -> Self {
        let buffer = BytesMut::with_capacity(RECEIVE_BYTES);
        Inbox { buffer, large: None, last_length: 0, kept: Kept::default() }
    }

    /// The next frame without its prefix, once all of it is there.
    ///
    /// # Errors
    ///
    /// A prefix that is none, or that announces more than `longest` bytes.
    pub(crate) fn cut(&mut self, longest: usize) -> Result<Option<BytesMut>, Loss> {
        if let Some(large) = self.large.take_if(|large| large.frame.len() == large.length) {
            return Ok(Some(self.kept.part(large.frame)));
        }
        let Some(prefix) = self.buffer.first_chunk::<PREFIX_LENGTH>().filter(|_| self.large.is_none()) else {
            return Ok(None);
        };
        let length = frame_length(*prefix).map_err(|_| Loss("the server sent something that is no SMB"))?;
        if length > longest {
            return Err(Loss("the server announced a message that is too long"));
        }
        self.last_length = length;
        if self.buffer.len() >= PREFIX_LENGTH + length {
            self.buffer.advance(PREFIX_LENGTH);
            return Ok(Some(self.buffer.split_to(length)));
        }
        if length > SMALL_BYTES_MAX {
            self.buffer.advance(PREFIX_LENGTH);
            let mut frame = self.kept.room(length);
            frame.extend_from_slice(&self.buffer);
            self.buffer.clear();
            self.large = Some(Large { frame, length });
        }
        Ok(None)
    }

    /// Receives; the number of bytes, 0 at the end.
    pub(crate) async fn fill(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        if let Some(large) = &mut self.large {
            let missing = large.length - large.frame.len();
            return reader.read_buf(&mut (&mut large.frame).limit(missing)).await;
        }
        if self.buffer.capacity() - self.buffer.len() <= SMALL_BYTES_MAX {
            let mut next = self.kept.room(RECEIVE_BYTES);
            next.extend_from_slice(&self.buffer);
            let before = std::mem::replace(&mut self.buffer, next);
            self.kept.keep(before);
        }
        let most = if self.last_length >= RECEIVE_BYTES { HEAD_BYTES } else { usize::MAX };
        reader.read_buf(&mut (&mut self.buffer).limit(most)).await
    }

    /// True in the middle of a frame.
    pub(crate) fn is_torn(&self) -> bool {
        self.large.is_some() || !self.buffer.is_empty()
    }
}

/// Buffers whose parts may still be in use. What is kept of each is its empty end, which becomes all of it again when it is the last part.
#[derive(Default)]
struct Kept {
    ends: Vec<(BytesMut, usize)>,
    bytes: usize,
}

impl Kept {
    /// An empty buffer with room for so many bytes.
    fn room(&mut self, bytes: usize) -> BytesMut {
        match self.ends.iter_mut().position(|(end, _)| end.try_reclaim(bytes)) {
            Some(at) => {
                let (end, length) = self.ends.swap_remove(at);
                self.bytes -= length;
                end
            }
            None => BytesMut::with_capacity(bytes),
        }
    }

    /// The filled part of a buffer, whose end is kept.
    fn part(&mut self, mut buffer: BytesMut) -> BytesMut {
        let length = buffer.len();
        let end = buffer.split_off(length);
        self.remember(end, length);
        buffer
    }

    /// A buffer that nothing more is received in.
    fn keep(&mut self, mut buffer: BytesMut) {
        buffer.clear();
        self.remember(buffer, RECEIVE_BYTES);
    }

    fn remember(&mut self, end: BytesMut, length: usize) {
        while self.ends.len() >= KEPT_MAX || (self.bytes + length > KEPT_BYTES_MAX && !self.ends.is_empty()) {
            let (_, length) = self.ends.remove(0);
            self.bytes -= length;
        }
        self.ends.push((end, length));
        self.bytes += length;
    }
}
