//! The catalog: what an operator has decided, in one SQLite file that several programs may read and write at once.

mod accounts;
mod backup;
mod believed;
mod check;
mod copies;
mod data_place;
mod deleted;
mod difference;
mod features;
mod former;
mod groups;
mod identity;
mod kept;
mod keys;
mod loosened;
mod lost;
mod notice;
mod operators;
mod principals;
mod provisions;
mod restore;
mod rows;
mod schema;
pub(crate) mod sense;
mod service_principals;
mod settings;
mod share_rights;
mod share_rows;
mod shares;
mod sources;
mod unnamed;
mod users;
mod wrong;

use std::collections::HashMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, FileControl, MAIN_DB, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};
use server::admin::ShareRights;

pub use accounts::{ACCOUNTS_MAX, Account, AccountChanges, MetadataCaching};
pub use backup::{Backup, Existing, Holds};
pub(crate) use check::damages;
pub use check::{CatalogProblem, Checked, check_catalog, kept_settings};
pub(crate) use copies::is_of_catalog;
pub(crate) use deleted::refuse_of_other;
pub use deleted::{DeletedShare, Deletion, refused_by_lease};
pub(crate) use difference::{Difference, names};
pub(crate) use former::FormerSecret;
pub use former::Grace;
pub use groups::Group;
use identity::{CatalogFiles, FileIdentity};
pub use keys::{Key, Keys};
pub use lost::LostShare;
pub use notice::Notice;
pub use operators::Operator;
pub use restore::Restored;
#[cfg(test)]
use restore::restore_catalog;
pub(crate) use restore::restore_judged;
pub use service_principals::ServicePrincipal;
pub use settings::{BusyPolling, Dialect, LockAfter, LockFor, PasswordLength, Setting, StoredSettings};
pub use share_rights::{Grant, Grantee, Grants};
pub use shares::{ModeChanges, Modes, NewShare, ProvisionUpdate, ShareChanges, ShareRecord};
pub(crate) use sources::Changes;
pub use sources::Source;
pub use users::{User, UserChanges};

use crate::{AccountName, AzureShare, DataFolder, Error, Features, FileService, folder};

/// How long a program waits for another's change: changes take milliseconds, so longer means that somebody hangs.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// What to do where a running server has lost its catalog.
const RESTORE: &str = "restore a backup with `multilane restore FILE`; what is there now is kept";

/// An open catalog.
#[derive(Debug)]
pub struct Catalog {
    connection: Connection,
    /// The data folder, which no share may hold.
    folder: PathBuf,
    /// The files that are open.
    files: CatalogFiles,
    notices: Vec<Notice>,
}

/// What becomes of a catalog that is not there, or holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Missing {
    IsMade,
    IsRefused,
}

/// Everything that the server needs to know, read at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) accounts: Vec<(Account, Keys)>,
    /// Who is damaged has no secret.
    pub(crate) users: Vec<(User, Option<server::admin::Secret>)>,
    /// What was replaced, and may still count.
    pub(crate) former: Vec<FormerSecret>,
    pub(crate) operators: Vec<(Operator, secure::PasswordHash)>,
    pub(crate) service_principals: Vec<(ServicePrincipal, secure::PasswordHash)>,
    pub(crate) groups: Vec<Group>,
    /// The relative ids of the groups that users are in, by those of the users.
    pub(crate) groups_of: groups::GroupsOf,
    pub(crate) shares: Vec<ShareRecord>,
    /// Shares that are deleted and kept.
    pub(crate) deleted: Vec<DeletedShare>,
    /// What clients of Azure Files keep of shares, by their numbers.
    pub(crate) azure_shares: HashMap<i64, AzureShare>,
    /// The same of accounts, by their names.
    pub(crate) file_services: HashMap<String, FileService>,
    /// The rights of shares, by their numbers.
    pub(crate) rights: HashMap<i64, ShareRights>,
    pub(crate) settings: StoredSettings,
    pub(crate) features: Features,
    /// Another number after each restore.
    pub(crate) restoration: i32,
    /// When this was read.
    pub(crate) read_at: Timestamp,
}

impl Snapshot {
    /// What a catalog of this program's schema says. The caller keeps it from changing meanwhile.
    fn read(view: &Connection) -> Result<Self, Error> {
        // Before anything is judged by it.
        let read_at = Timestamp::now();
        Ok(Snapshot {
            accounts: accounts::all_with_keys(view)?,
            users: users::all_with_hashes(view)?,
            former: former::all(view)?,
            operators: operators::all_with_hashes(view)?,
            service_principals: service_principals::all_with_hashes(view)?,
            groups: groups::all(view)?,
            groups_of: groups::memberships(view)?,
            shares: share_rows::all(view)?,
            deleted: share_rows::deleted(view)?,
            azure_shares: kept::of_shares(view)?,
            file_services: kept::of_accounts(view)?,
            rights: share_rights::all(view)?,
            settings: settings::read(view)?,
            features: features::read(view)?,
            restoration: view.pragma_query_value(None, restore::RESTORATION, |row| row.get(0))?,
            read_at,
        })
    }
}

impl Catalog {
    /// Opens the catalog of `folder`, making it where it is missing and raising it to this program's schema.
    pub fn open(folder: &DataFolder) -> Result<Self, Error> {
        Self::open_or(folder, Missing::IsMade, WAIT_MAX)
    }

    /// Opens the catalog that is there while a server runs. None is made: it would have nobody who may sign in.
    pub(crate) fn reopen(folder: &DataFolder) -> Result<Self, Error> {
        Self::reopen_within(folder, WAIT_MAX)
    }

    /// The same for who waits for other programs for so long at most, until it is open and for the first change.
    pub(crate) fn reopen_within(folder: &DataFolder, wait: Duration) -> Result<Self, Error> {
        let until = Instant::now() + wait;
        let catalog = Self::open_or(folder, Missing::IsRefused, wait)?;
        catalog.connection.busy_timeout(until.saturating_duration_since(Instant::now()))?;
        Ok(catalog)
    }

    fn open_or(folder: &DataFolder, missing: Missing, wait: Duration) -> Result<Self, Error> {
        let path = folder.catalog();
        let until = Instant::now() + wait;
        // One program at a time: SQLite does not wait for another that is changing the journal's mode.
        let turn = folder.turn_to_open(wait)?;
        believed::sweep(folder);
        refuse_emptied(folder, &path, missing)?;
        let made = match missing {
            Missing::IsMade => make_private(&path),
            Missing::IsRefused => close_to_others(&path),
        };
        made.map_err(|e| not_opened(&path, &e))?;
        let file = FileIdentity::at(&path).map_err(|e| not_opened(&path, &e))?;
        // Whoever closes a catalog leaves its log there, empty.
        let has_log = log_of(&path).exists() || holds_nothing(&path);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&path, flags)?;
        if FileIdentity::at(&path).ok() != Some(file) {
            return Err(Error::machine(
                format!("the catalog {} was replaced while it was opened", path.display()),
                "try again",
            ));
        }
        let left = until.saturating_duration_since(Instant::now());
        let prepared = prepare(&mut connection, folder, missing, left);
        let Prepared { had_log_mode, raised } =
            prepared.map_err(|error| if error.is_busy() { folder::held(&path) } else { error })?;
        // By now SQLite has its log and the log's index, which stay as long as this is open.
        let files = CatalogFiles::at(&path);
        drop(turn);
        let without_log = (had_log_mode && !has_log).then(|| Notice::WithoutLog { catalog: path.clone() });
        let notices: Vec<Notice> = raised.into_iter().chain(without_log).collect();
        notices.iter().for_each(Notice::log);
        let catalog = Catalog { connection, folder: folder.path().to_owned(), files, notices };
        catalog.forget_rest();
        catalog.connection.busy_timeout(WAIT_MAX)?;
        Ok(catalog)
    }

    /// What an operator should know of it, of what was found or done when it was opened.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// The data folder that it lies in.
    pub(crate) fn data(&self) -> &Path {
        &self.folder
    }

    /// True where the catalog of `folder` is another file than this one, or none, or has another log, or none: what this one says is no longer what other
    /// programs read and change.
    pub(crate) fn is_replaced(&self, folder: &DataFolder) -> bool {
        CatalogFiles::at(&folder.catalog()) != self.files
    }

    /// A number that is another one once another program, or another opening of the catalog, has changed it.
    pub(crate) fn version(&self) -> Result<i64, Error> {
        Ok(self.connection.pragma_query_value(None, "data_version", |row| row.get(0))?)
    }

    /// Accounts, users, operators, shares and settings as they stand together at one moment.
    pub(crate) fn snapshot(&mut self) -> Result<Snapshot, Error> {
        let view = self.connection.transaction()?;
        Snapshot::read(&view)
    }

    /// The same where `change` takes secrets away: nothing of them stays in the catalog's files, but where another program reads these at this
    /// moment ([`Catalog::empty_log`]).
    fn forget<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let result = self.write(change)?;
        self.empty_log(Duration::ZERO)?;
        Ok(result)
    }

    /// Has nothing stay in the catalog's files that was taken away. False where another program reads them and goes on for as long as this waits:
    /// then it is tried again by the running server, and by each command.
    pub fn empty_log(&self, wait: Duration) -> Result<bool, Error> {
        self.connection.busy_timeout(wait)?;
        let is_held_up = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        self.connection.busy_timeout(WAIT_MAX)?;
        match is_held_up.map_err(Error::from) {
            Err(error) if error.is_busy() => Ok(false),
            is_held_up => Ok(!is_held_up?),
        }
    }

    /// Has nothing stay in the catalog's files that could not be forgotten when it was taken away. Where that cannot be done now, it is tried again.
    pub(crate) fn forget_rest(&self) {
        if self.connection.path().is_some_and(|path| !holds_nothing(&log_of(Path::new(path)))) {
            let _ = self.empty_log(Duration::ZERO);
        }
    }

    /// Runs `change` with the write lock held from its start, so that what it reads stays true until it is done.
    fn write<T>(&mut self, change: impl FnOnce(&Transaction<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let (files, at) = (self.files, self.folder.join("catalog.db"));
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Whoever puts another in its place has the lock until that is there: what was waiting for it would be lost.
        if CatalogFiles::at(&at) != files {
            return Err(Error::conflict("the catalog was replaced while the change waited for it", "try again"));
        }
        let result = change(&transaction)?;
        transaction.commit()?;
        // Who copies `catalog.db` and not its log has it all. Where there is no room for that it stays in the log.
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        Ok(result)
    }
}

impl Drop for Catalog {
    fn drop(&mut self) {
        // The last to close a catalog writes its log into it: never that of a catalog that is no more.
        if CatalogFiles::at(&self.folder.join("catalog.db")) != self.files {
            let _ = self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

impl Snapshot {
    /// True where by `now` the time of a feature has come that was being registered when this was read, or of a user that expires, or of what was replaced.
    pub(crate) fn is_over(&self, now: Timestamp) -> bool {
        let has_come = |time: Timestamp| time > self.read_at && time <= now;
        self.features.next_change(self.read_at).is_some_and(|change| change <= now)
            || self.users.iter().filter_map(|(user, _)| user.expires).any(has_come)
            || self.former.iter().any(|former| has_come(former.until))
            || self.deleted.iter().any(|deleted| has_come(deleted.kept_until))
    }
}

/// What was found and done as a catalog was prepared.
struct Prepared {
    /// It says itself that it has a log.
    had_log_mode: bool,
    raised: Option<Notice>,
}

fn prepare(
    connection: &mut Connection,
    folder: &DataFolder,
    missing: Missing,
    wait: Duration,
) -> Result<Prepared, Error> {
    connection.busy_timeout(wait)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    keep_log(connection)?;
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    data_place::tell(connection, folder.path())?;
    if missing == Missing::IsRefused && schema::version(connection)? == 0 {
        return Err(Error::machine("the file that is catalog.db now holds no catalog", RESTORE));
    }
    connection.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // What is deleted holds keys and hashes of passwords: it is overwritten.
    connection.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    if connection.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0))? == copies::MARK {
        // It was a backup, and is the catalog now.
        connection.pragma_update(None, "application_id", 0)?;
    }
    let mut raised = None;
    schema::raise_after(connection, |from| {
        let kept = keep_before_raising(folder, from)?;
        raised = Some(Notice::Raised { from, to: schema::latest(), kept });
        Ok(())
    })?;
    settings::fill(connection)?;
    Ok(Prepared { had_log_mode: mode == "wal", raised })
}

/// Keeps a copy of a catalog that an older program has made; gives its path. A server of that program would not understand what the catalog becomes.
fn keep_before_raising(folder: &DataFolder, schema: usize) -> Result<PathBuf, Error> {
    refuse_other_server(folder, schema)?;
    // Not through the connection that holds it: SQLite copies nothing from one that changes something.
    let reader = copies::open(&folder.catalog())?;
    keep_log(&reader)?;
    copies::keep(&reader, folder.path(), &format!("catalog.db.schema-{schema}"))
}

/// Refuses to have a catalog of another schema become one of this program's while the server runs that has made it so.
fn refuse_other_server(folder: &DataFolder, schema: usize) -> Result<(), Error> {
    let Some(server) = folder.holder().filter(|holder| holder.process != Some(std::process::id())) else {
        return Ok(());
    };
    let process = server.process.map_or(String::new(), |process| format!(" (process {process})"));
    let (which, remedy) = if schema > schema::latest() {
        ("a newer", "stop that server first")
    } else {
        ("an older", "restart the server with this version first")
    };
    Err(Error::conflict(
        format!(
            "{which} server{process} runs on {}, whose catalog this program would make another",
            folder.path().display()
        ),
        remedy,
    ))
}

/// The last to close the catalog leaves its log, emptied, and the log's index: to make them anew takes room, which the disk may not have
/// when the server starts.
fn keep_log(connection: &Connection) -> Result<(), Error> {
    connection.file_control(Some(MAIN_DB), FileControl::PersistWal(&mut 1))?;
    connection.pragma_update_and_check(None, "journal_size_limit", 0, |_| Ok(()))?;
    Ok(())
}

/// The log that SQLite keeps beside a catalog.
fn log_of(catalog: &Path) -> PathBuf {
    catalog.with_extension("db-wal")
}

fn holds_nothing(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |file| file.len() == 0)
}

/// An empty catalog is a new one to SQLite. Where a server ran before, or runs, it is one that was lost, and a new one would have other keys.
fn refuse_emptied(folder: &DataFolder, path: &Path, missing: Missing) -> Result<(), Error> {
    let is_lost = match missing {
        Missing::IsMade => holds_nothing(&log_of(path)) && folder.was_served(),
        Missing::IsRefused => true,
    };
    if !(path.exists() && holds_nothing(path) && is_lost) {
        return Ok(());
    }
    Err(Error::machine(
        format!(
            "the catalog {} is empty, though a server has run here: its accounts, users and shares are lost",
            path.display()
        ),
        "restore a backup with `multilane restore FILE`, or remove catalog.db to begin anew with new keys",
    ))
}

fn not_opened(path: &Path, cause: &io::Error) -> Error {
    match cause.kind() {
        ErrorKind::NotFound => Error::machine(format!("the catalog {} is gone", path.display()), RESTORE),
        _ => Error::system("open the catalog", path, cause),
    }
}

/// Makes the file of a new catalog; SQLite gives its other files the same mode. An existing file must not be opened
/// for this: closing it again would take away the locks of this process's other connections.
fn make_private(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => close_to_others(path),
        made => made.map(drop),
    }
}

fn close_to_others(path: &Path) -> io::Result<()> {
    let is_private = fs::metadata(path)?.permissions().mode() & 0o7777 == 0o600;
    // What is right is not written again: the disk may be full.
    if is_private { Ok(()) } else { fs::set_permissions(path, Permissions::from_mode(0o600)) }
}

/// The relative id and the name of the account called `name`, or of the oldest where none is named.
fn account_or_first(connection: &Connection, name: Option<&AccountName>) -> Result<(u32, String), Error> {
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let select = "SELECT relative_id, name FROM account WHERE ?1 IS NULL OR name = ?1 ORDER BY relative_id LIMIT 1";
    let found = connection.query_row(select, [name.map(AccountName::as_str)], row).optional()?;
    found.ok_or_else(|| match name {
        Some(name) => no_account(name.as_str()),
        None => Error::missing("there is no account yet", "make one with `multilane account create NAME`"),
    })
}

/// There is no such account.
fn no_account(name: &str) -> Error {
    Error::missing(format!("there is no account {name:?}"), "`multilane account list` shows those there are")
}

/// The time that is kept as so many seconds since 1970.
fn time(seconds: i64) -> Result<Timestamp, Error> {
    Timestamp::from_second(seconds).map_err(|_| {
        let what = format!("the catalog has a time of {seconds} seconds, which is none");
        Error::machine(what, "correct it in catalog.db, or restore that file from a copy")
    })
}

/// Refuses one more row in `table` than `rows_max`.
fn room_for_one(transaction: &Transaction<'_>, table: &str, rows_max: i64) -> Result<(), Error> {
    let rows: i64 = transaction.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))?;
    if rows < rows_max {
        return Ok(());
    }
    let what = table.trim_start_matches("user_").replace('_', " ");
    Err(Error::conflict(
        format!("there are {rows} {what}s, as many as one server takes"),
        format!("take a {what} away first"),
    ))
}

#[cfg(test)]
mod account_tests;
#[cfg(test)]
mod backup_tests;
#[cfg(test)]
mod deleted_tests;
#[cfg(test)]
mod harm_tests;
#[cfg(test)]
mod people_tests;
#[cfg(test)]
mod provision_tests;
#[cfg(test)]
mod settings_tests;
#[cfg(test)]
pub(crate) mod tests;
