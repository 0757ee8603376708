//! Deleting shares: for good, or for as many days as their account keeps them.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Transaction, params};

use super::accounts::Account;
use super::shares::{one, refuse_taken, room_for_share};
use super::{Catalog, ShareRecord, Source, accounts, kept, provisions, share_rows};
use crate::gone::{empty_gone, set_aside, set_aside_snapshots};
use crate::own_folder::is_own;
use crate::share_lease::may_change;
use crate::{AccountName, Error, LeaseTime, Reason, ShareName};

/// Deleted shares of one account that are kept, as many as there can be shares: who makes and deletes them fills neither the catalog nor the folder for them.
const KEPT_MAX: i64 = 1000;

/// A share that was deleted, and can be had again for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedShare {
    /// The share as it was.
    pub share: ShareRecord,
    /// When it was deleted.
    pub deleted: Timestamp,
    /// When it is gone for good.
    pub kept_until: Timestamp,
}

/// What came of deleting a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It can be had again.
    Kept(DeletedShare),
    /// It is gone, and the folder that somebody named for it keeps its files.
    FilesStay(ShareRecord),
    /// It is gone with its files: on a RAM disk, or in a folder that the server made for it.
    FilesGo(ShareRecord),
}

impl Deletion {
    /// The share as it was.
    pub fn share(&self) -> &ShareRecord {
        match self {
            Deletion::Kept(DeletedShare { share, .. }) | Deletion::FilesStay(share) | Deletion::FilesGo(share) => share,
        }
    }
}

impl DeletedShare {
    /// What tells it from others of its name.
    pub fn version(&self) -> String {
        format!("{:016X}", self.share.id)
    }

    /// The days that are left, begun ones among them.
    pub fn days_left(&self, now: Timestamp) -> i64 {
        let left = self.kept_until.as_second().saturating_sub(now.as_second()).max(0);
        (left + 86_399) / 86_400
    }
}

/// Refuses to delete one more share of an account that keeps as many as it may: nothing goes that was promised to be kept.
fn room_for_kept(transaction: &Transaction<'_>, account: &Account, now: Timestamp) -> Result<(), Error> {
    let select = "SELECT count(*) FROM share WHERE deleted IS NOT NULL AND kept_until > ?2 AND account = ?1";
    let kept: i64 = transaction.query_row(select, params![account.relative_id, now.as_second()], |row| row.get(0))?;
    if kept < KEPT_MAX {
        return Ok(());
    }
    Err(Error::conflict(
        format!("the account {:?} keeps {kept} deleted shares, as many as one account may", account.name),
        "`multilane share list --deleted` shows them: end one by `multilane share purge`, or have the account keep none by `multilane account update --share-retention off`",
    )
    .because(Reason::TooManyShares))
}

impl Catalog {
    /// Deletes a share as an operator, whoever has a lease of it.
    pub fn delete_share(&mut self, name: &ShareName) -> Result<Deletion, Error> {
        self.delete_share_at(name, Timestamp::now(), |_| Ok(()))
    }

    /// Deletes a share of an account for who names this lease, or none.
    pub fn delete_share_of(
        &mut self,
        account: &AccountName,
        name: &ShareName,
        lease: Option<&str>,
    ) -> Result<Deletion, Error> {
        let now = Timestamp::now();
        self.delete_share_at(name, now, |(transaction, share)| {
            refuse_of_other(share, account)?;
            may_change(kept::of_share(transaction, share.id)?.lease.as_ref(), lease, LeaseTime::now())
                .map_err(refused_by_lease)
        })
    }

    /// Deletes a share at `now`, where `check` does not mind.
    fn delete_share_at(
        &mut self,
        name: &ShareName,
        now: Timestamp,
        check: impl FnOnce((&Transaction<'_>, &ShareRecord)) -> Result<(), Error>,
    ) -> Result<Deletion, Error> {
        let data = self.folder.clone();
        let deletion = self.write(|transaction| {
            let share = one(transaction, name)?;
            check((transaction, &share))?;
            let account = accounts::find(transaction, &share.account)?;
            let folder = match &share.source {
                Source::Folder { path, .. } => Some(is_own(path, &data)),
                // What was on it would not be there any more.
                Source::Ram { .. } => None,
            };
            let kept_for = account.retention_days.filter(|_| folder.is_some());
            if kept_for.is_none() && folder != Some(true) {
                transaction.execute("DELETE FROM share WHERE id = ?1", [share.id])?;
                return Ok(if folder.is_some() { Deletion::FilesStay(share) } else { Deletion::FilesGo(share) });
            }
            // Until its folder is out of the way it stays known.
            let kept_for = SignedDuration::from_hours(kept_for.map_or(0, i64::from) * 24);
            let kept_until = now.saturating_add(kept_for).unwrap_or(Timestamp::MAX);
            if !kept_for.is_zero() {
                room_for_kept(transaction, &account, now)?;
            }
            transaction.execute(
                "UPDATE share SET deleted = ?2, kept_until = ?3, folded_name = '*' || id WHERE id = ?1",
                params![share.id, now.as_second(), kept_until.as_second()],
            )?;
            if kept_for.is_zero() {
                return Ok(Deletion::FilesGo(share));
            }
            Ok(Deletion::Kept(DeletedShare { share, deleted: now, kept_until }))
        })?;
        if let Deletion::FilesStay(share) = &deletion {
            forget_snapshots(&self.connection, share, &data)?;
        }
        Ok(deletion)
    }

    /// The shares that are deleted and kept, by name, of each name those first that were deleted last.
    pub fn deleted_shares(&self) -> Result<Vec<DeletedShare>, Error> {
        let now = Timestamp::now();
        Ok(share_rows::deleted(&self.connection)?.into_iter().filter(|deleted| deleted.kept_until > now).collect())
    }

    /// Has a deleted share there again: that of this version, or that which was deleted last, of this account where one is named. It has another name
    /// where `new_name` says so.
    pub fn undelete_share(
        &mut self,
        account: Option<&AccountName>,
        name: &ShareName,
        version: Option<&str>,
        new_name: Option<&ShareName>,
    ) -> Result<ShareRecord, Error> {
        let now = Timestamp::now();
        self.write(|transaction| {
            let deleted = found(transaction, account, name, version, now)?;
            let new_name = new_name.unwrap_or(name);
            room_for_share(transaction)?;
            refuse_taken(transaction, new_name, None)?;
            let account = accounts::find(transaction, &deleted.share.account)?;
            provisions::check_room(transaction, &account, &deleted.share)?;
            transaction.execute(
                "UPDATE share SET deleted = NULL, kept_until = NULL, name = ?2, folded_name = ?3 WHERE id = ?1",
                params![deleted.share.id, new_name.as_str(), store::fold(new_name.as_str())],
            )?;
            kept::touch(transaction, deleted.share.id, now)?;
            one(transaction, new_name)
        })
    }

    /// Has a deleted share be gone for good; gives it.
    pub fn purge_share(&mut self, name: &ShareName, version: Option<&str>) -> Result<DeletedShare, Error> {
        let now = Timestamp::now();
        self.write(|transaction| {
            let deleted = found(transaction, None, name, version, now)?;
            let update = "UPDATE share SET kept_until = ?2 WHERE id = ?1";
            transaction.execute(update, params![deleted.share.id, now.as_second()])?;
            Ok(deleted)
        })
    }

    /// Has deleted shares be gone whose time is over, with the folders that were made for them, where no server runs that does. May take long.
    pub fn sweep(&mut self) -> Result<(), Error> {
        self.sweep_deleted(Timestamp::now())?;
        empty_gone(&self.folder)
    }

    /// Forgets the shares whose time is over at `now`; gives them. The folders that were made for them are set aside, to be taken away: nobody serves them.
    pub(crate) fn sweep_deleted(&mut self, now: Timestamp) -> Result<Vec<ShareRecord>, Error> {
        let data = self.folder.clone();
        let due = |connection: &Connection| -> Result<Vec<ShareRecord>, Error> {
            let all = share_rows::deleted(connection)?.into_iter();
            Ok(all.filter(|deleted| deleted.kept_until <= now).map(|deleted| deleted.share).collect())
        };
        if due(&self.connection)?.is_empty() {
            return Ok(Vec::new());
        }
        self.write(|transaction| {
            let due = due(transaction)?;
            let served = share_rows::all(transaction)?;
            for share in &due {
                if let Source::Folder { path, .. } = &share.source
                    && is_own(path, &data)
                    && !served.iter().any(|other| other.source.is_at(path))
                {
                    set_aside(path, &data)?;
                }
                transaction.execute("DELETE FROM share WHERE id = ?1", [share.id])?;
                forget_snapshots(transaction, share, &data)?;
            }
            Ok(due)
        })
    }
}

/// The deleted share that is meant.
fn found(
    transaction: &Transaction<'_>,
    account: Option<&AccountName>,
    name: &ShareName,
    version: Option<&str>,
    now: Timestamp,
) -> Result<DeletedShare, Error> {
    let mut all = share_rows::deleted(transaction)?.into_iter();
    let is_it = |deleted: &DeletedShare| {
        deleted.kept_until > now
            && store::fold(&deleted.share.name) == store::fold(name.as_str())
            && account.is_none_or(|account| deleted.share.account == account.as_str())
            && version.is_none_or(|version| deleted.version().eq_ignore_ascii_case(version))
    };
    all.find(is_it).ok_or_else(|| {
        let what = match version {
            Some(version) => format!("there is no deleted share {:?} of version {version:?}", name.as_str()),
            None => format!("there is no deleted share {:?}", name.as_str()),
        };
        Error::missing(what, "`multilane share list --deleted` shows those that are kept").because(Reason::NoShare)
    })
}

/// Has the snapshots of a share that is gone go, too, where no other share is on its folder, be that deleted and kept.
fn forget_snapshots(connection: &Connection, share: &ShareRecord, data: &Path) -> Result<(), Error> {
    let Source::Folder { path, .. } = &share.source else { return Ok(()) };
    let kept = share_rows::deleted(connection)?.into_iter().map(|deleted| deleted.share);
    if share_rows::all(connection)?.into_iter().chain(kept).any(|other| other.source.is_at(path)) {
        return Ok(());
    }
    set_aside_snapshots(path, data)
}

/// Refuses a share that is not one of `account`'s, as if it were not there.
pub(crate) fn refuse_of_other(share: &ShareRecord, account: &AccountName) -> Result<(), Error> {
    if share.account == account.as_str() {
        return Ok(());
    }
    Err(Error::missing(
        format!("the account {:?} has no share {:?}", account.as_str(), share.name),
        "`multilane share list` shows those there are",
    )
    .because(Reason::NoShare))
}

/// A lease keeps something from being done.
pub fn refused_by_lease(refusal: crate::LeaseRefusal) -> Error {
    Error::conflict("a client of Azure Files has a lease of the share", "name its id, or have it broken first")
        .because(Reason::Lease(refusal))
}
