//! The two keys of a storage account.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rusqlite::{OptionalExtension, Row, params};
use server::admin::nt_hash;
use zeroize::{Zeroize, Zeroizing};

use super::former::{Replaced, Slot};
use super::{Catalog, Grace, no_account};
use crate::{AccountName, Error};

/// Bytes of chance in a key.
pub(super) const KEY_BYTES: usize = 64;

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

impl std::fmt::Debug for Keys {
    /// Nothing of the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keys(..)")
    }
}

impl Keys {
    /// Two new ones.
    pub(super) fn new() -> Result<Self, Error> {
        Ok(Keys { key1: new_key()?, key2: new_key()? })
    }
}

impl Catalog {
    /// The keys of an account.
    pub fn keys(&self, name: &AccountName) -> Result<Keys, Error> {
        let select = "SELECT key1, key2 FROM account WHERE name = ?1";
        let row = |row: &Row<'_>| Ok(Keys { key1: row.get(0)?, key2: row.get(1)? });
        self.connection.query_row(select, [name.as_str()], row).optional()?.ok_or_else(|| no_account(name.as_str()))
    }

    /// Replaces one key of an account; gives both. The old one signs in until `grace` is over; without one, what it has signed in ends at once, and so does what
    /// older ones have that still had time.
    pub fn regenerate_key(&mut self, name: &AccountName, key: Key, grace: Option<Grace>) -> Result<Keys, Error> {
        let (column, slot) = match key {
            Key::One => ("key1", Slot::Key1),
            Key::Two => ("key2", Slot::Key2),
        };
        let new = new_key()?;
        self.forget(|transaction| {
            let select = format!("SELECT relative_id, {column} FROM account WHERE name = ?1");
            let row = |row: &Row<'_>| Ok((row.get(0)?, Zeroizing::new(row.get::<_, String>(1)?)));
            let found = transaction.query_row(&select, [name.as_str()], row).optional()?;
            let (relative_id, old) = found.ok_or_else(|| no_account(name.as_str()))?;
            Replaced { relative_id, slot, nt_hash: &nt_hash(&old) }.keep(transaction, grace)?;
            let update = format!("UPDATE account SET {column} = ?2 WHERE relative_id = ?1");
            transaction.execute(&update, params![relative_id, new])?;
            Ok(())
        })?;
        self.keys(name)
    }
}

/// A new key: 64 bytes of the kernel's chance in base64.
fn new_key() -> Result<String, Error> {
    let mut bytes = [0; KEY_BYTES];
    crate::random::fill_random(&mut bytes)?;
    Ok(BASE64_STANDARD.encode(bytes))
}
