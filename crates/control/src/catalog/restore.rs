//! Restoring a backup: it takes the catalog's place whole, or everything stays as it is. A running server notices.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde::Serialize;

use super::backup::Holds;
use super::believed::{Believed, guard, no_backup, refuse_unfit};
use super::check::refuse_foreign;
use super::identity::beside;
use super::loosened::loosened;
use super::lost::{LostShare, lost};
use super::unnamed::Unnamed;
use super::{
    FileIdentity, Keys, Snapshot, WAIT_MAX, copies, data_place, holds_nothing, keep_log, log_of, refuse_other_server,
    rows, schema, settings, share_rows,
};
use crate::folder;
use crate::published_key::is_published;
use crate::{DataFolder, Error, Problem, look_for_problems};

/// Numbers that are left out behind those of the backup: of users and shares that were made since, which the backup does not know. Descriptors of
/// files may have the SIDs of those users, and nobody else gets them.
const NUMBERS_LEFT_OUT: i64 = 1000;
/// What the catalog that was replaced is kept as.
const KEPT: &str = "catalog.db.before-restore";
/// The number in a catalog's header that each restore makes another one: shares with the numbers of those from before may be others. SQLite does not use it,
/// and in a copy it is the sum of the bytes.
pub(super) const RESTORATION: &str = "user_version";

/// What a restore came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// The backup.
    pub file: PathBuf,
    /// The catalog that it replaced, where there was one.
    pub kept: Option<PathBuf>,
    /// What there is now.
    #[serde(flatten)]
    pub holds: Holds,
    /// The schema that the backup had.
    pub schema_of_backup: usize,
    /// Accounts and users that are there again who were not before.
    pub back: Vec<String>,
    /// Those who were there, and are not any more.
    pub gone: Vec<String>,
    /// What is allowed now that was not before, a sentence for each.
    pub loosened: Vec<String>,
    /// Shares that were there and are not in the backup.
    pub lost: Vec<LostShare>,
    /// The catalog that was replaced could not be read: nobody knows what is allowed now that was not before.
    pub is_unknown: bool,
    /// The backup is a copy of a catalog in use, and no log lay beside it: what was last changed may be missing.
    pub is_without_log: bool,
    /// Shares that cannot be served as they are.
    pub problems: Vec<Problem>,
}

/// What [`crate::restore_catalog`] is, where nobody minds a key that everybody knows.
#[cfg(test)]
pub(super) fn restore_catalog(
    data: &Path,
    file: &Path,
    agree: &mut dyn FnMut(&[String]) -> bool,
) -> Result<Restored, Error> {
    restore_judged(data, file, agree, &|_, _| Ok(()))
}

/// What [`crate::restore_catalog`] is, where `judge` says of an account that has a key that everybody knows whether it may be there.
pub(crate) fn restore_judged(
    data: &Path,
    file: &Path,
    agree: &mut dyn FnMut(&[String]) -> bool,
    judge: &dyn Fn(&DataFolder, &str) -> Result<(), Error>,
) -> Result<Restored, Error> {
    let catalog = data.join("catalog.db");
    if FileIdentity::at(file).is_ok_and(|one| FileIdentity::at(&catalog).is_ok_and(|other| one == other)) {
        return Err(no_backup(file, "it is the catalog itself"));
    }
    let file = refuse_unfit(file)?;
    let folder = DataFolder::create(data)?;
    let turn = folder.turn_to_open(WAIT_MAX)?;
    let mut staged = Staged::of(&file, &folder)?;
    let now = Snapshot::read(&staged.connection)?;
    let is_known = |keys: &Keys| is_published(&keys.key1) || is_published(&keys.key2);
    if let Some((account, _)) = now.accounts.iter().find(|(_, keys)| is_known(keys)) {
        judge(&folder, &account.name)?;
    }
    let current = Current::hold(&folder)?;
    let restored = staged.go_on_from(current.connection().map(Before::read))?;
    let (loosened, lost, is_unknown) = match current.snapshot(&folder) {
        None => (Vec::new(), Vec::new(), false),
        Some(Ok(before)) => (loosened(&before, &now), lost(&before, &now, folder.path()), false),
        Some(Err(_)) => (Vec::new(), Vec::new(), true),
    };
    if !loosened.is_empty() && !agree(&loosened) {
        return Err(Error::conflict(
            format!("{} allows what is not allowed now, and nothing is changed", file.display()),
            "look at what it is, and restore with --force if that is meant",
        ));
    }
    let kept = current.become_that(&mut staged, &folder)?;
    drop(turn);
    Ok(Restored { file, kept, loosened, lost, is_unknown, ..restored })
}

/// A backup, in memory.
struct Staged {
    connection: Connection,
    schema_of_backup: usize,
    is_without_log: bool,
    data: DataFolder,
}

impl Staged {
    /// Reads the backup, and looks whether all of it is good. The caller has the turn to open the catalog.
    fn of(file: &Path, folder: &DataFolder) -> Result<Self, Error> {
        let Believed { connection, schema_of_backup, is_without_log } = Believed::read(file, folder)?;
        Ok(Staged { connection, schema_of_backup, is_without_log, data: folder.clone() })
    }

    /// Has numbers go on behind all that were ever given, as far as that is known, and says what is different.
    fn go_on_from(&self, before: Option<Before>) -> Result<Restored, Error> {
        let own = Before::read(&self.connection);
        // Of what is not known nothing is different.
        let before = before.unwrap_or_else(|| Before { numbers: BTreeMap::new(), ..own.clone() });
        for (table, number) in &own.numbers {
            let next = before.numbers.get(table).copied().unwrap_or(0).max(number + NUMBERS_LEFT_OUT);
            let set = "UPDATE sqlite_sequence SET seq = ?2 WHERE name = ?1";
            self.connection.execute(set, rusqlite::params![table, next])?;
        }
        let without = |these: &BTreeMap<u32, String>, those: &BTreeMap<u32, String>| -> Vec<String> {
            these.iter().filter(|(number, _)| !those.contains_key(number)).map(|(_, name)| name.clone()).collect()
        };
        Ok(Restored {
            file: PathBuf::new(),
            kept: None,
            holds: Holds::read(&self.connection)?,
            schema_of_backup: self.schema_of_backup,
            back: without(&own.principals, &before.principals),
            gone: without(&before.principals, &own.principals),
            loosened: Vec::new(),
            lost: Vec::new(),
            is_unknown: false,
            is_without_log: self.is_without_log,
            problems: look_for_problems(&share_rows::all(&self.connection)?, &self.data),
        })
    }

    /// Puts it in the place of a catalog that is not there or cannot be read.
    fn take_place(&mut self, folder: &DataFolder, current: &Current) -> Result<Option<PathBuf>, Error> {
        let catalog = folder.catalog();
        let failed = |cause: io::Error| Error::system("put the backup in the place of", &catalog, &cause);
        let bytes = copies::plain(&mut self.connection)?;
        let file = Unnamed::write(folder.path(), &bytes).map_err(failed)?;
        // From here on nothing needs room but this.
        let kept = current.keep(folder)?;
        // SQLite would take them for those of the new one. A server that has them open notices that they are gone.
        for end in ["-wal", "-shm", "-journal"] {
            remove(&beside(&catalog, end)).map_err(failed)?;
        }
        copies::sync_folder(folder.path())?;
        file.replace(folder.path(), &catalog).map_err(failed)?;
        copies::sync_folder(folder.path())?;
        Ok(kept)
    }
}

/// What a catalog says of numbers and names, as far as it can be read.
#[derive(Clone)]
struct Before {
    /// The last numbers given, by table.
    numbers: BTreeMap<String, i64>,
    /// Accounts and users, by their relative ids: whoever is made anew under a name is somebody else.
    principals: BTreeMap<u32, String>,
}

impl Before {
    fn read(connection: &Connection) -> Self {
        let numbers = || -> rusqlite::Result<BTreeMap<String, i64>> {
            let mut select = connection.prepare("SELECT name, seq FROM sqlite_sequence")?;
            select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        let principals = || -> rusqlite::Result<BTreeMap<u32, String>> {
            let select = "SELECT relative_id, name FROM account UNION ALL SELECT relative_id, name FROM user";
            connection.prepare(select)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        };
        Before { numbers: numbers().unwrap_or_default(), principals: principals().unwrap_or_default() }
    }
}

/// The catalog that is there, which nobody changes as long as this is held.
enum Current {
    /// There is none.
    Nothing,
    /// It can be read.
    Sound(Connection),
    /// It cannot.
    Damaged,
}

impl Current {
    /// Waits for changes that are under way.
    fn hold(folder: &DataFolder) -> Result<Self, Error> {
        let catalog = folder.catalog();
        if holds_nothing(&catalog) && holds_nothing(&log_of(&catalog)) {
            return Ok(Current::Nothing);
        }
        match Self::held(&catalog) {
            Ok(connection) => Ok(Current::Sound(connection)),
            Err(error) if error.is_damage() => Ok(Current::Damaged),
            Err(error) if error.is_busy() => Err(folder::held(&catalog)),
            Err(error) => Err(error),
        }
    }

    fn held(catalog: &Path) -> Result<Connection, Error> {
        let connection = copies::open(catalog)?;
        keep_log(&connection)?;
        connection.pragma_update(None, "synchronous", "full")?;
        // Tables are taken away that rows of others lead to, and secrets with them, which are overwritten.
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
        data_place::expect(&connection)?;
        connection.execute_batch("BEGIN IMMEDIATE")?;
        Ok(connection)
    }

    /// Has the catalog be what is staged. It is one change of it, which is made or not: whoever has the catalog open sees the one or the other. Gives where
    /// what was there before is kept.
    fn become_that(self, staged: &mut Staged, folder: &DataFolder) -> Result<Option<PathBuf>, Error> {
        let Current::Sound(connection) = self else { return staged.take_place(folder, &self) };
        let schema = schema::version(&connection).unwrap_or(0);
        if schema != 0 && schema != schema::latest() {
            refuse_other_server(folder, schema)?;
        }
        let kept = keep_sound(folder)?;
        match Self::replaced(&connection, &staged.connection) {
            Ok(()) => Ok(Some(kept)),
            Err(error) => {
                drop(connection);
                let _ = fs::remove_file(&kept);
                if error.is_damage() { staged.take_place(folder, &Current::Damaged) } else { Err(error) }
            }
        }
    }

    /// What it says, as this program understands it; `None` where there is none.
    fn snapshot(&self, folder: &DataFolder) -> Option<Result<Snapshot, Error>> {
        match self {
            Current::Nothing => None,
            Current::Damaged => Some(Err(Error::machine("the catalog cannot be read", "restore a backup"))),
            Current::Sound(_) => Some(Self::raised_copy(folder)),
        }
    }

    /// What a copy says that is raised to this program's schema. The catalog itself may be going to be replaced, and stays as it is.
    fn raised_copy(folder: &DataFolder) -> Result<Snapshot, Error> {
        // Not through the one that holds it: SQLite copies nothing from a connection that may change something.
        let reader = copies::open(&folder.catalog())?;
        keep_log(&reader)?;
        let mut memory = copies::in_memory(&reader)?;
        // It may be what somebody has changed by hand, and is believed no more than a backup.
        guard(&mut memory)?;
        refuse_foreign(&memory, schema::version(&memory)?)?;
        data_place::tell(&memory, folder.path())?;
        schema::raise(&mut memory)?;
        settings::fill(&mut memory)?;
        Snapshot::read(&memory)
    }

    fn replaced(connection: &Connection, staged: &Connection) -> Result<(), Error> {
        let restoration: i32 = connection.pragma_query_value(None, RESTORATION, |row| row.get(0))?;
        rows::replace(connection, staged)?;
        connection.pragma_update(None, RESTORATION, restoration.wrapping_add(1))?;
        connection.pragma_update(None, "application_id", 0)?;
        connection.execute_batch("COMMIT")?;
        // What was there is gone from the log, too, as soon as nobody reads it.
        let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        Ok(())
    }

    fn connection(&self) -> Option<&Connection> {
        match self {
            Current::Sound(connection) => Some(connection),
            Current::Nothing | Current::Damaged => None,
        }
    }

    /// Keeps a copy of it: a backup where it can be read.
    fn keep(&self, folder: &DataFolder) -> Result<Option<PathBuf>, Error> {
        match self {
            Current::Nothing => Ok(None),
            Current::Damaged => keep_bytes(folder).map(Some),
            Current::Sound(_) => keep_sound(folder).map(Some),
        }
    }
}

/// Keeps a backup of a catalog that can be read.
fn keep_sound(folder: &DataFolder) -> Result<PathBuf, Error> {
    // Not through the connection that holds it: SQLite copies nothing from one that may change something.
    let kept = copies::open(&folder.catalog())
        .and_then(|reader| keep_log(&reader).map(|()| reader))
        .and_then(|reader| copies::keep(&reader, folder.path(), KEPT));
    match kept {
        Err(error) if error.is_damage() => keep_bytes(folder),
        kept => kept,
    }
}

fn keep_bytes(folder: &DataFolder) -> Result<PathBuf, Error> {
    let catalog = folder.catalog();
    copies::keep_bytes(&catalog, &log_of(&catalog), folder.path(), KEPT)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(cause),
        Ok(()) | Err(_) => Ok(()),
    }
}
