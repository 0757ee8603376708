//! The messages in a stream of bytes, as far as their heads tell.

use wire::header::{HEADER_LENGTH, Header};

/// What is kept of a frame: enough for the small messages that are looked into, and for a CREATE with a CLOSE behind it.
const HEAD_BYTES_MAX: usize = 1024;
const PREFIX_BYTES: usize = 4;

/// Cuts a stream into frames, and keeps the first bytes of each.
#[derive(Default)]
pub(crate) struct Frames {
    head: Vec<u8>,
    /// Of the frame, its prefix among them.
    taken_bytes: usize,
}

impl Frames {
    /// Takes bytes of the stream; gives the head of every frame that has ended with them, without its prefix.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut heads = Vec::new();
        while !bytes.is_empty() {
            let step = self.missing().min(bytes.len());
            let kept = step.min((PREFIX_BYTES + HEAD_BYTES_MAX).saturating_sub(self.head.len()));
            self.head.extend_from_slice(&bytes[..kept]);
            self.taken_bytes += step;
            bytes = &bytes[step..];
            if self.taken_bytes >= PREFIX_BYTES && self.missing() == 0 {
                heads.push(self.head.split_off(PREFIX_BYTES));
                *self = Frames::default();
            }
        }
        heads
    }

    /// Bytes until the prefix, or the frame, is whole.
    fn missing(&self) -> usize {
        match self.head.get(..PREFIX_BYTES) {
            Some(prefix) => {
                let length = u32::from_be_bytes([0, prefix[1], prefix[2], prefix[3]]);
                PREFIX_BYTES + length as usize - self.taken_bytes
            }
            None => PREFIX_BYTES - self.taken_bytes,
        }
    }

    /// How many of the bytes that come next belong to frames that `is_it` is true of, the one that has begun among them.
    pub(crate) fn leading(&self, bytes: &[u8], is_it: impl Fn(&Header) -> bool) -> usize {
        let begun = self.head.get(PREFIX_BYTES..).and_then(|head| Header::decode(head).ok());
        let mut at = match (self.taken_bytes, begun) {
            (0, _) => 0,
            (_, Some(header)) if is_it(&header) => self.missing().min(bytes.len()),
            (_, _) => return 0,
        };
        while let Some(frame) = bytes.get(at..).filter(|rest| rest.len() >= PREFIX_BYTES + HEADER_LENGTH) {
            let length = u32::from_be_bytes([0, frame[1], frame[2], frame[3]]) as usize;
            if !Header::decode(&frame[PREFIX_BYTES..]).is_ok_and(|header| is_it(&header)) {
                break;
            }
            at = (at + PREFIX_BYTES + length).min(bytes.len());
        }
        at
    }
}

/// The messages of a frame that is not sealed, each with its header; none where the frame is sealed or cut short.
pub(crate) fn messages(mut head: &[u8]) -> Vec<(Header, &[u8])> {
    let mut all = Vec::new();
    while let Ok(header) = Header::decode(head) {
        all.push((header, head));
        match head.get(header.next_command as usize..) {
            Some(next) if header.next_command > 0 => head = next,
            Some(_) | None => break,
        }
    }
    all
}
