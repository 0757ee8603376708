//! What one connection receives, cut into frames without a copy: small ones are parts of the buffer that they arrived in together, large
//! ones are received where they stay. A buffer is used again once nobody looks at any part of it.

use std::future::poll_fn;
use std::io;

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};
use wire::frame::{PREFIX_LENGTH, frame_length};

use crate::loss::Loss;
use crate::network::{Piece, Reader};

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
    /// It arrives in pieces: for a large frame there is room once a part of it has to be copied.
    is_in_pieces: bool,
}

/// A large frame that is on its way.
struct Large {
    frame: BytesMut,
    length: usize,
    /// The end of it.
    rest: Option<Piece>,
}

/// A frame without its prefix.
pub(crate) struct Cut {
    pub(crate) head: BytesMut,
    /// The end of it, where that arrived as a piece of its own.
    pub(crate) rest: Option<Piece>,
}

/// All of a message of which the end may be a piece of its own.
pub(crate) fn joined(mut head: BytesMut, rest: Option<Piece>) -> Result<BytesMut, Loss> {
    match rest {
        Some(Piece::Bytes(rest)) => head.extend_from_slice(&rest),
        Some(Piece::Elsewhere(_)) => return Err(MISPLACED),
        None => {}
    }
    Ok(head)
}

/// Data is elsewhere that is not that of one READ.
const MISPLACED: Loss = Loss("what the server sent is elsewhere and no data of a READ");

impl Large {
    /// Bytes that have yet to arrive.
    fn missing(&self) -> usize {
        self.length - self.frame.len() - self.rest.as_ref().map_or(0, Piece::length)
    }
}

impl Inbox {
    /// That of what arrives this way.
    pub(crate) fn of(reader: &Reader) -> Self {
        let buffer = BytesMut::with_capacity(RECEIVE_BYTES);
        let is_in_pieces = matches!(reader, Reader::Pieces(_));
        Inbox { buffer, large: None, last_length: 0, kept: Kept::default(), is_in_pieces }
    }

    /// The next frame without its prefix, once all of it is there.
    ///
    /// # Errors
    ///
    /// A prefix that is none, or that announces more than `longest` bytes.
    pub(crate) fn cut(&mut self, longest: usize) -> Result<Option<Cut>, Loss> {
        if let Some(Large { frame, rest, .. }) = self.large.take_if(|large| large.missing() == 0) {
            let head = if rest.is_some() { frame } else { self.kept.part(frame) };
            return Ok(Some(Cut { head, rest }));
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
            return Ok(Some(Cut { head: self.buffer.split_to(length), rest: None }));
        }
        if length > SMALL_BYTES_MAX {
            self.buffer.advance(PREFIX_LENGTH);
            let frame = match self.is_in_pieces {
                true => self.buffer.split(),
                false => self.kept.room_for(&self.buffer, length),
            };
            self.buffer.clear();
            self.large = Some(Large { frame, length, rest: None });
        }
        Ok(None)
    }

    /// Receives; the number of bytes, 0 at the end.
    pub(crate) async fn fill(&mut self, reader: &mut Reader) -> io::Result<usize> {
        match reader {
            Reader::Bytes(reader) => self.fill_with_bytes(reader).await,
            Reader::Pieces(pieces) => {
                let Some(piece) = poll_fn(|task| pieces.poll_piece(task)).await? else { return Ok(0) };
                let count = piece.length();
                self.add(piece).map_err(|loss| io::Error::other(loss.0))?;
                Ok(count)
            }
        }
    }

    async fn fill_with_bytes(&mut self, reader: &mut (impl AsyncRead + Unpin)) -> io::Result<usize> {
        if let Some(large) = &mut self.large {
            let missing = large.missing();
            return reader.read_buf(&mut (&mut large.frame).limit(missing)).await;
        }
        self.make_room();
        let most = if self.last_length >= RECEIVE_BYTES { HEAD_BYTES } else { usize::MAX };
        reader.read_buf(&mut (&mut self.buffer).limit(most)).await
    }

    /// Adds a piece, which stays where it is where it is the end of a large frame, and nothing else.
    fn add(&mut self, piece: Piece) -> Result<(), Loss> {
        if let Some(large) = &mut self.large
            && piece.length() == large.missing()
        {
            large.rest = Some(piece);
            return Ok(());
        }
        let Piece::Bytes(mut piece) = piece else { return Err(MISPLACED) };
        if let Some(large) = &mut self.large {
            let missing = large.missing();
            if large.frame.capacity() < large.length {
                large.frame = self.kept.room_for(&large.frame, large.length);
            }
            large.frame.extend_from_slice(&piece.split_to(missing.min(piece.len())));
        }
        if !piece.is_empty() {
            self.make_room();
            self.buffer.extend_from_slice(&piece);
        }
        Ok(())
    }

    /// Has room to receive small frames in.
    fn make_room(&mut self) {
        if self.buffer.capacity() - self.buffer.len() <= SMALL_BYTES_MAX {
            let mut next = self.kept.room(RECEIVE_BYTES);
            next.extend_from_slice(&self.buffer);
            let before = std::mem::replace(&mut self.buffer, next);
            self.kept.keep(before);
        }
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
    /// An empty buffer with room for so many bytes: of those that are free the one used last, which the processor has at hand.
    fn room(&mut self, bytes: usize) -> BytesMut {
        match self.ends.iter_mut().rposition(|(end, _)| end.try_reclaim(bytes)) {
            Some(at) => {
                let (end, length) = self.ends.remove(at);
                self.bytes -= length;
                end
            }
            None => BytesMut::with_capacity(bytes),
        }
    }

    /// The beginning of a frame where there is room for all of it.
    fn room_for(&mut self, beginning: &[u8], length: usize) -> BytesMut {
        let mut room = self.room(length);
        room.extend_from_slice(beginning);
        room
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

#[cfg(test)]
mod tests {
    use std::collections::{HashSet, VecDeque};
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use bytes::Bytes;
    use futures_util::FutureExt;
    use tokio::io::ReadBuf;

    use super::*;
    use crate::network::{Elsewhere, Fetching, Pieces};

    const LONGEST: usize = 8 << 20;

    /// Gives so many bytes at once, at most.
    struct Steps<'a>(&'a [u8], usize);

    impl AsyncRead for Steps<'_> {
        fn poll_read(mut self: Pin<&mut Self>, _task: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
            let (now, later) = self.0.split_at(self.0.len().min(self.1).min(out.remaining()));
            out.put_slice(now);
            self.0 = later;
            Poll::Ready(Ok(()))
        }
    }

    fn inbox() -> Inbox {
        Inbox::of(&Reader::of(tokio::io::empty()))
    }

    fn framed(payload: &[u8]) -> Vec<u8> {
        [&(payload.len() as u32).to_be_bytes()[..], payload].concat()
    }

    fn received(stream: &[u8], step: usize, inbox: &mut Inbox, mut take: impl FnMut(BytesMut)) {
        let mut reader = Steps(stream, step);
        loop {
            while let Some(cut) = inbox.cut(LONGEST).unwrap() {
                assert!(cut.rest.is_none());
                take(cut.head);
            }
            if inbox.fill_with_bytes(&mut reader).now_or_never().unwrap().unwrap() == 0 {
                return;
            }
        }
    }

    #[test]
    fn frames_are_whole_wherever_a_read_ends() {
        let lengths = [1, 100, 4164, 4164, 32 << 10, (32 << 10) + 1, 5, 65_616, 300_000, 7, (1 << 20) + 80, 4164, 0, 9];
        let frames: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(at, length)| (0..*length).map(|i| (i * 7 + at) as u8).collect()).collect();
        let stream: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        for step in [1, 3, 1000, 70_000, usize::MAX] {
            let mut inbox = inbox();
            let mut all = Vec::new();
            received(&stream, step, &mut inbox, |frame| all.push(frame));
            assert!(all == frames, "in steps of {step}");
            assert!(!inbox.is_torn());
        }
    }

    #[test]
    fn a_stream_that_ends_in_a_frame_is_torn() {
        for (length, cut) in [(100, 3), (100, 50), (1 << 20, 4), (1 << 20, 1 << 19)] {
            let mut inbox = inbox();
            received(&framed(&vec![1; length])[..cut], usize::MAX, &mut inbox, |_| panic!("no frame is whole"));
            assert!(inbox.is_torn(), "{cut} bytes of {length}");
        }
    }

    #[test]
    fn what_is_too_long_is_refused_by_its_prefix() {
        let mut inbox = inbox();
        let mut reader = Steps(&[0, 0x7F, 0, 0], usize::MAX);
        assert_eq!(inbox.fill_with_bytes(&mut reader).now_or_never().unwrap().unwrap(), 4);
        assert!(inbox.cut(1 << 20).is_err());
    }

    #[test]
    fn buffers_are_used_again_once_nobody_looks_at_them() {
        for length in [4164, 1 << 20] {
            let stream = framed(&vec![3; length]).repeat((64 << 20) / length);
            let mut inbox = inbox();
            let mut places = HashSet::new();
            received(&stream, usize::MAX, &mut inbox, |frame| {
                places.insert(frame.as_ptr() as usize >> 20);
            });
            assert!(places.len() <= 4, "{length}: {places:?}");
        }
    }

    #[test]
    fn frames_that_are_kept_are_not_written_over() {
        let stream: Vec<u8> = (0..40).flat_map(|number| framed(&vec![number; 50_000])).collect();
        let mut inbox = inbox();
        let mut kept = Vec::new();
        received(&stream, 60_000, &mut inbox, |frame| kept.push(frame));
        assert_eq!(kept.len(), 40);
        assert!(kept.iter().enumerate().all(|(number, frame)| frame.iter().all(|byte| usize::from(*byte) == number)));
    }

    /// Gives these pieces.
    struct Given(VecDeque<Piece>);

    impl Pieces for Given {
        fn poll_piece(&mut self, _task: &mut Context<'_>) -> Poll<io::Result<Option<Piece>>> {
            Poll::Ready(Ok(self.0.pop_front()))
        }
    }

    /// All frames of what arrives in these pieces.
    fn cut_from(pieces: Vec<Bytes>) -> Vec<Cut> {
        let mut reader = Reader::Pieces(Box::new(Given(pieces.into_iter().map(Piece::Bytes).collect())));
        let (mut inbox, mut cuts) = (Inbox::of(&reader), Vec::new());
        loop {
            while let Some(cut) = inbox.cut(LONGEST).unwrap() {
                cuts.push(cut);
            }
            if inbox.fill(&mut reader).now_or_never().unwrap().unwrap() == 0 {
                assert!(!inbox.is_torn());
                return cuts;
            }
        }
    }

    #[test]
    fn a_piece_that_ends_a_large_frame_stays_where_it_is() {
        let frames: Vec<Vec<u8>> =
            [1 << 20, 70, 1 << 20, 60_000].iter().map(|length| framed(&vec![5; *length])).collect();
        let mut pieces = Vec::new();
        for frame in &frames {
            let (head, data) = frame.split_at(84.min(frame.len()));
            pieces.extend([head, data].into_iter().filter(|piece| !piece.is_empty()).map(Bytes::copy_from_slice));
        }
        let places: Vec<_> = pieces.iter().filter(|piece| piece.len() > 84).map(|piece| piece.as_ptr()).collect();
        let cuts = cut_from(pieces);
        let rests: Vec<_> = cuts
            .iter()
            .filter_map(|cut| match &cut.rest {
                Some(Piece::Bytes(rest)) => Some(rest.as_ptr()),
                Some(Piece::Elsewhere(_)) | None => None,
            })
            .collect();
        assert_eq!(rests, places);
        let lengths: Vec<_> = cuts.into_iter().map(|cut| joined(cut.head, cut.rest).unwrap().len()).collect();
        assert_eq!(lengths, [1 << 20, 70, 1 << 20, 60_000]);
    }

    #[test]
    fn frames_are_whole_however_pieces_divide_them() {
        let lengths = [100, 4164, (32 << 10) + 1, 5, 300_000, 7, (1 << 20) + 80, 4164, 0, 9];
        let frames: Vec<Vec<u8>> =
            lengths.iter().enumerate().map(|(at, length)| (0..*length).map(|i| (i * 7 + at) as u8).collect()).collect();
        let stream: Vec<u8> = frames.iter().flat_map(|frame| framed(frame)).collect();
        for step in [1, 3, 84, 1000, 70_000, 1 << 20, stream.len()] {
            let cuts = cut_from(stream.chunks(step).map(Bytes::copy_from_slice).collect());
            let all: Vec<_> = cuts.into_iter().map(|cut| joined(cut.head, cut.rest).unwrap()).collect();
            assert!(all == frames, "in steps of {step}");
        }
    }

    /// So many bytes that are elsewhere.
    struct Far(usize);

    impl Elsewhere for Far {
        fn length(&self) -> usize {
            self.0
        }

        fn fetch(self: Box<Self>) -> Fetching {
            Box::pin(async move { Ok(vec![1; self.0].into()) })
        }
    }

    #[test]
    fn what_is_elsewhere_ends_a_large_frame_or_the_connection() {
        let head = &framed(&vec![0; 70_000])[..84];
        let begun = || {
            let mut inbox = inbox();
            inbox.is_in_pieces = true;
            inbox.add(Piece::Bytes(Bytes::copy_from_slice(head))).unwrap();
            assert!(inbox.cut(LONGEST).unwrap().is_none());
            inbox
        };
        let mut whole = begun();
        whole.add(Piece::Elsewhere(Box::new(Far(69_920)))).unwrap();
        let cut = whole.cut(LONGEST).unwrap().unwrap();
        assert_eq!((cut.head.len(), cut.rest.as_ref().unwrap().length(), whole.is_torn()), (80, 69_920, false));
        assert!(joined(cut.head, cut.rest).is_err(), "nobody waits for it here");
        for length in [1, 69_919, 69_921] {
            assert!(begun().add(Piece::Elsewhere(Box::new(Far(length)))).is_err(), "{length}");
        }
        assert!(inbox().add(Piece::Elsewhere(Box::new(Far(84)))).is_err());
    }
}
