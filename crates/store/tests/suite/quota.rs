//! What counts for a folder's quota.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::common::*;
use store::{DirectoryOptions, Error, Kind, NewNode, Node, Replace, Use};

const QUOTA: u64 = 8 << 20;
/// A descriptor that takes a block of its own on ext4.
const DESCRIPTOR: [u8; 1500] = [1; 1500];

/// Disks with a quota that keep things in each of the ways there are.
fn disks() -> Vec<(&'static str, Disk)> {
    let beside = DirectoryOptions { attributes_beside_files: true, ..DirectoryOptions::default() };
    let ways = [
        ("in attributes", directory(), DirectoryOptions::default()),
        ("in memory", memory_directory(), DirectoryOptions::default()),
        ("beside", super::common::beside(), beside),
    ];
    let with_quota = |(way, mut disk, options): (_, Disk, _)| {
        disk.reopen(DirectoryOptions { quota_bytes: Some(QUOTA), ..options });
        (way, disk)
    };
    ways.map(with_quota).into()
}

/// What is counted.
fn counted(disk: &Disk) -> u64 {
    QUOTA - disk.store.space().unwrap().free_bytes
}

/// What the files of a folder hold.
fn held(folder: &Path) -> u64 {
    let of = |entry: std::io::Result<fs::DirEntry>| {
        let entry = entry.unwrap();
        let known = entry.metadata().unwrap();
        if known.is_dir() { held(&entry.path()) } else { known.blocks() * 512 / known.nlink() }
    };
    fs::read_dir(folder).unwrap().map(of).sum()
}

#[track_caller]
fn check_counts_what_is_held(disk: &Disk, when: &str) {
    // XFS keeps ahead as much as was written.
    assert_eq!(counted(disk), held(disk.folder()).min(QUOTA), "{when}");
}

fn make(disk: &Disk, name: &str) -> std::sync::Arc<dyn Node> {
    let new = NewNode { kind: Kind::File, attributes: 0x22, security: Some(&DESCRIPTOR), owner: None };
    disk.store.create(&path(name), new).unwrap()
}

#[test]
fn what_is_kept_with_files_counts_and_is_given_back_with_them() {
    for (way, disk) in disks() {
        let begin = counted(&disk);
        for index in 0..20 {
            drop(make(&disk, &format!("file{index}")));
        }
        check_counts_what_is_held(&disk, way);
        for index in 0..20 {
            disk.remove(&format!("file{index}")).unwrap();
        }
        check_counts_what_is_held(&disk, way);
        assert!(counted(&disk) <= begin + 4096, "{way}: the folder's lock is left");
    }
}

#[test]
fn each_change_of_what_is_kept_with_a_file_counts_at_once() {
    for (way, disk) in disks() {
        let node = make(&disk, "file");
        let check = |what: &str| check_counts_what_is_held(&disk, &format!("{way}: {what}"));
        check("made");
        node.extras().set_extended("name", &[1; 2000]).unwrap();
        check("attribute");
        node.extras().set_extended("name", &[]).unwrap();
        check("attribute erased");
        node.extras().set_security(&[1; 60_000]).unwrap();
        check("long descriptor");
        node.extras().set_security(&[1; 50_000]).unwrap();
        check("another long descriptor");
        node.extras().set_security(&[1; 100]).unwrap();
        check("short descriptor");
        let stream = node.extras().create_stream("s").unwrap();
        stream.write_at(&[1; 900], 0).unwrap();
        check("short stream");
        stream.write_at(&[1; 900], 900).unwrap();
        check("long stream");
        node.extras().rename_stream("s", "t", Replace::No).unwrap();
        check("stream renamed");
        drop(stream);
        node.extras().remove_stream("t").unwrap();
        check("stream removed");
        node.write_at(&[1; 10_000], 0).unwrap();
        disk.link("file", "other", Replace::No).unwrap();
        check("linked");
        disk.remove("file").unwrap();
        check("a name less");
        drop(node);
        drop(make(&disk, "file"));
        disk.rename("file", "other", Replace::Yes).unwrap();
        check("replaced");
        disk.remove("other").unwrap();
        check("removed");
    }
}

/// What a file holds becomes more or less without anybody who has it open: a file system takes back what it kept ahead, and
/// writes down where data lie.
#[test]
fn what_a_file_gains_and_loses_while_it_is_closed_is_not_counted_twice() {
    for (way, disk) in disks() {
        let place = |name: &str| disk.folder().join(name);
        for round in 0..3 {
            for (name, bytes) in [("more", 100_000), ("less", 0)] {
                disk.file(name, &[1; 50_000]);
                fs::write(place(name), vec![1; bytes]).unwrap();
            }
            if round == 1 {
                disk.find("more").unwrap();
                check_counts_what_is_held_but(&disk, "less", way);
            }
            for name in ["more", "less"] {
                disk.remove(name).unwrap();
            }
            check_counts_what_is_held(&disk, way);
        }
    }
}

/// The same but for a file that holds nothing any more, and was not seen since.
fn check_counts_what_is_held_but(disk: &Disk, name: &str, when: &str) {
    assert!(counted(disk) > held(disk.folder()), "{when}");
    disk.find(name).unwrap();
    check_counts_what_is_held(disk, when);
}

#[test]
fn what_another_program_does_to_an_open_file_is_counted_when_it_is_closed() {
    for (way, disk) in disks() {
        let (node, again) = (disk.file("file", &[1; 50_000]), disk.find_for("file", Use::Read).unwrap().0);
        fs::write(disk.folder().join("file"), [1; 200_000]).unwrap();
        drop(node);
        drop(again);
        check_counts_what_is_held(&disk, way);
    }
}

#[test]
fn where_the_quota_is_used_up_no_attributes_are_added() {
    for (way, disk) in disks() {
        let (node, other) = (disk.file("file", b""), disk.file("other", b"data"));
        other.extras().set_extended("name", &[1; 1000]).unwrap();
        other.extras().set_security(&[1; 1000]).unwrap();
        let mut length = 0;
        while node.write_at(&[1; 4096], length).is_ok() {
            length += 4096;
        }
        assert_eq!(node.extras().set_extended("name", &[1; 1000]), Err(Error::Full), "{way}");
        assert_eq!(node.extras().set_security(&[1; 5000]), Err(Error::Full), "{way}");
        assert_eq!(node.extras().set_security(&[1; 60_000]), Err(Error::Full), "{way}");
        let stream = node.extras().create_stream("s");
        assert_eq!(stream.and_then(|stream| stream.write_at(&[1; 100], 0)), Err(Error::Full), "{way}");
        // What is there is changed, and goes.
        other.extras().set_extended("name", &[2; 1000]).unwrap();
        other.extras().set_security(&[2; 900]).unwrap();
        other.extras().set_extended("name", &[]).unwrap();
        node.set_length(length - (256 << 10)).unwrap();
        node.extras().set_extended("name", &[1; 1000]).unwrap();
        check_counts_what_is_held(&disk, way);
    }
}

#[test]
fn a_full_quota_bounds_a_file_whatever_its_attributes_take() {
    for (way, disk) in disks() {
        let node = make(&disk, "file");
        node.extras().set_extended("name", &[1; 1500]).unwrap();
        // Whole pieces first.
        let mut length = 0;
        while node.write_at(&[1; 65536], length).is_ok() {
            length += 65536;
        }
        while node.write_at(&[1; 4096], length).is_ok() {
            length += 4096;
            assert!(length <= QUOTA, "{way}");
        }
        let length = node.metadata().unwrap().length;
        assert_eq!(node.append(&[1; 4096], &mut Ok).err(), Some(Error::Full), "{way}");
        let before = held(disk.folder());
        for pieces in 1..100 {
            let _ = node.reserve(length + pieces * 4096);
        }
        assert!(held(disk.folder()) <= before.max(QUOTA), "{way}");
        check_counts_what_is_held(&disk, way);
    }
}

#[test]
fn space_that_was_reserved_is_written_to_when_the_quota_is_used_up() {
    for (way, disk) in disks() {
        let (node, other) = (disk.file("file", b""), disk.file("other", b""));
        node.reserve(1 << 20).unwrap();
        let mut length = 0;
        while other.write_at(&[1; 4096], length).is_ok() {
            length += 4096;
        }
        assert_eq!(other.append(&[1; 4096], &mut Ok).err(), Some(Error::Full), "{way}");
        node.reserve(1 << 20).unwrap();
        node.write_at(&[1; 500_000], 0).unwrap();
        node.append(&[1; (1 << 20) - 500_000], &mut Ok).unwrap();
        assert_eq!(node.append(&[1; 4096], &mut Ok).err(), Some(Error::Full), "{way}");
        // What is cut is not kept.
        node.set_length(0).unwrap();
        while other.write_at(&[1; 4096], length).is_ok() {
            length += 4096;
        }
        assert_eq!(node.write_at(&[1; 4096], 0), Err(Error::Full), "{way}");
        check_counts_what_is_held(&disk, way);
    }
}

#[test]
fn a_file_that_there_is_no_room_for_leaves_nothing() {
    for (way, disk) in disks() {
        let node = disk.file("file", b"");
        let mut length = 0;
        while node.write_at(&[1; 4096], length).is_ok() {
            length += 4096;
        }
        let before = held(disk.folder());
        let name = path("new");
        for descriptor in [&DESCRIPTOR[..], &[1; 60_000]] {
            for kind in [Kind::File, Kind::Directory] {
                let new = NewNode { kind, attributes: 0x22, security: Some(descriptor), owner: None };
                assert_eq!(disk.store.create(&name, new).err(), Some(Error::Full), "{way}");
            }
        }
        assert_eq!((disk.names(""), held(disk.folder())), (vec!["file".to_owned()], before), "{way}");
        check_counts_what_is_held(&disk, way);
    }
}
