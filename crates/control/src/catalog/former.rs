//! Passwords and keys that were replaced, and count for some time on: what they signed in goes on until then, and keys sign in, too.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rusqlite::{Connection, Transaction, params};
use server::admin::Secret;

use super::Catalog;
use crate::{Error, span};

/// Those of one password or key that are kept at a time: each is one more that a client may have.
const FORMER_MAX: i64 = 4;

/// How long what was replaced counts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace(Duration);

impl Grace {
    /// Longer is no grace but one more password.
    const MAX: Duration = Duration::from_secs(30 * 24 * 60 * 60);

    /// The time at which it is over that begins at `now`, in whole seconds.
    pub fn until(self, now: Timestamp) -> Timestamp {
        let end = SignedDuration::try_from(self.0).ok().and_then(|time| now.checked_add(time).ok());
        let end = end.and_then(|end| Timestamp::from_second(end.as_second()).ok());
        end.unwrap_or(now)
    }
}

impl fmt::Display for Grace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&span::to_text(self.0))
    }
}

impl FromStr for Grace {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let time = span::parse(text).filter(|time| !time.is_zero() && *time <= Grace::MAX);
        time.map(Grace).ok_or_else(|| {
            Error::argument(format!("{text:?} is no time of grace"), "use a time of up to 30d, such as 1h or 90m")
        })
    }
}

/// What was replaced, of which principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FormerSecret {
    pub(crate) relative_id: u32,
    pub(crate) nt_hash: Secret,
    /// It counts until then.
    pub(crate) until: Timestamp,
}

/// Which of a principal's secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Password = 0,
    Key1 = 1,
    Key2 = 2,
}

/// What becomes of what is replaced now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replaced<'a> {
    pub(super) relative_id: u32,
    pub(super) slot: Slot,
    pub(super) nt_hash: &'a Secret,
}

impl Replaced<'_> {
    /// Has it count until `grace` is over, beside those that were replaced before; without one neither it nor those count from now on.
    pub(super) fn keep(self, transaction: &Transaction<'_>, grace: Option<Grace>) -> Result<(), Error> {
        let now = Timestamp::now();
        forget_ended(transaction, now)?;
        let of = params![self.relative_id, self.slot as u8];
        let Some(grace) = grace else {
            transaction.execute("DELETE FROM former_secret WHERE principal = ?1 AND slot = ?2", of)?;
            return Ok(());
        };
        let count = "SELECT count(*) FROM former_secret WHERE principal = ?1 AND slot = ?2";
        if transaction.query_row(count, of, |row| row.get::<_, i64>(0))? >= FORMER_MAX {
            return Err(Error::conflict(
                format!("{FORMER_MAX} that were replaced before still have time left"),
                "wait until one of them is over, or leave --grace out, which ends all of them",
            ));
        }
        transaction.execute(
            "INSERT INTO former_secret (principal, slot, nt_hash, until) VALUES (?1, ?2, ?3, ?4)",
            params![self.relative_id, self.slot as u8, **self.nt_hash, grace.until(now).as_second()],
        )?;
        Ok(())
    }
}

impl Catalog {
    /// Takes out of the catalog what has had its time by `now`. Where another program holds the catalog, that is for the next who does this.
    pub(crate) fn forget_former(&mut self, now: Timestamp) -> Result<(), Error> {
        self.connection.busy_timeout(Duration::ZERO)?;
        let forgotten = self.forget(|transaction| forget_ended(transaction, now));
        self.connection.busy_timeout(super::WAIT_MAX)?;
        forgotten
    }
}

fn forget_ended(transaction: &Transaction<'_>, now: Timestamp) -> Result<(), Error> {
    transaction.execute("DELETE FROM former_secret WHERE until <= ?1", [now.as_second()])?;
    Ok(())
}

/// All that were replaced, and are kept. What makes no sense among them counts no more, as if its time were over.
pub(super) fn all(connection: &Connection) -> Result<Vec<FormerSecret>, Error> {
    let mut select = connection.prepare("SELECT principal, nt_hash, until FROM former_secret")?;
    let mut rows = select.query([])?;
    let mut former = Vec::new();
    while let Some(row) = rows.next()? {
        let (relative_id, hash, until) = (row.get(0), row.get::<_, [u8; 16]>(1), row.get(2));
        if let (Ok(relative_id), Ok(hash), Ok(until)) = (relative_id, hash, until)
            && let Ok(until) = Timestamp::from_second(until)
        {
            former.push(FormerSecret { relative_id, nt_hash: Secret::from(hash), until });
        }
    }
    Ok(former)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_is_a_time_of_up_to_thirty_days() {
        for (text, shortest) in [("1s", "1s"), ("60m", "1h"), ("30d", "30d")] {
            assert_eq!(text.parse::<Grace>().unwrap().to_string(), shortest);
        }
        for wrong in ["0s", "31d", "", "1", "-1h", "hour"] {
            assert!(wrong.parse::<Grace>().is_err(), "{wrong:?}");
        }
    }
}
