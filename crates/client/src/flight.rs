//! Requests in flight on one connection: their message ids and credits, and who waits for the answer of each.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use wire::ids::MessageId;
use wire::status::Status;

use crate::loss::Loss;
use crate::message::{Answer, Numbers, Request};
use crate::pace::{Load, Pace};

/// Credits a connection asks for: 16 requests of 2 MiB, or a thousand small ones.
const CREDITS_WANTED: usize = 1024;
/// Credits asked for with one request beyond its cost (Windows asks for up to 128).
const CREDITS_STEP: usize = 128;
/// The latency of long ago is forgotten within so many answers, about.
const LATENCY_STEPS: u64 = 32;

/// The requests of one connection that somebody waits for. Times are microseconds on the connection's clock.
#[derive(Default)]
pub(crate) struct Flight {
    next: u64,
    waiting: HashMap<u64, Waiting, BuildHasherDefault<Scatter>>,
    /// Those of them that have no answer yet.
    unanswered: usize,
    /// Credits at hand and in use.
    balance: usize,
    pace: Pace,
    latency: Option<u64>,
    ended: Option<Loss>,
}

struct Waiting {
    stage: Stage,
    charge: u16,
    load: Load,
    since: u64,
    /// The server said that it will answer later.
    is_pending: bool,
}

enum Stage {
    /// Who is to be woken, once that is known.
    Asked(Option<Waker>),
    /// The answer is there and has yet to be taken.
    Answered(Answer),
    /// Nobody waits any more.
    GivenUp,
}

impl Flight {
    /// Of a new connection, which has one credit.
    pub(crate) fn new() -> Self {
        Flight { balance: 1, ..Flight::default() }
    }

    /// Numbers a request, and says how many credits to ask for with it (3.2.4.1.2, 3.2.4.1.3).
    pub(crate) fn enlist(&mut self, request: &Request<'_>, now: u64) -> Result<Numbers, Loss> {
        if let Some(loss) = self.ended {
            return Err(loss);
        }
        // "the client MUST consume a number of consecutive MessageIds equal to CreditCharge" (3.2.4.1.5); 0 costs one, too.
        let charge = request.charge.max(1);
        let first = self.add(charge, request.room(), now);
        let related = request.related.map(|_| self.add(1, 0, now));
        let more = CREDITS_WANTED.saturating_sub(self.balance).min(CREDITS_STEP);
        Ok(Numbers { first, related, credits: charge.saturating_add(more as u16) })
    }

    fn add(&mut self, charge: u16, bytes: usize, since: u64) -> MessageId {
        let id = self.next;
        self.next += u64::from(charge);
        let load = self.pace.add(bytes);
        self.waiting.insert(id, Waiting { stage: Stage::Asked(None), charge, load, since, is_pending: false });
        self.unanswered += 1;
        MessageId(id)
    }

    /// The answer to a request once it is there; the task is woken for it. An error where the connection ended before.
    pub(crate) fn poll(&mut self, id: MessageId, task: &Context<'_>) -> Poll<Result<Answer, Loss>> {
        if let Some(Waiting { stage: Stage::Asked(waker), .. }) = self.waiting.get_mut(&id.0) {
            match waker {
                Some(waker) => waker.clone_from(task.waker()),
                None => *waker = Some(task.waker().clone()),
            }
            return Poll::Pending;
        }
        match self.waiting.remove(&id.0) {
            Some(Waiting { stage: Stage::Answered(answer), .. }) => Poll::Ready(Ok(answer)),
            Some(_) | None => Poll::Ready(Err(self.loss())),
        }
    }

    /// Nobody waits for this answer any more; its credits come in with it all the same.
    pub(crate) fn give_up(&mut self, id: MessageId) {
        match self.waiting.get_mut(&id.0) {
            Some(waiting) if matches!(waiting.stage, Stage::Asked(_)) => waiting.stage = Stage::GivenUp,
            Some(_) | None => drop(self.waiting.remove(&id.0)),
        }
    }

    /// An answer has come; who is to be woken for it. Gives it back where it answers nothing, with no effect: "If a matching request
    /// cannot be found, the client MUST discard the response" (3.2.5.1.2).
    pub(crate) fn deliver(&mut self, answer: Answer, now: u64) -> Result<Option<Waker>, Box<Answer>> {
        let id = answer.header.message_id.0;
        let granted = usize::from(answer.header.credits);
        let Some(waiting) = self.waiting.get_mut(&id) else { return Err(Box::new(answer)) };
        if matches!(waiting.stage, Stage::Answered(_)) {
            return Err(Box::new(answer));
        }
        if answer.status() == Status::PENDING {
            waiting.is_pending = true;
            self.balance += granted;
            return Ok(None);
        }
        self.unanswered -= 1;
        self.balance = (self.balance + granted).saturating_sub(usize::from(waiting.charge));
        let took = now.saturating_sub(waiting.since);
        self.pace.remove(waiting.load, Duration::from_micros(took), waiting.is_pending);
        if !waiting.is_pending {
            // A queue is noticed at once, and its end when it has been gone for some requests.
            let fallen = self.latency.map_or(0, |before| before - before / LATENCY_STEPS);
            self.latency = Some(took.max(fallen));
        }
        match std::mem::replace(&mut waiting.stage, Stage::Answered(answer)) {
            Stage::Asked(waker) => Ok(waker),
            Stage::GivenUp | Stage::Answered(_) => {
                self.waiting.remove(&id);
                Ok(None)
            }
        }
    }

    /// Nothing more is asked or answered; who is to be woken to hear of it. Answers that are there stay to be taken.
    pub(crate) fn end(&mut self, loss: Loss) -> Vec<Waker> {
        self.ended.get_or_insert(loss);
        self.unanswered = 0;
        let mut wakers = Vec::new();
        self.waiting.retain(|_, waiting| match &mut waiting.stage {
            Stage::Asked(waker) => {
                wakers.extend(waker.take());
                false
            }
            Stage::GivenUp => false,
            Stage::Answered(_) => true,
        });
        wakers
    }

    /// Why the connection ended.
    pub(crate) fn loss(&self) -> Loss {
        self.ended.unwrap_or(Loss("the connection ended"))
    }

    /// Requests without an answer.
    pub(crate) fn unanswered(&self) -> usize {
        self.unanswered
    }

    /// Credits at hand and in use: what the server granted and has not taken back.
    pub(crate) fn balance(&self) -> usize {
        self.balance
    }

    /// Microseconds from asking to the answer, of late; `None` before the first answer.
    pub(crate) fn latency(&self) -> Option<u64> {
        self.latency
    }

    /// How fast the connection drains.
    pub(crate) fn pace(&self) -> &Pace {
        &self.pace
    }

    /// True where a request has waited for longer than `patience`, or `patience_pending` where the server said that it will take long.
    pub(crate) fn is_overdue(&self, now: u64, patience: Duration, patience_pending: Duration) -> bool {
        self.waiting.values().any(|waiting| {
            let patience = if waiting.is_pending { patience_pending } else { patience };
            let waits = !matches!(waiting.stage, Stage::Answered(_));
            waits && Duration::from_micros(now.saturating_sub(waiting.since)) > patience
        })
    }
}

/// Spreads message ids, which follow one another, over a table. Servers cannot choose them, so that nothing more is needed.
#[derive(Default)]
struct Scatter(u64);

impl Hasher for Scatter {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, id: u64) {
        // The golden ratio of 2^64, as Fibonacci hashing has it.
        self.0 = id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use wire::header::{Flags, Header};
    use wire::ids::{Command, SessionId, TreeId};

    use super::*;
    use crate::guard::Guard;
    use crate::message::Arrival;

    fn asked(flight: &mut Flight, charge: u16) -> MessageId {
        let body = |_: &mut Vec<u8>| {};
        let request = Request {
            command: Command::READ,
            charge,
            flags: Flags::NONE,
            channel_sequence: 0,
            session_id: SessionId(1),
            tree_id: TreeId(1),
            guard: &Guard::Bare,
            body: &body,
            data: None,
            related: None,
        };
        flight.enlist(&request, 0).unwrap().first
    }

    fn answer(id: MessageId, status: Status, credits: u16) -> Answer {
        let header = Header { message_id: id, status, credits, ..Header::default() };
        Answer::new(header, Arrival::Plain, BytesMut::new())
    }

    fn taken(flight: &mut Flight, id: MessageId) -> Poll<Result<Answer, Loss>> {
        flight.poll(id, &Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_request_uses_as_many_ids_as_it_costs_and_its_answer_brings_credits() {
        let mut flight = Flight::new();
        let ids: Vec<u64> = [1, 16, 0, 1].map(|charge| asked(&mut flight, charge).0).to_vec();
        assert_eq!((ids, flight.unanswered()), (vec![0, 1, 17, 18], 4));
        flight.deliver(answer(MessageId(1), Status::SUCCESS, 40), 9).unwrap();
        assert_eq!((flight.balance(), flight.unanswered()), (1 + 40 - 16, 3));
    }

    #[test]
    fn an_answer_is_taken_once_and_what_nobody_asked_is_passed_over() {
        let mut flight = Flight::new();
        let id = asked(&mut flight, 1);
        assert!(taken(&mut flight, id).is_pending());
        assert!(flight.deliver(answer(id, Status::SUCCESS, 1), 9).unwrap().is_some(), "who waits is woken");
        for unasked in [id, MessageId(7)] {
            assert!(flight.deliver(answer(unasked, Status::SUCCESS, 100), 9).is_err());
        }
        assert!(matches!(taken(&mut flight, id), Poll::Ready(Ok(_))));
        assert!(matches!(taken(&mut flight, id), Poll::Ready(Err(_))));
        assert_eq!(flight.balance(), 1);
    }

    #[test]
    fn what_nobody_waits_for_brings_its_credits_and_leaves_nothing_behind() {
        let mut flight = Flight::new();
        let (early, late) = (asked(&mut flight, 1), asked(&mut flight, 1));
        flight.deliver(answer(early, Status::SUCCESS, 5), 9).unwrap();
        flight.give_up(early);
        flight.give_up(late);
        flight.deliver(answer(late, Status::SUCCESS, 5), 9).unwrap();
        assert_eq!((flight.balance(), flight.unanswered(), flight.waiting.len()), (1 + 8, 0, 0));
    }

    #[test]
    fn an_answer_that_came_before_the_end_is_still_there() {
        let mut flight = Flight::new();
        let (answered, lost) = (asked(&mut flight, 1), asked(&mut flight, 1));
        assert!(taken(&mut flight, lost).is_pending());
        flight.deliver(answer(answered, Status::SUCCESS, 1), 9).unwrap();
        assert_eq!(flight.end(Loss("cut")).len(), 1, "who waits is woken");
        assert!(matches!(taken(&mut flight, answered), Poll::Ready(Ok(_))));
        assert!(matches!(taken(&mut flight, lost), Poll::Ready(Err(Loss("cut")))));
    }

    #[test]
    fn a_pending_request_has_more_patience_and_says_nothing_of_latency() {
        let mut flight = Flight::new();
        let id = asked(&mut flight, 1);
        let (short, long) = (Duration::from_secs(60), Duration::from_secs(1000));
        assert!(flight.is_overdue(61_000_000, short, long));
        flight.deliver(answer(id, Status::PENDING, 3), 9).unwrap();
        assert!(!flight.is_overdue(61_000_000, short, long) && flight.is_overdue(1_001_000_000, short, long));
        flight.deliver(answer(id, Status::SUCCESS, 0), 500_000_000).unwrap();
        assert_eq!((flight.latency(), flight.balance()), (None, 3));
    }

    #[test]
    fn a_queue_is_noticed_at_once_and_forgotten_within_some_answers() {
        let mut flight = Flight::new();
        let mut answered_after = |took| {
            let id = asked(&mut flight, 1);
            flight.deliver(answer(id, Status::SUCCESS, 1), took).unwrap();
            flight.latency().unwrap()
        };
        assert_eq!((answered_after(100), answered_after(9000)), (100, 9000));
        let after = (0..200).map(|_| answered_after(100)).last();
        assert!(after < Some(200), "{after:?}");
    }
}
