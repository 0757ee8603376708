//! Folders that the server makes for shares, in its data folder, where nobody names one; and takes away with their shares.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use parking_lot::Mutex;
use tracing::warn;

use super::random::fill_random;
use crate::folder::{SHARES, SNAPSHOTS, snapshots_in};
use crate::{Error, ShareName, btrfs, snapshots};

/// Where those are whose shares are gone, below the others. None of those begins with a dot.
const GONE: &str = ".gone";
/// The folder that a first start makes, beside these.
const FIRST: &str = "share";
/// What the name of a folder of snapshots has at its end once those are to be taken away, and that of one snapshot.
const OF_SNAPSHOTS: &str = ".snapshots";
const SNAPSHOT: &str = ".snapshot";
/// Characters of a share's name that its folder has.
const STEM_MAX: usize = 40;

/// A folder that was just made. It goes again, unless it is kept.
pub(super) struct OwnFolder {
    path: PathBuf,
    is_kept: bool,
}

impl OwnFolder {
    /// Makes one for a share. Its name was never used: what is said of a folder in an older catalog is said of no other.
    pub(super) fn make(data: &Path, share: &ShareName) -> Result<Self, Error> {
        let mut chance = [0; 4];
        fill_random(&mut chance)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let stem: String = share.as_str().chars().map(|c| if is_plain(c) { c } else { '_' }).take(STEM_MAX).collect();
        let shares = data.join(SHARES);
        let path = shares.join(format!("{stem}-{:08x}", u32::from_le_bytes(chance)));
        make(&shares)?;
        make_for_share(&path)?;
        Ok(OwnFolder { path, is_kept: false })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A share has it.
    pub(super) fn keep(mut self) {
        self.is_kept = true;
    }
}

impl Drop for OwnFolder {
    fn drop(&mut self) {
        if !self.is_kept {
            // Empty as it is, it is in nobody's way where it stays.
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// Makes a folder for a share that is not there: where that can be, one that snapshots can be made of.
pub(crate) fn make_for_share(folder: &Path) -> Result<(), Error> {
    if folder.parent().is_some_and(btrfs::is_btrfs) {
        match btrfs::create(folder) {
            Ok(()) => {
                // What it is in lets nobody else in.
                let closed = fs::set_permissions(folder, Permissions::from_mode(0o700));
                return closed.map_err(|cause| Error::system("close to others the folder", folder, &cause));
            }
            Err(cause) => warn!(
                name: "share_without_snapshots", folder = %folder.display(), %cause,
                "the folder of a new share lies on btrfs and could not be made a subvolume: there will be no snapshots of it"
            ),
        }
    }
    DirBuilder::new().mode(0o700).create(folder).map_err(|cause| Error::system("make the folder", folder, &cause))
}

/// True of a folder that the server made for a share.
pub(crate) fn is_own(folder: &Path, data: &Path) -> bool {
    let is_share = |name: &OsStr| name != GONE && name != SNAPSHOTS;
    folder.parent() == Some(&*data.join(SHARES)) && folder.file_name().is_some_and(is_share)
}

/// Where the snapshots of a share's folder are to be, where the server made that.
pub(crate) fn snapshots_of(folder: &Path, data: &Path) -> Option<PathBuf> {
    let is_of_server = is_own(folder, data) || folder == data.join(FIRST);
    is_of_server.then(|| snapshots_in(data).join(folder.file_name().unwrap_or_default()))
}

/// The other way round: the share's folder, of the name of that of its snapshots.
pub(crate) fn named(name: &OsStr, data: &Path) -> PathBuf {
    if name == FIRST { data.join(FIRST) } else { data.join(SHARES).join(name) }
}

/// True of the folder of these folders, of what is to be taken away, and of snapshots.
pub(super) fn is_reserved(folder: &Path, data: &Path) -> bool {
    let shares = data.join(SHARES);
    folder == shares || folder.starts_with(shares.join(GONE)) || folder.starts_with(snapshots_in(data))
}

/// Has an own folder be one that is to be taken away, and its snapshots. Where it is not there, that was done.
pub(crate) fn set_aside(folder: &Path, data: &Path) -> Result<(), Error> {
    let Some(name) = folder.file_name() else { return Ok(()) };
    // First, so that no snapshot of it is made any more.
    move_aside(folder, data, name)?;
    set_aside_snapshots(folder, data)
}

/// The same of the snapshots of a share's folder, which stays.
pub(super) fn set_aside_snapshots(folder: &Path, data: &Path) -> Result<(), Error> {
    let Some(snapshots) = snapshots_of(folder, data) else { return Ok(()) };
    // There may have been others of the folder.
    let name = aside_name(folder.file_name().unwrap_or_default(), OF_SNAPSHOTS)?;
    move_aside(&snapshots, data, &name)
}

/// The same of one snapshot.
pub(crate) fn set_aside_snapshot(snapshot: &Path, data: &Path) -> Result<(), Error> {
    let of = snapshot.parent().and_then(Path::file_name).unwrap_or_default();
    move_aside(snapshot, data, &aside_name(of, SNAPSHOT)?)
}

/// A name that nothing else has that was set aside.
fn aside_name(name: &OsStr, end: &str) -> Result<OsString, Error> {
    let mut chance = [0; 8];
    fill_random(&mut chance)?;
    let mut aside = name.to_owned();
    aside.push(format!(".{:016x}{end}", u64::from_le_bytes(chance)));
    Ok(aside)
}

fn move_aside(folder: &Path, data: &Path, name: &OsStr) -> Result<(), Error> {
    let gone = data.join(SHARES).join(GONE);
    make(&gone)?;
    match fs::rename(folder, gone.join(name)) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(Error::system("take away", folder, &cause)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Who waits to take away what was set aside in a data folder, and who does.
static WAITING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static AT_WORK: Mutex<()> = Mutex::new(());

/// Has what was set aside be taken away, on a thread of its own: it may be large. What was left of snapshots that were never finished goes, too.
pub(crate) fn take_away_soon(data: PathBuf) {
    // Who waits has not begun to look.
    if !WAITING.lock().insert(data.clone()) {
        return;
    }
    let work = move || {
        let _turn = AT_WORK.lock();
        WAITING.lock().remove(&data);
        for done in [snapshots::sweep(&data), empty_gone(&data)] {
            if let Err(cause) = done {
                warn!(name: "deleted_share_stays", error = %cause, "the files of a deleted share, or of a snapshot, could not all be taken away");
            }
        }
    };
    if let Err(cause) = thread::Builder::new().name("multilane-sweep".to_owned()).spawn(work) {
        warn!(name: "deleted_share_stays", error = %cause, "there is no thread to take the files of a deleted share away");
    }
}

/// Takes away what was set aside, with all that is in it. May take long. What cannot be is told, and tried again the next time.
pub(crate) fn empty_gone(data: &Path) -> Result<(), Error> {
    let gone = data.join(SHARES).join(GONE);
    let names = match fs::read_dir(&gone) {
        Ok(names) => names,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(Error::system("look into", &gone, &cause)),
    };
    let mut result = Ok(());
    for path in names.flatten().map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let snapshots = match () {
            () if name.ends_with(SNAPSHOT) => vec![path.clone()],
            () if name.ends_with(OF_SNAPSHOTS) => {
                fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
            }
            () => Vec::new(),
        };
        for snapshot in snapshots {
            if let Err(failed) = snapshots::take_away(&snapshot) {
                let what = format!("cannot take away {}: {failed}", snapshot.display());
                result = Err(Error::machine(what, "see why, and restart the server"));
            }
        }
        if let Err(cause) = btrfs::remove_all(&path) {
            result = Err(Error::system("take away", &path, &cause));
        }
    }
    result
}

/// Makes a folder of the server's own.
pub(crate) fn make(folder: &Path) -> Result<(), Error> {
    DirBuilder::new().mode(0o700).recursive(true).create(folder).map_err(|cause| Error::system("make", folder, &cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_has_a_name_of_its_own_and_goes_where_no_share_has_it() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path();
        let name: ShareName = "..Team Files/ü".replace('/', "").parse().unwrap();
        let (one, other) = (OwnFolder::make(data, &name).unwrap(), OwnFolder::make(data, &name).unwrap());
        let (first, second) = (one.path().to_owned(), other.path().to_owned());
        assert_ne!(first, second);
        assert!(first.file_name().unwrap().to_str().unwrap().starts_with("__Team_Files_-"), "{first:?}");
        assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o700);
        one.keep();
        drop(other);
        assert!(first.is_dir() && !second.exists());
        assert!(is_own(&first, data) && !is_own(&data.join("share"), data) && !is_own(&data.join(SHARES), data));
        assert!(is_reserved(&data.join(SHARES), data) && !is_reserved(&first, data));
    }

    #[test]
    fn what_is_set_aside_goes_with_all_that_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path();
        let made = OwnFolder::make(data, &"docs".parse().unwrap()).unwrap();
        let path = made.path().to_owned();
        made.keep();
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/c"), "text").unwrap();
        // A link leads nowhere when it is taken away.
        fs::write(data.join("other"), "kept").unwrap();
        std::os::unix::fs::symlink(data.join("other"), path.join("link")).unwrap();
        for _ in 0..2 {
            set_aside(&path, data).unwrap();
            assert!(!path.exists());
        }
        assert!(data.join(SHARES).join(GONE).join(path.file_name().unwrap()).is_dir());
        empty_gone(data).unwrap();
        assert_eq!(fs::read_dir(data.join(SHARES).join(GONE)).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(data.join("other")).unwrap(), "kept");
        empty_gone(&data.join("nowhere")).unwrap();
    }
}
