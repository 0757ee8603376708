//! Groups of users, which descriptors and shares' rights can name. A group may hold others of its account, but not itself, in whatever way.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::principals::{self, Kind, Principal};
use super::{Catalog, User, account_or_first, room_for_one};
use crate::{AccountName, Error, UserName};

/// Groups on one server.
const GROUPS_MAX: i64 = 10_000;
/// Memberships on one server.
const MEMBERSHIPS_MAX: i64 = 200_000;
/// The groups that one user may be in, through others, too: each file that is opened asks about all of them.
const GROUPS_OF_USER_MAX: usize = 256;

/// A group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name, in the case it was given. Accounts, users and groups share one space of names.
    pub name: String,
    /// The account whose users and groups it may hold.
    pub account: String,
    /// The last number of its SID.
    pub relative_id: u32,
    /// The names of those that it holds by itself, in their order.
    pub members: Vec<String>,
}

/// For each user or group that is in some, the relative ids of all groups that it is in, also through others, in their order.
pub(super) type GroupsOf = BTreeMap<u32, Vec<u32>>;

impl Catalog {
    /// Makes a group of `account`, or of the oldest account, that holds nobody.
    pub fn create_group(&mut self, name: &UserName, account: Option<&AccountName>) -> Result<Group, Error> {
        self.write(|transaction| {
            let (account_id, account) = account_or_first(transaction, account)?;
            room_for_one(transaction, "user_group", GROUPS_MAX)?;
            let relative_id = principals::add_named(transaction, name)?;
            transaction.execute(
                "INSERT INTO user_group (relative_id, name, account) VALUES (?1, ?2, ?3)",
                params![relative_id, name.as_str(), account_id],
            )?;
            Ok(Group { name: name.to_string(), account, relative_id, members: Vec::new() })
        })
    }

    /// Gives a group another name, whatever the case of the one it has. The SID stays, and with it what the group may do.
    pub fn rename_group(&mut self, name: &UserName, to: &UserName) -> Result<Group, Error> {
        self.write(|transaction| {
            let group = principals::one_of(transaction, Kind::Group, name)?;
            principals::rename(transaction, &group, to)?;
            let update = "UPDATE user_group SET name = ?2 WHERE relative_id = ?1";
            transaction.execute(update, params![group.relative_id, to.as_str()])?;
            one(transaction, group.relative_id)
        })
    }

    /// Deletes a group, whatever the case of its name. Its members stay; no share grants it anything any more.
    pub fn delete_group(&mut self, name: &UserName) -> Result<(), Error> {
        self.write(|transaction| {
            let group = principals::one_of(transaction, Kind::Group, name)?;
            principals::delete(transaction, group.relative_id)
        })
    }

    /// Puts users and groups into a group; who is in it stays. All of them, or none where one cannot be.
    pub fn add_members(&mut self, group: &UserName, members: &[UserName]) -> Result<Group, Error> {
        self.write(|transaction| {
            let into = principals::one_of(transaction, Kind::Group, group)?;
            for name in members {
                let member = principals::named(transaction, name)?;
                check_member(&into, &member)?;
                let row = params![into.relative_id, member.relative_id];
                let is_in = "SELECT EXISTS (SELECT 1 FROM membership WHERE user_group = ?1 AND member = ?2)";
                if transaction.query_row(is_in, row, |row| row.get(0))? {
                    continue;
                }
                room_for_one(transaction, "membership", MEMBERSHIPS_MAX)?;
                transaction.execute("INSERT INTO membership (user_group, member) VALUES (?1, ?2)", row)?;
            }
            check_all(transaction, &into)?;
            one(transaction, into.relative_id)
        })
    }

    /// Takes users and groups out of a group. All of them, or none where one is not in it.
    pub fn remove_members(&mut self, group: &UserName, members: &[UserName]) -> Result<Group, Error> {
        self.write(|transaction| {
            let from = principals::one_of(transaction, Kind::Group, group)?;
            for name in members {
                let member = principals::named(transaction, name)?;
                let removed = transaction.execute(
                    "DELETE FROM membership WHERE user_group = ?1 AND member = ?2",
                    params![from.relative_id, member.relative_id],
                )?;
                if removed == 0 {
                    return Err(Error::missing(
                        format!("{:?} is not in the group {:?} itself", member.name, from.name),
                        format!("`multilane group show {}` shows who is", from.name),
                    ));
                }
            }
            one(transaction, from.relative_id)
        })
    }

    /// All groups, by name.
    pub fn groups(&self) -> Result<Vec<Group>, Error> {
        all(&self.connection)
    }

    /// One group, whatever the case of its name.
    pub fn group(&self, name: &UserName) -> Result<Group, Error> {
        one(&self.connection, principals::one_of(&self.connection, Kind::Group, name)?.relative_id)
    }

    /// The names of all groups that a user is in, also through others.
    pub fn groups_of(&self, user: &User) -> Result<Vec<String>, Error> {
        let of = memberships(&self.connection)?.remove(&user.relative_id).unwrap_or_default();
        Ok(all(&self.connection)?.into_iter().filter(|group| of.contains(&group.relative_id)).map(|g| g.name).collect())
    }
}

/// All groups, by name.
pub(super) fn all(connection: &Connection) -> Result<Vec<Group>, Error> {
    let mut select = connection.prepare(
        "SELECT user_group.name, account.name, user_group.relative_id
         FROM user_group JOIN account ON account.relative_id = user_group.account
                         JOIN principal ON principal.relative_id = user_group.relative_id
         ORDER BY principal.folded_name",
    )?;
    let rows = select.query_map([], |row| {
        Ok(Group { name: row.get(0)?, account: row.get(1)?, relative_id: row.get(2)?, members: Vec::new() })
    })?;
    let mut groups: Vec<Group> = rows.collect::<Result<_, _>>()?;
    let mut members = members(connection)?;
    for group in &mut groups {
        group.members = members.remove(&group.relative_id).unwrap_or_default();
    }
    Ok(groups)
}

fn one(connection: &Connection, relative_id: u32) -> Result<Group, Error> {
    let found = all(connection)?.into_iter().find(|group| group.relative_id == relative_id);
    found.ok_or_else(|| Error::missing("the group is gone", "`multilane group list` shows those there are"))
}

/// The names of each group's members.
fn members(connection: &Connection) -> Result<BTreeMap<u32, Vec<String>>, Error> {
    let mut select = connection.prepare(
        "SELECT membership.user_group, coalesce(user.name, inner_group.name)
         FROM membership JOIN principal ON principal.relative_id = member
                         LEFT JOIN user ON user.relative_id = member
                         LEFT JOIN user_group AS inner_group ON inner_group.relative_id = member
         ORDER BY folded_name",
    )?;
    let mut members: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        members.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(members)
}

/// The groups that everybody is in.
pub(super) fn memberships(connection: &Connection) -> Result<GroupsOf, Error> {
    let mut direct = GroupsOf::new();
    let mut select = connection.prepare("SELECT member, user_group FROM membership")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        direct.entry(row.get(0)?).or_default().push(row.get(1)?);
    }
    Ok(direct.keys().map(|member| (*member, reached(&direct, *member))).collect())
}

/// All groups that `member` is in. One that holds itself ends the way there, and no way is taken twice.
fn reached(direct: &GroupsOf, member: u32) -> Vec<u32> {
    let (mut found, mut next) = (BTreeSet::new(), vec![member]);
    while let Some(one) = next.pop() {
        let groups = direct.get(&one).into_iter().flatten();
        next.extend(groups.filter(|group| found.insert(**group)));
    }
    found.into_iter().collect()
}

fn check_member(group: &Principal, member: &Principal) -> Result<(), Error> {
    if member.kind == Kind::Account {
        return Err(Error::argument(
            format!("{:?} is an account, which no group holds: its keys may do everything in its shares", member.name),
            "name users and groups",
        ));
    }
    if member.account == group.account {
        return Ok(());
    }
    Err(Error::conflict(
        format!(
            "{:?} is of account {:?}, and the group {:?} of {:?}",
            member.name, member.account, group.name, group.account
        ),
        "a group holds users and groups of its own account",
    ))
}

/// Fails where the group now holds itself, or somebody is in too many groups.
fn check_all(transaction: &Transaction<'_>, group: &Principal) -> Result<(), Error> {
    let all = memberships(transaction)?;
    if all.get(&group.relative_id).is_some_and(|groups| groups.contains(&group.relative_id)) {
        return Err(Error::conflict(
            format!("the group {:?} would hold itself, through others or at once", group.name),
            "groups may hold groups, but not in a circle",
        ));
    }
    let Some(member) = all.iter().find(|(_, groups)| groups.len() > GROUPS_OF_USER_MAX).map(|(member, _)| *member)
    else {
        return Ok(());
    };
    let name: Option<String> = transaction
        .query_row("SELECT folded_name FROM principal WHERE relative_id = ?1", [member], |row| row.get(0))
        .optional()?;
    Err(Error::conflict(
        format!("{:?} would be in more than {GROUPS_OF_USER_MAX} groups", name.unwrap_or_default()),
        "use fewer groups, or put fewer into each other",
    ))
}
