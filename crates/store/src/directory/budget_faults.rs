//! What becomes of a file that has more kept with it than it should.

use std::sync::Arc;

use rustix::fs::{XattrFlags, setxattr};

use crate::directory::faults::{Disk, LARGE};
use crate::directory::leftovers::sweep;
use crate::{Error, Kind, Name, Renewal};

/// Gives a file more keys than the kernel lists, as an earlier version let clients do.
fn spoil(disk: &Disk, file: &str) {
    let path = disk.path().join(file);
    for number in 0..300 {
        let key = format!("user.multilane.stream.{number:0230}");
        // An empty stream, as [`crate::directory::stream_value`] has it.
        let value = [[1, 0].as_slice(), &[number as u8; 16], &[0; 2]].concat();
        setxattr(&path, key, &value, XattrFlags::empty()).unwrap();
    }
    let listed = disk.node(file).extras().extended();
    assert_eq!(listed, Err(Error::TooLarge), "the kernel lists them no more");
}

#[test]
fn a_client_gives_a_file_no_more_keys_than_can_be_listed() {
    for kind in [Kind::File, Kind::Directory] {
        let disk = Disk::new(false);
        let node = disk.create("file", kind).unwrap();
        let extras = node.extras();
        let made = (0..400).take_while(|number| extras.create_stream(&format!("{number:0200}")).is_ok()).count();
        assert!((10..400).contains(&made), "{made}");
        assert_eq!(extras.create_stream(&"x".repeat(200)).err(), Some(Error::Full));
        assert_eq!(extras.set_extended(&"x".repeat(200), b"value"), Err(Error::TooLarge));
        assert_eq!(disk.streams("file").len(), made);
        // What is there goes on, and gives room.
        let stream = |number: usize| format!("{number:0200}");
        extras.set_security(&[2; 70_000]).unwrap();
        extras.stream(&stream(0)).unwrap().unwrap().1.write_at(&[7; LARGE], 0).unwrap();
        extras.remove_stream(&stream(1)).unwrap();
        extras.create_stream(&stream(1)).unwrap();
        disk.node("").names().unwrap().remove(&Name::new("file").unwrap(), node.identity()).unwrap();
    }
}

#[test]
fn a_file_with_more_keys_than_can_be_listed_is_removed_with_all_that_is_kept_of_it() {
    for kind in [Kind::File, Kind::Directory] {
        let disk = Disk::new(false);
        let node = disk.create("file", kind).unwrap();
        disk.create("other", kind).unwrap();
        for file in ["file", "other"] {
            disk.stream(file, "large", 1, LARGE);
        }
        node.extras().set_security(&[2; 70_000]).unwrap();
        assert_eq!(disk.sides(), 3);
        spoil(&disk, "file");
        disk.node("").names().unwrap().remove(&Name::new("file").unwrap(), node.identity()).unwrap();
        drop(node);
        assert_eq!(disk.sides(), 1, "the other one's");
        assert_eq!(disk.streams("other").len(), 1);
    }
}

#[test]
fn a_file_with_more_keys_than_can_be_listed_loses_streams_that_are_named_and_is_emptied() {
    let disk = Disk::new(false);
    let node = disk.create("file", Kind::File).unwrap();
    node.write_at(b"data", 0).unwrap();
    disk.stream("file", "large", 1, LARGE);
    disk.stream("file", "larger", 1, LARGE);
    node.extras().set_security(&[2; 70_000]).unwrap();
    spoil(&disk, "file");
    let extras = node.extras();
    extras.remove_stream("large").unwrap();
    assert_eq!(disk.sides(), 2);
    node.renew(&Renewal::default()).unwrap();
    assert_eq!(node.metadata().unwrap().length, 0);
    assert_eq!(disk.sides(), 1, "the descriptor's");
    assert_eq!(extras.security().unwrap(), Some(vec![2; 70_000]));
    for number in 0..300 {
        extras.remove_stream(&format!("{number:0230}")).unwrap();
    }
    // Its data went when the file was emptied.
    assert_eq!(disk.streams("file"), []);
    sweep(&Arc::downgrade(&disk.store.volume()));
    assert_eq!(extras.security().unwrap(), Some(vec![2; 70_000]));
    disk.node("").names().unwrap().remove(&Name::new("file").unwrap(), node.identity()).unwrap();
    assert_eq!(disk.sides(), 0);
}
