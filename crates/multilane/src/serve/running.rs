//! A server that runs, and what goes on beside it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{
    AdminSocket, Control, DataFolder, Error, Facts, Folders, KnownCatalog, Operations, Reloader, ServerHealth,
    ShareGauges, reload,
};
use insight::audit::AuditLog;
use insight::monitor::Tally;
use jiff::Timestamp;
use parking_lot::Mutex;
use server::Server;
use server::admin::{Admin, Configuration};
use tracing::{error, info, warn};
use web::Push;

use super::http::Places;
use super::unable;
use crate::announcement::Announcement;
use crate::arguments::Serve;
use crate::audit;
use crate::departure::Departure;
use crate::exposition::Shares;
use crate::log::Log;
use crate::recorder::Recorder;
use crate::supervisor::Supervisor;
use crate::why::{self, Observer};

/// How long requests in flight may take once the server is told to end, and how long those of SMB may at least, once those of REST are over.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_AT_LEAST: Duration = Duration::from_millis(500);

/// A server, and what all that goes on beside it is made of.
pub(super) struct Running<'a> {
    pub(super) arguments: &'a Serve,
    pub(super) folder: &'a DataFolder,
    pub(super) log: &'a Log,
    server: Server,
    /// When it started, by a clock that nobody sets.
    started: Instant,
    /// The same by the clock on the wall.
    pub(super) since: Timestamp,
    pub(super) control: Arc<Mutex<Control>>,
    folders: Folders,
    pub(super) gauges: ShareGauges,
    health: ServerHealth,
    /// What the REST interface is asked for.
    pub(super) rest: Arc<Tally>,
    pub(super) catalog: KnownCatalog,
    pub(super) observer: Observer,
}

impl<'a> Running<'a> {
    /// The `server` that was started at this time, and is told by `control` what to serve.
    pub(super) fn of(
        server: Server,
        (started, since): (Instant, Timestamp),
        control: Control,
        (arguments, folder, log): (&'a Serve, &'a DataFolder, &'a Log),
    ) -> Result<Self, Error> {
        let observer = Observer::start(server.admin(), control.catalog())
            .map_err(|cause| unable("start a thread to look at counters", &cause))?;
        Ok(Running {
            arguments,
            folder,
            log,
            server,
            started,
            since,
            folders: control.folders(),
            gauges: control.gauges(),
            health: control.server_health(),
            rest: Arc::default(),
            catalog: control.catalog(),
            control: Arc::new(Mutex::new(control)),
            observer,
        })
    }

    pub(super) fn admin(&self) -> Arc<dyn Admin> {
        self.server.admin()
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Where it listens.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        self.server.addresses()
    }

    pub(super) fn operations(&self) -> Operations {
        Operations::new(self.folder, &self.control, self.admin())
    }

    /// What metrics are made of beside counters.
    pub(super) fn shares(&self) -> Shares {
        (self.gauges.clone(), Arc::clone(&self.rest), self.health.clone())
    }

    /// Opens the socket that commands ask.
    pub(super) fn admin_socket(&self, places: &Places) -> Result<AdminSocket, Error> {
        let facts = Facts {
            started: self.started,
            since: self.since,
            listen: self.addresses().to_vec(),
            metrics: places.metrics,
            page: places.page,
            rest: places.rest.as_ref().map(|told| told.url.clone()),
            version: env!("CARGO_PKG_VERSION"),
            log_filter: self.log.levels(),
            explain: self.observer.explains(),
            is_dead: |local, peer| why::path(local, peer).is_some_and(insight::why::Path::is_dead),
        };
        AdminSocket::open(self.folder, Arc::clone(&self.control), self.admin(), facts)
    }

    /// Has what the catalog says served whenever it changes.
    pub(super) fn reloader(&self, supervisor: &Supervisor) -> Result<Reloader, Error> {
        let supervisor = supervisor.clone();
        let tell = Box::new(move |failed: Option<&Error>| supervisor.reloaded(failed));
        Reloader::start(&self.control, self.admin(), tell).map_err(|cause| unable("start a thread for reloads", &cause))
    }

    /// Has served what the catalog says now.
    pub(super) fn reload(&self) {
        if let Err(cause) = reload(&self.control, &*self.admin()) {
            error!(name: "catalog_not_read", error = %cause, "the catalog was not read again");
        }
    }

    /// Announces it by mDNS where that is wanted.
    pub(super) fn announcement(&self, configuration: &Configuration) -> Option<Announcement> {
        if !self.arguments.announce {
            return None;
        }
        Announcement::start(self.catalog.clone(), configuration.settings.server_name.clone(), self.addresses())
            .inspect_err(|cause| warn!(name: "not_announced", error = %cause, "the server is not announced by mDNS"))
            .ok()
    }

    /// Keeps what it does for `multilane metrics`.
    pub(super) fn recorder(&self) -> Option<Recorder> {
        Recorder::start(self.folder, self.admin(), &self.control, (self.gauges.clone(), Arc::clone(&self.rest)))
            .inspect_err(|cause| error!(name: "metrics_not_kept", error = %cause, "what the server does is not kept for `multilane metrics`"))
            .ok()
    }

    /// Ends it, and gives back what it has in its data folder. It was told to `since` then.
    pub(super) fn end(
        self,
        since: Instant,
        departure: Departure,
        (socket, recorder): (AdminSocket, Option<Recorder>),
        push: Option<Push>,
        audit_log: &AuditLog,
    ) {
        let Running { server, control, folders, observer, .. } = self;
        drop(observer);
        let departing = departure.begin((socket, control, recorder));
        server.stop(PATIENCE.saturating_sub(since.elapsed()).max(PATIENCE_AT_LEAST));
        // Once more, with what was done until now.
        drop(push);
        folders.let_go();
        audit_log.finish(audit::LAST_LINES);
        departing.end();
        info!(name: "ended", "ended");
    }
}
