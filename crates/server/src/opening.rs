//! Frames that take milliseconds to open or to verify: a thread of the pool does that, behind others, with the buffer that they arrived in. The
//! connection looks at nothing else meanwhile.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use wire::header::{self, Flags, Header};
use wire::ids::{Command, SessionId};
use wire::transform::{TRANSFORM_PROTOCOL_ID, TransformHeader};

use crate::budget::Charge;
use crate::buffers::Buffer;
use crate::chain;
use crate::connection::{Connection, Ending};
use crate::inbox::Inbox;
use crate::pipeline::RESPONSE_ROOM;
use crate::pool::{Device, Turn};
use crate::session::{Channel, Session, Signature};
use crate::steps::INLINE_BYTES_MAX;

/// An unsealed chain of more bytes may have so many messages that to verify them takes milliseconds.
const CHAIN_BYTES_MAX: usize = 128 << 10;

/// What is known of a frame before anything is done with it.
#[derive(Default)]
pub(crate) enum Finding {
    /// Nobody has looked.
    #[default]
    None,
    /// Whether the key of this channel's session has opened it, which it did in place.
    Opened(Rc<Channel>, bool),
    Verified(Signatures),
}

/// Which messages of a frame are signed with the keys of the channels that they name.
#[derive(Default)]
pub(crate) struct Signatures {
    channels: Vec<Rc<Channel>>,
    /// In the order of the frame.
    judged: Vec<Judged>,
}

/// A signed message.
struct Judged {
    start: usize,
    /// Which of the channels.
    channel: usize,
    is_right: bool,
}

impl Signatures {
    /// Whether the message that begins at `start` is signed with the key of `channel`. `None` where that was not looked at.
    pub(crate) fn are_right(&self, start: usize, channel: &Rc<Channel>) -> Option<bool> {
        let position = self.judged.binary_search_by_key(&start, |judged| judged.start).ok()?;
        let judged = &self.judged[position];
        let by = self.channels.get(judged.channel)?;
        Rc::ptr_eq(by, channel).then_some(judged.is_right)
    }
}

/// A frame that is back, with its buffer.
pub(crate) struct Opened {
    pub(crate) frame: Range<usize>,
    pub(crate) finding: Finding,
    pub(crate) buffer: Buffer,
    pub(crate) charge: Option<Charge>,
}

/// What is to be done with a frame.
pub(crate) struct Look {
    turn: Turn,
    channels: Vec<Rc<Channel>>,
    work: Work,
}

/// The part of it that any thread may do.
enum Work {
    Open(Arc<Session>),
    /// With the keys of these sessions' channels.
    Verify(Vec<(SessionId, Signature)>),
}

/// What came of it.
enum Done {
    Opened(bool),
    Verified(Vec<Judged>),
}

impl Look {
    /// Of a frame that takes so long that it is not done here; `None` where there is nothing to do, or it is done as fast as handed over.
    pub(crate) fn at_long(connection: &Connection, frame: &[u8]) -> Option<Look> {
        let is_chain =
            frame.starts_with(&header::PROTOCOL_ID) && Header::decode(frame).is_ok_and(|first| first.next_command > 0);
        let bytes_max = if is_chain { CHAIN_BYTES_MAX } else { INLINE_BYTES_MAX as usize + RESPONSE_ROOM };
        let is_long = frame.len() > bytes_max;
        is_long.then(|| Look::at(connection, frame)).flatten()
    }

    fn at(connection: &Connection, frame: &[u8]) -> Option<Look> {
        let channels = connection.channels.borrow();
        match frame.first_chunk::<4>() {
            Some(&TRANSFORM_PROTOCOL_ID) => {
                let channel = channels.get(&TransformHeader::decode(frame).ok()?.session_id)?;
                let session = Arc::clone(&channel.session);
                let turn = session.turn(Device::Processor);
                Some(Look { turn, channels: vec![Rc::clone(channel)], work: Work::Open(session) })
            }
            Some(&header::PROTOCOL_ID) => {
                let first = Header::decode(frame).ok()?;
                let may_be_signed = first.flags.contains(Flags::SIGNED) || first.next_command > 0;
                let turn = channels.values().next()?.session.turn(Device::Processor);
                let keys = channels.iter().map(|(id, channel)| (*id, channel.signature())).collect();
                let channels = channels.values().cloned().collect();
                may_be_signed.then_some(Look { turn, channels, work: Work::Verify(keys) })
            }
            Some(_) | None => None,
        }
    }

    /// Has the pool do it with a frame of `inbox`, whose buffer goes along. The connection is called when that is back.
    pub(crate) fn begin(self, connection: &Rc<Connection>, inbox: &mut Inbox, frame: Range<usize>) {
        let Look { turn, channels, work } = self;
        let (mut buffer, charge) = inbox.lend();
        let (part, bytes) = (frame.clone(), frame.len());
        let done = connection.server.long_work.hand_over(turn, move || {
            let done = work.run(&mut buffer[part]);
            (buffer, charge, done)
        });
        let this = Rc::clone(connection);
        let back = async move {
            match done.await {
                Ok((buffer, charge, done)) => {
                    let finding = done.finding(channels);
                    this.is_back(Opened { frame, finding, buffer, charge });
                }
                // The server ends.
                Err(_) => this.end(Ending::Now),
            }
        };
        connection.spawn(Box::pin(back), connection.allowance.overdraw(judged_bytes(bytes)));
    }

    /// The same at once, however long the frame is.
    #[cfg(test)]
    pub(crate) fn now(connection: &Connection, frame: &mut [u8]) -> Finding {
        let look = Look::at(connection, frame);
        look.map_or(Finding::None, |look| look.work.run(frame).finding(look.channels))
    }
}

/// What is held at most of the signatures of a frame.
fn judged_bytes(frame_bytes: usize) -> usize {
    frame_bytes / header::HEADER_LENGTH * size_of::<Judged>()
}

impl Work {
    fn run(self, frame: &mut [u8]) -> Done {
        match self {
            Work::Open(session) => Done::Opened(session.open_sealed(frame).is_some()),
            Work::Verify(keys) => Done::Verified(verify(&keys, frame)),
        }
    }
}

impl Done {
    fn finding(self, channels: Vec<Rc<Channel>>) -> Finding {
        match (self, channels.first()) {
            (Done::Opened(is_open), Some(channel)) => Finding::Opened(Rc::clone(channel), is_open),
            (Done::Opened(_), None) => Finding::None,
            (Done::Verified(judged), _) => Finding::Verified(Signatures { channels, judged }),
        }
    }
}

/// Verifies the messages of a frame as far as it is one. What is wrong with it is found again by who admits it.
fn verify(keys: &[(SessionId, Signature)], frame: &mut [u8]) -> Vec<Judged> {
    let (mut judged, mut start, mut session_before, mut count) = (Vec::new(), 0, None, 0);
    while count <= chain::MESSAGES_MAX
        && let Some(Ok(header)) = frame.get(start..).map(Header::decode)
    {
        let Ok(end) = chain::end_of(&header, start, frame.len()) else { break };
        let session = chain::session_meant(&header, session_before);
        if let Some(channel) = keys.iter().position(|(id, _)| *id == session)
            && header.flags.contains(Flags::SIGNED)
        {
            judged.push(Judged { start, channel, is_right: keys[channel].1.verify(&mut frame[start..end]) });
        }
        // What comes behind a CANCEL is related to what is before it.
        if header.command != Command::CANCEL {
            session_before = Some(session);
        }
        if header.next_command == 0 {
            break;
        }
        (start, count) = (end, count + 1);
    }
    judged
}
