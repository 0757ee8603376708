//! Bytes that came in on one connection and are not dealt with yet: as many requests as one receive brought.

use std::ops::Range;

use wire::frame;

use crate::buffers::{Buffer, Buffers, FRAME_BYTES_MAX};

/// What one receive takes when it starts a batch. A larger frame is then received to its end and no further, so that its bytes are
/// never moved for the sake of the next.
const RECEIVE_BYTES: usize = 128 << 10;
/// Before anybody has signed in nothing needs more.
const FRAME_BYTES_MAX_UNKNOWN: usize = 128 << 10;
/// The length in front of each frame (MS-SMB2 2.1).
const PREFIX: usize = 4;

/// The frame's length is a lie, or above the limit: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFrame;

/// The receive side. Empty, it holds no buffer.
#[derive(Default)]
pub(crate) struct Inbox {
    buffer: Option<Buffer>,
    start: usize,
    filled: usize,
    trusted: bool,
    /// Bytes of the last frame, where it was a large one: the next is likely to be like it.
    large: usize,
}

impl Inbox {
    /// Somebody has signed in: large frames are taken.
    pub(crate) fn trust(&mut self) {
        self.trusted = true;
    }

    /// The next whole frame, without its prefix, or `None` until more has come. The frame stays in place until
    /// the next call of [`Inbox::room`].
    pub(crate) fn next_frame(&mut self) -> Result<Option<Range<usize>>, BadFrame> {
        let Some(length) = self.announced()? else { return Ok(None) };
        let frame = self.start + PREFIX..self.start + PREFIX + length;
        if frame.end > self.filled {
            return Ok(None);
        }
        self.start = frame.end;
        self.large = if length + PREFIX > RECEIVE_BYTES { length + PREFIX } else { 0 };
        Ok(Some(frame))
    }

    /// The bytes of a frame.
    pub(crate) fn frame(&mut self, frame: Range<usize>) -> &mut [u8] {
        self.buffer.as_mut().and_then(|buffer| buffer.get_mut(frame)).unwrap_or_default()
    }

    /// Where the next receive goes: room for the rest of a frame that has begun, else for a batch.
    pub(crate) fn room(&mut self, buffers: &Buffers) -> Result<&mut [u8], BadFrame> {
        let announced = self.announced()?;
        let held = self.filled - self.start;
        let wanted = match announced {
            Some(length) if length + PREFIX > RECEIVE_BYTES => length + PREFIX,
            Some(_) => RECEIVE_BYTES,
            None => self.large.max(RECEIVE_BYTES),
        };
        let large_enough = self.buffer.as_ref().is_some_and(|buffer| buffer.len() >= wanted);
        if !large_enough {
            let mut larger = buffers.lend(wanted);
            larger[..held].copy_from_slice(self.held());
            if let Some(old) = self.buffer.replace(larger) {
                buffers.give_back(old);
            }
        } else if let Some(buffer) = &mut self.buffer {
            buffer.copy_within(self.start..self.filled, 0);
        }
        (self.start, self.filled) = (0, held);
        Ok(self.buffer.as_mut().map(|buffer| &mut buffer[held..wanted]).unwrap_or_default())
    }

    /// `bytes` have been received into the room.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    /// Takes out what no frame was made of.
    pub(crate) fn take_unread(&mut self, buffers: &Buffers) -> Vec<u8> {
        let unread = self.held().to_vec();
        self.clear(buffers);
        unread
    }

    /// Takes bytes as if they had just come in.
    pub(crate) fn put(&mut self, buffers: &Buffers, mut bytes: &[u8]) -> Result<(), BadFrame> {
        while !bytes.is_empty() {
            let room = self.room(buffers)?;
            let taken = room.len().min(bytes.len());
            if taken == 0 {
                return Err(BadFrame);
            }
            room[..taken].copy_from_slice(&bytes[..taken]);
            self.received(taken);
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Gives the buffer back where nothing is in it.
    pub(crate) fn release(&mut self, buffers: &Buffers) {
        if self.start == self.filled {
            (self.start, self.filled) = (0, 0);
            if let Some(buffer) = self.buffer.take() {
                buffers.give_back(buffer);
            }
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, buffers: &Buffers) {
        self.start = self.filled;
        self.release(buffers);
    }

    fn held(&self) -> &[u8] {
        self.buffer.as_ref().map(|buffer| &buffer[self.start..self.filled]).unwrap_or_default()
    }

    fn announced(&self) -> Result<Option<usize>, BadFrame> {
        let Some(prefix) = self.held().first_chunk::<PREFIX>() else { return Ok(None) };
        let length = frame::frame_length(*prefix).map_err(|_| BadFrame)?;
        let most = if self.trusted { FRAME_BYTES_MAX } else { FRAME_BYTES_MAX_UNKNOWN };
        if length > most { Err(BadFrame) } else { Ok(Some(length)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(inbox: &mut Inbox, buffers: &Buffers, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let room = inbox.room(buffers).unwrap();
            let taken = room.len().min(bytes.len());
            room[..taken].copy_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            inbox.received(taken);
            while let Some(frame) = inbox.next_frame().unwrap() {
                frames.push(inbox.frame(frame).to_vec());
            }
        }
        frames
    }

    fn framed(payload: &[u8]) -> Vec<u8> {
        let mut bytes = (payload.len() as u32).to_be_bytes().to_vec();
        bytes.extend_from_slice(payload);
        bytes
    }

    #[test]
    fn frames_come_out_whole_however_they_arrive() {
        let buffers = Buffers::default();
        let payloads: Vec<Vec<u8>> =
            [1, 70_000, 3, 200_000, 1 << 20, 5].iter().map(|size| vec![*size as u8; *size]).collect();
        let stream: Vec<u8> = payloads.iter().flat_map(|payload| framed(payload)).collect();
        for step in [1_000, 65_536, stream.len()] {
            let mut inbox = Inbox::default();
            inbox.trust();
            let frames: Vec<_> = stream.chunks(step).flat_map(|part| receive(&mut inbox, &buffers, part)).collect();
            assert!(frames == payloads, "in steps of {step}");
            inbox.release(&buffers);
            assert!(inbox.buffer.is_none());
        }
    }

    #[test]
    fn after_a_large_frame_the_next_is_received_whole() {
        let buffers = Buffers::default();
        let mut inbox = Inbox::default();
        inbox.trust();
        receive(&mut inbox, &buffers, &framed(&[1; 500_000]));
        assert_eq!(inbox.room(&buffers).unwrap().len(), 500_004);
        receive(&mut inbox, &buffers, &framed(&[2; 10]));
        inbox.release(&buffers);
        assert_eq!(inbox.room(&buffers).unwrap().len(), RECEIVE_BYTES);
    }

    #[test]
    fn large_frames_are_refused_before_anybody_signed_in() {
        let buffers = Buffers::default();
        let mut inbox = Inbox::default();
        inbox.room(&buffers).unwrap()[..4].copy_from_slice(&(200_000u32).to_be_bytes());
        inbox.received(4);
        assert_eq!(inbox.next_frame(), Err(BadFrame));
        inbox.trust();
        assert_eq!(inbox.next_frame(), Ok(None));
        assert_eq!(inbox.room(&buffers).unwrap().len(), 200_000);
    }
}
