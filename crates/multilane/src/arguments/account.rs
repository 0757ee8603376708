//! The command line of `account`.

use std::str::FromStr;

use clap::{ArgGroup, Subcommand};
use control::{AccountKind, AccountName, Error, Grace, Region, Sku};

use super::Switch;

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

impl FromStr for Retention {
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
