//! What is kept in memory of what a directory lists, and what that tells.

use std::fs::{self, File};
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use store::{Belief, Error, Kind, Known, Metadata, Name, NewNode, Node, Replacement, Store, Time, Use};
use tempfile::TempDir;

use crate::common::{all_entries, behind, bounds, counted_far_away, listed, memory, open, path};

const FILES: usize = 40;

/// A folder in memory with a directory that has files and directories in it.
fn folder() -> TempDir {
    let place = memory();
    fs::create_dir(place.path().join("d")).unwrap();
    for number in 0..FILES {
        fs::write(place.path().join(format!("d/file {number}")), "data").unwrap();
        fs::create_dir(place.path().join(format!("d/directory {number}"))).unwrap();
    }
    place
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

/// How many directories are told of from memory.
fn known_count(store: &dyn Store, place: &Path) -> usize {
    (0..FILES).filter(|number| touch(place, *number) != written(&listed(store), *number)).count()
}

#[test]
fn a_listing_is_told_from_memory_once_the_directory_was_listed_before() {
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
fn a_listing_of_what_is_far_away_asks_once() {
    let (store, asked) = counted_far_away(bounds(4 << 20), Belief::Lasting);
    let make = |at: &str, kind| {
        drop(store.create(&path(at), NewNode { kind, attributes: 0, security: None, owner: None }).unwrap())
    };
    make("d", Kind::Directory);
    (0..FILES).for_each(|number| make(&format!("d\\file {number}"), Kind::File));
    let calls = || {
        let before = asked.load(Ordering::SeqCst);
        assert_eq!(listed(&store).len(), FILES);
        asked.load(Ordering::SeqCst) - before
    };
    let first = calls();
    // What is learned costs no call more.
    assert!(first > FILES && calls() <= first);
    assert_eq!(calls(), 0);
    drop(
        store
            .create(&path("d\\other"), NewNode { kind: Kind::File, attributes: 0, security: None, owner: None })
            .unwrap(),
    );
    assert_eq!(listed(&store).len(), FILES + 1);
    let before = asked.load(Ordering::SeqCst);
    assert_eq!(listed(&store).len(), FILES + 1);
    assert_eq!(asked.load(Ordering::SeqCst), before);
}

#[test]
fn a_listing_keeps_nothing_open() {
    let place = folder();
    let known = Known::new(bounds(4 << 20));
    let store = behind(&known, place.path());
    (0..4).for_each(|_| drop(listed(&store)));
    // The root, and the directory.
    assert!(known.descriptors() <= 2, "{}", known.descriptors());
    assert!(known_count(&store, place.path()) > FILES / 2);
}

#[test]
fn a_listing_has_nothing_go_that_was_known() {
    let place = folder();
    let known = Known::new(bounds(64 << 10));
    let (store, bare) = (behind(&known, place.path()), behind(&known, place.path()));
    bare.switch(false);
    let mut before = 0;
    for turn in 0..4 {
        assert_eq!(listed(&store), listed(&bare));
        assert!(known.bytes() >= before && known.bytes() <= 64 << 10, "{turn}: {} after {before}", known.bytes());
        before = known.bytes();
    }
    // Some, which were learned while there was room, and not all.
    let count = known_count(&store, place.path());
    assert!(count > 0 && count < FILES, "{count}");
}

#[test]
fn a_directory_with_very_many_names_is_asked_each_time() {
    let place = memory();
    fs::create_dir(place.path().join("d")).unwrap();
    (0..5_000).for_each(|number| drop(File::create(place.path().join(format!("d/{number}"))).unwrap()));
    let known = Known::new(bounds(64 << 20));
    let store = behind(&known, place.path());
    listed(&store);
    let before = known.bytes();
    (0..3).for_each(|_| assert_eq!(listed(&store).len(), 5_000));
    assert!(known.bytes() < before + 4_096, "{before} bytes, {} then", known.bytes());
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
    assert_eq!(length("new"), None);
    fs::write(at("new"), "").unwrap();
    assert_eq!(length("new"), Some(0));
}

#[test]
fn what_the_server_writes_is_told_at_once_and_kept_again_afterwards() {
    let place = folder();
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    (0..4).for_each(|_| drop(listed(&store)));
    let length = || listed(&store).into_iter().find(|(name, _)| name == "file 1").unwrap().1.length;
    let file = open(&store, "d\\file 1", Use::ReadWrite);
    for count in 1..4 {
        file.write_at(b"more", 4 * count).unwrap();
        assert_eq!(length(), 4 * count + 4);
    }
    drop(file);
    (0..2).for_each(|_| assert_eq!(length(), 16));
    // Others are heard of again, though the server has written it.
    fs::write(place.path().join("d/file 1"), "by others").unwrap();
    assert_eq!(length(), 9);
}

#[test]
fn links_are_told_as_they_are_and_what_takes_their_place() {
    let place = folder();
    let at = |name: &str| place.path().join(name);
    fs::write(at("one"), "1").unwrap();
    symlink("../one", at("d/link")).unwrap();
    symlink("../nothing", at("d/loose")).unwrap();
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    let told = |name: &str| {
        let known = listed(&store).into_iter().find(|(listed, _)| listed == name).map(|(_, known)| known);
        let target = open(&store, &format!("d\\{name}"), Use::Metadata).target().unwrap();
        known.map(|known| (known.is_link, known.length, target))
    };
    let link = |target: &str| Some((true, 0, Some(target.to_owned())));
    (0..4).for_each(|_| assert_eq!((told("link"), told("loose")), (link("../one"), link("../nothing"))));
    fs::remove_file(at("d/link")).unwrap();
    symlink("../two", at("d/link")).unwrap();
    (0..3).for_each(|_| assert_eq!(told("link"), link("../two")));
    fs::remove_file(at("d/link")).unwrap();
    fs::write(at("d/link"), "a file").unwrap();
    (0..3).for_each(|_| assert_eq!(told("link"), Some((false, 6, None))));
    fs::remove_file(at("d/link")).unwrap();
    symlink("again", at("d/link")).unwrap();
    (0..3).for_each(|_| assert_eq!(told("link"), link("again")));
}

#[test]
fn a_link_that_takes_the_place_of_what_is_known_is_seen_at_once() {
    let place = folder();
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    fs::write(place.path().join("d/file 1"), "").unwrap();
    (0..4).for_each(|_| drop(open(&store, "d\\file 1", Use::Read)));
    let directory = open(&store, "d", Use::Read);
    let name = Name::new("file 1").unwrap();
    let mut identity = open(&store, "d\\file 1", Use::Read).identity();
    for target in ["one", "two"] {
        let link = directory.names().unwrap().replace_with(&name, identity, Replacement::link(target)).unwrap();
        identity = link.identity();
        for node in [link, open(&store, "d\\file 1", Use::Read), open(&store, "d\\FILE 1", Use::Read)] {
            assert_eq!((node.target(), node.identity()), (Ok(Some(target.to_owned())), identity));
        }
        assert!(listed(&store).iter().any(|(name, known)| name == "file 1" && known.is_link));
    }
    directory.names().unwrap().replace_with(&name, identity, Replacement::FILE).unwrap();
    assert!(listed(&store).iter().any(|(name, known)| name == "file 1" && !known.is_link));
    assert_eq!(open(&store, "d\\file 1", Use::Read).target(), Ok(None));
}

#[test]
fn names_that_differ_in_case_are_both_told_as_they_are() {
    let place = folder();
    fs::write(place.path().join("d/FILE 1"), "another").unwrap();
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    for _ in 0..5 {
        let listed = listed(&store);
        let length = |name: &str| listed.iter().find(|(listed, _)| listed == name).unwrap().1.length;
        assert_eq!((length("file 1"), length("FILE 1")), (4, 7));
    }
}

#[test]
fn what_was_opened_by_another_spelling_stays_known_by_that() {
    let place = folder();
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    (0..4).for_each(|_| drop(open(&store, "d\\FILE 1", Use::Read)));
    let at_once = || store.try_resolve(&path("d\\FILE 1"), Use::Read).is_ok();
    assert!(at_once());
    for turn in 0..4 {
        listed(&store);
        assert!(at_once(), "{turn}");
    }
}

#[test]
fn a_lease_of_another_program_on_what_is_listed_is_not_broken() {
    let place = folder();
    let file = File::options().read(true).write(true).open(place.path().join("d/file 1")).unwrap();
    let lease = |arguments: &[&str]| {
        let script = "import fcntl,sys; print(fcntl.fcntl(0, int(sys.argv[1]), *map(int, sys.argv[2:])))";
        let output = std::process::Command::new("python3")
            .args(["-c", script])
            .args(arguments)
            .stdin(file.try_clone().unwrap())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    // F_SETLEASE to F_WRLCK, which the open file has, whoever took it.
    lease(&["1024", "1"]);
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    (0..5).for_each(|_| drop(listed(&store)));
    // F_GETLEASE.
    assert_eq!(lease(&["1025"]), "1");
}

#[test]
fn a_listing_that_is_not_taken_to_its_end_keeps_no_names() {
    let place = folder();
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    (0..3).for_each(|_| drop(listed(&store)));
    fs::write(place.path().join("d/other"), "").unwrap();
    let node = open(&store, "d", Use::Read);
    let mut count = 0;
    let is_all = node.names().unwrap().list_all(64, &mut |_| {
        count += 1;
        if count < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    assert_eq!((is_all.unwrap(), count), (false, 5));
    assert_eq!(listed(&store).len(), 2 * FILES + 1);
}

#[test]
fn a_directory_is_said_to_lie_where_it_was_moved_to() {
    let place = folder();
    fs::create_dir(place.path().join("other")).unwrap();
    let store = behind(&Known::new(bounds(4 << 20)), place.path());
    (0..3).for_each(|_| drop(open(&store, "d\\directory 1", Use::Read)));
    (0..3).for_each(|_| drop(open(&store, "other", Use::Read)));
    let (d, other) = (open(&store, "d", Use::Read), open(&store, "other", Use::Read));
    let node = open(&store, "d\\directory 1", Use::Read);
    let lies_in = |expected: &Arc<dyn Node>| {
        for _ in 0..3 {
            assert_eq!(node.above().unwrap().unwrap().identity(), expected.identity());
        }
    };
    lies_in(&d);
    let at = |directory: &str| place.path().join(directory).join("directory 1");
    fs::rename(at("d"), at("other")).unwrap();
    lies_in(&other);
    let name = store::Name::new("directory 1").unwrap();
    let to = store::Destination { directory: &*d, name: &name };
    other.names().unwrap().rename(&name, node.identity(), to, store::Replace::No).unwrap();
    lies_in(&d);
    fs::remove_dir(at("d")).unwrap();
    assert_eq!(node.above().err(), Some(Error::Gone));
}

#[test]
fn a_directory_that_is_only_listed_is_not_opened_for_that() {
    for at in ["d", ""] {
        let (store, asked) = counted_far_away(bounds(4 << 20), Belief::Lasting);
        drop(
            store
                .create(&path("d"), NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None })
                .unwrap(),
        );
        drop(
            store
                .create(&path("d\\file"), NewNode { kind: Kind::File, attributes: 0, security: None, owner: None })
                .unwrap(),
        );
        let list = || {
            let before = asked.load(Ordering::SeqCst);
            let node = open(&store, at, Use::Read);
            for entry in all_entries(&*node).unwrap() {
                node.names().unwrap().entry_metadata(&entry.name).unwrap();
            }
            asked.load(Ordering::SeqCst) - before
        };
        let calls: Vec<_> = (0..6).map(|_| list()).collect();
        assert_eq!(calls[5], 0, "{at}: {calls:?}");
    }
}
