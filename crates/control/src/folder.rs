//! The data folder: where the catalog, the admin socket and the default share live. Only its owner may look inside.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::{DEVELOPMENT_FOLDER, Error};

/// Bits that would let somebody else in.
const OTHERS: u32 = 0o077;
/// Bytes of a lock file that are read to name its holder.
const HOLDER_BYTES_MAX: u64 = 20;
/// How long a server that is ending may take to give back the lock: where the folder's disk hung until now, it ends in this moment.
const GIVEN_BACK_WITHIN: Duration = Duration::from_secs(1);
/// How often it is looked whether a lock is free.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Where the folders are that the server makes for shares, in the data folder.
pub(crate) const SHARES: &str = "shares";
/// Where the snapshots of all of them are, of each in a folder of its name.
pub(crate) const SNAPSHOTS: &str = ".snapshots";

/// Where the key and the certificate are that the server made for its REST interface.
pub const REST_CERTIFICATE: &str = "rest-tls";

/// Where that is which is to be taken away, below the others. No share's folder begins with a dot.
pub(crate) const GONE: &str = ".gone";

/// Where all is that is to be taken away.
pub(crate) fn gone_in(data: &Path) -> PathBuf {
    data.join(SHARES).join(GONE)
}

/// Where all snapshots are.
pub(crate) fn snapshots_in(data: &Path) -> PathBuf {
    data.join(SHARES).join(SNAPSHOTS)
}

/// The names in a folder; none where that is not there.
pub(crate) fn names_in(folder: &Path) -> Result<Vec<OsString>, Error> {
    let failed = |cause| Error::system("look into", folder, &cause);
    match fs::read_dir(folder) {
        Ok(names) => names.map(|entry| Ok(entry.map_err(failed)?.file_name())).collect(),
        Err(cause) if cause.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(cause) => Err(failed(cause)),
    }
}

/// A data folder that exists and that nobody but its owner can enter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFolder {
    path: PathBuf,
}

/// A right that one program at a time has, held until it is dropped or the process ends.
#[derive(Debug)]
pub struct Lock {
    file: File,
}

/// The server that has a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holder {
    /// Its process, where the lock file says so.
    pub(crate) process: Option<u32>,
    /// It was told to end.
    pub(crate) is_ending: bool,
}

/// What lies in a data folder in which a server has run.
const LEFT_BY_SERVER: [&str; 5] = ["lock", "metrics.db", "opens", "catalog.db-wal", "admin.sock"];

/// What stands in the lock file behind the number of a server that was told to end.
const ENDING: &str = "ending";

impl Lock {
    /// Notes that its holder was told to end, for who asks. May wait for the folder's disk.
    pub fn note_ending(&self) {
        // Where that fails who asks is told less.
        let _ = self.file.write_all_at(format!("{} {ENDING}\n", std::process::id()).as_bytes(), 0);
    }
}

impl DataFolder {
    /// Opens a folder, making it where it is missing.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
        made.map_err(|e| Error::system("make the data folder", path, &e))?;
        Self::checked(path)
    }

    /// Opens a folder that already has a catalog.
    pub fn open(path: &Path) -> Result<Self, Error> {
        match fs::symlink_metadata(path.join("catalog.db")) {
            Ok(_) => Self::checked(path),
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Err(no_catalog(path)),
            Err(e) => Err(Error::system("look into the data folder", path, &e)),
        }
    }

    /// An empty folder is made private; one in use that others may enter is refused rather than changed, since it may be
    /// somebody else's.
    fn checked(path: &Path) -> Result<Self, Error> {
        let look = |e| Error::system("look into the data folder", path, &e);
        let path = fs::canonicalize(path).map_err(look)?;
        let found = fs::metadata(&path).map_err(look)?;
        let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
        if owner != user {
            return Err(Error::machine(
                format!("the data folder {} belongs to another user (uid {owner}, not {user})", path.display()),
                "run this as that user, or choose a folder of your own with --data",
            ));
        }
        let mode = found.permissions().mode();
        if mode & OTHERS != 0 {
            if fs::read_dir(&path).map_err(look)?.next().is_some() {
                return Err(Error::machine(
                    format!("others may enter the data folder {} (mode {:o})", path.display(), mode & 0o7777),
                    "choose a folder of its own with --data, or close this one with `chmod 700`",
                ));
            }
            let closed = fs::set_permissions(&path, Permissions::from_mode(0o700));
            closed.map_err(|e| Error::system("close to others the data folder", &path, &e))?;
        }
        Ok(DataFolder { path })
    }

    /// The folder, absolute and without symbolic links.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the catalog is.
    pub fn catalog(&self) -> PathBuf {
        self.path.join("catalog.db")
    }

    /// Where the running server listens for operators.
    pub fn socket(&self) -> PathBuf {
        self.path.join("admin.sock")
    }

    /// The audit log, where nothing is said of another.
    pub fn audit_log(&self) -> PathBuf {
        self.path.join("audit.log")
    }

    /// The folder of the records of opens that survive the server.
    pub fn opens(&self) -> PathBuf {
        self.path.join("opens")
    }

    /// The folder of the share that a first start makes.
    pub fn first_share(&self) -> PathBuf {
        self.path.join("share")
    }

    /// Takes the right to serve this folder. [`Fault::Conflict`](crate::Fault::Conflict) where another server has it.
    pub fn lock(&self) -> Result<Lock, Error> {
        let path = self.path.join("lock");
        let mut file = private_file(&path).map_err(|e| Error::system("open the lock file", &path, &e))?;
        match lock_within(&file, GIVEN_BACK_WITHIN) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                // Only to name it: an unreadable number still means that somebody has the lock.
                let _ = file.take(HOLDER_BYTES_MAX).read_to_string(&mut holder);
                let holder = match holder.trim() {
                    "" => String::new(),
                    number => format!(" (process {number})"),
                };
                let what = format!("a server runs on {} already{holder}", self.path.display());
                return Err(Error::conflict(what, "stop it first, or choose another folder with --data"));
            }
            Err(TryLockError::Error(e)) => return Err(Error::system("lock", &path, &e)),
        }
        // Over the last holder's number, which takes no room where that was written.
        let number = format!("{}\n", std::process::id());
        let named = file.write_all(number.as_bytes()).and_then(|()| file.set_len(number.len() as u64));
        if named.is_err() {
            // Without a number the lock is as good; who meets it is told less.
            let _ = file.set_len(0);
        }
        Ok(Lock { file })
    }

    /// The server that has this folder; `None` where none has.
    pub(crate) fn holder(&self) -> Option<Holder> {
        let file = File::open(self.path.join("lock")).ok()?;
        // A server that starts in this moment tries for longer than this takes.
        let Err(TryLockError::WouldBlock) = file.try_lock_shared() else { return None };
        let mut text = String::new();
        // Unreadable it still says that somebody has the lock.
        let _ = file.take(HOLDER_BYTES_MAX).read_to_string(&mut text);
        let mut words = text.split_whitespace();
        let process = words.next().and_then(|number| number.parse().ok());
        Some(Holder { process, is_ending: words.next() == Some(ENDING) })
    }

    /// True where a server runs on it.
    pub fn is_served(&self) -> bool {
        self.holder().is_some()
    }

    /// The process that serves this folder, as far as the kernel tells.
    pub(crate) fn server(&self) -> Option<String> {
        let path = self.path.join("lock");
        // Before it is tried: a server that starts just then would not get the lock.
        let processes = holders(&path)?;
        match File::open(&path).ok()?.try_lock_shared() {
            Err(TryLockError::WouldBlock) => Some(processes),
            Ok(()) | Err(TryLockError::Error(_)) => None,
        }
    }

    /// Waits for the turn to open the catalog, for so long at most.
    pub(crate) fn turn_to_open(&self, patience: Duration) -> Result<Lock, Error> {
        let path = self.path.join("catalog.lock");
        let failed = |e: io::Error| Error::system("lock", &path, &e);
        let file = private_file(&path).map_err(failed)?;
        match lock_within(&file, patience) {
            Ok(()) => Ok(Lock { file }),
            Err(TryLockError::WouldBlock) => Err(held(&path)),
            Err(TryLockError::Error(e)) => Err(failed(e)),
        }
    }

    /// True where a server has kept something here before.
    pub(crate) fn was_served(&self) -> bool {
        [self.opens(), self.first_share()].iter().any(|path| path.symlink_metadata().is_ok())
    }
}

/// Why there is none to open, and what to do: a server that has run there once had one.
fn no_catalog(path: &Path) -> Error {
    match LEFT_BY_SERVER.iter().find(|name| path.join(name).symlink_metadata().is_ok()) {
        Some(left) => Error::missing(
            format!("the catalog is gone from {}, where a server has run: it left {left} there", path.display()),
            "restore a backup with `multilane restore FILE`, or put catalog.db back with its catalog.db-wal; \
             a new start would begin with new keys and without users",
        ),
        None => {
            let remedy =
                "start the server once with `multilane serve`, or name its data folder with --data or MULTILANE_DATA";
            let of_development = path.with_file_name(DEVELOPMENT_FOLDER);
            let remedy = match of_development.join("catalog.db").exists() {
                true => format!("{remedy}; that of `serve --dev` is {}", of_development.display()),
                false => remedy.to_owned(),
            };
            Error::missing(format!("there is no catalog in {}", path.display()), remedy)
        }
    }
}

/// Locks a file, for which others may have so long to let go of it.
fn lock_within(file: &File, patience: Duration) -> Result<(), TryLockError> {
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOOK_AGAIN),
            locked => return locked,
        }
    }
}

/// Somebody else holds the lock of the file at `path`.
pub(crate) fn held(path: &Path) -> Error {
    let holders = holders(path).map_or(String::new(), |processes| format!(" (process {processes})"));
    Error::machine(
        format!("another program has held {} for seconds{holders}", path.display()),
        "try again, or end that program",
    )
}

/// The other processes that have locks on a file, as the kernel tells (`/proc/locks`); `None` where it does not.
fn holders(path: &Path) -> Option<String> {
    let inode = format!(":{}", fs::metadata(path).ok()?.ino());
    let own = std::process::id().to_string();
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let mut processes: Vec<&str> = locks
        .lines()
        .filter_map(|line| {
            // `1: POSIX  ADVISORY  WRITE 1234 08:01:5678 0 EOF`
            let words: Vec<&str> = line.split_whitespace().skip_while(|word| *word != "ADVISORY").collect();
            (words.get(3)?.ends_with(&inode) && words[2] != own).then(|| words[2])
        })
        .collect();
    processes.sort_unstable();
    processes.dedup();
    (!processes.is_empty()).then(|| processes.join(", "))
}

/// Opens a file for reading and writing, making it so that only its owner can.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
    if file.metadata()?.permissions().mode() & OTHERS != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;
    use crate::small_disk::SmallDisk;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn new_folder_is_private_whatever_lies_above() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(&place.path().join("a/b")).unwrap();
        assert_eq!(mode(folder.path()), 0o700);
    }

    #[test]
    fn who_finds_no_catalog_is_told_of_the_folder_of_a_server_for_development() {
        let place = tempfile::tempdir().unwrap();
        let (path, of_development) = (place.path().join("multilane"), place.path().join(DEVELOPMENT_FOLDER));
        let remedy = || DataFolder::open(&path).unwrap_err().remedy().to_owned();
        assert!(!remedy().contains("--dev"));
        fs::create_dir(&of_development).unwrap();
        fs::write(of_development.join("catalog.db"), "").unwrap();
        assert!(remedy().ends_with(&format!("that of `serve --dev` is {}", of_development.display())));
    }

    #[test]
    fn empty_folder_is_closed_and_used_one_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("data");
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        DataFolder::create(&path).unwrap();
        assert_eq!(mode(&path), 0o700);

        fs::write(path.join("x"), "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        let error = DataFolder::create(&path).unwrap_err();
        assert_eq!(error.fault(), Fault::Machine);
        assert!(error.what().contains("755"), "{error}");
        assert_eq!(mode(&path), 0o755);
    }

    #[test]
    fn folder_of_another_user_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("data");
        fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
        // Nobody but root can give a folder away.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
            return;
        }
        let error = DataFolder::create(&path).unwrap_err();
        assert_eq!(error.fault(), Fault::Machine);
        assert!(error.what().contains("12345"), "{error}");
    }

    #[test]
    fn folder_without_catalog_is_not_opened() {
        let place = tempfile::tempdir().unwrap();
        let error = DataFolder::open(place.path()).unwrap_err();
        assert_eq!(error.fault(), Fault::Missing);
        assert!(DataFolder::open(&place.path().join("nowhere")).is_err());
        assert!(!place.path().join("nowhere").exists());
    }

    #[test]
    fn wait_for_the_catalog_is_bounded_and_names_who_has_it() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(&place.path().join("data")).unwrap();
        let turn = folder.turn_to_open(Duration::ZERO).unwrap();
        let error = folder.turn_to_open(Duration::ZERO).unwrap_err();
        assert_eq!(error.fault(), Fault::Machine);
        assert!(error.what().contains("catalog.lock"), "{error}");
        drop(turn);
        assert!(folder.turn_to_open(Duration::ZERO).is_ok());
    }

    #[test]
    fn a_lock_needs_no_room() {
        let Some(disk) = SmallDisk::new(64, 100) else { return };
        let folder = DataFolder::create(disk.path()).unwrap();
        fs::write(disk.path().join("lock"), "").unwrap();
        disk.fill();
        let _first = folder.lock().unwrap();
        let refused = folder.lock().unwrap_err();
        assert!(refused.what().ends_with("already"), "{refused}");
    }

    #[test]
    fn one_server_at_a_time() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let first = folder.lock().unwrap();
        let refused = folder.lock().unwrap_err();
        assert_eq!(refused.fault(), Fault::Conflict);
        assert!(refused.what().contains(&std::process::id().to_string()), "{refused}");
        drop(first);
        folder.lock().unwrap();
    }

    #[test]
    fn who_has_a_folder_and_whether_it_ends_is_seen() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        assert_eq!(folder.holder(), None);
        let lock = folder.lock().unwrap();
        let holder = Holder { process: Some(std::process::id()), is_ending: false };
        assert_eq!(folder.holder(), Some(holder));
        lock.note_ending();
        assert_eq!(folder.holder(), Some(Holder { is_ending: true, ..holder }));
        drop(lock);
        assert_eq!(folder.holder(), None);
        let _next = folder.lock().unwrap();
        assert_eq!(folder.holder(), Some(holder));
    }

    #[test]
    fn who_comes_while_a_server_ends_has_the_lock_a_moment_later() {
        let place = tempfile::tempdir().unwrap();
        let folder = DataFolder::create(place.path()).unwrap();
        let first = folder.lock().unwrap();
        thread::scope(|scope| {
            let next = scope.spawn(|| folder.lock());
            thread::sleep(LOOK_AGAIN);
            drop(first);
            next.join().unwrap().unwrap();
        });
    }
}
