//! The command line.

mod account;
mod live;
mod serve;
mod server;
mod user;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand};

pub(crate) use self::account::{AccountCommand, Retention};
pub(crate) use self::live::{CloseCommand, LogCommand, Top, Why};
pub(crate) use self::serve::Serve;
pub(crate) use self::server::{ServerCommand, SettingChange};
pub(crate) use self::user::UserCommand;
use self::values::place;
pub(crate) use self::values::{Switch, When, WhereAnonymous, milliseconds};
use crate::backup::{Backup, Restore};
use crate::catalog::CatalogCommand;
use crate::compare::arguments::Compare;
use crate::features::FeaturesCommand;
use crate::group::GroupCommand;
use crate::metrics::MetricsCommand;
use crate::operator::OperatorCommand;
use crate::principal::PrincipalCommand;
use crate::remote::arguments::{DOCTOR_EXAMPLES, Doctor, RemoteCommand};
use crate::rest::RestCommand;
use crate::share::arguments::ShareCommand;

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

const STATUS_EXIT_CODES: &str = "\
Exit codes: 0 the server is ready, 1 that cannot be seen, 2 the command line is wrong,
3 no server runs on the data folder, 4 one runs and is not ready, 5 there is no data folder.";

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
