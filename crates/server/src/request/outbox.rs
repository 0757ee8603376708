//! What waits to be sent on one connection: replies are built in place, one after the other, and leave together. Between their
//! bytes there may be parts of files, which go from the page cache to the socket without passing through here.
//!
//! It is a queue of buffers. What is queued stays where it is until it is sent, however much is queued behind it.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use store::Node;

use crate::resource::budget::Charge;
use crate::resource::buffers::{Buffer, Buffers, SMALL_BYTES};

/// What a part of a file is filled up with where the file has become shorter since its length was promised.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// The queue. Empty, it holds no buffer and no file.
#[derive(Default)]
pub(crate) struct Outbox {
    /// None but the last may be without anything to send.
    lent: VecDeque<Lent>,
    /// Bytes of buffers that were ever queued, and of those the ones that are sent.
    queued: u64,
    sent: u64,
    parts: VecDeque<FilePart>,
    part_bytes: usize,
    passed_on: u64,
}

/// A buffer, and what of it is to be sent.
struct Lent {
    buffer: Buffer,
    start: usize,
    end: usize,
    charge: Option<Charge>,
}

/// Bytes of a file that were promised.
struct FilePart {
    /// So many bytes of buffers are sent before it.
    at: u64,
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
    File { node: &'a Arc<dyn Node>, offset: u64, length: usize },
}

impl Outbox {
    /// What to send next.
    pub(crate) fn next(&self) -> Next<'_> {
        let mut first = [IoSlice::new(&[])];
        match (self.slices(&mut first), self.parts.front()) {
            (1, part) => {
                let lent = &self.lent[0];
                let bytes = &lent.buffer[lent.start..lent.start + first[0].len()];
                Next::Bytes { bytes, more: part.is_some() }
            }
            (_, Some(part)) if part.ended => Next::Bytes { bytes: &ZEROS[..part.left.min(ZEROS.len())], more: false },
            (_, Some(part)) => Next::File { node: &part.node, offset: part.offset, length: part.left },
            (_, None) => Next::Nothing,
        }
    }

    /// Fills `into` with what stands in buffers and comes next, up to where a file comes; gives how many there are.
    pub(crate) fn slices<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let mut left = self.parts.front().map_or(self.queued, |part| part.at) - self.sent;
        let mut count = 0;
        for (slot, lent) in into.iter_mut().zip(&self.lent) {
            let bytes = usize::try_from(left).unwrap_or(usize::MAX).min(lent.end - lent.start);
            if bytes == 0 {
                break;
            }
            *slot = IoSlice::new(&lent.buffer[lent.start..lent.start + bytes]);
            left -= bytes as u64;
            count += 1;
        }
        count
    }

    /// How much is queued, files included.
    pub(crate) fn bytes(&self) -> usize {
        (self.queued - self.sent) as usize + self.part_bytes
    }

    /// Bytes of buffers that are held without a charge.
    pub(crate) fn uncharged_bytes(&self) -> usize {
        self.lent.iter().filter(|lent| lent.charge.is_none()).map(|lent| lent.buffer.len()).sum()
    }

    /// Bytes of buffers that are held until their client has taken what is in them.
    pub(crate) fn held_bytes(&self) -> usize {
        self.lent.iter().map(|lent| lent.buffer.len()).sum()
    }

    /// Bytes that have gone into the stream in all.
    pub(crate) fn passed_on(&self) -> u64 {
        self.passed_on
    }

    /// Room for `bytes` behind what is queued. Nothing is queued until [`Outbox::commit`]. A buffer of more than [`SMALL_BYTES`] has to be
    /// charged: `None` where `charge` gives nothing for its size.
    pub(crate) fn room(
        &mut self,
        buffers: &Buffers,
        bytes: usize,
        charge: impl FnOnce(usize) -> Option<Charge>,
    ) -> Option<&mut [u8]> {
        let fits = self.lent.back().is_some_and(|lent| lent.buffer.len() - lent.end >= bytes);
        if !fits {
            self.release(buffers);
            let size = Buffers::size(bytes);
            let charge = if size > SMALL_BYTES { Some(charge(size)?) } else { None };
            self.lent.push_back(Lent { buffer: buffers.lend(bytes), start: 0, end: 0, charge });
        }
        let lent = self.lent.back_mut()?;
        Some(&mut lent.buffer[lent.end..lent.end + bytes])
    }

    /// Queues the first `bytes` of the room taken last.
    pub(crate) fn commit(&mut self, bytes: usize) {
        if let Some(lent) = self.lent.back_mut() {
            lent.end += bytes;
            self.queued += bytes as u64;
        }
    }

    /// Queues what a buffer has from `start` to `end`.
    pub(crate) fn push(&mut self, buffers: &Buffers, buffer: Buffer, (start, end): (usize, usize), charge: Charge) {
        self.release(buffers);
        self.queued += (end - start) as u64;
        self.lent.push_back(Lent { buffer, start, end, charge: Some(charge) });
    }

    /// Queues `length` bytes of a file at `offset`. They are taken from it when they are sent: what is written there until then
    /// is sent too.
    pub(crate) fn commit_file(&mut self, node: Arc<dyn Node>, offset: u64, length: usize) {
        self.parts.push_back(FilePart { at: self.queued, node, offset, left: length, ended: false });
        self.part_bytes += length;
    }

    /// Forgets `bytes` of what was next, and gives each buffer back with the last of its own.
    pub(crate) fn sent(&mut self, buffers: &Buffers, mut bytes: usize) {
        self.passed_on += bytes as u64;
        match self.parts.front_mut() {
            Some(part) if part.at == self.sent => {
                part.left -= bytes;
                part.offset += bytes as u64;
                self.part_bytes -= bytes;
                if part.left == 0 {
                    self.parts.pop_front();
                }
                return;
            }
            Some(_) | None => self.sent += bytes as u64,
        }
        while let Some(lent) = self.lent.front_mut().filter(|_| bytes > 0) {
            let step = bytes.min(lent.end - lent.start);
            lent.start += step;
            bytes -= step;
            if lent.start == lent.end
                && let Some(lent) = self.lent.pop_front()
            {
                buffers.give_back(lent.buffer);
            }
        }
    }

    /// Gives back room that was taken and not used.
    pub(crate) fn release(&mut self, buffers: &Buffers) {
        if self.lent.back().is_some_and(|lent| lent.start == lent.end)
            && let Some(lent) = self.lent.pop_back()
        {
            buffers.give_back(lent.buffer);
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
        self.sent = self.queued;
        self.part_bytes = 0;
        self.parts.clear();
        self.lent.drain(..).for_each(|lent| buffers.give_back(lent.buffer));
    }
}

#[cfg(test)]
impl Outbox {
    /// Copies out what is queued, files included, up to `bytes_max`.
    pub(crate) fn peek(&self, bytes_max: usize) -> Vec<u8> {
        let buffered: Vec<u8> = self.lent.iter().flat_map(|lent| &lent.buffer[lent.start..lent.end]).copied().collect();
        let (mut seen, mut at) = (Vec::new(), 0);
        for part in &self.parts {
            let until = (part.at - self.sent) as usize;
            seen.extend_from_slice(&buffered[at..until]);
            at = until;
            let mut bytes = vec![0; part.left.min(bytes_max)];
            part.node.read_at(&mut bytes, part.offset).unwrap();
            seen.extend_from_slice(&bytes);
            if seen.len() >= bytes_max {
                break;
            }
        }
        if seen.len() < bytes_max {
            seen.extend_from_slice(&buffered[at..]);
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
    use crate::resource::budget::Budget;

    fn bytes(outbox: &Outbox) -> &[u8] {
        match outbox.next() {
            Next::Bytes { bytes, .. } => bytes,
            Next::Nothing | Next::File { .. } => &[],
        }
    }

    fn queue(outbox: &mut Outbox, buffers: &Buffers, text: &[u8]) {
        let budget = Budget::new(u64::MAX);
        let room = outbox.room(buffers, text.len(), |size| budget.charge(size as u64)).unwrap();
        room.copy_from_slice(text);
        outbox.commit(text.len());
    }

    #[test]
    fn what_is_committed_is_pending_in_order() {
        let buffers = Buffers::default();
        let budget = Budget::new(8 << 20);
        let mut outbox = Outbox::default();
        queue(&mut outbox, &buffers, b"abc");
        let room = outbox.room(&buffers, 500_000, |size| budget.charge(size as u64)).unwrap();
        room[..2].copy_from_slice(b"de");
        outbox.commit(2);
        assert_eq!(bytes(&outbox), b"abc");
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(outbox.slices(&mut slices), 2, "both leave in one call");
        assert_eq!((&*slices[0], &*slices[1]), (&b"abc"[..], &b"de"[..]));
        assert_eq!(outbox.uncharged_bytes(), SMALL_BYTES);
        outbox.sent(&buffers, 4);
        assert_eq!(bytes(&outbox), b"e");
        assert_eq!(outbox.uncharged_bytes(), 0);
        outbox.sent(&buffers, 1);
        assert!(matches!(outbox.next(), Next::Nothing) && outbox.lent.is_empty());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_is_queued_is_not_moved_by_what_comes_behind_it() {
        let buffers = Buffers::default();
        let mut outbox = Outbox::default();
        queue(&mut outbox, &buffers, &[1; 100_000]);
        let place = bytes(&outbox).as_ptr();
        for _ in 0..20 {
            queue(&mut outbox, &buffers, &[2; 100_000]);
        }
        assert_eq!((bytes(&outbox).as_ptr(), bytes(&outbox).len()), (place, 100_000));
        assert_eq!(outbox.bytes(), 2_100_000);
        outbox.sent(&buffers, 150_000);
        assert_eq!(bytes(&outbox), [2; 50_000]);
    }

    #[test]
    fn room_that_is_not_charged_or_not_used_is_not_held() {
        let buffers = Buffers::default();
        let budget = Budget::new(2 << 20);
        let mut outbox = Outbox::default();
        assert!(outbox.room(&buffers, 8 << 20, |size| budget.charge(size as u64)).is_none());
        assert!(outbox.lent.is_empty());
        assert!(outbox.room(&buffers, 1 << 20, |size| budget.charge(size as u64)).is_some());
        outbox.release(&buffers);
        assert_eq!((outbox.lent.len(), budget.used()), (0, 0));
        let charge = budget.charge(3).unwrap();
        outbox.push(&buffers, b"_abc_".to_vec().into(), (1, 4), charge);
        assert_eq!((bytes(&outbox), budget.used()), (&b"abc"[..], 3));
        outbox.clear(&buffers);
        assert_eq!((outbox.bytes(), budget.used()), (0, 0));
    }

    #[test]
    fn files_stand_between_the_bytes_they_were_queued_between() {
        let folder = tempfile::tempdir().unwrap();
        let store = DirectoryStore::open(folder.path(), Default::default()).unwrap();
        let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
        let node = store.create(&SharePath::parse("f").unwrap(), new).unwrap();
        node.write_at(b"0123456789", 0).unwrap();
        let buffers = Buffers::default();
        let mut outbox = Outbox::default();
        queue(&mut outbox, &buffers, b"head");
        outbox.commit_file(Arc::clone(&node), 2, 5);
        outbox.commit_file(Arc::clone(&node), 0, 1);
        queue(&mut outbox, &buffers, b"tail");
        outbox.sent(&buffers, 1);
        // It has a buffer of its own.
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
        assert_eq!(bytes(&outbox), b"tail");
        outbox.skip(&buffers, 200_004);
        assert!(matches!(outbox.next(), Next::Nothing) && outbox.lent.is_empty());
    }
}
