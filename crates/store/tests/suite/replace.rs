//! Renames and links over a name that is taken: whatever fails, the file that has the name is not lost.

use std::fs;

use crate::common::*;
use store::{DirectoryOptions, Error, Kind, Replace};

behaviours! {
    a_directory_takes_the_place_of_a_file
    a_rename_over_another_name_of_the_file_leaves_one
    a_refused_replacement_leaves_everything
    a_stream_is_replaced_or_stays
}

fn a_directory_takes_the_place_of_a_file(disk: &Disk) {
    let taken = disk.file("Taken", b"old");
    taken.extras().create_stream("s").unwrap().write_at(&[1; 20_000], 0).unwrap();
    disk.directory("folder");
    disk.file("folder\\inside", b"inside");
    disk.rename("folder", "TAKEN", Replace::Yes).unwrap();
    assert_eq!(disk.names(""), ["TAKEN"]);
    assert_eq!(read_all(&*disk.node("taken\\inside")), b"inside");
}

fn a_rename_over_another_name_of_the_file_leaves_one(disk: &Disk) {
    disk.file("one", b"data");
    disk.directory("sub");
    disk.link("one", "sub\\two", Replace::No).unwrap();
    disk.rename("one", "sub\\TWO", Replace::No).unwrap();
    assert_eq!(disk.names(""), ["sub"]);
    assert_eq!(disk.names("sub"), ["TWO"]);
    assert_eq!(read_all(&*disk.node("sub\\two")), b"data");
    assert_eq!(disk.node("sub\\two").metadata().unwrap().links, 1);
}

fn a_refused_replacement_leaves_everything(disk: &Disk) {
    disk.file("file", b"new");
    disk.file("taken", b"old");
    disk.directory("folder");
    assert_eq!(disk.rename("file", "folder", Replace::Yes), Err(Error::Denied));
    assert_eq!(disk.link("file", "folder", Replace::Yes), Err(Error::Denied));
    assert_eq!(disk.link("file", "TAKEN", Replace::No), Err(Error::Exists));
    assert_eq!(disk.rename("folder", "TAKEN", Replace::No), Err(Error::Exists));
    assert_eq!(disk.names(""), ["file", "folder", "taken"]);
    assert_eq!(read_all(&*disk.node("taken")), b"old");
}

fn a_stream_is_replaced_or_stays(disk: &Disk) {
    let file = disk.file("file", b"");
    file.extras().create_stream("from").unwrap().write_at(b"new", 0).unwrap();
    file.extras().create_stream("Taken").unwrap().write_at(&[1; 20_000], 0).unwrap();
    assert_eq!(file.extras().rename_stream("from", "taken", Replace::No), Err(Error::Exists));
    assert_eq!(file.extras().rename_stream("gone", "taken", Replace::Yes), Err(Error::NotFound));
    assert_eq!(file.extras().streams().unwrap().len(), 2);
    file.extras().rename_stream("from", "taken", Replace::Yes).unwrap();
    assert_eq!(file.extras().streams().unwrap().len(), 1);
    assert_eq!(read_all(&*file.extras().stream("TAKEN").unwrap().unwrap().1), b"new");
}

/// Tries to take the place of a file with streams and attributes of its own, which must still be there.
fn keeps_what_it_cannot_replace(disk: &Disk, to: &str, tries: impl FnOnce() -> Result<(), Error>, error: Error) {
    let taken = disk.file(to, b"old");
    taken.extras().create_stream("s").unwrap().write_at(&[1; 20_000], 0).unwrap();
    taken.extras().set_security(b"descriptor").unwrap();
    assert_eq!(tries(), Err(error));
    assert_eq!(read_all(&*disk.node(to)), b"old");
    assert_eq!(disk.node(to).extras().security().unwrap().as_deref(), Some(b"descriptor".as_slice()));
    assert_eq!(read_all(&*disk.node(to).extras().stream("s").unwrap().unwrap().1), [1; 20_000]);
}

#[test]
fn across_a_mount_nothing_is_replaced() {
    for options in
        [DirectoryOptions::default(), DirectoryOptions { attributes_beside_files: true, ..Default::default() }]
    {
        let disk = directory_in(&std::env::temp_dir(), options);
        let Some(_mounted) = Mounted::new(&disk.folder().join("mounted"), "size=4m") else { return };
        disk.file("file", b"new");
        disk.directory("folder");
        disk.file("other", b"other");
        let over = |from: &'static str, to: &'static str| (|| disk.rename(from, to, Replace::Yes), to);
        for (from, to) in [("file", "mounted\\a"), ("folder", "mounted\\b")] {
            let (tries, to) = over(from, to);
            keeps_what_it_cannot_replace(&disk, to, tries, Error::CrossVolume);
        }
        let link = || disk.link("file", "mounted\\C", Replace::Yes);
        keeps_what_it_cannot_replace(&disk, "mounted\\c", link, Error::CrossVolume);
        assert_eq!(read_all(&*disk.node("file")), b"new");
        assert_eq!(disk.names("mounted"), ["a", "b", "c"]);
        disk.link("mounted\\a", "mounted\\C", Replace::Yes).unwrap();
        assert_eq!(disk.names("mounted"), ["C", "a", "b"]);
    }
}

#[test]
fn with_no_room_for_a_link_nothing_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let Some(mounted) = Mounted::new(&folder.path().join("mounted"), "size=4m,nr_inodes=40") else { return };
    let disk = directory_in(&mounted.0, DirectoryOptions::default());
    disk.file("file", b"new");
    let fill = || {
        while fs::File::create(disk.folder().join(format!("{:?}", std::time::Instant::now()))).is_ok() {}
        disk.link("file", "TAKEN", Replace::Yes)
    };
    keeps_what_it_cannot_replace(&disk, "taken", fill, Error::Full);
}

#[test]
fn a_file_with_too_many_names_replaces_nothing() {
    /// ext4's limit and a little more.
    const LINKS: usize = 65_010;
    let disk = directory_in(&std::env::temp_dir(), DirectoryOptions::default());
    disk.file("file", b"new");
    let inner = disk.folder().join("links");
    fs::create_dir(&inner).unwrap();
    let file = disk.folder().join("file");
    let ended = (0..LINKS).find(|number| fs::hard_link(&file, inner.join(number.to_string())).is_err());
    if ended.is_none() {
        return;
    }
    keeps_what_it_cannot_replace(&disk, "taken", || disk.link("file", "taken", Replace::Yes), Error::TooManyLinks);
}

#[test]
fn a_replaced_file_takes_what_stands_beside_it_along() {
    for options in
        [DirectoryOptions::default(), DirectoryOptions { attributes_beside_files: true, ..Default::default() }]
    {
        let disk = directory_in(&std::env::temp_dir(), options);
        for replacement in ["link", "rename", "directory"] {
            disk.file("file", b"new");
            let taken = disk.file("taken", b"old");
            taken.extras().create_stream("s").unwrap().write_at(&[1; 20_000], 0).unwrap();
            drop(taken);
            match replacement {
                "link" => disk.link("file", "taken", Replace::Yes).unwrap(),
                "rename" => disk.rename("file", "taken", Replace::Yes).unwrap(),
                _ => {
                    disk.store.create(&path("folder"), new(Kind::Directory)).unwrap();
                    disk.rename("folder", "taken", Replace::Yes).unwrap();
                    disk.remove("file").unwrap();
                }
            }
            disk.remove("taken").unwrap();
            let _ = disk.remove("file");
        }
        let left = kept_beside(&disk);
        assert!(left.is_empty(), "{left:?}");
    }
}
