//! The command line of the commands that are a client.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use control::Error;
use load::advise::share::PROVISIONED_GIB;

use super::place::{Either, Place, Server};
use crate::share::arguments::gib;

const PLACES: &str = "\
Places on servers: smb://[USER@]HOST[:PORT]/SHARE/PATH, \\\\HOST\\SHARE\\PATH or //HOST/SHARE/PATH
The password is taken from MULTILANE_PASSWORD, or from standard input with --password-stdin.";

const LIST_EXAMPLES: &str = "\
Examples:
  multilane ls smb://alice@nas              the shares of a server
  multilane ls --long smb://alice@nas/media

Places on servers: smb://[USER@]HOST[:PORT][/SHARE[/PATH]], \\\\HOST\\SHARE\\PATH or //HOST/SHARE/PATH
The password is taken from MULTILANE_PASSWORD, or from standard input with --password-stdin.";

const COPY_EXAMPLES: &str = "\
Examples:
  multilane cp ./photos smb://alice@nas/media/photos --threads 16
  multilane cp '\\\\nas\\media\\photos' ./photos --user alice --verify

What a directory holds is copied into TARGET, which is made where it is missing. Files that TARGET has already with the same
size and time are passed over, those that are newer there are refused without --force, and a file has a temporary name until it is whole: a copy that was interrupted goes on where it
was when the command is given again.
The password is taken from MULTILANE_PASSWORD, or from standard input with --password-stdin.";

const ADVISE_EXAMPLES: &str = "\
Examples:
  multilane advise --threads 8 --files 10 --block 4K --write 100
  multilane advise --threads 8 --files 10 --block 64K smb://alice@nas/media
  multilane advise --block 1M smb://alice@nas/media --measure
  multilane advise --block 4K --provisioned 1024

Without a server, this machine's links and a near server are assumed. With --measure the workload is tried for ten seconds with
one channel and with several, in turns, in test files that are removed afterwards. A gain is from how much to how much faster:
with a server that does much for each request, and with one that does little.
The password is taken from MULTILANE_PASSWORD, or from standard input with --password-stdin.";

pub(crate) const DOCTOR_EXAMPLES: &str = "\
Examples:
  multilane doctor
  multilane doctor smb://alice@nas
  multilane doctor smb://alice@nas/media --write-test --ram-share scratch

Each finding has what it is made from, and the command that mends it. With --write-test a file of 64 MiB is written to the share
and is gone afterwards; nothing else is changed anywhere.
Exit codes: 0 no problem, 1 problems were found, 2 it could not look.
The password is taken from MULTILANE_PASSWORD, or from standard input with --password-stdin.";

#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// List a directory on a server, or the server's shares
    #[command(after_help = LIST_EXAMPLES)]
    Ls(List),
    /// Copy a file or a directory from a server
    #[command(after_help = PLACES)]
    Get(Get),
    /// Copy a file or a directory to a server
    #[command(after_help = PLACES)]
    Put(Put),
    /// Copy a file, or what a directory holds, from a server or to one
    #[command(after_help = COPY_EXAMPLES)]
    Cp(Copy),
    /// Remove files and directories on a server
    #[command(after_help = PLACES)]
    Rm(Remove),
    /// Make a directory on a server
    #[command(after_help = PLACES)]
    Mkdir(Make),
    /// Show what a name on a server stands for
    #[command(after_help = PLACES)]
    Stat(Stat),
    /// How this machine is a client
    #[command(subcommand)]
    Client(ClientCommand),
    /// Say whether multichannel should be on for a workload, and what else would make it faster
    #[command(after_help = ADVISE_EXAMPLES)]
    Advise(Advise),
}

/// Who signs in.
#[derive(Debug, Args)]
pub(crate) struct Who {
    /// Sign in as this user, perhaps DOMAIN\USER [default: the one in smb://USER@HOST]
    #[arg(long, value_name = "NAME", env = "MULTILANE_USER")]
    pub(crate) user: Option<String>,

    /// Read the password from the first line of standard input
    #[arg(long)]
    pub(crate) password_stdin: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Login {
    #[command(flatten)]
    pub(crate) who: Who,

    /// Connections to use: 0 for as many as the network interfaces suggest, 1 for multichannel off
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=64))]
    pub(crate) channels: u8,

    /// Encrypt everything, or do nothing
    #[arg(long)]
    pub(crate) seal: bool,

    /// Change a setting of `multilane client configuration`, such as ConnectionCountPerRssNetworkInterface=2
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<Setting>,
}

/// A setting by Windows' name.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: String,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// The directory, or a server without a share
    pub(crate) place: Server,
    /// Show sizes and times, too; of shares what they are
    #[arg(long, short)]
    pub(crate) long: bool,
    #[command(flatten)]
    pub(crate) login: Login,
}

#[derive(Debug, Args)]
pub(crate) struct Stat {
    /// The file or directory
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) login: Login,
}

#[derive(Debug, Args)]
pub(crate) struct Make {
    /// The directory
    pub(crate) place: Place,
    /// Make those it is in, too; one that is there is no error
    #[arg(long, short)]
    pub(crate) parents: bool,
    #[command(flatten)]
    pub(crate) login: Login,
}

#[derive(Debug, Args)]
pub(crate) struct Remove {
    /// The file or directory
    pub(crate) place: Place,
    /// Remove what a directory holds, too
    #[arg(long, short)]
    pub(crate) recursive: bool,
    #[command(flatten)]
    pub(crate) login: Login,
}

/// How to copy.
#[derive(Debug, Args)]
pub(crate) struct How {
    /// Files to copy at once
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=128))]
    pub(crate) threads: u8,

    /// Read back what was copied and compare it; what differs is copied again, and it is an error where it differs still
    #[arg(long)]
    pub(crate) verify: bool,

    /// Copy everything, also files that the target has already with the same size and time, and those that are newer there
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) login: Login,
}

#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// What to copy
    pub(crate) source: Either,
    /// Where to
    pub(crate) target: Either,
    #[command(flatten)]
    pub(crate) how: How,
}

#[derive(Debug, Args)]
pub(crate) struct Get {
    /// What to copy
    pub(crate) source: Place,
    /// Where to [default: its name in the current directory]
    pub(crate) target: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) how: How,
}

#[derive(Debug, Args)]
pub(crate) struct Put {
    /// What to copy
    pub(crate) source: PathBuf,
    /// Where to
    pub(crate) target: Place,
    #[command(flatten)]
    pub(crate) how: How,
}

#[derive(Debug, Args)]
pub(crate) struct Advise {
    /// The server, with a share for --measure: smb://[USER@]HOST[:PORT][/SHARE[/PATH]]
    #[arg(value_name = "SERVER")]
    pub(crate) server: Option<Server>,

    /// Threads in all
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,

    /// Files they work on
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) files: u32,

    /// Bytes of one request, such as 4K or 1M
    #[arg(long, value_name = "SIZE", default_value = "64K", value_parser = block)]
    pub(crate) block: u32,

    /// Percent of writes
    #[arg(long, value_name = "PERCENT", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    pub(crate) write: u8,

    /// Requests of each thread in flight
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) outstanding: u32,

    /// Try it for ten seconds, in test files that are removed afterwards
    #[arg(long, requires = "server")]
    pub(crate) measure: bool,

    /// The share is one of Azure Files (premium, provisioned v1) with so many GiB
    #[arg(long = "provisioned", alias = "provisioned-gib", value_name = "GIB", value_parser = provisioned)]
    pub(crate) provisioned_gib: Option<u32>,

    #[command(flatten)]
    pub(crate) login: Login,
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The server, perhaps with a share: smb://[USER@]HOST[:PORT][/SHARE]
    #[arg(value_name = "SERVER")]
    pub(crate) server: Option<Server>,

    /// Write a test file to the share, to compare its disk with the network
    #[arg(long, requires = "server")]
    pub(crate) write_test: bool,

    /// A RAM disk of the same server, to compare with: it gets a test file, too
    #[arg(long, value_name = "NAME", requires = "write_test")]
    pub(crate) ram_share: Option<String>,

    #[command(flatten)]
    pub(crate) login: Login,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClientCommand {
    /// Show the client's settings, as Get-SmbClientConfiguration does
    Configuration {
        /// Print a table instead of a list
        #[arg(long)]
        table: bool,
        #[command(flatten)]
        login: Login,
    },
    /// Connect to a share with all channels and show them, as Get-SmbMultichannelConnection does
    #[command(after_help = PLACES)]
    Connections {
        /// The share
        place: Place,
        /// Print a table instead of a list
        #[arg(long)]
        table: bool,
        #[command(flatten)]
        login: Login,
    },
}

/// The most that one request may move.
const BLOCK_BYTES_MAX: u32 = 8 << 20;

fn block(text: &str) -> Result<u32, Error> {
    let wrong = || Error::argument(format!("{text:?} is no size of a request"), "use 1 to 8M, such as 4K or 1M");
    let bytes = control::parse_bytes(text).flatten().and_then(|bytes| u32::try_from(bytes).ok());
    bytes.filter(|bytes| (1..=BLOCK_BYTES_MAX).contains(bytes)).ok_or_else(wrong)
}

fn provisioned(text: &str) -> Result<u32, Error> {
    let gib = gib(text).ok().map(NonZeroU32::get).filter(|gib| PROVISIONED_GIB.contains(gib));
    gib.ok_or_else(|| {
        let (least, most) = (PROVISIONED_GIB.start(), PROVISIONED_GIB.end());
        Error::argument(format!("{text:?} GiB cannot be provisioned"), format!("use {least} to {most}"))
    })
}

fn setting(text: &str) -> Result<Setting, Error> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| Error::argument(format!("{text:?} sets nothing"), "use NAME=VALUE"))?;
    Ok(Setting { name: name.to_owned(), value: value.to_owned() })
}
