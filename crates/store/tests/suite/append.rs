//! Appends: whoever else is at the end of the same data, each is there once and whole.

use std::sync::Arc;
use std::thread;

use crate::common::*;
use store::{DirectoryOptions, DirectoryStore, Error, Kind, Node, Resolved, Store, Use};

behaviours! {
    an_append_goes_behind_the_data
    appends_of_many_lose_nothing
    appends_to_a_stream_lose_nothing
    space_that_is_set_meanwhile_takes_nothing_of_an_append
    an_append_goes_where_it_is_told
}

const WRITERS: u8 = 4;
const EACH: usize = 60;
/// Long enough that a stream outgrows its attribute on the way.
const RECORD_BYTES: usize = 90;

fn append(node: &dyn Node, data: &[u8]) -> u64 {
    node.append(data, &mut Ok).unwrap()
}

fn an_append_goes_behind_the_data(disk: &Disk) {
    let node = disk.file("file", b"one");
    assert_eq!(append(&*node, b"two"), 6);
    node.set_length(4).unwrap();
    assert_eq!(append(&*node, b"three"), 9);
    assert_eq!(read_all(&*node), b"onetthree");
    assert_eq!(disk.directory("folder").append(b"x", &mut Ok).err(), Some(Error::IsDirectory));
}

/// Every writer appends its records through a node of its own; all of them must be there.
fn race(nodes: Vec<Arc<dyn Node>>, read: &dyn Node) {
    thread::scope(|scope| {
        for (writer, node) in nodes.iter().enumerate() {
            scope.spawn(move || {
                for number in 0..EACH {
                    let mut record = [writer as u8; RECORD_BYTES];
                    record[1] = number as u8;
                    append(&**node, &record);
                }
            });
        }
    });
    let data = read_all(read);
    assert_eq!(data.len(), nodes.len() * EACH * RECORD_BYTES);
    let mut next = vec![0; nodes.len()];
    for record in data.chunks(RECORD_BYTES) {
        let writer = usize::from(record[0]);
        assert_eq!(usize::from(record[1]), next[writer]);
        assert!(record[2..].iter().all(|byte| usize::from(*byte) == writer));
        next[writer] += 1;
    }
}

fn space_that_is_set_meanwhile_takes_nothing_of_an_append(disk: &Disk) {
    let read = disk.file("file", b"");
    thread::scope(|scope| {
        let setter = disk.node("file");
        scope.spawn(move || {
            for step in 0..4 * EACH as u64 {
                setter.set_allocation((4 + step % 2) << 20).unwrap();
            }
        });
        race((0..WRITERS).map(|_| disk.node("file")).collect(), &*read);
    });
}

fn appends_of_many_lose_nothing(disk: &Disk) {
    let read = disk.file("file", b"");
    race((0..WRITERS).map(|_| disk.node("file")).collect(), &*read);
}

fn appends_to_a_stream_lose_nothing(disk: &Disk) {
    let file = disk.file("file", b"");
    let read = file.extras().create_stream("s").unwrap();
    race((0..WRITERS).map(|_| disk.node("file").extras().stream("s").unwrap().unwrap().1).collect(), &*read);
}

fn an_append_goes_where_it_is_told(disk: &Disk) {
    let file = disk.file("file", b"one");
    for node in [Arc::clone(&file), file.extras().create_stream("s").unwrap()] {
        let held = node.metadata().unwrap().length;
        assert_eq!(node.append(b"x", &mut |end| Ok(end + 2)).unwrap(), held + 3);
        assert_eq!(node.append(b"x", &mut |_| Err(Error::Denied)).err(), Some(Error::Denied));
        assert_eq!(read_all(&*node)[held as usize..], *b"\0\0x");
    }
}

#[test]
fn appends_through_two_stores_over_one_folder_lose_nothing() {
    let disk = directory();
    let made = disk.file("file", b"");
    let stream = made.extras().create_stream("s").unwrap();
    let other = DirectoryStore::open(disk.folder(), Default::default()).unwrap();
    let through_other = || match other.resolve(&path("file"), Use::ReadWrite).unwrap() {
        Resolved::Found { node, .. } => node,
        missing @ Resolved::Missing { .. } => panic!("{missing:?}"),
    };
    race(vec![disk.node("file"), through_other(), disk.node("file"), through_other()], &*made);
    let of = |node: Arc<dyn Node>| node.extras().stream("s").unwrap().unwrap().1;
    race(vec![of(disk.node("file")), of(through_other())], &*stream);
}

#[test]
fn an_append_that_does_not_fit_has_not_happened() {
    let options = store::DirectoryOptions { quota_bytes: Some(64 << 10), ..Default::default() };
    let disk = directory_in(&std::env::temp_dir(), options);
    let node = disk.store.create(&path("file"), new(Kind::File)).unwrap();
    append(&*node, &[1; 40 << 10]);
    assert_eq!(node.append(&[2; 40 << 10], &mut Ok).err(), Some(Error::Full));
    assert_eq!(node.metadata().unwrap().length, 40 << 10);
}

#[test]
fn what_there_is_no_room_for_is_appended_to_none_of_several_files() {
    const BYTES: usize = 3 << 20;
    let place = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::new(&place.path().join("small"), "size=64m") else { return };
    let store = DirectoryStore::open(&mounted.0, DirectoryOptions::default()).unwrap();
    for round in 0..8 {
        let names: Vec<String> = (0..4).map(|number| format!("{round} {number}")).collect();
        std::thread::scope(|scope| {
            for name in &names {
                let node = store.create(&path(name), new(Kind::File)).unwrap();
                scope.spawn(move || while node.append(&[7; BYTES], &mut Ok).is_ok() {});
            }
        });
        for name in &names {
            let file = mounted.0.join(name);
            assert_eq!(std::fs::metadata(&file).unwrap().len() % BYTES as u64, 0, "{name}");
            std::fs::remove_file(file).unwrap();
        }
    }
}
