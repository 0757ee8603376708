//! What becomes of a file that has more kept with it than it should.

use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};

use crate::directory::calls::failing::{Lacks, lacking};
use crate::directory::faults::{Disk, LARGE, at_each_call, entry};
use crate::directory::leftovers::sweep;
use crate::directory::subject::{Place, Subject};
use crate::{AttributeChange, Changes, Error, Kind, Name, Node, Renewal, Time};

/// In memory, and in the temporary folder, where that takes more than a block of attributes.
fn disks() -> Vec<Disk> {
    let elsewhere = Disk::on(&std::env::temp_dir());
    let takes_many = setxattr(elsewhere.path(), "user.long", &[1; 9_000], XattrFlags::empty());
    let _ = removexattr(elsewhere.path(), "user.long");
    [Disk::new(false)].into_iter().chain(takes_many.is_ok().then_some(elsewhere)).collect()
}

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
    for (disk, kind) in
        [Kind::File, Kind::Directory].into_iter().flat_map(|kind| disks().into_iter().map(move |disk| (disk, kind)))
    {
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
    for (disk, kind) in
        [Kind::File, Kind::Directory].into_iter().flat_map(|kind| disks().into_iter().map(move |disk| (disk, kind)))
    {
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
    for disk in disks() {
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
}

/// Does the same on a simulated file system, and on that of the temporary folder, which may be one in earnest.
fn where_a_file_has_one_block(test: impl Fn(&Disk)) {
    lacking(Lacks::SecondBlock, || test(&Disk::new(false)));
    test(&Disk::on(&std::env::temp_dir()));
}

/// Sets all that an administrator does to take somebody's rights away.
fn check_can_be_changed(disk: &Disk, node: &dyn Node) {
    node.extras().set_security(&[3; 2_000]).unwrap();
    let changes = Changes { attributes: AttributeChange::to(0x1), creation: Some(Time(1 << 56)), ..Changes::default() };
    node.change(&changes).unwrap();
    node.extras().set_security(&[4; 70_000]).unwrap();
    node.extras().set_security(&[5; 60_000]).unwrap();
    let found = disk.node("file");
    assert_eq!(found.extras().security().unwrap(), Some(vec![5; 60_000]));
    assert_eq!(found.metadata().unwrap().creation, Time(1 << 56));
}

/// Sets something of so many bytes.
type Fill<'a> = &'a dyn Fn(&dyn Node, usize) -> Result<(), Error>;

#[test]
fn a_client_leaves_the_server_room_for_a_descriptor_and_attributes() {
    let streams = |node: &dyn Node, length: usize| node.extras().create_stream(&"s".repeat(length)).map(drop);
    let data = |node: &dyn Node, length: usize| {
        node.extras().create_stream(&"s".repeat(length)).and_then(|stream| stream.write_at(&[1; 300][..length], 0))
    };
    let attributes = |node: &dyn Node, length: usize| node.extras().set_extended(&"s".repeat(length), &[1; 40]);
    let long = |node: &dyn Node, length: usize| node.extras().set_extended("one", &vec![1; 16 * length]);
    let descriptors = |node: &dyn Node, length: usize| node.extras().set_security(&vec![1; 16 * length]);
    let fill: [Fill<'_>; 5] = [&streams, &data, &attributes, &long, &descriptors];
    for (number, fill) in fill.iter().enumerate() {
        where_a_file_has_one_block(|disk| {
            let node = disk.create("file", Kind::File).unwrap();
            // As many as there is room for, then shorter ones.
            let set = (1..230).rev().filter(|length| fill(&*node, *length).is_ok()).count();
            assert!(set > 0, "{number}: {set}");
            check_can_be_changed(disk, &*node);
        });
    }
}

/// Fills a file that has two streams, as other programs do it.
fn fill_up(disk: &Disk) {
    let node = disk.create("file", Kind::File).unwrap();
    for number in [1, 2] {
        disk.stream("file", &number.to_string(), number, 300);
    }
    let place = Place::Named(disk.path().join("file").into_os_string().into_vec());
    let subject = Subject { volume: &disk.store.volume(), place, identity: node.identity(), born: 0 };
    let fill =
        |length: usize, number: usize| subject.put_back(&format!("user.{length}.{number}"), &vec![1; length]).is_ok();
    for length in [1_000, 300, 100, 40, 20, 4, 0] {
        (0..20).take_while(|number| fill(length, *number)).for_each(drop);
    }
}

/// What a file has that was so filled.
fn check_has_streams(disk: &Disk) {
    assert_eq!(disk.streams("file"), [entry("1", 300, 1), entry("2", 300, 2)]);
}

#[test]
fn streams_of_a_full_file_make_room_for_its_descriptor() {
    where_a_file_has_one_block(|disk| {
        fill_up(disk);
        check_can_be_changed(disk, &*disk.node("file"));
        check_has_streams(disk);
    });
}

#[test]
fn what_fails_while_a_full_file_makes_room_loses_nothing() {
    let change = |disk: &Disk| disk.open("file")?.extras().set_security(&[4; 5_000]);
    let check = |disk: &Disk, answer: Result<(), Error>, _: bool| {
        check_has_streams(disk);
        let found = disk.node("file").extras().security().unwrap().unwrap();
        assert!(found == [4; 5_000] || answer.is_err() && found == b"descriptor", "{answer:?}");
        sweep(&Arc::downgrade(&disk.store.volume()));
        check_has_streams(disk);
        check_can_be_changed(disk, &*disk.node("file"));
        assert!(disk.sides() <= 3);
    };
    lacking(Lacks::SecondBlock, || at_each_call(false, fill_up, change, check));
}

#[test]
fn what_fails_while_room_is_held_takes_none() {
    let prepare = |disk: &Disk| {
        let node = disk.create("file", Kind::File).unwrap();
        node.extras().set_extended("one", &[1; 3_500]).unwrap();
    };
    let change = |disk: &Disk| {
        let node = disk.open("file")?;
        (1..230).rev().step_by(40).try_for_each(|length| match node.extras().create_stream(&"s".repeat(length)) {
            Err(Error::Full) => Ok(()),
            made => made.map(drop),
        })
    };
    let check = |disk: &Disk, _: Result<(), Error>, _: bool| {
        let node = disk.node("file");
        assert_eq!(node.extras().extended().unwrap().len(), 1, "the placeholder is none");
        check_can_be_changed(disk, &*node);
    };
    lacking(Lacks::SecondBlock, || at_each_call(false, prepare, change, check));
}

#[test]
fn what_is_kept_in_attributes_of_a_directory_is_no_more_than_it_takes_itself() {
    for disk in disks() {
        let node = disk.create("file", Kind::Directory).unwrap();
        let extras = node.extras();
        assert_eq!(extras.set_extended("large", &[1; 4_096]), Err(Error::TooLarge));
        extras.set_extended("large", &[1; 2_000]).unwrap();
        assert_eq!(extras.set_extended("large", &[1; 4_096]), Err(Error::TooLarge));
        assert_eq!(extras.set_extended("more", &[1; 2_100]), Err(Error::TooLarge));
        // Streams have side files then, whose names have room as well.
        let made: Vec<_> =
            (0..100).map_while(|number| extras.create_stream(&format!("stream {number}")).ok()).collect();
        assert!((10..100).contains(&made.len()), "{}", made.len());
        assert_eq!(extras.create_stream("one more").err(), Some(Error::Full));
        for stream in &made {
            stream.write_at(&[7; 1_000], 0).unwrap();
        }
        let kept = disk.streams("file");
        assert_eq!(kept.len(), made.len());
        assert!(kept.iter().all(|(_, length, byte)| (*length, *byte) == (1_000, 7)));
        assert!(disk.sides() >= made.len() - 1);
        // So has a descriptor.
        let sides = disk.sides();
        extras.set_security(&[2; 4_000]).unwrap();
        assert_eq!(disk.sides(), sides);
        extras.set_security(&[2; 40_000]).unwrap();
        assert_eq!(disk.sides(), sides + 1);
        let attributes = attribute_bytes(&disk.path().join("file"));
        assert!(attributes <= 4_096, "{attributes}");
        // A file's count.
        disk.create("other", Kind::File).unwrap().extras().set_extended("large", &[1; 10_000]).unwrap();
    }
}

/// Bytes of all names and values.
fn attribute_bytes(path: &Path) -> usize {
    let (mut list, mut value) = (vec![0; 65_536], vec![0; 65_536]);
    let length = listxattr(path, &mut list[..]).unwrap();
    let keys = list[..length].split(|byte| *byte == 0).filter(|key| !key.is_empty());
    keys.map(|key| key.len() + getxattr(path, key, &mut value[..]).unwrap()).sum()
}
