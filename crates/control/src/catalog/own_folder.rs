//! Folders that the server makes for shares, in its data folder, where nobody names one; and takes away with their shares.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::random::fill_random;
use crate::{Error, ShareName};

/// Where they are, in the data folder.
const SHARES: &str = "shares";
/// Where those are whose shares are gone, below the others. None of those begins with a dot.
const GONE: &str = ".gone";
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
        DirBuilder::new().mode(0o700).create(&path).map_err(|cause| Error::system("make the folder", &path, &cause))?;
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

/// True of a folder that the server made for a share.
pub(crate) fn is_own(folder: &Path, data: &Path) -> bool {
    folder.parent() == Some(&*data.join(SHARES)) && folder.file_name().is_some_and(|name| name != GONE)
}

/// True of the folder of these folders, and of what is to be taken away.
pub(super) fn is_reserved(folder: &Path, data: &Path) -> bool {
    let shares = data.join(SHARES);
    folder == shares || folder.starts_with(shares.join(GONE))
}

/// Has an own folder be one that is to be taken away. Where it is not there, that was done.
pub(super) fn set_aside(folder: &Path, data: &Path) -> Result<(), Error> {
    let Some(name) = folder.file_name() else { return Ok(()) };
    let gone = data.join(SHARES).join(GONE);
    make(&gone)?;
    match fs::rename(folder, gone.join(name)) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(Error::system("take away", folder, &cause)),
        Ok(()) | Err(_) => Ok(()),
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
    for name in names.flatten() {
        match fs::remove_dir_all(name.path()) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                result = Err(Error::system("take away", &name.path(), &cause));
            }
            Ok(()) | Err(_) => {}
        }
    }
    result
}

fn make(folder: &Path) -> Result<(), Error> {
    DirBuilder::new().mode(0o700).recursive(true).create(folder).map_err(|cause| Error::system("make", folder, &cause))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

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
