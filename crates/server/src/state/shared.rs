//! What all shards share: the state of the whole server (MS-SMB2 3.3.1.5).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use busy_poll::Policy;
use tokio::sync::Semaphore;

use crate::resource::budgets::Budgets;
use crate::resource::capacity::Capacity;
use crate::resource::pool::Pool;
use crate::state::audit::{Audit, AuditOrigins};
use crate::state::busy_files::BusyFiles;
use crate::state::clients::Clients;
use crate::state::configuration::Configuration;
use crate::state::counters::Counters;
use crate::state::descriptors::Descriptors;
use crate::state::durable::Durables;
use crate::state::files::FileTable;
use crate::state::interfaces::Interfaces;
use crate::state::lockout::Lockout;
use crate::state::login_throttle::LoginThrottle;
use crate::state::notify::Watches;
use crate::state::open::Open;
use crate::state::open_id::OpenId;
use crate::state::placement::Placement;
use crate::state::principals::Principals;
use crate::state::roll_call::RollCall;
use crate::state::session_link::SessionLink;
use crate::state::sessions::Sessions;
use crate::state::store_waits::HangingStores;
use crate::state::strangers::Strangers;
use crate::state::unsendable::Unsendable;

/// Listings that begin at a time beside other work that waits for a device. Each computes for some ms: many at once would keep the others
/// from the cores. So those beyond come behind everybody else's work.
pub(crate) const SHORT_LISTINGS: usize = 4;

/// What all shards share.
pub(crate) struct Shared {
    pub(crate) configuration: ArcSwap<Configuration>,
    /// Those of the configuration, for who asks for names.
    pub(crate) principals: ArcSwap<Principals>,
    pub(crate) sessions: Sessions,
    pub(crate) clients: Clients,
    pub(crate) files: Arc<FileTable>,
    /// Who waits to hear of changes.
    pub(crate) watches: Watches,
    pub(crate) descriptors: Arc<Descriptors>,
    pub(crate) durables: Arc<Durables>,
    pub(crate) pool: Pool,
    /// For what a request has left to do after its first piece of work.
    pub(crate) long_work: Pool,
    /// Places for listings that begin beside everybody's short work.
    pub(crate) short_listings: Semaphore,
    pub(crate) login_throttle: LoginThrottle,
    /// Who has been given too many wrong passwords.
    pub(crate) lockout: Lockout,
    pub(crate) budgets: Budgets,
    pub(crate) unsendable: Unsendable,
    pub(crate) strangers: Arc<Strangers>,
    pub(crate) interfaces: Arc<Interfaces>,
    pub(crate) listening: Vec<SocketAddr>,
    pub(crate) placement: Placement,
    pub(crate) roll_call: RollCall,
    /// What it has done.
    pub(crate) counters: Arc<Counters>,
    /// With which files.
    pub(crate) busy_files: BusyFiles,
    /// Who is told what of that.
    pub(crate) audit: Audit,
    /// On whose behalf another interface of the server opens files.
    pub(crate) origins: Arc<AuditOrigins>,
    pub(crate) hanging_stores: HangingStores,
    /// How shards poll, as the settings say.
    pub(crate) polling: Arc<Policy>,
    next_open: AtomicU64,
}

impl Shared {
    /// What serves `configuration` on the addresses `listening` with this many shards.
    pub(crate) fn new(
        configuration: Configuration,
        listening: Vec<SocketAddr>,
        shards: usize,
        capacity: Capacity,
    ) -> Self {
        let mut chance = [0; 4];
        // Without chance the numbers are still unique while the server runs.
        let _ = secure::random(&mut chance);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let polling = configuration.settings.busy_poll;
        let (budgets, pool) = (Budgets::new(capacity), Pool::of_threads(capacity.threads as usize, cores));
        let descriptors = Arc::<Descriptors>::default();
        Shared {
            principals: ArcSwap::from_pointee(Principals::of(&configuration)),
            configuration: ArcSwap::from_pointee(configuration),
            sessions: Sessions::new(),
            clients: Clients::default(),
            files: Arc::new(FileTable::new()),
            watches: Watches::new(pool.clone(), Arc::clone(&descriptors)),
            descriptors,
            durables: Arc::default(),
            pool,
            long_work: Pool::for_long_work(cores),
            short_listings: Semaphore::new(SHORT_LISTINGS),
            login_throttle: LoginThrottle::new(tokio::time::Instant::now().into_std()),
            lockout: Lockout::new(tokio::time::Instant::now().into_std()),
            unsendable: Unsendable::default(),
            strangers: Strangers::new(capacity.connections, budgets.strangers()),
            budgets,
            interfaces: Arc::default(),
            listening,
            placement: Placement::new(shards),
            roll_call: RollCall::new(shards),
            counters: Counters::new(shards),
            busy_files: BusyFiles::new(shards),
            audit: Audit::default(),
            origins: Arc::default(),
            hanging_stores: HangingStores::default(),
            polling: Arc::new(Policy::new(polling)),
            next_open: AtomicU64::new(u64::from(u32::from_le_bytes(chance)) << 24 | 1),
        }
    }

    /// Has all work done by hand.
    #[cfg(any(test, feature = "in-memory"))]
    pub(crate) fn work_by_hand(&mut self) {
        self.pool = Pool::by_hand();
        self.long_work = self.pool.clone();
        self.watches.pool = self.pool.clone();
    }

    /// A number for a new open.
    pub(crate) fn new_open_id(&self) -> OpenId {
        OpenId(self.next_open.fetch_add(1, Ordering::Relaxed))
    }

    /// The open of an id whose link this is: in its session, or waiting for one.
    pub(crate) fn open_of(&self, id: OpenId, link: &SessionLink) -> Option<Arc<Open>> {
        match self.sessions.of(link) {
            Some(session) => session.open(id),
            None => self.durables.find(id),
        }
    }

    /// Takes that open from whom it belongs to.
    pub(crate) fn take_open(&self, id: OpenId, link: &SessionLink) -> Option<Arc<Open>> {
        match self.sessions.of(link) {
            Some(session) => session.remove_open(id),
            None => self.durables.take(id),
        }
    }

    /// Opens that are new from now on have other numbers than `id`, and than those before it.
    pub(crate) fn number_opens_after(&self, id: u64) {
        self.next_open.fetch_max(id.saturating_add(1), Ordering::Relaxed);
    }
}
