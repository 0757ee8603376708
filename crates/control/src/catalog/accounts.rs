//! Storage accounts.

use jiff::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use server::admin::Multichannel;

use super::keys::Keys;
use super::wrong::wrong_in;
use super::{Catalog, features, no_account, principals, room_for_one, share_rows};
use crate::file_service::check_days;
use crate::provisioning::ProvisionedSum;
use crate::sku::billing;
use crate::{AccountKind, AccountName, AccountPlan, Billing, Error, Feature, Features, Region, Sku};

/// Accounts on one server: as many as a region gives one subscription.
pub const ACCOUNTS_MAX: i64 = 250;

/// A storage account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name, also the user name to sign in with.
    pub name: String,
    /// What it is for.
    pub kind: AccountKind,
    /// How it is billed; `None` for a local account, which is not.
    pub sku: Option<Sku>,
    /// The region that it is in, if it is in one.
    pub location: Option<Region>,
    /// Whether its sessions may use several connections at once.
    pub multichannel: Multichannel,
    /// Whether it has metadata caching at the time it is read: the operator has not switched it off, and the account has the feature.
    pub metadata_caching: MetadataCaching,
    /// The last number of its SID.
    pub relative_id: u32,
    /// Shares it has.
    pub shares: u64,
    /// Users it has.
    pub users: u64,
    /// For how many days its shares are kept when they are deleted, where they are.
    pub retention_days: Option<u16>,
}

/// Whether the paths of an account's files are cached for the next who opens them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataCaching {
    /// They are.
    On,
    /// They are not.
    Off,
}

/// What to change about an account; `None` leaves a thing as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct AccountChanges {
    /// Let its sessions use several connections at once, or no longer. Only FileStorage accounts do.
    pub multichannel: Option<Multichannel>,
    /// Cache metadata, or no longer. Only accounts that have [`Feature::MetadataCache`] do.
    pub metadata_caching: Option<MetadataCaching>,
    /// Keep deleted shares for so many days, or no longer. It counts for shares that are deleted from then on.
    pub retention_days: Option<Option<u16>>,
}

impl Account {
    /// What its shares are.
    pub fn billing(&self) -> Billing {
        billing(self.kind, self.sku)
    }
}

/// Paths of the management interface, which stands at the same address as the accounts' paths: a request of such an account would never reach it.
const MANAGED: [&str; 2] = ["subscriptions", "metadata"];

fn refuse_managed(name: &AccountName) -> Result<(), Error> {
    if !MANAGED.contains(&name.as_str()) {
        return Ok(());
    }
    Err(Error::argument(
        format!("no account may be called {:?}: by REST that is the path of the management interface", name.as_str()),
        "choose another name",
    ))
}

impl Catalog {
    /// Makes an account with two new keys. An [`AccountKind`] alone is the plan of a local account.
    pub fn create_account(&mut self, name: &AccountName, plan: impl Into<AccountPlan>) -> Result<Account, Error> {
        self.create_account_with_key(name, plan, None)
    }

    /// The same, with this first key where one is named.
    pub(crate) fn create_account_with_key(
        &mut self,
        name: &AccountName,
        plan: impl Into<AccountPlan>,
        key1: Option<&str>,
    ) -> Result<Account, Error> {
        refuse_managed(name)?;
        let (plan, mut keys) = (plan.into(), Keys::new()?);
        if let Some(key1) = key1 {
            key1.clone_into(&mut keys.key1);
        }
        self.write(|transaction| {
            room_for_one(transaction, "account", ACCOUNTS_MAX)?;
            let relative_id = principals::add(transaction, name.as_str())?;
            transaction.execute(
                "INSERT INTO account (relative_id, name, kind, key1, key2, sku, location)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    relative_id,
                    name.as_str(),
                    plan.kind().as_str(),
                    keys.key1,
                    keys.key2,
                    plan.sku().map(Sku::as_str),
                    plan.location().map(Region::as_str)
                ],
            )?;
            find(transaction, name.as_str())
        })
    }

    /// Changes an account; gives it as it is then.
    pub fn update_account(&mut self, name: &AccountName, changes: AccountChanges) -> Result<Account, Error> {
        self.write(|transaction| {
            let account = find(transaction, name.as_str())?;
            if let Some(multichannel) = changes.multichannel {
                set_multichannel(transaction, &account, multichannel)?;
            }
            if let Some(caching) = changes.metadata_caching {
                set_metadata_caching(transaction, &account, caching)?;
            }
            if let Some(days) = changes.retention_days {
                days.map_or(Ok(()), check_days)?;
                let update = "UPDATE account SET retention_days = ?2 WHERE relative_id = ?1";
                transaction.execute(update, params![account.relative_id, days])?;
            }
            find(transaction, name.as_str())
        })
    }

    /// All accounts, the oldest first.
    pub fn accounts(&self) -> Result<Vec<Account>, Error> {
        Ok(all_with_keys(&self.connection)?.into_iter().map(|(account, _)| account).collect())
    }

    /// One account.
    pub fn account(&self, name: &AccountName) -> Result<Account, Error> {
        find(&self.connection, name.as_str())
    }

    /// What the shares of an account are provisioned with together.
    pub fn provisioned_sum(&self, account: &Account) -> Result<ProvisionedSum, Error> {
        share_rows::provisioned_sum(&self.connection, &account.name, None)
    }

    /// True where there never was an account, deleted ones included.
    pub fn is_new(&self) -> Result<bool, Error> {
        let last: Option<i64> = self
            .connection
            .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'principal'", [], |row| row.get(0))
            .optional()?;
        Ok(last.is_none_or(|last| last < 1000))
    }

    /// Deletes an account that has neither shares nor users.
    pub fn delete_account(&mut self, name: &AccountName) -> Result<(), Error> {
        self.forget(|transaction| {
            let account = find(transaction, name.as_str())?;
            for (table, what, which, command) in [
                ("share", "share", "AND deleted IS NULL", "share delete"),
                ("share", "deleted share", "AND deleted IS NOT NULL", "share purge"),
                ("user", "user", "", "user delete"),
                ("user_group", "group", "", "group delete"),
            ] {
                let count = format!("SELECT count(*) FROM {table} WHERE account = ?1 {which}");
                let count: i64 = transaction.query_row(&count, [account.relative_id], |row| row.get(0))?;
                if count > 0 {
                    return Err(Error::conflict(
                        format!("account {:?} has {count} {what}{}", account.name, if count == 1 { "" } else { "s" }),
                        format!("take them away first with `multilane {command} NAME`"),
                    ));
                }
            }
            transaction.execute("DELETE FROM principal WHERE relative_id = ?1", [account.relative_id])?;
            Ok(())
        })
    }
}

/// Lets the sessions of an account use several connections at once, or no longer.
fn set_multichannel(transaction: &Transaction<'_>, account: &Account, to: Multichannel) -> Result<(), Error> {
    if account.kind != AccountKind::FileStorage && to == Multichannel::On {
        return Err(Error::conflict(
            format!("account {:?} is of kind {}", account.name, account.kind.as_str()),
            "only accounts of kind FileStorage have SMB Multichannel; make one with `multilane account create NAME`",
        ));
    }
    let update = "UPDATE account SET multichannel = ?2 WHERE relative_id = ?1";
    transaction.execute(update, params![account.relative_id, to == Multichannel::On])?;
    Ok(())
}

/// Has an account's metadata cached, or no longer.
fn set_metadata_caching(transaction: &Transaction<'_>, account: &Account, to: MetadataCaching) -> Result<(), Error> {
    if to == MetadataCaching::On {
        features::read(transaction)?
            .has_feature(account, Feature::MetadataCache, Timestamp::now())
            .map_err(|why| why.refusal(&account.name, Feature::MetadataCache))?;
    }
    let update = "UPDATE account SET metadata_caching = ?2 WHERE relative_id = ?1";
    transaction.execute(update, params![account.relative_id, to == MetadataCaching::On])?;
    Ok(())
}

/// One account.
pub(super) fn find(connection: &Connection, name: &str) -> Result<Account, Error> {
    let mut all = all_with_keys(connection)?.into_iter().map(|(account, _)| account);
    all.find(|account| account.name == name).ok_or_else(|| no_account(name))
}

/// All accounts with their keys, the oldest first.
pub(super) fn all_with_keys(connection: &Connection) -> Result<Vec<(Account, Keys)>, Error> {
    let (features, now) = (features::read(connection)?, Timestamp::now());
    let mut select = connection.prepare(
        "SELECT name, kind, sku, location, relative_id, key1, key2, multichannel, metadata_caching, retention_days,
                (SELECT count(*) FROM share WHERE share.account = account.relative_id AND deleted IS NULL) AS shares,
                (SELECT count(*) FROM user WHERE user.account = account.relative_id) AS users
         FROM account ORDER BY relative_id",
    )?;
    let rows = select.query_and_then([], |row| {
        let account = with_caching(record(row)?, row.get("metadata_caching")?, &features, now);
        Ok((account, Keys { key1: row.get("key1")?, key2: row.get("key2")? }))
    })?;
    rows.collect()
}

/// The account of a row, but for its metadata caching.
fn record(row: &Row<'_>) -> Result<Account, Error> {
    let (sku, location): (Option<String>, Option<String>) = (row.get("sku")?, row.get("location")?);
    let count = |column| Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(column)?).unwrap_or(0));
    Ok(Account {
        name: row.get("name")?,
        kind: row.get::<_, String>("kind")?.parse().map_err(|_| wrong_in("account", "kind"))?,
        sku: sku.map(|text| text.parse()).transpose().map_err(|_: Error| wrong_in("account", "sku"))?,
        location: location.map(|text| text.parse()).transpose().map_err(|_: Error| wrong_in("account", "location"))?,
        multichannel: if row.get("multichannel")? { Multichannel::On } else { Multichannel::Off },
        metadata_caching: MetadataCaching::Off,
        relative_id: row.get("relative_id")?,
        shares: count("shares")?,
        users: count("users")?,
        retention_days: row.get("retention_days")?,
    })
}

/// The account with metadata caching where the operator wants it, and it is there.
fn with_caching(account: Account, is_wanted: bool, features: &Features, now: Timestamp) -> Account {
    let has_it = features.has_feature(&account, Feature::MetadataCache, now).is_ok();
    let metadata_caching = if is_wanted && has_it { MetadataCaching::On } else { MetadataCaching::Off };
    Account { metadata_caching, ..account }
}
