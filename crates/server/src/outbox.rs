//! What waits to be sent on one connection: replies are built in place, one after the other, and leave together. Between their
//! bytes there may be parts of files, which go from the page cache to the socket without passing through here.

use std::collections::VecDeque;
use std::sync::Arc;

use store::Node;

use crate::buffers::{Buffer, Buffers};

/// What a part of a file is filled up with where the file has become shorter since its length was promised.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The queue. Empty, it holds no buffer and no file.
#[derive(Default)]
pub(crate) struct Outbox {
    buffer: Option<Buffer>,
    sent: usize,
    filled: usize,
    parts: VecDeque<FilePart>,
    part_bytes: usize,
    passed_on: u64,
}

/// Bytes of a file that were promised.
struct FilePart {
    /// Bytes of the buffer before this index are sent first.
    at: usize,
    node: Arc<dyn Node>,
    offset: u64,
    left: usize,
    /// The file has no more: the rest is zeros.
    ended: bool,
}

/// What is to be sent next.
pub(crate) enum Next<'a> {
    /// All is sent.
    Nothing,
    /// These bytes, and at once some of a file where `more` is set.
    Bytes { bytes: &'a [u8], more: bool },
    /// These of a file.
    File { node: &'a dyn Node, offset: u64, length: usize },
}

impl Outbox {
    /// What to send next.
    pub(crate) fn next(&self) -> Next<'_> {
        let until = self.parts.front().map_or(self.filled, |part| part.at);
        match (&self.buffer, self.parts.front()) {
            (Some(buffer), part) if self.sent < until => {
                Next::Bytes { bytes: &buffer[self.sent..until], more: part.is_some() }
            }
            (_, Some(part)) if part.ended => Next::Bytes { bytes: &ZEROS[..part.left.min(ZEROS.len())], more: false },
            (_, Some(part)) => Next::File { node: &*part.node, offset: part.offset, length: part.left },
            (_, None) => Next::Nothing,
        }
    }

    /// How much is queued, files included.
    pub(crate) fn bytes(&self) -> usize {
        self.filled - self.sent + self.part_bytes
    }

    /// Bytes that have gone into the stream in all.
    pub(crate) fn passed_on(&self) -> u64 {
        self.passed_on
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

    /// Queues `length` bytes of a file at `offset`. They are taken from it when they are sent: what is written there until then
    /// is sent too.
    pub(crate) fn commit_file(&mut self, node: Arc<dyn Node>, offset: u64, length: usize) {
        self.parts.push_back(FilePart { at: self.filled, node, offset, left: length, ended: false });
        self.part_bytes += length;
    }

    /// Forgets `bytes` of what was next, and gives the buffer back with the last of them.
    pub(crate) fn sent(&mut self, buffers: &Buffers, bytes: usize) {
        self.passed_on += bytes as u64;
        match self.parts.front_mut() {
            Some(part) if part.at == self.sent => {
                part.left -= bytes;
                part.offset += bytes as u64;
                self.part_bytes -= bytes;
                if part.left == 0 {
                    self.parts.pop_front();
                }
            }
            Some(_) | None => self.sent += bytes,
        }
        if self.bytes() == 0 {
            self.clear(buffers);
        }
    }

    /// The file that is next ended before it gave all.
    pub(crate) fn file_ended(&mut self) {
        if let Some(part) = self.parts.front_mut() {
            part.ended = true;
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, buffers: &Buffers) {
        (self.sent, self.filled, self.part_bytes) = (0, 0, 0);
        self.parts.clear();
        if let Some(buffer) = self.buffer.take() {
            buffers.give_back(buffer);
        }
    }

    fn grow(&mut self, buffers: &Buffers, bytes: usize) {
        let pending = self.buffer.as_ref().map(|buffer| &buffer[self.sent..self.filled]).unwrap_or_default();
        let mut larger = buffers.lend(pending.len() + bytes);
        larger[..pending.len()].copy_from_slice(pending);
        for part in &mut self.parts {
            part.at -= self.sent;
        }
        (self.filled, self.sent) = (self.filled - self.sent, 0);
        if let Some(old) = self.buffer.replace(larger) {
            buffers.give_back(old);
        }
    }
}

#[cfg(test)]
impl Outbox {
    /// Copies out what is queued, files included, up to `bytes_max`.
    pub(crate) fn peek(&self, bytes_max: usize) -> Vec<u8> {
        let mut seen = Vec::new();
        let mut at = self.sent;
        for part in &self.parts {
            seen.extend_from_slice(self.buffer.as_ref().map(|buffer| &buffer[at..part.at]).unwrap_or_default());
            at = part.at;
            let mut bytes = vec![0; part.left.min(bytes_max)];
            part.node.read_at(&mut bytes, part.offset).unwrap();
            seen.extend_from_slice(&bytes);
            if seen.len() >= bytes_max {
                break;
            }
        }
        if seen.len() < bytes_max {
            seen.extend_from_slice(self.buffer.as_ref().map(|buffer| &buffer[at..self.filled]).unwrap_or_default());
        }
        seen.truncate(bytes_max);
        seen
    }

    /// Forgets `bytes` from the front, whatever they are.
    pub(crate) fn skip(&mut self, buffers: &Buffers, mut bytes: usize) {
        while bytes > 0 {
            let step = match self.next() {
                Next::Nothing => return,
                Next::Bytes { bytes: run, .. } => run.len().min(bytes),
                Next::File { length, .. } => length.min(bytes),
            };
            self.sent(buffers, step);
            bytes -= step;
        }
    }
}

#[cfg(test)]
mod tests {
    use store::{DirectoryStore, Kind, NewNode, SharePath, Store};

    use super::*;

    fn bytes(outbox: &Outbox) -> &[u8] {
        match outbox.next() {
            Next::Bytes { bytes, .. } => bytes,
            Next::Nothing | Next::File { .. } => &[],
        }
    }

    fn queue(outbox: &mut Outbox, buffers: &Buffers, text: &[u8]) {
        outbox.room(buffers, text.len()).copy_from_slice(text);
        outbox.commit(text.len());
    }

    #[test]
    fn what_is_committed_is_pending_in_order() {
        let buffers = Buffers::default();
        let mut outbox = Outbox::default();
        outbox.room(&buffers, 8)[..3].copy_from_slice(b"abc");
        outbox.commit(3);
        outbox.room(&buffers, 2 << 20)[..2].copy_from_slice(b"de");
        outbox.commit(2);
        assert_eq!(bytes(&outbox), b"abcde");
        outbox.sent(&buffers, 4);
        assert_eq!(bytes(&outbox), b"e");
        outbox.sent(&buffers, 1);
        assert!(matches!(outbox.next(), Next::Nothing) && outbox.buffer.is_none());
    }

    #[test]
    fn files_stand_between_the_bytes_they_were_queued_between() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), Default::default()).unwrap();
        let new = NewNode { kind: Kind::File, attributes: 0, security: None };
        let node = store.create(&SharePath::parse("f").unwrap(), new).unwrap();
        node.write_at(b"0123456789", 0).unwrap();
        let buffers = Buffers::default();
        let mut outbox = Outbox::default();
        queue(&mut outbox, &buffers, b"head");
        outbox.commit_file(Arc::clone(&node), 2, 5);
        outbox.commit_file(Arc::clone(&node), 0, 1);
        queue(&mut outbox, &buffers, b"tail");
        outbox.sent(&buffers, 1);
        // A larger buffer moves the bytes, not their order.
        queue(&mut outbox, &buffers, &[b'x'; 200_000]);
        assert_eq!(outbox.bytes(), 3 + 5 + 1 + 4 + 200_000);
        assert_eq!(&outbox.peek(14), b"ead234560tailx");
        assert_eq!(bytes(&outbox), b"ead");
        outbox.sent(&buffers, 3);
        assert!(matches!(outbox.next(), Next::File { offset: 2, length: 5, .. }));
        outbox.sent(&buffers, 4);
        assert!(matches!(outbox.next(), Next::File { offset: 6, length: 1, .. }));
        outbox.file_ended();
        assert_eq!(bytes(&outbox), [0]);
        outbox.sent(&buffers, 1);
        assert!(matches!(outbox.next(), Next::File { offset: 0, length: 1, .. }));
        outbox.sent(&buffers, 1);
        assert_eq!(&bytes(&outbox)[..5], b"tailx");
        outbox.skip(&buffers, 200_004);
        assert!(matches!(outbox.next(), Next::Nothing) && outbox.buffer.is_none());
    }
}
