//! Joins the responses of a chain: each but the last padded to eight bytes and pointing at the next. Padding lies inside what is
//! signed, so signing comes last (MS-SMB2 3.3.4.1.3).

use std::ops::Range;
use std::rc::Rc;

use wire::header::{FLAGS_OFFSET, Flags, HEADER_LENGTH, Header, NEXT_COMMAND_OFFSET};

use crate::command::context::Body;
use crate::resource::buffers::{Buffer, SMALL_BYTES};
use crate::state::session::{Channel, Signature};

/// Responses that will leave in one frame. Any thread may join them.
#[derive(Default)]
pub(crate) struct Response {
    parts: Vec<Part>,
    /// Bytes of all, each padded.
    padded: usize,
}

/// A response that stands in the buffer that it is sent from.
pub(crate) struct Placed {
    pub(crate) buffer: Buffer,
    /// Where in it: before lies [`RESPONSE_ROOM`](crate::command::context::RESPONSE_ROOM) less the header.
    pub(crate) message: Range<usize>,
    /// What signs it.
    pub(crate) sign: Option<Signature>,
}

struct Part {
    header: [u8; HEADER_LENGTH],
    body: Body,
    sign: Option<Signature>,
}

/// Bytes that a response of `length` takes among so many: one alone is as long as it is, all others are padded, the last one like the others, as
/// Windows does.
pub(crate) fn part_length(length: usize, of: usize) -> usize {
    if of == 1 { length } else { length.next_multiple_of(8) }
}

impl Part {
    fn length(&self) -> usize {
        HEADER_LENGTH + self.body.len()
    }
}

impl Response {
    /// Appends a response, to be signed by `sign` where one is given.
    pub(crate) fn push(&mut self, header: &Header, body: impl Into<Body>, sign: Option<Rc<Channel>>) {
        let sign = sign.map(|channel| channel.signature());
        let part = Part { header: header.to_bytes(), body: body.into(), sign };
        self.padded += part.length().next_multiple_of(8);
        self.parts.push(part);
    }

    /// Takes out the only response where it is large and stands in place already, and completes it there. It is still to be signed.
    pub(crate) fn take_placed(&mut self) -> Option<Placed> {
        match self.parts.as_slice() {
            [Part { body: Body::InPlace(buffer, _), .. }] if buffer.len() >= SMALL_BYTES => {}
            _ => return None,
        }
        let Some(Part { header, body: Body::InPlace(mut buffer, body), sign }) = self.parts.pop() else { return None };
        let message = body.start - HEADER_LENGTH..body.end;
        buffer[message.start..body.start].copy_from_slice(&header);
        if sign.is_some() {
            buffer[message.start + FLAGS_OFFSET] |= Flags::SIGNED.0 as u8;
        }
        Some(Placed { buffer, message, sign })
    }

    /// Bytes that [`Response::write`] gives.
    pub(crate) fn length(&self) -> usize {
        match self.parts.as_slice() {
            [one] => one.length(),
            _ => self.padded,
        }
    }

    /// Where in what [`Response::write`] writes the last response begins.
    pub(crate) fn last_begins(&self) -> usize {
        let before = self.parts.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().map(|part| part.length().next_multiple_of(8)).sum()
    }

    /// Writes the responses to `out`, which has the right length, and signs what is to be signed.
    pub(crate) fn write(self, out: &mut [u8]) {
        let mut rest = out;
        let count = self.parts.len();
        for (position, part) in self.parts.into_iter().enumerate() {
            let length = part_length(part.length(), count);
            let (message, behind) = rest.split_at_mut(length);
            rest = behind;
            message[..HEADER_LENGTH].copy_from_slice(&part.header);
            message[HEADER_LENGTH..part.length()].copy_from_slice(&part.body);
            message[part.length()..].fill(0);
            if position + 1 < count {
                message[NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&(length as u32).to_le_bytes());
            }
            if let Some(signature) = &part.sign {
                message[FLAGS_OFFSET] |= Flags::SIGNED.0 as u8;
                signature.sign(message);
            }
        }
    }
}
