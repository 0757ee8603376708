//! Who may connect to shares, and what they may do there at most.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Transaction, params};
use server::admin::{ShareRight, ShareRights};

use super::principals::{self, Kind};
use super::wrong::wrong_in;
use super::{Catalog, groups, share_rows, shares};
use crate::{Error, ShareName, User, UserName};

/// Rights on one server.
const RIGHTS_MAX: i64 = 100_000;
/// What everybody has before anybody was granted a right by name.
const BEFORE_ANY: ShareRight = ShareRight::Full;
/// How it is kept that everybody has none.
const NONE: &str = "none";

/// To whom a right is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grantee {
    /// Everybody of the share's account.
    Everyone,
    /// A user or a group.
    Named(UserName),
}

impl std::str::FromStr for Grantee {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match store::fold(text) == store::fold(principals::EVERYONE) {
            true => Ok(Grantee::Everyone),
            false => text.parse().map(Grantee::Named),
        }
    }
}

/// A right on a share, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The name of the user or group; `everyone` for all of the account.
    pub who: String,
    /// True for a group.
    pub is_group: bool,
    /// What they may do.
    pub right: ShareRight,
}

/// The rights on a share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    /// The share's name.
    pub share: String,
    /// Its account, whose keys may always do everything.
    pub account: String,
    /// Everybody's first, then by name. With none of them nobody but the keys of the account may connect.
    pub grants: Vec<Grant>,
    /// True where this change took away what everybody had for want of any grant.
    pub closed: bool,
    /// What everybody has was never said, and ends with the first right that is granted by name.
    pub is_unsaid: bool,
}

impl Catalog {
    /// Grants a right on a share in place of the one that who gets it had there. With the first that is granted by name, the full right that everybody had
    /// until then ends; one that was granted to everybody stays.
    pub fn grant(&mut self, share: &ShareName, to: &Grantee, right: ShareRight) -> Result<Grants, Error> {
        self.write(|transaction| {
            let found = shares::one(transaction, share)?;
            let closed = grant_on(transaction, &found, to, right)?;
            Ok(Grants { closed, ..grants(transaction, &found)? })
        })
    }

    /// Takes a right on a share away. Who is in a group that has one keeps that.
    pub fn revoke(&mut self, share: &ShareName, from: &Grantee) -> Result<Grants, Error> {
        self.write(|transaction| {
            let found = shares::one(transaction, share)?;
            match from {
                Grantee::Everyone => set_everyone(transaction, found.id, None)?,
                Grantee::Named(name) => {
                    let who = principals::named(transaction, name)?;
                    let delete = "DELETE FROM share_right WHERE share = ?1 AND principal = ?2";
                    if transaction.execute(delete, params![found.id, who.relative_id])? == 0 {
                        return Err(Error::missing(
                            format!("{:?} has no right of its own on the share {:?}", who.name, found.name),
                            format!("`multilane share grants {}` shows who has one", found.name),
                        ));
                    }
                }
            }
            grants(transaction, &found)
        })
    }

    /// The shares that a user may connect to, by name, each with what the user may do there at most: by a right of its own, of its groups, or of everyone.
    pub fn shares_of(&self, user: &User) -> Result<Vec<(String, ShareRight)>, Error> {
        let rights = all(&self.connection)?;
        let groups = groups::memberships(&self.connection)?.remove(&user.relative_id).unwrap_or_default();
        let right_on = |share: &shares::ShareRecord| {
            rights.get(&share.id)?.of(std::iter::once(user.relative_id).chain(groups.iter().copied()))
        };
        let of_account = self.shares()?.into_iter().filter(|share| share.account == user.account);
        Ok(of_account.filter_map(|share| right_on(&share).map(|right| (share.name, right))).collect())
    }

    /// The rights that a user or group was granted by its own name, each with its share: what goes when it is deleted.
    pub fn granted_to(&self, name: &UserName) -> Result<Vec<(String, ShareRight)>, Error> {
        let who = principals::named(&self.connection, name)?;
        let mut select = self.connection.prepare(
            "SELECT share.name, granted FROM share_right JOIN share ON share.id = share WHERE principal = ?1 ORDER BY share.name",
        )?;
        let mut rows = select.query([who.relative_id])?;
        let mut granted = Vec::new();
        while let Some(row) = rows.next()? {
            granted.push((row.get(0)?, right(&row.get::<_, String>(1)?)?));
        }
        Ok(granted)
    }

    /// The rights on a share.
    pub fn grants(&self, share: &ShareName) -> Result<Grants, Error> {
        grants(&self.connection, &shares::one(&self.connection, share)?)
    }
}

/// Grants a right on a share; true where that took away what everybody had for want of any grant.
pub(super) fn grant_on(
    transaction: &Transaction<'_>,
    share: &shares::ShareRecord,
    to: &Grantee,
    right: ShareRight,
) -> Result<bool, Error> {
    let Grantee::Named(name) = to else {
        return set_everyone(transaction, share.id, Some(right)).map(|()| false);
    };
    let who = principals::named(transaction, name)?;
    check_grantee(share, &who)?;
    let update = "UPDATE share_right SET granted = ?3 WHERE share = ?1 AND principal = ?2";
    let row = params![share.id, who.relative_id, right.name()];
    if transaction.execute(update, row)? == 0 {
        super::room_for_one(transaction, "share_right", RIGHTS_MAX)?;
        let insert = "INSERT INTO share_right (share, principal, granted) VALUES (?1, ?2, ?3)";
        transaction.execute(insert, row)?;
    }
    let was_unsaid = everyone(transaction, share.id)?.is_none();
    if was_unsaid {
        set_everyone(transaction, share.id, None)?;
    }
    Ok(was_unsaid)
}

fn check_grantee(share: &shares::ShareRecord, who: &principals::Principal) -> Result<(), Error> {
    if who.kind == Kind::Account {
        return Err(Error::argument(
            format!(
                "{:?} is an account, whose keys may do everything in its own shares and nothing in others",
                who.name
            ),
            "name a user, a group, or everyone",
        ));
    }
    if who.account == share.account {
        return Ok(());
    }
    Err(Error::conflict(
        format!(
            "{:?} is of account {:?}, and the share {:?} of {:?}",
            who.name, who.account, share.name, share.account
        ),
        "a share is for users and groups of its own account",
    ))
}

fn grants(connection: &Connection, share: &shares::ShareRecord) -> Result<Grants, Error> {
    let mut select = connection.prepare(
        "SELECT coalesce(user.name, user_group.name), user_group.name IS NOT NULL, granted
         FROM share_right JOIN principal ON principal.relative_id = principal
                          LEFT JOIN user ON user.relative_id = principal
                          LEFT JOIN user_group ON user_group.relative_id = principal
         WHERE share = ?1 ORDER BY folded_name",
    )?;
    let said = everyone(connection, share.id)?;
    let is_unsaid = said.is_none();
    let all = said.unwrap_or(Some(BEFORE_ANY)).map(|right| Grant {
        who: principals::EVERYONE.to_owned(),
        is_group: true,
        right,
    });
    let mut grants: Vec<Grant> = all.into_iter().collect();
    let mut rows = select.query([share.id])?;
    while let Some(row) = rows.next()? {
        grants.push(Grant { who: row.get(0)?, is_group: row.get(1)?, right: right(&row.get::<_, String>(2)?)? });
    }
    Ok(Grants { share: share.name.clone(), account: share.account.clone(), grants, closed: false, is_unsaid })
}

/// The rights of all shares, by their numbers.
pub(super) fn all(connection: &Connection) -> Result<HashMap<i64, ShareRights>, Error> {
    let mut rights = HashMap::new();
    let mut select = connection.prepare("SELECT id, everyone, hosts FROM share")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let everyone = said_of_everyone(row.get(1)?)?.unwrap_or(Some(BEFORE_ANY));
        let hosts = share_rows::hosts(row.get(2)?)?;
        rights.insert(row.get(0)?, ShareRights { everyone, granted: Vec::new(), hosts });
    }
    let mut select =
        connection.prepare("SELECT share, principal, granted FROM share_right ORDER BY share, principal")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let granted = (row.get(1)?, right(&row.get::<_, String>(2)?)?);
        rights.entry(row.get(0)?).or_default().granted.push(granted);
    }
    Ok(rights)
}

/// What everybody has; `None` where that was never said.
fn everyone(connection: &Connection, share: i64) -> Result<Option<Option<ShareRight>>, Error> {
    let select = "SELECT everyone FROM share WHERE id = ?1";
    said_of_everyone(connection.query_row(select, [share], |row| row.get(0)).optional()?.flatten())
}

/// What the column says; `None` where nothing was ever said.
fn said_of_everyone(word: Option<String>) -> Result<Option<Option<ShareRight>>, Error> {
    match word.as_deref() {
        None => Ok(None),
        Some(NONE) => Ok(Some(None)),
        Some(word) => right(word).map(|right| Some(Some(right))),
    }
}

fn set_everyone(transaction: &Transaction<'_>, share: i64, to: Option<ShareRight>) -> Result<(), Error> {
    let word = to.map_or(NONE, ShareRight::name);
    transaction.execute("UPDATE share SET everyone = ?2 WHERE id = ?1", params![share, word])?;
    Ok(())
}

fn right(word: &str) -> Result<ShareRight, Error> {
    word.parse().map_err(|_| wrong_in("share_right", "granted"))
}
