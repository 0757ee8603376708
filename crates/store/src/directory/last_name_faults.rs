//! What a removal of a file's last name that fails, or that cannot be told to have been made, leaves.

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use rustix::io::Errno;

use crate::directory::calls::failing::{Fail, Lacks, during, lacking};
use crate::directory::faults::{CALLS_MAX, Disk, LARGE, LAST_NAME_GOES};
use crate::directory::leftovers::sweep;
use crate::{Destination, Error, Kind, Name, Replace};
fn disk() -> Disk {
    let disk = Disk::new(false);
    disk.create("file", Kind::File).unwrap();
    disk.create("other", Kind::File).unwrap();
    disk.create("folder", Kind::Directory).unwrap();
    disk.stream("file", "stream", 1, LARGE);
    disk
}

/// How many side files are needed: one, where the file has a name still.
fn needed(disk: &Disk, inode: u64) -> usize {
    usize::from(std::fs::metadata(disk.path().join("file")).is_ok_and(|file| file.ino() == inode))
}

#[test]
fn what_belongs_to_a_file_is_not_lost_sight_of_where_its_removal_may_have_failed() {
    for change in LAST_NAME_GOES {
        // The first gives the file the name that it is found by where more fails: without that one more failure is told in the log.
        for at in 1..CALLS_MAX {
            let mut has_failed = false;
            for later in 0..CALLS_MAX {
                let disk = disk();
                let inode = disk.node("file").identity().file;
                let (_, failed) = during(Fail::DoneAndLater(at, later), Errno::IO, || change(&disk));
                sweep(&Arc::downgrade(&disk.store.volume()));
                assert_eq!(disk.sides(), needed(&disk, inode), "{at} {later}");
                has_failed |= failed;
                if !failed {
                    break;
                }
            }
            if !has_failed {
                break;
            }
        }
    }
}

#[test]
fn a_file_that_was_removed_and_is_open_gets_another_name_with_all_that_belongs_to_it_or_none() {
    for change in LAST_NAME_GOES {
        for at in 0..CALLS_MAX {
            let disk = disk();
            let (file, folder) = (disk.node("file"), disk.node("folder"));
            let (_, failed) = during(Fail::One(at), Errno::IO, || change(&disk));
            let new = Name::new("new").unwrap();
            match file.link(Destination { directory: &*folder, name: &new }, Replace::No) {
                Ok(()) => assert_eq!(disk.streams("folder\\new"), [("stream".to_owned(), LARGE, 1)], "{at}"),
                Err(error) => assert_eq!(error, Error::NotFound, "{at}"),
            }
            if !failed {
                break;
            }
        }
    }
}

#[test]
fn a_long_descriptor_that_could_not_be_replaced_leaves_one_side_file() {
    for fails in [Fail::One as fn(usize) -> Fail, Fail::Done] {
        for at in 0..CALLS_MAX {
            let disk = disk();
            disk.node("other").extras().set_security(&[1; 70_000]).unwrap();
            let other = disk.node("other");
            let (_, failed) = during(fails(at), Errno::IO, || other.extras().set_security(&[2; 70_000]));
            drop(other);
            sweep(&Arc::downgrade(&disk.store.volume()));
            assert_eq!(disk.sides(), 2, "{fails:?} {at}");
            if !failed {
                break;
            }
        }
    }
}

#[test]
fn what_a_client_has_named_as_if_it_were_put_aside_keeps_all_where_its_removal_fails() {
    for name in [".nfs0000000000abcdef00000002", ".fuse_hidden0123456789abcdef"] {
        for lacks in [Lacks::Nothing, Lacks::UnlinkOfOpen] {
            for at in 0..CALLS_MAX {
                let disk = disk();
                std::fs::rename(disk.path().join("file"), disk.path().join(name)).unwrap();
                let (root, file) = (disk.open("").unwrap(), disk.node(name).identity());
                let remove = || root.names().unwrap().remove(&Name::new(name).unwrap(), file);
                let (_, has_failed) = lacking(lacks, || during(Fail::One(at), Errno::IO, remove));
                if disk.path().join(name).exists() {
                    assert_eq!(disk.streams(name), [("stream".to_owned(), LARGE, 1)], "{at}");
                }
                if !has_failed {
                    break;
                }
            }
        }
    }
}

#[test]
fn what_belongs_to_a_file_that_is_put_aside_because_it_is_open_goes_with_its_last_name() {
    for change in LAST_NAME_GOES {
        let disk = disk();
        let file = disk.node("file");
        lacking(Lacks::UnlinkOfOpen, || change(&disk)).unwrap();
        let mut left = std::fs::read_dir(disk.path()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(left.any(|name| name.to_str().unwrap().starts_with(".nfs")));
        assert_eq!(disk.sides(), 0);
        drop(file);
    }
}
