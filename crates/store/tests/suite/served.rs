//! Who serves a folder, and which folder is served.
// Another process locks as it likes.
#![allow(clippy::disallowed_methods)]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::common::*;
use rustix::fs::{FlockOperation, flock};
use store::{DirectoryOptions, DirectoryStore, Error, Kind, Look, NewNode, Replace, Resolved, Store, UnixOwner, Use};

/// Locks a folder as another process would.
fn serve_elsewhere(folder: &std::path::Path) -> fs::File {
    let reserved = folder.join(".multilane");
    fs::create_dir_all(&reserved).unwrap();
    fs::write(reserved.join("lock"), "4242\n").unwrap();
    let lock = fs::OpenOptions::new().write(true).open(reserved.join("lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    lock
}

#[test]
fn a_folder_that_another_server_has_is_refused_with_its_number() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a/b");
    fs::create_dir_all(&inner).unwrap();
    let lock = serve_elsewhere(folder.path());
    for served in [folder.path(), &inner] {
        assert_eq!(DirectoryStore::open(served, Default::default()).err(), Some(Error::Served(4242)));
    }
    let read_only = DirectoryOptions { read_only: true, ..Default::default() };
    assert!(DirectoryStore::open(folder.path(), read_only).is_ok(), "who only reads is in nobody's way");
    drop(lock);
    assert!(DirectoryStore::open(folder.path(), Default::default()).is_ok());
}

#[test]
fn a_folder_with_no_room_to_be_locked_is_locked_before_anything_is_changed() {
    let place = tempfile::tempdir().unwrap();
    // The root, what fills the rest, and nothing for what is reserved.
    let Some(mounted) = Mounted::new(&place.path().join("full"), "size=4m,nr_inodes=3") else { return };
    let folder = mounted.0.as_path();
    fs::write(folder.join("one"), "one").unwrap();
    fs::write(folder.join("two"), "two").unwrap();
    let store = DirectoryStore::open(folder, Default::default()).unwrap();
    let find = |name: &str, usage: Use| match store.resolve(&path(name), usage) {
        Ok(Resolved::Found { node, .. }) => Ok(node),
        Ok(Resolved::Missing { .. }) => Err(Error::NotFound),
        Err(error) => Err(error),
    };
    assert_eq!(read_all(&*find("one", Use::Read).unwrap()), b"one");
    let write = || find("one", Use::ReadWrite).and_then(|node| node.prepare(Use::ReadWrite));
    assert_eq!(write(), Err(Error::Full));
    // What goes makes room; whoever is first to use it has the folder.
    store.remove(&path("two"), find("two", Use::Metadata).unwrap().identity()).unwrap();
    fs::remove_file(folder.join("one")).unwrap();
    let lock = serve_elsewhere(folder);
    let make = || store.create(&path("three"), new(Kind::File)).map(|_| ());
    assert_eq!(make(), Err(Error::Served(4242)));
    drop(lock);
    // There is room for the lock and for nothing else.
    assert_eq!(make(), Err(Error::Full));
    assert_eq!(fs::read_to_string(folder.join(".multilane/lock")).unwrap().trim(), std::process::id().to_string());
}

/// True where nobody else can lock the folder.
fn is_locked(folder: &std::path::Path) -> bool {
    let file = fs::File::open(folder.join(".multilane/lock")).unwrap();
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

#[test]
fn a_lock_that_another_program_removes_or_replaces_is_taken_anew() {
    let disk = directory();
    // All stores of a process have the lock together.
    let looked_after = DirectoryStore::open(disk.folder(), Default::default()).unwrap();
    let reserved = disk.folder().join(".multilane");
    assert_eq!(looked_after.look(), Ok(Look::Same));
    let copy = disk.folder().join("copy");
    let removals: [&dyn Fn(); 4] = [
        &|| fs::remove_dir_all(&reserved).unwrap(),
        &|| fs::remove_file(reserved.join("lock")).unwrap(),
        &|| {
            fs::write(&copy, "1\n").unwrap();
            fs::rename(&copy, reserved.join("lock")).unwrap();
        },
        &|| {
            fs::rename(&reserved, &copy).unwrap();
            fs::create_dir(&reserved).unwrap();
        },
    ];
    for remove in removals {
        remove();
        assert_eq!(looked_after.look(), Ok(Look::LockedAnew));
        assert!(is_locked(disk.folder()));
        assert_eq!(fs::read_to_string(reserved.join("lock")).unwrap().trim(), std::process::id().to_string());
        assert_eq!(looked_after.look(), Ok(Look::Same));
        disk.file("file", b"data");
        disk.remove("file").unwrap();
    }
}

#[test]
fn nothing_is_changed_in_a_folder_that_another_server_has_taken_over() {
    let disk = directory();
    // All stores of a process have the lock together.
    let looked_after = DirectoryStore::open(disk.folder(), Default::default()).unwrap();
    disk.file("file", b"data");
    disk.directory("directory");
    let node = disk.node("file");
    let stream = node.extras().create_stream("stream").unwrap();
    fs::remove_dir_all(disk.folder().join(".multilane")).unwrap();
    let lock = serve_elsewhere(disk.folder());
    let served = || Some(Error::Served(4242));
    for _ in 0..2 {
        assert_eq!(looked_after.look().err(), served());
        assert_eq!(node.write_at(b"more", 0).err(), served());
        assert_eq!(node.set_length(0).err(), served());
        assert_eq!(stream.write_at(b"more", 0).err(), served());
        assert_eq!(node.extras().set_security(b"descriptor").err(), served());
        assert_eq!(disk.store.create(&path("new"), new(Kind::File)).err(), served());
        assert_eq!(disk.rename("file", "new", Replace::No).err(), served());
        assert_eq!(disk.remove("file").err(), served());
        assert_eq!(disk.remove("directory").err(), served());
        assert_eq!(read_all(&*node), b"data");
    }
    drop(lock);
    assert_eq!(looked_after.look(), Ok(Look::LockedAnew));
    assert!(is_locked(disk.folder()));
    node.write_at(b"more", 0).unwrap();
    disk.remove("file").unwrap();
}

#[test]
fn one_server_has_a_folder_as_often_as_it_likes() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("a");
    fs::create_dir(&inner).unwrap();
    let open = |path: &std::path::Path| DirectoryStore::open(path, Default::default()).unwrap();
    let stores = (open(folder.path()), open(folder.path()), open(&inner));
    let locked = || {
        let file = fs::File::open(folder.path().join(".multilane/lock")).unwrap();
        flock(&file, FlockOperation::NonBlockingLockShared).is_err()
    };
    drop(stores.0);
    assert!(locked(), "the other store still has it");
    drop(stores.1);
    assert!(!locked());
    assert_eq!(fs::read_to_string(inner.join(".multilane/lock")).unwrap().trim(), std::process::id().to_string());
}

#[test]
fn new_files_are_for_the_server_alone_unless_the_share_says_otherwise() {
    let mode = |disk: &Disk, name: &str| fs::metadata(disk.folder().join(name)).unwrap().mode() & 0o7777;
    let open = DirectoryOptions { file_mode: Some(0o4664), directory_mode: Some(0o777), ..Default::default() };
    for (options, file, directory) in [(DirectoryOptions::default(), 0o600, 0o700), (open, 0o664, 0o777)] {
        let disk = directory_in(&std::env::temp_dir(), options);
        disk.file("file", b"");
        disk.directory("directory");
        let described = NewNode { kind: Kind::File, attributes: 0x22, security: Some(b"descriptor"), owner: None };
        disk.store.create(&path("described"), described).unwrap();
        assert_eq!((mode(&disk, "file"), mode(&disk, "described"), mode(&disk, "directory")), (file, file, directory));
        fs::set_permissions(disk.folder().join("file"), fs::Permissions::from_mode(0o640)).unwrap();
        disk.node("file").write_at(b"x", 0).unwrap();
        assert_eq!(mode(&disk, "file"), 0o640, "what is there keeps its own");
    }
}

#[test]
fn new_files_are_whose_the_share_says_and_old_ones_stay_whose_they_are() {
    let of = |disk: &Disk, name: &str| {
        let found = fs::symlink_metadata(disk.folder().join(name)).unwrap();
        (found.uid(), found.gid(), found.mode() & 0o7777)
    };
    let own = rustix::process::geteuid().as_raw();
    let given = UnixOwner { uid: 12_345, gid: 23_456 };
    // Nobody but root gives files away; others have their own user's.
    let owner = match given.can_be_given_files() {
        true => given,
        false => UnixOwner { uid: own, gid: rustix::process::getegid().as_raw() },
    };
    assert_eq!(given.can_be_given_files(), own == 0);
    let disk = directory_in(&std::env::temp_dir(), DirectoryOptions { owner: Some(owner), ..Default::default() });
    fs::write(disk.folder().join("old"), "").unwrap();
    let old = of(&disk, "old");
    disk.node("old").write_at(b"x", 0).unwrap();
    disk.file("file", b"");
    disk.directory("directory");
    let described = NewNode { kind: Kind::File, attributes: 0x22, security: Some(b"descriptor"), owner: None };
    disk.store.create(&path("directory\\described"), described).unwrap();
    assert_eq!(of(&disk, "file"), (owner.uid, owner.gid, 0o600));
    assert_eq!(of(&disk, "directory"), (owner.uid, owner.gid, 0o700));
    assert_eq!(of(&disk, "directory/described"), (owner.uid, owner.gid, 0o600));
    assert_eq!(of(&disk, "old"), old);
}

#[test]
fn what_was_left_half_made_has_a_descriptor_that_cannot_be_had() {
    for disk in [directory(), memory_directory(), beside()] {
        disk.file("made", b"");
        disk.directory("made too");
        // The server was killed before these had theirs.
        fs::write(disk.folder().join("file"), "").unwrap();
        fs::create_dir(disk.folder().join("directory")).unwrap();
        for (name, mode) in [("file", 0o1600), ("directory", 0o1700)] {
            assert_eq!(disk.node(name).extras().security(), Ok(None), "another program's");
            fs::set_permissions(disk.folder().join(name), fs::Permissions::from_mode(mode)).unwrap();
            assert!(disk.node(name).extras().security().is_err(), "{name}");
            disk.node(name).extras().set_security(b"descriptor").unwrap();
            assert_eq!(disk.node(name).extras().security(), Ok(Some(b"descriptor".to_vec())));
        }
        assert_eq!(
            (disk.node("made").extras().security(), disk.node("made too").extras().security()),
            (Ok(None), Ok(None))
        );
    }
}

#[test]
fn a_folder_that_was_made_anew_is_served_and_what_is_open_stays() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("share");
    fs::create_dir(&folder).unwrap();
    let store = DirectoryStore::open(&folder, Default::default()).unwrap();
    let held = store.create(&path("old"), new(Kind::File)).unwrap();
    held.write_at(b"old", 0).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("new"), "new").unwrap();
    assert!(store.resolve(&path("new"), Use::Read).is_err());
    store.follow(&folder).unwrap();
    assert!(matches!(store.resolve(&path("NEW"), Use::Read), Ok(Resolved::Found { .. })));
    assert!(matches!(store.resolve(&path("old"), Use::Read), Ok(Resolved::Missing { .. })));
    assert_eq!(read_all(&*held), b"old");
    store.create(&path("made"), new(Kind::File)).unwrap();
    assert!(folder.join("made").exists());
}

#[test]
fn a_quota_becomes_another_while_the_folder_is_served_and_the_next_one_there_has_it() {
    const KIB: u64 = 1 << 10;
    let place = tempfile::tempdir().unwrap();
    let (folder, next) = (place.path().join("folder"), place.path().join("next"));
    fs::create_dir(&folder).unwrap();
    fs::create_dir(&next).unwrap();
    let store = DirectoryStore::open(&folder, DirectoryOptions { quota_bytes: Some(1024 * KIB), ..Default::default() });
    let store = store.unwrap();
    let make = |name| {
        store.create(&path(name), NewNode { kind: Kind::File, attributes: 0, security: None, owner: None }).unwrap()
    };
    let node = make("file");
    node.write_at(&[1; 500 << 10], 0).unwrap();
    assert!(store.set_quota(Some(100 * KIB)));
    assert_eq!(node.write_at(&[2; 8 << 10], 500 * KIB), Err(Error::Full));
    node.write_at(&[2; 8 << 10], 0).unwrap();
    assert!(store.set_quota(None));
    node.write_at(&[3; 1 << 20], 500 * KIB).unwrap();
    assert!(store.set_quota(Some(100 * KIB)));
    store.follow(&next).unwrap();
    assert_eq!(store.space().unwrap().total_bytes, 100 * KIB);
    assert_eq!(make("file").write_at(&[1; 200 << 10], 0), Err(Error::Full));
    let unbounded = DirectoryStore::open(&place.path().join("folder"), Default::default()).unwrap();
    assert!(unbounded.set_quota(None) && !unbounded.set_quota(Some(KIB)), "what is there would have to be counted");
}
