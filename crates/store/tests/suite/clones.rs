//! Extents that files share, on file systems that can.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use store::{DirectoryOptions, DirectoryStore, Error, Kind, NewNode, Node, Store};

use crate::common::{memory, path, read_all};

const MIB: u64 = 1 << 20;
const NEW: NewNode<'static> = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };

/// A file system in a file; `None` where it cannot be made or mounted here.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    fn mount(place: &'a Path, make: &[&str]) -> Option<Self> {
        let image = place.with_extension("image");
        File::create(&image).unwrap().set_len(512 * MIB).unwrap();
        fs::create_dir(place).unwrap();
        let is_done = |command: &mut Command| {
            command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        let made = is_done(Command::new(make[0]).args(&make[1..]).arg(&image));
        let mounted = made && is_done(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(place));
        if !mounted {
            eprintln!("skipped: {make:?} cannot be made or mounted here");
        }
        mounted.then(|| Disk(place))
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn files_share_extents_where_the_file_system_can() {
    for make in [&["mkfs.xfs", "-q", "-m", "reflink=1"][..], &["mkfs.btrfs", "-q"]] {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("disk");
        let Some(_disk) = Disk::mount(&folder, make) else { continue };
        let store = DirectoryStore::open(&folder, DirectoryOptions::default()).unwrap();
        assert!(store.facts().shares_extents, "{make:?}");
        assert_eq!(
            fs::read_dir(&folder).unwrap().filter(|entry| entry.as_ref().unwrap().file_name() != ".multilane").count(),
            0
        );
        let (source, target) =
            (store.create(&path("source"), NEW).unwrap(), store.create(&path("target"), NEW).unwrap());
        let data: Vec<u8> = (0..16 * MIB).map(|at| (at / 4096) as u8).collect();
        source.write_at(&data, 0).unwrap();
        source.set_length(24 * MIB).unwrap();
        target.write_at(&vec![0xFF; 24 * MIB as usize], 0).unwrap();
        source.sync().unwrap();
        target.sync().unwrap();
        let before = store.space().unwrap().free_bytes;
        let mut done = 0;
        while done < 24 * MIB {
            done += Node::clone_from(&*target, &*source, done, done, 24 * MIB - done).unwrap();
        }
        target.sync().unwrap();
        let copy = read_all(&*target);
        assert!(copy[..data.len()] == data[..] && copy[data.len()..].iter().all(|byte| *byte == 0));
        assert!(
            store.space().unwrap().free_bytes >= before,
            "{make:?}: what is shared takes no space, and what was there is free"
        );
        // What is written to one is not the other's.
        target.write_at(b"own", 0).unwrap();
        assert_eq!(read_all(&*source)[..data.len()], data[..]);
        assert_eq!(Node::clone_from(&*target, &*source, 32 * MIB, 0, 4096), Err(Error::Invalid));
    }
}

#[test]
fn no_extents_are_shared_where_the_file_system_cannot() {
    let place = memory();
    let store = DirectoryStore::open(place.path(), DirectoryOptions::default()).unwrap();
    assert!(!store.facts().shares_extents);
    let (source, target) = (store.create(&path("source"), NEW).unwrap(), store.create(&path("target"), NEW).unwrap());
    source.write_at(&[1; 8192], 0).unwrap();
    target.write_at(&[2; 8192], 0).unwrap();
    assert_eq!(Node::clone_from(&*target, &*source, 0, 0, 4096), Err(Error::Unsupported));
    assert_eq!(read_all(&*target), [2; 8192]);
}
