//! What a connection receives: frames are unsealed, taken apart and handed to those who wait, all that arrived together in one go.

use std::sync::atomic::Ordering;
use std::task::Waker;

use bytes::BytesMut;
use secure::seal::TRANSFORM_HEADER_LENGTH;
use tokio::task::yield_now;
use wire::header::{HEADER_LENGTH, Header};
use wire::ids::{Command, MessageId};
use wire::transform::{TRANSFORM_PROTOCOL_ID, TransformHeader};

use crate::connection::Core;
use crate::inbox::{Cut, Inbox, joined};
use crate::loss::Loss;
use crate::message::{Answer, Arrival};
use crate::network::Reader;

/// What stands before the data of a READ: the header, and so many bytes.
const READ_BODY_BYTES: usize = 16;
/// More credits than any window needs are left unused.
const CREDITS_MAX: usize = 8192;
/// After so many bytes those have a turn who wait for them: they give back buffers, which the processor's caches still hold.
const TURN_BYTES_MAX: usize = 512 << 10;

/// Answers that arrived together, and who is woken for them. Kept for their room.
#[derive(Default)]
struct Arrived {
    answers: Vec<Answer>,
    wakers: Vec<Waker>,
}

impl Core {
    /// Receives until the connection ends; gives the reason.
    pub(crate) async fn receive(&self, mut reader: Reader) -> Loss {
        let mut inbox = Inbox::of(&reader);
        let mut arrived = Arrived::default();
        let mut turn_bytes = 0;
        loop {
            let taken = self.take_all(&mut inbox, &mut arrived);
            self.deliver(&mut arrived);
            if let Err(loss) = taken {
                return loss;
            }
            if turn_bytes >= TURN_BYTES_MAX {
                turn_bytes = 0;
                yield_now().await;
            }
            match inbox.fill(&mut reader).await {
                Ok(0) | Err(_) if inbox.is_torn() => return Loss("the connection broke"),
                Ok(0) | Err(_) => return Loss("the server closed the connection"),
                Ok(count) => {
                    turn_bytes += count;
                    self.received.fetch_add(count as u64, Ordering::Relaxed);
                    let now = self.tick();
                    self.moved.store(now, Ordering::Relaxed);
                    self.heard.store(now, Ordering::Relaxed);
                }
            }
        }
    }

    fn take_all(&self, inbox: &mut Inbox, arrived: &mut Arrived) -> Result<(), Loss> {
        while let Some(frame) = inbox.cut(self.answer_bytes_max.load(Ordering::Relaxed))? {
            self.take(frame, &mut arrived.answers)?;
        }
        Ok(())
    }

    /// Takes a frame apart.
    fn take(&self, cut: Cut, answers: &mut Vec<Answer>) -> Result<(), Loss> {
        let (mut frame, rest) = match cut {
            Cut { head, rest: Some(rest) } if is_of_read(&head) => (head, Some(rest)),
            Cut { head, rest } => (joined(head, rest)?, None),
        };
        let arrival = self.open(&mut frame)?;
        loop {
            let header = Header::decode(&frame).map_err(|_| Loss("an answer has no header"))?;
            if !header.is_response() {
                return Err(Loss("the server sent a request"));
            }
            let step = header.next_command as usize;
            if step == 0 {
                answers.push(Answer::new(header, arrival, frame).before(rest));
                return Ok(());
            }
            if step < HEADER_LENGTH || step > frame.len() || !step.is_multiple_of(8) {
                return Err(Loss("NextCommand of an answer lies outside of its frame"));
            }
            answers.push(Answer::new(header, arrival, frame.split_to(step)));
        }
    }

    /// Decrypts a frame in place where it is sealed; what is left is the message.
    fn open(&self, frame: &mut BytesMut) -> Result<Arrival, Loss> {
        if !frame.starts_with(&TRANSFORM_PROTOCOL_ID) {
            return Ok(Arrival::Plain);
        }
        let header = TransformHeader::decode(frame).map_err(|_| Loss("a sealed answer is too short"))?;
        let seals = self.seals.get().filter(|seals| seals.session_id == header.session_id);
        let seals = seals.ok_or(Loss("a sealed answer is of no session"))?;
        seals.opener.open(frame).map_err(|_| Loss("a sealed answer does not fit its key"))?;
        drop(frame.split_to(TRANSFORM_HEADER_LENGTH));
        Ok(Arrival::Sealed)
    }

    /// Hands answers to those who wait for them.
    fn deliver(&self, arrived: &mut Arrived) {
        if arrived.answers.is_empty() {
            return;
        }
        let mut granted = 0;
        let now = self.clock.load(Ordering::Relaxed);
        {
            let mut desk = self.desk.lock();
            for answer in arrived.answers.drain(..) {
                if answer.header.message_id == MessageId::UNSOLICITED {
                    let _ = self.unsolicited.send(answer);
                    continue;
                }
                let credits = usize::from(answer.header.credits);
                if let Ok(waker) = desk.flight.deliver(answer, now) {
                    granted += credits;
                    arrived.wakers.extend(waker);
                }
            }
            if let Some(latency) = desk.flight.latency() {
                self.latency.store(latency, Ordering::Relaxed);
            }
        }
        let room = CREDITS_MAX.saturating_sub(self.credits.available_permits());
        self.credits.add_permits(granted.min(room));
        arrived.wakers.drain(..).for_each(Waker::wake);
    }
}

/// True of all that stands before the data of a READ whose answer is alone in its frame, and not sealed.
fn is_of_read(head: &[u8]) -> bool {
    let is_it = |header: Header| header.command == Command::READ && header.next_command == 0;
    head.len() == HEADER_LENGTH + READ_BODY_BYTES && Header::decode(head).is_ok_and(is_it)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::mpsc;
    use wire::header::Flags;

    use crate::connection::Connection;
    use crate::network::Stream;

    use super::*;

    #[tokio::test]
    async fn those_who_wait_have_a_turn_before_all_is_received_that_there_is() {
        let header = Header { flags: Flags::SERVER_TO_REDIR, ..Header::default() };
        let mut message = header.to_bytes().to_vec();
        message.resize(64 << 10, 0);
        let frame = [&(message.len() as u32).to_be_bytes()[..], &message].concat();
        let all: &'static [u8] = frame.repeat(64).leak();
        let stream =
            Stream { reader: Reader::of(all), writer: Box::new(tokio::io::sink()), local: [127, 0, 0, 1].into() };
        let (unsolicited, _breaks) = mpsc::unbounded_channel();
        let connection = Connection::start(stream, unsolicited, Arc::default());
        let mut received = 0;
        while !connection.has_ended() {
            yield_now().await;
            let before = std::mem::replace(&mut received, connection.bytes().0);
            assert!(received - before < 1 << 20, "{before} to {received}");
        }
        assert_eq!(received, all.len() as u64);
    }
}
