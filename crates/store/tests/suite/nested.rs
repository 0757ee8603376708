//! Shares whose folders lie in each other, or side by side on one file system: a file has what is kept with it through each of them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use store::{DirectoryOptions, DirectoryStore, Error, Kind, Node, Renewal, Replace, Resolved, Store, Use};
use tempfile::TempDir;

use crate::common::{Mounted, new, path, read_all};

/// Bytes of a stream that does not fit in an attribute.
const LONG: usize = 50_000;

/// A folder, one in it and one beside that, each of them served or not.
struct Folders {
    place: TempDir,
    outer: Option<DirectoryStore>,
    inner: Option<DirectoryStore>,
}

/// Through which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Through {
    Outer,
    Inner,
}

const BOTH_WAYS: [(Through, Through); 2] = [(Through::Outer, Through::Inner), (Through::Inner, Through::Outer)];

impl Folders {
    fn new() -> Self {
        Folders::with(|_| ())
    }

    fn with(prepare: impl FnOnce(&Path)) -> Self {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("folder/inner");
        fs::create_dir_all(&inner).unwrap();
        prepare(&inner);
        let outer = Some(open(inner.parent().unwrap()));
        Folders { outer, inner: Some(open(&inner)), place }
    }

    fn store(&self, through: Through) -> &DirectoryStore {
        let store = match through {
            Through::Outer => &self.outer,
            Through::Inner => &self.inner,
        };
        store.as_ref().unwrap()
    }

    fn stop(&mut self, through: Through) {
        match through {
            Through::Outer => self.outer = None,
            Through::Inner => self.inner = None,
        }
    }

    fn make(&self, through: Through, name: &str) -> Arc<dyn Node> {
        self.store(through).create(&path(&spelled(through, name)), new(Kind::File)).unwrap()
    }

    fn find(&self, through: Through, name: &str) -> Arc<dyn Node> {
        find(self.store(through), &spelled(through, name))
    }

    fn remove(&self, through: Through, name: &str) {
        let file = self.find(through, name).identity();
        self.store(through).remove(&path(&spelled(through, name)), file).unwrap();
    }

    /// What the reserved folders hold besides the locks.
    fn sides(&self) -> usize {
        ["folder", "folder/inner"].map(|folder| sides(&self.place.path().join(folder))).iter().sum()
    }
}

fn open(folder: &Path) -> DirectoryStore {
    DirectoryStore::open(folder, Default::default()).unwrap()
}

/// The name of a file of the inner folder.
fn spelled(through: Through, name: &str) -> String {
    match through {
        Through::Outer => format!("inner\\{name}"),
        Through::Inner => name.to_owned(),
    }
}

fn find(store: &DirectoryStore, name: &str) -> Arc<dyn Node> {
    match store.resolve(&path(name), Use::ReadWrite).unwrap() {
        Resolved::Found { node, .. } => node,
        Resolved::Missing { .. } => panic!("{name} is not there"),
    }
}

fn sides(folder: &Path) -> usize {
    let Ok(entries) = fs::read_dir(folder.join(".multilane")) else { return 0 };
    let entries: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    entries.iter().filter(|path| !path.ends_with("lock")).count()
}

fn stream(node: &dyn Node, name: &str) -> Arc<dyn Node> {
    let stream = node.extras().stream(name).unwrap().expect("it is there").1;
    stream.prepare(Use::ReadWrite).unwrap();
    stream
}

fn make_stream(node: &dyn Node, name: &str, byte: u8) -> Arc<dyn Node> {
    let stream = node.extras().create_stream(name).unwrap();
    stream.write_at(&vec![byte; LONG], 0).unwrap();
    stream.sync().unwrap();
    stream
}

#[test]
fn a_long_stream_is_one_through_each_share() {
    for (one, other) in BOTH_WAYS {
        let folders = Folders::new();
        let made = make_stream(&*folders.make(one, "file"), "long", 1);
        let seen = folders.find(other, "file");
        assert_eq!(seen.extras().create_stream("long").err(), Some(Error::Exists), "it takes nothing away");
        let listed = seen.extras().streams().unwrap();
        assert_eq!((listed.len(), listed[0].length), (1, LONG as u64), "{other:?}");
        let shared = stream(&*seen, "long");
        assert_eq!(read_all(&*shared), vec![1; LONG]);
        // The data are not copied, though the stream is open.
        shared.write_at(&[2; 10], 0).unwrap();
        made.write_at(&[3; 10], LONG as u64).unwrap();
        shared.sync().unwrap();
        assert_eq!(read_all(&*made), read_all(&*shared));
        assert_eq!((read_all(&*made)[..11].to_vec(), folders.sides()), ([vec![2; 10], vec![1]].concat(), 1));
        seen.extras().rename_stream("long", "renamed", Replace::No).unwrap();
        assert_eq!(read_all(&*stream(&*folders.find(one, "file"), "renamed")).len(), LONG + 10);
        folders.find(one, "file").extras().rename_stream("renamed", "long", Replace::No).unwrap();
        seen.extras().remove_stream("long").unwrap();
        assert_eq!((folders.sides(), folders.find(one, "file").extras().streams().unwrap().len()), (0, 0));
    }
}

#[test]
fn a_long_stream_is_one_though_the_share_it_was_made_through_is_no_more() {
    for (one, other) in BOTH_WAYS {
        let mut folders = Folders::new();
        make_stream(&*folders.make(one, "file"), "long", 1);
        folders.stop(one);
        let seen = folders.find(other, "file");
        assert_eq!(seen.extras().create_stream("long").err(), Some(Error::Exists));
        stream(&*seen, "long").write_at(&[2], 0).unwrap();
        assert_eq!(read_all(&*stream(&*seen, "long"))[..2], [2, 1]);
        drop(seen);
        folders.remove(other, "file");
        assert_eq!(folders.sides(), 0, "{one:?}");
    }
}

#[test]
fn long_streams_go_with_their_file_whichever_share_it_is_removed_through() {
    for (one, other) in BOTH_WAYS {
        let folders = Folders::new();
        for name in ["removed", "replaced", "emptied"] {
            let node = folders.make(one, name);
            make_stream(&*node, "long", 1);
            node.extras().set_security(&[1; 60_000]).unwrap();
        }
        folders.remove(other, "removed");
        assert_eq!(folders.sides(), 4);
        folders.find(other, "emptied").renew(&Renewal::default()).unwrap();
        assert_eq!(folders.sides(), 3);
        let file = folders.make(other, "file").identity();
        let [from, to] = ["file", "replaced"].map(|name| path(&spelled(other, name)));
        folders.store(other).rename(&from, &to, file, Replace::Yes).unwrap();
        assert_eq!(folders.sides(), 1, "the descriptor of the one that was emptied");
    }
}

#[test]
fn a_long_stream_that_another_program_moves_to_another_share_and_back_stays() {
    let place = tempfile::tempdir().unwrap();
    let [one, other] = ["one", "other"].map(|name| {
        let folder = place.path().join(name);
        fs::create_dir(&folder).unwrap();
        (open(&folder), folder)
    });
    let node = one.0.create(&path("file"), new(Kind::File)).unwrap();
    make_stream(&*node, "long", 1);
    fs::rename(one.1.join("file"), other.1.join("file")).unwrap();
    let moved = find(&other.0, "file");
    assert_eq!(moved.extras().create_stream("long").err(), Some(Error::Exists));
    assert_eq!(read_all(&*stream(&*moved, "long")), vec![1; LONG]);
    stream(&*moved, "long").write_at(&[2; 10], 0).unwrap();
    fs::rename(other.1.join("file"), one.1.join("file")).unwrap();
    assert_eq!(read_all(&*stream(&*find(&one.0, "file"), "long"))[..11], [[2; 10].as_slice(), &[1]].concat());
    fs::rename(one.1.join("file"), other.1.join("file")).unwrap();
    other.0.remove(&path("file"), node.identity()).unwrap();
    assert_eq!(sides(&one.1) + sides(&other.1), 0);
}

#[test]
fn a_long_stream_of_a_file_on_what_is_mounted_in_a_share_is_one_through_each() {
    for (one, other) in BOTH_WAYS {
        let mut mounted = None;
        let folders = Folders::with(|inner| mounted = Mounted::new(inner, "size=16m"));
        if mounted.is_none() {
            return;
        }
        let made = make_stream(&*folders.make(one, "file"), "long", 1);
        let seen = folders.find(other, "file");
        assert_eq!(seen.extras().create_stream("long").err(), Some(Error::Exists));
        let shared = stream(&*seen, "long");
        shared.write_at(&[2; 10], 0).unwrap();
        assert_eq!((read_all(&*made)[..11].to_vec(), folders.sides()), ([vec![2; 10], vec![1]].concat(), 1));
        folders.remove(other, "file");
        assert_eq!(folders.sides(), 0, "{one:?}");
    }
}

#[test]
fn a_long_descriptor_is_one_through_each_share() {
    for (one, other) in BOTH_WAYS {
        let folders = Folders::new();
        folders.make(one, "file").extras().set_security(&[1; 60_000]).unwrap();
        let seen = folders.find(other, "file");
        assert_eq!(seen.extras().security(), Ok(Some(vec![1; 60_000])));
        seen.extras().set_security(&[2; 60_000]).unwrap();
        assert_eq!(folders.find(one, "file").extras().security(), Ok(Some(vec![2; 60_000])));
        folders.remove(one, "file");
        assert_eq!(folders.sides(), 0);
    }
}

#[test]
fn the_streams_of_a_served_folder_itself_are_one_through_each_share() {
    let folders = Folders::new();
    for (one, other) in [("", "inner"), ("inner", "")] {
        let store = |name: &str| folders.store(if name.is_empty() { Through::Inner } else { Through::Outer });
        make_stream(&*find(store(one), one), "long", 1);
        assert_eq!(read_all(&*stream(&*find(store(other), other), "long")), vec![1; LONG]);
        find(store(other), other).extras().remove_stream("long").unwrap();
        assert_eq!(folders.sides(), 0);
    }
}

#[test]
fn what_others_may_have_put_above_a_share_is_not_taken_for_a_streams_data() {
    let mut folders = Folders::new();
    make_stream(&*folders.make(Through::Outer, "file"), "long", 1);
    folders.stop(Through::Outer);
    let reserved = folders.place.path().join("folder/.multilane");
    fs::set_permissions(&reserved, fs::Permissions::from_mode(0o777)).unwrap();
    let seen = folders.find(Through::Inner, "file");
    assert!(seen.extras().stream("long").unwrap().is_none());
    fs::set_permissions(&reserved, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(read_all(&*stream(&*seen, "long")), vec![1; LONG]);
}

/// What keeps a folder without extended attributes from being served.
fn refused(folder: &Path) -> (Option<Error>, Option<PathBuf>) {
    (DirectoryStore::open(folder, beside()).err(), DirectoryStore::nested_with(folder))
}

/// What `serve` gives. What was served before may be for a moment longer, by the thread that looks for what was left there.
fn at_last<T>(serve: impl Fn() -> Result<T, Error>) -> T {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        match serve() {
            Err(Error::Nested) if Instant::now() < until => thread::sleep(Duration::from_millis(1)),
            served => return served.unwrap(),
        }
    }
}

fn beside() -> DirectoryOptions {
    DirectoryOptions { attributes_beside_files: true, ..Default::default() }
}

#[test]
fn folders_in_each_other_are_not_both_served_where_one_has_no_attributes() {
    let place = tempfile::tempdir().unwrap();
    let [outer, inner, sibling] = ["outer", "outer/in/ner", "sibling"].map(|name| place.path().join(name));
    fs::create_dir_all(&inner).unwrap();
    fs::create_dir(&sibling).unwrap();
    let opened = |folder: &Path, options: DirectoryOptions| at_last(|| DirectoryStore::open(folder, options.clone()));
    for (one, other) in [(&outer, &inner), (&inner, &outer)] {
        for (with, without) in [(Default::default(), beside()), (beside(), Default::default()), (beside(), beside())] {
            let served = (opened(one, with), opened(&sibling, beside()));
            assert_eq!(DirectoryStore::open(other, without.clone()).err(), Some(Error::Nested));
            assert_eq!(DirectoryStore::nested_with(other).as_ref(), Some(one));
            let read_only = DirectoryOptions { read_only: true, ..without.clone() };
            assert_eq!(DirectoryStore::open(other, read_only).err(), Some(Error::Nested), "who reads goes by it, too");
            drop(served);
            drop(opened(other, without));
        }
        let both = (opened(one, Default::default()), opened(other, Default::default()));
        assert_eq!(refused(&inner).0, Some(Error::Nested));
        drop(both);
    }
    // The same folder as often as anybody likes.
    let again = (opened(&inner, beside()), opened(&inner, beside()), opened(&sibling, beside()));
    let made = again.0.create(&path("file"), new(Kind::File)).unwrap();
    made.extras().set_security(b"descriptor").unwrap();
    assert_eq!(find(&again.1, "file").extras().security(), Ok(Some(b"descriptor".to_vec())));
}

#[test]
fn a_folder_that_comes_to_lie_in_another_is_not_followed_where_one_has_no_attributes() {
    let place = tempfile::tempdir().unwrap();
    let [outer, inner, sibling] = ["outer", "outer/inner", "sibling"].map(|name| place.path().join(name));
    fs::create_dir_all(&inner).unwrap();
    fs::create_dir(&sibling).unwrap();
    let served = DirectoryStore::open(&sibling, beside()).unwrap();
    let _outer = open(&outer);
    assert_eq!(served.follow(&inner), Err(Error::Nested));
    served.create(&path("file"), new(Kind::File)).unwrap();
    assert!(sibling.join("file").exists(), "what is served stays");
    // What it leaves is not in its own way.
    let inside = sibling.join("inside");
    fs::create_dir(&inside).unwrap();
    at_last(|| served.follow(&inside));
    at_last(|| served.follow(&sibling));
}

#[test]
fn a_folder_without_attributes_that_is_moved_into_another_is_open_to_nobody_and_says_so() {
    let place = tempfile::tempdir().unwrap();
    let [outer, sibling] = ["outer", "sibling"].map(|name| place.path().join(name));
    fs::create_dir(&outer).unwrap();
    fs::create_dir(&sibling).unwrap();
    let (served, _outer) = (DirectoryStore::open(&sibling, beside()).unwrap(), open(&outer));
    served.create(&path("file"), new(Kind::File)).unwrap().extras().set_security(b"descriptor").unwrap();
    fs::rename(&sibling, outer.join("moved")).unwrap();
    assert_eq!(served.look(), Err(Error::Nested));
    assert_eq!(find(&served, "file").extras().security(), Err(Error::Denied));
    fs::rename(outer.join("moved"), &sibling).unwrap();
    assert!(served.look().is_ok());
    assert_eq!(find(&served, "file").extras().security(), Ok(Some(b"descriptor".to_vec())));
}

#[test]
fn what_is_mounted_without_attributes_is_not_served_together_with_what_it_lies_in() {
    let place = tempfile::tempdir().unwrap();
    let inner = place.path().join("inner");
    let Some(_mounted) = Mounted::of("ramfs", &inner, "size=4m") else { return };
    let outer = open(place.path());
    assert_eq!(refused(&inner), (Some(Error::Nested), Some(place.path().to_owned())));
    drop(outer);
    let _inner = open(&inner);
    assert_eq!(DirectoryStore::open(place.path(), Default::default()).err(), Some(Error::Nested));
}

#[test]
fn what_two_shares_have_mounted_in_them_without_attributes_is_open_to_nobody_through_either() {
    let place = tempfile::tempdir().unwrap();
    let [folder, inner] = ["folder", "folder/inner"].map(|name| place.path().join(name));
    let Some(_mounted) = Mounted::of("ramfs", &inner.join("mounted"), "size=4m") else { return };
    let Some(_another) = Mounted::of("ramfs", &folder.join("another"), "size=4m") else { return };
    let outer = open(&folder);
    for file in ["another\\file", "inner\\mounted\\file"] {
        outer.create(&path(file), new(Kind::File)).unwrap().extras().set_security(b"descriptor").unwrap();
    }
    let inner = open(&inner);
    let seen = |store: &DirectoryStore, name: &str| find(store, name).extras().security();
    assert_eq!(seen(&inner, "mounted\\file"), Err(Error::Denied));
    assert_eq!(find(&inner, "mounted\\file").extras().set_security(b"other"), Err(Error::Denied));
    assert_eq!(seen(&outer, "inner\\mounted\\file"), Err(Error::Denied));
    assert_eq!(seen(&outer, "another\\file"), Ok(Some(b"descriptor".to_vec())), "one alone has it");
    drop(inner);
    assert_eq!(seen(&outer, "inner\\mounted\\file"), Ok(Some(b"descriptor".to_vec())));
}
