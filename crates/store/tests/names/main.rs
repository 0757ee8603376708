//! What it takes to keep many names in memory, and to find them there: `MULTILANE_NAMES` says how many. A process of its own, as its memory is
//! looked at.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use store::{
    Belief, CacheBounds, CachedStore, DelayedStore, Kind, Known, Name, NewNode, RamStore, Resolved, SharePath, Store,
    Use,
};

/// Names of the usual run.
const NAMES: usize = 50_000;
/// Names of each of many folders.
const SMALL: usize = 1_000;
/// What is charged for a name, and for the file that it leads to, at most.
const CHARGED_MAX: usize = 1_500;

fn new(kind: Kind) -> NewNode<'static> {
    NewNode { kind, attributes: 0, security: None, owner: None }
}

/// A store with so many folders of so many files, as far away as another machine, and how often it was asked.
fn far(folders: usize, files: usize) -> (DelayedStore, Arc<AtomicUsize>) {
    let disk = RamStore::new(16 << 30);
    for folder in 0..folders {
        let path = SharePath::parse(&format!("folder {folder}")).unwrap();
        let folder = disk.create(&path, new(Kind::Directory)).unwrap();
        let names = folder.names().unwrap();
        for name in self::names(files) {
            names.create(&Name::new(&name).unwrap(), new(Kind::File)).unwrap();
        }
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let wait = move || {
        counted.fetch_add(1, Ordering::Relaxed);
    };
    (DelayedStore::with_wait(Arc::new(disk), wait), asked)
}

/// Bytes that this process has in memory.
fn resident() -> usize {
    let told = fs::read_to_string("/proc/self/status").unwrap();
    let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
}

/// The names of a folder's files.
fn names(files: usize) -> impl Iterator<Item = String> {
    (0..files).map(|file| format!("file {file}"))
}

/// Looks at each file by its path.
fn open(store: &dyn Store, folders: usize, files: usize) {
    for folder in 0..folders {
        for name in names(files) {
            let path = SharePath::parse(&format!("folder {folder}\\{name}")).unwrap();
            let Resolved::Found { node, .. } = store.resolve(&path, Use::Metadata).unwrap() else { panic!("{name}") };
            assert_eq!(node.metadata().unwrap().kind, Kind::File);
        }
    }
}

/// Looks at each name in its folder.
fn look(store: &dyn Store, folders: usize, files: usize) {
    for folder in 0..folders {
        let path = SharePath::parse(&format!("folder {folder}")).unwrap();
        let Resolved::Found { node, .. } = store.resolve(&path, Use::Read).unwrap() else { panic!("{folder} is gone") };
        for name in names(files) {
            let known = node.names().unwrap().entry_metadata(&Name::new(&name).unwrap()).unwrap();
            assert_eq!(known.kind, Kind::File);
        }
    }
}

/// What keeping names in memory takes.
struct Cost {
    /// Bytes for each that the process had more than before. What it was given once it keeps: that is true of the first alone.
    grown: usize,
    charged: usize,
    /// Microseconds to look at one.
    each: f64,
}

/// Keeps all names of so many folders in memory.
fn kept(folders: usize, files: usize) -> Cost {
    let (names, (far, asked)) = (folders * files, far(folders, files));
    let bytes = 4 << 30;
    let known = Known::new(CacheBounds { bytes, descriptors: 64, ..CacheBounds::default() });
    let store = CachedStore::new(Arc::new(far), Arc::clone(&known), Belief::Lasting);
    let before = resident();
    open(&store, folders, files);
    let (grown, charged) = (resident().saturating_sub(before) / names, usize::try_from(known.bytes()).unwrap() / names);
    asked.store(0, Ordering::Relaxed);
    let begun = Instant::now();
    look(&store, folders, files);
    let each = begun.elapsed().as_secs_f64() * 1e6 / names as f64;
    let calls = asked.load(Ordering::Relaxed);
    println!(
        "{folders} folders of {files}: {charged} bytes charged for each name, {each:.2} us to look at one, {calls} calls of the store"
    );
    assert!(charged <= CHARGED_MAX, "{charged} bytes");
    // Of the directories, not of the names in them.
    assert!(calls <= 8 * folders, "{calls}");
    Cost { grown, charged, each }
}

#[test]
fn names_in_memory_take_no_more_than_is_charged_and_are_found_there() {
    let count = std::env::var("MULTILANE_NAMES").map_or(NAMES, |names| names.parse().unwrap());
    let many = kept(count / SMALL, SMALL);
    println!("{} bytes of memory for each", many.grown);
    assert!(many.grown <= many.charged, "{} bytes more in memory, and {} charged for", many.grown, many.charged);
    println!("in one folder it takes {:.2} times as long as in small ones", kept(1, count).each / many.each);
}
