//! What is told where the file system says of an extended attribute that there is no room, or no way to look at it.

use rustix::io::Errno;

use crate::directory::calls::failing::{Fail, Lacks, during, lacking};
use crate::directory::faults::{CALLS_MAX, Disk, LARGE};
use crate::{AttributeChange, Changes, Destination, Error, Failed, Kind, Name, Renewal, Replace, Time};

const HIDDEN: u32 = 0x2;
const ARCHIVE: u32 = 0x20;

fn prepare(disk: &Disk) {
    let node = disk.create("file", Kind::File).unwrap();
    let attributes = AttributeChange::to(HIDDEN);
    node.change(&Changes { attributes, ..Changes::default() }).unwrap();
    node.extras().set_extended("one", b"first").unwrap();
    node.extras().set_extended("two", b"second").unwrap();
    disk.stream("file", "small", 1, 10);
    node.extras().set_security(&[2; 70_000]).unwrap();
}

#[test]
fn what_cannot_be_looked_at_is_not_taken_for_nothing() {
    for errno in [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::NOMEM, Errno::ACCESS, Errno::PERM] {
        // A file that may not be read shows what it is.
        let is_shown = matches!(errno, Errno::ACCESS | Errno::PERM);
        for beside in [false, true] {
            let look = |disk: &Disk| {
                let node = disk.open("file")?;
                assert!(node.extras().stream("small")?.is_some());
                assert!(node.extras().security()?.is_some());
                let attributes = node.metadata()?.attributes;
                assert!(attributes == HIDDEN || is_shown && attributes == ARCHIVE, "{attributes:x}");
                assert_eq!(node.extras().extended()?.len(), 2);
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

#[test]
fn a_file_whose_attributes_may_not_be_read_shows_what_it_is_and_nothing_of_it_is_changed() {
    let disk = Disk::new(false);
    prepare(&disk);
    disk.stream("file", "large", 1, LARGE);
    let (streams, write) = (disk.streams("file"), disk.node("file").metadata().unwrap().write);
    let (name, other) = (Name::new("file").unwrap(), Name::new("other").unwrap());
    disk.create("other", Kind::File).unwrap();
    lacking(Lacks::Leave, || {
        let (root, node) = (disk.node(""), disk.node("file"));
        assert_eq!(node.metadata().unwrap().attributes, ARCHIVE);
        assert_eq!(root.names().unwrap().entry_metadata(&name).unwrap().attributes, ARCHIVE);
        let to = Destination { directory: &*root, name: &name };
        let attributes = AttributeChange::to(0x4);
        let refused = [
            node.extras().security().err(),
            node.extras().extended().err(),
            node.extras().list_streams(&mut |_| std::ops::ControlFlow::Continue(())).err(),
            node.extras().stream("small").err(),
            node.extras().create_stream("SMALL").err(),
            node.extras().create_stream("new").err(),
            node.extras().rename_stream("small", "large", Replace::Yes).err(),
            node.extras().remove_stream("large").err(),
            node.change(&Changes { attributes, write: Some(Time(1 << 56)), ..Changes::default() }).err(),
            root.names().unwrap().remove(&name, node.identity()).err(),
            root.names().unwrap().rename(&other, disk.node("other").identity(), to, Replace::Yes).err(),
        ];
        for (number, error) in refused.into_iter().enumerate() {
            assert_eq!(error, Some(Error::Denied), "{number}");
        }
        let asked = vec![("one".to_owned(), vec![]), ("three".to_owned(), b"3".to_vec())];
        assert_eq!(node.extras().change_extended(&mut |_| Some(asked.clone())), Err(Failed::untouched(Error::Denied)));
        let renewal = Renewal { extended: &asked, attributes, reserved: 0 };
        assert_eq!(node.renew(&renewal), Err(Failed::untouched(Error::Denied)));
        assert_eq!(node.renew(&Renewal::default()), Err(Failed::untouched(Error::Denied)));
    });
    let node = disk.node("file");
    let known = node.metadata().unwrap();
    assert_eq!((disk.streams("file"), known.attributes, known.write), (streams, HIDDEN, write));
    let named = |name: &str, value: &[u8]| (name.to_owned(), value.to_vec());
    assert_eq!(node.extras().extended().unwrap(), [named("one", b"first"), named("two", b"second")]);
    assert_eq!(disk.sides(), 2);
}

/// Sets an attribute of so many bytes where the call that does so says that there is no room.
fn set_without_room(bytes: usize) -> Error {
    let answers = (0..CALLS_MAX).find_map(|at| {
        let disk = Disk::new(false);
        prepare(&disk);
        let node = disk.node("file");
        let set = || node.extras().set_extended("name", &vec![1; bytes]);
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
