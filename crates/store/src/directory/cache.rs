//! The names in directories, so that a name in another case, or one that does not exist, costs no scan each time.
//!
//! A listing is believed while its directory's times of change equal those it was read with. Two changes within one
//! tick of the file system's clock look alike, so a listing read within a tick of the directory's last change is only
//! believed where that change was ours: then the listing was brought up to date, and it is believed until
//! [`OURS_AGE_MAX`] has passed, for another program's change may have gone unseen just before ours. A name asked for
//! in its stored case is always looked up by the kernel and needs no listing.
//!
//! Of a large directory only a digest of each name is held, with the place where the directory has it: enough to say at once that there
//! is no such name, and to look in one place where there is.
//!
//! A directory's own changes through one store happen one at a time, under the lock of the directory's shard: this is
//! what keeps two names that differ in case only from being made at once.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, MutexGuard};
use rustix::fd::AsFd;
use rustix::io::Errno;

use crate::directory::errno::error;
use crate::directory::fence::Wait;
use crate::directory::folder::{Folder, Handle};
use crate::directory::listing::{Listed, each_name, names_from};
use crate::directory::name_room::{HeldNames, Part, Room};
use crate::directory::names::{self, Wanted};
use crate::directory::stat::Stamp;
use crate::{Error, Identity, fold};

/// The part of the memory for names that one directory may have; larger directories are read through each time.
const LISTING_SHARE: usize = 2;
/// The part of it that one directory may have whole; of a larger one digests are held.
const WHOLE_SHARE: usize = 8;
/// More digests are not held of one directory.
const DIGESTS_MAX: usize = 1_310_720;
/// Bytes that a digest takes, in a table that may just have become twice as large.
const DIGEST_BYTES: usize = 48;
/// Bytes that a name takes besides its own, which are held as they are stored and folded.
const NAME_BYTES: usize = 128;
/// Bytes that a listing takes besides its names.
const LISTING_BYTES: usize = 512;
/// Bytes that the names take, at most, that one `getdents` brings.
const SCAN_BYTES: usize = 256 << 10;
/// Where a name is of which only its digest is known.
const SOMEWHERE: u64 = u64::MAX;
/// How many locks the directories share: one half those of the share's own file system, the other half those of what is mounted below, so that
/// a disk there which hangs holds up nobody here.
const SHARDS: usize = 256;
/// How long a listing with our own changes is believed; at least [`SCAN_SHARE`] times what it cost to read.
const OURS_AGE_MAX: Duration = Duration::from_secs(5);
const SCAN_SHARE: u32 = 50;

/// The listings of a store.
pub(super) struct Cache {
    shards: Arc<Shards>,
    hasher: RandomState,
    /// The share's own file system.
    volume: u64,
    room: Arc<Room>,
    tick: Duration,
}

struct Shards {
    all: Vec<Mutex<Shard>>,
    used: Arc<AtomicUsize>,
}

type Shard = HashMap<Identity, Listing>;

impl Part for Shards {
    fn used(&self) -> &Arc<AtomicUsize> {
        &self.used
    }

    fn drop_some(&self, is_enough: &dyn Fn() -> bool) {
        for shard in &self.all {
            if is_enough() {
                return;
            }
            if let Some(mut shard) = shard.try_lock() {
                shard.clear();
            }
        }
    }
}

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
    names: Names,
    place: HeldNames,
}

/// Stored names by their folded form.
type Whole = HashMap<Box<str>, Stored>;

enum Names {
    Whole(Whole),
    /// Only what they digest to.
    Digests(Digests),
    /// There are more than are held.
    TooMany,
}

/// Names of a large directory: where each of them is, by a digest of its folded form. A digest may stand for a name that has gone or, as
/// good as never, for another one; what has none is not there.
#[derive(Default)]
struct Digests {
    places: HashMap<u64, u64>,
    /// How often the digests are there that are there more than once.
    repeated: HashMap<u64, usize>,
}

/// What is stored under one folded name.
enum Stored {
    One(Box<[u8]>),
    /// Names that differ in case only, made by other programs: in order, so that it is always the same one that is found in another case.
    Several(Vec<Box<[u8]>>),
}

/// A stored name, and where its directory has it.
type Spot = (Vec<u8>, u64);

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
    /// `tick` is how coarse the times of change of the file system `volume` are.
    pub(super) fn new(tick: Duration, volume: u64) -> Self {
        Cache { volume, ..Cache::within(Room::of_process(), tick) }
    }

    fn within(room: Arc<Room>, tick: Duration) -> Self {
        let all = (0..SHARDS).map(|_| Mutex::default()).collect();
        let shards = Arc::new(Shards { all, used: Arc::default() });
        room.join(&shards);
        Cache { shards, hasher: RandomState::new(), volume: 0, room, tick }
    }

    /// Holds a directory.
    pub(super) fn hold(&self, directory: Identity) -> Held<'_> {
        let index = self.index(directory);
        Held { cache: self, first: (index, self.shards.all[index].lock()), second: None }
    }

    /// Holds a directory where nobody else does.
    pub(super) fn try_hold(&self, directory: Identity) -> Option<Held<'_>> {
        let index = self.index(directory);
        Some(Held { cache: self, first: (index, self.shards.all[index].try_lock()?), second: None })
    }

    /// Holds a directory. EAGAIN where somebody else does and that may not be waited for: it may be read through meanwhile.
    pub(super) fn hold_for(&self, directory: Identity, wait: Wait) -> Result<Held<'_>, Error> {
        match wait {
            Wait::May => Ok(self.hold(directory)),
            Wait::OnRoot => self.try_hold(directory).ok_or(Error::WouldBlock),
        }
    }

    /// Holds two directories, which may be one.
    pub(super) fn hold_both(&self, one: Identity, other: Identity) -> Held<'_> {
        let (one, other) = (self.index(one), self.index(other));
        let (low, high) = (one.min(other), one.max(other));
        let first = (low, self.shards.all[low].lock());
        let second = (low != high).then(|| (high, self.shards.all[high].lock()));
        Held { cache: self, first, second }
    }

    fn index(&self, directory: Identity) -> usize {
        let half = SHARDS / 2;
        let own = (self.hasher.hash_one(directory) % half as u64) as usize;
        if directory.volume == self.volume { own } else { half + own }
    }

    fn digests_max(&self) -> usize {
        (self.room.limit() / LISTING_SHARE / DIGEST_BYTES).min(DIGESTS_MAX)
    }
}

impl Held<'_> {
    /// The stored name of `wanted`, preferably in its case. Reads the directory where its listing is not known to be right; EAGAIN for who
    /// may not wait, in memory, too: there may be a million names.
    pub(super) fn find(&mut self, folder: &Folder<'_>, wanted: &Wanted, wait: Wait) -> Result<Option<Vec<u8>>, Error> {
        let valid = self.is_valid(folder)?;
        if !valid && wait != Wait::May {
            return Err(Error::WouldBlock);
        }
        if !valid && !self.is_too_large(folder.identity) && !self.read(folder)? {
            return Ok(None);
        }
        let digest = self.cache.hasher.hash_one(&wanted.folded);
        let place = match self.shard(folder.identity).get(&folder.identity).map(|listing| &listing.names) {
            Some(Names::Whole(names)) => {
                return Ok(names.get(wanted.folded.as_str()).map(|stored| stored.best(&wanted.disk).to_vec()));
            }
            Some(Names::Digests(digests)) => match digests.find(digest) {
                Some(place) => Some(place),
                None => return Ok(None),
            },
            Some(Names::TooMany) | None => None,
        };
        if wait != Wait::May {
            return Err(Error::WouldBlock);
        }
        match place {
            Some(place) => self.find_at(folder, wanted, digest, place),
            None => {
                let (best, count) = search(folder, wanted)?;
                if count < self.cache.digests_max() {
                    self.forget(folder.identity);
                }
                Ok(best.map(|(name, _)| name))
            }
        }
    }

    /// A name that is in a large directory, most likely where its digest says.
    fn find_at(
        &mut self,
        folder: &Folder<'_>,
        wanted: &Wanted,
        digest: u64,
        place: u64,
    ) -> Result<Option<Vec<u8>>, Error> {
        if place != SOMEWHERE {
            let mut best = None;
            let read = |fd: Handle<'_>| names_from(fd.as_fd(), place, |entry| wanted.compare(&entry, &mut best));
            folder.to_read().and_then(read).map_err(error)?;
            if let Some((name, _)) = best {
                return Ok(Some(name));
            }
        }
        let (best, _) = search(folder, wanted)?;
        let Some((name, place)) = best else { return Ok(None) };
        if let Some(Names::Digests(digests)) =
            self.shard(folder.identity).get_mut(&folder.identity).map(|listing| &mut listing.names)
        {
            digests.places.insert(digest, place);
        }
        Ok(Some(name))
    }

    fn is_too_large(&mut self, directory: Identity) -> bool {
        self.shard(directory).get(&directory).is_some_and(|listing| matches!(listing.names, Names::TooMany))
    }

    /// True where the listing may be believed.
    pub(super) fn is_valid(&mut self, folder: &Folder<'_>) -> Result<bool, Error> {
        let Some(listing) = self.shard(folder.identity).get(&folder.identity) else { return Ok(false) };
        if !listing.is_trusted() {
            return Ok(false);
        }
        folder.has_stamp(listing.stamp).map_err(error)
    }

    /// Notes our own change of a directory whose listing was valid before it.
    pub(super) fn note(&mut self, folder: &Folder<'_>, did: &Did<'_>) {
        let hasher = self.cache.hasher.clone();
        let Some(listing) = self.shard(folder.identity).get_mut(&folder.identity) else { return };
        let is_noted = folder.stamp_now().is_ok_and(|stamp| listing.note(did, stamp, &hasher));
        if !is_noted {
            self.forget(folder.identity);
        }
    }

    /// Forgets a listing.
    pub(super) fn forget(&mut self, directory: Identity) {
        self.shard(directory).remove(&directory);
    }

    /// Reads the directory. False where it cannot be read.
    fn read(&mut self, folder: &Folder<'_>) -> Result<bool, Error> {
        self.forget(folder.identity);
        let listing = match Listing::read(folder, self.cache) {
            Ok(listing) => listing,
            Err(Errno::ACCESS | Errno::PERM) => return Ok(false),
            Err(errno) => return Err(error(errno)),
        };
        self.shard(folder.identity).insert(folder.identity, listing);
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
    fn read(folder: &Folder<'_>, cache: &Cache) -> Result<Self, Errno> {
        let sure_at = Instant::now();
        let stamp = folder.stamp_now()?;
        let settled = stamp.is_far_from(cache.tick, SystemTime::now());
        let mut place = HeldNames::new(&cache.room, &cache.shards);
        let names = Names::read(folder, cache, &mut place)?;
        Ok(Listing { stamp, settled, ours: false, sure_at, cost: sure_at.elapsed(), names, place })
    }

    fn is_trusted(&self) -> bool {
        let age_max = OURS_AGE_MAX.max(self.cost.saturating_mul(SCAN_SHARE));
        let is_known = !matches!(self.names, Names::TooMany);
        is_known && (self.settled || (self.ours && self.sure_at.elapsed() < age_max))
    }

    /// Brings the listing up to date. False where there is no room for what it would hold.
    #[must_use]
    fn note(&mut self, did: &Did<'_>, stamp: Stamp, hasher: &RandomState) -> bool {
        if self.settled {
            self.sure_at = Instant::now();
        }
        (self.stamp, self.settled, self.ours) = (stamp, false, true);
        let more = match (&self.names, did) {
            (Names::Whole(_), Did::Made(wanted)) => bytes_of(&wanted.disk),
            (Names::Digests(_), Did::Made(_)) => DIGEST_BYTES,
            _ => 0,
        };
        if !self.place.grow_to(self.place.bytes() + more) {
            return false;
        }
        match (&mut self.names, did) {
            (Names::Whole(names), Did::Made(wanted)) => insert(names, &wanted.disk),
            (Names::Whole(names), Did::Removed(disk)) => remove(names, disk),
            (Names::Digests(digests), Did::Made(wanted)) => digests.insert(digest(hasher, &wanted.disk), SOMEWHERE),
            (Names::Digests(digests), Did::Removed(disk)) => digests.remove(digest(hasher, disk)),
            (Names::TooMany, _) => {}
        }
        true
    }
}

/// Bytes that a name takes in a whole listing.
fn bytes_of(disk: &[u8]) -> usize {
    2 * disk.len() + NAME_BYTES
}

impl Names {
    /// Reads the names whole as long as they are few, then once more as digests, as far as there is room.
    fn read(folder: &Folder<'_>, cache: &Cache, place: &mut HeldNames) -> Result<Self, Errno> {
        if let Some(whole) = Names::read_whole(folder, cache, place)? {
            return Ok(Names::Whole(whole));
        }
        place.shrink_to(0);
        if let Some(digests) = Names::read_digests(folder, cache, place)? {
            return Ok(Names::Digests(digests));
        }
        place.shrink_to(0);
        Ok(Names::TooMany)
    }

    fn read_whole(folder: &Folder<'_>, cache: &Cache, place: &mut HeldNames) -> Result<Option<Whole>, Errno> {
        let bytes_max = cache.room.limit() / WHOLE_SHARE;
        let fd = folder.to_read()?;
        let (mut names, mut bytes, mut at) = (Whole::new(), LISTING_BYTES, Some(0));
        while let Some(spot) = at {
            if bytes > bytes_max || !place.grow_to(bytes + SCAN_BYTES.min(bytes_max)) {
                return Ok(None);
            }
            at = names_from(fd.as_fd(), spot, |entry| {
                bytes += bytes_of(entry.name);
                insert(&mut names, entry.name);
            })?;
        }
        place.shrink_to(bytes);
        Ok(Some(names).filter(|_| bytes <= bytes_max))
    }

    fn read_digests(folder: &Folder<'_>, cache: &Cache, place: &mut HeldNames) -> Result<Option<Digests>, Errno> {
        let (fd, mut digests) = (folder.to_read()?, Digests::default());
        let most = cache.digests_max();
        let bytes = |digests: &Digests| LISTING_BYTES + digests.places.len() * DIGEST_BYTES;
        let mut at = Some(0);
        while let Some(spot) = at {
            if digests.places.len() > most || !place.grow_to(bytes(&digests) + SCAN_BYTES.min(most * DIGEST_BYTES)) {
                return Ok(None);
            }
            at = names_from(fd.as_fd(), spot, |entry| {
                digests.insert(digest(&cache.hasher, entry.name), entry.at);
            })?;
        }
        place.shrink_to(bytes(&digests));
        Ok(Some(digests).filter(|digests| digests.places.len() <= most))
    }
}

impl Digests {
    /// Where a name may be; `None`: there is none.
    fn find(&self, digest: u64) -> Option<u64> {
        let place = *self.places.get(&digest)?;
        Some(if self.repeated.contains_key(&digest) { SOMEWHERE } else { place })
    }

    fn insert(&mut self, digest: u64, at: u64) {
        if self.places.insert(digest, at).is_some() {
            *self.repeated.entry(digest).or_insert(1) += 1;
        }
    }

    fn remove(&mut self, digest: u64) {
        match self.repeated.get_mut(&digest) {
            None => drop(self.places.remove(&digest)),
            Some(2) => drop(self.repeated.remove(&digest)),
            Some(count) => *count -= 1,
        }
    }
}

/// What a stored name digests to, whatever its case.
fn digest(hasher: &RandomState, disk: &[u8]) -> u64 {
    hasher.hash_one(fold(&names::to_shown(disk)))
}

impl Wanted {
    /// Takes an entry that is the wanted one, in another case as long as there is none in the same.
    fn compare(&self, entry: &Listed<'_>, best: &mut Option<Spot>) {
        let fits = entry.name == self.disk || fold(&names::to_shown(entry.name)) == self.folded;
        if fits && best.as_ref().is_none_or(|(name, _)| *name != self.disk) {
            *best = Some((entry.name.to_vec(), entry.at));
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

/// Adds a stored name.
fn insert(names: &mut Whole, disk: &[u8]) {
    let folded = fold(&names::to_shown(disk)).into_boxed_str();
    match names.get_mut(&folded) {
        None => {
            names.insert(folded, Stored::One(disk.into()));
        }
        Some(Stored::One(first)) if **first == *disk => {}
        Some(Stored::One(first)) => {
            let mut all = vec![std::mem::take(first), disk.into()];
            all.sort();
            names.insert(folded, Stored::Several(all));
        }
        Some(Stored::Several(all)) => {
            if let Err(place) = all.binary_search_by(|name| (**name).cmp(disk)) {
                all.insert(place, disk.into());
            }
        }
    }
}

/// Removes a stored name.
fn remove(names: &mut Whole, disk: &[u8]) {
    let folded = fold(&names::to_shown(disk));
    match names.get_mut(folded.as_str()) {
        None => {}
        Some(Stored::One(_)) => drop(names.remove(folded.as_str())),
        Some(Stored::Several(all)) => {
            all.retain(|name| **name != *disk);
            if all.is_empty() {
                names.remove(folded.as_str());
            }
        }
    }
}

/// Looks through a whole directory: what it has, and where, and how many names there are.
fn search(folder: &Folder<'_>, wanted: &Wanted) -> Result<(Option<Spot>, usize), Error> {
    let (mut best, mut count) = (None, 0);
    let look = |entry: Listed<'_>| {
        count += 1;
        wanted.compare(&entry, &mut best);
    };
    folder.to_read().and_then(|fd| each_name(fd, look)).map_err(error)?;
    Ok((best, count))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::atomic::Ordering;

    use rustix::fs::{Mode, OFlags};

    use super::*;
    use crate::directory::calls::{futimens, open};
    use crate::directory::folder::Reach;

    const TICK: Duration = Duration::from_millis(20);

    fn folder(path: &std::path::Path) -> Folder<'static> {
        let fd = open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
        Folder::new((fd, Reach::Read)).unwrap()
    }

    fn within(tick: Duration, bytes: usize) -> Cache {
        Cache::within(Arc::new(Room::new(bytes)), tick)
    }

    fn used(cache: &Cache) -> usize {
        cache.shards.used.load(Ordering::Relaxed)
    }

    fn find(cache: &Cache, folder: &Folder<'_>, name: &str) -> Option<Vec<u8>> {
        cache.hold(folder.identity).find(folder, &Wanted::new(name), Wait::May).unwrap()
    }

    #[test]
    fn of_names_that_differ_in_case_the_same_one_is_found_in_whatever_order_they_are_read() {
        for order in [["FILE", "File", "file"], ["file", "FILE", "File"], ["File", "file", "FILE"]] {
            let mut names = HashMap::new();
            order.iter().for_each(|name| insert(&mut names, name.as_bytes()));
            assert_eq!(names["FILE"].best(b"fILE"), b"FILE");
            remove(&mut names, b"FILE");
            assert_eq!(names["FILE"].best(b"fILE"), b"File");
        }
    }

    #[test]
    fn names_held_are_bounded() {
        let place = tempfile::tempdir().unwrap();
        let cache = within(TICK, 24 << 10);
        for index in 0..40 {
            let path = place.path().join(format!("{index}"));
            fs::create_dir(&path).unwrap();
            for name in 0..10 {
                fs::write(path.join(format!("name{name}")), "").unwrap();
            }
            let folder = folder(&path);
            assert_eq!(find(&cache, &folder, "NAME7").as_deref(), Some(b"name7".as_slice()));
            assert!(used(&cache) <= 24 << 10);
        }
        assert!(cache.shards.all.iter().map(|shard| shard.lock().len()).sum::<usize>() > 4);
        cache.shards.drop_some(&|| false);
        assert_eq!(used(&cache), 0);
    }

    #[test]
    fn names_are_held_by_what_they_take_however_many_look_at_once_in_however_many_stores() {
        const BYTES: usize = 1 << 20;
        let place = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..12).map(|index| place.path().join(format!("{index}"))).collect();
        for path in &paths {
            fs::create_dir(path).unwrap();
            for name in 0..180 {
                fs::write(path.join(format!("{name:0>240}")), "").unwrap();
            }
        }
        let room = Arc::new(Room::new(BYTES));
        let caches = [(); 2].map(|()| Cache::within(Arc::clone(&room), TICK));
        std::thread::scope(|scope| {
            for number in 0..8 {
                let (caches, paths, room) = (&caches, &paths, &room);
                scope.spawn(move || {
                    for round in 0..50 {
                        let folder = folder(&paths[(number * 5 + round) % paths.len()]);
                        let cache = &caches[number % caches.len()];
                        let name = format!("{:0>240}", round % 180);
                        assert_eq!(find(cache, &folder, &name).as_deref(), Some(name.as_bytes()));
                        assert!(room.used() <= BYTES);
                    }
                });
            }
        });
        assert!(room.used() > BYTES / 4, "{} bytes", room.used());
        assert_eq!(room.used(), caches.iter().map(used).sum::<usize>());
        drop(caches);
        assert_eq!(room.used(), 0);
    }

    #[test]
    fn a_store_that_holds_little_has_others_drop_what_they_have_above_their_share() {
        let place = tempfile::tempdir().unwrap();
        let paths: Vec<_> = (0..30).map(|index| place.path().join(format!("{index}"))).collect();
        for path in &paths {
            fs::create_dir(path).unwrap();
            (0..10).for_each(|name| fs::write(path.join(format!("name{name}")), "").unwrap());
        }
        let room = Arc::new(Room::new(24 << 10));
        let [greedy, modest] = [(); 2].map(|()| Cache::within(Arc::clone(&room), TICK));
        paths.iter().for_each(|path| drop(find(&greedy, &folder(path), "NAME7")));
        let before = used(&greedy);
        find(&modest, &folder(&paths[0]), "NAME7");
        find(&modest, &folder(&paths[1]), "NAME7");
        let held = used(&modest);
        assert!(held > 2 * LISTING_BYTES && used(&greedy) < before);
        paths.iter().for_each(|path| drop(find(&greedy, &folder(path), "NAME8")));
        assert_eq!(used(&modest), held, "who has its share keeps it");
    }

    #[test]
    fn a_directory_too_large_to_be_held_is_searched() {
        let place = tempfile::tempdir().unwrap();
        for name in 0..80 {
            fs::write(place.path().join(format!("name{name}")), "").unwrap();
        }
        let cache = within(TICK, 4 << 10);
        let folder = folder(place.path());
        for _ in 0..2 {
            assert_eq!(find(&cache, &folder, "NAME77").as_deref(), Some(b"name77".as_slice()));
            assert_eq!(find(&cache, &folder, "none"), None);
            assert_eq!(used(&cache), 0);
        }
        for name in 10..80 {
            fs::remove_file(place.path().join(format!("name{name}"))).unwrap();
        }
        assert_eq!(find(&cache, &folder, "NAME7").as_deref(), Some(b"name7".as_slice()));
        assert_eq!(find(&cache, &folder, "NAME77"), None);
        assert!(used(&cache) > LISTING_BYTES);
    }

    #[test]
    fn of_a_large_directory_digests_tell_what_is_not_there_and_where_the_rest_is() {
        let place = tempfile::tempdir().unwrap();
        for name in (0..80).map(|number| format!("name{number}")).chain(["both".into(), "BOTH".into()]) {
            fs::write(place.path().join(name), "").unwrap();
        }
        let cache = within(Duration::ZERO, 10 << 10);
        let opened = folder(place.path());
        assert_eq!(find(&cache, &opened, "NAME77").as_deref(), Some(b"name77".as_slice()));
        assert_eq!(used(&cache), LISTING_BYTES + 81 * DIGEST_BYTES);
        let at_once = |name| cache.hold(opened.identity).find(&opened, &Wanted::new(name), Wait::OnRoot);
        assert_eq!(at_once("none"), Ok(None));
        assert_eq!(at_once("NAME77"), Err(Error::WouldBlock), "the directory has to be looked at");
        assert_eq!(find(&cache, &opened, "Both").map(|name| name.to_ascii_lowercase()), Some(b"both".to_vec()));
        assert_eq!(find(&cache, &opened, "BOTH").as_deref(), Some(b"BOTH".as_slice()));
        let note = |did: &Did<'_>| cache.hold(opened.identity).note(&opened, did);
        fs::write(place.path().join("new"), "").unwrap();
        note(&Did::Made(&Wanted::new("new")));
        for _ in 0..2 {
            assert_eq!(find(&cache, &opened, "NEW").as_deref(), Some(b"new".as_slice()));
        }
        for (gone, left) in [("BOTH", Some(b"both".as_slice())), ("both", None)] {
            fs::remove_file(place.path().join(gone)).unwrap();
            note(&Did::Removed(gone.as_bytes()));
            assert_eq!(find(&cache, &opened, "Both").as_deref(), left);
        }
        assert_eq!(at_once("both"), Ok(None));
    }

    #[test]
    fn a_listing_is_believed_while_nothing_changes() {
        let place = tempfile::tempdir().unwrap();
        let old = rustix::fs::Timespec { tv_sec: 1000, tv_nsec: 5 };
        let cache = Cache::new(Duration::ZERO, 0);
        fs::write(place.path().join("name"), "").unwrap();
        let opened = folder(place.path());
        assert_eq!(find(&cache, &opened, "NAME").as_deref(), Some(b"name".as_slice()));
        assert!(cache.hold(opened.identity).is_valid(&opened).unwrap());
        let found = cache.hold(opened.identity).find(&opened, &Wanted::new("other"), Wait::OnRoot);
        assert_eq!(found, Ok(None));
        let times = rustix::fs::Timestamps { last_access: old, last_modification: old };
        futimens(&opened.fd, &times).unwrap();
        let again = folder(place.path());
        assert!(!cache.hold(again.identity).is_valid(&again).unwrap());
        assert_eq!(
            cache.hold(again.identity).find(&again, &Wanted::new("other"), Wait::OnRoot),
            Err(Error::WouldBlock)
        );
    }

    #[test]
    fn a_listing_read_within_a_tick_of_a_change_is_not_believed() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::new(Duration::from_secs(3600), 0);
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
