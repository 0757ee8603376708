//! Those who have a SID: accounts, users and groups. Their names share one space, and a SID is never given a second time.

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::settings;
use crate::name::host_label;
use crate::{Error, UserName};

/// The word that stands for everybody where a right is granted. Nobody is called so.
pub(super) const EVERYONE: &str = "everyone";

/// Names that mean somebody else to clients, who has another SID (MS-DTYP 2.4.2.4): who grants one of them something would grant it to nobody here.
const WELL_KNOWN: [&str; 12] = [
    "Administrators",
    "ANONYMOUS LOGON",
    "Authenticated Users",
    "CREATOR GROUP",
    "CREATOR OWNER",
    "Domain Users",
    "Guests",
    "LOCAL SERVICE",
    "NETWORK SERVICE",
    "OWNER RIGHTS",
    "SYSTEM",
    "Users",
];

/// What somebody is who has a SID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Account,
    User,
    Group,
}

impl Kind {
    fn described(self) -> &'static str {
        match self {
            Kind::Account => "an account",
            Kind::User => "a user",
            Kind::Group => "a group",
        }
    }

    /// The command that shows those of this kind.
    fn list(self) -> &'static str {
        match self {
            Kind::Account => "account list",
            Kind::User => "user list",
            Kind::Group => "group list",
        }
    }
}

/// Somebody who has a SID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Principal {
    pub(super) relative_id: u32,
    pub(super) kind: Kind,
    /// In the case it was given.
    pub(super) name: String,
    /// An account's own name is that of its account.
    pub(super) account: String,
}

/// Takes a name for a user or group, whatever its case; gives the relative id.
pub(super) fn add_named(transaction: &Transaction<'_>, name: &UserName) -> Result<u32, Error> {
    name.check_new(&server_name(transaction)?)?;
    add(transaction, name.as_str())
}

/// Takes a name, whatever its case; gives the relative id.
pub(super) fn add(transaction: &Transaction<'_>, name: &str) -> Result<u32, Error> {
    check_free(transaction, name)?;
    transaction.execute("INSERT INTO principal (folded_name) VALUES (?1)", params![store::fold(name)])?;
    u32::try_from(transaction.last_insert_rowid())
        .map_err(|_| Error::machine("all relative ids are used up", "start with a new data folder"))
}

/// Gives somebody another name. The SID stays.
pub(super) fn rename(transaction: &Transaction<'_>, who: &Principal, name: &UserName) -> Result<(), Error> {
    let name = if store::fold(&who.name) == store::fold(name.as_str()) {
        name.as_str()
    } else {
        name.check_new(&server_name(transaction)?)?;
        check_free(transaction, name.as_str())?;
        name.as_str()
    };
    let update = "UPDATE principal SET folded_name = ?2 WHERE relative_id = ?1";
    transaction.execute(update, params![who.relative_id, store::fold(name)])?;
    Ok(())
}

/// Users and groups from before whose names mean somebody else, each with why.
pub(super) fn misleading(connection: &Connection) -> Result<Vec<(&'static str, Error)>, Error> {
    let server_name = server_name(connection)?;
    let mut select =
        connection.prepare("SELECT 'user', name FROM user UNION ALL SELECT 'group', name FROM user_group")?;
    let mut found = Vec::new();
    for row in select.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))? {
        let (kind, name) = row?;
        let refused = name.parse::<UserName>().and_then(|name| name.check_new(&server_name)).err();
        let kind = if kind == "user" { "user" } else { "group" };
        found.extend(refused.map(|why| (kind, why)));
    }
    Ok(found)
}

/// What the server calls itself.
fn server_name(connection: &Connection) -> Result<String, Error> {
    Ok(settings::read(connection)?.server_name.unwrap_or_else(host_label))
}

/// Takes somebody away, with all that names them.
pub(super) fn delete(transaction: &Transaction<'_>, relative_id: u32) -> Result<(), Error> {
    transaction.execute("DELETE FROM principal WHERE relative_id = ?1", [relative_id])?;
    Ok(())
}

pub(super) fn check_free(connection: &Connection, name: &str) -> Result<(), Error> {
    if store::fold(name) == store::fold(EVERYONE) {
        return Err(Error::argument(
            format!("{name:?} stands for everybody where rights are granted"),
            "choose another name",
        ));
    }
    if WELL_KNOWN.iter().any(|known| store::fold(known) == store::fold(name)) {
        return Err(Error::argument(format!("{name:?} means somebody else to clients"), "choose another name"));
    }
    if name.contains(is_unseen) {
        let what = format!("{name:?} has characters that nobody sees, or that turn others round");
        return Err(Error::argument(what, "leave them out: two names are not to look the same"));
    }
    match find(connection, name)? {
        None => Ok(()),
        Some(taken) => Err(Error::conflict(
            format!("{} named {name:?} exists already", taken.kind.described()),
            format!("choose another name; `multilane {}` shows those taken", taken.kind.list()),
        )),
    }
}

/// Marks of direction, joiners and spaces of no width.
fn is_unseen(character: char) -> bool {
    matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Who has this name, whatever its case.
fn find(connection: &Connection, name: &str) -> Result<Option<Principal>, Error> {
    let select = "
        SELECT principal.relative_id, account.name, user.name, user_group.name, owner.name
        FROM principal LEFT JOIN account USING (relative_id) LEFT JOIN user USING (relative_id)
                       LEFT JOIN user_group USING (relative_id)
                       LEFT JOIN account AS owner ON owner.relative_id IN (user.account, user_group.account)
        WHERE folded_name = ?1";
    let found = connection.query_row(select, [store::fold(name)], |row| {
        // One that is damaged is somebody all the same, by the name that led here.
        let named = |column| row.get(column).unwrap_or_else(|_| Some(store::fold(name)));
        let [account, user, group, owner] = [1, 2, 3, 4].map(named);
        let (kind, name) = match (account, user, group) {
            (Some(name), _, _) => (Kind::Account, name),
            (None, Some(name), _) => (Kind::User, name),
            (None, None, group) => (Kind::Group, group.unwrap_or_default()),
        };
        let account = owner.unwrap_or_else(|| name.clone());
        Ok(Principal { relative_id: row.get(0)?, kind, name, account })
    });
    Ok(found.optional()?)
}

/// The same, where there must be one.
pub(super) fn named(connection: &Connection, name: &UserName) -> Result<Principal, Error> {
    find(connection, name.as_str())?.ok_or_else(|| {
        let what = format!("there is no user or group {:?}", name.as_str());
        Error::missing(what, "`multilane user list` and `multilane group list` show those there are")
    })
}

/// The same, where it must be of this kind.
pub(super) fn one_of(connection: &Connection, kind: Kind, name: &UserName) -> Result<Principal, Error> {
    let missing = |what: String| Error::missing(what, format!("`multilane {}` shows those there are", kind.list()));
    match find(connection, name.as_str())? {
        Some(found) if found.kind == kind => Ok(found),
        Some(found) => {
            Err(missing(format!("{:?} is {}, not {}", found.name, found.kind.described(), kind.described())))
        }
        None => {
            let bare = kind.described().split(' ').nth(1).unwrap_or_default();
            Err(missing(format!("there is no {bare} {:?}", name.as_str())))
        }
    }
}
