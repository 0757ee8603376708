//! What is believed of a file that is to be restored: the rows that it has in a catalog's own tables, and nothing else that it says. It is read into memory once,
//! and nothing is written but where a log has to be taken in first.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, MAIN_DB};

use super::identity::beside;
use super::{check, copies, data_place, holds_nothing, rows, schema, settings, unnamed};
use crate::folder::private_file;
use crate::{DataFolder, Error};

/// The largest file that is read: many times what the most accounts, users, groups and shares that a server takes come to.
const BYTES_MAX: u64 = 256 << 20;
/// The longest text in it: longer than any that a catalog has.
const TEXT_BYTES_MAX: i32 = 1 << 20;
/// How long SQLite may work on one file: others wait for so long at most, and for ten seconds they do.
const WORK_MAX: Duration = Duration::from_secs(8);
/// After so many of SQLite's own operations it is looked whether that is over.
const LOOK_AFTER_OPERATIONS: i32 = 10_000;
/// The name in the data folder of a copy of a file whose log is taken in.
const STAGED: &str = "catalog.db.restoring";
/// How every file of SQLite's begins.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The rows of a file in the tables of this program, in memory.
pub(super) struct Believed {
    pub(super) connection: Connection,
    pub(super) schema_of_backup: usize,
    /// It is a copy of a catalog in use, and no log lay beside it.
    pub(super) is_without_log: bool,
}

impl Believed {
    /// Reads `file` for the data folder `folder`, whose turn to open the catalog the caller has.
    pub(super) fn read(file: &Path, folder: &DataFolder) -> Result<Self, Error> {
        let of_backup = |error: Error| refusal(file, error);
        let foreign = Foreign::read(file, folder)?;
        let schema_of_backup = schema::version(&foreign.connection).map_err(of_backup)?;
        refuse_version(file, schema_of_backup)?;
        if let Some(odd) = schema::foreign(&foreign.connection, schema_of_backup).map_err(of_backup)? {
            return Err(damaged(file, &odd));
        }
        if let Some(bytes) = foreign.bytes {
            refuse_cut(bytes, &foreign.connection).map_err(of_backup)?;
        }
        if let Some(damage) = check::damage(&foreign.connection).map_err(of_backup)?.into_iter().next() {
            return Err(damaged(file, &damage));
        }
        let mut connection = Connection::open_in_memory()?;
        data_place::tell(&connection, folder.path())?;
        schema::make(&connection, schema_of_backup)?;
        rows::copy(&foreign.connection, &connection).map_err(of_backup)?;
        schema::raise(&mut connection).and_then(|()| settings::fill(&mut connection)).map_err(of_backup)?;
        if let Some(wrong) = check::contents(&connection).into_iter().next() {
            return Err(damaged(file, wrong.what()));
        }
        Ok(Believed { connection, schema_of_backup, is_without_log: foreign.is_without_log })
    }
}

fn refuse_version(file: &Path, schema_of_backup: usize) -> Result<(), Error> {
    if schema_of_backup == 0 {
        return Err(no_backup(file, "it has none of a catalog's tables"));
    }
    if schema_of_backup > schema::latest() {
        return Err(Error::machine(
            format!(
                "the backup {} has schema {schema_of_backup}, and this program knows none above {}; nothing is changed",
                file.display(),
                schema::latest()
            ),
            "restore it with the newer multilane that made it, or one after that",
        ));
    }
    Ok(())
}

/// A file as SQLite reads it, whoever wrote it.
struct Foreign {
    connection: Connection,
    /// Its length where no log counts, which may change that.
    bytes: Option<u64>,
    is_without_log: bool,
}

impl Foreign {
    fn read(file: &Path, folder: &DataFolder) -> Result<Self, Error> {
        let log = beside(file, "-wal");
        let has_log = !holds_nothing(&log);
        let mut bytes = bytes_of(file)?;
        if copies::is_marked(&bytes) && has_log {
            return Err(Error::machine(
                format!(
                    "{} lies beside a backup, which has none: what it says would count, and was not backed up; nothing is changed",
                    log.display()
                ),
                "see where it comes from, move it away, and restore again",
            ));
        }
        if copies::is_altered(&bytes) {
            return Err(damaged(file, "its bytes are not those that were written"));
        }
        let mut connection = Connection::open_in_memory()?;
        if has_log {
            let staged = Staged::make(folder, &bytes, &bytes_of(&log)?)?;
            let copied = copies::open(&staged.0).and_then(|opened| copies::copy(&opened, &mut connection));
            copied.map_err(|error| refusal(file, error))?;
            guard(&mut connection)?;
            return Ok(Foreign { connection, bytes: None, is_without_log: false });
        }
        let is_without_log = copies::has_log(&bytes);
        copies::have_no_log(&mut bytes);
        let length = bytes.len();
        let read = connection.deserialize_read_exact(MAIN_DB, bytes.as_slice(), length, true);
        read.map_err(|cause| refusal(file, cause.into()))?;
        guard(&mut connection)?;
        Ok(Foreign { connection, bytes: Some(length as u64), is_without_log })
    }
}

/// Has nothing that a file says have SQLite work without end, or hold more than a catalog does.
pub(super) fn guard(connection: &mut Connection) -> Result<(), Error> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, TEXT_BYTES_MAX)?;
    let until = Instant::now() + WORK_MAX;
    Ok(connection.progress_handler(LOOK_AFTER_OPERATIONS, Some(move || Instant::now() >= until))?)
}

/// A copy in the data folder of a file and its log, under a name that nobody reads. It goes, whatever comes of it.
struct Staged(PathBuf);

impl Drop for Staged {
    fn drop(&mut self) {
        // What stays is taken away when the catalog is opened.
        let _ = remove_with_logs(&self.0);
    }
}

impl Staged {
    fn make(folder: &DataFolder, bytes: &[u8], log: &[u8]) -> Result<Self, Error> {
        let staged = Staged(folder.path().join(STAGED));
        remove_with_logs(&staged.0)?;
        for (path, bytes) in [(staged.0.clone(), bytes), (beside(&staged.0, "-wal"), log)] {
            let written = private_file(&path).and_then(|mut file| io::Write::write_all(&mut file, bytes));
            written.map_err(|cause| Error::system("copy the backup to", &path, &cause))?;
        }
        Ok(staged)
    }
}

/// Takes away what a restore that was cut has left in a data folder. The caller has the turn to open the catalog, so that none is under way.
pub(super) fn sweep(folder: &DataFolder) {
    // It is tried again the next time.
    let _ = remove_with_logs(&folder.path().join(STAGED));
    unnamed::sweep(folder.path());
}

/// Takes away a file, and what SQLite keeps beside it.
pub(super) fn remove_with_logs(path: &Path) -> Result<(), Error> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = beside(path, end);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                return Err(Error::system("take away", &path, &cause));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// What is in a file, which is not larger than any catalog.
fn bytes_of(file: &Path) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(BYTES_MAX + 1).read_to_end(&mut bytes));
    read.map_err(|cause| Error::system("read the backup", file, &cause))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(no_backup(file, &format!("it is larger than {} MiB", BYTES_MAX >> 20)));
    }
    Ok(bytes)
}

/// Refuses a file that is not as long as it says. SQLite takes the end of the last page for empty.
fn refuse_cut(bytes: u64, connection: &Connection) -> Result<(), Error> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
    let wanted = u64::from(number("page_count")?) * u64::from(number("page_size")?);
    if bytes == wanted {
        return Ok(());
    }
    Err(Error::machine(format!("it has {bytes} bytes and should have {wanted}"), "restore another backup"))
}

/// Why a backup cannot be restored that SQLite cannot read, or that says nonsense.
fn refusal(file: &Path, error: Error) -> Error {
    if error.is_full() { error } else { damaged(file, error.what()) }
}

pub(super) fn no_backup(file: &Path, why: &str) -> Error {
    Error::machine(
        format!("{} is no backup of a catalog: {why}; nothing is changed", file.display()),
        "name a file that `multilane backup` has made",
    )
}

fn damaged(file: &Path, why: &str) -> Error {
    Error::machine(
        format!("the backup {} is cut short or damaged: {why}; nothing is changed", file.display()),
        "restore another backup",
    )
}

/// The file by its whole name. What is no file with something in it that SQLite wrote is refused before anything is made.
pub(super) fn refuse_unfit(file: &Path) -> Result<PathBuf, Error> {
    let whole = fs::canonicalize(file).map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => Error::missing(format!("there is no file {}", file.display()), "name a backup"),
        _ => Error::system("look at the backup", file, &cause),
    })?;
    let found = fs::metadata(&whole).map_err(|cause| Error::system("look at the backup", file, &cause))?;
    if !found.is_file() {
        return Err(no_backup(file, "it is no file"));
    }
    let mut beginning = Vec::with_capacity(SQLITE.len());
    let read = File::open(&whole).and_then(|opened| opened.take(SQLITE.len() as u64).read_to_end(&mut beginning));
    read.map_err(|cause| Error::system("read the backup", file, &cause))?;
    if beginning.is_empty() {
        return Err(no_backup(file, "it is empty"));
    }
    if beginning != SQLITE {
        return Err(no_backup(file, "SQLite did not write it"));
    }
    Ok(whole)
}
