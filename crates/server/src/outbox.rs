//! Bytes that wait to be sent on one connection: replies are built in place, one after the other, and leave together.

use crate::buffers::{Buffer, Buffers};

/// The queue of bytes. Empty, it holds no buffer.
#[derive(Default)]
pub(crate) struct Outbox {
    buffer: Option<Buffer>,
    sent: usize,
    filled: usize,
}

impl Outbox {
    /// Bytes not sent yet.
    pub(crate) fn pending(&self) -> &[u8] {
        match &self.buffer {
            Some(buffer) => &buffer[self.sent..self.filled],
            None => &[],
        }
    }

    /// Room for `bytes` behind what is queued. Nothing is queued until [`Outbox::commit`].
    pub(crate) fn room(&mut self, buffers: &Buffers, bytes: usize) -> &mut [u8] {
        let fits = self.buffer.as_ref().is_some_and(|buffer| buffer.len() - self.filled >= bytes);
        if !fits {
            self.grow(buffers, bytes);
        }
        match &mut self.buffer {
            Some(buffer) => &mut buffer[self.filled..self.filled + bytes],
            None => &mut [],
        }
    }

    /// Queues the first `bytes` of the room taken last.
    pub(crate) fn commit(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    /// Forgets `bytes` that were sent, and gives the buffer back with the last of them.
    pub(crate) fn sent(&mut self, buffers: &Buffers, bytes: usize) {
        self.sent += bytes;
        if self.sent == self.filled {
            self.clear(buffers);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, buffers: &Buffers) {
        (self.sent, self.filled) = (0, 0);
        if let Some(buffer) = self.buffer.take() {
            buffers.give_back(buffer);
        }
    }

    fn grow(&mut self, buffers: &Buffers, bytes: usize) {
        let mut larger = buffers.lend(self.filled - self.sent + bytes);
        let pending = self.pending();
        larger[..pending.len()].copy_from_slice(pending);
        (self.filled, self.sent) = (pending.len(), 0);
        if let Some(old) = self.buffer.replace(larger) {
            buffers.give_back(old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_committed_is_pending_in_order() {
        let buffers = Buffers::default();
        let mut outbox = Outbox::default();
        outbox.room(&buffers, 8)[..3].copy_from_slice(b"abc");
        outbox.commit(3);
        outbox.room(&buffers, 2 << 20)[..2].copy_from_slice(b"de");
        outbox.commit(2);
        assert_eq!(outbox.pending(), b"abcde");
        outbox.sent(&buffers, 4);
        assert_eq!(outbox.pending(), b"e");
        outbox.sent(&buffers, 1);
        assert!(outbox.pending().is_empty() && outbox.buffer.is_none());
    }
}
