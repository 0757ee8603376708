//! Users of an account, who sign in with a password of their own.

use jiff::Timestamp;
use rusqlite::{Connection, Row, params};
use server::admin::{Secret, Standing};
use store::UnixOwner;

use super::former::{Replaced, Slot};
use super::principals::{self, Kind};
use super::{Catalog, Grace, account_or_first, room_for_one};
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
    /// An operator has disabled it.
    pub disabled: bool,
    /// From when on it may not sign in.
    pub expires: Option<Timestamp>,
    /// Whose its files are on this machine; `None` for whoever the share says.
    pub unix_owner: Option<UnixOwner>,
    /// What the catalog says of it that makes no sense. Who is damaged cannot sign in, and can be deleted.
    pub damage: Option<&'static str>,
}

/// What to change about a user; `None` leaves a thing as it is.
#[derive(Clone, Debug, Default)]
pub struct UserChanges {
    /// Another name. The SID stays, and with it what the user may do and owns.
    pub name: Option<UserName>,
    /// Disabled, or enabled again.
    pub disabled: Option<bool>,
    /// From when on it may not sign in, or that it always may.
    pub expires: Option<Option<Timestamp>>,
    /// Whose its new files are on this machine, or whoever the share says.
    pub unix_owner: Option<Option<UnixOwner>>,
}

impl User {
    /// Whether it may sign in at `now`.
    pub fn standing(&self, now: Timestamp) -> Standing {
        match self.expires {
            _ if self.disabled => Standing::Disabled,
            Some(expires) if expires <= now => Standing::Expired,
            Some(_) | None => Standing::Good,
        }
    }
}

impl Catalog {
    /// Adds a user to `account`, or to the oldest account. The password itself is not kept, only its NT hash.
    pub fn add_user(&mut self, name: &UserName, password: &str, account: Option<&AccountName>) -> Result<User, Error> {
        let nt_hash = hash(password)?;
        self.write(|transaction| {
            let (account_id, account) = account_or_first(transaction, account)?;
            room_for_one(transaction, "user", USERS_MAX)?;
            let relative_id = principals::add_named(transaction, name)?;
            transaction.execute(
                "INSERT INTO user (relative_id, name, account, nt_hash) VALUES (?1, ?2, ?3, ?4)",
                params![relative_id, name.as_str(), account_id, *nt_hash],
            )?;
            Ok(User {
                name: name.to_string(),
                account,
                relative_id,
                disabled: false,
                expires: None,
                unix_owner: None,
                damage: None,
            })
        })
    }

    /// Refuses a name that nobody can be given, or that somebody has: before anybody is asked for a password.
    pub fn refuse_taken_name(&self, name: &UserName) -> Result<(), Error> {
        principals::check_free(&self.connection, name.as_str())
    }

    /// Gives a user another password, whatever the case of the name. The SID stays, and with it what the user may do and owns. What the old one has signed in
    /// goes on until `grace` is over; without one it ends at once, and so does what older ones have that still had time.
    pub fn set_password(&mut self, name: &UserName, password: &str, grace: Option<Grace>) -> Result<(), Error> {
        let nt_hash = hash(password)?;
        self.forget(|transaction| {
            let user = principals::one_of(transaction, Kind::User, name)?;
            let select = "SELECT nt_hash FROM user WHERE relative_id = ?1";
            let old: [u8; 16] = transaction.query_row(select, [user.relative_id], |row| row.get(0))?;
            let replaced =
                Replaced { relative_id: user.relative_id, slot: Slot::Password, nt_hash: &Secret::from(old) };
            replaced.keep(transaction, grace)?;
            let update = "UPDATE user SET nt_hash = ?2 WHERE relative_id = ?1";
            transaction.execute(update, params![user.relative_id, *nt_hash])?;
            Ok(())
        })
    }

    /// Changes a user, whatever the case of the name; gives it as it is then.
    pub fn update_user(&mut self, name: &UserName, changes: &UserChanges) -> Result<User, Error> {
        self.write(|transaction| {
            let user = principals::one_of(transaction, Kind::User, name)?;
            let relative_id = user.relative_id;
            if let Some(name) = &changes.name {
                principals::rename(transaction, &user, name)?;
                let update = "UPDATE user SET name = ?2 WHERE relative_id = ?1";
                transaction.execute(update, params![relative_id, name.as_str()])?;
            }
            if let Some(disabled) = changes.disabled {
                let update = "UPDATE user SET disabled = ?2 WHERE relative_id = ?1";
                transaction.execute(update, params![relative_id, disabled])?;
            }
            if let Some(expires) = changes.expires {
                let update = "UPDATE user SET expires = ?2 WHERE relative_id = ?1";
                transaction.execute(update, params![relative_id, expires.map(Timestamp::as_second)])?;
            }
            if let Some(owner) = changes.unix_owner {
                let update = "UPDATE user SET unix_uid = ?2, unix_gid = ?3 WHERE relative_id = ?1";
                let (uid, gid) = (owner.map(|owner| owner.uid), owner.map(|owner| owner.gid));
                transaction.execute(update, params![relative_id, uid, gid])?;
            }
            one(transaction, relative_id)
        })
    }

    /// One user, whatever the case of the name.
    pub fn user(&self, name: &UserName) -> Result<User, Error> {
        one(&self.connection, principals::one_of(&self.connection, Kind::User, name)?.relative_id)
    }

    /// All users, by name.
    pub fn users(&self) -> Result<Vec<User>, Error> {
        Ok(all_with_hashes(&self.connection)?.into_iter().map(|(user, _)| user).collect())
    }

    /// Removes a user, whatever the case of the name.
    pub fn remove_user(&mut self, name: &UserName) -> Result<(), Error> {
        self.forget(|transaction| {
            let user = principals::one_of(transaction, Kind::User, name)?;
            principals::delete(transaction, user.relative_id)
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

fn one(connection: &Connection, relative_id: u32) -> Result<User, Error> {
    let mut select = connection.prepare(&select("WHERE user.relative_id = ?1"))?;
    let found = select.query_map([relative_id], read)?.next().transpose()?.map(|(user, _)| user);
    found.ok_or_else(|| Error::missing("the user is gone", "`multilane user list` shows those there are"))
}

/// All users with the NT hashes of their passwords, by name. Who is damaged has none: nobody can sign in as that.
pub(super) fn all_with_hashes(connection: &Connection) -> Result<Vec<(User, Option<Secret>)>, Error> {
    let mut select = connection.prepare(&select("ORDER BY folded_name"))?;
    let rows = select.query_map([], read)?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// What is wrong with users, for who looks whether all is well.
pub(super) fn damages(connection: &Connection) -> Result<Vec<Error>, Error> {
    let damaged = |user: User| {
        let what = format!("the catalog says of the user {:?} {} that makes no sense", user.name, user.damage?);
        let remedy =
            "delete the user with `multilane user delete NAME`, or restore a backup with `multilane restore FILE`";
        Some(Error::machine(what, remedy))
    };
    Ok(all_with_hashes(connection)?.into_iter().filter_map(|(user, _)| damaged(user)).collect())
}

/// The columns that [`read`] reads, of the rows that `which` says.
fn select(which: &str) -> String {
    format!(
        "SELECT user.relative_id, folded_name, user.name AS name, account.name AS account, disabled, expires, nt_hash,
                unix_uid, unix_gid
         FROM user JOIN principal ON principal.relative_id = user.relative_id
                   LEFT JOIN account ON account.relative_id = user.account {which}"
    )
}

/// Reads a user. One that makes no sense keeps nobody from the others: it is damaged.
fn read(row: &Row<'_>) -> rusqlite::Result<(User, Option<Secret>)> {
    let mut damage = None;
    let mut damaged = |what| _ = damage.get_or_insert(what);
    let relative_id = row.get("relative_id")?;
    let name = row.get("name").or_else(|_| {
        damaged("a name");
        row.get("folded_name")
    })?;
    let account: String = row.get("account").unwrap_or_else(|_| {
        damaged("an account");
        String::new()
    });
    let disabled = match row.get::<_, i64>("disabled") {
        Ok(0) => false,
        Ok(1) => true,
        Ok(_) | Err(_) => {
            damaged("whether it is disabled");
            true
        }
    };
    let expires = row
        .get::<_, Option<i64>>("expires")
        .map_err(|_| ())
        .and_then(|seconds| seconds.map(Timestamp::from_second).transpose().map_err(|_| ()));
    let expires = expires.unwrap_or_else(|()| {
        damaged("a time of expiry");
        None
    });
    let unix_owner = match (row.get("unix_uid"), row.get("unix_gid")) {
        (Ok(Some(uid)), Ok(Some(gid))) if uid != u32::MAX && gid != u32::MAX => Some(UnixOwner { uid, gid }),
        (Ok(None), Ok(None)) => None,
        (_, _) => {
            damaged("an owner on this machine");
            None
        }
    };
    let hash = row.get::<_, [u8; 16]>("nt_hash").inspect_err(|_| damaged("a password")).ok().map(Secret::from);
    let user = User { name, account, relative_id, disabled, expires, unix_owner, damage };
    Ok((user, hash.filter(|_| damage.is_none())))
}
