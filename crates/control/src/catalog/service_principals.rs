//! Service principals: programs that sign in to Azure's interfaces with an id and a secret. They are no users: no share lets them in by SMB.

use std::num::NonZeroU32;

use rusqlite::{Connection, OptionalExtension, params};
use secure::{PasswordHash, Token};

use super::wrong::wrong_in;
use super::{Catalog, room_for_one};
use crate::random::fill_random;
use crate::{Error, Role, UserName};

/// Service principals of one server.
const PRINCIPALS_MAX: i64 = 1_000;

/// A service principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePrincipal {
    /// Its name, for people.
    pub name: String,
    /// The id that it signs in with, a UUID in lower case.
    pub application_id: String,
    /// What it may do.
    pub roles: Vec<Role>,
}

impl Catalog {
    /// Makes a service principal; gives its secret, which is not kept.
    pub fn create_service_principal(
        &mut self,
        name: &UserName,
        roles: &[Role],
    ) -> Result<(ServicePrincipal, Token), Error> {
        let secret = Token::new().map_err(|fault| Error::machine(fault.to_string(), "try again"))?;
        let principal = self.add_service_principal(name, &new_uuid()?, secret.as_str(), roles)?;
        Ok((principal, secret))
    }

    /// Makes a service principal with an id and a secret that are known, for who develops on this machine. The secret has 256 random bits: it is not kept as
    /// passwords are, which others might guess.
    pub fn add_service_principal(
        &mut self,
        name: &UserName,
        application_id: &str,
        secret: &str,
        roles: &[Role],
    ) -> Result<ServicePrincipal, Error> {
        let kept = PasswordHash::of_secret(secret).map_err(|fault| Error::machine(fault.to_string(), "try again"))?;
        let mut roles = roles.to_vec();
        roles.sort_unstable();
        roles.dedup();
        let principal = ServicePrincipal { name: name.to_string(), application_id: application_id.to_owned(), roles };
        self.write(|transaction| {
            room_for_one(transaction, "service_principal", PRINCIPALS_MAX)?;
            let folded = store::fold(name.as_str());
            if find(transaction, &folded)?.is_some() {
                return Err(Error::conflict(
                    format!("a service principal named {:?} exists already", name.as_str()),
                    format!("choose another name, or delete that one with `multilane principal delete {name}`"),
                ));
            }
            transaction.execute(
                "INSERT INTO service_principal (application_id, folded_name, name, roles, rounds, salt, hash)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    principal.application_id,
                    folded,
                    principal.name,
                    principal.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(","),
                    kept.rounds.get(),
                    kept.salt,
                    kept.hash
                ],
            )?;
            Ok(principal)
        })
    }

    /// Deletes a service principal, whatever the case of the name. What it has signed in for ends.
    pub fn delete_service_principal(&mut self, name: &UserName) -> Result<ServicePrincipal, Error> {
        let folded = store::fold(name.as_str());
        self.forget(|transaction| {
            let principal = find(transaction, &folded)?.ok_or_else(|| {
                let what = format!("there is no service principal {:?}", name.as_str());
                Error::missing(what, "`multilane principal list` shows those there are")
            })?;
            transaction.execute("DELETE FROM service_principal WHERE folded_name = ?1", [&folded])?;
            Ok(principal)
        })
    }

    /// All service principals, by name.
    pub fn service_principals(&self) -> Result<Vec<ServicePrincipal>, Error> {
        Ok(all_with_hashes(&self.connection)?.into_iter().map(|(principal, _)| principal).collect())
    }
}

fn find(connection: &Connection, folded: &str) -> Result<Option<ServicePrincipal>, Error> {
    let select = "SELECT name, application_id, roles FROM service_principal WHERE folded_name = ?1";
    let row = connection.query_row(select, [folded], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    row.map(|(name, application_id, roles): (String, String, String)| of_row(name, application_id, &roles)).transpose()
}

/// All service principals with what is kept of their secrets, by name.
pub(super) fn all_with_hashes(connection: &Connection) -> Result<Vec<(ServicePrincipal, PasswordHash)>, Error> {
    let mut select = connection.prepare(
        "SELECT name, application_id, roles, rounds, salt, hash FROM service_principal ORDER BY folded_name",
    )?;
    let rows = select.query_and_then([], |row| {
        let principal = of_row(row.get(0)?, row.get(1)?, &row.get::<_, String>(2)?)?;
        // The table has no other number than those above zero.
        let rounds = NonZeroU32::new(row.get(3)?).unwrap_or(NonZeroU32::MAX);
        Ok((principal, PasswordHash { rounds, salt: row.get(4)?, hash: row.get(5)? }))
    })?;
    rows.collect()
}

fn of_row(name: String, application_id: String, roles: &str) -> Result<ServicePrincipal, Error> {
    let roles: Result<Vec<Role>, Error> = roles.split(',').filter(|role| !role.is_empty()).map(str::parse).collect();
    let roles = roles.map_err(|_| wrong_in("service_principal", "roles"))?;
    Ok(ServicePrincipal { name, application_id, roles })
}

/// A random UUID (RFC 9562 5.4).
fn new_uuid() -> Result<String, Error> {
    let mut bytes = [0; 16];
    fill_random(&mut bytes)?;
    let bits = u128::from_be_bytes(bytes);
    let bits = bits & !(0xf << 76 | 0b11 << 62) | 4 << 76 | 0b10 << 62;
    let digits = format!("{bits:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part).unwrap_or_default());
    Ok(parts.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataFolder, Fault};

    #[test]
    fn ids_are_random_uuids() {
        let (one, other) = (new_uuid().unwrap(), new_uuid().unwrap());
        assert_ne!(one, other);
        assert_eq!(one.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert_eq!(one.as_bytes()[14], b'4');
        assert!(b"89ab".contains(&one.as_bytes()[19]), "{one}");
    }

    #[test]
    fn a_service_principal_has_a_secret_that_is_not_kept() {
        let place = tempfile::tempdir().unwrap();
        let mut catalog = Catalog::open(&DataFolder::create(place.path()).unwrap()).unwrap();
        let name: UserName = "CI".parse().unwrap();
        let roles = [Role::FileReader, Role::Contributor, Role::FileReader];
        let (made, secret) = catalog.create_service_principal(&name, &roles).unwrap();
        assert_eq!(made.roles, [Role::Contributor, Role::FileReader]);
        let known = all_with_hashes(&catalog.connection).unwrap();
        assert_eq!(known[0].0, made);
        assert!(known[0].1.matches(secret.as_str()));
        let taken = catalog.create_service_principal(&"ci".parse().unwrap(), &[]).unwrap_err();
        assert_eq!(taken.fault(), Fault::Conflict);
        assert_eq!(catalog.delete_service_principal(&"cI".parse().unwrap()).unwrap(), made);
        assert_eq!(catalog.delete_service_principal(&name).unwrap_err().fault(), Fault::Missing);
        assert_eq!(catalog.service_principals().unwrap(), []);
    }
}
