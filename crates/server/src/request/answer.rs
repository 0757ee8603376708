//! Answers are framed, signed or sealed, and queued (MS-SMB2 3.3.4.1).

use std::ops::Range;

use wire::frame::{PREFIX_LENGTH, frame_prefix};
use wire::transform::TRANSFORM_HEADER_LENGTH;

use crate::command::connection::Ending;
use crate::request::responder::Responder;
use crate::request::response::{Placed, Response};
use crate::resource::budget::Charge;
use crate::resource::buffers::Buffer;
use crate::resource::pool::QueueKey;
use crate::state::session::{Channel, Cover};

/// Queues messages of `length` bytes, which `write` puts in place, signed where they are to be; sealed by `seal` where one is given.
pub(crate) fn queue(responder: &Responder, length: usize, seal: Option<&Channel>, write: impl FnOnce(&mut [u8])) {
    if responder.is_silent() {
        return;
    }
    let room = if seal.is_some() { TRANSFORM_HEADER_LENGTH } else { 0 };
    let Some(prefix) = prefix(responder, room + length) else { return };
    let mut outbox = responder.outbox.borrow_mut();
    // What is queued here is there already.
    let anyway = |size| Some(responder.allowance.overdraw(size));
    let Some(frame) = outbox.room(&responder.buffers, PREFIX_LENGTH + room + length, anyway) else { return };
    let (prefix_room, body) = frame.split_at_mut(PREFIX_LENGTH);
    prefix_room.copy_from_slice(&prefix);
    write(&mut body[room..]);
    if let Some(channel) = seal
        && !channel.seal(body)
    {
        tracing::error!(name: "session_seals_no_more", session = channel.session.id.0, "a session can seal no more; its connection ends");
        responder.end(Ending::Now);
        return;
    }
    let bytes = frame.len();
    outbox.commit(bytes);
}

/// Queues a response that stands in place, signed as it says, or sealed by `seal` where one is given.
pub(crate) fn queue_placed(responder: &Responder, mut placed: Placed, seal: Option<&Channel>, charge: Option<Charge>) {
    if let Some(signature) = &placed.sign {
        signature.sign(&mut placed.buffer[placed.message.clone()]);
    }
    let Some(frame) = frame(responder, &mut placed, seal.is_some()) else { return };
    if let Some(channel) = seal
        && !channel.seal(&mut placed.buffer[frame.start + PREFIX_LENGTH..frame.end])
    {
        return seals_no_more(responder, channel);
    }
    push(responder, placed.buffer, frame, charge);
}

/// A frame that a thread of the pool completes, in its `turn`.
pub(crate) struct LongAnswer<'a> {
    pub(crate) queue_key: QueueKey,
    pub(crate) seal: Option<&'a Channel>,
    pub(crate) charge: Option<Charge>,
}

impl LongAnswer<'_> {
    /// Queues a response that stands in place.
    pub(crate) async fn queue_placed(self, responder: &Responder, mut placed: Placed) {
        if placed.sign.is_none() && self.seal.is_none() {
            return queue_placed(responder, placed, None, self.charge);
        }
        let Some(frame) = frame(responder, &mut placed, self.seal.is_some()) else { return };
        let (Placed { mut buffer, message, sign }, sealed) = (placed, frame.start + PREFIX_LENGTH..frame.end);
        let Some(cover) = self.cover(responder) else { return };
        let work = move || {
            if let Some(signature) = sign {
                signature.sign(&mut buffer[message]);
            }
            cover.is_none_or(|cover| cover.seal(&mut buffer[sealed])).then_some(buffer)
        };
        if let Some(buffer) = self.complete(responder, work).await {
            push(responder, buffer, frame, self.charge);
        }
    }

    /// Queues the responses of a chain. `after` gets the last of them, unless that is sealed, before it is sent.
    pub(crate) async fn queue_chain(self, responder: &Responder, response: Response, after: impl FnOnce(&[u8])) {
        let room = if self.seal.is_some() { TRANSFORM_HEADER_LENGTH } else { 0 };
        let (messages, last) = (PREFIX_LENGTH + room, response.last_begins());
        let length = messages + response.length();
        let Some(prefix) = prefix(responder, length - PREFIX_LENGTH) else { return };
        let Some(cover) = self.cover(responder) else { return };
        let work = move || {
            let mut buffer = Buffer::new(length);
            buffer[..PREFIX_LENGTH].copy_from_slice(&prefix);
            response.write(&mut buffer[messages..]);
            cover.is_none_or(|cover| cover.seal(&mut buffer[PREFIX_LENGTH..])).then_some(buffer)
        };
        if let Some(buffer) = self.complete(responder, work).await {
            if self.seal.is_none() {
                after(&buffer[messages + last..]);
            }
            push(responder, buffer, 0..length, self.charge);
        }
    }

    /// What seals it, where something does. `None` where that cannot be done any more.
    fn cover(&self, responder: &Responder) -> Option<Option<Cover>> {
        let Some(channel) = self.seal else { return Some(None) };
        let cover = channel.cover();
        if cover.is_none() {
            seals_no_more(responder, channel);
        }
        cover.map(Some)
    }

    /// Has a thread behind others do `work`, which gives nothing where the session cannot seal.
    async fn complete(
        &self,
        responder: &Responder,
        work: impl FnOnce() -> Option<Buffer> + Send + 'static,
    ) -> Option<Buffer> {
        match responder.server.long_work.hand_over(self.queue_key, work).await {
            Ok(Some(buffer)) => Some(buffer),
            Ok(None) => {
                self.seal.inspect(|channel| seals_no_more(responder, channel));
                None
            }
            // The server ends.
            Err(_) => {
                responder.end(Ending::Now);
                None
            }
        }
    }
}

/// Writes the prefix of a response that stands in place; gives where the frame lies, with room for a transform header where it `is_sealed`.
/// `None` where it need not, or cannot, be sent.
fn frame(responder: &Responder, placed: &mut Placed, is_sealed: bool) -> Option<Range<usize>> {
    if responder.is_silent() {
        return None;
    }
    let room = if is_sealed { TRANSFORM_HEADER_LENGTH } else { 0 };
    let frame = placed.message.start - room - PREFIX_LENGTH..placed.message.end;
    let (prefix_room, body) = placed.buffer[frame.clone()].split_at_mut(PREFIX_LENGTH);
    prefix_room.copy_from_slice(&prefix(responder, body.len())?);
    Some(frame)
}

/// What stands before a frame of `bytes`.
fn prefix(responder: &Responder, bytes: usize) -> Option<[u8; PREFIX_LENGTH]> {
    let prefix = frame_prefix(bytes);
    if prefix.is_err() {
        tracing::error!(name: "reply_too_long", bytes, "a reply is longer than a frame can say");
        responder.end(Ending::Now);
    }
    prefix.ok()
}

fn push(responder: &Responder, buffer: Buffer, frame: Range<usize>, charge: Option<Charge>) {
    if responder.is_silent() {
        return;
    }
    let charge = match charge {
        Some(mut charge) => {
            // What else it was for is held no more.
            charge.shrink_to(buffer.len() as u64);
            charge
        }
        None => responder.allowance.overdraw(buffer.len()),
    };
    responder.outbox.borrow_mut().push(&responder.buffers, buffer, (frame.start, frame.end), charge);
}

fn seals_no_more(responder: &Responder, channel: &Channel) {
    tracing::error!(name: "session_seals_no_more", session = channel.session.id.0, "a session can seal no more; its connection ends");
    responder.end(Ending::Now);
}
