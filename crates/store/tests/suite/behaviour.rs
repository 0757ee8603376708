//! What every store does, whatever is behind it.

use std::ops::ControlFlow;

use crate::common::*;
use store::{
    AttributeChange, Changes, Cursor, Error, Extent, Extents, Kind, Name, NewNode, Node, Replace, Replacement,
    Resolved, Time, Use,
};

behaviours! {
    a_new_file_is_found_in_any_case
    a_file_that_is_found_has_its_descriptor
    a_missing_name_gives_its_directory
    a_missing_directory_is_told_from_a_missing_name
    a_name_is_taken_in_any_case
    the_root_is_a_directory_that_stays
    data_comes_back
    reads_stop_at_the_end
    reads_without_waiting_see_what_was_written
    length_changes_cut_and_fill_with_zeros
    space_cuts_data_that_is_longer_and_no_other
    an_offset_out_of_reach_is_an_error
    a_symbolic_link_is_a_file_that_says_where_it_leads
    directories_hold_no_data
    zeroed_ranges_read_as_zeros
    extents_cover_the_data
    extents_are_told_in_parts_to_the_last
    copies_stop_at_the_source_end
    overlapping_copies_keep_the_data
    attributes_and_times_come_back
    nobody_undoes_what_another_changes_at_the_same_moment
    times_of_every_era_come_back
    writing_moves_the_times
    entries_are_listed_with_their_metadata
    a_listing_goes_on_behind_what_was_taken_whatever_comes_and_goes
    what_is_not_taken_is_the_next_one
    a_rename_keeps_the_file
    a_rename_changes_case_alone
    a_rename_does_not_take_a_taken_name
    a_rename_replaces_a_file_but_no_directory
    a_rename_over_another_case_takes_the_new_case
    a_directory_does_not_move_below_itself
    a_directory_moves_with_all_below
    a_directory_tells_in_which_it_lies
    a_link_is_the_same_file
    a_link_replaces_only_when_asked
    removal_checks_what_is_removed
    a_full_directory_is_not_removed
    a_removed_file_stays_usable_while_open
    deep_trees_are_walked
    a_path_has_4095_bytes_at_most
    names_in_many_scripts_compare_without_case
}

fn a_new_file_is_found_in_any_case(disk: &Disk) {
    disk.directory("Folder");
    let made = disk.file("folder\\ReadMe.txt", b"text");
    let (node, path) = disk.find("FOLDER\\readme.TXT").unwrap();
    assert_eq!(path, "Folder\\ReadMe.txt");
    assert_eq!(node.identity(), made.identity());
    assert_eq!(node.kind(), Kind::File);
    assert_eq!(node.metadata().unwrap().links, 1);
}

fn a_file_that_is_found_has_its_descriptor(disk: &Disk) {
    const FILES: usize = 500;
    let root = disk.node("");
    std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            for number in 0..FILES {
                let kind = if number % 8 == 0 { Kind::Directory } else { Kind::File };
                let new = NewNode { kind, attributes: 0x20, security: Some(b"descriptor"), owner: None };
                disk.store.create(&path(&format!("made {number}")), new).unwrap();
            }
        });
        // Looks for the next one until it is there.
        let mut number = 0;
        while number < FILES {
            let name = format!("made {number}");
            let node = match number % 3 {
                0 => root
                    .names()
                    .unwrap()
                    .try_child(&store::Name::new(&name).unwrap(), Use::Read)
                    .ok()
                    .flatten()
                    .map(|(_, node)| node),
                1 => root
                    .names()
                    .unwrap()
                    .child(&store::Name::new(&name).unwrap(), Use::Read)
                    .unwrap()
                    .map(|(_, node)| node),
                _ => match disk.store.try_resolve(&path(&name), Use::Read) {
                    Ok(Resolved::Found { node, .. }) => Some(node),
                    _ => None,
                },
            };
            let node = node.or_else(|| disk.find(&name).ok().map(|(node, _)| node));
            if let Some(node) = node {
                assert_eq!(node.extras().security().unwrap().as_deref(), Some(b"descriptor".as_slice()), "{name}");
                number += 1;
            }
        }
        made.join().unwrap();
    });
}

fn a_missing_name_gives_its_directory(disk: &Disk) {
    let made = disk.directory("Folder");
    match disk.store.resolve(&path("folder\\New"), Use::Read).unwrap() {
        Resolved::Missing { parent, path } => {
            assert_eq!(path.as_str(), "Folder\\New");
            assert_eq!(parent.identity(), made.identity());
            assert!(parent.names().unwrap().is_empty().unwrap());
        }
        found @ Resolved::Found { .. } => panic!("{found:?}"),
    }
}

fn a_missing_directory_is_told_from_a_missing_name(disk: &Disk) {
    disk.file("file", b"");
    assert_eq!(disk.find("no\\file").err(), Some(Error::PathNotFound));
    assert_eq!(disk.find("no").err(), Some(Error::NotFound));
    assert_eq!(disk.find("file\\below").err(), Some(Error::NotDirectory));
    assert_eq!(disk.find("FILE\\below\\more").err(), Some(Error::NotDirectory));
    let created = disk.store.create(&path("no\\file"), new(Kind::File));
    assert_eq!(created.err(), Some(Error::PathNotFound));
}

fn a_name_is_taken_in_any_case(disk: &Disk) {
    disk.file("Name", b"1");
    for taken in ["Name", "NAME", "name"] {
        assert_eq!(disk.store.create(&path(taken), new(Kind::File)).err(), Some(Error::Exists));
        assert_eq!(disk.store.create(&path(taken), new(Kind::Directory)).err(), Some(Error::Exists));
    }
    disk.remove("nAmE").unwrap();
    disk.file("NAME", b"2");
    assert_eq!(disk.names(""), ["NAME"]);
}

fn the_root_is_a_directory_that_stays(disk: &Disk) {
    let (root, path_found) = disk.find("").unwrap();
    assert_eq!(path_found, "");
    assert_eq!(root.kind(), Kind::Directory);
    assert_eq!(root.metadata().unwrap().length, 0);
    assert_eq!(disk.store.remove(&path(""), root.identity()), Err(Error::Denied));
    assert_eq!(disk.store.create(&path(""), new(Kind::File)).err(), Some(Error::Denied));
    assert_eq!(disk.store.rename(&path(""), &path("x"), root.identity(), Replace::No), Err(Error::Denied));
}

fn data_comes_back(disk: &Disk) {
    let node = disk.file("file", b"hello world");
    node.write_at(b"W", 6).unwrap();
    node.write_at(&[7; 100_000], 200_000).unwrap();
    let found = disk.node("file");
    let data = read_all(&*found);
    assert_eq!(&data[..11], b"hello World");
    assert!(data[11..200_000].iter().all(|byte| *byte == 0));
    assert!(data[200_000..].iter().all(|byte| *byte == 7));
    assert_eq!(found.metadata().unwrap().length, 300_000);
    found.sync().unwrap();
}

fn reads_stop_at_the_end(disk: &Disk) {
    let node = disk.file("file", b"12345");
    let mut buffer = [0; 10];
    assert_eq!(node.read_at(&mut buffer, 3).unwrap(), 2);
    assert_eq!(node.read_at(&mut buffer, 5).unwrap(), 0);
    assert_eq!(node.read_at(&mut buffer, u64::MAX).unwrap(), 0);
    assert_eq!(node.read_at(&mut [], 0).unwrap(), 0);
    assert_eq!(read_at_once(&*node, &mut [], 0).unwrap(), 0);
    assert_eq!(read_at_once(&*node, &mut buffer, u64::MAX).unwrap(), 0);
}

fn reads_without_waiting_see_what_was_written(disk: &Disk) {
    let node = disk.file("file", &[3; 10_000]);
    let mut buffer = [0; 4096];
    assert_eq!(read_at_once(&*node, &mut buffer, 4096).unwrap(), 4096);
    assert_eq!(read_at_once(&*node, &mut buffer, 8192).unwrap(), 10_000 - 8192);
    assert_eq!(read_at_once(&*node, &mut buffer, 10_000).unwrap(), 0);
    assert_eq!(look_at_once(&*node).unwrap().length, 10_000);
}

fn length_changes_cut_and_fill_with_zeros(disk: &Disk) {
    let node = disk.file("file", &[9; 5000]);
    node.set_length(10).unwrap();
    node.set_length(6000).unwrap();
    let data = read_all(&*node);
    assert!(data[..10].iter().all(|byte| *byte == 9) && data[10..].iter().all(|byte| *byte == 0));
    node.reserve(100_000).unwrap();
    assert_eq!(node.metadata().unwrap().length, 6000);
    assert!(node.metadata().unwrap().allocated >= 4096);
}

fn space_cuts_data_that_is_longer_and_no_other(disk: &Disk) {
    let file = disk.file("file", &[9; 5000]);
    file.extras().create_stream("stream").unwrap().write_at(&[9; 5000], 0).unwrap();
    for node in [&file, &file.extras().stream("stream").unwrap().unwrap().1] {
        for (bytes, length) in [(100_000, 5000), (5000, 5000), (4096, 4096), (0, 0), (8192, 0)] {
            node.set_allocation(bytes).unwrap();
            assert_eq!(node.metadata().unwrap().length, length, "{bytes}");
        }
        node.write_at(&[9; 10], 0).unwrap();
    }
    assert_eq!(disk.directory("folder").set_allocation(0), Err(Error::IsDirectory));
}

fn an_offset_out_of_reach_is_an_error(disk: &Disk) {
    let node = disk.file("file", b"x");
    assert_eq!(node.write_at(b"x", u64::MAX), Err(Error::TooLarge));
    assert_eq!(node.write_at(b"x", i64::MAX as u64), Err(Error::TooLarge));
    assert_eq!(node.set_length(u64::MAX), Err(Error::TooLarge));
    assert_eq!(node.zero(u64::MAX, u64::MAX, true), Ok(()));
    assert_eq!(node.extents(u64::MAX, u64::MAX, 9), Ok(Extents::default()));
    assert_eq!(node.metadata().unwrap().length, 1);
}

fn directories_hold_no_data(disk: &Disk) {
    let folder = disk.directory("folder");
    assert_eq!(folder.read_at(&mut [0; 4], 0), Err(Error::IsDirectory));
    assert_eq!(read_at_once(&*folder, &mut [0; 4], 0), Err(Error::IsDirectory));
    assert_eq!(folder.write_at(b"x", 0), Err(Error::IsDirectory));
    assert_eq!(folder.set_length(0), Err(Error::IsDirectory));
    let file = disk.file("file", b"");
    assert_eq!(entries(&*file).err(), Some(Error::NotDirectory));
    assert_eq!(entry_metadata(&*file, "x").err(), Some(Error::NotDirectory));
}

fn zeroed_ranges_read_as_zeros(disk: &Disk) {
    for punch in [false, true] {
        let node = disk.file(if punch { "punched" } else { "zeroed" }, &[5; 200_000]);
        node.zero(1000, 150_000, punch).unwrap();
        node.zero(199_000, 50_000, punch).unwrap();
        let data = read_all(&*node);
        assert_eq!(data.len(), 200_000);
        for (at, byte) in data.iter().enumerate() {
            let zeroed = (1000..151_000).contains(&at) || at >= 199_000;
            assert_eq!(*byte, if zeroed { 0 } else { 5 }, "at {at}");
        }
    }
    let (punched, zeroed) = (disk.node("punched"), disk.node("zeroed"));
    assert!(punched.metadata().unwrap().allocated <= zeroed.metadata().unwrap().allocated);
}

fn extents_cover_the_data(disk: &Disk) {
    let node = disk.file("file", &[]);
    assert_eq!(all_extents(&*node, 0, 100), []);
    node.set_length(10 << 20).unwrap();
    node.write_at(&[1; 65536], 1 << 20).unwrap();
    node.write_at(&[1; 65536], 3 << 20).unwrap();
    let extents = all_extents(&*node, 0, u64::MAX);
    assert_eq!(extents, [Extent { offset: 1 << 20, length: 65536 }, Extent { offset: 3 << 20, length: 65536 }]);
    assert_eq!(node.extents(0, u64::MAX, 1).unwrap().ranges.len(), 1);
    assert_eq!(all_extents(&*node, (1 << 20) + 100, 1000), [Extent { offset: (1 << 20) + 100, length: 1000 }]);
    assert_eq!(all_extents(&*node, 2 << 20, 1 << 20), []);
}

fn extents_are_told_in_parts_to_the_last(disk: &Disk) {
    let node = disk.file("file", &[]);
    node.set_length(600 << 17).unwrap();
    for part in 0..600 {
        node.write_at(&[1; 4096], part << 17).unwrap();
    }
    let first = node.extents(0, u64::MAX, usize::MAX).unwrap();
    assert!(first.ranges.len() <= 256 || first.next.is_some() || disk.folder.is_none(), "{}", first.ranges.len());
    assert!(node.extents(0, u64::MAX, 5).unwrap().ranges.len() <= 5);
    let all = all_extents(&*node, 0, u64::MAX);
    // A file system may hold more than was written.
    assert!((0..600).all(|part| all.iter().any(|e| (e.offset..e.offset + e.length).contains(&(part << 17)))));
    assert!(all.is_sorted_by_key(|extent| extent.offset));
}

fn copies_stop_at_the_source_end(disk: &Disk) {
    let source = disk.file("source", &[4; 100_000]);
    let target = disk.file("target", b"");
    assert_eq!(target.copy_from(&*source, 50_000, 10, 100_000).unwrap(), 50_000);
    assert_eq!(target.copy_from(&*source, 100_000, 0, 10).unwrap(), 0);
    let data = read_all(&*target);
    assert_eq!(data.len(), 50_010);
    assert!(data[..10].iter().all(|byte| *byte == 0) && data[10..].iter().all(|byte| *byte == 4));
    let stream = target.extras().create_stream("copy").unwrap();
    assert_eq!(stream.copy_from(&*source, 0, 0, 5000).unwrap(), 5000);
    assert_eq!(read_all(&*stream), [4; 5000]);
    assert_eq!(target.copy_from(&*stream, 0, 60_000, 9000).unwrap(), 5000);
}

fn overlapping_copies_keep_the_data(disk: &Disk) {
    let data: Vec<u8> = (0..1_000_000u32).map(|at| (at / 7) as u8).collect();
    for (from, to) in [(0, 1000), (1000, 0), (0, 300_000), (300_000, 0)] {
        let node = disk.file("file", &data);
        assert_eq!(node.copy_from(&*node, from, to, 600_000).unwrap(), 600_000);
        let mut wanted = data.clone();
        wanted.copy_within(from as usize..from as usize + 600_000, to as usize);
        assert!(read_all(&*node) == wanted, "{from} to {to}");
        disk.remove("file").unwrap();
    }
}

fn attributes_and_times_come_back(disk: &Disk) {
    let node = disk
        .store
        .create(&path("file"), NewNode { kind: Kind::File, attributes: 0x22, security: None, owner: None })
        .unwrap();
    assert_eq!(node.metadata().unwrap().attributes, 0x22);
    let time = |seconds: i64| Time::from_unix(1_500_000_000 + seconds, 123_456_700);
    let changes = Changes {
        attributes: AttributeChange::to(0x1 | 0x4 | 0x200),
        creation: Some(time(1)),
        access: Some(time(2)),
        write: Some(time(3)),
        change: Some(time(4)),
    };
    node.change(&changes).unwrap();
    let known = disk.node("file").metadata().unwrap();
    assert_eq!(known.attributes, 0x205);
    assert_eq!((known.creation, known.access, known.write, known.change), (time(1), time(2), time(3), time(4)));
    node.change(&Changes { attributes: AttributeChange::to(0), ..Changes::default() }).unwrap();
    let known = node.metadata().unwrap();
    assert_eq!((known.attributes, known.creation, known.write), (0, time(1), time(3)));
    assert_ne!(known.change, time(4));
    node.change(&Changes { creation: Some(time(9)), ..Changes::default() }).unwrap();
    assert_eq!(node.metadata().unwrap().creation, time(9));
    let folder = disk.directory("folder");
    assert_eq!(folder.metadata().unwrap().attributes, 0);
    folder.change(&Changes { attributes: AttributeChange::to(0x2), ..changes }).unwrap();
    assert_eq!(folder.metadata().unwrap().attributes, 0x2);
    assert_eq!(folder.metadata().unwrap().write, time(3));
}

fn times_of_every_era_come_back(disk: &Disk) {
    let node = disk.file("file", b"");
    for seconds in [-2_000_000_000, -1, 0, 1, 2_147_483_647, 2_147_483_648, 4_102_444_800, 9_000_000_000] {
        let time = Time::from_unix(seconds, 999_999_900);
        let changes = Changes { creation: Some(time), access: Some(time), write: Some(time), ..Changes::default() };
        node.change(&changes).unwrap();
        let known = node.metadata().unwrap();
        assert_eq!((known.creation, known.access, known.write), (time, time, time), "{seconds}");
    }
    let first = Time(1);
    node.change(&Changes { creation: Some(first), write: Some(first), ..Changes::default() }).unwrap();
    assert_eq!(node.metadata().unwrap().creation, first);
}

fn writing_moves_the_times(disk: &Disk) {
    let node = disk.file("file", b"x");
    let old = Time::from_unix(1_000_000_000, 0);
    let set = Changes { write: Some(old), change: Some(old), ..Changes::default() };
    let moved = |what: &str| {
        let known = node.metadata().unwrap();
        assert!(known.write > old, "{what} moves the time of last write");
        node.change(&set).unwrap();
        assert_eq!(node.metadata().unwrap().write, old);
    };
    node.change(&set).unwrap();
    node.write_at(b"y", 0).unwrap();
    moved("a write");
    node.set_length(0).unwrap();
    moved("a length");
    let stream = node.extras().create_stream("s").unwrap();
    node.change(&set).unwrap();
    stream.write_at(b"y", 0).unwrap();
    moved("a stream");
    stream.write_at(&[1; 50_000], 0).unwrap();
    moved("a large stream");
    let folder = disk.directory("folder");
    folder.change(&set).unwrap();
    disk.file("folder\\file", b"");
    assert!(folder.metadata().unwrap().write > old);
}

fn entries_are_listed_with_their_metadata(disk: &Disk) {
    assert!(disk.names("").is_empty());
    disk.directory("Folder");
    let file = disk.file("File", &[1; 5000]);
    file.change(&Changes { attributes: AttributeChange::to(0x3), ..Changes::default() }).unwrap();
    assert_eq!(disk.names(""), ["File", "Folder"]);
    let root = disk.node("");
    for entry in entries(&*root).unwrap() {
        let known = root.names().unwrap().entry_metadata(&entry.name).unwrap();
        assert_eq!(known.identity.file, entry.file);
        assert_eq!(known, disk.node(entry.name.as_str()).metadata().unwrap());
    }
    assert_eq!(entry_metadata(&*root, "none").err(), Some(Error::NotFound));
}

fn a_listing_goes_on_behind_what_was_taken_whatever_comes_and_goes(disk: &Disk) {
    let folder = disk.directory("folder");
    let name = |number: usize| format!("folder\\name-{number:04}");
    for number in 0..1_500 {
        disk.file(&name(number), b"");
    }
    let (mut cursor, mut told, mut round) = (Cursor::default(), Vec::new(), 0);
    loop {
        let mut left = 1 + round % 90;
        let more = folder.names().unwrap().list(&mut cursor, &mut |entry| {
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            told.push(entry.name.as_str().to_owned());
            ControlFlow::Continue(())
        });
        if !more.unwrap() {
            break;
        }
        // Every third name goes, told or not, and others come.
        disk.store.remove(&path(&name(3 * round)), disk.node(&name(3 * round)).identity()).unwrap();
        disk.file(&format!("folder\\new-{round}"), b"");
        assert!(!folder.names().unwrap().is_empty().unwrap());
        round += 1;
    }
    told.sort();
    let count = told.len();
    told.dedup();
    assert_eq!(told.len(), count, "none is told twice");
    let stays = |number: &usize| !number.is_multiple_of(3) || *number >= 3 * round;
    for number in (0..1_500).filter(stays) {
        let (_, stayed) = name(number).rsplit_once('\\').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        assert!(told.binary_search(&stayed).is_ok(), "{stayed} was left out");
    }
}

fn what_is_not_taken_is_the_next_one(disk: &Disk) {
    for name in ["a", "b", "c"] {
        disk.file(name, b"");
    }
    let root = disk.node("");
    let mut cursor = Cursor::default();
    let mut next = |takes: bool| {
        let mut shown = Vec::new();
        let more = root.names().unwrap().list(&mut cursor, &mut |entry| {
            let is_second = !shown.is_empty();
            shown.push(entry.name.as_str().to_owned());
            if takes && !is_second { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        (more.unwrap(), shown)
    };
    let (_, first) = next(false);
    let (_, again) = next(true);
    assert_eq!(first[0], again[0]);
    let (_, second) = next(true);
    assert_eq!(second[0], again[1]);
    assert_eq!(disk.directory("empty").names().unwrap().is_empty(), Ok(true));
    assert_eq!(disk.node("a").names().err(), Some(Error::NotDirectory));
}

fn a_rename_keeps_the_file(disk: &Disk) {
    let file = disk.file("from", b"data");
    disk.directory("folder");
    disk.rename("FROM", "FOLDER\\To", Replace::No).unwrap();
    assert_eq!(disk.find("from").err(), Some(Error::NotFound));
    let (found, name) = disk.find("folder\\to").unwrap();
    assert_eq!((found.identity(), name.as_str()), (file.identity(), "folder\\To"));
    assert_eq!(read_all(&*file), b"data");
    assert_eq!(disk.rename("folder\\to", "no\\to", Replace::No), Err(Error::PathNotFound));
    let other = disk.file("other", b"").identity();
    let wrong = disk.store.rename(&path("folder\\to"), &path("x"), other, Replace::No);
    assert_eq!(wrong, Err(Error::NotFound));
}

fn a_rename_changes_case_alone(disk: &Disk) {
    disk.file("name", b"data");
    for name in ["NAME", "Name", "Name"] {
        disk.rename("name", name, Replace::No).unwrap();
        assert_eq!(disk.names(""), [name]);
        assert_eq!(disk.find("nAME").unwrap().1, name);
    }
    disk.directory("folder");
    disk.rename("folder", "FOLDER", Replace::No).unwrap();
    assert_eq!(disk.names(""), ["FOLDER", "Name"]);
}

fn a_rename_does_not_take_a_taken_name(disk: &Disk) {
    disk.file("from", b"1");
    disk.file("taken", b"2");
    assert_eq!(disk.rename("from", "taken", Replace::No), Err(Error::Exists));
    assert_eq!(disk.rename("from", "TAKEN", Replace::No), Err(Error::Exists));
    assert_eq!(disk.names(""), ["from", "taken"]);
    assert_eq!(read_all(&*disk.node("taken")), b"2");
}

fn a_rename_replaces_a_file_but_no_directory(disk: &Disk) {
    disk.file("from", b"1");
    let old = disk.file("taken", b"2");
    disk.rename("from", "taken", Replace::Yes).unwrap();
    assert_eq!(disk.names(""), ["taken"]);
    assert_eq!(read_all(&*disk.node("taken")), b"1");
    assert_eq!(read_all(&*old), b"2");
    disk.directory("folder");
    assert_eq!(disk.rename("taken", "folder", Replace::Yes), Err(Error::Denied));
    assert_eq!(disk.rename("taken", "FOLDER", Replace::Yes), Err(Error::Denied));
    disk.rename("folder", "TAKEN", Replace::Yes).unwrap();
    assert_eq!(disk.names(""), ["TAKEN"]);
    assert_eq!(disk.node("taken").kind(), Kind::Directory);
}

fn a_rename_over_another_case_takes_the_new_case(disk: &Disk) {
    disk.file("from", b"1");
    disk.file("Taken", b"2");
    disk.rename("from", "tAKEN", Replace::Yes).unwrap();
    assert_eq!(disk.names(""), ["tAKEN"]);
    assert_eq!(read_all(&*disk.node("taken")), b"1");
}

fn a_directory_does_not_move_below_itself(disk: &Disk) {
    disk.directory("a");
    disk.directory("a\\b");
    disk.file("a\\b\\file", b"");
    assert_eq!(disk.rename("a", "a\\b\\c", Replace::No), Err(Error::Denied));
    assert_eq!(disk.rename("a", "A\\c", Replace::No), Err(Error::Denied));
    for replace in [Replace::No, Replace::Yes] {
        assert_eq!(disk.rename("a", "a\\B\\FILE", replace), Err(Error::Denied));
        assert_eq!(disk.rename("a", "a\\B", replace), Err(Error::Denied));
    }
    assert_eq!(disk.names("a\\b"), ["file"]);
}

fn a_directory_moves_with_all_below(disk: &Disk) {
    disk.directory("a");
    disk.directory("a\\b");
    let file = disk.file("a\\b\\file", b"");
    disk.directory("other");
    disk.rename("a", "other\\A2", Replace::No).unwrap();
    assert_eq!(disk.find("OTHER\\a2\\B\\File").unwrap().0.identity(), file.identity());
    assert_eq!(disk.find("a\\b\\file").err(), Some(Error::PathNotFound));
    disk.directory("a");
    assert!(disk.names("a").is_empty());
}

fn a_directory_tells_in_which_it_lies(disk: &Disk) {
    let (root, outer) = (disk.node(""), disk.directory("outer"));
    let (inner, file) = (disk.directory("outer\\inner"), disk.file("outer\\file", b""));
    let above = |node: &dyn Node| node.above().map(|above| above.map(|above| above.identity()));
    assert_eq!(above(&*root), Ok(None));
    assert_eq!(above(&*outer), Ok(Some(root.identity())));
    assert_eq!(above(&*inner), Ok(Some(outer.identity())));
    assert_eq!(above(&*disk.node("outer\\INNER")), Ok(Some(outer.identity())));
    assert_eq!(above(&*file), Err(Error::NotDirectory));
    disk.rename("outer\\inner", "inner", Replace::No).unwrap();
    assert_eq!(above(&*inner), Ok(Some(root.identity())));
    disk.remove("inner").unwrap();
    assert_eq!(above(&*inner), Err(Error::Gone));
    assert_eq!(file.target(), Ok(None));
}

fn a_symbolic_link_is_a_file_that_says_where_it_leads(disk: &Disk) {
    disk.directory("d");
    disk.file("d\\file", b"");
    let directory = disk.node("d");
    let names = directory.names().unwrap();
    let name = Name::new("FILE").unwrap();
    let put = |new: Replacement<'_>| names.replace_with(&name, disk.node("d\\file").identity(), new);
    let link = put(Replacement::link("../x/y")).unwrap();
    assert_eq!(disk.names("d"), ["file"], "its name is spelled as before");
    for node in [link, disk.node("d\\file"), disk.node("D\\File")] {
        let known = node.metadata().unwrap();
        assert_eq!((known.is_link, known.kind, known.length), (true, Kind::File, 0));
        assert_eq!(node.target(), Ok(Some("../x/y".into())));
        assert_eq!((read_all(&*node), node.write_at(b"x", 0)), (Vec::new(), Err(Error::Denied)));
    }
    assert!(entry_metadata(&*directory, "file").unwrap().is_link);
    for below in ["d\\file\\x", "d\\FILE\\x\\y"] {
        assert_eq!(disk.find(below).err(), Some(Error::Link), "{below}");
        let found = disk.store.link_on(&path(below)).unwrap().unwrap();
        assert_eq!((found.path.as_str().to_owned(), found.target), ("d\\file".to_owned(), "../x/y".to_owned()));
    }
    assert_eq!(disk.store.create(&path("d\\file\\x"), new(Kind::File)).err(), Some(Error::Link));
    let stale = put(Replacement::link("other")).unwrap().identity();
    assert_eq!(put(Replacement::FILE).unwrap().target(), Ok(None));
    assert_eq!(names.replace_with(&name, stale, Replacement::FILE).err(), Some(Error::NotFound));
    disk.find_for("d\\file", Use::ReadWrite).unwrap().0.write_at(b"data", 0).unwrap();
    assert_eq!(put(Replacement::link("x")).err(), Some(Error::NotEmpty));
    assert_eq!(read_all(&*disk.node("d\\file")), b"data");
    disk.remove("d\\file").unwrap();
    disk.file("d\\file", b"");
    // Each has the descriptor that it is made with.
    for (target, security) in [(Some("x"), [1; 200]), (None, [2; 200]), (Some("y"), [3; 200])] {
        let made = put(Replacement { target, security: Some(&security), owner: None }).unwrap();
        for node in [made, disk.node("d\\file")] {
            assert_eq!(node.extras().security(), Ok(Some(security.to_vec())), "{target:?}");
        }
    }
    assert_eq!(put(Replacement::link("")).err(), Some(Error::Invalid));
    assert_eq!(put(Replacement::link(&"x".repeat(4_096))).err(), Some(Error::NameInvalid));
}

fn a_link_is_the_same_file(disk: &Disk) {
    let file = disk.file("one", b"data");
    disk.directory("folder");
    disk.link("one", "folder\\two", Replace::No).unwrap();
    assert_eq!(disk.node("folder\\TWO").identity(), file.identity());
    assert_eq!(file.metadata().unwrap().links, 2);
    disk.remove("one").unwrap();
    assert_eq!(read_all(&*disk.node("folder\\two")), b"data");
    assert_eq!(file.metadata().unwrap().links, 1);
    assert_eq!(disk.link("folder", "x", Replace::No), Err(Error::IsDirectory));
}

fn a_link_replaces_only_when_asked(disk: &Disk) {
    let file = disk.file("one", b"1");
    disk.file("two", b"2");
    assert_eq!(disk.link("one", "TWO", Replace::No), Err(Error::Exists));
    disk.link("one", "TWO", Replace::Yes).unwrap();
    assert_eq!(disk.names(""), ["TWO", "one"]);
    assert_eq!(disk.node("two").identity(), file.identity());
    disk.directory("folder");
    assert_eq!(disk.link("one", "folder", Replace::Yes), Err(Error::Denied));
    disk.rename("one", "two", Replace::Yes).unwrap();
    assert_eq!(disk.names(""), ["folder", "two"]);
    assert_eq!(disk.node("two").metadata().unwrap().links, 1);
}

fn removal_checks_what_is_removed(disk: &Disk) {
    let file = disk.file("file", b"");
    let other = disk.file("other", b"");
    assert_eq!(disk.store.remove(&path("file"), other.identity()), Err(Error::NotFound));
    disk.store.remove(&path("FILE"), file.identity()).unwrap();
    assert_eq!(disk.store.remove(&path("file"), file.identity()), Err(Error::NotFound));
    assert_eq!(disk.store.remove(&path("no\\file"), file.identity()), Err(Error::PathNotFound));
    assert_eq!(disk.names(""), ["other"]);
}

fn a_full_directory_is_not_removed(disk: &Disk) {
    disk.directory("folder");
    disk.file("folder\\file", b"");
    assert_eq!(disk.remove("folder"), Err(Error::NotEmpty));
    disk.remove("folder\\file").unwrap();
    disk.remove("folder").unwrap();
    assert_eq!(disk.find("folder\\file").err(), Some(Error::PathNotFound));
}

fn a_removed_file_stays_usable_while_open(disk: &Disk) {
    let file = disk.file("file", b"data");
    disk.remove("file").unwrap();
    assert_eq!(read_all(&*file), b"data");
    file.write_at(b"more", 4).unwrap();
    assert_eq!(read_all(&*file), b"datamore");
    assert_eq!(file.metadata().unwrap().links, 0);
    let next = disk.file("file", b"next");
    assert_ne!(next.identity(), file.identity());
    let folder = disk.directory("folder");
    disk.remove("folder").unwrap();
    assert!(folder.names().unwrap().is_empty().unwrap());
}

fn deep_trees_are_walked(disk: &Disk) {
    let mut path_text = String::from("Dir");
    disk.directory(&path_text);
    for _ in 0..60 {
        path_text.push_str("\\Dir");
        disk.directory(&path_text);
    }
    disk.file(&format!("{path_text}\\file"), b"deep");
    let (node, stored) = disk.find(&format!("{}\\FILE", path_text.to_uppercase())).unwrap();
    assert_eq!(read_all(&*node), b"deep");
    assert_eq!(stored, format!("{path_text}\\file"));
}

fn a_path_has_4095_bytes_at_most(disk: &Disk) {
    let folder = "\u{5b57}".repeat(80);
    let mut above = String::new();
    for _ in 0..16 {
        above.push_str(&folder);
        disk.directory(&above);
        above.push('\\');
    }
    let longest = format!("{above}{}", "x".repeat(4_095 - above.len()));
    disk.file(&longest, b"text");
    assert_eq!(read_all(&*disk.find(&longest).unwrap().0), b"text");
    let resolved = disk.store.resolve(&path(&format!("{longest}x")), Use::Metadata);
    assert_eq!(resolved.err(), Some(Error::NameInvalid));
}

fn names_in_many_scripts_compare_without_case(disk: &Disk) {
    for (stored, asked) in [("Größe", "GRÖßE"), ("Ærø", "æRØ"), ("файл", "ФАЙЛ"), ("naïve.TXT", "NAÏVE.txt")]
    {
        let made = disk.file(stored, b"");
        let (found, name) = disk.find(asked).unwrap();
        assert_eq!((found.identity(), name.as_str()), (made.identity(), stored));
    }
    let long = "語".repeat(85);
    disk.file(&long, b"");
    disk.node(&long);
}

fn nobody_undoes_what_another_changes_at_the_same_moment(disk: &Disk) {
    const TIMES: u8 = 50;
    const BITS: [u32; 4] = [0x1, 0x2, 0x4, 0x200];
    let node = disk.file("file", b"");
    node.change(&Changes { attributes: AttributeChange::to(0x20), ..Changes::default() }).unwrap();
    std::thread::scope(|scope| {
        for (place, bit) in BITS.into_iter().enumerate() {
            // Each comes by a node of its own.
            let node = disk.node("file");
            scope.spawn(move || {
                for time in 1..=TIMES {
                    let attributes = AttributeChange::setting(bit);
                    node.change(&Changes { attributes, ..Changes::default() }).unwrap();
                    assert_ne!(node.metadata().unwrap().attributes & bit, 0, "others leave it");
                    if time < TIMES {
                        node.change(&Changes { attributes: AttributeChange::clearing(bit), ..Changes::default() })
                            .unwrap();
                    }
                    let change = &mut |old: Result<Option<Vec<u8>>, Error>| {
                        let mut counted = old.unwrap().unwrap_or(vec![0; BITS.len()]);
                        counted[place] += 1;
                        Some(counted)
                    };
                    node.extras().change_security(change).unwrap();
                }
            });
        }
    });
    assert_eq!(node.metadata().unwrap().attributes, BITS.iter().fold(0x20, |all, bit| all | bit));
    assert_eq!(node.extras().security(), Ok(Some(vec![TIMES; BITS.len()])));
    node.extras().change_security(&mut |_| None).unwrap();
    assert_eq!(node.extras().security(), Ok(Some(vec![TIMES; BITS.len()])));
}
