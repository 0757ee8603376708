//! The SMB server: connections on shards, the pipeline, one file per command, sessions and their channels, opens and what
//! they share, counters (MS-SMB2 3.3).
//!
//! # Example
//!
//! A server for a test: one share in memory, one user, a port that is free.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use server::admin::{
//!     Account, Advertise, Anonymous, AuditClasses, CHANNELS_DEFAULT, Configuration, Multichannel, Polling, Principal, PrincipalKind, Sealing, Settings, Share,
//!     ShareRights, Signing, Standing, nt_hash,
//! };
//! use server::{Config, Server};
//!
//! let account = "studio".to_owned();
//! let principal = Principal {
//!     name: account.clone(),
//!     account: account.clone(),
//!     kind: PrincipalKind::Account,
//!     relative_id: 1000,
//!     secrets: vec![nt_hash("a password for the test")],
//!     former: Vec::new(),
//!     groups: Vec::new(),
//!     standing: Standing::Good,
//!     unix_owner: None,
//! };
//! let share = Share {
//!     name: "files".to_owned(),
//!     account: account.clone(),
//!     comment: String::new(),
//!     store: Arc::new(store::RamStore::new(64 << 20)),
//!     read_only: false,
//!     seal_required: false,
//!     continuously_available: false,
//!     access_based: false,
//!     time_machine: false,
//!     rights: ShareRights::open(),
//!     audit: AuditClasses::NONE,
//!     limit: Arc::default(),
//!     snapshots: Arc::default(),
//! };
//! let settings = Settings {
//!     server_name: "TEST".to_owned(),
//!     machine_sid: [1, 2, 3],
//!     server_guid: [1; 16],
//!     dialect_min: 0x0311,
//!     signing: Signing::Required,
//!     sealing: Sealing::Enabled,
//!     channels_max: CHANNELS_DEFAULT,
//!     advertise: Advertise::default(),
//!     anonymous: Anonymous::Refused,
//!     busy_poll: Polling::Thrifty,
//!     lock: None,
//! };
//! let configuration = Configuration {
//!     principals: vec![principal],
//!     accounts: vec![Account { name: account, multichannel: Multichannel::On }],
//!     groups: Vec::new(),
//!     shares: vec![share],
//!     awaited: Vec::new(),
//!     settings,
//! };
//! let config = Config { listen: vec!["127.0.0.1:0".parse()?], shards: 1, opens: None, metadata_cache_bytes: None };
//!
//! let server = Server::start(&config, configuration)?;
//! println!("mount //127.0.0.1/files, port {}", server.addresses()[0].port());
//! server.stop(Duration::from_secs(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod admin;
mod command;
#[cfg(feature = "in-memory")]
pub mod in_memory;
mod net;
mod request;
mod resource;
mod state;
#[cfg(test)]
mod tests;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use netif::Pacing;

use crate::admin::{AuditSink, Configuration};
pub use crate::net::connector::Connector;
pub use crate::net::inside::{ClientEnd, FilePart, Incoming, Outgoing, Piece};
use crate::net::shard::{Listener, Shards};
use crate::resource::capacity::Capacity;
use crate::resource::memory;
use crate::state::audit::{Audit, AuditEnd};
use crate::state::durable::Parting;
use crate::state::restore::restore;
use crate::state::shared::Shared;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 4_096;

/// How long a server that ends waits until what was open is closed.
const CLOSED_WITHIN: Duration = Duration::from_secs(3);

/// How the server runs; what it serves is its [`Configuration`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen. Port 0 takes a free one, see [`Server::addresses`].
    pub listen: Vec<SocketAddr>,
    /// Threads that serve connections; 0 is one for each core.
    pub shards: usize,
    /// The folder for records of persistent opens, made where it is missing. Without one, none are granted.
    pub opens: Option<PathBuf>,
    /// The most bytes for what is known of files, at most [`metadata_cache_bytes_max`]; a part of the memory where nothing is said.
    pub metadata_cache_bytes: Option<u64>,
}

/// Half of the memory that this process may still take, which is the most for what is known of files.
pub fn metadata_cache_bytes_max() -> u64 {
    memory::left_to_this_process() / 2
}

/// What is for it where nothing is said, as the machine is now.
pub fn metadata_cache_bytes_usual() -> u64 {
    Capacity::usual_known_bytes()
}

/// A running server. It ends with [`Server::stop`].
pub struct Server {
    shared: Arc<Shared>,
    shards: Shards,
    addresses: Vec<SocketAddr>,
}

impl Server {
    /// Listens on every address of `config` and serves `configuration`. Fails where an address cannot be had or a thread cannot be
    /// started; the error names the address.
    pub fn start(config: &Config, configuration: Configuration) -> io::Result<Server> {
        Server::start_with(Vec::new(), config, configuration, Audit::default())
    }

    /// The same, also on sockets that listen already; what is audited goes to `sink`.
    pub fn start_on(
        passed: Vec<TcpListener>,
        config: &Config,
        configuration: Configuration,
        sink: Arc<dyn AuditSink>,
    ) -> io::Result<Server> {
        Server::start_with(passed, config, configuration, Audit::to(sink))
    }

    fn start_with(
        passed: Vec<TcpListener>,
        config: &Config,
        configuration: Configuration,
        audit: Audit,
    ) -> io::Result<Server> {
        let bind = |address: &SocketAddr| {
            TcpListener::bind(address)
                .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))
        };
        let mut listeners = Vec::new();
        for listener in passed.into_iter().map(Ok).chain(config.listen.iter().map(bind)) {
            let listener = listener?;
            listener.set_nonblocking(true)?;
            // The standard library's backlog is filled by a moment's burst. The kernel cuts this to net.core.somaxconn.
            rustix::net::listen(&listener, BACKLOG)?;
            listeners.push(Listener { pacing: Pacing::lift(&listener), socket: listener });
        }
        let addresses =
            listeners.iter().map(|listener| listener.socket.local_addr()).collect::<io::Result<Vec<_>>>()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = if config.shards == 0 { cores } else { config.shards };
        let usual = Capacity::of_this_process();
        let capacity = config.metadata_cache_bytes.map_or(usual, |bytes| usual.with_known_bytes(bytes));
        store::limit_names(capacity.names);
        store::Known::of_process().limit(capacity.known());
        store::limit_ram_disks(capacity.ram_disks);
        if let Some(Listener { socket, .. }) = listeners.first() {
            capacity.prepare_descriptors(socket);
        }
        let mut shared = Shared::new(configuration, addresses.clone(), count, capacity);
        shared.audit = audit;
        let shared = Arc::new(shared);
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

    /// A way for this process to connect without a socket. Its connections count as if they came from the address of `address`, to there.
    pub fn connector(&self, address: SocketAddr) -> Connector {
        self.shards.connector(address)
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
            rest.extend(self.shared.part(&session, Parting::Lost, AuditEnd::ServerStop));
        }
        // What is persistent waits for the next server.
        rest.extend(self.shared.durables.take_mortal());
        rest.iter().for_each(|open| open.end.say(AuditEnd::ServerStop));
        self.shared.give_nothing();
        self.shared.close_within(rest, CLOSED_WITHIN);
        self.shared.pool.close();
        self.shared.long_work.close();
        drop(self.shared.durables.take_all());
    }
}
