//! The command line of `multilane share`.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use control::{AccountName, BelievedFor, Error, Grantee, ShareName, SnapshotTime, UnixOwner};
use server::admin::{AuditClass, AuditClasses, HostsAllowed, ShareRight, UnknownClass, UnknownRight};

use super::provision::{CHANGES, ProvisionChange, ProvisionCreate};
use crate::arguments::Switch;
use crate::unix_owner;

const SHARE_EXAMPLES: &str = "\
Examples:
  multilane share create media --path /srv/media --read-only
  multilane share create team --path /srv/team --quota 500G --account projects --seal
  multilane share create hr --path /srv/hr --grant staff=change,auditors=read
  multilane share create far --path /mnt/nfs/files --exclusive
  multilane share create fast --path /srv/fast --provisioned 1024 --iops 10000 --mibps 500
  multilane share create books --path /srv/books --audit write,delete,security,sign-in
  multilane share create backups --path /srv/backups --time-machine 2T
  multilane share create scratch --ram 64M";

const GRANT_EXAMPLES: &str = "\
Examples:
  multilane share grant media editors change
  multilane share grant media everyone read
  multilane share revoke media everyone

The keys of the share's account always may do everything. What the descriptors of files do not grant, no right on the share does.";

#[derive(Debug, Subcommand)]
pub(crate) enum ShareCommand {
    /// Share a folder or a RAM disk
    #[command(after_help = SHARE_EXAMPLES)]
    Create(ShareCreate),
    /// List the shares
    List {
        /// List those that are deleted and kept
        #[arg(long)]
        deleted: bool,
    },
    /// Show one share
    Show {
        /// Its name
        name: ShareName,
    },
    /// Change a share
    #[command(
        after_help = "Examples:\n  multilane share update media --read-only off --quota none\n  multilane share update media --path /srv/new/media --name films"
    )]
    Update(ShareUpdate),
    /// Say who may connect to a share, and what they may do there at most. With the first right that is granted by name, everybody else of
    /// the account may connect no longer
    #[command(after_help = GRANT_EXAMPLES)]
    Grant {
        /// The share
        name: ShareName,
        /// A user, a group, or `everyone` for all of the share's account
        who: Grantee,
        /// The most: read, change (make, write, rename, delete) or full (descriptors and owners, too)
        #[arg(value_parser = right)]
        right: ShareRight,
    },
    /// Take a right on a share away; it counts at once
    Revoke {
        /// The share
        name: ShareName,
        /// A user, a group, or `everyone`
        who: Grantee,
    },
    /// List who may connect to a share
    Grants {
        /// The share
        name: ShareName,
    },
    /// Take a share away: a folder that was named for it keeps its files, one that was made for it and a RAM disk lose them. Where its account keeps deleted
    /// shares, `share undelete` has it there again
    Delete {
        /// Its name
        name: ShareName,
        /// Close what clients have open on it, and ask nothing
        #[arg(long)]
        force: bool,
    },
    /// Make a snapshot of a share that is on btrfs: all its files as they are now, for clients of the REST interface to read. The server has to run
    Snapshot {
        /// The share
        name: ShareName,
    },
    /// List the snapshots of a share
    Snapshots {
        /// The share
        name: ShareName,
    },
    /// Delete a snapshot of a share: what only it has is gone, and its space is given back
    DeleteSnapshot {
        /// The share
        name: ShareName,
        /// Its time, as `share snapshots` says
        time: SnapshotTime,
        /// Ask nothing. A snapshot that a client has a lease of stays
        #[arg(long)]
        yes: bool,
        /// Ask nothing, and delete it whoever has a lease of it
        #[arg(long)]
        force: bool,
    },
    /// Have a deleted share there again, with its files and rights
    Undelete {
        /// The name that it had
        name: ShareName,
        /// Which of those that had it, as `share list --deleted` says [default: the one that was deleted last]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        /// Give it another name
        #[arg(long = "name", value_name = "NEW", value_parser = ShareName::for_new)]
        new_name: Option<ShareName>,
    },
    /// Have a deleted share be gone for good, before its time is over
    Purge {
        /// The name that it had
        name: ShareName,
        /// Which of those that had it [default: the one that was deleted last]
        #[arg(long, value_name = "VERSION")]
        version: Option<String>,
        /// Ask nothing
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ShareCreate {
    /// Its name, as in \\server\NAME
    #[arg(value_parser = ShareName::for_new)]
    pub(crate) name: ShareName,

    /// Share this folder [default: one that is made in the data folder, and goes with the share]
    #[arg(long, value_name = "DIR", conflicts_with = "ram")]
    pub(crate) path: Option<PathBuf>,

    /// Share memory of this size, such as 64M or 4G; it is empty after a restart
    #[arg(long, value_name = "SIZE", value_parser = control::parse_size)]
    pub(crate) ram: Option<NonZeroU64>,

    /// The most that clients may store, such as 500G or 2T; a number alone is GiB
    #[arg(long, value_name = "SIZE", conflicts_with = "ram", value_parser = gib)]
    pub(crate) quota: Option<NonZeroU32>,

    /// The account it belongs to [default: the oldest]
    #[arg(long, value_name = "NAME")]
    pub(crate) account: Option<AccountName>,

    /// Who may connect and what they may do there at most: users, groups or `everyone`, each with read, change or full, such as
    /// editors=change [default: everyone=full, until a right is granted by name]
    #[arg(long, value_name = "NAME=RIGHT[,...]", value_delimiter = ',', value_parser = grant)]
    pub(crate) grant: Vec<(Grantee, ShareRight)>,

    /// Refuse every change
    #[arg(long)]
    pub(crate) read_only: bool,

    /// Refuse clients that do not encrypt
    #[arg(long)]
    pub(crate) seal: bool,

    /// Keep clients' open files when the server restarts (persistent handles)
    #[arg(long, conflicts_with = "ram")]
    pub(crate) continuous: bool,

    /// List only what the reader may read (access-based enumeration)
    #[arg(long)]
    pub(crate) access_based: bool,

    /// From where it may be used: addresses and networks such as 192.0.2.0/24,2001:db8::/32 [default: any]
    #[arg(long, value_name = "CIDR[,CIDR]|any", value_parser = control::parse_hosts)]
    pub(crate) hosts_allow: Option<HostsAllowed>,

    /// Let Macs back up to it with Time Machine. SIZE, such as 2T, is the share's quota, too: a Mac begins to delete old backups when that is used up
    #[arg(long, value_name = "SIZE", num_args = 0..=1, value_parser = gib)]
    pub(crate) time_machine: Option<Option<NonZeroU32>>,

    /// What goes to the audit log: read, write, delete, security and sign-in with commas between them, or none [default: none]
    #[arg(long, value_name = "CLASSES", value_parser = audit)]
    pub(crate) audit: Option<AuditClasses>,

    /// Nobody but this server changes the folder: what is cached of its metadata holds until the server changes it, on NFS, CephFS, FUSE and
    /// overlay, too
    #[arg(long)]
    pub(crate) exclusive: bool,

    /// How long cached metadata is believed on file systems that tell of no changes, 0s to 60s, such as 500ms; with 0s they are asked each
    /// time [default: 1s]
    #[arg(long, value_name = "TIME")]
    pub(crate) believed: Option<BelievedFor>,

    /// Permissions of new files for other programs of this machine, such as 0664 [default: 0600]
    #[arg(long, value_name = "MODE", conflicts_with = "ram", value_parser = mode)]
    pub(crate) file_mode: Option<u32>,

    /// Permissions of new directories, such as 0775 [default: 0700]
    #[arg(long, value_name = "MODE", conflicts_with = "ram", value_parser = directory_mode)]
    pub(crate) directory_mode: Option<u32>,

    /// Whose new files and directories are on this machine, such as media or media:staff, by name or number [default: the server's own user]
    #[arg(long, value_name = "USER[:GROUP]", conflicts_with = "ram", value_parser = unix_owner::parse)]
    pub(crate) unix_owner: Option<UnixOwner>,

    /// What clients speak: SMB, for nothing else is served
    #[arg(long, value_name = "PROTOCOL", default_value = "SMB", value_parser = protocol)]
    pub(crate) protocol: Protocol,

    /// A sentence for people who browse
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(crate) comment: String,

    #[command(flatten)]
    pub(crate) provision: ProvisionCreate,
}

/// What clients of a share speak.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Protocol {
    /// SMB.
    Smb,
}

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("change").args(["new_name", "path", "quota", "read_only", "seal", "continuous", "access_based", "hosts_allow", "time_machine", "audit", "exclusive", "believed", "file_mode", "directory_mode", "unix_owner", "comment"]).args(CHANGES).required(true).multiple(true))]
pub(crate) struct ShareUpdate {
    /// Its name
    pub(crate) name: ShareName,

    /// Give it another name; what clients have open on it is closed
    #[arg(long = "name", value_name = "NEW", value_parser = ShareName::for_new)]
    pub(crate) new_name: Option<ShareName>,

    /// Share this folder from now on; what clients have open on it is closed, and no file is moved
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,

    /// Close what clients have open, for --name and --path, and ask nothing
    #[arg(long)]
    pub(crate) force: bool,

    /// The most that clients may store, such as 500G or 2T, or `none`
    #[arg(long, value_name = "SIZE", value_parser = quota)]
    pub(crate) quota: Option<Quota>,

    /// Refuse every change, or no longer
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on")]
    pub(crate) read_only: Option<Switch>,

    /// Refuse clients that do not encrypt, or no longer
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on")]
    pub(crate) seal: Option<Switch>,

    /// Keep clients' open files when the server restarts, or no longer
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on")]
    pub(crate) continuous: Option<Switch>,

    /// List only what the reader may read, or everything
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on")]
    pub(crate) access_based: Option<Switch>,

    /// From where it may be used from now on, also by who is connected: addresses and networks such as 192.0.2.0/24,2001:db8::/32, or any
    #[arg(long, value_name = "CIDR[,CIDR]|any", value_parser = control::parse_hosts)]
    pub(crate) hosts_allow: Option<HostsAllowed>,

    /// Let Macs back up to it with Time Machine, within this size, such as 2T, which becomes the share's quota; `off`: no longer, and the quota stays
    #[arg(long, value_name = "SIZE|off", num_args = 0..=1, default_missing_value = "on", value_parser = time_machine)]
    pub(crate) time_machine: Option<TimeMachine>,

    /// What goes to the audit log from now on: read, write, delete, security and sign-in with commas between them, or none
    #[arg(long, value_name = "CLASSES", value_parser = audit)]
    pub(crate) audit: Option<AuditClasses>,

    /// Nobody but this server changes the folder, which cached metadata then relies on, or others may
    #[arg(long, value_name = "on|off", num_args = 0..=1, default_missing_value = "on")]
    pub(crate) exclusive: Option<Switch>,

    /// How long cached metadata is believed on file systems that tell of no changes, 0s to 60s, such as 500ms
    #[arg(long, value_name = "TIME")]
    pub(crate) believed: Option<BelievedFor>,

    /// Permissions of files that are made from now on, such as 0664, or `none` for 0600
    #[arg(long, value_name = "MODE", value_parser = mode_or_default)]
    pub(crate) file_mode: Option<OrDefault<u32>>,

    /// Permissions of directories that are made from now on, such as 0775, or `none` for 0700
    #[arg(long, value_name = "MODE", value_parser = directory_mode_or_default)]
    pub(crate) directory_mode: Option<OrDefault<u32>>,

    /// Whose files and directories are that are made from now on, such as media:staff, or `none` for the server's own user
    #[arg(long, value_name = "USER[:GROUP]", value_parser = owner_or_default)]
    pub(crate) unix_owner: Option<OrDefault<UnixOwner>>,

    /// A sentence for people who browse
    #[arg(long, value_name = "TEXT")]
    pub(crate) comment: Option<String>,

    #[command(flatten)]
    pub(crate) provision: ProvisionChange,
}

/// A bound in GiB, or none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota(pub(crate) Option<NonZeroU32>);

/// A value, or what holds where nothing is said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OrDefault<T>(pub(crate) Option<T>);

fn directory_mode_or_default(text: &str) -> Result<OrDefault<u32>, Error> {
    if text == "none" { Ok(OrDefault(None)) } else { directory_mode(text).map(|mode| OrDefault(Some(mode))) }
}

fn mode_or_default(text: &str) -> Result<OrDefault<u32>, Error> {
    if text == "none" { Ok(OrDefault(None)) } else { mode(text).map(|mode| OrDefault(Some(mode))) }
}

fn owner_or_default(text: &str) -> Result<OrDefault<UnixOwner>, Error> {
    if text == "none" { Ok(OrDefault(None)) } else { unix_owner::parse(text).map(|owner| OrDefault(Some(owner))) }
}

fn quota(text: &str) -> Result<Quota, Error> {
    if text == "none" {
        return Ok(Quota(None));
    }
    gib(text).map(|gib| Quota(Some(gib)))
}

/// Whether Macs may back up to a share, and how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeMachine {
    /// They may not.
    Off,
    /// They may, within the quota that there is or none.
    On,
    /// They may, within this one, in GiB.
    Within(NonZeroU32),
}

fn time_machine(text: &str) -> Result<TimeMachine, Error> {
    match text {
        "off" => Ok(TimeMachine::Off),
        "on" => Ok(TimeMachine::On),
        size => gib(size).map(TimeMachine::Within),
    }
}

/// A size in whole GiB: `500G`, `2T`, or `500`.
pub(crate) fn gib(text: &str) -> Result<NonZeroU32, Error> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_suffix("IB").or_else(|| upper.strip_suffix('B')).unwrap_or(&upper);
    let letters = [('G', 1), ('T', 1 << 10), ('P', 1 << 20)];
    let (digits, gib_each) = letters
        .into_iter()
        .find_map(|(letter, gib_each)| Some((bare.strip_suffix(letter)?, gib_each)))
        .unwrap_or((&upper, 1));
    let number = digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse::<u32>().ok()).flatten();
    let gib = number.and_then(|number| number.checked_mul(gib_each)).and_then(NonZeroU32::new);
    gib.ok_or_else(|| {
        let remedy =
            "use a whole number with G or T, such as 500G; a number alone is GiB; `share update --quota none` has none";
        Error::argument(format!("{text:?} is no quota"), remedy)
    })
}

fn audit(text: &str) -> Result<AuditClasses, Error> {
    text.parse().map_err(|UnknownClass(word)| {
        let names = AuditClass::ALL.map(AuditClass::name).join(", ");
        let remedy = format!("use {names} with commas between them, or none alone");
        Error::argument(format!("{word:?} is nothing that can be audited"), remedy)
    })
}

fn right(text: &str) -> Result<ShareRight, Error> {
    text.parse().map_err(|UnknownRight(word)| {
        Error::argument(format!("{word:?} is no right on a share"), "use read, change or full")
    })
}

fn grant(text: &str) -> Result<(Grantee, ShareRight), Error> {
    let (who, word) = text.split_once('=').ok_or_else(|| {
        Error::argument(format!("{text:?} grants nothing"), "use NAME=read, NAME=change or NAME=full")
    })?;
    Ok((who.parse()?, right(word)?))
}

fn protocol(text: &str) -> Result<Protocol, Error> {
    match text.to_ascii_uppercase().as_str() {
        "SMB" => Ok(Protocol::Smb),
        "NFS" => Err(Error::argument("NFS is not served", "use SMB, or leave out --protocol")),
        _ => Err(Error::argument(format!("{text:?} is no protocol"), "use SMB, or leave out --protocol")),
    }
}

fn mode(text: &str) -> Result<u32, Error> {
    mode_such_as(text, "0664")
}

/// Who may list a directory needs the right to enter it, too.
fn directory_mode(text: &str) -> Result<u32, Error> {
    mode_such_as(text, "0775")
}

fn mode_such_as(text: &str, example: &str) -> Result<u32, Error> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| {
        Error::argument(format!("{text:?} is no mode"), format!("use octal digits from 0 to 777, such as {example}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_is_none_is_refused_with_one_that_fits() {
        assert_eq!((mode("0640").unwrap(), directory_mode("750").unwrap()), (0o640, 0o750));
        assert!(mode("0999").unwrap_err().remedy().ends_with("0664"));
        assert!(directory_mode("0999").unwrap_err().remedy().ends_with("0775"));
        assert!(directory_mode_or_default("x").is_err_and(|error| error.remedy().ends_with("0775")));
    }

    #[test]
    fn quotas_are_whole_gib_with_and_without_their_letter() {
        for (text, whole) in
            [("500", 500), ("500G", 500), ("500gib", 500), ("2T", 2048), ("2TB", 2048), ("1P", 1 << 20)]
        {
            assert_eq!(gib(text).unwrap().get(), whole, "{text}");
        }
        for wrong in
            ["", "0", "0G", "G", "-1", "+1", "1.5G", "500M", "GG", "1GG", "1TT", "4096P", "5IB", "5B", "none", "é"]
        {
            assert!(gib(wrong).is_err(), "{wrong:?}");
        }
        assert!(quota("none").unwrap().0.is_none());
    }

    #[test]
    fn time_machine_takes_a_size_or_off() {
        let within = |gib| TimeMachine::Within(NonZeroU32::new(gib).unwrap());
        assert_eq!(time_machine("2T").unwrap(), within(2048));
        assert_eq!(time_machine("off").unwrap(), TimeMachine::Off);
        assert_eq!(time_machine("on").unwrap(), TimeMachine::On);
        assert!(time_machine("none").is_err() && time_machine("").is_err());
    }
}
