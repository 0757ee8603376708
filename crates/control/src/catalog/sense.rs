//! Rows that make no sense: this program writes none of them. Who checks or restores a catalog is told of them, and a server leaves out what they are about.

use std::path::{Component, Path};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rusqlite::Connection;
use secure::PasswordHash;

use super::keys::{self, Keys};
use super::shares::check_comment;
use super::{Account, Group, Operator, ServicePrincipal, ShareRecord, Source, User};
use super::{accounts, data_place, groups, operators, principals, service_principals, settings, share_rows, users};
use crate::{AccountName, Error, ShareName, UserName, own_folder};

/// The first relative id that is given (MS-DTYP 2.4.2.4: those below 1000 are well known).
const RELATIVE_ID_MIN: u32 = 1000;
/// The highest number that was given, by table: behind it there are more than anybody uses up.
const NUMBER_MAX: [(&str, i64); 2] = [("principal", u32::MAX as i64 - 1_000_000), ("share", i64::MAX / 2)];
/// The most rounds that a password is hashed: more than take a second on any machine.
const ROUNDS_MAX: u32 = 10_000_000;
/// The longest name of a server (RFC 1035 2.3.4, the length of a label).
const SERVER_NAME_MAX: usize = 63;
/// Characters of a text that are shown.
const SHOWN_MAX: usize = 40;
/// Nonsense that is told one by one.
const TOLD_MAX: usize = 100;

/// What makes no sense in a catalog of this program's schema whose rows can all be read.
pub(super) fn nonsense(connection: &Connection) -> Result<Vec<String>, Error> {
    let data = data_place::of(connection)?;
    let mut found: Vec<String> = Vec::new();
    found.extend(accounts::all_with_keys(connection)?.iter().filter_map(|(account, keys)| of_keys(account, keys)));
    found.extend(accounts::all_with_keys(connection)?.iter().filter_map(|(account, _)| of_account(account)));
    found.extend(users::all_with_hashes(connection)?.iter().filter_map(|(user, _)| of_user(user)));
    found.extend(groups::all(connection)?.iter().filter_map(of_group));
    found.extend(operators::all_with_hashes(connection)?.iter().filter_map(|(who, kept)| of_operator(who, kept)));
    let principals = service_principals::all_with_hashes(connection)?;
    found.extend(principals.iter().filter_map(|(who, kept)| of_service_principal(who, kept)));
    for share in share_rows::all(connection)? {
        found.extend(of_share(&share).or_else(|| of_folder(&share, &data)));
    }
    found.extend(of_names(connection)?);
    let server_name = settings::read(connection)?.server_name.filter(|name| !is_server_name(name));
    found.extend(server_name.map(|name| format!("{} is the name of no server", shown(&name))));
    for (table, number_max) in NUMBER_MAX {
        found.extend(of_numbers(connection, table, number_max)?);
    }
    found.truncate(TOLD_MAX);
    Ok(found)
}

/// Why nobody can be this account.
pub(crate) fn of_account(account: &Account) -> Option<String> {
    of_principal("account", &account.name, account.relative_id, account.name.parse::<AccountName>().is_ok())
}

/// What is wrong with the keys of an account.
fn of_keys(account: &Account, Keys { key1, key2 }: &Keys) -> Option<String> {
    let wrong = [("1", key1), ("2", key2)].into_iter().find(|(_, key)| !is_key(key));
    wrong.map(|(number, _)| format!("key {number} of the account {} is none", shown(&account.name)))
}

/// True of the text of a key. Nobody signs in with another.
pub(crate) fn is_key(text: &str) -> bool {
    BASE64_STANDARD.decode(text).is_ok_and(|bytes| bytes.len() == keys::KEY_BYTES)
}

/// Why nobody can be this user.
pub(crate) fn of_user(user: &User) -> Option<String> {
    of_principal("user", &user.name, user.relative_id, is_user_name(&user.name))
}

/// Why nobody can be in this group.
pub(crate) fn of_group(group: &Group) -> Option<String> {
    of_principal("group", &group.name, group.relative_id, is_user_name(&group.name))
}

/// Why nobody can be this operator.
pub(crate) fn of_operator(operator: &Operator, kept: &PasswordHash) -> Option<String> {
    if !is_user_name(&operator.name) {
        return Some(format!("{} is the name of no operator", shown(&operator.name)));
    }
    let rounds = kept.rounds.get();
    (rounds > ROUNDS_MAX)
        .then(|| format!("the password of the operator {} takes {rounds} rounds", shown(&operator.name)))
}

/// Why nobody can be this service principal.
pub(crate) fn of_service_principal(principal: &ServicePrincipal, kept: &PasswordHash) -> Option<String> {
    let name = shown(&principal.name);
    if !is_user_name(&principal.name) {
        return Some(format!("{name} is the name of no service principal"));
    }
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte) || byte == b'-';
    if principal.application_id.len() != 36 || !principal.application_id.bytes().all(is_digit) {
        return Some(format!("the service principal {name} has an id that is none"));
    }
    let rounds = kept.rounds.get();
    (rounds > ROUNDS_MAX).then(|| format!("the secret of the service principal {name} takes {rounds} rounds"))
}

/// True of a name that a server can have: a label, as of a host.
pub(crate) fn is_server_name(name: &str) -> bool {
    name.len() <= SERVER_NAME_MAX && !name.contains(char::is_control)
}

/// True of a relative id that somebody here can have.
pub(crate) fn is_relative_id(number: u32) -> bool {
    number >= RELATIVE_ID_MIN
}

fn is_user_name(name: &str) -> bool {
    name.parse::<UserName>().is_ok() && store::fold(name) != store::fold(principals::EVERYONE)
}

fn of_principal(kind: &str, name: &str, relative_id: u32, is_name: bool) -> Option<String> {
    if !is_name {
        return Some(format!("{} is the name of no {kind}", shown(name)));
    }
    (!is_relative_id(relative_id)).then(|| {
        format!("the {kind} {} has the relative id {relative_id}, and none is below {RELATIVE_ID_MIN}", shown(name))
    })
}

/// Why this can be no share, whatever its folder is.
pub(crate) fn of_share(share: &ShareRecord) -> Option<String> {
    if share.name.parse::<ShareName>().is_err() {
        return Some(format!("{} is the name of no share", shown(&share.name)));
    }
    check_comment(&share.comment).err().map(|_| format!("the share {} has a comment that none has", shown(&share.name)))
}

/// Why the folder is none that a share has: it leads out of the data folder, or is that itself, or what the server keeps there.
fn of_folder(share: &ShareRecord, data: &Path) -> Option<String> {
    let Source::Folder { path, .. } = &share.source else { return None };
    let leads_out = path.components().any(|part| part == Component::ParentDir);
    let is_own = data == path || path.starts_with(data.join("opens")) || own_folder::is_reserved(path, data);
    (leads_out || is_own).then(|| format!("the share {} has a folder that none has", shown(&share.name)))
}

/// Names that are not found by what they are found by, and numbers that are nobody's.
fn of_names(connection: &Connection) -> Result<Vec<String>, Error> {
    let mut select = connection.prepare(
        "SELECT 'account', principal.relative_id, folded_name, account.name,
                (account.name IS NOT NULL) + (user.name IS NOT NULL) + (user_group.name IS NOT NULL)
         FROM principal LEFT JOIN account USING (relative_id) LEFT JOIN user USING (relative_id)
                        LEFT JOIN user_group USING (relative_id)
         WHERE user.name IS NULL AND user_group.name IS NULL OR account.name IS NOT NULL
         UNION ALL SELECT 'user', relative_id, folded_name, name, 1 FROM principal JOIN user USING (relative_id)
         UNION ALL SELECT 'group', relative_id, folded_name, name, 1 FROM principal JOIN user_group USING (relative_id)
         UNION ALL SELECT 'share', id, folded_name, name, 1 FROM share WHERE deleted IS NULL
         UNION ALL SELECT 'operator', 0, folded_name, name, 1 FROM operator
         UNION ALL SELECT 'service principal', 0, folded_name, name, 1 FROM service_principal",
    )?;
    let mut found = Vec::new();
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, number): (String, i64) = (row.get(0)?, row.get(1)?);
        let (folded, name): (String, Option<String>) = (row.get(2)?, row.get(3)?);
        if row.get::<_, i64>(4)? != 1 {
            found.push(format!(
                "the relative id {number} of {} is not that of one account, user or group",
                shown(&folded)
            ));
        } else if name.as_deref().is_some_and(|name| store::fold(name) != folded) {
            let name = shown(name.as_deref().unwrap_or_default());
            found.push(format!("the {kind} {name} is found by another name, {}", shown(&folded)));
        }
    }
    Ok(found)
}

/// What is wrong with the number that was given last in a table. The next one would be somebody's already, or there would be none.
fn of_numbers(connection: &Connection, table: &str, number_max: i64) -> Result<Option<String>, Error> {
    let key = if table == "share" { "id" } else { "relative_id" };
    let select = format!(
        "SELECT (SELECT coalesce(max({key}), 0) FROM {table}), count(*), coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = ?1"
    );
    let (highest, rows, last): (i64, i64, i64) =
        connection.query_row(&select, [table], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let none_was_given = rows == 0 && highest == 0 && table == "share";
    if none_was_given || (rows == 1 && (highest..=number_max).contains(&last)) {
        return Ok(None);
    }
    Ok(Some(format!("the last number given to a {table} is kept as {last}, and the highest there is {highest}")))
}

/// A text of anybody's as one that can be shown.
fn shown(text: &str) -> String {
    let beginning: String = text.chars().take(SHOWN_MAX).collect();
    if beginning.len() == text.len() { format!("{text:?}") } else { format!("{beginning:?}…") }
}
