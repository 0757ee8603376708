//! What clients of Azure Files keep of accounts and shares, as the catalog has it: in JSON, and descriptors that they name by keys.

use std::collections::HashMap;

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::deleted::refuse_of_other;
use super::wrong::wrong_in;
use super::{Catalog, no_account, shares};
use crate::{AccountName, AzureShare, Error, FileService, Reason, ShareName};

/// The longest descriptor (MS-DTYP 2.4.6 has no bound; no file's is longer than 64 KiB).
const DESCRIPTOR_BYTES_MAX: usize = 64 << 10;
/// Descriptors of a share, and bytes of all that the catalog has, of which one account has no more than half: a backup holds them all in memory.
const DESCRIPTORS_MAX: i64 = 4096;
const DESCRIPTORS_BYTES_MAX: i64 = 32 << 20;

/// What is kept of each account, by its name.
pub(super) fn of_accounts(connection: &Connection) -> Result<HashMap<String, FileService>, Error> {
    let mut select = connection.prepare("SELECT name, file_service FROM account")?;
    let service = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, service(&row.get::<_, String>(1)?)?));
    select.query_and_then([], service)?.collect()
}

/// What is kept of each share, by its number.
pub(super) fn of_shares(connection: &Connection) -> Result<HashMap<i64, AzureShare>, Error> {
    let mut select = connection.prepare("SELECT share, kept FROM azure_share")?;
    let kept = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, share(&row.get::<_, String>(1)?)?));
    select.query_and_then([], kept)?.collect()
}

/// What is kept of one share.
pub(super) fn of_share(connection: &Connection, id: i64) -> Result<AzureShare, Error> {
    let select = "SELECT kept FROM azure_share WHERE share = ?1";
    let text: Option<String> = connection.query_row(select, [id], |row| row.get(0)).optional()?;
    text.map_or(Ok(AzureShare::default()), |text| share(&text))
}

/// The share was changed at `now`.
pub(super) fn touch(transaction: &Transaction<'_>, id: i64, now: Timestamp) -> Result<(), Error> {
    put(transaction, id, of_share(transaction, id)?, now)
}

/// Keeps this of a share, which was changed at `now`.
pub(super) fn put(transaction: &Transaction<'_>, id: i64, kept: AzureShare, now: Timestamp) -> Result<(), Error> {
    keep(transaction, id, &AzureShare { modified: now.as_millisecond(), ..kept })
}

fn keep(transaction: &Transaction<'_>, id: i64, kept: &AzureShare) -> Result<(), Error> {
    let insert = "INSERT OR REPLACE INTO azure_share (share, kept) VALUES (?1, ?2)";
    transaction.execute(insert, params![id, text(kept)?])?;
    Ok(())
}

fn service(text: &str) -> Result<FileService, Error> {
    let read: Option<FileService> = serde_json::from_str(text).ok();
    read.filter(|read| read.check().is_ok()).ok_or_else(|| wrong_in("account", "file_service"))
}

fn share(text: &str) -> Result<AzureShare, Error> {
    let read: Option<AzureShare> = serde_json::from_str(text).ok();
    read.filter(|read| read.check().is_ok()).ok_or_else(|| wrong_in("azure_share", "kept"))
}

fn text<T: serde::Serialize>(kept: &T) -> Result<String, Error> {
    serde_json::to_string(kept).map_err(|cause| Error::machine(format!("it cannot be written: {cause}"), "try again"))
}

impl Catalog {
    /// How an account's file service is set up.
    pub fn file_service(&self, account: &AccountName) -> Result<FileService, Error> {
        let select = "SELECT file_service FROM account WHERE name = ?1";
        let text: Option<String> =
            self.connection.query_row(select, [account.as_str()], |row| row.get(0)).optional()?;
        text.map_or_else(|| Err(no_account(account.as_str())), |text| service(&text))
    }

    /// Sets it up otherwise.
    pub fn set_file_service(&mut self, account: &AccountName, to: &FileService) -> Result<(), Error> {
        to.check()?;
        let text = text(to)?;
        self.write(|transaction| {
            let update = "UPDATE account SET file_service = ?2 WHERE name = ?1";
            match transaction.execute(update, params![account.as_str(), text])? {
                0 => Err(no_account(account.as_str())),
                _ => Ok(()),
            }
        })
    }

    /// What clients of Azure Files keep of a share.
    pub fn azure_share(&self, name: &ShareName) -> Result<AzureShare, Error> {
        of_share(&self.connection, shares::one(&self.connection, name)?.id)
    }

    /// Changes what is kept of a share of `account` as `change` does, which is told what it is now and the time. Where it refuses nothing is changed.
    pub fn change_azure_share<T>(
        &mut self,
        account: &AccountName,
        name: &ShareName,
        change: impl FnOnce(&mut AzureShare, Timestamp) -> Result<T, Error>,
    ) -> Result<(T, AzureShare), Error> {
        let now = Timestamp::now();
        self.write(|transaction| {
            let share = shares::one(transaction, name)?;
            refuse_of_other(&share, account)?;
            let mut kept = of_share(transaction, share.id)?;
            let done = change(&mut kept, now)?;
            kept.check()?;
            keep(transaction, share.id, &kept)?;
            Ok((done, kept))
        })
    }

    /// Keeps a descriptor of files of a share of `account` by a name that its text decides about, so that the same has the same.
    pub fn keep_permission(
        &mut self,
        account: &AccountName,
        share: &ShareName,
        name: &str,
        descriptor: &[u8],
    ) -> Result<(), Error> {
        if descriptor.len() > DESCRIPTOR_BYTES_MAX {
            return Err(Error::argument(
                format!("the descriptor has {} bytes", descriptor.len()),
                format!("use one of {DESCRIPTOR_BYTES_MAX} bytes at most"),
            ));
        }
        self.write(|transaction| {
            let share = shares::one(transaction, share)?;
            refuse_of_other(&share, account)?;
            let select = "SELECT count(*) FROM permission WHERE share = ?1 AND name = ?2";
            if transaction.query_row(select, params![share.id, name], |row| row.get::<_, i64>(0))? > 0 {
                return Ok(());
            }
            let select = "SELECT count(*) FILTER (WHERE permission.share = ?1),
                                 coalesce(sum(length(descriptor)) FILTER (WHERE share.account = asked.account), 0),
                                 coalesce(sum(length(descriptor)), 0)
                          FROM permission JOIN share ON share.id = permission.share JOIN share AS asked ON asked.id = ?1";
            let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let (count, own, all): (i64, i64, i64) =
                transaction.query_row(select, [share.id], row)?;
            // An account has half of what others leave: there is room for one that has none yet.
            let own_max = (DESCRIPTORS_BYTES_MAX - (all - own)) / 2;
            if count >= DESCRIPTORS_MAX || own + descriptor.len() as i64 > own_max {
                return Err(Error::conflict(
                    format!(
                        "{count} descriptors are kept of the share {:?}, and {own} bytes of those of its account",
                        share.name
                    ),
                    "send the descriptor with each file, and not once for all",
                )
                .because(Reason::TooManyPermissions));
            }
            let insert = "INSERT INTO permission (share, name, descriptor) VALUES (?1, ?2, ?3)";
            transaction.execute(insert, params![share.id, name, descriptor])?;
            Ok(())
        })
    }

    /// A descriptor that is kept of a share, if there is one of that name.
    pub fn permission(&self, account: &AccountName, share: &ShareName, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let share = shares::one(&self.connection, share)?;
        refuse_of_other(&share, account)?;
        let select = "SELECT descriptor FROM permission WHERE share = ?1 AND name = ?2";
        Ok(self.connection.query_row(select, params![share.id, name], |row| row.get(0)).optional()?)
    }
}
