//! The names in directories, so that a name in another case, or one that does not exist, costs no scan each time.
//!
//! A listing is believed while its directory's times of change equal those it was read with. Two changes within one
//! tick of the file system's clock look alike, so a listing read within a tick of the directory's last change is only
//! believed where that change was ours: then the listing was brought up to date, and it is believed until
//! [`OURS_AGE_MAX`] has passed, for another program's change may have gone unseen just before ours. A name asked for
//! in its stored case is always looked up by the kernel and needs no listing.
//!
//! A directory's own changes through one store happen one at a time, under the lock of the directory's shard: this is
//! what keeps two names that differ in case only from being made at once.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use rustix::io::Errno;

use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::folder::{Folder, Listed, Stamp, each_name};
use crate::directory::names::{self, Wanted};
use crate::{Error, Identity, fold};

/// Names held in all listings of a store: about 100 MiB of memory.
const NAMES_MAX: usize = 1 << 19;
/// The part of them that one directory may have; larger directories are read through each time.
const LISTING_SHARE: usize = 2;
/// What a listing costs besides its names, in names.
const LISTING_COST: usize = 4;
/// How many locks the directories share.
const SHARDS: usize = 256;
/// How long a listing with our own changes is believed; at least [`SCAN_SHARE`] times what it cost to read.
const OURS_AGE_MAX: Duration = Duration::from_secs(5);
const SCAN_SHARE: u32 = 50;

/// The listings of a store.
pub(super) struct Cache {
    shards: Vec<Mutex<Shard>>,
    hasher: RandomState,
    names: AtomicUsize,
    names_max: usize,
    tick: Duration,
}

type Shard = HashMap<Identity, Listing>;

/// The names in one directory.
struct Listing {
    stamp: Stamp,
    /// No further change can have left the stamp as it is.
    settled: bool,
    /// The last change was ours.
    ours: bool,
    /// When it was last known to be right beyond doubt.
    sure_at: Instant,
    cost: Duration,
    /// `None` where there are too many.
    names: Option<HashMap<Box<str>, Stored>>,
    weight: usize,
}

/// What is stored under one folded name.
enum Stored {
    One(Box<[u8]>),
    /// Names that differ in case only, made by other programs.
    Several(Vec<Box<[u8]>>),
}

/// One or two directories held for changes.
pub(super) struct Held<'a> {
    cache: &'a Cache,
    first: (usize, MutexGuard<'a, Shard>),
    second: Option<(usize, MutexGuard<'a, Shard>)>,
}

/// What we did to a directory.
pub(super) enum Did<'a> {
    Made(&'a Wanted),
    Removed(&'a [u8]),
}

impl Cache {
    /// `tick` is how coarse the file system's times of change are.
    pub(super) fn new(tick: Duration) -> Self {
        Cache::with_room(tick, NAMES_MAX)
    }

    fn with_room(tick: Duration, names_max: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Cache { shards, hasher: RandomState::new(), names: AtomicUsize::new(0), names_max, tick }
    }

    /// Holds a directory.
    pub(super) fn hold(&self, directory: Identity) -> Held<'_> {
        let index = self.index(directory);
        Held { cache: self, first: (index, self.shards[index].lock()), second: None }
    }

    /// Holds a directory where nobody else does.
    pub(super) fn try_hold(&self, directory: Identity) -> Option<Held<'_>> {
        let index = self.index(directory);
        Some(Held { cache: self, first: (index, self.shards[index].try_lock()?), second: None })
    }

    /// Holds two directories, which may be one.
    pub(super) fn hold_both(&self, one: Identity, other: Identity) -> Held<'_> {
        let (one, other) = (self.index(one), self.index(other));
        let (low, high) = (one.min(other), one.max(other));
        let first = (low, self.shards[low].lock());
        let second = (low != high).then(|| (high, self.shards[high].lock()));
        Held { cache: self, first, second }
    }

    fn index(&self, directory: Identity) -> usize {
        (self.hasher.hash_one(directory) % SHARDS as u64) as usize
    }

    fn make_room(&self, shard: &mut Shard, keep: Identity, own: usize) {
        if self.names.load(Ordering::Relaxed) <= self.names_max {
            return;
        }
        shard.retain(|identity, listing| *identity == keep || self.dropped(listing));
        for step in 1..SHARDS {
            if self.names.load(Ordering::Relaxed) <= self.names_max {
                return;
            }
            if let Some(mut other) = self.shards[(own + step) % SHARDS].try_lock() {
                other.retain(|_, listing| self.dropped(listing));
            }
        }
    }

    /// Counts a listing off; false, for `retain`.
    fn dropped(&self, listing: &Listing) -> bool {
        self.names.fetch_sub(listing.weight, Ordering::Relaxed);
        false
    }
}

impl Held<'_> {
    /// The stored name of `wanted`, preferably in its case. Reads the directory where its listing is not
    /// known to be right; EAGAIN where that may not wait.
    pub(super) fn find(&mut self, folder: &Folder, wanted: &Wanted, wait: Wait) -> Result<Option<Vec<u8>>, Error> {
        let valid = self.is_valid(folder)?;
        if !valid && wait == Wait::Never {
            return Err(Error::WouldBlock);
        }
        if !valid && !self.is_too_large(folder.identity) && !self.read(folder)? {
            return Ok(None);
        }
        let listing = self.shard(folder.identity).get(&folder.identity);
        match listing.and_then(|listing| listing.names.as_ref()) {
            Some(names) => Ok(names.get(wanted.folded.as_str()).map(|stored| stored.best(&wanted.disk).to_vec())),
            None => {
                let (best, count) = search(folder, wanted)?;
                if count < self.cache.names_max / LISTING_SHARE {
                    self.forget(folder.identity);
                }
                Ok(best)
            }
        }
    }

    fn is_too_large(&mut self, directory: Identity) -> bool {
        self.shard(directory).get(&directory).is_some_and(|listing| listing.names.is_none())
    }

    /// True where the listing may be believed.
    pub(super) fn is_valid(&mut self, folder: &Folder) -> Result<bool, Error> {
        let Some(listing) = self.shard(folder.identity).get(&folder.identity) else { return Ok(false) };
        if !listing.is_trusted() {
            return Ok(false);
        }
        Ok(listing.stamp == folder.stamp || listing.stamp == folder.stamp_now().map_err(error)?)
    }

    /// Notes our own change of a directory whose listing was valid before it.
    pub(super) fn note(&mut self, folder: &Folder, did: &Did<'_>) {
        let Ok(stamp) = folder.stamp_now() else { return self.forget(folder.identity) };
        let count = match self.shard(folder.identity).get_mut(&folder.identity) {
            Some(listing) => listing.note(did, stamp),
            None => return,
        };
        match did {
            Did::Made(_) => self.cache.names.fetch_add(count, Ordering::Relaxed),
            Did::Removed(_) => self.cache.names.fetch_sub(count, Ordering::Relaxed),
        };
    }

    /// Forgets a listing.
    pub(super) fn forget(&mut self, directory: Identity) {
        if let Some(listing) = self.shard(directory).remove(&directory) {
            self.cache.dropped(&listing);
        }
    }

    /// Reads the directory. False where it cannot be read.
    fn read(&mut self, folder: &Folder) -> Result<bool, Error> {
        self.forget(folder.identity);
        let names_max = self.cache.names_max / LISTING_SHARE;
        let listing = match Listing::read(folder, self.cache.tick, names_max) {
            Ok(listing) => listing,
            Err(Errno::ACCESS | Errno::PERM) => return Ok(false),
            Err(errno) => return Err(error(errno)),
        };
        self.cache.names.fetch_add(listing.weight, Ordering::Relaxed);
        let own = self.cache.index(folder.identity);
        let cache = self.cache;
        let shard = self.shard(folder.identity);
        shard.insert(folder.identity, listing);
        cache.make_room(shard, folder.identity, own);
        Ok(true)
    }

    fn shard(&mut self, directory: Identity) -> &mut Shard {
        let index = self.cache.index(directory);
        match &mut self.second {
            Some((second, guard)) if *second == index => guard,
            Some(_) | None => &mut self.first.1,
        }
    }
}

impl Listing {
    fn read(folder: &Folder, tick: Duration, names_max: usize) -> Result<Self, Errno> {
        let sure_at = Instant::now();
        let stamp = folder.stamp_now()?;
        let settled = stamp.is_older_than(tick, SystemTime::now());
        let mut names = HashMap::new();
        let mut count = 0;
        each_name(&folder.fd, |entry| {
            count += 1;
            if count <= names_max {
                insert(&mut names, entry.name);
            }
        })?;
        let whole = count <= names_max;
        let weight = LISTING_COST + if whole { count } else { 0 };
        let names = whole.then_some(names);
        Ok(Listing { stamp, settled, ours: false, sure_at, cost: sure_at.elapsed(), names, weight })
    }

    fn is_trusted(&self) -> bool {
        let age_max = OURS_AGE_MAX.max(self.cost.saturating_mul(SCAN_SHARE));
        self.names.is_some() && (self.settled || (self.ours && self.sure_at.elapsed() < age_max))
    }

    /// Brings the listing up to date; gives by how many names its weight changed.
    fn note(&mut self, did: &Did<'_>, stamp: Stamp) -> usize {
        if self.settled {
            self.sure_at = Instant::now();
        }
        (self.stamp, self.settled, self.ours) = (stamp, false, true);
        let Some(names) = &mut self.names else { return 0 };
        match did {
            Did::Made(wanted) => {
                let more = usize::from(insert(names, &wanted.disk));
                self.weight += more;
                more
            }
            Did::Removed(disk) => {
                let gone = usize::from(remove(names, disk));
                self.weight -= gone;
                gone
            }
        }
    }
}

impl Stored {
    fn best(&self, disk: &[u8]) -> &[u8] {
        match self {
            Stored::One(name) => name,
            Stored::Several(all) => {
                all.iter().find(|name| ***name == *disk).or(all.first()).map_or(&[], |name| name.as_ref())
            }
        }
    }
}

/// Adds a stored name; false where it was there.
fn insert(names: &mut HashMap<Box<str>, Stored>, disk: &[u8]) -> bool {
    let folded = fold(&names::to_shown(disk)).into_boxed_str();
    match names.get_mut(&folded) {
        None => {
            names.insert(folded, Stored::One(disk.into()));
            true
        }
        Some(Stored::One(first)) if **first == *disk => false,
        Some(Stored::One(first)) => {
            let mut all = vec![std::mem::take(first), disk.into()];
            all.sort();
            names.insert(folded, Stored::Several(all));
            true
        }
        Some(Stored::Several(all)) if all.iter().any(|name| **name == *disk) => false,
        Some(Stored::Several(all)) => {
            all.push(disk.into());
            true
        }
    }
}

/// Removes a stored name; false where it was not there.
fn remove(names: &mut HashMap<Box<str>, Stored>, disk: &[u8]) -> bool {
    let folded = fold(&names::to_shown(disk));
    match names.get_mut(folded.as_str()) {
        None => false,
        Some(Stored::One(_)) => names.remove(folded.as_str()).is_some(),
        Some(Stored::Several(all)) => {
            let before = all.len();
            all.retain(|name| **name != *disk);
            let gone = all.len() < before;
            if all.is_empty() {
                names.remove(folded.as_str());
            }
            gone
        }
    }
}

/// Looks through a directory that is too large to be held; gives how many names it has too.
fn search(folder: &Folder, wanted: &Wanted) -> Result<(Option<Vec<u8>>, usize), Error> {
    let mut best: Option<Vec<u8>> = None;
    let mut count = 0;
    let look = |entry: Listed<'_>| {
        count += 1;
        let fits = entry.name == wanted.disk || fold(&names::to_shown(entry.name)) == wanted.folded;
        if fits && best.as_deref() != Some(&wanted.disk) {
            best = Some(entry.name.to_vec());
        }
    };
    each_name(&folder.fd, look).map_err(error)?;
    Ok((best, count))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{Mode, OFlags, open};

    use super::*;
    use crate::SharePath;
    use crate::directory::file::Reach;

    const TICK: Duration = Duration::from_millis(20);

    fn folder(path: &std::path::Path) -> Folder {
        let fd = open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        Folder::new((fd, Reach::Read), Vec::new(), SharePath::root()).unwrap()
    }

    fn find(cache: &Cache, folder: &Folder, name: &str) -> Option<Vec<u8>> {
        cache.hold(folder.identity).find(folder, &Wanted::new(name), Wait::May).unwrap()
    }

    #[test]
    fn names_held_are_bounded() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::with_room(TICK, 100);
        for index in 0..40 {
            let path = place.path().join(format!("{index}"));
            fs::create_dir(&path).unwrap();
            for name in 0..10 {
                fs::write(path.join(format!("name{name}")), "").unwrap();
            }
            let folder = folder(&path);
            assert_eq!(find(&cache, &folder, "NAME7").as_deref(), Some(b"name7".as_slice()));
            assert!(cache.names.load(Ordering::Relaxed) <= 100);
        }
        let held: usize =
            cache.shards.iter().map(|shard| shard.lock().values().map(|listing| listing.weight).sum::<usize>()).sum();
        assert_eq!(held, cache.names.load(Ordering::Relaxed));
    }

    #[test]
    fn a_directory_too_large_to_be_held_is_searched() {
        let place = tempfile::tempdir().unwrap();
        for name in 0..80 {
            fs::write(place.path().join(format!("name{name}")), "").unwrap();
        }
        let cache = Cache::with_room(TICK, 100);
        let folder = folder(place.path());
        for _ in 0..2 {
            assert_eq!(find(&cache, &folder, "NAME77").as_deref(), Some(b"name77".as_slice()));
            assert_eq!(find(&cache, &folder, "none"), None);
            assert!(cache.names.load(Ordering::Relaxed) <= LISTING_COST);
        }
        for name in 10..80 {
            fs::remove_file(place.path().join(format!("name{name}"))).unwrap();
        }
        assert_eq!(find(&cache, &folder, "NAME7").as_deref(), Some(b"name7".as_slice()));
        assert_eq!(find(&cache, &folder, "NAME77"), None);
        assert!(cache.names.load(Ordering::Relaxed) > LISTING_COST);
    }

    #[test]
    fn a_listing_is_believed_while_nothing_changes() {
        let place = tempfile::tempdir().unwrap();
        let old = rustix::fs::Timespec { tv_sec: 1000, tv_nsec: 5 };
        let cache = Cache::new(Duration::ZERO);
        fs::write(place.path().join("name"), "").unwrap();
        let opened = folder(place.path());
        assert_eq!(find(&cache, &opened, "NAME").as_deref(), Some(b"name".as_slice()));
        assert!(cache.hold(opened.identity).is_valid(&opened).unwrap());
        let found = cache.hold(opened.identity).find(&opened, &Wanted::new("other"), Wait::Never);
        assert_eq!(found, Ok(None));
        let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
        rustix::fs::futimens(&opened.fd, &times).unwrap();
        let again = folder(place.path());
        assert!(!cache.hold(again.identity).is_valid(&again).unwrap());
        assert_eq!(cache.hold(again.identity).find(&again, &Wanted::new("other"), Wait::Never), Err(Error::WouldBlock));
    }

    #[test]
    fn a_listing_read_within_a_tick_of_a_change_is_not_believed() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::new(Duration::from_secs(3600));
        let opened = folder(place.path());
        assert_eq!(find(&cache, &opened, "name"), None);
        assert!(!cache.hold(opened.identity).is_valid(&opened).unwrap());
        fs::write(place.path().join("name"), "").unwrap();
        cache.hold(opened.identity).note(&opened, &Did::Made(&Wanted::new("name")));
        assert!(cache.hold(opened.identity).is_valid(&opened).unwrap());
        assert_eq!(find(&cache, &opened, "NAME").as_deref(), Some(b"name".as_slice()));
        fs::remove_file(place.path().join("name")).unwrap();
        cache.hold(opened.identity).note(&opened, &Did::Removed(b"name"));
        assert_eq!(find(&cache, &opened, "NAME"), None);
    }
}
