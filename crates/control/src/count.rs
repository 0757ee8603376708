//! How much there is in a folder that nobody counts all the time.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::{Error, Reason};

/// For how long one count may go on, and for how long another one is waited for: clients wait for the answer.
const COUNTS_FOR: Duration = Duration::from_secs(10);
/// Who may count, or wait for its turn: each keeps a thread, and for long where a disk hangs.
const PLACES: usize = 4;
/// Folders above each other that are counted.
const DEPTH_MAX: usize = 300;
/// What the server keeps in a folder for itself.
const OWN: &str = ".multilane";

/// Those who count or wait.
#[derive(Debug)]
struct Places(AtomicUsize);

/// One of them, until this is dropped.
#[derive(Debug)]
struct Place<'a>(&'a Places);

impl Places {
    fn take(&self) -> Result<Place<'_>, Error> {
        let place = Place(self);
        if self.0.fetch_add(1, Ordering::Relaxed) < PLACES {
            return Ok(place);
        }
        let busy = Error::machine("the files of other shares are counted just now", "try again");
        Err(busy.because(Reason::Busy))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of all files in a folder. One count at a time, so that who asks again and again keeps no more than one disk busy; few wait for their turn, and others
/// are told to try again.
pub(crate) fn count_bytes(folder: &Path) -> Result<u64, Error> {
    static COUNTING: Places = Places(AtomicUsize::new(0));
    static TURN: Mutex<()> = Mutex::new(());
    let _place = COUNTING.take()?;
    let late = || {
        Error::machine(
            "the files of the share are too many to be counted now",
            "give the share a quota: then they are counted all the time",
        )
        .because(Reason::TookTooLong)
    };
    let _turn = TURN.try_lock_for(COUNTS_FOR).ok_or_else(late)?;
    counted(folder, Instant::now() + COUNTS_FOR).ok_or_else(late)
}

/// `None` where it takes longer than `until`.
fn counted(folder: &Path, until: Instant) -> Option<u64> {
    let mut bytes = 0u64;
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        // What is taken away meanwhile, or closed to the server, does not count.
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if Instant::now() >= until {
                return None;
            }
            let Ok(found) = entry.metadata() else { continue };
            if found.is_file() {
                bytes = bytes.saturating_add(found.len());
            } else if found.is_dir() && depth < DEPTH_MAX && !(depth == 0 && entry.file_name() == OWN) {
                folders.push((entry.path(), depth + 1));
            }
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_count_or_wait_and_others_are_told_to_try_again() {
        let places = Places(AtomicUsize::new(0));
        let taken: Vec<_> = (0..PLACES).map(|_| places.take().unwrap()).collect();
        for _ in 0..2 {
            assert_eq!(places.take().unwrap_err().reason(), Reason::Busy);
        }
        drop(taken);
        assert!(places.take().is_ok());
    }

    #[test]
    fn files_are_counted_and_what_is_the_servers_own_is_not() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("a/b")).unwrap();
        fs::create_dir(place.path().join(OWN)).unwrap();
        for (path, bytes) in [("one", 100), ("a/b/two", 5000), (".multilane/streams", 1 << 20)] {
            fs::write(place.path().join(path), vec![1; bytes]).unwrap();
        }
        std::os::unix::fs::symlink(place.path(), place.path().join("a/link")).unwrap();
        assert_eq!(count_bytes(place.path()).unwrap(), 5100);
        assert_eq!(counted(place.path(), Instant::now()), None);
        assert_eq!(count_bytes(&place.path().join("nowhere")).unwrap(), 0);
    }
}
