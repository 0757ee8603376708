//! What the cache must not do though it is asked to: lend one share what another has open, tell what was true before a change, keep others waiting,
//! or hold more than it is charged for. Tests that mount something run in a namespace of their own.

use std::any::Any;
use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use store::{
    AttributeChange, Belief, CacheBounds, CachedStore, ChangeExtended, ChangeSecurity, Changes, ChooseOffset, Cursor,
    Destination, DirectoryOptions, DirectoryStore, Error, ExtendedAttribute, Extents, Extras, Facts, Failed, Identity,
    Keeping, Kind, Known, Metadata, Name, NamedNode, Names, NewNode, Node, Renewal, Replace, Resolved, SharePath,
    Space, Store, Take, TakeStream, Time, Use, Waits, waiting,
};
use tempfile::TempDir;

use crate::common::{is_in_namespace, memory, overlay, path, run};

const BOUNDS: CacheBounds =
    CacheBounds { bytes: 4 << 20, descriptors: 64, highest_descriptor: i32::MAX, learns_at_once: true };
const BELIEF: Belief = Belief::For(Duration::from_secs(1));
const NEW: NewNode<'static> = NewNode { kind: Kind::File, attributes: 0, security: None, owner: None };

fn options() -> DirectoryOptions {
    DirectoryOptions::default()
}

fn read_only() -> DirectoryOptions {
    DirectoryOptions { read_only: true, ..options() }
}

fn behind(known: &Arc<Known>, place: &Path, options: DirectoryOptions) -> CachedStore {
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(place, options).unwrap());
    CachedStore::new(store, Arc::clone(known), BELIEF)
}

fn found(store: &dyn Store, at: &str, usage: Use) -> Arc<dyn Node> {
    match store.resolve(&path(at), usage).unwrap() {
        Resolved::Found { node, .. } => node,
        Resolved::Missing { .. } => panic!("{at} is missing"),
    }
}

// What is kept open by one share is used by another.

#[test]
fn a_read_only_share_changes_nothing_whatever_others_keep_open() {
    let place = memory();
    fs::write(place.path().join("f"), "data").unwrap();
    let known = Known::new(BOUNDS);
    let (writes, reads) = (behind(&known, place.path(), options()), behind(&known, place.path(), read_only()));
    drop(found(&writes, "f", Use::Read));
    let node = found(&reads, "f", Use::Read);
    let changes = Changes { attributes: AttributeChange::setting(1), ..Changes::default() };
    assert_eq!(node.change(&changes), Err(Error::ReadOnly), "attributes");
    assert_eq!(node.extras().set_security(b"another"), Err(Error::ReadOnly), "its descriptor");
}

#[test]
fn a_share_that_may_be_written_to_can_be_whatever_others_keep_open() {
    let place = memory();
    fs::create_dir(place.path().join("d")).unwrap();
    fs::write(place.path().join("d/f"), "data").unwrap();
    let known = Known::new(BOUNDS);
    let (writes, reads) = (behind(&known, place.path(), options()), behind(&known, place.path(), read_only()));
    drop(found(&reads, "d\\f", Use::Read));
    let node = found(&writes, "d\\f", Use::ReadWrite);
    assert_eq!(node.write_at(b"more", 0), Ok(()), "opened to write, in a directory that the other share keeps open");
    let changes = Changes { attributes: AttributeChange::setting(2), ..Changes::default() };
    assert_eq!(node.change(&changes), Ok(()));
    assert!(writes.create(&path("d\\new"), NEW).is_ok());
}

/// A folder that is served, and one in it that is served, too.
fn nested() -> (TempDir, CachedStore, CachedStore) {
    let place = memory();
    fs::create_dir(place.path().join("b")).unwrap();
    fs::write(place.path().join("b/f"), "data").unwrap();
    let known = Known::new(BOUNDS);
    let (outer, inner) = (behind(&known, place.path(), options()), behind(&known, &place.path().join("b"), options()));
    (place, outer, inner)
}

#[test]
fn a_directory_lies_in_its_shares_directory_though_it_is_the_root_of_another_share() {
    let (_place, outer, inner) = nested();
    drop(found(&outer, "b", Use::Metadata));
    drop(found(&inner, "f", Use::Metadata));
    // `state/passed_on.rs` takes `None` for "nothing is passed on": who may use the share may do everything with `b`.
    let above = found(&outer, "b", Use::Metadata).above().unwrap();
    assert_eq!(above.map(|above| above.identity()), Some(outer.root()));
}

#[test]
fn a_shares_root_lies_in_nothing_though_another_share_has_it_as_a_directory() {
    let (_place, outer, inner) = nested();
    drop(found(&inner, "f", Use::Metadata));
    drop(found(&outer, "b\\f", Use::Metadata));
    let above = found(&inner, "", Use::Metadata).above().unwrap();
    assert_eq!(above.map(|above| above.identity()), None, "what lies above the share is reached and passes on");
}

#[test]
fn a_link_out_of_a_share_is_itself_though_another_share_has_what_it_leads_to() {
    let (place, outer, inner) = nested();
    fs::write(place.path().join("secret"), "0123456789").unwrap();
    symlink("../secret", place.path().join("b/link")).unwrap();
    let told = |store: &dyn Store| {
        let root = found(store, "", Use::Read);
        let names = root.names().unwrap();
        let name = Name::new("link").unwrap();
        let mut listed = Vec::new();
        let mut cursor = Cursor::default();
        let mut take = |entry: store::Entry| {
            listed.push(entry.name.as_str().to_owned());
            std::ops::ControlFlow::Continue(())
        };
        while names.list(&mut cursor, &mut take).unwrap() {}
        let child = names.child(&name, Use::Read).map(|child| {
            child.map(|(_, node)| {
                let mut bytes = [0; 10];
                let count = node.read_at(&mut bytes, 0).unwrap();
                String::from_utf8_lossy(&bytes[..count]).into_owned()
            })
        });
        listed.sort();
        (listed, names.entry_metadata(&name).map(|known| known.length), child)
    };
    let truth = told(&DirectoryStore::open(&place.path().join("b"), options()).unwrap());
    drop(found(&inner, "f", Use::Metadata));
    drop(found(&outer, "b", Use::Read));
    assert_eq!(told(&inner), truth, "(listed, length by the listing, data by the directory's name)");
}

#[test]
fn a_path_follows_no_link_out_of_a_share_in_a_directory_that_another_share_keeps_open() {
    let place = memory();
    fs::create_dir(place.path().join("b")).unwrap();
    fs::write(place.path().join("secret"), "0123456789").unwrap();
    symlink("../secret", place.path().join("b/link")).unwrap();
    let known = Known::new(CacheBounds { learns_at_once: false, ..BOUNDS });
    let (outer, inner) = (behind(&known, place.path(), options()), behind(&known, &place.path().join("b"), options()));
    drop(found(&inner, "", Use::Read));
    (0..3).for_each(|_| drop(found(&outer, "b", Use::Read)));
    let opened = inner.resolve(&path("link"), Use::Read).unwrap();
    assert!(matches!(opened, Resolved::Found { node, .. } if node.metadata().unwrap().is_link));
}

#[test]
fn a_quota_counts_what_is_written_below_the_root_of_another_share() {
    let place = memory();
    fs::create_dir(place.path().join("b")).unwrap();
    let known = Known::new(BOUNDS);
    let limited = DirectoryOptions { quota_bytes: Some(256 << 10), ..options() };
    let (outer, inner) = (behind(&known, place.path(), limited), behind(&known, &place.path().join("b"), options()));
    drop(found(&outer, "b", Use::Metadata));
    drop(found(&inner, "", Use::Metadata));
    let Resolved::Missing { parent, .. } = outer.resolve(&path("b\\new"), Use::ReadWrite).unwrap() else { panic!() };
    let made = parent.names().unwrap().create(&Name::new("new").unwrap(), NEW).unwrap();
    made.prepare(Use::ReadWrite).unwrap();
    assert_eq!(made.write_at(&vec![1; 4 << 20], 0), Err(Error::Full), "4 MiB in a share of 256 KiB");
}

#[test]
fn new_files_have_the_permissions_that_their_share_says() {
    use std::os::unix::fs::PermissionsExt;
    let place = memory();
    fs::create_dir(place.path().join("d")).unwrap();
    let known = Known::new(BOUNDS);
    let open_to_all = DirectoryOptions { file_mode: Some(0o666), ..options() };
    let (all, own) = (behind(&known, place.path(), open_to_all), behind(&known, place.path(), options()));
    drop(found(&all, "d", Use::Metadata));
    let Resolved::Missing { parent, .. } = own.resolve(&path("d\\new"), Use::ReadWrite).unwrap() else { panic!() };
    parent.names().unwrap().create(&Name::new("new").unwrap(), NEW).unwrap();
    let mode = fs::metadata(place.path().join("d/new")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
}

#[test]
fn what_is_hidden_below_a_mount_is_not_reached_because_another_share_sees_it() {
    if !is_in_namespace("cached_apart::what_is_hidden_below_a_mount_is_not_reached_because_another_share_sees_it") {
        return;
    }
    let (place, view) = (memory(), memory());
    let (inside, view) = (place.path().join("sub/x"), view.path());
    fs::create_dir_all(&inside).unwrap();
    fs::write(inside.join("hidden"), "below").unwrap();
    let mount = |arguments: &[&str]| run("mount", arguments);
    mount(&["--bind", place.path().join("sub").to_str().unwrap(), view.to_str().unwrap()]);
    mount(&["-t", "tmpfs", "none", inside.to_str().unwrap()]);
    fs::write(inside.join("mounted"), "above").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let known = Known::new(BOUNDS);
    let (outer, through_view) = (behind(&known, place.path(), options()), behind(&known, view, options()));
    let truth = DirectoryStore::open(place.path(), options()).unwrap();
    let told = |store: &dyn Store, name: &str| {
        matches!(store.resolve(&path(&format!("sub\\x\\{name}")), Use::Read), Ok(Resolved::Found { .. }))
    };
    drop(found(&through_view, "x\\hidden", Use::Read));
    let answers = (told(&outer, "hidden"), told(&outer, "mounted"));
    let truths = (told(&truth, "hidden"), told(&truth, "mounted"));
    drop((outer, through_view, truth));
    run("umount", &[inside.to_str().unwrap()]);
    run("umount", &[view.to_str().unwrap()]);
    assert_eq!(answers, truths, "what is hidden, what is mounted");
}

// What is told while the data is written.

/// Called after the metadata of a file was asked for, before that is told.
type After = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// A store whose metadata takes long to come back.
struct Late {
    store: Arc<dyn Store>,
    after: After,
}

struct LateNode {
    node: Arc<dyn Node>,
    after: After,
}

/// While this is so closing a [`LateNode`] waits, as that of a file does whose FUSE program hangs.
static CLOSING_HANGS: AtomicBool = AtomicBool::new(false);
/// Tests that have it so run one after the other.
static HANGING: Mutex<()> = Mutex::new(());

impl Drop for LateNode {
    fn drop(&mut self) {
        while waiting::is_allowed() && CLOSING_HANGS.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl LateNode {
    fn of(node: Arc<dyn Node>, after: &After) -> Arc<dyn Node> {
        Arc::new(LateNode { node, after: Arc::clone(after) })
    }

    fn named(&self, named: Option<NamedNode>) -> Option<NamedNode> {
        named.map(|(name, node)| (name, LateNode::of(node, &self.after)))
    }
}

fn late(node: &dyn Node) -> &dyn Node {
    node.as_any().downcast_ref::<LateNode>().map_or(node, |late| &*late.node)
}

fn late_to<'a>(to: Destination<'a>) -> Destination<'a> {
    Destination { directory: late(to.directory), name: to.name }
}

impl Store for Late {
    fn facts(&self) -> Facts {
        self.store.facts()
    }
    fn space(&self) -> Result<Space, Error> {
        self.store.space()
    }
    fn resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        Ok(match self.store.resolve(path, usage)? {
            Resolved::Found { node, path } => Resolved::Found { node: LateNode::of(node, &self.after), path },
            Resolved::Missing { parent, path } => Resolved::Missing { parent: LateNode::of(parent, &self.after), path },
        })
    }
    fn try_resolve(&self, path: &SharePath, usage: Use) -> Result<Resolved, Error> {
        self.resolve(path, usage)
    }
    fn root(&self) -> Identity {
        self.store.root()
    }
}

impl Node for LateNode {
    fn kind(&self) -> Kind {
        self.node.kind()
    }
    fn identity(&self) -> Identity {
        self.node.identity()
    }
    fn birth(&self) -> Option<Time> {
        self.node.birth()
    }
    fn waits(&self) -> Waits {
        self.node.waits()
    }
    fn metadata(&self) -> Result<Metadata, Error> {
        let told = self.node.metadata();
        let after = self.after.lock().take();
        if let Some(after) = after {
            after();
        }
        told
    }
    fn try_metadata(&self) -> Result<Metadata, Error> {
        self.node.try_metadata()
    }
    fn change(&self, changes: &Changes) -> Result<(), Error> {
        self.node.change(changes)
    }
    fn prepare(&self, usage: Use) -> Result<(), Error> {
        self.node.prepare(usage)
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.node.read_at(buffer, offset)
    }
    fn try_read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.node.try_read_at(buffer, offset)
    }
    fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        self.node.write_at(data, offset)
    }
    fn append(&self, data: &[u8], place: ChooseOffset<'_>) -> Result<u64, Error> {
        self.node.append(data, place)
    }
    fn sync(&self) -> Result<(), Error> {
        self.node.sync()
    }
    fn set_length(&self, length: u64) -> Result<(), Error> {
        self.node.set_length(length)
    }
    fn set_allocation(&self, bytes: u64) -> Result<(), Error> {
        self.node.set_allocation(bytes)
    }
    fn reserve(&self, length: u64) -> Result<(), Error> {
        self.node.reserve(length)
    }
    fn zero(&self, offset: u64, length: u64, punch: bool) -> Result<(), Error> {
        self.node.zero(offset, length, punch)
    }
    fn extents(&self, offset: u64, length: u64, count_max: usize) -> Result<Extents, Error> {
        self.node.extents(offset, length, count_max)
    }
    fn copy_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        self.node.copy_from(late(source), source_offset, offset, length)
    }
    fn clone_from(&self, source: &dyn Node, source_offset: u64, offset: u64, length: u64) -> Result<u64, Error> {
        (*self.node).clone_from(late(source), source_offset, offset, length)
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.node.descriptor()
    }
    fn keeping(&self) -> Keeping<'_> {
        self.node.keeping()
    }
    fn again(&self, usage: Use) -> Result<Arc<dyn Node>, Error> {
        Ok(LateNode::of(self.node.again(usage)?, &self.after))
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn renew(&self, new: &Renewal<'_>) -> Result<(), Failed> {
        self.node.renew(new)
    }
    fn extras(&self) -> &dyn Extras {
        self
    }
    fn names(&self) -> Result<&dyn Names, Error> {
        self.node.names()?;
        Ok(self)
    }
}

impl Extras for LateNode {
    fn security(&self) -> Result<Option<Vec<u8>>, Error> {
        self.node.extras().security()
    }
    fn change_security(&self, change: ChangeSecurity<'_>) -> Result<(), Error> {
        self.node.extras().change_security(change)
    }
    fn extended(&self) -> Result<Vec<ExtendedAttribute>, Error> {
        self.node.extras().extended()
    }
    fn set_extended(&self, name: &str, value: &[u8]) -> Result<(), Error> {
        self.node.extras().set_extended(name, value)
    }
    fn change_extended(&self, change: ChangeExtended<'_>) -> Result<(), Failed> {
        self.node.extras().change_extended(change)
    }
    fn list_streams(&self, take: TakeStream<'_>) -> Result<(), Error> {
        self.node.extras().list_streams(take)
    }
    fn stream(&self, name: &str) -> Result<Option<NamedNode>, Error> {
        self.node.extras().stream(name)
    }
    fn create_stream(&self, name: &str) -> Result<Arc<dyn Node>, Error> {
        self.node.extras().create_stream(name)
    }
    fn rename_stream(&self, from: &str, to: &str, replace: Replace) -> Result<(), Error> {
        self.node.extras().rename_stream(from, to, replace)
    }
    fn remove_stream(&self, name: &str) -> Result<(), Error> {
        self.node.extras().remove_stream(name)
    }
}

impl Names for LateNode {
    fn list(&self, cursor: &mut Cursor, take: Take<'_>) -> Result<bool, Error> {
        self.node.names()?.list(cursor, take)
    }
    fn is_empty(&self) -> Result<bool, Error> {
        self.node.names()?.is_empty()
    }
    fn entry_metadata(&self, name: &Name) -> Result<Metadata, Error> {
        self.node.names()?.entry_metadata(name)
    }
    fn child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        Ok(self.named(self.node.names()?.child(name, usage)?))
    }
    fn has(&self, name: &Name, file: Identity) -> Result<bool, Error> {
        self.node.names()?.has(name, file)
    }
    fn try_child(&self, name: &Name, usage: Use) -> Result<Option<NamedNode>, Error> {
        Ok(self.named(self.node.names()?.try_child(name, usage)?))
    }
    fn create(&self, name: &Name, new: NewNode<'_>) -> Result<Arc<dyn Node>, Error> {
        Ok(LateNode::of(self.node.names()?.create(name, new)?, &self.after))
    }
    fn rename(&self, name: &Name, expected: Identity, to: Destination<'_>, replace: Replace) -> Result<(), Error> {
        self.node.names()?.rename(name, expected, late_to(to), replace)
    }
    fn remove(&self, name: &Name, expected: Identity) -> Result<(), Error> {
        self.node.names()?.remove(name, expected)
    }
}

fn what_a_client_writes_while_another_asks(place: &Path) {
    fs::write(place.join("f"), "four").unwrap();
    let after = After::default();
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(place, options()).unwrap());
    let store = Late { store, after: Arc::clone(&after) };
    let cached = Arc::new(CachedStore::new(Arc::new(store), Known::new(BOUNDS), BELIEF));
    let reader = found(&*cached, "f", Use::Read);
    // While the one asks how long the file is, the other opens it, writes and closes it.
    let writes = Arc::clone(&cached);
    *after.lock() = Some(Box::new(move || {
        let writer = found(&*writes, "f", Use::ReadWrite);
        writer.write_at(&[7; 100], 0).unwrap();
    }));
    assert_eq!(reader.metadata().unwrap().length, 4, "what it was when it was asked for");
    assert_eq!(found(&*cached, "f", Use::Read).metadata().unwrap().length, 100, "the next request of somebody");
}

#[test]
fn what_is_written_and_closed_while_another_asks_is_seen_in_memory() {
    what_a_client_writes_while_another_asks(memory().path());
}

#[test]
fn what_is_written_and_closed_while_another_asks_is_seen_on_a_disk() {
    what_a_client_writes_while_another_asks(tempfile::tempdir().unwrap().path());
}

#[test]
fn what_is_written_and_closed_is_seen_with_others_asking_all_the_time() {
    let place = memory();
    fs::write(place.path().join("f"), "").unwrap();
    let known = Known::new(BOUNDS);
    let store = behind(&known, place.path(), options());
    let ends = AtomicBool::new(false);
    let begun = Instant::now();
    let stale = std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    let _ = found(&store, "f", Use::Read).metadata();
                }
            });
        }
        let mut stale = None;
        for length in (1..).take_while(|_| begun.elapsed() < Duration::from_secs(5)) {
            found(&store, "f", Use::ReadWrite).set_length(length).unwrap();
            let told = found(&store, "f", Use::Read).metadata().unwrap().length;
            if told != length {
                let noted = Instant::now();
                while found(&store, "f", Use::Read).metadata().unwrap().length != length {}
                stale = Some((length, told, noted.elapsed()));
                break;
            }
        }
        ends.store(true, Ordering::Relaxed);
        stale
    });
    assert_eq!(stale, None, "what was written, what was told, and for how long");
}

// What the kernel does not tell.

#[test]
fn what_a_container_writes_through_an_overlay_is_seen() {
    if !is_in_namespace("cached_apart::what_a_container_writes_through_an_overlay_is_seen") {
        return;
    }
    let (_place, upper, merged) = overlay(|upper| fs::write(upper.join("f"), "four").unwrap());
    let store = behind(&Known::new(BOUNDS), &upper, options());
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(found(&store, "f", Use::Read).metadata().unwrap().length, 4);
    fs::OpenOptions::new()
        .append(true)
        .open(merged.join("f"))
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"more"))
        .unwrap();
    let (told, truth) =
        (found(&store, "f", Use::Read).metadata().unwrap().length, fs::metadata(upper.join("f")).unwrap().len());
    run("umount", &[merged.to_str().unwrap()]);
    assert_eq!(told, truth);
}

// What is kept open.

/// How many descriptors of this process lead to files below that place.
fn descriptors_of(place: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| fs::read_link(fd.path()).is_ok_and(|target| target.starts_with(place) && target != place)).count()
}

#[test]
fn nothing_stays_open_once_it_is_switched_off() {
    let place = memory();
    fs::write(place.path().join("f"), "data").unwrap();
    let store = behind(&Known::new(BOUNDS), place.path(), read_only());
    drop(found(&store, "f", Use::Read));
    store.switch(false);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(descriptors_of(place.path()), 0, "off takes effect at once");
}

#[test]
fn what_is_removed_on_a_file_system_that_tells_nothing_gives_its_space_back() {
    if !is_in_namespace("cached_apart::what_is_removed_on_a_file_system_that_tells_nothing_gives_its_space_back") {
        return;
    }
    let (_place, _, merged) = overlay(|_| ());
    fs::write(merged.join("f"), vec![1; 1 << 20]).unwrap();
    let store = behind(&Known::new(BOUNDS), &merged, read_only());
    drop(found(&store, "f", Use::Read));
    fs::remove_file(merged.join("f")).unwrap();
    std::thread::sleep(Duration::from_secs(5));
    let still = descriptors_of(&merged);
    drop(store);
    run("umount", &[merged.to_str().unwrap()]);
    assert_eq!(still, 0, "five seconds later, though what is known is believed for one");
}

// Who waits for whom.

#[test]
fn a_large_file_that_another_program_removes_keeps_no_shard_waiting() {
    let (place, other) = (memory(), memory());
    fs::write(other.path().join("f"), "data").unwrap();
    let large = place.path().join("large");
    run("fallocate", &["-l", "4G", large.to_str().unwrap()]);
    let known = Known::new(BOUNDS);
    let (store, others) = (behind(&known, place.path(), read_only()), behind(&known, other.path(), read_only()));
    drop(found(&store, "large", Use::Read));
    drop(found(&others, "f", Use::Read));
    let longest = std::thread::scope(|scope| {
        let shard = scope.spawn(|| {
            waiting::forbid(waiting::Forbidden::Panics);
            waiting::discard_to(Box::new(|_, discarded| drop(std::thread::spawn(move || drop(discarded)))));
            let (begun, mut longest) = (Instant::now(), Duration::ZERO);
            while begun.elapsed() < Duration::from_secs(3) {
                store::arrived();
                let asked = Instant::now();
                assert!(others.try_resolve(&path("f"), Use::Read).is_ok());
                longest = longest.max(asked.elapsed());
                std::thread::sleep(Duration::from_millis(80));
            }
            longest
        });
        std::thread::sleep(Duration::from_millis(500));
        // The thread that hears of it closes what is kept open last, while everybody who wants to hear news waits.
        fs::remove_file(&large).unwrap();
        shard.join().unwrap()
    });
    assert!(longest < Duration::from_millis(50), "an answer from memory took {longest:?}");
}

#[test]
fn a_file_whose_closing_hangs_keeps_no_shard_from_what_is_in_memory() {
    let _alone = HANGING.lock();
    let (place, other) = (memory(), memory());
    let known = Known::new(BOUNDS);
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(place.path(), read_only()).unwrap());
    let hangs = CachedStore::new(Arc::new(Late { store, after: After::default() }), Arc::clone(&known), BELIEF);
    let others = behind(&known, other.path(), read_only());
    for number in 0..24 {
        let name = format!("f{number}");
        [&place, &other].iter().for_each(|place| fs::write(place.path().join(&name), "data").unwrap());
        drop((found(&hangs, &name, Use::Read), found(&others, &name, Use::Read)));
    }
    CLOSING_HANGS.store(true, Ordering::SeqCst);
    let answered = std::thread::scope(|scope| {
        // As when something is mounted, descriptors are scarce, or a share has gone.
        scope.spawn(|| hangs.forget());
        std::thread::sleep(Duration::from_millis(200));
        let (sender, told) = std::sync::mpsc::channel();
        let others = &others;
        scope.spawn(move || {
            waiting::forbid(waiting::Forbidden::Panics);
            let all = (0..24).all(|number| others.try_resolve(&path(&format!("f{number}")), Use::Read).is_ok());
            let _ = sender.send(all);
        });
        let answered = told.recv_timeout(Duration::from_secs(3));
        CLOSING_HANGS.store(false, Ordering::SeqCst);
        answered
    });
    assert_eq!(answered, Ok(true), "within three seconds, from memory, of a share of another file system");
    // Who says so holds what others wait for.
    type Act = fn(CachedStore) -> Option<CachedStore>;
    let acts: [(_, Act); 3] = [
        ("forgotten", |store| {
            store.forget();
            Some(store)
        }),
        ("switched off", |store| {
            store.switch(false);
            Some(store)
        }),
        ("let go of", |_| None),
    ];
    let mut kept = Some(hangs);
    for (what, act) in acts {
        let hangs = kept.take().unwrap();
        hangs.switch(true);
        drop(found(&hangs, "f0", Use::Read));
        let begun = Instant::now();
        let unblocks = closing_hangs(Duration::from_secs(2));
        kept = act(hangs);
        let took = begun.elapsed();
        unblocks.join().unwrap();
        assert!(took < Duration::from_secs(1), "{what} in {took:?}");
    }
}

/// Closing a [`LateNode`] waits for so long.
fn closing_hangs(time: Duration) -> std::thread::JoinHandle<()> {
    CLOSING_HANGS.store(true, Ordering::SeqCst);
    std::thread::spawn(move || {
        std::thread::sleep(time);
        CLOSING_HANGS.store(false, Ordering::SeqCst);
    })
}

#[test]
fn a_file_whose_closing_hangs_keeps_nobody_of_another_share_waiting() {
    let _alone = HANGING.lock();
    let (place, other) = (memory(), memory());
    // So few that what one opens has what the other keeps open go.
    let known = Known::new(CacheBounds { descriptors: 4, ..BOUNDS });
    let store: Arc<dyn Store> = Arc::new(DirectoryStore::open(place.path(), read_only()).unwrap());
    let hangs = CachedStore::new(Arc::new(Late { store, after: After::default() }), Arc::clone(&known), BELIEF);
    let others = behind(&known, other.path(), read_only());
    let names: Vec<_> = (0..8).map(|number| format!("f{number}")).collect();
    for name in &names {
        [&place, &other].iter().for_each(|place| fs::write(place.path().join(name), "data").unwrap());
        drop(found(&hangs, name, Use::Read));
    }
    let begun = Instant::now();
    let unblocks = closing_hangs(Duration::from_secs(3));
    names.iter().for_each(|name| drop(found(&others, name, Use::Read)));
    assert!(begun.elapsed() < Duration::from_secs(2), "opened in {:?}", begun.elapsed());
    // What is kept open of a file that was removed goes as soon as if nothing hung.
    hangs.switch(false);
    names.iter().for_each(|name| fs::remove_file(other.path().join(name)).unwrap());
    while descriptors_of(other.path()) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(2), "still open after {:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(20));
    }
    unblocks.join().unwrap();
}

#[test]
fn what_is_switched_off_closes_nothing_of_others() {
    let (place, other) = (memory(), memory());
    [&place, &other].iter().for_each(|place| fs::write(place.path().join("f"), "data").unwrap());
    let known = Known::new(BOUNDS);
    let (store, others) = (behind(&known, place.path(), read_only()), behind(&known, other.path(), read_only()));
    drop((found(&store, "f", Use::Read), found(&others, "f", Use::Read)));
    store.switch(false);
    assert_eq!(descriptors_of(other.path()), 1);
}

#[test]
fn the_kernel_watches_no_more_than_is_known() {
    let place = tempfile::tempdir().unwrap();
    let bounds = CacheBounds { bytes: 32 << 10, descriptors: 2, highest_descriptor: i32::MAX, learns_at_once: true };
    let store = behind(&Known::new(bounds), place.path(), options());
    let watches = || {
        let all = fs::read_dir("/proc/self/fdinfo").unwrap().flatten();
        let text = all.filter_map(|info| fs::read_to_string(info.path()).ok());
        text.map(|text| text.lines().filter(|line| line.starts_with("inotify wd")).count()).max().unwrap_or(0)
    };
    let mut reused = 0;
    for number in 0..400 {
        let name = format!("f{number}");
        let file = place.path().join(&name);
        fs::write(&file, "one").unwrap();
        let before = found(&store, &name, Use::Read).identity();
        fs::remove_file(&file).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        fs::write(&file, "other").unwrap();
        // As it is looked for the first time: nothing is learned.
        store.switch(false);
        let node = found(&store, &name, Use::ReadWrite);
        store.switch(true);
        reused += usize::from(node.identity() == before);
        node.write_at(b"x", 0).unwrap();
    }
    assert!(watches() < 40, "{} watches, {reused} numbers were used again", watches());
}

// Other spellings of a name.

/// A directory is found by that name, and another takes its place.
fn spelled_otherwise(place: &Path, name: &str, spelling: &str) {
    let at = place.join(name);
    fs::create_dir(&at).unwrap();
    let store = behind(&Known::new(BOUNDS), place, read_only());
    let first = found(&store, spelling, Use::Read).identity();
    assert_eq!(first, found(&store, spelling, Use::Read).identity());
    fs::remove_dir(&at).unwrap();
    fs::create_dir(&at).unwrap();
    fs::write(at.join("f"), "data").unwrap();
    std::thread::sleep(Duration::from_secs(12));
    let (cached, truth) = (
        store.resolve(&path(&format!("{spelling}\\f")), Use::Read),
        DirectoryStore::open(place, read_only()).unwrap().resolve(&path(&format!("{spelling}\\f")), Use::Read),
    );
    assert_eq!(format!("{cached:?}"), format!("{truth:?}"), "twelve seconds later");
}

#[test]
fn a_directory_is_seen_that_took_anothers_place_when_its_bytes_are_spelled() {
    // U+F0C3 U+F0A9 stand for the two bytes of the letter.
    spelled_otherwise(memory().path(), "\u{e9}", "\u{f0c3}\u{f0a9}");
}

#[test]
fn an_open_takes_no_more_descriptors_than_it_is_charged_for() {
    const OPENS: usize = 200;
    let place = memory();
    for number in 0..OPENS {
        fs::create_dir(place.path().join(format!("d{number}"))).unwrap();
    }
    let all = || fs::read_dir("/proc/self/fd").unwrap().count();
    let held = |store: &dyn Store| {
        let before = all();
        let nodes: Vec<_> = (0..OPENS).map(|number| found(store, &format!("d{number}"), Use::Read)).collect();
        for node in &nodes {
            let mut cursor = Cursor::default();
            while node.names().unwrap().list(&mut cursor, &mut |_| std::ops::ControlFlow::Continue(())).unwrap() {}
        }
        all() - before
    };
    let truth = held(&DirectoryStore::open(place.path(), read_only()).unwrap());
    let cached = held(&behind(&Known::new(CacheBounds { descriptors: 16, ..BOUNDS }), place.path(), read_only()));
    assert!(
        cached <= truth + 20,
        "{OPENS} opens of directories that are listed hold {cached} descriptors, {truth} without the cache"
    );
}

#[test]
fn a_file_system_can_be_unmounted_once_its_share_has_gone() {
    if !is_in_namespace("cached_apart::a_file_system_can_be_unmounted_once_its_share_has_gone") {
        return;
    }
    let place = memory();
    run("mount", &["-t", "tmpfs", "none", place.path().to_str().unwrap()]);
    fs::write(place.path().join("f"), "data").unwrap();
    let store = behind(&Known::new(BOUNDS), place.path(), options());
    std::thread::sleep(Duration::from_millis(300));
    drop(found(&store, "f", Use::Read));
    drop(store);
    run("umount", &[place.path().to_str().unwrap()]);
}

#[test]
fn what_is_lost_of_the_news_is_not_believed() {
    use std::os::unix::fs::PermissionsExt;
    let place = memory();
    for number in 0..10 {
        fs::write(place.path().join(format!("f{number}")), "data").unwrap();
    }
    let store = behind(&Known::new(BOUNDS), place.path(), read_only());
    for round in 0..20u8 {
        let told = |number: usize| found(&store, &format!("f{number}"), Use::Read).extras().security().unwrap();
        (0..10).for_each(|number| drop((told(number), told(number))));
        for number in 0..30_000 {
            let mode = fs::Permissions::from_mode(0o600 + (number & 1));
            fs::set_permissions(place.path().join(format!("f{}", number % 10)), mode).unwrap();
        }
        for number in 0..10 {
            let at = place.path().join(format!("f{number}"));
            rustix::fs::setxattr(&at, "user.multilane.sd", &[round; 8], rustix::fs::XattrFlags::empty()).unwrap();
        }
        (0..10).for_each(|number| assert_eq!(told(number), Some(vec![round; 8])));
    }
}
