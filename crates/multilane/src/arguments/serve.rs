//! The command line of `serve`.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use control::{BusyPolling, Dialect, Error, LockAfter, LockFor};
use server::admin::AdvertisedAddress;
use web::{Collector, PageAt};

use super::values::{CHANNELS_MAX, When, WhereAnonymous, milliseconds, place};
use crate::exposition;
use crate::log::{Filter, Format};
use crate::page;
use crate::rest;

/// Threads that one server may have: more than any machine has cores.
const THREADS_MAX: i64 = 1024;

const SERVE_EXAMPLES: &str = "\
Examples:
  multilane serve
  multilane serve --listen 192.0.2.7:445 --listen '[2001:db8::7]:445'
  multilane serve --data ./data --listen 127.0.0.1:4450 --sealing required
  multilane serve --metrics 9445
  multilane serve --otlp http://127.0.0.1:4318
  multilane serve --page 9446

Each option may stand in the settings file, too, such as `sealing = \"required\"`, and in the environment,
such as MULTILANE_SEALING=required. The command line counts before the environment, that before the file,
and the file before what `multilane server set` keeps. `multilane server settings` says where each comes from.

The first start makes an account `local` and a share `share` on a folder in the data folder.
SIGTERM and SIGINT end the server after answering what is in flight; SIGHUP makes it read
the catalog and the settings file again.";

#[derive(Debug, Args)]
#[command(after_help = SERVE_EXAMPLES)]
pub(crate) struct Serve {
    /// The settings file [default: multilane.toml in the data folder, or /etc/multilane/multilane.toml for /var/lib/multilane, where there is one]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Read all options, print them with where each comes from, and end; exit code 2 where one is wrong
    #[arg(long)]
    pub(crate) check_config: bool,

    /// Listen here; may be given several times [default: port 445 for root where it is free, else 4450, on all addresses]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = place)]
    pub(crate) listen: Vec<SocketAddr>,

    /// Whether every client must sign [default: required]
    #[arg(long, value_name = "WHEN")]
    pub(crate) signing: Option<When>,

    /// Whether every client must encrypt [default: enabled]
    #[arg(long, value_name = "WHEN")]
    pub(crate) sealing: Option<When>,

    /// The oldest dialect to accept: 2.0.2, 2.1, 3.0, 3.0.2 or 3.1.1 [default: 3.0]
    #[arg(long, value_name = "DIALECT")]
    pub(crate) dialect_min: Option<Dialect>,

    /// The most connections one session may use at once, where its account has multichannel on [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=CHANNELS_MAX))]
    pub(crate) channels_max: Option<u8>,

    /// How long threads that have nothing to do look for more before they sleep: off, auto, or a time such as 200us, which buys latency with
    /// processor time [default: auto]
    #[arg(long, value_name = "TIME")]
    pub(crate) busy_poll: Option<BusyPolling>,

    /// Tell clients of this address, for more connections; may be given several times. What is said of one of the machine's own replaces
    /// what the machine says
    #[arg(long, value_name = "ADDRESS[,speed=25G][,rss]", value_parser = control::parse_advertised)]
    pub(crate) advertise: Vec<AdvertisedAddress>,

    /// Tell clients of no other addresses than those of --advertise
    #[arg(long)]
    pub(crate) advertise_only: bool,

    /// Announce the server by mDNS (Bonjour), by Avahi where that runs: file managers show it, and Macs offer its shares for Time Machine
    #[arg(long)]
    pub(crate) announce: bool,

    /// Whether a session may be signed in again as the anonymous user, which leaves it what it has open and nothing else [default: refused]
    #[arg(long, value_name = "WHERE")]
    pub(crate) anonymous: Option<WhereAnonymous>,

    /// Lock users after so many wrong passwords, from 3 to 1000, or never: off [default: off]
    #[arg(long, value_name = "COUNT|off")]
    pub(crate) lock_after: Option<LockAfter>,

    /// How long a user stays locked, from 1m to 24h [default: 15m]
    #[arg(long, value_name = "DURATION")]
    pub(crate) lock_for: Option<LockFor>,

    /// The most memory for cached metadata, such as 64M: from 1M to half of what the server may take [default: a part of that, 8M to 256M]
    #[arg(long, value_name = "SIZE", value_parser = metadata_cache)]
    pub(crate) metadata_cache: Option<NonZeroU64>,

    /// Tell metrics, and how the server is, to Prometheus and its like: at a port of this machine, or where an address says [default: nowhere]
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = exposition::place)]
    pub(crate) metrics: Option<SocketAddr>,

    /// Send metrics to a collector of OpenTelemetry, such as http://127.0.0.1:4318 (OTLP/HTTP, JSON) [default: nowhere]
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<Collector>,

    /// Send them so often
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u16).range(1..=3_600))]
    pub(crate) otlp_every: u16,

    /// Have a page for operators, who sign in to watch and steer the server in a browser: at a port of 127.0.0.1 and ::1 [default: nowhere]
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = page::place)]
    pub(crate) page: Option<PageAt>,

    /// Have Azure Files' REST interface, for its SDKs and tools, at a port of this machine [default: nowhere; without a port: 10004]
    #[arg(long, value_name = "[ADDRESS:]PORT", num_args = 0..=1, default_missing_value = rest::PORT, value_parser = rest::place)]
    pub(crate) rest: Option<SocketAddr>,

    /// Have the REST interface speak HTTPS, with a certificate that is made once and kept in the data folder
    #[arg(long, conflicts_with = "rest_certificate")]
    pub(crate) rest_tls: bool,

    /// Have the REST interface speak HTTPS, with the certificate of this file, and those that lead to its authority, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) rest_certificate: Option<PathBuf>,

    /// The key of that certificate, in PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) rest_key: Option<PathBuf>,

    /// What the management interface calls the one resource group that all accounts are in
    #[arg(long, value_name = "NAME", default_value = azure::GROUP, value_parser = rest::group)]
    pub(crate) rest_group: String,

    /// Serve this machine alone, for programs that are written and tested against Azure Files: the account devstoreaccount1 with its published key,
    /// a share, and the REST interface, in a data folder of their own
    #[arg(long)]
    pub(crate) dev: bool,

    /// What is logged: a level (off, error, warn, info, debug, trace), or levels of parts, such as server=debug,warn; `multilane log level`
    /// changes it while the server runs
    #[arg(long, value_name = "FILTER", default_value_t = Filter::default())]
    pub(crate) log: Filter,

    /// What the log is: text, json or journald [default: text, or journald where standard error is the journal]
    #[arg(long, value_name = "FORMAT", hide_possible_values = true)]
    pub(crate) log_format: Option<Format>,

    /// Where the audit log goes, for shares that have one: a file, or journald [default: audit.log in the data folder]
    #[arg(long, value_name = "FILE|journald")]
    pub(crate) audit_log: Option<PathBuf>,

    /// The most that the audit log's file may hold, such as 512M, before it gets another name; three such files are kept. 0: it grows as it likes
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = audit_log_max)]
    pub(crate) audit_log_max: AuditLogMax,

    /// Have each call of a RAM disk take so many milliseconds that a store on another machine would be asked
    #[arg(long, value_name = "MS", hide = true, value_parser = milliseconds)]
    pub(crate) store_latency: Option<Duration>,

    /// Have no share keep more credits for bursts than these, however many are provisioned
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) burst_credits_max: Option<u64>,

    /// Threads that serve connections [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    pub(crate) threads: Option<u16>,
}

/// The bytes that the audit log's file may have; `None` for as many as there will be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AuditLogMax(pub(crate) Option<NonZeroU64>);

fn audit_log_max(text: &str) -> Result<AuditLogMax, Error> {
    if text == "0" {
        return Ok(AuditLogMax(None));
    }
    let of_file =
        |error: Error| Error::argument(error.what(), format!("{}; or 0, and it grows as it likes", error.remedy()));
    control::parse_size(text).map(|size| AuditLogMax(Some(size))).map_err(of_file)
}

/// Reads how much may be kept in memory of files and names.
fn metadata_cache(text: &str) -> Result<NonZeroU64, Error> {
    let most = server::metadata_cache_bytes_max();
    let size = control::parse_size(text).ok().filter(|size| size.get() <= most);
    size.ok_or_else(|| {
        let what = format!("{text} is no size that a metadata cache may have here");
        Error::argument(
            what,
            format!("use a size from 1M to {}M, half of the memory that the server may take", most >> 20),
        )
    })
}
