//! The stores that every test runs against, and short ways to use them.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use store::{
    Belief, CacheBounds, CachedStore, Cursor, DelayedStore, DirectoryOptions, DirectoryStore, Entry, Error, Extent,
    Kind, Known, Metadata, Name, NewNode, Node, RamStore, Replace, Resolved, SharePath, Store, Use, Waits,
};
use tempfile::TempDir;

/// Runs every behaviour against every store.
macro_rules! behaviours {
    ($($name:ident)*) => {
        mod in_memory { $(#[test] fn $name() { super::$name(&crate::common::ram()); })* }
        mod in_a_directory { $(#[test] fn $name() { super::$name(&crate::common::directory()); })* }
        mod in_a_memory_directory { $(#[test] fn $name() { super::$name(&crate::common::memory_directory()); })* }
        mod beside_files { $(#[test] fn $name() { super::$name(&crate::common::beside()); })* }
        mod far_away { $(#[test] fn $name() { super::$name(&crate::common::far()); })* }
        mod cached { $(#[test] fn $name() { super::$name(&crate::common::cached()); })* }
        mod cached_in_memory { $(#[test] fn $name() { super::$name(&crate::common::cached_in_memory()); })* }
        mod cached_far_away { $(#[test] fn $name() { super::$name(&crate::common::cached_far()); })* }
    };
}

/// A store under test and the folder behind it, if there is one.
pub(crate) struct Disk {
    pub(crate) store: Box<dyn Store>,
    pub(crate) folder: Option<TempDir>,
}

pub(crate) const RAM_BYTES: u64 = 64 << 20;

pub(crate) fn ram() -> Disk {
    Disk { store: Box::new(RamStore::new(RAM_BYTES)), folder: None }
}

/// A RAM disk behind a distance, which is waited for no longer than it has to be.
pub(crate) fn far() -> Disk {
    let store = DelayedStore::with_wait(Arc::new(RamStore::new(RAM_BYTES)), || {});
    Disk { store: Box::new(store), folder: None }
}

pub(crate) fn directory() -> Disk {
    directory_in(&std::env::temp_dir(), DirectoryOptions::default())
}

/// What is behind a cache that keeps all that it is asked for.
pub(crate) fn behind_cache(disk: Disk) -> Disk {
    let bounds = CacheBounds { bytes: 8 << 20, descriptors: 64, highest_descriptor: i32::MAX, learns_at_once: true };
    let store = CachedStore::new(Arc::from(disk.store), Known::new(bounds), Belief::Lasting);
    Disk { store: Box::new(store), folder: disk.folder }
}

pub(crate) fn cached() -> Disk {
    behind_cache(directory())
}

pub(crate) fn cached_in_memory() -> Disk {
    behind_cache(memory_directory())
}

pub(crate) fn cached_far() -> Disk {
    behind_cache(far())
}

/// A directory on tmpfs, where this machine has one.
pub(crate) fn memory_directory() -> Disk {
    let shm = PathBuf::from("/dev/shm");
    let place = if shm.is_dir() { shm } else { std::env::temp_dir() };
    directory_in(&place, DirectoryOptions::default())
}

pub(crate) fn beside() -> Disk {
    let options = DirectoryOptions { attributes_beside_files: true, ..DirectoryOptions::default() };
    directory_in(&std::env::temp_dir(), options)
}

pub(crate) fn directory_in(place: &Path, options: DirectoryOptions) -> Disk {
    let folder = tempfile::tempdir_in(place).unwrap();
    let store = DirectoryStore::open(folder.path(), options).unwrap();
    Disk { store: Box::new(store), folder: Some(folder) }
}

/// What the reserved folder holds besides the lock of whoever serves the folder.
pub(crate) fn kept_beside(disk: &Disk) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(disk.folder().join(".multilane")).unwrap();
    entries.map(|entry| entry.unwrap().path()).filter(|path| !path.ends_with("lock")).collect()
}

pub(crate) fn path(text: &str) -> SharePath {
    SharePath::parse(text).unwrap()
}

pub(crate) fn new(kind: Kind) -> NewNode<'static> {
    NewNode { kind, attributes: if kind == Kind::File { 0x20 } else { 0 }, security: None, owner: None }
}

/// All that a directory lists.
pub(crate) fn entries(node: &dyn Node) -> Result<Vec<Entry>, Error> {
    let (mut cursor, mut all) = (Cursor::default(), Vec::new());
    let mut take = |entry| {
        all.push(entry);
        ControlFlow::Continue(())
    };
    while node.names()?.list(&mut cursor, &mut take)? {}
    Ok(all)
}

/// The same, of which what is in memory is told from there.
pub(crate) fn all_entries(node: &dyn Node) -> Result<Vec<Entry>, Error> {
    let mut all = Vec::new();
    let is_all = node.names()?.list_all(64, &mut |entry| {
        all.push(entry);
        ControlFlow::Continue(())
    })?;
    assert!(is_all, "{} names and more", all.len());
    Ok(all)
}

/// Reads without waiting, or waits for what is too far away for that.
pub(crate) fn read_at_once(node: &dyn Node, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
    match node.try_read_at(buffer, offset) {
        Err(Error::WouldBlock) if node.waits() == Waits::Always => node.read_at(buffer, offset),
        read => read,
    }
}

/// The same for looking at metadata.
pub(crate) fn look_at_once(node: &dyn Node) -> Result<Metadata, Error> {
    match node.try_metadata() {
        Err(Error::WouldBlock) if node.waits() == Waits::Always => node.metadata(),
        known => known,
    }
}

impl Disk {
    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    /// How many files and folders are in the reserved folder.
    pub(crate) fn kept(&self) -> usize {
        std::fs::read_dir(self.folder().join(".multilane")).map_or(0, Iterator::count)
    }

    /// The same folder served anew.
    pub(crate) fn reopen(&mut self, options: DirectoryOptions) {
        self.store = Box::new(DirectoryStore::open(self.folder(), options).unwrap());
    }

    pub(crate) fn file(&self, text: &str, data: &[u8]) -> Arc<dyn Node> {
        let node = self.store.create(&path(text), new(Kind::File)).unwrap();
        node.write_at(data, 0).unwrap();
        node
    }

    pub(crate) fn directory(&self, text: &str) -> Arc<dyn Node> {
        self.store.create(&path(text), new(Kind::Directory)).unwrap()
    }

    pub(crate) fn find(&self, text: &str) -> Result<(Arc<dyn Node>, String), Error> {
        self.find_for(text, Use::ReadWrite)
    }

    pub(crate) fn find_for(&self, text: &str, usage: Use) -> Result<(Arc<dyn Node>, String), Error> {
        match self.store.resolve(&path(text), usage)? {
            Resolved::Found { node, path } => Ok((node, path.as_str().to_owned())),
            Resolved::Missing { .. } => Err(Error::NotFound),
        }
    }

    pub(crate) fn node(&self, text: &str) -> Arc<dyn Node> {
        self.find(text).unwrap().0
    }

    pub(crate) fn names(&self, text: &str) -> Vec<String> {
        let entries = entries(&*self.node(text)).unwrap();
        let mut names: Vec<String> = entries.iter().map(|entry| entry.name.as_str().to_owned()).collect();
        names.sort();
        names
    }

    pub(crate) fn rename(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        let identity = self.find_for(from, Use::Metadata)?.0.identity();
        self.store.rename(&path(from), &path(to), identity, replace)
    }

    pub(crate) fn link(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        let identity = self.find_for(from, Use::Metadata)?.0.identity();
        self.store.link(&path(from), &path(to), identity, replace)
    }

    pub(crate) fn remove(&self, text: &str) -> Result<(), Error> {
        let identity = self.find_for(text, Use::Metadata)?.0.identity();
        self.store.remove(&path(text), identity)
    }
}

pub(crate) fn read_all(node: &dyn Node) -> Vec<u8> {
    let mut data = vec![0; node.metadata().unwrap().length as usize];
    let count = node.read_at(&mut data, 0).unwrap();
    assert_eq!(count, data.len());
    data
}

pub(crate) fn entry_metadata(node: &dyn Node, name: &str) -> Result<Metadata, Error> {
    node.names()?.entry_metadata(&Name::new(name).unwrap())
}

/// A file system in memory, mounted somewhere.
pub(crate) struct Mounted(pub(crate) PathBuf);

impl Mounted {
    /// `None` where we may not mount.
    pub(crate) fn new(place: &Path, options: &str) -> Option<Mounted> {
        Mounted::of("tmpfs", place, options)
    }

    /// The same of a type: `ramfs` has no extended attributes.
    pub(crate) fn of(system: &str, place: &Path, options: &str) -> Option<Mounted> {
        fs::create_dir_all(place).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", system, "-o", options, system]).arg(place).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Mounted(place.to_owned()))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// All ranges that hold data, however many calls it takes.
pub(crate) fn all_extents(node: &dyn Node, offset: u64, length: u64) -> Vec<Extent> {
    let (mut at, end, mut all) = (offset, offset.saturating_add(length), Vec::<Extent>::new());
    loop {
        let found = node.extents(at, end - at, 3).unwrap();
        for extent in found.ranges {
            match all.last_mut() {
                Some(last) if last.offset + last.length == extent.offset => last.length += extent.length,
                _ => all.push(extent),
            }
        }
        match found.next {
            Some(next) => at = next,
            None => return all,
        }
    }
}

/// A folder in memory.
pub(crate) fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

/// How much is kept in memory by a cache that learns what is asked for again.
pub(crate) fn bounds(bytes: u64) -> CacheBounds {
    CacheBounds { bytes, descriptors: 64, highest_descriptor: i32::MAX, learns_at_once: false }
}

/// A folder behind a cache.
pub(crate) fn behind(known: &Arc<Known>, place: &Path) -> CachedStore {
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(place, DirectoryOptions::default()).unwrap());
    CachedStore::new(store, Arc::clone(known), Belief::default())
}

pub(crate) fn open(store: &dyn Store, at: &str, usage: Use) -> Arc<dyn Node> {
    let Resolved::Found { node, .. } = store.resolve(&path(at), usage).unwrap() else { panic!("no {at}") };
    node
}

/// What is listed of the directory `d`, by name.
pub(crate) fn listed(store: &dyn Store) -> Vec<(String, Metadata)> {
    listed_of(&*open(store, "d", Use::Read))
}

/// What is listed of a directory that is open, by name.
pub(crate) fn listed_of(node: &dyn Node) -> Vec<(String, Metadata)> {
    let told = |entry: Entry| match node.names().unwrap().entry_metadata(&entry.name) {
        Ok(known) => Some((entry.name.as_str().to_owned(), known)),
        Err(Error::NotFound) => None,
        Err(error) => panic!("{}: {error}", entry.name.as_str()),
    };
    let mut listed: Vec<_> = all_entries(node).unwrap().into_iter().filter_map(told).collect();
    listed.sort_by(|one, other| one.0.cmp(&other.0));
    listed
}

/// Chance from a seed.
pub(crate) struct Numbers(SplitMix64);

impl Numbers {
    pub(crate) fn of(seed: u64) -> Self {
        Numbers(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }
}

/// Ends what others do when it is dropped, though a round panics.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Tries rounds for two seconds, or `MULTILANE_SECONDS=N`, while so many others do something all the time.
pub(crate) fn try_while_others(others: usize, do_something: impl Fn(usize) + Sync, round: impl FnMut(u64)) {
    let asked = std::env::var("MULTILANE_SECONDS").ok().map(|asked| asked.parse().unwrap());
    let time = Duration::from_secs(asked.unwrap_or(2));
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for number in 0..others {
            let (has_ended, do_something) = (&has_ended, &do_something);
            scope.spawn(move || {
                while !has_ended.load(Ordering::Relaxed) {
                    do_something(number);
                }
            });
        }
        let _ends = Ends(&has_ended);
        let begun = Instant::now();
        (1..).take_while(|_| begun.elapsed() < time).for_each(round);
    });
}

/// Another program has two names change places.
#[allow(clippy::disallowed_methods, reason = "no signal interrupts it on a local disk")]
pub(crate) fn exchange(one: &Path, other: &Path) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, rustix::fs::RenameFlags::EXCHANGE)
}

pub(crate) fn run(command: &str, arguments: &[&str]) {
    let status = Command::new(command).args(arguments).status().unwrap();
    assert!(status.success(), "{command} {arguments:?}");
}

/// Says to a process that it is the one in which a test is run again.
const APART: &str = "MULTILANE_TEST_APART";

/// True in a process of its own, in which a test is run again by a command.
pub(crate) fn is_apart(test: &str, by: &[&str]) -> bool {
    if std::env::var_os(APART).is_some() {
        return true;
    }
    let mut again = Command::new(by[0]);
    again.args(&by[1..]).arg(std::env::current_exe().unwrap()).args([test, "--exact"]);
    let output = again.env(APART, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// The same where that takes root: without root the test is not run.
fn is_apart_by_root(test: &str, by: &[&str]) -> bool {
    if std::env::var_os(APART).is_none() && !rustix::process::geteuid().is_root() {
        eprintln!("{test} is left out: it takes root");
        return false;
    }
    is_apart(test, by)
}

/// True in a mount namespace of its own.
pub(crate) fn is_in_namespace(test: &str) -> bool {
    is_apart_by_root(test, &["unshare", "-m", "--propagation", "private"])
}

/// True where it is run by a user who may do nothing in particular.
pub(crate) fn is_by_nobody(test: &str) -> bool {
    is_apart_by_root(test, &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"])
}

/// An overlay in memory: where it lies, its upper directory, which is filled before, and where it is mounted.
pub(crate) fn overlay(fill: impl FnOnce(&Path)) -> (TempDir, PathBuf, PathBuf) {
    let place = memory();
    let at = |name: &str| {
        let path = place.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    let (lower, upper, work, merged) = (at("lower"), at("upper"), at("work"), at("merged"));
    fill(&upper);
    let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    run("mount", &["-t", "overlay", "overlay", "-o", &options, merged.to_str().unwrap()]);
    (place, upper, merged)
}

/// A store far away, and how often it was asked something.
pub(crate) fn counted_far_away(bounds: CacheBounds, belief: Belief) -> (CachedStore, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let ask = move || {
        count.fetch_add(1, Ordering::SeqCst);
    };
    let far = DelayedStore::with_wait(Arc::new(RamStore::new(64 << 20)), ask);
    (CachedStore::new(Arc::new(far), Known::new(bounds), belief), asked)
}
