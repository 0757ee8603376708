//! What listings take of what a cache may hold, and what they leave to others.

use std::fs::{self, File};

use store::{CacheBounds, Known, Use};

use crate::common::{behind, bounds, listed, listed_of, memory, open};

#[test]
fn no_directory_is_kept_open_where_too_many_descriptors_are_in_use() {
    let place = memory();
    for number in 0..20 {
        fs::create_dir(place.path().join(format!("d{number}"))).unwrap();
        fs::write(place.path().join(format!("f{number}")), "").unwrap();
    }
    let kept = |kind: &str| {
        let known = Known::new(CacheBounds { highest_descriptor: 2, ..bounds(4 << 20) });
        let store = behind(&known, place.path());
        (0..3).for_each(|_| (0..20).for_each(|number| drop(open(&store, &format!("{kind}{number}"), Use::Read))));
        known.descriptors()
    };
    assert_eq!((kept("f"), kept("d")), (0, 0), "files and directories that are kept open");
}

#[test]
fn a_listing_has_no_file_go_that_was_opened() {
    const FILES: usize = 600;
    let place = memory();
    for directory in ["d", "e"] {
        fs::create_dir(place.path().join(directory)).unwrap();
    }
    (0..FILES).for_each(|number| fs::write(place.path().join(format!("e/{number}")), "data").unwrap());
    (0..4_000).for_each(|number| drop(File::create(place.path().join(format!("d/{number}"))).unwrap()));
    let known = Known::new(CacheBounds { descriptors: 4_000, ..bounds(8 << 20) });
    let store = behind(&known, place.path());
    (0..3).for_each(|_| (0..FILES).for_each(|number| drop(open(&store, &format!("e\\{number}"), Use::Read))));
    let before = known.descriptors();
    assert!(before > FILES / 10 * 9, "{before}");
    (0..3).for_each(|_| drop(listed(&store)));
    let after = known.descriptors();
    // The directory, which is opened for that, may take the place of one.
    assert!(after + 2 >= before, "{before} kept open before the listing, {after} after it");
}

#[test]
fn what_is_removed_in_a_directory_that_was_listed_has_others_keep_what_they_know() {
    const FILES: usize = 4_000;
    let (place, aside) = (memory(), memory());
    for (place, files) in [(&place, FILES), (&aside, 20)] {
        fs::create_dir(place.path().join("d")).unwrap();
        (0..files).for_each(|number| fs::write(place.path().join(format!("d/{number}")), "data").unwrap());
    }
    let known = Known::new(bounds(64 << 20));
    let (store, others) = (behind(&known, place.path()), behind(&known, aside.path()));
    (0..4).for_each(|_| drop(listed(&others)));
    let kept = known.descriptors();
    assert!(kept > 0);
    (0..3).for_each(|_| drop(listed(&store)));
    let node = open(&others, "d", Use::Read);
    for number in 0..FILES {
        fs::remove_file(place.path().join(format!("d/{number}"))).unwrap();
        if number % 50 == 0 {
            assert_eq!(listed_of(&*node).len(), 20);
            assert!(known.descriptors() >= kept, "{} kept open of {kept}, {number} files removed", known.descriptors());
        }
    }
}
