//! One TCP connection: receives batches, hands frames to the pipeline, sends what was answered. Lives on one shard.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::io::IoSlice;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context as TaskContext, Poll, Waker};
use std::time::{Duration, Instant};

use secure::sign::SigningAlgorithm;
use store::Node;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::yield_now;
use wire::header::Header;
use wire::ids::{Dialect, SessionId};
use wire::status::Status;

use crate::Shared;
use crate::address::AddressPrefix;
use crate::allowance::Allowance;
use crate::breaks::Pending;
use crate::budget::Charge;
use crate::budgets::{Held, UserBudgets};
use crate::buffers::Buffers;
use crate::by_id::ById;
use crate::chain::{self, Need};
use crate::command::negotiate::Negotiation;
use crate::command::session_setup::SetupInProgress;
use crate::contained::contained;
use crate::credits::CreditWindow;
use crate::delivery::Deliveries;
use crate::durable::Parting;
use crate::in_flight::InFlightTable;
use crate::inbox::{Inbox, Keeping};
use crate::mailbox::{Letter, Mailbox, Post};
use crate::migration::{self, Luggage};
use crate::opening::{Finding, Look, Opened};
use crate::outbox::{Next, Outbox};
use crate::pace::Waiting;
use crate::patience::{self, Advice, Patience};
use crate::pipeline::{self, Long};
use crate::session::{Activity, Channel, ChannelFacts, Session};
use crate::strangers::Stranger;
use crate::transport::Transport;
use crate::turns::{LONG_REQUEST_COST, REQUEST_COST, Turn, Turns};
use crate::unsendable;
use crate::write_batch::{Along, Writes};

/// What a task takes beside what it holds.
pub(crate) const TASK_BYTES: usize = 4 << 10;

/// Queued bytes at which a batch is sent before more requests are looked at.
const FLUSH_BYTES: usize = 112 << 10;
/// Requests of one connection that may wait for something at a time; past it no more are read until some are answered.
const WAITING_MAX: usize = 1_024;
/// Letters that are queued before it is looked whether others have their turn.
pub(crate) const LETTERS_AT_ONCE: usize = 64;
/// Buffers of the outbox that leave in one call at most.
const SLICES_MAX: usize = 16;

/// The connection must end (MS-SMB2 3.3.5.2 names the cases), with the reason for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disconnect(pub(crate) &'static str);

/// No end: it goes on on another shard.
const MOVES: Disconnect = Disconnect("it moves to another shard");

/// What a connection is to the pipeline and to commands. Single-threaded: cells, no locks.
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) address: AddressPrefix,
    pub(crate) local: String,
    pub(crate) shard: usize,
    pub(crate) accepted: Instant,
    pub(crate) server: Arc<Shared>,
    pub(crate) buffers: Rc<Buffers>,
    pub(crate) outbox: RefCell<Outbox>,
    /// What it may make the server hold.
    pub(crate) allowance: Allowance,
    deferred: RefCell<Option<Deferred>>,
    patience: RefCell<Patience>,
    received: Cell<u64>,
    pub(crate) turn: Turn,
    pub(crate) window: RefCell<CreditWindow>,
    pub(crate) negotiation: RefCell<Negotiation>,
    pub(crate) channels: RefCell<ById<SessionId, Rc<Channel>>>,
    pub(crate) setups: RefCell<HashMap<SessionId, SetupInProgress>>,
    /// Its place among strangers, until somebody has signed in.
    stranger: RefCell<Option<Stranger>>,
    /// What the user has less for it who signed in first.
    held: RefCell<Option<Held>>,
    /// What a byte that comes in or goes out counts for in a turn, as what came last was sealed.
    pub(crate) byte_cost: Cell<usize>,
    pub(crate) in_flight: InFlightTable,
    activity: Arc<Activity>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// Letters that were taken from the mailbox and have not been queued yet.
    unopened: RefCell<VecDeque<Letter>>,
    deliveries: RefCell<Deliveries>,
    /// WRITEs that are made on the pool.
    pub(crate) writes: Writes,
    silent: Cell<bool>,
    /// When it was last found to serve somebody; when it was accepted, or came to this shard, where that was never.
    served: Cell<Instant>,
    /// All its sessions had been ended elsewhere when that was looked for last.
    is_left: Cell<bool>,
    tasks: Cell<usize>,
    ending: Cell<Option<Ending>>,
    waker: Cell<Option<Waker>>,
    /// It takes no requests until it is known whether it moves to another shard.
    moving: Cell<bool>,
}

/// How a connection is about to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// What is in flight is answered first.
    Orderly,
    /// What is queued is sent as far as the client takes it at once, no more.
    Now,
}

/// A whole frame that waits in the inbox.
enum Deferred {
    /// For memory to hold what answers it.
    Unheld(Unheld),
    /// For a thread that opens or verifies it, and has the inbox's buffer.
    Away,
    /// That has done it.
    Back(Opened),
}

struct Unheld {
    frame: Range<usize>,
    long: Long,
    need: Need,
}

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

/// Where a connection comes from and where it lives.
pub(crate) struct Origin {
    pub(crate) id: u64,
    pub(crate) peer: String,
    pub(crate) local: String,
    pub(crate) shard: usize,
}

impl Unheld {
    /// Where in the inbox its messages stand.
    fn messages(&self) -> Range<usize> {
        self.frame.start + self.long.messages.start..self.frame.start + self.long.messages.end
    }
}

impl Connection {
    /// A connection that is new, or comes from another shard. What it has not read yet goes to [`Connection::serve`].
    pub(crate) fn new(luggage: Luggage, server: Arc<Shared>, buffers: Rc<Buffers>, turns: &Rc<Turns>) -> Rc<Self> {
        let origin = luggage.origin;
        let patience = if luggage.channels.is_empty() { Patience::default() } else { Patience::of_moved() };
        let channels = luggage.channels.into_iter().map(|channel| (channel.session.id, Rc::new(channel)));
        let in_flight = InFlightTable::default();
        in_flight.go_on_after(luggage.last_async_id);
        Rc::new(Connection {
            id: origin.id,
            address: AddressPrefix::of(&origin.peer),
            peer: origin.peer,
            local: origin.local,
            shard: origin.shard,
            accepted: luggage.accepted,
            allowance: Allowance::new(
                luggage.stranger.as_ref().map_or(server.budgets.strangers(), |stranger| &stranger.budget),
            ),
            server,
            buffers,
            outbox: RefCell::default(),
            deferred: RefCell::default(),
            patience: RefCell::new(patience),
            received: Cell::new(0),
            turn: Turn::new(turns),
            window: RefCell::new(luggage.window),
            negotiation: RefCell::new(luggage.negotiation),
            channels: RefCell::new(channels.collect()),
            setups: RefCell::default(),
            stranger: RefCell::new(luggage.stranger),
            held: RefCell::new(luggage.held),
            byte_cost: Cell::new(1),
            in_flight,
            activity: luggage.activity,
            mailbox: luggage.mailbox,
            unopened: RefCell::default(),
            deliveries: RefCell::default(),
            writes: Writes::default(),
            silent: Cell::new(false),
            served: Cell::new(Instant::now()),
            is_left: Cell::new(false),
            tasks: Cell::new(0),
            ending: Cell::new(None),
            waker: Cell::new(None),
            moving: Cell::new(false),
        })
    }

    /// Asks the connection to end.
    pub(crate) fn end(&self, ending: Ending) {
        if self.ending.get() != Some(Ending::Now) {
            self.ending.set(Some(ending));
        }
        match ending {
            Ending::Now => self.in_flight.cancel_outliving(),
            // What others may do for ever after keeps nobody from stopping.
            Ending::Orderly => self.in_flight.cancel_waits(),
        }
        self.wake();
    }

    /// Ends the connection at once: nothing more is queued (MS-SMB2's "MUST disconnect").
    pub(crate) fn drop_silently(&self) {
        self.silent.set(true);
        self.end(Ending::Now);
    }

    /// True where nothing more may be queued.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent.get()
    }

    /// What is known outside the shard of a channel on this connection.
    pub(crate) fn channel_facts(&self, signing: SigningAlgorithm) -> ChannelFacts {
        ChannelFacts {
            connection: self.id,
            peer: self.peer.clone(),
            local: self.local.clone(),
            shard: AtomicUsize::new(self.shard),
            signing,
            bytes_received: AtomicU64::new(0),
            bytes_sent: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            accepted: self.accepted,
            activity: Arc::clone(&self.activity),
            since: Instant::now(),
            mailbox: Arc::clone(&self.mailbox),
        }
    }

    /// Has the connection look at its outbox.
    pub(crate) fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// True where others left something for it.
    pub(crate) fn has_post(&self) -> bool {
        self.mailbox.is_filled() || self.has_unopened()
    }

    /// What others left for it, of the letters a part.
    pub(crate) fn take_post(&self) -> Post {
        let mut unopened = self.unopened.borrow_mut();
        let mut post = Post::default();
        if unopened.is_empty() {
            post = self.mailbox.take();
            std::mem::swap(&mut *unopened, &mut post.letters);
        }
        // What a client does not take stays a letter, and is not queued besides.
        let is_full = self.outbox.borrow().bytes() >= FLUSH_BYTES;
        let count = if is_full { 0 } else { unopened.len().min(LETTERS_AT_ONCE) };
        post.letters = unopened.drain(..count).collect();
        post
    }

    /// True where letters are left that others wrote before.
    fn has_unopened(&self) -> bool {
        !self.unopened.borrow().is_empty()
    }

    /// Sees to it that a letter that is queued arrives, here or on another channel.
    pub(crate) fn deliver(&self, letter: Letter) {
        self.turn.spend(REQUEST_COST);
        let hurries = self.has_another_way(&letter);
        self.deliveries.borrow_mut().note(letter, hurries);
    }

    /// True where another connection leads to who is told as well.
    fn has_another_way(&self, letter: &Letter) -> bool {
        let session = self.server.sessions.find(letter.session);
        let connections = session.map_or(0, |session| match letter.is_of_client() && !session.keeps_to_itself() {
            true => self.server.clients.count(session.client, session.user.load().id),
            false => session.channel_count(),
        });
        connections > 1
    }

    /// Is no longer a channel of a session: ends in order, unless another session has no other connection.
    pub(crate) fn leave(&self, session: SessionId) {
        let is_needed = |channel: &Rc<Channel>| channel.session.id != session && channel.session.channel_count() == 1;
        if self.channels.borrow().values().any(is_needed) {
            if let Some(channel) = self.channels.borrow_mut().remove(&session) {
                channel.session.remove_channel(self.id);
                self.server.clients.leave(session, &self.mailbox);
            }
        } else if self.channel(session).is_some() {
            self.end(Ending::Orderly);
        }
    }

    fn set_tasks(&self, tasks: usize) {
        self.tasks.set(tasks);
        self.activity.outstanding.store(tasks, Ordering::Relaxed);
    }

    /// Runs `task` on this shard, which holds what is charged besides the task itself. It queues its own reply.
    pub(crate) fn spawn(self: &Rc<Self>, task: Pin<Box<dyn Future<Output = ()>>>, charge: Charge) {
        self.set_tasks(self.tasks.get() + 1);
        let of_task = self.allowance.keep(TASK_BYTES);
        let connection = Rc::clone(self);
        tokio::task::spawn_local(async move {
            if contained(task).await.is_none() {
                connection.panicked();
            }
            drop((charge, of_task));
            connection.set_tasks(connection.tasks.get() - 1);
            connection.wake();
        });
    }

    /// A bug of ours is not to be anybody else's: this connection ends, the others go on.
    fn panicked(&self) {
        tracing::error!(peer = %self.peer, "a panic ends this connection; please report it");
        self.drop_silently();
    }

    /// The channel of a session on this connection, where the session has not ended.
    pub(crate) fn channel(&self, id: SessionId) -> Option<Rc<Channel>> {
        self.channels.borrow().get(&id).filter(|channel| !channel.session.has_ended()).cloned()
    }

    /// The same, also where the session has ended on another connection: its requests here are refused, and clients want that signed.
    pub(crate) fn channel_even_ended(&self, id: SessionId) -> Option<Rc<Channel>> {
        self.channels.borrow().get(&id).cloned()
    }

    /// What a session speaks with, in the legs of a bind, that is to be bound to this connection: Session.SigningKey.
    pub(crate) fn binding_channel(&self, session: &Arc<Session>) -> Channel {
        Channel::unlisted(session, self.channel_facts(session.signing))
    }

    /// How many message ids a request uses up; 0 counts as 1. Dialect 2.0.2 has no such field.
    pub(crate) fn charge(&self, header: &Header) -> u16 {
        let dialect = self.negotiation.borrow().dialect();
        if dialect.is_some_and(|dialect| dialect > Dialect::SMB_2_0_2) { header.credit_charge } else { 1 }
    }

    /// What is told to the client of `session` may be told here: its user has just signed in.
    pub(crate) fn introduce(&self, session: &Session) {
        let user = session.user.load();
        if !user.is_anonymous {
            self.server.clients.add(session.client, user.id, session.id, &self.mailbox);
        }
    }

    /// True until somebody has signed in.
    pub(crate) fn is_stranger(&self) -> bool {
        self.stranger.borrow().is_some()
    }

    /// A stranger has come one step further with signing in.
    pub(crate) fn note_step(&self) {
        if let Some(stranger) = &*self.stranger.borrow() {
            stranger.step();
        }
    }

    /// True once what lived on it has ended: nothing may be added any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// Charges the connection to the first user that signs in on it.
    pub(crate) fn charge_to_user(&self, budgets: &UserBudgets) -> Result<(), Status> {
        let mut held = self.held.borrow_mut();
        if held.is_none() {
            *held = Some(budgets.connection().ok_or(Status::INSUFFICIENT_RESOURCES)?);
        }
        Ok(())
    }

    /// Sessions that have a channel here and have not ended.
    pub(crate) fn session_count(&self) -> usize {
        self.channels.borrow().values().filter(|channel| !channel.session.has_ended()).count()
    }

    /// True where nobody is signed in, and nobody has been for too long: since it came, or was last found to serve somebody, for `patience`,
    /// or, where all its sessions were ended elsewhere (their user removed, its key replaced, the client signed in anew), since this was
    /// asked last.
    pub(crate) fn serves_nobody(&self, patience: Duration) -> bool {
        if self.session_count() > 0 {
            self.is_left.set(false);
            self.served.set(Instant::now());
            return false;
        }
        let have_ended = !self.channels.borrow().is_empty() && self.setups.borrow().is_empty();
        let was_left = self.is_left.replace(have_ended);
        (was_left && have_ended) || self.served.get().elapsed() > patience
    }

    /// Makes the connection a channel of a session.
    pub(crate) fn add_channel(&self, channel: Channel) {
        self.introduce(&channel.session);
        drop(self.stranger.take());
        let mut channels = self.channels.borrow_mut();
        // Sessions that ended on another connection have left theirs here.
        channels.retain(|_, channel| !channel.session.has_ended());
        self.moving.set(channel.facts.shard() != self.shard);
        channels.insert(channel.session.id, channel.into());
    }

    /// Whether it may leave its shard now. A connection that serves other sessions too stays with them, and what is in flight cannot move;
    /// then its channel stays where it is.
    fn decide_to_move(&self) -> bool {
        let channels = self.channels.borrow();
        let is_free = self.tasks.get() == 0 && self.ending.get().is_none() && self.setups.borrow().is_empty();
        let is_alone = channels.len() == 1 && channels.values().all(|channel| Rc::strong_count(channel) == 1);
        let moves = is_free && is_alone && self.deliveries.borrow().is_idle() && !self.has_unopened();
        if !moves {
            self.moving.set(false);
            channels.values().for_each(|channel| channel.facts.set_shard(self.shard));
        }
        moves
    }

    /// Everything it has, for its new shard; `None` where it stays.
    fn pack(&self, inbox: &mut Inbox) -> Option<Luggage> {
        let (id, channel) = self.channels.borrow_mut().drain().next()?;
        let channel = match migration::unshared(channel) {
            Ok(channel) => channel,
            Err(shared) => {
                self.channels.borrow_mut().insert(id, shared);
                return None;
            }
        };
        let shard = channel.facts.shard();
        Some(Luggage {
            origin: Origin { id: self.id, peer: self.peer.clone(), local: self.local.clone(), shard },
            accepted: self.accepted,
            window: self.window.replace(CreditWindow::new()),
            negotiation: self.negotiation.take(),
            channels: vec![channel],
            stranger: None,
            held: self.held.take(),
            last_async_id: self.in_flight.last_async_id(),
            activity: Arc::clone(&self.activity),
            mailbox: Arc::clone(&self.mailbox),
            unread: inbox.take_unread(&self.buffers),
        })
    }

    /// Serves the stream to its end, then ends what lived on the connection; or until it moves to another shard, and gives it with what
    /// goes there. `unread` came in before.
    pub(crate) async fn serve<S: Transport>(self: Rc<Self>, mut stream: S, unread: Vec<u8>) -> Option<(S, Luggage)> {
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
            && let Some(luggage) = self.pack(&mut inbox)
        {
            tracing::debug!(peer = %self.peer, shard = luggage.origin.shard, "connection moves");
            return Some((stream, luggage));
        }
        tracing::debug!(peer = %self.peer, reason = end.0, "connection ended");
        inbox.clear(&self.buffers);
        self.ended_in_turns().await;
        None
    }

    /// Ends what lived on the connection.
    pub(crate) fn ended(&self) {
        for pending in self.undelivered() {
            pending.send_again(&self.server);
        }
        self.end_rest();
    }

    /// The same, a part at a time: thousands of letters may be left for others to deliver.
    async fn ended_in_turns(&self) {
        for (number, pending) in self.undelivered().enumerate() {
            if number % LETTERS_AT_ONCE == LETTERS_AT_ONCE - 1 {
                yield_now().await;
            }
            pending.send_again(&self.server);
        }
        self.end_rest();
    }

    /// Takes no more letters, and gives what others have to deliver.
    fn undelivered(&self) -> impl Iterator<Item = Pending> {
        // What had no other way goes with the session, of which no channel is left.
        let mut last: Option<((SessionId, bool), bool)> = None;
        let mut undelivered: Vec<Letter> = self.deliveries.borrow_mut().take().collect();
        undelivered.retain(|letter| {
            // Most are of one session: it is asked once.
            let whose = (letter.session, letter.is_of_client());
            let has_another_way = match last {
                Some((of, known)) if of == whose => known,
                Some(_) | None => self.has_another_way(letter),
            };
            last = Some((whose, has_another_way));
            has_another_way
        });
        self.server.clients.remove(&self.mailbox);
        undelivered.extend(self.unopened.take());
        undelivered.extend(self.mailbox.close());
        undelivered.into_iter().filter_map(|letter| letter.pending)
    }

    fn end_rest(&self) {
        self.in_flight.cancel_all();
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
        if self.ending.get() != Some(Ending::Now) && !self.turn.begin(task.waker()) {
            return Poll::Pending;
        }
        match self.advance(task, stream, inbox) {
            Ok(rest) if !self.settle(inbox, rest) => Poll::Ready(Disconnect("strangers hold too much")),
            Ok(Rest::More) => {
                self.turn.stand_in_line(task.waker());
                Poll::Pending
            }
            Ok(Rest::Waits) => {
                self.turn.end();
                self.waker.set(Some(task.waker().clone()));
                // Where letters are left the client takes nothing: what comes behind them waits.
                if !self.has_unopened() && !self.mailbox.watch(task.waker()) {
                    task.waker().wake_by_ref();
                }
                Poll::Pending
            }
            Err(disconnect) => Poll::Ready(disconnect),
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
            pipeline::open_post(self);
            // What was broken before is told before more is answered.
            let batch = if self.has_unopened() { Batch::Full } else { self.process_batch(task, inbox)? };
            let drained = self.send(task, stream)?;
            let passed_on = self.outbox.borrow().passed_on();
            self.allowance.note_taken(drained);
            let has_another_way = |letter: &Letter| self.has_another_way(letter);
            self.deliveries.borrow_mut().advance(task, stream, passed_on, drained, has_another_way)?;
            self.check_ending(drained)?;
            if self.moving.get() && drained && self.deferred.borrow().is_none() && self.decide_to_move() {
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
            let advice = self.patience.borrow_mut().advance(task, stream, state)?;
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
        if let Some(stranger) = &*self.stranger.borrow() {
            stranger.make_room();
        }
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
        Writes::hand_over(self, inbox, along);
        batch
    }

    fn process_frames(self: &Rc<Self>, task: &TaskContext<'_>, inbox: &mut Inbox) -> Result<Batch, Disconnect> {
        if self.outbox.borrow().bytes() >= FLUSH_BYTES {
            return Ok(Batch::Full);
        }
        match self.deferred.take() {
            None => {}
            Some(Deferred::Unheld(unheld)) => {
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
                Writes::hand_over(self, inbox, Along::Stays);
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
            if let Some(look) = Look::at_long(self, inbox.frame(frame.clone())) {
                Writes::hand_over(self, inbox, Along::Stays);
                look.begin(self, inbox, frame);
                self.deferred.replace(Some(Deferred::Away));
                return Ok(Batch::Away);
            }
            if let Some(batch) = self.process_frame(task, inbox, frame, Finding::None)? {
                return Ok(batch);
            }
        }
        Ok(Batch::Done)
    }

    /// A frame was opened or verified.
    pub(crate) fn is_back(&self, opened: Opened) {
        if matches!(*self.deferred.borrow(), Some(Deferred::Away)) {
            self.deferred.replace(Some(Deferred::Back(opened)));
        }
    }

    /// Processes one frame. Where the batch ends with it, says how.
    fn process_frame(
        self: &Rc<Self>,
        task: &TaskContext<'_>,
        inbox: &mut Inbox,
        frame: Range<usize>,
        finding: Finding,
    ) -> Result<Option<Batch>, Disconnect> {
        if let Some(long) = pipeline::process(self, inbox.frame(frame.clone()), finding)? {
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
        pipeline::open_post(self);
        self.note_sign_in(inbox);
        let is_full = self.outbox.borrow().bytes() >= FLUSH_BYTES || self.turn.is_over() || self.has_unopened();
        is_full.then_some(Batch::Full)
    }

    /// A frame that goes the long way, before anything is held for it.
    fn unheld(&self, inbox: &mut Inbox, frame: Range<usize>, long: Long) -> Unheld {
        let mut unheld = Unheld { frame, long, need: Need::default() };
        let messages = unheld.messages();
        let kept = inbox.cost_of_keeping(&messages);
        unheld.need = chain::need(inbox.frame(messages), kept);
        unheld
    }

    /// Has a frame go the long way; false where it stays in the inbox until its answers may be held.
    fn process_long(
        self: &Rc<Self>,
        task: &TaskContext<'_>,
        inbox: &mut Inbox,
        mut unheld: Unheld,
    ) -> Result<bool, Disconnect> {
        let (need, messages) = (unheld.need, unheld.messages());
        let is_paid = inbox.is_paid(&messages);
        // What is there already does not wait for what a copy of it would take.
        let claim = || match pipeline::claim(self, need) {
            None if is_paid => pipeline::claim_for_paid(self, need).map(|claim| (claim, Keeping::Paid)),
            claim => claim.map(|claim| (claim, Keeping::Fitting)),
        };
        let is_too_much = self.allowance.is_too_much(need.bytes, inbox.paid_bytes());
        let claimed = match is_too_much {
            true => Some((pipeline::refuse(self, need, &mut unheld.long), Keeping::Fitting)),
            false => self.may(task, claim),
        };
        let Some((claim, keeping)) = claimed else {
            if inbox.may_set_aside(&unheld.frame) {
                // Nobody waits with a larger buffer than has to wait.
                Writes::hand_over(self, inbox, Along::Stays);
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
        Writes::hand_over(self, inbox, Along::Stays);
        if let Some(admitted) = pipeline::admit(self, inbox.frame(messages.clone()), long)? {
            pipeline::run(self, admitted, inbox.keep(&self.buffers, messages, keeping), claim);
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
                        tracing::error!(%error, file = path_of(node), offset, peer = %self.peer, "a file could not be sent as it was promised; the connection ends");
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
                self.allowance.went_on();
                inbox.received(bytes);
                self.turn.spend(bytes * self.byte_cost.get());
                self.activity.seconds.store(self.accepted.elapsed().as_secs(), Ordering::Relaxed);
                self.received.set(self.received.get() + bytes as u64);
                if bytes == 0 { Err(Disconnect("the client closed")) } else { Ok(Received::Some) }
            }
        }
    }

    pub(crate) fn takes_requests(&self) -> bool {
        self.ending.get().is_none() && self.tasks.get() < WAITING_MAX && !self.moving.get() && self.writes.have_room()
    }

    fn check_ending(&self, drained: bool) -> Result<(), Disconnect> {
        match self.ending.get() {
            Some(Ending::Now) => Err(Disconnect("ended by the server")),
            Some(Ending::Orderly) if drained && self.tasks.get() == 0 => Err(Disconnect("the server stops")),
            Some(Ending::Orderly) | None => Ok(()),
        }
    }

    /// Takes this connection's channels off their sessions; a session without channels ends (MS-SMB2 3.3.7.1). True where one goes on.
    pub(crate) fn lose_channels(&self) -> bool {
        self.setups.borrow_mut().clear();
        let mut goes_on = false;
        for (_, channel) in self.channels.borrow_mut().drain() {
            if channel.session.remove_channel(self.id) {
                self.server.end_session(&channel.session, Parting::Lost);
            } else {
                goes_on = true;
            }
        }
        goes_on
    }
}

/// Where a file lies, for the log.
fn path_of(node: &dyn Node) -> String {
    let link = node.descriptor().map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
    let path = link.and_then(|link| std::fs::read_link(link).ok());
    path.map_or_else(|| "unknown".to_owned(), |path| path.display().to_string())
}
