//! One request as bytes on their way, and one answer as bytes that came.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use secure::Role;
use secure::seal::{Nonce, TRANSFORM_HEADER_LENGTH};
use wire::frame::{PREFIX_LENGTH, frame_prefix};
use wire::header::{Flags, HEADER_LENGTH, Header, NEXT_COMMAND_OFFSET, Route};
use wire::ids::{Command, MessageId, SessionId, TreeId};
use wire::status::Status;

use crate::error::Error;
use crate::guard::Guard;
use crate::loss::Loss;
use crate::network::Piece;
use crate::outbox::SMALL_BYTES_MAX;

/// Where the messages of a compound begin (3.2.4.1.4).
const COMPOUND_ALIGNMENT: usize = 8;
/// Bytes that a body has without the data behind it, about.
const BODY_BYTES: usize = 128;
/// Data of fewer bytes is copied into the frame: that costs less than telling the kernel of it.
const APART_BYTES_MIN: usize = SMALL_BYTES_MAX;

/// A request, but for its number and credits.
pub(crate) struct Request<'a> {
    pub(crate) command: Command,
    /// Credits it costs, from the larger of what it carries and what its answer may.
    pub(crate) charge: u16,
    pub(crate) flags: Flags,
    pub(crate) channel_sequence: u16,
    pub(crate) session_id: SessionId,
    pub(crate) tree_id: TreeId,
    pub(crate) guard: &'a Guard,
    /// Appends the body behind the header.
    pub(crate) body: &'a (dyn Fn(&mut Vec<u8>) + Sync),
    /// What follows the body: a WRITE's data.
    pub(crate) data: Option<&'a Bytes>,
    /// What is done at once with the open that this makes.
    pub(crate) related: Option<Related>,
}

/// A request in a frame with the one before it, whose open it is about (3.2.4.1.4). It costs one credit.
#[derive(Clone, Copy)]
pub(crate) struct Related {
    pub(crate) command: Command,
    pub(crate) body: fn(&mut Vec<u8>),
}

/// The numbers of a request and of the one that is related to it, and the credits to ask for.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) first: MessageId,
    pub(crate) related: Option<MessageId>,
    pub(crate) credits: u16,
}

impl Request<'_> {
    /// Bytes that it has, about.
    pub(crate) fn room(&self) -> usize {
        BODY_BYTES + self.data.map_or(0, Bytes::len)
    }

    /// What is sent from where it lies, behind the frame: data that is neither signed nor sealed and not worth a copy.
    pub(crate) fn apart(&self) -> Option<&Bytes> {
        let is_bare = matches!(self.guard, Guard::Bare);
        self.data.filter(|data| is_bare && self.related.is_none() && data.len() >= APART_BYTES_MIN)
    }

    /// Appends the frame, signed or sealed, but for what is [`apart`](Self::apart); or nothing. A nonce must be there where it is to be
    /// sealed.
    pub(crate) fn append(&self, out: &mut Vec<u8>, numbers: Numbers, nonce: Option<Nonce>) -> Result<Frame, Loss> {
        let begin = out.len();
        self.append_frame(out, numbers, nonce).inspect_err(|_| out.truncate(begin))
    }

    fn append_frame(&self, out: &mut Vec<u8>, numbers: Numbers, nonce: Option<Nonce>) -> Result<Frame, Loss> {
        let transform = if nonce.is_some() { TRANSFORM_HEADER_LENGTH } else { 0 };
        let begin = out.len();
        let start = begin + PREFIX_LENGTH + transform;
        let apart_bytes = self.apart().map_or(0, Bytes::len);
        out.reserve(PREFIX_LENGTH + transform + HEADER_LENGTH + self.room() - apart_bytes);
        out.resize(start, 0);
        let first = self.header(self.command, self.charge, numbers.first, numbers.credits);
        out.extend_from_slice(&first.to_bytes());
        (self.body)(out);
        if let Some(data) = self.data.filter(|_| apart_bytes == 0) {
            out.extend_from_slice(data);
        }
        if let (Some(related), Some(id)) = (self.related, numbers.related) {
            let length = (out.len() - start).next_multiple_of(COMPOUND_ALIGNMENT);
            out.resize(start + length, 0);
            out[start + NEXT_COMMAND_OFFSET..][..4].copy_from_slice(&(length as u32).to_le_bytes());
            self.sign(&mut out[start..]);
            let mut second = self.header(related.command, 1, id, 1);
            second.flags |= Flags::RELATED_OPERATIONS;
            out.extend_from_slice(&second.to_bytes());
            (related.body)(out);
            self.sign(&mut out[start + length..]);
        } else {
            self.sign(&mut out[start..]);
        }
        let frame = &mut out[begin..];
        if let (Guard::Sealed(seals), Some(nonce)) = (self.guard, nonce) {
            let sealed = seals.sealer.seal(&mut frame[PREFIX_LENGTH..], seals.session_id, nonce);
            sealed.map_err(|_| Loss("a message cannot be sealed"))?;
        }
        let length = frame.len() + apart_bytes;
        let prefix = frame_prefix(length - PREFIX_LENGTH).map_err(|_| Loss("a request is too long"))?;
        frame[..PREFIX_LENGTH].copy_from_slice(&prefix);
        Ok(Frame { length, message: start..out.len() })
    }

    fn header(&self, command: Command, charge: u16, id: MessageId, credits: u16) -> Header {
        let signed = if matches!(self.guard, Guard::Signed(_)) { Flags::SIGNED } else { Flags::NONE };
        let mut header = Header {
            credit_charge: charge,
            command,
            credits,
            flags: self.flags | signed,
            message_id: id,
            route: Route::Sync { tree_id: self.tree_id },
            session_id: self.session_id,
            ..Header::default()
        };
        header.set_channel_sequence(self.channel_sequence);
        header
    }

    fn sign(&self, message: &mut [u8]) {
        if let Guard::Signed(key) = self.guard {
            key.sign(message, Role::Client);
        }
    }
}

/// A frame ready to be sent.
pub(crate) struct Frame {
    /// Of all of it, with what is apart.
    pub(crate) length: usize,
    /// Where the message stands, as the pre-authentication hash wants it; encrypted where it is sealed.
    pub(crate) message: Range<usize>,
}

/// How an answer arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// In the open, perhaps signed.
    Plain,
    /// Encrypted with the session's key.
    Sealed,
}

/// An answer: its header, and the message that it begins.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) header: Header,
    pub(crate) arrival: Arrival,
    bytes: BytesMut,
    /// Of a READ: what comes behind these bytes, where it arrived as a piece of its own.
    rest: Option<Piece>,
}

impl Answer {
    /// `bytes` are the message, header included.
    pub(crate) fn new(header: Header, arrival: Arrival, bytes: BytesMut) -> Self {
        Answer { header, arrival, bytes, rest: None }
    }

    /// The same where the rest of the message is a piece of its own.
    pub(crate) fn before(self, rest: Option<Piece>) -> Self {
        Answer { rest, ..self }
    }

    pub(crate) fn status(&self) -> Status {
        self.header.status
    }

    /// The message, header included, without what is a piece of its own.
    pub(crate) fn message(&self) -> &[u8] {
        &self.bytes
    }

    /// The same to keep, and what is a piece of its own behind it.
    pub(crate) fn into_parts(self) -> (BytesMut, Option<Piece>) {
        (self.bytes, self.rest)
    }

    /// True where the answer is protected as its request was (3.2.5.1.3).
    pub(crate) fn is_genuine(&mut self, guard: &Guard) -> bool {
        match (guard, self.arrival) {
            (Guard::Bare, Arrival::Plain) | (Guard::Sealed(_) | Guard::Signed(_), Arrival::Sealed) => true,
            (Guard::Signed(key), Arrival::Plain) => {
                // What is signed is the whole message.
                match self.rest.take() {
                    Some(Piece::Bytes(rest)) => self.bytes.extend_from_slice(&rest),
                    Some(Piece::Elsewhere(_)) => return false,
                    None => {}
                }
                self.header.flags.contains(Flags::SIGNED) && key.verify(&mut self.bytes, Role::Server)
            }
            (Guard::Bare, Arrival::Sealed) | (Guard::Sealed(_), Arrival::Plain) => false,
        }
    }

    /// The answer where its status is one of `good`, else a refusal to do what `doing` says.
    pub(crate) fn expect(self, good: &[Status], doing: impl FnOnce() -> String) -> Result<Self, Error> {
        if good.contains(&self.status()) { Ok(self) } else { Err(Error::refused(self.status(), doing())) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use secure::sign::{SigningAlgorithm, SigningKey};

    use super::*;

    /// The frame of a WRITE of so many bytes without what is apart, its whole length, and the bytes apart.
    fn written(guard: &Guard, bytes: usize) -> (Vec<u8>, usize, usize) {
        let data = Bytes::from(vec![7; bytes]);
        let request = Request {
            command: Command::WRITE,
            charge: 1,
            flags: Flags::NONE,
            channel_sequence: 0,
            session_id: SessionId(1),
            tree_id: TreeId(1),
            guard,
            body: &|out| out.extend_from_slice(&[0; 48]),
            data: Some(&data),
            related: None,
        };
        let mut out = Vec::new();
        let numbers = Numbers { first: MessageId(5), related: None, credits: 1 };
        let frame = request.append(&mut out, numbers, None).map_err(|loss| loss.0).unwrap();
        let apart = request.apart().map_or(0, |apart| {
            assert_eq!(apart.as_ptr(), data.as_ptr(), "it is not copied");
            apart.len()
        });
        (out, frame.length, apart)
    }

    #[test]
    fn much_bare_data_is_sent_from_where_it_lies_and_announced_with_its_frame() {
        let head = PREFIX_LENGTH + HEADER_LENGTH + 48;
        let (frame, length, apart) = written(&Guard::Bare, 64 << 10);
        assert_eq!((frame.len(), length, apart), (head, head + (64 << 10), 64 << 10));
        assert_eq!(frame[..PREFIX_LENGTH], frame_prefix(length - PREFIX_LENGTH).unwrap());
    }

    #[test]
    fn little_data_and_what_is_signed_is_in_its_frame() {
        let head = PREFIX_LENGTH + HEADER_LENGTH + 48;
        let key = SigningKey::new(SigningAlgorithm::AesGmac, [1; 16]);
        for (guard, bytes) in [(Guard::Bare, 4096), (Guard::Signed(Arc::new(key)), 64 << 10)] {
            let (frame, length, apart) = written(&guard, bytes);
            assert_eq!((frame.len(), length, apart), (head + bytes, head + bytes, 0));
            assert!(frame[head..].iter().all(|byte| *byte == 7));
        }
    }
}
