//! Frames that take milliseconds to open or to verify: a thread of the pool does that, behind others, with the buffer that they arrived in. The
//! connection looks at nothing else meanwhile.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use wire::header::{self, Flags, Header};
use wire::ids::{Command, SessionId};
use wire::transform::{TRANSFORM_PROTOCOL_ID, TransformHeader};

use crate::command::connection::{Connection, Ending};
use crate::request::admission;
use crate::request::fast_path::Shield;
use crate::request::finding::{Finding, Judged, Opened, Signatures};
use crate::request::inbox::Inbox;
use crate::request::responder::Responder;
use crate::request::slow_path;
use crate::resource::pool::{Device, QueueKey};
use crate::state::session::{Channel, Session, Signature};

/// An unsealed chain of more bytes may have so many messages that to verify them takes milliseconds.
const CHAIN_BYTES_MAX: usize = 128 << 10;
/// What a frame has beside a payload at the most: the headers of its seal, of SMB2 and of a WRITE, and padding.
const HEADERS_BYTES_MAX: usize = 256;

/// What is to be done with a frame.
pub(crate) struct Look {
    queue_key: QueueKey,
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
    pub(crate) fn at_long(responder: &Responder, frame: &[u8]) -> Option<Look> {
        let is_chain =
            frame.starts_with(&header::PROTOCOL_ID) && Header::decode(frame).is_ok_and(|first| first.next_command > 0);
        let payload = frame.len().saturating_sub(HEADERS_BYTES_MAX) as u64;
        let is_long = match is_chain {
            true => frame.len() > CHAIN_BYTES_MAX,
            false => !responder.turn.may_copy_at_once(payload, || is_fast(responder, frame)),
        };
        is_long.then(|| Look::at(responder, frame)).flatten()
    }

    fn at(connection: &Connection, frame: &[u8]) -> Option<Look> {
        let channels = connection.channels.borrow();
        match frame.first_chunk::<4>() {
            Some(&TRANSFORM_PROTOCOL_ID) => {
                let channel = channels.get(&TransformHeader::decode(frame).ok()?.session_id)?;
                let session = Arc::clone(&channel.session);
                let queue_key = session.queue_key(Device::Processor);
                Some(Look { queue_key, channels: vec![Rc::clone(channel)], work: Work::Open(session) })
            }
            Some(&header::PROTOCOL_ID) => {
                let first = Header::decode(frame).ok()?;
                let may_be_signed = first.flags.contains(Flags::SIGNED) || first.next_command > 0;
                let queue_key = channels.values().next()?.session.queue_key(Device::Processor);
                let keys = channels.iter().map(|(id, channel)| (*id, channel.signature())).collect();
                let channels = channels.values().cloned().collect();
                may_be_signed.then_some(Look { queue_key, channels, work: Work::Verify(keys) })
            }
            Some(_) | None => None,
        }
    }

    /// Has the pool do it with a frame of `inbox`, whose buffer goes along. The connection is called when that is back.
    pub(crate) fn begin(self, responder: &Rc<Responder>, inbox: &mut Inbox, frame: Range<usize>) {
        let Look { queue_key, channels, work } = self;
        let (mut buffer, charge) = inbox.lend();
        let (part, bytes) = (frame.clone(), frame.len());
        let done = responder.server.long_work.hand_over(queue_key, move || {
            let done = work.run(&mut buffer[part]);
            (buffer, charge, done)
        });
        let this = Rc::clone(responder);
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
        responder.connection.spawn(Box::pin(back), responder.allowance.overdraw(judged_bytes(bytes)));
    }

    /// The same at once, however long the frame is.
    #[cfg(test)]
    pub(crate) fn now(connection: &Connection, frame: &mut [u8]) -> Finding {
        let look = Look::at(connection, frame);
        look.map_or(Finding::None, |look| look.work.run(frame).finding(look.channels))
    }
}

/// True where a frame that is no chain is opened or verified as fast as it is copied.
fn is_fast(connection: &Connection, frame: &[u8]) -> bool {
    let channels = connection.channels.borrow();
    match TransformHeader::decode(frame) {
        Ok(transform) => channels.get(&transform.session_id).is_some_and(|channel| Shield::Sealed.is_fast(channel)),
        Err(_) => channels.values().next().is_some_and(|channel| Shield::Signed.is_fast(channel)),
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
    while count <= slow_path::MESSAGES_MAX
        && let Some(Ok(header)) = frame.get(start..).map(Header::decode)
    {
        let Ok(end) = slow_path::end_of(&header, start, frame.len()) else { break };
        let session = admission::session_meant(&header, session_before);
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
