//! The two keys of a storage account.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rusqlite::{OptionalExtension, Row};
use zeroize::Zeroize;

use super::{Catalog, no_account};
use crate::{AccountName, Error};

/// Bytes of chance in a key.
const KEY_BYTES: usize = 64;

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

    /// Replaces one key of an account; gives both.
    pub fn regenerate_key(&mut self, name: &AccountName, key: Key) -> Result<Keys, Error> {
        let update = match key {
            Key::One => "UPDATE account SET key1 = ?2 WHERE name = ?1",
            Key::Two => "UPDATE account SET key2 = ?2 WHERE name = ?1",
        };
        let new = new_key()?;
        self.forget(|transaction| match transaction.execute(update, [name.as_str(), &new])? {
            0 => Err(no_account(name.as_str())),
            _ => Ok(()),
        })?;
        self.keys(name)
    }
}

/// A new key: 64 bytes of the kernel's chance in base64.
fn new_key() -> Result<String, Error> {
    let mut bytes = [0; KEY_BYTES];
    super::settings::fill_random(&mut bytes)?;
    Ok(BASE64_STANDARD.encode(bytes))
}
