//! What only a RAM disk does: it counts what it holds, and answers many at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use store::{Error, Kind, NewNode, Node, RamStore, Replace, Resolved, Store, Use};

fn disk(capacity_bytes: u64) -> Disk {
    Disk { store: Box::new(RamStore::new(capacity_bytes)), folder: None }
}

#[test]
fn two_disks_are_two_volumes() {
    let (one, other) = (RamStore::new(1), RamStore::new(1));
    assert_ne!(one.facts().volume, other.facts().volume);
    assert!(one.facts().never_blocks && !one.facts().read_only);
}

#[test]
fn everything_counts_and_is_given_back() {
    let disk = disk(1 << 20);
    let free = || disk.store.space().unwrap().free_bytes;
    assert_eq!((disk.store.space().unwrap().total_bytes, free()), (1 << 20, 1 << 20));
    let file = disk.file("file", &[1; 100_000]);
    file.extras().create_stream("s").unwrap().write_at(&[1; 10_000], 0).unwrap();
    file.extras().set_extended("a", &[1; 1000]).unwrap();
    file.extras().set_security(&[1; 500]).unwrap();
    file.extras().set_security(&[1; 400]).unwrap();
    assert!(free() < (1 << 20) - 111_000);
    assert_eq!(file.write_at(&[1; 1 << 20], 0), Err(Error::Full));
    assert_eq!(file.reserve(2 << 20), Err(Error::Full));
    assert_eq!(file.extras().set_security(&vec![1; 1 << 20]), Err(Error::Full));
    assert_eq!(file.extras().set_extended("b", &vec![1; 1 << 20]), Err(Error::Full));
    disk.remove("file").unwrap();
    assert_eq!(read_all(&*file), [1; 100_000]);
    drop(file);
    assert_eq!(free(), 1 << 20);
    let new = NewNode { kind: Kind::File, attributes: 0, security: Some(&vec![1; 1 << 20]), owner: None };
    assert_eq!(disk.store.create(&path("large"), new).err(), Some(Error::Full));
    assert_eq!(free(), 1 << 20);
}

#[test]
fn names_alone_fill_a_disk() {
    let disk = disk(100 << 10);
    let made = (0..1000).take_while(|index| disk.store.create(&path(&format!("f{index}")), new(Kind::File)).is_ok());
    let made = made.count();
    assert!((150..200).contains(&made), "{made}");
    disk.remove("f7").unwrap();
    disk.file("other", b"");
}

#[test]
fn what_is_charged_is_no_less_than_what_is_held() {
    type Make = fn(&Disk, &Arc<dyn Node>, &str);
    const COUNT: usize = 1000;
    let kinds: [(&str, Make); 6] = [
        ("files", |disk, _, name| drop(disk.file(name, b""))),
        ("directories", |disk, _, name| drop(disk.directory(name))),
        ("links", |disk, _, name| disk.link("file", name, Replace::No).unwrap()),
        ("streams", |_, file, name| drop(file.extras().create_stream(name).unwrap())),
        ("attributes", |_, file, name| file.extras().set_extended(name, &[1; 100]).unwrap()),
        ("files of a block", |disk, _, name| drop(disk.file(name, &[1; 10]))),
    ];
    for (kind, make) in kinds {
        for rest in ["", &"x".repeat(249), &"\u{4e00}".repeat(249), &"\u{250}".repeat(249)] {
            let disk = disk(64 << 20);
            let file = disk.file("file", b"");
            let names: Vec<_> = (0..COUNT).map(|number| format!("{number:06}{rest}")).collect();
            let free = disk.store.space().unwrap().free_bytes;
            let held = allocation_counter::measure(|| names.iter().for_each(|name| make(&disk, &file, name)));
            let charged = (free - disk.store.space().unwrap().free_bytes) as i64;
            // The allocator puts eight bytes in front of each, and gives sixteens.
            let held = held.bytes_current + 12 * held.count_current;
            assert!(charged >= held && charged < 2 * held, "{kind} {rest}: {charged} for {held}");
        }
    }
}

#[test]
fn names_of_one_file_count_and_are_as_many_as_on_ntfs_at_most() {
    let disk = disk(8 << 20);
    let free = || disk.store.space().unwrap().free_bytes;
    let file = disk.file("file", b"");
    let before = free();
    for index in 1..1024 {
        disk.link("file", &format!("{index:0>200}"), Replace::No).unwrap();
    }
    assert!(before - free() > 1023 * 400);
    assert_eq!(disk.link("file", "one more", Replace::No), Err(Error::TooManyLinks));
    for index in 1..1024 {
        disk.remove(&format!("{index:0>200}")).unwrap();
    }
    assert_eq!((free(), file.metadata().unwrap().links), (before, 1));
}

#[test]
fn on_a_full_disk_names_that_are_no_longer_can_be_had() {
    let disk = disk(100 << 10);
    let free = || disk.store.space().unwrap().free_bytes;
    disk.file("file", b"");
    let cost = (100 << 10) - free();
    (0..1000).take_while(|index| disk.store.create(&path(&format!("{index}")), new(Kind::File)).is_ok()).count();
    assert!(free() < cost);
    let left = free();
    disk.rename("file", "elif", Replace::No).unwrap();
    assert_eq!(free(), left);
    disk.rename("elif", "ELIF", Replace::No).unwrap();
    disk.rename("ELIF", &"x".repeat(24), Replace::No).unwrap();
    assert_eq!(free(), left);
    assert_eq!(disk.rename(&"x".repeat(24), &"x".repeat(250), Replace::No), Err(Error::Full));
    assert_eq!(free(), left);
}

#[test]
fn a_full_disk_keeps_what_it_has() {
    let disk = disk(200_000);
    let file = disk.file("file", &[1; 100_000]);
    assert_eq!(file.write_at(&[2; 200_000], 50_000), Err(Error::Full));
    assert_eq!(read_all(&*file), [1; 100_000]);
    file.write_at(&[3; 100_000], 0).unwrap();
}

#[test]
fn a_tree_deeper_than_the_stack_is_dropped() {
    const LEVELS: usize = 300;
    const ROUNDS: usize = 8;
    let disk = disk(1 << 30);
    for round in 0..ROUNDS {
        let mut text = String::from("a");
        disk.directory(&text);
        for _ in 1..LEVELS {
            text.push_str("\\a");
            disk.directory(&text);
        }
        disk.rename("a", &format!("tree{round}"), Replace::No).unwrap();
        if round > 0 {
            let bottom = format!("tree{round}{}", "\\a".repeat(LEVELS - 1));
            disk.rename(&format!("tree{}", round - 1), &format!("{bottom}\\b"), Replace::No).unwrap();
        }
    }
    let small_stack = std::thread::Builder::new().stack_size(64 << 10);
    small_stack.spawn(move || drop(disk)).unwrap().join().unwrap();
}

#[test]
fn lookups_go_on_while_names_change() {
    let disk = disk(1 << 24);
    disk.directory("a");
    disk.directory("b");
    disk.file("a\\file", b"data");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let found = ["a\\file", "b\\FILE"].iter().find_map(|name| disk.find(name).ok());
                    if let Some((node, _)) = found {
                        assert_eq!(read_all(&*node), b"data");
                    }
                }
            });
        }
        for _ in 0..2000 {
            disk.rename("a\\file", "b\\File", Replace::No).unwrap();
            disk.rename("b\\file", "a\\file", Replace::No).unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn nothing_is_made_in_a_removed_directory() {
    let disk = disk(1 << 24);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let disk = &disk;
            scope.spawn(move || {
                for _ in 0..500 {
                    let _ = disk.store.create(&path("folder"), new(Kind::Directory));
                    let _ = disk.store.create(&path(&format!("folder\\{thread}")), new(Kind::File));
                    let _ = disk.remove(&format!("folder\\{thread}"));
                    let _ = disk.remove("folder");
                }
            });
        }
    });
    if disk.find("folder").is_ok() {
        disk.remove("folder").unwrap();
    }
    assert!(disk.names("").is_empty());
    assert_eq!(disk.store.space().unwrap().free_bytes, 1 << 24);
}

#[test]
fn a_clone_has_the_same_data() {
    let disk = disk(1 << 24);
    let source = disk.file("source", &[1; 100_000]);
    let target = disk.file("target", b"");
    assert_eq!(Node::clone_from(&*target, &*source, 4096, 0, 65_536), Ok(65_536));
    assert_eq!(read_all(&*target), [1; 65_536]);
    assert_eq!(Node::clone_from(&*target, &*source, 65_536, 0, 65_536), Err(Error::Invalid));
    assert_eq!(Node::clone_from(&*target, &*source, u64::MAX, 0, 2), Err(Error::Invalid));
    assert!(matches!(disk.store.try_resolve(&path("SOURCE"), Use::Read), Ok(Resolved::Found { .. })));
}

#[test]
fn a_clone_is_made_part_by_part_and_has_the_same_holes() {
    const LENGTH: u64 = 1 << 40;
    let disk = disk(1 << 24);
    let source = disk.file("source", &[]);
    for offset in [0, 5 << 20, LENGTH - 4096] {
        source.write_at(&[1; 4096], offset).unwrap();
    }
    let target = disk.file("target", &[2; 1 << 20]);
    target.set_length(LENGTH).unwrap();
    let (mut at, mut parts) = (0, 0);
    while at < LENGTH {
        at += Node::clone_from(&*target, &*source, at, at, LENGTH - at).unwrap();
        parts += 1;
    }
    assert_eq!(target.extents(0, LENGTH, 9).unwrap().ranges, source.extents(0, LENGTH, 9).unwrap().ranges);
    assert!(parts < 9, "{parts}");
}
