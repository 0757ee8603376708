//! What is kept in memory of what a directory lists, and what that tells.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use store::{
    Belief, CacheBounds, CachedStore, DirectoryOptions, DirectoryStore, Error, Known, Metadata, Resolved, Store, Time,
    Use,
};
use tempfile::TempDir;

use crate::common::{entries, path};

const FILES: usize = 40;

fn bounds(bytes: u64) -> CacheBounds {
    CacheBounds { bytes, descriptors: 64, highest_descriptor: i32::MAX, learns_at_once: false }
}

/// A folder in memory with a directory that has files and directories in it.
fn folder() -> TempDir {
    let place = tempfile::tempdir_in("/dev/shm").unwrap();
    fs::create_dir(place.path().join("d")).unwrap();
    for number in 0..FILES {
        fs::write(place.path().join(format!("d/file {number}")), "data").unwrap();
        fs::create_dir(place.path().join(format!("d/directory {number}"))).unwrap();
    }
    place
}

fn behind(known: &Arc<Known>, place: &Path) -> CachedStore {
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(place, DirectoryOptions::default()).unwrap());
    CachedStore::new(store, Arc::clone(known), Belief::default())
}

/// What is listed of the directory, by name.
fn listed(store: &dyn Store) -> Vec<(String, Metadata)> {
    let Resolved::Found { node, .. } = store.resolve(&path("d"), Use::Read).unwrap() else { panic!("no directory") };
    let told = |entry: store::Entry| match node.names().unwrap().entry_metadata(&entry.name) {
        Ok(known) => Some((entry.name.as_str().to_owned(), known)),
        Err(Error::NotFound) => None,
        Err(error) => panic!("{error}"),
    };
    let mut listed: Vec<_> = entries(&*node).unwrap().into_iter().filter_map(told).collect();
    listed.sort_by(|one, other| one.0.cmp(&other.0));
    listed
}

/// Sets the time of writing of a directory, which the kernel does not tell of: who tells of it has asked.
fn touch(place: &Path, number: usize) -> Time {
    let seconds = 1_000_000 + number as u64;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::open(place.join(format!("d/directory {number}"))).unwrap().set_modified(time).unwrap();
    Time::from_unix(seconds as i64, 0)
}

fn written(listed: &[(String, Metadata)], number: usize) -> Time {
    let name = format!("directory {number}");
    listed.iter().find(|(listed, _)| *listed == name).unwrap().1.write
}

#[test]
fn a_listing_is_told_from_memory_from_the_fourth_time_on() {
    let place = folder();
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    // The directory itself is known from the second time on.
    for number in 0..3 {
        let time = touch(place.path(), number);
        assert_eq!(written(&listed(&store), number), time);
    }
    let time = touch(place.path(), 3);
    assert_ne!(written(&listed(&store), 3), time, "it was asked for");
    store.switch(false);
    assert_eq!(written(&listed(&store), 3), time);
}

#[test]
fn a_listing_keeps_nothing_open() {
    let place = folder();
    let known = Known::new(bounds(4 << 20));
    let store = behind(&known, place.path());
    (0..2).for_each(|_| drop(listed(&store)));
    let before = known.descriptors();
    listed(&store);
    // The root, and the directory.
    assert!(before <= 2 && known.descriptors() == before, "{before} and {}", known.descriptors());
}

#[test]
fn a_listing_has_nothing_go_that_was_known() {
    let place = folder();
    let known = Known::new(bounds(16 << 10));
    let (store, bare) = (behind(&known, place.path()), behind(&known, place.path()));
    bare.switch(false);
    let mut before = 0;
    for turn in 0..4 {
        assert_eq!(listed(&store).len(), 2 * FILES);
        assert_eq!(listed(&store), listed(&bare));
        assert!(known.bytes() >= before && known.bytes() <= 16 << 10, "{turn}: {} after {before}", known.bytes());
        before = known.bytes();
    }
    let known_before = (0..2 * FILES).filter(|number| *number < FILES).filter(|number| {
        let time = touch(place.path(), *number);
        written(&listed(&store), *number) != time
    });
    // Some, which were learned while there was room, and not all.
    let count = known_before.count();
    assert!(count > 0 && count < FILES, "{count}");
}

#[test]
fn what_another_program_does_is_seen_in_a_listing_that_is_known() {
    let place = folder();
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    (0..4).for_each(|_| drop(listed(&store)));
    let at = |name: &str| place.path().join("d").join(name);
    let length =
        |name: &str| listed(&store).into_iter().find(|(listed, _)| listed == name).map(|(_, known)| known.length);
    assert_eq!(length("file 1"), Some(4));
    fs::write(at("file 1"), "longer data").unwrap();
    assert_eq!(length("file 1"), Some(11));
    fs::remove_file(at("file 1")).unwrap();
    assert_eq!(length("file 1"), None);
    fs::write(at("file 1"), "new").unwrap();
    assert_eq!(length("file 1"), Some(3));
    fs::rename(at("file 2"), at("file 1")).unwrap();
    assert_eq!((length("file 1"), length("file 2")), (Some(4), None));
    fs::hard_link(at("file 3"), place.path().join("other")).unwrap();
    fs::write(place.path().join("other"), "by another name").unwrap();
    assert_eq!(length("file 3"), Some(15));
}
