//! The fence around a directory store's folder: nothing outside is reached, nothing strange is opened.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use store::{
    AttributeChange, Changes, DirectoryOptions, DirectoryStore, Error, Kind, Name, Replace, Replacement, Time, Use,
};

fn make_fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
}

#[test]
fn links_are_not_followed_wherever_they_lead() {
    for disk in [directory(), memory_directory()] {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let root = disk.folder();
        disk.directory("inside");
        symlink(outside.path(), root.join("absolute")).unwrap();
        symlink(outside.path().join("secret"), root.join("file")).unwrap();
        symlink("../", root.join("up")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        symlink("inside", root.join("in")).unwrap();
        let links = ["absolute", "file", "up", "magic", "circle", "dangling", "in"];
        for name in links.into_iter().chain(["ABSOLUTE", "In"]) {
            for usage in [Use::Metadata, Use::Read, Use::ReadWrite] {
                let (node, _) = disk.find_for(name, usage).unwrap();
                let known = node.metadata().unwrap();
                assert!(known.is_link && known.kind == Kind::File && known.length == 0, "{name}");
                assert_eq!(read_all(&*node), b"", "{name}");
                assert_eq!(node.write_at(b"x", 0), Err(Error::Denied), "{name}");
                assert_eq!(node.set_length(1), Err(Error::Denied), "{name}");
            }
            assert_eq!(disk.store.create(&path(name), new(Kind::File)).err(), Some(Error::Exists), "{name}");
        }
        for name in
            ["absolute\\new", "absolute\\secret", "up\\new", "magic\\etc\\x", "Absolute\\NEW", "in\\new", "IN\\x\\y"]
        {
            for usage in [Use::Metadata, Use::Read, Use::ReadWrite] {
                assert_eq!(disk.find_for(name, usage).err(), Some(Error::Link), "{name}");
            }
            assert_eq!(disk.store.create(&path(name), new(Kind::File)).err(), Some(Error::Link), "{name}");
            let file = disk.file("own", b"");
            let identity = file.identity();
            assert_eq!(disk.store.rename(&path("own"), &path(name), identity, Replace::Yes), Err(Error::Link));
            assert_eq!(disk.store.link(&path("own"), &path(name), identity, Replace::Yes), Err(Error::Link));
            assert_eq!(disk.store.remove(&path(name), identity), Err(Error::Link));
            disk.remove("own").unwrap();
        }
        let mut names: Vec<&str> = links.into_iter().chain(["inside"]).collect();
        names.sort_unstable();
        assert_eq!(disk.names(""), names);
        assert!(disk.names("inside").is_empty());
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
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
fn a_link_is_renamed_linked_and_removed_as_itself() {
    let disk = directory();
    disk.directory("folder");
    let file = disk.file("folder\\file", b"data");
    symlink("folder/file", disk.folder().join("Link")).unwrap();
    let link = disk.node("LINK");
    assert_ne!(link.identity(), file.identity());
    assert_eq!(link.target(), Ok(Some("folder/file".into())));
    let listed = entry_metadata(&*disk.node(""), "Link").unwrap();
    assert_eq!((listed.identity, listed.is_link, listed.length), (link.identity(), true, 0));
    assert_eq!(
        entries(&*disk.node("")).unwrap().iter().find(|entry| entry.name.as_str() == "Link").unwrap().file,
        link.identity().file
    );
    disk.link("link", "hard", Replace::No).unwrap();
    assert_eq!(disk.node("hard").identity(), link.identity());
    disk.rename("hard", "folder\\moved", Replace::No).unwrap();
    assert_eq!(fs::read_link(disk.folder().join("folder/moved")).unwrap(), Path::new("folder/file"));
    // It takes the place of a file, and a file takes its place.
    disk.file("taken", b"old");
    disk.rename("LINK", "taken", Replace::Yes).unwrap();
    assert_eq!(disk.node("taken").target(), Ok(Some("folder/file".into())));
    disk.file("other", b"new");
    disk.rename("other", "taken", Replace::Yes).unwrap();
    assert_eq!(read_all(&*disk.node("taken")), b"new");
    disk.remove("folder\\moved").unwrap();
    assert_eq!(read_all(&*disk.node("folder\\file")), b"data");
    assert_eq!(disk.names("folder"), ["file"]);
}

#[test]
fn a_descriptor_and_times_are_kept_with_a_link_and_nothing_else() {
    for disk in [directory(), beside()] {
        let file = disk.file("file", b"data");
        symlink("file", disk.folder().join("link")).unwrap();
        let link = disk.node("link");
        assert_eq!(link.extras().security(), Ok(None));
        let kept_before = disk.kept();
        link.extras().set_security(&[1; 20]).unwrap();
        assert_eq!(disk.node("link").extras().security(), Ok(Some(vec![1; 20])));
        disk.rename("link", "moved", Replace::No).unwrap();
        assert_eq!(disk.node("moved").extras().security(), Ok(Some(vec![1; 20])));
        disk.rename("moved", "link", Replace::No).unwrap();
        // What is in the place of one has nothing of it.
        let (put, name) = (disk.node(""), Name::new("link").unwrap());
        let put = |new: Replacement<'_>| put.names().unwrap().replace_with(&name, disk.node("link").identity(), new);
        assert_eq!(put(Replacement::link("file")).unwrap().extras().security(), Ok(None));
        assert_eq!(disk.kept(), kept_before);
        let new = Replacement { security: Some(&[2; 3_000]), ..Replacement::link("file") };
        put(new).unwrap();
        let link = disk.node("link");
        assert_eq!(link.extras().security(), Ok(Some(vec![2; 3_000])));
        disk.rename("link", "other", Replace::No).unwrap();
        symlink("file", disk.folder().join("link")).unwrap();
        disk.rename("link", "other", Replace::Yes).unwrap();
        assert_eq!((disk.node("other").extras().security(), disk.kept()), (Ok(None), kept_before));
        disk.rename("other", "link", Replace::No).unwrap();
        let link = disk.node("link");
        assert_eq!(link.extras().set_extended("name", b"value"), Err(Error::Unsupported));
        assert_eq!(link.extras().extended(), Ok(Vec::new()));
        assert!(link.extras().create_stream("s").is_err());
        assert_eq!(link.extras().streams(), Ok(Vec::new()));
        let time = Time::from_unix(1_000_000_000, 0);
        let attributes = AttributeChange::setting(0x1);
        link.change(&Changes { attributes, write: Some(time), creation: Some(time), ..Changes::default() }).unwrap();
        assert_eq!((link.metadata().unwrap().write, link.metadata().unwrap().attributes & 1), (time, 0));
        assert_ne!(file.metadata().unwrap().write, time);
        assert!(file.extras().security().unwrap().is_none() && file.extras().extended().unwrap().is_empty());
    }
}

#[test]
fn a_link_takes_the_place_of_an_empty_file_or_directory_in_one_step() {
    let disk = directory();
    let put = |name: &str, new: Replacement<'_>| {
        let node = disk.node(name);
        disk.node("").names().unwrap().replace_with(&Name::new(name).unwrap(), node.identity(), new)
    };
    for (name, kind) in [("file", Kind::File), ("folder", Kind::Directory)] {
        disk.store.create(&path(name), new(kind)).unwrap();
        let link = put(name, Replacement::link("../a\u{F03A}b")).unwrap();
        assert_eq!(link.identity(), disk.node(name).identity());
        assert_eq!(link.target(), Ok(Some("../a\u{F03A}b".into())));
        assert_eq!(fs::read_link(disk.folder().join(name)).unwrap(), Path::new("../a:b"));
        assert_eq!(put(name, Replacement::link("elsewhere")).unwrap().target(), Ok(Some("elsewhere".into())));
        let file = put(name, Replacement::FILE).unwrap();
        assert_eq!((file.target(), file.metadata().unwrap().length), (Ok(None), 0));
        assert_eq!(fs::symlink_metadata(disk.folder().join(name)).unwrap().mode() & 0o777, 0o600);
        disk.find_for(name, Use::ReadWrite).unwrap().0.write_at(b"data", 0).unwrap();
        assert_eq!(put(name, Replacement::link("x")).err(), Some(Error::NotEmpty));
    }
    disk.directory("full");
    disk.file("full\\file", b"");
    assert_eq!(put("full", Replacement::link("x")).err(), Some(Error::NotEmpty));
    assert_eq!(disk.names("full"), ["file"]);
    disk.file("one", b"");
    disk.link("one", "two", Replace::No).unwrap();
    assert_eq!(put("one", Replacement::link("x")).err(), Some(Error::TooManyLinks));
    // Neither loses a link its other names.
    symlink("x", disk.folder().join("soft")).unwrap();
    disk.link("soft", "again", Replace::No).unwrap();
    for new in [Replacement::link("elsewhere"), Replacement::FILE] {
        assert_eq!(put("soft", new).err(), Some(Error::TooManyLinks));
    }
    assert_eq!(disk.node("soft").target(), Ok(Some("x".into())));
    for name in ["soft", "again", "two"] {
        disk.remove(name).unwrap();
    }
    for (target, error) in [("", Error::Invalid), ("a\0", Error::Invalid), (&*"x".repeat(4_096), Error::NameInvalid)] {
        assert_eq!(put("one", Replacement::link(target)).err(), Some(error));
    }
    let longest = "x".repeat(4_095);
    assert_eq!(put("one", Replacement::link(&longest)).unwrap().target(), Ok(Some(longest.clone())));
    assert_eq!(disk.names(""), ["file", "folder", "full", "one"]);
    // What is not expected is left alone.
    let other = disk.node("file").identity();
    let names = disk.node("");
    let answer = names.names().unwrap().replace_with(&Name::new("one").unwrap(), other, Replacement::FILE);
    assert_eq!(answer.err(), Some(Error::NotFound));
    assert_eq!(disk.node("one").target(), Ok(Some(longest)));
}

#[test]
fn the_first_link_on_a_way_is_found() {
    let disk = directory();
    for name in ["a", "a\\b", "a\\b\\c"] {
        disk.directory(name);
    }
    symlink("b", disk.folder().join("a/Way")).unwrap();
    symlink("c", disk.folder().join("a/b/last")).unwrap();
    let link_on = |way: &str| {
        let found = disk.store.link_on(&path(way)).unwrap();
        found.map(|link| (link.path.as_str().to_owned(), link.target, link.node.metadata().unwrap().is_link))
    };
    let first = Some(("a\\Way".to_owned(), "b".to_owned(), true));
    for way in ["a\\way", "a\\Way\\c", "A\\WAY\\b\\c\\d\\e\\f"] {
        assert_eq!(link_on(way), first, "{way}");
    }
    assert_eq!(link_on("a\\b\\last\\x"), Some(("a\\b\\last".to_owned(), "c".to_owned(), true)));
    for way in ["", "a", "a\\b\\c", "a\\b\\none"] {
        assert_eq!(link_on(way), None, "{way}");
    }
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
        let _ends = Ends(&done);
        let mut read = 0;
        for round in 0..ROUNDS {
            let name = if round % 2 == 0 { "inside\\file" } else { "INSIDE\\File" };
            if let Ok((node, _)) = disk.find_for(name, Use::Read) {
                // Where a link is found in its place when its data is wanted, that is refused.
                let mut bytes = [0; 7];
                if node.read_at(&mut bytes, 0).is_ok() {
                    assert_eq!(&bytes, b"inside!");
                    read += 1;
                }
            }
            let made = disk.store.create(&path(&format!("inside\\new{round}")), new(Kind::File));
            if made.is_ok() {
                let _ = disk.remove(&format!("inside\\new{round}"));
            }
            let _ = disk.rename("inside\\file", "inside\\file", Replace::No);
        }
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
    assert_eq!(disk.names(""), ["file", "link"]);
    assert!(disk.node("link").metadata().unwrap().is_link);
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
        assert!(disk.node(link).metadata().unwrap().is_link, "{link}");
        let below = path(&format!("{link}\\{side}"));
        assert!(disk.store.resolve(&below, Use::Metadata).is_err(), "{link}");
        assert!(disk.store.create(&below, new(Kind::File)).is_err(), "{link}");
    }
    assert_eq!(disk.names(""), ["file", "folder", "inner", "other", "side"]);
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
