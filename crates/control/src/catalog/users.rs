//! Users of an account, who sign in with a password of their own.

use rusqlite::{Connection, OptionalExtension, params};
use server::admin::Secret;

use super::{Catalog, account_or_first, new_principal, room_for_one};
use crate::{AccountName, Error, UserName};

/// Users on one server: the snapshot that the server keeps in memory stays small.
const USERS_MAX: i64 = 10_000;
/// The most characters in a password: what clients can send, with room to spare.
const PASSWORD_MAX: usize = 1024;

/// A user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name to sign in with, in the case it was given.
    pub name: String,
    /// The account whose shares the user may connect to.
    pub account: String,
    /// The last number of the user's SID.
    pub relative_id: u32,
}

impl Catalog {
    /// Adds a user to `account`, or to the oldest account. The password itself is not kept, only its NT hash.
    pub fn add_user(&mut self, name: &UserName, password: &str, account: Option<&AccountName>) -> Result<User, Error> {
        let nt_hash = hash(password)?;
        self.write(|transaction| {
            let (account_id, account) = account_or_first(transaction, account)?;
            room_for_one(transaction, "user", USERS_MAX)?;
            let relative_id = new_principal(transaction, name.as_str())?;
            transaction.execute(
                "INSERT INTO user (relative_id, name, account, nt_hash) VALUES (?1, ?2, ?3, ?4)",
                params![relative_id, name.as_str(), account_id, *nt_hash],
            )?;
            Ok(User { name: name.to_string(), account, relative_id })
        })
    }

    /// Gives a user another password, whatever the case of the name. The SID stays, and with it what the user may do and owns.
    pub fn set_password(&mut self, name: &UserName, password: &str) -> Result<(), Error> {
        let nt_hash = hash(password)?;
        self.forget(|transaction| {
            let relative_id = relative_id(transaction, name)?;
            transaction
                .execute("UPDATE user SET nt_hash = ?2 WHERE relative_id = ?1", params![relative_id, *nt_hash])?;
            Ok(())
        })
    }

    /// All users, by name.
    pub fn users(&self) -> Result<Vec<User>, Error> {
        Ok(all_with_hashes(&self.connection)?.into_iter().map(|(user, _)| user).collect())
    }

    /// Removes a user, whatever the case of the name.
    pub fn remove_user(&mut self, name: &UserName) -> Result<(), Error> {
        self.forget(|transaction| {
            let relative_id = relative_id(transaction, name)?;
            transaction.execute("DELETE FROM principal WHERE relative_id = ?1", [relative_id])?;
            Ok(())
        })
    }
}

/// What is kept of a password.
fn hash(password: &str) -> Result<Secret, Error> {
    if password.is_empty() || password.chars().count() > PASSWORD_MAX {
        return Err(Error::argument(
            "the password is empty or too long",
            format!("give one of 1 to {PASSWORD_MAX} characters on the first line of standard input"),
        ));
    }
    Ok(server::admin::nt_hash(password))
}

/// The last number of a user's SID.
fn relative_id(connection: &Connection, name: &UserName) -> Result<u32, Error> {
    let select = "SELECT relative_id FROM user JOIN principal USING (relative_id) WHERE folded_name = ?1";
    let folded = store::fold(name.as_str());
    let relative_id: Option<u32> = connection.query_row(select, [folded], |row| row.get(0)).optional()?;
    relative_id.ok_or_else(|| {
        let what = format!("there is no user {:?}", name.as_str());
        Error::missing(what, "`multilane user list` shows those there are")
    })
}

/// All users with the NT hashes of their passwords, by name.
pub(super) fn all_with_hashes(connection: &Connection) -> Result<Vec<(User, Secret)>, Error> {
    let mut select = connection.prepare(
        "SELECT user.name, account.name, user.relative_id, user.nt_hash
         FROM user JOIN account ON account.relative_id = user.account
                   JOIN principal ON principal.relative_id = user.relative_id
         ORDER BY principal.folded_name",
    )?;
    let rows = select.query_map([], |row| {
        Ok((
            User { name: row.get(0)?, account: row.get(1)?, relative_id: row.get(2)? },
            Secret::from(row.get::<_, [u8; 16]>(3)?),
        ))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
