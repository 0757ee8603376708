//! Names are changed in directories that are open: whatever a path means by now, what was judged is what is changed.

use std::sync::Arc;

use crate::common::*;
use store::{Destination, Error, Kind, Name, Node, Replace, Use};

behaviours! {
    a_name_is_made_in_the_directory_that_is_open_wherever_it_stands
    a_file_moves_between_open_directories_wherever_they_stand
    a_link_is_made_to_the_open_file_whatever_has_its_name
    only_the_file_that_was_meant_is_replaced
    what_was_not_expected_is_neither_moved_nor_removed
    a_child_is_found_in_any_case
    nothing_comes_into_a_directory_that_was_removed
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

/// `here` is what stood at `there`, and the other way round.
fn swap(disk: &Disk, here: &str, there: &str) {
    disk.rename(here, "aside", Replace::No).unwrap();
    disk.rename(there, here, Replace::No).unwrap();
    disk.rename("aside", there, Replace::No).unwrap();
}

fn to<'a>(directory: &'a Arc<dyn Node>, name: &'a Name) -> Destination<'a> {
    Destination { directory: &**directory, name }
}

fn a_name_is_made_in_the_directory_that_is_open_wherever_it_stands(disk: &Disk) {
    let judged = disk.directory("judged");
    disk.directory("other");
    swap(disk, "judged", "other");
    let made = judged.names().unwrap().create(&name("file"), new(Kind::File)).unwrap();
    assert!(disk.names("judged").is_empty());
    assert_eq!(disk.node("other\\file").identity(), made.identity());
    assert_eq!(judged.names().unwrap().create(&name("FILE"), new(Kind::File)).err(), Some(Error::Exists));
}

fn a_file_moves_between_open_directories_wherever_they_stand(disk: &Disk) {
    let (from, into) = (disk.directory("from"), disk.directory("into"));
    disk.directory("other");
    let file = disk.file("from\\file", b"data");
    swap(disk, "from", "other");
    swap(disk, "into", "from");
    // "from" is what was "into", "into" what was "other", "other" what was "from".
    from.names().unwrap().rename(&name("FILE"), file.identity(), to(&into, &name("moved")), Replace::No).unwrap();
    assert_eq!(disk.names("from"), ["moved"]);
    assert!(disk.names("into").is_empty() && disk.names("other").is_empty());
    let inside = into.names().unwrap().create(&name("inside"), new(Kind::Directory)).unwrap();
    let (directory, root) = (into.identity(), disk.node(""));
    assert_eq!(
        root.names().unwrap().rename(&name("from"), directory, to(&inside, &name("x")), Replace::No),
        Err(Error::Denied)
    );
}

fn a_link_is_made_to_the_open_file_whatever_has_its_name(disk: &Disk) {
    let (file, root) = (disk.file("file", b"data"), disk.node(""));
    disk.rename("file", "elsewhere", Replace::No).unwrap();
    disk.file("file", b"another");
    file.link(to(&root, &name("link")), Replace::No).unwrap();
    assert_eq!(disk.node("link").identity(), file.identity());
    assert_eq!(file.link(to(&root, &name("LINK")), Replace::No), Err(Error::Exists));
    disk.remove("link").unwrap();
    disk.remove("elsewhere").unwrap();
    assert_eq!(file.link(to(&root, &name("link")), Replace::No), Err(Error::NotFound), "it has no name any more");
}

fn only_the_file_that_was_meant_is_replaced(disk: &Disk) {
    let (file, taken, root) = (disk.file("file", b"new"), disk.file("taken", b"old"), disk.node(""));
    let another = disk.file("another", b"another");
    let meant = Replace::Only(another.identity());
    assert_eq!(
        root.names().unwrap().rename(&name("file"), file.identity(), to(&root, &name("taken")), meant),
        Err(Error::Exists)
    );
    assert_eq!(file.link(to(&root, &name("taken")), meant), Err(Error::Exists));
    assert_eq!(disk.node("taken").identity(), taken.identity());
    let meant = Replace::Only(taken.identity());
    file.link(to(&root, &name("taken")), meant).unwrap();
    assert_eq!(disk.node("taken").identity(), file.identity());
    let meant = Replace::Only(another.identity());
    root.names().unwrap().rename(&name("file"), file.identity(), to(&root, &name("another")), meant).unwrap();
    assert_eq!(disk.names(""), ["another", "taken"]);
}

fn what_was_not_expected_is_neither_moved_nor_removed(disk: &Disk) {
    let (file, another, root) = (disk.file("file", b"data"), disk.file("another", b"data"), disk.node(""));
    let moved = root.names().unwrap().rename(&name("file"), another.identity(), to(&root, &name("moved")), Replace::No);
    assert_eq!(moved, Err(Error::NotFound));
    assert_eq!(root.names().unwrap().remove(&name("file"), another.identity()), Err(Error::NotFound));
    assert_eq!(disk.names(""), ["another", "file"]);
    assert_eq!(file.names().err(), Some(Error::NotDirectory));
    root.names().unwrap().remove(&name("FILE"), file.identity()).unwrap();
    assert_eq!(disk.names(""), ["another"]);
}

fn a_child_is_found_in_any_case(disk: &Disk) {
    let (directory, file) = (disk.directory("Folder"), disk.file("Folder\\File", b"data"));
    let (stored, found) = directory.names().unwrap().child(&name("FILE"), Use::Read).unwrap().unwrap();
    assert_eq!((stored.as_str(), found.identity()), ("File", file.identity()));
    assert_eq!(read_all(&*found), b"data");
    assert!(directory.names().unwrap().child(&name("none"), Use::Read).unwrap().is_none());
    let (_, found) = disk.node("").names().unwrap().child(&name("folder"), Use::ReadWrite).unwrap().unwrap();
    assert_eq!(found.identity(), directory.identity());
    assert_eq!(file.names().err(), Some(Error::NotDirectory));
}

fn nothing_comes_into_a_directory_that_was_removed(disk: &Disk) {
    let (gone, file, root) = (disk.directory("gone"), disk.file("file", b"data"), disk.node(""));
    disk.remove("gone").unwrap();
    let into = || to(&gone, &NAME);
    static NAME: std::sync::LazyLock<Name> = std::sync::LazyLock::new(|| name("x"));
    assert_eq!(gone.names().unwrap().create(&NAME, new(Kind::File)).err(), Some(Error::PathNotFound));
    assert!(root.names().unwrap().rename(&name("file"), file.identity(), into(), Replace::No).is_err());
    assert!(file.link(into(), Replace::No).is_err());
    assert_eq!(disk.names(""), ["file"]);
}
