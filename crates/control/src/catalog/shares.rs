//! Shares: what they are made of, how they are guarded, and how they change.

use std::num::NonZeroU32;
use std::path::PathBuf;

use jiff::Timestamp;
use rusqlite::{Connection, Transaction};
use server::admin::{AuditClasses, HostsAllowed, ShareRight};
use store::{Belief, UnixOwner};

use super::deleted::{refuse_of_other, refused_by_lease};
use super::share_rows::{all, find, insert, update};
use super::{Catalog, Changes, Grantee, Source, account_or_first, accounts, kept, provisions, share_rights, sources};
use crate::own_folder::OwnFolder;
use crate::share_lease::may_use;
use crate::{
    AccountName, AzureShare, BeliefChanges, Error, LeaseTime, LimitChanges, Provision, ProvisionChanges, Provisioned,
    Reason, ShareLimits, ShareName,
};

/// Shares on one server: each has a store that stays open.
const SHARES_MAX: i64 = 1000;
/// The most characters in a comment.
const COMMENT_MAX: usize = 256;

/// The permissions that new files and directories of a folder have on this machine, where nothing is said 0600 and 0700, and whose they are, where nothing
/// is said the server's own user's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Of files.
    pub file: Option<u32>,
    /// Of directories.
    pub directory: Option<u32>,
    /// Their owner.
    pub owner: Option<UnixOwner>,
}

/// What to change about these; `None` leaves a thing as it is, `Some(None)` has it be as where nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModeChanges {
    /// Of files.
    pub file: Option<Option<u32>>,
    /// Of directories.
    pub directory: Option<Option<u32>>,
    /// Their owner.
    pub owner: Option<Option<UnixOwner>>,
}

impl Modes {
    fn changed(self, changes: ModeChanges) -> Self {
        Modes {
            file: changes.file.unwrap_or(self.file),
            directory: changes.directory.unwrap_or(self.directory),
            owner: changes.owner.unwrap_or(self.owner),
        }
    }
}

/// A share to be made.
#[derive(Clone, Debug)]
pub struct NewShare {
    /// Its name.
    pub name: ShareName,
    /// Its account; the oldest where none is named.
    pub account: Option<AccountName>,
    /// Where its files live. A folder without a path is made for it in the data folder, and goes with it.
    pub source: Source,
    /// Refuse every change.
    pub read_only: bool,
    /// Refuse clients that do not seal.
    pub seal_required: bool,
    /// Keep clients' opens when the server restarts. Only folders can.
    pub continuous: bool,
    /// List only what the reader may read.
    pub access_based: bool,
    /// From where it may be used.
    pub hosts: HostsAllowed,
    /// Macs may back up to it with Time Machine.
    pub time_machine: bool,
    /// What of it is audited.
    pub audit: AuditClasses,
    /// How long a folder's files are believed to be as they are known, where that is not the default.
    pub belief: BeliefChanges,
    /// The permissions of what is made in a folder.
    pub modes: Modes,
    /// A sentence for people who browse.
    pub comment: String,
    /// What to provision it with; then its source has no quota. Shares of some accounts must be, those of others cannot.
    pub provision: Option<Provision>,
    /// The operator's own limits.
    pub limits: ShareLimits,
}

impl NewShare {
    /// One of which nothing else is asked.
    pub fn new(name: ShareName, source: Source) -> Self {
        NewShare {
            name,
            account: None,
            source,
            read_only: false,
            seal_required: false,
            continuous: false,
            access_based: false,
            hosts: HostsAllowed::Any,
            time_machine: false,
            audit: AuditClasses::NONE,
            belief: BeliefChanges::default(),
            modes: Modes::default(),
            comment: String::new(),
            provision: None,
            limits: ShareLimits::default(),
        }
    }
}

/// A share in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareRecord {
    /// A number that names it for its life and no other share after it.
    pub id: i64,
    /// Its name, in the case it was given.
    pub name: String,
    /// Its account.
    pub account: String,
    /// Where its files live.
    pub source: Source,
    /// Refuse every change.
    pub read_only: bool,
    /// Refuse clients that do not seal.
    pub seal_required: bool,
    /// Keep clients' opens when the server restarts. Only folders can.
    pub continuous: bool,
    /// List only what the reader may read.
    pub access_based: bool,
    /// From where it may be used.
    pub hosts: HostsAllowed,
    /// Macs may back up to it with Time Machine.
    pub time_machine: bool,
    /// What of it is audited.
    pub audit: AuditClasses,
    /// How long its files are believed to be as they are known, where nobody tells of changes. Nobody else changes a RAM disk.
    pub belief: Belief,
    /// The permissions of what is made in a folder.
    pub modes: Modes,
    /// A sentence for people who browse.
    pub comment: String,
    /// What it is provisioned with, if it is.
    pub provisioned: Option<Provisioned>,
    /// The operator's own limits.
    pub limits: ShareLimits,
}

/// What to change about a share; `None` leaves a thing as it is.
#[derive(Clone, Debug, Default)]
pub struct ShareChanges {
    /// A new name.
    pub name: Option<ShareName>,
    /// Another folder. Only shares of folders have one.
    pub path: Option<PathBuf>,
    /// A new quota, or none. Only folders have one.
    pub quota_gib: Option<Option<NonZeroU32>>,
    /// Refuse every change, or not.
    pub read_only: Option<bool>,
    /// Refuse clients that do not seal, or not.
    pub seal_required: Option<bool>,
    /// Keep clients' opens when the server restarts, or not.
    pub continuous: Option<bool>,
    /// List only what the reader may read, or everything.
    pub access_based: Option<bool>,
    /// From where it may be used from now on.
    pub hosts: Option<HostsAllowed>,
    /// Macs may back up to it with Time Machine, or no longer.
    pub time_machine: Option<bool>,
    /// What of it is audited from now on.
    pub audit: Option<AuditClasses>,
    /// How long a folder's files are believed to be as they are known.
    pub belief: BeliefChanges,
    /// The permissions and the owner of what is made in a folder from now on.
    pub modes: ModeChanges,
    /// A new comment.
    pub comment: Option<String>,
    /// Other provisioned values, or none.
    pub provision: Option<ProvisionUpdate>,
    /// Other limits of the operator's own.
    pub limits: LimitChanges,
}

/// What becomes of what a share is provisioned with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProvisionUpdate {
    /// It has these values. A share that was not provisioned needs a size among them.
    Change(ProvisionChanges),
    /// It is provisioned no longer, and a folder has no quota. Only shares of local accounts.
    Remove,
}

impl Catalog {
    /// Makes a share. A folder must exist, and answer within two seconds, and must not hold the data folder, which would give away every key.
    pub fn create_share(&mut self, new: &NewShare) -> Result<ShareRecord, Error> {
        self.create_share_for(new, &[])
    }

    /// The same for those who are granted a right on it, and nobody else of its account, from its first moment on; for all of them where nobody is named.
    pub fn create_share_for(
        &mut self,
        new: &NewShare,
        granted: &[(Grantee, ShareRight)],
    ) -> Result<ShareRecord, Error> {
        self.create_share_with(new, granted, AzureShare::default())
    }

    /// The same with what clients of Azure Files keep of it.
    pub fn create_share_with(
        &mut self,
        new: &NewShare,
        granted: &[(Grantee, ShareRight)],
        kept: AzureShare,
    ) -> Result<ShareRecord, Error> {
        self.create_share_at(new, granted, kept, Timestamp::now())
    }

    /// The same at `now`.
    pub(crate) fn create_share_at(
        &mut self,
        new: &NewShare,
        granted: &[(Grantee, ShareRight)],
        kept: AzureShare,
        now: Timestamp,
    ) -> Result<ShareRecord, Error> {
        kept.check()?;
        check_comment(&new.comment)?;
        let (source, made) = self.place_of(new)?;
        check_continuous(&source, new.continuous)?;
        let belief = new.belief.of_new(&source)?;
        self.write(|transaction| {
            let (account_id, account) = account_or_first(transaction, new.account.as_ref())?;
            room_for_share(transaction)?;
            refuse_taken(transaction, &new.name, None)?;
            let account = accounts::find(transaction, &account)?;
            let provisioned = provisions::of_new(&account, new.provision, now)?;
            if provisioned.is_some() && source.quota_gib().is_some() {
                return Err(provisioned_is_quota());
            }
            let share = record_of(new, source, account.name.clone(), (belief, provisioned));
            check_terms(&share)?;
            provisions::check_room(transaction, &account, &share)?;
            insert(transaction, &share, account_id)?;
            let share = one(transaction, &new.name)?;
            kept::put(transaction, share.id, kept, now)?;
            for (to, right) in granted {
                share_rights::grant_on(transaction, &share, to, *right)?;
            }
            Ok(share)
        })
        .inspect(|_| made.into_iter().for_each(OwnFolder::keep))
    }

    /// Where a new share's files are to live: in the folder that is named, or in one that is made for it.
    fn place_of(&self, new: &NewShare) -> Result<(Source, Option<OwnFolder>), Error> {
        let Source::Folder { path, quota_gib } = &new.source else { return Ok((new.source.clone(), None)) };
        if !path.as_os_str().is_empty() {
            return Ok((sources::checked(&new.source, Changes::of(new.read_only), &self.folder)?, None));
        }
        let made = OwnFolder::make(&self.folder, &new.name)?;
        Ok((Source::Folder { path: made.path().to_owned(), quota_gib: *quota_gib }, Some(made)))
    }

    /// All shares, by name.
    pub fn shares(&self) -> Result<Vec<ShareRecord>, Error> {
        all(&self.connection)
    }

    /// One share, whatever the case of its name.
    pub fn share(&self, name: &ShareName) -> Result<ShareRecord, Error> {
        one(&self.connection, name)
    }

    /// Changes a share; gives it as it is then.
    pub fn update_share(&mut self, name: &ShareName, changes: &ShareChanges) -> Result<ShareRecord, Error> {
        self.update_share_at(name, changes, Timestamp::now())
    }

    /// Changes a share of an account, and what is kept of it, for who names this lease, or none.
    pub fn update_share_of(
        &mut self,
        account: &AccountName,
        name: &ShareName,
        changes: &ShareChanges,
        lease: Option<&str>,
        keep: impl FnOnce(&mut AzureShare, Timestamp),
    ) -> Result<ShareRecord, Error> {
        let now = Timestamp::now();
        self.update_share_where(name, changes, now, |transaction, share| {
            refuse_of_other(share, account)?;
            let mut kept = kept::of_share(transaction, share.id)?;
            may_use(kept.lease.as_ref(), lease, LeaseTime::now()).map_err(refused_by_lease)?;
            keep(&mut kept, now);
            kept::put(transaction, share.id, kept, now)
        })
    }

    /// The same at `now`.
    pub(crate) fn update_share_at(
        &mut self,
        name: &ShareName,
        changes: &ShareChanges,
        now: Timestamp,
    ) -> Result<ShareRecord, Error> {
        self.update_share_where(name, changes, now, |_, _| Ok(()))
    }

    /// The same where `check` does not mind.
    fn update_share_where(
        &mut self,
        name: &ShareName,
        changes: &ShareChanges,
        now: Timestamp,
        check: impl FnOnce(&Transaction<'_>, &ShareRecord) -> Result<(), Error>,
    ) -> Result<ShareRecord, Error> {
        changes.comment.as_deref().map_or(Ok(()), check_comment)?;
        let folder = self.changed_folder(name, changes)?;
        self.write(|transaction| {
            let mut share = one(transaction, name)?;
            check(transaction, &share)?;
            if let (Some(folder), Source::Folder { path, .. }) = (&folder, &mut share.source) {
                path.clone_from(folder);
            }
            if let Some(change) = changes.provision {
                let account = accounts::find(transaction, &share.account)?;
                let before = share.provisioned;
                share.provisioned = provisions::changed(&account, &share, change, now)?;
                if share.provisioned != before {
                    set_quota(&mut share);
                }
                provisions::check_room(transaction, &account, &share)?;
            }
            if let Some(name) = &changes.name {
                refuse_taken(transaction, name, Some(share.id))?;
                name.as_str().clone_into(&mut share.name);
            }
            apply(changes, &mut share)?;
            check_terms(&share)?;
            update(transaction, &share)?;
            kept::touch(transaction, share.id, now)?;
            Ok(share)
        })
    }

    /// The folder that a share is changed to have, where that may be: it is looked at before the catalog is locked.
    fn changed_folder(&self, name: &ShareName, changes: &ShareChanges) -> Result<Option<PathBuf>, Error> {
        let opens_up = changes.read_only == Some(false);
        if changes.path.is_none() && !opens_up {
            return Ok(None);
        }
        let share = self.share(name)?;
        let Source::Folder { path, quota_gib } = share.source else {
            return if changes.path.is_some() { Err(ram_has_no_folder()) } else { Ok(None) };
        };
        if changes.path.is_none() && !share.read_only {
            return Ok(None);
        }
        let source = Source::Folder { path: changes.path.clone().unwrap_or(path), quota_gib };
        let changes_allowed = Changes::of(changes.read_only.unwrap_or(share.read_only));
        match sources::checked(&source, changes_allowed, &self.folder)? {
            Source::Folder { path, .. } => Ok(changes.path.is_some().then_some(path)),
            Source::Ram { .. } => Ok(None),
        }
    }

    /// Changes a share's limits; gives the share as it is now, and the limits it had.
    pub(crate) fn change_limits(
        &mut self,
        name: &ShareName,
        limits: LimitChanges,
    ) -> Result<(ShareRecord, ShareLimits), Error> {
        self.write(|transaction| {
            let mut share = one(transaction, name)?;
            let before = share.limits;
            apply(&ShareChanges { limits, ..ShareChanges::default() }, &mut share)?;
            check_terms(&share)?;
            update(transaction, &share)?;
            Ok((share, before))
        })
    }
}

/// Refuses one more share than a server takes. Those that are deleted have no store.
pub(super) fn room_for_share(transaction: &Transaction<'_>) -> Result<(), Error> {
    let select = "SELECT count(*) FROM share WHERE deleted IS NULL";
    let shares: i64 = transaction.query_row(select, [], |row| row.get(0))?;
    if shares < SHARES_MAX {
        return Ok(());
    }
    let what = format!("there are {shares} shares, as many as one server takes");
    Err(Error::conflict(what, "take a share away first").because(Reason::TooManyShares))
}

/// The share that is to be made; its id comes with its row.
fn record_of(
    new: &NewShare,
    source: Source,
    account: String,
    (belief, provisioned): (Belief, Option<Provisioned>),
) -> ShareRecord {
    let mut share = ShareRecord {
        id: 0,
        name: new.name.to_string(),
        account,
        source,
        read_only: new.read_only,
        seal_required: new.seal_required,
        continuous: new.continuous,
        access_based: new.access_based,
        hosts: new.hosts.clone(),
        time_machine: new.time_machine,
        audit: new.audit,
        belief,
        modes: new.modes,
        comment: new.comment.clone(),
        provisioned,
        limits: new.limits,
    };
    if share.provisioned.is_some() {
        set_quota(&mut share);
    }
    share
}

/// Makes the changes that nothing but the share itself decides about.
fn apply(changes: &ShareChanges, share: &mut ShareRecord) -> Result<(), Error> {
    if let Some(quota) = changes.quota_gib {
        match &mut share.source {
            Source::Folder { .. } if share.provisioned.is_some() => return Err(provisioned_is_quota()),
            Source::Folder { quota_gib, .. } => *quota_gib = quota,
            Source::Ram { .. } => return Err(ram_has_no_quota()),
        }
    }
    share.read_only = changes.read_only.unwrap_or(share.read_only);
    share.seal_required = changes.seal_required.unwrap_or(share.seal_required);
    if let Some(comment) = &changes.comment {
        share.comment.clone_from(comment);
    }
    if changes.modes != ModeChanges::default() && matches!(share.source, Source::Ram { .. }) {
        return Err(Error::argument(
            format!("share {:?} is a RAM disk, whose files are nowhere on this machine", share.name),
            "leave out --file-mode, --directory-mode and --unix-owner",
        ));
    }
    share.modes = share.modes.changed(changes.modes);
    share.continuous = changes.continuous.unwrap_or(share.continuous);
    share.access_based = changes.access_based.unwrap_or(share.access_based);
    changes.hosts.iter().for_each(|hosts| share.hosts.clone_from(hosts));
    share.time_machine = changes.time_machine.unwrap_or(share.time_machine);
    share.audit = changes.audit.unwrap_or(share.audit);
    share.belief = changes.belief.over(&share.source, share.belief)?;
    share.limits = share.limits.changed(changes.limits);
    Ok(())
}

/// A folder may hold what is provisioned, or any amount where nothing is.
fn set_quota(share: &mut ShareRecord) {
    if let Source::Folder { quota_gib, .. } = &mut share.source {
        *quota_gib = share.provisioned.and_then(|provisioned| NonZeroU32::new(provisioned.gib));
    }
}

/// Fails where parts of the share contradict each other.
fn check_terms(share: &ShareRecord) -> Result<(), Error> {
    check_continuous(&share.source, share.continuous)?;
    share.limits.check()?;
    let Some(provisioned) = &share.provisioned else { return Ok(()) };
    share.limits.check_provisioned()?;
    match share.source {
        Source::Ram { bytes } if bytes.get() > u64::from(provisioned.gib) << 30 => Err(Error::argument(
            format!("the RAM disk of {bytes} bytes is larger than the {} GiB that are provisioned", provisioned.gib),
            "give --provisioned at least the size that --ram says",
        )),
        Source::Ram { .. } | Source::Folder { .. } => Ok(()),
    }
}

/// The size that is provisioned is all the quota of a share.
fn provisioned_is_quota() -> Error {
    Error::conflict(
        "the quota of a provisioned share is the size that is provisioned",
        "change --provisioned, and leave out --quota",
    )
}

/// What a RAM disk holds does not survive a restart, so no open of it can.
fn check_continuous(source: &Source, continuous: bool) -> Result<(), Error> {
    match source {
        Source::Ram { .. } if continuous => Err(Error::argument(
            "a RAM disk cannot be continuously available: it is empty after a restart",
            "share a folder, or leave out --continuous",
        )),
        Source::Ram { .. } | Source::Folder { .. } => Ok(()),
    }
}

/// Refuses the name of a share that has another number than `own`.
pub(super) fn refuse_taken(transaction: &Transaction<'_>, name: &ShareName, own: Option<i64>) -> Result<(), Error> {
    match find(transaction, name)? {
        Some(taken) if Some(taken.id) != own => Err(Error::conflict(
            format!("a share named {:?} exists already, of account {:?}", taken.name, taken.account),
            "choose another name: a client's path names the server and the share, but no account",
        )
        .because(Reason::ShareExists)),
        Some(_) | None => Ok(()),
    }
}

/// A RAM disk has no place.
fn ram_has_no_folder() -> Error {
    Error::argument("a RAM disk has no folder", "make another share of the folder, with `share create`")
}

/// A RAM disk's size is all the quota it has.
fn ram_has_no_quota() -> Error {
    Error::argument("a RAM disk has no quota", "its size is what --ram said: leave out --quota")
}

pub(super) fn check_comment(comment: &str) -> Result<(), Error> {
    if comment.chars().count() <= COMMENT_MAX && !comment.contains(char::is_control) {
        return Ok(());
    }
    let remedy = format!("use at most {COMMENT_MAX} characters on one line");
    Err(Error::argument("the comment is too long or has control characters", remedy))
}

/// One share, whatever the case of its name.
pub(super) fn one(connection: &Connection, name: &ShareName) -> Result<ShareRecord, Error> {
    find(connection, name)?.ok_or_else(|| no_share(name))
}

fn no_share(name: &ShareName) -> Error {
    Error::missing(format!("there is no share {:?}", name.as_str()), "`multilane share list` shows those there are")
        .because(Reason::NoShare)
}
