//! Storage accounts and their keys.

use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rusqlite::{Connection, OptionalExtension, Row, params};
use server::admin::Multichannel;
use zeroize::Zeroize;

use super::{Catalog, new_principal, no_account, room_for_one};
use crate::{AccountName, Error};

/// Accounts on one server: as many as a region gives one subscription.
const ACCOUNTS_MAX: i64 = 250;
/// Bytes of chance in a key.
const KEY_BYTES: usize = 64;

/// What an account is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AccountKind {
    /// Premium file shares.
    #[default]
    FileStorage,
    /// General purpose.
    StorageV2,
}

/// A storage account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name, also the user name to sign in with.
    pub name: String,
    /// What it is for.
    pub kind: AccountKind,
    /// Whether its sessions may use several connections at once.
    pub multichannel: Multichannel,
    /// The last number of its SID.
    pub relative_id: u32,
    /// Shares it has.
    pub shares: u64,
    /// Users it has.
    pub users: u64,
}

/// The two keys of an account, each 64 bytes in base64 and each a password to sign in with.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    /// The first.
    pub key1: String,
    /// The second, to sign in with while the first is replaced.
    pub key2: String,
}

impl Drop for Keys {
    /// Leaves nothing of them in memory.
    fn drop(&mut self) {
        self.key1.zeroize();
        self.key2.zeroize();
    }
}

/// Which of the two keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// The first.
    One,
    /// The second.
    Two,
}

impl AccountKind {
    /// The kind's name in the catalog and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            AccountKind::FileStorage => "FileStorage",
            AccountKind::StorageV2 => "StorageV2",
        }
    }
}

impl FromStr for AccountKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let all = [AccountKind::FileStorage, AccountKind::StorageV2];
        all.into_iter()
            .find(|kind| kind.as_str().eq_ignore_ascii_case(text))
            .ok_or_else(|| Error::argument(format!("{text:?} is no kind of account"), "use FileStorage or StorageV2"))
    }
}

impl std::fmt::Debug for Keys {
    /// Nothing of the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl Catalog {
    /// Makes an account with two new keys.
    pub fn create_account(&mut self, name: &AccountName, kind: AccountKind) -> Result<Account, Error> {
        let keys = Keys { key1: new_key()?, key2: new_key()? };
        self.write(|transaction| {
            room_for_one(transaction, "account", ACCOUNTS_MAX)?;
            let relative_id = new_principal(transaction, name.as_str())?;
            transaction.execute(
                "INSERT INTO account (relative_id, name, kind, key1, key2) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![relative_id, name.as_str(), kind.as_str(), keys.key1, keys.key2],
            )?;
            let multichannel = Multichannel::Off;
            Ok(Account { name: name.to_string(), kind, multichannel, relative_id, shares: 0, users: 0 })
        })
    }

    /// Lets the sessions of an account use several connections at once, or no longer. Only FileStorage accounts do.
    pub fn set_multichannel(&mut self, name: &AccountName, multichannel: Multichannel) -> Result<Account, Error> {
        let account = self.account(name)?;
        if account.kind != AccountKind::FileStorage && multichannel == Multichannel::On {
            return Err(Error::conflict(
                format!("account {:?} is of kind {}", account.name, account.kind.as_str()),
                "only accounts of kind FileStorage have SMB Multichannel; make one with `multilane account create NAME`",
            ));
        }
        let update = "UPDATE account SET multichannel = ?2 WHERE name = ?1";
        self.connection.execute(update, params![name.as_str(), multichannel == Multichannel::On])?;
        Ok(Account { multichannel, ..account })
    }

    /// All accounts, the oldest first.
    pub fn accounts(&self) -> Result<Vec<Account>, Error> {
        Ok(all_with_keys(&self.connection)?.into_iter().map(|(account, _)| account).collect())
    }

    /// One account.
    pub fn account(&self, name: &AccountName) -> Result<Account, Error> {
        self.accounts()?.into_iter().find(|account| account.name == name.as_str()).ok_or_else(|| no_account(name))
    }

    /// True where there never was an account, deleted ones included.
    pub fn is_new(&self) -> Result<bool, Error> {
        let last: Option<i64> = self
            .connection
            .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'principal'", [], |row| row.get(0))
            .optional()?;
        Ok(last.is_none_or(|last| last < 1000))
    }

    /// The keys of an account.
    pub fn keys(&self, name: &AccountName) -> Result<Keys, Error> {
        let select = "SELECT key1, key2 FROM account WHERE name = ?1";
        let row = |row: &Row<'_>| Ok(Keys { key1: row.get(0)?, key2: row.get(1)? });
        self.connection.query_row(select, [name.as_str()], row).optional()?.ok_or_else(|| no_account(name))
    }

    /// Replaces one key of an account; gives both.
    pub fn regenerate_key(&mut self, name: &AccountName, key: Key) -> Result<Keys, Error> {
        let update = match key {
            Key::One => "UPDATE account SET key1 = ?2 WHERE name = ?1",
            Key::Two => "UPDATE account SET key2 = ?2 WHERE name = ?1",
        };
        let new = new_key()?;
        self.forget(|transaction| match transaction.execute(update, [name.as_str(), &new])? {
            0 => Err(no_account(name)),
            _ => Ok(()),
        })?;
        self.keys(name)
    }

    /// Deletes an account that has neither shares nor users.
    pub fn delete_account(&mut self, name: &AccountName) -> Result<(), Error> {
        let account = self.account(name)?;
        self.forget(|transaction| {
            for (table, verb) in [("share", "delete"), ("user", "remove")] {
                let count = format!("SELECT count(*) FROM {table} WHERE account = ?1");
                let count: i64 = transaction.query_row(&count, [account.relative_id], |row| row.get(0))?;
                if count > 0 {
                    return Err(Error::conflict(
                        format!("account {:?} has {count} {table}{}", account.name, if count == 1 { "" } else { "s" }),
                        format!("take them away first with `multilane {table} {verb} NAME`"),
                    ));
                }
            }
            transaction.execute("DELETE FROM principal WHERE relative_id = ?1", [account.relative_id])?;
            Ok(())
        })
    }
}

/// All accounts with their keys, the oldest first.
pub(super) fn all_with_keys(connection: &Connection) -> Result<Vec<(Account, Keys)>, Error> {
    let mut select = connection.prepare(
        "SELECT name, kind, relative_id, key1, key2, multichannel,
                (SELECT count(*) FROM share WHERE share.account = account.relative_id),
                (SELECT count(*) FROM user WHERE user.account = account.relative_id)
         FROM account ORDER BY relative_id",
    )?;
    let rows = select.query_map([], |row| {
        let kind: String = row.get(1)?;
        let account = Account {
            name: row.get(0)?,
            kind: if kind == AccountKind::StorageV2.as_str() {
                AccountKind::StorageV2
            } else {
                AccountKind::FileStorage
            },
            multichannel: if row.get(5)? { Multichannel::On } else { Multichannel::Off },
            relative_id: row.get(2)?,
            shares: u64::try_from(row.get::<_, i64>(6)?).unwrap_or(0),
            users: u64::try_from(row.get::<_, i64>(7)?).unwrap_or(0),
        };
        Ok((account, Keys { key1: row.get(3)?, key2: row.get(4)? }))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// A new key: 64 bytes of the kernel's chance in base64.
fn new_key() -> Result<String, Error> {
    let mut bytes = [0; KEY_BYTES];
    super::settings::fill_random(&mut bytes)?;
    Ok(BASE64_STANDARD.encode(bytes))
}
