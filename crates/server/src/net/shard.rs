//! Shards: pinned threads, each with a single-threaded runtime, its own connections and its own buffers. The acceptors run on the
//! first and hand each connection to the shard that has fewest; one that becomes a
//! session's second channel there moves on.

use std::cell::RefCell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use busy_poll::BusyPoll;
use netif::Pacing;
use store::threads;
use store::waiting::{self, Forbidden};
use tokio::sync::{mpsc, watch};
use tokio::task::LocalSet;

use crate::command::connection::Connection;
use crate::command::connection::Ending;
use crate::command::migrated::MigratedConnection;
use crate::command::migrated::Origin;
use crate::net::connection::Endpoint;
use crate::net::connector::Connector;
use crate::net::line::{Detached, Line};
use crate::net::transport;
use crate::resource::address::AddressPrefix;
use crate::resource::buffers::Buffers;
use crate::resource::contained::contained;
use crate::resource::turns::Turns;
use crate::state::scavenger::scavenge;
use crate::state::shared::Shared;
use crate::state::strangers::Room;

/// How long a client may take to sign in before its connection ends.
const SIGN_IN_TIME: Duration = Duration::from_secs(45);
/// How often a shard looks for such connections, and for work that no thread could be started for.
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// After an accept failed (no descriptors left) the listener rests.
const ACCEPT_REST: Duration = Duration::from_millis(100);

/// How long connections may take to end once they were told to end now.
const ENDING_TIME: Duration = Duration::from_secs(1);
/// How often a shard looks whether they have.
const ENDING_LOOK: Duration = Duration::from_millis(1);

/// All shards.
pub(crate) struct Shards {
    stop: watch::Sender<Option<Ending>>,
    threads: Vec<JoinHandle<()>>,
    dispatcher: Dispatcher,
}

/// Where acceptors send connections, and shards those that move.
#[derive(Clone)]
pub(crate) struct Dispatcher {
    senders: Vec<mpsc::UnboundedSender<Arrival>>,
    server: Arc<Shared>,
    next_connection: Arc<AtomicU64>,
}

/// Where clients connect.
pub(crate) struct Listener {
    pub(crate) socket: TcpListener,
    /// What accepted connections are to have back that leave the machine.
    pub(crate) pacing: Pacing,
}

/// A connection that comes to a shard. It is counted there already.
struct Arrival {
    stream: Detached,
    migrated: MigratedConnection,
}

impl Shards {
    /// Starts `count` threads that serve what `listeners` accept.
    pub(crate) fn start(count: usize, server: &Arc<Shared>, listeners: Vec<Listener>) -> io::Result<Self> {
        let (stop, stopped) = watch::channel(None);
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::unbounded_channel()).unzip();
        let dispatcher =
            Dispatcher { senders, server: Arc::clone(server), next_connection: Arc::new(AtomicU64::new(1)) };
        let mut listeners = Some(listeners);
        let mut threads = Vec::new();
        for (index, receiver) in receivers.into_iter().enumerate() {
            let (server, dispatcher) = (Arc::clone(server), dispatcher.clone());
            let shard = Shard { index, server, dispatcher, stopped: stopped.clone() };
            let accepting = listeners.take();
            let thread = thread::Builder::new().name(format!("multilane-{index}"));
            threads.push(thread.spawn(move || shard.run(receiver, accepting))?);
        }
        Ok(Shards { stop, threads, dispatcher })
    }

    /// Connects from inside the process, as if to `address`.
    pub(crate) fn connector(&self, address: SocketAddr) -> Connector {
        Connector::new(self.dispatcher.clone(), self.stop.subscribe(), address)
    }

    /// Ends all connections, in order where they can within `patience`, and joins the threads.
    pub(crate) fn stop(self, patience: Duration) {
        let until = Instant::now() + patience;
        self.stop.send_replace(Some(Ending::Orderly));
        while Instant::now() < until && self.dispatcher.server.placement.connections().iter().any(|count| *count > 0) {
            thread::sleep(Duration::from_millis(5));
        }
        self.stop.send_replace(Some(Ending::Now));
        for thread in self.threads {
            if thread.join().is_err() {
                tracing::error!(name: "shard_panicked", "a shard panicked; please report it");
            }
        }
    }
}

struct Shard {
    index: usize,
    server: Arc<Shared>,
    dispatcher: Dispatcher,
    stopped: watch::Receiver<Option<Ending>>,
}

/// A shard's busy polling. It does not poll while it, or the pool, has other work.
type ShardPoll = BusyPoll<Box<dyn Fn() -> bool>>;

/// What lives on a shard's thread.
struct Own {
    buffers: Rc<Buffers>,
    turns: Rc<Turns>,
    connections: RefCell<Vec<Weak<Connection>>>,
    busy_poll: Rc<ShardPoll>,
}

impl Shard {
    fn run(self, receiver: mpsc::UnboundedReceiver<Arrival>, accepting: Option<Vec<Listener>>) {
        threads::tie_to_core(self.index);
        forbid_waiting(&self.server);
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                tracing::error!(name: "shard_not_started", %error, shard = self.index, "a shard has no runtime");
                return;
            }
        };
        let local = LocalSet::new();
        local.block_on(&runtime, async {
            if let Some(listeners) = accepting {
                tokio::task::spawn_local(scavenge(Arc::clone(&self.server)));
                for listener in listeners {
                    tokio::task::spawn_local(accept(listener, self.dispatcher.clone(), self.stopped.clone()));
                }
            }
            self.serve(receiver).await;
        });
    }

    async fn serve(self, mut receiver: mpsc::UnboundedReceiver<Arrival>) {
        let turns = Rc::<Turns>::default();
        let (server, line) = (Arc::clone(&self.server), Rc::clone(&turns));
        let polling = Arc::clone(&server.polling);
        let has_other_work =
            move || line.have_somebody_in_line() || server.pool.is_crowded() || server.long_work.is_crowded();
        let busy_poll: Rc<ShardPoll> = Rc::new(BusyPoll::following(polling).unless(Box::new(has_other_work)));
        let told = Rc::downgrade(&busy_poll);
        turns
            .clock()
            .tell_woken(move || told.upgrade().map_or_else(tokio::time::Instant::now, |poll| poll.work_began()));
        let budgets = &self.server.budgets;
        let kept = budgets.capacity().kept_small_buffers / self.dispatcher.senders.len().max(1) as u64;
        let own = Own {
            buffers: Rc::new(Buffers::keeping(kept, Arc::clone(&budgets.kept_buffers))),
            turns,
            connections: RefCell::default(),
            busy_poll: Rc::clone(&busy_poll),
        };
        tokio::task::spawn_local(async move { busy_poll.run().await });
        let mut stopped = self.stopped.clone();
        let mut calls = self.server.roll_call.listen();
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        loop {
            tokio::select! {
                biased;
                changed = stopped.changed() => {
                    let ending = *stopped.borrow_and_update();
                    for connection in own.connections.borrow().iter().filter_map(Weak::upgrade) {
                        connection.end(ending.unwrap_or(Ending::Now));
                    }
                    if changed.is_err() || ending == Some(Ending::Now) {
                        break;
                    }
                }
                Ok(()) = calls.changed() => self.server.roll_call.answer(self.index, *calls.borrow_and_update()),
                arrived = receiver.recv() => {
                    let Some(arrival) = arrived else { break };
                    let ending = *stopped.borrow();
                    self.welcome(arrival, &own, ending);
                }
                _ = sweep.tick() => {
                    end_strangers(&mut own.connections.borrow_mut());
                    own.buffers.trim();
                    // All shards have them together: one looks.
                    if self.index == 0 {
                        self.server.budgets.kept_buffers.trim();
                        self.server.tell_hanging_stores();
                    }
                    self.server.pool.start_missing();
                    self.server.long_work.start_missing();
                }
            }
        }
        // Connections that were told to end now do so as soon as they are polled, and what waits in them is cancelled. What waits
        // nevertheless, for a device that hangs, is dropped with the shard.
        let until = Instant::now() + ENDING_TIME;
        while own.connections.borrow().iter().any(|connection| connection.strong_count() > 0) && Instant::now() < until
        {
            tokio::time::sleep(ENDING_LOOK).await;
        }
    }

    fn welcome(&self, arrival: Arrival, own: &Own, ending: Option<Ending>) {
        let (dispatcher, index) = (self.dispatcher.clone(), self.index);
        let stream = match arrival.stream.attach() {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(name: "connection_lost_inside", %error, "a connection was lost on its way to its shard");
                dispatcher.lost(arrival.migrated);
                return;
            }
        };
        let mut migrated = arrival.migrated;
        let unread = std::mem::take(&mut migrated.unread);
        let connection = Endpoint::new(migrated, Arc::clone(&self.server), Rc::clone(&own.buffers), &own.turns);
        own.connections.borrow_mut().push(Rc::downgrade(&connection.connection));
        if let Some(ending) = ending {
            connection.end(ending);
        }
        let busy_poll = Rc::clone(&own.busy_poll);
        // In a place of its own: what is nested holds a future more than once.
        let serving = Box::pin(connection.serve(stream, unread));
        tokio::task::spawn_local(async move {
            let moves = contained(busy_poll.attend(serving)).await;
            if let Some((stream, migrated)) = moves.flatten() {
                dispatcher.forward(stream, migrated);
            }
            dispatcher.server.placement.leave(index);
        });
    }
}

/// Ends connections on which nobody has signed in for too long, and those of which others have ended all sessions; forgets those that are
/// gone.
fn end_strangers(connections: &mut Vec<Weak<Connection>>) {
    connections.retain(|connection| {
        let Some(connection) = connection.upgrade() else { return false };
        if connection.serves_nobody(SIGN_IN_TIME) {
            connection.end(Ending::Now);
        }
        true
    });
}

/// Takes connections of one address (MS-SMB2 3.3.5.1).
async fn accept(
    Listener { socket, pacing }: Listener,
    dispatcher: Dispatcher,
    mut stopped: watch::Receiver<Option<Ending>>,
) {
    let listener = match tokio::net::TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(name: "address_not_served", %error, "an address cannot be listened on");
            return;
        }
    };
    loop {
        tokio::select! {
            _ = stopped.changed() => return,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    pacing.restore(&stream);
                    dispatcher.server.strangers.ready().await;
                    let (peer, local) = (stream.peer_addr().ok(), stream.local_addr().ok());
                    if let Err(error) = transport::prepare(&stream) {
                        tracing::debug!(%error, "a connection's socket could not be prepared");
                    }
                    dispatcher.place(Line::Tcp(stream), peer, local);
                }
                Err(error) if is_of_connection(&error) => tracing::debug!(%error, "a connection was gone before it was accepted"),
                Err(error) => {
                    // What is kept open for files makes room for who comes.
                    store::Known::of_process().make_room();
                    tracing::warn!(name: "accept_failed", %error, "a connection could not be accepted; are there descriptors left (ulimit -n)?");
                    dispatcher.server.strangers.end_one();
                    tokio::time::sleep(ACCEPT_REST).await;
                }
            },
        }
    }
}

/// True where an accept failed for what its client did: the next one may be accepted at once.
fn is_of_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, TimedOut};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | TimedOut)
}

impl Dispatcher {
    /// The server that it is of.
    pub(crate) fn server(&self) -> &Shared {
        &self.server
    }

    /// Hands a connection to the shard that has fewest; false where there are too many, and it is dropped.
    pub(crate) fn place(&self, stream: Line, peer: Option<SocketAddr>, local: Option<SocketAddr>) -> bool {
        let placement = &self.server.placement;
        let total: usize = placement.connections().iter().sum();
        let connections = self.server.budgets.capacity().connections;
        let room = if total as u64 >= connections { Room::None } else { Room::Left };
        let id = self.next_connection.fetch_add(1, Ordering::Relaxed);
        let (peer, local) = (told(peer), told(local));
        let is_inside = matches!(stream, Line::Inside(_));
        let origin = Origin { id, peer, local, is_inside, shard: placement.least() };
        let mut migrated = MigratedConnection::of_new(origin);
        let from = AddressPrefix::of(&migrated.origin.peer);
        migrated.stranger = self.server.strangers.enter(from, &migrated.mailbox, room);
        if migrated.stranger.is_none() {
            tracing::warn!(
                name: "connection_limit_reached",
                connections = total,
                connections_max = connections,
                peer = migrated.origin.peer,
                "too many connections; a new one was refused"
            );
            return false;
        }
        self.forward(stream, migrated);
        true
    }

    /// Hands a connection to the shard that it is on its way to.
    fn forward(&self, stream: Line, migrated: MigratedConnection) {
        let shard = migrated.origin.shard;
        self.server.placement.enter(shard);
        let stream = match stream.detach() {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(name: "connection_lost_inside", %error, "a connection was lost on its way to its shard");
                return self.lost(migrated);
            }
        };
        let unsent = match self.senders.get(shard) {
            Some(sender) => sender.send(Arrival { stream, migrated }).err().map(|unsent| unsent.0.migrated),
            None => Some(migrated),
        };
        if let Some(migrated) = unsent {
            self.lost(migrated);
        }
    }

    /// Ends what lived on a connection that did not reach its shard.
    fn lost(&self, migrated: MigratedConnection) {
        self.server.placement.leave(migrated.origin.shard);
        Endpoint::new(migrated, Arc::clone(&self.server), Rc::default(), &Rc::default()).ended();
    }
}

fn told(address: Option<SocketAddr>) -> String {
    match address {
        // A dual-stack listener sees IPv4 clients behind an IPv6 prefix.
        Some(known) => SocketAddr::new(known.ip().to_canonical(), known.port()).to_string(),
        None => "unknown".to_owned(),
    }
}

/// A shard never waits for a device. What it may not even drop goes to the pool.
fn forbid_waiting(server: &Arc<Shared>) {
    waiting::forbid(Forbidden::Told);
    let pool = server.pool.clone();
    waiting::discard_to(Box::new(move |volume, discarded| pool.discard(volume, discarded)));
}
