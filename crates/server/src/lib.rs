//! The SMB server: connections on shards, the pipeline, one file per command, sessions and their channels, opens and what
//! they share, counters (MS-SMB2 3.3).

mod access;
mod address;
pub mod admin;
mod allowance;
mod attributes;
mod authorization;
#[cfg(test)]
mod authorization_tests;
mod breaks;
mod budget;
mod budgets;
mod buffers;
mod by_id;
mod caching;
mod capacity;
#[cfg(test)]
mod capacity_tests;
mod chain;
#[cfg(test)]
mod chain_tests;
mod channel_sequence;
#[cfg(test)]
mod channel_tests;
mod clients;
mod closing;
#[cfg(test)]
mod coherence_tests;
mod command;
mod connection;
mod contained;
mod context;
mod credits;
mod delivery;
mod descriptors;
#[cfg(test)]
mod device_tests;
mod durable;
#[cfg(test)]
mod ended_tests;
mod enumeration;
mod extended;
#[cfg(test)]
mod failed_change_tests;
#[cfg(test)]
mod failover_tests;
#[cfg(test)]
mod file_tests;
mod files;
#[cfg(test)]
mod flight_tests;
#[cfg(test)]
mod folder_tests;
mod frozen_times;
mod gate;
#[cfg(test)]
mod holding_tests;
mod hot;
#[cfg(test)]
mod hot_tests;
mod hunger;
mod in_flight;
#[cfg(feature = "in-memory")]
pub mod in_memory;
mod inbox;
mod interfaces;
#[cfg(test)]
mod interrupted;
#[cfg(test)]
mod lease_tests;
mod line;
mod lock_sequences;
mod lock_wait;
mod locks;
mod login_throttle;
mod mailbox;
mod memory;
mod migration;
mod multichannel;
mod notify;
mod open;
mod open_path;
#[cfg(test)]
mod open_path_tests;
mod opening;
#[cfg(test)]
mod opening_tests;
mod outbox;
mod overview;
mod pace;
mod passed_on;
mod patience;
mod payer;
mod pipe;
mod pipeline;
mod placement;
mod pool;
mod proof;
#[cfg(test)]
mod proof_tests;
#[cfg(test)]
mod race_tests;
mod refusal;
mod removal;
#[cfg(test)]
mod removal_tests;
mod replayed;
mod session;
mod shard;
#[cfg(test)]
mod shard_tests;
mod slice;
mod socket_table;
mod standing;
mod steps;
mod stitch;
mod strangers;
mod system_list;
#[cfg(test)]
mod testing;
mod transport;
mod tree;
mod turns;
#[cfg(test)]
mod turns_tests;
#[cfg(test)]
mod undone_tests;
mod unsendable;
mod usage;
mod user;
#[cfg(test)]
mod virtual_time;
#[cfg(test)]
mod waiting_tests;
mod write_batch;
mod write_through;
#[cfg(test)]
mod write_through_tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use links::Pacing;
use tokio::sync::Semaphore;

use crate::admin::Estate;
use crate::budgets::Budgets;
use crate::capacity::Capacity;
use crate::clients::Clients;
use crate::descriptors::Descriptors;
use crate::durable::{Durables, Parting, restore};
use crate::files::FileTable;
use crate::interfaces::Interfaces;
use crate::login_throttle::LoginThrottle;
use crate::open::{Open, OpenId};
use crate::placement::Placement;
use crate::pool::Pool;
use crate::session::{Session, Sessions};
use crate::shard::{Listener, Shards};
use crate::strangers::Strangers;
use crate::unsendable::Unsendable;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4_096;

/// Listings that begin at a time beside other work that waits for a device. Each computes for some ms: many at once would keep the others
/// from the cores. So those beyond come behind everybody else's work.
const SHORT_LISTINGS: usize = 4;

/// How long a server that ends waits until what was open is closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(3);

/// How the server runs; what it serves is its [`Estate`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen. Port 0 takes a free one, see [`Server::addresses`].
    pub listen: Vec<SocketAddr>,
    /// Threads that serve connections; 0 is one for each core.
    pub shards: usize,
    /// The folder for records of persistent opens, made where it is missing. Without one, none are granted.
    pub opens: Option<PathBuf>,
}

/// A running server. It ends with [`Server::stop`].
pub struct Server {
    shared: Arc<Shared>,
    shards: Shards,
    addresses: Vec<SocketAddr>,
}

/// What all shards share.
pub(crate) struct Shared {
    pub(crate) estate: ArcSwap<Estate>,
    pub(crate) sessions: Sessions,
    pub(crate) clients: Clients,
    pub(crate) files: FileTable,
    pub(crate) descriptors: Arc<Descriptors>,
    pub(crate) durables: Arc<Durables>,
    pub(crate) pool: Pool,
    /// For what a request has left to do after its first piece of work.
    pub(crate) long_work: Pool,
    /// Places for listings that begin beside everybody's short work.
    pub(crate) short_listings: Semaphore,
    pub(crate) login_throttle: LoginThrottle,
    pub(crate) budgets: Budgets,
    pub(crate) unsendable: Unsendable,
    pub(crate) strangers: Arc<Strangers>,
    pub(crate) interfaces: Arc<Interfaces>,
    pub(crate) listening: Vec<SocketAddr>,
    pub(crate) placement: Placement,
    next_open: AtomicU64,
}

impl Server {
    /// Listens on every address of `config` and serves `estate`. Fails where an address cannot be had or a thread cannot be
    /// started; the error names the address.
    pub fn start(config: &Config, estate: Estate) -> io::Result<Server> {
        let mut listeners = Vec::new();
        for address in &config.listen {
            let listener = TcpListener::bind(address)
                .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))?;
            listener.set_nonblocking(true)?;
            // The standard library's backlog is filled by a moment's burst. The kernel cuts this to net.core.somaxconn.
            rustix::net::listen(&listener, BACKLOG)?;
            listeners.push(Listener { pacing: Pacing::lift(&listener), socket: listener });
        }
        let addresses =
            listeners.iter().map(|listener| listener.socket.local_addr()).collect::<io::Result<Vec<_>>>()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = if config.shards == 0 { cores } else { config.shards };
        let capacity = Capacity::of_this_process();
        store::limit_names(capacity.names);
        store::limit_ram_disks(capacity.ram_disks);
        if let Some(Listener { socket, .. }) = listeners.first() {
            capacity.prepare_descriptors(socket);
        }
        let shared = Arc::new(Shared::new(estate, addresses.clone(), count, capacity));
        shared.pool.begin()?;
        shared.long_work.begin()?;
        if let Some(folder) = &config.opens {
            shared.durables.keep_records(folder).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot keep opens in {}: {error}", folder.display()))
            })?;
            restore(&shared).map_err(|error| {
                let why =
                    "the records of persistent opens cannot be read, and without them files would be given to others";
                io::Error::new(error.kind(), format!("{why}: {}: {error}", folder.display()))
            })?;
        }
        let shards = Shards::start(count, &shared, listeners)?;
        Ok(Server { shared, shards, addresses })
    }

    /// The addresses it listens on.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The interface for operators, usable from any thread and after the server has stopped.
    pub fn admin(&self) -> Arc<dyn admin::Admin> {
        Arc::new(Arc::clone(&self.shared))
    }

    /// Takes no new connections and requests, answers what is in flight for up to `patience`, closes what was open, for some seconds at
    /// most, and ends. What a device that hangs keeps waiting is given up; no other share's folder stays locked for that.
    pub fn stop(self, patience: Duration) {
        self.shards.stop(patience);
        let mut rest = Vec::new();
        for session in self.shared.sessions.all() {
            rest.extend(self.shared.part(&session, Parting::Lost));
        }
        // What is persistent waits for the next server.
        rest.extend(self.shared.durables.take_mortal());
        self.shared.give_nothing();
        self.shared.close_within(rest, CLOSED_WITHIN);
        self.shared.pool.close();
        self.shared.long_work.close();
        drop(self.shared.durables.take_all());
    }
}

impl Shared {
    /// What serves `estate` on the addresses `listening` with this many shards.
    pub(crate) fn new(estate: Estate, listening: Vec<SocketAddr>, shards: usize, capacity: Capacity) -> Self {
        let mut chance = [0; 4];
        // Without chance the numbers are still unique while the server runs.
        let _ = secure::random(&mut chance);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (budgets, pool) = (Budgets::new(capacity), Pool::of_threads(capacity.threads as usize, cores));
        let descriptors = Arc::<Descriptors>::default();
        Shared {
            estate: ArcSwap::from_pointee(estate),
            sessions: Sessions::new(),
            clients: Clients::default(),
            files: FileTable::new(pool.clone(), Arc::clone(&descriptors)),
            descriptors,
            durables: Arc::default(),
            pool,
            long_work: Pool::for_long_work(cores),
            short_listings: Semaphore::new(SHORT_LISTINGS),
            login_throttle: LoginThrottle::new(tokio::time::Instant::now().into_std()),
            unsendable: Unsendable::default(),
            strangers: Strangers::new(capacity.connections, budgets.strangers()),
            budgets,
            interfaces: Arc::default(),
            listening,
            placement: Placement::new(shards),
            next_open: AtomicU64::new(u64::from(u32::from_le_bytes(chance)) << 24 | 1),
        }
    }

    /// Has all work done by hand.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn work_by_hand(&mut self) {
        self.pool = Pool::by_hand();
        self.long_work = self.pool.clone();
        self.files.watches.pool = self.pool.clone();
    }

    /// A number for a new open.
    pub(crate) fn new_open_id(&self) -> OpenId {
        OpenId(self.next_open.fetch_add(1, Ordering::Relaxed))
    }

    /// Forgets a session, and keeps what of it outlives it; gives the rest, for closing.
    #[must_use]
    pub(crate) fn part(&self, session: &Session, parting: Parting) -> Vec<Arc<Open>> {
        self.sessions.remove(session.id);
        let opens = session.end();
        for channel in session.channels() {
            self.clients.leave(session.id, &channel.mailbox);
        }
        match parting {
            Parting::Lost => self.durables.keep(opens),
            Parting::Expelled => opens,
        }
    }

    /// The same, and closes the rest on the pool: stores may have to be waited for.
    pub(crate) fn end_session(self: &Arc<Self>, session: &Session, parting: Parting) {
        let rest = self.part(session, parting);
        self.close_on_pool(rest);
    }
}
