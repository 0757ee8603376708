//! The command line of the commands that are a client.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use control::Error;

use super::place::{Either, Place};

const PLACES: &str = "\
Places on servers: smb://[USER@]HOST[:PORT]/SHARE/PATH, \\\\HOST\\SHARE\\PATH or //HOST/SHARE/PATH
The password is taken from MULTILANE_PASSWORD, or from standard input with --password-stdin.";

const COPY_EXAMPLES: &str = "\
Examples:
  multilane cp ./photos smb://alice@nas/media/photos --threads 16
  multilane cp '\\\\nas\\media\\photos' ./photos --user alice --verify

What a directory holds is copied into TARGET, which is made where it is missing. Files that TARGET has already with the same
size and time are passed over, and a file has a temporary name until it is whole: a copy that was interrupted goes on where it
was when the command is given again.
The password is taken from MULTILANE_PASSWORD, or from standard input with --password-stdin.";

#[derive(Debug, Subcommand)]
pub(crate) enum RemoteCommand {
    /// List a directory on a server
    #[command(after_help = PLACES)]
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
    /// The directory
    pub(crate) place: Place,
    /// Show sizes and times, too
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

    /// Read back what was copied and compare it
    #[arg(long)]
    pub(crate) verify: bool,

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

fn setting(text: &str) -> Result<Setting, Error> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| Error::argument(format!("{text:?} sets nothing"), "use NAME=VALUE"))?;
    Ok(Setting { name: name.to_owned(), value: value.to_owned() })
}
