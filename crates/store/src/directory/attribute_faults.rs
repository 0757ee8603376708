//! What is told where the file system says of an extended attribute that there is no room, or no way to look at it.

use rustix::io::Errno;

use crate::directory::calls::failing::{Fail, during};
use crate::directory::faults::{CALLS_MAX, Disk};
use crate::{AttributeChange, Changes, Error, Kind};

const HIDDEN: u32 = 0x2;

fn prepare(disk: &Disk) {
    let node = disk.create("file", Kind::File).unwrap();
    let attributes = AttributeChange::to(HIDDEN);
    node.change(&Changes { attributes, ..Changes::default() }).unwrap();
    node.set_extended("one", b"first").unwrap();
    node.set_extended("two", b"second").unwrap();
    disk.stream("file", "small", 1, 10);
    node.set_security(&[2; 70_000]).unwrap();
}

#[test]
fn what_cannot_be_looked_at_is_not_taken_for_nothing() {
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::NOMEM] {
        for beside in [false, true] {
            let look = |disk: &Disk| {
                let node = disk.open("file")?;
                assert!(node.stream("small")?.is_some());
                assert!(node.security()?.is_some());
                assert_eq!(node.metadata()?.attributes, HIDDEN);
                assert_eq!(node.extended()?.len(), 2);
                Ok::<_, Error>(())
            };
            let calls = (0..CALLS_MAX).take_while(|at| {
                let disk = Disk::new(beside);
                prepare(&disk);
                during(Fail::One(*at), errno, || look(&disk)).1
            });
            assert!(calls.count() < CALLS_MAX);
        }
    }
}

/// Sets an attribute of so many bytes where the call that does so says that there is no room.
fn set_without_room(bytes: usize) -> Error {
    let answers = (0..CALLS_MAX).find_map(|at| {
        let disk = Disk::new(false);
        prepare(&disk);
        let node = disk.node("file");
        let set = || node.set_extended("name", &vec![1; bytes]);
        let (answer, _) = during(Fail::One(at), Errno::NOSPC, set);
        let is_last_call = during(Fail::One(at + 1), Errno::NOSPC, set).1;
        (!is_last_call).then(|| answer.unwrap_err())
    });
    answers.unwrap()
}

#[test]
fn a_full_disk_is_told_from_a_file_that_takes_no_more_attributes() {
    assert_eq!(set_without_room(100), Error::Full, "any file takes as many");
    assert_eq!(set_without_room(8_000), Error::TooLarge);
}
