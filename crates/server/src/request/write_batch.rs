//! WRITEs to a folder whose file system may wait. Those that one receive brought go to the pool as one piece of work, with the buffer in which
//! they arrived, and are answered together: one hop and no copy for all of them. They were checked on the shard ([`crate::request::fast_path`]); as with
//! all requests in flight at a time, in which order they are made is nobody's business.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use secure::sign::SigningAlgorithm;
use store::Error;
use tokio::time::Instant;
use wire::command::error::ErrorResponse;
use wire::header::{Flags, HEADER_LENGTH, Header, Route};
use wire::status::Status;

use crate::request::answer;
use crate::request::audit::{self, RefusedWrite};
use crate::request::counting;
use crate::request::fast_path::{self, Shield};
use crate::request::inbox::Inbox;
use crate::request::responder::Responder;
use crate::request::response::Response;
use crate::resource::budget::Charge;
use crate::resource::buffers::Buffer;
use crate::resource::pool::QueueKey;
use crate::resource::turns::REQUEST_COST;
use crate::state::breaks;
use crate::state::busy_files::Used;
use crate::state::channel_sequence::Step;
use crate::state::counters::{Api, Wait};
use crate::state::files::Change;
use crate::state::in_flight::INTERIM_AFTER;
use crate::state::in_flight::{InFlight, InFlightEntry};
use crate::state::open::Open;
use crate::state::refusal::Refusal;
use crate::state::session::Channel;
use crate::state::shared::Shared;
use crate::state::written;

/// Bytes of one connection that wait to be written; past it no more requests are read until some are. Four of the largest writes, or
/// thirty of a megabyte.
const HELD_BYTES_MAX: usize = 33 << 20;
/// So many go to the pool together at the most: more of them, each of a byte, would be much before any of it is counted.
const TOGETHER_MAX: usize = 64;
/// What a write takes beside its data until it is answered, with its interim answer.
const WRITE_BYTES: usize = 768;

/// The writes of one connection that are on their way to a file.
#[derive(Default)]
pub(crate) struct Writes {
    gathered: RefCell<Gathered>,
    /// Bytes that batches under way hold: their buffers, and what the writes take beside their data.
    held_bytes: Cell<usize>,
    /// The user's budget was too small for one of them.
    is_over_budget: Cell<bool>,
}

/// What the requests that are being looked at have brought so far.
#[derive(Default)]
struct Gathered {
    /// Where the buffer begins that they lie in.
    buffer_address: Option<usize>,
    queue_key: Option<QueueKey>,
    writes: Vec<Write>,
    asked: Vec<Asked>,
}

/// Whether the buffer may go with the writes that lie in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Along {
    /// It may, where that saves a copy.
    MayGo,
    /// Something else in it is still looked at.
    Stays,
}

/// A write to be made, and where its data lies in the buffer.
struct Write {
    open: Arc<Open>,
    offset: u64,
    data: Range<usize>,
    /// Who is in its way comes behind it.
    _change: Change,
}

/// A request that is to be answered.
pub(crate) struct Asked {
    pub(crate) open: Arc<Open>,
    pub(crate) channel: Rc<Channel>,
    pub(crate) header: Header,
    pub(crate) shield: Shield,
    pub(crate) offset: u64,
    pub(crate) count: usize,
    pub(crate) message_length: usize,
    /// When it was received.
    pub(crate) received: Instant,
    /// It counts in the open's channel sequence until it is answered.
    pub(crate) _counted: Option<Counted>,
}

/// A request that counts in an open's channel sequence.
pub(crate) struct Counted {
    open: Arc<Open>,
    sequence: u16,
}

impl Counted {
    /// Counts a request; a status where it is out of turn.
    pub(crate) fn enter(open: &Arc<Open>, header: &Header) -> Result<Option<Self>, Status> {
        let counted = open.channel_sequence().enter(Step::of(header))?;
        Ok(counted.map(|counted| Counted { open: Arc::clone(open), sequence: counted.keep() }))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.channel_sequence().leave(self.sequence);
    }
}

/// What holds the data of a batch.
enum Bytes {
    Lent(Buffer),
    Copied(Buffer),
}

impl Bytes {
    fn all(&self) -> &[u8] {
        match self {
            Bytes::Lent(buffer) => buffer,
            Bytes::Copied(bytes) => bytes,
        }
    }
}

impl Writes {
    /// True where more requests may be read.
    pub(crate) fn have_room(&self) -> bool {
        let held = self.held_bytes.get();
        held < HELD_BYTES_MAX && (held == 0 || !self.is_over_budget.get())
    }

    /// True where those that were gathered are to go before another is looked at.
    pub(crate) fn are_many(&self) -> bool {
        self.gathered.borrow().writes.len() >= TOGETHER_MAX
    }

    /// Requests that lie in `buffer` are looked at from now on.
    pub(crate) fn begin(&self, buffer: &[u8]) {
        self.gathered.borrow_mut().buffer_address = Some(buffer.as_ptr() as usize);
    }

    /// True where a write with this turn may be added.
    pub(crate) fn take(&self, queue_key: QueueKey) -> bool {
        let gathered = self.gathered.borrow();
        gathered.buffer_address.is_some() && gathered.queue_key.is_none_or(|first| first == queue_key)
    }

    /// Adds a write of `data`, which lies in the buffer.
    pub(crate) fn add(&self, queue_key: QueueKey, data: &[u8], asked: Asked, change: Change) {
        let mut gathered = self.gathered.borrow_mut();
        let start = (data.as_ptr() as usize).saturating_sub(gathered.buffer_address.unwrap_or_default());
        gathered.queue_key = Some(queue_key);
        let (open, offset) = (Arc::clone(&asked.open), asked.offset);
        gathered.writes.push(Write { open, offset, data: start..start + data.len(), _change: change });
        gathered.asked.push(asked);
    }

    /// What was gathered, and its turn; `None` where there is nothing.
    fn gathered(&self) -> Option<(QueueKey, Gathered)> {
        let mut gathered = self.gathered.borrow_mut();
        gathered.buffer_address = None;
        let queue_key = gathered.queue_key?;
        Some((queue_key, std::mem::take(&mut *gathered)))
    }

    /// Hands over what was gathered, with the buffer of `inbox` or what is needed of it.
    pub(crate) fn hand_over(responder: &Rc<Responder>, inbox: &mut Inbox, along: Along) {
        let Some((queue_key, Gathered { mut writes, asked, .. })) = responder.writes.gathered() else { return };
        let Some((bytes, charge)) = take_bytes(responder, inbox, &mut writes, along) else { return };
        let held_bytes = bytes.all().len() + writes.len() * WRITE_BYTES;
        let charge = charge.or_else(|| responder.allowance.charge(held_bytes));
        let this = &responder.writes;
        this.held_bytes.set(this.held_bytes.get() + held_bytes);
        this.is_over_budget.set(charge.is_none());
        let server = Arc::clone(&responder.server);
        let made = responder.server.pool.hand_over(queue_key, move || {
            let made: Vec<_> = writes.iter().map(|write| write.make(bytes.all(), &server)).collect();
            (made, bytes)
        });
        let batch = Batch { asked, held_bytes };
        let charge = charge.unwrap_or_else(|| responder.allowance.keep(held_bytes));
        responder.connection.spawn(Box::pin(batch.answer(Rc::clone(responder), made)), charge);
    }
}

/// The bytes that `writes` are to be made from.
fn take_bytes(
    responder: &Responder,
    inbox: &mut Inbox,
    writes: &mut [Write],
    along: Along,
) -> Option<(Bytes, Option<Charge>)> {
    let data_bytes: usize = writes.iter().map(|write| write.data.len()).sum();
    if along == Along::MayGo && inbox.is_filled_by(data_bytes) {
        let (buffer, charge) = inbox.take_buffer(&responder.buffers)?;
        return Some((Bytes::Lent(buffer), charge));
    }
    let buffer = inbox.buffer();
    let (mut copied, mut at) = (Buffer::of_size(data_bytes), 0);
    for write in writes {
        let data = buffer.get(write.data.clone()).unwrap_or_default();
        copied[at..][..data.len()].copy_from_slice(data);
        write.data = at..at + data.len();
        at += data.len();
    }
    Some((Bytes::Copied(copied), None))
}

impl Write {
    fn make(&self, bytes: &[u8], server: &Arc<Shared>) -> Made {
        let Ok(file) = self.open.file() else { return Made { outcome: Err(Error::Gone), cost: 0 } };
        let outcome = file.node.write_at(bytes.get(self.data.clone()).unwrap_or_default(), self.offset);
        if outcome.is_ok() {
            file.audited.wrote(self.open.tree.audit(), self.data.len() as u64);
        }
        file.restore_frozen_times();
        // What failed may have been made in part, and so may what its client waits for no longer.
        Made { outcome, cost: breaks::data_changed(server, file) }
    }
}

/// A write was made or has failed. To tell others of it was as much work as `cost` bytes.
struct Made {
    outcome: Result<(), Error>,
    cost: u64,
}

/// Writes that were handed over together.
struct Batch {
    asked: Vec<Asked>,
    held_bytes: usize,
}

impl Batch {
    /// Answers when all are made, with an interim answer where that takes long.
    async fn answer(self, responder: Rc<Responder>, mut made: tokio::sync::oneshot::Receiver<(Vec<Made>, Bytes)>) {
        let mut interim = Vec::new();
        // Many may have waited as long, and each stands in line with what it has to say.
        let in_line = async {
            tokio::time::sleep(INTERIM_AFTER).await;
            responder.turn.another().await;
        };
        let soon = tokio::select! {
            biased;
            made = &mut made => Some(made),
            () = in_line => None,
        };
        let made = match soon {
            Some(made) => made,
            None => {
                responder.turn.spend(self.asked.len() * REQUEST_COST);
                interim = self.asked.iter().map(|asked| asked.send_interim(&responder)).collect();
                responder.wake();
                made.await
            }
        };
        let now = Instant::now();
        let Batch { asked, held_bytes } = self;
        let writes = &responder.writes;
        writes.held_bytes.set(writes.held_bytes.get() - held_bytes);
        writes.is_over_budget.set(false);
        let mut interim = interim.into_iter();
        match made {
            Ok((all, bytes)) => {
                if let Bytes::Lent(buffer) = bytes {
                    responder.buffers.give_back(buffer);
                }
                for (asked, Made { outcome, cost }) in asked.into_iter().zip(all) {
                    responder.turn.spend(cost as usize);
                    let writer = asked.header.session_id;
                    responder.turn.spend_on(|| match outcome {
                        Ok(()) => written::wrote(&responder.server, &asked.open, writer),
                        Err(_) => written::data_changed(&responder.server, &asked.open, writer),
                    });
                    asked.answer(&responder, outcome.map_err(Refusal::from), now, interim.next());
                }
            }
            // It panicked, or the server has stopped.
            Err(_) => {
                for asked in asked {
                    asked.answer(&responder, Err(Status::INSUFFICIENT_RESOURCES.into()), now, interim.next());
                }
            }
        }
    }
}

impl Asked {
    fn answer(self, responder: &Responder, outcome: Result<(), Refusal>, now: Instant, interim: Option<Interim<'_>>) {
        self.count_answered(&outcome, now);
        if let Err(refusal) = &outcome {
            let time = now.saturating_duration_since(self.received);
            let (header, session, open) = (&self.header, &*self.channel.session, &*self.open);
            let write = RefusedWrite { header, session, open, offset: self.offset, count: self.count };
            audit::refused_write(responder, &write, refusal.status, time);
        }
        if outcome.is_ok()
            && let Ok(file) = self.open.file()
        {
            responder.server.busy_files.note(responder.shard, &self.open, Used::Wrote(self.count as u64));
            file.position.store(self.offset + self.count as u64, Ordering::Relaxed);
        }
        if responder.is_silent() {
            return;
        }
        match (outcome, interim) {
            (Ok(()), None) => fast_path::queue_written(responder, &self),
            (outcome, interim) => self.queue(responder, outcome, interim),
        }
    }

    /// Counts it: but for some microseconds all of its time is that of the store.
    fn count_answered(&self, outcome: &Result<(), Refusal>, now: Instant) {
        let status = outcome.as_ref().map_or_else(|refusal| refusal.status, |()| Status::SUCCESS);
        let mut answered = counting::answered(Api::Write, status, None);
        let body = if outcome.is_ok() { fast_path::BODY_BYTES } else { ErrorResponse::to_bytes().len() };
        (answered.received_bytes, answered.sent_bytes) = (self.message_length as u64, (HEADER_LENGTH + body) as u64);
        answered.written_bytes = if outcome.is_ok() { self.count as u64 } else { 0 };
        answered.time = now.saturating_duration_since(self.received);
        answered.waits.add(Wait::Store, answered.time);
        self.channel.count(Some(&self.open.tree), &answered);
    }

    /// Queues what is not the usual answer.
    fn queue(&self, responder: &Responder, outcome: Result<(), Refusal>, interim: Option<Interim<'_>>) {
        let mut header = self.response_header();
        match &interim {
            Some(interim) => header.route = interim.route,
            None => header.credits = responder.window.borrow_mut().grant(self.header.credits),
        }
        let body = match outcome {
            Ok(()) => fast_path::written_body(self.count),
            Err(refusal) => {
                header.status = refusal.status;
                ErrorResponse::to_bytes().to_vec()
            }
        };
        self.send(responder, &header, body, true);
    }

    /// Tells the client that it will be answered (3.3.4.2).
    fn send_interim<'a>(&self, responder: &'a Responder) -> Interim<'a> {
        let in_flight = InFlight::new(self.header.message_id, self.header.session_id);
        let waiting = responder.in_flight.enter(&in_flight);
        let route = Route::Async(responder.in_flight.make_async(&in_flight));
        let credits = responder.window.borrow_mut().grant(self.header.credits);
        let header = Header { status: Status::PENDING, credits, route, ..self.response_header() };
        // With GMAC the message id is the nonce, and the last response needs it.
        let signs = self.channel.facts.signing != SigningAlgorithm::AesGmac;
        self.send(responder, &header, ErrorResponse::to_bytes().to_vec(), signs);
        Interim { route, _waiting: waiting }
    }

    fn send(&self, responder: &Responder, header: &Header, body: Vec<u8>, signs: bool) {
        let (seal, sign) = match self.shield {
            Shield::Sealed => (Some(&*self.channel), None),
            Shield::Signed => (None, Some(Rc::clone(&self.channel)).filter(|_| signs)),
            Shield::None => (None, None),
        };
        let mut response = Response::default();
        response.push(header, body, sign);
        answer::queue(responder, response.length(), seal, |message| response.write(message));
    }

    fn response_header(&self) -> Header {
        Header {
            credit_charge: self.header.credit_charge,
            command: self.header.command,
            flags: Flags::SERVER_TO_REDIR | (self.header.flags & Flags::PRIORITY_MASK),
            message_id: self.header.message_id,
            route: Route::Sync { tree_id: self.header.tree_id() },
            session_id: self.header.session_id,
            ..Header::default()
        }
    }
}

/// An interim answer has gone out.
struct Interim<'a> {
    route: Route,
    _waiting: InFlightEntry<'a>,
}

#[cfg(test)]
mod tests;
