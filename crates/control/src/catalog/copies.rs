//! Whole copies of a catalog that others read and change meanwhile, by SQLite's online backup.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use tempfile::NamedTempFile;

use super::WAIT_MAX;
use crate::Error;

/// What tells a copy from a catalog that is in use, and from what other programs wrote: `application_id` of SQLite's header.
pub(super) const MARK: i32 = i32::from_be_bytes(*b"MLAN");
/// Where SQLite's header says, twice, whether a file has a log.
const LOG_AT: u64 = 18;
/// It has none.
const NO_LOG: [u8; 2] = [1, 1];
/// Where SQLite's header has `user_version`, which SQLite does not use: a copy has the sum of its other bytes there.
const SUM_AT: u64 = 60;
/// Where it has `application_id`.
const MARK_AT: u64 = 68;
/// How often it is tried again where another program is just in the way.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Copies of one kind in a data folder: more than anybody makes.
const COPIES_MAX: u32 = 100_000;

/// Copies all that `from` says at one moment to `to`.
pub(super) fn copy(from: &Connection, to: &mut Connection) -> Result<(), Error> {
    let until = Instant::now() + WAIT_MAX;
    let backup = Backup::new(from, to)?;
    loop {
        match backup.step(-1)? {
            StepResult::Done => return Ok(()),
            StepResult::More => {}
            _ if Instant::now() < until => thread::sleep(LOOK_AGAIN),
            _ => {
                let remedy = "try again, or end that program";
                return Err(Error::machine("another program has held the catalog for seconds", remedy));
            }
        }
    }
}

/// A copy of `from` in a file of its own in `folder`, which is gone unless it is kept. It needs no log beside it, and is on the disk.
pub(super) fn in_folder(from: &Connection, folder: &Path) -> Result<NamedTempFile, Error> {
    let made = tempfile::Builder::new().prefix(".multilane-").suffix(".new").tempfile_in(folder);
    let file = made.map_err(|cause| Error::system("make a file in", folder, &cause))?;
    let mut to = open(file.path())?;
    to.pragma_update_and_check(None, "journal_mode", "off", |_| Ok(()))?;
    copy(from, &mut to).map_err(|error| about(folder, error))?;
    drop(to);
    // By hand, as SQLite would make other files for it. It has written through another descriptor of the same file.
    let written = (|| {
        let file = file.as_file();
        file.write_all_at(&NO_LOG, LOG_AT)?;
        file.write_all_at(&MARK.to_be_bytes(), MARK_AT)?;
        let sum = sum(file)?;
        file.write_all_at(&sum.to_be_bytes(), SUM_AT)?;
        file.sync_all()
    })();
    written.map_err(|cause: io::Error| Error::system("write a copy of the catalog to", folder, &cause))?;
    Ok(file)
}

/// A number that is another one where any byte of the file is, but for those of the number itself (FNV-1a). Never 0, which says that nobody has
/// summed it.
fn sum(file: &File) -> io::Result<u32> {
    let mut piece = vec![0; 1 << 16];
    let (mut at, mut sum) = (0_u64, 0xcbf2_9ce4_8422_2325_u64);
    loop {
        let count = file.read_at(&mut piece, at)?;
        if count == 0 {
            let [high, low] = [sum >> 32, sum & u64::from(u32::MAX)];
            return Ok(u32::try_from(high ^ low).unwrap_or(0).max(1));
        }
        for (byte, place) in piece.iter().take(count).zip(at..) {
            if !(SUM_AT..SUM_AT + 4).contains(&place) {
                sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        at += count as u64;
    }
}

/// True of a copy that is not as it was made.
pub(super) fn is_altered(file: &Path) -> io::Result<bool> {
    let file = File::open(file)?;
    let (mut told, mut mark) = ([0; 4], [0; 4]);
    let is_read = file.read_at(&mut told, SUM_AT)? == 4 && file.read_at(&mut mark, MARK_AT)? == 4;
    let told = u32::from_be_bytes(told);
    Ok(is_read && mark == MARK.to_be_bytes() && told != 0 && told != sum(&file)?)
}

/// Makes a file say whether it is a copy, and stand for itself, without a log.
pub(super) fn mark(file: &Path, mark: i32) -> Result<(), Error> {
    let connection = open(file)?;
    connection.pragma_update_and_check(None, "journal_mode", "delete", |_| Ok(()))?;
    connection.pragma_update(None, "user_version", 0)?;
    Ok(connection.pragma_update(None, "application_id", mark)?)
}

pub(super) fn open(file: &Path) -> Result<Connection, Error> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(file, flags)?;
    connection.busy_timeout(WAIT_MAX)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Keeps a copy of `from` in `folder`, as `stem`, or as `stem.2` and so on where there is one; gives its path.
pub(super) fn keep(from: &Connection, folder: &Path, stem: &str) -> Result<PathBuf, Error> {
    let file = in_folder(from, folder)?;
    let kept = persist(file, folder, stem)?;
    sync_folder(folder)?;
    Ok(kept)
}

fn persist(mut file: NamedTempFile, folder: &Path, stem: &str) -> Result<PathBuf, Error> {
    for path in names(folder, stem) {
        match file.persist_noclobber(&path) {
            Ok(_) => return Ok(path),
            Err(refused) if refused.error.kind() == io::ErrorKind::AlreadyExists => file = refused.file,
            Err(refused) => return Err(Error::system("keep a copy of the catalog as", &path, &refused.error)),
        }
    }
    Err(Error::machine(
        format!("there are too many copies {stem} in {}", folder.display()),
        "delete those that are old",
    ))
}

/// Keeps the files of a catalog that SQLite cannot read, as they are, in the same way.
pub(super) fn keep_bytes(catalog: &Path, log: &Path, folder: &Path, stem: &str) -> Result<PathBuf, Error> {
    let taken = |path: &PathBuf| path.symlink_metadata().is_ok();
    let path = names(folder, stem).find(|path| !taken(path)).unwrap_or_else(|| folder.join(stem));
    let mut log_kept = path.clone().into_os_string();
    log_kept.push("-wal");
    for (from, to) in [(log, Path::new(&log_kept)), (catalog, path.as_path())] {
        if from == log && super::holds_nothing(log) {
            continue;
        }
        let copied = fs::copy(from, to).and_then(|_| {
            fs::set_permissions(to, Permissions::from_mode(0o600))?;
            File::open(to)?.sync_all()
        });
        copied.map_err(|cause| Error::system("keep the catalog as", to, &cause))?;
    }
    sync_folder(folder)?;
    Ok(path)
}

fn names(folder: &Path, stem: &str) -> impl Iterator<Item = PathBuf> {
    let (folder, stem) = (folder.to_owned(), stem.to_owned());
    (1..COPIES_MAX).map(move |number| match number {
        1 => folder.join(&stem),
        _ => folder.join(format!("{stem}.{number}")),
    })
}

/// Has the names in a folder be on the disk.
pub(super) fn sync_folder(folder: &Path) -> Result<(), Error> {
    let synced = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|cause| Error::system("write to the disk the names in", folder, &cause))
}

/// What goes wrong with a copy in `folder`, where the disk under it is what to look at.
fn about(folder: &Path, error: Error) -> Error {
    if error.is_full() {
        return Error::machine(
            format!("there is no room for a copy of the catalog in {}", folder.display()),
            "free some space on that disk",
        );
    }
    error
}

/// True of a file that [`in_folder`] made.
pub(super) fn is_copy(file: &Path) -> bool {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mark = Connection::open_with_flags(file, flags)
        .and_then(|file| file.pragma_query_value(None, "application_id", |row| row.get::<_, i32>(0)));
    mark.is_ok_and(|mark| mark == MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_known_by_its_mark_and_nothing_else_is_taken_for_one() {
        let place = tempfile::tempdir().unwrap();
        let connection = Connection::open(place.path().join("whole")).unwrap();
        connection.execute_batch("CREATE TABLE one (x)").unwrap();
        let kept = keep(&connection, place.path(), "copy").unwrap();
        fs::write(place.path().join("text"), "no database").unwrap();
        fs::write(place.path().join("empty"), "").unwrap();
        assert!(is_copy(&kept));
        for other in ["whole", "text", "empty", "gone", ""] {
            assert!(!is_copy(&place.path().join(other)), "{other}");
        }
        mark(&kept, 0).unwrap();
        assert!(!is_copy(&kept));
    }

    #[test]
    fn a_copy_in_which_any_byte_is_another_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE one (x); INSERT INTO one VALUES ('some text')").unwrap();
        let kept = keep(&connection, place.path(), "copy").unwrap();
        assert!(!is_altered(&kept).unwrap());
        let bytes = fs::read(&kept).unwrap();
        let other = place.path().join("other");
        for at in (0..bytes.len()).filter(|at| at % 97 == 0 || (60..64).contains(at)) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            fs::write(&other, &bytes).unwrap();
            assert!(is_altered(&other).unwrap(), "{at}");
        }
        // Nobody says what these should be.
        for length in [0, 59, 63, 68, 71] {
            fs::write(&other, &bytes[..length]).unwrap();
            assert!(!is_altered(&other).unwrap(), "{length}");
        }
        mark(&kept, MARK).unwrap();
        assert!(!is_altered(&kept).unwrap(), "it has no sum");
    }

    #[test]
    fn copies_have_names_of_their_own_and_are_for_their_owner_alone() {
        let place = tempfile::tempdir().unwrap();
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE one (x)").unwrap();
        for name in ["copy", "copy.2", "copy.3"] {
            let kept = keep(&connection, place.path(), "copy").unwrap();
            assert_eq!(kept, place.path().join(name));
            assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o7777, 0o600);
        }
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3, "and nothing else is left");
    }
}
