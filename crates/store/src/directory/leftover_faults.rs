//! What calls that fail, and kills, leave in the reserved folder once that was swept: nothing that belongs to nothing.

use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::directory::calls::failing::{Fail, Lacks, during, lacking};
use crate::directory::faults::{CALLS_MAX, Change, Disk, LARGE, LAST_NAME_GOES, at_each_call, entry};
use crate::directory::leftovers::sweep;
use crate::{Destination, Error, Kind, Name, Replace, Replacement};

/// The directory `folder` is renamed over `file`.
const DIRECTORY_OVER_FILE: Change = |disk| {
    let (root, new) = (disk.open("")?, Name::new("file").unwrap());
    let to = Destination { directory: &*root, name: &new };
    root.names().unwrap().rename(&Name::new("folder").unwrap(), disk.open("folder")?.identity(), to, Replace::Yes)
};

fn prepare(disk: &Disk) {
    disk.create("file", Kind::File).unwrap();
    disk.stream("file", "stream", 1, LARGE);
    disk.create("other", Kind::File).unwrap();
    disk.create("folder", Kind::Directory).unwrap();
}

/// The folder is served again.
fn serve_again(disk: &Disk) {
    sweep(&Arc::downgrade(&disk.store.volume()));
}

#[test]
fn what_goes_with_a_last_name_is_not_lost_sight_of_whatever_call_fails() {
    for (beside, errno) in [(false, Errno::IO), (false, Errno::MFILE), (true, Errno::IO)] {
        for change in LAST_NAME_GOES.into_iter().chain([DIRECTORY_OVER_FILE]) {
            for at in 0..CALLS_MAX {
                let disk = Disk::new(beside);
                prepare(&disk);
                let file = disk.node("file").identity();
                let (answer, has_failed) = during(Fail::One(at), errno, || change(&disk));
                serve_again(&disk);
                let hint = format!("{beside} {errno:?} {at} {answer:?}");
                if disk.open("file").is_ok_and(|found| found.identity() == file) {
                    assert!(answer.is_err(), "{hint}");
                    assert_eq!(disk.streams("file"), [entry("stream", LARGE, 1)], "{hint}");
                } else {
                    assert_eq!(disk.sides(), 0, "{hint}");
                }
                if !has_failed {
                    break;
                }
            }
        }
    }
}

/// What has a side file made, and for whom it is.
const SIDE_FILE_IS_MADE: [(&str, Change); 3] = [
    ("file", |disk| disk.open("file")?.extras().stream("small")?.unwrap().1.write_at(&[1; LARGE], 0)),
    ("file", |disk| disk.open("file")?.extras().set_security(&[2; 70_000])),
    ("copy", |disk| disk.open("copy")?.extras().stream("stream")?.unwrap().1.write_at(&[1; 10], 0)),
];

#[test]
fn a_side_file_that_could_not_be_removed_and_was_made_again_stays_when_the_folder_is_served_again() {
    const LATER_MAX: usize = 6;
    for (file, change) in SIDE_FILE_IS_MADE {
        for later in 1..LATER_MAX {
            for at in 0..CALLS_MAX {
                let disk = Disk::new(false);
                prepare(&disk);
                disk.stream("file", "small", 1, 500);
                disk.create("copy", Kind::File).unwrap();
                disk.copy_value(false, "user.multilane.stream.stream", ("file", "copy"));
                let (_, has_failed) = during(Fail::Two(at, later), Errno::IO, || change(&disk));
                change(&disk).unwrap();
                serve_again(&disk);
                let streams = disk.streams(file);
                assert!(streams.contains(&entry("stream", LARGE, 1)), "{file} {at} {later}: {streams:?}");
                let is_whole = |length| streams.contains(&entry("small", length, 1));
                assert!(file == "copy" || is_whole(500) || is_whole(LARGE), "{file} {at} {later}: {streams:?}");
                assert!(disk.node(file).extras().security().is_ok(), "{file} {at} {later}");
                if !has_failed {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_side_file_that_nothing_names_yet_goes_where_the_server_is_killed() {
    for beside in [false, true] {
        for (file, change) in SIDE_FILE_IS_MADE {
            let prepare = |disk: &Disk| {
                prepare(disk);
                disk.stream("file", "small", 1, 500);
                disk.create("copy", Kind::File).unwrap();
                disk.copy_value(beside, "user.multilane.stream.stream", ("file", "copy"));
            };
            at_each_call(beside, prepare, change, |disk, answer, _| {
                serve_again(disk);
                let streams = disk.streams(file);
                assert!(streams.contains(&entry("stream", LARGE, 1)), "{beside} {answer:?} {streams:?}");
                let is_whole = |length| streams.contains(&entry("small", length, 1));
                assert!(file == "copy" || is_whole(500) || is_whole(LARGE), "{beside} {answer:?} {streams:?}");
                assert!(disk.node(file).extras().security().is_ok(), "{beside} {answer:?}");
                for name in ["copy", "file"] {
                    disk.open("")
                        .unwrap()
                        .names()
                        .unwrap()
                        .remove(&Name::new(name).unwrap(), disk.node(name).identity())
                        .unwrap();
                }
                assert_eq!(disk.sides(), 0, "{beside} {file} {answer:?}");
            });
        }
    }
}

#[test]
fn a_side_file_that_could_be_neither_named_nor_removed_goes_when_the_folder_is_served_again() {
    for errno in [Errno::MFILE, Errno::IO] {
        for (beside, change) in
            [false, true].into_iter().flat_map(|beside| SIDE_FILE_IS_MADE.map(|made| (beside, made)))
        {
            let (file, change) = change;
            let calls = (0..CALLS_MAX).take_while(|at| {
                let disk = Disk::new(beside);
                prepare(&disk);
                disk.stream("file", "small", 1, 500);
                disk.create("copy", Kind::File).unwrap();
                disk.copy_value(beside, "user.multilane.stream.stream", ("file", "copy"));
                let (answer, has_failed) = during(Fail::OpensAfter(*at), errno, || change(&disk));
                serve_again(&disk);
                let hint = format!("{errno:?} {beside} {file} {at} {answer:?}");
                assert!(disk.streams(file).contains(&entry("stream", LARGE, 1)), "{hint}");
                for name in ["copy", "file"] {
                    disk.open("")
                        .unwrap()
                        .names()
                        .unwrap()
                        .remove(&Name::new(name).unwrap(), disk.node(name).identity())
                        .unwrap();
                }
                assert_eq!(disk.sides(), 0, "{hint}");
                has_failed
            });
            assert!(calls.count() < CALLS_MAX);
        }
    }
}

#[test]
fn a_side_file_that_nothing_names_yet_stays_for_a_file_that_was_moved_and_goes_when_that_is_back() {
    let killed = |at| {
        let disk = Disk::new(false);
        prepare(&disk);
        disk.stream("other", "small", 1, 500);
        let write = || disk.open("other")?.extras().stream("small")?.unwrap().1.write_at(&[1; LARGE], 0);
        let (answer, has_failed) = during(Fail::AllAfterChanges(at), Errno::IO, write);
        assert!(has_failed, "{answer:?}");
        disk
    };
    // Until there are the side file and its mark, neither of which can be removed any more.
    let disk = (0..CALLS_MAX).map(killed).find(|disk| disk.sides() == 3).unwrap();
    let (from, to) = (disk.path().join("other"), disk.path().join("moved"));
    std::fs::rename(&from, &to).unwrap();
    serve_again(&disk);
    assert_eq!(disk.sides(), 3);
    std::fs::rename(&to, &from).unwrap();
    serve_again(&disk);
    assert_eq!(disk.sides(), 1);
    assert_eq!(disk.streams("other"), [entry("small", 500, 1)]);
    assert_eq!(disk.streams("file"), [entry("stream", LARGE, 1)]);
}

/// Two long streams of a file, of which one is being removed by a server that is killed when nothing but its mark says so.
fn killed_while_a_stream_goes(beside: bool) -> Disk {
    let killed = |at| {
        let disk = Disk::new(beside);
        disk.create("file", Kind::File).unwrap();
        disk.stream("file", "goes", 1, LARGE);
        disk.stream("file", "stays", 2, LARGE);
        let remove = || disk.open("file")?.extras().remove_stream("goes");
        let (answer, has_failed) = during(Fail::AllAfterChanges(at), Errno::IO, remove);
        assert!(has_failed, "{answer:?}");
        disk
    };
    (0..CALLS_MAX).map(killed).find(|disk| disk.sides() == 3).unwrap()
}

#[test]
fn what_a_file_names_is_not_swept_where_it_cannot_be_asked() {
    for errno in [Errno::ACCESS, Errno::PERM, Errno::IO] {
        for beside in [false, true] {
            let calls = (0..CALLS_MAX).take_while(|at| {
                let disk = killed_while_a_stream_goes(beside);
                let ((), has_failed) = during(Fail::One(*at), errno, || serve_again(&disk));
                assert!(disk.streams("file").contains(&entry("stays", LARGE, 2)), "{errno:?} {beside} {at}");
                serve_again(&disk);
                assert_eq!(disk.sides(), disk.streams("file").len(), "{errno:?} {beside} {at}");
                has_failed
            });
            assert!(calls.count() < CALLS_MAX);
        }
    }
}

#[test]
fn what_a_file_names_is_swept_when_the_file_may_be_read_again() {
    let disk = killed_while_a_stream_goes(false);
    for _ in 0..2 {
        lacking(Lacks::Leave, || serve_again(&disk));
        assert_eq!(disk.sides(), 3, "the mark stays, too");
    }
    serve_again(&disk);
    assert_eq!(disk.sides(), disk.streams("file").len());
    assert!(disk.streams("file").contains(&entry("stays", LARGE, 2)));
}

#[test]
fn a_second_name_of_a_file_that_may_not_be_read_stays_with_its_streams() {
    let killed = |at| {
        let disk = Disk::new(false);
        disk.create("file", Kind::File).unwrap();
        disk.stream("file", "stream", 1, LARGE);
        let remove = || LAST_NAME_GOES[0](&disk);
        assert!(during(Fail::AllAfterChanges(at), Errno::IO, remove).1);
        disk
    };
    let disk = (0..CALLS_MAX).map(killed).find(|disk| !disk.path().join("file").exists()).unwrap();
    assert_eq!(disk.sides(), 2);
    lacking(Lacks::Leave, || serve_again(&disk));
    assert_eq!(disk.sides(), 2);
    serve_again(&disk);
    assert_eq!(disk.sides(), 0);
}

#[test]
fn a_directory_and_a_file_are_not_left_in_each_others_place_whatever_fails() {
    for beside in [false, true] {
        let prepare = |disk: &Disk| {
            prepare(disk);
            // It is told by what is in it.
            std::fs::write(disk.path().join("folder/inner"), "").unwrap();
        };
        at_each_call(beside, prepare, DIRECTORY_OVER_FILE, |disk, answer, _| {
            serve_again(disk);
            let has_moved = disk.path().join("file/inner").exists();
            assert_eq!(disk.path().join("folder").exists(), !has_moved, "{beside} {answer:?}");
            assert_eq!(answer.is_ok(), has_moved, "{beside}");
            if has_moved {
                assert_eq!(disk.sides(), 0, "{beside} {answer:?}");
                assert!(disk.open("folder").is_err());
            } else {
                assert!(disk.path().join("folder/inner").exists());
                assert_eq!(disk.streams("file"), [entry("stream", LARGE, 1)], "{beside} {answer:?}");
                assert_eq!(disk.sides(), 1, "{beside} {answer:?}");
            }
        });
    }
}

#[test]
fn a_file_that_has_changed_places_with_a_directory_stays_where_that_was_moved_on() {
    let killed = |at| {
        let disk = Disk::new(false);
        prepare(&disk);
        let (answer, has_failed) = during(Fail::AllAfterChanges(at), Errno::IO, || DIRECTORY_OVER_FILE(&disk));
        assert!(has_failed, "{answer:?}");
        disk
    };
    let disk = (0..CALLS_MAX).map(killed).find(|disk| disk.path().join("folder").is_file()).unwrap();
    std::fs::rename(disk.path().join("file"), disk.path().join("elsewhere")).unwrap();
    serve_again(&disk);
    assert_eq!(disk.streams("folder"), [entry("stream", LARGE, 1)]);
    assert_eq!(disk.sides(), 1);
}

/// What takes the place of something that is there: a link that of an empty file, of a link and of an empty directory, a file that of a link.
const PLACES_TAKEN: [(&str, Replacement<'_>); 4] = [
    ("empty", Replacement::link("elsewhere")),
    ("link", Replacement::link("elsewhere")),
    ("folder", Replacement::link("elsewhere")),
    ("link", Replacement::FILE),
];

fn prepare_places(disk: &Disk) {
    disk.create("empty", Kind::File).unwrap();
    disk.create("folder", Kind::Directory).unwrap();
    std::os::unix::fs::symlink("target", disk.path().join("link")).unwrap();
}

fn replace_with(disk: &Disk, (name, new): (&str, Replacement<'_>)) -> Result<(), Error> {
    let found = disk.open(name)?.identity();
    disk.open("")?.names().unwrap().replace_with(&Name::new(name).unwrap(), found, new).map(drop)
}

/// The names in a folder, also those that no client sees.
fn names_in(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_was_to_take_a_place_goes_where_the_server_is_killed() {
    for beside in [false, true] {
        for place in PLACES_TAKEN {
            let before = |disk: &Disk| disk.node(place.0).identity();
            let was = std::cell::Cell::new(None);
            let prepare = |disk: &Disk| {
                prepare_places(disk);
                was.set(Some(before(disk)));
            };
            at_each_call(
                beside,
                prepare,
                |disk| replace_with(disk, place),
                |disk, answer, _| {
                    serve_again(disk);
                    let hint = format!("{beside} {place:?} {answer:?}");
                    assert_eq!(names_in(disk.path()), [".multilane", "empty", "folder", "link"], "{hint}");
                    let found = disk.node(place.0);
                    let has_been_replaced = Some(found.identity()) != was.get();
                    assert!(has_been_replaced || answer.is_err(), "{hint}");
                    let target = found.target().unwrap();
                    match has_been_replaced {
                        true => assert_eq!(target.as_deref(), place.1.target, "{hint}"),
                        false => assert_eq!(target.is_some(), place.0 == "link", "{hint}"),
                    }
                    assert_eq!(disk.sides(), 0, "{hint}");
                },
            );
        }
    }
}

#[test]
fn what_is_kept_with_a_link_that_took_no_place_goes_with_it() {
    let disk = Disk::new(false);
    prepare_places(&disk);
    let kept = disk.path().join(".multilane");
    replace_with(&disk, ("empty", Replacement::link("elsewhere"))).unwrap();
    let before = names_in(&kept);
    replace_with(&disk, ("empty", Replacement { security: Some(&[1; 20]), ..Replacement::link("elsewhere") })).unwrap();
    assert_eq!(names_in(&kept).len(), before.len() + 1);
    // As a kill leaves it before the link has the name.
    let id = "a".repeat(32);
    std::fs::rename(disk.path().join("empty"), disk.path().join(format!(".multilane.{id}"))).unwrap();
    std::os::unix::fs::symlink("empty", kept.join(format!("placing-{id}"))).unwrap();
    serve_again(&disk);
    assert_eq!(names_in(disk.path()), [".multilane", "folder", "link"]);
    assert_eq!(names_in(&kept), before);
}

#[test]
fn a_directory_that_was_filled_while_a_link_took_its_place_is_put_back() {
    let disk = Disk::new(false);
    prepare_places(&disk);
    // As a kill between the change of places and the end of the directory leaves it, with a file that another program has made just before.
    let id = "a".repeat(32);
    let draft = disk.path().join(format!(".multilane.{id}"));
    std::fs::rename(disk.path().join("folder"), &draft).unwrap();
    std::fs::write(draft.join("file"), "data").unwrap();
    std::os::unix::fs::symlink("elsewhere", disk.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("folder", disk.path().join(format!(".multilane/placing-{id}"))).unwrap();
    serve_again(&disk);
    assert_eq!(names_in(disk.path()), [".multilane", "empty", "folder", "link"]);
    assert_eq!(std::fs::read_to_string(disk.path().join("folder/file")).unwrap(), "data");
    assert_eq!(disk.sides(), 0);
}
