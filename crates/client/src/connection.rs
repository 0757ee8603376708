//! One connection: message ids and credits, requests in flight by id, a task that receives and one that sends in batches.

use std::collections::HashMap;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use secure::preauth::PreauthHash;
use secure::seal::{NonceRange, TRANSFORM_HEADER_LENGTH};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use wire::frame::{PREFIX_LENGTH, frame_length};
use wire::header::{HEADER_LENGTH, Header};
use wire::ids::MessageId;
use wire::status::Status;
use wire::transform::{TRANSFORM_PROTOCOL_ID, TransformHeader};

use crate::guard::Seals;
use crate::message::{Answer, Arrival, Numbers, Request};
use crate::network::Stream;
use crate::pace::{Load, Pace};

/// Credits a connection asks for: 16 requests of 2 MiB, or a thousand small ones.
const CREDITS_WANTED: usize = 1024;
/// More credits than any window needs are left unused.
const CREDITS_MAX: usize = 8192;
/// Credits asked for with one request beyond its cost (Windows asks for up to 128).
const CREDITS_STEP: usize = 128;
/// Small answers that arrive together are received together.
const RECEIVE_BYTES: usize = 256 << 10;
/// Frames sent with one call.
const BATCH_MAX: usize = 64;
/// The longest answer before the server has proved who it is.
const STRANGER_BYTES_MAX: usize = 128 << 10;
/// What an answer has beside the data that it may carry.
const OVERHEAD_BYTES_MAX: usize = 64 << 10;

/// A send that took so long has waited for the server to take something.
const WAITED_MIN: Duration = Duration::from_millis(2);

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss(pub(crate) &'static str);

/// One connection. It ends when this is dropped.
pub(crate) struct Connection {
    core: Arc<Core>,
    outgoing: mpsc::UnboundedSender<Vec<u8>>,
    tasks: [AbortHandle; 2],
}

/// What the tasks share with those who ask.
struct Core {
    flight: Mutex<Flight>,
    credits: Semaphore,
    nonces: Mutex<NonceRange>,
    seals: OnceLock<Arc<Seals>>,
    answer_bytes_max: AtomicUsize,
    started: Instant,
    /// Milliseconds from `started` to when the server last sent or took something.
    moved: AtomicU64,
    /// The same for bytes received.
    heard: AtomicU64,
    received: AtomicU64,
    sent: AtomicU64,
    /// Bytes given to the task that sends.
    queued: AtomicU64,
    unsolicited: mpsc::UnboundedSender<Answer>,
}

#[derive(Default)]
struct Flight {
    next: u64,
    waiting: HashMap<u64, Waiting>,
    /// Credits at hand and in use.
    balance: usize,
    pace: Pace,
    ended: Option<Loss>,
}

struct Waiting {
    answer: oneshot::Sender<Answer>,
    charge: u16,
    load: Load,
    since: Instant,
    /// The server said that it will answer later.
    is_pending: bool,
}

/// Where the answers to a request and to the one related to it arrive.
type Answers = (oneshot::Receiver<Answer>, Option<oneshot::Receiver<Answer>>);

impl Flight {
    fn add(&mut self, charge: u16, bytes: usize) -> (MessageId, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let id = self.next;
        self.next += u64::from(charge);
        let load = self.pace.add(bytes);
        self.waiting.insert(id, Waiting { answer, charge, load, since: Instant::now(), is_pending: false });
        (MessageId(id), answered)
    }
}

impl Connection {
    /// Runs the connection. What the server sends unasked goes to `unsolicited`.
    pub(crate) fn start(stream: Stream, unsolicited: mpsc::UnboundedSender<Answer>) -> Self {
        let (outgoing, queue) = mpsc::unbounded_channel();
        let core = Arc::new(Core {
            flight: Mutex::new(Flight { balance: 1, ..Flight::default() }),
            credits: Semaphore::new(1),
            nonces: Mutex::new(NonceRange::empty()),
            seals: OnceLock::new(),
            answer_bytes_max: AtomicUsize::new(STRANGER_BYTES_MAX),
            started: Instant::now(),
            moved: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            unsolicited,
        });
        let receiver = Arc::clone(&core);
        let receive = tokio::spawn(async move { receiver.clone().end(receiver.receive(stream.reader).await) });
        let sender = Arc::clone(&core);
        let send = tokio::spawn(async move {
            if let Err(loss) = sender.send(stream.writer, queue).await {
                sender.end(loss);
            }
        });
        Connection { core, outgoing, tasks: [receive.abort_handle(), send.abort_handle()] }
    }

    /// The server has proved who it is: it may send as much as `data_bytes` at once, sealed where there are `seals`.
    pub(crate) fn trust(&self, data_bytes: usize, seals: Option<Arc<Seals>>) {
        self.core.answer_bytes_max.store(data_bytes + OVERHEAD_BYTES_MAX, Ordering::Relaxed);
        if let Some(seals) = seals {
            // A connection has one session, whose keys never change.
            let _ = self.core.seals.set(seals);
        }
    }

    /// Sends a request and waits for its final answer, which must be as protected as the request; so must be that of a related one.
    pub(crate) async fn ask(&self, request: &Request<'_>) -> Result<Answer, Loss> {
        let (first, related) = self.send(request, None).await?;
        let mut answer = first.await.map_err(|_| self.loss())?;
        let mut is_genuine = answer.is_genuine(request.guard);
        if let Some(related) = related {
            is_genuine &= related.await.map_err(|_| self.loss())?.is_genuine(request.guard);
        }
        if is_genuine {
            return Ok(answer);
        }
        // "If signature verification fails, the client MUST discard the received message [...]. The client MAY also choose to disconnect
        // the connection." (3.2.5.1.3) What was asked would stay unanswered forever, so we do.
        let loss = Loss("an answer's signature is wrong or missing");
        self.core.end(loss);
        Err(loss)
    }

    /// The same without looking at the answer's signature; the request counts in `preauth`.
    pub(crate) async fn ask_unverified(
        &self,
        request: &Request<'_>,
        preauth: &mut PreauthHash,
    ) -> Result<Answer, Loss> {
        let (first, _) = self.send(request, Some(preauth)).await?;
        first.await.map_err(|_| self.loss())
    }

    async fn send(&self, request: &Request<'_>, preauth: Option<&mut PreauthHash>) -> Result<Answers, Loss> {
        let charge = u32::from(request.charge.max(1)) + u32::from(request.related.is_some());
        match self.core.credits.acquire_many(charge).await {
            Ok(permit) => permit.forget(),
            Err(_) => return Err(self.loss()),
        }
        let (numbers, answers) = self.core.enlist(request)?;
        let frame = request.frame(numbers, &self.core.nonces).inspect_err(|loss| self.core.end(*loss))?;
        if let Some(preauth) = preauth {
            preauth.update(frame.message());
        }
        self.core.queued.fetch_add(frame.bytes.len() as u64, Ordering::Relaxed);
        if self.outgoing.send(frame.bytes).is_err() {
            return Err(self.loss());
        }
        Ok(answers)
    }

    /// Ends the connection; what is in flight fails.
    pub(crate) fn end(&self, loss: Loss) {
        self.core.end(loss);
    }

    /// True once nothing can be asked any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.core.flight.lock().ended.is_some()
    }

    /// True where a request that costs so much could be sent at once.
    pub(crate) fn affords(&self, charge: u16) -> bool {
        self.core.credits.available_permits() >= usize::from(charge)
    }

    /// How long nothing has moved either way; counts from the first of the requests in flight at the most.
    pub(crate) fn silence(&self) -> Duration {
        self.core.since(&self.core.moved)
    }

    /// How long what is on its way may take to arrive on a link that is as slow as this one has been.
    pub(crate) fn drain(&self) -> Duration {
        let queued = self.core.queued.load(Ordering::Relaxed);
        let unsent = queued.saturating_sub(self.core.sent.load(Ordering::Relaxed));
        self.core.flight.lock().pace.drain(unsent)
    }

    /// How long nothing was received.
    pub(crate) fn unheard(&self) -> Duration {
        self.core.since(&self.core.heard)
    }

    /// Requests without an answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.core.flight.lock().waiting.len()
    }

    /// True where a request has waited for longer than `patience`, or `patience_pending` where the server said that it will take long.
    pub(crate) fn is_overdue(&self, patience: Duration, patience_pending: Duration) -> bool {
        let flight = self.core.flight.lock();
        let is_overdue =
            |waiting: &Waiting| waiting.since.elapsed() > if waiting.is_pending { patience_pending } else { patience };
        flight.waiting.values().any(is_overdue)
    }

    /// Bytes received and sent.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.core.received.load(Ordering::Relaxed), self.core.sent.load(Ordering::Relaxed))
    }

    /// Credits at hand and in use: what the server granted and has not taken back.
    pub(crate) fn credits(&self) -> usize {
        self.core.flight.lock().balance
    }

    fn loss(&self) -> Loss {
        self.core.flight.lock().ended.unwrap_or(Loss("the connection ended"))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.core.end(Loss("the connection was closed"));
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Core {
    /// Numbers a request, and says how many credits to ask for with it (3.2.4.1.2, 3.2.4.1.3).
    fn enlist(&self, request: &Request<'_>) -> Result<(Numbers, Answers), Loss> {
        let mut flight = self.flight.lock();
        if let Some(loss) = flight.ended {
            return Err(loss);
        }
        if flight.waiting.is_empty() {
            self.moved.store(self.now(), Ordering::Relaxed);
        }
        // "the client MUST consume a number of consecutive MessageIds equal to CreditCharge" (3.2.4.1.5); 0 costs one, too.
        let charge = request.charge.max(1);
        let (first, answer) = flight.add(charge, request.room);
        let related = request.related.map(|_| flight.add(1, 0));
        let more = CREDITS_WANTED.saturating_sub(flight.balance).min(CREDITS_STEP);
        let credits = charge.saturating_add(more as u16);
        let numbers = Numbers { first, related: related.as_ref().map_or(first, |(id, _)| *id), credits };
        Ok((numbers, (answer, related.map(|(_, answer)| answer))))
    }

    fn end(&self, loss: Loss) {
        let waiting = {
            let mut flight = self.flight.lock();
            flight.ended.get_or_insert(loss);
            std::mem::take(&mut flight.waiting)
        };
        self.credits.close();
        drop(waiting);
    }

    fn now(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    fn since(&self, moment: &AtomicU64) -> Duration {
        Duration::from_millis(self.now().saturating_sub(moment.load(Ordering::Relaxed)))
    }

    /// Sends what is queued, as much at once as there is.
    async fn send(
        &self,
        mut writer: impl AsyncWrite + Unpin,
        mut queue: mpsc::UnboundedReceiver<Vec<u8>>,
    ) -> Result<(), Loss> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        while queue.recv_many(&mut batch, BATCH_MAX).await > 0 {
            let mut slices: Vec<IoSlice<'_>> = batch.iter().map(|frame| IoSlice::new(frame)).collect();
            let mut rest = &mut slices[..];
            while !rest.is_empty() {
                let began = Instant::now();
                match writer.write_vectored(rest).await {
                    Ok(0) | Err(_) => return Err(Loss("the server takes no more")),
                    Ok(count) => {
                        self.sent.fetch_add(count as u64, Ordering::Relaxed);
                        // What only fills a buffer of ours is no sign of life; that there is room again is one.
                        if began.elapsed() >= WAITED_MIN {
                            self.moved.store(self.now(), Ordering::Relaxed);
                        }
                        IoSlice::advance_slices(&mut rest, count);
                    }
                }
            }
            batch.clear();
        }
        Ok(())
    }

    /// Receives until the connection ends; gives the reason.
    async fn receive(&self, reader: impl AsyncRead + Unpin) -> Loss {
        let mut reader = BufReader::with_capacity(RECEIVE_BYTES, reader);
        loop {
            let frame = match self.frame(&mut reader).await {
                Ok(frame) => frame,
                Err(loss) => return loss,
            };
            if let Err(loss) = self.take(frame) {
                return loss;
            }
        }
    }

    async fn frame(&self, reader: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, Loss> {
        let mut prefix = [0; PREFIX_LENGTH];
        reader.read_exact(&mut prefix).await.map_err(|_| Loss("the server closed the connection"))?;
        let length = frame_length(prefix).map_err(|_| Loss("the server sent something that is no SMB"))?;
        if length > self.answer_bytes_max.load(Ordering::Relaxed) {
            return Err(Loss("the server announced a message that is too long"));
        }
        let mut frame = vec![0; length];
        let mut filled = 0;
        while let Some(room) = frame.get_mut(filled..).filter(|room| !room.is_empty()) {
            match reader.read(room).await {
                Ok(0) | Err(_) => return Err(Loss("the connection broke")),
                Ok(count) => {
                    self.received.fetch_add(count as u64, Ordering::Relaxed);
                    let now = self.now();
                    self.moved.store(now, Ordering::Relaxed);
                    self.heard.store(now, Ordering::Relaxed);
                    filled += count;
                }
            }
        }
        Ok(frame)
    }

    /// Hands the answers in a frame to those who wait for them.
    fn take(&self, mut frame: Vec<u8>) -> Result<(), Loss> {
        let arrival = self.open(&mut frame)?;
        let mut start = if arrival == Arrival::Sealed { TRANSFORM_HEADER_LENGTH } else { 0 };
        loop {
            let message = frame.get(start..).unwrap_or_default();
            let header = Header::decode(message).map_err(|_| Loss("an answer has no header"))?;
            let step = header.next_command as usize;
            if step == 0 {
                return self.deliver(Answer::new(header, arrival, frame, start));
            }
            let part = message.get(..step).filter(|_| step >= HEADER_LENGTH && step.is_multiple_of(8));
            let part = part.ok_or(Loss("NextCommand of an answer lies outside of its frame"))?;
            self.deliver(Answer::new(header, arrival, part.to_vec(), 0))?;
            start += step;
        }
    }

    /// Decrypts a frame in place where it is sealed.
    fn open(&self, frame: &mut [u8]) -> Result<Arrival, Loss> {
        if !frame.starts_with(&TRANSFORM_PROTOCOL_ID) {
            return Ok(Arrival::Plain);
        }
        let header = TransformHeader::decode(frame).map_err(|_| Loss("a sealed answer is too short"))?;
        let seals = self.seals.get().filter(|seals| seals.session_id == header.session_id);
        let seals = seals.ok_or(Loss("a sealed answer is of no session"))?;
        seals.opener.open(frame).map_err(|_| Loss("a sealed answer does not fit its key"))?;
        Ok(Arrival::Sealed)
    }

    fn deliver(&self, answer: Answer) -> Result<(), Loss> {
        let header = answer.header;
        if !header.is_response() {
            return Err(Loss("the server sent a request"));
        }
        if header.message_id == MessageId::UNSOLICITED {
            let _ = self.unsolicited.send(answer);
            return Ok(());
        }
        let mut flight = self.flight.lock();
        // "If a matching request cannot be found, the client MUST discard the response" (3.2.5.1.2).
        let Some(waiting) = flight.waiting.get_mut(&header.message_id.0) else { return Ok(()) };
        let granted = usize::from(header.credits);
        if header.status == Status::PENDING {
            waiting.is_pending = true;
            flight.balance += granted;
            drop(flight);
        } else if let Some(waiting) = flight.waiting.remove(&header.message_id.0) {
            flight.pace.remove(waiting.load, waiting.since.elapsed(), waiting.is_pending);
            flight.balance = (flight.balance + granted).saturating_sub(usize::from(waiting.charge));
            drop(flight);
            let _ = waiting.answer.send(answer);
        }
        let room = CREDITS_MAX.saturating_sub(self.credits.available_permits());
        self.credits.add_permits(granted.min(room));
        Ok(())
    }
}
