//! One connection: whoever asks puts a request on its desk, one task sends what lies there, and one hands out the answers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use secure::preauth::PreauthHash;
use secure::seal::NonceRange;
use tokio::sync::{Semaphore, TryAcquireError, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use wire::ids::MessageId;

use crate::flight::Flight;
use crate::guard::Seals;
use crate::loss::Loss;
use crate::message::{Answer, Request};
use crate::network::Stream;
use crate::outbox::{Outbox, SMALL_BYTES_MAX};
use crate::send_load::SendLoad;

/// The longest answer before the server has proved who it is.
const STRANGER_BYTES_MAX: usize = 128 << 10;
/// What an answer has beside the data that it may carry.
const OVERHEAD_BYTES_MAX: usize = 64 << 10;

/// One connection. It ends when this is dropped.
pub(crate) struct Connection {
    core: Arc<Core>,
    tasks: [AbortHandle; 2],
}

/// What the tasks share with those who ask.
pub(crate) struct Core {
    pub(crate) desk: Mutex<Desk>,
    pub(crate) credits: Semaphore,
    pub(crate) seals: OnceLock<Arc<Seals>>,
    pub(crate) answer_bytes_max: AtomicUsize,
    has_ended: AtomicBool,
    started: Instant,
    /// Microseconds from `started` to when somebody last looked, which is at least whenever something arrives.
    pub(crate) clock: AtomicU64,
    /// Microseconds that answers take of late; `u64::MAX` before the first.
    pub(crate) latency: AtomicU64,
    /// The same to when the server last sent or took something.
    pub(crate) moved: AtomicU64,
    /// The same for bytes received.
    pub(crate) heard: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    /// Bytes given to the task that sends.
    queued: AtomicU64,
    pub(crate) send_load: Arc<SendLoad>,
    pub(crate) unsolicited: mpsc::UnboundedSender<Answer>,
}

/// What every request changes: one lock is taken for all of it.
pub(crate) struct Desk {
    pub(crate) flight: Flight,
    pub(crate) outbox: Outbox,
    nonces: NonceRange,
}

impl Connection {
    /// Runs the connection. What the server sends unasked goes to `unsolicited`; what sending costs is counted in `send_load`.
    pub(crate) fn start(stream: Stream, unsolicited: mpsc::UnboundedSender<Answer>, send_load: Arc<SendLoad>) -> Self {
        let desk = Desk { flight: Flight::new(), outbox: Outbox::default(), nonces: NonceRange::empty() };
        let core = Arc::new(Core {
            desk: Mutex::new(desk),
            credits: Semaphore::new(1),
            seals: OnceLock::new(),
            answer_bytes_max: AtomicUsize::new(STRANGER_BYTES_MAX),
            has_ended: AtomicBool::new(false),
            started: Instant::now(),
            clock: AtomicU64::new(0),
            latency: AtomicU64::new(u64::MAX),
            moved: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            send_load,
            unsolicited,
        });
        let receiver = Arc::clone(&core);
        let receive = tokio::spawn(async move { receiver.end(receiver.receive(stream.reader).await) });
        let sender = Arc::clone(&core);
        let send = tokio::spawn(async move { sender.end(sender.send(stream.writer).await) });
        Connection { core, tasks: [receive.abort_handle(), send.abort_handle()] }
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
        let mut answer = first.await?;
        let mut is_genuine = answer.is_genuine(request.guard);
        if let Some(related) = related {
            is_genuine &= related.await?.is_genuine(request.guard);
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
        first.await
    }

    /// Puts a request on the desk as soon as there are credits for it.
    async fn send(
        &self,
        request: &Request<'_>,
        preauth: Option<&mut PreauthHash>,
    ) -> Result<(Asked<'_>, Option<Asked<'_>>), Loss> {
        let credits = &self.core.credits;
        let charge = u32::from(request.charge.max(1)) + u32::from(request.related.is_some());
        let permit = match credits.try_acquire_many(charge) {
            Err(TryAcquireError::NoPermits) => credits.acquire_many(charge).await.ok(),
            permit => permit.ok(),
        };
        permit.ok_or_else(|| self.loss())?.forget();
        self.core.put(request, preauth).inspect_err(|loss| self.core.end(*loss))
    }

    /// Ends the connection; what is in flight fails.
    pub(crate) fn end(&self, loss: Loss) {
        self.core.end(loss);
    }

    /// True once nothing can be asked any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.core.has_ended.load(Ordering::Acquire)
    }

    /// True where a request that costs so much could be sent at once.
    pub(crate) fn affords(&self, charge: u16) -> bool {
        self.core.credits.available_permits() >= usize::from(charge)
    }

    /// How long answers take of late, what waits before them included; `None` before the first.
    pub(crate) fn latency(&self) -> Option<Duration> {
        match self.core.latency.load(Ordering::Relaxed) {
            u64::MAX => None,
            latency => Some(Duration::from_micros(latency)),
        }
    }

    /// How long nothing has moved either way; counts from the first of the requests in flight at the most.
    pub(crate) fn silence(&self) -> Duration {
        self.core.since(&self.core.moved)
    }

    /// How long what is on its way may take to arrive on a link that is as slow as this one has been.
    pub(crate) fn drain(&self) -> Duration {
        let queued = self.core.queued.load(Ordering::Relaxed);
        let unsent = queued.saturating_sub(self.core.sent.load(Ordering::Relaxed));
        self.core.desk.lock().flight.pace().drain(unsent)
    }

    /// How long nothing was received.
    pub(crate) fn unheard(&self) -> Duration {
        self.core.since(&self.core.heard)
    }

    /// Requests without an answer.
    pub(crate) fn in_flight(&self) -> usize {
        self.core.desk.lock().flight.unanswered()
    }

    /// True where a request has waited for longer than `patience`, or `patience_pending` where the server said that it will take long.
    pub(crate) fn is_overdue(&self, patience: Duration, patience_pending: Duration) -> bool {
        let now = self.core.tick();
        self.core.desk.lock().flight.is_overdue(now, patience, patience_pending)
    }

    /// Bytes received and sent.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        (self.core.received.load(Ordering::Relaxed), self.core.sent.load(Ordering::Relaxed))
    }

    /// Credits at hand and in use: what the server granted and has not taken back.
    pub(crate) fn credits(&self) -> usize {
        self.core.desk.lock().flight.balance()
    }

    fn loss(&self) -> Loss {
        self.core.desk.lock().flight.loss()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.core.end(Loss("the connection was closed"));
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Core {
    /// Numbers a request and leaves its frame to the task that sends. A small one is made where it is sent from, a large one beside the
    /// desk, where others do not wait for it.
    fn put(
        &self,
        request: &Request<'_>,
        preauth: Option<&mut PreauthHash>,
    ) -> Result<(Asked<'_>, Option<Asked<'_>>), Loss> {
        let mut desk = self.desk.lock();
        let is_small = request.room() <= SMALL_BYTES_MAX;
        let now = match desk.flight.unanswered() {
            0 => {
                let now = self.tick();
                self.moved.store(now, Ordering::Relaxed);
                now
            }
            _ if is_small => self.clock.load(Ordering::Relaxed),
            _ => self.tick(),
        };
        let Desk { flight, nonces, outbox } = &mut *desk;
        let numbers = flight.enlist(request, now)?;
        let nonce = request.guard.nonce(nonces)?;
        let add = |out: &mut Vec<u8>| {
            let frame = request.append(out, numbers, nonce)?;
            if let Some(preauth) = preauth {
                preauth.update(out.get(frame.message.clone()).unwrap_or_default());
            }
            self.queued.fetch_add(frame.length as u64, Ordering::Relaxed);
            Ok(())
        };
        let sender = if is_small {
            add(outbox.small())?;
            outbox.call()
        } else {
            let mut frame = outbox.large();
            drop(desk);
            self.send_load.spend(|| add(&mut frame))?;
            let mut desk = self.desk.lock();
            desk.outbox.add(frame, request.apart().cloned());
            desk.outbox.call()
        };
        if let Some(sender) = sender {
            sender.wake();
        }
        let asked = |id| Asked { core: self, id, is_over: false };
        Ok((asked(numbers.first), numbers.related.map(asked)))
    }

    pub(crate) fn end(&self, loss: Loss) {
        self.has_ended.store(true, Ordering::Release);
        let wakers = self.desk.lock().flight.end(loss);
        self.credits.close();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Looks at the clock.
    pub(crate) fn tick(&self) -> u64 {
        let now = self.started.elapsed().as_micros() as u64;
        self.clock.store(now, Ordering::Relaxed);
        now
    }

    fn since(&self, moment: &AtomicU64) -> Duration {
        Duration::from_micros(self.tick().saturating_sub(moment.load(Ordering::Relaxed)))
    }
}

/// The answer to a request, once it comes.
struct Asked<'a> {
    core: &'a Core,
    id: MessageId,
    is_over: bool,
}

impl Future for Asked<'_> {
    type Output = Result<Answer, Loss>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.core.desk.lock().flight.poll(self.id, task);
        self.is_over = answer.is_ready();
        answer
    }
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.core.desk.lock().flight.give_up(self.id);
        }
    }
}
