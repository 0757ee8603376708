//! The command line of what looks at the running server, or intervenes: `top`, `why`, `log` and `close`.

use clap::{Args, Subcommand};
use control::{Error, UserName};

use crate::log::Filter;

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
#[command(after_help = WHY_EXAMPLES)]
pub(crate) struct Why {
    /// A share's name or a session's number [default: the share that suffers most]
    #[arg(value_name = "SHARE|SESSION")]
    pub(crate) about: Option<String>,
}

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

fn id(text: &str) -> Result<u64, Error> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| Error::argument(format!("{text:?} is no number"), "use a number from the list"))
}
