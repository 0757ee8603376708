//! What others may do while a file is made, and what is left where that fails.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::directory::UnixOwner;
use crate::directory::calls::failing::{Fail, Lacks, count, during, lacking, meanwhile};
use crate::directory::faults::{CALLS_MAX, Disk};
use crate::{Error, Kind, Name, NewNode, Node, Use};

/// While a file is made for long, those wait on the same file system who find files: tests that do so, or count what finding takes, go one by one.
pub(super) static LONG_MAKING: parking_lot::Mutex<()> = parking_lot::Mutex::new(());

/// Who waits for a lock waits for longer than this.
const PATIENCE: Duration = Duration::from_millis(200);

fn make(folder: &dyn Node, name: &str) {
    let new = NewNode { kind: Kind::File, attributes: 0, security: Some(b"descriptor"), owner: None };
    folder.names().unwrap().create(&Name::new(name).unwrap(), new).unwrap();
}

#[test]
fn what_a_new_file_is_to_have_keeps_nobody_from_making_others_beside_it() {
    let _alone = LONG_MAKING.lock();
    let disk = Disk::new(false);
    let folder = disk.node("");
    make(&*folder, "first");
    let calls = count(|| make(&*folder, "second")).1;
    let free = Arc::new(Mutex::new(Vec::new()));
    for at in 0..calls {
        let (others, free) = (Arc::clone(&folder), Arc::clone(&free));
        let happens = move || {
            let (done, is_done) = channel();
            thread::spawn(move || {
                make(&*others, &format!("another {at}"));
                let _ = done.send(());
            });
            let is_free = is_done.recv_timeout(PATIENCE * 5).is_ok();
            free.lock().unwrap().extend(is_free.then_some(at));
        };
        meanwhile(at, happens, || make(&*folder, &format!("file {at}")));
    }
    // Its descriptor, and its mode.
    assert!(free.lock().unwrap().ends_with(&[calls - 2, calls - 1]), "{free:?} of {calls}");
}

#[test]
fn what_has_taken_the_place_of_a_file_that_could_not_be_made_stays() {
    let _alone = LONG_MAKING.lock();
    let mut lost = Vec::new();
    for at in 0..CALLS_MAX {
        let disk = Disk::new(false);
        let (from, to) = (disk.path().join("other"), disk.path().join("file"));
        fs::write(&from, "data").unwrap();
        let place = to.clone();
        let happens = move || fs::rename(from, place).unwrap();
        let make = || lacking(Lacks::Room, || disk.create("file", Kind::File));
        let (made, happened) = meanwhile(at, happens, make);
        assert!(made.is_err());
        if !happened {
            break;
        }
        lost.extend(fs::read(&to).is_err().then_some(at));
    }
    // No call removes a name only while it leads to a certain file: another program may come between. The server does not.
    assert!(lost.len() <= 2, "{lost:?}");
}

#[test]
fn a_directory_that_takes_the_place_of_one_which_was_just_made_is_given_to_nobody() {
    let _alone = LONG_MAKING.lock();
    // To this process's user, so that nobody has to be root: what is given has another mode afterwards.
    let itself = UnixOwner { uid: geteuid().as_raw(), gid: getegid().as_raw() };
    let name = Name::new("made").unwrap();
    let mut refused = 0;
    for at in 0..CALLS_MAX {
        let disk = Disk::new(false);
        let [other, made, gone] = ["other", "made", "gone"].map(|name| disk.path().join(name));
        fs::create_dir(&other).unwrap();
        fs::set_permissions(&other, fs::Permissions::from_mode(0o751)).unwrap();
        let number = fs::metadata(&other).unwrap().ino();
        let folder = disk.node("");
        let happens = move || {
            if fs::rename(&made, gone).is_ok() {
                fs::rename(other, made).unwrap();
            }
        };
        let new = NewNode { kind: Kind::Directory, attributes: 0, security: Some(b"descriptor"), owner: Some(itself) };
        let (answer, happened) = meanwhile(at, happens, || folder.names().unwrap().create(&name, new));
        let entries = fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().metadata().unwrap());
        let others = entries.filter(|found| found.ino() == number);
        let modes: Vec<_> = others.map(|found| found.permissions().mode() & 0o7777).collect();
        assert!(modes.iter().all(|mode| *mode == 0o751), "{at}: {modes:?}");
        refused += usize::from(answer.is_err_and(|error| error == Error::Denied));
        if !happened {
            break;
        }
    }
    assert!(refused > 0, "none came before it was opened");
}

#[test]
fn nothing_is_made_for_somebody_in_a_folder_that_others_may_write_to() {
    let itself = UnixOwner { uid: geteuid().as_raw(), gid: getegid().as_raw() };
    let disk = Disk::new(false);
    let make = |name: &str, owner| {
        let new = NewNode { kind: Kind::File, attributes: 0, security: Some(b"descriptor"), owner };
        disk.node("").names().unwrap().create(&Name::new(name).unwrap(), new).map(drop)
    };
    let let_in = |mode| fs::set_permissions(disk.path(), fs::Permissions::from_mode(mode)).unwrap();
    let_in(0o777);
    assert_eq!(make("one", Some(itself)), Err(Error::Denied));
    assert!(!disk.path().join("one").exists());
    make("two", None).unwrap();
    let_in(0o755);
    make("one", Some(itself)).unwrap();
}

#[test]
fn a_name_is_free_again_where_its_file_could_not_be_made() {
    for kind in [Kind::File, Kind::Directory] {
        let count = (0..CALLS_MAX).take_while(|at| {
            let disk = Disk::new(false);
            let (made, failed) = during(Fail::One(*at), Errno::IO, || disk.create("file", kind).map(drop));
            if let Err(error) = made {
                assert_eq!(error, Error::Io(Errno::IO.raw_os_error()), "{at}");
                disk.create("FILE", kind).unwrap();
            }
            failed
        });
        assert!(count.count() < CALLS_MAX);
    }
}

#[test]
fn who_must_not_wait_does_not_though_the_file_cannot_be_made() {
    let _alone = LONG_MAKING.lock();
    let disk = Disk::new(false);
    let folder = disk.node("");
    let name = Name::new("file").unwrap();
    let new = NewNode { kind: Kind::File, attributes: 0, security: Some(b"descriptor"), owner: None };
    let mut full = 0;
    for at in 0..CALLS_MAX {
        // So that its names are known, and nobody has to read them.
        make(&*folder, &format!("other {at}"));
        let (store, held) = (disk.store.volume(), Arc::new(Mutex::new(None)));
        let (holder, is_held) = (Arc::clone(&held), channel());
        let happens = move || {
            *holder.lock().unwrap() = Some(thread::spawn(move || {
                let root = store.identity;
                let _held = store.cache.try_hold(root);
                is_held.0.send(()).unwrap();
                thread::sleep(PATIENCE * 3);
            }));
            is_held.1.recv().unwrap();
        };
        let begun = Instant::now();
        let try_make = || lacking(Lacks::Room, || folder.names().unwrap().try_create(&name, new));
        let (made, happened) = meanwhile(at, happens, try_make);
        full += usize::from(made.err().unwrap() == Error::Full);
        assert!(begun.elapsed() < PATIENCE * 2, "{at}: {:?}", begun.elapsed());
        held.lock().unwrap().take().into_iter().for_each(|holder| holder.join().unwrap());
        if !happened {
            break;
        }
    }
    assert!(full > 2, "{full}");
}

#[test]
fn who_finds_a_file_waits_until_that_is_made_and_for_no_other() {
    let _alone = LONG_MAKING.lock();
    let disk = Disk::new(false);
    let folder = disk.node("");
    // Another program's, without a descriptor.
    fs::write(disk.path().join("other"), "data").unwrap();
    make(&*folder, "first");
    let calls = count(|| make(&*folder, "second")).1;
    let found = Arc::new(Mutex::new((0, Vec::new())));
    for at in 0..calls {
        let (folder, found) = (Arc::clone(&folder), Arc::clone(&found));
        let name = format!("file {at}");
        let (makes, made) = (Arc::clone(&folder), name.clone());
        let happens = move || {
            let child =
                |folder: &dyn Node, name: &str| folder.names().unwrap().child(&Name::new(name).unwrap(), Use::Read);
            let (done, is_done) = channel();
            let others = Arc::clone(&folder);
            thread::spawn(move || {
                // Under the folder's lock the name that is asked for is found by itself.
                assert!(child(&*others, "other").unwrap().is_some());
                let _ = done.send(());
            });
            let mut found = found.lock().unwrap();
            found.0 += usize::from(is_done.recv_timeout(PATIENCE * 5).is_ok());
            let finds = thread::spawn(move || {
                let node = child(&*folder, &name).unwrap();
                node.map(|(_, node)| node.extras().security().unwrap())
            });
            found.1.push(finds);
            // So that it has found it by then.
            thread::sleep(PATIENCE / 4);
        };
        meanwhile(at, happens, || make(&*makes, &made));
    }
    let (others, finds) = Arc::try_unwrap(found).ok().unwrap().into_inner().unwrap();
    assert_eq!(others, calls, "one waited for what was made meanwhile");
    let descriptors: Vec<_> = finds.into_iter().filter_map(|finds| finds.join().unwrap()).collect();
    assert!(descriptors.len() >= 2 && descriptors.iter().all(Option::is_some), "{descriptors:?}");
}
