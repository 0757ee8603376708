//! Directories that are too large for one piece of a listing, of which names go while they are listed: none that stays is left out.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use store::{Belief, CachedStore, Cursor, DirectoryOptions, DirectoryStore, Known, Node, Store, Use};

use crate::common::{Mounted, all_entries, behind, bounds, is_in_namespace, memory, open, overlay};

/// Several pieces, and not too many to be kept.
const FILES: usize = 3_000;

/// How many names are shown, each of which is removed between two pieces.
fn count_while_emptied(node: &dyn Node, directory: &Path) -> usize {
    let (mut cursor, mut seen) = (Cursor::default(), BTreeSet::new());
    loop {
        let mut piece = Vec::new();
        let mut take = |entry: store::Entry| {
            piece.push(entry.name.as_str().to_owned());
            ControlFlow::Continue(())
        };
        let more = node.names().unwrap().list(&mut cursor, &mut take).unwrap();
        for name in piece {
            fs::remove_file(directory.join(&name)).unwrap();
            assert!(seen.insert(name.clone()), "{name} is shown again");
        }
        if !more {
            return seen.len();
        }
    }
}

/// How many names of a directory in a folder are shown while it is emptied.
fn shown(place: &Path, store: &dyn Store) -> usize {
    let directory = place.join("d");
    let file = place.join("file");
    drop(File::create(&file).unwrap());
    // One file: some disks take long for many.
    let make = |number| fs::hard_link(&file, directory.join(format!("some name that is long {number:05}"))).unwrap();
    (0..FILES).for_each(make);
    // Once its names are known, who lists it has what is kept open of it.
    (0..3).for_each(|_| drop(open(store, "d", Use::Metadata)));
    (0..4).for_each(|_| drop(all_entries(&*open(store, "d", Use::Read)).unwrap()));
    let count = count_while_emptied(&*open(store, "d", Use::Read), &directory);
    fs::read_dir(&directory).unwrap().for_each(|left| fs::remove_file(left.unwrap().path()).unwrap());
    count
}

/// How many are shown without a cache, with one, and with one of what nobody else changes.
fn shown_each_way(place: &Path) -> [usize; 3] {
    fs::create_dir_all(place.join("d")).unwrap();
    let bare: Arc<dyn Store> = Arc::new(DirectoryStore::open(place, DirectoryOptions::default()).unwrap());
    let cached = behind(&Known::new(bounds(64 << 20)), place);
    let alone = CachedStore::new(Arc::clone(&bare), Known::new(bounds(64 << 20)), Belief::Lasting);
    [shown(place, &*bare), shown(place, &cached), shown(place, &alone)]
}

#[test]
fn none_that_stays_is_left_out_in_memory() {
    assert_eq!(shown_each_way(memory().path()), [FILES; 3]);
}

#[test]
fn none_that_stays_is_left_out_on_a_disk() {
    assert_eq!(shown_each_way(tempfile::tempdir().unwrap().path()), [FILES; 3]);
}

#[test]
fn none_that_stays_is_left_out_on_an_overlay() {
    if !is_in_namespace("cached_listed_pieces::none_that_stays_is_left_out_on_an_overlay") {
        return;
    }
    // What is above and below is one directory, of which the overlay makes a list when it is opened.
    let (_place, _upper, merged) = overlay(|upper| {
        fs::create_dir(upper.join("d")).unwrap();
        fs::create_dir(upper.with_file_name("lower").join("d")).unwrap();
    });
    let _mounted = Mounted(merged.clone());
    assert_eq!(shown_each_way(&merged), [FILES; 3]);
}

#[test]
fn none_that_stays_is_left_out_where_there_are_no_extended_attributes() {
    let test = "cached_listed_pieces::none_that_stays_is_left_out_where_there_are_no_extended_attributes";
    if !is_in_namespace(test) {
        return;
    }
    let place = memory();
    let mounted = Mounted::of("ramfs", &place.path().join("ramfs"), "mode=700").unwrap();
    assert_eq!(shown_each_way(&mounted.0), [FILES; 3]);
}
