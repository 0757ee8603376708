//! The fence around a directory store's folder: nothing outside is reached, nothing strange is opened.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use store::{DirectoryOptions, DirectoryStore, Error, Kind, Name, Replace, Resolved, Use};

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn links_that_lead_outside_are_denied() {
    let disk = directory();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let root = disk.folder();
    symlink(outside.path(), root.join("absolute")).unwrap();
    symlink(outside.path().join("secret"), root.join("file")).unwrap();
    symlink("../", root.join("up")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    symlink("circle", root.join("circle")).unwrap();
    symlink("nowhere", root.join("dangling")).unwrap();
    for name in ["absolute", "file", "up", "magic", "circle", "dangling", "ABSOLUTE", "absolute\\secret", "UP\\x"] {
        for usage in [Use::Metadata, Use::Read, Use::ReadWrite] {
            assert_eq!(disk.find_for(name, usage).err(), Some(Error::Denied), "{name}");
        }
    }
    for name in ["absolute\\new", "up\\new", "magic\\new", "Absolute\\NEW"] {
        assert_eq!(disk.store.create(&path(name), new(Kind::File)).err(), Some(Error::Denied), "{name}");
        let file = disk.file("own", b"");
        let identity = file.identity();
        assert_eq!(disk.store.rename(&path("own"), &path(name), identity, Replace::Yes), Err(Error::Denied));
        assert_eq!(disk.store.link(&path("own"), &path(name), identity, Replace::Yes), Err(Error::Denied));
        assert_eq!(disk.store.remove(&path(name), identity), Err(Error::Denied));
        disk.remove("own").unwrap();
    }
    assert_eq!(disk.store.create(&path("dangling"), new(Kind::File)).err(), Some(Error::Exists));
    assert!(disk.names("").is_empty());
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
}

#[test]
fn what_is_behind_a_link_says_so() {
    for disk in [directory(), memory_directory()] {
        disk.directory("folder");
        disk.file("folder\\file", b"");
        symlink("folder", disk.folder().join("way")).unwrap();
        symlink("folder/file", disk.folder().join("link")).unwrap();
        for straight in ["", "folder", "folder\\file", "FOLDER\\File"] {
            assert!(!disk.node(straight).is_behind_link(), "{straight}");
        }
        for behind in ["way", "WAY", "way\\file", "Way\\FILE", "link", "LINK"] {
            assert!(disk.node(behind).is_behind_link(), "{behind}");
        }
        for (missing, is_behind) in [("folder\\new", false), ("way\\new", true), ("WAY\\new", true)] {
            let found = disk.store.resolve(&path(missing), Use::Metadata).unwrap();
            assert!(matches!(found, Resolved::Missing { parent, .. } if parent.is_behind_link() == is_behind));
        }
        let child = |name: &str| {
            disk.node("").names().unwrap().child(&Name::new(name).unwrap(), Use::Metadata).unwrap().unwrap().1
        };
        assert!(child("link").is_behind_link() && !child("folder").is_behind_link());
    }
}

#[test]
fn a_directory_that_was_moved_out_lies_nowhere() {
    let disk = directory();
    let (outer, inner) = (disk.directory("outer"), disk.directory("outer\\inner"));
    let outside = tempfile::tempdir().unwrap();
    fs::rename(disk.folder().join("outer"), outside.path().join("outer")).unwrap();
    let mut ways = vec![inner.above().unwrap().unwrap()];
    let end = loop {
        match ways.last().unwrap().above() {
            Ok(Some(above)) => ways.push(above),
            end => break end.map(|_| ()),
        }
    };
    assert_eq!((end, ways[0].identity()), (Err(Error::Gone), outer.identity()));
}

#[test]
fn links_inside_are_followed_and_removed_as_links() {
    let disk = directory();
    disk.directory("folder");
    disk.directory("folder\\sub");
    let file = disk.file("folder\\file", b"data");
    let root = disk.folder();
    symlink("folder", root.join("Link")).unwrap();
    symlink("../file", root.join("folder/sub/back")).unwrap();
    assert_eq!(disk.node("LINK\\FILE").identity(), file.identity());
    assert_eq!(disk.node("folder\\sub\\back").identity(), file.identity());
    assert_eq!(disk.names(""), ["Link", "folder"]);
    assert_eq!(disk.names("link\\sub"), ["back"]);
    let sub = disk.node("folder\\sub");
    assert_eq!(entry_metadata(&*sub, "back").unwrap().identity, file.identity());
    assert_eq!(entries(&*sub).unwrap()[0].file, file.identity().file);
    disk.file("link\\new", b"");
    assert_eq!(disk.names("folder"), ["file", "new", "sub"]);
    disk.link("folder\\sub\\back", "hard", Replace::No).unwrap();
    assert_eq!(disk.node("hard").identity(), file.identity());
    disk.rename("folder\\sub\\back", "folder\\sub\\forth", Replace::No).unwrap();
    disk.remove("folder\\sub\\forth").unwrap();
    disk.remove("LINK").unwrap();
    assert_eq!(read_all(&*disk.node("folder\\file")), b"data");
    assert_eq!(disk.names(""), ["folder", "hard"]);
}

#[test]
fn a_link_swapped_in_never_leads_outside() {
    const ROUNDS: usize = 3000;
    let disk = directory();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), "outside").unwrap();
    let root = disk.folder().to_owned();
    fs::create_dir(root.join("inside")).unwrap();
    fs::write(root.join("inside/file"), "inside!").unwrap();
    symlink(outside.path(), root.join("trap")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for (from, to) in [("inside", "spare"), ("trap", "inside"), ("inside", "trap"), ("spare", "inside")] {
                    fs::rename(root.join(from), root.join(to)).unwrap();
                }
            }
        });
        let mut read = 0;
        for round in 0..ROUNDS {
            let name = if round % 2 == 0 { "inside\\file" } else { "INSIDE\\File" };
            if let Ok((node, _)) = disk.find_for(name, Use::Read) {
                assert_eq!(read_all(&*node), b"inside!");
                read += 1;
            }
            let made = disk.store.create(&path(&format!("inside\\new{round}")), new(Kind::File));
            if made.is_ok() {
                let _ = disk.remove(&format!("inside\\new{round}"));
            }
            let _ = disk.rename("inside\\file", "inside\\file", Replace::No);
        }
        done.store(true, Ordering::Relaxed);
        assert!(read > 0);
    });
    let left: Vec<_> = fs::read_dir(outside.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["file"]);
}

#[test]
fn pipes_and_their_like_are_not_there_to_open() {
    let disk = directory();
    make_fifo(&disk.folder().join("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(disk.folder().join("socket")).unwrap();
    for name in ["pipe", "PIPE", "socket"] {
        for usage in [Use::Metadata, Use::Read, Use::ReadWrite] {
            assert_eq!(disk.find_for(name, usage).err(), Some(Error::Denied));
        }
        assert_eq!(disk.store.create(&path(name), new(Kind::File)).err(), Some(Error::Exists));
        assert_eq!(entry_metadata(&*disk.node(""), name).err(), Some(Error::NotFound));
    }
    assert!(disk.names("").is_empty());
    disk.file("file", b"");
    assert_eq!(disk.rename("file", "pipe", Replace::Yes), Err(Error::Denied));
    symlink("pipe", disk.folder().join("link")).unwrap();
    assert_eq!(disk.names(""), ["file"]);
    assert_eq!(disk.find("link").err(), Some(Error::Denied));
}

#[test]
fn the_reserved_folder_is_out_of_reach() {
    let disk = directory();
    disk.file("file", b"").extras().create_stream("s").unwrap().write_at(&[1; 5000], 0).unwrap();
    assert!(disk.folder().join(".multilane").is_dir());
    assert_eq!(fs::metadata(disk.folder().join(".multilane")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(disk.names(""), ["file"]);
    disk.directory("folder");
    let stand_ins = [".mult\u{F0C4}\u{F0B1}lane", "folder\\.mult\u{F0C4}\u{F0B1}lane", ".mult\u{F0C4}\u{F0B1}lane\\x"];
    for name in [".multilane", ".MULTILANE", ".Multilane\\x", "folder\\.multilane"].into_iter().chain(stand_ins) {
        assert_eq!(disk.find(name).err(), Some(Error::Denied), "{name}");
        assert_eq!(disk.store.create(&path(name), new(Kind::File)).err(), Some(Error::Denied));
        assert_eq!(disk.rename("file", name, Replace::Yes), Err(Error::Denied));
    }
    assert_eq!(entry_metadata(&*disk.node(""), ".Multilane").err(), Some(Error::NotFound));
}

#[test]
fn no_link_leads_into_the_reserved_folder() {
    let disk = directory();
    disk.file("file", b"").extras().create_stream("s").unwrap().write_at(&[1; 5000], 0).unwrap();
    let side = kept_beside(&disk).remove(0);
    let side = side.file_name().unwrap().to_str().unwrap();
    disk.directory("inner");
    fs::create_dir(disk.folder().join("inner/.multilane")).unwrap();
    let links = [("folder", ".multilane"), ("side", &format!(".multilane/{side}")), ("other", "inner/.multilane")];
    for (link, to) in links {
        symlink(to, disk.folder().join(link)).unwrap();
        assert_eq!(disk.find(link).err(), Some(Error::Denied), "{link}");
        let below = path(&format!("{link}\\{side}"));
        assert!(disk.store.resolve(&below, Use::Metadata).is_err(), "{link}");
        assert!(disk.store.create(&below, new(Kind::File)).is_err(), "{link}");
    }
    assert_eq!(disk.names(""), ["file", "inner"]);
}

#[test]
fn a_directory_has_a_file_and_not_what_a_link_in_it_leads_to() {
    let disk = directory();
    let file = disk.file("File", b"").identity();
    symlink("File", disk.folder().join("link")).unwrap();
    let has = |name: &str| disk.node("").names().unwrap().has(&Name::new(name).unwrap(), file);
    assert_eq!((has("File"), has("file"), has("link"), has("none")), (Ok(true), Ok(true), Ok(false), Ok(false)));
}

#[test]
fn a_folder_that_is_gone_is_gone() {
    let disk = directory();
    let file = disk.file("file", b"data");
    fs::remove_dir_all(disk.folder()).unwrap();
    assert_eq!(disk.find("file").err(), Some(Error::Gone));
    assert_eq!(disk.find("folder\\file").err(), Some(Error::Gone));
    assert_eq!(disk.store.create(&path("new"), new(Kind::File)).err(), Some(Error::Gone));
    assert_eq!(disk.store.create(&path("new"), new(Kind::Directory)).err(), Some(Error::Gone));
    assert_eq!(disk.store.remove(&path("file"), file.identity()), Err(Error::Gone));
    assert_eq!(read_all(&*file), b"data");
}

#[test]
fn what_cannot_be_served_is_said_when_opening() {
    let folder = tempfile::tempdir().unwrap();
    let open = |name: &str| DirectoryStore::open(&folder.path().join(name), DirectoryOptions::default()).err();
    fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(open("none"), Some(Error::NotFound));
    assert_eq!(open("file"), Some(Error::NotDirectory));
    assert_eq!(open(""), None);
}

#[test]
fn too_long_a_name_or_path_is_invalid() {
    let disk = directory();
    let name = "語".repeat(200);
    assert_eq!(disk.find(&name).err(), Some(Error::NameInvalid));
    assert_eq!(disk.store.create(&path(&name), new(Kind::File)).err(), Some(Error::NameInvalid));
    let deep = ["x"; 5000].join("\\");
    assert_eq!(disk.find(&deep).err(), Some(Error::NameInvalid));
}

#[test]
fn a_reserved_folder_that_leads_outside_is_not_used() {
    let disk = directory();
    let outside = tempfile::tempdir().unwrap();
    fs::remove_dir_all(disk.folder().join(".multilane")).unwrap();
    symlink(outside.path(), disk.folder().join(".multilane")).unwrap();
    let node = disk.file("file", b"data");
    let stream = node.extras().create_stream("s").unwrap();
    assert_eq!(stream.write_at(&[1; 5000], 0), Err(Error::Denied));
    assert_eq!(node.extras().set_security(&[1; 70_000]), Err(Error::Denied));
    stream.write_at(b"small", 0).unwrap();
    assert_eq!(read_all(&*stream), b"small");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    disk.remove("file").unwrap();
}

#[test]
fn a_link_in_place_of_a_side_file_is_not_followed() {
    let disk = directory();
    let outside = tempfile::NamedTempFile::new().unwrap();
    let stream = disk.file("file", b"").extras().create_stream("s").unwrap();
    stream.write_at(&[1; 5000], 0).unwrap();
    drop(stream);
    let side = kept_beside(&disk).remove(0);
    fs::remove_file(&side).unwrap();
    symlink(outside.path(), &side).unwrap();
    let (_, stream) = disk.node("file").extras().stream("s").unwrap().unwrap();
    assert_eq!(stream.write_at(b"out", 0), Err(Error::Denied));
    assert_eq!(stream.read_at(&mut [0; 8], 0), Err(Error::Denied));
    assert_eq!(fs::metadata(outside.path()).unwrap().len(), 0);
}
