//! Folders that the server makes for shares, in its data folder, where nobody names one, and where their snapshots are.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tracing::warn;

use crate::folder::{GONE, SHARES, SNAPSHOTS, gone_in, names_in, snapshots_in};
use crate::random::fill_random;
use crate::{Error, ShareName, btrfs};

/// The folder that a first start makes, beside these.
const FIRST: &str = "share";
/// Characters of a share's name that its folder has.
const STEM_MAX: usize = 40;

/// A folder that was just made. It goes again, unless it is kept.
pub(crate) struct OwnFolder {
    path: PathBuf,
    is_kept: bool,
}

impl OwnFolder {
    /// Makes one for a share. Its name was never used: what is said of a folder in an older catalog is said of no other.
    pub(crate) fn make(data: &Path, share: &ShareName) -> Result<Self, Error> {
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A share has it.
    pub(crate) fn keep(mut self) {
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
                // What it is in lets nobody else in. A subvolume is on the disk with the next commit, half a minute later: a share is said to be there when it is.
                let closed = fs::set_permissions(folder, Permissions::from_mode(0o700))
                    .and_then(|()| Ok(rustix::fs::syncfs(File::open(folder)?)?));
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

/// The folders made for shares in which none of `used` lies, which are those of all shares. An empty one is left out: it may be one that is being made.
pub(crate) fn unused(data: &Path, used: &[&Path]) -> Result<Vec<PathBuf>, Error> {
    let shares = data.join(SHARES);
    let mut folders: Vec<PathBuf> = names_in(&shares)?.into_iter().map(|name| shares.join(name)).collect();
    let holds_something = |folder: &Path| fs::read_dir(folder).is_ok_and(|mut names| names.next().is_some());
    folders.retain(|folder| {
        is_own(folder, data) && !used.iter().any(|used| used.starts_with(folder)) && holds_something(folder)
    });
    folders.sort();
    Ok(folders)
}

/// Where the snapshots of a share's folder are to be, where the server made that.
pub(crate) fn snapshots_of(folder: &Path, data: &Path) -> Option<PathBuf> {
    let is_of_server = is_own(folder, data) || folder == data.join(FIRST);
    is_of_server.then(|| snapshots_in(data).join(folder.file_name().unwrap_or_default()))
}

/// The other way round: the folder of the share whose snapshots are in a folder of this name.
pub(crate) fn of_snapshots(name: &OsStr, data: &Path) -> PathBuf {
    if name == FIRST { data.join(FIRST) } else { data.join(SHARES).join(name) }
}

/// True of the folder of these folders, of what is to be taken away, and of snapshots.
pub(crate) fn is_reserved(folder: &Path, data: &Path) -> bool {
    folder == data.join(SHARES) || folder.starts_with(gone_in(data)) || folder.starts_with(snapshots_in(data))
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
}
