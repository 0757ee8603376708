//! Counts anew, now and then, what a share's files hold: what other programs do to them nobody tells, and of a file that has long been closed it is
//! not known any more what was counted of it.
//!
//! Files change meanwhile. Each one that is known is added once, as counted when it is come by, and what changes of it after that changes the new
//! sum with the old one. What was not come by in the end was made meanwhile, or has no name, and is added then. A file that was not known and
//! changes after it was come by is known from then on. So what is counted is right again when nothing moves, and a little wrong until the next time
//! where names move from folder to folder meanwhile.
//!
//! Nobody makes what counts less by having files missed: a count that may have missed some only raises it. That is one that could not look at
//! something (`quota_walk.rs`), during which a directory was moved through the share, or more files were closed than are known.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::Statx;

use crate::directory::fence::Fence;
use crate::directory::nameless::{GROUPS, Nameless};
use crate::directory::quota_walk::{open, walk};
use crate::{Identity, threads};

/// The least rest between two counts.
const REST: Duration = Duration::from_secs(600);
/// It rests so many times as long as it took.
const REST_FACTOR: u32 = 20;
/// Files that were come by are known by a bit each of so many. Where two share one, what changes of the second before it is come by counts twice
/// until the next time.
const BITS: usize = 1 << 24;

/// When what is there is counted anew, and how far that is.
pub(super) struct Recount {
    began: Instant,
    /// Milliseconds after that when it is due.
    due: AtomicU64,
    is_running: AtomicBool,
    /// There is a tally.
    is_on: AtomicBool,
    tally: Mutex<Option<Tally>>,
    /// Directories that were begun to be moved, and those of them that no longer are.
    moves_begun: AtomicU64,
    moves_ended: AtomicU64,
}

/// A count that is under way, until this is dropped.
struct Running<'a> {
    recount: &'a Recount,
    began: Instant,
}

/// A directory that is being moved: what lies in it may be come by twice, or not at all.
pub(super) struct DirectoryMove<'a>(&'a Recount);

/// What was come by.
struct Tally {
    bits: Vec<u64>,
    /// A bit for each group all of whose files are in it.
    groups: u64,
    bytes: u64,
    /// Some files may not have been come by.
    is_partial: bool,
}

impl Recount {
    /// It took so long to count what was there at first.
    pub(super) fn new(took: Duration) -> Self {
        let recount = Recount {
            began: Instant::now(),
            due: AtomicU64::new(0),
            is_running: AtomicBool::new(false),
            is_on: AtomicBool::new(false),
            tally: Mutex::new(None),
            moves_begun: AtomicU64::new(0),
            moves_ended: AtomicU64::new(0),
        };
        recount.rest(took);
        recount
    }

    fn rest(&self, took: Duration) {
        let rest = REST.max(took.saturating_mul(REST_FACTOR));
        let due = (self.began.elapsed() + rest).as_millis();
        self.due.store(u64::try_from(due).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Begins on a thread of its own where it is due.
    pub(super) fn begin_if_due(&self, fence: &Weak<Fence>, nameless: &Arc<Nameless>) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        if now < self.due.load(Ordering::Relaxed) || self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (fence, nameless) = (Weak::clone(fence), Arc::clone(nameless));
        let thread = Builder::new().name("multilane-recount".to_owned());
        if threads::start(thread, move || recount(&fence, &nameless)).is_err() {
            self.end(Duration::ZERO);
        }
    }

    fn end(&self, took: Duration) {
        *self.tally.lock() = None;
        self.is_on.store(false, Ordering::Relaxed);
        self.rest(took);
        self.is_running.store(false, Ordering::Release);
    }

    /// What counts of a file becomes more or less, by `change`. Its group is locked.
    pub(super) fn follow(&self, file: Identity, before: u64, after: u64, change: impl FnOnce()) {
        // Whoever came by the file had its group locked, and the tally begun.
        if !self.is_on.load(Ordering::Relaxed) {
            return change();
        }
        let mut tally = self.tally.lock();
        change();
        if let Some(tally) = &mut *tally
            && tally.has(file)
        {
            tally.bytes = tally.bytes.saturating_add(after).saturating_sub(before);
        }
    }

    /// Adds so many bytes of a file that is come by. Its group is locked.
    pub(super) fn add(&self, file: Identity, bytes: u64) {
        if let Some(tally) = &mut *self.tally.lock() {
            tally.bytes += bytes;
            let (word, bit) = Tally::place(file);
            tally.bits[word] |= bit;
        }
    }

    /// True where a file is in the sum. Its group is locked.
    pub(super) fn has(&self, file: Identity) -> bool {
        self.tally.lock().as_ref().is_some_and(|tally| tally.has(file))
    }

    /// Files that were not come by are not known any more, for which `are_missing` is asked. Their group is locked.
    pub(super) fn forget(&self, mut are_missing: impl FnMut() -> bool) {
        if self.is_on.load(Ordering::Relaxed) && are_missing() {
            self.tally.lock().iter_mut().for_each(|tally| tally.is_partial = true);
        }
    }

    /// To be held while a directory is moved.
    pub(super) fn move_directory(&self) -> DirectoryMove<'_> {
        self.moves_begun.fetch_add(1, Ordering::SeqCst);
        DirectoryMove(self)
    }

    /// All that is known of a group is in the sum. It is locked.
    pub(super) fn end_group(&self, group: usize) {
        if let Some(tally) = &mut *self.tally.lock() {
            tally.groups |= 1 << group;
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.recount.end(self.began.elapsed());
    }
}

impl Drop for DirectoryMove<'_> {
    fn drop(&mut self) {
        self.0.moves_ended.fetch_add(1, Ordering::SeqCst);
    }
}

impl Tally {
    fn place(file: Identity) -> (usize, u64) {
        let hash = (file.file ^ file.volume.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let bit = (hash >> 32) as usize % BITS;
        (bit / 64, 1 << (bit % 64))
    }

    fn has(&self, file: Identity) -> bool {
        let (word, bit) = Tally::place(file);
        self.groups & 1 << (file.file % GROUPS as u64) != 0 || self.bits[word] & bit != 0
    }
}

/// Counts anew, here. Gives up where the share goes.
fn recount(fence: &Weak<Fence>, nameless: &Nameless) {
    if fence.strong_count() > 0 {
        count(fence, nameless, |file, stat| nameless.come_by(file, stat));
    }
}

/// The same with what is done for each name of a file.
fn count(fence: &Weak<Fence>, nameless: &Nameless, each: impl FnMut(Identity, &Statx)) {
    let recount = &nameless.recount;
    let _running = Running { recount, began: Instant::now() };
    let moves_ended = recount.moves_ended.load(Ordering::SeqCst);
    nameless.begin_round();
    *recount.tally.lock() = Some(Tally { bits: vec![0; BITS / 64], groups: 0, bytes: 0, is_partial: false });
    recount.is_on.store(true, Ordering::Relaxed);
    let Some(missed) = walk(|step| fence.upgrade().map(|fence| open(&fence, step)), each) else { return };
    nameless.end_round();
    let has_moved = recount.moves_begun.load(Ordering::SeqCst) != moves_ended;
    if let Some(tally) = &*recount.tally.lock() {
        if missed.lost > 0 || has_moved || tally.is_partial {
            nameless.raise_used(tally.bytes);
        } else {
            nameless.set_used(tally.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fd::AsFd;
    use rustix::fs::{Mode, OFlags};
    use rustix::io::Errno;

    use super::*;
    use crate::directory::calls::failing::{Fail, during};
    use crate::directory::nameless::Hold;
    use crate::directory::{DirectoryOptions, DirectoryStore, calls};
    use crate::{Destination, Kind, Name, NewNode, Replace, Resolved, SharePath, Store, Use};

    const QUOTA: u64 = 1 << 30;
    const THREE: [&str; 3] = ["one", "two", "three"];
    const NEW: NewNode<'static> =
        NewNode { kind: Kind::File, attributes: 0x22, security: Some(&[1; 1500]), owner: None };

    fn store() -> (tempfile::TempDir, DirectoryStore) {
        let folder = tempfile::tempdir().unwrap();
        let options = DirectoryOptions { quota_bytes: Some(QUOTA), ..DirectoryOptions::default() };
        let store = DirectoryStore::open(folder.path(), options).unwrap();
        (folder, store)
    }

    fn counted(store: &DirectoryStore) -> u64 {
        QUOTA - store.space().unwrap().free_bytes
    }

    /// What a store that is opened now counts.
    fn there(folder: &tempfile::TempDir) -> u64 {
        let options = DirectoryOptions { quota_bytes: Some(QUOTA), ..DirectoryOptions::default() };
        counted(&DirectoryStore::open(folder.path(), options).unwrap())
    }

    fn now(store: &DirectoryStore) {
        let volume = store.volume();
        recount(&Arc::downgrade(&volume.fence), volume.nameless().unwrap());
    }

    #[test]
    fn what_other_programs_did_is_counted_in_the_end() {
        let (folder, store) = store();
        let place = |name: &str| folder.path().join(name);
        let path = |name: &str| SharePath::parse(name).unwrap();
        let known = store.create(&path("known"), NEW).unwrap();
        known.write_at(&[1; 50_000], 0).unwrap();
        let nameless = store.create(&path("nameless"), NEW).unwrap();
        nameless.write_at(&[1; 50_000], 0).unwrap();
        drop(store.create(&path("closed"), NEW).unwrap());
        drop(store.create(&path("gone"), NEW).unwrap());
        fs::create_dir(place("folder")).unwrap();
        fs::write(place("folder/new"), [1; 100_000]).unwrap();
        fs::hard_link(place("folder/new"), place("again")).unwrap();
        fs::write(place("closed"), [1; 100_000]).unwrap();
        for name in ["gone", "nameless"] {
            fs::remove_file(place(name)).unwrap();
        }
        for _ in 0..2 {
            now(&store);
            let without_name = nameless.metadata().unwrap().allocated;
            assert_eq!(counted(&store), there(&folder) + without_name);
        }
        drop((known, nameless));
        assert_eq!(counted(&store), there(&folder));
    }

    #[test]
    fn what_is_counted_is_right_after_files_came_and_went_while_they_were_counted() {
        let (folder, store) = store();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for thread in 0..3 {
                let (store, is_over) = (&store, &is_over);
                threads.spawn(move || {
                    for round in 0..200 {
                        let path = SharePath::parse(&format!("file{thread}-{}", round % 7)).unwrap();
                        let node = match store.resolve(&path, Use::ReadWrite).unwrap() {
                            Resolved::Found { node, .. } => node,
                            Resolved::Missing { .. } => store.create(&path, NEW).unwrap(),
                        };
                        let held = node.metadata().unwrap().length;
                        node.write_at(&[1; 10_000], held).unwrap();
                        if round % 3 == 0 {
                            store.remove(&path, node.identity()).unwrap();
                            node.write_at(&[1; 10_000], held + 10_000).unwrap();
                        }
                    }
                    is_over.store(true, Ordering::Relaxed);
                });
            }
            while !is_over.load(Ordering::Relaxed) {
                now(&store);
            }
        });
        // What got the number of a file that went may have been come by twice.
        now(&store);
        assert_eq!(counted(&store), there(&folder));
    }

    /// Makes three directories with a file each, and in the root a file of so many bytes that other programs remove then: so many too many count.
    fn store_that_counts_too_much() -> (tempfile::TempDir, DirectoryStore) {
        let (folder, store) = store();
        for name in THREE {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("file"), [1; 100_000]).unwrap();
        }
        fs::write(folder.path().join("gone"), [1; 100_000]).unwrap();
        now(&store);
        fs::remove_file(folder.path().join("gone")).unwrap();
        assert!(counted(&store) > there(&folder));
        (folder, store)
    }

    /// Counts with what `change` does after each name of a file.
    fn count_with(store: &DirectoryStore, mut change: impl FnMut(Identity)) {
        let volume = store.volume();
        let nameless = volume.nameless().unwrap();
        count(&Arc::downgrade(&volume.fence), nameless, |file, stat| {
            nameless.come_by(file, stat);
            change(file);
        });
    }

    /// Counts, and when two of the three directories are come by has something moved from the third to the first.
    fn count_while_moving(folder: &tempfile::TempDir, store: &DirectoryStore, change: impl Fn(&str, &str)) {
        let of = |name: &str| fs::metadata(folder.path().join(name).join("file")).unwrap().ino();
        let files = THREE.map(|name| (name, of(name)));
        let mut found = Vec::new();
        count_with(store, |file| {
            found.extend(files.iter().find(|(_, number)| *number == file.file).map(|(name, _)| *name));
            if let [first, second] = *found
                && file.file == of(second)
            {
                change(first, THREE.iter().find(|name| ![first, second].contains(*name)).unwrap());
            }
        });
        assert_eq!(found.len(), 2, "what was moved was not come by");
    }

    fn rename(store: &DirectoryStore, (from, name): (&str, &str), (to, new): (&str, &str)) {
        let find = |path: &str| match store.resolve(&SharePath::parse(path).unwrap(), Use::Metadata).unwrap() {
            Resolved::Found { node, .. } => node,
            Resolved::Missing { .. } => panic!("{path} is there"),
        };
        let moved = find(format!("{from}\\{name}").trim_start_matches('\\')).identity();
        let (from, to, new) = (find(from), find(to), Name::new(new).unwrap());
        let to = Destination { directory: &*to, name: &new };
        from.names().unwrap().rename(&Name::new(name).unwrap(), moved, to, Replace::No).unwrap();
    }

    #[test]
    fn directories_that_are_moved_while_they_are_counted_make_nothing_count_less() {
        let (folder, store) = store_that_counts_too_much();
        let before = counted(&store);
        count_while_moving(&folder, &store, |first, third| {
            rename(&store, ("", third), (first, "moved"));
        });
        assert_eq!(counted(&store), before);
        now(&store);
        assert_eq!(counted(&store), there(&folder));
    }

    #[test]
    fn files_that_are_moved_and_forgotten_while_all_are_counted_make_nothing_count_less() {
        let (folder, store) = store_that_counts_too_much();
        let before = counted(&store);
        let volume = store.volume();
        count_while_moving(&folder, &store, |first, third| {
            rename(&store, (third, "file"), (first, "moved"));
            for index in 0..80_000 {
                let file = fs::File::create(folder.path().join(first).join(index.to_string())).unwrap();
                Hold::of(volume.nameless().unwrap(), file.as_fd()).unwrap().end(file.as_fd());
            }
        });
        assert_eq!(counted(&store), before);
        now(&store);
        assert_eq!(counted(&store), there(&folder));
    }

    #[test]
    fn a_count_during_which_a_call_fails_makes_nothing_count_less() {
        let (folder, store) = store_that_counts_too_much();
        let before = counted(&store);
        for at in 0.. {
            let ((), has_failed) = during(Fail::One(at), Errno::IO, || now(&store));
            if !has_failed {
                assert!(at > 10);
                break;
            }
            assert_eq!(counted(&store), before, "{at}");
        }
        assert_eq!(counted(&store), there(&folder));
    }

    #[test]
    fn what_lies_deeper_than_a_path_can_say_counts() {
        const LEVELS: usize = 100;
        let (folder, store) = store();
        let name = "n".repeat(200);
        let mut below = calls::open(folder.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let mut held = 0;
        for _ in 0..LEVELS {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            let mut file = fs::File::from(calls::openat(&below, "file", flags, Mode::RWXU).unwrap());
            file.write_all(&[1; 10_000]).unwrap();
            file.sync_all().unwrap();
            held += file.metadata().unwrap().blocks() * 512;
            calls::mkdirat(&below, &name, Mode::RWXU).unwrap();
            below = calls::openat(&below, &name, OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        for _ in 0..2 {
            now(&store);
            assert!(counted(&store) >= held);
            assert_eq!(counted(&store), there(&folder));
        }
    }

    #[test]
    fn a_count_that_panics_has_ended() {
        let (_folder, store) = store_that_counts_too_much();
        let volume = store.volume();
        let recount = &volume.nameless().unwrap().recount;
        recount.is_running.store(true, Ordering::Relaxed);
        let panics = || count_with(&store, |_| panic!("as the test wants"));
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert!(!recount.is_running.load(Ordering::Relaxed) && !recount.is_on.load(Ordering::Relaxed));
        assert!(recount.tally.lock().is_none());
    }

    #[test]
    fn a_count_is_due_after_a_rest_and_one_at_a_time() {
        let (_folder, store) = store();
        let volume = store.volume();
        let nameless = volume.nameless().unwrap();
        let recount = &nameless.recount;
        let nobody = Weak::new();
        recount.begin_if_due(&nobody, nameless);
        assert!(!recount.is_running.load(Ordering::Relaxed));
        recount.due.store(0, Ordering::Relaxed);
        recount.begin_if_due(&nobody, nameless);
        assert!(recount.is_running.load(Ordering::Relaxed));
        recount.end(Duration::from_secs(3600));
        assert!(recount.due.load(Ordering::Relaxed) >= 20 * 3_600_000);
    }
}
