//! What a failure, or a kill, in the middle of a change leaves: each is put at every system call of the change in turn.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::io::Errno;
use tempfile::TempDir;

use crate::directory::calls::failing::{Fail, Lacks, during, lacking, meanwhile};
use crate::directory::file::OpenFile;
use crate::directory::folder::Reach;
use crate::directory::leftovers::sweep;
use crate::directory::{DirectoryOptions, DirectoryStore};
use crate::{Destination, Error, Kind, Name, NewNode, Node, Replace, Resolved, SharePath, Store, Use};

/// Bytes of a stream that has a side file.
pub(super) const LARGE: usize = 9_000;
/// No change makes more system calls.
pub(super) const CALLS_MAX: usize = 1_000;

pub(super) struct Disk {
    pub(super) store: DirectoryStore,
    /// Another share, which a test may have.
    other: Cell<Option<DirectoryStore>>,
    folder: TempDir,
}

impl Disk {
    pub(super) fn new(attributes_beside_files: bool) -> Self {
        // On a disk each of the many files would be waited for.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        Disk::with(&place, DirectoryOptions { attributes_beside_files, ..DirectoryOptions::default() })
    }

    /// One in another place.
    pub(super) fn on(place: &Path) -> Self {
        Disk::with(place, DirectoryOptions::default())
    }

    fn with(place: &Path, options: DirectoryOptions) -> Self {
        let folder = tempfile::tempdir_in(place).unwrap();
        let store = DirectoryStore::open(folder.path(), options).unwrap();
        Disk { store, other: Cell::default(), folder }
    }

    pub(super) fn open(&self, path: &str) -> Result<Arc<dyn Node>, Error> {
        match self.store.resolve(&SharePath::parse(&path.replace("/", "\\")).unwrap(), Use::ReadWrite)? {
            Resolved::Found { node, .. } => Ok(node),
            Resolved::Missing { .. } => Err(Error::NotFound),
        }
    }

    pub(super) fn node(&self, path: &str) -> Arc<dyn Node> {
        self.open(path).unwrap()
    }

    pub(super) fn create(&self, name: &str, kind: Kind) -> Result<Arc<dyn Node>, Error> {
        let new = NewNode { kind, attributes: 0, security: Some(b"descriptor"), owner: None };
        self.open("")?.names().unwrap().create(&Name::new(name).unwrap(), new)
    }

    pub(super) fn stream(&self, file: &str, name: &str, byte: u8, length: usize) {
        let stream = self.node(file).extras().create_stream(name).unwrap();
        stream.write_at(&vec![byte; length], 0).unwrap();
    }

    /// The streams of a file with their lengths and the byte that they are full of.
    pub(super) fn streams(&self, file: &str) -> Vec<(String, usize, u8)> {
        let (node, mut names) = (self.node(file), Vec::new());
        let mut take = |entry: crate::StreamEntry| {
            names.push(entry.name);
            ControlFlow::Continue(())
        };
        node.extras().list_streams(&mut take).unwrap();
        names.sort();
        let read = |name: String| {
            let stream = node.extras().stream(&name).unwrap().unwrap().1;
            let mut bytes = vec![0; 2 * LARGE];
            let count = stream.read_at(&mut bytes, 0).unwrap();
            assert!(bytes[..count].iter().all(|byte| *byte == bytes[0]));
            (name, count, bytes[0])
        };
        names.into_iter().map(read).collect()
    }

    /// What the reserved folder holds besides the lock and what is kept beside files.
    pub(super) fn sides(&self) -> usize {
        let is_side = |entry: &std::fs::DirEntry| !entry.file_type().unwrap().is_dir() && entry.file_name() != "lock";
        let entries = std::fs::read_dir(self.folder.path().join(".multilane")).unwrap();
        entries.filter(|entry| is_side(entry.as_ref().unwrap())).count()
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Copies what is kept with a file as another program does.
    pub(super) fn copy_value(&self, beside: bool, key: &str, (from, to): (&str, &str)) {
        let (from, to) = (self.path().join(from), self.path().join(to));
        if beside {
            std::fs::copy(self.beside(&from).join(key), self.beside(&to).join(key)).unwrap();
            return;
        }
        let mut value = [0; 2048];
        let length = rustix::fs::getxattr(&from, key, &mut value).unwrap();
        rustix::fs::setxattr(&to, key, &value[..length], rustix::fs::XattrFlags::empty()).unwrap();
    }

    /// Where what is kept beside a file lies.
    fn beside(&self, file: &Path) -> PathBuf {
        let begins = format!("{:x}-", std::fs::metadata(file).unwrap().ino());
        let folders = std::fs::read_dir(self.path().join(".multilane")).unwrap().map(|entry| entry.unwrap().path());
        let is_it = |path: &PathBuf| path.is_dir() && path.file_name().unwrap().to_str().unwrap().starts_with(&begins);
        folders.into_iter().find(is_it).unwrap()
    }
}

/// Does `change` on a fresh disk with one call that fails, or all from one on, for each of its calls; `check` sees what is left.
pub(super) fn at_each_call(
    beside: bool,
    prepare: impl Fn(&Disk),
    change: impl Fn(&Disk) -> Result<(), Error>,
    check: impl Fn(&Disk, Result<(), Error>, bool),
) {
    for kind in [Fail::One, Fail::Done, Fail::AllAfter] {
        let is_kill = matches!(kind(0), Fail::AllAfter(_));
        let mut at = 0;
        loop {
            let disk = Disk::new(beside);
            prepare(&disk);
            let (answer, failed) = during(kind(at), Errno::IO, || change(&disk));
            check(&disk, answer, is_kill);
            if !failed {
                break;
            }
            at += 1;
            assert!(at < CALLS_MAX);
        }
        // Some changes are none of names.
        assert!(at > 0 || matches!(kind(0), Fail::Done(_)), "nothing failed");
    }
}

fn new_file() -> NewNode<'static> {
    NewNode { kind: Kind::File, attributes: 0, security: None, owner: None }
}

fn new_directory() -> NewNode<'static> {
    NewNode { kind: Kind::Directory, attributes: 0, security: None, owner: None }
}

pub(super) fn entry(name: &str, length: usize, byte: u8) -> (String, usize, u8) {
    (name.to_owned(), length, byte)
}

/// Renames a stream of so many bytes both ways in the order of the names, beside files and not.
fn for_each_rename(length: usize, check: impl Fn(&Disk, (&str, &str), Result<(), Error>, bool)) {
    let long = "l".repeat(250);
    for beside in [false, true] {
        for (from, to) in [("one", "two"), ("two", "one"), ("one", "ONE"), ("one", &long), (&long, "one")] {
            let prepare = |disk: &Disk| {
                disk.create("file", Kind::File).unwrap();
                disk.stream("file", from, 1, length);
            };
            let change = |disk: &Disk| disk.open("file")?.extras().rename_stream(from, to, Replace::No);
            at_each_call(beside, prepare, change, |disk, answer, is_kill| check(disk, (from, to), answer, is_kill));
        }
    }
}

#[test]
fn a_stream_whose_renaming_failed_has_one_name() {
    for length in [10, LARGE] {
        for_each_rename(length, |disk, (from, to), answer, is_kill| {
            let streams = disk.streams("file");
            let (old, new) = ([entry(from, length, 1)], [entry(to, length, 1)]);
            match answer {
                Ok(()) => assert_eq!(streams, new),
                Err(_) if is_kill => assert!(streams == old || streams == new, "{streams:?}"),
                Err(_) => assert_eq!(streams, old),
            }
        });
    }
}

#[test]
fn a_name_that_a_stream_has_left_takes_no_data_along() {
    for length in [10, LARGE] {
        for_each_rename(length, |disk, (from, to), _, _| {
            let (name, ..) = disk.streams("file").remove(0);
            let other = if name == from { to } else { from };
            let node = disk.node("file");
            // In another case it is the same name.
            if crate::fold(other) != crate::fold(&name) {
                assert_eq!(node.extras().remove_stream(other), Err(Error::NotFound));
                assert!(node.extras().stream(other).unwrap().is_none());
                // It is free, too.
                disk.stream("file", other, 2, 5);
                node.extras().remove_stream(other).unwrap();
                node.extras().rename_stream(&name, "third", Replace::No).unwrap();
                assert_eq!(disk.streams("file"), [entry("third", length, 1)]);
                node.extras().rename_stream("third", &name, Replace::No).unwrap();
            }
            assert_eq!(disk.streams("file"), [entry(&name, length, 1)]);
            node.extras().remove_stream(&name).unwrap();
            assert_eq!(disk.streams("file"), []);
            assert_eq!(disk.sides(), 0);
        });
    }
}

#[test]
fn a_stream_that_could_not_be_replaced_is_there() {
    let long = "l".repeat(250);
    for beside in [false, true] {
        for (from, to) in [
            ("one", "two"),
            ("two", "ONE"),
            ("one", &long),
            (&long, "one"),
            (&long, &long.to_uppercase().replace("LL", "XX")),
        ] {
            let taken = if from == "two" { "one" } else { to };
            let prepare = |disk: &Disk| {
                disk.create("file", Kind::File).unwrap();
                disk.stream("file", from, 1, LARGE);
                disk.stream("file", taken, 2, LARGE);
            };
            let change = |disk: &Disk| disk.open("file")?.extras().rename_stream(from, to, Replace::Yes);
            at_each_call(beside, prepare, change, |disk, answer, is_kill| {
                let mut old = [entry(from, LARGE, 1), entry(taken, LARGE, 2)];
                old.sort();
                let streams = disk.streams("file");
                let is_new = streams == [entry(to, LARGE, 1)] || streams == [entry(taken, LARGE, 1)];
                match answer {
                    Ok(()) => assert!(is_new, "{streams:?}"),
                    Err(_) if is_kill => assert!(is_new || streams == old, "{streams:?}"),
                    Err(_) => assert_eq!(streams, old),
                }
            });
        }
    }
}

#[test]
fn two_names_of_one_stream_that_were_left_do_not_take_its_data_from_each_other() {
    let disk = Disk::new(false);
    disk.create("file", Kind::File).unwrap();
    disk.stream("file", "one", 1, LARGE);
    let path = disk.path().join("file");
    let mut value = [0; 2048];
    let length = rustix::fs::getxattr(&path, "user.multilane.stream.one", &mut value).unwrap();
    let both = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&path, "user.multilane.stream.two", &value[..length], both).unwrap();
    let node = disk.node("file");
    node.extras().remove_stream("one").unwrap();
    assert_eq!(disk.streams("file"), [entry("two", LARGE, 1)]);
    node.extras().remove_stream("two").unwrap();
    assert_eq!(disk.sides(), 0);
}

/// Has another thread do `work`, and waits until it is done or waits for this one.
fn elsewhere(work: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    let _ = is_done.recv_timeout(Duration::from_millis(100));
}

#[test]
fn a_stream_is_itself_though_another_takes_its_name_while_it_is_read() {
    for length in [10, LARGE] {
        let mut at = 0;
        loop {
            let disk = Disk::new(false);
            disk.create("file", Kind::File).unwrap();
            disk.stream("file", "a", 1, length);
            disk.stream("file", "b", 2, length);
            let node = disk.node("file");
            let stream = node.extras().stream("a").unwrap().unwrap().1;
            // It has left the key that it is known to be at.
            node.extras().rename_stream("a", "c", Replace::No).unwrap();
            let happens = move || {
                elsewhere(move || {
                    node.extras().rename_stream("c", "d", Replace::No).unwrap();
                    node.extras().rename_stream("b", "c", Replace::No).unwrap();
                });
            };
            let mut bytes = vec![0; length];
            let (answer, happened) = meanwhile(at, happens, || stream.read_at(&mut bytes, 0));
            assert_eq!((answer, bytes), (Ok(length), vec![1; length]), "before call {at}");
            if !happened {
                break;
            }
            at += 1;
        }
        assert!(at > 0);
    }
}

#[test]
fn where_no_names_are_counted_a_file_has_one_and_keeps_its_streams() {
    lacking(Lacks::LinkCounts, || {
        let disk = Disk::new(false);
        disk.create("file", Kind::File).unwrap();
        disk.create("folder", Kind::Directory).unwrap();
        let node = disk.node("file");
        let stream = node.extras().create_stream("stream").unwrap();
        stream.write_at(&[1; LARGE], 0).unwrap();
        drop((stream, node));
        let inner = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };
        disk.node("folder").names().unwrap().create(&Name::new("other").unwrap(), inner).unwrap();
        assert_eq!(disk.streams("file"), [entry("stream", LARGE, 1)]);
        assert_eq!(disk.node("file").metadata().unwrap().links, 1);
        let root = disk.open("").unwrap();
        let to = Destination { directory: &*root, name: &Name::new("moved").unwrap() };
        root.names()
            .unwrap()
            .rename(&Name::new("file").unwrap(), disk.node("file").identity(), to, Replace::No)
            .unwrap();
        assert_eq!(disk.streams("moved"), [entry("stream", LARGE, 1)]);
    });
}

#[test]
fn what_could_not_be_made_is_not_there() {
    for kind in [Kind::File, Kind::Directory] {
        let change = |disk: &Disk| disk.create("new", kind).map(drop);
        at_each_call(
            false,
            |_| (),
            change,
            |disk, answer, is_kill| {
                let is_there = disk.path().join("new").exists();
                match answer {
                    Ok(()) => assert!(is_there),
                    Err(_) => assert!(is_kill || !is_there, "{kind:?}"),
                }
            },
        );
    }
}

#[test]
fn what_is_refused_was_not_renamed_or_linked() {
    for (replaces, links) in [(false, false), (false, true), (true, false), (true, true)] {
        let prepare = |disk: &Disk| {
            disk.create("old", Kind::File).unwrap();
            if replaces {
                disk.create("New", Kind::File).unwrap();
                disk.stream("New", "stream", 1, LARGE);
            }
        };
        let change = |disk: &Disk| {
            let (root, new, old) = (disk.open("")?, Name::new("new").unwrap(), disk.open("old")?);
            let to = Destination { directory: &*root, name: &new };
            if links {
                old.link(to, Replace::Yes)
            } else {
                root.names().unwrap().rename(&Name::new("old").unwrap(), old.identity(), to, Replace::Yes)
            }
        };
        at_each_call(false, prepare, change, |disk, answer, is_kill| {
            let is_new = disk.open("new").is_ok_and(|new| new.extras().stream("stream").unwrap().is_none());
            match answer {
                Ok(()) => {
                    assert!(is_new, "{replaces} {links}");
                    assert_eq!(disk.open("old").is_ok(), links);
                }
                Err(_) => {
                    assert!(is_kill || disk.open("old").is_ok());
                    assert!(is_kill || !is_new);
                    if replaces && !is_new {
                        assert_eq!(disk.streams("new"), [entry("stream", LARGE, 1)]);
                    }
                }
            }
        });
    }
}

/// Writes to a file, or a stream of it, through one open, and has the disk refuse it.
fn fail_to_sync(node: &dyn Node) {
    node.write_at(&vec![1; LARGE], 0).unwrap();
    let (answer, _) = during(Fail::AllAfter(0), Errno::NOSPC, || node.sync());
    assert_eq!(answer, Err(Error::Full));
}

#[test]
fn a_flush_fails_after_one_that_failed_through_whatever_open() {
    let disk = Disk::new(false);
    disk.create("file", Kind::File).unwrap();
    let (one, other) = (disk.node("file"), disk.node("file"));
    fail_to_sync(&*one);
    assert_eq!(one.sync(), Err(Error::Full));
    assert_eq!(other.sync(), Err(Error::Full));
    drop(one);
    let late = disk.node("file");
    assert_eq!(late.sync(), Err(Error::Full), "what somebody else was answered for is lost all the same");
    assert_eq!(disk.create("another", Kind::File).unwrap().sync(), Ok(()));
    drop((other, late));
    assert_eq!(disk.node("file").sync(), Ok(()), "nobody has it open who was answered for anything");
}

#[test]
fn a_flush_fails_through_other_shares_over_the_folder() {
    let disk = Disk::new(false);
    disk.create("file", Kind::File).unwrap();
    let one = disk.node("file");
    fail_to_sync(&*one);
    let other = DirectoryStore::open(disk.path(), DirectoryOptions::default()).unwrap();
    let Ok(Resolved::Found { node, .. }) = other.resolve(&SharePath::parse("file").unwrap(), Use::ReadWrite) else {
        panic!("it is there");
    };
    assert_eq!(node.sync(), Err(Error::Full));
}

#[test]
fn a_flush_of_a_stream_that_failed_is_remembered_with_its_file() {
    let disk = Disk::new(false);
    disk.create("file", Kind::File).unwrap();
    disk.stream("file", "stream", 1, LARGE);
    let file = disk.node("file");
    let stream = file.extras().stream("stream").unwrap().unwrap().1;
    stream.prepare(Use::ReadWrite).unwrap();
    fail_to_sync(&*stream);
    assert_eq!(stream.sync(), Err(Error::Full));
    assert_eq!(file.sync(), Err(Error::Full));
}

#[test]
fn a_flush_of_a_stream_waits_for_one_of_its_file_that_is_told_of_a_failure() {
    let disk = Disk::new(false);
    disk.create("file", Kind::File).unwrap();
    let fd = std::fs::File::open(disk.path().join("file")).unwrap().into();
    let file = OpenFile::new(&disk.store.volume(), fd, Reach::Read, false).unwrap();
    let of_stream = &file.again().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        let told = file.sync_with(|| {
            scope.spawn(move || sender.send(of_stream.sync_with(|| Ok(()))).unwrap());
            assert!(receiver.recv_timeout(Duration::from_millis(200)).is_err());
            Err(Error::Full)
        });
        assert_eq!(told, Err(Error::Full));
        assert_eq!(receiver.recv(), Ok(Err(Error::Full)));
    });
}

#[test]
fn a_stream_of_a_file_without_a_name_leaves_nothing() {
    let disk = Disk::new(false);
    let file = disk.create("file", Kind::File).unwrap();
    let streams: Vec<_> = ["one", "two"].map(|name| file.extras().create_stream(name).unwrap()).into();
    let again = file.extras().stream("one").unwrap().unwrap().1;
    streams[0].write_at(&[1; 10], 0).unwrap();
    disk.node("").names().unwrap().remove(&Name::new("file").unwrap(), file.identity()).unwrap();
    for stream in &streams {
        stream.write_at(&vec![2; LARGE], 0).unwrap();
    }
    // Others that have it open find what was written.
    let mut bytes = vec![0; LARGE];
    assert_eq!(again.read_at(&mut bytes, 0), Ok(LARGE));
    assert_eq!(bytes, vec![2; LARGE]);
    drop((file, streams));
    assert_eq!(disk.sides(), 4, "two side files and their marks: one stream is open, and with it the file");
    drop(again);
    assert_eq!(disk.sides(), 0);
}

pub(super) type Change = fn(&Disk) -> Result<(), Error>;

/// How `file` loses its name: it is removed, or `other` is linked or renamed over it.
pub(super) const LAST_NAME_GOES: [Change; 3] = [
    |disk| disk.open("")?.names().unwrap().remove(&Name::new("file").unwrap(), disk.open("file")?.identity()),
    |disk| {
        let (root, new) = (disk.open("")?, Name::new("file").unwrap());
        disk.open("other")?.link(Destination { directory: &*root, name: &new }, Replace::Yes)
    },
    |disk| {
        let (root, new) = (disk.open("")?, Name::new("file").unwrap());
        let to = Destination { directory: &*root, name: &new };
        root.names().unwrap().rename(&Name::new("other").unwrap(), disk.open("other")?.identity(), to, Replace::Yes)
    },
];

#[test]
fn a_file_that_gets_another_name_as_its_last_one_goes_keeps_its_streams() {
    type Rescue = fn(PathBuf, PathBuf) -> std::io::Result<()>;
    let rescues: [Rescue; 2] = [|from, to| std::fs::hard_link(from, to), |from, to| std::fs::rename(from, to)];
    for (beside, rescue) in [(false, rescues[0]), (false, rescues[1]), (true, rescues[0]), (true, rescues[1])] {
        for change in LAST_NAME_GOES {
            for at in 0..CALLS_MAX {
                let disk = Disk::new(beside);
                let file = disk.create("file", Kind::File).unwrap().identity();
                disk.stream("file", "stream", 1, LARGE);
                disk.create("other", Kind::File).unwrap();
                let (from, to) = (disk.path().join("file"), disk.path().join("backup"));
                let (_, happened) = meanwhile(at, move || drop(rescue(from, to)), || change(&disk));
                match disk.open("backup") {
                    Ok(backup) if backup.identity() == file => {
                        assert_eq!(disk.streams("backup"), [entry("stream", LARGE, 1)], "{beside} {at}");
                    }
                    _ if disk.open("file").is_ok_and(|found| found.identity() == file) => {}
                    _ => assert_eq!(disk.sides(), 0, "{beside} {at}"),
                }
                if !happened {
                    break;
                }
            }
        }
    }
}

#[test]
fn what_a_killed_server_left_goes_when_the_folder_is_served_again() {
    let write_without_name: Change = |disk| {
        let file = disk.open("file")?;
        let stream = file.extras().create_stream("more")?;
        disk.open("")?.names().unwrap().remove(&Name::new("file").unwrap(), file.identity())?;
        stream.write_at(&vec![3; LARGE], 0)
    };
    for change in LAST_NAME_GOES.into_iter().chain([write_without_name]) {
        let prepare = |disk: &Disk| {
            disk.create("file", Kind::File).unwrap();
            disk.stream("file", "stream", 1, LARGE);
            disk.create("other", Kind::File).unwrap();
        };
        at_each_call(false, prepare, change, |disk, _, is_kill| {
            if !is_kill {
                return;
            }
            sweep(&Arc::downgrade(&disk.store.volume()));
            let of_file = disk.open("file").map_or(0, |file| file.extras().stream("stream").unwrap().map_or(0, |_| 1));
            assert_eq!(disk.sides(), of_file);
            if of_file == 1 {
                assert_eq!(disk.streams("file").last(), Some(&entry("stream", LARGE, 1)));
                assert_eq!(disk.node("file").metadata().unwrap().links, 1);
            }
            assert!(disk.open("other").is_err() || disk.node("other").metadata().unwrap().links <= 2);
        });
    }
}

#[test]
fn what_is_used_is_not_swept_away() {
    let disk = Disk::new(false);
    let file = disk.create("file", Kind::File).unwrap();
    let stream = file.extras().create_stream("stream").unwrap();
    disk.node("").names().unwrap().remove(&Name::new("file").unwrap(), file.identity()).unwrap();
    stream.write_at(&vec![2; LARGE], 0).unwrap();
    let again = DirectoryStore::open(disk.path(), DirectoryOptions::default()).unwrap();
    sweep(&Arc::downgrade(&again.volume()));
    let other = file.extras().stream("stream").unwrap().unwrap().1;
    assert_eq!(other.read_at(&mut vec![0; LARGE], 0), Ok(LARGE));
}

#[test]
fn a_stream_that_outgrows_its_attribute_is_whole_whatever_fails() {
    const SMALL: usize = 500;
    for beside in [false, true] {
        let prepare = |disk: &Disk| {
            disk.create("file", Kind::File).unwrap();
            disk.stream("file", "stream", 1, SMALL);
        };
        let change = |disk: &Disk| disk.open("file")?.extras().stream("stream")?.unwrap().1.write_at(&[1; LARGE], 0);
        at_each_call(beside, prepare, change, |disk, answer, _| {
            let (old, new) = ([entry("stream", SMALL, 1)], [entry("stream", LARGE, 1)]);
            let streams = disk.streams("file");
            assert!(streams == new || (answer.is_err() && streams == old), "{beside} {answer:?} {streams:?}");
            disk.node("file").extras().stream("stream").unwrap().unwrap().1.write_at(&[1; LARGE], 0).unwrap();
            assert_eq!(disk.streams("file"), new);
            disk.node("file").extras().remove_stream("stream").unwrap();
            sweep(&Arc::downgrade(&disk.store.volume()));
            assert_eq!(disk.sides(), 0, "{beside} {answer:?}");
        });
    }
}

#[test]
fn a_descriptor_that_could_not_be_replaced_by_a_long_one_is_there() {
    // Longer than an attribute, and what is kept beside a file as one.
    let [old, new] = [1, 2].map(|byte| vec![byte; 70_000]);
    for beside in [false, true] {
        let prepare = |disk: &Disk| disk.create("file", Kind::File).unwrap().extras().set_security(&old).unwrap();
        let change = |disk: &Disk| disk.open("file")?.extras().set_security(&new);
        at_each_call(beside, prepare, change, |disk, answer, _| {
            let found = disk.node("file").extras().security().unwrap().unwrap();
            assert!(found == new || (answer.is_err() && found == old), "{beside} {answer:?}");
        });
    }
}

#[test]
fn a_copied_stream_is_whole_whatever_fails_as_it_gets_a_file_of_its_own() {
    for beside in [false, true] {
        let prepare = |disk: &Disk| {
            for name in ["original", "copy"] {
                disk.create(name, Kind::File).unwrap();
            }
            disk.stream("original", "stream", 1, LARGE);
            disk.copy_value(beside, "user.multilane.stream.stream", ("original", "copy"));
        };
        let change = |disk: &Disk| disk.open("copy")?.extras().stream("stream")?.unwrap().1.write_at(&[1; 10], 0);
        at_each_call(beside, prepare, change, |disk, answer, _| {
            for name in ["original", "copy"] {
                assert_eq!(disk.streams(name), [entry("stream", LARGE, 1)], "{beside} {answer:?}");
            }
        });
    }
}

#[test]
fn a_stream_whose_file_cannot_be_opened_is_not_left_out_of_a_list() {
    for beside in [false, true] {
        let prepare = |disk: &Disk| {
            disk.create("file", Kind::File).unwrap();
            disk.stream("file", "stream", 1, LARGE);
        };
        let change = |disk: &Disk| {
            let listed = disk.open("file")?.extras().streams()?;
            assert_eq!(listed.len(), 1, "{beside}");
            Ok(())
        };
        at_each_call(beside, prepare, change, |_, _, _| ());
    }
}

#[test]
fn a_stream_that_another_share_made_is_not_lost_whatever_fails_as_it_is_looked_for() {
    for is_served in [true, false] {
        let prepare = |disk: &Disk| {
            disk.create("inner", Kind::Directory).unwrap();
            let inner = DirectoryStore::open(&disk.path().join("inner"), DirectoryOptions::default()).unwrap();
            let file = inner.create(&SharePath::parse("file").unwrap(), new_file()).unwrap();
            file.extras().create_stream("stream").unwrap().write_at(&vec![1; LARGE], 0).unwrap();
            // What is served is found without its place, too.
            disk.create("aside", Kind::Directory).unwrap();
            std::fs::rename(disk.path().join("inner/file"), disk.path().join("aside/file")).unwrap();
            if is_served {
                disk.other.set(Some(inner));
            } else {
                std::fs::rename(disk.path().join("aside/file"), disk.path().join("inner/file")).unwrap();
            }
        };
        let name = if is_served { "aside\\file" } else { "inner\\file" };
        let change = |disk: &Disk| disk.open(name)?.extras().create_stream("stream").map(drop);
        at_each_call(false, prepare, change, |disk, answer, _| {
            assert!(answer.is_err());
            assert_eq!(disk.streams(name), [entry("stream", LARGE, 1)], "{answer:?}");
        });
    }
}

#[test]
fn a_stream_that_another_share_made_is_found_while_its_file_is_moved() {
    for at in 0..CALLS_MAX {
        let disk = Disk::new(false);
        for directory in ["inner", "inner\\deep", "inner\\deep\\deeper"] {
            disk.store.create(&SharePath::parse(directory).unwrap(), new_directory()).unwrap();
        }
        let inner = DirectoryStore::open(&disk.path().join("inner"), DirectoryOptions::default()).unwrap();
        let file = inner.create(&SharePath::parse("deep\\deeper\\file").unwrap(), new_file()).unwrap();
        file.extras().create_stream("stream").unwrap().write_at(&vec![1; LARGE], 0).unwrap();
        drop((file, inner));
        let node = disk.node("inner\\deep\\deeper\\file");
        let (from, to) = (disk.path().join("inner/deep/deeper"), disk.path().join("inner/moved"));
        let (answer, happened) =
            meanwhile(at, move || std::fs::rename(from, to).unwrap(), || node.extras().create_stream("stream"));
        assert_eq!(answer.err(), Some(Error::Exists), "{at}");
        if !happened {
            break;
        }
    }
}
