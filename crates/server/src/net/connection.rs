//! One TCP connection: receives batches, hands frames to the pipeline, sends what was answered. Lives on one shard.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::IoSlice;
use std::ops::{Deref, Range};
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use store::Node;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::yield_now;
use tokio::time::Instant;
use wire::ids::SessionId;

use crate::command::connection::{Connection, Disconnect, Ending};
use crate::command::migrated::MigratedConnection;
use crate::net::delivery::Deliveries;
use crate::net::patience::{self, Advice, HUNG_UP, Patience};
use crate::net::transport::Transport;
use crate::request::answer;
use crate::request::finding::{Finding, Opened};
use crate::request::inbox::{Inbox, Keeping};
use crate::request::opening::Look;
use crate::request::outbox::Next;
use crate::request::pipeline;
use crate::request::responder::{Deferred, Responder, Unheld};
use crate::request::slow_path::{self, Long, Need};
use crate::request::write_batch::{Along, Writes};
use crate::resource::buffers::Buffers;
use crate::resource::contained::contained;
use crate::resource::pace::Waiting;
use crate::resource::turns::{LONG_REQUEST_COST, REQUEST_COST, Turns};
use crate::state::break_notice::BreakNotice;
use crate::state::breaks;
use crate::state::mailbox::{Messages, Notification};
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
            unopened: RefCell::default(),
            deliveries: RefCell::default(),
        })
    }

    /// True where others left something for it.
    pub(crate) fn has_messages(&self) -> bool {
        self.mailbox.is_filled() || self.has_unopened()
    }

    /// What others left for it, of the notifications a part.
    pub(crate) fn take_messages(&self) -> Messages {
        let mut unopened = self.unopened.borrow_mut();
        let mut messages = Messages::default();
        if unopened.is_empty() {
            messages = self.mailbox.take();
            std::mem::swap(&mut *unopened, &mut messages.notifications);
        }
        // What a client does not take stays a notification, and is not queued besides; but some are under way, so that it shows that it takes none.
        let is_full = self.outbox.borrow().bytes() >= FLUSH_BYTES && !self.deliveries.borrow().is_idle();
        let count = if is_full { 0 } else { unopened.len().min(NOTIFICATIONS_AT_ONCE) };
        messages.notifications = unopened.drain(..count).collect();
        messages
    }

    /// Does what others left for this connection to do, and queues what they left for it to send: notifications, which are not signed (MS-SMB2 3.3.4.6); sealed where the session seals everything.
    pub(crate) fn flush_notifications(&self) {
        if !self.has_messages() {
            return;
        }
        let messages = self.take_messages();
        for notification in messages.notifications {
            let channel = self.channel(notification.session);
            let seal = channel.as_deref().filter(|channel| channel.session.seal_required);
            answer::queue(self, notification.message.len(), seal, |messages| {
                messages.copy_from_slice(&notification.message)
            });
            self.deliver(notification);
        }
        for session in messages.leaving {
            self.leave(session);
        }
        if messages.ends && self.is_stranger() {
            tracing::info!(name: "stranger_ended", peer = %self.peer, "a connection on which nobody has signed in made room for others");
            self.end(Ending::Now);
        }
    }

    /// True where notifications are left that others wrote before.
    fn has_unopened(&self) -> bool {
        !self.unopened.borrow().is_empty()
    }

    /// Sees to it that a notification that is queued arrives, here or on another channel.
    pub(crate) fn deliver(&self, notification: Notification) {
        self.turn.spend(REQUEST_COST);
        let hurries = self.has_another_way(&notification);
        self.deliveries.borrow_mut().note(notification, hurries);
    }

    /// True where another connection leads to who is told as well.
    fn has_another_way(&self, notification: &Notification) -> bool {
        let session = self.server.sessions.find(notification.session);
        let connections =
            session.map_or(0, |session| match notification.is_of_client() && !session.keeps_to_itself() {
                true => self.server.clients.count(session.client, session.user.load().id),
                false => session.channel_count(),
            });
        connections > 1
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

    /// Tells the end of each channel here whose session has not ended before it.
    fn tell_end(&self, end: Disconnect) {
        tracing::debug!(peer = %self.peer, reason = end.0, "connection ended");
        for session in self.channels.borrow().values().map(|channel| &channel.session) {
            if !session.has_ended() {
                let channels_left = session.channel_count().saturating_sub(1);
                tracing::info!(
                    name: "channel_ended", peer = %self.peer, session = session.id.0, user = %session.user.load().name,
                    reason = end.0, channels_left, "a channel ended",
                );
            }
        }
    }

    /// Tells of a client that is likely to be gone, or its network.
    fn tell_dead(&self, end: Disconnect) {
        if end != HUNG_UP {
            tracing::warn!(name: "connection_dead", peer = %self.peer, reason = end.0, "a connection was given up");
        }
    }

    /// Tells of a client that breaks the protocol.
    fn tell_breach(&self, end: Disconnect) {
        tracing::info!(name: "protocol_broken", peer = %self.peer, reason = end.0, "a client broke the protocol; its connection ends");
    }

    /// Ends what lived on the connection.
    pub(crate) fn ended(&self) {
        for pending in self.undelivered() {
            breaks::send_again(&self.server, pending);
        }
        self.end_rest();
    }

    /// The same, a part at a time: thousands of notifications may be left for others to deliver.
    async fn ended_in_turns(&self) {
        for (number, pending) in self.undelivered().enumerate() {
            if number % NOTIFICATIONS_AT_ONCE == NOTIFICATIONS_AT_ONCE - 1 {
                yield_now().await;
            }
            breaks::send_again(&self.server, pending);
        }
        self.end_rest();
    }

    /// Takes no more notifications, and gives what others have to deliver.
    fn undelivered(&self) -> impl Iterator<Item = BreakNotice> {
        // A notification without another way goes with its session, of which no channel is left: those with one are kept here.
        let mut last: Option<((SessionId, bool), bool)> = None;
        let mut undelivered: Vec<Notification> = self.deliveries.borrow_mut().take().collect();
        undelivered.retain(|notification| {
            // Most are of one session: it is asked once.
            let whose = (notification.session, notification.is_of_client());
            let has_another_way = match last {
                Some((of, known)) if of == whose => known,
                Some(_) | None => self.has_another_way(notification),
            };
            last = Some((whose, has_another_way));
            has_another_way
        });
        self.server.clients.remove(&self.mailbox);
        undelivered.extend(self.unopened.take());
        undelivered.extend(self.mailbox.close());
        undelivered.into_iter().filter_map(|notification| notification.pending)
    }

    fn end_rest(&self) {
        self.in_flight.cancel_all();
        if self.tally.has_noted() {
            self.tally.count(Instant::now());
        }
        self.outbox.borrow_mut().clear(&self.buffers);
        self.deferred.take();
        // Nothing more than before: it fits.
        self.allowance.end();
        if !self.lose_channels() {
            self.in_flight.cancel_outliving();
        }
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

    /// Processes frames until none is whole, enough is queued, or what is asked for may not be held yet.
    fn process_batch(self: &Rc<Self>, task: &TaskContext<'_>, inbox: &mut Inbox) -> Result<Batch, Disconnect> {
        self.writes.begin(inbox.buffer());
        let batch = self.process_frames(task, inbox);
        // A frame that was deferred stays where it is.
        let along = if self.deferred.borrow().is_none() { Along::MayGo } else { Along::Stays };
        Writes::hand_over(&self.responder, inbox, along);
        batch
    }

    fn process_frames(self: &Rc<Self>, task: &TaskContext<'_>, inbox: &mut Inbox) -> Result<Batch, Disconnect> {
        if self.outbox.borrow().bytes() >= FLUSH_BYTES {
            return Ok(Batch::Full);
        }
        self.begin_batch();
        match self.deferred.take() {
            None => {}
            Some(Deferred::Unheld(mut unheld)) => {
                let long = &mut unheld.long;
                long.held_back = self.tally.turn_began().saturating_duration_since(long.received);
                if !self.process_long(task, inbox, unheld)? {
                    return Ok(Batch::Stalled);
                }
                if let Some(batch) = self.after_frame(inbox) {
                    return Ok(batch);
                }
            }
            Some(Deferred::Away) => {
                self.deferred.replace(Some(Deferred::Away));
                return Ok(Batch::Away);
            }
            Some(Deferred::Back(Opened { frame, finding, buffer, charge })) => {
                inbox.take_back(buffer, charge);
                self.writes.begin(inbox.buffer());
                if let Some(batch) = self.process_frame(task, inbox, frame, finding)? {
                    return Ok(batch);
                }
            }
        }
        while self.takes_requests() {
            if self.writes.are_many() {
                Writes::hand_over(&self.responder, inbox, Along::Stays);
                self.writes.begin(inbox.buffer());
                continue;
            }
            if self.may(task, || self.allowance.has_left().then_some(())).is_none() {
                return Ok(Batch::Stalled);
            }
            let Some(frame) = inbox.next_frame().map_err(|_| Disconnect("a frame has an impossible length"))? else {
                return Ok(Batch::Done);
            };
            self.allowance.went_on();
            self.turn.spend(REQUEST_COST);
            if let Some(look) = Look::at_long(&self.responder, inbox.frame(frame.clone())) {
                Writes::hand_over(&self.responder, inbox, Along::Stays);
                look.begin(&self.responder, inbox, frame);
                self.deferred.replace(Some(Deferred::Away));
                return Ok(Batch::Away);
            }
            if let Some(batch) = self.process_frame(task, inbox, frame, Finding::None)? {
                return Ok(batch);
            }
        }
        Ok(Batch::Done)
    }

    /// Processes one frame. Where the batch ends with it, says how.
    fn process_frame(
        self: &Rc<Self>,
        task: &TaskContext<'_>,
        inbox: &mut Inbox,
        frame: Range<usize>,
        finding: Finding,
    ) -> Result<Option<Batch>, Disconnect> {
        if let Some(long) = pipeline::process(&self.responder, inbox.frame(frame.clone()), finding)? {
            let unheld = self.unheld(inbox, frame, long);
            if !self.process_long(task, inbox, unheld)? {
                return Ok(Some(Batch::Stalled));
            }
        }
        Ok(self.after_frame(inbox))
    }

    /// Says how the batch ends where it ends with the frame that was processed.
    fn after_frame(&self, inbox: &mut Inbox) -> Option<Batch> {
        // What the request broke is told before what came after it is answered.
        self.flush_notifications();
        self.note_sign_in(inbox);
        let is_full = self.outbox.borrow().bytes() >= FLUSH_BYTES || self.turn.is_over() || self.has_unopened();
        is_full.then_some(Batch::Full)
    }

    /// A frame that goes the slow path, before anything is held for it.
    fn unheld(&self, inbox: &mut Inbox, frame: Range<usize>, long: Long) -> Unheld {
        let mut unheld = Unheld { frame, long, need: Need::default() };
        let messages = unheld.messages();
        let kept = inbox.cost_of_keeping(&messages);
        unheld.need = slow_path::need(inbox.frame(messages), kept);
        unheld
    }

    /// Has a frame go the slow path; false where it stays in the inbox until its answers may be held.
    fn process_long(
        self: &Rc<Self>,
        task: &TaskContext<'_>,
        inbox: &mut Inbox,
        mut unheld: Unheld,
    ) -> Result<bool, Disconnect> {
        let (need, messages) = (unheld.need, unheld.messages());
        let is_paid = inbox.is_paid(&messages);
        // What is there already does not wait for what a copy of it would take.
        let claim = || match pipeline::claim(&self.responder, need) {
            None if is_paid => pipeline::claim_for_paid(&self.responder, need).map(|claim| (claim, Keeping::Paid)),
            claim => claim.map(|claim| (claim, Keeping::Fitting)),
        };
        let is_too_much = self.allowance.is_too_much(need.bytes, inbox.paid_bytes());
        let claimed = match is_too_much {
            true => Some((pipeline::refuse(&self.responder, need, &mut unheld.long), Keeping::Fitting)),
            false => self.may(task, claim),
        };
        let Some((claim, keeping)) = claimed else {
            if inbox.may_set_aside(&unheld.frame) {
                // Nobody waits with a larger buffer than has to wait.
                Writes::hand_over(&self.responder, inbox, Along::Stays);
                let frame = inbox.set_aside(&self.buffers, unheld.frame);
                unheld = self.unheld(inbox, frame, unheld.long);
                self.writes.begin(inbox.buffer());
            }
            self.deferred.replace(Some(Deferred::Unheld(unheld)));
            return Ok(false);
        };
        let Unheld { long, .. } = unheld;
        self.allowance.went_on();
        self.turn.spend(LONG_REQUEST_COST);
        // It may take the buffer along in which the writes before it lie.
        Writes::hand_over(&self.responder, inbox, Along::Stays);
        if let Some(admitted) = pipeline::admit(&self.responder, inbox.frame(messages.clone()), long)? {
            pipeline::run(&self.responder, admitted, inbox.keep(&self.buffers, messages, keeping), claim);
        }
        self.writes.begin(inbox.buffer());
        Ok(true)
    }

    /// What `hold` gives where the user's budget allows it. Where not, the connection is called when something was given back.
    fn may<T>(&self, task: &TaskContext<'_>, mut hold: impl FnMut() -> Option<T>) -> Option<T> {
        hold().or_else(|| {
            self.allowance.wait(task.waker());
            hold().inspect(|_| self.allowance.went_on())
        })
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
                        tracing::error!(name: "file_not_sent", %error, file = path_of(node), offset, peer = %self.peer, "a file could not be sent as it was promised; the connection ends");
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

    fn check_ending(&self, drained: bool) -> Result<(), Disconnect> {
        match self.ending() {
            Some(Ending::Now) => Err(Disconnect("ended by the server")),
            Some(Ending::Orderly) if drained && self.tasks() == 0 => Err(Disconnect("the server stops")),
            Some(Ending::Orderly) | None => Ok(()),
        }
    }
}

/// Where a file lies, for the log.
fn path_of(node: &dyn Node) -> String {
    let link = node.descriptor().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
    let path = link.and_then(|link| std::fs::read_link(link).ok());
    path.map_or_else(|| "unknown".to_owned(), |path| path.display().to_string())
}
