//! What others do in the middle of a removal of a file's last name, and what comes of it: nothing stays in the reserved folder.

use std::os::fd::AsFd;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::io::Errno;

use crate::directory::calls::failing::{Fail, during, meanwhile};
use crate::directory::faults::{CALLS_MAX, Change, Disk, LARGE, LAST_NAME_GOES};
use crate::directory::leftovers::sweep;
use crate::directory::passing::{self, Idle};
use crate::directory::{node, stream};
use crate::waiting::{self, Forbidden};
use crate::{
    Destination, DirectoryOptions, DirectoryStore, Error, Identity, Kind, Name, Node, Replace, SharePath, Store, Waits,
};

/// Does `work` before each call of `change` in turn, on another thread, which may have to wait for that of the change.
fn at_each_call(
    prepare: impl Fn(&Disk),
    mut change: impl FnMut(&Disk) -> Result<(), Error>,
    work: impl Fn(&Disk) -> Box<dyn FnOnce() + Send>,
    check: impl Fn(&Disk),
) {
    for at in 0..CALLS_MAX {
        let disk = Disk::new(false);
        prepare(&disk);
        let work = work(&disk);
        let (done, is_done) = mpsc::channel();
        let happens = move || {
            let (begun, is_begun) = mpsc::channel();
            let thread = std::thread::spawn(move || {
                work();
                let _ = begun.send(());
            });
            let _ = is_begun.recv_timeout(Duration::from_millis(20));
            done.send(thread).unwrap();
        };
        let (_, happened) = meanwhile(at, happens, || change(&disk));
        if !happened {
            return;
        }
        is_done.recv().unwrap().join().unwrap();
        check(&disk);
    }
    panic!("no end of calls");
}

fn file(disk: &Disk) {
    disk.create("file", Kind::File).unwrap();
    disk.create("other", Kind::File).unwrap();
}

fn file_with_stream(disk: &Disk) {
    file(disk);
    disk.stream("file", "stream", 1, LARGE);
}

/// The same with a second name in a folder.
fn file_with_two_names(disk: &Disk) {
    file_with_stream(disk);
    disk.create("folder", Kind::Directory).unwrap();
    std::fs::hard_link(disk.path().join("file"), disk.path().join("folder/second")).unwrap();
}

/// Takes that one away.
fn remove_second(disk: &Disk) -> Box<dyn FnOnce() + Send> {
    let (folder, file) = (disk.node("folder"), disk.node("file").identity());
    Box::new(move || folder.names().unwrap().remove(&Name::new("second").unwrap(), file).unwrap())
}

/// Writes so much to a stream that it gets a side file, and closes all.
fn write(node: &Arc<dyn Node>, stream: &str) -> Box<dyn FnOnce() + Send> {
    let (node, stream) = (Arc::clone(node), node.extras().create_stream(stream).unwrap());
    Box::new(move || {
        stream.write_at(&[2; LARGE], 0).unwrap();
        drop((stream, node));
    })
}

/// Gives the file a descriptor that is so long that it gets a side file.
fn describe(node: &Arc<dyn Node>, _: &str) -> Box<dyn FnOnce() + Send> {
    let node = Arc::clone(node);
    Box::new(move || {
        node.extras().set_security(&[2; 70_000]).unwrap();
        drop(node);
    })
}

#[test]
fn what_is_made_for_a_file_just_as_its_last_name_goes_goes_with_it() {
    for prepare in [file, file_with_stream] {
        for change in LAST_NAME_GOES {
            for make in [write, describe] {
                let work = |disk: &Disk| make(&disk.node("file"), "more");
                at_each_call(prepare, change, work, |disk| assert_eq!(disk.sides(), 0));
            }
        }
    }
}

#[test]
fn what_belongs_to_a_file_goes_where_both_its_names_go_at_a_time() {
    for change in LAST_NAME_GOES {
        at_each_call(file_with_two_names, change, remove_second, |disk| assert_eq!(disk.sides(), 0));
    }
}

#[test]
fn what_belongs_to_a_file_goes_with_its_last_name_while_a_removal_that_comes_to_nothing_holds_it() {
    for change in LAST_NAME_GOES {
        let disk = Disk::new(false);
        file_with_stream(&disk);
        let (volume, identity) = (disk.store.volume(), disk.node("file").identity());
        let file = std::fs::File::open(disk.path().join("file")).unwrap();
        let held = {
            let _locked = volume.lock_file(identity);
            passing::hold(&volume, identity, file.as_fd()).unwrap()
        };
        change(&disk).unwrap();
        drop(held);
        assert_eq!(disk.sides(), 0);
    }
}

#[test]
fn a_stream_that_is_closed_as_a_removal_of_its_file_fails_stays() {
    let disk = Disk::new(false);
    file_with_stream(&disk);
    let (volume, node) = (disk.store.volume(), disk.node("file"));
    let identity = node.identity();
    let stream = node.extras().stream("stream").unwrap().unwrap().1;
    stream.read_at(&mut [0; 1], 0).unwrap();
    let locked = volume.lock_file(identity);
    // The removal's own name for the file has gone, and still counts for nothing.
    let idle = Idle::of(identity, "draft").unwrap();
    let closes = std::thread::spawn(move || drop((stream, node)));
    std::thread::sleep(Duration::from_millis(50));
    drop((idle, locked));
    closes.join().unwrap();
    assert_eq!(disk.streams("file"), [("stream".to_owned(), LARGE, 1)]);
}

#[test]
fn whether_the_file_of_a_closed_stream_has_a_name_is_not_asked_of_another_machine_by_who_must_not_wait() {
    let disk = Disk::new(false);
    file_with_stream(&disk);
    let node = disk.node("file");
    let mut file = node::of_store(&*node).unwrap().again().unwrap();
    file.waits = Waits::Always;
    let stream = stream::open(&file, "stream").unwrap().unwrap().1;
    stream.read_at(&mut [0; 1], 0).unwrap();
    let (sender, dropped) = mpsc::channel();
    waiting::discard_to(Box::new(move |_, discarded| sender.send(discarded).unwrap()));
    waiting::forbid(Forbidden::Panics);
    drop((stream, file));
    waiting::forbid(Forbidden::Not);
    assert!(dropped.try_iter().count() > 0);
    drop(node);
    assert_eq!(disk.streams("file"), [("stream".to_owned(), LARGE, 1)]);
}

#[test]
fn what_belongs_to_a_file_goes_where_both_its_names_go_and_there_are_no_descriptors() {
    for at in 0..CALLS_MAX {
        let mut has_failed = false;
        let change = |disk: &Disk| {
            let (answer, failed) = during(Fail::OpensAfter(at), Errno::MFILE, || LAST_NAME_GOES[0](disk));
            has_failed |= failed;
            answer
        };
        at_each_call(file_with_two_names, change, remove_second, |disk| {
            let is_there = disk.path().join("file").exists();
            assert_eq!(disk.sides(), usize::from(is_there), "{at}");
        });
        if !has_failed {
            return;
        }
    }
    panic!("no end of calls");
}

type Replacement = fn(&Disk, Identity) -> Result<(), Error>;

/// What replaces `file`, and nothing else.
const REPLACED: [Replacement; 2] = [
    |disk, file| {
        let (root, new) = (disk.open("")?, Name::new("file").unwrap());
        disk.open("other")?.link(Destination { directory: &*root, name: &new }, Replace::Only(file))
    },
    |disk, file| {
        let (root, new) = (disk.open("")?, Name::new("file").unwrap());
        let (other, to) = (disk.open("other")?.identity(), Destination { directory: &*root, name: &new });
        root.names().unwrap().rename(&Name::new("other").unwrap(), other, to, Replace::Only(file))
    },
];

#[test]
fn what_another_share_has_put_in_a_files_place_is_not_replaced_in_its_stead() {
    let prepare = |disk: &Disk| {
        file(disk);
        disk.create("third", Kind::File).unwrap();
        disk.stream("third", "stream", 3, LARGE);
    };
    let work = |disk: &Disk| -> Box<dyn FnOnce() + Send> {
        let share = DirectoryStore::open(disk.path(), DirectoryOptions::default()).unwrap();
        let third = disk.node("third").identity();
        Box::new(move || {
            let [from, to] = ["third", "file"].map(|path| SharePath::parse(path).unwrap());
            let _ = share.rename(&from, &to, third, Replace::Yes);
        })
    };
    for replace in REPLACED {
        let change = |disk: &Disk| replace(disk, disk.node("file").identity());
        at_each_call(prepare, change, work, |disk| {
            let is_it = |name: &&str| disk.open(name).is_ok() && !disk.streams(name).is_empty();
            let found = ["third", "file"].iter().copied().find(is_it);
            assert_eq!(found.map(|name| disk.streams(name)), Some(vec![("stream".to_owned(), LARGE, 3)]));
        });
    }
    // A removal is of the file that it was told.
    let remove: Change = |disk| {
        let (file, name) = (disk.node("file").identity(), Name::new("file").unwrap());
        disk.open("")?.names().unwrap().remove(&name, file)
    };
    at_each_call(prepare, remove, work, |disk| {
        let left = ["third", "file"].iter().any(|name| disk.open(name).is_ok() && !disk.streams(name).is_empty());
        assert!(left);
    });
}

#[test]
fn a_link_over_what_has_become_the_same_file_leaves_no_name_behind() {
    let work = |disk: &Disk| -> Box<dyn FnOnce() + Send> {
        let (file, other) = (disk.path().join("file"), disk.path().join("other"));
        Box::new(move || {
            std::fs::remove_file(&file).unwrap();
            std::fs::hard_link(other, file).unwrap();
        })
    };
    at_each_call(file, LAST_NAME_GOES[1], work, |disk| assert_eq!(disk.sides(), 0));
}

#[test]
fn a_name_that_a_file_gets_just_as_its_last_one_goes_has_all_that_is_kept_with_it() {
    let prepare = |disk: &Disk| {
        file_with_stream(disk);
        disk.create("folder", Kind::Directory).unwrap();
    };
    let work = |disk: &Disk| -> Box<dyn FnOnce() + Send> {
        let (folder, file) = (disk.node("folder"), disk.node("file"));
        Box::new(move || {
            let new = Name::new("new").unwrap();
            let _ = file.link(Destination { directory: &*folder, name: &new }, Replace::No);
        })
    };
    for change in LAST_NAME_GOES {
        at_each_call(prepare, change, work, |disk| match disk.open("folder\\new") {
            Ok(_) => assert_eq!(disk.streams("folder\\new"), [("stream".to_owned(), LARGE, 1)]),
            Err(error) => assert_eq!((error, disk.sides()), (Error::NotFound, 0)),
        });
    }
}

#[test]
fn a_file_whose_last_name_goes_while_what_was_left_is_removed_leaves_nothing() {
    let prepare = |disk: &Disk| {
        file_with_stream(disk);
        let draft = disk.path().join(format!(".multilane/.multilane.{}", "a".repeat(32)));
        std::fs::hard_link(disk.path().join("file"), draft).unwrap();
    };
    let change: Change = |disk| {
        sweep(&Arc::downgrade(&disk.store.volume()));
        Ok(())
    };
    let work = |disk: &Disk| -> Box<dyn FnOnce() + Send> {
        let (root, file) = (disk.node(""), disk.node("file").identity());
        Box::new(move || root.names().unwrap().remove(&Name::new("file").unwrap(), file).unwrap())
    };
    at_each_call(prepare, change, work, |disk| assert_eq!(disk.sides(), 0));
}

#[test]
fn what_is_made_for_a_file_just_as_its_last_name_goes_is_found_where_the_server_is_killed() {
    let make_more = |disk: &Disk| write(&disk.node("file"), "more");
    type Prepare = fn(&Disk);
    type Work = fn(&Disk) -> Box<dyn FnOnce() + Send>;
    let cases: [(Prepare, Work); 2] = [(file, make_more), (file_with_two_names, remove_second)];
    for change in LAST_NAME_GOES {
        for (prepare, work) in cases {
            for killed_at in 0..CALLS_MAX {
                let mut was_killed = false;
                let kill = |disk: &Disk| {
                    let (answer, has_failed) = during(Fail::AllAfterChanges(killed_at), Errno::IO, || change(disk));
                    was_killed |= has_failed;
                    answer
                };
                at_each_call(prepare, kill, work, |disk| {
                    sweep(&Arc::downgrade(&disk.store.volume()));
                    let left = disk.open("file").map_or(0, |_| disk.streams("file").len());
                    assert_eq!(disk.sides(), left, "killed at {killed_at}");
                });
                if !was_killed {
                    break;
                }
            }
        }
    }
}
