//! One TCP connection as commands see it (MS-SMB2 3.3.1.7): what was negotiated on it, its channels, its message ids.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use secure::sign::SigningAlgorithm;
use wire::header::Header;
use wire::ids::{Dialect, SessionId};
use wire::status::Status;

use crate::command::migrated::{MigratedConnection, Origin};
use crate::command::negotiation::Negotiation;
use crate::command::setup::SetupInProgress;
use crate::resource::address::{self, AddressPrefix};
use crate::resource::allowance::Allowance;
use crate::resource::budget::Charge;
use crate::resource::budgets::{Held, UserBudgets};
use crate::resource::buffers::Buffers;
use crate::resource::by_id::ById;
use crate::resource::contained::contained;
use crate::resource::turns::{Turn, Turns};
use crate::state::audit::{AuditEnd, SessionEnd};
use crate::state::configuration::{Settings, Signing};
use crate::state::counters::{ChannelCounters, Client, happened};
use crate::state::credits::CreditWindow;
use crate::state::durable::Parting;
use crate::state::in_flight::InFlightTable;
use crate::state::mailbox::Mailbox;
use crate::state::session::{Activity, Channel, ChannelFacts, Session};
use crate::state::shared::Shared;
use crate::state::strangers::Stranger;

/// What a task takes beside what it holds.
pub(crate) const TASK_BYTES: usize = 4 << 10;

/// The connection must end (MS-SMB2 3.3.5.2 names the cases), with the reason for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disconnect(pub(crate) &'static str);

/// One TCP connection as commands see it (MS-SMB2 3.3.1.7). It lives on one shard, single-threaded: cells, no locks.
pub(crate) struct Connection {
    pub(crate) id: u64,
    pub(crate) peer: String,
    /// The same, for what outlives the connection.
    pub(crate) caller: Arc<str>,
    pub(crate) address: AddressPrefix,
    /// The client's address, where it has one.
    pub(crate) host: Option<IpAddr>,
    pub(crate) local: String,
    is_inside: bool,
    pub(crate) shard: usize,
    pub(crate) accepted: Instant,
    pub(crate) server: Arc<Shared>,
    pub(crate) buffers: Rc<Buffers>,
    /// What it may make the server hold.
    pub(crate) allowance: Allowance,
    pub(crate) turn: Turn,
    pub(crate) window: RefCell<CreditWindow>,
    pub(crate) negotiation: RefCell<Negotiation>,
    pub(crate) channels: RefCell<ById<SessionId, Rc<Channel>>>,
    pub(crate) setups: RefCell<HashMap<SessionId, SetupInProgress>>,
    /// Its place among strangers, until somebody has signed in.
    stranger: RefCell<Option<Stranger>>,
    /// What the user has less for it who signed in first.
    held: RefCell<Option<Held>>,
    pub(crate) in_flight: InFlightTable,
    activity: Arc<Activity>,
    pub(crate) mailbox: Arc<Mailbox>,
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

impl Connection {
    /// A connection that is new, or comes from another shard.
    pub(crate) fn new(
        migrated: MigratedConnection,
        server: Arc<Shared>,
        buffers: Rc<Buffers>,
        turns: &Rc<Turns>,
    ) -> Rc<Self> {
        let origin = migrated.origin;
        let channels = migrated.channels.into_iter().map(|channel| (channel.session.id, Rc::new(channel)));
        let in_flight = InFlightTable::default();
        in_flight.go_on_after(migrated.last_async_id);
        Rc::new(Connection {
            id: origin.id,
            address: AddressPrefix::of(&origin.peer),
            host: address::host_of(&origin.peer),
            caller: origin.peer.as_str().into(),
            peer: origin.peer,
            local: origin.local,
            is_inside: origin.is_inside,
            shard: origin.shard,
            accepted: migrated.accepted,
            allowance: Allowance::new(
                migrated.stranger.as_ref().map_or(server.budgets.strangers(), |stranger| &stranger.budget),
            ),
            server,
            buffers,
            turn: Turn::new(turns),
            window: RefCell::new(migrated.window),
            negotiation: RefCell::new(migrated.negotiation),
            channels: RefCell::new(channels.collect()),
            setups: RefCell::default(),
            stranger: RefCell::new(migrated.stranger),
            held: RefCell::new(migrated.held),
            in_flight,
            activity: migrated.activity,
            mailbox: migrated.mailbox,
            silent: Cell::new(false),
            served: Cell::new(Instant::now()),
            is_left: Cell::new(false),
            tasks: Cell::new(0),
            ending: Cell::new(None),
            waker: Cell::new(None),
            moving: Cell::new(false),
        })
    }

    /// Whether what is sent here has to be signed. A signature is against who changes messages on their way, and inside the process there is none.
    pub(crate) fn signing(&self, settings: &Settings) -> Signing {
        if self.is_inside { Signing::Enabled } else { settings.signing }
    }

    /// True of one that never leaves this process.
    pub(crate) fn is_inside(&self) -> bool {
        self.is_inside
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
            host: self.host,
            local: self.local.clone(),
            shard: AtomicUsize::new(self.shard),
            signing,
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

    /// Has `waker` called when somebody left something to be done.
    pub(crate) fn call(&self, waker: &Waker) {
        self.waker.set(Some(waker.clone()));
    }

    /// How it was asked to end, where it was.
    pub(crate) fn ending(&self) -> Option<Ending> {
        self.ending.get()
    }

    /// Tasks of requests that wait for something.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.get()
    }

    /// True while it is not known whether it moves to another shard: it takes no requests.
    pub(crate) fn is_moving(&self) -> bool {
        self.moving.get()
    }

    /// It stays on its shard.
    pub(crate) fn stay(&self) {
        self.moving.set(false);
        self.channels.borrow().values().for_each(|channel| channel.facts.set_shard(self.shard));
    }

    /// The client has sent something, at this time (MS-SMB2 3.3.5.2.8).
    pub(crate) fn note_activity(&self, now: tokio::time::Instant) {
        let since = now.into_std().saturating_duration_since(self.accepted);
        self.activity.seconds.store(since.as_secs(), Ordering::Relaxed);
    }

    /// It had so many requests at once in the turn that is noted.
    pub(crate) fn note_together(&self, requests: u64) {
        self.activity.together.note(requests, self.activity.seconds.load(Ordering::Relaxed));
    }

    /// What a stranger holds is to be within what strangers may hold: others make room where it is not.
    pub(crate) fn make_room(&self) {
        if let Some(stranger) = &*self.stranger.borrow() {
            stranger.make_room();
        }
    }

    /// Everything it has, for its new shard, with what came in and is `unread`; `None` where its channel is in use.
    pub(crate) fn pack(&self, unread: impl FnOnce() -> Vec<u8>) -> Option<MigratedConnection> {
        let (id, channel) = self.channels.borrow_mut().drain().next()?;
        // Nobody else on its shard may hold it.
        let channel = match Rc::try_unwrap(channel) {
            Ok(channel) => channel,
            Err(shared) => {
                self.channels.borrow_mut().insert(id, shared);
                return None;
            }
        };
        let shard = channel.facts.shard();
        Some(MigratedConnection {
            origin: Origin {
                id: self.id,
                peer: self.peer.clone(),
                local: self.local.clone(),
                is_inside: self.is_inside,
                shard,
            },
            accepted: self.accepted,
            window: self.window.replace(CreditWindow::new()),
            negotiation: self.negotiation.take(),
            channels: vec![channel],
            stranger: None,
            held: self.held.take(),
            last_async_id: self.in_flight.last_async_id(),
            activity: Arc::clone(&self.activity),
            mailbox: Arc::clone(&self.mailbox),
            unread: unread(),
        })
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
    pub(crate) fn panicked(&self) {
        tracing::error!(name: "connection_panicked", peer = %self.peer, "a panic ends this connection; please report it");
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
        let (session, ends) = (&channel.session, (&*self.peer, &*self.local));
        let client = Client::of(&session.user.load(), self.id, ends);
        let whose = (session.id, channel.facts.shard());
        let counters = ChannelCounters::begin(&self.server.counters, whose, client, &session.budgets);
        let channel = channel.counted_by(counters.inside(self.is_inside));
        drop(self.stranger.take());
        let mut channels = self.channels.borrow_mut();
        // Sessions that ended on another connection have left theirs here.
        channels.retain(|_, channel| !channel.session.has_ended());
        self.moving.set(channel.facts.shard() != self.shard);
        channels.insert(channel.session.id, channel.into());
    }

    /// Takes this connection's channels off their sessions; a session without channels ends (MS-SMB2 3.3.7.1). True where one goes on.
    pub(crate) fn lose_channels(&self) -> bool {
        self.setups.borrow_mut().clear();
        let mut goes_on = false;
        for (_, channel) in self.channels.borrow_mut().drain() {
            happened(&self.server.counters.events.channels_lost);
            if channel.session.remove_channel(self.id) {
                let end = SessionEnd { by: AuditEnd::ConnectionLost, caller: Some(Arc::clone(&self.caller)) };
                self.server.end_session(&channel.session, Parting::Lost, end);
            } else {
                goes_on = true;
            }
        }
        goes_on
    }
}
