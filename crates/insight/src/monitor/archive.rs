//! The file that keeps the numbers: of a minute each for a day, of an hour each for thirty days.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};

use crate::monitor::interval::Interval;
use crate::monitor::record::Record;

/// How long minutes are kept, and hours.
const MINUTES_FOR: i64 = 24 * 3_600;
const HOURS_FOR: i64 = 30 * 24 * 3_600;
/// What is so much later than now is of a future that a wrong clock made.
const FUTURE: i64 = 24 * 3_600;
/// So many minutes have to agree about the time before anything is let go of because of it.
const MINUTES_THAT_AGREE: u32 = 60;
/// How long another program may have the file.
const PATIENCE: Duration = Duration::from_secs(5);
/// The version of the tables.
const VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS records (
        interval INTEGER NOT NULL, begin INTEGER NOT NULL, share TEXT NOT NULL, record TEXT NOT NULL,
        PRIMARY KEY (interval, begin, share)
    ) WITHOUT ROWID;";

/// Why the archive cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file, or what is in it.
    #[error("the archive of metrics could not be used: {0}")]
    File(rusqlite::Error),
    /// What is in the file is not what SQLite has written, and does not become so again.
    #[error("the archive of metrics is damaged: {0}")]
    Damaged(rusqlite::Error),
    /// The folder that it is in, or who may read it.
    #[error("the archive of metrics could not be used: {0}")]
    System(#[from] io::Error),
    /// It is a symbolic link, and what it leads to is nobody's business.
    #[error("the archive of metrics is a symbolic link, which is not followed")]
    Link,
    /// Nothing was kept in it yet.
    #[error("no metrics were kept yet")]
    Nothing,
    /// A newer version has written it.
    #[error("the archive of metrics was written by a newer version")]
    TooNew,
}

impl From<rusqlite::Error> for ArchiveError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => ArchiveError::Damaged(error),
            _ => ArchiveError::File(error),
        }
    }
}

/// The open file.
pub struct Archive(Connection);

impl Archive {
    /// Opens the file to write to it, and makes it where there is none.
    pub fn open(path: &Path) -> Result<Self, ArchiveError> {
        make_private(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        // A minute that a loss of power takes is no loss; a damaged file would be one.
        connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")?;
        match connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? {
            VERSION => {}
            0 => connection.execute_batch(&format!("{TABLES} PRAGMA user_version = {VERSION};"))?,
            _ => return Err(ArchiveError::TooNew),
        }
        Ok(Archive(connection))
    }

    /// Opens the file to read it.
    pub fn open_to_read(path: &Path) -> Result<Self, ArchiveError> {
        if fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Err(ArchiveError::Nothing);
        }
        refuse_link(path)?;
        match Archive::reading(path, OpenFlags::empty()) {
            // A file system that is mounted to be read only has no place for the index of a log; where there is no log nobody writes.
            Err(ArchiveError::File(error))
                if error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
                    && holds_nothing(&with_end(path, "-wal")) =>
            {
                match Archive::reading(&as_immutable(path), OpenFlags::SQLITE_OPEN_URI) {
                    // That it cannot be opened is what the first attempt said better.
                    Err(ArchiveError::File(_)) => Err(ArchiveError::File(error)),
                    opened => opened,
                }
            }
            opened => opened,
        }
    }

    fn reading(path: &Path, more: OpenFlags) -> Result<Self, ArchiveError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | more;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        match connection.query_row("PRAGMA user_version", [], |row| row.get::<_, i64>(0))? {
            VERSION => Ok(Archive(connection)),
            0 => Err(ArchiveError::Nothing),
            _ => Err(ArchiveError::TooNew),
        }
    }

    /// The name that a damaged file is given.
    pub fn aside(path: &Path) -> PathBuf {
        with_end(path, ".damaged")
    }

    /// Gives a damaged file another name, so that a new one can be made. What had that name before is gone.
    pub fn set_aside(path: &Path) -> io::Result<()> {
        let aside = Archive::aside(path);
        fs::rename(path, &aside)?;
        let unless_missing = |done: io::Result<()>| match done {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        };
        // SQLite finds a file's log by its name.
        for end in ["-wal", "-shm"] {
            unless_missing(fs::remove_file(with_end(&aside, end)))?;
            unless_missing(fs::rename(with_end(path, end), with_end(&aside, end)))?;
        }
        Ok(())
    }

    /// Adds what was recorded in the minute that begins then, of each share, and lets go of what is too old. What is known of that minute already, because a server ended and
    /// another began in it, is added to.
    pub fn add(&mut self, begin: i64, records: &BTreeMap<String, Record>) -> Result<(), ArchiveError> {
        // One that reads first, and would write then, is refused at once where another program writes.
        let change = self.0.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (share, record) in records.iter().filter(|(_, record)| !record.is_empty()) {
            for interval in [Interval::MINUTE, Interval::HOUR] {
                let key = params![interval.seconds(), interval.begin(begin), share];
                let known = "SELECT record FROM records WHERE interval = ? AND begin = ? AND share = ?";
                let known: Option<String> =
                    change.prepare_cached(known)?.query_row(key, |row| row.get(0)).optional()?;
                let mut sum: Record = known.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
                sum.add(record);
                let text = serde_json::to_string(&sum).expect("a record is JSON");
                let replace = "INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)";
                let row = params![interval.seconds(), interval.begin(begin), share, text];
                change.prepare_cached(replace)?.execute(row)?;
            }
        }
        let_go(&change, begin)?;
        Ok(change.commit()?)
    }

    /// Gives what is kept for minutes or hours that begin in a range, in the order of time. What cannot be read is left out.
    pub fn read(
        &self,
        interval: Interval,
        range: &Range<i64>,
        mut give: impl FnMut(i64, &str, &Record),
    ) -> Result<(), ArchiveError> {
        let select =
            "SELECT begin, share, record FROM records WHERE interval = ? AND begin >= ? AND begin < ? ORDER BY begin";
        let mut statement = self.0.prepare(select)?;
        let mut rows = statement.query(params![interval.seconds(), range.start, range.end])?;
        while let Some(row) = rows.next()? {
            let (begin, share, text): (i64, String, String) = (row.get(0)?, row.get(1)?, row.get(2)?);
            if let Ok(record) = serde_json::from_str(&text) {
                give(begin, &share, &record);
            }
        }
        Ok(())
    }
}

/// Lets go of what is too old at a time, and of what is of its future. The clock may be wrong, as it is on some machines until they have asked another for the time: a
/// few minutes outweigh no history.
fn let_go(change: &Transaction<'_>, now: i64) -> rusqlite::Result<()> {
    let agree_since = nth_newest(change, now + FUTURE)?;
    let is_sure = agree_since.is_some_and(|since| now - since <= FUTURE);
    let is_future_history = nth_newest(change, i64::MAX)?.is_some_and(|since| since > now + FUTURE);
    // Where it is not sure that it is now, it was as late as this.
    let reached = if is_sure { Some(now) } else { agree_since };
    for (interval, kept_for) in [(Interval::MINUTE, MINUTES_FOR), (Interval::HOUR, HOURS_FOR)] {
        if is_sure || !is_future_history {
            let future = "DELETE FROM records WHERE interval = ? AND begin > ?";
            change.execute(future, params![interval.seconds(), now + FUTURE])?;
        }
        if let Some(reached) = reached {
            let old = "DELETE FROM records WHERE interval = ? AND begin < ?";
            change.execute(old, params![interval.seconds(), reached - kept_for])?;
        }
    }
    Ok(())
}

/// When the earliest of the newest minutes began, of [`MINUTES_THAT_AGREE`] that began until then; `None` where there are fewer.
fn nth_newest(change: &Transaction<'_>, until: i64) -> rusqlite::Result<Option<i64>> {
    let mut select = change.prepare_cached("SELECT max(begin) FROM records WHERE interval = ? AND begin <= ?")?;
    let mut found = until.saturating_add(1);
    for _ in 0..MINUTES_THAT_AGREE {
        let before: Option<i64> = select.query_row(params![Interval::MINUTE.seconds(), found - 1], |row| row.get(0))?;
        let Some(before) = before else { return Ok(None) };
        found = before;
    }
    Ok(Some(found))
}

/// How SQLite is told that nobody writes to a file: it needs no other then. All bytes are escaped, whatever they mean.
fn as_immutable(path: &Path) -> PathBuf {
    let escaped: String = path.as_os_str().as_bytes().iter().map(|byte| format!("%{byte:02X}")).collect();
    format!("file:{escaped}?immutable=1").into()
}

fn holds_nothing(path: &Path) -> bool {
    fs::metadata(path).map_or(true, |file| file.len() == 0)
}

fn refuse_link(path: &Path) -> Result<(), ArchiveError> {
    if path.is_symlink() { Err(ArchiveError::Link) } else { Ok(()) }
}

/// Makes the file where there is none, and has nobody but its owner read it, and its log, to which SQLite gives the same mode where it makes that.
fn make_private(path: &Path) -> Result<(), ArchiveError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return Ok(made.map(drop)?),
    }
    refuse_link(path)?;
    for path in [path.to_owned(), with_end(path, "-wal"), with_end(path, "-shm")] {
        match close_to_others(&path) {
            // A log goes when the last program closes the file.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            closed => closed?,
        }
    }
    Ok(())
}

fn close_to_others(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    // What is right is not written again: the disk may be full.
    if !found.is_file() || found.permissions().mode() & 0o7777 == 0o600 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(0o600))
}

/// The name of a file that belongs to another.
fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::os::unix::fs::{FileExt, symlink};

    use super::*;
    use crate::monitor::metric::Metric;

    fn record(value: f64) -> Record {
        let mut record = Record::default();
        record.add_level(Metric::FileShareMaxUsedIops, value);
        record
    }

    fn of_a(value: f64) -> BTreeMap<String, Record> {
        [("a".to_owned(), record(value))].into()
    }

    fn begins(archive: &Archive, interval: Interval) -> Vec<(i64, String, u64)> {
        let mut found = Vec::new();
        let note = |begin, share: &str, record: &Record| {
            found.push((begin, share.to_owned(), record.levels.values().map(|level| level.count).sum()));
        };
        archive.read(interval, &(0..i64::MAX), note).unwrap();
        found
    }

    #[test]
    fn minutes_become_hours_and_both_go_when_they_are_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.db");
        let add = |begin, value| Archive::open(&path).unwrap().add(begin, &of_a(value)).unwrap();
        add(3_600, 1.0);
        add(3_660, 2.0);
        add(3_660, 3.0);
        add(7_200, 4.0);
        let archive = Archive::open(&path).unwrap();
        let of = |begin, count| (begin, "a".to_owned(), count);
        assert_eq!(begins(&archive, Interval::MINUTE), [of(3_600, 1), of(3_660, 2), of(7_200, 1)]);
        assert_eq!(begins(&archive, Interval::HOUR), [of(3_600, 3), of(7_200, 1)]);
        let an_hour_until = |end: i64| (end - 3_540..=end).step_by(60).for_each(|begin| add(begin, 5.0));
        an_hour_until(3_660 + MINUTES_FOR);
        assert_eq!(begins(&archive, Interval::MINUTE)[..2], [of(3_660, 2), of(7_200, 1)]);
        assert_eq!(begins(&archive, Interval::MINUTE).len(), 62);
        an_hour_until(7_200 + HOURS_FOR);
        assert_eq!(begins(&archive, Interval::HOUR)[0], of(7_200, 1));
        assert_eq!(begins(&archive, Interval::MINUTE).len(), 60);
    }

    #[test]
    fn a_clock_that_is_wrong_for_less_than_an_hour_takes_no_history() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = Archive::open(&folder.path().join("metrics.db")).unwrap();
        let mut add = |begin| archive.add(begin, &of_a(1.0)).unwrap();
        let (begin, later, earlier) = (50 * HOURS_FOR, 90 * HOURS_FOR, 0);
        let minutes = |begin: i64, count| (begin..).step_by(60).take(count);
        minutes(begin, 120).for_each(&mut add);
        for wrong in [later, earlier] {
            minutes(wrong, 59).for_each(&mut add);
        }
        // The first minute that knows better lets go of the future; the past is too old when there is nothing to doubt.
        add(begin + 120 * 60);
        let known = begins(&archive, Interval::MINUTE);
        assert_eq!(known.iter().filter(|(at, ..)| (begin..later).contains(at)).count(), 121);
        assert!(known.iter().all(|(at, ..)| (begin..later).contains(at)), "{known:?}");
        assert_eq!(begins(&archive, Interval::HOUR).len(), 3);
    }

    #[test]
    fn a_clock_that_stays_is_believed() {
        for to in [90 * HOURS_FOR, 0] {
            let folder = tempfile::tempdir().unwrap();
            let mut archive = Archive::open(&folder.path().join("metrics.db")).unwrap();
            let mut add = |begin| archive.add(begin, &of_a(1.0)).unwrap();
            let minutes = |begin: i64, count| (begin..).step_by(60).take(count);
            minutes(50 * HOURS_FOR, 120).for_each(&mut add);
            minutes(to, 60).for_each(&mut add);
            assert!(begins(&archive, Interval::MINUTE).iter().map(|(at, ..)| *at).eq(minutes(to, 60)));
            assert_eq!(begins(&archive, Interval::HOUR).len(), 1);
        }
    }

    #[test]
    fn another_that_writes_is_waited_for() {
        thread_local!(static OTHER: RefCell<Option<Connection>> = const { RefCell::new(None) });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.db");
        let mut archive = Archive::open(&path).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        OTHER.set(Some(other));
        // It writes until somebody waits for it.
        archive.0.busy_handler(Some(|_| OTHER.take().is_some())).unwrap();
        archive.add(0, &of_a(1.0)).unwrap();
        assert_eq!(begins(&archive, Interval::MINUTE).len(), 1);
    }

    #[test]
    fn nobody_but_the_owner_reads_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.db");
        let modes = || ["", "-wal", "-shm"].map(|end| fs::metadata(with_end(&path, end)).unwrap().permissions().mode());
        let archive = Archive::open(&path).unwrap();
        assert_eq!(modes(), [0o100_600; 3]);
        for end in ["", "-wal", "-shm"] {
            fs::set_permissions(with_end(&path, end), Permissions::from_mode(0o644)).unwrap();
        }
        let _again = Archive::open(&path).unwrap();
        assert_eq!(modes(), [0o100_600; 3]);
        drop(archive);
    }

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, elsewhere) = (folder.path().join("metrics.db"), folder.path().join("elsewhere"));
        symlink(&elsewhere, &path).unwrap();
        assert!(matches!(Archive::open(&path), Err(ArchiveError::Link)));
        assert!(!elsewhere.exists());
        drop(Archive::open(&elsewhere).unwrap());
        assert!(matches!(Archive::open(&path), Err(ArchiveError::Link)));
        assert!(matches!(Archive::open_to_read(&path), Err(ArchiveError::Link)));
    }

    #[test]
    fn where_nothing_can_be_written_it_is_read_all_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics 100%?.db");
        Archive::open(&path).unwrap().add(0, &of_a(1.0)).unwrap();
        // Stands for a file system that is mounted to be read only: the log's index cannot be made.
        symlink("nowhere", with_end(&path, "-shm")).unwrap();
        let archive = Archive::open_to_read(&path).unwrap();
        assert_eq!(begins(&archive, Interval::MINUTE), [(0, "a".to_owned(), 1)]);
        // A log has what the file has not.
        fs::write(with_end(&path, "-wal"), [1]).unwrap();
        assert!(matches!(Archive::open_to_read(&path), Err(ArchiveError::File(_))));
    }

    #[test]
    fn an_empty_file_has_nothing_and_is_begun_as_one_that_is_missing_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.db");
        assert!(matches!(Archive::open_to_read(&path), Err(ArchiveError::Nothing)));
        fs::write(&path, "").unwrap();
        assert!(matches!(Archive::open_to_read(&path), Err(ArchiveError::Nothing)));
        Archive::open(&path).unwrap().add(0, &of_a(1.0)).unwrap();
        assert_eq!(begins(&Archive::open_to_read(&path).unwrap(), Interval::MINUTE).len(), 1);
    }

    #[test]
    fn a_damaged_file_is_told_apart_and_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.db");
        let records = (0..500).map(|share| (format!("share {share}"), record(1.0))).collect();
        let add = || Archive::open(&path)?.add(0, &records);
        let read = || Archive::open_to_read(&path)?.read(Interval::MINUTE, &(0..60), |_, _, _| {});
        let is_damage = |done| matches!(done, Err(ArchiveError::Damaged(_)));
        add().unwrap();
        // All but the first page, which has the version.
        let length = fs::metadata(&path).unwrap().len();
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.write_all_at(&vec![0xA5; length as usize - 4_096], 4_096).unwrap();
        assert!(is_damage(add()) && is_damage(read()));
        Archive::set_aside(&path).unwrap();
        add().unwrap();
        read().unwrap();

        fs::write(&path, "no database at all").unwrap();
        fs::write(with_end(&path, "-wal"), "nor its log").unwrap();
        assert!(is_damage(add()) && is_damage(read()));
        Archive::set_aside(&path).unwrap();
        assert_eq!(fs::read(Archive::aside(&path)).unwrap(), b"no database at all");
        add().unwrap();
        assert_eq!(begins(&Archive::open_to_read(&path).unwrap(), Interval::MINUTE).len(), 500);
    }

    #[test]
    fn what_a_newer_version_wrote_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.db");
        drop(Archive::open(&path).unwrap());
        Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
        assert!(matches!(Archive::open(&path), Err(ArchiveError::TooNew)));
    }

    #[test]
    fn rows_that_cannot_be_read_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut archive = Archive::open(&folder.path().join("metrics.db")).unwrap();
        archive.0.execute("INSERT INTO records VALUES (60, 0, 'a', 'no JSON')", []).unwrap();
        assert_eq!(begins(&archive, Interval::MINUTE), []);
        archive.add(0, &of_a(1.0)).unwrap();
        assert_eq!(begins(&archive, Interval::MINUTE).len(), 1);
    }
}
