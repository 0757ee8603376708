//! Files that other programs copy with their attributes, as `cp -a`, `rsync -X` and a restore from backup do. What does not fit into
//! attributes lies elsewhere, and the copy's attributes lead to the original's.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use crate::common::*;
use rustix::fs::{XattrFlags, getxattr, listxattr, setxattr};
use store::{DirectoryOptions, Error, Node, Replace, Use, waiting};

static LONG: [u8; 70_000] = [5; 70_000];
const STREAM_KEY: &str = "user.multilane.stream.long";

fn value(file: &Path, key: &str) -> Vec<u8> {
    let mut bytes = vec![0; 65536];
    let length = getxattr(file, key, &mut bytes).unwrap();
    bytes[..length].to_vec()
}

fn set_value(file: &Path, key: &str, bytes: &[u8]) {
    setxattr(file, key, bytes, XattrFlags::empty()).unwrap();
}

/// Copies a file as `cp -a` does.
fn copy(from: &Path, to: &Path) {
    fs::copy(from, to).unwrap();
    copy_attributes(from, to);
}

fn copy_attributes(from: &Path, to: &Path) {
    let mut keys = vec![0; 65536];
    let length = listxattr(from, &mut keys).unwrap();
    for key in keys[..length].split(|byte| *byte == 0).filter(|key| key.starts_with(b"user.")) {
        let key = std::str::from_utf8(key).unwrap();
        set_value(to, key, &value(from, key));
    }
}

/// Copies a folder and all that is in it.
fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (source, target) = {
            let entry = entry.unwrap();
            (entry.path(), to.join(entry.file_name()))
        };
        if source.is_dir() { copy_all(&source, &target) } else { copy(&source, &target) }
    }
    copy_attributes(from, to);
}

/// A file with a long stream and a long descriptor, and its copy.
fn copied(disk: &Disk) {
    let node = disk.file("original", b"data");
    node.extras().create_stream("long").unwrap().write_at(&LONG, 0).unwrap();
    node.extras().set_security(&[1; 60_000]).unwrap();
    copy_in(disk, "original", "copy");
}

fn copy_in(disk: &Disk, from: &str, to: &str) {
    copy(&disk.folder().join(from), &disk.folder().join(to));
}

fn stream(disk: &Disk, name: &str) -> Arc<dyn Node> {
    disk.node(name).extras().stream("long").unwrap().unwrap().1
}

/// A stream as the server opens it for its data.
fn opened(disk: &Disk, name: &str) -> Arc<dyn Node> {
    let stream = stream(disk, name);
    stream.prepare(Use::ReadWrite).unwrap();
    stream
}

fn disks() -> [Disk; 2] {
    [directory(), memory_directory()]
}

#[track_caller]
fn is_whole(disk: &Disk, name: &str) {
    assert!(read_all(&*stream(disk, name)) == LONG, "the stream of {name}");
    assert_eq!(disk.node(name).extras().security().unwrap().unwrap(), [1; 60_000], "{name}");
}

#[test]
fn what_is_written_to_a_copys_stream_is_not_in_the_originals() {
    type Change = fn(&dyn Node) -> Result<(), Error>;
    let changes: [Change; 5] = [
        |stream| stream.write_at(b"changed", 10),
        |stream| stream.append(b"changed", &mut Ok).map(drop),
        |stream| stream.set_length(9),
        |stream| stream.zero(0, 4096, true),
        |stream| stream.zero(0, 4096, false),
    ];
    for disk in disks() {
        for (number, change) in changes.into_iter().enumerate() {
            for (name, open) in [("c", stream as fn(&Disk, &str) -> Arc<dyn Node>), ("o", opened)] {
                if number == 0 && name == "c" {
                    copied(&disk);
                }
                let name = format!("{name}{number}");
                copy_in(&disk, "original", &name);
                let stream = open(&disk, &name);
                assert!(read_all(&*stream) == LONG);
                change(&*stream).unwrap();
                is_whole(&disk, "original");
                assert!(read_all(&*stream) != LONG, "it is changed");
                assert_eq!(read_all(&*stream), read_all(&*self::stream(&disk, &name)));
            }
        }
        opened(&disk, "original").write_at(b"of the original", 0).unwrap();
        assert_eq!(read_all(&*stream(&disk, "c0"))[..4], LONG[..4]);
    }
}

#[test]
fn what_goes_with_a_copy_is_not_the_originals() {
    for disk in disks() {
        copied(&disk);
        let of_original = kept_beside(&disk).len();
        disk.remove("copy").unwrap();
        is_whole(&disk, "original");

        copy_in(&disk, "original", "copy");
        disk.node("copy").extras().remove_stream("long").unwrap();
        disk.node("copy").extras().set_security(&[2; 50_000]).unwrap();
        is_whole(&disk, "original");
        assert!(disk.node("copy").extras().stream("long").unwrap().is_none());

        disk.remove("copy").unwrap();
        copy_in(&disk, "original", "copy");
        disk.node("copy").extras().create_stream("other").unwrap().write_at(b"other", 0).unwrap();
        disk.node("copy").extras().rename_stream("other", "long", Replace::Yes).unwrap();
        is_whole(&disk, "original");

        disk.remove("copy").unwrap();
        for replace in [Disk::rename, Disk::link] {
            copy_in(&disk, "original", "copy");
            disk.file("new", b"");
            replace(&disk, "new", "copy", Replace::Yes).unwrap();
            is_whole(&disk, "original");
            disk.remove("copy").unwrap();
            let _ = disk.remove("new");
        }
        assert_eq!(kept_beside(&disk).len(), of_original, "the original's");
        disk.remove("original").unwrap();
        assert_eq!(kept_beside(&disk).len(), 0);
    }
}

#[test]
fn a_copy_that_was_opened_outlives_the_original() {
    for disk in disks() {
        copied(&disk);
        let of_original = kept_beside(&disk).len();
        let held = stream(&disk, "copy");
        held.prepare(Use::Read).unwrap();
        disk.node("copy").extras().security().unwrap();
        disk.remove("original").unwrap();
        is_whole(&disk, "copy");
        assert!(read_all(&*held) == LONG);
        assert_eq!(kept_beside(&disk).len(), of_original);
        disk.remove("copy").unwrap();
        assert_eq!(kept_beside(&disk).len(), 0, "it had its own");
    }
}

#[test]
fn a_directory_that_is_copied_has_its_own_streams() {
    let disk = directory();
    let node = disk.directory("original");
    node.extras().create_stream("long").unwrap().write_at(&LONG, 0).unwrap();
    copy_all(&disk.folder().join("original"), &disk.folder().join("copy"));
    opened(&disk, "copy").write_at(b"changed", 0).unwrap();
    assert!(read_all(&*stream(&disk, "original")) == LONG);
    disk.remove("copy").unwrap();
    assert!(read_all(&*stream(&disk, "original")) == LONG);
}

#[test]
fn a_short_stream_grows_in_the_copy_and_in_the_original() {
    for disk in disks() {
        disk.file("original", b"").extras().create_stream("long").unwrap().write_at(b"short", 0).unwrap();
        copy_in(&disk, "original", "copy");
        opened(&disk, "original").write_at(&LONG, 0).unwrap();
        opened(&disk, "copy").write_at(&[6; 70_000], 0).unwrap();
        assert!(read_all(&*stream(&disk, "original")) == LONG);
        assert!(read_all(&*stream(&disk, "copy")) == [6; 70_000]);
    }
}

#[test]
fn what_is_only_looked_at_is_not_copied() {
    let disk = directory();
    copied(&disk);
    let of_original = kept_beside(&disk).len();
    let stream = stream(&disk, "copy");
    assert_eq!(stream.metadata().unwrap().length, 70_000);
    assert_eq!(disk.node("copy").extras().streams().unwrap()[0].length, 70_000);
    stream.prepare(Use::Metadata).unwrap();
    stream.try_prepare(Use::Metadata).unwrap();
    disk.node("copy").extras().rename_stream("long", "other", Replace::No).unwrap();
    assert_eq!(kept_beside(&disk).len(), of_original);
    stream.prepare(Use::ReadWrite).unwrap();
    assert_eq!(kept_beside(&disk).len(), of_original + 1);
    assert!(read_all(&*stream) == LONG);
}

#[test]
fn a_thread_that_must_not_wait_does_not_copy() {
    for disk in disks() {
        copied(&disk);
        let stream = stream(&disk, "copy");
        for usage in [Use::Read, Use::ReadWrite] {
            assert_eq!(stream.try_prepare(usage), Err(Error::WouldBlock));
        }
        stream.prepare(Use::Read).unwrap();
        stream.try_prepare(Use::ReadWrite).unwrap();
    }
    let disk = memory_directory();
    disk.file("original", b"").extras().create_stream("long").unwrap().write_at(&[5; 2 << 20], 0).unwrap();
    copy_in(&disk, "original", "copy");
    let stream = stream(&disk, "copy");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            waiting::forbid(waiting::Forbidden::Told);
            if stream.waits() == store::Waits::Never {
                assert_eq!(stream.write_at(b"x", 0), Err(Error::WouldBlock));
            }
        });
    });
    stream.write_at(b"x", 0).unwrap();
}

#[test]
fn a_copy_that_may_not_be_changed_is_read() {
    let mut disk = directory();
    copied(&disk);
    let of_original = kept_beside(&disk).len();
    disk.reopen(DirectoryOptions { read_only: true, ..DirectoryOptions::default() });
    let found = disk.find_for("copy", Use::Read).unwrap().0.extras().stream("long").unwrap().unwrap().1;
    found.try_prepare(Use::Read).unwrap();
    found.prepare(Use::Read).unwrap();
    assert_eq!(found.prepare(Use::ReadWrite), Err(Error::ReadOnly));
    assert!(read_all(&*found) == LONG);
    assert_eq!(found.write_at(b"x", 0), Err(Error::ReadOnly));
    assert_eq!(disk.find_for("copy", Use::Read).unwrap().0.extras().security().unwrap().unwrap(), [1; 60_000]);
    assert_eq!(kept_beside(&disk).len(), of_original);
}

#[test]
fn a_copy_that_there_is_no_room_for_is_read() {
    let mut disk = directory();
    let node = disk.file("original", b"");
    node.extras().create_stream("long").unwrap().write_at(&LONG, 0).unwrap();
    drop(node);
    copy_in(&disk, "original", "copy");
    disk.reopen(DirectoryOptions { quota_bytes: Some(100_000), ..DirectoryOptions::default() });
    let free = || disk.store.space().unwrap().free_bytes;
    let held = free();
    let copied = opened(&disk, "copy");
    assert!(read_all(&*copied) == LONG);
    assert_eq!(copied.write_at(b"x", 0), Err(Error::Full));
    assert_eq!(copied.set_length(3), Err(Error::Full));
    assert_eq!(copied.append(b"x", &mut Ok), Err(Error::Full));
    assert!(read_all(&*stream(&disk, "original")) == LONG);
    assert_eq!((free(), kept_beside(&disk).len()), (held, 1), "nothing is left of what was tried");
    disk.remove("copy").unwrap();
    assert!(read_all(&*stream(&disk, "original")) == LONG);
}

#[test]
fn a_copys_data_count_for_the_quota_while_they_are_there() {
    let mut disk = directory();
    disk.file("original", b"").extras().create_stream("long").unwrap().write_at(&LONG, 0).unwrap();
    copy_in(&disk, "original", "copy");
    disk.reopen(DirectoryOptions { quota_bytes: Some(1 << 20), ..DirectoryOptions::default() });
    let free = || disk.store.space().unwrap().free_bytes;
    let before = free();
    assert!(before <= (1 << 20) - LONG.len() as u64);
    let copied = opened(&disk, "copy");
    assert!(free() <= before - LONG.len() as u64);
    drop(copied);
    disk.remove("copy").unwrap();
    assert!(free() >= before);
    opened(&disk, "original").write_at(&LONG, 0).unwrap();
    disk.remove("original").unwrap();
    assert!(free() >= (1 << 20) - 8192, "the lock is left");
}

#[test]
fn a_copy_keeps_the_holes_of_a_stream() {
    for disk in disks() {
        let node = disk.file("original", b"");
        let long = node.extras().create_stream("long").unwrap();
        long.write_at(&LONG, 1 << 30).unwrap();
        long.write_at(b"middle", 1 << 20).unwrap();
        copy_in(&disk, "original", "copy");
        let copied = opened(&disk, "copy");
        let known = copied.metadata().unwrap();
        assert_eq!(known.length, (1 << 30) + LONG.len() as u64);
        assert!(known.allocated < 1 << 20, "{}", known.allocated);
        let mut data = [0; 8];
        copied.read_at(&mut data, 1 << 20).unwrap();
        assert_eq!(&data, b"middle\0\0");
        let mut data = vec![0; LONG.len()];
        copied.read_at(&mut data, 1 << 30).unwrap();
        assert!(data == LONG);
    }
}

#[test]
fn all_who_open_a_copy_at_once_have_one_stream() {
    const WRITERS: usize = 8;
    for disk in disks() {
        copied(&disk);
        let early = stream(&disk, "copy");
        assert!(read_all(&*early) == LONG);
        std::thread::scope(|scope| {
            for number in 0..WRITERS {
                let disk = &disk;
                scope.spawn(move || {
                    let stream = stream(disk, "copy");
                    if number % 2 == 0 {
                        stream.prepare(Use::ReadWrite).unwrap();
                    }
                    stream.write_at(&[100 + number as u8; 1000], number as u64 * 1000).unwrap();
                });
            }
        });
        let data = read_all(&*stream(&disk, "copy"));
        for number in 0..WRITERS {
            assert!(data[number * 1000..][..1000].iter().all(|byte| *byte == 100 + number as u8), "{number}");
        }
        assert_eq!(read_all(&*early), data, "who had it open before sees what is written");
        is_whole(&disk, "original");
        assert_eq!(kept_beside(&disk).iter().filter(|side| fs::metadata(side).unwrap().len() == 70_000).count(), 2);
    }
}

#[test]
fn a_copy_that_a_crash_cut_short_is_made_again() {
    let disk = directory();
    copied(&disk);
    let of_original = kept_beside(&disk).len();
    let (original, copy) = (disk.folder().join("original"), disk.folder().join("copy"));
    opened(&disk, "copy").write_at(b"lost", 0).unwrap();
    // The new side file has its name, and the attribute leads to the old one yet.
    set_value(&copy, STREAM_KEY, &value(&original, STREAM_KEY));
    assert_eq!(kept_beside(&disk).len(), of_original + 1);
    let again = opened(&disk, "copy");
    assert!(read_all(&*again) == LONG);
    again.write_at(b"kept", 0).unwrap();
    assert_eq!(read_all(&*stream(&disk, "copy"))[..4], *b"kept");
    assert_eq!(kept_beside(&disk).len(), of_original + 1);
    is_whole(&disk, "original");
    // The same where a stream outgrew its attribute.
    let node = disk.file("file", b"");
    node.extras().create_stream("long").unwrap().write_at(b"short", 0).unwrap();
    let short = value(&disk.folder().join("file"), STREAM_KEY);
    opened(&disk, "file").write_at(&LONG, 0).unwrap();
    set_value(&disk.folder().join("file"), STREAM_KEY, &short);
    opened(&disk, "file").write_at(&[7; 50_000], 0).unwrap();
    assert!(read_all(&*stream(&disk, "file")) == [7; 50_000]);
}

#[test]
fn a_share_that_was_restored_has_all_its_streams() {
    let from = directory();
    copied(&from);
    from.directory("folder").extras().create_stream("long").unwrap().write_at(&LONG, 0).unwrap();
    let mut disk = directory();
    copy_all(from.folder(), disk.folder());
    disk.reopen(DirectoryOptions::default());
    for name in ["original", "copy"] {
        is_whole(&disk, name);
    }
    assert!(read_all(&*stream(&disk, "folder")) == LONG);
    for name in ["original", "copy", "folder"] {
        opened(&disk, name).write_at(name.as_bytes(), 0).unwrap();
    }
    for name in ["original", "copy", "folder"] {
        assert_eq!(read_all(&*stream(&disk, name))[..name.len()], *name.as_bytes());
    }
    disk.remove("copy").unwrap();
    assert_eq!(read_all(&*stream(&disk, "original"))[..8], *b"original");
    assert_eq!(disk.node("original").extras().security().unwrap().unwrap(), [1; 60_000]);
}

/// Makes a side file and what names it those of an earlier version, which wrote no owner.
fn make_earlier(disk: &Disk, key: &str, id: std::ops::Range<usize>) {
    let file = disk.folder().join("original");
    let bytes = value(&file, key);
    let id: String = bytes[id].iter().map(|byte| format!("{byte:02x}")).collect();
    let side = kept_beside(disk).into_iter().find(|side| side.to_string_lossy().contains(&id)).unwrap();
    fs::rename(&side, side.with_file_name(&id)).unwrap();
    set_value(&file, key, &bytes[..bytes.len() - 32]);
}

#[test]
fn what_an_earlier_version_kept_is_the_files_own() {
    let disk = directory();
    let node = disk.file("original", b"");
    node.extras().create_stream("long").unwrap().write_at(&LONG, 0).unwrap();
    node.extras().set_security(&[1; 60_000]).unwrap();
    let held = kept_beside(&disk).len();
    make_earlier(&disk, STREAM_KEY, 2..18);
    if held > 1 {
        make_earlier(&disk, "user.multilane.sd.side", 0..16);
    }
    is_whole(&disk, "original");
    opened(&disk, "original").write_at(b"new", 0).unwrap();
    assert_eq!(read_all(&*stream(&disk, "original"))[..3], *b"new");
    assert_eq!(kept_beside(&disk).len(), held);
    disk.node("original").extras().set_security(&[2; 50_000]).unwrap();
    assert_eq!(kept_beside(&disk).len(), held);
    disk.remove("original").unwrap();
    assert_eq!(kept_beside(&disk).len(), 0);
}

#[test]
fn nobody_owns_anothers_stream_by_writing_that_it_does() {
    let disk = directory();
    copied(&disk);
    let thief = disk.folder().join("copy");
    let honest = value(&thief, STREAM_KEY);
    let mut forged = honest.clone();
    let owner = forged.len() - 32;
    forged[owner + 8..owner + 16].copy_from_slice(&fs::metadata(&thief).unwrap().ino().to_le_bytes());
    let open = stream(&disk, "copy");
    let unborn = [&forged[..owner + 16], &[0; 16]].concat();
    for value in [&forged[..], &unborn, &honest[..owner]] {
        set_value(&thief, STREAM_KEY, value);
        assert!(disk.node("copy").extras().stream("long").unwrap().is_none(), "there is no side file of that name");
        let _ = open.write_at(b"stolen", 0);
        let _ = open.set_length(1);
        disk.node("copy").extras().remove_stream("long").unwrap();
        is_whole(&disk, "original");
    }
}

#[test]
fn copies_where_attributes_lie_beside_files_have_none() {
    let disk = beside();
    copied(&disk);
    assert!(disk.node("copy").extras().streams().unwrap().is_empty());
    disk.node("copy").extras().create_stream("long").unwrap().write_at(b"own", 0).unwrap();
    disk.remove("copy").unwrap();
    is_whole(&disk, "original");
    disk.remove("original").unwrap();
    assert_eq!(kept_beside(&disk).len(), 0);
}

#[test]
fn copies_across_what_is_mounted_in_a_share_have_their_own() {
    let mut disk = directory();
    let Some(mounted) = Mounted::new(&disk.folder().join("mounted"), "size=16m") else { return };
    disk.reopen(DirectoryOptions::default());
    copied(&disk);
    copy(&disk.folder().join("copy"), &mounted.0.join("there"));
    opened(&disk, "mounted\\there").write_at(b"there", 0).unwrap();
    copy(&mounted.0.join("there"), &mounted.0.join("beside"));
    copy(&mounted.0.join("there"), &disk.folder().join("back"));
    for name in ["mounted\\beside", "back"] {
        assert_eq!(read_all(&*stream(&disk, name))[..5], *b"there");
        opened(&disk, name).write_at(b"again", 0).unwrap();
        disk.remove(name).unwrap();
    }
    assert_eq!(read_all(&*stream(&disk, "mounted\\there"))[..5], *b"there");
    is_whole(&disk, "original");
    let held = kept_beside(&disk).len();
    disk.reopen(DirectoryOptions::default());
    opened(&disk, "mounted\\there").write_at(b"its own", 0).unwrap();
    assert_eq!(kept_beside(&disk).len(), held, "it is known again");
    disk.remove("mounted\\there").unwrap();
    assert_eq!(kept_beside(&disk).len(), held - 1);
}

/// A copy whose stream of this name went with the original.
fn with_lost_stream(disk: &Disk, name: &str) -> Arc<dyn Node> {
    let original = disk.file("original", b"data");
    original.extras().create_stream(name).unwrap().write_at(&LONG, 0).unwrap();
    copy_in(disk, "original", "copy");
    disk.remove("original").unwrap();
    disk.node("copy")
}

#[test]
fn a_stream_that_went_with_the_original_is_none_and_its_name_is_free() {
    type Take = fn(&dyn Node, &str) -> Result<(), Error>;
    let takes: [Take; 3] = [
        |node, name| node.extras().create_stream(name).map(drop),
        |node, name| node.extras().create_stream(&name.to_uppercase()).map(drop),
        |node, name| {
            node.extras().create_stream("other")?;
            node.extras().rename_stream("other", name, Replace::No)
        },
    ];
    for disk in disks() {
        for name in ["long", &"l".repeat(250)] {
            for take in takes {
                let node = with_lost_stream(&disk, name);
                assert!(node.extras().streams().unwrap().is_empty());
                assert!(node.extras().stream(name).unwrap().is_none());
                assert_eq!(node.extras().rename_stream(name, "new", Replace::No), Err(Error::NotFound));
                take(&*node, name).unwrap();
                node.extras().stream(name).unwrap().unwrap().1.write_at(b"new", 0).unwrap();
                assert_eq!(node.extras().streams().unwrap().len(), 1);
                node.extras().remove_stream(name).unwrap();
                assert!(node.extras().stream(name).unwrap().is_none());
                disk.remove("copy").unwrap();
            }
        }
    }
}

#[test]
fn a_stream_that_cannot_be_looked_at_is_not_taken_for_lost() {
    for disk in disks() {
        let node = disk.file("file", b"data");
        node.extras().create_stream("long").unwrap().write_at(&LONG, 0).unwrap();
        let side = kept_beside(&disk).remove(0);
        let aside = disk.folder().join("aside");
        fs::rename(&side, &aside).unwrap();
        // That may not be followed.
        std::os::unix::fs::symlink(&aside, &side).unwrap();
        let node = disk.node("file");
        assert_eq!(node.extras().streams().err(), Some(Error::Denied));
        assert_eq!(node.extras().create_stream("long").err(), Some(Error::Exists));
        fs::rename(&aside, &side).unwrap();
        assert!(read_all(&*stream(&disk, "file")) == LONG);
    }
}
