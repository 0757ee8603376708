//! What a store behind a distance waits for: once for each call that a remote store is asked, never where it must not.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use store::{
    Changes, Cursor, DelayedStore, Destination, Error, Kind, Name, Node, RamStore, Renewal, Replace, Resolved, Store,
    Use, Waits, waiting,
};

use crate::common::*;

/// A store that counts how often it is waited for.
struct Far {
    store: DelayedStore,
    waits: Arc<AtomicUsize>,
}

impl Far {
    fn new() -> Self {
        let waits = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&waits);
        let wait = move || {
            counted.fetch_add(1, Ordering::Relaxed);
        };
        Far { store: DelayedStore::with_wait(Arc::new(RamStore::new(RAM_BYTES)), wait), waits }
    }

    /// Does something, which has to wait so often; gives what comes of it.
    fn waits<T>(&self, times: usize, what: &str, work: impl FnOnce() -> T) -> T {
        let before = self.waits.load(Ordering::Relaxed);
        let done = work();
        assert_eq!(self.waits.load(Ordering::Relaxed) - before, times, "{what}");
        done
    }

    fn node(&self, text: &str, usage: Use) -> Arc<dyn Node> {
        match self.waits(1, "resolve", || self.store.resolve(&path(text), usage)).unwrap() {
            Resolved::Found { node, .. } => node,
            Resolved::Missing { .. } => panic!("{text} is missing"),
        }
    }
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

#[test]
fn calls_about_data_wait_once_each() {
    let far = Far::new();
    let root = far.node("", Use::Metadata);
    let make = |text| far.waits(1, "create", || root.names().unwrap().create(&name(text), new(Kind::File))).unwrap();
    let (file, other) = (make("file"), make("other"));
    far.waits(1, "write", || file.write_at(&[7; 10_000], 0)).unwrap();
    let mut buffer = [0; 4096];
    assert_eq!(far.waits(1, "read", || file.read_at(&mut buffer, 0)), Ok(4096));
    assert_eq!(buffer, [7; 4096]);
    assert_eq!(far.waits(1, "append", || file.append(b"end", &mut Ok)), Ok(10_003));
    assert_eq!(far.waits(1, "copy", || other.copy_from(&*file, 0, 0, 10_000)), Ok(10_000));
    let cloned = far.waits(1, "clone", || Node::clone_from(&*other, &*file, 0, 0, 8192)).unwrap();
    assert!((1..=8192).contains(&cloned), "{cloned}");
    far.waits(1, "sync", || file.sync()).unwrap();
    far.waits(1, "length", || file.set_length(100)).unwrap();
    far.waits(1, "allocation", || file.set_allocation(4096)).unwrap();
    far.waits(1, "reserve", || file.reserve(8192)).unwrap();
    far.waits(1, "zero", || file.zero(0, 10, true)).unwrap();
    far.waits(1, "extents", || file.extents(0, 100, 8)).unwrap();
    far.waits(1, "renew", || file.renew(&Renewal::default())).map_err(|failed| failed.error).unwrap();
    assert_eq!(far.waits(1, "metadata", || file.metadata()).unwrap().length, 0);
    assert_eq!(far.waits(1, "metadata", || other.metadata()).unwrap().length, 10_000);
}

#[test]
fn calls_about_names_and_what_is_kept_beside_data_wait_once_each() {
    let far = Far::new();
    let root = far.node("", Use::Metadata);
    let names = root.names().unwrap();
    let folder = far.waits(1, "create", || names.create(&name("folder"), new(Kind::Directory))).unwrap();
    let file = far.waits(1, "create", || names.create(&name("file"), new(Kind::File))).unwrap();
    let identity = file.identity();
    far.waits(1, "change", || file.change(&Changes::default())).unwrap();
    assert_eq!(far.waits(1, "entry", || names.entry_metadata(&name("file"))).unwrap().identity, identity);
    assert!(far.waits(1, "child", || names.child(&name("FILE"), Use::Read)).unwrap().is_some());
    assert!(far.waits(1, "has", || names.has(&name("file"), identity)).unwrap());
    assert!(!far.waits(1, "empty", || names.is_empty()).unwrap());
    let mut listed = 0;
    let mut take = |_| {
        listed += 1;
        ControlFlow::Continue(())
    };
    assert!(!far.waits(1, "list", || names.list(&mut Cursor::default(), &mut take)).unwrap());
    assert_eq!(listed, 2);
    let (second, moved) = (name("second"), name("moved"));
    let to = |name| Destination { directory: &*folder, name };
    far.waits(1, "link", || file.link(to(&second), Replace::No)).unwrap();
    far.waits(1, "rename", || names.rename(&name("file"), identity, to(&moved), Replace::No)).unwrap();
    far.waits(1, "remove", || folder.names().unwrap().remove(&second, identity)).unwrap();
    assert_eq!(far.node("folder\\moved", Use::Metadata).identity(), identity);

    let extras = file.extras();
    far.waits(1, "set_security", || extras.set_security(b"descriptor")).unwrap();
    assert_eq!(far.waits(1, "security", || extras.security()).unwrap().as_deref(), Some(&b"descriptor"[..]));
    assert_eq!(far.waits(1, "security_within", || extras.security_within(3)), Err(Error::WouldBlock));
    far.waits(1, "set_extended", || extras.set_extended("A", b"1")).unwrap();
    far.waits(1, "change_extended", || extras.change_extended(&mut |_| None)).map_err(|failed| failed.error).unwrap();
    assert_eq!(far.waits(1, "extended", || extras.extended()).unwrap().len(), 1);
    let stream = far.waits(1, "create_stream", || extras.create_stream("s")).unwrap();
    far.waits(1, "write", || stream.write_at(b"x", 0)).unwrap();
    assert!(far.waits(1, "stream", || extras.stream("S")).unwrap().is_some());
    far.waits(1, "rename_stream", || extras.rename_stream("s", "t", Replace::No)).unwrap();
    assert_eq!(far.waits(1, "streams", || extras.streams()).unwrap().len(), 1);
    far.waits(1, "remove_stream", || extras.remove_stream("t")).unwrap();
    far.waits(1, "space", || far.store.space()).unwrap();
    assert_eq!(far.waits(1, "lineage", || far.store.lineage(&path("folder"))).len(), 2);
}

#[test]
fn what_a_client_has_in_memory_is_not_waited_for() {
    let far = Far::new();
    far.waits(2, "the directory, then the name", || far.store.create(&path("file"), new(Kind::File))).unwrap();
    let file = far.node("file", Use::Read);
    far.waits(0, "known", || {
        assert_eq!((file.kind(), file.identity().volume), (Kind::File, far.store.facts().volume));
        assert!(file.names().is_err() && file.descriptor().is_none());
        file.metadata_as_resolved().unwrap();
        file.prepare(Use::Read).unwrap();
        file.try_prepare(Use::Metadata).unwrap();
    });
    assert_eq!(far.waits(0, "known", || file.try_prepare(Use::ReadWrite)), Err(Error::WouldBlock));
    far.waits(1, "opened for more", || file.prepare(Use::ReadWrite)).unwrap();
    far.waits(0, "opened for that already", || file.try_prepare(Use::ReadWrite)).unwrap();
    far.store.create(&path("folder"), new(Kind::Directory)).unwrap();
    let folder = far.node("folder", Use::Metadata);
    assert_eq!(far.waits(0, "above", || folder.above()).unwrap().map(|above| above.identity()), Some(far.store.root()));
}

#[test]
fn who_must_not_wait_is_told_so_and_does_not() {
    let far = Far::new();
    assert!(!far.store.facts().never_blocks);
    far.store.create(&path("folder"), new(Kind::Directory)).unwrap();
    let folder = far.node("folder", Use::Metadata);
    assert_eq!(folder.waits(), Waits::Always);
    waiting::forbid(waiting::Forbidden::Panics);
    far.waits(0, "try", || {
        assert_eq!(far.store.try_resolve(&path("folder"), Use::Metadata).unwrap_err(), Error::WouldBlock);
        assert_eq!(folder.try_metadata(), Err(Error::WouldBlock));
        assert_eq!(folder.try_read_at(&mut [0; 8], 0), Err(Error::WouldBlock));
        assert_eq!(folder.above().err(), Some(Error::WouldBlock));
        let names = folder.names().unwrap();
        assert_eq!(names.try_child(&name("x"), Use::Metadata).err(), Some(Error::WouldBlock));
        assert_eq!(names.try_create(&name("x"), new(Kind::File)).err(), Some(Error::WouldBlock));
    });
    waiting::forbid(waiting::Forbidden::Not);
}

#[test]
fn names_do_not_go_from_one_store_to_another() {
    let (one, other) = (Far::new(), Far::new());
    let file = one.store.create(&path("file"), new(Kind::File)).unwrap();
    let elsewhere = other.node("", Use::Metadata);
    let to = Destination { directory: &*elsewhere, name: &name("file") };
    assert_eq!(file.link(to, Replace::No), Err(Error::CrossVolume));
    file.write_at(b"data", 0).unwrap();
    let copy = other.store.create(&path("copy"), new(Kind::File)).unwrap();
    assert_eq!(copy.copy_from(&*file, 0, 0, 4), Ok(4));
}

#[test]
fn the_time_that_was_given_is_what_a_call_takes() {
    let latency = Duration::from_millis(5);
    let store = DelayedStore::new(Arc::new(RamStore::new(RAM_BYTES)), latency);
    let begun = Instant::now();
    store.space().unwrap();
    assert!(begun.elapsed() >= latency);
}
