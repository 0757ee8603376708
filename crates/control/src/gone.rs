//! What is to go for good: the files of shares that are gone, and snapshots. It is set aside at once, in a folder of its own, where nobody finds it, and taken away
//! by a thread that may take long. What a server that ended has left there the next one takes away.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;

use parking_lot::Mutex;
use tracing::warn;

use crate::folder::{gone_in, names_in};
use crate::random::fill_random;
use crate::within::mounted_in;
use crate::{Error, own_folder, snapshots};

/// What the name of a folder of snapshots has at its end here, and that of one snapshot.
const OF_SNAPSHOTS: &str = ".snapshots";
const SNAPSHOT: &str = ".snapshot";

/// Has an own folder be one that is to be taken away, and its snapshots. Where it is not there, that was done.
pub(crate) fn set_aside(folder: &Path, data: &Path) -> Result<(), Error> {
    let Some(name) = folder.file_name() else { return Ok(()) };
    // First, so that no snapshot of it is made any more.
    move_aside(folder, data, name)?;
    set_aside_snapshots(folder, data)
}

/// The same of the snapshots of a share's folder, which stays.
pub(crate) fn set_aside_snapshots(folder: &Path, data: &Path) -> Result<(), Error> {
    let Some(snapshots) = own_folder::snapshots_of(folder, data) else { return Ok(()) };
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
    let gone = gone_in(data);
    own_folder::make(&gone)?;
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

/// The same where something was.
pub(crate) fn take_away_if_any(data: &Path) {
    if fs::read_dir(gone_in(data)).is_ok_and(|mut names| names.next().is_some()) {
        take_away_soon(data.to_owned());
    }
}

/// Takes away what was set aside, with all that is in it. May take long. What cannot be is told, and tried again the next time.
pub(crate) fn empty_gone(data: &Path) -> Result<(), Error> {
    let gone = gone_in(data);
    let mut result = Ok(());
    for name in names_in(&gone)? {
        let path = gone.join(&name);
        let name = name.to_string_lossy();
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
        if let Err(cause) = remove_all(&path) {
            result = Err(Error::system("take away", &path, &cause));
        }
    }
    result
}

/// Removes a folder with all that is in it, also in folders of this user that this user closed. Where something is mounted in it nothing is removed: that is
/// another file system.
pub(crate) fn remove_all(folder: &Path) -> io::Result<()> {
    match mounted_in(folder) {
        Ok(None) => {}
        Ok(Some(at)) => return Err(io::Error::other(format!("something is mounted at {}: unmount it", at.display()))),
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(cause),
    }
    match fs::remove_dir_all(folder) {
        Err(cause) if cause.kind() == ErrorKind::PermissionDenied => {}
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
        done => return done,
    }
    let mut closed = vec![folder.to_owned()];
    while let Some(folder) = closed.pop() {
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                closed.push(entry.path());
            }
        }
    }
    fs::remove_dir_all(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_aside_goes_with_all_that_is_in_it() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path();
        let path = data.join("shares/docs-00000000");
        fs::create_dir_all(path.join("a/b")).unwrap();
        fs::write(path.join("a/b/c"), "text").unwrap();
        // A link leads nowhere when it is taken away.
        fs::write(data.join("other"), "kept").unwrap();
        std::os::unix::fs::symlink(data.join("other"), path.join("link")).unwrap();
        for _ in 0..2 {
            set_aside(&path, data).unwrap();
            assert!(!path.exists());
        }
        assert!(gone_in(data).join(path.file_name().unwrap()).is_dir());
        empty_gone(data).unwrap();
        assert_eq!(fs::read_dir(gone_in(data)).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(data.join("other")).unwrap(), "kept");
        empty_gone(&data.join("nowhere")).unwrap();
    }
}
