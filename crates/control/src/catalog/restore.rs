//! Restoring a backup: it takes the catalog's place whole, or everything stays as it is. A running server notices.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rusqlite::Connection;
use serde::Serialize;

use super::backup::Holds;
use super::loosened::loosened;
use super::{
    FileIdentity, Snapshot, WAIT_MAX, check, copies, data_place, holds_nothing, keep_log, log_of, schema, settings,
    share_rows,
};
use crate::folder::{self, private_file};
use crate::{DataFolder, Error, Problem, look_for_problems};

/// Numbers that are left out behind those of the backup: of users and shares that were made since, which the backup does not know. Descriptors of
/// files may have the SIDs of those users, and nobody else gets them.
const NUMBERS_LEFT_OUT: i64 = 1000;
/// How every file of SQLite's begins.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// What the catalog that was replaced is kept as.
const KEPT: &str = "catalog.db.before-restore";

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
    /// The catalog that was replaced could not be read: nobody knows what is allowed now that was not before.
    pub is_unknown: bool,
    /// The backup is a copy of a catalog in use, and no log lay beside it: what was last changed may be missing.
    pub is_without_log: bool,
    /// Shares that cannot be served as they are.
    pub problems: Vec<Problem>,
}

/// Has the backup `file` take the place of the catalog of the data folder `data`, which is made where there is none. What was there before is kept. Where
/// the backup allows what is not allowed now, `agree` hears of it first, and nothing is changed where it says no; it is to answer at once, for nobody
/// can change the catalog meanwhile.
pub fn restore_catalog(data: &Path, file: &Path, agree: &mut dyn FnMut(&[String]) -> bool) -> Result<Restored, Error> {
    let catalog = data.join("catalog.db");
    if FileIdentity::at(file).is_ok_and(|one| FileIdentity::at(&catalog).is_ok_and(|other| one == other)) {
        return Err(no_backup(file, "it is the catalog itself"));
    }
    let file = refuse_unfit(file)?;
    let folder = DataFolder::create(data)?;
    let turn = folder.turn_to_open(WAIT_MAX)?;
    let staged = Staged::of(&file, &folder)?;
    let current = Current::hold(&folder)?;
    let restored = staged.go_on_from(current.connection().map(Before::read))?;
    let (loosened, is_unknown) = match current.snapshot(&folder) {
        None => (Vec::new(), false),
        Some(Ok(before)) => (loosened(&before, &Snapshot::read(&staged.connection)?), false),
        Some(Err(_)) => (Vec::new(), true),
    };
    if !loosened.is_empty() && !agree(&loosened) {
        return Err(Error::conflict(
            format!("{} allows what is not allowed now, and nothing is changed", file.display()),
            "look at what it is, and restore with --force if that is meant",
        ));
    }
    let staged = staged.close()?;
    // From here on nothing needs room but this.
    let kept = current.keep(&folder)?;
    take_place(&staged.0, &folder)?;
    drop((current, turn));
    Ok(Restored { file, kept, loosened, is_unknown, ..restored })
}

/// The file by its whole name. What is no file with something in it that SQLite wrote is refused before anything is made.
fn refuse_unfit(file: &Path) -> Result<PathBuf, Error> {
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

fn no_backup(file: &Path, why: &str) -> Error {
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

/// The catalog of a backup in the data folder, under a name that nobody reads.
struct Staged {
    // Closed before its files go.
    connection: Connection,
    files: StagedFiles,
    schema_of_backup: usize,
    is_without_log: bool,
    data: DataFolder,
}

/// What there is under that name. It goes, whatever comes of the restore.
struct StagedFiles(PathBuf);

impl Drop for StagedFiles {
    fn drop(&mut self) {
        // What stays is taken away before the next restore.
        let _ = remove_all(&self.0);
    }
}

impl Staged {
    /// Copies the backup, and looks whether all of it is good. The caller has the turn to open the catalog.
    fn of(file: &Path, folder: &DataFolder) -> Result<Self, Error> {
        let path = folder.path().join("catalog.db.restoring");
        remove_all(&path)?;
        Self::copied(file, StagedFiles(path), folder)
    }

    fn copied(file: &Path, files: StagedFiles, folder: &DataFolder) -> Result<Self, Error> {
        let path = files.0.as_path();
        let log = beside(file, "-wal");
        let has_log = !holds_nothing(&log);
        copy_bytes(file, path)?;
        if has_log {
            copy_bytes(&log, &beside(path, "-wal"))?;
        }
        if copies::is_altered(path).map_err(|cause| Error::system("read", path, &cause))? {
            return Err(damaged(file, "its bytes are not those that were written"));
        }
        let mut connection = copies::open(path)?;
        let of_backup = |error: Error| refusal(file, error);
        let schema_of_backup = schema::version(&connection).map_err(of_backup)?;
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
        if !has_log {
            refuse_cut(path, &connection).map_err(of_backup)?;
        }
        let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
        let is_without_log = mode == "wal" && !has_log;
        if let Some(damage) = check::damage(&connection).map_err(of_backup)?.into_iter().next() {
            return Err(damaged(file, &damage));
        }
        data_place::tell(&connection, folder.path())?;
        connection.pragma_update(None, "foreign_keys", true)?;
        schema::raise(&mut connection).and_then(|()| settings::fill(&mut connection)).map_err(of_backup)?;
        if let Some(wrong) = check::contents(&connection).into_iter().next() {
            return Err(damaged(file, wrong.what()));
        }
        Ok(Staged { connection, files, schema_of_backup, is_without_log, data: folder.clone() })
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
            is_unknown: false,
            is_without_log: self.is_without_log,
            problems: look_for_problems(&share_rows::all(&self.connection)?, &self.data),
        })
    }

    /// Has it be as a catalog is that nobody has open, on the disk.
    fn close(self) -> Result<StagedFiles, Error> {
        let Staged { connection, files, .. } = self;
        drop(connection);
        copies::mark(&files.0, 0)?;
        let synced = private_file(&files.0).and_then(|file| file.sync_all());
        synced.map_err(|cause| Error::system("copy the backup to", &files.0, &cause))?;
        Ok(files)
    }
}

/// Has a staged catalog be the catalog. The caller keeps others from changing the one that there is, whose log is empty.
fn take_place(staged: &Path, folder: &DataFolder) -> Result<(), Error> {
    let catalog = folder.catalog();
    let failed = |cause: io::Error| Error::system("put the backup in the place of", &catalog, &cause);
    // SQLite would take them for those of the new one. Nothing is in the log.
    for end in ["-wal", "-shm", "-journal"] {
        remove(&beside(&catalog, end)).map_err(failed)?;
    }
    copies::sync_folder(folder.path())?;
    fs::rename(staged, &catalog).map_err(failed)?;
    copies::sync_folder(folder.path())
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
    /// Waits for changes that are under way, and has the catalog's log be empty.
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
        let until = Instant::now() + WAIT_MAX;
        let connection = copies::open(catalog)?;
        keep_log(&connection)?;
        loop {
            let is_held_up: bool = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
            connection.execute_batch("BEGIN IMMEDIATE")?;
            // Somebody may have changed something in between.
            if holds_nothing(&log_of(catalog)) {
                return Ok(connection);
            }
            connection.execute_batch("ROLLBACK")?;
            if is_held_up || Instant::now() >= until {
                return Err(folder::held(catalog));
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
        let mut memory = Connection::open_in_memory()?;
        copies::copy(&reader, &mut memory)?;
        data_place::tell(&memory, folder.path())?;
        schema::raise(&mut memory)?;
        settings::fill(&mut memory)?;
        Snapshot::read(&memory)
    }

    fn connection(&self) -> Option<&Connection> {
        match self {
            Current::Sound(connection) => Some(connection),
            Current::Nothing | Current::Damaged => None,
        }
    }

    /// Keeps a copy of it: a backup where it can be read.
    fn keep(&self, folder: &DataFolder) -> Result<Option<PathBuf>, Error> {
        let catalog = folder.catalog();
        let bytes = || copies::keep_bytes(&catalog, &log_of(&catalog), folder.path(), KEPT).map(Some);
        match self {
            Current::Nothing => Ok(None),
            Current::Damaged => bytes(),
            Current::Sound(_) => {
                // Not through the one that holds it: SQLite copies nothing from a connection that may change something.
                let kept = copies::open(&catalog)
                    .and_then(|reader| keep_log(&reader).map(|()| reader))
                    .and_then(|reader| copies::keep(&reader, folder.path(), KEPT));
                match kept {
                    Err(error) if error.is_damage() => bytes(),
                    kept => kept.map(Some),
                }
            }
        }
    }
}

/// Refuses a file that is not as long as it says. SQLite takes the end of the last page for empty.
fn refuse_cut(staged: &Path, connection: &Connection) -> Result<(), Error> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u32>(0));
    let wanted = u64::from(number("page_count")?) * u64::from(number("page_size")?);
    let bytes = fs::metadata(staged).map_err(|cause| Error::system("look at", staged, &cause))?.len();
    if bytes == wanted {
        return Ok(());
    }
    Err(Error::machine(format!("it has {bytes} bytes and should have {wanted}"), "restore another backup"))
}

/// Why a backup cannot be restored that SQLite cannot read, or that says nonsense.
fn refusal(file: &Path, error: Error) -> Error {
    if error.is_full() { error } else { damaged(file, error.what()) }
}

fn copy_bytes(from: &Path, to: &Path) -> Result<(), Error> {
    let mut source = File::open(from).map_err(|cause| Error::system("read the backup", from, &cause))?;
    let copied = private_file(to).and_then(|mut out| io::copy(&mut source.by_ref(), &mut out));
    copied.map(drop).map_err(|cause| Error::system("copy the backup to", to, &cause))
}

fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(end);
    name.into()
}

fn remove_all(path: &Path) -> Result<(), Error> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let path = beside(path, end);
        remove(&path).map_err(|cause| Error::system("take away", &path, &cause))?;
    }
    Ok(())
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(cause),
        Ok(()) | Err(_) => Ok(()),
    }
}
