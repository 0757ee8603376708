//! Hearing of what other programs do.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use store::{Error, Foreign, Guard, Kind, Listener, Reach, Replace, What};

use crate::common::{Disk, directory, memory_directory, path, ram};

/// Far longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(20);

struct Ear(Mutex<Sender<String>>);

impl Listener for Ear {
    fn hear(&self, change: Foreign<'_>) {
        let Foreign { inside, name, kind, what, .. } = change;
        let what = match what {
            What::Came => "+".to_owned(),
            What::Went => "-".to_owned(),
            What::Renamed { to } => format!(">{to} "),
            What::Changed { .. } => "*".to_owned(),
        };
        let slash = if kind == Kind::Directory { "/" } else { "" };
        let inside = if inside.is_empty() { String::new() } else { format!("{inside}\\") };
        let _ = self.0.lock().unwrap().send(format!("{what}{inside}{name}{slash}"));
    }

    fn lose(&self) {
        let _ = self.0.lock().unwrap().send("lost".into());
    }
}

fn watch(disk: &Disk, of: &str, reach: Reach) -> (Guard, Receiver<String>) {
    let (sender, receiver) = channel();
    let identity = disk.node(of).identity();
    let guard = disk.store.watch(&path(of), identity, reach, Arc::new(Ear(Mutex::new(sender)))).unwrap().unwrap();
    (guard, receiver)
}

fn root(disk: &Disk) -> &Path {
    disk.folder.as_ref().unwrap().path()
}

/// What is heard up to and with `last`.
fn until(heard: &Receiver<String>, last: &str) -> Vec<String> {
    let mut all = Vec::new();
    while all.last().is_none_or(|change| change != last) {
        all.push(heard.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{last} was not heard, but {all:?}")));
    }
    all
}

#[test]
fn nobody_else_changes_a_ram_disk() {
    let (sender, _receiver) = channel();
    let disk = ram();
    let root = disk.node("").identity();
    let watched = disk.store.watch(&path(""), root, Reach::Tree, Arc::new(Ear(Mutex::new(sender)))).unwrap();
    assert!(watched.is_none());
}

#[test]
fn a_directory_that_took_the_name_of_another_is_not_heard_of() {
    for disk in [directory(), memory_directory()] {
        let mine = disk.directory("mine").identity();
        disk.directory("other");
        disk.rename("mine", "before", Replace::No).unwrap();
        disk.rename("other", "mine", Replace::No).unwrap();
        let (sender, _receiver) = channel();
        let watched = disk.store.watch(&path("mine"), mine, Reach::Tree, Arc::new(Ear(Mutex::new(sender))));
        assert_eq!(watched.map(|_| ()), Err(Error::NotFound));
    }
}

#[test]
fn names_and_data_in_a_directory_are_heard_of() {
    for disk in [directory(), memory_directory()] {
        let root = root(&disk);
        let (_guard, heard) = watch(&disk, "", Reach::Directory);
        fs::create_dir(root.join("d")).unwrap();
        fs::write(root.join("d/unheard"), b"").unwrap();
        fs::write(root.join("a"), b"1").unwrap();
        fs::rename(root.join("a"), root.join("b")).unwrap();
        fs::rename(root.join("b"), root.join("d/b")).unwrap();
        fs::rename(root.join(".multilane"), root.join(".MULTILANE")).unwrap();
        fs::write(root.join("end"), b"").unwrap();
        let all = until(&heard, "+end");
        assert_eq!(all, ["+d/", "+a", ">b a", "-b", "+end"]);
        assert_eq!(until(&heard, "*end"), ["*end"]);
    }
}

#[test]
fn a_tree_is_heard_of_as_it_grows_and_moves() {
    let disk = directory();
    let root = root(&disk);
    fs::create_dir_all(root.join("top/one/two")).unwrap();
    let (_guard, heard) = watch(&disk, "top", Reach::Tree);
    fs::write(root.join("outside"), b"").unwrap();
    fs::create_dir(root.join("top/one/two/three")).unwrap();
    assert_eq!(until(&heard, "+one\\two\\three/"), ["+one\\two\\three/"]);
    fs::create_dir(root.join("top/one/two/three/four")).unwrap();
    assert_eq!(until(&heard, "+one\\two\\three\\four/"), ["+one\\two\\three\\four/"]);
    fs::rename(root.join("top/one/two"), root.join("top/else")).unwrap();
    assert_eq!(until(&heard, "+else/"), ["-one\\two/", "+else/"]);
    fs::create_dir(root.join("top/else/three/four/five")).unwrap();
    assert_eq!(until(&heard, "+else\\three\\four\\five/"), ["+else\\three\\four\\five/"]);
    fs::rename(root.join("top/else"), root.join("gone")).unwrap();
    assert_eq!(until(&heard, "-else/"), ["-else/"]);
    fs::create_dir(root.join("gone/three/unheard")).unwrap();
    fs::remove_dir(root.join("top/one")).unwrap();
    assert_eq!(until(&heard, "-one/"), ["-one/"]);
}

#[test]
fn a_dropped_guard_ends_it() {
    let disk = directory();
    let root = root(&disk);
    let (first, heard) = watch(&disk, "", Reach::Tree);
    let (second, heard_too) = watch(&disk, "", Reach::Directory);
    drop(first);
    fs::create_dir(root.join("one")).unwrap();
    assert_eq!(until(&heard_too, "+one/"), ["+one/"]);
    assert!(heard.recv().is_err(), "the ear is gone");
    drop(second);
    assert!(heard_too.recv().is_err());
    let (_third, heard) = watch(&disk, "", Reach::Directory);
    fs::create_dir(root.join("two")).unwrap();
    assert_eq!(until(&heard, "+two/"), ["+two/"]);
}

#[test]
fn churn_neither_ends_nor_stops_it() {
    let disk = directory();
    let root = root(&disk).to_owned();
    let (_guard, heard) = watch(&disk, "", Reach::Tree);
    let churn = |number: usize| {
        let root = root.clone();
        std::thread::spawn(move || {
            for round in 0..60 {
                let one = root.join(format!("{number}-{round}"));
                fs::create_dir_all(one.join("a/b/c")).unwrap();
                fs::write(one.join("a/b/c/file"), b"data").unwrap();
                fs::rename(one.join("a/b"), one.join("b")).unwrap();
                fs::rename(&one, root.join(format!("moved-{number}"))).unwrap();
                fs::remove_dir_all(root.join(format!("moved-{number}"))).unwrap();
            }
        })
    };
    let churning: Vec<_> = (0..4).map(churn).collect();
    for _ in 0..20 {
        let (_second, _heard) = watch(&disk, "", Reach::Tree);
    }
    churning.into_iter().for_each(|thread| thread.join().unwrap());
    fs::create_dir(root.join("end")).unwrap();
    fs::create_dir(root.join("end/below")).unwrap();
    until(&heard, "+end\\below/");
}
