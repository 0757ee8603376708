//! `multilane serve`.

mod http;
mod ready;
mod running;
mod sockets;

use std::io;
use std::net::TcpListener;
use std::path::Path;
use std::time::Instant;

use control::{
    Catalog, Control, DEVELOPMENT_ACCOUNT, DataFolder, Error, Lock, Overrides, account_with_published_key,
    development_start, first_start,
};
use insight::audit::AuditLog;
use jiff::Timestamp;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::admin::Configuration;
use tracing::{info, warn};

use self::http::{Http, Listening, Places};
use self::running::Running;
use self::sockets::Sockets;
use crate::activation;
use crate::arguments::Serve;
use crate::audit;
use crate::departure::Departure;
use crate::listening::joined;
use crate::log::{Keep, Log};
use crate::options::{self, Told};
use crate::output::Output;
use crate::rest;
use crate::settings;
use crate::signals::{Wish, Wishes};
use crate::supervisor::Supervisor;

/// Starts the server, and what goes on beside it.
pub(crate) fn run(path: &Path, arguments: &Serve, told: &Told, output: Output) -> Result<(), Error> {
    let passed = activation::passed()?;
    let keep = if arguments.page.is_some() { Keep::Recent } else { Keep::Nothing };
    let log = Log::begin(arguments.log.clone(), arguments.log_format, keep)?;
    prevent_core_dumps();
    if arguments.dev && !path.join("catalog.db").exists() {
        check_first_development(&passed, arguments)?;
    }
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
    let listening = Listening::begin(arguments, &folder, published.as_deref())?;
    let places = listening.places(published.as_deref());
    let wishes = Wishes::new().map_err(|cause| unable("catch signals", &cause))?;
    let mut control = Control::new(&folder, catalog, overrides(arguments, told));
    let configuration = control.first_estate()?;
    let now = (Instant::now(), Timestamp::now());
    let sockets = Sockets::of(passed, control.listen()?, arguments, published.as_deref())?;
    let server = sockets.start(&folder, arguments, &configuration, &audit_log)?;
    let running = Running::of(server, now, control, (arguments, &folder, &log))?;
    serve((lock, &audit_log), running, (listening, places), configuration, (told, wishes, output))
}

/// Refuses places that a first start for development would refuse, before there is a data folder.
fn check_first_development(passed: &[TcpListener], arguments: &Serve) -> Result<(), Error> {
    if let Some(address) = rest::address(arguments) {
        rest::keep_to_this_machine(address, DEVELOPMENT_ACCOUNT)?;
    }
    if passed.is_empty() && arguments.listen.is_empty() {
        return Ok(());
    }
    sockets::keep_to_this_machine(passed, &arguments.listen, DEVELOPMENT_ACCOUNT)
}

/// Serves until a signal ends it.
fn serve(
    (lock, audit_log): (Lock, &AuditLog),
    running: Running<'_>,
    (listening, places): (Listening, Places),
    configuration: Configuration,
    (told, mut wishes, output): (&Told, Wishes, Output),
) -> Result<(), Error> {
    let socket = running.admin_socket(&places)?;
    let supervisor = Supervisor::new();
    let reloader = running.reloader(&supervisor)?;
    let departure = Departure::of(lock).map_err(|cause| unable("start a thread for the end", &cause))?;
    // What the command line changed before the socket was there to say so.
    running.reload();
    let http = Http::serve(listening, &running, &configuration)?;
    tell(&running, places, &configuration, &supervisor, output);
    let announcement = running.announcement(&configuration);
    drop(configuration);
    let recorder = running.recorder();
    let watch = supervisor.watch(running.admin()).map_err(|cause| unable("start a thread to watch shards", &cause))?;
    // This thread waits for signals and for nothing else.
    while wishes.next() == Wish::Reload {
        supervisor.reloading();
        audit_log.reopen();
        options::again(told, &running.control, running.log);
        reloader.reload();
    }
    supervisor.stopping();
    let since = Instant::now();
    let (_metrics, push) = http.end();
    info!(name: "ending", "ending");
    drop((announcement, reloader, watch));
    running.end(since, departure, (socket, recorder), push, audit_log);
    Ok(())
}

/// Tells the log, whoever started the server, and the service manager that it serves.
fn tell(running: &Running<'_>, places: Places, configuration: &Configuration, supervisor: &Supervisor, output: Output) {
    let (shares, addresses) = (configuration.shares.len(), joined(running.addresses()));
    info!(
        name: "serving",
        version = env!("CARGO_PKG_VERSION"),
        listen = addresses,
        data = %running.folder.path().display(),
        shares,
        "serving"
    );
    if let Err(cause) = ready::announce(running.folder, running.addresses(), places, configuration, output) {
        warn!(name: "ready_not_told", error = %cause, "nobody was told that the server is ready");
    }
    supervisor.ready(&format!("Serves {shares} shares on {addresses}."));
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

fn unable(what: &str, cause: &io::Error) -> Error {
    Error::machine(format!("cannot {what}: {cause}"), "try again")
}
