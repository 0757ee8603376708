//! Backups: the whole catalog in one file, made while servers and commands go on.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde::Serialize;

use super::identity::beside;
use super::unnamed::{self, Unnamed};
use super::{Catalog, FileIdentity, check, copies, schema};
use crate::Error;
use crate::audit_place::share_with;

/// What becomes of a file that has the name of a new backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays, and there is no backup.
    IsKept,
    /// It is replaced, if it is a backup.
    IsReplaced,
}

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Backup {
    /// The file.
    pub file: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// What it holds.
    #[serde(flatten)]
    pub holds: Holds,
}

/// How much a catalog holds, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holds {
    /// The version of its tables.
    pub schema: usize,
    /// Storage accounts.
    pub accounts: usize,
    /// Users.
    pub users: usize,
    /// Groups.
    pub groups: usize,
    /// Operators.
    pub operators: usize,
    /// Shares.
    pub shares: usize,
}

impl Holds {
    pub(super) fn read(connection: &Connection) -> Result<Self, Error> {
        let rows = |table: &str| -> Result<usize, Error> {
            if !connection.table_exists(None, table)? {
                return Ok(0);
            }
            let count = format!("SELECT count(*) FROM {table}");
            Ok(usize::try_from(connection.query_row(&count, [], |row| row.get::<_, i64>(0))?).unwrap_or(0))
        };
        Ok(Holds {
            schema: schema::version(connection)?,
            accounts: rows("account")?,
            users: rows("user")?,
            groups: rows("user_group")?,
            operators: rows("operator")?,
            shares: live_shares(connection)?,
        })
    }
}

/// The shares that are not deleted. An older catalog keeps no others.
fn live_shares(connection: &Connection) -> Result<usize, Error> {
    if !connection.table_exists(None, "share")? {
        return Ok(0);
    }
    let which = if connection.column_exists(None, "share", "deleted")? { " WHERE deleted IS NULL" } else { "" };
    let count = format!("SELECT count(*) FROM share{which}");
    Ok(usize::try_from(connection.query_row(&count, [], |row| row.get::<_, i64>(0))?).unwrap_or(0))
}

impl Catalog {
    /// Makes a backup of all that the catalog says at this moment, which is whole when it has its name. It holds every secret, and is for its
    /// owner alone. A file in a folder that is shared is refused.
    pub fn back_up(&self, file: &Path, existing: Existing) -> Result<Backup, Error> {
        let (folder, file) = place_of(file)?;
        self.refuse_taken(&file, existing)?;
        refuse_log(&file)?;
        if let Some(share) = share_with(self.shares()?, &file)? {
            return Err(Error::argument(
                format!(
                    "{} would be in the folder of share {share:?}, whose users could read every key",
                    file.display()
                ),
                "choose a folder that is not shared",
            ));
        }
        unnamed::sweep(&folder);
        let mut copied = copies::in_memory(&self.connection)?;
        if let Some(problem) = check::damage(&copied)?.into_iter().next() {
            return Err(Error::machine(
                format!("the catalog is damaged, and nothing is backed up: {problem}"),
                "see `multilane catalog check`, and restore a backup that was made before",
            ));
        }
        let (holds, bytes) = (Holds::read(&copied)?, copies::marked(&mut copied)?);
        let copy = Unnamed::write(&folder, &bytes).map_err(|cause| copies::not_written(&folder, &cause))?;
        let named = match existing {
            Existing::IsKept => copy.link(&file),
            Existing::IsReplaced => copy.replace(&folder, &file),
        };
        named.map_err(|cause| match cause.kind() {
            ErrorKind::AlreadyExists => taken(&file),
            _ => Error::system("make the backup", &file, &cause),
        })?;
        copies::sync_folder(&folder)?;
        Ok(Backup { file, bytes: bytes.len() as u64, holds })
    }

    fn refuse_taken(&self, file: &Path, existing: Existing) -> Result<(), Error> {
        let found = match fs::symlink_metadata(file) {
            Ok(found) => found,
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
            Err(cause) => return Err(Error::system("look at", file, &cause)),
        };
        if existing == Existing::IsKept {
            return Err(taken(file));
        }
        // The catalog itself is not opened for this.
        let at = self.folder.join("catalog.db");
        let is_catalog =
            FileIdentity::at(file).is_ok_and(|file| FileIdentity::at(&at).is_ok_and(|catalog| file == catalog));
        if !found.is_file() || is_catalog || !copies::is_copy(file) {
            return Err(Error::conflict(
                format!("{} is no backup, and is not replaced", file.display()),
                "name another file: --force replaces nothing but backups",
            ));
        }
        Ok(())
    }
}

/// Refuses to put a backup beside a log of the same name: SQLite would take what that says for a part of the backup.
fn refuse_log(file: &Path) -> Result<(), Error> {
    for log in ["-wal", "-journal"].map(|end| beside(file, end)) {
        if log.symlink_metadata().is_ok() {
            return Err(Error::conflict(
                format!("{} exists, and would be taken for a part of the backup", log.display()),
                "name another file, or see where that one comes from and move it away",
            ));
        }
    }
    Ok(())
}

fn taken(file: &Path) -> Error {
    Error::conflict(
        format!("{} exists already", file.display()),
        "name another file, or replace that backup with --force",
    )
}

/// The folder of a file that is to be, and the file in it, by names without links.
fn place_of(file: &Path) -> Result<(PathBuf, PathBuf), Error> {
    let Some(name) = file.file_name() else {
        return Err(Error::argument(format!("{} is the name of no file", file.display()), "name a file"));
    };
    let above = file.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = fs::canonicalize(above).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => Error::argument(
            format!("there is no folder {}", above.display()),
            "make it with `mkdir`, or name a file in another",
        ),
        _ => Error::system("look at the folder", above, &cause),
    })?;
    let file = folder.join(name);
    Ok((folder, file))
}
