//! A frame on the slow path, before anything is held for it: where its messages stand, and how much their answers may take.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;
use wire::codec::Reader;
use wire::header::{HEADER_LENGTH, Header};
use wire::ids::Command;

use crate::command::connection::Disconnect;
use crate::command::proof::Proof;
use crate::request::admission;
use crate::request::finding::Signatures;
use crate::resource::allowance::ANSWER_BYTES_SMALL;
use crate::resource::budgets::ANSWERS_BYTES;
use crate::resource::buffers::{Buffers, FRAME_BYTES_MAX, HUGE_BYTES, PAYLOAD_BYTES_MAX};
use crate::state::credits;
use crate::state::session::Channel;

/// Requests of one connection that wait for other clients at a time: Windows Server's AsynchronousCredits.
pub(crate) const ANNOUNCED_WAITS_MAX: usize = 512;
/// CANCELs in one frame, which take no credits. No client that is known sends two together.
pub(crate) const CANCELS_MAX: usize = 2 * ANNOUNCED_WAITS_MAX;

/// What one request takes beside its bytes and its answer's data: what is known of it, and an answer without data.
pub(crate) const REQUEST_BYTES: usize = 1 << 10;
/// What the ranges of a LOCK take, in parts of its bytes, when they have been read: measured 4.3.
const LOCKS_PART: usize = 5;
/// One of them (MS-SMB2 2.2.26.1), and where it is said how many there are (2.2.26).
const LOCK_BYTES: usize = 24;
const LOCK_COUNT_OFFSET: usize = HEADER_LENGTH + 2;
/// The most messages of a frame that is not ended for them.
pub(crate) const MESSAGES_MAX: usize = credits::CREDITS_MAX as usize + CANCELS_MAX;
/// An answer of a chain fills at least one part in so many of what holds it.
pub(crate) const FILLED_PART: usize = 2;
/// The answers of a chain leave in one frame, which is no larger than that of the largest single answer. What asks for more than has room behind
/// what it holds already is refused before it runs.
pub(crate) const ANSWERS_BYTES_MAX: usize = FRAME_BYTES_MAX;
/// What [`need`] says at most: as there is so much for who has waited, nobody waits for ever.
const NEED_BYTES_MAX: usize = (FILLED_PART + 2) * HUGE_BYTES + MESSAGES_MAX * REQUEST_BYTES;
const _: () = assert!(NEED_BYTES_MAX as u64 <= ANSWERS_BYTES);
const _: () = assert!(LOCKS_PART * LOCK_BYTES * u16::MAX as usize <= FRAME_BYTES_MAX);

/// A frame that takes the slow path: its messages, unsealed in place, stand in this part of it.
pub(crate) struct Long {
    pub(crate) messages: Range<usize>,
    pub(crate) first: Header,
    pub(crate) sealed: Option<Rc<Channel>>,
    pub(crate) signatures: Signatures,
    /// Of a lone READ or WRITE, for which it was found already.
    pub(crate) proof: Option<Proof>,
    /// What answers it cannot be held: each request is answered so.
    pub(crate) is_refused: bool,
    /// When it was received, and how long it has waited for memory since.
    pub(crate) received: Instant,
    pub(crate) held_back: Duration,
}

/// How much is held at most until a frame is answered.
#[derive(Clone, Copy, Default)]
pub(crate) struct Need {
    pub(crate) bytes: usize,
    /// Where all its requests are refused.
    pub(crate) bytes_refused: usize,
    /// For the frame, in both.
    kept: usize,
}

impl Need {
    /// The same where nothing more is held for the frame.
    pub(crate) fn of_paid(self) -> Self {
        Need { bytes: self.bytes - self.kept, bytes_refused: self.bytes_refused - self.kept, kept: 0 }
    }
}

/// What is held for the answers of the messages in `frame`, which nobody has verified, and for `kept` bytes of the frame. The answers of a chain
/// are held as they were made, in buffers that they fill by half at least, while one more is made in a buffer of its own, or the ranges of a LOCK
/// are read, or all are joined in one. What has more messages than anybody has credits for ends its connection when it is admitted.
pub(crate) fn need(frame: &[u8], kept: usize) -> Need {
    let (mut start, mut count, mut asked, mut largest, mut read) = (0, 0, 0, 0, 0);
    while count <= MESSAGES_MAX
        && let Some(Ok(header)) = frame.get(start..).map(Header::decode)
    {
        let Ok(end) = end_of(&header, start, frame.len()) else { break };
        let message = &frame[start..end];
        let data = asked_bytes(header.command, message, header.next_command == 0);
        (count, asked, largest) = (count + 1, asked + data, data.max(largest));
        read = read.max(if header.command == Command::LOCK { locks_bytes(message) } else { 0 });
        start = end;
        if header.next_command == 0 {
            break;
        }
    }
    let largest = if largest < ANSWER_BYTES_SMALL { largest } else { Buffers::size(largest + REQUEST_BYTES) };
    let answers = match count {
        0 | 1 => largest.max(read),
        _ => {
            let asked = asked.min(ANSWERS_BYTES_MAX);
            FILLED_PART * asked + largest.max(asked).max(read)
        }
    };
    let bytes_refused = kept + count * REQUEST_BYTES;
    Need { bytes: bytes_refused + answers, bytes_refused, kept }
}

/// What the ranges of a LOCK take when they have been read.
fn locks_bytes(message: &[u8]) -> usize {
    let count = Reader::at(message, LOCK_COUNT_OFFSET).u16().unwrap_or(0);
    LOCKS_PART * message.len().min(usize::from(count) * LOCK_BYTES)
}

/// How much data a request asks for, as far as it is answered soon.
pub(crate) fn asked_bytes(command: Command, message: &[u8], is_last: bool) -> usize {
    match admission::row(command) {
        // What a watch that may wait is told is held when there is something to tell.
        Some(row) if command != Command::CHANGE_NOTIFY || !is_last => {
            (row.asked_bytes(message) as usize).min(PAYLOAD_BYTES_MAX)
        }
        Some(_) | None => 0,
    }
}

/// Where the request at `start` ends: the next one begins there, inside the frame. Like Windows, which way it is aligned is not
/// looked at (note 267).
pub(crate) fn end_of(header: &Header, start: usize, frame_length: usize) -> Result<usize, Disconnect> {
    let next = header.next_command as usize;
    if next == 0 {
        return Ok(frame_length);
    }
    let end = start + next;
    if next < HEADER_LENGTH || end + HEADER_LENGTH > frame_length {
        return Err(Disconnect("a chain leaves its frame"));
    }
    Ok(end)
}
