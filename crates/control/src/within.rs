//! Whether a file lies in a folder, by whatever names: links and mounts lead to the same place.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::folder::{REST_CERTIFICATE, gone_in, snapshots_in};

/// Where the kernel tells what is mounted where (proc(5)).
const MOUNTS: &str = "/proc/self/mountinfo";
/// For how long what is mounted is believed: every share asks every two seconds.
const BELIEVED: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(1) };

/// What of the server's own a folder gives away to who may use it: the data folder, which has the keys of every account, or what lies there and is no share.
/// May wait for the devices of both.
pub(crate) fn given_away(folder: &Path, data: &Path) -> Option<String> {
    if holds(folder, &data.join("catalog.db")) {
        return Some(format!(
            "{} holds the data folder {}, with the keys of every account",
            folder.display(),
            data.display()
        ));
    }
    let own = [
        (data.join("opens"), "what is open in shares"),
        (data.join(REST_CERTIFICATE), "the key of the REST interface's certificate"),
        (snapshots_in(data), "snapshots of shares"),
        (gone_in(data), "what is taken away"),
    ];
    let is_it = |place: &Path| holds(place, &folder.join("any")) || holds(folder, &place.join("any"));
    let (_, kept) = own.into_iter().find(|(place, _)| is_it(place))?;
    Some(format!("{} is where the server keeps {kept}, in its data folder", folder.display()))
}

/// Where something is mounted in a folder, if anything is: a folder that goes with all that is in it would take that along.
pub(crate) fn mounted_in(folder: &Path) -> io::Result<Option<PathBuf>> {
    let (folder, mounts) = (fs::canonicalize(folder)?, Mounts::parse(&fs::read(MOUNTS)?));
    Ok(mounts.0.into_iter().map(|mount| mount.at).find(|at| at.starts_with(&folder)))
}

/// True where `file` lies in `folder`, whether it is there or is going to be. May wait for the devices of both.
pub(crate) fn holds(folder: &Path, file: &Path) -> bool {
    let key = |path: &Path| fs::metadata(path).ok().map(|found| (found.dev(), found.ino()));
    let Some(wanted) = key(folder) else { return file.starts_with(folder) };
    file.ancestors().skip(1).any(|above| key(above) == Some(wanted)) || Mounts::now().lead(folder, file)
}

/// What is mounted where.
#[derive(Debug, Default)]
struct Mounts(Vec<Mount>);

#[derive(Debug)]
struct Mount {
    /// The file system.
    device: String,
    /// What of it is mounted, by its path there.
    root: PathBuf,
    /// Where.
    at: PathBuf,
}

/// Something on a file system, by its path there.
type Place<'a> = (&'a str, PathBuf);

impl Mounts {
    /// As they are, or were a moment ago; none where the kernel does not tell.
    fn now() -> Arc<Self> {
        static KNOWN: Mutex<Option<(Instant, Arc<Mounts>)>> = Mutex::new(None);
        let mut known = KNOWN.lock();
        if let Some((read_at, mounts)) = known.as_ref()
            && read_at.elapsed() < BELIEVED
        {
            return Arc::clone(mounts);
        }
        let mounts = Arc::new(Mounts::parse(&fs::read(MOUNTS).unwrap_or_default()));
        *known = Some((Instant::now(), Arc::clone(&mounts)));
        mounts
    }

    fn parse(text: &[u8]) -> Self {
        let mount = |line: &[u8]| {
            // `36 35 98:0 /root /where rw,noatime - ext4 /dev/sda1 rw`
            let mut words = line.split(|byte| *byte == b' ').skip(2);
            let device = String::from_utf8_lossy(words.next()?).into_owned();
            Some(Mount { device, root: unescaped(words.next()?), at: unescaped(words.next()?) })
        };
        Mounts(text.split(|byte| *byte == b'\n').filter_map(mount).collect())
    }

    /// True where a way from `folder` leads to `file`: on the same file system, or over a mount in the folder.
    fn lead(&self, folder: &Path, file: &Path) -> bool {
        let (Ok(folder), Some(file)) = (fs::canonicalize(folder), whole(file)) else { return false };
        self.lead_by_names(&folder, &file)
    }

    /// The same for paths without links.
    fn lead_by_names(&self, folder: &Path, file: &Path) -> bool {
        let Some((device, file)) = self.place(file) else { return false };
        let below = self.0.iter().filter(|mount| mount.at.starts_with(folder));
        let mut ways = self.place(folder).into_iter().chain(below.map(|mount| (&*mount.device, mount.root.clone())));
        ways.any(|(other, root)| other == device && file.starts_with(root))
    }

    /// What a path without links leads to.
    fn place(&self, path: &Path) -> Option<Place<'_>> {
        let above = self.0.iter().filter(|mount| path.starts_with(&mount.at));
        // Of several mounts at one place the last one counts.
        let mount = above.max_by_key(|mount| mount.at.components().count())?;
        Some((&mount.device, mount.root.join(path.strip_prefix(&mount.at).ok()?)))
    }
}

/// The path without links of a file that may be going to be made.
fn whole(file: &Path) -> Option<PathBuf> {
    let there = file.ancestors().find(|above| above.exists())?;
    Some(fs::canonicalize(there).ok()?.join(file.strip_prefix(there).ok()?))
}

/// A path as the kernel tells it, with spaces, tabs, line breaks and backslashes as three octal digits.
fn unescaped(word: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, after @ ..] = rest {
        let octal = after
            .first_chunk::<3>()
            .filter(|digits| *first == b'\\' && digits.iter().all(|digit| (b'0'..b'8').contains(digit)));
        let byte = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        path.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_mounted_in_a_folder_is_found() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("folder")).unwrap();
        assert_eq!(mounted_in(place.path()).unwrap(), None);
        // Wherever this runs, something is mounted there.
        assert_eq!(mounted_in(Path::new("/proc")).unwrap(), Some(PathBuf::from("/proc")));
        assert!(mounted_in(&place.path().join("nowhere")).is_err());
    }

    #[test]
    fn what_lies_in_a_folder_is_found_by_any_name() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        fs::create_dir_all(at("served/logs")).unwrap();
        fs::create_dir(at("served-not")).unwrap();
        symlink(at("served"), at("link")).unwrap();
        for file in ["served/audit.log", "served/logs/audit.log", "link/audit.log"] {
            assert!(holds(&at("served"), &at(file)) && holds(&at("link"), &at(file)), "{file}");
            assert!(!holds(&at("served-not"), &at(file)), "{file}");
        }
        assert!(!holds(&at("served"), &at("served-not/audit.log")) && !holds(&at("served"), &at("audit.log")));
        assert!(holds(&at("gone"), &at("gone/audit.log")) && !holds(&at("gone"), &at("audit.log")));
    }

    #[test]
    fn mounts_lead_to_what_is_found_at_other_names() {
        let text = b"1 0 8:1 / / rw - ext4 a rw\n\
            2 1 8:1 /top/data /one rw - ext4 a rw\n\
            3 1 8:1 /top /alias rw - ext4 a rw\n\
            4 1 8:1 /top/data/sub /shared/in\\040it rw - ext4 a rw\n\
            5 1 8:2 / /disk rw - ext4 b rw\n\
            6 1 8:1 /shared/low /out rw - ext4 a rw\n\
            7 1 broken";
        let mounts = Mounts::parse(text);
        let leads = |folder: &str, file: &str| mounts.lead_by_names(Path::new(folder), Path::new(file));
        for folder in ["/", "/top", "/top/data", "/one", "/alias", "/alias/data"] {
            assert!(leads(folder, "/top/data/catalog.db") && leads(folder, "/one/catalog.db"), "{folder}");
        }
        for folder in ["/top/other", "/alias/other", "/disk", "/disk/top/data", "/shared", "/one/sub", "/out"] {
            assert!(!leads(folder, "/top/data/catalog.db"), "{folder}");
        }
        assert!(leads("/shared", "/top/data/sub/file"), "over a mount in it, {mounts:?}");
        assert!(leads("/shared", "/out/backup.db") && !leads("/shared/high", "/out/backup.db"));
        assert!(!Mounts::default().lead_by_names(Path::new("/"), Path::new("/any")), "of nothing nothing is known");
    }

    #[test]
    fn names_are_read_as_the_kernel_tells_them() {
        let raw: [(&[u8], &[u8]); 5] = [
            (b"/a\\040b\\134", b"/a b\\"),
            (b"/a\\", b"/a\\"),
            (b"/\\08", b"/\\08"),
            (b"/\\777", b"/\\777"),
            (b"/\xff", b"/\xff"),
        ];
        for (word, path) in raw {
            assert_eq!(unescaped(word).as_os_str().as_bytes(), path);
        }
    }
}
