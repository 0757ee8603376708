//! What a call that fails, or a kill, leaves of several changes that are made all or none: the file is as it was, or as it was to be.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use rustix::io::Errno;

use crate::directory::calls::failing::{Fail, Lacks, during, lacking, meanwhile};
use crate::directory::faults::{CALLS_MAX, Change, Disk, LARGE, at_each_call};
use crate::directory::leftovers::sweep;
use crate::{AttributeChange, Error, ExtendedAttribute, Failed, Kind, Left, Name, Renewal};

const ARCHIVE: u32 = 0x20;
const HIDDEN: u32 = 0x2;
const DATA: &[u8] = b"data that is not to go";

/// All that is known of a file.
#[derive(Debug, PartialEq, Eq)]
struct State {
    data: Vec<u8>,
    attributes: u32,
    extended: Vec<ExtendedAttribute>,
    streams: Vec<(String, usize, u8)>,
}

impl State {
    fn of(disk: &Disk) -> Self {
        let node = disk.node("file");
        let mut data = vec![0; 100];
        let length = node.read_at(&mut data, 0).unwrap();
        data.truncate(length);
        let attributes = node.metadata().unwrap().attributes;
        State { data, attributes, extended: node.extras().extended().unwrap(), streams: disk.streams("file") }
    }
}

fn named(name: &str, value: &[u8]) -> ExtendedAttribute {
    (name.to_owned(), value.to_vec())
}

fn prepare(disk: &Disk) {
    let node = disk.create("file", Kind::File).unwrap();
    node.write_at(DATA, 0).unwrap();
    let attributes = AttributeChange::to(HIDDEN);
    node.change(&crate::Changes { attributes, ..crate::Changes::default() }).unwrap();
    node.extras().set_extended("One", b"first").unwrap();
    node.extras().set_extended("two", b"second").unwrap();
    for (name, length) in [("small", 10), ("large", LARGE), (&"l".repeat(250), LARGE)] {
        disk.stream("file", name, 1, length);
    }
}

fn asked() -> Vec<ExtendedAttribute> {
    vec![named("ONE", b"longer than the first"), named("three", b"3")]
}

/// What is asked for, and what comes of it.
fn renewals() -> [(Vec<ExtendedAttribute>, u64); 2] {
    [(Vec::new(), 0), (asked(), 1 << 16)]
}

fn renew(disk: &Disk, (extended, reserved): &(Vec<ExtendedAttribute>, u64)) -> Result<(), Failed> {
    let attributes = AttributeChange { clear: HIDDEN, set: ARCHIVE };
    let node = disk.open("file").map_err(Failed::untouched)?;
    node.renew(&Renewal { extended, attributes, reserved: *reserved })
}

#[test]
fn a_file_that_could_not_be_made_as_good_as_new_is_as_it_was() {
    for errno in [Errno::IO, Errno::MFILE, Errno::NOMEM, Errno::NOSPC, Errno::ACCESS] {
        for (beside, renewal) in
            [false, true].into_iter().flat_map(|beside| renewals().map(|renewal| (beside, renewal)))
        {
            for kind in [Fail::One, Fail::Done] {
                let calls = (0..CALLS_MAX).take_while(|at| {
                    let disk = Disk::new(beside);
                    prepare(&disk);
                    let before = State::of(&disk);
                    let (answer, has_failed) = during(kind(*at), errno, || renew(&disk, &renewal));
                    let after = State::of(&disk);
                    let hint = format!("{errno:?} {beside} {:?} {answer:?}", kind(*at));
                    match answer {
                        Ok(()) => {
                            let extended = renewal.0.clone();
                            let new = State { data: vec![], attributes: ARCHIVE, extended, streams: vec![] };
                            assert_eq!(after, new, "{hint}");
                        }
                        Err(failed) => {
                            assert_eq!(failed.left, Left::AsItWas, "{hint}");
                            assert_eq!(after, before, "{hint}");
                        }
                    }
                    sweep(&Arc::downgrade(&disk.store.volume()));
                    let sides = after.streams.iter().filter(|(_, length, _)| *length == LARGE).count();
                    // What lies where the server may not look stays.
                    assert!(disk.sides() == sides || errno == Errno::ACCESS && disk.sides() > sides, "{hint}");
                    has_failed
                });
                assert!(calls.count() < CALLS_MAX);
            }
        }
    }
}

#[test]
fn a_stream_that_could_not_be_emptied_is_as_it_was() {
    for (beside, name) in [false, true].into_iter().flat_map(|beside| ["small", "large"].map(|name| (beside, name))) {
        for kind in [Fail::One, Fail::Done] {
            let calls = (0..CALLS_MAX).take_while(|at| {
                let disk = Disk::new(beside);
                prepare(&disk);
                let before = State::of(&disk);
                let stream = disk.node("file").extras().stream(name).unwrap().unwrap().1;
                let (answer, has_failed) = during(kind(*at), Errno::IO, || stream.set_length(0));
                let hint = format!("{beside} {name} {:?} {answer:?}", kind(*at));
                match answer {
                    Ok(()) => assert_eq!(stream.metadata().unwrap().length, 0, "{hint}"),
                    Err(_) => assert_eq!(State::of(&disk), before, "{hint}"),
                }
                has_failed
            });
            assert!(calls.count() < CALLS_MAX);
        }
    }
}

#[test]
fn where_there_is_no_room_for_attributes_at_all_nothing_has_to_be_put_back() {
    for renewal in renewals() {
        let disk = Disk::new(false);
        prepare(&disk);
        let before = State::of(&disk);
        let failed = lacking(Lacks::Room, || renew(&disk, &renewal)).unwrap_err();
        assert_eq!((failed.error, failed.left), (Error::Full, Left::AsItWas));
        assert_eq!(State::of(&disk), before);
    }
}

#[test]
fn where_no_space_can_be_reserved_nothing_has_to_be_put_back() {
    let disk = Disk::new(false);
    prepare(&disk);
    let before = State::of(&disk);
    let renewal = (vec![named("three", b"3")], 1 << 60);
    let failed = lacking(Lacks::RoomThatWasFree, || renew(&disk, &renewal)).unwrap_err();
    assert_eq!((failed.error, failed.left), (Error::Full, Left::AsItWas));
    assert_eq!(State::of(&disk), before);
}

#[test]
fn a_server_that_is_killed_while_a_file_is_made_as_good_as_new_leaves_no_side_files() {
    for (beside, renewal) in [false, true].into_iter().flat_map(|beside| renewals().map(|renewal| (beside, renewal))) {
        let change = |disk: &Disk| renew(disk, &renewal).map_err(|failed| failed.error);
        at_each_call(beside, prepare, change, |disk, answer, _| {
            sweep(&Arc::downgrade(&disk.store.volume()));
            let left = disk.streams("file");
            assert!(
                left.iter().all(|(name, length, byte)| (*length == LARGE || name == "small") && *byte == 1),
                "{left:?}"
            );
            let sides = left.iter().filter(|(_, length, _)| *length == LARGE).count();
            assert_eq!(disk.sides(), sides, "{beside} {answer:?}");
        });
    }
}

#[test]
fn extended_attributes_are_set_all_or_none_whatever_fails() {
    for (beside, errno) in [(false, Errno::IO), (false, Errno::ACCESS), (true, Errno::IO), (true, Errno::ACCESS)] {
        for kind in [Fail::One, Fail::Done] {
            let calls = (0..CALLS_MAX).take_while(|at| {
                let disk = Disk::new(beside);
                prepare(&disk);
                let before = State::of(&disk);
                let asked = vec![named("ONE", b"1"), named("three", b"3"), named("two", b"")];
                let (answer, has_failed) = during(kind(*at), errno, || {
                    let node = disk.open("file").map_err(Failed::untouched)?;
                    node.extras().change_extended(&mut |_| Some(asked.clone()))
                });
                let after = State::of(&disk);
                match answer {
                    Ok(()) => assert_eq!(after.extended, [named("One", b"1"), named("three", b"3")]),
                    Err(failed) => {
                        assert_eq!((failed.left, after), (Left::AsItWas, before), "{beside} {errno:?} {:?}", kind(*at))
                    }
                }
                has_failed
            });
            assert!(calls.count() < CALLS_MAX);
        }
    }
}

#[test]
fn what_others_change_meanwhile_is_not_undone() {
    const SYSTEM: u32 = 0x4;
    for at in 0..CALLS_MAX {
        let disk = Disk::new(false);
        prepare(&disk);
        let mut expected = State::of(&disk);
        expected.attributes |= SYSTEM;
        expected.extended.insert(1, named("another's", b"value"));
        expected.extended.sort();
        let (node, (done, is_done)) = (disk.node("file"), mpsc::channel());
        let others = std::thread::spawn(move || {
            if is_done.recv().is_ok() {
                let attributes = AttributeChange::setting(SYSTEM);
                node.change(&crate::Changes { attributes, ..crate::Changes::default() }).unwrap();
                node.extras().set_extended("another's", b"value").unwrap();
            }
        });
        // It waits for nobody: who holds the file goes on first.
        let happens = move || {
            done.send(()).unwrap();
            std::thread::sleep(Duration::from_millis(2));
        };
        let (answer, happened) = meanwhile(at, happens, || renew(&disk, &(asked(), 1 << 50)));
        assert_eq!(answer, Err(Failed::untouched(crate::Error::Full)), "{at}");
        others.join().unwrap();
        if !happened {
            return;
        }
        assert_eq!(State::of(&disk), expected, "{at}");
    }
    panic!("no end of calls");
}

/// What has a side file go while its file stays.
const SIDE_FILES_GO: [Change; 3] = [
    |disk| disk.open("file")?.extras().remove_stream("large"),
    |disk| disk.open("file")?.extras().rename_stream("small", "large", crate::Replace::Yes),
    |disk| disk.open("file")?.extras().set_security(b"short again"),
];

#[test]
fn a_side_file_that_nothing_names_any_more_goes_where_the_server_is_killed() {
    for beside in [false, true] {
        for change in SIDE_FILES_GO {
            let prepare = |disk: &Disk| {
                disk.create("file", Kind::File).unwrap().extras().set_security(&[2; 70_000]).unwrap();
                disk.stream("file", "small", 1, 10);
                disk.stream("file", "large", 1, LARGE);
            };
            at_each_call(beside, prepare, change, |disk, answer, _| {
                sweep(&Arc::downgrade(&disk.store.volume()));
                disk.open("")
                    .unwrap()
                    .names()
                    .unwrap()
                    .remove(&Name::new("file").unwrap(), disk.node("file").identity())
                    .unwrap();
                assert_eq!(disk.sides(), 0, "{beside} {answer:?}");
            });
        }
    }
}
