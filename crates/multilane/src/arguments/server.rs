//! The command line of `server`.

use std::ffi::OsString;
use std::net::SocketAddr;

use clap::Subcommand;
use control::{BusyPolling, Dialect, LockAfter, LockFor, PasswordLength};
use server::admin::AdvertisedAddress;

use super::values::{CHANNELS_MAX, Switch, When, WhereAnonymous, place};

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
