//! The command line.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use control::{
    AccountKind, AccountName, BusyPolling, Dialect, Error, Grace, LockAfter, LockFor, PasswordLength, Region, Sku,
    UserName,
};
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use server::admin::AdvertisedAddress;
use web::{Collector, PageAt};

use crate::backup::{Backup, Restore};
use crate::catalog::CatalogCommand;
use crate::compare::arguments::Compare;
use crate::exposition;
use crate::features::FeaturesCommand;
use crate::group::GroupCommand;
use crate::log::{Filter, Format};
use crate::metrics::MetricsCommand;
use crate::operator::OperatorCommand;
use crate::page;
use crate::principal::PrincipalCommand;
use crate::remote::arguments::{DOCTOR_EXAMPLES, Doctor, RemoteCommand};
use crate::rest;
use crate::share::arguments::ShareCommand;
use crate::unix_owner::{self, OwnerOf};

/// Threads that one server may have: more than any machine has cores.
const THREADS_MAX: i64 = 1024;
/// The most that one session may be given.
const CHANNELS_MAX: i64 = server::admin::CHANNELS_MAX as i64;

const EXAMPLES: &str = "\
Examples:
  multilane serve                                  make an account and a share, and serve
  multilane account keys local                     show the passwords of the account `local`
  multilane share create media --path /srv/media   share a folder
  multilane share create scratch --ram 4G          share a RAM disk
  multilane user create alice                      let somebody else sign in
  multilane sessions --json                        who is connected, for programs
  multilane cp ./photos smb://alice@nas/media/new  copy files to a server, this one or another

Changes take effect at once in the server that runs on the same data folder.
Exit codes: 0 done, 1 not done, 2 the command line is wrong.";

/// An SMB 3.1.1 file server that gives one client every core and every network path.
#[derive(Debug, Parser)]
#[command(name = "multilane", version, after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    /// The data folder [default: /var/lib/multilane for root, else ~/.local/share/multilane]
    #[arg(long, global = true, env = "MULTILANE_DATA", value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,

    /// Print JSON
    // Where it has a value at all it is `-`, as in the commands whose --json names a file: `compare`.
    #[arg(long, global = true, num_args = 0, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve the shares of the data folder
    Serve(Box<Serve>),
    /// Storage accounts, which own shares and sign in with their keys
    #[command(subcommand)]
    Account(AccountCommand),
    /// Users of an account, who sign in with a password
    #[command(subcommand)]
    User(UserCommand),
    /// Groups of users, for rights on shares and in descriptors
    #[command(subcommand)]
    Group(GroupCommand),
    /// Operators, who sign in to the page, see everything there, close sessions and files, and change limits and multichannel
    #[command(subcommand)]
    Operator(OperatorCommand),
    /// Service principals: programs that sign in to Azure's REST and management interfaces with an id and a secret
    #[command(subcommand)]
    Principal(PrincipalCommand),
    /// Shares: folders and RAM disks that clients connect to
    #[command(subcommand)]
    Share(ShareCommand),
    /// The REST interface of Azure Files
    #[command(subcommand)]
    Rest(RestCommand),
    /// Features that accounts with a SKU have where they are registered, and their regions
    #[command(subcommand)]
    Features(FeaturesCommand),
    /// Back up accounts, users, operators, shares and settings to one file
    Backup(Backup),
    /// Restore a backup; what was there before is kept
    Restore(Restore),
    /// The file with accounts, users, operators, shares and settings
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Show who is connected
    Sessions,
    /// Show what is open, and by whom
    #[command(
        after_help = "Examples:\n  multilane open-files\n  multilane open-files media\n  multilane open-files media/films/one.mkv"
    )]
    OpenFiles {
        /// Of this share alone, or of this file or directory of it and what is below
        #[arg(value_name = "SHARE[/PATH]")]
        place: Option<String>,
    },
    /// Show what the running server does just now, by share, user, client, session, channel and file
    #[command(
        after_help = "Examples:\n  multilane top\n  multilane top --once\n  multilane top --once --seconds 10 --json
  multilane top --total --json             each request, byte and response there ever was

Figures of files are estimates: of the READs and WRITEs about one in 32 is remembered. Those of all others are counted."
    )]
    Top(Top),
    /// What the server has done minute by minute and hour by hour, by Azure Monitor's names
    #[command(subcommand)]
    Metrics(MetricsCommand),
    /// Say where the time of the last minute went, and what mends it
    #[command(after_help = WHY_EXAMPLES)]
    Why(Why),
    /// Show what the running server tells its clients
    #[command(subcommand)]
    Server(ServerCommand),
    /// End a session, or close an open file
    #[command(subcommand)]
    Close(CloseCommand),
    /// Say whether the server runs and is ready
    #[command(after_help = STATUS_EXIT_CODES)]
    Status,
    /// The running server's log
    #[command(subcommand)]
    Log(LogCommand),
    #[command(flatten)]
    Remote(RemoteCommand),
    /// Look at this machine and a server for what is in the way of speed; nothing is changed
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(Doctor),
    /// Read and write files on a server for a while, and report, as DiskSpd does; `multilane diskspd -?` tells how
    #[command(disable_help_flag = true)]
    Diskspd {
        /// DiskSpd's options and targets, with our additions
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION|TARGET")]
        words: Vec<String>,
    },
    /// Measure what several channels or metadata caching give, on our server and others
    Compare(Compare),
    /// Answer raw TCP requests, as the far end of what a comparison takes for the limit
    #[command(hide = true)]
    RawEnd {
        /// Listen here
        #[arg(long, value_name = "ADDRESS:PORT", value_parser = place)]
        listen: SocketAddr,
    },
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  multilane completions bash > /etc/bash_completion.d/multilane")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual, a page for each command, into a folder
    #[command(hide = true)]
    Manual {
        /// The folder, which is there
        folder: PathBuf,
    },
}

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

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum When {
    /// Refuse clients that cannot
    Required,
    /// Where the client asks for it
    Enabled,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum WhereAnonymous {
    /// Nowhere
    Refused,
    /// Where a user has signed in before
    Reauthentication,
}

/// A switch. `true` and `false` are what some were called once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    #[value(alias = "true")]
    On,
    #[value(alias = "false")]
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Switch::On
    }
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

const ACCOUNT_EXAMPLES: &str = "\
Examples:
  multilane account create projects
  multilane account create media --sku PremiumV2_LRS --location westeurope";

#[derive(Debug, Subcommand)]
pub(crate) enum AccountCommand {
    /// Make an account with two new keys
    #[command(after_help = ACCOUNT_EXAMPLES)]
    Create {
        /// Its name: 3 to 24 lower-case letters and digits
        name: AccountName,
        /// What it is for: FileStorage or StorageV2 [default: that of the SKU, or FileStorage]
        #[arg(long, value_name = "KIND")]
        kind: Option<AccountKind>,
        /// How it is billed: Premium_LRS or _ZRS (provisioned v1) or PremiumV2_LRS or _ZRS (v2) with kind FileStorage, Standard_LRS, _GRS,
        /// _ZRS, _RAGRS, _GZRS or _RAGZRS with StorageV2 [default: local and unmetered]
        #[arg(long, value_name = "SKU")]
        sku: Option<Sku>,
        /// The region it is in, such as westeurope or "West Europe" [default: none]
        #[arg(long, value_name = "REGION")]
        location: Option<Region>,
    },
    /// List the accounts
    List,
    /// Show one account
    Show {
        /// Its name
        name: AccountName,
    },
    /// Change an account
    #[command(after_help = "Example:\n  multilane account update projects --multichannel on")]
    #[command(group = ArgGroup::new("change").args(["multichannel", "metadata_caching", "share_retention"]).required(true).multiple(true))]
    Update {
        /// Its name
        name: AccountName,
        /// Let one session use several connections at once: SMB Multichannel, for accounts of kind FileStorage
        #[arg(long, value_name = "on|off")]
        multichannel: Option<Switch>,
        /// Cache metadata, for accounts of kind FileStorage; those that have a SKU need the feature AzurePremiumFilesMetadataCacheFeature
        #[arg(long, value_name = "on|off")]
        metadata_caching: Option<Switch>,
        /// Keep shares that are deleted from now on for so many days, 1 to 365, so that `share undelete` has them there again
        #[arg(long, value_name = "DAYS|off")]
        share_retention: Option<Retention>,
    },
    /// Show the keys of an account, each of which is a password
    #[command(
        after_help = "Examples:\n  multilane account keys local\n  multilane account keys local --regenerate 2\n  multilane account keys local --regenerate 1 --grace 1h"
    )]
    Keys {
        /// Its name
        name: AccountName,
        /// Replace this key first: the old one no longer signs in, or not for long
        #[arg(long, value_name = "1|2", value_parser = clap::value_parser!(u8).range(1..=2))]
        regenerate: Option<u8>,
        /// The old key signs in for so long on, such as 1h, up to 30d; without it sessions that it began end at once
        #[arg(long, value_name = "TIME", requires = "regenerate")]
        grace: Option<Grace>,
    },
    /// Delete an account that has neither shares nor users
    Delete {
        /// Its name
        name: AccountName,
    },
}

/// For how long deleted shares are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Retention {
    /// So many days.
    Days(u16),
    /// They are not.
    Off,
}

impl std::str::FromStr for Retention {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let days = text.strip_suffix('d').unwrap_or(text);
        match days.parse() {
            _ if text == "off" => Ok(Retention::Off),
            Ok(days @ 1..=365) => Ok(Retention::Days(days)),
            Ok(_) | Err(_) => {
                Err(Error::argument(format!("{text:?} is no number of days"), "use 1 to 365, such as 7, or off"))
            }
        }
    }
}

const USER_EXAMPLE: &str = "Examples:\n  multilane user create alice\n  printf '%s\\n' \"$PASSWORD\" | multilane user create alice --password-stdin";

#[derive(Debug, Subcommand)]
pub(crate) enum UserCommand {
    /// Make a user, who signs in with a password
    #[command(alias = "add", after_help = USER_EXAMPLE)]
    Create {
        /// The name to sign in with
        name: UserName,
        /// Read the password from the first line of standard input, and ask nobody
        #[arg(long)]
        password_stdin: bool,
        /// The account whose shares the user may connect to [default: the oldest]
        #[arg(long, value_name = "NAME")]
        account: Option<AccountName>,
    },
    /// Change a user's password; sessions that the old one began end, and the SID stays
    #[command(alias = "password")]
    Passwd {
        /// The user
        name: UserName,
        /// Let sessions that the old password began go on for so long, such as 1h, up to 30d; nobody signs in with it any more
        #[arg(long, value_name = "TIME")]
        grace: Option<Grace>,
        /// Read the password from the first line of standard input, and ask nobody
        #[arg(long)]
        password_stdin: bool,
    },
    /// Let a user sign in no longer; its sessions end, and all that is the user's stays
    Disable {
        /// The user
        name: UserName,
    },
    /// Let a disabled user sign in again
    Enable {
        /// The user
        name: UserName,
    },
    /// Let a user sign in again whom wrong passwords have locked (`server set lock-after`)
    Unlock {
        /// The user
        name: UserName,
    },
    /// Change whose a user's new files are on this machine
    #[command(
        after_help = "Examples:\n  multilane user update alice --unix-owner alice\n  multilane user update alice --unix-owner none"
    )]
    Update {
        /// The user
        name: UserName,
        /// Whose they are, such as alice or alice:staff, by name or number, or none: as the share says (`share create --unix-owner`)
        #[arg(long, value_name = "USER[:GROUP]|none", value_parser = unix_owner::parse_or_none)]
        unix_owner: OwnerOf,
        /// Let it be root
        #[arg(long)]
        allow_root: bool,
    },
    /// Let a user sign in until a time; its sessions end then
    #[command(
        after_help = "Examples:\n  multilane user expire alice 2027-01-31T18:00:00Z\n  multilane user expire alice 2027-01-31       to the end of that day, UTC\n  multilane user expire alice +30d\n  multilane user expire alice never"
    )]
    Expire {
        /// The user
        name: UserName,
        /// The time, such as 2027-01-31T18:00:00Z, a day, which counts to its end (UTC), a span from now on, such as +12h, +30d or +4w, or `never`
        #[arg(value_name = "TIME", value_parser = expiry)]
        at: Expiry,
    },
    /// Give a user another name; the SID stays, and with it all rights
    Rename {
        /// The user
        name: UserName,
        /// The new name
        to: UserName,
    },
    /// Show one user, with the groups that it is in and the shares that it may connect to
    Show {
        /// The user
        name: UserName,
    },
    /// List the users
    List,
    /// Delete a user; nobody gets the SID again. `disable` can be undone, this cannot. At a terminal it is asked first, elsewhere it wants --force
    #[command(alias = "remove")]
    Delete {
        /// The user's name
        name: UserName,
        /// Ask nothing
        #[arg(long)]
        force: bool,
    },
}

/// When a user expires, if ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry(pub(crate) Option<Timestamp>);

fn expiry(text: &str) -> Result<Expiry, Error> {
    if text == "never" {
        return Ok(Expiry(None));
    }
    let remedy = "use a day such as 2027-01-31, a time such as 2027-01-31T18:00:00Z, a span such as +30d, or never";
    let at = match text.strip_prefix('+') {
        Some(span) => {
            // Whole seconds are kept.
            hours(span).and_then(|hours| Timestamp::from_second(Timestamp::now().as_second() + hours.as_secs()).ok())
        }
        None => text.parse().ok().or_else(|| end_of_day(text)),
    };
    at.map(|at| Expiry(Some(at))).ok_or_else(|| Error::argument(format!("{text:?} is no time"), remedy))
}

/// The end of a day such as `2027-01-31`, as people mean it, in UTC.
fn end_of_day(text: &str) -> Option<Timestamp> {
    let next = text.parse::<Date>().ok()?.tomorrow().ok()?;
    format!("{next}T00:00:00Z").parse().ok()
}

/// A span such as `30d`, `4w` or `12h`.
fn hours(text: &str) -> Option<SignedDuration> {
    let (number, each) = [("h", 1), ("d", 24), ("w", 7 * 24)]
        .into_iter()
        .find_map(|(unit, hours)| Some((text.strip_suffix(unit)?, hours)))?;
    let number: i64 = number.bytes().all(|digit| digit.is_ascii_digit()).then(|| number.parse().ok())??;
    // More than a century is a mistake.
    (1..=36_525 * 24).contains(&number.checked_mul(each)?).then(|| SignedDuration::from_hours(number * each))
}

#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Look once, print and end
    #[arg(long)]
    pub(crate) once: bool,

    /// Print all since the server started, and of sessions and channels since they began
    #[arg(long, conflicts_with = "seconds")]
    pub(crate) total: bool,

    /// Look at so many seconds; without --once, so often
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=3_600))]
    pub(crate) seconds: u16,
}

const WHY_EXAMPLES: &str = "\
Examples:
  multilane why                  of the share that suffers most
  multilane why media            of one share
  multilane why 1099511627783    of one session; `multilane sessions` shows their numbers
  multilane why media --json

docs/WHY.md says what each cause means.";

#[derive(Debug, Args)]
pub(crate) struct Why {
    /// A share's name or a session's number [default: the share that suffers most]
    #[arg(value_name = "SHARE|SESSION")]
    pub(crate) about: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServerCommand {
    /// The addresses, for clients that open more channels
    Interfaces,
    /// What each option of `serve` is, and where that comes from
    Settings,
    /// Change a setting that is kept
    #[command(after_help = SET_EXAMPLES)]
    Set {
        #[command(subcommand)]
        setting: SettingChange,
    },
    /// Forget a setting that is kept, so that its default counts again
    Unset {
        /// Its name in `server settings`
        name: String,
    },
}

const SET_EXAMPLES: &str = "\
Examples:
  multilane server set sealing required
  multilane server set dialect-min 2.0.2
  multilane server set busy-poll 200us
  multilane server set advertise 203.0.113.7,speed=25G,rss
  multilane server set lock-after 10

A change counts at once in the running server, for who connects or signs in from then on (busy-poll for everybody), and is kept.
What `serve` is started with counts before it. Options that are not listed here need a restart: they stand in the settings file.";

/// What `multilane rest` does.
#[derive(Debug, Subcommand)]
pub(crate) enum RestCommand {
    /// Print what the service's clients are told an account by, with its first key
    #[command(
        after_help = "Examples:\n  multilane rest connection-string\n  az storage share list --connection-string \"$(multilane rest connection-string local)\""
    )]
    ConnectionString {
        /// The account [default: the one there is]
        account: Option<AccountName>,
    },
}

/// A setting and its new value.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum SettingChange {
    /// Whether every client must sign
    Signing { value: When },
    /// Whether every client must encrypt
    Sealing { value: When },
    /// The oldest dialect to accept: 2.0.2, 2.1, 3.0, 3.0.2 or 3.1.1
    DialectMin { value: Dialect },
    /// The most connections one session may use at once, where its account has multichannel on
    ChannelsMax {
        #[arg(value_parser = clap::value_parser!(u8).range(1..=CHANNELS_MAX))]
        value: u8,
    },
    /// How long threads that have nothing to do look for more before they sleep: off, auto, or a time such as 200us
    BusyPoll { value: BusyPolling },
    /// Addresses that clients are told of, beside the machine's own
    Advertise {
        #[arg(required = true, value_name = "ADDRESS[,speed=25G][,rss]", value_parser = control::parse_advertised)]
        value: Vec<AdvertisedAddress>,
    },
    /// Tell clients of no other addresses than those, or of the machine's own, too
    AdvertiseOnly {
        #[arg(value_name = "on|off")]
        value: Switch,
    },
    /// Whether a session may be signed in again as the anonymous user
    Anonymous { value: WhereAnonymous },
    /// Where to listen; it counts when the server starts again
    Listen {
        #[arg(required = true, value_name = "ADDRESS:PORT", value_parser = place)]
        value: Vec<SocketAddr>,
    },
    /// Lock users after so many wrong passwords, from 3 to 1000, or never: off. Who can reach the server can lock whomever he likes then
    LockAfter { value: LockAfter },
    /// How long a user stays locked, from 1m to 24h, unless `user unlock` ends it [at first: 15m]
    LockFor { value: LockFor },
    /// The fewest characters that new passwords of users have, 1 to 64 [at first: 8]. Those that are there stay, and keys are no passwords
    PasswordLengthMin {
        #[arg(value_name = "N")]
        value: PasswordLength,
    },
    #[command(external_subcommand)]
    Other(Vec<OsString>),
}

const STATUS_EXIT_CODES: &str = "\
Exit codes: 0 the server is ready, 1 that cannot be seen, 2 the command line is wrong,
3 no server runs on the data folder, 4 one runs and is not ready, 5 there is no data folder.";

#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// Show what is logged, or change it until the server ends
    #[command(
        after_help = "Examples:\n  multilane log level\n  multilane log level debug\n  multilane log level server=debug,warn"
    )]
    Level {
        /// A level (off, error, warn, info, debug, trace), or levels of parts, separated by commas
        filter: Option<Filter>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CloseCommand {
    /// End a session with all its channels
    Session {
        /// Its number in `multilane sessions`
        #[arg(value_parser = id)]
        id: u64,
    },
    /// End all sessions of a user, or of the holders of an account's keys. A client that knows the password signs in again: see `multilane user
    /// disable` and `passwd`
    Sessions {
        /// The name that they signed in with
        #[arg(long, value_name = "NAME")]
        user: UserName,
    },
    /// Close an open file or folder, as if its client had
    Open {
        /// Its number in `multilane open-files`
        #[arg(value_parser = id)]
        id: u64,
    },
}

fn place(text: &str) -> Result<SocketAddr, Error> {
    let remedy = "use an address of this machine and a port, such as 192.0.2.7:445, [2001:db8::7]:445 or localhost:4450, and no other name";
    // Whatever a resolver would say, it is this.
    let named = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    named
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| Error::argument(format!("{text:?} is no place to listen"), remedy))
}

/// The latency of a simulated store: `0.5`, `2`, at most a second.
pub(crate) fn milliseconds(text: &str) -> Result<Duration, Error> {
    let seconds = text.parse::<f64>().ok().map(|milliseconds| milliseconds / 1e3);
    let latency = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    latency.filter(|latency| !latency.is_zero() && *latency <= Duration::from_secs(1)).ok_or_else(|| {
        Error::argument(
            format!("{text:?} is no latency in milliseconds"),
            "use a number above 0 and up to 1000, such as 2 or 0.5",
        )
    })
}

fn id(text: &str) -> Result<u64, Error> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| Error::argument(format!("{text:?} is no number"), "use a number from the list"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_expires_at_a_time_at_the_end_of_a_day_after_a_span_or_never() {
        let at = |text: &str| expiry(text).unwrap().0;
        let time: Timestamp = "2027-01-31T18:00:00Z".parse().unwrap();
        assert_eq!((at("2027-01-31T18:00:00Z"), at("never")), (Some(time), None));
        assert_eq!(at("2027-01-31"), "2027-02-01T00:00:00Z".parse().ok());
        for (text, hours) in [("+30d", 720), ("+12h", 12), ("+4w", 672)] {
            let after = at(text).unwrap().duration_since(Timestamp::now()).as_secs();
            assert!((hours * 3600 - 60..=hours * 3600).contains(&after), "{text}: {after}");
        }
        for wrong in [
            "",
            "tomorrow",
            "2027-13-01",
            "30d",
            "+",
            "+d",
            "+0d",
            "+-3d",
            "+99999999999999999999d",
            "+soon",
            "9999-12-31T23:59:59Z0",
        ] {
            assert!(expiry(wrong).is_err(), "{wrong:?}");
        }
    }
}
