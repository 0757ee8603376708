//! One TCP connection: receives batches, hands frames to the pipeline, sends what was answered. Lives on one shard.

mod ending;
mod frames;
mod messages;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::ops::Deref;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use store::Node;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::Instant;

use crate::command::connection::{Connection, Disconnect, Ending};
use crate::command::migrated::MigratedConnection;
use crate::net::delivery::Deliveries;
use crate::net::patience::{self, Advice, Patience};
use crate::net::transport::Transport;
use crate::request::inbox::Inbox;
use crate::request::outbox::Next;
use crate::request::responder::Responder;
use crate::resource::buffers::Buffers;
use crate::resource::contained::contained;
use crate::resource::pace::Waiting;
use crate::resource::turns::Turns;
use crate::state::mailbox::Notification;
use crate::state::shared::Shared;
use crate::state::unsendable;

/// Queued bytes at which a batch is sent before more requests are looked at.
const FLUSH_BYTES: usize = 112 << 10;
/// Notifications that are queued before it is looked whether others have their turn.
pub(crate) const NOTIFICATIONS_AT_ONCE: usize = 64;
/// Buffers of the outbox that leave in one call at most.
const SLICES_MAX: usize = 16;

/// No end: it goes on on another shard.
const MOVES: Disconnect = Disconnect("it moves to another shard");

/// How far a batch came.
enum Batch {
    /// No whole frame is left, or no more are taken.
    Done,
    /// Enough is queued.
    Full,
    /// The next frame waits for memory.
    Stalled,
    /// It waits for a thread that opens or verifies it.
    Away,
}

/// What a turn of a connection ended with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// The socket, the client or something else has to be waited for.
    Waits,
    /// There is more to do, and others have their turn first.
    More,
}

/// What a receive brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Received {
    Some,
    NothingYet,
    NotAsked,
    /// There is no memory to receive into.
    Stalled,
}

/// One TCP connection: its stream, and what it takes to serve it. The rest of what there is of it is its [`Responder`]'s.
pub(crate) struct Endpoint {
    pub(crate) responder: Rc<Responder>,
    patience: RefCell<Patience>,
    received: Cell<u64>,
    /// Something was received in its turn.
    has_received: Cell<bool>,
    /// Requests since it received something, and the most that there were at once in its turn.
    arrived: Cell<u64>,
    together: Cell<u64>,
    /// Notifications that were taken from the mailbox and have not been queued yet.
    unopened: RefCell<VecDeque<Notification>>,
    deliveries: RefCell<Deliveries>,
}

impl Deref for Endpoint {
    type Target = Responder;

    fn deref(&self) -> &Responder {
        &self.responder
    }
}

impl Endpoint {
    /// That of a connection that is new, or comes from another shard. What it has not read yet goes to [`Endpoint::serve`].
    pub(crate) fn new(
        migrated: MigratedConnection,
        server: Arc<Shared>,
        buffers: Rc<Buffers>,
        turns: &Rc<Turns>,
    ) -> Rc<Self> {
        let patience = if migrated.channels.is_empty() { Patience::default() } else { Patience::of_moved() };
        Rc::new(Endpoint {
            responder: Responder::of(Connection::new(migrated, server, buffers, turns)),
            patience: RefCell::new(patience),
            received: Cell::new(0),
            has_received: Cell::new(false),
            arrived: Cell::new(0),
            together: Cell::new(0),
            unopened: RefCell::default(),
            deliveries: RefCell::default(),
        })
    }

    /// Whether it may leave its shard now. A connection that serves other sessions too stays with them, and what is in flight cannot move;
    /// then its channel stays where it is.
    fn decide_to_move(&self) -> bool {
        let is_free = self.tasks() == 0 && self.ending().is_none() && self.setups.borrow().is_empty();
        let channels = self.channels.borrow();
        let is_alone = channels.len() == 1 && channels.values().all(|channel| Rc::strong_count(channel) == 1);
        drop(channels);
        let moves = is_free && is_alone && self.deliveries.borrow().is_idle() && !self.has_unopened();
        if !moves {
            self.stay();
        }
        moves
    }

    /// Serves the stream to its end, then ends what lived on the connection; or until it moves to another shard, and gives it with what
    /// goes there. `unread` came in before.
    pub(crate) async fn serve<S: Transport>(
        self: Rc<Self>,
        mut stream: S,
        unread: Vec<u8>,
    ) -> Option<(S, MigratedConnection)> {
        let mut inbox = Inbox::default();
        self.note_sign_in(&mut inbox);
        inbox.put(&self.buffers, &self.allowance, &unread);
        drop(unread);
        let end = match contained(poll_fn(|task| self.poll(task, &mut stream, &mut inbox))).await {
            Some(end) => end,
            None => {
                self.panicked();
                Disconnect("something in it panicked")
            }
        };
        if end == MOVES
            && let Some(migrated) = self.pack(|| inbox.take_unread(&self.buffers))
        {
            tracing::debug!(peer = %self.peer, shard = migrated.origin.shard, "connection moves");
            return Some((stream, migrated));
        }
        self.tell_end(end);
        inbox.clear(&self.buffers);
        self.ended_in_turns().await;
        None
    }

    fn poll(
        self: &Rc<Self>,
        task: &mut TaskContext<'_>,
        stream: &mut impl Transport,
        inbox: &mut Inbox,
    ) -> Poll<Disconnect> {
        if self.ending() != Some(Ending::Now) && !self.turn.begin(task.waker()) {
            return Poll::Pending;
        }
        let began = self.turn.clock().last();
        self.tally.begin_turn(began);
        let advanced = self.advance(task, stream, inbox);
        self.count_turn(began);
        match advanced {
            Ok(rest) if !self.settle(inbox, rest) => Poll::Ready(Disconnect("strangers hold too much")),
            Ok(Rest::More) => {
                self.turn.stand_in_line(task.waker());
                Poll::Pending
            }
            Ok(Rest::Waits) => {
                self.turn.end();
                self.call(task.waker());
                // Where notifications are left the client takes nothing: what comes behind them waits.
                if !self.has_unopened() && !self.mailbox.watch(task.waker()) {
                    task.waker().wake_by_ref();
                }
                Poll::Pending
            }
            Err(disconnect) => Poll::Ready(disconnect),
        }
    }

    /// Counts what its turn, which began then, has answered on the fast path. The clock is read where something was received in it.
    fn count_turn(&self, began: Instant) {
        if self.has_received.take() || self.tally.has_noted() {
            let now = self.turn.clock().look();
            self.tally.count(now);
            self.note_activity(now.max(began));
            self.note_together(self.together.take());
        }
    }

    /// Goes on until the socket, or the client, has to be waited for, or its turn is over.
    fn advance(
        self: &Rc<Self>,
        task: &mut TaskContext<'_>,
        stream: &mut impl Transport,
        inbox: &mut Inbox,
    ) -> Result<Rest, Disconnect> {
        loop {
            self.flush_notifications();
            // What was broken before is told before more is answered.
            let batch = if self.has_unopened() {
                Batch::Full
            } else {
                self.process_batch(task, inbox).inspect_err(|end| self.tell_breach(*end))?
            };
            let drained = self.send(task, stream)?;
            let passed_on = self.outbox.borrow().passed_on();
            self.allowance.note_taken(drained);
            let has_another_way = |notification: &Notification| self.has_another_way(notification);
            self.deliveries
                .borrow_mut()
                .advance(task, stream, passed_on, drained, has_another_way)
                .inspect_err(|end| self.tell_dead(*end))?;
            self.check_ending(drained)?;
            if self.is_moving() && self.tally.has_noted() {
                self.tally.count(self.turn.clock().look());
            }
            if self.is_moving() && drained && self.deferred.borrow().is_none() && self.decide_to_move() {
                return Err(MOVES);
            }
            // A stranger gets no more before it has taken what it asked for.
            let is_full = !drained && (self.is_stranger() || self.outbox.borrow().bytes() >= FLUSH_BYTES);
            let goes_on = match batch {
                Batch::Full => drained,
                Batch::Done => !is_full && self.takes_requests(),
                Batch::Stalled | Batch::Away => false,
            };
            let turn_ends = goes_on && self.turn.is_over();
            let received = match batch {
                Batch::Stalled => Received::Stalled,
                Batch::Away => Received::NotAsked,
                _ if turn_ends || !goes_on => Received::NotAsked,
                Batch::Full => continue,
                Batch::Done => self.receive(task, stream, inbox)?,
            };
            if received == Received::Some {
                self.arrived.set(0);
                let has_worked = self.has_received.replace(true) || self.tally.has_noted();
                let now = if has_worked { self.turn.clock().look() } else { self.tally.turn_began() };
                self.tally.count(now);
                self.tally.begin(now);
                continue;
            }
            if self.deferred.borrow().is_none() {
                inbox.release(&self.buffers);
            }
            if turn_ends {
                return Ok(Rest::More);
            }
            let state = patience::State {
                sends: !drained,
                receives: received == Received::NothingYet && inbox.has_begun(),
                is_stalled: received != Received::NothingYet,
                lacks_memory: received == Received::Stalled,
                is_parked: self.in_flight.held_by_waits() > 0,
                sent: self.outbox.borrow().passed_on(),
                received: self.received.get(),
            };
            if self.keeps_from_others(&state, inbox) {
                stream.give_up();
                return Err(Disconnect(
                    "others wait for memory that is held for its client, who moves too little of it",
                ));
            }
            if self.allowance.is_to_give_up_waits(self.in_flight.held_by_waits()) {
                self.in_flight.cancel_waits_that_hold();
            }
            let advice =
                self.patience.borrow_mut().advance(task, stream, state).inspect_err(|end| self.tell_dead(*end))?;
            if advice == Advice::CancelWaits {
                self.in_flight.cancel_waits();
            }
            return Ok(Rest::Waits);
        }
    }

    /// Measures how fast the client moves what is held for it. True where it keeps that from others.
    fn keeps_from_others(&self, state: &patience::State, inbox: &Inbox) -> bool {
        let sends = if state.sends { self.outbox.borrow().held_bytes() } else { 0 };
        let receives = if state.receives { inbox.buffer().len() } else { 0 };
        let waiting = match (state.sends || state.receives, state.is_stalled) {
            (true, _) => Waiting::ForClient { held: (sends + receives) as u64 },
            (false, true) => Waiting::ForServer,
            (false, false) => Waiting::Idle,
        };
        self.allowance.rest(waiting, state.sent + state.received);
        self.allowance.is_to_yield(waiting)
    }

    /// Counts what stays when the connection has to wait. False where it may not stay.
    fn settle(&self, inbox: &mut Inbox, rest: Rest) -> bool {
        // What goes on soon would only have to grow again.
        let stays = rest == Rest::Waits || self.is_stranger();
        if stays && self.deferred.borrow().is_none() {
            inbox.shrink(&self.buffers);
        }
        let mut outbox = self.outbox.borrow_mut();
        outbox.release(&self.buffers);
        let fits = self.allowance.settle(inbox.uncharged_bytes() + outbox.uncharged_bytes());
        self.make_room();
        fits
    }

    /// Somebody has signed in: the connection may send large frames, and is paid for by its user.
    fn note_sign_in(&self, inbox: &mut Inbox) {
        if let Some(channel) = self.channels.borrow().values().next() {
            inbox.trust();
            self.allowance.sign_in(&channel.session.budgets, self.address);
            self.turn.sign_in(|| *channel.session.user.load().sid());
        }
    }

    /// Sends what is queued; true where nothing is left.
    fn send(&self, task: &mut TaskContext<'_>, stream: &mut impl Transport) -> Result<bool, Disconnect> {
        let mut outbox = self.outbox.borrow_mut();
        loop {
            let mut slices = [IoSlice::new(&[]); SLICES_MAX];
            let (sent, of_file) = match outbox.next() {
                Next::Nothing => return Ok(true),
                Next::Bytes { bytes, more } => {
                    let count = outbox.slices(&mut slices);
                    slices[0] = IoSlice::new(bytes);
                    (stream.poll_send(task, &slices[..count.max(1)], more), false)
                }
                Next::File { node, offset, length } => (stream.poll_send_file(task, node, offset, length), true),
            };
            match sent {
                Poll::Pending => return Ok(false),
                Poll::Ready(Ok(0)) if of_file => outbox.file_ended(),
                Poll::Ready(Err(error)) if of_file && unsendable::is_of_file(&error) => {
                    if let Next::File { node, offset, .. } = outbox.next() {
                        self.server.unsendable.add(node.identity());
                        tracing::error!(name: "file_not_sent", %error, file = path_of(&**node), offset, peer = %self.peer, "a file could not be sent as it was promised; the connection ends");
                    }
                    return Err(Disconnect("a file could not be sent"));
                }
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Err(Disconnect("the client takes no more")),
                Poll::Ready(Ok(bytes)) => {
                    self.turn.spend(bytes * self.byte_cost.get());
                    outbox.sent(&self.buffers, bytes);
                }
            }
        }
    }

    /// Receives once.
    fn receive<S>(&self, task: &mut TaskContext<'_>, stream: &mut S, inbox: &mut Inbox) -> Result<Received, Disconnect>
    where
        S: AsyncRead + Unpin,
    {
        let bad_frame = |_| Disconnect("a frame has an impossible length");
        if inbox.room(&self.buffers, &self.allowance).map_err(bad_frame)?.is_none() {
            self.allowance.wait(task.waker());
        }
        let Some(room) = inbox.room(&self.buffers, &self.allowance).map_err(bad_frame)? else {
            return Ok(Received::Stalled);
        };
        let mut room = ReadBuf::new(room);
        match Pin::new(stream).poll_read(task, &mut room) {
            Poll::Pending => Ok(Received::NothingYet),
            Poll::Ready(Err(_)) => Err(Disconnect("the connection broke")),
            Poll::Ready(Ok(())) => {
                let bytes = room.filled().len();
                store::arrived();
                self.allowance.went_on();
                inbox.received(bytes);
                self.turn.spend(bytes * self.byte_cost.get());
                self.received.set(self.received.get() + bytes as u64);
                if bytes == 0 { Err(Disconnect("the client closed")) } else { Ok(Received::Some) }
            }
        }
    }
}

/// Where a file lies, for the log.
fn path_of(node: &dyn Node) -> String {
    let link = node.descriptor().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
    let path = link.and_then(|link| std::fs::read_link(link).ok());
    path.map_or_else(|| "unknown".to_owned(), |path| path.display().to_string())
}
