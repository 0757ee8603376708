//! What a call about names that fails leaves, whether it was made or not, on file systems that can do more and less: nothing that is not replaced
//! or removed loses its last name, and the answer says what is there.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;

use crate::directory::calls::failing::{Fail, Lacks, during, lacking};
use crate::directory::faults::{CALLS_MAX, Disk, LARGE};
use crate::{Destination, Error, Kind, Name, Replace};

/// What is done with `one/old`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Rename,
    Link,
    Remove,
}

/// Who has the new name before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Nobody,
    Another,
    Itself,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    change: Change,
    kind: Kind,
    taken: Taken,
    /// The directory of the new name, which is taken as `new`, and how it is asked for.
    to: (&'static str, &'static str),
    lacks: Lacks,
}

/// Which names lead to a file or directory, by inode number.
type Names = BTreeMap<u64, Vec<String>>;

impl Case {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for lacks in [Lacks::Nothing, Lacks::RenameFlags, Lacks::Links] {
            for to in [("two", "new"), ("two", "NEW"), ("one", "NEW"), ("one", "OLD")] {
                for taken in [Taken::Nobody, Taken::Another, Taken::Itself] {
                    let add = |(change, kind)| Case { change, kind, taken, to, lacks };
                    let directories = [(Change::Rename, Kind::Directory), (Change::Remove, Kind::Directory)];
                    let files =
                        [(Change::Rename, Kind::File), (Change::Link, Kind::File), (Change::Remove, Kind::File)];
                    all.extend(directories.into_iter().chain(files).map(add));
                }
            }
        }
        all.retain(Case::can_be);
        all
    }

    fn can_be(&self) -> bool {
        match self.change {
            Change::Remove => self.taken != Taken::Another && self.to.1 == "new" && !self.needs_missing_links(),
            Change::Rename | Change::Link if self.to.1 == "OLD" => {
                self.change == Change::Rename && self.taken == Taken::Nobody
            }
            Change::Link => self.lacks != Lacks::Links,
            Change::Rename => !self.needs_missing_links(),
        }
    }

    fn needs_missing_links(&self) -> bool {
        self.taken == Taken::Itself && (self.kind == Kind::Directory || self.lacks == Lacks::Links)
    }

    fn prepare(&self) -> Disk {
        let disk = Disk::new(false);
        for folder in ["one", "two"] {
            disk.create(folder, Kind::Directory).unwrap();
        }
        let create = |path: &str, kind| {
            disk.create("made", kind).unwrap();
            std::fs::rename(disk.path().join("made"), disk.path().join(path)).unwrap();
            disk.stream(path, "stream", 1, LARGE);
        };
        create("one/old", self.kind);
        let new = format!("{}/new", self.to.0);
        match self.taken {
            Taken::Nobody => {}
            Taken::Another => create(&new, Kind::File),
            Taken::Itself => std::fs::hard_link(disk.path().join("one/old"), disk.path().join(new)).unwrap(),
        }
        disk
    }

    fn make(&self, disk: &Disk) -> Result<(), Error> {
        let (old, new) = (Name::new("old").unwrap(), Name::new(self.to.1).unwrap());
        let (from, directory) = (disk.open("one")?, disk.open(self.to.0)?);
        let to = Destination { directory: &*directory, name: &new };
        let file = disk.open("one/old")?;
        match self.change {
            Change::Rename => from.names().unwrap().rename(&old, file.identity(), to, Replace::Yes),
            Change::Link => file.link(to, Replace::Yes),
            Change::Remove => from.names().unwrap().remove(&old, file.identity()),
        }
    }

    /// The names after it, where the new one may be spelled in any case.
    fn after(&self, before: &Names, old: u64) -> Names {
        let new = format!("{}/new", self.to.0);
        let mut after = before.clone();
        if self.change != Change::Link {
            after.get_mut(&old).unwrap().retain(|name| name != "one/old");
        }
        if self.change != Change::Remove {
            after.values_mut().for_each(|names| names.retain(|name| *name != new));
            after.get_mut(&old).unwrap().push(format!("{}/{}", self.to.0, self.to.1.to_lowercase()));
        }
        after.values_mut().for_each(|names| names.sort());
        after.retain(|_, names| !names.is_empty());
        after
    }
}

/// The names of what there is, in small letters.
fn names(disk: &Disk) -> Names {
    let mut names = Names::new();
    for folder in ["one", "two"] {
        for entry in std::fs::read_dir(disk.path().join(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = format!("{folder}/{}", entry.file_name().to_str().unwrap().to_lowercase());
            names.entry(entry.metadata().unwrap().ino()).or_default().push(name);
        }
    }
    names.values_mut().for_each(|names| names.sort());
    names
}

/// The same where one name may be there in two spellings.
fn without_spellings(names: &Names) -> Names {
    let mut names = names.clone();
    names.values_mut().for_each(Vec::dedup);
    names
}

/// What is there, as clients see it, is what the disk has.
fn check_is_shown(disk: &Disk, names: &Names, hint: &str) {
    for path in ["one/old", "one/new", "two/new"] {
        let file = names.iter().find(|(_, names)| names.iter().any(|name| name == path)).map(|(file, _)| *file);
        assert_eq!(disk.open(path).ok().map(|node| node.identity().file), file, "{hint} {path}");
    }
    for path in names.values().flatten() {
        assert_eq!(disk.streams(path).len(), 1, "{hint} {path}");
    }
}

/// Makes the change with `fail`; false where no call failed.
fn check(case: &Case, fail: Fail) -> bool {
    let disk = case.prepare();
    let before = names(&disk);
    let old = std::fs::metadata(disk.path().join("one/old")).unwrap().ino();
    let after = case.after(&before, old);
    let (answer, has_failed) = lacking(case.lacks, || during(fail, Errno::IO, || case.make(&disk)));
    let left = names(&disk);
    let hint = format!("{case:?} {fail:?} {answer:?}: {before:?} {left:?}");
    // Whatever comes, what is there after it has a name, and so has what is replaced until another has it.
    assert!(after.keys().all(|file| left.contains_key(file)), "{hint}");
    let is_made = without_spellings(&left) == after;
    assert!(is_made || before.keys().all(|file| left.contains_key(file)), "{hint}");
    match answer {
        Ok(()) if matches!(fail, Fail::DoneAndLater(..)) => assert!(is_made, "{hint}"),
        Ok(()) => assert_eq!(left, after, "{hint}"),
        Err(_) if matches!(fail, Fail::One(_) | Fail::Done(_)) => assert_eq!(left, before, "{hint}"),
        Err(_) => {}
    }
    check_is_shown(&disk, &left, &hint);
    if matches!(fail, Fail::Done(_)) {
        assert_eq!(disk.sides(), left.len(), "one for each stream: {hint}");
    }
    has_failed
}

#[test]
fn names_are_what_the_answer_says_whatever_call_fails_that_was_made_or_not() {
    for case in Case::all() {
        for fail in [Fail::One, Fail::Done] {
            let calls = (0..CALLS_MAX).take_while(|at| check(&case, fail(*at))).count();
            assert!(calls < CALLS_MAX);
        }
    }
}

#[test]
fn no_file_is_left_without_a_name_where_what_became_of_a_change_cannot_be_seen() {
    for case in Case::all() {
        for later in 1..8 {
            let calls = (0..CALLS_MAX).take_while(|at| check(&case, Fail::DoneAndLater(*at, later))).count();
            assert!(calls < CALLS_MAX);
        }
    }
}
