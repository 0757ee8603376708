//! What a listing tells as it does without a cache: where no descriptor is free, where a directory may be read no more, and where it has gone.

use std::fmt::Debug;
use std::fs::{self, File, Permissions};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::{CachedStore, Cursor, Error, Kind, Known, Name, Node, Resolved, Store, Use};

use crate::common::{
    Mounted, all_entries, behind, bounds, is_apart, is_by_nobody, is_in_namespace, listed, listed_of, memory, open,
    path,
};

/// What is told, with what it is told of.
type Told = Vec<(&'static str, String)>;

fn told(of: &'static str, what: impl Debug) -> (&'static str, String) {
    (of, format!("{what:?}"))
}

/// A folder behind a cache that is on or off.
fn switched(is_on: bool, place: &Path) -> CachedStore {
    let store = behind(&Known::new(bounds(64 << 20)), place);
    store.switch(is_on);
    store
}

#[test]
fn no_name_is_left_out_where_no_descriptor_is_free() {
    if !is_apart("cached_listed_apart::no_name_is_left_out_where_no_descriptor_is_free", &["env"]) {
        return;
    }
    let place = memory();
    fs::create_dir(place.path().join("d")).unwrap();
    (0..40).for_each(|number| fs::write(place.path().join(format!("d/{number}")), "data").unwrap());
    let store = switched(true, place.path());
    (0..2).for_each(|_| drop(open(&store, "d", Use::Read)));
    (0..2).for_each(|_| drop(all_entries(&*open(&store, "d", Use::Read)).unwrap()));
    let node = open(&store, "d", Use::Read);
    let names = all_entries(&*node).unwrap();
    setrlimit(Resource::Nofile, Rlimit { current: Some(128), ..getrlimit(Resource::Nofile) }).unwrap();
    let held: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    // As a client that has read the names and goes on with what is told of each.
    let count = || names.iter().filter(|entry| node.names().unwrap().entry_metadata(&entry.name).is_ok()).count();
    let with = count();
    store.switch(false);
    let without = count();
    drop(held);
    assert_eq!((with, without), (40, 40), "names that are told of with the cache, and without it");
}

/// What is told of a directory that was opened before its permissions changed.
fn told_once_its_mode_is(store: &CachedStore, directory: &Path, mode: u32) -> Told {
    let node = open(store, "d", Use::Read);
    let names = node.names().unwrap();
    let mut cursor = Cursor::default();
    let mut go_on = |_| ControlFlow::Continue(());
    let first = names.list(&mut cursor, &mut go_on);
    fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
    let opened = |usage| store.resolve(&path("d"), usage).map(drop);
    let by_metadata = store.resolve(&path("d"), Use::Metadata).map(|found| {
        let Resolved::Found { node, .. } = found else { panic!("it is there") };
        (node.names().unwrap().list_all(1_000, &mut |_| ControlFlow::Continue(())), node.prepare(Use::Read))
    });
    let all = vec![
        told("its first piece", first),
        told("the next piece of the same open", names.list(&mut cursor, &mut go_on)),
        told("all by the same open", names.list_all(1_000, &mut go_on)),
        told("the length of a name", names.entry_metadata(&Name::new("0001").unwrap()).map(|known| known.length)),
        told("whether it is empty", names.is_empty()),
        told("who opens it anew", [Use::Metadata, Use::Read, Use::ReadWrite].map(opened)),
        told("all by one who opened it for its metadata", by_metadata),
    ];
    fs::set_permissions(directory, Permissions::from_mode(0o755)).unwrap();
    all
}

#[test]
fn who_has_a_directory_open_that_may_be_read_no_more_lists_it_as_without_the_cache() {
    let test = "who_has_a_directory_open_that_may_be_read_no_more_lists_it_as_without_the_cache";
    if !is_by_nobody(&format!("cached_listed_apart::{test}")) {
        return;
    }
    let place = memory();
    let directory = place.path().join("d");
    fs::create_dir(&directory).unwrap();
    // More than one piece.
    (0..5_000).for_each(|number| drop(File::create(directory.join(format!("{number:04}"))).unwrap()));
    for mode in [0o111, 0o000, 0o444, 0o755] {
        for times_opened in [0, 3] {
            let [with, without] = [true, false].map(|is_on| {
                let store = switched(is_on, place.path());
                for usage in [Use::Metadata, Use::Read] {
                    (0..times_opened).for_each(|_| drop(open(&store, "d", usage)));
                }
                told_once_its_mode_is(&store, &directory, mode)
            });
            assert_eq!(
                with, without,
                "with the cache and without it, mode {mode:o}, opened {times_opened} times before"
            );
        }
    }
}

/// What happens to a directory that is open.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Removed,
    Replaced,
    MovedOut,
    FileInItsPlace,
    MountedOver,
    ChildMountedOver,
}

impl Fate {
    const ALL: [Fate; 6] = [
        Fate::Removed,
        Fate::Replaced,
        Fate::MovedOut,
        Fate::FileInItsPlace,
        Fate::MountedOver,
        Fate::ChildMountedOver,
    ];

    fn happens(self, directory: &Path, aside: &Path, store: &CachedStore) -> Option<Mounted> {
        match self {
            Fate::Removed => fs::remove_dir_all(directory).unwrap(),
            Fate::Replaced => {
                fs::rename(directory, aside.join("d")).unwrap();
                fs::create_dir(directory).unwrap();
                fs::write(directory.join("other"), "").unwrap();
            }
            Fate::MovedOut => fs::rename(directory, aside.join("d")).unwrap(),
            Fate::FileInItsPlace => {
                fs::remove_dir_all(directory).unwrap();
                fs::write(directory, "file").unwrap();
            }
            Fate::MountedOver => return Some(mounted_over(directory)),
            Fate::ChildMountedOver => {
                fs::create_dir(directory.join("m")).unwrap();
                drop(listed(store));
                return Some(mounted_over(&directory.join("m")));
            }
        }
        None
    }
}

/// A thread hears of what is mounted.
fn time_to_hear() {
    std::thread::sleep(Duration::from_millis(200));
}

fn mounted_over(directory: &Path) -> Mounted {
    let mounted = Mounted::of("tmpfs", directory, "mode=755").unwrap();
    fs::write(directory.join("above"), "").unwrap();
    time_to_hear();
    mounted
}

/// The names of a directory and what is told of each.
fn names_of(node: &dyn Node) -> Result<Vec<String>, Error> {
    let mut all = Vec::new();
    node.names()?.list_all(64, &mut |entry| {
        let known = node.names().unwrap().entry_metadata(&entry.name);
        let known = known.map(|known| (known.kind, known.length, known.links));
        all.push(format!("{} {known:?}", entry.name.as_str()));
        ControlFlow::Continue(())
    })?;
    all.sort();
    Ok(all)
}

/// What is told of a directory of a folder once that has happened to it.
fn told_after(fate: Fate, is_on: bool, place: &Path) -> Told {
    let directory = place.join("d");
    fs::create_dir(&directory).unwrap();
    ["a", "b"].iter().for_each(|name| fs::write(directory.join(name), "x").unwrap());
    let store = switched(is_on, place);
    (0..3).for_each(|_| drop(listed(&store)));
    let node = open(&store, "d", Use::Read);
    drop(listed_of(&*node));
    let aside = tempfile::tempdir_in(place.parent().unwrap()).unwrap();
    let mounted = fate.happens(&directory, aside.path(), &store);
    let anew = store.resolve(&path("d"), Use::Read).map(|found| match found {
        Resolved::Found { node, .. } if node.metadata().unwrap().kind == Kind::Directory => Some(names_of(&*node)),
        Resolved::Found { .. } | Resolved::Missing { .. } => None,
    });
    let all = vec![
        told("its names", names_of(&*node)),
        told("its names once more", names_of(&*node)),
        told("its links", node.metadata().map(|known| known.links)),
        told("whether it lies in another", node.above().map(|above| above.is_some())),
        told("its names where it is opened anew", anew),
        told("whether it is empty", node.names().unwrap().is_empty()),
    ];
    drop((node, store, mounted));
    let _ = fs::remove_dir_all(&directory).or_else(|_| fs::remove_file(&directory));
    all
}

/// A new file system of a type in a file, which is mounted beside it, where this machine has that.
fn of_file(system: &str, place: &Path) -> Option<Mounted> {
    let (file, at) = (place.join("file"), place.join("mounted"));
    File::create(&file).unwrap().set_len(400 << 20).unwrap();
    fs::create_dir(&at).unwrap();
    let is_done = |command: &mut Command| command.output().is_ok_and(|output| output.status.success());
    let is_made = is_done(Command::new(format!("mkfs.{system}")).arg("-q").arg(&file));
    let mounted = is_made && is_done(Command::new("mount").args(["-o", "loop"]).arg(&file).arg(&at));
    mounted.then_some(Mounted(at))
}

#[test]
fn what_has_gone_is_listed_as_without_the_cache() {
    if !is_in_namespace("cached_listed_apart::what_has_gone_is_listed_as_without_the_cache") {
        return;
    }
    let folders = [memory(), tempfile::tempdir().unwrap()];
    let files = ["xfs", "btrfs"].map(|system| {
        let place = tempfile::tempdir().unwrap();
        (of_file(system, place.path()), place)
    });
    time_to_hear();
    let mounted = files.iter().filter_map(|(mounted, _)| mounted.as_ref());
    let places: Vec<PathBuf> =
        folders.iter().map(|folder| folder.path().to_owned()).chain(mounted.map(|mounted| mounted.0.clone())).collect();
    for place in places {
        let folder = place.join("share");
        fs::create_dir(&folder).unwrap();
        for fate in Fate::ALL {
            let [with, without] = [true, false].map(|is_on| told_after(fate, is_on, &folder));
            assert_eq!(with, without, "with the cache and without it, {fate:?} in {}", place.display());
        }
    }
}
