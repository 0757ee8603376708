//! A file that has no name until it is whole and on the disk: whoever is interrupted while it is made leaves nothing of it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use tempfile::NamedTempFile;

/// How the name begins and ends that a file has for a moment, where it replaces another or its file system has no files without a name.
const BEGINNING: &str = ".multilane-";
const END: &str = ".new";
/// A file of such a name that is older belongs to nobody any more: it has that for milliseconds.
const OVER_AFTER: Duration = Duration::from_secs(3600);

/// The file. It is gone unless it is given a name.
#[derive(Debug)]
pub(super) enum Unnamed {
    Without(File),
    /// Of a file system that has none without.
    With(NamedTempFile),
}

impl Unnamed {
    /// A file in `folder` with these bytes, on the disk, for its owner alone.
    pub(super) fn write(folder: &Path, bytes: &[u8]) -> io::Result<Self> {
        let flags = i32::try_from(OFlags::TMPFILE.bits()).unwrap_or(0);
        let made = OpenOptions::new().read(true).write(true).mode(0o600).custom_flags(flags).open(folder);
        let mut file = match made {
            Err(cause) if matches!(cause.kind(), ErrorKind::Unsupported | ErrorKind::IsADirectory) => {
                Unnamed::With(named(folder)?)
            }
            made => Unnamed::Without(made?),
        };
        file.file().write_all(bytes)?;
        file.file().sync_all()?;
        Ok(file)
    }

    fn file(&mut self) -> &mut File {
        match self {
            Unnamed::Without(file) => file,
            Unnamed::With(file) => file.as_file_mut(),
        }
    }

    /// Gives it a name that no file has. Where one has it, the file can be given another.
    pub(super) fn link(&self, path: &Path) -> io::Result<()> {
        match self {
            Unnamed::Without(file) => {
                let own = format!("/proc/self/fd/{}", file.as_raw_fd());
                Ok(linkat(CWD, own, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
            }
            Unnamed::With(file) => fs::hard_link(file.path(), path),
        }
    }

    /// Gives it the name `path` in `folder`, whoever has that.
    pub(super) fn replace(self, folder: &Path, path: &Path) -> io::Result<()> {
        // For its name alone.
        let between = named(folder)?.into_temp_path();
        fs::remove_file(&between)?;
        self.link(&between)?;
        Ok(between.persist(path)?)
    }
}

fn named(folder: &Path) -> io::Result<NamedTempFile> {
    tempfile::Builder::new().prefix(BEGINNING).suffix(END).tempfile_in(folder)
}

/// Takes away what somebody left in `folder` who was interrupted.
pub(super) fn sweep(folder: &Path) {
    let is_left = |entry: &fs::DirEntry| {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(BEGINNING) && name.ends_with(END));
        let found = is_ours.then(|| entry.path().symlink_metadata().ok()).flatten().filter(|found| found.is_file());
        let age = found.and_then(|found| SystemTime::now().duration_since(found.modified().ok()?).ok());
        age.is_some_and(|age| age > OVER_AFTER)
    };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(is_left) {
        // It is tried again the next time.
        let _ = fs::remove_file(entry.path());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_has_no_name_until_it_is_given_one_that_is_free_or_replaced() {
        let place = tempfile::tempdir().unwrap();
        let names = || fs::read_dir(place.path()).unwrap().count();
        for with_name in [false, true] {
            let write = |bytes: &[u8]| {
                if with_name {
                    let mut file = named(place.path()).unwrap();
                    file.write_all(bytes).unwrap();
                    return Unnamed::With(file);
                }
                Unnamed::write(place.path(), bytes).unwrap()
            };
            let path = place.path().join(format!("file {with_name}"));
            let before = names();
            drop(write(b"gone"));
            assert_eq!(names(), before);
            write(b"first").link(&path).unwrap();
            let second = write(b"second");
            assert_eq!(second.link(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
            assert_eq!(fs::read(&path).unwrap(), b"first");
            second.replace(place.path(), &path).unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"second");
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o600);
            assert_eq!(names(), before + 1);
        }
    }

    #[test]
    fn what_was_left_long_ago_is_swept_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str, age: Duration| {
            let file = File::create(place.path().join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        };
        make(".multilane-old.new", 2 * OVER_AFTER);
        make(".multilane-young.new", Duration::ZERO);
        make(".multilane-old.db", 2 * OVER_AFTER);
        make("other.new", 2 * OVER_AFTER);
        sweep(place.path());
        let mut left: Vec<_> = fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".multilane-old.db", ".multilane-young.new", "other.new"]);
    }
}
