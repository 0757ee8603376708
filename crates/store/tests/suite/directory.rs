//! What only a directory store does: other programs in the same folder, what stays after it is closed, limits.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use crate::common::*;
use rustix::fs::{Advice, XattrFlags, fadvise, getxattr, setxattr};
use store::{
    AttributeChange, Changes, DirectoryOptions, DirectoryStore, Error, Kind, Name, NewNode, Replace, Replacement,
    Resolved, SharePath, Store, Time, Use, Waits, effort, waiting,
};

fn options() -> DirectoryOptions {
    DirectoryOptions::default()
}

#[test]
fn side_files_go_with_their_stream_or_file() {
    let disk = directory();
    let count = || kept_beside(&disk).len();
    let large = |name: &str| {
        let node = disk.file(name, b"");
        node.extras().create_stream("a").unwrap().write_at(&[1; 5000], 0).unwrap();
        node.extras().create_stream("b").unwrap().write_at(&[1; 5000], 0).unwrap();
        node.extras().set_security(&[1; 60_000]).unwrap();
        node
    };
    let node = large("file");
    assert_eq!(count(), 3);
    node.extras().remove_stream("a").unwrap();
    node.extras().set_security(&[1; 100]).unwrap();
    assert_eq!(count(), 1);
    disk.link("file", "second", Replace::No).unwrap();
    disk.remove("file").unwrap();
    assert_eq!(count(), 1);
    disk.remove("second").unwrap();
    assert_eq!(count(), 0);
    large("old");
    disk.file("new", b"");
    disk.rename("new", "OLD", Replace::Yes).unwrap();
    assert_eq!(count(), 0);
    large("old2");
    disk.link("old", "old2", Replace::Yes).unwrap();
    assert_eq!(count(), 0);
    let folder = disk.directory("folder");
    folder.extras().create_stream("a").unwrap().write_at(&[1; 5000], 0).unwrap();
    disk.remove("folder").unwrap();
    assert_eq!(count(), 0);
}

#[test]
fn what_is_kept_outside_files_goes_with_them() {
    let disk = beside();
    let count = || kept_beside(&disk).len();
    let node = disk.file("file", b"");
    node.change(&Changes { attributes: AttributeChange::to(0x3), ..Changes::default() }).unwrap();
    node.extras().set_extended("author", b"me").unwrap();
    node.extras().create_stream("s").unwrap().write_at(&[1; 5000], 0).unwrap();
    assert_eq!(count(), 2);
    disk.remove("file").unwrap();
    assert_eq!(count(), 0);
}

fn keeps_everything(mut disk: Disk, options: DirectoryOptions) {
    let time = Time::from_unix(1_000_000_000, 500);
    let descriptor = NewNode { kind: Kind::File, attributes: 0x23, security: Some(b"descriptor"), owner: None };
    let node = disk.store.create(&path("File"), descriptor).unwrap();
    node.change(&Changes { creation: Some(time), write: Some(time), ..Changes::default() }).unwrap();
    node.extras().set_extended("Author", b"me").unwrap();
    node.extras().create_stream("small").unwrap().write_at(b"small", 0).unwrap();
    node.extras().create_stream("large").unwrap().write_at(&[5; 70_000], 0).unwrap();
    let stamped = Changes { write: Some(time), ..Changes::default() };
    node.change(&stamped).unwrap();
    let known = node.metadata().unwrap();
    drop(node);
    disk.reopen(options);
    let node = disk.node("FILE");
    assert_eq!(node.metadata().unwrap(), known);
    assert_eq!((known.attributes, known.creation, known.write), (0x23, time, time));
    assert_eq!(node.extras().security().unwrap().unwrap(), b"descriptor");
    assert_eq!(node.extras().extended().unwrap(), [("Author".to_owned(), b"me".to_vec())]);
    assert_eq!(read_all(&*node.extras().stream("SMALL").unwrap().unwrap().1), b"small");
    assert_eq!(read_all(&*node.extras().stream("large").unwrap().unwrap().1), [5; 70_000]);
}

#[test]
fn everything_is_there_after_reopening() {
    keeps_everything(directory(), options());
    keeps_everything(memory_directory(), options());
    let beside_options = DirectoryOptions { attributes_beside_files: true, ..options() };
    keeps_everything(beside(), beside_options);
}

#[test]
fn files_of_other_programs_show_what_they_are() {
    let disk = directory();
    let root = disk.folder();
    fs::write(root.join("plain"), "x").unwrap();
    fs::write(root.join(".hidden"), "x").unwrap();
    fs::write(root.join("readonly"), "x").unwrap();
    fs::set_permissions(root.join("readonly"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::create_dir(root.join(".folder")).unwrap();
    let attributes = |name: &str| disk.node(name).metadata().unwrap().attributes;
    assert_eq!(attributes("plain"), 0x20);
    assert_eq!(attributes(".hidden"), 0x22);
    assert_eq!(attributes("readonly"), 0x21);
    assert_eq!(attributes(".folder"), 0x2);
    let root_node = disk.node("");
    for name in ["plain", ".hidden", "readonly", ".folder"] {
        assert_eq!(entry_metadata(&*root_node, name).unwrap(), disk.node(name).metadata().unwrap());
    }
    let made = disk.node("plain").metadata().unwrap().creation;
    assert!(made > Time::from_unix(1_700_000_000, 0) && made <= Time::now());
    let changed = disk.node("readonly").change(&Changes { creation: Some(Time(5)), ..Changes::default() });
    if changed == Err(Error::Denied) {
        return;
    }
    assert_eq!(attributes("readonly"), 0x21);
    disk.node("readonly").change(&Changes { attributes: AttributeChange::to(0x20), ..Changes::default() }).unwrap();
    assert_eq!(attributes("readonly"), 0x20);
    assert_eq!(fs::metadata(root.join("readonly")).unwrap().mode() & 0o777, 0o444);
}

#[test]
fn a_file_that_shows_its_attributes_anyway_keeps_none() {
    let disk = directory();
    disk.file("plain", b"");
    disk.directory("folder");
    disk.store
        .create(&path("kept"), NewNode { kind: Kind::File, attributes: 0x21, security: None, owner: None })
        .unwrap();
    let has = |name: &str| getxattr(disk.folder().join(name), "user.multilane", &mut [0u8; 64]).is_ok();
    assert_eq!((has("plain"), has("folder"), has("kept")), (false, false, true));
    assert_eq!(disk.node("kept").metadata().unwrap().attributes, 0x21);
}

#[test]
fn names_that_clients_cannot_say_are_found_again() {
    let disk = directory();
    let names: [&[u8]; 8] =
        [b"a:b", b"q?*", b"back\\slash", b"trailing. ", b"\x01\x1f", b"\xff\xfe", "\u{F03A}".as_bytes(), b"tab\t"];
    for name in names {
        fs::write(disk.folder().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let root = disk.node("");
    let entries = entries(&*root).unwrap();
    assert_eq!(entries.len(), names.len());
    for entry in entries {
        let (node, stored) = disk.find(entry.name.as_str()).unwrap();
        assert_eq!(stored, entry.name.as_str());
        assert_eq!(node.identity().file, entry.file);
        assert_eq!(root.names().unwrap().entry_metadata(&entry.name).unwrap().identity, node.identity());
        disk.find(&entry.name.as_str().to_uppercase()).unwrap();
    }
    disk.file("made\u{F03A}here", b"");
    assert!(disk.folder().join("made:here").is_file());
    assert_eq!(disk.find("MADE\u{F03A}HERE").unwrap().1, "made\u{F03A}here");
    disk.rename("made\u{F03A}here", "now\u{F02A}", Replace::No).unwrap();
    assert!(disk.folder().join("now*").is_file());
    disk.remove("NOW\u{F02A}").unwrap();
    assert!(!disk.folder().join("now*").exists());
}

#[test]
fn names_of_other_programs_that_differ_in_case_are_all_reached() {
    let disk = directory();
    for name in ["file", "FILE", "File"] {
        fs::write(disk.folder().join(name), name).unwrap();
    }
    for name in ["file", "FILE", "File"] {
        assert_eq!(read_all(&*disk.node(name)), name.as_bytes());
    }
    assert_eq!(disk.find("fILE").unwrap().1, "FILE");
    disk.remove("FILE").unwrap();
    assert_eq!(disk.find("fILE").unwrap().1, "File");
    assert_eq!(disk.rename("File", "file", Replace::No), Err(Error::Exists));
}

#[test]
fn changes_by_other_programs_are_seen() {
    let disk = directory();
    let root = disk.folder().to_owned();
    for round in 0..200 {
        let (lower, upper) = (format!("name{round}"), format!("NAME{round}"));
        assert_eq!(disk.find(&upper).err(), Some(Error::NotFound));
        fs::write(root.join(&lower), "x").unwrap();
        assert_eq!(disk.find(&upper).unwrap().1, lower);
        assert_eq!(disk.store.create(&path(&upper), new(Kind::File)).err(), Some(Error::Exists));
        let moved = format!("moved{round}");
        fs::rename(root.join(&lower), root.join(&moved)).unwrap();
        assert_eq!(disk.find(&upper).err(), Some(Error::NotFound));
        fs::remove_file(root.join(&moved)).unwrap();
        assert_eq!(disk.find(&moved.to_uppercase()).err(), Some(Error::NotFound));
    }
}

#[test]
fn two_stores_over_one_folder_agree() {
    let disk = directory();
    let other = DirectoryStore::open(disk.folder(), options()).unwrap();
    let made = disk.file("Name", b"data");
    match other.resolve(&path("NAME"), Use::Read).unwrap() {
        Resolved::Found { node, .. } => assert_eq!(node.identity(), made.identity()),
        missing @ Resolved::Missing { .. } => panic!("{missing:?}"),
    }
    assert_eq!(other.facts().volume, made.identity().volume);
    let sub = disk.directory("sub");
    let nested = DirectoryStore::open(&disk.folder().join("sub"), options()).unwrap();
    match nested.resolve(&path(""), Use::Read).unwrap() {
        Resolved::Found { node, .. } => assert_eq!(node.identity(), sub.identity()),
        missing @ Resolved::Missing { .. } => panic!("{missing:?}"),
    }
}

#[test]
fn only_one_of_many_makes_a_name() {
    let disk = directory();
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (disk, made) = (&disk, &made);
            scope.spawn(move || {
                for round in 0..100 {
                    let name = format!("name{round}");
                    let name = if thread % 2 == 0 { name.to_uppercase() } else { name };
                    match disk.store.create(&path(&name), new(Kind::File)) {
                        Ok(_) => made.fetch_add(1, Ordering::Relaxed),
                        Err(error) => {
                            assert_eq!(error, Error::Exists);
                            0
                        }
                    };
                }
            });
        }
    });
    assert_eq!(made.load(Ordering::Relaxed), 100);
    assert_eq!(disk.names("").len(), 100);
}

/// What is in memory answers without waiting in the end. Linux says that it would have to wait also where anything is mounted or renamed just then.
fn soon<T>(mut look: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 0..1000 {
        match look() {
            Err(Error::WouldBlock) => sleep(Duration::from_millis(1)),
            answer => return answer,
        }
    }
    look()
}

#[test]
fn resolving_without_waiting_knows_what_was_seen() {
    for disk in [directory(), memory_directory()] {
        if disk.node("").waits() != Waits::Never {
            assert_eq!(disk.store.try_resolve(&path(""), Use::Metadata).err(), Some(Error::WouldBlock));
            continue;
        }
        disk.directory("Folder");
        disk.file("Folder\\File", b"data");
        disk.file("Folder\\Other", b"data");
        match soon(|| disk.store.try_resolve(&path("Folder\\File"), Use::ReadWrite)).unwrap() {
            Resolved::Found { node, .. } => assert_eq!(read_all(&*node), b"data"),
            missing @ Resolved::Missing { .. } => panic!("{missing:?}"),
        }
        let asked = disk.store.try_resolve(&path("Folder\\new"), Use::Read);
        assert!(matches!(asked, Ok(Resolved::Missing { .. }) | Err(Error::WouldBlock)), "{asked:?}");
        disk.find("Folder\\new").err().unwrap();
        let again = disk.store.try_resolve(&path("Folder\\FILE"), Use::Read);
        assert!(matches!(again, Ok(Resolved::Found { .. }) | Err(Error::WouldBlock)), "{again:?}");
        assert_eq!(soon(|| disk.store.try_resolve(&path(".multilane"), Use::Read)).err(), Some(Error::Denied));
    }
}

#[test]
fn a_long_way_in_another_case_is_left_to_who_may_wait() {
    let disk = memory_directory();
    if disk.node("").waits() == Waits::Never {
        let way = |name: &str, levels: usize| path(&vec![name; levels].join("\\"));
        for levels in 1..=100 {
            disk.directory(way("a", levels).as_str());
        }
        let found = soon(|| {
            let asked = way("a", 100);
            let (found, steps) = effort::of(|| disk.store.try_resolve(&asked, Use::Metadata));
            Ok((found?, steps))
        });
        assert!(matches!(found, Ok((Resolved::Found { .. }, 100))), "each name counts");
        assert!(matches!(disk.store.resolve(&way("A", 100), Use::Metadata), Ok(Resolved::Found { .. })));
        assert_eq!(disk.store.try_resolve(&way("A", 100), Use::Metadata).err(), Some(Error::WouldBlock));
        assert!(matches!(soon(|| disk.store.try_resolve(&way("A", 10), Use::Metadata)), Ok(Resolved::Found { .. })));
    }
}

#[test]
fn the_directories_on_a_way_are_each_opened_once() {
    for disk in [directory(), memory_directory()] {
        let way = |levels: usize| path(&["a"; 300][..levels].join("\\"));
        (1..=300).for_each(|level| drop(disk.directory(way(level).as_str())));
        let asked = way(300);
        let (lineage, steps) = effort::of(|| disk.store.lineage(&asked));
        let expected: Vec<_> = (0..=300).map(|level| disk.node(way(level).as_str()).identity()).collect();
        assert_eq!((lineage, steps), (expected, 300));
    }
}

#[test]
fn the_directories_on_a_way_are_found_in_another_case_and_end_at_a_link() {
    for disk in [directory(), memory_directory()] {
        for name in ["a", "a\\b", "a\\b\\c"] {
            disk.directory(name);
        }
        symlink("a/b", disk.folder().join("link")).unwrap();
        symlink("..", disk.folder().join("out")).unwrap();
        let identities = |names: &[&str]| names.iter().map(|name| disk.node(name).identity()).collect::<Vec<_>>();
        let lineage = |way: &str| disk.store.lineage(&path(way));
        assert_eq!(lineage(""), identities(&[""]));
        assert_eq!(lineage("A\\B\\c"), identities(&["", "a", "a\\b", "a\\b\\c"]));
        assert_eq!(lineage("LINK\\C"), identities(&[""]));
        assert_eq!(lineage("a\\gone\\c"), identities(&["", "a"]), "it ends where one is missing");
        for nowhere in ["out\\a", ".multilane\\a"] {
            assert_eq!(lineage(nowhere), identities(&[""]));
        }
    }
}

#[test]
fn who_must_not_wait_reads_through_no_directory_in_memory() {
    let disk = memory_directory();
    fs::create_dir(disk.folder().join("d")).unwrap();
    fs::write(disk.folder().join("d").join("name"), "").unwrap();
    waiting::forbid(waiting::Forbidden::Panics);
    let look = |name: &str| disk.store.try_resolve(&path(&format!("d\\{name}")), Use::Metadata);
    assert!(matches!(soon(|| look("name")), Ok(Resolved::Found { .. })));
    for name in ["missing", "NAME", "missing\\name"] {
        assert_eq!(look(name).err(), Some(Error::WouldBlock), "{name}");
    }
    let directory = soon(|| disk.store.try_resolve(&path("d"), Use::Metadata));
    let Ok(Resolved::Found { node: directory, .. }) = directory else { panic!() };
    if directory.waits() != Waits::Never {
        return;
    }
    let make = |name: &str| directory.names().unwrap().try_create(&Name::new(name).unwrap(), new(Kind::File)).map(drop);
    assert_eq!(make("made"), Err(Error::WouldBlock));
    assert!(!disk.folder().join("d").join("made").exists());
    waiting::allow(|| disk.file("d\\made", b""));
    assert!(matches!(soon(|| look("missing")), Ok(Resolved::Missing { .. })), "what it has is known now");
    assert!(matches!(soon(|| look("NAME")), Ok(Resolved::Found { .. })));
    assert_eq!((soon(|| make("another")), soon(|| make("MADE"))), (Ok(()), Err(Error::Exists)));
}

#[test]
fn who_must_not_wait_looks_behind_few_names_of_streams() {
    let disk = memory_directory();
    let node = disk.file("file", b"");
    let long = |number: usize| format!("{number:0250}");
    node.extras().create_stream("short").unwrap();
    for number in 0..70 {
        node.extras().create_stream(&long(number)).unwrap();
    }
    waiting::forbid(waiting::Forbidden::Panics);
    if node.waits() != Waits::Never {
        return;
    }
    assert!(node.extras().stream("short").unwrap().is_some(), "its name leads to it");
    for name in [long(5), long(100), "SHORT".to_owned()] {
        assert_eq!(node.extras().stream(&name).err(), Some(Error::WouldBlock));
    }
    let held = node.try_hold();
    assert_eq!(node.extras().create_stream(&long(100)).err(), Some(Error::WouldBlock));
    drop(held);
    assert_eq!(node.extras().list_streams(&mut |_| panic!("none is shown")).err(), Some(Error::WouldBlock));
    waiting::forbid(waiting::Forbidden::Not);
    assert_eq!(node.extras().streams().unwrap().len(), 71, "none was made");
    assert!(node.extras().stream(&long(5)).unwrap().is_some());
}

#[test]
fn a_read_only_store_changes_nothing() {
    let mut disk = directory();
    let identity = disk.file("file", b"data").identity();
    disk.node("file").extras().create_stream("s").unwrap().write_at(&[1; 5000], 0).unwrap();
    disk.reopen(DirectoryOptions { read_only: true, ..options() });
    assert!(disk.store.facts().read_only);
    let node = disk.node("file");
    assert_eq!(read_all(&*node), b"data");
    let stream = node.extras().stream("s").unwrap().unwrap().1;
    assert_eq!(read_all(&*stream).len(), 5000);
    let refused = [
        node.write_at(b"x", 0),
        node.set_length(0),
        node.zero(0, 1, true),
        node.reserve(10),
        node.prepare(Use::ReadWrite),
        node.change(&Changes { attributes: AttributeChange::to(1), ..Changes::default() }),
        node.extras().set_security(b"x"),
        node.extras().set_extended("a", b"x"),
        node.extras().create_stream("t").map(|_| ()),
        node.extras().remove_stream("s"),
        node.extras().rename_stream("s", "t", Replace::No),
        stream.write_at(b"x", 0),
        stream.set_length(0),
        disk.store.create(&path("new"), new(Kind::File)).map(|_| ()),
        disk.store.rename(&path("file"), &path("new"), identity, Replace::No),
        disk.store.link(&path("file"), &path("new"), identity, Replace::No),
        disk.store.remove(&path("file"), identity),
    ];
    for (index, answer) in refused.into_iter().enumerate() {
        assert_eq!(answer, Err(Error::ReadOnly), "{index}");
    }
    assert_eq!(disk.names(""), ["file"]);
}

#[test]
fn a_quota_bounds_what_is_written() {
    const QUOTA: u64 = 1 << 20;
    let mut disk = directory();
    disk.file("before", &[1; 100_000]);
    disk.reopen(DirectoryOptions { quota_bytes: Some(QUOTA), ..options() });
    let space = disk.store.space().unwrap();
    assert_eq!(space.total_bytes, QUOTA);
    assert!(space.free_bytes <= QUOTA - 100_000);
    let node = disk.file("file", &[1; 500_000]);
    assert_eq!(node.write_at(&[1; 600_000], 500_000), Err(Error::Full));
    assert_eq!(node.reserve(2 * QUOTA), Err(Error::Full));
    node.write_at(&[2; 500_000], 0).unwrap();
    let stream = node.extras().create_stream("s").unwrap();
    assert_eq!(stream.write_at(&[1; 600_000], 0), Err(Error::Full));
    stream.write_at(&[1; 100_000], 0).unwrap();
    let mut written = 0;
    while node.write_at(&[3; 65536], 500_000 + written * 65536).is_ok() {
        written += 1;
        assert!(written < 16);
    }
    node.write_at(&[4; 100], 0).unwrap();
    node.zero(100, u64::MAX, false).unwrap();
    node.set_length(0).unwrap();
    node.write_at(&[5; 500_000], 0).unwrap();
    disk.remove("before").unwrap();
    disk.remove("file").unwrap();
    drop((node, stream));
    assert!(disk.store.space().unwrap().free_bytes >= QUOTA - 200_000);
}

#[test]
fn what_lies_in_folders_counts_for_the_quota_when_a_store_is_opened() {
    const QUOTA: u64 = 16 << 20;
    let mut disk = directory();
    disk.directory("folder");
    disk.directory("folder\\deep");
    for file in ["file", "folder\\file", "folder\\deep\\file"] {
        let node = disk.file(file, &[1; 1 << 20]);
        node.extras().create_stream("long").unwrap().write_at(&[1; 1 << 20], 0).unwrap();
    }
    disk.reopen(DirectoryOptions { quota_bytes: Some(QUOTA), ..options() });
    let used = QUOTA - disk.store.space().unwrap().free_bytes;
    assert!(used >= 6 << 20, "{used}");
}

#[test]
fn a_link_counts_for_the_quota_as_what_it_takes() {
    const QUOTA: u64 = 64 << 10;
    let mut disk = directory();
    disk.reopen(DirectoryOptions { quota_bytes: Some(QUOTA), ..options() });
    let put = |disk: &Disk, name: &str| {
        let node = disk.store.create(&path(name), new(Kind::File)).unwrap();
        let target = "x".repeat(4_000);
        disk.node("").names().unwrap().replace_with(
            &Name::new(name).unwrap(),
            node.identity(),
            Replacement::link(&target),
        )
    };
    let made = (0..100).take_while(|number| put(&disk, &format!("link{number}")).is_ok()).count();
    let held = |disk: &Disk| {
        let blocks = |number| fs::symlink_metadata(disk.folder().join(format!("link{number}"))).unwrap().blocks();
        (0..made).map(blocks).sum::<u64>() * 512
    };
    if held(&disk) == 0 {
        // This file system counts nothing of a link.
        return;
    }
    assert!(made <= 16 && left(&disk) < 4_096, "{made}");
    assert_eq!(put(&disk, "more").err(), Some(Error::Full));
    assert_eq!(disk.node("more").target(), Ok(None));
    disk.remove("link0").unwrap();
    assert!(left(&disk) >= 4_096);
    let before = left(&disk);
    disk.reopen(DirectoryOptions { quota_bytes: Some(QUOTA), ..options() });
    assert_eq!(left(&disk), before);
}

/// What is left of a quota.
fn left(disk: &Disk) -> u64 {
    disk.store.space().unwrap().free_bytes
}

#[test]
fn a_file_without_a_name_counts_for_the_quota_until_it_is_closed() {
    const QUOTA: u64 = 1 << 20;
    let mut disk = directory();
    disk.reopen(DirectoryOptions { quota_bytes: Some(QUOTA), ..options() });
    let empty = left(&disk);
    for way in ["removed", "replaced", "linked over"] {
        let node = disk.file("file", &[1; 300_000]);
        let again = disk.find_for("file", Use::Read).unwrap().0;
        let other = disk.file("other", &[1]);
        match way {
            "removed" => disk.remove("file").unwrap(),
            "replaced" => {
                disk.store.rename(&path("other"), &path("file"), other.identity(), Replace::Yes).unwrap();
            }
            _ => disk.store.link(&path("other"), &path("file"), other.identity(), Replace::Yes).unwrap(),
        }
        assert!(left(&disk) <= empty - 300_000, "{way}");
        node.write_at(&[1; 400_000], 300_000).unwrap();
        assert!(left(&disk) <= empty - 700_000, "{way}");
        assert_eq!(node.write_at(&[1; 400_000], 700_000), Err(Error::Full), "{way}");
        node.set_length(500_000).unwrap();
        assert!(left(&disk) > empty - 600_000, "{way}");
        drop(node);
        assert!(left(&disk) <= empty - 500_000, "{way}: another one has it open");
        drop(again);
        drop(other);
        for name in disk.names("") {
            disk.remove(&name).unwrap();
        }
        assert_eq!(left(&disk), empty, "{way}");
    }
}

#[test]
fn a_stream_of_a_file_without_a_name_counts_for_the_quota_until_it_is_closed() {
    const QUOTA: u64 = 1 << 20;
    let mut disk = directory();
    disk.reopen(DirectoryOptions { quota_bytes: Some(QUOTA), ..options() });
    let empty = left(&disk);
    let node = disk.file("file", b"data");
    let stream = node.extras().create_stream("s").unwrap();
    stream.write_at(&[1; 300_000], 0).unwrap();
    disk.remove("file").unwrap();
    assert!(left(&disk) <= empty - 300_000);
    let _ = stream.write_at(&[1; 400_000], 300_000);
    assert_eq!(stream.write_at(&[1; 500_000], 700_000), Err(Error::Full));
    drop(node);
    assert!(left(&disk) <= empty - 300_000);
    drop(stream);
    assert_eq!(left(&disk), empty);
    // One that nobody has open is free at once.
    let node = disk.file("file", b"data");
    node.extras().create_stream("s").unwrap().write_at(&[1; 300_000], 0).unwrap();
    node.extras().remove_stream("s").unwrap();
    drop(node);
    disk.remove("file").unwrap();
    assert_eq!(left(&disk), empty);
}

#[test]
fn files_that_come_and_go_while_they_are_opened_leave_nothing_counted() {
    let mut disk = directory();
    disk.reopen(DirectoryOptions { quota_bytes: Some(1 << 20), ..options() });
    let empty = left(&disk);
    let store = &*disk.store;
    std::thread::scope(|threads| {
        for _ in 0..3 {
            threads.spawn(|| {
                for _ in 0..200 {
                    let found = store.resolve(&path("file"), Use::ReadWrite);
                    if let Ok(Resolved::Found { node, .. }) = found {
                        let _ = node.write_at(&[1; 5_000], 0);
                        let _ = store.remove(&path("file"), node.identity());
                        let _ = node.write_at(&[1; 5_000], 5_000);
                    }
                    let _ = store.create(
                        &path("file"),
                        NewNode { kind: Kind::File, attributes: 0, security: None, owner: None },
                    );
                }
            });
        }
    });
    let _ = disk.remove("file");
    assert_eq!(left(&disk), empty);
}

#[test]
fn a_node_is_prepared_for_more_than_it_was_opened_for() {
    let disk = directory();
    disk.file("file", b"data");
    for usage in [Use::Metadata, Use::Read] {
        let node = disk.find_for("file", usage).unwrap().0;
        assert_eq!(node.write_at(b"x", 0), Err(Error::Denied));
        node.prepare(Use::ReadWrite).unwrap();
        node.prepare(Use::Read).unwrap();
        node.write_at(b"D", 0).unwrap();
        disk.rename("file", "moved", Replace::No).unwrap();
        assert_eq!(read_all(&*node), b"Data");
        assert!(node.descriptor().is_some());
        disk.rename("moved", "file", Replace::No).unwrap();
    }
}

#[test]
fn many_names_in_one_folder_cost_no_scan_each() {
    const FILES: usize = 3000;
    let disk = memory_directory();
    disk.directory("folder");
    for index in 0..FILES {
        let name = format!("folder\\File{index}");
        assert_eq!(disk.find(&name).err(), Some(Error::NotFound));
        disk.store.create(&path(&name), new(Kind::File)).unwrap();
        assert_eq!(disk.find(&name.to_uppercase()).unwrap().1, name);
    }
    assert_eq!(disk.names("folder").len(), FILES);
}

#[test]
fn what_other_programs_write_into_our_attributes_does_no_harm() {
    let disk = directory();
    let node = disk.file("file", b"data");
    let file = disk.folder().join("file");
    let garbage: [&[u8]; 4] = [b"", b"\x01", &[0xFF; 30], &[1; 900]];
    for bytes in garbage {
        for key in ["user.multilane", "user.multilane.stream.s", "user.multilane.long.x", "user.multilane.sd.side"] {
            setxattr(&file, key, bytes, XattrFlags::empty()).unwrap();
        }
        node.metadata().unwrap();
        node.extras().streams().unwrap();
        let _ = node.extras().stream("s").unwrap().map(|(_, stream)| stream.read_at(&mut [0; 10], 0));
        assert!(node.extras().security().is_err(), "there was one, or so it seems");
        assert!(node.extras().extended().unwrap().is_empty());
    }
    node.change(&Changes { attributes: AttributeChange::to(0x22), ..Changes::default() }).unwrap();
    assert_eq!(node.metadata().unwrap().attributes, 0x22);
    node.extras().set_security(b"descriptor").unwrap();
    assert_eq!(node.extras().security().unwrap().unwrap(), b"descriptor");
    disk.remove("file").unwrap();
}

#[test]
fn a_stream_whose_side_file_is_lost_is_gone() {
    let disk = directory();
    let node = disk.file("file", b"");
    node.extras().create_stream("s").unwrap().write_at(&[1; 5000], 0).unwrap();
    let (_, open) = node.extras().stream("s").unwrap().unwrap();
    fs::remove_dir_all(disk.folder().join(".multilane")).unwrap();
    assert!(node.extras().streams().unwrap().is_empty());
    assert!(node.extras().stream("s").unwrap().is_none());
    assert_eq!(open.read_at(&mut [0; 8], 0), Err(Error::Gone));
    node.extras().create_stream("s").unwrap().write_at(&[2; 5000], 0).unwrap();
    assert_eq!(read_all(&*node.extras().stream("s").unwrap().unwrap().1), [2; 5000]);
}

#[test]
fn a_descriptor_whose_side_file_is_lost_is_not_missing() {
    let disk = directory();
    let node = disk.file("file", b"");
    assert_eq!(node.extras().security(), Ok(None));
    node.extras().set_security(&[1; 60_000]).unwrap();
    fs::remove_dir_all(disk.folder().join(".multilane")).unwrap();
    assert!(matches!(node.extras().security(), Err(Error::Io(_))));
    node.extras().set_security(&[2; 60_000]).unwrap();
    assert_eq!(node.extras().security().unwrap().unwrap(), [2; 60_000]);
}

#[test]
fn a_descriptor_that_is_replaced_is_never_seen_to_be_missing() {
    let disk = directory();
    let node = disk.file("file", b"");
    node.extras().set_security(&[1; 60_000]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..200 {
                let length = if round % 2 == 0 { 100 } else { 60_000 };
                node.extras().set_security(&vec![1; length]).unwrap();
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            assert_ne!(node.extras().security(), Ok(None));
        }
    });
}

#[test]
fn our_names_are_no_extended_attributes_of_clients() {
    let disk = directory();
    let node = disk.file("file", b"");
    for name in ["multilane", "MULTILANE", "multilane.sd", "Multilane.stream.x"] {
        assert_eq!(node.extras().set_extended(name, b"x"), Err(Error::Denied), "{name}");
    }
    node.extras().set_extended("multilane2", b"x").unwrap();
    assert_eq!(node.extras().set_extended(&"x".repeat(251), b"x"), Err(Error::NameInvalid));
    assert_eq!(node.extras().set_extended("large", &[1; 100_000]), Err(Error::TooLarge));
    assert_eq!(node.extras().extended().unwrap().len(), 1);
}

#[test]
fn data_that_is_not_in_memory_is_not_waited_for() {
    const LENGTH: usize = 4 << 20;
    let disk = directory();
    let node = disk.file("file", &[7; LENGTH]);
    node.sync().unwrap();
    fadvise(node.descriptor().unwrap(), 0, None, Advice::DontNeed).unwrap();
    let mut buffer = vec![0; 1 << 20];
    for offset in (0..LENGTH).step_by(buffer.len()) {
        match node.try_read_at(&mut buffer, offset as u64) {
            Ok(count) => assert_eq!(count, buffer.len()),
            Err(error) => assert_eq!(error, Error::WouldBlock),
        }
        assert_eq!(node.read_at(&mut buffer, offset as u64).unwrap(), buffer.len());
        assert!(buffer.iter().all(|byte| *byte == 7));
    }
    assert_eq!(node.read_at(&mut buffer, LENGTH as u64 - 10).unwrap(), 10);
}

#[test]
fn what_is_resident_is_told_up_to_the_end_of_the_data() {
    const LENGTH: usize = 1 << 20;
    for disk in [directory(), memory_directory()] {
        let node = disk.file("file", &[7; LENGTH]);
        for (offset, length, there) in [(0, LENGTH, LENGTH), (5, 9, 9), (LENGTH - 3, 70_000, 3), (LENGTH, 1, 0)] {
            node.read_at(&mut vec![0; length], offset as u64).unwrap();
            match node.try_resident(offset as u64, length) {
                Ok(count) => assert_eq!(count, there),
                // Not every file system can tell.
                Err(error) => assert_eq!(error, Error::WouldBlock),
            }
        }
        assert_eq!(node.try_resident(u64::MAX, usize::MAX), Ok(0));
    }
}

#[test]
fn a_file_we_may_not_read_still_shows_what_it_is() {
    let disk = directory();
    fs::write(disk.folder().join("secret"), "secret").unwrap();
    fs::set_permissions(disk.folder().join("secret"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(disk.folder().join("secret")).is_ok() {
        return;
    }
    assert_eq!(disk.find_for("secret", Use::Read).err(), Some(Error::Denied));
    assert_eq!(disk.find_for("secret", Use::ReadWrite).err(), Some(Error::Denied));
    let node = disk.find_for("SECRET", Use::Metadata).unwrap().0;
    assert_eq!((node.metadata().unwrap().length, node.metadata().unwrap().attributes), (6, 0x21));
    assert_eq!(node.read_at(&mut [0; 6], 0), Err(Error::Denied));
    assert_eq!(node.prepare(Use::Read), Err(Error::Denied));
    assert_eq!(disk.names(""), ["secret"]);
    fs::set_permissions(disk.folder().join("secret"), fs::Permissions::from_mode(0o400)).unwrap();
    node.prepare(Use::Read).unwrap();
    assert_eq!(read_all(&*node), b"secret");
    assert_eq!(node.prepare(Use::ReadWrite), Err(Error::Denied));
    let node = disk.node("secret");
    assert_eq!(read_all(&*node), b"secret");
    assert_eq!(node.write_at(b"x", 0), Err(Error::Denied));
}

#[test]
fn who_must_not_wait_gives_back_no_large_file_of_memory() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return };
    let store = DirectoryStore::open(folder.path(), DirectoryOptions::default()).unwrap();
    for (name, bytes, goes_elsewhere) in [("small", 4 << 10, false), ("large", 4 << 20, true)] {
        let path = SharePath::parse(name).unwrap();
        let new = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
        let node = store.create(&path, new).unwrap();
        if node.waits() != Waits::Never {
            return;
        }
        node.write_at(&vec![7; bytes], 0).unwrap();
        store.remove(&path, node.identity()).unwrap();
        let (elsewhere, dropped) = std::sync::mpsc::channel();
        let drops = std::thread::spawn(move || {
            waiting::forbid(waiting::Forbidden::Panics);
            waiting::discard_to(Box::new(move |_, discarded| elsewhere.send(discarded).unwrap()));
            drop(node);
        });
        drops.join().unwrap();
        assert_eq!(dropped.try_recv().is_ok(), goes_elsewhere, "{name}");
    }
}

#[test]
fn who_must_not_wait_closes_nothing_that_lies_on_a_disk() {
    let disk = directory();
    disk.file("file", b"data").extras().create_stream("s").unwrap().write_at(&[1; 5000], 0).unwrap();
    disk.directory("folder");
    let read = || disk.find_for("file", Use::Read).unwrap().0;
    let nodes = [read(), disk.node("file"), disk.node("folder"), read().extras().stream("s").unwrap().unwrap().1];
    if nodes[0].waits() != Waits::ForData {
        return;
    }
    for node in nodes {
        let kind = node.kind();
        let (elsewhere, dropped) = std::sync::mpsc::channel();
        let drops = std::thread::spawn(move || {
            waiting::forbid(waiting::Forbidden::Panics);
            waiting::discard_to(Box::new(move |_, discarded| elsewhere.send(discarded).unwrap()));
            drop(node);
        });
        drops.join().unwrap();
        assert!(dropped.try_recv().is_ok(), "{kind:?}");
    }
}

#[test]
fn what_another_program_changes_of_a_file_that_was_just_made_is_told_to_who_asks_next() {
    for place in [tempfile::tempdir_in("/dev/shm").unwrap(), tempfile::tempdir().unwrap()] {
        let store = DirectoryStore::open(place.path(), options()).unwrap();
        for number in 0..100 {
            store::arrived();
            let name = format!("file {number}");
            let new = NewNode { kind: Kind::File, attributes: 2, security: Some(b"made"), owner: None };
            let node = store.create(&path(&name), new).unwrap();
            for (key, value) in [("user.multilane.sd", b"changed".as_slice()), ("user.multilane", b"")] {
                setxattr(place.path().join(&name), key, value, XattrFlags::empty()).unwrap();
            }
            // Another request.
            store::arrived();
            assert_eq!(node.extras().security().unwrap().unwrap(), b"changed", "{number}");
            assert_ne!(node.metadata().unwrap().attributes & 2, 2, "{number}");
        }
    }
}
