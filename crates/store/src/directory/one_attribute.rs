//! The attribute that has both the record of a file and the descriptor that it was made with, and which descriptor counts where there are several.

use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};

use crate::directory::calls::failing::meanwhile;
use crate::directory::faults::{CALLS_MAX, Disk, at_each_call};
use crate::directory::keys::{RECORD, SECURITY, SECURITY_SIDE};
use crate::directory::record::Record;
use crate::directory::{DirectoryOptions, DirectoryStore};
use crate::{AttributeChange, Changes, Error, Kind, Node, Resolved, SharePath, Store, Use};

/// What [`Disk::create`] gives a file.
const MADE: &[u8] = b"descriptor";
const HIDDEN: u32 = 0x2;
/// One that is not kept with the record, and one that is not kept in an attribute.
const LONG: [u8; 2_000] = [1; 2_000];
static HUGE: [u8; 70_000] = [2; 70_000];

/// A file that needs a record, as it shows ARCHIVE without one.
fn made() -> Disk {
    let disk = Disk::new(false);
    disk.create("file", Kind::File).unwrap();
    disk
}

fn has(disk: &Disk) -> Vec<String> {
    let mut keys = [0; 1024];
    let length = listxattr(disk.path().join("file"), &mut keys).unwrap();
    let keys = keys[..length].split(|byte| *byte == 0).map(|key| String::from_utf8(key.to_vec()).unwrap());
    let mut keys: Vec<String> = keys.filter(|key| key.starts_with(RECORD)).collect();
    keys.sort();
    keys
}

fn set(disk: &Disk, key: &str, value: &[u8]) {
    setxattr(disk.path().join("file"), key, value, XattrFlags::empty()).unwrap();
}

fn record_of(disk: &Disk) -> Vec<u8> {
    let mut value = vec![0; 65536];
    let length = getxattr(disk.path().join("file"), RECORD, &mut value).unwrap();
    value[..length].to_vec()
}

fn security(disk: &Disk) -> Result<Option<Vec<u8>>, Error> {
    disk.node("file").extras().security()
}

fn change_attributes(node: &dyn Node, attributes: u32) -> Result<(), Error> {
    node.change(&Changes { attributes: AttributeChange::to(attributes), ..Changes::default() })
}

/// What another server finds, which remembers nothing.
fn after_a_restart(disk: Disk) -> (Option<Vec<u8>>, u32) {
    let again = DirectoryStore::open(disk.path(), DirectoryOptions::default()).unwrap();
    match again.resolve(&SharePath::parse("file").unwrap(), Use::Read).unwrap() {
        Resolved::Found { node, .. } => (node.extras().security().unwrap(), node.metadata().unwrap().attributes),
        Resolved::Missing { .. } => panic!("it was made"),
    }
}

#[test]
fn a_file_that_needs_a_record_has_its_descriptor_in_the_same_attribute() {
    let disk = made();
    assert_eq!(has(&disk), [RECORD]);
    assert_eq!(security(&disk).unwrap().as_deref(), Some(MADE));
    assert_eq!(disk.node("file").metadata().unwrap().attributes, 0);
    assert_eq!(after_a_restart(disk), (Some(MADE.to_vec()), 0));
}

#[test]
fn attributes_and_descriptor_change_without_each_other() {
    let disk = made();
    change_attributes(&*disk.node("file"), HIDDEN).unwrap();
    assert_eq!(security(&disk).unwrap().as_deref(), Some(MADE));
    assert_eq!(has(&disk), [RECORD]);
    for (descriptor, key) in [(b"another".as_slice(), SECURITY), (&HUGE, SECURITY_SIDE), (&LONG, SECURITY)] {
        disk.node("file").extras().set_security(descriptor).unwrap();
        assert_eq!(security(&disk).unwrap().as_deref(), Some(descriptor));
        assert_eq!(has(&disk), [RECORD, key]);
        assert_eq!(record_of(&disk).len(), Record::default().encode().len(), "nothing of the former one is left");
        assert_eq!(disk.node("file").metadata().unwrap().attributes, HIDDEN);
    }
    change_attributes(&*disk.node("file"), HIDDEN + 1).unwrap();
    assert_eq!(after_a_restart(disk), (Some(LONG.to_vec()), HIDDEN + 1));
}

#[test]
fn a_file_that_an_earlier_version_made_is_served_and_changed_as_it_is() {
    let disk = Disk::new(false);
    std::fs::write(disk.path().join("file"), "").unwrap();
    set(&disk, RECORD, &Record { attributes: Some(HIDDEN), ..Record::default() }.encode());
    set(&disk, SECURITY, b"earlier");
    assert_eq!(security(&disk).unwrap().as_deref(), Some(b"earlier".as_slice()));
    change_attributes(&*disk.node("file"), HIDDEN + 1).unwrap();
    assert_eq!(security(&disk).unwrap().as_deref(), Some(b"earlier".as_slice()));
    disk.node("file").extras().set_security(b"changed").unwrap();
    assert_eq!(has(&disk), [RECORD, SECURITY]);
    assert_eq!(after_a_restart(disk), (Some(b"changed".to_vec()), HIDDEN + 1));
}

#[test]
fn of_several_descriptors_the_one_counts_that_has_an_attribute_of_its_own() {
    let disk = made();
    disk.node("file").extras().set_security(&HUGE).unwrap();
    // As another program puts them there.
    let both = Record { attributes: Some(HIDDEN), ..Record::default() }.encode_with(b"behind").unwrap();
    set(&disk, RECORD, &both);
    assert_eq!(security(&disk).unwrap().as_deref(), Some(b"behind".as_slice()));
    set(&disk, SECURITY, b"apart");
    assert_eq!(security(&disk).unwrap().as_deref(), Some(b"apart".as_slice()));
    change_attributes(&*disk.node("file"), 0).unwrap();
    assert_eq!(security(&disk).unwrap().as_deref(), Some(b"apart".as_slice()));
    disk.node("file").extras().set_security(&HUGE).unwrap();
    assert_eq!(has(&disk), [RECORD, SECURITY_SIDE]);
    assert_eq!(security(&disk).unwrap().as_deref(), Some(HUGE.as_slice()));
}

#[test]
fn what_another_program_copies_with_its_attributes_has_the_descriptor() {
    let disk = made();
    std::fs::write(disk.path().join("copy"), "").unwrap();
    disk.copy_value(false, RECORD, ("file", "copy"));
    assert_eq!(disk.node("copy").extras().security().unwrap().as_deref(), Some(MADE));
    disk.node("copy").extras().set_security(b"another").unwrap();
    assert_eq!(security(&disk).unwrap().as_deref(), Some(MADE));
}

#[test]
fn whoever_takes_the_attribute_away_does_not_bring_back_a_former_descriptor() {
    let disk = made();
    disk.node("file").extras().set_security(b"another").unwrap();
    removexattr(disk.path().join("file"), SECURITY).unwrap();
    assert_eq!(security(&disk).unwrap(), None);
}

#[test]
fn a_descriptor_that_cannot_be_read_is_not_missing_and_not_lost() {
    for value in [&[3; 40][..], &[2; 30], &[2; 900], &[0xFF; 1_500]] {
        let disk = made();
        set(&disk, RECORD, value);
        assert!(security(&disk).is_err());
        assert!(change_attributes(&*disk.node("file"), HIDDEN).is_err());
        assert_eq!(record_of(&disk), value);
        // Whoever may set another one ends that.
        disk.node("file").extras().set_security(b"another").unwrap();
        change_attributes(&*disk.node("file"), HIDDEN).unwrap();
        assert_eq!(after_a_restart(disk), (Some(b"another".to_vec()), HIDDEN));
    }
}

#[test]
fn a_file_has_its_descriptor_or_the_new_one_whatever_call_fails_or_comes_last() {
    let changes: [&[u8]; 3] = [b"another", &LONG, &HUGE];
    for beside in [false, true] {
        for former in [MADE, &LONG, &HUGE] {
            for new in changes {
                let prepare = |disk: &Disk| {
                    let node = disk.create("file", Kind::File).unwrap();
                    if former != MADE {
                        node.extras().set_security(former).unwrap();
                    }
                };
                at_each_call(
                    beside,
                    prepare,
                    |disk| disk.open("file")?.extras().set_security(new),
                    |disk, answer, _| {
                        let found = security(disk).unwrap().unwrap();
                        assert!(found == new || answer.is_err() && found == former, "{answer:?}");
                        assert_eq!(disk.node("file").metadata().unwrap().attributes, 0);
                    },
                );
            }
        }
        at_each_call(
            beside,
            |disk| drop(disk.create("file", Kind::File).unwrap()),
            |disk| change_attributes(&*disk.open("file")?, HIDDEN),
            |disk, answer, _| {
                assert_eq!(security(disk).unwrap().as_deref(), Some(MADE));
                let attributes = disk.node("file").metadata().unwrap().attributes;
                assert!(attributes == HIDDEN || answer.is_err() && attributes == 0);
            },
        );
    }
}

#[test]
fn whoever_looks_while_a_descriptor_is_replaced_finds_the_former_or_the_new_one() {
    for (former, new) in [(MADE, b"another".as_slice()), (MADE, &HUGE), (&HUGE, MADE), (&LONG, &HUGE)] {
        let mut seen_new = false;
        for at in 0..CALLS_MAX {
            let disk = made();
            let node = disk.node("file");
            if former != MADE {
                node.extras().set_security(former).unwrap();
            }
            let (found, looks) = std::sync::mpsc::channel();
            let other = disk.node("file");
            let look = move || found.send(other.extras().security()).unwrap();
            let (answer, happened) = meanwhile(at, look, || node.extras().set_security(new));
            answer.unwrap();
            if !happened {
                break;
            }
            let found = looks.recv().unwrap().unwrap().unwrap();
            assert!(found == former || found == new, "{at}");
            seen_new |= found == new;
        }
        assert!(seen_new, "no call comes after the one that counts");
    }
}
