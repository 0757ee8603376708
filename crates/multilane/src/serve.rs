//! `multilane serve`.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::{
    AdminSocket, Catalog, Control, DataFolder, Error, Facts, Operations, Overrides, Reloader,
    account_with_published_key, development_start, first_start, is_for_machine, reload,
};
use insight::audit::AuditLog;
use jiff::Timestamp;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use server::admin::{Account, AuditSink, Configuration, Multichannel};
use server::{Config, Server};
use tracing::{error, info, warn};
use web::{Metrics, PageSource};

use crate::activation;
use crate::announcement::Announcement;
use crate::arguments::Serve;
use crate::audit;
use crate::data;
use crate::departure::Departure;
use crate::exposition;
use crate::hints::{self, Hints};
use crate::listening::{joined, not_listening};
use crate::log::{Keep, Log};
use crate::options::{self, Told};
use crate::output::{self, Output};
use crate::page;
use crate::recorder::{self, Recorder};
use crate::rest;
use crate::settings;
use crate::signals::{Wish, Wishes};
use crate::supervisor::Supervisor;
use crate::why::{self, Observer};

/// The port that clients use unless told otherwise; only root may take it.
const PORT: u16 = 445;
/// The port that everybody may take.
const PORT_FREE_FOR_ALL: u16 = 4450;
/// How long requests in flight may take once the server is told to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// What runs, as `--json` prints it on one line once the server answers clients.
#[derive(Serialize)]
struct Ready {
    listen: Vec<SocketAddr>,
    metrics: Option<SocketAddr>,
    page: Option<SocketAddr>,
    rest: Option<rest::Told>,
    data: PathBuf,
    shares: Vec<String>,
    process: u32,
}

pub(crate) fn run(path: &Path, arguments: &Serve, told: &Told, output: Output) -> Result<(), Error> {
    let passed = activation::passed()?;
    let keep = if arguments.page.is_some() { Keep::Recent } else { Keep::Nothing };
    let log = Log::begin(arguments.log.clone(), arguments.log_format, keep)?;
    prevent_core_dumps();
    let folder = DataFolder::create(path)?;
    let lock = folder.lock()?;
    let mut catalog = Catalog::open(&folder)?;
    if arguments.dev {
        development_start(&mut catalog, &folder)?;
    } else {
        first_start(&mut catalog, &folder)?;
    }
    let published = account_with_published_key(&catalog)?;
    let audit_log = audit::begin(&folder, &catalog, arguments)?;

    let metrics = exposition::listen(arguments.metrics)?;
    let metrics_at = metrics.as_ref().map(Metrics::address);
    let page = page::listen(arguments.page)?;
    let page_at = page.as_ref().map(page::address);
    let endpoint = rest::listen(arguments, &folder, published.as_deref())?;
    let rest_told = endpoint.as_ref().map(|endpoint| endpoint.told(published.as_deref()));
    let mut wishes = Wishes::new().map_err(|cause| unable("catch signals", &cause))?;
    let mut control = Control::new(&folder, catalog, overrides(arguments, told));
    let configuration = control.first_estate()?;
    let (started, since) = (Instant::now(), Timestamp::now());
    let mut sockets = Sockets { passed, listen: control.listen()? };
    if let Some(account) = &published {
        sockets.keep_to_this_machine(account, arguments.dev)?;
    }
    let server = start(&folder, &sockets, arguments, (&configuration, &audit_log))?;
    drop(sockets);
    let (folders, gauges, known) = (control.folders(), control.gauges(), control.catalog());
    let of_metrics = (gauges.clone(), control.server_health());
    let control = Arc::new(parking_lot::Mutex::new(control));
    let listen = server.addresses().to_vec();
    let observer = Observer::start(server.admin(), known.clone())
        .map_err(|cause| unable("start a thread to look at counters", &cause))?;
    let facts = Facts {
        started,
        since,
        listen: listen.clone(),
        metrics: metrics_at,
        page: page_at,
        rest: rest_told.as_ref().map(|told| told.url.clone()),
        version: env!("CARGO_PKG_VERSION"),
        log_filter: log.levels(),
        explain: observer.explains(),
        is_dead: |local, peer| why::path(local, peer).is_some_and(insight::why::Path::is_dead),
    };
    let socket = AdminSocket::open(&folder, Arc::clone(&control), server.admin(), facts)?;
    let supervisor = Supervisor::new();
    let of_reloads = supervisor.clone();
    let tell = Box::new(move |failed: Option<&Error>| of_reloads.reloaded(failed));
    let reloader = Reloader::start(&control, server.admin(), tell)
        .map_err(|cause| unable("start a thread for reloads", &cause))?;

    let departure = Departure::of(lock).map_err(|cause| unable("start a thread for the end", &cause))?;

    // What the command line changed before the socket was there to say so.
    if let Err(cause) = reload(&control, &*server.admin()) {
        error!(name: "catalog_not_read", error = %cause, "the catalog was not read again");
    }
    if let Some(metrics) = &metrics {
        exposition::serve(metrics, server.admin(), of_metrics.clone(), since, &log);
    }
    let collector = arguments.otlp.as_ref().map(|collector| (collector, arguments.otlp_every));
    let push = collector
        .map(|to| {
            exposition::push(to, server.admin(), of_metrics.clone(), (since, configuration.settings.server_guid), &log)
        })
        .transpose();
    let push = push.map_err(|cause| unable("start a thread to send metrics", &cause))?;
    let of_rest = known.clone();
    if let Some(page) = &page {
        let recent = log.recent();
        page::serve(
            page,
            PageSource {
                admin: server.admin(),
                shares: gauges.clone(),
                catalog: known.clone(),
                operations: Operations::new(&folder, &control, server.admin()),
                explain: observer.explains(),
                log_filter: log.levels(),
                events: Box::new(move || recent.newest_first()),
                path: Box::new(why::path),
                archive: recorder::path(&folder),
                audit_log: page::audit_place(&folder, arguments.audit_log.as_deref()),
                version: env!("CARGO_PKG_VERSION"),
                since: page::since(since),
                of_data: of_data(folder.path()),
            },
        )?;
    }
    let operations = Operations::new(&folder, &control, server.admin());
    if arguments.dev {
        of_rest.add_development_principal();
    }
    let rest = rest::start(endpoint, &listen, of_rest, operations, recorder::path(&folder), &arguments.rest_group)?;
    info!(
        name: "serving",
        version = env!("CARGO_PKG_VERSION"),
        listen = joined(&listen),
        data = %folder.path().display(),
        shares = configuration.shares.len(),
        "serving"
    );
    if let Err(cause) = announce(&folder, (listen, metrics_at, page_at), rest_told, &configuration, output) {
        warn!(name: "ready_not_told", error = %cause, "nobody was told that the server is ready");
    }
    let (shares, addresses) = (configuration.shares.len(), joined(server.addresses()));
    supervisor.ready(&format!("Serves {shares} shares on {addresses}."));
    let announcement = arguments.announce.then(|| {
        Announcement::start(known, configuration.settings.server_name.clone(), server.addresses())
            .inspect_err(|cause| warn!(name: "not_announced", error = %cause, "the server is not announced by mDNS"))
    });
    drop(configuration);
    let recorder = Recorder::start(&folder, server.admin(), &control, gauges)
        .inspect_err(|cause| error!(name: "metrics_not_kept", error = %cause, "what the server does is not kept for `multilane metrics`"))
        .ok();
    let watch = supervisor.watch(server.admin()).map_err(|cause| unable("start a thread to watch shards", &cause))?;
    // This thread waits for signals and for nothing else.
    while wishes.next() == Wish::Reload {
        supervisor.reloading();
        audit_log.reopen();
        options::again(told, &control, &log);
        reloader.reload();
    }
    supervisor.stopping();
    metrics.iter().for_each(Metrics::end);
    drop((page, rest));
    info!(name: "ending", "ending");
    drop((announcement, reloader, watch, observer));
    let departing = departure.begin((socket, control, recorder));
    server.stop(PATIENCE);
    // Once more, with what was done until now.
    drop(push);
    folders.let_go();
    audit_log.finish(audit::LAST_LINES);
    departing.end();
    info!(name: "ended", "ended");
    Ok(())
}

/// Keys and what clients sent are in memory: a crash leaves none of it on a disk, nor hands it to a program that gathers dumps.
fn prevent_core_dumps() {
    let maximum = getrlimit(Resource::Core).maximum;
    // One byte is too little for a file, and to Linux the sign that no program gets the dump either; zero is not.
    let current = Some(maximum.map_or(1, |maximum| maximum.min(1)));
    if let Err(cause) = setrlimit(Resource::Core, Rlimit { current, maximum }) {
        warn!(name: "core_dumps_possible", error = %cause, "core dumps, which hold keys, are not prevented");
    }
}

/// What counts before the catalog.
pub(crate) fn overrides(arguments: &Serve, told: &Told) -> Overrides {
    let advertise_only = told.is_named("advertise-only").then_some(arguments.advertise_only);
    Overrides {
        options: told.options.clone(),
        listen: arguments.listen.clone(),
        dialect_min: arguments.dialect_min,
        signing: arguments.signing.map(settings::signing),
        sealing: arguments.sealing.map(settings::sealing),
        channels_max: arguments.channels_max.map(usize::from),
        busy_poll: arguments.busy_poll,
        advertise: arguments.advertise.clone(),
        own_addresses: advertise_only.map(settings::own_addresses),
        anonymous: arguments.anonymous.map(settings::anonymous),
        lock_after: arguments.lock_after,
        lock_for: arguments.lock_for,
        store_latency: arguments.store_latency,
        burst_credits_max: arguments.burst_credits_max,
    }
}

/// Where the server listens.
struct Sockets {
    /// What the service manager listens on for it.
    passed: Vec<TcpListener>,
    /// What was asked for by address.
    listen: Vec<SocketAddr>,
}

impl Sockets {
    /// Refuses to listen where others than this machine could use a key that everybody knows. A server for development has a default for that.
    fn keep_to_this_machine(&mut self, account: &str, is_for_development: bool) -> Result<(), Error> {
        if is_for_development && self.passed.is_empty() && self.listen.is_empty() {
            self.listen = vec![SocketAddr::from((Ipv4Addr::LOCALHOST, PORT_FREE_FOR_ALL))];
        }
        let passed = self.passed.iter().map(TcpListener::local_addr).collect::<io::Result<Vec<_>>>();
        let passed = passed.map_err(|cause| unable("ask where the service manager listens", &cause))?;
        let all: Vec<_> = passed.into_iter().chain(self.listen.iter().copied()).collect();
        match all.iter().find(|address| !is_for_machine(**address)) {
            None if !all.is_empty() => Ok(()),
            other => Err(Error::argument(
                format!(
                    "the server would listen on {}, and everybody knows the key of the account {account}",
                    other.map_or("every address".to_owned(), SocketAddr::to_string)
                ),
                format!(
                    "listen on this machine alone, with --listen 127.0.0.1:4450, or give the account other keys: `multilane account keys {account} --regenerate 1`"
                ),
            )),
        }
    }
}

/// Starts on the sockets passed and the addresses asked for; where there are none, on port 445 for root where it is free, else on 4450.
fn start(
    folder: &DataFolder,
    sockets: &Sockets,
    arguments: &Serve,
    (configuration, audit_log): (&Configuration, &Arc<AuditLog>),
) -> Result<Server, Error> {
    let shards = arguments.threads.map_or(0, usize::from);
    let metadata_cache_bytes = arguments.metadata_cache.map(NonZeroU64::get);
    let on = |listen: Vec<SocketAddr>| {
        let config = Config { listen, shards, opens: Some(folder.opens()), metadata_cache_bytes };
        let sink: Arc<dyn AuditSink> = Arc::<AuditLog>::clone(audit_log);
        let passed = sockets.passed.iter().map(TcpListener::try_clone).collect::<io::Result<_>>()?;
        Server::start_on(passed, &config, configuration.clone(), sink)
    };
    if !sockets.passed.is_empty() || !sockets.listen.is_empty() {
        return on(sockets.listen.clone()).map_err(|cause| not_started(&cause));
    }
    if rustix::process::geteuid().is_root() {
        match on(everywhere(PORT)) {
            Err(cause) if matches!(cause.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => {
                warn!(name: "port_taken", error = %cause, "port {PORT} cannot be had, so clients need to name port {PORT_FREE_FOR_ALL}");
            }
            started => return started.map_err(|cause| not_started(&cause)),
        }
    }
    on(everywhere(PORT_FREE_FOR_ALL)).map_err(|cause| not_started(&cause))
}

/// All addresses of the machine: one socket for both protocols where the kernel allows that.
fn everywhere(port: u16) -> Vec<SocketAddr> {
    let (v4, v6) = (SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)), SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)));
    if TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_err() {
        return vec![v4];
    }
    let apart = fs::read_to_string("/proc/sys/net/ipv6/bindv6only").is_ok_and(|text| text.trim() == "1");
    if apart { vec![v4, v6] } else { vec![v6] }
}

fn not_started(cause: &io::Error) -> Error {
    not_listening("the server did not start", "--listen ADDRESS:PORT", cause)
}

fn unable(what: &str, cause: &io::Error) -> Error {
    Error::machine(format!("cannot {what}: {cause}"), "try again")
}

/// Says where the server listens and how clients reach it.
fn announce(
    folder: &DataFolder,
    (listen, metrics, page): (Vec<SocketAddr>, Option<SocketAddr>, Option<SocketAddr>),
    rest: Option<rest::Told>,
    configuration: &Configuration,
    output: Output,
) -> Result<(), Error> {
    let shares = configuration.shares.iter().map(|share| share.name.clone()).collect();
    let (data, process) = (folder.path().to_owned(), std::process::id());
    let ready = Ready { listen, metrics, page, rest, data, shares, process };
    match output {
        Output::Json => output::line(&ready),
        Output::Text => output.print(&ready, |ready| text(ready, configuration)),
    }
}

/// The arguments that lead a command to this data folder, with a space before them, or nothing.
fn of_data(path: &Path) -> String {
    if data::is_default(path) {
        return String::new();
    }
    format!(" --data {}", hints::quoted(&path.to_string_lossy()))
}

fn text(ready: &Ready, configuration: &Configuration) -> String {
    let mut text = format!(
        "Multilane {} serves {} on {}.\n",
        env!("CARGO_PKG_VERSION"),
        ready.data.display(),
        joined(&ready.listen)
    );
    let data = of_data(&ready.data);
    if let Some(page) = ready.page {
        text.push_str(&format!(
            "Its page is http://{page}/, for operators: `multilane operator create NAME{data}` makes one.\n"
        ));
    }
    text.push_str(&rest_text(ready, configuration, &data));
    let Some(address) = ready.listen.first() else {
        return text;
    };
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let share = configuration.shares.first().map(|share| (share.name.clone(), share.account.clone()));
    let hints = Hints {
        host: hints::host(*address, &name),
        port: address.port(),
        channels: channels(configuration),
        share,
        data,
    };
    text.push_str(&hints.text());
    text
}

/// How to reach the REST interface, where there is one.
fn rest_text(ready: &Ready, configuration: &Configuration, data: &str) -> String {
    let Some(rest) = &ready.rest else { return String::new() };
    let mut text = format!("Azure Files' REST interface is at {}.\n", rest.url);
    if let Some(authority) = &rest.authority {
        let authority = hints::quoted(&authority.to_string_lossy());
        text.push_str(&format!("Its clients have to trust {authority}:\n  export REQUESTS_CA_BUNDLE={authority}\n"));
    }
    match (&rest.connection_string, configuration.shares.first()) {
        (Some(connection), _) => text.push_str(&format!(
            "The key of its account is the one that everybody knows:\n  export AZURE_STORAGE_CONNECTION_STRING='{connection}'\n  az storage share list --output table\n"
        )),
        (None, Some(share)) => text.push_str(&format!(
            "What its clients are told:\n  multilane rest connection-string {}{data}\n",
            share.account
        )),
        (None, None) => {}
    }
    text
}

/// The connections that one session of the first share's account may use at once.
fn channels(configuration: &Configuration) -> usize {
    let account = configuration.shares.first().map(|share| &share.account);
    let has_several = |one: &&Account| Some(&one.name) == account && one.multichannel == Multichannel::On;
    match configuration.accounts.iter().find(has_several) {
        Some(_) => configuration.settings.channels_max,
        None => 1,
    }
}
