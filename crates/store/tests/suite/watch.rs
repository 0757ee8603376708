//! Hearing of what other programs do.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
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

    fn hold(&self, _bytes: u64) -> bool {
        true
    }

    fn let_go(&self, _bytes: u64) {}
}

fn watch(disk: &Disk, of: &str, reach: Reach) -> (Guard, Receiver<String>) {
    let (sender, receiver) = channel();
    let identity = disk.node(of).identity();
    let mut guard = disk.store.watch(&path(of), identity, reach, Arc::new(Ear(Mutex::new(sender)))).unwrap().unwrap();
    while guard.go_on() {}
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

/// Directories that lie in each other, so that a path takes some thousand bytes, and the path of the last.
fn far_down(disk: &Disk) -> String {
    let mut path = String::new();
    for level in 0..12 {
        path.push_str(&if level == 0 { "d".repeat(250) } else { format!("\\{}", "d".repeat(250)) });
    }
    fs::create_dir_all(root(disk).join(path.replace('\\', "/"))).unwrap();
    path
}

const MANY: usize = 2_000;

#[test]
fn a_tree_that_is_watched_costs_its_names_and_not_their_paths() {
    let disk = directory();
    let above = root(&disk).join(far_down(&disk).replace('\\', "/"));
    (0..MANY).for_each(|number| fs::create_dir(above.join(number.to_string())).unwrap());
    let mut watched = None;
    let held = allocation_counter::measure(|| watched = Some(watch(&disk, "", Reach::Tree)));
    drop(watched);
    assert!(held.bytes_max < 1_000 * MANY as u64, "{held:?}");
}

#[test]
fn to_watch_a_tree_takes_two_descriptors_however_many_directories_it_has() {
    let disk = directory();
    (0..MANY).for_each(|number| fs::create_dir(root(&disk).join(number.to_string())).unwrap());
    let done = AtomicBool::new(false);
    let folder = root(&disk);
    let most = thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut most = 0;
            while !done.load(Ordering::Relaxed) {
                let opened =
                    fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
                most = most.max(opened.filter(|target| target.starts_with(folder)).count());
            }
            most
        });
        let watched = watch(&disk, "", Reach::Tree);
        done.store(true, Ordering::Relaxed);
        drop(watched);
        looks.join().unwrap()
    });
    // One is the share's root, which the store has open.
    assert!(most <= 8, "{most}");
}

/// Pays for so many bytes, and says what happens to those.
struct Payer {
    left: Mutex<i64>,
    lost: AtomicBool,
}

impl Listener for Payer {
    fn hear(&self, _change: Foreign<'_>) {}

    fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    fn hold(&self, bytes: u64) -> bool {
        let mut left = self.left.lock().unwrap();
        let rest = *left - i64::try_from(bytes).unwrap();
        *left = if rest < 0 { *left } else { rest };
        rest >= 0
    }

    fn let_go(&self, bytes: u64) {
        *self.left.lock().unwrap() += i64::try_from(bytes).unwrap();
    }
}

/// Watches all of a disk for somebody who can pay so much.
fn pay(disk: &Disk, left: i64) -> (Guard, Arc<Payer>) {
    let payer = Arc::new(Payer { left: Mutex::new(left), lost: AtomicBool::new(false) });
    let root = disk.node("").identity();
    let mut guard = disk.store.watch(&path(""), root, Reach::Tree, Arc::clone(&payer) as _).unwrap().unwrap();
    while guard.go_on() {}
    (guard, payer)
}

#[test]
fn who_cannot_pay_for_all_of_a_tree_is_told_that_something_is_lost() {
    let disk = directory();
    (0..10).for_each(|number| fs::create_dir(root(&disk).join(number.to_string())).unwrap());
    let (_poor, of_poor) = pay(&disk, 5_000);
    let (_rich, of_rich) = pay(&disk, 1 << 20);
    assert!(of_poor.lost.load(Ordering::Relaxed));
    assert!(!of_rich.lost.load(Ordering::Relaxed));
    assert!(*of_rich.left.lock().unwrap() < (1 << 20) - 10_000);
}

#[test]
fn who_watches_no_directories_that_went_pays_for_none() {
    let disk = directory();
    let (_guard, payer) = pay(&disk, 1 << 20);
    let alone = *payer.left.lock().unwrap();
    let (_other, heard) = watch(&disk, "", Reach::Tree);
    fs::create_dir_all(root(&disk).join("a/b/c")).unwrap();
    until(&heard, "+a\\b\\c/");
    fs::remove_dir_all(root(&disk).join("a")).unwrap();
    until(&heard, "-a/");
    fs::write(root(&disk).join("end"), b"").unwrap();
    until(&heard, "*end");
    assert_eq!(*payer.left.lock().unwrap(), alone);
}

#[test]
fn a_tree_below_another_is_heard_of_when_that_one_is_not_watched_any_more() {
    let disk = directory();
    let root = root(&disk);
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    let (_inner, heard) = watch(&disk, "a\\b", Reach::Tree);
    let (outer, above) = watch(&disk, "", Reach::Tree);
    fs::rename(root.join("a"), root.join("z")).unwrap();
    assert_eq!(until(&above, ">z a/"), [">z a/"]);
    fs::create_dir(root.join("z/b/c/one")).unwrap();
    assert_eq!(until(&above, "+z\\b\\c\\one/"), ["+z\\b\\c\\one/"]);
    drop(outer);
    fs::create_dir(root.join("z/b/c/one/two")).unwrap();
    assert_eq!(until(&heard, "+c\\one\\two/"), ["+c\\one/", "+c\\one\\two/"]);
}

#[test]
fn a_tree_that_moves_unseen_loses_what_is_made_in_it() {
    let disk = directory();
    let root = root(&disk);
    fs::create_dir_all(root.join("a/b")).unwrap();
    let (_guard, heard) = watch(&disk, "a\\b", Reach::Tree);
    fs::rename(root.join("a"), root.join("z")).unwrap();
    fs::create_dir(root.join("z/b/c")).unwrap();
    let all = until(&heard, "+c/");
    assert_eq!(all, ["lost", "+c/"]);
}
