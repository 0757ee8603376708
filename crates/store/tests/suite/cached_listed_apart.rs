//! Listings that are kept in memory where something is short, large or changes meanwhile.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::{
    Belief, CacheBounds, CachedStore, Cursor, DirectoryOptions, DirectoryStore, Known, Name, Node, Resolved, Store, Use,
};
use tempfile::TempDir;

use crate::common::{all_entries, path};

const BOUNDS: CacheBounds =
    CacheBounds { bytes: 8 << 20, descriptors: 64, highest_descriptor: i32::MAX, learns_at_once: false };
/// How long a race goes on.
const RACE: Duration = Duration::from_secs(3);

fn memory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn behind(place: &Path, belief: Belief) -> CachedStore {
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(place, DirectoryOptions::default()).unwrap());
    CachedStore::new(store, Known::new(BOUNDS), belief)
}

fn open(store: &dyn Store, at: &str, usage: Use) -> Arc<dyn Node> {
    let Resolved::Found { node, .. } = store.resolve(&path(at), usage).unwrap() else { panic!("no {at}") };
    node
}

/// True in a process of its own, in which the test is done; it is started `by` a program. False where it was not in one, and has been done.
fn is_apart(test: &str, by: &[&str]) -> bool {
    const INSIDE: &str = "MULTILANE_TEST_APART";
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let name = format!("cached_listed_apart::{test}");
    let mut again = Command::new(by[0]);
    again.args(&by[1..]).arg(std::env::current_exe().unwrap()).args([&name, "--exact"]);
    let output = again.env(INSIDE, "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}{}", String::from_utf8_lossy(&output.stderr));
    false
}

#[test]
fn a_listing_leaves_no_name_out_where_no_descriptor_is_free() {
    if !is_apart("a_listing_leaves_no_name_out_where_no_descriptor_is_free", &["env"]) {
        return;
    }
    let place = memory();
    fs::create_dir(place.path().join("d")).unwrap();
    (0..40).for_each(|number| fs::write(place.path().join(format!("d/{number}")), "data").unwrap());
    let store = behind(place.path(), Belief::default());
    for _ in 0..4 {
        drop(all_entries(&*open(&store, "d", Use::Read)).unwrap());
    }
    let node = open(&store, "d", Use::Read);
    let names = all_entries(&*node).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), ..getrlimit(Resource::Nofile) }).unwrap();
    let held: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let told = names.iter().filter(|entry| node.names().unwrap().entry_metadata(&entry.name).is_ok()).count();
    drop(held);
    assert_eq!(told, 40);
}

/// Lists a directory of 6,000 names piece by piece, and removes what was shown before the next piece: how many names were shown.
fn shown_while_emptied(place: &Path, store: &dyn Store) -> usize {
    let directory = place.join("d");
    for number in 0..6_000 {
        drop(File::create(directory.join(format!("some name that is long {number:05}"))).unwrap());
    }
    (0..3).for_each(|_| drop(open(store, "d", Use::Read)));
    let node = open(store, "d", Use::Read);
    let (mut cursor, mut shown) = (Cursor::default(), BTreeSet::new());
    let mut more = true;
    while more {
        let mut piece = Vec::new();
        let mut take = |entry: store::Entry| {
            piece.push(entry.name.as_str().to_owned());
            ControlFlow::Continue(())
        };
        more = node.names().unwrap().list(&mut cursor, &mut take).unwrap();
        piece.iter().for_each(|name| fs::remove_file(directory.join(name)).unwrap());
        shown.extend(piece);
    }
    let left: Vec<_> = fs::read_dir(&directory).unwrap().map(|left| left.unwrap().path()).collect();
    left.iter().for_each(|left| fs::remove_file(left).unwrap());
    shown.len()
}

#[test]
fn no_name_is_left_out_of_a_large_directory_of_which_names_go() {
    const TEST: &str = "no_name_is_left_out_of_a_large_directory_of_which_names_go";
    if !rustix::process::geteuid().is_root() {
        return eprintln!("{TEST} is left out: it takes root to mount something");
    }
    if !is_apart(TEST, &["unshare", "-m", "--propagation", "private"]) {
        return;
    }
    let place = memory();
    let at = |name: &str| {
        let path = place.path().join(name);
        fs::create_dir(&path).unwrap();
        path
    };
    // A file system that knows its place by an open directory's position alone: a directory that two have is merged each time it is opened.
    let (lower, upper, work, merged) = (at("lower"), at("upper"), at("work"), at("merged"));
    let shares = [("believed", Belief::default()), ("exclusive", Belief::Lasting)];
    for (layer, (share, _)) in [&lower, &upper].into_iter().flat_map(|layer| shares.map(|share| (layer, share))) {
        fs::create_dir_all(layer.join(share).join("d")).unwrap();
    }
    let options = format!("lowerdir={},upperdir={},workdir={}", lower.display(), upper.display(), work.display());
    let mounted = Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&merged).status();
    assert!(mounted.unwrap().success());
    let shown = shares.map(|(share, belief)| {
        let place = merged.join(share);
        shown_while_emptied(&place, &behind(&place, belief))
    });
    assert!(Command::new("umount").arg("-l").arg(&merged).status().unwrap().success());
    assert_eq!(shown, [6_000; 2]);
}

#[test]
fn a_look_that_began_before_the_server_wrote_is_not_kept() {
    let place = memory();
    fs::create_dir(place.path().join("d")).unwrap();
    let at = place.path().join("d/f");
    fs::write(&at, "").unwrap();
    let store = behind(place.path(), Belief::default());
    let listed = || {
        let node = open(&store, "d", Use::Read);
        drop(all_entries(&*node).unwrap());
        node
    };
    (0..4).for_each(|_| drop(listed()));
    let (ends, begun, name) = (AtomicBool::new(false), Instant::now(), Name::new("f").unwrap());
    let file = File::options().write(true).open(&at).unwrap();
    let mut stale = None;
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let node = listed();
                while !ends.load(Ordering::Relaxed) {
                    let _ = node.names().unwrap().entry_metadata(&name);
                }
            });
        }
        let node = listed();
        let mut length = 0;
        while begun.elapsed() < RACE && stale.is_none() {
            for _ in 0..4 {
                open(&store, "d\\f", Use::ReadWrite).write_at(b"x", 0).unwrap();
            }
            for _ in 0..2 {
                length = length % 5_000 + 1;
                file.set_len(length).unwrap();
                let told = node.names().unwrap().entry_metadata(&name).unwrap().length;
                stale = stale.or((told != length).then_some((told, length)));
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    assert_eq!(stale, None, "what was told, and what it was");
}
