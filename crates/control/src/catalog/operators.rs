//! Operators, who sign in to the page with a password of their own. They are no users: no share lets them in.

use std::num::NonZeroU32;

use rusqlite::{Connection, OptionalExtension, params};
use secure::PasswordHash;

use super::{Catalog, room_for_one};
use crate::{Error, UserName};

/// Operators of one server.
const OPERATORS_MAX: i64 = 1_000;
/// Characters of an operator's password: fewer are guessed, and more are no better.
const PASSWORD_MIN: usize = 12;
const PASSWORD_MAX: usize = 1024;

/// An operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The name to sign in with, in the case it was given.
    pub name: String,
}

impl Catalog {
    /// Makes an operator. The password itself is not kept.
    pub fn create_operator(&mut self, name: &UserName, password: &str) -> Result<Operator, Error> {
        let kept = hash(password)?;
        self.write(|transaction| {
            room_for_one(transaction, "operator", OPERATORS_MAX)?;
            let folded = store::fold(name.as_str());
            if find(transaction, &folded)?.is_some() {
                return Err(Error::conflict(
                    format!("an operator named {:?} exists already", name.as_str()),
                    format!("choose another name, or change the password with `multilane operator passwd {name}`"),
                ));
            }
            transaction.execute(
                "INSERT INTO operator (folded_name, name, rounds, salt, hash) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![folded, name.as_str(), kept.rounds.get(), kept.salt, kept.hash],
            )?;
            Ok(Operator { name: name.to_string() })
        })
    }

    /// Gives an operator another password, whatever the case of the name.
    pub fn set_operator_password(&mut self, name: &UserName, password: &str) -> Result<Operator, Error> {
        let kept = hash(password)?;
        self.forget(|transaction| {
            let (folded, operator) = found(transaction, name)?;
            transaction.execute(
                "UPDATE operator SET rounds = ?2, salt = ?3, hash = ?4 WHERE folded_name = ?1",
                params![folded, kept.rounds.get(), kept.salt, kept.hash],
            )?;
            Ok(operator)
        })
    }

    /// Deletes an operator, whatever the case of the name.
    pub fn delete_operator(&mut self, name: &UserName) -> Result<Operator, Error> {
        self.forget(|transaction| {
            let (folded, operator) = found(transaction, name)?;
            transaction.execute("DELETE FROM operator WHERE folded_name = ?1", [folded])?;
            Ok(operator)
        })
    }

    /// All operators, by name.
    pub fn operators(&self) -> Result<Vec<Operator>, Error> {
        Ok(all_with_hashes(&self.connection)?.into_iter().map(|(operator, _)| operator).collect())
    }
}

/// What is kept of a password.
fn hash(password: &str) -> Result<PasswordHash, Error> {
    if !(PASSWORD_MIN..=PASSWORD_MAX).contains(&password.chars().count()) {
        return Err(Error::argument(
            "the password is too short or too long",
            format!("give one of {PASSWORD_MIN} to {PASSWORD_MAX} characters"),
        ));
    }
    let mut characters = password.chars();
    let first = characters.next();
    if characters.all(|character| Some(character) == first) || password.chars().all(char::is_whitespace) {
        return Err(Error::argument("the password is one character again and again, or spaces", "give another one"));
    }
    PasswordHash::of(password).map_err(|fault| Error::machine(fault.to_string(), "try again"))
}

fn find(connection: &Connection, folded: &str) -> Result<Option<Operator>, Error> {
    let select = "SELECT name FROM operator WHERE folded_name = ?1";
    Ok(connection.query_row(select, [folded], |row| Ok(Operator { name: row.get(0)? })).optional()?)
}

fn found(connection: &Connection, name: &UserName) -> Result<(String, Operator), Error> {
    let folded = store::fold(name.as_str());
    let operator = find(connection, &folded)?.ok_or_else(|| {
        let what = format!("there is no operator {:?}", name.as_str());
        Error::missing(what, "`multilane operator list` shows those there are")
    })?;
    Ok((folded, operator))
}

/// All operators with what is kept of their passwords, by name.
pub(super) fn all_with_hashes(connection: &Connection) -> Result<Vec<(Operator, PasswordHash)>, Error> {
    let mut select = connection.prepare("SELECT name, rounds, salt, hash FROM operator ORDER BY folded_name")?;
    let rows = select.query_map([], |row| {
        // The table has no other number than those above zero.
        let rounds = NonZeroU32::new(row.get(1)?).unwrap_or(NonZeroU32::MAX);
        Ok((Operator { name: row.get(0)? }, PasswordHash { rounds, salt: row.get(2)?, hash: row.get(3)? }))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
