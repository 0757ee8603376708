//! How much there is in a folder that nobody counts all the time.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::mpsc::channel;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::{AccountName, Error, Reason};

/// For how long one count may go on, and for how long another one is waited for: clients wait for the answer.
const COUNTS_FOR: Duration = Duration::from_secs(10);
/// Who may count, or wait for its turn: each keeps a thread, and for long where a disk hangs. An account takes no more of them than are left.
const PLACES: usize = 8;
/// Folders above each other that are counted.
const DEPTH_MAX: usize = 300;
/// What the server keeps in a folder for itself.
const OWN: &str = ".multilane";

/// Those who count or wait.
#[derive(Debug, Default)]
struct Places {
    accounts: Mutex<HashMap<String, OfAccount>>,
    counted: Condvar,
}

/// Those of one account.
#[derive(Debug, Default)]
struct OfAccount {
    places: usize,
    is_counting: bool,
}

/// One of them, until this is dropped.
#[derive(Debug)]
struct Place {
    places: Arc<Places>,
    account: String,
    is_counting: bool,
}

impl Places {
    fn take(self: &Arc<Self>, account: &str) -> Result<Place, Error> {
        let mut accounts = self.accounts.lock();
        let taken = accounts.values().map(|one| one.places).sum::<usize>();
        let has = accounts.get(account).map_or(0, |one| one.places);
        if has < PLACES.saturating_sub(taken) {
            accounts.entry(account.to_owned()).or_default().places += 1;
            return Ok(Place { places: Arc::clone(self), account: account.to_owned(), is_counting: false });
        }
        let busy = Error::machine("the files of other shares are counted just now", "try again");
        Err(busy.because(Reason::Busy))
    }
}

impl Place {
    /// Waits for the account's turn to count. False where that does not come until then.
    fn begin(&mut self, until: Instant) -> bool {
        let mut accounts = self.places.accounts.lock();
        loop {
            if let Some(of_account) = accounts.get_mut(&self.account).filter(|one| !one.is_counting) {
                of_account.is_counting = true;
                self.is_counting = true;
                return true;
            }
            if self.places.counted.wait_until(&mut accounts, until).timed_out() {
                return false;
            }
        }
    }

    /// Counts, and waits no longer than so long for that: a disk may hang, and its account's turn with it.
    fn count<T: Send + 'static>(self, count: impl FnOnce() -> T + Send + 'static, within: Duration) -> Option<T> {
        let (tell, told) = channel();
        let counting = move || {
            let _place = self;
            // Nobody may wait for it any more.
            let _ = tell.send(count());
        };
        thread::Builder::new().name("count".to_owned()).spawn(counting).ok()?;
        told.recv_timeout(within).ok()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut accounts = self.places.accounts.lock();
        if let Some(of_account) = accounts.get_mut(&self.account) {
            of_account.places -= 1;
            of_account.is_counting &= !self.is_counting;
        }
        accounts.retain(|_, one| one.places > 0);
        self.places.counted.notify_all();
    }
}

/// Bytes of all files in a folder of an account's. One count of an account at a time, so that who asks again and again keeps no more than one disk busy; few
/// wait for their turn, and others are told to try again.
pub(crate) fn count_bytes(account: &AccountName, folder: &Path) -> Result<u64, Error> {
    static COUNTING: LazyLock<Arc<Places>> = LazyLock::new(Arc::default);
    let late = || {
        Error::machine(
            "the files of the share are too many to be counted now",
            "give the share a quota: then they are counted all the time",
        )
        .because(Reason::TookTooLong)
    };
    let mut place = COUNTING.take(account.as_str())?;
    if !place.begin(Instant::now() + COUNTS_FOR) {
        return Err(late());
    }
    let folder = folder.to_owned();
    let bytes = place.count(move || counted(&folder, Instant::now() + COUNTS_FOR), COUNTS_FOR);
    bytes.flatten().ok_or_else(late)
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
        let places = Arc::<Places>::default();
        let all = |account: &str| -> Vec<_> { std::iter::from_fn(|| places.take(account).ok()).collect() };
        let taken = all("first");
        assert_eq!(taken.len(), PLACES / 2);
        for _ in 0..2 {
            assert_eq!(places.take("first").unwrap_err().reason(), Reason::Busy);
        }
        let of_others = (all("second"), all("third"));
        assert_eq!((of_others.0.len(), of_others.1.len()), (2, 1), "another account finds one");
        drop(taken);
        assert!(places.take("first").is_ok());
        drop(of_others);
        assert!(places.accounts.lock().is_empty());
    }

    #[test]
    fn a_disk_that_hangs_keeps_the_turn_of_its_own_account_alone() {
        let places = Arc::<Places>::default();
        let (goes_on, hangs) = channel::<()>();
        let mut first = places.take("first").unwrap();
        assert!(first.begin(Instant::now()));
        assert_eq!(first.count(move || hangs.recv().is_err(), Duration::ZERO), None, "nobody waits for it");
        let mut again = places.take("first").unwrap();
        assert!(!again.begin(Instant::now()));
        let mut second = places.take("second").unwrap();
        assert!(second.begin(Instant::now()));
        assert_eq!(second.count(|| 1, COUNTS_FOR), Some(1));
        drop(goes_on);
        assert!(again.begin(Instant::now() + COUNTS_FOR));
    }

    #[test]
    fn files_are_counted_and_what_is_the_servers_own_is_not() {
        let (place, account) = (tempfile::tempdir().unwrap(), "work".parse().unwrap());
        fs::create_dir_all(place.path().join("a/b")).unwrap();
        fs::create_dir(place.path().join(OWN)).unwrap();
        for (path, bytes) in [("one", 100), ("a/b/two", 5000), (".multilane/streams", 1 << 20)] {
            fs::write(place.path().join(path), vec![1; bytes]).unwrap();
        }
        std::os::unix::fs::symlink(place.path(), place.path().join("a/link")).unwrap();
        assert_eq!(count_bytes(&account, place.path()).unwrap(), 5100);
        assert_eq!(counted(place.path(), Instant::now()), None);
        assert_eq!(count_bytes(&account, &place.path().join("nowhere")).unwrap(), 0);
    }
}
