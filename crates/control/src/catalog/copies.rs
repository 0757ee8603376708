//! Whole copies of a catalog that others read and change meanwhile, by SQLite's online backup.

use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, MAIN_DB, OpenFlags};

use super::WAIT_MAX;
use super::unnamed::Unnamed;
use crate::Error;

/// What tells a copy from a catalog that is in use, and from what other programs wrote: `application_id` of SQLite's header.
pub(super) const MARK: i32 = i32::from_be_bytes(*b"MLAN");
/// What a file of SQLite's begins with.
const SQLITE: &[u8] = b"SQLite format 3\0";
/// What the names of a catalog and of its copies in the data folder begin with.
const CATALOG: &[u8] = b"catalog.db";
/// Where SQLite's header says, twice, whether a file has a log.
const LOG_AT: usize = 18;
/// It has none.
const NO_LOG: [u8; 2] = [1, 1];
/// Where SQLite's header has `user_version`, which SQLite does not use: a copy has the sum of its other bytes there.
const SUM_AT: usize = 60;
/// Where it has `application_id`.
const MARK_AT: usize = 68;
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

/// A copy of `from` in memory.
pub(super) fn in_memory(from: &Connection) -> Result<Connection, Error> {
    let mut memory = Connection::open_in_memory()?;
    copy(from, &mut memory)?;
    Ok(memory)
}

/// The bytes of a copy that is in memory, as a file that needs no log beside it and says that it is a copy.
pub(super) fn marked(memory: &mut Connection) -> Result<Vec<u8>, Error> {
    let mut bytes = plain(memory)?;
    put(&mut bytes, MARK_AT, MARK.to_be_bytes());
    let sum = sum(&bytes);
    put(&mut bytes, SUM_AT, sum.to_be_bytes());
    Ok(bytes)
}

/// The same of one that does not.
pub(super) fn plain(memory: &mut Connection) -> Result<Vec<u8>, Error> {
    let mut bytes = memory.serialize(MAIN_DB)?.to_vec();
    put(&mut bytes, LOG_AT, NO_LOG);
    put(&mut bytes, MARK_AT, [0; 4]);
    put(&mut bytes, SUM_AT, [0; 4]);
    Ok(bytes)
}

fn put<const COUNT: usize>(bytes: &mut [u8], from: usize, these: [u8; COUNT]) {
    for (byte, value) in bytes.iter_mut().skip(from).zip(these) {
        *byte = value;
    }
}

/// A number that is another one where any byte of a file is, but for those of the number itself (FNV-1a). Never 0, which says that nobody has summed it.
fn sum(bytes: &[u8]) -> u32 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for (at, byte) in bytes.iter().enumerate() {
        if !(SUM_AT..SUM_AT + 4).contains(&at) {
            sum = (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let [high, low] = [sum >> 32, sum & u64::from(u32::MAX)];
    u32::try_from(high ^ low).unwrap_or(0).max(1)
}

/// True of the bytes of a copy.
pub(super) fn is_marked(bytes: &[u8]) -> bool {
    at(bytes, MARK_AT) == Some(MARK.to_be_bytes())
}

/// True of a file with this name that begins so: a copy of a catalog, or one in use, which its name alone tells from what others write by SQLite.
pub(crate) fn is_of_catalog(name: &OsStr, begins: &[u8]) -> bool {
    begins.starts_with(SQLITE) && (is_marked(begins) || name.as_bytes().starts_with(CATALOG))
}

/// True of the bytes of a copy that are not as they were made.
pub(super) fn is_altered(bytes: &[u8]) -> bool {
    let told = at(bytes, SUM_AT).map_or(0, u32::from_be_bytes);
    is_marked(bytes) && told != 0 && told != sum(bytes)
}

/// True where the bytes of a file say that it has a log.
pub(super) fn has_log(bytes: &[u8]) -> bool {
    at::<1>(bytes, LOG_AT).is_some_and(|[version]| version > NO_LOG[0])
}

/// Has the bytes of a file say that it has none.
pub(super) fn have_no_log(bytes: &mut [u8]) {
    put(bytes, LOG_AT, NO_LOG);
}

/// So many bytes of a file, from its byte `from` on.
fn at<const COUNT: usize>(bytes: &[u8], from: usize) -> Option<[u8; COUNT]> {
    bytes.get(from..)?.first_chunk().copied()
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
    let bytes = marked(&mut in_memory(from)?)?;
    let file = Unnamed::write(folder, &bytes).map_err(|cause| not_written(folder, &cause))?;
    let kept = name(&file, folder, stem)?;
    sync_folder(folder)?;
    Ok(kept)
}

fn name(file: &Unnamed, folder: &Path, stem: &str) -> Result<PathBuf, Error> {
    for path in names(folder, stem) {
        match file.link(&path) {
            Ok(()) => return Ok(path),
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) => return Err(Error::system("keep a copy of the catalog as", &path, &cause)),
        }
    }
    Err(Error::machine(
        format!("there are too many copies {stem} in {}", folder.display()),
        "delete those that are old",
    ))
}

/// Why a copy of the catalog could not be written to `folder`.
pub(super) fn not_written(folder: &Path, cause: &io::Error) -> Error {
    Error::system("write a copy of the catalog to", folder, cause)
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

/// True of a file with the bytes of [`marked`].
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
        fs::write(&kept, plain(&mut in_memory(&connection).unwrap()).unwrap()).unwrap();
        assert!(!is_copy(&kept));
    }

    #[test]
    fn a_copy_in_which_any_byte_is_another_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE one (x); INSERT INTO one VALUES ('some text')").unwrap();
        let kept = keep(&connection, place.path(), "copy").unwrap();
        assert!(!is_altered(&fs::read(&kept).unwrap()));
        let bytes = fs::read(&kept).unwrap();
        for at in (0..bytes.len()).filter(|at| at % 97 == 0 || (60..64).contains(at)) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            assert!(is_altered(&bytes), "{at}");
        }
        // Nobody says what these should be.
        for length in [0, 59, 63, 68, 71] {
            assert!(!is_altered(&bytes[..length]), "{length}");
        }
        let mut bytes = bytes;
        put(&mut bytes, SUM_AT, [0; 4]);
        assert!(is_marked(&bytes) && !is_altered(&bytes), "it has no sum");
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
