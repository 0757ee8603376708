//! Bytes that came in on one connection and are not dealt with yet: as many requests as one receive brought.
//!
//! What a client announces costs nothing: the buffer grows with what has arrived, and is charged first where it is a large one. Only a
//! connection that has just sent a large frame whole gets the room for its next one at once.

use std::ops::Range;
use std::sync::Arc;

use wire::frame;

use crate::resource::allowance::{Allowance, LITTLE_BYTES};
use crate::resource::budget::Charge;
use crate::resource::buffers::{Buffer, Buffers, FRAME_BYTES_MAX, SMALL_BYTES};
use crate::resource::pace::Pace;
use crate::resource::slice::Slice;
use crate::state::strangers::FRAME_BYTES_MAX_UNKNOWN;

/// What one receive takes when it starts a batch. A larger frame is then received to its end and no further, so that its bytes are
/// never moved for the sake of the next.
const RECEIVE_BYTES: usize = SMALL_BYTES;
/// The length in front of each frame (MS-SMB2 2.1).
const PREFIX: usize = 4;
/// A frame of which no more than this has arrived is kept in a buffer of its size.
const BEGINNING_BYTES: usize = 16 << 10;
/// Such a buffer's size is a multiple of this.
const BEGINNING_STEP: usize = 1 << 10;
/// A longer one is a mapping of its own: what strangers begin and do not end would leave the heap full of holes.
const HEAP_BYTES_MAX: usize = 4 << 10;
/// Before anybody has signed in the rest is kept in a buffer of its size, too, which is a multiple of this: few steps, as each is a copy.
const STRANGERS_STEP: usize = 16 << 10;
/// From this length on what has to be kept takes its buffer along where it fills it; below, it is copied.
const KEPT_BYTES_MIN: usize = 64 << 10;
/// Bytes fill a buffer that they are at least one part in so many of.
const FILLED_PART: usize = 4;

/// The frame's length is a lie, or above the limit: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadFrame;

/// The receive side. Empty, it holds no buffer.
#[derive(Default)]
pub(crate) struct Inbox {
    buffer: Option<Buffer>,
    /// For a large buffer.
    charge: Option<Charge>,
    start: usize,
    filled: usize,
    trusted: bool,
    /// Bytes of the last frame, where it was a large one: the next is likely to be like it.
    large: usize,
}

/// How a frame is taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// So that little more is held than it has bytes.
    Fitting,
    /// So that nothing is held that was not before.
    Paid,
}

/// A frame that was taken out to be kept, and the charge for its buffer where it has one.
pub(crate) struct Kept {
    pub(crate) frame: Slice,
    pub(crate) charge: Option<Charge>,
}

impl Inbox {
    /// Somebody has signed in: large frames are taken.
    pub(crate) fn trust(&mut self) {
        self.trusted = true;
    }

    /// The next whole frame, without its prefix, or `None` until more has come. The frame stays in place until
    /// the next call of [`Inbox::room`] or [`Inbox::keep`].
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

    /// Takes out what stands in `part` of the frame that came last: with its buffer where it is large and fills that, or is to go so, else as a
    /// copy.
    pub(crate) fn keep(&mut self, buffers: &Buffers, part: Range<usize>, keeping: Keeping) -> Kept {
        if (keeping == Keeping::Paid || self.goes_along(&part))
            && let Some((buffer, charge)) = self.take_buffer(buffers)
        {
            return Kept { frame: Slice::new(&Arc::new(buffer), part), charge };
        }
        let length = part.len();
        let copy = Buffer::copy_of(self.frame(part));
        Kept { frame: Slice::new(&Arc::new(copy), 0..length), charge: None }
    }

    /// Bytes that [`Inbox::keep`] will hold without a charge.
    pub(crate) fn cost_of_keeping(&self, part: &Range<usize>) -> usize {
        if self.goes_along(part) { self.uncharged_bytes() } else { part.len() }
    }

    fn goes_along(&self, part: &Range<usize>) -> bool {
        part.len() >= KEPT_BYTES_MIN && self.is_filled_by(part.len())
    }

    /// Bytes of the buffer that there is a charge for.
    pub(crate) fn paid_bytes(&self) -> usize {
        self.charge.as_ref().map_or(0, |charge| charge.units() as usize)
    }

    /// True where `part` may take its buffer along however little of it that is, as it is paid for.
    pub(crate) fn is_paid(&self, part: &Range<usize>) -> bool {
        self.charge.is_some() && self.is_last(part.len())
    }

    /// True where so many bytes fill enough of the buffer that it goes along with them.
    pub(crate) fn is_filled_by(&self, bytes: usize) -> bool {
        bytes * FILLED_PART >= self.buffer().len() && self.is_last(bytes)
    }

    /// True where little stands behind so many bytes, which is copied where they take the buffer along.
    fn is_last(&self, bytes: usize) -> bool {
        self.filled - self.start <= bytes.min(SMALL_BYTES)
    }

    /// True where the frame that came out last, and what came behind it, lie in a large buffer and need none.
    pub(crate) fn may_set_aside(&self, frame: &Range<usize>) -> bool {
        self.charge.is_some() && self.filled - frame.start <= SMALL_BYTES
    }

    /// Moves them to a small one. Tells where the frame stands then.
    pub(crate) fn set_aside(&mut self, buffers: &Buffers, frame: Range<usize>) -> Range<usize> {
        let held = self.filled - frame.start;
        let behind = self.start - frame.start;
        self.start = frame.start;
        self.move_to(buffers, buffers.lend(held), None);
        self.start = behind;
        0..frame.len()
    }

    /// Where the next receive goes: room for the rest of a frame that has begun, as far as it may be held, else for a batch. `None` where
    /// `allowance` has nothing left.
    pub(crate) fn room(&mut self, buffers: &Buffers, allowance: &Allowance) -> Result<Option<&mut [u8]>, BadFrame> {
        let announced = self.announced()?;
        let held = self.filled - self.start;
        let wanted = match announced {
            Some(length) if length + PREFIX > RECEIVE_BYTES => length + PREFIX,
            Some(_) => RECEIVE_BYTES,
            None => self.large.max(RECEIVE_BYTES),
        };
        let has = self.buffer.as_ref().map_or(0, |buffer| buffer.len());
        if has < wanted && !self.grow(buffers, allowance, wanted) {
            return Ok(None);
        }
        if let Some(buffer) = &mut self.buffer {
            buffer.copy_within(self.start..self.filled, 0);
        }
        (self.start, self.filled) = (0, held);
        Ok(self.buffer.as_mut().map(|buffer| {
            let end = wanted.min(buffer.len());
            &mut buffer[held..end]
        }))
    }

    /// Sees to it that there is room for one byte at least, for `wanted` in all where that much is likely to come. False where that cannot be
    /// held.
    fn grow(&mut self, buffers: &Buffers, allowance: &Allowance, wanted: usize) -> bool {
        let (has, held) = (self.buffer.as_ref().map_or(0, |buffer| buffer.len()), self.filled - self.start);
        let is_likely = self.large > 0 && wanted > RECEIVE_BYTES && allowance.pace() == Pace::Quick;
        let likely = is_likely.then(|| Buffers::size(wanted));
        if let Some(charge) = likely.and_then(|size| allowance.charge(size)) {
            self.move_to(buffers, buffers.lend(wanted), Some(charge));
            return true;
        }
        let is_fitted = !self.trusted && held >= BEGINNING_BYTES;
        let is_little = has < SMALL_BYTES && !allowance.has_left_to_grow();
        if has > held && (has >= SMALL_BYTES || is_fitted || is_little) {
            return true;
        }
        if is_little {
            let fits = held < LITTLE_BYTES;
            if fits {
                self.move_to(buffers, Buffer::of_size(LITTLE_BYTES), None);
            }
            return fits;
        }
        // What has begun to be a large one goes to its end from here: to grow once more it would have to wait once more, for others that wait, too.
        let size = if self.charge.is_some() { Buffers::size(wanted) } else { Buffers::size(held + 1) };
        let charge = match self.charge {
            Some(_) => allowance.charge_rest(size),
            None if size > SMALL_BYTES => allowance.charge_to_begin(size),
            None => None,
        };
        if size > SMALL_BYTES && charge.is_none() {
            return false;
        }
        self.move_to(buffers, buffers.lend(size), charge);
        true
    }

    fn move_to(&mut self, buffers: &Buffers, mut buffer: Buffer, charge: Option<Charge>) {
        let held = self.filled - self.start;
        buffer[..held].copy_from_slice(self.held());
        if let Some(old) = self.buffer.replace(buffer) {
            buffers.give_back(old);
        }
        (self.start, self.filled, self.charge) = (0, held, charge);
    }

    /// `bytes` have been received into the room.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    /// True where something has arrived of which no frame was made.
    pub(crate) fn has_begun(&self) -> bool {
        self.start < self.filled
    }

    /// Bytes of buffers that are held without a charge.
    pub(crate) fn uncharged_bytes(&self) -> usize {
        self.buffer.as_ref().filter(|_| self.charge.is_none()).map_or(0, |buffer| buffer.len())
    }

    /// Has the beginning of a frame take no more than it needs. No frame that came out may be looked at after that.
    pub(crate) fn shrink(&mut self, buffers: &Buffers) {
        let held = self.filled - self.start;
        let fitted = match held {
            0 => return,
            1..=BEGINNING_BYTES => held.next_multiple_of(BEGINNING_STEP),
            _ if self.trusted => return,
            _ => (held + 1).next_multiple_of(STRANGERS_STEP),
        };
        if fitted < SMALL_BYTES && self.buffer.as_ref().is_some_and(|buffer| buffer.len() >= SMALL_BYTES) {
            let fits = if fitted > HEAP_BYTES_MAX { buffers.lend_fitted(fitted) } else { vec![0; fitted].into() };
            self.move_to(buffers, fits, None);
        }
    }

    /// Takes out what no frame was made of.
    pub(crate) fn take_unread(&mut self, buffers: &Buffers) -> Vec<u8> {
        let unread = self.held().to_vec();
        self.clear(buffers);
        unread
    }

    /// Takes bytes as if they had just come in.
    pub(crate) fn put(&mut self, buffers: &Buffers, allowance: &Allowance, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let size = Buffers::size(bytes.len());
        let mut buffer = buffers.lend(size);
        buffer[..bytes.len()].copy_from_slice(bytes);
        let charge = (size > SMALL_BYTES).then(|| allowance.overdraw(size));
        self.move_to(buffers, buffer, charge);
        self.received(bytes.len());
    }

    /// Gives the buffer back where nothing is in it: no frame that came out is looked at any more.
    pub(crate) fn release(&mut self, buffers: &Buffers) {
        if self.start == self.filled {
            (self.start, self.filled, self.charge) = (0, 0, None);
            if let Some(buffer) = self.buffer.take() {
                buffers.give_back(buffer);
            }
        }
    }

    /// The buffer, frames that were dealt with included.
    pub(crate) fn buffer(&self) -> &[u8] {
        self.buffer.as_deref().unwrap_or_default()
    }

    /// Gives the buffer away; what no frame was made of goes to another one.
    pub(crate) fn take_buffer(&mut self, buffers: &Buffers) -> Option<(Buffer, Option<Charge>)> {
        let held = self.filled - self.start;
        let next = (held > 0).then(|| {
            let mut next = buffers.lend(held);
            next[..held].copy_from_slice(self.held());
            next
        });
        (self.start, self.filled) = (0, held);
        let charge = self.charge.take();
        std::mem::replace(&mut self.buffer, next).map(|buffer| (buffer, charge))
    }

    /// Gives the buffer to who changes a frame in place. Until [`Inbox::take_back`] nothing may be done but to forget everything.
    pub(crate) fn lend(&mut self) -> (Buffer, Option<Charge>) {
        (self.buffer.take().unwrap_or_else(|| Vec::new().into()), self.charge.take())
    }

    /// Takes back what was lent.
    pub(crate) fn take_back(&mut self, buffer: Buffer, charge: Option<Charge>) {
        (self.buffer, self.charge) = (Some(buffer), charge);
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
    use wire::security::Sid;

    use super::*;
    use crate::resource::budgets::Budgets;

    /// Of a user, and what all its connections hold.
    fn allowance() -> (Allowance, Arc<crate::resource::budgets::UserBudgets>) {
        let budgets = Budgets::new(Default::default());
        let (allowance, user) = (Allowance::new(budgets.strangers()), budgets.of_user(&Sid::SYSTEM));
        allowance.sign_in(&user, crate::resource::address::AddressPrefix::of("192.0.2.1:1"));
        (allowance, user)
    }

    fn receive(inbox: &mut Inbox, buffers: &Buffers, allowance: &Allowance, mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let room = inbox.room(buffers, allowance).unwrap().unwrap();
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
        let (allowance, user) = allowance();
        let payloads: Vec<Vec<u8>> =
            [1, 70_000, 3, 200_000, 1 << 20, 5].iter().map(|size| vec![*size as u8; *size]).collect();
        let stream: Vec<u8> = payloads.iter().flat_map(|payload| framed(payload)).collect();
        for step in [1_000, 65_536, stream.len()] {
            let mut inbox = Inbox::default();
            inbox.trust();
            let frames: Vec<_> =
                stream.chunks(step).flat_map(|part| receive(&mut inbox, &buffers, &allowance, part)).collect();
            assert!(frames == payloads, "in steps of {step}");
            inbox.release(&buffers);
            assert!(inbox.buffer.is_none());
        }
        assert_eq!(user.bytes.used(), 0);
    }

    #[test]
    fn after_a_large_frame_the_next_is_received_whole() {
        let buffers = Buffers::default();
        let (allowance, user) = allowance();
        let mut inbox = Inbox::default();
        inbox.trust();
        receive(&mut inbox, &buffers, &allowance, &framed(&[1; 500_000]));
        assert_eq!(inbox.room(&buffers, &allowance).unwrap().unwrap().len(), 500_004);
        receive(&mut inbox, &buffers, &allowance, &framed(&[2; 10]));
        inbox.release(&buffers);
        assert_eq!(inbox.room(&buffers, &allowance).unwrap().unwrap().len(), RECEIVE_BYTES);
        assert_eq!(user.bytes.used(), 0);
    }

    #[test]
    fn a_large_frame_that_has_begun_holds_what_has_arrived() {
        let buffers = Buffers::default();
        let (allowance, user) = allowance();
        let frame = framed(&vec![3; 8 << 20]);
        let mut inboxes: Vec<Inbox> = Vec::new();
        for _ in 0..1_000 {
            let mut inbox = Inbox::default();
            inbox.trust();
            assert!(receive(&mut inbox, &buffers, &allowance, &frame[..5]).is_empty());
            inbox.shrink(&buffers);
            inboxes.push(inbox);
        }
        assert_eq!(user.bytes.used(), 0);
        let held: usize = inboxes.iter().map(Inbox::uncharged_bytes).sum();
        assert!(held <= 1 << 20, "{held} bytes");
        // They go on, and come as far as there is memory for them.
        for inbox in &mut inboxes {
            let mut at = 5;
            while let Some(room) = inbox.room(&buffers, &allowance).unwrap().filter(|_| at < 2 << 20) {
                let taken = room.len().min(100_000);
                room[..taken].copy_from_slice(&frame[at..at + taken]);
                inbox.received(taken);
                at += taken;
            }
        }
        assert!(user.bytes.used() <= 144 << 20);
        let done: Vec<_> = inboxes.iter_mut().filter_map(|inbox| inbox.next_frame().unwrap()).collect();
        assert!(done.is_empty() && inboxes.iter().any(|inbox| inbox.filled > 1 << 20));
        drop(inboxes);
        assert_eq!(user.bytes.used(), 0);
    }

    #[test]
    fn what_strangers_begin_holds_little_more_than_has_arrived_and_is_seldom_copied() {
        let (buffers, budgets) = (Buffers::default(), Budgets::new(Default::default()));
        let allowance = Allowance::new(budgets.strangers());
        let (mut inbox, frame) = (Inbox::default(), framed(&[5; 65_000]));
        let (mut copies, mut known) = (0, 0);
        for (at, byte) in frame.iter().enumerate() {
            let room = inbox.room(&buffers, &allowance).unwrap().unwrap();
            room[0] = *byte;
            inbox.received(1);
            if at + 1 < frame.len() {
                assert!(inbox.next_frame().unwrap().is_none());
                inbox.shrink(&buffers);
                assert!(inbox.uncharged_bytes() <= at + 1 + STRANGERS_STEP, "{at}");
            }
            let place = inbox.buffer().as_ptr() as usize;
            copies += usize::from(at > BEGINNING_BYTES && place != known);
            known = place;
        }
        assert!(copies <= 2 * 4, "{copies} copies");
        let whole = inbox.next_frame().unwrap().unwrap();
        assert_eq!(inbox.frame(whole), [5; 65_000]);
    }

    #[test]
    fn a_large_frame_that_is_kept_is_not_copied() {
        let buffers = Buffers::default();
        let (allowance, user) = allowance();
        let mut inbox = Inbox::default();
        inbox.trust();
        let stream = [framed(&[1; 70_000]), framed(b"small")].concat();
        inbox.room(&buffers, &allowance).unwrap().unwrap()[..stream.len()].copy_from_slice(&stream);
        inbox.received(stream.len());
        let frame = inbox.next_frame().unwrap().unwrap();
        let place = inbox.frame(frame.clone()).as_ptr();
        let kept = inbox.keep(&buffers, frame, Keeping::Fitting);
        assert_eq!((kept.frame.as_ptr(), kept.frame.len()), (place, 70_000));
        let frame = inbox.next_frame().unwrap().unwrap();
        assert_eq!(&*inbox.keep(&buffers, frame, Keeping::Fitting).frame, b"small");
        let large = framed(&vec![2; 1 << 20]);
        receive(&mut inbox, &buffers, &allowance, &large[..large.len() - 1]);
        let room = inbox.room(&buffers, &allowance).unwrap().unwrap();
        room[0] = 2;
        inbox.received(1);
        let frame = inbox.next_frame().unwrap().unwrap();
        let kept = inbox.keep(&buffers, frame, Keeping::Fitting);
        assert_eq!(user.bytes.used(), kept.charge.as_ref().map_or(0, |charge| charge.units()));
        assert!(kept.charge.is_some() && kept.frame.len() == 1 << 20);
    }

    #[test]
    fn frames_that_are_kept_hold_little_more_than_their_bytes_all_of_it_charged() {
        let buffers = Buffers::default();
        let (allowance, user) = allowance();
        for before in [10, 1 << 20, 8 << 20] {
            for size in [100, 40_000, 70_000, 300_000, 1 << 20] {
                let mut inbox = Inbox::default();
                inbox.trust();
                receive(&mut inbox, &buffers, &allowance, &framed(&vec![1; before]));
                let (frame, mut at) = (framed(&vec![2; size]), 0);
                while at < frame.len() {
                    let room = inbox.room(&buffers, &allowance).unwrap().unwrap();
                    let taken = room.len().min(frame.len() - at);
                    room[..taken].copy_from_slice(&frame[at..at + taken]);
                    inbox.received(taken);
                    at += taken;
                }
                let part = inbox.next_frame().unwrap().unwrap();
                let cost = inbox.cost_of_keeping(&part);
                let kept = inbox.keep(&buffers, part, Keeping::Fitting);
                assert!(*kept.frame == frame[PREFIX..]);
                let (held, charged) =
                    (kept.frame.held_bytes(), kept.charge.map_or(0, |charge| charge.units() as usize));
                assert!(held <= FILLED_PART * size, "{held} bytes for {size}");
                assert_eq!(held, cost + charged, "for {size} bytes");
            }
        }
        assert_eq!(user.bytes.used(), 0);
    }

    #[test]
    fn large_frames_are_refused_before_anybody_signed_in() {
        let buffers = Buffers::default();
        let (allowance, _user) = allowance();
        let mut inbox = Inbox::default();
        inbox.room(&buffers, &allowance).unwrap().unwrap()[..4].copy_from_slice(&(200_000u32).to_be_bytes());
        inbox.received(4);
        assert_eq!(inbox.next_frame(), Err(BadFrame));
        inbox.trust();
        assert_eq!(inbox.next_frame(), Ok(None));
        assert_eq!(inbox.room(&buffers, &allowance).unwrap().unwrap().len(), RECEIVE_BYTES - 4);
    }
}
